"""Keys and passwords never leave the process: not in output, not in run folders, whatever a server does with them."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterable
from typing import Any
from urllib.parse import quote, quote_plus

import pytest

from rejoinder.model import Problem
from rejoinder.providers.openai_chat import OpenAiChat
from rejoinder.providers.secret_finder import SecretFinder
from rejoinder.runs.secrets import Mask
from rejoinder.testing import Answer, FakeServer, Fault, Received
from rejoinder.testing.values import Reply
from tests.kit import Project, Raw, run, run_process

pytestmark = pytest.mark.slow

CORE = "7eC0ffee51b6A9d2"
"""What every secret here is made of; nothing else has it, so wherever it stands, a secret has leaked."""

PLAIN = f"sk-{CORE}"
AWKWARD = f"sk/{CORE}+\"q\\{CORE}'%="
"""Every encoding has something to change in it."""

KEYS = pytest.mark.parametrize("key", [PLAIN, AWKWARD], ids=["plain", "awkward"])


# Looking for leaks


def traces(core: str = CORE) -> list[bytes]:
    """The bytes that give a secret away: as it is, and in the middle of base64, wherever it begins."""
    found = [core.encode()]
    for before in range(3):
        encoded = base64.b64encode(b"\0" * before + core.encode())
        found.append(encoded[4 if before else 0 : -4])
    return found


def leaks(named: Iterable[tuple[str, bytes]]) -> list[str]:
    """Where a secret shows, with what stands around it."""
    return [
        f"{name}: ...{content[max(0, at - 60) : at + 60]!r}..."
        for name, content in named
        for trace in traces()
        if (at := content.find(trace)) >= 0
    ]


def run_files(project: Project) -> list[tuple[str, bytes]]:
    folder = project.folder / ".rejoinder" / "runs"
    return [(str(path.relative_to(folder)), path.read_bytes()) for path in folder.rglob("*") if path.is_file()]


def command(project: Project, *arguments: str) -> tuple[str, bytes]:
    """All that a command says, and what it was."""
    result = project.invoke(*arguments)
    said = f"{result.stdout}{result.stderr}"
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        said += f"{result.exception!r} {result.exception}"
    return " ".join(arguments), said.encode()


AFTERWARDS = (
    ("show",),
    ("show", "--verbose"),
    ("show", "--format", "json"),
    ("show", "--format", "yaml"),
    ("resume", "last"),
    ("resume", "last", "--retry-errors", "--verbose"),
    ("targets", "--suite", "evals.yaml"),
    ("targets", "--suite", "evals.yaml", "--format", "json"),
    ("targets", "check", "model", "--suite", "evals.yaml"),
    ("targets", "check", "model", "--suite", "evals.yaml", "--format", "json"),
    ("validate", "evals.yaml"),
    ("prompt", "evals.yaml"),
    ("runs",),
)


def assert_tight(project: Project, suite: Raw, server: FakeServer | None = None, *, mark: str = "<<") -> str:
    """Nothing that a run and the commands after it say or write has the secret in it. All that was said."""
    project.write("evals.yaml", suite)
    run = command(project, "run", "evals.yaml", "--verbose", "--include", "messages", "--out", "out.json")
    files = run_files(project)
    said = [run, *(command(project, *arguments) for arguments in AFTERWARDS)]
    written = project.folder / "out.json"  # a run that was refused has written none
    out = [("out.json", written.read_bytes())] if written.exists() else []
    assert leaks([*said, *files, *run_files(project), *out]) == []
    assert files, run
    if server is not None:
        assert server.requests, run
    text = b"\n".join(content for _, content in [*said, *files]).decode()
    assert mark in text  # the secret was there, and something stands in its place
    return text


# Targets with a key


def make_target(provider: str, server: FakeServer) -> Raw:
    if provider == "azure":
        return {"provider": "azure", "endpoint": server.azure_url, "deployment": "m"}
    if provider == "responses":
        return {"provider": "openai", "api": "responses", "model": "m", "base_url": server.openai_url}
    if provider == "http":
        body = {"model": "m", "messages": "{{ messages }}"}
        url = f"{server.openai_url}/chat/completions"
        return {"provider": "http", "url": url, "body": body, "reply_path": "choices[0].message.content"}
    address = server.url if provider in ("anthropic", "gemini") else server.openai_url
    return {"provider": provider, "model": "m", "base_url": address}


VARIABLES = {
    "openai": "OPENAI_API_KEY",
    "responses": "OPENAI_API_KEY",
    "openrouter": "OPENROUTER_API_KEY",
    "groq": "GROQ_API_KEY",
    "mistral": "MISTRAL_API_KEY",
    "deepseek": "DEEPSEEK_API_KEY",
    "xai": "XAI_API_KEY",
    "together": "TOGETHER_API_KEY",
    "azure": "AZURE_OPENAI_API_KEY",
    "anthropic": "ANTHROPIC_API_KEY",
    "gemini": "GEMINI_API_KEY",
}
WIRES = ("openai", "responses", "azure", "anthropic", "gemini")


def suite_of(target: Raw, *others: Raw, cases: int = 2) -> Raw:
    named = {"name": "model", "max_retries": 1, "retry_initial_delay_ms": 1, "retry_max_delay_ms": 5, **target}
    checks = [{"match": "never"}, {"prompt": "You said {{ response }}", "checks": [{"match": "never"}]}]
    evals = [{"id": f"case-{n}", "prompt": f"Question {n}", "checks": checks} for n in range(cases)]
    return {"target": "model", "targets": [named, *others], "evals": evals}


# A server that tells everything it knows


def echo(received: Received) -> str:
    """The whole request, as it is and in the ways in which servers quote."""
    head = "\n".join(f"{name}: {value}" for name, value in received.headers.items())
    plain = f"{received.method} {received.path} {received.query}\n{head}\n\n{received.raw.decode()}"
    as_json = json.dumps(received.headers)
    values = " ".join(received.headers.values())
    quoted = [quote(values, safe=""), quote(values), quote_plus(values)]
    return "\n".join([plain, as_json, json.dumps(as_json), repr(received.headers), *quoted])


def error_body(received: Received, message: str, kind: str) -> Raw:
    if received.api == "anthropic":
        return {"type": "error", "error": {"type": kind, "message": message}}
    if received.api == "gemini":
        return {"error": {"code": 400, "message": message, "status": kind}}
    return {"error": {"message": message, "type": kind, "code": kind}}


def key_of(received: Received) -> str:
    """The key alone."""
    for name in ("x-api-key", "x-goog-api-key", "api-key", "authorization"):
        if name in received.headers:
            return received.headers[name].removeprefix("Bearer ")
    return ""


def reply_echo(received: Received) -> Reply:
    return echo(received)


def reply_key_everywhere(received: Received) -> Reply:
    key = key_of(received)
    return Answer(key, thinking=f"I know {key}", model=key, input_tokens=1, output_tokens=1)


def failing(status: int) -> Callable[[Received], Reply]:
    def reply(received: Received) -> Reply:
        return Fault("status", status=status, body=error_body(received, echo(received), "some_error"))

    return reply


def failing_with_the_key_as_type(received: Received) -> Reply:
    key = key_of(received)
    return Fault("status", status=400, body=error_body(received, f"no {key}", key), headers={"x-request-id": key})


def reply_no_json(received: Received) -> Reply:
    return Fault("status", status=200, body=echo(received))


def redirect(received: Received) -> Reply:
    return Fault("status", status=307, headers={"location": f"http://127.0.0.1/?key={quote(key_of(received))}"})


BEHAVIOURS: dict[str, Callable[[Received], Reply]] = {
    "reply": reply_echo,
    "everywhere": reply_key_everywhere,
    "400": failing(400),
    "401": failing(401),
    "500": failing(500),
    "type": failing_with_the_key_as_type,
    "no-json": reply_no_json,
    "redirect": redirect,
}
SHOWN = {"reply", "everywhere", "400", "401", "500", "type", "redirect"}
"""Behaviours whose answers come to light, with something in the place of the key."""


@KEYS
@pytest.mark.parametrize("behaviour", BEHAVIOURS)
@pytest.mark.parametrize("provider", WIRES)
@pytest.mark.every(3)
def test_a_key_of_the_environment(
    provider: str, behaviour: str, key: str, project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VARIABLES[provider], key)
    with FakeServer(BEHAVIOURS[behaviour]) as server:
        suite = suite_of(make_target(provider, server))
        assert_tight(project, suite, server, mark="<<env " if behaviour in SHOWN else "")
        assert all(key_of(received) == key for received in server.requests)


@pytest.mark.parametrize("behaviour", ["reply", "401"])
@pytest.mark.parametrize("provider", sorted(set(VARIABLES) - set(WIRES)))
def test_a_key_of_every_other_vendor(
    provider: str, behaviour: str, project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VARIABLES[provider], PLAIN)
    with FakeServer(BEHAVIOURS[behaviour]) as server:
        assert_tight(project, suite_of(make_target(provider, server)), server)
        assert key_of(server.requests[0]) == PLAIN


@KEYS
@pytest.mark.parametrize("behaviour", ["reply", "401", "500"])
@pytest.mark.parametrize("written", ["env-file", "variable", "literal", "camel", "settings"])
@pytest.mark.every(7)
def test_a_key_of_the_project(written: str, behaviour: str, key: str, project: Project) -> None:
    single = key.replace("\\", "\\\\").replace('"', '\\"')
    project.write(".env", f'OPENAI_API_KEY="{single}"\nODD_NAME="{single}"\n')
    more: dict[str, Raw] = {
        "env-file": {},
        "variable": {"api_key": "${{ ODD_NAME }}"},
        "literal": {"api_key": key},
        "camel": {"apiKey": key},
        "settings": {"settings": {"api_key": key}},
    }
    if written not in ("env-file", "variable"):
        (project.folder / ".env").unlink()
    with FakeServer(BEHAVIOURS[behaviour]) as server:
        assert_tight(project, suite_of({**make_target("openai", server), **more[written]}), server)
        assert key_of(server.requests[0]) == key


@pytest.mark.parametrize("behaviour", ["reply", "401"])
@pytest.mark.parametrize("provider", ["openai", "anthropic", "http"])
@pytest.mark.parametrize(
    "headers",
    [
        {"Authorization": f"Bearer {PLAIN}"},
        {"authorization": f"Basic {base64.b64encode(f'user:{PLAIN}'.encode()).decode()}"},
        {"X-Api-Key": AWKWARD},
        {"X-Gateway-Token": PLAIN},
        {"Cookie": f"theme=dark; session={PLAIN}"},
    ],
    ids=lambda headers: next(iter(headers)),
)
@pytest.mark.every(7)
def test_a_key_in_a_header(headers: dict[str, str], provider: str, behaviour: str, project: Project) -> None:
    def reply(received: Received) -> Reply:
        """Also the parts of a header, as a server has them that has read it."""
        text = f"{echo(received)}\n{PLAIN} {AWKWARD}"
        if behaviour == "reply":
            return text
        return Fault("status", status=401, body=error_body(received, text, "some_error"))

    with FakeServer(reply) as server:
        other = PLAIN if AWKWARD in headers.values() else AWKWARD
        target = {**make_target(provider, server), "headers": {**headers, "X-Other-Secret": other}}
        assert_tight(project, suite_of(target), server)
        [(name, value)] = headers.items()
        assert server.requests[0].headers[name.lower()] == value


@pytest.mark.parametrize("behaviour", ["reply", "401", "400"])
def test_a_key_in_the_body_or_the_query(behaviour: str, project: Project) -> None:
    with FakeServer(BEHAVIOURS[behaviour]) as server:
        target = make_target("http", server)
        target["url"] += f"?key={quote(AWKWARD, safe='').replace('%2F', '%2f')}&b=c"
        target["body"] |= {"user": "me", "metadata": {"access_token": PLAIN}}
        assert_tight(project, suite_of(target), server)
        assert server.requests[0].query["key"] == AWKWARD
        assert server.requests[0].body["metadata"] == {"access_token": PLAIN}


@pytest.mark.parametrize("behaviour", ["reply", "401"])
def test_a_key_in_extra_body(behaviour: str, project: Project) -> None:
    with FakeServer(BEHAVIOURS[behaviour], extra_fields=["gateway"]) as server:
        target = {**make_target("openai", server), "extra_body": {"gateway": {"apiKey": PLAIN, "tokens": 12345}}}
        text = assert_tight(project, suite_of(target), server)
    assert "12345" in text


def in_address(server: FakeServer, userinfo: str, scheme: str = "http://") -> str:
    return server.openai_url.replace("http://", f"{scheme}{userinfo}@")


@pytest.mark.parametrize("behaviour", ["reply", "401", "500", "no-json"])
@pytest.mark.parametrize(
    ("userinfo", "scheme"),
    [
        (f"user:{PLAIN}", "http://"),
        (f"user:{quote(AWKWARD, safe='')}", "http://"),
        (f"user:p@{PLAIN}", "http://"),
        (f"{PLAIN}", "http://"),
        (f":{PLAIN}", "http://"),
    ],
)
@pytest.mark.every(3)
def test_a_password_in_an_address(userinfo: str, scheme: str, behaviour: str, project: Project) -> None:
    def reply(received: Received) -> Reply:
        """It reads the header, and tells what it has read."""
        pair = base64.b64decode(received.headers["authorization"].removeprefix("Basic ")).decode()
        if behaviour == "reply":
            return f"{echo(received)} {pair}"
        return BEHAVIOURS[behaviour](received)

    with FakeServer(reply) as server:
        target = {"provider": "openai", "model": "m", "base_url": in_address(server, userinfo, scheme)}
        assert_tight(project, suite_of(target), server)
        assert server.requests[0].headers["authorization"].startswith("Basic ")


@pytest.mark.parametrize("behaviour", ["reply", "401"])
def test_a_password_in_an_address_of_the_environment(
    behaviour: str, project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    with FakeServer(BEHAVIOURS[behaviour]) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", in_address(server, f"user:{PLAIN}"))
        assert_tight(project, suite_of({"provider": "openai", "model": "m"}), server)


@pytest.mark.parametrize(
    "url", [f"ftp://user:{PLAIN}@host/v1", f"http://user:{PLAIN}/x@host", f"http://u:{PLAIN}@host:port"]
)
def test_a_password_in_a_wrong_address(url: str, project: Project) -> None:
    text = assert_tight(project, suite_of({"provider": "openai", "model": "m", "base_url": url}), mark="")
    assert "is not an address" in text or "begins with neither http:// nor https://" in text


@pytest.mark.parametrize("password", [PLAIN, quote(AWKWARD, safe="")])
@pytest.mark.parametrize("variable", ["HTTP_PROXY", "http_proxy", "ALL_PROXY"])
def test_a_password_of_a_proxy(variable: str, password: str, project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    with FakeServer(reply_echo) as server:  # it answers for whatever it is asked, as a proxy does
        monkeypatch.setenv(variable, f"http://user:{password}@{server.url.removeprefix('http://')}")
        target = {"provider": "openai", "model": "m", "base_url": "http://models.test/v1"}
        assert_tight(project, suite_of(target), server, mark="")
        assert "proxy-authorization" in server.requests[0].headers


@pytest.mark.parametrize("variable", ["HTTP_PROXY", "HTTPS_PROXY"])
def test_a_password_of_a_proxy_that_is_not_there(
    variable: str, project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    with FakeServer() as server:
        place = server.url.removeprefix("http://")
    scheme = variable.lower().removesuffix("_proxy")
    for address in (f"http://user:{PLAIN}@{place}", f"socks5://user:{PLAIN}@{place}", f"http://user@{PLAIN}:{PLAIN}"):
        monkeypatch.setenv(variable, address)
        target = {"provider": "openai", "model": "m", "base_url": f"{scheme}://models.test/v1"}
        text = assert_tight(project, suite_of(target), mark="")
        assert "the proxy" in text


def test_keys_of_targets_that_are_not_asked(project: Project) -> None:
    """The run keeps a copy of its suites, and those know more targets than the run asks."""
    others = [
        {"name": "b", "provider": "anthropic", "model": "m", "api_key": PLAIN},
        {"name": "c", "provider": "openai", "model": "m", "headers": {"X-Key": AWKWARD}},
        {"name": "d", "provider": "openai", "model": "m", "base_url": f"http://user:{PLAIN}@models.test/v1"},
        {"name": "e", "provider": "http", "url": f"http://models.test/?token={PLAIN}", "reply_path": "x"},
    ]
    with FakeServer() as server:
        assert_tight(project, suite_of(make_target("openai", server), *others), server)


def test_keys_in_the_projects_targets(project: Project) -> None:
    with FakeServer(reply_echo) as server:
        target = {"name": "model", **make_target("openai", server), "api_key": PLAIN}
        project.write(".rejoinder/targets.yaml", {"targets": [target, {**target, "name": "b", "api_key": AWKWARD}]})
        suite = suite_of(target)
        del suite["targets"]
        assert_tight(project, suite, server)


# Keys that are cut, and keys that cannot be sent


@pytest.mark.parametrize("room", range(490, 501))
def test_a_key_in_the_middle_of_which_a_message_is_cut(room: int, project: Project) -> None:
    def reply(received: Received) -> Reply:
        message = "x" * (room - 11) + " " + key_of(received) + " and so on"
        return Fault("status", status=400, body=error_body(received, message, "some_error"))

    with FakeServer(reply) as server:
        suite = suite_of({**make_target("openai", server), "api_key": f"{CORE}-{CORE}-{CORE}"}, cases=1)
        text = assert_tight(project, suite, server)
    assert f"xx {CORE[:9]}" not in text


def test_a_key_in_the_middle_of_which_a_judges_answer_is_cut(project: Project) -> None:
    def reply(received: Received) -> Reply:
        return "z" * 66 + " " + key_of(received)

    with FakeServer(reply) as server:
        suite = suite_of({**make_target("openai", server), "api_key": PLAIN}, cases=1)
        suite["evals"][0]["checks"] = [{"llm_judge": {"criteria": "fine?"}}]
        text = assert_tight(project, suite, server)
    assert "cannot be read" in text
    assert f"zz {PLAIN[:9]}" not in text


@pytest.mark.parametrize("key", [f"{CORE}\N{EURO SIGN}", f"{CORE}\nx", f"{CORE}\x07", f"a{CORE}\xa0b"])
@pytest.mark.parametrize("where", ["environment", "literal", "header"])
def test_a_key_that_cannot_be_sent(where: str, key: str, project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    with FakeServer() as server:
        target = make_target("openai", server)
        if where == "environment":
            monkeypatch.setenv("OPENAI_API_KEY", key)
        elif where == "literal":
            target["api_key"] = key
        else:
            target["headers"] = {"X-Key": key}
        project.write("evals.yaml", suite_of(target))
        said = [command(project, "run", "evals.yaml"), *(command(project, *arguments) for arguments in AFTERWARDS)]
    assert leaks([*said, *run_files(project)]) == []
    if where != "header" or "\n" in key:
        assert b"cannot be sent" in said[0][1]


# Bugs


def test_a_bug_with_the_key_in_it(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    def read(_: OpenAiChat, answer: Any) -> None:
        raise RuntimeError(f"{answer.body!r} {answer.body.decode()}")

    monkeypatch.setattr(OpenAiChat, "read", read)
    with FakeServer(key_of) as server:
        suite = suite_of({**make_target("openai", server), "api_key": AWKWARD})
        text = assert_tight(project, suite, server, mark="<<api_key of target model")
    assert "internal error: RuntimeError" in text
    logs = [content for name, content in run_files(project) if name.endswith("run.log")]
    assert b"Traceback" in logs[0]
    assert b"<<api_key of target model" in logs[0]


@pytest.mark.parametrize("last", ["raise ValueError(key)", "return {'text': key, 'cost': key}", "return key"])
def test_a_function_of_the_user_that_tells_a_key(
    last: str, project: Project, module: Callable[[str], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", PLAIN)
    name = module(f"import os\ndef reply(request):\n    key = os.environ['OPENAI_API_KEY']\n    {last}\n")
    with FakeServer() as server:
        judge = {"name": "judge", **make_target("openai", server)}
        suite = suite_of({"provider": "python", "call": f"{name}:reply"}, judge, cases=1)
        suite["evals"][0]["checks"] = [{"llm_judge": {"criteria": "fine?"}}]
        suite["judge_target"] = "judge"
        project.write("evals.yaml", suite)
        said = [command(project, "run", "evals.yaml", "--verbose"), command(project, "show", "--verbose")]
    assert leaks([*said, *run_files(project)]) == []


# Put back where it was


@KEYS
def test_a_masked_reply_is_put_back_when_a_run_is_resumed(
    key: str, project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is asked in turn 2 depends on the very words of turn 1: were they not the same, it would be asked again."""
    monkeypatch.setenv("OPENAI_API_KEY", key)
    with FakeServer(reply_echo) as server:
        first = run(project, suite_of(make_target("openai", server)), code=1)
        assert len(server.requests) == 4
        again = project.run_json("resume", "last", code=1)
        assert len(server.requests) == 4
        for each in (first, again):
            each["results"] = [{**result, "duration_s": None} for result in each["results"]]
        assert again["results"] == first["results"]


