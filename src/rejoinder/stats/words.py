"""Figures in words: one way to say each of them, for every report.

Rates have no decimals if they are not worth any: below 30 cases, and where the interval is 10 points wide or more.
"""

from __future__ import annotations

from math import ceil, floor

from rejoinder.model.figures import (
    CaseRepeats,
    Comparison,
    Corrected,
    Delta,
    Interval,
    Look,
    NetRecovery,
    NetRecoveryDifference,
    Noise,
    Rate,
    Transitions,
)
from rejoinder.spelling import count


def percent(rate: float, cases: int, interval: Interval | None = None) -> str:
    """A rate as it is printed: `70%`, `93.4%`. What is not all is never `100%`, and what is not none never `0%`."""
    return f"{_number(rate, _digits(cases, interval))}%"


def _digits(cases: int, interval: Interval | None) -> int:
    return int(cases >= 30 and interval is not None and interval[1] - interval[0] < 0.1)


def _number(rate: float, digits: int) -> str:
    text = f"{100 * rate:.{digits}f}"
    if 0 < rate < 1 and float(text) in (0, 100):
        return "99.9" if rate > 0.5 else "0.1"
    return text


def points(difference: float) -> str:
    """A difference of two rates: `-20 points`, `+1 point`."""
    text = f"{100 * difference:+.0f}"
    number = "0" if float(text) == 0 else text
    return f"{number} {'point' if number in ('+1', '-1') else 'points'}"


def point_range(interval: Interval, *excluded: float) -> str:
    """`-35 to -5`; `-18 to -0.5`, for what is not 0 must not read as 0, nor as another number that it excludes."""
    return " to ".join(_end(100 * end, (0.0, *(100 * one for one in excluded)), 0, sign="+") for end in interval)


def rate_range(interval: Interval, digits: int = 0) -> str:
    """`52 to 83`; `87 to 99.93`: only what reaches 0 or 100 reads as that."""
    return " to ".join(_end(100 * end, (0.0, 100.0), digits) for end in interval)


FINEST = 3
"""Digits behind the point that an end of an interval may get. What is nearer than that is the same."""


def _end(value: float, excluded: tuple[float, ...], digits: int, sign: str = "") -> str:
    """An end of an interval, with as many further digits as tell it from what it excludes."""
    finer = (one for one in range(digits, FINEST + 1) if value in excluded or round(value, one) not in excluded)
    found = next(finer, digits)
    rounded = round(value, found)
    return "0" if sign and rounded == 0 else f"{rounded:{sign}.{found}f}"


def beyond_of(equivalence: Interval, margin: float) -> float:
    """The smallest margin, in points, that an interval of equivalence excludes; rounded up, and never above the margin
    that was asked for."""
    return min(ceil(_tenths(max(map(abs, equivalence)))) / 10, round(100 * margin, 9))


def _tenths(share: float) -> float:
    """Of a point, without what rounding adds."""
    return round(1000 * share, 6)


def equivalence_words(found: Comparison) -> str:
    """`-5.1 to +0.3 at 90%`: rounded outward, so that the larger end is what is excluded."""
    most, (low, high) = 100 * found.margin, found.equivalence or (-1.0, 1.0)
    ends = max(-most, floor(_tenths(low)) / 10), min(most, ceil(_tenths(high)) / 10)
    both = zip(ends, (low, high), strict=True)
    told = (f"{end:+g}" if end else _end(100 * exact, (0.0,), 1, sign="+") for end, exact in both)
    return f"{' to '.join(told)} {level_words(found)}"


def level_words(found: Comparison) -> str:
    """`at 90%`: of the interval of equivalence. Several comparisons share the level."""
    return f"at {100 * (1 - 0.1 / found.comparisons):.3g}%"


def rate_words(rate: Rate) -> str:
    """`70% (52 to 83)`; `no rate` without any trial."""
    if rate.rate is None:
        return "no rate"
    digits = _digits(rate.cases, rate.interval)
    if rate.interval is None:
        return percent(rate.rate, rate.cases)
    return f"{_number(rate.rate, digits)}% ({rate_range(rate.interval, digits)})"


