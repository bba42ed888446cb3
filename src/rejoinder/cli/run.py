"""`rejoinder run`"""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click
from msgspec import Struct, structs

from rejoinder.cli.grouping import grouped
from rejoinder.cli.help import HelpLayout, LaidOutCommand, with_rest
from rejoinder.cli.live import live_display
from rejoinder.cli.loading import load_or_exit
from rejoinder.cli.options import (
    ANSWERS,
    FAIL_FAST,
    KEPT,
    LIMITS,
    PACE,
    SELECTION,
    TRUST,
    fail_under_option,
    run_options,
    trust_option,
)
from rejoinder.cli.output import echo, words
from rejoinder.cli.results import Output, output_options, write_and_decide
from rejoinder.cli.server_options import Remote, remote_options
from rejoinder.engine.plan import pairs, survey_plan
from rejoinder.engine.run import start_run
from rejoinder.errors import UsageError
from rejoinder.model import Suite
from rejoinder.project.files import recording_files
from rejoinder.project.folders import display_path
from rejoinder.runs.options import RunOptions
from rejoinder.runs.recorded import RecordedRun, open_recorded
from rejoinder.runs.report import RunReport

if TYPE_CHECKING:
    from rejoinder.gates.rules import Rule

PROMPTS_FOLDER = Path(".rejoinder/prompts")
"""Where `--dump-prompts` without a folder writes, below the project's root."""
REPORT_FILE = Path("RUN.html")
"""What `--report` without a file stands for: the file is named by the run."""


class ModelChoice(Struct, frozen=True, kw_only=True):
    """Which models a run is put to, by names and patterns."""

    models: tuple[str, ...]
    providers: tuple[str, ...]
    prices: tuple[str, ...]
    yes: bool

    def add_to(self, options: RunOptions, paths: tuple[Path, ...]) -> RunOptions:
        if not (self.models or self.providers or self.prices):
            return options
        from rejoinder.cli.choice import choose_targets

        filters = {"providers": self.providers, "prices": self.prices}
        more = choose_targets(self.models, paths, options, **filters, yes=self.yes)
        return options.changed(targets=(*options.selection.targets, *more))


class StartFrom(Struct, frozen=True, kw_only=True):
    """A run whose failures this one begins with."""

    failed: bool
    failed_from: str | None
    trust: bool

    def failed_run(self, paths: tuple[Path, ...]) -> RecordedRun | None:
        """The run whose failures are run again."""
        if self.failed and self.failed_from is not None:
            raise click.UsageError("--failed means the latest run, and --failed-from names one: give one of them")
        if self.failed:
            from rejoinder.engine.failed_again import latest_run

            return latest_run(paths, partial(echo, err=True), trust=self.trust)
        return open_recorded(self.failed_from, trust=self.trust) if self.failed_from else None


class Extras(Struct, frozen=True, kw_only=True):
    """What is done beside the run, or instead of it."""

    watching: bool
    dry_run: bool
    dump_prompts: Path | None
    fail_under: Rule | None
    partial: bool
    report: Path | None

    def settled(self, paths: tuple[Path, ...]) -> tuple[Extras, tuple[Path, ...]]:
        """The extras and the suites that are meant: a suite behind an option that can do without a file is a suite."""
        extras = self
        if self.dump_prompts is not None and self.dump_prompts.is_file():  # `--dump-prompts evals.yaml`
            extras, paths = structs.replace(extras, dump_prompts=PROMPTS_FOLDER), (self.dump_prompts, *paths)
        if self.report is not None and self.report.suffix.lower() not in (".html", ".htm"):  # `--report evals.yaml`
            extras, paths = structs.replace(extras, report=REPORT_FILE), (self.report, *paths)
        return extras, paths

    def write_report(self, report: RunReport) -> None:
        """The HTML file of a run, where one is wanted."""
        if self.report is not None:
            from rejoinder.cli.report import write_report

            write_report(report, None if self.report == REPORT_FILE else self.report)


