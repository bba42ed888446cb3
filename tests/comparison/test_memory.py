"""Comparing takes the same memory for any number of cases, in whatever order, and has the same figures as ever."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterator
from hashlib import sha256
from random import Random
from typing import Any

import msgspec
import pytest
from msgspec import structs

from rejoinder.comparison import table
from rejoinder.comparison.sides import Side
from rejoinder.errors import RejoinderError
from rejoinder.exports.comparison_json import write_comparisons_json
from rejoinder.model import Result
from rejoinder.report.comparison import write_comparison
from rejoinder.runs.summary import summarise
from tests.comparison.sides import compare_sides, one
from tests.report.exports import check, receipt, turn

FEW, MANY = 200, 1500
BOUND = 60
"""Bytes of a further case. Up to 2,000 cases that differ are tested exactly, which takes some."""


class Cases:
    """Results that are made when they are read, as those of a run folder are."""

    def __init__(self, cases: int, *, breaks: int, renames: bool = False, step: int = 1) -> None:
        self._cases, self._breaks, self._renames, self._step = cases, breaks, renames, step

    def __iter__(self) -> Iterator[Result]:
        for place in range(self._cases):
            number = place * self._step % self._cases
            case = one(f"c{number}", "f" if number % self._breaks == 0 else "p", number=place + 1, tags=("all",))
            case = structs.replace(case, cost=number / 7)
            yield structs.replace(case, id=f"new{number}") if self._renames and number % 3 == 0 else case


def peak_of(cases: int, *, in_order: bool) -> int:
    """The most memory that a comparison and its text and JSON take, in bytes."""
    other = Cases(cases, breaks=3) if in_order else Cases(cases, breaks=3, renames=True, step=7)
    tracemalloc.start()
    try:
        found = compare_sides(Side("A", Cases(cases, breaks=5)), Side("B", other))
        for _ in write_comparison(found):
            pass
        for _ in write_comparisons_json([found]):
            pass
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.slow
@pytest.mark.parametrize("in_order", [True, False])
def test_memory_does_not_grow_with_cases(in_order: bool) -> None:
    """A third of the cases flip; out of order, a third of them has other names, too."""
    peak_of(FEW, in_order=in_order)  # what is imported and cached counts for neither
    few, many = (peak_of(cases, in_order=in_order) for cases in (FEW, MANY))
    grown = (many - few) / (MANY - FEW)
    assert grown < BOUND, f"{grown:.0f} bytes for each further case"


@pytest.mark.slow
def test_counting_a_run_does_not_grow_with_cases() -> None:
    def peak(cases: int) -> int:
        run, results = receipt(planned=cases), Cases(cases, breaks=3)
        tracemalloc.start()
        try:
            summarise(results, run)
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    peak(MANY)  # what is imported and cached counts for neither
    grown = (peak(MANY) - peak(FEW)) / (MANY - FEW)
    assert grown < 80, f"{grown:.0f} bytes for each further case"  # scores and times, sorted for their median


def test_a_full_disk_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table, "SCHEMA", f"{table.SCHEMA}; PRAGMA max_page_count = 20")
    with pytest.raises(RejoinderError, match="cannot be compared: database or disk is full") as caught:
        compare_sides(Side("A", Cases(FEW, breaks=5)), Side("B", Cases(FEW, breaks=3)))
    assert caught.value.exit_code == 3


# The figures of small runs, as they were when all cases were kept in memory.


def small_run(draw: Random, cases: int, trials: list[int], targets: list[str], new: str) -> list[Result]:
    results: list[Result] = []
    for number in range(cases):
        if draw.random() < 0.05:
            continue
        name, asked = f"c{number}" if draw.random() > 0.05 else f"{new}{number}", one(f"c{number}", "p").raw_request
        tags = tuple(tag for tag in ("hard", "easy") if draw.random() < 0.5)
        for target in targets:
            rate = draw.random()
            for trial in range(1, draw.choice(trials) + 1):
                outcome = draw.choices("prfges", [rate * 4 + 0.1, 1, 2, 1, 0.3, 0.2])[0]
                result = one(name, outcome, trial, number=number + 1, target=target, tags=tags, raw_request=asked)
                results.append(spent(draw, structs.replace(result, file=f"{number % 3}.yaml"), judged=number % 2 > 0))
    return results


def spent(draw: Random, result: Result, *, judged: bool) -> Result:
    """With costs, times, votes of a judge and controls."""
    turns = tuple(
        structs.replace(said, duration_s=draw.random(), checks=(check(said.passed, judge=judge, votes=votes),))
        for said in result.turns
        for judge, votes in [("judge" if judged else None, tuple(draw.random() for _ in range(draw.choice([1, 2, 3]))))]
    )
    again = any(said.depth for said in turns) and draw.random() < 0.4
    control = turn("yes", passed=draw.random() < 0.5) if again else None
    return structs.replace(result, cost=draw.random() / 7, turns=turns, control=control)


@pytest.mark.parametrize(
    ("seed", "cases", "trials", "targets", "digest"),
    [
        (1, 40, [1], ["demo"], "e9fac8d556622870"),
        (2, 30, [1, 2, 3], ["demo"], "5292330221114b5d"),
        (3, 25, [7, 8], ["demo"], "79d0409e4468edce"),
        (4, 30, [1, 3], ["x", "y"], "1795772df2c7d466"),
        (5, 1, [5], ["demo"], "e98fcc1d0cbb0451"),
    ],
)
def test_figures_are_those_of_all_cases_in_memory(
    seed: int, cases: int, trials: list[int], targets: list[str], digest: str
) -> None:
    draw = Random(seed)
    a, b = (small_run(draw, cases, trials, targets, new) for new in "ab")
    document = compare_sides(Side("A", a), Side("B", b), shown=3).document()
    del document["same_words"]  # it was counted with a digest that is too weak
    for name in ("verdict", "by_tag", "net_recovery", "first_try", "eventual", "by_condition"):
        del document[name]  # what statistics make of the counts has tests of its own
    document["by_target"] = [one["name"] for one in document["by_target"]]
    assert sha256(msgspec.json.encode(rounded(document))).hexdigest()[:16] == digest


def rounded(value: Any) -> Any:
    """Versions of Python differ in the last digits of a sum."""
    if isinstance(value, dict):
        return {name: rounded(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [rounded(part) for part in value]
    return f"{value:.10g}" if isinstance(value, float) else value
