"""Run folders: `.rejoinder/runs/<id>/`, where everything about a run is kept.

    run.json        the receipt: what was run, with what, when, and how it ended
    suite.json      the suites as loaded, without their cases, and the command's options
    cases.jsonl     their cases with the text of all files, so that nothing outside is needed to read the run
    seal            says that this user's rejoinder wrote the two files above (seal.py)
    checksums       what all files held when they were written last (checksums.py)
    pictures/       each picture of the cases, once, under the digest of its bytes (pictures.py)
    journal.jsonl   every call and what came of it
    results.jsonl   one record a conversation, and
    summary.json    what they add up to; both are derived from the journal
    run.log         what happened, for people
    service.log     what the user's own service printed
    notes.json      tags and a note, where people gave some

New grades of a run have the same files, in `.rejoinder/grades/<id of the run>/<id>/`. The folder is locked by the
operating system while a run is open. Secrets never reach it. A folder may come from elsewhere, so its files are opened
with care (run_files.py).
"""

from __future__ import annotations

import contextlib
import os
import re
import time
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextvars import ContextVar
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from rejoinder.errors import RejoinderError, UsageError, decoding_reason, reason_of
from rejoinder.locks import is_locked, lock_within
from rejoinder.model import Receipt, Summary
from rejoinder.model.runs import is_part_of_id, is_run_id, too_short
from rejoinder.project.folders import given_folder
from rejoinder.run_files import (
    RunDamaged,
    open_file,
    open_to_append,
    read_whole,
    refuse_special_files,
    replace_file,
    sweep_drafts,
)
from rejoinder.runs.crash_points import reached
from rejoinder.words.inert import visible
from rejoinder.words.numbers import beginning, count

if TYPE_CHECKING:
    from rejoinder.runs.secrets import Mask

RUN_FORMAT = 3
"""From 2 on a folder has checksums."""
LOCK_WAIT_S = 0.5
"""A process that only looks whether a run is open holds its lock for a moment."""
LARGEST_RECORD = 1 << 28
"""Bytes of a receipt or summary; ours have some thousand."""
LONGEST_OF_SERVICE = 4096
"""Characters of a line that a service printed."""
OWN_CODE = "own code failed: "
"""What stands in the log before an error of the user's code and its traceback."""
LAST = "last"
"""The name of the latest run that is neither a fork nor a re-grade; `last~1` is the one before it."""
MOST_NAMED = 10
"""Runs that are listed if one has to be chosen."""
_Content = TypeVar("_Content")


BUSY_CODE = 75
"""What the process of a queued run ends with where another process has the run open; its server tries again."""


class RunBusy(RejoinderError):
    """Another process has the run open."""


