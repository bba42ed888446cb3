"""Commands to type next after a run, as data. Each works when it is pasted into a shell: it names the run, the suite
and the options that it would not find by itself.

    for action in next_actions(report):
        print(action.command(), action.why)
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from shlex import join
from typing import Literal, TypeAlias

from msgspec import Struct

from rejoinder.engine.failed_again import files_again
from rejoinder.errors import RejoinderError
from rejoinder.model import Result
from rejoinder.model.runs import BudgetUse, Receipt
from rejoinder.project.folders import find_root
from rejoinder.runs.folder import RunFolder, locate_run
from rejoinder.runs.options import RunOptions
from rejoinder.runs.recorded import RecordedRun
from rejoinder.runs.report import RunReport
from rejoinder.suite.discover import find_files
from rejoinder.views.course import turn_to_change
from rejoinder.words.numbers import count, plural, rounded_up

LONGEST = 300
"""Characters of a command that one still reads before it is pasted."""
Verb: TypeAlias = Literal["compare", "fork", "resume", "run", "show", "targets check"]
"""A command of `rejoinder`."""


class Action(Struct, frozen=True):
    """A command to type next."""

    verb: Verb
    arguments: tuple[str, ...]
    """Words of the command line, without quotes."""
    why: str
    """The purpose of the command in a few words: `the whole conversation`."""

    def command(self) -> str | None:
        """The line for a shell; None if it cannot be pasted, because it has unprintable characters."""
        line = join(("rejoinder", *self.verb.split(), *self.arguments))
        return line if line.isprintable() else None


def next_actions(report: RunReport) -> tuple[Action, ...]:
    """At most two actions, the most useful first. None for a run of another project than the working one."""
    run, summary = report.run, report.summary
    if not _is_own(report):
        return ()
    resume = resume_action(report)
    again = () if resume is None else (resume,)
    if run.is_stopped or (not summary.errors and again):
        return again
    if summary.errors:
        named = len(run.given_up) == 1 and not summary.passed and not summary.failed
        tried = _check_target(report, run.given_up[0].target) if named else None
        return (tried, *again) if tried is not None else again
    if not summary.failed:
        return ()
    from rejoinder.views.cases import tried_cases

    failed = next((case for case in tried_cases(report) if case.status == "failed"), None)
    return _after_failure(report, failed.deciding) if failed is not None else ()


def resume_action(report: RunReport) -> Action | None:
    """The action that continues a run with missing conversations, or with errors."""
    run, summary = report.run, report.summary
    if not _is_own(report) or run.status == "running" or _needs_program(run):
        return None
    resume = report.folder.id
    left = summary.skipped + max(0, summary.unfinished)
    rest = f"the other {left:,}; {_asked_twice(run.in_doubt)}" if left else "continue it"
    if run.status == "budget" and run.budget is not None:
        return Action("resume", (resume, *_more_budget(report, run.budget)), rest)
    if run.replay_of or run.reported.replay:
        return None
    errors = f"the {count(summary.errors, 'error')} again"
    if summary.errors and any(map(_may_pass, report.results)):
        return Action("resume", (resume, "--retry-errors"), errors)
    if summary.errors and summary.passed + summary.failed:  # what was recorded need not be paid again
        return Action("resume", (resume, "--retry-errors"), f"when the cause is mended: {errors}")
    return Action("resume", (resume,), rest) if run.status != "completed" or summary.unfinished else None


def fork_action(run: str, result: Result, turn: int | None, *, several: bool) -> Action | None:
    """The action that asks something else at a turn. `several`: whether the run has several targets."""
    if not result.turns:
        return None
    turn = turn or turn_to_change(result)
    target = ("--target", result.target) if several else ()
    arguments = (run, "--case", result.id, "--turn", str(turn), *target, "--prompt", "TEXT")
    return Action("fork", arguments, f"say something else at turn {turn}")


def confirm_action(folder: RunFolder, against: str) -> Action | None:
    """The action that runs the same suites on the same targets, and asks newly failing cases again."""
    if (recorded := _read(folder)) is None:
        return None
    options, files = recorded.stored.options, files_again(recorded)
    chosen = options.selection
    if chosen.given is not None:
        return None
    targets = ["-m", ",".join(chosen.targets)] if chosen.targets else []
    variants = ["--variant", ",".join(chosen.variants)] if chosen.variants else []
    words = [*map(_shown, files), *targets, *variants, *_targets_file(options), "--against", against]
    action = Action("run", (*words, *_words_and_limits(options)), "asks newly failing cases again")
    return _if_readable(action) if files else None


def _after_failure(report: RunReport, failed: Result) -> tuple[Action, ...]:
    summary, name = report.summary, _run_words(report)
    if not failed.id.isprintable():  # such a command cannot be pasted
        return (Action("show", (*name, "--failed"), "the whole conversations"),)
    trial = ("--trial", str(failed.trial)) if summary.has_repeats else ()
    case = (*name, "--case", failed.id, *trial)
    for groups, option in ((summary.by_target, "--targets"), (summary.by_variant, "--variants")):
        if len(groups) > 1:
            compared = Action("compare", (*(name or ("last",)), option), "is the difference real?")
            return (Action("show", case, "its conversations"), compared)
    shown = Action("show", case, "the whole conversation")
    if summary.decided == 1:
        again = _case_again(report, failed)
    else:
        number, of = (summary.by_case.failed, " cases") if summary.has_repeats else (summary.failed, "")
        again = _failed_again(report, plural(number, "this one again", f"these {number:,}{of} again"))
    return (shown, again) if again is not None else (shown,)


def _may_pass(result: Result) -> bool:
    """Whether the same call may succeed when it is made again: not if key, address or settings are wrong, nor if a
    judge cannot write a verdict."""
    error = result.error
    if error is None:
        return False
    from rejoinder.checks.judge_answers import Ambiguous, Echoed, Unreadable
    from rejoinder.providers.http_api import RETRYABLE

    if error.type == "check" and any(kind.trouble in error.message for kind in (Unreadable, Ambiguous, Echoed)):
        return False
    return error.status is None or error.status in RETRYABLE


def _asked_twice(in_doubt: int) -> str:
    """A clause about the calls that a resumed run makes again: only calls whose answers were not recorded."""
    if not in_doubt:
        return "recorded replies are reused"
    return plural(in_doubt, "the cut off call is asked again", f"the {in_doubt:,} cut off calls are asked again")


def _is_own(report: RunReport) -> bool:
    """Whether it is a run of the working project."""
    here = find_root(Path.cwd(), Path.cwd())
    return report.folder.path.is_relative_to(here / ".rejoinder")


def _run_words(report: RunReport) -> tuple[str, ...]:
    """The run's name, unless it is the latest, which commands take by themselves."""
    try:
        latest = locate_run(find_root(Path.cwd(), Path.cwd()), None).id
    except RejoinderError:
        latest = ""
    return () if latest == report.folder.id else (report.folder.id,)


