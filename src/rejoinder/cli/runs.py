"""`rejoinder runs`"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from rejoinder.cli.output import count, write_json
from rejoinder.engine.folder import RunDamaged, RunFolder, list_runs, prune_runs
from rejoinder.suite.project import find_root


@click.group("runs", invoke_without_command=True)
@click.option("--format", "form", type=click.Choice(["text", "json"]), default="text", show_default=True)
@click.option("--limit", type=click.IntRange(1), default=20, show_default=True, help="Only the newest so many.")
@click.pass_context
def command(ctx: click.Context, form: str, limit: int) -> None:
    """List the project's runs, newest first."""
    if ctx.invoked_subcommand is not None:
        return
    rows = [_row(run) for run in reversed(list_runs(_root())[-limit:])]
    if form == "json":
        write_json(rows)
        return
    if not rows:
        click.echo("no runs yet; start one with `rejoinder run`")
    for row in rows:
        click.echo(f"{row['id']}  {row['status']:11}  {_figures(row):32}  {', '.join(row['suites'])}")


@command.command("prune")
@click.option("--keep", type=click.IntRange(0), default=20, show_default=True, help="How many of the newest stay.")
@click.option("--yes", "-y", is_flag=True, help="Do not ask.")
def prune(keep: int, yes: bool) -> None:
    """Delete all but the newest runs."""
    doomed = len(list_runs(_root())) - keep
    if doomed <= 0:
        click.echo("nothing to delete")
        return
    if not yes and not sys.stdin.isatty():
        raise click.UsageError("deleting runs needs your consent: add --yes")
    if not yes and not click.confirm(f"Delete {count(doomed, 'run')}?"):
        click.echo("nothing deleted")
        return
    click.echo(f"deleted {count(len(prune_runs(_root(), keep)), 'run')}")


def _root() -> Path:
    return find_root(Path.cwd(), Path.cwd())


def _row(run: RunFolder) -> dict[str, Any]:
    try:
        receipt, summary = run.read("run.json") or {}, run.read("summary.json")
    except RunDamaged:
        receipt, summary = {}, None
    status = receipt.get("status", "damaged")
    if status == "running" and not run.is_busy:
        status = "killed"
    return {
        "id": run.id,
        "status": status,
        "started_at": receipt.get("started_at"),
        "suites": [suite["name"] or Path(suite["path"]).name for suite in receipt.get("suites", ())],
        "planned": receipt.get("planned"),
        "summary": summary,
    }


def _figures(row: dict[str, Any]) -> str:
    summary = row["summary"]
    if summary is None:
        return f"{row['planned']} planned"
    return f"{summary['passed']} passed, {summary['failed']} failed, {count(summary['errors'], 'error')}"
