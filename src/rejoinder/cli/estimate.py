"""`rejoinder run --dry-run`"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from shlex import quote

import msgspec

from rejoinder.cli.given import given_words
from rejoinder.cli.output import echo, echo_lines, form_for, look, write_data
from rejoinder.gates.forecast import foresee
from rejoinder.model import Suite
from rejoinder.model.estimates import Role, RunBounds
from rejoinder.report.estimate import write_estimate
from rejoinder.report.styled import Commands
from rejoinder.runs.options import MOST_ROUNDS, RunOptions
from rejoinder.words.numbers import rounded_up

USUAL_LENGTH = 1000
"""Tokens of a reply that are proposed as a bound."""
_KEYS: dict[Role, str] = {"candidate": "targets", "judge": "judges", "user": "users"}
"""Where the document lists the targets of a role."""


def show_estimate(suites: list[Suite], options: RunOptions, form: str) -> None:
    """What would be asked, at least and at most, and what that may cost. Nothing is sent, and no key is needed."""
    found, bounds = foresee(suites, options)
    if options.selection.rounds is not None:
        echo(f"this is for all {MOST_ROUNDS} rounds; it ends after one of them, as soon as it tells", err=True)
    if form != "text":
        document = msgspec.to_builtins(found)
        for one in bounds.targets:
            document[_KEYS[one.role]][one.name] |= {"least_usd": one.cost[0], "most_usd": one.cost[1]}
        write_data(document)
        return
    commands = _next_commands(bounds, given_words())
    echo_lines(write_estimate(bounds, form_for(sys.stdout), commands, quiet=look().quiet))


def _next_commands(found: RunBounds, given: Sequence[str]) -> Commands:
    """The same command, with a budget that is enough for all of it; with bounds for what has none."""
    words = [quote(word) for word in given]
    if "--dry-run" not in words or not all(word.isprintable() for word in given):
        return ()
    same = " ".join(word for word in words if word != "--dry-run")
    least, most = found.cost
    if most is not None and most > 0:
        return ((f"rejoinder {same} --budget-usd {rounded_up(most)}", "run with this budget"),)
    if most is not None:
        return ((f"rejoinder {same}", "run"),)
    if (
        least is None
        or any(one.tools for one in found.targets)
        or any(word.startswith("--max-tokens") for word in words)
    ):
        return ()
    return ((f"rejoinder {' '.join(words)} --max-tokens {USUAL_LENGTH}", "bounds replies, and so the cost"),)
