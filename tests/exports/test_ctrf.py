"""CTRF: valid by its schema, counted as it counts, and broken by no reply."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

import jsonschema_rs
import pytest
from hypothesis import given

from tests.kit import Raw, bounded
from tests.report.exports import OBEYED, MadeRun, hostile, hostile_texts, made_run, mixed, result, written


@cache
def schema() -> jsonschema_rs.Validator:
    data = json.loads((Path(__file__).parent / "data/ctrf.schema.json").read_text())
    return jsonschema_rs.validator_for(data, validate_formats=True)


def read(run: MadeRun) -> Raw:
    document = json.loads(written("ctrf", run))
    assert [str(error) for error in schema().iter_errors(document)] == []
    return document


def test_the_schema_refuses_what_is_not_ctrf() -> None:
    document = read(mixed())
    document["results"]["tests"][0]["status"] = "error"
    assert not schema().is_valid(document)


def test_tests_are_counted_and_errors_are_neither_passed_nor_failed() -> None:
    results = read(mixed())["results"]
    summary = results["summary"]
    counts = {key: summary[key] for key in ("tests", "passed", "failed", "skipped", "pending", "other", "flaky")}
    assert counts == {"tests": 7, "passed": 2, "failed": 3, "skipped": 1, "pending": 0, "other": 1, "flaky": 1}
    assert (summary["start"], summary["stop"] - summary["start"], summary["suites"]) == (1794830400000, 9500, 2)
    broken = results["tests"][3]
    assert (broken["name"], broken["status"], broken["rawStatus"]) == ("broken / demo", "other", "error")
    assert broken["message"] == "HTTP 500"


def test_turns_are_steps_and_trials_are_attempts() -> None:
    tests = {test["name"].split()[0]: test for test in read(mixed())["results"]["tests"]}
    assert [step["status"] for step in tests["recovers"]["steps"]] == ["failed", "passed"]
    assert tests["recovers"]["status"] == "passed"
    often = tests["often"]
    assert [attempt["status"] for attempt in often["retryAttempts"]] == ["passed", "passed", "failed"]
    assert (often["status"], often["flaky"], often["extra"]["pass_rate"]) == ("failed", True, pytest.approx(2 / 3))
    assert (often["filePath"], often["line"], often["suite"]) == ("suites/evals.yaml", 12, ["arithmetic"])


def test_a_run_without_results_or_times_is_a_document() -> None:
    summary = read(made_run([], started_at=None, finished_at=None))["results"]["summary"]
    assert (summary["tests"], summary["start"], summary["stop"]) == (0, 0, 9500)


def test_a_time_that_is_none_is_left_out() -> None:
    assert "timestamp" not in read(made_run([result(timestamp="soon")], finished_at="later"))


@bounded(100)
@given(hostile_texts)
def test_no_text_breaks_the_document(text: str) -> None:
    run = hostile(text)
    assert not OBEYED.search(written("ctrf", run))
    tests = read(run)["results"]["tests"]
    assert [test["status"] for test in tests] == ["failed", "other", "failed", "skipped", "failed", "failed", "passed"]
