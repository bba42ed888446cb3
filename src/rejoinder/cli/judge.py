"""`rejoinder judge`"""

from __future__ import annotations

import sys
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING

import click
from msgspec import Struct

from rejoinder.cli.grouping import format_option, grouped
from rejoinder.cli.options import SELECTION, TRUST
from rejoinder.cli.output import echo, echo_lines, form_for, show_problems, write_data
from rejoinder.errors import SuiteError, UsageError
from rejoinder.report.styled import Commands
from rejoinder.runs.options import RunOptions
from rejoinder.words.inert import one_line
from rejoinder.words.numbers import count, shortened

if TYPE_CHECKING:
    from rejoinder.calibration.labels import LabelFile
    from rejoinder.calibration.subjects import Subject
    from rejoinder.model.passports import Finding, Passport
    from rejoinder.runs.report import RunReport


LONGEST_ASKED = 100
"""Characters of criteria in a warning."""


class JudgeChoice(Struct, frozen=True):
    """The judge that is tested."""

    suite: Path | None
    check: str | None
    criteria: str | None
    target: str | None


@click.group("judge")
def command() -> None:
    """Test how reliable a judge is."""


@command.command("test")
@click.option("--labels", required=True, type=click.Path(path_type=Path), help="Read labelled replies, JSONL or CSV.")
@grouped(
    "choice",
    lambda values: JudgeChoice(**values),
    suite=click.argument("suite", required=False, type=click.Path(path_type=Path)),
    check=click.option(
        "--check",
        metavar="NAME",
        help="Choose a judge of the suite by its name, its criteria, or the beginning of its digest.",
    ),
    criteria=click.option(
        "--criteria", metavar="TEXT", help="Test an `llm_judge` with these criteria instead of a suite's."
    ),
    target=click.option("--target", metavar="NAME", help="Judge with this target instead of the suite's."),
)
@grouped(
    "options",
    lambda values: RunOptions().changed(**values),
    targets_file=SELECTION["targets_file"],
    repeat=click.option("--repeat", "-n", type=click.IntRange(1), default=1, help="Ask about every reply N times."),
    workers=click.option(
        "--workers", "-w", type=click.IntRange(1), help="Judge N replies at the same time.  [default: 10]"
    ),
    **TRUST,
)
@click.option("--resume", "run", metavar="RUN", help="Resume an interrupted test; recorded replies are reused.")
@click.option("--verbose", "-v", is_flag=True, help="Show every reply on which people and judge disagree.")
@format_option
def test(choice: JudgeChoice, labels: Path, options: RunOptions, run: str | None, verbose: bool, form: str) -> None:
    """Measure a judge against human labels.

    Each row of the labels has `reply` and `label` (pass or fail). Optional columns: `id`, `prompt`, `reference`,
    `context`, the `criteria` if they differ between cases, and the `other` reply for a `compare`. The judge is the one
    of SUITE (the suite of the working directory if SUITE is not given), or one with --criteria. Its figures are saved,
    and runs print them beside the judge's scores. Exit code 3 if the judge gave no verdict on a reply.
    """
    from rejoinder.calibration.labels import read_labels
    from rejoinder.calibration.measure import keep_passport, make_passport, read_findings
    from rejoinder.cli.results import relative
    from rejoinder.report.judges import JudgeTest, write_judge_report
    from rejoinder.runs.passports import find_passport

    try:
        file = read_labels(labels)
    except SuiteError as error:
        show_problems(error.problems, err=True)
        sys.exit(2)
    subject = _subject(choice, file, options)
    _warn_of_other_judge(subject, file)
    report = _ask(subject, file, options, run)
    if not report.run.is_completed:
        why = "the suite's `budget` is used up" if report.run.status == "budget" else "interrupted"
        echo(f"{why}; to continue, repeat the command with --resume {report.folder.id}", err=True)
        sys.exit(report.summary.exit_code)
    findings = read_findings(report.results)
    passport = make_passport(subject, file, findings, report.run, options.repeat)
    before = find_passport(Path(subject.suite.root), passport.judge, passport.digest)
    path = keep_passport(subject, passport)
    if form == "json":
        _write_record(passport, findings, path, report)
    else:
        kept = f"saved as {relative(path)}" if path else "not saved"
        if path and before is not None:
            then = count(before.labels.scored, "label")
            kept += f", replacing the judge test of {before.created_at[:10]} with {then}"
        tested = JudgeTest(
            passport=passport,
            findings=tuple(findings),
            cost=report.summary.judge_cost,
            run=report.folder.id,
            kept=kept,
            commands=_next_commands(passport, subject) if choice.criteria is None else (),
        )
        echo_lines(write_judge_report(tested, form_for(sys.stdout), every=verbose))
    if report.summary.errors or report.summary.skipped:
        again = f"repeat the command with --resume {report.folder.id}"
        echo(f"to retry where the judge gave no answer, {again}", err=True)
        sys.exit(3)


