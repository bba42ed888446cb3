"""Net recovery: what answering back gained over asking afresh."""

from __future__ import annotations

from math import sqrt

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rejoinder.model.figures import NetRecovery
from rejoinder.stats.recovery import Tries, compare_net_recovery, net_recovery
from rejoinder.words.figures import net_difference_words, net_words
from tests.kit import bounded
from tests.stats.simulated import Draw

KNOWN = [Tries(3, 1, 2, 1), Tries(3, 0, 3, 2), Tries(3, 2, 1, 1), Tries(3, 0, 3, 0)]


def test_the_known_answer() -> None:
    found = net_recovery(KNOWN)
    assert [one.control for one in KNOWN] == [1, 0, 1, 0]
    assert found.net == pytest.approx(2 / 9)
    assert (found.answered_back, found.afresh) == (pytest.approx(4 / 9), pytest.approx(2 / 9))
    assert (found.failures, found.cases, found.verdict, found.interval) == (9, 4, "too-few", None)
    assert net_words(found) == "too few failures to tell"


@pytest.mark.slow
def test_the_interval_is_that_of_a_ratio_over_cases() -> None:
    from scipy import stats as scipy

    tries = [Tries(4, first, 4 - first, recovered) for first, recovered in MIXED]
    gains = [recovered - (4 - first) * first / 3 for first, recovered in MIXED]
    failures = sum(4 - first for first, _ in MIXED)
    net = sum(gains) / failures
    squares = sum((gain - net * (4 - first)) ** 2 for gain, (first, _) in zip(gains, MIXED, strict=True))
    error = sqrt(len(MIXED) / (len(MIXED) - 1) * squares) / failures
    margin = float(scipy.t.ppf(0.975, sum(first < 4 for first, _ in MIXED) - 1)) * error
    found = net_recovery(tries)
    assert found.net == pytest.approx(net)
    assert found.interval == pytest.approx((net - margin, net + margin))
    assert found.method == "ratio of clusters, t"
    assert found.answered_back is not None and found.afresh is not None
    assert found.net == pytest.approx(found.answered_back - found.afresh)


MIXED = [(0, 3), (1, 0), (2, 2), (3, 0), (4, 0), (1, 2), (2, 0), (0, 1), (3, 1), (1, 0), (2, 1), (4, 0)]


def test_a_control_takes_the_place_of_repeats() -> None:
    found = net_recovery([Tries(1, 0, 1, int(place < 9), afresh=int(place % 4 == 0)) for place in range(12)])
    assert (found.answered_back, found.afresh, found.net) == (0.75, 0.25, 0.5)
    assert found.verdict == "listens"


def test_a_failure_without_a_control_is_told_and_left_out() -> None:
    found = net_recovery([*KNOWN, Tries(1, 0, 1, 1)])
    assert (found.failures, found.uncontrolled, found.net) == (9, 1, pytest.approx(2 / 9))
    nothing = net_recovery([Tries(1, 0, 1, 1), Tries(3, 3, 0, 0)])
    assert (nothing.net, nothing.uncontrolled, nothing.verdict) == (None, 1, "too-few")


@pytest.mark.parametrize("recovered", [0, 1])
def test_equal_cases_are_not_certain(recovered: int) -> None:
    found = net_recovery([Tries(2, 0, 2, 2 * recovered)] * 10)
    assert found.net == recovered
    low, high = found.interval or (0.0, 0.0)
    assert low <= found.net <= high
    assert high - low > 0.2
    assert found.method == "ratio of clusters, t, two made-up cases"
    assert found.verdict == ("listens" if recovered else "cannot-tell")


def tries_of(trials: int, first: int, recovered: int, afresh: int | None) -> Tries:
    failed = max(0, trials - first)
    control = None if afresh is None else min(afresh, failed)
    return Tries(trials, min(first, trials), failed, min(recovered, failed), control)


numbers = st.integers(0, 5)
some_tries = st.builds(tries_of, st.integers(1, 5), numbers, numbers, st.none() | numbers)


@bounded(100)
@given(st.lists(some_tries, max_size=20))
def test_the_net_lies_in_its_interval_and_in_range(tries: list[Tries]) -> None:
    found = net_recovery(tries)
    assert found.failures + found.uncontrolled == sum(one.failed for one in tries)
    if found.interval is None:
        assert found.verdict == "too-few"
        return
    assert found.net is not None
    low, high = found.interval
    assert low < high, "never certain"
    assert low <= found.net <= high
    assert low >= -1
    assert high <= 1


