"""Assertions about runs: did everything pass, is the rate high enough, is it no worse than a baseline?

They raise AssertionError with the words of the terminal. No answer is not a good answer: errors, an empty run, an
unfinished run and a run without a rate fail them. If errors are all that a run in quarantine has, they raise NotTested:
that is not the failure that a quarantine expects.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Literal, NoReturn, TypeAlias, cast

from rejoinder.errors import RejoinderError, UsageError
from rejoinder.gates.rules import COMPARING
from rejoinder.library.explaining import explain
from rejoinder.library.rows import CaseVerdict
from rejoinder.model import Result, Summary
from rejoinder.model.figures import NoRate, Rate
from rejoinder.model.runs import TargetSummary
from rejoinder.report.failure import failure_words
from rejoinder.report.gate import result_words, write_rules
from rejoinder.report.styled import Form
from rejoinder.runs.report import RunReport
from rejoinder.spelling import did_you_mean
from rejoinder.views.cases import tried_cases
from rejoinder.words.figures import no_rate_words, quarantine_words, rate_words, sample_words
from rejoinder.words.numbers import count

if TYPE_CHECKING:
    import pytest

RateOf: TypeAlias = Literal["final", "first_try"]
"""The pass rate after all follow-ups, or before any."""
Undecided: TypeAlias = Literal["xfail", "fail"]
MOST_SHOWN = 3
"""Cases whose failures are shown."""
_NAMES = {"final": "final pass rate", "first_try": "first-try pass rate"}
_FORM = Form(symbols=True)


class NotTested(RejoinderError):
    """All conversations of a run are in quarantine, and had errors."""


def hides(info: pytest.ExceptionInfo[BaseException] | None) -> bool:
    """Whether pytest leaves a module of assertions out of a traceback. A mistake in the module itself is shown."""
    return info is None or isinstance(info.value, AssertionError | RejoinderError)


__tracebackhide__ = hides


def assert_passed(found: RunReport | CaseVerdict | Result) -> None:
    """Fail unless a run passed, or one of its cases or results. A case of several trials passes by its own rule; one in
    quarantine does not count."""
    if isinstance(found, CaseVerdict):
        if found.status not in ("passed", "apart"):
            fail(explain(found))
        return
    if isinstance(found, Result):
        if found.status != "passed" or found.is_spoilt:
            fail(explain(found))
        return
    if not isinstance(cast("object", found), RunReport):
        what = f"a report, a case or a result is expected, and not a {type(found).__name__}"
        raise UsageError(what, "Give a report, or one of its `cases` or `results`.")
    refuse_unfinished(found)
    if found.summary.all_in_quarantine:
        fail(quarantine_words(found.summary), found)
    if found.summary.exit_code != 0 or not found.summary.finished:
        fail(_failures(found))


def assert_rate(
    report: RunReport,
    *,
    at_least: float,
    of: RateOf = "final",
    surely: bool = False,
    target: str | None = None,
    variant: str | None = None,
) -> None:
    """Fail unless the pass rate is at least this share (0.9 for 90%). `surely`: the lower end of its interval must be,
    too. `target` or `variant` names one if the run has several."""
    refuse_share(at_least)
    rate = rate_in(report, of, target, variant)
    value = rate.rate if not surely else None if rate.interval is None else rate.interval[0]
    if value is None or value < at_least:
        wanted = f"{at_least:g}{', also as the lower end of the interval' if surely else ''}"
        fail(f"{rate_told(rate, of)}; wanted at least {wanted}", report)


def assert_no_worse(
    report: RunReport,
    baseline: str | RunReport,
    *,
    rules: Sequence[str] = COMPARING,
    cannot_tell: Undecided = "xfail",
) -> None:
    """Fail if the gate says that a run is worse than a baseline. If it cannot tell, the test is an expected failure
    (`pytest.xfail`), which is neither green nor red; with `cannot_tell="fail"` it fails."""
    from rejoinder import api

    refuse_unfinished(report)
    refuse_errors(report.summary, report)
    gate = api.gate(report, against=baseline, rules=rules, partial=True)
    if gate.verdict == "pass":
        return
    rows = ("".join(piece.text for piece in row).rstrip() for row in write_rules(gate, _FORM))
    words = "\n".join((result_words(gate), *rows))
    if gate.verdict == "cannot-tell" and cannot_tell == "xfail":
        import pytest

        pytest.xfail(words)
    fail(words)


def rate_in(report: RunReport, of: RateOf, target: str | None, variant: str | None) -> Rate:
    """The rate of a whole run, or of one target or variant. Fails if there is no honest one."""
    if of not in _NAMES:
        raise UsageError(f"there is no rate of {of!r}", 'Write of="final" or of="first_try".')
    refuse_unfinished(report)
    part = part_of(report.summary, target, variant)
    refuse_errors(part, report)
    found = part.rate
    if isinstance(found, NoRate):
        several = sorted(report.summary.by_target) if len(report.summary.by_target) > 1 else []
        hint = f"; name one with target=: {', '.join(several)}" if found.is_of_several and several else ""
        fail(f"{no_rate_words(found, report.summary.decided)}{hint}", report)
    assert part.rates is not None
    rate = found if of == "final" else part.rates.first_try
    if rate.rate is None:
        fail("no rate: no conversation counts", report)
    return rate


def part_of(summary: Summary, target: str | None, variant: str | None) -> Summary | TargetSummary:
    """The figures of one target, one variant, or of both together; without a name, of the whole run."""
    if target is not None and variant is not None:
        found = next((one for one in summary.by_pair if (one.target, one.variant) == (target, variant)), None)
        if found is not None:
            return found
    for what, name, groups in (("target", target, summary.by_target), ("variant", variant, summary.by_variant)):
        if name is not None and name not in groups:
            raise UsageError(f"the run has no {what} `{name}`{did_you_mean(name, groups)}")
    if target is not None and (variant is None or len(summary.by_variant) < 2):
        return summary.by_target[target]
    return summary if variant is None else summary.by_variant[variant]


def refuse_unfinished(report: RunReport) -> None:
    """Fail for a run that has not run all of its conversations."""
    run, summary = report.run, report.summary
    if run.status != "completed" or summary.unfinished or summary.skipped:
        left = summary.skipped + max(0, summary.unfinished)
        how = "" if run.status == "completed" else f" ({run.status})"
        fail(f"the run is not finished{how}: {count(left, 'conversation')} left; next: rejoinder resume {run.id}")
    if not summary.total:
        fail("the run has no conversation")
    if summary.all_in_quarantine and summary.errors_in_quarantine:
        raise NotTested(f"{quarantine_words(summary)}\n{_failures(report)}")


def refuse_errors(part: Summary | TargetSummary, report: RunReport) -> None:
    if part.errors:
        fail(f"{part.errors:,} of {part.finished:,} ended in an error\n{_failures(report)}")


def refuse_share(share: float) -> None:
    if isinstance(cast("object", share), bool) or not isinstance(cast("object", share), int | float):
        raise UsageError(f"a share is a number, and not a {type(share).__name__}", "Write 0.9 for 90%.")
    if not 0 <= share <= 1:
        raise UsageError(f"{share} is not a share", "Write 0.9 for 90%.")


def rate_told(rate: Rate, of: RateOf = "final") -> str:
    return f"{_NAMES[of]} {rate_words(rate)}, {sample_words(rate)}"


def fail(words: str, report: RunReport | None = None) -> NoReturn:
    """Raise AssertionError. `report`: its first failures are shown below."""
    raise AssertionError(words if report is None else f"{words}\n{_failures(report)}".rstrip())


def _failures(report: RunReport) -> str:
    return "\n".join(_failure_rows(report))


def _failure_rows(report: RunReport) -> Iterator[str]:
    shown = 0
    for case in tried_cases(report):
        if case.status == "passed" or (case.status == "apart" and not report.summary.all_in_quarantine):
            continue
        shown += 1
        if shown <= MOST_SHOWN:
            yield failure_words(case)
    if shown > MOST_SHOWN:
        yield f"and {count(shown - MOST_SHOWN, 'more case')}"
    yield f"run {report.run.id}: rejoinder show {report.run.id}"
