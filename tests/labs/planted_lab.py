"""A bot on a real socket with failures that a test plants in it: by case, in every trial or by chance. Targets of
several kinds reach it."""

from __future__ import annotations

import json
import sys
import threading
from collections import Counter
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from uuid import uuid4

from tests.kit import Project, Raw

CASES = 8
ASK = """
import json, sys, urllib.request

def ask(text):
    body = json.dumps({"message": text}).encode()
    with urllib.request.urlopen("URL", body) as answer:
        return json.load(answer)["reply"]

def reply(request):
    return ask(request.messages[-1].content)

if __name__ == "__main__":
    print(ask(sys.argv[1].strip()))
"""
"""The bot as code of the project: a function, and a command."""


class PlantedBot:
    """Answers `Question NAME` with `fine`, unless a failure is planted for NAME.

    `broken`: never right. `flaky`: wrong every other time. `down`: answers 500 every other time. `streams`: all replies
    are events. `forgets`: without the id of its session it has forgotten the question. `restarts`: how often it still
    loses its sessions before a later turn: it answers in a new one, and says `fine`."""

    def __init__(self) -> None:
        self.broken: set[str] = set()
        self.flaky: set[str] = set()
        self.down: set[str] = set()
        self.streams = self.forgets = False
        self.restarts = 0
        self.asked: Counter[str] = Counter()
        self._sessions: dict[str, str] = {}
        self._begun: set[str] = set()
        self._lock = threading.Lock()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02})

    def __enter__(self) -> PlantedBot:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}/chat"

    @property
    def openai_url(self) -> str:
        """Its address for clients of OpenAI's API."""
        return self.url.replace("/chat", "/v1")

    def session_for(self, asked: str | None) -> str:
        """The id of the session that it answers in."""
        with self._lock:
            if asked in self._begun and self.restarts:
                self.restarts -= 1
                self._begun.clear()
            session = asked if asked in self._begun else str(uuid4())
            self._begun.add(session)
        return session

    def answer(self, body: Raw) -> tuple[int, str]:
        """Status and reply."""
        with self._lock:
            session = body.get("session")
            text = str(body["messages"][-1]["content"] if "messages" in body else body["message"])
            name = text.removeprefix("Question ") if text.startswith("Question ") else ""
            if self.forgets and session:
                name = self._sessions.get(session, name)
            self.asked[name] += 1
            self._sessions[str(body.get("id"))] = name
            odd = self.asked[name] % 2 == 0
        if name in self.down and odd:
            return 500, "down"
        if not name:
            return 200, "What do you mean?"
        wrong = name in self.broken or (name in self.flaky and odd)
        return 200, "wrong" if wrong else "fine"

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        bot = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                status, reply = bot.answer(body)
                shown: Raw = {"reply": reply, "session": bot.session_for(body.get("session"))}
                if self.path.startswith("/v1/"):
                    message = {"role": "assistant", "content": reply}
                    shown = {"model": "own", "choices": [{"index": 0, "finish_reason": "stop", "message": message}]}
                kind, content = "application/json", json.dumps(shown)
                if bot.streams:
                    kind, content = "text/event-stream", f"data: {json.dumps({'delta': reply})}\n\ndata: [DONE]\n\n"
                self.send_response(status)
                self.send_header("Content-Type", kind)
                self.send_header("Content-Length", str(len(content.encode())))
                self.end_headers()
                self.wfile.write(content.encode())

            def log_message(self, format: str, *args: Any) -> None: ...

        return Handler


def _over_http(project: Project, bot: PlantedBot) -> Raw:
    body = {"message": "{{ prompt }}", "id": "{{ conversation_id }}"}
    path = {} if bot.streams else {"reply_path": "reply"}
    return {"provider": "http", "url": bot.url, "body": body, "max_retries": 0, **path}


def _like_openai(project: Project, bot: PlantedBot) -> Raw:
    return {"provider": "openai", "model": "own", "base_url": bot.openai_url, "api_key": "any", "max_retries": 0}


def _function(project: Project, bot: PlantedBot) -> Raw:
    project.write("planted.py", ASK.replace("URL", bot.url))
    return {"provider": "python", "call": "planted:reply"}


def _command(project: Project, bot: PlantedBot) -> Raw:
    project.write("planted.py", ASK.replace("URL", bot.url))
    folder = str(project.folder)
    return {"provider": "cli", "command": [sys.executable, "planted.py", "{PROMPT}"], "cwd": folder, "max_retries": 0}


KINDS: dict[str, Callable[[Project, PlantedBot], Raw]] = {
    "http": _over_http,
    "openai": _like_openai,
    "python": _function,
    "cli": _command,
}
"""Targets that reach the bot."""


def write_suite(project: Project, bot: PlantedBot, kind: str = "http", *, follows: bool = False, **more: Any) -> None:
    """A suite of some cases, each of which wants the word `fine` and not the word `wrong`. `more`: settings of its
    target."""
    target = {"name": "bot", **KINDS[kind](project, bot), **more}
    checks: list[Any] = [{"not": {"contains": "wrong"}}]
    checks += [] if bot.streams else [{"contains": "fine"}]
    if follows:
        checks.append({"prompt": "Once more, please.", "checks": [{"contains": "fine"}]})
    evals = [{"id": f"c{n}", "prompt": f"Question c{n}", "checks": checks} for n in range(CASES)]
    project.write("evals.yaml", {"targets": [target], "target": "bot", "evals": evals})


def write_suite_of_sessions(project: Project, bot: PlantedBot) -> None:
    """Cases of two turns, for a bot that keeps the conversation itself."""
    body = {"message": "Question {{ case_id }}", "session": "{{ session }}"}
    keeps = {"body": body, "history": "theirs", "session": {"json_path": "session"}}
    turns = [{"prompt": text, "checks": [{"contains": "fine"}]} for text in ("Hello", "Are you sure?")]
    evals = [{"id": f"c{n}", "turns": turns} for n in range(CASES)]
    target = {"name": "bot", **_over_http(project, bot), **keeps}
    project.write("evals.yaml", {"targets": [target], "target": "bot", "evals": evals})
