"""`rejoinder export`"""

from __future__ import annotations

import os
from pathlib import Path

import click

from rejoinder.cli.options import trust_option
from rejoinder.cli.output import echo, write_machine
from rejoinder.cli.results import write_file
from rejoinder.engine.run import sound_run
from rejoinder.exports.formats import FORMATS, name_format
from rejoinder.runs.recorded import open_recorded
from rejoinder.runs.report import RunReport
from rejoinder.words.numbers import count


@click.command("export")
@click.argument("run", required=False)
@click.option("--to", "form", type=click.Choice([*FORMATS]), help="Choose the format.  [default: by the file's suffix]")
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

    Nothing is run again. Exit code 0 if the file was written, even if the run failed; 3 if the run is damaged, or
    if a collector did not accept the spans.
    """
    if endpoint is not None and (form not in (None, "otlp") or out):
        raise click.UsageError("--endpoint sends spans: it goes with --to otlp and without --out")
    if content and endpoint is None:
        raise click.UsageError("--content belongs to --endpoint; files always hold what was said")
    if endpoint is None and form is None and not out:
        raise click.UsageError(f"name the format with --to: {', '.join(FORMATS)}")
    files = {path: form or name_format(path, option="--to") for path in out}
    report = sound_run(open_recorded(run, trust=trust))
    if endpoint is not None:
        _send(report, endpoint, content=content)
    elif files:
        for path, name in files.items():
            write_file(report, path, name)
    else:
        write_machine(FORMATS[str(form)].write(report))


def _send(report: RunReport, url: str, *, content: bool) -> None:
    from rejoinder.exports.otlp_http import ExportError, find_endpoint, send

    sent = send(report, find_endpoint(os.environ, url), content=content)
    echo(f"sent {count(sent.spans, 'span')} to {url}")
    if sent.rejected:
        raise ExportError(f"the collector rejected {count(sent.rejected, 'span')}: {sent.message}".rstrip(": "))
