"""From Python: the verbs of the command line as functions, with typed options and results.

    suite = rejoinder.load("evals.yaml")
    report = rejoinder.run(suite, repeat=3, pace=rejoinder.Pace(workers=20))
    assert report.summary.failed == 0
    for result in report.results: print(result.turns[0].response)

Failed checks and errors of providers are results, not exceptions. SuiteError is raised for a suite with mistakes, and
UsageError for a run that is not possible. A run is given as a report, or named by its id, the beginning or end of it,
`last`, its suite or its folder; None is the latest run of the working project.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from inspect import iscoroutinefunction
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import msgspec
from msgspec import structs

from rejoinder.engine import run as engine
from rejoinder.engine.callers import awaited, outside_loop
from rejoinder.engine.observer import Observer, Progress, ProgressTeller
from rejoinder.errors import UsageError, reason_of
from rejoinder.library.given import load_given
from rejoinder.library.report import RunReport
from rejoinder.library.suites import Suites
from rejoinder.library.targets import AnyTarget, OwnTarget, fork_with, load_for, naming_the_argument
from rejoinder.model import Suite
from rejoinder.model.comparisons import RunComparison
from rejoinder.model.estimates import RunBounds
from rejoinder.model.figures import MARGIN, GateResult
from rejoinder.model.forks import Fork
from rejoinder.project.folders import find_root
from rejoinder.runs.folder import runs_kept_in
from rejoinder.runs.options import Answers, Limits, Pace, RunOptions, Selection, Trust
from rejoinder.runs.own_files import files_of, refuse_own_file
from rejoinder.runs.recorded import RecordedRun, open_recorded, open_unfinished
from rejoinder.runs.report import RunReport as StoredReport
from rejoinder.user_code.given import supply

if TYPE_CHECKING:
    from rejoinder.runs.comparing import Part
    from rejoinder.views.actions import Action

Run: TypeAlias = StoredReport | str | Path | None
"""A recorded run: its report, its name or its folder; None is the latest."""
OnProgress: TypeAlias = Callable[[Progress], object]
"""A function that is called whenever a conversation begins or ends."""


@outside_loop
def run(
    suite: Suites,
    *,
    target: AnyTarget | None = None,
    repeat: int = 1,
    selection: Selection = Selection(),
    pace: Pace = Pace(),
    limits: Limits = Limits(),
    answers: Answers = Answers(),
    trust: Trust = Trust(),
    on_progress: OnProgress | None = None,
    runs_folder: str | Path | None = None,
    observer: Observer | None = None,
) -> RunReport:
    """Run suites as a new run of their project. `target` replaces the targets that the suites name."""
    with runs_kept_in(runs_folder), naming_the_argument():
        options = RunOptions(repeat=repeat, selection=selection, pace=pace, limits=limits, answers=answers, trust=trust)
        if answers.runs:
            raise UsageError("answers of earlier runs are for replay, grade and merge")
        suites, options = load_for(target, suite, _checked(options))
        return RunReport.of(_start(suites, options, _observe(on_progress, observer)))


@outside_loop
def resume(
    run: Run = None,
    *,
    target: OwnTarget | None = None,
    retry_errors: bool = False,
    pace: Pace | None = None,
    limits: Limits | None = None,
    trust: Trust = Trust(),
    trust_folder: bool = False,
    on_progress: OnProgress | None = None,
    runs_folder: str | Path | None = None,
    observer: Observer | None = None,
) -> RunReport:
    """Continue a run: recorded calls are not repeated, except, with `retry_errors`, failed ones. `pace` and `limits`
    replace the run's own. Without a name it is the latest run that is unfinished or, with `retry_errors`, has errors.
    `target`: the Python object that the run asked, which no file holds. `trust_folder`: use the folder's own copy of
    its suites."""
    with runs_kept_in(runs_folder):
        recorded = (
            open_unfinished(retry_errors=retry_errors, trust=trust_folder) if run is None else _open(run, trust_folder)
        )
        recorded = recorded if target is None else recorded.with_target(supply(target))
        options = _changed(recorded, pace, limits, trust)
        return RunReport.of(_resume(recorded, options, _observe(on_progress, observer), retry_errors))


@outside_loop
def replay(
    run: Run = None,
    *,
    trust: Trust = Trust(),
    trust_folder: bool = False,
    on_progress: OnProgress | None = None,
    runs_folder: str | Path | None = None,
    observer: Observer | None = None,
) -> RunReport:
    """Replay a recorded run without any call; the result is a new run."""
    with runs_kept_in(runs_folder):
        recorded = _open(run, trust_folder)
        options = structs.replace(recorded.options(), trust=trust)
        return RunReport.of(engine.replay_run(recorded, options, _observe(on_progress, observer)))


@outside_loop
def grade(
    run: Run = None,
    suite: Suites = (),
    *,
    target: OwnTarget | None = None,
    pace: Pace | None = None,
    limits: Limits | None = None,
    trust: Trust = Trust(),
    trust_folder: bool = False,
    on_progress: OnProgress | None = None,
    runs_folder: str | Path | None = None,
    observer: Observer | None = None,
) -> RunReport:
    """Re-grade the replies of a run by the checks of suites, or by the current checks of the run's own suites. Only
    judges are called. `pace` and `limits` replace the run's own. `target`: the Python object that the run asked, if it
    is its own judge."""
    with runs_kept_in(runs_folder):
        recorded = _open(run, trust_folder)
        recorded = recorded if target is None else recorded.with_target(supply(target))
        options = _changed(recorded, pace, limits, trust)
        suites = recorded.equipped(load_given(suite, options, asks=False)[0]) if suite else recorded.suites(asks=False)
        return RunReport.of(engine.grade_run(recorded, suites, options, _observe(on_progress, observer))[1])


@outside_loop
def fork(
    run: Run,
    case: str,
    turn: int = 1,
    *,
    target: AnyTarget | None = None,
    prompt: str | None = None,
    system: str | None = None,
    options: RunOptions = RunOptions(),
    trust_folder: bool = False,
    on_progress: OnProgress | None = None,
    runs_folder: str | Path | None = None,
    observer: Observer | None = None,
) -> RunReport:
    """Fork one conversation of a run at a turn, with a new message or other instructions; the turns before it are kept.
    If the run has several targets or repeats, `options.answers.fork` chooses the conversation: `Fork(of="demo",
    trial=3)`. `target` continues the conversation in place of the run's target."""
    with runs_kept_in(runs_folder):
        recorded, options = fork_with(target, _open(run, trust_folder), options)
        fork = structs.replace(options.answers.fork or Fork(), turn=turn, prompt=prompt, system=system)
        chosen = _checked(options.changed(cases=(case,), fork=fork))
        return RunReport.of(engine.fork_run(recorded, chosen, _observe(on_progress, observer))[0])


