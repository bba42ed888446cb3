"""A llama.cpp process that serves one weights file to all targets of a run."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
from pathlib import Path
from secrets import token_hex
from urllib.parse import urlsplit

import msgspec
from msgspec import Struct

from rejoinder.providers.base import ProviderError
from rejoinder.words.numbers import in_seconds

READY_S = 120.0
"""A cold disk and a large file take their time; a process that is silent for longer hangs."""
ENDING_S = 2.0
MOST_STARTS = 3
_KEPT = 1 << 15
"""Bytes kept of its standard error."""
_PASSED_ON = ("PATH", "HOME", "LANG", "LC_ALL", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "SYSTEMROOT", "TMPDIR")
"""Environment variables that it gets. It needs no keys."""


class Loading(Struct, frozen=True, kw_only=True):
    """A file to load and its parameters. Equal values share one process."""

    path: str
    name: str
    slots: int
    context: int
    """Tokens of one conversation."""
    threads: int
    embeds: bool = False
    pooling: str | None = None
    """The method that makes a text's vector from its tokens' vectors, if the file does not say."""


class _Ready(Struct):
    address: str


class LocalServer:
    def __init__(self, loading: Loading) -> None:
        self._loading = loading
        self._starting = asyncio.Lock()
        self._process: asyncio.subprocess.Process | None = None
        self._said = bytearray()
        self._listening: asyncio.Task[None] | None = None
        self._starts = 0
        self.key = token_hex(16)
        """Without a key, a web page that is open in a browser could call the server."""
        self.room = asyncio.Semaphore(loading.slots)
        """Calls wait here for a slot, where no time limit runs."""
        self._address = ""

    async def address(self) -> str:
        """The server's address; starts it if it is not running. Raises ProviderError if it cannot start."""
        async with self._starting:
            if self._process is None or self._process.returncode is not None:
                await self._start()
            return self._address

    async def has_ended(self) -> bool:
        """Whether its process has ended. After a broken call it may be about to end, so this waits a little."""
        process = self._process
        if process is None:
            return True
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(process.wait(), ENDING_S)
        return process.returncode is not None

    async def end_if_stuck(self) -> None:
        """End a process that does not answer a health request: it restarts for the next call."""
        process, address = self._process, self._address
        if process is None or process.returncode is not None or not await _is_silent(address):
            return
        with contextlib.suppress(ProcessLookupError):
            process.kill()

    async def _start(self) -> None:
        if self._starts >= MOST_STARTS:
            raise self._fault(f"it ended {self._starts} times")
        self._starts += 1
        self._said.clear()
        environment = {name: value for name in _PASSED_ON if (value := os.environ.get(name))}
        environment["GGML_NO_BACKTRACE"] = "1"  # else it would run a debugger on itself
        child = str(Path(__file__).with_name("local_child.py"))
        pipe = asyncio.subprocess.PIPE
        # -P: the folder of this file has modules with names from the standard library.
        self._process = process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-P", child),
            stdin=pipe,
            stdout=pipe,
            stderr=pipe,
            env=environment,
        )
        assert process.stdin and process.stdout and process.stderr
        self._listening = asyncio.create_task(self._listen(process.stderr))
        try:
            process.stdin.write(msgspec.json.encode({**msgspec.to_builtins(self._loading), "key": self.key}) + b"\n")
            line = await asyncio.wait_for(process.stdout.readline(), READY_S)
            self._address = msgspec.json.decode(line, type=_Ready).address
        except (TimeoutError, ConnectionError):
            await self.close()
            raise self._fault(f"it was not ready after {in_seconds(READY_S)}") from None
        except msgspec.MsgspecError:  # it said nothing and ended
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(process.wait(), ENDING_S)
            await self.close()
            raise self._fault(self._reason(process.returncode)) from None
        except BaseException:
            await self.close()
            raise

    async def _listen(self, stream: asyncio.StreamReader) -> None:
        while said := await stream.read(1 << 12):
            self._said += said[: _KEPT - len(self._said)]

    def _reason(self, code: int | None) -> str:
        """Why it ended, from its output and its exit code."""
        lines = self._said.decode(errors="replace").splitlines()
        if missing := next((line for line in lines if "No module named 'xllamacpp'" in line), None):
            return missing.strip()
        if library := next((line for line in lines if line.startswith(("ImportError:", "OSError:"))), None):
            return f"{library} (on Debian, `apt-get install libgomp1 libstdc++6`)"
        if any("alloc" in line for line in lines) or code in (-signal.SIGABRT, -signal.SIGKILL):
            return "there is too little memory for it; a smaller `context` or fewer `workers` need less"
        if code == -signal.SIGILL:
            return "this processor lacks instructions that llama.cpp was built with (AVX2)"
        if told := next((line for line in lines if " E " in line), None):
            return f"llama.cpp cannot load the file: {told.partition(' E ')[2].partition(': ')[2].strip()}"
        last = lines[-1].strip() if lines else "without a word"
        return f"its process ended with {code}: {last}"

    def _fault(self, reason: str) -> ProviderError:
        what = f"the local model {self._loading.path} does not run: {reason}"
        return ProviderError(what, type="local-model", ends_target=True)

    async def close(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        if process.stdin is not None:
            process.stdin.close()
        with contextlib.suppress(ProcessLookupError):
            process.kill()  # it has nothing to finish, and taking the server down may hang
        # A second signal may cancel us here. The process is dead already, so the end of the run can wait for it.
        ending = asyncio.ensure_future(self._reap(process))
        while True:
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.wait([ending], timeout=ENDING_S)
                return

    async def _reap(self, process: asyncio.subprocess.Process) -> None:
        await process.wait()
        if self._listening is not None:
            await self._listening


async def _is_silent(address: str) -> bool:
    """Whether a server leaves a health request unanswered. A busy one answers."""
    place = urlsplit(address)
    with contextlib.suppress(OSError, TimeoutError):
        async with asyncio.timeout(ENDING_S):
            reader, writer = await asyncio.open_connection(place.hostname, place.port)
            try:
                writer.write(f"GET /health HTTP/1.1\r\nHost: {place.netloc}\r\nConnection: close\r\n\r\n".encode())
                return not await reader.read(1)
            finally:
                writer.close()
    return True
