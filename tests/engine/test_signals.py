"""Ctrl-C and SIGTERM end real processes soon, wherever they are: in the event loop, in functions that block it, in a
long check, while loading and while showing. What is recorded stays, and no process is left behind."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.kit import Ended, Process, Project, assert_gone, only_run, run_folders, scripted

pytestmark = pytest.mark.slow

SOON_S = 15.0
"""The bound is two seconds; a busy machine may need more. What is interrupted would take a minute, or never end."""

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


def wait_until_busy(process: Process, cpu_s: float) -> None:
    """Until it has used more CPU time than starting needs."""
    tick = os.sysconf("SC_CLK_TCK")

    def used() -> float:
        fields = Path(f"/proc/{process.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / tick

    process.wait_for(lambda: used() >= cpu_s, "it does nothing")


def end_by(process: Process, *signals: signal.Signals) -> Ended:
    for number in signals:
        process.process.send_signal(number)
        time.sleep(0.2)
    return process.end(SOON_S)


def write_suite(project: Project, checks: dict[str, Any], call: str = "bot:reply") -> None:
    project.write("bot.py", BOT)
    project.write("script.py", SCRIPT)
    cases = [{"id": name, "prompt": "What is it?", "checks": [check]} for name, check in checks.items()]
    target = {"name": "bot", "provider": "python", "call": call}
    project.write("evals.yaml", {"targets": [target], "target": "bot", "evals": cases})


def resume(project: Project) -> dict[str, Any]:
    return project.run_json("resume", "last")["summary"]


@pytest.mark.parametrize("signals", SIGNALS.values(), ids=SIGNALS.keys())
@pytest.mark.parametrize("function", ["sleep_in_loop", "spin_in_loop", "sleep_in_thread", "spin_in_thread"])
def test_signals_end_a_run_whose_function_blocks(
    project: Project, start: Callable[..., Process], function: str, signals: tuple[signal.Signals, ...]
) -> None:
    write_suite(project, {"a": {"python": f"bot:{function}"}})
    process = start("run")
    process.wait_for((project.folder / "begun").exists, "the function has not begun")
    assert end_by(process, *signals).code == 130
    errors = process.err.text
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
    assert end_by(process, signal.SIGTERM).code == 130
    run = only_run(project.folder)
    assert f"everything recorded is safe. To continue: rejoinder resume {run.name}" in process.err.text
    assert "ended by a signal" in (run / "run.log").read_text()


@pytest.mark.parametrize("signals", SIGNALS.values(), ids=SIGNALS.keys())
def test_signals_end_a_long_check_of_our_own(
    project: Project, start: Callable[..., Process], signals: tuple[signal.Signals, ...]
) -> None:
    write_suite(project, {"a": {"contains_json": True}}, call="bot:prose")
    process = start("run")
    process.wait_for((project.folder / "asked").exists, "it does not ask")
    wait_until_busy(process, 1)
    assert end_by(process, *signals).code == 130
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
    pids = [int(pid) for pid in (project.folder / "pids").read_text().split()]
    assert len(pids) == 4
    assert end_by(process, *signals).code == 130
    assert_gone(*pids)
    project.write("go", "")
    assert resume(project)["passed"] == 3
    assert (project.folder / "asked").read_text() == "xxx"


def write_long_data(project: Project) -> None:
    rows = "".join(json.dumps({"id": f"case {number}", "prompt": "x" * 50}) + "\n" for number in range(300_000))
    project.write("rows.jsonl", rows)
    target = scripted("bot", "x")
    suite = {"targets": [target], "target": "bot", "cases": "rows.jsonl", "defaults": {"checks": [{"match": "x"}]}}
    project.write("evals.yaml", suite)


@pytest.mark.parametrize("command", ["run", "validate"])
def test_an_interrupt_ends_loading(project: Project, start: Callable[..., Process], command: str) -> None:
    write_long_data(project)
    process = start(command)
    wait_until_busy(process, 1)
    assert end_by(process, signal.SIGINT).code == 130
    assert process.err.text.strip() == "interrupted"
    assert run_folders(project.folder) == []


def test_an_interrupt_ends_show_and_leaves_neither_half_a_result_nor_a_folder(
    project: Project, start: Callable[..., Process]
) -> None:
    write_suite(project, {"a": {"contains_json": True}}, call="bot:prose")
    process = start("run")
    process.wait_for((project.folder / "asked").exists, "it does not ask")
    wait_until_busy(process, 1)
    process.kill()
    temporary = project.folder / "temporary"
    temporary.mkdir()
    process = start("show", TMPDIR=str(temporary))
    wait_until_busy(process, 1)
    assert end_by(process, signal.SIGINT).code == 130
    assert process.err.text.strip() in ("", "interrupted")
    assert list(temporary.iterdir()) == []
    run = only_run(project.folder)
    assert json.loads((run / "run.json").read_text())["status"] == "running"
    assert not (run / "summary.json").exists()
