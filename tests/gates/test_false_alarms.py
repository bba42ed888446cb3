"""An unchanged bot seldom fails the default gate, and a broken case always does: simulated, with fixed seeds.

The rules decide about simulated verdicts, as they decide about those of runs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from random import Random

import pytest

from rejoinder.gates.baselines import FORMAT, Baseline, CaseTrials, Trial
from rejoinder.gates.new_failures import Confirmations, newly_failing
from rejoinder.gates.rules import COMPARING, decide, read_rule
from rejoinder.model.runs import ConfirmedCase

RULES = [read_rule(rule) for rule in COMPARING]
CONFIRM = 7


def run_of(name: str, passes: Sequence[Sequence[bool]]) -> Baseline:
    cases = tuple(
        CaseTrials("evals.yaml", f"c{at:03}", "bot", None, (), tuple(_trial(*one) for one in enumerate(trials, 1)))
        for at, trials in enumerate(passes)
    )
    return Baseline(FORMAT, name, ("evals.yaml",), 0.0, cases)


def _trial(number: int, passed: bool) -> Trial:
    return Trial(number, "passed" if passed else "failed", passed, 0.0, ())


def build(rng: Random, before: Sequence[float], now: Sequence[float], repeats: tuple[int, int]) -> dict[str, str]:
    """The verdict of each rule for a new run, whose new failures are asked again, against a new baseline. `before` and
    `now`: the chance that each case passes."""
    first = run_of("a", [[rng.random() < p for _ in range(repeats[0])] for p in before])
    second = run_of("b", [[rng.random() < p for _ in range(repeats[1])] for p in now])
    asked = {}
    for key in newly_failing(second, first):
        chance, trials, passed = now[int(key.id[1:])], 0, 0
        while trials < CONFIRM and not passed:
            trials, passed = trials + 1, int(rng.random() < chance)
        asked[key] = ConfirmedCase(id=key.id, target="bot", variant=None, trials=trials, passed=passed, file=key.file)
    found = decide(RULES, second, first, further=Confirmations(CONFIRM, asked))
    return {rule.rule: rule.verdict for rule in found.rules} | {"gate": found.verdict}


def count_failures(
    seed: int, chances: Sequence[float], repeats: tuple[int, int], builds: int, now: Sequence[float] | None = None
) -> Counter[str]:
    return count_verdicts(seed, chances, repeats, builds, now)["fail"]


def count_verdicts(
    seed: int, chances: Sequence[float], repeats: tuple[int, int], builds: int, now: Sequence[float] | None = None
) -> dict[str, Counter[str]]:
    """How often each rule had a verdict, by verdict."""
    rng, counts = Random(seed), {verdict: Counter[str]() for verdict in ("fail", "cannot-tell", "pass")}
    for _ in range(builds):
        for name, verdict in build(rng, chances, chances if now is None else now, repeats).items():
            counts[verdict][name] += 1
    return counts


def chances_of(cases: int, flake: float, share: float = 1.0) -> list[float]:
    """`share` of the cases fail by chance, so often each; the others always pass."""
    return [1 - flake if at < round(share * cases) else 1.0 for at in range(cases)]


FAST = [(10, 0.3, 1.0), (30, 0.3, 1.0), (60, 0.1, 1.0), (200, 0.3, 0.5), (100, 0.2, 0.3), (20, 0.0, 1.0)]


@pytest.mark.parametrize(("cases", "flake", "share"), FAST)
def test_an_unchanged_bot_is_seldom_red(cases: int, flake: float, share: float) -> None:
    builds = 200
    failed = count_failures(cases, chances_of(cases, flake, share), (1, 1), builds)
    assert failed["no-new-failures"] <= 0.02 * builds + 3
    assert failed["gate"] <= 0.05 * builds + 6


KNOWN_FLAKY = [(10, 0.3, 1.0, (5, 1)), (50, 0.3, 1.0, (3, 1)), (100, 0.2, 0.3, (5, 2)), (100, 0.3, 1.0, (10, 1))]


@pytest.mark.parametrize(("cases", "flake", "share", "repeats"), KNOWN_FLAKY)
def test_a_bot_known_to_be_flaky_is_seldom_red_or_in_doubt(
    cases: int, flake: float, share: float, repeats: tuple[int, int]
) -> None:
    builds = 100
    found = count_verdicts(cases, chances_of(cases, flake, share), repeats, builds)
    assert found["fail"]["no-new-failures"] <= 0.02 * builds + 2
    assert found["cannot-tell"]["no-new-failures"] <= 0.02 * builds + 2


@pytest.mark.long
@pytest.mark.parametrize("repeats", [(1, 1), (3, 3), (1, 3), (3, 1), (5, 2), (5, 1), (10, 1)])
@pytest.mark.parametrize("share", [1.0, 0.3])
@pytest.mark.parametrize("flake", [0.0, 0.05, 0.1, 0.2, 0.3])
@pytest.mark.parametrize("cases", [10, 20, 50, 100, 200])
def test_an_unchanged_bot_is_red_in_at_most_five_percent_of_builds(
    cases: int, flake: float, share: float, repeats: tuple[int, int]
) -> None:
    builds = 600
    found = count_verdicts(cases, chances_of(cases, flake, share), repeats, builds)
    assert found["fail"]["no-new-failures"] <= 0.02 * builds + 6  # two standard errors of a true 2 %
    assert found["fail"]["gate"] <= 0.05 * builds + 11
    assert found["cannot-tell"]["no-new-failures"] <= 0.02 * builds + 6


@pytest.mark.parametrize(("cases", "broken", "flake"), [(10, 1, 0.0), (60, 1, 0.3), (200, 2, 0.1)])
def test_a_case_that_broke_for_good_is_red_in_every_build(cases: int, broken: int, flake: float) -> None:
    before = chances_of(cases, flake)
    before[:broken] = [1.0] * broken
    now = [0.0] * broken + before[broken:]
    assert count_failures(7, before, (1, 1), 30, now)["no-new-failures"] == 30


@pytest.mark.parametrize(
    ("cases", "rate", "share", "repeats"),
    [(10, 0.5, 1.0, (10, 1)), (50, 0.3, 0.1, (5, 1)), (50, 0.5, 0.1, (10, 1)), (10, 0.3, 0.1, (5, 3))],
)
def test_cases_that_mostly_fail_raise_few_alarms_after_a_lucky_baseline(
    cases: int, rate: float, share: float, repeats: tuple[int, int]
) -> None:
    """Those that passed most trials of the baseline by chance fall back to their rate."""
    builds = 150
    failed = count_failures(cases, chances_of(cases, 1 - rate, share), repeats, builds)
    assert failed["no-new-failures"] <= 0.02 * builds + 3


def test_a_flaky_case_that_broke_for_good_is_never_green() -> None:
    """Beside steady cases and other flaky ones."""
    before = [1.0] * 40 + [0.9] * 21
    found = count_verdicts(11, before, (10, 1), 40, [*before[:-1], 0.0])
    assert found["pass"]["no-new-failures"] == 0
    assert found["fail"]["no-new-failures"] >= 36


def test_the_chance_that_is_told_is_not_far_below_the_true_one() -> None:
    """Of 200 cases that fail in three of ten trials, 0.9 % of builds have one that passes first and then fails eight
    times; it is estimated from two trials of each case."""
    rng, told = Random(5), list[float]()
    for _ in range(40):
        first = run_of("a", [[rng.random() < 0.7] for _ in range(200)])
        second = run_of("b", [[rng.random() < 0.7] for _ in range(200)])
        told.append(decide(RULES, second, first, further=Confirmations(CONFIRM, {})).false_alarms["no-new-failures"])
    told.sort()
    assert 0.004 < told[20] < 0.06
