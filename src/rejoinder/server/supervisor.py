"""Starts the runs of the queue, one after the other, each as a process of its own; after a restart it goes on.

What has to be done about an entry is decided by looking at its run's folder, never from memory: so it does not matter
when a server was killed. There is no folder: the run begins. Its process is alive (the folder is locked): it is waited
for. It was cut off: it is resumed. It has ended: the entry goes. A folder can be made once, and locked by one process,
so no run is there twice.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import signal
import sys
import time
from collections import Counter
from collections.abc import Generator
from pathlib import Path
from typing import Literal, TypeAlias

import msgspec

from rejoinder.errors import RejoinderError
from rejoinder.run_files import RunDamaged
from rejoinder.runs.folder import BUSY_CODE, RunBusy
from rejoinder.runs.state import INTERRUPTED
from rejoinder.server.jobs import Job, JudgeJob, ResumeJob
from rejoinder.server.log import log_mistake
from rejoinder.server.queue import LOG, LONGEST_MESSAGE, Entry, Queue
from rejoinder.server.settings import TOKEN_VARIABLE
from rejoinder.words.inert import one_line
from rejoinder.words.numbers import both_ends

LOOK_S = 0.5
"""How often the folder is looked at: another server may have put something in, or a process may have ended."""
SWEEP_S = 600.0
ENDING_S = 3.0
"""How long a run may finish what is under way when the server ends; then it is cut off, which loses nothing."""
MOST_DEATHS = 3
"""A run whose process dies so often is left to people."""
Need: TypeAlias = Literal["start", "resume", "wait", "ended", "gone"]
_ENDED = (0, 1, 3, 4, 5, INTERRUPTED)
"""Exit codes of a run that came to an end, or was interrupted by hand."""
_PASSING = (
    *(errno.ENOSPC, errno.EDQUOT, errno.EMFILE, errno.ENFILE, errno.EAGAIN, errno.ENOMEM),
    *(errno.EBUSY, errno.EINTR),
)
"""What the machine lacks now and may have later; it says nothing about an entry."""


def need_of(entry: Entry, root: Path) -> Need:
    """What an entry needs next, by its run's folder."""
    folder = entry.folder(root)
    if not folder.path.is_dir() or folder.path.is_symlink():
        return "gone" if isinstance(entry.job, ResumeJob) else "start"
    if folder.is_busy:
        return "wait"
    try:
        receipt = folder.read_receipt()
    except RunDamaged:
        return "ended"
    if receipt is None:
        return "start"
    # To resume what has ended does nothing, so it may be done twice.
    goes_on = receipt.is_cut_off or isinstance(entry.job, ResumeJob)
    return "resume" if goes_on and not entry.stop else "ended"


