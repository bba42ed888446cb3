"""The answer of a gate on a terminal: a line for each rule, then the result."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TextIO

from msgspec import Struct

from rejoinder.model.figures import GateResult, RuleResult, RuleVerdict
from rejoinder.model.runs import QuarantinedCase
from rejoinder.report.words import command_lines, count


class Marks(Struct, frozen=True):
    passed: str
    failed: str
    open: str

    def of(self, verdict: RuleVerdict) -> str:
        return {"pass": self.passed, "fail": self.failed, "cannot-tell": self.open}[verdict]


MOST_NAMED = 3
"""Cases in quarantine."""
SYMBOLS = Marks("✓", "✗", "?")
WORDS = Marks("PASS", "FAIL", "CANNOT TELL")
_WORDS: dict[RuleVerdict, str] = {"pass": "pass", "fail": "fail", "cannot-tell": "cannot tell"}


def marks_for(stream: TextIO) -> Marks:
    """Symbols on a terminal that can show them, words everywhere else."""
    try:
        "".join((SYMBOLS.passed, SYMBOLS.failed)).encode(stream.encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return WORDS
    return SYMBOLS if stream.isatty() else WORDS


class Beside(Struct, frozen=True):
    """What is told of a run beside its rules."""

    quarantined: tuple[QuarantinedCase, ...] = ()
    commands: tuple[tuple[str, str], ...] = ()
    """To type next, with what each does."""
    width: int | None = None


NOTHING = Beside()


def write_gate(found: GateResult, marks: Marks = WORDS, beside: Beside = NOTHING) -> Iterator[str]:
    yield from write_rules(found, marks)
    yield from _not_counted([case for case in beside.quarantined if case.active])
    yield ""
    if found.run is not None:
        yield f"run {found.run}" + (f" against {found.against}" if found.against is not None else "")
    yield f"{marks.of(found.verdict)} {_result(found)}   exit {found.exit_code}"
    yield from command_lines(beside.commands, beside.width)


def _not_counted(cases: Sequence[QuarantinedCase]) -> Iterator[str]:
    if not cases:
        return
    named = [f"{case.id} until {case.until} ({case.reason})" for case in cases[:MOST_NAMED]]
    more = f" and {len(cases) - MOST_NAMED:,} more" if len(cases) > MOST_NAMED else ""
    yield f"quarantined, not counted: {', '.join(named)}{more}"


def write_rules(found: GateResult, marks: Marks = WORDS) -> Iterator[str]:
    """Mark, rule as written, verdict and numbers, in columns."""
    rows = [_row(rule, marks) for rule in found.rules]
    widths = [max(len(row[column]) for row in rows) for column in range(3)]
    for *columns, reason in rows:
        mark, rule, verdict = (text.ljust(width) for text, width in zip(columns, widths, strict=True))
        yield f"{mark} {rule}   {verdict}   {reason}"


def _row(rule: RuleResult, marks: Marks) -> tuple[str, str, str, str]:
    word = _WORDS[rule.verdict]
    return marks.of(rule.verdict), rule.rule, word, rule.reason.removeprefix(f"{word}: ")


def _result(found: GateResult) -> str:
    verdicts = [rule.verdict for rule in found.rules]
    number, failed, unknown = len(verdicts), verdicts.count("fail"), verdicts.count("cannot-tell")
    rules = count(number, "rule")
    if failed:
        return f"gate failed: {failed} of {rules}" + (f", {unknown} cannot tell" if unknown else "")
    if unknown:
        return f"gate cannot tell: {unknown} of {rules}"
    return f"gate passed: {rules}"
