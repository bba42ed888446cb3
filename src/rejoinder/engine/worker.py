"""One execution of a run: plays its conversations, keeps their results, and ends in order on a signal."""

from __future__ import annotations

import asyncio
import contextlib
import traceback
from collections.abc import Callable, Iterator
from itertools import chain

from msgspec import Struct

from rejoinder.engine.answers import JournalSource
from rejoinder.engine.at_once import AtOnce, count_at_once
from rejoinder.engine.budget import Budget
from rejoinder.engine.calls import NoAnswer, Source, Tape
from rejoinder.engine.embeddings import Embeddings
from rejoinder.engine.executor import Executor, LocalExecutor
from rejoinder.engine.interrupts import Interrupts
from rejoinder.engine.journal_writer import Journal
from rejoinder.engine.kept import Kept, said_again_words
from rejoinder.engine.live import Live
from rejoinder.engine.loops import caller_loop
from rejoinder.engine.make_result import ResultKeeper
from rejoinder.engine.observer import Observer
from rejoinder.engine.plan import Job, plan
from rejoinder.engine.player import Player, PlayError
from rejoinder.engine.setup import Setup
from rejoinder.engine.sources import RunSources
from rejoinder.errors import FEWER_FILES, CassetteError, lacks_descriptors, reason_of, remedy_for
from rejoinder.model import Failure, Outcome, Spoilt, Target, Trouble
from rejoinder.model.runs import LimiterResult, TargetCalls
from rejoinder.providers.shared import Workspaces
from rejoinder.runs.crash_points import reached
from rejoinder.runs.folder import OWN_CODE, RunFolder
from rejoinder.runs.journal import History, JournalError
from rejoinder.user_code.functions import FunctionFault
from rejoinder.user_code.output import redirect_user_output
from rejoinder.validation.roles import other_targets

MOST_WITHOUT_FILES = 5
"""Conversations in a row that may end because no file or connection can be opened, before the run stops."""


class Ending(Struct, frozen=True):
    """How an execution ended."""

    status: str
    in_doubt: int
    """Calls whose outcome is unknown."""
    failure: JournalError | KeyboardInterrupt | None = None
    """Raised once the event loop has ended: nothing is derived from half of the results."""
    limits: tuple[LimiterResult, ...] = ()
    calls: tuple[TargetCalls, ...] = ()
    given_up: tuple[tuple[Target, Failure], ...] = ()
    """Targets that were not called any more, and why."""
    played_all: bool = False
    """True if no conversation was left out after a failure."""


