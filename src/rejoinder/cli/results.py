"""What commands that end with a run share: writing its results."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any, NoReturn

import click
from msgspec import Struct, structs

from rejoinder.cli.grouping import grouped
from rejoinder.cli.output import echo, echo_styled, is_screen, look, look_options, wants_colour, width_of, write_machine
from rejoinder.engine.own_files import files_of, refuse_own_file
from rejoinder.engine.recorded import RecordedRun
from rejoinder.engine.run_report import RunReport
from rejoinder.errors import UsageError, reason_of
from rejoinder.model import CasePlace, CaseStatus, Result
from rejoinder.model.runs import BudgetUse
from rejoinder.project import find_root
from rejoinder.report.conversation import shorten_line, signs_for, write_conversation, write_reasons
from rejoinder.report.formats import FORMATS, name_format, write_results
from rejoinder.report.runs import tried_cases
from rejoinder.report.summary import result_words, write_summary
from rejoinder.report.words import Commands, count, rounded_up

if TYPE_CHECKING:
    from rejoinder.gates.rules import Rule

MOST_SHOWN = 20
"""Conversations that are shown without being asked for."""


class Output(Struct, frozen=True, kw_only=True):
    """How and where a report is written."""

    form: str
    out: tuple[Path, ...]
    verbose: bool
    corrected: bool
    file_form: str | None = None
    """The format of all files, whatever their suffixes."""

    def with_file_form(self, form: str | None) -> Output:
        """`--output-format` is the format of the files, or of standard output without one."""
        return structs.replace(self, **{"file_form" if self.out else "form": form}) if form else self

    def check(self, *runs: RecordedRun) -> None:
        """Find out before anything is sent whether the results can be written where they are wanted. `runs`: what they
        will come from."""
        for path in self.out:
            self.form_of(path)
        self.spare(file for run in runs for file in files_of(run))
        for path in self.out:
            _refuse_unwritable(path)

    def spare(self, sources: Iterable[Path]) -> None:
        """Raises UsageError where a file would be written over one that the results come from."""
        kept = list(sources) if self.out else []
        for path in self.out:
            refuse_own_file(path, kept)

    def write_files(self, report: RunReport) -> None:
        for path in self.out:
            write_file(report, path, self.form_of(path))

    def form_of(self, path: Path) -> str:
        """The suffix says it; `--format` says it for a file without a known one."""
        return self.file_form or name_format(path, None if self.form == "text" else self.form)


def _refuse_unwritable(path: Path) -> None:
    """Raises UsageError where a file cannot be written. None is left: it could be taken for a suite."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        is_new = not path.exists()
        with path.open("a", encoding="utf-8"):
            pass
        if is_new:
            path.unlink()
    except OSError as error:
        raise UsageError(f"{path} cannot be written: {reason_of(error)}") from None


def write_file(report: RunReport, path: Path, form: str) -> None:
    """Raises UsageError where the file cannot be written, or is one that the results come from."""
    refuse_own_file(path, files_of(RecordedRun(report.folder, find_root(Path.cwd(), Path.cwd()))))
    try:
        write_results(report, path, form)
    except OSError as error:
        raise UsageError(f"{path} cannot be written: {reason_of(error)}") from None


_output_options = grouped(
    "output",
    lambda values: Output(**values),
    form=click.option(
        "--format",
        "form",
        type=click.Choice(["text", *FORMATS]),
        default="text",
        show_default=True,
        help="Choose how results are written.",
    ),
    out=click.option(
        "--out",
        multiple=True,
        type=click.Path(path_type=Path),
        help="Write the results to a file as well, in the format of its suffix; repeatable.",
    ),
    verbose=click.option("--verbose", "-v", is_flag=True, help="Show every conversation, turn by turn."),
    corrected=click.option("--corrected", is_flag=True, help="Correct judges' pass rates by their known errors."),
)


def output_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """How and where a report is written, and how it looks."""
    return look_options(_output_options(function))


def exit_with(report: RunReport, output: Output, fail_under: Rule | None = None) -> NoReturn:
    sys.exit(write_and_decide(report, output, fail_under))


