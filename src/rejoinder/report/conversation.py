"""A conversation on a terminal, turn by turn: what was said, what was checked, how it ended."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TextIO

from msgspec import Struct

from rejoinder.model import CheckResult, Result, Status
from rejoinder.model.results import ErrorResult
from rejoinder.report.course import (
    broken_at,
    called,
    described,
    is_nested,
    is_over_time,
    not_sent,
    turn_words,
    what_it_found,
)
from rejoinder.report.deeds import deeds, never_landed
from rejoinder.report.styled import Form
from rejoinder.report.summary import describe_spending

MOST_SYSTEM_LINES = 20


class Signs(Struct, frozen=True):
    passed: str
    failed: str
    error: str
    skipped: str

    def of(self, status: Status) -> str:
        return str(getattr(self, status))


UNICODE = Signs("✅ PASS", "❌ FAIL", "⚠️ ERROR", "⏭️ SKIPPED")
ASCII = Signs("[+] PASS", "[x] FAIL", "[!] ERROR", "[-] SKIPPED")


def signs_for(stream: TextIO, form: Form) -> Signs:
    """A terminal that is to have words alone has none of the signs that a program reads in a pipe."""
    if form.commands and not form.symbols:
        return ASCII
    try:
        "".join((UNICODE.passed, UNICODE.failed, UNICODE.error)).encode(stream.encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return ASCII
    return UNICODE


def write_conversation(
    result: Result, *, label: str = "", signs: Signs = UNICODE, turn: int | None = None, system: str = ""
) -> Iterator[str]:
    """The block of one result. `label` tells trials and targets apart if there are several; with `turn` the other
    turns are left out. `system`: the system prompt, if it is to be shown."""
    written = f" [{result.id}]" if result.id_written else ""
    yield f"Eval {result.number}{label}: {result.title}{written}"
    yield from system_lines(system)
    broken = broken_at(result)
    for one in result.turns:
        if turn not in (None, one.turn):
            continue
        indent = "    " if is_nested(one, result) else "  "
        yield f"{indent}Turn {one.turn}: {turn_words(one, result)}".rstrip()
        yield from _said("Prompt", one.prompt, indent)
        if one.response is not None:
            yield from _said("Response", one.response, indent)
        yield from (f"{indent}  {deed}" for deed in deeds(one, diff=turn is not None))
        for check in one.checks:
            yield from _check(check, f"{indent}  ", signs)
        for check in (each.rule for each in broken.get(one.turn, ())):
            yield f"{indent}  {signs.of(check.state)} Conversation: {called(check)}{what_it_found(check)}"
    yield from _of_the_whole(result, signs) if turn is None else ()
    yield f"  Overall: {_overall(result, signs)}"
    for one in result.turns:
        for check in _scored(one.checks):
            when = f"Turn {one.turn} scored" if len(result.turns) > 1 else "Scored"
            yield f"  {when} {called(check)}: {_score(check)}"
    if any(one.model is not None for one in result.turns):  # what a script would use says nothing
        for one in result.turns if len(result.turns) > 1 else ():
            yield f"  Turn {one.turn} used {describe_spending(one)}"
        yield f"  Used: {describe_spending(result)}"


def system_lines(system: str) -> list[str]:
    """A system prompt; the first lines of a long one."""
    if not system:
        return []
    lines = [*_said("System prompt", system, "")]
    more = len(lines) - MOST_SYSTEM_LINES
    return lines if more < 2 else [*lines[:MOST_SYSTEM_LINES], f"    ({more:,} more lines; `rejoinder report` has all)"]


def _of_the_whole(result: Result, signs: Signs) -> Iterator[str]:
    """What was planned and not sent, faults that met no call, and what checks say of the whole conversation."""
    if (left := not_sent(result)) is not None:
        yield f"  {left}"
    if (missed := never_landed(result)) is not None:
        yield f"  {missed}"
    if result.conversation_checks:
        yield "  Conversation:"
    for check in result.conversation_checks:
        if is_over_time(check):  # it passes or not by when it holds, so a line for each reply would mislead
            name = f" ({check.name})" if check.name else ""
            yield f"    {signs.of(check.state)} {_one_line(described(check) + name)}{what_it_found(check)}"
        else:
            yield from _check(check, "    ", signs)


def _scored(checks: Iterable[CheckResult]) -> Iterator[CheckResult]:
    """Checks whose score is more than yes or no; a judge's score stands for its criteria."""
    for check in checks:
        if check.threshold is not None and check.score is not None:
            yield check
        else:
            yield from _scored(check.children)


def _score(check: CheckResult) -> str:
    text = f"{check.score:.3g}, and {check.threshold:.3g} is needed"
    if check.votes:
        text += f" (votes {', '.join(f'{vote:.3g}' for vote in check.votes)})"
    return f"{text}; judged by {check.judge}" if check.judge is not None else text


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _said(role: str, text: str, indent: str) -> Iterator[str]:
    first, *rest = text.replace("\r\n", "\n").split("\n")
    yield f"{indent}  {role}: {first}"
    yield from (f"{indent}    {line}" for line in rest)


def _check(check: CheckResult, indent: str, signs: Signs) -> Iterator[str]:
    # Where only the kind of a check is shown, its name tells several of them apart.
    name = f" ({check.name})" if check.name and " " not in check.check else ""
    title = (described(check) + name).replace("\r\n", " ").replace("\n", " ")
    yield f"{indent}{signs.of(check.state)} {title}{what_it_found(check)}"
    for child in check.children:
        yield from _check(child, f"{indent}  ", signs)


def _overall(result: Result, signs: Signs) -> str:
    sign, turns = signs.of(result.status), len(result.turns)
    if result.status == "passed":
        return f"{sign} (succeeded on turn {result.succeeded_on_turn})"
    if result.status == "failed":
        return f"{sign} (after {turns} turn{'' if turns == 1 else 's'})"
    if result.error is None:
        return sign
    return f"{sign} (on turn {result.error.turn}: {error_lines(result.error)[0]})"


def error_lines(error: ErrorResult) -> list[str]:
    """What went wrong, in one line, and a difference to a recording line by line: it says nothing without them."""
    first, start, difference = error.message.partition("\n--- recorded\n")
    return [_one_line(first), *(["--- recorded", *difference.split("\n")] if start else ())]
