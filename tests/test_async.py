"""The verbs awaited on a program's own event loop: it keeps turning, and cancelling is Ctrl-C."""

from __future__ import annotations

import asyncio
import json
import signal
import sys
import threading
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

import rejoinder
from rejoinder import Pace
from tests.kit import Project, case, follow, scripted, wait_until

TICK_S = 0.02
SUITE = {
    "targets": [scripted("it", "no", "yes")],
    "target": "it",
    "evals": [case("a", {"match": "yes"}, follow("Again.", {"match": "yes"}))],
}


class Ticks:
    """Counts how often a loop turns."""

    count = 0


@asynccontextmanager
async def ticking() -> AsyncGenerator[Ticks]:
    ticks = Ticks()

    async def tick() -> None:
        while True:
            await asyncio.sleep(TICK_S)
            ticks.count += 1

    task = asyncio.create_task(tick())
    try:
        yield ticks
    finally:
        task.cancel()


class Service:
    """A service on loopback that counts requests, and answers none of them before it is told to go on."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.go_on = threading.Event()
        service = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["content-length"])))
                service.asked.append(body["prompt"])
                service.go_on.wait()
                content = b'{"reply": "OK"}'
                self.send_response(200)
                self.send_header("content-length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, format: str, *args: Any) -> None: ...

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever)

    @property
    def target(self) -> dict[str, Any]:
        url = f"http://127.0.0.1:{self._server.server_port}/"
        body = {"prompt": "{{ prompt }}"}
        return {"name": "it", "provider": "http", "url": url, "body": body, "reply_path": "reply", "max_retries": 0}

    def wait_for(self, count: int) -> None:
        wait_until(lambda: len(self.asked) >= count)

    def __enter__(self) -> Service:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.go_on.set()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


def slow_cases(project: Project, service: Service, count: int) -> None:
    evals = [case(f"c{number}", {"match": "OK"}) for number in range(count)]
    project.write("evals.yaml", {"targets": [service.target], "target": "it", "evals": evals})


def test_every_verb_can_be_awaited(project: Project) -> None:
    project.write("evals.yaml", SUITE)

    async def play() -> list[rejoinder.RunReport]:
        first = await rejoinder.arun("evals.yaml")
        return [
            first,
            await rejoinder.aresume(first),
            await rejoinder.areplay(first),
            await rejoinder.agrade(first),
            await rejoinder.afork(first, "a", 2, prompt="Really?"),
            await rejoinder.amerge([first]),
        ]

    reports = asyncio.run(play())
    assert [report.summary.passed for report in reports] == [1] * 6
    assert reports[4].results[0].turns[1].prompt == "Really?"


def test_the_loop_turns_while_a_run_waits_and_while_it_reads_files(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    import rejoinder.library.given as given

    load = given.load_suites

    def load_slowly(*values: object) -> object:
        time.sleep(0.3)
        return load(*values)  # pyright: ignore

    monkeypatch.setattr(given, "load_suites", load_slowly)

    async def play(service: Service) -> tuple[int, rejoinder.RunReport]:
        slow_cases(project, service, 2)
        async with ticking() as ticks:
            run = asyncio.create_task(rejoinder.arun("evals.yaml"))
            await asyncio.to_thread(service.wait_for, 2)
            await asyncio.sleep(0.2)
            service.go_on.set()
            report = await run
        return ticks.count, report

    with Service() as service:
        count, report = asyncio.run(play(service))
    assert report.summary.passed == 2
    assert count >= 5  # none, if the loop was blocked


def test_errors_are_raised_where_the_verb_is_awaited(project: Project) -> None:
    project.write("evals.yaml", "evals: [{promt: Hello}]")
    with pytest.raises(rejoinder.SuiteError):
        asyncio.run(rejoinder.arun("evals.yaml"))
    with pytest.raises(rejoinder.UsageError):
        asyncio.run(rejoinder.aresume("20260101-000000-00000000"))


def test_two_runs_share_one_loop(project: Project) -> None:
    project.write("evals.yaml", SUITE)

    async def play() -> tuple[rejoinder.RunReport, rejoinder.RunReport]:
        return await asyncio.gather(rejoinder.arun("evals.yaml"), rejoinder.arun("evals.yaml", repeat=3))

    one, other = asyncio.run(play())
    assert (one.summary.passed, other.summary.passed) == (1, 3)
    assert one.run.id != other.run.id


def test_a_cancelled_run_is_finished_by_resume_and_nothing_is_asked_twice(project: Project) -> None:
    async def play(service: Service) -> None:
        slow_cases(project, service, 8)
        task = asyncio.create_task(rejoinder.arun("evals.yaml", pace=Pace(workers=2)))
        await asyncio.to_thread(service.wait_for, 2)
        task.cancel()
        await asyncio.sleep(0)
        assert not task.done()  # the two calls in progress are paid for, and are waited for
        service.go_on.set()
        with pytest.raises(asyncio.CancelledError):
            await task
        report = rejoinder.show()
        assert (report.run.status, report.summary.passed, report.summary.unfinished) == ("interrupted", 2, 6)
        assert len(service.asked) == 2
        resumed = await rejoinder.aresume()
        assert (resumed.run.status, resumed.summary.passed) == ("completed", 8)
        assert sorted(service.asked) == [f"Question c{number}" for number in range(8)]

    with Service() as service:
        asyncio.run(play(service))


def test_the_second_cancellation_waits_for_nothing(project: Project) -> None:
    async def play(service: Service) -> None:
        slow_cases(project, service, 8)
        task = asyncio.create_task(rejoinder.arun("evals.yaml", pace=Pace(workers=2)))
        await asyncio.to_thread(service.wait_for, 2)
        task.cancel()
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        report = rejoinder.show()
        assert (report.run.status, report.summary.passed) == ("interrupted", 0)

    with Service() as service:
        asyncio.run(play(service))


def test_a_run_that_is_cancelled_before_it_begins_asks_nothing(project: Project) -> None:
    async def play(service: Service) -> None:
        slow_cases(project, service, 3)
        task = asyncio.create_task(rejoinder.arun("evals.yaml"))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert not service.asked

    with Service() as service:
        service.go_on.set()
        asyncio.run(play(service))


def test_a_time_limit_of_the_program_stops_a_run(project: Project) -> None:
    evals = [case(f"c{number}") for number in range(50)]
    project.write("evals.yaml", {"targets": [scripted("it", "OK", delay_ms=50)], "target": "it", "evals": evals})

    async def play() -> None:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.5):
                await rejoinder.arun("evals.yaml", pace=Pace(workers=1))

    asyncio.run(play())
    assert rejoinder.show().run.status == "interrupted"


def test_the_signals_and_the_output_of_the_program_stay_its_own(
    project: Project, capfd: pytest.CaptureFixture[str]
) -> None:
    project.write("evals.yaml", {**SUITE, "targets": [scripted("it", "no", "yes", delay_ms=50)]})
    before = signal.getsignal(signal.SIGINT), signal.set_wakeup_fd(-1)
    signal.set_wakeup_fd(before[1])
    seen: list[object] = []

    async def play() -> None:
        run = asyncio.create_task(rejoinder.arun("evals.yaml"))
        handler = signal.getsignal(signal.SIGINT)
        while not run.done():
            await asyncio.sleep(TICK_S)
            seen.append(signal.getsignal(signal.SIGINT) is handler)
            sys.stdout.write("mine\n")
            sys.stdout.flush()
        await run

    asyncio.run(play())
    assert seen and all(seen)
    out, _ = capfd.readouterr()
    assert out.split() == ["mine"] * len(seen)


def test_a_verb_that_blocks_can_be_called_while_one_is_awaited(project: Project) -> None:
    """In a thread of the program that takes its context along."""
    project.write("evals.yaml", SUITE)

    async def play() -> tuple[rejoinder.RunReport, rejoinder.RunReport]:
        return await asyncio.gather(rejoinder.arun("evals.yaml"), asyncio.to_thread(rejoinder.run, "evals.yaml"))

    assert [report.summary.passed for report in asyncio.run(play())] == [1, 1]
