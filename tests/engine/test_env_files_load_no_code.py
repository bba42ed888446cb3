"""A `.env` file is data: it sets no variable that makes a program load code, for no program that a run starts."""

from __future__ import annotations

import sys

import pytest

from tests.kit import Project, Raw, run, scripted
from tests.labs.agent_lab import agent, suite, turns_of
from tests.tools.listener import PRINTS
from tests.tools.suites import calls
from tests.tools.suites import suite as suite_with_tools

LOADING = dict(
    line.split("=", 1)
    for line in """
LD_PRELOAD=./evil.so
LD_LIBRARY_PATH=evil
LD_AUDIT=evil
ld_preload=evil
DYLD_INSERT_LIBRARIES=evil
NODE_OPTIONS=--require ./evil.js
NODE_PATH=evil
npm_config_script_shell=evil
BASH_ENV=evil.sh
ENV=./evil.sh
GIT_SSH_COMMAND=evil
GIT_EXTERNAL_DIFF=evil
GIT_CONFIG_COUNT=1
PYTHONPATH=evil
PYTHONSTARTUP=evil.py
PYTHONHOME=evil
PERL5LIB=evil
PERL5OPT=-Mevil
RUBYOPT=-revil
RUBYLIB=evil
JAVA_TOOL_OPTIONS=-javaagent:evil
_JAVA_OPTIONS=evil
EDITOR=evil
PAGER=evil
CLAUDE_CONFIG_DIR=evil
XDG_CONFIG_DIRS=evil
""".strip().splitlines()
)
HARMLESS = {"NODE_ENV": "test", "PYTHONUNBUFFERED": "1", "GIT_BRANCH": "main", "SHOP": "Corner", "EDITORS": "two"}
VARIABLES = {**LOADING, **HARMLESS}


@pytest.fixture
def project(project: Project, monkeypatch: pytest.MonkeyPatch) -> Project:
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    project.write(".env", "".join(f"{name}='{value}'\n" for name, value in VARIABLES.items()))
    return project


def judged(text: str) -> None:
    for name, value in LOADING.items():
        assert f"{name}={value}" not in text, name
    for name, value in HARMLESS.items():
        assert f"{name}={value}" in text, name


def test_of_an_agent(project: Project) -> None:
    project.write("kept.py", "")
    target = agent(setup=["env > setup.txt"], env={"MINE": "1"})
    document = run(project, suite(target, "[run: cat setup.txt; env]"))
    [call] = turns_of(document)[0]["tool_calls"]
    judged(call["result"])


def test_of_a_command(project: Project) -> None:
    target = {"name": "agent", "provider": "cli", "command": ["env"]}
    document = run(project, suite(target, "hello"))
    judged(turns_of(document)[0]["response"])


def test_of_a_server_of_tools(project: Project) -> None:
    project.write(
        "prints.py",
        PRINTS.replace("json.dumps(dict(os.environ))", "str.join('\\n', map('='.join, os.environ.items()))"),
    )
    mcp = {"name": "env", "command": sys.executable, "args": ["-S", "prints.py"]}
    [result] = run(project, suite_with_tools(calls("env__all"), "done", tools=[{"mcp": mcp}]))["results"]
    judged(result["turns"][0]["tool_calls"][0]["result"])


@pytest.mark.parametrize("check", [{"code": "env > seen.txt"}, {"command": "env > seen.txt"}])
def test_of_a_check(project: Project, check: Raw) -> None:
    target = agent() if "command" in check else {**scripted("agent", "turn 1")}
    if "command" in check:
        check = {"command": f"env > {project.folder}/seen.txt"}
    run(project, suite(target, "hello", check), code=0)
    judged((project.folder / "seen.txt").read_text())


def test_a_warning_names_the_file_and_the_variable(project: Project) -> None:
    project.write(".env", "A=1\nLD_PRELOAD=./evil.so\nENV=production\n")
    project.write("evals.yaml", suite(scripted("agent", "turn 1"), "{{ env('ENV') }}"))
    files = {file["path"]: file["warnings"] for file in project.validate("evals.yaml")["files"]}
    [warning] = files.pop(".env")
    assert (warning["code"], warning["line"]) == ("env-loads-code", 2)
    assert "`LD_PRELOAD`" in warning["message"] and "evil.so" not in str(warning)
    ran = project.invoke("run", "evals.yaml")
    assert ran.exit_code == 0 and ran.stderr.count("LD_PRELOAD") == 1


def test_a_suite_does_not_hand_it_over_either(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    target = {"name": "agent", "provider": "cli", "command": ["env"], "env": {"LD_PRELOAD": "${{ LD_PRELOAD }}"}}
    project.write("evals.yaml", suite(target, "hello"))
    assert "`LD_PRELOAD` is not set" in str(project.invoke("run", "evals.yaml").output)
    monkeypatch.setenv("PERL5OPT", "-Mstrict")  # what the user sets himself is handed on
    target = {"name": "agent", "provider": "cli", "command": ["env"]}
    assert "PERL5OPT=-Mstrict" in turns_of(run(project, suite(target, "hello")))[0]["response"]
