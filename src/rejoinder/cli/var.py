"""`rejoinder var`"""

from __future__ import annotations

import click

from rejoinder.cli.grouping import format_option
from rejoinder.cli.output import echo, write_data
from rejoinder.errors import UsageError
from rejoinder.project.user_files import remove_value, save_value, user_values


@click.group("var")
def command() -> None:
    """Save variables that all your suites can use as `{{ var('name') }}`.

    Variables of a suite or a project take precedence. Yours are stored in a file that only you can read.
    """


@command.command("set")
@click.argument("name")
@click.argument("value")
def set_variable(name: str, value: str) -> None:
    """Save a variable."""
    save_value("vars", name, value)
    echo(f"saved {name}")


@command.command("get")
@click.argument("name")
def get_variable(name: str) -> None:
    """Print the value of a variable."""
    known = user_values("vars")
    if name not in known:
        raise _unknown(name)
    echo(known[name])


@command.command("list")
@format_option
def list_variables(form: str) -> None:
    """List the variables with their values."""
    known = user_values("vars")
    if form == "json":
        write_data(known)
        return
    for name, value in known.items():
        echo(f"{name}={value}")


@command.command("rm")
@click.argument("names", nargs=-1, required=True, metavar="NAME...")
def remove(names: tuple[str, ...]) -> None:
    """Forget variables."""
    for name in names:
        if not remove_value("vars", name):
            raise _unknown(name)
        echo(f"forgot {name}")


def _unknown(name: str) -> UsageError:
    return UsageError(f"there is no saved variable `{name}`", "`rejoinder var list` lists them.")