class RunFolder:
    def __init__(self, path: Path) -> None:
        self.path = path
        self.id = path.name
        self.journal = path / "journal.jsonl"
        self.results = path / "results.jsonl"
        self.workspaces = _workspaces_of(path)
        """Where workspaces of agents are kept, if any are."""
        self._lock: int | None = None

    def lock(self) -> None:
        """Hold the folder until the process ends or `unlock` is called. Raises RunBusy, or RejoinderError where the
        folder cannot be written."""
        try:
            handle = open_to_append(self.path / "lock")
        except OSError as error:
            reason = reason_of(error)
            raise RejoinderError(f"{self.path} cannot be written: {reason}") from None
        if not lock_within(handle, LOCK_WAIT_S):
            os.close(handle)
            raise RunBusy(f"run {self.id} is open in another process", "Wait for it to end, or stop it with Ctrl-C.")
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
        """Whether the run is open in a process. Looking creates and changes nothing."""
        try:
            with open_file(self.path / "lock") as stream:
                return is_locked(stream.fileno())
        except (OSError, RunDamaged):
            return False

    def read_receipt(self) -> Receipt | None:
        return self.read("run.json", Receipt)

    def write_receipt(self, receipt: Receipt) -> None:
        self.write("run.json", receipt)

    def close(self, receipt: Receipt) -> None:
        """Write the checksums of all files, then the receipt of a run that has ended: it makes them count."""
        from rejoinder.runs.checksums import write_checksums

        write_checksums(self.path, self.id, _as_file(receipt))
        reached("checksums.written")
        self.write_receipt(receipt)

    def read_summary(self) -> Summary | None:
        return self.read("summary.json", Summary)

    def write_summary(self, summary: Summary) -> None:
        self.write("summary.json", summary)

    def read(self, name: str, kind: type[_Content]) -> _Content | None:
        """A file of the folder; None if there is none. Raises RunDamaged for one that rejoinder did not write."""
        path = self.path / name
        try:
            content = read_whole(path, LARGEST_RECORD)
        except FileNotFoundError:
            return None
        except OSError as error:
            reason = reason_of(error)
            raise RunDamaged(path, f"it cannot be read: {reason}", "Look at its permissions.") from None
        try:
            return msgspec.json.decode(content, type=kind)
        except (msgspec.MsgspecError, RecursionError, UnicodeError) as error:
            raise RunDamaged(path, decoding_reason(error)) from None

    def write(self, name: str, data: Any, mask: Mask | None = None) -> None:
        """Write a JSON file whole or not at all."""
        with replace_file(self.path / name) as stream:
            stream.write(_as_file(data, mask))

    def log(self, message: str) -> None:
        stamp = datetime.now(UTC).isoformat(timespec="milliseconds")
        self._append("run.log", f"{stamp} {message}\n")

    def log_service(self, lines: Iterable[str], mask: Mask) -> None:
        """Write lines of a service's output, which may print anything. Where they cannot be written, they are lost."""
        shown = (beginning(visible(mask.hide_text(line)), LONGEST_OF_SERVICE) for line in lines)
        with contextlib.suppress(OSError, RunDamaged):
            self._append("service.log", "".join(f"{line}\n" for line in shown))

    def _append(self, name: str, text: str) -> None:
        """Write at the end of a file for people."""
        handle = open_to_append(self.path / name)
        with os.fdopen(handle, "a", encoding="utf-8", errors="backslashreplace") as stream:
            stream.write(text)

    @property
    def has_tracebacks(self) -> bool:
        """Has code of the user's raised an error, whose traceback is in the log?"""
        try:
            with open_file(self.path / "run.log") as stream:
                return any(f" {OWN_CODE}".encode() in line for line in stream)
        except (OSError, RunDamaged):
            return False


def _as_file(data: Any, mask: Mask | None = None) -> bytes:
    """What a JSON file of the folder holds."""
    content = msgspec.json.encode(data)
    return msgspec.json.format(mask.hide(content) if mask else content, indent=2) + b"\n"


_elsewhere: ContextVar[Path | None] = ContextVar("rejoinder_runs_folder", default=None)


@contextlib.contextmanager
def runs_kept_in(folder: str | Path | None) -> Generator[None]:
    """Keep and find runs in a folder during the block; None: in the project's own."""
    token = _elsewhere.set(None if folder is None else given_folder(folder, "runs_folder"))
    try:
        yield
    finally:
        _elsewhere.reset(token)


def runs_folder(root: Path) -> Path:
    return _elsewhere.get() or root / ".rejoinder" / "runs"


def grades_folder(root: Path, run: str) -> Path:
    """Where a project keeps new grades of a run, its own or another's."""
    elsewhere = _elsewhere.get()
    return (root / ".rejoinder" if elsewhere is None else elsewhere) / "grades" / run


def _workspaces_of(run: Path) -> Path:
    """The folder for workspaces of agents: beside the project's runs, else among the runs."""
    parent = run.parent.parent if run.parent.name == "runs" else run.parent
    return parent / "workspaces" / run.name


def create_run(root: Path) -> RunFolder:
    """A new folder with a name that sorts by time."""
    return _create_in(runs_folder(root), "Runs are data, not source.")


def create_grades(root: Path, run: str) -> RunFolder:
    """A new folder for grades of a run."""
    return _create_in(grades_folder(root, run), "Grades are data, not source.")


def _create_in(parent: Path, note: str) -> RunFolder:
    keep_out_of_git(parent, note)
    if _reserved:
        path = parent / _reserved.pop()
        try:
            path.mkdir()
        except FileExistsError:
            raise RunBusy(f"run {path.name} is there already", "Continue it: `rejoinder resume`.") from None
        return RunFolder(path)
    while True:
        with contextlib.suppress(FileExistsError):
            path = parent / new_run_id()
            path.mkdir()
            return RunFolder(path)


def keep_out_of_git(folder: Path, note: str) -> None:
    """Create a folder for data, if there is none."""
    folder.mkdir(parents=True, exist_ok=True)
    with contextlib.suppress(FileExistsError), (folder / ".gitignore").open("x", encoding="utf-8") as stream:
        stream.write(f"# {note}\n*\n")


