"""Open targets: each with its provider, retries, timeout and prices, found by suite and name."""

from __future__ import annotations

import asyncio
import contextlib
import re
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from functools import cached_property
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, cast

import msgspec
from msgspec import structs

from rejoinder.engine.retries import NO_REFUSALS, Refusals, Tries, read_retries
from rejoinder.errors import RejoinderError, UsageError
from rejoinder.model import NO_USAGE, Cost, Failure, Reply, Request, Suite, Target, Usage
from rejoinder.model.given import GIVE_AGAIN
from rejoinder.model.providers import CALLABLE, row_of
from rejoinder.model.runs import LimiterResult, TargetCalls
from rejoinder.model.spending import Amount
from rejoinder.project.dotenv import Environment
from rejoinder.project.environment import Loan
from rejoinder.providers.base import KeepsHistory, PredictsUsage, Provider, ProviderError, RunsProgram
from rejoinder.providers.registry import info_of, is_plugin, open_provider
from rejoinder.providers.settings import model_of, normalize_keys
from rejoinder.providers.shared import Exchange
from rejoinder.runs.options import RunOptions
from rejoinder.runs.secrets import Mask, names_secret
from rejoinder.runs.target_identity import identity_of

if TYPE_CHECKING:
    from rejoinder.prices.price_list import PriceList
    from rejoinder.providers.http_api import Outgoing
    from rejoinder.providers.limits import Limiter
    from rejoinder.providers.own_service import OwnService

DEFAULT_TIMEOUT_S = 300.0
EXAMPLE_TOKENS = 4096
_OF_THE_CALLER = re.compile(r"auth|key|token|secret|cookie", re.IGNORECASE)
"""Headers that name the caller, on which no answer depends."""


class TargetState:
    """What a run has learned about a target."""

    def __init__(self) -> None:
        self.answered = False
        self.reported: str | None = None
        """The model that the last reply names."""
        self.ended: Failure | None = None
        """Why no further call is made: every one would fail in the same way."""
        self.calls = self.retried = 0
        """Calls with an outcome, and the number of calls that were repeated after an error."""
        self.errors: Counter[str] = Counter()
        """Errors after which a call was repeated."""
        self._under_way = 0
        self._refused_since: float | None = None
        self._refused_at = -inf
        self._rounds = 0
        self._has_told = False

    def sends(self) -> None:
        self._under_way += 1

    def comes_back(self) -> None:
        self._under_way -= 1

    def has_failed(self, error: ProviderError, began: float) -> Refusals:
        """Count a failed attempt that began at this time, and return for how long, and in how many rounds, nothing but
        refusals came. Attempts that were refused together are one round; while another call is under way, nothing is
        known yet."""
        if error.pressure is None:
            self._rounds = 0
            return NO_REFUSALS
        now = time.perf_counter()
        self._refused_since = self._refused_since or now
        if error.pressure == "rate" and not self._under_way and began >= self._refused_at:
            self._refused_at = now
            self._rounds += 1
        return Refusals(now - self._refused_since, self._rounds, has_answered=self.answered)

    def is_repeated(self, error: ProviderError) -> None:
        if error.pressure is None:
            self.errors[error.type if error.status is None else f"HTTP {error.status}"] += 1

    def is_over(self, tries: Tries) -> None:
        """A call has its outcome."""
        self.calls += 1
        self.retried += tries.failures > 0

    def has_answered(self, reply: Reply) -> None:
        self.answered, self._refused_since, self.reported, self._rounds = True, None, reply.model, 0

    def is_told_first(self) -> bool:
        """True once: people are told a single time that the target refuses everything."""
        told, self._has_told = self._has_told, True
        return not told


