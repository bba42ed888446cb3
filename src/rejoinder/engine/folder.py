"""Run folders: `.rejoinder/runs/<id>/`, where everything about a run is kept.

    run.json        the receipt: what was run, with what, when, and how it ended
    suite.json      the suites as loaded, without their cases, and the command's options
    cases.jsonl     their cases with the text of all files, so that nothing outside is needed to read the run
    journal.jsonl   every call and what came of it
    results.jsonl   one record a conversation, and
    summary.json    what they add up to; both are derived from the journal
    run.log         what happened, for people

The folder is locked by the operating system while a run is open. Secrets never reach it.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import time
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec

from rejoinder.engine.masking import Mask
from rejoinder.errors import RejoinderError, UsageError

RUN_FORMAT = 1
_RUN_ID = re.compile(r"\d{8}-\d{6}-[0-9a-f]{4}")


class RunBusy(RejoinderError):
    """Another process has the run open."""


class RunDamaged(RejoinderError):
    """A file of a run folder is not what rejoinder wrote."""

    exit_code = 3

    def __init__(self, path: Path, reason: str) -> None:
        hint = "If its journal.jsonl is whole, delete this file and use `rejoinder resume` to derive it again."
        super().__init__(f"{path} is damaged: {reason}", hint)


_EXPECTED = {
    "run.json": ("id", "status", "suites", "targets", "options", "planned", "in_doubt", "duration_s"),
    "summary.json": ("total", "passed", "failed", "errors", "score", "by_target", "exit_code"),
}
"""What a file must have to be read at all."""


class RunFolder:
    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock: int | None = None

    @property
    def id(self) -> str:
        return self.path.name

    @property
    def root(self) -> Path:
        """The project that the run belongs to."""
        return next((one.parent for one in self.path.parents if one.name == ".rejoinder"), self.path.parent)

    def create_inside(self) -> RunFolder:
        """A folder for new grades, beside the old ones."""
        grades = self.path / "grades"
        grades.mkdir(exist_ok=True)
        return _create(grades)

    @property
    def journal(self) -> Path:
        return self.path / "journal.jsonl"

    @property
    def results(self) -> Path:
        return self.path / "results.jsonl"

    def lock(self) -> None:
        """Hold the folder until the process ends or `unlock` is called."""
        handle = os.open(self.path / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(handle)
            raise RunBusy(
                f"run {self.id} is open in another process", "Wait for it to end, or stop it with Ctrl-C."
            ) from None
        self._lock = handle

    def unlock(self) -> None:
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def discard(self) -> None:
        """Take the folder away again."""
        import shutil  # noqa: PLC0415 - a plain run deletes nothing

        shutil.rmtree(self.path, ignore_errors=True)

    @property
    def is_busy(self) -> bool:
        try:
            self.lock()
        except RunBusy:
            return True
        self.unlock()
        return False

    def read(self, name: str) -> dict[str, Any] | None:
        """A JSON file of the folder; None where there is none. Raises RunDamaged for one that is not what it was."""
        try:
            data = msgspec.json.decode((self.path / name).read_bytes(), type=dict[str, Any])
        except FileNotFoundError:
            return None
        except (msgspec.MsgspecError, OSError) as error:
            raise RunDamaged(self.path / name, str(error)) from None
        missing = [key for key in _EXPECTED.get(name, ()) if key not in data]
        if missing:
            raise RunDamaged(self.path / name, f"`{missing[0]}` is missing")
        return data

    def write(self, name: str, data: Any, mask: Mask | None = None) -> None:
        """Write a JSON file whole or not at all."""
        content = msgspec.json.encode(data)
        draft = self.path / f"{name}.draft"
        with draft.open("wb") as stream:
            stream.write(msgspec.json.format(mask.hide(content) if mask else content, indent=2) + b"\n")
            stream.flush()
            os.fsync(stream.fileno())
        draft.replace(self.path / name)

    def log(self, message: str) -> None:
        stamp = datetime.now(UTC).isoformat(timespec="milliseconds")
        with (self.path / "run.log").open("a", encoding="utf-8", errors="backslashreplace") as stream:
            stream.write(f"{stamp} {message}\n")


def runs_folder(root: Path) -> Path:
    return root / ".rejoinder" / "runs"


def create_run(root: Path) -> RunFolder:
    """A new folder with a name that sorts by time."""
    runs = runs_folder(root)
    runs.mkdir(parents=True, exist_ok=True)
    ignore = runs / ".gitignore"
    if not ignore.exists():
        ignore.write_text("# Runs are data, not source.\n*\n", encoding="utf-8")
    return _create(runs)


def _create(runs: Path) -> RunFolder:
    while True:
        now = time.time()
        # Milliseconds make names sort by time; the last digit keeps two processes apart.
        name = (
            f"{time.strftime('%Y%m%d-%H%M%S', time.gmtime(now))}-{int(now * 1000) % 1000:03x}{os.urandom(1).hex()[0]}"
        )
        try:
            (runs / name).mkdir()
        except FileExistsError:
            continue
        return RunFolder(runs / name)


def list_runs(root: Path) -> list[RunFolder]:
    """The project's runs, oldest first."""
    runs = runs_folder(root)
    if not runs.is_dir():
        return []
    return [RunFolder(path) for path in sorted(runs.iterdir()) if path.is_dir() and _RUN_ID.fullmatch(path.name)]


def find_run(root: Path, name: str | None) -> RunFolder:
    """A run by its id, the beginning or end of it, its folder, or the latest."""
    with contextlib.suppress(OSError):  # a name that no file can have
        if name is not None and (Path(name) / "run.json").is_file():
            return RunFolder(Path(name).resolve())
    runs = list_runs(root)
    if not runs:
        raise UsageError(f"there are no runs in {runs_folder(root)}", "Start one with `rejoinder run`.")
    if name is None:
        begun = [run for run in runs if (run.path / "run.json").exists()]
        return (begun or runs)[-1]
    found = [run for run in runs if run.id == name] or [
        run for run in runs if run.id.startswith(name) or run.id.endswith(name)
    ]
    if len(found) != 1:
        what = "there is no run" if not found else "more than one run is called"
        raise UsageError(f"{what} `{name}`", "`rejoinder runs` lists them.")
    return found[0]


def prune_runs(root: Path, keep: int) -> list[str]:
    """Delete all but the newest runs; one that is open stays."""
    doomed = [run for run in list_runs(root)[: max(0, len(list_runs(root)) - keep)] if not run.is_busy]
    for run in doomed:
        run.discard()
    return [run.id for run in doomed]


def write_lines(path: Path, items: Iterable[Any], mask: Mask) -> int:
    """One JSON record a line; how many there were."""
    encode = msgspec.json.Encoder().encode
    count = 0
    with path.open("wb") as stream:
        for item in items:
            line = encode(item) + b"\n"
            stream.write(mask.hide(line) if mask else line)
            count += 1
    return count
