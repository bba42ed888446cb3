"""Asking the providers themselves: noted before it is done and after, done again where that helps.

Three things can come of a call that fails. It is refused because of too many calls: the limiter learns, and the call
goes out again when it is let through. It fails in a way that may pass: it is made again after a while. Or it is final.
A failure that every other call of the target would share ends the target.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import time
from collections.abc import Callable
from typing import Any, Protocol

from msgspec import Struct, structs

from rejoinder.checks import CheckFault, Post
from rejoinder.engine.budget import NOTHING, Amount, Budget, BudgetReached, amount_of
from rejoinder.engine.journal import Asked, Journal, Told
from rejoinder.engine.sources import Call, Unanswered
from rejoinder.model import Failure, Reply, Request, Target
from rejoinder.providers import UNCOUNTED, Provider, ProviderError
from rejoinder.providers.base import ReplyWithin
from rejoinder.providers.limits import Closed

MOST_LOCAL = 4
"""Scripts and functions of checks that run at the same time, on a machine with fewer processors."""
LONGEST_WAIT_S = 600.0
"""A provider that asks for more than this has no room today; waiting is then for the user to decide."""


class Retries(Struct, frozen=True):
    """How often and after what time a failed call is made again, with full jitter."""

    most: int = 3
    first_delay_s: float = 1.0
    longest_delay_s: float = 60.0
    factor: float = 2.0
    most_refusals: int = 50
    """How often a call may be turned away because of too many: it is our pace that is wrong, not the call."""
    most_together: int | None = None
    """How often a call is made again for whatever reason, where the user says so."""

    def delay(self, attempt: int) -> float:
        ceiling = min(self.longest_delay_s, self.first_delay_s * self.factor ** min(attempt, 60))
        return random.uniform(0, ceiling)


class Terms(Struct):
    """How a target is asked, and whether it still is."""

    target: Target
    provider: Provider
    retries: Retries
    timeout_s: float | None
    model: str | None
    """The model that is asked for, where the target names one."""
    slots: asyncio.Semaphore | None
    """How many calls it takes at once. As a candidate it is limited by whole conversations already; judges, rivals and
    embeddings are asked from within those of others, several at a time."""
    answered: bool = False
    reported: str | None = None
    """The model that the last reply said it came from."""
    refused_since: float | None = None
    """Since when nothing was let through."""
    ended: Failure | None = None
    """Why no further call is made: every one would fail in the same way."""


class Desk(Protocol):
    def terms(self, target: Target) -> Terms: ...

    def stop_waiting(self) -> None:
        """Send away whoever waits to be let through."""
        ...

    def price(self, terms: Terms, reply: Reply) -> dict[str, Any]:
        """The fields of a reply that say what it cost."""
        ...

    def most(self, terms: Terms, request: Request) -> Amount:
        """What a call can cost at most."""
        ...

    def knows_price(self, terms: Terms) -> bool:
        """Is it certain what a call costs? If not, it is made alone, and its reply says it."""
        ...

    def advice(self, terms: Terms, error: ProviderError) -> str:
        """What may help against a failure that ends a target; empty where nothing is known."""
        ...

    async def post(self, post: Post) -> str:
        """Send something to an address of the user's, and the body of its answer. Raises ProviderError."""
        ...


_NOT_REACHED = frozenset({"connection", "dns", "tls", "address", "timeout"})
"""Failures that say nothing about the call, but that nobody was there to take it."""


_UNCERTAIN = frozenset({"timeout", "broken"})
"""Failures after which nobody knows whether the call was carried out."""


