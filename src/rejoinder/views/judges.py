"""Judges of a run: how each is called, and how reliable it is."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from msgspec import Struct

from rejoinder.model.runs import JudgeSummary
from rejoinder.words.numbers import coefficient, count, figure, share


class JudgeRow(Struct, frozen=True, kw_only=True):
    digest: str
    title: str
    """Its model and its name; it tells the judges of a run apart."""
    model: str
    target: str
    name: str
    """Empty if the author gave it none."""
    check: str
    judged: int
    passed: str
    """`10 of 12`: first replies that it was asked about."""
    errors: str
    """`1 error`; empty if there are none."""
    reliability: str
    is_calibrated: bool


def judge_rows(judges: Sequence[JudgeSummary]) -> list[JudgeRow]:
    """The judges that were asked."""
    asked = [judge for judge in judges if judge.judged or judge.errors]
    return [_row(judge, title) for judge, title in zip(asked, judge_titles(asked), strict=True)]


def _row(judge: JudgeSummary, title: str) -> JudgeRow:
    return JudgeRow(
        digest=judge.digest,
        title=title,
        model=judge.model,
        target=judge.target,
        name=judge.name or "",
        check=judge.check,
        judged=judge.judged,
        passed=f"{figure(judge.passed)} of {figure(judge.judged)}",
        errors=count(judge.errors, "error") if judge.errors else "",
        reliability=reliability_words(judge),
        is_calibrated=judge.passport is not None,
    )


def reliability_words(judge: JudgeSummary) -> str:
    """`agrees with humans on 90%, kappa 0.78 (40 labels)`; `uncalibrated` if it was never tested."""
    passport = judge.passport
    if passport is None:
        return "uncalibrated"
    figures = passport.figures
    parts = [f"agrees with humans on {share(figures.agreement)}"] if figures.agreement is not None else []
    parts += [f"kappa {coefficient(figures.kappa)}"] if figures.kappa is not None else []
    return f"{', '.join(parts) or 'tested'} ({count(passport.labels, 'label')})"


def reliability_of(judges: Iterable[JudgeSummary]) -> dict[str, str]:
    """The reliability of judges by their digests."""
    return {judge.digest: reliability_words(judge) for judge in judges}


def judge_titles(judges: Sequence[JudgeSummary]) -> list[str]:
    """The names of judges beside their criteria; those that read alike, because they differ in votes or the threshold,
    with the beginning of their digests."""
    names = [", ".join(filter(None, (judge.model or judge.target, judge.name))) for judge in judges]
    alike = Counter((name, judge.check) for name, judge in zip(names, judges, strict=True))
    return [
        f"{name} ({judge.digest[:6]})" if alike[name, judge.check] > 1 else name
        for name, judge in zip(names, judges, strict=True)
    ]
