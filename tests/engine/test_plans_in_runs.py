"""Planned and simulated conversations through everything that a run can meet in their middle: kills, resuming, replays,
forks, cassettes, the cache, new grades, budgets and interrupts.

The server never says the same twice and keeps what it is asked. So whoever asks again what is recorded is found out by
the count and by other words.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import count
from typing import Any

import pytest

from rejoinder.testing import Answer, FakeServer, Fault, Received, is_judging, judge
from tests.kit import (
    KILLED,
    Process,
    Project,
    Raw,
    behind,
    by_case,
    is_time,
    journal_of,
    only_run,
    run,
    run_process,
    without,
)
from tests.labs.replay_lab import play, sockets_blocked

TURNS = 5


class Pair:
    """A model, a user and a judge, each by its target's name."""

    def __init__(self) -> None:
        self._numbers = count(1)
        self.fake = FakeServer(self._answer)
        self.refuses: Callable[[str, int], Any] = lambda name, times: None
        """What is said instead of an answer, by the target's name and how often it was asked before."""
        self.held = threading.Event()
        self.held.set()
        self.holds_at = 0
        self._times: Counter[str] = Counter()

    def _answer(self, received: Received) -> Any:
        name, number = received.body["model"], next(self._numbers)
        instead = self.refuses(name, self._times[name])
        self._times[name] += 1
        if sum(self._times.values()) == self.holds_at:
            self.held.wait(60)
        if instead is not None:
            return instead
        return judge(1, reasoning=f"verdict {number}") if is_judging(received) else Answer(f"{name} {number}: ok")

    def asked(self, name: str | None = None) -> list[list[str]]:
        """The messages of each request since this was last forgotten."""
        bodies = [one.body for one in self.fake.requests if name in (None, one.body["model"])]
        return [[message["content"] for message in body["messages"]] for body in bodies]

    def forget(self) -> None:
        self.fake.reset()
        self._times.clear()

    def suite(self, *cases: Raw, **more: Any) -> Raw:
        targets = [behind(self.fake, name, max_retries=0, cache=True) for name in ("it", "guest", "judge")]
        return {"target": "it", "targets": targets, "evals": list(cases), **more}


@pytest.fixture(scope="module")
def running() -> Iterator[Pair]:
    pair = Pair()
    with pair.fake:
        yield pair


@pytest.fixture
def pair(running: Pair) -> Iterator[Pair]:
    running.forget()
    running.refuses = lambda name, times: None
    running.holds_at = 0
    yield running
    running.held.set()


def planned(name: str = "plan", **more: Any) -> Raw:
    turns: list[Raw] = [{"prompt": f"turn {number}", "checks": [{"contains": "ok"}]} for number in range(1, TURNS + 1)]
    turns[1] |= {"name": "second", "extract": {"number": {"regex": r"it (\d+)"}}}
    turns[3]["prompt"] = "turn 4 after {{ number }}: {{ turn('second').response }}"
    whole = [{"always": {"contains": "ok"}}, {"before": {"first": {"contains": "it"}, "second": {"contains": "bad"}}}]
    return {"id": name, "turns": turns, "conversation_checks": whole, **more}


def simulated(name: str = "user", opening: str | None = "Hello.", **more: Any) -> Raw:
    told = {
        "goal": "buy it",
        "knows": "ok",
        "target": "guest",
        "stop": "DONE",
        "max_turns": TURNS,
        **more.pop("told", {}),
    }
    opened = {"opening": opening} if opening else {}
    return {"id": name, "user": {**opened, **told}, "checks": [{"contains": "ok"}], **more}


BOTH = ("plan", "user")


def cases_of(kind: str) -> Raw:
    return planned() if kind == "plan" else simulated()


def calls_of(kind: str) -> int:
    return TURNS if kind == "plan" else 2 * TURNS - 1


def said(result: Raw) -> list[str]:
    return [turn["prompt"] for turn in result["turns"]]


def replied(result: Raw) -> list[str]:
    return [turn["response"] for turn in result["turns"]]


