"""Mistakes in files: what, where, why, and the line that would be right."""

from __future__ import annotations

from typing import Any, Literal

from msgspec import Struct


class Problem(Struct, frozen=True, kw_only=True):
    code: str
    message: str
    file: str
    path: str = ""
    """The place inside the document, such as `evals[0].checks[1].match`."""
    line: int = 1
    column: int = 1
    severity: Literal["error", "warning"] = "error"
    suggestion: str | None = None
    """A line that can be pasted in place of the wrong one."""
    key: str | None = None
    first_line: int | None = None
    source: str | None = None
    """The line itself."""

    @property
    def place(self) -> str:
        return f"{self.file}:{self.line}:{self.column}"

    def as_record(self) -> dict[str, Any]:
        """The entry of `validate --format json`."""
        names = ("code", "path", "line", "column", "message", "suggestion", "key", "first_line")
        optional = {"suggestion", "key", "first_line"}
        record = {name: getattr(self, name) for name in names}
        return {name: value for name, value in record.items() if name not in optional or value is not None}
