"""Figures in words: rates, recovery, comparisons and looks, each said in one way."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from math import ceil, floor
from typing import Protocol

from rejoinder.model.boards import Verdict
from rejoinder.model.calls import Cost
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
    NoRate,
    NoRateReason,
    Rate,
    Transitions,
)
from rejoinder.model.results import UsageResult
from rejoinder.model.runs import CaseVerdicts, Summary
from rejoinder.words.numbers import (
    cost_words,
    count,
    digits_of,
    end_words,
    figure,
    listed,
    p_number,
    percent,
    plural,
    point_range,
    points,
    rate_range,
    share_number,
    shortened,
    tenths,
)


def equivalence_words(found: Comparison) -> str:
    """`-5.1 to +0.3 at 90%`: rounded outward, so that the larger end is what is excluded."""
    most, (low, high) = 100 * found.margin, found.equivalence or (-1.0, 1.0)
    ends = max(-most, floor(tenths(low)) / 10), min(most, ceil(tenths(high)) / 10)
    both = zip(ends, (low, high), strict=True)
    told = (f"{end:+g}" if end else end_words(100 * exact, (0.0,), 1, sign="+") for end, exact in both)
    return f"{' to '.join(told)} {level_words(found)}"


def level_words(found: Comparison) -> str:
    """`at 90%`: of the interval of equivalence. Several comparisons share the level."""
    return f"at {100 * (1 - 0.1 / found.comparisons):.3g}%"


def rate_words(rate: Rate) -> str:
    """`70% (52 to 83)`; `no rate` without any trial."""
    if rate.rate is None:
        return "no rate"
    digits = digits_of(rate.cases, rate.interval)
    if rate.interval is None:
        return percent(rate.rate, rate.cases)
    return f"{share_number(rate.rate, digits)}% ({rate_range(rate.interval, digits)})"


def rate_ends(rate: Rate) -> str:
    """The ends of the interval of a rate: `52 to 83%`, with the decimals of the rate; empty if it has none."""
    if rate.interval is None:
        return ""
    return f"{rate_range(rate.interval, digits_of(rate.cases, rate.interval))}%"


def without_errors_words(rate: Rate | None) -> str:
    """`93% of the 27 without an error`; empty if no conversation ended in an error."""
    if rate is None or rate.rate is None:
        return ""
    return f"{percent(rate.rate, rate.cases, rate.interval)} of the {rate.of:,} without an error"


def no_rate_words(found: NoRate, planned: int | None = None) -> str:
    """`no rate: 3 of 5 had an error`, `no rate yet`, with the number of conversations that are `planned` `12 of 24: no
    rate yet`."""
    if found.because in _NOT_YET:
        return "no rate yet" if planned is None else f"{found.finished:,} of {planned:,}: no rate yet"
    if found.because in ("untested", "errors"):
        return f"no rate: {found.errors:,} of {found.finished:,} had an error"
    return _NO_RATE[found.because]


_NOT_YET: tuple[NoRateReason, ...] = ("running", "killed", "interrupted", "budget", "unfinished")
_NO_RATE: dict[NoRateReason, str] = {
    "fail-fast": "stopped at the first failure: no rate",
    "given-up": "a target was given up: no rate",
    "several-targets": "several targets have no common rate",
    "several-variants": "several variants have no common rate",
    "several-conditions": "several ways to put tasks have no common rate",
    "nothing": "no rate: no conversation counts",
}


def quarantine_words(summary: Summary) -> str:
    """`nothing counts: 2 conversations in quarantine, 1 error`: the result of a run without any other conversation."""
    errors = summary.errors_in_quarantine
    told = f"nothing counts: {count(summary.apart, 'conversation')} in quarantine"
    return f"{told}, {count(errors, 'error')}" if errors else told


def sample_words(rate: Rate) -> str:
    """The sample of a rate: `16 of 30 passed`, `99 of 100 passed, 20 cases clustered`, `3 of 5 passed, of only 1 case`
    or `6 of 10 passed; 75% of the 8 without an error`."""
    text = f"{rate.passed:,} of {rate.of:,} passed"
    if rate.cases == 1 and rate.of > 1:
        text += ", of only 1 case"
    elif rate.cases != rate.of:
        text += f", {rate.cases:,} cases clustered"
    if rate.errors and rate.without_errors is not None:
        left = rate.of - rate.errors
        text += f"; {percent(rate.without_errors, rate.cases, rate.interval)} of the {left:,} without an error"
    elif rate.errors:
        text += "; all ended in an error"
    return text


def selection_words(planned: int, *, only_failed: bool = False, retried: int = 0) -> str:
    """The part of a suite that a rate is of: `of the 9 that did not pass before; 3 asked again after an error`. Empty
    if it is of the whole suite."""
    parts = [
        f"of the {planned:,} that did not pass before" if only_failed else "",
        f"{retried:,} asked again after an error" if retried else "",
    ]
    return "; ".join(part for part in parts if part)


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


VERDICT_WORDS: dict[Verdict, str] = {
    "listens": "listens",
    "stuck": "stuck",
    "cannot-tell": "cannot tell",
    "too-few": "too few",
    "not-measured": "not measured",
}


MOST_LISTENERS, LONGEST_LISTENER = 2, 24
"""Names in a list of runs, and characters of each."""


def verdicts_words(verdicts: Iterable[Verdict], listeners: Sequence[str] = ()) -> str:
    """`listens`; of several `large listens, 2 cannot tell`; `not measured` is left out. `listeners`: the names of those
    that listen."""
    counted: Counter[Verdict] = Counter()
    counted.update(verdict for verdict in verdicts if verdict != "not-measured")
    if counted.total() == 1 and not listeners:
        return VERDICT_WORDS[next(iter(counted))]
    told = {verdict: f"{counted[verdict]} {word}" for verdict, word in VERDICT_WORDS.items() if counted[verdict]}
    if listeners:
        named = [shortened(name, LONGEST_LISTENER) for name in listeners[:MOST_LISTENERS]]
        left = [f"{more:,} more"] if (more := counted["listens"] - len(named)) > 0 else []
        several = [*named, *left]
        told["listens"] = f"{listed(several)} {plural(len(several), 'listens', 'listen')}"
    return ", ".join(told.values())


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


def gain_words(found: NetRecovery) -> str:
    """`+22 points`; empty if it could not be measured well enough for an interval."""
    return "" if found.net is None or found.interval is None else points(found.net)


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
    """`worse: -35 points (-62 to -8), mid-p 0.021`; `cannot tell: -3 points (-14 to +8), mid-p 0.6; needs about 90
    more cases like these`; `no difference beyond 8 points: 0 points (-8 to +8 at 90%), mid-p 1`; `cannot tell: errors
    decide`. The verdict is the corrected one if there are several comparisons, and it says so."""
    if found.difference is None or found.interval is None or found.p_value is None:
        where = "measured in both runs" if found.unmeasured else "in both runs"
        return f"cannot tell: no case is {where}{_behind(unmeasured_words(found))}"
    if hidden := hidden_words(found):
        return f"{verdict_words(found)}: {hidden}"
    more = f"{_more_words(found)}{_behind(unmeasured_words(found))}"
    numbers = f"{points(found.difference)} ({point_range(found.interval)}), {mid_p_words(found)}"
    if found.undecided is not None:
        return f"cannot tell: {_UNDECIDED[found.undecided]}; {numbers}{more}"
    if found.verdict == "no-difference":
        within = f"{points(found.difference)} ({equivalence_words(found)}), {mid_p_words(found)}"
        return f"{verdict_words(found)}: {within}{more}"
    return f"{verdict_words(found)}: {numbers}{more}"


def unmeasured_words(found: Comparison) -> str:
    """`B 50 to 80% if the 6 invalid conversations failed or passed`; empty if nothing is spoilt."""
    both = zip("AB", found.unmeasured or (None, None), strict=True)
    return ", ".join(
        f"{letter} {spoilt_bounds(one.conversations, one.bounds)}" for letter, one in both if one is not None
    )


def spoilt_bounds(conversations: int, bounds: Interval) -> str:
    """`50 to 80% if the 6 invalid conversations failed or passed`: the rate without them is between these."""
    return f"{rate_range(bounds)}% if the {count(conversations, 'invalid conversation')} failed or passed"


def _behind(words: str) -> str:
    return f"; {words}" if words else ""


def side_words(found: Comparison, side: int) -> str:
    """`70%`: the mean over cases of A (0) or B (1), which the points are the difference of; `no rate` if errors hide
    it."""
    rate = (found.a, found.b)[side]
    if found.means is None or isinstance(rate.if_tested, NoRate):
        return "no rate"
    return percent(found.means[side], rate.cases, rate.interval)


def side_counts(found: Comparison, side: int) -> str:
    """`5 of 6`; empty if that is not the rate of A (0) or B (1), because cases have unequal trials."""
    rate = (found.a, found.b)[side]
    if found.means is None or not rate.of or abs(found.means[side] - rate.passed / rate.of) >= 0.005:
        return ""
    return f"{rate.passed:,} of {rate.of:,}"


def hidden_words(found: Comparison) -> str:
    """`B has no rate, all 4 had an error`; empty unless errors hide a side. Then no difference is shown."""
    sides = zip("AB", (found.a, found.b), strict=True)
    hidden = [(letter, rate.errors, rate.of) for letter, rate in sides if isinstance(rate.if_tested, NoRate)]
    return "; ".join(
        f"{letter} has no rate, {'all' if errors == of else f'{errors:,} of'} {of:,} had an error"
        for letter, errors, of in hidden
    )


def verdict_words(found: Comparison) -> str:
    """`worse`, `cannot tell`, `no difference beyond 5.1 points`: of these, the smallest number that is excluded."""
    if found.verdict == "no-difference" and found.beyond is not None:
        return f"no difference beyond {found.beyond:g} {plural(found.beyond, 'point')}"
    return found.verdict.replace("-", " ")


_UNDECIDED = {
    "errors": "errors decide",
    "spoilt": "invalid conversations decide",
    "trials": "the runs have unequal trials, which can make such a difference",
}


def _more_words(found: Comparison) -> str:
    return "" if found.more_cases is None else f"; needs about {more_words(found.more_cases)}"


def more_words(cases: int) -> str:
    """`90 more cases like these`."""
    return f"{count(cases, 'more case')} like these"


def power_words(found: Comparison) -> str:
    """The differences that the test detects: `7 points or more are detectable; 2 points are still possible (-28 to +16
    at 90%); needs about 90 more cases like these`. Empty if a difference was found."""
    if found.smallest_effect is None or found.verdict in ("better", "worse"):
        return ""
    parts = [f"{points(min(1.0, found.smallest_effect)).removeprefix('+')} or more are detectable"]
    if found.verdict == "cannot-tell" and found.equivalence is not None:
        ends = point_range(found.equivalence, -found.margin, found.margin)
        parts.append(f"{100 * found.margin:g} points are still possible ({ends} {level_words(found)})")
        parts += [] if found.more_cases is None else [f"needs about {more_words(found.more_cases)}"]
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
"""A difference between runs that is this many times the one within them is mentioned."""


def _by_case_words(found: Look) -> str:
    if not found.lost + found.won or found.rounds < 2 or found.verdict == "go-on":
        return ""
    if found.steady:
        return "; no case changed within a run, so cases count and not trials"
    return "; cases differ more between the runs than within them, so cases count" if found.design > _MUCH_MORE else ""


def change_words(found: Delta) -> str:
    """`+164%`: between the two means, which are what is shown."""
    change = _change(found)
    return "" if change is None or found.verdict == "same" else _change_percent(change)


def _change_percent(change: float) -> str:
    """`+164%`, `-0.4%`, `0%`"""
    shown = (f"{100 * change:+.{digits}f}%" for digits in (0, 1))
    return next((words for words in shown if words.strip("+-0.%")), "0%")


def typical_words(found: Delta, *, brief: bool = False) -> str:
    """The verdict of the test, which is about the median over cases; the median too if it and the means disagree."""
    if found.verdict == "same":
        return "the same" if brief else "the same in every case"
    word = "cannot tell" if found.verdict == "cannot-tell" else found.verdict
    change = _change(found)
    if found.change is None or change is None or found.change * change > 0 or brief:
        return word
    return f"{word}, typically {_change_percent(found.change)}"


def _change(found: Delta) -> float | None:
    return found.b / found.a - 1 if found.a and found.b is not None else None


# Cases and trials


class Counted(Protocol):
    """A run, a target of it or a row of a list: its conversations, and its cases with all their trials."""

    @property
    def passed(self) -> int: ...
    @property
    def failed(self) -> int: ...
    @property
    def errors(self) -> int: ...
    @property
    def finished(self) -> int: ...
    @property
    def by_case(self) -> CaseVerdicts: ...
    @property
    def has_repeats(self) -> bool: ...


def cases_passed(one: Counted) -> str:
    """`7 of 10 cases`"""
    return f"{one.by_case.passed:,} of {count(one.by_case.total, 'case')}"


def trials_passed(one: Counted) -> str:
    """`33 of 40 trials`; `33 of 40` if each case has one."""
    passed = f"{one.passed:,} of {one.finished:,}"
    return f"{passed} trials" if one.has_repeats else passed


def passed_words(one: Counted) -> str:
    """`7 of 10 cases (33 of 40 trials)`; `7 of 10` if each case has one trial."""
    return f"{cases_passed(one)} ({trials_passed(one)})" if one.has_repeats else trials_passed(one)


def lost_words(one: Counted) -> list[str]:
    """`3 cases failed`, `1 case had errors`; `3 failed`, `1 error` if each case has one trial."""
    return [words for words in (failed_words(one), error_words(one)) if words]


def failed_words(one: Counted) -> str:
    if not one.has_repeats:
        return f"{one.failed:,} failed" if one.failed else ""
    return f"{count(one.by_case.failed, 'case')} failed" if one.by_case.failed else ""


def error_words(one: Counted) -> str:
    if not one.has_repeats:
        return count(one.errors, "error") if one.errors else ""
    return f"{count(one.by_case.errors, 'case')} had errors" if one.by_case.errors else ""


def trials_words(number: int, of: Counted) -> str:
    """`5 trials`; `5` if each case has one."""
    return count(number, "trial") if of.has_repeats else f"{number:,}"


def of_trials(one: Counted) -> str:
    """Behind a pass rate, what it is a share of, if that is not cases."""
    return " of trials" if one.has_repeats else ""


# Tokens


def describe_tokens(usage: UsageResult) -> str:
    """`1,204 in, 300 cached, 88 out, 40 thinking`"""
    parts = [f"{usage.input_tokens:,} in"]
    if usage.cached_tokens:
        parts.append(f"{usage.cached_tokens:,} cached")
    parts.append(f"{usage.output_tokens:,} out")
    if usage.reasoning_tokens:
        parts.append(f"{usage.reasoning_tokens:,} thinking")
    return ", ".join(parts)


def usage_words(usage: UsageResult) -> str:
    """`1,592 tokens (1,204 in, 300 cached, 88 out)`."""
    about = "about " if usage.approximate else ""
    return f"{about}{figure(usage.total_tokens)} tokens ({describe_tokens(usage)})"


def price_words(cost: float | None, usage: UsageResult, parts: Cost | None) -> str:
    """`$0.00195 ($0.00045 input, $0.00150 output)`; empty if the price is not known."""
    if cost is None:
        return ""
    about = "about " if usage.approximate else ""
    inner = [] if parts is None else [(parts.input, "input"), (parts.output, "output")]
    return f"{about}{cost_words(cost, inner)}"
