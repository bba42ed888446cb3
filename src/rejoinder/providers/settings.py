"""A target's settings with one spelling and the right types, however a file writes them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import isfinite, nan
from typing import Any

from msgspec import Struct

from rejoinder.errors import UsageError
from rejoinder.model import Target

_SPELLINGS = {
    "maxTokens": "max_output_tokens",
    "max_tokens": "max_output_tokens",
    "resource": "endpoint",
    "resourceName": "endpoint",
    "deploymentName": "deployment",
    "api_version": "version",
    "variant": "deployment",
    "attachments_format": "files_format",
    "attachmentsFormat": "files_format",
    "binary": "executable",
    "vscode_cmd": "executable",
    "vscodeCmd": "executable",
    "arguments": "args",
}
"""Other names of settings; camelCase is understood for all of them."""


def normalize_keys(settings: Mapping[str, Any]) -> dict[str, Any]:
    """The settings under our names for them. The first spelling that a file uses wins."""
    plain: dict[str, Any] = {}
    for name, value in settings.items():
        known = _SPELLINGS.get(name) or "".join(f"_{c.lower()}" if c.isupper() else c for c in name)
        plain.setdefault(known, value)
    return plain


def model_of(target: Target) -> str | None:
    """The model or deployment of a target, as written; it may hold a `${{ VAR }}`."""
    settings = normalize_keys(target.settings)
    name = settings.get("model") or settings.get("deployment")
    return str(name) if name else None


_BELOW_ZERO = frozenset({"seed", "thinking_budget"})
"""Whole numbers that may be below zero; Gemini has -1 for a budget of its own choice."""


class Sampling(Struct, frozen=True, kw_only=True):
    """Model parameters of a request besides the messages. None is not sent."""

    temperature: float | None = None
    top_p: float | None = None
    max_output_tokens: int | None = None
    seed: int | None = None
    stop: list[str] | None = None
    reasoning_effort: str | None = None
    thinking_budget: int | None = None


class Settings:
    """Reads the settings of one target; an invalid value is an error that names target and setting."""

    def __init__(self, target: Target, environment: Mapping[str, str]) -> None:
        self.target = target
        self.environment = environment
        self.values = normalize_keys(target.settings)

    def text(self, name: str) -> str | None:
        value = self.values.get(name)
        return None if value is None else str(value).strip() or None

    def from_environment(self, names: Iterable[str]) -> str | None:
        return next((value for name in names if (value := self.environment.get(name, "").strip())), None)

    def needed(self, name: str) -> str:
        value = self.text(name)
        if value is None:
            raise self.error(f"needs `{name}`")
        return value

    def mapping(self, name: str) -> dict[str, Any]:
        return dict(self.values.get(name) or {})

    def sampling(self, *refused: str, why: str = "") -> Sampling:
        """The model parameters. Settings that the API does not accept are errors: nothing is dropped silently."""
        for name in refused:
            if self.values.get(name) is not None:
                raise self.error(f"has a `{name}`, which {why} does not take")
        stop = self.values.get("stop")
        return Sampling(
            temperature=self._number("temperature"),
            top_p=self._number("top_p"),
            max_output_tokens=self._whole("max_output_tokens"),
            seed=self._whole("seed"),
            stop=[stop] if isinstance(stop, str) else stop,
            reasoning_effort=self.text("reasoning_effort"),
            thinking_budget=self._whole("thinking_budget"),
        )

    def error(self, what: str, hint: str | None = None) -> UsageError:
        return UsageError(f"target `{self.target.name}` {what}", hint)

    def _number(self, name: str) -> float | None:
        """A number; settings from the environment are texts."""
        value = self.values.get(name)
        if value is None or value == "":
            return None
        try:
            number = float(value)
        except ValueError:
            number = nan
        if not isfinite(number):
            raise self.error(f"has `{name}: {value}`, which is not a number")
        return number

    def _whole(self, name: str) -> int | None:
        value = self._number(name)
        if value is None:
            return None
        if value != int(value) or (value < 0 and name not in _BELOW_ZERO):
            raise self.error(f"has `{name}: {value:g}`, which is not a whole number of at least 0")
        return int(value)
