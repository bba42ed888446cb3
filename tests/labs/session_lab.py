"""A bot that keeps conversations itself, on loopback, and remembers what it was sent.

`POST /chat` with a `message` begins a session or goes on in one: in that of `session`, or in that of `conversation`,
which is a name of the caller's. `POST /sessions` opens one, `DELETE /sessions/NAME` closes it.
"""

from __future__ import annotations

import itertools
import json
import threading
from collections.abc import Callable
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple

from tests.kit import Raw


class Heard(NamedTuple):
    """A request as it came in."""

    method: str
    path: str
    headers: dict[str, str]
    body: Any


Script = Callable[["Bot", Raw], Raw | int | None]
"""What becomes of a turn: an answer, a status, or None for the usual. It may wait."""


class Bot:
    """Counts the prompts of each session, and says so: `2: Hello`."""

    def __init__(self, script: Script = lambda _bot, _body: None) -> None:
        self.heard: list[Heard] = []
        self.sessions: dict[str, list[str]] = {}
        """The prompts of each session, in order."""
        self.closed: list[str] = []
        self.say = ""
        """What it says instead of the usual."""
        self.released = threading.Event()
        """Ends what a script waits for."""
        self._script = script
        self._names = map("s{}".format, itertools.count(1))
        self._lock = threading.Lock()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler_for(self))
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=lambda: self._server.serve_forever(0.02), daemon=True)

    def __enter__(self) -> Bot:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.released.set()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    @property
    def turns(self) -> list[Raw]:
        """The bodies of all turns."""
        return [one.body for one in self.heard if one.path.startswith("/chat")]

    def answer(self, one: Heard) -> tuple[int, Raw]:
        with self._lock:
            self.heard.append(one)
            if one.path == "/sessions":
                return 200, {"session": self._begin(next(self._names))}
            if one.method == "DELETE":
                self.closed.append(one.path.rpartition("/")[2])
                return 200, {}
            told = one.body.get("session") or one.headers.get("x-session") or one.body.get("conversation")
            said = self.sessions.setdefault(told or next(self._names), [])
            said.append(str(one.body.get("message")))
            session = next(name for name, words in self.sessions.items() if words is said)
        scripted = self._script(self, one.body)
        if scripted in (429, 503):  # it turns the turn away
            said.pop()
            if not said and not told:
                del self.sessions[session]
        if isinstance(scripted, int):
            return scripted, {"error": "as the script says"}
        return 200, scripted or {"reply": self.say or f"{len(said)}: {said[-1]}", "session": session}

    def _begin(self, name: str) -> str:
        self.sessions[name] = []
        return name


def _handler_for(bot: Bot) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            raw = self.rfile.read(int(self.headers.get("content-length") or 0))
            headers = {name.lower(): value for name, value in self.headers.items()}
            status, answer = bot.answer(Heard(self.command, self.path, headers, json.loads(raw) if raw else None))
            body = json.dumps(answer).encode()
            self.send_response(status)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(body)))
            if "session" in answer:
                self.send_header("x-session", answer["session"])
            with suppress(ConnectionError):  # who asked was killed
                self.end_headers()
                self.wfile.write(body)

        do_DELETE = do_POST

        def log_message(self, *_: object) -> None:
            pass

    return Handler


def chat(bot: Bot, **more: Any) -> Raw:
    """A target that knows the bot's sessions by the first answer."""
    body = {"message": "{{ prompt }}", "session": "{{ session }}"}
    return {
        "name": "bot",
        "provider": "http",
        "url": f"{bot.url}/chat",
        "history": "theirs",
        "body": body,
        "reply_path": "reply",
        "session": {"json_path": "session"},
        "close": {"url": f"{bot.url}/sessions/{{{{ session }}}}", "method": "DELETE"},
        "retry_initial_delay_ms": 1,
        **more,
    }
