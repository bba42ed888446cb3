"""Turns with tools: calls are made and answered until the model has none left, whatever the conversation is like; and
what is recorded is never done again."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.kit import Project, Raw, by_case, essence, follow, journal_of, only_run, run, run_folders, scripted
from tests.tools.suites import DICE, calls, suite, told

Module = Callable[[str], str]


def played(project: Project, content: Raw, *arguments: str) -> Raw:
    [result] = run(project, content, *arguments)["results"]
    return result


def test_a_turn_goes_on_until_the_model_has_no_call_left(project: Project) -> None:
    result = played(project, suite(calls("dice", "dice"), calls("dice", text="again"), "done"))
    assert result["status"] == "passed"
    [turn] = result["turns"]
    assert turn["response"] == "done"
    assert told(result) == [("dice", "3", "completed"), ("dice", "5", "completed"), ("dice", "six", "completed")]


def test_the_tokens_of_all_rounds_are_counted(project: Project) -> None:
    replies = {**calls("dice"), "input_tokens": 10, "output_tokens": 1}, {"text": "x", "input_tokens": 20}
    result = played(project, suite(*replies))
    assert (result["usage"]["input_tokens"], result["usage"]["output_tokens"]) == (30, 2)


def test_an_error_in_the_middle_ends_the_conversation_and_keeps_what_was_spent(project: Project) -> None:
    result = played(project, suite({**calls("dice"), "input_tokens": 10}, {"error": "no more"}))
    assert (result["status"], result["error"]["type"]) == ("error", "scripted")
    assert result["usage"]["input_tokens"] == 10


def test_too_many_rounds_leave_calls_unanswered(project: Project) -> None:
    result = played(project, suite(*[calls("dice")] * 3, max_tool_rounds=2))
    assert told(result)[-1] == ("dice", None, "pending") and len(told(result)) == 3
    assert result["turns"][0]["finish_reason"] == "tool_rounds"


def test_ten_rounds_are_the_most_unless_said(project: Project) -> None:
    result = played(project, suite(*[calls("dice")] * 11))
    assert [state for _, _, state in told(result)] == ["completed"] * 10 + ["pending"]


@pytest.mark.parametrize(
    ("call", "words"),
    [
        ({"name": "coin", "arguments": {}}, "there is no tool `coin`; the tools are dice"),
        ({"name": "dice", "arguments": "{not json"}, "the arguments are no JSON object"),
        ({"name": "dice", "arguments": "[1]"}, "the arguments are no JSON object"),
        ({"name": "dice", "arguments": ""}, "3"),
    ],
)
def test_the_model_is_told_what_is_wrong_with_a_call(project: Project, call: Raw, words: str) -> None:
    result = played(project, suite({"tool_calls": [call]}, "sorry"))
    assert result["status"] == "passed"
    assert told(result)[0][1] == words


def test_so_many_calls_at_once_are_answered_and_no_more(project: Project) -> None:
    result = played(project, suite(calls(*["dice"] * 70), "done"))
    states = [state for _, _, state in told(result)]
    assert states == ["completed"] * 64 + ["failed"] * 6
    assert told(result)[-1][1] == "more than 64 calls at once"


def test_calls_of_tools_that_are_not_there_count_as_well(project: Project) -> None:
    result = played(project, suite(calls(*["c" * 1000] * 70), "done"))
    assert told(result)[63][1] == f"there is no tool `{'c' * 100}`; the tools are dice"
    assert told(result)[64][1] == "more than 64 calls at once"


def test_follow_ups_plans_and_windows_have_what_tools_said_in_their_history(project: Project) -> None:
    result = played(
        project,
        suite(
            calls("dice"), "wrong", calls("dice", text="hm"), "right",
            checks=[{"match": "right"}, follow("Again.", {"match": "right"})],
        ),
        "--include=messages",
    )  # fmt: skip
    assert result["status"] == "passed" and result["succeeded_on_turn"] == 2
    roles = [message["role"] for message in result["turns"][1]["messages"]]
    assert roles == ["user", "assistant", "tool", "assistant", "user"]
    assert told(result, 0) == [("dice", "3", "completed")] and told(result, 1) == [("dice", "5", "completed")]
    planned = suite(calls("dice"), "a", calls("dice"), "b", "c")
    planned["evals"] = [
        {
            "id": "plan",
            "turns": [
                {"prompt": "1", "checks": [{"tool_calls": ["dice"]}]},
                {"prompt": "2", "checks": [{"tool_calls": ["dice"]}]},
                {"prompt": "3", "window_size": 1, "checks": [{"tool_calls": {"max": 0}}]},
            ],
            "conversation_checks": [
                {"tool_calls": {"calls": [{"name": "dice", "times": 2}]}, "on": "transcript"},
            ],
        }
    ]
    result = played(project, planned, "--include=messages")
    assert result["status"] == "passed", result
    assert [message["content"] for message in result["turns"][2]["messages"]] == ["3"]


def test_a_conversation_asked_afresh_has_its_tools_from_the_beginning(project: Project) -> None:
    tool = {**DICE, "fails": [{"fault": "error", "at": 1}]}
    checks = [{"match": "right"}, follow("Again.", {"match": "right"})]
    content = suite(
        calls("dice"), "wrong", calls("dice"), "right", calls("dice"), "x",
        tools=[tool], checks=checks, control="afresh",
    )  # fmt: skip
    result = played(project, content)
    [of_control] = result["control"]["tool_calls"]
    assert of_control["fault"] == "error"
    faults = [call.get("fault") for turn in result["turns"] for call in turn["tool_calls"]]
    assert faults == ["error", None]
    assert result["faults"] == [{"tool": "dice", "fault": "error", "landed": [1], "at": 1}]


def test_simulated_users_and_variants(project: Project) -> None:
    content = suite(calls("dice"), "a", calls("dice"), "b")
    content["targets"].append(scripted("u", "And?", "###STOP###"))
    content["evals"][0] = {
        "id": "one",
        "user": {"goal": "numbers", "opening": "Throw.", "target": "u", "stop": "###STOP###", "max_turns": 2},
        "checks": [{"match": "*"}],
    }
    content["variants"] = [{"name": "plain"}, {"name": "short", "system_prompt": "Be short."}]
    document = run(project, content, "--target", "t")
    assert [result["variant"] for result in document["results"]] == ["plain", "short"]
    assert all(told(result, 0) == [("dice", "3", "completed")] for result in document["results"])


TOOL = """
from pathlib import Path
def note(word: str) -> str:
    "Writes a word down."
    with Path("notes.txt").open("a") as file:
        file.write(word + chr(10))
    return f"{word} is noted"
