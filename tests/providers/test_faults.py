"""What goes wrong between a run and a model, one fault after the other, through the command."""

from __future__ import annotations

import json
import random
import re
import socket
import ssl
import time
from collections import Counter
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest
import trustme

from rejoinder.engine.targets import TargetState
from rejoinder.errors import UsageError
from rejoinder.providers import http_client
from rejoinder.providers.base import ProviderError
from rejoinder.testing import Answer, FakeServer, Fault, Received
from tests.kit import Project, Raw, journal_of, run, run_folders, run_process, spec

KEY = "sk-fault-0123456789"
SOON: Raw = {"retry_initial_delay_ms": 1, "retry_max_delay_ms": 20}
"""Retries without waiting."""


def openai(server: FakeServer) -> Raw:
    return {"provider": "openai", "model": "gpt-5", "base_url": server.openai_url, "api_key": KEY}


def responses(server: FakeServer) -> Raw:
    return {**openai(server), "api": "responses"}


def azure(server: FakeServer) -> Raw:
    return {"provider": "azure", "endpoint": server.azure_url, "deployment": "gpt-5", "api_key": KEY}


def anthropic(server: FakeServer) -> Raw:
    return {"provider": "anthropic", "model": "claude", "base_url": server.anthropic_url, "api_key": KEY}


def gemini(server: FakeServer) -> Raw:
    return {"provider": "gemini", "model": "gemini-2.5-flash", "base_url": server.gemini_url, "api_key": KEY}


Make = Callable[[FakeServer], Raw]
APIS: list[Make] = [openai, responses, azure, anthropic, gemini]


def status(number: int, **more: Any) -> Fault:
    return Fault("status", status=number, **more)


def suite_of(target: Raw, cases: int = 1, *others: Raw, **more: Any) -> Raw:
    named = {"name": "model", **SOON, **target}
    evals = [{"id": f"case-{n}", "prompt": f"Question {n}", "checks": [{"match": "*OK*"}]} for n in range(cases)]
    return {"target": named["name"], "targets": [named, *others], "evals": evals, **more}


def run_one(project: Project, target: Raw, *arguments: str, code: int | None = 3) -> Raw:
    """The one result of a suite with one case."""
    document = run(project, suite_of(target), *arguments, code=code)
    [result] = document["results"]
    return result


def counts(document: Raw) -> Counter[str]:
    return Counter(result["status"] for result in document["results"])


def told(project: Project) -> list[Raw]:
    """What the latest run's journal says came of its calls."""
    return [record for record in journal_of(run_folders(project.folder)[-1]) if record["type"] == "told"]


def attempts(project: Project) -> list[int]:
    return [record.get("attempts", 1) for record in told(project)]


def assert_final(project: Project, server: FakeServer, result: Raw, **error: Any) -> None:
    """It was asked once, ended in this error, and the journal says the same."""
    assert result["status"] == "error"
    given = result["error"]
    assert {name: given.get(name) for name in error} == error
    assert given["turn"] == 1
    assert len(server.requests) == 1
    [record] = told(project)
    assert "reply" not in record
    assert (record["failure"]["type"], record["failure"]["message"]) == (given["type"], given["message"])
    assert record["failure"].get("status") == given.get("status")
    assert record.get("attempts", 1) == 1


# Faults that pass


@pytest.mark.slow
@pytest.mark.parametrize("code", [408, 409, 429, 500, 502, 503, 504, 529])
@pytest.mark.parametrize("make", APIS)
def test_what_may_pass_is_tried_again(make: Make, code: int, project: Project) -> None:
    with FakeServer(faults=[status(code)] * 3) as server:
        document = run(project, suite_of(make(server), 6), "-w", "3", code=0)
        assert counts(document) == {"passed": 6}
        assert len(server.requests) == 6 + 3
    assert sum(attempts(project)) == 6 + 3
    assert all(result["error"] is None for result in document["results"])


@pytest.mark.parametrize("kind", ["reset_before_headers", "reset_in_body"])
@pytest.mark.parametrize("make", [openai, anthropic, gemini])
def test_a_connection_that_breaks_is_tried_again(make: Make, kind: Any, project: Project) -> None:
    with FakeServer(faults=[Fault(kind)] * 3) as server:
        document = run(project, suite_of(make(server), 6), "-w", "3", code=0)
        assert counts(document) == {"passed": 6}
        assert len(server.requests) == 6 + 3
    assert sum(attempts(project)) == 6 + 3


@pytest.mark.slow
@pytest.mark.parametrize("make", APIS)
@pytest.mark.parametrize("code", [429, 503])
def test_the_server_says_how_long_to_wait(make: Make, code: int, project: Project) -> None:
    with FakeServer(faults=[status(code, retry_after=0.4)]) as server:
        run(project, suite_of(make(server), 4), "-w", "1", code=0)
        first, second, *_ = server.requests
        assert second.at - first.at >= 0.4
        assert len(server.requests) == 5


@pytest.mark.parametrize("headers", [{"retry-after-ms": "400"}, {"retry-after": "0.4"}, {"Retry-After": "0.4"}])
def test_ways_to_say_how_long_to_wait(headers: dict[str, str], project: Project) -> None:
    with FakeServer(faults=[status(429, headers=headers)]) as server:
        run(project, suite_of(openai(server)), code=0)
        first, second = server.requests
        assert second.at - first.at >= 0.4