def write_and_decide(report: RunReport, output: Output, fail_under: Rule | None) -> int:
    """Write a run's results; the exit code, by a rule where there is one."""
    code = write_report(report, output)
    if fail_under is None:
        return code
    from rejoinder.cli.fail_under import decide_exit

    return decide_exit(report, fail_under, code, err=output.form != "text")


def write_report(report: RunReport, output: Output) -> int:
    """Machine-readable results alone on standard output; for people, conversations and a summary. The exit code."""
    output.write_files(report)
    if output.form == "text":
        _write_text(report, output.verbose, output.corrected)
    else:
        write_machine(FORMATS[output.form].write(report))
        _tell_how_to_go_on(report)
    return report.summary.exit_code


def _tell_how_to_go_on(report: RunReport) -> None:
    reason = {"interrupted": "interrupted", "budget": "the budget is reached"}.get(report.run.status)
    if reason is not None:
        echo(f"{reason}; go on with: {next_command(report)}", err=True)


def _write_text(report: RunReport, verbose: bool, corrected: bool) -> None:
    if not verbose and not corrected and is_screen(sys.stdout):
        from rejoinder.report.ending import write_ending, write_result
        from rejoinder.report.styled import paint

        colour, write = wants_colour(sys.stdout), write_result if look().quiet else write_ending
        lines = write(report, next_commands(report), width_of(sys.stdout))
        echo_styled(paint(line, colour=colour) for line in lines)
        return
    if look().quiet:
        echo(result_words(report.summary), f"Next: {next_command(report)}")
        return
    signs = signs_for(sys.stdout)
    results, left_out = (report.results, {}) if verbose else _choose(report)
    excused = _excused(report)
    reasons: dict[str, list[str]] = {title: [] for title in _TITLES.values()}
    is_cut = False
    for result in results:
        label = label_of(result, report)
        echo(*write_conversation(result, label=label, signs=signs, whole=verbose), "")
        shown = reasons[_TITLES[excused.get(result.case_place, "failed")]]
        if len(shown) < MOST_SHOWN or not verbose:
            lines = write_reasons(result, label)
            shown += lines if verbose else map(shorten_line, lines)
        else:
            is_cut = is_cut or result.status in ("failed", "error")
    for status, number in left_out.items():
        echo(f"{count(number, 'more conversation')} {status}; --verbose shows all")
    if left_out:
        echo("")
    for title, lines in reasons.items():
        if lines:
            echo(title, *lines, "")
    if is_cut:
        echo("... and more; --format json shows all", "")
    echo(*write_summary(report.run, report.summary, corrected=corrected))
    echo(f"  {'run':10}{relative(report.folder.path)}", *tracebacks(report))
    echo("", f"Next: {next_command(report)}")


_TITLES: dict[CaseStatus, str] = {
    "failed": "Not passed:",
    "passed": "Not passed, in cases that passed with their other trials:",
    "apart": "Not passed, and in quarantine:",
}


def _excused(report: RunReport) -> dict[CasePlace, CaseStatus]:
    """The cases with conversations that did not pass, and that the run does not fail for."""
    summary = report.summary
    if not summary.apart and not summary.has_repeats:
        return {}
    tried = ((case.first.case_place, case) for case in tried_cases(report))
    return {
        place: case.status
        for place, case in tried
        if case.status in ("passed", "apart") and case.passed < case.finished
    }


def tracebacks(report: RunReport) -> list[str]:
    """Where to look when the user's own code raised an error."""
    if report.summary.errors and report.folder.has_tracebacks:
        return [f"  {'traceback':10}{relative(report.folder.path / 'run.log')}"]
    return []


def _choose(report: RunReport) -> tuple[list[Result], dict[str, int]]:
    """The results that are shown, in document order, and how many are not: failures come before recoveries."""
    if report.summary.first_try == report.summary.total:
        return [], {}
    failed: list[tuple[int, Result]] = []
    recovered: list[tuple[int, Result]] = []
    left_out = {"did not pass": 0, "recovered": 0}
    for place, result in enumerate(report.results):
        if result.recovered:
            shown, group = recovered, "recovered"
        elif result.status in ("failed", "error") and not _is_explained(result, report):
            shown, group = failed, "did not pass"
        else:
            continue
        if len(shown) < MOST_SHOWN:
            shown.append((place, result))
        else:
            left_out[group] += 1
    room = max(0, MOST_SHOWN - len(failed))
    left_out["recovered"] += len(recovered[room:])
    chosen = sorted(failed + recovered[:room], key=lambda numbered: numbered[0])
    return [result for _, result in chosen], {group: number for group, number in left_out.items() if number}


