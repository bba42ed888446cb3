"""The end of a run: recovered is a line, failed is a block, passed is a number.

The result stands last, but for what to type next. There is one order for all readers; the form says whether they see
signs, columns and short numbers, or words, one fact a line. What else a run has is shown by `--verbose` and
`--format json`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice

from msgspec import Struct

from rejoinder.model import Result, Summary
from rejoinder.model.runs import SHORTEST_NAME, BudgetUse
from rejoinder.report.course import against, recovery_words, spoilt_of
from rejoinder.report.deeds import not_allowed
from rejoinder.report.failure import LONGEST_ID, write_failure
from rejoinder.report.found import Alike, Found, column_of, groups_of, look_through
from rejoinder.report.problems import columns_of
from rejoinder.report.run_tables import write_conditions, write_faults, write_grid, write_groups, write_recovery
from rejoinder.report.runs import Run, Tried
from rejoinder.report.styled import (
    EMPTY,
    PARAGRAPH,
    Form,
    Line,
    Piece,
    Role,
    beside,
    command_rows,
    fitted,
    line,
    mark,
    paragraph,
    safe,
    width_of_line,
)
from rejoinder.report.summary import (
    JUDGED_ITSELF,
    MOST_QUARANTINED,
    bounds_words,
    budget_words,
    cache_notes,
    condition_rates,
    confirmed_words,
    corrected_words_of,
    doubt_words,
    limit_words,
    quarantine_words,
    spoilt_words,
    stale_words,
    unpriced_words,
    write_summary,
)
from rejoinder.report.words import Commands, count, interval, money, seconds, tokens

BLOCKS, SHORT_BLOCKS = 10, 30
"""Up to so many failures are whole blocks, blocks of two rows; more are lines."""
MOST_JUDGES = 2
MOST_WORSE = 10
"""Targets that are named with their failures in the result."""
LEAST_REPLY = 12
"""Columns for the beginning of a reply, below which it says nothing."""
MOST_TRIALS = 20
"""Trials of a strip."""


class Extras(Struct, frozen=True):
    """What is shown beside what all runs show."""

    figures: bool = False
    """All that was counted, instead of the most important."""
    corrected: bool = False
    """Pass rates that people would see, where a judge's errors are known."""
    traceback: str | None = None
    """The file with what the user's own code raised."""
    compared: tuple[str, ...] = ()
    """What the comparison of two variants says, in words."""


NONE = Extras()


def write_ending(run: Run, commands: Commands, form: Form, extras: Extras = NONE) -> Iterator[Line]:
    return _within(_screen(run, commands, form, extras), form)


def write_result(run: Run, commands: Commands, form: Form) -> Iterator[Line]:
    """The result and what to type next, and nothing else."""
    return _within((*_result(run, look_through(run), form), *_commands(commands, form)), form)


def _within(rows: Iterable[Line], form: Form) -> Iterator[Line]:
    return iter(rows) if form.edge is None else (fitted(row, form.edge) for row in rows)


def _screen(run: Run, commands: Commands, form: Form, extras: Extras) -> Iterator[Line]:
    found, summary = look_through(run), run.summary
    if not found.columns:  # the grid has them
        yield from _recovered(found, form)
    yield from _spoilt(found, form)
    yield from _errors(run, found, form, extras.traceback)
    yield from _failures(run, found, form)
    yield from _strips(run, found, form)
    yield from write_grid(found, form)
    if extras.figures:
        yield from (line(safe(row) if place == 0 else row) for place, row in enumerate(write_summary(run.run, summary)))
    else:
        yield from _facts(run, form)
        yield from write_recovery(summary, form)
        yield from write_faults(summary, form)
        yield from write_conditions(summary, form)
        yield from write_groups("target", summary.by_target, form, has_prices=bool(summary.unpriced))
        yield from write_groups("variant", summary.by_variant, form, has_prices=bool(summary.unpriced))
    yield EMPTY
    yield from (row for text in extras.compared for row in paragraph(line(safe(text)), form))
    yield from _notes(run, form, extras)
    if not form.commands:  # so that the result is the last line
        yield from (line(f"go on with: {command}") for command, _ in commands)
    yield from _result(run, found, form)
    yield from _commands(commands, form)


def _commands(commands: Commands, form: Form) -> Iterator[Line]:
    return command_rows(commands, form.edge) if form.commands else iter(())


