"""A machine at its limits: too many open files, files that may not grow, a folder that is deleted during a run. The
message says what is wrong and what to do, and what can go on goes on."""

from __future__ import annotations

import errno
import json
import sys
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar

import pytest

from rejoinder.errors import remedy_for
from tests.kit import Ended, Project, command_line, journal_of, only_run, run_process, scripted

pytestmark = pytest.mark.slow

ANSWER = {
    "model": "m",
    "choices": [{"index": 0, "message": {"role": "assistant", "content": "x"}, "finish_reason": "stop"}],
    "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2},
}


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    asked: ClassVar[list[bytes]] = []

    def do_POST(self) -> None:
        self.asked.append(self.rfile.read(int(self.headers["content-length"])))
        time.sleep(0.2)  # so that many are under way at the same time
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
    Handler.asked.clear()
    with Server(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}/v1"
        server.shutdown()


def run_limited(project: Project, limit: str, *arguments: str) -> Ended:
    line = f'ulimit {limit}; exec "$@"'
    return run_process(project.folder, command=["sh", "-c", line, "sh", *command_line(*arguments)])


def write_suite(project: Project, address: str, count: int, *checks: Any) -> None:
    target = {"name": "m", "provider": "openai", "model": "gpt-x", "base_url": address, "api_key": "k"}
    cases = [{"id": f"case {number}", "prompt": f"Hi {number}", "checks": list(checks)} for number in range(count)]
    project.write("evals.yaml", {"targets": [target], "target": "m", "evals": cases})


def replies_of(project: Project) -> int:
    return sum("reply" in record for record in journal_of(only_run(project.folder)) if record["type"] == "told")


@pytest.mark.parametrize("check", [{"contains": "x"}, {"code": "echo true"}, {"python": "own:check"}], ids=str)
@pytest.mark.parametrize("limit", [40, 64, 100, 256])
@pytest.mark.every(5)
def test_few_descriptors_lose_no_paid_answer(project: Project, address: str, limit: int, check: Any) -> None:
    project.write("own.py", "def check(context):\n    return True\n")
    count = limit + 44
    write_suite(project, address, count, check)
    ended = run_limited(project, f"-n {limit}", "run", "--workers", str(count), "--format", "json")
    assert ended.code == 0, ended.err
    assert ended.document["summary"]["passed"] == count
    assert len(Handler.asked) == count
    assert f"conversations at once instead of {count}: this process may open {limit} files" in ended.err
    assert "`ulimit -n 4096` raises the limit" in ended.err


def test_a_soft_limit_is_raised_without_a_word(project: Project, address: str) -> None:
    write_suite(project, address, 100, {"contains": "x"})
    ended = run_limited(project, "-S -n 40", "run", "--workers", "100", "--format", "json")
    assert (ended.code, ended.err) == (0, "")
    assert len(Handler.asked) == 100


def test_calls_of_one_conversation_share_the_connections_that_there_is_room_for(project: Project, address: str) -> None:
    judge = {"name": "judge", "provider": "openai", "model": "j", "base_url": address, "api_key": "k"}
    target = {"name": "m", "provider": "openai", "model": "gpt-x", "base_url": address, "api_key": "k"}
    check = {"llm_judge": {"criteria": "is short", "target": "judge", "votes": 5}}
    cases = [{"id": f"case {number}", "prompt": f"Hi {number}", "checks": [check]} for number in range(20)]
    project.write("evals.yaml", {"targets": [target, judge], "target": "m", "evals": cases})
    ended = run_limited(project, "-n 40", "run", "--workers", "20", "--format", "json")
    messages = [result.get("error", {}).get("message", "") for result in ended.document["results"]]
    assert not any("open files" in one for one in messages), messages
    assert "no more than" in ended.err and "connections at once" in ended.err


HOG = """
import os
held = []
def check(context):
    try:
        while os.path.exists("hog"):
            held.append(open(os.devnull))
    except OSError:
        pass
    return True
"""


def test_a_run_without_descriptors_stops_instead_of_paying_on(project: Project, address: str) -> None:
    project.write("own.py", HOG)
    project.write("hog", "")
    write_suite(project, address, 80, {"python": "own:check"}, {"code": "echo true"})
    ended = run_limited(project, "-n 60", "run", "--workers", "4")
    assert ended.code == 3
    assert "could not open a file or a connection, so the run stopped" in ended.err
    assert "Everything recorded is safe. Now raise the limit (`ulimit -n 4096`) or use fewer --workers" in ended.err
    assert "--retry-errors" in ended.err and "Traceback" not in ended.err
    assert len(Handler.asked) < 40
    assert replies_of(project) >= len(Handler.asked)
    (project.folder / "hog").unlink()
    resumed = run_limited(project, "-n 1000", "resume", "last", "--retry-errors", "--format", "json")
    assert resumed.document["summary"]["passed"] == 80, resumed.err
    assert len(Handler.asked) == 80


WATCHED = """
import asyncio, runpy, sys
from rejoinder.engine import journal_writer, live
from rejoinder.providers import http_client
opened, between = [], [False]
def hook(event, arguments):
    if between[0] and event in ("open", "import") and not isinstance(arguments[0], int):
        opened.append((event, str(arguments[0])))
sys.addaudithook(hook)
answered = http_client.Transport.send
async def send(*arguments, **named):
    answer = await answered(*arguments, **named)
    between[0] = True
    return answer
told = journal_writer.Journal.told
async def record(self, one):
    await told(self, one)
    between[0] = False
http_client.Transport.send, journal_writer.Journal.told = send, record
try:
    runpy.run_module("rejoinder", run_name="__main__", alter_sys=True)
finally:
    print(opened, file=sys.stderr)
"""


@pytest.mark.parametrize("model", ["gpt-x", "gpt-4o-mini", "gpt-4o-mini-2024-07-18"])
def test_no_file_is_opened_between_an_answer_and_its_record(project: Project, address: str, model: str) -> None:
    write_suite(project, address, 1, {"contains": "x"})
    watched = project.write("watched.py", WATCHED)
    text = (project.folder / "evals.yaml").read_text().replace("gpt-x", model)
    project.write("evals.yaml", text)
    ended = run_process(project.folder, command=[sys.executable, str(watched), "run", "evals.yaml"])
    assert ended.code == 0, ended.err
    assert ended.err.splitlines()[-1] == "[]", ended.err


@pytest.mark.parametrize("record", [(), ("--record", "cassettes")], ids=["plain", "recording"])
def test_files_that_may_not_grow_are_named_with_the_right_remedy(project: Project, record: tuple[str, ...]) -> None:
    target = scripted("m", "x" * 10_000)
    cases = [{"id": f"case {number}", "prompt": "Hi", "checks": [{"contains": "x"}]} for number in range(200)]
    project.write("evals.yaml", {"targets": [target], "target": "m", "evals": cases})
    ended = run_limited(project, "-f 1000", "run", *record)
    assert ended.code == 3
    assert "cannot be written: file too large" in ended.err
    assert "Everything recorded is safe. Now raise the limit for the size of files" in ended.err
    assert project.run_json("resume", "last")["summary"]["passed"] == 200


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
