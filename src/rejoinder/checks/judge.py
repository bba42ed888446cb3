"""`llm_judge`: a model is asked about the reply, and its answer is read as a score.

The judge's contract is a JSON object with `score` (0 to 1), `hits`, `misses` and `reasoning`. An answer that cannot be
read is asked for once more, in the same conversation; then it is an error, never a silent zero. Judges quote what they
judge, and that may look like a verdict: only whole objects count, where there are several they have to agree, and one
that stands in the reply does not count alone.

What holds for every check that a model is asked for is here too: votes, second chances, what they cost.
"""

from __future__ import annotations

import math
import re
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from typing import Any, TypeVar

from msgspec import Struct

from rejoinder.checks.base import Context, error_verdict, gather_all, pass_mark, scored_verdict
from rejoinder.checks.json_text import OBJECT, Found, equal_as_json, make_decoder, scan_json
from rejoinder.formatting import ASK_AGAIN, ASK_FOR_ONE, ASK_FOR_OWN, format_judge_prompt, judge_digest
from rejoinder.model import (
    NO_USAGE,
    ChatMessage,
    Failure,
    Judged,
    JudgePrompt,
    LlmJudge,
    Prompt,
    Reply,
    Usage,
    Verdict,
    reaches,
)

MOST_POINTS = 4
"""Hits and misses that are kept, each."""

T = TypeVar("T")


MOST_VERDICTS = 20
"""Verdicts in one answer, of which one has to be the judge's own."""


class Unreadable(Exception):
    """A judge's answer has a verdict that does not count."""

    trouble = "the judge's answer cannot be read"
    complaint = ASK_AGAIN
    """What the judge is told of it."""


class Ambiguous(Unreadable):
    """There is a verdict in a judge's answer, and beside it another one or something that may be one."""

    trouble = "the judge's answer has more than one verdict"
    complaint = ASK_FOR_ONE


class Echoed(Unreadable):
    """Every verdict in a judge's answer stands in the words of the candidate."""

    trouble = "the judge's answer only repeats a verdict that stands in the reply"
    complaint = ASK_FOR_OWN


class Judgement(Struct, frozen=True):
    """What one vote says."""

    score: float
    hits: tuple[str, ...] = ()
    misses: tuple[str, ...] = ()
    reasoning: str | None = None
    cut: str | None = None
    """What to say of a score beyond the scale: a judge that counts to ten would pass everything unseen."""


class Answer(Struct):
    """What came of asking a judge once, or once more: something that could be read, or why there is nothing."""

    value: Any = None
    trouble: str | None = None
    unreadable: bool = False
    complaint: str = ASK_AGAIN
    """What the judge is told of an answer that cannot be read."""
    replies: list[Reply] = []


async def judge_llm_judge(check: LlmJudge, context: Context) -> Verdict:
    label = f"llm_judge {check.criteria.strip()}" if check.criteria else "llm_judge"
    question = context.port.question()
    shown = format_judge_prompt(check, context.case, question, context.reply.text)
    words = candidate_words(question, context.reply.text)
    answers = await ask_votes(check, context, shown, lambda text: read_judgement(text, words))
    spent = spending(check, context, shown, answers)
    if trouble := first_trouble(check, answers):
        return error_verdict(check, label, trouble, **spent)
    judgement, votes = combine(check, [answer.value or Judgement(0.0) for answer in answers])
    reason = judgement.reasoning or unread(answers) or f"scored {judgement.score:g}"
    if judgement.cut is not None:
        reason = f"{judgement.cut}: {reason}"
    return scored_verdict(
        check,
        label,
        reaches(judgement.score, _mark(check)),
        reason,
        score=judgement.score,
        hits=judgement.hits,
        misses=judgement.misses,
        reasoning=judgement.reasoning,
        votes=votes,
        **spent,
    )


# What all judges share.


def ask_votes(
    check: Judged, context: Context, shown: JudgePrompt, read: Callable[[str], T | None]
) -> Awaitable[list[Answer]]:
    """Ask a judge as often as it has votes, at the same time. The calls are numbered here, in document order."""
    messages = (ChatMessage("system", shown.system), ChatMessage("user", shown.user))
    first = [context.port.ask_judge(messages, check.target) for _ in range(check.votes)]
    return _ask_all(check, context, messages, first, read)


