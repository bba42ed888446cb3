"""`rejoinder suites`"""

from __future__ import annotations

from pathlib import Path

import click

from rejoinder.cli.grouping import format_option
from rejoinder.cli.output import echo, echo_text, write_data
from rejoinder.errors import UsageError
from rejoinder.project.files import FileFault, read_text
from rejoinder.project.user_files import remove_value, save_value, user_values


@click.group("suites", invoke_without_command=True)
@format_option
@click.pass_context
def command(ctx: click.Context, form: str) -> None:
    """List saved suites, which `rejoinder run NAME` runs from any folder."""
    if ctx.invoked_subcommand is not None:
        return
    saved = user_values("suites")
    if form == "json":
        write_data(saved)
        return
    if not saved:
        echo("no saved suites; save one with `rejoinder suites save NAME PATH`")
    width = max(map(len, saved), default=0)
    for name, path in saved.items():
        echo(f"{name:{width}}  {path}{'' if Path(path).exists() else '  (is gone)'}")


@command.command("save")
@click.argument("name")
@click.argument("path", type=click.Path(path_type=Path, exists=True))
def save(name: str, path: Path) -> None:
    """Save a suite, or a folder with suites, under a name."""
    save_value("suites", name, str(path.resolve()))
    echo(f"saved {name}; `rejoinder run {name}` runs it")


@command.command("show")
@click.argument("name")
def show(name: str) -> None:
    """Print the file of a saved suite."""
    path = user_values("suites").get(name)
    if path is None:
        raise _unknown(name)
    try:
        echo_text(read_text(Path(path)).removesuffix("\n"))
    except FileFault as fault:
        raise UsageError(fault.message) from None


@command.command("rm")
@click.argument("names", nargs=-1, required=True, metavar="NAME...")
def remove(names: tuple[str, ...]) -> None:
    """Forget saved suites. Their files stay."""
    for name in names:
        if not remove_value("suites", name):
            raise _unknown(name)
        echo(f"forgot {name}")


def _unknown(name: str) -> UsageError:
    return UsageError(f"there is no saved suite `{name}`", "`rejoinder suites` lists them.")
