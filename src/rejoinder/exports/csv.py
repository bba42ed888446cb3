"""CSV for spreadsheets: a row for each conversation, on one line.

A spreadsheet runs a cell that begins with `=`, `+`, `-` or `@`. Where the system's separator is a semicolon it also
cuts cells there, in spite of quotes. So such a character gets an apostrophe before it, at the start of a text and after
each semicolon. Line breaks become a sign, and long texts are shortened to what a cell can hold. JSON Lines has all
texts as they were.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from rejoinder.model import Result
from rejoinder.views.cases import Run, duration_of
from rejoinder.views.course import audit_words, steps_words
from rejoinder.views.deeds import tool_names
from rejoinder.views.transcript import reasons_of
from rejoinder.words.inert import visible
from rejoinder.words.numbers import both_ends

LONGEST_CELL = 30_000
"""Characters of a text. A cell of Excel holds 32,767, and some characters grow when they are made visible."""
LINE_BREAK = " \N{RETURN SYMBOL} "
_RUN = re.compile(r'(^|;)([\s"]*)(?=[=+\-@\uff0b\uff0d\uff1d\uff20|%])')
Cell = str | int | float | None

COLUMNS: dict[str, Callable[[Result], Cell]] = {
    "suite": lambda result: result.suite,
    "id": lambda result: result.id,
    "title": lambda result: result.title,
    "tags": lambda result: ", ".join(result.tags),
    "target": lambda result: result.target,
    "variant": lambda result: result.variant,
    "trial": lambda result: result.trial,
    "status": lambda result: result.status,
    "score": lambda result: result.score,
    "turns": lambda result: len(result.turns),
    "succeeded_on_turn": lambda result: result.succeeded_on_turn,
    "reasons": lambda result: "\n".join(reasons_of(result)),
    "prompt": lambda result: result.turns[0].prompt if result.turns else None,
    "response": lambda result: result.turns[-1].response if result.turns else None,
    "input_tokens": lambda result: result.usage.input_tokens,
    "output_tokens": lambda result: result.usage.output_tokens,
    "cost_usd": lambda result: result.cost,
    "judge_cost_usd": lambda result: result.judge_cost,
    "duration_s": duration_of,
    "timestamp": lambda result: result.timestamp,
    "file": lambda result: result.file,
    "line": lambda result: result.line,
    "quarantine_until": lambda result: result.quarantine.until if result.quarantine is not None else None,
    "steps": lambda result: steps_words(result.steps) or None,
    "condition": lambda result: result.condition,
    "stopped_by": lambda result: result.user.stopped_by if result.user is not None else None,
    "audit": lambda result: audit_words(result.user) if result.user is not None else None,
    "tools": lambda result: tool_names(result.turns) or None,
}


def write(run: Run) -> Iterator[str]:
    yield ",".join(COLUMNS) + "\n"
    for result in run.results:
        yield ",".join(write_cell(value(result)) for value in COLUMNS.values()) + "\n"


def write_cell(value: Cell) -> str:
    """A cell that no spreadsheet runs."""
    if value is None:
        return ""
    if not isinstance(value, str):
        return f"{value:.10g}" if isinstance(value, float) else str(value)
    text = visible(both_ends(value, LONGEST_CELL)).replace("\n", LINE_BREAK).replace("\t", " ")
    text = _RUN.sub(r"\1\2'", both_ends(text, LONGEST_CELL)).replace('"', '""')
    return f'"{text}"'
