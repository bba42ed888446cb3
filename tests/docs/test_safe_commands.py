"""The page on security says of every command what it does with the files of a stranger."""

from __future__ import annotations

import re
from collections.abc import Iterator

import click
import pytest

from rejoinder.cli.app import cli
from tests.kit import ROOT

PAGE = (ROOT / "docs/guides/security.md").read_text(encoding="utf-8")
TABLE = PAGE.partition("## Which commands are safe")[2].partition("\n\n`import transcript`")[0]


def commands(group: click.Group, before: str = "") -> Iterator[tuple[str, click.Command]]:
    """Every command with its whole name; a group counts only where it does something by itself."""
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        whole = f"{before}{name}"
        if not isinstance(command, click.Group) or command.invoke_without_command:
            yield whole, command
        if isinstance(command, click.Group):
            yield from commands(command, f"{whole} ")


EVERY = dict(commands(cli))
NAMED = {
    name for row in TABLE.splitlines() if row.startswith("|") for name in re.findall(r"`([^`]+)`", row.split("|")[1])
}


def test_the_table_names_every_command() -> None:
    """A command below another one may be named by that alone."""
    missing = [name for name in EVERY if name not in NAMED and name.split()[0] not in NAMED]
    assert len(EVERY) > 30 and not missing


def test_the_table_names_no_command_that_is_not_there() -> None:
    groups = {name.split()[0] for name in EVERY}
    assert {name for name in NAMED if "--" not in name} <= {*EVERY, *groups}


@pytest.mark.parametrize("name", sorted(EVERY))
def test_the_page_lists_the_commands_that_refuse_code(name: str) -> None:
    """Those that can run code have `--no-code`, and the page names them."""
    options = {option for parameter in EVERY[name].params for option in parameter.opts}
    sentence = PAGE.partition("can run code has it: ")[2].partition(". It holds")[0]
    assert ("--no-code" in options) == (f"`{name}`" in sentence)