def _recovered(found: Found, form: Form) -> Iterator[Line]:
    ids = [safe(result.id) for result in found.recovered.shown]
    longest = _longest(ids, 32)
    for result, name in zip(found.recovered.shown, ids, strict=True):
        turn, why = recovery_words(result)
        if not form.symbols:
            yield (*mark("↻", form), Piece(", ".join(filter(None, (name, turn, form.cut(safe(why), 0))))))
            continue
        start = (*mark("↻", form), Piece(f"{form.cut(name, longest).ljust(longest)}  "), Piece(turn, "recovered"))
        room = form.room - width_of_line(start)
        yield (*start, Piece(form.cut(f"  {safe(why)}" if why else "", max(8, room)), "quiet"))
    if found.recovered.left:
        yield (*mark("↻", form), Piece(f"and {found.recovered.left:,} more", "quiet"))
    if found.recovered.shown:
        yield EMPTY


def _spoilt(found: Found, form: Form) -> Iterator[Line]:
    """`! return-2  spoilt by its user, not counted: leaked at turn 3: it gives the answer away: ...`"""
    for result in found.spoilt.shown:
        told = form.cut(safe(spoilt_of(result) or ""), 2 * form.room)
        name = form.cut(safe(result.id), LONGEST_ID)
        gap = "  " if form.symbols else ": "
        row = (
            *mark("!", form),
            Piece(name + gap),
            Piece("spoilt by its user, not counted", "warn"),
            Piece(f": {told}"),
        )
        yield from paragraph(row, form)
    if found.spoilt.left:
        yield (*mark("!", form), Piece(f"and {found.spoilt.left:,} more were spoilt", "quiet"))
    if found.spoilt.number:
        yield EMPTY


def _errors(run: Run, found: Found, form: Form, traceback: str | None) -> Iterator[Line]:
    """Equal errors once, with their number."""
    for disabled in run.run.given_up:
        text = f"{safe(disabled.target)}: {form.cut(safe(disabled.message), 4 * form.room)}"
        yield from paragraph(line(("error: ", "fail"), text), form)
        yield EMPTY
    told = {disabled.message for disabled in run.run.given_up}
    for message, group in found.errors.alike.items():
        if not any(one in message for one in told):
            yield from _alike(message, group, run, form)
            yield EMPTY
    if found.errors.others:
        yield line((f"and {count(found.errors.others, 'other error')}", "quiet"))
        yield EMPTY
    if traceback is not None:
        yield line((f"traceback: {safe(traceback)}", "quiet"))
        yield EMPTY


def _alike(message: str, group: Alike, run: Run, form: Form) -> Iterator[Line]:
    if group.number == 1:
        yield from write_failure(group.first, form, _on(group.first, run))
        return
    text = (
        f"{form.cut(safe(message), 4 * form.room)} in {group.number:,} of {count(run.summary.decided, 'conversation')}"
    )
    yield from paragraph(line(("error: ", "fail"), text), form)
    more = f", {form.dots}" if group.cases > len(group.ids) else ""
    yield line((f"  {form.cut(', '.join(map(safe, group.ids)), form.room - 10)}{more}", "quiet"))


def _on(result: Result, run: Run) -> str:
    column = column_of(result, run.summary)
    return f"on {safe(column)}" if column else ""


def _failures(run: Run, found: Found, form: Form) -> Iterator[Line]:
    several = bool(found.columns)
    if several or found.failed.number > SHORT_BLOCKS:
        lines = [(case.deciding, column_of(case.deciding, run.summary)) for case in found.failed.shown]
        widths = _longest((safe(result.id) for result, _ in lines), 24), _longest((safe(name) for _, name in lines), 20)
        yield from (_failure_line(result, column, widths, form) for result, column in lines)
    for case in () if several or found.failed.number > SHORT_BLOCKS else found.failed.shown:
        result = case.deciding
        if found.failed.number > BLOCKS:
            title, *block = write_failure(result, form, _after(case))
            yield title
            yield from islice((row for row in block if any(piece.role == "reason" for piece in row)), 1)
        else:
            yield from write_failure(result, form, _after(case))
            yield EMPTY
    if found.failed.left:
        yield line(f"and {found.failed.left:,} more: ", "rejoinder show --failed")
    if found.failed.number and (several or found.failed.number > BLOCKS):
        yield EMPTY


def _after(case: Tried) -> str:
    result = case.deciding
    turns = f"after {count(len(result.turns), 'turn')}"
    return f"trial {result.trial} of {case.trials}, {turns}" if case.trials > 1 else f"failed {turns}"


def _longest(texts: Iterable[str], most: int) -> int:
    return min(most, max(map(columns_of, texts), default=0))


