"""The top of a page: what a run came to, as HTML. Figures are those of the summary; nothing is computed here. That of
two runs is in `comparison.py`.

An overview is `<section id="overview" class="overview">`. The script hides it while a conversation is open, and follows
its links to addresses of the application. Inside of a run's stand, in this order: `h1.headline`, `p.say`, `ol.board`,
`.notes` that warn, `.clusters`, and panels that take turns with the list: `#grid`, `#steps`, `#judges` and `#about`. A
damaged run has `.damaged` with `ul.wrong`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from urllib.parse import urlencode

from rejoinder.model import Receipt, Summary
from rejoinder.model.boards import is_only_doubted
from rejoinder.model.clusters import Cluster, ClusterKey
from rejoinder.model.runs import JudgeSummary, TargetSummary
from rejoinder.report.page.board import board_rows, headline
from rejoinder.report.page.charts import conditions_chart, recovery_chart
from rejoinder.report.page.grid import Grid
from rejoinder.report.page.marks import counts_of
from rejoinder.report.page.markup import NOTHING, Child, Markup, element, sentence
from rejoinder.report.page.panels import Panel, panels
from rejoinder.views.board import Board, board_of, outcomes_of, rate_of, share_of
from rejoinder.views.cases import Run
from rejoinder.views.clusters import LONGEST_CLUSTER, NEW, ClusterRow, clusters_of, shared_clusters, why_words
from rejoinder.views.details import condition_rates, details_of, why_no_rate
from rejoinder.views.facts import facts_of
from rejoinder.views.notes import NoteKind, bounds_words, notes_of
from rejoinder.views.rows import RowOutcome
from rejoinder.views.walk import groups_of
from rejoinder.words.figures import (
    cases_passed,
    lost_words,
    net_words,
    of_trials,
    rate_ends,
    trials_passed,
    trials_words,
    without_errors_words,
)
from rejoinder.words.numbers import (
    capital,
    coefficient,
    count,
    figure,
    plural,
    share,
    shortened,
)

MOST_JUDGES = 50
LONGEST_CHECK = 200
MOST_CLUSTERS = 6


def title_of(receipt: Receipt) -> str:
    """What a run is called: its suites."""
    return title_of_suites(suite.title for suite in receipt.suites)


def title_of_suites(titles: Iterable[str]) -> str:
    names = list(dict.fromkeys(titles))
    return " + ".join(names) if len(names) < 4 else f"{len(names)} suites"


def window_title(run: Run) -> str:
    """`3 failed, 10 of 21 passed (48%): service-desk`, for the window or the tab of a browser."""
    share, summary = share_of(run.summary.rate).text, run.summary
    passed = f"{cases_passed(summary) if summary.has_repeats else trials_passed(summary)} passed"
    rate = f" ({share}{of_trials(summary)})" if share else ""
    return f"{', '.join([*lost_words(summary), passed])}{rate}: {title_of(run.run)}"


def run_overview(
    run: Run,
    grid: Grid,
    prefix: str = "#",
    notes: Iterable[str] = (),
    known: frozenset[ClusterKey] | None = None,
) -> Markup:
    """What a run came to. `prefix` stands before the addresses of the application; `notes` are told before all
    others; `known` are the clusters of the baseline."""
    board = board_of(run.run, run.summary)
    told = list(notes_of(run.run, run.summary))
    above = [note.text for note in told if not note.warns and note.kind in _ABOVE]
    return element(
        "section",
        {"id": "overview", "class": "overview", "aria-labelledby": "h-run"},
        headline(board),
        element("p", {"class": "say"}, [[words, " "] for words in _sentences(run, board)]),
        board_rows(board, prefix),
        note_list([*notes, *above], [note.text for note in told if note.warns]),
        why_section(run.summary, prefix, known),
        panels(
            [
                _grid(grid, prefix, board) if grid.tells_more else None,
                _steps(run),
                _judges(run.summary.judges),
                _about(run, [note.text for note in told if not note.warns and note.kind not in _ABOVE]),
            ],
            prefix,
        ),
    )


_ABOVE: tuple[NoteKind, ...] = ("origin", "given-up", "spoilt", "budget")
"""Notes that stand on the first screen beside warnings; all others are below "All figures"."""


# What the headline leaves out


def _sentences(run: Run, board: Board) -> Iterator[Child]:
    summary, rate = run.summary, rate_of(run.summary)
    if summary.no_rate == "untested":
        return
    counted = cases_passed(summary) if summary.has_repeats else trials_passed(summary)
    words = f" passed, {trials_passed(summary)}" if summary.has_repeats else " conversations passed"
    if counted not in board.headline.text:
        yield [element("strong", None, counted), f"{words}{on_words(summary)}."]
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
    if failed_from := run.run.reported.failed_from:
        yield f"Only what did not pass in {failed_from} was run."
    if summary.errors:
        verb = plural(summary.errors, "counts", "count")
        tested = without_errors_words(summary.without_errors)
        beside = f": {tested} passed" if tested else ""
        yield f"{trials_words(summary.errors, summary)} ended in an error and {verb} as not passed{beside}."


def on_words(summary: Summary) -> str:
    """` on 3 targets`, ` with 2 variants`"""
    targets, variants = len(summary.by_target), len(summary.by_variant)
    of_targets = f" on {count(targets, 'target')}" if targets > 1 else ""
    return f"{of_targets} with {count(variants, 'variant')}" if variants > 1 else of_targets


def outcome_counts(summary: Summary) -> dict[RowOutcome, int]:
    """How many conversations ended in which way, of those that decide something."""
    return counts_of(outcomes_of(summary))


def why_section(summary: Summary, prefix: str, known: frozenset[ClusterKey] | None = None) -> Markup | None:
    """Why several conversations did not pass: each reason leads to the list of them. `known`: the reasons of the
    baseline."""
    return _why(capital(why_words(summary)), shared_clusters(summary, MOST_CLUSTERS, known), prefix)


def why_of_pairs(summary: Summary, prefix: str, known: frozenset[ClusterKey] | None) -> Markup | None:
    """The same of run B, and its new reasons. `known`: the reasons of run A. Pairs are not listed by tags."""
    rows = [row for row in clusters_of(summary, known) if row.cluster.kind != "tag" and (row.is_new or row.number > 1)]
    return _why(f"In B, {why_words(summary)}", rows[:MOST_CLUSTERS], prefix)


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


def _facts(run: Run) -> Markup:
    facts = [fact for fact in facts_of(run.run, run.summary) if fact.kind != "run"]  # the header has its id
    rows = [element("div", None, element("dt", None, one.label), element("dd", None, one.text)) for one in facts]
    return element("dl", {"class": "facts"}, rows)


def _about(run: Run, notes: Sequence[str]) -> Panel:
    """Facts, notes that do not put the result in doubt, and all figures."""
    details = [
        element(
            "div",
            None,
            element("dt", None, capital(detail.label)),
            element("dd", {"dir": "auto"}, [element("p", None, sentence(text)) for text in detail.lines]),
        )
        for detail in details_of(run.run, run.summary)
    ]
    content = [_facts(run), note_list(notes), element("dl", {"class": "details"}, details)]
    return Panel("about", "All figures", content)


def note_list(notes: Sequence[str], warnings: Sequence[str] = ()) -> Markup | None:
    """Warnings stand behind other notes."""
    kinds = [*((note, None) for note in notes), *((note, "warns") for note in warnings)]
    shown = [element("li", {"class": kind, "dir": "auto"}, sentence(capital(note))) for note, kind in kinds]
    return element("ul", {"class": "notes"}, shown) if shown else None


# Charts


def _steps(run: Run) -> Panel | None:
    """What passed at each step, and how tasks in pieces were put."""
    summary = run.summary
    groups = groups_of(summary)
    parts: list[tuple[str, Summary | TargetSummary]] = list(groups.items()) if groups else [("", summary)]
    figures: list[Markup] = []
    if any(part.recovery for _, part in parts):
        told = "Share that passed at each step, of those that got there. Line: 95% interval."
        figures.append(_figure("Recovery", told, recovery_chart(parts), _net_notes(run, parts)))
    if any(part.by_condition for _, part in parts):
        told = "Share that passed: put whole, in one message of all pieces, or one piece per turn. Line: 95% interval."
        figures.append(_figure("Tasks in pieces", told, conditions_chart(parts)))
    return Panel("steps", "Steps", element("div", {"class": "charts"}, figures)) if figures else None


def _figure(title: str, told: Child, chart: Markup, more: Child = None) -> Markup:
    caption = element("figcaption", None, element("h2", None, title), element("p", None, told))
    return element("figure", None, caption, chart, more)


def _net_notes(run: Run, parts: Iterable[tuple[str, Summary | TargetSummary]]) -> Markup | None:
    """What answering back gained over asking afresh, in words."""
    told: list[Markup] = []
    answered = [(name, part) for name, part in parts if not is_only_doubted(part)]
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
    if run.run.reported.fork is not None:
        return None  # its first turn was not asked, and so not asked afresh either
    option = element("code", None, "control: afresh")
    return element("p", {"class": "net"}, "Net recovery is not measured: add ", option, " to the suite.")


def _grid(grid: Grid, prefix: str, board: Board) -> Panel:
    hint = element("span", {"class": "hint"}, " Press x on two cells of a case to compare them.")
    told = element("p", {"class": "note"}, grid.note(), hint if len(grid.columns) > 1 else None)
    return Panel("grid", "Grid", [told, grid.table(prefix, board)])


# Judges


def judge_words(judge: JudgeSummary) -> str:
    """What is known of how far to believe a judge."""
    passport = judge.passport
    if passport is None:
        return "uncalibrated"
    figures = passport.figures
    parts = [f"agrees with humans on {share(figures.agreement)}"] if figures.agreement is not None else []
    parts += [f"kappa {coefficient(figures.kappa)}"] if figures.kappa is not None else []
    return f"{', '.join(parts) or 'tested'} ({count(passport.labels, 'label')})"


def _judges(judges: Sequence[JudgeSummary]) -> Panel | None:
    asked = [judge for judge in judges if judge.judged or judge.errors]
    if not asked:
        return None
    more = len(asked) - MOST_JUDGES
    content = [
        element("p", {"class": "note"}, "How reliable each judge is."),
        [_judge(*one) for one in list(zip(asked, judge_titles(asked), strict=True))[:MOST_JUDGES]],
        element("p", None, f"And {count(more, 'more judge')}.") if more > 0 else None,
    ]
    return Panel("judges", "Judges", content)


def judge_titles(judges: Sequence[JudgeSummary]) -> list[str]:
    """What judges are called beside their criteria; those that read alike, because they differ in votes or the
    threshold, with the beginning of their digests."""
    names = [", ".join(filter(None, (judge.model or judge.target, judge.name))) for judge in judges]
    alike = Counter((name, judge.check) for name, judge in zip(names, judges, strict=True))
    return [
        f"{name} ({judge.digest[:6]})" if alike[name, judge.check] > 1 else name
        for name, judge in zip(names, judges, strict=True)
    ]


def _judge(judge: JudgeSummary, title: str) -> Markup:
    errors = f", {count(judge.errors, 'error')}" if judge.errors else ""
    return element(
        "div",
        {"class": "jrow"},
        element("p", {"dir": "auto"}, element("b", None, title), " ", shortened(judge.check, LONGEST_CHECK)),
        element("span", None, f"{figure(judge.passed)} of {figure(judge.judged)} passed{errors}"),
        element("span", {"class": "uncal" if judge.passport is None else None}, judge_words(judge)),
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
