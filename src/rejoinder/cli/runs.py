"""`rejoinder runs`"""

from __future__ import annotations

import sys
from pathlib import Path

import click
import msgspec
from msgspec import Struct

from rejoinder.cli.grouping import format_option
from rejoinder.cli.output import echo, write_data
from rejoinder.engine.folder import RunFolder, list_grades, list_runs, prune_runs
from rejoinder.model import Summary
from rejoinder.project import find_root
from rejoinder.report.words import count
from rejoinder.run_files import RunDamaged, refuse_special_files


@click.group("runs", invoke_without_command=True)
@format_option
@click.option("--limit", type=click.IntRange(1), default=20, show_default=True, help="List only the newest N.")
@click.pass_context
def command(ctx: click.Context, form: str, limit: int) -> None:
    """List the project's runs and grades, newest first."""
    if ctx.invoked_subcommand is not None:
        return
    runs = sorted([*list_runs(_root()), *list_grades(_root())], key=lambda run: run.id)
    rows = [_row(run) for run in reversed(runs[-limit:])]
    if form == "json":
        write_data(msgspec.to_builtins(rows))
        return
    if not rows:
        echo("no runs yet; start one with `rejoinder run`")
    for row in rows:
        graded = f" (grades of {row.grade_of})" if row.grade_of else ""
        echo(f"{row.id}  {row.status:11}  {_figures(row):32}  {', '.join(row.suites)}{graded}")


@command.command("prune")
@click.option("--keep", type=click.IntRange(0), default=20, show_default=True, help="How many of the newest stay.")
@click.option("--yes", "-y", is_flag=True, help="Do not ask.")
def prune(keep: int, yes: bool) -> None:
    """Delete all but the newest runs."""
    doomed = len(list_runs(_root())) - keep
    if doomed <= 0:
        echo("nothing to delete")
        return
    if not yes and not sys.stdin.isatty():
        raise click.UsageError("deleting runs needs your consent: add --yes")
    if not yes and not click.confirm(f"Delete {count(doomed, 'run')}?"):
        echo("nothing deleted")
        return
    gone = prune_runs(_root(), keep)
    echo(f"deleted {count(len(gone), 'run')}")
    if len(gone) < doomed:
        echo(f"kept {count(doomed - len(gone), 'run')}: open in another process, or not yours to delete", err=True)


def _root() -> Path:
    return find_root(Path.cwd(), Path.cwd())


class Row(Struct, frozen=True, kw_only=True):
    """A run in the list."""

    id: str
    status: str
    started_at: str | None = None
    suites: list[str] = []
    planned: int | None = None
    grade_of: str | None = None
    summary: Summary | None = None


def _row(run: RunFolder) -> Row:
    try:
        refuse_special_files(run.path)
        receipt, summary = run.read_receipt(), run.read_summary()
    except (RunDamaged, OSError):
        receipt = summary = None
    if receipt is None:
        return Row(id=run.id, status="damaged", summary=summary)
    return Row(
        id=run.id,
        status="killed" if receipt.status == "running" and not run.is_busy else receipt.status,
        started_at=receipt.started_at,
        suites=[suite.name or Path(suite.path).name for suite in receipt.suites],
        planned=receipt.planned,
        grade_of=receipt.grade_of,
        summary=summary,
    )


def _figures(row: Row) -> str:
    summary = row.summary
    if summary is None:
        return "" if row.planned is None else f"{row.planned} planned"
    return f"{summary.passed} passed, {summary.failed} failed, {count(summary.errors, 'error')}"
