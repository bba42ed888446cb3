"""Tools that keep a durable record of every call they got: a function, and real MCP servers over pipes and over HTTP.

A record is a line of `calls.txt`, on the disk before the tool does anything else. A call with the word `wait` has no
answer until there is a file `go`.
"""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from msgspec import Struct

from tests.kit import Project, Raw, wait_until

KINDS = ("python", "stdio", "http")

FUNCTION = """
import os, time
from pathlib import Path


def note(word: str) -> str:
    "Writes a word down."
    with open("calls.txt", "a") as file:
        file.write(word + chr(10))
        file.flush()
        os.fsync(file.fileno())
    while word == "wait" and not Path("go").exists():
        time.sleep(0.05)
    time.sleep(0.01)
    return f"{word} is noted"
"""

SERVER = """
import os, socket, sys
from pathlib import Path

import anyio
from mcp.server.mcpserver import MCPServer

server = MCPServer("notes", log_level="ERROR")


@server.tool()
async def note(word: str) -> str:
    "Writes a word down."
    with open("calls.txt", "a") as file:
        file.write(word + chr(10))
        file.flush()
        os.fsync(file.fileno())
    while word == "wait" and not Path("go").exists():
        await anyio.sleep(0.05)
    await anyio.sleep(0.01)
    return f"{word} is noted"


if __name__ == "__main__":
    with open("pids.txt", "a") as file:
        file.write(f"{os.getpid()} ")
    if sys.argv[1:] == ["http"]:
        import uvicorn

        heard = socket.socket()
        heard.bind(("127.0.0.1", 0))
        heard.listen()
        config = uvicorn.Config(server.streamable_http_app(), log_level="error")
        Path("port.new").write_text(str(heard.getsockname()[1]))
        Path("port.new").rename("port.txt")
        uvicorn.Server(config).run(sockets=[heard])
    else:
        server.run("stdio")
"""


class Notes(Struct, frozen=True):
    """A tool that writes words down, in a folder."""

    folder: Path
    tool: Raw
    """As a suite declares it."""
    name: str
    """As a model calls it."""

    def call(self, *words: str) -> Raw:
        """A reply that calls it with each of these words."""
        return {"tool_calls": [{"name": self.name, "arguments": {"word": word}} for word in words]}

    def made(self) -> Counter[str]:
        """How often it was called with each word."""
        path = self.folder / "calls.txt"
        return Counter(path.read_text().split()) if path.exists() else Counter()

    def pids(self) -> list[int]:
        """Of the servers that runs have started."""
        path = self.folder / "pids.txt"
        return [int(pid) for pid in path.read_text().split()] if path.exists() else []


@contextmanager
def noting(project: Project, kind: str) -> Generator[Notes]:
    """The tool of a kind, as long as it is needed; a server over HTTP outlives runs, the others belong to them."""
    if kind == "python":
        project.write("noting_tools.py", FUNCTION)
        yield Notes(project.folder, {"python": "noting_tools:note"}, "note")
        return
    script = project.write("notes_server.py", SERVER)
    if kind == "stdio":
        mcp = {"name": "notes", "command": sys.executable, "args": [script.name]}
        yield Notes(project.folder, {"mcp": mcp}, "notes__note")
        return
    with _served(project.folder, script) as port:
        yield Notes(project.folder, {"mcp": {"name": "notes", "url": f"http://127.0.0.1:{port}/mcp"}}, "notes__note")


@contextmanager
def _served(folder: Path, script: Path) -> Generator[str]:
    server = subprocess.Popen([sys.executable, script.name, "http"], cwd=folder, stdin=subprocess.DEVNULL)
    try:
        port = folder / "port.txt"
        wait_until(lambda: port.exists() or server.poll() is not None, "the server did not start")
        (folder / "pids.txt").unlink()  # it is none of a run
        yield port.read_text()
    finally:
        server.kill()
        server.wait()
