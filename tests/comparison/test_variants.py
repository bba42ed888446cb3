"""Variants of a run compared with each other, and matched across runs."""

from __future__ import annotations

from tests.engine.variants import two
from tests.kit import Project, refusal, run


def test_the_variants_of_a_run_are_compared_with_its_first(project: Project) -> None:
    run(project, two())
    found = project.run_json("compare", "--variants", code=None)
    assert (found["runs"]["a"]["variants"], found["runs"]["b"]["variants"]) == (["plain"], ["terse"])
    assert [(flip["id"], flip["variant"]) for flip in found["flips"]] == [("a", "terse")]
    assert found["matched"] == 2
    text = project.run("compare", "--variants", code=None)
    assert "on demo (plain)" in text


def test_a_run_without_variants_has_none_to_compare(project: Project) -> None:
    run(project, two(), "--variant", "plain")
    assert "has no two variants" in refusal(project, "compare", "--variants")
    assert "exclude each other" in refusal(project, "compare", "--variants", "--targets")


def test_variants_match_across_runs_and_are_told_apart(project: Project) -> None:
    run(project, two())
    run(project, two())
    found = project.run_json("compare", code=None)
    assert found["matched"] == 4
    assert {one["name"] for one in found["by_target"]} == {"demo, plain", "demo, terse"}


def test_runs_of_one_variant_each_are_compared_with_each_other(project: Project) -> None:
    run(project, two(), "--variant", "plain")
    run(project, two(), "--variant", "terse")
    found = project.run_json("compare", code=None)
    assert (found["matched"], found["only_in_a"]) == (2, [])
