"""`rejoinder secret`. No value is an argument, and none is ever printed."""

from __future__ import annotations

import sys

import click

from rejoinder.cli.grouping import format_option
from rejoinder.cli.output import echo, write_data
from rejoinder.errors import UsageError
from rejoinder.project.user_files import remove_value, save_value, user_values

LONGEST_INPUT = 1 << 20


@click.group("secret")
def command() -> None:
    """Save secrets that all your suites can use as `{{ secret('name') }}`.

    Secrets of the environment and of .env files take precedence. Yours are stored in a file that only you can read,
    are never printed, and are hidden in everything that a run writes.
    """


@command.command("set", context_settings={"allow_extra_args": True, "ignore_unknown_options": True})
@click.argument("name")
@click.pass_context
def set_secret(ctx: click.Context, name: str) -> None:
    """Save a secret; you are asked for its value, or it is read from standard input."""
    if ctx.args:  # refused in words of our own: click would print it
        raise click.UsageError(
            "a secret is not given as an argument, where other programs and the shell's history see it; give it when"
            " you are asked, or on standard input"
        )
    save_value("secrets", name, _read_value())
    echo(f"saved {name}")


def _read_value() -> str:
    if sys.stdin.isatty():
        return click.prompt("Value", hide_input=True, err=True)
    content = sys.stdin.buffer.read(LONGEST_INPUT)
    try:
        return content.decode("utf-8").removesuffix("\n").removesuffix("\r")
    except UnicodeDecodeError:
        raise UsageError("the value is not UTF-8 text") from None


@command.command("list")
@format_option
def list_secrets(form: str) -> None:
    """List the names of the secrets."""
    names = list(user_values("secrets"))
    if form == "json":
        write_data(names)
        return
    for name in names:
        echo(name)


@command.command("rm")
@click.argument("names", nargs=-1, required=True, metavar="NAME...")
def remove(names: tuple[str, ...]) -> None:
    """Forget secrets."""
    for name in names:
        if not remove_value("secrets", name):
            raise UsageError(f"there is no saved secret `{name}`", "`rejoinder secret list` lists them.")
        echo(f"forgot {name}")
