"""An agent's workspace as checks see it, and the content of a diff."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

from msgspec import Struct

_HUNK = re.compile(r"@@ -\d+(?:,(\d+))? \+\d+(?:,(\d+))? @@")


_CUT = re.compile(r"^(?:Lines of .* are left out|\.\.\. and \d+ more files)$", re.MULTILINE)


def is_cut(diff: str) -> bool:
    """Whether a diff is too long to hold all lines."""
    return _CUT.search(diff) is not None


class Workspace(Protocol):
    """The folder that an agent works in during a conversation."""

    workspace: Path

    def changed(self) -> Mapping[str, str]:
        """The files that changed since the start, each with `added`, `changed` or `deleted`."""
        ...


class ChangedLines(Struct, frozen=True):
    """The numbers of lines that a diff adds and removes, and its lines that are not file content: headers and
    remarks."""

    added: int
    removed: int
    headers: tuple[str, ...]


def count_lines(diff: str) -> ChangedLines:
    """Count the lines of a unified diff. The length of a hunk is in its header, and decides: the first characters of a
    line do not, because a removed `-- comment` looks like a header."""
    added = removed = old = new = 0
    headers: list[str] = []
    for line in diff.removesuffix("\n").split("\n"):
        if line.startswith("\\"):  # no newline at the end of the file
            continue
        if old <= 0 and new <= 0:
            if hunk := _HUNK.match(line):
                old, new = (int(length or 1) for length in hunk.groups())
            elif line:
                headers.append(line)
            continue
        is_added, is_removed = line.startswith("+"), line.startswith("-")
        added, removed = added + is_added, removed + is_removed
        old, new = old - (not is_added), new - (not is_removed)
    return ChangedLines(added, removed, tuple(headers))
