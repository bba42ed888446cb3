"""`rejoinder status`"""

from __future__ import annotations

import click
from msgspec import to_builtins

from rejoinder.cli.grouping import format_option
from rejoinder.cli.output import echo, write_data
from rejoinder.cli.remote import ending_of
from rejoinder.cli.server_options import Remote, server_option
from rejoinder.client import RunState, is_over


@click.command("status")
@click.argument("run", required=False)
@server_option
@format_option
def command(run: str | None, remote: Remote, form: str) -> None:
    """Show queued and running runs on a server, or the state of RUN.

    RUN is an id, the beginning or end of one, or `last`, and `last~1` for the one before. The server is the one that
    `rejoinder view` starts on this machine, unless --server names another.
    """
    server = remote.connect()
    if run is not None:
        run = server.find(run)
        document = server.document(run)
        if form == "json":
            write_data(document)
        elif not is_over(document.get("status")):
            echo(_line(server.status(run)))
        else:
            echo(*ending_of(document))
        return
    states = server.queue()
    if form == "json":
        write_data([to_builtins(state) for state in states])
    elif not states:
        echo(f"nothing is queued or running at {server.url}")
    else:
        echo(*map(_line, states))


def _line(state: RunState) -> str:
    done = f"  {state.done or 0} of {state.planned} done" if state.planned is not None else ""
    return f"{state.id}  {state.status:8}{done}  {state.title}".rstrip()
