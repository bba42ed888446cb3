"""Runs to export: made of results that tests write, and replies that would break a careless format."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any

from hypothesis import strategies
from msgspec import Struct

from rejoinder.exports.formats import FORMATS
from rejoinder.model import (
    AskedBy,
    CheckResult,
    Quarantine,
    RawRequest,
    Receipt,
    Result,
    Spoilt,
    StepResult,
    Summary,
    TurnResult,
    UsageResult,
    UserResult,
)
from rejoinder.model.messages import ToolCall
from rejoinder.model.results import ErrorResult, StepStatus
from rejoinder.model.runs import SuiteOfRun, TargetOfRun
from rejoinder.runs.summary import summarise

OBEYED = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\ud800-\udfff]")
"""What moves a cursor, ends a line or turns the direction of writing."""

HOSTILE = (
    "<script>alert(1)</script><img src=x onerror=alert(1)>",
    "\x1b[2J\x1b]0;title\x07\x9b31m\x08\x08\x00",
    "]]></system-out><testcase/>&amp;<!--",
    '=HYPERLINK("http://evil","x")',
    "+cmd|' /C calc'!A0",
    "harmless;=1+1;@SUM(A1)",
    "\u202eevil\u2066\u2069 \u061c\ufeff\u2028line\u2029",
    "````\n```\n~~~\n# heading\n@everyone #1 ![x](http://evil/x.png)",
    "::error file=x::forged\n  ::stop-commands::x\n##[error]forged",
    '"quoted", comma\r\nreturn\rtab\t\n- item\n[3]{a,b}: 1',
    "lone \ud800 half \udfff",
    "\U000e0041\U000e0042 invisible \ufffe\uffff",
    "--> </details> </summary> <!-- | table | `code` \\| \\",
    "",
    "   ",
    "ordinary text, with ünïcödé, 漢字 and 👨‍👩‍👧",
)

hostile_texts = (
    strategies.sampled_from(HOSTILE)
    | strategies.text(max_size=40)
    | strategies.text(alphabet="`~<>&|\\*_[](){}#@:;=+-'\"\n\r\t\x1b\x9b\u202e\ud800 ax0,%!\u2028", max_size=40)
)


class MadeRun(Struct, frozen=True):
    run: Receipt
    summary: Summary
    results: tuple[Result, ...]


def receipt(**more: Any) -> Receipt:
    known: dict[str, Any] = {
        "id": "20261116-120000-abcd",
        "status": "completed",
        "started_at": "2026-11-16T12:00:00.000Z",
        "finished_at": "2026-11-16T12:00:09.500Z",
        "version": "0.2.0",
        "suites": (SuiteOfRun("evals.yaml", "arithmetic"),),
        "targets": (TargetOfRun("demo", "openai", "gpt-5"),),
        "options": {},
        "planned": 1,
        "in_doubt": 0,
        "duration_s": 9.5,
    }
    return Receipt(**{**known, **more})


def made_run(results: Iterable[Result], **more: Any) -> MadeRun:
    listed = tuple(results)
    run = receipt(planned=len(listed), **more)
    return MadeRun(run, summarise(listed, run), listed)


def turn(reply: str | None = "105", number: int = 1, **more: Any) -> TurnResult:
    known: dict[str, Any] = {
        "turn": number,
        "depth": number - 1,
        "prompt": "What is 15 * 7?",
        "response": reply,
        "passed": True,
        "checks": (check(),),
        "usage": UsageResult(20, 5, 25),
        "cost": 0.001,
        "duration_s": 1.5,
        "model": "gpt-5-2026",
        "finish_reason": "stop",
        "started_at": "2026-11-16T12:00:01.250Z",
        "request_id": "req-1",
    }
    return TurnResult(**{**known, **more})


def check(passed: bool = True, **more: Any) -> CheckResult:
    known: dict[str, Any] = {"check": "match *105*", "score": float(passed), "reason": "as it should", "kind": "match"}
    return CheckResult(passed=passed, **{**known, **more})


def result(case: str = "times", *turns: TurnResult, **more: Any) -> Result:
    turns = turns or (turn(),)
    known: dict[str, Any] = {
        "suite": "arithmetic",
        "id": case,
        "name": None,
        "number": 1,
        "title": "What is 15 * 7?",
        "id_written": True,
        "tags": ("quick",),
        "conversation_id": None,
        "metadata": {},
        "target": "demo",
        "trial": 1,
        "status": "passed",
        "passed": True,
        "score": 1.0,
        "succeeded_on_turn": 1,
        "hits": (),
        "misses": (),
        "reasoning": None,
        "turns": turns,
        "usage": UsageResult(20, 5, 25),
        "cost": 0.001,
        "judge_usage": UsageResult(0, 0, 0),
        "judge_cost": None,
        "raw_request": RawRequest("What is 15 * 7?", "", None),
        "error": None,
        "timestamp": "2026-11-16T12:00:01.250Z",
        "file": "suites/evals.yaml",
        "line": 12,
    }
    return Result(**{**known, **more})


def failed(case: str = "square", reply: str = "no", reason: str = "*105* is not in it", **more: Any) -> Result:
    ended = turn(reply, passed=False, checks=(check(False, reason=reason),))
    return result(case, ended, **{"status": "failed", "passed": False, "score": 0.0, "succeeded_on_turn": None, **more})


def in_error(case: str = "broken", message: str = "HTTP 500", **more: Any) -> Result:
    ended = turn(None, passed=False, checks=(), usage=UsageResult(0, 0, 0), cost=None, model=None, started_at=None)
    trouble = ErrorResult("server", message, 1, 500)
    changes = {"status": "error", "passed": False, "score": None, "succeeded_on_turn": None, "error": trouble}
    return result(case, ended, **{**changes, "timestamp": None, "cost": None, **more})


def hostile(text: str) -> MadeRun:
    """A run that has this text wherever others could have put it."""
    said = turn(text, prompt=text, passed=False, checks=(check(False, check=text, reason=text, name=text),))
    broken = turn(None, passed=False, checks=(), model=text, finish_reason=text, request_id=text)
    changes: dict[str, Any] = {"title": text, "tags": (text,), "metadata": {text: [text]}, "reasoning": text}
    lost = {"status": "failed", "passed": False, "score": 0.0, "succeeded_on_turn": None}
    return made_run(
        [
            result(text, said, **changes, **lost, suite=text, target=text, file=text, variant=text),
            result("two", broken, **changes, status="error", error=ErrorResult(text, text, 1), conversation_id=text),
            *planned_and_simulated(text, **lost),
            result("three", turn(text), **changes),
        ],
        suites=(SuiteOfRun(text, text),),
        targets=(TargetOfRun(text, text, text),),
    )


def planned_and_simulated(text: str, **lost: Any) -> Iterator[Result]:
    """Conversations with this text in names of turns, in words of a user, and in what is said of it."""
    bad = check(False, check=text, reason=text, name=text)
    over = check(False, check=f"never {text}", kind="never", reason=text, children=(check(True, name="turn 1"),))
    turns = (
        turn(text, prompt=text, step=1, name=text),
        turn(text, 2, depth=0, prompt=text, passed=False, step=2, name=text, checks=(bad,)),
        turn(
            f"{text}.",
            3,
            depth=1,
            prompt=text,
            passed=False,
            step=2,
            name=text,
            asked_by=AskedBy(2, (0,)),
            checks=(bad,),
        ),
    )
    ways: tuple[StepStatus, ...] = ("passed", "failed", "skipped", "skipped")
    steps = tuple(StepResult(number, text, way, None) for number, way in enumerate(ways, 1))
    yield result("planned", *turns, steps=steps, conversation_checks=(over, bad), condition="sharded", **lost)
    told = UserResult(2, "word", Spoilt("leak", 2, text), UsageResult(1, 1, 2), None, text)
    said = turn(text, 2, depth=0, prompt=text, passed=False, simulated=True, checks=(bad,))
    yield result("spoilt", turn(text, prompt=text), said, user=told, **lost)
    yield result("with tools", turn(text, passed=False, tool_calls=tool_calls(text), checks=(bad,)), **lost)
    yield result("doubted", turn(text), turn(f"{text}.", 2, passed=False, doubts=True, checks=(bad,)), **lost)


def tool_calls(text: str) -> tuple[ToolCall, ...]:
    """Calls that went well, failed, failed on purpose and were not answered, with this text wherever others could have
    put it."""
    return (
        ToolCall(text, text, text, text, "completed", 1794830401.5, 0.25, text),
        ToolCall("look", text, "", text, "failed"),
        ToolCall("look", text, "", "too late", "failed", fault="timeout"),
        ToolCall("look", text, "", None, "pending"),
    )


def mixed() -> MadeRun:
    """Two suites; one case passes at once, one recovers, one fails, one has an error, one is skipped; trials."""
    recovered = (turn("100", passed=False, checks=(check(False),)), turn("105", 2, prompt="Again."))
    return made_run(
        [
            result("times"),
            result("recovers", *recovered, succeeded_on_turn=2),
            failed("square"),
            in_error("broken"),
            result("unasked", status="skipped", passed=False, score=None, succeeded_on_turn=None),
            *(result("often", trial=trial) for trial in (1, 2)),
            failed("often", trial=3),
            failed("elsewhere", suite="words", file="suites/words.yaml", line=3, target="other"),
        ],
        suites=(SuiteOfRun("suites/evals.yaml", "arithmetic"), SuiteOfRun("suites/words.yaml", "words")),
        targets=(TargetOfRun("demo", "openai", "gpt-5"), TargetOfRun("other", "anthropic", "claude-5")),
    )


def judged_together() -> MadeRun:
    """A run that ends with exit code 0, though one trial of five failed, and a case that is in quarantine."""
    often = [result("often", trial=trial, needed=(4, 5)) for trial in (1, 2, 3, 5)]
    apart = Quarantine("2099-01-01", "the new tokenizer")
    run = made_run(
        [
            result("times"),
            *often[:3],
            failed("often", trial=4, needed=(4, 5)),
            *often[3:],
            failed("flaky", trial=1, quarantine=apart),
            result("flaky", trial=2, quarantine=apart),
        ]
    )
    assert run.summary.exit_code == 0
    return run


def written(name: str, run: MadeRun) -> str:
    return "".join(FORMATS[name].write(run))
