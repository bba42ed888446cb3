"""Data sets of Inspect: the three forms, the scorers, and what belongs to a sandbox."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pytest

from rejoinder.suite.yaml import parse_yaml
from tests.kit import Project, Raw, refusal, statuses

SAMPLES: list[Raw] = [
    {"input": "Capital of {{ Italy }}?", "target": "Rome", "id": "rome", "metadata": {"level": 1}, "note": "easy"},
    {"input": "A colour of the flag?", "target": ["green", "white", "red"]},
    {"input": "Say anything."},
]


def save(rows: list[Raw], path: str) -> None:
    keys = list(dict.fromkeys(key for row in rows for key in row))
    if path.endswith(".csv"):
        with Path(path).open("w", newline="") as stream:
            writer = csv.writer(stream)
            writer.writerow(keys)
            for row in rows:
                cells = [row.get(key) for key in keys]
                writer.writerow([json.dumps(cell) if isinstance(cell, dict | list) else cell for cell in cells])
    elif path.endswith(".jsonl"):
        Path(path).write_text("".join(json.dumps(row) + "\n" for row in rows))
    else:
        Path(path).write_text(json.dumps(rows))


def imported(project: Project, path: str, *arguments: str, code: int = 0) -> tuple[Any, Raw]:
    """The suite that was made, and the report."""
    report = project.run_json("import", "inspect", path, "--out", "made", *arguments, code=code)
    suite = next(file for file in report["files"] if file.endswith(".yaml"))
    return parse_yaml(Path(suite).read_text()).data, report


@pytest.mark.parametrize("form", ["json", "jsonl", "csv"])
def test_samples_are_cases(project: Project, form: str) -> None:
    save(SAMPLES, f"flags.{form}")
    suite, report = imported(project, f"flags.{form}", "--check", "includes")
    colours = (
        {"icontains": '["green", "white", "red"]'} if form == "csv" else {"icontains_any": ["green", "white", "red"]}
    )
    assert suite["evals"] == [
        {
            "id": "rome",
            "prompt": "Capital of {{ '{{' }} Italy }}?",
            "checks": [{"icontains": "Rome"}],
            "metadata": {"level": 1, "note": "easy"},
        },
        {"id": "sample-2", "prompt": "A colour of the flag?", "checks": [colours]},
        {"id": "sample-3", "prompt": "Say anything.", "checks": [{"min_words": 1}]},
    ]
    assert report["approximated"] == report["left_out"] == []


@pytest.mark.parametrize(
    ("check", "passing", "failing"),
    [
        ("includes", "It is rome, I think.", "Milan"),
        ("match", "It is 'Rome'.\n", "Rome, or Milan"),
        ("exact", " rome ", "It is Rome"),
    ],
)
def test_a_scorer_passes_and_fails_what_it_would_in_inspect(
    project: Project, check: str, passing: str, failing: str
) -> None:
    save([{"id": name, "input": "Capital?", "target": "Rome"} for name in ("good", "bad")], "x.jsonl")
    imported(project, "x.jsonl", "--check", check)
    bot = {"name": "bot", "provider": "scripted", "replies": {"good": [passing], "bad": [failing]}}
    project.write(".rejoinder/targets.yaml", {"targets": [bot]})
    document = project.run_json("run", "made/x.evals.yaml", "-m", "bot", code=1)
    assert statuses(document) == {"good": "passed", "bad": "failed"}


def test_without_a_scorer_the_report_says_what_was_chosen(project: Project) -> None:
    save(SAMPLES[:1], "x.jsonl")
    suite, report = imported(project, "x.jsonl", "--strict", code=1)
    assert suite["evals"][0]["checks"] == [{"icontains": "Rome"}]
    [loss] = report["approximated"]
    assert (loss["what"], "--check" in loss["how"]) == ("the scorer", True)
    graded, report = imported_again(project, "model_graded")
    assert graded["judge_target"] == "openai/gpt-5-mini"
    assert graded["evals"][0]["expected_messages"] == [{"role": "assistant", "content": "Rome"}]
    assert [loss["what"] for loss in report["approximated"]] == ["the scorer `model_graded`"]


def imported_again(project: Project, check: str) -> tuple[Any, Raw]:
    report = project.run_json("import", "inspect", "x.jsonl", "--out", f"made-{check}", "--check", check)
    return parse_yaml(Path(report["files"][0]).read_text()).data, report


def test_choices_are_letters(project: Project) -> None:
    save([{"input": "Smallest?", "choices": [1, "two {{x}}"], "target": "A"}], "x.json")
    suite, report = imported(project, "x.json")
    [case] = suite["evals"]
    assert "A) 1\nB) two {{ '{{' }}x}}\n" in case["prompt"]
    assert case["checks"] == [{"regex": r"(?i)ANSWER\s*:\s*A\b"}]
    assert [loss["what"] for loss in report["approximated"]] == ["the solver and scorer of choices"]


def test_messages_with_tools(project: Project) -> None:
    messages = [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": [{"type": "text", "text": "Weather?"}]},
        {
            "role": "assistant",
            "content": "",
            "tool_calls": [{"id": "1", "function": "look", "arguments": {"city": "Oslo"}, "type": "function"}],
        },
        {"role": "tool", "content": "-3", "tool_call_id": "1", "function": "look"},
        {"role": "user", "content": "So?"},
    ]
    picture = [{"role": "user", "content": [{"type": "image", "image": "x.png"}]}]
    rows = [{"input": messages, "target": "cold"}, {"input": picture}, {"input": [{"role": "robot", "content": "x"}]}]
    save([*rows, {"input": [*messages, {"role": "assistant", "content": "x"}]}, {"target": "x"}], "x.jsonl")
    suite, report = imported(project, "x.jsonl")
    [case] = suite["evals"]
    assert [message["role"] for message in case["input_messages"]] == ["system", "user", "assistant", "tool", "user"]
    assert case["input_messages"][2]["tool_calls"] == [{"id": "1", "name": "look", "arguments": {"city": "Oslo"}}]
    assert [(loss["line"], loss["how"]) for loss in report["left_out"]] == [
        (2, "a message has content that is not text"),
        (3, "a message has the role 'robot'"),
        (4, "its last message is not the user's"),
        (5, "it has no input"),
    ]
    assert project.validate("made/x.evals.yaml")["files"][0]["errors"] == []


def test_files_are_attached_and_a_sandbox_is_left_out(project: Project) -> None:
    project.write("data/flag.txt", "hidden")
    files = {"flag.txt": "data/flag.txt", "note.txt": "text\nof two lines", "away": "../../etc/passwd"}
    save([{"input": "Find it.", "target": "hidden", "files": files, "sandbox": "docker", "setup": "ls"}], "x.jsonl")
    suite, report = imported(project, "x.jsonl")
    [message] = suite["evals"][0]["input_messages"]
    assert message["content"] == ["Find it.", {"type": "file", "value": "data/flag.txt"}]
    assert Path("made/data/flag.txt").read_text() == "hidden"
    assert [loss["what"] for loss in report["left_out"]] == [
        "`sandbox`",
        "`setup`",
        "the file 'note.txt'",
        "the file 'away'",
    ]


def test_columns_with_other_names_are_read_and_said_once(project: Project) -> None:
    save([{"question": "Capital?", "answer": "Rome"}, {"question": "River?", "answer": "Tiber"}], "x.csv")
    suite, report = imported(project, "x.csv")
    assert [case["prompt"] for case in suite["evals"]] == ["Capital?", "River?"]
    assert [loss["what"] for loss in report["approximated"]] == ["`question`", "`answer`", "the scorer"]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("x.json", "[]", "x.json:1: there are no samples in it"),
        ("x.json", "{}", "x.json:1: there are no samples in it"),
        ("x.jsonl", '{"input": "a"}\n{"input"', "x.jsonl:2: this line ends before the object is closed"),
        ("x.csv", 'input,target\n"a', "x.csv:2: a quote that opens in this row is never closed"),
        ("x.csv", f"input\n{'a' * 200_000}\n", "x.csv:2: a cell of this row has more than 131,072 characters"),
    ],
)
def test_files_that_cannot_be_imported(project: Project, name: str, content: str, message: str) -> None:
    project.write(name, content)
    assert message in refusal(project, "import", "inspect", name)