@outside_loop
def merge(
    runs: Sequence[Run],
    *,
    trust_folder: bool = False,
    on_progress: OnProgress | None = None,
    runs_folder: str | Path | None = None,
    observer: Observer | None = None,
) -> RunReport:
    """Merge the parts that `Selection(shard=...)` made into one run. Makes no calls."""
    with runs_kept_in(runs_folder):
        if isinstance(runs, str | Path) or not runs:
            raise UsageError("there are no runs to merge", "Give them as a list.")
        parts = tuple(_open(run, trust_folder) for run in runs)
        return RunReport.of(engine.merge_runs(parts, _observe(on_progress, observer)))


arun = awaited(run)
aresume = awaited(resume)
areplay = awaited(replay)
agrade = awaited(grade)
afork = awaited(fork)
amerge = awaited(merge)


@outside_loop
def estimate(
    suite: Suites,
    *,
    target: AnyTarget | None = None,
    repeat: int = 1,
    selection: Selection = Selection(),
    limits: Limits = Limits(),
) -> RunBounds:
    """Foresee the calls, tokens and dollars of a run, at least and at most. Sends nothing and needs no key. Raises
    UsageError if the run itself would be refused."""
    from rejoinder.gates.forecast import foresee

    options = _checked(RunOptions(repeat=repeat, selection=selection, limits=limits))
    with naming_the_argument():
        suites, options = load_for(target, suite, options, asks=False)
        return foresee(suites, options).bounds


