"""Times as people write them: `5ms`, `4s`, `2min`."""

from __future__ import annotations

import re

PATTERN = r"\s*([0-9]{1,15}(?:\.[0-9]{0,15})?)\s*(ms|s|min)\s*"
_SECONDS = {"ms": 0.001, "s": 1.0, "min": 60.0}


def seconds_of(text: str) -> float | None:
    """The seconds that a text stands for; None if it is not a time with a unit."""
    found = re.fullmatch(PATTERN, text)
    return None if found is None else float(found[1]) * _SECONDS[found[2]]
