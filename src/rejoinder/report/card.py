"""The board as a picture of 1200 x 630 pixels, the size that chats and social media show: an SVG without script, and
without anything from elsewhere.

Texts of an SVG do not wrap, and fonts differ between machines. So widths are estimated, generously, and what would not
fit is shortened.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Generator, Iterator, Sequence
from typing import Literal, TypeAlias

from msgspec import Struct

from rejoinder.model.boards import Verdict
from rejoinder.report.page.assets import style
from rejoinder.report.page.marks import bar_parts
from rejoinder.report.page.markup import Child, Markup, element
from rejoinder.views.board import Board, BoardRow, Listening, Piece, outcome_words
from rejoinder.views.cases import Run
from rejoinder.views.rows import RowOutcome
from rejoinder.views.run import view_run
from rejoinder.words.inert import one_line
from rejoinder.words.numbers import count, figure

Theme: TypeAlias = Literal["light", "dark"]
WIDTH, HEIGHT = 1200, 630
MOST_ROWS = 6
_EDGE = 56
_RIGHT = WIDTH - _EDGE
_TOP = 62
_FONTS = "Inter, system-ui, -apple-system, 'Segoe UI', Roboto, 'Noto Sans', 'DejaVu Sans', sans-serif"
_COLOUR = re.compile(r"--([\w-]+):light-dark\((#\w+),(#\w+)\)")
_PAINT: dict[RowOutcome, str] = {
    "first": "first",
    "recovered": "rec",
    "failed": "fail",
    "error": "err",
    "skipped": "line2",
}
_OF_VERDICT: dict[Verdict, str] = {"listens": "first", "stuck": "fail", "cannot-tell": "warn"}
"""Other verdicts are grey."""


class _Place(Struct, frozen=True):
    """The columns of a row, in pixels."""

    name: int
    """Width of a name, from the left edge."""
    bar: int
    verdict: int
    """The left edges of bar and verdict."""


class _Bar(Struct, frozen=True):
    x: int
    y: int
    width: int
    height: int


_PLACE = _Place(name=196, bar=268, verdict=606)
_BAR_WIDTH = 310
_RATE_WIDTH = 150
_SMALL = ((15, 14, 13), (12, 11))
"""Sizes of the second line of a row: figures have fewer words, then are made smaller, rather than cut."""


def write_card(run: Run, theme: Theme = "light") -> str:
    """The SVG of a run. The same run gives the same bytes."""
    card = _Card(theme)
    view = view_run(run)
    board = view.board
    lines, size = _headline(board)
    parts: list[Markup] = [element("rect", {"width": WIDTH, "height": HEIGHT, "fill": card.colour("bg")})]
    cases = f"{view.facts['cases'].said}{view.on_words or _on_it(board)}"
    if any(row.counted == "trials" for row in board.rows):
        cases += f", {count(sum(row.outcomes.total for row in board.rows), 'trial')}"
    title = fitting(view.title, 20, _RIGHT - _EDGE - width_of(cases, 20) - 40, bold=True)
    parts.append(card.text(_EDGE, _TOP, 20, title, paint="ink", bold=True))
    parts.append(card.text(_RIGHT, _TOP, 20, cases, paint="ink2", end=True))
    y = _TOP + 22.0
    for line in lines:
        y += size * 1.24
        parts.append(card.headline(_EDGE, round(y), size, line))
    parts += card.rows(board, round(y) + 28)
    parts.append(card.text(_EDGE, HEIGHT - 36, 18, "rejoinder", paint="ink", bold=True))
    parts.append(card.text(_RIGHT, HEIGHT - 36, 18, view.receipt.day, paint="ink3", end=True))
    root = {"xmlns": "http://www.w3.org/2000/svg", "viewBox": f"0 0 {WIDTH} {HEIGHT}", "width": WIDTH, "height": HEIGHT}
    described = {"role": "img", "aria-label": f"{view.title}: {board.headline.text}", "font-family": _FONTS}
    return f"{element('svg', {**root, **described}, parts)}\n"


def _on_it(board: Board) -> str:
    return f" on {_shortened(one_line(board.rows[0].name))}"


class _Card:
    def __init__(self, theme: Theme) -> None:
        self._colours = {name: light if theme == "light" else dark for name, light, dark in _COLOUR.findall(_tokens())}

    def colour(self, name: str) -> str:
        return self._colours[name]

    def text(
        self, x: float, y: float, size: int, words: Child, *, paint: str, bold: bool = False, end: bool = False
    ) -> Markup:
        look = {"fill": self.colour(paint), "font-weight": 600 if bold else None, "text-anchor": "end" if end else None}
        return element("text", {"x": x, "y": y, "font-size": size, **look}, words)

    def small(self, x: int, y: int, texts: Sequence[str], room: float) -> Markup:
        """The first of these texts that fits in some size."""
        sizes = [(text, size) for each in _SMALL for text in texts for size in each]
        last, least = sizes[-1]
        fits = ((text, size) for text, size in sizes if width_of(text, size) <= room)
        text, size = next(fits, (fitting(last, least, room), least))
        return self.text(x, y, size, text, paint="ink2")

    def headline(self, x: int, y: int, size: int, line: Sequence[Piece]) -> Markup:
        return self.text(x, y, size, [one.text for one in line], paint="ink", bold=True)

    def rows(self, board: Board, top: int) -> Iterator[Markup]:
        shown, left = board.rows[:MOST_ROWS], len(board.rows) - MOST_ROWS
        if len(shown) == 1:
            yield from self._only_row(shown[0], top)
            return
        bottom = HEIGHT - 76 - (30 if left > 0 else 0)
        height = min(140.0, (bottom - top) / max(1, len(shown)))
        for number, row in enumerate(shown):
            yield from self._row(row, round(top + number * height), round(height))
        if left > 0:
            yield self.text(_EDGE, round(top + len(shown) * height) + 18, 16, f"and {figure(left)} more", paint="ink3")

    def _row(self, row: BoardRow, y: int, height: int) -> Iterator[Markup]:
        """A line above, then the name, the bar with its counts below, the verdict with its figures, the rate."""
        room = {"x1": _EDGE, "x2": _RIGHT, "y1": y, "y2": y, "stroke": self.colour("line")}
        yield element("line", room)
        first = y + round((height - 44) / 2) + 18
        second = first + 24
        if width_of(one_line(row.name), 20, bold=True) <= _PLACE.name:
            yield self.text(_EDGE, first, 20, one_line(row.name), paint="ink", bold=True)
        else:
            for place, part in enumerate(_halves(row.name, 16, _PLACE.name)):
                yield self.text(_EDGE, first - 2 + 22 * place, 16, part, paint="ink", bold=True)
        yield from self._bar(row, _Bar(_PLACE.bar, first - 15, _BAR_WIDTH, 18))
        yield self.small(_PLACE.bar, second, _counts(row), _BAR_WIDTH + 16)
        yield from self._verdict(row, first, second)
        yield from self._rate(row, first, second)

    def _only_row(self, row: BoardRow, top: int) -> Iterator[Markup]:
        """A bar as wide as the card. The headline has the name, and the sentence if there is a verdict."""
        yield from self._bar(row, _Bar(_EDGE, top + 12, _RIGHT - _EDGE, 44))
        yield self.text(_EDGE, top + 90, 22, fitting(_counts(row)[0], 22, _RIGHT - _EDGE), paint="ink2")
        y = top + 178
        found, room = row.listening, _RIGHT - _EDGE - 320
        if found is not None:
            wide = yield from self._chip(found, _EDGE, y, 26)
            if found.net_words:
                yield self.text(_EDGE + wide + 18, y, 26, f"net recovery {found.net_words}", paint="ink")
            yield self.text(_EDGE, y + 38, 20, fitting(found.sentence, 20, room), paint="ink2")
        elif row.share.why:
            yield self.text(_EDGE, y, 22, fitting(row.share.why, 22, room), paint="ink2")
        if row.share.text:
            yield self.text(_RIGHT, y, 64, row.share.text, paint="ink", bold=True, end=True)
            yield self.text(_RIGHT, y + 38, 20, _rate_words(row), paint="ink2", end=True)
        elif found is not None:
            yield self.text(_RIGHT, y, 26, row.share.why, paint="ink2", end=True)

    def _bar(self, row: BoardRow, bar: _Bar) -> Iterator[Markup]:
        for outcome, start, width in bar_parts(row.outcomes):
            place = {"x": f"{bar.x + start * bar.width / 1000:.1f}", "width": f"{width * bar.width / 1000:.1f}"}
            look = {"rx": 2, "fill": self.colour(_PAINT[outcome])}
            yield element("rect", {**place, "y": bar.y, "height": bar.height, **look})

    def _verdict(self, row: BoardRow, first: int, second: int) -> Iterator[Markup]:
        found, x, room = row.listening, _PLACE.verdict, _RIGHT - _RATE_WIDTH - _PLACE.verdict
        if found is None:
            if row.share.why:
                yield self.small(x, second, [row.share.why], room)
            return
        wide = yield from self._chip(found, x, first, 17)
        if found.net_words:
            yield self.text(x + wide + 12, first, 17, f"net recovery {found.net_words}", paint="ink2")
        yield self.small(x, second, [found.sentence], room)

    def _chip(self, found: Listening, x: int, y: int, size: int) -> Generator[Markup, None, int]:
        """The verdict on the line of a text, in a frame; its width."""
        paint = self.colour(_OF_VERDICT.get(found.verdict, "ink2"))
        wide, high = round(width_of(found.word, size, bold=True) + 1.2 * size), round(1.5 * size)
        look = {"rx": high // 2, "fill": "none", "stroke": paint, "stroke-width": 1.5}
        yield element("rect", {"x": x, "y": round(y - 1.1 * size), "width": wide, "height": high, **look})
        middle = {"x": x + wide / 2, "y": y, "font-size": size, "text-anchor": "middle", "font-weight": 600}
        yield element("text", {**middle, "fill": paint}, found.word)
        return wide

    def _rate(self, row: BoardRow, first: int, second: int) -> Iterator[Markup]:
        if row.share.text:
            yield self.text(_RIGHT, first, 26, row.share.text, paint="ink", bold=True, end=True)
            yield self.text(_RIGHT, second, 15, _rate_words(row), paint="ink2", end=True)
        else:
            yield self.text(_RIGHT, first, 20, "no rate", paint="ink2", end=True)


def _counts(row: BoardRow) -> list[str]:
    """`13 first try · 7 recovered · 1 failed`, and the same in fewer words."""
    told = outcome_words(row.outcomes)
    short = [one.replace(" first try", " first") for one in told]
    return [" · ".join(parts) for parts in (told, short)]


def _rate_words(row: BoardRow) -> str:
    """`pass rate 77 to 99`, `of trials (27 to 69)`: the figure stands above."""
    if row.counted == "trials":
        return f"of trials ({row.share.bounds})" if row.share.bounds else "of trials"
    return f"pass rate {row.share.bounds}".rstrip()


def _tokens() -> str:
    return style(("tokens.css",))


# The headline, in lines


_SIZES = (46, 40, 34, 28)
"""Of the headline, the first with which it takes at most `_MOST_LINES`."""
_MOST_LINES = 2
_LONGEST_NAME = 28
"""Characters of a name in the headline."""


def _headline(board: Board) -> tuple[list[list[Piece]], int]:
    words = list(_words(board))
    for size in _SIZES:
        lines = _lines(words, size)
        if len(lines) <= _MOST_LINES:
            return lines, size
    return _lines(words, _SIZES[-1])[: _MOST_LINES + 1], _SIZES[-1]


def _words(board: Board) -> Iterator[Piece]:
    """The words of the headline, each with the space before it. A name is one word."""
    for piece in board.headline.pieces:
        if piece.is_name:
            yield Piece(_shortened(one_line(piece.text)), is_name=True)
        else:
            yield from (Piece(word, is_name=False) for word in re.findall(r"\s*\S+|\s+$", piece.text))


def _shortened(name: str) -> str:
    """By its beginning and its end, by which similar names differ."""
    return name if len(name) <= _LONGEST_NAME else f"{name[: _LONGEST_NAME - 9]}…{name[-8:]}"


def _lines(words: Sequence[Piece], size: int) -> list[list[Piece]]:
    """Broken at spaces: what follows without one, as a full stop does, stays with its word."""
    groups: list[list[Piece]] = []
    for piece in words:
        if groups and not piece.text[:1].isspace() and not groups[-1][-1].text[-1:].isspace():
            groups[-1].append(piece)
        else:
            groups.append([piece])
    lines: list[list[Piece]] = [[]]
    room = float(_RIGHT - _EDGE)
    for group in groups:
        wide = sum(width_of(piece.text, size, bold=True) for piece in group)
        if lines[-1] and wide > room:
            lines.append([Piece(group[0].text.lstrip(), group[0].is_name), *group[1:]])
            room = float(_RIGHT - _EDGE)
        else:
            lines[-1] += group
        room -= wide
    return lines


# Widths


_NARROW = frozenset("iljtfrI.,:;'|!()[] ")
_WIDE = frozenset("mwMW@%—…")


def width_of(text: str, size: int, *, bold: bool = False) -> float:
    """About how wide a text is, in pixels: rather more than less, because fonts differ."""
    units = sum(map(_width, text))
    return units * size * (1.06 if bold else 1.0)


def _width(character: str) -> float:
    if character in _NARROW:
        return 0.36
    if character in _WIDE:
        return 0.95
    if character.isascii():
        return 0.7 if character.isupper() else 0.6
    if unicodedata.category(character) in ("Mn", "Me"):
        return 0.0
    return 1.05 if unicodedata.east_asian_width(character) in "WF" else 0.75


def fitting(text: str, size: int, room: float, *, bold: bool = False) -> str:
    """A text in one line, shortened to this width."""
    text = one_line(text)
    if width_of(text, size, bold=bold) <= room:
        return text
    end = _fits(text, size, room - width_of("…", size, bold=bold), bold=bold)
    return f"{text[:end].rstrip()}…"


def _fits(text: str, size: int, room: float, *, bold: bool) -> int:
    """The number of characters that fit, from the beginning."""
    for end, character in enumerate(text):
        room -= width_of(character, size, bold=bold)
        if room < 0:
            return end
    return len(text)


def _halves(name: str, size: int, room: float) -> tuple[str, str]:
    """A bold name in two lines, broken behind a slash or a space if there is one. A longer one is shortened in its
    middle."""
    name = one_line(name)
    end = max(1, _fits(name, size, room, bold=True))
    broken = max(name.rfind("/", 0, end), name.rfind(" ", 0, end)) + 1
    first = name[: broken or end]
    rest = name[len(first) :].lstrip()
    if width_of(rest, size, bold=True) <= room:
        return first.rstrip(), rest
    dots = width_of("…", size, bold=True)
    start = len(rest) - _fits(rest[::-1], size, room - dots, bold=True)
    return first.rstrip(), f"…{rest[start:]}"
