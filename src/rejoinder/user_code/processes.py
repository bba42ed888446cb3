"""The user's programs that run to their end: scripts of checks, and commands that are targets."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct

from rejoinder.user_code.programs import ProcessFault, Program, fulfil
from rejoinder.words.numbers import in_seconds

MOST_STDOUT = 1 << 20
_LONGEST_END = 600
_LAST_LINES = 10


class Command(Struct, frozen=True, kw_only=True):
    """A program to run once."""

    words: tuple[str, ...]
    folder: Path
    environment: Mapping[str, str]
    timeout_s: float | None
    stdin: bytes = b""
    most_stdout: int = MOST_STDOUT
    called: str = "script"
    """Its name in messages."""
    owner: str = ""
    """A name that all its child processes inherit, by which `end_all_of` finds them later."""


def shell_words(line: str) -> tuple[str, ...]:
    """The words that make a shell run a line."""
    return "sh", "-c", line


async def run_process(command: Command) -> Ended:
    """Run a program to its end.

    Raises ProcessFault if it cannot be started, does not end in time or prints too much. No process that it started in
    its process group outlives this call, even if the call is cancelled; if it ended badly, no process at all.
    """
    printed = _Printed(command.most_stdout)
    program = Program(command.words, command.folder, command.environment, printed.take, command.owner)
    well = in_time = False
    try:
        program.send(command.stdin)
        over = program.exited, printed.flooded
        in_time = bool((await asyncio.wait(over, timeout=command.timeout_s, return_when="FIRST_COMPLETED"))[0])
        await program.end(politely=printed.flooded.done() or not in_time)
        well = in_time and not printed.flooded.done() and program.ended_well()
    except asyncio.CancelledError:
        await program.end(politely=True)
        raise
    finally:
        await program.put_down(well=well)
    if printed.flooded.done():
        most = command.most_stdout
        what = f"the {command.called} prints more than {f'{most >> 20} MiB' if most >> 20 else f'{most >> 10} KiB'}"
        raise ProcessFault(_with_end(what, program.end_of_stderr), "flood", what)
    if not in_time:
        what = f"the {command.called} did not end within {in_seconds(command.timeout_s or 0)}"
        raise ProcessFault(_with_end(what, program.end_of_stderr), "timeout", what)
    text, is_utf8 = decode(printed.data)
    return Ended(program.exited.result(), text, program.end_of_stderr, is_utf8)


class _Printed:
    """A program's output, up to a limit."""

    def __init__(self, most: int) -> None:
        self.data = bytearray()
        self._most = most
        self.flooded: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def take(self, data: bytes) -> None:
        if len(self.data) + len(data) > self._most:
            fulfil(self.flooded)
        else:
            self.data += data


class Ended(Struct, frozen=True):
    """A program that ended by itself."""

    exit_code: int
    """Negative: the number of the signal that killed it."""
    stdout: str
    stderr: str
    """Only the end of a long output."""
    is_utf8: bool = True
    """False if bytes of its standard output had to be replaced."""

    @property
    def last_words(self) -> str:
        """The end of its standard error, else of its output."""
        return end_of(self.stderr) or end_of(self.stdout)

    def how(self) -> str:
        """Its end in words."""
        return how_ended(self.exit_code)


def how_ended(exit_code: int) -> str:
    """The end of a program in words; a negative code is the number of the signal that killed it."""
    if exit_code < 0:
        return f"was killed by {_signal_name(-exit_code)}"
    return f"ended with exit code {exit_code}"


def decode(data: bytes | bytearray) -> tuple[str, bool]:
    """A text, and whether it was valid UTF-8; invalid bytes are replaced."""
    try:
        return data.decode(), True
    except UnicodeDecodeError:
        return data.decode(errors="replace"), False


def end_of(text: str) -> str:
    """The last words of a program, which nearly always name the error."""
    end = "\n".join(text.strip().splitlines()[-_LAST_LINES:])
    return f"...{end[-_LONGEST_END:]}" if len(end) > _LONGEST_END else end


def _with_end(what: str, stderr: str) -> str:
    end = end_of(stderr)
    return f"{what}: {end}" if end else what


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
