"""Rules of a gate."""

from __future__ import annotations

import pytest

from rejoinder.model.figures import RuleResult
from rejoinder.stats.comparison import Trials, compare_runs
from rejoinder.stats.gates import (
    at_most,
    cases_for_lower,
    gate,
    look_rule,
    lower_rule,
    no_regression_rule,
    pass_rule,
    rate_rule,
)
from rejoinder.stats.intervals import wilson
from rejoinder.stats.rates import rate_of
from rejoinder.stats.repeats import pass_hat_k
from rejoinder.stats.sequential import Differing, look
from tests.stats.simulated import Draw

NINE_OF_TEN = rate_of([(1, 1)] * 9 + [(0, 1)])


@pytest.mark.parametrize(
    ("verdicts", "expected"),
    [
        ([], "pass"),
        (["pass", "pass"], "pass"),
        (["pass", "cannot-tell"], "cannot-tell"),
        (["cannot-tell", "fail", "pass"], "fail"),
    ],
)
def test_a_failure_decides_before_what_cannot_be_told(verdicts: list[str], expected: str) -> None:
    found = gate([RuleResult("rule", verdict, "") for verdict in verdicts])  # type: ignore[arg-type]
    assert (found.verdict, len(found.rules)) == (expected, len(verdicts))


def test_a_rate_is_taken_as_it_is() -> None:
    found = rate_rule("rate>=90%", NINE_OF_TEN, 0.9)
    assert found == RuleResult("rate>=90%", "pass", "90% (60 to 98), 9 of 10 passed")
    assert rate_rule("rate>=90%", rate_of([(7, 10)] * 3), 0.9).verdict == "fail"
    assert rate_rule("rate>=90%", rate_of([]), 0.9).verdict == "cannot-tell"
    assert rate_rule("rate>=30%", rate_of([(3, 10)]), 0.1 + 0.2).verdict == "pass", "rounding decides nothing"


def test_a_lower_bound_has_to_be_shown() -> None:
    found = lower_rule("lower>=85%", NINE_OF_TEN, 0.85)
    assert found.verdict == "fail"
    assert found.reason == "90% (60 to 98), 9 of 10 passed; about 370 cases with this rate would show it"
    assert lower_rule("lower>=85%", rate_of([(0, 1)] * 9), 0.85).reason == "0% (0 to 30), 0 of 9 passed"
    assert lower_rule("lower>=85%", rate_of([(5, 5)] * 20), 0.85).verdict == "fail", "copies of 20 cases"
    assert lower_rule("lower>=82%", rate_of([(5, 5)] * 20), 0.82).verdict == "pass"
    assert lower_rule("lower>=85%", rate_of([]), 0.85).verdict == "cannot-tell"


@pytest.mark.parametrize(("rate", "least", "needed"), [(0.9, 0.85, 370), (0.95, 0.8, 42), (1.0, 0.9, 35)])
def test_so_many_cases_show_a_lower_bound_in_four_of_five_tries(rate: float, least: float, needed: int) -> None:
    assert cases_for_lower(rate_of([(1, 1)] * round(20 * rate) + [(0, 1)] * round(20 - 20 * rate)), least) == needed
    draw, shown = Draw(82), 0
    for _ in range(400):
        found = wilson(draw.passes(rate, needed), needed)
        shown += found is not None and found[0] >= least
    assert shown / 400 >= 0.75
    assert rate == 1 or shown / 400 <= 0.9


def test_pass_hat_k_needs_the_trials_for_it() -> None:
    found = pass_rule("pass^3>=70%", pass_hat_k([(5, 5)] * 8 + [(4, 5)] * 2, 3), 0.7)
    assert (found.verdict, found.reason) == ("pass", "88% (58 to 98), 50 trials of 10 cases")
    short = pass_rule("pass^3>=70%", pass_hat_k([(5, 5), (2, 2)], 3), 0.7)
    assert (short.verdict, short.reason) == ("cannot-tell", "1 of 2 cases have fewer than 3 trials")


def test_numbers_have_a_limit() -> None:
    assert (at_most(1.5, 1.5), at_most(4.2, 4.0)) == ("pass", "fail")


def once(wins: int, losses: int, cases: int) -> list[tuple[Trials, Trials]]:
    passed, failed = Trials(1, 1), Trials(0, 1)
    return [(failed, passed)] * wins + [(passed, failed)] * losses + [(passed, passed)] * (cases - wins - losses)


@pytest.mark.parametrize(
    ("wins", "losses", "cases", "verdict"),
    [(1, 8, 20, "fail"), (8, 1, 20, "pass"), (0, 0, 50, "pass"), (4, 0, 60, "pass"), (0, 2, 20, "cannot-tell")],
)
def test_no_regression(wins: int, losses: int, cases: int, verdict: str) -> None:
    assert no_regression_rule("no-regression", compare_runs(once(wins, losses, cases))).verdict == verdict


def test_a_pass_says_why_it_is_one() -> None:
    found = no_regression_rule("no-regression", compare_runs(once(4, 1, 60)))
    assert (found.verdict, found.reason) == (
        "pass",
        "a drop beyond 10 points is excluded: +5 points (-2 to +12 at 90%)",
    )
    assert no_regression_rule("no-regression", compare_runs(once(0, 0, 50))).reason.startswith("no difference beyond")


@pytest.mark.parametrize(("verdict", "code"), [("pass", 0), ("fail", 1), ("cannot-tell", 5)])
def test_the_exit_code_of_a_gate(verdict: str, code: int) -> None:
    assert gate([RuleResult("rule", verdict, "")]).exit_code == code  # type: ignore[arg-type]


def test_errors_that_decide_cannot_tell() -> None:
    pairs = [(Trials(1, 1), Trials(0, 1, 1))] * 9 + once(0, 0, 40)
    found = no_regression_rule("no-regression", compare_runs(pairs))
    assert found.verdict == "cannot-tell"
    assert "errors decide" in found.reason
    # Nothing differs as long as errors count as failures; had they passed, B would be better.
    hidden = compare_runs([(Trials(0, 1), Trials(0, 1, 1))] * 9 + once(0, 0, 60))
    assert hidden.equivalence is not None and hidden.equivalence[0] > -0.1
    assert no_regression_rule("no-regression", hidden).verdict == "cannot-tell"


def test_a_look_is_a_rule() -> None:
    same = compare_runs([(Trials(10, 10), Trials(10, 10))] * 50)
    looks = [look(Differing(*one, 50, 1), done, compared=same) for one, done in (((20, 0, 20), 2), ((0, 1, 1), 2))]
    looks.append(look(Differing(5, 4, 9, 5, 1), 10, compared=same))
    verdicts = [look_rule("no-regression", one).verdict for one in looks]
    assert verdicts == ["fail", "pass", "cannot-tell"]


@pytest.mark.slow
def test_the_gate_seldom_fails_equal_runs_and_seldom_passes_a_drop() -> None:
    draw = Draw(81)
    failed = passed = 0
    for _ in range(200):
        rates = draw.rates(50, 0.8, 0.5)
        a = [Trials(draw.passes(rate, 3), 3) for rate in rates]
        equal = [Trials(draw.passes(rate, 3), 3) for rate in rates]
        worse = [Trials(draw.passes(rate * 0.875, 3), 3) for rate in rates]
        failed += no_regression_rule("", compare_runs(list(zip(a, equal, strict=True)))).verdict == "fail"
        passed += no_regression_rule("", compare_runs(list(zip(a, worse, strict=True)))).verdict == "pass"
    assert failed / 200 <= 0.05
    assert passed / 200 <= 0.08
