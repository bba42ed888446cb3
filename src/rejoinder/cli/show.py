"""`rejoinder show`"""

from __future__ import annotations

import contextlib
import sys
from pathlib import Path

import click

from rejoinder.cli.grouping import Values, grouped
from rejoinder.cli.options import trust_option
from rejoinder.cli.output import echo, echo_lines, form_for, show_error, words, write_machine
from rejoinder.cli.pager import paged
from rejoinder.cli.results import Output, commands_of, output_options, write_report
from rejoinder.engine.run import show_run
from rejoinder.errors import UsageError
from rejoinder.exports.formats import FORMATS
from rejoinder.report.conversation import signs_for, write_block, write_conversation, write_facts
from rejoinder.report.course_rows import write_course
from rejoinder.report.styled import EMPTY, Form, command_rows, line, paragraph, safe
from rejoinder.runs.recorded import open_recorded
from rejoinder.runs.report import RunReport
from rejoinder.runs.verify import find_damage
from rejoinder.views.actions import fork_action
from rejoinder.views.cases import eval_name
from rejoinder.views.choose import SORTS, Choice, ChosenReport, choose
from rejoinder.views.conversation import NO_SYSTEM, ConversationView, view_conversation
from rejoinder.words.numbers import count, listed

FORMATS_OF_PARTS = ("json", "jsonl", "yaml", "csv")
"""Formats that only list results. The others tell of a run as a whole."""


def _choice(values: Values) -> Choice:
    for names in ("targets", "variants"):
        values[names] = tuple(words(values[names]))
    return Choice(**values)


_choice_options = grouped(
    "choice",
    _choice,
    cases=click.option(
        "--case", "cases", multiple=True, metavar="ID,...", help="Only these cases; patterns such as 'refund*'."
    ),
    targets=click.option("--target", "targets", multiple=True, metavar="NAME,...", help="Only on these targets."),
    variants=click.option("--variant", "variants", multiple=True, metavar="NAME,...", help="Only of these variants."),
    trial=click.option("--trial", type=click.IntRange(1), metavar="N", help="Only this trial of each case."),
    turn=click.option("--turn", type=click.IntRange(1), metavar="N", help="Only this turn of each conversation."),
    failed=click.option("--failed", is_flag=True, help="Only conversations that failed."),
    recovered=click.option("--recovered", is_flag=True, help="Only conversations that passed after a follow-up."),
    errors=click.option("--errors", is_flag=True, help="Only conversations that ended with an error."),
    sort=click.option("--sort", type=click.Choice(list(SORTS)), help="Sort by score, cost or time, worst first."),
    limit=click.option("--limit", type=click.IntRange(1), metavar="N", help="Show only the first N of them."),
)


@click.command("show")
@click.argument("run", required=False)
@_choice_options
@trust_option
@output_options
def command(run: str | None, choice: Choice, trust: bool, output: Output) -> None:
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
            _write(report, choice, output, run or "last")
    except (ArithmeticError, LookupError, TypeError, ValueError):
        if damage is None:
            raise  # a bug
        raise damage from None
    if damage is not None:
        sys.exit(damage.exit_code)


def _write(report: RunReport, choice: Choice, output: Output, name: str) -> None:
    """`name`: what the user calls the run."""
    if choice.is_whole:
        write_report(report, output)
        return
    for form in (output.form, *map(output.form_of, output.out)):
        if form not in ("text", *FORMATS_OF_PARTS):
            raise UsageError(
                f"{form} describes a whole run",
                f"Some of its conversations can be written as {listed(FORMATS_OF_PARTS, 'or')}.",
            )
    chosen = choose(report, choice)
    output.write_files(chosen)
    if output.form == "text":
        _write_text(chosen, choice, name, verbose=output.verbose)
    else:
        write_machine(FORMATS[output.form].write(chosen))


def _write_text(report: ChosenReport, choice: Choice, name: str, *, verbose: bool) -> None:
    """`verbose`: with the system prompts."""
    prompts = report.system_prompts
    selected, form = report.selected, form_for(sys.stdout)
    is_alone = (selected.results, selected.of) == (1, 1)
    if not is_alone:
        echo_lines([*paragraph(line((safe(_header(report, choice)), "quiet")), form), EMPTY])
    for number, result in enumerate(report.conversations):
        if number:
            echo("")
        talk = view_conversation(result, system=prompts.of(result) if verbose else NO_SYSTEM)
        _write_conversation(talk, eval_name(result, report), choice.turn, form)
        if is_alone:
            fork = fork_action(name, result, choice.turn, several=len(report.summary.by_target) > 1)
            commands = commands_of(() if fork is None or not form.commands else (fork,))
            echo_lines([EMPTY, *write_facts(talk, form), *command_rows(commands, form.edge)])
        else:
            echo_lines(write_course(talk, form))
    if selected.results < selected.of:
        rest = f"{selected.of - selected.results:,} more: --limit {selected.of}, or a single one: --case ID"
        echo_lines([EMPTY, *paragraph(line((rest, "quiet")), form)])


def _write_conversation(talk: ConversationView, name: str, turn: int | None, form: Form) -> None:
    """The block as it is in a pipe; on a screen with roles, and wrapped."""
    signs = signs_for(sys.stdout, form)
    if form.symbols:
        echo_lines(write_block(talk, name, form, signs=signs, turn=turn))
    else:
        echo(*write_conversation(talk, name, signs=signs, turn=turn))


def _header(report: ChosenReport, choice: Choice) -> str:
    """Which run it is, and how much of it: `2 of 9 failed`."""
    names = ", ".join(suite.name or Path(suite.path).name for suite in report.run.suites)
    targets = ", ".join(report.summary.by_target)
    one, kind = report.selected, choice.kind
    if one.results < one.of:
        part = f"{one.results:,} of {one.of:,} {kind or 'conversations'}"
    elif kind:
        part = f"{one.of:,} {kind}, of {count(one.total, 'conversation')}"
    else:
        part = f"{one.of:,} of {count(one.total, 'conversation')}"
    return f"{names} on {targets}, run {report.run.id}, {part}"
