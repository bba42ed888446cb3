"""The list of runs on a terminal and as CSV, and the trend of a suite."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from msgspec import Struct

from rejoinder.model.history import ENDING, Page, RowFigures, RunRow, Trend, seconds_of
from rejoinder.report.problems import Style, columns_of, plain, printable
from rejoinder.report.words import command_lines, count, shortened

if TYPE_CHECKING:
    from rejoinder.report.csv import Cell

LONGEST_SUITES = 40
LONGEST_NOTE = 200
GAP = 2
_STEPS = "▁▂▃▄▅▆▇"
_DIGITS = "1234567"
_AGES = ((60, 1, "now"), (3600, 60, "min"), (86400, 3600, "h"), (float("inf"), 86400, "day"))
"""Up to so many seconds, in parts of so many, with this word."""
_OTHER_STYLES = {"passed": "fix", "failed": "error", "error": "error", "damaged": "error"}


class Form(Struct, frozen=True, kw_only=True):
    """Where a list is read."""

    now: float
    """Seconds since 1970, for the age of runs."""
    width: int | None = None
    """Columns of the terminal. Without any, all columns and whole ids are written, and no symbols."""
    style: Style = plain


class _Column(Struct, frozen=True):
    title: str
    cell: Callable[[RunRow, Page, Form], str]
    right: bool = False
    leaves: int = 0
    """Which column goes first where a line is too long; 0 stays."""


def write_runs(page: Page, form: Form) -> Iterator[str]:
    """The rows of a page as a table, what was left out, and the trend."""
    if not page.rows:
        yield _nothing(page)
        return
    columns, widths, lines = _fitting(page, form)
    yield _line([column.title for column in columns], columns, widths)
    for row, cells in zip(page.rows, lines, strict=True):
        yield _styled(_line(cells, columns, widths), cells, row, form)
        if row.note:
            yield f"  note: {printable(shortened(row.note, LONGEST_NOTE))}"
    rest = page.total - len(page.rows)
    if rest:
        yield f"{count(rest, 'other run')} of {page.total:,}; --limit and --offset show them"
    if page.trend is not None:
        yield ""
        yield write_trend(page.trend, form)
    if form.width is not None and page.last is not None:
        yield ""
        yield from command_lines([_next(page)], form.width)


def _next(page: Page) -> tuple[str, str]:
    """A command for the latest run, and what it does."""
    names = {name: run for run, every in page.baselines.items() for name in every if run != page.last}
    if not names:
        return "rejoinder show last", "the latest run"
    name = "main" if "main" in names else min(names)
    return f"rejoinder compare {_short_id(names[name], page)} last", f"what changed since {name}"


def _nothing(page: Page) -> str:
    if not page.known:
        return "no runs yet; start one with `rejoinder run`"
    if page.total:
        return f"no runs there: --offset is past the last of {page.total:,}"
    return f"no run matches; there are {page.known:,} in all" if page.known > 1 else "the only run does not match"


def _fitting(page: Page, form: Form) -> tuple[list[_Column], list[int], list[list[str]]]:
    """The columns that the terminal has room for, their widths, and the cells of each row. Columns with nothing in
    them are left out."""
    texts = {column.title: [column.cell(row, page, form) for row in page.rows] for column in _COLUMNS}
    columns = [column for column in _COLUMNS if any(texts[column.title])]
    widths = {column.title: max(map(columns_of, (column.title, *texts[column.title]))) for column in columns}
    while form.width is not None and sum(widths.values()) + GAP * (len(widths) - 1) > form.width:
        leaving = [column for column in columns if column.leaves]
        if not leaving:
            break
        first = min(leaving, key=lambda column: column.leaves)
        columns.remove(first)
        del widths[first.title]
    lines = zip(*(texts[column.title] for column in columns), strict=True)
    return columns, list(widths.values()), [list(line) for line in lines]


def _line(cells: list[str], columns: list[_Column], widths: list[int]) -> str:
    padded: list[str] = []
    for cell, column, width in zip(cells, columns, widths, strict=True):
        space = " " * (width - columns_of(cell))
        padded.append(space + cell if column.right else cell + space)
    return (" " * GAP).join(padded).rstrip()


def _styled(line: str, cells: list[str], row: RunRow, form: Form) -> str:
    """The end of the id bold, the status in its colour."""
    status = cells[-1]
    before = line.removesuffix(status)
    if form.width is not None:
        end = len(row.id) if line.startswith(row.id) else ENDING
        before = before[: end - ENDING] + form.style(before[end - ENDING : end], "place") + before[end:]
    return before + form.style(status, _OTHER_STYLES.get(row.outcome, "warning"))


def _name(row: RunRow, page: Page, form: Form) -> str:
    shown = row.id if form.width is None else _short_id(row.id, page)
    last = ["last"] if row.id == page.last else []
    return " ".join([shown, *last, *page.baselines.get(row.id, ())])


def _short_id(run: str, page: Page) -> str:
    ending = run[-ENDING:]
    return run if ending in page.shared else ending


def _suites(row: RunRow, _page: Page, _form: Form) -> str:
    return printable(shortened(", ".join(row.suites), LONGEST_SUITES))


def _passed(row: RunRow, _page: Page, _form: Form) -> str:
    counted = _counted(row)
    if counted is None or not counted.passed + counted.failed:
        return ""
    return f"{counted.passed:,} of {counted.passed + counted.failed + counted.errors:,}"


def _counted(row: RunRow) -> RowFigures | None:
    """The figures of a run that has ended: those of an earlier end do not hold any more."""
    return None if row.status in ("running", "killed") else row.summary


def _rate(row: RunRow, _page: Page, _form: Form) -> str:
    return "" if row.rate is None else percent(row.rate)


def percent(rate: float) -> str:
    """No rate is called 0 or 100 percent that is not."""
    if 0 < rate < 0.005 or 0.995 <= rate < 1:
        return "under 1%" if rate < 0.5 else "over 99%"
    return f"{rate:.0%}"


def _recovered(row: RunRow, _page: Page, _form: Form) -> str:
    counted = _counted(row)
    return "" if counted is None or not counted.recovered else f"{counted.recovered:,}"


def _cost(row: RunRow, _page: Page, _form: Form) -> str:
    counted = _counted(row)
    if counted is None or (counted.total_cost is None and not row.models):  # a script has no price, and needs none
        return ""
    return money(counted.total_cost)


def money(amount: float | None) -> str:
    if amount is None:
        return "no price"
    if amount == 0:
        return "$0"
    if amount < 0.0001:
        return "under $0.0001"
    if amount < 0.01:
        return f"${amount:.2g}"
    return f"${amount:,.2f}" if amount >= 0.995 else f"${amount:.3f}".rstrip("0")


def _age(row: RunRow, _page: Page, form: Form) -> str:
    started = seconds_of(row.started_at)
    if started is None:
        return ""
    age = max(0.0, form.now - started)
    part, word = next((part, word) for most, part, word in _AGES if age < most)
    if part == 1:
        return word
    number = int(age // part)
    return count(number, word) if word == "day" else f"{number} {word}"


def _status(row: RunRow, _page: Page, _form: Form) -> str:
    words = [_came_to(row)]
    words += [f"(grades of {printable(row.grade_of)})"] if row.grade_of else []
    words += [f"(replay of {printable(row.replay_of)})"] if row.replay_of else []
    words += [f"#{tag}" for tag in row.tags]
    return " ".join(words)


def _came_to(row: RunRow) -> str:
    counted, begun = row.summary, row.begun
    if begun is not None and row.planned is not None:
        return f"{row.status}, {begun:,} of {row.planned:,} begun"
    if row.outcome == "passed" or counted is None:
        return row.outcome if row.planned is None or counted is not None else f"{row.status}, {row.planned:,} planned"
    parts = [] if row.status == "completed" else [_STATUS_WORDS.get(row.status, row.status)]
    if row.status == "completed":
        parts += [f"{counted.failed:,} failed"] if counted.failed else []
        parts += [count(counted.errors, "error")] if counted.errors else []
        parts += [f"{counted.skipped:,} skipped"] if counted.skipped else []
    parts += [f"{counted.unfinished:,} left"] if counted.unfinished else []
    return ", ".join(parts) or row.outcome


_STATUS_WORDS = {"budget": "budget reached", "error": "stopped by an error"}
_COLUMNS = (
    _Column("run", _name),
    _Column("suite", _suites),
    _Column("passed", _passed, right=True),
    _Column("rate", _rate, right=True, leaves=3),
    _Column("recovered", _recovered, right=True, leaves=1),
    _Column("cost", _cost, right=True, leaves=2),
    _Column("age", _age),
    _Column("status", _status),
)


def write_trend(trend: Trend, form: Form) -> str:
    """The rates from the lowest to the highest, as a chart of one line; as digits where no symbols are wanted."""
    low, high = min(trend.rates), max(trend.rates)
    steps = _DIGITS if form.width is None else _STEPS
    marks = "".join(steps[_step(rate, low, high)] for rate in trend.rates)
    range_words = f"always {percent(low)}" if low == high else f"{percent(low)} to {percent(high)}"
    last = "" if low == high else f", last {percent(trend.rates[-1])}"
    shown = "" if len(trend.rates) == trend.runs else f", the last {len(trend.rates)}"
    name = printable(shortened(trend.suite, LONGEST_SUITES * 2))
    return f"{name}, {count(trend.runs, 'run')}{shown}  {marks}  {range_words}{last}"


def _step(rate: float, low: float, high: float) -> int:
    return round((rate - low) / (high - low) * (len(_STEPS) - 1)) if high > low else len(_STEPS) // 2


_CSV: dict[str, Callable[[RunRow], Cell]] = {
    "id": lambda row: row.id,
    "suites": lambda row: ", ".join(row.suites),
    "targets": lambda row: ", ".join(row.targets),
    "models": lambda row: ", ".join(row.models),
    "status": lambda row: row.status,
    "outcome": lambda row: row.outcome,
    "started_at": lambda row: row.started_at,
    "finished_at": lambda row: row.finished_at,
    "duration_s": lambda row: row.duration_s,
    "planned": lambda row: row.planned,
    **{
        name: lambda row, name=name: None if row.summary is None else getattr(row.summary, name)
        for name in ("total", "passed", "failed", "errors", "skipped", "unfinished", "first_try", "recovered")
    },
    "pass_rate": lambda row: row.rate,
    "tokens": lambda row: None if row.summary is None else row.summary.total_tokens,
    "cost_usd": lambda row: row.cost,
    "price_performance": lambda row: row.price_performance,
    "tags": lambda row: ", ".join(row.tags),
    "note": lambda row: row.note,
    "grade_of": lambda row: row.grade_of,
    "replay_of": lambda row: row.replay_of,
}


def write_csv(page: Page) -> Iterator[str]:
    from rejoinder.report.csv import write_cell

    yield ",".join(_CSV) + "\n"
    for row in page.rows:
        yield ",".join(write_cell(value(row)) for value in _CSV.values()) + "\n"
