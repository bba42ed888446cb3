"""Fake judges: one fake server plays the model and its judge, through every API, and tells their requests apart."""

from __future__ import annotations

import json
from typing import Any

import pytest

from rejoinder.formatting.judge import COMPARE_SYSTEM_TEXT, RUBRIC_SYSTEM_TEXT, SYSTEM_TEXT
from rejoinder.testing import Answer, FakeServer, Fault, Received, is_judging, judge, with_judge
from tests.kit import Project, Raw, spec, verdict_of
from tests.labs.wire_lab import APIS, TARGETS, Lab, system, user

pytestmark = pytest.mark.slow

JUDGES = {"llm_judge": SYSTEM_TEXT, "rubric": RUBRIC_SYSTEM_TEXT, "compare": COMPARE_SYSTEM_TEXT}
DEMAND = "Reply with one JSON object and nothing else:"
KEY = "the-key"


def run(project: Project, server: FakeServer, api: str, *checks: Raw, code: int = 0) -> Raw:
    """The only result of a suite whose target is its own judge."""
    target = {"name": "both", "api_key": KEY, "retry_initial_delay_ms": 1, **TARGETS[api](server)}
    case = {"prompt": "What is the capital of Italy?", "checks": list(checks)}
    project.write("evals.yaml", {"targets": [target], "judge_target": "both", "evals": [case]})
    [result] = project.run_json("run", code=code)["results"]
    return result


@spec("A15")
def test_a_verdict_is_the_one_object_that_judges_are_asked_for() -> None:
    answer = judge(0.25, hits=["names Rome"], misses=["no more", "too short"], reasoning='"Rome" is\nright.')
    assert json.loads(answer.text) == {
        "score": 0.25,
        "hits": ["names Rome"],
        "misses": ["no more", "too short"],
        "reasoning": '"Rome" is\nright.',
    }
    assert set(json.loads(judge().text)) == {"score", "hits", "misses", "reasoning"}
    assert json.loads(judge().text)["score"] == 1


@spec("A15")
@pytest.mark.parametrize("api", APIS)
def test_one_server_is_the_model_and_its_judge(project: Project, api: str) -> None:
    verdict = judge(0.75, hits=["names Rome"], misses=["no more"], reasoning="Short.")
    with FakeServer(with_judge("It is Rome.", verdict)) as server:
        result = run(project, server, api, {"llm_judge": {"criteria": "Names the city."}})
        assert [is_judging(received) for received in server.requests] == [False, True]
    assert (result["passed"], result["turns"][0]["response"]) == (True, "It is Rome.")
    assert (verdict_of(result)["score"], verdict_of(result)["reason"]) == (0.75, "Short.")
    assert (result["hits"], result["misses"]) == (["names Rome"], ["no more"])


@pytest.mark.parametrize("api", APIS)
@pytest.mark.parametrize("kind", JUDGES)
def test_judges_of_all_kinds_are_known_by_their_system_text(lab: Lab, api: str, kind: str) -> None:
    received, refused = lab.ask(api, [system(JUDGES[kind]), user("Grade it.")])
    assert (is_judging(received), refused) == (True, False)


@pytest.mark.parametrize("api", APIS)
@pytest.mark.parametrize(
    "messages",
    [[user("Hello")], [system("Be brief."), user("Hello")], [user(SYSTEM_TEXT)], [system("Be brief."), user(DEMAND)]],
    ids=["no system", "another system", "the user's words", "the user's words beside a system's"],
)
def test_other_requests_are_not_taken_for_a_judge(lab: Lab, api: str, messages: list[Raw]) -> None:
    received, refused = lab.ask(api, messages)
    assert (is_judging(received), refused) == (False, False)


def received_with(body: Any) -> Received:
    return Received(api="openai", method="POST", path="/", query={}, headers={}, body=body, raw=b"", at=0.0)


PARTS = [{"type": "text", "text": "First."}, {"type": "text", "text": SYSTEM_TEXT}]


@pytest.mark.parametrize(
    ("body", "judging"),
    [
        ({"messages": [{"role": "developer", "content": SYSTEM_TEXT}]}, True),
        ({"messages": [{"role": "system", "content": PARTS}]}, True),
        ({"input": [{"role": "system", "content": [{"type": "input_text", "text": SYSTEM_TEXT}]}]}, True),
        ({"system": PARTS, "messages": []}, True),
        ({"system_instruction": {"parts": PARTS}}, True),
        ({"input": SYSTEM_TEXT, "instructions": "Be brief."}, False),
        ({"messages": [{"role": "assistant", "content": SYSTEM_TEXT}]}, False),
        ({"messages": "system", "system": 5, "instructions": None, "systemInstruction": [SYSTEM_TEXT]}, False),
        ({"messages": [None, 5, {"role": "system"}, {"role": "system", "content": [None, {"text": 5}]}]}, False),
        ([SYSTEM_TEXT], False),
        (None, False),
    ],
)
def test_a_judge_is_known_in_every_form_of_a_body_and_nonsense_is_none(body: Any, judging: bool) -> None:
    assert is_judging(received_with(body)) == judging


def test_both_sides_may_be_functions_of_the_request(project: Project) -> None:
    def reply(received: Received) -> Answer:
        assert not is_judging(received)
        return Answer("It is Rome.", model="the-candidate")

    def verdict(received: Received) -> Answer:
        shown = received.body["messages"][-1]["content"]
        return judge(1.0 if shown.endswith("[[ ## candidate_answer ## ]]\nIt is Rome.") else 0.0)

    with FakeServer(with_judge(reply, verdict)) as server:
        result = run(project, server, "openai", {"llm_judge": {"criteria": "Names the city."}})
    assert (result["passed"], result["turns"][0]["model"]) == (True, "the-candidate")


@pytest.mark.parametrize(
    ("first", "requests"),
    [(Fault("status", status=500), 3), (Fault("reset_before_headers"), 3), ("I like it.", 3), (judge(0.9), 2)],
    ids=["an error", "a reset", "no verdict", "a verdict"],
)
def test_a_judge_may_fail_first(project: Project, first: Any, requests: int) -> None:
    """What fails is asked again, and what cannot be read gets a second chance; the model is asked once all the same."""
    verdicts = [first, judge(0.8)]
    with FakeServer(with_judge("It is Rome.", lambda _: verdicts.pop(0))) as server:
        result = run(project, server, "openai", {"llm_judge": {"criteria": "Names the city."}})
        asked = [is_judging(received) for received in server.requests]
    assert asked == [False] + [True] * (requests - 1)
    assert verdict_of(result)["score"] == (0.9 if requests == 2 else 0.8)


def test_a_low_score_fails_the_check(project: Project) -> None:
    with FakeServer(with_judge("It is Rome.", judge(0.2, misses=["the reason"]))) as server:
        result = run(project, server, "openai", {"llm_judge": {"criteria": "Explains it."}}, code=1)
    assert (result["passed"], verdict_of(result)["score"]) == (False, 0.2)
