"""Runs through the command: documents, exit codes, selection, limits, providers, reports and run folders."""

from __future__ import annotations

import importlib
import json
import os
import random
import re
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import pytest
import yaml

import rejoinder
from rejoinder.errors import RejoinderError
from tests.kit import (
    KILLED,
    Process,
    Project,
    Raw,
    case,
    follow,
    is_time,
    journal_of,
    only_run,
    run,
    run_folders,
    run_process,
    run_refusal,
    spec,
    statuses,
    without,
)

RUN_KEYS = {
    *("id", "status", "started_at", "finished_at", "version", "format", "folder", "suites", "targets", "options"),
    "in_doubt",
}
SUMMARY_KEYS = {
    *("total", "passed", "failed", "errors", "skipped", "unfinished", "first_try", "recovered", "pass_rate", "score"),
    *("recovery", "usage", "cost", "judge_usage", "judge_cost", "duration_s", "exit_code", "by_target"),
}
RESULT_KEYS = {
    *("suite", "name", "tags", "conversation_id", "hits", "misses", "reasoning", "id", "target", "trial", "status"),
    *("passed", "score", "succeeded_on_turn", "turns", "usage", "cost", "raw_request", "error"),
    *("judge_usage", "judge_cost"),
}
TURN_KEYS = {"turn", "depth", "prompt", "response", "passed", "checks", "usage", "cost", "duration_s"}
USAGE_KEYS = {"input_tokens", "output_tokens", "total_tokens"}
CHECK_KEYS = {"check", "passed", "score", "reason"}


def match(word: str) -> Raw:
    return {"match": f"*{word}*"}


def scripted(replies: Any, name: str = "script", **more: Any) -> Raw:
    return {"name": name, "provider": "scripted", "replies": replies, **more}


def suite_of(evals: list[Raw], *targets: Raw, **more: Any) -> Raw:
    return {"target": targets[0]["name"], "targets": list(targets), "evals": evals, **more}


