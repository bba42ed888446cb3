"""Runs the frameworks' bots of a folder against a fake OpenAI server, in an environment that has those frameworks.

It is started by `tests/docs/test_recipes.py`, and knows nothing of pytest. Nothing but loopback can be reached.
"""

from __future__ import annotations

import json
import os
import socket
import sys
from pathlib import Path
from typing import Any

import rejoinder
from rejoinder.testing import Answer, FakeServer, Received

BOTS: dict[str, dict[str, Any]] = {
    "langgraph_bot:ask": {"history": "theirs"},
    "agents_bot:Bot": {},
    "pydantic_bot:Bot": {},
}
_connect = socket.socket.connect
_find = socket.getaddrinfo
elsewhere: list[str] = []


def connect(self: socket.socket, address: Any) -> None:
    refuse(address[0])
    _connect(self, address)


def find(host: Any, *rest: Any, **named: Any) -> Any:
    refuse(host)
    return _find(host, *rest, **named)


def refuse(host: Any) -> None:
    if host not in ("127.0.0.1", "localhost", b"127.0.0.1"):
        elsewhere.append(str(host))
        raise OSError(f"{host} is not this machine")


def answer(request: Received) -> Answer:
    said = request.body.get("messages") or request.body["input"]
    users = [one for one in said if one.get("role") == "user"]
    return Answer(f"turn {len(users)} of {len(said)}")


def main() -> None:
    socket.socket.connect, socket.getaddrinfo = connect, find
    os.chdir(sys.argv[1])
    turns = [{"prompt": f"Question {n}", "checks": [{"match": f"turn {n} of *"}]} for n in (1, 2, 3)]
    found: dict[str, Any] = {}
    with FakeServer(answer) as server:
        os.environ.update(OPENAI_BASE_URL=server.openai_url, OPENAI_API_KEY="a-fake-key")
        for call, more in BOTS.items():
            target = {"name": "bot", "provider": "python", "call": call, **more}
            suite = {"targets": [target], "evals": [{"id": "talk", "turns": turns}]}
            Path("evals.yaml").write_text(json.dumps(suite))
            report = rejoinder.run("evals.yaml", repeat=2)
            found[call] = [
                [result.status, [turn.response for turn in result.turns], result.error and result.error.message]
                for result in report.results
            ]
    sys.stdout.write(json.dumps({"results": found, "elsewhere": elsewhere}))


if __name__ == "__main__":
    main()
