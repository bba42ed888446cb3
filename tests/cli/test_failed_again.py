"""`run --failed` and `--failed-from`: the failed pairs of case and target again; `--case` with lists and patterns."""

from __future__ import annotations

import json
from typing import Any

import pytest

from rejoinder.engine.failed_again import latest_run
from tests.kit import Project, refusal, scripted

NAMES = ("refund-1", "refund-2", "hours")


@pytest.fixture
def shop(project: Project) -> Project:
    """small fails both refunds, big fails hours alone."""
    small = {"refund-1": ["no"], "refund-2": ["no"], "hours": ["yes"]}
    big = {"refund-1": ["yes"], "refund-2": ["yes"], "hours": ["no"]}
    targets = [
        {"name": name, "provider": "scripted", "replies": said} for name, said in (("small", small), ("big", big))
    ]
    cases = [{"id": name, "prompt": "q", "tags": [name[:3]], "checks": [{"contains": "yes"}]} for name in NAMES]
    project.write("suites/shop.yaml", {"target": "small", "targets": targets, "evals": cases})
    return project


def pairs(document: dict[str, Any]) -> list[str]:
    return [f"{result['id']}/{result['target']}" for result in document["results"]]


@pytest.mark.parametrize("option", [("--failed",), ("--failed-from", "last")])
def test_each_case_is_put_to_the_target_that_failed_it(shop: Project, option: tuple[str, ...]) -> None:
    first = shop.run_json("run", "suites/shop.yaml", "-m", "small,big", code=1)
    again = shop.invoke("run", *option, "--format", "json")
    assert f"again what did not pass in run {first['run']['id']}: 2 on small, 1 on big\n" in again.stderr
    shown = shop.run_json("show")
    assert pairs(shown) == ["refund-1/small", "refund-2/small", "hours/big"]
    assert shown["run"]["options"]["failed_from"] == first["run"]["id"]
    assert pairs(shop.run_json("resume", "last", code=1)) == pairs(shown)


def test_targets_of_the_command_take_the_place_of_the_runs(shop: Project) -> None:
    shop.run("run", "suites/shop.yaml", "-m", "small", code=1)
    assert pairs(shop.run_json("run", "--failed", "-m", "big")) == ["refund-1/big", "refund-2/big"]


def test_a_choice_of_cases_narrows_it(shop: Project) -> None:
    first = shop.run_json("run", "suites/shop.yaml", "-m", "small,big", code=1)["run"]["id"]
    again = shop.run_json("run", "--failed-from", first, "--case", "h*", code=1)
    assert pairs(again) == ["hours/big"]


def test_one_run_is_named_and_no_more(shop: Project) -> None:
    assert "give one of them" in refusal(shop, "run", "--failed", "--failed-from", "last")
    assert "there are no runs" in refusal(shop, "run", "--failed")


def failures_of(project: Project, *arguments: str) -> tuple[str, str]:
    """The run whose failures were run again, and what was said."""
    result = project.invoke("run", *arguments, "--failed", "--format", "json")
    assert result.exit_code == 1, (result.stderr, result.exception)
    return json.loads(result.stdout)["run"]["options"]["failed_from"], result.stderr


def test_the_latest_run_of_the_named_suites_is_meant(shop: Project) -> None:
    first = shop.run_json("run", "suites/shop.yaml", code=1)["run"]["id"]
    one = {"id": "other", "prompt": "q", "checks": [{"contains": "yes"}]}
    shop.write("suites/other.yaml", {"targets": [scripted("s", "no")], "evals": [one]})
    other = shop.run_json("run", "suites/other.yaml", code=1)["run"]["id"]
    assert "there are no runs of suites in " in refusal(shop, "run", "suites", "--failed")
    used, said = failures_of(shop, "suites/shop.yaml")
    assert used == first and f"again what did not pass in run {first}: 2 on small\n" in said
    assert failures_of(shop, "suites/other.yaml")[0] == other


def test_a_run_that_cannot_be_used_is_passed_over(shop: Project) -> None:
    first = shop.run_json("run", "suites/shop.yaml", code=1)["run"]["id"]
    shop.run("fork", "last", "--case", "refund-1", "--turn", "1", "--prompt", "Please!", code=None)
    assert failures_of(shop)[0] == first, "a fork says something else"
    damaged = shop.folder / ".rejoinder/runs" / shop.run_json("run", "suites/shop.yaml", code=1)["run"]["id"]
    results = (damaged / "results.jsonl").read_bytes()
    (damaged / "results.jsonl").write_bytes(results.replace(b'"failed"', b'"passed"'))
    used, said = failures_of(shop)
    assert used != damaged.name and f"run {damaged.name} is damaged, and is passed over\n" in said
    lines: list[str] = []
    shop.run("run", "suites/shop.yaml", "--case", "hours")
    found = latest_run((shop.folder / "suites/shop.yaml",), lines.append, trust=False)
    assert found.folder.id not in (first, damaged.name) and not lines, "a newer run needs no others"