def _is_explained(result: Result, report: RunReport) -> bool:
    """Did it end because its target or its judge was given up? That is shown once, and not for each conversation."""
    error = result.error
    return error is not None and any(disabled.message in error.message for disabled in report.run.given_up)


def label_of(result: Result, report: RunReport) -> str:
    """What tells a conversation from others of the same number, where there are several suites, targets, variants or
    trials."""
    parts = [result.suite] if len(report.run.suites) > 1 else []
    parts += [result.target] if len(report.summary.by_target) > 1 else []
    parts += [result.variant] if result.variant is not None else []
    is_repeated = report.run.reported.repeat > 1 or report.summary.has_repeats
    parts += [f"trial {result.trial}"] if is_repeated else []
    return f" ({', '.join(parts)})" if parts else ""


def next_commands(report: RunReport) -> Commands:
    """At most two, which work when they are pasted: the one that most want next, and another."""
    run, summary = report.run, report.summary
    here = find_root(Path.cwd(), Path.cwd())
    if not report.folder.path.is_relative_to(here / ".rejoinder"):
        return ()
    left = summary.skipped + max(0, summary.unfinished)
    if run.status in ("budget", "interrupted") or left:
        return ((next_command(report), f"the other {left:,}; nothing is asked twice" if left else "go on"),)
    failed = next((result for result in report.results if result.status == "failed"), None)
    if summary.errors:
        again = (f"rejoinder resume {report.folder.id} --retry-errors", f"the {count(summary.errors, 'error')} again")
        named = len(run.given_up) == 1 and run.given_up[0].target.isprintable()
        if not summary.passed and not summary.failed and named:
            return ((f"rejoinder targets check {quote(run.given_up[0].target)}", "try one call"), again)
        return (again,)
    if failed is None:
        return ()
    if not failed.id.isprintable():  # such a command cannot be pasted
        return (("rejoinder show --failed", "the whole conversations"),)
    trial = f" --trial {failed.trial}" if summary.has_repeats else ""
    shown = (f"rejoinder show --case {quote(failed.id)}{trial}", "the whole conversation")
    if summary.decided == 1:
        return (shown, (f"rejoinder run --case {quote(failed.id)} --repeat 5", "is it chance?"))
    number, of = (summary.by_case.failed, " cases") if summary.has_repeats else (summary.failed, "")
    again = "this one again" if number == 1 else f"these {number:,}{of} again"
    return (shown, ("rejoinder run --failed", again))


def next_command(report: RunReport) -> str:
    run, summary = report.run, report.summary
    here = find_root(Path.cwd(), Path.cwd())
    is_own = report.folder.path.is_relative_to(here / ".rejoinder")
    name = quote(report.folder.id if is_own else relative(report.folder.path))
    show = f"rejoinder show {name} --verbose"
    if not is_own or run.status == "running":
        return show
    if run.status == "budget" and run.budget is not None:
        return f"rejoinder resume {name} {' '.join(_more_budget(run.budget))}"
    if run.replay_of or run.reported.replay:
        return show
    if summary.errors:
        return f"rejoinder resume {name} --retry-errors"
    if run.status != "completed" or summary.unfinished:
        return f"rejoinder resume {name}"
    return show


def relative(path: Path) -> str:
    try:
        return str(path.relative_to(Path.cwd()))
    except ValueError:
        return str(path)


def _more_budget(budget: BudgetUse) -> Iterable[str]:
    """Options that give a run twice as much, or what the next call needs where that is more."""
    usd, tokens = budget.needed
    if budget.usd is not None:
        wanted = max(2 * budget.usd, budget.spent_usd + usd)
        yield f"--budget-usd {rounded_up(wanted, 3)}"
    if budget.tokens is not None:
        yield f"--budget-tokens {max(2 * budget.tokens, budget.spent_tokens + tokens)}"
