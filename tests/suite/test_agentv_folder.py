"""A project that AgentV 4 or 5 is used in, too: its `.agentv` folder never blocks a suite that does not use it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.kit import Project, codes

SUITE = {
    "target": "demo",
    "targets": [{"name": "demo", "provider": "scripted", "replies": ["Lima"]}],
    "evals": [{"prompt": "Capital of Peru?", "checks": [{"contains": "Lima"}]}],
}
CONFIG_4 = {
    "$schema": "agentv-config-v2",
    "required_version": ">=4.0.0",
    "eval_patterns": ["**/evals/**/eval.yaml"],
    "execution": {"verbose": False, "trace_file": "traces/{timestamp}.jsonl"},
    "results": {"mode": "github", "repo": "team/results"},
    "dashboard": {"threshold": 0.8},
}
TARGETS_4 = """
targets:
  - name: default
    use_target: ${{ SOME_AGENT_TARGET }}
  - name: grader
    use_target: ${{ SOME_GRADER_TARGET }}
  - name: copilot
    provider: copilot-cli
    model: ${{ SOME_MODEL }}
    grader_target: grader
    stream_log: raw
  - name: pi
    provider: pi-cli
    subprovider: azure
    tools: read,bash,edit,write
    log_format: json
  - name: mirror
    provider: cc-mirror
    variant: ${{ SOME_VARIANT }}
  - name: fake
    provider: mock
    response: Lima
    grader_target: grader
    stream_log: summary
