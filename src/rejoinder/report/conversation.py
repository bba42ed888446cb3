"""A conversation on a terminal and in a pipe, turn by turn: what was said, what was checked, how it ended."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from typing import NamedTuple, TextIO

from rejoinder.model import Status
from rejoinder.report.course_rows import write_course
from rejoinder.report.failure import beside_title, error_lines, pieces_of
from rejoinder.report.problems import columns_of, printable_line
from rejoinder.report.styled import Form, Line, Piece, Role, beside, line, paragraph, safe
from rejoinder.views.conversation import ConversationView
from rejoinder.views.course import spans_of
from rejoinder.views.deeds import deeds
from rejoinder.views.turns import CheckView, TurnView
from rejoinder.words.numbers import tokens

MOST_SYSTEM_LINES = 20

UNICODE: Mapping[Status, str] = {
    "passed": "✅ PASS",
    "failed": "❌ FAIL",
    "error": "⚠️ ERROR",
    "skipped": "⏭️ SKIPPED",
}
ASCII: Mapping[Status, str] = {
    "passed": "[+] PASS",
    "failed": "[x] FAIL",
    "error": "[!] ERROR",
    "skipped": "[-] SKIPPED",
}
_ROLES: Mapping[Status, Role] = {"passed": "pass", "failed": "reason", "error": "error", "skipped": "quiet"}


class _Style(NamedTuple):
    """The marks of verdicts and of speakers in a layout."""

    signs: Mapping[Status, str]
    prompt: str = "Prompt: "
    response: str = "Response: "


_SCREEN = _Style({"passed": "✓", "failed": "✗", "error": "!", "skipped": "-"}, "> ", "< ")
"""As for the failures of a run."""


def signs_for(stream: TextIO, form: Form) -> Mapping[Status, str]:
    """The signs of verdicts. A terminal without symbols has none of the signs that a program reads in a pipe."""
    if form.commands and not form.symbols:
        return ASCII
    try:
        "".join(UNICODE[status] for status in ("passed", "failed", "error")).encode(stream.encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return ASCII
    return UNICODE


def write_conversation(
    talk: ConversationView, name: str, *, signs: Mapping[Status, str] = UNICODE, turn: int | None = None
) -> Iterator[str]:
    """The plain form. `name`: `Eval 3 (trial 2)`. `turn`: the only one that is shown."""
    rows = chain(_rows(talk, name, _Style(signs), turn), _scored_rows(talk), _spent_rows(talk))
    return ("".join(piece.text for piece in row) for row in rows)


def write_block(
    talk: ConversationView, name: str, form: Form, *, signs: Mapping[Status, str] = UNICODE, turn: int | None = None
) -> Iterator[Line]:
    """The same with roles, wrapped, without repeated replies and without the tokens and costs in the facts below. With
    symbols it looks like the failures of a run."""
    if form.symbols:
        yield from _headed(talk, name, form)
        rows = _body(talk, _SCREEN, turn, folds=True)
    else:
        rows = _rows(talk, name, _Style(signs), turn, folds=True)
    for row in chain(rows, _scored_rows(talk)):
        inert = tuple(Piece(printable_line(piece.text).replace("\t", " "), piece.role) for piece in row)
        yield from paragraph(inert, form)


def _headed(talk: ConversationView, name: str, form: Form) -> Iterator[Line]:
    """`✗ Capital of Peru? [capital]`, with its end at the right edge, as for the failures of a run."""
    number, _, part = name.partition(" (")
    case = safe(talk.row.case)
    behind = line((" [", "quiet"), case, ("]", "quiet")) if talk.has_id else ()
    title = beside_title(safe(talk.row.title), behind, form, "" if talk.has_id else f"{number}: ")
    role: Role = "fail" if talk.status == "failed" else _ROLES[talk.status]
    right = ", ".join(filter(None, (part.removesuffix(")"), _ending(talk))))
    yield from beside((*line((_SCREEN.signs[talk.status], role), " "), *title), line((safe(right), "quiet")), form.edge)
    if talk.error is not None:
        yield from paragraph(line((f"  {safe(error_lines(talk.error.message)[0])}", "reason")), form)


def _ending(talk: ConversationView) -> str:
    if talk.status == "passed":
        return f"passed on turn {talk.succeeded_on}"
    if talk.status == "failed":
        return f"failed after {talk.row.length}"
    return "" if talk.error is None else f"error on turn {talk.error.turn}"


def _rows(talk: ConversationView, name: str, style: _Style, only: int | None, *, folds: bool = False) -> Iterator[Line]:
    """Lines up to how it ended. Texts are raw. `folds`: a reply that repeats an earlier one is not written again."""
    written = f" [{talk.row.case}]" if talk.has_id else ""
    yield line((f"{name}: {talk.row.title}{written}", "name"))
    yield from _body(talk, style, only, folds=folds)
    yield line(("  Overall:", "name"), (f" {style.signs[talk.status]}{_end(talk)}", _ROLES[talk.status]))


def _body(talk: ConversationView, style: _Style, only: int | None, *, folds: bool) -> Iterator[Line]:
    """All between its title and how it ended."""
    yield from system_rows(talk)
    for turn in talk.turns:
        if only in (None, turn.turn):
            yield from _turn_rows(turn, style, whole=only is not None, folds=folds and only is None)
    if only is None:
        yield from _whole_rows(talk, style)


def system_rows(talk: ConversationView) -> list[Line]:
    """The system prompt; the first lines of a long one."""
    name = "System prompt (not sent: the target's request has no place for it)" if talk.unsent else "System prompt"
    rows = [*_said_rows(f"{name}: ", talk.system, "")] if talk.system else []
    more = len(rows) - MOST_SYSTEM_LINES
    if more < 2:
        return rows
    return [*rows[:MOST_SYSTEM_LINES], line(f"    ({more:,} more lines; `rejoinder report` has all)")]


def _said_rows(role: str, text: str, indent: str, spans: Iterable[tuple[int, int]] = ()) -> Iterator[Line]:
    """`spans`: the places in the text that checks point at."""
    places, start = sorted(spans), 0
    before = Piece(f"{indent}  {role}", "quiet")
    for written in text.split("\n"):
        is_last = start + len(written) == len(text)
        shown = written if is_last else written.removesuffix("\r")
        yield (before, *pieces_of(shown, start, places))
        before = Piece(f"{indent}    ")
        start += len(written) + 1


def _turn_rows(turn: TurnView, style: _Style, *, whole: bool, folds: bool) -> Iterator[Line]:
    indent = "    " if turn.nested else "  "
    yield line((f"{indent}Turn {turn.turn}:", "name"), (f" {turn.label}".rstrip(), "quiet"))
    yield from _said_rows(style.prompt, turn.prompt, indent)
    if turn.response is not None:
        yield from _response_rows(turn, indent, style, folds=folds)
    if turn.part:
        yield line((f"{indent}  Checked: ", "quiet"), turn.part)
    if turn.first_token:
        yield line((f"{indent}  {turn.first_token}", "quiet"))
    if turn.offered:
        yield line((f"{indent}  {turn.offered[0].upper()}{turn.offered[1:]}", "quiet"))
    for deed in deeds(turn.tools, turn.diff, continued=turn.continued, whole=whole):
        yield line((f"{indent}  {deed}", "quiet"))
    for check in turn.checks:
        yield from _check_rows(check, f"{indent}  ", style)
    for check in turn.broke:
        yield _verdict(check, f"{indent}  ", f"Conversation: {check.called}", style)


def _response_rows(turn: TurnView, indent: str, style: _Style, *, folds: bool) -> Iterator[Line]:
    if turn.same_as is not None and folds:
        yield line((f"{indent}  {style.response}", "quiet"), (f"(same words as turn {turn.same_as})", "warn"))
    else:
        wrong = [*(check for check in turn.checks if check.state != "passed"), *_inner(turn.broke)]
        yield from _said_rows(style.response, turn.response or "", indent, spans_of(wrong))


def _inner(checks: Iterable[CheckView]) -> Iterator[CheckView]:
    return (inner for check in checks for inner in check.children)


def _whole_rows(talk: ConversationView, style: _Style) -> Iterator[Line]:
    """Steps that were not sent, failures that met no call, and checks of the whole conversation."""
    yield from (line((f"  {text}", "quiet")) for text in (talk.not_sent, talk.never_landed) if text)
    if talk.checks:
        yield line(("  Conversation:", "name"))
    for check in talk.checks:
        if check.over_time:  # it passes or not by when it holds, so a line for each reply would mislead
            name = f" ({check.name})" if check.name else ""
            yield _verdict(check, "    ", " ".join(f"{check.described}{name}".split()), style)
        else:
            yield from _check_rows(check, "    ", style)


def _check_rows(check: CheckView, indent: str, style: _Style) -> Iterator[Line]:
    # Where only the kind of a check is shown, its name tells several of them apart.
    name = f" ({check.name})" if check.name and " " not in check.label else ""
    yield _verdict(check, indent, f"{check.described}{name}".replace("\r\n", " ").replace("\n", " "), style)
    for child in check.children if not _is_reversed(check) else ():
        yield from _check_rows(child, f"{indent}  ", style)


def _is_reversed(check: CheckView) -> bool:
    """Whether a check is only `not` before another, whose verdict would be read as the opposite of what it means."""
    return check.label == "not" and not any(child.children for child in check.children)


def _verdict(check: CheckView, indent: str, title: str, style: _Style) -> Line:
    decides = f": {check.decides}" if check.decides else ""
    return line((f"{indent}{style.signs[check.state]}", _ROLES[check.state]), f" {title}{decides}")


def _end(talk: ConversationView) -> str:
    if talk.status == "passed":
        return f" (succeeded on turn {talk.succeeded_on})"
    if talk.status == "failed":
        return f" (after {talk.row.length})"
    return "" if talk.error is None else f" (on turn {talk.error.turn}: {error_lines(talk.error.message)[0]})"


def _scored_rows(talk: ConversationView) -> Iterator[Line]:
    for turn in talk.turns:
        when = f"Turn {turn.turn} scored" if len(talk.turns) > 1 else "Scored"
        for check in _scored(turn.checks):
            yield line((f"  {when} {check.called}: {check.scored}", "quiet"))


def _scored(checks: Iterable[CheckView]) -> Iterator[CheckView]:
    """Checks with a threshold; a judge's score stands for its criteria."""
    for check in checks:
        if check.scored:
            yield check
        else:
            yield from _scored(check.children)