class Worker:
    """Plays the conversations of a run."""

    def __init__(
        self,
        setup: Setup,
        folder: RunFolder,
        results: ResultKeeper,
        observer: Observer,
        executor: Executor | None = None,
    ) -> None:
        """`executor`: where conversations are played, if not as tasks of this process."""
        self.setup = setup
        self.embeddings = Embeddings()
        self._folder = folder
        self._results = results
        self._observer = observer
        at_once = count_at_once(setup) if executor is None else AtOnce(0)
        self._cap = at_once.cap
        self._executor: Executor = executor or LocalExecutor(at_once.conversations)
        self._without_files = 0
        """Conversations in a row that ended because no file or connection could be opened."""
        self._stop: Callable[[], None] = self._executor.stop
        self._kept: Kept | None = None
        self._failed_fast = False
        self._stops = False
        """Is nothing new begun any more?"""
        self._confirmed: dict[bytes, asyncio.Future[bool]] = {}
        """Has the latest further trial of a newly failing case passed, or one before it? By the case's content."""
        self._logged: set[object] = set()
        """Errors of the user's own code whose traceback is in the log."""

    async def read(self, history: History, clean_up: Callable[[], object], then: tuple[Source, ...] = ()) -> Ending:
        """Play what is recorded, without a call or a record. `clean_up` is called when the process is ended early;
        `then` answers what is not recorded."""
        with Interrupts(None, clean_up) as interrupts:
            failure = await self._play_all((JournalSource(history.told), *then), None)
        if interrupts.count or isinstance(failure, asyncio.CancelledError):
            return Ending("interrupted", history.in_doubt, KeyboardInterrupt())
        return Ending("completed", history.in_doubt, _journal_error(self._folder, failure))

    async def work(self, sources: RunSources, history: History | None, budget: Budget | None) -> Ending:
        """Play every conversation that can be played."""
        journal = Journal(self._folder.journal, self.setup.mask, history)
        self.setup.targets.exchange.note = self._note
        self.setup.targets.exchange.show = lambda text: self._observer.told(self.setup.mask.hide_text(text))
        self.setup.targets.exchange.log_service = lambda lines: self._folder.log_service(lines, self.setup.mask)
        self._kept = Kept(self._folder.id, history.heard if history else None, self._note)
        self.setup.targets.exchange.workspaces = Workspaces(
            self._folder.id, self.setup.options.selection.keep_workspaces, self._folder.workspaces
        )
        for words in said_again_words(self.setup.options.answers.fork):
            self.setup.targets.exchange.tell(words)
        if self._cap:
            self.setup.targets.exchange.tell(self._cap)
        live = Live(
            self.setup.targets,
            journal,
            budget,
            kept=self._kept,
            tools=self.setup.tools,
            on_retry=self._observer.retried,
            on_failure=self._log_own_code,
        )

        def stop() -> None:
            self._stops = True
            self._executor.stop()
            live.stop()

        def finish() -> None:
            stop()
            self._observer.stopping()

        self._stop = stop
        if budget is not None:
            budget.when_reached(stop)

        with _own_output():  # until everything of the user's is closed
            try:
                with Interrupts(finish, lambda: self._save(journal)) as interrupts:
                    played = sources.for_run(live, journal, history)
                    failure = await self._play_all(played, sources)
                    if self._failed_fast and failure is None and not interrupts.count and not _has_spent_all(budget):
                        await self._skip_rest(() if history is None else played[:1])
            finally:
                journal.close()
                await live.close()
                await self.setup.targets.close()
        in_doubt = (history.in_doubt if history else 0) + len(journal.open_calls)
        if failure is not None and not isinstance(failure, asyncio.CancelledError):
            return Ending("error", in_doubt, _journal_error(self._folder, failure))
        if self._without_files >= MOST_WITHOUT_FILES:
            return Ending("error", in_doubt, _files_error(self._folder))
        interrupted = bool(interrupts.count or failure is not None)
        status = "interrupted" if interrupted else "budget" if _has_spent_all(budget) else "completed"
        targets = self.setup.targets
        return Ending(
            status,
            in_doubt,
            limits=tuple(targets.limits()),
            calls=tuple(targets.calls()),
            given_up=tuple(targets.endings()),
            played_all=status == "completed" and not self._failed_fast,
        )

    async def _play_all(self, sources: tuple[Source, ...], chosen: RunSources | None) -> BaseException | None:
        """What ended it early: a folder that cannot be written, or a cancelled task."""
        jobs = plan(self.setup.suites, self.setup.options)
        self._left: Iterator[Job] = jobs
        """Conversations that were not begun."""
        self._observer.started(self.setup.survey.planned)
        failure: BaseException | None = None
        try:
            left = await self._executor.execute(jobs, lambda job: self._perform_in_turn(job, sources, chosen))
            self._left = chain(left, jobs)
        except* (JournalError, CassetteError, OSError) as group:
            failure = _first(group)
        except* asyncio.CancelledError:
            failure = asyncio.CancelledError()
        finally:
            self._observer.finished()
            await self.embeddings.close()
        return failure

    async def _perform_in_turn(self, job: Job, sources: tuple[Source, ...], chosen: RunSources | None) -> None:
        """Perform a job. One that confirms a failure waits for the trial before it, and is left out if that passed."""
        if not job.confirms:
            await self._perform(job, sources, chosen)
            return
        case, told = job.prepared.content, asyncio.get_running_loop().create_future()
        before, self._confirmed[case] = self._confirmed.get(case), told
        passed = False
        try:
            # What others wait for is not cancelled with one of those who wait.
            passed = before is not None and await asyncio.shield(before)
            if not passed and not self._stops:
                outcome = await self._perform(job, sources, chosen)
                passed = outcome is not None and outcome.status == "passed"
        finally:
            told.set_result(passed)

    async def _perform(self, job: Job, sources: tuple[Source, ...], chosen: RunSources | None) -> Outcome | None:
        """What came of a conversation; None if it is left."""
        given_up = self._is_given_up(job)
        if given_up:
            sources = tuple(source for source in sources if not source.asks)  # what is recorded stands
        self._observer.conversation_started(job)
        if given_up and not sources:
            self._results.skip(job)
            self._observer.conversation_left(job)
            return None
        tape = chosen.tape() if chosen is not None else None
        try:
            outcome = await self._play(job, sources, tape)
        except NoAnswer:
            if given_up or (chosen is not None and chosen.was_skipped(job)):
                self._results.skip(job)
            self._observer.conversation_left(job)
            return None
        except PlayError as error:  # a bug, here or in what is called, must not touch other conversations
            outcome = Outcome(status="error", error=self._trouble(error, logs=chosen is not None))
        if chosen is not None:
            chosen.finished(job, outcome, tape)
        outcome = self._results.keep(job, outcome)
        reached("conversation.finished")
        self._observer.conversation_finished(job, outcome)
        self._count_without_files(outcome)
        lost = outcome.status == "error" or (outcome.status == "failed" and not _is_spoilt(outcome))
        if self.setup.options.pace.fail_fast and lost and self._counts(job):
            self._failed_fast = True
            self._executor.stop()
        return outcome

    def _count_without_files(self, outcome: Outcome) -> None:
        """Where one conversation after the other finds no descriptor, every further call would be paid for nothing."""
        if self._without_files >= MOST_WITHOUT_FILES:
            return
        lacks = outcome.error is not None and FEWER_FILES in outcome.error.message
        self._without_files = self._without_files + 1 if lacks else 0
        if self._without_files >= MOST_WITHOUT_FILES:
            self._stop()

    async def _play(self, job: Job, sources: tuple[Source, ...], tape: Tape | None) -> Outcome:
        """Play a conversation; whatever becomes of it, its target is told that it is over, and so are its tools."""
        outcome: Outcome | None = None
        try:
            outcome = await self._executor.play(job, sources, self.embeddings, tape)
            return outcome
        finally:
            if self._kept is not None and job in self._kept:
                await self._kept.end(job, failed=outcome is None or outcome.status != "passed")
            await self.setup.tools.end(job.number)

    def _counts(self, job: Job) -> bool:
        """False while its case is in quarantine."""
        quarantine = job.prepared.case.quarantine
        if quarantine is None:
            return True
        receipt = self._folder.read_receipt()  # resumed on a later day, a run is still one of its first
        return receipt is not None and quarantine.is_over(receipt.day)

    def _is_given_up(self, job: Job) -> bool:
        """True if the conversation would call a target that was given up."""
        targets, prepared = self.setup.targets, job.prepared
        if not self.setup.opens_targets or not targets.endings():
            return False
        opened = (targets.find(prepared.suite, target) for target in (prepared.target, *other_targets(prepared)))
        return any(target is not None and target.state.ended is not None for target in opened)

    async def _skip_rest(self, recorded: tuple[Source, ...]) -> None:
        """Skip the conversations that were not started. What the run's own journal holds of them stands."""
        for job in self._left:
            try:
                outcome = await Player(job, recorded, self.embeddings).play()
            except (NoAnswer, PlayError):
                self._results.skip(job)
            else:
                self._results.keep(job, outcome)

    def _trouble(self, failed: PlayError, *, logs: bool) -> Trouble:
        """An exception as the error of its conversation."""
        error = failed.__cause__
        if isinstance(error, OSError) and lacks_descriptors(error):
            return Trouble(type="open-files", message=reason_of(error), turn=failed.turn)
        if logs and error is not None:
            with contextlib.suppress(OSError):
                self._folder.log(self.setup.mask.hide_text("".join(traceback.format_exception(error))))
        message = f"internal error: {type(error).__name__}: {error} (see run.log)"
        return Trouble(type="internal", message=message, turn=failed.turn)

    def _log_own_code(self, error: Exception) -> None:
        """Write the traceback of the user's own code into the log, once for each place that raises."""
        fault = error.__cause__
        if isinstance(fault, FunctionFault) and fault.error is not None and fault.identity not in self._logged:
            self._logged.add(fault.identity)
            self._folder.log(self.setup.mask.hide_text(f"{OWN_CODE}{fault}\n{fault.traceback}"))

    def _note(self, text: str) -> None:
        with contextlib.suppress(OSError):
            self._folder.log(self.setup.mask.hide_text(text))

    def _save(self, journal: Journal) -> None:
        """The process is about to be ended, because the event loop does not stop."""
        from rejoinder.user_code.programs import end_processes

        journal.flush()
        end_processes()
        self._folder.log("ended by a signal; the event loop was busy")
        self._observer.cut_off(self._folder.id)