@bounded(60)
@given(st.lists(st.tuples(some_tries, some_tries), max_size=20))
def test_a_difference_is_mirrored_when_runs_are_swapped(pairs: list[tuple[Tries, Tries]]) -> None:
    there, back = compare_net_recovery(pairs), compare_net_recovery([(b, a) for a, b in pairs])
    assert {there.verdict, back.verdict} in ({"better", "worse"}, {"cannot-tell"}, {"too-few"})
    assert (there.a, there.b, there.cases) == (back.b, back.a, back.cases)
    if there.interval is not None and there.difference is not None and back.interval is not None:
        assert back.difference == pytest.approx(-there.difference, abs=1e-12)
        assert back.interval == pytest.approx((-there.interval[1], -there.interval[0]), abs=1e-12)
        assert there.interval[0] <= there.difference <= there.interval[1]


# Models of known hearing


def played(draw: Draw, rates: list[float], trials: int, hears: float, *, control: bool = False) -> list[Tries]:
    """Follow-ups pass as often as a first try does, and `hears` of the other times."""
    found: list[Tries] = []
    for rate in rates:
        first = draw.passes(rate, trials)
        failed = trials - first
        recovered = draw.passes(rate + hears * (1 - rate), failed)
        found.append(Tries(trials, first, failed, recovered, draw.passes(rate, failed) if control else None))
    return found


def verdicts(draw: Draw, rounds: int, suite: tuple[int, float, float], trials: int, hears: float) -> list[NetRecovery]:
    return [net_recovery(played(draw, draw.rates(*suite), trials, hears, control=trials == 1)) for _ in range(rounds)]


DEAF = [
    (20, 0.5, 0.3, 3),
    (20, 0.2, 0.05, 5),
    (50, 0.8, 0.3, 3),
    (50, 0.8, 0.05, 5),
    # Mostly right: nearly every follow-up passes, which the plain formula takes for listening in up to 19 %.
    (50, 0.95, 0.05, 10),
    (50, 0.95, 0.0, 10),
    (20, 0.95, 0.05, 10),
    # With `control: afresh`.
    (50, 0.5, 0.3, 1),
    (20, 0.2, 0.05, 1),
]


@pytest.mark.parametrize(("cases", "mean", "likeness", "trials"), DEAF)
def test_a_deaf_model_is_seldom_called_listening(cases: int, mean: float, likeness: float, trials: int) -> None:
    found = verdicts(Draw(11), 600, (cases, mean, likeness), trials, 0.0)
    told = [one for one in found if one.verdict != "too-few"]
    assert sum(one.verdict == "listens" for one in told) <= 0.045 * len(told) + 1
    assert sum(one.verdict == "stuck" for one in told) <= 0.045 * len(told) + 1


@pytest.mark.long
@pytest.mark.parametrize(("cases", "mean", "likeness", "trials"), DEAF)
def test_a_deaf_model_is_called_listening_in_less_than_five_percent(
    cases: int, mean: float, likeness: float, trials: int
) -> None:
    found = verdicts(Draw(12), 6000, (cases, mean, likeness), trials, 0.0)
    told = [one for one in found if one.verdict != "too-few"]
    assert sum(one.verdict == "listens" for one in told) <= 0.042 * len(told) + 1


def test_a_deaf_model_recovers_and_gains_nothing() -> None:
    draw = Draw(13)
    found = net_recovery(played(draw, [0.4] * 3000, 3, 0.0))
    assert found.answered_back == pytest.approx(0.4, abs=0.02)
    assert found.net == pytest.approx(0.0, abs=0.02)


@pytest.mark.parametrize(("hears", "least"), [(0.3, 0.3), (0.6, 0.9)])
def test_a_model_that_listens_is_found(hears: float, least: float) -> None:
    found = verdicts(Draw(14), 300, (30, 0.5, 0.3), 3, hears)
    assert sum(one.verdict == "listens" for one in found) / len(found) >= least


