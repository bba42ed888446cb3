"""The queue: runs that were asked for and have not ended, as folders of the project.

    .rejoinder/queue/<id>/entry.json    what is to be run, under the id that the run will have
                          suite.yaml    a suite that was posted, and the files that it names beside it
                          log           what the run's process said

An entry is on the disk, whole, before anyone gets its id. It goes when its run has ended; one without a run (cancelled,
or refused when it began) stays for a while, to say so. The folder could come with a cloned repository, so an entry
counts only with a code that this user's rejoinder made for it, in this project.
"""

from __future__ import annotations

import contextlib
import hmac
import os
import shutil
import stat
import time
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path
from typing import Literal

import msgspec
from msgspec import Struct, structs

from rejoinder.errors import RejoinderError, UsageError
from rejoinder.locks import lock_within
from rejoinder.model.runs import is_run_id
from rejoinder.run_files import (
    RunDamaged,
    linked_folder,
    open_file,
    open_to_append,
    read_whole,
    refuse_linked_folder,
    replace_file,
)
from rejoinder.runs.folder import RunFolder, grades_folder, keep_out_of_git, new_run_id, runs_folder
from rejoinder.runs.seal import VARIABLE, code_of
from rejoinder.server.jobs import GradeJob, Job, JudgeJob, job_of

ENTRY = "entry.json"
LOG = "log"
SUITE = "suite.yaml"
LARGEST_ENTRY = 1 << 22
LONGEST_MESSAGE = 2000
KEPT_ENDED = 200
"""Entries without a run that are remembered."""
MOST_TRIED = 20
"""Ids that are tried, or times that a folder is."""
KEPT_DRAFT_S = 3600.0
"""After so long, a folder without an entry is what a killed server left."""


class QueueFull(RejoinderError):
    """The queue accepts no more runs, because too many are waiting."""


class InQueue(RejoinderError):
    """The run is in the queue already."""


class Entry(Struct, frozen=True, kw_only=True):
    id: str
    job: Job
    title: str
    """The name of the run in a list."""
    queued_at: float
    """In seconds since 1970; the order of the queue."""
    of: str | None = None
    """The run that is graded or forked."""
    files: dict[str, str] = {}
    """Digests of the posted files."""
    stop: bool = False
    """Whether it was asked to stop."""
    ended: Literal["cancelled", "refused"] | None = None
    """Of one that has no run."""
    message: str = ""
    """Why it has none."""

    @property
    def is_waiting(self) -> bool:
        return self.ended is None

    def folder(self, root: Path) -> RunFolder:
        """The folder of its run, which may not exist yet."""
        parent = grades_folder(root, self.of) if isinstance(self.job, GradeJob) and self.of else runs_folder(root)
        return RunFolder(parent / self.id)


class _EarlierEntry(Struct, frozen=True, kw_only=True):
    """An entry that an earlier version wrote: the words of a command instead of a job. It goes with `CommandJob`."""

    id: str
    arguments: tuple[str, ...]
    title: str
    queued_at: float
    of: str | None = None
    files: dict[str, str] = {}
    stop: bool = False
    ended: Literal["cancelled", "refused"] | None = None
    message: str = ""

    def as_entry(self) -> Entry:
        fields = structs.asdict(self)
        return Entry(job=job_of(fields.pop("arguments")), **fields)


class _Sealed(Struct, frozen=True):
    entry: msgspec.Raw
    """JSON of an entry. The code is checked before it is read as one."""
    code: str


