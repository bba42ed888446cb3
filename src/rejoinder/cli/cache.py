"""`rejoinder cache`"""

from __future__ import annotations

import contextlib
from datetime import datetime
from pathlib import Path

import click

from rejoinder.cli.grouping import format_option
from rejoinder.cli.output import echo, write_data
from rejoinder.cli.parameter_types import LIFETIME
from rejoinder.engine.cache import FILE, Cache
from rejoinder.project.folders import find_root
from rejoinder.words.numbers import count


@click.group("cache", invoke_without_command=True)
@format_option
@click.pass_context
def command(ctx: click.Context, form: str) -> None:
    """Show what `run --cache` has kept of earlier runs."""
    if ctx.invoked_subcommand is not None:
        return
    root = find_root(Path.cwd(), Path.cwd())
    if not (root / FILE).is_file():
        if form == "json":
            write_data({"replies": 0, "bytes": 0, "oldest": None, "by_target": {}})
        else:
            echo("the cache is empty; `rejoinder run --cache` fills it")
        return
    with contextlib.closing(Cache(root)) as cache:
        contents = cache.contents()
    if form == "json":
        import msgspec

        write_data(msgspec.to_builtins(contents))
        return
    size = f"{contents.bytes / 1024:,.0f} KiB"
    echo(f"{count(contents.replies, 'stored answer')}, {size}, in {root / FILE}")
    if contents.oldest is not None:
        echo(f"the oldest is from {datetime.fromtimestamp(contents.oldest).astimezone():%Y-%m-%d %H:%M}")
    for target, number in contents.by_target.items():
        echo(f"  {number:>8,}  {target}")


@command.command("clear")
@click.option("--older-than", type=LIFETIME, metavar="TIME", help="Delete only answers older than this, such as 7d.")
def clear(older_than: float | None) -> None:
    """Delete kept answers: all of them, or the old ones."""
    root = find_root(Path.cwd(), Path.cwd())
    gone = 0
    if (root / FILE).is_file():
        with contextlib.closing(Cache(root)) as cache:
            gone = cache.clear(older_than)
    echo(f"{count(gone, 'stored answer')} deleted")
