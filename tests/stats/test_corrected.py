"""The rate behind a judge's: reasons, limits, and how often its interval holds the truth under repeats."""

from __future__ import annotations

import pytest

from rejoinder.stats.corrected import corrected_rate, rogan_gladen_interval
from rejoinder.stats.rates import rate_of
from rejoinder.words.figures import corrected_words
from tests.stats.simulated import Draw


def test_the_known_rate_has_its_interval_and_its_sample() -> None:
    found = corrected_rate(rate_of([(1, 1)] * 80 + [(0, 1)] * 20), (90, 100), (70, 100), errors=5)
    assert found.rate == pytest.approx(0.8333, abs=5e-5)
    assert found.interval == pytest.approx(rogan_gladen_interval((80, 100), (90, 100), (70, 100)))
    assert (found.verdicts, found.of, found.cases, found.clipped) == (100, 105, 100, False)
    assert corrected_words(found) == "83% (68 to 99), over 100 of 105 verdicts"


@pytest.mark.parametrize(
    ("counts", "sensitivity", "specificity", "reason"),
    [
        ([], (9, 10), (9, 10), "no-verdicts"),
        ([(1, 1)], (0, 0), (9, 10), "no-labels"),
        ([(1, 1)], (9, 10), (0, 0), "no-labels"),
        ([(1, 1)], (5, 10), (5, 10), "tells-nothing"),
        ([(1, 1)], (2, 10), (3, 10), "tells-nothing"),
    ],
)
def test_where_it_cannot_be_known_it_says_why(
    counts: list[tuple[int, int]], sensitivity: tuple[int, int], specificity: tuple[int, int], reason: str
) -> None:
    found = corrected_rate(rate_of(counts), sensitivity, specificity)
    assert (found.rate, found.interval, found.method, found.reason) == (None, None, None, reason)
    assert corrected_words(found).startswith("not known: ")


def test_an_impossible_rate_is_cut_off_and_said_to_be() -> None:
    found = corrected_rate(rate_of([(0, 1)] * 30), (45, 50), (35, 50))
    assert (found.rate, found.clipped) == (0.0, True)
    assert corrected_words(found).endswith("cut off: no true rate gives what the judge saw")
    assert found.interval is not None
    assert found.interval[1] > 0.05


def test_repeats_of_cases_say_less_than_as_many_cases() -> None:
    apart = corrected_rate(rate_of([(1, 1)] * 80 + [(0, 1)] * 20), (90, 100), (70, 100)).interval
    together = corrected_rate(rate_of([(10, 10)] * 8 + [(0, 10)] * 2), (90, 100), (70, 100)).interval
    assert apart is not None and together is not None
    assert together[1] - together[0] > 1.5 * (apart[1] - apart[0])


@pytest.mark.parametrize("truth", [0.5, 0.8, 0.95])
@pytest.mark.parametrize(("cases", "trials"), [(20, 5), (50, 3), (100, 1)])
def test_the_interval_covers(cases: int, trials: int, truth: float) -> None:
    """The judge passes 90 % of what is right and 20 % of what is wrong; it was tested on 40 labels of each kind."""
    draw, rounds, held = Draw(41), 400, 0
    for _ in range(rounds):
        judged: list[tuple[int, int]] = []
        for rate in draw.rates(cases, truth, 0.4):
            right = draw.passes(rate, trials)
            judged.append((draw.passes(0.9, right) + draw.passes(0.2, trials - right), trials))
        found = corrected_rate(rate_of(judged), (draw.passes(0.9, 40), 40), (draw.passes(0.8, 40), 40))
        held += found.interval is not None and found.interval[0] <= truth <= found.interval[1]
    assert held / rounds >= 0.93


def test_a_second_look_is_not_what_it_corrects() -> None:
    """Every reply is wrong, and the judge that passes 30 % of them gets three looks: corrected as if it were one look,
    the rate is far from the truth, which is 0. On first verdicts it is right."""
    draw = Draw(42)
    looks = [[draw.passes(0.3, 1) for _ in range(3)] for _ in range(400)]
    first = corrected_rate(rate_of((look[0], 1) for look in looks), (90, 100), (70, 100))
    last = corrected_rate(rate_of((max(look), 1) for look in looks), (90, 100), (70, 100))
    assert first.rate is not None and last.rate is not None
    assert first.rate < 0.1
    assert last.rate > 0.5
