"""The truth tables of docs/guides/conversation-checks.md, held against the rules."""

from __future__ import annotations

import re

import pytest

from rejoinder.engine.over_time import OVER_TIME
from tests.kit import ROOT

PAGE = (ROOT / "docs/guides/conversation-checks.md").read_text(encoding="utf-8")


def rows_of(title: str) -> list[list[str]]:
    """The rows of a table, the names of its columns first."""
    table = PAGE.partition(f"<!-- truth table: {title} -->")[2].strip().partition("\n\n")[0]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines()]
    return [rows[0], *rows[2:]]


def states_of(cell: str) -> list[str]:
    return [] if cell == "none" else cell.split(", ")


def decide(rule: str, *checks: list[str], turn: int | None = None) -> str:
    """What a rule says, given what each of its checks says of each reply."""
    asked = OVER_TIME[rule](range(1, len(checks[0]) + 1), turn)
    try:
        place, which = next(asked)
        while True:
            place, which = asked.send(checks[which][place - 1])  # type: ignore[arg-type] - states, as the page has them
    except StopIteration as stop:
        return stop.value[0]


CASES = [
    (rule, [states_of(row[0])], wanted)
    for heads, *rows in [rows_of("one check")]
    for row in rows
    for rule, wanted in zip(heads[1:], row[1:], strict=True)
] + [
    (name, [states_of(row[0]), states_of(row[1])], row[2]) for name in ("after", "before") for row in rows_of(name)[1:]
]


@pytest.mark.parametrize(("rule", "checks", "wanted"), CASES, ids=str)
def test_the_page_says_what_the_rules_do(rule: str, checks: list[list[str]], wanted: str) -> None:
    name, _, turn = rule.partition(" ")
    assert decide(name, *checks, turn=int(turn) if turn else None) == wanted


def test_every_rule_has_a_table() -> None:
    assert {re.sub(r" \d+", "", rule) for rule, _, _ in CASES} == set(OVER_TIME)
    assert len(CASES) > 50
