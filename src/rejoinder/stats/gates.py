"""Rules of a gate, decided from figures. Each says pass, fail or cannot-tell, and why."""

from __future__ import annotations

from collections.abc import Sequence
from math import sqrt

from rejoinder.model.figures import Comparison, GateResult, Look, NoRate, PassK, Rate, RuleResult, RuleVerdict
from rejoinder.stats.distributions import normal_quantile
from rejoinder.stats.intervals import Z_95
from rejoinder.stats.needed import POWER, rounded_up
from rejoinder.words.figures import comparison_words, level_words, look_words, no_rate_words, rate_words, sample_words
from rejoinder.words.numbers import percent, point_range, points, rate_range


def gate(rules: Sequence[RuleResult]) -> GateResult:
    """All rules together: a failure decides, then what cannot be told."""
    verdicts = {rule.verdict for rule in rules}
    verdict = "fail" if "fail" in verdicts else "cannot-tell" if "cannot-tell" in verdicts else "pass"
    return GateResult(verdict, tuple(rules))


def rate_rule(rule: str, rate: Rate, least: float) -> RuleResult:
    """`rate>=90%`: the rate itself, whatever chance had to do with it."""
    found = rate.if_tested
    if isinstance(found, NoRate):
        return RuleResult(rule, "cannot-tell", no_rate_words(found))
    return RuleResult(rule, _at_least(found.rate or 0.0, least), f"{rate_words(rate)}, {sample_words(rate)}")


def lower_rule(rule: str, rate: Rate, least: float) -> RuleResult:
    """`lower>=85%`: the lower end of the 95 % interval, so that a pass is shown and not by chance. A failure says
    whether it is the rate or the number of cases that is too small."""
    found = rate.if_tested
    if isinstance(found, NoRate):
        return RuleResult(rule, "cannot-tell", no_rate_words(found))
    low, _ = found.interval or (0.0, 1.0)
    verdict, numbers = _at_least(low, least), f"{rate_words(rate)}, {sample_words(rate)}"
    needed = cases_for_lower(rate, least)
    if verdict == "fail" and needed is not None:
        numbers += f"; about {needed:,} cases with this rate would show it"
    return RuleResult(rule, verdict, numbers)


def cases_for_lower(rate: Rate, least: float) -> int | None:
    """About how many cases with this rate have a Wilson interval above `least` in four of five tries, rounded up to two
    digits: (z_.975 sqrt(p0 (1 - p0)) + z_.80 sqrt(p (1 - p)))^2 / (p - p0)^2, as for a score test, times what a case is
    worth. None where the rate itself is below."""
    if rate.rate is None or not rate.effective or rate.rate <= least:
        return None
    power = normal_quantile(POWER) or 0.0
    spread = Z_95 * sqrt(least * (1 - least)) + power * sqrt(rate.rate * (1 - rate.rate))
    return rounded_up((spread / (rate.rate - least)) ** 2 * rate.cases / rate.effective)


def pass_rule(rule: str, found: PassK, least: float) -> RuleResult:
    """`pass^3>=70%`; cannot-tell where a case has fewer than k trials."""
    if found.rate is None or found.short:
        short = f"{found.short:,} of {found.cases + found.short:,} cases"
        return RuleResult(rule, "cannot-tell", f"{short} have fewer than {found.k} trials")
    text = percent(found.rate, found.cases, found.interval)
    if found.interval is not None:
        text += f" ({rate_range(found.interval)})"
    return RuleResult(rule, _at_least(found.rate, least), f"{text}, {found.trials:,} trials of {found.cases:,} cases")


def at_most(value: float, most: float) -> RuleVerdict:
    """`cost<=1.50`, `latency_p95<=4s`."""
    return "pass" if value <= most else "fail"


def no_regression_rule(rule: str, found: Comparison) -> RuleResult:
    """`no-regression`: fails where B is worse; passes if it is better, or where a drop beyond the margin is excluded
    (the lower end of the 90 % interval: a one-sided test at 5 %)."""
    words = comparison_words(found)
    if found.verdict == "worse":
        return RuleResult(rule, "fail", words)
    if not excludes_drop(found):
        return RuleResult(rule, "cannot-tell", words)
    return RuleResult(rule, "pass", _excluded_words(found) if found.verdict == "cannot-tell" else words)


def excludes_drop(found: Comparison) -> bool:
    """Is B better than A, or not worse by the margin?"""
    if found.verdict in ("worse", "better"):
        return found.verdict == "better"
    low = None if found.equivalence is None else found.equivalence[0]
    return low is not None and low > -found.margin and found.undecided not in ("errors", "spoilt")


def _excluded_words(found: Comparison) -> str:
    """`a drop beyond 10 points is excluded: +5 points (-2 to +12 at 90%)`: the interval that excludes it."""
    ends = point_range(found.equivalence or (-1.0, 1.0), -found.margin)
    numbers = f"{points(found.difference or 0.0)} ({ends} {level_words(found)})"
    return f"a drop beyond {100 * found.margin:g} points is excluded: {numbers}"


_OF_LOOK: dict[str, RuleVerdict] = {
    "regression": "fail",
    "no-regression": "pass",
    "go-on": "cannot-tell",
    "cannot-tell": "cannot-tell",
}


def look_rule(rule: str, found: Look) -> RuleResult:
    """`no-regression` with `--repeat auto`: about these cases."""
    return RuleResult(rule, _OF_LOOK[found.verdict], look_words(found))


def _at_least(value: float, least: float) -> RuleVerdict:
    # What is written as 90 % and comes to 0.9 by another way must not fail by rounding.
    return "pass" if value >= least - 1e-12 else "fail"