class Live:
    """Asks the provider, notes that it does and what came of it, and asks again where that may help."""

    asks = True

    def __init__(
        self,
        desk: Desk,
        journal: Journal,
        on_retry: Callable[[], None],
        on_failure: Callable[[Exception], None],
        budget: Budget | None = None,
    ) -> None:
        self._desk = desk
        self._budget = budget
        self._journal = journal
        self._on_retry = on_retry
        self._on_failure = on_failure
        self._stopped = asyncio.Event()
        self._local = asyncio.Semaphore(max(MOST_LOCAL, os.cpu_count() or 1))

    def stop(self) -> None:
        """Make no call again that fails from now on, and none that still waits: it is left to another day."""
        self._stopped.set()
        self._desk.stop_waiting()
        if self._budget is not None:
            self._budget.send_away()

    async def answer(self, call: Call) -> Told | None:
        if call.target is None:
            return await self._carry_out(call)
        terms = self._desk.terms(call.target)
        if terms.slots is not None:
            async with terms.slots:
                return await self._call(call, terms)
        return await self._call(call, terms)

    async def _call(self, call: Call, terms: Terms) -> Told:
        request, provider, limiter = call.request, terms.provider, terms.provider.limiter
        record = Asked(call.key, request.case_id, request.target, request.trial, request.turn, request.judging)
        failures = refusals = ticket = 0
        while True:
            if limiter is not None:
                try:
                    ticket = await limiter.enter(again=refusals > 0)
                except Closed:
                    raise Unanswered from None
            if terms.ended is not None or (self._stopped.is_set() and failures + refusals):
                if limiter is not None:
                    limiter.leave()
                if terms.ended is None:
                    raise Unanswered
                return await self._told(Told(call.key, failure=terms.ended, attempts=1 + failures + refusals))
            paid = await self._prepare(record, terms, request)
            started = time.perf_counter()
            try:
                reply = await ask_within(terms.timeout_s, provider, request)
            except ProviderError as error:
                self._settle(paid, None if error.type in _UNCERTAIN or _is_charged(error) else NOTHING)
                delay = self._learn(error, terms, call.key, ticket, failures, refusals)
                if delay is None:
                    # Calls that were under way when their target ended share its cause, and not only its kind.
                    self._on_failure(error)
                    attempts = 1 + failures + refusals
                    alike = error.ends_target or error.type in _NOT_REACHED
                    failure = (terms.ended if alike else None) or _failure(error, attempts)
                    return await self._told(Told(call.key, failure=failure, attempts=attempts))
                refusals += error.pressure is not None
                failures += error.pressure is None
                request = structs.replace(request, call=call.attempts.next())
                self._on_retry()
                if delay:
                    with contextlib.suppress(TimeoutError):
                        await asyncio.wait_for(self._stopped.wait(), delay)
                continue
            except BaseException:
                self._settle(paid, None)
                if limiter is not None:
                    limiter.leave()
                raise
            seconds = time.perf_counter() - started  # before anything else: the first price takes time to find
            if limiter is not None:
                limiter.leave(tokens=reply.usage.total_tokens)
            terms.answered, terms.refused_since, terms.reported = True, None, reply.model
            changes: dict[str, Any] = self._desk.price(terms, reply)
            if not reply.latency_s:
                changes["latency_s"] = round(seconds, 6)
            reply = structs.replace(reply, **changes) if changes else reply
            self._settle(paid, None if reply.usage.approximate else amount_of(reply))
            return await self._told(Told(call.key, reply, attempts=1 + failures + refusals))

    async def _carry_out(self, call: Call) -> Told:
        """Work of a check: done once, and what came of it is recorded like an answer."""
        if self._stopped.is_set():
            raise Unanswered
        work, request = call.work, call.request
        record = Asked(call.key, request.case_id, request.target, request.trial, request.turn, judging=True)
        started = time.perf_counter()
        try:
            if isinstance(work, Post):
                await self._journal.asked(record)
                text = await self._desk.post(work)
            else:
                assert work is not None
                async with self._local:
                    if self._stopped.is_set():
                        raise Unanswered
                    self._journal.asked_within(record)
                    text = await work.perform()
        except (CheckFault, ProviderError) as error:
            self._on_failure(error)
            return await self._told(Told(call.key, failure=Failure("check", str(error))))
        seconds = round(time.perf_counter() - started, 6)
        return await self._told(Told(call.key, Reply(text, latency_s=seconds)))

    async def _prepare(self, record: Asked, terms: Terms, request: Request) -> int:
        """Reserve what the call can cost and note that it is made, before it is; the ticket of what is reserved."""
        provider, ticket = terms.provider, 0
        try:
            if self._budget is not None and terms.target.provider not in UNCOUNTED:
                ticket, most = await self._reserve(self._budget, terms, request)
                record = structs.replace(record, most=most)
            if provider.outside:
                await self._journal.asked(record)
            else:
                self._journal.asked_within(record)
        except BaseException as error:
            self._settle(ticket, NOTHING)
            if provider.limiter is not None:
                provider.limiter.leave()
            if isinstance(error, BudgetReached):
                raise Unanswered from None
            raise
        return ticket

    async def _reserve(self, budget: Budget, terms: Terms, request: Request) -> tuple[int, Amount]:
        while True:
            most, known = self._desk.most(terms, request), self._desk.knows_price(terms)
            ticket = await budget.reserve(most, alone=not known)
            if known or not self._desk.knows_price(terms):
                return ticket, most
            budget.settle(ticket, NOTHING)  # while it waited, another call's reply has told the price

    def _settle(self, ticket: int, cost: Amount | None) -> None:
        """None: nobody knows what it has cost, so it counts for the most that it can have."""
        if self._budget is None or not ticket:
            return
        if cost is None:
            self._budget.forfeit(ticket)
        else:
            self._budget.settle(ticket, cost)

    async def _told(self, told: Told) -> Told:
        await self._journal.told(told)
        return told

    def _learn(
        self, error: ProviderError, terms: Terms, key: str, ticket: int, failures: int, refusals: int
    ) -> float | None:
        """What a failure teaches; the seconds after which the call is made again, or None where it is not."""
        retries, limiter = terms.retries, terms.provider.limiter
        if error.retryable and error.retry_after_s is not None and error.retry_after_s > LONGEST_WAIT_S:
            # Nobody else is to wait so long either, so the limiter does not hear of it.
            error.message += f"; it asks to wait {error.retry_after_s / 60:.0f} minutes, which is left to you"
            error.retryable, error.pressure, error.ends_target = False, None, True
        if error.pressure is not None:
            terms.refused_since = terms.refused_since or time.monotonic()
            if time.monotonic() - terms.refused_since > LONGEST_WAIT_S:
                error.message += f"; nothing was let through for {LONGEST_WAIT_S / 60:.0f} minutes"
                error.retryable, error.ends_target = False, True
        if error.type not in _UNCERTAIN:
            self._journal.failed(key, charged=_is_charged(error))
        pressed = error.pressure is not None
        if limiter is not None:
            if error.pressure is not None:
                back_off = (retries.first_delay_s, retries.longest_delay_s)
                limiter.refused(ticket, error.pressure, error.retry_after_s, back_off)
            else:
                limiter.leave()
        again = error.retryable and (refusals < retries.most_refusals if pressed else failures < retries.most)
        again = again and (retries.most_together is None or failures + refusals < retries.most_together)
        lost = error.type in _NOT_REACHED and not terms.answered
        if not again and (error.ends_target or lost) and terms.ended is None:
            error.message += self._desk.advice(terms, error)
            terms.ended = _failure(error, 1 + failures + refusals)
        if not again:
            return None
        if pressed:
            return 0.0  # the limiter holds it back
        return error.retry_after_s if error.retry_after_s is not None else retries.delay(failures)


def _is_charged(error: ProviderError) -> bool:
    """May the call have to be paid for? An answer came, as it should, and we cannot read it."""
    return error.type in ("bad-response", "too-large") or (error.status is not None and 200 <= error.status < 300)


def _failure(error: ProviderError, attempts: int = 1) -> Failure:
    message = f"{error.message} (tried {attempts} times)" if attempts > 1 else error.message
    return Failure(error.type, message, error.status)


async def ask_within(timeout_s: float | None, provider: Provider, request: Request) -> Reply:
    # Asked for each call: looking at a protocol's members would cost as much as writing the request.
    within: ReplyWithin | None = getattr(provider, "reply_within", None)
    if within is not None:
        return await within(request, timeout_s)
    if timeout_s is None:
        return await provider.reply(request)
    try:
        async with asyncio.timeout(timeout_s):
            return await provider.reply(request)
    except TimeoutError:
        message = f"no answer within {timeout_s:g} s"
        raise ProviderError(message, type="timeout", retryable=True) from None