async def _ask_all(
    check: Judged,
    context: Context,
    messages: tuple[ChatMessage, ...],
    first: Iterable[Awaitable[Reply | Failure]],
    read: Callable[[str], T | None],
) -> list[Answer]:
    """The answers of a judge. Those that cannot be read are asked for again in the order of the votes, whichever came
    first: judges like to say the same, and who is asked the same is known by his place in the order."""
    answers = await gather_all([_hear(one, [], read) for one in first])
    unread = [answer for answer in answers if answer.unreadable]
    asked = [context.port.ask_judge((*messages, *_second_chance(one)), check.target) for one in unread]
    again = iter(await gather_all([_hear(one, old.replies, read) for one, old in zip(asked, unread, strict=True)]))
    return [next(again) if answer.unreadable else answer for answer in answers]


def _second_chance(answer: Answer) -> tuple[ChatMessage, ChatMessage]:
    return ChatMessage("assistant", answer.replies[-1].text), ChatMessage("user", answer.complaint)


async def _hear(asked: Awaitable[Reply | Failure], before: list[Reply], read: Callable[[str], T | None]) -> Answer:
    reply = await asked
    if isinstance(reply, Failure):
        when = "the judge could not be asked again" if before else "the judge could not be asked"
        return Answer(trouble=f"{when}: {reply.message}", replies=before)
    replies = [*before, reply]
    why = Unreadable()
    try:
        value = read(reply.text)
        if value is not None:
            return Answer(value=value, replies=replies)
    except Unreadable as error:
        why = error
    trouble = f"{why.trouble}: {_shorten(reply.text)}"
    return Answer(trouble=trouble, unreadable=True, complaint=why.complaint, replies=replies)


def first_trouble(check: Judged, answers: Sequence[Answer]) -> str | None:
    """Why there is no verdict. An answer that nobody can read is none where `on_invalid: zero` says so."""
    forgiven = check.on_invalid == "zero"
    return next((one.trouble for one in answers if one.trouble and not (one.unreadable and forgiven)), None)


def unread(answers: Sequence[Answer]) -> str | None:
    """What to say of answers that count as zero."""
    found = next((one.trouble for one in answers if one.unreadable), None)
    return f"{found}; counted as 0" if found else None


def spending(check: Judged, context: Context, shown: JudgePrompt, answers: Sequence[Answer]) -> dict[str, Any]:
    """What stands in the verdict of every judge: who it was, what it was told, what it used."""
    replies = [reply for answer in answers for reply in answer.replies]
    costs = [reply.cost for reply in replies]
    return {
        "usage": sum((reply.usage for reply in replies), NO_USAGE) if replies else Usage(),
        "cost": None if None in costs or not costs else math.fsum(cost for cost in costs if cost is not None),
        "judged": bool(replies),
        "judge": context.port.judge_name(check.target),
        "judged_by": judge_digest(check),
        "threshold": _mark(check),
        "diagnostics": shown.diagnostics,
    }


def combine(check: Judged, votes: Sequence[Judgement]) -> tuple[Judgement, tuple[float, ...]]:
    """One judgement of several, and the scores of all of them where there were several."""
    if len(votes) == 1:
        return votes[0], ()
    scores = tuple(vote.score for vote in votes)
    if check.combine == "majority":
        score = sum(reaches(one, pass_mark(check)) for one in scores) / len(scores)
        agreeing = [vote for vote in votes if reaches(vote.score, pass_mark(check)) == reaches(score, _mark(check))]
    else:
        score = math.fsum(scores) / len(scores)
        agreeing = votes
    # The words of the vote that lies nearest to the outcome, so that reason and score do not contradict each other.
    nearest = min(agreeing, key=lambda vote: abs(vote.score - score))
    return Judgement(score, nearest.hits, nearest.misses, nearest.reasoning, nearest.cut), scores


