"""Files of a run folder, opened so that an untrusted folder cannot do harm.

A run folder may come from a colleague or with a cloned repository. A link in it could redirect a write to any file of
the user, and a pipe could block a read forever. So links, pipes and devices are refused; a file is replaced by a draft
that is created under a name that cannot be guessed.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Generator, Iterable, Iterator
from contextlib import contextmanager, suppress
from hashlib import sha256
from pathlib import Path
from typing import BinaryIO

from rejoinder.errors import RejoinderError

_NO_LINK = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
_NO_WAIT = getattr(os, "O_NONBLOCK", 0)
_DRAFT = ".draft"
SMALL = 1 << 18
"""Bytes of a file that is read at once."""
LONGEST_LINE = 1 << 30
"""Maximum bytes of a record. An answer has at most 64 MiB, and each of its characters is written as at most six."""
_KINDS = (
    (stat.S_ISLNK, "a link"),
    (stat.S_ISFIFO, "a pipe"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISDIR, "a folder"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
)


class RunDamaged(RejoinderError):
    """A file of a run folder is not in the form that rejoinder wrote."""

    exit_code = 3

    def __init__(self, path: Path, reason: str, hint: str | None = None) -> None:
        usual = "If its journal.jsonl is whole, delete this file and use `rejoinder resume` to derive it again."
        super().__init__(f"{path} is damaged: {reason}", hint or usual)
        self.path = path
        self.reason = reason


def refuse_special_files(folder: Path) -> None:
    """Raises RunDamaged for a link, pipe, socket or device in a run folder; rejoinder writes none."""
    with os.scandir(folder) as entries:
        for entry in entries:
            with suppress(FileNotFoundError):  # a draft that has taken the place of its file meanwhile
                _refuse_special(Path(entry.path), entry.stat(follow_symlinks=False).st_mode, folders=True)


def linked_folder(folder: Path) -> Path | None:
    """The link in place of a folder in `.rejoinder`, or in place of `.rejoinder` itself; None if there is none."""
    return next((path for path in (folder.parent, folder) if path.is_symlink()), None)


def refuse_linked_folder(folder: Path) -> None:
    """Raises RunDamaged if a link would redirect writes to a folder in `.rejoinder` out of the project."""
    if (link := linked_folder(folder)) is not None:
        raise RunDamaged(link, "it is a link", "rejoinder makes a plain folder there. Delete the link.")


def make_folder(folder: Path) -> None:
    """Make a folder in `.rejoinder` if it is missing. Raises OSError, or RunDamaged for a link or a file in
    its place."""
    refuse_linked_folder(folder)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError):
        reason = "it is not a folder, or not in one"
        raise RunDamaged(folder, reason, "Delete the file or link in its place.") from None


def open_file(path: Path) -> BinaryIO:
    """A file of a run folder for reading. Raises OSError, or RunDamaged if it is not a regular file."""
    _refuse_special(path, path.lstat().st_mode)
    handle = os.open(path, os.O_RDONLY | _NO_LINK | _NO_WAIT)
    stream = os.fdopen(handle, "rb", buffering=1 << 20)
    try:
        _refuse_special(path, os.fstat(handle).st_mode)
    except RunDamaged:
        stream.close()
        raise
    return stream


def read_whole(path: Path, most: int, hint: str | None = None) -> bytes:
    """The bytes of a file of a run folder. Raises the errors of `open_file`; also RunDamaged, without reading, for a
    file with more bytes than `most`. Memory is allocated only for the actual size."""
    with open_file(path) as stream:
        size = os.fstat(stream.fileno()).st_size
        if size > most:
            raise RunDamaged(path, "it is too large", hint)
        return stream.read(size)


def lines_of(stream: BinaryIO, path: Path) -> Iterable[bytes]:
    """The lines of a file; a small file is read at once. Raises RunDamaged for a line that is too long to be our
    record."""
    return stream.readlines() if os.fstat(stream.fileno()).st_size <= SMALL else _each_line(stream, path)


def _each_line(stream: BinaryIO, path: Path) -> Iterator[bytes]:
    while line := stream.readline(LONGEST_LINE + 1):
        if len(line) > LONGEST_LINE:
            raise RunDamaged(path, "a line is too long", "Start a new run.")
        yield line


def sums_of(paths: Iterable[Path]) -> list[str]:
    """The SHA-256 of each file, as hexadecimal digits. Raises the errors of `open_file`."""
    return list(map(_sum_of, paths))


def _sum_of(path: Path) -> str:
    content = sha256()
    with open_file(path) as stream:
        while block := stream.read(1 << 20):
            content.update(block)
    return content.hexdigest()


def open_to_append(path: Path) -> int:
    """A handle of a file of a run folder, for writing at its end. Raises the errors of `open_file`."""
    with suppress(FileNotFoundError):
        _refuse_special(path, path.lstat().st_mode)
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | _NO_LINK | _NO_WAIT, 0o644)
    try:
        _refuse_special(path, os.fstat(handle).st_mode)
    except RunDamaged:
        os.close(handle)
        raise
    return handle


@contextmanager
def replace_file(path: Path, *, durable: bool = True) -> Generator[BinaryIO]:
    """A stream for the new content of a file, which replaces it whole or not at all. `durable`: flush it to the disk
    before."""
    draft, stream = open_draft(path)
    try:
        with stream:
            yield stream
            stream.flush()
            if durable:
                os.fsync(stream.fileno())
        draft.replace(path)
    except BaseException:
        with suppress(OSError):
            draft.unlink()
        raise


@contextmanager
def write_whole(path: Path) -> Generator[BinaryIO]:
    """A stream for the new content of a file that the user names: it replaces the file whole or not at all. A link is
    followed. A file that is not regular, such as a pipe, is written directly, and so is a file in a folder that accepts
    no new files. Raises OSError."""
    place = path.resolve()
    is_plain = place.is_file() or not path.exists()
    if not is_plain or path.absolute().parts[1:2] in (("dev",), ("proc",)) or not os.access(place.parent, os.W_OK):
        with path.open("wb") as stream:
            yield stream
        return
    with replace_file(place, durable=False) as stream:
        if place.exists():
            place.open("ab").close()  # one that is protected is not replaced
            if hasattr(os, "fchmod"):
                os.fchmod(stream.fileno(), stat.S_IMODE(place.stat().st_mode))
        yield stream


def open_draft(path: Path) -> tuple[Path, BinaryIO]:
    """A new file beside `path`, for reading and writing."""
    draft = path.with_name(f".{path.name}.{os.urandom(8).hex()}{_DRAFT}")
    handle = os.open(draft, os.O_RDWR | os.O_CREAT | os.O_EXCL | _NO_LINK, 0o644)
    return draft, os.fdopen(handle, "w+b", buffering=1 << 20)


def sweep_drafts(folder: Path) -> None:
    """Delete the drafts of a killed process. Only with the folder's lock: other drafts are in use."""
    for draft in folder.glob(f".*{_DRAFT}"):
        with suppress(OSError):
            draft.unlink()


def _refuse_special(path: Path, mode: int, *, folders: bool = False) -> None:
    if stat.S_ISREG(mode) or (folders and stat.S_ISDIR(mode)):
        return
    kind = next((name for test, name in _KINDS if test(mode)), "not a file")
    raise RunDamaged(path, f"it is {kind}", "rejoinder writes only plain files there. Delete it if you do not know it.")
