"""Executors: conversations in parallel, turns in order, never more at once than a target allows.

A job is taken from the plan only when there is a worker for it, so that memory does not grow with the run. A
conversation for a busy target waits in a short line, and others overtake it.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Iterator
from typing import Protocol

from rejoinder.engine.calls import Source, Tape
from rejoinder.engine.embeddings import Embeddings
from rejoinder.engine.plan import Job
from rejoinder.engine.player import Player
from rejoinder.model import Outcome

LONGEST_LINE = 1000
"""Conversations that may wait for their target before the plan is read on."""

Perform = Callable[[Job], Awaitable[None]]


class Executor(Protocol):
    """Carries out the jobs of a plan, in this process or elsewhere."""

    async def execute(self, jobs: Iterator[Job], perform: Perform) -> list[Job]:
        """Perform jobs until the plan or the run ends. The jobs that were taken from the plan and never started."""
        ...

    async def play(self, job: Job, sources: tuple[Source, ...], embeddings: Embeddings, tape: Tape | None) -> Outcome:
        """Play one conversation. Its calls are answered by `sources`, which stay in this process."""
        ...

    def stop(self) -> None:
        """Start nothing new; conversations in progress go on to their end."""
        ...


class LocalExecutor:
    """Runs jobs as tasks of this process."""

    def __init__(self, workers: int) -> None:
        self._workers = workers
        self._busy: dict[str, int] = {}
        self._line: deque[Job] = deque()
        self._stopping = False
        self._freed = asyncio.Event()

    def stop(self) -> None:
        self._stopping = True
        self._freed.set()

    async def execute(self, jobs: Iterator[Job], perform: Perform) -> list[Job]:
        self._jobs = jobs
        self._perform = perform
        async with asyncio.TaskGroup() as group:
            group.create_task(self._work(group, self._workers - 1))
        return list(self._line)

    async def play(self, job: Job, sources: tuple[Source, ...], embeddings: Embeddings, tape: Tape | None) -> Outcome:
        return await Player(job, sources, embeddings, tape).play()

    async def _work(self, group: asyncio.TaskGroup, others: int) -> None:
        """Perform one job after the other. Who has found work calls two more workers, which share the others between
        them: a small run has few, and a large one has all of them at once."""
        while (job := await self._next()) is not None:
            for share in (others - others // 2, others // 2):
                if share:
                    group.create_task(self._work(group, share - 1))
            others = 0
            name = job.prepared.target.name
            self._busy[name] = self._busy.get(name, 0) + 1
            try:
                await self._perform(job)
            finally:
                self._busy[name] -= 1
                if self._line:
                    self._freed.set()

    async def _next(self) -> Job | None:
        """The next job whose target has room; None when there is nothing left to start."""
        while not self._stopping:
            job = self._take()
            if job is not None:
                return job
            if not self._line:
                return None
            self._freed.clear()
            await self._freed.wait()
        return None

    def _take(self) -> Job | None:
        for position, job in enumerate(self._line):
            if self._has_room(job):
                del self._line[position]
                return job
        while len(self._line) < LONGEST_LINE:
            job = next(self._jobs, None)
            if job is None or self._has_room(job):
                return job
            self._line.append(job)
        return None

    def _has_room(self, job: Job) -> bool:
        limit = job.prepared.target.workers
        return limit is None or self._busy.get(job.prepared.target.name, 0) < limit