"""
CONFIG_5 = {
    "$schema": "agentv-config-v2",
    "providers": "file://providers.yaml",
    "tests": "file://tests.yaml",
    "defaults": {"provider": "local", "grader": "local-grader"},
    "env_path": ".env.local",
    "hooks": {"before_session": "echo hi"},
    "targets": "file://targets.yaml",
    "refs": {"base": "main"},
}
PROVIDERS_5 = [{"id": "openai", "label": "local", "runtime": "host", "config": {"model": "m"}}]


def agentv_4(project: Project) -> None:
    project.write(".agentv/config.yaml", CONFIG_4)
    project.write(".agentv/targets.yaml", TARGETS_4)


def agentv_5(project: Project) -> None:
    project.write(".agentv/config.yaml", CONFIG_5)
    project.write(".agentv/providers.yaml", PROVIDERS_5)


@pytest.mark.parametrize("write", [agentv_4, agentv_5])
@pytest.mark.parametrize("folder", [".", "evals/de"])
@pytest.mark.parametrize("own", [False, True])
def test_a_suite_of_ours_runs_beside_agentv(
    project: Project, write: Any, folder: str, own: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    project.write(".git/HEAD", "x")
    write(project)
    if own:
        project.write(f"{folder}/.rejoinder/config.yaml", {"vars": {"a": "b"}})
    project.write(f"{folder}/evals.yaml", SUITE)
    result = project.invoke("run", f"{folder}/evals.yaml")
    assert result.exit_code == 0, result.output
    assert "agentv" not in result.output
    monkeypatch.chdir(project.folder / folder)
    assert project.invoke("run").exit_code == 0
    without = {key: value for key, value in SUITE.items() if key != "target"}
    project.write(f"{folder}/evals.yaml", without)
    assert project.invoke("run").exit_code == 0, "the suite's only target answers"


@pytest.mark.parametrize("write", [agentv_4, agentv_5])
def test_validate_warns_of_agentvs_files_and_proposes_no_change(project: Project, write: Any) -> None:
    write(project)
    project.write("evals.yaml", SUITE)
    for file in ("evals.yaml", *map(str, Path(".agentv").glob("[tc]*.yaml"))):
        report = project.validate(file)
        assert not any(file["errors"] for file in report["files"])
        problems = [problem for file in report["files"] for problem in file["warnings"]]
        assert not any(problem.get("suggestion") for problem in problems)
        assert not any("did you mean" in problem["message"] for problem in problems)


def test_validate_has_one_warning_for_all_unused_targets_of_agentv(project: Project) -> None:
    agentv_4(project)
    project.write("evals.yaml", SUITE)
    [foreign] = [file for file in project.validate("evals.yaml")["files"] if file["path"].startswith(".agentv")]
    [warning] = foreign["warnings"]
    assert warning["code"] == "unusable-target"
    assert "`default`, `grader`" in warning["message"]
    assert "`fake`" not in warning["message"]


@pytest.mark.parametrize(
    ("name", "code"),
    [("pi", "unknown-key"), ("default", "missing-environment")],
)
def test_a_target_of_agentv_that_the_run_uses_says_what_is_wrong(project: Project, name: str, code: str) -> None:
    agentv_4(project)
    project.write("evals.yaml", SUITE)
    result = project.invoke("run", "evals.yaml", "-m", name)
    assert result.exit_code == 2
    assert f"error[{code}] .agentv/targets.yaml" in result.output
    assert "fix |" not in result.output
    project.write("evals.yaml", {**SUITE, "target": name})
    report = project.validate("evals.yaml")
    errors = [problem for file in report["files"] for problem in file["errors"]]
    assert code in codes(errors)


def test_the_second_model_of_a_command_is_used_too(project: Project) -> None:
    agentv_4(project)
    project.write("evals.yaml", SUITE)
    result = project.invoke("run", "evals.yaml", "-m", "demo,pi")
    assert result.exit_code == 2
    assert "subprovider" in result.output


def test_a_target_of_agentv_answers_without_its_keys_for_logs_and_an_unused_grader(project: Project) -> None:
    agentv_4(project)
    project.write("evals.yaml", SUITE)
    report = project.run_json("run", "evals.yaml", "-m", "fake")
    assert report["results"][0]["passed"] is True


def test_a_grader_of_agentv_that_a_check_asks_has_to_be_there(project: Project) -> None:
    agentv_4(project)
    judged = [{"prompt": "q", "checks": [{"llm_judge": {"criteria": "It is right."}}]}]
    project.write("evals.yaml", {**SUITE, "evals": judged})
    result = project.invoke("run", "evals.yaml", "-m", "fake")
    assert result.exit_code == 2
    assert "SOME_GRADER_TARGET" in result.output


def test_use_target_stands_for_another_target(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    agentv_4(project)
    monkeypatch.setenv("SOME_AGENT_TARGET", "fake")
    project.write("evals.yaml", {"evals": SUITE["evals"]})
    report = project.run_json("run", "evals.yaml")
    assert (report["results"][0]["target"], report["results"][0]["passed"]) == ("default", True)


@pytest.mark.parametrize("value", ["default", "other"])
def test_use_target_in_a_circle_or_to_nothing_is_said(
    project: Project, monkeypatch: pytest.MonkeyPatch, value: str
) -> None:
    agentv_4(project)
    monkeypatch.setenv("SOME_AGENT_TARGET", value)
    project.write("evals.yaml", {"evals": SUITE["evals"]})
    result = project.invoke("run", "evals.yaml", "-m", "default")
    assert result.exit_code == 2
    assert f"there is no target `{value}`" in result.output


@pytest.mark.parametrize("text", ["targets: [", "- 1\n", "targets: {a: 1}\n", "just text\n", "targets: [1, null]\n"])
@pytest.mark.parametrize("name", ["targets", "config"])
def test_a_broken_file_of_agentv_blocks_nothing(project: Project, text: str, name: str) -> None:
    project.write(f".agentv/{name}.yaml", text)
    project.write("evals.yaml", SUITE)
    result = project.invoke("run", "evals.yaml")
    assert result.exit_code == 0, result.output


def test_a_setting_of_agentvs_configuration_that_is_used_is_checked(project: Project) -> None:
    project.write(".agentv/config.yaml", {"guideline_patterns": 5})
    project.write("evals.yaml", SUITE)
    assert project.invoke("run", "evals.yaml").exit_code == 2


UNUSED = [
    {"name": "broken", "provider": "openai", "temprature": 1},
    {"name": "broken", "provider": "http"},
    {"name": "broken"},
    {"name": "broken", "provider": "scripted", "replies": 5},
    {"name": "broken", "provider": "openai", "model": "m", "system_prompt": {"file": "nowhere.md"}},
]


@pytest.mark.parametrize("entry", UNUSED)
@pytest.mark.parametrize("place", [".rejoinder/targets.yaml", ".rejoinder/config.yaml", "more.yaml", "evals.yaml"])
def test_an_unused_target_never_fails_a_suite(project: Project, entry: dict[str, Any], place: str) -> None:
    more = ["--targets", place] if place == "more.yaml" else []
    suite = SUITE
    if place == "evals.yaml":
        suite = {**SUITE, "targets": [*SUITE["targets"], entry]}
    else:
        project.write(place, {"targets": [entry]})
    project.write("evals.yaml", suite)
    result = project.invoke("run", "evals.yaml", *more)
    assert result.exit_code == 0, result.output
    assert "warning[" in result.output
    used = project.invoke("run", "evals.yaml", *more, "-m", "broken")
    assert used.exit_code == 2
    assert "error[" in used.output


def test_the_warning_about_an_unused_target_of_ours_has_the_right_line(project: Project) -> None:
    text = "targets:\n  - name: broken\n    provider: openai\n    model: m\n    temprature: 1\n"
    project.write(".rejoinder/targets.yaml", text)
    project.write("evals.yaml", SUITE)
    [file] = [one for one in project.validate("evals.yaml")["files"] if one["path"] != "evals.yaml"]
    assert [one["suggestion"] for one in file["warnings"]] == ["    temperature: 1"]


def test_a_nearer_definition_replaces_a_faulty_one(project: Project) -> None:
    project.write(".git/HEAD", "x")
    project.write(".rejoinder/targets.yaml", {"targets": [{"name": "t", "provider": "http"}]})
    project.write("sub/.rejoinder/targets.yaml", {"targets": SUITE["targets"]})
    suite = {**SUITE, "target": "t", "targets": [{"name": "t", "provider": "scripted", "replies": ["Lima"]}]}
    project.write("sub/evals.yaml", suite)
    result = project.invoke("run", str(Path("sub/evals.yaml")))
    assert result.exit_code == 0
    assert "missing-field" not in result.output


def test_targets_lists_the_others_where_one_is_faulty(project: Project) -> None:
    agentv_4(project)
    project.write(".rejoinder/targets.yaml", {"targets": [UNUSED[1], *SUITE["targets"]]})
    result = project.invoke("targets")
    assert result.exit_code == 0
    assert "demo" in result.stdout
    assert "needs `url`" in result.output
