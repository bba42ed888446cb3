"""Checks on how near a reply comes to a text, by its letters and words. They know nothing of meaning."""

from __future__ import annotations

from collections.abc import Callable

from rejoinder.checks.base import Context, error_verdict, scored_verdict, verdict
from rejoinder.model import Levenshtein, RougeL, Similar, Verdict

MOST_PAIRS = 20_000_000_000
"""Characters of the reply times characters of what it is compared with: at most a second, in which nothing else runs.
Two texts of 140,000 characters."""


def judge_levenshtein(check: Levenshtein, context: Context) -> Verdict:
    from rapidfuzz.distance import Levenshtein as Distance

    reply, expected = context.reply.text.strip(), check.expected.strip()
    if (reason := _too_long(reply, (expected,))) is not None:
        return error_verdict(check, "levenshtein", reason)
    distance = Distance.distance(reply, expected)
    reason = f"{distance} characters differ" if distance != 1 else "1 character differs"
    return verdict(check, "levenshtein", distance <= check.most, reason)


def judge_rouge_l(check: RougeL, context: Context) -> Verdict:
    return _judge(check, "rouge_l", context, rouge_l)


def judge_similar(check: Similar, context: Context) -> Verdict:
    from rapidfuzz.fuzz import ratio

    return _judge(check, "similar", context, lambda reply, expected: ratio(reply.strip(), expected.strip()) / 100)


def rouge_l(reply: str, expected: str) -> float:
    """The F-measure of the longest common subsequence of words, in any letter case."""
    from rapidfuzz.distance import LCSseq

    said, wanted = reply.lower().split(), expected.lower().split()
    if not said or not wanted:
        return float(said == wanted)
    common = LCSseq.similarity(said, wanted)
    return 2 * common / (len(said) + len(wanted))


def _judge(check: RougeL | Similar, label: str, context: Context, compare: Callable[[str, str], float]) -> Verdict:
    reply = context.reply.text
    if (reason := _too_long(reply, check.expected)) is not None:
        return error_verdict(check, label, reason)
    score = max(compare(reply, expected) for expected in check.expected)
    threshold = 0.5 if check.threshold is None else check.threshold
    passed = score >= threshold
    reason = f"{score:.2f} is {'at least' if passed else 'less than'} {threshold:g}"
    return scored_verdict(check, label, passed, reason, score=score, threshold=threshold)


def _too_long(reply: str, expected: tuple[str, ...]) -> str | None:
    """Why texts cannot be compared; None where they can."""
    length = sum(map(len, expected))
    if len(reply) * length <= MOST_PAIRS:
        return None
    return f"the texts are too long to be compared: {len(reply):,} characters with {length:,}; compare a part of them"
