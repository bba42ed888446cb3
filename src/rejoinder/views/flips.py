"""Cases whose verdicts changed since a baseline: before, now, and what the target says now."""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct

from rejoinder.model import CaseChanges, ChangedCase, TrialCounts
from rejoinder.model.clusters import ClusterKey
from rejoinder.model.figures import GateResult, RuleVerdict
from rejoinder.views.cases import Run, name_of, tried_cases
from rejoinder.views.reasons import said_of
from rejoinder.words.numbers import count

MOST_FLIPS = 100
LONGEST_SAID = 80
"""Characters of a reply in a row."""


class FlipRow(Struct, frozen=True):
    address: str
    """`refund`; `refund / small / terse` in a run of several targets and variants."""
    before: str
    """`passed`, `3 of 5 passed`"""
    now: str
    broke: bool
    """True if a smaller share of its trials passed than before."""
    said: str
    """Of the reply that decided; empty if there is none."""


class Flips(Struct, frozen=True):
    rows: tuple[FlipRow, ...] = ()
    """Broken cases before fixed ones, clear changes first."""
    left: int = 0
    """Changes without a row."""
    broke: int = 0
    """Cases with a smaller share of passed trials than before, including those without a row."""


NO_FLIPS = Flips()


class SinceBaseline(Struct, frozen=True):
    """A run compared with a baseline: the changed cases, and the decision of the gate."""

    name: str
    changes: CaseChanges
    gate: GateResult
    flips: Flips = NO_FLIPS
    known: frozenset[ClusterKey] | None = None
    """The clusters of the run of the baseline; None if that run is not here."""
    changed: tuple[str, ...] = ()
    """The differences from the inputs of the baseline's run, in words."""
    run: str = ""
    """The run of the baseline."""


def flips_since(changes: CaseChanges, run: Run, most: int = MOST_FLIPS) -> Flips:
    """The changes of a run, with the replies of the first `most` of them, in one walk."""
    ranked = sorted(changes.changed, key=lambda one: (not one.broke, not one.is_clear))[:most]
    rows = {one.case: one for one in ranked}
    found: dict[ChangedCase, FlipRow] = {}
    for tried in tried_cases(run) if rows else ():
        one = rows.pop(tried.first.case, None)
        if one is not None:
            found[one] = FlipRow(
                name_of(tried.first, run), *_verdicts(one), one.broke, said_of(tried.deciding, LONGEST_SAID)
            )
        if not rows:
            break
    shown = tuple(found[one] for one in ranked if one in found)
    broke = sum(one.broke for one in changes.changed)
    return Flips(shown, len(changes.changed) - len(shown), broke)


def _verdicts(one: ChangedCase) -> tuple[str, str]:
    again = "" if one.again is None else f"; asked again: {_several(one.again)}"
    return counts_words(one.before), f"{counts_words(one.now)}{again}"


def counts_words(counts: TrialCounts) -> str:
    """`passed`, `error`; of several trials `3 of 5 passed, 1 error`"""
    if counts.total != 1:
        return _several(counts)
    return "passed" if counts.passed else "failed" if counts.failed else "error"


def _several(counts: TrialCounts) -> str:
    decided = counts.passed + counts.failed
    passed = [f"{counts.passed:,} of {decided:,} passed"] if decided else []
    return ", ".join([*passed, *([count(counts.errors, "error")] if counts.errors else [])])


_VERDICTS: dict[RuleVerdict, str] = {
    "fail": "Worse than NAME: ",
    "pass": "Not worse than NAME: ",
    "cannot-tell": "Worse than NAME or not: we cannot tell; ",
}


def since_words(since: SinceBaseline, named: Callable[[str], str] = str) -> str:
    """`Worse than main or not: we cannot tell; 9 broke, 5 fixed, 7 same`. `named` marks the name, which
    others wrote."""
    return f"{_VERDICTS[since.gate.verdict].replace('NAME', named(since.name))}{changes_words(since.changes)}"


def changes_words(found: CaseChanges) -> str:
    """`2 broke, 0 fixed, 31 same, 1 cannot tell`"""
    always = {"broke": found.worse, "fixed": found.better, "same": found.same}
    others = {"cannot tell": found.cannot_tell, "new": found.new, "missing": found.missing}
    shown = {**always, **{word: number for word, number in others.items() if number}}
    return ", ".join(f"{number:,} {word}" for word, number in shown.items())
