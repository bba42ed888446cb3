"""What tests of the server share: the application asked in this process, and the command as a process."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest
from msgspec import structs

from rejoinder.client import Server
from rejoinder.server.app import make_app
from rejoinder.server.jobs import Job
from rejoinder.server.settings import Settings
from tests.kit import Project

READY = re.compile(rb"viewer at (\S+)")
PATIENCE_S = 60.0


def settings(folder: Path, **changes: Any) -> Settings:
    return structs.replace(Settings(root=folder), **changes)


def ask(of: Settings, method: str, path: str, **request: Any) -> httpx.Response:
    """One request, as a browser or a program on this machine sends it. The queue does not work."""

    async def send() -> httpx.Response:
        transport = httpx.ASGITransport(make_app(of), raise_app_exceptions=False)
        base = f"http://127.0.0.1:{of.port}"
        async with httpx.AsyncClient(transport=transport, base_url=base) as client:
            return await client.request(method, path, **request)

    return asyncio.run(send())


def api(of: Settings, method: str, path: str, body: Any = None, **request: Any) -> httpx.Response:
    """A request of the API; a change has a body."""
    headers = {"Content-Type": "application/json", **request.pop("headers", {})}
    content = None if body is None else json.dumps(body)
    return ask(of, method, f"/api/v1{path}", headers=headers, content=content, **request)


class Served:
    """`rejoinder view` as a process of its own."""

    def __init__(self, folder: Path, *arguments: str, **environment: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "rejoinder", "view", "--no-browser", "--port", "0", *arguments],
            cwd=folder,
            env={**os.environ, **environment},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        found = READY.match(line)
        assert found is not None, (line, self.process.communicate())
        self.url = found[1].decode()
        self.server = Server(self.url)

    def kill(self) -> None:
        """As when the machine takes it away: nothing can be tidied up."""
        self.process.send_signal(signal.SIGKILL)
        self._end()

    def stop(self) -> tuple[int, str]:
        """As with Ctrl-C; its exit code, and what it said on standard error."""
        self.process.send_signal(signal.SIGINT)
        return self._end()

    def close(self) -> tuple[int, str]:
        """What became of a process that has ended; its pipes are closed."""
        if self.process.stderr is None or self.process.stderr.closed:
            return self.process.returncode, ""
        return self._end()

    def _end(self) -> tuple[int, str]:
        _, said = self.process.communicate(timeout=PATIENCE_S)
        return self.process.returncode, said.decode()


@contextlib.contextmanager
def serving(folder: Path, *arguments: str, **environment: str) -> Iterator[Served]:
    served = Served(folder, *arguments, **environment)
    try:
        yield served
    finally:
        ended = served.process.poll()
        _, said = served.stop() if ended is None else served.close()
        if ended not in (None, -signal.SIGKILL, 0):
            sys.stderr.write(f"the server ended by itself with {ended}:\n{said}\n")


def play(folder: Path, run: str, job: Job) -> tuple[int, str]:
    """Do a job in the process of a queued run; its exit code, and what it said."""
    command = [sys.executable, "-P", "-m", "rejoinder.server.worker_process", run]
    with subprocess.Popen(command, cwd=folder, stdin=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdin is not None and process.stderr is not None
        process.stdin.write(msgspec.json.encode(job) + b"\n")
        process.stdin.flush()  # and it stays open, as a server keeps it
        said = process.stderr.read().decode()
        return process.wait(PATIENCE_S), said


def children_of(pid: int) -> list[int]:
    """The processes that a process has started."""
    return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def wait_until(holds: Any, seconds: float = PATIENCE_S) -> None:
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, "it did not come about"
        time.sleep(0.02)


def scripted(cases: int = 2, *, delay_ms: int = 0, name: str = "numbers") -> dict[str, Any]:
    """A suite with a target of its own that answers at once, or slowly."""
    return {
        "name": name,
        "targets": [{"name": "s", "provider": "scripted", "replies": [{"text": "one two", "delay_ms": delay_ms}]}],
        "target": "s",
        "evals": [{"id": f"c{number}", "prompt": "Count.", "checks": [{"contains": "one"}]} for number in range(cases)],
    }


@contextlib.contextmanager
def shared_project(folder: Path) -> Iterator[Project]:
    """A project that several tests look at, or copy."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        (folder / ".rejoinder").mkdir()
        yield Project(folder)


class Listener:
    """A port on this machine that counts who comes."""

    def __init__(self) -> None:
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.socket.setblocking(False)
        self.url = f"http://127.0.0.1:{self.socket.getsockname()[1]}/"

    @property
    def was_reached(self) -> bool:
        try:
            self.socket.accept()[0].close()
        except BlockingIOError:
            return False
        return True