class OpenTarget:
    """A target that can be called. Calls of it share limits, prices and what the run has learned about it."""

    def __init__(self, target: Target, ready: Target, suite: Suite, provider: Provider, options: RunOptions) -> None:
        settings = normalize_keys(ready.settings)
        self.target = target
        self.info = info_of(target.provider)
        self.ready = ready
        """The target with its `${{ VAR }}` filled in."""
        self.suite = suite
        """A suite that names the target: prices and environment are those of its project."""
        self.provider = provider
        self.state = TargetState()
        self.retries = read_retries(settings, options.pace.max_retries)
        self.timeout_s = _timeout(target, options.pace.timeout_s)
        self.service: OwnService | None = None
        """What has to run before it is called."""
        self.model = model_of(ready)
        """The model or deployment that is called."""
        self.slots = asyncio.Semaphore(target.workers) if target.workers else None
        """How many calls it takes at once. As a candidate it is limited by whole conversations already; judges, rivals
        and embeddings are called from within those of others, several at a time."""

    @cached_property
    def keeper(self) -> KeepsHistory | None:
        """Its provider, where the target keeps conversations itself."""
        return cast(KeepsHistory, self.provider) if getattr(self.provider, "keeps_history", False) else None

    @cached_property
    def sees_conversation(self) -> bool:
        """Does a request of it say whose conversation it is?"""
        return self.keeper is not None or getattr(self.provider, "sees_conversation", False)

    @cached_property
    def is_cached(self) -> bool:
        """Whether `--cache` answers for it. An answer from there would leave behind a target that keeps the
        conversation itself."""
        if self.info.at_once or self.keeper is not None:
            return False
        written = normalize_keys(self.ready.settings).get("cache")
        is_public = self.info.cached and getattr(self.provider, "is_public", False)
        return is_public if written is None else bool(written)

    @property
    def is_billed(self) -> bool:
        return self.info.billed

    @property
    def is_counted(self) -> bool:
        """True if its tokens count against a budget."""
        return self.info.counted

    @cached_property
    def _prices(self) -> PriceList:
        from rejoinder.prices.price_list import PriceList

        return PriceList(self.suite.prices)

    def load_prices(self) -> None:
        """Read what a price needs before the first call: between a paid answer and its record no file is opened."""
        if self.is_billed or self.suite.prices:
            with contextlib.suppress(ImportError, OSError):  # a lookup reports it
                from rejoinder.prices.lookup import load_table

                load_table()
            self.cost(NO_USAGE)

    def cost(self, usage: Usage, reported: str | None = None) -> Cost | None:
        """What tokens cost; None where no price is known. `reported`: the model that the reply names."""
        if not self.is_billed and not self.suite.prices:
            return None  # and no table of prices is loaded
        from rejoinder.providers.target_prices import price_of

        return price_of(self.target, usage, self._prices, model=self.model, reported=reported)

    def price_of(self, reply: Reply) -> Cost | None:
        """The price of a reply that comes without its cost; None if no price is known."""
        return None if reply.cost is not None else self.cost(reply.usage, reply.model)

    def priced(self, reply: Reply) -> Reply:
        """The reply with its cost, if a price is known."""
        price = self.price_of(reply)
        return reply if price is None else reply.at(price)

    @property
    def has_fixed_price(self) -> bool:
        """False if only a reply tells which model, and so which price, a call has."""
        return self.state.reported is not None or not self._price_depends_on_reply

    @property
    def _price_depends_on_reply(self) -> bool:
        place = self.target.provider, self.model, self.target.name
        return self.is_billed and self._prices.price_depends_on_reply(*place)

    @cached_property
    def declared_most(self) -> int | None:
        """The most tokens of a call, where the target says so (`most_tokens`)."""
        written = normalize_keys(self.ready.settings).get("most_tokens")
        if written in (None, ""):
            return None
        if not str(written).strip().isdecimal():
            what = f"target `{self.target.name}` has `most_tokens: {written}`, which is not a whole number"
            raise UsageError(what)
        return int(written)

    def most(self, request: Request, *, in_usd: bool) -> Amount:
        """The most that a call can cost, by the target's own word or by the request as it goes out."""
        if (declared := self.declared_most) is not None:
            costs = [self.cost(Usage(declared)), self.cost(Usage(0, declared))] if in_usd else []
            return Amount(max((cost.total for cost in costs if cost is not None), default=0.0), declared)
        if self.info.local:
            usage = self.provider.foresee(request) if isinstance(self.provider, PredictsUsage) else NO_USAGE
            cost = self.cost(usage)
            return Amount(0.0 if cost is None else cost.total, usage.total_tokens)
        given, made = self.most_tokens(request)
        made = made or 0
        if not in_usd:
            return Amount(0.0, given + made)
        # Cached, cache-writing and reasoning tokens may have prices of their own, and higher ones.
        inputs = (0, 0), (given, 0), (0, given)
        usages = [Usage(given, made, thought, False, *cached) for cached in inputs for thought in (0, made)]
        # A deployment may turn out to be another model than its target names.
        models = {None, self.state.reported} if self._price_depends_on_reply else {None}
        costs = [self.cost(usage, model) for usage in usages for model in models]
        return Amount(max((cost.total for cost in costs if cost is not None), default=inf), given + made)

    def most_tokens(self, request: Request) -> tuple[int, int | None]:
        """The most tokens that a call can send and receive; None where nothing limits the reply."""
        outgoing = self._outgoing(request)
        if outgoing is None or outgoing.body is None:
            return 0, None if request.embed is None else 0
        from rejoinder.providers.bounds import bounds_of

        bounds = bounds_of(outgoing.body, embeds=request.embed is not None)
        return bounds.input_tokens + request.most_tokens_of_pictures, bounds.output_tokens

    def cache_material(self, request: Request) -> bytes:
        """All that an answer to the request depends on, as far as it is visible: what goes out, and where to."""
        outgoing = self._outgoing(request)
        if outgoing is None:
            identity = identity_of(structs.replace(self.ready, name=""))
            return identity + msgspec.json.encode(request.embed or _without_names(request))
        headers = sorted((name, value) for name, value in outgoing.headers.items() if not _OF_THE_CALLER.search(name))
        return msgspec.json.encode((self.target.provider, outgoing.method, outgoing.url, headers, outgoing.body))

    def _outgoing(self, request: Request) -> Outgoing | None:
        """The request as it goes out, where it goes over HTTP."""
        if not self.info.over_http:
            return None
        from rejoinder.providers.http_api import ApiProvider

        return self.provider.write(request) if isinstance(self.provider, ApiProvider) else None

    def advice(self, error: ProviderError) -> str:
        """The known models nearest to one that the provider does not have."""
        if error.status != 404 or self.model is None or not self.is_billed:
            return ""
        from rejoinder.prices.model_list import nearest_words

        return nearest_words(self.target.provider, self.model)