def _mark(check: Judged) -> float:
    """The least score that passes; a majority is more than half of the votes, whatever each of them needs."""
    if check.votes > 1 and check.combine == "majority":
        return (check.votes // 2 + 1) / check.votes
    return pass_mark(check)


def candidate_words(question: Prompt, *replies: str) -> tuple[str, ...]:
    """What a judge may quote and has not said itself: replies, and those of earlier turns."""
    earlier = (turn.content for turn in question.turns if turn.role == "assistant") if question.later else ()
    return (*replies, *earlier)


def read_judgement(text: str, words: Sequence[str] = ()) -> Judgement | None:
    """The judge's score with its reasons; None where there is none. Raises Unreadable."""
    return read_verdict(text, ("score",), _judgement, lambda one: one.score, words)


def _judgement(data: dict[str, Any]) -> Judgement | None:
    score = read_score(data.get("score"))
    if score is None:
        return None
    kept = min(1.0, max(0.0, score))
    reasoning = read_words(data.get("reasoning"))
    cut = None if kept == score else f"the judge gave {score:g}, which counts as {kept:g}"
    return Judgement(kept, read_points(data.get("hits")), read_points(data.get("misses")), reasoning, cut)


def read_score(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        score = float(value)  # a whole number may be too long for it
    except OverflowError:
        return None
    return score if math.isfinite(score) else None


def read_words(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None


def read_verdict(
    text: str,
    keys: tuple[str, ...],
    read: Callable[[dict[str, Any]], T | None],
    essence: Callable[[T], Any],
    words: Sequence[str] = (),
) -> T | None:
    """The verdict in a judge's answer, which is an object with one of the keys; None where there is none.

    Raises Ambiguous where there are two that differ in what matters, and where something else has the key but cannot be
    read: the candidate may have written the one that can be. Raises Echoed where all stand in the candidate's words."""
    found = list(scan_json(text, OBJECT, _DECODER))
    given = [one for one in found if one.readable and any(key in one.data for key in keys)]
    verdicts = [verdict for one in given if (verdict := read(one.data)) is not None]
    if not verdicts:
        return None
    agree = len(verdicts) == len(given) and all(essence(one) == essence(verdicts[0]) for one in verdicts)
    if not agree or not found[-1].readable or _is_mentioned(keys, text, found):
        raise Ambiguous
    quotable = [one for one in words if "{" in one]
    if quotable and all(_is_quoted(one, text, quotable) for one in given[-MOST_VERDICTS:]):
        raise Echoed
    return verdicts[-1]


def _is_quoted(verdict: Found, answer: str, words: Sequence[str]) -> bool:
    """Do others' words have the verdict, whatever the quoting? Among other words a part of it is a quotation, too."""
    written = _without_quoting(answer[verdict.start : verdict.end])
    alone = _without_quoting(re.sub(r"```\w*", "", answer)) == written
    return any(written in _without_quoting(one) or _has_object(one, verdict.data, whole=alone) for one in words)


def _without_quoting(text: str) -> str:
    return re.sub(r"[\s\\\"'`]+", "", text)


def _has_object(words: str, data: dict[str, Any], *, whole: bool) -> bool:
    """Is there an object that says the same, or at least that?"""
    objects = (inner for found in scan_json(words, OBJECT) if found.readable for inner in _objects_in(found.data))
    try:
        return any(_says(one, data) and (not whole or len(one) == len(data)) for one in objects)
    except RecursionError:  # no judge of its own accord writes a verdict as deep as that
        return True


def _says(one: dict[str, Any], data: dict[str, Any]) -> bool:
    return all(key in one and equal_as_json(one[key], value) for key, value in data.items())


def _objects_in(data: Any) -> Iterator[dict[str, Any]]:
    """An object and all that are in it."""
    waiting = [data]
    while waiting:
        one = waiting.pop()
        if isinstance(one, dict):
            yield one
            waiting += one.values()
        elif isinstance(one, list):
            waiting += one


def _is_mentioned(keys: tuple[str, ...], text: str, found: Sequence[Found]) -> bool:
    """Does one of the keys stand outside of what can be read, as keys stand in JSON?"""
    starts, ends = (one.start for one in found), (one.end for one in found)
    outside = "\n".join(text[end:start] for end, start in zip((0, *ends), (*starts, len(text)), strict=True))
    return re.search(rf"""["'](?:{"|".join(keys)})["']\s*+:""", outside) is not None


def _one_of_each(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object without a key that is given twice: words that a judge quotes carelessly may have put it there."""
    data = dict(pairs)
    if len(data) < len(pairs) and any(data[key] != value for key, value in pairs):
        raise ValueError("a key is given twice")
    return data


_DECODER = make_decoder(object_pairs_hook=_one_of_each)


def read_points(value: Any) -> tuple[str, ...]:
    if not isinstance(value, list):
        return ()
    return tuple(point for point in value if isinstance(point, str) and point.strip())[:MOST_POINTS]


def _shorten(text: str) -> str:
    return repr(text if len(text) <= 80 else f"{text[:80]}...")
