"""The price table in a file of the user's cache, made once for each version of genai-prices.

Reading it takes a hundredth of the time of importing the package. Both give the same prices, because a missing file is
replaced by the package's data packed in the same way. A file is trusted only if it is complete, made from the installed
table, and not writable by other users; otherwise it is made again.
"""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO
from zlib import crc32

from msgspec import MsgspecError, Raw, Struct, json

from rejoinder.errors import RejoinderError
from rejoinder.prices.entries import Vendor
from rejoinder.prices.package import Edition, installed_edition, read_package
from rejoinder.project.folders import user_cache
from rejoinder.run_files import open_file, replace_file

FORMAT = 1
"""The version of `entries` and of the way they are filled."""
_LONGEST_HEADER = 1000
_LARGEST = 1 << 24
"""Maximum bytes of a file; it has about a thirtieth of that."""
_OLD_S = 30 * 24 * 3600
_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH

Packed = Mapping[str, Raw]
"""Each vendor of the table as JSON, so that only requested ones are parsed."""


class _Header(Struct, frozen=True, forbid_unknown_fields=True):
    """The first line of a file; the second line holds the vendors."""

    format: int
    edition: Edition
    checksum: int


_read_header = json.Decoder(_Header).decode
_read_packed = json.Decoder(dict[str, Raw]).decode
_read_vendor = json.Decoder(Vendor).decode


class PriceTable:
    """The vendors by their names in the table."""

    def __init__(self) -> None:
        self._vendors: dict[str, Vendor] = {}
        self._packed = read_snapshot() or make_snapshot()

    def vendor(self, name: str) -> Vendor:
        """A vendor. Raises LookupError if the table does not have it."""
        if name not in self._vendors:
            try:
                found = _read_vendor(self._packed[name])
            except (LookupError, MsgspecError, RecursionError):  # not what we wrote
                self._packed = make_snapshot()
                found = _read_vendor(self._packed[name])
            self._vendors[name] = found
        return self._vendors[name]


def read_snapshot() -> Packed | None:
    """The content of the file; None if it is missing or not trusted."""
    edition = installed_edition()
    path = snapshot_path(edition)
    if path is None:
        return None
    try:
        with open_file(path) as stream:
            if not _is_ours(stream):
                return None
            header, content = stream.readline(_LONGEST_HEADER), stream.read()
        if _read_header(header) != _Header(FORMAT, edition, crc32(content)):
            return None
        return _read_packed(content)
    except (OSError, RejoinderError, MsgspecError, RecursionError):
        return None


def make_snapshot() -> Packed:
    """The package's data, which is also written to the file if possible."""
    content = json.encode(read_package())
    edition = installed_edition()
    path = snapshot_path(edition)
    if path is not None:
        with suppress(OSError):
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            with replace_file(path, durable=False) as stream:
                stream.write(json.encode(_Header(FORMAT, edition, crc32(content))) + b"\n" + content)
            _delete_old(path)
    return _read_packed(content)


def snapshot_path(edition: Edition) -> Path | None:
    folder = user_cache()
    return None if folder is None else folder / "prices" / f"{FORMAT}-{edition.version}.json"


def _is_ours(stream: BinaryIO) -> bool:
    """Whether the file is small enough, and only this user can have written it."""
    about = os.fstat(stream.fileno())
    if os.name == "nt" or about.st_size > _LARGEST:  # Windows knows no such bits; the folder is the user's own
        return about.st_size <= _LARGEST
    return about.st_uid == os.geteuid() and not about.st_mode & _OTHERS_WRITE


def _delete_old(path: Path) -> None:
    """Delete snapshots of other versions, and remains of killed processes, after a month."""
    for other in path.parent.iterdir():
        if other != path and time.time() - other.lstat().st_mtime > _OLD_S:
            other.unlink()
