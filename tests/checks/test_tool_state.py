"""`tool_state`: what a conversation has left in a tool that remembers."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from tests.kit import (
    Process,
    Project,
    Raw,
    by_case,
    codes,
    essence,
    follow,
    journal_of,
    only_run,
    run,
    run_process,
    scripted,
    verdict_of,
)

SHOP = '''
import os, time
from pathlib import Path

orders = []


class Shop:
    """A shop that each conversation has for itself."""

    def __init__(self):
        self.orders = []

    def order(self, item: str, pieces: int = 1) -> str:
        """Order something."""
        if item == "crash":
            os._exit(7)
        self.orders.append({"item": item, "pieces": pieces})
        return "ordered"

    def state(self, item: str = "") -> list:
        """All that was ordered."""
        with open("asked.txt", "a") as file:
            file.write("x")
        while Path("wait").exists() and not Path("go").exists():
            time.sleep(0.02)
        if item == "nothing":
            raise KeyError(item)
        return [one for one in self.orders if item in ("", one["item"])]

    def _hidden(self):
        return "hidden"


def put(item: str) -> str:
    orders.append(item)
    return "put"


def count() -> int:
    return len(orders)
'''

SERVER = """
import json, sys

SCHEMA = {"type": "object"}
orders = []
for line in sys.stdin:
    asked = json.loads(line)
    if "id" not in asked:
        continue
    method, reply = asked["method"], {}
    if method == "initialize":
        us = {"serverInfo": {"name": "shop", "version": "1"}}
        reply = {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, **us}
    elif method == "tools/list":
        reply = {"tools": [{"name": name, "inputSchema": SCHEMA} for name in ("order", "state")]}
    elif method != "tools/call":
        print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "error": {"code": -32601, "message": "no"}}), flush=True)
        continue
    elif asked["params"]["name"] == "order":
        orders.append(asked["params"]["arguments"].get("item"))
        reply = {"content": [{"type": "text", "text": "ordered"}]}
    else:
        reply = {"content": [{"type": "text", "text": json.dumps(orders)}]}
    print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": reply}), flush=True)
