"""`/`: the project's runs. The last one in a sentence, and a table of all of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from functools import partial
from itertools import islice
from urllib.parse import urlencode

from msgspec import Struct
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from rejoinder.calibration.measure import CANDIDATE
from rejoinder.gates.baselines import baselines_by_run
from rejoinder.model.boards import Verdict
from rejoinder.model.history import RunRow
from rejoinder.report.page.board import LONG_HEADLINE, chip
from rejoinder.report.page.charts import TrendPoint, sparkline, trend_chart
from rejoinder.report.page.marks import outcome_bar
from rejoinder.report.page.markup import Child, Markup, element, sentence, table
from rejoinder.server.desk import Desk
from rejoinder.server.errors import ApiError
from rejoinder.server.in_flight import Waiting
from rejoinder.server.listed import Listed, age, holds, listed
from rejoinder.server.pages.asked import number_asked
from rejoinder.server.pages.frame import RUNS, PageData, page
from rejoinder.server.pages.links import comparison_link
from rejoinder.server.pages.live import MOST_IN_FLIGHT
from rejoinder.suite.discover import looks_like_suite
from rejoinder.views.board import BoardRow, outcomes_of
from rejoinder.views.run import RunView
from rejoinder.words.figures import (
    error_words,
    failed_words,
    lost_words,
    of_trials,
    passed_words,
    rate_words,
    trials_words,
    verdicts_words,
)
from rejoinder.words.numbers import capital, clock, count, figure, money, percent, seconds, shortened, when

PAGE = 50
"""Runs of one page."""
MOST_CHOICES, MOST_PILLS = 40, 5
"""Suites and tags that are offered as filters, and of these as links beside each other."""
LEAST_TREND, MOST_TREND = 3, 40
LEAST_SPARK, MOST_SPARK = 2, 20
MOST_READ = 200
"""Summaries that are read for the lines of one page."""
LONGEST = 60
DONE_S = 0.1
"""The longest time to count what a running run has done."""
_FILTERS = ("suite", "status", "tag", "q")
_STATUSES = ("passed", "failed", "error", "running", "killed", "interrupted", "budget", "damaged")

Wanted = dict[str, str]


class RunsData(PageData, frozen=True, kw_only=True, tag="runs"):
    live: bool
    """True if one of the runs is running, or the first one is expected."""


def routes(desk: Desk) -> list[BaseRoute]:
    return [Route("/", partial(_show, desk), methods=["GET"])]


def _show(desk: Desk, request: Request) -> Response:
    wanted = {name: request.query_params.get(name, "")[:200] for name in _FILTERS}
    start = number_asked(request, "from", 0)
    rows = list(reversed(desk.damage.history().history.rows))
    found = [row for row in rows if _is_wanted(row, wanted)]
    found.sort(key=lambda row: not row.is_live)  # what goes on stands first
    shown = [listed(desk, row) for row in found[start : start + PAGE]]
    last = _last(desk, rows) if not start and not any(wanted.values()) else None
    main = element(
        "section",
        {"class": "overview runspage", "id": "overview"},
        last or element("h1", {"class": "headline"}, RUNS),
        _waiting(desk) if not start else None,
        _choices(rows, wanted) if rows else None,
        _trend(desk, found, wanted),
        _table(desk, shown, _lines(desk, rows, shown)) if shown else _nothing(desk, rows),
        _more(len(found), start, wanted),
    )
    return page(RUNS, main, RunsData(live=not rows or any(one.row.is_live for one in shown)))


def _is_wanted(row: RunRow, wanted: Wanted) -> bool:
    suite, status, tag, words = (wanted[name] for name in _FILTERS)
    return (
        (not suite or suite in row.suites)
        and (not status or status in (row.status, row.outcome))
        and (not tag or tag in row.tags)
        and (not words or holds(row, words))
    )


# The last run in a sentence


def _last(desk: Desk, rows: Sequence[RunRow]) -> Markup | None:
    """The run that is running, else the latest: not a fork, a re-grade or a test of a judge."""
    going = next((row for row in rows if row.is_live), None)
    if going is not None:
        return _going(desk, listed(desk, going))
    ended = (row for row in rows if not row.is_aside)
    last = next((row for row in ended if CANDIDATE not in row.targets), None)
    if last is None:
        return None
    one = listed(desk, last)
    address = f"/runs/{last.id}"
    links: list[Child] = []
    summary = None if one.view is None else one.view.summary
    if summary is not None and (summary.failed or summary.errors):
        show = "failed" if summary.failed else "error"
        links.append(element("a", {"class": "btn", "href": f"{address}?show={show}"}, "See what failed"))
    if one.view is not None:
        links.append(comparison_link(rows, last, one.view.receipt.made_of))
    head, rest = _verdict(one)
    link = element("p", {"class": "say"}, element("a", {"href": address, "dir": "auto"}, one.title))
    size = "headline long" if len(head) > LONG_HEADLINE else "headline"
    words = [
        link,
        element("h1", {"class": size}, sentence(head)),
        element("p", {"class": "say"}, sentence(rest)),
    ]
    return element("div", {"class": "last"}, element("div", None, words), element("p", {"class": "acts"}, links))


def _going(desk: Desk, one: Listed) -> Markup:
    """`Running: service-desk, 10 of 21 conversations done`"""
    done, planned = _done(desk, one.row), one.row.planned
    told = f", {figure(done)} of {count(planned, 'conversation')} done" if planned and done is not None else ""
    link = element("a", {"href": f"/runs/{one.row.id}", "dir": "auto"}, one.title)
    heading = element("h1", {"class": "headline"}, "Running: ", link, told)
    return element("div", {"class": "last going"}, heading, _in_flight(desk, one.row))


def _in_flight(desk: Desk, row: RunRow) -> Markup | None:
    """Calls that wait for an answer, as on the page of the run."""
    with suppress(ApiError):
        waiting = Waiting(desk.folder(row.id).journal).look()
        rows = [
            element(
                "li",
                None,
                element("b", {"class": "pulse running", "aria-hidden": "true"}),
                element("b", {"dir": "auto"}, shortened(one.case, LONGEST)),
                element(
                    "span",
                    {"dir": "auto"},
                    shortened(one.target + (f", trial {one.trial}" if one.trial > 1 else ""), LONGEST),
                ),
                element("span", None, f"turn {one.turn}"),
                element("span", {"class": "num"}, clock(one.age_s)),
            )
            for one in waiting[:MOST_IN_FLIGHT]
        ]
        left = len(waiting) - len(rows)
        more = element("li", None, element("span", None, f"and {figure(left)} more")) if left else None
        return element("ol", {"class": "flight", "aria-label": "In flight"}, rows, more) if rows else None
    return None


def _verdict(one: Listed) -> tuple[str, str]:
    """`atlas listens: follow-ups fixed 7 of 8, asking again 0 of 8.`, or how it ended; and then `31 of 45 passed, 13
    failed, 2 min ago.`; with repeats `69% of trials (55 to 80) passed, 7 of 10 cases (31 of 45 trials), 2 cases
    failed, 2 min ago.`"""
    if one.damage:
        return "The run is damaged.", f"It was started {age(one.row)}. {capital(one.damage)}."
    if one.view is None:
        return "The run was killed.", f"It was started {age(one.row)}. `rejoinder resume {one.row.id}` continues it."
    summary, board = one.view.summary, one.view.board
    parts = [f"{passed_words(summary)} passed"]
    if one.rate is not None:
        rate, gap, bounds = rate_words(one.rate).partition(" ")
        parts = [f"{rate}{of_trials(summary)}{gap}{bounds} passed, {passed_words(summary)}"]
    parts += [f"{trials_words(summary.recovered, summary)} after a follow-up"] if summary.recovered else []
    parts += lost_words(summary)
    planned = one.view.receipt.planned
    if one.row.is_stopped:
        parts.insert(0, f"stopped after {figure(summary.finished)} of {trials_words(planned, summary)}")
    if board.headline.text:
        return board.headline.text, f"{capital(', '.join([*parts, age(one.row)]))}."
    return f"{', '.join(parts)}.", f"Started {age(one.row)}."


def _waiting(desk: Desk) -> Markup | None:
    """Runs of the queue that have not begun."""
    entries = [one for one in desk.queue.entries() if one.is_waiting and not one.folder(desk.root).path.exists()]
    if not entries:
        return None
    shown = [
        element("li", None, element("a", {"href": f"/runs/{one.id}"}, shortened(one.title, 2 * LONGEST)))
        for one in entries[:MOST_CHOICES]
    ]
    words = f"{count(len(entries), 'run waits', 'runs wait')} to begin:"
    return element("div", {"class": "queued"}, element("p", None, words), element("ul", None, shown))


# Filters: each is an address


def _choices(rows: Sequence[RunRow], wanted: Wanted) -> Markup:
    suites = _most(name for row in rows for name in row.suites)
    tags = _most(tag for row in rows for tag in row.tags)
    statuses = [name for name in _STATUSES if any(name in (row.status, row.outcome) for row in rows)]
    groups = [("suite", "Suite", suites), ("status", "Status", statuses), ("tag", "Tag", tags)]
    shown = [_group(name, label, values, wanted) for name, label, values in groups if len(values) > 1 or wanted[name]]
    field = {"type": "search", "id": "runs-q", "value": wanted["q"], "placeholder": "Search runs", "hidden": True}
    return element(
        "div", {"class": "choices"}, shown, element("input", {**field, "aria-label": "Search runs", "class": "field"})
    )


def _most(names: Iterable[str]) -> list[str]:
    counted: dict[str, int] = {}
    for name in names:
        counted[name] = counted.get(name, 0) + 1
    return sorted(counted, key=lambda name: (-counted[name], name))[:MOST_CHOICES]


def _group(name: str, label: str, values: Sequence[str], wanted: Wanted) -> Markup:
    """A few as links; of more one is chosen, for which the script is needed."""
    if len(values) > MOST_PILLS:
        options = [
            element(
                "option",
                {"value": _address({**wanted, name: value}), "selected": wanted[name] == value},
                shortened(value, LONGEST) or f"All {label.lower()}s",
            )
            for value in ("", *values)
        ]
        return element("select", {"class": "choice", "aria-label": label}, options)
    links = [
        element(
            "a",
            {
                "class": "pill",
                "href": _address({**wanted, name: value}),
                "aria-current": "true" if wanted[name] == value else None,
            },
            shortened(value, LONGEST) or "All",
        )
        for value in ("", *values)
    ]
    return element("nav", {"class": "pills", "aria-label": label}, element("span", {"class": "label"}, label), links)


def _address(wanted: Wanted, start: int = 0) -> str:
    given = {name: value for name, value in wanted.items() if value}
    words = urlencode({**given, **({"from": start} if start else {})})
    return f"/?{words}" if words else "/"


def _more(total: int, start: int, wanted: Wanted) -> Markup | None:
    if total <= PAGE:
        return None
    newer = element("a", {"class": "btn", "href": _address(wanted, max(0, start - PAGE))}, "Newer") if start else None
    older = element("a", {"class": "btn", "href": _address(wanted, start + PAGE)}, "Older")
    told = element("span", None, f"{start + 1:,} to {min(start + PAGE, total):,} of {count(total, 'run')}")
    return element("p", {"class": "paging"}, newer, told, older if start + PAGE < total else None)


# The trend of a suite


def _trend(desk: Desk, rows: Sequence[RunRow], wanted: Wanted) -> Markup | None:
    """Of the suite that is chosen, or of the only one there is: runs that can be compared, the oldest first."""
    suites = {row.suites for row in rows if row.suites}
    if not wanted["suite"] and len(suites) != 1:
        return None
    whole = [row for row in rows if _is_whole(row)]
    alike = [row for row in whole if row.targets == whole[0].targets][:MOST_TREND]
    points = [point for row in reversed(alike) if (point := _point(listed(desk, row))) is not None]
    if len(points) < LEAST_TREND:
        return None
    of_one = all(point.interval is not None for point in points)
    what = "Pass rate" if of_one else "Lowest pass rate"
    title = f"{what} of {shortened(', '.join(rows[0].suites), LONGEST)}, {count(len(points), 'run')}"
    told = (
        "Line: 95% interval." if of_one else f"On {shortened(', '.join(whole[0].targets), LONGEST)}: the worst of each."
    )
    caption = element("figcaption", None, element("h2", None, title), element("p", {"dir": "auto"}, told))
    return element("figure", {"class": "panel"}, caption, trend_chart(title, points))


def _is_whole(row: RunRow) -> bool:
    """Whether its rates can be compared with the rates of other runs of its suites, on the same targets."""
    return row.is_whole and not row.part and row.replay_of is None


def _point(one: Listed) -> TrendPoint | None:
    """A run by its pass rate; one on several targets by the lowest of them."""
    label = when(one.row.started_at) or one.row.id
    if one.rate is not None and one.rate.rate is not None:
        trials = "" if one.view is None or not one.view.summary.has_repeats else " trials"
        value = f"{one.rate.passed:,} of {one.rate.of:,}{trials}"
        return TrendPoint(label=label, rate=one.rate.rate, value=value, interval=one.rate.interval)
    rated = [(row.rate, row) for row in _board_rows(one) if row.rate is not None]
    if len(rated) < 2:
        return None
    rate, row = min(rated, key=lambda pair: pair[0])
    return TrendPoint(label=label, rate=rate, value=f"{shortened(row.name, LONGEST)}, {row.passed}")


def _board_rows(one: Listed) -> Sequence[BoardRow]:
    return () if one.view is None else one.view.board.rows


# The table: columns without anything in them are left out


class _Column(Struct, frozen=True):
    name: str
    """Also the class of its cells."""
    head: str
    cell: Callable[[Listed], Child]


class _Line(Struct, frozen=True):
    """Pass rates of runs, the oldest first."""

    rates: list[float]
    is_lowest: bool
    """Whether each rate is the lowest of the run's targets."""