@pytest.mark.parametrize("trials", [3, 5])
@pytest.mark.parametrize("cases", [20, 50])
@pytest.mark.parametrize("hears", [0.0, 0.4, 0.8])
def test_the_interval_covers(hears: float, cases: int, trials: int) -> None:
    """The truth is the gain over the failures: hears * (1 - rate), weighed by how often each case fails."""
    draw, held, told = Draw(15), 0, 0
    for _ in range(400):
        rates = draw.rates(cases, 0.5, 0.3)
        found = net_recovery(played(draw, rates, trials, hears))
        if found.interval is not None:
            # Over cases like these: Beta(7/6, 7/6) has E(1-p)^2 / E(1-p) = 0.65.
            told += 1
            held += found.interval[0] <= 0.65 * hears <= found.interval[1]
    assert told > 300
    assert held / told >= 0.92


@pytest.mark.slow
def test_a_planted_difference_is_found_and_no_other() -> None:
    draw, rounds = Draw(16), 200
    alarms = found = 0
    for _ in range(rounds):
        rates = draw.rates(50, 0.4, 0.2)
        deaf, other = played(draw, rates, 3, 0.0), played(draw, rates, 3, 0.0)
        hears = played(draw, rates, 3, 0.6)
        alarms += compare_net_recovery(list(zip(deaf, other, strict=True))).verdict in ("better", "worse")
        found += compare_net_recovery(list(zip(deaf, hears, strict=True))).verdict == "better"
    assert alarms / rounds <= 0.08
    assert found / rounds >= 0.9


def test_net_recovery_in_words() -> None:
    heard = net_recovery([Tries(2, 0, 2, 2)] * 30)
    assert net_words(heard) == "+100 points (+81 to +100): listens"
    stuck = net_recovery([Tries(4, 3, 1, 0)] * 30)
    assert net_words(stuck) == "-100 points (-100 to -81): stuck: starting over is better"
    both = compare_net_recovery([(Tries(2, 0, 2, 2), Tries(4, 3, 1, 0))] * 30)
    assert net_difference_words(both).endswith(": worse")
    assert net_difference_words(compare_net_recovery([])) == "too few failures to tell"
    assert net_words(net_recovery([Tries(4, *pair[:1], 4 - pair[0], pair[1]) for pair in MIXED])).endswith(
        ": cannot tell if it listens"
    )


# Errors on first turns


def interrupted(draw: Draw, rates: list[float], trials: int, broken: float) -> list[Tries]:
    """A deaf model whose first turns end in an error now and then: no verdict, and no follow-up."""
    found: list[Tries] = []
    for rate in rates:
        errors = draw.passes(broken, trials)
        first = draw.passes(rate, trials - errors)
        failed = trials - errors - first
        found.append(Tries(trials, first, failed, draw.passes(rate, failed), errors=errors))
    return found


def test_errors_on_first_turns_are_no_control() -> None:
    """Two of the other three trials were judged, and one of these passed."""
    one = Tries(4, 1, 2, 1, errors=1)
    assert one.control == 1
    found = net_recovery([one] * 10)
    assert (found.answered_back, found.afresh, found.net, found.errors) == (0.5, 0.5, 0, 10)
    assert net_words(found).endswith(": cannot tell if it listens; 10 errors left out")
    assert net_difference_words(compare_net_recovery([(one, one)] * 10)).endswith(": cannot tell; 20 errors left out")


def test_a_failure_with_only_errors_beside_it_has_no_control() -> None:
    found = net_recovery([*KNOWN, Tries(3, 0, 1, 1, errors=2)])
    assert (found.failures, found.uncontrolled, found.errors, found.net) == (9, 1, 2, pytest.approx(2 / 9))


def listening_in(seed: int, runs: int, broken: float, cases: int = 30, trials: int = 5) -> float:
    draw = Draw(seed)
    found = [net_recovery(interrupted(draw, draw.rates(cases, 0.5, 0.0), trials, broken)) for _ in range(runs)]
    told = [one for one in found if one.verdict != "too-few"]
    assert len(told) > runs / 2
    return sum(one.verdict == "listens" for one in told) / len(told)


@pytest.mark.parametrize("broken", [0.0, 0.1, 0.2, 0.3])
def test_errors_on_first_turns_do_not_make_a_deaf_model_listen(broken: float) -> None:
    assert listening_in(17, 400, broken) <= 0.05 + 0.015


@pytest.mark.long
@pytest.mark.parametrize(("cases", "trials"), [(20, 3), (30, 5), (50, 10)])
@pytest.mark.parametrize("broken", [0.0, 0.1, 0.2, 0.3])
def test_a_deaf_model_with_errors_is_called_listening_in_at_most_five_percent(
    broken: float, cases: int, trials: int
) -> None:
    assert listening_in(18, 4000, broken, cases, trials) <= 0.05
