"""Checks on how long a reply is, how long it took and what it cost."""

from __future__ import annotations

from rejoinder.checks.base import Context, error_verdict, show_number, verdict
from rejoinder.checks.registry import judges
from rejoinder.model import Latency, MaxCost, MaxTokens, MaxWords, MinTokens, MinWords, Verdict


@judges(MinTokens, MaxTokens)
def judge_tokens(check: MinTokens | MaxTokens, context: Context) -> Verdict:
    """Output tokens of this turn without those spent on thinking."""
    usage = context.reply.usage
    count = usage.output_tokens - usage.reasoning_tokens
    reason = f"approximate: {_say(count, 'token')}" if usage.approximate else _say(count, "token")
    return verdict(check, check.limit, _keeps(check, count), reason)


@judges(MinWords, MaxWords)
def judge_words(check: MinWords | MaxWords, context: Context) -> Verdict:
    count = len(context.reply.text.split())
    return verdict(check, check.limit, _keeps(check, count), _say(count, "word"))


@judges(Latency)
def judge_latency(check: Latency, context: Context) -> Verdict:
    in_time = context.reply.latency_s <= check.limit
    # The time itself stands with the turn; here it would make equal runs differ.
    return verdict(check, check.limit, in_time, "in time" if in_time else "took longer")


@judges(MaxCost)
def judge_cost(check: MaxCost, context: Context) -> Verdict:
    cost = context.reply.cost
    if cost is None:
        reason = "the cost of the reply is unknown; `prices` in the configuration can say what its tokens cost"
        return error_verdict(check, check.limit, reason)
    enough = cost <= check.limit
    reason = f"${cost:.6f} is {'not ' if enough else ''}more than ${show_number(check.limit)}"
    return verdict(check, check.limit, enough, reason)


def _keeps(check: MinTokens | MaxTokens | MinWords | MaxWords, count: int) -> bool:
    return count >= check.limit if isinstance(check, MinTokens | MinWords) else count <= check.limit


def _say(count: int, word: str) -> str:
    return f"{count} {word}" if count == 1 else f"{count} {word}s"
