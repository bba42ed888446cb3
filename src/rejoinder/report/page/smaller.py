"""Scripts and styles made smaller in a way that cannot change what they do.

Of a script, comments go, spaces, line breaks where no statement can end, and the `;` before a `}`; nothing within a
text or a pattern is touched. A line that ends inside of a text, or that cannot be read by itself, is refused. Names get
shorter if they are declared at the left edge of a file and cannot be taken for anything else: see `short_names`.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import product
from string import ascii_letters
from typing import NamedTuple


class AssetError(ValueError):
    """A file of ours cannot be made smaller safely."""


class Piece(NamedTuple):
    kind: str
    """`name`, `number`, `sign`, or `text`: a text, a pattern, or a part of a template up to its next `${`."""
    text: str
    is_spaced: bool
    """Was there a space before it?"""


class Line(NamedTuple):
    pieces: list[Piece]
    is_outer: bool
    """Does it begin at the left edge?"""


def smaller_script(source: str, name: str = "") -> str:
    """A script without comments and needless spaces. Raises AssetError for a line that cannot be read by itself."""
    return written(read(source, name))


def smaller_style(source: str, name: str = "") -> str:
    """A style without comments that fill whole lines, and without line breaks behind signs: a text of it never reaches
    over a line."""
    lines = (line.strip() for line in _without_comments(source, name))
    return "".join(line if line[-1] in "{};," else f"{line}\n" for line in lines)


def _without_comments(source: str, name: str) -> Iterator[str]:
    is_comment = False
    for written_line in source.split("\n"):
        line = written_line.strip()
        if is_comment or line.startswith("/*"):
            end = line.find("*/", 0 if is_comment else 2)
            if end >= 0 and end + 2 < len(line):
                raise AssetError(f"{name}: something stands behind a comment: {line}")
            is_comment = end < 0
        elif line:
            yield written_line


_PIECE = re.compile(
    r"""(?P<space>\s+ | //.* | /\*.*?\*/)
    | (?P<text>'(?:[^'\\]|\\.)*' | "(?:[^"\\]|\\.)*")
    | (?P<name>(?:[^\W\d]|\$)[\w$]*)
    | (?P<number>\d[\w.]*)
    | (?P<sign>=> | ===? | !==? | \?\.(?!\d) | \.\.\. | /(?!\*) | [^'"`/\\])""",
    re.VERBOSE,
)
_PATTERN = re.compile(r"/(?![*/])(?:[^\\/\[]|\\.|\[(?:[^\]\\]|\\.)*\])+/")
_TEMPLATE = re.compile(r"[`}](?:[^`\\$]|\\.|\$(?!\{))*(?:`|\$\{)")
"""A part of a template: from its beginning or the end of a value in it, to its end or the next value."""
_NO_VALUE = "=(,:[!&|?{;>+"
"""Signs that a `/` begins a pattern behind. Behind anything else it divides."""


def read(source: str, name: str = "") -> list[Line]:
    """The pieces of each line that has some."""
    lines = (Line(list(_pieces(line.strip(), name)), line[0] > " ") for line in _without_comments(source, name))
    return [line for line in lines if line.pieces]


def _pieces(line: str, name: str) -> Iterator[Piece]:
    """Each line begins as code, because none ends within a text."""
    place, is_spaced, last = 0, False, Piece("sign", ";", is_spaced=False)
    values: list[int] = []
    """For each value of a template that has begun: braces that are open in it."""
    while place < len(line):
        first, kind = line[place], "text"
        if first == " ":
            place, is_spaced = place + 1, True
            continue
        is_end = first == "}" and bool(values) and not values[-1]
        if first == "`" or is_end:
            found = _TEMPLATE.match(line, place)
            if is_end:
                values.pop()
            if found is not None and found[0].endswith("${"):
                values.append(0)
        else:
            is_value = last.text[-1] not in _NO_VALUE and last.text != "return"
            found = _PATTERN.match(line, place) if first == "/" and not is_value else None
            if found is None and (found := _PIECE.match(line, place)):
                kind = found.lastgroup or ""
            if values:
                values[-1] += (first == "{") - (first == "}")
        if found is None:
            raise AssetError(f"{name}: a text or comment does not end on its line: {line}")
        place = found.end()
        if kind != "space":
            last = Piece(kind, found[0], is_spaced)
            yield last
        is_spaced = kind == "space"
    if values:
        raise AssetError(f"{name}: a template does not end on its line: {line}")


def _is_word(sign: str) -> bool:
    return sign.isalnum() or sign in "_$"


def _needs_space(one: Piece, other: Piece) -> bool:
    """Would two pieces be read as another one without a space? As `+ +`, `/ /` and `< !--` would."""
    last, first = one.text[-1], other.text[0]
    if _is_word(last):
        return _is_word(first) or (one.kind == "number" and first == ".")
    return last in "+-/<" and first in "+-/*<>!"


def written(lines: Iterable[Line], names: Mapping[str, str] | None = None) -> str:
    """The script again. `names`: those that are to be written instead of others."""
    names, made, end = names or {}, list[str](), ";"
    for line in lines:
        start = line.pieces[0].text[0]
        if not (end in "{;,([" or start in ")]}?:&|" or (end == "}" and start != "/")):
            made.append("\n")
        for last, piece in zip((None, *line.pieces), line.pieces, strict=False):
            if last and piece.is_spaced and _needs_space(last, piece):
                made.append(" ")
            if piece.text == "}" and made and made[-1] == ";":
                made.pop()
            made.append(names.get(piece.text, piece.text) if piece.kind == "name" else piece.text)
        end = line.pieces[-1].text[-1]
    return "".join(made) + ("\n" if made else "")


def short_names(lines: Sequence[Line]) -> dict[str, str]:
    """Shorter names for what is declared at the left edge of a line, the most used first.

    A name is left alone that is, or that might be, something else anywhere: a property, a key, a parameter, a variable
    within a function. No short name is one that the scripts have, so that none hides another.
    """
    pieces = [piece for line in lines for piece in line.pieces]
    uses = Counter(piece.text for piece in pieces if piece.kind == "name")
    declared = set(_declared(lines))
    free = (name for size in (1, 2) for name in map("".join, product(ascii_letters, repeat=size)))
    unused = (name for name in free if name not in uses and name not in _RESERVED)
    wanted = declared - _ambiguous(pieces, declared)
    return dict(zip(sorted(wanted, key=lambda name: (-uses[name] * len(name), name)), unused, strict=False))


_RESERVED = {"as", "do", "if", "in", "is", "of"}
_DECLARES = {"const", "let", "var", "class", "function"}
_OPENS, _CLOSES = ("(", "[", "{", "${"), (")", "]", "}")
_CONDITIONS = {"if", "for", "while", "switch"}


def _declared(lines: Iterable[Line]) -> Iterator[str]:
    for line in lines:
        words = [piece.text for piece in line.pieces[:3] if piece.text != "async"]
        if line.is_outer and words[0] in _DECLARES and len(words) > 1 and len(words[1]) > 2:
            yield words[1]


def _ambiguous(pieces: Sequence[Piece], declared: set[str]) -> set[str]:
    """Names that are something else than what was declared, or that might be."""
    texts = [";", *(piece.text for piece in pieces), ";", ";"]
    ends = _ends(texts)
    found, once = set[str](), set[str]()
    around = [("", False)]
    """The brackets around a piece, and whether names in them might be new ones."""
    for i, text in enumerate(texts):
        before, after = texts[i - 1], texts[(i + 1) % len(texts)]
        if text.startswith(_CLOSES) and len(around) > 1:
            around.pop()
        if text.endswith(_OPENS):
            around.append((text[-1], around[-1][1] or _is_pattern(before, text, texts[ends.get(i, i) + 1])))
        elif text in declared and (before == "." or before in _DECLARES):
            if before == "." or text in once:
                found.add(text)
            once.add(text)
        elif text in declared and _might_be_new(before, after, texts[ends.get(i + 1, i) + 1], around[-1]):
            found.add(text)
    return found


def _ends(texts: Sequence[str]) -> dict[int, int]:
    """Where brackets end, by where they begin."""
    ends: dict[int, int] = {}
    begun: list[int] = []
    for i, text in enumerate(texts):
        if text.startswith(_CLOSES) and begun:
            ends[begun.pop()] = i
        if text.endswith(_OPENS):
            begun.append(i)
    return ends


def _is_pattern(before: str, bracket: str, behind: str) -> bool:
    """Are these brackets parameters, or names that take parts of a value? `behind`: what follows their end."""
    is_body = bracket == "(" and behind == "{" and before not in _CONDITIONS
    return behind in ("=>", "=") or before in _DECLARES or is_body


def _might_be_new(before: str, after: str, behind: str, around: tuple[str, bool]) -> bool:
    """Might a name be another one than the one that was declared? `behind`: what follows brackets behind the name."""
    bracket, is_pattern = around
    return (
        is_pattern
        or before == "?."
        or after == "=>"
        or (after == ":" and before in ("{", ",", ";", "}"))
        or (after == "(" and behind == "{")
        or (before == "," and after in ("=", ";"))
        or (bracket == "{" and before in ("{", ",") and after in (",", "}"))
    )