def own(call: str, **more: Any) -> Raw:
    return {"name": "own", "provider": "python", "call": call, **more}


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Retries without waiting."""
    monkeypatch.setattr(random, "uniform", lambda low, high: low)


# The document

MIXED = suite_of(
    [
        case("passes", match("yes"), tags=["a"], name="First", conversation_id="c-1"),
        case("recovers", match("yes"), follow("Sure?", match("yes"))),
        case("fails", match("yes"), {"or": [match("sure"), match("certain")]}),
        case("breaks", match("yes")),
    ],
    scripted({"passes": ["yes"], "recovers": ["no", "yes"], "fails": ["no"], "breaks": [{"error": "down"}]}),
    metadata={"name": "mixed"},
)


@spec("R65", "R66", "R41")
def test_the_document_has_all_its_keys(project: Project) -> None:
    document = run(project, MIXED, code=3)
    assert list(document) == ["run", "summary", "results"]
    assert set(document["run"]) >= RUN_KEYS
    assert set(document["summary"]) >= SUMMARY_KEYS
    assert set(document["summary"]["score"]) >= {"mean", "median", "min", "max", "stdev"}
    for row in document["summary"]["recovery"]:
        assert set(row) >= {"depth", "at_risk", "recovered"}
    for result in document["results"]:
        assert set(result) >= RESULT_KEYS
        assert set(result["usage"]) >= USAGE_KEYS
        assert set(result["raw_request"]) == {"question", "guidelines", "chat_prompt"}
        for number, turn in enumerate(result["turns"], 1):
            assert TURN_KEYS <= set(turn) <= TURN_KEYS | {"asked_by", "started_at", "waited_s", "step", "name"}
            assert turn["turn"] == number
            assert set(turn["usage"]) >= USAGE_KEYS
            for check in turn["checks"]:
                assert set(check) >= CHECK_KEYS
    for part in (document["summary"]["usage"], document["summary"]["judge_usage"]):
        assert set(part) >= USAGE_KEYS


@spec("R65")
def test_what_the_document_says(project: Project) -> None:
    document = run(project, MIXED)
    passes, recovers, fails, breaks = document["results"]
    assert (passes["suite"], passes["name"], passes["tags"], passes["conversation_id"]) == (
        "mixed",
        "First",
        ["a"],
        "c-1",
    )
    assert (passes["target"], passes["trial"], passes["score"], passes["error"]) == ("script", 1, 1, None)
    assert passes["raw_request"] == {"question": "Question passes", "guidelines": "", "chat_prompt": None}
    assert (recovers["status"], recovers["passed"], recovers["succeeded_on_turn"]) == ("passed", True, 2)
    assert [turn["passed"] for turn in recovers["turns"]] == [False, True]
    assert [turn["depth"] for turn in recovers["turns"]] == [0, 1]
    assert [turn["prompt"] for turn in recovers["turns"]] == ["Question recovers", "Sure?"]
    assert [turn["response"] for turn in recovers["turns"]] == ["no", "yes"]
    assert (fails["status"], fails["passed"], fails["succeeded_on_turn"], fails["score"]) == ("failed", False, None, 0)
    assert [child["check"] for child in fails["turns"][0]["checks"][1]["children"]] == [
        "match *sure*",
        "match *certain*",
    ]
    assert (breaks["status"], breaks["passed"], breaks["score"]) == ("error", False, None)
    assert breaks["error"] == {"type": "scripted", "message": "down", "turn": 1}
    assert breaks["turns"][0]["response"] is None and breaks["turns"][0]["checks"] == []


@spec("P26", "R65")
def test_errors_stand_apart_from_failures(project: Project) -> None:
    summary = run(project, MIXED)["summary"]
    counts = {key: summary[key] for key in ("total", "passed", "failed", "errors", "skipped", "unfinished")}
    assert counts == {"total": 4, "passed": 2, "failed": 1, "errors": 1, "skipped": 0, "unfinished": 0}
    assert (summary["first_try"], summary["recovered"]) == (1, 1)
    assert summary["pass_rate"] == 0.5, "errors count against it"
    assert summary["exit_code"] == 3


@spec("R65")
def test_equal_runs_differ_in_their_ids_and_times_alone(project: Project) -> None:
    first, second = run(project, MIXED), run(project, MIXED)
    identity = first["run"]["id"], second["run"]["id"]
    assert identity[0] != identity[1]
    named = json.loads(json.dumps(first).replace(identity[0], identity[1]))
    assert without(named, is_time) == without(second, is_time)


@spec("R65")
def test_results_stand_in_document_order_not_in_the_order_of_finishing(project: Project) -> None:
    names = [f"case-{number}" for number in range(8)]
    replies = {name: [{"text": "yes", "delay_ms": 10 * (8 - place)}] for place, name in enumerate(names)}
    document = run(
        project, suite_of([case(name, match("yes")) for name in names], scripted(replies)), "-n", "2", code=0
    )
    assert [(one["id"], one["trial"]) for one in document["results"]] == [
        (name, trial) for name in names for trial in (1, 2)
    ]
    [folder] = run_folders(project.folder)
    lines = (folder / "results.jsonl").read_text(encoding="utf-8").splitlines()
    assert [json.loads(line) for line in lines] == document["results"]
    told = [one for one in journal_of(only_run(project.folder)) if one["type"] == "asked"]
    assert len(told) == 16


@spec("R66", "P27")
def test_usage_adds_up_from_turns_to_totals_and_to_the_journal(project: Project) -> None:
    replies = {
        "one": [{"text": "no", "input_tokens": 10, "output_tokens": 3}, {"text": "yes", "input_tokens": 25}],
        "two": ["no such thing", {"text": "no", "input_tokens": 7, "output_tokens": 9, "reasoning_tokens": 4}],
        "three": [{"text": "no", "input_tokens": 1, "output_tokens": 1}, {"error": "down"}],
    }
    evals = [case(name, match("yes"), follow("Sure?", match("yes"))) for name in replies]
    document = run(project, suite_of(evals, scripted(replies)), "-n", "3", code=3)
    for result in document["results"]:
        for key in USAGE_KEYS:
            assert result["usage"][key] == sum(turn["usage"][key] for turn in result["turns"])
        assert result["cost"] is None
    one, two, three = document["results"][::3]
    assert one["usage"] == {"input_tokens": 35, "output_tokens": 4, "total_tokens": 39}
    assert {key: two["usage"][key] for key in USAGE_KEYS} == {
        "input_tokens": 7,
        "output_tokens": 12,
        "total_tokens": 19,
    }
    assert three["usage"]["total_tokens"] == 2
    summary = document["summary"]["usage"]
    counts = {"input_tokens": 3 * 43, "output_tokens": 3 * 17, "total_tokens": 3 * 60}
    assert {key: summary[key] for key in USAGE_KEYS} == counts
    told = [one["reply"].get("usage", {}) for one in journal_of(only_run(project.folder)) if "reply" in one]
    for key in ("input_tokens", "output_tokens"):
        assert sum(usage.get(key, 0) for usage in told) == summary[key]


@spec("R66")
def test_costs_add_up_and_are_unknown_as_soon_as_one_is(project: Project, module: Callable[[str], str]) -> None:
    name = module(
        "def answer(request):\n"
        "    text = 'yes' if request.turn == 2 else 'no'\n"
        "    known = request.case_id != 'unknown' or request.turn == 1\n"
        "    return {'text': text, 'output_tokens': 1, 'cost': 0.25 if known else None}\n"
    )
    evals = [case(one, match("yes"), follow("Sure?", match("yes"))) for one in ("known", "unknown")]
    document = run(project, suite_of(evals, own(f"{name}:answer")))
    assert [result["cost"] for result in document["results"]] == [0.5, None]
    assert document["summary"]["cost"] is None
    assert run(project, suite_of(evals[:1], own(f"{name}:answer")), "-n", "2")["summary"]["cost"] == 1.0


# Exit codes

ANY = case("any", match("yes"))


@pytest.mark.parametrize(
    ("replies", "code"),
    [(["yes"], 0), (["no"], 1), ([{"error": "down"}], 3), ([], 3)],
    ids=["passed", "failed", "error", "out-of-replies"],
)
def test_exit_codes(replies: list[Any], code: int, project: Project) -> None:
    document = run(project, suite_of([ANY], scripted(replies)), code=code)
    assert document["summary"]["exit_code"] == code
    assert document["run"]["status"] == "completed"


def test_an_error_decides_the_exit_code_even_if_others_failed(project: Project) -> None:
    replies = {"a": ["no"], "b": [{"error": "down"}], "c": ["yes"]}
    run(project, suite_of([case(name, match("yes")) for name in replies], scripted(replies)), code=3)


@spec("P26")
def test_running_out_of_replies_is_an_error_that_says_so(project: Project) -> None:
    suite = suite_of([case("a", match("yes"), follow("Sure?", match("yes")))], scripted(["no"]))
    [result] = run(project, suite, code=3)["results"]
    assert result["status"] == "error" and result["error"]["turn"] == 2
    assert "run out" in result["error"]["message"]
    assert [turn["response"] for turn in result["turns"]] == ["no", None]


@pytest.mark.slow
def test_the_command_itself_refuses_without_a_traceback(project: Project) -> None:
    project.write("evals.yaml", suite_of([ANY], scripted(["yes"])))
    done = run_process(project.folder, "run", "evals.yaml", "--case", "nobody", "--format", "json")
    assert done.code == 2
    assert done.out == ""
    assert "no case" in done.err and "Traceback" not in done.err
    assert run_folders(project.folder) == []
    done = run_process(project.folder, "run", "evals.yaml", "--format", "json")
    assert done.code == 0 and done.document["summary"]["passed"] == 1


# What is run


TAGGED = suite_of(
    [
        case("one", match("yes"), tags=["fast", "new"]),
        case("two", match("yes"), tags=["slow"]),
        case("three", match("yes"), tags=["new"]),
        case("four", match("yes")),
    ],
    scripted(["yes"]),
)


@pytest.mark.parametrize(
    ("arguments", "ids"),
    [
        ([], ["one", "two", "three", "four"]),
        (["--case", "three"], ["three"]),
        (["--case", "four", "--case", "one"], ["one", "four"]),
        (["--tag", "new"], ["one", "three"]),
        (["--tag", "slow", "--tag", "fast"], ["one", "two"]),
        (["--limit", "2"], ["one", "two"]),
        (["--tag", "new", "--limit", "1"], ["one"]),
        (["--tag", "new", "--case", "three"], ["three"]),
    ],
)
def test_cases_are_selected(arguments: list[str], ids: list[str], project: Project) -> None:
    document = run(project, TAGGED, *arguments, code=0)
    assert [result["id"] for result in document["results"]] == ids
    assert document["summary"]["total"] == len(ids)


@pytest.mark.parametrize("arguments", [["--case", "five"], ["--tag", "old"], ["--case", "four", "--tag", "new"]])
def test_no_case_selected_is_a_mistake(arguments: list[str], project: Project) -> None:
    assert re.search(r"no (case|tag)", run_refusal(project, TAGGED, *arguments))


def test_a_misspelt_case_or_tag_is_refused_beside_a_right_one(project: Project) -> None:
    assert "did you mean `three`" in run_refusal(project, TAGGED, "--case", "one", "--case", "thre")
    assert "did you mean `slow`" in run_refusal(project, TAGGED, "--tag", "new", "--tag", "slo")


def test_repeat_has_trials(project: Project) -> None:
    replies = {"a": ["no", "yes"], "b": ["yes"]}
    evals = [case("a", match("yes"), follow("Sure?", match("yes"))), case("b", match("yes"))]
    document = run(project, suite_of(evals, scripted(replies)), "--repeat", "3", code=0)
    assert [(one["id"], one["trial"]) for one in document["results"]] == [(name, n) for name in "ab" for n in (1, 2, 3)]
    assert document["summary"]["total"] == document["summary"]["passed"] == 6
    assert document["summary"]["recovered"] == 3, "each trial starts at the beginning of the script"
    assert document["run"]["options"]["repeat"] == 3


def test_fail_fast_skips_the_rest(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REJOINDER_SECRET_WORD", "open-sesame")
    evals = [case("a", match("yes")), case("b", match("yes")), case("c", match("yes"))]
    evals += [{"id": "d", "prompt": "It is {{ secret('word') }}", "checks": [match("yes")]}]
    suite = suite_of(evals, scripted({"b": ["no"], "*": ["yes"]}))
    document = run(project, suite, "--fail-fast", "--workers", "1", code=1)
    assert statuses(document) == {"a": "passed", "b": "failed", "c": "skipped", "d": "skipped"}
    skipped = document["results"][2]
    assert (skipped["passed"], skipped["score"], skipped["turns"], skipped["error"]) == (False, None, [], None)
    assert skipped["succeeded_on_turn"] is None and skipped["usage"]["total_tokens"] == 0
    summary = document["summary"]
    assert (summary["passed"], summary["failed"], summary["skipped"], summary["unfinished"]) == (1, 1, 2, 0)
    assert (summary["pass_rate"], summary["no_rate"]) == (None, "fail-fast")
    assert summary["rates"]["eventual"]["rate"] == 0.5, "what never started is no failure"
    [folder] = run_folders(project.folder)
    for path in folder.iterdir():
        assert "open-sesame" not in path.read_text(encoding="utf-8"), path.name


def test_fail_fast_stops_for_errors_too(project: Project) -> None:
    suite = suite_of(
        [case("a", match("yes")), case("b", match("yes"))], scripted({"a": [{"error": "x"}], "b": ["yes"]})
    )
    document = run(project, suite, "--fail-fast", "-w", "1", code=3)
    assert statuses(document) == {"a": "error", "b": "skipped"}


def test_several_targets_are_compared(project: Project) -> None:
    good, bad = scripted(["yes"], "good"), scripted({"a": ["no"], "b": [{"error": "down"}]}, "bad")
    suite = suite_of([case("a", match("yes")), case("b", match("yes"))], good, bad)
    document = run(project, suite, "--target", "good", "-m", "bad", code=3)
    found = [(one["id"], one["target"], one["status"]) for one in document["results"]]
    assert found == [("a", "good", "passed"), ("a", "bad", "failed"), ("b", "good", "passed"), ("b", "bad", "error")]
    by_target = document["summary"]["by_target"]
    assert list(by_target) == ["good", "bad"]
    counts = ("total", "passed", "failed", "errors")
    assert [by_target["good"][key] for key in counts] == [2, 2, 0, 0]
    assert [by_target["bad"][key] for key in counts] == [2, 0, 1, 1]
    assert [target["name"] for target in document["run"]["targets"]] == ["good", "bad"]


def test_a_target_that_is_named_twice_is_asked_once(project: Project) -> None:
    document = run(project, suite_of([ANY], scripted(["yes"])), "-m", "script", "-m", "script", code=0)
    found = [(one["id"], one["target"], one["trial"]) for one in document["results"]]
    assert len(found) == len(set(found)), found


@spec("P28")
def test_every_target_has_its_own_system_prompt(project: Project) -> None:
    first, second = (scripted(["yes"], name, system_prompt=f"I am {name}.") for name in ("first", "second"))
    suite = suite_of([ANY], first, second)
    document = run(project, suite, "-m", "first", "-m", "second", "--include", "messages")
    systems = [result["turns"][0]["messages"][0]["content"] for result in document["results"]]
    assert systems == ["I am first.", "I am second."]


@spec("P28")
def test_the_command_line_decides_on_target_and_system_prompt(project: Project) -> None:
    one, two = scripted(["no"], "one"), scripted(["yes"], "two", system_prompt="target")
    evals = [{**ANY, "system_prompt": "case", "execution": {"target": "one"}}]
    suite = suite_of(evals, one, two, metadata={"system_prompt": "suite"})
    arguments = ("-m", "two", "--system-prompt", "command", "--include", "messages")
    [result] = run(project, suite, *arguments, code=0)["results"]
    assert result["target"] == "two"
    assert result["turns"][0]["messages"][0] == {"role": "system", "content": "command"}


def test_several_suites_run_together(project: Project) -> None:
    for name, reply in (("a", "yes"), ("b", "no")):
        project.write(f"suites/{name}.yaml", suite_of([ANY], scripted([reply]), metadata={"name": name}))
    document = project.run_json("run", "suites", code=1)
    assert [(one["suite"], one["id"], one["status"]) for one in document["results"]] == [
        ("a", "any", "passed"),
        ("b", "any", "failed"),
    ]
    assert [one["name"] for one in document["run"]["suites"]] == ["a", "b"]


# How many at once

# A bot that replies once ENOUGH conversations have been with it at the same time: a slow machine only takes longer.
CROWD = """
import asyncio, threading, time
ENOUGH = 1
running, most = {}, {}
lock = threading.Lock()

