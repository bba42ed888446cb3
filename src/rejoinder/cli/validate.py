"""`rejoinder validate`"""

from __future__ import annotations

import sys
from pathlib import Path

import click

from rejoinder._version import __version__
from rejoinder.cli.grouping import targets_option
from rejoinder.cli.output import echo, show_problems, tell_passed_over, write_data
from rejoinder.validation.findings import Report, validate
from rejoinder.words.numbers import count

MOST_SHOWN = 50
"""Problems of one file in text; JSON and SARIF have them all."""


@click.command("validate")
@click.argument("paths", nargs=-1, type=click.Path(path_type=Path))
@click.option(
    "--format",
    "form",
    type=click.Choice(["text", "json", "sarif"]),
    default="text",
    show_default=True,
    help="Write problems in this format.",
)
@targets_option
@click.option("--strict", is_flag=True, help="Count warnings as errors.")
def command(paths: tuple[Path, ...], form: str, targets_file: Path | None, strict: bool) -> None:
    """Check suites, targets and configuration without sending anything.

    PATHS are files, folders or patterns such as 'evals/**/*.yaml'; in folders every suite is checked. Without PATHS
    the suite of the working directory is checked. No key is needed: keys, secrets and environment variables that are
    missing are warnings. Exit code 2 when there are errors, 0 when there are none.
    """
    report = validate(*paths, targets_file=targets_file, strict=strict)
    if form == "json":
        write_data(as_records(report))
    elif form == "sarif":
        from rejoinder.report.problems import write_sarif

        problems = [problem for file in report.files for problem in (*file.errors, *file.warnings)]
        write_data(write_sarif(problems, __version__))
    else:
        _show(report)
    sys.exit(2 if report.errors or (strict and report.warnings) else 0)


def as_records(report: Report) -> dict[str, object]:
    return {
        "files": [
            {
                "path": file.path,
                "errors": [problem.as_record() for problem in file.errors],
                "warnings": [problem.as_record() for problem in file.warnings],
            }
            for file in report.files
        ]
    }


def _show(report: Report) -> None:
    for file in report.files:
        problems = sorted([*file.errors, *file.warnings], key=lambda problem: (problem.line, problem.column))
        show_problems(problems[:MOST_SHOWN])
        if len(problems) > MOST_SHOWN:
            echo(f"... and {len(problems) - MOST_SHOWN} more", "")
    tell_passed_over(report.passed_over)
    files, errors = count(len(report.files), "file"), count(report.errors, "error")
    echo(f"{files}: {errors}, {count(report.warnings, 'warning')}")
