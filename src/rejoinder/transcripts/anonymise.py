"""Stand-ins for what tells who people are, and for keys: the same text gets the same stand-in in all conversations.

First everything is looked through, then everything is replaced, so that a name that is given once is replaced wherever
it stands. Patterns find what has a form. A name has none: it is found where the words around it say that it is one.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from ipaddress import ip_address
from typing import Any
from urllib.parse import quote

import msgspec
from msgspec import Struct, structs

from rejoinder.model import ChatMessage, ToolCall
from rejoinder.transcripts.values import Said, Transcript

_NAME = r"[^\W\d_]{1,40}+(?:['’-][^\W\d_]{1,40}+){0,3}+"
_CAPITAL = rf"(?=[A-ZÀ-ÖØ-ÞĀ-Ž]){_NAME}"
_FULL = rf"{_CAPITAL}(?:[ \t]+{_CAPITAL}){{0,3}}"
_ESCAPES = frozenset({"\\n", "\\r", "\\t", "\\b", "\\f"})
_ONE_LETTER = str.maketrans({"İ": "i", "ı": "i", "ſ": "s"})
"""Letters whose small form is another letter, or two."""
_NOT_NAMES = frozenset(
    {
        *("admin", "agent", "all", "anyone", "args", "arguments", "assistant", "assistants", "bot", "bug", "call"),
        *("calls", "case", "cases", "check", "checks", "claude", "client", "codex", "colleague", "colleagues"),
        *("contact", "content", "copilot", "customer", "customers", "dear", "developer", "developers", "equals"),
        *("error", "errors", "eval", "evals", "everybody", "everyone", "example", "execution", "false", "file"),
        *("format", "friend", "friends", "gemini", "guest", "guests", "hello", "help", "here", "hi", "hiring"),
        *("id", "info", "input", "input_messages", "it", "june", "madam", "mail", "mailer", "manager", "march"),
        *("match", "may", "message", "messages", "mr", "mrs", "ms", "name", "names", "no", "none", "noreply"),
        *("not", "null", "office", "org", "person", "postmaster", "prompt", "provider", "recorded", "reply"),
        *("role", "root", "said", "sales", "services", "sir", "someone", "supplier", "support"),
        *("system", "tags", "target", "targets", "team", "test", "tests", "that", "the", "them", "there", "this"),
        *("tool", "tool_call_id", "tool_calls", "transcript", "true", "turn", "two_braces", "unknown", "user"),
        *("users", "value", "var", "vars", "was", "webmaster", "what", "word", "words", "you"),
    }
)
"""Words that stand where a name could, and words of suites."""
_AFTER_NAME = frozenset(
    {"already", "also", "and", "correct", "listed", "missing", "spelled", "spelt", "still", "wrong"}
)
"""Words that follow `my name is` and are none."""
_OPEN_HOSTS = re.compile(r"(?:.*\.)?(?:localhost|example|example\.(?:com|org|net)|test|invalid)", re.IGNORECASE)
_COMMON_IPS = frozenset({"127.0.0.1", "0.0.0.0", "::1", "::", "255.255.255.255"})
_LEAST_DIGITS = 7
_CLOSERS = r"(?:best|kind|warm|many thanks|thanks|thank you|sincerely|regards|cheers|yours|greetings|all the best)"


class Replaced(Struct, frozen=True):
    """What was put in the place of one text, and how often."""

    kind: str
    stand_in: str
    count: int


class _Pattern(Struct, frozen=True):
    kind: str
    regex: re.Pattern[str]
    fits: Callable[[str], bool]


def _anything(_text: str) -> bool:
    return True


def _is_host(text: str) -> bool:
    return not _OPEN_HOSTS.fullmatch(text) and not _is_ip(text) and text not in _COMMON_IPS


def _is_phone(text: str) -> bool:
    """Dates are written with lines between their numbers, too."""
    return sum(letter.isdecimal() for letter in text) >= 9 and not re.match(r"\d{4}-\d\d-\d\d", text)


def _passes_luhn(text: str) -> bool:
    digits = [int(letter) for letter in text if letter.isdecimal()]
    doubled = [digit * 2 - 9 * (digit > 4) for digit in digits[-2::-2]]
    return 13 <= len(digits) <= 19 and (sum(digits[-1::-2]) + sum(doubled)) % 10 == 0


def _is_iban(text: str) -> bool:
    plain = "".join(text.split()).upper()
    return 15 <= len(plain) <= 34 and int("".join(str(int(letter, 36)) for letter in plain[4:] + plain[:4])) % 97 == 1


def _is_ip(text: str) -> bool:
    try:
        return str(ip_address(text)) not in _COMMON_IPS and any(map(str.isdecimal, text))  # `a::b` is code
    except ValueError:
        return False


def _is_name(text: str) -> bool:
    return len(text) > 1 and text.casefold() not in _NOT_NAMES


def _is_likely_name(text: str) -> bool:
    """Of a word in small letters, which may be any: `my name is not on the list`."""
    return len(text) > 2 and _is_name(text) and text.casefold() not in _AFTER_NAME


def _is_key(text: str) -> bool:
    return len(set(text)) > 4 and not text.startswith(("{{", "${{", "<"))


_KEY_VALUE = r"""(?P<x>[^\s"'\\,;&}\])]{8,})"""
_LINE_START = r"(?:(?m:^)|(?<=\\n))[ \t]*"
_LINE_END = r"(?=[,!:.]|[ \t]*(?:$|\n|\\n))"
_TITLE = r"(?i:mr|mrs|ms|dr|prof)"
_PREFIXES = r"sk-|pk-|gsk_|xai-|AIza|hf_|gh[pousr]_|github_pat_|glpat-|xox[abprs]-|AKIA|ASIA"
_SECRETS = r"api[-_ ]?key|access[-_]?key|token|secret|passw(?:or)?d|pwd|authorization|credential"
_SCHEMES = r"https?|wss?|ftp|ssh|git|postgres(?:ql)?|mysql|redis|mongodb"
_HEADERS = r"from|to|cc|bcc|author|reply-to|signed-off-by|co-authored-by|customer|(?:full|customer) name"
_NAME_KEYS = r"(?:first|last|full|middle|customer|contact|user|given|family)[-_ ]?name|surname|username"
_INTRODUCED = r"(?:\b(?:my|his|her|their|the customer's) name is|\bname's|\bi am called|\bcall me)"
_SPEAKING = r"(?:speaking|here|calling|writing|again|from)\b"

_FORMS: tuple[tuple[str, str, Callable[[str], bool]], ...] = (
    ("key", r"-----BEGIN [A-Z ]{0,30}PRIVATE KEY-----[^-]+-----END [A-Z ]{0,30}PRIVATE KEY-----", _anything),
    ("key", rf"\b(?:{_PREFIXES})[\w-]{{12,}}", _anything),
    ("key", r"\beyJ[\w-]{8,2000}\.[\w-]{8,4000}\.[\w-]{4,}", _anything),
    ("key", rf"(?i)\b(?:bearer|basic)\s+{_KEY_VALUE}", _is_key),
    ("key", rf"""(?i)(?:{_SECRETS})s?\\?["']?\s{{0,9}}(?:[:=]|\bis\b)\s{{0,9}}\\?["']?{_KEY_VALUE}""", _is_key),
    ("key", r"//[^\s/@:]{0,99}:(?P<x>[^\s/@]{3,999})(?=@)", _anything),
    ("email", r"[A-Za-z0-9._%+'-]{1,64}@[A-Za-z0-9-]{1,63}(?:\.[A-Za-z0-9-]{1,63})+", _anything),
    ("uuid", r"(?i)(?<![0-9a-f])[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}(?![0-9a-f])", _anything),
    ("iban", r"\b[A-Z]{2}\d{2}(?:[ ]?[A-Z0-9]){11,30}\b", _is_iban),
    ("card", r"(?<!\d)\d(?:[ -]?\d){12,18}(?!\d)", _passes_luhn),
    ("ip", r"(?<![\d.])(?:\d{1,3}\.){3}\d{1,3}(?!\d|\.\d)", _is_ip),
    ("ip", r"(?i)(?<![\w:.])(?:[0-9a-f]{0,4}:){2,7}(?:[0-9a-f]{1,4}|(?<=::))(?![\w:])", _is_ip),
    ("host", rf"(?i)\b(?:{_SCHEMES})://(?:[^\s/@]{{0,999}}@)?(?P<x>[\w.-]*\w)", _is_host),
    ("user", r"(?i)(?:/home/|/users/|\\users\\|\\\\users\\\\)(?P<x>[^\s/\\\"':]{2,99})", _is_name),
    ("phone", r"(?<![\w.])(?:\+|00)\d(?:[ ()./-]{0,2}\d){6,14}(?!\d)", _anything),
    ("phone", r"(?<![\w.-])\(?\d{2,5}\)?[ /-]\d{2,4}(?:[ -]\d{2,5}){1,3}(?![\w.-]?\d)", _is_phone),
    ("number", rf"(?<!\d)(?<!\d\.)\d{{{_LEAST_DIGITS},}}(?!\d)", _anything),
    ("name", rf"(?i:{_INTRODUCED})[ \t]{{1,9}}(?P<x>{_FULL})", _anything),
    ("name", rf"(?i:\bmy name is)[ \t]{{1,9}}(?P<x>{_NAME})", _is_likely_name),
    ("name", rf"(?i:\bthis is)[ \t]{{1,9}}(?P<x>{_FULL})(?=[ \t]{{1,9}}(?i:{_SPEAKING}))", _anything),
    ("name", rf"{_LINE_START}(?i:dear|hi|hello|hey)[ \t]+(?:{_TITLE}\.?[ \t]+)?(?P<x>{_FULL}){_LINE_END}", _anything),
    ("name", rf"\b{_TITLE}\.?[ \t]{{1,9}}(?P<x>{_FULL})", _anything),
    ("name", rf"{_LINE_START}(?i:{_HEADERS}):[ \t]*\"?(?P<x>{_FULL})", _anything),
    ("name", rf"(?<![^\W_])(?P<x>{_FULL})\"?[ \t]{{0,9}}<[^<>@\s]{{1,64}}@[^<>\s]{{1,255}}>", _anything),
    (
        "name",
        rf"(?i:{_CLOSERS})[,.!]?[ \t]{{0,9}}(?:\r?\n|\\n)+[ \t]{{0,9}}(?P<x>{_FULL})[ \t]*(?=$|\n|\\n)",
        _anything,
    ),
    ("name", rf"(?i)\\?\"(?:{_NAME_KEYS})\\?\"\s{{0,9}}:\s{{0,9}}\\?\"(?P<x>[^\"\\]{{2,80}})", _anything),
)
"""Kind, form and what else has to hold. The group `x` of a form is what is replaced; without one, all of it. What an
earlier one has found in a text, a later one does not look at."""


@cache
def _patterns() -> list[_Pattern]:
    """Compiled when they are needed, which is seldom."""
    return [_Pattern(kind, re.compile(form), fits) for kind, form, fits in _FORMS]


_STAND_INS: dict[str, tuple[str, ...]] = {
    "key": ("key-{n}", "k{a}"),
    "email": ("person-{n}@example.org", "{a}@example.net", "{a}@{a}.invalid"),
    "uuid": ("00000000-0000-4000-8000-{n:012d}", "id-{n}", "id-{a}"),
    "iban": ("iban-{n}", "i{a}"),
    "card": ("card-{n}", "c{a}"),
    "ip": ("192.0.2.{n}", "ip-{n}", "i{a}"),
    "host": ("host-{n}.example", "h{a}.invalid"),
    "user": ("user-{n}", "u{a}"),
    "phone": ("phone-{n}", "p{a}"),
    "number": ("number-{n}", "n{a}"),
    "name": ("Person-{n}", "N{a}"),
}
"""What is put in the place of a kind: the first of these that no text which is to be replaced stands in."""
_WHOLE_WORDS = frozenset({"name", "user"})
"""Kinds that are replaced where they are words of their own: `Ann` is in `Annual`, too."""


class Anonymiser:
    """Finds, then replaces. `look` at everything before the first `replace`."""

    def __init__(self) -> None:
        self._found: dict[str, str] = {}
        """Texts that are to be replaced, in small letters, each with its kind."""
        self._written: dict[str, set[str]] = {}
        """The same, as they were written."""
        self._stand_ins: dict[str, str] = {}
        self._taken: set[str] = set()
        self._counts: dict[str, int] = {}
        self._tree: _Tree | None = None

    def look(self, text: str) -> None:
        """Note what has to be replaced."""
        taken = bytearray(len(text))
        for pattern in _patterns():
            name = "x" if "x" in pattern.regex.groupindex else 0
            for match in pattern.regex.finditer(text):
                start, end = match.span(name)
                if 1 not in taken[start:end] and pattern.fits(match[name]):
                    taken[start:end] = b"\1" * (end - start)
                    self._note(pattern.kind, match[name])

    def _note(self, kind: str, found: str) -> None:
        if kind == "email":
            local, _, host = found.rpartition("@")
            if _OPEN_HOSTS.fullmatch(host):
                return
            # `ann.smith@corp.com` tells a name, and where she works.
            for part in re.split(r"[._%+-]+|\d+", local):
                if len(part) > 2 and part.isalpha() and _is_name(part):
                    self._add("name", part)
            self._add("host", host)
        if kind == "name":
            words = [word for word in re.split(r"\s+", found.strip()) if _is_name(word)]
            for word in words:
                self._add("name", word)
            return
        self._add(kind, found)

    def _add(self, kind: str, text: str) -> None:
        if text and self._tree is None:
            self._found.setdefault(_small(text), kind)
            self._written.setdefault(_small(text), set()).add(text)

    def replace(self, text: str) -> str:
        """The text with stand-ins. No text that was found is left in it, in whatever letters."""
        if not self._found:
            return text
        tree = self._prepared()
        for _ in range(4):  # what is left and right of a stand-in may together be another text
            before, text = text, "".join(self._pieces(text, tree))
            if before == text:
                break
        return text

    def _pieces(self, text: str, tree: _Tree) -> Iterator[str]:
        done = 0
        for start, end, found in tree.search(text, lambda found: self._found[found] in _WHOLE_WORDS):
            self._counts[found] = self._counts.get(found, 0) + 1
            yield text[done:start]
            yield self._stand_ins[found]
            done = end
        yield text[done:]

    def replaced(self) -> list[Replaced]:
        """What was replaced, by kind. The texts themselves are not told."""
        rows = [Replaced(self._found[text], self._stand_ins[text], count) for text, count in self._counts.items()]
        order = list(_STAND_INS)
        return sorted(rows, key=lambda row: (order.index(row.kind), row.stand_in))

    def _prepared(self) -> _Tree:
        if self._tree is None:
            self._tree = _Tree()
            numbers: dict[str, int] = {}
            for text, kind in self._found.items():
                numbers[kind] = numbers.get(kind, 0) + 1
                self._stand_ins[text] = self._new_stand_in(kind, numbers[kind])
                written = (text, *self._written[text])
                for spelling in {_small(one) for form in written for one in _spellings(form)}:
                    self._tree.add(spelling, text)
        return self._tree

    def _new_stand_in(self, kind: str, number: int) -> str:
        for form in (*_STAND_INS[kind], *(f"{'z' * more}{{a}}" for more in range(1, 30))):
            candidate = form.format(n=number, a=_letters(number))
            small = _small(candidate)
            parts = {small[start:end] for end in range(len(small) + 1) for start in range(end)}
            if candidate not in self._taken and not parts & self._found.keys():
                self._taken.add(candidate)
                return candidate
        return "█" * number


class _Tree:
    """Many texts by their letters, so that all of them are searched for at once."""

    def __init__(self) -> None:
        self._root: dict[str, Any] = {}

    def add(self, spelling: str, text: str) -> None:
        node = self._root
        for letter in spelling:
            node = node.setdefault(letter, {})
        node.setdefault("", text)

    def search(self, text: str, is_word: Callable[[str], bool]) -> Iterator[tuple[int, int, str]]:
        """Where texts stand, from left to right, the longest first. What `is_word` has to stand alone."""
        small = _small(text)
        begins = re.compile(f"[{re.escape(''.join(self._root))}]")
        start = 0
        while (match := begins.search(small, start)) is not None:
            start = match.start()
            node, best = self._root, None
            for end in range(start, len(small)):
                node = node.get(small[end])
                if node is None:
                    break
                found = node.get("")
                if found is not None and (not is_word(found) or _stands_alone(small, start, end + 1)):
                    best = end + 1, found
            if best is None:
                start += 1
            else:
                yield start, *best
                start = best[0]


def _stands_alone(text: str, start: int, end: int) -> bool:
    """Is it no part of a longer word? A line end that JSON has written as a letter is none."""
    before = start == 0 or not text[start - 1].isalnum() or text[max(0, start - 2) : start] in _ESCAPES
    return before and (end == len(text) or not text[end].isalnum())


def _small(text: str) -> str:
    """In small letters, each of which stands where its large one stood."""
    small = text.translate(_ONE_LETTER).lower()
    return small if len(small) == len(text) else "".join(one if len(one.lower()) > 1 else one.lower() for one in text)


def _letters(number: int) -> str:
    """A number in letters."""
    text = ""
    while number:
        number, rest = divmod(number - 1, 26)
        text = chr(ord("a") + rest) + text
    return text


def _spellings(text: str) -> Iterator[str]:
    """A text as it may stand somewhere: in other letters, inside JSON, in an address."""
    for one in (text, text.upper(), text.title(), text.casefold()):
        yield one
        yield json.dumps(one)[1:-1]
        yield json.dumps(one, ensure_ascii=False)[1:-1]
        yield quote(one)
        yield quote(one, safe="")


def anonymise(transcripts: Sequence[Transcript], further: Iterable[str] = ()) -> tuple[list[Transcript], Anonymiser]:
    """Copies of conversations with stand-ins, and what was done. `further`: other texts that are written."""
    anonymiser = Anonymiser()
    for text in (*further, *(text for one in transcripts for text in _texts(one))):
        anonymiser.look(text)
    return [_with_stand_ins(one, anonymiser.replace) for one in transcripts], anonymiser


def _texts(transcript: Transcript) -> Iterator[str]:
    yield from (transcript.id, transcript.title, transcript.source, *transcript.tags)
    for said in transcript.messages:
        yield said.message.content
        yield said.message.tool_call_id
        for call in said.message.tool_calls:
            yield from (call.id, call.name, call.result or "", call.arguments)
            yield from _inner_texts(_decoded(call.arguments))


def _inner_texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        for one in value:
            yield from _inner_texts(one)
    elif isinstance(value, dict):
        for key, one in value.items():
            yield key
            yield from _inner_texts(one)


def _decoded(text: str) -> Any:
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):
        return None


def _with_stand_ins(transcript: Transcript, replace: Callable[[str], str]) -> Transcript:
    def in_arguments(text: str) -> str:
        """Inside JSON each text is replaced by itself, so that it stays JSON."""
        value = _decoded(text)
        return replace(text) if value is None else msgspec.json.encode(_each(value)).decode()

    def _each(value: Any) -> Any:
        if isinstance(value, str):
            return replace(value)
        if isinstance(value, list):
            return [_each(one) for one in value]
        if isinstance(value, dict):
            return {replace(key): _each(one) for key, one in value.items()}
        if isinstance(value, int | float) and not isinstance(value, bool):
            written = msgspec.json.encode(value).decode()
            changed = replace(written)
            return value if changed == written else changed
        return value

    def call(one: ToolCall) -> ToolCall:
        return structs.replace(
            one,
            id=replace(one.id),
            name=replace(one.name),
            arguments=in_arguments(one.arguments),
            result=None if one.result is None else replace(one.result),
        )

    def said(one: Said) -> Said:
        message = one.message
        calls = tuple(map(call, message.tool_calls))
        copy = ChatMessage(message.role, replace(message.content), calls, replace(message.tool_call_id))
        return structs.replace(one, message=copy, thinking=None, model=one.model and replace(one.model))

    return structs.replace(
        transcript,
        id=replace(transcript.id),
        title=replace(transcript.title),
        source=replace(transcript.source),
        tags=tuple(map(replace, transcript.tags)),
        messages=tuple(map(said, transcript.messages)),
    )
