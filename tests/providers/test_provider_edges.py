"""Edges of asking models: two projects at once, runs taken up again, interrupts, odd answers, what is said of them."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

import rejoinder
from rejoinder.errors import UsageError
from rejoinder.prices.price_list import PriceList
from rejoinder.testing import Answer, FakeServer, Fault, Received, with_judge
from tests import kit
from tests.kit import PATIENCE_S, Process, Project, Raw, journal_of, run_folders, scripted, spec, statuses

KEY = "sk-edge-0123456789"
SOON: Raw = {"retry_initial_delay_ms": 1, "retry_max_delay_ms": 20}
"""Retries without waiting."""
OWN = {"input": 1, "output": 10}
"""A tenth of a cent for a thousand tokens of input, and for a hundred of output."""
USAGE = Answer("yes", input_tokens=1000, output_tokens=100)
VERDICT = json.dumps({"score": 1, "hits": [], "misses": [], "reasoning": "right"})


def openai(server: FakeServer, **more: Any) -> Raw:
    """The target of most tests, whose model has a price."""
    address = {"base_url": server.openai_url, "api_key": KEY}
    return {"name": "model", "provider": "openai", "model": "gpt-5-mini", **address, **SOON, **more}


def case(case_id: str = "one", *checks: Raw) -> Raw:
    return {"id": case_id, "prompt": f"Question {case_id}", "checks": list(checks) or [{"match": "*yes*"}]}


def cases(number: int) -> list[Raw]:
    return [case(f"case-{n}") for n in range(number)]


def suite_of(target: Raw, *evals: Raw, **more: Any) -> Raw:
    return {"target": target["name"], "targets": [target], "evals": list(evals) or [case()], **more}


def run(project: Project, suite: Raw, *arguments: str, code: int | None = 0) -> Raw:
    return kit.run(project, suite, *arguments, code=code)


def resume(project: Project, *arguments: str, code: int | None = 0) -> Raw:
    return project.run_json("resume", "last", *arguments, code=code)


def run_text(project: Project, suite: Raw, *arguments: str, code: int | None = 0) -> str:
    project.write("evals.yaml", suite)
    return project.run("run", "evals.yaml", *arguments, code=code)


def error_of(project: Project, target: Raw, *arguments: str) -> Raw:
    """The error that the one case of a suite ends in."""
    [result] = run(project, suite_of(target), *arguments, code=3)["results"]
    assert result["status"] == "error"
    return result["error"]


def line_of(text: str, title: str) -> str:
    """The line of a summary with this title; empty where there is none."""
    return next((line.strip() for line in text.splitlines() if line.startswith(f"  {title:10}")), "")


def ok(body: Any) -> Fault:
    """An answer of status 200 with a body of one's own."""
    return Fault("status", status=200, body=body)


