"""What all providers of a run share: one transport, one limiter for each provider and key, the secrets in use."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from rejoinder.providers.limits import Limiter, LimiterReport

if TYPE_CHECKING:
    from rejoinder.providers.transport import Transport

_SECRET_HEADER = re.compile(r"key|token|secret|auth|cookie|pass", re.IGNORECASE)
_PASSWORD = re.compile(r"//[^/@\s]*:([^/@\s]+)@")


class Exchange:
    def __init__(self) -> None:
        self.secrets: dict[str, str] = {}
        """Values that must never be shown, with the name to show instead."""
        self._transport: Transport | None = None
        self._limiters: dict[tuple[str, str], Limiter] = {}

    def transport(self, environment: Mapping[str, str]) -> Transport:
        if self._transport is None:
            from rejoinder.providers.transport import Transport  # noqa: PLC0415 - brings the HTTP client

            for name in environment:
                if name.lower().endswith("_proxy"):
                    self._hide_passwords(environment[name], name)
            self._transport = Transport(environment)
        return self._transport

    def limiter(self, provider: str, address: str, key: str | None) -> Limiter:
        place = (address, key or "")
        if place not in self._limiters:
            self._limiters[place] = Limiter(provider)
        return self._limiters[place]

    def hide(self, value: str, name: str) -> None:
        self.secrets.setdefault(value, name)

    def hide_settings(self, target: str, settings: Mapping[str, Any]) -> None:
        """Secrets that a target's settings hold as they are, and not as the name of a variable."""
        for name, value in settings.items():
            if isinstance(value, str):
                self._hide_passwords(value, f"{name} of target {target}")
        for name, value in dict(settings.get("headers") or {}).items():
            if _SECRET_HEADER.search(name):
                self.hide(value, f"header {name} of target {target}")
                scheme, space, rest = value.partition(" ")
                if space and scheme.isalpha():  # `Bearer TOKEN`: the token alone is as secret
                    self.hide(rest.strip(), f"header {name} of target {target}")

    def reports(self) -> list[LimiterReport]:
        return [limiter.report() for limiter in self._limiters.values()]

    async def close(self) -> None:
        if self._transport is not None:
            await self._transport.close()

    def _hide_passwords(self, text: str, name: str) -> None:
        for password in _PASSWORD.findall(text):
            self.hide(password, f"password in {name}")
