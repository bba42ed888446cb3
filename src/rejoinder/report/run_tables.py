"""The tables of the end of a run: cases by target or variant, what follow-ups gained, the figures of each group."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeAlias

from rejoinder.model.boards import Part, Verdict, is_only_doubted
from rejoinder.model.figures import Rate
from rejoinder.report.styled import EMPTY, Form, Line, Piece, Role, line, paragraph, safe
from rejoinder.report.tables import WIDE_GAP, Column, least_width, write_table
from rejoinder.views.board import MEASURE, Board, BoardRow, rate_of
from rejoinder.views.run import RunView
from rejoinder.views.walk import Cell, Found, Row, is_smooth
from rejoinder.words.numbers import (
    coefficient,
    count,
    number_words,
    percent,
    point_range,
    points,
    rate_range,
    share,
)

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
    "spoilt": ("! invalid", "invalid", "warn"),
}
"""How a case went: as a sign, in words, and its role."""


def write_grid(found: Found, form: Form) -> Iterator[Line]:
    """The cases that did not pass at once everywhere, by target or variant, and what changed against the first."""
    rows = list(found.grid.items())
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
    if found.others:
        yield line((count(found.others, "other case"), "quiet"))
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
        is_after = cell.way == "passed" and 2 * cell.recovered > cell.passed
        return Piece(_trials(cell, form), "recovered" if is_after else role)
    text = sign if form.symbols else word
    return Piece(f"{text} turn {cell.turns}" if cell.way == "recovered" else text, role)


def _trials(cell: Cell, form: Form) -> str:
    """`5 of 5`; `↻ 5 of 5` if each of them passed after a follow-up, `5 of 5, ↻ 2` if two of them did."""
    text = f"{cell.passed} of {cell.trials}"
    if not cell.recovered:
        return text
    sign = _WAYS["recovered"][0]
    if cell.recovered == cell.passed:
        return f"{sign} {text}" if form.symbols else f"{text}, recovered"
    return f"{text}, {sign} {cell.recovered}" if form.symbols else f"{text}, {cell.recovered} recovered"


def write_recovery(view: RunView, form: Form) -> Iterator[Line]:
    """First try, answered back, asked afresh and net recovery; recovery by hint; and what caved when it was doubted.
    Several targets have rows of their own, of the last two."""
    if view.summary.finished < 2:
        return
    by_target = [(safe(name), row) for name, one in view.groups for row in _answers(one)]
    rows = [*_recovery(view), *_answers(view.summary)]
    if rows:
        yield from _rows(rows) if form.symbols else map(_sentence, rows)
    if not form.symbols:
        yield from (_sentence((f"{name}, {row[0]}", *row[1:])) for name, row in by_target)
    elif by_target:
        names = [line((form.cut(name, LONGEST_CASE), "name")) for name, _ in by_target]
        figures = [_figures(title, [row[place] for _, row in by_target]) for place, title in _TITLES.items()]
        label = Column(title="", cells=[line((row[0], "quiet")) for _, row in by_target])
        yield from write_table([Column(title="target", cells=names), label, *figures], form)


_TITLES = {1: "", 2: "", 3: "95%"}
"""Of the figures of a row: of how many, the rate, its interval."""


def _answers(one: Part) -> Iterator[_Figures]:
    for hint, row in one.by_hint.items():
        bounds = "" if row.interval is None else rate_range(row.interval)
        rate = "" if row.rate is None else percent(row.rate, row.cases, row.interval)
        yield f"hint {hint}", f"{row.recovered:,} of {row.at_risk:,}", rate, bounds, ""
    if one.caves is not None:
        yield _rate_row("caved when doubted", one.caves)


def _recovery(view: RunView) -> list[_Figures]:
    summary = view.summary
    if summary.rates is None or not summary.recovery:
        return []
    from rejoinder.words.figures import net_verdict_words

    rows = list(_tries(view, summary.rates.first_try))
    net, back = summary.net_recovery, summary.answered_back
    if net is None and (back is None or back.rate is None):
        return rows  # only right replies were answered, to doubt them
    if is_only_doubted(summary):
        rows += [] if summary.transitions is None else [_rate_row("wrong to right", summary.transitions.wrong_right)]
        return rows  # a doubt answers nothing back
    is_measured = net is not None and net.answered_back is not None and net.afresh is not None
    if not is_measured or len(summary.recovery) > 1:
        rows.append(_answered_back(view, "passed after follow-ups" if is_measured else "follow-ups fixed"))
    if net is not None and net.answered_back is not None and net.afresh is not None:
        of = net.failures
        rows.append(
            (
                "follow-ups fixed",
                f"{round(net.answered_back * of)} of {of}",
                percent(net.answered_back, net.cases),
                "",
                "",
            )
        )
        expected = "expected" if summary.has_repeats else ""
        rows.append(
            (
                "asking again fixed",
                f"{number_words(net.afresh * of)} of {of}",
                percent(net.afresh, net.cases),
                "",
                expected,
            )
        )
        gain = "" if net.net is None or net.interval is None else points(net.net).partition(" ")[0]
        bounds = "" if net.interval is None else point_range(net.interval)
        rows.append(("net recovery", "", gain, bounds, net_verdict_words(net)))
    else:
        rows.append(("net recovery", "", "", "", f"not measured ({MEASURE})"))
    if (again := summary.repeated) is not None and again.conversations:
        rows.append(("same words again", f"{again.conversations:,} of {again.of:,}", "", "", ""))
    return rows


def _tries(view: RunView, first_try: Rate) -> Iterator[_Figures]:
    """The first try, and with repeats the end. Without a pass rate these would mislead as it does."""
    rate = rate_of(view.summary)
    if rate is None:
        return
    yield _rate_row("first try", first_try)
    if view.summary.has_repeats:
        yield _rate_row("final pass rate", rate)
        yield from _all_passed(view)


def _answered_back(view: RunView, label: str) -> _Figures:
    """Of the wrong replies that got a follow-up, the number that passed after one of them. Only the first is compared
    with asking again."""
    rate = view.summary.answered_back
    if rate is None or rate.rate is None:
        return label, "", "no rate", "", ""
    shown = rate_range(rate.interval) if rate.interval is not None and not view.summary.has_repeats else ""
    return label, f"{rate.passed:,} of {rate.of:,}", percent(rate.rate, rate.cases), shown, ""


def _all_passed(view: RunView) -> Iterator[_Figures]:
    """The cases of which every trial passed."""
    repeats = view.summary.repeats
    every = repeats.pass_hat_k if repeats is not None else None
    if every is None or every.rate is None or not every.cases:
        return
    bounds = "" if every.interval is None else rate_range(every.interval)
    number = f"{round(every.rate * every.cases):,} of {every.cases:,}"
    yield f"all {every.k} passed", number, percent(every.rate, every.cases), bounds, ""


def _rate_row(label: str, rate: Rate) -> _Figures:
    if rate.rate is None:
        return label, "", "no rate", "", ""
    bounds = "" if rate.interval is None else rate_range(rate.interval)
    return label, f"{rate.passed:,} of {rate.of:,}", percent(rate.rate, rate.cases, rate.interval), bounds, ""


def _sentence(figures: _Figures) -> Line:
    """`net recovery: +21 points (-12 to +55), cannot tell if it listens`"""
    label, number, rate, bounds, word = figures
    if rate[:1] in ("+", "-", "0") and not rate.endswith("%"):
        rate = f"{rate} points"
    behind = f"{rate} ({bounds})" if bounds else rate
    return line(f"{label}: {', '.join(filter(None, (number, behind, word)))}")


def _rows(rows: list[_Figures]) -> Iterator[Line]:
    widths = [max(len(row[column]) for row in rows) for column in range(4)]
    for label, number, rate, bounds, word in rows:
        start = Piece(f"  {label.ljust(widths[0])}   ", "quiet")
        if not number and not rate:  # a word instead of figures
            yield (start, Piece(word))
            continue
        yield (
            start,
            Piece(f"{number.rjust(widths[1])}{'   ' if rate or bounds or word else ''}"),
            Piece(rate.rjust(widths[2]) if rate or bounds or word else "", "name"),
            Piece(f"   {(bounds or word).rjust(widths[3])}" if bounds or word else "", "quiet"),
            Piece(f"   {word}" if bounds and word else ""),
        )


def write_board(board: Board, form: Form) -> Iterator[Line]:
    """One row for each of several targets or variants: what passed, and whether it listens. If there is no room for the
    figures of listening, they are in a line below each row."""
    if len(board.rows) < 2:
        return
    rows = board.rows[:MOST_GROUPS]
    columns = [*_passed(board.what, rows, form), *_listening(rows), *_verdicts(rows)]
    if form.width is None or least_width(columns) <= form.width:
        yield from write_table([*columns, *_prices(rows)], form)
    else:
        head, *lines = write_table([*_passed(board.what, rows, form), *_verdicts(rows), *_prices(rows)], form)
        yield head
        for row, shown in zip(rows, lines, strict=True):
            yield shown
            yield from paragraph(line((f"  {_figures_of(row)}", "quiet")), form) if row.listening is not None else ()
    if left := len(board.rows) - len(rows):
        yield line((f"and {left:,} more", "quiet"))


def _passed(what: str, rows: Sequence[BoardRow], form: Form) -> Iterator[Column]:
    has_repeats = any(row.cases for row in rows)
    yield Column(title=what, cells=[line((form.cut(safe(row.name), LONGEST_CASE), "name")) for row in rows])
    if has_repeats:
        yield _figures("cases passed", [row.cases for row in rows])
    yield _figures("trials passed" if has_repeats else "passed", [row.passed for row in rows])
    yield _figures("", [row.share.text for row in rows])
    yield _figures("95%", [row.share.bounds or "no rate" for row in rows], leaves=5)
    yield _figures("first try", [row.first_try for row in rows], leaves=4)


def _listening(rows: Sequence[BoardRow]) -> Iterator[Column]:
    each = [row.listening for row in rows]
    yield _figures("follow-ups fixed", ["" if one is None else one.fixed for one in each])
    yield _figures("asking again", ["" if one is None else one.afresh for one in each])
    yield _figures("net", ["" if one is None else one.net_words for one in each])


def _verdicts(rows: Sequence[BoardRow]) -> Iterator[Column]:
    each = [row.listening for row in rows]
    words = [EMPTY if one is None else line((one.word, _VERDICTS[one.verdict])) for one in each]
    yield Column(title="", cells=words)


def _prices(rows: Sequence[BoardRow]) -> Iterator[Column]:
    yield _figures("same words", [row.repeated for row in rows], leaves=3)
    yield _figures("cost", [row.cost for row in rows], leaves=2)
    yield _figures("reply", [row.reply for row in rows], leaves=1)


def _figures_of(row: BoardRow) -> str:
    """`follow-ups fixed 7 of 8, asking again 0 of 8, net +88 (+20 to +100)`"""
    found = row.listening
    if found is None:
        return ""
    return ", ".join(filter(None, (found.sentence, f"net {found.net_words}" if found.net else "")))


_VERDICTS: dict[Verdict, Role] = {
    "listens": "pass",
    "stuck": "fail",
    "cannot-tell": "warn",
    "too-few": "quiet",
    "not-measured": "quiet",
}


def write_conditions(view: RunView, form: Form) -> Iterator[Line]:
    """Sharded tasks: a row for each way in which they were put, on each of several targets."""
    rows = [(name, condition, one) for name, part in view.parts for condition, one in part.by_condition.items()]
    if not rows:
        return
    rates = [one.rate for _, _, one in rows]
    able = [one.aptitude for _, _, one in rows]
    shares = ["" if rate.rate is None else percent(rate.rate, rate.cases, rate.interval) for rate in rates]
    of_full = ["" if name == "full" or one.relative is None else share(one.relative) for _, name, one in rows]
    targets = [
        Column(title="target", cells=[line((form.cut(safe(name), LONGEST_CASE), "name")) for name, _, _ in rows])
    ]
    columns = [
        *(targets if view.groups else []),
        Column(title="task put", cells=[line((name, "name")) for _, name, _ in rows]),
        _figures("passed", [f"{rate.passed:,} of {rate.of:,}" for rate in rates]),
        _figures("", shares),
        _figures("95%", ["" if rate.interval is None else rate_range(rate.interval) for rate in rates]),
        _figures("of full", of_full),
    ]
    if any(able):
        columns += [
            _figures("aptitude", ["" if one is None else coefficient(one.aptitude) for one in able], leaves=2),
            _figures(
                "unreliability", ["" if one is None else coefficient(one.unreliability) for one in able], leaves=2
            ),
            _figures("repeats", ["" if one is None else f"{one.repeats:,}" for one in able], leaves=1),
        ]
    yield from write_table(columns, form)


def _figures(title: str, texts: list[str], leaves: int = 0) -> Column:
    return Column(title=title, cells=[line(text) for text in texts], right=True, leaves=leaves)
