"""JUnit XML: valid by its schema, read by junitparser as it was meant, and broken by no reply."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import xmlschema
from hypothesis import given
from junitparser import xunit2

from tests.kit import bounded
from tests.report import exports


@cache
def schema() -> xmlschema.XMLSchema:
    return xmlschema.XMLSchema(Path(__file__).parent / "data/junit.xsd")


def read(run: exports.MadeRun) -> tuple[str, list[Any]]:
    """The text, which the schema allows, and its suites as junitparser reads them."""
    text = exports.written("junit", run)
    schema().validate(text)
    return text, list(xunit2.JUnitXml.fromstring(text.encode()))


def test_suites_and_tests_are_counted_as_junit_counts() -> None:
    _, [arithmetic, words] = read(exports.mixed())
    counts = [(suite.name, suite.tests, suite.failures, suite.errors, suite.skipped) for suite in (arithmetic, words)]
    assert counts == [("arithmetic", 6, 2, 1, 1), ("words", 1, 1, 0, 0)]
    assert [case.name for case in arithmetic] == [
        *("times / demo", "recovers / demo", "square / demo", "broken / demo", "unasked / demo", "often / demo")
    ]
    by_name = {case.name.split()[0]: case for case in arithmetic}
    kinds = {name: [type(ending).__name__ for ending in case.result] for name, case in by_name.items()}
    assert kinds["times"] == kinds["recovers"] == []
    assert (kinds["square"], kinds["broken"], kinds["unasked"]) == (["Failure"], ["Error"], ["Skipped"])
    [failure] = by_name["square"].result
    assert failure.message == 'match "*105*": *105* is not in it'
    assert by_name["broken"].result[0].type == "server"


def test_a_test_has_the_place_of_its_case_and_its_conversation() -> None:
    text, [suite] = read(exports.made_run([exports.failed("square", "not 105\nbut 7")]))
    assert 'file="suites/evals.yaml" line="12"' in text
    [case] = suite
    assert case.time == 1.5
    assert case.system_out.splitlines()[3:6] == ["  reply", "  | not 105", "  | but 7"]


def test_trials_of_a_case_are_one_test_with_its_rate() -> None:
    _, [suite, _] = read(exports.mixed())
    [case] = [case for case in suite if case.name.startswith("often")]
    properties = {one.name: one.value for one in case.properties()}
    assert (properties["rejoinder.trials"], properties["rejoinder.passed"]) == ("3", "2")
    rate, low, high = (float(properties[f"rejoinder.{name}"]) for name in ("pass_rate", "ci_low", "ci_high"))
    assert 0.2 < low < rate < high < 0.95
    assert [type(ending).__name__ for ending in case.result] == ["Failure"]
    assert "Trial 3: failed" in case.system_out


def test_a_failure_is_shown_however_many_errors_come_before_it() -> None:
    trials = [exports.in_error("often", trial=trial) for trial in range(1, 9)]
    _, [suite] = read(exports.made_run([*trials, exports.failed("often", trial=9)]))
    [case] = suite
    assert [type(ending).__name__ for ending in case.result] == ["Failure"]


def test_a_run_without_results_is_a_document() -> None:
    assert read(exports.made_run([]))[1] == []


@bounded(60)
@given(exports.hostile_texts)
def test_no_text_breaks_the_document(text: str) -> None:
    run = exports.hostile(text)
    document, suites = read(run)
    assert not exports.OBEYED.search(document)
    assert [case.name for suite in suites for case in suite][-1].startswith("three")
    assert sum(len(suite) for suite in suites) == 7
