"""`rejoinder export`"""

from __future__ import annotations

import os
from pathlib import Path

import click

from rejoinder.cli.loading import load_or_exit
from rejoinder.cli.options import trust_option
from rejoinder.cli.output import echo, write_machine
from rejoinder.cli.results import write_file
from rejoinder.engine.run import sound_run
from rejoinder.errors import UsageError, reason_of
from rejoinder.exports.formats import FORMATS, name_format
from rejoinder.run_files import write_whole
from rejoinder.runs.options import RunOptions
from rejoinder.runs.own_files import refuse_own_file
from rejoinder.runs.recorded import open_recorded
from rejoinder.runs.report import RunReport
from rejoinder.words.numbers import count

SKILLS = "skills"
"""Not a format of results: the cases themselves, as evals of Agent Skills."""


@click.command("export")
@click.argument("run", required=False, metavar="[RUN|SUITE]")
@click.option(
    "--to", "form", type=click.Choice([*FORMATS, SKILLS]), help="Choose the format.  [default: by the file's suffix]"
)
@click.option(
    "--out",
    multiple=True,
    type=click.Path(path_type=Path),
    help="Write to this file instead of standard output; repeatable.",
)
@click.option("--endpoint", metavar="URL", help="Send spans to this collector (with --to otlp).")
@click.option("--content", is_flag=True, help="Send what was said, too (with --endpoint).")
@trust_option
def command(
    run: str | None, form: str | None, out: tuple[Path, ...], endpoint: str | None, content: bool, trust: bool
) -> None:
    """Write a recorded run (the latest when RUN is not given) in the format of another tool.

    With --to skills, write the cases of a suite, or of a run's suite, as the `evals.json` of an Agent Skill; all other
    formats contain results.

    Nothing is run again. Exit code 0 if the file was written, even if the run failed; 3 if the run is damaged, or
    if a collector did not accept the spans.
    """
    if endpoint is not None and (form not in (None, "otlp") or out):
        raise click.UsageError("--endpoint sends spans: it goes with --to otlp and without --out")
    if content and endpoint is None:
        raise click.UsageError("--content belongs to --endpoint; files always hold what was said")
    if endpoint is None and form is None and not out:
        raise click.UsageError(f"name the format with --to: {', '.join([*FORMATS, SKILLS])}")
    if form == SKILLS:
        _write_evals(run, out, trust=trust)
        return
    files = {path: form or name_format(path, option="--to") for path in out}
    report = sound_run(open_recorded(run, trust=trust))
    if endpoint is not None:
        _send(report, endpoint, content=content)
    elif files:
        for path, name in files.items():
            write_file(report, path, name)
    else:
        write_machine(FORMATS[str(form)].write(report))


def _write_evals(run: str | None, out: tuple[Path, ...], *, trust: bool) -> None:
    """Write the cases as evals of Agent Skills, and say what an eval cannot have."""
    from rejoinder.exports.agent_skills import skill_evals
    from rejoinder.words.inert import to_json

    if run is not None and run.lower().endswith((".yaml", ".yml")):
        suites = load_or_exit((Path(run),), RunOptions(), warn=False, asks=False)
    else:
        suites = open_recorded(run, trust=trust).suites(asks=False)
    if len(suites) > 1:
        names = ", ".join(sorted(Path(suite.path).name for suite in suites))
        raise UsageError(f"the run has {len(suites)} suites, and a skill has one file of evals: {names}", "Name one.")
    evals = skill_evals(suites[0])
    text = to_json(evals.document, indent=2) + "\n"
    for path in out:
        refuse_own_file(path, (Path(suites[0].path),))
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with write_whole(path) as stream:
                stream.write(text.encode())
        except OSError as error:
            raise UsageError(f"{path} cannot be written: {reason_of(error)}") from None
    if not out:
        write_machine([text])
    for loss in evals.losses:
        echo(f"not exported: {loss}", err=True)


def _send(report: RunReport, url: str, *, content: bool) -> None:
    from rejoinder.exports.otlp_http import ExportError, find_endpoint, send

    sent = send(report, find_endpoint(os.environ, url), content=content)
    echo(f"sent {count(sent.spans, 'span')} to {url}")
    if sent.rejected:
        raise ExportError(f"the collector rejected {count(sent.rejected, 'span')}: {sent.message}".rstrip(": "))
