"""The user's programs while they run: their pipes, and their end together with all processes they started.

The pipes are watched directly, not by asyncio's subprocess transports. Depending on Python's version, those give a
program a socket as its standard input, which cannot be opened as /dev/stdin, or wait for other processes that hold the
pipes; and if they are cancelled while they start a program, they kill only the program.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping
from collections.abc import Set as AbstractSet
from pathlib import Path
from typing import IO, Any, Literal, TypeAlias, cast
from uuid import uuid4

from rejoinder.errors import lacks_descriptors, reason_of
from rejoinder.user_code.guard import end_marked

MOST_STDERR = 64 << 10
GRACE_S = 1.0
"""Seconds for a program to end when asked, and for remaining processes to close the pipes."""
REAPING_S = 5.0
"""Seconds to wait for a killed process, which normally ends at once, unless the system holds it (a dead
network disk)."""
_CHUNK = 64 << 10
_MARK = "REJOINDER_SCRIPT"
_OWNER = "REJOINDER_OWNER"
Trouble: TypeAlias = Literal["start", "words", "timeout", "flood"]
"""`words`: it cannot be started with these words, but others may work."""


class ProcessFault(Exception):
    """A program could not be started, did not end in time or printed too much. The message says which."""

    def __init__(self, message: str, trouble: Trouble = "start", brief: str = "") -> None:
        super().__init__(message)
        self.trouble = trouble
        self.brief = brief or message
        """The message without the program's output."""


class Guard:
    """Ends an owner's programs if this process is killed. It runs as a separate process (`guard.py`)."""

    def __init__(self, owner: str) -> None:
        self._owner = owner
        words = (sys.executable, "-I", "-S", str(Path(__file__).with_name("guard.py")), _owned_by(owner).decode())
        nothing = subprocess.DEVNULL
        self._process = subprocess.Popen(
            words, bufsize=0, stdin=subprocess.PIPE, stdout=nothing, stderr=nothing, start_new_session=True
        )
        _guards[owner] = self

    def tell(self, sign: str, group: int) -> None:
        """Report that a process group has begun (+) or ended (-)."""
        with contextlib.suppress(OSError):
            cast("IO[bytes]", self._process.stdin).write(f"{sign}{group}\n".encode())

    def close(self) -> None:
        """End the owner's programs, and the guard."""
        _guards.pop(self._owner, None)
        end_all_of(self._owner)
        with contextlib.suppress(OSError):
            cast("IO[bytes]", self._process.stdin).write(b"done\n")
        cast("IO[bytes]", self._process.stdin).close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(REAPING_S)


