"""Lines of a terminal: texts with roles, how wide they are, how they are wrapped, and the colours of the roles.

A role says what a text is, never how it looks; one table says that. Texts of others are made printable when a line is
made of them, so what is painted moves no cursor.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import dropwhile, groupby
from shlex import quote, split
from typing import Literal, NamedTuple, TypeAlias

from msgspec import Struct

from rejoinder.report.problems import columns_of, printable, printable_line

WIDEST = 100
"""Columns that texts take, and where facts stand at the right edge, however wide the screen is."""

MARKS = 8
"""Characters for each column: accents have no width, and a text may consist of them."""
NARROW = 72
"""Columns of a screen below which gaps and words are short."""

PARAGRAPH = 500
"""Columns of a text that no screen bounds."""

Role: TypeAlias = Literal[
    "fail", "reason", "evidence", "error", "pass", "recovered", "warn", "warned", "name", "text", "quiet"
]
COLOURS: dict[Role, str] = {
    "fail": "1;91",
    "reason": "91",
    "evidence": "4;91",
    "error": "1;7;91",
    "pass": "32",
    "recovered": "36",
    "warn": "33",
    "warned": "1;33",
    "name": "1",
    "text": "",
    "quiet": "2",
}
"""Of the terminal's own sixteen, so that no background is guessed. Bright red, because red cannot be read on many dark
ones; dim and never bright black, which some themes paint in their background's colour."""
UNCOLOURED: dict[Role, str] = {"fail": "1", "evidence": "4", "error": "1;7", "warned": "1", "name": "1", "quiet": "2"}
"""With NO_COLOR: weight, underline and reverse stay."""


Commands: TypeAlias = tuple[tuple[str, str], ...]
"""Commands to type next, each with its effect."""


class Piece(NamedTuple):
    text: str
    role: Role = "text"


Line: TypeAlias = tuple[Piece, ...]
EMPTY: Line = ()


class Form(Struct, frozen=True):
    """Where lines are read. As it stands: by another program, as words, one fact a line."""

    width: int | None = None
    """Columns; without any nothing is wrapped, cut or left out."""
    symbols: bool = False
    """Signs, short ids and short numbers instead of words and whole ones."""
    commands: bool = False
    """Whether it is told what to type next."""

    @property
    def edge(self) -> int | None:
        """Where texts end, and facts stand at the right."""
        return None if self.width is None else min(self.width, WIDEST)

    @property
    def is_narrow(self) -> bool:
        """Whether there is so little room that gaps and words are short."""
        return self.width is not None and self.width < NARROW

    @property
    def room(self) -> int:
        """Columns for a text of others; where no screen bounds them, there is room for a paragraph."""
        return PARAGRAPH if self.edge is None else self.edge

    @property
    def dots(self) -> str:
        """The sign of what is left out."""
        return "…" if self.symbols else "..."

    @property
    def arrow(self) -> str:
        """The sign of a change."""
        return "→" if self.symbols else "->"

    def cut(self, text: str, room: int) -> str:
        """The beginning of a text, with a sign if it is cut. A text in words alone may be a paragraph long."""
        return cut(text, room, "…") if self.symbols else cut(text, max(room, PARAGRAPH), "...")


PLAIN = Form()


def line(*pieces: tuple[str, Role] | str) -> Line:
    """Texts of ours as they are, or with a role. Those of others go through `safe` first."""
    return tuple(Piece(piece) if isinstance(piece, str) else Piece(*piece) for piece in pieces)


def safe(text: str) -> str:
    """A text of others in one line, with nothing that a terminal obeys."""
    return printable(" ".join(text.split()))


_MARKS: dict[str, Role] = {"✗": "fail", "✓": "pass", "?": "warned", "!": "warned", "↻": "recovered"}
_WORDS = {"✗": "FAIL", "✓": "PASS", "?": "CANNOT TELL", "!": "WARN", "↻": "RECOVERED"}


