"""Facts of a run beside its result, each worded once: its start and length, its cases, tokens and cost."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal, TypeAlias

from msgspec import Struct

from rejoinder.model import Receipt, Summary
from rejoinder.model.runs import BudgetUse
from rejoinder.words.numbers import count, figure, money, plural, seconds, shortened, tokens, when
from rejoinder.words.runs import id_end
from rejoinder.words.statuses import EARLY_ENDS

FactKind: TypeAlias = Literal["started", "took", "cases", "tokens", "cost", "targets", "variants", "run"]
MOST_NAMED = 20
LONGEST_NAME = 80


class Fact(Struct, frozen=True):
    kind: FactKind
    label: str
    text: str
    """Beside its label: `12`."""
    said: str
    """In a sentence: `12 cases`."""
    short: str
    """In a sentence on a screen: `48.2k tokens`."""


def facts_of(receipt: Receipt, summary: Summary) -> tuple[Fact, ...]:
    """Facts that have a text."""
    found = _every_fact(receipt, summary)
    return tuple(
        Fact(kind, label, text, said or text, short or said or text) for kind, label, text, said, short in found if text
    )


def _every_fact(receipt: Receipt, summary: Summary) -> Iterator[tuple[FactKind, str, str, str, str]]:
    targets = list(summary.by_target) or [target.name for target in receipt.targets]
    about, number = _about(summary), summary.cases or summary.by_case.total
    chosen, total = str(receipt.chosen or ""), summary.total_tokens
    started = when(receipt.started_at)
    yield "started", "Started", started, "", ""
    yield "took", "Took", _took(receipt, summary), "", ""
    if receipt.status in EARLY_ENDS and summary.finished < receipt.planned:
        ended = f"{summary.finished:,} of {receipt.planned:,}"
        yield "cases", "Conversations", ended, f"{summary.finished:,} of {count(receipt.planned, 'conversation')}", ""
    else:
        yield "cases", "Cases", chosen or figure(number), chosen or count(number, "case"), ""
    whole, short = (f"{about}{tokens(total, whole=whole)}" for whole in (True, False))
    yield "tokens", "Tokens", f"{about}{figure(total)}", whole, short
    yield "cost", "Cost", _cost(summary, receipt.budget, about), "", ""
    yield "targets", plural(len(targets), "Target", "Targets"), names_of(targets), "", ""
    yield "variants", "Variants", names_of(list(summary.by_variant)), "", ""
    yield "run", "Run", receipt.id, f"run {receipt.id}", f"run {id_end(receipt.id)}"


def _took(receipt: Receipt, summary: Summary) -> str:
    """Empty for a run without an end: its time is not known."""
    is_known = receipt.status not in ("running", "killed") or summary.duration_s
    return seconds(summary.duration_s) if is_known else ""


def _cost(summary: Summary, budget: BudgetUse | None, about: str) -> str:
    """Empty if everything was answered on this machine: that has no price, and costs nothing."""
    if summary.total_cost is None:
        return money(None) if summary.unpriced else ""
    parts = [("judges", summary.judge_cost), ("users", summary.user_cost)]
    inner = ", ".join(f"{who} {money(cost)}" for who, cost in parts if cost)
    of = f" of {money(budget.usd)}" if budget is not None and budget.usd is not None else ""
    return f"{about}{money(summary.total_cost)}{of}{f' ({inner})' if inner else ''}"


def _about(summary: Summary) -> str:
    """`about `, if a service did not count tokens, so that they were estimated."""
    used = (summary.usage, summary.judge_usage, summary.user_usage)
    return "about " if any(usage.approximate for usage in used) else ""


def names_of(names: Sequence[str]) -> str:
    more = f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else ""
    return ", ".join(shortened(name, LONGEST_NAME) for name in names[:MOST_NAMED]) + more
