"""`rejoinder tools`"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import msgspec

from rejoinder.cli.grouping import format_option, grouped, targets_option
from rejoinder.cli.loading import load_or_exit
from rejoinder.cli.options import TRUST
from rejoinder.cli.output import echo_lines, form_for, write_data
from rejoinder.runs.options import RunOptions, Selection, Trust

if TYPE_CHECKING:
    from rejoinder.engine.offers import Offer


@click.command("tools")
@click.argument("target", metavar="[TARGET]", required=False)
@click.option(
    "--suite",
    "files",
    type=click.Path(path_type=Path),
    multiple=True,
    help="The suite whose tools are listed.  [default: the suites of the working directory]",
)
@targets_option
@grouped("trust", lambda values: Trust(**values), **TRUST)
@format_option
def command(target: str | None, files: tuple[Path, ...], targets_file: Path | None, trust: Trust, form: str) -> None:
    """List the tools that models are offered: their names, what they do and what they take.

    MCP servers are started or called and asked; no tool is called. With TARGET the tools of that target are listed as
    well; a suite's file in its place is the same as --suite. Exit code 3 when a server does not answer.
    """
    import asyncio

    from rejoinder.engine.offers import list_offers

    if target is not None and Path(target).suffix in (".yaml", ".yml"):
        target, files = None, (*files, Path(target))
    selection = Selection(
        targets=(target,) if target else (), targets_file=str(targets_file.resolve()) if targets_file else None
    )
    options = RunOptions(selection=selection, trust=trust)
    suites = load_or_exit(files, options)
    offers = asyncio.run(list_offers(suites, options))
    if form == "json":
        write_data([row for offer in offers for row in _rows(offer)])
    else:
        from rejoinder.report.offers import write_offers

        echo_lines(write_offers(offers, form_for(sys.stdout)))
    sys.exit(3 if any(offer.fault for offer in offers) else 0)


def _rows(offer: Offer) -> list[dict[str, Any]]:
    if offer.fault is not None:
        return [{"name": offer.tool.name, "error": offer.fault}]
    return [
        {
            "name": one.name,
            "tool": one.tool,
            "server": one.server or None,
            "description": one.description,
            "parameters": msgspec.json.decode(one.parameters),
        }
        for one in offer.offered
    ]
