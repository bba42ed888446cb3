"""The matchers of vibecheck as functions: all passed, a rate above or below a bound, numbers that passed or failed.

Above and below are strict, as there. Unlike there, a run without conversations, with errors or without a rate fails all
of them.
"""

from __future__ import annotations

from rejoinder.runs.report import RunReport
from rejoinder.testing.assertions import (
    assert_passed,
    fail,
    hides,
    part_of,
    rate_in,
    rate_told,
    refuse_errors,
    refuse_share,
    refuse_unfinished,
)

__tracebackhide__ = hides
assert_all_passed = assert_passed


def assert_rate_above(report: RunReport, share: float, *, target: str | None = None) -> None:
    """Fail unless the final pass rate is above this share, of the run or of one target."""
    refuse_share(share)
    rate = rate_in(report, "final", target, None)
    if rate.rate is None or rate.rate <= share:
        fail(f"{rate_told(rate)}; wanted above {share:g}", report)


def assert_rate_below(report: RunReport, share: float, *, target: str | None = None) -> None:
    """Fail unless the final pass rate is below this share, of the run or of one target."""
    refuse_share(share)
    rate = rate_in(report, "final", target, None)
    if rate.rate is None or rate.rate >= share:
        fail(f"{rate_told(rate)}; wanted below {share:g}")


def assert_passed_count(report: RunReport, number: int, *, target: str | None = None) -> None:
    """Fail unless exactly this number of conversations passed."""
    _compare_count(report, "passed", number, target)


def assert_failed_count(report: RunReport, number: int, *, target: str | None = None) -> None:
    """Fail unless exactly this number of conversations failed."""
    _compare_count(report, "failed", number, target)


def _compare_count(report: RunReport, what: str, number: int, target: str | None) -> None:
    refuse_unfinished(report)
    part = part_of(report.summary, target, None)
    refuse_errors(part, report)
    found = part.passed if what == "passed" else part.failed
    if found != number or not part.finished:
        fail(f"{found:,} of {part.finished:,} {what}; wanted {number:,}", report)