def test_all_targets_that_share_the_key_wait(project: Project) -> None:
    with FakeServer(faults=[status(429, retry_after=0.4)]) as server:
        run(project, suite_of(openai(server), 8), "-w", "1", code=0)
        assert server.requests[2].at - server.requests[0].at >= 0.4


@pytest.mark.parametrize(
    ("make", "fault", "kind", "words"),
    [
        (openai, status(500), "server_error", "The server had an error while processing your request."),
        (openai, status(503), "server_error", "The engine is currently overloaded"),
        (openai, status(429), "rate_limit_exceeded", "Rate limit reached on requests per min (RPM)."),
        (responses, status(500), "server_error", "The server had an error"),
        (azure, status(500), "InternalServerError", "The server had an error"),
        (azure, status(503), "ServiceUnavailable", "temporarily unable"),
        (anthropic, status(500), "api_error", "Internal server error"),
        (anthropic, status(529), "overloaded_error", "Overloaded"),
        (anthropic, status(429), "rate_limit_error", "rate limit of requests per minute"),
        (gemini, status(500), "INTERNAL", "An internal error has occurred."),
        (gemini, status(503), "UNAVAILABLE", "The model is overloaded."),
        (gemini, status(429), "RESOURCE_EXHAUSTED", "You exceeded your current quota"),
    ],
)
def test_what_does_not_pass_is_given_up_in_the_end(
    make: Make, fault: Fault, kind: str, words: str, project: Project
) -> None:
    cases = 1 if fault.status == 429 else 2  # a target that refuses more than three times in a row is given up
    with FakeServer(fault) as server:
        document = run(project, suite_of({**make(server), "max_retries": 2}, cases), "-w", "1", code=3)
        assert len(server.requests) == cases * 3
        last = server.requests[-1]
    assert counts(document) == {"error": cases}  # another call might still succeed, so the target goes on
    assert document["run"]["given_up"] == []
    assert attempts(project) == [3] * cases
    error = document["results"][-1]["error"]
    assert (error["type"], error["status"], error["turn"]) == (kind, fault.status, 1)
    provider = make(server)["provider"]
    assert error["message"].startswith(f"{provider} answered {fault.status} ({kind}): ")
    assert words in error["message"]
    if make is not gemini:  # which has no ids
        assert error["message"].rpartition(" [request ")[2].startswith(("req_", "00000000-"))
    assert last.body is not None


# Too slow, too long


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["slow_headers", "stall_in_body", "endless_body"])
@pytest.mark.parametrize("make", [openai, anthropic, gemini])
def test_patience_ends(make: Make, kind: Any, project: Project) -> None:
    with FakeServer(Fault(kind)) as server:
        result = run_one(project, {**make(server), "max_retries": 1}, "--timeout", "0.3")
        assert len(server.requests) == 2
    assert (result["error"]["type"], result["error"]["message"]) == (
        "timeout",
        "no answer within 0.3 s (tried 2 times)",
    )
    assert "status" not in result["error"]
    assert attempts(project) == [2]


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["slow_headers", "stall_in_body", "endless_body"])
def test_what_is_slow_once_is_tried_again(kind: Any, project: Project) -> None:
    with FakeServer(faults=[Fault(kind)]) as server:
        result = run_one(project, openai(server), "--timeout", "1", code=0)
        assert result["status"] == "passed"
        assert len(server.requests) == 2


def test_slow_is_not_too_slow(project: Project) -> None:
    with FakeServer(faults=[Fault("slow_headers", seconds=0.2), Fault("stall_in_body", seconds=0.2)]) as server:
        assert counts(run(project, suite_of(openai(server), 2), "--timeout", "30", code=0)) == {"passed": 2}
        assert len(server.requests) == 2


def test_the_target_can_say_how_patient_to_be(project: Project) -> None:
    with FakeServer(Fault("slow_headers")) as server:
        result = run_one(project, {**openai(server), "timeout_seconds": 0.3, "max_retries": 0})
    assert result["error"]["message"] == "no answer within 0.3 s"


@pytest.mark.parametrize("make", [openai, anthropic, gemini])
def test_a_body_without_end_is_not_kept(make: Make, project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_client, "MOST_BODY", 3000)
    with FakeServer(Fault("endless_body")) as server:
        result = run_one(project, make(server))
        assert_final(project, server, result, type="too-large")
        assert "is longer than" in result["error"]["message"]


# Answers that are no answers


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["invalid_json", "truncated_json", "empty_body", "wrong_content_type"])
@pytest.mark.parametrize("make", APIS)
def test_what_is_no_reply_is_not_asked_for_again(make: Make, kind: Any, project: Project) -> None:
    with FakeServer(Fault(kind)) as server:
        result = run_one(project, make(server))
        assert_final(project, server, result, type="bad-response", status=200)
    message = result["error"]["message"]
    content = "text/html" if kind == "wrong_content_type" else "application/json"
    assert message.startswith(f"{make(server)['provider']} answered 200 with ")
    assert f" bytes of {content}" in message and "which is not a reply: " in message


