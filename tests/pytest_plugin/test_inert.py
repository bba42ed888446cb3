"""A session that does not use the plugin: nothing is imported, nothing is collected, nothing is written."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.kit import Project, case, run_process, spec
from tests.pytest_plugin.session_kit import GOOD, suite

CODE = """
import sys
import pytest

pytest.main(["-q", "-p", "no:cacheprovider", *sys.argv[1:]])
print(sorted(name for name in sys.modules if name.split(".")[0] in {"rejoinder", "msgspec", "yaml", "click"}))
"""


@spec("3B")
def test_the_plugin_is_inert_when_unused(project: Project) -> None:
    """deepeval's plugin loads in every session."""
    project.write("evals.yaml", suite(case("one", GOOD)))
    project.write("test_mine.py", "def test_mine(): pass\n")
    plugins = ["-p", "rejoinder.pytest_plugin"]
    done = run_process(
        project.folder, command=[sys.executable, "-c", CODE, *plugins], PYTEST_DISABLE_PLUGIN_AUTOLOAD="1"
    )
    assert "1 passed" in done.out, done
    assert "['rejoinder', 'rejoinder._version', 'rejoinder.pytest_plugin']" in done.out, done.out
    written = {path.name for path in project.folder.iterdir()} - {"__pycache__"}
    assert written == {"evals.yaml", "test_mine.py", ".rejoinder"}


@pytest.mark.slow
def test_pytest_loads_the_plugin_by_itself() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "--help"],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTEST_ADDOPTS": ""},
    )
    for option in ("", "-model", "-repeat", "-replay", "-budget", "-against"):
        assert f"--rejoinder{option}" in done.stdout
    assert "rejoinder_files" in done.stdout


def test_pytest_is_not_needed_by_the_rest() -> None:
    """The assertions work where pytest is not installed."""
    code = "import sys; sys.modules['pytest'] = None; from rejoinder.testing import assert_rate, FakeServer"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
