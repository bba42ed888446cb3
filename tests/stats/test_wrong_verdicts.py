"""One model against itself: "better" or "worse" stands in at most a twentieth of the answers, whatever they are of."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import pytest

from rejoinder.stats.comparison import Pair, Trials, compare_all, compare_groups, compare_runs
from tests.stats.simulated import Draw


class Answer(NamedTuple):
    """Cases, trials in A and in B, the true rate and how alike the trials of a case are; several targets against the
    first, tags or conditions of a task; and the share of trials that end in an error."""

    cases: int
    a: int = 1
    b: int = 1
    rate: float = 0.8
    likeness: float = 0.5
    targets: int = 0
    tags: int = 0
    conditions: int = 0
    errors_a: float = 0.0
    errors_b: float = 0.0


def trials(draw: Draw, rate: float, number: int, errors: float) -> Trials:
    failed = draw.passes(errors, number)
    return Trials(draw.passes(rate, number - failed), number, failed)


def pairs(draw: Draw, one: Answer, rates: list[float]) -> list[Pair]:
    return [(trials(draw, rate, one.a, one.errors_a), trials(draw, rate, one.b, one.errors_b)) for rate in rates]


def verdicts(draw: Draw, one: Answer) -> set[str]:
    """Of one answer."""
    rates = draw.rates(one.cases, one.rate, one.likeness)
    if one.targets:
        first = [trials(draw, rate, one.a, one.errors_a) for rate in rates]
        others = ([trials(draw, rate, one.b, one.errors_b) for rate in rates] for _ in range(1, one.targets))
        return said({str(place): list(zip(first, other, strict=True)) for place, other in enumerate(others)})
    if one.conditions:
        # As alike as they can be: what a task does, it does in every condition.
        same = pairs(draw, one, rates)
        return said({str(place): same for place in range(one.conditions)})
    if one.tags:
        tags = {str(tag): pairs(draw, one, draw.rates(one.cases, one.rate, one.likeness)) for tag in range(one.tags)}
        return {found.verdict for found in compare_groups(tags)}
    return {compare_runs(pairs(draw, one, rates)).verdict}


def said(groups: Mapping[str, list[Pair]]) -> set[str]:
    return {found.verdict for found in compare_all(groups).values()}


def wrong(seed: int, answers: int, one: Answer) -> float:
    """The share of answers that call something better or worse."""
    draw = Draw(seed)
    return sum(not verdicts(draw, one).isdisjoint({"better", "worse"}) for _ in range(answers)) / answers


ANSWERS = [
    # cases and equal repeats
    Answer(10, 1, 1),
    Answer(10, 10, 10),
    Answer(50, 3, 3, 0.95),
    Answer(100, 1, 1),
    Answer(100, 5, 5, 0.9, 0.1),
    # unequal repeats
    Answer(10, 1, 10, 0.8, 0.1),
    Answer(30, 1, 5, 0.95, 0.1),
    Answer(50, 10, 1, 0.9, 0.1),
    Answer(100, 1, 3),
    # targets
    Answer(50, 1, 1, targets=3),
    Answer(50, 3, 3, targets=10),
    Answer(50, 1, 5, 0.9, 0.1, targets=10),
    Answer(30, 10, 1, 0.9, 0.1, targets=5),
    # tags
    Answer(20, 3, 3, tags=6),
    Answer(30, 1, 5, 0.9, 0.1, tags=4),
    # conditions of sharded tasks
    Answer(20, 1, 1, 0.5, 0.5, conditions=3),
    Answer(30, 1, 5, 0.9, 0.1, conditions=3),
    # errors
    Answer(50, 1, 1, errors_a=0.1, errors_b=0.1),
    Answer(50, 3, 3, errors_b=0.2),
    Answer(50, 3, 1, 0.9, 0.1, errors_a=0.2),
    Answer(30, 1, 3, 0.9, 0.1, targets=5, errors_a=0.1, errors_b=0.3),
]


@pytest.mark.parametrize("one", ANSWERS, ids=str)
def test_one_model_is_seldom_called_better_or_worse(one: Answer) -> None:
    assert wrong(95, 200, one) <= 0.06


@pytest.mark.long
@pytest.mark.parametrize("one", ANSWERS, ids=str)
def test_one_model_is_called_better_or_worse_in_at_most_five_percent(one: Answer) -> None:
    assert wrong(96, 4000, one) <= 0.058


def test_the_sign_flip_test_alone_would_call_more() -> None:
    """So these answers can tell: without dealing trials out, or without Holm."""
    draw, unequal, uncorrected = Draw(97), 0, 0
    for _ in range(200):
        rates = draw.rates(30, 0.95, 0.0)
        unequal += compare_runs(pairs(draw, Answer(30, 1, 5), rates)).undecided == "trials"
        groups = [pairs(draw, Answer(50), draw.rates(50, 0.8, 0.0)) for _ in range(9)]
        uncorrected += any(compare_runs(one).verdict in ("better", "worse") for one in groups)
    assert unequal / 200 > 0.1
    assert uncorrected / 200 > 0.2
