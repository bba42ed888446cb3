"""Secrets stay out of run folders: a known value is replaced by its name when a record is written.

The name is kept in place of the value, so that a resumed run can put the value back. Only texts are changed, never
numbers, keys or the words that records are made of: a secret `1234` or `passed` must not garble them.

A server or a model may repeat a secret in another spelling (spellings.py), in another letter case, or only a piece of
it. The marker says which spelling, which piece and which case, so that putting it back gives the very same text.

Nearly all records hold no secret, and seeing that must be cheap. A secret is long and has no white space, so only long
runs without white space are looked at. They are cut into chunks of eight bytes: a piece of fifteen bytes or more has
one of these chunks in it, wherever it stands. All chunks that can occur in a spelling are known, so one lookup for each
chunk is enough, for any number of secrets and spellings.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from functools import cached_property
from typing import Any

import msgspec
from msgspec import Struct

from rejoinder.runs.spellings import Spelling, escaped, spellings

SHORTEST_SECRET = 4
"""Shorter values occur by chance in any text; masking them would only garble records."""
SHORTEST_IN_ANY_CASE = 8
"""Shorter values are words too often: they are hidden as they are and in small letters."""
SHORTEST_BEGINNING = 8
"""Characters of a value that are hidden where a text is cut in the middle of the value."""
SHORTEST_PIECE = 16
"""Characters of a value that are hidden wherever they stand. Keys of one kind often begin with the same few."""
LARGE_GROWTH = 2
"""A spelling that is so many times as long as the value tells little in 16 characters: there a piece is longer."""
CHUNK = 8
LONG = 2 * CHUNK - 1
"""Bytes that have a whole chunk in them, wherever they begin."""
FEW = 2048
"""Bytes that are looked up faster than runs are found in them."""
LONGEST_SEARCHED = 8192
"""Characters of a spelling in which pieces are searched for: memory and time grow with them."""
MOST_PLACES = 64
"""Places of a chunk that are tried: a value that repeats itself has the same chunk everywhere."""

_STRUCTURE = frozenset(
    {
        *("type", "part", "key", "status", "role", "state", "what", "provider", "format"),
        *("followups", "profile", "marker_in_text", "file_style", "chat_file_style", "guidelines_style", "agent_paths"),
    }
)
"""Keys whose values are words of ours and not of authors or models."""
_FREE = frozenset({"variables", "metadata", "settings", "vars", "failure", "error", "arguments", "headers"})
"""Keys below which everything is the author's, or the server's."""

_CUT = r" ?\.\.\.|['\")\]]*(?: \(tried \d+ times\)|\Z)"
"""What follows a text that was cut."""
_CASES: dict[str, Callable[[str], str]] = {
    "in capitals": str.upper,
    "in small letters": str.lower,
    "in swapped case": str.swapcase,
}
_MARKER = rf"<<((?:literal )*+)([^<>;]++)(?:; (\d+) to (\d+))?(?:; (?:({'|'.join(_CASES)})|case ([0-9a-f]+)))?>>"
"""A spelling of a secret, the piece of it, and the letters that were changed."""


class Form(Struct, frozen=True):
    """One spelling of one secret."""

    text: str
    folded: str
    name: str
    """The words that name it in a marker."""
    shortest: int
    """The length of the shortest piece that is hidden."""
    common: int
    """A piece that ends before this place is no secret: many values begin with it."""
    any_case: bool
    may_be_cut: bool


class Span(Struct, frozen=True):
    """A piece of a form that was found in a text."""

    start: int
    stop: int
    form: Form
    offset: int
    """Where the piece begins in the form."""

    def behind(self, place: int) -> Span:
        """The part of the piece that stands behind a place."""
        start = max(self.start, place)
        return Span(start, self.stop, self.form, self.offset + start - self.start)

    @property
    def piece(self) -> str:
        return self.form.text[self.offset : self.offset + self.stop - self.start]

    def is_exact(self, text: str) -> bool:
        return text.startswith(self.piece, self.start)

    def marker(self, text: str) -> str:
        piece = self.piece
        where = "" if len(piece) == len(self.form.text) else f"; {self.offset} to {self.offset + len(piece)}"
        return f"<<{self.form.name}{where}{_name_case(piece, text[self.start : self.stop])}>>"


class Mask:
    """Replaces the values of secrets by their names, and back."""

    def __init__(self, secrets: dict[str, str]) -> None:
        """`secrets` maps each value to the expression that names it."""
        self._secrets = secrets
        self._forms = _forms(secrets)
        self._by_name = {form.name: form for form in self._forms}
        self._short = [form for form in self._forms if len(form.text) < LONG]
        self._cut = [form for form in self._forms if form.may_be_cut]
        self._needles: set[bytes] = set()
        """Short texts, each of which is searched for in every record."""
        self._chunks: set[int] = set()
        for form in self._forms:
            self._learn(form)

    def __bool__(self) -> bool:
        return bool(self._forms)

    def learn(self, value: str, name: str) -> None:
        """Hide another secret from now on. Other threads may be hiding texts meanwhile: nothing is changed in place."""
        if value not in self._secrets:
            self.__dict__ = Mask({**self._secrets, value: name}).__dict__

    def hide(self, record: bytes) -> bytes:
        """A line of JSON without the secrets."""
        if self._forms and (_has_marker(record) or self._may_hold(record)):
            return _again(record, self.hide_text)
        return record

    def reveal(self, record: bytes) -> bytes:
        """A line of JSON with the secrets put back."""
        if not self._forms or not _has_marker(record):
            return record
        return _again(record, self.reveal_text)

    def hide_text(self, text: str) -> str:
        if not self._forms:
            return text
        spans = self._find(text) if self._may_hold(text.encode("utf-8", "surrogatepass")) else ()
        parts, end = [], 0
        for span in spans:
            parts += [self._mark_literals(text[end : span.start]), span.marker(text)]
            end = span.stop
        return "".join((*parts, self._mark_literals(text[end:])))

    def reveal_text(self, text: str) -> str:
        return re.sub(_MARKER, self._revealed, text) if self._forms else text

    def _revealed(self, found: re.Match[str]) -> str:
        literal, name, start, stop, case, flips = found.groups()
        if name not in self._by_name:
            return found[0]
        if literal:
            return found[0].replace("literal ", "", 1)
        text = self._by_name[name].text
        piece = text[int(start) : int(stop)] if start else text
        if case:
            return _CASES[case](piece)
        return _flip(piece, int(flips, 16)) if flips else piece

    def _mark_literals(self, text: str) -> str:
        """A text with a marker that its author wrote: writing a secret's name must not give its value."""

        def literal(found: re.Match[str]) -> str:
            return f"<<literal {found[0][2:]}" if found[2] in self._by_name else found[0]

        return re.sub(_MARKER, literal, text) if "<<" in text else text

    def _learn(self, form: Form) -> None:
        """What to look for in bytes: the form in a text, and in a text that stands in JSON."""
        for data in {form.text.encode("utf-8", "surrogatepass").lower(), escaped(form.text).lower()}:
            if max(map(len, data.split()), default=0) < LONG:
                self._needles.add(data[:LONG])
            for start in range(CHUNK):
                self._chunks.update(_chunks(data[start : LONGEST_SEARCHED + start]))
        if form.may_be_cut:
            self._needles.add(escaped(form.text[:SHORTEST_BEGINNING]).lower())

    def _may_hold(self, data: bytes) -> bool:
        """May a text, or a record, hold a secret? Nearly always the answer is no, and then it is right."""
        folded = data.lower()
        for run in _long_runs(folded):
            if not self._chunks.isdisjoint(_chunks(run)):
                return True
        return any(needle in folded for needle in self._needles)

    def _find(self, text: str) -> Iterator[Span]:
        """What is to be hidden, from left to right."""
        folded = _fold(text)
        found = [*self._find_short(folded), *self._find_long(folded)]
        spans = [span for span in found if _is_secret(span, text)] + self._find_cut(text, folded)
        end = 0
        for span in sorted(spans, key=lambda span: (span.start, -span.stop)):
            if span.stop > end:
                yield span.behind(end)
                end = span.stop

    def _find_short(self, folded: str) -> Iterator[Span]:
        """Forms that may stand in a text without filling a chunk of it."""
        for form in self._short:
            start = folded.find(form.folded)
            while start >= 0:
                yield Span(start, start + len(form.text), form, 0)
                start = folded.find(form.folded, start + 1)

    def _find_long(self, folded: str) -> Iterator[Span]:
        """The other forms, and pieces of them: at least one chunk of the text is a part of each."""
        ends: dict[tuple[str, int], int] = {}
        """How far the text is known for a form that lies at a place of it."""
        places = self._places
        for start in range(0, len(folded) - CHUNK + 1, CHUNK):
            for form, offset in places.get(folded[start : start + CHUNK], ()):
                place = form.name, start - offset
                if start >= ends.get(place, 0):
                    span = _widest(form, folded, start, offset)
                    ends[place] = span.stop
                    yield span

    def _find_cut(self, text: str, folded: str) -> list[Span]:
        """Beginnings of values in the middle of which the text was cut."""
        is_cut = re.compile(_CUT).match
        spans: list[Span] = []
        for form in self._cut:
            beginning = form.folded[:SHORTEST_BEGINNING]
            start = folded.find(beginning)
            while start >= 0:
                span = _widest(form, folded, start, 0)
                if is_cut(text, span.stop) and (span.is_exact(text) or not _has_space(text[start : span.stop])):
                    spans.append(span)
                start = folded.find(beginning, span.stop - SHORTEST_BEGINNING + 1)
        return spans

    @cached_property
    def _places(self) -> dict[str, list[tuple[Form, int]]]:
        """Where each chunk stands in the forms. Few runs see a secret, so it is made for the first that comes."""
        places: dict[str, list[tuple[Form, int]]] = {}
        for form in self._forms:
            for offset in range(min(len(form.text), LONGEST_SEARCHED) - CHUNK + 1):
                known = places.setdefault(form.folded[offset : offset + CHUNK], [])
                if len(known) < MOST_PLACES:
                    known.append((form, offset))
        return places


