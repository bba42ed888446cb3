"""Calls providers: recorded before a call is made and after it, and retried if that may help.

A call can fail in three ways. It is refused because of too many calls: the limiter learns, and the call goes out again
when the limiter admits it. It fails in a way that may pass: it is retried after a delay. Or the failure is final. A
failure that every other call of the target would share ends the target.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from msgspec import structs

from rejoinder.checks.base import CheckFault, Post, Work
from rejoinder.engine.budget import Budget, BudgetReached
from rejoinder.engine.calls import Call, NoAnswer
from rejoinder.engine.journal_writer import Journal
from rejoinder.engine.kept import Kept
from rejoinder.engine.picture_data import PictureData
from rejoinder.engine.retries import Decision, Refusals, Retries, Tries, decide_retry
from rejoinder.engine.targets import OpenTarget, OpenTargets
from rejoinder.engine.webhooks import Webhooks
from rejoinder.errors import RejoinderError, ShutDown
from rejoinder.model import CUT_OFF, Failure, Reply, Request
from rejoinder.model.calls import was_turned_away
from rejoinder.model.spending import NOTHING, Amount, amount_of
from rejoinder.open_files import programs_at_once
from rejoinder.providers.base import Provider, ProviderError, ReplyWithin
from rejoinder.runs.journal import Asked, Told
from rejoinder.runs.names import file_of
from rejoinder.tools.base import Listing, ToolFault, Use
from rejoinder.tools.opened import OpenTools
from rejoinder.words.numbers import in_seconds, seconds

if TYPE_CHECKING:
    from rejoinder.providers.limits import Limiter

MOST_LOCAL = 4
"""Scripts and functions of checks that run at the same time, on a machine with fewer processors."""
_NOT_REACHED = frozenset({"connection", "dns", "tls", "address", "timeout"})
"""Failures of reaching the server, which say nothing about the call."""
_UNCERTAIN = frozenset({"timeout", "broken"})
"""Failures after which it is unknown whether the call was carried out."""


class Live:
    """Calls providers, records each call and what came of it, and retries if that may help."""

    asks = True

    def __init__(
        self,
        targets: OpenTargets,
        journal: Journal,
        budget: Budget | None = None,
        *,
        kept: Kept | None = None,
        tools: OpenTools | None = None,
        on_retry: Callable[[], None] = lambda: None,
        on_failure: Callable[[Exception], None] = lambda _: None,
    ) -> None:
        self._targets = targets
        self.kept = kept or Kept("")
        self._tools = tools or OpenTools()
        self._journal = journal
        self._budget = budget
        self._webhooks = Webhooks()
        self._pictures = PictureData()
        self._stopped = asyncio.Event()
        self._local = asyncio.Semaphore(programs_at_once(max(MOST_LOCAL, os.cpu_count() or 1)))
        self._on_retry = on_retry
        self._on_failure = on_failure

    def stop(self) -> None:
        """Stop retrying and drop waiting calls; `resume` will make them."""
        self._stopped.set()
        self._targets.stop()
        if self._budget is not None:
            self._budget.cancel_waiters()

    async def close(self) -> None:
        await self.kept.close()
        await self._tools.close()
        await self._webhooks.close()

    async def answer(self, call: Call) -> Told | None:
        if call.target is None:
            return await self._carry_out(call)
        opened = self._targets.of(call.request)
        request = self.kept.prepare(call, opened)
        if isinstance(request, Failure):
            return await self._told(Told(call.key, failure=request))
        if request is not call.request:
            call = structs.replace(call, request=request)
        if opened.slots is not None:
            async with opened.slots:
                return await self._call(call, opened)
        return await self._call(call, opened)

    async def _call(self, call: Call, opened: OpenTarget) -> Told:
        request, limiter = call.request, opened.provider.limiter
        tries, ticket = Tries(), 0
        while True:
            await self._make_ready(opened)
            if limiter is not None:
                try:
                    ticket = await limiter.enter(again=tries.refusals > 0)
                except ShutDown:
                    raise NoAnswer from None
            ended = opened.state.ended
            if ended is not None or (self._stopped.is_set() and tries.made > 1):
                if limiter is not None:
                    limiter.leave()
                if ended is None:
                    raise NoAnswer
                return await self._told(Told(call.key, failure=ended, attempts=tries.made))
            paid = await self._prepare(self._asked(call), opened, request)
            started = tries.begin()
            try:
                reply = await self._ask(opened, request)
            except ProviderError as error:
                tries.end(started)
                refusals = opened.state.has_failed(error, started)
                self._settle(paid, None if error.type in _UNCERTAIN or _is_charged(error) else NOTHING)
                decision = decide_retry(error, opened.retries, tries, refusals)
                if error.type not in _UNCERTAIN:
                    final = decision.retry_in_s is None
                    self._journal.failed(call.key, charged=_is_charged(error), final=final)
                _inform(limiter, ticket, error, decision, opened.retries)
                self._tell_of_refusals(opened, error, decision, refusals)
                if decision.retry_in_s is None:
                    return await self._told(self._final(error, decision, opened, call.key, tries))
                tries.count(error)
                opened.state.is_repeated(error)
                request = structs.replace(request, call=call.attempts.next())
                self._on_retry()
                if decision.retry_in_s:
                    with contextlib.suppress(TimeoutError):
                        await asyncio.wait_for(self._stopped.wait(), decision.retry_in_s)
                continue
            except BaseException:
                self._settle(paid, None)
                if limiter is not None:
                    limiter.leave()
                raise
            seconds = tries.end(started)
            if limiter is not None:
                limiter.leave(tokens=reply.usage.total_tokens)
            opened.state.has_answered(reply)
            opened.state.is_over(tries)
            reply = tries.noted(_with_possible_usage(reply), seconds)
            return await self._answered(call.key, reply, opened, paid, tries)

    async def _answered(self, key: str, reply: Reply, opened: OpenTarget, paid: int, tries: Tries) -> Told:
        """Record an answer, then look up its price: even if that fails, the answer is on the disk."""
        cost: Amount | None = None
        try:
            told = await self._told(Told(key, reply, attempts=tries.made))
            price = opened.price_of(reply)
            if price is not None:
                self._journal.priced(key, price)
                told, reply = told.at(price), reply.at(price)
            if not reply.usage.approximate:
                cost = amount_of(reply)
        finally:
            self._settle(paid, cost)
        return told

    def _tell_of_refusals(
        self, opened: OpenTarget, error: ProviderError, decision: Decision, refusals: Refusals
    ) -> None:
        """Say once that a target lets nothing through: until the next try nothing moves on the screen."""
        if refusals.rounds < 2 or decision.retry_in_s is None or not opened.state.is_told_first():
            return
        limiter = opened.provider.limiter
        next_in_s = 0.0 if limiter is None else limiter.next_in_s
        self._targets.exchange.tell(
            f"{opened.target.name} answers {error.status or 429} (too many requests); next try in {seconds(next_in_s)},"
            f" {refusals.giving_up(opened.retries)}"
        )

    async def _ask(self, opened: OpenTarget, request: Request) -> Reply:
        opened.state.sends()
        try:
            sent = request if opened.info.agent else self._pictures.filled(request, opened.suite.pictures)
            reply = await ask_within(opened.timeout_s, opened.provider, sent)
        except ProviderError as error:
            cause = error if opened.service is None else await opened.service.explain(error)
            if opened.keeper is not None and cause.pressure is None and not was_turned_away(cause.type, cause.status):
                cause.retryable = False  # it may have heard us
            if cause is not error:
                raise cause from error
            raise
        finally:
            opened.state.comes_back()
        self.kept.answered(request, reply)
        return reply

    async def _make_ready(self, opened: OpenTarget) -> None:
        """Have the target's own service running. If it cannot run, the target is given up."""
        if opened.service is None or opened.state.ended is not None:
            return
        try:
            await opened.service.ensure()
        except ShutDown:
            raise NoAnswer from None
        except ProviderError as error:
            opened.state.ended = _failure(error)

    def _final(self, error: ProviderError, decision: Decision, opened: OpenTarget, key: str, tries: Tries) -> Told:
        """A failure that is not retried. Where every other call would share it, it ends the target."""
        state, unreached = opened.state, error.type in _NOT_REACHED and not opened.info.runs_code
        state.is_over(tries)
        error.message += decision.because
        if state.ended is None and (decision.ends_target or (unreached and not state.answered)):
            error.message += opened.advice(error)
            state.ended = _failure(error, tries.made)
        self._on_failure(error)
        # Calls that were in flight when their target ended share its cause, and not only its kind.
        failure = (state.ended if decision.ends_target or unreached else None) or _failure(error, tries.made)
        return Told(key, failure=failure, attempts=tries.made)

    async def _carry_out(self, call: Call) -> Told:
        """Work of a check: done once, and its result is recorded like an answer. Tools are called after a stop, too:
        they belong to a turn of a conversation in progress, which a server may be unable to take up again."""
        work = call.work
        if isinstance(work, Listing | Use):
            return await self._use(call, work)
        if self._stopped.is_set():
            raise NoAnswer
        if isinstance(work, Work) and work.in_workspace and (lost := self._lost_workspace(call)) is not None:
            return await self._told(Told(call.key, failure=lost))
        record = self._asked(call)
        started = time.perf_counter()
        try:
            if isinstance(work, Post):
                self._journal.asked(record)
                text = await self._webhooks.post(work)
            else:
                assert work is not None
                async with self._local:
                    if self._stopped.is_set():
                        raise NoAnswer
                    self._journal.asked_inside(record)
                    text = await work.perform(self.kept.workspace_of(call.job))
        except (CheckFault, ProviderError) as error:
            self._on_failure(error)
            return await self._told(Told(call.key, failure=Failure("check", str(error))))
        seconds = round(time.perf_counter() - started, 6)
        return await self._told(Told(call.key, Reply(text, latency_s=seconds)))

    async def _use(self, call: Call, work: Listing | Use) -> Told:
        """A tool is called once, and its answer is recorded like a model's."""
        suite = call.job.prepared.suite
        conversation = call.job.number, work.session if isinstance(work, Use) else ""
        if isinstance(work, Use) and self._tools.has_lost(suite, work, conversation):
            lost = f"cut off in turn {call.request.turn}; what `{work.tool.name}` knew of it is gone"
            return await self._told(Told(call.key, failure=Failure(CUT_OFF, lost)))
        record, started, started_at = self._asked(call), time.perf_counter(), time.time()
        if work.is_outside:
            self._journal.asked(record)
        else:
            self._journal.asked_inside(record)
        try:
            text = await self._tools.perform(suite, work, conversation, call.key)
        except (ToolFault, RejoinderError) as error:
            self._on_failure(error)
            return await self._told(Told(call.key, failure=Failure("tool", str(error))))
        seconds = round(time.perf_counter() - started, 6)
        return await self._told(Told(call.key, Reply(text, latency_s=seconds, started_at=started_at)))

    def _lost_workspace(self, call: Call) -> Failure | None:
        prepared = call.job.prepared
        return self.kept.has_lost_workspace(call, self._targets.find(prepared.suite, prepared.target))

    def _asked(self, call: Call) -> Asked:
        request, suite = call.request, file_of(call.job.prepared.suite) if self._targets.has_several_suites else ""
        return Asked(call.key, request.case_id, request.target, request.trial, request.turn, suite=suite)

    async def _prepare(self, record: Asked, opened: OpenTarget, request: Request) -> int:
        """Reserve the most that the call can cost and record that it is made; the ticket of the reservation."""
        provider, ticket = opened.provider, 0
        try:
            if self._budget is not None and opened.is_counted:
                ticket, most = await self._reserve(self._budget, opened, request)
                record = structs.replace(record, most=most)
            if provider.outside:
                self._journal.asked(record)
            else:
                self._journal.asked_inside(record)
        except BaseException as error:
            self._settle(ticket, NOTHING)
            if provider.limiter is not None:
                provider.limiter.leave()
            if isinstance(error, BudgetReached):
                raise NoAnswer from None
            raise
        return ticket

    async def _reserve(self, budget: Budget, opened: OpenTarget, request: Request) -> tuple[int, Amount]:
        in_usd = budget.usd is not None
        while True:
            most, fixed = opened.most(request, in_usd=in_usd), not in_usd or opened.has_fixed_price
            ticket = await budget.reserve(most, alone=not fixed)
            if fixed or not opened.has_fixed_price:
                return ticket, most
            budget.settle(ticket, NOTHING)  # while it waited, another call's reply has told the price

    def _settle(self, ticket: int, cost: Amount | None) -> None:
        """None: the cost is unknown, so the call counts for the most that it can have cost."""
        if self._budget is None or not ticket:
            return
        if cost is None:
            self._budget.forfeit(ticket)
        else:
            self._budget.settle(ticket, cost)

    async def _told(self, told: Told) -> Told:
        await self._journal.told(told)
        return told


def _inform(limiter: Limiter | None, ticket: int, error: ProviderError, decision: Decision, retries: Retries) -> None:
    if limiter is None:
        return
    if error.pressure is not None and decision.slows_down:
        back_off = (retries.first_delay_s, retries.longest_delay_s)
        limiter.refused(ticket, error.pressure, error.retry_after_s, back_off)
    else:
        limiter.leave(refused=error.pressure is not None)


def _with_possible_usage(reply: Reply) -> Reply:
    usage = reply.usage.possible()
    return reply if usage is reply.usage else structs.replace(reply, usage=usage)


def _is_charged(error: ProviderError) -> bool:
    """True if the call may be billed: an answer came, and it cannot be read."""
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
        message = f"no answer within {in_seconds(timeout_s)}"
        raise ProviderError(message, type="timeout", retryable=True) from None
