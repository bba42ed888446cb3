"""A stand-in for an issue tracker's MCP server: the official package, over HTTP on loopback, for those with a token."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from msgspec import Struct

from tests.kit import wait_until

TOKEN = "lin_walnut_4711_abcdef"

SERVER = '''
import socket, sys
from pathlib import Path

import uvicorn
from mcp.server.mcpserver import MCPServer
from starlette.responses import PlainTextResponse

folder, token = Path(sys.argv[1]), sys.argv[2]
server = MCPServer("tracker", log_level="ERROR")
issues = {"REJ-1": "Say hello", "REJ-2": "Say goodbye"}


@server.tool()
def list_issues() -> str:
    """List the issues, the newest first."""
    return "; ".join(f"{number} {title}" for number, title in reversed(issues.items()))


@server.tool()
def get_issue(id: str) -> str:
    """Look an issue up."""
    if id not in issues:
        raise ValueError(f"there is no issue {id}")
    return f"{id} {issues[id]}"


@server.tool()
def create_issue(title: str) -> str:
    """Create an issue."""
    number = f"REJ-{len(issues) + 1}"
    issues[number] = title
    return f"{number} {title}"


class Guarded:
    def __init__(self, app):
        self.app = app

    async def __call__(self, scope, receive, send):
        if scope["type"] == "http":
            given = dict(scope["headers"]).get(b"authorization", b"").decode()
            with (folder / "callers.txt").open("a") as file:
                file.write(given + chr(10))
            if given != f"Bearer {token}":
                return await PlainTextResponse("no valid token", 401)(scope, receive, send)
        await self.app(scope, receive, send)


heard = socket.socket()
heard.bind(("127.0.0.1", 0))
heard.listen()
(folder / "port.new").write_text(str(heard.getsockname()[1]))
(folder / "port.new").rename(folder / "port.txt")
uvicorn.Server(uvicorn.Config(Guarded(server.streamable_http_app()), log_level="error")).run(sockets=[heard])
'''


class Tracker(Struct, frozen=True):
    url: str
    folder: Path

    def callers(self) -> set[str]:
        """What requests had in their header `Authorization`."""
        return set((self.folder / "callers.txt").read_text().splitlines())


@contextmanager
def tracker() -> Generator[Tracker]:
    """A server that lets callers with TOKEN in."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        program = [sys.executable, "-c", SERVER, name, TOKEN]
        process = subprocess.Popen(program, stdin=subprocess.DEVNULL)
        try:
            wait_until(lambda: (folder / "port.txt").exists() or process.poll() is not None, "it did not start")
            yield Tracker(f"http://127.0.0.1:{(folder / 'port.txt').read_text()}/mcp", folder)
        finally:
            process.kill()
            process.wait()