"""
CLASS: Raw = {"python": {"class": "shop:Shop"}}
MCP: Raw = {"mcp": {"name": "shop", "command": sys.executable, "args": ["-S", "server.py"], "scope": "conversation"}}


@pytest.fixture(autouse=True)
def shop(project: Project) -> None:
    project.write("shop.py", SHOP)
    project.write("server.py", SERVER)


def orders(*items: str, name: str = "order") -> Raw:
    return {"tool_calls": [{"name": name, "arguments": {"item": item}} for item in items]}


def state(check: Raw, tool: str = "state", **more: Any) -> Raw:
    return {"tool_state": {"tool": tool, "check": check, **more}}


def suite(*replies: Any, checks: list[Any], tools: Any = (CLASS,), **case: Any) -> Raw:
    one = {"id": "one", "prompt": "I would like tea.", "checks": checks, **case}
    return {"targets": [scripted("t", *replies)], "tools": list(tools), "evals": [one]}


TEA: Raw = {"json_path": {"path": "$[0].item", "equals": "tea"}}


@pytest.mark.parametrize(("tool", "name", "check"), [(CLASS, "order", TEA), (MCP, "shop__order", {"match": '["tea"]'})])
def test_the_state_is_asked_after_the_reply(project: Project, tool: Raw, name: str, check: Raw) -> None:
    content = suite(orders("tea", name=name), "It is ordered.", checks=[state(check)], tools=[tool])
    [result] = run(project, content)["results"]
    verdict = verdict_of(result)
    assert result["passed"] and verdict["check"] == "tool_state state"
    assert verdict["reason"].startswith("it answered [") and verdict["children"][0]["passed"]
    assert [call["name"] for call in result["turns"][0]["tool_calls"]] == ["order"]  # not the check's call


def test_a_wrong_state_fails_and_a_follow_up_may_mend_it(project: Project) -> None:
    checks = [state(TEA), follow("You did not order it.", state(TEA))]
    [result] = run(project, suite("It is ordered.", orders("tea"), "Now it is.", checks=checks))["results"]
    assert result["succeeded_on_turn"] == 2
    assert "it answered []" in result["turns"][0]["checks"][0]["reason"]


def test_arguments_are_handed_over_and_may_have_extracted_values(project: Project) -> None:
    turns = [
        {"prompt": "What is there?", "extract": {"drink": {"regex": "Tea|tea"}}},
        {"prompt": "Order it.", "checks": [state({"contains": "tea"}, arguments={"item": "{{ drink }}"})]},
    ]
    content = suite("There is tea.", orders("milk", "tea"), "Done.", checks=[state({"match": "*milk*"})])
    content["evals"][0]["turns"] = turns
    del content["evals"][0]["prompt"]
    [result] = run(project, content)["results"]
    assert result["passed"]
    assert result["turns"][1]["checks"][0]["reason"] == 'it answered [{"item":"tea","pieces":1}]'


def test_a_tool_that_fails_fails_the_check(project: Project) -> None:
    content = suite("Done.", checks=[state({"not": {"match": "x"}}, arguments={"item": "nothing"})])
    [result] = run(project, content)["results"]
    assert result["status"] == "failed"
    assert verdict_of(result)["reason"] == "the tool failed: KeyError: 'nothing'"


def test_each_conversation_has_its_own_object(project: Project) -> None:
    content = suite(checks=[state({"json_path": {"path": "$[1]"}})])
    replies: dict[str, Any] = {}
    content["targets"] = [{"name": "t", "provider": "scripted", "replies": replies}]
    content["evals"] = [{**content["evals"][0], "id": name} for name in "abcdef"]
    for name in "abcdef":
        replies[name] = [orders(*["tea"] * (1 + (name < "d"))), "done"]
    found = by_case(run(project, content))
    assert [found[name]["passed"] for name in "abcdef"] == [True] * 3 + [False] * 3


def test_what_is_not_offered_can_be_asked(project: Project) -> None:
    for tool, name in (
        ({"python": {"class": "shop:Shop", "allow": ["order"]}}, "Shop__state"),
        ({"mcp": {**MCP["mcp"], "allow": ["order"]}}, "shop__state"),
    ):
        content = suite("Done.", checks=[state({"match": "[]"}, tool=name)], tools=[tool])
        [result] = run(project, content)["results"]
        assert result["passed"] and result["turns"][0]["offered"] in (["order"], ["shop__order"])


def test_a_private_method_is_no_tool(project: Project) -> None:
    [result] = run(project, suite("Done.", checks=[state({"match": "*"}, tool="Shop___hidden")]))["results"]
    assert result["status"] == "error" and "has no public method `_hidden`" in result["error"]["message"]


def test_a_fault_of_the_tool_does_not_meet_the_check(project: Project) -> None:
    tool = {**CLASS, "fails": [{"fault": "error", "rate": 1.0, "tool": "state"}]}
    document = run(project, suite("Done.", checks=[state({"match": "[]"})], tools=[tool]))
    assert document["results"][0]["passed"] and document["results"][0]["faults"][0].get("landed", []) == []


def test_the_control_has_its_own_state(project: Project) -> None:
    checks = [state(TEA), follow("Again.", state(TEA))]
    replies = [orders("milk"), "a", orders("tea"), "b", orders("tea"), "c"]
    [result] = run(project, suite(*replies, checks=checks, control="afresh"))["results"]
    assert result["control"]["passed"] and result["status"] == "failed"


def test_it_is_recorded_and_replayed_and_graded_without_the_tool(project: Project) -> None:
    content = suite(orders("tea"), "It is ordered.", checks=[state(TEA)])
    first = run(project, content)
    asked = (project.folder / "asked.txt").read_text()
    assert essence(project.run_json("replay")) == essence(first)
    assert project.run_json("grade")["results"][0]["passed"]
    content["evals"][0]["checks"] = [state({"match": "*milk*"})]  # another check of the recorded answer
    project.write("evals.yaml", content)
    graded = project.run_json("grade", code=1)["results"][0]
    assert graded["status"] == "failed"
    assert (project.folder / "asked.txt").read_text() == asked == "x"
    content["evals"][0]["checks"] = [state({"match": "*"}, arguments={"item": "milk"})]
    project.write("evals.yaml", content)
    [result] = project.run_json("grade", code=3)["results"]
    assert "was not recorded, and it cannot be asked any more" in result["error"]["message"]


@pytest.mark.slow
def test_a_kill_before_the_state_was_asked_starts_the_conversation_again(project: Project) -> None:
    """What the model did is recorded, and the object that it did it to is gone."""
    (project.folder / "wait").touch()
    project.write("evals.yaml", suite(orders("tea"), "It is ordered.", checks=[state(TEA)]))
    process = Process(project.folder, "run", "evals.yaml")
    process.wait_for((project.folder / "asked.txt").exists)
    process.kill()
    (project.folder / "go").touch()
    [result] = run_process(project.folder, "resume", "--format", "json").document["results"]
    assert result["passed"] and len(result["cut_off"]) == 1
    told = [record["key"] for record in journal_of(only_run(project.folder)) if record["type"] == "told"]
    assert len(told) == len(set(told))


@pytest.mark.parametrize(
    ("tools", "tool", "words"),
    [
        ([{"scripted": {"name": "state", "returns": 1}}], "state", "which is scripted"),
        ([{"python": "shop:put"}], "puts", "which is not declared; did you mean `put`?"),
        ([], "state", "no tools are declared"),
    ],
)
def test_a_tool_without_a_state_is_refused(project: Project, tools: list[Any], tool: str, words: str) -> None:
    content = suite("Done.", checks=[state({"match": "*"}, tool=tool)], tools=tools)
    if not tools:
        del content["tools"]
    [problem] = project.errors(content)
    assert problem["code"] == "no-tool-state" and words in problem["message"]
    result = project.invoke("run", "evals.yaml")
    assert result.exit_code == 2 or words in str(result.exception)


def test_a_tool_that_nothing_declares_is_an_error_of_the_run(project: Project) -> None:
    [result] = run(project, suite("Done.", checks=[state({"match": "*"}, tool="states")]))["results"]
    assert "no declared tool offers `states`" in result["error"]["message"]


def test_a_shared_tool_is_a_warning(project: Project) -> None:
    content = suite(orders("tea", name="put"), "Done.", checks=[state({"match": "1"}, tool="count")])
    content["tools"] = [{"python": "shop:put"}, {"python": "shop:count"}]
    assert codes(project.warnings(content)) == ["shared-tool-state"]
    assert run(project, content)["results"][0]["passed"]


@pytest.mark.parametrize(
    ("check", "place"),
    [
        ({"llm_judge": "good?"}, "evals[0].checks[0].tool_state.check.llm_judge"),
        ({"not": {"canary": "x"}}, "evals[0].checks[0].tool_state.check.not.canary"),
        ({"match": "x", "weight": 2}, "evals[0].checks[0].tool_state.check.weight"),
        ({"match": "x", "prompt": "Again", "checks": [{"match": "y"}]}, "evals[0].checks[0].tool_state.check.prompt"),
    ],
)
def test_only_checks_of_a_text_can_check_an_answer(project: Project, check: Raw, place: str) -> None:
    assert place in [one["path"] for one in project.errors(suite("a", checks=[state(check)]))]


def test_a_rule_over_time_cannot_ask_for_a_state_that_is_gone(project: Project) -> None:
    content = suite("a", checks=[{"match": "*"}], conversation_checks=[{"always": state({"match": "*"})}])
    [problem] = project.errors(content)
    assert problem["path"] == "evals[0].conversation_checks[0].always.tool_state"
    content["evals"][0]["conversation_checks"] = [state({"match": "[]"})]
    assert run(project, content)["results"][0]["passed"]


def test_groups_of_checks_may_check_an_answer(project: Project) -> None:
    either = {"or": [{"match": "x"}, {"and": [{"not": {"match": "y"}}, {"contains": "tea"}]}]}
    assert run(project, suite(orders("tea"), "Done.", checks=[state(either)]))["results"][0]["passed"]
