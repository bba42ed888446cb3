"""The options of commands that ask a server. What asks it is imported when it is asked."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click
from msgspec import Struct

from rejoinder.cli.grouping import Decorator, Values, grouped
from rejoinder.server.settings import PORT, TOKEN_VARIABLE

if TYPE_CHECKING:
    from rejoinder.client import Server

ADDRESS = f"http://127.0.0.1:{PORT}"
"""Where `rejoinder view` listens unless told otherwise."""


class Remote(Struct, frozen=True, kw_only=True):
    """A server that runs are put to."""

    server: str | None
    token: str | None
    no_wait: bool = False

    def connect(self) -> Server:
        from rejoinder.client import Server

        return Server(self.server or ADDRESS, token=self.token)


token_option = click.option(
    "--token", envvar=TOKEN_VARIABLE, metavar="T", help=f"Give the server this token.  [env: {TOKEN_VARIABLE}]"
)


def _make(values: Values) -> Remote:
    if values["no_wait"] and values["server"] is None:
        values["server"] = ADDRESS
    return Remote(**values)


remote_options: Decorator = grouped(
    "remote",
    _make,
    server=click.option("--server", metavar="URL", help="Run on this server, which `rejoinder view` starts."),
    no_wait=click.option(
        "--async",
        "-a",
        "no_wait",
        is_flag=True,
        help=f"Queue the run on a server and do not wait.  [default: {ADDRESS}]",
    ),
    token=token_option,
)
"""Of `run`."""
server_option: Decorator = grouped(
    "remote",
    lambda values: Remote(**values),
    server=click.option("--server", metavar="URL", help=f"Ask this server.  [default: {ADDRESS}]"),
    token=token_option,
)
"""Of commands that always ask one."""
