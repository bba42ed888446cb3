"""Paths inside a document: `("evals", 0, "checks")`, written as `evals[0].checks`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TypeAlias

DocumentPath: TypeAlias = tuple[str | int, ...]

_STEP = re.compile(r"([^.\[\]]+)|\[(\d+)\]")


def write_path(path: Sequence[str | int]) -> str:
    text = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path)
    return text.removeprefix(".")


def read_path(text: str) -> DocumentPath:
    """The inverse of `write_path`, for paths made of the schema's own keys."""
    return tuple(int(index) if index else key for key, index in _STEP.findall(text))
