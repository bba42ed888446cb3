"""The audit of a simulated user: whether it kept to its role and to its instructions."""

from __future__ import annotations

import re
from typing import Any

from msgspec import Struct, structs

from rejoinder.checks.base import PASS_MARK, Context, error_verdict, scored_verdict
from rejoinder.checks.judge import ask_votes, first_trouble, judging_of
from rejoinder.checks.judge_answers import Unreadable, read_score, read_verdict, read_words
from rejoinder.checks.registry import grades
from rejoinder.formatting.users import format_audit
from rejoinder.model import UserAudit, Verdict, reaches

_FAULTS = ("none", "role", "contradiction")


class _Finding(Struct, frozen=True):
    fault: str
    turn: int
    evidence: str
    reasoning: str | None


@grades(UserAudit)
async def grade_audit(check: UserAudit, context: Context) -> Verdict:
    """Grade the user. Passed if the judge finds nothing; otherwise the verdict's kind is the fault, and its value the
    turn."""
    said = context.port.evidence().turns
    words, replies = tuple(one.prompt for one in said), tuple(one.response for one in said)
    shown = format_audit(check.user, words, replies)
    answers = await ask_votes(check, context, shown, lambda text: _read(text, words, replies))
    judging = judging_of(check, context, shown, answers)
    if (trouble := first_trouble(check, answers)) is not None:
        return judging.added_to(error_verdict(check, None, trouble))
    found: _Finding = answers[0].value
    passed = found.fault == "none"
    turn = min(max(1, found.turn), len(words))
    if passed:
        return judging.added_to(scored_verdict(check, None, True, "it kept to its role", reasoning=found.reasoning))
    reason = found.evidence or found.reasoning or found.fault
    verdict = scored_verdict(check, float(turn), False, reason, kind=found.fault, reasoning=found.reasoning)
    return judging.added_to(verdict)


def _read(text: str, words: tuple[str, ...], replies: tuple[str, ...]) -> _Finding | None:
    """The judge's finding. Its quote must be the user's words, and decides the turn. Raises Unreadable."""
    said = (*words, *replies)
    found = read_verdict(text, ("fault", "score"), _finding, lambda found: (found.fault, found.turn), said)
    if found is None or found.fault == "none" or not found.evidence.strip():
        return found
    places = [place for place, one in enumerate(words, 1) if _plain(found.evidence) in _plain(one)]
    if not places:
        raise Misquoted
    return structs.replace(found, turn=found.turn if found.turn in places else places[0])


def _plain(text: str) -> str:
    return " ".join(re.sub(r"[\"'`\u2018\u2019\u201c\u201d.]+", "", text).casefold().split())


class Misquoted(Unreadable):
    """The judge quotes words that the user did not say."""

    trouble = "the judge quotes words that the simulated user did not say"
    complaint = "The person did not say these words. Reply with the one JSON object, and quote the person exactly."


def _finding(data: dict[str, Any]) -> _Finding | None:
    fault, turn, score = data.get("fault"), data.get("turn"), read_score(data.get("score"))
    if fault is None and score is not None:  # as judges of replies say it: a low score is a fault of some kind
        fault = "none" if reaches(score, PASS_MARK) else "role"
    if fault not in _FAULTS:
        return None
    number = turn if isinstance(turn, int) and not isinstance(turn, bool) else 1
    return _Finding(fault, number, read_words(data.get("evidence")) or "", read_words(data.get("reasoning")))
