"""The walk through a run keeps a bounded number of cases."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterator

import pytest

from rejoinder.model import Result
from rejoinder.views.walk import MOST_FAILED, MOST_ROWS, look_through
from tests.report.exports import MadeRun, failed, made_run, result


class ManyFailures:
    """Results that are made as they are read: each case fails on one of two targets."""

    def __init__(self, cases: int) -> None:
        self._cases = cases

    def __iter__(self) -> Iterator[Result]:
        for number in range(self._cases):
            yield failed(f"case-{number}", "no " * 200, number=number)
            yield result(f"case-{number}", target="other", number=number)


def run_of(cases: int) -> MadeRun:
    few = made_run(ManyFailures(2))
    return MadeRun(few.run, few.summary, ManyFailures(cases))  # type: ignore[arg-type]


def test_the_grid_has_the_first_cases_and_counts_the_others() -> None:
    found = look_through(run_of(100))
    assert list(found.grid) == [("suites/evals.yaml", f"case-{number}") for number in range(MOST_ROWS)]
    assert all(set(row) == {"demo", "other"} for row in found.grid.values())
    assert found.others == 100 - MOST_ROWS
    assert (len(found.failed.shown), found.failed.number) == (MOST_FAILED, 100)


def peak_of(cases: int) -> int:
    run = run_of(cases)
    tracemalloc.start()
    try:
        look_through(run)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.slow
def test_memory_does_not_grow_with_what_failed() -> None:
    few, many = peak_of(2_000), peak_of(8_000)
    assert many < 1.1 * few, (few, many)