"""


@pytest.fixture
def noting(project: Project, module: Module) -> Raw:
    return {"python": f"{module(TOOL)}:note"}


def test_what_is_recorded_is_played_graded_and_forked_without_the_tool(project: Project, noting: Raw) -> None:
    content = suite(
        calls("note", word="a"), "one", "two",
        tools=[noting], checks=[{"match": "two"}, follow("More.", {"match": "two"})],
    )  # fmt: skip
    document = run(project, content, "--record", "tapes")
    [result] = document["results"]
    notes = project.folder / "notes.txt"
    assert result["status"] == "passed" and notes.read_text() == "a\n"
    folder = only_run(project.folder)
    again = project.run_json("replay", folder.name)
    assert essence(again)["results"] == essence(document)["results"]
    assert (
        project.run_json("grade", folder.name)["results"][0]["turns"][0]["tool_calls"]
        == result["turns"][0]["tool_calls"]
    )
    taped = run(project, content, "--replay", "tapes")
    assert taped["results"][0]["turns"][0]["tool_calls"][0]["result"] == "a is noted"
    forked = project.run_json(
        "fork", folder.name, "--case", "one", "--turn", "2", "--prompt", "Other words.", code=None
    )
    [result] = forked["results"]
    assert told(result, 0) == [("note", "a is noted", "completed")]
    assert result["turns"][1]["prompt"] == "Other words."
    assert notes.read_text() == "a\n"


def test_every_call_of_a_tool_is_in_the_journal(project: Project, noting: Raw) -> None:
    run(project, suite(calls("note", word="a"), "one", tools=[noting]))
    told = [record["key"] for record in journal_of(only_run(project.folder)) if record["type"] == "told"]
    assert [key.partition("-")[0] for key in told] == ["tool", "candidate", "tool", "candidate"]


def test_a_budget_ends_a_turn_between_its_rounds_and_resume_goes_on(project: Project, noting: Raw) -> None:
    replies = {**calls("note", word="a"), "input_tokens": 60}, {"text": "one", "input_tokens": 60}
    project.write("evals.yaml", suite(*replies, tools=[noting]))
    ended = project.invoke("run", "evals.yaml", "--budget-tokens", "100")
    assert ended.exit_code != 0
    [folder] = run_folders(project.folder)
    document = project.run_json("resume", folder.name, "--budget-tokens", "1000")
    assert by_case(document)["one"]["status"] == "passed"
    assert (project.folder / "notes.txt").read_text() == "a\n"


def test_tools_of_a_target_stand_beside_those_of_the_suite(project: Project) -> None:
    content = suite(calls("dice", "coin"), "done")
    content["targets"][0]["tools"] = [{"scripted": {"name": "coin", "returns": {"side": "heads"}}}]
    assert told(played(project, content)) == [("dice", "3", "completed"), ("coin", '{"side":"heads"}', "completed")]


def test_without_tools_nothing_is_called_and_nothing_changes(project: Project) -> None:
    content = suite(calls("dice"))
    del content["tools"]
    result = played(project, content)
    assert result["turns"][0]["tool_calls"][0] == {"name": "dice", "arguments": "{}"}


def test_no_code_refuses_tools_that_run_code(project: Project, noting: Raw) -> None:
    program = {"mcp": {"name": "s", "command": "server"}}
    for tool in (noting, program):
        project.write("evals.yaml", suite("a", tools=[tool]))
        result = project.invoke("run", "evals.yaml", "--no-code")
        assert "has tools that run code, and --no-code refuses that" in str(result.exception)
    assert played(project, suite(calls("dice"), "b"), "--no-code")["status"] == "passed"


def test_a_damaged_recording_of_a_tool_is_an_error_that_says_so(project: Project, noting: Raw) -> None:
    run(project, suite(calls("note", word="a"), "one", tools=[noting]), "--record", "tapes")
    [tape] = (path for path in Path(project.folder, "tapes").rglob("*.yaml"))
    tape.write_text(tape.read_text().replace('{"text":"a is noted"}', '{"words":"a is noted"}'))
    result = played(project, suite(calls("note", word="a"), "one", tools=[noting]), "--replay", "tapes")
    assert result["status"] == "error"
    assert json.dumps(result["error"]).count("cannot be read") == 1
