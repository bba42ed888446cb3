"""`rejoinder ci` and what commands print on build servers. tests/docs tests docs/guides/ci.md and the action."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.kit import Project, Raw, case, only_run, refusal, refused, run, scripted
from tests.report.exports import HOSTILE

SUITE: Raw = {
    "targets": [scripted("bot", "yes")],
    "target": "bot",
    "evals": [case("good", {"equals": "yes"}), case("bad", {"equals": "no"})],
}
VARIABLES = ("GITHUB_ACTIONS", "GITHUB_STEP_SUMMARY", "GITHUB_OUTPUT", "GITHUB_WORKSPACE")


@pytest.fixture(autouse=True)
def no_server(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)


def test_without_a_server_it_writes_what_is_asked_for(project: Project) -> None:
    run(project, SUITE)
    nothing = project.invoke("ci")
    assert (nothing.exit_code, nothing.stdout) == (0, "")
    assert nothing.stderr.startswith("no build server is known here") and len(nothing.stderr.splitlines()) == 1
    assert project.invoke("ci", "--comment", "comment.md", "--name", "nightly").output == ""
    text = (project.folder / "comment.md").read_text(encoding="utf-8")
    assert text.startswith("<!-- rejoinder-report:nightly -->\n## rejoinder: 1 of 2 passed")


def test_on_github_it_writes_summary_outputs_and_annotations(
    project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(project, SUITE)
    for name in VARIABLES:
        monkeypatch.setenv(name, str(project.folder / name))
    monkeypatch.setenv("GITHUB_WORKSPACE", str(tmp_path.parent))
    [annotation] = project.run("ci").splitlines()
    assert annotation.startswith(f"::error file={tmp_path.name}/evals.yaml,line=")
    assert "1 of 2 passed" in (project.folder / "GITHUB_STEP_SUMMARY").read_text(encoding="utf-8")
    assert "failed=1\n" in (project.folder / "GITHUB_OUTPUT").read_text(encoding="utf-8")


@pytest.mark.slow
def test_it_says_how_a_run_stands_against_a_baseline_or_a_run(project: Project) -> None:
    before = run(project, {**SUITE, "evals": [*SUITE["evals"], case("gone")]})
    project.run("bless", "last", "--name", "main")
    evals = [case("good", {"equals": "no"}), case("bad", {"equals": "yes"}), case("added")]
    run(project, {**SUITE, "evals": evals})
    line, gate = project.run("ci", "--against", "main", "--comment", "c.md").splitlines()
    assert line == "1 broke, 1 fixed, 0 same, 1 new, 1 missing against main"
    assert gate.startswith("gate: CANNOT TELL (")
    text = (project.folder / "c.md").read_text(encoding="utf-8")
    assert "**Gate cannot tell: " in text and f"we cannot tell; {line.removesuffix(' against main')}" in text
    assert "A case that changed once may be chance" in text
    assert project.run("ci", "--against", before["run"]["id"]).startswith("1 broke, 1 fixed")


def test_what_cannot_be_read_or_written_is_refused(project: Project) -> None:
    run(project, SUITE)
    assert "neither a baseline nor a run `gone`" in refusal(project, "ci", "--against", "gone")
    assert "cannot be written" in refusal(project, "ci", "--comment", "gone/comment.md")


def test_edited_figures_are_refused(project: Project) -> None:
    run(project, SUITE)
    path = only_run(project.folder) / "summary.json"
    path.write_text(path.read_text().replace('"failed": 1', '"failed": 0'))
    assert refused(project, "ci").exit_code == 3


@pytest.mark.parametrize("server", ["GITHUB_ACTIONS", "TF_BUILD", "TEAMCITY_VERSION"])
def test_no_name_of_a_suite_is_a_command_to_a_build_server(
    project: Project, server: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(project, {**SUITE, "metadata": {"name": "##vso[task.setvariable variable=x]y"}})
    assert "##vso[" in project.run("runs")
    project.write("wrong.yaml", {"evals": [{"##vso[task.complete]": 1}]})
    assert "##vso[" in project.invoke("validate", "wrong.yaml").output
    monkeypatch.setenv(server, "1")
    assert "## vso[task.setvariable" in project.run("runs")
    for arguments in (("runs",), ("validate", "wrong.yaml")):
        assert "##vso[" not in project.invoke(*arguments).output


@pytest.mark.parametrize("server", ["GITHUB_ACTIONS", "TF_BUILD", "TEAMCITY_VERSION"])
def test_no_reply_is_a_command_to_a_build_server(
    project: Project, server: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    replies = [reply for reply in HOSTILE if "\ud800" not in reply]
    replies += ["x\n::error::forged", "\t::set-output name=a::b", "##vso[task.complete]", "##teamcity[testFailed]"]
    evals = [case(f"c{place}", {"equals": "-"}) for place in range(len(replies))]
    target = {"name": "bot", "provider": "scripted", "replies": {f"c{n}": [reply] for n, reply in enumerate(replies)}}
    run(project, {"targets": [target], "target": "bot", "evals": evals})
    before = project.run("show", "--verbose")
    assert re.search(r"##\w*\[|^\s*::", before, re.MULTILINE)
    monkeypatch.setenv(server, "1")
    for arguments in (("show", "--verbose"), ("show",), ("run",)):
        result = project.invoke(*arguments)
        assert not re.search(r"##\w*\[|^\s*::", result.output, re.MULTILINE)
