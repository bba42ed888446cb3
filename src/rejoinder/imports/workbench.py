"""An import from the first file to the last: finds the sources, has each converted, and writes what was made."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from fnmatch import fnmatchcase
from importlib import import_module
from pathlib import Path
from typing import Any

from rejoinder.errors import UsageError, reason_of
from rejoinder.imports.kinds import ImportKind
from rejoinder.imports.ledger import ImportReport, Ledger
from rejoinder.imports.sources import ImportFault, SourceFile, SourceFolder, Spot, words_of_files
from rejoinder.project.files import FileFault, in_quotes
from rejoinder.yaml_text import to_document

_SUFFIXES = (".yaml", ".yml", ".json", ".jsonl", ".csv")


class Workbench:
    """The account of an import, and the files that it makes."""

    def __init__(self, folder: SourceFolder, out: Path | None, choice: str = "") -> None:
        self.folder = folder
        self.choice = choice
        """The value of the kind's option."""
        self.out = None if out is None else Path(os.path.abspath(out))  # noqa: PTH100 - no link is resolved
        self.ledger = Ledger()
        self.made: dict[str, str] = {}
        """The texts of the files to write, by their path below `out`."""
        self._place = Path()
        """The folder of the current source, and of its suite, below the folder of all."""

    @property
    def place(self) -> Path:
        """The folder of the current suite."""
        return (self.out or Path.cwd()) / self._place

    def begin(self, path: Path, *, is_alone: bool = False) -> None:
        """Begin with a source: what is made from here on is its. The suite of a file that is alone needs no folder."""
        name = self.folder.name(path)
        self._place = Path() if is_alone else Path(name).parent
        self.ledger.begin(name)

    def suite(self, source: SourceFile, document: dict[Any, Any]) -> None:
        """Add the suite that was made of a source."""
        self.beside(suite_name(source.path), to_document(document))

    def beside(self, name: str, text: str) -> str:
        """Add another file beside the suite; its name, as the suite has to write it. An equal file is written once; a
        different one of this name gets a number."""
        stem, dot, suffix = name.partition(".")
        for number in range(1, len(self.made) + 2):
            written = name if number == 1 else f"{stem}-{number}{dot}{suffix}"
            if self.made.setdefault((self._place / written).as_posix(), text) == text:
                return written
        raise AssertionError("one more name than there are files")

    def reference(self, spot: Spot, path: Path) -> str:
        """The path of a source's file, as the suite has to write it. A file that is not below `out` is copied there."""
        if self.out is None or path.is_relative_to(self.out):
            return self.link(spot, path)
        name = self.folder.name(path)
        if self.made.setdefault(name, text := spot.text_of(path)) != text:
            raise spot.fault(f"{in_quotes(name)} would be written twice", "Import into another folder.")
        return self.link(spot, self.out / name)

    def link(self, spot: Spot, path: Path) -> str:
        """The path of a file or folder that is not copied, as the suite has to write it."""
        written = os.path.relpath(path, self.place).replace(os.sep, "/")
        if "{{" in written:
            raise spot.fault(f"{in_quotes(written)} has braces in its name, where a suite fills in variables")
        return written

    def write(self) -> tuple[str, ...]:
        """Write all files, or none if one of them exists."""
        out = self.out or Path.cwd()
        paths = {out / name: text for name, text in sorted(self.made.items())}
        for path in paths:
            if os.path.lexists(path):
                raise UsageError(
                    f"{_shown(path)} exists already; nothing was written", "Name another folder with --out."
                )
        for path, text in paths.items():
            try:
                path.parent.mkdir(parents=True, exist_ok=True)
                with path.open("x", encoding="utf-8", newline="\n") as file:
                    file.write(text)
            except OSError as error:
                raise UsageError(f"{_shown(path)} cannot be written: {reason_of(error)}") from error
        return tuple(map(_shown, paths))


def _shown(path: Path) -> str:
    """The path from the working folder, if it is in it."""
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else str(path)


def suite_name(path: Path) -> str:
    """The name of the suite that is made of a file: `evals.yaml` for a tool's usual name, and `shop.evals.yaml` for
    `promptfooconfig.shop.yaml`."""
    words = [word for word in path.stem.replace("_", ".").split(".") if word.lower() not in _USUAL]
    return f"{'.'.join(words)}.evals.yaml" if words else "evals.yaml"


_USUAL = frozenset({"promptfooconfig", "evals", "eval", "dataset"})


def import_files(kind: ImportKind, path: Path, out: Path | None, choice: str = "") -> tuple[Workbench, ImportReport]:
    """Convert a file, or all of a folder. Nothing is written yet. Raises ImportFault if a single file cannot be
    imported; of a folder, the others still are."""
    convert: Callable[[SourceFile, Workbench], None] = _function(kind.converts)
    if os.path.isdir(path):  # noqa: PTH112 - an impossible name is just no folder
        folder = SourceFolder(path)
        bench = Workbench(folder, out, choice)
        recognised = _function(kind.recognises) if kind.recognises else None
        for source in _sources(kind, folder):
            _try(convert, source, bench, recognised)
    else:
        file = Path(os.path.abspath(path))  # noqa: PTH100 - a link to the file itself is the user's
        is_inside = bool(kind.inside) and file.parent.name == kind.inside
        folder = SourceFolder(file.parent.parent if is_inside else file.parent)
        bench = Workbench(folder, out, choice)
        bench.begin(file, is_alone=True)
        convert(folder.read(file), bench)
    return bench, bench.ledger.report()


def _function(written: str) -> Any:
    module, _, name = written.partition(":")
    return getattr(import_module(module), name)


def _sources(kind: ImportKind, folder: SourceFolder) -> Iterator[Path]:
    try:
        files = [file for file in folder.files(folder.root) if _is_named(folder.name(file), kind)]
    except FileFault as fault:
        raise UsageError(fault.message) from None
    if not files:
        raise UsageError(
            f"there are no {kind.title} in {folder.root.name}: no file named {words_of_files(kind.patterns)}"
        )
    return iter(files)


def _is_named(name: str, kind: ImportKind) -> bool:
    """Whether a file fits by its name; a pattern with folders is for the end of its path."""
    path = f"/{name.lower()}"
    alone = path.rpartition("/")[2]
    return any(fnmatchcase(path, f"*/{one}") if "/" in one else fnmatchcase(alone, one) for one in kind.patterns)


def _try(
    convert: Callable[[SourceFile, Workbench], None],
    path: Path,
    bench: Workbench,
    recognised: Callable[[SourceFile], bool] | None,
) -> None:
    """Convert a source of a folder. What was made of one that cannot be imported is forgotten, and a file that only has
    such a name is passed over."""
    before = dict(bench.made)
    try:
        if recognised is not None and not recognised(bench.folder.read(path)):
            return
    except ImportFault:
        pass  # it is reported below
    bench.begin(path)
    try:
        convert(bench.folder.read(path), bench)
    except ImportFault as fault:
        bench.made = before
        bench.ledger.refuse(fault)
