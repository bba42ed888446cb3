"""Checks over time against truth tables: what each rule means is written down here once more, as a sentence about a
whole row of replies, and compared with the machine for every row of up to four replies.

A check in error may be either. So a rule has failed or passed where it would whatever those checks are worth, and is in
error otherwise.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import Any

import pytest

from rejoinder.engine.over_time import OVER_TIME
from rejoinder.model import State
from rejoinder.testing import FakeServer, judge
from tests.engine.readings import meant
from tests.kit import Project, Raw, behind, follow, journal_of, only_run, prices_in, run, scripted

LONGEST = 4
STATES: tuple[State, ...] = ("passed", "failed", "error")


def carried_out(
    rule: str, first: Sequence[State], second: Sequence[State], turn: int, start: int = 1
) -> tuple[State, int | None, list[tuple[int, int]]]:
    """What the machine's rule comes to, what decided, and what it asked for."""
    asked: list[tuple[int, int]] = []
    going = OVER_TIME[rule](range(start, start + len(first)), turn)
    try:
        question = next(going)
        while True:
            asked.append(question)
            place, which = question
            question = going.send((first, second)[which][place - start])
    except StopIteration as stop:
        return *stop.value, asked


ONE_CHECK = [(rule, row, (), turn) for rule in ("always", "never") for turn in (1,) for n in range(LONGEST + 1)
             for row in product(STATES, repeat=n)]  # fmt: skip
BY_TURN = [("by_turn", row, (), turn) for turn in range(1, LONGEST + 2) for n in range(LONGEST + 1)
           for row in product(STATES, repeat=n)]  # fmt: skip
TWO_CHECKS = [(rule, row, other, 1) for rule in ("after", "before") for n in range(LONGEST + 1)
              for row in product(STATES, repeat=n) for other in product(STATES, repeat=n)]  # fmt: skip


@pytest.mark.parametrize("table", [ONE_CHECK, BY_TURN, TWO_CHECKS], ids=["one-check", "by-turn", "two-checks"])
def test_every_row_of_up_to_four_replies(table: list[Any]) -> None:
    for rule, first, second, turn in table:
        state, place, asked = carried_out(rule, first, second, turn)
        assert state == meant(rule, first, second, turn), (rule, first, second, turn)
        assert len(set(asked)) == len(asked), "recorded replies are reused, as it may cost a call"
        if state == "error":
            assert place is not None
            assert "error" in [(first, second)[which][at - 1] for at, which in asked if at == place]


@pytest.mark.parametrize("table", [ONE_CHECK, BY_TURN, TWO_CHECKS], ids=["one-check", "by-turn", "two-checks"])
def test_nothing_is_asked_once_it_is_decided(table: list[Any]) -> None:
    """Before its last question the rule could not have known: whatever is not asked yet is taken as in error."""
    for rule, first, second, turn in table:
        *_, asked = carried_out(rule, first, second, turn)
        known = set(asked[:-1])
        seen: list[list[State]] = [
            [state if (place, which) in known else "error" for place, state in enumerate(row, 1)]
            for which, row in enumerate((first, second))
        ]
        if asked and "error" not in (*first, *second):
            assert meant(rule, seen[0], seen[1], turn) == "error", (rule, first, second, asked)


def test_the_reply_that_decides_is_named() -> None:
    for rule, first, second, expected in (
        ("always", "pfp", "", ("failed", 2)),
        ("never", "fpp", "", ("failed", 2)),
        ("by_turn", "fpp", "", ("passed", 2)),
        ("after", "fppp", "ppfp", ("passed", 4)),
        ("after", "fpff", "ppff", ("failed", 2)),
        ("before", "fpff", "fffp", ("passed", 2)),
        ("before", "fffp", "ffpf", ("failed", 3)),
    ):
        words: dict[str, State] = {"p": "passed", "f": "failed"}
        row: list[State] = [words[one] for one in first]
        other: list[State] = [words[one] for one in second]
        assert carried_out(rule, row, other, 2)[:2] == expected, rule


# In suites


