"""The part of a reply that checks see: found once for each reply, and the places of evidence put back into the reply.

A reply without the part fails its checks: it is neither empty nor whole for them, so that no check that forbids
something passes for want of a text.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from typing import TypeAlias

from msgspec import Struct, structs

from rejoinder.checks.base import Context, Lack
from rejoinder.model import Failure, PythonCheck, Span, Verdict
from rejoinder.model.checks import ReplyPart
from rejoinder.words.numbers import beginning

LONGEST_SHOWN = 60
_THINKING = re.compile(r"<(/?)(?:think|thinking|thought|reasoning)>", re.IGNORECASE)
_FENCE_LINE = re.compile(r"^ {0,3}(?:`{3,}|~{3,})[^\n`]*(?:\n|\Z)", re.MULTILINE)

Places: TypeAlias = tuple[tuple[int, int, int], ...]
"""Pieces of a text that are pieces of the reply: where each begins in the text and in the reply, and its length."""


class Taken(Struct, frozen=True):
    """A part of a reply."""

    text: str
    places: Places | None = None
    """None if it is not made of pieces of the reply."""

    def placed(self, verdict: Verdict) -> Verdict:
        """A verdict on the part, with its evidence in the reply."""
        if not verdict.spans and not verdict.children:
            return verdict
        spans = () if self.places is None else tuple(self.place(span, self.places) for span in verdict.spans)
        return structs.replace(verdict, spans=spans, children=tuple(map(self.placed, verdict.children)))

    @staticmethod
    def place(span: Span, places: Places) -> Span:
        starts = [start for start, _, _ in places]

        def of_reply(position: int) -> int:
            start, place, _ = places[bisect_right(starts, position) - 1]
            return place + position - start

        return of_reply(span[0]), of_reply(max(span[0], span[1] - 1)) + (span[1] > span[0])


async def take_part(part: ReplyPart, context: Context) -> Taken | Lack:
    """The part of a reply, or the reason why there is none."""
    taken: Taken | Lack = strip_reply(part, context.reply.text)
    if part.pattern is not None:
        taken = _by_pattern(part.pattern, taken)
    elif part.path is not None:
        taken = _by_path(part.path, taken.text)
    elif part.function is not None:
        stripped = structs.replace(context.reply, text=taken.text)
        taken = await _by_function(part.function, structs.replace(context, reply=stripped))
    if isinstance(taken, Taken) and not taken.text.strip():
        return _missing(part)
    return taken


def _missing(part: ReplyPart) -> Lack:
    how = part.pattern or part.path or (part.function.call if part.function else "")
    told = f" ({beginning(' '.join(how.split()), LONGEST_SHOWN)})" if how else ""
    return Lack("failed", f"the reply has no part that `reply`{told} finds")


def _broken(reason: str) -> Lack:
    return Lack("error", f"the part of the reply that `reply` names could not be found: {reason}")


# Taking away


def strip_reply(part: ReplyPart, reply: str) -> Taken:
    """The reply without what is to be taken away. Something taken away leaves no white space at the ends."""
    taken = Taken(reply, ((0, 0, len(reply)),))
    if "thinking" in part.strip:
        taken = _kept(taken, _outside_thinking(taken.text))
    if "fences" in part.strip:
        taken = _kept(taken, _between([match.span() for match in _FENCE_LINE.finditer(taken.text)], len(taken.text)))
    if part.strip:
        start = len(taken.text) - len(taken.text.lstrip())
        taken = _kept(taken, [(start, len(taken.text.rstrip()))])
    return taken


def _outside_thinking(text: str) -> Iterator[Span]:
    """The pieces outside of tags of thinking. A thought without a beginning began with the reply, and one without an
    end is all of the rest."""
    kept: list[Span] = []
    position, inside, is_first = 0, False, True
    for tag in _THINKING.finditer(text):
        if tag[1]:
            if inside or is_first:
                position, inside = tag.end(), False
        elif not inside:
            kept.append((position, tag.start()))
            inside = True
        is_first = False
    yield from kept
    if not inside:
        yield position, len(text)


def _between(removed: list[Span], length: int) -> Iterator[Span]:
    position = 0
    for start, end in removed:
        yield position, start
        position = end
    yield position, length


def _kept(taken: Taken, slices: Iterable[Span]) -> Taken:
    """These pieces of a text, joined."""
    old = taken.places or ()
    starts = [start for start, _, _ in old]
    texts: list[str] = []
    places: list[tuple[int, int, int]] = []
    length = 0
    for start, end in slices:
        texts.append(taken.text[start:end])
        while start < end:
            begins, place, size = old[bisect_right(starts, start) - 1]
            count = min(end, begins + size) - start
            places.append((length, place + start - begins, count))
            length, start = length + count, start + count  # noqa: PLW2901 - the rest of the slice
    return Taken("".join(texts), tuple(places) or ((0, 0, 0),))


# Looking for


def _by_pattern(pattern: str, taken: Taken) -> Taken | Lack:
    from rejoinder.checks.patterns import PatternTimeout, search

    try:
        match = search(pattern, "", taken.text)
    except PatternTimeout as timeout:
        return _broken(str(timeout))
    if match is None:
        return Taken("")
    group = 1 if match.re.groups and match[1] is not None else 0
    return _kept(taken, [match.span(group)])


def _by_path(path: str, text: str) -> Taken | Lack:
    from rejoinder.checks.json_checks import PathFault, first_value

    try:
        return Taken(first_value(path, text) or "")
    except PathFault as fault:
        return _broken(str(fault))


async def _by_function(function: PythonCheck, context: Context) -> Taken | Lack:
    from rejoinder.checks.user_code import call_for_text

    answer = await call_for_text(function, context)
    return _broken(answer.message) if isinstance(answer, Failure) else Taken(answer)
