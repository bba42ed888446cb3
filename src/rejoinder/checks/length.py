"""Checks on how long a reply is, how long it took and what it cost."""

from __future__ import annotations

from rejoinder.checks.base import Context, error_verdict, verdict
from rejoinder.model import Latency, MaxCost, MaxTokens, MaxWords, MinTokens, MinWords, Verdict


def judge_min_tokens(check: MinTokens, context: Context) -> Verdict:
    count, reason = _tokens(context)
    return verdict(check, f"min_tokens {check.limit}", count >= check.limit, reason)


def judge_max_tokens(check: MaxTokens, context: Context) -> Verdict:
    count, reason = _tokens(context)
    return verdict(check, f"max_tokens {check.limit}", count <= check.limit, reason)


def judge_min_words(check: MinWords, context: Context) -> Verdict:
    count = len(context.reply.text.split())
    return verdict(check, f"min_words {check.limit}", count >= check.limit, _say(count, "word"))


def judge_max_words(check: MaxWords, context: Context) -> Verdict:
    count = len(context.reply.text.split())
    return verdict(check, f"max_words {check.limit}", count <= check.limit, _say(count, "word"))


def judge_latency(check: Latency, context: Context) -> Verdict:
    in_time = context.reply.latency_s <= check.limit
    limit = int(check.limit) if check.limit.is_integer() else check.limit
    # The time itself stands with the turn; here it would make equal runs differ.
    return verdict(check, f"latency {limit}", in_time, "in time" if in_time else "took longer")


def judge_cost(check: MaxCost, context: Context) -> Verdict:
    limit = f"{check.limit:.9f}".rstrip("0").rstrip(".")
    label, cost = f"cost {limit}", context.reply.cost
    if cost is None:
        reason = "nobody knows what the reply cost; `prices` in the configuration can say what its tokens cost"
        return error_verdict(check, label, reason)
    enough = cost <= check.limit
    return verdict(check, label, enough, f"${cost:.6f} is {'not ' if enough else ''}more than ${limit}")


def _tokens(context: Context) -> tuple[int, str]:
    """Output tokens of this turn without those spent on thinking."""
    usage = context.reply.usage
    count = usage.output_tokens - usage.reasoning_tokens
    return count, f"approximate: {_say(count, 'token')}" if usage.approximate else _say(count, "token")


def _say(count: int, word: str) -> str:
    return f"{count} {word}" if count == 1 else f"{count} {word}s"
