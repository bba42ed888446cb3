"""Checks on the words of a reply."""

from __future__ import annotations

from rejoinder.checks.base import Context, error_verdict, verdict
from rejoinder.checks.patterns import PatternTimeout, matches, search
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
    StartsWith,
    Verdict,
)


def judge_match(check: Match, context: Context) -> Verdict:
    label = f"match {check.pattern}"
    try:
        passed = matches(check.pattern, context.reply.text)
    except PatternTimeout as timeout:
        return error_verdict(check, label, str(timeout))
    return verdict(check, label, passed, "matches" if passed else "the reply does not match")


def judge_not_match(check: NotMatch, context: Context) -> Verdict:
    label = f"not_match {check.pattern}"
    try:
        found = matches(check.pattern, context.reply.text)
    except PatternTimeout as timeout:
        return error_verdict(check, label, str(timeout))
    return verdict(check, label, not found, "the reply matches" if found else "does not match")


def judge_contains(check: Contains, context: Context) -> Verdict:
    passed = check.text in context.reply.text
    return verdict(check, f"contains {check.text}", passed, _found(passed))


def judge_icontains(check: IContains, context: Context) -> Verdict:
    passed = check.text.casefold() in context.reply.text.casefold()
    return verdict(check, f"icontains {check.text}", passed, _found(passed))


def judge_contains_any(check: ContainsAny, context: Context) -> Verdict:
    reply = context.reply.text
    return _any(check, "contains_any", [text for text in check.texts if text in reply])


def judge_contains_all(check: ContainsAll, context: Context) -> Verdict:
    reply = context.reply.text
    return _all(check, "contains_all", [text for text in check.texts if text not in reply])


def judge_icontains_any(check: IContainsAny, context: Context) -> Verdict:
    reply = context.reply.text.casefold()
    return _any(check, "icontains_any", [text for text in check.texts if text.casefold() in reply])


def judge_icontains_all(check: IContainsAll, context: Context) -> Verdict:
    reply = context.reply.text.casefold()
    return _all(check, "icontains_all", [text for text in check.texts if text.casefold() not in reply])


def judge_starts_with(check: StartsWith, context: Context) -> Verdict:
    passed = context.reply.text.strip().startswith(check.text)
    reason = "starts with it" if passed else "the reply starts otherwise"
    return verdict(check, f"starts_with {check.text}", passed, reason)


def judge_ends_with(check: EndsWith, context: Context) -> Verdict:
    passed = context.reply.text.strip().endswith(check.text)
    return verdict(check, f"ends_with {check.text}", passed, "ends with it" if passed else "the reply ends otherwise")


def judge_equals(check: Equals, context: Context) -> Verdict:
    passed = context.reply.text.strip() == check.text.strip()
    return verdict(check, f"equals {check.text}", passed, "is equal" if passed else "the reply is another")


def judge_regex(check: Regex, context: Context) -> Verdict:
    label = f"regex {check.pattern}" if check.flags is None else "regex"
    try:
        passed = search(check.pattern, check.flags or "", context.reply.text)
    except PatternTimeout as timeout:
        return error_verdict(check, label, str(timeout))
    return verdict(check, label, passed, "found" if passed else "not found in the reply")


def _any(check: ContainsAny | IContainsAny, kind: str, found: list[str]) -> Verdict:
    reason = f"contains {found[0]!r}" if found else "the reply contains none of them"
    return verdict(check, f"{kind} {', '.join(check.texts)}", bool(found), reason)


def _all(check: ContainsAll | IContainsAll, kind: str, missing: list[str]) -> Verdict:
    reason = f"the reply lacks {', '.join(map(repr, missing))}" if missing else "contains all of them"
    return verdict(check, f"{kind} {', '.join(check.texts)}", not missing, reason)


def _found(passed: bool) -> str:
    return "contains it" if passed else "the reply does not contain it"
