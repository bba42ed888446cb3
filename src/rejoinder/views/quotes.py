"""Parts of replies, as lists and reasons quote them: in one line, from a few words before what they are about, and
without the signs of Markdown.
"""

from __future__ import annotations

import re
from bisect import bisect
from collections.abc import Iterable, Iterator, Sequence

from rejoinder.model.results import Span

_SPACE, _WORD = re.compile(r"\s+"), re.compile(r"\S")
_BEFORE = 40
"""Characters before a place that are quoted, at most; fewer where a sentence or a line begins there."""
_BEGINS = re.compile(r"[.!?:]\s+|\n\s*")
_LONGEST_CODE = 20_000
"""Characters of a reply in which blocks of code stay unchanged."""
_ANY = re.compile(r"[*_`~#|>\[-]")
_FENCE = re.compile(r"^[ \t]*(?:`{3}|~{3}).*$", re.MULTILINE)
_OF_LINES = re.compile(r"^[ \t]*(?:(?:#{1,6}|[-*+])[ \t]+|>[ \t]*)+|^[ \t|:]*-[-|: \t]*$", re.MULTILINE)
"""Signs of headings, items and quotes, and lines that are nothing but signs."""
_TABLE = re.compile(r"^[ \t]*\|.*$", re.MULTILINE)
_LINK = re.compile(r"(!?\[)([^\]\n]*)(\]\([^()\s]*\))")
_PAIR = re.compile(r"(\*{2,3}|~~|`+)(?=[^\s*~`])([^\n]*?[^\s*~`])(\1)")
_EMPHASIS = re.compile(r"(?<![\w*])(\*)(?=[^\s*])([^*\n]*?[^\s*])(\*)(?![\w*])")
_UNDERLINE = re.compile(r"(?<!\w)(_{1,2})(?=[^\s_])([^\n]*?[^\s_])(\1)(?!\w)")


def window(reply: str, spans: Iterable[Span], most: int) -> Span:
    """The part of a reply around the first of these places, at most `most` characters: it begins and ends between
    words. Without places it is the beginning."""
    size = len(reply)
    low, high = _first_place(reply, spans) or (0, 0)
    high = min(high, low + most)
    start = max(0, min(low - (most - (high - low)) // 3, size - most))
    end = min(size, start + most)
    if start and (space := _SPACE.search(reply, start, low)) is not None:
        start = space.end()
    if end < size:
        end = next((place for place in range(end, high, -1) if reply[place].isspace()), end)
    return start, end


def quote_of(reply: str, spans: Sequence[Span], most: int) -> tuple[str, Span | None]:
    """The words of a reply around the first of these places in one line, with dots where something is left out, and
    where the place is in it. Without places it is the beginning."""
    first = _first_place(reply, spans)
    low, high = first or (0, 0)
    high = min(high, low + most)
    inside = _SPACE.sub(" ", reply[low:high])
    start, end = max(0, low - 2 * most), min(len(reply), high + 2 * most)
    signs = [one for one in _signs(reply, start, end) if one[1] <= low or one[0] >= high]
    before = _beginning(_without(reply, signs, start, low), (most - len(inside)) // 3, is_whole=not start)
    words = _SPACE.sub(" ", _without(reply, signs, high, end)).rstrip()
    shown = _cut(words if before or inside else words.lstrip(), max(0, most - len(before) - len(inside)))
    is_cut = len(shown) < len(words.strip()) or _WORD.search(reply, end) is not None
    told = f"{before}{inside}{shown}{' …' if is_cut else ''}"
    return told, None if first is None else (len(before), len(before) + len(inside))


def _cut(words: str, most: int) -> str:
    if len(words) <= most:
        return words
    place = words.rfind(" ", 0, most + 1)
    return words[: place if place > 0 else most].rstrip()


def _beginning(before: str, most: int, *, is_whole: bool) -> str:
    """The last words before a place, from the beginning of a sentence or a line if there is one. `is_whole`: whether
    the reply begins there."""
    least, size = max(0, len(before) - min(most, _BEFORE)), len(before.rstrip())
    sentences = [found.end() for found in _BEGINS.finditer(before, least, size)]
    if is_whole and not least and not sentences:
        return _SPACE.sub(" ", before).lstrip()
    words = [found.end() for found in _SPACE.finditer(before, least, size)]
    start = sentences[-1] if sentences else words[0] if words else len(before)
    return f"… {_SPACE.sub(' ', before[start:]).lstrip()}"


def _without(reply: str, signs: Sequence[Span], start: int, end: int) -> str:
    """A part of a reply without these ranges, which follow one another."""
    pieces: list[str] = []
    for low, high in signs:
        if low >= end:
            break
        if low > start:
            pieces.append(reply[start:low])
        start = max(start, high)
    return "".join([*pieces, reply[start:end]]) if start < end else "".join(pieces)


def _signs(reply: str, start: int, end: int) -> Iterator[Span]:
    """Ranges of a part of a reply that are signs of Markdown, in their order. In blocks of code nothing is a sign."""
    if _ANY.search(reply, start, end) is None:
        return
    fences = [one.span() for one in _FENCE.finditer(reply, 0, end)] if end <= _LONGEST_CODE else []
    begins, done = [low for low, _ in fences], start
    found = {*_all_signs(reply, start, end), *(one for one in fences if one[0] >= start)}
    for low, high in sorted(found, key=lambda one: (one[0], -one[1])):
        is_code = bisect(begins, low) % 2 == 1 and low not in begins
        if low >= done and not is_code:
            yield low, high
            done = high


def _all_signs(reply: str, start: int, end: int) -> Iterator[Span]:
    yield from (one.span() for one in _OF_LINES.finditer(reply, start, end))
    for row in _TABLE.finditer(reply, start, end):
        yield from ((place, place + 1) for place in range(*row.span()) if reply[place] == "|")
    for pattern in (_LINK, _PAIR, _EMPHASIS, _UNDERLINE):
        for one in pattern.finditer(reply, start, end):
            yield from (one.span(1), one.span(3))
            if pattern is not _LINK:
                yield from _all_signs_inside(reply, *one.span(2))


def _all_signs_inside(reply: str, start: int, end: int) -> Iterator[Span]:
    """Signs of emphasis inside emphasis, one level deep."""
    for pattern in (_PAIR, _EMPHASIS, _UNDERLINE):
        for one in pattern.finditer(reply, start, end):
            yield from (one.span(1), one.span(3))


def _first_place(reply: str, spans: Iterable[Span]) -> Span | None:
    """The first of these places that is in the reply; a damaged run may have others."""
    return next(((low, high) for low, high in sorted(spans) if 0 <= low < high <= len(reply)), None)
