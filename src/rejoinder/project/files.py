"""Files: found by an author's path, read as text, refused with a reason.

A path is tried from the suite's folder, then from each folder above it up to the project's root, then from the working
directory. A path with a leading slash is tried below those folders, then below the repository root, then as absolute.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import stat
from collections.abc import Generator, Iterable, Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar

from rejoinder.errors import reason_of
from rejoinder.project.folders import folder_name, upward
from rejoinder.spelling import nearest
from rejoinder.words.numbers import listed

_T = TypeVar("_T")

MOST_ATTACHED_BYTES = 10 * 1024 * 1024
MOST_TEXTS = 64
MOST_CHARACTERS = 16 * 1024 * 1024
"""Maximum number of texts that a finder keeps, and their total length."""
CERTIFICATE_SETTING = "client_cert"
"""A target's setting: the path of a PEM file with a certificate and its private key, or a mapping of `cert`, `key` and
`password`. Servers identify their client by these files."""
CERTIFICATE_SPELLINGS = (CERTIFICATE_SETTING, "clientCert")
_NO_WAITING = getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
_recorders: list[set[Path]] = []
"""Sets that collect the files that are read."""


class FileFault(Exception):
    """A file cannot be used; `code` is one of the codes of `rejoinder validate`."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


@contextlib.contextmanager
def recording_files() -> Generator[set[Path]]:
    """Collect the files that are read during the block."""
    read: set[Path] = set()
    _recorders.append(read)
    try:
        yield read
    finally:
        _recorders.pop()


def record_file(path: Path) -> None:
    """Name a file, or a folder, to those who collect what is read."""
    for read in _recorders:
        read.add(path)


def read_text(path: Path, most_bytes: int = MOST_ATTACHED_BYTES) -> str:
    """The file's text, without a BOM. Raises FileFault; never waits on a pipe and never reads a huge file."""
    return decode(read_bytes(path, most_bytes), path.name)


def read_bytes(path: Path, most_bytes: int) -> bytes:
    """The file's content, with the same limits. Raises FileFault."""
    size = measure(path)
    if size > most_bytes:
        raise too_large(path.name, size, most_bytes)
    try:
        # What looks empty may be a device of the system that never ends, or a file that grows.
        with os.fdopen(os.open(path, os.O_RDONLY | _NO_WAITING), "rb") as file:
            content = file.read(most_bytes + 1)
    except OSError as error:
        raise _os_fault(path, error) from None
    if len(content) > most_bytes:
        raise too_large(path.name, len(content), most_bytes)
    return content


def measure(path: Path) -> int:
    """The size of a regular file; anything else is refused before it is opened. Every file is measured before it is
    read."""
    record_file(path)
    try:
        status = path.stat()
    except OSError as error:
        raise _os_fault(path, error) from None
    except ValueError:  # a NUL in the name
        raise FileFault("file-not-found", f"{in_quotes(str(path))} cannot be the name of a file") from None
    if not stat.S_ISREG(status.st_mode):
        is_folder = stat.S_ISDIR(status.st_mode)
        kind = "a folder; name a file in it" if is_folder else "a pipe or a device; name a file"
        raise FileFault("unreadable-file", f"{in_quotes(path.name)} is {kind}")
    return status.st_size


def decode(content: bytes, name: str) -> str:
    if content[:2] in (b"\xff\xfe", b"\xfe\xff"):
        raise FileFault("not-utf8", f"{in_quotes(name)} is UTF-16; save it as UTF-8")
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError as error:
        what = "is a binary file" if b"\0" in content[:8192] else f"is not UTF-8 (at byte {error.start})"
        raise FileFault("not-utf8", f"{in_quotes(name)} {what}; only UTF-8 text can be used") from None
    if "\0" in text:
        raise FileFault("not-utf8", f"{in_quotes(name)} is a binary file; only UTF-8 text can be used")
    return text.removeprefix("\ufeff")


def too_large(name: str, size: int, most_bytes: int) -> FileFault:
    megabytes = f"{size / 1024 / 1024:.1f} MB" if size >= 1024 * 1024 else f"{size} bytes"
    limit = f"the limit is {most_bytes // 1024 // 1024} MB"
    return FileFault("too-large", f"{in_quotes(name)} is too large ({megabytes}); {limit}")


def in_quotes(name: str) -> str:
    """A name for a message: control characters are made visible, backslashes stay single."""
    return repr(name).replace("\\\\", "\\")


def near_name(path: Path) -> str | None:
    """The name in the same folder that the author most probably meant."""
    try:
        with os.scandir(path.parent) as entries:
            files = (entry.name for entry in islice(entries, 2000) if not entry.is_dir())
            names = [name for name in files if not name.startswith(".")]
    except (OSError, ValueError):
        return None
    names.sort(key=lambda name: (Path(name).suffix == path.suffix, name))
    stems = {Path(name).stem: name for name in names}
    stem = nearest(path.stem, stems, likeness=0.7)
    return stems[stem] if stem else None


