"""Checks on the words of a reply."""

from __future__ import annotations

from collections.abc import Iterable

from rejoinder.checks.base import Context, error_verdict, verdict
from rejoinder.checks.patterns import PatternTimeout, find_match, search, unfold
from rejoinder.checks.registry import judges
from rejoinder.model import (
    Contains,
    ContainsAll,
    ContainsAny,
    EndsWith,
    Equals,
    IContains,
    IContainsAll,
    IContainsAny,
    Match,
    NotMatch,
    Regex,
    Span,
    StartsWith,
    Verdict,
)


@judges(Match, NotMatch)
def judge_match(check: Match | NotMatch, context: Context) -> Verdict:
    try:
        spans = find_match(check.pattern, context.reply.text)
    except PatternTimeout as timeout:
        return error_verdict(check, check.pattern, str(timeout))
    wanted, found = isinstance(check, Match), spans is not None
    reason = ("" if wanted == found else "the reply ") + ("matches" if found else "does not match")
    return verdict(check, check.pattern, wanted == found, reason, spans or ())


@judges(Regex)
def judge_regex(check: Regex, context: Context) -> Verdict:
    value = check.pattern if check.flags is None else None
    try:
        match = search(check.pattern, check.flags or "", context.reply.text)
    except PatternTimeout as timeout:
        return error_verdict(check, value, str(timeout))
    if match is None:
        return verdict(check, value, False, "not found in the reply")
    return verdict(check, value, True, "found", (match.span(),) if match[0] else ())


@judges(Contains, IContains)
def judge_contains(check: Contains | IContains, context: Context) -> Verdict:
    places = _places((check.text,), context.reply.text, any_case=isinstance(check, IContains))
    reason = "contains it" if places else "the reply does not contain it"
    return verdict(check, check.text, bool(places), reason, tuple(places.values()))


@judges(ContainsAny, IContainsAny)
def judge_contains_any(check: ContainsAny | IContainsAny, context: Context) -> Verdict:
    places = _places(check.texts, context.reply.text, any_case=isinstance(check, IContainsAny))
    reason = f"contains {next(iter(places))!r}" if places else "the reply contains none of them"
    return verdict(check, ", ".join(check.texts), bool(places), reason, _ordered(places))


@judges(ContainsAll, IContainsAll)
def judge_contains_all(check: ContainsAll | IContainsAll, context: Context) -> Verdict:
    places = _places(check.texts, context.reply.text, any_case=isinstance(check, IContainsAll))
    missing = [text for text in check.texts if text not in places]
    reason = f"the reply lacks {', '.join(map(repr, missing))}" if missing else "contains all of them"
    return verdict(check, ", ".join(check.texts), not missing, reason, _ordered(places))


@judges(StartsWith)
def judge_starts_with(check: StartsWith, context: Context) -> Verdict:
    start, stripped = _strip(context.reply.text)
    if not stripped.startswith(check.text):
        return verdict(check, check.text, False, "the reply starts differently")
    return verdict(check, check.text, True, "starts with it", ((start, start + len(check.text)),))


@judges(EndsWith)
def judge_ends_with(check: EndsWith, context: Context) -> Verdict:
    start, stripped = _strip(context.reply.text)
    if not stripped.endswith(check.text):
        return verdict(check, check.text, False, "the reply ends differently")
    end = start + len(stripped)
    return verdict(check, check.text, True, "ends with it", ((end - len(check.text), end),))


@judges(Equals)
def judge_equals(check: Equals, context: Context) -> Verdict:
    start, stripped = _strip(context.reply.text)
    if stripped != check.text.strip():
        return verdict(check, check.text, False, "the reply is different")
    return verdict(check, check.text, True, "is equal", ((start, start + len(stripped)),) if stripped else ())


def _strip(text: str) -> tuple[int, str]:
    """A text without spaces at both ends, and where it begins."""
    return len(text) - len(text.lstrip()), text.strip()


def _places(texts: Iterable[str], reply: str, *, any_case: bool) -> dict[str, Span]:
    """Where each of the texts that the reply contains stands first."""
    searched = reply.casefold() if any_case else reply
    places: dict[str, Span] = {}
    for text in texts:
        wanted = text.casefold() if any_case else text
        start = searched.find(wanted)
        if start >= 0:
            span = start, start + len(wanted)
            places[text] = unfold(reply, searched, span) if any_case else span
    return places


def _ordered(places: dict[str, Span]) -> tuple[Span, ...]:
    return tuple(sorted(set(places.values())))
