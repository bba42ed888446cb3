"""What commands that end with a run share: writing its results."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import click
from msgspec import Struct, structs

from rejoinder.cli.grouping import grouped
from rejoinder.cli.output import echo, echo_lines, form_for, look, look_options, write_machine
from rejoinder.errors import UsageError, reason_of
from rejoinder.exports.formats import FORMATS, name_format, write_results
from rejoinder.project.folders import find_root
from rejoinder.report.conversation import signs_for, write_conversation
from rejoinder.report.styled import Commands
from rejoinder.runs.own_files import files_of, refuse_own_file
from rejoinder.runs.recorded import RecordedRun
from rejoinder.runs.report import RunReport
from rejoinder.views.actions import Action, next_actions, resume_action
from rejoinder.views.cases import eval_name
from rejoinder.views.conversation import view_conversation

if TYPE_CHECKING:
    from rejoinder.gates.rules import Rule
    from rejoinder.report.styled import Form
    from rejoinder.views.flips import SinceBaseline


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
    """Write a run's results; the exit code, by a rule or a baseline where there is one. A part of a run decides
    nothing against a baseline: the run that it is merged into does."""
    code, err = write_report(report, output), output.form != "text"
    from rejoinder.gates.verbs import confirm_of

    confirm = confirm_of(report)
    if confirm is not None and report.run.options.get("shard") is None:
        from rejoinder.cli.against import decide_against

        return decide_against(report, confirm, [] if fail_under is None else [fail_under], code, err=err)
    if fail_under is None:
        return code
    from rejoinder.cli.fail_under import decide_exit

    return decide_exit(report, fail_under, code, err=err)


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
        for command, _ in _resuming(report):
            echo(f"{reason}; next: {command}", err=True)


def _resuming(report: RunReport) -> Commands:
    action = resume_action(report)
    return () if action is None else commands_of((action,))


def _write_text(report: RunReport, verbose: bool, corrected: bool) -> None:
    from rejoinder.report.course_rows import write_course
    from rejoinder.report.ending import Extras, write_ending, write_result
    from rejoinder.report.styled import EMPTY, PLAIN, Piece

    form = form_for(sys.stdout)
    commands = commands_of(next_actions(report)) if form.commands else _resuming(report)
    if look().quiet:
        echo(f"run {report.run.id}", err=True)  # the one thing that is found nowhere else
        echo_lines(write_result(report, commands, form))
        return
    if verbose:
        signs = signs_for(sys.stdout, form)
        prompts = report.system_prompts
        for result in report.results:
            talk = view_conversation(result, system=prompts.of(result))
            echo(*write_conversation(talk, eval_name(result, report), signs=signs))
            echo_lines([*((Piece("  "), *row) for row in write_course(talk, PLAIN)), EMPTY])
    extras = Extras(
        figures=verbose,
        corrected=corrected,
        traceback=traceback_of(report),
        compared=_variants_compared(report, form),
        since=since_of(report),
    )
    echo_lines(write_ending(report, commands, form, extras))


def _variants_compared(report: RunReport, form: Form) -> tuple[str, ...]:
    """What became of the second of two variants, in a line."""
    summary = report.summary
    if len(summary.by_variant) != 2 or len(summary.by_target) > 1 or not report.run.is_completed:
        return ()
    from rejoinder.report.comparison import sum_up
    from rejoinder.runs.comparing import VARIANTS, compare_parts

    [found] = compare_parts(report, VARIANTS)
    return (sum_up(found, form),)


def since_of(report: RunReport) -> SinceBaseline | None:
    """The run against its baseline; None if the project has none."""
    from rejoinder.gates.baselines import baseline_names
    from rejoinder.gates.verbs import project_of

    root = project_of(report.folder)
    if report.derived is not None or not baseline_names(root):
        return None
    from rejoinder.views.since import since_baseline

    return since_baseline(root, report)


def traceback_of(report: RunReport) -> str | None:
    """Where to look when the user's own code raised an error."""
    has_any = bool(report.summary.errors) and report.folder.has_tracebacks
    return relative(report.folder.path / "run.log") if has_any else None


def commands_of(actions: Iterable[Action]) -> Commands:
    """The commands of actions that can be pasted, as a screen lists them."""
    lines = ((action.command(), action.why) for action in actions)
    return tuple((command, why) for command, why in lines if command is not None)


def relative(path: Path) -> str:
    try:
        return str(path.relative_to(Path.cwd()))
    except ValueError:
        return str(path)