def enter(name):
    with lock:
        running[name] = running.get(name, 0) + 1
        most[name] = max(most.get(name, 0), running[name])

def leave(name):
    with lock:
        running[name] -= 1

def is_waiting(name, since):
    return most[name] < ENOUGH and time.monotonic() < since + 20

async def calm(request):
    since = time.monotonic()
    enter(request.target)
    while is_waiting(request.target, since):
        await asyncio.sleep(0.005)
    await asyncio.sleep(0.05)
    leave(request.target)
    return "yes"

def blocking(request):
    since = time.monotonic()
    enter(request.target)
    while is_waiting(request.target, since):
        time.sleep(0.005)
    time.sleep(0.05)
    leave(request.target)
    return "yes"
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "settings", "threads", "most"),
    [
        ([], {}, None, 10),
        (["--workers", "3"], {}, None, 3),
        (["--workers", "1"], {}, None, 1),
        (["--workers", "15"], {}, None, 15),
        ([], {"workers": 2}, None, 2),
        (["--workers", "6"], {"workers": 2}, None, 2),
        ([], {}, 4, 4),
        ([], {}, 15, 15),
        (["--workers", "3"], {}, 4, 3),
        ([], {"workers": 3}, 5, 3),
    ],
)
@pytest.mark.parametrize("function", ["calm", "blocking"])
@spec("P28")
def test_no_more_conversations_at_once_than_allowed(
    function: str,
    arguments: list[str],
    settings: Raw,
    threads: int | None,
    most: int,
    project: Project,
    module: Callable[[str], str],
) -> None:
    name = module(CROWD.replace("ENOUGH = 1", f"ENOUGH = {most}"))
    metadata = {"threads": threads} if threads else {}
    suite = suite_of([ANY], own(f"{name}:{function}", **settings), metadata=metadata)
    run(project, suite, "--repeat", str(most + 6), *arguments, code=0)
    assert sys.modules[name].most == {"own": most}


def test_a_busy_target_does_not_hold_up_another(project: Project, module: Callable[[str], str]) -> None:
    name = module(CROWD)
    narrow, wide = own(f"{name}:calm", workers=1), {**own(f"{name}:calm"), "name": "wide"}
    document = run(project, suite_of([ANY], narrow, wide), "-m", "own", "-m", "wide", "-n", "12", "-w", "5", code=0)
    assert document["summary"]["passed"] == 24
    assert sys.modules[name].most["own"] == 1
    assert sys.modules[name].most["wide"] >= 3


# Timeouts and retries

SLEEPERS = """
import asyncio, time
calls = []

async def calm(request):
    if request.case_id == "any":
        calls.append(request.call)
        await asyncio.sleep(60)
    return "yes"

def blocking(request):
    if request.case_id == "any":
        calls.append(request.call)
        time.sleep(20)
    return "yes"

async def slow_once(request):
    calls.append(request.call)
    if len(calls) == 1:
        await asyncio.sleep(60)
    return "yes"
"""


@pytest.mark.slow
@pytest.mark.parametrize("function", ["calm", "blocking"])
@spec("P26")
def test_a_request_that_takes_too_long_is_an_error(
    function: str, project: Project, module: Callable[[str], str]
) -> None:
    suite = suite_of([ANY, case("other", match("yes"))], own(f"{module(SLEEPERS)}:{function}"))
    started = time.monotonic()
    document = run(project, suite, "--timeout", "1", "--max-retries", "0", code=3)
    assert time.monotonic() - started < 30, "it waited for the sleeper"
    assert statuses(document) == {"any": "error", "other": "passed"}
    [error] = [result["error"] for result in document["results"] if result["error"]]
    assert (error["type"], error["turn"]) == ("timeout", 1)
    assert "1 s" in error["message"]


@pytest.mark.parametrize("place", ["target", "command"])
def test_a_timeout_is_tried_again(place: str, project: Project, module: Callable[[str], str]) -> None:
    name = module(SLEEPERS)
    settings = {"timeout_seconds": 0.1} if place == "target" else {}
    suite = suite_of([ANY], own(f"{name}:slow_once", retry_initial_delay_ms=1, **settings))
    run(project, suite, *([] if settings else ["--timeout", "0.1"]), code=0)
    assert sys.modules[name].calls == [0, 1]


@pytest.mark.slow
def test_a_function_that_hangs_does_not_hold_up_the_end_of_the_command(project: Project) -> None:
    project.write("hanging.py", "import time\ndef answer(request):\n    time.sleep(60)\n    return 'yes'\n")
    project.write("evals.yaml", suite_of([ANY], own("hanging:answer")))
    started = time.monotonic()
    done = run_process(project.folder, "run", "evals.yaml", "--timeout", "0.1", "--max-retries", "0")
    assert done.code == 3
    assert time.monotonic() - started < 45, "it waited for the function"


