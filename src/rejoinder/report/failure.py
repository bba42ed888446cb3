"""A case that did not pass: which case, which check and why, what was said last, what came back."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice

from rejoinder.model import CheckResult, Result, TurnResult
from rejoinder.report.conversation import describe_check, error_lines
from rejoinder.report.problems import columns_of, printable
from rejoinder.report.styled import Form, Line, Piece, Role, beside, line, mark, safe, wrap
from rejoinder.report.words import count

MOST_ROWS, FIRST_ROWS = 5, 3
"""Rows of a reply that are shown, and of a longer one from its beginning."""
MOST_CHECKS = 3
MOST_SPANS = 200
MOST_LINES = 30
"""Lines of a difference to a recording."""
LONGEST_ID = 32
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
    room = max(12, form.room - 2 - sum(columns_of(piece.text) for piece in behind) - columns_of(before))
    title = Piece(before + form.cut(safe(result.title), room), "name")
    yield from beside((*sign, title, *behind), line((right, "quiet")) if right else (), form.edge)


def _id(result: Result) -> str:
    text = safe(result.id)
    return text if columns_of(text) <= LONGEST_ID else f"{text[:15]}…{text[-15:]}"


def failed_checks(result: Result) -> list[CheckResult]:
    """Those that decided against it, or that could not be graded."""
    return [check for check in result.deciding_checks if not check.passed]


def named(check: CheckResult) -> str:
    return safe(check.name or describe_check(check))


def write_failure(result: Result, form: Form, right: str) -> Iterator[Line]:
    yield from title_of(result, form, right)
    checks = failed_checks(result)
    if result.error is not None and result.status == "error":
        first, *difference = error_lines(result.error)
        checks = [check for check in checks if safe(check.reason.split("\n")[0]) not in safe(first)]
        yield from _indented(line((form.cut(safe(first), 4 * form.room), "reason")), form)
        yield from (
            line((f"    {form.cut(printable(row), form.room - 4)}", "quiet")) for row in difference[:MOST_LINES]
        )
    for check in checks[:MOST_CHECKS]:
        yield from islice(_indented(_why(check, form), form), 2)
    if len(checks) > MOST_CHECKS:
        yield line((f"  and {count(len(checks) - MOST_CHECKS, 'more check')}", "quiet"))
    if result.turns:
        yield from _said(result.turns[-1], checks, form, is_first=len(result.turns) == 1)


def _why(check: CheckResult, form: Form) -> Line:
    label, name = "" if form.symbols else "check: ", form.cut(named(check), form.room)
    return line(label, (name, "reason"), f": {form.cut(safe(check.reason), 2 * form.room)}{_score(check)}")


def _indented(row: Line, form: Form) -> Iterator[Line]:
    rows = [row] if form.edge is None else wrap(row, form.edge - 2, 2)
    return ((Piece("  "), *one) for one in rows)


def spans_of(checks: Iterable[CheckResult]) -> Iterator[tuple[int, int]]:
    """Where checks, or those inside them, found or missed what they want; the first ones of very many."""
    return islice(_all_spans(checks), MOST_SPANS)


def _all_spans(checks: Iterable[CheckResult]) -> Iterator[tuple[int, int]]:
    for check in checks:
        yield from check.spans
        yield from _all_spans(check.children)


def _score(check: CheckResult) -> str:
    if check.threshold is None or check.score is None:
        return ""
    votes = f", votes {' '.join(f'{vote:.3g}' for vote in check.votes)}" if check.votes else ""
    return f" ({check.score:.2g}, needs {check.threshold:.2g}{votes})"


def _said(turn: TurnResult, checks: Sequence[CheckResult], form: Form, *, is_first: bool) -> Iterator[Line]:
    """The prompt of a first turn is the title already, unless it is a whole conversation."""
    asked, replied = ("> ", "< ") if form.symbols else ("asked: ", "replied: ")
    if not is_first:
        yield line("  ", (f"{asked}{form.cut(safe(turn.prompt), form.room - 4)}", "quiet"))
    if turn.response is None:
        yield line("  ", (f"{replied}(no reply)", "quiet"))
        return
    rows = reply_rows(turn.response, spans_of(checks), form.room - 4, form.dots)
    for place, row in enumerate(rows):
        yield (Piece(f"  {replied}" if place == 0 else "    ", "quiet"), *row)
    if turn.finish_reason == "length":
        yield line(("    (cut off: it reached max_tokens)", "quiet"))


def reply_rows(reply: str, spans: Iterable[tuple[int, int]], room: int, dots: str = "…") -> list[Line]:
    """A reply in at most five rows, with the places underlined that a check points at. Where such a place would be
    hidden, its row is shown."""
    if not reply.strip():
        return [line(("(empty reply)", "quiet"))]
    rows = _laid_out(reply[:MOST_LOOKED_AT], sorted(spans), room)
    hidden = reply[MOST_LOOKED_AT:].count("\n")
    if len(rows) <= MOST_ROWS and not hidden:
        return rows
    total = len(rows) + hidden
    seen = next((place for place, row in enumerate(rows) if any(piece.role == "evidence" for piece in row)), None)
    if seen is not None and seen >= FIRST_ROWS and seen < len(rows) - 1:
        after = total - seen - 1
        return [rows[0], _left_out(seen - 1, dots), rows[seen], *([_left_out(after, dots)] if after else [])]
    last = rows[-1] if not hidden else _laid_out(reply.rstrip()[-room:].rsplit("\n", 1)[-1], [], room)[-1]
    return [*rows[:FIRST_ROWS], _left_out(total - FIRST_ROWS - 1, dots), last]


def _left_out(rows: int, dots: str) -> Line:
    return line((f"{dots} {count(rows, 'more line')}", "quiet"))


def _laid_out(text: str, spans: Sequence[tuple[int, int]], room: int) -> list[Line]:
    rows: list[Line] = []
    start = 0
    for written in text.split("\n"):
        pieces = list(pieces_of(written.rstrip("\r"), start, spans))
        rows += list(wrap(pieces, room)) if any(piece.text.strip() for piece in pieces) else [()]
        start += len(written) + 1
    while rows and not rows[-1]:
        rows.pop()
    return rows


def pieces_of(text: str, start: int, spans: Sequence[tuple[int, int]]) -> Iterator[Piece]:
    """A line of a reply, with what its checks point at apart."""
    place = 0
    for low, high in spans:
        begin, end = max(place, low - start), min(len(text), high - start)
        if begin >= end:
            continue
        if begin > place:
            yield Piece(printable(text[place:begin]))
        yield Piece(printable(text[begin:end]), "evidence")
        place = end
    if place < len(text):
        yield Piece(printable(text[place:]))
