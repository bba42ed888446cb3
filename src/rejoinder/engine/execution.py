"""One execution of a run in its folder: set up, played, and its results, summary and receipt written."""

from __future__ import annotations

import contextlib
import time
from pathlib import Path
from typing import Literal, TypeAlias

from msgspec import Struct, structs

from rejoinder._version import __version__
from rejoinder.engine.budget import Budget
from rejoinder.engine.calls import Tape
from rejoinder.engine.executor import Executor
from rejoinder.engine.loops import complete
from rejoinder.engine.make_result import ResultKeeper
from rejoinder.engine.new_receipt import new_receipt
from rejoinder.engine.observer import Observer
from rejoinder.engine.setup import Setup
from rejoinder.engine.sources import RunSources, refuse_closed
from rejoinder.engine.worker import Ending, Worker, folder_failure
from rejoinder.errors import UsageError, reason_of
from rejoinder.model import Receipt, Suite, Summary
from rejoinder.model.runs import DisabledTarget, TargetCalls
from rejoinder.model.spending import NOTHING, Amount, EmbeddingCosts
from rejoinder.runs.checksums import write_checksums
from rejoinder.runs.crash_points import reached
from rejoinder.runs.earlier import EarlierRuns
from rejoinder.runs.folder import RunFolder, create_grades, create_run, write_lines
from rejoinder.runs.journal import History
from rejoinder.runs.options import RunOptions
from rejoinder.runs.pictures import keep_pictures
from rejoinder.runs.receipt import case_lines, now, store_suites
from rejoinder.runs.report import RunReport, count_results
from rejoinder.runs.results import ResultWriter
from rejoinder.runs.seal import write_seal
from rejoinder.runs.secrets import Mask

Verb: TypeAlias = Literal["run", "replay", "grade", "merge"]


class Origin(Struct, frozen=True):
    """The runs that a new run is made from, and the verb that made it."""

    verb: Verb = "run"
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
        receipt = structs.replace(receipt, replayed=tuple(dict.fromkeys((*receipt.replayed, *self.runs.replayed()))))
        folders = [run.folder for run in self.runs.recorded]
        paths, ids = tuple(str(folder.path) for folder in folders), ", ".join(folder.id for folder in folders)
        match self.verb:
            case "run":
                return receipt
            case "replay":
                return structs.replace(receipt, sources=paths, replay_of=ids)
            case "grade":
                return structs.replace(receipt, sources=paths, grade_of=ids)
            case "merge":
                return structs.replace(receipt, sources=paths, merge_of=ids)


def start(suites: list[Suite], options: RunOptions, observer: Observer | None, origin: Origin) -> RunReport:
    root = origin.root or Path(suites[0].root)
    folder = _create_folder(root, origin)
    with contextlib.ExitStack() as opened:
        opened.callback(folder.unlock)
        try:
            setup = Setup(suites, options)
            opened.callback(setup.close)
            options = options.changed(fork=setup.options.answers.fork)
            sources = RunSources(setup, origin.runs, origin.prefix)
            opened.callback(sources.close)
            refuse_closed(setup, sources.told)
            _refuse_secrets(options, setup.mask)
            if setup.survey.planned == 0:
                raise UsageError("no case is selected, so nothing was sent", "Check --case, --tag and --limit.")
            folder.write("suite.json", store_suites(suites, origin.resumed_with or options, root), setup.mask)
            write_lines(folder.path / "cases.jsonl", case_lines(suites), setup.mask)
            keep_pictures(folder.path, setup.survey.pictures)
            if reason := write_seal(folder.path, folder.id) if origin.sealed else "it is made from a copy without one":
                folder.log(f"without a seal: {reason}")
            write_checksums(folder.path, folder.id)
            run = origin.added_to(new_receipt(folder, setup, origin.runs.models()))
            folder.write_receipt(run)
        except BaseException as error:
            folder.discard()  # nothing was sent, so there is nothing to keep
            if isinstance(error, OSError):
                raise UsageError(f"{folder.path} cannot be written: {reason_of(error)}") from None
            raise
        reached("run.created")
        execution = Execution(setup, sources, folder, root, origin.executor)
        return execution.work(run, None, observer or Observer())


def _refuse_secrets(options: RunOptions, mask: Mask) -> None:
    """A secret is never written down, so a run could not be resumed with the option that holds it."""
    fork, chosen = options.answers.fork, options.selection
    texts = {
        "the system prompt": (chosen.system_prompt,),
        "the fork": () if fork is None else (fork.prompt, fork.system),
        "the selection": (*chosen.cases, *chosen.tags, *chosen.targets, *chosen.variants),
    }
    for what, values in texts.items():
        for text in values:
            if text and mask and mask.hide_text(text) != text:
                raise UsageError(
                    f"{what} holds a secret, which is never written down",
                    "Put `{{ secret('NAME') }}` into the suite instead.",
                )


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
        raise UsageError(f"runs cannot be stored in {root}: {error.filename or root}: {reason}") from None


class Execution:
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
        observer.opened(folder)
        started = time.monotonic()
        folder.log(f"rejoinder {__version__}: {planned} conversations, {'resumed' if history else 'started'}")
        if run.status != "running" or run.planned != planned:
            folder.write_receipt(structs.replace(run, status="running", planned=planned))
        writer = ResultWriter(folder.path)
        worker = Worker(setup, folder, ResultKeeper(writer, setup), observer, self._executor)
        budget = self._open_budget(spent)
        try:
            ending = complete(worker.work(self._sources, history, budget))
            if ending.failure is not None:
                raise ending.failure
        except BaseException:
            writer.abandon()
            raise
        run = structs.replace(run, duration_s=round(run.duration_s + time.monotonic() - started, 6))
        run = self._closed(run, ending, history, budget)
        try:
            summary = self._write(run, writer, worker.embeddings.spent)
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
            # Its own journal holds all answers now that it took from other runs.
            taken_over=run.taken_over or (ending.status == "completed" and _takes_over(run, options)),
            limits=limits or run.limits,
            calls=_added(run.calls, ending.calls),
            given_up=tuple(
                DisabledTarget(target.name, hide(why.type), hide(why.message)) for target, why in ending.given_up
            ),
            stale=stale if stale or run.stale is not None else None,
            from_cache=run.from_cache if cached is None else cached,
            budget=run.budget if budget is None else budget.record(),
        )

    def _write(self, run: Receipt, writer: ResultWriter, embeddings: EmbeddingCosts) -> Summary:
        """Results, summary, checksums and receipt, in this order: a receipt that says `completed` has everything beside
        it."""
        summary = count_results(run, writer.finish(), embeddings, self._root)
        self._folder.write_summary(summary)
        reached("summary.written")
        self._folder.close(run)
        reached("run.closed")
        return summary


def _added(before: tuple[TargetCalls, ...], now: tuple[TargetCalls, ...]) -> tuple[TargetCalls, ...]:
    """The calls of a resumed run, before and after it was resumed."""
    found = {one.target: one for one in before}
    for one in now:
        found[one.target] = found[one.target] + one if one.target in found else one
    return tuple(found.values())


def _takes_over(run: Receipt, options: RunOptions) -> bool:
    return run.sources is not None or options.answers.fork is not None