def new_run_id() -> str:
    """A name that sorts by time, and that no other machine gives to a run: parts of a run that start at once on many
    machines are merged by their ids."""
    now = time.time()
    # Three digits for the part of the second make names sort; five random ones tell processes and machines apart.
    return f"{time.strftime('%Y%m%d-%H%M%S', time.gmtime(now))}-{int(now % 1 * 4096):03x}{os.urandom(3).hex()[:5]}"


_reserved: list[str] = []


def reserve_run_id(name: str) -> None:
    """Give the next folder that this process makes a name that was chosen before: a server tells it when a run is
    queued."""
    assert is_run_id(name)
    _reserved.append(name)


def list_runs(root: Path) -> list[RunFolder]:
    """The project's runs, oldest first."""
    return _folders_in(runs_folder(root))


def list_grades(root: Path, run: str | None = None) -> list[RunFolder]:
    """The new grades that a project has, of one run or of all, oldest first."""
    parents = [grades_folder(root, run)] if run is not None else grades_folders(root)
    return sorted((one for parent in parents for one in _folders_in(parent)), key=lambda one: one.id)


def grades_folders(root: Path) -> list[Path]:
    """Where the project has new grades, a folder for each run."""
    parent = grades_folder(root, "")
    return [parent / name for name in _subfolders(parent)]


def _folders_in(parent: Path) -> list[RunFolder]:
    return [RunFolder(parent / name) for name in run_ids(parent)]


def run_ids(parent: Path) -> list[str]:
    """The names of the run folders in a folder, oldest first."""
    return [name for name in _subfolders(parent) if is_run_id(name)]


def _subfolders(parent: Path) -> list[str]:
    """Their names, sorted. Links are left out: they lead to what is not the project's."""
    try:
        with os.scandir(parent) as entries:
            return sorted(entry.name for entry in entries if entry.is_dir(follow_symlinks=False))
    except OSError:
        return []


def find_run(root: Path, name: str | None) -> RunFolder:
    """A run by what `locate_run` takes. Raises RunDamaged where the folder has links or other special files."""
    folder = locate_run(root, name)
    try:
        refuse_special_files(folder.path)
    except OSError as error:
        raise UsageError(f"{folder.path} cannot be read: {reason_of(error)}") from None
    return folder


def locate_run(root: Path, name: str | None) -> RunFolder:
    """A run by its folder, its id, the beginning or end of it (four characters or more), `last`, `last~1` for the one
    before and so on, or the name of its suite, which stands for the latest run of that suite. None stands for `last`.
    Forks and re-grades are never the latest run: they are found by their id or folder."""
    folder = _named_folder(name) if name is not None else None
    return folder or _find_by_name(root, name if name is not None else LAST)


def _named_folder(name: str) -> RunFolder | None:
    with contextlib.suppress(OSError, ValueError):  # a name that no file can have
        if (Path(name) / "run.json").is_symlink() or (Path(name) / "run.json").exists():
            return RunFolder(Path(name).resolve())
    return None


def _find_by_name(root: Path, name: str) -> RunFolder:
    runs, grades = list_runs(root), list_grades(root)
    word, back = _counted_back(name)
    if not runs and (word == LAST or not grades):
        raise UsageError(f"there are no runs in {runs_folder(root)}", "Start one with `rejoinder run`.")
    if word == LAST:
        return _nth(latest_first(runs), back, name, "the project")
    found = _by_id([*runs, *grades], name)
    if len(found) > 1:
        newest = ", ".join(run.id for run in reversed(found[-MOST_NAMED:]))
        more = f" and {len(found) - MOST_NAMED} older ones" if len(found) > MOST_NAMED else ""
        raise UsageError(f"`{name}` matches the beginning or end of {len(found)} run ids", f"They are {newest}{more}.")
    if found:
        return found[0]
    of_suite = [run for run in runs if word in _suite_names(run)]
    if not of_suite:
        raise UsageError(f"there is no run `{name}`", f"{too_short(name)}`rejoinder runs` lists them.")
    return _nth(latest_first(of_suite), back, name, f"suite `{word}`")


def _by_id(runs: list[RunFolder], name: str) -> list[RunFolder]:
    return [run for run in runs if run.id == name] or [run for run in runs if is_part_of_id(name, run.id)]


def _counted_back(name: str) -> tuple[str, int]:
    """`last~2` is the second run before the last one."""
    match = re.fullmatch(r"(.+)~(\d{1,6})", name)
    return (match[1], int(match[2])) if match else (name, 0)


