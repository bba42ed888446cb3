"""Gates for commands and Python programs: saving baselines, and applying rules to runs. Nothing is called."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple, TypeVar

import msgspec
from msgspec import Struct, structs

from rejoinder.engine.derive import play_journal
from rejoinder.errors import UsageError
from rejoinder.gates.baselines import (
    Baseline,
    baseline_file,
    baseline_names,
    baseline_of,
    matched_to,
    read_baseline,
    write_baseline,
)
from rejoinder.gates.changes import find_changes
from rejoinder.gates.new_failures import Confirmations
from rejoinder.gates.rules import (
    COMPARING,
    Rule,
    decide,
    doubt_replayed,
    read_rule,
    refuse_undecidable,
    replaced_regressions,
    undecided,
)
from rejoinder.model import CaseChanges, CaseName, file_in_project
from rejoinder.model.figures import GateResult, NoRate
from rejoinder.model.runs import ChosenCases
from rejoinder.project.folders import find_root
from rejoinder.run_files import RunDamaged
from rejoinder.runs.folder import RunFolder, find_run, runs_folder
from rejoinder.runs.options import Confirm, Rounds
from rejoinder.runs.recorded import RecordedRun, open_recorded
from rejoinder.runs.report import RunReport, read_run
from rejoinder.runs.verify import refuse_damaged
from rejoinder.words.figures import no_rate_words, quarantine_words
from rejoinder.words.numbers import count, listed
from rejoinder.words.statuses import EARLY_ENDS

_Option = TypeVar("_Option", Rounds, Confirm)


class Blessed(Struct, frozen=True):
    """A run saved as a baseline."""

    name: str
    path: Path
    baseline: Baseline
    replaced: str | None
    """The run that had the name before."""


def bless_run(recorded: RecordedRun, name: str, *, partial: bool = False) -> Blessed:
    """Save the verdicts of a run as a baseline of the project. Raises UsageError for a run that has not finished or,
    without `partial`, that has only some cases; and RunDamaged for a damaged run."""
    path = baseline_file(recorded.root, name)
    files = [file_in_project(suite.path, suite.root) for suite in recorded.stored.suites]
    report = _whole_run(recorded)
    if not partial:
        _refuse_part(
            report,
            "Save a run of all cases, or this one with --partial: other cases then have nothing to be compared with.",
        )
    baseline = verdicts_of(report, files)
    if not any(trial.status != "error" for trial in baseline.trials):
        raise UsageError(f"run {recorded.folder.id} has no verdict that counts, so there is nothing to keep")
    try:
        earlier = read_baseline(path)
    except RunDamaged:
        earlier = None  # a damaged one can be replaced
    return Blessed(name, write_baseline(recorded.root, name, baseline), baseline, earlier and earlier.run)


def _refuse_part(report: RunReport, hint: str) -> None:
    if report.run.chosen is not None:
        raise UsageError(f"run {report.run.id} has {report.run.chosen}", hint)


def gate_run(
    recorded: RecordedRun, rules: Sequence[Rule], against: Baseline | None, *, partial: bool = False
) -> GateResult:
    """Apply rules to a recorded run. For an unfinished run the answer is "cannot tell". Raises UsageError for a run
    with only some cases, unless `partial`, and RunDamaged for a damaged run."""
    refuse_undecidable(rules, against)
    report = _sound_run(recorded)
    if report is None:
        return undecided(rules, "the run has not ended: no rate yet")
    if not partial:
        _refuse_part(report, "Run all cases, or judge the selected ones with --partial.")
    return gate_report(report, rules, against)


def _sound_run(recorded: RecordedRun) -> RunReport | None:
    """A run that can be decided; None for an unfinished one. Raises RunDamaged for a damaged one."""
    refuse_damaged(recorded, play_journal)
    return read_run(recorded)


def gate_report(report: RunReport, rules: Sequence[Rule], against: Baseline | None = None) -> GateResult:
    """Like `gate_run`, for a report in memory."""
    found = _put_to(report, rules, against)
    if report.run.replayed:
        found = doubt_replayed(found, rules, report.run.replayed)
    if report.run.chosen is not None:
        found = _of_a_part(found, report.run.chosen)
    return structs.replace(found, run=report.run.id, against=against and against.run)


def _put_to(report: RunReport, rules: Sequence[Rule], against: Baseline | None) -> GateResult:
    verdicts, rest = verdicts_of(report), _rest(report)
    if rest is not None:
        return undecided(rules, rest)
    found = decide(rules, verdicts, against, _rounds_against(report), confirmations_of(report), aside_in(report))
    if against is not None and against.run == report.run.id:
        return replaced_regressions(found, rules, "it is compared with itself: the baseline was made from this run")
    if against is not None and report.run.chosen is not None and _had_only_failed(verdicts, against):
        reason = "it has only cases that failed before, and some pass by chance: run all cases"
        return replaced_regressions(found, rules, reason)
    return found


def aside_in(report: RunReport) -> frozenset[CaseName]:
    """The cases of a run that are in quarantine."""
    if not report.summary.quarantined:
        return frozenset()
    return frozenset(result.case for result in report.results if result.is_apart_on(report.run.day))


def _had_only_failed(now: Baseline, before: Baseline) -> bool:
    """Whether the cases of a run were chosen because they failed. Such cases can only improve."""
    chosen, earlier = {case.key for case in now.cases}, matched_to(now, before).baseline.cases
    return any(case.passed for case in earlier) and not any(case.passed for case in earlier if case.key in chosen)


def _of_a_part(found: GateResult, chosen: ChosenCases) -> GateResult:
    """The result with a note that it holds only for the chosen cases."""
    rules = (structs.replace(rule, reason=f"{rule.reason}; {chosen}") for rule in found.rules)
    return structs.replace(found, rules=tuple(rules))


class Pinned(NamedTuple):
    """A baseline, and a name that still refers to it after other runs were made."""

    name: str
    baseline: Baseline


def pin_baseline(root: Path, name: str) -> Pinned:
    """The baseline of that name, else the verdicts of a run. `last` and the name of a suite refer to another run as
    soon as one begins, so such a run is named by its id, or by its folder if that is elsewhere."""
    try:
        found = read_baseline(baseline_file(root, name))
    except UsageError:
        found = None  # not a name, but it may be the folder of a run
    if found is not None:
        return Pinned(name, found)
    try:
        recorded = open_recorded(name)
    except UsageError as error:
        known = baseline_names(root)
        hint = (
            f"The baselines are {listed(known)}."
            if known
            else "Make one with `rejoinder baseline save RUN --name NAME`."
        )
        raise UsageError(f"there is neither a baseline nor a run `{name}`: {error.message}", hint) from None
    folder = recorded.folder
    is_own = folder.path.parent == runs_folder(root)
    return Pinned(folder.id if is_own else str(folder.path), verdicts_of(_whole_run(recorded)))


def find_baseline(root: Path, name: str) -> Baseline:
    """The baseline of that name, else the verdicts of a run."""
    return pin_baseline(root, name).baseline


def blessed_run(root: Path, name: str) -> str:
    """The run that a baseline was made from if `name` is a baseline; else the name itself."""
    try:
        found = read_baseline(baseline_file(root, name))
    except UsageError:
        return name
    if found is None:
        return name
    try:
        return str(find_run(root, found.run).path)
    except UsageError:
        what = f"run {found.run}, the source of baseline `{name}`, is not here; a baseline stores only verdicts"
        raise UsageError(what, f"Compare them with `rejoinder gate --against {name}`.") from None


def _whole_run(recorded: RecordedRun) -> RunReport:
    """A run whose conversations have all ended."""
    report = _sound_run(recorded)
    rest = "it has not ended" if report is None else _rest(report)
    if report is None or rest is not None:
        hint = f"Finish it with `rejoinder resume {recorded.folder.id}`, or start a new run."
        raise UsageError(f"run {recorded.folder.id} is not finished: {rest}", hint)
    return report


def _rest(report: RunReport) -> str | None:
    """The unfinished part of a run, in words; None if all conversations have ended."""
    run, summary = report.run, report.summary
    if run.is_completed and not summary.unfinished and not summary.skipped:
        return None
    confirm, found = confirm_of(report), summary.rate
    if confirm is not None and confirm.cases and not summary.skipped and not run.is_completed:
        return f"more trials of {count(len(confirm.cases), 'newly failing case')} are missing"
    return no_rate_words(found, summary.decided) if isinstance(found, NoRate) else f"it ended early ({run.status})"


def _rounds_against(report: RunReport) -> str | None:
    """The run that a run was compared with after each of its rounds; None for a run with fixed repeats."""
    rounds = _grown(report, "rounds", Rounds)
    return None if rounds is None else rounds.run


def changes_since(before: Baseline, report: RunReport) -> CaseChanges:
    """The changes of a run's cases against a baseline, with new failures that were asked again."""
    return find_changes(before, verdicts_of(report), confirmations_of(report), aside_in(report))