@outside_loop
def failed_of(
    run: Run = None,
    selection: Selection = Selection(),
    *,
    trust_folder: bool = False,
    runs_folder: str | Path | None = None,
) -> Selection | None:
    """Select the cases that did not pass in a run, each on its own target. If `selection` names cases,
    only these count. None if all passed: then there is nothing to run."""
    from rejoinder.engine.failed_again import only_failed

    with runs_kept_in(runs_folder):
        recorded = _open(run, trust_folder)
        if not recorded.is_trusted:
            recorded.refuse_foreign_words(recorded.suites(asks=False), only_targets=True)
        found = only_failed(recorded, _checked(RunOptions(selection=selection))).options.selection
        return found if found.cases else None


@outside_loop
def show(run: Run = None, *, trust_folder: bool = False, runs_folder: str | Path | None = None) -> RunReport:
    """A recorded run. Runs, sends and writes nothing."""
    with runs_kept_in(runs_folder):
        return RunReport.of(engine.show_run(_open(run, trust_folder)))


@outside_loop
def compare(
    a: Run = None,
    b: Run = None,
    *,
    margin: float = MARGIN,
    trust_folder: bool = False,
    runs_folder: str | Path | None = None,
) -> RunComparison:
    """Compare run `b` with run `a`, case by case; each may be the name of a baseline. Without both, the last two runs
    of the same suites; without `b`, `a` and the latest. `margin`: differences up to it count as none. Runs, sends and
    writes nothing."""
    from rejoinder.runs.comparing import Wanted, compare_all, runs_to_compare

    with runs_kept_in(runs_folder):
        named = [_named(run, trust_folder) for run in (a, b) if run is not None]
        return compare_all(map(engine.sound_run, runs_to_compare(named, trust=trust_folder)), Wanted(margin))[0]


@outside_loop
def compare_targets(
    run: Run = None, *, margin: float = MARGIN, trust_folder: bool = False, runs_folder: str | Path | None = None
) -> list[RunComparison]:
    """Compare each target of a run with its first, case by case. Runs, sends and writes nothing."""
    from rejoinder.runs.comparing import TARGETS

    with runs_kept_in(runs_folder):
        return _compare_parts(run, TARGETS, margin, trust_folder)


@outside_loop
def compare_variants(
    run: Run = None, *, margin: float = MARGIN, trust_folder: bool = False, runs_folder: str | Path | None = None
) -> list[RunComparison]:
    """Compare each variant of a run with its first, case by case. Runs, sends and writes nothing."""
    from rejoinder.runs.comparing import VARIANTS

    with runs_kept_in(runs_folder):
        return _compare_parts(run, VARIANTS, margin, trust_folder)


def _compare_parts(run: Run, part: Part, margin: float, trust: bool) -> list[RunComparison]:
    from rejoinder.runs.comparing import Wanted, compare_parts

    return compare_parts(engine.sound_run(_open(run, trust)), part, Wanted(margin))


@outside_loop
def bless(run: Run = None, name: str = "main", *, partial: bool = False, runs_folder: str | Path | None = None) -> Path:
    """Save the verdicts of a run as a baseline of the project; return the baseline's file. Raises UsageError for a run
    that has not finished or, unless `partial`, has only some cases of its suites."""
    from rejoinder.gates.verbs import bless_run

    with runs_kept_in(runs_folder):
        return bless_run(_open(run, trust=False), name, partial=partial).path


@outside_loop
def gate(
    run: Run = None,
    *,
    against: Run = None,
    rules: Sequence[str] = ("no-regression", "no-new-failures"),
    partial: bool = False,
    runs_folder: str | Path | None = None,
) -> GateResult:
    """Decide by rules whether a recorded run is good enough. `against` is the name of a baseline, or a run. Runs, sends
    and writes nothing. Raises UsageError for a run that, unless `partial`, has only some cases."""
    from rejoinder.gates.rules import NoBaseline, read_rule
    from rejoinder.gates.verbs import find_baseline, gate_run

    with runs_kept_in(runs_folder):
        if isinstance(rules, str):
            raise UsageError("rules are a list of texts", f"Write `rules=[{rules!r}]`.")
        wanted, recorded = [read_rule(rule) for rule in rules], _open(run, trust=False)
        other = against.folder.path if isinstance(against, StoredReport) else against
        before = None if other is None else find_baseline(recorded.root, str(other))
        try:
            return gate_run(recorded, wanted, before, partial=partial)
        except NoBaseline as error:
            error.hint = 'Give `against=`: the name of a baseline, or a run. Or other rules: `rules=["rate>=90%"]`.'
            raise


