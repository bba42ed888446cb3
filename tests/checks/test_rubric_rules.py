"""When a rubric passes, and the names by which AgentV's files ask for one."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.kit import Project, codes, scripted, spec

RANGES = {"score_ranges": [{"score_range": [0, 10], "meaning": "from bad to good"}]}


def marks(**given: Any) -> str:
    rows = [{"id": key, "met" if isinstance(value, bool) else "score": value} for key, value in given.items()]
    return json.dumps({"criteria": rows})


def suite_of(case: dict[str, Any], *verdicts: Any, **suite: Any) -> dict[str, Any]:
    target = scripted("t", "reply", judge=list(verdicts))
    return {"targets": [target], "evals": [{"id": "one", "prompt": "q", **case}], **suite}


def run(project: Project, case: dict[str, Any], *verdicts: Any, **suite: Any) -> dict[str, Any]:
    project.write("evals.yaml", suite_of(case, *verdicts, **suite))
    [result] = project.run_json("run", code=None)["results"]
    return result


def rubric(*criteria: Any, **beside: Any) -> dict[str, Any]:
    return {"checks": [{"rubric": list(criteria), **beside}]}


@spec("P38")
def test_half_of_a_rubric_is_not_enough(project: Project) -> None:
    result = run(project, rubric("Is polite.", "Names a price."), marks(**{"1": True, "2": False}))
    [check] = result["turns"][0]["checks"]
    assert result["status"] == "failed"
    assert (check["score"], check["threshold"]) == (0.5, 1)
    assert check["reason"] == "1 of 2 met; not met: Names a price."
    assert [(one["check"], one["passed"]) for one in check["children"]] == [
        ("criterion Is polite.", True),
        ("criterion Names a price.", False),
    ]


@spec("P38")
def test_the_unmet_criteria_are_shown(project: Project) -> None:
    case = rubric("Is polite.", "Names a price.")
    project.write("evals.yaml", suite_of(case, marks(**{"1": True, "2": False})))
    output = project.run("run", code=1)
    assert "1 of 2 met; not met: Names a price." in output
    assert 'FAIL criterion "Names a price."' in project.run("show", "--verbose")


@spec("P38")
@pytest.mark.parametrize("weight", [0, 1, 9])
def test_a_light_criterion_has_to_be_met_too(project: Project, weight: float) -> None:
    light = {"id": "a", "criterion": "A.", "weight": weight}
    assert not run(project, rubric(light, "B."), marks(**{"a": False, "2": True}))["passed"]
    assert run(project, rubric(light, "B."), marks(**{"a": True, "2": True}))["passed"]


@spec("P38")
def test_a_threshold_overrides(project: Project) -> None:
    answer = marks(**{"1": True, "2": False})
    assert run(project, rubric("A.", "B.", threshold=0.5), answer)["passed"]
    assert not run(project, rubric("A.", "B.", threshold=0.6), answer)["passed"]


@spec("P38")
def test_weights_without_a_finite_sum_have_a_mean(project: Project) -> None:
    heavy = [{"id": name, "criterion": name, "weight": 1e308} for name in "ab"]
    result = run(project, rubric(*heavy, threshold=0.5), marks(a=True, b=False))
    assert (result["passed"], result["score"]) == (True, 0.5)


@spec("P38")
@pytest.mark.parametrize(("score", "passed"), [(8, True), (7, False), (7.9, False), (10, True)])
def test_with_score_ranges_the_mean_has_to_reach_four_fifths(project: Project, score: float, passed: bool) -> None:
    result = run(project, rubric({"id": "a", "criterion": "A.", **RANGES}), marks(a=score))
    assert result["passed"] is passed
    assert result["turns"][0]["checks"][0]["threshold"] == 0.8


@spec("P38")
def test_with_ranges_beside_plain_criteria_the_mean_decides(project: Project) -> None:
    ranged = {"id": "a", "criterion": "A.", "weight": 9, **RANGES}
    assert run(project, rubric(ranged, "B."), marks(**{"a": 10, "2": False}))["passed"]
    assert not run(project, rubric(ranged, {"criterion": "B.", "required": True}), marks(**{"a": 10, "2": False}))[
        "passed"
    ]


@spec("P38")
@pytest.mark.parametrize("combine", ["mean", "majority"])
def test_with_several_votes_a_criterion_is_met_when_most_say_so(project: Project, combine: str) -> None:
    criteria = [{"id": "a", "criterion": "A."}, {"id": "b", "criterion": "B."}]
    case = {"checks": [{"rubric": {"criteria": criteria, "votes": 3, "combine": combine}}]}
    votes = [marks(a=True, b=True), marks(a=True, b=False), marks(a=False, b=True)]
    result = run(project, case, *votes)
    [check] = result["turns"][0]["checks"]
    assert (result["passed"], check["score"], check["threshold"]) == (True, 1, 1)
    assert not run(project, case, votes[1], votes[1], votes[0])["passed"]


# AgentV's names


@spec("P38")
def test_the_rubrics_of_a_case_are_a_rubric(project: Project) -> None:
    case = {"expected_outcome": "o", "rubrics": ["Is polite.", {"id": "p", "expected_outcome": "Names a price."}]}
    result = run(project, case, marks(**{"1": True, "p": False}))
    [check] = result["turns"][0]["checks"]
    assert check["reason"] == "1 of 2 met; not met: Names a price."
    assert run(project, case, marks(**{"1": True, "p": True}))["passed"]


@spec("P38")
def test_rubrics_with_ranges_in_agentvs_words(project: Project) -> None:
    ranges = [{"score_range": [0, 5], "expected_outcome": "wrong"}, {"score_range": [6, 10], "outcome": "right"}]
    case = {"rubrics": [{"id": "facts", "weight": 2.0, "required_min_score": 9, "score_ranges": ranges}]}
    assert not run(project, case, marks(facts=8))["passed"]
    assert run(project, case, marks(facts=9))["passed"]


@spec("P38")
@pytest.mark.parametrize("kind", ["rubric", "rubrics", "llm_judge"])
def test_an_evaluator_may_hold_rubrics(project: Project, kind: str) -> None:
    evaluator = {"name": "parts", "type": kind, "rubrics": ["A.", "B."]}
    case = {"outcome": "o", "execution": {"evaluators": [evaluator]}}
    result = run(project, case, marks(**{"1": True, "2": False}))
    [check] = result["turns"][0]["checks"]
    assert (result["status"], check["name"], len(check["children"])) == ("failed", "parts", 2)


@spec("P38")
def test_an_evaluator_of_type_rubric_needs_its_criteria(project: Project) -> None:
    case = {"outcome": "o", "evaluators": [{"name": "parts", "type": "rubric"}]}
    [error] = project.errors(suite_of(case))
    assert (error["code"], error["path"]) == ("missing-field", "evals[0].evaluators[0].rubrics")


@pytest.mark.slow
@spec("P38")
def test_a_code_judge_is_a_script(project: Project) -> None:
    script = ["python3", "-c", "print('{\"score\": 1}')"]
    case = {"outcome": "o", "evaluators": [{"name": "script", "type": "code_judge", "script": script}]}
    result = run(project, case)
    assert (result["status"], result["turns"][0]["checks"][0]["name"]) == ("passed", "script")
    [error] = project.errors(suite_of({"outcome": "o", "evaluators": [{"name": "x", "type": "code_judge"}]}))
    assert (error["code"], error["path"]) == ("missing-field", "evals[0].evaluators[0].script")


@spec("P38")
def test_a_case_may_name_its_evaluator(project: Project) -> None:
    case = {"outcome": "o", "evaluator": "llm_judge"}
    assert codes(project.errors(suite_of(case, True))) == []
    result = run(project, case, True)
    assert (result["status"], len(result["turns"][0]["checks"])) == ("passed", 1)


@spec("P38", "P20")
def test_two_names_for_one_thing_are_refused(project: Project) -> None:
    twice = {"criterion": "A.", "expected_outcome": "B."}
    cases = (
        {"rubrics": [twice]},
        {"evaluators": [{"type": "rubric", "rubrics": [twice]}]},
        {"execution": {"evaluators": [{"type": "rubric", "rubrics": [twice]}]}},
    )
    for case in cases:
        assert codes(project.errors(suite_of(case))) == ["conflicting-keys"]


@spec("P38")
def test_rows_of_a_data_set_may_have_rubrics(project: Project) -> None:
    row = {"prompt": "q", "rubrics": ["A.", {"outcome": "B.", "criterion": "B."}]}
    project.write("rows.jsonl", json.dumps(row) + "\n")
    project.write("evals.yaml", {"target": "scripted/x", "cases": "rows.jsonl"})
    [file] = [one for one in project.validate("evals.yaml")["files"] if one["path"] == "rows.jsonl"]
    assert codes(file["errors"]) == ["conflicting-keys"]
