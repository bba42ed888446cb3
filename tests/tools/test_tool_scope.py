"""Servers that keep state: with `scope: conversation` each conversation has its own, and no conversation goes on with
one that has forgotten what was done."""

from __future__ import annotations

import json
import sys
from typing import Any

import pytest

from tests.kit import (
    Process,
    Project,
    Raw,
    assert_gone,
    by_case,
    essence,
    follow,
    only_run,
    refusal,
    run,
    run_process,
)

CART = """
import json, os, sys, time

SCHEMA = {"type": "object", "properties": {"item": {"type": "string"}}}
cart = []


def note(name, text):
    with open(name, "a") as file:
        file.write(text + chr(10))


def alive(pid):
    try:
        os.kill(int(pid), 0)
        return True
    except OSError:
        return False


def answer(asked):
    if asked["method"] == "initialize":
        us = {"serverInfo": {"name": "cart", "version": "1"}}
        return {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, **us}
    if asked["method"] == "tools/list":
        return {"tools": [{"name": "add", "inputSchema": SCHEMA}]}
    item = asked["params"]["arguments"]["item"]
    note("calls.txt", item)
    if item == "crash":
        os._exit(7)
    while item == "wait" and not os.path.exists("go"):
        time.sleep(0.02)
    cart.append(item)
    return {"content": [{"type": "text", "text": ", ".join(cart)}]}


pids = open("pids.txt").read().split() if os.path.exists("pids.txt") else []
note("at_once.txt", str(1 + sum(map(alive, pids))))
note("pids.txt", str(os.getpid()))
for line in sys.stdin:
    asked = json.loads(line)
    if "id" in asked:
        known = asked["method"] in ("initialize", "tools/list", "tools/call")
        reply = {"result": answer(asked)} if known else {"error": {"code": -32601, "message": "no"}}
        print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], **reply}), flush=True)
"""


@pytest.fixture(autouse=True)
def cart(project: Project) -> None:
    project.write("cart.py", CART)


def server(scope: str | None = "conversation") -> Raw:
    mcp = {"name": "shop", "command": sys.executable, "args": ["-S", "cart.py"]}
    return {"mcp": mcp if scope is None else {**mcp, "scope": scope}}


def adds(*items: str) -> Raw:
    return {"tool_calls": [{"name": "shop__add", "arguments": {"item": item}} for item in items]}


def suite(replies: dict[str, list[Any]], tool: Raw | None = None, **more: Any) -> Raw:
    cases = [{"id": case_id, "prompt": "Go shopping.", "checks": [{"match": "done"}], **more} for case_id in replies]
    target = {"name": "t", "provider": "scripted", "replies": replies}
    return {"targets": [target], "tools": [tool or server()], "evals": cases}


def answers(result: Raw) -> list[str]:
    return [call["result"] for turn in result["turns"] for call in turn.get("tool_calls", ())]


def lines(project: Project, name: str) -> list[str]:
    path = project.folder / name
    return path.read_text().split() if path.exists() else []


def assert_none_left(project: Project) -> None:
    assert_gone(*map(int, lines(project, "pids.txt")))


TWO = {"a": [adds("tea"), adds("milk"), "done"], "b": [adds("jam"), "done"]}


def test_conversations_share_a_server_unless_said(project: Project) -> None:
    found = by_case(run(project, suite(TWO, server(None)), "--workers", "1"))
    assert (answers(found["a"]), answers(found["b"])) == (["tea", "tea, milk"], ["tea, milk, jam"])
    assert len(lines(project, "pids.txt")) == 1


def test_each_conversation_has_a_server_of_its_own(project: Project) -> None:
    found = by_case(run(project, suite(TWO), "--repeat", "2"))
    assert (answers(found["a"]), answers(found["b"])) == (["tea", "tea, milk"], ["jam"])
    assert len(set(lines(project, "pids.txt"))) == 4
    assert_none_left(project)


@pytest.mark.slow
def test_there_are_no_more_servers_at_once_than_conversations(project: Project) -> None:
    replies = {f"c{number}": [adds("tea"), "done"] for number in range(9)}
    document = run(project, suite(replies), "--workers", "3")
    assert document["summary"]["passed"] == 9
    assert len(lines(project, "pids.txt")) == 9
    assert max(map(int, lines(project, "at_once.txt"))) <= 3


def test_a_conversation_without_a_call_starts_no_server_but_to_list_its_tools(project: Project) -> None:
    run(project, suite({"a": ["done"], "b": ["done"], "c": ["done"]}), "--workers", "1")
    assert len(lines(project, "pids.txt")) == 1


def test_calls_of_one_reply_are_made_in_their_order(project: Project) -> None:
    [result] = run(project, suite({"a": [adds(*"abcdefgh"), "done"]}))["results"]
    assert answers(result)[-1] == "a, b, c, d, e, f, g, h"


def test_a_conversation_asked_afresh_begins_with_an_empty_cart(project: Project) -> None:
    checks = [{"match": "right"}, follow("Again.", {"match": "right"})]
    replies = {"a": [adds("tea"), "wrong", adds("milk"), "right", adds("jam"), "x"]}
    [result] = run(project, suite(replies, checks=checks, control="afresh"))["results"]
    assert answers(result) == ["tea", "tea, jam"]
    assert [call["result"] for call in result["control"]["tool_calls"]] == ["milk"]


