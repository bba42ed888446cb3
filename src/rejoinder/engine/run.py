"""The verbs of a run: start, resume, replay, grade, fork, merge and show.

They play the same conversations by the same rules and differ in the value `Answers` alone: where recorded answers are
looked up, which calls may be made, and what becomes of the others.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Generator
from itertools import groupby
from typing import NamedTuple

from msgspec import structs

from rejoinder.engine.calls import Tape
from rejoinder.engine.derive import derive_run
from rejoinder.engine.execution import Execution, Origin, start
from rejoinder.engine.executor import Executor
from rejoinder.engine.observer import Observer
from rejoinder.engine.plan import plan
from rejoinder.engine.retrace import recorded_conversation
from rejoinder.engine.setup import Setup
from rejoinder.engine.sources import RunSources, refuse_closed
from rejoinder.engine.spent import read_spent
from rejoinder.engine.worker import folder_failure
from rejoinder.errors import UsageError
from rejoinder.model import CaseName, Receipt, Status, Suite, judge_case
from rejoinder.model.forks import Fork
from rejoinder.model.spending import NOTHING
from rejoinder.runs.earlier import EarlierRuns, find_earlier
from rejoinder.runs.edited import edited_words, played_suites
from rejoinder.runs.folder import RunBusy, runs_folder
from rejoinder.runs.inputs import digests_of
from rejoinder.runs.names import case_name_of, suites_called
from rejoinder.runs.options import GRADE, MERGE, REPLAY, RunOptions, grown_options, refuse_contradictions, settled
from rejoinder.runs.parts import refuse_other_run
from rejoinder.runs.pictures import keep_pictures
from rejoinder.runs.recorded import RecordedRun
from rejoinder.runs.report import RunReport, read_run
from rejoinder.runs.state import state_of
from rejoinder.runs.verify import refuse_damaged


def start_run(
    suites: list[Suite], options: RunOptions, observer: Observer | None = None, executor: Executor | None = None
) -> RunReport:
    """Run suites in a new folder. `executor`: where conversations are played, if not as tasks of this process."""
    return start(suites, options, observer, Origin(executor=executor))


def replay_run(
    recorded: RecordedRun, options: RunOptions, observer: Observer | None = None, executor: Executor | None = None
) -> RunReport:
    """Play a recorded run again without calls: its recorded answers are the only ones.

    A run that ended with its first failure had conversations in progress; every recorded one is played again.
    """
    folder = recorded.folder
    if not folder.journal.is_file():
        raise UsageError(f"{folder.path} has no journal to play from")
    if state_of(folder).status == "running":
        raise RunBusy(f"run {folder.id} is open in another process", "Replay it when it has ended.")
    free = options.changed(budget_usd=None, budget_tokens=None, fail_fast=False)
    answers = structs.replace(REPLAY, runs=(str(folder.path),), fork=options.answers.fork)
    suites = recorded.suites(asks=False)
    origin = Origin("replay", EarlierRuns((recorded,)), recorded.root, not recorded.uses_copy, executor=executor)
    return start(suites, structs.replace(free, answers=answers), observer, origin)


def grade_run(
    recorded: RecordedRun,
    suites: list[Suite],
    options: RunOptions,
    observer: Observer | None = None,
    executor: Executor | None = None,
) -> tuple[RunReport, RunReport]:
    """New grades of a run's replies, and the grades that it had. Only judges are called, and only for what they were
    not called before."""
    if not recorded.folder.journal.is_file():
        raise UsageError(f"{recorded.folder.path} has no journal, and so no replies to grade")
    answers = structs.replace(GRADE, runs=(str(recorded.folder.path),), fork=options.answers.fork)
    options = structs.replace(options.changed(fail_fast=False), answers=answers)
    with _held(recorded):
        old = read_run(recorded)
        if old is None:
            old = derive_run(recorded, recorded.copies() or recorded.suites(asks=False))
        origin = Origin("grade", EarlierRuns((recorded,)), recorded.root, not recorded.uses_copy, executor=executor)
        return old, start(suites, options, observer, origin)


def merge_runs(
    parts: tuple[RecordedRun, ...], observer: Observer | None = None, executor: Executor | None = None
) -> RunReport:
    """One run of the parts that `--shard` made. No call is made now; `resume` makes those that no part has."""
    first = parts[0]
    for part in parts:
        if not part.folder.journal.is_file():
            raise UsageError(f"{part.folder.path} has no journal")
        refuse_other_run(part, first)
    later = first.options().changed(shard=None, fail_fast=False, record=None)
    confirm = later.selection.confirm
    if confirm is not None:  # each part has asked its own new failures again
        every = [part.options().selection.confirm for part in parts]
        failing = dict.fromkeys(case for one in every if one is not None for case in one.cases)
        later = later.changed(confirm=structs.replace(confirm, cases=tuple(failing)))
    later = later.changed(runs=tuple(str(part.folder.path) for part in parts))
    answers = structs.replace(MERGE, runs=later.answers.runs, fork=later.answers.fork)
    suites = first.suites(asks=False)
    earlier, sealed = EarlierRuns(parts), not first.uses_copy
    origin = Origin("merge", earlier, first.root, sealed, executor=executor, resumed_with=later)
    return start(suites, structs.replace(later, answers=answers), observer, origin)


def fork_run(
    recorded: RecordedRun, options: RunOptions, observer: Observer | None = None, executor: Executor | None = None
) -> tuple[RunReport, str | None]:
    """A new run of one conversation of another, which differs from a turn on, as the options' `Fork` says; and the name
    of the target whose turns it takes over, if it is not one that is asked now."""
    fork = options.answers.fork or Fork()
    refuse_contradictions(options)
    if options.selection.system_prompt is not None:
        raise UsageError(
            "a fork has the system prompt of its run",
            "Give another one, for the turns that are asked, with --system.",
        )
    selection, folder, suites = options.selection, recorded.folder, recorded.suites()
    before = recorded.options()
    recorded.refuse_foreign_words(suites)
    of_case = (case.targets for suite in suites for case in suite.cases if case.id == selection.cases[0])
    asked = before.selection.targets or next(of_case, ())
    if not fork.of and not selection.targets and len(asked) > 1:
        raise UsageError(
            f"run {folder.id} asked several targets; a fork continues one conversation",
            f"Name its target with --of: {', '.join(asked)}.",
        )
    earlier = before.answers.fork
    if earlier is not None and earlier.turn < fork.turn:
        raise UsageError(
            f"run {folder.id} is itself a fork at turn {earlier.turn}; it can be forked at that turn or earlier",
            "Only one turn's replacement is recorded.",
        )
    tape = recorded_conversation(recorded, suites, selection.cases[0], fork, selection)
    taken = next((call.job.prepared.target.name for call, _ in tape.calls), None) if fork.turn > 1 else None
    if earlier is not None and earlier.turn == fork.turn:
        # What it said instead is its conversation, and stays so unless other words are given.
        prompt = earlier.prompt if fork.prompt is None else fork.prompt
        fork = structs.replace(fork, prompt=prompt, system=earlier.system if fork.system is None else fork.system)
    options = options.changed(
        targets=selection.targets or ((fork.of,) if fork.of else before.selection.targets),
        variants=selection.variants or before.selection.variants,
        given=selection.given or before.selection.given,
        targets_file=selection.targets_file or before.selection.targets_file,
        system_prompt=before.selection.system_prompt,
        fork=structs.replace(fork, run=folder.id, folder=str(folder.path), of=fork.of or taken or ""),
    )
    origin = Origin(root=recorded.root, sealed=not recorded.uses_copy, prefix=tape, executor=executor)
    report = start(suites_called(suites, fork.suite), options, observer, origin)
    return report, taken if selection.targets and taken not in selection.targets else None


def resume_run(
    recorded: RecordedRun,
    options: RunOptions,
    observer: Observer | None = None,
    *,
    retry_errors: bool = False,
    suites: list[Suite] | None = None,
    executor: Executor | None = None,
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
        run = structs.replace(run, options={**run.options, **grown_options(options)})
        if run.merge_of is not None:
            folder.journal.touch()  # it may have sent nothing yet, but its parts have
        earlier = _find_runs(recorded, run, options, suites)
        if run.grade_of is not None and earlier.recorded:
            opened.enter_context(_held(earlier.recorded[0]))
        setup = Setup(suites, options)
        opened.callback(setup.close)
        try:
            keep_pictures(folder.path, setup.survey.pictures)
        except OSError as error:
            raise folder_failure(folder, error) from None
        setup.refuse_other_models(folder.id, {target.name: target.model for target in run.targets})
        run = _told_of_edits(recorded, run, setup, observer)
        sources = RunSources(setup, earlier, _prefix_of(recorded, run, options))
        opened.callback(sources.close)
        history, spent = None, NOTHING
        if folder.journal.exists():
            parts = earlier if run.merge_of is not None else EarlierRuns()
            history, spent = read_spent(setup, folder, recorded.mask_for(setup.mask), parts)
        if retry_errors:
            history, again = sources.retry_errors(history)
            run = structs.replace(run, asked_again=run.asked_again + again)
        refuse_closed(setup, sources.told if history is None else {**sources.told, **history.told})
        execution = Execution(setup, sources, folder, recorded.root, executor)
        return execution.work(run, history, observer or Observer(), spent)


def _told_of_edits(recorded: RecordedRun, run: Receipt, setup: Setup, observer: Observer | None) -> Receipt:
    """Say what changed in the suites since the run began. Its receipt then has the digests of those that are played."""
    digests = digests_of(setup.suites, setup.mask, setup.options.selection.given)
    words = edited_words(recorded, run, setup.suites, digests, setup.survey.planned)
    if words is None:
        return run
    recorded.folder.log(words)
    if observer is not None:
        observer.told(words)
    run = structs.replace(run, digests=digests)
    recorded.folder.write_receipt(run)  # now: the process may be killed
    return run


class NotPassed(NamedTuple):
    """The cases that did not pass in a run, each on its target."""

    cases: list[CaseName]
    unasked: frozenset[CaseName]
    """Of all cases of the run, those that no conversation of has ended: they did not fail."""


def not_passed(recorded: RecordedRun) -> NotPassed:
    """The cases that did not pass in a run, or did not start. One in quarantine is none of them."""
    suites, options = recorded.copies() or recorded.suites(asks=False), recorded.options()
    report = show_run(recorded)
    day = report.run.day
    passed: dict[CaseName, int] = {}
    """The trials of each case that passed."""
    asked: set[CaseName] = set()
    for name, trials in groupby(report.results, lambda result: result.case):
        every = [structs.replace(trial, turns=()) for trial in trials]
        statuses: Counter[Status] = Counter(trial.status for trial in every if not trial.is_spoilt)
        if any(trial.status != "skipped" for trial in every):
            asked.add(name)
        if judge_case(statuses, every[0], day) == "passed":
            passed[name] = len(every) - statuses["skipped"]
    planned: Counter[CaseName] = Counter()
    for job in (job for job in plan(suites, options) if not job.confirms):
        quarantine = job.prepared.case.quarantine
        if quarantine is None or quarantine.is_over(day):
            planned[case_name_of(job.prepared)] += 1
    rest = [name for name, count in planned.items() if passed.get(name, 0) < count]
    return NotPassed(rest, frozenset(planned).difference(asked))


def show_run(recorded: RecordedRun) -> RunReport:
    """What a run came to, from its files, or else from its journal. Nothing is called or written."""
    return read_run(recorded) or derive_run(recorded, played_suites(recorded))


def sound_run(recorded: RecordedRun) -> RunReport:
    """The same for a run that has to be as it was written. Raises RunDamaged if it is not."""
    refuse_damaged(recorded)
    return show_run(recorded)


@contextlib.contextmanager
def _held(recorded: RecordedRun) -> Generator[None]:
    """Keeps a run of the project from being deleted while it is graded. A folder elsewhere is not locked."""
    own = recorded.folder.path.parent == runs_folder(recorded.root)
    with recorded.folder.held() if own else contextlib.nullcontext():
        yield


def _find_runs(recorded: RecordedRun, run: Receipt, options: RunOptions, suites: list[Suite]) -> EarlierRuns:
    """The runs that a run was made from. Raises UsageError if one is gone and needed."""
    found = {path: find_earlier(path, recorded.root) for path in options.answers.runs}
    gone = [path for path, folder in found.items() if folder is None]
    if gone and not run.taken_over:
        raise _gone(recorded, gone[0])
    if gone and run.merge_of is not None and settled(options, suites).limits.has_budget:
        raise UsageError(
            f"the budget of {recorded.folder.id} counts what its parts have spent, and one of them is gone: {gone[0]}",
            "Put it back, or start a new run.",
        )
    return EarlierRuns(tuple(recorded.beside(one) for one in found.values() if one is not None))


def _prefix_of(recorded: RecordedRun, run: Receipt, options: RunOptions) -> Tape | None:
    """What a fork takes over from another run, which may not all be in its own journal yet."""
    fork, selection = options.answers.fork, options.selection
    if fork is None or fork.turn == 1 or run.taken_over or options.answers.runs:
        return None
    folder = find_earlier(fork.folder, recorded.root)
    if folder is None:
        raise _gone(recorded, fork.folder)
    other = recorded.beside(folder)
    suites = other.suites(asks=False)
    return recorded_conversation(other, suites, selection.cases[0], fork, selection)


def _gone(recorded: RecordedRun, path: str) -> UsageError:
    message = f"run {recorded.folder.id} was cut off, and a run that it takes answers from is gone: {path}"
    return UsageError(message, "Put that run back, or start a new one.")
