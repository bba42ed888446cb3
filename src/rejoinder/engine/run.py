"""A run: suites loaded, a folder opened, conversations played, results derived.

`start_run` begins a new run and `resume_run` takes one up again. Both play the same conversations by the same rules;
they differ only in where answers come from.
"""

from __future__ import annotations

import asyncio
import time
import traceback
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct, structs

from rejoinder._version import __version__
from rejoinder.engine.asking import Live
from rejoinder.engine.budget import NOTHING, Amount, Budget, Ledger
from rejoinder.engine.desk import TargetDesk, load_prices
from rejoinder.engine.earlier import Earlier, Nearest, retrace, tape_of, unread_answers
from rejoinder.engine.folder import RunFolder, create_run, find_run, runs_folder, write_lines
from rejoinder.engine.interrupts import Interrupts
from rejoinder.engine.journal import History, Journal, JournalError, Told, read_journal
from rejoinder.engine.masking import Mask
from rejoinder.engine.plan import (
    Job,
    RunOptions,
    Survey,
    asked_besides,
    default_workers,
    pairs,
    plan,
    survey_plan,
    written_model,
)
from rejoinder.engine.play import Player
from rejoinder.engine.points import reached
from rejoinder.engine.receipt import (
    case_lines,
    now,
    suite_record,
    write_receipt,
)
from rejoinder.engine.results import Outline, Record, Spool, add_costs, read_outlines, result_record
from rejoinder.engine.scheduler import Executor, LocalExecutor
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
from rejoinder.engine.summary import exit_code, summarise
from rejoinder.engine.vectors import Vectors
from rejoinder.errors import RejoinderError, UsageError
from rejoinder.functions import results_kept_clean
from rejoinder.model import Failure, Outcome, Reply, Suite, Target, Trouble
from rejoinder.providers import FREE, UNCOUNTED
from rejoinder.providers.cassettes import CassetteError, Shelf, check_folder, write_cassette
from rejoinder.providers.limits import LimiterReport

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
        options = _with_budgets(options, suites)
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
        self.secrets = {value: name for suite in suites for value, name in suite.secrets.items()}
        self.targets = TargetDesk(options)
        self.closed: dict[int, RejoinderError] = {}
        """Why targets could not be opened that may not be needed."""
        if self.ask:
            asked = self._open_targets()
            if self.has_budget:
                self.targets.refuse_unbounded((target for _, target in asked), self.survey.embedders)
        else:
            self.targets.hide_keys(self.survey.targets)
        for suite in suites:
            self.targets.hide_settings(suite.targets.values())
        # What the author calls by a name keeps it: on another machine another value may be meant.
        self.secrets = {**self.targets.secrets, **self.secrets}
        self.mask = Mask(self.secrets)
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
            except RejoinderError as error:  # a candidate would only say what a reply costs now
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

    async def play(self, spool: Spool, history: History | None) -> Ending:
        """Have all conversations that can be had."""
        journal = Journal(self.folder.journal, self.mask, history) if self.notes else None
        sources: tuple[Source, ...] = ()
        live: Live | None = None
        if journal is not None:
            self.budget = self._open_budget()
            live = Live(self.targets, journal, self.observer.retried, self.budget)
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
        with Interrupts(finish) as interrupts, results_kept_clean():
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
                if self.store is not None:
                    self.store.close()
        in_doubt = (history.in_doubt if history else 0) + (len(journal.open_calls) if journal else 0)
        if failure is not None:
            return Ending("error", in_doubt, failure)
        limits, given_up = tuple(self.targets.limits()), tuple(self.targets.endings())
        if interrupts.count or cancelled:
            return Ending("interrupted", in_doubt, None, limits, given_up)
        if self.budget is not None and self.budget.reached:
            return Ending("budget", in_doubt, None, limits, given_up)
        if self._failed_fast:
            for job in chain(executor.waiting, jobs):
                self._skip(job, spool)
        return Ending("completed", in_doubt, None, limits, given_up)

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
            nearest = Nearest(self.before.folders[0], self.told, self.models)
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
        from rejoinder.providers.replay import ReplayProvider  # noqa: PLC0415 - few targets are of this kind

        provider = self.targets.terms(target).provider
        return provider if isinstance(provider, ReplayProvider) else None

    def _open_cache(self) -> Cache:
        """Before anything is sent, so that a damaged one is told in time."""
        from rejoinder.engine.cache import Cache  # noqa: PLC0415 - brings SQLite

        return Cache(Path(self.suites[0].root), self.options.cache_lifetime_s, self.mask)

    def _open_budget(self) -> Budget | None:
        if not self.has_budget or not self.ask:
            return None
        return Budget(self.options.budget_usd, self.options.budget_tokens, self.spent)

    def take_up(self) -> History:
        """What the run's journal holds, and what was spent until now."""
        if not self.has_budget:
            return read_journal(self.folder.journal, self.mask)
        targets = {target.name: target for _, target in self.survey.targets}
        free = {name for name, target in targets.items() if target.provider in UNCOUNTED}

        def priced(name: str, reply: Reply) -> Reply:
            return self._priced(targets[name], reply) if name in targets else reply

        ledger = Ledger(free, priced, in_usd=self.options.budget_usd is not None)
        history = read_journal(self.folder.journal, self.mask, ledger)
        if self.before is not None and self.before.purpose == "ask":  # its parts have spent before it
            for folder in self.before.folders:
                read_journal(folder.journal, self.mask, ledger)
        self.spent = ledger.spent + asyncio.run(self._in_doubt(ledger.unknown, history.told))
        return history

    async def _in_doubt(self, unknown: Mapping[str, int], told: Mapping[str, Told]) -> Amount:
        """The most that calls can have cost of which nobody wrote it down, because the run had no such budget then. It
        follows from what they asked, so their conversations are gone through once more."""
        most: dict[str, Amount] = {}
        for job in plan(self.suites, self.options) if unknown else ():
            tape, _ = await retrace(job, {**self.told, **told})
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

    def _skip(self, job: Job, spool: Spool) -> None:
        spool.add(job.number, result_record(job, Outcome(status="skipped")), self.mask)

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

    def refuse_other_models(self, run: Record) -> None:
        """A run is of one model a target. Raises UsageError where a variable that names one has another value now."""
        then = {target["name"]: target["model"] for target in run["targets"]}
        for _, target in self.survey.targets if self.ask else ():
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
        if isinstance(error, JournalError | CassetteError):
            message = error.message
        else:
            reason = (getattr(error, "strerror", None) or str(error)).lower()
            message = f"the run's folder {self.folder.path} cannot be written: {reason}"
        hint = f"Everything recorded is safe. Make room on the disk, then: rejoinder resume {self.folder.id}"
        return JournalError(message, hint)

    async def _perform(self, job: Job, sources: tuple[Source, ...], spool: Spool, executor: Executor) -> None:
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
            if given_up or place_of(job) in self.skipped:
                self._skip(job, spool)
            return
        except (JournalError, asyncio.CancelledError):
            raise
        except Exception as error:  # a bug, in rejoinder or in what it calls, must not touch other conversations
            self.folder.log(self.mask.hide_text("".join(traceback.format_exception(error))))
            message = f"internal error: {type(error).__name__}: {error} (see run.log)"
            outcome = Outcome(status="error", error=Trouble(type="internal", message=message, turn=player.turn))
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

    def _keep(self, job: Job, outcome: Outcome, spool: Spool) -> Outcome:
        """Put a result with the others. One that cannot be written down is an error of its conversation alone."""
        try:
            record = result_record(job, outcome, include_messages=self.options.include_messages)
            spool.add(job.number, record, self.mask)
        except (UnicodeError, TypeError, ValueError, RecursionError) as error:
            message = f"the result cannot be written down: {type(error).__name__}: {error}"
            outcome = Outcome(
                status="error", error=Trouble(type="internal", message=message, turn=len(outcome.turns) or 1)
            )
            spool.add(job.number, result_record(job, outcome), self.mask)
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