def only(document: Raw) -> Raw:
    [result] = document["results"]
    return result


def untimed(document: Raw) -> Raw:
    return without(document["results"], lambda key: is_time(key) or key in ("request_id", "finish_reason", "model"))


# Kills and interrupts


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "moment", "before"),
    [
        ("plan", "asked.written:3", 2),
        ("plan", "told.queued:3", 3),
        ("user", "asked.written:4", 3),  # the user thinks of its third words
        ("user", "asked.written:5", 4),  # the user has spoken, and the model not yet answered
        ("user", "conversation.finished:1", 9),
    ],
)
def test_a_kill_in_the_middle_asks_no_recorded_prompt_again(
    project: Project, pair: Pair, kind: str, moment: str, before: int
) -> None:
    project.write("evals.yaml", pair.suite(cases_of(kind)))
    assert run_process(project.folder, "run", "evals.yaml", REJOINDER_KILL_AT=moment).code == KILLED
    assert len(pair.asked()) == before
    folder = only_run(project.folder)
    told = {one["key"]: one["reply"]["text"] for one in journal_of(folder) if one["type"] == "told"}
    shown = project.run_json("show", code=None)
    assert shown["run"]["status"] != "finished"
    document = project.run_json("resume", "last")
    asked = pair.asked()
    again = Counter(map(tuple, asked))
    doubtful = before - len(told)  # answers that were not on the disk yet
    assert doubtful <= moment.startswith("told.queued")
    assert len(asked) == calls_of(kind) + doubtful
    assert sum(again.values()) - len(again) == doubtful
    result = only(document)
    assert result["status"] == "passed" and len(result["turns"]) == TURNS
    answers = {one["key"]: one["reply"]["text"] for one in journal_of(folder) if one["type"] == "told"}
    assert {key: answers[key] for key in told} == told
    with sockets_blocked():
        assert untimed(play(project, "replay")) == untimed(document)


@pytest.mark.slow
@pytest.mark.parametrize("kind", BOTH)
def test_an_interrupt_in_the_middle_is_gone_on_with(
    project: Project, pair: Pair, start: Callable[..., Process], kind: str
) -> None:
    project.write("evals.yaml", pair.suite(cases_of(kind)))
    pair.holds_at = 4
    pair.held.clear()
    child = start("run", "evals.yaml", "--format", "json")
    child.wait_for(lambda: len(pair.asked()) >= 4)
    child.interrupt()
    child.wait_for(lambda: "again" in child.err.text.lower() or "ctrl" in child.err.text.lower())
    child.interrupt()
    assert child.end().code == 130
    pair.held.set()
    document = project.run_json("resume", "last")
    assert only(document)["status"] == "passed"
    assert len(pair.asked()) == calls_of(kind) + 1
    again = Counter(map(tuple, pair.asked()))
    assert [number for number in again.values() if number > 1] == [2]


# Played again


@pytest.mark.parametrize("opening", ["Hello.", None])
def test_a_replay_and_a_cassette_are_the_run(project: Project, pair: Pair, opening: str | None) -> None:
    windows = planned("windows", window_size=2)
    judged = simulated(
        "judged", told={"stop": {"llm_judge": {"criteria": "Done?", "target": "judge"}}, "audit": "judge"}
    )
    cases = [planned(), windows, simulated(opening=opening), judged]
    project.write("evals.yaml", pair.suite(*cases, checks=[{"contains": "ok", "every_turn": True}]))
    first = play(project, "run", "evals.yaml", "--repeat", "2", "--record", "cassettes", code=0)
    made = len(pair.asked())
    user = 2 * TURNS - (1 if opening else 0)
    assert made == 2 * (2 * TURNS + user + 2)
    assert sum(len(one) <= 4 for one in pair.asked("it")) >= 2 * TURNS
    with sockets_blocked():
        assert untimed(play(project, "replay")) == untimed(first)
        again = play(project, "run", "evals.yaml", "--repeat", "2", "--replay", "cassettes", code=0)
    assert untimed(again) == untimed(first)
    assert without(again["summary"], is_time) == without(first["summary"], is_time)
    assert len(pair.asked()) == made


