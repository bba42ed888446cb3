"""The top of a page: what a run came to, as HTML. Figures are those of the summary; nothing is computed here. That of
two runs is in `comparison.py`.

An overview is `<section id="overview" class="overview">`. The script hides it while a conversation is open, and follows
its links to addresses of the application. Inside of a run's stand, in this order: `h1.headline`, `p.say`, `ol.board`,
`.notes` that warn, `.clusters`, and panels that take turns with the list: `#grid`, `#steps`, `#judges` and `#about`. A
damaged run has `.damaged` with `ul.wrong`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from urllib.parse import urlencode

from rejoinder.model.boards import is_only_doubted
from rejoinder.model.clusters import Cluster, ClusterKey
from rejoinder.report.page.board import board_rows, headline
from rejoinder.report.page.charts import conditions_chart, recovery_chart
from rejoinder.report.page.grid import Grid
from rejoinder.report.page.marks import counts_of
from rejoinder.report.page.markup import NOTHING, Child, Markup, element, sentence
from rejoinder.report.page.panels import Panel, panels
from rejoinder.views.board import Board, outcomes_of, rate_of
from rejoinder.views.clusters import (
    LONGEST_CLUSTER,
    MOST_CLUSTERS,
    NEW,
    ClusterRow,
    clusters_of,
    most_telling,
    shared_clusters,
    why_words,
)
from rejoinder.views.details import condition_rates, details_of, why_no_rate
from rejoinder.views.flips import SinceBaseline, since_words
from rejoinder.views.judges import JudgeRow, judge_rows
from rejoinder.views.notes import NoteKind, bounds_words
from rejoinder.views.rows import RowOutcome
from rejoinder.views.run import RunView
from rejoinder.words.figures import net_words, rate_ends, trials_passed, trials_words, without_errors_words
from rejoinder.words.numbers import capital, count, figure, plural, shortened

MOST_JUDGES = 50
LONGEST_CHECK = 200


def run_overview(
    view: RunView,
    grid: Grid,
    prefix: str = "#",
    notes: Iterable[str] = (),
    known: frozenset[ClusterKey] | None = None,
    since: SinceBaseline | None = None,
) -> Markup:
    """What a run came to. `prefix` stands before the addresses of the application; `notes` are told before all
    others; `known` are the clusters of the baseline, and `since` compares the run with it."""
    board = view.board
    above = [note.text for note in view.notes if not note.warns and note.kind in _ABOVE]
    return element(
        "section",
        {"id": "overview", "class": "overview", "aria-labelledby": "h-run"},
        headline(board),
        element("p", {"class": "say"}, [[words, " "] for words in (*_worse(view, since, prefix), *_sentences(view))]),
        board_rows(board, prefix),
        note_list([*notes, *above], [note.text for note in view.notes if note.warns]),
        why_section(view, prefix, known),
        panels(
            [
                _grid(grid, prefix, board) if grid.tells_more else None,
                _steps(view),
                _judges(judge_rows(view.summary.judges)),
                _about(view, [note.text for note in view.notes if not note.warns and note.kind not in _ABOVE]),
            ],
            prefix,
        ),
    )


_ABOVE: tuple[NoteKind, ...] = ("origin", "given-up", "spoilt", "budget")
"""Notes that stand on the first screen beside warnings; all others are below "All figures"."""


# What the headline leaves out


def _worse(view: RunView, since: SinceBaseline | None, prefix: str) -> Iterator[Child]:
    """Is it worse than before? In the viewer the words lead to both runs side by side."""
    if since is not None:
        words = element("strong", {"dir": "auto"}, sentence(f"{since_words(since)}."))
        both = {"href": f"/compare/{since.run}/{view.receipt.id}"}
        link = element("a", both, "Compare") if prefix.startswith("/") and since.run else None
        yield element("span", {"class": "since"}, words, " ", link)


def _sentences(view: RunView) -> Iterator[Child]:
    summary, rate = view.summary, rate_of(view.summary)
    if summary.no_rate == "untested":
        return
    words = f" passed, {trials_passed(summary)}" if summary.has_repeats else " conversations passed"
    if view.passed not in view.board.headline.text:
        yield [element("strong", None, view.passed), f"{words}{view.on_words}."]
    if rate is None:
        by_condition = condition_rates(summary)
        if why := why_no_rate(summary):
            yield f"{capital(why)}{by_condition and f': {by_condition}'}."
    elif rate.interval is not None:
        yield f"With 95% confidence the rate is between {rate_ends(rate).replace(' to ', '% and ')}."
        if rate.cases != rate.of:
            yield f"They are trials of {count(rate.cases, 'case')}, which the interval takes into account."
        if bounds := bounds_words(summary.spoilt):
            yield f"It would be {bounds}."
    if failed_from := view.receipt.reported.failed_from:
        yield f"Only what did not pass in {failed_from} was run."
    if summary.errors:
        verb = plural(summary.errors, "counts", "count")
        tested = without_errors_words(summary.without_errors)
        beside = f": {tested} passed" if tested else ""
        yield f"{trials_words(summary.errors, summary)} ended in an error and {verb} as not passed{beside}."


def outcome_counts(view: RunView) -> dict[RowOutcome, int]:
    """How many conversations ended in which way, of those that decide something."""
    return counts_of(outcomes_of(view.summary))


def why_section(view: RunView, prefix: str, known: frozenset[ClusterKey] | None = None) -> Markup | None:
    """Why several conversations did not pass: each reason leads to the list of them. `known`: the reasons of the
    baseline."""
    return _why(capital(why_words(view.summary)), shared_clusters(view.summary, MOST_CLUSTERS, known), prefix)


def why_of_pairs(view: RunView, prefix: str, known: frozenset[ClusterKey] | None) -> Markup | None:
    """The same of run B, and its new reasons. `known`: the reasons of run A. Pairs are not listed by tags."""
    found = clusters_of(view.summary, known)
    rows = [row for row in found if row.cluster.kind != "tag" and (row.is_new or row.number > 1)]
    return _why(f"In B, {why_words(view.summary)}", most_telling(rows, MOST_CLUSTERS), prefix)


def _why(words: str, rows: Sequence[ClusterRow], prefix: str) -> Markup | None:
    if not rows:
        return None
    links = [element("li", None, _reason(row, prefix)) for row in rows]
    title = element("h2", {"id": "h-why"}, words)
    return element(
        "section", {"class": "clusters", "aria-labelledby": "h-why"}, title, element("ul", {"class": "pills"}, links)
    )


def _reason(row: ClusterRow, prefix: str) -> Markup:
    return element(
        "a",
        {"class": "reason", "href": cluster_address(row.cluster, prefix), "title": row.words, "dir": "auto"},
        element("b", None, figure(row.number)),
        element("span", {"class": "of"}, f" {shortened(row.words, LONGEST_CLUSTER)}"),
        element("span", {"class": "new", "title": NEW}, " new") if row.is_new else None,
    )


def cluster_address(cluster: Cluster, prefix: str) -> str:
    """The list of its conversations."""
    if cluster.kind == "tag":
        filters = {"tag": cluster.key, "show": "failed"}
    else:
        filters = {"why": ClusterKey(cluster.kind, cluster.key).name}
    return f"{prefix}/?{urlencode(filters, errors='replace')}"


# Facts and notes


def _facts(view: RunView) -> Markup:
    facts = [fact for fact in view.facts.values() if fact.kind != "run"]  # the header has its id
    rows = [element("div", None, element("dt", None, one.label), element("dd", None, one.text)) for one in facts]
    return element("dl", {"class": "facts"}, rows)


def _about(view: RunView, notes: Sequence[str]) -> Panel:
    """Facts, notes that do not put the result in doubt, and all figures."""
    details = [
        element(
            "div",
            None,
            element("dt", None, capital(detail.label)),
            element("dd", {"dir": "auto"}, [element("p", None, sentence(text)) for text in detail.lines]),
        )
        for detail in details_of(view.receipt, view.summary)
    ]
    content = [_facts(view), note_list(notes), element("dl", {"class": "details"}, details)]
    return Panel("about", "All figures", content)


def note_list(notes: Sequence[str], warnings: Sequence[str] = ()) -> Markup | None:
    """Warnings stand behind other notes."""
    kinds = [*((note, None) for note in notes), *((note, "warns") for note in warnings)]
    shown = [element("li", {"class": kind, "dir": "auto"}, sentence(capital(note))) for note, kind in kinds]
    return element("ul", {"class": "notes"}, shown) if shown else None


# Charts


def _steps(view: RunView) -> Panel | None:
    """What passed at each step, and how tasks in pieces were put."""
    parts = view.parts
    figures: list[Markup] = []
    if any(part.recovery for _, part in parts):
        told = "Share that passed at each step, of those that got there. Line: 95% interval."
        figures.append(_figure("Recovery", told, recovery_chart(parts), _net_notes(view)))
    if any(part.by_condition for _, part in parts):
        told = "Share that passed: put whole, in one message of all pieces, or one piece per turn. Line: 95% interval."
        figures.append(_figure("Tasks in pieces", told, conditions_chart(parts)))
    return Panel("steps", "Steps", element("div", {"class": "charts"}, figures)) if figures else None


def _figure(title: str, told: Child, chart: Markup, more: Child = None) -> Markup:
    caption = element("figcaption", None, element("h2", None, title), element("p", None, told))
    return element("figure", None, caption, chart, more)


def _net_notes(view: RunView) -> Markup | None:
    """What answering back gained over asking afresh, in words."""
    told: list[Markup] = []
    answered = [(name, part) for name, part in view.parts if not is_only_doubted(part)]
    if not answered:
        return None
    for name, part in answered:
        net = part.net_recovery
        if net is not None and net.answered_back is not None and net.afresh is not None:
            of = f", {count(net.failures, 'failure')}"
            told.append(
                element("p", {"class": "net"}, f"{f'{name}, ' if name else ''}net recovery: {net_words(net)}{of}")
            )
    if told:
        return element("div", {"class": "nets"}, told)
    if view.receipt.reported.fork is not None:
        return None  # its first turn was not asked, and so not asked afresh either
    option = element("code", None, "control: afresh")
    return element("p", {"class": "net"}, "Net recovery is not measured: add ", option, " to the suite.")


def _grid(grid: Grid, prefix: str, board: Board) -> Panel:
    hint = element("span", {"class": "hint"}, " Press x on two cells of a case to compare them.")
    told = element("p", {"class": "note"}, grid.note(), hint if len(grid.columns) > 1 else None)
    return Panel("grid", "Grid", [told, grid.table(prefix, board)])


# Judges


def _judges(judges: Sequence[JudgeRow]) -> Panel | None:
    if not judges:
        return None
    more = len(judges) - MOST_JUDGES
    content = [
        element("p", {"class": "note"}, "How reliable each judge is."),
        [_judge(one) for one in judges[:MOST_JUDGES]],
        element("p", None, f"And {count(more, 'more judge')}.") if more > 0 else None,
    ]
    return Panel("judges", "Judges", content)


def _judge(judge: JudgeRow) -> Markup:
    return element(
        "div",
        {"class": "jrow"},
        element("p", {"dir": "auto"}, element("b", None, judge.title), " ", shortened(judge.check, LONGEST_CHECK)),
        element("span", None, ", ".join(filter(None, (f"{judge.passed} passed", judge.errors)))),
        element("span", {"class": None if judge.is_calibrated else "uncal"}, judge.reliability),
    )


# Damaged runs


def damaged_overview(run: str, wrong: Sequence[str], more: int = 0) -> Markup:
    """A run that is not what it was when it was written: what is wrong, and no figures."""
    left = element("li", None, f"and {more:,} more") if more > 0 else NOTHING
    return element(
        "section",
        {"id": "overview", "class": "overview damaged", "aria-labelledby": "h-run"},
        element(
            "div",
            {"class": "panel"},
            element("h1", {"id": "h-run"}, "This run is damaged"),
            element(
                "p",
                {"class": "say"},
                "Its files are not what they were when they were written, so no figures are shown. ",
                element("code", None, f"rejoinder verify {run}"),
                " says all that differs.",
            ),
            element("ul", {"class": "wrong"}, [element("li", {"dir": "auto"}, sentence(one)) for one in wrong], left),
        ),
    )