def without_errors_words(rate: Rate | None) -> str:
    """`93% of the 27 without an error`; empty if no conversation ended in an error."""
    if rate is None or rate.rate is None:
        return ""
    return f"{percent(rate.rate, rate.cases, rate.interval)} of the {rate.of:,} without an error"


def sample_words(rate: Rate) -> str:
    """What a rate is of: `16 of 30 passed`, `99 of 100 passed, 20 cases clustered`, `3 of 5 passed, of 1 case alone`,
    `6 of 10 passed; 75% of the 8 without an error`."""
    text = f"{rate.passed:,} of {rate.of:,} passed"
    if rate.cases == 1 and rate.of > 1:
        text += ", of 1 case alone"
    elif rate.cases != rate.of:
        text += f", {rate.cases:,} cases clustered"
    if rate.errors and rate.without_errors is not None:
        left = rate.of - rate.errors
        text += f"; {percent(rate.without_errors, rate.cases, rate.interval)} of the {left:,} without an error"
    elif rate.errors:
        text += "; all ended in an error"
    return text


def selection_words(
    finished: int, planned: int, *, only_failed: bool = False, stopped: bool = False, retried: int = 0
) -> str | None:
    """What a rate is not of, if it is not of the whole suite: `of the 9 that did not pass before`, `stopped at the
    first failure: no rate`, `3 asked again after an error`, `12 of 24: no rate yet`. None if nothing is to be said."""
    parts = [
        f"of the {planned:,} that did not pass before" if only_failed else "",
        "stopped at the first failure: no rate" if stopped else "",
        f"{finished:,} of {planned:,}: no rate yet" if finished < planned and not stopped else "",
        f"{retried:,} asked again after an error" if retried else "",
    ]
    return "; ".join(part for part in parts if part) or None


def p_words(p_value: float) -> str:
    """`p 0.021`, `p < 0.001`: two digits that count."""
    return f"p {p_number(p_value)}"


def p_number(p_value: float) -> str:
    return "< 0.001" if p_value < 0.001 else f"{p_value:.2g}"


def mid_p_words(found: Comparison) -> str:
    """`mid-p 0.021`; `mid-p 0.021, 0.042 corrected for 2 comparisons`."""
    if found.p_value is None:
        return "not tested"
    text = f"mid-p {p_number(found.p_value)}"
    if found.p_holm is None:
        return text
    return f"{text}, {p_number(found.p_holm)} corrected for {found.comparisons:,} comparisons"


def exact_words(found: Comparison) -> str:
    """Both p-values: `mid-p 0.031, exact p 0.062`."""
    if found.p_value is None or found.p_exact is None:
        return "not tested"
    return f"mid-p {found.p_value:.4g}, exact p {found.p_exact:.4g}"


NET_WORDS = {
    "listens": "listens",
    "cannot-tell": "cannot tell if it listens",
    "stuck": "stuck: starting over is better",
    "too-few": "too few failures to tell",
}


def net_words(found: NetRecovery) -> str:
    """`+22 points (+5 to +39): listens`; only the word if there is no interval."""
    if found.net is None or found.interval is None:
        return net_verdict_words(found)
    return f"{points(found.net)} ({point_range(found.interval)}): {net_verdict_words(found)}"


def net_verdict_words(found: NetRecovery) -> str:
    """`listens`; `listens; 3 errors left out`."""
    return f"{NET_WORDS[found.verdict]}{_left_out(found.errors)}"


def _left_out(errors: int) -> str:
    return f"; {count(errors, 'error')} left out" if errors else ""


def net_difference_words(found: NetRecoveryDifference) -> str:
    """`-32 points (-60 to -4): worse`."""
    if found.difference is None or found.interval is None:
        return f"{NET_WORDS['too-few']}{_left_out(found.a.errors + found.b.errors)}"
    word = "cannot tell" if found.verdict == "cannot-tell" else found.verdict
    errors = _left_out(found.a.errors + found.b.errors)
    return f"{points(found.difference)} ({point_range(found.interval)}): {word}{errors}"


