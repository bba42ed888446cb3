"""The top of a page: what a run came to, as HTML. Figures are those of the summary; nothing is computed here. That of
two runs is in `comparison.py`.

An overview is `<section id="overview" class="overview">`. The script hides it while a conversation is open, and follows
its links to addresses of the application. Inside of a run's stand, in this order: `.hero` (`.hero-num` with the one
large number and `.say`, `.hero-bar` with the `svg.bar` of outcomes and its `.legend` of links, `.facts`), `.notes`,
`.charts` (a `.panel` each, a `.net` below the recovery), `.gridpanel`, `.judges`. A damaged run has `.damaged` with
`ul.wrong`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from rejoinder.model import Receipt, Summary
from rejoinder.model.figures import Rate
from rejoinder.model.runs import JudgeSummary, TargetSummary
from rejoinder.report.found import groups_of
from rejoinder.report.page.charts import conditions_chart, groups_chart, recovery_chart
from rejoinder.report.page.grid import MARKS, Grid, mark
from rejoinder.report.page.markup import NOTHING, Child, Markup, element, sentence
from rejoinder.report.page.rows import RowOutcome
from rejoinder.report.runs import Run
from rejoinder.report.summary import (
    JUDGED_ITSELF,
    MOST_QUARANTINED,
    bounds_words,
    budget_words,
    cache_notes,
    condition_rates,
    confirmed_words,
    doubt_words,
    fault_words,
    is_only_doubted,
    limit_words,
    quarantine_words,
    spoilt_words,
    stale_words,
    unpriced_words,
)
from rejoinder.report.words import capital, count, money, seconds, shortened

MOST_JUDGES = 50
MOST_NAMED = 20
LONGEST_CHECK = 200
LEAST_PART = 3
"""Of a thousand: parts of the bar are never so narrow that they cannot be seen."""


def title_of(receipt: Receipt) -> str:
    """What a run is called: its suites."""
    return title_of_suites(suite.title for suite in receipt.suites)


def title_of_suites(titles: Iterable[str]) -> str:
    names = list(dict.fromkeys(titles))
    return " + ".join(names) if len(names) < 4 else f"{len(names)} suites"


def run_overview(run: Run, grid: Grid, prefix: str = "#", notes: Iterable[str] = ()) -> Markup:
    """What a run came to. `prefix` stands before the addresses of the application; `notes` are told before all
    others."""
    return element(
        "section",
        {"id": "overview", "class": "overview", "aria-labelledby": "h-run"},
        element("div", {"class": "hero"}, _number(run), _bar(run.summary, prefix), _facts(run)),
        note_list([*notes, *notes_of(run)]),
        _charts(run),
        _grid(grid, prefix) if grid.tells_more else None,
        _judges(run.summary.judges),
    )


# The number, and what it means


def shown_rate(run: Run) -> Rate | None:
    """The pass rate, if there is an honest one."""
    summary = run.summary
    stopped = run.run.reported.fail_fast and summary.skipped > 0
    rates = summary.rates
    if rates is None or rates.eventual.rate is None or not summary.has_rate or summary.unfinished > 0 or stopped:
        return None
    return None if run.run.status in _EARLY else rates.eventual


def _number(run: Run) -> Markup:
    rate, summary = shown_rate(run), run.summary
    if rate is not None and rate.rate is not None:
        from rejoinder.stats import percent

        number: list[Child] = [percent(rate.rate, rate.cases, rate.interval).removesuffix("%"), _small(" %")]
    else:
        number = [figure(summary.passed), _small(f" of {figure(summary.finished)}")]
    return element(
        "div",
        {"class": "hero-num"},
        element(
            "h1",
            {"id": "h-run"},
            element("span", {"class": "big"}, number),
            " ",
            element("span", {"class": "sr"}, "passed"),
        ),
        element("p", {"class": "say"}, [[words, " "] for words in _sentences(run, rate)]),
    )


def _small(words: str) -> Markup:
    return element("small", None, words)


_EARLY = {
    "interrupted": "The run was interrupted",
    "budget": "The budget was reached",
    "killed": "The run was killed",
    "running": "The run is still going on",
    "error": "The run ended with an error",
}


def _sentences(run: Run, rate: Rate | None) -> Iterator[Child]:
    from rejoinder.stats import without_errors_words

    summary, status = run.summary, run.run.status
    if not summary.passed and not summary.failed and summary.errors:
        yield f"Nothing was tested: {count(summary.errors, 'error')}."
        return
    counted = element("strong", None, f"{figure(summary.passed)} of {figure(summary.finished)}")
    groups = groups_of(summary)
    what = "targets" if len(summary.by_target) > 1 else "variants"
    yield [counted, f" conversations passed{f' on {len(groups)} {what}' if groups else ''}."]
    if rate is not None and rate.interval is not None:
        yield f"With 95 % confidence the rate is between {_ends(rate)}."
        if rate.cases != rate.of:
            yield f"They are trials of {count(rate.cases, 'case')}, which the interval takes into account."
        if bounds := bounds_words(summary.spoilt):
            yield f"It would be {bounds}."
    else:
        yield from _no_rate(run)
    if failed_from := run.run.reported.failed_from:
        yield f"Only what did not pass in {failed_from} was run."
    if status in _EARLY:
        yield f"{_EARLY[status]}: {figure(summary.finished)} of {figure(run.run.planned)} conversations have ended."
    if summary.errors:
        verb = "counts" if summary.errors == 1 else "count"
        tested = without_errors_words(summary.without_errors)
        beside = f": {tested} passed" if tested else ""
        yield f"{figure(summary.errors)} ended in an error and {verb} as not passed{beside}."


def _ends(rate: Rate) -> str:
    from rejoinder.stats import rate_words

    low, _, high = rate_words(rate).partition("(")[2].removesuffix(")").partition(" to ")
    return f"{low} % and {high} %"


def _no_rate(run: Run) -> Iterator[str]:
    """Why there is no rate."""
    summary = run.summary
    if 2 * summary.errors > summary.finished:
        yield "There is no rate, because more than half had an error."
    elif run.run.reported.fail_fast and summary.skipped:
        yield "It stopped at the first failure, so there is no rate."
    elif len(groups_of(summary)) > 1:
        yield "They have no common rate: each has its own below."
    elif by_condition := condition_rates(summary):
        yield f"The ways in which tasks were put have no common rate: {by_condition}."
    elif run.run.status in _EARLY or summary.unfinished > 0:
        yield "There is no rate yet."


# Outcomes


_PARTS: tuple[tuple[RowOutcome, str], ...] = (
    ("first", "First try"),
    ("recovered", "Recovered"),
    ("failed", "Failed"),
    ("error", "Errors"),
    ("skipped", "Not sent"),
)


def outcome_counts(summary: Summary) -> dict[RowOutcome, int]:
    """How many conversations ended in which way, of those that decide something."""
    return {
        "first": summary.passed_at_once,
        "recovered": summary.recovered,
        "failed": summary.failed,
        "error": summary.errors,
        "skipped": summary.skipped,
    }


def _bar(summary: Summary, prefix: str) -> Markup:
    """Outcomes as parts of one bar, and in words: each is a link that shows these conversations alone. The bar is not
    for keyboards and screen readers; the words below it are."""
    counts = outcome_counts(summary)
    shown = [part for part in _PARTS if counts[part[0]] or part[0] != "skipped"]
    total = max(1, sum(counts.values()))
    widths = [max(LEAST_PART, 1000 * counts[outcome] // total) if counts[outcome] else 0 for outcome, _ in shown]
    scale, start = 1000 / max(1, sum(widths)), 0.0
    parts: list[Markup] = []
    for (outcome, _), width in zip(shown, widths, strict=True):
        if width:
            place = {"x": f"{start:.1f}", "width": f"{max(1.0, width * scale - 2):.1f}", "y": 0, "height": 12}
            part = element("rect", {"class": f"seg {MARKS[outcome]}", **place})
            parts.append(element("a", {"href": f"{prefix}/?show={outcome}", "tabindex": -1}, part))
        start += width * scale
    bar = {"class": "bar", "viewBox": "0 0 1000 12", "preserveAspectRatio": "none", "aria-hidden": "true"}
    legend = [
        element(
            "li",
            None,
            element(
                "a",
                {"href": f"{prefix}/?show={outcome}"},
                mark(outcome),
                f"{label} ",
                element("strong", None, figure(counts[outcome])),
            ),
        )
        for outcome, label in shown
    ]
    return element("div", {"class": "hero-bar"}, element("svg", bar, parts), element("ul", {"class": "legend"}, legend))


# Facts and notes


def _facts(run: Run) -> Markup:
    receipt, summary = run.run, run.summary
    targets = list(summary.by_target) or [target.name for target in receipt.targets]
    about = "about " if summary.usage.approximate or summary.judge_usage.approximate else ""
    facts = [
        ("Started", when(receipt.started_at)),
        ("Took", seconds(summary.duration_s)),
        ("Cases", str(receipt.chosen or figure(summary.cases or summary.by_case.total))),
        ("Tokens", about + figure(summary.total_tokens)),
        ("Cost", _cost(summary, about)),
        ("Targets" if len(targets) > 1 else "Target", names_of(targets)),
        ("Variants", names_of(list(summary.by_variant))),
    ]
    rows = [element("div", None, element("dt", None, name), element("dd", None, fact)) for name, fact in facts if fact]
    return element("dl", {"class": "facts"}, rows)


def _cost(summary: Summary, about: str) -> str:
    """Nothing where all was answered on this machine: that has no price, and costs nothing."""
    if summary.total_cost is None:
        return money(None) if summary.unpriced else ""
    return about + money(summary.total_cost)


def when(time: str | None) -> str:
    """A time of ours as people read it: `2026-11-15 16:47 UTC`."""
    return f"{time[:10]} {time[11:16]} UTC" if time else ""


def names_of(names: Sequence[str]) -> str:
    more = f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else ""
    return ", ".join(shortened(name, 80) for name in names[:MOST_NAMED]) + more


def notes_of(run: Run) -> Iterator[str]:
    """What has to be known about the figures."""
    receipt, summary = run.run, run.summary
    if receipt.origin is not None and receipt.origin.run != receipt.reported.failed_from:  # the header says that
        yield f"{receipt.origin.words}."
    for disabled in receipt.given_up:
        yield f"{disabled.target} was given up: {disabled.message}"
    uncalibrated = [judge for judge in summary.judges if judge.is_untested]
    if uncalibrated:
        judges = list(dict.fromkeys(judge.model or judge.target for judge in uncalibrated))
        were = "was" if len(judges) == 1 else "were"
        yield f"uncalibrated: {names_of(judges)} {were} never tested against people's labels (`rejoinder judge test`)"
    if receipt.judges_itself:
        yield JUDGED_ITSELF
    yield from fault_words(summary)
    yield from spoilt_words(summary.spoilt)
    yield from confirmed_words(summary)
    yield from map(quarantine_words, summary.quarantined[:MOST_QUARANTINED])
    if unpriced := unpriced_words(summary):
        yield unpriced
    if receipt.asked_again:
        yield f"{receipt.asked_again:,} asked again after an error"
    if receipt.in_doubt:
        yield doubt_words(receipt.in_doubt)
    if receipt.budget is not None and receipt.budget.reached:
        yield budget_words(receipt.budget)
    yield from map(limit_words, receipt.limits)
    yield from cache_notes(receipt.from_cache)
    yield from stale_words(receipt.stale or ())


def note_list(notes: Sequence[str]) -> Markup | None:
    shown = [element("li", {"dir": "auto"}, sentence(capital(note))) for note in notes]
    return element("ul", {"class": "notes"}, shown) if shown else None


# Charts


def _charts(run: Run) -> Markup | None:
    summary = run.summary
    groups = groups_of(summary)
    parts: list[tuple[str, Summary | TargetSummary]] = list(groups.items()) if groups else [("", summary)]
    panels: list[Markup] = []
    if any(part.recovery for _, part in parts):
        told = "Share that passed at each step, of those that got there. Line: 95 % interval."
        panels.append(_panel("Recovery", told, recovery_chart(parts), _net_notes(run, parts)))
    if any(part.by_condition for _, part in parts):
        told = "Share that passed: put whole, in one message of all pieces, or a piece a turn. Line: 95 % interval."
        panels.append(_panel("Tasks in pieces", told, conditions_chart(parts)))
    ends = ("From the first try ", _key("hollow"), " to the end ", _key("solid"), ". Line: 95 % interval of the end.")
    for title, of in (("Targets", summary.by_target), ("Variants", summary.by_variant)):
        if len(of) > 1:
            panels.append(_panel(title, ends, groups_chart(f"Pass rate by {title.lower()[:-1]}", of)))
    return element("div", {"class": "charts"}, panels) if panels else None


def _key(name: str) -> Markup:
    return element("i", {"class": f"key {name}"})


def _panel(title: str, told: Child, chart: Markup, more: Child = None) -> Markup:
    caption = element("figcaption", None, element("h2", None, title), element("p", None, told))
    return element("figure", {"class": "panel"}, caption, chart, more)


def _net_notes(run: Run, parts: Iterable[tuple[str, Summary | TargetSummary]]) -> Markup | None:
    """What answering back gained over asking afresh, in words."""
    from rejoinder.stats import net_words

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


def _grid(grid: Grid, prefix: str) -> Markup:
    what = "variants" if grid.is_of_variants else "targets"
    title = f"Cases and {what}" if len(grid.columns) > 1 else "Cases"
    return element(
        "section",
        {"class": "panel gridpanel", "id": "gridpanel", "aria-labelledby": "h-grid"},
        element(
            "div",
            {"class": "panelhead"},
            element("h2", {"id": "h-grid"}, title),
            element("p", None, grid.note()),
        ),
        element(
            "div",
            {"class": "gridwrap", "tabindex": 0, "role": "region", "aria-label": "Table of cases"},
            grid.table(prefix),
        ),
    )


# Judges


def judge_words(judge: JudgeSummary) -> str:
    """What is known of how far to believe a judge."""
    passport = judge.passport
    if passport is None:
        return "uncalibrated"
    figures = passport.figures
    parts = [f"agrees with people on {100 * figures.agreement:.0f} %"] if figures.agreement is not None else []
    parts += [f"kappa {figures.kappa:.2f}"] if figures.kappa is not None else []
    return f"{', '.join(parts) or 'tested'} ({count(passport.labels, 'label')})"


def _judges(judges: Sequence[JudgeSummary]) -> Markup | None:
    asked = [judge for judge in judges if judge.judged or judge.errors]
    if not asked:
        return None
    more = len(asked) - MOST_JUDGES
    return element(
        "section",
        {"class": "panel judges", "id": "judges", "aria-labelledby": "h-judges"},
        element(
            "div",
            {"class": "panelhead"},
            element("h2", {"id": "h-judges"}, "Judges"),
            element("p", None, "What is known of how far to believe them."),
        ),
        [_judge(judge, title) for judge, title in zip(asked, judge_titles(asked)[:MOST_JUDGES], strict=False)],
        element("p", None, f"And {count(more, 'more judge')}.") if more > 0 else None,
    )


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


def figure(number: int) -> str:
    """A number as people read it, thousands parted by a thin space."""
    return f"{number:,}".replace(",", "\u202f")
