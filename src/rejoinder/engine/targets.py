"""The desk where a run's targets are kept: how each is asked, how often, for how long, and at what price."""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import structs

from rejoinder.checks import Post
from rejoinder.engine.budget import Amount
from rejoinder.engine.live import Retries, Terms
from rejoinder.engine.plan import RunOptions, identity_of
from rejoinder.engine.secrets import Mask
from rejoinder.environment import Loan, own_environment
from rejoinder.errors import RejoinderError, UsageError
from rejoinder.model import NO_USAGE, Cost, Failure, Reply, Request, Suite, Target, Usage
from rejoinder.providers import FREE, OVER_HTTP, RUNS_CODE, ProviderError, open_provider
from rejoinder.providers.base import Foresees
from rejoinder.providers.bounds import bounds_of
from rejoinder.providers.exchange import Exchange
from rejoinder.providers.settings import one_spelling
from rejoinder.suite.paths import list_words
from rejoinder.suite.project import Environment
from rejoinder.user_code import FunctionFault

if TYPE_CHECKING:
    from rejoinder.providers.api import Outgoing
    from rejoinder.providers.limits import LimiterReport
    from rejoinder.providers.prices import PriceList
    from rejoinder.providers.transport import Transport

DEFAULT_TIMEOUT_S = 300.0
EXAMPLE_TOKENS = 4096


