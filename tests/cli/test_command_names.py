"""AgentV's and vibecheck's names of commands and options work; words that are no command name the right one."""

from __future__ import annotations

import json
from typing import Any

import click
import pytest

from rejoinder.cli.run import HELP
from rejoinder.cli.run import command as run_command
from tests.kit import Project, scripted


@pytest.fixture
def suite(project: Project) -> dict[str, Any]:
    content = {
        "targets": [scripted("s", "a")],
        "evals": [{"id": name, "prompt": "q", "checks": [{"contains": "a"}]} for name in ("one", "two")],
    }
    project.write("evals/deep/suite.yaml", content)
    return content


FILE = "evals/deep/suite.yaml"


def results(project: Project, *arguments: str) -> dict[str, Any]:
    return project.run_json(*arguments)


@pytest.mark.usefixtures("suite")
def test_agentvs_command(project: Project) -> None:
    report = results(project, "eval", FILE, "--eval-id", "two", "--agent-timeout", "7", "--target", "s")
    assert [one["id"] for one in report["results"]] == ["two"]
    assert report["run"]["options"]["timeout_s"] == 7


@pytest.mark.usefixtures("suite")
def test_vibechecks_options(project: Project) -> None:
    report = results(project, "run", "-f", FILE, "-s", "Be brief.", "-t", "3", "-m", "s")
    assert report["run"]["options"]["workers"] == 3
    assert report["run"]["options"]["system_prompt"] == "Be brief."
    assert report["summary"]["total"] == 2
    assert results(project, "run", "--file", FILE, "--threads", "2")["run"]["options"]["workers"] == 2


@pytest.mark.usefixtures("suite")
def test_agentvs_output_format_is_that_of_the_file(project: Project) -> None:
    shown = project.run("eval", FILE, "--out", "r.txt", "--output-format", "jsonl")
    assert "2 passed of 2" in shown
    lines = (project.folder / "r.txt").read_text().splitlines()
    assert [json.loads(line)["id"] for line in lines] == ["one", "two"]
    project.run("eval", FILE, "--out", "r.txt", "--output-format", "yaml")
    assert (project.folder / "r.txt").read_text().startswith("---\n")
    assert project.run("eval", FILE, "--output-format", "jsonl").startswith('{"')


def test_help_lists_our_names_only(project: Project) -> None:
    shown = project.run("run", "--help", "all")
    for name in ("--eval-id", "--agent-timeout", "--threads", "--output-format", "--file", " -s", " -t", " -f"):
        assert name not in shown, name
    assert "-w, --workers" in shown and "  eval" not in project.run("--help")


