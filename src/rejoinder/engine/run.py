"""A run: suites loaded, a folder opened, conversations played, results derived.

`start_run` begins a new run and `resume_run` takes one up again. Both play the same conversations by the same rules;
they differ only in where answers come from.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
import time
import traceback
from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct, structs

from rejoinder._version import __version__
from rejoinder.engine.asking import Live
from rejoinder.engine.desk import TargetDesk
from rejoinder.engine.folder import RunFolder, create_run, write_lines
from rejoinder.engine.interrupts import Interrupts
from rejoinder.engine.journal import History, Journal, JournalError, read_journal
from rejoinder.engine.masking import Mask
from rejoinder.engine.plan import Job, RunOptions, Survey, asked_besides, default_workers, plan, survey_plan
from rejoinder.engine.play import Player, Recorded, Source, Unanswered
from rejoinder.engine.points import reached
from rejoinder.engine.receipt import case_lines, now, suite_record, write_receipt
from rejoinder.engine.results import Outline, Record, Spool, add_costs, read_outlines, result_record
from rejoinder.engine.scheduler import Executor, LocalExecutor
from rejoinder.engine.summary import exit_code, summarise
from rejoinder.engine.vectors import Vectors
from rejoinder.errors import UsageError
from rejoinder.model import Failure, Outcome, Reply, Suite, Target, Trouble
from rejoinder.providers.limits import LimiterReport


class Observer:
    """Is told what happens in a run. The base class says nothing."""

    def started(self, planned: int) -> None: ...
    def conversation_started(self, job: Job) -> None: ...
    def conversation_finished(self, job: Job, outcome: Outcome) -> None: ...
    def conversation_skipped(self, job: Job) -> None: ...
    def retried(self) -> None: ...
    def stopping(self) -> None: ...
    def finished(self) -> None: ...


class Results(Sequence[Record]):
    """The results of a run, read from the disk: one at a time when walked through, all of them when indexed."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __iter__(self) -> Iterator[Record]:
        return (outline.read() for outline in self.outlines())

    def outlines(self) -> Iterator[Outline]:
        """How each conversation ended; for those who do not want to read them all."""
        return read_outlines(self._path)

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __getitem__(self, index: Any) -> Any:
        return list(self)[index]


class RunReport(Struct, frozen=True):
    """What a run came to. Results are read from the disk, one at a time."""

    run: Record
    summary: Record
    folder: RunFolder

    @property
    def results(self) -> Results:
        return Results(self.folder.results)

    def document(self) -> Record:
        return {"run": self.run, "summary": self.summary, "results": list(self.results)}


class Ending(Struct, frozen=True):
    """How a stretch of work ended."""

    status: str
    in_doubt: int
    """Calls whose outcome nobody knows."""
    failure: JournalError | None = None
    limits: tuple[LimiterReport, ...] = ()
    """What the limiters did."""
    given_up: tuple[tuple[Target, Failure], ...] = ()
    """Targets that were not asked any more, and why."""


