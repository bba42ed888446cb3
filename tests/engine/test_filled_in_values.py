"""What `${{ VARIABLE }}` fills in for programs and servers is a secret whatever the variable is called, and what looks
like a secret reaches no program that is not given it."""

from __future__ import annotations

import base64
import json
import sys
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

import pytest

from rejoinder.project.environment import is_secret
from tests.kit import Project, Raw, file_contents, run, scripted
from tests.labs.agent_lab import agent, suite, turns_of
from tests.tools.listener import PRINTS
from tests.tools.suites import calls
from tests.tools.suites import suite as suite_with_tools

VALUE = "walnut.4711/Hazel-98765"
COMMANDS = (
    ["show", "last", "--verbose"],
    ["export", "last", "--to", "html", "--out", "x.html"],
    *(["export", "last", "--to", form, "--out", f"x.{form}"] for form in ("junit", "csv", "markdown", "json")),
    ["replay", "last"],
)


@pytest.fixture(autouse=True)
def variables(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PLAIN", VALUE)
    monkeypatch.setenv("STAGE", "dev")


def is_hidden(project: Project, *, said: str = "") -> None:
    """In no file of the project, and in nothing that commands print."""
    for command in COMMANDS:
        result = project.invoke(*command)
        assert VALUE not in result.output, command
        assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    files = file_contents(project.folder)
    assert len(files) > 5
    for name, content in files.items():
        assert VALUE.encode() not in content, name
        assert base64.b64encode(VALUE.encode())[:-4] not in content, name
    assert VALUE not in said


def command(**settings: Any) -> Raw:
    return {"name": "agent", "provider": "cli", "command": ["sh", "-c", 'echo "$K and $STAGE"'], **settings}


@pytest.mark.parametrize(
    "settings",
    [
        {"env": {"K": "${{ PLAIN }}"}},
        {"env": {"K": "before ${{PLAIN}} behind"}},
        {"command": ["echo", "${{ PLAIN }}"]},
        {"command_template": "echo ${{ PLAIN }}", "command": None},
        {"command": ["sh", "-c", "echo ${{ PLAIN }} and ${{ PLAIN }} >&2; exit 3"]},
        {"command": ["sh", "-c", "printf %s ${{ PLAIN }} | base64"]},
    ],
)
def test_of_a_command(project: Project, settings: Raw) -> None:
    target = {name: value for name, value in command(**settings).items() if value is not None}
    project.write("evals.yaml", suite(target, "hello", {"contains": "never"}))
    is_hidden(project, said=project.invoke("run", "evals.yaml").output)


@pytest.mark.parametrize(
    "settings",
    [
        {"env": {"K": "${{ PLAIN }}"}},
        {"setup": "echo ${{ PLAIN }} > a.txt"},
        {"setup": "echo ${{ PLAIN }} >&2; exit 1"},
        {"args": ["--word=${{ PLAIN }}"]},
    ],
)
def test_of_an_agent(project: Project, settings: Raw) -> None:
    prompt = "[words] [run: cat a.txt; echo $K; echo $K > b.txt]"
    project.write("evals.yaml", suite(agent(**settings), prompt, {"contains": "never"}))
    is_hidden(project, said=project.invoke("run", "evals.yaml").output)


@pytest.mark.parametrize("place", ["env", "args"])
@pytest.mark.parametrize("dies", [False, True])
def test_of_a_server_of_tools(project: Project, place: str, dies: bool) -> None:
    says = "(os.environ.get('K') or sys.argv[-1])"
    program = PRINTS.replace("json.dumps(dict(os.environ))", says)
    if dies:
        program = PRINTS.replace("def main():", f"sys.exit('fatal: login failed with ' + {says})\ndef main():")
    project.write("prints.py", program)
    mcp: Raw = {"name": "env", "command": sys.executable, "args": ["-S", "prints.py"]}
    if place == "env":
        mcp["env"] = {"K": "${{ PLAIN }}"}
    else:
        mcp["args"] += ["${{ PLAIN }}"]
    project.write("evals.yaml", suite_with_tools(calls("env__all"), "done", tools=[{"mcp": mcp}]))
    said = project.invoke("run", "evals.yaml").output + project.invoke("tools").output
    assert "PLAIN" in said or not dies
    is_hidden(project, said=said)


class _Echo(BaseHTTPRequestHandler):
    """Answers with all that it is sent."""

    def do_POST(self) -> None:
        sent = self.rfile.read(int(self.headers["Content-Length"])).decode()
        body = json.dumps({"text": f"{self.path} {dict(self.headers)} {sent}"}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        pass


@pytest.fixture
def echo() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), _Echo) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()
        thread.join()


