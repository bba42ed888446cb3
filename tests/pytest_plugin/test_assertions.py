"""`rejoinder.testing`: assertions that never pass without an honest answer."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import rejoinder
from rejoinder.runs.report import RunReport
from rejoinder.testing import (
    assert_all_passed,
    assert_failed_count,
    assert_no_worse,
    assert_passed,
    assert_passed_count,
    assert_rate,
    assert_rate_above,
    assert_rate_below,
    cases,
)
from rejoinder.testing.item_names import RESERVED, ItemNames, mark_of
from tests.kit import Project, Raw, bounded, case, follow, scripted, spec
from tests.pytest_plugin.session_kit import BAD, GOOD, suite

ERROR = {"error": "out of order"}


def report_of(project: Project, *given: Raw, repeat: int = 1, **more: object) -> RunReport:
    return rejoinder.run(project.write("evals.yaml", suite(*given, **more)), repeat=repeat)


@pytest.fixture
def half(project: Project) -> RunReport:
    return report_of(project, case("good", GOOD), case("bad", BAD))


@pytest.fixture
def broken(project: Project) -> RunReport:
    """Nine of ten pass, and one ends in an error."""
    replies = {"c0": [ERROR], "*": ["105"]}
    return report_of(project, *(case(f"c{n}", GOOD) for n in range(10)), replies=replies)


@spec("3B")
def test_a_run_passes_if_all_of_it_passed(project: Project, half: RunReport) -> None:
    assert_passed(report_of(project, case("good", GOOD)))
    with pytest.raises(AssertionError, match="bad") as told:
        assert_passed(half)
    assert '\n  contains "106": the reply does not contain it\n  < 15 * 7 = 105\n' in str(told.value)
    assert f"rejoinder show {half.run.id}" in str(told.value)
    good, bad = half.results
    assert_passed(good)
    with pytest.raises(AssertionError, match="the reply does not contain it"):
        assert_passed(bad)
    assert assert_all_passed is assert_passed


def test_rates_are_final_or_of_the_first_try(project: Project) -> None:
    replies = {"*": ["106", "105"]}
    report = report_of(project, case("a", GOOD, follow("Again.", GOOD)), case("b", BAD), replies=replies)
    assert_rate(report, at_least=1)
    assert_rate(report, at_least=0.5, of="first_try")
    with pytest.raises(AssertionError, match=r"first-try pass rate 50% .*, 1 of 2 passed; wanted at least 0\.9"):
        assert_rate(report, at_least=0.9, of="first_try")
    with pytest.raises(AssertionError, match="also as the lower end of the interval"):
        assert_rate(report, at_least=0.9, surely=True)
    with pytest.raises(rejoinder.UsageError, match=r"Write 0\.9 for 90%"):
        assert_rate(report, at_least=90)
    with pytest.raises(rejoinder.UsageError, match="no rate of 'eventual'"):
        assert_rate(report, at_least=0.9, of="eventual")  # pyright: ignore[reportArgumentType]


def test_many_trials_are_surely_good(project: Project) -> None:
    report = report_of(project, *(case(f"c{n}", GOOD) for n in range(60)))
    assert_rate(report, at_least=0.9, surely=True)


EVERY: list[Callable[[RunReport], None]] = [
    assert_passed,
    lambda report: assert_rate(report, at_least=0),
    lambda report: assert_rate(report, at_least=0, of="first_try", surely=True),
    lambda report: assert_rate_above(report, 0),
    lambda report: assert_rate_below(report, 1),
    lambda report: assert_passed_count(report, report.summary.passed),
    lambda report: assert_failed_count(report, report.summary.failed),
    lambda report: assert_no_worse(report, "main"),
]


@spec("3B")
@pytest.mark.parametrize("check", EVERY)
def test_nothing_passes_with_errors(broken: RunReport, check: Callable[[RunReport], None]) -> None:
    with pytest.raises(AssertionError, match="out of order"):
        check(broken)


@spec("3B")
@pytest.mark.parametrize("check", EVERY)
def test_nothing_passes_if_the_run_is_not_finished(project: Project, check: Callable[[RunReport], None]) -> None:
    """`fail_fast` leaves conversations out."""
    file = project.write("evals.yaml", suite(*(case(f"c{n}", BAD if n == 0 else GOOD) for n in range(30))))
    report = rejoinder.run(file, pace=rejoinder.Pace(fail_fast=True, workers=1))
    assert report.summary.skipped
    with pytest.raises(AssertionError, match="the run is not finished: "):
        check(report)


@pytest.mark.parametrize("check", EVERY[1:-1])
def test_nothing_passes_if_no_conversation_counts(project: Project, check: Callable[[RunReport], None]) -> None:
    apart = {"quarantine": {"until": "2999-01-01", "reason": "new"}}
    report = report_of(project, case("bad", GOOD, **apart))
    with pytest.raises(AssertionError):
        check(report)


def test_all_in_quarantine_is_not_passed(project: Project) -> None:
    report = report_of(project, case("good", GOOD, quarantine={"until": "2999-01-01", "reason": "new"}))
    with pytest.raises(AssertionError, match="nothing counts: 1 conversation in quarantine"):
        assert_passed(report)


@pytest.mark.parametrize("check", EVERY)
def test_errors_in_quarantine_are_no_expected_failure(project: Project, check: Callable[[RunReport], None]) -> None:
    apart = {"quarantine": {"until": "2999-01-01", "reason": "new"}}
    report = rejoinder.run(project.write("evals.yaml", suite(case("silent", GOOD, **apart), replies={"*": []})))
    with pytest.raises(rejoinder.RejoinderError, match="nothing counts: 1 conversation in quarantine, 1 error"):
        check(report)


def test_a_comparison_without_rules_is_refused(project: Project) -> None:
    """It passed, whatever the run was like."""
    good = report_of(project, case("a", GOOD))
    broken = report_of(project, case("a", BAD))
    with pytest.raises(rejoinder.UsageError, match="a gate without a rule decides nothing"):
        assert_no_worse(broken, good, rules=[])
    with pytest.raises(rejoinder.UsageError, match="a gate without a rule decides nothing"):
        rejoinder.gate(good, rules=[])
    with pytest.raises(rejoinder.UsageError, match="Give `against=`"):
        rejoinder.gate(good)


def test_several_targets_have_rates_of_their_own(project: Project) -> None:
    targets = [scripted("good", "105"), scripted("bad", "none")]
    file = project.write("evals.yaml", suite(case("a", GOOD), case("b", GOOD), targets=targets, target="good"))
    report = rejoinder.run(file, selection=rejoinder.Selection(targets=("good", "bad")))
    with pytest.raises(AssertionError, match="several targets have no common rate; name one with target=: bad, good"):
        assert_rate(report, at_least=0)
    assert_rate(report, at_least=1, target="good")
    assert_rate_above(report, 0.99, target="good")
    assert_rate_below(report, 0.01, target="bad")
    assert_passed_count(report, 2, target="good")
    assert_failed_count(report, 2, target="bad")
    with pytest.raises(AssertionError, match=r"wanted at least 0\.5"):
        assert_rate(report, at_least=0.5, target="bad")
    with pytest.raises(rejoinder.UsageError, match="no target `god`; did you mean `good`"):
        assert_rate(report, at_least=0.5, target="god")


def test_matchers_of_vibecheck_are_strict(half: RunReport) -> None:
    assert_rate_above(half, 0.49)
    assert_rate_below(half, 0.51)
    for matcher in (assert_rate_above, assert_rate_below):
        with pytest.raises(AssertionError, match=r"final pass rate 50% .*; wanted (above|below) 0.5"):
            matcher(half, 0.5)
    assert_passed_count(half, 1)
    assert_failed_count(half, 1)
    with pytest.raises(AssertionError, match="1 of 2 passed; wanted 2"):
        assert_passed_count(half, 2)


def test_no_worse_is_the_gate_and_cannot_tell_is_an_expected_failure(project: Project) -> None:
    many = [case(f"c{n}", GOOD) for n in range(30)]
    rejoinder.bless(report_of(project, *many), "main")
    assert_no_worse(report_of(project, *many), "main", rules=["no-new-failures"])
    worse = report_of(project, *many, replies={"*": ["none"]})
    with pytest.raises(AssertionError, match="gate failed"):
        assert_no_worse(worse, "main")
    two = [case("a", GOOD), case("b", GOOD)]
    rejoinder.bless(report_of(project, *two), "small")
    again = report_of(project, *two)
    with pytest.raises(pytest.xfail.Exception, match="gate cannot tell"):
        assert_no_worse(again, "small")
    with pytest.raises(AssertionError, match="gate cannot tell"):
        assert_no_worse(again, "small", cannot_tell="fail")


def test_cases_are_parameters(project: Project) -> None:
    file = project.write("evals.yaml", suite(case("a", GOOD, tags=["money"]), case("b", GOOD, tags=["xfail"])))
    mark = cases(file)
    assert mark.name == "parametrize"
    name, parameters = mark.args
    assert name == "case"
    assert [one.id for one in parameters] == ["a", "b"]
    assert [[mark.name for mark in one.marks] for one in parameters] == [["money"], ["tag_xfail"]]
    [chosen] = cases(file, tags=["money"]).args[1]
    assert chosen.values[0].id == "a"
    with pytest.raises(rejoinder.UsageError, match="has no such case"):
        cases(file, tags=["nothing"])


@bounded(300)
@given(st.lists(st.tuples(st.text(), st.text(max_size=3), st.text(max_size=3)), max_size=8))
def test_names_of_items_differ_and_are_inert(given: list[tuple[str, str, str]]) -> None:
    names = ItemNames()
    made = [names.name(*one) for one in given]
    assert len(set(made)) == len(made)
    assert all(name and "::" not in name and "\n" not in name and "\x1b" not in name for name in made)


@bounded(300)
@given(st.text() | st.sampled_from(sorted(RESERVED)))
def test_every_tag_is_a_mark_without_effect(tag: str) -> None:
    mark = mark_of(tag)
    assert mark not in RESERVED
    assert re.fullmatch(r"\w+", mark)
    assert not mark.startswith("_")  # pytest refuses such a mark


@pytest.mark.parametrize("share", ["0.9", None, True])
def test_a_share_is_a_number(project: Project, share: Any) -> None:
    report = report_of(project, case("a", GOOD))
    with pytest.raises(rejoinder.UsageError, match="a share is a number, and not a "):
        assert_rate(report, at_least=share)
