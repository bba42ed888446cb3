"""The tables of the end of a run: cases by target or variant, what follow-ups gained, the figures of each group."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import TypeAlias

from rejoinder.model import Summary
from rejoinder.model.figures import Rate
from rejoinder.model.runs import TargetSummary
from rejoinder.report.found import MOST_ROWS, Cell, Found, Row, groups_of, is_smooth
from rejoinder.report.styled import EMPTY, Form, Line, Piece, Role, line, mark, safe
from rejoinder.report.summary import fault_words, is_only_doubted
from rejoinder.report.tables import WIDE_GAP, Column, write_table
from rejoinder.report.words import count, interval, money, seconds

_Figures: TypeAlias = tuple[str, str, str, str, str]
"""What it is, of how many, the rate, its interval, and a word."""
LONGEST_CASE, LONGEST_COLUMN = 28, 20
MOST_GROUPS = 50
_WAYS: dict[str, tuple[str, str, Role]] = {
    "passed": ("✓", "passed", "pass"),
    "recovered": ("↻", "recovered", "recovered"),
    "failed": ("✗ failed", "failed", "fail"),
    "error": ("! error", "error", "error"),
    "skipped": ("–", "not sent", "quiet"),
    "apart": ("apart", "apart", "quiet"),
    "spoilt": ("! spoilt", "spoilt", "warn"),
}
"""How a case went: as a sign, in words, and its role."""


def write_grid(found: Found, form: Form) -> Iterator[Line]:
    """The cases that did not pass at once everywhere, by target or variant, and what changed against the first."""
    rows = list(found.grid.items())[:MOST_ROWS]
    if len(found.columns) < 2 or not rows:
        return
    cases = Column(title="case", cells=[line(form.cut(safe(name), LONGEST_CASE)) for (_, name), _ in rows])
    ways = [
        Column(title=form.cut(safe(name), LONGEST_COLUMN), cells=[(_cell(cells.get(name), form),) for _, cells in rows])
        for name in found.columns
    ]
    remarks = Column(title="", cells=[line((_remark(cells, found), "quiet")) for _, cells in rows], leaves=1)
    if form.width is not None and sum(column.width + WIDE_GAP for column in (cases, *ways)) > form.width + WIDE_GAP:
        return  # the lines above say it as well
    yield from write_table([cases, *ways, remarks], form)
    if others := found.smooth + len(found.grid) - len(rows):
        yield line((count(others, "other case"), "quiet"))
    yield EMPTY


def _remark(cells: Row, found: Found) -> str:
    """`fixed by terse`, if there are two variants."""
    columns = found.columns
    if not found.are_variants or len(columns) != 2 or any(name not in cells for name in columns):
        return ""
    before, after = (cells[name] for name in columns)
    good = ("passed", "recovered")
    if before.way == "failed" and after.way in good:
        return f"fixed by {safe(columns[1])}"
    if before.way in good and after.way == "failed":
        return f"broken by {safe(columns[1])}"
    return "first try" if before.way == "recovered" and is_smooth([after]) else ""


def _cell(cell: Cell | None, form: Form) -> Piece:
    sign, word, role = _WAYS["skipped" if cell is None else cell.way]
    if cell is None or cell.way in ("skipped", "apart", "spoilt"):
        return Piece(sign if form.symbols else word, role)
    if cell.trials > 1:
        return Piece(f"{cell.passed} of {cell.trials}", role)
    text = sign if form.symbols else word
    return Piece(f"{text} turn {cell.turns}" if cell.way == "recovered" else text, role)


def write_recovery(summary: Summary, form: Form) -> Iterator[Line]:
    """First try, answered back, asked afresh and net recovery; recovery by hint; and what caved when it was doubted.
    Several targets have rows of their own, of the last two."""
    if summary.finished < 2:
        return
    by_target = [(safe(name), row) for name, one in groups_of(summary).items() for row in _answers(one)]
    rows = [*_recovery(summary), *_answers(summary)]
    if rows:
        yield from _rows(rows) if form.symbols else map(_sentence, rows)
    if not form.symbols:
        yield from (_sentence((f"{name}, {row[0]}", *row[1:])) for name, row in by_target)
    elif by_target:
        names = [line((form.cut(name, LONGEST_CASE), "name")) for name, _ in by_target]
        figures = [_figures(title, [row[place] for _, row in by_target]) for place, title in _TITLES.items()]
        label = Column(title="", cells=[line((row[0], "quiet")) for _, row in by_target])
        yield from write_table([Column(title="target", cells=names), label, *figures], form)


def write_faults(summary: Summary, form: Form) -> Iterator[Line]:
    """What became of the failures of tools that were wanted, and a warning of those that never landed."""
    for place, words in enumerate(fault_words(summary)):
        yield (*mark("!", form), Piece(words, "warn")) if place else line(words)


_TITLES = {1: "", 2: "", 3: "95 %"}
"""Of the figures of a row: of how many, the rate, its interval."""


def _answers(one: Summary | TargetSummary) -> Iterator[_Figures]:
    from rejoinder.stats import percent

    for hint, row in one.by_hint.items():
        bounds = "" if row.interval is None else interval(row.interval)
        rate = "" if row.rate is None else percent(row.rate, row.cases, row.interval)
        yield f"hint {hint}", f"{row.recovered:,} of {row.at_risk:,}", rate, bounds, ""
    if one.caves is not None:
        yield _rate_row("caved when doubted", one.caves)


def _recovery(summary: Summary) -> list[_Figures]:
    if summary.rates is None or not summary.recovery:
        return []
    from rejoinder.stats import net_verdict_words, percent, point_range, points

    rows: list[_Figures] = [_rate_row("first try", summary.rates.first_try)]
    if summary.has_repeats:
        rows.append(_rate_row("in the end", summary.rates.eventual))
        rows += _all_passed(summary)
    net, back = summary.net_recovery, summary.answered_back
    if net is None and (back is None or back.rate is None):
        return rows  # only right replies were answered, to doubt them
    if is_only_doubted(summary):
        rows += [] if summary.transitions is None else [_rate_row("wrong to right", summary.transitions.wrong_right)]
        return rows  # a doubt answers nothing back
    is_measured = net is not None and net.answered_back is not None and net.afresh is not None
    if not is_measured or len(summary.recovery) > 1:
        rows.append(_answered_back(summary))
    if net is not None and net.answered_back is not None and net.afresh is not None:
        of = net.failures
        once = "answered back once" if len(summary.recovery) > 1 else "answered back"
        rows.append((once, f"{round(net.answered_back * of)} of {of}", percent(net.answered_back, net.cases), "", ""))
        expected = "expected" if summary.has_repeats else ""
        rows.append(("asked afresh", f"{net.afresh * of:.3g} of {of}", percent(net.afresh, net.cases), "", expected))
        gain = "" if net.net is None or net.interval is None else points(net.net).partition(" ")[0]
        bounds = "" if net.interval is None else point_range(net.interval)
        rows.append(("net recovery", "", gain, bounds, net_verdict_words(net)))
    else:
        rows.append(("net recovery", "", "", "", "not measured (add `control: afresh`)"))
    return rows


def _answered_back(summary: Summary) -> _Figures:
    """Of the wrong replies that got a follow-up, how many were right in the end."""
    from rejoinder.stats import percent

    rate = summary.answered_back
    if rate is None or rate.rate is None:
        return "answered back", "", "no rate", "", ""
    shown = interval(rate.interval) if rate.interval is not None and not summary.has_repeats else ""
    return "answered back", f"{rate.passed:,} of {rate.of:,}", percent(rate.rate, rate.cases), shown, ""


def _all_passed(summary: Summary) -> Iterator[_Figures]:
    """The cases of which every trial passed."""
    from rejoinder.stats import percent

    every = summary.repeats.pass_hat_k if summary.repeats is not None else None
    if every is None or every.rate is None or not every.cases:
        return
    bounds = "" if every.interval is None else interval(every.interval)
    number = f"{round(every.rate * every.cases):,} of {every.cases:,}"
    yield f"all {every.k} passed", number, percent(every.rate, every.cases), bounds, ""


def _rate_row(label: str, rate: Rate) -> _Figures:
    from rejoinder.stats import percent

    if rate.rate is None:
        return label, "", "no rate", "", ""
    bounds = "" if rate.interval is None else interval(rate.interval)
    return label, f"{rate.passed:,} of {rate.of:,}", percent(rate.rate, rate.cases, rate.interval), bounds, ""


def _sentence(figures: _Figures) -> Line:
    """`net recovery: +21 points (-12 to +55), cannot tell if it listens`"""
    label, number, share, bounds, word = figures
    rate = f"{share} points" if share[:1] in ("+", "-", "0") and not share.endswith("%") else share
    behind = f"{rate} ({bounds})" if bounds else rate
    return line(f"{label}: {', '.join(filter(None, (number, behind, word)))}")


def _rows(rows: list[_Figures]) -> Iterator[Line]:
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
            Piece(f"   {(bounds or word).rjust(widths[3])}" if bounds or word else "", "quiet"),
            Piece(f"   {word}" if bounds and word else ""),
        )


def write_groups(what: str, groups: dict[str, TargetSummary], form: Form, *, has_prices: bool) -> Iterator[Line]:
    """One row for each of several targets or variants. `has_prices`: is it worth saying that a price is not known?"""
    if len(groups) < 2:
        return
    from rejoinder.stats import percent

    left, groups = len(groups) - MOST_GROUPS, dict(islice(groups.items(), MOST_GROUPS))
    each = list(groups.values())
    rates = [group.rates.eventual if group.rates is not None else None for group in each]
    shares = [
        percent(rate.rate, rate.cases, rate.interval) if rate is not None and rate.rate is not None and has_rate else ""
        for rate, has_rate in zip(rates, (group.has_rate for group in each), strict=True)
    ]
    bounds = [
        interval(group.pass_rate_interval) if share and group.pass_rate_interval else "no rate"
        for group, share in zip(each, shares, strict=True)
    ]
    times = ["" if group.duration_s is None else seconds(group.duration_s) for group in each]
    costs = ["" if group.cost is None and not has_prices else money(group.cost) for group in each]
    names = [line((form.cut(safe(name), LONGEST_CASE), "name")) for name in groups]
    yield from write_table(
        [
            Column(title=what, cells=names),
            _figures("passed", [f"{group.passed:,} of {group.total - group.skipped:,}" for group in each]),
            _figures("", shares),
            _figures("95 %", bounds),
            _figures("first try", [f"{group.first_try:,}" for group in each], leaves=3),
            _figures("cost", costs, leaves=2),
            _figures("reply", times, leaves=1),
        ],
        form,
    )
    if left > 0:
        yield line((f"and {left:,} more", "quiet"))


def write_conditions(summary: Summary, form: Form) -> Iterator[Line]:
    """Sharded tasks: a row for each way in which they were put, on each of several targets."""
    from rejoinder.stats import percent

    groups = groups_of(summary) or {"": summary}
    rows = [(name, condition, one) for name, group in groups.items() for condition, one in group.by_condition.items()]
    if not rows:
        return
    rates = [one.rate for _, _, one in rows]
    able = [one.aptitude for _, _, one in rows]
    shares = ["" if rate.rate is None else percent(rate.rate, rate.cases, rate.interval) for rate in rates]
    of_full = ["" if name == "full" or one.relative is None else f"{one.relative:.0%}" for _, name, one in rows]
    targets = [
        Column(title="target", cells=[line((form.cut(safe(name), LONGEST_CASE), "name")) for name, _, _ in rows])
    ]
    columns = [
        *(targets if len(groups) > 1 else []),
        Column(title="task put", cells=[line((name, "name")) for _, name, _ in rows]),
        _figures("passed", [f"{rate.passed:,} of {rate.of:,}" for rate in rates]),
        _figures("", shares),
        _figures("95 %", ["" if rate.interval is None else interval(rate.interval) for rate in rates]),
        _figures("of full", of_full),
    ]
    if any(able):
        columns += [
            _figures("aptitude", ["" if one is None else f"{one.aptitude:.2f}" for one in able], leaves=2),
            _figures("unreliability", ["" if one is None else f"{one.unreliability:.2f}" for one in able], leaves=2),
            _figures("repeats", ["" if one is None else f"{one.repeats:,}" for one in able], leaves=1),
        ]
    yield from write_table(columns, form)


def _figures(title: str, texts: list[str], leaves: int = 0) -> Column:
    return Column(title=title, cells=[line(text) for text in texts], right=True, leaves=leaves)
