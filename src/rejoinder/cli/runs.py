"""`rejoinder runs`"""

from __future__ import annotations

import sys
import time
from contextlib import suppress
from datetime import datetime
from datetime import time as day_time
from pathlib import Path
from typing import Any, get_args

import click

from rejoinder.cli.grouping import AliasedOption, Values, grouped
from rejoinder.cli.output import echo, echo_lines, form_for, words, write_data, write_machine
from rejoinder.errors import RejoinderError
from rejoinder.history.index import read_history
from rejoinder.history.query import SORTS, Query, Range, find_runs
from rejoinder.model.history import RunRow
from rejoinder.model.runs import RunStatus, with_reasons
from rejoinder.project.folders import find_root
from rejoinder.runs.folder import RunFolder, find_run, list_runs, locate_run, prune_runs, remove_run
from rejoinder.words.numbers import count

SHOWN = 20
"""Rows of a text without --limit; other programs get all."""
STATUSES = (*get_args(RunStatus), "damaged", "passed", "failed")


class Statuses(click.ParamType[tuple[str, ...]]):
    """A list of statuses, separated by commas."""

    name = "status"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, ...]:
        if isinstance(value, tuple):
            return value
        found = tuple(words([str(value)]))
        for word in found:
            if word not in STATUSES:
                self.fail(f"{word!r} is not a status; there are {', '.join(STATUSES)}", param, ctx)
        return found


