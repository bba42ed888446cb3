"""Tools that fail on purpose: what each fault does, which calls it meets, and what is said of it."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from rejoinder.engine.toolbox import spoilt
from rejoinder.model.messages import ToolAnswer
from rejoinder.model.tools import Fault
from tests.kit import Project, Raw, only_run, run, scripted
from tests.tools import servers
from tests.tools.suites import calls, suite, told

LONG = "abcdefgh"


def lookup(*fails: Raw, returns: Any = LONG) -> Raw:
    return {"scripted": {"name": "look", "returns": returns}, "fails": list(fails)}


TWICE = calls("look"), calls("look"), "done"


def played(project: Project, *fails: Raw, replies: Any = TWICE) -> Raw:
    return run(project, suite(*replies, tools=[lookup(*fails)]))


@pytest.mark.parametrize(
    ("fault", "result", "status"),
    [
        ("timeout", "the tool did not answer within 5 s", "failed"),
        ("error", "the tool failed: internal error", "failed"),
        ("malformed", 'abcd\ufffd{"', "completed"),
        ("truncated", "abcd", "completed"),
        ("empty", "", "completed"),
    ],
)
def test_what_a_fault_does(project: Project, fault: str, result: str, status: str) -> None:
    document = played(project, {"fault": fault})
    [turn] = document["results"][0]["turns"]
    met, spared = turn["tool_calls"]
    assert (met["result"], met["status"], met["fault"]) == (result, status, fault)
    assert (spared["result"], spared["status"], spared.get("fault")) == (LONG, "completed", None)
    assert document["summary"]["faults"] == {"planned": 1, "landed": 1, "recovered": 1}


def test_a_slow_tool_answers_late(project: Project) -> None:
    [result] = played(project, {"fault": "slow", "seconds": 0.2})["results"]
    [late, quick] = result["turns"][0]["tool_calls"]
    assert late["result"] == LONG and late["duration_s"] >= 0.2 > quick["duration_s"]
    assert result["turns"][0]["duration_s"] >= 0.2


def test_a_picture_does_not_outlive_a_fault() -> None:
    assert spoilt(ToolAnswer("ab", pictures=(object(),)), Fault(fault="empty")) == ToolAnswer("")  # pyright: ignore


def test_at_counts_the_calls_of_a_conversation(project: Project) -> None:
    [result] = played(project, {"fault": "error", "at": 2})["results"]
    assert [call.get("fault") for call in result["turns"][0]["tool_calls"]] == [None, "error"]
    assert result["faults"] == [{"tool": "look", "fault": "error", "landed": [1], "at": 2}]


def test_a_fault_that_never_landed_is_said(project: Project) -> None:
    document = played(project, {"fault": "error", "at": 3})
    assert document["results"][0]["faults"] == [{"tool": "look", "fault": "error", "at": 3}]
    assert document["summary"]["faults"] == {"planned": 1, "landed": 0, "recovered": 0}
    shown = " ".join(project.run("show").split())
    assert "0 of 1 fault of tools landed" in shown
    assert "1 fault never landed; it tested nothing" in shown
    whole = project.run("show", "-v")
    assert "  Never landed: error of look (call 3)\n" in whole
    assert "0 of 1 fault of tools landed\n" in whole and "WARN 1 fault never landed" in whole


def test_the_first_fault_that_is_due_meets_a_call(project: Project) -> None:
    [result] = played(project, {"fault": "empty", "at": 1}, {"fault": "error", "at": 1})["results"]
    assert [one.get("landed") for one in result["faults"]] == [[1], None]


def test_a_rate_meets_the_same_calls_in_every_run(project: Project) -> None:
    replies = (*[calls("look")] * 9, "done")

    def met(seed: int) -> list[bool]:
        [result] = played(project, {"fault": "error", "rate": 0.5, "seed": seed}, replies=replies)["results"]
        return ["fault" in call for call in result["turns"][0]["tool_calls"]]

    patterns = [met(seed) for seed in range(4)]
    assert met(0) == patterns[0]
    assert len(set(map(tuple, patterns))) > 1
    assert 5 < sum(map(sum, patterns)) < 31


def test_a_replay_has_the_same_faults_at_the_same_calls(project: Project) -> None:
    document = played(project, {"fault": "truncated", "rate": 0.5}, replies=(*[calls("look")] * 6, "done"))
    again = project.run_json("replay", only_run(project.folder).name)
    assert told(again["results"][0]) == told(document["results"][0])
    assert again["results"][0]["faults"] == document["results"][0]["faults"]
    assert again["summary"]["faults"] == document["summary"]["faults"]


def test_recovery_counts_conversations_that_passed(project: Project) -> None:
    content = suite(tools=[lookup({"fault": "error"})])
    content["targets"] = [scripted("t", replies={"a": [calls("look"), "yes"], "b": [calls("look"), "no"]})]
    content["targets"][0]["replies"] = {"a": [calls("look"), "yes"], "b": [calls("look"), "no"]}
    content["evals"] = [{"id": name, "prompt": "?", "checks": [{"match": "yes"}]} for name in "ab"]
    document = run(project, content)
    assert document["summary"]["faults"] == {"planned": 2, "landed": 2, "recovered": 1}
    assert "2 of 2 faults of tools landed, recovered after 1 of 2" in project.run("show")


def test_a_fault_of_one_tool_of_a_server(project: Project) -> None:
    script = str(Path(servers.__file__))
    mcp = {"name": "ours", "command": sys.executable, "args": ["-I", "-S", script, "fine"]}
    tool = {"mcp": {**mcp, "fails": [{"fault": "timeout", "tool": "look", "at": 1, "seconds": 3}]}}
    replies = calls("ours__drop", "ours__look", "ours__look", word="tea"), "done"
    [result] = run(project, suite(*replies, tools=[tool]))["results"]
    assert told(result) == [
        ("drop", "tea means 3", "completed"),
        ("look", "the tool did not answer within 3 s", "failed"),
        ("look", "tea means 3", "completed"),
    ]
    assert [call["server"] for call in result["turns"][0]["tool_calls"]] == ["ours"] * 3


@pytest.mark.parametrize(("named", "words"), [("lok", "; did you mean `look`?"), ("x", "; it offers look, drop")])
def test_a_fault_of_a_tool_that_is_not_offered_is_refused(project: Project, named: str, words: str) -> None:
    script = str(Path(servers.__file__))
    mcp = {"name": "ours", "command": sys.executable, "args": ["-I", "-S", script, "fine"]}
    tool = {"mcp": {**mcp, "fails": [{"fault": "error", "tool": named}]}}
    why = f"`fails` names the tool `{named}`, which `ours` does not offer{words}"
    [result] = run(project, suite("done", tools=[tool]))["results"]
    assert (result["status"], result["error"]["message"]) == ("error", why)
    assert why in " ".join(project.run("tools", code=3).split())