def steps(*replies: str, **case: Any) -> Raw:
    turns = [{"prompt": f"turn {number}"} for number in range(1, len(replies) + 1)]
    return {"target": "it", "targets": [scripted("it", *replies)], "evals": [{"turns": turns, **case}]}


def verdicts(project: Project, *replies: str, checks: list[Raw], **case: Any) -> list[bool]:
    document = run(project, steps(*replies, conversation_checks=checks, **case))
    [result] = document["results"]
    found = [check["passed"] for check in result["conversation_checks"]]
    assert result["passed"] is all(found)
    return found


def a(**more: Any) -> Raw:
    return {"contains": "a", **more}


def b() -> Raw:
    return {"contains": "b"}


def test_each_rule_in_a_suite(project: Project) -> None:
    rules = [
        {"always": a()},
        {"never": {"contains": "c"}},
        {"by_turn": {"turn": 2, "check": b()}},
        {"by_turn": {"turn": 1, "check": b()}},
        {"after": {"when": a(), "then": b()}},
        {"after": {"when": b(), "then": {"contains": "x"}}},
        {"before": {"first": a(), "second": b()}},
        {"before": {"first": b(), "second": a()}},
        {"contains": "last"},
        {"on": "transcript", "contains": "turn 2"},
        {"contains": "turn 2"},
    ]
    found = verdicts(project, "a", "ab", "a last", checks=rules)
    assert found == [True, True, True, False, True, False, True, False, True, True, False]


def test_turns_limit_what_is_looked_at(project: Project) -> None:
    rules = [
        {"always": a(), "turns": [2, 3]},
        {"never": a(), "turns": [2, 3]},
        {"never": a(), "turns": [4, 9]},
        {"by_turn": {"turn": 3, "check": b()}, "turns": [3, 4]},
        {"before": {"first": b(), "second": a()}, "turns": [2, 4]},
        {"always": b(), "turns": [7, 9]},
        {"by_turn": {"turn": 9, "check": b()}, "turns": [7, 9]},
    ]
    assert verdicts(project, "b", "a", "a", "-", checks=rules) == [True, False, True, False, False, True, False]


def test_replies_final_counts_steps(project: Project) -> None:
    mend = follow("mend it", a())
    turns = [{"prompt": "one", "checks": [a(), mend]}, {"prompt": "two", "checks": [a()]}]
    rules = [
        {"always": a()},
        {"always": a(), "replies": "final"},
        {"by_turn": {"turn": 1, "check": a()}},
        {"by_turn": {"turn": 1, "check": a()}, "replies": "final"},
        {"never": {"contains": "no"}},
        {"never": {"contains": "no"}, "replies": "final"},
    ]
    document = run(project, {**steps("no", "a", "a"), "evals": [{"turns": turns, "conversation_checks": rules}]})
    [result] = document["results"]
    assert [check["passed"] for check in result["conversation_checks"]] == [False, True, False, True, False, True]
    assert [(one["status"], one["step"]) for one in result["steps"]] == [("recovered", 1), ("passed", 2)]
    assert result["status"] == "failed"


def test_a_verdict_shows_the_replies_that_it_looked_at(project: Project) -> None:
    rules = [{"never": a(name="inner"), "name": "no a"}]
    document = run(project, steps("x", "a", "x", conversation_checks=rules))
    [check] = document["results"][0]["conversation_checks"]
    assert (check["name"], check["kind"], check["reason"]) == ("no a", "never", "turn 2 does")
    assert [(one["name"], one["passed"]) for one in check["children"]] == [("turn 1", False), ("turn 2", True)]


def test_without_other_checks_the_score_is_theirs_passed_or_not(project: Project) -> None:
    rules = [{"always": a(), "weight": 3}, {"contains": "z"}]
    [result] = run(project, steps("a", "a", conversation_checks=rules))["results"]
    assert (result["status"], result["score"]) == ("failed", 0.75)
    [result] = run(project, steps("a", "az", conversation_checks=rules))["results"]
    assert (result["status"], result["score"]) == ("passed", 1.0)
    turns = [{"prompt": "one", "checks": [a()]}, {"prompt": "two"}]
    suite = {**steps("a", "a"), "evals": [{"turns": turns, "conversation_checks": rules}]}
    [result] = run(project, suite)["results"]
    assert (result["status"], result["score"]) == ("failed", 1.0)