def test_a_server_that_ends_is_an_error_of_its_conversation_alone(project: Project) -> None:
    replies = {f"c{number}": [adds("tea"), adds("crash"), "done"] for number in range(4)}
    found = by_case(run(project, suite({**replies, "last": [adds("jam"), "done"]}), "--workers", "1"))
    assert [found[f"c{number}"]["error"]["type"] for number in range(4)] == ["tool"] * 4
    assert all("ended with exit code 7" in found[f"c{number}"]["error"]["message"] for number in range(4))
    assert answers(found["last"]) == ["jam"]


def killed(project: Project, *replies: Any) -> None:
    """A run that is killed in a call, after another conversation of it has ended."""
    project.write("evals.yaml", suite({"first": [adds("jam"), "done"], "second": [*replies, "done"]}))
    process = Process(project.folder, "run", "evals.yaml", "--workers", "1")
    process.wait_for(lambda: "wait" in lines(project, "calls.txt"), "the call was not made")
    process.kill()
    assert_none_left(project)
    project.write("go", "")


@pytest.mark.slow
@pytest.mark.parametrize(
    "replies", [(adds("tea"), adds("wait"), adds("milk")), (adds("tea", "wait"), adds("milk"))], ids=["later", "beside"]
)
def test_a_conversation_whose_cart_is_lost_begins_anew(project: Project, replies: tuple[Raw, ...]) -> None:
    killed(project, *replies)
    resumed = run_process(project.folder, "resume", "last", "--format", "json").document
    found = by_case(resumed)
    assert answers(found["second"]) == ["tea", "tea, wait", "tea, wait, milk"]
    assert [attempt["turn"] for attempt in found["second"]["cut_off"]] == [1]
    assert "cut_off" not in found["first"]
    assert lines(project, "calls.txt") == ["jam", "tea", "wait", "tea", "wait", "milk"]
    assert "started again after it was cut off in turn 1" in " ".join(project.run("show", "-v").split())
    again = project.run_json("resume", "last")
    replayed = project.run_json("replay", only_run(project.folder).name)
    assert by_case(again)["second"]["turns"] == found["second"]["turns"]
    assert essence(replayed)["results"] == essence(resumed)["results"]
    assert len(lines(project, "calls.txt")) == 6
    assert_none_left(project)


@pytest.mark.slow
def test_a_conversation_that_was_cut_off_in_its_first_call_has_lost_nothing(project: Project) -> None:
    killed(project, adds("wait"), adds("milk"))
    found = by_case(run_process(project.folder, "resume", "last", "--format", "json").document)
    assert answers(found["second"]) == ["wait", "wait, milk"]
    assert "cut_off" not in found["second"]


@pytest.mark.slow
def test_a_conversation_may_be_cut_off_again_and_again(project: Project) -> None:
    killed(project, adds("tea"), adds("wait"))
    for count in (2, 3):
        (project.folder / "go").unlink()
        process = Process(project.folder, "resume", "last")
        process.wait_for(lambda count=count: lines(project, "calls.txt").count("wait") == count, "it was not called")
        process.kill()
        project.write("go", "")
    found = by_case(run_process(project.folder, "resume", "last", "--format", "json").document)
    assert answers(found["second"]) == ["tea", "tea, wait"]
    assert [attempt["turn"] for attempt in found["second"]["cut_off"]] == [1, 1, 1]
    assert lines(project, "calls.txt").count("jam") == 1


def test_a_fork_does_not_begin_in_the_middle_of_what_a_server_knows(project: Project) -> None:
    checks = [{"match": "right"}, follow("Again.", {"match": "right"})]
    replies = {"a": [adds("tea"), "wrong", "right"]}
    run(project, suite(replies, checks=checks))
    name = only_run(project.folder).name
    words = refusal(project, "fork", name, "--case", "a", "--turn", "2", "--prompt", "Really?")
    assert "`shop` keeps what was done in the conversation" in words
    forked = project.run_json("fork", name, "--case", "a", "--turn", "1", "--prompt", "Buy tea.", code=None)
    assert answers(forked["results"][0]) == ["tea"]


def test_scope_is_one_of_two_words(project: Project) -> None:
    [problem] = project.errors(suite(TWO, server("case")))
    assert "conversation" in json.dumps(problem)


def test_a_server_at_an_address_cannot_be_a_conversations_own(project: Project) -> None:
    tool = {"mcp": {"name": "shop", "url": "http://127.0.0.1:9/mcp", "scope": "conversation"}}
    [problem] = project.errors(suite(TWO, tool))
    assert problem["code"] == "conflicting-keys"
    assert "all conversations share a server" in problem["message"]


def test_the_scope_is_part_of_what_a_recorded_answer_depends_on(project: Project) -> None:
    run(project, suite({"a": [adds("tea"), "done"]}, server(None)))
    project.write("evals.yaml", suite({"a": [adds("tea"), "done"]}))
    [result] = project.run_json("resume", "last")["results"]
    assert answers(result) == ["tea"]
    assert lines(project, "calls.txt") == ["tea", "tea"]