def _failure_line(result: Result, column: str, widths: tuple[int, int], form: Form) -> Line:
    """`✗ refund  terse  icontains "receipt": not in the reply  < You can bring it back.`"""
    found = against(result)[:1]
    why = next((safe(": ".join(filter(None, (one.where, one.what, one.why)))) for one in found), "")
    decided = found[0].turn if found and found[0].turn is not None else result.turns[-1] if result.turns else None
    last = None if decided is None else decided.response
    reply = "" if last is None else safe(last[:PARAGRAPH]) or "(empty reply)"
    if not form.symbols:
        where = f" on {safe(column)}" if column else ""
        replied = f"; replied: {form.cut(reply, 0)}" if reply else ""
        denied = None if decided is None else not_allowed(decided)
        replied += f"; {safe(denied)}" if denied else ""
        return (*mark("✗", form), Piece(f"{safe(result.id)}{where}: {form.cut(why, 0)}{replied}"))
    name = form.cut(safe(result.id), widths[0]).ljust(widths[0])
    where = f"  {form.cut(safe(column), widths[1]).ljust(widths[1])}" if column else ""
    start = (*mark("✗", form), Piece(name), Piece(where, "quiet"), Piece("  "))
    room = max(10, form.room - width_of_line(start))
    shown = Piece(form.cut(why, room), "reason")
    left = room - columns_of(shown.text) - 4
    return (*start, shown, *([Piece(f"  < {form.cut(reply, left)}", "quiet")] if left >= LEAST_REPLY and reply else []))


_STRIP: dict[str, tuple[str, str, Role]] = {
    "passed": ("✓", ".", "pass"),
    "recovered": ("↻", "R", "recovered"),
    "failed": ("✗", "F", "fail"),
    "error": ("!", "E", "error"),
    "skipped": ("–", "s", "quiet"),
}
"""How a trial went: as a sign, as a letter, and its role."""
_SIGN = {True: "✓", False: "✗"}


def _strips(run: Run, found: Found, form: Form) -> Iterator[Line]:
    """A line for each case whose trials did not all pass, with how each went."""
    if not found.uneven.number:
        return
    from rejoinder.stats import wilson

    if found.failed.number:
        yield line(("one failing trial of each; all: ", "quiet"), "rejoinder show --failed")
        yield EMPTY
    ids = [" ".join(filter(None, (safe(case.first.id), _on(case.first, run)))) for case in found.uneven.shown]
    longest = _longest(ids, 40)
    for case, name in zip(found.uneven.shown, ids, strict=True):
        bounds = wilson(case.passed, case.finished) or (0.0, 1.0)
        ways = [_STRIP["recovered" if trial.recovered else trial.status] for trial in case.listed[:MOST_TRIALS]]
        trials = [Piece(sign if form.symbols else letter, role) for sign, letter, role in ways]
        word = "error" if case.status == "error" else "flaky" if case.passed else "failed"
        wanted = "" if case.first.needed is None else f", {case.first.needed[0]} of {case.first.needed[1]} needed"
        numbers = f"  {case.passed} of {case.finished}  {interval(bounds)}  "
        role: Role = "warn" if word == "flaky" else "fail"
        sign = (_error_mark(form), Piece(" ")) if word == "error" else mark(_SIGN[case.status == "passed"], form)
        start = (*sign, Piece(f"{form.cut(name, longest).ljust(longest)}  "))
        yield (*start, *trials, Piece(numbers, "quiet"), Piece(word, role), Piece(wanted, "quiet"))
    if found.uneven.left:
        yield line((f"and {found.uneven.left:,} more", "quiet"))
    if found.steady:
        others = count(found.steady, "other" if found.columns else "other case")
        yield (*mark("✓", form), Piece(f"{others}, every trial passed", "quiet"))
    yield EMPTY


def _facts(run: Run, form: Form) -> Iterator[Line]:
    """Suite, target, cases, time, tokens, cost and run. Tokens leave first if there is too little room."""
    receipt, summary = run.run, run.summary
    suites = ", ".join(dict.fromkeys(safe(suite.title) for suite in receipt.suites))
    targets = list(summary.by_target) or [target.name for target in receipt.targets]
    on = [Piece(" on "), Piece(safe(targets[0]), "name")] if len(targets) == 1 else []
    on += [Piece(f", {safe(name)}") for name in summary.by_variant if len(summary.by_variant) == 1]
    cases = str(receipt.chosen or "") or count(summary.cases or summary.by_case.total, "case")
    cost = _cost(summary, receipt.budget)
    parts = [
        cases,
        seconds(summary.duration_s),
        _about(summary) + tokens(summary.total_tokens, whole=not form.symbols),
        *([cost] if cost else []),
        f"run {receipt.id[-SHORTEST_NAME:] if form.symbols else receipt.id}",
    ]
    for kept in (parts, [part for place, part in enumerate(parts) if place != 2], [parts[0], parts[-1]]):
        row = (Piece(suites, "name"), *on, Piece(", " + ", ".join(kept), "quiet"))
        if form.edge is None or width_of_line(row) <= form.edge:
            break
    yield from paragraph(row, form)


