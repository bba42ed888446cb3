"""The top of a page of two runs: the verdict in words, what differs, and a table of figures, as HTML. Figures are those
of the comparison; nothing is computed here.

It is an overview as `overview.py` has it, with `.hero.versus` (`.hero-num` with `h1` and `.say`, and a list of both
runs), `.notes`, and a panel with `table.figures` (`td.num`, `td.word.worse`) and what could have been seen (`.note`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rejoinder.model.comparisons import ComparedRun, RunComparison
from rejoinder.model.figures import Comparison, Delta, NetRecoveryDifference
from rejoinder.report.page.markup import Markup, element, table
from rejoinder.report.page.overview import note_list
from rejoinder.report.page.panels import Panel, panels
from rejoinder.views.facts import names_of
from rejoinder.words.numbers import count, money_alike, number_words, p_number, point_range, points, seconds_alike, when
from rejoinder.words.runs import short_run

MOST_ROWS = 6
"""Targets, variants or conditions on the first screen."""


def comparison_overview(
    found: RunComparison, prefix: str = "#", why: Markup | None = None, acts: Markup | None = None
) -> Markup:
    """How B differs from A: the verdict in words, rates with their differences, cost, time and tokens. `prefix` begins
    the addresses of the application; `why`: the reasons of failures in B; `acts`: what can be done with the runs."""
    from rejoinder.report.comparison import page_words

    title, told = page_words(found)
    return element(
        "section",
        {"id": "overview", "class": "overview", "aria-labelledby": "h-run"},
        element(
            "div",
            {"class": "hero versus"},
            element(
                "div",
                {"class": "hero-num"},
                element("h1", {"id": "h-run", "dir": "auto"}, f"{title}."),
                element("p", {"class": "say", "dir": "auto"}, told),
            ),
            element("dl", None, [_compared(name, run) for name, run in (("A", found.a), ("B", found.b))]),
            acts,
        ),
        _each_target(found),
        note_list(list(_compared_notes(found))),
        why,
        panels([_figures(found)], prefix),
    )


def _each_target(found: RunComparison) -> Markup | None:
    """A row for each of several targets, variants or conditions; the panel of all figures has every row."""
    rows = [_rate_row(one.name, one.eventual) for one in found.each[:MOST_ROWS]]
    if len(rows) < 2:
        return None
    left = len(found.each) - len(rows)
    more = element("p", {"class": "about"}, f"{left:,} more below, in all figures.") if left else None
    return element("div", {"class": "each"}, table("figures sides", ("Final pass rate", *_HEADS[1:]), rows), more)


def window_title_of_both(found: RunComparison, title: str) -> str:
    """`Cannot tell, 1 broke, 4 fixed: service-desk`, for the window or the tab of a browser."""
    from rejoinder.report.comparison import short_verdict

    return f"{short_verdict(found)}: {title}"


def _compared(letter: str, run: ComparedRun) -> Markup:
    parts = [", ".join(run.suites), f"on {names_of(run.targets) or 'no target'}"]
    parts += [f"({names_of(run.variants)})"] if run.variants else []
    told = [" ".join(parts), count(run.conversations, "conversation"), when(run.started_at)]
    told += [f"{run.skipped:,} skipped and left out"] if run.skipped else []
    told += [f"{run.unfinished:,} unfinished"] if run.unfinished else []
    told += [run.status] if run.status != "completed" else []
    name = element("b", {"class": "mono", "title": run.run}, short_run(run.run))
    return element(
        "div",
        None,
        element("dt", None, letter),
        element("dd", None, name, " ", ", ".join(filter(None, told))),
    )


def _compared_notes(found: RunComparison) -> Iterator[str]:
    if found.changed:
        yield f"differs: {', '.join(found.changed)}"
    if found.chosen is not None:
        chosen, other = ("A", "B") if found.chosen == "a" else ("B", "A")
        yield f"{chosen} has only cases that failed in {other}: some pass by chance. Run all cases to compare."
    if found.edited:
        yield f"{count(found.edited, 'matched case')} with another question or other checks"
    for words, names in (("only in A", found.only_in_a), ("only in B", found.only_in_b)):
        if names:
            yield f"{words}: {count(len(names), 'case')}"
    if found.renamed:
        yield f"renamed and compared: {count(len(found.renamed), 'case')}"
    if found.left_out:
        yield f"not begun in one of them: {count(len(found.left_out), 'case')}"


_VERDICTS = {
    "better": "better",
    "worse": "worse",
    "no-difference": "no difference",
    "cannot-tell": "cannot tell",
    "too-few": "too few to tell",
}
_HEADS = ("", "A", "B", "Difference", "95%", "mid-p", "")


def _figures(found: RunComparison) -> Panel:
    rows: list[Markup] = []
    for name, eventual, first_try, net in ((_behind(one.name), *one[1:]) for one in found.each):
        rows += [_rate_row(f"First try{name}", first_try), _rate_row(f"Final pass rate{name}", eventual)]
        rows += [_net_row(f"Net recovery{name}", net)] if net is not None and net.difference is not None else []
    rows += _delta_row("Cost per case", found.cost, "$")
    rows += _delta_row("Time per reply", found.latency_s, "s")
    rows += _delta_row("Tokens per case", found.tokens)
    power = [element("p", {"class": "note", "dir": "auto"}, words) for words in _power(found)]
    return Panel("figures", "All figures", [table("figures sides", _HEADS, rows), power])


def _power(found: RunComparison) -> Iterator[str]:
    """What could have been seen, if nothing was."""
    from rejoinder.words.figures import power_words, unmeasured_words

    for name, eventual, first_try, _ in ((_behind(one.name), *one[1:]) for one in found.each):
        rates = {"Final pass rate": eventual}
        if eventual != first_try:
            rates = {"First try": first_try, **rates}
        yield from (f"{label}{name}: {words}." for label, rate in rates.items() if (words := power_words(rate)))
        if words := unmeasured_words(eventual):
            yield f"Final pass rate{name}: {words}."


def _behind(name: str) -> str:
    """A group's name behind a label."""
    return f", {name}" if name else ""


