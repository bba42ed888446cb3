"""Files to import: read within one folder, with limits, and with the place of everything. Links are not followed."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase
from functools import cached_property
from pathlib import Path
from typing import Any

from msgspec import Struct

from rejoinder.errors import UsageError
from rejoinder.imports.remarks import Remarks
from rejoinder.project.files import FileFault, in_quotes, read_text
from rejoinder.suite.datasets import SUFFIXES, read_rows
from rejoinder.suite.document_paths import DocumentPath
from rejoinder.suite.yaml import Document, YamlFault, parse_yaml
from rejoinder.words.numbers import listed
from rejoinder.yaml_text import Comment

MOST_FILES = 5000
"""Maximum number of files that are looked at in a folder."""
MOST_BYTES = 16 * 1024 * 1024
"""Maximum size of a file."""
MOST_ROWS = 100_000
"""Maximum number of rows of a data set that are read. A data set that is only named may have any size."""
_PASSED_OVER = frozenset({"node_modules", "__pycache__", "venv", "site-packages"})


class ImportFault(UsageError):
    """A source cannot be imported: where, and why."""

    def __init__(self, file: str, line: int, what: str, how: str = "") -> None:
        super().__init__(f"{file}:{line}: {what}" if line else f"{file}: {what}", how or None)
        self.file = file
        self.line = line
        self.what = what
        self.how = how


class SourceFolder:
    """The folder that an import may read: nothing outside of it, and nothing through a link."""

    def __init__(self, root: Path) -> None:
        self.root = Path(os.path.abspath(root))  # noqa: PTH100 - a link to the folder itself is the user's
        self._files: dict[Path, SourceFile] = {}

    def name(self, path: Path) -> str:
        """The path as it is shown and written."""
        return path.relative_to(self.root).as_posix()

    def locate(self, written: str, beside: Path) -> Path:
        """The path of a file that a source names. Raises FileFault if it is outside of the folder, or behind a link."""
        if "\0" in written:
            raise FileFault("file-not-found", f"{in_quotes(written)} cannot be the name of a file")
        path = Path(os.path.normpath(beside.parent / written))
        if not path.is_relative_to(self.root):
            hint = "import the folder that has both"
            raise FileFault("unreadable-file", f"{in_quotes(written)} is outside of the imported folder; {hint}")
        below = self.root
        for part in path.relative_to(self.root).parts:
            below /= part
            if below.is_symlink():
                raise FileFault("unreadable-file", f"{in_quotes(written)} leads through a link, which is not followed")
        return path

    def text(self, path: Path) -> str:
        """The text of a file. Raises FileFault."""
        return read_text(path, MOST_BYTES)

    def matching(self, pattern: str, beside: Path) -> list[Path]:
        """The files that a pattern with `*`, `?` or `[ab]` names, by name. Raises FileFault."""
        start = self.locate("/".join(_before_stars(pattern)) or ".", beside)
        wanted = Path(os.path.normpath(beside.parent / pattern)).parts
        files = [start] if start.is_file() else list(self.files(start))
        return [file for file in files if _fits(file.parts, wanted)]

    def files(self, folder: Path) -> Iterator[Path]:
        """The files of a folder and of those below it, by path; hidden ones and links are left out."""
        found: list[Path] = []
        for inside, folders, names in os.walk(folder):
            folders[:] = sorted(name for name in folders if name not in _PASSED_OVER and not name.startswith("."))
            paths = (Path(inside, name) for name in names if not name.startswith("."))
            found += (path for path in paths if not path.is_symlink())
            if len(found) > MOST_FILES:
                raise FileFault("too-large", f"{in_quotes(folder.name)} has more than {MOST_FILES:,} files")
        return iter(sorted(found))

    def read(self, path: Path) -> SourceFile:
        """A file of YAML or JSON; a data set is not read yet. Raises ImportFault."""
        if path not in self._files:
            is_data_set = path.name.lower().endswith(SUFFIXES)
            self._files[path] = SourceFile(self, path, Document("", None)) if is_data_set else self._parsed(path)
        return self._files[path]

    def _parsed(self, path: Path) -> SourceFile:
        name = self.name(path)
        try:
            document = parse_yaml(self.text(path))
        except FileFault as fault:
            raise ImportFault(name, 0, fault.message) from None
        except YamlFault as fault:
            raise ImportFault(name, fault.line, fault.message) from None
        for fault in document.faults:
            raise ImportFault(name, fault.line, fault.message)
        return SourceFile(self, path, document)


def _before_stars(pattern: str) -> list[str]:
    """The parts of a pattern before the first one with a star."""
    parts: list[str] = []
    for part in pattern.split("/"):
        if any(sign in part for sign in "*?["):
            break
        parts.append(part)
    return parts


def _fits(names: Sequence[str], pattern: Sequence[str]) -> bool:
    """Whether a path fits a pattern part by part; `**` stands for any number of folders."""
    reached = {0}  # positions in `names` to which the parts so far can lead
    for part in pattern:
        if part == "**":
            reached = set(range(min(reached, default=len(names) + 1), len(names) + 1))
        else:
            reached = {at + 1 for at in reached if at < len(names) and fnmatchcase(names[at], part)}
    return len(names) in reached


class SourceFile:
    """A file of a source: its data, and the place and the comments of everything in it."""

    def __init__(self, folder: SourceFolder, path: Path, document: Document) -> None:
        self.folder = folder
        self.path = path
        self.name = folder.name(path)
        self.document = document

    @cached_property
    def remarks(self) -> Remarks:
        return Remarks(self.document)

    @property
    def spot(self) -> Spot:
        return Spot(self, (), self.document.data)

    @property
    def is_data_set(self) -> bool:
        return self.document.node is None and self.path.name.lower().endswith(SUFFIXES)

    def rows(self) -> Iterator[Spot]:
        """The rows of a data set, or the items of a list. Raises ImportFault."""
        return self.spot.rows_of(self.path) if self.is_data_set else self.spot.items

    def line(self, path: DocumentPath) -> int:
        return self.document.place(path, key=True)[0]

    def last_line(self, path: DocumentPath) -> int:
        return self.document.last_line(path)


class Spot(Struct, frozen=True):
    """A value of a source, and its place."""

    file: SourceFile
    path: DocumentPath
    value: Any
    row: int | None = None
    """The line of a row of a data set, in which no path leads further."""

    def __contains__(self, key: str) -> bool:
        return isinstance(self.value, dict) and key in self.value

    def __getitem__(self, key: str | int) -> Spot:
        """The value under a key, or at a position; None in place of one that is missing."""
        return Spot(self.file, (*self.path, key), _at(self.value, key), self.row)

    @property
    def pairs(self) -> Iterator[tuple[str, Spot]]:
        """The keys of a mapping; nothing for any other value."""
        for key in self.value if isinstance(self.value, dict) else ():
            yield key, self[key]

    @property
    def items(self) -> Iterator[Spot]:
        """The items of a list; any other value is its only item."""
        if isinstance(self.value, list):
            yield from (self[place] for place in range(len(self.value)))
        elif self.value is not None:
            yield self

    @property
    def line(self) -> int:
        return self.file.line(self.path) if self.row is None else self.row

    def above(self) -> list[Comment]:
        """The comments above it; each is handed out once."""
        return [] if self.row is not None else [Comment(text) for text in self.file.remarks.above(self.line)]

    def beside(self) -> str | None:
        """The comment at the end of its line."""
        return None if self.row is not None else self.file.remarks.beside(self.line)

    def within(self) -> list[Comment]:
        """The comments in it; each is handed out once."""
        if self.row is not None:
            return []
        found = self.file.remarks.within(self.line, self.file.last_line(self.path))
        return [Comment(text) for text in found]

    def of(self, value: Any) -> Spot:
        """Another value at the same place, such as one that is written here as JSON in a text."""
        return Spot(self.file, self.path, value, self.row)

    def fault(self, what: str, how: str = "") -> ImportFault:
        return ImportFault(self.file.name, self.line, what, how)

    def locate(self, written: str, beside: Path | None = None) -> Path:
        """The path of a file that is named here, from its own file's folder or from that of another. Raises
        ImportFault."""
        try:
            return self.file.folder.locate(written, beside or self.file.path)
        except FileFault as fault:
            raise self.fault(fault.message) from None

    def matching(self, pattern: str) -> list[Path]:
        """The files of a pattern that is written here. Raises ImportFault."""
        try:
            return self.file.folder.matching(pattern, self.file.path)
        except FileFault as fault:
            raise self.fault(fault.message) from None

    def text_of(self, path: Path) -> str:
        """The text of a file that is named here. Raises ImportFault."""
        try:
            return self.file.folder.text(path)
        except FileFault as fault:
            raise self.fault(fault.message) from None

    def rows_of(self, path: Path) -> Iterator[Spot]:
        """The rows of a CSV or JSONL file that is named here. Raises ImportFault."""
        from rejoinder.model import Problem

        file = self.file.folder
        source = SourceFile(file, path, Document("", None))
        for row in read_rows(path, source.name, file.root):
            if isinstance(row, Problem):
                raise ImportFault(source.name, row.line, row.message)
            if row.number > MOST_ROWS:
                raise ImportFault(source.name, 0, f"it has more than {MOST_ROWS:,} rows", "Import a part of it.")
            yield Spot(source, (), row.values, row.source.number)


def _at(value: Any, key: str | int) -> Any:
    if isinstance(value, dict):
        return value.get(key)
    if isinstance(value, list) and isinstance(key, int) and 0 <= key < len(value):
        return value[key]
    return None


def words_of_files(names: Sequence[str]) -> str:
    return listed([f"`{name}`" for name in names], "or")
