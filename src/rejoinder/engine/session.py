"""One stretch of work on a run, from opening its folder to closing it: who is asked, where answers come from, what is
spent. Runs, whether begun, taken up or derived, are such stretches (run.py)."""

from __future__ import annotations

import asyncio
import contextlib
import traceback
from collections import Counter
from collections.abc import Collection, Mapping
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct, structs

from rejoinder.engine.budget import NOTHING, Amount, Budget, Ledger
from rejoinder.engine.crash_points import reached
from rejoinder.engine.earlier import Earlier, Nearest, retrace, unread_answers
from rejoinder.engine.embeddings import Vectors
from rejoinder.engine.executor import Executor, LocalExecutor
from rejoinder.engine.folder import OWN_CODE, RunFolder
from rejoinder.engine.interrupts import Interrupts
from rejoinder.engine.journal import History, Journal, JournalError, Told, read_journal
from rejoinder.engine.live import Live
from rejoinder.engine.plan import (
    Job,
    RunOptions,
    Survey,
    default_workers,
    pairs,
    plan,
    survey_plan,
    written_model,
)
from rejoinder.engine.player import Player
from rejoinder.engine.results import ResultWriter, make_result
from rejoinder.engine.secrets import Mask
from rejoinder.engine.sources import (
    Before,
    Call,
    Cassettes,
    Judges,
    Keeping,
    Kept,
    Local,
    Missing,
    Models,
    Noted,
    Place,
    Recorded,
    Retold,
    Source,
    Tape,
    Unanswered,
    Unrecorded,
    cache_key,
    cassette_of,
    place_of,
    unread_calls,
)
from rejoinder.engine.targets import TargetDesk, load_prices
from rejoinder.errors import RejoinderError, UsageError, lacks_descriptors, reason_of, remedy_for
from rejoinder.model import Failure, Outcome, Receipt, Reply, Suite, Target, Trouble
from rejoinder.model.runs import RunStatus
from rejoinder.providers import FREE, UNCOUNTED
from rejoinder.providers.cassettes import CassetteError, Shelf, check_folder, write_cassette
from rejoinder.providers.limits import LimiterReport
from rejoinder.roles import asked_besides
from rejoinder.user_code import FunctionFault, results_kept_clean

if TYPE_CHECKING:
    from rejoinder.engine.cache import Cache
    from rejoinder.providers.replay import ReplayProvider


MANY = 200
"""Conversations from which on a tenth of a second before the first is better than one among them."""


class Observer:
    """Is told what happens in a run. The base class says nothing."""

    def started(self, planned: int) -> None: ...
    def conversation_started(self, job: Job) -> None: ...
    def conversation_finished(self, job: Job, outcome: Outcome) -> None: ...
    def conversation_skipped(self, job: Job) -> None: ...
    def retried(self) -> None: ...
    def stopping(self) -> None: ...
    def cut_off(self, run: str) -> None: ...
    def finished(self) -> None: ...


class Ending(Struct, frozen=True):
    """How a stretch of work ended."""

    status: RunStatus
    in_doubt: int
    """Calls whose outcome nobody knows."""
    failure: JournalError | KeyboardInterrupt | None = None
    """What is raised once the event loop has ended. What was only read has no half results."""
    limits: tuple[LimiterReport, ...] = ()
    """What the limiters did."""
    given_up: tuple[tuple[Target, Failure], ...] = ()
    """Targets that were not asked any more, and why."""