@pytest.mark.parametrize("kind", BOTH)
def test_what_a_cassette_lacks_is_an_error_with_its_reason(project: Project, pair: Pair, kind: str) -> None:
    suite = pair.suite(cases_of(kind), checks=[{"contains": "ok", "every_turn": True}])
    project.write("evals.yaml", suite)
    play(project, "run", "evals.yaml", "--record", "cassettes", code=0)
    if kind == "plan":
        suite["evals"][0]["turns"][2]["prompt"] = "something else"
    else:
        suite["evals"][0]["user"]["goal"] = "sell it"
    project.write("evals.yaml", suite)
    with sockets_blocked():
        document = play(project, "run", "evals.yaml", "--replay", "cassettes", code=3)
    result = only(document)
    assert result["error"]["type"] == "no-recording", result["error"]
    assert len(result["turns"]) == (3 if kind == "plan" else 1)


def test_a_second_run_is_answered_by_the_cache(project: Project, pair: Pair) -> None:
    windows = planned("windows", window_size=2)
    first = run(project, pair.suite(planned(), windows, simulated(), simulated("alone", opening=None)), "--cache")
    made = len(pair.asked())
    again = play(project, "run", "evals.yaml", "--cache")
    assert len(pair.asked()) == made
    assert [replied(one) for one in again["results"]] == [replied(one) for one in first["results"]]
    assert [said(one) for one in again["results"]] == [said(one) for one in first["results"]]


def test_every_trial_has_a_conversation_of_its_own(project: Project, pair: Pair) -> None:
    document = run(project, pair.suite(planned(), simulated()), "--repeat", "3")
    assert len(pair.asked()) == 3 * (calls_of("plan") + calls_of("user"))
    texts = [text for result in document["results"] for text in replied(result)]
    assert len(set(texts)) == len(texts) == 6 * TURNS
    users = [result for result in document["results"] if result["id"] == "user"]
    assert len({text for result in users for text in said(result)[1:]}) == 3 * (TURNS - 1)


# Forks


def fork(project: Project, case: str, turn: int, *arguments: str, code: int | None = 0) -> Raw:
    return only(project.run_json("fork", "--case", case, "--turn", str(turn), *arguments, code=code))


@pytest.mark.parametrize("turn", [1, 2, 3, 5])
def test_a_plan_goes_on_after_a_fork(project: Project, pair: Pair, turn: int) -> None:
    first = only(run(project, pair.suite(planned(window_size=3)), code=0))
    last = project.run_json("show")["run"]["id"]
    pair.forget()
    other = fork(project, "plan", turn, "--prompt", "my words")
    assert len(pair.asked()) == TURNS + 1 - turn
    assert replied(other)[: turn - 1] == replied(first)[: turn - 1]
    assert said(other)[: turn - 1] == said(first)[: turn - 1]
    assert said(other)[turn - 1] == "my words" == pair.asked()[0][-1]
    assert said(other)[-1] == ("my words" if turn == TURNS else "turn 5")
    assert [step["status"] for step in other["steps"]] == ["passed"] * TURNS
    assert turn >= 4 or replied(other)[1] in said(other)[3]
    pair.forget()
    course = (last, "--case", "plan", "--turn", str(turn), "--system", "Be brief.")
    plain = only(project.run_json("fork", *course, code=0))
    assert said(plain)[:turn] == said(first)[:turn]
    assert [asked[0] for asked in pair.asked()] == ["Be brief."] * (TURNS + 1 - turn)
    assert [len(asked) for asked in pair.asked()] == [2 * min(3, n) for n in range(turn, TURNS + 1)]
    assert all(asked[1].startswith("turn") for asked in pair.asked()), "a window begins with the user's words"


