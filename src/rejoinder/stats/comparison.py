"""Two runs of the same cases, compared in pairs.

A case counts by the mean of its trials, so repeats help and do not count as cases. Cases that only one run has are the
caller's to name. Swapped runs give the mirrored answer.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import accumulate, chain, repeat
from math import fsum, gcd, inf, lcm, sqrt

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
)
from rejoinder.stats.distributions import fisher_one_sided, holm, normal_above, t_quantile
from rejoinder.stats.intervals import around
from rejoinder.stats.rates import rate_of
from rejoinder.stats.sums import sum_of

LEVEL = 0.05
FEW_DIFFERING = 5
"""Fewer cases that differ cannot show how much cases differ."""
MOST_CASES = 100_000
"""More are not worth naming."""
EXACT_CASES = 2000
EXACT_STEPS = 20_000_000
"""A second. Trials of very unequal numbers have more sums; their differences are rounded."""
LARGEST_SCALE = 1 << 64
GRID = 1 << 53
LEAST_OF_GROUP = 20
LEAST_REPEATS = 6
_NOTHING = 1e-30


class Trials(Struct, frozen=True):
    """The trials of a case in one run."""

    passed: int
    trials: int
    errors: int = 0
    """Those of `trials` that ended in an error; none of them passed."""


Pair = tuple[Trials, Trials]
"""A case in run A and in run B."""
Pairs = Iterable[Pair] | Mapping[Pair, int]
"""A pair for each case; or the pairs that there are, with the number of cases that each of them has. Cases are many and
their pairs few, so all figures are computed from the latter, and memory does not grow with cases."""


def compare_runs(pairs: Pairs, margin: float = MARGIN) -> Comparison:
    """B against A: difference, interval, p-value and verdict, by the differences d_i = mean(B_i) - mean(A_i) of cases.

    A difference is called where the sign-flip test (`sign_flip`) and the t interval (`paired_interval`) both say so, at
    5 % and two-sided. Else there is no difference beyond `margin` where the 90 % interval lies within it (two one-sided
    tests, Schuirmann 1987). Trials that ended in an error count as failed; if the verdict would be another one with
    them left out, or with all errors of one run as passes, errors decide and it cannot be told.
    """
    known = Counter({(a, b): cases for (a, b), cases in Counter(pairs).items() if a.trials and b.trials})
    found = _compare(known, margin)
    if not any(a.errors or b.errors for a, b in known):
        return found
    others = (_as_counts(known, _left_out, _left_out), _as_counts(known, _counts, _passed))
    if all(_verdict_of(one, margin) == found.verdict for one in (*others, _as_counts(known, _passed, _counts))):
        return found
    return replace(found, verdict="cannot-tell", cases_needed=None, errors_decide=True)


_Counts = tuple[int, int]
_Paired = Counter[tuple[_Counts, _Counts]]


def _counts(one: Trials) -> _Counts:
    return one.passed, one.trials


def _left_out(one: Trials) -> _Counts:
    return one.passed, one.trials - one.errors


def _passed(one: Trials) -> _Counts:
    return one.passed + one.errors, one.trials


def _as_counts(pairs: Counter[Pair], of_a: Callable[[Trials], _Counts], of_b: Callable[[Trials], _Counts]) -> _Paired:
    found = _Paired()
    for (a, b), cases in pairs.items():
        found[of_a(a), of_b(b)] += cases
    return found


def _verdict_of(counts: _Paired, margin: float) -> ComparisonVerdict:
    known = _Paired({(a, b): cases for (a, b), cases in counts.items() if a[1] and b[1]})
    return _Differences(known).verdict(margin) if known else "cannot-tell"


def _compare(pairs: Counter[Pair], margin: float) -> Comparison:
    counts = _as_counts(pairs, _counts, _counts)
    a = rate_of((one for one, _ in counts.elements()), sum(one.errors * cases for (one, _), cases in pairs.items()))
    b = rate_of((one for _, one in counts.elements()), sum(one.errors * cases for (_, one), cases in pairs.items()))
    if not counts:
        return Comparison(a, b, None, None, None, None, "cannot-tell", None, None, margin)
    d = _Differences(counts)
    verdict = d.verdict(margin)
    return Comparison(
        a=a,
        b=b,
        difference=d.mean,
        interval=d.interval,
        p_value=d.test.p_value,
        p_exact=d.test.exact,
        smallest_effect=d.smallest_effect,
        verdict=verdict,
        cases_needed=cases_needed(d.values, margin) if verdict == "cannot-tell" else None,
        method=f"{d.test.method}, {d.method}",
        margin=margin,
        cases=d.n,
        differing=d.differing,
        standard_error=d.standard_error,
        equivalence=d.equivalence,
        means=(_mean(one for one, _ in counts.elements()), _mean(other for _, other in counts.elements())),
    )


def _mean(counts: Iterable[_Counts]) -> float:
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
        self.differing = self.n - whole[0]
        self.test = sign_flip(whole)
        self.interval, self.standard_error, self.method = paired_interval(self.values)
        self.equivalence = made_up_interval(self.values, 0.95)[0]

    def verdict(self, margin: float) -> ComparisonVerdict:
        low, high = self.interval
        if self.test.p_value < LEVEL and (low > 0 or high < 0):
            return "better" if low > 0 else "worse"
        return "no-difference" if -margin < self.equivalence[0] and self.equivalence[1] < margin else "cannot-tell"

    @property
    def smallest_effect(self) -> float | None:
        """(t_.975 + t_.80) SE: what a test at 5 % sees with 80 % power."""
        level, power = t_quantile(0.975, self.n - 1), t_quantile(0.8, self.n - 1)
        return None if level is None or power is None else (level + power) * self.standard_error


def cases_needed(differences: Iterable[float] | Mapping[float, int], margin: float) -> int | None:
    """About how many cases in all would tell, if further ones differ as these do: the difference would be called, or
    would be within the margin. None where `MOST_CASES` would not."""
    several = Counter(differences)
    few, many = several.total(), 2 * several.total()
    while not _would_tell(several, many, margin):
        few, many = many, 2 * many
        if few > MOST_CASES:
            return None
    while many - few > max(1, few // 100):
        middle = (few + many) // 2
        few, many = (few, middle) if _would_tell(several, middle, margin) else (middle, many)
    return many


def _would_tell(differences: Counter[float], cases: int, margin: float) -> bool:
    """Would so many cases tell, of which each difference is had by the share that has it now?"""
    share = cases / differences.total()
    total, squares = (share * fsum(one**power * times for one, times in differences.items()) for power in (1, 2))
    differing = share * sum(times for one, times in differences.items() if one)
    made_up = 0 if differing >= FEW_DIFFERING and len(differences) > 1 else 2
    low, high = _interval_of(total, squares, cases, made_up, 0.975)
    if (low > 0 or high < 0) and _p_value_of(total, squares, differing) < LEVEL:
        return True
    low, high = _interval_of(total, squares, cases, 2, 0.95)
    return -margin < low and high < margin


def _interval_of(total: float, squares: float, cases: int, made_up: int, probability: float) -> Interval:
    """Student's t interval by sums; `made_up` cases of +1 and -1 are added."""
    n = cases + made_up
    mean = total / n
    error = sqrt(max(0.0, (squares + made_up) / n - mean**2) / (n - 1))
    return around(mean, (t_quantile(probability, cases - 1) or inf) * error, -1.0)


