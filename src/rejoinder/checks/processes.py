"""Scripts of the user's own: started, fed, read and, whatever they do, ended together with all they started.

The pipes are watched by hand, not by asyncio's subprocess transports. Depending on Python's version, those give a
script a socket as its standard input, which cannot be opened as /dev/stdin, or wait for other processes that hold the
pipes; and when they are cancelled while they start a script, they kill the script alone.
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
from typing import IO, Any, cast
from uuid import uuid4

import msgspec
from msgspec import UNSET, Struct

from rejoinder.checks.base import CheckFault
from rejoinder.checks.user_verdicts import WANTED, read_opinion
from rejoinder.errors import lacks_descriptors, reason_of
from rejoinder.model import Opinion

MOST_STDOUT = 1 << 20
MOST_STDERR = 64 << 10
GRACE_S = 1.0
"""How long a script may take to end when it is asked to, and what it left behind may hold the pipes open."""
REAPING_S = 5.0
"""A killed process is gone at once, unless the system itself keeps it (a dead network disk)."""
_CHUNK = 64 << 10
_LONGEST_QUOTE = 200
_LONGEST_END = 600
_LAST_LINES = 10


async def run_script(
    words: tuple[str, ...], folder: Path, stdin: bytes, timeout_s: float, environment: Mapping[str, str] = os.environ
) -> Ended:
    """Run a command to its end: one word is a line for the shell, several are the words of a program.

    Raises CheckFault where it cannot be started, does not end in time or prints too much. Nothing that it started in
    its process group outlives this call, even when the call is cancelled; where it did not end well, nothing at all.
    """
    name = str(uuid4())
    mark = f"{_MARK}={name}".encode()
    script = _Script(_start(words, folder, {**environment, _MARK: name}), stdin)
    well = False
    try:
        _under_way[mark] = script
        script.watch()
        in_time = await _within(script.over, timeout_s)
        if script.flooded or not in_time:
            script.signal(signal.SIGTERM)
        await _within(script.drained, GRACE_S)
        well = in_time and not script.flooded and script.ended_well()
    finally:
        script.put_down()
        if not well:
            _end_marked({mark})
        del _under_way[mark]
        await _within(script.exited, REAPING_S)
    if script.flooded:
        raise _fault("the script prints more than 1 MiB", script.end_of_stderr)
    if not in_time:
        raise _fault(f"the script did not end within {timeout_s:g} s", script.end_of_stderr)
    return script.outcome()


def end_scripts() -> None:
    """End every script that is under way, and all that they started. From any thread, when the process is to end."""
    scripts = dict(_under_way)
    for script in scripts.values():
        script.signal(signal.SIGKILL)
    if scripts:
        _end_marked(scripts.keys())


class Ended(Struct, frozen=True):
    """A script that ended by itself."""

    exit_code: int
    """Negative: the number of the signal that killed it."""
    stdout: str
    stderr: str
    """Only its end, where there was much."""

    def opinion(self) -> Opinion:
        """Its verdict: the JSON that it printed or, where it printed none, its exit code. Raises CheckFault."""
        printed = self.stdout.strip()
        if self.exit_code < 0:
            raise _fault(f"the script was killed by {_signal_name(-self.exit_code)}", self.stderr)
        if self.exit_code > 0:
            return self._refusal(printed)
        return self._verdict(printed) if printed else Opinion(passed=True)

    def _refusal(self, printed: str) -> Opinion:
        """A script that fails on purpose says why in plain words, if at all. One that complains on standard error has
        crashed, and one that prints a verdict and fails nonetheless contradicts itself."""
        if self.stderr.strip():
            raise _fault(f"the script ended with exit code {self.exit_code}", self.stderr)
        if _found(printed) is not UNSET:
            raise CheckFault(
                f"the script ended with exit code {self.exit_code} although it printed {_quoted(printed)}; "
                "a script that prints its verdict ends with 0"
            )
        return Opinion(passed=False, reason=_beginning(printed, _LONGEST_END) or f"exit code {self.exit_code}")

    def _verdict(self, printed: str) -> Opinion:
        value = _found(printed)
        if not isinstance(value, bool | int | float | dict):
            wanted = "JSON is expected: an object with `score` or `passed`, true or false, or a number from 0 to 1"
            raise _fault(f"the script printed {_quoted(printed)}; {wanted}", self.stderr, "; standard error: ")
        try:
            return read_opinion(_forgiven(value))
        except CheckFault as fault:
            raise _fault(f"the script {fault}", self.stderr, "; standard error: ") from None
        except RecursionError:
            raise CheckFault(f"the script printed JSON that is nested too deeply; {WANTED} is expected") from None


class _Script:
    """A script under way: our ends of its pipes, and what came through them so far."""

    def __init__(self, process: subprocess.Popen[bytes], stdin: bytes) -> None:
        self._loop = asyncio.get_running_loop()
        self._process = process
        # All three were asked for, so all three are there.
        self._pipes = cast("tuple[IO[bytes], ...]", (process.stdin, process.stdout, process.stderr))
        self._unsent = memoryview(stdin)
        self._printed = bytearray()
        self._complained = bytearray()
        self.flooded = False
        self.exited: asyncio.Future[int] = self._loop.create_future()
        self.over: asyncio.Future[None] = self._loop.create_future()
        """There is no more to wait for: it exited, or it prints too much."""
        self.drained: asyncio.Future[None] = self._loop.create_future()
        """It exited, and no process holds its standard output or error any more."""

    @property
    def end_of_stderr(self) -> str:
        return self._complained.decode(errors="replace")

    def ended_well(self) -> bool:
        """Did it end by itself, and without a complaint? A failing exit code alone is a verdict."""
        if not self.exited.done() or self.exited.result() < 0:
            return False
        return self.exited.result() == 0 or not self._complained.strip()

    def outcome(self) -> Ended:
        return Ended(self.exited.result(), self._printed.decode(errors="replace"), self.end_of_stderr)

    def watch(self) -> None:
        for pipe in self._pipes:
            os.set_blocking(pipe.fileno(), False)
        stdin, stdout, stderr = self._pipes
        self._loop.add_writer(stdin.fileno(), self._write, stdin)
        self._loop.add_reader(stdout.fileno(), self._read, stdout, self._take_stdout)
        self._loop.add_reader(stderr.fileno(), self._read, stderr, self._take_stderr)
        threading.Thread(target=self._wait, name="rejoinder-script", daemon=True).start()

    def signal(self, number: int) -> None:
        """Its group may be gone, or parts of it may belong to another user (sudo)."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, number)

    def put_down(self) -> None:
        """Needs no waiting, so that even a task that is cancelled again and again gets to the end of it."""
        self.signal(signal.SIGKILL)
        for pipe in self._pipes:
            self._close(pipe)

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
            self._close(pipe)
            self._look_if_drained()

    def _take_stdout(self, data: bytes) -> None:
        if len(self._printed) + len(data) > MOST_STDOUT:
            self.flooded = True
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
            self._close(pipe)

    def _close(self, pipe: IO[bytes]) -> None:
        if not pipe.closed:
            self._loop.remove_reader(pipe.fileno())
            self._loop.remove_writer(pipe.fileno())
            pipe.close()

    def _look_if_drained(self) -> None:
        if self.exited.done() and all(output.closed for output in self._pipes[1:]):
            _fulfil(self.drained)


