"""The list of runs on a terminal and as CSV, and the trend of a suite."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from shlex import quote

from msgspec import Struct

from rejoinder.model.history import Page, RowFigures, RunRow, Trend, seconds_of
from rejoinder.report.styled import EMPTY, Form, Line, Role, command_rows, line, paragraph, safe
from rejoinder.report.tables import Column, write_table
from rejoinder.words.figures import lost_words, of_trials, passed_words, trials_words, verdicts_words
from rejoinder.words.numbers import age, count, money, percent, shortened
from rejoinder.words.runs import id_end

LONGEST_SUITES = 40
LONGEST_NOTE = 200
_STEPS = "▁▂▃▄▅▆▇"
_DIGITS = "1234567"
_OUTCOMES: dict[str, Role] = {"passed": "pass", "failed": "reason", "error": "reason", "damaged": "reason"}
"""Roles of how runs ended; all others are warnings."""


class _Column(Struct, frozen=True):
    title: str
    cell: Callable[[RunRow, Page, Form], Line]
    right: bool = False
    leaves: int = 0
    """Which column goes first where a line is too long; 0 stays."""


def write_runs(page: Page, form: Form, now: float) -> Iterator[Line]:
    """The rows of a page as a table, what was left out, and the trend. `now`: seconds since 1970, for the runs' age."""
    if not page.rows:
        yield line(_nothing(page))
        return
    titles, *rows = write_table(_columns(page, form, now), form)
    yield titles
    for row, shown in zip(page.rows, rows, strict=True):
        yield shown
        if row.changed:
            yield from paragraph(line((f"  changed: {safe('; '.join(row.changed))}", "quiet")), form)
        if row.note:
            yield from paragraph(line((f"  note: {safe(shortened(row.note, LONGEST_NOTE))}", "quiet")), form)
    rest = page.total - len(page.rows)
    if rest:
        more = f"{count(rest, 'other run')} of {page.total:,}; --limit and --offset show them"
        yield from paragraph(line((more, "quiet")), form)
    if page.trend is not None:
        yield EMPTY
        yield from paragraph(write_trend(page.trend, form), form)
    if form.commands and page.last is not None:
        yield EMPTY
        yield from command_rows((_next(page),), form.edge)


def _columns(page: Page, form: Form, now: float) -> list[Column]:
    ages = Column(title="age", cells=[line((_age(row, now), "quiet")) for row in page.rows])
    columns = [
        Column(
            title=column.title,
            cells=[column.cell(row, page, form) for row in page.rows],
            right=column.right,
            leaves=column.leaves,
        )
        for column in _COLUMNS
    ]
    return [*columns[:-1], ages, columns[-1]]


def _next(page: Page) -> tuple[str, str]:
    """A command for the latest run, and what it does."""
    names = {name: run for run, every in page.baselines.items() for name in every if run != page.last}
    if not names:
        return "rejoinder show last", "the latest run"
    name = "main" if "main" in names else min(names)
    return f"rejoinder compare {quote(name)} last", f"what changed since {name}"


def _nothing(page: Page) -> str:
    if not page.known:
        return "no runs yet; start one with `rejoinder run`"
    if page.total:
        return f"no runs there: --offset is past the last of {page.total:,}"
    return f"no run matches; there are {page.known:,} in all" if page.known > 1 else "the only run does not match"


def _name(row: RunRow, page: Page, form: Form) -> Line:
    """The id, whose end is enough where no other run has the same, and the names of the run."""
    end = id_end(row.id)
    start = row.id.removesuffix(end)
    if form.symbols and end not in page.shared:
        start = ""
    last = ["last"] if row.id == page.last else []
    names = [*last, *page.baselines.get(row.id, ())]
    beside = "".join(f" {safe(name)}" for name in names)
    return line((safe(start), "quiet" if form.symbols else "text"), (safe(end), "name"), beside)


def _suites(row: RunRow, _page: Page, _form: Form) -> Line:
    return line(safe(shortened(", ".join(row.suites), LONGEST_SUITES)))


def _passed(row: RunRow, _page: Page, _form: Form) -> Line:
    counted = _counted(row)
    if counted is None or not counted.passed + counted.failed:
        return EMPTY
    return line(passed_words(counted))