def _observe(tell: OnProgress | None, observer: Observer | None) -> Observer | None:
    if tell is None:
        return observer
    if iscoroutinefunction(tell):
        raise UsageError("on_progress is called, and not awaited", "Give a plain function.")
    return ProgressTeller(tell, observer)


def _start(suites: list[Suite], options: RunOptions, observer: Observer | None) -> StoredReport:
    if not options.selection.is_compared:
        return engine.start_run(suites, options, observer)
    from rejoinder.gates.against import Confirmer, start_compared

    return start_compared(suites, options, Confirmer(observer))


def _resume(recorded: RecordedRun, options: RunOptions, observer: Observer | None, retry_errors: bool) -> StoredReport:
    if not options.selection.is_compared:
        return engine.resume_run(recorded, options, observer, retry_errors=retry_errors)
    from rejoinder.gates.against import Confirmer, resume_compared

    return resume_compared(recorded, options, Confirmer(observer), retry_errors=retry_errors)


def next_steps(run: Run = None, *, trust_folder: bool = False) -> tuple[Action, ...]:
    """Return the commands that `rejoinder run` prints after a run: at most two, the most useful first. They work in the
    working folder, so a run of another project has none."""
    from rejoinder.views.actions import next_actions

    report = run if isinstance(run, StoredReport) else show(run, trust_folder=trust_folder)
    return next_actions(report)


@outside_loop
def export(run: Run, to: str | None, out: str | Path, *, runs_folder: str | Path | None = None) -> None:
    """Write a recorded run to a file in the format `to`, or the format of the file's suffix. Raises RunDamaged if the
    run was modified."""
    from rejoinder.exports.formats import find_format, write_results

    with runs_kept_in(runs_folder):
        path = Path(out)
        find_format(path, to)
        recorded = _open(run, trust=False)
        report = engine.sound_run(recorded)
        refuse_own_file(path, files_of(recorded))
        try:
            write_results(report, path, to)
        except OSError as error:
            raise UsageError(f"{path} cannot be written: {reason_of(error)}") from None


def _open(run: Run, trust: bool) -> RecordedRun:
    if isinstance(run, StoredReport):
        run = run.folder.path
    if run is not None and not isinstance(run, str | Path):
        raise UsageError(f"a run is a report, a name or a folder, and not a {type(run).__name__}")
    return open_recorded(None if run is None else str(run), trust=trust)


def _named(run: Run, trust: bool) -> str:
    """The folder of a run, or of the run that a baseline was made from."""
    from rejoinder.gates.verbs import blessed_run

    name = blessed_run(find_root(Path.cwd(), Path.cwd()), run) if isinstance(run, str) else run
    return str(_open(name, trust).folder.path)


def _changed(recorded: RecordedRun, pace: Pace | None, limits: Limits | None, trust: Trust) -> RunOptions:
    """The options of a run, with the given replacements."""
    options = structs.replace(recorded.options(), trust=trust)
    options = options if pace is None else structs.replace(options, pace=pace)
    return _checked(options if limits is None else structs.replace(options, limits=limits))


def _checked(options: RunOptions) -> RunOptions:
    """The options, with lists as tuples and paths as absolute text. Raises UsageError for an invalid value."""
    for field in structs.fields(RunOptions):
        group = getattr(options, field.name)
        if field.name == "selection" and group is None:
            raise UsageError(
                "there is nothing to run: no case is selected", "`failed_of` returns None if nothing failed."
            )
        if field.name != "repeat" and type(group) is not field.type:
            raise UsageError(f"{field.name}: expected {field.type.__name__}, got {type(group).__name__}")
    try:
        options = msgspec.convert(msgspec.to_builtins(options, enc_hook=str), RunOptions)
        paths = options.selection.targets_file, options.answers.record, options.answers.replay
        targets_file, record, replay = (path and str(Path(path).resolve()) for path in paths)
        return options.changed(targets_file=targets_file, record=record, replay=replay)
    except msgspec.ValidationError as error:
        expected, _, place = str(error).partition(" - at `$.")
        name = place.rstrip("`").rpartition(".")[2] or "an option"
        raise UsageError(f"{name}: {expected[:1].lower()}{expected[1:]}") from None
