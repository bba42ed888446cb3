"""The verbs of a run: start, resume, replay, grade, fork, merge and show.

They play the same conversations by the same rules and differ in the value `Answers` alone: where recorded answers are
looked up, which calls may be made, and what becomes of the others.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import Counter
from collections.abc import Generator
from pathlib import Path
from typing import Any
from weakref import finalize

import msgspec
from msgspec import Struct, structs

from rejoinder._version import __version__
from rejoinder.engine.budget import NOTHING, Amount, Budget
from rejoinder.engine.calls import Tape
from rejoinder.engine.conversation import Fork
from rejoinder.engine.crash_points import reached
from rejoinder.engine.earlier import EarlierRuns, find_earlier
from rejoinder.engine.embeddings import Embeddings
from rejoinder.engine.executor import Executor
from rejoinder.engine.folder import (
    RunBusy,
    RunFolder,
    create_grades,
    create_run,
    find_run_by_id,
    runs_folder,
    write_lines,
)
from rejoinder.engine.journal import History, read_journal
from rejoinder.engine.observer import Observer
from rejoinder.engine.options import GRADE, MERGE, REPLAY, RunOptions, settled
from rejoinder.engine.plan import plan
from rejoinder.engine.receipt import case_lines, new_receipt, now, store_suites
from rejoinder.engine.recorded import RecordedRun
from rejoinder.engine.results import Results, ResultWriter, read_results
from rejoinder.engine.retrace import recorded_conversation
from rejoinder.engine.seal import write_seal
from rejoinder.engine.setup import Setup
from rejoinder.engine.sources import RunSources, refuse_closed
from rejoinder.engine.spent import read_spent
from rejoinder.engine.summary import add_embeddings, summarise
from rejoinder.engine.worker import Ending, Worker, folder_failure
from rejoinder.errors import RejoinderError, UsageError, reason_of
from rejoinder.model import Receipt, Suite, Summary, file_in_project
from rejoinder.model.runs import DisabledTarget


class Scratch:
    """A folder that is deleted with this object, or when the process ends."""

    def __init__(self) -> None:
        from shutil import rmtree
        from tempfile import mkdtemp

        self.path = Path(mkdtemp(prefix="rejoinder-"))
        self.delete = finalize(self, rmtree, self.path, ignore_errors=True)


class RunReport(Struct, frozen=True):
    """What a run came to. Results are read from the disk, one at a time."""

    run: Receipt
    summary: Summary
    folder: RunFolder
    derived: Scratch | None = None
    """Where results lie that were derived only to be shown; it goes with the report."""

    @property
    def results(self) -> Results:
        return Results(self.folder.results if self.derived is None else self.derived.path / "results.jsonl")

    def document(self) -> dict[str, Any]:
        """The whole run as `--format json` writes it."""
        document = {"run": self.run.document(), "summary": self.summary, "results": list(self.results)}
        return msgspec.json.decode(msgspec.json.encode(document))


class Origin(Struct, frozen=True):
    """The runs that a new run is made from, and the verb that made it."""

    verb: str = ""
    runs: EarlierRuns = EarlierRuns()
    root: Path | None = None
    """The project that keeps the new run; else that of its first suite."""
    sealed: bool = True
    """False if its suites come from a copy that this user did not write: its own copy gets no seal either."""
    prefix: Tape | None = None
    """The conversation whose beginning a fork takes over."""
    executor: Executor | None = None
    resumed_with: RunOptions | None = None
    """The options that `resume` goes on with, where they differ from those of the first execution."""

    def added_to(self, receipt: Receipt) -> Receipt:
        if not self.verb:
            return receipt
        folders = [run.folder for run in self.runs.recorded]
        made_of = {f"{self.verb}_of": ", ".join(folder.id for folder in folders)}
        return structs.replace(receipt, sources=tuple(str(folder.path) for folder in folders), **made_of)


def start_run(
    suites: list[Suite], options: RunOptions, observer: Observer | None = None, executor: Executor | None = None
) -> RunReport:
    """Run suites in a new folder. `executor`: where conversations are played, if not as tasks of this process."""
    return _start(suites, options, observer, Origin(executor=executor))


def replay_run(recorded: RecordedRun, options: RunOptions, observer: Observer | None = None) -> RunReport:
    """Play a recorded run again without calls: its recorded answers are the only ones.

    A run that ended with its first failure had conversations in progress; every recorded one is played again.
    """
    folder = recorded.folder
    if not folder.journal.is_file():
        raise UsageError(f"{folder.path} has no journal to play from")
    if folder.is_busy:
        raise RunBusy(f"run {folder.id} is open in another process", "Replay it when it has ended.")
    free = options.changed(budget_usd=None, budget_tokens=None, fail_fast=False)
    answers = structs.replace(REPLAY, runs=(str(folder.path),), fork=options.answers.fork)
    suites = recorded.suites(asks=False)
    origin = Origin("replay", EarlierRuns((recorded,)), recorded.root, not recorded.uses_copy)
    return _start(suites, structs.replace(free, answers=answers), observer, origin)


def grade_run(
    recorded: RecordedRun, suites: list[Suite], options: RunOptions, observer: Observer | None = None
) -> tuple[RunReport, RunReport]:
    """New grades of a run's replies, and the grades that it had. Only judges are called, and only for what they were
    not called before."""
    if not recorded.folder.journal.is_file():
        raise UsageError(f"{recorded.folder.path} has no journal, and so no replies to grade")
    answers = structs.replace(GRADE, runs=(str(recorded.folder.path),), fork=options.answers.fork)
    options = structs.replace(options.changed(fail_fast=False), answers=answers)
    with _held(recorded):
        old = read_run(recorded.folder, recorded.root)
        if old is None:
            old = _derive_run(recorded, recorded.copies() or recorded.suites(asks=False))
        origin = Origin("grade", EarlierRuns((recorded,)), recorded.root, not recorded.uses_copy)
        return old, _start(suites, options, observer, origin)


def merge_runs(parts: tuple[RecordedRun, ...], observer: Observer | None = None) -> RunReport:
    """One run of the parts that `--shard` made. No call is made now; `resume` makes those that no part has."""
    first = parts[0]
    for part in parts:
        if not part.folder.journal.is_file():
            raise UsageError(f"{part.folder.path} has no journal")
        refuse_other_run(part, first)
    later = first.options().changed(shard=None, fail_fast=False, record=None)
    later = later.changed(runs=tuple(str(part.folder.path) for part in parts))
    answers = structs.replace(MERGE, runs=later.answers.runs, fork=later.answers.fork)
    suites = first.suites(asks=False)
    origin = Origin("merge", EarlierRuns(parts), first.root, not first.uses_copy, resumed_with=later)
    return _start(suites, structs.replace(later, answers=answers), observer, origin)


def fork_run(
    recorded: RecordedRun, options: RunOptions, fork: Fork, observer: Observer | None = None
) -> tuple[RunReport, str | None]:
    """A new run of one conversation of another, which takes another course from a turn on; and the name of the target
    whose turns it takes over, where it is not one that is asked now."""
    selection, folder, suites = options.selection, recorded.folder, recorded.suites()
    before = recorded.options()
    recorded.refuse_foreign_words(suites)
    if not selection.targets and len(before.selection.targets) > 1:
        raise UsageError(
            f"run {folder.id} has asked several targets, and one conversation is taken up",
            f"Name its target with --target: {', '.join(before.selection.targets)}.",
        )
    earlier = before.answers.fork
    if earlier is not None and earlier.turn < fork.turn:
        raise UsageError(
            f"run {folder.id} is a fork itself, at turn {earlier.turn}, and it can be taken up there or before",
            "What was said instead is known for one turn only.",
        )
    tape = recorded_conversation(recorded, suites, selection.cases[0], fork.turn, selection.targets)
    taken = next((call.job.prepared.target.name for call, _ in tape.calls), None) if fork.turn > 1 else None
    if earlier is not None and earlier.turn == fork.turn:
        # What it said instead is its conversation, and stays so unless other words are given.
        prompt = earlier.prompt if fork.prompt is None else fork.prompt
        fork = structs.replace(fork, prompt=prompt, system=earlier.system if fork.system is None else fork.system)
    prompt = selection.system_prompt
    options = options.changed(
        targets=selection.targets or before.selection.targets,
        targets_file=selection.targets_file or before.selection.targets_file,
        system_prompt=before.selection.system_prompt if prompt is None else prompt,
        fork=structs.replace(fork, run=folder.id),
    )
    origin = Origin(root=recorded.root, sealed=not recorded.uses_copy, prefix=tape)
    report = _start(suites, options, observer, origin)
    return report, taken if selection.targets and taken not in selection.targets else None


def resume_run(
    recorded: RecordedRun,
    options: RunOptions,
    observer: Observer | None = None,
    *,
    retry_errors: bool = False,
    suites: list[Suite] | None = None,
) -> RunReport:
    """Go on with a run: recorded calls are not made again, except, with `retry_errors`, those that failed. `suites`:
    those of the run, where the caller has made them."""
    if suites is None:
        suites = recorded.suites()
        recorded.refuse_foreign_words(suites)
    folder = recorded.folder
    folder.lock()
    with contextlib.ExitStack() as opened:
        opened.callback(folder.unlock)
        run = folder.read_receipt()
        if run is None:
            raise UsageError(f"{folder.path} holds no run that can be resumed")
        if run.merge_of is not None:
            folder.journal.touch()  # it may have sent nothing yet, but its parts have
        earlier = _find_runs(recorded, run, options, suites)
        if run.grade_of is not None:
            opened.enter_context(_held(earlier.recorded[0]))
        setup = Setup(suites, options)
        opened.callback(setup.close)
        setup.refuse_other_models(folder.id, {target.name: target.model for target in run.targets})
        sources = RunSources(setup, earlier, _prefix_of(options, suites, recorded.root))
        opened.callback(sources.close)
        refuse_closed(setup, sources.told)
        history, spent = None, NOTHING
        if folder.journal.exists():
            parts = earlier if run.merge_of is not None else EarlierRuns()
            history, spent = read_spent(setup, folder, recorded.mask_for(setup.mask), parts)
        if retry_errors:
            history = sources.retry_errors(history)
        execution = _Execution(setup, sources, folder, recorded.root)
        return execution.work(run, history, observer or Observer(), spent)


def failed_cases(recorded: RecordedRun) -> list[str]:
    """The ids of the cases that did not pass in a run, or did not start."""
    suites, options = recorded.copies() or recorded.suites(asks=False), recorded.options()
    passed = Counter((result.suite, result.id) for result in show_run(recorded).results if result.passed)
    planned = Counter((job.prepared.suite_name, job.prepared.case.id) for job in plan(suites, options))
    return list(dict.fromkeys(place[1] for place, count in planned.items() if passed[place] < count))


def show_run(recorded: RecordedRun) -> RunReport:
    """What a run came to, from its files, or else from its journal. Nothing is called or written."""
    return read_run(recorded.folder, recorded.root) or _derive_run(recorded, recorded.suites(asks=False))


def _start(suites: list[Suite], options: RunOptions, observer: Observer | None, origin: Origin) -> RunReport:
    root = origin.root or Path(suites[0].root)
    folder = _create_folder(root, origin)
    with contextlib.ExitStack() as opened:
        opened.callback(folder.unlock)
        try:
            setup = Setup(suites, options)
            opened.callback(setup.close)
            sources = RunSources(setup, origin.runs, origin.prefix)
            opened.callback(sources.close)
            refuse_closed(setup, sources.told)
            if setup.survey.planned == 0:
                raise UsageError("no case is selected, so nothing was sent", "Look at --case, --tag and --limit.")
            folder.write("suite.json", store_suites(suites, origin.resumed_with or options, root), setup.mask)
            write_lines(folder.path / "cases.jsonl", case_lines(suites), setup.mask)
            if reason := write_seal(folder.path, folder.id) if origin.sealed else "it is made from a copy without one":
                folder.log(f"without a seal: {reason}")
            run = origin.added_to(new_receipt(folder, setup, origin.runs.models()))
            folder.write_receipt(run)
        except BaseException as error:
            folder.discard()  # nothing was sent, so there is nothing to keep
            if isinstance(error, OSError):
                raise UsageError(f"{folder.path} cannot be written: {reason_of(error)}") from None
            raise
        reached("run.created")
        execution = _Execution(setup, sources, folder, root, origin.executor)
        return execution.work(run, None, observer or Observer())


def _create_folder(root: Path, origin: Origin) -> RunFolder:
    """A new folder, locked; new grades of a run lie among that run's grades."""
    try:
        graded = origin.runs.recorded[0].folder.id if origin.verb == "grade" else None
        folder = create_run(root) if graded is None else create_grades(root, graded)
        folder.lock()
        return folder
    except OSError as error:
        is_file = isinstance(error, FileExistsError | NotADirectoryError)
        reason = "it is a file, and a folder is needed" if is_file else reason_of(error)
        raise UsageError(f"no run can be kept in {root}: {error.filename or root}: {reason}") from None


