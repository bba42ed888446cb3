"""The common mistakes behind libyaml's errors. Each function below recognises one of them by the parser's words and the
lines around, and gives a message for authors, the place to point at and lines that might be right.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from itertools import islice

from msgspec import Struct

from rejoinder.suite.yaml import ESCAPE, HALF_CHARACTER
from rejoinder.suite.yaml_lines import (
    Line,
    in_double_quotes,
    is_known,
    quote_value,
    read_line,
    refuses_text,
    takes_text,
)

Place = tuple[int, int]
NON_BREAKING = "this line is indented with non-breaking spaces; use ordinary spaces"
_LOST = r"\ufffd"
_CLOSING = {'"': '"', "'": "'", "[": "]", "{": "}"}


class Situation(Struct, frozen=True):
    """The place at which the parser gave up, and its message."""

    problem: str
    context: str
    lines: list[str]
    number: int
    column: int
    opened: Place | None
    """The start of the element that could not be read."""

    @property
    def place(self) -> Place:
        return self.number, self.column

    @property
    def line(self) -> str:
        return self.at(self.number)

    def character(self, place: Place | None = None) -> str:
        number, column = place or self.place
        return self.at(number)[column - 1 : column]

    def at(self, number: int) -> str:
        return self.lines[number - 1] if 0 < number <= len(self.lines) else ""

    def above(self, number: int) -> Iterator[int]:
        """The numbers of the non-blank lines above, the nearest first."""
        return (above for above in range(min(number - 1, len(self.lines)), 0, -1) if self.lines[above - 1].strip())


class Cause(Struct, frozen=True):
    message: str
    place: Place
    proposals: list[str] = []
    """Proposed replacements of the line pointed at, the best first."""


def find_cause(seen: Situation) -> Cause:
    words = f"{seen.problem} ({seen.context})" if seen.context else seen.problem
    other = Cause(f"this is not valid YAML: {words}", seen.place, _quoted(seen.line))
    return next((cause for recognise in _CAUSES if (cause := recognise(seen)) is not None), other)


def _quoted(line: str) -> list[str]:
    proposal = quote_value(line)
    return [proposal] if proposal else []


# Characters that are not allowed where they are


def _markdown_fence(seen: Situation) -> Cause | None:
    if seen.number != 1 or not seen.line.startswith("```"):
        return None
    return Cause("this is the fence of a Markdown block; remove the lines with ```", (1, 1))


def _non_breaking_space(seen: Situation) -> Cause | None:
    mended = spaces_for_non_breaking_ones(seen.line)
    if mended is None:
        return None
    return Cause(NON_BREAKING, (seen.number, seen.line.index("\xa0") + 1), [mended])


def spaces_for_non_breaking_ones(line: str) -> str | None:
    """The line with ordinary indentation; None if it already has that."""
    text = line.lstrip()
    indentation = line[: len(line) - len(text)]
    return indentation.replace("\xa0", " ") + text if "\xa0" in indentation else None


def _tab(seen: Situation) -> Cause | None:
    if "tab character" not in seen.problem and not ("any token" in seen.problem and seen.character() == "\t"):
        return None
    if re.match(r"\s*(?:- +)*-\t", seen.line[: seen.column]):
        mended = re.sub(r"^(\s*(?:- +)*)-\t+", r"\1- ", seen.line)
        return Cause("a tab follows the dash; use a space", seen.place, [mended])
    text = seen.line.lstrip()
    widths = dict.fromkeys(_likely_indentations(seen))
    tabs = seen.line[: len(seen.line) - len(text)].replace("\t", "  ")
    return Cause("a tab cannot indent YAML; use spaces", seen.place, [*(" " * n + text for n in widths), tabs + text])


def _likely_indentations(seen: Situation) -> Iterator[int]:
    """Indentations that a line may have, given the line above it."""
    for number in islice(seen.above(seen.number), 1):
        above = read_line(seen.at(number))
        width = len(above.head)
        if above.key and above.value in ("", "|", ">", "|-", ">-", "|+", ">+"):
            yield width + 2
        yield from (width, above.indentation, width + 2)


def _forbidden_start(seen: Situation) -> Cause | None:
    starts_token = "cannot start any token" in seen.problem or "mapping keys are not allowed" in seen.problem
    starts_node = "node content" in seen.problem and "block" in seen.context and seen.character() in tuple(",}]")
    is_anchor = "anchor" in seen.context and seen.opened is not None
    if not (starts_token or starts_node or is_anchor):
        return None
    number, column = seen.opened if is_anchor and seen.opened else seen.place
    message = f"a plain value may not start with {seen.character((number, column))!r}; put it in quotes"
    return Cause(message, (number, column), _quoted(seen.at(number)))


# Stars and templates


def _undefined_alias(seen: Situation) -> Cause | None:
    if seen.problem != "found undefined alias":
        return None
    line = read_line(seen.line)
    name = re.match(r"\*([\w-]+)", seen.line[seen.column - 1 :])
    if name and (line.key == "<<" or refuses_text(line.key)):
        return Cause(f"there is no anchor `&{name[1]}` in this file", seen.place)
    return _pattern(seen, seen.place)


def _star(seen: Situation) -> Cause | None:
    return _pattern(seen, seen.opened or seen.place) if "alias" in seen.context else None


def _pattern(seen: Situation, place: Place) -> Cause:
    line = seen.at(place[0])
    message = "a value that starts with `*` is an alias in YAML; put the pattern in quotes"
    if read_line(line).value[:1] in ("[", "{"):
        quoted = re.sub(r"""([\[,]\s*|:\s+)(\*(?:[^,\]}"']*[^,\]}"'\s])?)""", r'\1"\2"', line)
        return Cause(message, place, [quoted])
    return Cause(message, place, _quoted(line))


def _template(seen: Situation) -> Cause | None:
    line = read_line(seen.line)
    if not line.value.startswith("{{"):
        return None
    message = "a value that starts with `{{` reads as a mapping in YAML; put the whole value in quotes"
    return Cause(message, (seen.number, line.column), _quoted(seen.line))


# Quotes and brackets


def _swallowed_quote(seen: Situation) -> Cause | None:
    """A quote that was never closed ends at the start of the next one, and the error comes right after that."""
    number, column = seen.opened if "alias" in seen.context and seen.opened else seen.place
    mark = seen.at(number)[max(column - 2, 0) : column - 1]
    if mark not in ('"', "'"):
        return None
    opening = next((above for above in seen.above(number) if mark in seen.at(above)), 0)
    line = read_line(seen.at(opening))
    if not line.value.startswith(mark) or line.value.count(mark) > 1:
        return None
    message = f"the quote {mark} that opens here is never closed, so it ends at the next quote, on line {number}"
    return Cause(message, (opening, line.column), [f"{seen.at(opening).rstrip()}{mark}"])


def _half_character(seen: Situation) -> Cause | None:
    """An unpaired half of a surrogate pair, as JSON writes a character beyond U+FFFF; it has no meaning of its own."""
    if HALF_CHARACTER not in seen.problem:
        return None
    column = seen.line.rfind("\\", 0, seen.column) + 1 or seen.column
    escape = re.compile(ESCAPE).match(seen.line, column - 1)
    if escape is None or len(escape[0]) != len(_LOST):
        return None
    message = (
        f"`{escape[0]}` is half of a character, and the other half is missing; write both, or `{_LOST}` for a character"
        " that is lost"
    )
    rest = re.sub(ESCAPE, lambda other: _LOST if len(other[0]) == len(_LOST) else other[0], seen.line[column - 1 :])
    return Cause(message, (seen.number, column), [seen.line[: column - 1] + rest])


def _backslash(seen: Situation) -> Cause | None:
    if "quoted scalar" not in seen.context or not ("escape" in seen.problem or "hexdecimal" in seen.problem):
        return None
    message = "a backslash in double quotes starts an escape; double it, or use single quotes"
    column = seen.line.rfind("\\", 0, seen.column) + 1 or seen.column
    start = seen.opened[1] - 1 if seen.opened and seen.opened[0] == seen.number else -1
    written = re.match(r'"((?:[^"\\]|\\.)*)"', seen.line[start:]) if start >= 0 else None
    if written is None:
        return Cause(message, (seen.number, column))
    before, after = seen.line[:start], seen.line[start + written.end() :]
    inner = written[1]
    doubled = re.sub(r"\\(.)", lambda escape: escape[0] if escape[1] in '\\"' else f"\\{escape[0]}", inner)
    single = [] if "'" in inner or '\\"' in inner else [f"{before}'{inner}'{after}"]
    return Cause(message, (seen.number, column), [*single, f'{before}"{doubled}"{after}'])


def _open_quote(seen: Situation) -> Cause | None:
    if "quoted scalar" not in seen.context or seen.opened is None:
        return None
    mark, line = seen.character(seen.opened), seen.at(seen.opened[0])
    return Cause(f"the quote {mark} that opens here is never closed", seen.opened, [f"{line.rstrip()}{mark}"])


def _text_goes_on(seen: Situation) -> Cause | None:
    if "did not find expected" not in seen.problem:
        return None
    line = read_line(seen.line)
    closing = _CLOSING.get(line.value[:1])
    read = seen.line[line.column - 1 : seen.column - 1].rstrip()
    if closing is None or len(read) < 2 or not read.endswith(closing):
        return None
    if closing in "]}":
        remedy = "remove it" if refuses_text(line.key) else "put the whole value in quotes"
        return Cause(f"text follows `{closing}`; {remedy}", seen.place, _quoted(seen.line))
    message = "text follows the closing quote; put the whole value in quotes"
    inner = line.value[1:-1] if len(line.value) > 1 and line.value.endswith(closing) else None
    whole = [] if inner is None else [f"{line.before}{in_double_quotes(inner)}"]
    return Cause(message, seen.place, [*whole, *_quoted(seen.line)])


def _colon_in_brackets(seen: Situation) -> Cause | None:
    """`{match: a: b}`: proposes quotes around the value only."""
    if "flow" not in seen.context or seen.character() != ":" or (seen.opened and seen.opened[0] != seen.number):
        return None
    start = max((found.end() for found in re.finditer(r"[\[{,]\s*|:\s+", seen.line[: seen.column - 1])), default=0)
    end = re.compile(r"[,\]}]|$").search(seen.line, seen.column)
    value = seen.line[start : end.start()].rstrip() if end else ""
    if not value or value[0] in "\"'":
        return None
    message = "a plain value may not contain ': '; put the value in quotes"
    mended = seen.line[:start] + in_double_quotes(value) + seen.line[start + len(value) :]
    return Cause(message, seen.place, [mended])


def _open_bracket(seen: Situation) -> Cause | None:
    place = _bracket(seen) if "flow" in seen.context else None
    if place is None:
        return None
    line, bracket = seen.at(place[0]), seen.character(place)
    message = f"the `{bracket}` that opens here is not closed, or a comma is missing; quote it if it is text"
    closed = f"{line.rstrip()}{_CLOSING[bracket]}"
    is_text = takes_text(read_line(line).key)
    return Cause(message, place, [*_quoted(line), closed] if is_text else [closed, *_quoted(line)])


def _bracket(seen: Situation) -> Place | None:
    """The bracket that the parser names, else the last one that its line leaves open."""
    if seen.opened and seen.character(seen.opened) in ("[", "{"):
        return seen.opened
    for number in seen.above(seen.number + 1):
        waiting: list[int] = []
        for position, character in enumerate(seen.at(number)):
            if character in "[{":
                waiting.append(position)
            elif character in "]}" and waiting:
                waiting.pop()
        if waiting:
            return number, waiting[-1] + 1
    return None


# Colons, dashes and indentation


def _missing_space(seen: Situation) -> Cause | None:
    """`prompt:What?` and `-match: a`, which YAML reads as plain text."""
    if not any(words in seen.problem for words in ("mapping values", "could not find expected ':'", "'-' indicator")):
        return None
    for number in _suspects(seen):
        line = seen.at(number)
        dash = re.match(r"(\s*(?:- +)*)-(\w+)(:.*)", line)
        if dash and is_known(dash[2]):
            place = (number, len(dash[1]) + 2)
            return Cause("a space is missing after the dash", place, [f"{dash[1]}- {dash[2]}{dash[3]}"])
        colon = re.match(r"(\s*(?:- +)*)(\w+):(\S.*)", line)
        if colon and is_known(colon[2]):
            message = f"a space is missing after `{colon[2]}:`"
            return Cause(message, (number, colon.end(2) + 2), [f"{colon[1]}{colon[2]}: {colon[3]}"])
    return None


def _suspects(seen: Situation) -> list[int]:
    """The lines that may have caused the error: the line where it began, or else its own and the one above."""
    if seen.opened and "simple key" in seen.context:
        return [seen.opened[0]]
    return [seen.number, *islice(seen.above(seen.number), 1)]


def _missing_colon(seen: Situation) -> Cause | None:
    if "mapping values are not allowed" in seen.problem:
        number = next(seen.above(seen.number), 0)
    elif "simple key" in seen.context and seen.opened is not None:
        number = seen.opened[0]
    else:
        return None
    word = re.fullmatch(r"(\s*(?:- +)*)([\w-]+)\s*", seen.at(number))
    if word is None or not (is_known(word[2]) or _opens_block(seen, number)):
        return None
    message = f"`{word[2]}` on line {number} has no `:`; a key needs one, and text belongs after a key or a dash"
    return Cause(message, (number, len(word[1]) + 1), [f"{word[1]}{word[2]}:"])


def _opens_block(seen: Situation, number: int) -> bool:
    """Whether the next lines belong below this one."""
    below = next((line for line in seen.lines[number:] if line.strip()), "")
    following = read_line(below)
    return "-" in following.head or following.indentation > read_line(seen.at(number)).indentation


def _colon_in_value(seen: Situation) -> Cause | None:
    if not seen.problem.startswith("mapping values are not allowed"):
        return None
    line = read_line(seen.line)
    is_in_value = line.key and line.value and seen.column >= line.column
    before = None if is_in_value else _line_of_value(seen, line)
    if before is None:
        message = "a ':' followed by a space is not allowed here; quote the text"
        if is_in_value:
            message = "a plain value may not contain ': ' or end in ':'; put the value in quotes"
        return Cause(message, seen.place, _quoted(seen.line))
    if not is_known(line.key):
        message = (
            "this line continues the text above, and a plain text may not contain ': '; begin the text with `|`"
            " after its key"
        )
        return Cause(message, seen.place)
    message = (
        "this key is not aligned with the key above, so YAML reads it as part of that value; indent both"
        " alike, or, if this is text, begin it with `|` after the key"
    )
    return Cause(message, (seen.number, len(line.head) + 1), [" " * len(before.head) + seen.line.strip()])


def _line_of_value(seen: Situation, line: Line) -> Line | None:
    """The line above whose value swallows this line."""
    for number in seen.above(seen.number):
        above = read_line(seen.at(number))
        if (above.key and above.value) or "-" in above.head:
            return above
        if above.key or above.indentation < line.indentation:
            return None
    return None


def _text_not_indented(seen: Situation) -> Cause | None:
    if "simple key" not in seen.context or seen.opened is None:
        return None
    number, column = seen.opened
    lines = (read_line(seen.at(above)) for above in seen.above(number))
    if above := next((line for line in lines if line.key), None):
        remedy = "indent it" if above.value[:1] in ("|", ">") else "indent it, or begin the value with `|`"
        return Cause(f"this text is not indented below `{above.key}`; {remedy}", (number, column))
    text = seen.at(number).rstrip()
    message = f"`{text.strip()}` has no `:`; a key needs one, and text belongs after a key or a dash"
    return Cause(message, (number, column), [f"{text}:"])


def _text_after_bar(seen: Situation) -> Cause | None:
    if "block scalar" not in seen.context or "comment or line break" not in seen.problem:
        return None
    mark = seen.character(seen.opened) if seen.opened else "|"
    message = f"after `{mark}` the text starts on the next line; put it in quotes if `{mark}` is part of it"
    return Cause(message, seen.place)


def _second_document(seen: Situation) -> Cause | None:
    if "another document" not in seen.problem:
        return None
    return Cause("a second document starts here; a file holds one, so move it to a file of its own", seen.place)


def _dash_in_value(seen: Situation) -> Cause | None:
    if "block sequence entries are not allowed" not in seen.problem:
        return None
    quoted = _quoted(seen.line)
    remedy = "; quote the value if it is text" if quoted else ""
    return Cause(f"a list starts on a line of its own below its key{remedy}", seen.place, quoted)


def _indentation(seen: Situation) -> Cause | None:
    if "did not find expected key" not in seen.problem and "'-' indicator" not in seen.problem:
        return None
    since = f" that began on line {seen.opened[0]}" if seen.opened else ""
    message = f"this line does not fit into the block{since}; check its indentation against the lines above"
    return Cause(message, seen.place)


_CAUSES: tuple[Callable[[Situation], Cause | None], ...] = (
    _markdown_fence,
    _non_breaking_space,
    _tab,
    _missing_space,
    _missing_colon,
    _colon_in_value,
    _swallowed_quote,
    _undefined_alias,
    _star,
    _template,
    _text_after_bar,
    _forbidden_start,
    _half_character,
    _backslash,
    _open_quote,
    _text_goes_on,
    _colon_in_brackets,
    _open_bracket,
    _text_not_indented,
    _second_document,
    _dash_in_value,
    _indentation,
)
