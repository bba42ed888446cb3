"""What a run would ask and cost, at least and at most, without anything being sent."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from rejoinder.model.estimates import RunBounds, TargetBounds
from rejoinder.report.styled import EMPTY, Commands, Form, Line, beside, command_rows, line, paragraph, safe
from rejoinder.report.tables import Column, write_table
from rejoinder.words.numbers import count, money_span, span, thousands

MOST_NAMED = 3
MOST_TOOLS = 10


def write_estimate(found: RunBounds, form: Form, commands: Commands = (), *, quiet: bool = False) -> Iterator[Line]:
    """`quiet`: only the result, and what to type next."""
    if not quiet:
        yield from write_table(_columns(found, form), form)
        yield EMPTY
        for text in _notes(found):
            yield from paragraph(line((text, "quiet")), form)
        for text in _warnings(found):
            yield from paragraph(line(("! " if form.symbols else "WARN ", "warn"), (text, "warn")), form)
        yield EMPTY
    least, most = found.cost
    cost = f" for {money_span(least, most)}" if least is not None else "; no price is known"
    result = line((f"would run {count(found.conversations, 'conversation')}{cost}", "name"))
    yield from beside(result, line(("nothing was sent", "quiet")), form.edge)
    if form.commands:
        yield from command_rows(commands, form.edge)


def _columns(found: RunBounds, form: Form) -> list[Column]:
    rows = [*found.targets]
    if found.embedding_calls[1]:
        rows.append(TargetBounds(name="embeddings", calls=found.embedding_calls))
    number = thousands if form.symbols else "{:,}".format
    return [
        Column(title="target", cells=[_name(row) for row in rows]),
        Column(
            title="cases",
            cells=[line("" if row.cases is None else f"{row.cases:,}") for row in rows],
            right=True,
            leaves=2,
        ),
        Column(
            title="calls",
            cells=[line(span(*map("{:,}".format, row.calls))) for row in rows],
            right=True,
            leaves=3,
        ),
        Column(
            title="tokens sent",
            cells=[
                line("" if row.tokens is None else _tokens(number(row.tokens[0]), row.tokens[1], number))
                for row in rows
            ],
            right=True,
            leaves=1,
        ),
        Column(
            title="cost",
            cells=[line("" if row.tokens is None else money_span(*row.cost)) for row in rows],
            right=True,
        ),
    ]


def _name(row: TargetBounds) -> Line:
    name = (safe(row.name), "name" if row.tokens is not None else "text")
    return line(name) if row.role == "candidate" else line((f"{row.role} ", "quiet"), name)


def _tokens(least: str, most: int | None, number: Callable[[int], str]) -> str:
    return f"{least} or more" if most is None else span(least, number(most))


def _notes(found: RunBounds) -> Iterator[str]:
    is_paid = any(row.cost != (0, 0) for row in found.targets)
    replies = " (reply tokens not counted)" if is_paid else ""
    longest = ", and every reply has max_tokens" if is_paid else ""
    yield f"minimum: every first reply passes{replies}; maximum: every follow-up is sent{longest}"
    if names := list(dict.fromkeys(name for row in found.targets for name in row.tools)):
        shown = f"{', '.join(map(safe, names[:MOST_TOOLS]))}{' and more' if len(names) > MOST_TOOLS else ''}"
        yield f"tools: {shown}; what they answer is not in the tokens, and `rejoinder tools` lists them"
    if found.embedding_calls[1]:
        yield "embeddings are not in the cost; equal texts are asked for once"


def _warnings(found: RunBounds) -> Iterator[str]:
    unknown = [row for row in found.targets if row.cost[0] is None]
    unbounded = [row for row in found.targets if row.cost[0] is not None and row.cost[1] is None]
    if called := [row for row in unbounded if row.tools]:
        yield f"the most of {_named(called)} is not known, because what tools answer is sent as well; set a budget"
    unbounded = [row for row in unbounded if not row.tools]
    if unknown:
        yield f"no price is known of {_named(unknown)}; `prices` in the configuration sets one"
    if targets := [row for row in unbounded if row.role == "candidate"]:
        yield f"the most of {_named(targets)} is not known; set `max_tokens` to bound it"
        return
    for role in ("judge", "user"):
        if rows := [row for row in unbounded if row.role == role]:
            yield f"the most of {_named(rows)} is not known; set the {role}'s `max_tokens` to bound it"


def _named(rows: Sequence[TargetBounds]) -> str:
    names = ", ".join(safe(row.name) for row in rows[:MOST_NAMED])
    return f"{names} and {len(rows) - MOST_NAMED:,} more" if len(rows) > MOST_NAMED else names