class TargetDesk:
    """Providers, one for each target, opened before anything is sent."""

    def __init__(self, options: RunOptions) -> None:
        self._options = options
        self._exchange = Exchange(_load_prices_aside)
        self._terms: dict[int, Terms] = {}
        self._models: dict[int, str | None] = {}
        self._ready: dict[int, Target] = {}
        """Each target with its `${{ VAR }}` filled in."""
        self._suites: dict[int, Suite] = {}
        """For each target a suite that names it: prices and environment are its project's."""
        self._environments: dict[str, Mapping[str, str]] = {}
        self._price_lists: dict[int, PriceList] = {}
        self._poster: Transport | None = None
        self.loan = Loan()

    @property
    def are_paid(self) -> bool:
        """May somebody want money for an answer?"""
        return any(terms.target.provider in OVER_HTTP for terms in self._terms.values())

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

    def secrets_of(self, suites: Iterable[Suite]) -> dict[str, str]:
        """Those of suites as well, and of their targets that are not asked: a run's copy of its suites has them too."""
        own: dict[str, str] = {}
        for suite in suites:
            own.update(suite.secrets)
            for target in suite.targets.values():
                if target.provider not in FREE:  # they have no keys, but may have very many replies
                    self._exchange.hide_settings(target.name, one_spelling(target.settings))
        # What the author calls by a name keeps it: on another machine another value may be meant.
        return {**self.secrets, **own}

    def lend_environment(self, suites: Iterable[Suite]) -> None:
        """Let the user's own code in this process see the variables of its `.env` files, until the desk is closed."""
        for suite in suites:
            self._exchange.hide_variables(self.loan.add(self._read_environment(suite), suite.path))

    def add_traceback(self, error: RejoinderError, suites: Iterable[Suite]) -> None:
        """Show how the user's own code came to fail, where there is no run yet whose log could hold it."""
        fault = error.__cause__
        if isinstance(fault, FunctionFault) and fault.traceback:
            error.hint = Mask(self.secrets_of(suites)).hide_text(fault.traceback.rstrip())

    def hide_keys(self, targets: Iterable[tuple[Suite, Target]]) -> None:
        """Learn the keys that targets have in the environment, where nobody is asked: recordings may speak of them."""
        aside = TargetDesk(self._options)
        for suite, target in targets:
            if target.provider in OVER_HTTP:
                with contextlib.suppress(RejoinderError):  # then it has none
                    aside.open_all([(suite, target)])
        for value, name in aside.secrets.items():
            self.secrets.setdefault(value, name)

    def reveal_with(self, reveal: Callable[[str], str]) -> None:
        """Say how secrets are put back into what was recorded without them."""
        self._exchange.reveal = reveal

    def is_open(self, target: Target) -> bool:
        return id(target) in self._terms

    def terms(self, target: Target) -> Terms:
        return self._terms[id(target)]

    def model_of(self, target: Target) -> str | None:
        """The model or deployment that a target asks for, with its `${{ VAR }}` filled in."""
        return self._models[id(self.terms(target).target)]

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
        if reply.cost is not None:
            return {}
        cost = self._cost(terms, reply.usage, reply.model)
        return {} if cost is None else {"cost": cost.total, "price": cost}

    def _cost(self, terms: Terms, usage: Usage, reported: str | None) -> Cost | None:
        target = terms.target
        if target.provider not in OVER_HTTP and not self._suites[id(target)].prices:
            return None
        prices = self._price_lists.get(id(target)) or self._prices_of(target)
        try:
            return prices.price(target.provider, terms.model, usage, reported_model=reported, target=target.name)
        except (ArithmeticError, ImportError, LookupError, TypeError, ValueError):
            return None  # a reply that was paid for is not lost because its price cannot be told

    def most(self, terms: Terms, request: Request) -> Amount:
        """What a call can cost at most, by the request as it goes out."""
        if terms.target.provider in FREE:
            usage = terms.provider.foresee(request) if isinstance(terms.provider, Foresees) else NO_USAGE
            cost = self._cost(terms, usage, None)
            return Amount(0.0 if cost is None else cost.total, usage.total_tokens)
        given, made = self._most_tokens(terms, request)
        made = made or 0
        if self._options.budget_usd is None:
            return Amount(0.0, given + made)
        # What is read from a cache, written to one or thought may have a price of its own, and a higher one.
        inputs = (0, 0), (given, 0), (0, given)
        usages = [Usage(given, made, thought, False, *one) for one in inputs for thought in (0, made)]
        # A deployment may turn out to be another model than its target says.
        models = {None, terms.reported} if self._hangs_on_the_reply(terms) else {None}
        costs = [self._cost(terms, usage, model) for usage in usages for model in models]
        return Amount(max((cost.total for cost in costs if cost is not None), default=inf), given + made)

    def knows_price(self, terms: Terms) -> bool:
        """Is it known what the target's calls cost, before the first reply says which model it came from?"""
        return self._options.budget_usd is None or terms.reported is not None or not self._hangs_on_the_reply(terms)

    def _hangs_on_the_reply(self, terms: Terms) -> bool:
        target = terms.target
        if target.provider not in OVER_HTTP:
            return False
        prices = self._price_lists.get(id(target)) or self._prices_of(target)
        return prices.hangs_on_the_reply(target.provider, terms.model, target.name)

    def _most_tokens(self, terms: Terms, request: Request) -> tuple[int, int | None]:
        """The most tokens that a call can be given and can make; None where nothing limits those."""
        outgoing = _written(terms, request)
        if outgoing is None or outgoing.body is None:
            return 0, None if request.embed is None else 0
        bounds = bounds_of(outgoing.body, embeds=request.embed is not None)
        return bounds.input_tokens, bounds.output_tokens

    def words_of(self, target: Target, request: Request) -> bytes:
        """All that an answer to the request depends on, as far as anybody can see: what goes out, and where to."""
        outgoing = _written(self.terms(target), request)
        if outgoing is None:
            who = identity_of(structs.replace(self._ready[id(self.terms(target).target)], name=""))
            return who + msgspec.json.encode((request.messages, request.question, request.embed))
        own = sorted((name, value) for name, value in outgoing.headers.items() if not _OF_THE_CALLER.search(name))
        return msgspec.json.encode((target.provider, outgoing.method, outgoing.url, own, outgoing.body))

    def refuse_unbounded(self, targets: Iterable[Target], embedders: Collection[Target] = ()) -> None:
        """Under a budget it has to be known what a call can cost at most. Raises UsageError before anything is sent.

        `embedders` are asked for nothing but vectors: they make no tokens.
        """
        for target in targets:
            if target.provider in FREE:
                continue
            terms, embeds = self.terms(target), any(target is one for one in embedders)
            if target.provider not in OVER_HTTP or target.provider == "http":
                raise UsageError(
                    f"nobody can say what a call of target `{target.name}` costs at most, so no budget can hold for it",
                    "Leave out the budget, or the target.",
                )
            if not embeds and self._most_tokens(terms, _anything(target))[1] is None:
                raise UsageError(
                    f"a budget needs to know how long a reply of target `{target.name}` can be",
                    f"Say it for all targets that do not: --max-tokens {EXAMPLE_TOKENS}. Or set `max_tokens` of the"
                    " target, before its first run: a target that was changed is asked anew.",
                )
            if self._options.budget_usd is not None and self._cost(terms, Usage(1, 0 if embeds else 1), None) is None:
                model = self.model_of(target) or target.name
                raise UsageError(
                    f"nobody knows the price of `{target.provider}/{model}`, so a budget in dollars cannot hold",
                    "Say it under `prices` in .rejoinder/config.yaml (dollars for a million tokens), for example"
                    f" prices: {{{target.name}: {{input: 1, output: 3}}}}, or have a budget in tokens alone"
                    " (--budget-tokens).",
                )

    def advice(self, terms: Terms, error: ProviderError) -> str:
        """The known models that are nearest to one that the provider does not have."""
        if error.status != 404 or terms.model is None or terms.target.provider not in OVER_HTTP:
            return ""
        from rejoinder.providers.prices import nearest_models

        near = nearest_models(terms.target.provider, terms.model)
        return f"; known models are {list_words([f'`{one}`' for one in near])}" if near else ""

    async def post(self, post: Post) -> str:
        """Send what a check has for an address of the user's; a refusal is no verdict."""
        from rejoinder.providers.transport import Transport

        if self._poster is None:
            self._poster = Transport(own_environment())
        answer = await self._poster.send("POST", post.url, post.headers, post.body, timeout_s=post.timeout_s)
        body = answer.body.decode("utf-8", "replace")
        if not 200 <= answer.status < 300:
            raise ProviderError(f"it answered {answer.status}: {body[:200]}".rstrip(": "), status=answer.status)
        return body

    async def close(self) -> None:
        self.loan.close()  # also where there was no run, but a probe
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
        from rejoinder.providers.prices import PriceList

        self._price_lists[id(target)] = PriceList(self._suites[id(target)].prices)
        return self._price_lists[id(target)]

    def _open(self, suite: Suite, target: Target) -> None:
        ready, environment = target, self._environment(suite, target)
        if "${{" in repr(target.settings):
            from rejoinder.suite.targets import settings_with_environment

            settings, secrets = settings_with_environment(target, environment)
            for value, name in secrets.items():
                self._exchange.hide(value, name)
            ready = structs.replace(target, settings=settings)
        own = one_spelling(ready.settings).get("max_output_tokens")
        if self._options.max_tokens is not None and own in (None, "") and target.provider in OVER_HTTP:
            # In front, because the first spelling wins, and an empty one may be there.
            ready = structs.replace(ready, settings={"max_tokens": self._options.max_tokens, **ready.settings})
        self._ready[id(target)] = ready
        folders = (str(Path(suite.path).parent), suite.root)
        try:
            provider = open_provider(ready, folders, environment, self._exchange)
        except RejoinderError as error:
            error.message = Mask(self.secrets_of([suite])).hide_text(error.message)
            raise
        if isinstance(environment, Environment) and environment.files and target.provider in OVER_HTTP:
            from rejoinder.engine.env_trust import refuse_foreign_address

            refuse_foreign_address(target, ready, provider, environment, self._exchange.secrets, self._options)
        slots = asyncio.Semaphore(target.workers) if target.workers else None
        settings = one_spelling(ready.settings)
        model = settings.get("model")
        named = model or settings.get("deployment")
        self._models[id(target)] = None if named is None else str(named)
        self._terms[id(target)] = Terms(target, provider, self._retries(settings), self._timeout(target), model, slots)
        self._suites[id(target)] = suite

    def _environment(self, suite: Suite, target: Target) -> Mapping[str, str]:
        if target.provider not in OVER_HTTP and "${{" not in repr(target.settings):
            return {}
        return self._read_environment(suite)

    def _read_environment(self, suite: Suite) -> Mapping[str, str]:
        if suite.path not in self._environments:
            from rejoinder.suite.project import read_environment

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
            most_together=most,
        )

    def _timeout(self, target: Target) -> float | None:
        if self._options.timeout_s is not None:
            return self._options.timeout_s
        given = one_spelling(target.settings).get("timeout_seconds")
        if given is not None:
            return float(given)
        return None if target.provider in FREE else DEFAULT_TIMEOUT_S


