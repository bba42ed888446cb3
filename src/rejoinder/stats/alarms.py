"""How often a suite that did not change would be called broken by chance."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import exp, expm1, fsum, lgamma, log1p
from typing import NamedTuple

REGRESSION_LEVEL = 0.025
"""How often `no-regression` fails for runs that differ by chance alone: a two-sided test at 5 %, its worse side."""

UNSEEN = 0.1
"""Disagreements between trials that are taken to have been missed."""


class Outcome(NamedTuple):
    """An outcome of a case's trials in two runs together."""

    ways: int
    """Orders of the trials that come to it."""
    passed: int
    failed: int


def new_failure_chance(counts: Iterable[tuple[int, int]], outcomes: Sequence[Iterable[Outcome]]) -> float:
    """The chance that some case of an unchanged suite passes the trials of one run and none of the next.

    `counts`: passes and trials of each case, of both runs together, from which its flakiness is estimated. `outcomes`:
    of each case that can be called a new failure, those in which it is.

    Pass rates of cases are taken to follow a beta distribution with the mean and the spread that the counts show, by
    the method of moments: how often two trials of one case disagree gives E[p(1-p)]. A tenth of a disagreement, in one
    case more, is added, so that a suite in which nothing ever changed is not called perfectly stable."""
    known = [(passed / of, 2 * passed * (of - passed) / (of * (of - 1))) for passed, of in counts if of > 1]
    number = len(known) + 1
    mean = (fsum(rate for rate, _ in known) + 0.5) / number
    within = (fsum(flips for _, flips in known) + UNSEEN) / number / 2
    spread = mean * (1 - mean) - within
    if spread <= 1e-9:  # all cases are equally flaky
        chances = (fsum(w * mean**k * (1 - mean) ** f for w, k, f in case) for case in outcomes)
    else:
        size = within / spread
        a, b = mean * size, (1 - mean) * size
        chances = (fsum(w * exp(_log_beta(a + k, b + f) - _log_beta(a, b)) for w, k, f in case) for case in outcomes)
    return -expm1(fsum(log1p(-min(chance, 0.999999)) for chance in chances))


def _log_beta(a: float, b: float) -> float:
    return lgamma(a) + lgamma(b) - lgamma(a + b)
