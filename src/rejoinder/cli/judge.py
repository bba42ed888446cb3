"""`rejoinder judge`"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from rejoinder.cli.options import no_code_option, trust_env_option
from rejoinder.cli.output import count, echo, show_problems, width_of, write_json
from rejoinder.errors import SuiteError, UsageError

if TYPE_CHECKING:
    from rejoinder.calibration.labels import LabelFile
    from rejoinder.calibration.subjects import Subject
    from rejoinder.engine.options import RunOptions
    from rejoinder.engine.run import RunReport
    from rejoinder.model.passports import Finding, Passport


@click.group("judge")
def command() -> None:
    """Find out how far a judge can be trusted."""


@command.command("test")
@click.argument("suite", required=False, type=click.Path(path_type=Path))
@click.option("--labels", required=True, type=click.Path(path_type=Path), help="Labelled replies, JSONL or CSV.")
@click.option(
    "--check",
    "check_name",
    metavar="NAME",
    help="Which judge, where the suite has several: its name, its criteria, or the beginning of its digest.",
)
@click.option("--criteria", metavar="TEXT", help="Test an `llm_judge` with these criteria instead of a suite's.")
@click.option("--target", metavar="NAME", help="The target that judges, instead of the suite's.")
@click.option("--targets", "targets_file", type=click.Path(path_type=Path), help="A further file of targets.")
@click.option("--repeat", "-n", type=click.IntRange(1), default=1, help="Ask about every reply N times.")
@click.option("--workers", "-w", type=click.IntRange(1), help="Replies judged at the same time.  [default: 10]")
@click.option("--resume", "run", metavar="RUN", help="Go on with a test that was cut off; what is answered stays.")
@no_code_option
@trust_env_option
@click.option("--format", "form", type=click.Choice(["text", "json"]), default="text", show_default=True)
def test(  # noqa: PLR0913, PLR0917 - one parameter an option
    suite: Path | None,
    labels: Path,
    check_name: str | None,
    criteria: str | None,
    target: str | None,
    targets_file: Path | None,
    repeat: int,
    workers: int | None,
    run: str | None,
    no_code: bool,
    trust_env: bool,
    form: str,
) -> None:
    """Ask a judge about replies that people have labelled, and measure how far it agrees with them.

    A row of the labels has `reply` and `label` (pass or fail). Beside them may stand `id`, `prompt`, `reference`, the
    `criteria` where they differ from case to case, and the `other` reply for a `compare`. The judge is the one of
    SUITE (the suite of the working directory when none is given), or one with --criteria. Its figures are written as
    a passport, which runs then print beside its scores. Exit code 3 when the judge gave no verdict on some reply.
    """
    from rejoinder.calibration.labels import read_labels
    from rejoinder.calibration.measure import make_passport, read_findings
    from rejoinder.engine.options import RunOptions
    from rejoinder.engine.passports import find_passport, write_passport
    from rejoinder.report.judges import write_judge_report

    options = RunOptions().changed(
        workers=workers,
        repeat=repeat,
        targets_file=str(targets_file.resolve()) if targets_file else None,
        no_code=no_code,
        trust_env=trust_env,
    )
    try:
        file = read_labels(labels)
    except SuiteError as error:
        show_problems(error.problems, err=True)
        sys.exit(2)
    subject = _subject(suite, check_name, criteria, target, file, options)
    report = _ask(subject, file, options, run)
    if report.run.status != "completed":
        why = "the suite's `budget` is used up" if report.run.status == "budget" else "interrupted"
        echo(f"{why}; go on with the same command and --resume {report.folder.id}", err=True)
        sys.exit(report.summary.exit_code)
    findings = read_findings(report.results)
    passport = make_passport(subject, file, findings, report.run, repeat)
    before = find_passport(Path(subject.suite.root), passport.judge, passport.digest)
    path = write_passport(Path(subject.suite.root), passport) if passport.labels.scored else None
    if form == "json":
        _write_json(passport, findings, path, report)
    else:
        echo(*write_judge_report(passport, findings, report.summary))
        echo(f"  {'passport':13}{_shown(path) if path else 'none, because the judge gave no verdict at all'}")
        if path and before is not None:
            then = count(before.labels.scored, "label")
            echo(f"  {'':13}it replaces the one of {before.created_at[:10]}, which rested on {then}")
        echo(f"  {'run':13}{_shown(report.folder.path)}")
    if report.summary.errors or report.summary.skipped:
        again = f"the same command and --resume {report.folder.id}"
        echo(f"to ask again where the judge could not be asked: {again}", err=True)
        sys.exit(3)


def _write_json(passport: Passport, findings: list[Finding], path: Path | None, report: RunReport) -> None:
    import msgspec

    wrong = [finding for finding in findings if finding.is_wrong]
    write_json(
        {
            **msgspec.to_builtins(passport),
            "disagreements": [
                {"id": one.id, "label": one.label, "judge": one.verdicts[0], "reason": one.reasons[0]} for one in wrong
            ],
            "without_verdict": [{"id": one.id, "reason": one.troubles[0]} for one in findings if one.troubles],
            "passport": str(path) if path else None,
            "judge_usage": msgspec.to_builtins(report.summary.judge_usage),
            "judge_cost": report.summary.judge_cost,
            "run": report.folder.id,
        }
    )


def _subject(
    suite: Path | None,
    name: str | None,
    criteria: str | None,
    target: str | None,
    file: LabelFile,
    options: RunOptions,
) -> Subject:
    from rejoinder.calibration.subjects import find_judge, subject_of
    from rejoinder.cli.loading import load_or_exit

    if criteria is not None:
        if suite is not None or name is not None:
            raise UsageError("--criteria is a judge of its own; leave out the suite and --check")
        return _plain_subject(criteria, target, file, options)

    suites = load_or_exit((suite,) if suite else (), options, warn=False, labelled=True)
    return subject_of(find_judge(suites, name), target, file)


def _plain_subject(criteria: str, target: str | None, file: LabelFile, options: RunOptions) -> Subject:
    """A judge that no suite has, with the project's targets."""
    from rejoinder.calibration.subjects import plain_subject
    from rejoinder.model import Suite
    from rejoinder.spelling import did_you_mean
    from rejoinder.suite import open_project, read_prices, read_targets, resolve

    here = Path.cwd()
    project = open_project(here)
    file_of_targets = options.selection.targets_file
    more = Path(file_of_targets) if file_of_targets else None
    found = read_targets(project, more)
    if problems := [one for one in (*project.problems, *found.problems) if one.severity == "error"]:
        show_problems(problems, err=True)
        sys.exit(2)
    targets = found.names()
    name = target or project.config.get("judge_target")
    if name is None:
        raise UsageError("no judge is named", "Name a target or a model: --target openai/gpt-5-mini")
    judge = resolve(name, targets)
    if judge is None:
        raise UsageError(f"there is no target `{name}`{did_you_mean(name, targets)}")
    prices = read_prices(project.config)
    suite = Suite(path=str(here / "judge test"), root=str(project.root), cases=(), targets=targets, prices=prices)
    return plain_subject(criteria, suite, judge, file)


def _ask(subject: Subject, file: LabelFile, options: RunOptions, run: str | None) -> RunReport:
    from rejoinder.calibration.judge_test import is_test_of, labelled_suite
    from rejoinder.cli.live import LiveDisplay
    from rejoinder.engine.folder import find_run
    from rejoinder.engine.recorded import RecordedRun
    from rejoinder.engine.run import resume_run, start_run

    suite = labelled_suite(subject, file)
    display = LiveDisplay(sys.stderr, width_of(sys.stderr))
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


def _shown(path: Path) -> str:
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else str(path)
