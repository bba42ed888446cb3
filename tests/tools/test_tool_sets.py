"""Named sets of tools, and tools that change from turn to turn."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from tests.kit import Project, Raw, essence, journal_of, run, run_folders, scripted
from tests.tools import servers
from tests.tools.suites import DICE, calls, told

COIN = {"scripted": {"name": "coin", "returns": ["heads", "tails"]}}
CARD = {"scripted": {"name": "card", "returns": "ace"}}
OURS = {"mcp": {"name": "ours", "command": sys.executable, "args": ["-I", "-S", str(Path(servers.__file__)), "fine"]}}


def planned(*turns: Raw, replies: Any, **suite: Any) -> Raw:
    said = [{"prompt": f"Turn {number}.", **turn} for number, turn in enumerate(turns, 1)]
    case = {"id": "one", "turns": said, "checks": [{"match": "*"}], "on_turn_failure": "continue"}
    return {"targets": [scripted("t", *replies)], "evals": [case], **suite}


def offered(result: Raw) -> list[list[str]]:
    return [turn.get("offered", []) for turn in result["turns"]]


def test_a_set_is_named_wherever_tools_may_stand(project: Project) -> None:
    sets = {"dice": [DICE], "more": [COIN, DICE]}
    content = {
        "tool_sets": sets,
        "tools": ["dice"],
        "targets": [{**scripted("t", "a"), "tools": ["more", CARD]}],
        "evals": [{"id": "one", "prompt": "Throw.", "tools": ["more"], "checks": [{"match": "*"}]}],
    }
    [result] = run(project, content)["results"]
    assert offered(result) == [["dice", "coin", "card"]]


def test_a_turns_tools_replace_those_of_suite_and_case_and_keep_the_targets(project: Project) -> None:
    turns: list[Raw] = [{}, {"tools": ["cards"]}, {"tools": []}, {}]
    content = planned(*turns, replies="abcd", tool_sets={"cards": [CARD]}, tools=[DICE])
    content["targets"][0]["tools"] = [COIN]
    [result] = run(project, content)["results"]
    assert offered(result) == [["dice", "coin"], ["card", "coin"], ["coin"], ["dice", "coin"]]


def test_a_tool_that_is_not_offered_in_a_turn_cannot_be_called_in_it(project: Project) -> None:
    replies = [calls("dice"), "a", calls("dice"), calls("coin"), "b", calls("dice"), "c"]
    [result] = run(project, planned({}, {"tools": [COIN]}, {}, replies=replies, tools=[DICE]))["results"]
    assert told(result, 0) == [("dice", "3", "completed")]
    assert told(result, 1) == [
        ("dice", "there is no tool `dice`; the tools are coin", "failed"),
        ("coin", "heads", "completed"),
    ]
    assert told(result, 2) == [("dice", "5", "completed")]  # it goes on where it was


def test_without_any_tool_a_call_is_answered_too(project: Project) -> None:
    [result] = run(project, planned({}, {"tools": []}, replies=["a", calls("dice"), "b"], tools=[DICE]))["results"]
    assert told(result, 1) == [("dice", "there is no tool `dice`; no tool is offered now", "failed")]


def test_follow_ups_have_the_tools_of_their_turn(project: Project) -> None:
    checks = [{"match": "b"}, {"prompt": "Again.", "checks": [{"match": "b"}]}]
    content = planned({}, {"tools": [COIN], "checks": checks}, {}, replies=["a", "a", "b", "c"], tools=[DICE])
    [result] = run(project, content)["results"]
    assert offered(result) == [["dice"], ["coin"], ["coin"], ["dice"]]


def test_two_turns_may_have_different_tools_of_one_name(project: Project) -> None:
    other = {"scripted": {"name": "dice", "returns": "one"}}
    replies = [calls("dice"), "a", calls("dice"), "b", calls("dice"), "c"]
    [result] = run(project, planned({}, {"tools": [other]}, {}, replies=replies, tools=[DICE]))["results"]
    assert [told(result, turn)[0][1] for turn in range(3)] == ["3", "one", "5"]
    content = planned({"tools": [DICE, other]}, replies=["a"])
    assert ("duplicate-id", "tools") in [(one["code"], one["path"]) for one in project.errors(content)]


def test_a_server_is_not_asked_before_its_turn(project: Project) -> None:
    broken = {"mcp": {**OURS["mcp"], "args": [*OURS["mcp"]["args"][:-1], "refuse"]}}
    content = planned({}, {"tools": [broken]}, replies=["a", "b"], tools=[DICE])
    [result] = run(project, content, code=3)["results"]
    assert result["turns"][0]["response"] == "a" and "no licence found" in result["error"]["message"]
    assert result["error"]["turn"] == 2


def test_other_tools_in_a_turn_are_other_calls(project: Project) -> None:
    """A reply depends on the tools that were offered, and on those of earlier turns."""
    keys: list[list[str]] = []
    for tools in ([COIN], [CARD], [DICE]):
        run(project, planned({}, {"tools": tools}, {}, replies=["a", "b", "c"], tools=[DICE]))
        folder = max(run_folders(project.folder))
        keys.append([record["key"] for record in journal_of(folder) if record["type"] == "told"])
    first, second, third = zip(*keys, strict=True)
    assert (len(set(first)), len(set(second)), len(set(third))) == (1, 3, 3)


def test_replay_and_resume_find_what_was_offered(project: Project) -> None:
    replies = [calls("dice"), "a", calls("coin"), "b"]
    first = run(project, planned({}, {"tools": [COIN, OURS]}, replies=replies, tools=[DICE]))
    again = project.run_json("replay")
    assert essence(again) == essence(first)
    assert offered(again["results"][0]) == [["dice"], ["coin", "ours__look", "ours__drop"]]


@pytest.mark.parametrize(
    ("content", "problem", "words"),
    [
        ({"tools": ["dize"]}, ("unknown-tool-set", "tools[0]"), "there is no tool set `dize`; did you mean `dice`?"),
        ({"tool_sets": {"dice": ["dice"]}}, ("wrong-type", "tool_sets.dice[0]"), "must be a mapping"),
        ({"tool_sets": {"dice": []}}, ("out-of-range", "tool_sets.dice"), "must not be empty"),
        ({"tool_sets": {"dice": [{}]}}, ("missing-field", "tool_sets.dice[0]"), "this item has none"),
        ({"tool_sets": [DICE]}, ("wrong-type", "tool_sets"), "must be a mapping"),
    ],
)
def test_what_is_wrong_with_a_set_is_said_at_its_place(
    project: Project, content: Raw, problem: tuple[str, str], words: str
) -> None:
    base = {"tool_sets": {"dice": [DICE]}, "targets": [scripted("t", "a")]}
    base["evals"] = [{"prompt": "Throw.", "checks": [{"match": "*"}]}]
    [found] = project.errors({**base, **content})
    assert (found["code"], found["path"]) == problem and words in found["message"]


def test_an_unknown_set_is_found_in_case_turn_and_target(project: Project) -> None:
    content = planned({"tools": ["x"]}, replies=["a"], tool_sets={"dice": [DICE]})
    content["evals"][0]["tools"] = [DICE, "y"]
    content["targets"][0]["tools"] = ["z"]
    found = {(one["code"], one["path"]) for one in project.errors(content)}
    assert found == {
        ("unknown-tool-set", "evals[0].tools[1]"),
        ("unknown-tool-set", "evals[0].turns[0].tools[0]"),
        ("unknown-tool-set", "targets[0].tools[0]"),
    }


def test_a_target_of_another_file_cannot_name_sets(project: Project) -> None:
    project.write(".rejoinder/targets.yaml", {"targets": [{**scripted("t", "a"), "tools": ["dice"]}]})
    content = {"tool_sets": {"dice": [DICE]}, "target": "t", "evals": [{"prompt": "x", "checks": [{"match": "*"}]}]}
    project.write("evals.yaml", content)
    shown = project.invoke("run").output
    assert "unknown-tool-set" in shown and "only its own targets know them" in " ".join(shown.split())


def test_tools_of_turns_are_refused_like_others(project: Project) -> None:
    content = planned({}, {"tools": [{"python": "not_there_at_all:x"}]}, replies=["a", "b"])
    assert [one["code"] for one in project.errors(content)] == ["file-not-found"]
    project.write("evals.yaml", content)
    assert "--no-code refuses that" in str(project.invoke("run", "evals.yaml", "--no-code").exception)


def test_verbose_output_says_what_was_offered_where_it_changes(project: Project) -> None:
    content = planned({}, {"tools": []}, replies=["a", "b"], tools=[DICE, COIN])
    project.write("evals.yaml", content)
    shown = project.run("run", "-v")
    assert "    Offered: dice, coin\n" in shown and "    Offered: no tools\n" in shown
    project.write("evals.yaml", planned({}, {}, replies=["a", "b"], tools=[DICE]))
    assert "Offered" not in project.run("run", "-v")
