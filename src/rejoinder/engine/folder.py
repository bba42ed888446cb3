"""Run folders: `.rejoinder/runs/<id>/`, where everything about a run is kept.

    run.json        the receipt: what was run, with what, when, and how it ended
    suite.json      the suites as loaded, without their cases, and the command's options
    cases.jsonl     their cases with the text of all files, so that nothing outside is needed to read the run
    seal            says that this user's rejoinder wrote the two files above (seal.py)
    journal.jsonl   every call and what came of it
    results.jsonl   one record a conversation, and
    summary.json    what they add up to; both are derived from the journal
    run.log         what happened, for people

New grades of a run have the same files, in `.rejoinder/grades/<id of the run>/<id>/`. The folder is locked by the
operating system while a run is open. Secrets never reach it. A folder may come from elsewhere, so its files are opened
with care (run_files.py).
"""

from __future__ import annotations

import contextlib
import os
import re
import time
from collections.abc import Generator, Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from rejoinder.engine.secrets import Mask
from rejoinder.errors import RejoinderError, UsageError, reason_of
from rejoinder.model import Receipt, Summary
from rejoinder.run_files import (
    RunDamaged,
    open_file,
    open_to_append,
    refuse_special_files,
    replace_file,
    sweep_drafts,
)

RUN_FORMAT = 1
LOCK_WAIT_S = 0.5
"""A process that only looks whether a run is open holds its lock for a moment."""
LARGEST_RECORD = 1 << 28
"""Bytes of a receipt or summary; ours have some thousand."""
OWN_CODE = "own code failed: "
"""What stands in the log before an error of the user's code and its traceback."""
MOST_NAMED = 10
"""Runs that are listed where one has to be chosen."""
_Content = TypeVar("_Content")
_RUN_ID = re.compile(r"\d{8}-\d{6}-[0-9a-f]{4}")


class RunBusy(RejoinderError):
    """Another process has the run open."""


class RunFolder:
    def __init__(self, path: Path) -> None:
        self.path = path
        self.id = path.name
        self.journal = path / "journal.jsonl"
        self.results = path / "results.jsonl"
        self._lock: int | None = None

    def lock(self) -> None:
        """Hold the folder until the process ends or `unlock` is called. Raises RunBusy, or RejoinderError where the
        folder cannot be written."""
        try:
            handle = open_to_append(self.path / "lock")
        except OSError as error:
            reason = reason_of(error)
            raise RejoinderError(f"{self.path} cannot be written: {reason}") from None
        deadline = time.monotonic() + LOCK_WAIT_S
        while not _try_lock(handle):
            if time.monotonic() > deadline:
                os.close(handle)
                raise RunBusy(
                    f"run {self.id} is open in another process", "Wait for it to end, or stop it with Ctrl-C."
                )
            time.sleep(0.02)
        self._lock = handle
        sweep_drafts(self.path)

    def unlock(self) -> None:
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    @contextlib.contextmanager
    def held(self) -> Generator[None]:
        """Keep other processes from writing to the folder, or deleting it."""
        self.lock()
        try:
            yield
        finally:
            self.unlock()

    def discard(self) -> None:
        """Delete the folder."""
        import shutil

        shutil.rmtree(self.path, ignore_errors=True)

    @property
    def is_busy(self) -> bool:
        """Is the run open in a process? Looking creates and changes nothing."""
        try:
            with open_file(self.path / "lock") as stream:
                return not _try_lock(stream.fileno())
        except (OSError, RunDamaged):
            return False

    def read_receipt(self) -> Receipt | None:
        return self._read("run.json", Receipt)

    def write_receipt(self, receipt: Receipt) -> None:
        self.write("run.json", receipt)

    def read_summary(self) -> Summary | None:
        return self._read("summary.json", Summary)

    def write_summary(self, summary: Summary) -> None:
        self.write("summary.json", summary)

    def _read(self, name: str, kind: type[_Content]) -> _Content | None:
        """A file of the folder; None where there is none. Raises RunDamaged for one that rejoinder did not write."""
        path = self.path / name
        try:
            with open_file(path) as stream:
                content = stream.read(LARGEST_RECORD + 1)
        except FileNotFoundError:
            return None
        except OSError as error:
            reason = reason_of(error)
            raise RunDamaged(path, f"it cannot be read: {reason}", "Look at its permissions.") from None
        if len(content) > LARGEST_RECORD:
            raise RunDamaged(path, "it is too large")
        try:
            return msgspec.json.decode(content, type=kind)
        except (msgspec.MsgspecError, RecursionError, UnicodeError) as error:
            raise RunDamaged(path, str(error)) from None

    def write(self, name: str, data: Any, mask: Mask | None = None) -> None:
        """Write a JSON file whole or not at all."""
        content = msgspec.json.encode(data)
        with replace_file(self.path / name) as stream:
            stream.write(msgspec.json.format(mask.hide(content) if mask else content, indent=2) + b"\n")

    def log(self, message: str) -> None:
        stamp = datetime.now(UTC).isoformat(timespec="milliseconds")
        handle = open_to_append(self.path / "run.log")
        with os.fdopen(handle, "a", encoding="utf-8", errors="backslashreplace") as stream:
            stream.write(f"{stamp} {message}\n")

    @property
    def has_tracebacks(self) -> bool:
        """Has code of the user's raised an error, whose traceback is in the log?"""
        try:
            with open_file(self.path / "run.log") as stream:
                return any(f" {OWN_CODE}".encode() in line for line in stream)
        except (OSError, RunDamaged):
            return False


