"""Whether recorded runs are what they were when they were written: one answer for lists, the API and the pages.

A run is verified once, and again when one of its files has another size, time or number. A list of thousands of runs
waits for a moment only; the rest is verified behind it.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from threading import Event, Lock, Thread
from time import monotonic

from msgspec import Struct, structs

from rejoinder.errors import RejoinderError, reason_of
from rejoinder.history.index import History, read_history
from rejoinder.model.history import RunRow
from rejoinder.run_files import RunDamaged
from rejoinder.runs.folder import RunFolder
from rejoinder.runs.recorded import RecordedRun
from rejoinder.runs.verify import find_damage
from rejoinder.server.folders import size_of, too_large
from rejoinder.server.known import Known

MOST_KNOWN = 50_000
"""Runs of which is remembered whether they are damaged."""
QUICKLY = 8 << 20
"""Bytes of results and journal that are looked through before a page or a list is answered; others are, behind it."""
LIST_S = 2.0
"""How long a list waits for runs that were not verified yet."""
_LARGE = ("results.jsonl", "journal.jsonl")
_STAMPED = ("run.json", "summary.json", "results.jsonl", "journal.jsonl", "checksums", "suite.json", "cases.jsonl")

_Key = tuple[str, str]


class Listing(Struct, frozen=True):
    """The history, in which a damaged run is called so and has no figures."""

    history: History
    unverified: frozenset[str]
    """Runs that are still being verified."""


class Damage:
    """What is wrong with the runs of a project. Requests ask in threads of their own."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._lock = Lock()
        self._known: Known[_Key, str] = Known(MOST_KNOWN)
        self._going_on: dict[_Key, Event] = {}
        self._behind: dict[Path, RunFolder] = {}
        self._worker: Thread | None = None
        self._closed = False

    def close(self) -> None:
        """Verify nothing more."""
        self._closed = True

    def known(self, folder: RunFolder) -> str | None:
        """What is wrong with a run that has ended, empty for nothing; None where it was not verified yet."""
        return self._known.get(_key(folder))

    def find(self, folder: RunFolder) -> str:
        """The same, verified now if it was not. Only one request does that for a run; the others wait."""
        key = _key(folder)
        with self._lock:
            known = self._known.get(key)
            if known is not None:
                return known
            waiting = self._going_on.get(key)
            if waiting is None:
                self._going_on[key] = Event()
        if waiting is not None:
            waiting.wait()
            return self.find(folder)
        words = "it could not be verified"
        try:
            words = self._verified(folder)
        finally:
            self._known.put(key, words)
            with self._lock:
                self._going_on.pop(key).set()
        return words

    def find_later(self, folders: Iterable[RunFolder]) -> None:
        """Verify them behind what is asked for."""
        with self._lock:
            self._behind.update((folder.path, folder) for folder in folders)
            if self._behind and self._worker is None and not self._closed:
                self._worker = Thread(target=self._work, daemon=True)
                self._worker.start()

    def history(self) -> Listing:
        """The project's runs, for a list."""
        history = read_history(self._root)
        end, rows, unverified = monotonic() + LIST_S, list[RunRow](), list[RunRow]()
        for row in reversed(history.rows):
            folder = RunFolder(history.places[row.id])
            damage = self.known(folder) if row.has_ended else ""
            if damage is None and monotonic() < end and is_small(folder):
                damage = self.find(folder)
            if damage is None:
                unverified.append(row)
            rows.append(structs.replace(row, status="damaged", summary=None) if damage else row)
        self.find_later(RunFolder(history.places[row.id]) for row in unverified)
        ids = frozenset(row.id for row in unverified)
        return Listing(structs.replace(history, rows=tuple(reversed(rows))), ids)

    def _work(self) -> None:
        while not self._closed:
            with self._lock:
                if not self._behind:
                    self._worker = None
                    return
                folder = self._behind.pop(next(iter(self._behind)))
            self.find(folder)

    def _verified(self, folder: RunFolder) -> str:
        try:
            if words := too_large(folder.path):
                return words
            damage = find_damage(RecordedRun(folder, self._root))
        except RunDamaged as error:
            damage = error
        except RejoinderError as error:
            return error.message
        except OSError as error:
            return reason_of(error)
        return "" if damage is None else f"{damage.path.name}: {damage.reason}"


def is_small(folder: RunFolder) -> bool:
    """Is it verified before one would wait for it?"""
    return sum(max(0, size_of(folder.path / name)) for name in _LARGE) <= QUICKLY


def _key(folder: RunFolder) -> _Key:
    return str(folder.path), stamp_of(folder.path)


def stamp_of(folder: Path) -> str:
    """What changes when a file of the run does."""
    parts: list[str] = []
    for name in _STAMPED:
        try:
            found = os.lstat(folder / name)
            parts.append(f"{found.st_mtime_ns}.{found.st_size}.{found.st_ino}")
        except OSError:
            parts.append("")
    return " ".join(parts)
