"""From verdicts to scores: groups, negation, thresholds, weights, required checks, named metrics, AgentV's aggregate.

Every suite here is really run. Judges are scripted targets, one for each score: `judged(0.7)` is a check that a judge
gives 0.7, and `judged(None)` one whose judge cannot be asked.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import rejoinder
from rejoinder.stats.intervals import wilson
from tests.kit import Project, Raw, bounded, codes, run, scripted, spec, state_of

REPLY = "The answer is 42."
YES, NO = {"contains": "42"}, {"contains": "43"}
DOWN = {"error": "the judge is down"}


def judged(score: float | None, **more: Any) -> Raw:
    """A check that a judge gives this score."""
    name = "down" if score is None else f"judge-{score}"
    return {"llm_judge": {"criteria": f"Worth {score}?", "target": name}, **more}


def group(*checks: Raw, at_least: int | None = None, **more: Any) -> Raw:
    inner: Raw = {"checks": list(checks)}
    return {"group": inner if at_least is None else {**inner, "at_least": at_least}, **more}


def judges_in(value: Any) -> set[str]:
    """The judges that a part of a suite names."""
    if isinstance(value, list):
        return {name for one in value for name in judges_in(one)}
    if isinstance(value, dict):
        own = {value["target"]} if "criteria" in value and "target" in value else set()
        return own | judges_in(list(value.values()))
    return set()


def make_suite(evals: list[Raw], replies: Any = None, **more: Any) -> Raw:
    targets: list[Raw] = [{"name": "model", "provider": "scripted", "replies": replies or [REPLY] * 6}]
    for name in sorted(judges_in([evals, more])):
        entry = DOWN if name == "down" else {"score": float(name.removeprefix("judge-")), "reasoning": f"as {name}"}
        targets.append({"name": name, "provider": "scripted", "judge": [entry] * 40})
    given_targets = more.pop("targets", [])
    return {"targets": targets + given_targets, "metadata": {"model": "model"}, "evals": evals, **more}


def make_case(*checks: Raw, **more: Any) -> Raw:
    return {"id": "a", "prompt": "What is the answer?", "checks": list(checks), **more}


def run_case(project: Project, *checks: Raw, replies: Any = None, **more: Any) -> Raw:
    """The result of a case with these checks."""
    [result] = run(project, make_suite([make_case(*checks, **more)], replies))["results"]
    return result


def run_check(project: Project, check: Raw) -> Raw:
    """The verdict on a check that stands alone."""
    result = run_case(project, check)
    [verdict] = result["turns"][0]["checks"]
    assert state_of(verdict) == result["status"]
    assert verdict["score"] == result["score"]
    return verdict


def run_checks(project: Project, checks: dict[str, Raw]) -> dict[str, Raw]:
    """The verdicts on checks, each in a case of its own."""
    evals = [{**make_case(check), "id": name} for name, check in checks.items()]
    results = run(project, make_suite(evals))["results"]
    assert [result["status"] for result in results] == [state_of(result["turns"][0]["checks"][0]) for result in results]
    return {result["id"]: result["turns"][0]["checks"][0] for result in results}


def outcomes(found: dict[str, Raw]) -> dict[str, tuple[str, float | None]]:
    return {name: (state_of(one), one["score"]) for name, one in found.items()}


# Groups


@spec("B6")
def test_so_many_of_a_group_have_to_pass(project: Project) -> None:
    found = run_checks(
        project,
        {
            "2 of 3": group(YES, NO, YES, at_least=2),
            "1 is too few": group(YES, NO, NO, at_least=2),
            "all": group(YES, YES, at_least=2),
            "not all": group(YES, NO, at_least=2),
            "one of one": group(NO, at_least=1),
            "scores": group(judged(0.9), judged(0.6), judged(0.3), at_least=2),
            "scores that fail": group(judged(0.9), judged(0.4), judged(0.3), at_least=2),
            "own thresholds": group(judged(0.9, threshold=0.95), judged(0.4, threshold=0.4), at_least=1),
        },
    )
    assert outcomes(found) == {
        "2 of 3": ("passed", pytest.approx(2 / 3)),
        "1 is too few": ("failed", pytest.approx(1 / 3)),
        "all": ("passed", 1.0),
        "not all": ("failed", 0.5),
        "one of one": ("failed", 0.0),
        "scores": ("passed", pytest.approx(0.6)),
        "scores that fail": ("failed", pytest.approx(1.6 / 3)),
        "own thresholds": ("passed", 0.65),
    }
    assert found["1 is too few"]["reason"] == "1 of 3 passed, and 2 are needed"
    assert [state_of(child) for child in found["2 of 3"]["children"]] == ["passed", "failed", "passed"]
    assert found["2 of 3"]["check"] == "group"


@spec("B6", "P27")
def test_without_a_number_the_mean_of_a_group_decides(project: Project) -> None:
    found = run_checks(
        project,
        {
            "half": group(YES, NO),
            "third": group(YES, NO, NO),
            "third is enough": group(YES, NO, NO, threshold=0.3),
            "judges": group(judged(0.9), judged(0.2), threshold=0.55),
            "less": group(judged(0.9), judged(0.2), threshold=0.6),
            "weights": group({**YES, "weight": 3}, NO, threshold=0.75),
            "weights against": group(YES, {**NO, "weight": 3}),
            "no weight": group({**NO, "weight": 0}, YES, threshold=1.0),
            "no weights at all": group({**NO, "weight": 0}, {**YES, "weight": 0}, threshold=0.5),
            "weights without a sum": group({**YES, "weight": 1e308}, {**NO, "weight": 1e308}),
            "dust": group(judged(0.7), judged(0.7), judged(0.7), threshold=0.7),
        },
    )
    assert outcomes(found) == {
        "half": ("passed", 0.5),
        "third": ("failed", pytest.approx(1 / 3)),
        "third is enough": ("passed", pytest.approx(1 / 3)),
        "judges": ("passed", pytest.approx(0.55)),
        "less": ("failed", pytest.approx(0.55)),
        "weights": ("passed", 0.75),
        "weights against": ("failed", 0.25),
        "no weight": ("passed", 1.0),
        "no weights at all": ("passed", 0.5),
        "weights without a sum": ("passed", 0.5),
        "dust": ("passed", pytest.approx(0.7)),
    }
    assert found["third"]["reason"] == "1 of 3 passed, their mean is 0.333, and 0.5 is needed"


@spec("B6", "P27")
def test_what_is_required_in_a_group(project: Project) -> None:
    required = {**NO, "required": True, "name": "the number"}
    found = run_checks(
        project,
        {
            "count": group(YES, YES, required, at_least=2),
            "mean": group(YES, YES, YES, required, threshold=0.5),
            "met": group({**YES, "required": True}, NO, at_least=1),
            "undecided": group(YES, judged(None, required=True), at_least=1),
            "undecided mean": group(YES, judged(None, required=True), threshold=0.2),
            "failed is failed": group(judged(None), required, at_least=1),
        },
    )
    assert {name: state_of(one) for name, one in found.items()} == {
        "count": "failed",
        "mean": "failed",
        "met": "passed",
        "undecided": "error",
        "undecided mean": "error",
        "failed is failed": "failed",
    }
    assert found["count"]["reason"] == "2 of 3 passed; required and not passed: the number"
    assert found["count"]["score"] == pytest.approx(2 / 3)


@spec("P26", "P27")
def test_errors_in_a_group(project: Project) -> None:
    found = run_checks(
        project,
        {
            "enough without": group(YES, YES, judged(None), at_least=2),
            "not enough with": group(NO, NO, judged(None), at_least=2),
            "it depends": group(YES, NO, judged(None), at_least=2),
            "only errors": group(judged(None), judged(None), at_least=1),
            "only errors, which are enough": group(judged(None), threshold=0.0),
            "mean": group(YES, NO, judged(None)),
            "a mean that is reached": group(YES, YES, judged(None)),
            "a mean that is not reached": group(NO, YES, judged(None), threshold=0.75),
            "a mean that may be reached": group(NO, YES, judged(None), threshold=0.6),
            "a mean and something required": group(YES, YES, judged(None, required=True)),
            "not reached, required or not": group(NO, YES, judged(None, required=True), threshold=0.75),
            "without weight": group(YES, judged(None, weight=0), threshold=1.0),
            "with all the weight": group({**YES, "weight": 0}, judged(None)),
        },
    )
    assert {name: state_of(one) for name, one in found.items()} == {
        "enough without": "passed",
        "not enough with": "failed",
        "it depends": "error",
        "only errors": "error",
        "only errors, which are enough": "error",
        "mean": "error",
        "a mean that is reached": "passed",
        "a mean that is not reached": "failed",
        "a mean that may be reached": "error",
        "a mean and something required": "error",
        "not reached, required or not": "failed",
        "without weight": "passed",
        "with all the weight": "error",
    }
    reached, missed = found["a mean that is reached"], found["a mean that is not reached"]
    assert reached["reason"] == "2 of 3 passed, their mean is at least 0.667, and 0.5 is needed"
    assert missed["reason"] == "1 of 3 passed, their mean is at most 0.667, and 0.75 is needed"
    assert (reached["score"], missed["score"]) == (1.0, 0.5)
    assert found["it depends"]["score"] is None
    assert found["it depends"]["reason"] == "1 of 3 passed; 1 could not be decided"
    assert "the judge is down" in found["it depends"]["children"][2]["reason"]
    assert found["enough without"]["score"] == 1.0  # the mean of what was decided


@pytest.mark.parametrize(
    ("value", "code", "path"),
    [
        ({"at_least": 3, "checks": [YES, NO]}, "out-of-range", "group.at_least"),
        ({"at_least": 2, "checks": [YES, {"prompt": "p", "checks": [YES]}]}, "out-of-range", "group.at_least"),
        ({"at_least": 0, "checks": [YES]}, "out-of-range", "group.at_least"),
        ({"at_least": 1.5, "checks": [YES]}, "wrong-type", "group.at_least"),
        ({"at_least": True, "checks": [YES]}, "wrong-type", "group.at_least"),
        ({"at_least": 1}, "missing-field", "group.checks"),
        ({"checks": []}, "empty-checks", "group.checks"),
        ({"checks": [{"prompt": "p", "checks": [YES]}]}, "no-check-at-level", "group.checks"),
        ({"checks": [YES], "atleast": 1}, "unknown-key", "group.atleast"),
        ([YES], "wrong-type", "group"),
    ],
    ids=["more", "prompts", "zero", "half", "bool", "no-checks", "empty", "only-prompts", "typo", "list"],
)
def test_a_group_that_cannot_be_is_refused(project: Project, value: Any, code: str, path: str) -> None:
    [error] = project.errors(make_suite([make_case({"group": value})]))
    assert (error["code"], error["path"]) == (code, f"evals[0].checks[0].{path}")


def test_a_number_larger_than_the_group_is_found_anywhere(project: Project) -> None:
    bad = group(YES, at_least=2)
    errors = project.errors(
        make_suite([make_case({"or": [bad]}, {"not": bad}, group(bad), {"prompt": "p", "checks": [bad]})])
    )
    assert codes(errors) == ["out-of-range"] * 4


@spec("B6")
def test_groups_in_groups(project: Project) -> None:
    inner = group(YES, NO, NO, at_least=2)
    found = run_checks(
        project,
        {
            "group in group": group(group(YES, NO, at_least=1), inner, at_least=1),
            "mean of means": group(group(YES, NO), group(YES, YES), threshold=0.75),
            "in or": {"or": [NO, group(YES, YES)]},
            "in and": {"and": [YES, inner]},
            "or in group": group({"or": [NO, YES]}, {"and": [YES, NO]}, at_least=2),
            "error inside": group(YES, group(judged(None), at_least=1), at_least=1),
            "error decides": group(NO, group(judged(None), at_least=1), at_least=1),
        },
    )
    assert {name: state_of(one) for name, one in found.items()} == {
        "group in group": "passed",
        "mean of means": "passed",
        "in or": "passed",
        "in and": "failed",
        "or in group": "failed",
        "error inside": "passed",
        "error decides": "error",
    }
    assert found["mean of means"]["score"] == 0.75


# Follow-ups and turns


def prompts(result: Raw) -> list[str]:
    return [turn["prompt"] for turn in result["turns"]][1:]


def again(text: str, *checks: Raw) -> Raw:
    return {"prompt": text, "checks": list(checks or (YES,))}


@spec("R62", "P25", "B6")
def test_follow_ups_in_a_group_wait_until_it_failed(project: Project) -> None:
    replies = ["Nothing.", REPLY]
    lone = group(YES, {"contains": "Nothing"}, again("lone"), at_least=2)
    assert prompts(run_case(project, lone, replies=replies)) == ["lone"]
    # It passes, and the level fails because of something else.
    content = group(YES, {"contains": "Nothing"}, again("lone"), at_least=1)
    assert prompts(run_case(project, content, NO, replies=replies)) == []
    assert prompts(run_case(project, content, NO, again("level"), replies=replies)) == ["level"]


@spec("R62", "P25", "B6")
def test_a_follow_up_of_a_check_in_a_group_needs_both_to_fail(project: Project) -> None:
    replies = ["Nothing.", REPLY]
    passing, failing = {"contains": "Nothing"}, {"contains": "Something"}
    first = group({**passing, **again("passing")}, {**failing, **again("failing")}, at_least=2)
    assert prompts(run_case(project, first, replies=replies)) == ["failing"]
    satisfied = group({**passing, **again("passing")}, {**failing, **again("failing")}, at_least=1)
    assert prompts(run_case(project, satisfied, NO, replies=replies)) == []
    beside = {**group(passing, failing, at_least=2), **again("beside")}
    assert prompts(run_case(project, beside, replies=replies)) == ["beside"]
    nested = group(passing, group(failing, again("inner")), again("outer"), at_least=2)
    assert prompts(run_case(project, nested, replies=replies)) == ["inner"]
    calm = group(group(passing, again("inner")), failing, again("outer"), at_least=2)
    assert prompts(run_case(project, calm, replies=replies)) == ["outer"]


@spec("P26")
def test_a_group_in_error_sends_no_follow_up(project: Project) -> None:
    result = run_case(project, group(NO, judged(None), again("never"), at_least=1))
    assert (result["status"], len(result["turns"])) == ("error", 1)
    assert result["error"]["message"] == "group: 0 of 2 passed; 1 could not be decided"


@spec("P18", "B6")
def test_a_group_of_every_turn_goes_along_without_its_follow_ups(project: Project) -> None:
    replies = ["Nothing.", "Nothing, but 42.", "Never."]
    persistent = {**group({"contains": "Nothing"}, YES, again("of the group"), at_least=1), "every_turn": True}
    case = make_case(persistent, NO, {"prompt": "More!", "checks": [{"contains": "43"}, again("Still more!")]})
    [result] = run(project, make_suite([case], replies))["results"]
    assert [turn["prompt"] for turn in result["turns"]][1:] == ["More!", "Still more!"]
    kinds = [[check["check"].split()[0] for check in turn["checks"]] for turn in result["turns"]]
    assert kinds == [["group", "contains"]] * 3
    assert [turn["checks"][0]["passed"] for turn in result["turns"]] == [True, True, False]
    assert result["status"] == "failed"


def test_what_failed_in_a_group_can_be_quoted(project: Project) -> None:
    check = {**group(YES, {**NO, "name": "number"}, at_least=2, name="both"), **again("Failed: {{ failed(answer) }}")}
    assert prompts(run_case(project, check, replies=["42", REPLY])) == ["Failed: both: 1 of 2 passed, and 2 are needed"]


# Negation


@spec("P27", "B3")
def test_anything_can_be_negated(project: Project) -> None:
    vectors = {REPLY: [1.0, 0.0], "near": [0.8, 0.6], "far": [0.0, 1.0]}
    checks: dict[str, Raw] = {
        "plain": {"not": YES},
        "judge": {"not": judged(0.9)},
        "judge fails": {"not": judged(0.2)},
        "its threshold": {"not": judged(0.6, threshold=0.7)},
        "its error": {"not": judged(None)},
        "group": {"not": group(YES, NO, NO, at_least=2)},
        "group mean": {"not": group(YES, YES, NO)},
        "group error": {"not": group(NO, judged(None), at_least=1)},
        "or": {"not": {"or": [NO, NO]}},
        "and": {"not": {"and": [YES, YES]}},
        "not": {"not": {"not": judged(0.9)}},
        "near": {"not": {"semantic": {"expected": "near", "threshold": 0.7, "target": "vectors"}}},
        "far": {"not": {"semantic": {"expected": "far", "threshold": 0.7, "target": "vectors"}}},
        "code": {"not": {"code": "cat > /dev/null; echo 0.25"}},
        "code error": {"not": {"code": "cat > /dev/null; echo oops >&2; exit 1"}},
        "in a group": group({"not": NO}, {"not": YES}, {"not": judged(0.1)}, at_least=2),
    }
    evals = [{**make_case(check), "id": name} for name, check in checks.items()]
    embedder = {"name": "vectors", "provider": "scripted", "embeddings": vectors}
    results = run(project, make_suite(evals, targets=[embedder]))["results"]
    found = {result["id"]: result["turns"][0]["checks"][0] for result in results}
    assert outcomes(found) == {
        "plain": ("failed", 0.0),
        "judge": ("failed", pytest.approx(0.1)),
        "judge fails": ("passed", 0.8),
        "its threshold": ("passed", 0.4),
        "its error": ("error", None),
        "group": ("passed", pytest.approx(2 / 3)),
        "group mean": ("failed", pytest.approx(1 / 3)),
        "group error": ("error", None),
        "or": ("passed", 1.0),
        "and": ("failed", 0.0),
        "not": ("passed", pytest.approx(0.9)),
        "near": ("failed", pytest.approx(0.2)),
        "far": ("passed", pytest.approx(1.0)),
        "code": ("passed", 0.75),
        "code error": ("error", None),
        "in a group": ("passed", pytest.approx((1 + 0 + 0.9) / 3)),
    }
    assert "oops" in found["code error"]["reason"]
    assert [child["check"] for child in found["group"]["children"]] == ["group"]


def test_a_follow_up_cannot_be_negated(project: Project) -> None:
    inside = {"not": group({**YES, **again("p")}, NO)}
    [error] = project.errors(make_suite([make_case(inside)]))
    assert (error["code"], error["path"]) == ("unknown-key", "evals[0].checks[0].not.group.checks[0].prompt")
    beside = {"not": group(YES, NO), **again("p", {"not": NO})}
    assert prompts(run_case(project, beside)) == ["p"]


# What people see


@spec("R67", "P29")
def test_a_group_is_shown_with_its_checks(project: Project) -> None:
    check = group(YES, {"not": group(judged(0.25), NO)}, {"or": [NO, YES]}, at_least=3)
    project.write("evals.yaml", make_suite([make_case(check, group(NO, judged(None), at_least=2))]))
    shown = project.run("run", "--verbose", code=1)
    block = shown[shown.index("    ✅ PASS group") : shown.index("  Overall")]
    assert block.splitlines() == [
        "    ✅ PASS group",
        '      ✅ PASS contains "42"',
        "      ✅ PASS not group",
        "        ❌ FAIL group",
        '          ❌ FAIL llm_judge "Worth 0.25?"',
        '          ❌ FAIL contains "43"',
        "      ✅ PASS or",
        '        ❌ FAIL contains "43"',
        '        ✅ PASS contains "42"',
        "    ❌ FAIL group",
        '      ❌ FAIL contains "43"',
        '      ⚠️ ERROR llm_judge "Worth None?"',
    ]
    assert '  Scored llm_judge "Worth 0.25?": 0.25, and 0.5 is needed; judged by judge-0.25' in shown
    assert "group: 0 of 2 passed, and 2 are needed" in shown


# Levels


@spec("P27")
def test_a_level_with_a_threshold(project: Project) -> None:
    cases = {
        "mean": ([YES, NO, YES], 0.6, "passed", 2 / 3),
        "less": ([YES, NO, NO], 0.6, "failed", 1 / 3),
        "zero": ([NO], 0.0, "passed", 0.0),
        "one": ([YES, judged(0.9)], 1.0, "failed", 0.95),
        "judges": ([judged(0.2), judged(0.9), YES], 0.7, "passed", 0.7),
        "weights": ([{**YES, "weight": 3}, judged(0.2, weight=1)], 0.8, "passed", 0.8),
        "weights against": ([YES, judged(0.0, weight=9)], 0.2, "failed", 0.1),
        "weights without a sum": ([{**YES, "weight": 1e308}, {**NO, "weight": 1e308}], 0.6, "failed", 0.5),
        "weightless": ([YES, {**NO, "weight": 0}], 1.0, "passed", 1.0),
        "required": ([YES, YES, YES, judged(0.4, required=True)], 0.5, "failed", 0.85),
        "required and met": ([NO, judged(0.5, required=True)], 0.2, "passed", 0.25),
        "its own threshold": ([YES, judged(0.8, required=True, threshold=0.9)], 0.5, "failed", 0.9),
        "required group": ([YES, YES, {**group(YES, NO, at_least=2), "required": True}], 0.5, "failed", 2.5 / 3),
        "error": ([YES, NO, judged(None)], 0.5, "error", None),
        "an error that could do no harm": ([YES, YES, judged(None)], 0.5, "passed", 1.0),
        "only errors": ([judged(None)], 0.0, "error", None),
        "required error": ([YES, judged(None, required=True)], 0.5, "error", None),
        "required failure": ([judged(None), {**NO, "required": True}], 0.5, "failed", 0.0),
        "an error that could not help": ([NO, NO, judged(None)], 0.9, "failed", 0.0),
        "an error without weight": ([YES, judged(None, weight=0)], 1.0, "passed", 1.0),
        "dust": ([judged(0.7), judged(0.7), judged(0.7)], 0.7, "passed", 0.7),
        "dust of weights": ([judged(0.1, weight=0.3), judged(0.3), judged(0.4, weight=0.7)], 0.305, "passed", 0.305),
    }
    evals = [{**make_case(*checks), "id": name, "threshold": mark} for name, (checks, mark, *_) in cases.items()]
    results = run(project, make_suite(evals))["results"]
    assert {one["id"]: (one["status"], one["score"]) for one in results} == {
        name: (status, pytest.approx(score)) for name, (_, _, status, score) in cases.items()
    }


@spec("P27")
def test_without_a_threshold_every_check_has_to_pass_whatever_it_weighs(project: Project) -> None:
    assert run_case(project, YES, {**NO, "weight": 0})["status"] == "failed"
    result = run_case(project, judged(0.5), {**YES, "weight": 3})
    assert (result["status"], result["score"]) == ("passed", 0.875)
    assert run_case(project, judged(0.49), YES)["status"] == "failed"


@spec("P27")
def test_a_follow_up_has_a_threshold_of_its_own(project: Project) -> None:
    later = {"prompt": "More!", "threshold": 0.4, "checks": [YES, NO, {"prompt": "Again!", "checks": [YES]}]}
    result = run_case(project, YES, NO, later, threshold=0.6)
    assert (result["status"], result["succeeded_on_turn"], result["score"]) == ("passed", 2, 0.5)
    later = {**later, "threshold": 0.6}
    result = run_case(project, YES, NO, later, threshold=0.6)
    assert (result["status"], result["succeeded_on_turn"], result["score"]) == ("passed", 3, 1.0)


# A second reading of the rules, on random levels


SCORES = (0.0, 0.1, 0.25, 0.3, 0.5, 0.6, 0.7, 0.9, 1.0)
MARKS = st.sampled_from((0.0, 0.1, 0.3, 0.5, 0.6, 0.7, 0.9, 1.0))


def beside(draw: st.DrawFn, check: Raw, *, marked: bool = False) -> Raw:
    """A check with some of the keys that may stand beside it."""
    given_keys: Raw = {}
    if draw(st.booleans()):
        given_keys["weight"] = draw(st.sampled_from((0, 0.1, 0.3, 0.7, 1, 2.5)))
    if draw(st.integers(0, 3)) == 0:
        given_keys["required"] = True
    if marked and draw(st.booleans()):
        given_keys["threshold"] = draw(MARKS)
    return {**check, **given_keys}


@st.composite
def checks_of_any_kind(draw: st.DrawFn, depth: int = 2) -> Raw:
    kinds = ["plain", "judged", "judged", "down"] + ["group", "mean", "or", "and", "not"] * bool(depth)
    kind = draw(st.sampled_from(kinds))
    if kind == "plain":
        return beside(draw, draw(st.sampled_from((YES, NO))))
    if kind in ("judged", "down"):
        return beside(draw, judged(None if kind == "down" else draw(st.sampled_from(SCORES))), marked=True)
    inner = checks_of_any_kind(depth - 1)
    if kind == "not":
        negated = {key: value for key, value in draw(inner).items() if key not in ("weight", "required")}
        return beside(draw, {"not": negated})
    items = draw(st.lists(inner, min_size=1, max_size=4))
    if kind in ("or", "and"):
        return beside(draw, {kind: items})
    if kind == "group":
        return beside(draw, group(*items, at_least=draw(st.integers(1, len(items)))))
    return beside(draw, group(*items), marked=True)


def exactly(number: Any) -> Fraction:
    return Fraction(str(number))


Read = tuple[str, Fraction | None]


def read_check(check: Raw) -> Read:
    """State and score of a check as the rules have it, in fractions and on the mappings of the suite."""
    if "contains" in check:
        return ("passed", Fraction(1)) if check is YES or check["contains"] == "42" else ("failed", Fraction(0))
    if "llm_judge" in check:
        name = check["llm_judge"]["target"]
        if name == "down":
            return "error", None
        score = exactly(name.removeprefix("judge-"))
        return ("passed" if score >= exactly(check.get("threshold", 0.5)) else "failed"), score
    if "not" in check:
        inner, score = read_check(check["not"])
        swapped = {"passed": "failed", "failed": "passed", "error": "error"}[inner]
        return swapped, None if score is None else 1 - score
    if "group" in check:
        return read_group(check)
    [kind] = {"or", "and"} & set(check)
    read = [read_check(item) for item in check[kind]]
    states, scores = [one for one, _ in read], [score for _, score in read if score is not None]
    decisive = "passed" if kind == "or" else "failed"
    if decisive in states:
        return decisive, max(scores) if kind == "or" else min(scores)
    if "error" in states:
        return "error", None
    return ("failed", max(scores)) if kind == "or" else ("passed", min(scores))


def read_mean(checks: list[Raw], read: list[Read]) -> Fraction | None:
    scored = [
        (exactly(check.get("weight", 1)), score)
        for check, (_, score) in zip(checks, read, strict=True)
        if score is not None
    ]
    if not scored:
        return None
    if not sum(weight for weight, _ in scored):
        scored = [(Fraction(1), score) for _, score in scored]
    return sum(weight * score for weight, score in scored) / sum(weight for weight, _ in scored)


def read_threshold(checks: list[Raw], read: list[Read], mark: Fraction) -> Read:
    """Errors are tried as the worst and as the best that they could have come to."""
    outcomes: set[str] = set()
    for one in ("failed", "passed"):
        tried: list[Read] = [(one, Fraction(one == "passed")) if score is None else (is_, score) for is_, score in read]
        mean = read_mean(checks, tried)
        assert mean is not None
        lacking = any(check.get("required") and is_ == "failed" for check, (is_, _) in zip(checks, tried, strict=True))
        outcomes.add("passed" if mean >= mark and not lacking else "failed")
    mean = read_mean(checks, read)
    return (outcomes.pop(), mean) if len(outcomes) == 1 and mean is not None else ("error", None)


def read_group(check: Raw) -> Read:
    items, wanted = check["group"]["checks"], check["group"].get("at_least")
    read = [read_check(item) for item in items]
    required = [one for item, (one, _) in zip(items, read, strict=True) if item.get("required")]
    states, mean = [one for one, _ in read], read_mean(items, read)
    if "failed" in required:
        return "failed", mean
    passed, errors = states.count("passed"), states.count("error")
    if wanted is None:
        return read_threshold(items, read, exactly(check.get("threshold", 0.5)))
    if passed + errors < wanted:
        return "failed", mean
    if passed < wanted or "error" in required:
        return "error", None
    return "passed", mean


def read_level(checks: list[Raw], threshold: float | None) -> Read:
    read = [read_check(check) for check in checks]
    states, mean = [one for one, _ in read], read_mean(checks, read)
    if threshold is None:
        found = next((one for one in ("failed", "error") if one in states), "passed")
    elif "failed" in [one for check, (one, _) in zip(checks, read, strict=True) if check.get("required")]:
        found = "failed"
    else:
        found = read_threshold(checks, read, exactly(threshold))[0]
    return found, None if found == "error" else mean


levels = st.tuples(st.lists(checks_of_any_kind(), min_size=1, max_size=4), st.none() | MARKS)


def assert_reads(verdict: Raw, check: Raw, place: Any) -> None:
    wanted, score = read_check(check)
    assert (state_of(verdict), verdict["score"]) == (wanted, None if score is None else pytest.approx(float(score))), (
        place
    )


@pytest.mark.slow
@spec("P27", "B6")
@bounded(15)
@given(st.lists(levels, min_size=10, max_size=30))
def test_scores_are_those_of_a_second_reading(drawn: list[tuple[list[Raw], float | None]]) -> None:
    evals = [
        {"id": f"case {number}", "prompt": "What?", "checks": checks, **({} if mark is None else {"threshold": mark})}
        for number, (checks, mark) in enumerate(drawn)
    ]
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, ".rejoinder").mkdir()
        path = Path(folder, "evals.yaml")
        path.write_text(json.dumps(make_suite(evals)), encoding="utf-8")
        results = rejoinder.run(path, pace=rejoinder.Pace(max_retries=0)).document()["results"]
    for (checks, mark), result in zip(drawn, results, strict=True):
        for check, verdict in zip(checks, result["turns"][0]["checks"], strict=True):
            assert_reads(verdict, check, (check, verdict))
        status, score = read_level(checks, mark)
        wanted = None if score is None else pytest.approx(float(score))
        assert (result["status"], result["score"]) == (status, wanted), (checks, mark)


# Metrics


@spec("P27", "B8")
def test_a_metric_is_averaged_over_cases(project: Project) -> None:
    evals = [
        {**make_case(judged(0.5, metric="quality"), {**YES, "metric": "facts"}), "id": "a"},
        {**make_case(judged(0.9, metric="quality")), "id": "b"},
        {**make_case(judged(0.7, metric="quality"), judged(0.1, metric="quality")), "id": "c"},
        {**make_case(judged(0.3)), "id": "d"},
    ]
    metrics = run(project, make_suite(evals))["summary"]["metrics"]
    assert list(metrics) == ["quality", "facts"]
    quality = metrics["quality"]
    # Case c counts once, with the mean of its two checks.
    assert quality["mean"] == pytest.approx((0.5 + 0.9 + 0.4) / 3)
    assert (quality["cases"], quality["min"], quality["max"]) == (3, pytest.approx(0.4), 0.9)
    deviations = [(one - 0.6) ** 2 for one in (0.5, 0.9, 0.4)]
    assert quality["standard_error"] == pytest.approx((sum(deviations) / 2 / 3) ** 0.5)
    assert metrics["facts"] == {
        "mean": 1.0,
        "cases": 1,
        "total_cases": 1,
        "errors": 0,
        "replies": 1,
        "total_replies": 1,
        "mean_with_errors": 1.0,
        "standard_error": None,
        "min": 1.0,
        "max": 1.0,
    }
    shown = project.run("show", "--verbose", code=None)
    lines = [line.strip() for line in shown.splitlines()]
    assert "metrics   quality 0.6 over 3 cases, standard error 0.153" in lines
    assert "facts 1 over 1 case" in lines


@spec("P27")
def test_repeats_of_a_case_are_one_value(project: Project, module: Callable[[str], str]) -> None:
    """Four trials of a case count no more than the one trial of another would."""
    source = (
        "def vary(context):\n"
        "    return {'a': [0.0, 1.0, 1.0, 1.0], 'b': [0.25] * 4}[context.case_id][context.trial - 1]\n"
    )
    check = {"python": f"{module(source)}:vary", "metric": "m", "threshold": 0.0}
    evals = [{**make_case(check), "id": name} for name in "ab"]
    document = run(project, make_suite(evals), "--repeat", "4", code=0)
    metric = document["summary"]["metrics"]["m"]
    assert (metric["mean"], metric["cases"], metric["min"], metric["max"]) == (0.5, 2, 0.25, 0.75)
    assert metric["standard_error"] == pytest.approx(0.25)


def test_metrics_inside_groups_and_of_groups(project: Project) -> None:
    check = group(judged(0.9, metric="inner"), judged(0.1, metric="inner"), YES, at_least=2, metric="outer")
    negated = {"not": judged(0.2, metric="raw"), "metric": "negated"}
    document = run(project, make_suite([make_case(check, negated, {"or": [NO, {**YES, "metric": "or"}]})]))
    means = {name: one["mean"] for name, one in document["summary"]["metrics"].items()}
    assert means == {"outer": pytest.approx(2 / 3), "inner": 0.5, "negated": 0.8, "raw": 0.2, "or": 1.0}
    [result] = document["results"]
    assert [one.get("metric") for one in result["turns"][0]["checks"][0]["children"]] == ["inner", "inner", None]


def test_what_has_no_score_is_left_out_of_a_metric_and_told(project: Project) -> None:
    evals = [
        {**make_case(judged(None, metric="m")), "id": "a"},
        {**make_case(judged(0.8, metric="m")), "id": "b"},
        {**make_case(judged(None, metric="never")), "id": "c"},
    ]
    metrics = run(project, make_suite(evals), code=3)["summary"]["metrics"]
    assert list(metrics) == ["m", "never"]
    assert metrics["m"] == {
        "mean": 0.8,
        "cases": 1,
        "total_cases": 2,
        "errors": 1,
        "mean_with_errors": 0.4,
        "replies": 1,
        "total_replies": 2,
        "standard_error": None,
        "min": 0.8,
        "max": 0.8,
    }
    assert (metrics["never"]["mean"], metrics["never"]["cases"], metrics["never"]["total_cases"]) == (None, 0, 1)
    lines = [line.strip() for line in project.run("show", "--verbose", code=None).splitlines()]
    assert "metrics   m 0.8 over 1 of 2 cases, 1 of 2 replies, 0.4 with 1 error as 0" in lines
    assert "never is not known over 0 of 1 case, 0 of 1 replies: 1 error" in lines
    assert "score     mean 0.8, median 0.8, min 0.8, max 0.8, over 1 of 3 conversations" in lines


@spec("P27")
def test_an_error_of_one_trial_does_not_hide_behind_the_others(project: Project, module: Callable[[str], str]) -> None:
    source = "def vary(context):\n    return [0.5, None, 1.0][context.trial - 1]\n"
    check = {"python": f"{module(source)}:vary", "metric": "m"}
    metric = run(project, make_suite([make_case(check)]), "--repeat", "3", code=3)["summary"]["metrics"]["m"]
    assert (metric["cases"], metric["total_cases"], metric["errors"]) == (1, 1, 1)
    assert (metric["mean"], metric["mean_with_errors"]) == (0.75, 0.5)


# Marks beside checks


@spec("P21", "P27")
@pytest.mark.parametrize(
    ("check", "wanted", "score"),
    [
        ({"not": judged(0.4), "threshold": 0.8}, "failed", 0.6),
        ({"not": judged(0.4), "threshold": 0.6}, "passed", 0.6),
        ({"not": judged(0.6), "threshold": 0.3}, "passed", 0.4),
        ({"not": judged(0.6)}, "failed", 0.4),
        ({"or": [judged(0.2), judged(0.4)], "threshold": 0.3}, "passed", 0.4),
        ({"or": [judged(0.6), judged(0.4)], "threshold": 0.7}, "failed", 0.6),
        ({"or": [judged(0.6), NO], "threshold": 0.7}, "failed", 0.6),
        ({"or": [judged(None), judged(0.6)], "threshold": 0.7}, "error", None),
        ({"or": [judged(None), judged(0.8)], "threshold": 0.7}, "passed", 0.8),
        ({"and": [judged(0.2), judged(0.4)], "threshold": 0.2}, "passed", 0.2),
        ({"and": [judged(0.6), judged(0.9), YES], "threshold": 0.7}, "failed", 0.6),
        ({"and": [judged(None), judged(0.9)], "threshold": 0.7}, "error", None),
        ({"and": [judged(None), judged(0.6)], "threshold": 0.7}, "failed", 0.6),
        ({"not": {"or": [judged(0.4), judged(0.6)], "threshold": 0.7}}, "passed", 0.4),
    ],
)
def test_a_threshold_beside_others_is_held_against_their_score(
    project: Project, check: Raw, wanted: str, score: float | None
) -> None:
    [result] = run(project, make_suite([make_case(check)]))["results"]
    found = result["turns"][0]["checks"][0]
    assert (state_of(found), found["score"]) == (wanted, None if score is None else pytest.approx(score))
    if wanted != "error" and "threshold" in check:
        assert found["threshold"] == check["threshold"]


INSIDE = {"expected": "x", "threshold": 0.3}


@spec("P21")
@pytest.mark.parametrize("kind", ["semantic", "similar", "rouge_l"])
def test_one_threshold_is_enough(project: Project, kind: str) -> None:
    check = {kind: INSIDE, "threshold": 0.9}
    for place, one in (("", check), (".not", {"not": check}), (".or[0]", {"or": [check]})):
        [error] = project.errors({**make_suite([make_case(one)]), "embedding_target": "scripted/e"})
        assert (error["code"], error["path"]) == ("conflicting-keys", f"evals[0].checks[0]{place}.threshold")
    assert project.errors({**make_suite([make_case({kind: INSIDE})]), "embedding_target": "scripted/e"}) == []


@spec("P21")
@pytest.mark.parametrize(
    "check",
    [
        {"contains": "x"},
        {"json_path": {"path": "$.a", "equals": 1}},
        {"levenshtein": {"expected": "x", "max": 3}},
        {"tool_calls": ["find"]},
        {"not": {"contains": "x"}},
        {"or": [{"contains": "x"}, {"and": [{"match": "x"}]}]},
        {"contains": "x", "prompt": "Again?", "checks": [{"contains": "y"}]},
    ],
    ids=lambda check: next(iter(check)),
)
def test_a_threshold_that_changes_nothing_is_told(project: Project, check: Raw) -> None:
    """It is no error: the specification lets a threshold stand beside any check."""
    suite = make_suite([make_case({**check, "threshold": 0.4})])
    assert project.errors(suite) == []
    [warning] = project.warnings(suite)
    assert (warning["code"], warning["path"]) == ("no-effect", "evals[0].checks[0].threshold")
    assert "`threshold` has no effect" in warning["message"]
    assert project.warnings(make_suite([make_case(check)])) == []


@pytest.mark.parametrize(
    "check",
    [
        judged(0.5),
        {"rubric": ["Is it polite?"]},
        {"code": "true"},
        {"group": {"checks": [YES, NO]}},
        {"not": judged(0.5)},
        {"or": [NO, {"similar": INSIDE}]},
        {"and": [YES, {"not": {"group": {"checks": [YES, NO]}}}]},
    ],
    ids=lambda check: next(iter(check)),
)
def test_a_threshold_of_a_score_is_fine(project: Project, check: Raw) -> None:
    suite = make_suite([make_case({**check, "threshold": 0.4})])
    assert project.errors(suite) == project.warnings(suite) == []


@spec("B4")
def test_a_min_score_without_ranges_is_told(project: Project) -> None:
    plain: Raw = {"criterion": "Is it polite?", "min_score": 0.9}
    ranged = {**plain, "score_ranges": [{"score_range": [0, 10], "meaning": "polite"}]}
    for rubric, place in (([ranged, plain], "[1]"), ({"criteria": [plain, ranged]}, ".criteria[0]")):
        suite = make_suite([make_case({"rubric": rubric})])
        assert project.errors(suite) == []
        [warning] = project.warnings(suite)
        assert (warning["code"], warning["path"]) == ("no-effect", f"evals[0].checks[0].rubric{place}.min_score")


# Pass rates over trials


BY_TRIAL = """
def vary(context):
    return context.trial <= {"always": 4, "never": 0, "often": 3, "seldom": 1}[context.case_id.partition(" ")[0]]
