"""What judges and code evaluators see of a case's `expected_messages`."""

from __future__ import annotations

from typing import Any

import pytest

from tests.kit import Project, codes, scripted, spec

TWO_FILES = [{"type": "file", "value": "./snippets/a.py"}, {"type": "file", "value": "./snippets/b.py"}]


@pytest.fixture
def snippets(project: Project) -> Project:
    project.write("snippets/a.py", "a = 1\n")
    project.write("snippets/b.py", "b = 2\n")
    return project


def reference(project: Project, expected: list[Any], *arguments: str, **suite: Any) -> str:
    case = {"prompt": "q", "outcome": "o", "expected_messages": expected}
    shown = project.prompt(case, "--judge", "--reply", "R", *arguments, **suite)
    [judge] = shown["judge_prompts"]
    return judge["user"].partition("[[ ## reference_answer ## ]]\n")[2].partition("\n\n[[ ## candidate_answer")[0]


@spec("P33")
@pytest.mark.parametrize("mode", ["lm", "agent"])
@pytest.mark.parametrize(
    ("profile", "wanted"),
    [
        ("spec", '<file path="./snippets/a.py">\na = 1\n</file>\n\n<file path="./snippets/b.py">\nb = 2\n</file>'),
        ("agentv", '<file path="./snippets/a.py">\na = 1\n</file>\n\n<file path="./snippets/b.py">\nb = 2\n</file>'),
        ("legacy", "=== ./snippets/a.py ===\na = 1\n\n=== ./snippets/b.py ===\nb = 2"),
    ],
)
def test_files_keep_their_boundaries(snippets: Project, profile: str, mode: str, wanted: str) -> None:
    expected = [{"role": "assistant", "content": TWO_FILES}]
    assert reference(snippets, expected, "--mode", mode, formatting={"profile": profile}) == wanted


@spec("P33")
def test_text_and_files_are_separated_by_a_blank_line_and_texts_by_a_newline(snippets: Project) -> None:
    mixed = [{"role": "assistant", "content": ["Like this:", TWO_FILES[0]]}]
    assert reference(snippets, mixed) == 'Like this:\n\n<file path="./snippets/a.py">\na = 1\n</file>'
    texts = [{"role": "assistant", "content": ["one", "two"]}]
    assert reference(snippets, texts) == "one\ntwo"


@pytest.mark.slow
@spec("P33")
def test_code_evaluators_get_the_boundaries_too(snippets: Project) -> None:
    script = (
        "import json,sys; d=json.load(sys.stdin);"
        "ok='</file>' in d['reference_answer'] and '</file>' in d['expected_messages'][0]['content'];"
        "print(json.dumps({'score': float(ok)}))"
    )
    snippets.write("grade.py", script)
    case = {
        "prompt": "q",
        "expected_messages": [{"role": "assistant", "content": TWO_FILES}],
        "checks": [{"code": ["python3", "grade.py"], "threshold": 1}],
    }
    targets = [scripted("t", "x")]
    snippets.write("evals.yaml", {"targets": targets, "evals": [case]})
    snippets.run("run", code=0)


@spec("P33")
def test_without_an_assistant_message_the_last_message_counts(project: Project) -> None:
    expected = [{"role": "user", "content": "first"}, {"role": "tool", "content": "last"}]
    assert reference(project, expected) == "last"
    case = {"prompt": "q", "outcome": "o", "expected_messages": expected}
    [warning] = project.warnings({"target": "scripted/x", "evals": [case]})
    assert (warning["code"], warning["path"]) == ("no-assistant-message", "evals[0].expected_messages[1]")


@spec("P33")
def test_an_assistant_message_anywhere_gives_no_warning(project: Project) -> None:
    expected = [{"role": "assistant", "content": "answer"}, {"role": "user", "content": "thanks"}]
    assert reference(project, expected) == "answer"
    case = {"prompt": "q", "outcome": "o", "expected_messages": expected}
    assert codes(project.warnings({"target": "scripted/x", "evals": [case]})) == []


@spec("P33")
def test_a_reply_is_compared_with_the_files_of_the_reference(snippets: Project) -> None:
    case = {
        "prompt": "q",
        "expected_messages": [{"role": "user", "content": TWO_FILES}],
        "checks": [{"compare": {}}],
    }
    snippets.write("evals.yaml", {"target": "scripted/x", "evals": [case]})
    [shown] = snippets.run_json("prompt", "evals.yaml", "--judge", "--reply", "R")
    assert '<file path="./snippets/b.py">' in shown["judge_prompts"][0]["user"]
