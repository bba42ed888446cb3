"""The cache: what was answered in an earlier run is not asked again, and is not reported as paid for twice.

The server of these tests gives another answer each time that it is asked. So two runs that come to the same did not
ask twice.
"""

from __future__ import annotations

import contextlib
import json
import sqlite3
import time
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from rejoinder.engine.cache import FILE, Cache
from rejoinder.model import Reply
from rejoinder.runs.secrets import Mask
from rejoinder.testing import Answer, FakeServer, Fault, Received, is_judging
from tests.kit import (
    KILLED,
    Process,
    Project,
    Raw,
    journal_of,
    refused,
    run_folders,
    run_process,
    scripted,
    spec,
    told_in,
)
from tests.labs.paid_lab import PRICES, PaidServer, comparable, make_suite

KEY = "sk-the-key-of-the-first-run"


def different() -> Callable[[Received], Answer]:
    """Answers of which no two are the same."""
    numbers = count(1)

    def answer(request: Received) -> Answer:
        number = next(numbers)
        if is_judging(request):
            words = {"score": number % 10 / 10, "hits": [], "misses": [], "reasoning": f"verdict {number}"}
            return Answer(json.dumps({**words, "better": "12"[number % 2]}))
        return Answer(f"answer {number}", input_tokens=1000, output_tokens=100)

    return answer


@pytest.fixture
def server() -> Iterator[FakeServer]:
    with FakeServer(different()) as server:
        yield server


def target(server: FakeServer, **more: Any) -> Raw:
    return {
        "name": "it",
        "provider": "openai",
        "model": "gpt-5-mini",
        "base_url": f"{server.url}/v1",
        "retry_initial_delay_ms": 1,
        "cache": True,
        **more,
    }


def case(case_id: str = "one", *checks: Raw) -> Raw:
    return {"id": case_id, "prompt": f"Question {case_id}", "checks": list(checks) or [{"contains": "answer"}]}


JUDGED = {"llm_judge": {"criteria": "Is it right?", "votes": 3}}
FOLLOWED = ({"contains": "never"}, {"prompt": "Sure?", "checks": [{"contains": "never"}]})


def suite(server: FakeServer, *cases: Raw, **more: Any) -> Raw:
    return {"targets": [target(server)], "evals": list(cases) or [case()], **more}


def run(project: Project, content: Raw, *arguments: str, code: int | None = None) -> Raw:
    project.write("evals.yaml", content)
    return project.run_json("run", "evals.yaml", "--cache", *arguments, code=code)


def replies_of(document: Raw) -> list[list[str]]:
    return [[turn["response"] for turn in result["turns"]] for result in document["results"]]


def kept_replies(project: Project) -> int:
    with contextlib.closing(Cache(project.folder)) as cache:
        return cache.contents().replies


def cache_file(project: Project) -> Path:
    return project.folder / FILE


def everything(project: Project) -> bytes:
    """All bytes of the cache, those that SQLite has beside the file among them."""
    return b"".join(path.read_bytes() for path in cache_file(project).parent.glob("cache.sqlite*"))


# What is asked again, and what is not


@pytest.mark.slow
@spec("A19", "A21", "B14")
def test_a_second_run_is_answered_from_the_cache_with_equal_results(project: Project, server: FakeServer) -> None:
    cases = [
        case("plain"),
        case("followed", *FOLLOWED),
        case("judged", JUDGED, {"prompt": "Sure?", "checks": [{"contains": "never"}]}),
        case("meant", {"semantic": {"expected": ["answer 1", "something else"], "threshold": 0}}),
        case("compared", {"compare": {"reply": "Rome", "criteria": "Which is clearer?"}}),
    ]
    more = target(server, name="meaning", model="text-embedding-3-small")
    content = suite(server, *cases, target="it", embedding_target="meaning")
    content["targets"].append(more)
    first = run(project, content, "--repeat", "3")
    asked = len(server.requests)
    second = run(project, content, "--repeat", "3")
    assert len(server.requests) == asked
    assert comparable(second) == comparable(first)
    assert second["run"]["from_cache"]["answers"] == asked > 30
    assert first["run"]["from_cache"] == {"answers": 0, "repeated": 0, "tokens": 0, "cost": None}


def test_repeats_have_answers_of_their_own(project: Project, server: FakeServer) -> None:
    first = run(project, suite(server), "--repeat", "2")
    assert replies_of(first) == [["answer 1"], ["answer 2"]]
    more = run(project, suite(server), "--repeat", "3")
    assert replies_of(more) == [["answer 1"], ["answer 2"], ["answer 3"]]
    assert replies_of(run(project, suite(server))) == [["answer 1"]]
    assert len(server.requests) == 3


