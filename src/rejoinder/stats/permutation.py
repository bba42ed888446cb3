"""Tests of paired runs by permutation: no seed and no resampling, every deal is counted.

Two questions are asked. `sign_flip`: were the two runs of each case swapped at random? It needs differences that are as
likely to be above 0 as below, and so the same number of trials on both sides. `deal_out`: were the trials of each case
dealt out to the runs at random? It needs no such thing, and holds where a case has one trial in A and ten in B.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate, chain, repeat
from math import fsum, gcd, sqrt

from msgspec import Struct

from rejoinder.model.figures import SignFlip
from rejoinder.stats.distributions import hypergeometric, normal_above

EXACT_CASES = 2000
EXACT_STEPS = 20_000_000
"""A second. Trials of very unequal numbers have more sums; their differences are rounded."""
DEALT_STEPS = 4_000_000
"""Half a second. More trials than these have the normal approximation."""
GRID = 1 << 53
_NOTHING = 1e-30
Counts = tuple[int, int]
"""Passed, trials."""


def sign_flip(differences: Iterable[int] | Mapping[int, int]) -> SignFlip:
    """The sign-flip (permutation) test of paired differences, as whole numbers of a common denominator.

    Exact, by adding up the sums of all choices of signs, for up to 2,000 cases that differ; p is mid-p (Lancaster
    1961). With one trial a case it is the mid-p McNemar test (Fagerland, Lydersen and Laake 2013). Above, it is the
    normal approximation.
    """
    known = Counter(differences)
    del known[0]
    if not known:
        return SignFlip(1.0, 1.0, "sign-flip mid-p")
    unit = gcd(*known)
    shorter = _shorter([one // unit for one in known])
    if known.total() > EXACT_CASES:
        sums = list(zip(shorter, known.values(), strict=True))
        squares = sum(one * one * cases for one, cases in sums)
        p_value = 2 * normal_above(abs(sum(one * cases for one, cases in sums)) / sqrt(squares))
        return SignFlip(p_value, p_value, "sign-flip, normal approximation")
    values = list(chain.from_iterable(map(repeat, shorter, known.values())))
    while _steps(values) > EXACT_STEPS:  # as exact, for differences of fewer digits
        values = _halved(values, 1)
    sizes, seen = sorted(map(abs, values)), abs(sum(values))
    offset, chances = _sums_of_chosen(sizes)
    # The sum is `seen` where the chosen sizes add up to this; both are odd or both even.
    place = (seen + sum(sizes)) // 2 - offset
    above, equal = fsum(chances[max(0, place + 1) :]), chances[place] if 0 <= place < len(chances) else 0.0
    if seen == 0:
        return SignFlip(min(1.0, 2 * above + equal / 2), 1.0, "sign-flip mid-p")
    return SignFlip(2 * above + equal, min(1.0, 2 * (above + equal)), "sign-flip mid-p")


def _shorter(values: Sequence[int]) -> list[int]:
    """The same in parts of a float's grid if they have more digits: their sums and squares fit a float."""
    return _halved(values, max(0, max(map(abs, values)).bit_length() - GRID.bit_length()))


def _halved(values: Sequence[int], times: int) -> list[int]:
    """Rounded away from 0: a difference stays one, and mirrored values stay mirrored."""
    return [-(-one >> times) if one > 0 else one >> times for one in values]


def _steps(values: Sequence[int]) -> float:
    """About how many additions `_sums_of_chosen` takes."""
    sizes = sorted(map(abs, values))
    running = zip(accumulate(sizes), accumulate(one * one for one in sizes), strict=True)
    return fsum(min(total, 12 * sqrt(squares)) for total, squares in running)


def _sums_of_chosen(sizes: Sequence[int]) -> tuple[int, list[float]]:
    """The chance of each sum, where every size is chosen or not by the toss of a coin; from the offset on. Ends that
    are next to impossible are cut off."""
    offset, chances = 0, [1.0]
    for size in sizes:
        gap = [0.0] * size
        chances = [(left + right) / 2 for left, right in zip(chances + gap, gap + chances, strict=True)]
        cut, chances = _trimmed(chances)
        offset += cut
    return offset, chances


class Deal(Struct, frozen=True):
    """The passes of B, among all ways to deal out the passes of each case to the trials of both runs."""

    below: float
    """The chance of fewer passes in B than there are."""
    equal: float
    above: float
    score: float
    """By how many standard deviations B has more passes than it would be dealt; 0 where nothing could be dealt."""
    method: str = "dealt out within cases, mid-p"

    @property
    def p_value(self) -> float:
        """Mid-p that B is no better, two-sided."""
        return min(1.0, 2 * self.above + self.equal)

    @property
    def exact(self) -> float:
        return min(1.0, 2 * (self.above + self.equal))


def deal_out(counts: Mapping[tuple[Counts, Counts], int]) -> Deal:
    """The permutation test within cases, by the sum of B's passes. If a case does as well in both runs, its passes fall
    on its trials at random: those of B are hypergeometric. Their sum over cases is added up exactly; where that takes
    too long it is normal."""
    varying = Counter[tuple[int, int, int]]()
    seen = 0
    for ((before, m), (after, n)), cases in counts.items():
        if 0 < before + after < m + n:
            varying[before + after, m, n] += cases
            seen += after * cases
    if not varying:
        return Deal(0.0, 1.0, 0.0, 0.0)
    mean = fsum(passes * n / (m + n) * cases for (passes, m, n), cases in varying.items())
    variances = {one: _variance(*one) * cases for one, cases in varying.items()}
    deviation = sqrt(fsum(variances.values()))
    score = (seen - mean) / deviation
    if _takes_long(varying):
        below, above = normal_above(-score), normal_above(score)
        return Deal(below, 0.0, above, score, "dealt out within cases, normal approximation")
    offset, chances = 0, [1.0]
    for (passes, m, n), cases in sorted(varying.items()):
        least, shares = hypergeometric(passes, m, n)
        for _ in range(cases):
            cut, chances = _trimmed(_convolved(chances, shares))
            offset += least + cut
    place = seen - offset
    equal = chances[place] if 0 <= place < len(chances) else 0.0
    return Deal(fsum(chances[: max(0, place)]), equal, fsum(chances[max(0, place + 1) :]), score)


def _variance(passes: int, m: int, n: int) -> float:
    every = m + n
    return n * m / every * (passes / every) * ((every - passes) / (every - 1))


def _takes_long(varying: Mapping[tuple[int, int, int], int]) -> bool:
    """Do the sums take more additions than they may?"""
    steps, variance = 0.0, 0.0
    for (passes, m, n), cases in sorted(varying.items()):
        width, own = 1 + min(passes, n, m, m + n - passes), _variance(passes, m, n)
        if cases * width > DEALT_STEPS:
            return True
        for _ in range(cases):
            variance += own
            steps += width * (1 + 24 * sqrt(variance))
        if steps > DEALT_STEPS:
            return True
    return False


def _convolved(chances: Sequence[float], shares: Sequence[float]) -> list[float]:
    found = [0.0] * (len(chances) + len(shares) - 1)
    for place, share in enumerate(shares):
        end = place + len(chances)
        found[place:end] = [one + share * chance for one, chance in zip(found[place:end], chances, strict=True)]
    return found


def _trimmed(chances: list[float]) -> tuple[int, list[float]]:
    """Without the ends that are next to impossible, and how many of the first were cut off."""
    while chances[-1] < _NOTHING:
        chances.pop()
    cut = next(place for place, chance in enumerate(chances) if chance >= _NOTHING)
    return cut, chances[cut:] if cut else chances