@pytest.mark.parametrize(
    "written",
    [
        lambda key: base64.b64encode(key.encode()).decode(),
        lambda key: base64.b64encode(f"Bearer {key}".encode()).decode(),
        lambda key: base64.urlsafe_b64encode(f"x {key}".encode()).decode(),
        lambda key: key.lower(),
        lambda key: key.replace("/", "\\/"),
        lambda key: key.replace("+", "\\u002B"),
        lambda key: quote(key, safe="").replace("%2F", "%2f").replace("%2B", "%2b").replace("%3D", "%3d"),
        lambda key: key.replace("/", "&#x2F;").replace("=", "&#x3D;"),
        lambda key: f"{key[:20]} and no more",
        lambda key: f"'{key[:12]}') (tried 3 times)",
    ],
    ids=["base64", "base64-bearer", "base64-url", "small", "php", "dotnet", "query", "html", "beginning", "tried"],
)
def test_however_a_key_is_written(written: Callable[[str], str]) -> None:
    key = "sk/Proj+Abc123/xyz==LongEnoughTail98"
    mask = Mask({key: "env X"})
    text = f"it said {written(key)}."
    hidden = mask.hide_text(text)
    core = written(key)[6:18]
    assert core in text
    assert core not in hidden
    assert mask.reveal_text(hidden) == text