def mark(sign: str, form: Form) -> Line:
    """The mark of a line and the space after it; a word if there are no signs."""
    return (Piece(sign if form.symbols else _WORDS[sign], _MARKS[sign]), Piece(" "))


_LIKE_A_MARK = re.compile(rf"(?:{'|'.join(_WORDS.values())}|ERROR|SKIP)(?!\w)|[{''.join(_MARKS)}] ")
_OF_NAMES: tuple[Role, ...] = ("name", "text", "quiet", "reason", "evidence")
"""Roles that no mark has."""


def unmistakable(row: Line) -> Line:
    """Where a row begins like a verdict and is none, because a name of others stands there, the name is in quotes."""
    row = tuple(dropwhile(lambda piece: not piece.text, row))
    if not row or row[0].role not in _OF_NAMES or not _LIKE_A_MARK.match(plain_text(row)):
        return row
    first, *rest = row
    text = first.text.rstrip(" ")
    return (Piece(f'"{text}"{first.text[len(text) :]}', first.role), *rest)


def folded(row: Line, width: int) -> Iterator[Line]:
    """A row that is too wide, in several: what follows is indented by two more."""
    if width_of_line(row) <= width or not row:
        yield row
        return
    first, *rest = row
    text = first.text.lstrip(" ")
    indent = len(first.text) - len(text)
    for one in wrap((Piece(text, first.role), *rest), width - indent, 2):
        yield (Piece(" " * indent), *one)


def width_of_line(pieces: Iterable[Piece]) -> int:
    return sum(columns_of(piece.text) for piece in pieces)


def paint(pieces: Line, *, colour: bool) -> str:
    """The line with the codes of its roles."""
    table = COLOURS if colour else UNCOLOURED
    parts: list[str] = []
    for role, run in groupby(pieces, key=_role):
        text, code = "".join(piece.text for piece in run), table.get(role, "")
        parts.append(f"\033[{code}m{text}\033[0m" if code and text else text)
    return "".join(parts)


def _role(piece: Piece) -> Role:
    return piece.role


def printed(lines: Iterable[Line], *, colour: bool, screen: bool) -> list[str]:
    """Lines with roles as text: with colours, with weights, or plain. Only a verdict looks like one."""
    rows = map(unmistakable, lines)
    if not colour and not screen:
        return [printable_line(plain_text(row)) for row in rows]
    inert = (tuple(Piece(printable_line(piece.text), piece.role) for piece in row) for row in rows)
    return [paint(row, colour=colour) for row in inert]


def plain_text(pieces: Line) -> str:
    return "".join(piece.text for piece in pieces).rstrip()


def cut(text: str, room: int, dots: str = "…") -> str:
    """The beginning of a text, with a sign if it is cut."""
    if len(text) <= MARKS * room and columns_of(text) <= room:
        return text
    kept, used = 0, 0
    for character in text[: MARKS * room]:
        used += columns_of(character)
        if used > room - len(dots):
            break
        kept += 1
    return f"{text[:kept].rstrip()}{dots}"


def fitted(row: Line, width: int) -> Line:
    """A row that is no wider than that."""
    kept: list[Piece] = []
    for piece in row:
        room = width - width_of_line(kept)
        if columns_of(piece.text) <= room:
            kept.append(piece)
            continue
        if room > 0:
            kept.append(Piece(cut(piece.text, room), piece.role))
        break
    return tuple(kept)


def beside(left: Line, right: Line, width: int | None) -> Iterator[Line]:
    """A fact at the right edge of a line; below it, indented, where both do not fit."""
    gap = 3 if width is None else width - width_of_line(left) - width_of_line(right)
    if not right and gap >= 0:
        yield left
    elif right and gap >= 2:
        yield (*left, Piece(" " * gap), *right)
    else:
        yield from [left] if width is None or width_of_line(left) <= width else wrap(left, width, 2)
        yield from [(Piece("  "), *right)] if right else []


def paragraph(row: Line, form: Form) -> Iterator[Line]:
    """A row in as many as it takes; what follows is indented by two more."""
    return iter([row]) if form.edge is None else folded(row, form.edge)