def _with_budgets(options: RunOptions, suites: list[Suite]) -> RunOptions:
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


def start_run(
    suites: list[Suite],
    options: RunOptions,
    observer: Observer | None = None,
    *,
    before: Earlier | None = None,
    tape: Tape | None = None,
    inside: RunFolder | None = None,
    root: Path | None = None,
) -> RunReport:
    """Run suites in a new folder, or in one inside another run's: new grades lie beside the old ones.

    The folder is in the suites' project, or in that of `root`: suites of another machine have theirs there.
    """
    root = root or Path(suites[0].root)
    try:
        folder = create_run(root) if inside is None else inside.create_inside()
        folder.lock()
    except OSError as error:
        raise UsageError(f"no run can be kept in {root}: {(error.strerror or str(error)).lower()}") from None
    try:
        try:
            session = Session(suites, options, folder, observer or Observer(), before=before, tape=tape)
            if session.survey.planned == 0:
                raise UsageError("no case is selected, so nothing was sent", "Look at --case, --tag and --limit.")
            folder.write("suite.json", suite_record(suites, options), session.mask)
            write_lines(folder.path / "cases.jsonl", case_lines(suites), session.mask)
            run = write_receipt(folder, suites, options, session.survey, session.model_of)
            if before is not None:
                run[f"{before.purpose}_of"] = ", ".join(one.id for one in before.folders)
                if before.purpose == "merge":
                    run["parts"] = [str(one.path) for one in before.folders]
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
        # A run that plays another one goes on playing it, and asks nobody.
        replayed = run.get("replay_of")
        before = Earlier((find_run(folder.root, replayed),)) if replayed else None
        if "grade_of" in run:
            before = Earlier((RunFolder(folder.path.parent.parent),), "grade")
        if "parts" in run:
            before = Earlier(_parts_of(folder, run, _with_budgets(options, suites)), "ask")
            folder.journal.touch()  # it may have asked nobody yet, but they have
        tape = tape_of(options, suites, folder)
        session = Session(suites, options, folder, observer or Observer(), before=before, tape=tape)
        session.refuse_other_models(run)
        history = session.take_up() if folder.journal.exists() else None
        if retry_errors:
            history = session.ask_errors_again(history)
        return _work(session, run, history)
    finally:
        folder.unlock()


