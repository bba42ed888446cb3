"""`--help` of a command with many options: the common ones, and the names of groups that have the others."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import click
from msgspec import Struct

from rejoinder.cli.output import echo_text

ALL = "all"


class HelpLayout(Struct, frozen=True, kw_only=True):
    """Options by the names of their parameters."""

    common: Mapping[str, str]
    """The common options, each with a text that fits one row."""
    groups: Mapping[str, tuple[str, ...]]
    """All options."""
    epilog: str


def with_rest(*first: str, rest: Iterable[str]) -> tuple[str, ...]:
    """Options in this order, and behind them the rest of their group."""
    return (*first, *(name for name in rest if name not in first))


class LaidOutCommand(click.Command):
    """A command whose `--help` shows the common options, `--help GROUP` a group, and `--help all` everything."""

    def __init__(self, *arguments: Any, layout: HelpLayout, **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        self.layout = layout

    def get_help_option(self, ctx: click.Context) -> click.Option | None:
        return click.Option(
            sorted(self.get_help_option_names(ctx), key=len),
            is_flag=False,
            flag_value="",
            is_eager=True,
            expose_value=False,
            metavar="[GROUP]",
            callback=self._show_help,
            help=f"Show the common options, a group of options, or all: {', '.join((*self.layout.groups, ALL))}.",
        )

    def _show_help(self, ctx: click.Context, _option: click.Parameter, group: str | None) -> None:
        if group is None or ctx.resilient_parsing:
            return
        if group.lower() == ALL:
            text = self.get_help(ctx)
        elif group.lower() in self.layout.groups:
            text = self._group_help(ctx, group.lower())
        else:
            text = self._short_help(ctx)
        echo_text(text.rstrip("\n"))
        ctx.exit()

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        for name in self.layout.groups:
            self._write_group(ctx, formatter, name)
        help_option = self.get_help_option(ctx)
        record = help_option.get_help_record(ctx) if help_option is not None else None
        with formatter.section("Help"):
            formatter.write_dl([record] if record is not None else [])

    def _group_help(self, ctx: click.Context, name: str) -> str:
        formatter = ctx.make_formatter()
        self._write_group(ctx, formatter, name)
        return formatter.getvalue()

    def _write_group(self, ctx: click.Context, formatter: click.HelpFormatter, name: str) -> None:
        records = [self._option(ctx, parameter).get_help_record(ctx) for parameter in self.layout.groups[name]]
        with formatter.section(name.capitalize()):
            formatter.write_dl([record for record in records if record is not None])

    def _short_help(self, ctx: click.Context) -> str:
        formatter = ctx.make_formatter()
        formatter.write_text((self.help or "").partition("\n\n")[0])
        formatter.write_paragraph()
        formatter.write_usage(ctx.command_path, " ".join(self.collect_usage_pieces(ctx)))
        with formatter.section("Common"):
            formatter.write_dl([(self._names(ctx, one), text) for one, text in self.layout.common.items()])
        with formatter.section("More"):
            rows = [(f"--help {name}", self._sample(ctx, name)) for name in self.layout.groups]
            formatter.write_dl([*rows, (f"--help {ALL}", f"all {self._number()} options")])
        formatter.write_paragraph()
        formatter.write_text(self.layout.epilog)
        return formatter.getvalue()

    def _names(self, ctx: click.Context, parameter: str) -> str:
        record = self._option(ctx, parameter).get_help_record(ctx)
        return record[0].replace("INTEGER RANGE", "N").replace("FLOAT", "X") if record is not None else ""

    def _sample(self, ctx: click.Context, group: str) -> str:
        """The first options of a group that are not shown already."""
        others = [one for one in self.layout.groups[group] if one not in self.layout.common]
        names = [next(name for name in self._option(ctx, one).opts if name.startswith("--")) for one in others]
        return " ".join(names[:4]) + (" ..." if len(names) > 4 else "")

    def _number(self) -> int:
        return sum(map(len, self.layout.groups.values()))

    def _option(self, ctx: click.Context, name: str) -> click.Option:
        return next(one for one in self.get_params(ctx) if isinstance(one, click.Option) and one.name == name)
