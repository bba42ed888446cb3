"""Two runs compared from their results: matching, counting, flips, and the mirror."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from rejoinder.comparison.sides import Side
from rejoinder.model import Result
from rejoinder.model.comparisons import CaseName, RunComparison
from rejoinder.model.figures import Delta
from rejoinder.report.comparison import write_comparison
from rejoinder.report.styled import plain_text
from tests.comparison.sides import compare_sides, compared, conversation, one, results
from tests.kit import bounded
from tests.report.exports import check, failed, result, turn


def many(count: int, *trials: str) -> dict[str, tuple[str, ...]]:
    return {f"c{number}": trials for number in range(count)}


# Figures


def test_rates_of_first_try_and_end_are_compared_apart() -> None:
    a = many(24, "p")
    b = {**many(24, "p"), **{f"c{number}": ("r",) for number in range(9)}}
    found = compared(a, b)
    assert (found.first_try.a.passed, found.first_try.b.passed, found.first_try.b.of) == (24, 15, 24)
    assert found.first_try.verdict == "worse" and found.first_try.difference == pytest.approx(-9 / 24)
    assert (found.eventual.b.passed, found.eventual.verdict) == (24, "no-difference")
    assert found.verdict == "no-difference" and found.flips == ()


def test_the_known_answer_of_the_paired_difference() -> None:
    """20 cases, one won and eight lost: -0.35 (-0.6248 to -0.0752), mid-p 0.0215."""
    a = {f"c{number}": ("f" if number == 0 else "p",) for number in range(20)}
    b = {f"c{number}": ("f" if 1 <= number <= 8 else "p",) for number in range(20)}
    found = compared(a, b).eventual
    assert found.difference == pytest.approx(-0.35)
    assert found.interval == pytest.approx((-0.6248, -0.0752), abs=1e-4)
    assert found.p_value == pytest.approx(0.0215, abs=1e-4)
    assert found.verdict == "worse"


def test_few_cases_cannot_tell_and_say_how_many_would() -> None:
    found = compared({"a": "p", "b": "p", "c": "f"}, {"a": "p", "b": "f", "c": "p"})
    assert found.verdict == "cannot-tell"
    assert found.eventual.cases_needed is not None and found.eventual.cases_needed > 3


def test_errors_count_as_failures_and_may_decide() -> None:
    found = compared(many(20, "p"), {**many(12, "p"), **{f"c{number}": ("e",) for number in range(12, 20)}})
    assert found.eventual.b.errors == 8 and found.eventual.b.rate == pytest.approx(0.6)
    assert found.verdict == "cannot-tell" and found.eventual.undecided == "errors"
    assert {flip.after for flip in found.flips} == {"error"}


def test_skipped_trials_are_left_out_and_said() -> None:
    found = compared({"a": "p", "b": "p"}, {"a": "ps", "b": "s"})
    assert (found.matched, found.b.skipped) == (1, 2)
    assert [name.id for name in found.left_out] == ["b"] and found.only_in_a == ()


def test_net_recovery_is_compared_where_repeats_give_a_control() -> None:
    a = many(10, "g", "g", "p")
    b = many(10, "r", "r", "p")
    net = compared(a, b).net_recovery
    assert (net.a.failures, net.b.failures, net.cases) == (20, 20, 10)
    assert net.difference == pytest.approx(1.0) and net.verdict == "better"


def test_costs_times_and_tokens_are_those_of_matched_cases() -> None:
    dear = structs.replace(one("a", "p"), cost=0.003)
    unknown = structs.replace(one("b", "p"), cost=None)
    found = compared([one("a", "p"), one("b", "p")], [dear, unknown, one("new", "p", cost=9.0)])
    assert (found.cost.a, found.cost.b, found.cost.cases) == (0.001, 0.003, 1)
    assert (found.tokens.a, found.tokens.b, found.tokens.cases) == (25, 25, 2)
    assert found.latency_s.a == pytest.approx(1.5)


def test_flaky_cases_are_measured() -> None:
    found = compared({"a": "ppfpp", "b": "ppppp"}, {"a": "ppppp", "b": "ppppp"}).flakiness
    assert found.a.rate == pytest.approx(0.2) and found.b.rate == 0
    [case] = found.cases
    assert (case.id, case.a.passed, case.a.trials, case.a.flip) == ("a", 4, 5, pytest.approx(0.4))


def test_noise_of_judges_is_told_apart_from_that_of_models() -> None:
    """The known answer of the statistics: judge 0.0275, model cut at 0, cases 0.09625."""
    votes = [[(0.8, 0.9), (0.6, 0.7)], [(0.2, 0.4), (0.5, 0.1)]]
    judged = [
        one(f"c{number}", "p", trial, turns=(turn("yes", checks=(check(judge="judge", votes=given),)),))
        for number, case in enumerate(votes)
        for trial, given in enumerate(case, 1)
    ]
    noise = compared(judged, [one("c0", "p")]).noise
    assert noise.a is not None and noise.b is None
    assert (noise.a.judge, noise.a.model, noise.a.case) == (pytest.approx(0.0275), 0, pytest.approx(0.09625))


def test_tags_are_tested_with_a_correction() -> None:
    a = results(many(25, "p"), tags=("hard",)) + results({"x": "p"}, tags=("rare",))
    b = results(many(25, "f"), tags=("hard",)) + results({"x": "p"}, tags=("rare",))
    groups = {group.name: group for group in compared(a, b).by_tag}
    assert groups["hard"].verdict == "worse" and groups["rare"].verdict == "too-few"


def test_several_targets_are_no_further_cases() -> None:
    a = [one(f"c{n}", "p", target=target) for n in range(20) for target in ("x", "y")]
    b = [one(f"c{n}", "p" if target == "x" else "f", target=target) for n in range(20) for target in ("x", "y")]
    found = compared(a, b)
    assert (found.matched, found.eventual, len(found.flips)) == (40, None, 20), "a rate of both is a rate of neither"
    assert {group.comparison.cases for group in found.by_target} == {20}
    assert {group.name: group.verdict for group in found.by_target} == {"x": "cannot-tell", "y": "worse"}


def test_each_of_several_targets_decides() -> None:
    """One became worse and the other better: together they are as before, and that is not the answer."""
    asked = [(n, target) for n in range(30) for target in ("x", "y")]
    a = [one(f"c{n}", "p" if target == "x" or n < 15 else "f", target=target) for n, target in asked]
    b = [one(f"c{n}", "p" if target == "y" or n < 15 else "f", target=target) for n, target in asked]
    found = compared(a, b)
    assert {group.name: group.verdict for group in found.by_target} == {"x": "worse", "y": "better"}
    assert (found.verdict, found.is_worse, found.net_recovery) == ("cannot-tell", True, None)
    assert "Mixed: x worse, 100% -> 50%; y better, 50% -> 100%." in plain_text(next(write_comparison(found)))
    first, second = ([result for result in results if result.target == "x"] for results in (a, b))
    lone = compared(first, second)
    assert (lone.verdict, lone.is_worse) == ("worse", True)
    assert found.by_target[0].comparison.p_value == lone.eventual.p_value
    assert found.by_target[0].p_value == min(1.0, 2 * (lone.eventual.p_value or 0)), "corrected for both"


def test_unequal_trials_have_means_that_their_difference_lies_between() -> None:
    found = compared(results({"a": "ppppf", "b": "p"}), results({"a": "ppppp", "b": "p"})).eventual
    assert found.means == (pytest.approx(0.9), 1.0)
    assert found.difference == pytest.approx(0.1)
    assert found.a.rate == pytest.approx(5 / 6)


# Matching


def test_cases_match_by_file_id_target_and_variant() -> None:
    a = [
        one("a", "p", file="one.yaml", suite="s"),
        one("a", "p", file="two.yaml", suite="s"),
        one("a", "p", file="two.yaml", target="x"),
        one("a", "p", file="two.yaml", variant="terse"),
    ]
    b = [structs.replace(case, suite="another name") for case in a]
    b[1] = failed("a", file="two.yaml")
    found = compared(a, b)
    assert found.matched == 4 and found.only_in_a == found.only_in_b == ()
    assert [(flip.file, flip.target, flip.variant) for flip in found.flips] == [("two.yaml", "demo", None)]


def test_the_same_id_in_another_file_is_another_case() -> None:
    other = structs.replace(one("other", "p", file="two.yaml"), id="a")
    found = compared([one("a", "p", file="one.yaml")], [other])
    assert found.matched == 0 and found.verdict == "cannot-tell"
    assert found.only_in_a == (CaseName("one.yaml", "a", "demo", ""),)
    assert found.only_in_b == (CaseName("two.yaml", "a", "demo", ""),)


def test_renamed_cases_are_compared_and_said_apart_from_new_and_missing_ones() -> None:
    renamed = structs.replace(one("old", "f"), id="new")
    moved = one("kept", "p", file="elsewhere.yaml")
    found = compared(
        [one("old", "p"), one("kept", "p"), one("gone", "p"), one("same", "p")],
        [renamed, moved, one("added", "p"), one("same", "p")],
    )
    assert [(pair.a.id, pair.b.id) for pair in found.renamed] == [("kept", "kept"), ("old", "new")]
    assert [name.id for name in found.only_in_a] == ["gone"] and [name.id for name in found.only_in_b] == ["added"]
    assert found.matched == 3 and [flip.id for flip in found.flips] == ["new"]


def test_a_question_that_several_cases_ask_renames_none() -> None:
    twins = [structs.replace(one("q", "p"), id=name) for name in ("first", "second")]
    found = compared(twins, [structs.replace(one("q", "p"), id="third")])
    assert found.renamed == () and len(found.only_in_a) == 2


def test_a_question_with_other_checks_is_another_case() -> None:
    other = one("q", "p", turns=(turn("yes", checks=(check(check="match no"),)),))
    found = compared([one("q", "p")], [structs.replace(other, id="new")])
    assert found.renamed == ()
    assert compared([one("q", "p")], [other]).edited == 1


def test_targets_of_one_run_are_compared_with_each_other() -> None:
    run = [one("a", outcome, target=target) for target, outcome in (("x", "p"), ("y", "f"))]
    found = compare_sides(Side("R", run, "x"), Side("R", run, "y"))
    assert (found.matched, found.a.targets, found.b.targets) == (1, ("x",), ("y",))
    assert [(flip.id, flip.target, flip.after) for flip in found.flips] == [("a", "y", "failed")]


# Flips


def test_a_flip_has_the_turn_of_the_first_divergence_and_both_replies() -> None:
    a = conversation("a", ("q", "no", False), ("Again.", "yes", True), passed=True)
    b = conversation("a", ("q", "no", False), ("Again.", "never", False), passed=False)
    [flip] = compared([a], [b]).flips
    assert (flip.before, flip.after, flip.turn, flip.differs, flip.passed_on) == ("passed", "failed", 2, "reply", 2)
    assert flip.moment is not None
    assert (flip.moment.prompt, flip.moment.replies) == ("Again.", ("yes", "never"))
    assert flip.moment.fails == ("match *105*",)


@pytest.mark.parametrize(
    ("other", "turn_of", "differs"),
    [
        ((("q", "yes", False),), 1, "verdict"),
        ((("other", "yes", False),), 1, "prompt"),
        ((("q", "yes", True), ("More.", "no", False)), 2, "reply"),
    ],
)
def test_what_differs_first(other: Any, turn_of: int, differs: str) -> None:
    a, b = conversation("a", ("q", "yes", True), passed=True), conversation("a", *other, passed=False)
    [flip] = compared([a], [b]).flips
    assert (flip.turn, flip.differs) == (turn_of, differs)
    [mirrored] = compared([b], [a]).flips
    assert (mirrored.turn, mirrored.differs, mirrored.before, mirrored.after) == (turn_of, differs, "failed", "passed")


def test_a_flip_of_repeats_shows_a_trial_that_passed_and_one_that_did_not() -> None:
    a = [conversation("a", ("q", f"yes {n}", True), passed=True) for n in range(3)]
    b = [*a[:2], conversation("a", ("q", "no", False), passed=False)]
    first, second = ([structs.replace(entry, trial=n) for n, entry in enumerate(side, 1)] for side in (a, b))
    [flip] = compared(first, second).flips
    assert (flip.before, flip.after, flip.a, flip.b, flip.verdict) == ("passed", "flaky", (3, 3), (2, 3), "flipped")
    assert flip.moment is not None and flip.moment.replies == ("yes 0", "no")


def test_replies_are_kept_of_the_first_flips_only_and_cut() -> None:
    a = [conversation(f"c{n}", ("q", "y" * 10_000, True), passed=True) for n in range(5)]
    b = [conversation(f"c{n}", ("q", "n" * 10_000, False), passed=False) for n in range(5)]
    flips = compared(a, b, shown=2).flips
    assert [flip.moment is not None for flip in flips] == [True, True, False, False, False]
    assert all(flip.turn == 1 for flip in flips)
    assert flips[0].moment is not None
    shown = flips[0].moment.replies[1]
    assert shown is not None and len(shown) < 4100 and "6,000 characters left out" in shown


def test_other_words_of_the_same_verdict_are_counted() -> None:
    reworded = one("a", "p", turns=(turn("yes, indeed"),))
    assert compared([one("a", "p"), one("b", "p")], [reworded, one("b", "p")]).same_words == 1


@pytest.mark.slow
def test_words_are_compared_whatever_the_order_of_trials() -> None:
    def trials(case: str, *replies: str) -> list[Result]:
        return [one(case, "p", trial, turns=(turn(reply),)) for trial, reply in enumerate(replies, 1)]

    a = [result for n in range(300) for result in trials(f"c{n}", f"yes {n}", f"no {n}")]
    swapped = [result for n in range(300) for result in trials(f"c{n}", f"no {n}", f"yes {n}")]
    other = [result for n in range(300) for result in trials(f"c{n}", f"no {n + 1}", f"yes {n - 1}")]
    assert compared(a, swapped).same_words == 300
    assert compared(a, other).same_words == 0


# The mirror

outcomes = st.dictionaries(st.sampled_from("abcdefghij"), st.text("prfges", min_size=1, max_size=7), max_size=10)


def mirrored(found: RunComparison) -> Any:
    """What the comparison of swapped runs has to say."""
    swapped = {"better": "worse", "worse": "better"}

    def turned(value: Any, key: str = "") -> Any:
        if isinstance(value, dict):
            data = {name: turned(part, name) for name, part in value.items()}
            for first, second in (("a", "b"), ("only_in_a", "only_in_b"), ("from", "to"), ("missing", "added")):
                if first in data and second in data:
                    data[first], data[second] = data[second], data[first]
            return data
        if isinstance(value, list | tuple):
            parts = [turned(part) for part in value]
            if key in ("replies", "means"):
                return parts[::-1]
            return parts
        return swapped.get(value, value) if key == "verdict" else value

    document = turned(msgspec.to_builtins(found.document()))
    for name in ("first_try", "eventual", "net_recovery"):
        negate(document[name])
    for group in [*document["by_tag"], *document["by_target"]]:
        negate(group["comparison"])
    return document


def negate(figure: Any) -> None:
    for key in ("interval", "equivalence"):
        if figure.get(key) is not None:
            low, high = figure[key]
            figure[key] = [-high, -low]
    if figure["difference"] is not None:
        figure["difference"] = -figure["difference"]


DELTAS = ("cost", "latency_s", "tokens")


@pytest.mark.slow
@given(outcomes, outcomes)
@bounded(150)
def test_swapped_runs_give_the_mirrored_comparison(a: dict[str, str], b: dict[str, str]) -> None:
    there, back = compared(a, b), compared(b, a, "BA")
    expected, got = mirrored(there), msgspec.to_builtins(back.document())
    for document in (expected, got):
        for name in DELTAS:
            del document[name]
    assert_close(got, expected)
    for name in DELTAS:
        one_way, other_way = getattr(there, name), getattr(back, name)
        assert isinstance(one_way, Delta)
        assert (one_way.a, one_way.b) == (other_way.b, other_way.a)
        assert one_way.difference is None or one_way.difference == pytest.approx(-other_way.difference)


def assert_close(got: Any, expected: Any) -> None:
    if isinstance(got, dict):
        assert got.keys() == expected.keys()
        for key in got:
            assert_close(got[key], expected[key])
    elif isinstance(got, list | tuple):
        assert len(got) == len(expected)
        for pair in zip(got, expected, strict=True):
            assert_close(*pair)
    elif isinstance(got, float):
        assert got == pytest.approx(expected)
    else:
        assert got == expected


@pytest.mark.slow
@given(outcomes, st.randoms(use_true_random=False))
@bounded(50)
def test_the_order_of_results_does_not_matter(a: dict[str, str], random: Any) -> None:
    listed = [structs.replace(entry, number=1 + "abcdefghij".index(entry.id)) for entry in results(a)]
    shuffled = listed[:]
    random.shuffle(shuffled)
    other = results({"a": "pf", "b": "f"})
    ours, theirs = compared(listed, other).document(), compared(shuffled, other).document()
    for document in (ours, theirs):
        document.pop("flips")  # which trial is shown does depend on it
    assert msgspec.json.encode(ours) == msgspec.json.encode(theirs)


# Large runs


class LongReplies:
    """Results that are made when they are read, as those of a run folder are."""

    def __init__(self, cases: int, length: int, *, fails: bool) -> None:
        self._cases, self._length, self._fails = cases, length, fails

    def __iter__(self) -> Iterator[Result]:
        for number in range(self._cases):
            reply = f"{number} {'x' * self._length}"
            yield conversation(f"c{number}", ("q", reply, not self._fails), passed=not self._fails)


def peak_of(length: int) -> int:
    """The most memory that a comparison takes, in bytes."""
    sides = [Side(name, LongReplies(200, length, fails=fails)) for name, fails in (("A", False), ("B", True))]
    compare_sides(sides[0], sides[1])
    tracemalloc.start()
    try:
        compare_sides(sides[0], sides[1])
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.slow
def test_replies_are_not_kept() -> None:
    """200 cases with 200,000 characters would be 80 MB."""
    assert peak_of(200_000) < peak_of(4000) + 2_000_000


@pytest.mark.slow
def test_many_differing_cases_are_tested_by_the_normal_approximation_and_it_says_so() -> None:
    few, above = compared(many(2000, "p"), many(2000, "f")), compared(many(2001, "p"), many(2001, "f"))
    assert few.eventual.method is not None and "mid-p" in few.eventual.method
    assert above.eventual.method is not None and "normal approximation" in above.eventual.method
    assert above.verdict == "worse" and len(above.flips) == 2001


def test_a_verdict_on_the_same_reply_parts_a_plan_before_other_words_do() -> None:
    """One run answers back, and the other goes on with its plan."""
    judged = turn("fine"), turn("fine", passed=False, checks=(check(False),))
    went_on = turn("four it is", 2, depth=0, prompt="For four.")
    again = turn("no", 2, prompt="Please do.", passed=False, checks=(check(False),))
    lost = {"status": "failed", "passed": False, "succeeded_on_turn": None}
    [flip] = compared([result("plan", judged[0], went_on)], [result("plan", judged[1], again, **lost)]).flips
    assert (flip.turn, flip.differs) == (1, "verdict")


def test_a_planned_turn_that_failed_before_the_last_is_named() -> None:
    broken = turn("no", passed=False, checks=(check(False, check="contains how many"),))
    went_on = turn("four it is", 2, depth=0, prompt="For four.")
    lost = {"status": "failed", "passed": False, "succeeded_on_turn": None}
    [flip] = compared([result("plan", turn(), went_on)], [result("plan", broken, went_on, **lost)]).flips
    assert flip.moment is not None
    assert flip.moment.fails == ("contains how many",)
