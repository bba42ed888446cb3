"""How far a judge can be trusted, on a terminal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rejoinder.model import Summary
from rejoinder.model.passports import Figures, Finding, Passport, PositionBias, Rates, SelfConsistency, describe_judge
from rejoinder.model.results import Interval
from rejoinder.report.summary import dollars
from rejoinder.report.words import count, shortened

WIDTH = 13
FEW_LABELS = 30
MOST_LISTED = 10
LONGEST_REASON, LONGEST_TROUBLE = 120, 300
_DOES = {"pass": "passes", "fail": "fails"}


def write_judge_report(passport: Passport, findings: Sequence[Finding], summary: Summary) -> Iterator[str]:
    yield f"{passport.judge} as {shortened(describe_judge(passport.kind, passport.asked), LONGEST_REASON)}"
    for title, text in _lines(passport, findings, summary):
        yield f"  {title:{WIDTH}}{text}"


def _lines(passport: Passport, findings: Sequence[Finding], summary: Summary) -> Iterator[tuple[str, str]]:
    labels, figures, table = passport.labels, passport.figures, passport.figures.confusion
    missing = labels.rows - labels.scored
    without = f", {missing} of them without a verdict" if missing else ""
    yield "labels", f"{labels.file}: {count(labels.rows, 'row')}{without}"
    if labels.scored:
        people, judge = table.both_pass + table.human_only, table.both_pass + table.judge_only
        yield "passed", f"{people} of {labels.scored} by people, {judge} by the judge"
        yield "agreement", _rate(figures.agreement, figures.agreement_interval)
        yield "kappa", _kappa(figures)
        sensitivity = _rate(figures.sensitivity, figures.sensitivity_interval)
        specificity = _rate(figures.specificity, figures.specificity_interval)
        yield "sensitivity", _share(sensitivity, passport.passes, "pass")
        yield "specificity", _share(specificity, passport.fails, "fail")
        yield from _with_errors(figures.with_errors, missing)
        yield from _steadiness(figures.self_consistency, passport.repeat)
        yield from _position(figures.position)
    if summary.judge_cost is not None:
        yield "cost", dollars(summary.judge_cost)
    if labels.scored:
        yield from _advice(passport)
    yield from _disagreements(findings)
    yield from _troubles(findings)


def _rate(rate: float | None, interval: Interval | None) -> str:
    return "unknown" if rate is None or interval is None else f"{rate:.1%} ({_interval(interval)})"


def _with_errors(rates: Rates | None, missing: int) -> Iterator[tuple[str, str]]:
    """The figures above leave out replies without a verdict: here these count as wrong."""
    if rates is None:
        return
    formats = {"agreement": ".1%", "kappa": ".3f", "sensitivity": ".1%", "specificity": ".1%"}
    values = ((name, getattr(rates, name), form) for name, form in formats.items())
    known = [f"{name} {value:{form}}" for name, value, form in values if value is not None]
    verdicts = "the missing verdict" if missing == 1 else f"the {missing} missing verdicts"
    yield "with errors", f"{', '.join(known)}: with {verdicts} taken as wrong"


def _interval(interval: Interval) -> str:
    return f"95 % interval {interval[0]:.1%} to {interval[1]:.1%}, Wilson"


def _share(rate: str, counts: tuple[int, int], word: str) -> str:
    if not counts[1]:
        return f"unknown: people {word} none of the replies"
    replies = "reply" if counts[1] == 1 else "replies"
    return f"{rate}: it {_DOES[word]} {counts[0]} of the {counts[1]} {replies} that people {word}"


def _kappa(figures: Figures) -> str:
    value, interval = figures.kappa, figures.kappa_interval
    if value is None:
        return "not defined: people and judge give every reply the same verdict, which chance alone explains"
    bounds = f" (95 % interval {interval[0]:.3f} to {interval[1]:.3f})" if interval else ""
    return f"{value:.3f}{bounds}; 0 is what chance gives, 1 is full agreement"


def _steadiness(steady: SelfConsistency | None, repeat: int) -> Iterator[tuple[str, str]]:
    if steady is None:
        if repeat == 1:
            yield "consistency", "unknown; --repeat 3 asks about every reply three times"
        return
    alpha = "" if steady.alpha is None else f"; Krippendorff's alpha {steady.alpha:.3f}"
    share = _rate(steady.unanimous, steady.unanimous_interval)
    replies = f"{steady.replies:,}" if steady.replies == steady.total else f"{steady.replies:,} of {steady.total:,}"
    yield "consistency", f"{share} of {replies} replies judged at least twice get the same verdict each time{alpha}"


def _position(position: PositionBias | None) -> Iterator[tuple[str, str]]:
    if position is None:
        return
    share = _rate(position.consistent, position.consistent_interval)
    yield "position", f"{share} of the pairs get the same verdict in both orders"
    if position.p_value is not None:
        gains = f"{position.to_first} times for the first answer, {position.to_second} times for the second"
        yield "", f"the order decides {gains} (exact p = {position.p_value:.3g})"


def _advice(passport: Passport) -> Iterator[tuple[str, str]]:
    if not passport.passes[1] or not passport.fails[1]:
        which = "pass" if not passport.passes[1] else "fail"
        yield "note", f"people {which} none of the replies: a judge that always says the same would look as good"
    elif passport.labels.scored < FEW_LABELS:
        yield "note", f"few labels, so the intervals are wide; {FEW_LABELS} or more tell more"


def _disagreements(findings: Sequence[Finding]) -> Iterator[tuple[str, str]]:
    wrong = [finding for finding in findings if finding.is_wrong]
    for position, finding in enumerate(wrong[:MOST_LISTED]):
        said = _DOES["pass" if finding.verdicts[0] else "fail"]
        reason = shortened(finding.reasons[0], LONGEST_REASON)
        yield "" if position else "disagrees on", f"{finding.id}, which it {said}: {reason}"
    if len(wrong) > MOST_LISTED:
        yield "", f"and {len(wrong) - MOST_LISTED} more"


def _troubles(findings: Sequence[Finding]) -> Iterator[tuple[str, str]]:
    """Why there are verdicts missing; mostly it is one reason for all of them."""
    reasons: dict[str, list[str]] = {}
    for finding in findings:
        for trouble in dict.fromkeys(finding.troubles):
            reasons.setdefault(trouble, []).append(finding.id)
    for position, (reason, ids) in enumerate(list(reasons.items())[:MOST_LISTED]):
        more = f" and {len(ids) - 1} more" if ids[1:] else ""
        yield "" if position else "no verdict", f"on {ids[0]}{more}: {shortened(reason, LONGEST_TROUBLE)}"
    if len(reasons) > MOST_LISTED:
        yield "", f"and for {len(reasons) - MOST_LISTED} other reasons"
