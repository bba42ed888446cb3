"""`rejoinder ci`"""

from __future__ import annotations

import os
from pathlib import Path

import click

from rejoinder.cli.options import trust_option
from rejoinder.cli.output import echo, write_machine
from rejoinder.engine.run import sound_run
from rejoinder.errors import UsageError, reason_of
from rejoinder.report import github
from rejoinder.run_files import write_whole
from rejoinder.runs.recorded import open_recorded
from rejoinder.runs.report import RunReport
from rejoinder.views.flips import SinceBaseline, changes_words

_FILE = click.Path(path_type=Path)


@click.command("ci")
@click.argument("run", required=False)
@click.option("--comment", type=_FILE, help="Write the text of a comment on the pull request to this file.")
@click.option("--name", default="results", show_default=True, help="Tell this comment from others by a name.")
@click.option("--against", metavar="NAME|RUN", help="Add how it stands against this baseline or run.")
@trust_option
def command(run: str | None, comment: Path | None, name: str, against: str | None, trust: bool) -> None:
    """Publish a run's results (the latest run if RUN is not given) to a CI server.

    On GitHub it writes the job's summary, the outputs of the step and annotations at the lines of cases that did not
    pass. Elsewhere it writes only the files that you name. Nothing is run or sent: the server sends the comment. Exit
    code 0, even if the run failed, and 3 if the run is damaged.
    """
    recorded = open_recorded(run, trust=trust)
    report = sound_run(recorded)
    found = None if against is None else _since(report, against, recorded.root)
    try:
        if comment is not None:
            with write_whole(comment) as stream:
                stream.write(github.sticky_text(report, name, found).encode())
        is_told = _write_for_github(report, found, recorded.root)
    except OSError as error:
        raise UsageError(f"{error.filename} cannot be written: {reason_of(error)}") from None
    if comment is None and found is None and not is_told:
        echo("no build server is known here, so nothing is written; --comment FILE writes a comment", err=True)
    if found is not None:
        _tell(found)


def _since(report: RunReport, name: str, root: Path) -> SinceBaseline:
    from rejoinder.views.since import since_named

    return since_named(root, report, name)


def _tell(since: SinceBaseline) -> None:
    echo(f"{changes_words(since.changes)} against {since.name}", github.gate_words(since.gate))


def _write_for_github(report: RunReport, since: SinceBaseline | None, root: Path) -> bool:
    """What the variables of GitHub ask for. Do they ask for anything?"""
    if path := os.environ.get("GITHUB_STEP_SUMMARY"):
        github.write_step_summary(report, Path(path), since)
    if path := os.environ.get("GITHUB_OUTPUT"):
        with Path(path).open("a", encoding="utf-8", newline="\n") as stream:
            stream.write(github.outputs(report))
    if os.environ.get("GITHUB_ACTIONS"):
        annotations = github.write_annotations(report, folder=_folder_in_repository(root))
        write_machine(f"{line}\n" for line in (*github.write_warnings(report), *annotations))
    return any(os.environ.get(name) for name in ("GITHUB_STEP_SUMMARY", "GITHUB_OUTPUT", "GITHUB_ACTIONS"))


def _folder_in_repository(root: Path) -> str:
    workspace = Path(os.environ.get("GITHUB_WORKSPACE") or root).resolve()
    return root.relative_to(workspace).as_posix() if root.is_relative_to(workspace) else ""
