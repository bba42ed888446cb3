"""Where a case stands: its file as seen from the project's root, and its line."""

from __future__ import annotations

import msgspec
import pytest

import rejoinder
from rejoinder.model import Case
from tests.conftest import Project

spec = pytest.mark.spec

SUITE = """\
target: scripted/x
evals:
  # the first case
  - prompt: a
    checks: [match: a]

  - {prompt: b, checks: [match: b]}
  - id: rows
    cases: ../rows.csv
    prompt: "{{ word }}"
    checks: [match: c]
"""


def places(project: Project) -> list[tuple[str, int]]:
    return [(case.file, case.line) for case in rejoinder.load(project.folder / "inner" / "evals.yaml").cases]


@spec("P39")
def test_a_case_knows_its_file_and_line(project: Project) -> None:
    project.write(".rejoinder/config.yaml", "{}")
    project.write("inner/evals.yaml", SUITE)
    project.write("rows.csv", 'word\none\n"two\nlines"\nthree\n')
    suite, rows = "inner/evals.yaml", "rows.csv"
    assert places(project) == [(suite, 4), (suite, 7), (rows, 2), (rows, 3), (rows, 5)]


@spec("P39")
def test_a_row_that_is_a_case_knows_the_line_of_its_data_set(project: Project) -> None:
    project.write(".rejoinder/config.yaml", "{}")
    project.write("inner/evals.yaml", "target: scripted/x\ncases: rows.jsonl\nchecks: [match: a]\n")
    project.write("inner/rows.jsonl", '{"prompt": "a"}\n\n{"prompt": "b"}\n')
    assert places(project) == [("inner/rows.jsonl", 1), ("inner/rows.jsonl", 3)]


@spec("P39")
def test_the_copy_of_a_run_has_the_places_of_its_cases(project: Project) -> None:
    target = "target: t\ntargets: [{name: t, provider: scripted, replies: [a]}]\n"
    project.write("evals.yaml", f"{target}evals:\n  - prompt: a\n    checks: [match: a]\n")
    assert project.invoke("run").exit_code == 0
    [copy] = project.folder.glob(".rejoinder/runs/*/cases.jsonl")
    [line] = copy.read_bytes().splitlines()
    _, case = msgspec.json.decode(line, type=tuple[int, Case])
    assert (case.file, case.line) == ("evals.yaml", 4)
