"""How the action installs: into environments with pip, for three projects, and what it says if that cannot be done."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rejoinder.report.github import sticky_mark
from tests.kit import ROOT, Project, bounded, case, run_folders
from tests.labs.ci_lab import Github, Step, pull_request
from tests.labs.wheel_lab import make_wheels

sys.path.insert(0, str(ROOT / "scripts" / "action"))
import install
import report

WEATHER = (ROOT / "docs/guides/tools.md").read_text(encoding="utf-8")
OLD = [path for path in Path.home().glob(".pyenv/versions/3.*/bin/python3") if int(path.parts[-3].split(".")[1]) < 11]


def block(page: str, name: str) -> str:
    found = re.search(rf"^```\w+ {re.escape(name)}\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    assert found is not None
    return found[1]


def suite_of(call: str) -> dict[str, object]:
    target = {"name": "bot", "provider": "python", "call": call}
    return {"targets": [target], "target": "bot", "evals": [case("one", {"match": "Hi*"})]}


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_wheels(tmp_path_factory.mktemp("wheels"), "rejoinder[mcp]", "hatchling", "markdown-it-py")


@pytest.fixture
def github(tmp_path: Path) -> Github:
    """A machine with a project whose bot needs nothing."""
    Project(tmp_path / "checkout").write("evals.yaml", suite_of("bot:reply"))
    Project(tmp_path / "checkout").write("bot.py", "def reply(request):\n    return 'Hi there!'\n")
    return Github(tmp_path / "server", tmp_path / "checkout")


def needs_markdown(github: Github) -> Project:
    project = Project(github.checkout)
    project.write("bot.py", "import markdown_it\ndef reply(request):\n    return 'Hi ' + markdown_it.__version__\n")
    project.write("requirements.txt", "markdown-it-py>=4\n")
    return project


def summary(github: Github) -> str:
    return github.files["STEP_SUMMARY"].read_text(encoding="utf-8")


def passed(done: Step) -> None:
    assert (done.code, done.outputs["cases_passed"]) == (0, "1"), done.log


# Three projects, with real environments


@pytest.mark.slow
def test_a_project_without_dependencies(github: Github, wheels: Path) -> None:
    github.installs_for_real(wheels)
    passed(github.action())
    environment = github.temporary / "rejoinder"
    assert (environment / "bin" / "rejoinder").exists()
    assert "1 of 1 passed" in summary(github)


@pytest.mark.slow
def test_a_project_with_requirements(github: Github, wheels: Path) -> None:
    github.installs_for_real(wheels)
    needs_markdown(github)
    without = github.action()
    assert without.code == 2, without.log
    assert "No module named 'markdown_it'" in summary(github)
    passed(github.action(requirements="requirements.txt\n"))


@pytest.mark.slow
def test_a_project_with_an_environment_of_its_own(github: Github, wheels: Path) -> None:
    """rejoinder joins it once, and a rejoinder that is there stays."""
    github.installs_for_real(wheels)
    needs_markdown(github)
    made = github.bash("python3 -m venv .venv && .venv/bin/python -m pip install -q -r requirements.txt")
    assert made.code == 0, made.log
    passed(github.action(python=".venv/bin/python"))
    assert not (github.temporary / "rejoinder").exists()
    github.environment["PIP_FIND_LINKS"] = os.devnull  # nothing can be installed now
    passed(github.action(python=".venv/bin/python"))
    needed = github.action(python=".venv/bin/python", extras="mcp")
    assert needed.code == 2 and "No matching distribution found for mcp" in needed.log, needed.log
    assert "rejoinder[mcp]==" in summary(github)
    github.environment["PIP_FIND_LINKS"] = str(wheels)
    passed(github.action(python=".venv/bin/python", extras="mcp"))


@pytest.mark.slow
def test_a_project_with_tools_of_an_mcp_server(github: Github, wheels: Path) -> None:
    github.installs_for_real(wheels)
    for name in ("weather.py", "weather.yaml"):
        Project(github.checkout).write(name, block(WEATHER, name))
    without = github.action(paths="weather.yaml")
    assert without.code != 0 and "the package `mcp`" in without.log, without.log
    passed(github.action(paths="weather.yaml", extras="mcp"))


# What cannot be done


@pytest.mark.slow
def test_an_extra_that_does_not_exist(github: Github) -> None:
    done = github.action(extras="mcp, semantics")
    assert (done.code, done.outputs["exit_code"]) == (2, "2")
    assert (
        "::error title=rejoinder::rejoinder has no extra semantics; it has dev, local, mcp, semantic, view." in done.log
    )
    assert "it could not be installed" in summary(github)


@pytest.mark.slow
def test_requirements_that_do_not_exist_and_pip_that_fails(tmp_path: Path, github: Github) -> None:
    done = github.action(requirements="requirements.txt")
    assert done.code == 2 and "there is no such file" in done.log
    assert github.read("installed") == ""
    (github.fakes / "modules" / "pip.py").write_text("raise SystemExit('no such package')")
    done = github.action(package="rejoinder==9")
    assert done.code == 2 and "pip could not install rejoinder==9" in done.log


@pytest.mark.slow
def test_an_interpreter_that_does_not_exist(github: Github) -> None:
    done = github.action(python="python-that-is\n::warning::forged")
    assert (done.code, done.outputs["exit_code"]) == (2, "2")
    assert [line for line in done.log.splitlines() if line.startswith("::")] == [
        "::error title=rejoinder::there is no interpreter of the name that the input python has, or no python3; use"
        " actions/setup-python before this step"
    ]
    assert "there is no interpreter" in summary(github)


@pytest.mark.slow
def test_an_old_python_is_named_before_anything_is_installed(tmp_path: Path, github: Github) -> None:
    """With a Python that says it is old, and with those that are found."""
    github = Github(tmp_path / "of-a-request", github.checkout, pull_request())
    (github.fakes / "modules" / "sitecustomize.py").write_text("import sys\nsys.version_info = (3, 10, 13)\n")
    done = github.action()
    assert (done.code, done.outputs["exit_code"]) == (2, "2")
    assert "::error title=rejoinder::rejoinder needs Python 3.11 or newer, and " in done.log
    assert "is Python 3.10.13. Add a step with actions/setup-python before this one" in summary(github)
    assert github.read("installed") == "" and not (github.temporary / "rejoinder").exists()
    assert github.read("comment").startswith(
        "<!-- rejoinder-report:results -->\n## rejoinder: it could not be installed"
    )


@pytest.mark.parametrize("python", OLD, ids=lambda path: path.parts[-3])
def test_old_pythons_read_the_scripts(tmp_path: Path, python: Path) -> None:
    environment = {"RUNNER_TEMP": str(tmp_path), "GITHUB_STEP_SUMMARY": str(tmp_path / "summary"), "PATH": ""}
    script = str(ROOT / "scripts" / "action" / "install.py")
    done = subprocess.run([python, "-B", script], env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (2, "")
    assert done.stdout.startswith("::error title=rejoinder::rejoinder needs Python 3.11 or newer, and ")
    assert "needs Python 3.11" in (tmp_path / "summary").read_text()


# Words for pip


@pytest.mark.parametrize(
    ("package", "extras", "version", "wanted"),
    [
        ("", [], None, "rejoinder @ {action}"),
        ("", ["mcp", "view"], None, "rejoinder[mcp,view] @ {action}"),
        ("", [], "1.2", None),
        ("", ["mcp"], "1.2", "rejoinder[mcp]==1.2"),
        ("rejoinder==9", [], "1.2", "rejoinder==9"),
        ("rejoinder==9", ["mcp"], None, "rejoinder[mcp]==9"),
        ("rejoinder[view]>=1", ["mcp"], None, "rejoinder[view,mcp]>=1"),
        ("git+https://example.com/us/it@main", ["mcp"], None, "rejoinder[mcp] @ git+https://example.com/us/it@main"),
    ],
)
def test_what_pip_installs(
    monkeypatch: pytest.MonkeyPatch, package: str, extras: list[str], version: str | None, wanted: str | None
) -> None:
    monkeypatch.setenv("ACTION", str(ROOT))
    assert install.requirement(package, extras, version) == (wanted and wanted.format(action=ROOT.as_uri()))


@bounded(200)
@given(st.text(max_size=60), st.lists(st.text(max_size=20), max_size=3))
def test_hostile_inputs_stay_words(text: str, names: list[str]) -> None:
    """No input reaches pip as an option, and no extra as anything but a name."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("EXTRAS", "\n".join(names).replace("\0", ""))
        with suppress(install.Refused):
            assert all(re.fullmatch(r"[A-Za-z0-9._-]+", extra) for extra in install.read_extras())
    assert "\n" not in report.escaped(text) and "\r" not in report.escaped(text)