HELP = HelpLayout(
    common={
        "models": "Targets or provider/model; several are compared",
        "cases": "Run only these cases; patterns such as 'refund*'",
        "tags": "Run only cases with one of these tags",
        "failed": "Run only what did not pass in the latest run",
        "repeat": "Run each case N times; auto: until the result is clear",
        "workers": "Run N conversations at the same time [10]",
        "budget_usd": "Spend at most X dollars",
        "dry_run": "Show calls and costs; send nothing",
        "watching": "Run again what a changed file touches",
        "verbose": "Show every conversation, turn by turn",
    },
    groups={
        "selection": with_rest(
            *("models", "variants", "cases", "tags", "failed", "failed_from", "limit", "shard", "repeat"),
            *("against", "confirm", "partial"),
            *("targets", "targets_file", "providers", "prices", "yes", "system_prompt", "dry_run", "watching"),
            rest=SELECTION,
        ),
        "pace": (*PACE, *FAIL_FAST),
        "limits": tuple(LIMITS),
        "answers": tuple(ANSWERS),
        "output": with_rest(
            *("out", "form", "fail_under", "verbose", "quiet", "plain", "colour", "corrected", "include_messages"),
            *("report", "dump_prompts", "keep_workspaces"),
            rest=KEPT,
        ),
        "trust": (*TRUST, "trust"),
        "server": ("server", "no_wait", "token"),
    },
    epilog="exit 0 passed, 1 failed, 2 wrong command or file, 3 errors, 4 budget reached, 5 cannot tell (--against),"
    " 130 interrupted",
)


@click.command("run", cls=LaidOutCommand, layout=HELP)
@grouped(
    "paths",
    lambda values: (*values["files"], *values["paths"]),
    paths=click.argument("paths", nargs=-1, type=click.Path(path_type=Path)),
    files=click.option("--file", "-f", "files", multiple=True, type=click.Path(path_type=Path), hidden=True),
)
@run_options
@grouped(
    "choice",
    lambda values: ModelChoice(**values),
    models=click.option(
        "--model",
        "-m",
        "models",
        multiple=True,
        metavar="NAME,...",
        help="Run on targets or provider/model: a list, a pattern such as 'openai/gpt-5*', or `all`.",
    ),
    providers=click.option(
        "--provider", "providers", multiple=True, metavar="NAME,...", help="Keep only these of a pattern's models."
    ),
    prices=click.option(
        "--price", "prices", multiple=True, metavar="QUARTILE,...", help="Keep only these price quartiles, 1 to 4."
    ),
    yes=click.option("--yes", "-y", is_flag=True, help="Run on more than 5 models without asking."),
)
@grouped(
    "start",
    lambda values: StartFrom(**values),
    failed=click.option(
        "--failed", is_flag=True, help="Run only what did not pass in the latest run, of PATHS if given."
    ),
    failed_from=click.option("--failed-from", metavar="RUN", help="Run only what did not pass in RUN."),
    trust=trust_option,
)
@grouped(
    "extras",
    lambda values: Extras(**values),
    watching=click.option(
        "--watch",
        "watching",
        is_flag=True,
        help="Run again what a change touches; LLM APIs are cached.",
    ),
    dry_run=click.option("--dry-run", is_flag=True, help="Show calls and costs without sending anything."),
    dump_prompts=click.option(
        "--dump-prompts",
        is_flag=False,
        flag_value=str(PROMPTS_FOLDER),
        type=click.Path(path_type=Path),
        metavar="[DIR]",
        help="Write each first prompt into a file of DIR.  [default: .rejoinder/prompts]",
    ),
    fail_under=fail_under_option,
    partial=click.option(
        "--partial", is_flag=True, help="Let the gate judge a run of selected cases (with --against)."
    ),
    report=click.option(
        "--report",
        is_flag=False,
        flag_value=str(REPORT_FILE),
        type=click.Path(path_type=Path),
        metavar="[FILE]",
        help="Write the run as one HTML file at its end.  [default: RUN.html]",
    ),
)
@remote_options
@click.option("--output-format", "file_form", type=click.Choice(["json", "jsonl", "yaml"]), hidden=True)
@output_options
def command(
    paths: tuple[Path, ...],
    options: RunOptions,
    choice: ModelChoice,
    start: StartFrom,
    extras: Extras,
    remote: Remote,
    file_form: str | None,
    output: Output,
) -> None:
    """Run suites: send prompts, check replies, follow up on failures.

    PATHS are files, folders or patterns such as 'evals/**/*.yaml'; without any the suite of the working directory is
    run. Exit code 0 when all passed, 1 when something failed its checks, 2 for a wrong command or file, 3 when there
    were errors, 4 when the budget was reached, 130 when interrupted. With --fail-under the pass rate decides between
    0 and 1. With --against the gate decides between 0, 1 and 5 (cannot tell) by the rules `no-regression` and
    `no-new-failures`; cases that fail and passed in the baseline are asked again first.
    """
    output = output.with_file_form(file_form)
    if remote.server is not None:
        from rejoinder.cli.remote import choices_of, run_remotely

        _refuse_beside_server(choice, start, extras, output)
        choices = choices_of(options, tuple(words(choice.models)))
        sys.exit(run_remotely(remote, paths, choices, output.form))
    extras, paths = extras.settled(paths)
    folder, page = extras.dump_prompts, extras.report
    before = start.failed_run(paths)
    if before is not None:
        from rejoinder.engine.failed_again import files_again

        paths = paths or files_again(before)
    options = choice.add_to(_with_cache(options, watching=extras.watching), paths)
    if before is not None:
        from rejoinder.engine.failed_again import only_failed

        options, said = only_failed(before, options)
        echo(said, err=True)
        if not options.selection.cases:
            if options.selection.is_compared:
                echo("the gate is not asked: it would decide about no case", err=True)
            return
    _refuse_beside_baseline(options, extras)
    written = output if page in (None, REPORT_FILE) else structs.replace(output, out=(*output.out, page))
    written.check()
    with recording_files() as read:
        suites = load_or_exit(paths, options, asks=not extras.dry_run)
    written.spare(read)
    if before is not None and options.selection.pairs:
        before.refuse_foreign_words(suites, only_targets=True)
    if extras.dry_run:
        from rejoinder.cli.estimate import show_estimate

        show_estimate(suites, options, output.form)
        return
    if folder is not None:
        from rejoinder.cli.dump import dump_prompts

        dump_prompts(suites, options, Path(suites[0].root) / folder if folder == PROMPTS_FOLDER else folder)
    if options.selection.shard is not None and next(pairs(suites, options.selection), None) is None:
        survey_plan(suites, options.changed(shard=None))  # a typo selects nothing, either
        echo("this shard has no cases; there is nothing to run", err=True)
        return

    def run_once(suites: list[Suite]) -> int:
        report = _run(suites, options)
        if report.folder.workspaces.is_dir():
            echo(f"workspaces are kept in {display_path(report.folder.workspaces, Path.cwd())}", err=True)
        code = write_and_decide(report, output, extras.fail_under)
        extras.write_report(report)
        return code

    if extras.watching:
        from rejoinder.cli.watch import watch

        watch(suites, options, run_once)
    sys.exit(run_once(suites))