def _refuse_cache_of_keeper(opened: OpenTarget) -> None:
    """Raises UsageError for `cache: true` if only the opened target shows that it keeps conversations."""
    if opened.keeper is not None and normalize_keys(opened.ready.settings).get("cache"):
        from rejoinder.suite.target_rules import KEEPS_HISTORY, NOT_CACHED

        raise UsageError(f"target `{opened.target.name}` has `cache: true`, and {KEEPS_HISTORY}", NOT_CACHED)


def _without_names(request: Request) -> Request:
    """A request as code of the user's sees it, without what is another in each run or call."""
    return structs.replace(request, target="", variant="", key="", trial=0, call=0, conversation_id="", session=None)


def _timeout(target: Target, timeout_s: float | None) -> float | None:
    if timeout_s is not None:
        return timeout_s
    setting = normalize_keys(target.settings).get("timeout_seconds")
    if setting is not None:
        return float(setting)
    return None if info_of(target.provider).at_once else DEFAULT_TIMEOUT_S


class OpenTargets:
    """The open targets of a run, by the suite's file, the target's name and the variant whose settings it has."""

    def __init__(self, options: RunOptions) -> None:
        self._options = options
        self.exchange = Exchange()
        self._open: dict[tuple[str, str, str], OpenTarget] = {}
        self._environments: dict[str, Environment] = {}
        self.loan = Loan()
        self.has_several_suites = False

    def __iter__(self) -> Iterator[OpenTarget]:
        return iter(dict.fromkeys(self._open.values()))

    def open(self, suite: Suite, target: Target) -> OpenTarget:
        """Raises UsageError where the target lacks something. Equal targets with the same keys and prices are one."""
        place, identity = (suite.path, target.name, target.variant), self._identity(suite, target)
        opened = next((one for one in self if self._identity(one.suite, one.target) == identity), None)
        self._open[place] = opened or self._open_anew(suite, target)
        _refuse_cache_of_keeper(self._open[place])
        self.has_several_suites = len({path for path, *_ in self._open}) > 1
        return self._open[place]

    def find(self, suite: Suite, target: Target) -> OpenTarget | None:
        return self._open.get((suite.path, target.name, target.variant))

    def of(self, request: Request) -> OpenTarget:
        """The target of a call."""
        return self._open[request.suite, request.target, request.variant]

    @property
    def secrets(self) -> dict[str, str]:
        """Values that the targets use and that must never be shown, each with its name."""
        return self.exchange.secret_finder.secrets

    def collect_secrets(self, suites: Iterable[Suite]) -> dict[str, str]:
        """Add those of suites, and of their targets that are not called: a run's copy of its suites holds them."""
        named: dict[str, str] = {}
        for suite in suites:
            named.update(suite.secrets)
            for target in suite.targets.values():
                if not row_of(target.provider).local:  # they have no keys, but may have very many replies
                    self.exchange.secret_finder.add_settings(f"target {target.name}", normalize_keys(target.settings))
        # What the author gives a name keeps it: on another machine another value may be meant.
        return {**self.secrets, **named}

    def learn_secrets(self, suite: Suite, target: Target) -> None:
        """The secrets that a target is given, without opening it. Raises UsageError."""
        self._fill_in(target, self._environment(suite, target))
        if row_of(target.provider).workspaces:
            from rejoinder.providers.agents.kinds import keys_for

            for name, value in keys_for(target.provider, self.environment_of(suite)).items():
                self.exchange.secret_finder.add(value, f"env {name}")

    def lend_environment(self, suites: Iterable[Suite]) -> None:
        """Show the variables of `.env` files to the user's own code in this process, until the targets are closed."""
        for suite in suites:
            self.exchange.secret_finder.add_variables(self.loan.add(self.environment_of(suite), suite.path))

    def limits(self) -> list[LimiterResult]:
        """The results of all rate limiters, each with the targets that it held back."""
        named: dict[Limiter, list[str]] = {}
        for one in self:
            if one.provider.limiter is not None:
                named.setdefault(one.provider.limiter, []).append(one.target.name)
        return self.exchange.reports(named)

    def calls(self) -> list[TargetCalls]:
        """The calls of each target that was called, but for those that answer from this process at once."""
        return [
            TargetCalls(one.target.name, one.state.calls, one.state.retried, dict(one.state.errors.most_common()))
            for one in self
            if one.state.calls and not one.info.at_once
        ]

    def endings(self) -> list[tuple[Target, Failure]]:
        """Targets that were given up, and why."""
        return [(one.target, one.state.ended) for one in self if one.state.ended is not None]

    def stop(self) -> None:
        """Wait for nothing any more."""
        self.exchange.stop_waiting()
        for opened in self:
            if opened.service is not None:
                opened.service.stop()

    async def close(self) -> None:
        self.loan.close()
        for opened in self:
            await opened.provider.close()
        await self.exchange.close()

    def _identity(self, suite: Suite, target: Target) -> tuple[object, ...]:
        """All that an open target depends on."""
        if target.provider == CALLABLE:
            return target, id(suite.callables.get(target.name))
        runs_code = target.runs_code or info_of(target.provider).runs_code
        folder = Path(suite.path).parent if runs_code else None
        return target, suite.root, folder, self._environment(suite, target)

    def _open_anew(self, suite: Suite, target: Target) -> OpenTarget:
        if self._options.trust.no_code and (target.runs_code or info_of(target.provider).runs_code):
            raise UsageError(f"target `{target.name}` runs code of the project, and --no-code refuses that")
        self._refuse_unusable(target)
        environment = self._environment(suite, target)
        ready = self._fill_in(target, environment)
        try:
            folders, value = (str(Path(suite.path).parent), suite.root), suite.callables.get(target.name)
            provider = open_provider(ready, folders, environment, self.exchange, value)
            service = _open_service(ready, folders, self.exchange)
        except RejoinderError as error:
            error.message = Mask(self.collect_secrets([suite])).hide_text(error.message)
            raise
        opened = OpenTarget(target, ready, suite, provider, self._options)
        opened.service = service
        if not self._options.trust.trust_env:
            _refuse_foreign_way(opened, self.environment_of, {**self.secrets, **suite.secrets})
        return opened

    def _refuse_unusable(self, target: Target) -> None:
        """Raises UsageError for a recorded target of a program that cannot be called as it is recorded."""
        given = self._options.selection.given
        if given is None or given.name != target.name or target.provider == CALLABLE:
            return
        if given.is_foreign:
            raise UsageError(
                f"target `{target.name}` comes from a run folder that was not written by your rejoinder",
                f"{GIVE_AGAIN} Or trust the folder: trust_folder=True.",
            )
        if names_secret(msgspec.json.encode(target.settings).decode()):
            raise UsageError(
                f"target `{target.name}` was given with a secret, which is never written down",
                f"{GIVE_AGAIN} With `${{{{ VARIABLE }}}}` in place of the secret that is not necessary.",
            )

    def _fill_in(self, target: Target, environment: Mapping[str, str]) -> Target:
        """The target with its variables filled in, and the longest reply of the command where it sets none."""
        ready, max_tokens = target, self._options.limits.max_tokens
        if "${{" in repr(target.settings):
            from rejoinder.suite.targets import settings_with_environment

            settings, secrets = settings_with_environment(target, environment)
            for value, name in secrets.items():
                self.exchange.secret_finder.add(value, name)
            ready = structs.replace(target, settings=settings)
        written = normalize_keys(ready.settings).get("max_output_tokens")
        if max_tokens is None or written not in (None, "") or not info_of(target.provider).over_http:
            return ready
        # In front, because the first spelling wins, and an empty one may be there.
        return structs.replace(ready, settings={"max_tokens": max_tokens, **ready.settings})

    def _environment(self, suite: Suite, target: Target) -> Mapping[str, str]:
        if not info_of(target.provider).over_http and "${{" not in repr(target.settings):
            return {}
        return self.environment_of(suite)

    def environment_of(self, suite: Suite) -> Environment:
        if suite.path not in self._environments:
            from rejoinder.project.dotenv import read_environment

            start, root = Path(suite.path).parent, Path(suite.root)
            self._environments[suite.path] = read_environment(start, root, Path.cwd())
        return self._environments[suite.path]