def test_what_passed_everywhere_is_not_run(shop: Project) -> None:
    shop.run("run", "suites/shop.yaml", "--case", "hours")
    result = shop.invoke("run", "--failed")
    assert result.exit_code == 0 and "there is nothing to run" in result.stderr


def test_the_same_case_of_another_suite_is_not_meant(project: Project) -> None:
    for name, reply in (("a", "yes"), ("b", "no")):
        case = {"id": "same", "prompt": "q", "checks": [{"contains": "yes"}]}
        content = {"metadata": {"name": name}, "targets": [scripted("s", reply)], "evals": [case]}
        project.write(f"suites/{name}.yaml", content)
    project.run("run", "suites", code=1)
    assert [result["suite"] for result in project.run_json("run", "--failed", code=1)["results"]] == ["b"]


@pytest.mark.slow
def test_suites_of_one_name_with_the_same_cases_stay_two(project: Project) -> None:
    """In the summary, at the end of a run, in a comparison, in a gate and in what is run again."""
    project.write("rows.csv", "id\nsame\n")
    for name, reply in (("a", "yes"), ("b", "no")):
        defaults = {"prompt": f"{name} {{{{ id }}}}", "checks": [{"contains": "yes"}]}
        content = {"metadata": {"name": "shop"}, "targets": [scripted("s", reply)], "defaults": defaults}
        project.write(f"suites/{name}.yaml", {**content, "cases": "../rows.csv"})
    first = project.run_json("run", "suites", code=1)
    assert first["summary"]["by_case"] == {"passed": 1, "failed": 1, "errors": 0, "flaky": 0}
    assert "1 failed, 1 passed of 2" in project.run("show", code=None)
    project.run("bless")
    again = project.run_json("run", "--failed", code=1)
    assert [result["suite_file"] for result in again["results"]] == ["suites/b.yaml"]
    project.run("run", "suites", code=1)
    assert project.run_json("compare", first["run"]["id"], "last", code=None)["matched"] == 2
    reason = project.run_json("gate", "--against", "main", "--rule", "no-regression", code=None)["rules"][0]["reason"]
    assert "like these" in reason and "new" not in reason and "not in this run" not in reason


@pytest.mark.parametrize(
    ("arguments", "wanted"),
    [
        (["--case", "refund*"], NAMES[:2]),
        (["--case", "hours,refund-1"], ("refund-1", "hours")),
        (["--case", "*-?", "--case", "hours"], NAMES),
        (["--tag", "hou,nix*,ref"], None),
        (["--tag", "hou,ref"], NAMES),
    ],
)
def test_lists_and_patterns(shop: Project, arguments: list[str], wanted: tuple[str, ...] | None) -> None:
    if wanted is None:
        assert "there is no tag `nix*`" in refusal(shop, "run", "suites/shop.yaml", *arguments)
        return
    document = shop.run_json("run", "suites/shop.yaml", *arguments, code=None)
    assert tuple(result["id"] for result in document["results"]) == wanted
    if arguments[0] == "--case":
        assert tuple(one["id"] for one in shop.run_json("prompt", "suites/shop.yaml", *arguments)) == wanted


@pytest.mark.parametrize("command", ["run", "prompt"])
@pytest.mark.parametrize("word", ["refnd*", "hours,refnd-1"])
def test_a_pattern_that_nothing_matches_is_refused(shop: Project, command: str, word: str) -> None:
    words = refusal(shop, command, "suites/shop.yaml", "--case", word)
    assert f"there is no case `{word.removeprefix('hours,')}`" in words and "did you mean `refund-" in words


def test_some_cases_are_graded(shop: Project) -> None:
    shop.run("run", "suites/shop.yaml", code=1)
    document = shop.run_json("grade", "--case", "refund*", code=1)
    assert [result["id"] for result in document["results"]] == ["refund-1", "refund-2"]
    assert document["changes"] == []
    assert "has no case `refnd*`" in refusal(shop, "grade", "--case", "refnd*")