def _counted(row: RunRow) -> RowFigures | None:
    """The figures of a run that has ended: those of an earlier end do not hold any more."""
    return None if row.is_going else row.summary


def _rate(row: RunRow, _page: Page, _form: Form) -> Line:
    if row.rate is not None:
        return line((percent(row.rate, 0), "name"), ("" if row.summary is None else of_trials(row.summary), "quiet"))
    counted = _counted(row)
    return line(("-", "quiet")) if counted is not None and counted.no_rate in ("untested", "errors") else EMPTY


def _recovered(row: RunRow, _page: Page, _form: Form) -> Line:
    counted = _counted(row)
    if counted is None or not counted.recovered:
        return EMPTY
    return line((trials_words(counted.recovered, counted), "recovered"))


def _listening(row: RunRow, _page: Page, _form: Form) -> Line:
    counted = _counted(row)
    return EMPTY if counted is None else line(safe(verdicts_words(counted.listening, counted.listeners)))


def _cost(row: RunRow, _page: Page, _form: Form) -> Line:
    counted = _counted(row)
    if counted is None or (counted.total_cost is None and not row.models):  # a script has no price, and needs none
        return EMPTY
    return line((money(counted.total_cost), "quiet"))


def _age(row: RunRow, now: float) -> str:
    started = seconds_of(row.started_at)
    if started is None:
        return ""
    return age(now - started)


def _status(row: RunRow, _page: Page, form: Form) -> Line:
    source = f" (grades of {safe(row.grade_of)})" if row.grade_of else ""
    source += f" (replay of {safe(row.replay_of)})" if row.replay_of else ""
    source += f" (fork of {safe(row.fork_of)})" if row.fork_of is not None else ""
    tags = "".join(f" #{tag}" for tag in row.tags)
    came_to = _came_to(row)
    if form.is_narrow and not (row.is_going or row.is_completed):
        came_to = came_to.partition(",")[0]
    return line((came_to, _OUTCOMES.get(row.outcome, "warn")), (source, "quiet"), tags)


def _came_to(row: RunRow) -> str:
    counted, begun = row.summary, row.begun
    if begun is not None and row.planned is not None:
        return f"{row.status}, {begun:,} of {row.planned:,} begun"
    if row.outcome == "passed" or counted is None:
        return row.outcome if row.planned is None or counted is not None else f"{row.status}, {row.planned:,} planned"
    parts = [] if row.is_completed else [_STATUS_WORDS.get(row.status, row.status)]
    if row.is_completed:
        parts += lost_words(counted)
        parts += [f"{trials_words(counted.skipped, counted)} skipped"] if counted.skipped else []
    parts += [f"{counted.unfinished:,} left"] if counted.unfinished else []
    return ", ".join(parts) or row.outcome


_STATUS_WORDS = {"budget": "budget reached", "error": "stopped by an error"}
_COLUMNS = (
    _Column("run", _name),
    _Column("suite", _suites),
    _Column("passed", _passed, right=True),
    _Column("rate", _rate, right=True, leaves=4),
    _Column("recovered", _recovered, right=True, leaves=1),
    _Column("does it listen?", _listening, leaves=2),
    _Column("cost", _cost, right=True, leaves=3),
    _Column("status", _status),
)


def write_trend(trend: Trend, form: Form) -> Line:
    """The rates from the lowest to the highest, as a chart of one line; as digits where no symbols are wanted."""
    low, high = min(trend.rates), max(trend.rates)
    steps = _STEPS if form.symbols else _DIGITS
    marks = "".join(steps[_step(rate, low, high)] for rate in trend.rates)
    least, most, last = (percent(rate, 0) for rate in (low, high, trend.rates[-1]))
    range_words = f"always {least}" if low == high else f"{least} to {most}, last {last}"
    shown = "" if len(trend.rates) == trend.runs else f", the last {len(trend.rates)}"
    name = safe(shortened(trend.suite, LONGEST_SUITES * 2))
    return line(
        (name, "name"), (f", {count(trend.runs, 'run')}{shown}  ", "quiet"), marks, (f"  {range_words}", "quiet")
    )


def _step(rate: float, low: float, high: float) -> int:
    return round((rate - low) / (high - low) * (len(_STEPS) - 1)) if high > low else len(_STEPS) // 2
