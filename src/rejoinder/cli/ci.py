"""`rejoinder ci`"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TypeVar

import click
import msgspec

from rejoinder.cli.options import trust_option
from rejoinder.cli.output import echo, write_machine
from rejoinder.engine.recorded import open_recorded
from rejoinder.engine.run import show_run
from rejoinder.engine.run_report import RunReport, damage_of
from rejoinder.errors import UsageError, reason_of
from rejoinder.report import github

LARGEST = 1 << 26
"""Bytes of an answer of `gate` or `compare`."""
T = TypeVar("T")
_FILE = click.Path(path_type=Path)


@click.command("ci")
@click.argument("run", required=False)
@click.option("--comment", type=_FILE, help="Write the text of a comment on the pull request to this file.")
@click.option("--name", default="results", show_default=True, help="Tell this comment from others by a name.")
@click.option("--gate", "gate_file", type=_FILE, help="Add what `rejoinder gate --format json` said.")
@click.option("--compared", "compared_file", type=_FILE, help="Add what `rejoinder compare --format json` said.")
@trust_option
def command(
    run: str | None, comment: Path | None, name: str, gate_file: Path | None, compared_file: Path | None, trust: bool
) -> None:
    """Hand a recorded run (the latest when RUN is not given) to a build server.

    On GitHub it writes the job's summary, the outputs of the step and annotations at the lines of cases that did not
    pass. Elsewhere it writes what is asked for. Nothing is run or sent: the server sends the comment. Exit code 0,
    whatever the run came to, and 3 for one whose figures disagree with its results.
    """
    against = github.Against(_read(gate_file, github.Gate), _read(compared_file, github.Comparison))
    recorded = open_recorded(run, trust=trust)
    report = show_run(recorded)
    if (damage := damage_of(report)) is not None:
        raise damage
    try:
        if comment is not None:
            comment.write_text(github.sticky_text(report, name, against), encoding="utf-8", newline="\n")
        _write_for_github(report, against, recorded.root)
    except OSError as error:
        raise UsageError(f"{error.filename} cannot be written: {reason_of(error)}") from None
    if against.comparison is not None:
        echo(github.compared(against.comparison))


def _write_for_github(report: RunReport, against: github.Against, root: Path) -> None:
    """What the variables of GitHub ask for."""
    if path := os.environ.get("GITHUB_STEP_SUMMARY"):
        github.write_step_summary(report, Path(path), against)
    if path := os.environ.get("GITHUB_OUTPUT"):
        with Path(path).open("a", encoding="utf-8", newline="\n") as stream:
            stream.write(github.outputs(report))
    if os.environ.get("GITHUB_ACTIONS"):
        lines = github.write_annotations(report, folder=_folder_in_repository(root))
        write_machine(f"{line}\n" for line in lines)


def _folder_in_repository(root: Path) -> str:
    workspace = Path(os.environ.get("GITHUB_WORKSPACE") or root).resolve()
    return root.relative_to(workspace).as_posix() if root.is_relative_to(workspace) else ""


def _read(path: Path | None, kind: type[T]) -> T | None:
    """What another command has said. A file without anything says nothing: the command had failed."""
    if path is None:
        return None
    try:
        with path.open("rb") as stream:
            content = stream.read(LARGEST)
        return msgspec.json.decode(content, type=kind) if content.strip() else None
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {reason_of(error)}") from None
    except (msgspec.MsgspecError, RecursionError, UnicodeError) as error:
        raise UsageError(f"{path} is no answer of the command with --format json: {error}") from None
