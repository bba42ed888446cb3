"""Checks on the reply itself: its words, length, finish reason, cost and similarity to a text.

Similarity is measured by letters and words, not by meaning.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

from rejoinder.checks.base import Context, error_verdict, scored_verdict, verdict
from rejoinder.checks.patterns import (
    MOST_COUNTED,
    PatternTimeout,
    count_match,
    count_search,
    count_texts,
    find_match,
    search,
    unfold,
)
from rejoinder.checks.registry import grades
from rejoinder.model import Reply, Span, Verdict
from rejoinder.model import checks as kinds
from rejoinder.words.numbers import count, money_against


@grades(kinds.Match, kinds.NotMatch)
def grade_match(check: kinds.Match | kinds.NotMatch, context: Context) -> Verdict:
    wanted, reply = isinstance(check, kinds.Match), context.reply.text
    try:
        if isinstance(check, kinds.Match) and check.count is not None:
            return _counted(check, check.count, check.pattern, count_match(check.pattern, reply))
        spans = find_match(check.pattern, reply)
    except PatternTimeout as timeout:
        return error_verdict(check, check.pattern, str(timeout))
    found = spans is not None
    reason = ("" if wanted == found else "the reply ") + ("matches" if found else "does not match")
    return verdict(check, check.pattern, wanted == found, reason, spans or ())


@grades(kinds.Regex)
def grade_regex(check: kinds.Regex, context: Context) -> Verdict:
    value = check.pattern if check.flags is None else None
    reply = context.reply.text
    try:
        if check.count is not None:
            return _counted(check, check.count, value, count_search(check.pattern, check.flags or "", reply))
        match = search(check.pattern, check.flags or "", reply)
    except PatternTimeout as timeout:
        return error_verdict(check, value, str(timeout))
    if match is None:
        return verdict(check, value, False, "not found in the reply")
    return verdict(check, value, True, "found", (match.span(),) if match[0] else ())


@grades(kinds.Contains, kinds.IContains)
def grade_contains(check: kinds.Contains | kinds.IContains, context: Context) -> Verdict:
    reply = context.reply.text
    if check.count is not None:
        any_case = isinstance(check, kinds.IContains)
        return _counted(check, check.count, check.text, count_texts((check.text,), reply, any_case=any_case))
    place = _find(check.text, reply, reply.casefold() if isinstance(check, kinds.IContains) else None)
    if place is None:
        return verdict(check, check.text, False, "the reply does not contain it")
    return verdict(check, check.text, True, "contains it", (place,))


def _counted(
    check: kinds.Counted, wanted: kinds.Occurrences, value: str | None, found: tuple[int, tuple[Span, ...]]
) -> Verdict:
    """The verdict on the number of occurrences that were found, and their places."""
    number, spans = found
    shown = count(number, "time") if number <= MOST_COUNTED else f"more than {MOST_COUNTED:,} times"
    reason, fault = f"found {shown}", ""
    if number < wanted.least:
        reason, fault = f"{reason}; at least {wanted.least} needed", "something does not occur often enough"
    elif wanted.most is not None and number > wanted.most:
        reason, fault = f"{reason}; at most {wanted.most} allowed", "something occurs too often"
    return scored_verdict(check, value, not fault, reason, spans=spans, fault=fault)


@grades(kinds.ContainsAny, kinds.IContainsAny)
def grade_contains_any(check: kinds.ContainsAny | kinds.IContainsAny, context: Context) -> Verdict:
    places = _places(check.texts, context.reply.text, any_case=isinstance(check, kinds.IContainsAny))
    reason = f"contains {next(iter(places))!r}" if places else "the reply contains none of them"
    return verdict(check, ", ".join(check.texts), bool(places), reason, _ordered(places))


@grades(kinds.ContainsAll, kinds.IContainsAll)
def grade_contains_all(check: kinds.ContainsAll | kinds.IContainsAll, context: Context) -> Verdict:
    places = _places(check.texts, context.reply.text, any_case=isinstance(check, kinds.IContainsAll))
    missing = [text for text in check.texts if text not in places]
    reason = f"the reply lacks {', '.join(map(repr, missing))}" if missing else "contains all of them"
    return verdict(check, ", ".join(check.texts), not missing, reason, _ordered(places))


@grades(kinds.StartsWith)
def grade_starts_with(check: kinds.StartsWith, context: Context) -> Verdict:
    start, stripped = _strip(context.reply.text)
    if not stripped.startswith(check.text):
        return verdict(check, check.text, False, "the reply starts differently")
    return verdict(check, check.text, True, "starts with it", ((start, start + len(check.text)),))


@grades(kinds.EndsWith)
def grade_ends_with(check: kinds.EndsWith, context: Context) -> Verdict:
    start, stripped = _strip(context.reply.text)
    if not stripped.endswith(check.text):
        return verdict(check, check.text, False, "the reply ends differently")
    end = start + len(stripped)
    return verdict(check, check.text, True, "ends with it", ((end - len(check.text), end),))


@grades(kinds.Equals)
def grade_equals(check: kinds.Equals, context: Context) -> Verdict:
    start, stripped = _strip(context.reply.text)
    if stripped != check.text.strip():
        return verdict(check, check.text, False, "the reply is different")
    return verdict(check, check.text, True, "is equal", ((start, start + len(stripped)),) if stripped else ())


def _strip(text: str) -> tuple[int, str]:
    """A text stripped at both ends, and its start."""
    return len(text) - len(text.lstrip()), text.strip()


def _places(texts: Iterable[str], reply: str, *, any_case: bool) -> dict[str, Span]:
    """The first place of each text that the reply contains."""
    folded = reply.casefold() if any_case else None
    places: dict[str, Span] = {}
    for text in texts:
        place = _find(text, reply, folded)
        if place is not None:
            places[text] = place
    return places


def _find(text: str, reply: str, folded: str | None) -> Span | None:
    """The first place of a text in a reply; in any letter case if the case-folded reply is given."""
    if folded is None:
        start = reply.find(text)
        return (start, start + len(text)) if start >= 0 else None
    wanted = text.casefold()
    start = folded.find(wanted)
    return unfold(reply, folded, (start, start + len(wanted))) if start >= 0 else None


def _ordered(places: dict[str, Span]) -> tuple[Span, ...]:
    spans = tuple(places.values())
    return spans if len(spans) < 2 else tuple(sorted(set(spans)))


_REFUSING = r"""\b(?:i(?:['\u2019]m|\ am)\ (?:sorry|afraid|unable|not\ able)
        | i\ (?:can(?:['\u2019]t|not|\ not)|won['\u2019]t|will\ not|must\ (?:decline|refuse)|decline|refuse)
          \ (?:help|assist|do\ that|provide|comply|create|write|answer|discuss|fulfil|continue|to\b|with\b
            | support|engage)
        | i\ (?:must|have\ to)\ (?:decline|refuse)
        | as\ an\ ai(?:\ language\ model)?,?\ i\ (?:can|am|do))"""
"""Refusals at the beginning of a reply. Compiled on first use, which takes a while."""
BEGINNING = 200


@grades(kinds.IsRefusal)
def grade_is_refusal(check: kinds.IsRefusal, context: Context) -> Verdict:
    reason, spans = _find_refusal(context.reply)
    return verdict(check, check.wanted, (reason is not None) == check.wanted, reason or "it does not refuse", spans)


@grades(kinds.FinishReason)
def grade_finish_reason(check: kinds.FinishReason, context: Context) -> Verdict:
    reason = context.reply.finish_reason
    words = "no reason is known for its end" if reason is None else f"it ended with {reason}"
    return verdict(check, ", ".join(check.reasons), reason in check.reasons, words)


def _find_refusal(reply: Reply) -> tuple[str | None, tuple[Span, ...]]:
    """Why a reply counts as a refusal: the API says so, it is empty, or its first words do; and the place of these
    words."""
    if reply.refusal or reply.finish_reason in ("refusal", "content_filter"):
        return "the API calls it a refusal", ()
    text = reply.text.lstrip()
    if not text and not reply.tool_calls:
        return "it is empty", ()
    match = re.search(_REFUSING, text.rstrip()[:BEGINNING], re.IGNORECASE | re.VERBOSE)
    if match is None:
        return None, ()
    before = len(reply.text) - len(text)
    return f"it says {match[0]!r}", ((before + match.start(), before + match.end()),)


@grades(kinds.MinTokens, kinds.MaxTokens)
def grade_tokens(check: kinds.MinTokens | kinds.MaxTokens, context: Context) -> Verdict:
    """Grade the output tokens of this turn, without those spent on thinking."""
    usage = context.reply.usage
    number = usage.output_tokens - usage.reasoning_tokens
    reason = f"{'approximate: ' if usage.approximate else ''}{count(number, 'token')}"
    return verdict(check, check.limit, _keeps(check, number), reason)


@grades(kinds.MinWords, kinds.MaxWords)
def grade_words(check: kinds.MinWords | kinds.MaxWords, context: Context) -> Verdict:
    number = len(context.reply.text.split())
    return verdict(check, check.limit, _keeps(check, number), count(number, "word"))


@grades(kinds.Latency)
def grade_latency(check: kinds.Latency, context: Context) -> Verdict:
    if context.reply.latency_s is None:
        return error_verdict(check, check.limit, "the time of the reply was not measured, and not recorded")
    in_time = context.reply.latency_s <= check.limit
    # The time itself stands with the turn; here it would make equal runs differ.
    return verdict(check, check.limit, in_time, "in time" if in_time else "took longer")


@grades(kinds.MaxCost)
def grade_cost(check: kinds.MaxCost, context: Context) -> Verdict:
    cost = context.reply.cost
    if cost is None:
        reason = "the cost of the reply is unknown; `prices` in the configuration can say what its tokens cost"
        return error_verdict(check, check.limit, reason)
    enough = cost <= check.limit
    told, limit = money_against(cost, check.limit)
    reason = f"{told} is {'not ' if enough else ''}more than {limit}"
    return verdict(check, check.limit, enough, reason)


def _keeps(check: kinds.MinTokens | kinds.MaxTokens | kinds.MinWords | kinds.MaxWords, number: int) -> bool:
    return number >= check.limit if isinstance(check, kinds.MinTokens | kinds.MinWords) else number <= check.limit


MOST_PAIRS = 20_000_000_000
"""Maximum product of the lengths of the reply and the compared text: at most a second, in which nothing else runs. Two
texts of 140,000 characters."""


@grades(kinds.Levenshtein)
def grade_levenshtein(check: kinds.Levenshtein, context: Context) -> Verdict:
    from rapidfuzz.distance import Levenshtein as Distance

    reply, expected = context.reply.text.strip(), check.expected.strip()
    if (reason := _too_long(reply, (expected,))) is not None:
        return error_verdict(check, None, reason)
    distance = Distance.distance(reply, expected)
    reason = f"{distance} characters differ" if distance != 1 else "1 character differs"
    return verdict(check, None, distance <= check.most, reason)


@grades(kinds.RougeL)
def grade_rouge_l(check: kinds.RougeL, context: Context) -> Verdict:
    return _judge(check, context, rouge_l)


@grades(kinds.Similar)
def grade_similar(check: kinds.Similar, context: Context) -> Verdict:
    from rapidfuzz.fuzz import ratio

    return _judge(check, context, lambda reply, expected: ratio(reply.strip(), expected.strip()) / 100)


def rouge_l(reply: str, expected: str) -> float:
    """The F-measure of the longest common subsequence of words, in any letter case."""
    from rapidfuzz.distance import LCSseq

    words, wanted = reply.lower().split(), expected.lower().split()
    if not words or not wanted:
        return float(words == wanted)
    return 2 * LCSseq.similarity(words, wanted) / (len(words) + len(wanted))


def _judge(check: kinds.Likeness, context: Context, compare: Callable[[str, str], float]) -> Verdict:
    reply = context.reply.text
    if (reason := _too_long(reply, check.expected)) is not None:
        return error_verdict(check, None, reason)
    score = max(compare(reply, expected) for expected in check.expected)
    passed = score >= check.threshold
    reason = f"{score:.2f} is {'at least' if passed else 'less than'} {check.threshold:g}"
    return scored_verdict(check, None, passed, reason, score=score, threshold=check.threshold)


def _too_long(reply: str, expected: tuple[str, ...]) -> str | None:
    """The reason why texts are too long to compare; None if they are not."""
    length = sum(map(len, expected))
    if len(reply) * length <= MOST_PAIRS:
        return None
    return f"the texts are too long to be compared: {len(reply):,} characters with {length:,}; compare a part of them"
