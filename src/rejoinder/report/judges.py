"""How far a judge can be trusted, on a terminal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from rejoinder.calibration.judge_test import Finding, describe
from rejoinder.engine.passports import Passport
from rejoinder.report.money import dollars
from rejoinder.report.summary import count

WIDTH = 13
FEW_LABELS = 30
MOST_LISTED = 10
LONGEST_REASON, LONGEST_TROUBLE = 120, 300
_DOES = {"pass": "passes", "fail": "fails"}


def write_judge_report(passport: Passport, findings: Sequence[Finding], summary: dict[str, Any]) -> Iterator[str]:
    yield f"{passport.judge} as {_shortened(describe(passport.kind, passport.asked))}"
    for title, text in _lines(passport, findings, summary):
        yield f"  {title:{WIDTH}}{text}"


def _lines(passport: Passport, findings: Sequence[Finding], summary: dict[str, Any]) -> Iterator[tuple[str, str]]:
    labels, figures, table = passport.labels, passport.figures, passport.figures["confusion"]
    missing = labels.rows - labels.scored
    without = f", {missing} of them without a verdict" if missing else ""
    yield "labels", f"{labels.file}: {count(labels.rows, 'row')}{without}"
    if labels.scored:
        people, judge = table["both_pass"] + table["human_only"], table["both_pass"] + table["judge_only"]
        yield "passed", f"{people} of {labels.scored} by people, {judge} by the judge"
        yield "agreement", _rate(figures, "agreement")
        yield "kappa", _kappa(figures)
        yield "sensitivity", _share(figures, "sensitivity", passport.passes, "pass")
        yield "specificity", _share(figures, "specificity", passport.fails, "fail")
        yield from _with_errors(figures.get("with_errors"), missing)
        yield from _steadiness(figures["self_consistency"], passport.repeat)
        yield from _position(figures["position"])
    if summary["judge_cost"] is not None:
        yield "cost", dollars(summary["judge_cost"])
    if labels.scored:
        yield from _advice(passport)
    yield from _disagreements(findings)
    yield from _troubles(findings)


def _rate(figures: dict[str, Any], name: str) -> str:
    rate, interval = figures[name], figures[f"{name}_interval"]
    return "not known" if rate is None or interval is None else f"{rate:.1%} ({_interval(interval)})"


def _with_errors(figures: dict[str, Any] | None, missing: int) -> Iterator[tuple[str, str]]:
    """Replies without a verdict are in none of the figures above: here they are what could be worst."""
    if figures is None:
        return
    formats = {"agreement": ".1%", "kappa": ".3f", "sensitivity": ".1%", "specificity": ".1%"}
    known = [f"{name} {figures[name]:{one}}" for name, one in formats.items() if figures[name] is not None]
    verdicts = "the missing verdict" if missing == 1 else f"the {missing} missing verdicts"
    yield "with errors", f"{', '.join(known)}: with {verdicts} taken as wrong"


def _interval(interval: Sequence[float]) -> str:
    return f"95 % interval {interval[0]:.1%} to {interval[1]:.1%}, Wilson"


def _share(figures: dict[str, Any], name: str, counts: tuple[int, int], word: str) -> str:
    if not counts[1]:
        return f"not known: there is no reply that people {word}"
    replies = "reply" if counts[1] == 1 else "replies"
    return f"{_rate(figures, name)}: it {_DOES[word]} {counts[0]} of the {counts[1]} {replies} that people {word}"


def _kappa(figures: dict[str, Any]) -> str:
    value, interval = figures["kappa"], figures["kappa_interval"]
    if value is None:
        return "not defined: people and judge give every reply the same verdict, which chance alone explains"
    bounds = f" (95 % interval {interval[0]:.3f} to {interval[1]:.3f})" if interval else ""
    return f"{value:.3f}{bounds}; 0 is what chance gives, 1 is full agreement"


def _steadiness(steady: dict[str, Any] | None, repeat: int) -> Iterator[tuple[str, str]]:
    if steady is None:
        if repeat == 1:
            yield "consistency", "not known; --repeat 3 asks about every reply three times"
        return
    alpha = "" if steady["alpha"] is None else f"; Krippendorff's alpha {steady['alpha']:.3f}"
    share = f"{steady['unanimous']:.1%} ({_interval(steady['unanimous_interval'])})"
    yield "consistency", f"{share} of the replies get the same verdict in all {repeat} repeats{alpha}"


def _position(position: dict[str, Any] | None) -> Iterator[tuple[str, str]]:
    if position is None:
        return
    share = f"{position['consistent']:.1%} ({_interval(position['consistent_interval'])})"
    yield "position", f"{share} of the pairs get the same verdict in both orders"
    if position["p_value"] is not None:
        gains = f"{position['to_first']} times for the first answer, {position['to_second']} times for the second"
        yield "", f"the order decides {gains} (exact p = {position['p_value']:.3g})"


def _advice(passport: Passport) -> Iterator[tuple[str, str]]:
    if not passport.passes[1] or not passport.fails[1]:
        which = "pass" if not passport.passes[1] else "fail"
        yield "note", f"no reply that people {which}: a judge that always says the same would look as good"
    elif passport.labels.scored < FEW_LABELS:
        yield "note", f"few labels, so the intervals are wide; {FEW_LABELS} or more tell more"


def _disagreements(findings: Sequence[Finding]) -> Iterator[tuple[str, str]]:
    wrong = [one for one in findings if one.verdicts and one.verdicts[0] != one.label]
    for position, one in enumerate(wrong[:MOST_LISTED]):
        said = _DOES["pass" if one.verdicts[0] else "fail"]
        yield "" if position else "disagrees on", f"{one.id}, which it {said}: {_shortened(one.reasons[0])}"
    if len(wrong) > MOST_LISTED:
        yield "", f"and {len(wrong) - MOST_LISTED} more"


def _troubles(findings: Sequence[Finding]) -> Iterator[tuple[str, str]]:
    """Why there are verdicts missing; mostly it is one reason for all of them."""
    reasons: dict[str, list[str]] = {}
    for one in findings:
        for trouble in dict.fromkeys(one.troubles):
            reasons.setdefault(trouble, []).append(one.id)
    for position, (reason, ids) in enumerate(list(reasons.items())[:MOST_LISTED]):
        more = f" and {len(ids) - 1} more" if ids[1:] else ""
        yield "" if position else "no verdict", f"on {ids[0]}{more}: {_shortened(reason, LONGEST_TROUBLE)}"
    if len(reasons) > MOST_LISTED:
        yield "", f"and for {len(reasons) - MOST_LISTED} other reasons"


def _shortened(text: str, most: int = LONGEST_REASON) -> str:
    line = " ".join(text.split())
    return line if len(line) <= most else f"{line[: most - 3]}..."
