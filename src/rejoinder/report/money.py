"""Tokens and dollars in words."""

from __future__ import annotations

from rejoinder.model import Result, TurnResult, UsageResult


def dollars(amount: float) -> str:
    """Cents matter in a large sum, and millionths in the price of one reply."""
    if amount == 0 or amount >= 1:
        return f"${amount:,.2f}"
    return f"${amount:.4f}" if amount >= 0.01 else f"${amount:.6f}"


def describe_tokens(usage: UsageResult) -> str:
    """`1,204 in, 300 cached, 88 out, 40 thinking`"""
    parts = [f"{usage.input_tokens:,} in"]
    if usage.cached_tokens:
        parts.append(f"{usage.cached_tokens:,} cached")
    parts.append(f"{usage.output_tokens:,} out")
    if usage.reasoning_tokens:
        parts.append(f"{usage.reasoning_tokens:,} thinking")
    return ", ".join(parts)


def describe_spending(spent: Result | TurnResult) -> str:
    """What a turn or a conversation used and cost."""
    about = "about " if spent.usage.approximate else ""
    text = f"{about}{spent.usage.total_tokens:,} tokens ({describe_tokens(spent.usage)})"
    if spent.cost is None:
        return text
    text += f", {about}{dollars(spent.cost)}"
    parts = spent.cost_breakdown
    return text if parts is None else f"{text} ({dollars(parts.input)} input, {dollars(parts.output)} output)"