# Judges in them


def judged(criteria: str, **more: Any) -> Raw:
    return {"llm_judge": {"criteria": criteria, "target": "judge", **more}}


def judging(*verdicts: Any, **case: Any) -> Raw:
    suite = steps("a", "ab", "a", **case)
    return {**suite, "targets": [*suite["targets"], scripted("judge", judge=list(verdicts))]}


def journalled(project: Project, document: Raw, kind: str) -> list[Raw]:
    records = journal_of(project.folder / ".rejoinder" / "runs" / document["run"]["id"])
    return [one for one in records if one["type"] == "told" and one["key"].startswith(kind)]


def test_a_judge_is_asked_about_no_more_replies_than_the_rule_needs(project: Project) -> None:
    rules = [{"by_turn": {"turn": 3, "check": judged("Done?")}}, {"never": judged("Rude?")}]
    scores = iter([0, 1, 0, 1])
    project.write(".rejoinder/config.yaml", {"prices": {"judge": {"input": 1, "output": 2}}})
    with FakeServer(lambda _: judge(next(scores))) as server:
        suite = steps("a", "ab", "a", conversation_checks=rules)
        document = run(project, {**suite, "targets": [*suite["targets"], behind(server, "judge")]})
    [result] = document["results"]
    done, rude = result["conversation_checks"]
    assert (done["passed"], len(done["children"])) == (True, 2)
    assert (rude["passed"], rude["reason"], len(rude["children"])) == (False, "turn 2 does", 2)
    told = journalled(project, document, "judge")
    assert len(told) == 4
    keys = [key for check in (done, rude) for child in check["children"] for key in child["calls"]]
    assert sorted(keys) == sorted(record["key"] for record in told)
    spent = [record["reply"]["usage"] for record in told]
    total = sum(one["input_tokens"] + one["output_tokens"] for one in spent)
    assert result["judge_usage"]["total_tokens"] == total > 0
    assert document["summary"]["judge_usage"]["total_tokens"] == total
    assert result["judge_cost"] == pytest.approx(sum(prices_in(only_run(project.folder)).values()))
    assert result["judge_cost"] > 0


def test_votes_inside_a_rule(project: Project) -> None:
    rules = [{"always": judged("Kind?", votes=3)}]
    document = run(project, judging(1, 1, 0, 0, 1, 0, conversation_checks=rules))
    [check] = document["results"][0]["conversation_checks"]
    assert [child["votes"] for child in check["children"]] == [[1, 1, 0], [0, 1, 0]]
    assert [len(child["calls"]) for child in check["children"]] == [3, 3]
    assert (check["passed"], check["reason"]) == (False, "turn 2 does not pass")
    assert len(journalled(project, document, "judge")) == 6


def test_a_judge_that_fails_is_an_error_where_the_rule_hangs_on_it(project: Project) -> None:
    rules = [{"always": judged("Kind?")}]
    down = {"error": "down"}
    document = run(project, judging(True, down, True, conversation_checks=rules), code=3)
    [result] = document["results"]
    [check] = result["conversation_checks"]
    assert (result["status"], check["error"], check["score"]) == ("error", True, None)
    assert "turn 2" in check["reason"] and "down" in check["reason"]
    document = run(project, judging(True, down, False, conversation_checks=rules), code=1)
    [check] = document["results"][0]["conversation_checks"]
    assert (check["passed"], check.get("error", False), check["reason"]) == (False, False, "turn 3 does not pass")
    assert document["results"][0]["status"] == "failed"


def test_several_judges_of_the_whole(project: Project) -> None:
    rules = [{**judged("Polite?"), "on": "transcript"}, judged("Right?"), {"before": {"first": a(), "second": b()}}]
    document = run(project, judging(0.75, True, conversation_checks=rules))
    [result] = document["results"]
    assert [check["score"] for check in result["conversation_checks"]] == [0.75, 1.0, 1.0]
    assert [len(check.get("calls") or []) for check in result["conversation_checks"]] == [1, 1, 0]
    assert result["status"] == "passed"