def test_help_of_run_is_one_screen(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    shown = project.run("run", "--help")
    assert len(shown.splitlines()) <= 30 and max(map(len, shown.splitlines())) <= 80
    assert shown.startswith("Run suites: ") and "  --help limits " in shown
    assert project.run("run", "evals.yaml", "-h") == shown == project.run("run", "--help", "evals.yaml")
    limits = project.run("run", "--help", "limits")
    assert limits.startswith("Limits:\n") and "--max-tokens" in limits and "--workers" not in limits


def test_every_option_of_run_is_in_one_group() -> None:
    options = [one.name for one in run_command.params if isinstance(one, click.Option) and not one.hidden]
    grouped = [name for names in HELP.groups.values() for name in names]
    assert sorted(grouped) == sorted(filter(None, options))
    assert len(HELP.common) == 10 and set(HELP.common) <= set(grouped)


@pytest.mark.parametrize(
    ("arguments", "wanted"),
    [
        (["evals.yaml"], "rejoinder run evals.yaml"),
        (["evals.yaml", "-n", "3"], "rejoinder run evals.yaml -n 3"),
        (["evals"], "rejoinder run evals"),
        (["test"], "rejoinder run"),
        (["check", "-f", "a.yaml"], "rejoinder run -f a.yaml"),
        (["list"], "rejoinder runs"),
        (["diff", "a", "b"], "rejoinder compare a b"),
        (["validat", "my evals"], "rejoinder validate 'my evals'"),
        (["runs", "tagg", "last", "x"], "rejoinder runs tag last x"),
        (["zzzzzz"], "rejoinder --help"),
        (["run", "--verbos", "a.yaml"], "rejoinder run --verbose a.yaml"),
        (["run", "--models", "small"], "rejoinder run --model small"),
        (["run", "--models=small", "-n", "3"], "rejoinder run --model=small -n 3"),
        (["run", "-k", "refund*"], "rejoinder run --case 'refund*'"),
        (["run", "-j4"], "rejoinder run --workers 4"),
        (["run", "--lf"], "rejoinder run --failed"),
        (["show", "--json"], "rejoinder show --format json"),
        (["show", "--case", "a", "--zzzzz"], "rejoinder show --help"),
        (["runs", "tag", "--zzzzz"], "rejoinder runs tag --help"),
        (["run", "--fork", "last", "--case", "a", "--turn", "2"], "rejoinder fork last --case a --turn 2"),
        (["run", "--case", "a", "--turn", "2", "--fork=last"], "rejoinder fork last --case a --turn 2"),
        (["get", "runs"], "rejoinder runs"),
        (["get", "runs", "--limit", "3"], "rejoinder runs --limit 3"),
        (["get", "run", "last"], "rejoinder show last"),
        (["get", "models"], "rejoinder models"),
        (["get", "suites"], "rejoinder suites"),
        (["get", "suite", "shop"], "rejoinder suites show shop"),
        (["get", "vars"], "rejoinder var list"),
        (["get", "var", "a"], "rejoinder var get a"),
        (["get", "secrets"], "rejoinder secret list"),
        (["get", "credits"], "rejoinder --help"),
        (["set", "var", "a", "b"], "rejoinder var set a b"),
        (["set", "suite", "-f", "evals.yaml"], "rejoinder suites save NAME evals.yaml"),
        (["delete", "var", "a"], "rejoinder var rm --help"),
        (["delete", "secret", "a"], "rejoinder secret rm --help"),
        (["delete", "suite", "a"], "rejoinder suites rm --help"),
        (["delete", "run", "last"], "rejoinder runs rm --help"),
        (["stop", "run", "4f1c"], "rejoinder stop 4f1c"),
        (["version"], "rejoinder --version"),
        (["run", "--var", "a=b"], "rejoinder var set a b"),
        (["run", "--var=a=b c"], "rejoinder var set a 'b c'"),
        (["runs", "list"], "rejoinder runs"),
        (["suites", "list"], "rejoinder suites"),
    ],
)
def test_words_that_are_no_command(project: Project, arguments: list[str], wanted: str) -> None:
    (project.folder / "evals").mkdir()
    result = project.invoke(*arguments)
    error, command = result.output.splitlines()
    assert result.exit_code == 2 and error.startswith("error: there is no ")
    assert command.startswith(f"  {wanted}   ")


def test_the_value_of_a_secret_is_not_repeated(project: Project) -> None:
    output = project.invoke("set", "secret", "token", "abc123").output
    assert "rejoinder secret set token " in output
    assert "abc123" not in output


SIMILAR = ["runs", "prun", "pruen", "prune-runs", "rmm", "rn", "mr", "clea", "cleer", "r", "runz"]


GROUPS = ["", "runs", "var", "secret", "suites", "cache", "baseline"]
MISTAKES = [(group, word) for group in GROUPS for word in SIMILAR if group or word != "runs"]


@pytest.mark.parametrize(("group", "word"), MISTAKES)
def test_no_command_that_deletes_is_proposed_for_a_similar_word(project: Project, word: str, group: str) -> None:
    output = project.invoke(*filter(None, [group, word])).output
    commands = [line.split("   ")[0].split() for line in output.splitlines()[1:]]
    assert not any({"rm", "prune", "clear"} & set(words) and "--help" not in words for words in commands)


@pytest.mark.parametrize(
    ("arguments", "same"),
    [
        ([], ["--help"]),
        (["judge"], ["judge", "--help"]),
        (["var"], ["var", "--help"]),
        (["secret"], ["secret", "--help"]),
        (["help"], ["--help"]),
        (["help", "run"], ["run", "--help"]),
        (["help", "runs", "tag"], ["runs", "tag", "--help"]),
    ],
)
def test_help_is_shown_to_one_who_names_no_command(project: Project, arguments: list[str], same: list[str]) -> None:
    result = project.invoke(*arguments)
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout == project.run(*same) and len(result.stdout.splitlines()) > 4


@pytest.mark.parametrize("arguments", [["run", "--limit", "none"], ["show", "--sort", "x"], ["fork"], ["--zz"]])
def test_a_mistake_has_no_usage_block(project: Project, arguments: list[str]) -> None:
    result = project.invoke(*arguments)
    assert result.exit_code == 2 and result.output.startswith("error: ")
    assert "Usage:" not in result.output and len(result.output.splitlines()) <= 2


@pytest.mark.usefixtures("suite")
@pytest.mark.parametrize("pattern", ["evals/**/*.yaml", "evals/*/s*.yaml", "evals/deep/suit?.yaml", "**/suite.yaml"])
def test_patterns_in_quotes(project: Project, pattern: str) -> None:
    assert results(project, "run", pattern)["summary"]["total"] == 2
    assert [file["path"] for file in project.validate(pattern)["files"]] == [FILE]
    assert len(project.run_json("prompt", pattern)) == 2


@pytest.mark.usefixtures("suite")
def test_a_pattern_leaves_out_what_is_no_suite(project: Project) -> None:
    project.write("evals/other.yaml", {"services": {}})
    result = project.invoke("run", "evals/**/*.yaml")
    assert result.exit_code == 0 and "passed over 1 YAML file" in result.stderr


@pytest.mark.parametrize("command", ["run", "validate", "prompt"])
def test_a_pattern_that_nothing_matches(project: Project, command: str) -> None:
    error = project.invoke(command, "gone/**/*.yaml").exception
    assert "no file matches 'gone/**/*.yaml'" in str(error)


@pytest.mark.usefixtures("suite")
def test_a_file_with_a_star_in_its_name_is_that_file(project: Project, suite: dict[str, Any]) -> None:
    project.write("a[1].yaml", suite)
    assert results(project, "run", "a[1].yaml")["summary"]["total"] == 2


@pytest.mark.usefixtures("suite")
def test_a_run_of_a_folder_says_what_it_passes_over(project: Project) -> None:
    project.write("evals/compose.yaml", {"services": {}})
    result = project.invoke("run", "evals", "--format", "json")
    assert "passed over 1 YAML file without `evals`: evals/compose.yaml" in result.stderr
    assert json.loads(result.stdout)["summary"]["total"] == 2


@pytest.mark.parametrize(
    ("name", "text", "wanted"),
    [
        ("sl.py", "def reply(m):\n    return {'a': 1}\n", "Python"),
        ("one.py", "def answer(r): return 'a'\n", "Python"),
        ("notes.md", "# Notes\n", "Markdown"),
        ("rows.csv", "a,b\n1,2\n", "`cases`"),
    ],
)
def test_a_file_that_is_plainly_no_suite(project: Project, name: str, text: str, wanted: str) -> None:
    project.write(name, text)
    for command in ("run", "validate"):
        result = project.invoke(command, name)
        assert result.exit_code == 2 and wanted in result.output and "a suite is a YAML file" in result.output
