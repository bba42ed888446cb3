"""`rejoinder fork`"""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from rejoinder.cli.grouping import Values, grouped
from rejoinder.cli.live import live_display
from rejoinder.cli.options import (
    ANSWERS,
    KEPT,
    LIMITS,
    PACE,
    SELECTION,
    TRUST,
    fail_under_option,
    target_names_option,
    trust_option,
)
from rejoinder.cli.output import echo
from rejoinder.cli.results import Output, exit_with, output_options
from rejoinder.engine.run import fork_run
from rejoinder.model.forks import Fork
from rejoinder.runs.options import RunOptions
from rejoinder.runs.recorded import open_recorded

if TYPE_CHECKING:
    from rejoinder.gates.rules import Rule


def _options(values: Values) -> RunOptions:
    case = values.pop("case")
    fork = Fork(**{name: values.pop(name) for name in ("turn", "prompt", "system", "suite", "of", "trial")})
    return RunOptions(repeat=values.pop("repeat")).changed(**values, cases=(case,), fork=fork)


@click.command("fork")
@click.argument("run", required=False)
@grouped(
    "options",
    _options,
    case=click.option("--case", metavar="ID", required=True, help="Fork the conversation of this case."),
    suite=click.option("--suite", default="", metavar="NAME", help="Take the case of this suite of the run, or file."),
    of=click.option("--of", default="", metavar="NAME", help="Fork the conversation with this target."),
    trial=click.option(
        "--trial", type=click.IntRange(1), default=1, metavar="N", help="Fork this trial.  [default: 1]"
    ),
    turn=click.option(
        "--turn",
        type=click.IntRange(1),
        default=1,
        metavar="N",
        help="Ask again from turn N.  [default: 1]",
    ),
    prompt=click.option("--prompt", metavar="TEXT", help="Say this at that turn."),
    system=click.option("--system", metavar="TEXT", help="Use this system prompt for the turns that are asked."),
    targets=target_names_option("Continue with these targets instead; several are compared."),
    repeat=click.option(
        "--repeat", "-n", type=click.IntRange(1), default=1, metavar="N", help="Continue N times from the same point."
    ),
    variants=click.option(
        "--variant", "variants", multiple=True, metavar="NAME", help="Fork this variant of the case."
    ),
    targets_file=SELECTION["targets_file"],
    include_messages=KEPT["include_messages"],
    cache=ANSWERS["cache"],
    cache_lifetime_s=ANSWERS["cache_lifetime_s"],
    record=ANSWERS["record"],
    **PACE,
    **LIMITS,
    **TRUST,
)
@fail_under_option
@trust_option
@output_options
def command(run: str | None, options: RunOptions, fail_under: Rule | None, trust: bool, output: Output) -> None:
    """Fork a recorded conversation at a turn and continue it differently.

    The conversation is of RUN, or of the latest run. Earlier turns are copied and not asked again. If the target keeps
    the conversation itself (a service with sessions, an agent), rejoinder sends them again in a new session, which
    costs again. RUN is any name of a run that `show` accepts. Exit codes as for `run`.
    """
    recorded = open_recorded(run, trust=trust)
    output.check(recorded)
    report, taken = fork_run(recorded, options, live_display())
    if taken is not None:
        echo(f"the earlier turns come from target `{taken}`, which run {recorded.folder.id} asked", err=True)
    fork = options.answers.fork
    for result in report.results:
        if fork is not None and len(result.turns) < fork.turn and result.status in ("passed", "failed"):
            words = f"the conversation ended in turn {len(result.turns)}, before the fork at turn {fork.turn}"
            echo(f"warning: {result.id} on {result.target}: {words}", err=True)
    exit_with(report, output, fail_under)
