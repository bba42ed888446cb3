"""Goldens of DeepEval: the three forms of `save_as`, of one turn and of several."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pytest

from rejoinder.suite.yaml import parse_yaml
from tests.kit import Project, Raw, by_case, refusal

SINGLE: list[Raw] = [
    {
        "input": "Where is order {{ 17 }}?",
        "actual_output": "On its way.",
        "expected_output": "It was lost.",
        "retrieval_context": ["Order 17: lost", "Order 18: sent"],
        "context": ["orders"],
        "name": "lost",
        "comments": "seen in May",
        "source_file": "orders.md",
        "tools_called": [{"name": "find", "inputParameters": {"order": 17}, "output": {"state": "sent"}}],
        "expected_tools": [{"name": "find", "inputParameters": {"order": 17}}, {"name": "log"}],
        "additional_metadata": {"month": 5},
        "custom_column_key_values": {"team": "shop"},
    },
    {"input": "Hello."},
]
SEVERAL: list[Raw] = [
    {
        "scenario": "Ines returns a lamp",
        "turns": [
            {"role": "user", "content": "The lamp is broken.", "retrieval_context": ["returns.md"]},
            {"role": "assistant", "content": "When did you buy it?"},
            {"role": "user", "content": "In May."},
            {"role": "assistant", "content": "Send it back, please."},
        ],
        "expected_outcome": "Ines knows how to return the lamp",
        "user_description": "a calm woman",
    },
    {
        "scenario": "Ines asks for a discount",
        "expected_outcome": "She gets none",
        "persona": {"name": "Ines", "characteristics": "insistent", "voice": "alto"},
        "context": ["She has bought twice", "Discounts are for staff"],
    },
    {"scenario": "Ines says hello", "turns": [{"role": "user", "content": "Hello!"}]},
]
JSON_COLUMNS = ("tools_called", "expected_tools", "additional_metadata", "custom_column_key_values", "turns", "persona")


def save(rows: list[Raw], path: str) -> None:
    """Write goldens as `save_as` does: lists of texts are joined in JSONL and CSV, structures are JSON in CSV."""
    keys = list(dict.fromkeys(key for row in rows for key in row))
    joined = [
        {key: "|".join(value) if key.endswith("context") else value for key, value in row.items()} for row in rows
    ]
    if path.endswith(".json"):
        text = json.dumps([{key: row.get(key) for key in keys} for row in rows], indent=4)
    elif path.endswith(".jsonl"):
        text = "".join(json.dumps({key: row.get(key) for key in keys}) + "\n" for row in joined)
    else:
        with Path(path).open("w", newline="") as stream:
            writer = csv.writer(stream)
            writer.writerow(keys)
            for row in joined:
                cells = {key: json.dumps(value) if key in JSON_COLUMNS else value for key, value in row.items()}
                writer.writerow([cells.get(key) for key in keys])
        return
    Path(path).write_text(text)


def imported(project: Project, path: str, *arguments: str, code: int = 0) -> tuple[Any, Raw]:
    """The suite that was made, and the report."""
    report = project.run_json("import", "deepeval", path, "--out", "made", *arguments, code=code)
    suite = next(file for file in report["files"] if file.endswith(".yaml"))
    return parse_yaml(Path(suite).read_text()).data, report


@pytest.mark.parametrize("form", ["json", "jsonl", "csv"])
def test_a_golden_of_one_turn(project: Project, form: str) -> None:
    save(SINGLE, f"goldens.{form}")
    suite, report = imported(project, f"goldens.{form}")
    assert suite["evals"] == [
        {
            "id": "golden-1",
            "name": "lost",
            "prompt": "Where is order {{ '{{' }} 17 }}?",
            "expected_messages": [{"role": "assistant", "content": "It was lost."}],
            "context": ["Order 17: lost", "Order 18: sent"],
            "checks": [
                {"llm_judge": "Gives the same answer as the reference, and nothing that contradicts it."},
                {"faithful": True},
                {
                    "tool_calls": {
                        "mode": "any_order",
                        "calls": [{"name": "find", "arguments": {"order": 17}}, "log"],
                    }
                },
            ],
            "note": "seen in May",
            "metadata": {
                "month": 5,
                "team": "shop",
                "source_file": "orders.md",
                "context": ["orders"],
            },
        },
        {"id": "golden-2", "prompt": "Hello.", "checks": [{"min_words": 1}]},
    ]
    assert [loss["what"] for loss in report["approximated"]] == ["`retrieval_context`", "`context`"]
    assert report["left_out"] == []
    if form != "json":
        assert {loss["line"] for loss in report["approximated"]} == {1 if form == "jsonl" else 2}


@pytest.mark.parametrize("form", ["json", "jsonl", "csv"])
def test_conversational_goldens_are_plans_and_simulated_users(project: Project, form: str) -> None:
    rows = [{key: value for key, value in row.items() if form != "csv" or key != "persona"} for row in SEVERAL]
    save(rows, f"goldens.{form}")
    suite, report = imported(project, f"goldens.{form}")
    lamp, discount, hello = suite["evals"]
    assert lamp == {
        "id": "golden-1",
        "name": "Ines returns a lamp",
        "execution": {"target": "recorded"},
        "turns": [{"prompt": "The lamp is broken."}, {"prompt": "In May."}],
        "conversation_checks": [{"on": "transcript", "llm_judge": "Ines knows how to return the lamp"}],
    }
    assert discount["user"] == {
        "target": "openai/gpt-5-mini",
        **({} if form == "csv" else {"persona": "Ines: insistent"}),
        "goal": "Ines asks for a discount",
        "knows": "She has bought twice\nDiscounts are for staff",
        "stop": "DONE",
    }
    assert hello["user"]["opening"] == "Hello!"
    assert hello["checks"] == [{"min_words": 1}]
    lost = [loss["what"] for loss in report["left_out"]]
    assert lost == ["`retrieval_context` of a turn", "`user_description`"] + ["`voice` of the persona"] * (
        form != "csv"
    )


def test_recorded_replies_are_graded_without_a_model(project: Project) -> None:
    save(SINGLE[:1], "single_goldens.json")
    save(SEVERAL[:1], "goldens.json")
    project.run("import", "deepeval", ".", "--out", "made")
    project.write(
        ".rejoinder/targets.yaml",
        {"targets": [{"name": "grader", "provider": "scripted", "judge": [1, 0]}]},
    )
    for file in Path("made").glob("*.yaml"):
        file.write_text(file.read_text().replace("judge_target: openai/gpt-5-mini", "judge_target: grader"))
    document = project.run_json("run", "made/goldens.evals.yaml", code=0)
    assert [turn["response"] for turn in document["results"][0]["turns"]] == [
        "When did you buy it?",
        "Send it back, please.",
    ]
    lost = by_case(project.run_json("run", "made/single.goldens.evals.yaml", "-m", "recorded", code=1))["golden-1"]
    assert lost["turns"][0]["response"] == "On its way."
    assert [call["name"] for call in lost["turns"][0]["tool_calls"]] == ["find"]


def test_turns_in_an_unusual_order_are_said(project: Project) -> None:
    turns = [
        {"role": "assistant", "content": "Welcome!"},
        {"role": "user", "content": "Hello."},
        {"role": "user", "content": "Are you there?"},
        {"role": "assistant", "content": "Yes."},
        {"role": "user", "content": "Good."},
    ]
    save([{"scenario": "s", "turns": turns}], "goldens.json")
    suite, report = imported(project, "goldens.json", "--strict", code=1)
    assert suite["evals"][0]["turns"] == [{"prompt": "Hello.\n\nAre you there?"}]
    assert [loss["what"] for loss in report["left_out"]] == [
        "the assistant's first words",
        "the last message of the user",
    ]
    assert [loss["what"] for loss in report["approximated"]] == ["a second message of the user"]
    [talk] = map(json.loads, Path("made/goldens.recorded.jsonl").read_text().splitlines())
    assert [message["content"] for message in talk["messages"]] == ["Hello.\n\nAre you there?", "Yes."]


def test_goldens_under_a_key_and_with_names_of_typescript(project: Project) -> None:
    golden = {"input": "Say [DEEPEVAL:IMAGE:1]", "expectedOutput": "A cat", "retrievalContext": ["a"], "odd": 1}
    project.write("x.json", {"goldens": [golden, {"nothing": 1}]})
    suite, report = imported(project, "x.json")
    [case] = suite["evals"]
    assert case["expected_messages"][0]["content"] == "A cat"
    assert case["metadata"] == {"odd": 1}
    assert (case["context"], {"faithful": True} in case["checks"]) == (["a"], True)
    assert [loss["what"] for loss in report["left_out"]] == ["a picture", "a golden"]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ([], "there are no goldens in it"),
        ([{"scenario": "s", "turns": "[{"}], "this is no JSON"),
        ({"evals": []}, "there are no goldens in it"),
        ("text", "there are no goldens in it"),
    ],
)
def test_files_that_cannot_be_imported(project: Project, content: Any, message: str) -> None:
    project.write("goldens.json", content)
    assert f"goldens.json:1: {message}" in refusal(project, "import", "deepeval", "goldens.json", "--out", "made")
    assert not Path("made").exists()