def _forms(secrets: dict[str, str]) -> list[Form]:
    """Each text that is to be hidden once, under the first of its names."""
    forms: dict[str, Form] = {}
    names: set[str] = set()
    for value, name in secrets.items():
        own = _own_name(name, names)
        names.add(own)
        for spelling in spellings(value):
            if len(spelling.text) >= SHORTEST_SECRET and spelling.text not in forms:
                forms[spelling.text] = _form(value, own, spelling)
    return list(forms.values())


def _own_name(name: str, names: set[str]) -> str:
    """A name that no other secret has, without what markers are made of."""
    plain = name.translate(str.maketrans("<>;,", "____")).replace("literal ", "literal_")
    number, own = 1, plain
    while own in names:
        number += 1
        own = f"{plain} ({number})"
    return own


def _form(value: str, own_name: str, spelling: Spelling) -> Form:
    growth = len(spelling.text) / len(value)
    return Form(
        text=spelling.text,
        folded=_fold(spelling.text),
        name=f"{own_name}{spelling.name}",
        shortest=SHORTEST_PIECE if growth < LARGE_GROWTH else int(SHORTEST_PIECE * growth),
        common=int(_common(value) * growth),
        any_case=len(value) >= SHORTEST_IN_ANY_CASE,
        may_be_cut=not spelling.recoded and len(spelling.text) > SHORTEST_BEGINNING,
    )