NONSENSE: list[bytes] = [
    *(b"null", b"[]", b"{}", b'"text"', b"12", b"true", b'{"error": null}', b'{"choices": []}', b'{"choices": [{}]}'),
    *(b'{"choices": [{"message": []}]}', b'{"content": 5}', b'{"candidates": [5]}', b'{"candidates": []}'),
    *(b'{"output": {}}', b"\xff\xfe", b'"\xff"', b'{"choices": "\xff"}', b"[" * 100_000, b'{"a":' * 100_000),
    *(b'{"choices": [{"message": {"content": ' + b"[" * 100_000, b'{"choices": [{"message": {"content": "\\ud800"}}]}'),
    *(b'{"usage": {"input_tokens": 1e999}}', b'{"usage": {"prompt_tokens": -1}, "choices": 1}', b"NaN", b"\x00"),
    b'{"candidates": [{"content": {"parts": [{"functionCall": {"name": "x", "args": {"a": "\xff"}}}]}}]}',
    b'{"usage": {}, "content": [{"type": "tool_use", "name": "x", "input": {"a": "\xff"}}]}',
    b'{"choices": [{"message": {"tool_calls": [{"function": {"name": "x", "arguments": "\xff"}}]}}]}',
]


@pytest.mark.parametrize("make", APIS)
def test_whatever_is_answered_with_200_is_no_bug(make: Make, project: Project) -> None:
    bodies = iter(NONSENSE)
    with FakeServer(faults=[status(200, body=body) for body in NONSENSE]) as server:
        document = run(project, suite_of(make(server), len(NONSENSE)), "-w", "1", code=None)
        assert len(server.requests) == len(NONSENSE)
    for result, body in zip(document["results"], bodies, strict=True):
        error = result["error"] or {"type": "bad-response"}  # some are a reply to a lenient eye, an empty one
        assert error["type"] == "bad-response", (body[:60], error)


@pytest.mark.parametrize("make", APIS)
def test_whatever_is_answered_with_an_error_is_no_bug(make: Make, project: Project) -> None:
    bodies = [
        *NONSENSE,
        b'{"error": 5}',
        b'{"error": "words"}',
        b'{"error": {"message": 5}}',
        b'{"error": {"code": 5}}',
    ]
    with FakeServer(faults=[status(418, body=body) for body in bodies]) as server:
        document = run(project, suite_of(make(server), len(bodies)), "-w", "1", code=3)
        assert len(server.requests) == len(bodies)
    for result, body in zip(document["results"], bodies, strict=True):
        assert result["error"]["status"] == 418, (body[:60], result["error"])
        assert result["error"]["message"].startswith(f"{make(server)['provider']} answered 418")


@pytest.mark.parametrize("code", [400, 401])
def test_a_terminal_is_not_given_orders_by_a_message(code: int, project: Project) -> None:
    body = {"error": {"message": "\x1b[2J\x1b]0;title\x07gone\u202e", "type": "x\x1b[2J", "code": None}}
    with FakeServer(status(code, body=body)) as server:
        project.write("evals.yaml", suite_of(openai(server)))
        shown = project.run("run", "evals.yaml", code=3)
        shown += project.run("show", "--verbose")
        shown += project.run("targets", "check", "model", "--suite", "evals.yaml", code=3)
    assert shown.count("gone") >= 3
    assert not set(shown) & set("\x1b\x07\u202e")


def test_a_redirection_is_not_followed(project: Project) -> None:
    with FakeServer(status(307, headers={"location": "http://127.0.0.1:1/elsewhere"})) as server:
        result = run_one(project, openai(server))
        assert_final(project, server, result, status=307)
    assert "a redirection to http://127.0.0.1:1/elsewhere" in result["error"]["message"]


# No server


def assert_given_up(project: Project, document: Raw, kind: str, workers: int = 10) -> str:
    """The target ended at once: what was under way is an error, the rest was not tried. Its message."""
    found = counts(document)
    assert found["error"] + found["skipped"] == len(document["results"])
    assert 1 <= found["error"] <= workers
    assert document["summary"]["exit_code"] == 3
    [given_up] = document["run"]["given_up"]
    assert (given_up["target"], given_up["type"]) == ("model", kind)
    for result in document["results"]:
        if result["status"] == "error":
            assert (result["error"]["type"], result["error"]["message"]) == (kind, given_up["message"])
        else:
            assert (result["error"], result["turns"]) == (None, [])
    shown = project.run("show")
    assert shown.count(given_up["message"]) == 1
    statuses = {result["error"].get("status") for result in document["results"] if result["error"]}
    assert ("--retry-errors" in shown) is (statuses <= {None, 429})  # another refusal would be repeated in vain
    return given_up["message"]


def test_a_refused_connection(project: Project) -> None:
    with FakeServer() as server:
        target = openai(server)
    document = run(project, suite_of({**target, "max_retries": 2}, 40), code=3)
    message = assert_given_up(project, document, "connection")
    assert message.startswith(f"no connection to {server.url.removeprefix('http://')}: connection refused")
    assert max(attempts(project)) == 3


