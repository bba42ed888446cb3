"""The board as HTML: the headline, and a row for each target, variant, or both.

`h1.headline`; `ol.board` with `li.brow` (`.nm`, `.ways` with `svg.bar` and `ul.legend`, `.verdict` with `.chip` and the
figures behind it, `.share`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from urllib.parse import urlencode

from rejoinder.model.boards import Verdict
from rejoinder.report.page.marks import PARTS, counts_of, mark, outcome_bar
from rejoinder.report.page.markup import Child, Markup, element
from rejoinder.views.board import MEASURE, Board, BoardRow
from rejoinder.views.rows import RowOutcome
from rejoinder.words.figures import VERDICT_WORDS
from rejoinder.words.numbers import figure

MOST_ROWS = 60
LONG_HEADLINE = 48
"""A headline with more characters of our own words is smaller."""
MOST_SHOWN = 4
"""Rows that are not folded. A fifth one takes hardly more room than the line that opens it."""
DENSE = 4
"""Boards with this number of rows or more take less room for each."""


def headline(board: Board) -> Markup:
    told: list[Child] = [
        element("b", {"dir": "auto"}, piece.text) if piece.is_name else piece.text for piece in board.headline.pieces
    ]
    words = sum(len(piece.text) for piece in board.headline.pieces if not piece.is_name)
    is_long = words > LONG_HEADLINE
    return element("h1", {"id": "h-run", "class": "headline long" if is_long else "headline"}, told)


def board_rows(board: Board, prefix: str) -> Markup:
    """`prefix` begins the addresses of the application."""
    is_one = len(board.rows) == 1
    rows = [_row(row, prefix, is_one=is_one) for row in board.rows[:MOST_ROWS]]
    kind = " one" if is_one else " dense" if len(board.rows) >= DENSE else ""
    shown = len(rows) if len(rows) <= MOST_SHOWN + 1 else MOST_SHOWN
    return element("ol", {"class": f"board{kind}", "id": "board"}, rows[:shown], _folded(board, rows[shown:]))


def _folded(board: Board, rows: Sequence[Markup]) -> Markup | None:
    """More rows, behind a line that opens them, so that the first failure stays on the first screen."""
    if not rows:
        return None
    left = len(board.rows) - MOST_ROWS
    more = element("li", {"class": "about"}, f"and {figure(left)} more") if left > 0 else None
    words = f"{figure(len(rows) + max(0, left))} more {'rows' if '/' in board.what else f'{board.what}s'}"
    opener = element("summary", None, words)
    return element("li", None, element("details", {"class": "rest"}, opener, element("ol", None, rows, more)))


def _row(row: BoardRow, prefix: str, *, is_one: bool) -> Markup:
    named = {} if is_one else {name: one for name, one in (("target", row.target), ("variant", row.variant)) if one}
    places: dict[RowOutcome, str] = {
        outcome: f"{prefix}/?{urlencode({'show': outcome, **named}, errors='replace')}" for outcome, _ in PARTS
    }
    return element(
        "li",
        {"class": "brow"},
        element("p", {"class": "nm", "dir": "auto"}, row.name),
        element("div", {"class": "ways"}, outcome_bar(row.outcomes, places), _legend(row, places)),
        element("div", {"class": "verdict"}, list(_verdict(row))),
        element("p", {"class": "share"}, list(_share(row))),
    )


def _legend(row: BoardRow, places: dict[RowOutcome, str]) -> Markup:
    """The number of conversations of each outcome, as links that show only these."""
    counts = counts_of(row.outcomes)
    links: list[Markup] = []
    for outcome, words in PARTS:
        if counts[outcome]:
            number = element("strong", None, figure(counts[outcome]))
            links.append(
                element("a", {"href": places[outcome]}, mark(outcome), element("span", None, f"{words} "), number)
            )
    what = element("li", {"class": "what"}, row.counted) if row.counted == "trials" else None
    return element("ul", {"class": "legend"}, [element("li", None, link) for link in links], what)


def chip(verdict: Verdict, hint: str | None = None) -> Markup:
    return element("span", {"class": f"chip v-{verdict}", "title": hint}, VERDICT_WORDS[verdict])


def _verdict(row: BoardRow) -> Iterator[Markup]:
    found = row.listening
    if found is not None:
        hint = MEASURE if found.verdict == "not-measured" else None
        yield element("p", None, chip(found.verdict, hint), f" {found.sentence}")
    net = f"net recovery {found.net_words}" if found is not None and found.net else ""
    again = f"same words in {row.repeated}" if row.repeated else ""
    if told := ", ".join(filter(None, (net, again))):
        yield element("p", {"class": "fig"}, told)


def _share(row: BoardRow) -> Iterator[Child]:
    share = row.share
    if not share.text:
        yield element("span", {"class": "none"}, share.why)
        return
    of_trials = row.counted == "trials"
    yield element("b", None, share.text)
    yield " of trials " if of_trials else " passed "
    bounds = f"passed {share.bounds}" if of_trials else share.bounds
    yield element("span", {"class": "ends", "title": "95% interval"}, bounds)