class Program:
    """A running program: our ends of its pipes. It is always ended, whatever it does."""

    def __init__(
        self,
        words: tuple[str, ...],
        folder: Path,
        environment: Mapping[str, str],
        take: Callable[[bytes], None],
        owner: str = "",
        hear: Callable[[bytes], None] = lambda _: None,
    ) -> None:
        """Start the program. `take` gets its output, `hear` its standard error as it comes; `owner` is a name that all
        its child processes inherit, by which `end_all_of` finds them later. Raises ProcessFault."""
        name = str(uuid4())
        self._mark = f"{_MARK}={name}".encode()
        marks = {_MARK: name, **({_OWNER: owner} if owner else {})}
        self._process = _start(words, folder, {**environment, **marks})
        _under_way[self._mark] = self
        self._guard = _guards.get(owner)
        if self._guard is not None:
            self._guard.tell("+", self._process.pid)
        self._loop = asyncio.get_running_loop()
        # All three were asked for, so all three are there.
        self._pipes = cast("tuple[IO[bytes], ...]", (self._process.stdin, self._process.stdout, self._process.stderr))
        self._unsent = bytearray()
        self._has_more = True
        """Whether more may be sent. Otherwise its standard input ends."""
        self._complained = bytearray()
        self._hear = hear
        self.exited: asyncio.Future[int] = self._loop.create_future()
        self.drained: asyncio.Future[None] = self._loop.create_future()
        """Set after it has exited and no process holds its standard output or error."""
        for pipe in self._pipes:
            os.set_blocking(pipe.fileno(), False)
        _, stdout, stderr = self._pipes
        self._loop.add_reader(stdout.fileno(), self._read, stdout, take)
        self._loop.add_reader(stderr.fileno(), self._read, stderr, self._take_stderr)
        threading.Thread(target=self._wait, name="rejoinder-program", daemon=True).start()

    @property
    def end_of_stderr(self) -> str:
        return self._complained.decode(errors="replace")

    def ended_well(self) -> bool:
        """Whether it ended by itself without a complaint. A failing exit code without one is a verdict."""
        if not self.exited.done() or self.exited.result() < 0:
            return False
        return self.exited.result() == 0 or not self._complained.strip()

    def send(self, data: bytes, *, more: bool = False) -> None:
        """Send data to its standard input; without `more`, the input ends there."""
        stdin = self._pipes[0]
        self._has_more = more
        if stdin.closed:
            return
        if not self._unsent:
            self._loop.add_writer(stdin.fileno(), self._write, stdin)
        self._unsent += data

    def signal(self, number: int) -> None:
        """Signal its group, which may be gone, or partly belong to another user (sudo)."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, number)

    async def end(self, *, politely: bool, grace_s: float = GRACE_S) -> None:
        """Ask it to end, and wait a little. If the wait is cancelled, there is no grace period."""
        if politely:
            self.signal(signal.SIGTERM)
        await within(self.drained, grace_s)

    async def put_down(self, *, well: bool) -> None:
        """End it with its group; if it ended badly, also all other processes it started. The ending does not wait, so
        that even a task that is repeatedly cancelled reaches it."""
        self.signal(signal.SIGKILL)
        for pipe in self._pipes:
            _close(pipe, self._loop)
        if not well:
            _end_marked({self._mark})
        _under_way.pop(self._mark, None)
        if self._guard is not None:
            self._guard.tell("-", self._process.pid)
        await within(self.exited, REAPING_S)

    def _wait(self) -> None:
        """Wait in a separate thread: the only way to wait for a process that works on every system and in
        every thread."""
        code = self._process.wait()
        with contextlib.suppress(RuntimeError):  # the loop is closed: there is no waiter any more
            self._loop.call_soon_threadsafe(self._exit, code)

    def _exit(self, code: int) -> None:
        self.exited.set_result(code)
        self._look_if_drained()

    def _read(self, pipe: IO[bytes], take: Callable[[bytes], None]) -> None:
        try:
            data = os.read(pipe.fileno(), _CHUNK)
        except BlockingIOError:
            return
        if data:
            take(data)
        else:
            _close(pipe, self._loop)
            self._look_if_drained()

    def _take_stderr(self, data: bytes) -> None:
        self._hear(data)
        self._complained += data
        if len(self._complained) > 2 * MOST_STDERR:  # twice, so that it is not moved for every line
            del self._complained[:-MOST_STDERR]

    def _write(self, pipe: IO[bytes]) -> None:
        try:
            sent = os.write(pipe.fileno(), self._unsent[:_CHUNK])
        except BlockingIOError:
            return
        except OSError:
            sent = len(self._unsent)  # it does not read the rest
        del self._unsent[:sent]
        if not self._unsent:
            self._loop.remove_writer(pipe.fileno())
            if not self._has_more:
                _close(pipe, self._loop)

    def _look_if_drained(self) -> None:
        if self.exited.done() and all(output.closed for output in self._pipes[1:]):
            fulfil(self.drained)


def _close(pipe: IO[bytes], loop: asyncio.AbstractEventLoop) -> None:
    if not pipe.closed:
        loop.remove_reader(pipe.fileno())
        loop.remove_writer(pipe.fileno())
        pipe.close()


async def within(future: asyncio.Future[Any], seconds: float | None) -> bool:
    """Whether the future completes in time. Giving up does not change the future."""
    await asyncio.wait([future], timeout=seconds)
    return future.done()


def fulfil(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)


_under_way: dict[bytes, Program] = {}
"""Running programs by their mark."""
_guards: dict[str, Guard] = {}
"""Guards by the owner whose programs they watch."""


def _end_marked(marks: AbstractSet[bytes]) -> None:
    """End the processes that programs started outside their process groups, found by the programs' marks."""
    for _ in range(3):  # a process that was just being started is seen the next time
        if not end_marked(marks):
            return


def _owned_by(owner: str) -> bytes:
    return f"{_OWNER}={owner}".encode()


def _start(words: tuple[str, ...], folder: Path, environment: Mapping[str, str]) -> subprocess.Popen[bytes]:
    if not words or not words[2 if words[:2] == ("sh", "-c") else 0].strip():  # the shell would run nothing, and pass
        raise ProcessFault("there is no command to run")
    try:
        return subprocess.Popen(
            words,
            bufsize=0,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=folder,
            env=environment,
            start_new_session=True,
        )
    except (OSError, ValueError) as error:
        of_words = not isinstance(error, OSError) or error.errno == errno.E2BIG
        raise ProcessFault(_why_not(words[0], folder, error), "words" if of_words else "start") from None


def _why_not(program: str, folder: Path, error: OSError | ValueError) -> str:
    """Why a program cannot be started, and what to write instead."""
    if not isinstance(error, OSError):
        return f"the command cannot be run: {error}"
    if not folder.is_dir():
        return f"there is no folder {folder} to run it in"
    file = folder / program
    if error.errno == errno.ENOENT and not file.is_file():
        return f"there is no program `{program}`"
    if error.errno == errno.ENOENT:
        if "/" not in program:
            return f"there is no program `{program}`; for the file in {folder} write `./{program}`"
        return f"`{program}` cannot be run: the program that its first line (`#!`) names is missing"
    if error.errno == errno.EACCES and file.is_dir():
        return f"`{program}` cannot be run: it is a folder"
    if lacks_descriptors(error):
        return f"`{program}` cannot be run: {reason_of(error)}"
    reason = f"`{program}` cannot be run: {os.strerror(error.errno) if error.errno else error}"
    if error.errno in (errno.EACCES, errno.ENOEXEC):
        return f"{reason}; write the program that reads it before it, such as `python3`"
    return reason


def end_all_of(owner: str) -> None:
    """End the remaining processes of this owner, including those outside of their process groups."""
    _end_marked({_owned_by(owner)})


def end_processes() -> None:
    """End every running program, and all processes that they started. Callable from any thread, when this
    process ends."""
    programs = dict(_under_way)
    for program in programs.values():
        program.signal(signal.SIGKILL)
    if programs:
        _end_marked(programs.keys())