def test_further_votes_of_a_judge_are_asked_for(project: Project, server: FakeServer) -> None:
    def judged(votes: int) -> Raw:
        return suite(server, case("one", {"llm_judge": {"criteria": "Is it right?", "votes": votes}}))

    run(project, judged(1))
    assert len(server.requests) == 2
    [result] = run(project, judged(3))["results"]
    assert len(server.requests) == 4
    assert sorted(result["turns"][0]["checks"][0]["votes"]) == [0.2, 0.3, 0.4], "the first is the one of before"


MATTERS: dict[str, Callable[[Raw], Any]] = {
    "model": lambda it: it["targets"][0].update(model="gpt-5-nano"),
    "temperature": lambda it: it["targets"][0].update(temperature=0.5),
    "max-tokens": lambda it: it["targets"][0].update(max_tokens=50),
    "seed": lambda it: it["targets"][0].update(seed=1),
    "extra-body": lambda it: it["targets"][0].update(extra_body={"user": "somebody"}),
    "api": lambda it: it["targets"][0].update(api="responses"),
    "provider": lambda it: it["targets"][0].update(provider="vllm"),
    "system-prompt": lambda it: it.update(metadata={"system_prompt": "Be brief."}),
    "system-prompt-of-the-target": lambda it: it["targets"][0].update(system_prompt="Be brief."),
    "prompt": lambda it: it["evals"][0].update(prompt="Question two"),
    "an-empty-line": lambda it: it["evals"][0].update(prompt="Question\n\none"),
}


@pytest.mark.slow
@spec("A19")
@pytest.mark.parametrize("change", MATTERS)
def test_what_an_answer_depends_on_is_asked_anew(change: str, project: Project, server: FakeServer) -> None:
    content = suite(server)
    run(project, content)
    MATTERS[change](content)
    assert replies_of(run(project, content)) == [["answer 2"]]
    assert replies_of(run(project, suite(server))) == [["answer 1"]], "and what was kept before is there still"


NO_MATTER: dict[str, Callable[[Raw], Any]] = {
    "name-of-the-target": lambda it: it["targets"][0].update(name="another"),
    "api-key": lambda it: it["targets"][0].update(api_key="another-key"),
    "timeout": lambda it: it["targets"][0].update(timeout_seconds=7),
    "retries": lambda it: it["targets"][0].update(max_retries=1, retry_initial_delay_ms=2, retry_max_delay_ms=3),
    "workers": lambda it: it["targets"][0].update(workers=1),
    "name-of-the-case": lambda it: it["evals"][0].update(id="another"),
    "tags": lambda it: it["evals"][0].update(tags=["new"]),
    "checks": lambda it: it["evals"][0].update(checks=[{"contains": "nothing"}]),
    "name-of-the-suite": lambda it: it.update(metadata={"name": "Another"}),
}


@spec("A19")
@pytest.mark.parametrize("change", NO_MATTER)
def test_settings_that_do_not_affect_answers_keep_the_cache(change: str, project: Project, server: FakeServer) -> None:
    content = suite(server)
    run(project, content)
    NO_MATTER[change](content)
    assert replies_of(run(project, content)) == [["answer 1"]]
    assert len(server.requests) == 1


@pytest.mark.slow
def test_command_options_that_do_not_affect_answers_keep_the_cache(project: Project, server: FakeServer) -> None:
    run(project, suite(server), "--workers", "3")
    more = ("--workers", "1", "--timeout", "9", "--max-retries", "0", "--include", "messages", "--limit", "1")
    assert replies_of(run(project, suite(server), *more)) == [["answer 1"]]
    assert replies_of(run(project, suite(server), "--max-tokens", "70")) == [["answer 2"]]
    content = suite(server)
    content["targets"][0]["max_tokens"] = 70
    assert replies_of(run(project, content)) == [["answer 2"]], "it is the same request"
    assert replies_of(run(project, content, "--max-tokens", "9")) == [["answer 2"]], "the target's own counts"
    assert replies_of(run(project, suite(server), "--system-prompt", "Be brief.")) == [["answer 3"]]