def confirmations_of(report: RunReport) -> Confirmations:
    """The results of new failures that were asked again."""
    confirm = confirm_of(report)
    cases = {one.case: one for one in report.summary.confirmed}
    return Confirmations(0 if confirm is None else confirm.times, cases)


def confirm_of(report: RunReport) -> Confirm | None:
    """The baseline that a run was started against."""
    return _grown(report, "confirm", Confirm)


def gate_as_started(report: RunReport, rules: Sequence[Rule], confirm: Confirm, before: Baseline) -> GateResult:
    """The gate against the baseline that a run was started with. If the name now belongs to another run, the answer is
    "cannot tell": failures were confirmed against the earlier one."""
    if confirm.run in ("", before.run):
        return gate_report(report, rules, before)
    return structs.replace(undecided(rules, another_baseline(confirm, before)), run=report.run.id, against=before.run)


def gate_started(report: RunReport, confirm: Confirm, more: Sequence[Rule] = ()) -> tuple[GateResult, Baseline]:
    """The gate of a run that was started against a baseline, by the rules that compare and `more`; and the baseline."""
    before = find_baseline(project_of(report.folder), confirm.against)
    return gate_as_started(report, [*map(read_rule, COMPARING), *more], confirm, before), before


def why_undecided(report: RunReport) -> str:
    """Why the gate does not decide a run that neither passed nor failed."""
    if (early := EARLY_ENDS.get(report.run.status)) is not None:
        return early.clause
    if report.summary.all_in_quarantine:
        return quarantine_words(report.summary)
    return "the run had errors" if report.summary.errors else "conversations of it are missing"


