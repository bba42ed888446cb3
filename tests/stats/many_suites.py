"""Thousands of comparisons of suites of known truth at once, for tests that need more of them than `compare_runs` can
make. The tests of this module hold them against it."""

from __future__ import annotations

from functools import cache
from math import sqrt
from typing import Any, NamedTuple

import numpy

from rejoinder.stats.distributions import hypergeometric, t_quantile

LEAST = 1e-60


class Suites(NamedTuple):
    """Suites of one kind: cases, trials in A and in B, the true rate, how alike the trials of a case are, by how much B
    passes less, and whether each case loses that much or as large a share of the cases breaks for good."""

    cases: int
    a: int
    b: int
    rate: float
    likeness: float
    drop: float = 0.0
    breaks: bool = False

    @property
    def same(self) -> Suites:
        return self._replace(drop=0.0, breaks=False)


class Called(NamedTuple):
    """How often each rule calls B worse, and better."""

    before: tuple[float, float]
    """The sign-flip test and the interval alone: the rule before trials were dealt out."""
    larger: tuple[float, float]
    """The larger p-value of both tests: the rule after that."""
    now: tuple[float, float]


def passes(suites: Suites, rounds: int, seed: int, later: bool = False) -> tuple[Any, Any]:
    """Of each case of each suite, in A and in B; with `later`, both are runs of the model of B."""
    draw = numpy.random.default_rng([seed, later, suites.breaks, *(round(1000 * one) for one in suites[:6])])
    shape = rounds, suites.cases
    size = 1 / suites.likeness - 1 if suites.likeness else 0
    rates = draw.beta(suites.rate * size, (1 - suites.rate) * size, shape) if size else numpy.full(shape, suites.rate)
    broken = draw.random(shape) < suites.drop / suites.rate
    dropped = numpy.where(broken, 0.0, rates) if suites.breaks else numpy.maximum(0.0, rates - suites.drop)
    return draw.binomial(suites.a, dropped if later else rates), draw.binomial(suites.b, dropped)


def called(suites: Suites, rounds: int, seed: int, later: bool = False) -> Called:
    before, larger, now, side = p_values(*passes(suites, rounds, seed, later), suites.a, suites.b)
    return Called(*(_shares((p_value < 0.05) * side) for p_value in (before, larger, now)))


def _shares(verdicts: Any) -> tuple[float, float]:
    return float((verdicts < 0).mean()), float((verdicts > 0).mean())


def p_values(before: Any, after: Any, a: int, b: int) -> tuple[Any, Any, Any, Any]:
    """By each rule, and the side of 0 that the interval lies on."""
    rounds = max(20, 4_000_000 // _size(2 * before.shape[1] * a * b))
    parts = range(0, len(before), rounds)
    found = [_p_values(before[one : one + rounds], after[one : one + rounds], a, b) for one in parts]
    return tuple(numpy.concatenate(one) for one in zip(*found, strict=True))  # type: ignore[return-value]


def _p_values(before: Any, after: Any, a: int, b: int) -> tuple[Any, Any, Any, Any]:
    gains = after * a - before * b
    flips, deal = _flips(gains, a * b), _deal(before, after, a, b, gains.sum(axis=1))
    return flips, numpy.maximum(flips, deal), numpy.maximum(flips, (flips + deal) / 2), _side(gains / (a * b))


def _size(most: int) -> int:
    return 1 << (most + 1).bit_length()


@cache
def _turns(size: int) -> Any:
    return 2 * numpy.pi * numpy.arange(size // 2 + 1) / size


def _counted(values: Any, of: range) -> Any:
    return numpy.stack([(values == one).sum(axis=1) for one in of], axis=1).astype(float)


def _flips(gains: Any, most: int) -> Any:
    """The two-sided mid-p of the sign-flip test, by the characteristic function of the sum: a product of cosines."""
    size = _size(2 * gains.shape[1] * most)
    cosines = numpy.cos(numpy.outer(numpy.arange(1, most + 1), _turns(size)))
    counts = _counted(abs(gains), range(1, most + 1))
    signs = 1 - 2 * ((counts @ (cosines < 0)) % 2)
    chances = numpy.fft.irfft(signs * numpy.exp(counts @ numpy.log(numpy.maximum(abs(cosines), LEAST))), size, axis=1)
    places = numpy.arange(size)
    sums, seen = abs(numpy.where(places < size // 2, places, places - size)), abs(gains.sum(axis=1))[:, None]
    p_value = (chances * (sums > seen)).sum(axis=1) + (chances * (sums == seen)).sum(axis=1) / 2
    return numpy.where(seen[:, 0] == 0, 1.0, p_value)


def _deal(before: Any, after: Any, a: int, b: int, gains: Any) -> Any:
    """The two-sided mid-p of dealing the passes out, likewise."""
    size, dealt = _size(before.shape[1] * b), range(1, a + b)
    logs = []
    for one in dealt:
        least, shares = hypergeometric(one, a, b)
        function = sum(share * numpy.exp(-1j * _turns(size) * (least + place)) for place, share in enumerate(shares))
        logs.append(numpy.log(numpy.maximum(abs(function), LEAST)) + 1j * numpy.angle(function))
    both = before + after
    chances = numpy.fft.irfft(numpy.exp(_counted(both, dealt).astype(complex) @ numpy.array(logs)), size, axis=1)
    seen = (after * ((both > 0) & (both < a + b))).sum(axis=1)[:, None]
    places = numpy.arange(size)[None]
    beyond = numpy.where((gains > 0)[:, None], places > seen, places < seen)
    tail = (chances * beyond).sum(axis=1) + (chances * (places == seen)).sum(axis=1) / 2
    return numpy.minimum(1.0, 2 * tail)


def _side(values: Any) -> Any:
    n = values.shape[1]
    quantile = t_quantile(0.975, n - 1) or 0.0
    mean, error = values.mean(axis=1), values.std(axis=1, ddof=1) / sqrt(n)
    made_up_mean = values.sum(axis=1) / (n + 2)
    squares = (values**2).sum(axis=1) + 2 - (n + 2) * made_up_mean**2
    few = ((values != 0).sum(axis=1) < 5) | (values == values[:, :1]).all(axis=1)
    middle = numpy.where(few, made_up_mean, mean)
    width = quantile * numpy.where(few, numpy.sqrt(squares / (n + 1) / (n + 2)), error)
    return numpy.sign(middle) * (abs(middle) > width)