def _cost(summary: Summary, budget: BudgetUse | None) -> str | None:
    if summary.total_cost is None:
        return "no price" if summary.unpriced else None
    parts = [("judges", summary.judge_cost), ("users", summary.user_cost)]
    inner = ", ".join(f"{who} {money(cost)}" for who, cost in parts if cost)
    judges = f" ({inner})" if inner else ""
    of = f" of {money(budget.usd)}" if budget is not None and budget.usd is not None else ""
    return f"{_about(summary)}{money(summary.total_cost)}{of}{judges}"


def _about(summary: Summary) -> str:
    """Before what was estimated, because a service did not count."""
    used = (summary.usage, summary.judge_usage, summary.user_usage)
    return "about " if any(usage.approximate for usage in used) else ""


def _notes(run: Run, form: Form, extras: Extras) -> Iterator[Line]:
    """What has to be known about the result, directly above it; all figures together say it already."""
    receipt, summary = run.run, run.summary
    for text in () if extras.figures else _warned(run):
        yield from paragraph((*mark("!", form), Piece(text, "warn")), form)
    quiet: list[str] = []
    if not extras.figures:
        quiet += spoilt_words(summary.spoilt)
        quiet += confirmed_words(summary)
        quiet += [quarantine_words(case) for case in summary.quarantined[:MOST_QUARANTINED]]
        quiet += [text for text in (unpriced_words(summary),) if text]
        quiet += [f"{receipt.asked_again:,} asked again after an error"] if receipt.asked_again else []
        quiet += [budget_words(receipt.budget)] if receipt.budget is not None and receipt.budget.reached else []
        quiet += map(limit_words, receipt.limits)
        quiet += cache_notes(receipt.from_cache)
    if extras.corrected:
        quiet += map(corrected_words_of, summary.judges)
    for text in quiet:
        yield from paragraph(line((safe(text), "quiet")), form)


def _warned(run: Run) -> Iterator[str]:
    receipt, summary = run.run, run.summary
    judged: dict[str, tuple[int, int]] = {}
    for judge in summary.judges:
        if judge.is_untested:
            passed, of = judged.get(judge.model or judge.target, (0, 0))
            judged[judge.model or judge.target] = passed + judge.passed, of + judge.judged
    for name, (passed, of) in islice(judged.items(), MOST_JUDGES):
        told = f"{passed:,} of {of:,} first replies passed"
        yield f"uncalibrated judge: {safe(name)} was never tested against people's labels; {told}"
    if receipt.judges_itself:
        yield JUDGED_ITSELF
    if receipt.in_doubt:
        yield doubt_words(receipt.in_doubt)
    yield from map(safe, stale_words(receipt.stale or ()))


_EARLY = {"interrupted": "interrupted", "budget": "budget reached", "killed": "killed", "running": "still running"}
"""Some conversations of these may have begun."""


def _result(run: Run, found: Found, form: Form) -> Iterator[Line]:
    """The verdict in a line: what failed first, and the rate at its right edge if there is an honest one."""
    receipt, summary = run.run, run.summary
    early = _EARLY.get(receipt.status)
    if not summary.passed and not summary.failed and summary.errors:
        said = [Piece(f"nothing was tested: {count(summary.errors, 'error')}", "fail")]
        if left := _left(run):
            said.append(Piece(f", {left} of {summary.decided:,}", "quiet"))
        yield from _with_rate((_error_mark(form), Piece(" "), *said), line(("no rate", "quiet")), form)
        return
    unmeasured = summary.spoilt.cases if summary.spoilt is not None else 0
    if unmeasured and not summary.finished:
        said = (
            Piece(f"nothing was measured: {count(summary.total - summary.decided, 'conversation')} spoilt", "fail"),
        )
        yield from _with_rate((_error_mark(form), Piece(" "), *said), line(("no rate", "quiet")), form)
        return
    if summary.by_case.failed and not early:  # some trials may fail
        parts = list(mark("✗", form))
    elif early:
        parts = [*mark("!", form), Piece(f"{early}: ", "warned")]
    else:
        parts = [_error_mark(form), Piece(" ")] if summary.errors or unmeasured else list(mark("✓", form))
    if summary.has_repeats and not found.columns:
        parts += _by_case(summary, found)
        if left := _left(run, " trials"):
            parts.append(Piece(f", {left}", "quiet"))
    else:
        parts += _counted(run)
    if unmeasured:
        parts.append(Piece(f", {count(unmeasured, 'case')} not measured", "fail"))
    yield from _with_rate(tuple(parts), _rate(run, form), form)


