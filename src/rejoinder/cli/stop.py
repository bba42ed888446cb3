"""`rejoinder stop`"""

from __future__ import annotations

import click

from rejoinder.cli.output import echo
from rejoinder.cli.server_options import Remote, server_option
from rejoinder.client import RunState
from rejoinder.errors import UsageError
from rejoinder.words.numbers import count

QUEUED = "queued"


@click.command("stop")
@click.argument("run", required=False, metavar="[RUN|queued]")
@server_option
def command(run: str | None, remote: Remote) -> None:
    """Stop a run on a server. A queued run is cancelled; a running one finishes its open calls first.

    `queued` as RUN cancels all queued runs. If RUN is not given and one run is running, it is stopped. To interrupt
    open calls, repeat the command. Stopped runs can be resumed.
    """
    server = remote.connect()
    if run == QUEUED:
        stopped = server.stop_queued()
        echo(f"cancelled {count(len(stopped), 'run')}", *(f"  {state.id}  {state.title}" for state in stopped))
        return
    if run is None:
        going = [state for state in server.queue() if state.status == "running"]
        if len(going) != 1:
            what = "no run is running" if not going else f"{len(going)} runs are running"
            raise UsageError(f"{what} at {server.url}", "`rejoinder status` lists them; name one.")
        run = going[0].id
    echo(_words(server.stop(server.find(run))))


def _words(state: RunState) -> str:
    if state.status == "running":
        return f"{state.id} is stopping; it finishes its open calls first"
    return f"{state.id} is {state.status}"
