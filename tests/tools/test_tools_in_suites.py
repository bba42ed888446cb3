"""What is said of tools before anything is sent: by `validate`, `tools`, `prompt`, `--dry-run`; vibecheck's example."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import pytest

from tests.kit import Project, Raw, scripted
from tests.tools import servers
from tests.tools.suites import DICE, calls, suite

OURS = {"name": "ours", "command": sys.executable, "args": ["-I", "-S", str(Path(servers.__file__)), "fine"]}


def found(project: Project, content: Raw) -> list[tuple[str, str]]:
    told = [*project.errors(content), *project.warnings(content)]
    return [(problem["code"], problem["path"]) for problem in told]


@pytest.mark.parametrize(
    ("tools", "problem"),
    [
        ([{"python": "not_there_at_all:x"}], ("file-not-found", "tools")),
        ([{"mcp": {"name": "s", "command": "python", "args": ["nowhere.py"]}}], ("file-not-found", "tools")),
        ([{"mcp": {"name": "s", "url": "http://a/${{ NOT_SET }}"}}], ("missing-environment", "tools")),
        ([DICE, DICE], ("duplicate-id", "tools")),
        ([{**DICE, "fails": [{"fault": "error", "tool": "other"}]}], ("no-effect", "tools")),
        (
            [{"mcp": {**OURS, "allow": ["look"], "fails": [{"fault": "error", "tool": "drop"}]}}],
            ("no-effect", "tools"),
        ),
        ([{"mcp": {"name": "s"}}], ("missing-field", "tools[0].mcp")),
        ([{"mcp": {"name": "s", "command": "a", "url": "http://b"}}], ("conflicting-keys", "tools[0].mcp")),
        ([{**DICE, "python": "a:b"}], ("conflicting-keys", "tools[0]")),
        (
            [{**DICE, "fails": [{"fault": "error", "at": 1, "rate": 0.5}]}],
            ("conflicting-keys", "tools[0].fails[0].rate"),
        ),
        ([{**DICE, "fails": [{"fault": "explosion"}]}], ("out-of-range", "tools[0].fails[0].fault")),
    ],
)
def test_validate_finds_what_is_wrong_with_tools(project: Project, tools: Any, problem: tuple[str, str]) -> None:
    assert found(project, suite("a", tools=tools)) == [problem]


def test_validate_points_at_the_tools_of_a_case(project: Project) -> None:
    content = suite("a", tools=[DICE])
    content["evals"][0]["tools"] = [{"python": "not_there_at_all:x"}]
    assert found(project, content) == [("file-not-found", "evals[0].tools")]


def test_a_target_that_takes_no_tools_is_a_warning_and_refused(project: Project) -> None:
    content = suite(tools=[DICE])
    content["targets"] = [{"name": "t", "provider": "cli", "command": ["cat"]}]
    assert ("unusable-tools", "tools") in found(project, content)
    result = project.invoke("run", "evals.yaml")
    assert "target `t` (cli) cannot be offered any" in str(result.exception)


def test_tools_lists_what_models_are_offered(project: Project) -> None:
    project.write("evals.yaml", suite("a", tools=[{"mcp": OURS}, DICE]))
    shown = project.run("tools")
    assert "ours__look\n  Looks something up.\n  word  string\n" in shown and "dice\n  Throws a die.\n" in shown
    rows = project.run_json("tools")
    assert [(row["name"], row["tool"], row["server"]) for row in rows] == [
        ("ours__look", "look", "ours"),
        ("ours__drop", "drop", "ours"),
        ("dice", "dice", None),
    ]


def test_tools_takes_a_suites_file_instead_of_a_target(project: Project) -> None:
    project.write("dice.yaml", suite("a"))
    assert project.run("tools", "dice.yaml").startswith("dice\n  Throws a die.\n")


def test_tools_says_which_server_does_not_answer(project: Project) -> None:
    project.write("evals.yaml", suite("a", tools=[{"mcp": {**OURS, "args": [*OURS["args"][:-1], "refuse"]}}, DICE]))
    result = project.invoke("tools")
    assert result.exit_code == 3
    assert "no licence found" in result.output and "dice" in result.output


def test_tools_says_that_there_are_none(project: Project) -> None:
    content = suite("a")
    del content["tools"]
    project.write("evals.yaml", content)
    assert "no tools; a suite, a case or a target declares them as `tools`" in project.run("tools")


def test_prompt_and_a_dry_run_show_tools_without_asking_for_them(project: Project) -> None:
    content = suite("a", tools=[{"mcp": {"name": "s", "command": "no-such-program"}}, DICE])
    [shown] = project.prompts(content)
    assert shown["tools"][0] == {"name": "s__*", "mcp": "s"}
    assert shown["tools"][1]["description"] == "Throws a die."
    foreseen = project.run("run", "--dry-run")
    assert "tools: s, dice" in foreseen and "1 to 11" in foreseen


def test_a_second_case_with_tools_of_its_own_is_looked_at_too(project: Project) -> None:
    content = suite("a", tools=[DICE])
    content["evals"].append({**content["evals"][0], "id": "two", "tools": [{"python": "not_there_at_all:x"}]})
    project.write("evals.yaml", content)
    assert "--no-code refuses that" in str(project.invoke("run", "evals.yaml", "--no-code").exception)


def test_show_tells_what_tools_were_given_and_answered(project: Project) -> None:
    project.write("evals.yaml", suite(calls("dice", side=1), "done", tools=[{**DICE, "fails": [{"fault": "empty"}]}]))
    project.run("run")
    for whole in (project.run("show", "-v"), project.run("show", "--case", "one")):
        assert '    Tools: dice (empty on purpose)\n    dice({"side":1}): (nothing)\n' in whole
    project.run("export", "--to", "otlp", "--out", "x.otlp.json")
    written = (project.folder / "x.otlp.json").read_text()
    assert "tool_call_response" in written and "empty" in written
    project.run("export", "--to", "inspect", "--out", "x.eval")
    with ZipFile(project.folder / "x.eval") as log:
        [sample] = [json.loads(log.read(name)) for name in log.namelist() if name.startswith("samples/")]
    roles = [message["role"] for message in sample["messages"]]
    assert roles == ["user", "assistant", "tool", "assistant"]
    assert sample["messages"][1]["tool_calls"][0]["id"] == sample["messages"][2]["tool_call_id"]


def test_a_scripted_target_may_have_tools(project: Project) -> None:
    content = {"targets": [scripted("t", calls("dice"), "b", tools=[DICE])], "evals": suite("a")["evals"]}
    assert found(project, content) == []


@pytest.mark.parametrize(
    ("tool", "words"),
    [
        ({"description": "d", "scripted": {"name": "a", "returns": "x"}}, "it belongs under `scripted`"),
        ({"name": "a", "mcp": {"name": "m", "url": "http://127.0.0.1:1"}}, "it belongs under `mcp`"),
        ({"description": "d", "python": "m:f"}, "the docstring of the function"),
    ],
)
def test_a_key_beside_the_kind_of_a_tool_is_told_where_it_belongs(project: Project, tool: Raw, words: str) -> None:
    suite = {"tools": [tool], "evals": [{"prompt": "x", "checks": [{"contains": "x"}]}]}
    [problem] = [one for one in project.errors(suite) if one["code"] == "unknown-key"]
    assert words in problem["message"]
    assert "suggestion" not in problem
