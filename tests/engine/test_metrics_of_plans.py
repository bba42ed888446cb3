"""Metrics in plans: the mean over all planned turns that carry them, by the first reply of each."""

from __future__ import annotations

from typing import Any

import pytest

from tests.kit import Project, Raw, run, scripted

NAMES = "holds"


def planned(case_id: str, *checks: Raw, **more: Any) -> Raw:
    turns = [{"prompt": f"Turn {number}", "checks": [check]} for number, check in enumerate(checks, 1)]
    return {"id": case_id, "turns": turns, "on_turn_failure": "continue", **more}


def judged(**more: Any) -> Raw:
    return {"llm_judge": {"criteria": "Does it hold?"}, "metric": NAMES, "threshold": 0, **more}


def metric_of(project: Project, *cases: Raw, replies: Any = ("yes",) * 9, scores: tuple[float, ...] = ()) -> Raw:
    judge = {"name": "judge", "provider": "scripted", "judge": list(scores) or [1]}
    content = {"targets": [scripted("it", *replies), judge], "target": "it", "judge_target": "judge"}
    return run(project, content | {"evals": list(cases)})["summary"]["metrics"][NAMES]


def test_the_metric_of_a_plan_is_the_mean_over_its_turns(project: Project) -> None:
    metric = metric_of(project, planned("one", judged(), judged(), judged()), scores=(1, 0.5, 0))
    assert (metric["mean"], metric["replies"], metric["total_replies"], metric["cases"]) == (0.5, 3, 3, 1)


def test_a_model_that_caves_does_not_hold(project: Project) -> None:
    """Five turns of one metric, in which the model holds, holds, caves, holds and caves."""
    holds = {"contains": "yes", "metric": NAMES}
    cases = [planned(f"case-{number}", *[holds] * 5) for number in range(20)]
    metric = metric_of(project, *cases, replies=("yes", "yes", "no", "yes", "no"))
    assert (metric["mean"], metric["replies"], metric["cases"]) == (pytest.approx(0.6), 100, 20)


def test_of_each_planned_turn_the_first_reply_counts(project: Project) -> None:
    again = {"prompt": "Sure?", "checks": [{"contains": "yes", "metric": NAMES}]}
    first = {"contains": "yes", "metric": NAMES, **again}
    metric = metric_of(project, planned("one", first, first), replies=("no", "yes", "yes"))
    assert (metric["mean"], metric["replies"]) == (0.5, 2)


def test_turns_without_the_metric_are_left_out(project: Project) -> None:
    holds = {"contains": "yes", "metric": NAMES}
    metric = metric_of(project, planned("one", {"match": "*"}, holds, {"match": "*"}), replies=("no", "yes", "no"))
    assert (metric["mean"], metric["replies"]) == (1.0, 1)


def test_judges_count_every_planned_turn(project: Project) -> None:
    judge = {"name": "judge", "provider": "scripted", "judge": [1, 0, 0]}
    plan = planned("one", *[{"llm_judge": {"criteria": "Does it hold?"}}] * 3)
    content = {"targets": [scripted("it", "a", "b", "c"), judge], "target": "it", "judge_target": "judge"}
    [found] = run(project, content | {"evals": [plan]})["summary"]["judges"]
    assert (found["judged"], found["passed"]) == (3, 1)


def test_a_metric_of_the_whole_conversation_counts(project: Project) -> None:
    whole = [{"always": {"contains": "yes"}, "metric": NAMES}]
    plan = planned("one", {"match": "*"}, {"match": "*"}, conversation_checks=whole)
    assert metric_of(project, plan, replies=("yes", "no"))["mean"] == 0.0


def flips_of(project: Project, *plans: Raw, replies: tuple[str, ...], **more: Any) -> Raw | None:
    content = {"targets": [scripted("it", *replies)], "target": "it", "evals": list(plans), **more}
    return run(project, content)["summary"]["step_flips"]


RIGHT = {"contains": "yes"}


def test_a_plan_has_its_turn_of_flip_and_number_of_flips(project: Project) -> None:
    going_on = planned("on", *[RIGHT] * 4, on_turn_failure="continue")
    found = flips_of(project, going_on, replies=("yes", "yes", "no", "yes"))
    assert found is not None
    assert (found["turn_of_flip"]["mean"], found["number_of_flips"]["mean"]) == (2.0, 2.0)
    stopping = planned("stops", *[RIGHT] * 4, on_turn_failure="stop")
    found = flips_of(project, stopping, replies=("yes", "yes", "no", "yes"))
    assert found is not None
    assert (found["turn_of_flip"]["mean"], found["number_of_flips"]["mean"]) == (2.0, 1.0)
    shown = project.run("show", "last", "-v")
    assert "flips a plan: 1; right steps before the first wrong one: 2" in " ".join(shown.split())


def test_plans_that_hold_or_begin_wrong(project: Project) -> None:
    found = flips_of(project, planned("holds", *[RIGHT] * 3), replies=("yes", "yes", "yes"))
    assert found is not None
    assert (found["turn_of_flip"]["mean"], found["number_of_flips"]["mean"]) == (3.0, 0.0)
    wrong = planned("wrong", *[RIGHT] * 3, on_turn_failure="continue")
    found = flips_of(project, wrong, replies=("no", "yes", "yes"))
    assert found is not None
    assert (found["turn_of_flip"]["cases"], found["number_of_flips"]["mean"]) == (0, 1.0)


def test_steps_without_a_verdict_are_in_no_flip(project: Project) -> None:
    plan = {"id": "free", "turns": [{"prompt": "a"}, {"prompt": "b", "checks": [RIGHT]}]}
    assert flips_of(project, plan, replies=("no", "yes")) is None
    assert flips_of(project, {"id": "one", "prompt": "a", "checks": [RIGHT]}, replies=("yes",)) is None
