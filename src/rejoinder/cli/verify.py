"""`rejoinder verify`"""

from __future__ import annotations

import sys

import click
import msgspec

from rejoinder.cli.grouping import format_option
from rejoinder.cli.options import trust_option
from rejoinder.cli.output import echo, write_data
from rejoinder.engine.derive import play_journal
from rejoinder.runs.recorded import open_recorded
from rejoinder.runs.verify import Difference, Verification, verify_run
from rejoinder.words.numbers import count


@click.command("verify")
@click.argument("run", required=False)
@trust_option
@format_option
def command(run: str | None, trust: bool, form: str) -> None:
    """Check that nothing in a recorded run (the latest when RUN is not given) was changed or lost.

    Compares files with their checksums, results with the journal, the summary with the results, and the number of
    conversations with the plan. Nothing is called or written. Exit code 0 if the run is intact, even if it was killed;
    3 if it is damaged, with each difference and its place.
    """
    verified = verify_run(open_recorded(run, trust=trust), play_journal)
    if form == "json":
        write_data(msgspec.to_builtins(verified))
    else:
        echo(*map(_line, verified.differences))
        if verified.more:
            echo(f"and {count(verified.more, 'more difference')}")
        echo(*(f"note: {note}" for note in verified.notes), _verdict(verified))
    sys.exit(verified.exit_code)


def _line(difference: Difference) -> str:
    place = difference.file if difference.line is None else f"{difference.file}:{difference.line}"
    return f"{place}: {difference.words}"


def _verdict(verified: Verification) -> str:
    if verified.verdict == "damaged":
        number = len(verified.differences) + verified.more
        return f"damaged: run {verified.run}, {count(number, 'difference')}"
    held = f"{verified.conversations:,} of {count(verified.planned, 'conversation')}, {count(verified.calls, 'call')}"
    if verified.status == "running":
        return f"intact so far: run {verified.run} is still running; {count(verified.calls, 'call')}"
    if not verified.finished:
        ending = {"killed": "was killed", "interrupted": "was interrupted", "budget": "reached its budget"}
        how = ending.get(verified.status or "", "ended early")
        return f"intact, but unfinished: run {verified.run} {how}; {held}. To continue: rejoinder resume {verified.run}"
    return f"intact: run {verified.run}, {held}"
