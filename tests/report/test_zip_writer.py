"""Archives of our own: `zipfile` reads them, however many files they have and wherever these lie."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

from rejoinder.report import zip_writer
from rejoinder.report.zip_writer import ZipWriter


class OnlyForward(io.RawIOBase):
    """A stream that cannot go back, as a pipe."""

    def __init__(self) -> None:
        self.written = bytearray()

    def writable(self) -> bool:
        return True

    def write(self, data: Any, /) -> int:
        self.written += data
        return len(data)


def archive(files: Iterable[tuple[str, Iterable[bytes]]]) -> bytes:
    stream = OnlyForward()
    with ZipWriter(stream) as writer:  # pyright: ignore[reportArgumentType]
        for name, pieces in files:
            writer.add(name, pieces)
    return bytes(stream.written)


def contents(data: bytes) -> dict[str, bytes]:
    with zipfile.ZipFile(io.BytesIO(data)) as files:
        assert files.testzip() is None
        return {name: files.read(name) for name in files.namelist()}


def test_files_are_read_as_they_were_added() -> None:
    large = [bytes([number % 251]) * 1_000 for number in range(3_000)]
    files: dict[str, list[bytes]] = {"a/b.json": [b"{", b"}"], "nö → 5": [b"x"], "empty": [], "large": large}
    data = archive(files.items())
    assert contents(data) == {name: b"".join(pieces) for name, pieces in files.items()}
    assert data == archive(files.items())
    assert contents(archive([])) == {}


def test_a_file_that_is_longer_than_what_is_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(zip_writer, "_IN_MEMORY", 100)
    pieces = [bytes((number * place) % 256 for place in range(300)) for number in range(30)]
    assert contents(archive([("long", pieces), ("next", [b"1"])])) == {"long": b"".join(pieces), "next": b"1"}


def test_a_name_that_is_there_is_left_out() -> None:
    assert contents(archive([("a", [b"1"]), ("a", [b"2"]), ("b", [b"3"])])) == {"a": b"1", "b": b"3"}


def test_an_archive_may_have_more_files_than_16_bits_count() -> None:
    data = archive((f"{number}", [b"%d" % number]) for number in range(66_000))
    with zipfile.ZipFile(io.BytesIO(data)) as files:
        assert len(files.namelist()) == 66_000
        assert files.read("65999") == b"65999"


def test_an_archive_may_be_longer_than_32_bits_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A hole stands for what lies before the second file."""
    path, hole = tmp_path / "long.zip", 5 << 30
    with path.open("wb") as stream, ZipWriter(stream) as writer:
        writer.add("first", [b"1"])
        stream.seek(hole, io.SEEK_CUR)
        monkeypatch.setattr(writer, "_offset", stream.tell())
        writer.add("second", [b"2"])
    with zipfile.ZipFile(path) as files:
        assert [files.read(name) for name in files.namelist()] == [b"1", b"2"]
        assert files.getinfo("second").header_offset > hole


@pytest.mark.long
def test_a_file_may_be_longer_than_32_bits_count(tmp_path: Path) -> None:
    def zeros() -> Iterator[bytes]:
        yield from [bytes(1 << 24)] * 257

    data = archive([("long", zeros()), ("next", [b"1"])])
    with zipfile.ZipFile(io.BytesIO(data)) as files:
        assert files.getinfo("long").file_size == 257 << 24
        assert files.testzip() is None
        assert files.read("next") == b"1"


def test_nothing_is_finished_where_a_file_cannot_be_made() -> None:
    def broken() -> Iterator[bytes]:
        yield b"1"
        raise ValueError

    stream = io.BytesIO()
    with pytest.raises(ValueError), ZipWriter(stream) as writer:
        writer.add("a", [b"1"])
        writer.add("b", broken())
    assert not zipfile.is_zipfile(stream)