def _refuse_beside_server(choice: ModelChoice, start: StartFrom, extras: Extras, output: Output) -> None:
    """Raises UsageError for what only a run on this machine can do."""
    given = {
        "--provider and --price": choice.providers or choice.prices,
        "--failed": start.failed or start.failed_from,
        "--watch": extras.watching,
        "--dry-run": extras.dry_run,
        "--dump-prompts": extras.dump_prompts,
        "--fail-under": extras.fail_under,
        "--report": extras.report,
        "--out": output.out,
        "this --format": output.form not in ("text", "json"),
    }
    for option, value in given.items():
        if value:
            raise click.UsageError(f"{option} cannot be used with --server; leave one of them out")


def _refuse_beside_baseline(options: RunOptions, extras: Extras) -> None:
    """Raises UsageError, before anything is sent, for what cannot be compared with a baseline."""
    chosen = options.selection
    if chosen.confirm is None:
        return
    if extras.watching:
        raise click.UsageError("--watch runs again and again, and --against compares one run; leave out one of them")
    if (chosen.is_partial or chosen.pairs) and chosen.shard is None and not extras.partial:
        raise UsageError(
            "--against compares a whole run with the baseline, and only some cases are selected",
            "Leave out --case, --tag, --limit and --failed. Or add --partial: the gate then judges only these cases.",
        )


def _run(suites: list[Suite], options: RunOptions) -> RunReport:
    if not options.selection.is_compared:
        return start_run(suites, options, live_display())
    from rejoinder.cli.against import AgainstDisplay
    from rejoinder.gates.against import start_compared

    return start_compared(suites, options, AgainstDisplay())


def _with_cache(options: RunOptions, *, watching: bool) -> RunOptions:
    """`--watch` implies the cache, unless cassettes are the only answers."""
    answers = options.answers
    return options.changed(cache=answers.cache or (watching and answers.replay is None))
