"""`auth`: a command prints the bearer token of a target's requests, which is a secret from the moment it is known."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from rejoinder.testing import FakeServer
from tests.kit import Project, Raw, case, cases_of, codes, only_run, refusal, run, run_folders, spec

COMMAND = r"""
import json, os, sys, time
with open("made", "a") as made:
    made.write(".")
number = os.path.getsize("made")
token = f"tok-{number}-0123456789abcdef"
mode = sys.argv[1] if len(sys.argv) > 1 else ""
time.sleep(0.05)
if mode == "fails":
    print(token)
    sys.exit(f"no login with {token}: run `login` first")
if mode == "sleeps":
    print(token, file=sys.stderr, flush=True)
    time.sleep(300)
if mode == "flood":
    print(token, file=sys.stderr, flush=True)
    sys.stdout.write("x" * 1_000_000)
print({"json": json.dumps({"token": token, "expires_in": 3600}), "odd": f"two words {token}", "silent": "",
       "list": "[]", "null": "null", "quoted": f'"{token}"', "other": json.dumps({"tokens": token}),
       "never": json.dumps({"token": token, "expires_in": "abc"}),
       "past": json.dumps({"token": token, "expires_in": -5})}.get(mode, token))
"""
AUTH: Raw = {"command": ["python3", "token.py"]}


class Door:
    """A service that answers only to tokens that it takes, and repeats what it was sent."""

    def __init__(self, takes: Callable[[str], bool]) -> None:
        self.takes = takes
        self.sent: list[str] = []
        self.url = ""


@contextmanager
def door(takes: Callable[[str], bool] = lambda _: True) -> Generator[Door]:
    it = Door(takes)

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["content-length"]))
            token = self.headers.get("authorization", "")
            it.sent.append(token)
            body = json.dumps({"reply": f"You are {token}."}).encode()
            self.send_response(200 if it.takes(token) else 401)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        it.url = f"http://127.0.0.1:{server.server_port}/"
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        try:
            yield it
        finally:
            server.shutdown()
            thread.join()


@pytest.fixture
def home(project: Project) -> Project:
    project.write("token.py", COMMAND)
    return project


def suite(url: str, auth: Raw = AUTH, count: int = 1, **more: Any) -> Raw:
    target = {"name": "bot", "provider": "http", "url": url, "reply_path": "reply", "auth": auth, "max_retries": 0}
    return {"targets": [{**target, **more}], "evals": cases_of(count, {"contains": "You are"})}


def made(home: Project) -> int:
    path = home.folder / "made"
    return path.stat().st_size if path.exists() else 0


def assert_hidden(folder: Path, *numbers: int) -> None:
    for path in (one for one in folder.rglob("*") if one.is_file()):
        text = path.read_text(errors="replace")
        for number in numbers:
            assert f"tok-{number}-0123456789abcdef" not in text, path


@spec("3B")
def test_all_conversations_share_one_token(home: Project) -> None:
    with door() as bot:
        done = run(home, suite(bot.url, count=20), code=0)
    assert made(home) == 1
    assert set(bot.sent) == {"Bearer tok-1-0123456789abcdef"} and len(bot.sent) == 20
    assert "<<token of target bot" in done["results"][0]["turns"][0]["response"]
    assert_hidden(home.folder / ".rejoinder", 1)


def test_a_refused_token_is_renewed_once_for_all(home: Project) -> None:
    with door(lambda token: "tok-2-" in token) as bot:
        done = run(home, suite(bot.url, count=8), code=0)
    assert made(home) == 2 and bot.sent.count("Bearer tok-2-0123456789abcdef") == 8
    assert_hidden(home.folder / ".rejoinder", 1, 2)
    assert "tok-" not in json.dumps(done)


def test_a_call_renews_its_token_only_once(home: Project) -> None:
    with door(lambda _: False) as bot:
        [result] = run(home, suite(bot.url), code=3)["results"]
    assert result["error"]["status"] == 401 and made(home) == 2 and len(bot.sent) == 2
    assert "tok-" not in json.dumps(result) and "<<token of target bot" in result["error"]["message"]
    assert_hidden(home.folder / ".rejoinder", 1, 2)


def test_a_token_is_renewed_after_its_time(home: Project) -> None:
    with door() as bot:
        turns = [{"prompt": f"Hi {n}", "checks": [{"contains": "You"}]} for n in range(3)]
        wanted = suite(bot.url, {**AUTH, "refresh": 0.000001})
        run(home, {**wanted, "evals": [{"id": "one", "turns": turns}]}, code=0)
    assert [token[7:12] for token in bot.sent] == ["tok-1", "tok-2", "tok-3"]
    assert_hidden(home.folder / ".rejoinder", 1, 2, 3)


def test_json_tells_how_long_it_lives(home: Project) -> None:
    with door() as bot:
        run(home, suite(bot.url, {"command": ["python3", "token.py", "json"]}, count=3), code=0)
    assert made(home) == 1 and bot.sent[0] == "Bearer tok-1-0123456789abcdef"


def test_a_resumed_run_hides_its_own_token_as_well(home: Project) -> None:
    with door(lambda token: "tok-3-" in token) as bot:
        home.write("evals.yaml", suite(bot.url))
        assert home.invoke("run").exit_code == 3
        assert home.invoke("resume", "--retry-errors").exit_code == 0
    assert_hidden(home.folder / ".rejoinder", 1, 2, 3)


@pytest.mark.parametrize(
    ("mode", "words"),
    [
        ("fails", "the command ended with exit code 1; its output is not recorded, because it may have the token"),
        ("list", "the command printed JSON that is not an object"),
        ("null", "the command printed JSON that is not an object"),
        ("quoted", "the command printed JSON that is not an object; print the token without quotes"),
        ("never", "`expires_in` is not a number of seconds above 0"),
        ("past", "`expires_in` is not a number of seconds above 0"),
        ("silent", "the command printed nothing"),
        ("odd", "the command printed something that has white space"),
        ("other", "the command printed JSON without a text `token`"),
        ("flood", "the command prints more than 64 KiB"),
        ("sleeps", "the command did not end within 1 s"),
    ],
)
def test_a_command_without_a_token_is_an_error_that_does_not_tell_it(mode: str, words: str, home: Project) -> None:
    auth = {"command": ["python3", "token.py", mode], "timeout_seconds": 1 if mode == "sleeps" else 60}
    with door() as bot:
        done = run(home, suite(bot.url, auth, count=3), code=3)
    assert all(words in result["error"]["message"] for result in done["results"])
    assert "`auth` of target `bot` gives no token" in done["results"][0]["error"]["message"]
    assert bot.sent == [] and made(home) == 1
    assert_hidden(home.folder / ".rejoinder", 1)


def test_an_llm_api_takes_a_token_in_place_of_its_key(home: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    with FakeServer() as server:
        target = {"name": "llm", "provider": "openai", "model": "m", "base_url": server.openai_url, "auth": AUTH}
        run(home, {"targets": [target], "evals": [case()]}, code=0)
        [received] = server.requests
    assert received.headers["authorization"] == "Bearer tok-1-0123456789abcdef"


def test_commands_that_ask_nobody_get_no_token(home: Project) -> None:
    with door() as bot:
        run(home, suite(bot.url), code=0)
        for command in (["validate"], ["run", "--dry-run"], ["show"], ["replay"], ["grade"], ["targets"], ["prompt"]):
            home.invoke(*command)
    assert made(home) == 1


def test_no_code_refuses_it(home: Project) -> None:
    home.write("evals.yaml", suite("http://127.0.0.1:1/"))
    assert "--no-code refuses" in refusal(home, "run", "--no-code")
    assert run_folders(home.folder) == [] and made(home) == 0


def test_a_token_does_not_go_where_an_env_file_says(home: Project) -> None:
    home.write(".env", "BOT_URL=https://bot.example.com/\n")
    home.write("evals.yaml", suite("${{ BOT_URL }}"))
    assert "would send a key to bot.example.com" in refusal(home, "run")
    assert made(home) == 0


def test_mistakes_in_it_are_told(home: Project) -> None:
    target = {"name": "a", "provider": "scripted", "replies": ["x"], "auth": AUTH}
    assert codes(home.errors({"targets": [target], "evals": [case()]})) == ["unknown-key"]
    both = {"name": "a", "provider": "openai", "model": "m", "api_key": "x", "auth": AUTH}
    assert codes(home.errors({"targets": [both], "evals": [case()]})) == ["conflicting-keys"]
    [error] = home.errors(suite("http://x.example/", {"command": ["no-such-program"]}))
    assert (error["code"], error["path"]) == ("file-not-found", "targets[0].auth.command")
    assert codes(home.errors(suite("http://x.example/", {"command": "echo token"}))) == ["wrong-type"]


def test_other_targets_share_it_and_its_run_is_one(home: Project) -> None:
    with door() as bot:
        wanted = suite(bot.url, count=2)
        second = {**wanted["targets"][0], "name": "second"}
        run(home, {**wanted, "targets": [*wanted["targets"], second], "target": ["bot", "second"]}, code=0)
    assert made(home) == 1
    assert only_run(home.folder)