def command_rows(commands: Commands, width: int | None) -> Iterator[Line]:
    """Commands to type next, each with what it does, behind it or below it. A long one is broken so that it still works
    when it is pasted; one that cannot be broken is left out."""
    listed = [(_broken_command(printable(command), width), use) for command, use in commands]
    short = [columns_of(rows[0]) for rows, use in listed if len(rows) == 1 and _has_room(rows[0], use, width)]
    longest = max(short, default=0)
    for rows, use in listed:
        if len(rows) == 1 and _has_room(rows[0].ljust(longest), use, width):
            yield line("  ", f"{rows[0].ljust(longest)}   ", (use, "quiet"))
        elif rows:
            yield from (line(row if place else f"  {row}") for place, row in enumerate(rows))
            yield from folded(line((f"      {use}", "quiet")), width or WIDEST)


def _has_room(command: str, use: str, width: int | None) -> bool:
    return width is None or columns_of(command) + 5 + columns_of(use) <= width


def _broken_command(command: str, width: int | None) -> list[str]:
    """A command in as many rows as it takes, which a shell joins again; none where a word of it does not fit."""
    if width is None or columns_of(command) + 2 <= width:
        return [command]
    rows = [""]
    for word in _units(map(quote, split(command))):
        room = width - 2 - (2 if len(rows) == 1 else 0)
        if rows[-1].strip() and columns_of(f"{rows[-1]} {word}") > room:
            rows[-1] += " \\"
            rows.append(f"    {word}")
        else:
            rows[-1] += f" {word}" if rows[-1] else word
    return rows if all(columns_of(row) + (0 if place else 2) <= width for place, row in enumerate(rows)) else []


def _units(words: Iterable[str]) -> Iterator[str]:
    """Words of a command, an option together with its value."""
    option = ""
    for word in words:
        if option and not word.startswith("-"):
            yield f"{option} {word}"
            option = ""
            continue
        if option:
            yield option
        option = word if word.startswith("-") else ""
        if not option:
            yield word
    if option:
        yield option


def wrap(pieces: Iterable[Piece], width: int, indent: int = 0) -> Iterator[Line]:
    """Lines of at most so many columns, broken at spaces; further ones are indented. A longer word is broken."""
    row, used, is_new = list[Piece](), 0, True
    for space, word in _words(pieces):
        if not is_new and used + len(space.text) + width_of_line(word) > width:
            yield tuple(row)
            row, used, is_new = [Piece(" " * indent)], indent, True
        if not is_new:
            row.append(space)
            used += len(space.text)
        for one in word:
            for part in _broken(one, width, used, indent):
                if part is None:
                    yield tuple(row)
                    row, used = [Piece(" " * indent)], indent
                else:
                    row.append(part)
                    used += columns_of(part.text)
        is_new = False
    if not is_new:
        yield tuple(row)


def _words(pieces: Iterable[Piece]) -> Iterator[tuple[Piece, list[Piece]]]:
    """Words, which may have several roles, each with the spaces before it."""
    space, word = Piece(""), list[Piece]()
    for text, role in pieces:
        for place, part in enumerate(text.split(" ")):
            if place:
                if word:
                    yield space, word
                    space, word = Piece("", role), []
                space = Piece(f"{space.text} ", role)
            if part:
                word.append(Piece(part, role))
    if word:
        yield space, word


def _broken(piece: Piece, width: int, used: int, indent: int) -> Iterator[Piece | None]:
    """A word in parts that fit; None is the end of a row. Marks without a width fill a row by their number."""
    begin = 0
    for place, character in enumerate(piece.text):
        columns = columns_of(character)
        if (used + columns > width or place - begin >= MARKS * width) and (place > begin or used > indent):
            if place > begin:
                yield Piece(piece.text[begin:place], piece.role)
            yield None
            begin, used = place, indent
        used += columns
    if begin < len(piece.text):
        yield Piece(piece.text[begin:], piece.role)
