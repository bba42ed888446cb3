"""Mistakes in files: what, where, why, and the corrected line."""

from __future__ import annotations

import re
from typing import Any, Literal

from msgspec import Struct, structs

from rejoinder.model.secret_forms import KNOWN_KEY

_BEFORE = r"""s?["']?\s*[:=]\s*+["'\[]*+(?:(?:Bearer|Basic)\s+)?+(?!\$?\{\{)"""
_VALUE = r"""[^\s"'\],}&]"""
_KEY = (
    rf"""(?P<a>(?i:api[-_]?(?:key|kee|token)|authorization|passw(?:or)?d|pwd|secret|access[-_]?key){_BEFORE}){_VALUE}{{4,}}"""
    rf"""|(?P<b>(?i:key|token|auth|credential|cookie|session|signature){_BEFORE})(?={_VALUE}*\d){_VALUE}{{12,}}"""
    r"""|(?P<c>//[^\s/@:]*:)[^\s/@]+(?=@)"""
    rf"""|(?P<d>){KNOWN_KEY}"""
)
"""A literal key or password in a line: found by its name, its place in an address, or its first letters. Compiled when
the first mistake is found."""


class Problem(Struct, frozen=True, kw_only=True):
    code: str
    message: str
    file: str
    path: str = ""
    """The place inside the document, such as `evals[0].checks[1].match`."""
    line: int = 1
    """0 if a program wrote the lines: the suite was given as a mapping."""
    column: int = 1
    severity: Literal["error", "warning"] = "error"
    suggestion: str | None = None
    """A line to paste in place of the wrong one."""
    key: str | None = None
    first_line: int | None = None
    source: str | None = None
    """The line itself."""

    def __post_init__(self) -> None:
        if self.source is not None and re.search(_KEY, self.source):
            # Errors end in logs that others read. A line to paste is of no use without the key, so there is none.
            message = self.message
            for found in re.finditer(_KEY, self.source):
                key = found[0].removeprefix(_before(found))
                message = message.replace(key, "*" * len(key))
            structs.force_setattr(self, "message", message)
            structs.force_setattr(self, "source", re.sub(_KEY, _starred, self.source))
            structs.force_setattr(self, "suggestion", None)
        if re.search(KNOWN_KEY, self.message):
            structs.force_setattr(self, "message", re.sub(KNOWN_KEY, lambda key: "*" * len(key[0]), self.message))

    @property
    def place(self) -> str:
        """`evals.yaml:3:5`; `shop: evals[0].prompt` if a program wrote the lines."""
        if not self.line:
            return f"{self.file}: {self.path}" if self.path else self.file
        return f"{self.file}:{self.line}:{self.column}"

    def as_record(self) -> dict[str, Any]:
        """The entry of `validate --format json`."""
        names = ("code", "path", "line", "column", "message", "suggestion", "key", "first_line")
        optional = {"suggestion", "key", "first_line"}
        record = {name: getattr(self, name) for name in names}
        return {name: value for name, value in record.items() if name not in optional or value is not None}


def _starred(found: re.Match[str]) -> str:
    """Stars of the same length, so that columns stay right."""
    before = _before(found)
    return before + "*" * (len(found[0]) - len(before))


def _before(found: re.Match[str]) -> str:
    return found[found.lastgroup or "d"]
