"""One line of YAML in its parts: dashes, a key, a value; and the same line with the value in quotes."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any

from msgspec import Struct

from rejoinder.suite.schema import read_schema

_LINE = re.compile(
    r"""^(?P<head>\s*(?:-\ +)*)
        (?:(?P<key>"[^"]*"|'[^']*'|[^\s'"#\[{][^:]*?):(?P<gap>[ \t]+|$))?
        (?P<value>.*)$""",
    re.VERBOSE | re.DOTALL,
)


class Line(Struct, frozen=True):
    head: str
    """The indentation and the dashes."""
    key: str
    """Empty if missing."""
    before: str
    """The text before the value."""
    value: str

    @property
    def column(self) -> int:
        """The first column of the value, counted from 1."""
        return len(self.before) + 1

    @property
    def indentation(self) -> int:
        return len(self.head) - len(self.head.lstrip())


def read_line(text: str) -> Line:
    found = _LINE.match(text.rstrip())
    assert found is not None, "a line has no end of a line in it"
    return Line(found["head"], found["key"] or "", text[: found.start("value")], found["value"])


def in_double_quotes(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def quote_value(text: str) -> str | None:
    """The line with everything after its first `key: ` in double quotes; None if text is not allowed there."""
    line = read_line(text)
    if not line.value or not (line.key or line.head.strip()) or refuses_text(line.key):
        return None
    return f"{line.before}{in_double_quotes(line.value)}"


@lru_cache(maxsize=1)
def _types() -> dict[str, set[str]]:
    """Every key in the schema, with the types that its value may have anywhere."""
    found: dict[str, set[str]] = {}
    waiting: list[Any] = [read_schema()]
    while waiting:
        current = waiting.pop()
        if isinstance(current, dict):
            for key, rule in current.get("properties", {}).items():
                types = rule.get("type", "string" if "enum" in rule else ()) if isinstance(rule, dict) else ()
                found.setdefault(key, set()).update([types] if isinstance(types, str) else types)
            waiting.extend(current.values())
        elif isinstance(current, list):
            waiting.extend(current)
    return found


def is_known(key: str) -> bool:
    return key in _types()


def takes_text(key: str) -> bool:
    return "string" in _types().get(key, ())


def refuses_text(key: str) -> bool:
    """Whether this is a key whose value is never text, such as `checks`."""
    return is_known(key) and not takes_text(key)