def _parts_of(folder: RunFolder, run: Record, options: RunOptions) -> tuple[RunFolder, ...]:
    """The runs that one was merged from. Raises UsageError where one is gone and wanted."""
    found: list[RunFolder] = []
    for part in run["parts"]:
        there = [RunFolder(path) for path in (Path(part), runs_folder(folder.root) / Path(part).name)]
        known = next((one for one in there if one.journal.is_file()), None)
        if known is not None:
            found.append(known)
        elif not run.get("taken_over"):
            raise UsageError(
                f"the merge {folder.id} was cut off, and one of its parts is gone: {part}",
                "Put it back, or merge the parts that there are anew.",
            )
        elif options.budget_usd is not None or options.budget_tokens is not None:
            raise UsageError(
                f"the budget of {folder.id} counts what its parts have spent, and one of them is gone: {part}",
                "Put it back, or start a new run.",
            )
    return tuple(found)


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
    folder, planned, ask = session.folder, session.survey.planned, session.notes
    started = time.monotonic()
    folder.log(f"rejoinder {__version__}: {planned} conversations, {'resumed' if history else 'started'}")
    if ask and (run["status"] != "running" or run["planned"] != planned):
        folder.write("run.json", {**run, "status": "running", "planned": planned})
    spool = Spool(folder.path)
    ending = asyncio.run(session.play(spool, history))
    if ending.failure is not None:
        spool.abandon()
        raise ending.failure
    stale = session.stale(ending.status)
    if ask and "parts" in run and ending.status == "completed":
        run = {**run, "taken_over": True}  # all that the parts have been told is here, too
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
        **({"stale": stale} if stale or "stale" in run else {}),
        **({"from_cache": _from_cache(session, history)} if session.options.cache else {}),
        **({"budget": session.budget.record()} if session.budget is not None else {}),
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


def _from_cache(session: Session, history: History | None) -> Record:
    """How many answers were not asked for, and what of the run's tokens and cost was not spent for that reason."""
    told = history.told.values() if history is not None else ()
    before = (one.reply for one in told if one.reply is not None and one.reply.cached)
    used = [(reply.usage.total_tokens, reply.cost) for reply in before]
    used += session.kept.used if session.kept is not None else []
    trouble = session.keeping.trouble if session.keeping is not None else None
    return {
        "answers": len(used),
        "tokens": sum(tokens for tokens, _ in used),
        "cost": add_costs(sorted(cost for _, cost in used if cost is not None)),
        **({"trouble": trouble} if trouble else {}),
    }


def _add_embeddings(summary: Record, vectors: Vectors) -> None:
    """What embeddings used: they belong to the run, because conversations share them."""
    cost = None if None in vectors.costs else add_costs(sorted(one for one in vectors.costs if one is not None))
    tokens = vectors.usage.input_tokens
    summary["embeddings"] = {"texts": len(vectors.costs), "tokens": tokens, "cost": cost}
    summary["total_tokens"] += tokens
    if (
        cost is not None
        and not summary["unpriced"]
        and (summary["judge_cost"] is not None or not summary["judge_usage"]["total_tokens"])
    ):
        summary["total_cost"] = (summary["total_cost"] or 0.0) + cost
    elif vectors.costs and cost is None and vectors.paid:
        summary["total_cost"] = None  # a part of it is not known


def _add_passports(summary: Record, run: Record, folder: RunFolder) -> None:
    if summary.get("judges"):
        from rejoinder.engine.passports import add_passports  # noqa: PLC0415 - most runs have no judge

        add_passports(summary["judges"], run, folder.root)


def _shown(run: Record) -> Record:
    """The receipt as documents show it; its duration stands in the summary."""
    return {key: value for key, value in run.items() if key != "duration_s"}
