"""How far a judge can be trusted, on a terminal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from rejoinder.engine.judge_test import Finding
from rejoinder.engine.passports import Passport
from rejoinder.report.money import dollars
from rejoinder.report.problems import printable
from rejoinder.report.summary import count

WIDTH = 13
FEW_LABELS = 30
MOST_LISTED = 10


def write_judge_report(passport: Passport, findings: Sequence[Finding], summary: dict[str, Any]) -> Iterator[str]:
    yield f"{passport.judge} as {passport.kind} {printable(passport.asked)}"
    for title, text in _lines(passport, findings, summary):
        yield f"  {title:{WIDTH}}{text}"


def _lines(passport: Passport, findings: Sequence[Finding], summary: dict[str, Any]) -> Iterator[tuple[str, str]]:
    labels, figures, table = passport.labels, passport.figures, passport.figures["confusion"]
    missing = labels.rows - labels.scored
    without = f", {missing} without a verdict" if missing else ""
    yield "labels", f"{labels.file}: {count(labels.rows, 'row')}, {labels.scored} scored{without}"
    if not labels.scored:
        return
    people, judge = table["both_pass"] + table["human_only"], table["both_pass"] + table["judge_only"]
    yield "passed", f"{people} of {labels.scored} by people, {judge} by the judge"
    yield "agreement", _rate(figures, "agreement")
    yield "kappa", _kappa(figures)
    passes, fails = passport.passes, passport.fails
    yield "sensitivity", f"{_rate(figures, 'sensitivity')}: it passes {passes[0]} of {passes[1]} that people pass"
    yield "specificity", f"{_rate(figures, 'specificity')}: it fails {fails[0]} of {fails[1]} that people fail"
    yield from _steadiness(figures["self_consistency"], passport.repeat)
    yield from _position(figures["position"])
    if summary["judge_cost"] is not None:
        yield "cost", dollars(summary["judge_cost"])
    yield from _advice(passport)
    yield from _disagreements(findings)


def _rate(figures: dict[str, Any], name: str) -> str:
    rate, interval = figures[name], figures[f"{name}_interval"]
    return "not known" if rate is None or interval is None else f"{rate:.1%} ({_interval(interval)}, Wilson)"


def _interval(interval: Sequence[float]) -> str:
    return f"95 % interval {interval[0]:.1%} to {interval[1]:.1%}"


def _kappa(figures: dict[str, Any]) -> str:
    value, interval = figures["kappa"], figures["kappa_interval"]
    if value is None:
        return "not defined: people and judge always say the same"
    return f"{value:.3f}" + (f" (95 % interval {interval[0]:.3f} to {interval[1]:.3f})" if interval else "")


def _steadiness(steady: dict[str, Any] | None, repeat: int) -> Iterator[tuple[str, str]]:
    if steady is None:
        if repeat == 1:
            yield "consistency", "not known; --repeat 3 asks about every reply three times"
        return
    alpha = "" if steady["alpha"] is None else f"; Krippendorff's alpha {steady['alpha']:.3f}"
    share = f"{steady['unanimous']:.1%} ({_interval(steady['unanimous_interval'])}, Wilson)"
    yield "consistency", f"{share} of replies get one verdict in all {repeat} repeats{alpha}"


def _position(position: dict[str, Any] | None) -> Iterator[tuple[str, str]]:
    if position is None:
        return
    share = f"{position['consistent']:.1%} ({_interval(position['consistent_interval'])}, Wilson)"
    yield "position", f"{share} of pairs get one verdict in both orders"
    if position["p_value"] is not None:
        gains = f"{position['to_first']} for the first answer, {position['to_second']} for the second"
        yield "", f"where the order decides: {gains} (exact p = {position['p_value']:.3g})"


def _advice(passport: Passport) -> Iterator[tuple[str, str]]:
    if not passport.passes[1] or not passport.fails[1]:
        which = "pass" if not passport.passes[1] else "fail"
        yield "note", f"no reply that people {which}: a judge that always says the same would look as good"
    elif passport.labels.scored < FEW_LABELS:
        yield "note", f"few labels, so the intervals are wide; {FEW_LABELS} or more tell more"


def _disagreements(findings: Sequence[Finding]) -> Iterator[tuple[str, str]]:
    wrong = [one for one in findings if one.verdicts and one.verdicts[0] != one.label]
    for position, one in enumerate(wrong[:MOST_LISTED]):
        said = "passes" if one.verdicts[0] else "fails"
        reason = printable(" ".join(one.reasons[0].split()))[:120]
        yield "" if position else "disagrees on", f"{printable(one.id)}, which it {said}: {reason}"
    if len(wrong) > MOST_LISTED:
        yield "", f"and {len(wrong) - MOST_LISTED} more"
