"""A whole conversation on a terminal: the block of `report.conversation`, whose words stay as they are, with roles, and
below it what is known of the conversation besides."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import chain, repeat
from typing import NamedTuple

from rejoinder.model import CheckResult, Result, Status, TurnResult
from rejoinder.report.conversation import Signs, system_lines
from rejoinder.report.course import against, broken_at, is_over_time, not_sent
from rejoinder.report.course_rows import cost_parts, write_course
from rejoinder.report.deeds import deeds, never_landed
from rejoinder.report.failure import pieces_of, spans_of
from rejoinder.report.problems import columns_of, printable, printable_line
from rejoinder.report.runs import duration_of
from rejoinder.report.styled import Form, Line, Piece, Role, line, paragraph, safe
from rejoinder.report.words import count, money, seconds, tokens

_SPENDING = re.compile(r"  (?:Used:|Turn \d+ used) ")
_SIGNS: dict[Status, Role] = {"passed": "pass", "failed": "reason", "error": "error", "skipped": "quiet"}


class _Part(NamedTuple):
    """What a line of the block is."""

    role: Role = "text"
    label: str = ""
    """What it begins with, after its indentation, in a role of its own."""
    label_role: Role = "quiet"
    reply: tuple[int, str, tuple[tuple[int, int], ...]] | None = None
    """Of a line of a reply: where it begins in the reply, its text, and the places that checks point at."""
    is_besides: bool = False
    """Does it stand after the end of the block?"""


def write_block(
    result: Result, written: Iterable[str], signs: Signs, form: Form, turn: int | None, system: str = ""
) -> Iterator[Line]:
    """`written`: the lines of `write_conversation` with the same signs, turn and system prompt. What they say of tokens
    and cost is in the facts below."""
    parts = chain(_parts(result, signs, turn, system), repeat(_Part("quiet", is_besides=True)))
    for text, part in zip(written, parts, strict=False):
        if not (part.is_besides and _SPENDING.match(text)):
            yield from paragraph(_row(printable_line(text).replace("\t", " "), part), form)


def _row(text: str, part: _Part) -> Line:
    bare = text.lstrip(" ")
    indent = text[: len(text) - len(bare)]
    if part.reply is not None:
        start, reply, spans = part.reply
        if text.endswith(printable(reply)):
            before = text[: len(text) - len(reply)]
            return (Piece(before, "quiet"), *pieces_of(reply, start, spans))
    if part.label and bare.startswith(part.label):
        return line((indent + part.label, part.label_role), (bare.removeprefix(part.label), part.role))
    return line((text, part.role))


def _parts(result: Result, signs: Signs, only: int | None, system: str) -> Iterator[_Part]:
    """What the lines of a block are, in its order, up to how it ended."""
    yield _Part("name")
    yield from repeat(_Part(label="System prompt:"), len(system_lines(system)))
    for turn in result.turns:
        if only not in (None, turn.turn):
            continue
        yield _Part("quiet", f"Turn {turn.turn}:", "name")
        yield _Part(label="Prompt:")
        yield from repeat(_Part(), turn.prompt.count("\n"))
        broken = broken_at(result).get(turn.turn, [])
        yield from _reply(turn, [one.points for one in broken])
        yield from repeat(_Part("quiet"), len(deeds(turn, diff=only is not None)))
        for check in turn.checks:
            yield from _check(check, signs)
        for one in broken:
            yield _Part(label=signs.of(one.rule.state), label_role=_SIGNS[one.rule.state])
    yield from _of_the_whole(result, signs) if only is None else ()
    yield _Part(_SIGNS[result.status], "Overall:", "name")


def _of_the_whole(result: Result, signs: Signs) -> Iterator[_Part]:
    yield from repeat(_Part("quiet"), (not_sent(result) is not None) + (never_landed(result) is not None))
    if result.conversation_checks:
        yield _Part("name")
    for check in result.conversation_checks:
        if is_over_time(check):
            yield _Part(label=signs.of(check.state), label_role=_SIGNS[check.state])
        else:
            yield from _check(check, signs)


def _reply(turn: TurnResult, broken: list[CheckResult]) -> Iterator[_Part]:
    """`broken`: what checks of the whole conversation found in it."""
    if turn.response is None:
        return
    wrong = [*(check for check in turn.checks if not check.passed), *broken]
    spans = tuple(sorted(spans_of(wrong)))
    start = 0
    for written in turn.response.split("\n"):
        is_last = start + len(written) == len(turn.response)
        text = written if is_last else written.removesuffix("\r")
        yield _Part(reply=(start, text.replace("\t", " "), spans))
        start += len(written) + 1


def _check(check: CheckResult, signs: Signs) -> Iterator[_Part]:
    yield _Part(label=signs.of(check.state), label_role=_SIGNS[check.state])
    for child in check.children:
        yield from _check(child, signs)


def write_facts(result: Result, form: Form) -> Iterator[Line]:
    """Why it did not pass, how it went, where the case stands, on which target it was put, and what it took. Tokens
    leave first if there is no room, then the time."""
    for one in against(result) if result.status == "failed" else ():
        where = f"{safe(one.where)}: " if one.where else ""
        yield from paragraph(line((f"why: {where}", "quiet"), (safe(one.what), "reason"), f": {safe(one.why)}"), form)
    yield from write_course(result, form)
    if (paid := cost_parts(result)) is not None:
        yield from paragraph(line(("cost: ", "quiet"), paid), form)
    for turn in result.turns:
        if turn.finish_reason == "length":
            yield line((f"the reply of turn {turn.turn} was cut off: it reached max_tokens", "quiet"))
    place = f"{safe(result.file)}:{result.line}" if result.file and result.line else safe(result.file or result.suite)
    parts = [place, f"on {safe(result.target)}", count(len(result.turns), "turn")]
    took = [seconds(duration_of(result))] if result.reply_times else []
    used: list[str] = []
    cost: list[str] = []
    if any(turn.model is not None for turn in result.turns):  # what a script would use says nothing
        about = "about " if result.usage.approximate else ""
        used = [f"{about}{tokens(result.usage.total_tokens, whole=not form.symbols)}"]
        cost = [money(result.total_cost)]
    for kept in ([*parts, *took, *used, *cost], [*parts, *took, *cost], [*parts, *cost]):
        text = ", ".join(kept)
        if form.edge is None or columns_of(text) <= form.edge:
            break
    yield from paragraph(line((text, "quiet")), form)
