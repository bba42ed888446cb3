"""The conformance cases, through the public commands."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

import rejoinder
from rejoinder.checks.patterns import find_match
from rejoinder.formatting.globs import matches_path
from tests.kit import Project, run

CASES: list[dict[str, Any]] = yaml.load(
    (Path(__file__).parent / "conformance" / "cases.yaml").read_text(encoding="utf-8"),
    Loader=yaml.CSafeLoader,
)["cases"]


def of_kind(kind: str) -> Any:
    found = [pytest.param(case, id=case["name"]) for case in CASES if case["kind"] == kind]
    assert found
    return pytest.mark.parametrize("case", found)


def test_every_kind_is_tested_here() -> None:
    kinds = {case["kind"] for case in CASES}
    assert kinds == {
        *("format", "provider_messages", "guideline_match", "evaluator_prompt", "schema", "toon", "yaml_error"),
        *("followup", "match_pattern", "display"),
    }


def suite_of(given: dict[str, Any], project: Project) -> tuple[dict[str, Any], list[str]]:
    """The suite and the arguments that say what a formatting case says."""
    for path, content in given.get("files", {}).items():
        project.write(path, content)
    suite: dict[str, Any] = {"metadata": {"model": "scripted/x"}}
    if "system_prompt" in given:
        suite["metadata"]["system_prompt"] = given["system_prompt"]
    formatting = dict(given.get("options", {}))
    if "default_system_prompt" in given:
        formatting["default_system_prompt"] = given["default_system_prompt"]
    if formatting:
        suite["formatting"] = formatting
    if "guideline_patterns" in given:
        suite["guideline_patterns"] = given["guideline_patterns"]
    case: dict[str, Any] = {"input_messages": given["input_messages"]}
    case["outcome"] = given.get("expected_outcome", "Good.")
    if "reference_answer" in given:
        case["expected_messages"] = [{"role": "assistant", "content": given["reference_answer"]}]
    suite["evals"] = [case]
    return suite, ["--mode", given.get("mode", "lm")]


def relative(diagnostics: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{**one, "at": one["at"].removeprefix("evals[0].")} for one in diagnostics]


def assert_diagnostics(found: list[dict[str, Any]], expected: list[dict[str, Any]]) -> None:
    found = relative(found)
    assert len(found) == len(expected), found
    for one, wanted in zip(found, expected, strict=True):
        assert {key: one.get(key) for key in wanted} == wanted


@of_kind("format")
def test_format(case: dict[str, Any], project: Project) -> None:
    suite, arguments = suite_of(case["input"], project)
    [shown] = project.prompts(suite, *arguments)
    expected = dict(case["expected"])
    if "diagnostics" in expected:
        assert_diagnostics(shown["diagnostics"], expected.pop("diagnostics"))
    assert {key: shown[key] for key in expected} == expected


@of_kind("provider_messages")
def test_provider_messages(case: dict[str, Any], project: Project) -> None:
    suite, arguments = suite_of(case["input"], project)
    [shown] = project.prompts(suite, *arguments)
    assert shown["messages"] == case["expected"]["messages"]


@of_kind("guideline_match")
def test_guideline_match(case: dict[str, Any]) -> None:
    given = case["input"]
    assert matches_path(given["path"], tuple(given["patterns"])) is case["expected"]["guideline"]


@of_kind("evaluator_prompt")
def test_evaluator_prompt(case: dict[str, Any], project: Project) -> None:
    given, expected = case["input"], case["expected"]
    suite, arguments = suite_of(given, project)
    [shown] = project.prompts(suite, *arguments, "--judge", "--reply", given["candidate_answer"])
    [judge] = shown["judge_prompts"]
    sections = judge["user"][judge["user"].index("[[ ## ") :]
    if "prompt" in expected:
        assert sections == expected["prompt"]
    if "question" in expected:
        assert shown["question"] == expected["question"]
    if expected.get("same_question"):
        inside = re.search(r"\[\[ ## question ## \]\]\n(.*)\n\n\[\[ ## reference_answer", sections, re.DOTALL)
        assert inside and inside[1] == shown["question"]
    for text in expected.get("not_contains", ()):
        assert text not in judge["user"]
    if "diagnostics" in expected:
        assert_diagnostics(shown["diagnostics"], expected["diagnostics"])


@of_kind("schema")
def test_schema(case: dict[str, Any], project: Project) -> None:
    found = project.errors({"metadata": {"model": "scripted/x"}, "evals": [case["input"]["eval"]]})
    relative = [{"code": one["code"], "path": one["path"].removeprefix("evals[0].")} for one in found]
    assert relative == case["expected"]["errors"]


@of_kind("toon")
def test_toon(case: dict[str, Any]) -> None:
    assert rejoinder.to_toon(case["input"]["messages"]) == case["expected"]["text"]


@of_kind("yaml_error")
def test_yaml_error(case: dict[str, Any], project: Project) -> None:
    expected = case["expected"]["error"]
    [error] = project.errors(case["input"]["text"])
    assert {key: error.get(key) for key in expected} == expected


# Conversations


def conversation_suite(given: dict[str, Any]) -> dict[str, Any]:
    target: dict[str, Any] = {"name": "script", "provider": "scripted", "replies": given["replies"]}
    if "judge" in given:
        target["judge"] = given["judge"]
    metadata: dict[str, Any] = {"model": "script", **given.get("options", {})}
    if "system_prompt" in given:
        metadata["system_prompt"] = given["system_prompt"]
    return {"metadata": metadata, "targets": [target], "evals": [given["eval"]]}


def run_one(project: Project, given: dict[str, Any]) -> dict[str, Any]:
    document = run(project, conversation_suite(given), "--include", "messages")
    [result] = document["results"]
    return result


def assert_contains(found: Any, wanted: Any, place: str = "") -> None:
    """Every key that is wanted is there with its value; lists have the same length."""
    if isinstance(wanted, dict):
        for key, value in wanted.items():
            assert_contains(found[key], value, f"{place}.{key}")
    elif isinstance(wanted, list):
        assert len(found) == len(wanted), place
        for position, value in enumerate(wanted):
            assert_contains(found[position], value, f"{place}[{position}]")
    else:
        assert found == wanted, place


@of_kind("followup")
def test_followup(case: dict[str, Any], project: Project) -> None:
    given, expected = case["input"], dict(case["expected"])
    result = run_one(project, given)
    sent = [turn["messages"] for turn in result["turns"]]
    if "sent" in expected:
        assert sent == expected.pop("sent")
    if "sent_prompts" in expected:
        assert [messages[-1]["content"] for messages in sent] == expected.pop("sent_prompts")
    if "unused_replies" in expected:
        assert len(given["replies"]) - len(sent) == expected.pop("unused_replies")
    assert_contains(result, expected)


@of_kind("match_pattern")
def test_match_pattern(case: dict[str, Any]) -> None:
    given = case["input"]
    assert (find_match(given["pattern"], given["response"]) is not None) is case["expected"]["passed"]


@of_kind("display")
def test_display(case: dict[str, Any], project: Project) -> None:
    project.write("evals.yaml", conversation_suite(case["input"]))
    output = project.run("run", "evals.yaml", "--verbose", code=None)
    assert output.startswith(f"{case['expected']['text']}\n")
