"""Targets that were tried with one call: which answer, how fast, at which price, and what the others lack."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec import Struct

from rejoinder.report.styled import (
    EMPTY,
    Commands,
    Form,
    Line,
    Piece,
    beside,
    command_rows,
    line,
    mark,
    paragraph,
    safe,
)
from rejoinder.report.tables import Column, write_table
from rejoinder.words.numbers import count, money, plural, seconds


class Tried(Struct, frozen=True, kw_only=True):
    """A target after its call."""

    name: str
    model: str
    """`openai/gpt-5-mini`, `python bot:reply`."""
    seconds: float | None = None
    """How long the answer took; None if there was none."""
    trouble: str = ""
    """Why there was none, in a word or two."""
    problem: str = ""
    """The same in a sentence, with where what is missing was looked for."""
    price: str = ""
    place: str = ""
    """The file that defines it, with its line."""
    notes: tuple[str, ...] = ()
    """What else the answer told: limits that are left, the size of a vector."""
    cost: float | None = None


def price_words(price: tuple[float, float] | None) -> str:
    """Dollars per million tokens, in and out: `$0.25 in, $2 out`."""
    if price is None:
        return "no price"
    if price == (0, 0):
        return "$0"
    given, made = (money(amount).removesuffix(".00") for amount in price)
    return f"{given} in, {made} out"


def write_targets(tried: Sequence[Tried], commands: Commands, form: Form) -> Iterator[Line]:
    yield from write_table(list(_columns(tried, form)), form)
    notes = [(one.name, note) for one in tried for note in one.notes]
    for name, note in notes:
        yield from paragraph(line((f"{safe(name)}: {note}", "quiet")), form)
    yield EMPTY
    failed = [one for one in tried if one.seconds is None]
    for one in failed:
        yield from paragraph(line((f"{safe(one.name)}: ", "name"), (safe(one.problem), "reason")), form)
    if failed:
        yield EMPTY
    spent = sum(one.cost or 0 for one in tried)
    told = line((f"{money(spent)} spent", "quiet")) if spent else ()
    yield from beside(_result(len(failed), len(tried), form), told, form.edge)
    if form.commands:
        yield from command_rows(commands, form.edge)


def _columns(tried: Sequence[Tried], form: Form) -> Iterator[Column]:
    names = [(*mark("✗" if one.seconds is None else "✓", form), Piece(safe(one.name), "name")) for one in tried]
    yield Column(title="  target" if form.symbols else "     target", cells=names)
    yield Column(title="model", cells=[line(safe(one.model)) for one in tried], leaves=3)
    yield Column(title="answer", cells=[_answer(one) for one in tried])
    yield Column(title="price per 1M", cells=[line((one.price, "quiet")) for one in tried], leaves=2)
    yield Column(title="from", cells=[line((safe(one.place), "quiet")) for one in tried], leaves=1)


def _answer(one: Tried) -> Line:
    if one.seconds is None:
        return line((safe(one.trouble), "reason"))
    return line(seconds(one.seconds) if one.seconds >= 0.0005 else "at once")


def _result(failed: int, total: int, form: Form) -> Line:
    if failed:
        text = plural(total, "the target cannot be used", f"{failed:,} of {count(total, 'target')} cannot be used")
        return (*mark("✗", form), Piece(text, "fail"))
    return (*mark("✓", form), Piece(f"{count(total, 'target answers', 'targets answer')}", "pass"))
