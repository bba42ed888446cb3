"""`rejoinder run`"""

from __future__ import annotations

import sys
from pathlib import Path

import click
from msgspec import structs

from rejoinder.cli.loading import load_suites
from rejoinder.cli.output import width_of
from rejoinder.cli.results import check_out, output_options, write_report
from rejoinder.engine.plan import RunOptions
from rejoinder.engine.run import start_run
from rejoinder.report.live import LiveDisplay


@click.command("run")
@click.argument("paths", nargs=-1, type=click.Path(path_type=Path))
@click.option("--workers", "-w", type=click.IntRange(1), help="Conversations at the same time.  [default: 10]")
@click.option("--repeat", "-n", type=click.IntRange(1), default=1, help="Have every conversation so many times.")
@click.option("--case", "cases", multiple=True, metavar="ID", help="Only this case; may be given several times.")
@click.option(
    "--tag", "tags", multiple=True, metavar="TAG", help="Only cases with this tag; may be given several times."
)
@click.option("--limit", type=click.IntRange(1), help="Only the first so many cases.")
@click.option("--fail-fast", is_flag=True, help="Start nothing new once a conversation has failed.")
@click.option("--no-code", is_flag=True, help="Refuse suites that run code of the project.")
@click.option("--timeout", type=click.FloatRange(min=0, min_open=True), metavar="SECONDS", help="For each request.")
@click.option("--max-retries", type=click.IntRange(0), help="How often a failed request is sent again.  [default: 3]")
@click.option("--target", "targets", multiple=True, metavar="NAME", help="The target; several give a comparison.")
@click.option(
    "--model",
    "-m",
    "models",
    multiple=True,
    metavar="NAME,...",
    help="Targets or provider/model; a list, or a pattern such as 'openai/gpt-5*'; `all`.",
)
@click.option("--provider", "providers", multiple=True, metavar="NAME,...", help="Of a pattern's models only these.")
@click.option(
    "--price", "prices", multiple=True, metavar="QUARTILE,...", help="Of a pattern's models only these: 1 to 4."
)
@click.option("--yes", "-y", is_flag=True, help="Ask more than 5 models without a question.")
@click.option("--targets", "targets_file", type=click.Path(path_type=Path), help="A further file of targets.")
@click.option("--system-prompt", metavar="TEXT", help="The system prompt, instead of the suites'.")
@click.option("--include", multiple=True, type=click.Choice(["messages"]), help="Add to each turn what was sent.")
@click.option(
    "--dump-prompts",
    is_flag=False,
    flag_value="prompts",
    type=click.Path(path_type=Path),
    metavar="[DIR]",
    help="Write what is sent first into files of DIR.",
)
@output_options
def command(  # noqa: PLR0913, PLR0917 - one parameter an option
    paths: tuple[Path, ...],
    workers: int | None,
    repeat: int,
    cases: tuple[str, ...],
    tags: tuple[str, ...],
    limit: int | None,
    fail_fast: bool,
    no_code: bool,
    timeout: float | None,
    max_retries: int | None,
    targets: tuple[str, ...],
    models: tuple[str, ...],
    providers: tuple[str, ...],
    prices: tuple[str, ...],
    yes: bool,
    targets_file: Path | None,
    system_prompt: str | None,
    include: tuple[str, ...],
    dump_prompts: Path | None,
    form: str,
    out: Path | None,
    verbose: bool,
    corrected: bool,
) -> None:
    """Have the conversations of suites and check the replies.

    PATHS are files or folders; without any the suite of the working directory is run. Exit code 0 when all passed, 1
    when something failed its checks, 2 for a wrong command or file, 3 when there were errors, 130 when interrupted.
    """
    options = RunOptions(
        workers=workers,
        repeat=repeat,
        cases=cases,
        tags=tags,
        limit=limit,
        fail_fast=fail_fast,
        no_code=no_code,
        timeout_s=timeout,
        max_retries=max_retries,
        targets=targets,
        targets_file=str(targets_file.resolve()) if targets_file else None,
        system_prompt=system_prompt,
        include_messages="messages" in include,
    )
    if dump_prompts is not None and dump_prompts.is_file():  # `--dump-prompts evals.yaml` means the suite
        paths, dump_prompts = (dump_prompts, *paths), Path("prompts")
    if models or providers or prices:
        from rejoinder.cli.choice import choose_targets  # noqa: PLC0415 - patterns need the table of prices

        more = choose_targets(models, paths, options, providers=providers, prices=prices, yes=yes)
        options = structs.replace(options, targets=(*targets, *more))
    suites = load_suites(paths, options)
    check_out(out)
    if dump_prompts is not None:
        from rejoinder.cli.dump import dump_prompts as dump  # noqa: PLC0415 - seldom asked for

        dump(suites, options, dump_prompts)
    display = LiveDisplay(sys.stderr, width_of(sys.stderr))
    report = start_run(suites, options, display)
    write_report(report, form, out, verbose=verbose, corrected=corrected)
    sys.exit(report.summary["exit_code"])
