"""Programs of the user's own: started, fed, read and, whatever they do, ended together with all they started. They are
scripts of checks, and commands that are targets.

The pipes are watched by hand, not by asyncio's subprocess transports. Depending on Python's version, those give a
program a socket as its standard input, which cannot be opened as /dev/stdin, or wait for other processes that hold the
pipes; and when they are cancelled while they start a program, they kill the program alone.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import signal
import subprocess
import threading
from collections.abc import Callable, Mapping
from collections.abc import Set as AbstractSet
from pathlib import Path
from typing import IO, Any, Literal, TypeAlias, cast
from uuid import uuid4

from msgspec import Struct

from rejoinder.errors import lacks_descriptors, reason_of

MOST_STDOUT = 1 << 20
MOST_STDERR = 64 << 10
GRACE_S = 1.0
"""How long a program may take to end when it is asked to, and what it left behind may hold the pipes open."""
REAPING_S = 5.0
"""A killed process is gone at once, unless the system itself keeps it (a dead network disk)."""
_CHUNK = 64 << 10
_LONGEST_END = 600
_LAST_LINES = 10


Trouble: TypeAlias = Literal["start", "words", "timeout", "flood"]
"""`words`: it cannot be started with these words, and others may be fine."""


class ProcessFault(Exception):
    """A program could not be started, did not end in time or printed too much. The message says which."""

    def __init__(self, message: str, trouble: Trouble = "start") -> None:
        super().__init__(message)
        self.trouble = trouble


class Command(Struct, frozen=True, kw_only=True):
    """A program to be run once."""

    words: tuple[str, ...]
    folder: Path
    environment: Mapping[str, str]
    timeout_s: float | None
    stdin: bytes = b""
    most_stdout: int = MOST_STDOUT
    called: str = "script"
    """What messages call it."""
    owner: str = ""
    """A name that all it starts inherits, by which `end_all_of` finds that later."""


def shell_words(line: str) -> tuple[str, ...]:
    """The words by which a shell runs a line."""
    return "sh", "-c", line


async def run_process(command: Command) -> Ended:
    """Run a program to its end.

    Raises ProcessFault where it cannot be started, does not end in time or prints too much. Nothing that it started in
    its process group outlives this call, even when the call is cancelled; where it did not end well, nothing at all.
    """
    name = str(uuid4())
    mark = f"{_MARK}={name}".encode()
    marks = {_MARK: name, **({_OWNER: command.owner} if command.owner else {})}
    program = _Program(_start(command, {**command.environment, **marks}), command)
    well = False
    try:
        _under_way[mark] = program
        program.watch()
        in_time = await _within(program.over, command.timeout_s)
        if program.flooded or not in_time:
            program.signal(signal.SIGTERM)
        await _within(program.drained, GRACE_S)
        well = in_time and not program.flooded and program.ended_well()
    except asyncio.CancelledError:
        program.signal(signal.SIGTERM)
        await _within(program.drained, GRACE_S)  # which may be cancelled as well: then there is no grace
        raise
    finally:
        program.put_down()
        if not well:
            _end_marked({mark})
        del _under_way[mark]
        await _within(program.exited, REAPING_S)
    if program.flooded:
        bound = f"{command.most_stdout >> 20} MiB"
        raise ProcessFault(_with_end(f"the {command.called} prints more than {bound}", program.end_of_stderr), "flood")
    if not in_time:
        what = f"the {command.called} did not end within {command.timeout_s:g} s"
        raise ProcessFault(_with_end(what, program.end_of_stderr), "timeout")
    return program.outcome()


def end_all_of(owner: str) -> None:
    """End what programs of this owner have left behind, outside of their process groups too."""
    _end_marked({_owned_by(owner)})


def end_processes() -> None:
    """End every program that is under way, and all that they started. From any thread, when the process is to end."""
    programs = dict(_under_way)
    for program in programs.values():
        program.signal(signal.SIGKILL)
    if programs:
        _end_marked(programs.keys())


class Ended(Struct, frozen=True):
    """A program that ended by itself."""

    exit_code: int
    """Negative: the number of the signal that killed it."""
    stdout: str
    stderr: str
    """Only its end, where there was much."""
    is_utf8: bool = True
    """False if bytes of its standard output had to be replaced."""

    def how(self) -> str:
        """How it ended, in words."""
        if self.exit_code < 0:
            return f"was killed by {_signal_name(-self.exit_code)}"
        return f"ended with exit code {self.exit_code}"


class _Program:
    """A program under way: our ends of its pipes, and what came through them so far."""

    def __init__(self, process: subprocess.Popen[bytes], command: Command) -> None:
        self._loop = asyncio.get_running_loop()
        self._process = process
        # All three were asked for, so all three are there.
        self._pipes = cast("tuple[IO[bytes], ...]", (process.stdin, process.stdout, process.stderr))
        self._unsent = memoryview(command.stdin)
        self._room = command.most_stdout
        """How much more it may print."""
        self._printed = bytearray()
        self._complained = bytearray()
        self.exited: asyncio.Future[int] = self._loop.create_future()
        self.over: asyncio.Future[None] = self._loop.create_future()
        """There is no more to wait for: it exited, or it prints too much."""
        self.drained: asyncio.Future[None] = self._loop.create_future()
        """It exited, and no process holds its standard output or error any more."""

    @property
    def flooded(self) -> bool:
        """Does it print too much?"""
        return self._room < 0

    @property
    def end_of_stderr(self) -> str:
        return self._complained.decode(errors="replace")

    def ended_well(self) -> bool:
        """Did it end by itself, and without a complaint? A failing exit code alone is a verdict."""
        if not self.exited.done() or self.exited.result() < 0:
            return False
        return self.exited.result() == 0 or not self._complained.strip()

    def outcome(self) -> Ended:
        printed, is_utf8 = decode(self._printed)
        return Ended(self.exited.result(), printed, self.end_of_stderr, is_utf8)

    def watch(self) -> None:
        for pipe in self._pipes:
            os.set_blocking(pipe.fileno(), False)
        stdin, stdout, stderr = self._pipes
        self._loop.add_writer(stdin.fileno(), self._write, stdin)
        self._loop.add_reader(stdout.fileno(), self._read, stdout, self._take_stdout)
        self._loop.add_reader(stderr.fileno(), self._read, stderr, self._take_stderr)
        threading.Thread(target=self._wait, name="rejoinder-program", daemon=True).start()

    def signal(self, number: int) -> None:
        """Its group may be gone, or parts of it may belong to another user (sudo)."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, number)

    def put_down(self) -> None:
        """Needs no waiting, so that even a task that is cancelled again and again gets to the end of it."""
        self.signal(signal.SIGKILL)
        for pipe in self._pipes:
            _close(pipe, self._loop)

    def _wait(self) -> None:
        """In a thread of its own: the one way to wait for a process that works on every system and in every thread."""
        code = self._process.wait()
        with contextlib.suppress(RuntimeError):  # the loop is closed: there is no waiter any more
            self._loop.call_soon_threadsafe(self._exit, code)

    def _exit(self, code: int) -> None:
        self.exited.set_result(code)
        _fulfil(self.over)
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

    def _take_stdout(self, data: bytes) -> None:
        self._room -= len(data)
        if self.flooded:
            _fulfil(self.over)
        else:
            self._printed += data

    def _take_stderr(self, data: bytes) -> None:
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
        self._unsent = self._unsent[sent:]
        if not self._unsent:
            _close(pipe, self._loop)

    def _look_if_drained(self) -> None:
        if self.exited.done() and all(output.closed for output in self._pipes[1:]):
            _fulfil(self.drained)


