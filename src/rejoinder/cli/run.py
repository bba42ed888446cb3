"""`rejoinder run`"""

from __future__ import annotations

import sys
from pathlib import Path

import click

from rejoinder.cli.live import LiveDisplay
from rejoinder.cli.loading import load_or_exit
from rejoinder.cli.output import AliasedOption, echo, width_of, words
from rejoinder.cli.results import check_out, output_options, write_report
from rejoinder.cli.spans import DOLLARS, LIFETIME, SHARD
from rejoinder.cli.trust_options import no_code_option, trust_env_option, trust_option
from rejoinder.engine.options import RunOptions
from rejoinder.engine.plan import pairs, survey_plan
from rejoinder.engine.run import start_run
from rejoinder.model import Suite

PROMPTS_FOLDER = ".rejoinder/prompts"
"""Where `--dump-prompts` without a folder writes, below the project's root."""


@click.command("run")
@click.argument("paths", nargs=-1, type=click.Path(path_type=Path))
@click.option(
    "--workers",
    "-w",
    cls=AliasedOption,
    aliases=("--threads", "-t"),
    type=click.IntRange(1),
    help="Conversations at the same time.  [default: 10]",
)
@click.option("--repeat", "-n", type=click.IntRange(1), default=1, help="Have every conversation so many times.")
@click.option(
    "--case",
    "cases",
    cls=AliasedOption,
    aliases=("--eval-id",),
    multiple=True,
    metavar="ID",
    help="Only this case; may be given several times.",
)
@click.option(
    "--tag", "tags", multiple=True, metavar="TAG", help="Only cases with this tag; may be given several times."
)
@click.option("--limit", type=click.IntRange(1), help="Only the first so many cases.")
@click.option("--fail-fast", is_flag=True, help="Start nothing new once a conversation has failed.")
@no_code_option
@trust_env_option
@click.option(
    "--timeout",
    cls=AliasedOption,
    aliases=("--agent-timeout",),
    type=click.FloatRange(min=0, min_open=True),
    metavar="SECONDS",
    help="For each request.",
)
@click.option("--max-retries", type=click.IntRange(0), help="How often a failed request is sent again.  [default: 3]")
@click.option("--target", "targets", multiple=True, metavar="NAME,...", help="The target; several give a comparison.")
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
@click.option(
    "--system-prompt",
    cls=AliasedOption,
    aliases=("-s",),
    metavar="TEXT",
    help="The system prompt, instead of the suites'.",
)
@click.option("--record", type=click.Path(path_type=Path), metavar="DIR", help="Write a cassette of each conversation.")
@click.option(
    "--replay", type=click.Path(path_type=Path), metavar="DIR", help="Answer from cassettes, and ask nobody else."
)
@click.option("--shard", type=SHARD, metavar="N/M", help="Only the N-th of M parts of the cases, by a stable hash.")
@click.option("--failed-from", metavar="RUN", help="Only the cases that did not pass in RUN.")
@click.option("--watch", "watching", is_flag=True, help="Run again what a changed file touches; answers are cached.")
@click.option("--dry-run", is_flag=True, help="Show what would be asked, and what it may cost; send nothing.")
@click.option(
    "--fork", metavar="RUN", help="Take up a conversation of RUN at --turn, with the turns before it as they were."
)
@click.option("--turn", type=click.IntRange(1), help="The turn that --fork asks anew; the turns before are not asked.")
@click.option("--prompt", metavar="TEXT", help="With --fork: what is said at that turn.")
@click.option("--system", metavar="TEXT", help="With --fork: the system prompt from that turn on.")
@trust_option
@click.option("--cache", is_flag=True, help="Answer equal requests from earlier runs with --cache.")
@click.option("--cache-ttl", type=LIFETIME, metavar="TIME", help="Use nothing older than this, such as 12h or 7d.")
@click.option("--budget-usd", type=DOLLARS, help="Spend at most so many dollars.")
@click.option("--budget-tokens", type=click.IntRange(1), help="Use at most so many tokens.")
@click.option("--max-tokens", type=click.IntRange(1), help="The longest reply of targets that do not say it.")
@click.option("--include", multiple=True, type=click.Choice(["messages"]), help="Add to each turn what was sent.")
@click.option(
    "--dump-prompts",
    is_flag=False,
    flag_value=PROMPTS_FOLDER,
    type=click.Path(path_type=Path),
    metavar="[DIR]",
    help="Write what is sent first into files of DIR; without DIR into .rejoinder/prompts of the project.",
)
@click.option("--file", "-f", "files", multiple=True, type=click.Path(path_type=Path), hidden=True)
@click.option("--output-format", type=click.Choice(["json", "jsonl", "yaml"]), hidden=True)
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
    trust_env: bool,
    timeout: float | None,
    max_retries: int | None,
    targets: tuple[str, ...],
    models: tuple[str, ...],
    providers: tuple[str, ...],
    prices: tuple[str, ...],
    yes: bool,
    targets_file: Path | None,
    system_prompt: str | None,
    record: Path | None,
    replay: Path | None,
    shard: tuple[int, int] | None,
    failed_from: str | None,
    watching: bool,
    dry_run: bool,
    fork: str | None,
    turn: int | None,
    prompt: str | None,
    system: str | None,
    trust: bool,
    cache: bool,
    cache_ttl: float | None,
    budget_usd: float | None,
    budget_tokens: int | None,
    max_tokens: int | None,
    include: tuple[str, ...],
    dump_prompts: Path | None,
    files: tuple[Path, ...],
    output_format: str | None,
    form: str,
    out: Path | None,
    verbose: bool,
    corrected: bool,
) -> None:
    """Have the conversations of suites and check the replies.

    PATHS are files, folders or patterns such as 'evals/**/*.yaml'; without any the suite of the working directory is
    run. Exit code 0 when all passed, 1
    when something failed its checks, 2 for a wrong command or file, 3 when there were errors, 4 when the budget was
    reached, 130 when interrupted.
    """
    paths, targets = (*files, *paths), tuple(words(targets))
    if output_format is not None and out is None:
        form = output_format
    options = RunOptions().changed(
        workers=workers,
        repeat=repeat,
        cases=cases,
        tags=tags,
        limit=limit,
        fail_fast=fail_fast,
        no_code=no_code,
        trust_env=trust_env,
        timeout_s=timeout,
        max_retries=max_retries,
        targets=targets,
        targets_file=str(targets_file.resolve()) if targets_file else None,
        system_prompt=system_prompt,
        cache=(cache or cache_ttl is not None or watching) and replay is None,
        cache_lifetime_s=cache_ttl,
        record=str(record.resolve()) if record else None,
        replay=_cassettes(replay),
        shard=shard,
        budget_usd=budget_usd,
        budget_tokens=budget_tokens,
        max_tokens=max_tokens,
        include_messages="messages" in include,
    )
    if replay is not None and (cache or cache_ttl is not None or record is not None):
        raise click.UsageError("--replay answers from cassettes alone; leave out --cache and --record")
    if dump_prompts is not None and dump_prompts.is_file():  # `--dump-prompts evals.yaml` means the suite
        paths, dump_prompts = (dump_prompts, *paths), Path(PROMPTS_FOLDER)
    if models or providers or prices:
        from rejoinder.cli.choice import choose_targets

        more = choose_targets(models, paths, options, providers=providers, prices=prices, yes=yes)
        options = options.changed(targets=(*targets, *more))
    if failed_from is not None:
        from rejoinder.cli.fork import failed_cases

        again = failed_cases(failed_from, trust=trust)
        if not again:
            echo(f"every case of run {failed_from} passed; there is nothing to run", err=True)
            return
        chosen = tuple(one for one in again if not cases or one in cases)
        if not chosen:
            echo(f"the chosen cases passed in run {failed_from}; there is nothing to run", err=True)
            return
        options = options.changed(cases=chosen)
    if fork is None and (turn is not None or prompt is not None or system is not None):
        raise click.UsageError("--turn, --prompt and --system belong to --fork RUN")
    if fork is not None and (dry_run or replay is not None or shard is not None or paths):
        raise click.UsageError("--fork asks, with the suites of RUN; leave out PATHS, --dry-run, --replay and --shard")
    check_out(out, output_format or form)
    if fork is not None:
        from rejoinder.cli.fork import fork_run

        report = fork_run(fork, options, turn or 1, prompt, system, trust=trust)
        write_report(report, form, out, out_form=output_format, verbose=verbose, corrected=corrected)
        sys.exit(report.summary.exit_code)
    suites = load_or_exit(paths, options, asks=not dry_run)
    if dry_run:
        from rejoinder.cli.estimate import show_estimate

        show_estimate(suites, options, form)
        return
    if dump_prompts is not None:
        from rejoinder.cli.dump import dump_prompts as dump

        is_own = dump_prompts == Path(PROMPTS_FOLDER)
        dump(suites, options, Path(suites[0].root) / dump_prompts if is_own else dump_prompts)
    if shard is not None and next(pairs(suites, options.selection), None) is None:
        survey_plan(suites, options.changed(shard=None))  # a typo selects nothing, either
        echo("no case falls into this part, so there is nothing to run", err=True)
        return

    def run_once(chosen: list[Suite]) -> int:
        report = start_run(chosen, options, LiveDisplay(sys.stderr, width_of(sys.stderr)))
        write_report(report, form, out, out_form=output_format, verbose=verbose, corrected=corrected)
        return report.summary.exit_code

    if watching:
        from rejoinder.cli.watch import watch

        watch(suites, options, run_once)
    sys.exit(run_once(suites))


def _cassettes(folder: Path | None) -> str | None:
    if folder is None:
        return None
    if not folder.is_dir():
        raise click.UsageError(f"there is no folder {folder} with cassettes; `run --record {folder}` writes one")
    return str(folder.resolve())
