"""Targets: what a suite is pointed at."""

from __future__ import annotations

from typing import Any

from msgspec import Struct, field

from rejoinder.model.formats import Mode
from rejoinder.model.providers import row_of


class Target(Struct, frozen=True, kw_only=True):
    """A named provider with its settings. `settings` are as written: `${{ VAR }}` is filled in when used."""

    name: str
    provider: str
    settings: dict[str, Any] = field(default_factory=dict[str, Any])
    judge_target: str | None = None
    workers: int | None = None
    system_prompt: str | None = None
    file: str | None = None

    @property
    def mode(self) -> Mode:
        return "agent" if row_of(self.provider).agent else "lm"