_Key = tuple[tuple[str, ...], tuple[str, ...]]
_Lines = dict[_Key, _Line]


def _key(row: RunRow) -> _Key:
    """The key of its line: runs of the same suites on the same targets share one."""
    return row.suites, row.targets


def _lines(desk: Desk, rows: Sequence[RunRow], shown: Sequence[Listed]) -> _Lines:
    """A line for each kind of the runs that are shown. Of runs on several targets summaries are read, so only of the
    latest."""
    known, found, left = {one.row.id: one for one in shown}, _Lines(), MOST_READ
    for key in dict.fromkeys(_key(one.row) for one in shown):
        alike = [row for row in rows if _key(row) == key and _is_whole(row)][:MOST_SPARK]
        rates = [row.rate for row in alike if row.rate is not None]
        is_lowest = not rates
        if is_lowest:
            left -= len(alike)
            points = (_point(known.get(row.id) or listed(desk, row)) for row in (alike if left >= 0 else ()))
            rates = [point.rate for point in points if point is not None]
        if len(rates) >= LEAST_SPARK:
            found[key] = _Line(rates[::-1], is_lowest)
    return found


def _table(desk: Desk, shown: Sequence[Listed], lines: _Lines) -> Markup:
    blessed = baselines_by_run(desk.root)
    columns = [column for column in _COLUMNS if any(column.cell(one) for one in shown)]
    heads = (element("span", {"class": "sr"}, "Compare"), "Suite", "Outcome", *(column.head for column in columns))
    latest = {_key(one.row): one.row.id for one in reversed(shown)}
    rows = [
        _row(
            desk,
            one,
            columns,
            _name(
                one,
                blessed.get(one.row.id, ()),
                lines.get(_key(one.row)) if latest[_key(one.row)] == one.row.id else None,
            ),
        )
        for one in shown
    ]
    return element(
        "div",
        {"class": "tablewrap", "tabindex": 0, "role": "region", "aria-label": "Runs"},
        table("table", heads, rows),
        element("p", {"class": "ticked", "id": "ticked", "hidden": True, "role": "status"}),
    )


