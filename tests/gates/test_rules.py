"""Rules: how they are read, and what they say of verdicts."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from rejoinder.errors import UsageError
from rejoinder.gates.baselines import Baseline, CaseTrials, Trial
from rejoinder.gates.changes import find_changes
from rejoinder.gates.looks import look_at
from rejoinder.gates.rules import decide, read_fail_under, read_rule
from rejoinder.model.figures import RuleResult
from tests.kit import bounded


def cases_of(passed: int, failed: int, *, trials: int = 1, target: str = "it", tag: str = "", cost: float | None = 0.0):
    """Cases that pass always, then cases that fail always."""
    verdicts = ["passed"] * passed + ["failed"] * failed
    return tuple(
        CaseTrials(
            "evals.yaml",
            f"{tag}c{number:03}",
            target,
            None,
            (tag,) if tag else (),
            tuple(Trial(trial + 1, verdict, verdict == "passed", cost, (0.5,)) for trial in range(trials)),  # type: ignore[arg-type]
        )
        for number, verdict in enumerate(verdicts)
    )


def verdicts_of(*cases: CaseTrials, shared_cost: float | None = 0.0) -> Baseline:
    return Baseline(1, "run", (), shared_cost, cases)


def decided(rule: str, now: Baseline, before: Baseline | None = None) -> RuleResult:
    [found] = decide([read_rule(rule)], now, before).rules
    assert found.rule == rule
    return found


@pytest.mark.parametrize(
    ("rule", "verdict", "reason"),
    [
        ("rate>=90%", "pass", "90% (60 to 98), 9 of 10 passed"),
        ("rate>=0.9", "pass", "90% (60 to 98), 9 of 10 passed"),
        ("rate >= 90.1%", "fail", "90% (60 to 98), 9 of 10 passed"),
        ("lower>=55%", "pass", "90% (60 to 98), 9 of 10 passed"),
        ("lower>=85%", "fail", "90% (60 to 98), 9 of 10 passed; about 370 cases with this rate would show it"),
        ("pass^1>=90%", "pass", "90% (54 to 99), 10 trials of 10 cases"),
        ("pass^2>=10%", "cannot-tell", "10 of 10 cases have fewer than 2 trials"),
        ("cost<=1", "pass", "$1.00"),
        ("cost<=$0.99", "fail", "$1.00"),
        ("latency_p95<=500ms", "pass", "500 ms, 10 replies"),
        ("latency_p95<=0.4s", "fail", "500 ms, 10 replies"),
        ("latency_p95<=1min", "pass", "500 ms, 10 replies"),
    ],
)
def test_rules_of_a_run_alone(rule: str, verdict: str, reason: str) -> None:
    now = verdicts_of(*cases_of(9, 1, cost=0.1))
    assert decided(rule, now) == RuleResult(rule, verdict, reason)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "text",
    [
        *("", "rat>=90%", "no_regression", "pass>=70%", "pass^>=70%", "rate3>=90%", "tag:rate>=90%", "tag::rate>=90%"),
        *("tag:x:", "tag:x:nothing", "passes", "latency<=4s", "rate>=9 0%", "PASS^3>=70%", "pass^99999>=1%"),
    ],
)
def test_an_unknown_rule_names_the_right_ones(text: str) -> None:
    with pytest.raises(UsageError) as raised:
        read_rule(text)
    for rule in (
        "no-regression",
        "rate>=90%",
        "lower>=85%",
        "pass^3>=70%",
        "cost<=1.50",
        "latency_p95<=4s",
        "tag:NAME:",
    ):
        assert rule in str(raised.value)


@pytest.mark.parametrize(
    ("text", "like"),
    [
        ("rate>90%", "rate>=90%"),
        ("rate<=90%", "rate>=90%"),
        ("rate>=101%", "rate>=90%"),
        ("rate>=1.5", "rate>=90%"),
        ("rate>=-1%", "rate>=90%"),
        ("rate>=nan", "rate>=90%"),
        ("pass^0>=70%", "pass^3>=70%"),
        ("cost>=1", "cost<=1.50"),
        ("cost<=inf", "cost<=1.50"),
        ("latency_p95<=4", "latency_p95<=4s"),
        ("tag:x:latency_p95<=4h", "latency_p95<=4s"),
    ],
)
def test_a_rule_with_another_bound_is_shown_as_it_should_be(text: str, like: str) -> None:
    with pytest.raises(UsageError) as raised:
        read_rule(text)
    assert raised.value.hint == f"Write it like `{like}`."


@given(st.text() | st.from_regex(r"(tag:.*:)?(rate|lower|pass\^\d*|cost|latency_p95)[<>=]{1,2}.*", fullmatch=True))
@bounded(300)
def test_any_text_is_a_rule_or_refused_in_words(text: str) -> None:
    try:
        rule = read_rule(text)
    except UsageError as error:
        assert error.hint
    else:
        assert rule.text == text
        assert decided(text, verdicts_of(*cases_of(1, 1)), verdicts_of()).reason


@pytest.mark.parametrize(
    ("text", "rule"),
    [("90%", "rate>=90%"), ("0.9", "rate>=0.9"), ("lower:85%", "lower>=85%"), (" 5% ", "rate>=5%")],
)
def test_fail_under_is_a_rule(text: str, rule: str) -> None:
    found, expected = read_fail_under(text), read_rule(rule)
    assert found is not None
    assert (found.text, found.measure, found.bound) == (expected.text, expected.measure, expected.bound)


@pytest.mark.parametrize("text", ["", "90", "-1%", "upper:85%", "lower:", "lower", "rate:90%", "a:lower:90%"])
def test_fail_under_of_anything_else_is_none(text: str) -> None:
    assert read_fail_under(text) is None


@pytest.mark.parametrize(
    ("now", "verdict"), [((50, 0), "pass"), ((50, 1), "pass"), ((40, 11), "fail"), ((47, 4), "cannot-tell")]
)
def test_no_regression_on_the_cases_of_both(now: tuple[int, int], verdict: str) -> None:
    before = verdicts_of(*cases_of(50, 0))
    found = decided("no-regression", verdicts_of(*cases_of(*now)), before)
    assert found.verdict == verdict
    assert ("new: c050" in found.reason) is (sum(now) == 51)


def test_cases_of_one_run_alone_are_named_and_never_counted() -> None:
    before = verdicts_of(*cases_of(10, 0), *cases_of(4, 0, tag="old"))
    now = verdicts_of(*cases_of(10, 0), *cases_of(0, 2, tag="new"))
    found = decided("no-regression", now, before)
    assert found.reason.startswith("cannot tell: 0 points")
    assert found.reason.endswith("; new: newc000, newc001; not in this run: oldc000, oldc001, oldc002 and 1 more")


def test_a_very_long_name_is_cut() -> None:
    [case] = cases_of(1, 0, tag="x" * 10**6)
    assert len(decided("no-regression", verdicts_of(case), verdicts_of()).reason) < 200


def test_a_case_is_the_same_by_file_id_target_and_variant() -> None:
    """Where a run has several targets or variants: a lone one is compared with a lone one."""
    [case] = cases_of(1, 0)
    further = CaseTrials("third.yaml", case.id, "third", "third", (), case.trials)
    for other in (
        CaseTrials("other.yaml", case.id, case.target, None, (), case.trials),
        CaseTrials(case.file, case.id, "other", None, (), case.trials),
        CaseTrials(case.file, case.id, case.target, "terse", (), case.trials),
    ):
        found = decided("no-regression", verdicts_of(case), verdicts_of(other, further))
        assert found.verdict == "cannot-tell"
        assert found.reason.startswith("cannot tell: no case is in both runs")


def test_a_lone_target_is_compared_with_another_lone_one_and_the_answer_says_so() -> None:
    before, now = cases_of(50, 0, target="good"), cases_of(0, 50, target="bad")
    found = decided("no-regression", verdicts_of(*now), verdicts_of(*before))
    assert found.verdict == "fail"
    assert found.reason.endswith("; another target: good before, bad now")
    assert find_changes(verdicts_of(*before), verdicts_of(*now)).worse == 50
    terse = tuple(structs.replace(case, variant="terse") for case in before)
    found = decided("no-regression", verdicts_of(*terse), verdicts_of(*before))
    assert found.verdict == "pass" and found.reason.endswith("; another variant: none before, terse now")


def test_the_target_of_a_run_is_not_taken_for_one_of_several() -> None:
    before = *cases_of(5, 0, target="a"), *cases_of(5, 0, target="b")
    found = decided("no-regression", verdicts_of(*cases_of(5, 0, target="c")), verdicts_of(*before))
    assert found.reason.startswith("cannot tell: no case is in both runs") and "another target" not in found.reason


def test_each_target_has_to_keep_a_rule_and_the_cost_is_that_of_all() -> None:
    now = verdicts_of(*cases_of(9, 1, target="a", cost=0.1), *cases_of(5, 5, target="b", cost=0.1))
    found = decided("rate>=80%", now)
    assert (found.verdict, found.reason) == (
        "fail",
        "a: 90% (60 to 98), 9 of 10 passed; b: 50% (24 to 76), 5 of 10 passed",
    )
    assert decided("cost<=2.00", now).reason == "$2.00"
    assert decided("rate>=50%", now).verdict == "pass"


def test_several_targets_do_not_add_up_false_alarms() -> None:
    """Six losses alone are called (mid-p 0.016); one of four targets that lose six at worst is not, after Holm."""
    before = [case for name in "abcd" for case in cases_of(40, 0, target=name)]
    worse = list(cases_of(34, 6, target="a"))
    same = [case for name in "bcd" for case in cases_of(40, 0, target=name)]
    alone = decided("no-regression", verdicts_of(*worse), verdicts_of(*before))
    assert alone.verdict == "fail"
    assert decided("no-regression", verdicts_of(*worse, *same), verdicts_of(*before)).verdict == "cannot-tell"


def test_rules_of_a_tag() -> None:
    now = verdicts_of(*cases_of(20, 0, tag="safety"), *cases_of(0, 10, tag="jokes"))
    assert decided("tag:safety:rate>=100%", now).verdict == "pass"
    assert decided("tag:jokes:rate>=1%", now).verdict == "fail"
    assert decided("tag:safty:rate>=1%", now).reason == "no case has the tag `safty`; did you mean `safety`?"
    worse = verdicts_of(*cases_of(0, 20, tag="safety"), *cases_of(10, 0, tag="jokes"))
    assert decided("tag:safety:no-regression", worse, now).verdict == "fail"
    few = decided("tag:jokes:no-regression", now, worse)
    assert (few.verdict, few.reason) == ("cannot-tell", "too few: 10 cases of the tag in both runs, 20 would do")


def test_a_tag_may_have_colons() -> None:
    now = verdicts_of(*cases_of(1, 0, tag="area:safety"))
    assert decided("tag:area:safety:rate>=100%", now).verdict == "pass"


def test_a_cost_without_a_price_fails_where_the_rest_is_too_much_and_else_is_open() -> None:
    now = verdicts_of(*cases_of(1, 0, cost=None), *cases_of(0, 2, tag="x", cost=0.15))
    assert decided("cost<=1", now) == RuleResult("cost<=1", "cannot-tell", "$0.30 and 1 without a known price")
    assert decided("cost<=0.2", now).verdict == "fail"
    assert decided("tag:x:cost<=0.3", now).verdict == "pass"  # 0.15 + 0.15 and no rounding


@pytest.mark.parametrize(
    ("amount", "words"),
    [
        (0.0, "$0"),
        (0.00002, "under $0.0001"),
        (0.0312, "$0.031"),
        (0.1, "$0.10"),
        (1.5, "$1.50"),
        (1234.5, "$1,234.50"),
    ],
)
def test_money_in_words(amount: float, words: str) -> None:
    assert decided("cost<=1", verdicts_of(*cases_of(1, 0, cost=amount))).reason == words


def test_a_cost_just_above_its_bound_reads_differently() -> None:
    assert decided("cost<=0.12", verdicts_of(*cases_of(1, 0, cost=0.1204))).reason == "$0.1204"


def test_the_time_that_most_replies_keep_is_one_that_a_reply_took() -> None:
    """36 of 38 are 94.7 %, so it is the 37th."""
    times = tuple(float(number) for number in range(1, 39))
    case = CaseTrials("evals.yaml", "c", "it", None, (), (Trial(1, "passed", True, 0.0, times),))
    assert decided("latency_p95<=36.5s", verdicts_of(case)) == RuleResult(
        "latency_p95<=36.5s", "fail", "37 s, 38 replies"
    )
    assert decided("latency_p95<=37s", verdicts_of(case)).verdict == "pass"


def test_what_conversations_share_is_part_of_the_cost() -> None:
    now = verdicts_of(*cases_of(1, 0, cost=0.1), shared_cost=0.05)
    assert decided("cost<=0.12", now).reason == "$0.15"
    assert decided("cost<=0.2", verdicts_of(*cases_of(1, 0), shared_cost=None)).verdict == "cannot-tell"


def test_errors_count_as_failures_and_may_decide() -> None:
    broken = tuple(
        CaseTrials("evals.yaml", f"c{n:03}", "it", None, (), (Trial(1, "error", False, 0.0, ()),)) for n in range(10)
    )
    before = verdicts_of(*cases_of(50, 0))
    now = verdicts_of(*broken, *cases_of(50, 0)[10:])
    assert decided("rate>=90%", now).reason == "80% (67 to 89), 40 of 50 passed; 100% of the 40 without an error"
    found = decided("no-regression", now, before)
    assert found.verdict == "cannot-tell"
    assert "errors decide" in found.reason


@pytest.mark.parametrize("rule", ["rate>=10%", "lower>=1%", "rate>=90%"])
def test_no_rate_is_decided_if_more_than_half_are_errors(rule: str) -> None:
    now = verdicts_of(*(case_of("error", name=f"e{number}") for number in range(3)), *cases_of(2, 0))
    assert decided(rule, now) == RuleResult(rule, "cannot-tell", "no rate: 3 of 5 had an error")
    half = verdicts_of(*(case_of("error", name=f"e{number}") for number in range(2)), *cases_of(2, 0))
    assert decided(rule, half).verdict != "cannot-tell"


def case_of(*statuses: Any, name: str = "c") -> CaseTrials:
    trials = (Trial(number, status, False, 0.0, ()) for number, status in enumerate(statuses, 1))
    return CaseTrials("evals.yaml", name, "it", None, (), tuple(trials))


def test_one_trial_a_case_is_not_held_against_ten() -> None:
    """Eight of twenty cases fail one time of ten: a model that does so mostly passes when it is asked once."""
    flaky, sure = ["passed"] * 9 + ["failed"], ["passed"] * 10
    now = [case_of(*(flaky if number < 8 else sure), name=f"c{number:02}") for number in range(20)]
    once = [case_of("passed", name=f"c{number:02}") for number in range(20)]
    whole = [case_of(*sure, name=f"c{number:02}") for number in range(20)]
    found = decided("no-regression", verdicts_of(*now), verdicts_of(*once))
    assert found.verdict == "cannot-tell"
    assert "the runs have unequal trials" in found.reason
    assert decided("no-regression", verdicts_of(*now), verdicts_of(*whole)).verdict == "fail"


def test_a_look_pairs_trials_by_number_and_leaves_errors_out() -> None:
    before = verdicts_of(case_of("passed", "passed", "failed", "error", "passed"))
    found = look_at([case_of("failed", "passed", "passed", "failed", "error")], before)
    assert (found.lost, found.won, found.rounds, found.of) == (1, 1, 5, 5)


def test_a_look_at_unequal_rounds_is_out_of_plan() -> None:
    before = verdicts_of(case_of("passed", "passed"), case_of("passed", "passed", name="d"))
    found = look_at([case_of("failed", "failed"), case_of("failed", name="d")], before)
    assert (found.method, found.verdict) == ("likelihood ratio", "cannot-tell")
    whole = look_at([case_of("failed"), case_of("failed", name="d")], before)
    assert (whole.method, whole.verdict) == ("O'Brien-Fleming spending", "go-on")


def test_repeats_of_a_case_count_for_pass_k() -> None:
    found = decided("pass^3>=70%", verdicts_of(*cases_of(8, 2, trials=3)))
    assert (found.verdict, found.reason.partition(" (")[0]) == ("pass", "80%")


def test_nothing_to_compare_with_is_refused() -> None:
    with pytest.raises(UsageError, match="compares with an earlier run"):
        decided("tag:x:no-regression", verdicts_of())


def tasks_of(outcomes: dict[str, str]) -> list[CaseTrials]:
    """Tasks that were put in two ways, and end the same in both."""
    return [
        structs.replace(case_of(status, name=f"{task}/{condition}"), condition=condition)
        for task, status in outcomes.items()
        for condition in ("full", "sharded")
    ]


def test_conditions_of_a_task_are_compared_one_by_one() -> None:
    """Eight of twenty tasks broke: as forty cases they would be sixteen."""
    before = {f"t{number:02}": "passed" for number in range(20)}
    after = before | {f"t{number:02}": "failed" for number in range(8)}
    found = decided("no-regression", verdicts_of(*tasks_of(after)), verdicts_of(*tasks_of(before)))
    assert found.verdict == "fail"
    assert found.reason.startswith("it, full: worse: -40 points (")
    assert "; it, sharded: worse: -40 points (" in found.reason
    assert found.reason.count("corrected for 2 comparisons") == 2
    few = before | {f"t{number:02}": "failed" for number in range(3)}
    alone = decided("no-regression", verdicts_of(*tasks_of(few)), verdicts_of(*tasks_of(before)))
    assert alone.verdict == "cannot-tell", "six of forty would be called worse"


def test_a_baseline_without_conditions_is_read_as_before() -> None:
    before = {f"t{number:02}": "passed" for number in range(30)}
    earlier = [structs.replace(case, condition=None) for case in tasks_of(before)]
    found = decided("no-regression", verdicts_of(*tasks_of(before)), verdicts_of(*earlier))
    assert found.reason.startswith("it, full: no difference beyond ")