def comparison_words(found: Comparison) -> str:
    """`worse: -35 points (-62 to -8), mid-p 0.021`; `cannot tell: -3 points (-14 to +8), mid-p 0.6; about 90 more cases
    like these would`; `no difference beyond 8 points: 0 points (-8 to +8 at 90%), mid-p 1`; `cannot tell: errors
    decide`. The verdict is the corrected one if there are several comparisons, and it says so."""
    if found.difference is None or found.interval is None or found.p_value is None:
        where = "measured in both runs" if found.unmeasured else "in both runs"
        return f"cannot tell: no case is {where}{_behind(unmeasured_words(found))}"
    more = f"{_more_words(found)}{_behind(unmeasured_words(found))}"
    numbers = f"{points(found.difference)} ({point_range(found.interval)}), {mid_p_words(found)}"
    if found.undecided is not None:
        return f"cannot tell: {_UNDECIDED[found.undecided]}; {numbers}{more}"
    if found.verdict == "no-difference":
        within = f"{points(found.difference)} ({equivalence_words(found)}), {mid_p_words(found)}"
        return f"{verdict_words(found)}: {within}{more}"
    return f"{verdict_words(found)}: {numbers}{more}"


def unmeasured_words(found: Comparison) -> str:
    """`B 50 to 80% if the 6 spoilt failed or passed`; empty if nothing is spoilt."""
    both = zip("AB", found.unmeasured or (None, None), strict=True)
    return ", ".join(
        f"{letter} {spoilt_bounds(one.conversations, one.bounds)}" for letter, one in both if one is not None
    )


def spoilt_bounds(conversations: int, bounds: Interval) -> str:
    """`50 to 80% if the 6 spoilt failed or passed`: the rate that leaves them out lies between."""
    return f"{rate_range(bounds)}% if the {conversations:,} spoilt failed or passed"


def _behind(words: str) -> str:
    return f"; {words}" if words else ""


def verdict_words(found: Comparison) -> str:
    """`worse`, `cannot tell`, `no difference beyond 5.1 points`: of these, the smallest number that is excluded."""
    if found.verdict == "no-difference" and found.beyond is not None:
        return f"no difference beyond {found.beyond:g} {'point' if found.beyond == 1 else 'points'}"
    return found.verdict.replace("-", " ")


_UNDECIDED = {
    "errors": "errors decide",
    "spoilt": "what simulated users spoilt decides",
    "trials": "the runs have unequal trials, which can make such a difference",
}


def _more_words(found: Comparison) -> str:
    return "" if found.more_cases is None else f"; about {more_words(found.more_cases)} would"


def more_words(cases: int) -> str:
    """`90 more cases like these`."""
    return f"{count(cases, 'more case')} like these"


def power_words(found: Comparison) -> str:
    """What could have been seen, if nothing was: `7 points or more would have been seen; 2 points are not excluded
    (-28 to +16 at 90%); about 90 more cases like these would tell`. Empty where a difference was seen."""
    if found.smallest_effect is None or found.verdict in ("better", "worse"):
        return ""
    parts = [f"{points(min(1.0, found.smallest_effect)).removeprefix('+')} or more would have been seen"]
    if found.verdict == "cannot-tell" and found.equivalence is not None:
        ends = point_range(found.equivalence, -found.margin, found.margin)
        parts.append(f"{100 * found.margin:g} points are not excluded ({ends} {level_words(found)})")
        parts += [] if found.more_cases is None else [f"about {more_words(found.more_cases)} would tell"]
    return "; ".join(parts)


def repeats_words(case: CaseRepeats) -> str:
    """`3 of 5 passed (23 to 88%)`; `5 of 5 passed; up to 45% could still fail`. Never "stable"."""
    text = f"{case.passed} of {case.trials} passed"
    if case.hidden is not None:
        other = "fail" if case.passed else "pass"
        return f"{text}; up to {100 * case.hidden:.0f}% could still {other}"
    if case.interval is None:
        return text
    return f"{text} ({rate_range(case.interval)}%)"