def _row(desk: Desk, one: Listed, columns: Sequence[_Column], name: Child) -> Markup:
    row = one.row
    tick = {"type": "checkbox", "name": "tick", "value": row.id, "aria-label": f"Tick run {row.id}", "hidden": True}
    outcome = _state(desk, one) if one.view is None else _outcome(one.view, row)
    return element(
        "tr",
        {"data-run": row.id, "class": "live" if one.row.is_live else None},
        element("td", {"class": "tick"}, element("input", tick) if one.view is not None else None),
        element("th", {"scope": "row"}, name),
        element("td", {"class": "outcome"}, outcome),
        [element("td", {"class": column.name}, column.cell(one)) for column in columns],
    )


def _name(one: Listed, blessed: Sequence[str], line: _Line | None) -> list[Child]:
    row = one.row
    tags = [*(f"#{tag}" for tag in row.tags), *(f"baseline {name}" for name in blessed)]
    origin = None if one.view is None else one.view.receipt.origin
    made = [] if origin is None else [shortened(origin.words, LONGEST)]
    made += ["a part of the cases"] if row.part and not made else []
    targets = row.targets if one.view is None else list(one.view.summary.by_target) or row.targets
    about = ", ".join([row.id, shortened(", ".join(targets), LONGEST), *made])
    return [
        element("a", {"href": f"/runs/{row.id}", "dir": "auto"}, shortened(one.title, LONGEST)),
        [element("span", {"class": "tag"}, tag) for tag in tags],
        None if line is None else sparkline(line.rates, lowest=line.is_lowest),
        element("span", {"class": "about", "title": about, "dir": "auto"}, about),
        element("span", {"class": "about", "dir": "auto"}, shortened(row.note, 2 * LONGEST)) if row.note else None,
    ]


