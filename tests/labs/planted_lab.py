"""A bot on a real socket with failures that a test plants in it: by case, in every trial or by chance."""

from __future__ import annotations

import json
import threading
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from tests.kit import Project, Raw

CASES = 8


class PlantedBot:
    """Answers `Question NAME` with `fine`, unless a failure is planted for NAME.

    `broken`: never right. `flaky`: wrong every other time. `down`: answers 500 every other time. `streams`: all replies
    are events. `forgets`: without the id of its session it has forgotten the question."""

    def __init__(self) -> None:
        self.broken: set[str] = set()
        self.flaky: set[str] = set()
        self.down: set[str] = set()
        self.streams = self.forgets = False
        self.asked: Counter[str] = Counter()
        self._sessions: dict[str, str] = {}
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

    def answer(self, body: Raw) -> tuple[int, str]:
        """Status and reply."""
        with self._lock:
            session, text = body.get("session"), str(body["message"])
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
                kind, content = "application/json", json.dumps({"reply": reply})
                if bot.streams:
                    kind, content = "text/event-stream", f"data: {json.dumps({'delta': reply})}\n\ndata: [DONE]\n\n"
                self.send_response(status)
                self.send_header("Content-Type", kind)
                self.send_header("Content-Length", str(len(content.encode())))
                self.end_headers()
                self.wfile.write(content.encode())

            def log_message(self, format: str, *args: Any) -> None: ...

        return Handler


def write_suite(project: Project, bot: PlantedBot, *, body: Raw | None = None, follows: bool = False) -> None:
    """A suite of some cases, each of which wants the word `fine` and not the word `wrong`."""
    target = {
        "name": "bot",
        "provider": "http",
        "url": bot.url,
        "body": body or {"message": "{{ prompt }}", "id": "{{ conversation_id }}"},
        "max_retries": 0,
    }
    if not bot.streams:
        target["reply_path"] = "reply"
    checks: list[Any] = [{"not": {"contains": "wrong"}}]
    checks += [] if bot.streams else [{"contains": "fine"}]
    if follows:
        checks.append({"prompt": "Once more, please.", "checks": [{"contains": "fine"}]})
    evals = [{"id": f"c{n}", "prompt": f"Question c{n}", "checks": checks} for n in range(CASES)]
    project.write("evals.yaml", {"targets": [target], "target": "bot", "evals": evals})
