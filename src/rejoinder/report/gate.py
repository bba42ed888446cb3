"""The answer of a gate on a terminal: a line for each rule, then the result."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from msgspec import structs

from rejoinder.model.figures import GateResult, RuleResult, RuleVerdict
from rejoinder.model.runs import QuarantinedCase
from rejoinder.report.styled import (
    EMPTY,
    PLAIN,
    Commands,
    Form,
    Line,
    Piece,
    Role,
    beside,
    command_rows,
    line,
    mark,
    paragraph,
    safe,
    width_of_line,
)
from rejoinder.report.tables import Column, write_table
from rejoinder.views.flips import NO_FLIPS, Flips
from rejoinder.words.numbers import chance, count, shortened

MOST_NAMED, LONGEST_NAME = 3, 60
"""Cases in quarantine, and new cases that fail."""
MOST_BROKEN = 5
_SIGNS: dict[RuleVerdict, str] = {"pass": "✓", "fail": "✗", "cannot-tell": "?"}
_WORDS: dict[RuleVerdict, tuple[str, Role]] = {
    "pass": ("pass", "pass"),
    "fail": ("fail", "fail"),
    "cannot-tell": ("cannot tell", "warned"),
}


def word_of(verdict: RuleVerdict) -> str:
    """The mark of a verdict if there are no signs."""
    return _mark(verdict, PLAIN)[0].text


def _mark(verdict: RuleVerdict, form: Form) -> Line:
    return mark(_SIGNS[verdict], form)


def write_gate(
    found: GateResult,
    form: Form = PLAIN,
    quarantined: Sequence[QuarantinedCase] = (),
    commands: Commands = (),
    flips: Flips = NO_FLIPS,
) -> Iterator[Line]:
    yield from write_rules(found, form)
    yield from _not_counted([case for case in quarantined if case.active], form)
    yield from paragraph(line((alarm_words(found), "quiet")), form) if found.false_alarms else ()
    yield from paragraph(line(("To confirm: ", "quiet"), safe(found.confirm)), form) if found.confirm else ()
    yield from _broken(flips, form)
    yield EMPTY
    if found.run is not None:
        against = f" against {found.against}" if found.against is not None else ""
        yield from paragraph(line((safe(f"run {found.run}{against}"), "quiet")), form)
    yield from write_verdict(found, form, commands)


def write_verdict(found: GateResult, form: Form, commands: Commands = ()) -> Iterator[Line]:
    """The result and what to type next, and nothing else."""
    said = Piece(result_words(found), _WORDS[found.verdict][1])
    yield from write_decision([(*_mark(found.verdict, form), said)], found.exit_code, form)
    if form.commands:
        yield from command_rows(commands, form.edge)


def write_decision(rows: Iterable[Line], code: int, form: Form) -> Iterator[Line]:
    """Rows with the exit code that they lead to behind the last."""
    *before, last = rows
    yield from before
    yield from beside(last, line((f"exit {code}", "quiet")), form.edge)


def _broken(flips: Flips, form: Form) -> Iterator[Line]:
    """Cases with a smaller share of passed trials than in the baseline, and their replies."""
    shown = [row for row in flips.rows if row.broke][:MOST_BROKEN]
    if not shown:
        return
    yield EMPTY
    yield from write_table(
        [
            Column(title="passed less often", cells=[line((safe(row.address), "name")) for row in shown]),
            Column(title="before", cells=[line(row.before) for row in shown]),
            Column(title="now", cells=[line(row.now) for row in shown]),
            Column(title="it said", cells=[line((safe(row.said), "quiet")) for row in shown]),
        ],
        form,
    )
    if left := flips.broke - len(shown):
        yield line((f"{form.dots} {left:,} more", "quiet"))


def _not_counted(cases: Sequence[QuarantinedCase], form: Form) -> Iterator[Line]:
    if not cases:
        return
    named = [f"{case.id} until {case.until} ({case.reason})" for case in cases[:MOST_NAMED]]
    more = f" and {len(cases) - MOST_NAMED:,} more" if len(cases) > MOST_NAMED else ""
    yield from paragraph(line((safe(f"quarantined, not counted: {', '.join(named)}{more}"), "quiet")), form)


def write_rules(found: GateResult, form: Form = PLAIN) -> Iterator[Line]:
    """Mark, rule as written, verdict and numbers: in columns, or where there is no room, verdict and numbers below."""
    marks = [_mark(rule.verdict, form) for rule in found.rules]
    longest = max(map(width_of_line, marks))
    named = [
        (*sign, Piece(" " * (longest - width_of_line(sign))), Piece(safe(rule.rule), "name"))
        for sign, rule in zip(marks, found.rules, strict=True)
    ]
    columns = [
        Column(title="", cells=named),
        Column(title="", cells=[line(_WORDS[rule.verdict]) for rule in found.rules]),
        Column(title="", cells=[line(_reason(rule)) for rule in found.rules]),
    ]
    _, *rows = write_table(columns, structs.replace(form, width=None))
    if form.width is None or max(map(width_of_line, rows)) <= form.width:
        yield from rows
        return
    for sign, rule in zip(marks, found.rules, strict=True):
        yield from paragraph((*sign, Piece(safe(rule.rule), "name")), form)
        word, role = _WORDS[rule.verdict]
        yield from paragraph(line((f"  {word}", role), f"   {_reason(rule)}"), form)


def _reason(rule: RuleResult) -> str:
    """The numbers; the verdict stands before them."""
    return safe(rule.reason.removeprefix(f"{_WORDS[rule.verdict][0]}: "))


def result_words(found: GateResult, named: Callable[[str], str] = safe) -> str:
    """`gate failed: 1 of 2 rules`, `gate cannot tell: 1 of 2 rules; new and failing: refund`. `named`: how a layout
    writes a name."""
    ids = [named(shortened(name, LONGEST_NAME)) for name in found.failing_and_new]
    more = f" and {len(ids) - MOST_NAMED:,} more" if len(ids) > MOST_NAMED else ""
    new = f"; new and failing: {', '.join(ids[:MOST_NAMED])}{more}" if ids else ""
    return f"{_decided(found)}{new}"


def _decided(found: GateResult) -> str:
    verdicts = [rule.verdict for rule in found.rules]
    number, failed, unknown = len(verdicts), verdicts.count("fail"), verdicts.count("cannot-tell")
    rules = count(number, "rule")
    if failed:
        return f"gate failed: {failed} of {rules}" + (f", {unknown} cannot tell" if unknown else "")
    if unknown:
        return f"gate cannot tell: {unknown} of {rules}"
    return f"gate passed: {rules}"


def alarm_words(found: GateResult) -> str:
    """How often an unchanged suite like this one would fail the gate."""
    parts = [f"{rule} {chance(often)}" for rule, often in found.false_alarms.items()]
    return f"By chance, an unchanged suite like this one fails {' and '.join(parts)} of runs."
