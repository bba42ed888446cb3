"""Checks on how near a reply comes to a text, by its letters and words. They know nothing of meaning."""

from __future__ import annotations

from rejoinder.checks.base import Context, scored_verdict, verdict
from rejoinder.model import Levenshtein, RougeL, Similar, Verdict


def judge_levenshtein(check: Levenshtein, context: Context) -> Verdict:
    from rapidfuzz.distance import Levenshtein as Distance  # noqa: PLC0415 - few suites need it

    distance = Distance.distance(context.reply.text.strip(), check.expected.strip())
    reason = f"{distance} characters differ" if distance != 1 else "1 character differs"
    return verdict(check, "levenshtein", distance <= check.most, reason)


def judge_rouge_l(check: RougeL, context: Context) -> Verdict:
    return _judge(check, "rouge_l", max(rouge_l(context.reply.text, one) for one in check.expected))


def judge_similar(check: Similar, context: Context) -> Verdict:
    from rapidfuzz.fuzz import ratio  # noqa: PLC0415

    return _judge(check, "similar", max(ratio(context.reply.text.strip(), one.strip()) / 100 for one in check.expected))


def rouge_l(reply: str, expected: str) -> float:
    """The F-measure of the longest common subsequence of words, in any letter case."""
    from rapidfuzz.distance import LCSseq  # noqa: PLC0415

    said, wanted = reply.lower().split(), expected.lower().split()
    if not said or not wanted:
        return float(said == wanted)
    common = LCSseq.similarity(said, wanted)
    return 2 * common / (len(said) + len(wanted))


def _judge(check: RougeL | Similar, label: str, score: float) -> Verdict:
    threshold = 0.5 if check.threshold is None else check.threshold
    passed = score >= threshold
    reason = f"{score:.2f} is {'at least' if passed else 'less than'} {threshold:g}"
    return scored_verdict(check, label, passed, reason, score=score, threshold=threshold)
