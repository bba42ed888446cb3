"""`rejoinder resume`"""

from __future__ import annotations

import sys
from pathlib import Path

import click

from rejoinder.cli.live import LiveDisplay
from rejoinder.cli.output import width_of
from rejoinder.cli.recorded import open_recorded
from rejoinder.cli.results import check_out, output_options, write_report
from rejoinder.cli.spans import DOLLARS
from rejoinder.cli.trust_options import no_code_option, trust_env_option, trust_option
from rejoinder.engine.run import resume_run


@click.command("resume")
@click.argument("run", required=False)
@click.option("--workers", "-w", type=click.IntRange(1), help="Conversations at the same time.")
@click.option("--retry-errors", is_flag=True, help="Ask again what ended in an error.")
@click.option("--timeout", type=click.FloatRange(min=0, min_open=True), metavar="SECONDS", help="For each request.")
@click.option("--max-retries", type=click.IntRange(0), help="How often a failed request is sent again.")
@click.option("--budget-usd", type=DOLLARS, help="Spend at most so many dollars in all.")
@click.option("--max-tokens", type=click.IntRange(1), help="The longest reply of targets that do not say it.")
@click.option("--budget-tokens", type=click.IntRange(1), help="Use at most so many tokens in all.")
@no_code_option
@trust_option
@trust_env_option
@output_options
def command(  # noqa: PLR0913, PLR0917 - one parameter an option
    run: str | None,
    workers: int | None,
    retry_errors: bool,
    timeout: float | None,
    max_retries: int | None,
    budget_usd: float | None,
    budget_tokens: int | None,
    max_tokens: int | None,
    no_code: bool,
    trust: bool,
    trust_env: bool,
    form: str,
    out: Path | None,
    verbose: bool,
    corrected: bool,
) -> None:
    """Go on with a run that was interrupted or killed (the latest when RUN is not given).

    What is recorded is not asked again. Suites are read from the project's files; where they were edited, what is
    unchanged is kept and what changed is asked again. Where a file is gone, the run's own copy is used, if your
    rejoinder wrote it.
    """
    recorded = open_recorded(run, trust=trust)
    options = recorded.options().changed(no_code=no_code, trust_env=trust_env)
    given = {"workers": workers, "timeout_s": timeout, "max_retries": max_retries}
    given |= {"budget_usd": budget_usd, "budget_tokens": budget_tokens, "max_tokens": max_tokens}
    options = options.changed(**{name: value for name, value in given.items() if value is not None})
    check_out(out, form)
    display = LiveDisplay(sys.stderr, width_of(sys.stderr))
    report = resume_run(recorded, options, display, retry_errors=retry_errors)
    write_report(report, form, out, verbose=verbose, corrected=corrected)
    sys.exit(report.summary.exit_code)