@contextlib.contextmanager
def _held(recorded: RecordedRun) -> Generator[None]:
    """Keeps a run of the project from being deleted while it is graded. A folder elsewhere is not locked."""
    own = recorded.folder.path.parent == runs_folder(recorded.root)
    with recorded.folder.held() if own else contextlib.nullcontext():
        yield


def _find_runs(recorded: RecordedRun, run: Receipt, options: RunOptions, suites: list[Suite]) -> EarlierRuns:
    """The runs that a run was made from. Raises UsageError where one is gone and needed."""
    found = {path: find_earlier(path, recorded.root) for path in options.answers.runs}
    gone = [path for path, folder in found.items() if folder is None]
    if gone and run.merge_of is None:
        raise UsageError(f"run {recorded.folder.id} was made from a run that is gone: {gone[0]}")
    if gone and not run.taken_over:
        raise UsageError(
            f"the merge {recorded.folder.id} was cut off, and one of its parts is gone: {gone[0]}",
            "Put it back, or merge the parts that are there again.",
        )
    if gone and settled(options, suites).limits.has_budget:
        raise UsageError(
            f"the budget of {recorded.folder.id} counts what its parts have spent, and one of them is gone: {gone[0]}",
            "Put it back, or start a new run.",
        )
    return EarlierRuns(tuple(RecordedRun(one, recorded.root) for one in found.values() if one is not None))


