"""`init`: what it asks, what it writes, and that what it writes runs, passes something and fails something."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from click.testing import CliRunner

from rejoinder.cli.init import _ask
from rejoinder.providers import local
from rejoinder.providers.local_weights import get_weights
from rejoinder.testing import FakeServer
from tests.kit import Project, Raw, command_line, refusal, run_process
from tests.labs.session_lab import Bot

OWN = {".rejoinder/schema.json", ".rejoinder/.gitignore"}


@pytest.fixture
def service() -> Iterator[str]:
    """A service that greets, and knows nothing else; its address."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            sent = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            said = sent["messages"][-1]["content"]
            body = json.dumps({"reply": "Hello!" if "Hello" in said else "I do not know."}).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/chat"
    server.shutdown()
    server.server_close()
    thread.join()


def begin(project: Project, *arguments: str) -> list[str]:
    """The lines that `init` prints; the last one names the next command, and few files were written."""
    lines = project.run("init", *arguments).splitlines()
    assert lines[-1] == "Next: rejoinder run"
    files = {path.relative_to(project.folder).as_posix() for path in project.folder.rglob("*") if path.is_file()}
    assert len(files) <= 4 and files >= {"evals.yaml", *OWN}
    assert project.validate()["files"][0]["errors"] == []
    return lines


def results(project: Project) -> dict[str, str]:
    """How each case of the suite ends, in a process of its own."""
    ended = run_process(project.folder, "run", "--format", "json")
    assert ended.code == 1, ended.err
    document: Raw = json.loads(ended.out)
    assert [result["error"] for result in document["results"]] == [None] * 3
    return {
        result["id"]: ("failed" if not result["passed"] else "first try" if len(result["turns"]) == 1 else "recovered")
        for result in document["results"]
    }


@pytest.mark.slow
def test_a_scripted_model(project: Project) -> None:
    begin(project, "--scripted")
    assert results(project) == {"greeting": "first try", "hours": "recovered", "order": "failed"}