class Supervisor:
    def __init__(self, queue: Queue, jobs: int) -> None:
        self._queue = queue
        self._jobs = jobs
        self._children: dict[str, asyncio.subprocess.Process] = {}
        self._deaths: Counter[str] = Counter()
        """Processes that ended without bringing their run to an end."""
        self._watches: set[asyncio.Task[None]] = set()
        self._changed = asyncio.Event()
        self._looking = asyncio.Lock()
        self._closing = False
        self._swept = 0.0

    def wake(self) -> None:
        self._changed.set()

    async def work(self) -> None:
        """Until it is cancelled."""
        while not self._closing:
            self._changed.clear()
            try:
                await self.look()
            except Exception as error:  # whatever it is, the runs behind it are not to wait for ever
                log_mistake("the queue", error)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._changed.wait(), LOOK_S)

    async def look(self) -> None:
        """Do what the entries need, unless another server does."""
        async with self._looking:
            with contextlib.suppress(OSError, RejoinderError):  # a full disk may have room later
                if not self._closing and await asyncio.to_thread(self._queue.hold):
                    await self._work_through()

    async def _work_through(self) -> None:
        if time.monotonic() - self._swept > SWEEP_S or not self._swept:
            self._swept = time.monotonic()
            await asyncio.to_thread(self._queue.sweep)
        waiting = [entry for entry in await asyncio.to_thread(self._queue.entries) if entry.is_waiting]
        needs: dict[str, Need] = {}
        for entry in waiting:
            if entry.id not in self._children:
                with self._failing(entry):
                    needs[entry.id] = need_of(entry, self._queue.root)
        going = len(self._children) + sum(need == "wait" for need in needs.values())
        for entry in waiting:
            with self._failing(entry):
                going += await self._take(entry, needs.get(entry.id), is_free=going < self._jobs)

    @contextlib.contextmanager
    def _failing(self, entry: Entry) -> Generator[None]:
        """What goes wrong with an entry is told as its end, and the others go on. It stays where it may do later."""
        try:
            yield
        except Exception as error:
            if isinstance(error, RunBusy) or (isinstance(error, OSError) and error.errno in _PASSING):
                return
            with contextlib.suppress(OSError, RejoinderError):
                self._fail(entry, f"it cannot be run: {one_line(both_ends(str(error), LONGEST_MESSAGE))}")

    async def _take(self, entry: Entry, need: Need | None, *, is_free: bool) -> bool:
        """Do what one entry needs; True where its process was started."""
        if need is None:
            process = self._children.get(entry.id)
            if entry.stop and process is not None and process.stdin is not None:
                process.stdin.close()
        elif need == "ended" or (entry.stop and need in ("start", "gone")):
            self._end(entry)
        elif need == "gone":
            self._fail(entry, f"run {entry.id} is gone")
        elif need in ("start", "resume") and is_free:
            return await self._begin(entry, need)
        return False

    async def _begin(self, entry: Entry, need: Need) -> bool:
        """Start the process of an entry; False where it is not started."""
        folder = entry.folder(self._queue.root)
        if self._deaths[entry.id] >= MOST_DEATHS:
            self._fail(entry, f"its process ended {MOST_DEATHS} times: {self._queue.last_words(entry)}")
            return False
        if need == "start" and folder.path.is_dir():  # killed before anything was sent
            with folder.held():
                if folder.read_receipt() is not None:
                    return False  # an orphan of the last server was quicker
                folder.discard()
        if need == "start" and not self._queue.has_its_files(entry):
            self._fail(entry, "its files are not what was posted")
            return False
        own = need == "start" or isinstance(entry.job, ResumeJob | JudgeJob)
        process = await self._start(entry, entry.job if own else ResumeJob(str(folder.path)))
        self._children[entry.id] = process
        watch = asyncio.create_task(self._watch(entry.id, process))
        self._watches.add(watch)
        watch.add_done_callback(self._watches.discard)
        return True

    async def _start(self, entry: Entry, job: Job) -> asyncio.subprocess.Process:
        environment = {**os.environ, "NO_COLOR": "1", "PYTHONUNBUFFERED": "1"}
        environment.pop(TOKEN_VARIABLE, None)  # what a run starts has no use for it
        with (self._queue.path / entry.id / LOG).open("ab") as log:
            process = await asyncio.create_subprocess_exec(
                # -P: modules of the project do not take the places of the standard library's.
                *(sys.executable, "-P", "-m", "rejoinder.server.worker_process", entry.id),
                cwd=self._queue.root,
                env=environment,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.DEVNULL,
                stderr=log,
                start_new_session=True,  # Ctrl-C in the terminal is the server's
            )
        assert process.stdin is not None
        # A prompt may be longer than a system takes words; it is not waited for, the process reads at once.
        process.stdin.write(msgspec.json.encode(job) + b"\n")
        return process

    async def _watch(self, run: str, process: asyncio.subprocess.Process) -> None:
        code = await process.wait()
        async with self._looking:
            del self._children[run]
            try:
                entry = await asyncio.to_thread(self._queue.find, run)
                if entry is not None and entry.is_waiting and not self._closing:
                    self._decide(entry, code)
            except Exception:  # it is looked at again, but not for ever
                self._deaths[run] += 1
        self._changed.set()

    def _decide(self, entry: Entry, code: int) -> None:
        """What becomes of an entry whose process has ended. What is not at its end is looked at again: its process was
        killed, or an orphan of the last server has the run."""
        if code == BUSY_CODE:  # a request that looks at a run holds its lock for a moment, and on a busy machine longer
            return
        need = need_of(entry, self._queue.root)
        if need == "ended" or (need == "resume" and code in _ENDED):
            self._end(entry)
        elif need in ("start", "gone") and code >= 0 and not entry.stop:
            self._fail(entry, self._queue.last_words(entry) or f"it ended with {code}, and without a run")
        else:
            self._deaths[entry.id] += 1

    def _end(self, entry: Entry) -> None:
        if entry.folder(self._queue.root).path.is_dir():
            self._queue.discard(entry.id)
        else:
            self._queue.change(entry, ended="cancelled")

    def _fail(self, entry: Entry, message: str) -> None:
        self._queue.change(entry, ended="refused", message=message)

    async def stop(self, run: str) -> None:
        """Stop a run that waits or goes on. Told twice, one that goes on is cut off; it can be resumed all the same."""
        async with self._looking:
            entry = await asyncio.to_thread(self._queue.find, run)
            if entry is None or not entry.is_waiting:
                return
            if not entry.stop:
                await asyncio.to_thread(lambda: self._queue.change(entry, stop=True))
            elif (process := self._children.get(run)) is not None:
                with contextlib.suppress(ProcessLookupError):
                    process.terminate()
        await self.look()

    async def close(self) -> None:
        """End the processes: the entries stay, and the next server goes on with them."""
        self._closing = True
        self._changed.set()
        children = list(self._children.values())
        for process in children:
            if process.stdin is not None:
                process.stdin.close()
        for end in (signal.SIGTERM, signal.SIGKILL if hasattr(signal, "SIGKILL") else signal.SIGTERM):
            if not await _have_ended(children, ENDING_S):
                for process in children:
                    with contextlib.suppress(ProcessLookupError):
                        process.send_signal(end)
        await _have_ended(children, ENDING_S)
        self._queue.release()


async def _have_ended(children: list[asyncio.subprocess.Process], seconds: float) -> bool:
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(asyncio.gather(*(process.wait() for process in children)), seconds)
        return True
    return False
