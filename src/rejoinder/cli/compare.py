"""`rejoinder compare`"""

from __future__ import annotations

import sys
from pathlib import Path

import click

from rejoinder.cli.grouping import format_option
from rejoinder.cli.options import trust_option
from rejoinder.cli.output import echo_lines, form_for, look, look_options, write_machine
from rejoinder.engine.run import sound_run
from rejoinder.errors import UsageError
from rejoinder.exports.comparison_json import write_comparisons_json
from rejoinder.gates.verbs import blessed_run
from rejoinder.model.comparisons import RunComparison
from rejoinder.project.folders import find_root
from rejoinder.report.comparison import write_comparison, write_verdict
from rejoinder.report.styled import EMPTY
from rejoinder.runs.comparing import TARGETS, VARIANTS, Wanted, compare_all, compare_parts, runs_to_compare
from rejoinder.runs.recorded import open_recorded

MOST_SHOWN = 1000
"""Flips of each kind whose replies `--all` shows."""


@click.command("compare")
@click.argument("runs", nargs=-1, metavar="[A [B]...]")
@click.option("--targets", "by_target", is_flag=True, help="Compare the targets of one run with its first.")
@click.option("--variants", "by_variant", is_flag=True, help="Compare the variants of one run with its first.")
@click.option(
    "--margin",
    type=click.FloatRange(0, 100, min_open=True),
    default=10,
    show_default=True,
    help="Treat runs that differ by up to this many points as equal.",
)
@click.option("--all", "every", is_flag=True, help="Show both replies of every case that flipped.")
@click.option("--verbose", "-v", is_flag=True, help="Show the exact p-value beside mid-p, and the methods.")
@click.option("--strict", is_flag=True, help="Exit with 5 if the verdict is `cannot tell`.")
@trust_option
@format_option
@look_options
def command(
    runs: tuple[str, ...],
    by_target: bool,
    by_variant: bool,
    margin: float,
    form: str,
    **flags: bool,
) -> None:
    """Compare runs case by case: is B better or worse than A?

    A and B are ids, the beginning or end of one, folders of runs, or names of baselines. Without them, the last two
    runs of the same suites are compared; with only A, A and the latest. More runs are each compared with A. Nothing is
    run, sent or written.

    Exit code 0: not worse. 1: worse. 3: a run is damaged. 5: cannot tell, with --strict.
    """
    every, strict, trust = flags["every"], flags["strict"], flags["trust"]
    wanted = Wanted(margin / 100, MOST_SHOWN) if every else Wanted(margin / 100)
    if by_target and by_variant:
        raise UsageError("--targets and --variants exclude each other", "Compare them one after the other.")
    if by_target or by_variant:
        what = "targets" if by_target else "variants"
        if len(runs) > 1:
            raise UsageError(f"--{what} compares the {what} of one run", f"Name one run, or leave --{what} out.")
        report = sound_run(open_recorded(runs[0] if runs else None, trust=trust))
        found = compare_parts(report, TARGETS if by_target else VARIANTS, wanted)
    else:
        root = find_root(Path.cwd(), Path.cwd())
        recorded = runs_to_compare([blessed_run(root, name) for name in runs], trust=trust)
        found = compare_all(map(sound_run, recorded), wanted)
    if form == "json":
        write_machine(write_comparisons_json(found))
    else:
        _show(found, every, flags["verbose"])
    sys.exit(exit_code(found, strict=strict))


def _show(found: list[RunComparison], every: bool, exact: bool) -> None:
    form, quiet = form_for(sys.stdout), look().quiet
    for place, one in enumerate(found):
        rows = write_verdict(one, form) if quiet else write_comparison(one, form, every=every, exact=exact)
        echo_lines([*([EMPTY] if place and not quiet else []), *rows])


def exit_code(found: list[RunComparison], *, strict: bool) -> int:
    if any(one.is_worse for one in found):
        return 1
    return 5 if strict and any(one.verdict == "cannot-tell" for one in found) else 0
