"""A team's own bot as a service of a run: a real program on loopback, which can behave badly in many ways."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import Any

from tests.kit import Project, Raw, wait_until

BOT = r"""
import json, os, signal, subprocess, sys, time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

port, mode = int(sys.argv[1]), sys.argv[2] if len(sys.argv) > 2 else ""

def note(name, text):
    with open(name, "a") as file:
        file.write(f"{text}\n")

note("pids", os.getpid())
if mode == "children":
    note("pids", subprocess.Popen(["sleep", "300"]).pid)
    note("pids", subprocess.Popen(["sleep", "300"], start_new_session=True).pid)
if mode == "deaf":
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
if mode == "flood":
    os.write(1, b"x" * 3_000_000)
    for number in range(200_000):
        os.write(1, b"spam spam spam spam spam\n" * 4)
if mode == "exits":
    print("loading the model", flush=True)
    sys.exit("there is no model; key is " + os.environ.get("BOT_KEY", ""))
if mode == "never":
    print("still loading", flush=True)
    time.sleep(300)

class Bot(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def answer(self, body, status=200):
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        self.answer(b"{}", 503 if mode == "warming" and time.time() < begun + 0.5 else 200)

    def do_POST(self):
        asked = json.loads(self.rfile.read(int(self.headers["content-length"])))["q"]
        note("asked", asked)
        if asked == "die":
            print("out of memory", flush=True)
            os._exit(3)
        if asked == "wait":
            time.sleep(300)
        key = os.environ.get("BOT_KEY", "")
        if asked == "tell":
            print("the key is", key, flush=True)
        self.answer(json.dumps({"reply": f"You said {asked}. {key if asked == 'tell' else ''}"}).encode())

    def log_message(self, *_):
        pass

begun = time.time()
server = ThreadingHTTPServer(("127.0.0.1", port), Bot)
print("listening on", port, flush=True)
server.serve_forever()
"""


def free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return taken.getsockname()[1]


def bot(port: int, mode: str = "", name: str = "bot", **start: Any) -> Raw:
    """A target whose service is the bot, which lies in the project as `bot.py`."""
    address = f"http://127.0.0.1:{port}"
    service = {"command": ["python3", "bot.py", str(port), mode], "ready": f"{address}/health", **start}
    return {
        "name": name,
        "provider": "http",
        "url": f"{address}/chat",
        "body": {"q": "{{ prompt }}"},
        "reply_path": "reply",
        "max_retries": 1,
        "retry_initial_delay_ms": 1,
        "start": service,
    }


def suite_of(*targets: Raw, prompts: tuple[str, ...] = ("Hello",), **more: Any) -> Raw:
    """A suite that asks each target each prompt."""
    cases = [{"id": f"c{n}", "prompt": prompt, "checks": [{"contains": prompt}]} for n, prompt in enumerate(prompts)]
    return {"targets": [*targets], "target": [one["name"] for one in targets], "evals": cases, **more}


def pids(project: Project, count: int = 1) -> list[int]:
    """The processes of the bots that were started, in their order."""

    def read() -> list[int]:
        path = project.folder / "pids"
        found = [int(line) for line in path.read_text().splitlines()] if path.exists() else []
        return found if len(found) >= count else []

    return wait_until(read, "no bot was started")


def log_of(run: Path) -> str:
    return (run / "service.log").read_text()
