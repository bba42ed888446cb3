"""Ctrl-C and SIGTERM end real processes soon, wherever they are: in the event loop, in functions that block it, in a
long check, while loading and while showing. What is recorded stays, and no process is left behind."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Project

SOON_S = 15.0
"""The bound is two seconds; a busy machine may need more. What is interrupted would take a minute, or never end."""
PATIENCE_S = 60.0

BOT = """
import asyncio, pathlib, time

def reply(request):
    with open("asked", "a") as stream:
        stream.write("x")
    return "The answer is 42."

def prose(request):
    with open("asked", "a") as stream:
        stream.write("x")
    return "{a} " * 6_000_000

def wait(stop):
    pathlib.Path("begun").touch()
    while not pathlib.Path("go").exists():
        stop()
    return True

def spin():
    sum(range(100_000))

async def sleep_in_loop(context):
    return wait(lambda: time.sleep(60))

async def spin_in_loop(context):
    return wait(spin)

def sleep_in_thread(context):
    return wait(lambda: time.sleep(60))

def spin_in_thread(context):
    return wait(spin)

async def block_when_scripts_run(context):
    while not pathlib.Path("go").exists() and len(pathlib.Path("pids").read_text().split()) < 4:
        await asyncio.sleep(0.05)
    return wait(lambda: time.sleep(60))
"""

SCRIPT = """
import os, pathlib, subprocess, time
if not pathlib.Path("go").exists():
    child = subprocess.Popen(["sleep", "600"], start_new_session=True)
    with open("pids", "a") as stream:
        stream.write(f"{os.getpid()} {child.pid} ")
    time.sleep(600)
