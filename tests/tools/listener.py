"""Servers of tools that keep what they are sent: headers over HTTP, or the variables of the program."""

from __future__ import annotations

from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from tests.tools import servers

PRINTS = """
import json, os, sys
def main():
    for line in sys.stdin:
        asked = json.loads(line)
        if "id" not in asked:
            continue
        reply = {"error": {"code": -32601, "message": "no"}}
        if asked["method"] == "initialize":
            reply = {"result": {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}},
                     "serverInfo": {"name": "s", "version": "1"}}}
        if asked["method"] == "tools/list":
            reply = {"result": {"tools": [{"name": "all", "inputSchema": {"type": "object"}}]}}
        if asked["method"] == "tools/call":
            reply = {"result": {"content": [{"type": "text", "text": json.dumps(dict(os.environ))}]}}
        print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], **reply}), flush=True)
main()
"""


class Listener(ThreadingHTTPServer):
    """A server of tools over HTTP that keeps the headers it is sent, and answers as ours do over their pipes."""

    def __init__(self) -> None:
        self.headers: list[dict[str, str]] = []
        super().__init__(("127.0.0.1", 0), _Handler)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/mcp"


class _Handler(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        import json

        assert isinstance(self.server, Listener)
        self.server.headers.append({name.lower(): value for name, value in self.headers.items()})
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if "id" not in asked:
            self._send(202, b"")
            return
        reply = {"jsonrpc": "2.0", "id": asked["id"], **servers.answer("fine", asked, 0)}
        self._send(200, json.dumps(reply).encode())

    def do_GET(self) -> None:
        self._send(405, b"")

    def do_DELETE(self) -> None:
        self._send(200, b"")

    def _send(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        pass
