# ruff: noqa: T201, PTH123 - it is a program, and starts at once
"""MCP servers for tests: the real ones of the official package, and ones of ours that misbehave as their first argument
says. Run as a program it is a server that speaks over its pipes, and it imports nothing that takes time."""

from __future__ import annotations

import json
import os
import sys
import time
from typing import Any

Json = dict[str, Any]
LISTED: list[Json] = [
    {
        "name": "look",
        "description": "Looks something up.",
        "inputSchema": {"type": "object", "properties": {"word": {"type": "string"}}, "required": ["word"]},
    },
    {"name": "drop", "inputSchema": {"type": "object"}},
]
PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="

OFFICIAL = '''
import os, sys
from mcp.server.mcpserver import MCPServer

server = MCPServer("weather")


@server.tool()
def forecast(city: str, days: int = 1) -> str:
    """The weather of a city."""
    if city == "Atlantis":
        raise ValueError("there is no such city")
    return f"{city}: rain for {days} days"


@server.tool()
def variables() -> dict[str, str]:
    """What the server has in its environment."""
    return dict(os.environ)


if __name__ == "__main__":
    if sys.argv[1:]:
        import uvicorn

        uvicorn.run(server.streamable_http_app(), host="127.0.0.1", port=int(sys.argv[1]), log_level="error")
    else:
        server.run("stdio")
'''


def main(behaviour: str, note: str = "") -> None:
    if note:
        with open(note, "a") as file:
            file.write(f"{os.getpid()}\n")
    if behaviour == "refuse":
        print("no licence found", file=sys.stderr)
        sys.exit(3)
    if behaviour == "chatty":
        print("Welcome!", flush=True)
        behaviour = "silent"
    if behaviour == "endless-line-at-start":
        while True:
            sys.stdout.write("x" * 65536)
    calls = 0
    for line in sys.stdin:
        if behaviour == "silent":
            continue
        asked = json.loads(line)
        if "id" not in asked:
            continue
        if asked["method"] == "tools/call":
            calls += 1
            if note:
                open(f"{note}.called", "w").close()
        reply = answer(behaviour, asked, calls)
        print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], **reply}), flush=True)


def answer(behaviour: str, asked: Json, calls: int) -> Json:
    method = asked["method"]
    if method == "initialize":
        told = {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}}
        return {"result": {**told, "serverInfo": {"name": "ours", "version": "1"}}}
    if method == "tools/list" and behaviour == "pages":
        time.sleep(0.2)
        return {"result": {"tools": [], "nextCursor": "next"}}
    if method == "tools/list":
        return {"result": {"tools": listed(behaviour, calls)}}
    if method == "tools/call":
        return called(behaviour, asked["params"])
    return {"error": {"code": -32601, "message": "no such method"}}


def listed(behaviour: str, calls: int) -> list[Json]:
    if behaviour == "many":
        return [{**LISTED[1], "name": f"tool{number}"} for number in range(10_000)]
    if behaviour == "very-many":
        return [{**LISTED[1], "name": f"tool{number}"} for number in range(200_000)]
    if behaviour == "none":
        return []
    if behaviour == "rubbish":
        return [{"name": 5}]
    if behaviour == "long":
        return [{**LISTED[0], "description": "x" * 100_000}]
    if behaviour == "rename" and calls:
        return [{**LISTED[0], "name": "look_up"}]
    return LISTED


def called(behaviour: str, params: Json) -> Json:
    if behaviour == "crash":
        print("out of cheese", file=sys.stderr, flush=True)
        os._exit(7)
    if behaviour == "hang":
        time.sleep(600)
    if behaviour == "late":
        time.sleep(1.5)
    if behaviour == "endless-line":
        while True:
            sys.stdout.write("x" * 65536)
    if behaviour == "endless-lines":
        note = json.dumps({"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "info", "data": 1}})
        while True:
            print(note)
    if behaviour == "long-line":
        return {"result": {"content": [{"type": "text", "text": "x" * 200_000_000}]}}
    if behaviour == "many-values":
        return {"result": {"content": [], "structuredContent": {"found": [[]] * 2_000_000}}}
    if behaviour == "picture":
        return {"result": {"content": [{"type": "image", "data": "A" * 11_000_000, "mimeType": "image/png"}]}}
    if behaviour == "rename" or params["name"] not in ("look", "drop"):
        return {"error": {"code": -32602, "message": f"unknown tool {params['name']}"}}
    if behaviour == "image":
        picture = {"type": "image", "data": PIXEL, "mimeType": "image/png"}
        return {"result": {"content": [{"type": "text", "text": "a dot"}, picture]}}
    if behaviour == "broken-images":
        images = [{"data": "no base64", "mimeType": "image/png"}, {"data": PIXEL, "mimeType": "text/html"}]
        return {"result": {"content": [{"type": "image", **image} for image in images]}}
    if behaviour == "odd-note":
        print(json.dumps({"jsonrpc": "2.0", "method": "notifications/progress", "params": {"\x1b[31m": 1}}), flush=True)
    if behaviour == "structured":
        return {"result": {"content": [], "structuredContent": {"found": [1, 2]}}}
    if behaviour == "garbage":
        return {"result": {"content": "no list"}}
    if behaviour == "large":
        return {"result": {"content": [{"type": "text", "text": "x" * 3_000_000}]}}
    word = params["arguments"].get("word", "")
    return {"result": {"content": [{"type": "text", "text": f"{word} means {len(word)}"}], "isError": word == "bad"}}


if __name__ == "__main__":
    main(*sys.argv[1:])
