"""`rejoinder show`"""

from __future__ import annotations

import contextlib
import sys
from pathlib import Path
from shlex import quote

import click

from rejoinder.cli.options import trust_option
from rejoinder.cli.output import echo, echo_lines, form_for, show_error, write_machine
from rejoinder.cli.pager import paged
from rejoinder.cli.results import Output, label_of, output_options, write_report
from rejoinder.cli.zoom import Zoom, ZoomedReport, zoom_in, zoom_options
from rejoinder.engine.recorded import open_recorded
from rejoinder.engine.run import show_run
from rejoinder.engine.run_report import RunReport
from rejoinder.engine.verify import find_damage
from rejoinder.errors import UsageError
from rejoinder.model import Result
from rejoinder.report.block import write_block, write_facts
from rejoinder.report.conversation import signs_for, write_conversation
from rejoinder.report.course import turn_to_change
from rejoinder.report.course_rows import write_course
from rejoinder.report.formats import FORMATS
from rejoinder.report.styled import EMPTY, Form, command_rows, line, paragraph, safe
from rejoinder.report.words import Commands, count
from rejoinder.spelling import list_words

FORMATS_OF_PARTS = ("json", "jsonl", "yaml", "csv")
"""Formats that only list results. The others tell of a run as a whole."""


@click.command("show")
@click.argument("run", required=False)
@zoom_options
@trust_option
@output_options
def command(run: str | None, zoom: Zoom, trust: bool, output: Output) -> None:
    """Show a recorded run (the latest when RUN is not given), or some conversations of it, whole.

    RUN is an id, the beginning or end of one (at least four characters), `last`, `last~1`, the name of a suite, or a
    run's folder. The latest run is never a fork or a re-grade. Nothing is run, sent or written. On a terminal a long
    text is shown by $PAGER, else by less.
    """
    recorded = open_recorded(run, trust=trust)
    # Without results everything is counted again from the journal, and nothing can disagree.
    damage = find_damage(recorded) if recorded.folder.results.exists() else None
    report = show_run(recorded)
    if damage is not None:
        if output.out or output.form != "text":
            raise damage  # another program would take the figures for those of the run
        show_error(damage)
    try:
        with paged() if output.form == "text" else contextlib.nullcontext():
            _write(report, zoom, output, run or "last")
    except (ArithmeticError, LookupError, TypeError, ValueError):
        if damage is None:
            raise  # a bug
        raise damage from None
    if damage is not None:
        sys.exit(damage.exit_code)


def _write(report: RunReport, zoom: Zoom, output: Output, name: str) -> None:
    """`name`: what the user calls the run."""
    if zoom.is_whole:
        write_report(report, output)
        return
    for form in (output.form, *map(output.form_of, output.out)):
        if form not in ("text", *FORMATS_OF_PARTS):
            raise UsageError(
                f"{form} tells of a whole run",
                f"Some of its conversations can be written as {list_words(FORMATS_OF_PARTS, 'or')}.",
            )
    zoomed = zoom_in(report, zoom)
    output.write_files(zoomed)
    if output.form == "text":
        _write_text(zoomed, zoom, name, verbose=output.verbose)
    else:
        write_machine(FORMATS[output.form].write(zoomed))


def _write_text(report: ZoomedReport, zoom: Zoom, name: str, *, verbose: bool) -> None:
    """`verbose`: with the system prompts."""
    prompts = report.system_prompts
    selected, form = report.selected, form_for(sys.stdout)
    is_alone = (selected.results, selected.of) == (1, 1)
    if not is_alone:
        echo_lines([*paragraph(line((safe(_header(report, zoom)), "quiet")), form), EMPTY])
    for number, result in enumerate(report.conversations):
        if number:
            echo("")
        system = prompts.of(result) if verbose else ""
        _write_conversation(result, label_of(result, report), zoom.turn, form, system)
        if is_alone:
            commands = _next_commands(result, report, zoom, name) if form.commands else ()
            echo_lines([EMPTY, *write_facts(result, form), *command_rows(commands, form.edge)])
        else:
            echo_lines(write_course(result, form))
    if selected.results < selected.of:
        rest = f"{selected.of - selected.results:,} more: --limit {selected.of}, or one alone: --case ID"
        echo_lines([EMPTY, *paragraph(line((rest, "quiet")), form)])


def _write_conversation(result: Result, label: str, turn: int | None, form: Form, system: str) -> None:
    """The block as it is in a pipe; on a screen with roles, and wrapped."""
    signs = signs_for(sys.stdout, form)
    written = write_conversation(result, label=label, signs=signs, turn=turn, system=system)
    if form.symbols:
        echo_lines(write_block(result, written, signs, form, turn, system))
    else:
        echo(*written)


def _next_commands(result: Result, report: ZoomedReport, zoom: Zoom, name: str) -> Commands:
    """How to go on with a conversation in another way."""
    if not result.turns or not (result.id + result.target + name).isprintable():
        return ()
    turn = zoom.turn or turn_to_change(result)
    target = f" --target {quote(result.target)}" if len(report.summary.by_target) > 1 else ""
    command = f"rejoinder fork {quote(name)} --case {quote(result.id)} --turn {turn}{target} --prompt TEXT"
    return ((command, f"say something else at turn {turn}"),)


def _header(report: ZoomedReport, zoom: Zoom) -> str:
    """Which run it is, and how much of it: `2 of 9 failed`."""
    names = ", ".join(suite.name or Path(suite.path).name for suite in report.run.suites)
    targets = ", ".join(report.summary.by_target)
    one, kind = report.selected, zoom.kind
    if one.results < one.of:
        part = f"{one.results:,} of {one.of:,} {kind or 'conversations'}"
    elif kind:
        part = f"{one.of:,} {kind}, of {count(one.total, 'conversation')}"
    else:
        part = f"{one.of:,} of {count(one.total, 'conversation')}"
    return f"{names} on {targets}, run {report.run.id}, {part}"