def _prefix_of(options: RunOptions, suites: list[Suite], root: Path) -> Tape | None:
    """What a fork takes over from another run, which may not all be in its own journal yet."""
    fork, selection = options.answers.fork, options.selection
    if fork is None or not fork.run or options.answers.runs:
        return None
    other = RecordedRun(find_run_by_id(root, fork.run), root)
    return recorded_conversation(other, suites, selection.cases[0], fork.turn, selection.targets)


_SELECTING = ("cases", "tags", "limit", "targets", "system_prompt")
"""Options that say which conversations a run has, but for its part of them."""


def refuse_other_run(part: RecordedRun, first: RecordedRun) -> None:
    """Parts of one run have the same suites, wherever those lay, and were started with the same options."""
    ids = part.folder.id, first.folder.id
    files = [[file_in_project(suite.path, suite.root) for suite in run.stored.suites] for run in (part, first)]
    if files[0] != files[1]:
        raise UsageError(f"run {ids[0]} is of other suites than run {ids[1]}")
    flat = [run.stored.options.flat() for run in (part, first)]
    for name in ("repeat", *_SELECTING, "fork"):
        if flat[0][name] != flat[1][name]:
            raise UsageError(
                f"run {ids[0]} was begun with another --{name.removesuffix('s').replace('_', '-')} than {ids[1]}"
            )
    models = [EarlierRuns((run,)).models() for run in (part, first)]
    for target in models[0].keys() & models[1].keys():
        asked = models[0][target], models[1][target]
        if None not in asked and asked[0] != asked[1]:  # a variable may name it, and differ from machine to machine
            raise UsageError(
                f"run {ids[0]} has asked the model `{asked[0]}` as target `{target}`, and run {ids[1]} `{asked[1]}`",
                "Parts of one run ask the same models. Have one of them again.",
            )


