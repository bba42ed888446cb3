"""A place to raise a storm in: many conversations at once against a server that lets few requests through.

The storm itself is a real one: a process that asks a server on loopback. Limits that last minutes are simulated, with
the real limiter in an event loop whose time passes at once.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import selectors
import subprocess
import sys
from collections.abc import Callable, Coroutine
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeVar

from rejoinder.providers.limits import Limiter
from rejoinder.testing import FakeServer, RateLimit, Received

CASES = 400
PER_SECOND = 40
IDEAL_S = (CASES - PER_SECOND) / PER_SECOND
"""The server lets a second's worth through at once. The last request can then arrive no earlier than this."""
LEARNT_AFTER_S = 2.0
PATIENCE_S = 120.0
ROUND_TRIP_S = 0.1
"""Of a simulated request that is refused."""

T = TypeVar("T")


class Storm(NamedTuple):
    """What the server does, and how many conversations go on at once."""

    kind: Literal["bucket", "window"]
    headers: Literal["openai", "anthropic", "ietf"] | None = None
    retry_after: bool = False
    workers: int = 400
    latency_s: float = 0.0

    def __str__(self) -> str:
        told = f"headers {self.headers or '-'}, retry-after {'yes' if self.retry_after else '-'}"
        return f"{self.kind}, {told}, {self.workers} at once, {self.latency_s:g} s thinking"


class Aftermath(NamedTuple):
    """What a storm left behind."""

    exit_code: int
    shown: str
    run: dict[str, Any]
    summary: dict[str, Any]
    requests: list[tuple[float, bool]]
    """When each arrived, from the first on, and whether it was let through."""
    server_refused: int

    @property
    def seconds(self) -> float:
        return self.requests[-1][0]

    @property
    def refused(self) -> int:
        return sum(not passed for _, passed in self.requests)

    def refused_share(self, after_s: float = 0.0) -> float:
        late = [passed for at, passed in self.requests if at >= after_s]
        return late.count(False) / max(1, len(late))


def rage(storm: Storm, folder: Path) -> Aftermath:
    """Run 400 conversations in a process of their own."""
    passed: set[float] = set()

    def reply(request: Received) -> str:
        passed.add(request.at)
        return "Paris"

    limit = RateLimit(PER_SECOND, kind=storm.kind, headers=storm.headers, retry_after=storm.retry_after)
    cases = [{"id": f"c{n}", "prompt": f"Question {n}?", "checks": [{"match": "Paris"}]} for n in range(CASES)]
    (folder / ".rejoinder").mkdir()
    (folder / "evals.yaml").write_text(json.dumps({"metadata": {"model": "openai/some-model"}, "evals": cases}))
    with FakeServer(reply, rate_limit=limit, latency_s=storm.latency_s) as server:
        command = [sys.executable, "-m", "rejoinder", "run", "evals.yaml", "--workers", str(storm.workers)]
        environment = {name: value for name, value in os.environ.items() if not name.lower().endswith("_proxy")}
        environment |= {"OPENAI_API_KEY": "key", "OPENAI_BASE_URL": server.openai_url}
        done = subprocess.run(
            command, cwd=folder, env=environment, capture_output=True, text=True, check=False, timeout=PATIENCE_S
        )
        arrived = [request.at for request in server.requests]
        refused = server.refused
    [kept] = [path for path in (folder / ".rejoinder" / "runs").iterdir() if path.is_dir()]
    return Aftermath(
        exit_code=done.returncode,
        shown=done.stdout + done.stderr,
        run=json.loads((kept / "run.json").read_bytes()),
        summary=json.loads((kept / "summary.json").read_bytes()),
        requests=[(at - arrived[0], at in passed) for at in arrived],
        server_refused=refused,
    )


class SimulatedLoop(asyncio.SelectorEventLoop):
    """An event loop whose time is not the machine's: it jumps to the next timer as soon as nothing else is to do."""

    def __init__(self) -> None:
        self.now = 1000.0
        super().__init__(_Impatient(self))

    def time(self) -> float:
        return self.now


class _Impatient(selectors.SelectSelector):
    def __init__(self, loop: SimulatedLoop) -> None:
        super().__init__()
        self._loop = loop

    def select(self, timeout: float | None = None) -> list[Any]:
        if timeout is None:
            raise RuntimeError("nobody will ever go on: there is nothing to do and no timer to wait for")
        self._loop.now += timeout
        return []


def simulate(work: Callable[[SimulatedLoop], Coroutine[Any, Any, T]]) -> T:
    loop = SimulatedLoop()
    try:
        return loop.run_until_complete(work(loop))
    finally:
        loop.close()


class Window(NamedTuple):
    """Lets so many through in a period that begins with a request."""

    most: int
    seconds: float


class Bucket(NamedTuple):
    """Holds so many, and gets so many a second back."""

    most: int
    per_second: float


class Gate:
    """A limit at work."""

    def __init__(self, limit: Window | Bucket) -> None:
        self._limit = limit
        self._left = float(limit.most)
        self._at: float | None = None

    def lets_through(self, now: float) -> bool:
        limit = self._limit
        since = 0.0 if self._at is None else now - self._at
        if isinstance(limit, Bucket):
            self._left, self._at = min(limit.most, self._left + since * limit.per_second), now
        elif self._at is None or since >= limit.seconds:
            self._left, self._at = limit.most, now
        passes = self._left >= 1
        self._left -= passes
        return passes


class Course(NamedTuple):
    """What came of a simulated run: when each request arrived and whether it was let through."""

    requests: list[tuple[float, bool]]

    @property
    def seconds(self) -> float:
        return self.requests[-1][0] - self.requests[0][0]

    def refused_share(self, after_s: float = 0.0) -> float:
        first, _ = self.requests[0]
        late = [passed for at, passed in self.requests if at - first >= after_s]
        return late.count(False) / max(1, len(late))

    @property
    def longest_silence(self) -> float:
        return max(later - earlier for (earlier, _), (later, _) in pairwise(self.requests))


def play(gate: Callable[[float], bool], calls: int, *, workers: int, latency_s: float, seed: int = 0) -> Course:
    """Calls that pass the real limiter and meet a limit that refuses without a word."""

    async def work(loop: SimulatedLoop) -> Course:
        limiter, requests, waiting = Limiter("simulated", clock=loop.time), [], calls

        async def worker() -> None:
            nonlocal waiting
            while waiting:
                waiting -= 1
                passed = again = False
                while not passed:
                    ticket = await limiter.enter(again=again)
                    limiter.sending()
                    await asyncio.sleep(ROUND_TRIP_S * random.uniform(0.3, 0.7))
                    passed, again = gate(loop.time()), True
                    requests.append((loop.time(), passed))
                    await asyncio.sleep(ROUND_TRIP_S / 2 + latency_s * random.uniform(0.5, 1.5) * passed)
                    if passed:
                        limiter.leave(tokens=100)
                    else:
                        limiter.refused(ticket, "rate", None, (1.0, 60.0))

        await asyncio.gather(*(worker() for _ in range(workers)))
        return Course(requests)

    random.seed(seed)
    return simulate(work)
