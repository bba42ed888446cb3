"""The end of a run on a terminal: recovered is a line, failed is a block, passed is a number.

The result stands last, but for what to type next. What else a run has is shown by `--verbose` and `--format json`.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import PurePath

from msgspec import Struct, field

from rejoinder.model import Result, Summary
from rejoinder.model.figures import NetRecovery, Rate
from rejoinder.model.runs import TargetSummary
from rejoinder.report.failure import failed_checks, named, write_failure
from rejoinder.report.problems import columns_of
from rejoinder.report.runs import Run, Tried, tried_cases
from rejoinder.report.styled import EMPTY, WIDEST, Line, Piece, beside, command_rows, cut, fitted, line, safe, wrap
from rejoinder.report.words import Commands, count, interval, money, seconds, tokens

BLOCKS, SHORT_BLOCKS, LINES = 10, 30, 50
"""Up to so many failures are whole blocks, blocks of two rows, lines."""
MOST_RECOVERED = 10
MOST_STRIPS = 30
MOST_ROWS = 20
"""Cases of a grid, and errors of different words."""
MOST_IDS = 5
"""Cases that are named where many ended in the same error."""


class _Alike(Struct):
    """Errors of the same words."""

    first: Tried
    ids: list[str]
    number: int = 0


class _Found(Struct):
    """What is shown of the cases of a run, and how many there are."""

    recovered: list[Result] = field(default_factory=list[Result])
    failed: list[Tried] = field(default_factory=list[Tried])
    flaky: list[Tried] = field(default_factory=list[Tried])
    alike: dict[str, _Alike] = field(default_factory=dict[str, _Alike])
    """Errors by their words."""
    other_errors: int = 0
    """Those beyond `MOST_ROWS` different ones."""
    recoveries: int = 0
    failures: int = 0
    flakies: int = 0
    grid: dict[tuple[str, str], dict[str, Piece]] = field(default_factory=dict[tuple[str, str], dict[str, Piece]])
    """Of each case, how it went on each of several targets."""
    smooth: int = 0
    """Cases that passed at once everywhere."""


def write_ending(run: Run, commands: Commands, width: int) -> Iterator[Line]:
    width = min(width, WIDEST)
    return (fitted(row, width) for row in _screen(run, commands, width))


def write_result(run: Run, commands: Commands, width: int) -> Iterator[Line]:
    """The result and what to type next, and nothing else."""
    width = min(width, WIDEST)
    return (fitted(row, width) for row in (*_result(run, _look(run), width), *command_rows(commands, width)))


def _screen(run: Run, commands: Commands, width: int) -> Iterator[Line]:
    found = _look(run)
    yield from _recovered(found, width)
    yield from _errors(run, found, width)
    yield from _failures(run, found, width)
    yield from _strips(found)
    yield from _grid(run.summary, found, width)
    yield from _facts(run, width)
    yield from _table(run.summary)
    yield from _targets(run.summary.by_target, width)
    yield EMPTY
    yield from _warnings(run, width)
    yield from _result(run, found, width)
    yield from command_rows(commands, width)


def _look(run: Run) -> _Found:
    found = _Found()
    several = len(run.summary.by_target) > 1
    for case in tried_cases(run):
        if several:
            _place(found, case, len(run.summary.by_target))
        if case.status == "passed" and case.trials == 1 and case.first.recovered:
            found.recoveries += 1
            if len(found.recovered) < MOST_RECOVERED:
                found.recovered.append(case.first)
        if case.trials > 1 and case.status != "apart" and case.passed < case.finished:
            found.flakies += 1
            if len(found.flaky) < MOST_STRIPS:
                found.flaky.append(case)
        if case.status == "error" and case.deciding.error is not None:
            _add_error(found, case, case.deciding.error.message)
        if case.status == "failed":
            found.failures += 1
            if len(found.failed) < LINES:
                found.failed.append(case)
    return found


def _add_error(found: _Found, case: Tried, message: str) -> None:
    if message not in found.alike and len(found.alike) >= MOST_ROWS:
        found.other_errors += 1
        return
    group = found.alike.setdefault(message, _Alike(case, []))
    group.number += 1
    if len(group.ids) < MOST_IDS:
        group.ids.append(safe(case.first.id))


def _place(found: _Found, case: Tried, targets: int) -> None:
    """A cell of the grid. A row is dropped as soon as it is whole and says nothing."""
    key = case.first.case_file, case.first.id
    row = found.grid.setdefault(key, {})
    row[case.first.target] = _cell(case)
    if len(row) == targets and all(cell == _SMOOTH for cell in row.values()):
        del found.grid[key]
        found.smooth += 1


def _recovered(found: _Found, width: int) -> Iterator[Line]:
    ids = [safe(result.id) for result in found.recovered]
    longest = min(32, max(map(columns_of, ids), default=0))
    for result, name in zip(found.recovered, ids, strict=True):
        first = next((check for check in result.turns[0].checks if not check.passed), None)
        why = "" if first is None else f"  after {named(first)} failed"
        start = line(
            ("↻", "recovered"), f" {cut(name, longest).ljust(longest)}  ", (f"turn {len(result.turns)}", "recovered")
        )
        room = width - sum(columns_of(piece.text) for piece in start)
        yield (*start, Piece(cut(why, max(8, room)), "quiet"))
    if found.recoveries > len(found.recovered):
        yield line(("↻", "recovered"), (f" and {found.recoveries - len(found.recovered):,} more", "quiet"))
    if found.recovered:
        yield EMPTY


def _errors(run: Run, found: _Found, width: int) -> Iterator[Line]:
    """Equal errors once, with their number."""
    planned = run.summary.decided
    for disabled in run.run.given_up:
        text = f"{safe(disabled.target)}: {safe(disabled.message)}"
        yield from wrap(line(("error: ", "fail"), text), width, 2)
        yield EMPTY
    told = {disabled.message for disabled in run.run.given_up}
    for message, group in found.alike.items():
        if any(one in message for one in told):
            continue
        if group.number == 1:
            yield from write_failure(group.first.deciding, width, "error")
        else:
            text = f"{safe(message)} in {group.number:,} of {count(planned, 'conversation')}"
            yield from wrap(line(("error: ", "fail"), text), width, 2)
            more = ", …" if group.number > len(group.ids) else ""
            yield line((f"  {cut(', '.join(group.ids), width - 10)}{more}", "quiet"))
        yield EMPTY
    if found.other_errors:
        yield line((f"and {count(found.other_errors, 'other error')}", "quiet"))
        yield EMPTY


def _failures(run: Run, found: _Found, width: int) -> Iterator[Line]:
    several = len(run.summary.by_target) > 1
    for case in found.failed:
        result = case.deciding
        if several or found.failures > SHORT_BLOCKS:
            yield _failure_line(result, width, several=several)
        elif found.failures > BLOCKS:
            block = list(write_failure(result, width, _after(case)))
            reply = next((row for row in block if row and row[0].text == "  < "), None)
            yield block[0]
            yield next((row for row in block[1:] if len(row) > 1 and row[1].role == "reason"), reply or EMPTY)
        else:
            yield from write_failure(result, width, _after(case))
            yield EMPTY
    left = found.failures - len(found.failed)
    if left:
        yield line(f"and {left:,} more: ", "rejoinder show --failed")
    if found.failed and (several or found.failures > BLOCKS):
        yield EMPTY


def _after(case: Tried) -> str:
    result = case.deciding
    turns = f"after {count(len(result.turns), 'turn')}"
    return f"trial {result.trial} of {case.trials}, {turns}" if case.trials > 1 else f"failed {turns}"


def _failure_line(result: Result, width: int, *, several: bool) -> Line:
    where = f"  {cut(safe(result.target), 20)}" if several else ""
    checks = failed_checks(result)
    why = f"{named(checks[0])}: {safe(checks[0].reason)}" if checks else ""
    start = line(("✗", "fail"), f" {cut(safe(result.id), 24).ljust(12)}", (where, "quiet"), "  ")
    room = max(10, width - sum(columns_of(piece.text) for piece in start))
    return (*start, Piece(cut(why, room), "reason"))


_STRIP = {
    "passed": Piece("✓", "pass"),
    "recovered": Piece("↻", "recovered"),
    "failed": Piece("✗", "fail"),
    "error": Piece("!", "error"),
    "skipped": Piece("–", "quiet"),
}


def _strips(found: _Found) -> Iterator[Line]:
    """A line for each case whose trials did not all pass, with how each went."""
    if not found.flaky:
        return
    from rejoinder.stats import wilson

    ids = [safe(case.first.id) for case in found.flaky]
    longest = min(32, max(map(columns_of, ids)))
    for case, name in zip(found.flaky, ids, strict=True):
        bounds = wilson(case.passed, case.finished) or (0.0, 1.0)
        mark = Piece("✓", "pass") if case.status == "passed" else Piece("✗", "fail")
        trials = [_STRIP["recovered" if trial.recovered else trial.status] for trial in case.listed[:20]]
        word = "failed" if not case.passed else "flaky"
        wanted = "" if case.first.needed is None else f", {case.first.needed[0]} of {case.first.needed[1]} needed"
        numbers = f"  {case.passed} of {case.finished}  {interval(bounds)}  "
        role = "fail" if not case.passed else "warn"
        start = (mark, Piece(f" {cut(name, longest).ljust(longest)}  "))
        yield (*start, *trials, Piece(numbers, "quiet"), Piece(word, role), Piece(wanted, "quiet"))
    if found.flakies > len(found.flaky):
        yield line((f"and {found.flakies - len(found.flaky):,} more", "quiet"))
    yield EMPTY


def _grid(summary: Summary, found: _Found, width: int) -> Iterator[Line]:
    """The cases that did not pass at once everywhere, by target."""
    targets = list(summary.by_target)
    if len(targets) < 2 or not found.grid:
        return
    room = max(8, (width - 20) // len(targets) - 2)
    names = [cut(safe(name), room) for name in targets]
    sizes = [max(columns_of(name), 9) for name in names]
    if 20 + sum(sizes) + 2 * len(sizes) > width:
        return
    head = [Piece(f"  {name.ljust(size)}", "quiet") for name, size in zip(names, sizes, strict=True)]
    yield _trimmed([Piece("case".ljust(18), "quiet"), *head])
    for (_, name), cells in list(found.grid.items())[:MOST_ROWS]:
        pieces = [Piece(cut(safe(name), 18).ljust(18))]
        for target, size in zip(targets, sizes, strict=True):
            cell = cells.get(target, Piece("–", "quiet"))
            pieces += [Piece("  "), Piece(cell.text.ljust(size), cell.role)]
        yield _trimmed(pieces)
    others = found.smooth + max(0, len(found.grid) - MOST_ROWS)
    if others:
        yield line((count(others, "other case"), "quiet"))
    yield EMPTY


def _trimmed(pieces: list[Piece]) -> Line:
    """Without blanks at its end."""
    *before, last = pieces
    return (*before, Piece(last.text.rstrip(), last.role))


_SMOOTH = Piece("✓", "pass")


def _cell(case: Tried) -> Piece:
    if case.status == "skipped":
        return Piece("–", "quiet")
    if case.status == "apart":
        return Piece("apart", "quiet")
    if case.trials > 1:
        role = "pass" if case.status == "passed" else "fail"
        return Piece(f"{case.passed} of {case.finished}", role)
    if case.status == "passed":
        return Piece(f"↻ turn {len(case.first.turns)}", "recovered") if case.first.recovered else _SMOOTH
    return Piece("! error", "error") if case.status == "error" else Piece("✗ failed", "fail")


def _facts(run: Run, width: int) -> Iterator[Line]:
    """Suite, target, cases, time, tokens, cost and run. Tokens leave first where there is too little room."""
    receipt, summary = run.run, run.summary
    suites = ", ".join(dict.fromkeys(safe(suite.name or PurePath(suite.path).name) for suite in receipt.suites))
    targets = list(summary.by_target) or [target.name for target in receipt.targets]
    on = [Piece(" on "), Piece(safe(", ".join(targets)), "name")] if len(targets) == 1 else []
    chosen = f"{receipt.chosen.cases:,} of {count(receipt.chosen.of, 'case')}" if receipt.chosen else None
    cases = chosen or count(summary.cases or summary.by_case.passed + summary.by_case.failed, "case")
    cost = _cost(summary)
    parts = [
        cases,
        seconds(summary.duration_s),
        tokens(summary.total_tokens),
        *([cost] if cost else []),
        f"run {receipt.id[-4:]}",
    ]
    for kept in (parts, [part for place, part in enumerate(parts) if place != 2], [parts[0], parts[-1]]):
        row = (Piece(suites, "name"), *on, Piece(", " + ", ".join(kept), "quiet"))
        if sum(columns_of(piece.text) for piece in row) <= width:
            break
    yield from wrap(row, width, 2)


def _cost(summary: Summary) -> str | None:
    if summary.total_cost is None:
        return "no price" if summary.unpriced else None
    judges = f" (judges {money(summary.judge_cost)})" if summary.judge_cost else ""
    return f"{money(summary.total_cost)}{judges}"


def _table(summary: Summary) -> Iterator[Line]:
    """First try, answered back, asked afresh and net recovery, where a follow-up was sent."""
    if summary.rates is None or not summary.recovery or summary.finished < 2:
        return
    from rejoinder.stats import percent, point_range, points

    rows: list[tuple[str, str, str, str, str]] = [_rate_row("first try", summary.rates.first_try)]
    if summary.has_repeats:
        rows.append(_rate_row("in the end", summary.rates.eventual))
    net, row = summary.net_recovery, summary.recovery[0]
    if net is not None and net.answered_back is not None and net.afresh is not None:
        of = net.failures
        rows.append(
            ("answered back", f"{round(net.answered_back * of)} of {of}", percent(net.answered_back, net.cases), "", "")
        )
        rows.append(("asked afresh", f"{net.afresh * of:.3g} of {of}", percent(net.afresh, net.cases), "", ""))
        gain = "" if net.net is None or net.interval is None else points(net.net).partition(" ")[0]
        rows.append(
            ("net recovery", "", gain, "" if net.interval is None else point_range(net.interval), _listens(net))
        )
    else:
        share = percent(row.recovered / row.at_risk, row.cases)
        rows.append(("answered back", f"{row.recovered} of {row.at_risk}", share, interval(row.interval), ""))
        rows.append(("net recovery", "", "", "", "not measured (control: afresh)"))
    yield from _rows(rows)


def _listens(net: NetRecovery) -> str:
    return {
        "listens": "listens",
        "cannot-tell": "cannot tell if it listens",
        "stuck": "stuck: starting over is better",
        "too-few": "too few failures to tell",
    }[net.verdict]


def _rate_row(label: str, rate: Rate) -> tuple[str, str, str, str, str]:
    from rejoinder.stats import percent

    if rate.rate is None:
        return label, "", "no rate", "", ""
    bounds = "" if rate.interval is None else interval(rate.interval)
    return label, f"{rate.passed:,} of {rate.of:,}", percent(rate.rate, rate.cases, rate.interval), bounds, ""


def _rows(rows: list[tuple[str, str, str, str, str]]) -> Iterator[Line]:
    widths = [max(len(row[column]) for row in rows) for column in range(4)]
    for label, number, share, bounds, word in rows:
        start = Piece(f"  {label.ljust(widths[0])}   ", "quiet")
        if not number and not share:  # a word instead of figures
            yield (start, Piece(word))
            continue
        yield (
            start,
            Piece(f"{number.rjust(widths[1])}   "),
            Piece(share.rjust(widths[2]), "name"),
            Piece(f"   {bounds.rjust(widths[3])}" if bounds or word else "", "quiet"),
            Piece(f"   {word}" if word else ""),
        )


def _targets(by_target: dict[str, TargetSummary], width: int) -> Iterator[Line]:
    """One row for each of several targets. Where the screen is narrow the time of a reply leaves, then the cost."""
    if len(by_target) < 2:
        return
    from rejoinder.stats import percent

    table = [("target", "passed", "", "95 %", "first try", "cost", "reply")]
    for name, target in by_target.items():
        rate = target.rates.eventual if target.rates is not None else None
        known = rate is not None and rate.rate is not None
        table.append(
            (
                cut(safe(name), 28),
                f"{target.passed:,} of {target.total - target.skipped:,}",
                percent(rate.rate, rate.cases, rate.interval) if known and rate and rate.rate is not None else "",
                interval(target.pass_rate_interval or (0.0, 0.0)) if known else "no rate",
                f"{target.first_try:,}",
                "–" if target.cost is None else money(target.cost),
                "" if target.duration_s is None else seconds(target.duration_s),
            )
        )
    kept = list(range(len(table[0])))
    for column in (6, 5, 4):
        if sum(max(columns_of(row[one]) for row in table) + 3 for one in kept) > width:
            kept.remove(column)
    widths = {column: max(columns_of(row[column]) for row in table) for column in kept}
    for place, row in enumerate(table):
        pieces = [Piece(row[0].ljust(widths[0]), "quiet" if place == 0 else "name")]
        pieces += [
            Piece(f"   {row[column].rjust(widths[column])}", "quiet" if place == 0 else "text") for column in kept[1:]
        ]
        yield tuple(pieces)


def _warnings(run: Run, width: int) -> Iterator[Line]:
    receipt, summary = run.run, run.summary
    for text in _warned(run):
        yield from wrap(line(("! ", "warn"), (text, "warn")), width, 2)
    if summary.apart:
        yield from wrap(
            line((f"in quarantine, not counted: {count(summary.apart, 'conversation')}", "quiet")), width, 2
        )
    if receipt.from_cache is not None and receipt.from_cache.answers:
        yield line((f"{count(receipt.from_cache.answers, 'answer')} from the cache", "quiet"))


def _warned(run: Run) -> Iterator[str]:
    receipt, summary = run.run, run.summary
    for judge in summary.judges[:2]:
        if judge.passport is None and judge.judged:
            name = safe(judge.model or judge.target)
            passed = f"{judge.passed:,} of {judge.judged:,} first replies passed"
            yield f"uncalibrated judge: {name} was never tested against people's labels; {passed}"
    if receipt.judges_itself:
        yield "the target judged its own replies; name another with `judge_target`"
    if receipt.in_doubt:
        cut_off = f"{count(receipt.in_doubt, 'call')} cut off before the answer was recorded"
        yield f"{cut_off}; such a call may be paid for twice"
    if receipt.stale:
        yield f"{count(len(receipt.stale), 'recording')} that no call used: {safe(receipt.stale[0])}"


_EARLY = {"interrupted": "interrupted", "budget": "budget reached"}


def _result(run: Run, found: _Found, width: int) -> Iterator[Line]:
    """The verdict in a line: what failed first, and the rate at its right edge where there is an honest one."""
    receipt, summary = run.run, run.summary
    early = _EARLY.get(receipt.status)
    if not summary.passed and not summary.failed and summary.errors:
        yield from beside(
            line(("! ", "error"), (f"nothing was tested: {count(summary.errors, 'error')}", "fail")),
            line(("no rate", "quiet")),
            width,
        )
        return
    mark = (
        ("!", "warned")
        if early or (summary.errors and not summary.failed)
        else ("✗", "fail")
        if summary.failed
        else ("✓", "pass")
    )
    parts: list[Piece] = [Piece(*mark), Piece(" ")]
    if early:
        parts.append(Piece(f"{early}: ", "warned"))
    if summary.has_repeats and len(summary.by_target) < 2:
        parts += _by_case(summary, found)
    else:
        parts += _counted(summary)
    yield from beside(tuple(parts), _rate(run), width)


def _counted(summary: Summary) -> list[Piece]:
    listed: list[Piece] = []
    if summary.failed:
        listed.append(Piece(f"{summary.failed:,} failed", "fail"))
    if summary.errors:
        listed.append(Piece(count(summary.errors, "error"), "fail"))
    if summary.passed:
        listed.append(Piece(f"{summary.passed:,} passed", "pass"))
    rest = summary.skipped + max(0, summary.unfinished)
    if rest:
        listed.append(Piece(f"{rest:,} not started", "quiet"))
    pieces = [piece for one in listed for piece in (Piece(", "), one)][1:]
    pieces.append(Piece(f" of {summary.decided:,}"))
    worse = {name: one.failed + one.errors for name, one in summary.by_target.items() if one.failed + one.errors}
    if len(summary.by_target) > 1 and worse:
        pieces.append(Piece(f": {', '.join(f'{safe(name)} {number:,}' for name, number in worse.items())}", "quiet"))
    elif summary.recovered:
        pieces += [
            Piece(f" ({summary.first_try:,} first try, ", "quiet"),
            Piece(f"{summary.recovered:,} recovered", "recovered"),
            Piece(")", "quiet"),
        ]
    return pieces


def _by_case(summary: Summary, found: _Found) -> list[Piece]:
    """`3 of 12 cases failed (1 always, 2 flaky), 9 passed (1 flaky)`."""
    cases = summary.by_case
    total = cases.passed + cases.failed
    failing = [case for case in found.flaky if case.status != "passed"]
    always = sum(not case.passed for case in failing)
    flaky = sum(case.status == "passed" for case in found.flaky)
    pieces: list[Piece] = []
    if cases.failed:
        kinds = f" ({always:,} always, {cases.failed - always:,} flaky)" if found.flakies == len(found.flaky) else ""
        pieces += [Piece(f"{cases.failed:,} of {count(total, 'case')} failed", "fail"), Piece(kinds, "quiet")]
    if cases.passed:
        text = f"{cases.passed:,} passed" if cases.failed else f"{cases.passed:,} of {count(total, 'case')} passed"
        pieces += [
            *([Piece(", ")] if pieces else []),
            Piece(text, "pass"),
            Piece(f" ({flaky:,} flaky)" if flaky else "", "quiet"),
        ]
    return pieces


def _rate(run: Run) -> Line:
    """The rate, or why there is none."""
    from rejoinder.stats import percent

    summary, rates = run.summary, run.summary.rates
    if _EARLY.get(run.run.status) or summary.unfinished > 0:
        return line((f"of {summary.finished:,}, no rate yet", "quiet"))
    if summary.errors and 2 * summary.errors > summary.finished:
        return line((f"no rate: {summary.errors:,} of {summary.finished:,} had an error", "quiet"))
    if rates is None or rates.eventual.rate is None or rates.eventual.interval is None or summary.finished < 2:
        return EMPTY
    if summary.has_repeats and summary.recovery:  # the table has it
        return EMPTY
    rate = percent(rates.eventual.rate, rates.eventual.cases, rates.eventual.interval)
    only = f" of the {summary.finished:,} that failed before" if run.run.reported.failed_from is not None else ""
    return line((rate, "name"), (f" ({interval(rates.eventual.interval)}){only}", "quiet"))