def _outcome(view: RunView, row: RunRow) -> list[Child]:
    """A bar, and what did not pass; failures are in their colour."""
    summary = view.summary
    failed, errors = failed_words(summary), error_words(summary)
    told = [f"{passed_words(summary)} passed", *([] if row.is_completed else [row.status])]
    return [
        outcome_bar(outcomes_of(summary)),
        element("span", {"class": "lost"}, failed, ", ") if failed else None,
        element("b", None, errors, ", ") if errors else None,
        element("span", {"class": "of"}, ", ".join(told)),
    ]


def _state(desk: Desk, one: Listed) -> list[Child]:
    row = one.row
    if one.damage:
        return [
            element("b", {"class": "mark err", "aria-hidden": "true"}),
            sentence(f" damaged: {shortened(one.damage, 120)}"),
        ]
    done = _done(desk, row)
    told = "" if done is None or not row.planned else f", {figure(done)} of {figure(row.planned)} done"
    shown = {"max": row.planned, "value": done, "aria-label": "Done"}
    bar = element("progress", shown) if row.planned and done is not None and one.row.is_live else None
    return [element("b", {"class": f"pulse {row.status}", "aria-hidden": "true"}), f" {row.status}{told}", bar]


def _done(desk: Desk, row: RunRow) -> int | None:
    """The number of conversations that have ended, as the page of the run counts them."""
    try:
        return desk.index(desk.look(row.id), DONE_S).state.rows
    except ApiError:
        return None