@pytest.mark.parametrize("turn", [1, 2, 3, 5])
@pytest.mark.parametrize("opening", ["Hello.", None])
def test_a_user_goes_on_after_a_fork(project: Project, pair: Pair, turn: int, opening: str | None) -> None:
    first = only(run(project, pair.suite(simulated(opening=opening)), code=0))
    last = project.run_json("show")["run"]["id"]
    pair.forget()
    other = fork(project, "user", turn, "--prompt", "my words")
    assert replied(other)[: turn - 1] == replied(first)[: turn - 1]
    assert said(other)[: turn - 1] == said(first)[: turn - 1]
    assert said(other)[turn - 1] == "my words"
    assert len(pair.asked("it")) == TURNS + 1 - turn
    assert len(pair.asked("guest")) == TURNS - turn, "its words at the fork are put in its place"
    assert all("my words" in asked for asked in pair.asked("guest"))
    assert not other["turns"][turn - 1].get("simulated", False)
    pair.forget()
    if turn == 1 and opening is None:
        return  # its first words are thought of anew
    course = (last, "--case", "user", "--turn", str(turn), "--system", "Be brief.")
    plain = only(project.run_json("fork", *course, code=0))
    assert said(plain)[:turn] == said(first)[:turn]
    assert len(pair.asked("guest")) == TURNS - turn
    assert all(asked[0] == "Be brief." for asked in pair.asked("it"))


# New grades


def test_new_checks_of_a_turn_and_of_the_whole_ask_nobody_again(project: Project, pair: Pair) -> None:
    suite = pair.suite(planned(), simulated())
    first = run(project, suite, code=0)
    pair.forget()
    suite["evals"][0]["turns"][1]["checks"] = [{"contains": "never"}]
    suite["evals"][1]["checks"] = [{"contains": "never"}]
    project.write("evals.yaml", suite)
    graded = by_case(project.run_json("grade", code=None))
    assert pair.asked() == []
    assert [step["status"] for step in graded["plan"]["steps"]] == ["passed", "failed", *["skipped"] * 3]
    assert graded["user"]["status"] == "failed"
    assert said(graded["user"]) == said(by_case(first)["user"])
    assert graded["user"]["user"]["stopped_by"] == "limit"
    suite = pair.suite(planned(), simulated())
    for one in suite["evals"]:
        one["conversation_checks"] = [
            {"never": {"contains": "ok"}},
            {"by_turn": {"turn": 1, "check": {"contains": "it"}}},
        ]
    project.write("evals.yaml", suite)
    graded = by_case(project.run_json("grade", first["run"]["id"], code=None))
    for name in BOTH:
        assert [check["passed"] for check in graded[name]["conversation_checks"]] == [False, True]
        assert graded[name]["status"] == "failed"
        assert replied(graded[name]) == replied(by_case(first)[name])
    assert pair.asked() == []


def test_where_new_checks_would_go_on_the_user_is_not_asked(project: Project, pair: Pair) -> None:
    told = {"stop": {"contains": "it"}}
    run(project, pair.suite(simulated(told=told)), code=0)
    pair.forget()
    suite = pair.suite(simulated(told={"stop": {"contains": "never"}}))
    project.write("evals.yaml", suite)
    graded = only(project.run_json("grade", code=None))
    assert pair.asked() == []
    assert (len(graded["turns"]), graded["user"]["stopped_by"]) == (1, None)


def test_a_judge_of_the_whole_is_asked_and_nobody_else(project: Project, pair: Pair) -> None:
    suite = pair.suite(planned(), simulated())
    run(project, suite, code=0)
    pair.forget()
    suite["evals"][0]["conversation_checks"] = [{"always": {"llm_judge": {"criteria": "Kind?", "target": "judge"}}}]
    suite["evals"][1]["user"]["audit"] = "judge"
    pair.refuses = lambda name, times: '{"fault": "none"}' if times == TURNS else None
    project.write("evals.yaml", suite)
    graded = by_case(project.run_json("grade", "--workers", "1", code=None))
    assert (len(pair.asked("judge")), len(pair.asked())) == (TURNS + 1, TURNS + 1)
    assert graded["plan"]["status"] == "passed"
    assert graded["user"]["user"]["spoilt"] is None


