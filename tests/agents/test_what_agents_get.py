"""What an agent is given: its settings looked over, its variables, and the case's files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from rejoinder.model import AttachedFile, Brief, Target
from rejoinder.providers.agents.agent_settings import AgentSettings, with_own_files
from rejoinder.providers.agents.environment import environment_for
from rejoinder.providers.agents.kinds import AGENTS
from rejoinder.providers.agents.preread import write_preread
from rejoinder.providers.agents.workspace import Scratch, copy_folder
from rejoinder.providers.settings import Settings
from tests.kit import Project, Raw, codes, refusal, run, run_refusal
from tests.labs.agent_lab import agent, suite


@pytest.fixture
def scratch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Scratch:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    made = Scratch("run", "00000000-0000-8000-8000-000000000000")
    made.make()
    return made


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"skills": 5}, "`skills: 5`, which is neither a text nor a list of texts"),
        ({"setup": {"a": "b"}}, "`setup: {'a': 'b'}`"),
        ({"teardown": [5]}, "`teardown: [5]`"),
        ({"silence_seconds": "soon"}, "`silence_seconds: soon`, which is not a number above 0"),
        ({"workspace_template": 5}, "`workspace_template: 5`, which is not a folder"),
        ({"workspace_template": {"repository": "nowhere"}}, "`nowhere` as `workspace_template.repository`"),
        ({"workspace_template": {"branch": "x"}}, "a `workspace_template` with `branch`"),
        ({"env": ["x"]}, "`env` that does not map"),
        ({"home": "mine"}, "`home: mine`"),
        ({"permissions": {"edit": "maybe"}}, "`edit: maybe`"),
        ({"mcp_servers": [{"name": "x"}]}, "needs either `command` or `url`"),
    ],
)
def test_settings_of_a_variant_are_looked_over_before_anything_is_asked(
    project: Project, settings: Raw, said: str
) -> None:
    whole = suite(agent(), "hello", {"contains": "turn"})
    whole["variants"] = [{"name": "a", "settings": settings}]
    assert said in run_refusal(project, whole)


def test_an_agent_that_asks_for_no_permission_is_refused_before_anything_is_asked(project: Project) -> None:
    assert "write `permissions: allow`" in run_refusal(project, suite(agent("pi", permissions="reject"), "hello"))


def test_scripts_of_mcp_servers_are_found_in_the_project(project: Project) -> None:
    server = project.write("tools/server.py", "")
    for servers in ([{"name": "t", "command": "python3", "args": ["tools/server.py", "-v", 5]}], {"t": {"args": [5]}}):
        settings = Settings(Target(name="a", provider="acp", settings={"mcp_servers": servers}), {})
        found: Any = with_own_files(settings, (str(project.folder),)).values["mcp_servers"]
        assert settings.values["mcp_servers"] == servers
        if isinstance(found, list):
            assert found == [{"name": "t", "command": "python3", "args": [str(server), "-v", 5]}]
        else:
            assert found == servers


def test_a_shared_home_is_the_users_own(scratch: Scratch) -> None:
    outside = {"HOME": "/home/me", "XDG_CONFIG_HOME": "/conf", "CLAUDE_CONFIG_DIR": "/mine", "CLAUDECODE": "1"}
    given = environment_for(AGENTS["claude"], AgentSettings(has_own_home=False), scratch, outside)
    assert (given["HOME"], given["XDG_CONFIG_HOME"], given["CLAUDE_CONFIG_DIR"]) == ("/home/me", "/conf", "/mine")
    assert given["DISABLE_AUTOUPDATER"] == "1" and "CLAUDECODE" not in given
    own = environment_for(AGENTS["claude"], AgentSettings(), scratch, outside)
    assert own["CLAUDE_CONFIG_DIR"] == f"{scratch.home}/.claude" and "XDG_CONFIG_HOME" not in own


def test_files_from_outside_are_copies_that_replace_nothing(scratch: Scratch, tmp_path: Path) -> None:
    (scratch.workspace / "x.txt").write_text("of the template")
    files: list[AttachedFile] = []
    for name in ("a", "b"):
        source = tmp_path / name / "x.txt"
        source.parent.mkdir()
        source.write_text(name)
        files.append(AttachedFile(path=f"../{name}/x.txt", source=str(source), guideline=name == "a"))
    places = scratch.place(files)
    assert [place.name for place in places.values()] == ["x-2.txt", "x-3.txt"]
    assert [place.read_text() for place in places.values()] == ["a", "b"]
    assert (scratch.workspace / "x.txt").read_text() == "of the template"
    text = write_preread(Brief(prompt="Sum up.", files=tuple(files), system_prompt="Be kind."), places)
    assert f"Read all guideline files:\n* [../a/x.txt]({places['../a/x.txt'].as_uri()})\n" in text
    assert text.endswith("\n\nBe kind.\n\n[[ ## user_query ## ]]\nSum up.")


def test_a_template_is_copied_without_runs_and_caches_are_no_changes(scratch: Scratch, tmp_path: Path) -> None:
    template = tmp_path / "template"
    for name in (".rejoinder/runs/old", "src/.rejoinder/x", "src/a.py"):
        (template / name).parent.mkdir(parents=True, exist_ok=True)
        (template / name).write_text("x")
    copy_folder(template, scratch.workspace)
    assert [path.name for path in scratch.workspace.iterdir()] == ["src"]
    assert {path.name for path in (scratch.workspace / "src").iterdir()} == {".rejoinder", "a.py"}
    scratch.remember()
    for folder in (".pytest_cache", "src/__pycache__"):
        (scratch.workspace / folder).mkdir()
        (scratch.workspace / folder / "x").write_text("x")
    assert scratch.diff() == ""


def test_cases_of_one_name_keep_a_workspace_each_as_long_as_the_run(project: Project) -> None:
    for name in ("one", "two"):
        project.write(f"{name}.yaml", suite(agent(), f"[write a.txt: {name}]"))
    document = project.run_json("run", "one.yaml", "two.yaml", "--keep-workspaces", "all")
    folder = project.folder / ".rejoinder" / "workspaces" / document["run"]["id"]
    assert sorted(path.read_text() for path in folder.glob("*/a.txt")) == ["one", "two"]
    assert (folder / ".gitignore").read_text().endswith("\n*\n")
    project.run("runs", "rm", "last", "--yes")
    assert not folder.exists()


def test_checks_of_workspaces_that_say_nothing_are_mistakes(project: Project) -> None:
    checks: list[Raw] = [
        {"file_contains": {"path": "a"}},
        {"file_contains": {"path": "a", "pattern": "("}},
        {"workspace_diff": {}},
        {"workspace_diff": {"min_lines": 4, "max_lines": 1}},
        {"file_contains": {"path": "a", "text": "x", "pattern": "y"}},
        {"workspace_diff": {"min_lines": 1, "max_lines": 1}},
    ]
    found = project.errors(suite(agent(), "hello", *checks))
    assert codes(found) == ["missing-field", "invalid-regex", "missing-field", "out-of-range"]


def test_variables_of_a_target_are_hidden(project: Project) -> None:
    target = agent(env={"SERVICE_TOKEN": "${{ SERVICE_TOKEN }}"})
    project.write(".env", "SERVICE_TOKEN=token-of-the-service-77\n")
    document = run(project, suite(target, "[run: echo $SERVICE_TOKEN > seen.txt]", {"file_exists": "seen.txt"}))
    text = json.dumps(document)
    assert "seen.txt" in text and "token-of-the-service-77" not in text


def test_ready_made_names_of_agents(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(project.folder))
    project.write("evals.yaml", {"evals": [{"prompt": "hello", "checks": [{"contains": "x"}]}]})
    for name, program in (("gemini", "gemini"), ("claude", "claude"), ("codex/gpt-5", "codex")):
        assert f"target `{name}` needs the program `{program}`" in refusal(project, "run", "-m", name)
