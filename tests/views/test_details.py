"""All figures of a run."""

from __future__ import annotations

from rejoinder.views.details import details_of
from tests.report.exports import failed, made_run, result


def test_scores_that_say_what_verdicts_say_are_left_out() -> None:
    """A score of 0 or 1 for each case is its verdict."""
    plain = made_run([*(result(f"a{number}") for number in range(5)), failed("b"), failed("c")])
    assert "score" not in [detail.label for detail in details_of(plain.run, plain.summary)]
    parts = made_run([*(result(f"a{number}") for number in range(5)), result("half", score=0.5)])
    [line, *_] = next(detail.lines for detail in details_of(parts.run, parts.summary) if detail.label == "score")
    assert line.startswith("mean 0.917")
