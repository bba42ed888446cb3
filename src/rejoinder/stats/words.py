"""Figures in words: one way to say each of them, for every report.

Rates have no decimals where they are not worth any: below 30 cases, and where the interval is 10 points wide or more.
"""

from __future__ import annotations

from math import trunc

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


def point_range(interval: Interval) -> str:
    """`-35 to -5`."""
    return " to ".join("0" if round(100 * end) == 0 else f"{100 * end:+.0f}" for end in interval)


def rate_words(rate: Rate) -> str:
    """`70% (52 to 83)`; `no rate` without any trial."""
    if rate.rate is None:
        return "no rate"
    digits = _digits(rate.cases, rate.interval)
    if rate.interval is None:
        return percent(rate.rate, rate.cases)
    low, high = (f"{100 * end:.{digits}f}" for end in rate.interval)
    return f"{_number(rate.rate, digits)}% ({low} to {high})"


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
    """What a rate is not of, where it is not of the whole suite: `of the 9 that did not pass before`, `stopped at the
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
    return "p < 0.001" if p_value < 0.001 else f"p {p_value:.2g}"


NET_WORDS = {
    "listens": "listens",
    "cannot-tell": "cannot tell if it listens",
    "stuck": "stuck: starting over is better",
    "too-few": "too few failures to tell",
}


def net_words(found: NetRecovery) -> str:
    """`+22 points (+5 to +39): listens`; only the word where there is no interval."""
    if found.net is None or found.interval is None:
        return net_verdict_words(found)
    return f"{points(found.net)} ({point_range(found.interval)}): {net_verdict_words(found)}"


def net_verdict_words(found: NetRecovery) -> str:
    """`listens`; `listens; 3 errors left out`."""
    return f"{NET_WORDS[found.verdict]}{_left_out(found.errors)}"


def _left_out(errors: int) -> str:
    return f"; {errors:,} {'error' if errors == 1 else 'errors'} left out" if errors else ""


def net_difference_words(found: NetRecoveryDifference) -> str:
    """`-32 points (-60 to -4): worse`."""
    if found.difference is None or found.interval is None:
        return f"{NET_WORDS['too-few']}{_left_out(found.a.errors + found.b.errors)}"
    word = "cannot tell" if found.verdict == "cannot-tell" else found.verdict
    errors = _left_out(found.a.errors + found.b.errors)
    return f"{points(found.difference)} ({point_range(found.interval)}): {word}{errors}"


def comparison_words(found: Comparison) -> str:
    """`worse: -35 points (-62 to -8), p 0.021`; `cannot tell: -3 points (-14 to +8), p 0.6; about 90 more cases like
    these would`; `no difference beyond 10 points: 0 points (-8 to +8 at 90%), p 1`; `cannot tell: errors decide`."""
    if found.difference is None or found.interval is None or found.p_value is None:
        return "cannot tell: no case is in both runs"
    numbers = f"{points(found.difference)} ({point_range(found.interval)}), {p_words(found.p_value)}"
    if found.undecided is not None:
        return f"cannot tell: {_UNDECIDED[found.undecided]}; {numbers}{_more_words(found)}"
    if found.verdict == "no-difference" and found.equivalence is not None:
        # Cut and not rounded: an end at 9.97 lies within 10 points and must not read as 10.
        within = f"{' to '.join(f'{trunc(1000 * end) / 10:+g}' for end in found.equivalence)} at 90%"
        what = f"{points(found.difference)} ({within}), {p_words(found.p_value)}"
        return f"no difference beyond {100 * found.margin:g} points: {what}"
    if found.verdict == "cannot-tell":
        return f"cannot tell: {numbers}{_more_words(found)}"
    return f"{found.verdict}: {numbers}"


_UNDECIDED = {"errors": "errors decide", "trials": "the runs have unequal trials, which can make such a difference"}


def _more_words(found: Comparison) -> str:
    return "" if found.more_cases is None else f"; about {more_words(found.more_cases)} would"


def more_words(cases: int) -> str:
    """`90 more cases like these`."""
    return f"{cases:,} more {'case' if cases == 1 else 'cases'} like these"


def power_words(found: Comparison) -> str:
    """What could have been seen, where nothing was: `7 points or more would have been seen; 2 points are not excluded
    (-28 to +16 at 90%); about 90 more cases like these would tell`. Empty where a difference was seen."""
    if found.smallest_effect is None or found.verdict in ("better", "worse"):
        return ""
    parts = [f"{points(min(1.0, found.smallest_effect)).removeprefix('+')} or more would have been seen"]
    if found.verdict == "cannot-tell" and found.equivalence is not None:
        parts.append(f"{100 * found.margin:g} points are not excluded ({point_range(found.equivalence)} at 90%)")
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
    return f"{text} ({100 * case.interval[0]:.0f} to {100 * case.interval[1]:.0f}%)"


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
        text += f" ({100 * found.interval[0]:.0f} to {100 * found.interval[1]:.0f})"
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


def number_words(value: float, unit: str = "", sign: str = "") -> str:
    """Three digits that count: `1.5`, `0.0123`, `1,240 tokens`."""
    rounded = float(f"{value:.3g}")
    text = f"{rounded:{sign},.0f}" if abs(rounded) >= 100 else f"{rounded:{sign}g}"
    return f"{text} {unit}" if unit else text
