"""How often a command goes from one package to another: the more often, the harder it is to read what it does."""

from __future__ import annotations

import json
import subprocess
import sys

from tests.kit import Project, case, scripted

MOST_OF_SHOW = 150
COUNT = """
import json, os, sys
from collections import Counter

import rejoinder
from rejoinder.cli import app

BASE = os.path.dirname(rejoinder.__file__) + os.sep
edges = Counter()

def package_of(frame):
    file = frame.f_code.co_filename
    return file[len(BASE):].split(os.sep)[0].removesuffix(".py") if file.startswith(BASE) else ""

def called(frame, event, _):
    package = package_of(frame) if event == "call" and frame.f_code.co_name != "<module>" else ""
    caller = frame.f_back
    while package and caller is not None and not package_of(caller):
        caller = caller.f_back
    if package and caller is not None and package_of(caller) != package:
        edges[f"{package_of(caller)} -> {package}"] += 1

sys.setprofile(called)
try:
    app.run()
except SystemExit:
    pass
finally:
    sys.setprofile(None)
    print(json.dumps(edges), file=sys.stderr)
"""
"""A call counts that goes from one package to another, or resumes a generator of another; modules at the top are
packages of their own."""


def changes_of(project: Project, *arguments: str) -> dict[str, int]:
    command = [sys.executable, "-c", COUNT, *arguments]
    done = subprocess.run(command, cwd=project.folder, capture_output=True, text=True, check=False, timeout=60)
    assert "2 passed" in done.stdout, done.stderr
    return json.loads(done.stderr.splitlines()[-1])


def test_show_of_a_small_run_stays_in_few_packages(project: Project) -> None:
    down = {name: [{"error": "down"}] for name in "cde"}
    suite = {
        "targets": [scripted("demo", replies={"a": ["yes"], "b": ["yes"], **down})],
        "target": "demo",
        "evals": [case(name, {"contains": "yes"}, prompt=name) for name in "abcde"],
    }
    project.write("evals.yaml", suite)
    project.run("run", code=3)
    changes = changes_of(project, "show")
    assert sum(changes.values()) <= MOST_OF_SHOW, changes
    assert changes == changes_of(project, "show")