def _close(pipe: IO[bytes], loop: asyncio.AbstractEventLoop) -> None:
    if not pipe.closed:
        loop.remove_reader(pipe.fileno())
        loop.remove_writer(pipe.fileno())
        pipe.close()


def decode(data: bytes | bytearray) -> tuple[str, bool]:
    """A text, and whether it was UTF-8; what is not is replaced."""
    try:
        return data.decode(), True
    except UnicodeDecodeError:
        return data.decode(errors="replace"), False


async def _within(future: asyncio.Future[Any], seconds: float | None) -> bool:
    """Whether it comes in time. Giving up leaves the future as it is."""
    await asyncio.wait([future], timeout=seconds)
    return future.done()


def _fulfil(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)


_MARK = "REJOINDER_SCRIPT"
_OWNER = "REJOINDER_OWNER"
_under_way: dict[bytes, _Program] = {}
"""Programs by their mark."""


def _end_marked(marks: AbstractSet[bytes]) -> None:
    """End what programs have started outside their process groups. What has such a mark in its environment is theirs.

    Only Linux shows the environment of others; elsewhere what leaves the group is left alone.
    """
    for _ in range(3):  # a process that was just being started is seen the next time
        found = False
        for process in _processes():
            with contextlib.suppress(OSError):
                if not marks.isdisjoint((process / "environ").read_bytes().split(b"\0")):
                    os.kill(int(process.name), signal.SIGKILL)
                    found = True
        if not found:
            return


def _owned_by(owner: str) -> bytes:
    return f"{_OWNER}={owner}".encode()


def _processes() -> list[Path]:
    try:
        return list(Path("/proc").glob("[0-9]*"))
    except OSError:  # too many open files
        return []


def _start(command: Command, environment: Mapping[str, str]) -> subprocess.Popen[bytes]:
    words, folder = command.words, command.folder
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


def end_of(text: str) -> str:
    """The last words of a program: they nearly always say what went wrong."""
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
