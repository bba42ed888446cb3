"""The parts of a run that are compared, and the verdict whether each one listens, for every list, table and page."""

from __future__ import annotations

from typing import Literal, NamedTuple, TypeAlias

from rejoinder.model.runs import Receipt, Summary, TargetSummary

Verdict: TypeAlias = Literal["listens", "stuck", "cannot-tell", "too-few", "not-measured"]
Part: TypeAlias = Summary | TargetSummary


class NamedPart(NamedTuple):
    name: str
    target: str | None
    """None in a run with one target and several variants."""
    variant: str | None
    part: Part


def parts_of(receipt: Receipt, summary: Summary) -> list[NamedPart]:
    """Each variant on each target, each target or each variant, as there are several; else the run as its target. Of
    earlier runs with several of both, each target."""
    targets, variants = summary.by_target, summary.by_variant
    if summary.by_pair:
        pairs = ((f"{one.target} / {one.variant}", one) for one in summary.by_pair)
        return [NamedPart(name, one.target, one.variant, one) for name, one in pairs]
    if len(targets) > 1:
        return [NamedPart(name, name, None, one) for name, one in targets.items()]
    if len(variants) > 1:
        return [NamedPart(name, None, name, one) for name, one in variants.items()]
    only = next(iter(targets), None) or next((target.name for target in receipt.targets), "")
    return [NamedPart(only, only, None, summary)]


def is_only_doubted(one: Part) -> bool:
    """True if every follow-up to a wrong reply was a doubt, which right replies get as well. Then nothing was answered
    back: the outcome is "wrong to right"."""
    doubts, back = one.transitions, one.answered_back
    return doubts is not None and back is not None and back.of <= doubts.wrong_right.of + doubts.errors


def verdict_of(part: Part, receipt: Receipt) -> Verdict | None:
    """None if there was nothing to recover from, no follow-up, or no first turn as in a fork."""
    net, back = part.net_recovery, part.answered_back
    if receipt.reported.fork is not None or is_only_doubted(part) or back is None or back.rate is None:
        return None
    return "not-measured" if net is None or net.answered_back is None or net.afresh is None else net.verdict