def _os_fault(path: Path, error: OSError) -> FileFault:
    if error.errno in (errno.ENOENT, errno.ENOTDIR, errno.ENAMETOOLONG):
        near = near_name(path)
        hint = f"; did you mean `{path.with_name(near)}`?" if near else ""
        return FileFault("file-not-found", f"there is no file {in_quotes(str(path))}{hint}")
    reason = "its symbolic links form a loop" if error.errno == errno.ELOOP else reason_of(error)
    return FileFault("unreadable-file", f"{in_quotes(path.name)} cannot be read: {reason}")


class Finder:
    """Finds and reads the files of one suite; recently used ones are kept in memory."""

    def __init__(self, folder: Path, root: Path, working: Path, repository: Path | None = None) -> None:
        self.root = root
        self.repository = repository or root
        self.roots = _unique([*upward(folder, root), root, working])
        self._found: dict[str, Path | None] = {}
        self._texts: dict[Path, str | FileFault] = {}
        self._kept = 0

    def find(self, written: str) -> Path | None:
        if written not in self._found:
            there = [path for path in self._candidates(written) if _exists(path)]
            files = (path for path in there if not path.is_dir())  # a folder must not hide a file further up
            self._found[written] = next(files, there[0] if there else None)
        return self._found[written]

    def seen_from_roots(self, path: Path) -> tuple[str, ...]:
        """The file's path relative to the project root and to the repository root, if it is below them."""
        absolute = Path(os.path.normpath(path))
        roots = [root for root in _unique([self.root, self.repository]) if absolute.is_relative_to(root)]
        return tuple(absolute.relative_to(root).as_posix() for root in roots)

    def read(self, path: Path) -> str:
        known = self._texts.pop(path, None)
        if known is None:
            known = self._read(path)
        self._texts[path] = known  # the last to be forgotten
        if isinstance(known, FileFault):
            raise known
        return known

    def _read(self, path: Path) -> str | FileFault:
        try:
            text = read_text(path)
        except FileFault as fault:
            text = fault
        self._kept += _size(text)
        while self._texts and (len(self._texts) >= MOST_TEXTS or self._kept > MOST_CHARACTERS):
            self._kept -= _size(self._texts.pop(next(iter(self._texts))))
        return text

    def explain_missing(self, written: str) -> str:
        """The message about a missing file: the searched folders, and the name that was probably meant."""
        if not written.strip():
            return "the path is empty"
        folders = listed([folder_name(root) for root in self._roots_for(written)])
        near = next(filter(None, map(near_name, self._candidates(written))), None)
        name = re.split(r"[/\\]", written)[-1]
        hint = f"; did you mean `{written.removesuffix(name)}{near}`?" if near and name else ""
        return f"there is no file {in_quotes(written)} in {folders}{hint}"

    def _roots_for(self, written: str) -> list[Path]:
        return _unique([*self.roots, self.repository]) if written.startswith("/") else self.roots

    def _candidates(self, written: str) -> Iterator[Path]:
        spellings = _unique([written, written.replace("\\", "/")])
        for spelling in spellings:
            relative = spelling.lstrip("/")
            if relative:
                yield from (root / relative for root in self._roots_for(spelling))
            if spelling != relative:
                yield Path(spelling)


def _size(text: str | FileFault) -> int:
    return len(text) if isinstance(text, str) else 0


def _exists(path: Path) -> bool:
    """Whether the name exists. A circular link counts: reading it gives the better message."""
    try:
        path.stat()
    except OSError as error:
        return error.errno == errno.ELOOP
    except ValueError:
        return False
    return True


def _unique(items: list[_T]) -> list[_T]:
    return list(dict.fromkeys(items))


def certificate_files(value: Any) -> dict[tuple[str, ...], str]:
    """The written paths, each with its place in the setting."""
    if isinstance(value, str):
        return {(): value} if value.strip() else {}
    fields: Mapping[str, Any] = value if isinstance(value, dict) else {}
    paths = {(name,): fields.get(name) for name in ("cert", "key")}
    return {place: path for place, path in paths.items() if isinstance(path, str) and path.strip()}


def find_certificate(written: str, folders: Iterable[str]) -> Path | None:
    """The file, looked for in the folders and in the working directory."""
    path = Path(written.strip()).expanduser()
    return next((place for folder in (*folders, "") if (place := Path(folder, path)).is_file()), None)


def explain_missing_certificate(written: str, folders: Iterable[str]) -> str:
    searched = dict.fromkeys(folder_name(Path(folder).absolute()) for folder in (*folders, ""))
    return f"there is no file `{written}` for `{CERTIFICATE_SETTING}` in {listed(list(searched))}"