@pytest.mark.parametrize("status", [401, 502, 200])
def test_a_page_with_the_key_behind_much_white_space(status: int, project: Project) -> None:
    page = f"<html>\n{' ' * 590}<p>Your key {PLAIN}{CORE * 3} is old</p>"
    fault = Fault("status", status, headers={"content-type": "text/html"}, body=page)
    with FakeServer(lambda _: fault) as server:
        suite = suite_of({**make_target("openai", server), "api_key": f"{PLAIN}{CORE * 3}", "max_retries": 1})
        assert_tight(project, suite, server)


@pytest.mark.parametrize("secret", [PLAIN, AWKWARD, "päss\tword ☃ \U0001f511", "a" * 8, "a>>b<<c"])
def test_masking_can_be_undone(secret: str) -> None:
    mask = Mask({secret: "env X", f"{secret}2": "env Y"})
    forms = [secret, f"{secret}2", json.dumps(secret), json.dumps(json.dumps(secret)), quote(secret, safe="")]
    forms += [quote(secret), quote_plus(secret), repr(secret), f"{secret[:-1]} ...", f"{secret}{secret}", secret[:9]]
    for form in forms:
        for text in (form, f"before {form} after", f"{form}\n{form}", f"cut {form}..."):
            record = json.dumps({"type": "told", "reply": {"text": text}}, ensure_ascii=False).encode() + b"\n"
            hidden = mask.hide(record)
            assert secret not in json.loads(hidden)["reply"]["text"]
            assert json.loads(mask.reveal(hidden)) == json.loads(record)


