"""A run in a notebook: its board and its failures as a piece of HTML, without scripts, links and outside resources.

Notebooks are light or dark, and say so in different ways. So texts have the notebook's own colour, and only marks and
bars have colours, which are visible on both. Without styles, as on sites that remove them, the words remain.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from rejoinder.report.failure import explain
from rejoinder.report.page.marks import PARTS, counts_of, mark, outcome_bar
from rejoinder.report.page.markup import Child, Markup, element, table, verbatim
from rejoinder.report.styled import cut
from rejoinder.views.board import BoardRow
from rejoinder.views.cases import Run, Tried, name_of, tried_cases
from rejoinder.views.reasons import first_reason
from rejoinder.views.rows import why_of
from rejoinder.views.run import view_run
from rejoinder.words.numbers import count, figure

MOST_ROWS, MOST_FAILURES, MOST_NOTES = 20, 10, 5
LONGEST_NAME, LONGEST_TEXT = 120, 2_000
_STYLE = """
.rejoinder-run { font: 14px/1.5 system-ui, sans-serif; max-width: 60rem; color: inherit; }
.rejoinder-run .headline { font-size: 1.25em; font-weight: 600; margin: .25em 0 .5em; }
.rejoinder-run table { border-collapse: collapse; width: 100%; margin: 0 0 .75em; color: inherit; }
.rejoinder-run th, .rejoinder-run td { text-align: left; padding: .3em .8em .3em 0; border: 0; background: none;
  border-bottom: 1px solid rgba(128, 128, 128, .35); vertical-align: top; color: inherit;
  overflow-wrap: anywhere; font-size: 14px; }
.rejoinder-run th:first-child { min-width: 6rem; } .rejoinder-run th:nth-child(3) { min-width: 7rem; }
.rejoinder-run th:nth-child(4) { min-width: 10rem; }
.rejoinder-run th { font-weight: 400; opacity: .75; }
.rejoinder-run .bar { display: block; width: 100%; min-width: 8rem; height: 10px; margin: .35em 0; }
.rejoinder-run .counts { white-space: nowrap; margin-right: .9em; }
.rejoinder-run .seg.first { fill: #2f8f4e; } .rejoinder-run .mark.first { color: #2f8f4e; }
.rejoinder-run .seg.rec { fill: #3b82c4; } .rejoinder-run .mark.rec { color: #3b82c4; }
.rejoinder-run .seg.fail { fill: #d64545; } .rejoinder-run .mark.fail { color: #d64545; }
.rejoinder-run .seg.err { fill: #b7791f; } .rejoinder-run .mark.err { color: #b7791f; }
.rejoinder-run .seg.skip { fill: #8a8f98; } .rejoinder-run .mark.skip { color: #8a8f98; }
.rejoinder-run .mark::before { content: "\\25CF"; margin-right: .3em; }
.rejoinder-run .mark.rec::before { content: "\\21BB"; } .rejoinder-run .mark.fail::before { content: "\\2717"; }
.rejoinder-run .mark.err::before { content: "!"; }
.rejoinder-run details { border-bottom: 1px solid rgba(128, 128, 128, .35); padding: .3em 0; }
.rejoinder-run summary { cursor: pointer; overflow-wrap: anywhere; }
.rejoinder-run pre { white-space: pre-wrap; overflow-wrap: anywhere; margin: .4em 0 .4em 1.2em; background: none;
  color: inherit; font: 12.5px/1.5 ui-monospace, monospace; }
.rejoinder-run .quiet { opacity: .75; margin: .5em 0 0; }
"""


def write_fragment(run: Run) -> str:
    """The board, notes, and the cases that did not pass. Its size is bounded."""
    view = view_run(run)
    board = view.board
    rows = [_row(row) for row in board.rows[:MOST_ROWS]]
    heads = (board.what, "conversations", "pass rate", "follow-ups")
    left = len(board.rows) - MOST_ROWS
    notes = [note.text for note in view.notes if note.warns][:MOST_NOTES]
    fragment = element(
        "div",
        {"class": "rejoinder-run"},
        verbatim("style", None, _STYLE),
        element("p", {"class": "headline"}, _short(board.headline.text, 400)),
        table(None, heads, rows),
        element("p", {"class": "quiet"}, f"and {figure(left)} more") if left > 0 else None,
        [element("p", None, _short(note, 400)) for note in notes],
        list(_failures(run)),
        element("p", {"class": "quiet"}, f"run {_short(view.receipt.id)}"),
    )
    return fragment.html


def _row(row: BoardRow) -> Markup:
    counts = counts_of(row.outcomes)
    shown = [
        element("span", {"class": "counts"}, mark(outcome), f"{words} ", element("b", None, figure(counts[outcome])))
        for outcome, words in PARTS
        if counts[outcome] or outcome in ("first", "failed")
    ]
    share: list[Child] = [element("b", None, row.share.text), f" ({row.share.bounds})"] if row.share.text else []
    listening = "" if row.listening is None else f"{row.listening.word}: {row.listening.sentence}"
    cells: list[Child] = [
        _short(row.name),
        [outcome_bar(row.outcomes), shown],
        share or _short(row.share.why),
        _short(listening, 400),
    ]
    return element("tr", None, [element("td", {"dir": "auto"}, cell) for cell in cells])


def _failures(run: Run) -> Iterator[Markup]:
    """The first cases that failed or had an error, with why and the last exchange."""
    cases = (case for case in tried_cases(run) if case.status in ("failed", "error"))
    yield from (_failure(case, run) for case in islice(cases, MOST_FAILURES))
    if left := sum(1 for _ in cases):
        words = f"and {count(left, 'more case')} that did not pass"
        yield element("p", {"class": "quiet"}, words)


def _failure(case: Tried, run: Run) -> Markup:
    result = case.deciding
    why = why_of(result, first_reason(result))
    text = explain(result)
    return element(
        "details",
        None,
        element(
            "summary",
            None,
            mark("error" if result.status == "error" else "failed"),
            element("b", {"dir": "auto"}, _short(name_of(result, run))),
            f" {case.counted}: " if case.trials > 1 else " ",
            element("span", {"dir": "auto"}, _short(why, 200)),
        ),
        element("pre", {"dir": "auto"}, text if len(text) <= LONGEST_TEXT else f"{text[:LONGEST_TEXT]}..."),
    )


def _short(text: str, most: int = LONGEST_NAME) -> str:
    return cut(text, most)
