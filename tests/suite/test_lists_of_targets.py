"""A suite that names several targets: every case runs on each of them."""

from __future__ import annotations

from typing import Any

import pytest

from tests.kit import Project, codes, refusal, spec

TARGETS = [
    {"name": "a", "provider": "scripted", "replies": ["Lima"], "system_prompt": "Be brief."},
    {"name": "b", "provider": "scripted", "replies": ["Quito"]},
    {"name": "c", "provider": "scripted", "replies": ["Lima"]},
]
CASES = [
    {"id": "peru", "prompt": "Capital of Peru?", "checks": [{"contains": "Lima"}]},
    {"id": "other", "prompt": "Another?", "checks": [{"match": "*"}]},
]
PLACES: list[dict[str, Any]] = [
    {"target": ["a", "b"]},
    {"metadata": {"model": ["a", "b"]}},
    {"execution": {"target": ["a", "b"]}},
    {"target": ["{{ var('first') }}", "b", "a"], "vars": {"first": "a"}},
]


def asked(report: dict[str, Any]) -> list[tuple[str, str]]:
    return sorted((result["id"], result["target"]) for result in report["results"])


BOTH = sorted((case["id"], target) for case in CASES for target in ("a", "b"))


@spec("P28")
@pytest.mark.parametrize("place", PLACES)
def test_every_case_runs_on_every_target_of_a_list(project: Project, place: dict[str, Any]) -> None:
    project.write("evals.yaml", {**place, "targets": TARGETS, "evals": CASES})
    assert project.validate("evals.yaml")["files"][0]["errors"] == []
    assert asked(project.run_json("run", code=1)) == BOTH


def test_the_command_wins_over_the_list(project: Project) -> None:
    project.write("evals.yaml", {**PLACES[0], "targets": TARGETS, "evals": CASES})
    assert {target for _, target in asked(project.run_json("run", "-m", "c"))} == {"c"}


def test_a_case_wins_over_the_list(project: Project) -> None:
    own = [{**CASES[0], "execution": {"target": ["c", "a"]}}, {**CASES[1], "execution": {"target": "b"}}]
    project.write("evals.yaml", {**PLACES[0], "targets": TARGETS, "evals": own})
    assert asked(project.run_json("run")) == [("other", "b"), ("peru", "a"), ("peru", "c")]


def test_prompt_shows_what_each_target_receives_if_they_differ(project: Project) -> None:
    project.write("evals.yaml", {**PLACES[0], "targets": TARGETS, "evals": CASES[:1]})
    shown = project.run_json("prompt")
    assert [(one["target"], one["messages"][0]["role"]) for one in shown] == [("a", "system"), ("b", "user")]
    project.write("evals.yaml", {"target": ["b", "c"], "targets": TARGETS, "evals": CASES[:1]})
    [once] = project.run_json("prompt")
    assert "target" not in once


def test_the_estimate_counts_every_target(project: Project) -> None:
    project.write("evals.yaml", {**PLACES[0], "targets": TARGETS, "evals": CASES})
    assert project.run_json("run", "--dry-run")["conversations"] == 4


@pytest.mark.parametrize(
    ("value", "code", "path"),
    [
        (["a", "nowhere"], "unknown-target", "target[1]"),
        ([], "out-of-range", "target"),
        (["a", 5], "wrong-type", "target[1]"),
        ([""], "out-of-range", "target[0]"),
    ],
)
def test_a_wrong_name_in_a_list_is_found_at_its_place(project: Project, value: list[Any], code: str, path: str) -> None:
    [error] = project.errors({"target": value, "targets": TARGETS, "evals": CASES})
    assert (error["code"], error["path"]) == (code, path)


@pytest.mark.parametrize("key", ["execution", "metadata", None])
def test_the_fix_for_targets_in_the_wrong_place_is_valid(project: Project, key: str | None) -> None:
    names = {"execution": "targets: [a, b]", "metadata": "models: [a, b]", None: "models: [a, b]"}[key]
    head = f"{key}:\n  {names}\n" if key else f"{names}\n"
    rest = (
        "targets:\n"
        + "".join(f"  - {{name: {n}, provider: scripted, replies: [Lima]}}\n" for n in "ab")
        + "evals:\n  - prompt: q\n    checks: [{contains: Lima}]\n"
    )
    [error] = project.errors(head + rest)
    assert codes([error]) == ["unknown-key"]
    if error.get("suggestion"):
        lines = (head + rest).splitlines()
        lines[error["line"] - 1] = error["suggestion"]
        assert project.errors("\n".join(lines)) == []
        assert len(project.run_json("run", "evals.yaml")["results"]) == 2
    else:
        assert "`target: [a, b]`" in error["message"] or "`metadata: {model: [a, b]}`" in error["message"]


def test_resume_replay_and_grade_keep_the_list(project: Project) -> None:
    project.write("evals.yaml", {**PLACES[0], "targets": TARGETS, "evals": CASES})
    project.run("run", code=1)
    for command in ("resume", "replay", "grade"):
        assert asked(project.run_json(command, "last", code=None)) == BOTH


def test_what_failed_is_run_again_on_its_own_target(project: Project) -> None:
    project.write("evals.yaml", {**PLACES[0], "targets": TARGETS, "evals": CASES})
    project.run("run", code=1)
    assert asked(project.run_json("run", "--failed", code=1)) == [("peru", "b")]


def test_a_fork_of_a_run_on_a_list_asks_which_target(project: Project) -> None:
    project.write("evals.yaml", {**PLACES[0], "targets": TARGETS, "evals": CASES})
    project.run("run", code=1)
    words = refusal(project, "fork", "last", "--case", "peru", "--turn", "1", "--prompt", "Peru?")
    assert "--of: a, b" in words


def test_the_hint_for_a_missing_target_leaves_out_judges(project: Project) -> None:
    judged = [{**CASES[0], "checks": [{"llm_judge": {"criteria": "Right?", "target": "c"}}]}]
    project.write("evals.yaml", {"targets": TARGETS, "evals": judged})
    words = refusal(project, "run")
    assert "`-m a,b`" in words
    assert "`target: [a, b]`" in words


@pytest.mark.parametrize("judges", [{"judge_target": "c"}, {}])
def test_all_means_the_targets_of_the_suite_but_its_judges(project: Project, judges: dict[str, Any]) -> None:
    project.write(".rejoinder/targets.yaml", {"targets": [{**TARGETS[0], "name": "d"}]})
    project.write("evals.yaml", {**judges, "targets": TARGETS, "evals": CASES[:1]})
    report = project.run_json("run", "-m", "all", code=1)
    assert [target for _, target in asked(report)] == (["a", "b"] if judges else ["a", "b", "c"])


def test_all_means_the_targets_of_the_project_where_the_suite_has_none(project: Project) -> None:
    project.write(".rejoinder/targets.yaml", {"targets": TARGETS})
    project.write("evals.yaml", {"evals": CASES[:1]})
    assert [target for _, target in asked(project.run_json("run", "-m", "all", code=1))] == ["a", "b", "c"]


def test_a_pattern_with_a_slash_means_models(project: Project) -> None:
    project.write("evals.yaml", {"targets": TARGETS, "evals": CASES[:1]})
    assert "models" in refusal(project, "run", "-m", "*/*")
    assert "models" in refusal(project, "run", "-m", "all", "--price", "1")