class Session:
    """One stretch of work on a run, from opening its folder to closing it."""

    def __init__(
        self,
        suites: list[Suite],
        options: RunOptions,
        folder: RunFolder,
        observer: Observer,
        *,
        ask: bool = True,
        before: Earlier | None = None,
        tape: Tape | None = None,
    ) -> None:
        options = with_budgets(options, suites)
        self.suites = suites
        self.options = options
        self.folder = folder
        self.observer = observer
        self.before = before
        """Other runs, whose answers are taken in the candidates' place."""
        self.tape = tape
        """What the conversation was told in another run, which takes another course in this one."""
        self.notes = ask
        """Is this a run of its own, with a journal? Without, only what is recorded is played."""
        self.ask = ask and self._purpose in (None, "grade", "ask") and options.replay is None
        """Is anybody asked? Without it no provider is opened."""
        self.survey: Survey = survey_plan(suites, options)
        self.shelf = self._open_shelf()
        """Where cassettes are written, or played from."""
        self.models = Models()
        self.targets = TargetDesk(options)
        self.closed: dict[int, RejoinderError] = {}
        """Why targets could not be opened that may not be needed."""
        self._prepare_targets()
        self.mask = Mask(self.targets.secrets_of(suites))
        self.targets.reveal_with(self.mask.reveal_text)
        self.told: Mapping[str, Told] = before.told(self.mask) if before is not None else {}
        self.skipped: Collection[Place] = before.skipped(suites) if before is not None else ()
        """The conversations that the other runs did not have either."""
        self._refuse_closed()
        self.vectors = Vectors()
        self.cassettes: Cassettes | None = None
        self.taken: Before | None = None
        """What is taken over from the conversation of another run."""
        self.store = self._open_cache() if options.cache and self.ask and self._purpose != "grade" else None
        self.kept: Kept | None = None
        self.keeping: Keeping | None = None
        self.spent: Amount = NOTHING
        """What the run has spent before."""
        self.budget: Budget | None = None
        self._logged: set[object] = set()
        """Errors of the user's own code whose traceback is in the log."""
        self._failed_fast = False

    @property
    def _purpose(self) -> str | None:
        """What other runs answer for."""
        return self.before.purpose if self.before is not None else None

    def _open_shelf(self) -> Shelf | None:
        if self.options.record is not None and self.notes:
            check_folder(Path(self.options.record))
        folder = self.options.record or self.options.replay
        return Shelf(Path(folder), [(one.path, one.root) for one in self.suites]) if folder is not None else None

    def _prepare_targets(self) -> None:
        """Open all that may be asked. Where nobody is, only their keys are learned, to be hidden."""
        try:
            if self.notes:
                self.targets.lend_environment(self.survey.coded)
            asked = self._open_targets() if self.ask else []
            if self.ask and self.has_budget:
                self.targets.refuse_unbounded((target for _, target in asked), self.survey.embedders)
        except RejoinderError as error:
            self.targets.add_traceback(error, self.suites)
            self.targets.loan.close()
            raise
        if not self.ask:
            self.targets.hide_keys(self.survey.targets)

    def _open_targets(self) -> list[tuple[Suite, Target]]:
        """The targets that may be asked. For new grades candidates are not, and judges only where an answer is missing,
        so a key that is not there is no error yet."""
        asked = self.survey.targets
        if self._purpose in (None, "ask"):
            self.targets.open_all(asked)
            return asked
        besides = {id(one) for pair in pairs(self.suites, self.options) for one in asked_besides(pair)}
        opened: list[tuple[Suite, Target]] = []
        for suite, target in asked:
            try:
                self.targets.open_all([(suite, target)])
            except RejoinderError as error:
                if id(target) in besides:  # a candidate would only say what a reply costs now
                    self.closed[id(target)] = error
            else:
                opened += [(suite, target)] if id(target) in besides else []
        return opened

    def _refuse_closed(self) -> None:
        """Raises what kept a judge from being opened, where a conversation wants a word of it that is not recorded."""
        if not self.closed:
            return

        async def missing() -> RejoinderError | None:
            for job in plan(self.suites, self.options):
                tape, _ = await retrace(job, self.told, Unrecorded())
                for call, told in tape.calls:
                    if told is None and call.target is not None and id(call.target) in self.closed:
                        return self.closed[id(call.target)]
            return None

        if (error := asyncio.run(missing())) is not None:
            raise error

    @property
    def has_budget(self) -> bool:
        return self.options.budget_usd is not None or self.options.budget_tokens is not None

    async def play(self, spool: ResultWriter, history: History | None) -> Ending:
        """Have all conversations that can be had."""
        journal = Journal(self.folder.journal, self.mask, history) if self.notes else None
        sources: tuple[Source, ...] = ()
        live: Live | None = None
        if journal is not None:
            self.budget = self._open_budget()
            live = Live(self.targets, journal, self.observer.retried, self._log_own_code, self.budget)
            sources = self._sources(live, journal)
        if history is not None:
            own = Recorded(history.told, self._priced)
            once = self.cassettes is not None or self.taken is not None or self._replaying()
            sources = (Retold(own, self._use) if once else own, *sources)
        jobs = plan(self.suites, self.options)
        executor = LocalExecutor(self.options.workers or default_workers(self.survey))
        failure: JournalError | None = None
        cancelled = False
        self.observer.started(self.survey.planned)

        def finish() -> None:
            executor.stop()
            if live is not None:
                live.stop()
            self.observer.stopping()

        if self.budget is not None:
            self.budget.when_reached(lambda: (executor.stop(), live.stop() if live is not None else None))
        if self.ask and self.survey.planned >= MANY and self.targets.are_paid:
            load_prices()  # in the midst of many calls it would hold up all of them
        # What the user's own code prints must not get between the results.
        signals = Interrupts(finish if self.notes else None, lambda: self._cut_off(journal))
        with signals as interrupts, results_kept_clean():
            try:
                await executor.execute(jobs, lambda job: self._perform(job, sources, spool, executor))
            except* (JournalError, CassetteError, OSError) as group:
                failure = self.failure(_first(group))
            except* asyncio.CancelledError:
                cancelled = True
            finally:
                self.observer.finished()
                await self.vectors.close()
                if journal is not None:
                    journal.close()
                await self.targets.close()
        in_doubt = (history.in_doubt if history else 0) + (len(journal.open_calls) if journal else 0)
        if failure is not None:
            return Ending("error", in_doubt, failure)
        ending = self._ending(in_doubt, interrupted=bool(interrupts.count or cancelled))
        if ending.status == "completed" and self._failed_fast:
            for job in chain(executor.waiting, jobs):
                self._skip(job, spool)
        return ending

    def _ending(self, in_doubt: int, *, interrupted: bool) -> Ending:
        if interrupted and not self.notes:
            return Ending("interrupted", in_doubt, KeyboardInterrupt())
        has_spent_all = self.budget is not None and self.budget.reached
        status = "interrupted" if interrupted else "budget" if has_spent_all else "completed"
        return Ending(status, in_doubt, None, tuple(self.targets.limits()), tuple(self.targets.endings()))

    def _cut_off(self, journal: Journal | None) -> None:
        """The process is about to be ended, because the event loop does not stop."""
        from rejoinder.checks.processes import end_scripts

        if journal is None:
            return  # nothing was asked or started
        journal.flush()
        end_scripts()
        self.folder.log("ended by a signal; the event loop was busy")
        self.observer.cut_off(self.folder.id)

    def _sources(self, live: Live, journal: Journal) -> tuple[Source, ...]:
        """Who answers what is not recorded in this run yet."""
        if self.before is not None:
            replays = self.before.purpose == "replay"
            other = self.before.other_models(self.survey.targets, self.mask) if replays else ()
            recorded = Noted(Recorded(self.told, self._priced, other), journal)
            if self.before.purpose == "grade":
                return recorded, Judges(live, self.closed), Unrecorded(self.skipped)
            if self.before.purpose == "merge":
                return (recorded,)
            if self.before.purpose == "ask":
                return recorded, *self._own_sources(live, journal)
            nearest = Nearest(self.before.recorded[0], self.told, self.models)
            return recorded, Local(live), Missing(nearest.explain, self.skipped)
        return self._own_sources(live, journal)

    def _own_sources(self, live: Live, journal: Journal) -> tuple[Source, ...]:
        """Who answers by the run's own options."""
        if self.tape is not None and self.options.fork is not None:
            self.taken = Before(self.tape, self.options.fork.turn)
            return Noted(self.taken, journal), *self._asking(live, journal)
        if self.options.replay is not None:
            assert self.shelf is not None
            self.cassettes = Cassettes(self.shelf, self.mask.reveal_text, self.models)
            return Noted(self.cassettes, journal), Local(live), Missing(self.cassettes.explain)
        return self._asking(live, journal)

    def _asking(self, live: Live, journal: Journal) -> tuple[Source, ...]:
        """Whoever is there, after what the cache has."""
        if self.store is None:
            return (live,)
        self.kept = Kept(self.store, self.targets.words_of)
        noted = Noted(self.kept, journal)
        self.keeping = Keeping(self.store, noted, live, self.targets.words_of)
        return noted, self.keeping

    async def _use(self, call: Call) -> None:
        """The run's own journal has the answer: it counts as given wherever each recording is given once."""
        for source in (self.cassettes, self.taken):
            if source is not None:
                await source.answer(call)
        if call.target is not None and (provider := self._replayer(call.target)) is not None:
            provider.find(call.request)

    def _replaying(self) -> list[ReplayProvider]:
        """The providers of the targets that answer from cassettes."""
        found = [self._replayer(target) for _, target in self.survey.targets]
        return list({id(one): one for one in found if one is not None}.values())

    def _replayer(self, target: Target) -> ReplayProvider | None:
        if target.provider != "replay" or not self.targets.is_open(target):
            return None
        from rejoinder.providers.replay import ReplayProvider

        provider = self.targets.terms(target).provider
        return provider if isinstance(provider, ReplayProvider) else None

    def _open_cache(self) -> Cache:
        """Before anything is sent, so that a damaged one is told in time."""
        from rejoinder.engine.cache import Cache

        return Cache(Path(self.suites[0].root), self.options.cache_lifetime_s, self.mask)

    def _open_budget(self) -> Budget | None:
        if not self.has_budget or not self.ask:
            return None
        return Budget(self.options.budget_usd, self.options.budget_tokens, self.spent)

    def take_up(self, mask: Mask) -> History:
        """What the run's journal holds, read with `mask`, and what was spent until now."""
        if not self.has_budget:
            return read_journal(self.folder.journal, mask)
        targets = {target.name: target for _, target in self.survey.targets}
        free = {name for name, target in targets.items() if target.provider in UNCOUNTED}

        def priced(name: str, reply: Reply) -> Reply:
            return self._priced(targets[name], reply) if name in targets else reply

        ledger = Ledger(free, priced, in_usd=self.options.budget_usd is not None)
        history = read_journal(self.folder.journal, mask, ledger)
        if self.before is not None and self.before.purpose == "ask":  # its parts have spent before it
            for recorded in self.before.recorded:
                read_journal(recorded.folder.journal, recorded.mask_for(self.mask), ledger)
        self.spent = ledger.spent + asyncio.run(self._in_doubt(ledger.unknown, history.told))
        return history

    async def _in_doubt(self, unknown: Mapping[str, int], told: Mapping[str, Told]) -> Amount:
        """The most that calls can have cost of which nobody wrote it down, because the run had no such budget then. It
        follows from what they asked, so their conversations are gone through once more."""
        most: dict[str, Amount] = {}
        known = {**self.told, **told} if unknown else told
        for job in plan(self.suites, self.options) if unknown else ():
            tape, _ = await retrace(job, known)
            for call, _ in tape.calls:
                if call.key in unknown and call.target is not None and self.targets.is_open(call.target):
                    most[call.key] = self.targets.most(self.targets.terms(call.target), call.request)
                elif call.key in unknown:
                    most[call.key] = NOTHING
        largest = max(most.values(), key=lambda one: (one.usd, one.tokens), default=NOTHING)
        counted = (most.get(key, largest) for key, number in unknown.items() for _ in range(number))
        return sum(counted, NOTHING)

    def model_of(self, target: Target) -> str | None:
        if not self.ask or not self.targets.is_open(target):  # it is not asked, so nothing had to be filled in
            model = target.settings.get("model")
            known = self.before.models() if self.before is not None and "${{" in (model or "${{") else {}
            return known.get(target.name, model)
        model = self.targets.model_of(target)
        return None if model is None else self.mask.hide_text(model)

    def close(self) -> None:
        """Let go of what is held for the run, where it did not come to be played, too."""
        self.targets.loan.close()
        if self.store is not None:
            self.store.close()

    def _log_own_code(self, error: Exception) -> None:
        """Write the traceback of the user's own code into the log, once for each place that raises."""
        fault = error.__cause__
        if isinstance(fault, FunctionFault) and fault.error is not None and fault.identity not in self._logged:
            self._logged.add(fault.identity)
            self.folder.log(self.mask.hide_text(f"{OWN_CODE}{fault}\n{fault.traceback}"))

    def _skip(self, job: Job, spool: ResultWriter) -> None:
        spool.add(job.number, make_result(job, Outcome(status="skipped")), self.mask)

    def _is_given_up(self, job: Job) -> bool:
        """Would the conversation ask a target that is not asked any more?"""
        if not self.ask or not self.targets.endings():
            return False
        asked = (job.prepared.target, *asked_besides(job.prepared))
        return any(self.targets.is_given_up(one) for one in asked if self.targets.is_open(one))

    def _priced(self, target: Target, reply: Reply) -> Reply:
        """A recorded reply whose price nobody knew then, and which may have one now."""
        if not self.ask or reply.cost is not None or target.provider in FREE or not self.targets.is_open(target):
            return reply
        return structs.replace(reply, **self.targets.price(self.targets.terms(target), reply))

    def stale(self, status: str) -> list[str]:
        """Recordings that nobody asked for. Whole cassettes are named only where every case was there to ask."""
        options = self.options
        chosen = options.cases or options.tags or options.limit or options.shard or options.fork
        whole = status == "completed" and not self._failed_fast and not chosen
        found = self.cassettes.stale(self.suites if whole and not options.targets else ()) if self.cassettes else []
        return found + [text for one in self._replaying() for text in one.stale(whole=whole)]

    def _write_cassette(self, tape: Tape, job: Job) -> None:
        assert self.shelf is not None
        write_cassette(cassette_of(self.shelf, job), tape.cassette(job, self.models), self.mask.hide_text)

    def refuse_other_models(self, run: Receipt) -> None:
        """A run is of one model a target. Raises UsageError where a variable that names one has another value now."""
        then = {target.name: target.model for target in run.targets}
        names = Counter(target.name for _, target in self.survey.targets)
        alone = [target for _, target in self.survey.targets if names[target.name] == 1]  # the receipt has one a name
        for target in alone if self.ask else ():
            model, now = then.get(target.name), self.model_of(target)
            if model is not None and now != model and "${{" in written_model(target) and self.targets.is_open(target):
                raise UsageError(
                    f"run {self.folder.id} has asked the model `{model}` as target `{target.name}`, and now it would be"
                    f" `{now}`",
                    f"A run has one model for each target. Set `{written_model(target)}` to what it was, or start a new"
                    " run.",
                )

    def ask_errors_again(self, history: History | None) -> History | None:
        """Forget what ended as an error, wherever it would be answered from."""
        told = history.told if history is not None else {}
        if self._purpose == "ask":
            told = {**self.told, **told}
        unread = asyncio.run(unread_answers(plan(self.suites, self.options), told))
        again = {key for key, one in told.items() if one.failure is not None} | {call.key for call in unread}
        if self.store is not None:
            for key in (cache_key(call, self.targets.words_of) for call in unread):
                self.store.forget(key or "")
        if self._purpose in ("grade", "ask"):  # for new grades judges are asked again, and nobody else
            elsewhere = {key for key in again if self._purpose == "ask" or "-" in key}
            self.told = {key: one for key, one in self.told.items() if key not in elsewhere}
        if history is None:
            return None
        return structs.replace(history, told={key: one for key, one in history.told.items() if key not in again})

    def failure(self, error: BaseException) -> JournalError:
        """Why the run's folder can no longer be written, and how to go on."""
        path = self.folder.path
        if not path.is_dir():
            hint = "What was recorded in it is lost, unless it was moved. Start a new run."
            return JournalError(f"the run's folder {path} is gone: it was deleted or moved during the run", hint)
        if isinstance(error, JournalError | CassetteError):
            message, cause = error.message, error.__cause__
        else:
            reason = reason_of(error) if isinstance(error, OSError) else str(error)
            message, cause = f"the run's folder {path} cannot be written: {reason}", error
        hint = f"Everything recorded is safe. Now {remedy_for(cause)}, then: rejoinder resume {self.folder.id}"
        return JournalError(message, hint)

    async def _perform(self, job: Job, sources: tuple[Source, ...], spool: ResultWriter, executor: Executor) -> None:
        given_up = self._is_given_up(job)
        if given_up:
            sources = tuple(one for one in sources if not one.asks)  # what is recorded stands
        if given_up and not sources:
            self._skip(job, spool)
            self.observer.conversation_skipped(job)
            return
        self.observer.conversation_started(job)
        records = self.options.record is not None and self.notes
        tape = Tape() if records or self.keeping is not None else None
        player = Player(job, sources, self.vectors, tape)
        try:
            outcome = await player.play()
        except Unanswered:
            if given_up or (self._purpose != "ask" and place_of(job) in self.skipped):
                self._skip(job, spool)
            return
        except (JournalError, asyncio.CancelledError):
            raise
        except Exception as error:  # a bug, in rejoinder or in what it calls, must not touch other conversations
            outcome = Outcome(status="error", error=self._trouble(error, player.turn))
        if self.cassettes is not None:
            self.cassettes.close(job)
        if tape is not None and records:
            self._write_cassette(tape, job)
        if tape is not None and self.keeping is not None and _has_undecided(outcome):
            self.keeping.forget(unread_calls(tape))
        outcome = self._keep(job, outcome, spool)
        reached("conversation.finished")
        self.observer.conversation_finished(job, outcome)
        if self.options.fail_fast and outcome.status in ("failed", "error"):
            self._failed_fast = True
            executor.stop()

    def _trouble(self, error: Exception, turn: int) -> Trouble:
        """An exception as the error of its conversation."""
        if lacks_descriptors(error):
            assert isinstance(error, OSError)
            return Trouble(type="open-files", message=reason_of(error), turn=turn)
        if self.notes:
            with contextlib.suppress(OSError):
                self.folder.log(self.mask.hide_text("".join(traceback.format_exception(error))))
        message = f"internal error: {type(error).__name__}: {error} (see run.log)"
        return Trouble(type="internal", message=message, turn=turn)

    def _keep(self, job: Job, outcome: Outcome, spool: ResultWriter) -> Outcome:
        """Put a result with the others. One that cannot be written down is an error of its conversation alone."""
        try:
            record = make_result(job, outcome, include_messages=self.options.include_messages)
            spool.add(job.number, record, self.mask)
        except (UnicodeError, TypeError, ValueError, RecursionError) as error:
            message = f"the result cannot be written down: {type(error).__name__}: {error}"
            outcome = Outcome(
                status="error", error=Trouble(type="internal", message=message, turn=len(outcome.turns) or 1)
            )
            spool.add(job.number, make_result(job, outcome), self.mask)
        return outcome


def _has_undecided(outcome: Outcome) -> bool:
    """Has a judge been asked, and come to no verdict?"""
    verdicts = [verdict for turn in outcome.turns for verdict in turn.verdicts]
    while verdicts:
        verdict = verdicts.pop()
        if verdict.state == "error" and verdict.judged:
            return True
        verdicts += verdict.children
    return False


def with_budgets(options: RunOptions, suites: list[Suite]) -> RunOptions:
    """The suites' budgets where the command says none; of several suites they are added up, and hold for all."""
    for name in ("budget_usd", "budget_tokens"):
        given = [getattr(suite, name) for suite in suites if getattr(suite, name) is not None]
        if getattr(options, name) is None and given:
            options = structs.replace(options, **{name: sum(given)})
    return options


def _first(group: BaseExceptionGroup[BaseException]) -> BaseException:
    inner: BaseException = group
    while isinstance(inner, BaseExceptionGroup):
        inner = inner.exceptions[0]
    return inner
