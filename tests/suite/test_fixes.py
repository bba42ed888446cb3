"""A line that is proposed in place of a wrong one is itself right: pasted, it leaves no error at its place."""

from __future__ import annotations

import re
from typing import Any

import pytest

from tests.kit import ROOT, Project

_FENCE = re.compile(r"^```(?:yaml|text|markdown|csv|jsonl?|python) (\S+)\n(.*?)^```", re.MULTILINE | re.DOTALL)


def documented() -> dict[str, dict[str, str]]:
    """The files of each example in docs/reference/errors.md, by the code that it shows."""
    sections = re.split(r"^## ", (ROOT / "docs/reference/errors.md").read_text("utf-8"), flags=re.MULTILINE)[1:]
    found = {section.split()[0]: dict(_FENCE.findall(section)) for section in sections}
    return {code: files for code, files in found.items() if "evals.yaml" in files}


CASE = "evals:\n  - prompt: q\n    checks: [{contains: a}]\n"
TARGETS = "targets:\n  - {name: a, provider: scripted, replies: [x]}\n  - {name: b, provider: scripted, replies: [x]}\n"
MISTAKES = [
    f"{TARGETS}execution:\n  targets: [a, b]\n{CASE}",
    f"{TARGETS}metadata:\n  models: [a, b]\n{CASE}",
    f"{TARGETS}targett: [a, b]\n{CASE}",
    f"{TARGETS}target: a\ntests:\n  - prompt: q\n    checks: [{{contains: a}}]\n",
    f"{TARGETS}target: a\nevals:\n  - question: q\n    checks: [{{contains: a}}]\n",
    f"{TARGETS}target: a\nevals:\n  - input: q\n    checks: [{{contains: a}}]\n",
    f"{TARGETS}target: a\nevals:\n  - messages: [{{role: user, content: q}}]\n    checks: [{{contains: a}}]\n",
    f"{TARGETS}target: a\nevals:\n  - prompt: q\n    checks:\n      - contain: a\n",
    f"{TARGETS}target: a\nevals:\n  - prompt: q\n    checks:\n      - exact: a\n",
    f"{TARGETS}target: a\nevals:\n  - prompt: q\n    checks:\n      - contains: 5\n",
    f"{TARGETS}target: a\nevals:\n  - prompt: q\n    checks:\n      - max_tokens: '5'\n",
    f"{TARGETS}target: a\nevals:\n  - prompt: q\n    pass: 2\n    checks: [{{contains: a}}]\n",
    f"{TARGETS}target: a\nevals:\n  - prompt: q\n    control: afersh\n    checks: [{{contains: a}}]\n",
    f"{TARGETS}target: a\nmetadata:\n  thread: 3\n{CASE}",
    f"{TARGETS}target: a\nvariables: {{x: y}}\n{CASE}",
    f"{TARGETS}metadata:\n  model: gpt-5-mini\n{CASE}",
    f"{TARGETS}metadata:\n  model: antropic/claude-haiku-4-5\n{CASE}",
    f"metadata:\n  model: anthropic/claude-3.5-sonnet\n{CASE}",
    "target: a\ntargets:\n  - name: a\n    provider: openai\n    model: m\n    temprature: 1\n" + CASE,
    "target: a\ntargets:\n  - name: a\n    provider: scriptd\n    replies: [x]\n" + CASE,
    f"{TARGETS}target: a\nevals:\n  - input_messages:\n      - role: human\n        content: q\n    outcome: o\n",
    f"{TARGETS}target: a\nevals:\n  - prompt: Hint: 15 * 7\n    checks: [{{contains: a}}]\n",
    f"{TARGETS}target: a\nevals:\n  - prompt: q\n    checks:\n      - is_json: yes\n",
    f"{TARGETS}target: a\nevals:\n  - prompt: q\n    checks:\n\t  - contains: a\n",
]
CORPUS: dict[str, dict[str, str]] = {
    **documented(),
    **{f"mistake {number}": {"evals.yaml": text} for number, text in enumerate(MISTAKES)},
}


def problems(project: Project) -> list[dict[str, Any]]:
    files = project.validate("evals.yaml")["files"]
    kinds = (("error", "errors"), ("warning", "warnings"))
    return [{**one, "file": file["path"], "kind": kind} for file in files for kind, key in kinds for one in file[key]]


def place(problem: dict[str, Any]) -> tuple[str, int]:
    return problem["file"], problem["line"]


@pytest.mark.parametrize("name", CORPUS)
def test_a_proposed_line_is_valid(project: Project, name: str) -> None:
    for file, text in CORPUS[name].items():
        project.write(file, text)
    before = problems(project)
    known = {(*place(one), one["code"], one.get("path")) for one in before}
    for problem in before:
        if not problem.get("suggestion"):
            continue
        path = project.folder / problem["file"]
        text = path.read_bytes().decode("utf-8")
        lines = text.split("\n")
        lines[problem["line"] - 1] = problem["suggestion"]
        path.write_text("\n".join(lines), "utf-8")
        after = [one for one in problems(project) if one["kind"] == "error" and place(one) == place(problem)]
        after = [one for one in after if one["code"] != "file-not-found"]  # examples name files that they do not have
        new = [one for one in after if (*place(one), one["code"], one.get("path")) not in known]
        same = [one for one in after if (one["code"], one.get("path")) == (problem["code"], problem.get("path"))]
        assert new == same == [], (problem["suggestion"], after)
        path.write_text(text, "utf-8")


def test_the_corpus_has_many_proposals(project: Project) -> None:
    """Else the test above would say nothing."""
    number = 0
    for files in CORPUS.values():
        for file, text in files.items():
            project.write(file, text)
        number += sum(bool(one.get("suggestion")) for one in problems(project))
    assert number >= 25
