"""Ctrl-C and SIGTERM while a tool is called: the run ends soon and leaves no server, and resume finishes it. What a
tool answered before is not asked again."""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.kit import Ended, Process, Project, Raw, assert_gone, only_run
from tests.labs.tool_lab import KINDS, Notes, noting
from tests.tools import servers

pytestmark = pytest.mark.slow

SOON_S = 20.0
"""A server has two seconds to end by itself; a busy machine may need more. The call would never end."""
SIGNALS = {"two interrupts": (signal.SIGINT, signal.SIGINT), "SIGTERM": (signal.SIGTERM,)}
Start = Callable[..., Process]


def suite(tool: Raw, *replies: Raw | str) -> Raw:
    case = {"id": "one", "prompt": "Note it.", "checks": [{"match": "done"}]}
    target = {"name": "t", "provider": "scripted", "replies": [*replies, "done"]}
    return {"targets": [target], "tools": [tool], "evals": [case]}


@pytest.fixture
def notes(project: Project, request: pytest.FixtureRequest) -> Iterator[Notes]:
    with noting(project, request.param) as found:
        project.write("evals.yaml", suite(found.tool, found.call("first"), found.call("wait"), found.call("last")))
        yield found


def end_by(process: Process, *signals: signal.Signals) -> Ended:
    for number in signals:
        process.process.send_signal(number)
        time.sleep(0.2)
    return process.end(SOON_S)


@pytest.mark.parametrize("signals", SIGNALS.values(), ids=SIGNALS.keys())
@pytest.mark.parametrize("notes", KINDS, indirect=True)
def test_a_signal_in_a_call_ends_the_run_and_its_servers(
    project: Project, start: Start, notes: Notes, signals: tuple[signal.Signals, ...]
) -> None:
    process = start("run", "evals.yaml")
    process.wait_for(lambda: notes.made()["wait"], "the call was not made")
    ended = end_by(process, *signals)
    assert ended.code == 130
    assert "Traceback" not in ended.err
    assert f"rejoinder resume {only_run(project.folder).name}" in ended.out + ended.err
    assert_gone(*notes.pids())
    project.write("go", "")
    document = project.run_json("resume", "last")
    assert document["summary"]["passed"] == 1
    assert document["run"]["in_doubt"] == 1
    assert notes.made() == {"first": 1, "wait": 2, "last": 1}
    assert_gone(*notes.pids())


@pytest.mark.parametrize("notes", KINDS, indirect=True)
def test_the_first_interrupt_finishes_a_conversation_with_the_calls_of_its_tools(
    project: Project, start: Start, notes: Notes
) -> None:
    process = start("run", "evals.yaml")
    process.wait_for(lambda: notes.made()["wait"], "the call was not made")
    process.interrupt()
    process.wait_until_it_says("finishing")
    project.write("go", "")
    assert process.end(SOON_S).code == 130
    assert_gone(*notes.pids())
    assert notes.made() == {"first": 1, "wait": 1, "last": 1}
    assert project.run_json("show")["summary"]["passed"] == 1
    document = project.run_json("resume", "last")
    assert (document["summary"]["passed"], document["run"]["in_doubt"]) == (1, 0)
    assert notes.made() == {"first": 1, "wait": 1, "last": 1}


def hanging() -> Raw:
    """A server that reads nothing any more once it is called, so it does not notice that its input has ended."""
    script = str(Path(servers.__file__))
    mcp = {"name": "ours", "command": sys.executable, "args": ["-I", "-S", script, "hang", "pids.txt"]}
    return suite({"mcp": mcp}, {"tool_calls": [{"name": "ours__look", "arguments": {"word": "a"}}]})


@pytest.mark.parametrize("end", ["two interrupts", "SIGTERM", "kill"])
def test_a_server_that_does_not_listen_any_more_is_ended_too(project: Project, start: Start, end: str) -> None:
    project.write("evals.yaml", hanging())
    process = start("run", "evals.yaml")
    process.wait_for((project.folder / "pids.txt.called").exists, "the tool was not called")
    ended = process.kill() if end == "kill" else end_by(process, *SIGNALS[end])
    assert ended.code == (-signal.SIGKILL if end == "kill" else 130)
    assert_gone(int((project.folder / "pids.txt").read_text()))