BUSY = {"error": "busy", "retryable": True}


@spec("P26")
@pytest.mark.parametrize(
    ("replies", "arguments", "status", "attempts"),
    [
        ([BUSY, "yes"], [], "passed", 2),
        ([BUSY, BUSY, BUSY, "yes"], [], "passed", 4),
        ([BUSY, BUSY, BUSY, BUSY, "yes"], [], "error", 4),
        ([BUSY, "yes"], ["--max-retries", "0"], "error", 1),
        ([BUSY, BUSY, "yes"], ["--max-retries", "1"], "error", 2),
        ([BUSY, BUSY, "yes"], ["--max-retries", "2"], "passed", 3),
        ([{"error": "final"}, "yes"], [], "error", 1),
        ([{"error": "final", "retryable": False}, "yes"], [], "error", 1),
        ([BUSY, {"error": "final"}, "yes"], [], "error", 2),
    ],
)
def test_what_may_help_is_tried_again(
    replies: list[Any], arguments: list[str], status: str, attempts: int, project: Project, impatient: None
) -> None:
    [result] = run(project, suite_of([ANY], scripted(replies)), *arguments)["results"]
    assert result["status"] == status
    assert len(result["turns"]) == 1
    assert sum(one["type"] == "asked" for one in journal_of(only_run(project.folder))) == attempts


def test_a_retry_uses_up_a_scripted_reply(project: Project, impatient: None) -> None:
    suite = suite_of([case("a", match("yes"), follow("Sure?", match("yes")))], scripted([BUSY, "no", BUSY, "yes"]))
    [result] = run(project, suite, code=0)["results"]
    assert [turn["response"] for turn in result["turns"]] == ["no", "yes"]


def test_a_scripted_target_says_how_it_is_retried(project: Project) -> None:
    settings = {"max_retries": 1, "retry_initial_delay_ms": 1}
    [result] = run(project, suite_of([ANY], scripted([BUSY, "yes"], **settings)), code=0)["results"]
    assert result["status"] == "passed"
    run(project, suite_of([ANY], scripted([BUSY, BUSY, "yes"], **settings)), code=3)


def test_a_python_target_says_how_it_is_retried(project: Project, module: Callable[[str], str]) -> None:
    name = module(
        "class Busy(Exception):\n    retryable = True\n"
        "def answer(request):\n"
        "    if request.call < 2:\n        raise Busy('try later')\n"
        "    return 'yes'\n"
    )
    settings = {"retry_initial_delay_ms": 1, "retry_max_delay_ms": 2}
    run(project, suite_of([ANY], own(f"{name}:answer", max_retries=2, **settings)), code=0)
    [result] = run(project, suite_of([ANY], own(f"{name}:answer", max_retries=1, **settings)), code=3)["results"]
    assert "try later" in result["error"]["message"]


# Functions of the user's own

FORMS = """
from rejoinder.model import Reply, Usage
requests = []

def text(request):
    return f"yes to {request.messages[-1].content}"

async def coroutine(request):
    return text(request)

def mapping(request):
    return {"text": text(request), "input_tokens": 4, "output_tokens": 2, "cost": 0.5}

def reply(request):
    return Reply(text(request), Usage(4, 2), cost=0.5)

class Callable:
    def __call__(self, request):
        return text(request)

instance = Callable()

def remember(request):
    requests.append(request)
    return "yes" if request.turn == 2 else "no"
"""


@pytest.mark.parametrize("function", ["text", "coroutine", "mapping", "reply", "instance"])
def test_a_python_function_answers(function: str, project: Project, module: Callable[[str], str]) -> None:
    [result] = run(project, suite_of([ANY], own(f"{module(FORMS)}:{function}")), code=0)["results"]
    assert result["turns"][0]["response"] == "yes to Question any"
    if function in ("mapping", "reply"):
        assert result["usage"] == {"input_tokens": 4, "output_tokens": 2, "total_tokens": 6}
        assert result["cost"] == 0.5
    else:
        assert result["usage"] == {"input_tokens": 3, "output_tokens": 5, "total_tokens": 8, "approximate": True}
        assert result["cost"] is None


@spec("R64", "P14")
def test_a_python_function_is_given_the_conversation(project: Project, module: Callable[[str], str]) -> None:
    name = module(FORMS)
    suite = suite_of([case("a", match("yes"), follow("Sure?", match("yes")))], own(f"{name}:remember"))
    run(project, {**suite, "metadata": {"system_prompt": "Be brief."}}, code=0)
    first, second = sys.modules[name].requests
    assert [(one.turn, one.call, one.case_id, one.target, one.trial, one.judging) for one in (first, second)] == [
        (1, 0, "a", "own", 1, False),
        (2, 1, "a", "own", 1, False),
    ]
    assert [message.role for message in second.messages] == ["system", "user", "assistant", "user"]
    assert second.messages[:2] == first.messages
    assert second.question == "Question a"


WRONG = """
from rejoinder.model import Reply, Usage

def answer(request):
    return ANSWERS.get(request.case_id, lambda: "yes")()

def fail(error):
    raise error

ANSWERS = {
    "nothing": lambda: None,
    "number": lambda: 5,
    "bytes": lambda: b"yes",
    "empty": lambda: {},
    "text-of-another-type": lambda: {"text": 5},
    "count-as-text": lambda: {"text": "yes", "output_tokens": "12"},
    "count-below-zero": lambda: {"text": "yes", "output_tokens": -5},
    "cost-as-text": lambda: {"text": "yes", "cost": "free"},
    "reply-without-text": lambda: Reply(None),
    "half-a-character": lambda: "yes \\ud800",
    "exception": lambda: fail(ValueError("no idea")),
    "assertion": lambda: fail(AssertionError()),
}
"""


@pytest.mark.parametrize(
    "name",
    [
        *("nothing", "number", "bytes", "empty", "text-of-another-type", "count-as-text", "count-below-zero"),
        *("cost-as-text", "reply-without-text", "half-a-character", "exception", "assertion"),
    ],
)
@spec("P26")
def test_a_wrong_answer_is_an_error_of_its_own_conversation(
    name: str, project: Project, module: Callable[[str], str]
) -> None:
    evals = [case("before", match("yes")), case(name, match("yes")), case("after", match("yes"))]
    document = run(project, suite_of(evals, own(f"{module(WRONG)}:answer")), "-w", "1", code=3)
    assert statuses(document) == {"before": "passed", name: "error", "after": "passed"}
    error = document["results"][1]["error"]
    assert error["type"] != "internal", error
    assert error["turn"] == 1 and error["message"]
    assert project.run_json("show") == document
    if name == "exception":
        assert "ValueError" in error["message"] and "no idea" in error["message"]


@pytest.mark.slow
def test_a_function_that_ends_the_process_ends_its_own_conversation_only(project: Project) -> None:
    project.write(
        "leaving.py",
        "import sys\ndef answer(request):\n    return sys.exit(7) if request.case_id == 'b' else 'yes'\n",
    )
    project.write("evals.yaml", suite_of([case(name, match("yes")) for name in "abc"], own("leaving:answer")))
    done = run_process(project.folder, "run", "evals.yaml", "--format", "json", "-w", "1")
    assert done.code == 3, done.err[-500:]
    assert statuses(done.document) == {"a": "passed", "b": "error", "c": "passed"}


@pytest.mark.parametrize(
    ("call", "words"),
    [
        ("no_such_module_here:answer", "no_such_module_here"),
        ("{module}:nobody", "nobody"),
        ("{module}:requests", "requests"),
        ("{broken}:answer", "SyntaxError"),
    ],
    ids=["module", "function", "not-a-function", "broken-module"],
)
def test_a_function_that_cannot_be_had_is_refused(
    call: str, words: str, project: Project, module: Callable[[str], str]
) -> None:
    call = call.format(module=module(FORMS), broken=module("def answer(:\n"))
    assert words in run_refusal(project, suite_of([ANY], own(call)))


