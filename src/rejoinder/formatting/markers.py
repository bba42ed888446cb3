"""Role markers, and lines of text that could be mistaken for one."""

from __future__ import annotations

import re
from functools import lru_cache

from rejoinder.model import ROLES, Role


def marker_for(role: Role, template: str) -> str:
    """The marker of a role: `{Role}` becomes `User`, `{role}` `user` and `{ROLE}` `USER`."""
    return template.replace("{Role}", role.capitalize()).replace("{role}", role).replace("{ROLE}", role.upper())


def has_marker_line(text: str, template: str) -> bool:
    return _marker_line(template).search(text) is not None


def escape_marker_lines(text: str, template: str) -> str:
    """A backslash directly before each marker that begins a line."""
    return _marker_line(template).sub(lambda found: f"{found[1]}\\{found[2]}", text)


@lru_cache(maxsize=16)
def _marker_line(template: str) -> re.Pattern[str]:
    markers = "|".join(re.escape(marker_for(role, template)) for role in ROLES)
    return re.compile(rf"^([ \t]*)({markers})", re.IGNORECASE | re.MULTILINE)