def _p_value_of(total: float, squares: float, differing: float) -> float:
    """Of the sign-flip test by sums: normal, and mid-p where all differ by the same and one way."""
    if abs(total) == differing:
        return 0.5 ** round(differing)
    return 2 * normal_above(abs(total) / sqrt(squares))


def _common_scale(counts: Iterable[tuple[_Counts, _Counts]]) -> int:
    """A common denominator of all rates; where numbers of trials have none of a usable size, the grid of a float."""
    scale = 1
    for trials in {trials for (_, m), (_, n) in counts for trials in (m, n)}:
        scale = lcm(scale, trials)
        if scale > LARGEST_SCALE:
            return GRID
    return scale


def _whole(pair: tuple[_Counts, _Counts], scale: int) -> int:
    """A difference in parts of the scale, rounded away from 0: only equal rates have none."""
    (before, m), (after, n) = pair
    gain = (after * m - before * n) * scale
    return -(-gain // (m * n)) if gain > 0 else gain // (m * n)


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
    """The same in parts of a float's grid where they have more digits: their sums and squares fit a float."""
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
        while chances[-1] < _NOTHING:
            chances.pop()
        cut = next(place for place, chance in enumerate(chances) if chance >= _NOTHING)
        if cut:
            offset, chances = offset + cut, chances[cut:]
    return offset, chances


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
    """Each group by itself (tags, checks, targets), with p-values corrected by Holm (1979) over the groups of at least
    so many cases. Smaller ones are too few: a test of many steps has no power left after the correction."""
    found = {name: compare_runs(pairs, margin) for name, pairs in groups.items()}
    tested = {name: one.p_value for name, one in found.items() if one.cases >= least and one.p_value is not None}
    corrected = dict(zip(tested, holm(list(tested.values())), strict=True))
    return tuple(_group(name, one, corrected) for name, one in found.items())


def _group(name: str, found: Comparison, corrected: Mapping[str, float]) -> GroupComparison:
    p_value, tested = corrected.get(name), len(corrected)
    if p_value is None:
        return GroupComparison(name, found, None, "too-few", tested)
    is_lost = found.verdict in ("better", "worse") and p_value >= LEVEL
    return GroupComparison(name, found, p_value, "cannot-tell" if is_lost else found.verdict, tested)


def compare_cases(pairs: Sequence[Pair]) -> tuple[CaseChange, ...]:
    """The cases whose rate differs. From six repeats on in both runs, Fisher's one-sided test in the direction of the
    change, corrected by Holm over all such cases; below, flips are listed and nothing is claimed."""
    changes = changes_of(pairs)
    return tuple(replace(changes[pair], place=place) for place, pair in enumerate(pairs) if pair in changes)


def changes_of(pairs: Pairs) -> dict[Pair, CaseChange]:
    """What `compare_cases` says of each case that has such a pair; pairs of equal rates are left out."""
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