def _common(value: str) -> int:
    """Where a piece must end that is more than what many values begin with: the first part of a JSON Web Token, the
    server of an address."""
    if value.startswith("eyJ"):
        return value.find(".") + SHORTEST_BEGINNING
    server = "://" in value and re.match(r"[a-z][a-z+.-]*+://[^/@\s]*+(?:/|\Z)", value)
    return server.end() + SHORTEST_PIECE if server else 0


def _is_secret(span: Span, text: str) -> bool:
    """Is it a whole form, or more of one than words that stand there by chance? Sentences are made of words, and white
    space ends a word."""
    form, written = span.form, text[span.start : span.stop]
    if len(written) == len(form.text):
        return form.any_case or span.is_exact(text) or (written == form.text.lower() and not _has_space(written))
    if len(written) < form.shortest or span.offset + len(written) < form.common:
        return False
    return any(len(word) >= form.shortest for word in written.split())


def _widest(form: Form, folded: str, start: int, offset: int) -> Span:
    """All that is the same around a place of a text and a place of a form."""
    before = _same(folded[max(0, start - offset) : start][::-1], form.folded[:offset][::-1])
    behind = _same(folded[start : start + len(form.folded) - offset], form.folded[offset:])
    return Span(start - before, start + behind, form, offset - before)