def _row(label: str, cells: Sequence[str], verdict: str = "") -> Markup:
    *figures, word = cells
    return element(
        "tr",
        None,
        element("th", {"scope": "row", "dir": "auto"}, label),
        [element("td", {"class": "num"}, figure) for figure in figures],
        element("td", {"class": f"word {verdict}".rstrip()}, word),
    )


def _rate_row(label: str, found: Comparison) -> Markup:
    from rejoinder.words.figures import hidden_words, side_counts, side_words, verdict_words

    if found.difference is None or found.interval is None or found.p_value is None:
        return _row(label, ["no rate", "no rate", "", "", "", _VERDICTS["cannot-tell"]])
    counts = [side_counts(found, side) for side in (0, 1)]
    sides = [f"{side_words(found, side)}{f' ({told})' if told else ''}" for side, told in enumerate(counts)]
    if hidden_words(found):
        return _row(label, [*sides, "", "", "", verdict_words(found)], found.verdict)
    p = p_number(found.p_value) + ("" if found.p_holm is None else f" (Holm {p_number(found.p_holm)})")
    return _row(
        label,
        [*sides, points(found.difference), point_range(found.interval), p, verdict_words(found)],
        found.verdict,
    )


def _net_row(label: str, net: NetRecoveryDifference) -> Markup:
    from rejoinder.words.figures import gain_words

    sides = [gain_words(net.a), gain_words(net.b)]
    of = f" of {count(net.cases, 'case')} that failed in both"
    difference = "" if net.difference is None or net.interval is None else f"{points(net.difference)}{of}"
    bounds = "" if net.interval is None else point_range(net.interval)
    return _row(label, [*sides, difference, bounds, "", _VERDICTS[net.verdict]], net.verdict)


def _delta_row(label: str, found: Delta, unit: str = "") -> list[Markup]:
    """Nothing if it is not known of both."""
    if found.a is None or found.b is None or not (found.a or found.b):
        return []
    from rejoinder.words.figures import change_words, typical_words

    both = found.a, found.b
    alike = {"$": money_alike, "s": seconds_alike}.get(unit)
    shown = [number_words(value) for value in both] if alike is None else alike(*both)
    return [_row(label, [*shown, change_words(found), "", "", typical_words(found)])]
