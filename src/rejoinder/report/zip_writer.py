"""An archive of any number of files, in as much memory as one of few.

`zipfile` keeps the directory of an archive in memory until its end, some hundred bytes for each file. Here it lies in a
private database of SQLite without a name, which stays within a small cache and goes to a temporary file beyond it.
"""

from __future__ import annotations

import sqlite3
import struct
import zlib
from collections.abc import Iterable
from shutil import copyfileobj
from tempfile import SpooledTemporaryFile
from types import TracebackType
from typing import BinaryIO

_IN_MEMORY = 1024 * 1024
"""Compressed bytes of one file that are in memory at most; a longer one waits in a temporary file."""
_MOST_FILES = 0xFFFF
_MOST_BYTES = 0xFFFF_FFFF
"""What the plain form of an archive can say. If it is not enough, the field is full and another has the number."""
_PLAIN, _LARGE = 20, 45
"""Versions of the format: the one with compression, and the one with large numbers (zip64)."""
_UTF8, _DEFLATED = 0x800, 8
_UNIX, _MODE = 3 << 8, 0o600 << 16
_DATE = 1 << 5 | 1
"""The first of January 1980: the same run gives the same archive."""


class ZipWriter:
    """Writes to the end of a stream, which need not be able to go back. Raises OSError."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self._offset = 0
        self._directory = sqlite3.connect("", isolation_level=None)
        self._directory.execute("PRAGMA journal_mode = OFF")
        self._directory.execute("PRAGMA temp_store = FILE")
        self._directory.execute("CREATE TABLE files (place INTEGER PRIMARY KEY, name UNIQUE, entry)")
        self._directory.execute("BEGIN")  # and never ended: nothing is to be kept

    def __enter__(self) -> ZipWriter:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        try:
            if kind is None:
                self._finish()
        finally:
            self._directory.close()

    def add(self, name: str, pieces: Iterable[bytes]) -> None:
        """Add a file, compressed. One whose name is there already is left out."""
        packer = zlib.compressobj(zlib.Z_DEFAULT_COMPRESSION, zlib.DEFLATED, -zlib.MAX_WBITS)
        checksum = size = 0
        with SpooledTemporaryFile(_IN_MEMORY) as packed:
            for piece in pieces:
                checksum = zlib.crc32(piece, checksum)
                size += len(piece)
                packed.write(packer.compress(piece))
            packed.write(packer.flush())
            packed_size = packed.tell()
            packed.seek(0)
            path = name.encode()
            start, entry = _headers(path, checksum, (size, packed_size, self._offset))
            if self._list(path, entry):
                self._write(start)
                copyfileobj(packed, self._stream)
                self._offset += packed_size

    def _list(self, path: bytes, entry: bytes) -> bool:
        """Whether it is new."""
        try:
            added = self._directory.execute("INSERT OR IGNORE INTO files VALUES (NULL, ?, ?)", (path, entry))
        except sqlite3.Error as error:
            raise OSError(f"the list of its files has no room: {error}") from None
        return added.rowcount > 0

    def _finish(self) -> None:
        """The directory, and where it is."""
        start, files = self._offset, 0
        for (entry,) in self._directory.execute("SELECT entry FROM files ORDER BY place"):
            self._write(entry)
            files += 1
        size, end = self._offset - start, self._offset
        if files > _MOST_FILES or size > _MOST_BYTES or start > _MOST_BYTES:
            large = (44, _UNIX | _LARGE, _LARGE, 0, 0, files, files, size, start)
            self._write(struct.pack("<4sQ2H2L4Q", b"PK\6\6", *large))
            self._write(struct.pack("<4sLQL", b"PK\6\7", 0, end, 1))
        files, size, start = min(files, _MOST_FILES), min(size, _MOST_BYTES), min(start, _MOST_BYTES)
        self._write(struct.pack("<4s4H2LH", b"PK\5\6", 0, 0, files, files, size, start, 0))

    def _write(self, data: bytes) -> None:
        self._stream.write(data)
        self._offset += len(data)


def _headers(path: bytes, checksum: int, numbers: tuple[int, int, int]) -> tuple[bytes, bytes]:
    """What stands before a file, and its entry in the directory. `numbers`: its size, compressed size and offset."""
    size, packed_size, offset = (min(number, _MOST_BYTES) for number in numbers)
    is_long = _MOST_BYTES in (size, packed_size)
    before = _large_numbers(numbers[:2] if is_long else ())  # both or none, there
    listed = _large_numbers([number for number in numbers if number >= _MOST_BYTES])
    version = _LARGE if listed else _PLAIN
    common = (version, _UTF8, _DEFLATED, 0, _DATE, checksum)
    shown = (_MOST_BYTES, _MOST_BYTES) if is_long else (packed_size, size)
    start = struct.pack("<4s5H3L2H", b"PK\3\4", *common, *shown, len(path), len(before))
    lengths = (packed_size, size, len(path), len(listed), 0, 0, 0, _MODE, offset)
    entry = struct.pack("<4s6H3L5H2L", b"PK\1\2", _UNIX | version, *common, *lengths)
    return start + path + before, entry + path + listed


def _large_numbers(numbers: Iterable[int]) -> bytes:
    values = [*numbers]
    return struct.pack(f"<2H{len(values)}Q", 1, 8 * len(values), *values) if values else b""