def _same(one: str, other: str) -> int:
    """How many characters two texts have in common at their beginnings."""
    low, high = 0, min(len(one), len(other))
    if one[:high] == other[:high]:
        return high
    while low < high:
        middle = (low + high + 1) // 2
        if one[low:middle] == other[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def _has_space(text: str) -> bool:
    return len(text.split(maxsplit=1)) != 1 or text != text.strip()


def names_secret(text: str) -> bool:
    """Whether a text has a name in place of a secret."""
    return "<<" in text and re.search(_MARKER, text) is not None


def _has_marker(record: bytes) -> bool:
    return b"<" in record and b"<<" in record  # one character is found much faster than two


_SHAPE = bytes(ord(" ") if bytes([byte]).isspace() else ord("x") for byte in range(256))
"""White space, and all else."""


def _long_runs(data: bytes) -> Iterator[bytes]:
    """The parts of some bytes that have no white space in them and are long. In few bytes it is quicker to take all."""
    if len(data) < FEW:
        yield data
        return
    shape = data.translate(_SHAPE)
    start = shape.find(b"x" * LONG)
    while start >= 0:
        stop = shape.find(b" ", start)
        stop = len(data) if stop < 0 else stop
        yield data[start:stop]
        start = shape.find(b"x" * LONG, stop)


def _chunks(data: bytes) -> Iterable[int]:
    whole = len(data) // CHUNK * CHUNK
    return memoryview(data)[:whole].cast("Q") if whole else ()


def _fold(text: str) -> str:
    """The text with the letters A to Z in lower case, and as long as before."""
    return text.encode("utf-8", "surrogatepass").lower().decode("utf-8", "surrogatepass")


def _name_case(piece: str, written: str) -> str:
    """The words of a marker that say how the letters differ from the piece."""
    if piece == written:
        return ""
    for name, change in _CASES.items():
        if change(piece) == written:
            return f"; {name}"
    flips = sum(1 << place for place, (one, other) in enumerate(zip(piece, written, strict=True)) if one != other)
    return f"; case {flips:x}"


def _flip(piece: str, flips: int) -> str:
    return "".join(one.swapcase() if flips >> place & 1 else one for place, one in enumerate(piece))


def _again(record: bytes, change: Any) -> bytes:
    ending = b"\n" if record.endswith(b"\n") else b""
    return msgspec.json.encode(_walk(msgspec.json.decode(record), change)) + ending


def _walk(data: Any, change: Any, *, free: bool = False) -> Any:
    if isinstance(data, str):
        return change(data)
    if isinstance(data, list):
        return [_walk(item, change, free=free) for item in data]
    if isinstance(data, dict):
        return {
            key: value if key in _STRUCTURE and not free else _walk(value, change, free=free or key in _FREE)
            for key, value in data.items()
        }
    return data