def completion(text: str = "yes", **more: Any) -> Raw:
    choice = {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": text}}
    return {"model": "gpt-5-mini", "choices": [choice], **more}


def about(amount: float) -> Any:
    return pytest.approx(amount, rel=1e-9)


# Two projects


def test_two_projects_keep_their_keys_and_prices(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, price in (("a", 1), ("b", 5)):
        project.write(
            f"{name}/.rejoinder/config.yaml", {"prices": {"openai/gpt-5-mini": {"input": price, "output": 0}}}
        )
        project.write(f"{name}/.env", f"OPENAI_API_KEY=sk-of-project-{name}\n")
        project.write(f"{name}/evals.yaml", {"metadata": {"model": "openai/gpt-5-mini"}, "evals": [case(name)]})
    with FakeServer(USAGE) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.openai_url)
        document = project.run_json("run", "a/evals.yaml", "b/evals.yaml")
        keys = {
            request.body["messages"][-1]["content"]: request.headers["authorization"] for request in server.requests
        }
    assert keys == {"Question a": "Bearer sk-of-project-a", "Question b": "Bearer sk-of-project-b"}
    assert {result["id"]: result["cost"] for result in document["results"]} == {"a": about(0.001), "b": about(0.005)}


# Taken up again


@pytest.mark.parametrize(
    "change",
    [{"api_key": "sk-another-9876543210"}, {"timeout_seconds": 77}, {"max_retries": 1}, {"headers": {"x-team": "b"}}],
    ids=lambda change: next(iter(change)),
)
def test_how_a_target_is_asked_does_not_make_a_reply_another(change: Raw, project: Project) -> None:
    before = {"timeout_seconds": 60, "max_retries": 5, "headers": {"x-team": "a"}}
    with FakeServer(USAGE) as server:
        run(project, suite_of(openai(server, **before)))
        project.write("evals.yaml", suite_of(openai(server, **before, workers=2) | change))
        document = resume(project)
        assert len(server.requests) == 1
    assert statuses(document) == {"one": "passed"}


def test_what_a_target_is_asked_for_does(project: Project) -> None:
    with FakeServer(USAGE) as server:
        run(project, suite_of(openai(server, temperature=0.1)))
        project.write("evals.yaml", suite_of(openai(server, temperature=0.9)))
        resume(project)
        assert [request.body["temperature"] for request in server.requests] == [0.1, 0.9]


def test_another_judge_is_asked_and_the_candidate_is_not(project: Project) -> None:
    def judged_by(model: str) -> Raw:
        suite = suite_of(openai(server), case("one", {"llm_judge": {"criteria": "Is it right?"}}))
        suite["targets"].append(openai(server, name="judge", model=model))
        return {**suite, "judge_target": "judge"}

    with FakeServer(lambda request: "yes" if request.body["model"] == "gpt-5-mini" else VERDICT) as server:
        run(project, judged_by("first-judge"))
        project.write("evals.yaml", judged_by("second-judge"))
        document = resume(project)
        asked = [request.body["model"] for request in server.requests]
    assert asked == ["gpt-5-mini", "first-judge", "second-judge"]
    assert statuses(document) == {"one": "passed"}


def test_with_a_wrong_key_what_had_passed_stays_passed(project: Project) -> None:
    broken = Fault("status", status=400)
    with FakeServer(USAGE, key=KEY, faults=[broken, None, broken, None]) as server:
        run(project, suite_of(openai(server), *cases(4)), "-w", "1", code=3)
        project.write("evals.yaml", suite_of(openai(server, api_key="sk-wrong"), *cases(4)))
        document = resume(project, "--retry-errors", "-w", "1", code=3)
        now = statuses(document)
        assert (now["case-1"], now["case-3"]) == ("passed", "passed")
        assert "passed" not in (now["case-0"], now["case-2"])
        project.write("evals.yaml", suite_of(openai(server), *cases(4)))
        before = len(server.requests)
        document = resume(project, "--retry-errors")
        assert len(server.requests) - before == 2, "only what had not passed"
    assert set(statuses(document).values()) == {"passed"}


@pytest.mark.parametrize("option", ["--max-retries", "--timeout", "--workers"])
def test_resume_has_options_of_its_own(option: str, project: Project) -> None:
    broken, slow = Fault("status", status=500), Fault("slow_headers", seconds=PATIENCE_S)
    faults, before, now = {
        "--max-retries": ([broken] * 5, "0", "3"),
        "--timeout": ([slow] * 3, "0.1", "60"),
        "--workers": ([Fault("status", status=400)] * 3, "1", "3"),
    }[option]
    with FakeServer(USAGE, latency_s=0.3, faults=faults) as server:
        given = {"--max-retries": "0", "--workers": "3", option: before}
        arguments = [word for pair in given.items() for word in pair]
        document = run(project, suite_of(openai(server), *cases(3)), *arguments, code=3)
        assert "passed" not in statuses(document).values()
        assert option != "--workers" or server.peak_in_flight == 1
        server.reset()
        document = resume(project, "--retry-errors", option, now)
        assert server.peak_in_flight > 1
    assert set(statuses(document).values()) == {"passed"}


# Interrupted


def journal_types(project: Project) -> Counter[str]:
    """How many records of each type are in the journal of the only run."""
    return Counter(record["type"] for run in run_folders(project.folder) for record in journal_of(run))


@pytest.mark.slow
@pytest.mark.parametrize("how", ["interrupted", "killed"])
def test_refused_calls_are_not_in_doubt_and_those_under_way_are(
    how: str, project: Project, start: Callable[..., Process]
) -> None:
    def answer(request: Received) -> Fault:
        if "slow" in request.body["messages"][-1]["content"]:
            return Fault("slow_headers", seconds=PATIENCE_S)
        return Fault("status", status=429, retry_after=30)

    def has_settled() -> bool:
        asked = Counter("slow" in request.body["messages"][-1]["content"] for request in server.requests)
        return asked[True] == 2 and asked[False] > 0 and journal_types(project)["failed"] == asked[False]

    evals = [case("slow-1"), case("slow-2"), case("refused-1"), case("refused-2")]
    project.write("evals.yaml", {"metadata": {"model": "openai/gpt-5-mini"}, "evals": evals})
    with FakeServer(answer) as server:
        life = start("run", "--format", "json", "-w", "4", OPENAI_API_KEY=KEY, OPENAI_BASE_URL=server.openai_url)
        life.wait_for(has_settled)
        if how == "killed":
            life.kill()
            document = project.run_json("show", code=None)
        else:
            life.interrupt()
            life.wait_until_it_says("finishing the conversations in progress")
            life.interrupt()
            document = life.end().document
    assert (document["run"]["status"], document["run"]["in_doubt"]) == (how, 2)
    assert document["summary"]["unfinished"] == 4


@pytest.mark.slow
@pytest.mark.parametrize("fault", ["status 500", "connection refused"])
def test_one_interrupt_ends_the_waiting_for_another_attempt(
    fault: str, project: Project, start: Callable[..., Process], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Delays are far longer than the patience of the test: only the interrupt can end them."""
    later = {"retry_initial_delay_ms": 3_600_000, "retry_max_delay_ms": 3_600_000}
    target = {"name": "model", "provider": "openai", "model": "gpt-5-mini", **later}
    project.write("evals.yaml", suite_of(target, *cases(3)))
    with socket.create_server(("127.0.0.1", 0)) as listener:
        closed = f"http://127.0.0.1:{listener.getsockname()[1]}/v1"
    with FakeServer(Fault("status", status=500, retry_after=500)) as server:
        url = server.openai_url if fault == "status 500" else closed
        life = start("run", "--format", "json", "-w", "3", OPENAI_API_KEY=KEY, OPENAI_BASE_URL=url)
        life.wait_for(lambda: journal_types(project)["asked"] >= 3)
        if url == server.openai_url:
            life.wait_for(lambda: len(server.requests) == 3 and server.in_flight == 0)
        life.interrupt()
        ended = life.end()
        assert len(server.requests) == (3 if url == server.openai_url else 0)
    document = ended.document
    assert (ended.code, document["run"]["status"]) == (130, "interrupted")
    assert document["summary"]["unfinished"] == 3
    with FakeServer(USAGE) as healthy:
        monkeypatch.setenv("OPENAI_BASE_URL", healthy.openai_url)
        monkeypatch.setenv("OPENAI_API_KEY", KEY)
        document = resume(project)
        assert len(healthy.requests) == 3
    assert document["run"]["status"] == "completed"
    assert set(statuses(document).values()) == {"passed"}


# Prices


@pytest.mark.parametrize("raised", [ValueError, ZeroDivisionError, LookupError])
def test_a_reply_whose_price_cannot_be_told_is_kept(
    raised: type[Exception], project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}

    def fail(*_: Any, **__: Any) -> None:
        raise raised("no such price")

    monkeypatch.setattr(PriceList, "cost", fail)
    with FakeServer(ok(completion(usage=usage, model="gpt-5.4"))) as server:
        document = run(project, suite_of(openai(server, model="gpt-5.4")))
        [result] = document["results"]
        assert (result["status"], result["cost"]) == ("passed", None)
        assert document["summary"]["unpriced"] == {"openai/gpt-5.4": 1}
        document = resume(project)
        assert statuses(document) == {"one": "passed"}
        assert len(server.requests) == 1


def test_a_check_of_the_cost_is_made_up_for_once_there_is_a_price(project: Project) -> None:
    checked = case("one", {"match": "yes"}, {"cost": 0.01})
    with FakeServer(USAGE) as server:
        document = run(project, suite_of(openai(server, model="nobody-s-model"), checked), code=3)
        assert statuses(document) == {"one": "error"}
        project.write(".rejoinder/config.yaml", {"prices": {"openai/nobody-s-model": OWN}})
        document = resume(project)
        assert len(server.requests) == 1
    [result] = document["results"]
    assert (result["status"], result["cost"]) == ("passed", about(0.002))


# Errors in answers


FAILED_CHOICE = {"index": 0, "finish_reason": "error", "message": {"role": "assistant", "content": "ye"}}
PASSING: dict[str, tuple[Raw, Raw]] = {
    "gateway": ({}, {"error": {"message": "upstream went away", "code": 502}}),
    "no-choices": ({}, {"choices": None, "error": {"message": "upstream went away", "code": 502}}),
    "code-in-quotes": ({}, {"error": {"message": "upstream went away", "code": "502"}}),
    "choice": ({}, {"choices": [FAILED_CHOICE]}),
    "choice-with-error": ({}, {"choices": [{**FAILED_CHOICE, "error": {"message": "gone", "code": 502}}]}),
    "responses": (
        {"api": "responses"},
        {"status": "failed", "output": [], "error": {"code": "rate_limit_exceeded", "message": "slow down"}},
    ),
}


@pytest.mark.parametrize("name", PASSING)
def test_an_error_inside_an_answer_of_status_200_is_tried_again(name: str, project: Project) -> None:
    settings, body = PASSING[name]
    with FakeServer("yes", faults=[ok(body)] * 2) as server:
        document = run(project, suite_of(openai(server, **settings)))
        assert len(server.requests) == 3
    assert statuses(document) == {"one": "passed"}


@pytest.mark.parametrize("error", [{"message": "upstream went away", "code": 502}, "upstream went away"])
def test_the_words_of_an_error_inside_an_answer_are_kept(error: Any, project: Project) -> None:
    with FakeServer(ok({"choices": None, "error": error})) as server:
        told = error_of(project, openai(server))
    assert "upstream went away" in told["message"]


# Answers that the vendors' own clients read

ANSWERED: dict[str, tuple[Callable[[FakeServer], Raw], Raw]] = {
    "chat": (
        openai,
        {"choices": [{"message": {"content": "yes #"}}], "usage": {"prompt_tokens": 7, "completion_tokens": 3}},
    ),
    "responses": (
        lambda server: openai(server, api="responses"),
        {
            "output": [{"type": "message", "content": [{"type": "output_text", "text": "yes #"}]}],
            "usage": {"input_tokens": 7, "output_tokens": 3},
        },
    ),
    "anthropic": (
        lambda server: openai(server, provider="anthropic", base_url=server.anthropic_url),
        {"content": [{"type": "text", "text": "yes #"}], "usage": {"input_tokens": 7, "output_tokens": 3}},
    ),
    "gemini": (
        lambda server: openai(server, provider="gemini", base_url=server.gemini_url),
        {
            "candidates": [{"content": {"parts": [{"text": "yes #"}]}}],
            "usageMetadata": {"promptTokenCount": 7, "candidatesTokenCount": 3},
        },
    ),
    "http": (
        lambda server: openai(server, provider="http", url=f"{server.url}/x", reply_path="a", **NOT_FOR_HTTP),
        {"a": "yes #"},
    ),
}
NOT_FOR_HTTP: Raw = dict.fromkeys(("model", "base_url", "api_key"))
HALF = "yes \\ud83d, \\udc00."
"""Two halves of characters, as JSON can write them and no file can hold them."""


def telling(body: Raw) -> str:
    return json.dumps(body)


ODDLY: dict[str, Callable[[Raw], bytes]] = {
    "mark": lambda body: b"\xef\xbb\xbf" + telling(body).encode(),
    "no-numbers": lambda body: (
        telling({"odd": [0, {"odd": 1}], **body}).replace("0", "NaN").replace("1", "-Infinity").encode()
    ),
    "too-large": lambda body: telling({"odd": 0, **body}).replace("0", "1e999").encode(),
    "floats": lambda body: telling(body).replace("7", "7.0").replace("3", "3.0").encode(),
    "texts": lambda body: telling(body).replace("7", '"7"').replace("3", '"3"').encode(),
    "halves": lambda body: telling(body).replace("yes #", HALF).encode(),
}


@pytest.mark.parametrize("oddity", ODDLY)
@pytest.mark.parametrize("api", ANSWERED)
def test_an_answer_that_can_be_read_is_a_reply(api: str, oddity: str, project: Project) -> None:
    target, body = ANSWERED[api]
    with FakeServer(faults=[ok(ODDLY[oddity](body))]) as server:
        [result] = run(project, suite_of({k: v for k, v in target(server).items() if v is not None}))["results"]
        assert len(server.requests) == 1
    [turn] = result["turns"]
    assert turn["response"] == ("yes \ufffd, \ufffd." if oddity == "halves" else "yes #")
    if api != "http":
        assert turn["usage"] == {"input_tokens": 7, "output_tokens": 3, "total_tokens": 10}
    [answer] = project.run_json("show")["results"]
    assert answer["turns"] == result["turns"]


def changed(api: str, *changes: tuple[str, str]) -> Raw:
    text = telling(ANSWERED[api][1])
    for before, after in changes:
        assert before in text
        text = text.replace(before, after)
    return json.loads(text)


CALL = {"function": {"name": "look", "arguments": {"at": {"here": None}}}, "id": "c"}
UNTOLD: dict[str, tuple[str, Raw, Raw]] = {
    "chat-usage-null": ("chat", {**ANSWERED["chat"][1], "usage": None}, {}),
    "chat-usage-text": ("chat", {**ANSWERED["chat"][1], "usage": "none"}, {}),
    "chat-details-text": ("chat", changed("chat", ('"prompt_tokens": 7', '"prompt_tokens_details": "none"')), {}),
    "chat-negative": ("chat", changed("chat", ("7", "-7"), ("3", "-3")), {}),
    "chat-one-negative": ("chat", changed("chat", ("3", "-3")), {}),
    "responses-null": ("responses", changed("responses", ("7", "null")), {}),
    "responses-negative": ("responses", changed("responses", ("7", "-7")), {}),
    "responses-details": (
        "responses",
        changed("responses", ('"output_tokens": 3', '"output_tokens": 3, "output_tokens_details": {"by": {"a": 1}}')),
        {"input_tokens": 7, "output_tokens": 3},
    ),
    "anthropic-no-usage": ("anthropic", {"content": ANSWERED["anthropic"][1]["content"]}, {}),
    "anthropic-negative": ("anthropic", changed("anthropic", ("7", "-7"), ("3", "-3")), {}),
    "anthropic-details": (
        "anthropic",
        changed("anthropic", ('"output_tokens": 3', '"output_tokens": 3, "output_tokens_details": {"by": {"a": 1}}')),
        {"input_tokens": 7, "output_tokens": 3},
    ),
    "gemini-negative": ("gemini", changed("gemini", ("7", "-7"), ("3", "-3")), {}),
    "gemini-usage-list": ("gemini", {**ANSWERED["gemini"][1], "usageMetadata": [1]}, {}),
}


@pytest.mark.parametrize("name", UNTOLD)
def test_a_reply_is_kept_however_its_tokens_are_told(name: str, project: Project) -> None:
    """What is no count is not told; where one is missing, it is estimated, as for servers that count nothing."""
    api, body, expected = UNTOLD[name]
    target = ANSWERED[api][0]
    with FakeServer(ok(body)) as server:
        [result] = run(project, suite_of(target(server)))["results"]
    [turn] = result["turns"]
    assert turn["response"] == "yes #"
    usage = turn["usage"]
    assert usage.get("approximate", False) is not bool(expected)
    if expected:
        told = {name: count for name, count in usage.items() if count and name != "total_tokens"}
        assert told == expected
    assert result["cost"] is None or result["cost"] >= 0


def test_arguments_of_a_call_may_be_an_object(project: Project) -> None:
    body = {"choices": [{"message": {"content": None, "tool_calls": [CALL]}}]}
    checks = {"id": "one", "prompt": "Question", "checks": [{"tool_calls": ["look"]}]}
    with FakeServer(ok(body)) as server:
        [result] = run(project, suite_of(openai(server), checks))["results"]
    [told] = result["turns"][0]["tool_calls"]
    assert json.loads(told["arguments"]) == {"at": {"here": None}}


@pytest.mark.parametrize("content", [None, {"role": "model", "parts": None}], ids=["content", "parts"])
def test_gemini_may_say_nothing_at_all(content: Any, project: Project) -> None:
    body = {
        "candidates": [{"content": content, "finishReason": "MAX_TOKENS"}],
        "usageMetadata": {"promptTokenCount": 7},
    }
    checks = {"id": "one", "prompt": "Question", "checks": [{"finish_reason": "length"}]}
    with FakeServer(ok(body)) as server:
        [result] = run(project, suite_of(ANSWERED["gemini"][0](server), checks))["results"]
    assert result["turns"][0]["response"] == ""


def test_what_is_no_text_is_no_reply(project: Project) -> None:
    """What it was meant to say is unknown, and an empty reply would be graded."""
    for content in (b"5", b'{"a": NaN}', b'[{"text": 5}]'):
        body = b'{"choices": [{"message": {"content": %b}}], "usage": {"prompt_tokens": 7.0}}' % content
        with FakeServer(ok(body)) as server:
            assert error_of(project, openai(server))["type"] == "bad-response"


def test_a_response_that_is_not_finished_is_no_empty_reply(project: Project) -> None:
    suite = {"id": "one", "prompt": "Question", "checks": [{"match": "*"}]}
    with FakeServer(ok({"status": "queued", "output": []})) as server:
        [result] = run(project, suite_of(openai(server, api="responses"), suite), code=3)["results"]
    assert result["status"] == "error"
    assert "queued" in result["error"]["message"]


LOOSE: dict[str, tuple[int, Raw, str]] = {
    "flat": (400, {"object": "error", "message": "the prompt is too odd", "type": "t", "code": 400}, "too odd"),
    "message": (401, {"message": "Unauthorized"}, "Unauthorized"),
    "detail": (422, {"detail": "no field q"}, "no field q"),
    "details": (422, {"detail": [{"loc": ["body"], "msg": "a field is missing"}]}, "a field is missing"),
    "text": (400, {"error": "model is not loaded"}, "model is not loaded"),
}


@pytest.mark.parametrize("name", LOOSE)
def test_the_words_of_an_error_are_found_wherever_they_stand(name: str, project: Project) -> None:
    status, body, words = LOOSE[name]
    with FakeServer(Fault("status", status=status, body=body)) as server:
        error = error_of(project, openai(server))
    assert error["status"] == status
    assert words in error["message"]


def test_an_error_says_how_often_it_was_tried(project: Project) -> None:
    with FakeServer(Fault("status", status=500)) as server:
        assert "(tried 3 times)" in error_of(project, openai(server), "--max-retries", "2")["message"]
        assert "tried" not in error_of(project, openai(server), "--max-retries", "0")["message"]


def test_a_refused_key_is_named_by_its_variable(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-stale-0123456789")
    with FakeServer(key=KEY) as server:
        target = openai(server)
        message = error_of(project, {**target, "api_key": "sk-wrong-0123456789"})["message"]
        assert "api_key of target model" in message
        del target["api_key"]
        message = error_of(project, target)["message"]
    assert "OPENAI_API_KEY" in message
    assert "sk-stale-0123456789" not in message


def test_a_page_in_the_place_of_an_error_is_quoted(project: Project) -> None:
    page = "<html><head><title>Blocked by policy</title></head><body>" + "filler " * 500 + "the end</body></html>"
    with FakeServer(Fault("status", status=403, body=page)) as server:
        message = error_of(project, openai(server))["message"]
    assert "Blocked by policy" in message
    assert "the end" not in message
    assert len(message) < 600


# Addresses


@pytest.mark.parametrize("form", ["http://127.0.0.1:{}", "http://127.0.0.1:{}/", "127.0.0.1:{}", ":{}", "0.0.0.0:{}"])
def test_ollama_s_host_in_all_its_forms(form: str, project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    with FakeServer("yes") as server:
        monkeypatch.setenv("OLLAMA_HOST", form.format(server.url.rpartition(":")[2]))
        document = run(project, {"metadata": {"model": "ollama/llama3.2"}, "evals": [case()]})
        assert [request.path for request in server.requests] == ["/v1/chat/completions"]
    assert statuses(document) == {"one": "passed"}


@pytest.mark.parametrize("provider", ["openai", "anthropic", "gemini", "ollama"])
def test_an_address_without_a_scheme_is_refused(provider: str, project: Project) -> None:
    with FakeServer("yes") as server:
        place = server.url.removeprefix("http://")
        target = {"name": "model", "provider": provider, "model": "m", "base_url": f"{place}/v1", "api_key": KEY}
        project.write("evals.yaml", suite_of(target))
        with pytest.raises(UsageError, match=f"`{place}/v1`") as caught:
            project.run("run", "evals.yaml")
        assert server.connections == 0
    assert caught.value.exit_code == 2
    assert f"https://{place}/v1" in (caught.value.hint or "")


@pytest.mark.parametrize("ending", ["", "/", "/openai", "/openai/v1", "/openai/v1/"])
@pytest.mark.parametrize("version", [None, "v1"])
def test_azure_s_endpoint_as_its_portal_shows_it(ending: str, version: str | None, project: Project) -> None:
    with FakeServer("yes") as server:
        target = {"name": "model", "provider": "azure", "endpoint": f"{server.url}{ending}", "deployment": "mine"}
        run(project, suite_of({**target, "api_key": KEY, **({"version": version} if version else {})}))
        [path] = [request.path for request in server.requests]
    wanted = "/openai/v1/chat/completions" if version else "/openai/deployments/mine/chat/completions"
    assert path == wanted


@pytest.mark.parametrize(
    ("model", "path"),
    [
        ("gemini-2.5-flash", "models/gemini-2.5-flash"),
        ("models/gemini-2.5-flash", "models/gemini-2.5-flash"),
        ("tunedModels/abc", "tunedModels/abc"),
    ],
)
def test_gemini_s_models_by_their_full_names(model: str, path: str, project: Project) -> None:
    answer = {"candidates": [{"content": {"parts": [{"text": "yes"}]}, "finishReason": "STOP"}]}
    with FakeServer(faults=[ok(answer)]) as server:
        target = {"name": "model", "provider": "gemini", "model": model, "base_url": server.url, "api_key": KEY}
        document = run(project, suite_of(target))
        assert [request.path for request in server.requests] == [f"/v1beta/{path}:generateContent"]
    assert statuses(document) == {"one": "passed"}


# The wire


@pytest.mark.parametrize(("provider", "sent"), [("mistral", "(empty)"), ("openai", "")])
def test_an_empty_reply_goes_back_as_the_api_takes_it(provider: str, sent: str, project: Project) -> None:
    def answer(request: Received) -> str:
        return "yes" if len(request.body["messages"]) > 1 else ""

    followed = case("one", {"match": "*yes*"}, {"prompt": "Say it.", "checks": [{"match": "*yes*"}]})
    with FakeServer(answer) as server:
        [result] = run(project, suite_of(openai(server, provider=provider), followed))["results"]
        messages = server.requests[-1].body["messages"]
    assert result["succeeded_on_turn"] == 2
    assert result["turns"][0]["response"] == ""
    assert messages[1] == {"role": "assistant", "content": sent}


@contextmanager
def server_that_hangs_up() -> Iterator[str]:
    """The address of a server that promises to keep connections, and closes each after one answer."""
    body = json.dumps(completion()).encode()
    answer = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n" % len(body) + body

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        [length] = [line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")]
        await reader.readexactly(int(length.partition(b":")[2]))
        writer.write(answer)
        writer.close()
        await writer.wait_closed()

    async def work() -> None:
        nonlocal port
        async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
            port = server.sockets[0].getsockname()[1]
            ready.set()
            while not ending.is_set():
                await asyncio.sleep(0.02)

    port, ready, ending = 0, threading.Event(), threading.Event()
    thread = threading.Thread(target=asyncio.run, args=(work(),), daemon=True)
    thread.start()
    assert ready.wait(PATIENCE_S)
    try:
        yield f"http://127.0.0.1:{port}/v1"
    finally:
        ending.set()
        thread.join(PATIENCE_S)


@pytest.mark.slow
def test_connections_that_are_closed_behind_our_back_lose_nothing(project: Project) -> None:
    with server_that_hangs_up() as url:
        target = {"name": "model", "provider": "openai", "model": "gpt-5-mini", "base_url": url}
        document = run(project, suite_of({**target, "retry_initial_delay_ms": 1}, *cases(100)))
    assert Counter(statuses(document).values()) == {"passed": 100}


# What is said on a terminal


def test_failures_are_shown_before_recoveries(project: Project) -> None:
    names = [f"{'bad' if number % 5 == 4 and number < 35 else 'slow'}-{number}" for number in range(37)]
    bad = [name for name in names if name.startswith("bad")]
    assert (len(bad), len(names) - len(bad)) == (7, 30)
    replies = {"*": ["no", "yes"], **{name: ["no", "no"] for name in bad}}
    followed = [{"match": "yes"}, {"prompt": "Sure?", "checks": [{"match": "yes"}]}]
    demo = scripted("demo", replies=replies)
    text = run_text(project, suite_of(demo, *(case(name, *followed) for name in names)), code=1)
    lines = text.splitlines()
    assert [line.split(":")[0] for line in lines if line.startswith("FAIL ") and ": Question" in line] == [
        f"FAIL {name}" for name in bad
    ]
    recovered = [line for line in lines if line.startswith("RECOVERED ")]
    assert len(recovered) == 11 and recovered[-1] == "RECOVERED and 20 more"
    everything = run_text(project, json.loads((project.folder / "evals.yaml").read_text()), "--verbose", code=1)
    assert all(f": Question {name}\n" in everything for name in names)


def test_each_line_of_what_did_not_pass_names_its_target(project: Project) -> None:
    suite = {"targets": [scripted("left", "no"), scripted("right", "never")], "evals": [case("one"), case("two")]}
    text = run_text(project, suite, "--target", "left", "--target", "right", "--verbose", code=1)
    lines = [line for line in text.splitlines() if line.startswith("FAIL ") and ": match" in line]
    named = [(name, target) for name in ("one", "two") for target in ("left", "right")]
    assert [line.partition(": ")[0] for line in lines] == [f"FAIL {name} on {target}" for name, target in named]


def test_what_to_do_next_after_errors(project: Project) -> None:
    suite = suite_of(scripted("demo", replies={"one": [{"error": "no"}], "two": ["yes"]}), case("one"), case("two"))
    text = run_text(project, suite, code=3)
    [folder] = (project.folder / ".rejoinder" / "runs").glob("*-*")
    assert text.splitlines()[-2:] == [
        f"next: rejoinder resume {folder.name} --retry-errors",
        "ERROR 1 error, 1 passed of 2, 50% (9 to 91); 100% of the 1 without an error",
    ]
    passed = run_text(project, suite_of(scripted("demo", "yes")))
    assert "--retry-errors" not in passed


# Functions of the project


FULL_REPLY = """\
from rejoinder.model import Reply, ToolCall


def answer(request):
    calls = (ToolCall("look_up", '{"q": 1}', "call-1"),)
    return Reply("yes", model="mine-2", thinking="hm", tool_calls=calls, finish_reason="length")
"""


def test_a_whole_reply_of_a_function_is_kept(project: Project, module: Callable[[str], str]) -> None:
    mine = {"name": "mine", "provider": "python", "call": f"{module(FULL_REPLY)}:answer"}
    [result] = run(project, suite_of(mine))["results"]
    [turn] = result["turns"]
    assert (turn["model"], turn["thinking"], turn["finish_reason"]) == ("mine-2", "hm", "length")
    [call] = turn["tool_calls"]
    assert (call["name"], call["arguments"], call["id"]) == ("look_up", '{"q": 1}', "call-1")


def test_a_function_without_a_cost_is_named_where_it_makes_a_sum_incomplete(
    project: Project, module: Callable[[str], str]
) -> None:
    name = module("def answer(request):\n    return 'yes'\n")
    mine = {"name": "mine", "provider": "python", "call": f"{name}:answer"}
    with FakeServer(USAGE) as server:
        suite = {"targets": [mine, openai(server)], "evals": [case()]}
        text = run_text(project, suite, "--target", "mine", "--target", "model", "--verbose")
    assert line_of(run_text(project, suite_of(mine)), "cost") == "", "alone it may well be free"
    line = line_of(text, "cost")
    assert "$0.00045" in line
    assert "no price for mine (1 call)" in line


# Tokens


def test_tokens_of_all_kinds_are_added_up(project: Project) -> None:
    counted = Answer("yes", input_tokens=1000, cached_tokens=600, output_tokens=100, reasoning_tokens=40)
    with FakeServer(counted) as server:
        summary = run(project, suite_of(openai(server), *cases(2)))["summary"]
        text = run_text(project, suite_of(openai(server), *cases(2)), "--verbose")
    assert summary["usage"] == {
        "input_tokens": 2000,
        "output_tokens": 200,
        "total_tokens": 2200,
        "reasoning_tokens": 80,
        "cached_tokens": 1200,
    }
    assert line_of(text, "tokens") == "tokens    2,200 (2,000 in, 1,200 cached, 200 out, 80 thinking)"


def test_uncounted_tokens_are_told_from_counted_ones(project: Project) -> None:
    with FakeServer(faults=[None, ok(completion())], reply=USAGE) as server:
        suite = suite_of(openai(server), *cases(2))
        document = run(project, suite, "-w", "1")
    with FakeServer(ok(completion())) as server:
        text = run_text(project, suite_of(openai(server)), "--verbose")
    counted, guessed = document["results"]
    assert "approximate" not in counted["usage"]
    assert guessed["usage"]["approximate"] is True
    assert document["summary"]["usage"]["approximate"] is True
    assert line_of(text, "tokens").startswith("tokens    about ")
    assert line_of(text, "cost").startswith("cost      about $")
    assert "  Used: about " in text


def test_what_a_conversation_used_is_shown_for_models_and_not_for_scripts(project: Project) -> None:
    followed = case("one", {"match": "never"}, {"prompt": "Sure?", "checks": [{"match": "yes"}]})
    with FakeServer(USAGE) as server:
        text = run_text(project, suite_of(openai(server), followed), "--verbose")
    assert text.count("  Used: ") == 1
    assert "  Turn 1 used 1,100 tokens (1,000 in, 100 out), $0.00045 ($0.00025 input, $0.00020 output)" in text
    assert "  Used: 2,200 tokens (2,000 in, 200 out), $0.0009 ($0.0005 input, $0.0004 output)" in text
    counted = {"text": "yes", "input_tokens": 5, "output_tokens": 5}
    text = run_text(project, suite_of(scripted("demo", counted)), "--verbose")
    assert "Eval 1: " in text
    assert "used" not in text.lower()


@spec("R66")
def test_the_total_cost_is_that_of_models_and_judges(project: Project) -> None:
    judged = case("one", {"llm_judge": {"criteria": "Is it right?"}})
    said, verdict = (Answer(text, input_tokens=1000, output_tokens=100) for text in ("yes", VERDICT))
    with FakeServer(with_judge(said, verdict)) as server:
        suite = suite_of(openai(server), judged, judge_target="judge")
        suite["targets"].append(openai(server, name="judge", model="gpt-5"))
        path = project.write("evals.yaml", suite)
        summary = rejoinder.run(path).summary
    assert summary.cost == about(0.00045)
    assert summary.judge_cost == about(0.00225)
    assert summary.total_cost == about(summary.cost + summary.judge_cost)
    assert summary.total_tokens == 2200