@pytest.mark.parametrize("make", [openai, anthropic, gemini])
def test_a_host_that_cannot_be_found(make: Make, project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    def look_up(*_: Any, **__: Any) -> None:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    with FakeServer() as server:
        target = {**make(server), "base_url": "https://models.invalid/v1"}
    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    document = run(project, suite_of(target, 40), code=3)
    assert assert_given_up(project, document, "dns").startswith("the host `models.invalid` cannot be found")


def test_a_certificate_that_is_not_trusted(project: Project, server_tls: ssl.SSLContext) -> None:
    with FakeServer(tls=server_tls) as server:
        document = run(project, suite_of(openai(server), 40), code=3)
        assert server.requests == []
    message = assert_given_up(project, document, "tls")
    assert f"the certificate of {server.url.removeprefix('https://')} is not trusted" in message
    assert attempts(project) == [1] * counts(document)["error"]


def test_a_certificate_that_the_environment_trusts(
    project: Project, authority: trustme.CA, server_tls: ssl.SSLContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    authority.cert_pem.write_to_path(str(project.folder / "authority.pem"))
    monkeypatch.setenv("SSL_CERT_FILE", str(project.folder / "authority.pem"))
    with FakeServer(tls=server_tls) as server:
        assert counts(run(project, suite_of(openai(server), 4), code=0)) == {"passed": 4}
    monkeypatch.setenv("SSL_CERT_FILE", str(project.folder / "nothing.pem"))
    with FakeServer(tls=server_tls) as server:
        document = run(project, suite_of(openai(server), 40), code=3)
    assert "nothing.pem cannot be read" in assert_given_up(project, document, "tls")


def test_a_wrong_address(project: Project) -> None:
    target = {"provider": "openai", "model": "m", "base_url": "htp://models.test/v1"}
    project.write("evals.yaml", suite_of(target, 40))
    with pytest.raises(
        UsageError, match=r"begins with neither http:// nor https://\nWrite it out: https://models\.test/v1"
    ):
        project.run("run", "evals.yaml")
    assert "no runs" in project.run("runs")


def test_a_wrong_proxy(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", "socks5://127.0.0.1:1")
    monkeypatch.delenv("NO_PROXY", raising=False)
    monkeypatch.delenv("no_proxy", raising=False)
    target = {"provider": "openai", "model": "m", "base_url": "http://models.test/v1"}
    document = run(project, suite_of(target, 40), code=3)
    assert "HTTP_PROXY" in assert_given_up(project, document, "proxy")


# What ends a target


ENDINGS: list[tuple[Make, Fault, str]] = [
    (openai, status(401), "invalid_api_key"),
    (openai, status(402), "invalid_request_error"),
    (openai, status(404), "model_not_found"),
    (openai, status(429, code="insufficient_quota"), "insufficient_quota"),
    (openai, status(429, code="insufficient_quota", retry_after=1), "insufficient_quota"),
    (responses, status(401), "invalid_api_key"),
    (azure, status(401), "401"),
    (azure, status(404), "DeploymentNotFound"),
    (anthropic, status(401), "authentication_error"),
    (anthropic, status(402), "billing_error"),
    (anthropic, status(403), "permission_error"),
    (anthropic, status(404), "not_found_error"),
    (gemini, status(400, code="API_KEY_INVALID"), "API_KEY_INVALID"),
    (gemini, status(401), "UNAUTHENTICATED"),
    (gemini, status(403), "PERMISSION_DENIED"),
    (gemini, status(404), "NOT_FOUND"),
]


@pytest.mark.slow
@spec("P27")
@pytest.mark.parametrize(("make", "fault", "kind"), ENDINGS)
def test_what_every_other_call_would_get_ends_the_target(make: Make, fault: Fault, kind: str, project: Project) -> None:
    with FakeServer(fault) as server:
        document = run(project, suite_of(make(server), 60), code=3)
        assert len(server.requests) <= 10
    message = assert_given_up(project, document, kind)
    assert message.startswith(f"{make(server)['provider']} answered {fault.status} ({kind}): ")
    assert {result["error"]["status"] for result in document["results"] if result["error"]} == {fault.status}


@pytest.mark.slow
@pytest.mark.parametrize("body", [b"", b"<html>", b'{"error": "who are you?"}', b'{"detail": "who are you?"}'])
@pytest.mark.parametrize("code", [401, 404])
@pytest.mark.parametrize("make", [openai, anthropic, gemini])
def test_the_status_alone_is_enough(make: Make, code: int, body: bytes, project: Project) -> None:
    with FakeServer(status(code, body=body)) as server:
        document = run(project, suite_of(make(server), 30), code=3)
        assert len(server.requests) <= 10
    assert counts(document)["skipped"] >= 20


@pytest.mark.parametrize(
    ("make", "fault", "kind"),
    [
        (openai, status(400), "invalid_request_error"),
        (openai, status(400, code="context_length_exceeded"), "context_length_exceeded"),
        (openai, status(403), "unsupported_country_region_territory"),
        (openai, status(413), "invalid_request_error"),
        (openai, status(422), "invalid_request_error"),
        (azure, status(403), "unsupported_country_region_territory"),
        (anthropic, status(400), "invalid_request_error"),
        (anthropic, status(413), "request_too_large"),
        (gemini, status(400), "INVALID_ARGUMENT"),
    ],
)
def test_what_is_wrong_with_one_call_is_final_and_ends_nothing_else(
    make: Make, fault: Fault, kind: str, project: Project
) -> None:
    with FakeServer(fault) as server:
        document = run(project, suite_of(make(server), 15), "-w", "3", code=3)
        assert len(server.requests) == 15
    assert counts(document) == {"error": 15}
    assert document["run"]["given_up"] == []
    assert {(result["error"]["type"], result["error"]["status"]) for result in document["results"]} == {
        (kind, fault.status)
    }
    assert attempts(project) == [1] * 15


def expired(received: Received) -> Fault | str:
    """The key of one model is expired."""
    return status(401) if received.body["model"] == "expired" else "OK"


@pytest.mark.slow
def test_an_expired_key_is_told_once_by_a_real_command(project: Project) -> None:
    with FakeServer(status(401)) as server:
        project.write("evals.yaml", suite_of(openai(server), 200))
        code, out, err = run_process(project.folder, "run", "evals.yaml", "--workers", "10")
        assert len(server.requests) <= 20
    assert code == 3
    assert "Traceback" not in out + err
    assert (out + err).count("openai answered 401 (invalid_api_key): Incorrect API key provided.") == 1
    assert " not finished of 200" in out or "nothing was tested" in out
    assert "rejoinder resume" not in out  # it would be refused again, and nothing is lost by a new run


@pytest.mark.slow
def test_another_target_goes_on(project: Project) -> None:
    with FakeServer(expired) as server:
        other = {"name": "other", **openai(server), "model": "good"}
        suite = suite_of({**openai(server), "model": "expired"}, 40, other)
        document = run(project, suite, "--target", "model", "--target", "other", code=3)
        asked = Counter(received.body["model"] for received in server.requests)
    assert asked["good"] == 40
    assert asked["expired"] <= 20
    by_target = document["summary"]["by_target"]
    assert (by_target["other"]["passed"], by_target["other"]["total"]) == (40, 40)
    assert by_target["model"]["errors"] == asked["expired"]
    assert by_target["model"]["errors"] + by_target["model"]["skipped"] == 40
    assert [one["target"] for one in document["run"]["given_up"]] == ["model"]


@spec("P26")
def test_a_judge_whose_key_is_expired(project: Project) -> None:
    with FakeServer(expired) as server:
        judge = {"name": "judge", **openai(server), "model": "expired", **SOON}
        suite = suite_of({**openai(server), "model": "good"}, 60, judge, judge_target="judge")
        for case in suite["evals"]:
            case["checks"] = [{"llm_judge": {"criteria": "Is it fine?"}}]
        document = run(project, suite, code=3)
        asked = Counter(received.body["model"] for received in server.requests)
    assert asked["expired"] <= 20
    assert asked["good"] <= 20
    found = counts(document)
    assert found["error"] + found["skipped"] == 60
    assert found["error"] <= 20
    [given_up] = document["run"]["given_up"]
    assert (given_up["target"], given_up["type"]) == ("judge", "invalid_api_key")
    assert all(one["error"]["type"] == "check" for one in document["results"] if one["error"])
    shown = project.run("show")
    assert shown.count("openai answered 401") == 1


def test_a_run_goes_on_when_the_key_is_mended(project: Project) -> None:
    broken = True

    def reply(received: Received) -> Fault | str:
        return status(401) if broken and int(received.body["messages"][-1]["content"].split()[-1]) >= 5 else "OK"

    with FakeServer(reply) as server:
        document = run(project, suite_of(openai(server), 40), "-w", "5", code=3)
        done = counts(document)
        assert done["passed"] == 5
        assert done["skipped"] >= 25
        server.reset()
        broken = False
        resumed = project.run_json("resume", "last", "--retry-errors", code=0)
        assert counts(resumed) == {"passed": 40}
        assert len(server.requests) == 35  # what was answered is not asked again
        assert resumed["run"]["given_up"] == []
        assert resumed["run"]["id"] == document["run"]["id"]


def test_a_run_goes_on_when_the_server_is_back(project: Project) -> None:
    healthy = False

    def reply(_: Received) -> Fault | str:
        return "OK" if healthy else status(500)

    with FakeServer(reply) as server:
        document = run(project, suite_of({**openai(server), "max_retries": 0}, 10), code=3)
        assert counts(document) == {"error": 10}
        healthy = True
        kept = project.run_json("resume", "last", code=3)
        assert counts(kept) == {"error": 10}  # an error is an answer, unless it is wanted otherwise
        resumed = project.run_json("resume", "last", "--retry-errors", code=0)
        assert counts(resumed) == {"passed": 10}


@pytest.mark.parametrize("make", APIS)
@pytest.mark.parametrize("code", [429, 503])
def test_a_retry_after_an_hour_is_not_waited_for(make: Make, code: int, project: Project) -> None:
    with FakeServer(status(code, retry_after=3600)) as server:
        document = run(project, suite_of(make(server), 30), code=3)
        assert len(server.requests) <= 10
    assert counts(document)["skipped"] >= 20
    [given_up] = document["run"]["given_up"]
    assert given_up["message"].endswith("; the provider asks for a wait of 1 h 00 min, longer than rejoinder waits")


def test_an_hour_once_is_an_hour_for_all(project: Project) -> None:
    """The others are under way, or wait behind the limiter already; none of them is to sit it out."""
    with FakeServer(faults=[status(429, retry_after=0.2), status(429, retry_after=3600)]) as server:
        document = run(project, suite_of(openai(server), 30), "-w", "10", code=3)
        assert len(server.requests) <= 20
    assert len(document["run"]["given_up"]) == 1


# Content filters


def test_a_filtered_prompt(project: Project) -> None:
    with FakeServer(status(400, code="content_filter")) as server:
        result = run_one(project, azure(server))
        assert_final(project, server, result, type="content_filter", status=400)
    assert "content management policy" in result["error"]["message"]


@pytest.mark.parametrize("make", [openai, azure])
def test_a_filtered_prompt_ends_no_target(make: Make, project: Project) -> None:
    with FakeServer(faults=[status(400, code="content_filter")]) as server:
        document = run(project, suite_of(make(server), 5), "-w", "1", code=3)
    assert counts(document) == {"error": 1, "passed": 4}


@pytest.mark.parametrize("reason", ["SAFETY", "PROHIBITED_CONTENT", "SOMETHING_NEW"])
def test_a_blocked_prompt(reason: str, project: Project) -> None:
    with FakeServer(status(200, body={"promptFeedback": {"blockReason": reason}})) as server:
        result = run_one(project, gemini(server))
        assert_final(project, server, result, type="content_filter", status=200)
    assert result["error"]["message"] == f"gemini refused the prompt ({reason})"


@pytest.mark.parametrize("make", [openai, azure, gemini])
def test_a_filtered_reply_is_a_reply(make: Make, project: Project) -> None:
    with FakeServer(Answer("OK so", finish="content_filter")) as server:
        result = run_one(project, make(server), code=0)
    assert result["status"] == "passed"
    [turn] = result["turns"]
    assert (turn["response"], turn["finish_reason"]) == ("OK so", "content_filter")


@pytest.mark.parametrize("make", [openai, responses, anthropic])
def test_a_refusal_is_a_reply(make: Make, project: Project) -> None:
    with FakeServer(Answer("OK no", refusal="OK no")) as server:
        result = run_one(project, make(server), code=None)
    assert result["error"] is None
    assert result["turns"][0]["refusal"] is True


# What the target says about retries


def spelled(fields: Raw, camel: bool) -> Raw:
    def name(snake: str) -> str:
        first, *rest = snake.split("_")
        return first + "".join(word.capitalize() for word in rest)

    return {name(one) if camel else one: value for one, value in fields.items()}


camel_or_snake = pytest.mark.parametrize("camel", [False, True], ids=["snake", "camel"])


def without_delays(suite: Raw) -> Raw:
    """Only the retry settings that the target has itself."""
    for one in SOON:
        del suite["targets"][0][one]
    return suite


@pytest.mark.slow
@camel_or_snake
@pytest.mark.parametrize("code", [429, 500, 503])
@pytest.mark.parametrize("most", [0, 1, 4])
def test_how_often(most: int, code: int, camel: bool, project: Project) -> None:
    with FakeServer(status(code)) as server:
        target = {**openai(server), **spelled({"max_retries": most}, camel)}
        result = run_one(project, target)
        assert len(server.requests) == most + 1
    assert result["error"]["status"] == code
    assert attempts(project) == [most + 1]


def test_how_often_for_connections(project: Project) -> None:
    with FakeServer(Fault("reset_before_headers")) as server:
        result = run_one(project, {**openai(server), "max_retries": 2})
        assert len(server.requests) == 3
    assert result["error"]["type"] == "broken"
    assert "broke off" in result["error"]["message"]


@pytest.mark.slow
@pytest.mark.parametrize("most", [1, 2, 5])
def test_how_often_for_failures_and_refusals_together(most: int, project: Project) -> None:
    with FakeServer(faults=[status(500), status(429)] * 6) as server:
        result = run_one(project, {**openai(server), "max_retries": most})
        assert len(server.requests) == most + 1
    assert result["error"]["message"].endswith(f"(tried {most + 1} times)")
    assert attempts(project) == [most + 1]


@pytest.mark.slow
def test_failures_and_rate_limits_are_counted_apart_by_default(project: Project) -> None:
    with FakeServer(faults=[status(500), status(429), status(429)] * 3) as server:
        result = run_one(project, openai(server), code=0)
        assert len(server.requests) == 10
    assert result["status"] == "passed"


def test_three_retries_by_default(project: Project) -> None:
    with FakeServer(status(500)) as server:
        run_one(project, openai(server))
        assert len(server.requests) == 4


def test_the_command_wins_over_the_target(project: Project) -> None:
    with FakeServer(status(500)) as server:
        run_one(project, {**openai(server), "max_retries": 4}, "--max-retries", "1")
        assert len(server.requests) == 2


def test_too_many_requests_are_no_failures_of_a_target_that_answers(project: Project) -> None:
    """It is our pace that is wrong, so it is tried more often than what fails."""
    with FakeServer(faults=[None, *[status(429)] * 8]) as server:
        document = run(project, suite_of(openai(server), 2), "-w", "1", code=0)
        assert counts(document) == {"passed": 2}
        assert len(server.requests) == 10
    assert attempts(project) == [1, 9]


@pytest.mark.parametrize("retry_after", [None, 0.01])
@pytest.mark.parametrize("workers", ["1", "10"])
def test_a_target_that_refuses_everything_is_given_up_after_max_retries(
    workers: str, retry_after: float | None, project: Project
) -> None:
    with FakeServer(status(429, **({} if retry_after is None else {"retry_after": retry_after}))) as server:
        suite = suite_of({**openai(server), "retry_max_delay_ms": 20}, 30)
        project.write("evals.yaml", suite)
        ended = project.invoke("run", "evals.yaml", "--workers", workers, "--format", "json")
        assert ended.exit_code == 3
        assert len(server.requests) <= int(workers) + 2 * 3  # a retry may overlap the end of the round before it
        told = r"answers 429 \(too many requests\); next try in \d+ ms, giving up after 3 retries"
        assert len(re.findall(told, ended.stderr)) == 1
    document = json.loads(ended.stdout)
    [given_up] = document["run"]["given_up"]
    assert "it has refused every request of this run" in given_up["message"]
    [limits] = document["run"]["limits"]
    assert limits["refused"] == len(server.requests)


@pytest.mark.parametrize("most", [0, 1, 5])
def test_a_number_of_retries_does_not_keep_a_target_that_refuses_everything(most: int, project: Project) -> None:
    """Each call by itself would be given up, and the next one would wait longer still."""
    with FakeServer(status(429)) as server:
        suite = suite_of({**openai(server), "retry_max_delay_ms": 20, "max_retries": most}, 30)
        document = run(project, suite, "-w", "1", code=3)
        assert len(server.requests) == max(most, 3) + 1
    [given_up] = document["run"]["given_up"]
    assert "it has refused every request of this run" in given_up["message"]


def test_refusals_beside_calls_in_progress_do_not_count() -> None:
    """A slow model lets one call through and refuses the others meanwhile."""
    state, refusal = TargetState(), ProviderError("no", type="x", status=429, retryable=True, pressure="rate")
    state.sends()
    assert [state.has_failed(refusal, time.perf_counter()).rounds for _ in range(5)] == [0] * 5
    state.comes_back()
    assert [state.has_failed(refusal, time.perf_counter()).rounds for _ in range(2)] == [1, 2]
    assert state.has_failed(refusal, time.perf_counter() - 60).rounds == 2  # it went out with the first


@camel_or_snake
def test_which_statuses(camel: bool, project: Project) -> None:
    with FakeServer(faults=[status(418), status(500), None, status(429), status(503), None]) as server:
        target = {**openai(server), **spelled({"retry_status_codes": [418, 444]}, camel)}
        document = run(project, suite_of(target, 4), "-w", "1", code=3)
        assert len(server.requests) == 5
    found = [(result["status"], (result["error"] or {}).get("status")) for result in document["results"]]
    assert found == [("error", 500), ("passed", None), ("error", 429), ("error", 503)]


@pytest.mark.parametrize("code", [401, 402, 404])
@pytest.mark.parametrize("make", APIS)
def test_a_status_that_the_user_names_is_tried_again_even_if_it_ends_targets(
    make: Make, code: int, project: Project
) -> None:
    with FakeServer(faults=[status(code)] * 2) as server:
        result = run_one(project, {**make(server), "retry_status_codes": [code, 500]}, code=0)
        assert len(server.requests) == 3
    assert result["status"] == "passed"


def test_a_target_that_is_tried_again_in_vain_is_given_up(project: Project) -> None:
    with FakeServer(status(404)) as server:
        target = {**openai(server), "retry_status_codes": [404], "max_retries": 2}
        document = run(project, suite_of(target, 60), "-w", "3", code=3)
        assert 3 <= len(server.requests) <= 9
    message = assert_given_up(project, document, "model_not_found", workers=3)
    assert message.endswith("(tried 3 times)")


def test_a_used_up_quota_is_final_whatever_statuses_are_named(project: Project) -> None:
    with FakeServer(status(429, code="insufficient_quota")) as server:
        run_one(project, {**openai(server), "retry_status_codes": [429]})
        assert len(server.requests) == 1


def test_no_status_at_all(project: Project) -> None:
    with FakeServer(faults=[status(500), status(429)]) as server:
        document = run(project, suite_of({**openai(server), "retry_status_codes": []}, 2), "-w", "1", code=3)
        assert len(server.requests) == 2
    assert counts(document) == {"error": 2}


@camel_or_snake
def test_how_long(camel: bool, project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    ceilings: list[float] = []

    def uniform(low: float, high: float) -> float:
        assert low == 0
        ceilings.append(high)
        return high / 10

    fields = {"retry_initial_delay_ms": 100, "retry_backoff_factor": 3, "retry_max_delay_ms": 800, "max_retries": 4}
    with FakeServer(status(500)) as server:
        suite = suite_of(openai(server))
        suite["targets"][0] = {**without_delays(suite)["targets"][0], **spelled(fields, camel)}
        monkeypatch.setattr(random, "uniform", uniform)
        run(project, suite, code=3)
        waits = [later.at - earlier.at for earlier, later in pairwise(server.requests)]
    assert ceilings == pytest.approx([0.1, 0.3, 0.8, 0.8])
    assert all(wait >= ceiling / 10 for wait, ceiling in zip(waits, ceilings, strict=True))


def test_how_long_after_too_many_requests(project: Project) -> None:
    with FakeServer(faults=[status(429)]) as server:
        run(project, suite_of({**openai(server), "retry_initial_delay_ms": 400, "retry_max_delay_ms": 400}), code=0)
        first, second = server.requests
        assert second.at - first.at >= 0.3  # up to a quarter of it is left to chance


@pytest.mark.parametrize(
    ("code", "told_", "requests"), [(400, "true", 2), (500, "false", 1), (429, "false", 1), (503, "false", 1)]
)
def test_the_server_says_whether_to_try_again(code: int, told_: str, requests: int, project: Project) -> None:
    with FakeServer(faults=[status(code, headers={"x-should-retry": told_})]) as server:
        result = run_one(project, openai(server), code=None)
        assert len(server.requests) == requests
    assert result["status"] == ("passed" if requests == 2 else "error")


# Never by words


def saying(message: str, code: str | None = None, kind: str = "some_error") -> Raw:
    return {"error": {"message": message, "type": kind, "code": code}}


@pytest.mark.parametrize(
    "words",
    [
        "Rate limit reached. Please try again in 20s.",
        "429 Too Many Requests: rate_limit_exceeded",
        "The server is overloaded, try again later (503)",
        "timeout",
    ],
)
def test_words_do_not_make_an_error_pass(words: str, project: Project) -> None:
    with FakeServer(status(400, body=saying(words))) as server:
        result = run_one(project, openai(server))
        assert_final(project, server, result, type="some_error", status=400)
    assert words in result["error"]["message"]


@pytest.mark.parametrize("words", ["I am a teapot", "Incorrect API key provided", "insufficient_quota", "", "401"])
@pytest.mark.parametrize("code", [429, 500])
def test_words_do_not_make_an_error_final(code: int, words: str, project: Project) -> None:
    with FakeServer(faults=[status(code, body=saying(words))]) as server:
        result = run_one(project, openai(server), code=0)
        assert len(server.requests) == 2
    assert result["status"] == "passed"


def test_words_do_not_end_a_target(project: Project) -> None:
    body = saying("Incorrect API key provided. The model does not exist. insufficient_quota")
    with FakeServer(status(400, body=body)) as server:
        document = run(project, suite_of(openai(server), 15), "-w", "2", code=3)
        assert len(server.requests) == 15
    assert counts(document) == {"error": 15}


# What an error says


@pytest.mark.parametrize(
    ("make", "id_"),
    [
        (openai, "req_00000000000000000000000000000001"),
        (responses, "req_00000000000000000000000000000001"),
        (azure, "00000000-0000-4000-8000-000000000001"),
        (anthropic, "req_"),
        (gemini, None),
    ],
)
def test_an_error_names_who_said_what(make: Make, id_: str | None, project: Project) -> None:
    with FakeServer(status(400)) as server:
        message = run_one(project, make(server))["error"]["message"]
    provider = make(server)["provider"]
    kind = "INVALID_ARGUMENT" if make is gemini else "invalid_request_error"
    assert message.startswith(f"{provider} answered 400 ({kind}): ")
    assert "malformed" in message or "invalid argument" in message
    assert ("[request " in message) is (id_ is not None)
    assert id_ is None or f"[request {id_}" in message


def test_a_long_message_is_one_line_and_not_too_long(project: Project) -> None:
    with FakeServer(status(400, body=saying("one\n\n  two\t" + "long " * 1000))) as server:
        message = run_one(project, openai(server))["error"]["message"]
    assert "one two long" in message
    assert "\n" not in message
    assert len(message) < 700


@spec("P26")
def test_an_error_names_its_turn(project: Project) -> None:
    with FakeServer(faults=[None, status(400)]) as server:
        suite = suite_of(openai(server))
        suite["evals"][0]["checks"] = [{"match": "*no*"}, {"prompt": "Say no.", "checks": [{"match": "*no*"}]}]
        [result] = run(project, suite, code=3)["results"]
        assert len(server.requests) == 2
    assert (result["error"]["turn"], result["error"]["status"]) == (2, 400)
    assert [turn["response"] for turn in result["turns"]] == ["OK", None]


# The generic provider


def generic(server: FakeServer, path: str = "/v1/chat/completions") -> Raw:
    body = {"model": "m", "messages": "{{ messages }}"}
    url = f"{server.url}{path}"
    return {"provider": "http", "url": url, "body": body, "reply_path": "choices[0].message.content"}


def test_any_service_is_tried_again(project: Project) -> None:
    with FakeServer(faults=[status(500), status(429), Fault("reset_before_headers")]) as server:
        assert run_one(project, generic(server), code=0)["status"] == "passed"
        assert len(server.requests) == 4


def test_any_service_that_does_not_know_us_ends_the_target(project: Project) -> None:
    with FakeServer(status(401)) as server:
        document = run(project, suite_of(generic(server), 40), code=3)
        assert len(server.requests) <= 10
    assert "http answered 401" in assert_given_up(project, document, "status")


@pytest.mark.parametrize("kind", ["invalid_json", "truncated_json", "empty_body", "wrong_content_type"])
def test_any_service_with_no_reply(kind: Any, project: Project) -> None:
    with FakeServer(Fault(kind)) as server:
        assert_final(project, server, run_one(project, generic(server)), type="bad-response", status=200)


@pytest.mark.slow
@pytest.mark.parametrize("body", NONSENSE, ids=lambda body: repr(body[:20]))
def test_whatever_any_service_answers_is_no_bug(body: bytes, project: Project) -> None:
    with FakeServer(status(200, body=body)) as server:
        result = run_one(project, generic(server), code=None)
    assert (result["error"] or {"type": "bad-response"})["type"] == "bad-response"


def test_a_function_that_is_slow_once_does_not_end_its_target(project: Project) -> None:
    """It is no server that could be unreachable."""
    project.write(
        "own.py",
        "import time\ndef answer(request):\n    time.sleep(9 if 'a' in request.case_id else 0)\n    return 'x'\n",
    )
    target = {"name": "it", "provider": "python", "call": "own:answer", "timeout_seconds": 0.3, "max_retries": 0}
    cases = [{"id": name, "prompt": "Hello", "checks": [{"match": "x"}]} for name in ("a", "b")]
    document = run(project, {"targets": [target], "target": "it", "evals": cases}, "--workers", "1", code=3)
    assert [result["status"] for result in document["results"]] == ["error", "passed"]