class Session:
    """One stretch of work on a run, from opening its folder to closing it."""

    def __init__(
        self, suites: list[Suite], options: RunOptions, folder: RunFolder, observer: Observer, *, ask: bool = True
    ) -> None:
        self.suites = suites
        self.options = options
        self.folder = folder
        self.observer = observer
        self.ask = ask
        """Without it only what is recorded is played, and no provider is opened."""
        self.survey: Survey = survey_plan(suites, options)
        self.secrets = {value: name for suite in suites for value, name in suite.secrets.items()}
        self.targets = TargetDesk(options)
        if ask:
            self.targets.open_all(self.survey.targets)
        for suite in suites:
            self.targets.hide_settings(suite.targets.values())
        self.secrets.update(self.targets.secrets)
        self.mask = Mask(self.secrets)
        self.vectors = Vectors()
        self._failed_fast = False

    async def play(self, spool: Spool, history: History | None) -> Ending:
        """Have all conversations that can be had."""
        journal = Journal(self.folder.journal, self.mask, history) if self.ask else None
        sources: tuple[Source, ...] = (Recorded(history.told, self._priced),) if history else ()
        live = Live(self.targets, journal, self.observer.retried) if journal is not None else None
        if live is not None:
            sources = (*sources, live)
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

        # What the user's own code prints must not get between the results.
        with Interrupts(finish) as interrupts, contextlib.redirect_stdout(sys.stderr):
            try:
                await executor.execute(jobs, lambda job: self._perform(job, sources, spool, executor))
            except* (JournalError, OSError) as group:
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
        limits, given_up = tuple(self.targets.limits()), tuple(self.targets.endings())
        if interrupts.count or cancelled:
            return Ending("interrupted", in_doubt, None, limits, given_up)
        if self._failed_fast:
            for job in chain(executor.waiting, jobs):
                self._skip(job, spool)
        return Ending("completed", in_doubt, None, limits, given_up)

    def _skip(self, job: Job, spool: Spool) -> None:
        spool.add(job.number, result_record(job, Outcome(status="skipped")), self.mask)

    def _is_given_up(self, job: Job) -> bool:
        """Would the conversation ask a target that is not asked any more?"""
        if not self.ask or not self.targets.endings():
            return False
        return any(self.targets.is_given_up(one) for one in (job.prepared.target, *asked_besides(job.prepared)))

    def _priced(self, target: Target, reply: Reply) -> Reply:
        """A recorded reply whose price nobody knew then, and which may have one now."""
        if not self.ask or reply.cost is not None:
            return reply
        return structs.replace(reply, **self.targets.price(self.targets.terms(target), reply))

    def failure(self, error: BaseException) -> JournalError:
        """Why the run's folder can no longer be written, and how to go on."""
        if isinstance(error, JournalError):
            message = error.message
        else:
            reason = (getattr(error, "strerror", None) or str(error)).lower()
            message = f"the run's folder {self.folder.path} cannot be written: {reason}"
        hint = f"Everything recorded is safe. Make room on the disk, then: rejoinder resume {self.folder.id}"
        return JournalError(message, hint)

    async def _perform(self, job: Job, sources: tuple[Source, ...], spool: Spool, executor: Executor) -> None:
        given_up = self._is_given_up(job)
        if given_up:
            sources = sources[:-1]  # what is recorded stands, and nothing more is asked
        if given_up and not sources:
            self._skip(job, spool)
            self.observer.conversation_skipped(job)
            return
        self.observer.conversation_started(job)
        player = Player(job, sources, self.vectors)
        try:
            outcome = await player.play()
        except Unanswered:
            if given_up:
                self._skip(job, spool)
            return
        except (JournalError, asyncio.CancelledError):
            raise
        except Exception as error:  # a bug, in rejoinder or in what it calls, must not touch other conversations
            self.folder.log(self.mask.hide_text("".join(traceback.format_exception(error))))
            message = f"internal error: {type(error).__name__}: {error} (see run.log)"
            outcome = Outcome(status="error", error=Trouble(type="internal", message=message, turn=player.turn))
        record = result_record(job, outcome, include_messages=self.options.include_messages)
        spool.add(job.number, record, self.mask)
        reached("conversation.finished")
        self.observer.conversation_finished(job, outcome)
        if self.options.fail_fast and outcome.status in ("failed", "error"):
            self._failed_fast = True
            executor.stop()


def _first(group: BaseExceptionGroup[BaseException]) -> BaseException:
    inner: BaseException = group
    while isinstance(inner, BaseExceptionGroup):
        inner = inner.exceptions[0]
    return inner


def start_run(suites: list[Suite], options: RunOptions, observer: Observer | None = None) -> RunReport:
    """Run suites in a new folder."""
    root = Path(suites[0].root)
    try:
        folder = create_run(root)
        folder.lock()
    except OSError as error:
        raise UsageError(f"no run can be kept in {root}: {(error.strerror or str(error)).lower()}") from None
    try:
        try:
            session = Session(suites, options, folder, observer or Observer())
            if session.survey.planned == 0:
                raise UsageError("no case is selected, so nothing was sent", "Look at --case, --tag and --limit.")
            folder.write("suite.json", suite_record(suites, options), session.mask)
            write_lines(folder.path / "cases.jsonl", case_lines(suites), session.mask)
            run = write_receipt(folder, suites, options, session.survey)
            folder.write("run.json", run)
        except BaseException as error:
            folder.discard()  # nothing was sent, so there is nothing to keep
            if isinstance(error, OSError):
                reason = (error.strerror or str(error)).lower()
                raise UsageError(f"{folder.path} cannot be written: {reason}") from None
            raise
        reached("run.created")
        return _work(session, run, None)
    finally:
        folder.unlock()