def _own_output() -> contextlib.AbstractContextManager[None]:
    """Keep standard output for results. Where a program awaits the run, its standard output is its own."""
    return redirect_user_output() if caller_loop() is None else contextlib.nullcontext()


def folder_failure(folder: RunFolder, error: BaseException) -> JournalError:
    """Why a run's folder can no longer be written, and how to go on."""
    path = folder.path
    if not path.is_dir():
        hint = "What was recorded in it is lost, unless it was moved. Start a new run."
        return JournalError(f"the run's folder {path} is gone: it was deleted or moved during the run", hint)
    if isinstance(error, JournalError | CassetteError):
        message, cause = error.message, error.__cause__
    else:
        reason = reason_of(error) if isinstance(error, OSError) else str(error)
        message, cause = f"the run's folder {path} cannot be written: {reason}", error
    hint = f"Everything recorded is safe. Now {remedy_for(cause)}, then: `rejoinder resume {folder.id}`"
    return JournalError(message, hint)


def _files_error(folder: RunFolder) -> JournalError:
    reason = f"{MOST_WITHOUT_FILES} conversations in a row could not open a file or a connection, so the run stopped"
    hint = f"Everything recorded is safe. Now {FEWER_FILES}, then: `rejoinder resume {folder.id} --retry-errors`"
    return JournalError(reason, hint)


def _has_spent_all(budget: Budget | None) -> bool:
    return budget is not None and budget.reached


def _journal_error(folder: RunFolder, failure: BaseException | None) -> JournalError | None:
    return None if failure is None else folder_failure(folder, failure)


def _first(group: BaseExceptionGroup[BaseException]) -> BaseException:
    inner: BaseException = group
    while isinstance(inner, BaseExceptionGroup):
        inner = inner.exceptions[0]
    return inner


def _is_spoilt(outcome: Outcome) -> bool:
    """Has its simulated user spoilt it? Then it decides nothing."""
    return outcome.user is not None and isinstance(outcome.user.spoilt, Spoilt)