@pytest.mark.parametrize(
    "settings",
    [
        {"headers": {"X-Shop": "${{ PLAIN }}"}},
        {"body": {"q": "{{ prompt }}", "who": "I am ${{ PLAIN }}."}},
        {"url": "/hooks/${{ PLAIN }}"},
        {"url": "/hooks/${{ PLAIN }}/${{ PLAIN }}?x=1"},
        {"url": "/${{STAGE}}/${{ PLAIN }}"},
    ],
)
def test_of_an_address(project: Project, settings: Raw, echo: str) -> None:
    target: Raw = {"name": "agent", "provider": "http", "reply_path": "text", "body": {"q": "{{ prompt }}"}, **settings}
    target["url"] = f"{echo}{settings.get('url', '/chat')}"
    document = run(project, suite(target, "hello", {"contains": VALUE}))
    assert document["results"][0]["status"] == "passed", document["results"]
    for name, content in file_contents(project.folder / ".rejoinder").items():
        assert VALUE.encode() not in content, name


def test_checks_see_what_was_said(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where the run is graded again, from records that do not hold the value."""
    target = command(env={"K": "${{ PLAIN }}"})
    whole = suite(target, "hello", {"regex": "^walnut[.]4711/Hazel-98765 and dev$"}, {"contains": "Hazel-9"})
    assert run(project, whole)["results"][0]["status"] == "passed"
    is_hidden(project)
    assert project.run_json("replay", "last")["results"][0]["status"] == "passed"
    assert project.run_json("grade", "last")["results"][0]["status"] == "passed"


def test_short_values_and_names_of_models_stay_readable(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MODEL_NAME", "my-own-model")
    target = command(env={"K": "${{ STAGE }}"})
    assert turns_of(run(project, suite(target, "hello")))[0]["response"] == "dev and dev"
    target = {"name": "agent", "provider": "openai", "model": "${{ MODEL_NAME }}", "base_url": "http://127.0.0.1:9/v1"}
    document = run(project, suite({**target, "max_retries": 0, "api_key": "none"}, "hello"))
    assert "my-own-model" in json.dumps(document)


# What looks like a secret.

SECRETS = {
    **dict.fromkeys(("GITHUB_PAT", "DB_PWD", "DBPWD", "JWT", "BEARER", "SESSION_COOKIE", "SENTRY_DSN", "DSN"), "word"),
    **dict.fromkeys(("SLACK_WEBHOOK_URL", "AZURE_STORAGE_CONNECTION_STRING", "PRIVATE_PEM", "SSL_PRIVATE"), "word"),
    **dict.fromkeys(("OPENAI_API_KEY", "A_TOKEN", "CLIENT_SECRET", "PASSWORD", "AUTHORIZATION", "CREDENTIALS"), "word"),
    "V1": "ghp_0123456789abcdefghij",
    "V2": "github_pat_0123456789abcdefghij",
    "V3": "sk-0123456789abcdefghij",
    "V4": "xoxb-0123456789-abcdefghij",
    "V5": "AKIAIOSFODNN7EXAMPLE",
    "V6": "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2lnbmF0dXJl",
    "V7": "-----BEGIN PRIVATE KEY-----\nMIIEvQIBADANBg\n-----END PRIVATE KEY-----\n",
    "V8": "DefaultEndpointsProtocol=https;AccountName=x;AccountKey=abc==",
    "V9": "https://0123abcd@o1.ingest.example/2",
    "V10": "postgres://me:word@db.example/x",
    "V11": "Bearer 0123456789abcdef",
    "V12": "a,sk-0123456789abcdefghij",
    "V13": "https://hooks.chat.example/services/T0/B0/xyz",
}
PLAIN = {
    "PATTERN": "x",
    "COMPAT": "x",
    "GOPRIVATE": "example.com/*",
    "GIT_AUTHOR_EMAIL": "me@here.example",
    "DISPATCH": "x",
    "W1": "/opt/sk-0123456789abcdefghij/bin",
    "W2": "postgres://me@localhost/x",
    "W3": "ssh://git@host.example/x.git",
    "W4": "https://shop.example/a@b",
    "W5": "production-eu",
    "W6": "risk-assessment-of-the-year",
}
SYSTEM = {"LANG": "C.UTF-8", "TERM": "xterm", "LC_ALL": "C", "LOGNAME": "me", "USER": "me"}


def seen_by(project: Project, kind: str) -> str:
    """The names and values of the environment that a program wrote down."""
    script = "import os\nopen('seen.txt', 'w').write(''.join(f'{k}={v}\\n' for k, v in os.environ.items()))\n"
    place = project.folder / "seen.txt"
    project.write("writes.py", script.replace("seen.txt", str(place)))
    if kind == "mcp":
        project.write("prints.py", PRINTS.replace("def main():", "import writes\ndef main():"))
        mcp = {"name": "env", "command": sys.executable, "args": ["-S", "prints.py"]}
        run(project, suite_with_tools(calls("env__all"), "done", tools=[{"mcp": mcp}]))
    elif kind == "cli":
        run(project, suite(command(command=[sys.executable, "-S", "writes.py"]), "hello"))
    elif kind == "agent":
        run(project, suite(agent(), f"[run: {sys.executable} -S {project.folder}/writes.py]"))
    else:
        run(project, suite(agent(), "x", {"command": f"{sys.executable} -S {project.folder}/writes.py"}))
    return place.read_text()


@pytest.mark.parametrize("kind", ["mcp", "cli", "agent", "command check"])
def test_what_looks_like_a_secret_reaches_no_program(
    project: Project, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in {**SECRETS, **PLAIN, **SYSTEM}.items():
        monkeypatch.setenv(name, value)
    seen = seen_by(project, kind).splitlines()
    names = {line.partition("=")[0] for line in seen}
    assert not names & SECRETS.keys()
    assert {*PLAIN, *SYSTEM, "PATH", "PWD", "HOME"} <= names


def test_variables_of_the_system_are_no_secrets_whatever_they_hold() -> None:
    for name in ("PATH", "PWD", "OLDPWD", "HOME", "LANG", "LC_ALL", "TERM", "SHELL", "USER", "TMPDIR", "_"):
        assert not is_secret(name, "/x:sk-0123456789abcdefghij:https://a:b@c/"), name


@pytest.mark.parametrize("value", ["://" + ":" * 100_000, "=sk-" + "a" * 100_000 + "/", "https://" + "a:" * 50_000])
def test_a_long_value_is_looked_at_quickly(value: str) -> None:
    assert not is_secret("WORD", value)  # a pattern that tries all pairs of places would take minutes


def test_what_looks_like_a_secret_is_hidden_where_code_of_the_project_gets_it(project: Project) -> None:
    project.write(".env", f"SHOP=sk-{VALUE.replace('/', '-').replace('.', '-')}\n")
    project.write("bot.py", "import os\ndef reply(request):\n    return os.environ['SHOP']\n")
    whole = suite({"name": "agent", "provider": "python", "call": "bot:reply"}, "hello", {"contains": "sk-walnut"})
    assert run(project, whole)["results"][0]["status"] == "passed"
    for name, content in file_contents(project.folder / ".rejoinder").items():
        assert b"sk-walnut-4711" not in content, name


def test_settings_of_code_of_the_project_are_hidden(project: Project) -> None:
    project.write("bot.py", "class Bot:\n    def ask(self, request): return 'x'\ndef reply(request):\n    return 'x'\n")
    target = {"name": "agent", "provider": "python", "call": "bot:reply", "word": "${{ PLAIN }}"}
    project.write("evals.yaml", suite(target, "hello", {"contains": "x"}))
    project.invoke("run", "evals.yaml")
    for name, content in file_contents(project.folder / ".rejoinder").items():
        assert VALUE.encode() not in content, name


def test_a_value_with_several_lines_is_hidden_line_by_line(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = ["MIIEvQIBADANBgkqhkiG9w0B", "AQEFAASCBKcwggSjAgEAAoIB"]
    monkeypatch.setenv("PLAIN", "\n".join(["first", *lines, ""]))
    target = command(env={"K": "${{ PLAIN }}"}, command=["sh", "-c", 'echo "$K" | sed "s/^/> /"'])
    text = json.dumps(run(project, suite(target, "hello", {"contains": "x"})))
    assert not any(line in text for line in lines)


def test_scripted_suites_need_nothing_of_this(project: Project) -> None:
    assert run(project, suite(scripted("agent", f"turn 1 {VALUE}"), "hello"))["results"][0]["status"] == "passed"