def _check_target(report: RunReport, target: str) -> Action | None:
    """The action that tries one call of a target."""
    if (recorded := _recorded(report)) is None or recorded.stored.options.selection.given is not None:
        return None
    asked = next((result for result in report.results if result.target == target), None)
    file = _file_of(recorded, asked) if asked is not None else next(iter(files_again(recorded)), None)
    suite = [] if file is None or _same(file) in map(_same, _default_files()) else ["--suite", _shown(file)]
    words = (target, *suite, *_targets_file(recorded.stored.options))
    return _if_readable(Action("targets check", words, "try one call"))


def _case_again(report: RunReport, result: Result) -> Action | None:
    """The action that runs a conversation again several times, with the same options."""
    recorded = _recorded(report)
    if recorded is None or _has_other_words(recorded.stored.options, report.run):
        return None
    if (file := _file_of(recorded, result)) is None:
        return None
    options = recorded.stored.options
    if options.selection.given is not None:
        return None
    suite = [] if [_same(file)] == list(map(_same, _default_files())) else [_shown(file)]
    target = ["-m", result.target] if options.selection.targets or len(report.summary.by_target) > 1 else []
    variant = ["--variant", result.variant] if result.variant is not None else []
    choice = ["--case", result.id, *target, *variant, *_targets_file(options)]
    words = (*suite, *choice, *_words_and_limits(options), "--repeat", "5")
    return _if_readable(Action("run", words, "is it chance?"))


def _failed_again(report: RunReport, why: str) -> Action | None:
    """The action that runs again what did not pass."""
    recorded, name = _recorded(report), _run_words(report)
    if recorded is None or recorded.stored.options.answers.fork is not None or not files_again(recorded):
        return None
    if _needs_program(report.run):
        return None
    which = ["--failed-from", *name] if name else ["--failed"]
    return _if_readable(Action("run", (*which, *_words_and_limits(recorded.stored.options)), why))


def _more_budget(report: RunReport, budget: BudgetUse) -> Iterator[str]:
    """Options that give a run enough for all the rest, as far as that is known."""
    most, needed = _most_of_rest(report), budget.needed
    share = report.run.planned / max(1, report.summary.finished)

    def enough(given: float, spent: float, rest: float | None, call: float) -> float:
        # A call is let through only where its bound fits, which is far more than it costs, and grows with each turn.
        foreseen = spent + rest if rest is not None else max(2 * given, spent * share)
        return max(given, foreseen + 2 * call)

    if budget.usd is not None:
        yield from ("--budget-usd", rounded_up(enough(budget.usd, budget.spent_usd, most[0], needed[0])))
    if budget.tokens is not None:
        yield from ("--budget-tokens", rounded_up(enough(budget.tokens, budget.spent_tokens, most[1], needed[1])))


def _most_of_rest(report: RunReport) -> tuple[float | None, int | None]:
    """Dollars and tokens of the conversations that have not ended, at most; None if that is not known."""
    from rejoinder.engine.estimate import most_of
    from rejoinder.engine.plan import plan
    from rejoinder.runs.names import case_name_of

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
    """The run with its options and suites; None if they cannot be read."""
    recorded = RecordedRun(folder, find_root(Path.cwd(), Path.cwd()))
    try:
        _ = recorded.stored
    except (RejoinderError, OSError):
        return None
    return recorded


def _needs_program(run: Receipt) -> bool:
    """Whether its target is a Python object, which no command has."""
    return any(target.code is not None for target in run.targets)


def _has_other_words(options: RunOptions, run: Receipt) -> bool:
    """Whether the suite would ask something else, or another one than was asked, as with forks and replays."""
    return options.answers.fork is not None or options.answers.replay is not None or run.replay_of is not None


def _file_of(recorded: RecordedRun, result: Result) -> Path | None:
    """The file of a result's suite, if it still exists."""
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
    """Options that `--failed` does not take from the run: words and bounds of all its conversations."""
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


def _if_readable(action: Action) -> Action | None:
    """The action, unless its command cannot be pasted, or is too long to read before."""
    command = action.command()
    return action if command is not None and len(command) <= LONGEST else None
