"""Parts of the commands that are proposed after a run, so that they do what they say when they are pasted: they name
the run, the suite and the options that they would not find by themselves."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from shlex import join

from rejoinder.cli.again import files_again
from rejoinder.engine.folder import RunFolder, locate_run
from rejoinder.engine.options import RunOptions
from rejoinder.engine.recorded import RecordedRun
from rejoinder.engine.run_report import RunReport
from rejoinder.errors import RejoinderError
from rejoinder.model import Result
from rejoinder.model.runs import BudgetUse, Receipt
from rejoinder.project import find_root
from rejoinder.report.words import rounded_up
from rejoinder.suite import find_files

LONGEST = 300
"""Characters of a command that one still reads before it is pasted."""


def run_words(report: RunReport) -> list[str]:
    """The run's name, unless it is the latest, which commands take by themselves."""
    try:
        latest = locate_run(find_root(Path.cwd(), Path.cwd()), None).id
    except RejoinderError:
        latest = ""
    return [] if latest == report.folder.id else [report.folder.id]


def check_target(report: RunReport, target: str) -> str | None:
    """The command that tries one call of a target."""
    if (recorded := _recorded(report)) is None:
        return None
    asked = next((result for result in report.results if result.target == target), None)
    file = _file_of(recorded, asked) if asked is not None else next(iter(files_again(recorded)), None)
    suite = [] if file is None or _same(file) in map(_same, _default_files()) else ["--suite", _shown(file)]
    return _command("targets", "check", target, *suite, *_targets_file(recorded.stored.options))


def case_again(report: RunReport, result: Result, *more: str) -> str | None:
    """The command that runs a conversation again as it was run."""
    recorded = _recorded(report)
    if recorded is None or _has_other_words(recorded.stored.options, report.run):
        return None
    if (file := _file_of(recorded, result)) is None:
        return None
    options = recorded.stored.options
    suite = [] if [_same(file)] == list(map(_same, _default_files())) else [_shown(file)]
    target = ["-m", result.target] if options.selection.targets or len(report.summary.by_target) > 1 else []
    variant = ["--variant", result.variant] if result.variant is not None else []
    choice = ["--case", result.id, *target, *variant, *_targets_file(options)]
    return _command("run", *suite, *choice, *_words_and_limits(options), *more)


def failed_again(report: RunReport) -> str | None:
    """The command that runs again what did not pass."""
    recorded, name = _recorded(report), run_words(report)
    if recorded is None or recorded.stored.options.answers.fork is not None or not files_again(recorded):
        return None
    which = ["--failed-from", *name] if name else ["--failed"]
    return _command("run", *which, *_words_and_limits(recorded.stored.options))


def confirmed_by(folder: RunFolder, against: str) -> str | None:
    """The command that runs the same suites on the same targets, and asks newly failing cases again."""
    if (recorded := _read(folder)) is None:
        return None
    options, files = recorded.stored.options, files_again(recorded)
    chosen = options.selection
    targets = ["-m", ",".join(chosen.targets)] if chosen.targets else []
    variants = ["--variant", ",".join(chosen.variants)] if chosen.variants else []
    words = [*map(_shown, files), *targets, *variants, *_targets_file(options), "--against", against]
    return _command("run", *words, *_words_and_limits(options)) if files else None


def more_budget(report: RunReport, budget: BudgetUse) -> Iterator[str]:
    """Options that give a run enough for all the rest, as far as that can be told."""
    most, needed = _most_of_rest(report), budget.needed
    share = report.run.planned / max(1, report.summary.finished)

    def enough(given: float, spent: float, rest: float | None, call: float) -> float:
        # A call is let through only where its bound fits, which is far more than it costs, and grows with each turn.
        foreseen = spent + rest if rest is not None else max(2 * given, spent * share)
        return max(given, foreseen + 2 * call)

    if budget.usd is not None:
        yield f"--budget-usd {rounded_up(enough(budget.usd, budget.spent_usd, most[0], needed[0]))}"
    if budget.tokens is not None:
        yield f"--budget-tokens {rounded_up(enough(budget.tokens, budget.spent_tokens, most[1], needed[1]))}"


def _most_of_rest(report: RunReport) -> tuple[float | None, int | None]:
    """Dollars and tokens of the conversations that have not ended, at most; None where that cannot be told."""
    from rejoinder.cli.estimate import most_of
    from rejoinder.engine.plan import case_name_of, plan

    if (recorded := _recorded(report)) is None:
        return None, None
    ended = Counter(result.case for result in report.results if result.status != "skipped")
    try:
        suites, options = recorded.suites(asks=False), recorded.options()
        planned = Counter(case_name_of(job.prepared) for job in plan(suites, options) if not job.confirms)
        rest = tuple(planned - ended)
        return most_of(suites, options.changed(pairs=rest)) if rest else (0.0, 0)
    except RejoinderError:  # it has changed since, or is not to be trusted
        return None, None


def _recorded(report: RunReport) -> RecordedRun | None:
    return _read(report.folder)


def _read(folder: RunFolder) -> RecordedRun | None:
    """The run with its options and suites; None where they cannot be read."""
    recorded = RecordedRun(folder, find_root(Path.cwd(), Path.cwd()))
    try:
        _ = recorded.stored
    except (RejoinderError, OSError):
        return None
    return recorded


def _has_other_words(options: RunOptions, run: Receipt) -> bool:
    """Would the suite ask something else, or another one than was asked? So it is with forks and replays."""
    return options.answers.fork is not None or options.answers.replay is not None or run.replay_of is not None


def _file_of(recorded: RecordedRun, result: Result) -> Path | None:
    """The file of a result's suite, where it still is."""
    wanted = recorded.root / (result.suite_file or result.file)
    files = files_again(recorded)
    return next((file for file in files if _same(file) == _same(wanted)), files[0] if len(files) == 1 else None)


def _default_files() -> list[Path]:
    """The suites that `run` finds by itself here."""
    try:
        return find_files(())[0]
    except RejoinderError:
        return []


def _targets_file(options: RunOptions) -> Iterator[str]:
    if (file := options.selection.targets_file) is not None:
        yield from ("--targets", _shown(Path(file)))


def _words_and_limits(options: RunOptions) -> Iterator[str]:
    """What `--failed` does not take from the run: words and bounds of all its conversations."""
    if (words := options.selection.system_prompt) is not None:
        yield from ("--system-prompt", words)
    if options.limits.max_tokens is not None:
        yield from ("--max-tokens", str(options.limits.max_tokens))
    if options.trust.trust_env:
        yield "--trust-env"


def _same(file: Path) -> Path:
    return file.resolve()


def _shown(file: Path) -> str:
    here = Path.cwd()
    return str(file.relative_to(here) if file.is_relative_to(here) else file)


def _command(*words: str) -> str | None:
    """None where it cannot be pasted."""
    command = join(("rejoinder", *words))
    return command if command.isprintable() and len(command) <= LONGEST else None