def test_modules_of_two_folders_may_have_the_same_name(project: Project, module: Callable[[str], str]) -> None:
    name = module("")
    (project.folder / f"{name}.py").unlink()
    for folder in ("a", "b"):
        project.write(f"{folder}/{name}.py", f"def answer(request):\n    return 'from {folder}'\n")
        project.write(f"{folder}/evals.yaml", suite_of([case(folder, match(f"from {folder}"))], own(f"{name}:answer")))
    importlib.invalidate_caches()
    document = project.run_json("run", "a/evals.yaml", "b/evals.yaml", code=None)
    assert statuses(document) == {"a": "passed", "b": "passed"}


def test_one_failure_never_touches_other_conversations(project: Project) -> None:
    names = [f"case-{number}" for number in range(30)]
    replies = {name: [{"error": f"{name} is down"}] if place % 3 == 0 else ["yes"] for place, name in enumerate(names)}
    document = run(project, suite_of([case(name, match("yes")) for name in names], scripted(replies)), code=3)
    for place, result in enumerate(document["results"]):
        if place % 3 == 0:
            assert (result["status"], result["error"]["message"]) == ("error", f"{result['id']} is down")
        else:
            assert result["status"] == "passed"
    assert document["summary"]["errors"] == 10


# What is refused before anything is sent

SEMANTIC = {"semantic": {"expected": "yes", "threshold": 0.5}}
CODE = {"name": "script", "type": "code", "script": ["python", "check.py"]}
JUDGE = {"llm_judge": {"criteria": "kind?"}}


