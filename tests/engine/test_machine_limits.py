"""A machine at its limits: too many open files, files that may not grow, a folder that is deleted during a run. The
message says what is wrong and what to do, and what can go on goes on."""

from __future__ import annotations

import errno
import json
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from rejoinder.errors import remedy_for
from tests.kit import Ended, Project, command_line, run_process, scripted

pytestmark = pytest.mark.slow

ANSWER = {
    "model": "m",
    "choices": [{"index": 0, "message": {"role": "assistant", "content": "x"}, "finish_reason": "stop"}],
    "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2},
}


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["content-length"]))
        time.sleep(0.5)  # so that many are under way at the same time
        body = json.dumps(ANSWER).encode()
        self.send_response(200)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        pass


class Server(ThreadingHTTPServer):
    request_queue_size = 200
    daemon_threads = True

    def handle_error(self, *_: Any) -> None:
        pass  # the client has gone


@pytest.fixture
def address() -> Iterator[str]:
    with Server(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}/v1"
        server.shutdown()


def run_limited(project: Project, limit: str, *arguments: str) -> Ended:
    line = f'ulimit {limit}; exec "$@"'
    return run_process(project.folder, command=["sh", "-c", line, "sh", *command_line(*arguments)])


@pytest.mark.parametrize("check", [{"contains": "x"}, {"code": "echo true"}, {"python": "own:check"}], ids=str)
def test_too_many_open_files_are_an_error_of_a_conversation(project: Project, address: str, check: Any) -> None:
    project.write("own.py", "def check(context):\n    return True\n")
    target = {"name": "m", "provider": "openai", "model": "gpt-x", "base_url": address, "api_key": "k"}
    cases = [{"id": f"case {number}", "prompt": "Hi", "checks": [check]} for number in range(80)]
    project.write("evals.yaml", {"targets": [target], "target": "m", "evals": cases})
    ended = run_limited(project, "-n 40", "run", "--workers", "80", "--max-retries", "0", "--format", "json")
    assert ended.code == 3, ended.err
    document = ended.document
    assert document["run"]["status"] == "completed"
    errors = [result["error"]["message"] for result in document["results"] if result["status"] == "error"]
    assert errors
    remedy = "raise the limit (`ulimit -n 4096`) or use fewer --workers"
    assert all("too many open files" in one.lower() for one in errors)
    assert any(remedy in one for one in errors)
    assert "Make room" not in ended.out + ended.err
    resumed = run_limited(project, "-n 1000", "resume", "--retry-errors", "--format", "json")
    assert resumed.document["summary"]["passed"] == 80, resumed.err


@pytest.mark.parametrize("record", [(), ("--record", "cassettes")], ids=["plain", "recording"])
def test_files_that_may_not_grow_are_named_with_the_right_remedy(project: Project, record: tuple[str, ...]) -> None:
    target = scripted("m", "x" * 10_000)
    cases = [{"id": f"case {number}", "prompt": "Hi", "checks": [{"contains": "x"}]} for number in range(200)]
    project.write("evals.yaml", {"targets": [target], "target": "m", "evals": cases})
    ended = run_limited(project, "-f 1000", "run", *record)
    assert ended.code == 3
    assert "cannot be written: file too large" in ended.err
    assert "Everything recorded is safe. Now raise the limit for the size of files" in ended.err
    assert project.run_json("resume")["summary"]["passed"] == 200


def test_a_folder_that_is_deleted_during_the_run_is_not_said_to_be_safe(project: Project) -> None:
    project.write(
        "bot.py", "import shutil\ndef reply(request):\n    shutil.rmtree('.rejoinder/runs')\n    return 'x'\n"
    )
    target = {"name": "bot", "provider": "python", "call": "bot:reply"}
    suite = {"targets": [target], "target": "bot", "evals": [{"prompt": "Hi", "checks": [{"contains": "x"}]}]}
    project.write("evals.yaml", suite)
    ended = run_limited(project, "-n 1000", "run")
    assert ended.code == 3
    assert "is gone: it was deleted or moved during the run" in ended.err
    assert "What was recorded in it is lost" in ended.err
    assert "safe" not in ended.err and "resume" not in ended.err and "Traceback" not in ended.err


@pytest.mark.parametrize(
    ("number", "remedy"),
    [
        (errno.ENOSPC, "make room on the disk"),
        (errno.EDQUOT, "free some of your disk quota"),
        (errno.EROFS, "make the disk writable"),
        (errno.EACCES, "make it writable for your user"),
        (errno.EMFILE, "raise the limit (`ulimit -n 4096`) or use fewer --workers"),
        (errno.EIO, "check that the disk is writable"),
    ],
)
def test_each_error_of_the_system_has_its_own_remedy(number: int, remedy: str) -> None:
    error = OSError(number, "as it is said here")
    assert remedy_for(error) == remedy