@pytest.mark.slow
@pytest.mark.parametrize("call", ["bot:reply", "shop.desk:answer"])
def test_a_python_function(project: Project, call: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("bot", "shop", "shop.desk"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    others = ("bot.py", "shop.py", "shop")  # which folders of other tests may have
    monkeypatch.setattr(
        sys, "path", [path for path in sys.path if not any(Path(path, name).exists() for name in others)]
    )
    lines = begin(project, "--python", call)
    assert f"written {call.partition(':')[0].replace('.', '/')}.py" in lines
    assert not any(line.startswith("First:") for line in lines)
    assert results(project) == {"greeting": "first try", "hours": "recovered", "order": "failed"}


@pytest.mark.slow
def test_a_python_function_that_is_there_is_taken(project: Project) -> None:
    own = "def answer(messages):\n    return 'On Monday.'\n"
    project.write("mybot.py", own)
    begin(project, "--python", "mybot:answer")
    assert (project.folder / "mybot.py").read_text() == own
    assert results(project) == {"greeting": "first try", "hours": "first try", "order": "failed"}


def test_a_function_that_is_missing_is_named(project: Project) -> None:
    project.write("otherbot.py", "def answer(messages):\n    return 'On Monday.'\n")
    lines = project.run("init", "--python", "otherbot:reply").splitlines()
    assert "First: the module `otherbot` has no function `reply`" in lines


@pytest.mark.slow
def test_an_http_service(project: Project, service: str) -> None:
    begin(project, "--http", service)
    assert results(project) == {"greeting": "first try", "hours": "failed", "order": "failed"}


def test_a_service_that_keeps_the_conversation_works_when_its_lines_are_uncommented(project: Project) -> None:
    def reply(_bot: Bot, body: Raw) -> Raw:
        return {"reply": "On Monday." if body["session_id"] == "s-1" else "Hello!", "session_id": "s-1"}

    with Bot(reply) as bot:
        begin(project, "--http", f"{bot.url}/chat")
        path = project.folder / "evals.yaml"
        written = path.read_text()
        comment, _, block = written.partition("  # - name: service-with-sessions")
        lines = f"  # - name: service-with-sessions{block}".split("\n")
        count = next(number for number, line in enumerate(lines) if not line.startswith("  #"))
        lines[:count] = [line.replace("  # ", "  ", 1) for line in lines[:count]]
        path.write_text(comment + "\n".join(lines))
        document = project.run_json("run", "-m", "service-with-sessions", "--case", "hours", code=0)
        asked = [turn["session_id"] for turn in bot.turns]
    assert [result["succeeded_on_turn"] for result in document["results"]] == [2]
    assert asked == [None, "s-1"]


@pytest.mark.slow
def test_an_http_service_in_the_form_of_openai(project: Project) -> None:
    with FakeServer("On Monday.") as server:
        begin(project, "--http", f"{server.openai_url}/chat/completions")
        path = project.folder / "evals.yaml"
        key = '    headers: { Authorization: "Bearer any" }\n    provider: http'
        path.write_text(path.read_text().replace("    provider: http", key))
        assert results(project) == {"greeting": "first try", "hours": "first try", "order": "failed"}


@pytest.mark.slow
def test_a_model(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    with FakeServer("It is H2O.") as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.openai_url)
        monkeypatch.setenv("OPENAI_API_KEY", "any")
        lines = begin(project, "--model", "openai/gpt-5-mini")
        assert not any(line.startswith("First:") for line in lines)
        assert results(project) == {"water": "first try", "dog": "first try", "product": "failed"}


def test_a_model_without_a_key_says_which_one_it_needs(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = begin(project, "--model", "anthropic/claude-haiku-4-5")
    assert lines[-2].startswith("First: Set ANTHROPIC_API_KEY in the environment or in a .env file")
    assert lines[-2].endswith("or write `api_key: ${{ VARIABLE }}`.")
    path = project.folder / "evals.yaml"
    path.write_text(path.read_text().replace("# api_key: ${{ VARIABLE }}", "api_key: ${{ MY_KEY }}"))
    monkeypatch.setenv("MY_KEY", "any")
    [target] = project.run_json("targets")
    assert (target["name"], target["ready"]) == ("anthropic/claude-haiku-4-5", True)


@pytest.mark.parametrize(
    ("typed", "chosen", "says"),
    [
        ("x\n6\n\n", ("scripted", True), ("'x' is none of them; type 1, 2, 3, 4 or 5", "'6' is none of them")),
        ("4\nno-agent\ncodex\n", ("agent", "codex"), ("there is no agent `no-agent`", "claude, codex")),
        ("3\nlocalhost:8000\nhttp://a/b\n", ("url", "http://a/b"), ("begins with neither", "https://localhost:8000")),
        ("1\ngpt-5-mini\nopenai/gpt-5\n", ("model", "openai/gpt-5"), ("did you mean `openai/gpt-5-mini`?",)),
    ],
)
def test_an_answer_that_is_wrong_is_asked_for_again(
    project: Project, typed: str, chosen: tuple[str, str | bool], says: tuple[str, ...]
) -> None:
    with CliRunner().isolation(typed) as streams:
        assert _ask("scripted", project.folder) == chosen
        said = streams[0].getvalue().decode()
    assert all(words in said for words in says) and "integer" not in said


AGENT = """\
import json, pathlib, sys
for line in sys.stdin:
    asked = json.loads(line)
    if asked["method"] == "session/prompt":
        text = asked["params"]["prompt"][0]["text"]
        if "119" in text:
            file = pathlib.Path("prices.py")
            file.write_text(file.read_text().replace("net + rate", "net * (1 + rate)"))
        if "USAGE.md" in text:
            pathlib.Path("USAGE.md").write_text("total(100)")
        told = {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": "Done."}}
        print(json.dumps({"jsonrpc": "2.0", "method": "session/update", "params": {"sessionId": "1", "update": told}}))
    result = {"protocolVersion": 1, "sessionId": "1", "stopReason": "end_turn"}
    print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": result}), flush=True)
"""


def test_an_agent_by_its_command(project: Project) -> None:
    project.write("agent.py", AGENT)
    lines = project.run("init", "--agent", "python3 agent.py").splitlines()
    assert "written project/prices.py" in lines and "written project/test_prices.py" in lines
    assert lines[-1] == "Next: rejoinder run" and not any(line.startswith("First:") for line in lines)
    assert project.validate()["files"][0] == {"path": "evals.yaml", "errors": [], "warnings": []}
    document = project.run_json("run")
    assert {result["id"]: result["succeeded_on_turn"] for result in document["results"]} == {"repair": 2, "document": 1}


def test_an_agent_by_its_name(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(project.folder))
    for name, provider in (("claude", "claude"), ("gemini", "gemini-cli"), ("codex/gpt-5", "codex")):
        lines = project.run("init", name, "--agent", name).splitlines()
        assert any(line.startswith("First: install it by `npm install -g") for line in lines)
        text = (project.folder / name / "evals.yaml").read_text()
        assert f"provider: {provider}\n" in text and ('model: "gpt-5"' in text) == ("/" in name)


@pytest.mark.slow
def test_a_model_on_this_machine(project: Project) -> None:
    get_weights("smollm2")
    begin(project, "--local")
    assert results(project) == {"water": "first try", "dog": "recovered", "minus": "failed"}


def test_a_model_on_this_machine_without_weights_says_how_to_get_them(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(project.folder.parent / "empty"))
    assert "First: Fetch the weights: rejoinder models get smollm2" in begin(project, "--local")


@pytest.mark.parametrize(("installed", "provider"), [(True, "local"), (False, "scripted")])
@pytest.mark.parametrize("arguments", [(), ("--yes",)])
def test_without_a_terminal_nothing_is_asked(
    project: Project, monkeypatch: pytest.MonkeyPatch, installed: bool, provider: str, arguments: tuple[str, ...]
) -> None:
    monkeypatch.setattr(local, "is_installed", lambda: installed)
    begin(project, *arguments)
    assert f"provider: {provider}" in (project.folder / "evals.yaml").read_text()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("typed", "written"),
    [
        (["1", "openai/gpt-5"], 'target: "openai/gpt-5"'),
        (["2", ""], "call: bot:reply"),
        (["3", "http://127.0.0.1:9/ask"], 'url: "http://127.0.0.1:9/ask"'),
        (["4", "codex"], "provider: codex"),
        ([""], "provider: local"),
    ],
)
def test_on_a_terminal_it_asks_what_is_to_be_tested(project: Project, typed: list[str], written: str) -> None:
    pty = pytest.importorskip("pty")
    main, end = pty.openpty()
    process = subprocess.Popen(command_line("init"), cwd=project.folder, stdin=end, stdout=end, stderr=end)
    os.close(end)
    said = b""
    for answer in typed:
        while not said.endswith(b"]: "):
            said += os.read(main, 1000)
        os.write(main, f"{answer}\n".encode())
        said = b""
    while b"Next: rejoinder run" not in said:
        said += os.read(main, 1000)
    assert process.wait(30) == 0
    os.close(main)
    assert written in (project.folder / "evals.yaml").read_text()


def test_what_is_there_is_kept(project: Project) -> None:
    project.write("evals.yaml", "mine")
    lines = project.run("init", "--scripted").splitlines()
    assert (project.folder / "evals.yaml").read_text() == "mine"
    assert "kept    evals.yaml" in lines and lines[-1] == "Next: rejoinder run"


def test_editors_find_the_schema(project: Project) -> None:
    begin(project, "--scripted")
    first = (project.folder / "evals.yaml").read_text().splitlines()[0]
    assert first == "# yaml-language-server: $schema=.rejoinder/schema.json"
    assert json.loads((project.folder / ".rejoinder/schema.json").read_text()) == json.loads(project.run("schema"))


def test_another_folder(project: Project) -> None:
    assert project.run("init", "new/project", "--scripted").splitlines()[-1] == "Next: cd new/project && rejoinder run"
    assert Path("new/project/evals.yaml").exists()
    project.write("plain", "file")
    project.run("init", "plain", code=2)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("--model", "gpt-5-mini"), "did you mean `openai/gpt-5-mini`?"),
        (("--model", "opnai/gpt-5"), "there is no provider `opnai`"),
        (("--python", "bot.py"), "`bot.py` names no function"),
        (("--python", "my bot:reply"), "names no function"),
        (("--python", "bot:class"), "names no function"),
        (("--http", "localhost:8000"), "begins with neither http:// nor https://"),
        (("--agent", "no-agent"), "there is no agent `no-agent`"),
        (("--local", "--scripted"), "one thing can be tested to begin with"),
    ],
)
def test_what_cannot_be_tested_is_refused_and_nothing_written(
    project: Project, arguments: tuple[str, ...], says: str
) -> None:
    assert says in refusal(project, "init", *arguments)
    assert not (project.folder / "evals.yaml").exists()


def test_an_address_is_written_so_that_yaml_reads_it_as_it_is(project: Project) -> None:
    url = 'http://127.0.0.1:9/a?b="c": #d'
    begin(project, "--http", url)
    [target] = project.run_json("targets", "--suite", "evals.yaml")
    assert target["name"] == "service"
    assert f"url: {json.dumps(url)}" in (project.folder / "evals.yaml").read_text()
