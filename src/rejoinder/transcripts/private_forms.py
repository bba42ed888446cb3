"""Forms of personal data and of keys, by which they are found in a text.

A name has no form: it is found if the words around it introduce it.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from ipaddress import ip_address

from msgspec import Struct

from rejoinder.model.secret_forms import KNOWN_KEY, SECRET_WORDS

_NAME = r"[^\W\d_]{1,40}+(?:['’-][^\W\d_]{1,40}+){0,3}+"
_CAPITAL = rf"(?=[A-ZÀ-ÖØ-ÞĀ-Ž]){_NAME}"
_FULL = rf"{_CAPITAL}(?:[ \t]+{_CAPITAL}){{0,3}}"
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
"""Words that often follow such an introduction but are not names, and words of suites."""
_AFTER_NAME = frozenset(
    {"already", "also", "and", "correct", "listed", "missing", "spelled", "spelt", "still", "wrong"}
)
"""Words that follow `my name is` and are not names."""
OPEN_HOSTS = re.compile(r"(?:.*\.)?(?:localhost|example|example\.(?:com|org|net)|test|invalid)", re.IGNORECASE)
_COMMON_IPS = frozenset({"127.0.0.1", "0.0.0.0", "::1", "::", "255.255.255.255"})
_LEAST_DIGITS = 7
_CLOSERS = r"(?:best|kind|warm|many thanks|thanks|thank you|sincerely|regards|cheers|yours|greetings|all the best)"


class Pattern(Struct, frozen=True):
    kind: str
    regex: re.Pattern[str]
    fits: Callable[[str], bool]


def _anything(_text: str) -> bool:
    return True


def _is_host(text: str) -> bool:
    return not OPEN_HOSTS.fullmatch(text) and not _is_ip(text) and text not in _COMMON_IPS


def _is_phone(text: str) -> bool:
    """Whether it is a phone number. Dates have dashes between their numbers, too."""
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


def is_name(text: str) -> bool:
    return len(text) > 1 and text.casefold() not in _NOT_NAMES


def _is_likely_name(text: str) -> bool:
    """Whether a word in small letters, which may be any word, is a name: `my name is not on the list`."""
    return len(text) > 2 and is_name(text) and text.casefold() not in _AFTER_NAME


def _is_key(text: str) -> bool:
    return len(set(text)) > 4 and not text.startswith(("{{", "${{", "<"))


_KEY_VALUE = r"""(?P<x>[^\s"'\\,;&}\])]{8,})"""
_PEM = r"-----BEGIN [A-Z ]{0,30}PRIVATE KEY-----"
_LETTER = "A-Za-z0-9\u00c0-\u02af\u0370-\u052f"
"""Latin, Greek and Cyrillic: other scripts put no space between an address and the words around it."""
_LINE_START = r"(?:(?m:^)|(?<=\\n))[ \t]*"
_LINE_END = r"(?=[,!:.]|[ \t]*(?:$|\n|\\n))"
_TITLE = r"(?i:mr|mrs|ms|dr|prof)"
_SCHEMES = r"https?|wss?|ftp|ssh|git|postgres(?:ql)?|mysql|redis|mongodb"
_HEADERS = r"from|to|cc|bcc|author|reply-to|signed-off-by|co-authored-by|customer|(?:full|customer) name"
_NAME_KEYS = r"(?:first|last|full|middle|customer|contact|user|given|family)[-_ ]?name|surname|username"
_INTRODUCED = r"(?:\b(?:my|his|her|their|the customer's) name is|\bname's|\bi am called|\bcall me)"
_I_AM = r"\bi(?:['’]m| am)"
_GREETING = r"\b(?:hi|hello|hey|good (?:morning|afternoon|evening|day))(?:[ \t]\w{1,20}){0,2}[ \t,.!-]{1,4}"
_SPEAKING = r"(?:speaking|here|calling|writing|again|from)\b"

_FORMS: tuple[tuple[str, str, Callable[[str], bool]], ...] = (
    ("key", rf"{_PEM}(?:[^-]|-(?!----))++-----END [A-Z ]{{0,30}}PRIVATE KEY-----", _anything),
    ("key", rf"{_PEM}(?P<x>(?:(?:\s|\\[rn])++[A-Za-z0-9+/=]{{8,}}+)++)", _anything),
    ("key", KNOWN_KEY, _anything),
    ("key", r"\beyJ[\w-]{8,2000}\.[\w-]{8,4000}\.[\w-]{4,}", _anything),
    ("key", rf"(?i)\b(?:bearer|basic)\s+{_KEY_VALUE}", _is_key),
    ("key", rf"""(?i)(?:{SECRET_WORDS})s?\\?["']?\s{{0,9}}(?:[:=]|\bis\b)\s{{0,9}}\\?["']?{_KEY_VALUE}""", _is_key),
    ("key", r"//[^\s/@:]{0,99}:(?P<x>[^\s/@]{3,999})(?=@)", _anything),
    ("email", rf"[{_LETTER}._%+'-]{{1,64}}@[{_LETTER}-]{{1,63}}(?:\.[{_LETTER}-]{{1,63}})+", _anything),
    ("iban", r"\b[A-Z]{2}\d{2}(?:[ ]?[A-Z0-9]){11,30}\b", _is_iban),
    ("uuid", r"(?i)(?<![0-9a-f])[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}(?![0-9a-f])", _anything),
    ("uuid", r"(?i)(?<![0-9a-z])(?=[a-f]*\d)(?=\d*[a-f])[0-9a-f]{16,64}(?![0-9a-z])", _anything),
    ("card", r"(?<!\d)\d(?:[ -]?\d){12,18}(?!\d)", _passes_luhn),
    ("ip", r"(?<![\d.])(?:\d{1,3}\.){3}\d{1,3}(?!\d|\.\d)", _is_ip),
    ("ip", r"(?i)(?<![\w:.])(?:[0-9a-f]{0,4}:){2,7}(?:[0-9a-f]{1,4}|(?<=::))(?![\w:])", _is_ip),
    ("host", rf"(?i)\b(?:{_SCHEMES})://(?:[^\s/@]{{0,999}}@)?(?P<x>[\w.-]*\w)", _is_host),
    ("user", r"(?i)(?:/home/|/users/|\\users\\|\\\\users\\\\)(?P<x>[^\s/\\\"':]{2,99})", is_name),
    ("phone", r"(?<![\w.])(?:\+|00)\d(?:[ ()./-]{0,2}\d){6,14}(?!\d)", _anything),
    ("phone", r"(?<![\w.-])\(?\d{2,5}\)?[ /-]\d{2,4}(?:[ -]\d{2,5}){1,3}(?![\w.-]?\d)", _is_phone),
    ("phone", r"(?<![\w.])\d{2,4}(?:\.\d{2,4}){2,4}(?![\w.]?\d)", _is_phone),
    ("number", rf"(?<!\d)(?<!\d\.)\d{{{_LEAST_DIGITS},}}(?!\d)", _anything),
    ("name", rf"(?i:{_INTRODUCED})[ \t]{{1,9}}(?P<x>{_FULL})", _anything),
    ("name", rf"(?i:\bmy name is)[ \t]{{1,9}}(?P<x>{_NAME})", _is_likely_name),
    ("name", rf"(?i:{_I_AM})[ \t]{{1,9}}(?P<x>{_CAPITAL}(?:[ \t]{{1,9}}{_CAPITAL}){{1,3}})", _anything),
    ("name", rf"(?i:{_GREETING}{_I_AM})[ \t]{{1,9}}(?P<x>{_CAPITAL})", _anything),
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
"""Kind, form and an additional condition. The group `x` of a form is replaced; without one, the whole match. Text found
by an earlier form is not searched by later ones."""


@cache
def patterns() -> list[Pattern]:
    """The forms, compiled when needed, which is rare."""
    return [Pattern(kind, re.compile(form), fits) for kind, form, fits in _FORMS]