def _nth(runs: Iterable[RunFolder], back: int, name: str, owner: str) -> RunFolder:
    """One of the runs, which begin with the latest."""
    number = 0
    for number, run in enumerate(runs, 1):
        if number > back:
            return run
    if not number:
        raise UsageError(
            f"there is no run `{name}`: {owner} has only forks", "Name a fork by its id; `rejoinder runs` lists them."
        )
    raise UsageError(f"there is no run `{name}`: {owner} has {count(number, 'run')}", "`rejoinder runs` lists them.")


def latest_first(runs: Sequence[RunFolder]) -> Iterator[RunFolder]:
    """Of runs, the oldest first, those that `last`, `last~1` and so on stand for: neither forks nor re-grades. A folder
    without a receipt has not begun, and counts only if no folder has."""
    have_begun = False
    for run in reversed(runs):
        if (run.path / "run.json").exists():
            have_begun = True
            if not is_aside(run):
                yield run
    if not have_begun:
        yield from reversed(runs)


def is_aside(run: RunFolder) -> bool:
    """Whether a run is a fork or a re-grade, which is never the latest run."""
    receipt = listed_receipt(run)
    return receipt is not None and receipt.is_aside


def last_run(parent: Path, ids: list[str]) -> str | None:
    """The id that `last` stands for, of the runs in a folder."""
    found = next(latest_first([RunFolder(parent / run) for run in ids]), None)
    return None if found is None else found.id


def listed_receipt(run: RunFolder) -> Receipt | None:
    """The receipt of a run among others; None if there is none, or a damaged one, which is for its own command to
    tell."""
    try:
        return run.read_receipt()
    except RunDamaged:
        return None


def _suite_names(run: RunFolder) -> list[str]:
    receipt = listed_receipt(run)
    return [] if receipt is None else [suite.title for suite in receipt.suites]


def remove_run(root: Path, run: RunFolder) -> None:
    """Delete a run of the project with its grades and workspaces, or grades. Raises RunBusy if it is open, and
    UsageError if it is not the project's, or is reached through a link, or could not be deleted."""
    refuse_linked(root)
    parents = (runs_folder(root), grades_folder(root, run.path.parent.name))
    if run.path.parent not in parents:
        raise UsageError(f"{run.path} is not a run of this project", f"Its runs are in {runs_folder(root)}.")
    with contextlib.ExitStack() as held:
        with contextlib.suppress(RunDamaged):  # a folder that rejoinder did not write may be deleted all the same
            held.enter_context(run.held())
        run.discard()
        if run.path.parent == runs_folder(root):
            _discard_what_it_made(root, run)
    if run.path.exists():
        raise UsageError(f"{run.path} could not be deleted", "Look at the permissions of its files.")


def prune_runs(root: Path, keep: int) -> list[str]:
    """Delete all but the newest runs, with their grades and workspaces. A run that is open, or being graded, stays; so
    does a folder without a lock that belongs to another user: no run of ours made it. Raises UsageError where links
    lead to runs."""
    refuse_linked(root)
    runs = list_runs(root)
    gone: list[str] = []
    for run in runs[: max(0, len(runs) - keep)]:
        if not (run.path / "lock").is_file() and not _is_own(run.path):
            continue
        with contextlib.suppress(RejoinderError), run.held():
            run.discard()
            _discard_what_it_made(root, run)
        if not run.path.exists():
            gone.append(run.id)
    return gone


def _discard_what_it_made(root: Path, run: RunFolder) -> None:
    for folder in (grades_folder(root, run.id), run.workspaces):
        RunFolder(folder).discard()


def refuse_linked(root: Path) -> None:
    """Raises UsageError where a link leads to what the project's runs are: what is deleted would be another's."""
    for folder in (runs_folder(root), grades_folder(root, ""), runs_folder(root).with_name("workspaces")):
        leaves = not folder.resolve().is_relative_to(root.resolve())
        if folder.is_symlink() or leaves:
            raise UsageError(
                f"{folder} is a link, or behind one: nothing is deleted through it",
                f"Delete the runs in the project that they belong to: they are in {folder.resolve()}.",
            )


def _is_own(folder: Path) -> bool:
    """Does a folder belong to this user?"""
    return not hasattr(os, "geteuid") or folder.stat(follow_symlinks=False).st_uid == os.geteuid()


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
