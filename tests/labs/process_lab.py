"""An executor that plays conversations in other processes, as one on other machines would.

Journal, limiters, budget and providers stay in the process that started the run. A worker process is sent a reference
to a job, finds it in suites of its own, plays the conversation, and sends every call back to be answered. What a check
does on this machine (`work`) is done in the worker, when the run asks for it.
"""

from __future__ import annotations

import asyncio
import os
import pickle
import socket
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

from rejoinder.checks.base import CheckFault, Post, Work
from rejoinder.engine.calls import Attempts, Call, NoAnswer, Source, Tape
from rejoinder.engine.effects import Stop
from rejoinder.engine.embeddings import Embeddings
from rejoinder.engine.executor import LocalExecutor, Perform
from rejoinder.engine.plan import Job, JobFinder, JobReference, reference_of
from rejoinder.engine.player import Player
from rejoinder.model import Failure, Outcome, Reply, Request
from rejoinder.runs.journal import Told
from rejoinder.runs.loading import load_options
from rejoinder.runs.options import RunOptions
from rejoinder.validation.review import load_suites
from rejoinder.validation.roles import find_target

Message = tuple[Any, ...]


class Line:
    """Messages to and from another process, over a socket of its own: nothing that code prints can get between them."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    def send(self, *message: Any) -> None:
        data = pickle.dumps(message)
        self._writer.write(len(data).to_bytes(4) + data)

    async def messages(self) -> AsyncIterator[Message]:
        try:
            while True:
                size = int.from_bytes(await self._reader.readexactly(4))
                yield pickle.loads(await self._reader.readexactly(size))
        except asyncio.IncompleteReadError:
            return

    def close(self) -> None:
        self._writer.close()


class Worker:
    """A worker process, as the run sees it."""

    def __init__(self, line: Line, process: asyncio.subprocess.Process) -> None:
        self.line = line
        self.process = process
        self._conversations: dict[int, _Conversation] = {}
        self._reading = asyncio.create_task(self._read())

    async def play(self, conversation: _Conversation) -> Outcome:
        number = conversation.job.number
        self._conversations[number] = conversation
        self.line.send("play", reference_of(conversation.job))
        try:
            return await conversation.outcome
        finally:
            del self._conversations[number]

    async def _read(self) -> None:
        async for kind, number, *rest in self.line.messages():
            if (conversation := self._conversations.get(number)) is not None:  # else it was cut off here
                conversation.receive(kind, *rest)

    async def close(self) -> None:
        self.line.close()
        await self.process.wait()
        await self._reading


class _Conversation:
    """One conversation that a worker plays, and whose calls are answered here."""

    def __init__(
        self, job: Job, line: Line, answer: Callable[[Call], Awaitable[Told | Stop | None]], tape: Tape | None
    ) -> None:
        self.job = job
        self.outcome: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
        self._line = line
        self._answer = answer
        self._tape = tape
        self._working: dict[str, asyncio.Future[str]] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def receive(self, kind: str, *content: Any) -> None:
        if kind == "call":
            task = asyncio.create_task(self._call(*content))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        elif kind == "worked":
            key, text, fault = content
            if fault is None:
                self._working[key].set_result(text)
            else:
                self._working[key].set_exception(CheckFault(fault))
        elif kind == "outcome" and not self.outcome.done():
            self.outcome.set_result(content[0])
        elif not self.outcome.done():
            self.outcome.set_exception(content[0])

    async def _call(self, request: Request, work: Post | tuple[str, bytes] | None) -> None:
        suite = self.job.prepared.suite
        counter = request.target, request.judging
        attempts = Attempts({counter: request.call + 1}, counter)
        here = work if isinstance(work, Post) or work is None else Work(*work, lambda _: self._work(request.key))
        target = None if work is not None else find_target(suite, request.target)
        call = Call(request, attempts, self.job, target, here)
        place = self._tape.begin(call) if self._tape is not None else 0
        try:
            told = await self._answer(call)
        except Exception as error:
            if not self.outcome.done():
                self.outcome.set_exception(error)
            told = None
        if self._tape is not None and isinstance(told, Told):
            self._tape.end(place, told)
        self._line.send("answer", self.job.number, request.key, request.call, told)

    async def _work(self, key: str) -> str:
        self._working[key] = done = asyncio.get_running_loop().create_future()
        self._line.send("work", self.job.number, key)
        return await done


class ProcessExecutor(LocalExecutor):
    """Plays each conversation in one of two worker processes."""

    def __init__(self, files: list[Path], options: RunOptions, processes: int = 2) -> None:
        super().__init__(options.pace.workers or 10)
        self._files = files
        self._options = options
        self._processes = processes
        self._pool: list[Worker] = []
        self.played_by: set[int] = set()
        self.largest_job = 0

    async def execute(self, jobs: Iterator[Job], perform: Perform) -> list[Job]:
        self._pool = [await self._start() for _ in range(self._processes)]
        try:
            return await super().execute(jobs, perform)
        finally:
            for worker in self._pool:
                await worker.close()

    async def play(self, job: Job, sources: tuple[Source, ...], embeddings: Embeddings, tape: Tape | None) -> Outcome:
        worker = self._pool[job.number % len(self._pool)]
        self.played_by.add(worker.process.pid)
        self.largest_job = max(self.largest_job, len(pickle.dumps(reference_of(job))))

        async def ask(call: Call) -> Told | Stop | None:
            for source in sources:
                if (told := await source.answer(call)) is not None:
                    return told
            return None

        async def answer(call: Call) -> Told | Stop | None:
            if call.kind != "embedding":
                return await ask(call)

            async def embed() -> Reply | Failure:
                told = await ask(call)
                assert isinstance(told, Told)
                return told.reply or told.failure or Failure("unknown", "no answer")

            vector = await embeddings.get(call, embed)
            return Told(call.key, vector) if isinstance(vector, Reply) else Told(call.key, failure=vector)

        return await worker.play(_Conversation(job, worker.line, answer, tape))

    async def _start(self) -> Worker:
        ours, theirs = socket.socketpair()
        with theirs:
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "tests.labs.process_lab", str(theirs.fileno())),
                pass_fds=(theirs.fileno(),),
                env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
            )
        line = Line(*await asyncio.open_connection(sock=ours))
        line.send("begin", [str(file) for file in self._files], self._options)
        return Worker(line, process)


# In the worker process.


class _Remote:
    """Answers the calls of all conversations of a worker by asking the run."""

    asks = True

    def __init__(self, line: Line) -> None:
        self._line = line
        self._waiting: dict[tuple[int, str, int], asyncio.Future[Told | Stop | None]] = {}
        self._work: dict[tuple[int, str], Work] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    async def answer(self, call: Call) -> Told | Stop | None:
        number, request = call.job.number, call.request
        work: Post | tuple[str, bytes] | None = None
        if isinstance(call.work, Work):
            self._work[number, call.key] = call.work
            work = call.work.label, call.work.content
        elif call.work is not None:
            work = call.work
        place = number, call.key, request.call
        self._waiting[place] = answer = asyncio.get_running_loop().create_future()
        self._line.send("call", number, request, work)
        return await answer

    def receive(self, kind: str, number: int, *content: Any) -> None:
        if kind == "answer":
            key, count, told = content
            self._waiting.pop((number, key, count)).set_result(told)
        else:
            task = asyncio.create_task(self._do(number, *content))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _do(self, number: int, key: str) -> None:
        try:
            self._line.send("worked", number, key, await self._work[number, key].perform(None), None)
        except CheckFault as fault:
            self._line.send("worked", number, key, "", str(fault))


async def _serve(descriptor: int) -> None:
    line = Line(*await asyncio.open_connection(sock=socket.socket(fileno=descriptor)))
    remote, embeddings, tasks = _Remote(line), Embeddings(), set[asyncio.Task[None]]()
    jobs: JobFinder | None = None

    async def play(reference: JobReference) -> None:
        assert jobs is not None
        try:
            outcome = await Player(jobs.find(reference), (remote,), embeddings).play()
        except Exception as error:
            kept = error if isinstance(error, NoAnswer) else RuntimeError(repr(error))
            line.send("failed", reference.number, kept)
        else:
            line.send("outcome", reference.number, outcome)

    async for kind, *content in line.messages():
        if kind == "begin":
            files, options = content
            suites, _ = load_suites([Path(file) for file in files], load_options(options))
            jobs = JobFinder(suites, options)
        elif kind == "play":
            task = asyncio.create_task(play(*content))
            tasks.add(task)
            task.add_done_callback(tasks.discard)
        else:
            remote.receive(kind, *content)


if __name__ == "__main__":
    asyncio.run(_serve(int(sys.argv[1])))