def read_run(folder: RunFolder, root: Path) -> RunReport | None:
    """A run that has ended, as it was written; None for one that has not."""
    run, summary = folder.read_receipt(), folder.read_summary()
    if run is None or summary is None or run.status == "running" or not folder.results.exists():
        return None
    return RunReport(run, _with_passports(summary, run, root), folder)  # a judge may have been tested since


def is_consistent(report: RunReport) -> bool:
    """True if the figures of a recorded run agree with its results."""
    try:
        counted = summarise(report.results, structs.replace(report.run, duration_s=report.summary.duration_s))
    except (RejoinderError, ArithmeticError, ValueError, LookupError):
        return False
    names = set(Summary.__struct_fields__) - _FILLED_IN_LATER
    return all(getattr(report.summary, name) == getattr(counted, name) for name in names)


_FILLED_IN_LATER = frozenset({"judges", "total_tokens", "total_cost", "embeddings", "limits"})
"""Parts of a summary that also come from passports, embeddings and rate limits, and not from results alone."""


def _derive_run(recorded: RecordedRun, suites: list[Suite]) -> RunReport:
    folder = recorded.folder
    run = folder.read_receipt()
    if run is None or not folder.journal.exists():
        raise UsageError(f"{folder.path} holds no run that can be shown")
    setup = Setup(suites, recorded.options(), makes_calls=False)
    scratch = Scratch()
    writer = ResultWriter(scratch.path)
    worker = Worker(setup, folder, writer, Observer())
    history = read_journal(folder.journal, recorded.mask_for(setup.mask))
    ending = asyncio.run(worker.read(history, scratch.delete))
    if ending.failure is not None:
        scratch.delete()
        raise ending.failure
    status, planned = "running" if folder.is_busy else "killed", setup.survey.planned
    run = structs.replace(run, status=status, planned=planned, finished_at=None, in_doubt=ending.in_doubt)
    summary = _summary(run, writer.finish(), worker.embeddings, recorded.root)
    return RunReport(run, summary, folder, scratch)


