"""CTRF 1.0.0, the Common Test Report Format: one JSON document that many reporting tools read.

A test is a case on one target; its trials are attempts, and its turns are steps. An error of a provider or judge is
neither a pass nor a failure: CTRF has `other` for it, and `rawStatus` says `error`. A case in quarantine is skipped.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from uuid import NAMESPACE_URL, uuid5

from rejoinder.model import CaseStatus, CheckResult, Result, ToolCall, TurnResult
from rejoinder.views.cases import Run, Tried, milliseconds, name_of, tried_cases
from rejoinder.views.conversation import view_conversation
from rejoinder.views.course import course_words, step_words, turn_words
from rejoinder.views.transcript import MOST_CALLS, MOST_CHECKS, reasons_of, short_line, write_transcript
from rejoinder.words.inert import to_json, visible

SPEC_VERSION = "1.0.0"
_STATUSES: dict[CaseStatus, str] = {
    "passed": "passed",
    "failed": "failed",
    "error": "other",
    "skipped": "skipped",
    "apart": "skipped",
    "spoilt": "skipped",
}


def write(run: Run) -> Iterator[str]:
    receipt = run.run
    head: dict[str, Any] = {
        "reportFormat": "CTRF",
        "specVersion": SPEC_VERSION,
        "reportId": str(uuid5(NAMESPACE_URL, f"rejoinder:{visible(receipt.id)}")),
        "runId": receipt.id or "unknown",
        "generatedBy": f"rejoinder {receipt.version}".strip(),
    }
    if receipt.finished_at is not None and milliseconds(receipt.finished_at):
        head["timestamp"] = receipt.finished_at
    tool = {"name": "rejoinder", "version": receipt.version}
    yield f'{to_json(head)[:-1]},"results":{{"tool":{to_json(tool)},"summary":{to_json(_summary(run))},"tests":['
    separator = "\n"
    for test in tried_cases(run):
        yield f"{separator}{to_json(_test(test, name_of(test.first, run)))}"
        separator = ",\n"
    yield "\n]}}\n"


def _summary(run: Run) -> dict[str, int]:
    """Counts come first in the document, so the results are read twice."""
    counts: dict[str, int] = dict.fromkeys(("tests", "passed", "failed", "skipped", "pending", "other", "flaky"), 0)
    suites: set[tuple[str, str]] = set()
    for test in tried_cases(run):
        counts["tests"] += 1
        counts[_STATUSES[test.status]] += 1
        counts["flaky"] += test.is_flaky
        suites.add((test.first.suite, test.first.file))
    start = milliseconds(run.run.started_at)
    duration = _milliseconds(run.run.duration_s)
    stop = max(start, milliseconds(run.run.finished_at)) or start + duration
    return {**counts, "suites": len(suites), "start": start, "stop": stop, "duration": duration}


def _test(test: Tried, name: str) -> dict[str, Any]:
    first, result = test.first, test.deciding
    reasons = [] if test.apart is None else [test.apart]
    reasons += reasons_of(result)
    shown: dict[str, Any] = {
        "testId": f"{first.file or first.suite}: {name}",
        "name": name or "unnamed",
        "status": _STATUSES[test.status],
        "rawStatus": "in quarantine" if test.status == "apart" else test.status,
        "duration": _milliseconds(test.duration_s),
        "suite": [first.suite],
        "type": "eval",
        "tags": list(first.tags),
        "labels": _labels(first),
        "flaky": test.is_flaky,
        "steps": [*(_step(turn, result) for turn in result.turns), *_not_sent(result)],
        "stdout": list(write_transcript(view_conversation(result))),
        "extra": _extra(test),
    }
    if first.file:
        shown |= {"filePath": first.file, "line": first.line}
    if reasons:
        shown |= {"message": reasons[0], "trace": "\n".join(reasons)}
    start = milliseconds(first.timestamp)
    if start:
        shown |= {"start": start, "stop": start + shown["duration"]}
    if test.trials > 1:
        shown["retryAttempts"] = [
            {"attempt": max(1, one.number), "status": _STATUSES[one.status], "duration": _milliseconds(one.duration_s)}
            for one in test.listed
        ]
    return shown


def _labels(result: Result) -> dict[str, str]:
    labels = {"target": result.target, "title": short_line(result.title)}
    labels |= {} if result.variant is None else {"variant": result.variant}
    return labels if result.condition is None else {**labels, "condition": result.condition}


def _step(turn: TurnResult, result: Result) -> dict[str, Any]:
    status = "passed" if turn.passed else "other" if turn.response is None else "failed"
    extra: dict[str, Any] = {"checks": [_check(check) for check in turn.checks]}
    if turn.step is not None:
        extra |= {"step": turn.step, "name": turn.name, "depth": turn.depth}
    if turn.tool_calls:
        extra["tools"] = [_tool(call) for call in turn.tool_calls[:MOST_CALLS]]
    words = turn_words(turn, result)
    what = f" ({short_line(words)})" if words else ""
    return {"name": f"turn {turn.turn}{what}: {short_line(turn.prompt)}", "status": status, "extra": extra}


def _tool(call: ToolCall) -> dict[str, Any]:
    known = {"name": short_line(call.name), "server": call.server, "status": call.status, "fault": call.fault}
    return {key: value for key, value in known.items() if value}


def _check(check: CheckResult) -> dict[str, Any]:
    return {"check": short_line(check.check), "state": check.state, "score": check.score}


def _not_sent(result: Result) -> Iterator[dict[str, Any]]:
    for step in result.steps:
        if step.status == "skipped":
            name = short_line(step_words(step.step, len(result.steps), step.name))
            yield {"name": f"{name}: not sent", "status": "skipped", "extra": {"step": step.step}}


def _extra(test: Tried) -> dict[str, Any]:
    extra: dict[str, Any] = {"trials": test.trials, "passed": test.passed, "turns": test.turns, "cost_usd": test.cost}
    if test.first.needed is not None:
        extra["needed"] = test.first.needed
    extra |= _course(test.deciding)
    if test.trials == 1:
        return {**extra, "score": test.first.score, "succeeded_on_turn": test.first.succeeded_on_turn}
    found = test.rate
    return extra if found is None else {**extra, "pass_rate": found.rate, "interval": found.interval}


def _course(result: Result) -> dict[str, Any]:
    """Of planned and simulated conversations, and of those that are checked as a whole."""
    found: dict[str, Any] = {label: short_line(text) for label, text in course_words(result) if label != "steps"}
    if result.steps:
        found["steps"] = [{"step": one.step, "name": one.name, "status": one.status} for one in result.steps]
    if result.conversation_checks:
        checks = result.conversation_checks[:MOST_CHECKS]
        found["conversation_checks"] = [{**_check(one), "reason": short_line(one.reason)} for one in checks]
    return found


def _milliseconds(seconds: float) -> int:
    return max(0, round(seconds * 1000))
