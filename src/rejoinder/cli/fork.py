"""Runs that begin with another run: `rejoinder run --fork` and `--failed-from`."""

from __future__ import annotations

import sys
from collections import Counter

import click
from msgspec import structs

from rejoinder.cli.output import echo, width_of
from rejoinder.cli.recorded import open_recorded
from rejoinder.engine.conversation import Fork
from rejoinder.engine.earlier import recorded_conversation
from rejoinder.engine.plan import RunOptions, plan
from rejoinder.engine.run import RunReport, show_run, start_run
from rejoinder.engine.sources import Tape
from rejoinder.errors import UsageError
from rejoinder.report.live import LiveDisplay


def fork_run(
    run: str, options: RunOptions, turn: int, prompt: str | None, system: str | None, *, trust: bool
) -> RunReport:
    """A new run of one conversation of another, which takes another course from a turn on."""
    if len(options.cases) != 1:
        raise click.UsageError("--fork takes up one conversation: name its case with --case ID")
    recorded = open_recorded(run, trust=trust)
    folder, suites, before = recorded.folder, recorded.suites(), recorded.options()
    recorded.refuse_foreign_words(suites)
    if not options.targets and len(before.targets) > 1:
        raise UsageError(
            f"run {folder.id} has asked several targets, and one conversation is taken up",
            f"Name its target with --target: {', '.join(before.targets)}.",
        )
    if before.fork is not None and before.fork.turn < turn:
        raise UsageError(
            f"run {folder.id} is a fork itself, at turn {before.fork.turn}, and it can be taken up there or before",
            "What was said instead is known for one turn only.",
        )
    tape = recorded_conversation(recorded, suites, options.cases[0], turn, options.targets)
    if turn > 1 and (taken := taken_from(tape)) and options.targets and taken not in options.targets:
        echo(f"the turns before are those of target `{taken}`, which run {folder.id} has asked", err=True)
    if before.fork is not None and before.fork.turn == turn:
        # What it said instead is its conversation, and stays so unless something else is said again.
        prompt = before.fork.prompt if prompt is None else prompt
        system = before.fork.system if system is None else system
    chosen = structs.replace(
        options,
        targets=options.targets or before.targets,
        targets_file=options.targets_file or before.targets_file,
        system_prompt=before.system_prompt if options.system_prompt is None else options.system_prompt,
        fork=Fork(turn=turn, prompt=prompt, system=system, run=folder.id),
    )
    display, sealed = LiveDisplay(sys.stderr, width_of(sys.stderr)), not recorded.uses_copy
    return start_run(suites, chosen, display, tape=tape, root=recorded.root, sealed=sealed)


def taken_from(tape: Tape) -> str | None:
    """The target whose conversation is on tape."""
    return next((call.job.prepared.target.name for call, _ in tape.calls), None)


def failed_cases(run: str, *, trust: bool) -> list[str]:
    """The ids of the cases that did not pass in a run; those that it did not come to have not passed either."""
    recorded = open_recorded(run, trust=trust)
    suites, options = recorded.copies() or recorded.suites(asks=False), recorded.options()
    report = show_run(recorded)
    passed = Counter((one.suite, one.id) for one in report.results.outlines() if one.status == "passed")
    planned = Counter((job.prepared.suite_name, job.prepared.case.id) for job in plan(suites, options))
    return list(dict.fromkeys(place[1] for place, count in planned.items() if passed[place] < count))