def _try_lock(handle: int) -> bool:
    try:
        import fcntl
    except ImportError:
        from filelock import lock_descriptor

        return lock_descriptor(handle, blocking=False)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def runs_folder(root: Path) -> Path:
    return root / ".rejoinder" / "runs"


def grades_folder(root: Path, run: str) -> Path:
    """Where a project keeps new grades of a run, its own or another's."""
    return root / ".rejoinder" / "grades" / run


def create_run(root: Path) -> RunFolder:
    """A new folder with a name that sorts by time."""
    return _create_in(runs_folder(root), "Runs are data, not source.")


def create_grades(root: Path, run: str) -> RunFolder:
    """A new folder for grades of a run."""
    return _create_in(grades_folder(root, run), "Grades are data, not source.")


def _create_in(parent: Path, note: str) -> RunFolder:
    parent.mkdir(parents=True, exist_ok=True)
    with contextlib.suppress(FileExistsError), (parent / ".gitignore").open("x", encoding="utf-8") as stream:
        stream.write(f"# {note}\n*\n")
    while True:
        now = time.time()
        # Milliseconds make names sort by time; the last digit keeps two processes apart.
        name = (
            f"{time.strftime('%Y%m%d-%H%M%S', time.gmtime(now))}-{int(now * 1000) % 1000:03x}{os.urandom(1).hex()[0]}"
        )
        with contextlib.suppress(FileExistsError):
            (parent / name).mkdir()
            return RunFolder(parent / name)


def list_runs(root: Path) -> list[RunFolder]:
    """The project's runs, oldest first."""
    return _folders_in(runs_folder(root))


def list_grades(root: Path, run: str | None = None) -> list[RunFolder]:
    """The new grades that a project has, of one run or of all, oldest first."""
    parents = [grades_folder(root, run)] if run is not None else _subfolders(grades_folder(root, ""))
    return sorted((one for parent in parents for one in _folders_in(parent)), key=lambda one: one.id)


def _folders_in(parent: Path) -> list[RunFolder]:
    return [RunFolder(path) for path in _subfolders(parent) if _RUN_ID.fullmatch(path.name)]


def _subfolders(parent: Path) -> list[Path]:
    """Sorted by name. Links are left out: they lead to what is not the project's."""
    try:
        return sorted(path for path in parent.iterdir() if path.is_dir() and not path.is_symlink())
    except OSError:
        return []


def find_run(root: Path, name: str | None) -> RunFolder:
    """A run by its id, the beginning or end of it, its folder, or the latest; grades by their id or folder.

    Raises RunDamaged where the folder has links or other special files.
    """
    folder = _named_folder(name) if name is not None else None
    folder = folder or find_run_by_id(root, name)
    try:
        refuse_special_files(folder.path)
    except OSError as error:
        raise UsageError(f"{folder.path} cannot be read: {reason_of(error)}") from None
    return folder


def _named_folder(name: str) -> RunFolder | None:
    with contextlib.suppress(OSError, ValueError):  # a name that no file can have
        if (Path(name) / "run.json").is_symlink() or (Path(name) / "run.json").exists():
            return RunFolder(Path(name).resolve())
    return None


def find_run_by_id(root: Path, name: str | None) -> RunFolder:
    """A run of the project, or grades of one, by the id or its beginning or end; the latest run for None."""
    runs = list_runs(root)
    known = [*runs, *list_grades(root)]
    if not (known if name is not None else runs):
        raise UsageError(f"there are no runs in {runs_folder(root)}", "Start one with `rejoinder run`.")
    if name is None:
        begun = [run for run in runs if (run.path / "run.json").exists()]
        return (begun or runs)[-1]
    found = [run for run in known if run.id == name] or [
        run for run in known if run.id.startswith(name) or run.id.endswith(name)
    ]
    if not found:
        raise UsageError(f"there is no run `{name}`", "`rejoinder runs` lists them.")
    if len(found) > 1:
        newest = ", ".join(run.id for run in reversed(found[-MOST_NAMED:]))
        more = f" and {len(found) - MOST_NAMED} older ones" if len(found) > MOST_NAMED else ""
        raise UsageError(f"`{name}` matches the beginning or end of {len(found)} run ids", f"They are {newest}{more}.")
    return found[0]


def prune_runs(root: Path, keep: int) -> list[str]:
    """Delete all but the newest runs, and their grades. A run that is open, or being graded, stays."""
    runs = list_runs(root)
    gone: list[str] = []
    for run in runs[: max(0, len(runs) - keep)]:
        if not (run.path / "lock").is_file():
            continue  # it was not made by a run
        with contextlib.suppress(RejoinderError), run.held():
            run.discard()
            RunFolder(grades_folder(root, run.id)).discard()
        if not run.path.exists():
            gone.append(run.id)
    return gone


def write_lines(path: Path, items: Iterable[Any], mask: Mask) -> int:
    """One JSON record a line; how many there were."""
    encode = msgspec.json.Encoder().encode
    count = 0
    with replace_file(path, durable=False) as stream:
        for item in items:
            line = encode(item) + b"\n"
            stream.write(mask.hide(line) if mask else line)
            count += 1
    return count
