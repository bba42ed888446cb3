"""The folder that the processes of one pytest session share: which run they play, and how it ended.

    order.json   the run to start: its suites, options and id
    run          the folder of the run, as soon as it is chosen
    owner        locked by the process that plays the run, as long as that process lives
    stop         the run has to stop
    problem      why the run could not be played, in words
    ended.json   the run has ended; written once

Beside the folders of runs is `collected.json`: the suites that a worker has collected, and the files it passed over.

pytest-xdist has a controller and several workers. The workers collect the same items; the first that needs a result
plays the run of all of them. If it dies, the lock is free, and the next worker resumes the run.
"""

from __future__ import annotations

import os
from pathlib import Path

import msgspec
from msgspec import Struct

from rejoinder.locks import lock_within
from rejoinder.run_files import replace_file
from rejoinder.runs.options import RunOptions

COLLECTED = "collected.json"
MOST_STARTS = 3
"""Processes that may play a run, one after another's death: code that kills its process must not do so for ever."""


class Order(Struct, frozen=True, kw_only=True):
    """A run to be played, or to be resumed if its folder has begun."""

    suites: tuple[str, ...]
    options: RunOptions
    root: str
    run: str
    """Its id."""
    search: tuple[str, ...]
    """Folders in which pytest looks for Python modules."""
    starts: int = 1


class RunEnd(Struct, frozen=True):
    problem: str = ""
    """Why the run was not played to its end; empty if its folder says how it ended."""


class Collected(Struct):
    """The suites that a session has collected. All workers of pytest-xdist collect the same."""

    suites: int = 0
    passed_over: dict[str, str] = {}
    """Files that match a pattern and are not suites, each with the reason."""

    def write(self, folder: Path) -> None:
        with replace_file(folder / COLLECTED) as stream:
            stream.write(msgspec.json.encode(self))

    @classmethod
    def read(cls, folder: Path) -> Collected | None:
        """None if no worker finished its collection."""
        try:
            return msgspec.json.decode((folder / COLLECTED).read_bytes(), type=cls)
        except OSError:
            return None


class SharedFolder:
    def __init__(self, path: Path) -> None:
        self.path = path
        self.stop_file = path / "stop"
        self._owner: int | None = None

    @property
    def run(self) -> Path | None:
        """The folder of the run; None until it is chosen."""
        text = self._read("run")
        return None if text is None else Path(os.fsdecode(text))

    @property
    def ended(self) -> RunEnd | None:
        text = self._read("ended.json")
        return None if text is None else msgspec.json.decode(text, type=RunEnd)

    @property
    def order(self) -> Order | None:
        text = self._read("order.json")
        return None if text is None else msgspec.json.decode(text, type=Order)

    @property
    def problem(self) -> str:
        return (self._read("problem") or b"").decode("utf-8", "replace")

    def write_order(self, order: Order, run: Path) -> None:
        self._write("order.json", msgspec.json.encode(order))
        self._write("run", os.fsencode(run))

    def write_problem(self, text: str) -> None:
        self._write("problem", text.encode("utf-8", "replace"))

    def end(self, ended: RunEnd) -> None:
        self._write("ended.json", msgspec.json.encode(ended))

    def stop(self) -> None:
        """Ask the process of the run to stop, wherever it is."""
        self.path.mkdir(exist_ok=True)
        self.stop_file.touch()

    def own(self) -> bool:
        """Whether this process is now, or was already, the one that plays the run."""
        if self._owner is None:
            self.path.mkdir(exist_ok=True)
            handle = os.open(self.path / "owner", os.O_RDWR | os.O_CREAT, 0o600)
            if not lock_within(handle, 0):
                os.close(handle)
                return False
            self._owner = handle
        return True

    def disown(self) -> None:
        if self._owner is not None:
            os.close(self._owner)
            self._owner = None

    def _read(self, name: str) -> bytes | None:
        try:
            return (self.path / name).read_bytes()
        except OSError:
            return None

    def _write(self, name: str, content: bytes) -> None:
        with replace_file(self.path / name) as stream:
            stream.write(content)