def test_a_model_that_the_environment_names_is_told_from_another(
    project: Project, server: FakeServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    content = suite(server)
    content["targets"][0]["model"] = "${{ CHOSEN_MODEL }}"
    for model, reply in (("gpt-5-mini", "answer 1"), ("gpt-5-nano", "answer 2"), ("gpt-5-mini", "answer 1")):
        monkeypatch.setenv("CHOSEN_MODEL", model)
        assert replies_of(run(project, content)) == [[reply]]
    assert [request.body["model"] for request in server.requests] == ["gpt-5-mini", "gpt-5-nano"]


def test_a_server_elsewhere_is_another_one(
    project: Project, server: FakeServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    content = suite(server)
    del content["targets"][0]["base_url"]
    monkeypatch.setenv("OPENAI_BASE_URL", f"{server.url}/v1")
    run(project, content)
    with FakeServer("from elsewhere") as other:
        monkeypatch.setenv("OPENAI_BASE_URL", f"{other.url}/v1")
        assert replies_of(run(project, content)) == [["from elsewhere"]]


def test_calls_of_tools_are_part_of_what_is_asked(project: Project, server: FakeServer) -> None:
    def booked(hotel: str) -> Raw:
        call = {"id": "call-1", "name": "book", "arguments": {"hotel": hotel}}
        messages = [
            {"role": "user", "content": "Book one."},
            {"role": "assistant", "content": "", "tool_calls": [call]},
            {"role": "tool", "content": "done", "tool_call_id": "call-1"},
        ]
        return suite(server, {"id": "one", "input_messages": messages, "checks": [{"contains": "answer"}]})

    assert replies_of(run(project, booked("Lutetia"))) == [["answer 1"]]
    assert replies_of(run(project, booked("Ritz"))) == [["answer 2"]]
    assert replies_of(run(project, booked("Lutetia"))) == [["answer 1"]]


def test_a_template_of_one_s_own_is_asked_for_each_of_its_words(project: Project, server: FakeServer) -> None:
    it = {
        "name": "it",
        "provider": "http",
        "url": f"{server.url}/v1/chat/completions",
        "headers": {"authorization": "Bearer one", "x-case": "{{ case_id }}"},
        "body": {"model": "m", "messages": "{{ messages }}"},
        "reply_path": "choices[0].message.content",
        "cache": True,
    }
    same = {"prompt": "The same question", "checks": [{"contains": "answer"}]}
    content = {"targets": [it], "evals": [{"id": "a", **same}, {"id": "b", **same}]}
    first = run(project, content, "--workers", "1")
    assert replies_of(first) == [["answer 1"], ["answer 2"]], "the case is part of the request"
    it["headers"]["authorization"] = "Bearer two"
    assert replies_of(run(project, content)) == [["answer 1"], ["answer 2"]]


def test_cases_that_ask_the_same_share_one_answer_however_many_ask_at_once(project: Project) -> None:
    """Else the answers of the first run would depend on who was quicker, and the second run would have others."""
    cases = [{"id": f"case-{number}", "prompt": "The same", "checks": [{"contains": "x"}]} for number in range(8)]
    with FakeServer(different(), latency_s=0.05) as server:
        first = run(project, suite(server, *cases), "--workers", "8")
        second = run(project, suite(server, *cases))
        assert len(server.requests) == 1
    assert replies_of(first) == replies_of(second) == [["answer 1"]] * 8
    assert (first["run"]["from_cache"]["answers"], second["run"]["from_cache"]["answers"]) == (7, 8)


def test_answers_repeated_within_a_run_are_not_said_to_come_from_earlier_runs(project: Project) -> None:
    cases = [{"id": f"case-{number}", "prompt": "The same", "checks": [{"contains": "answer"}]} for number in range(4)]
    with FakeServer(different()) as server:
        first = run(project, suite(server, *cases))
        assert (first["run"]["from_cache"]["answers"], first["run"]["from_cache"]["repeated"]) == (3, 3)
        shown = project.run("show", "--verbose")
        assert "3 answers repeated within this run; 3,300 of the tokens" in shown
        assert "earlier" not in shown
        more = [{"id": f"more-{number}", "prompt": "Other", "checks": [{"contains": "answer"}]} for number in range(2)]
        second = run(project, suite(server, *cases, *more))
        assert (second["run"]["from_cache"]["answers"], second["run"]["from_cache"]["repeated"]) == (5, 1)
        assert "4 answers from earlier runs, 1 answer repeated within this run; 5,500" in project.run(
            "show", "--verbose"
        )


@pytest.mark.slow
def test_answers_repeated_before_and_after_a_kill_count_as_of_the_same_run(project: Project) -> None:
    cases = [{"id": f"case-{number}", "prompt": "The same", "checks": [{"contains": "answer"}]} for number in range(6)]
    with FakeServer(different()) as server:
        project.write("evals.yaml", suite(server, *cases))
        given = ("run", "evals.yaml", "--cache", "--workers", "1")
        assert run_process(project.folder, *given, REJOINDER_KILL_AT="conversation.finished:3").code == KILLED
        resumed = project.run_json("resume", "last", code=0)
        assert len(server.requests) == 1
    assert (resumed["run"]["from_cache"]["answers"], resumed["run"]["from_cache"]["repeated"]) == (5, 5)


def test_who_waits_for_an_equal_call_that_fails_asks_itself(project: Project) -> None:
    cases = [{"id": f"case-{number}", "prompt": "The same", "checks": [{"contains": "x"}]} for number in range(4)]
    with FakeServer(different(), faults=[Fault("status", status=400)] * 2, latency_s=0.02) as server:
        document = run(project, suite(server, *cases), "--workers", "4")
        assert len(server.requests) == 3
    assert [result["status"] for result in document["results"]].count("error") == 2


def test_a_cached_vector_serves_every_target_that_asks_for_it(project: Project) -> None:
    """In which trial a text is said first is an accident, and what it means is the same in all."""
    replies = iter(["alpha", "beta", "beta"])
    with FakeServer(lambda _: next(replies)) as server:
        meaning = target(server, name="meaning", model="text-embedding-3-small")
        checks = [{"semantic": {"expected": "gamma", "threshold": 0}}]

        def embedded(prompt: str, *arguments: str) -> list[str]:
            asked = len(server.requests)
            content = suite(server, {"id": "one", "prompt": prompt, "checks": checks}, target="it")
            content |= {"targets": [target(server), meaning], "embedding_target": "meaning"}
            run(project, content, "--workers", "1", *arguments)
            sent = [request.body.get("input") for request in server.requests[asked:]]
            return sorted(text for text in sent if text is not None)

        assert embedded("First", "--repeat", "2") == ["alpha", "beta", "gamma"]
        assert embedded("Second") == []


# What is not kept


@pytest.mark.parametrize("fault", ["400", "401", "500", "bad-json", "reset"])
def test_a_failure_is_not_kept(fault: str, project: Project) -> None:
    kinds = {"bad-json": Fault("invalid_json"), "reset": Fault("reset_before_headers")}
    failure = kinds[fault] if fault in kinds else Fault("status", status=int(fault))
    with FakeServer(different(), faults=[failure]) as server:
        document = run(project, suite(server), "--max-retries", "0", code=3)
        assert document["results"][0]["status"] == "error"
        assert kept_replies(project) == 0
        assert replies_of(run(project, suite(server))) == [["answer 1"]]


def test_what_was_refused_at_first_is_kept_when_it_is_answered(project: Project) -> None:
    faults = [Fault("status", status=429, retry_after=0), Fault("status", status=503)]
    with FakeServer(different(), faults=faults) as server:
        run(project, suite(server))
        assert (len(server.requests), kept_replies(project)) == (3, 1)
        assert replies_of(run(project, suite(server))) == [["answer 1"]]
        assert len(server.requests) == 3


def test_scripts_and_functions_of_one_s_own_are_not_kept(project: Project, module: Any) -> None:
    name = module(
        "from itertools import count\nnumbers = count(1)\n\ndef reply(request):\n    return f'answer {next(numbers)}'\n"
    )
    targets = [
        scripted("script", "answer"),
        {"name": "own", "provider": "python", "call": f"{name}:reply"},
    ]
    content = {"targets": targets, "target": "script", "evals": [case()]}
    for _ in range(2):
        run(project, content)
    assert replies_of(run(project, content, "--target", "own")) == [["answer 1"]]
    assert replies_of(run(project, content, "--target", "own")) == [["answer 2"]], "its code may have changed"
    assert kept_replies(project) == 0


def test_without_the_option_nothing_is_kept_and_nothing_is_used(project: Project, server: FakeServer) -> None:
    project.write("evals.yaml", suite(server))
    project.run("run", "evals.yaml")
    assert not cache_file(project).exists()
    run(project, suite(server))
    document = project.run_json("run", "evals.yaml")
    assert replies_of(document) == [["answer 3"]]
    assert "from_cache" not in document["run"]


# Age


def make_older(project: Project, seconds: float) -> None:
    with contextlib.closing(sqlite3.connect(cache_file(project))) as store, store:
        store.execute("update replies set kept_at = kept_at - ?", (seconds,))
    store.close()


@pytest.mark.slow
@spec("A19")
def test_an_answer_that_is_too_old_is_asked_for_again(project: Project, server: FakeServer) -> None:
    run(project, suite(server))
    make_older(project, 3 * 3600)
    project.write("evals.yaml", suite(server))

    def replies(*arguments: str) -> list[list[str]]:
        return replies_of(project.run_json("run", "evals.yaml", *arguments))

    assert replies("--cache") == [["answer 1"]], "nothing is too old unless somebody says so"
    assert replies("--cache-ttl", "4h") == [["answer 1"]], "it stands for --cache, too"
    assert replies("--cache-ttl", "170m") == [["answer 2"]]
    assert replies("--cache", "--cache-ttl", "170m") == [["answer 2"]], "the new one is kept in its place"
    assert len(server.requests) == 2


WRONG_SPANS = ["", "7", "d", "-1d", "1 day", "7D", "1h30m", "1e3s", "soon", "1.d", "inf", "nan"]


@pytest.mark.parametrize("span", WRONG_SPANS)
def test_a_span_of_time_that_is_none_is_refused(span: str, project: Project, server: FakeServer) -> None:
    project.write("evals.yaml", suite(server))
    for command in (("run", "evals.yaml", f"--cache-ttl={span}"), ("cache", "clear", f"--older-than={span}")):
        result = project.invoke(*command)
        assert result.exit_code == 2
        assert "is not a span of time; write a number and s, m, h, d or w, such as 12h" in result.output
    assert server.requests == []


# The command


def test_the_command_shows_what_there_is(project: Project, server: FakeServer) -> None:
    assert project.run("cache") == "the cache is empty; `rejoinder run --cache` fills it\n"
    nothing = {"replies": 0, "bytes": 0, "oldest": None, "by_target": {}}
    assert project.run_json("cache") == nothing
    assert not cache_file(project).exists(), "whoever looks writes nothing"

    before = time.time()
    run(project, suite(server, case("one", JUDGED), case("two")), "--repeat", "2")
    shown = project.run_json("cache")
    assert (shown["replies"], shown["by_target"]) == (10, {"it": 10})
    assert shown["bytes"] > 500
    assert before <= shown["oldest"] <= time.time()
    text = project.run("cache")
    assert f"10 stored answers, {shown['bytes'] / 1024:,.0f} KiB, in {cache_file(project)}" in text
    assert "the oldest is from 20" in text
    assert "10  it\n" in text


def test_the_command_forgets_all_or_what_is_old(project: Project, server: FakeServer) -> None:
    assert project.run("cache", "clear") == "0 stored answers deleted\n"
    run(project, suite(server, case("old")))
    make_older(project, 8 * 86400)
    run(project, suite(server, case("new")))
    assert project.run("cache", "clear", "--older-than", "2w") == "0 stored answers deleted\n"
    assert project.run("cache", "clear", "--older-than", "7d") == "1 stored answer deleted\n"
    assert replies_of(run(project, suite(server, case("new")))) == [["answer 2"]]
    assert project.run("cache", "clear") == "1 stored answer deleted\n"
    assert replies_of(run(project, suite(server, case("new")))) == [["answer 3"]]


def test_a_cache_may_be_deleted_at_any_time(project: Project, server: FakeServer) -> None:
    run(project, suite(server))
    for path in cache_file(project).parent.glob("cache.sqlite*"):
        path.unlink()
    assert replies_of(run(project, suite(server))) == [["answer 2"]]


# Answers that could not be read


def mumbling(project: Project) -> Callable[[Received], Answer]:
    """A judge that cannot be read until there is a file `mended`."""

    def answer(request: Received) -> Answer:
        if not is_judging(request):
            return Answer("answer")
        return Answer('{"score": 1}' if (project.folder / "mended").exists() else "mumble")

    return answer


ALONE = {"llm_judge": {"criteria": "Is it right?"}}
SETTLED = {"or": [{"contains": "answer"}, ALONE]}


@pytest.mark.parametrize("check", [ALONE, SETTLED], ids=["alone", "another check decides"])
def test_an_unreadable_judge_is_asked_again_by_the_next_run(check: Raw, project: Project) -> None:
    with FakeServer(mumbling(project)) as server:
        content = suite(server, case("one", check))
        first = run(project, content, code=0 if check is SETTLED else 3)
        assert first["run"]["from_cache"]["answers"] == 0
        assert len(server.requests) == 3
        (project.folder / "mended").touch()
        run(project, content, code=0)
        assert len(server.requests) == 4, "the judge, and nobody else"
        run(project, content, code=0)
        assert len(server.requests) == 4


def test_errors_are_retried_and_not_taken_from_the_cache(project: Project) -> None:
    with FakeServer(mumbling(project)) as server:
        content = suite(server, case("one", ALONE))
        run(project, content, code=3)
        project.run("resume", "last", "--retry-errors", code=3)
        assert len(server.requests) == 5
        # Where it counts as zero it is kept: as by a process that is killed before it finds out that it is useless.
        zero = {"llm_judge": {**ALONE["llm_judge"], "on_invalid": "zero"}}
        run(project, suite(server, case("one", zero)), code=1)
        project.write("evals.yaml", content)
        server.reset()
        (project.folder / "mended").touch()
        poisoned = run_folders(project.folder)[0]
        project.run("resume", poisoned.name, "--retry-errors", code=0)
        assert len(server.requests) == 1


def test_a_judge_that_was_read_at_the_second_chance_is_kept(project: Project) -> None:
    def answer(request: Received) -> Answer:
        return Answer("mumble" if len(request.body["messages"]) == 2 else '{"score": 1}')

    with FakeServer(lambda request: answer(request) if is_judging(request) else Answer("answer")) as server:
        first = run(project, suite(server, case("one", ALONE)), code=0)
        asked = len(server.requests)
        assert asked == 3
        assert replies_of(run(project, suite(server, case("one", ALONE)), code=0)) == replies_of(first)
        assert len(server.requests) == asked


def test_a_fork_keeps_and_uses_what_it_asks(project: Project, server: FakeServer) -> None:
    project.write("evals.yaml", suite(server, case("one", *FOLLOWED)))
    first = project.run_json("run", "evals.yaml", code=1)
    given = ("fork", first["run"]["id"], "--case", "one", "--turn", "2", "--cache", "--format", "json")
    forks = [json.loads(project.run(*given, code=1)) for _ in range(2)]
    assert len(server.requests) == 3
    assert replies_of(forks[0]) == replies_of(forks[1]) == [["answer 1", "answer 3"]]
    assert [one["run"]["from_cache"]["answers"] for one in forks] == [0, 1]


# Damage


@pytest.mark.parametrize("damage", ["text", "beginning", "folder"])
def test_a_damaged_cache_is_told_before_anything_is_sent(damage: str, project: Project, server: FakeServer) -> None:
    run(project, suite(server))
    path = cache_file(project)
    whole = path.read_bytes()
    for one in path.parent.glob("cache.sqlite*"):
        one.unlink()
    if damage == "folder":
        path.mkdir()
    else:
        path.write_bytes(b"not a database, but a text\n" * 100 if damage == "text" else b"\0" * 90 + whole[90:])
    runs = run_folders(project.folder)
    project.write("evals.yaml", suite(server))
    commands = [("run", "evals.yaml", "--cache"), *([("cache",), ("cache", "clear")] if damage != "folder" else [])]
    for command in commands:
        result = project.invoke(*command)
        assert result.exception.exit_code == 2, (command, result.output)
        assert f"the cache {path} cannot be used: " in result.exception.message
        assert "Delete the file" in result.exception.hint
    assert len(server.requests) == 1
    assert run_folders(project.folder) == runs, "no run was begun"


@pytest.mark.slow
def test_damage_that_shows_later_ends_conversations_and_asks_for_nothing_twice(
    project: Project, server: FakeServer
) -> None:
    cases = [case(f"case-{number:03}") for number in range(150)]
    run(project, suite(server, *cases))
    asked = len(server.requests)
    path = cache_file(project)
    with contextlib.closing(sqlite3.connect(path)) as store, store:
        store.execute("pragma wal_checkpoint(truncate)")
    store.close()
    whole = path.read_bytes()
    path.write_bytes(whole[:4096] + b"\xff" * (len(whole) - 4096))
    document = run(project, suite(server, *cases), code=3)
    assert len(server.requests) == asked, "what may be there is not paid for again"
    errors = [result["error"] for result in document["results"]]
    assert {error["type"] for error in errors} == {"cache"}
    assert all(f"the cache {path} cannot be used" in error["message"] for error in errors)


def test_an_entry_of_another_version_is_none(project: Project, server: FakeServer) -> None:
    run(project, suite(server))
    with contextlib.closing(sqlite3.connect(cache_file(project))) as store, store:
        store.execute("update replies set reply = ?", (b'{"words": ["of", "the", "future"]}',))
    store.close()
    assert replies_of(run(project, suite(server))) == [["answer 2"]]
    assert replies_of(run(project, suite(server))) == [["answer 2"]]


def test_a_cache_that_cannot_be_written_loses_no_answer(project: Project, server: FakeServer) -> None:
    run(project, suite(server))
    with contextlib.closing(sqlite3.connect(cache_file(project))) as store, store:
        columns = "key text primary key, target text, reply blob, kept_at real, used_at real"
        store.execute("drop table replies")
        store.execute(f"create table replies ({columns}, constraint no_room check (key = '')) without rowid")
    store.close()
    document = run(project, suite(server, case("two")), code=0)
    assert replies_of(document) == [["answer 2"]]
    assert "no_room" in document["run"]["from_cache"]["trouble"]
    assert "not all answers could be stored: " in project.run("show", "--verbose")


# Money and secrets


def test_what_was_not_paid_again_is_said(project: Project, server: FakeServer) -> None:
    """A reply costs what it costs, so that checks of cost come to the same. That it was not billed now is said."""
    project.write(".rejoinder/config.yaml", {"prices": {"gpt-5-mini": {"input": 1, "output": 10}}})
    content = suite(server, case("one", {"cost": 0.001}))
    first = run(project, content, code=1)
    assert "cached" not in first["results"][0]["turns"][0]
    content["evals"].append(case("two"))
    second = run(project, content, code=1)
    assert [[turn.get("cached", False) for turn in one["turns"]] for one in second["results"]] == [[True], [False]]
    assert [result["cost"] for result in second["results"]] == [pytest.approx(0.002)] * 2
    cost = pytest.approx(0.002)
    assert second["run"]["from_cache"] == {"answers": 1, "repeated": 0, "tokens": 1100, "cost": cost}
    text = project.run("show", "--verbose")
    assert "1 answer from earlier runs; 1,100 of the tokens and $0.002 of the cost belong to them" in text


@spec("B11")
def test_no_budget_is_charged_for_what_was_kept(project: Project, server: FakeServer) -> None:
    content = suite(server, case("one", JUDGED), case("two", *FOLLOWED))
    given = ("--max-tokens", "500", "--budget-tokens")
    first = run(project, content, *given, "1000000")
    assert first["run"]["budget"]["spent_tokens"] == first["summary"]["total_tokens"] > 3000
    again = run(project, content, *given, "1")
    assert again["run"]["status"] == "completed"
    budget = again["run"]["budget"]
    assert (budget["tokens"], budget["spent_usd"], budget["spent_tokens"], budget["reached"]) == (1, 0, 0, False)
    content["evals"].append(case("three"))
    stopped = run(project, content, *given, "1", code=4)
    assert (stopped["run"]["status"], stopped["summary"]["unfinished"]) == ("budget", 1)
    asked = len(server.requests)
    resumed = project.run_json("resume", "last", "--budget-tokens", "5000", code=None)
    assert len(server.requests) == asked + 1
    assert resumed["run"]["status"] == "completed"
    assert resumed["run"]["budget"]["spent_tokens"] == 1100, "what was kept is not counted when a run is taken up again"
    assert resumed["run"]["from_cache"] == again["run"]["from_cache"]


@spec("A19")
def test_no_key_and_no_secret_is_in_the_file(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    """A model that repeats what it was told must not make it public, nor be misquoted in the next run."""
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.setenv("THE_WORD", "correct-horse-battery")
    secret = {"id": "one", "prompt": "Repeat {{ secret('THE_WORD') }}", "checks": [{"contains": "horse"}]}

    def repeat(request: Received) -> Answer:
        return Answer(f"{request.body['messages'][-1]['content']} {request.headers['authorization']}")

    with FakeServer(repeat) as echo:
        first = run(project, suite(echo, secret), code=0)
        assert "correct-horse-battery" in echo.requests[0].body["messages"][0]["content"]
        held = everything(project)
        assert KEY.encode() not in held
        assert b"correct-horse-battery" not in held
        assert b"Repeat" in held
        second = run(project, suite(echo, secret), code=0)
        assert len(echo.requests) == 1
    assert comparable(second) == comparable(first)
    assert KEY not in json.dumps(second)


def test_a_secret_is_put_back_by_its_name(tmp_path: Path) -> None:
    store = Cache(tmp_path, mask=Mask({"the-old-secret": "env WORD"}))
    store.put("key", "it", Reply("It is the-old-secret."))
    store.close()
    assert b"the-old-secret" not in b"".join(path.read_bytes() for path in (tmp_path / ".rejoinder").iterdir())
    store = Cache(tmp_path, mask=Mask({"the-new-secret": "env WORD"}))
    assert store.get("key") == Reply("It is the-new-secret.")
    store.close()


# Together with what else answers


def test_cassettes_and_the_cache_do_not_answer_at_the_same_time(project: Project, server: FakeServer) -> None:
    project.write("evals.yaml", suite(server))
    (project.folder / "tapes").mkdir()
    for more in (("--cache",), ("--cache-ttl", "1d")):
        error = refused(project, "run", "evals.yaml", "--replay", "tapes", *more)
        assert (error.exit_code, "a replay answers only from cassettes" in error.message) == (2, True)


def test_a_cassette_is_the_same_wherever_the_answers_came_from(project: Project, server: FakeServer) -> None:
    content = suite(server, case("one", JUDGED), case("two", *FOLLOWED))
    run(project, content, "--record", "first")
    run(project, content, "--record", "second")

    def tapes(folder: str) -> dict[str, str]:
        files = sorted((project.folder / folder).rglob("*.yaml"))
        return {path.name: path.read_text(encoding="utf-8") for path in files}

    assert len(tapes("first")) == 2
    assert tapes("second") == tapes("first")


def test_what_was_kept_is_used_for_a_target_that_is_given_up(project: Project) -> None:
    with FakeServer(different(), key="right") as server:
        content = suite(server, *(case(f"case-{number}") for number in range(6)))
        content["targets"][0]["api_key"] = "right"
        run(project, content, "--limit", "3")
        content["targets"][0]["api_key"] = "wrong"
        content["evals"].reverse()
        document = run(project, content, "--workers", "1", code=3)
    assert [result["status"] for result in document["results"]] == ["error", "skipped", "skipped"] + ["passed"] * 3


# Processes


@pytest.mark.slow
@spec("A19")
def test_two_processes_share_a_cache(project: Project) -> None:
    cases = [case(f"case-{number:02}", *FOLLOWED) for number in range(30)]
    with FakeServer(different(), latency_s=0.005) as server:
        content = suite(server, *cases)
        project.write("evals.yaml", content)
        given = ("run", "evals.yaml", "--cache", "--format", "json", "--workers", "10")
        children = [Process(project.folder, *given) for _ in range(3)]
        documents = [child.document(code=1) for child in children]
        asked = len(server.requests)
        assert all(document["summary"]["errors"] == 0 for document in documents)
        assert sum(document["run"]["from_cache"]["answers"] for document in documents) + asked == 3 * 60
        run(project, content, code=1)
        assert len(server.requests) == asked


MOMENTS = ["told.queued:16", "batch.written:2", "batch.torn:3", "conversation.finished:3", "results.before_rename:1"]


@pytest.mark.slow
@spec("R64", "A19")
@pytest.mark.parametrize("moment", MOMENTS)
def test_after_a_kill_nothing_that_was_answered_is_asked_again(moment: str, project: Project) -> None:
    """By the run that is taken up, and by another run, which has the cache alone."""
    with PaidServer(seed=3) as server:
        project.write(".rejoinder/config.yaml", {"prices": PRICES})
        project.write("evals.yaml", make_suite(server.fake.url, 4, embeds=True, cache=True))
        given = ("run", "evals.yaml", "--cache", "--format", "json", "--workers", "4")
        assert Process(project.folder, *given, REJOINDER_KILL_AT=moment).end().code == KILLED
        [folder] = run_folders(project.folder)
        told, before = told_in(folder), len(server.keys)
        assert told
        resumed = project.run_json("resume", "last", code=None)
        assert not told & set(server.keys[before:])
        assert resumed["run"]["status"] == "completed"
        asked = len(server.keys)
        another = json.loads(project.run(*given, code=None))
        missing = {record["key"] for record in journal_of(run_folders(project.folder)[1]) if record["type"] == "asked"}
        # A reply is in the journal before it is in the cache; so those of the last moment may be missing there.
        assert set(server.keys[asked:]) == missing <= told
        assert len(missing) <= 4 * 4, "of each conversation a reply, or two votes and two vectors"
        assert comparable(another) == comparable(resumed)


# What is opened is closed


def is_open(connection: sqlite3.Connection) -> bool:
    try:
        connection.execute("select 1")
    except sqlite3.Error:  # ProgrammingError where it is closed
        return False
    return True


@pytest.mark.parametrize("arguments", [("cache",), ("cache", "clear"), ("run", "--cache")], ids=" ".join)
@pytest.mark.parametrize("damaged", [False, True])
def test_no_command_leaves_the_database_open(
    project: Project, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...], damaged: bool
) -> None:
    target = scripted("bot", "x")
    project.write("evals.yaml", {"targets": [target], "evals": [{"prompt": "Hi", "checks": [{"match": "*"}]}]})
    project.run("run", "--cache")
    if damaged:
        cache_file(project).write_bytes(b"no database, but long enough to be read as one" * 100)
    opened: list[sqlite3.Connection] = []
    connect = sqlite3.connect

    def remember(*values: Any, **named: Any) -> sqlite3.Connection:
        opened.append(connect(*values, **named))
        return opened[-1]

    monkeypatch.setattr(sqlite3, "connect", remember)
    assert project.invoke(*arguments).exit_code == (1 if damaged else 0)
    assert opened
    assert not any(map(is_open, opened))
