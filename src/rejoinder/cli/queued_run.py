"""The process of a queued run: `rejoinder` with an id that was told before, which stops when its server is gone.

Standard input is a pipe that the server holds. The words of the command come first, as a line of JSON: a prompt may be
longer than a word of a command line. When the pipe is closed, because the run is to stop, the server ends or was
killed, the run stops as with Ctrl-C: what is under way is finished, and `resume` goes on with the rest.
"""

from __future__ import annotations

import os
import signal
import sys
import threading

import msgspec


def main() -> None:
    run, pipe = sys.argv[1], _own_input()
    arguments = _words(pipe)
    _stop_with(pipe)
    from rejoinder.engine.folder import BUSY_CODE, RunBusy, reserve_run_id

    RunBusy.exit_code = BUSY_CODE
    if arguments[0] != "resume":
        reserve_run_id(run)
    sys.argv = ["rejoinder", *arguments]
    from rejoinder.cli import main as run_command

    run_command()


def _own_input() -> int:
    """The pipe, kept from the processes that the run starts."""
    pipe = os.dup(0)
    os.set_inheritable(pipe, False)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    return pipe


def _words(pipe: int) -> list[str]:
    """The words of the command. Without all of them the server was killed, and nothing is begun."""
    line = bytearray()
    while not line.endswith(b"\n"):
        part = os.read(pipe, 1 << 16)
        if not part:
            raise SystemExit(2)
        line += part
    return msgspec.json.decode(line, type=list[str])


def _stop_with(pipe: int) -> None:
    def wait() -> None:
        while os.read(pipe, 1):
            pass
        signal.raise_signal(signal.SIGINT)

    threading.Thread(target=wait, name="rejoinder-server", daemon=True).start()


if __name__ == "__main__":
    main()