@pytest.mark.parametrize(
    ("checks", "words"),
    [
        ([{"mach": "x"}], "unknown-check"),
        ([SEMANTIC], "no target for embeddings"),
        ([match("x"), follow("more", SEMANTIC)], "no target for embeddings"),
        ([{"or": [match("x"), SEMANTIC]}], "no target for embeddings"),
        ([{"or": [match("x"), follow("more", SEMANTIC)]}], "no target for embeddings"),
        ([{"not": SEMANTIC}], "no target for embeddings"),
        ([{"or": [{"and": [match("x"), {"or": [SEMANTIC]}]}]}], "no target for embeddings"),
        ([{"or": [match("y"), {"and": [match("x"), follow("more", SEMANTIC)]}]}], "no target for embeddings"),
        (
            [{"or": [{"or": [{**match("x"), **follow("more", match("x"), follow("again", SEMANTIC))}]}]}],
            "no target for embeddings",
        ),
    ],
    ids=["unknown", "plain", "follow-up", "or", "or-follow-up", "not", "deep", "and-in-or-follow-up", "deeper"],
)
def test_checks_that_cannot_be_carried_out_are_refused(
    checks: list[Raw], words: str, project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rejoinder.providers.wordllama.is_installed", lambda: False)
    assert words in run_refusal(project, suite_of([case("a", *checks)], scripted(["no"] * 5)))


def test_a_target_without_embeddings_is_refused(project: Project) -> None:
    said = run_refusal(
        project, suite_of([case("a", SEMANTIC)], {"name": "own", "provider": "mock"}, embedding_target="own")
    )
    assert "target `own` has the provider `mock`, which gives no embeddings" in said


@pytest.mark.parametrize(
    "suite",
    [
        suite_of([ANY], {"name": "own", "provider": "vscode"}),
        suite_of([ANY], {"name": "own", "provider": "codex", "model": "x"}),
        {"metadata": {"model": "codex/x"}, "evals": [ANY]},
        suite_of([case("a", JUDGE)], scripted(["yes"]), judge_target="codex/x"),
        suite_of([case("a", match("x"), follow("more", JUDGE))], scripted(["yes"]), judge_target="codex/x"),
        suite_of(
            [case("a", {"or": [{"and": [match("x"), follow("more", JUDGE)]}]})],
            scripted(["yes"]),
            judge_target="codex/x",
        ),
    ],
    ids=["vscode", "codex", "model", "judge", "judge-in-follow-up", "judge-deep-in-follow-up"],
)
def test_agents_whose_program_is_missing_are_refused(
    suite: Raw, project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    assert "needs the program `code" in run_refusal(project, suite)


def test_a_judge_deep_in_a_follow_up_is_asked(project: Project) -> None:
    judge = {"name": "judge", "provider": "scripted", "judge": [True]}
    checks = {"or": [match("y"), {"and": [match("x"), follow("more", JUDGE)]}]}
    document = run(project, suite_of([case("a", checks)], scripted(["no", "no"]), judge, judge_target="judge"), code=0)
    assert document["results"][0]["succeeded_on_turn"] == 2


@spec("P28")
def test_a_judge_that_does_not_exist_is_refused(project: Project) -> None:
    target = scripted(["yes"], judge_target="nobody")
    assert "nobody" in run_refusal(project, suite_of([case("a", JUDGE)], target))
    assert "nobody" in run_refusal(project, suite_of([case("a", JUDGE)], scripted(["yes"]), judge_target="nobody"))


@pytest.mark.parametrize("place", ["candidate", "judge", "judge-in-follow-up", "evaluator"])
def test_no_code_refuses_the_code_of_the_project(place: str, project: Project, module: Callable[[str], str]) -> None:
    python = own(f"{module(FORMS)}:text")
    if place == "candidate":
        suite = suite_of([ANY], python)
    elif place == "evaluator":
        suite = suite_of([{**ANY, "evaluators": [CODE]}], scripted(["yes"]))
    else:
        checks = [JUDGE] if place == "judge" else [match("x"), follow("more", {"and": [JUDGE]})]
        suite = suite_of([case("a", *checks)], scripted(["yes"]), python, judge_target="own")
    assert "code" in run_refusal(project, suite, "--no-code")
    run(project, suite_of([ANY], scripted(["yes"])), "--no-code", code=0)


def test_a_suite_with_mistakes_is_refused(project: Project) -> None:
    assert "empty-checks" in run_refusal(project, suite_of([{"prompt": "Q", "checks": []}], scripted(["yes"])))
    assert "nobody" in run_refusal(project, suite_of([ANY], scripted(["yes"])), "--target", "nobody")
    assert "nobody" in run_refusal(project, suite_of([ANY], scripted(["yes"])), "-m", "script", "-m", "nobody")
    file = {"role": "user", "content": [{"type": "file", "value": "gone.md"}]}
    evals = [{"input_messages": [file], "checks": [match("x")]}]
    assert "file-not-found" in run_refusal(project, suite_of(evals, scripted(["yes"])))


def test_a_result_file_that_cannot_be_written_is_refused_before_anything_is_sent(project: Project) -> None:
    project.write("file", "")
    run_refusal(project, suite_of([ANY], scripted(["yes"])), "--out", "file/results.json")


# How it is written


def test_machine_readable_output_stands_alone(project: Project) -> None:
    checks = [match("yes"), follow("one", match("yes")), follow("two", match("yes"))]
    project.write("evals.yaml", suite_of([case("a", *checks)], scripted(["no", "yes"])))
    result = project.invoke("run", "--format", "json")
    assert json.loads(result.stdout)["summary"]["recovered"] == 1, "without a path evals.yaml is run"
    assert "unreachable-followup" in result.stderr


@pytest.mark.slow
def test_formats(project: Project) -> None:
    project.write("evals.yaml", MIXED)
    wanted = run(project, MIXED)["results"]

    def lasting(results: list[Any]) -> list[Any]:
        return [(one["id"], one["status"], [turn["response"] for turn in one["turns"]]) for one in results]

    lines = project.run("run", "evals.yaml", "--format", "jsonl", code=3).splitlines()
    found = [json.loads(line) for line in lines]
    assert lasting(found) == lasting(wanted)
    assert all(set(one) >= RESULT_KEYS for one in found)
    documents = list(yaml.safe_load_all(project.run("run", "evals.yaml", "--format", "yaml", code=3)))
    assert lasting(documents) == lasting(wanted)
    for arguments in ((), ("--format", "text")):
        lines = project.run("run", "evals.yaml", *arguments, code=3).splitlines()
        assert [line.split()[0] for line in lines if line[:1].isupper()] == ["RECOVERED", "ERROR", "FAIL", "FAIL"]


@pytest.mark.parametrize(
    ("arguments", "kind"),
    [
        (["--out", "deep/results.jsonl"], "jsonl"),
        (["--out", "results.json"], "json"),
        (["--out", "results.yaml"], "yaml"),
        (["--out", "results.yml"], "yaml"),
        (["--out", "results.txt", "--format", "json"], "json"),
        (["--out", "results", "--format", "yaml"], "yaml"),
    ],
)
def test_results_are_written_to_a_file_as_well(arguments: list[str], kind: str, project: Project) -> None:
    project.write("evals.yaml", MIXED)
    printed = project.run("run", "evals.yaml", *arguments, code=3)
    text = (project.folder / arguments[1]).read_text(encoding="utf-8")
    if kind == "json":
        found = json.loads(text)["results"]
    elif kind == "yaml":
        found = list(yaml.safe_load_all(text))
    else:
        found = [json.loads(line) for line in text.splitlines()]
    assert found == project.run_json("show")["results"]
    assert printed == text if "--format" in arguments else "FAIL 1 failed" in printed


def test_prompts_are_dumped(project: Project) -> None:
    evals = [case("one", match("yes")), case("two/three", match("yes"))]
    suite = suite_of(evals, scripted(["yes"]), metadata={"system_prompt": "Be brief."})
    run(project, suite, "--dump-prompts", "dump/here", "-n", "2", code=0)
    files = sorted((project.folder / "dump" / "here").iterdir())
    assert len(files) == 2
    text = files[0].read_text(encoding="utf-8")
    assert "Be brief." in text and "Question one" in text
    assert text.index("Be brief.") < text.index("Question one")


@pytest.mark.parametrize("arguments", [("evals.yaml", "--dump-prompts"), ("--dump-prompts", "evals.yaml")])
def test_prompts_are_dumped_below_the_projects_own_folder_unless_one_is_named(
    project: Project, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, str]
) -> None:
    project.write("prompts/mine.md", "hands off")
    project.write("sub/evals.yaml", suite_of([case("one", match("yes"))], scripted(["yes"])))
    monkeypatch.chdir(project.folder / "sub")
    project.run("run", *arguments)
    assert len(list((project.folder / ".rejoinder/prompts").iterdir())) == 1
    assert [path.name for path in (project.folder / "prompts").iterdir()] == ["mine.md"]
    assert not (project.folder / "sub/prompts").exists()


def test_every_case_has_a_dumped_prompt_of_its_own(project: Project) -> None:
    for name in ("a", "b"):
        project.write(
            f"{name}.yaml", suite_of([{"prompt": f"Question {name}", "checks": [match("yes")]}], scripted(["yes"]))
        )
    project.run("run", "a.yaml", "b.yaml", "--dump-prompts", "dump")
    texts = [path.read_text(encoding="utf-8") for path in (project.folder / "dump").iterdir()]
    assert any("Question a" in text for text in texts) and any("Question b" in text for text in texts)


@spec("P29", "P14", "R64")
def test_messages_are_included_on_request(project: Project) -> None:
    assert all("messages" not in turn for one in run(project, MIXED)["results"] for turn in one["turns"])
    result = run(project, MIXED, "--include", "messages")["results"][1]
    first = [{"role": "user", "content": "Question recovers"}]
    said = [{"role": "assistant", "content": "no"}, {"role": "user", "content": "Sure?"}]
    assert [turn["messages"] for turn in result["turns"]] == [first, first + said]


@spec("R43", "R42", "R41")
def test_toon_is_logged_on_request(project: Project) -> None:
    messages = [
        {"role": "system", "content": "Be brief, please."},
        {"role": "user", "content": "Hello\nthere"},
        {"role": "assistant", "content": "Hi"},
        {"role": "user", "content": "Bye"},
    ]
    evals = [{"input_messages": messages, "checks": [match("yes")]}]
    plain = run(project, suite_of(evals, scripted(["yes"])))["results"][0]["raw_request"]
    assert "question_toon" not in plain
    asked = run(project, suite_of(evals, scripted(["yes"]), formatting={"toon": True}))["results"][0]["raw_request"]
    assert asked["question_toon"] == rejoinder.to_toon(messages)
    assert {key: asked[key] for key in plain} == plain, "what is sent stays the same"


@spec("R67", "R68", "C28", "P29")
def test_verbose_shows_every_turn(project: Project) -> None:
    evals = [
        {
            "prompt": "What is 15 * 7?\nThink first.\n  Indented.",
            "checks": [
                match("105"),
                {"or": [match("hundred"), {"min_tokens": 9}, {"not": match("no")}]},
                {"max_tokens": 5},
                {"contains_any": ["a", "b"]},
                follow("That is wrong.\nAgain.", match("105"), {"regex": r"\d+ \w"}),
            ],
        },
        {"prompt": "Second", "checks": [match("105")]},
        {"prompt": "Third", "checks": [match("105"), follow("Sure?", match("105"))]},
        {"prompt": "Fourth", "checks": [match("105"), follow("Sure?", match("105"))]},
    ]
    replies = {
        "eval-1": ["no, 100\nor so", "105 it\nis"],
        "eval-2": ["no"],
        "eval-3": ["no", "no"],
        "eval-4": ["no", {"error": "down"}],
    }
    project.write("evals.yaml", suite_of(evals, scripted(replies)))
    output = project.run("run", "evals.yaml", "--verbose", code=3)
    expected = r"""Eval 1: What is 15 * 7?
  Turn 1:
    Prompt: What is 15 * 7?
      Think first.
        Indented.
    Response: no, 100
      or so
    ❌ FAIL match "*105*"
    ❌ FAIL or
      ❌ FAIL match "*hundred*"
      ❌ FAIL min_tokens 9
      ❌ FAIL not match "*no*"
    ✅ PASS max_tokens 5
    ❌ FAIL contains_any "a, b"
  Turn 2:
    Prompt: That is wrong.
      Again.
    Response: 105 it
      is
    ✅ PASS match "*105*"
    ✅ PASS regex "\d+ \w"
  Overall: ✅ PASS (succeeded on turn 2)

Eval 2: Second
  Turn 1:
    Prompt: Second
    Response: no
    ❌ FAIL match "*105*"
  Overall: ❌ FAIL (after 1 turn)

Eval 3: Third
  Turn 1:
    Prompt: Third
    Response: no
    ❌ FAIL match "*105*"
  Turn 2:
    Prompt: Sure?
    Response: no
    ❌ FAIL match "*105*"
  Overall: ❌ FAIL (after 2 turns)

Eval 4: Fourth
"""
    assert output.startswith(expected)
    assert output.count("Overall:") == 4
    fourth = output[output.index("Eval 4") :]
    assert "    Prompt: Sure?\n  Overall:" in fourth, "a failed request has neither response nor checks"
    assert "down" in fourth.split("\n\n")[0]


@spec("P29")
def test_verbose_shows_line_ends_as_line_ends(project: Project) -> None:
    evals = [{"prompt": "One\x1b[31m\r\ntwo", "checks": [{"contains": "a\r\nb"}]}]
    project.write("evals.yaml", suite_of(evals, scripted(["a\r\nb\r\nc\rd"])))
    output = project.run("run", "evals.yaml", "--verbose")
    assert output.startswith("""Eval 1: One\ufffd[31m
  Turn 1:
    Prompt: One\ufffd[31m
      two
    Response: a
      b
      c\ufffdd
    ✅ PASS contains "a b"
""")


@spec("R67", "R68")
def test_without_verbose_only_what_is_of_interest_is_shown(project: Project) -> None:
    project.write("evals.yaml", MIXED)
    output = project.run("run", "evals.yaml", code=3)
    assert "Question passes" not in output
    assert "RECOVERED recovers, turn 2, after " in output
    assert "FAIL fails: Question fails (failed after 1 turn)" in output
    assert "Eval 1: First [passes]" in project.run("run", "evals.yaml", "-v", code=3)


def test_trials_and_targets_are_told_apart(project: Project) -> None:
    project.write("evals.yaml", suite_of([ANY], scripted(["yes"], "one"), scripted(["no"], "two")))
    output = project.run("run", "evals.yaml", "-m", "one", "-m", "two", "-n", "2", "-v", code=1)
    headers = [line for line in output.splitlines() if line.startswith("Eval ")]
    assert len(headers) == len(set(headers)) == 4
    assert all("Question any" in header for header in headers)


@pytest.mark.slow
@spec("R67")
def test_signs_are_plain_where_the_output_cannot_show_them(project: Project) -> None:
    evals = [{"prompt": "¿Cómo?", "checks": [match("sí"), follow("Sure?", match("sí"))]}]
    project.write("evals.yaml", suite_of(evals, scripted(["nö", "sí"])))
    done = run_process(project.folder, "run", "evals.yaml", "--verbose", PYTHONIOENCODING="ascii", PYTHONUTF8="0")
    assert done.code == 0, done.err
    signs = re.findall(r"^    (\S+) (FAIL|PASS) match", done.out, re.MULTILINE)
    assert [word for _, word in signs] == ["FAIL", "PASS"]
    assert all(sign.isascii() for sign, _ in signs)
    assert "PASS (succeeded on turn 2)" in done.out
    done = run_process(project.folder, "run", "evals.yaml", "--verbose", PYTHONIOENCODING="utf-8")
    assert "    ❌ FAIL match" in done.out
    done = run_process(
        project.folder, "run", "evals.yaml", "--format", "json", PYTHONIOENCODING="ascii", PYTHONUTF8="0"
    )
    assert done.document["results"][0]["turns"][0]["response"] == "nö"


# Figures


def recovery_suite() -> Raw:
    replies: dict[str, list[str]] = {}
    for number in range(2):
        replies[f"first-{number}"] = ["yes"]
    for number in range(3):
        replies[f"second-{number}"] = ["no", "yes"]
    replies["third"] = ["no", "no", "yes"]
    for number in range(2):
        replies[f"never-{number}"] = ["no", "no", "no"]
    checks = [match("yes"), follow("Sure?", match("yes"), follow("Really?", match("yes")))]
    return suite_of([case(name, *checks) for name in replies], scripted(replies), metadata={"name": "recovery"})


@spec("R65", "R68")
def test_the_recovery_table(project: Project) -> None:
    summary = run(project, recovery_suite(), code=1)["summary"]
    table = [(row["depth"], row["at_risk"], row["recovered"]) for row in summary["recovery"]]
    assert table == [(1, 6, 3), (2, 3, 1)]
    assert (summary["passed"], summary["first_try"], summary["recovered"], summary["failed"]) == (6, 2, 4, 2)
    assert summary["pass_rate"] == 0.75
    text = project.run("show", "--verbose")
    assert "3 of 6" in text and "1 of 3" in text
    assert "75% (41 to 93)" in text and "2 on the first try" in text and "4 recovered" in text


def test_a_conversation_is_at_risk_at_each_follow_up_that_it_got(project: Project) -> None:
    checks = [match("yes"), follow("one", match("yes")), follow("two", match("yes")), follow("three", match("yes"))]
    evals = [case("a", *checks, followups="all"), case("b", *checks, followups="all")]
    suite = suite_of(evals, scripted({"a": ["no", "no", "yes"], "b": ["no"] * 4}))
    table = run(project, suite, code=1)["summary"]["recovery"]
    assert [(row["depth"], row["at_risk"], row["recovered"]) for row in table] == [(1, 2, 0), (2, 2, 1), (3, 1, 0)]


def test_intervals_are_those_of_wilson(project: Project) -> None:
    replies = {f"case-{number}": ["yes" if number else "no"] for number in range(10)}
    suite = suite_of([case(name, match("yes")) for name in replies], scripted(replies))
    text = (run(project, suite, code=1), project.run("show", "--verbose"))[1]
    assert "90% (60 to 98)" in text
    run(project, suite, "--case", "case-1", "-n", "6", code=0)
    [latest] = [
        path for path in run_folders(project.folder) if json.loads((path / "summary.json").read_text())["total"] == 6
    ]
    assert "100% (61 to 100)" in project.run("show", "--verbose", str(latest))


def test_score_statistics(project: Project) -> None:
    scores = [0.1, 0.25, 0.5, 0.75, 0.8, 1.0]
    judges = [{"name": f"j{n}", "provider": "scripted", "judge": [score]} for n, score in enumerate(scores)]
    evals = [case(f"c{n}", {"llm_judge": {"criteria": "?", "target": f"j{n}"}}) for n in range(len(scores))]
    broken = case("broken", match("x"))
    suite = suite_of([*evals, broken], scripted({"broken": [{"error": "down"}], "*": ["a"]}), *judges)
    score = run(project, suite, code=3)["summary"]["score"]
    assert score["mean"] == pytest.approx(statistics.mean(scores))
    assert score["median"] == pytest.approx(statistics.median(scores))
    assert (score["min"], score["max"]) == (0.1, 1.0)
    assert score["stdev"] == pytest.approx(statistics.stdev(scores))
    if "histogram" in score:
        assert score["histogram"] == [1, 1, 1, 1, 2]
    score = run(project, suite, "--case", "broken", code=3)["summary"]["score"]
    assert [score[key] for key in ("mean", "median", "min", "max", "stdev")] == [None] * 5


@pytest.mark.parametrize(
    ("passed", "failed", "plus"), [(4, 0, 20), (0, 4, 0), (2, 2, 10), (3, 1, 15), (99, 1, 19), (1, 99, 1)]
)
def test_the_bar(passed: int, failed: int, plus: int, project: Project) -> None:
    evals = [case("good", match("yes")), case("bad", match("yes"))]
    targets = [scripted({"good": ["yes"], "bad": ["no"]})]
    data = [
        {**one, "id": f"{one['id']}-{n}"}
        for one, count in zip(evals, (passed, failed), strict=True)
        for n in range(count)
    ]
    targets[0]["replies"] = {one["id"]: ["yes" if one["id"].startswith("good") else "no"] for one in data}
    project.write("evals.yaml", suite_of(data, *targets))
    output = project.run("run", "--verbose", "evals.yaml", code=None)
    found = re.search(r"(-*)\|(\+*)", output)
    assert found
    assert (len(found[1]), len(found[2])) == (20 - plus, plus)


# Recorded runs


@pytest.mark.slow
def test_show_gives_the_same_document(project: Project) -> None:
    document = run(project, MIXED, "--include", "messages")
    identity, folder = document["run"]["id"], document["run"]["folder"]
    for name in ([], [identity], [identity[:-2]], [identity[-4:]], [folder], [os.path.relpath(folder)]):
        assert project.run_json("show", *name) == document
    printed = project.run("show", "--format", "jsonl")
    assert [json.loads(line) for line in printed.splitlines()] == document["results"]
    assert "Eval 1: First [passes]" in project.run("show", "--verbose")
    assert project.run("show", "--verbose") == project.run("show", identity, "--verbose")
    project.run("show", "--format", "json", "--out", "copy.json")
    assert json.loads((project.folder / "copy.json").read_text(encoding="utf-8")) == document


def test_show_refuses_what_it_cannot_find(project: Project) -> None:
    for arguments in ((), ("nothing",)):
        with pytest.raises(RejoinderError) as caught:
            project.run("show", *arguments)
        assert caught.value.exit_code == 2
    run(project, MIXED)
    with pytest.raises(RejoinderError, match="nothing"):
        project.run("show", "nothing")


@pytest.mark.slow
def test_the_latest_run_is_the_one_that_was_started_last(project: Project) -> None:
    suite = suite_of([ANY], scripted(["yes"]))
    started: list[str] = []
    for _ in range(8):
        started.append(run(project, suite)["run"]["id"])
        assert project.run_json("show")["run"]["id"] == started[-1]
    listed = project.run_json("runs")
    assert [row["id"] for row in listed] == started[::-1]


def test_runs_are_listed_and_pruned(project: Project) -> None:
    assert "no runs" in project.run("runs")
    assert project.run_json("runs") == []
    assert "nothing" in project.run("runs", "prune", "--yes")
    documents = [run(project, MIXED) for _ in range(3)]
    ids = {document["run"]["id"] for document in documents}
    rows = project.run_json("runs")
    assert {row["id"] for row in rows} == ids
    assert all(row["status"] == "completed" for row in rows)
    assert rows[0]["summary"] == documents[0]["summary"] | {"duration_s": rows[0]["summary"]["duration_s"]}
    text = project.run("runs")
    assert all(one in text for one in ids) and "mixed" in text and "2 of 4" in text and "1 failed, 1 error" in text
    assert len(project.run_json("runs", "--limit", "2")) == 2
    assert "deleted 2 runs" in project.run("runs", "prune", "--keep", "1", "--yes")
    [left] = run_folders(project.folder)
    assert left.name in ids
    assert project.run_json("show")["run"]["id"] == left.name
    assert "nothing" in project.run("runs", "prune", "--keep", "1", "--yes")


def test_pruning_asks_first(project: Project) -> None:
    run(project, MIXED)
    assert project.invoke("runs", "prune", "--keep", "0").exit_code == 2, "nobody is there to be asked"
    assert len(run_folders(project.folder)) == 1


def test_what_a_run_folder_holds(project: Project) -> None:
    document = run(project, MIXED)
    [folder] = run_folders(project.folder)
    assert str(folder) == document["run"]["folder"] and folder.name == document["run"]["id"]
    names = {path.name for path in folder.iterdir()}
    assert names >= {"run.json", "suite.json", "cases.jsonl", "journal.jsonl", "results.jsonl", "summary.json"}
    assert not {name for name in names if name.endswith((".draft", ".unordered"))}
    assert "*" in (folder.parent / ".gitignore").read_text(encoding="utf-8").splitlines()

    def read(name: str) -> Any:
        return json.loads((folder / name).read_text(encoding="utf-8"))

    assert read("summary.json") == document["summary"]
    assert {key: read("run.json")[key] for key in document["run"]} == document["run"]
    lines = (folder / "results.jsonl").read_text(encoding="utf-8").splitlines()
    assert [json.loads(line) for line in lines] == document["results"]
    cases = [json.loads(line) for line in (folder / "cases.jsonl").read_text(encoding="utf-8").splitlines()]
    assert len(cases) == 4
    told = [one for one in journal_of(only_run(project.folder)) if one["type"] == "told"]
    assert len(told) == sum(len(result["turns"]) for result in document["results"])


def test_a_run_folder_needs_nothing_outside(project: Project) -> None:
    project.write("notes.md", "Remember the milk.")
    content = [{"type": "file", "value": "notes.md"}, {"type": "text", "value": "What?"}]
    evals = [{"input_messages": [{"role": "user", "content": content}], "checks": [match("milk")]}]
    document = run(project, suite_of(evals, scripted(["milk"])), code=0)
    (project.folder / "notes.md").unlink()
    (project.folder / "evals.yaml").unlink()
    assert project.run_json("show") == document
    [folder] = run_folders(project.folder)
    assert "Remember the milk." in (folder / "cases.jsonl").read_text(encoding="utf-8")


@pytest.mark.slow
def test_a_run_that_was_killed_is_shown_without_a_traceback(project: Project) -> None:
    target = scripted(["yes"], judge=[True, True])
    project.write("evals.yaml", suite_of([case("a", JUDGE, {"llm_judge": {"criteria": "brief?"}})], target))
    done = run_process(project.folder, "run", "evals.yaml", REJOINDER_KILL_AT="told.queued:2")
    assert done.code == -9
    done = run_process(project.folder, "show", "--format", "json")
    assert done.document["summary"]["unfinished"] == 1
    assert "Traceback" not in done.err, done.err
    done = run_process(project.folder, "resume", "last", "--format", "json")
    assert statuses(done.document) == {"a": "passed"}


def test_the_python_interface_gives_the_same_results(project: Project) -> None:
    document = run(project, MIXED)
    report = rejoinder.run("evals.yaml")
    assert {result.id: result.status for result in report.results} == statuses(document)
    assert report.summary.passed == 2


# Memory

PEAK = """
import resource, subprocess, sys
done = subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL)
print(done.returncode, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)
"""


def peak_memory(project: Project, *arguments: str) -> int:
    """The most memory that a run took, in kilobytes. A small process starts it, because a child begins as a copy."""
    line = [sys.executable, "-m", "rejoinder", "run", "evals.yaml", "--format", "jsonl", *arguments]
    done = subprocess.run(
        [sys.executable, "-c", PEAK, *line], cwd=project.folder, capture_output=True, text=True, check=True
    )
    code, peak = map(int, done.stdout.split())
    assert code == 0, done.stderr
    return peak


@pytest.mark.long
@pytest.mark.parametrize("many", ["rows", "trials"])
def test_memory_does_not_grow_with_the_number_of_conversations(many: str, project: Project) -> None:
    checks = [match("yes"), follow("Sure?", match("yes"), follow("Really?", match("yes")))]
    replies = ["no " * 50, "no " * 50, "yes"]
    peaks: list[int] = []
    for count in (1_000, 10_000):
        if many == "rows":
            rows = (json.dumps({"prompt": f"Question {number}"}) for number in range(count))
            project.write("rows.jsonl", "\n".join(rows))
            suite: Raw = {"target": "script", "targets": [scripted(replies)], "cases": "rows.jsonl", "checks": checks}
            project.write("evals.yaml", suite)
            peaks.append(peak_memory(project))
        else:
            project.write("evals.yaml", suite_of([case("a", *checks)], scripted(replies)))
            peaks.append(peak_memory(project, "--repeat", str(count)))
    assert peaks[1] <= 1.3 * peaks[0], peaks


@pytest.mark.slow
def test_plain_output_has_no_changing_line(project: Project) -> None:
    project.write("evals.yaml", suite_of([ANY], scripted(["yes"])))
    done = run_process(project.folder, "run", "evals.yaml", "--repeat", "30")
    assert "\r" not in done.out + done.err
    assert "\x1b" not in done.out + done.err


@pytest.mark.slow
def test_a_call_inside_the_process_is_never_in_doubt(project: Project) -> None:
    """A scripted reply costs nothing, so nothing can be paid for twice."""
    slow = scripted(["hi"], "it", delay_ms=60_000)
    project.write("evals.yaml", {"targets": [slow], "target": "it", "evals": [case("a")]})
    process = Process(project.folder, "run", "evals.yaml")
    process.wait_for(
        lambda: any(one["type"] == "asked" for run in run_folders(project.folder) for one in journal_of(run))
    )
    assert process.kill().code == KILLED
    shown = project.run_json("show", code=None)
    assert (shown["run"]["status"], shown["run"]["in_doubt"]) == ("killed", 0)