"""


def repeated(project: Project, module: Callable[[str], str], names: list[str]) -> Raw:
    check = {"python": f"{module(BY_TRIAL)}:vary"}
    evals = [{**make_case(check), "id": f"{name} {number}"} for number, name in enumerate(names)]
    return run(project, make_suite(evals), "--repeat", "4", code=None)["summary"]


def test_trials_of_a_case_are_not_as_many_cases(project: Project, module: Callable[[str], str]) -> None:
    summary = repeated(project, module, ["always", "never", "often", "seldom", "always"])
    assert (summary["pass_rate"], summary["cases"], summary["pass_rate_method"]) == (12 / 20, 5, "effective wilson")
    low, high = summary["pass_rate_interval"]
    naive = wilson(12, 20)
    assert naive is not None
    assert low < naive[0] < 0.6 < naive[1] < high
    [target] = summary["by_target"].values()
    assert target["pass_rate_interval"] == summary["pass_rate_interval"]
    shown = f"60% ({100 * low:.0f} to {100 * high:.0f}); 20 conversations of 5 cases, clustered by case"
    assert shown in project.run("show", "--verbose", code=None)


def test_trials_of_a_single_case_are_of_that_case_alone(project: Project, module: Callable[[str], str]) -> None:
    summary = repeated(project, module, ["often"])
    assert summary["pass_rate_interval"] == [pytest.approx(0.3006, abs=5e-5), pytest.approx(0.9544, abs=5e-5)]
    assert "; 4 conversations of 1 case" in project.run("show", "--verbose", code=None)


def test_a_case_on_two_targets_is_one_case(project: Project) -> None:
    suite = make_suite([{**make_case(YES), "id": name} for name in "abcdef"])
    other = {**suite["targets"][0], "name": "other"}
    suite["targets"].append(other)
    names = [suite["targets"][0]["name"], "other"]
    summary = run(project, suite, *(word for name in names for word in ("--target", name)))["summary"]
    assert (summary["total"], summary["cases"]) == (12, 6)
    assert summary["pass_rate_interval"] is None
    for one in summary["by_target"].values():
        assert one["pass_rate_interval"] == [pytest.approx(0.6097, abs=5e-5), 1.0]
    assert [one["cases"] for one in summary["by_target"].values()] == [6, 6]


def test_a_metric_is_taken_from_the_reply_that_it_judged_first(project: Project) -> None:
    first = judged(0.2, metric="m", prompt="More!", checks=[judged(0.9, metric="m")])
    summary = run(project, make_suite([make_case(first)]), code=0)["summary"]
    assert summary["metrics"]["m"]["mean"] == 0.2


def test_cases_of_two_suites_with_the_same_id_are_two_cases(project: Project) -> None:
    project.write("one/evals.yaml", make_suite([make_case(judged(0.9, metric="m"))]))
    project.write("two/evals.yaml", make_suite([make_case(judged(0.5, metric="m"))]))
    document = project.run_json("run", "one", "two", code=0)
    metric = document["summary"]["metrics"]["m"]
    assert (metric["cases"], metric["mean"], metric["min"]) == (2, pytest.approx(0.7), 0.5)


def test_without_metrics_nothing_is_said_of_them(project: Project) -> None:
    assert run(project, make_suite([make_case(YES)]))["summary"]["metrics"] == {}
    assert "metrics" not in project.run("show")


def test_the_name_of_a_metric_may_be_a_variable(project: Project) -> None:
    case = {**make_case({**YES, "metric": "{{ topic }} quality"}), "vars": {"topic": "maths"}}
    assert list(run(project, make_suite([case]))["summary"]["metrics"]) == ["maths quality"]


# AgentV's aggregate


def agentv_suite(evaluators: list[Raw], judge: list[Any], **case: Any) -> Raw:
    return {
        "description": "As AgentV writes it",
        "targets": [
            scripted("model", REPLY, judge_target="judge"),
            {"name": "judge", "provider": "scripted", "judge": judge},
        ],
        "execution": {"target": "model"},
        "evalcases": [
            {
                "id": "a",
                "expected_outcome": "It is 42.",
                "input_messages": [{"role": "user", "content": "What is the answer?"}],
                "expected_messages": [{"role": "assistant", "content": "42"}],
                "execution": {"evaluators": evaluators},
                **case,
            }
        ],
    }


def printing(verdict: Raw) -> list[str]:
    return [sys.executable, "-c", f"print({json.dumps(verdict)!r})"]


@spec("A14", "A15", "A16")
def test_a_plain_suite_of_agentvs_has_agentvs_aggregate(project: Project) -> None:
    judgement = {"score": 0.9, "hits": ["right", "brief"], "misses": ["no units"], "reasoning": "It is right."}
    said = {"score": 0.2, "hits": ["has a number"], "misses": ["no source", "no date"], "reasoning": "Two are missing."}
    evaluators = [
        {"name": "semantic", "type": "llm_judge"},
        {"name": "format", "type": "code", "script": printing(said)},
    ]
    [result] = run(project, agentv_suite(evaluators, [judgement]), code=1)["results"]
    assert result["score"] == pytest.approx(0.55)
    assert result["hits"] == ["right", "brief", "has a number"]
    assert result["misses"] == ["no units", "no source", "no date"]
    assert result["reasoning"] == "semantic: It is right. | format: Two are missing."
    assert [(one["name"], one["score"]) for one in result["turns"][0]["checks"]] == [("semantic", 0.9), ("format", 0.2)]


@spec("A16")
def test_the_order_is_that_of_the_suite_and_what_is_not_said_is_left_out(project: Project) -> None:
    evaluators = [
        {"name": "first", "type": "code", "script": printing({"score": 1.0, "hits": ["h1"]})},
        {"name": "second", "type": "llm_judge"},
        {"name": "third", "type": "code", "script": printing({"score": 1.0, "reasoning": "fine", "misses": ["m3"]})},
    ]
    judge = [{"score": 1.0, "hits": ["h2"], "misses": [], "reasoning": ""}]
    [result] = run(project, agentv_suite(evaluators, judge), code=0)["results"]
    assert (result["hits"], result["misses"], result["reasoning"]) == (["h1", "h2"], ["m3"], "third: fine")
    assert result["score"] == 1.0


@spec("A16", "P18")
def test_evaluators_without_names_are_called_by_their_kind(project: Project) -> None:
    script = 'cat > /dev/null; printf \'%s\' \'{"score": 1, "reasoning": "by a line"}\''
    evaluators = [
        {"type": "llm_judge"},
        {"type": "code", "script": printing({"score": 1.0, "reasoning": "by words"})},
        {"type": "code", "script": script},
    ]
    [result] = run(project, agentv_suite(evaluators, [{"score": 1, "reasoning": "by a model"}]), code=0)["results"]
    assert result["reasoning"] == f"llm_judge: by a model | code: by words | code {script}: by a line"
    assert all("name" not in one for one in result["turns"][0]["checks"])


@spec("A14", "P18")
def test_without_evaluators_the_outcome_is_judged(project: Project) -> None:
    suite = agentv_suite([], [{"score": 0.6, "hits": ["h"], "misses": ["m"], "reasoning": "nearly"}])
    del suite["evalcases"][0]["execution"]
    [result] = run(project, suite, code=0)["results"]
    assert (result["score"], result["hits"], result["misses"]) == (0.6, ["h"], ["m"])
    assert result["reasoning"] == "llm_judge: nearly"


@spec("A16")
def test_weights_of_evaluators_count(project: Project) -> None:
    evaluators = [
        {"name": "judge", "type": "llm_judge", "weight": 3},
        {"name": "code", "type": "code", "script": printing({"score": 0.0}), "threshold": 0.0},
    ]
    [result] = run(project, agentv_suite(evaluators, [{"score": 1.0}]), code=0)["results"]
    assert result["score"] == 0.75


@spec("P26")
def test_an_evaluator_in_error_makes_the_case_one(project: Project) -> None:
    evaluators = [
        {"name": "judge", "type": "llm_judge"},
        {"name": "code", "type": "code", "script": [sys.executable, "-c", "raise SystemExit('no database')"]},
    ]
    [result] = run(project, agentv_suite(evaluators, [{"score": 1.0, "hits": ["h"]}]), code=3)["results"]
    assert (result["status"], result["score"], result["hits"]) == ("error", None, ["h"])
    assert "no database" in result["error"]["message"]
