"""TOON for reading by models: three tables instead of nested records, because only tables are shorter than JSON.

`results` has a row for each conversation, `turns` one for each turn, `checks` one for each check, which has no turn
where it looks at the whole conversation; the column `result` counts conversations from 1. A run with plans has `steps`,
too, one with simulated users or sharded tasks `courses`, and one with tools `tool_calls`. The rows are
encoded by toon-format, some hundred at a time. Characters that a terminal would obey are written as escapes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Any, TypeAlias

from msgspec import Struct

from rejoinder.model import CheckResult, Result
from rejoinder.views.cases import Run
from rejoinder.views.course import audit_words
from rejoinder.words.figures import cases_passed
from rejoinder.words.inert import OBEYED, to_json

BATCH = 500
Row = dict[str, Any]
_Rows: TypeAlias = Callable[[Iterable[Result]], Iterator[Row]]
_MARK = "\x1a"
"""Stands before the code of a character, until the text is encoded."""
_OBEYED = re.compile(f"[{OBEYED}]")
_MARKED = re.compile(r"(\\\\)|\\u001a([0-9a-f]{4})")


class Saving(Struct, frozen=True):
    """The size of the tables, in characters, and that of the same tables as compact JSON."""

    toon: int
    json: int

    @property
    def share(self) -> float:
        """The part of JSON that is saved; below 0 where TOON is longer."""
        return 1 - self.toon / self.json if self.json else 0.0


def write(run: Run) -> Iterator[str]:
    from toon_format import encode

    receipt, summary = run.run, run.summary
    head = {
        "run": {"id": receipt.id, "status": receipt.status, "started_at": receipt.started_at},
        "summary": {
            "total": summary.total,
            "passed": summary.passed,
            "failed": summary.failed,
            "errors": summary.errors,
            "skipped": summary.skipped,
            "first_try": summary.first_try,
            "recovered": summary.recovered,
            **({"cases_passed": cases_passed(summary)} if summary.has_repeats else {}),
            "pass_rate": summary.pass_rate,
            **({} if summary.spoilt is None else {"spoilt": summary.spoilt.conversations}),
            **({} if summary.caves is None else {"caved": summary.caves.passed}),
            "cost": summary.cost,
        },
    }
    yield _inert(encode(_marked(head)))
    for name, rows in _tables(run):
        yield from _table(name, rows, run.results)
    yield "\n"


def _tables(run: Run) -> Iterator[tuple[str, _Rows]]:
    yield from _TABLES.items()
    yield from ((name, rows) for name, rows in _RARE.items() if next(rows(run.results), None) is not None)


def measure(run: Run) -> Saving:
    """How much shorter the tables are than the same tables as JSON."""
    toon = in_json = 0
    for name, rows in _tables(run):
        toon += sum(map(len, _table(name, rows, run.results)))
        in_json += len(f'"{name}":[],') + sum(len(to_json(row)) + 1 for row in rows(run.results))
    return Saving(toon, in_json)


def tables(run: Run) -> dict[str, list[Row]]:
    """The same tables as data, for a run that fits into memory."""
    return {name: list(rows(run.results)) for name, rows in _tables(run)}


def _table(name: str, rows: _Rows, results: Iterable[Result]) -> Iterator[str]:
    """A header with the number of rows, so the results are read twice; then the rows, each on a line."""
    from toon_format import encode

    count = sum(1 for _ in rows(results))
    if not count:
        yield f"\n{name}: []"
        return
    every = rows(results)
    start = f"\n{name}[{count}]"
    while batch := list(islice(every, BATCH)):
        header, _, lines = _inert(encode([_marked(row) for row in batch])).partition("\n")
        yield f"{start}{header[header.index('{') :]}\n{lines}" if start else f"\n{lines}"
        start = ""


def _results(results: Iterable[Result]) -> Iterator[Row]:
    for number, result in enumerate(results, 1):
        yield {
            "result": number,
            "suite": result.suite,
            "id": result.id,
            "target": result.target,
            "variant": result.variant,
            "trial": result.trial,
            "status": result.status,
            "score": result.score,
            "succeeded_on_turn": result.succeeded_on_turn,
            "cost": result.cost,
            "error": None if result.error is None else result.error.message,
            "file": result.file,
            "line": result.line,
        }


def _turns(results: Iterable[Result]) -> Iterator[Row]:
    for number, result in enumerate(results, 1):
        for turn in result.turns:
            yield {
                "result": number,
                "turn": turn.turn,
                "depth": turn.depth,
                "passed": turn.passed,
                "prompt": turn.prompt,
                "response": turn.response,
            }


def _checks(results: Iterable[Result]) -> Iterator[Row]:
    for number, result in enumerate(results, 1):
        for turn in result.turns:
            yield from (_check(number, turn.turn, check) for check in turn.checks)
        yield from (_check(number, None, check) for check in result.conversation_checks)


def _steps(results: Iterable[Result]) -> Iterator[Row]:
    for number, result in enumerate(results, 1):
        for step in result.steps:
            turns = [turn.turn for turn in result.turns if turn.step == step.step]
            yield {
                "result": number,
                "step": step.step,
                "name": step.name,
                "status": step.status,
                "score": step.score,
                "first_turn": turns[0] if turns else None,
            }


def _tool_calls(results: Iterable[Result]) -> Iterator[Row]:
    for number, result in enumerate(results, 1):
        for turn in result.turns:
            for call in turn.tool_calls:
                yield {
                    "result": number,
                    "turn": turn.turn,
                    "tool": call.name,
                    "server": call.server or None,
                    "arguments": call.arguments,
                    "answer": call.result,
                    "status": call.status,
                    "fault": call.fault,
                }


def _courses(results: Iterable[Result]) -> Iterator[Row]:
    for number, result in enumerate(results, 1):
        if result.user is not None or result.condition is not None:
            yield {
                "result": number,
                "condition": result.condition,
                "stopped_by": None if result.user is None else result.user.stopped_by,
                "audit": None if result.user is None else audit_words(result.user),
            }


def _check(result: int, turn: int | None, check: CheckResult) -> Row:
    return {
        "result": result,
        "turn": turn,
        "check": check.check,
        "state": check.state,
        "score": check.score,
        "reason": check.reason,
    }


_TABLES: dict[str, _Rows] = {"results": _results, "turns": _turns, "checks": _checks}
_RARE: dict[str, _Rows] = {"steps": _steps, "courses": _courses, "tool_calls": _tool_calls}
"""Tables that most runs have no row of."""


def _marked(value: Any) -> Any:
    """The value with marks for what must not be written as it is; a control character makes the encoder put quotes."""
    if isinstance(value, dict):
        return {key: _marked(entry) for key, entry in value.items()}
    return _OBEYED.sub(_mark, value) if isinstance(value, str) else value


def _mark(found: re.Match[str]) -> str:
    code = ord(found[0])
    has_escape = code < 0xD800 or 0xDFFF < code <= 0xFFFF  # TOON has none for halves, nor beyond the first plane
    return f"{_MARK}{code:04x}" if has_escape else "\N{REPLACEMENT CHARACTER}"


def _inert(text: str) -> str:
    """The encoded text with an escape for each mark."""
    return _MARKED.sub(lambda found: found[1] or f"\\u{found[2]}", text)