class _Execution:
    """The part that start and resume share: play, then write results, summary and receipt."""

    def __init__(
        self, setup: Setup, sources: RunSources, folder: RunFolder, root: Path, executor: Executor | None = None
    ) -> None:
        self._setup = setup
        self._sources = sources
        self._folder = folder
        self._root = root
        self._executor = executor

    def work(self, run: Receipt, history: History | None, observer: Observer, spent: Amount = NOTHING) -> RunReport:
        folder, setup, planned = self._folder, self._setup, self._setup.survey.planned
        started = time.monotonic()
        folder.log(f"rejoinder {__version__}: {planned} conversations, {'resumed' if history else 'started'}")
        if run.status != "running" or run.planned != planned:
            folder.write_receipt(structs.replace(run, status="running", planned=planned))
        writer = ResultWriter(folder.path)
        worker = Worker(setup, folder, writer, observer)
        worker.executor = self._executor or worker.executor
        budget = self._open_budget(spent)
        ending = asyncio.run(worker.work(self._sources, history, budget))
        if ending.failure is not None:
            writer.abandon()
            raise ending.failure
        run = structs.replace(run, duration_s=round(run.duration_s + time.monotonic() - started, 6))
        run = self._closed(run, ending, history, budget)
        try:
            summary = self._write(run, writer, worker.embeddings)
        except OSError as error:
            raise folder_failure(folder, error) from None
        folder.log(f"{ending.status}: {summary.passed} passed, {summary.failed} failed, {summary.errors} errors")
        return RunReport(run, summary, folder)

    def _open_budget(self, spent: Amount) -> Budget | None:
        limits = self._setup.options.limits
        if not limits.has_budget or not self._setup.opens_targets:
            return None
        return Budget(limits.budget_usd, limits.budget_tokens, spent)

    def _closed(self, run: Receipt, ending: Ending, history: History | None, budget: Budget | None) -> Receipt:
        """The receipt of a run that has ended."""
        hide, options = self._setup.mask.hide_text, self._setup.options
        whole = ending.played_all and not options.selection.is_partial and options.answers.fork is None
        stale, cached = tuple(self._sources.stale(whole=whole)), self._sources.cache_use(history)
        limits = tuple(limit for limit in ending.limits if limit.refused or limit.waited_s)
        return structs.replace(
            run,
            status=ending.status,
            planned=self._setup.survey.planned,
            finished_at=now(),
            in_doubt=ending.in_doubt,
            # Its own journal holds all answers of its parts now.
            taken_over=run.taken_over or (run.merge_of is not None and ending.status == "completed"),
            limits=limits,
            given_up=tuple(
                DisabledTarget(target.name, hide(why.type), hide(why.message)) for target, why in ending.given_up
            ),
            stale=stale if stale or run.stale is not None else None,
            from_cache=run.from_cache if cached is None else cached,
            budget=run.budget if budget is None else budget.record(),
        )

    def _write(self, run: Receipt, writer: ResultWriter, embeddings: Embeddings) -> Summary:
        """Results, summary and receipt, in this order: a receipt that says `completed` has everything beside it."""
        summary = _summary(run, writer.finish(), embeddings, self._root)
        self._folder.write_summary(summary)
        reached("summary.written")
        self._folder.write_receipt(run)
        reached("run.closed")
        return summary


def _summary(run: Receipt, results: Path, embeddings: Embeddings, root: Path) -> Summary:
    return _with_passports(add_embeddings(summarise(read_results(results), run), embeddings), run, root)


def _with_passports(summary: Summary, run: Receipt, root: Path) -> Summary:
    if not summary.judges:
        return summary
    from rejoinder.engine.passports import add_passports

    return add_passports(summary, run, root)