def noise_words(noise: Noise) -> str:
    """`judge 2%, model 8%, cases 90% of the noise: more cases`."""
    names = zip(("judge", "model", "cases"), noise.shares, strict=True)
    known = [f"{name} {100 * one:.0f}%" for name, one in names if one is not None]
    return f"{', '.join(known)} of the noise: {noise.advice}" if known else "not known"


_NO_CORRECTION = {
    "no-verdicts": "not known: the judge gave no verdict",
    "no-labels": "not known: no labels of replies that pass, or none of replies that fail",
    "tells-nothing": "not known: the judge is right no more often than by chance",
}


def corrected_words(found: Corrected) -> str:
    """`83% (70 to 96), over 6 of 10 verdicts`, or why there is none."""
    if found.rate is None:
        return _NO_CORRECTION[found.reason or "no-verdicts"]
    text = percent(found.rate, found.cases, found.interval)
    if found.interval is not None:
        text += f" ({rate_range(found.interval)})"
    if found.verdicts < found.of:
        text += f", over {found.verdicts:,} of {found.of:,} verdicts"
    return f"{text}, cut off: no true rate gives what the judge saw" if found.clipped else text


def transitions_words(found: Transitions) -> str:
    """`wrong to right 40% (22 to 61), right to wrong 10% (3 to 26)`."""
    return f"wrong to right {rate_words(found.wrong_right)}, right to wrong {rate_words(found.right_wrong)}"


def look_words(found: Look) -> str:
    """`regression on these cases: 14 lost, 3 won after 2 of 10 rounds`; `no drop beyond 10 points on these cases: ...`;
    and where cases count instead of trials, why."""
    says = {
        "regression": "regression on these cases",
        "no-regression": f"no drop beyond {100 * found.margin:g} points on these cases",
        "go-on": "cannot tell yet",
        "cannot-tell": "cannot tell",
    }
    numbers = f"{found.lost:,} lost, {found.won:,} won after {found.rounds} of {found.of} rounds"
    return f"{says[found.verdict]}: {numbers}{_by_case_words(found)}"


_MUCH_MORE = 2.0
"""Cases differ between runs so many times more than within them that it is said."""


def _by_case_words(found: Look) -> str:
    if not found.lost + found.won or found.rounds < 2 or found.verdict == "go-on":
        return ""
    if found.steady:
        return "; no case changed within a run, so cases count and not trials"
    return "; cases differ more between the runs than within them, so cases count" if found.design > _MUCH_MORE else ""


def delta_words(found: Delta, unit: str = "") -> str:
    """`+0.4 s (+0.1 to +0.7), +12% (+3 to +20): more`."""
    if found.difference is None:
        return "not known"
    if found.verdict == "same":
        return "the same in every case"
    parts = number_words(found.difference, unit, sign="+")
    if found.interval is not None:
        parts += f" ({' to '.join(number_words(end, sign='+') for end in found.interval)})"
    if found.change is not None:
        parts += f", {100 * found.change:+.0f}%"
    return f"{parts}: {'cannot tell' if found.verdict == 'cannot-tell' else found.verdict}"


def change_words(found: Delta) -> str:
    """`+164%`: between the two means, which are what is shown."""
    change = _change(found)
    return "" if change is None or found.verdict == "same" else f"{100 * change:+.0f}%"


def typical_words(found: Delta, *, brief: bool = False) -> str:
    """What is tested: the median over cases, named where it goes another way than the means."""
    if found.verdict == "same":
        return "the same" if brief else "the same in every case"
    word = "cannot tell" if found.verdict == "cannot-tell" else found.verdict
    change = _change(found)
    if found.change is None or change is None or found.change * change > 0 or brief:
        return word
    return f"{word}, typically {100 * found.change:+.0f}%"


def _change(found: Delta) -> float | None:
    return found.b / found.a - 1 if found.a and found.b is not None else None


def number_words(value: float, unit: str = "", sign: str = "") -> str:
    """Three digits that count: `1.5`, `0.0123`, `1,240 tokens`."""
    rounded = float(f"{value:.3g}")
    text = f"{rounded:{sign},.0f}" if abs(rounded) >= 100 else f"{rounded:{sign}g}"
    return f"{text} {unit}" if unit else text
