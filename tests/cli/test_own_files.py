"""`--out` writes over nothing that results come from, and nothing of a damaged run."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import rejoinder
from rejoinder.errors import UsageError
from tests.kit import Project, case, file_contents, only_run, refused, run, run_folders, scripted

SUITE = {
    "targets": [scripted("bot", "yes")],
    "target": "bot",
    "evals": [case("good", {"equals": "yes"}), case("bad", {"equals": "no"})],
}
OF_THE_RUN = ("results.jsonl", "summary.json", "new.xml")


def contents(project: Project) -> dict[str, bytes]:
    return {name: data for name, data in file_contents(project.folder).items() if not name.endswith("lock")}


@pytest.mark.parametrize("name", OF_THE_RUN)
@pytest.mark.parametrize("command", ["show", "export", "replay", "resume", "merge", "run"])
def test_a_file_of_a_run_is_not_written_over(project: Project, command: str, name: str) -> None:
    run(project, SUITE)
    before = contents(project)
    named = [only_run(project.folder).name] if command in ("merge", "resume") else []
    error = refused(project, command, *named, "--out", str(only_run(project.folder).relative_to(Path.cwd()) / name))
    assert f"is in the folder of run {only_run(project.folder).name}" in error.message
    assert error.exit_code == 2
    assert contents(project) == before


@pytest.mark.parametrize("name", ["config.yaml", "baselines/main.json", "report.xml"])
def test_a_file_of_the_store_is_not_written_over(project: Project, name: str) -> None:
    run(project, SUITE)
    project.run("bless")
    before = contents(project)
    for command in ("run", "show"):
        assert "keeps its own files" in refused(project, command, "--out", f".rejoinder/{name}").message
    assert contents(project) == before


@pytest.mark.parametrize("command", ["show", "export", "replay", "resume", "run"])
def test_a_suite_is_not_written_over(project: Project, command: str) -> None:
    run(project, SUITE)
    before = contents(project)
    (project.folder / "link.yaml").symlink_to("evals.yaml")
    os.link(project.folder / "evals.yaml", project.folder / "twin.yaml")
    named = ["last"] if command == "resume" else []
    for name in ("evals.yaml", "link.yaml", "twin.yaml"):
        assert "is what the results come from" in refused(project, command, *named, "--out", name).message
    for name in ("link.yaml", "twin.yaml"):
        (project.folder / name).unlink()
    assert contents(project) == before


def test_a_data_set_of_a_suite_is_not_written_over(project: Project) -> None:
    project.write("data.jsonl", '{"id": "a", "prompt": "Hi", "checks": [{"equals": "yes"}]}\n')
    project.write("targets.yaml", {"targets": [scripted("bot", "yes")]})
    project.write("evals.yaml", {"target": "bot", "cases": "data.jsonl"})
    before = contents(project)
    for name in ("data.jsonl", "targets.yaml"):
        words = ("run", "--targets", "targets.yaml", "--out", name)
        assert "is what the results come from" in refused(project, *words).message
    assert contents(project) == before


def test_a_run_folder_elsewhere_is_not_written_over(project: Project) -> None:
    run(project, SUITE)
    only_run(project.folder).rename(project.folder / "copy")
    before = contents(project)
    assert "is in the folder of run copy" in refused(project, "show", "copy", "--out", "copy/results.jsonl").message
    with pytest.raises(UsageError, match="is in the folder of run copy"):
        rejoinder.export("copy", None, "copy/summary.json")
    assert contents(project) == before


def test_a_hard_link_to_results_is_not_written_over(project: Project) -> None:
    run(project, SUITE)
    results = only_run(project.folder) / "results.jsonl"
    os.link(results, project.folder / "out.jsonl")
    before = results.read_bytes()
    assert "is what the results come from" in refused(project, "export", "--out", "out.jsonl").message
    assert results.read_bytes() == before


def test_a_refused_run_leaves_no_empty_file(project: Project) -> None:
    project.write("evals.yaml", SUITE)
    refused(project, "run", "--case", "nothing", "--out", "a.xml")
    assert not (project.folder / "a.xml").exists()
    assert run_folders(project.folder) == []


@pytest.mark.parametrize("arguments", [("--out", "j.xml"), ("--format", "csv"), ("--format", "json")])
def test_nothing_is_written_of_a_damaged_run(project: Project, arguments: tuple[str, str]) -> None:
    run(project, SUITE)
    (only_run(project.folder) / "results.jsonl").write_bytes(b"")
    result = project.invoke("show", *arguments)
    assert result.stdout == ""
    assert getattr(result.exception, "exit_code", None) == 3
    assert not (project.folder / "j.xml").exists()
    assert "disagree" in project.invoke("show").stderr