async def _within(future: asyncio.Future[Any], seconds: float) -> bool:
    """Whether it comes in time. Giving up leaves the future as it is."""
    await asyncio.wait([future], timeout=seconds)
    return future.done()


def _fulfil(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)


_MARK = "REJOINDER_SCRIPT"
_under_way: dict[bytes, _Script] = {}
"""Scripts by their mark."""


def _end_marked(marks: AbstractSet[bytes]) -> None:
    """End what scripts have started outside their process groups. What has such a mark in its environment is theirs.

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


def _processes() -> list[Path]:
    try:
        return list(Path("/proc").glob("[0-9]*"))
    except OSError:  # too many open files
        return []


def _start(words: tuple[str, ...], folder: Path, environment: Mapping[str, str]) -> subprocess.Popen[bytes]:
    if not words or not words[0].strip():  # the shell would run nothing, and pass
        raise CheckFault("there is no command to run")
    command = ("sh", "-c", *words) if len(words) == 1 else words
    try:
        return subprocess.Popen(
            command,
            bufsize=0,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=folder,
            env=environment,
            start_new_session=True,
        )
    except (OSError, ValueError) as error:
        raise CheckFault(_why_not(command[0], folder, error)) from None


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


def _found(printed: str) -> Any:
    """The JSON that was printed: all of it or, as scripts may log before it, the object on the last line; UNSET where
    there is none."""
    value = _json(printed)
    if value is not UNSET:
        return value
    last = _json(printed.rpartition("\n")[2])
    return last if isinstance(last, dict) else UNSET


def _json(text: str) -> Any:
    try:
        return msgspec.json.decode(text)
    except (ValueError, RecursionError):
        return UNSET


def _forgiven(value: Any) -> Any:
    """Scripts count points: AgentV reads more than all as all, and less than none as none, and so do we."""
    if isinstance(value, dict):
        return {**value, "score": _clamped(value["score"])} if "score" in value else value
    return _clamped(value)


def _clamped(value: Any) -> Any:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return value
    return min(max(value, 0), 1)  # JSON knows no NaN


def _fault(what: str, stderr: str, before: str = ": ") -> CheckFault:
    """What is wrong, with the last words of the script: they nearly always say why."""
    end = "\n".join(stderr.strip().splitlines()[-_LAST_LINES:])
    if len(end) > _LONGEST_END:
        end = f"...{end[-_LONGEST_END:]}"
    return CheckFault(f"{what}{before}{end}" if end else what)


def _quoted(text: str) -> str:
    return repr(_beginning(text, _LONGEST_QUOTE))


def _beginning(text: str, length: int) -> str:
    return text if len(text) <= length else f"{text[:length]}..."


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