# Budgets and errors


@pytest.mark.parametrize("kind", BOTH)
def test_a_budget_that_ends_in_the_middle_is_gone_on_with(project: Project, pair: Pair, kind: str) -> None:
    project.write("evals.yaml", pair.suite(cases_of(kind)))
    budget = "400" if kind == "plan" else "1400"
    document = project.run_json("run", "evals.yaml", "--budget-tokens", budget, "--max-tokens", "100", code=4)
    before = pair.asked()
    assert 1 <= len(before) < calls_of(kind), len(before)
    assert document["summary"]["unfinished"] + document["summary"]["skipped"] == 1
    after = project.run_json("resume", "last", "--budget-tokens", "1000000", code=0)
    assert len(pair.asked()) == calls_of(kind)
    assert len(set(map(tuple, pair.asked()))) == calls_of(kind)
    result = only(after)
    assert (result["status"], len(result["turns"])) == ("passed", TURNS)


@pytest.mark.parametrize("how", [Fault("status", status=400), Answer("  ")])
def test_a_user_that_failed_is_asked_again(project: Project, pair: Pair, how: Any) -> None:
    pair.refuses = lambda name, times: how if (name, times) == ("guest", 2) else None
    document = run(project, pair.suite(simulated(), planned()), code=3)
    result = by_case(document)["user"]
    assert result["error"]["message"].startswith("the simulated user: ")
    assert len(result["turns"]) == 3
    made = len(pair.asked())
    assert by_case(project.run_json("resume", "last", code=3))["user"]["status"] == "error"
    assert len(pair.asked()) == made, "a failure is an answer, too"
    again = by_case(project.run_json("resume", "last", "--retry-errors", code=0))["user"]
    assert again["status"] == "passed" and len(again["turns"]) == TURNS
    assert replied(again)[:3] == replied(result)
    assert len(pair.asked()) == made + calls_of("user") - 5


def test_an_audit_that_could_not_be_read_is_asked_again(project: Project, pair: Pair) -> None:
    pair.refuses = lambda name, times: None if name != "judge" else "Hm." if times < 2 else '{"fault": "none"}'
    document = run(project, pair.suite(simulated(told={"audit": "judge"})), code=0)
    assert only(document)["user"]["spoilt"] == "not audited"
    made = len(pair.asked())
    again = project.run_json("resume", "last", "--retry-errors", code=0)
    assert only(again)["user"]["spoilt"] is None
    assert len(pair.asked()) == made + 1


def test_the_totals_are_those_of_the_journal(project: Project, pair: Pair) -> None:
    judged = simulated(
        "judged", told={"stop": {"llm_judge": {"criteria": "Over?", "target": "judge"}}, "audit": "judge"}
    )
    whole = [{"always": {"llm_judge": {"criteria": "Kind?", "target": "judge"}}}]
    document = run(project, pair.suite(planned(), simulated(), judged, simulated("w", conversation_checks=whole)))
    records = [one for one in journal_of(only_run(project.folder)) if one["type"] == "told"]
    spent: Counter[str] = Counter()
    for one in records:
        usage = one["reply"]["usage"]
        spent[one["key"].split(":")[0].split("-")[0]] += usage["input_tokens"] + usage["output_tokens"]
    results = document["results"]
    summary = document["summary"]
    user = sum(one["user"]["usage"]["total_tokens"] for one in results if one.get("user"))
    found = [summary["usage"]["total_tokens"], user, summary["judge_usage"]["total_tokens"]]
    assert sorted(found) == sorted(spent.values()) and len(spent) == 3
    assert sum(one["usage"]["total_tokens"] for one in results) == summary["usage"]["total_tokens"]
    assert sum(one["judge_usage"]["total_tokens"] for one in results) == summary["judge_usage"]["total_tokens"]
