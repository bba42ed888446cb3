"""Checks on how near a reply comes to a text, by its letters and words. They know nothing of meaning."""

from __future__ import annotations

from collections.abc import Callable

from rejoinder.checks.base import Context, error_verdict, scored_verdict, verdict
from rejoinder.checks.registry import judges
from rejoinder.model import Levenshtein, Likeness, RougeL, Similar, Verdict

MOST_PAIRS = 20_000_000_000
"""Characters of the reply times characters of what it is compared with: at most a second, in which nothing else runs.
Two texts of 140,000 characters."""


@judges(Levenshtein)
def judge_levenshtein(check: Levenshtein, context: Context) -> Verdict:
    from rapidfuzz.distance import Levenshtein as Distance

    reply, expected = context.reply.text.strip(), check.expected.strip()
    if (reason := _too_long(reply, (expected,))) is not None:
        return error_verdict(check, None, reason)
    distance = Distance.distance(reply, expected)
    reason = f"{distance} characters differ" if distance != 1 else "1 character differs"
    return verdict(check, None, distance <= check.most, reason)


@judges(RougeL)
def judge_rouge_l(check: RougeL, context: Context) -> Verdict:
    return _judge(check, context, rouge_l)


@judges(Similar)
def judge_similar(check: Similar, context: Context) -> Verdict:
    from rapidfuzz.fuzz import ratio

    return _judge(check, context, lambda reply, expected: ratio(reply.strip(), expected.strip()) / 100)


def rouge_l(reply: str, expected: str) -> float:
    """The F-measure of the longest common subsequence of words, in any letter case."""
    from rapidfuzz.distance import LCSseq

    words, wanted = reply.lower().split(), expected.lower().split()
    if not words or not wanted:
        return float(words == wanted)
    return 2 * LCSseq.similarity(words, wanted) / (len(words) + len(wanted))


def _judge(check: Likeness, context: Context, compare: Callable[[str, str], float]) -> Verdict:
    reply = context.reply.text
    if (reason := _too_long(reply, check.expected)) is not None:
        return error_verdict(check, None, reason)
    score = max(compare(reply, expected) for expected in check.expected)
    passed = score >= check.threshold
    reason = f"{score:.2f} is {'at least' if passed else 'less than'} {check.threshold:g}"
    return scored_verdict(check, None, passed, reason, score=score, threshold=check.threshold)


def _too_long(reply: str, expected: tuple[str, ...]) -> str | None:
    """Why texts cannot be compared; None where they can."""
    length = sum(map(len, expected))
    if len(reply) * length <= MOST_PAIRS:
        return None
    return f"the texts are too long to be compared: {len(reply):,} characters with {length:,}; compare a part of them"
