"""A case that did not pass: which case, which check and why, what was said last, what came back."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice

from msgspec import structs

from rejoinder.model import CheckResult, Result, TurnResult
from rejoinder.report.course_rows import write_course
from rejoinder.report.problems import columns_of, printable
from rejoinder.report.styled import PLAIN, Form, Line, Piece, Role, beside, fitted, line, mark, plain_text, safe, wrap
from rejoinder.views.cases import Tried
from rejoinder.views.conversation import view_conversation
from rejoinder.views.course import (
    Against,
    Span,
    against,
    caved_at,
    doubted_turns,
    outcome_words,
    places_of,
    spans_of,
    turn_words,
    turns_of,
)
from rejoinder.views.deeds import not_allowed
from rejoinder.views.quotes import window
from rejoinder.words.numbers import count

MOST_ROWS, FIRST_ROWS = 5, 3
"""Rows of a reply that are shown, and of a longer one from its beginning."""
MOST_CHECKS = 3
MOST_LINES = 30
"""Lines of a difference to a recording."""
LONGEST_ID = 32
_OF_WORDS = Form(width=80, symbols=True)
MOST_LOOKED_AT = 20_000
"""Characters of a reply that are laid out in rows; its end is looked at apart."""


def title_of(result: Result, form: Form, right: str) -> Iterator[Line]:
    """`✗ Do you ship to Norway? [shipping-1]`, with a fact at the right edge. The title is cut first, the id never.
    In words: `FAIL shipping-1: Do you ship to Norway? (failed after 2 turns)`."""
    if not form.symbols:
        word = "ERROR" if result.status == "error" else "FAIL"
        behind = f" ({right})" if right else ""
        role: Role = "error" if result.status == "error" else "fail"
        yield line((word, role), f" {safe(result.id)}: {form.cut(safe(result.title), 0)}{behind}")
        return
    sign = line(("!", "error"), " ") if result.status == "error" else mark("✗", form)
    shown = _id(result)
    behind = line((" [", "quiet"), shown, ("]", "quiet")) if result.id_written and shown != result.title else ()
    before = "" if result.id_written else f"Eval {result.number}: "
    shown = beside_title(safe(result.title), behind, form, before)
    yield from beside((*sign, *shown), line((right, "quiet")) if right else (), form.edge)


def beside_title(title: str, behind: Line, form: Form, before: str = "") -> Line:
    """A title with its text before and behind; the title is cut."""
    room = max(12, form.room - 2 - sum(columns_of(piece.text) for piece in behind) - columns_of(before))
    return (Piece(before + form.cut(title, room), "name"), *behind)


def _id(result: Result) -> str:
    text = safe(result.id)
    return text if columns_of(text) <= LONGEST_ID else f"{text[:15]}…{text[-15:]}"


def write_failed_case(case: Tried, form: Form) -> Iterator[Line]:
    """The trial that decided, and its number if there are several."""
    result = case.deciding
    turns = f"after {count(len(result.turns), 'turn')}"
    if case.trials > 1:
        return write_failure(result, form, f"trial {result.trial} of {case.trials}, {turns}")
    return write_failure(result, form, "" if result.status == "error" else f"failed {turns}")


def failure_words(case: Tried) -> str:
    """The failing trial of a case, shortened: its title, the checks that failed, and the last reply."""
    words = "\n".join(map(plain_text, write_failed_case(case, _OF_WORDS)))
    return f"{words}\n  {case.counted}" if case.trials > 1 else words


def write_failure(result: Result, form: Form, right: str) -> Iterator[Line]:
    yield from title_of(result, form, right)
    found = against(result)
    if result.error is not None and result.status == "error":
        first, *difference = error_lines(result.error.message)
        found = [one for one in found if safe(one.why.split("\n")[0]) not in safe(first)]
        yield from _indented(line((form.cut(safe(first), 4 * form.room), "reason")), form)
        yield from (
            line((f"    {form.cut(printable(row), form.room - 4)}", "quiet")) for row in difference[:MOST_LINES]
        )
    for one in found[:MOST_CHECKS]:
        yield from islice(_indented(_why(one, form), form), 2)
    if len(found) > MOST_CHECKS:
        yield line((f"  and {count(len(found) - MOST_CHECKS, 'more check')}", "quiet"))
    yield from _exchange(result, found, form)
    inner = form if form.width is None else structs.replace(form, width=form.room - 2)
    yield from ((Piece("  "), *row) for row in write_course(view_conversation(result), inner))


def explain(result: Result) -> str:
    """Why a conversation did not pass, in plain text: its checks, the last message and the reply. A conversation that
    passed or was skipped has one line."""
    words = outcome_words(result)
    words = words[0].lower() + words[1:]
    if result.status not in ("failed", "error"):
        return f"{safe(result.id)}: {words}"
    return "\n".join(map(plain_text, write_failure(result, PLAIN, words)))


def _why(one: Against, form: Form) -> Line:
    """In a plan, if it is comes first: `step 2 of 5, party: contains "four": not in the reply`."""
    label = "" if form.symbols else "check: "
    before = (f"{form.cut(safe(one.where), form.room // 2)}: ", "quiet") if one.where else label
    score = "" if one.check is None else _score(one.check)
    behind = f": {form.cut(safe(one.why), 2 * form.room)}{score}"
    return line(before, (form.cut(safe(one.what), form.room), "reason"), behind)


def _indented(row: Line, form: Form) -> Iterator[Line]:
    rows = [row] if form.edge is None else wrap(row, form.edge - 2, 2)
    return ((Piece("  "), *one) for one in rows)


def error_lines(message: str) -> list[str]:
    """An error in one line, and a difference to a recording line by line: it says nothing without them."""
    first, start, difference = message.partition("\n--- recorded\n")
    return [" ".join(first.split()), *(["--- recorded", *difference.split("\n")] if start else ())]


def _score(check: CheckResult) -> str:
    if check.threshold is None or check.score is None:
        return ""
    votes = f", votes {' '.join(f'{vote:.3g}' for vote in check.votes)}" if check.votes else ""
    return f" ({check.score:.2g}, needs {check.threshold:.2g}{votes})"


def _exchange(result: Result, found: Sequence[Against], form: Form) -> Iterator[Line]:
    """What was said last, where it went wrong: the planned turn and its follow-up, or the turn that decided."""
    shown = _shown_turns(result, found)
    for place, turn in enumerate(shown):
        points = [one.points for one in found if one.turn is turn and one.points is not None]
        if turn is caved_at(result):
            points = [check for check in turn.checks if not check.passed]
        indent = "    " if place else "  "
        missing = turn.turn - shown[place - 1].turn - 1 if place else 0
        if missing:
            yield line((f"    {form.dots} {count(missing, 'more turn')}", "quiet"))
        if not place and turn is not result.turns[-1] and found and found[0].where == "conversation":
            words = turn_words(turn, result)
            yield line((f"  turn {turn.turn}{f', {safe(words)}' if words else ''}", "quiet"))
        if place or not _is_title(turn, result):
            yield _asked(turn, result, indent, form)
        yield from _replied(turn, points, indent, form, is_short=len(shown) > 1 and not place)
        if (denied := not_allowed(turn)) is not None:
            yield line((f"{indent}{form.cut(safe(denied), form.room - len(indent))}", "quiet"))


def _shown_turns(result: Result, found: Sequence[Against]) -> list[TurnResult]:
    """One turn, or two: the one that was answered back to, and what came of it."""
    if not result.turns:
        return []
    decided = found[0].turn if found and found[0].turn is not None else None
    last = decided or result.turns[-1]
    caved = caved_at(result)
    if caved is not None and caved.step == last.step:
        return [doubted_turns(result)[0], caved]
    if last.step is not None and last.depth and found and found[0].where != "conversation":
        return [turns_of(result, last.step)[0], last]
    return [last]


def _is_title(turn: TurnResult, result: Result) -> bool:
    """The prompt of a first turn is the title already, unless it is a whole conversation."""
    return turn.turn == 1 and not turn.simulated and (len(result.turns) == 1 or result.name is None)


def _asked(turn: TurnResult, result: Result, indent: str, form: Form) -> Line:
    by_user = result.user is not None and not turn.depth
    label = ("user > " if by_user else "> ") if form.symbols else ("user said: " if by_user else "asked: ")
    room = form.room - len(indent) - len(label)
    return line(indent, (f"{label}{form.cut(safe(turn.prompt), room)}", "quiet"))


def _replied(
    turn: TurnResult, points: Sequence[CheckResult], indent: str, form: Form, *, is_short: bool
) -> Iterator[Line]:
    label = "< " if form.symbols else "replied: "
    if turn.response is None:
        yield line(indent, (f"{label}(no reply)", "quiet"))
        return
    room = form.room - len(indent) - 2
    if is_short:
        said = form.cut(safe(turn.response[:MOST_LOOKED_AT]), room) or "(empty reply)"
        yield line((f"{indent}{label}", "quiet"), said)
        return
    near = places_of(points[0], turn.response) if points else ()
    rows = reply_rows(turn.response, spans_of(points), room, form.dots, near)
    for place, row in enumerate(rows):
        yield (Piece(f"{indent}{label}" if place == 0 else f"{indent}  ", "quiet"), *row)
    if turn.finish_reason == "length":
        yield line((f"{indent}  (cut off: it reached max_tokens)", "quiet"))


def reply_rows(reply: str, spans: Iterable[Span], room: int, dots: str = "…", near: Iterable[Span] = ()) -> list[Line]:
    """A reply in at most five rows, with the places underlined that a check points at. Where such a place would be
    hidden, the part of the reply around it is shown. `near`: the nearest miss, where no check points at a place."""
    if not reply.strip():
        return [line(("(empty reply)", "quiet"))]
    found = sorted(spans)
    places = found or sorted(near)
    rows = _laid_out(reply[:MOST_LOOKED_AT], places, room)
    hidden = reply[MOST_LOOKED_AT:].count("\n")
    if len(rows) <= MOST_ROWS and not hidden:
        return rows if found else [_unmarked(row) for row in rows]
    total = len(rows) + hidden
    seen = next((place for place, row in enumerate(rows) if any(piece.role == "evidence" for piece in row)), None)
    if seen is not None and seen >= FIRST_ROWS and seen < len(rows) - 1:
        after = total - seen - 1
        shown = _around(reply, places, room, dots)
        shown = shown if found else _unmarked(shown)
        return [rows[0], _left_out(seen - 1, dots), shown, *([_left_out(after, dots)] if after else [])]
    if not found:
        rows = [_unmarked(row) for row in rows]
    last = rows[-1] if not hidden else _laid_out(reply.rstrip()[-room:].rsplit("\n", 1)[-1], [], room)[-1]
    return [*rows[:FIRST_ROWS], _left_out(total - FIRST_ROWS - 1, dots), last]


def _unmarked(row: Line) -> Line:
    return tuple(Piece(piece.text, "text" if piece.role == "evidence" else piece.role) for piece in row)


def _around(reply: str, places: Sequence[Span], room: int, dots: str) -> Line:
    """The part of a line of a reply around the first of these places, in one row."""
    low = places[0][0]
    begin, end = reply.rfind("\n", 0, low) + 1, reply.find("\n", low)
    text = reply[begin : end if end >= 0 else None].rstrip("\r")
    if len(text) > room or columns_of(text) > room:
        near = [(max(0, first - begin), last - begin) for first, last in places]
        start, stop = window(text, near, max(room - 2 * len(dots) - 2, 10))
    else:
        start, stop = 0, len(text)
    pieces = (Piece(printable(piece), role) for piece, role in pieces_of(text[start:stop], begin + start, places))
    before = (Piece(f"{dots} ", "quiet"),) if start else ()
    behind = (Piece(f" {dots}", "quiet"),) if stop < len(text) else ()
    return fitted((*before, *pieces, *behind), room)


def _left_out(rows: int, dots: str) -> Line:
    return line((f"{dots} {count(rows, 'more line')}", "quiet"))


def _laid_out(text: str, spans: Sequence[Span], room: int) -> list[Line]:
    rows: list[Line] = []
    start = 0
    for written in text.split("\n"):
        pieces = [Piece(printable(text), role) for text, role in pieces_of(written.rstrip("\r"), start, spans)]
        rows += list(wrap(pieces, room)) if any(piece.text.strip() for piece in pieces) else [()]
        start += len(written) + 1
    while rows and not rows[-1]:
        rows.pop()
    return rows


def pieces_of(text: str, start: int, spans: Sequence[Span]) -> Iterator[Piece]:
    """A raw line of a reply in pieces: the places that its checks point at, and the text between them."""
    place = 0
    for low, high in spans:
        begin, end = max(place, low - start), min(len(text), high - start)
        if begin >= end:
            continue
        if begin > place:
            yield Piece(text[place:begin])
        yield Piece(text[begin:end], "evidence")
        place = end
    if place < len(text):
        yield Piece(text[place:])