def test_who_writes_a_marker_does_not_get_the_secret() -> None:
    """A model may say the name of a secret; were the value put in its place, it would be sent to that very model."""
    mask = Mask({PLAIN: "env X"})
    marker = mask.hide_text(PLAIN)
    assert marker == "<<env X>>"
    for text in (
        marker,
        f"{marker}{PLAIN}",
        "<<env X up to 9>>",
        f"<<literal {marker[2:]}",
        "<<env Y>>",
        "<<<env X>>>",
    ):
        record = json.dumps({"type": "told", "reply": {"text": text}}).encode()
        assert json.loads(mask.reveal(mask.hide(record))) == json.loads(record)
        assert CORE not in mask.hide_text(text)


def test_what_is_short_or_ours_is_left_alone() -> None:
    mask = Mask({"abc": "env SHORT", "told": "env WORD"})
    record = b'{"type":"told","key":"told","reply":{"text":"abc told"}}\n'
    assert mask.hide(record) == b'{"type":"told","key":"told","reply":{"text":"abc <<env WORD>>"}}\n'
    assert mask.reveal(mask.hide(record)) == record


@pytest.mark.parametrize("word", ["test", "EMPTY", "none", "ollama"])
def test_a_word_in_the_place_of_a_key_is_no_secret(
    word: str, project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Servers of one's own take any key. Were it hidden, the next key would be put where the word stood."""
    monkeypatch.setenv("OPENAI_API_KEY", word)
    with FakeServer(lambda _: Answer(f"This is {word}, and no other.")) as server:
        checks = [
            {"contains": f"is {word},"},
            {"contains": "never"},
            {"prompt": "Sure?", "checks": [{"contains": "is"}]},
        ]
        suite = suite_of(make_target("openai", server))
        suite["evals"] = [{"id": f"{word}-1", "prompt": "Hello", "checks": checks}]
        project.write("evals.yaml", suite)
        first = project.run_json("run", "--record", "cassettes", code=0)
        monkeypatch.setenv("OPENAI_API_KEY", PLAIN)
        asked = len(server.requests)
        for arguments in (("replay",), ("run", "--replay", "cassettes"), ("grade",), ("resume", first["run"]["id"])):
            again = project.run_json(*arguments, code=0)
            turns = [[turn["response"] for turn in one["turns"]] for one in (first["results"][0], again["results"][0])]
            assert turns[0] == turns[1] == [f"This is {word}, and no other."] * 2
        assert again["results"][0]["id"] == f"{word}-1"
        assert len(server.requests) == asked
        project.run("fork", first["run"]["id"], "--case", f"{word}-1", "--turn", "2", code=0)
        assert [one.body["messages"][1]["content"] for one in server.requests[asked:]] == turns[0][:1]


def test_another_key_is_not_put_where_one_was_hidden(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    """It would be sent out as a part of the conversation, to the target that judges it."""
    other = f"sk-another-{CORE[::-1]}"
    monkeypatch.setenv("OPENAI_API_KEY", PLAIN)
    with FakeServer(lambda _: Answer(f"You sent {PLAIN}.")) as server:
        suite = suite_of(make_target("openai", server))
        follow_up = {"prompt": "Sure?", "checks": [{"contains": "never"}]}
        suite["evals"] = [{"id": "a", "prompt": "Hello", "checks": [{"contains": "never"}, follow_up]}]
        project.write("evals.yaml", suite)
        run = project.run_json("run", code=1)["run"]["id"]
        monkeypatch.setenv("OPENAI_API_KEY", other)
        server.reset()
        assert project.invoke("fork", run, "--case", "a", "--turn", "2").exception is not None
        assert project.invoke("resume", run).exit_code in (0, 1)
        assert other not in json.dumps([one.body for one in server.requests])
        monkeypatch.setenv("OPENAI_API_KEY", PLAIN)
        server.reset()
        project.run("fork", run, "--case", "a", "--turn", "2", code=1)
        [request] = server.requests
        assert request.body["messages"][1]["content"] == f"You sent {PLAIN}.", "the same key is put back"


def test_a_type_of_error_is_the_servers_word() -> None:
    mask = Mask({PLAIN: "env KEY"})
    record = json.dumps({"type": "told", "failure": {"type": PLAIN, "message": "no"}}).encode()
    assert CORE.encode() not in mask.hide(record)
    assert json.loads(mask.reveal(mask.hide(record))) == json.loads(record)


def test_what_many_keys_begin_with_gives_none_away() -> None:
    token = f"eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.{CORE}.{CORE}"
    mask = Mask({token: "env X", "Correct Horse Battery Staple": "env Y"})
    for text in ("eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.another.one", "a correct horse battery"):
        assert mask.hide_text(text) == text
    assert CORE[:8] not in mask.hide_text(f"It was {token[:-4]} or so")


def test_what_is_no_secret_is_not_masked() -> None:
    finder = SecretFinder()
    settings = {
        "model": "monkey",
        "organization": "author@example.test",
        "temperature": "0.5",
        "max_output_tokens": "4096",
        "headers": {"X-Client": "tester", "Accept": "application/json", "X-Session": "nightly", "X-Design": "compact"},
        "extra_body": {"metadata": {"session": "nightly", "auth": "required"}},
        "body": {"keyboard": "qwerty", "author": "Goethe", "tokens": "many", "key": 5, "token": "{{ case_id }}"},
        "base_url": "http://127.0.0.1:8000/v1?version=2024",
    }
    finder.add_settings("t", settings)
    assert finder.secrets == {}


# Real processes


def real(project: Project, *arguments: str, **environment: str) -> list[tuple[str, bytes]]:
    ended = run_process(project.folder, *arguments, **environment)
    assert ended.code in (0, 1, 2, 3), ended
    assert "Traceback" not in ended.out + ended.err
    name = " ".join(arguments)
    return [(f"stdout of {name}", ended.out.encode()), (f"stderr of {name}", ended.err.encode())]


@pytest.mark.parametrize("behaviour", ["reply", "no-json"])
def test_real_commands(behaviour: str, project: Project) -> None:
    environment = {"OPENAI_API_KEY": AWKWARD, "PYTHONDEVMODE": "1"}
    with FakeServer(BEHAVIOURS[behaviour]) as server:
        project.write("evals.yaml", suite_of(make_target("openai", server), cases=12))
        said = real(project, "run", "evals.yaml", "-v", **environment)
        said += real(project, "show", "-v", **environment)
        said += real(project, "show", "--format", "json")  # the key is not known any more
        said += real(project, "resume", "last", "--retry-errors", **environment)
        said += real(project, "targets", "check", "model", "--suite", "evals.yaml", **environment)
        assert len(server.requests) >= 3
    assert leaks([*said, *run_files(project)]) == []


def test_a_killed_run_is_shown_without_the_key(project: Project) -> None:
    environment = {"OPENAI_API_KEY": PLAIN, "REJOINDER_KILL_AT": "told.queued:6"}
    with FakeServer(reply_echo) as server:
        project.write("evals.yaml", suite_of(make_target("openai", server), cases=8))
        run_process(project.folder, "run", "evals.yaml", **environment)
        assert run_files(project)
        assert leaks(run_files(project)) == []
        said = real(project, "show", "-v")
        said += real(project, "show", "-v", OPENAI_API_KEY=PLAIN)
        said += real(project, "resume", "last", "-v", OPENAI_API_KEY=PLAIN)
    assert leaks([*said, *run_files(project)]) == []


# Mistakes in files that hold keys


@pytest.mark.parametrize(
    "entry",
    [
        f"{{name: model, provider: opnai, model: m, api_key: {PLAIN}}}",
        f'{{name: model, provider: openai, api_key: "{PLAIN}"}}',
        f"{{name: model, provider: openai, model: m, api_key: {PLAIN}, temprature: 1}}",
        f"{{name: model, provider: openai, model: 5, headers: {{Authorization: Bearer {PLAIN}}}}}",
        f"{{name: model, provider: openai, model: m, api_key: [{PLAIN}]}}",
        f"{{name: model, provider: openai, model: m: n, api_key: {PLAIN}}}",
        f"{{name: model, provider: openai, model: 5, base_url: 'https://user:{PLAIN}@models.test'}}",
        f"{{name: model, provider: openai, model: m, base_url: 'htp://models.test/?api_key={PLAIN}'}}",
        *(
            f"{{name: model, provider: openai, model: m, {name}: {PLAIN}}}"
            for name in (
                "api-key",
                "api_keys",
                "key",
                "token",
                "apiToken",
                "secret",
                "password",
                "auth",
                "api_kee",
                "x",
            )
        ),
    ],
)
@pytest.mark.parametrize("form", ["text", "json", "sarif"])
def test_mistakes_beside_a_key(form: str, entry: str, project: Project) -> None:
    project.write(".rejoinder/targets.yaml", f"targets:\n  - {entry}\n")
    project.write("evals.yaml", "target: model\nevals:\n  - prompt: Hello\n    checks: [{match: x}]\n")
    said = [command(project, "validate", "evals.yaml", ".rejoinder/targets.yaml", "--format", form)]
    said += [command(project, "run", "evals.yaml"), command(project, "targets")]
    assert leaks(said) == []


@pytest.mark.parametrize(
    "line",
    [
        "api_key: ${{ KEY }}",
        'api_key: "Bearer ${{ KEY }}"',
        "api_key: {{ secret('key') }}",
        "base_url: http://127.0.0.1:8080/v1",
        "prompt: What is an API key?",
        "max_tokens: 4096",
    ],
)
def test_lines_without_a_key_are_shown_as_they_are(line: str) -> None:
    assert Problem(code="x", message="y", file="z", source=line, suggestion=line).source == line
    hidden = Problem(code="x", message="y", file="z", source=f"{line}, apiKey: {PLAIN}, m: n", suggestion=PLAIN)
    assert hidden.source == f"{line}, apiKey: {'*' * len(PLAIN)}, m: n"  # of the same length, so the caret is right
    assert hidden.suggestion is None


def test_the_search_finds_what_it_looks_for() -> None:
    pair = base64.b64encode(f"user:{PLAIN}".encode())
    for text in (PLAIN, AWKWARD, json.dumps(AWKWARD), quote(AWKWARD, safe=""), repr(AWKWARD)):
        assert leaks([("here", text.encode())])
    for before in range(3):
        assert leaks([("here", base64.b64encode(b"x" * before + PLAIN.encode()))])
    assert leaks([("here", pair)])
    assert not leaks([("here", b"nothing")])
