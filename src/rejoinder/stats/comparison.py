"""Two runs of the same cases, compared in pairs.

A case counts by the mean of its trials, so repeats help and do not count as cases. Cases that only one run has are the
caller's to name. Swapped runs give the mirrored answer.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from math import ceil, lcm, sqrt
from typing import Any, Literal, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from rejoinder.model.figures import (
    MARGIN,
    CaseChange,
    Comparison,
    ComparisonVerdict,
    GroupComparison,
    Interval,
    SignFlip,
    Undecided,
    Unmeasured,
)
from rejoinder.stats.distributions import fisher_one_sided, holm, t_quantile
from rejoinder.stats.intervals import around
from rejoinder.stats.needed import FEW_DIFFERING, LEVEL, cases_needed
from rejoinder.stats.permutation import GRID, Counts, Deal, deal_out, sign_flip
from rejoinder.stats.rates import rate_of
from rejoinder.stats.sums import sum_of
from rejoinder.words.numbers import tenths

LARGEST_SCALE = 1 << 64
LEAST_OF_GROUP = 20
LEAST_REPEATS = 6


class Trials(Struct, frozen=True):
    """The trials of a case in one run."""

    passed: int
    trials: int
    errors: int = 0
    """Those of `trials` that ended in an error; none of them passed."""
    spoilt: int = 0
    """Further ones that a simulated user spoilt."""


Pair = tuple[Trials, Trials]
"""A case in run A and in run B."""
Pairs = Iterable[Pair] | Mapping[Pair, int]
"""A pair for each case; or the pairs that there are, with the number of cases that each of them has. Cases are many and
their pairs few, so all figures are computed from the latter, and memory does not grow with cases."""


def compare_runs(pairs: Pairs, margin: float = MARGIN) -> Comparison:
    """B against A: difference, interval, p-value and verdict, by the differences d_i = mean(B_i) - mean(A_i) of cases.

    A difference is called where the sign-flip test (`sign_flip`) and the t interval (`paired_interval`) both say so, at
    5 % and two-sided; where a case has more trials in one run than in the other, trials are dealt out as well
    (`deal_out`), which can raise the p-value (`_with_unequal_trials`). Else there is no difference beyond `margin`
    where the 90 % interval lies within it (two one-sided tests, Schuirmann 1987). Trials that ended in an error count
    as failed; if the verdict would be another one with them left out, or with all errors of one run as passes, errors
    decide and it cannot be told. Likewise conversations that a simulated user spoilt, which are left out: if all had
    failed, all had passed, or those of one run had failed and those of the other had passed.
    """
    return compare_all({"": pairs}, margin)[""]


K = TypeVar("K")


def compare_all(groups: Mapping[K, Pairs], margin: float = MARGIN, least: int = 0) -> dict[K, Comparison]:
    """`compare_runs` for several comparisons of one answer: p-values are corrected by Holm (1979), and so are the
    intervals of equivalence, over those of at least so many cases. Smaller ones are not tested."""
    known = {
        name: Counter(
            {(a, b): n for (a, b), n in Counter(pairs).items() if a.trials + a.spoilt and b.trials + b.spoilt}
        )
        for name, pairs in groups.items()
    }
    family = _Family(known, margin, least)
    return {name: family.comparison(name) for name in known}


_Paired = Counter[tuple[Counts, Counts]]
_Reading = tuple[Callable[["Trials"], Counts], Callable[["Trials"], Counts]]


def _counts(one: Trials) -> Counts:
    return one.passed, one.trials


def _left_out(one: Trials) -> Counts:
    return one.passed, one.trials - one.errors


def _passed(one: Trials) -> Counts:
    return one.passed + one.errors, one.trials


def _spoilt_failed(one: Trials) -> Counts:
    return one.passed, one.trials + one.spoilt


def _spoilt_passed(one: Trials) -> Counts:
    return one.passed + one.spoilt, one.trials + one.spoilt


PLAIN: _Reading = _counts, _counts
WITHOUT_ERRORS: tuple[_Reading, ...] = (_left_out, _left_out), (_counts, _passed), (_passed, _counts)
"""What else trials that ended in an error could count as."""
_SPOILT = _spoilt_failed, _spoilt_passed
WITH_SPOILT: tuple[_Reading, ...] = tuple((of_a, of_b) for of_a in _SPOILT for of_b in _SPOILT)
"""What conversations could count as that a simulated user spoilt, and that are left out."""


def _as_counts(pairs: Counter[Pair], reading: _Reading) -> _Paired:
    found, (of_a, of_b) = _Paired(), reading
    for (a, b), cases in pairs.items():
        before, after = of_a(a), of_b(b)
        if before[1] and after[1]:
            found[before, after] += cases
    return found


class _Family:
    """Comparisons that stand in one answer."""

    def __init__(self, groups: Mapping[Any, Counter[Pair]], margin: float, least: int) -> None:
        self._groups = groups
        self._margin = margin
        self._least = least
        self._tested = self._read(PLAIN)
        every = [one for pairs in groups.values() for pair in pairs for one in pair]
        failing, spoilt = any(one.errors for one in every), any(one.spoilt for one in every)
        self._without_errors = [self._read(reading) for reading in WITHOUT_ERRORS] if failing else []
        self._with_spoilt = [self._read(reading) for reading in WITH_SPOILT] if spoilt else []

    def _read(self, reading: _Reading) -> dict[Any, _Tested]:
        counts = {name: _as_counts(pairs, reading) for name, pairs in self._groups.items()}
        known = {name: _Differences(one) for name, one in counts.items() if one}
        tested = {name: one.test.p_value for name, one in known.items() if one.n >= self._least}
        corrected = dict(zip(tested, holm(list(tested.values())), strict=True))
        return {name: _Tested(one, corrected.get(name), len(corrected), self._margin) for name, one in known.items()}

    def comparison(self, name: Any) -> Comparison:
        pairs = self._groups[name]
        counts = _as_counts(pairs, PLAIN)
        measured = [(pair, cases) for pair, cases in pairs.items() if pair[0].trials and pair[1].trials]
        a = rate_of((one for one, _ in counts.elements()), sum(one.errors * cases for (one, _), cases in measured))
        b = rate_of((one for _, one in counts.elements()), sum(one.errors * cases for (_, one), cases in measured))
        tested = self._tested.get(name)
        if tested is None:
            nothing = Comparison(a, b, None, None, None, None, "cannot-tell", None, None, self._margin)
            return replace(nothing, unmeasured=_unmeasured(pairs))
        d, undecided = tested.differences, self._undecided(name)
        verdict = tested.verdict if undecided is None else "cannot-tell"
        is_open = verdict == "cannot-tell" and undecided in (None, "trials") and tested.p_value is not None
        return Comparison(
            a=a,
            b=b,
            difference=d.mean,
            interval=d.interval,
            p_value=d.test.p_value,
            p_exact=d.test.exact,
            p_holm=tested.p_value if tested.tests > 1 else None,
            comparisons=tested.tests if tested.p_value is not None else 1,
            unmeasured=_unmeasured(pairs),
            smallest_effect=d.smallest_effect,
            verdict=verdict,
            undecided=undecided,
            cases_needed=cases_needed(d, self._margin, tested.tests) if is_open else None,
            method=f"{d.test.method}, {d.method}",
            margin=self._margin,
            cases=d.n,
            differing=d.differing,
            standard_error=d.standard_error,
            equivalence=tested.equivalence,
            beyond=_beyond(tested.equivalence, self._margin) if verdict == "no-difference" else None,
            means=(_mean(one for one, _ in counts.elements()), _mean(other for _, other in counts.elements())),
        )

    def _undecided(self, name: Any) -> Undecided | None:
        """Why it cannot be told, where it seems to be."""
        tested, pairs = self._tested[name], self._groups[name]
        if any(a.errors or b.errors for a, b in pairs) and not self._holds(name, self._without_errors):
            return "errors"
        if any(a.spoilt or b.spoilt for a, b in pairs) and not self._holds(name, self._with_spoilt):
            return "spoilt"
        return "trials" if tested.is_lost_to_trials else None

    def _holds(self, name: Any, others: Iterable[Mapping[Any, _Tested]]) -> bool:
        """Whether the answer is the same, whatever else trials count as."""
        answer = self._tested[name].answer(self._margin)
        return all(name in other and other[name].answer(self._margin) == answer for other in others)


def _unmeasured(pairs: Counter[Pair]) -> tuple[Unmeasured | None, Unmeasured | None] | None:
    a, b = (_bounds((pair[side], cases) for pair, cases in pairs.items()) for side in (0, 1))
    return None if a is None and b is None else (a, b)


def _bounds(trials: Iterable[tuple[Trials, int]]) -> Unmeasured | None:
    known = Counter[Trials]()
    for one, cases in trials:
        known[one] += cases
    spoilt = sum(one.spoilt * cases for one, cases in known.items())
    if not spoilt:
        return None
    failed, passed = (_mean(map(reading, known.elements())) for reading in _SPOILT)
    return Unmeasured(spoilt, (failed, passed))


class _Tested:
    """Differences, held against the level of all tests of their family."""

    def __init__(self, differences: _Differences, p_value: float | None, tests: int, margin: float) -> None:
        self.differences = differences
        self.p_value = p_value
        """Corrected; None if there are too few cases to be tested."""
        self.tests = tests if p_value is not None else 1
        self.equivalence = made_up_interval(differences.values, 1 - LEVEL / self.tests)[0]
        self.verdict: ComparisonVerdict = self._verdict(margin)

    def _verdict(self, margin: float) -> ComparisonVerdict:
        if self.p_value is None:
            return "cannot-tell"
        direction = self.differences.direction
        if self.p_value < LEVEL and direction is not None:
            return direction
        return "no-difference" if -margin < self.equivalence[0] and self.equivalence[1] < margin else "cannot-tell"

    def answer(self, margin: float) -> tuple[ComparisonVerdict, bool, bool]:
        """The verdict and, where it cannot be told, whether a drop or a gain beyond the margin is excluded: gates pass
        by that."""
        is_open, (low, high) = self.verdict == "cannot-tell", self.equivalence
        return self.verdict, is_open and low > -margin, is_open and high < margin

    @property
    def is_lost_to_trials(self) -> bool:
        """Would it be called if the runs had equal numbers of trials?"""
        d = self.differences
        return self.verdict == "cannot-tell" and d.direction is not None and d.flips.p_value < LEVEL <= d.test.p_value


def _beyond(equivalence: Interval, margin: float) -> float:
    """The smallest margin, in points, that an interval of equivalence excludes; rounded up, and at most the margin that
    was asked for."""
    return min(ceil(tenths(max(map(abs, equivalence)))) / 10, round(100 * margin, 9))


def _mean(counts: Iterable[Counts]) -> float:
    known = Counter(counts)
    return sum_of((passed / trials, cases) for (passed, trials), cases in known.items()) / known.total()


class _Differences:
    """What the cases of B pass more than those of A."""

    def __init__(self, counts: _Paired) -> None:
        scale = _common_scale(counts)
        whole = Counter[int]()
        for pair, cases in counts.items():
            whole[_whole(pair, scale)] += cases
        self.values = Counter[float]()
        for one, cases in whole.items():
            self.values[one / scale] += cases
        self.n = whole.total()
        self.mean = sum(one * cases for one, cases in whole.items()) / scale / self.n
        self.squares = sum_of((one * one, cases) for one, cases in self.values.items())
        self.differing = self.n - whole[0]
        self.is_uniform = len(self.values) == 1
        self.flips = self.test = sign_flip(whole)
        self.score: float | None = None
        if self.mean != 0 and any(before[1] != after[1] for before, after in counts):
            deal = deal_out(counts if self.mean > 0 else {(after, before): n for (before, after), n in counts.items()})
            self.score = deal.score
            self.test = _with_unequal_trials(self.flips, deal)
        self.interval, self.standard_error, self.method = paired_interval(self.values)

    @property
    def direction(self) -> Literal["better", "worse"] | None:
        """The side of 0 that the interval lies on."""
        low, high = self.interval
        return "better" if low > 0 else "worse" if high < 0 else None

    @property
    def smallest_effect(self) -> float | None:
        """(t_.975 + t_.80) SE: what a test at 5 % sees with 80 % power."""
        level, power = t_quantile(0.975, self.n - 1), t_quantile(0.8, self.n - 1)
        return None if level is None or power is None else (level + power) * self.standard_error


def _with_unequal_trials(flips: SignFlip, deal: Deal) -> SignFlip:
    """The mean of both p-values, and at least the sign-flip test's.

    Differences of unequal trials are skewed. The sign-flip test then calls too many on one side and too few on the
    other; the sum of both is near its level until the skew is large. So each side has its own test: half of its p-value
    is the dealt tail on the side of the difference, half is the tail of the sign-flip test, for the other side. Asking
    that both be below the level (the larger p-value) would lose drops that each of them finds. The exact p-value
    claims more, so it is the larger one.
    """
    p_value = max(flips.p_value, (flips.p_value + deal.p_value) / 2)
    return SignFlip(p_value, max(flips.exact, deal.exact), f"{flips.method} and {deal.method}")


def _common_scale(counts: Iterable[tuple[Counts, Counts]]) -> int:
    """A common denominator of all rates; where numbers of trials have none of a usable size, the grid of a float."""
    scale = 1
    for trials in {trials for (_, m), (_, n) in counts for trials in (m, n)}:
        scale = lcm(scale, trials)
        if scale > LARGEST_SCALE:
            return GRID
    return scale


def _whole(pair: tuple[Counts, Counts], scale: int) -> int:
    """A difference in parts of the scale, rounded away from 0: only equal rates have none."""
    (before, m), (after, n) = pair
    gain = (after * m - before * n) * scale
    return -(-gain // (m * n)) if gain > 0 else gain // (m * n)


def paired_interval(differences: Iterable[float] | Mapping[float, int]) -> tuple[Interval, float, str]:
    """The 95 % interval of a mean of paired differences, its standard error and its method.

    Student's t. Where fewer than five cases differ, or all by the same, two made-up cases of +1 and -1 are added (with
    one trial a case, Bonett and Price 2012), so that it never is of width 0.
    """
    known = Counter(differences)
    quantile = t_quantile(0.975, known.total() - 1)
    if known.total() - known[0.0] < FEW_DIFFERING or quantile is None or len(known) == 1:
        interval, error = made_up_interval(known, 0.975)
        return interval, error, "t interval with two made-up cases"
    mean, error = _mean_and_error(known)
    return around(mean, quantile * error, -1.0), error, "t interval"


def made_up_interval(differences: Iterable[float] | Mapping[float, int], probability: float) -> tuple[Interval, float]:
    """The t interval with two made-up cases, and its standard error; `probability` of it lies below the upper end."""
    known = Counter(differences)
    quantile = t_quantile(probability, known.total() - 1)
    known.update((1.0, -1.0))
    mean, error = _mean_and_error(known)
    return (-1.0, 1.0) if quantile is None else around(mean, quantile * error, -1.0), error


def _mean_and_error(values: Counter[float]) -> tuple[float, float]:
    n = values.total()
    mean = sum_of(values.items()) / n
    return mean, sqrt(sum_of(((one - mean) ** 2, cases) for one, cases in values.items()) / (n - 1) / n)


def compare_groups(
    groups: Mapping[str, Pairs], margin: float = MARGIN, least: int = LEAST_OF_GROUP
) -> tuple[GroupComparison, ...]:
    """Each group by itself (tags, checks, targets), as one family (`compare_all`). Smaller ones are too few: a test of
    many steps has no power left after the correction."""
    return tuple(group_of(name, one, least) for name, one in compare_all(groups, margin, least).items())


def group_of(name: str, found: Comparison, least: int = LEAST_OF_GROUP) -> GroupComparison:
    if found.p_value is None or found.cases < least:
        return GroupComparison(name, found, None, "too-few", found.comparisons)
    p_value = found.p_value if found.p_holm is None else found.p_holm
    return GroupComparison(name, found, p_value, found.verdict, found.comparisons)


def changes_of(pairs: Pairs) -> dict[Pair, CaseChange]:
    """The changes of the cases whose rate differs, by their pair of trials. From six repeats on in both runs, Fisher's
    one-sided test in the direction of the change, corrected by Holm over all such cases; below, flips are listed and
    nothing is claimed."""
    known = Counter(pairs)
    able = {pair: cases for pair, cases in known.items() if min(pair[0].trials, pair[1].trials) >= LEAST_REPEATS}
    counted, cases = [(_counts(a), _counts(b)) for a, b in able], list(able.values())
    worse = dict(zip(able, holm([fisher_one_sided(a, b) for a, b in counted], cases), strict=True))
    better = dict(zip(able, holm([fisher_one_sided(b, a) for a, b in counted], cases), strict=True))
    changes: dict[Pair, CaseChange] = {}
    for pair in known:
        (before, m), (after, n) = a, b = _counts(pair[0]), _counts(pair[1])
        gain = after * m - before * n
        if gain == 0 or not (m and n):
            continue
        p_value = (better if gain > 0 else worse).get(pair)
        if p_value is None:
            changes[pair] = CaseChange(a, b, None, "flipped")
        else:
            direction = "better" if gain > 0 else "worse"
            changes[pair] = CaseChange(a, b, p_value, direction if p_value < LEVEL else "cannot-tell")
    return changes
