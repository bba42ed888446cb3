"""Reading a judge's answer: finding the JSON object that is the verdict.

Judges quote the text they judge, which may look like a verdict: only whole objects count, several verdicts have to
agree, and one that only repeats the reply does not count.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

from msgspec import Struct

from rejoinder.checks.json_text import OBJECT, Found, equal_as_json, make_decoder, scan_json
from rejoinder.formatting.judge import ASK_AGAIN, ASK_FOR_ONE, ASK_FOR_OWN
from rejoinder.model import Prompt

MOST_POINTS = 4
"""Maximum hits and maximum misses that are kept."""
MOST_VERDICTS = 20
"""Maximum verdicts in one answer."""
T = TypeVar("T")


class Unreadable(Exception):
    """A judge's answer has a verdict that does not count."""

    trouble = "the judge's answer cannot be read"
    complaint = ASK_AGAIN
    """The message to the judge in this case."""


class Ambiguous(Unreadable):
    """A judge's answer contains a verdict and, beside it, another one or something that may be one."""

    trouble = "the judge's answer has more than one verdict"
    complaint = ASK_FOR_ONE


class Echoed(Unreadable):
    """Every verdict in a judge's answer is copied from the words under test."""

    trouble = "the judge's answer only repeats a verdict from the reply"
    complaint = ASK_FOR_OWN


class Judgement(Struct, frozen=True):
    """One vote."""

    score: float
    hits: tuple[str, ...] = ()
    misses: tuple[str, ...] = ()
    reasoning: str | None = None
    cut: str | None = None
    """A note on a score beyond the scale: a judge that counts to ten would otherwise pass everything."""


def candidate_words(question: Prompt, *replies: str) -> tuple[str, ...]:
    """Words that a judge may quote but did not write: replies, including replies of earlier turns, and the context."""
    earlier = (turn.content for turn in question.turns if turn.role == "assistant") if question.later else ()
    return (*replies, *earlier, *question.context)


def read_judgement(text: str, words: Sequence[str] = ()) -> Judgement | None:
    """The judge's score with its reasons; None if missing. Raises Unreadable."""
    return read_verdict(text, ("score",), _judgement, lambda judgement: judgement.score, words)


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
    """The verdict in a judge's answer, which is an object with one of the keys; None if missing.

    Raises Ambiguous if two verdicts differ in what matters, or if something else has the key but cannot be read: the
    model under test may have written the readable one. Raises Echoed if all verdicts appear in that model's words.
    """
    objects = list(scan_json(text, OBJECT, _DECODER))
    candidates = [found for found in objects if found.readable and any(key in found.data for key in keys)]
    verdicts = [verdict for found in candidates if (verdict := read(found.data)) is not None]
    if not verdicts:
        return None
    agree = len(verdicts) == len(candidates) and all(essence(verdict) == essence(verdicts[0]) for verdict in verdicts)
    if not agree or not objects[-1].readable or _is_mentioned(keys, text, objects):
        raise Ambiguous
    quotable = [said for said in words if "{" in said]
    if quotable and all(_is_quoted(found, text, quotable) for found in candidates[-MOST_VERDICTS:]):
        raise Echoed
    return verdicts[-1]


def _is_quoted(verdict: Found, answer: str, words: Sequence[str]) -> bool:
    """Whether the words contain the verdict, however it is quoted. Next to other text, a part of it also counts as a
    quotation."""
    written = _without_quoting(answer[verdict.start : verdict.end])
    alone = _without_quoting(re.sub(r"```\w*", "", answer)) == written
    return any(written in _without_quoting(said) or _has_object(said, verdict.data, whole=alone) for said in words)


def _without_quoting(text: str) -> str:
    return re.sub(r"[\s\\\"'`]+", "", text)


def _has_object(words: str, data: dict[str, Any], *, whole: bool) -> bool:
    """Whether the words contain an object with the same data, or with at least that data."""
    objects = (inner for found in scan_json(words, OBJECT) if found.readable for inner in _objects_in(found.data))
    try:
        return any(_says(each, data) and (not whole or len(each) == len(data)) for each in objects)
    except RecursionError:  # no judge of its own accord writes a verdict as deep as that
        return True


def _says(quoted: dict[str, Any], data: dict[str, Any]) -> bool:
    return all(key in quoted and equal_as_json(quoted[key], value) for key, value in data.items())


def _objects_in(data: Any) -> Iterator[dict[str, Any]]:
    """An object and all objects inside it."""
    waiting = [data]
    while waiting:
        value = waiting.pop()
        if isinstance(value, dict):
            yield value
            waiting += value.values()
        elif isinstance(value, list):
            waiting += value


def _is_mentioned(keys: tuple[str, ...], text: str, objects: Sequence[Found]) -> bool:
    """Whether one of the keys appears outside of the readable objects, in the form of a JSON key."""
    starts, ends = (found.start for found in objects), (found.end for found in objects)
    outside = "\n".join(text[end:start] for end, start in zip((0, *ends), (*starts, len(text)), strict=True))
    return re.search(rf"""["'](?:{"|".join(keys)})["']\s*+:""", outside) is not None


def _one_of_each(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object without duplicate keys: words that a judge quotes carelessly may have added one."""
    data = dict(pairs)
    if len(data) < len(pairs) and any(data[key] != value for key, value in pairs):
        raise ValueError("a key is given twice")
    return data


_DECODER = make_decoder(object_pairs_hook=_one_of_each)


def read_points(value: Any) -> tuple[str, ...]:
    if not isinstance(value, list):
        return ()
    return tuple(point for point in value if isinstance(point, str) and point.strip())[:MOST_POINTS]