def _warn_of_other_judge(subject: Subject, file: LabelFile) -> None:
    """People may have said pass to other criteria than the judge is asked about."""
    from rejoinder.calibration.subjects import digest_of, title_of

    digest = digest_of(subject)
    if file.judge in (None, digest):
        return
    asked = f" ({shortened(one_line(file.asked), LONGEST_ASKED)})" if file.asked else ""
    echo(
        f"warning: the labels were given for judge {file.judge}{asked}, and not for this judge, {digest} "
        f"({shortened(one_line(title_of(subject.check)), LONGEST_ASKED)}); what they say about it may be wrong",
        err=True,
    )


def _next_commands(passport: Passport, subject: Subject) -> Commands:
    """A run whose rates are corrected by what is known of the judge."""
    from rejoinder.cli.results import relative

    path = relative(Path(subject.suite.path))
    if not passport.passes[1] or not passport.fails[1] or not path.isprintable():
        return ()
    return ((f"rejoinder run {quote(path)} --corrected", "rates corrected for the judge's errors"),)


def _write_record(passport: Passport, findings: list[Finding], path: Path | None, report: RunReport) -> None:
    import msgspec

    write_data(
        {
            **msgspec.to_builtins(passport),
            "disagreements": [
                {"id": reply.id, "label": reply.label, "judge": reply.verdicts[0], "reason": reply.reasons[0]}
                for reply in findings
                if reply.is_wrong
            ],
            "without_verdict": [{"id": reply.id, "reason": reply.troubles[0]} for reply in findings if reply.troubles],
            "passport": str(path) if path else None,
            "judge_usage": msgspec.to_builtins(report.summary.judge_usage),
            "judge_cost": report.summary.judge_cost,
            "run": report.folder.id,
        }
    )


def _subject(choice: JudgeChoice, file: LabelFile, options: RunOptions) -> Subject:
    from rejoinder.calibration.subjects import find_judge, subject_of
    from rejoinder.cli.loading import load_or_exit

    if choice.criteria is not None:
        if choice.suite is not None or choice.check is not None:
            raise UsageError("--criteria defines its own judge; leave out the suite and --check")
        return _plain_subject(choice.criteria, choice.target, file, options)
    suites = load_or_exit((choice.suite,) if choice.suite else (), options, warn=False, labelled=True)
    return subject_of(find_judge(suites, choice.check), choice.target, file)


def _plain_subject(criteria: str, target: str | None, file: LabelFile, options: RunOptions) -> Subject:
    """A judge that no suite has, with the project's targets."""
    from rejoinder.calibration.subjects import plain_subject
    from rejoinder.cli.loading import load_judge_or_exit
    from rejoinder.spelling import did_you_mean
    from rejoinder.suite.targets import resolve

    more = options.selection.targets_file
    project, name = load_judge_or_exit(Path(more) if more else None, target)
    if name is None:
        raise UsageError("no judge is named", "Name a target or a model: --target openai/gpt-5-mini")
    judge = resolve(name, project.targets)
    if judge is None:
        raise UsageError(f"there is no target `{name}`{did_you_mean(name, project.targets)}")
    return plain_subject(criteria, project, judge, file)


def _ask(subject: Subject, file: LabelFile, options: RunOptions, run: str | None) -> RunReport:
    from rejoinder.calibration.measure import is_test_of, labelled_suite
    from rejoinder.cli.live import live_display
    from rejoinder.engine.run import resume_run, start_run
    from rejoinder.runs.folder import find_run
    from rejoinder.runs.recorded import RecordedRun

    suite = labelled_suite(subject, file)
    display = live_display()
    if run is None:
        return start_run([suite], options, display)
    root = Path(subject.suite.root)
    folder = find_run(root, run)
    receipt = folder.read_receipt()
    if receipt is None or not is_test_of(receipt, suite, subject):
        raise UsageError(
            f"run {folder.id} is not a test of this judge with {file.path.name}",
            "Give the same labels, suite, --check, --criteria and --target as when it began.",
        )
    return resume_run(RecordedRun(folder, root), options, display, retry_errors=True, suites=[suite])