def known_secrets(
    suites: Iterable[Suite], targets: Iterable[tuple[Suite, Target]], options: RunOptions
) -> dict[str, str]:
    """The secrets that recordings of suites may speak of, each with its name, as far as they are to be had."""
    desk = TargetDesk(options)
    desk.hide_keys(targets)
    return desk.secrets_of(suites)


_OF_THE_CALLER = re.compile(r"auth|key|token|secret|cookie", re.IGNORECASE)
"""Headers that say who asks, and not what."""


def _written(terms: Terms, request: Request) -> Outgoing | None:
    """The request as it goes out, where it goes over HTTP."""
    if terms.target.provider not in OVER_HTTP:
        return None
    from rejoinder.providers.api import ApiProvider

    assert isinstance(terms.provider, ApiProvider)
    return terms.provider.write(request)


def _anything(target: Target) -> Request:
    """A request to see what others will be like."""
    return Request(target=target.name, case_id="", trial=1, turn=1, call=0, messages=(), question="")


def _load_prices_aside() -> None:
    """The first request is out: there is time to load the table of prices before its answer is here."""
    from threading import Thread

    Thread(target=load_prices, name="rejoinder-prices", daemon=True).start()


def load_prices() -> None:
    with contextlib.suppress(ImportError, OSError):  # whoever needs a price then is told
        from rejoinder.providers.prices import load_table

        load_table()