class Moment(click.ParamType[float]):
    """A date, or a date and time, in seconds since 1970."""

    name = "date"

    def __init__(self, of_day: day_time) -> None:
        self.of_day = of_day
        """What a date without a time means."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        if isinstance(value, float):
            return value
        try:
            moment = datetime.fromisoformat(str(value).strip())
            if len(str(value).strip()) <= len("2026-11-15"):
                moment = datetime.combine(moment.date(), self.of_day)
            return moment.timestamp()
        except (ValueError, OverflowError, OSError):
            self.fail(f"{value!r} is not a date; write 2026-11-15 or 2026-11-15T09:30", param, ctx)


_FROM, _TO = Moment(day_time.min), Moment(day_time.max)
_AMOUNT = click.FloatRange(min=0)


def _option(*names: str, aliases: tuple[str, ...] = (), **settings: Any) -> Any:
    return click.option(*names, cls=AliasedOption, aliases=aliases, **settings)


def _named(name: str, help_text: str) -> Any:
    return _option(f"--{name}", f"{name}s", multiple=True, metavar="NAME,...", help=help_text)


def _query(values: Values) -> Query:
    for name in ("cost", "success", "duration_s", "started", "finished"):
        values[name] = Range(values.pop(f"{name}_least"), values.pop(f"{name}_most"))
    for name in ("suites", "models", "tags"):
        values[name] = tuple(words(values[name]))
    for name in ("statuses", "not_statuses"):
        values[name] = tuple(status for one in values[name] for status in one)
    return Query(**values)


_filters = grouped(
    "query",
    _query,
    statuses=_option(
        "--status",
        "statuses",
        aliases=("--status-in",),
        type=Statuses(),
        multiple=True,
        metavar="STATUS,...",
        help="Only runs with this status.",
    ),
    not_statuses=_option(
        "--status-ne",
        "not_statuses",
        type=Statuses(),
        multiple=True,
        metavar="STATUS,...",
        help="Exclude runs with this status.",
    ),
    suites=_named("suite", "Only runs of this suite."),
    models=_named("model", "Only runs on this target or model."),
    model_like=_option("--model-like", default="", metavar="TEXT", help="Only models with this in their name."),
    tags=_named("tag", "Only runs with this tag."),
    cost_least=_option(
        "--min-cost",
        "cost_least",
        aliases=("--cost-gt",),
        type=_AMOUNT,
        help="Exclude runs below this cost, in dollars.",
    ),
    cost_most=_option(
        "--max-cost",
        "cost_most",
        aliases=("--cost-lt",),
        type=_AMOUNT,
        help="Exclude runs above this cost, in dollars.",
    ),
    success_least=_option(
        "--min-success",
        "success_least",
        aliases=("--success-gt",),
        type=_AMOUNT,
        help="Exclude runs below this pass rate, in percent.",
    ),
    success_most=_option(
        "--max-success",
        "success_most",
        aliases=("--success-lt",),
        type=_AMOUNT,
        help="Exclude runs above this pass rate, in percent.",
    ),
    duration_s_least=_option(
        "--min-duration",
        "duration_s_least",
        aliases=("--time-gt",),
        type=_AMOUNT,
        help="Exclude runs below this time, in seconds.",
    ),
    duration_s_most=_option(
        "--max-duration",
        "duration_s_most",
        aliases=("--time-lt",),
        type=_AMOUNT,
        help="Exclude runs above this time, in seconds.",
    ),
    started_least=_option("--date-from", "started_least", type=_FROM, help="Only runs started then or later."),
    started_most=_option("--date-to", "started_most", type=_TO, help="Only runs started then or earlier."),
    finished_least=_option("--completed-from", "finished_least", type=_FROM, help="Only runs ended then or later."),
    finished_most=_option("--completed-to", "finished_most", type=_TO, help="Only runs ended then or earlier."),
    sort=_option(
        "--sort-by",
        "sort",
        aliases=("--sort",),
        type=click.Choice(SORTS),
        default="created",
        show_default=True,
        help="Newest, most passed, cheapest, fastest, or most passed for money and time first.",
    ),
    reverse=_option("--reverse", is_flag=True, help="Reverse the order."),
    limit=_option("--limit", type=click.IntRange(1), help=f"List only N.  [default: {SHOWN} as text, else all]"),
    offset=_option("--offset", type=click.IntRange(0), default=0, help="Leave out the first N."),
)


@click.group("runs", invoke_without_command=True)
@_filters
@click.option(
    "--format",
    "form",
    type=click.Choice(["text", "json", "csv"]),
    default="text",
    show_default=True,
    help="Write text, JSON or CSV.",
)
@click.pass_context
def command(ctx: click.Context, query: Query, form: str) -> None:
    """List the project's runs and grades, newest first, and the trend of the suite that has most.

    All filters that are given have to hold. STATUS is running, killed, interrupted, budget, error, completed or
    damaged; of completed runs also passed or failed. A date without a time is the whole day. Commands that take a
    RUN know it by its id, the beginning or end of it, `last`, `last~1`, or the name of its suite.
    """
    if ctx.invoked_subcommand is not None:
        return
    from msgspec import structs

    from rejoinder.exports.runs_csv import write_csv
    from rejoinder.report.history import write_runs

    if form == "text" and query.limit is None:
        query = structs.replace(query, limit=SHOWN)
    from rejoinder.gates.baselines import baselines_by_run

    root = _root()
    history = read_history(root)
    blessed = {run: names for run, names in baselines_by_run(root).items() if run in history.places}
    page = structs.replace(find_runs(history, query), baselines=blessed)
    if form == "json":
        write_data([_whole_row(row, history.places[row.id], blessed.get(row.id, ())) for row in page.rows])
    elif form == "csv":
        write_machine(write_csv(page))
    else:
        echo_lines(write_runs(page, form_for(sys.stdout), time.time()))


def _whole_row(row: RunRow, folder: Path, baselines: tuple[str, ...]) -> dict[str, Any]:
    """The row, with all figures of its summary instead of those that a list shows, and the baselines that it is."""
    from msgspec import to_builtins

    document = {**row.document(), "baselines": list(baselines)}
    if row.summary is not None:
        with suppress(RejoinderError, OSError):
            whole, receipt = RunFolder(folder).read_summary(), RunFolder(folder).read_receipt()
            if whole is not None and receipt is not None:
                document["summary"] = to_builtins(with_reasons(whole, receipt))
    return document


@command.command("prune")
@click.option("--keep", type=click.IntRange(0), default=20, show_default=True, help="How many of the newest stay.")
@click.option("--yes", "-y", is_flag=True, help="Do not ask.")
def prune(keep: int, yes: bool) -> None:
    """Delete all but the newest runs."""
    doomed = len(list_runs(_root())) - keep
    if doomed <= 0:
        echo("nothing to delete")
        return
    if not _consents(f"Delete {count(doomed, 'run')}?", yes=yes):
        return
    gone = prune_runs(_root(), keep)
    echo(f"deleted {count(len(gone), 'run')}")
    if len(gone) < doomed:
        echo(f"kept {count(doomed - len(gone), 'run')}: open in another process, or not yours to delete", err=True)


@command.command("rm")
@click.argument("runs", nargs=-1, required=True, metavar="RUN...")
@click.option("--yes", "-y", is_flag=True, help="Do not ask.")
def remove(runs: tuple[str, ...], yes: bool) -> None:
    """Delete runs with their grades. A run that is open is refused."""
    root = _root()
    doomed = {run.id: run for run in (locate_run(root, name) for name in runs)}
    for run in doomed.values():
        if run.is_busy:
            raise RejoinderError(f"run {run.id} is open in another process", "Nothing was deleted.")
    if not _consents(f"Delete {', '.join(doomed)}?", yes=yes):
        return
    for run in doomed.values():
        remove_run(root, run)
        echo(f"deleted {run.id}")


@command.command("tag")
@click.argument("run")
@click.argument("tags", nargs=-1, required=True, metavar="TAG...")
@click.option("--remove", is_flag=True, help="Take these tags away.")
def tag(run: str, tags: tuple[str, ...], remove: bool) -> None:
    """Give a run tags, which `runs --tag` finds."""
    from rejoinder.history.notes import add_tags, remove_tags

    folder = find_run(_root(), run)
    notes = (remove_tags if remove else add_tags)(folder, tags)
    echo(f"{folder.id}: {' '.join(f'#{one}' for one in notes.tags) or 'no tags'}")


@command.command("note")
@click.argument("run")
@click.argument("text")
def note(run: str, text: str) -> None:
    """Write a note about a run, in place of the one it has; an empty TEXT removes it."""
    from rejoinder.history.notes import set_note

    folder = find_run(_root(), run)
    set_note(folder, text)
    echo(f"{folder.id}: {'noted' if text else 'no note'}")


def _consents(question: str, *, yes: bool) -> bool:
    if not yes and not sys.stdin.isatty():
        raise click.UsageError("deleting runs needs your consent: add --yes")
    if yes or click.confirm(question):
        return True
    echo("nothing deleted")
    return False


def _root() -> Path:
    return find_root(Path.cwd(), Path.cwd())
