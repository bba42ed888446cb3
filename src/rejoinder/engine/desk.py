"""The desk where a run's targets are kept: how each is asked, how often, for how long, and at what price."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import structs

from rejoinder.checks import Post
from rejoinder.engine.asking import Retries, Terms
from rejoinder.engine.plan import RunOptions
from rejoinder.model import Failure, Reply, Suite, Target
from rejoinder.providers import FREE, OVER_HTTP, RUNS_CODE, ProviderError, open_provider
from rejoinder.providers.exchange import Exchange
from rejoinder.providers.settings import one_spelling

if TYPE_CHECKING:
    from rejoinder.providers.limits import LimiterReport
    from rejoinder.providers.prices import PriceList
    from rejoinder.providers.transport import Transport

DEFAULT_TIMEOUT_S = 300.0


class TargetDesk:
    """Providers, one for each target, opened before anything is sent."""

    def __init__(self, options: RunOptions) -> None:
        self._options = options
        self._exchange = Exchange(_load_prices_aside)
        self._terms: dict[int, Terms] = {}
        self._suites: dict[int, Suite] = {}
        """For each target a suite that names it: prices and environment are its project's."""
        self._environments: dict[str, Mapping[str, str]] = {}
        self._price_lists: dict[int, PriceList] = {}
        self._poster: Transport | None = None

    @property
    def secrets(self) -> dict[str, str]:
        """Values that the targets use and that must never be shown."""
        return self._exchange.secrets

    def open_all(self, targets: Iterable[tuple[Suite, Target]]) -> None:
        for suite, target in targets:
            known = self._known(suite, target)
            if known is None:
                self._open(suite, target)
            else:
                self._terms[id(target)] = self._terms[id(known)]
                self._suites[id(target)] = suite

    def hide_settings(self, targets: Iterable[Target]) -> None:
        """Learn the secrets of targets that are not asked: a run's copy of its suites has them too."""
        for target in targets:
            if target.provider not in FREE:  # they have no keys, but may have very many replies
                self._exchange.hide_settings(target.name, one_spelling(target.settings))

    def terms(self, target: Target) -> Terms:
        return self._terms[id(target)]

    def is_given_up(self, target: Target) -> bool:
        return self._terms[id(target)].ended is not None

    def endings(self) -> list[tuple[Target, Failure]]:
        """Targets that were given up, and why."""
        return [(one.target, one.ended) for one in self._all_terms() if one.ended is not None]

    def stop_waiting(self) -> None:
        self._exchange.stop_waiting()

    def limits(self) -> list[LimiterReport]:
        return self._exchange.reports()

    def price(self, terms: Terms, reply: Reply) -> dict[str, Any]:
        """The fields of a reply that say what it cost; none where nobody knows."""
        target = terms.target
        if reply.cost is not None or (target.provider not in OVER_HTTP and not self._suites[id(target)].prices):
            return {}
        prices = self._price_lists.get(id(target)) or self._prices_of(target)
        try:
            cost = prices.price(
                target.provider, terms.model, reply.usage, reported_model=reply.model, target=target.name
            )
        except (ArithmeticError, ImportError, LookupError, TypeError, ValueError):
            return {}  # a reply that was paid for is not lost because its price cannot be told
        return {} if cost is None else {"cost": cost.total, "price": cost}

    async def post(self, post: Post) -> str:
        """Send what a check has for an address of the user's; a refusal is no verdict."""
        from rejoinder.providers.transport import Transport  # noqa: PLC0415 - only for webhooks

        if self._poster is None:
            self._poster = Transport(os.environ)
        try:
            async with asyncio.timeout(post.timeout_s):
                answer = await self._poster.send("POST", post.url, post.headers, post.body)
        except TimeoutError:
            raise ProviderError(f"no answer within {post.timeout_s:g} s", type="timeout") from None
        body = answer.body.decode("utf-8", "replace")
        if not 200 <= answer.status < 300:
            raise ProviderError(f"it answered {answer.status}: {body[:200]}".rstrip(": "), status=answer.status)
        return body

    async def close(self) -> None:
        if self._poster is not None:
            await self._poster.close()
        for terms in self._all_terms():
            await terms.provider.close()
        await self._exchange.close()

    def _all_terms(self) -> Iterable[Terms]:
        return {id(terms): terms for terms in self._terms.values()}.values()

    def _known(self, suite: Suite, target: Target) -> Target | None:
        """A target that is open already and is the same in all respects, with the same keys and prices."""
        for terms in self._all_terms():
            one, other = terms.target, self._suites[id(terms.target)]
            same_place = other.root == suite.root and (
                Path(other.path).parent == Path(suite.path).parent if target.provider in RUNS_CODE else True
            )
            if one == target and same_place and self._environment(other, one) == self._environment(suite, target):
                return one
        return None

    def _prices_of(self, target: Target) -> PriceList:
        from rejoinder.providers.prices import PriceList  # noqa: PLC0415 - not before the first reply is here

        self._price_lists[id(target)] = PriceList(self._suites[id(target)].prices)
        return self._price_lists[id(target)]

    def _open(self, suite: Suite, target: Target) -> None:
        ready, environment = target, self._environment(suite, target)
        if "${{" in repr(target.settings):
            from rejoinder.suite.targets import settings_with_environment  # noqa: PLC0415 - only where one is used

            settings, secrets = settings_with_environment(target, environment)
            self.secrets.update(secrets)
            ready = structs.replace(target, settings=settings)
        folders = (str(Path(suite.path).parent), suite.root)
        provider = open_provider(ready, folders, environment, self._exchange)
        slots = asyncio.Semaphore(target.workers) if target.workers else None
        settings = one_spelling(ready.settings)
        model = settings.get("model")
        self._terms[id(target)] = Terms(target, provider, self._retries(settings), self._timeout(target), model, slots)
        self._suites[id(target)] = suite

    def _environment(self, suite: Suite, target: Target) -> Mapping[str, str]:
        if target.provider not in OVER_HTTP and "${{" not in repr(target.settings):
            return {}
        if suite.path not in self._environments:
            from rejoinder.suite.project import read_environment  # noqa: PLC0415

            start, root = Path(suite.path).parent, Path(suite.root)
            self._environments[suite.path] = read_environment(start, root, Path.cwd())
        return self._environments[suite.path]

    def _retries(self, settings: Mapping[str, Any]) -> Retries:
        most = settings.get("max_retries") if self._options.max_retries is None else self._options.max_retries
        usual = Retries()
        return Retries(
            most=usual.most if most is None else most,
            first_delay_s=settings.get("retry_initial_delay_ms", 1000) / 1000,
            longest_delay_s=settings.get("retry_max_delay_ms", 60_000) / 1000,
            factor=settings.get("retry_backoff_factor", 2),
            most_refusals=usual.most_refusals if most is None else most,
        )

    def _timeout(self, target: Target) -> float | None:
        if self._options.timeout_s is not None:
            return self._options.timeout_s
        given = one_spelling(target.settings).get("timeout_seconds")
        if given is not None:
            return float(given)
        return None if target.provider in FREE else DEFAULT_TIMEOUT_S


def _load_prices_aside() -> None:
    """The first request is out: there is time to load the table of prices before its answer is here."""
    from threading import Thread  # noqa: PLC0415 - only where something is sent

    def load() -> None:
        with contextlib.suppress(ImportError, OSError):  # whoever needs a price then is told
            from rejoinder.providers.prices import load_table  # noqa: PLC0415

            load_table()

    Thread(target=load, name="rejoinder-prices", daemon=True).start()
