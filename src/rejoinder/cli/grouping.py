"""Options that several commands share, and that arrive at a command as one value."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from pathlib import Path
from typing import Any, TypeAlias

import click

Decorator: TypeAlias = Callable[[Callable[..., Any]], Callable[..., Any]]
Values: TypeAlias = dict[str, Any]
"""What the user gave for each option of a group, by the option's name."""

format_option = click.option(
    "--format",
    "form",
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
    help="Write text or JSON.",
)
targets_option = click.option(
    "--targets", "targets_file", type=click.Path(path_type=Path), help="Read more targets from this file."
)


class AliasedOption(click.Option):
    """An option that other tools call by other names. They work, and `--help` lists only ours."""

    def __init__(self, names: Sequence[str], *, aliases: Sequence[str] = (), **settings: Any) -> None:
        super().__init__([*names, *aliases], **settings)
        self.aliases = frozenset(aliases)

    def get_help_record(self, ctx: click.Context) -> tuple[str, str] | None:
        every, self.opts = self.opts, [name for name in self.opts if name not in self.aliases]
        try:
            return super().get_help_record(ctx)
        finally:
            self.opts = every


def grouped(name: str, make: Callable[[Values], object], **options: Decorator) -> Decorator:
    """Add options to a command, which gets one parameter `name` for them: what `make` makes of their values."""

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(function)
        def call(**arguments: Any) -> Any:
            values = {option: arguments.pop(option) for option in options}
            return function(**arguments, **{name: make(values)})

        command: Callable[..., Any] = call
        for option in reversed(options.values()):
            command = option(command)
        return command

    return decorate