def _spent_rows(talk: ConversationView) -> Iterator[Line]:
    if talk.row.used:
        for turn in talk.turns if len(talk.turns) > 1 else ():
            yield line(f"  Turn {turn.turn} used {turn.spent}")
        yield line(f"  Used: {talk.spent}")


def write_facts(talk: ConversationView, form: Form) -> Iterator[Line]:
    """Why it did not pass, how it went, where the case stands, on which target it was put, and what it took. Tokens
    leave first if there is no room, then the time."""
    row = talk.row
    for one in talk.reasons if talk.status == "failed" else ():
        where = f"{safe(one.where)}: " if one.where else ""
        yield from paragraph(line((f"why: {where}", "quiet"), (safe(one.what), "reason"), f": {safe(one.text)}"), form)
    yield from write_course(talk, form)
    if talk.cost_parts:
        yield from paragraph(line(("cost: ", "quiet"), talk.cost_parts), form)
    for turn in talk.turns:
        if turn.cut_off:
            yield line((f"the reply of turn {turn.turn} was cut off: it reached max_tokens", "quiet"))
    place = f"{safe(talk.file)}:{talk.line}" if talk.file and talk.line else safe(talk.file or row.suite)
    parts = [place, f"on {safe(row.target)}", row.length]
    took = [row.time] if row.time else []
    about = "about " if row.used.startswith("about ") else ""
    used = [f"{about}{tokens(row.tokens, whole=not form.symbols)}"] if row.used else []
    cost = [row.cost] if row.used else []
    for kept in ([*parts, *took, *used, *cost], [*parts, *took, *cost], [*parts, *cost]):
        text = ", ".join(kept)
        if form.edge is None or columns_of(text) <= form.edge:
            break
    yield from paragraph(line((text, "quiet")), form)