def _error_mark(form: Form) -> Piece:
    return Piece("!" if form.symbols else "ERROR", "error")


def _with_rate(left: Line, right: Line, form: Form) -> Iterator[Line]:
    if form.edge is not None:
        yield from beside(left, right, form.edge)
    else:
        yield (*left, *([Piece(", ")] if right else []), *right)


def _left(run: Run, what: str = "") -> str:
    """`7 not started`: the conversations that the run did not come to; empty if there are none."""
    left = run.summary.skipped + max(0, run.summary.unfinished)
    return f"{left:,}{what} not {'finished' if run.run.status in _EARLY else 'started'}" if left else ""


def _counted(run: Run) -> list[Piece]:
    summary = run.summary
    listed: list[Piece] = []
    if summary.failed:
        listed.append(Piece(f"{summary.failed:,} failed", "fail"))
    if summary.errors:
        listed.append(Piece(count(summary.errors, "error"), "fail"))
    if summary.passed:
        listed.append(Piece(f"{summary.passed:,} passed", "pass"))
    if left := _left(run):
        listed.append(Piece(left, "quiet"))
    pieces = [piece for one in listed for piece in (Piece(", "), one)][1:]
    pieces.append(Piece(f" of {summary.decided:,}"))
    worse = {name: one.failed + one.errors for name, one in groups_of(summary).items() if one.failed + one.errors}
    if worse:
        named = [f"{safe(name)} {number:,}" for name, number in islice(worse.items(), MOST_WORSE)]
        more = [f"and {len(worse) - MOST_WORSE:,} more"] if len(worse) > MOST_WORSE else []
        pieces.append(Piece(f": {', '.join([*named, *more])}", "quiet"))
    elif summary.recovered:
        pieces += [
            Piece(f" ({summary.passed_at_once:,} first try, ", "quiet"),
            Piece(f"{summary.recovered:,} recovered", "recovered"),
            Piece(")", "quiet"),
        ]
    return pieces


def _by_case(summary: Summary, found: Found) -> list[Piece]:
    """`3 of 12 cases failed (1 always, 2 flaky), 2 had errors, 7 passed (1 flaky)`."""
    cases, of = summary.by_case, f" of {count(summary.by_case.total, 'case')}"
    kinds = f" ({found.always:,} always, {cases.failed - found.always:,} flaky)"
    told: list[tuple[int, str, Role, str]] = [
        (cases.failed, "failed", "fail", kinds),
        (cases.errors, "had errors", "fail", ""),
        (cases.passed, "passed", "pass", f" ({found.flaky:,} flaky)" if found.flaky else ""),
    ]
    pieces: list[Piece] = []
    for number, word, role, more in told:
        if number:
            gap = [Piece(", ")] if pieces else []
            pieces += [*gap, Piece(f"{number:,}{'' if pieces else of} {word}", role), Piece(more, "quiet")]
    return pieces


def _rate(run: Run, form: Form) -> Line:
    """The rate, or why there is none."""
    from rejoinder.stats import percent, without_errors_words

    summary, rates = run.summary, run.summary.rates
    tested = without_errors_words(summary.without_errors)
    if _EARLY.get(run.run.status) or summary.unfinished > 0:
        return line((f"of {summary.finished:,}, no rate yet" if form.symbols else "no rate yet", "quiet"))
    if run.run.reported.fail_fast and summary.skipped:
        return line(("stopped at the first failure: no rate", "quiet"))
    if summary.errors and 2 * summary.errors > summary.finished:
        return line((f"no rate: {summary.errors:,} of {summary.finished:,} had an error", "quiet"))
    if by_condition := condition_rates(summary):
        return line((by_condition, "quiet"))
    if rates is None or rates.eventual.rate is None or rates.eventual.interval is None or summary.finished < 2:
        return EMPTY
    if summary.has_repeats and summary.recovery:  # the table has it
        return line((tested, "quiet")) if tested else EMPTY
    rate = percent(rates.eventual.rate, rates.eventual.cases, rates.eventual.interval)
    only = f" of the {summary.finished:,} that did not pass before" if run.run.reported.failed_from is not None else ""
    trials, bounds = " of trials" if summary.has_repeats else "", bounds_words(summary.spoilt)
    notes = f"{bounds and f', {bounds}'}{tested and f'; {tested}'}"
    shown = f"{trials} ({interval(rates.eventual.interval)}){only}{notes}"
    return line((rate, "name"), (shown, "quiet"))