print("true")
"""

SIGNALS = {
    "two interrupts": (signal.SIGINT, signal.SIGINT),
    "SIGTERM": (signal.SIGTERM,),
    "SIGHUP": (signal.SIGHUP,),
}


class Process:
    """A command in a process of its own."""

    def __init__(self, folder: Path, *arguments: str) -> None:
        self.errors = folder / "stderr"
        with self.errors.open("wb") as stream:
            command = [sys.executable, "-m", "rejoinder", *arguments]
            self._process = subprocess.Popen(command, cwd=folder, stdout=subprocess.DEVNULL, stderr=stream)
        self.pid = self._process.pid

    def wait_for(self, condition: Callable[[], Any], what: str) -> None:
        end = time.monotonic() + PATIENCE_S
        while not condition():
            assert self._process.poll() is None, self.errors.read_text()
            assert time.monotonic() < end, what
            time.sleep(0.02)

    def wait_until_busy(self, cpu_s: float) -> None:
        """Until it has used more CPU time than starting needs."""
        tick = os.sysconf("SC_CLK_TCK")

        def used() -> float:
            fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
            return (int(fields[11]) + int(fields[12])) / tick

        self.wait_for(lambda: used() >= cpu_s, "it does nothing")

    def end_by(self, *signals: signal.Signals) -> int:
        """The exit code after these signals."""
        for number in signals:
            self._process.send_signal(number)
            time.sleep(0.2)
        return self._process.wait(SOON_S)

    @staticmethod
    def wait_for_end_of(pids: list[str]) -> None:
        end = time.monotonic() + SOON_S
        while alive := [pid for pid in pids if is_alive(pid)]:
            assert time.monotonic() < end, f"{alive} are still alive"
            time.sleep(0.02)

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()


@pytest.fixture
def start(project: Project) -> Iterator[Callable[..., Process]]:
    begun: list[Process] = []

    def run(*arguments: str) -> Process:
        begun.append(Process(project.folder, *arguments))
        return begun[-1]

    yield run
    for process in begun:
        process.kill()


def write_suite(project: Project, checks: dict[str, Any], call: str = "bot:reply") -> None:
    project.write("bot.py", BOT)
    project.write("script.py", SCRIPT)
    cases = [{"id": name, "prompt": "What is it?", "checks": [check]} for name, check in checks.items()]
    target = {"name": "bot", "provider": "python", "call": call}
    project.write("evals.yaml", {"targets": [target], "target": "bot", "evals": cases})


def resume(project: Project) -> dict[str, Any]:
    return json.loads(project.run("resume", "--format", "json"))["summary"]


def is_alive(pid: str) -> bool:
    stat = Path(f"/proc/{pid}/stat")
    return stat.exists() and stat.read_text().rpartition(")")[2].split()[0] not in "ZX"


@pytest.mark.parametrize("signals", SIGNALS.values(), ids=SIGNALS.keys())
@pytest.mark.parametrize("function", ["sleep_in_loop", "spin_in_loop", "sleep_in_thread", "spin_in_thread"])
def test_signals_end_a_run_whose_function_blocks(
    project: Project, start: Callable[..., Process], function: str, signals: tuple[signal.Signals, ...]
) -> None:
    write_suite(project, {"a": {"python": f"bot:{function}"}})
    process = start("run")
    process.wait_for((project.folder / "begun").exists, "the function has not begun")
    assert process.end_by(*signals) == 130
    errors = process.errors.read_text()
    assert "Traceback" not in errors
    project.write("go", "")
    assert resume(project)["passed"] == 1
    assert (project.folder / "asked").read_text() == "x"  # the reply was recorded, and not asked for again


def test_a_run_that_is_ended_while_the_loop_is_blocked_says_how_to_go_on(
    project: Project, start: Callable[..., Process]
) -> None:
    write_suite(project, {"a": {"python": "bot:sleep_in_loop"}})
    process = start("run")
    process.wait_for((project.folder / "begun").exists, "the function has not begun")
    assert process.end_by(signal.SIGTERM) == 130
    [run] = [path.name for path in (project.folder / ".rejoinder/runs").iterdir() if path.is_dir()]
    assert f"everything recorded is safe. Go on with: rejoinder resume {run}" in process.errors.read_text()
    assert "ended by a signal" in (project.folder / ".rejoinder/runs" / run / "run.log").read_text()


@pytest.mark.parametrize("signals", SIGNALS.values(), ids=SIGNALS.keys())
def test_signals_end_a_long_check_of_our_own(
    project: Project, start: Callable[..., Process], signals: tuple[signal.Signals, ...]
) -> None:
    write_suite(project, {"a": {"contains_json": True}}, call="bot:prose")
    process = start("run")
    process.wait_for((project.folder / "asked").exists, "it does not ask")
    process.wait_until_busy(2)
    assert process.end_by(*signals) == 130
    write_suite(project, {"a": {"contains": "{a}"}}, call="bot:prose")
    assert resume(project)["passed"] == 1
    assert (project.folder / "asked").read_text() == "x"


@pytest.mark.parametrize("signals", SIGNALS.values(), ids=SIGNALS.keys())
def test_signals_end_scripts_while_the_loop_is_blocked(
    project: Project, start: Callable[..., Process], signals: tuple[signal.Signals, ...]
) -> None:
    code = {"code": {"script": [sys.executable, "script.py"], "timeout": 600}}
    write_suite(project, {"a": code, "b": code, "c": {"python": "bot:block_when_scripts_run"}})
    project.write("pids", "")
    process = start("run")
    process.wait_for((project.folder / "begun").exists, "the function has not begun")
    pids = (project.folder / "pids").read_text().split()
    assert len(pids) == 4
    assert process.end_by(*signals) == 130
    process.wait_for_end_of(pids)
    project.write("go", "")
    assert resume(project)["passed"] == 3
    assert (project.folder / "asked").read_text() == "xxx"


def write_long_data(project: Project) -> None:
    rows = "".join(json.dumps({"id": f"case {number}", "prompt": "x" * 50}) + "\n" for number in range(300_000))
    project.write("rows.jsonl", rows)
    target = {"name": "bot", "provider": "scripted", "replies": ["x"]}
    suite = {"targets": [target], "target": "bot", "cases": "rows.jsonl", "defaults": {"checks": [{"match": "x"}]}}
    project.write("evals.yaml", suite)


@pytest.mark.parametrize("command", ["run", "validate"])
def test_an_interrupt_ends_loading(project: Project, start: Callable[..., Process], command: str) -> None:
    write_long_data(project)
    process = start(command)
    process.wait_until_busy(2)
    assert process.end_by(signal.SIGINT) == 130
    assert process.errors.read_text().strip() == "interrupted"
    runs = project.folder / ".rejoinder/runs"
    assert not runs.exists() or [path for path in runs.iterdir() if path.is_dir()] == []


def test_an_interrupt_ends_show_and_no_half_result_is_kept(project: Project, start: Callable[..., Process]) -> None:
    write_suite(project, {"a": {"contains_json": True}}, call="bot:prose")
    process = start("run")
    process.wait_for((project.folder / "asked").exists, "it does not ask")
    process.wait_until_busy(2)
    process.kill()
    [run] = [path for path in (project.folder / ".rejoinder/runs").iterdir() if path.is_dir()]
    process = start("show")
    process.wait_until_busy(2)
    assert process.end_by(signal.SIGINT) == 130
    assert process.errors.read_text().strip() in ("", "interrupted")
    assert json.loads((run / "run.json").read_text())["status"] == "running"
    assert not (run / "summary.json").exists()