def project_of(folder: RunFolder) -> Path:
    """The project that a run was made in, which need not be the working project; a folder elsewhere has none."""
    root = folder.path.resolve().parents[2]
    return root if folder.path.resolve().parent == runs_folder(root) else find_root(Path.cwd(), Path.cwd())


def another_baseline(confirm: Confirm, before: Baseline) -> str:
    return f"the baseline `{confirm.against}` was run {confirm.run} when this run began, and is run {before.run} now"


def _grown(report: RunReport, name: str, kind: type[_Option]) -> _Option | None:
    """An option of a run, from its receipt."""
    try:
        return msgspec.convert(report.run.options.get(name), kind | None)
    except msgspec.MsgspecError as error:
        raise RunDamaged(report.folder.path / "run.json", f"options: {error}") from None


def verdicts_of(report: RunReport, files: Iterable[str] = ()) -> Baseline:
    """The verdicts of its results."""
    embeddings = report.summary.embeddings
    shared = 0.0 if embeddings is None or not embeddings.tokens else embeddings.cost
    try:
        found = baseline_of(report.run.id, report.put, tuple(files), shared)
        return structs.replace(found, made_from=report.run.inputs)
    except msgspec.MsgspecError as error:
        raise RunDamaged(report.folder.results, str(error)) from None