INPUTS = st.text(max_size=300).map(lambda text: text.replace("\0", "").encode("utf-8", "replace").decode())


@bounded(200)
@given(INPUTS, INPUTS, INPUTS)
def test_no_input_ends_in_a_traceback(package: str, requirements: str, extras: str) -> None:
    """An interpreter of the project asks what it has; whatever pip is given comes after `--`, or is a file."""
    asked: list[list[str]] = []

    def asks(command: list[str], **_: object) -> subprocess.CompletedProcess[bytes]:
        asked.append([str(word) for word in command])
        return subprocess.CompletedProcess(command, 0, b"1.0 mcp view")

    with pytest.MonkeyPatch.context() as patch, tempfile.TemporaryDirectory() as folder:
        patch.setattr(install.subprocess, "run", asks)
        patch.setenv("PYTHON", "python")
        patch.setenv("ACTION", str(ROOT))
        patch.setenv("GITHUB_OUTPUT", f"{folder}/output")
        patch.setenv("RUNNER_TEMP", folder)
        for name, text in (("PACKAGE", package), ("REQUIREMENTS", requirements), ("EXTRAS", extras)):
            patch.setenv(name, text)
        assert install.main() in (0, 2)
    for words in (command for command in asked if "install" in command):
        assert words[-2] == "--" and not [word for word in words[6:-2] if word.startswith("-") and word != "-r"]


@bounded(200)
@given(st.text(max_size=300))
def test_no_log_leaves_its_block(log: str) -> None:
    lines = report.fenced(log).splitlines()
    fence = lines[0].removesuffix("text")
    assert set(fence) == {"`"} and lines[-1] == fence
    assert not any(line.lstrip().startswith(fence) for line in lines[1:-1])


@bounded(200)
@given(st.text(max_size=120))
def test_the_comment_has_the_mark_of_the_command(name: str) -> None:
    assert report.mark(name) == sticky_mark(name)


def test_a_package_is_no_option(github: Github) -> None:
    done = github.action(package="--index-url=https://example.com")
    assert github.read("installed").split()[-2:] == ["--", "--index-url=https://example.com"]
    assert done.code == 0, json.dumps(done.log)
    assert len(run_folders(github.checkout)) == 1
