"""`resume --retry-errors`: what ended as an error is asked again, and what passed is not, however it came about."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.kit import Project

JUDGE = """\
from pathlib import Path

def note(who, request):
    with Path("asked.txt").open("a") as stream:
        stream.write(f"{who} {request.case_id}\\n")

def candidate(request):
    note("candidate", request)
    return "fine"

def judge(request):
    note("judge", request)
    if request.case_id == "second-chance" and len(request.messages) > 2:
        return '{"score": 1}'
    return '{"score": 1}' if Path("mended").exists() else %r
"""


def suite(check: dict[str, Any]) -> dict[str, Any]:
    return {
        "targets": [
            {"name": "it", "provider": "python", "call": "answers:candidate"},
            {"name": "judge", "provider": "python", "call": "answers:judge"},
        ],
        "target": "it",
        "judge_target": "judge",
        "evals": [
            {"id": "second-chance", "prompt": "A?", "checks": [{"llm_judge": {"criteria": "good"}}]},
            {"id": "never", "prompt": "B?", "checks": [check]},
        ],
    }


def asked(project: Project) -> list[str]:
    path = project.folder / "asked.txt"
    lines = path.read_text().splitlines() if path.exists() else []
    path.unlink(missing_ok=True)
    return lines


@pytest.mark.slow
@pytest.mark.parametrize("rubbish", ["what a nice answer", '{"passed": true}', '{"better": "maybe"}'])
def test_only_an_unreadable_judge_is_asked_again(
    project: Project, monkeypatch: pytest.MonkeyPatch, rubbish: str
) -> None:
    monkeypatch.setattr("sys.dont_write_bytecode", True)
    project.write("answers.py", JUDGE % rubbish)
    project.write("evals.yaml", suite({"llm_judge": {"criteria": "kind"}}))
    first = project.run_json("run", code=3)
    assert [one["status"] for one in first["results"]] == ["passed", "error"]
    once = [f"{who} {case}" for who in ("candidate", "judge", "judge") for case in ("never", "second-chance")]
    assert sorted(asked(project)) == sorted(once)
    again = project.run_json("resume", "last", "--retry-errors", code=3)
    assert again["results"][0] == first["results"][0]
    assert asked(project) == ["judge never", "judge never"]
    Path(project.folder, "mended").touch()
    mended = project.run_json("resume", "last", "--retry-errors")
    assert [one["status"] for one in mended["results"]] == ["passed", "passed"]
    assert asked(project) == ["judge never"]
    project.run("resume", "last", "--retry-errors")
    assert asked(project) == []


def test_an_answer_that_counts_as_zero_is_no_error(project: Project) -> None:
    project.write("answers.py", JUDGE % "rubbish")
    project.write("evals.yaml", suite({"llm_judge": {"criteria": "kind", "on_invalid": "zero"}}))
    project.run("run", code=1)
    asked(project)
    project.run("resume", "last", "--retry-errors", code=1)
    assert asked(project) == []