class Queue:
    def __init__(self, root: Path, most: int = 100) -> None:
        self.root = root
        self.path = root / ".rejoinder" / "queue"
        self._most = most
        self._lock: int | None = None

    def hold(self) -> bool:
        """Be the one process that starts runs; False while another one is."""
        if self._lock is not None:
            return True
        if not self.path.is_dir() or self._is_behind_a_link:
            return False
        with contextlib.suppress(OSError, RunDamaged):
            handle = open_to_append(self.path / "lock")
            if lock_within(handle, 0):
                self._lock = handle
                return True
            os.close(handle)
        return False

    def release(self) -> None:
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def reserve(self, name: str | None = None) -> str:
        """An id with a folder of its own. `name`: the id of an existing run. Raises QueueFull or InQueue."""
        if sum(entry.is_waiting for entry in self.entries()) >= self._most:
            raise QueueFull(f"{self._most} runs are waiting already", "Wait for some of them, or stop some.")
        for folder in (self.path, runs_folder(self.root), grades_folder(self.root, "")):
            refuse_linked_folder(folder)
        keep_out_of_git(self.path, "Runs that wait are data, not source.")
        for _ in range(MOST_TRIED):
            run = name or new_run_id()
            try:
                if name is None and (runs_folder(self.root) / run).exists():
                    continue
                (self.path / run).mkdir()
            except FileExistsError:
                known = self.find(run) if name is not None else None
                if name is not None and known is not None and known.is_waiting:
                    raise InQueue(f"run {name} is in the queue already") from None
                if name is not None:
                    self.discard(name)
            else:
                return run
        raise UsageError(
            f"no folder can be made in {self.path} for run {name}" if name else f"no folder can be made in {self.path}",
            "Delete what is in its place.",
        )

    @property
    def _is_behind_a_link(self) -> bool:
        """A cloned repository could bring one, to have us write or delete elsewhere."""
        return linked_folder(self.path) is not None

    def add_files(self, run: str, files: Mapping[str, str]) -> dict[str, str]:
        """Write posted files into the folder of an id; the digest of each. `put` makes them durable."""
        digests: dict[str, str] = {}
        for name, text in files.items():
            content = text.encode("utf-8", "surrogatepass")
            (self.path / run / name).parent.mkdir(parents=True, exist_ok=True)
            with replace_file(self.path / run / name, durable=False) as stream:
                stream.write(content)
            digests[name] = sha256(content).hexdigest()
        return digests

    def put(self, entry: Entry) -> None:
        """Write an entry, so that it outlives this process and the machine's power. Raises UsageError."""
        content = msgspec.json.encode(entry)
        code = code_of(self._sealed_content(content))
        if code is None:
            raise UsageError(
                "runs cannot be queued without your key to seal them with",
                f"Set {VARIABLE} to at least 16 characters, or use an account with a home folder.",
            )
        folder = self.path / entry.id
        written = [folder / name for name in entry.files]
        for path in (*written, *{path.parent for path in written}):
            with contextlib.suppress(FileNotFoundError):  # of an entry that is changed because they are gone
                _sync(path)
        with replace_file(folder / ENTRY) as stream:
            sealed = _Sealed(msgspec.Raw(content), code.decode())
            stream.write(msgspec.json.format(msgspec.json.encode(sealed), indent=2) + b"\n")
        for one in (folder, self.path):
            _sync(one)

    def change(self, entry: Entry, **fields: object) -> Entry:
        changed = structs.replace(entry, **fields)
        self.put(changed)
        return changed

    def find(self, run: str) -> Entry | None:
        """The entry of an id; None if this user's rejoinder wrote none."""
        if not is_run_id(run):
            return None
        folder = self.path / run
        with contextlib.suppress(OSError, RunDamaged, msgspec.MsgspecError, RecursionError, UnicodeError):
            if folder.is_symlink() or self._is_behind_a_link:
                return None
            sealed = msgspec.json.decode(read_whole(folder / ENTRY, LARGEST_ENTRY), type=_Sealed)
            content = msgspec.json.format(sealed.entry, indent=-1)
            code = code_of(self._sealed_content(content), create=False)
            if code is not None and hmac.compare_digest(code, sealed.code.encode()):
                entry = _read_entry(content)
                return entry if entry.id == run else None
        return None

    def entries(self) -> list[Entry]:
        """All of them, in the order in which they came."""
        if self._is_behind_a_link:
            return []
        try:
            with os.scandir(self.path) as found:
                names = [one.name for one in found if one.is_dir(follow_symlinks=False) and is_run_id(one.name)]
        except OSError:
            return []
        entries = [entry for name in names if (entry := self.find(name)) is not None]
        return sorted(entries, key=lambda entry: (entry.queued_at, entry.id))

    def discard(self, run: str) -> None:
        """Forget an entry and its files. The entry goes first: what is left after a crash does not count as one."""
        if not self._is_behind_a_link:
            _remove(self.path / run)

    def sweep(self) -> None:
        """Forget the oldest entries that have no run, and what killed servers left."""
        ended = [entry for entry in self.entries() if not entry.is_waiting]
        for entry in ended[: max(0, len(ended) - KEPT_ENDED)]:
            self.discard(entry.id)
        if self._is_behind_a_link:
            return
        with contextlib.suppress(OSError), os.scandir(self.path) as found:
            for one in found:
                is_old = time.time() - one.stat(follow_symlinks=False).st_mtime > KEPT_DRAFT_S
                is_left = one.is_symlink() or not os.path.lexists(Path(one.path) / ENTRY)
                if is_run_id(one.name) and is_old and is_left:
                    _remove(Path(one.path))

    def has_its_files(self, entry: Entry) -> bool:
        """Whether the posted files are unchanged since they were checked."""
        for name, digest in entry.files.items():
            try:
                with open_file(self.path / entry.id / name) as stream:
                    if sha256(stream.read()).hexdigest() != digest:
                        return False
            except (OSError, RunDamaged):
                return False
        return True

    def last_words(self, entry: Entry) -> str:
        """The last output of an entry's process."""
        try:
            with open_file(self.path / entry.id / LOG) as stream:
                stream.seek(max(0, os.fstat(stream.fileno()).st_size - LONGEST_MESSAGE))
                return stream.read(LONGEST_MESSAGE).decode("utf-8", "replace").strip()
        except (OSError, RunDamaged):
            return ""

    def _sealed_content(self, entry: bytes) -> bytes:
        return b"rejoinder queue\n" + str(self.root).encode("utf-8", "surrogateescape") + b"\n" + entry


def judge_test_of(queue: Queue, digest: str, *, is_waiting: bool = True) -> Entry | None:
    """The latest test of a judge that is queued or running, or that could not be run."""
    tests = (one for one in reversed(queue.entries()) if isinstance(one.job, JudgeJob) and one.job.judge == digest)
    return next((one for one in tests if one.is_waiting is is_waiting), None)


def _read_entry(content: bytes) -> Entry:
    try:
        return msgspec.json.decode(content, type=Entry)
    except msgspec.ValidationError:
        return msgspec.json.decode(content, type=_EarlierEntry).as_entry()


def _remove(path: Path) -> None:
    """Delete what is there, and never what a link leads to. Of a folder the entry goes first."""
    with contextlib.suppress(OSError):
        if not stat.S_ISDIR(path.lstat().st_mode):
            path.unlink()
            return
    with contextlib.suppress(OSError):
        (path / ENTRY).unlink()
    shutil.rmtree(path, ignore_errors=True)


def _sync(path: Path) -> None:
    """Write a file, or the names in a folder, to the disk. A new file is not safe there before its folder is."""
    if path.is_dir() and not hasattr(os, "O_DIRECTORY"):
        return  # Windows opens no folders
    handle = os.open(path, os.O_RDONLY if path.is_dir() else os.O_RDWR)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
