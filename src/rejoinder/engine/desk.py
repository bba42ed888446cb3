"""The desk where a run's targets are kept: their providers, how long they may take, how often they are asked again."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from msgspec import structs

from rejoinder.engine.plan import RunOptions
from rejoinder.engine.play import Retries
from rejoinder.model import Suite, Target
from rejoinder.providers import Provider, open_provider

DEFAULT_TIMEOUT_S = 300.0


class TargetDesk:
    """Providers, one for each target, opened before anything is sent."""

    def __init__(self, options: RunOptions, secrets: dict[str, str]) -> None:
        self._options = options
        self._secrets = secrets
        self._providers: dict[int, Provider] = {}
        self._kept: list[Target] = []
        self._rules: dict[int, tuple[Retries, float | None]] = {}

    def open_all(self, targets: Iterable[tuple[Suite, Target]]) -> None:
        for suite, target in targets:
            self._open(suite, target)

    def provider(self, target: Target) -> Provider:
        return self._providers[id(self._known(target))]

    def rules(self, target: Target) -> tuple[Retries, float | None]:
        return self._rules[id(self._known(target))]

    async def close(self) -> None:
        for provider in self._providers.values():
            await provider.close()

    def _known(self, target: Target) -> Target:
        if id(target) in self._providers:
            return target
        return next(one for one in self._kept if one == target)

    def _open(self, suite: Suite, target: Target) -> None:
        if any(one == target for one in self._kept):
            return
        ready = target
        if "${{" in repr(target.settings):
            from rejoinder.suite.project import open_project  # noqa: PLC0415 - only for settings that need it
            from rejoinder.suite.targets import settings_with_environment  # noqa: PLC0415

            environment = open_project(Path(suite.path).parent).environment
            settings, secrets = settings_with_environment(target, environment)
            self._secrets.update(secrets)
            ready = structs.replace(target, settings=settings)
        folders = (str(Path(suite.path).parent), suite.root)
        self._kept.append(target)
        self._providers[id(target)] = open_provider(ready, folders)
        self._rules[id(target)] = (self._retries(target), self._timeout(target))

    def _retries(self, target: Target) -> Retries:
        given = target.settings
        most = self._options.max_retries
        return Retries(
            most=given.get("max_retries", 3) if most is None else most,
            first_delay_s=given.get("retry_initial_delay_ms", 1000) / 1000,
            longest_delay_s=given.get("retry_max_delay_ms", 60_000) / 1000,
            factor=given.get("retry_backoff_factor", 2),
        )

    def _timeout(self, target: Target) -> float | None:
        if self._options.timeout_s is not None:
            return self._options.timeout_s
        given = target.settings.get("timeout_seconds", target.settings.get("timeoutSeconds"))
        if given is not None:
            return float(given)
        return None if target.provider == "scripted" else DEFAULT_TIMEOUT_S