def resume_run(
    folder: RunFolder,
    suites: list[Suite],
    options: RunOptions,
    observer: Observer | None = None,
    *,
    retry_errors: bool = False,
) -> RunReport:
    """Go on with a run: what is recorded is not asked again, except, when wanted, what ended in an error."""
    folder.lock()
    try:
        run = folder.read("run.json")
        if run is None:
            raise UsageError(f"{folder.path} holds no run that can be resumed")
        session = Session(suites, options, folder, observer or Observer())
        history = read_journal(folder.journal, session.mask) if folder.journal.exists() else None
        if history is not None and retry_errors:
            kept = {key: told for key, told in history.told.items() if told.failure is None}
            history = structs.replace(history, told=kept)
        return _work(session, run, history)
    finally:
        folder.unlock()


def read_run(folder: RunFolder) -> RunReport | None:
    """A run that came to an end, as it was written down; None when it did not."""
    run, summary = folder.read("run.json"), folder.read("summary.json")
    if run is None or summary is None or run["status"] == "running" or not folder.results.exists():
        return None
    _add_passports(summary, run, folder)  # a judge may have been tested since
    return RunReport(_shown(run), summary, folder)


def derive_run(folder: RunFolder, suites: list[Suite], options: RunOptions) -> RunReport:
    """What a run came to before its process was killed, from its journal alone. Nothing is asked."""
    folder.lock()
    try:
        run = folder.read("run.json")
        if run is None or not folder.journal.exists():
            raise UsageError(f"{folder.path} holds no run that can be shown")
        session = Session(suites, options, folder, Observer(), ask=False)
        history = read_journal(folder.journal, session.mask)
        return _work(session, run, history)
    finally:
        folder.unlock()


def _work(session: Session, run: Record, history: History | None) -> RunReport:
    folder, planned, ask = session.folder, session.survey.planned, session.ask
    started = time.monotonic()
    folder.log(f"rejoinder {__version__}: {planned} conversations, {'resumed' if history else 'started'}")
    if ask and (run["status"] != "running" or run["planned"] != planned):
        folder.write("run.json", {**run, "status": "running", "planned": planned})
    spool = Spool(folder.path)
    ending = asyncio.run(session.play(spool, history))
    if ending.failure is not None:
        spool.abandon()
        raise ending.failure
    duration = round(run["duration_s"] + (time.monotonic() - started if ask else 0), 6)
    run = {
        **run,
        "status": ending.status if ask else "killed",
        "planned": planned,
        "finished_at": now() if ask else None,
        "in_doubt": ending.in_doubt,
        "limits": [msgspec.to_builtins(one) for one in ending.limits if one.refused or one.waited_s],
        "given_up": [
            {
                "target": target.name,
                "type": session.mask.hide_text(why.type),
                "message": session.mask.hide_text(why.message),
            }
            for target, why in ending.given_up
        ],
        "duration_s": duration,
    }
    try:
        summary = _write_down(session, run, spool)
    except OSError as error:
        raise session.failure(error) from None
    folder.log(f"{ending.status}: {summary['passed']} passed, {summary['failed']} failed, {summary['errors']} errors")
    return RunReport(_shown(run), summary, folder)


def _write_down(session: Session, run: Record, spool: Spool) -> Record:
    """Results, summary and receipt, in this order: a receipt that says `completed` has everything beside it."""
    summary = summarise(spool.finish(), run["planned"], run["duration_s"])
    summary["exit_code"] = exit_code(summary, run["status"])
    summary["limits"] = run.get("limits", [])
    _add_embeddings(summary, session.vectors)
    _add_passports(summary, run, session.folder)
    session.folder.write("summary.json", summary)
    reached("summary.written")
    session.folder.write("run.json", run)
    reached("run.closed")
    return summary


def _add_embeddings(summary: Record, vectors: Vectors) -> None:
    """What embeddings used: they belong to the run, because conversations share them."""
    cost = None if None in vectors.costs else add_costs(sorted(one for one in vectors.costs if one is not None))
    tokens = vectors.usage.input_tokens
    summary["embeddings"] = {"texts": len(vectors.costs), "tokens": tokens, "cost": cost}
    summary["total_tokens"] += tokens
    if cost is not None and summary["total_cost"] is not None:
        summary["total_cost"] += cost
    elif vectors.costs and cost is None and vectors.paid:
        summary["total_cost"] = None  # a part of it is not known


def _add_passports(summary: Record, run: Record, folder: RunFolder) -> None:
    if summary.get("judges"):
        from rejoinder.engine.passports import add_passports  # noqa: PLC0415 - most runs have no judge

        add_passports(summary["judges"], run, folder.root)


def _shown(run: Record) -> Record:
    """The receipt as documents show it; its duration stands in the summary."""
    return {key: value for key, value in run.items() if key != "duration_s"}
