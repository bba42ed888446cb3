"""Cases that changed since a baseline: which come first, and in which words."""

from __future__ import annotations

from rejoinder.gates.baselines import baseline_of
from rejoinder.gates.changes import find_changes
from rejoinder.gates.new_failures import NOT_CONFIRMED, Confirmations
from rejoinder.model import CaseChanges, Result, StepResult, TrialCounts
from rejoinder.model.results import StepStatus
from rejoinder.model.runs import ConfirmedCase
from rejoinder.views.flips import FlipRow, Flips, counts_words, flips_since
from tests.report.exports import MadeRun, check, failed, in_error, made_run, result, turn


def trials(case: str, verdicts: str, said: str = "no") -> list[Result]:
    """`+-!`: a trial that passed, one that failed and one with an error."""
    kinds = {"+": result, "-": lambda case, **more: failed(case, said, **more), "!": in_error}
    return [kinds[one](case, trial=number) for number, one in enumerate(verdicts, 1)]  # type: ignore[operator]


def changes(before: MadeRun, now: MadeRun, further: Confirmations = NOT_CONFIRMED) -> CaseChanges:
    return find_changes(*(baseline_of(run.run.id, run.results) for run in (before, now)), further)


def flips(before: dict[str, str], now: dict[str, str], most: int = 100) -> Flips:
    a, b = (made_run(one for case in runs for one in trials(case, runs[case])) for runs in (before, now))
    return flips_since(changes(a, b), b, most)


def test_broken_cases_come_first_and_clear_changes_before_others() -> None:
    before = {"a": "-", "b": "+++", "c": "+", "d": "+", "e": "+", "same": "-", "f": "-"}
    now = {"a": "+", "b": "+-+", "c": "!", "d": "-", "e": "+", "same": "-", "f": "!", "new": "-"}
    found = flips(before, now)
    assert [(row.address, row.before, row.now, row.broke, row.said) for row in found.rows] == [
        ("d", "passed", "failed", True, "no"),
        ("b", "3 of 3 passed", "2 of 3 passed", True, "no"),
        ("c", "passed", "error", True, ""),
        ("f", "failed", "error", True, ""),
        ("a", "failed", "passed", False, "105"),
    ]
    assert found.broke == 4


def test_the_same_share_in_other_trials_and_the_same_errors_are_no_change() -> None:
    assert flips({"a": "+", "b": "-", "c": "!"}, {"a": "+++", "b": "-----", "c": "!"}) == Flips()


def test_more_changes_than_rows_are_counted() -> None:
    names = [f"c{number:02}" for number in range(30)]
    found = flips(dict.fromkeys(names, "+"), dict.fromkeys(names, "-"), most=12)
    assert [row.address for row in found.rows] == names[:12] and (found.left, found.broke) == (18, 30)


def test_a_case_that_passed_when_it_was_asked_again_says_so() -> None:
    before, now = made_run([result("a")]), made_run([failed("a")])
    again = ConfirmedCase(id="a", target="demo", variant=None, trials=3, passed=1, errors=1, file="suites/evals.yaml")
    found = changes(before, now, Confirmations(3, {again.case: again}))
    assert (found.worse, found.cannot_tell) == (0, 1)
    [row] = flips_since(found, now).rows
    assert row.now == "failed; asked again: 1 of 2 passed, 1 error"


def test_errors_are_not_among_the_trials_that_might_have_passed() -> None:
    assert counts_words(TrialCounts(0, 0, 7)) == "7 errors"
    assert counts_words(TrialCounts(2, 1, 1)) == "2 of 3 passed, 1 error"


def test_several_targets_and_variants_are_named() -> None:
    def run(*kinds: str) -> MadeRun:
        listed = [
            (failed if kind == "-" else result)("a", target=target, variant=variant)
            for kind, (target, variant) in zip(kinds, [("small", "terse"), ("large", "terse")], strict=True)
        ]
        return made_run(listed)

    now = run("-", "+")
    assert [row.address for row in flips_since(changes(run("+", "+"), now), now).rows] == ["a / small / terse"]


def test_a_lone_other_target_is_compared_and_named_as_it_is_now() -> None:
    before, now = made_run([result("a", target="old")]), made_run([failed("a", target="new")])
    assert flips_since(changes(before, now), now).rows == (FlipRow("a", "passed", "failed", True, "no"),)


def test_what_it_said_is_the_reply_that_decided() -> None:
    turns = (
        turn("fine", step=1),
        turn("the wrong one", 2, passed=False, checks=(check(False),), step=2),
        turn("fine again", 3, step=3),
    )
    ways: tuple[StepStatus, ...] = ("passed", "failed", "passed")
    steps = tuple(StepResult(number, None, way, None) for number, way in enumerate(ways, 1))
    run = made_run([result("a", *turns, steps=steps, status="failed", passed=False)])
    [row] = flips_since(changes(made_run([result("a")]), run), run).rows
    assert row.said == "the wrong one"