def _open_service(ready: Target, folders: tuple[str, ...], exchange: Exchange) -> OwnService | None:
    if not ready.settings.get("start"):
        return None
    from rejoinder.providers.own_service import open_service

    return open_service(ready, folders, exchange)


def _refuse_foreign_way(
    opened: OpenTarget, environment_of: Callable[[Suite], Environment], secrets: Mapping[str, str]
) -> None:
    """Raises UsageError where a `.env` file says where a key from elsewhere goes."""
    target, ready, provider = opened.target, opened.ready, opened.provider
    runs_program = isinstance(provider, RunsProgram)
    is_concerned = opened.info.over_http or runs_program or target.runs_code
    environment = environment_of(opened.suite) if is_concerned else None
    if environment is None or not environment.files:
        return
    from rejoinder.engine import env_trust

    env_trust.refuse_foreign_commands(target, ready, environment, secrets)
    if isinstance(provider, RunsProgram):
        what, settings = f"target `{target.name}`", (target.settings, ready.settings)
        env_trust.refuse_foreign_program(what, settings, provider.handed, environment, secrets)
    elif opened.info.over_http:
        env_trust.refuse_foreign_address(target, ready, provider, environment, secrets)


def refuse_unbounded(opened: Iterable[OpenTarget], embedders: Collection[Target], *, in_usd: bool) -> None:
    """Under a budget the most that a call can cost must be known. Raises UsageError before anything is sent.

    `embedders` give vectors only: they produce no tokens.
    """
    for one in opened:
        target, embeds = one.target, one.target in embedders
        if one.info.local:
            continue
        declares = one.declared_most is not None
        if not declares and (not one.is_billed or target.provider == "http" or is_plugin(target.provider)):
            raise UsageError(
                f"the most that a call of target `{target.name}` can cost is unknown, so no budget can include it",
                "It tells what a call has cost when that is spent, and a budget has to know the most before. Leave out"
                " the budget, or the target; `--limit 3` without a budget shows what a few cases cost.",
            )
        if not declares and not embeds and one.most_tokens(_anything(target))[1] is None:
            raise UsageError(
                f"a budget needs a limit for the replies of target `{target.name}`",
                f"Set one for all targets without it: --max-tokens {EXAMPLE_TOKENS}. Or set `max_tokens` of the"
                " target, before its first run: the calls of a changed target are made again.",
            )
        if in_usd and one.cost(Usage(1, 0 if embeds else 1)) is None:
            raise UsageError(
                f"the price of `{target.provider}/{one.model or target.name}` is unknown, so no budget in dollars"
                " can include it",
                "Set it under `prices` in .rejoinder/config.yaml (dollars per million tokens), for example"
                f" prices: {{{target.name}: {{input: 1, output: 3}}}}, or set a budget in tokens alone"
                " (--budget-tokens).",
            )


def _anything(target: Target) -> Request:
    """A request like any other, to see how long its reply can be."""
    return Request(target=target.name, case_id="", trial=1, turn=1, call=0, messages=(), question="")