def _rate(one: Listed) -> Child:
    """The rate of a run, or of several targets the lowest and the highest."""
    if one.view is None:
        return None
    if one.rate is not None and one.rate.rate is not None:
        named = element("b", None, percent(one.rate.rate, one.rate.cases, one.rate.interval))
        ends = element("span", {"class": "ends"}, rate_words(one.rate).partition(" ")[2].strip("()"))
        return [named, of_trials(one.view.summary), " ", ends]
    shares = sorted((row.rate, row.share.text) for row in one.view.board.rows if row.rate is not None)
    if len(one.view.board.rows) < 2 or not shares:
        return None
    worst, best = shares[0][1], shares[-1][1]
    if worst == best:
        return ["each ", element("b", None, best)]
    return ["worst ", element("b", None, worst), ", best ", element("b", None, best)]


def _listening(one: Listed) -> Child:
    if one.view is None:
        return None
    verdicts: list[Verdict] = [row.listening.verdict for row in one.view.board.rows if row.listening is not None]
    if len(one.view.board.rows) == 1 and verdicts and verdicts[0] != "not-measured":
        return chip(verdicts[0])
    listeners = () if one.row.summary is None else one.row.summary.listeners
    return verdicts_words(verdicts, listeners) or None


def _cost(one: Listed) -> Child:
    if one.view is None or (one.view.summary.total_cost is None and not one.row.models):
        return None  # a script has no price, and needs none
    return money(one.view.summary.total_cost)


def _took(one: Listed) -> Child:
    return None if one.view is None else seconds(one.view.summary.duration_s)


def _started(one: Listed) -> Child:
    return element("span", {"title": when(one.row.started_at)}, age(one.row))


_COLUMNS = (
    _Column("rate", "Pass rate", _rate),
    _Column("listening", "Does it listen?", _listening),
    _Column("num", "Cost", _cost),
    _Column("num", "Took", _took),
    _Column("age", "Started", _started),
)


def _nothing(desk: Desk, rows: Sequence[RunRow]) -> Markup:
    if rows:
        return element("p", {"class": "empty"}, "No run is like that. ", element("a", {"href": "/"}, "Show all"))
    has_suite = any(map(looks_like_suite, islice(desk.root.glob("*.y*ml"), MOST_LOOKED_AT)))
    if has_suite:
        what, lines = "There are no runs yet. Start one in a terminal:", ["rejoinder run"]
        where: Child = "The run appears here by itself."
    else:
        what, lines = "There are no runs and no suites here yet. Begin in a terminal:", list(_BEGINNING)
        view = element("code", None, "rejoinder view")
        where = ["The run then appears in the viewer of that folder: start ", view, " there."]
    shows = "It shows how many cases passed, how many only after a follow-up, and every conversation with its checks."
    return element(
        "div",
        {"class": "begin"},
        element("p", None, what),
        element("ol", None, [element("li", None, element("code", None, line), _copy(line)) for line in lines]),
        element("p", {"class": "about"}, where, " ", shows),
    )


_BEGINNING = ("rejoinder init --local first", "cd first", "rejoinder run")
MOST_LOOKED_AT = 50
"""Files that are looked at to find out whether one is a suite."""


def _copy(text: str) -> Markup:
    """Shown by the script, which copies."""
    return element("button", {"class": "btn", "data-copy": text, "hidden": True, "aria-label": f"Copy {text}"}, "Copy")
