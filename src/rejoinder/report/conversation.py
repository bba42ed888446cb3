"""A conversation on a terminal, turn by turn: what was said, what was checked, how it ended."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TextIO

from msgspec import Struct

from rejoinder.model import CheckResult, Result, Status
from rejoinder.model.results import ErrorResult
from rejoinder.report.summary import describe_spending

MOST_LINES, FIRST_LINES, LAST_LINES = 12, 6, 2
"""A text of more lines is shown by its first and last ones."""
LONGEST_LINE, LINE_START, LINE_END = 1000, 500, 100
"""In characters."""


class Signs(Struct, frozen=True):
    passed: str
    failed: str
    error: str
    skipped: str

    def of(self, status: Status) -> str:
        return str(getattr(self, status))


UNICODE = Signs("✅ PASS", "❌ FAIL", "⚠️ ERROR", "⏭️ SKIPPED")
ASCII = Signs("[+] PASS", "[x] FAIL", "[!] ERROR", "[-] SKIPPED")


def signs_for(stream: TextIO) -> Signs:
    try:
        "".join((UNICODE.passed, UNICODE.failed, UNICODE.error)).encode(stream.encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return ASCII
    return UNICODE


def write_conversation(
    result: Result, *, label: str = "", signs: Signs = UNICODE, whole: bool = True, turn: int | None = None
) -> Iterator[str]:
    """The block of one result. `label` tells trials and targets apart where there are several; without `whole` long
    texts are shortened; with `turn` the other turns are left out."""
    lines = _block(result, label, signs, whole, turn)
    return lines if whole else map(shorten_line, lines)


def shorten_line(line: str) -> str:
    """The beginning and the end of a long line, with a note of what is left out."""
    if len(line) <= LONGEST_LINE:
        return line
    left_out = len(line) - LINE_START - LINE_END
    return f"{line[:LINE_START]} [... {left_out:,} characters; --verbose shows all ...] {line[-LINE_END:]}"


def _block(result: Result, label: str, signs: Signs, whole: bool, only: int | None) -> Iterator[str]:
    written = f" [{result.id}]" if result.id_written else ""
    yield f"Eval {result.number}{label}: {result.title}{written}"
    for turn in result.turns:
        if only not in (None, turn.turn):
            continue
        yield f"  Turn {turn.turn}:"
        yield from _said("Prompt", turn.prompt, whole)
        if turn.response is not None:
            yield from _said("Response", turn.response, whole)
        for check in turn.checks:
            yield from _check(check, "    ", signs)
    yield f"  Overall: {_overall(result, signs)}"
    for turn in result.turns:
        for check in _scored(turn.checks):
            when = f"Turn {turn.turn} scored" if len(result.turns) > 1 else "Scored"
            yield f"  {when} {_title(check)}: {_score(check)}"
    if any(turn.model is not None for turn in result.turns):  # what a script would use says nothing
        for turn in result.turns if len(result.turns) > 1 else ():
            yield f"  Turn {turn.turn} used {describe_spending(turn)}"
        yield f"  Used: {describe_spending(result)}"


def write_reasons(result: Result, label: str = "") -> Iterator[str]:
    """Why a conversation did not pass, with the id to call it by; the blocks above say what happened."""
    start = f"  Eval {result.number}, {result.id}{label}: "
    if result.error is not None and result.status == "error":
        first, *rest = _paragraphs(result.error)
        yield f"{start}{first}"
        yield from (f"    {line}" for line in rest)
        in_error = [check for check in result.deciding_checks if check.error] if result.error.type == "check" else []
        yield from (f"{start}{_title(check)}: {_one_line(check.reason)}" for check in in_error[1:])
    if result.status == "failed":
        failed = (check for check in result.deciding_checks if not check.passed)
        yield from (f"{start}{_title(check)}: {_one_line(check.reason)}" for check in failed)


def _title(check: CheckResult) -> str:
    return _one_line(check.name or describe_check(check))


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


def _said(role: str, text: str, whole: bool) -> Iterator[str]:
    lines = text.replace("\r\n", "\n").split("\n")
    if not whole and len(lines) > MOST_LINES:
        left_out = len(lines) - FIRST_LINES - LAST_LINES
        note = f"[... {left_out:,} lines; --verbose shows all ...]"
        lines = [*lines[:FIRST_LINES], note, *lines[-LAST_LINES:]]
    first, *rest = lines
    yield f"    {role}: {first}"
    for line in rest:
        yield f"      {line}"


def _check(check: CheckResult, indent: str, signs: Signs) -> Iterator[str]:
    # Where only the kind of a check is shown, its name tells several of them apart.
    name = f" ({check.name})" if check.name and " " not in check.check else ""
    title = (describe_check(check) + name).replace("\r\n", " ").replace("\n", " ")
    yield f"{indent}{signs.of(check.state)} {title}"
    for child in check.children:
        yield from _check(child, f"{indent}  ", signs)


def describe_check(check: CheckResult) -> str:
    """`match *72*` as `match "*72*"`: texts in quotes, numbers and truth values without."""
    label = check.check
    start = f"{check.kind or label.partition(' ')[0]} "
    if check.value is not None or not label.startswith(start):
        return label
    return f'{start}"{label.removeprefix(start)}"'


def _overall(result: Result, signs: Signs) -> str:
    sign, turns = signs.of(result.status), len(result.turns)
    if result.status == "passed":
        return f"{sign} (succeeded on turn {result.succeeded_on_turn})"
    if result.status == "failed":
        return f"{sign} (after {turns} turn{'' if turns == 1 else 's'})"
    if result.error is None:
        return sign
    return f"{sign} (on turn {result.error.turn}: {_paragraphs(result.error)[0]})"


def _paragraphs(error: ErrorResult) -> list[str]:
    """What went wrong, in one line, but for a difference, which says nothing without its lines."""
    first, start, difference = error.message.partition("\n--- recorded\n")
    return [_one_line(first), *(["--- recorded", *difference.split("\n")] if start else ())]
