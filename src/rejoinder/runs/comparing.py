"""Recorded runs chosen for a comparison, and compared."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from math import isfinite
from typing import Any, Literal, NamedTuple, cast

import msgspec
from msgspec import Struct, structs

from rejoinder.comparison.compare import compare_pairs
from rejoinder.comparison.sides import Side
from rejoinder.errors import UsageError
from rejoinder.model import Receipt
from rejoinder.model.cases import lone_names
from rejoinder.model.comparisons import ComparedRun, RunComparison, TargetComparison
from rejoinder.model.figures import MARGIN, Comparison
from rejoinder.run_files import RunDamaged
from rejoinder.runs.changes import changes_between
from rejoinder.runs.folder import RunFolder, latest_first, list_runs, listed_receipt
from rejoinder.runs.recorded import RecordedRun, open_recorded
from rejoinder.runs.report import RunReport
from rejoinder.runs.state import state_of


class Wanted(Struct, frozen=True):
    """How runs are compared."""

    margin: float = MARGIN
    """What counts as no difference."""
    shown: int = 50
    """Of so many cases that broke, and that were fixed, replies are kept."""


USUAL = Wanted()


def runs_to_compare(names: Sequence[str], *, trust: bool = False) -> list[RecordedRun]:
    """The runs that are named. Of none, the latest two of the same suites; of one, it and the latest run of its suites,
    or the one before it if it is the latest itself. Runs of only what had failed are passed over if there are
    others."""
    named = [open_recorded(name, trust=trust) for name in names]
    if len(named) > 1:
        return named
    one = named[0] if named else open_recorded(None, trust=trust)
    others = list(_like(one))
    whole = [folder for folder in others if not _is_of_failed(listed_receipt(folder))]
    if not named and len(whole) > 1 and _is_of_failed(one.folder.read_receipt()):
        one = open_recorded(str(whole.pop(0).path), trust=trust)
    found = next(iter(whole or others), None)
    if found is None:
        raise UsageError(
            f"there is no other run of the suites of {one.folder.id} to compare it with",
            "Run them once more, or name two runs: `rejoinder compare A B`. `rejoinder runs` lists them."
            " `--targets` and `--variants` compare the targets and variants of one run.",
        )
    other = open_recorded(str(found.path), trust=trust)
    return [one, other] if found.id > one.folder.id else [other, one]


def _is_of_failed(receipt: Receipt | None) -> bool:
    """Did it run only what had failed before? Then it says nothing about a change."""
    return receipt is not None and receipt.reported.failed_from is not None


def _like(run: RecordedRun) -> Iterator[RunFolder]:
    """The other runs of the project that ran the same suites, newest first: no forks, and none that still run."""
    wanted = _suites_of(run.folder.read_receipt())
    for folder in latest_first(list_runs(run.root)):
        suites = _suites_of(listed_receipt(folder))
        if folder.id == run.folder.id or suites is None or suites != wanted:
            continue
        if state_of(folder).status != "running":
            yield folder


def _suites_of(receipt: Receipt | None) -> frozenset[str] | None:
    return None if receipt is None else frozenset(suite.path for suite in receipt.suites)


def compare_all(runs: Iterable[RunReport], wanted: Wanted = USUAL) -> list[RunComparison]:
    """Each run against the first."""
    first, *others = runs
    return _compare([_chosen(first, other) for other in others], wanted)


def compare_reports(a: RunReport, b: RunReport, wanted: Wanted = USUAL) -> RunComparison:
    """Where each run asked one target, and not the same, these are compared with each other; likewise variants."""
    [found] = _compare([_chosen(a, b)], wanted)
    return found


def _chosen(a: RunReport, b: RunReport) -> tuple[_Chosen, _Chosen]:
    targets = lone_names(list(a.summary.by_target), list(b.summary.by_target))
    variants = lone_names(list(a.summary.by_variant) or [""], list(b.summary.by_variant) or [""])
    return _Chosen(a, targets[0], variants[0]), _Chosen(b, targets[1], variants[1])


class Part(Struct, frozen=True):
    """What the conversations of one run are told apart by."""

    field: Literal["target", "variant"]
    fault: str
    """What is said of a run that has less than two."""
    hint: str


TARGETS = Part(
    "target",
    "asked one target, and there is nothing to compare it with",
    "Run several at once: `rejoinder run -m a,b`.",
)
VARIANTS = Part(
    "variant",
    "has no two variants to compare",
    "A suite has them under `variants`, and `rejoinder run` runs all of them.",
)


def compare_parts(report: RunReport, part: Part, wanted: Wanted = USUAL) -> list[RunComparison]:
    """Each target, or variant, of a run against its first."""
    names = list(report.summary.by_target if part.field == "target" else report.summary.by_variant)
    if len(names) < 2:
        raise UsageError(f"run {report.folder.id} {part.fault}", part.hint)
    first, *others = (_Chosen(report, **{part.field: name}) for name in names)
    return _compare([(first, other) for other in others], wanted)


class _Chosen(NamedTuple):
    """A run, or one target or variant of it."""

    report: RunReport
    target: str | None = None
    variant: str | None = None

    @property
    def side(self) -> Side:
        return Side(self.report.folder.id, self.report.put, self.target, self.variant)


def _compare(pairs: Sequence[tuple[_Chosen, _Chosen]], wanted: Wanted) -> list[RunComparison]:
    """One answer, however many comparisons it has."""
    try:
        found = compare_pairs([(a.side, b.side) for a, b in pairs], margin=wanted.margin, shown=wanted.shown)
    except (ArithmeticError, ValueError):
        found = None
    if found is None or not all(isfinite(number) for one in found for number in _numbers(one)):
        raise RunDamaged(
            pairs[-1][1].report.folder.path,
            "its numbers, or the numbers of the other run, are too large",
        )
    return [_with_receipts(one, a, b) for one, (a, b) in zip(found, pairs, strict=True)]


def _with_receipts(found: RunComparison, a: _Chosen, b: _Chosen) -> RunComparison:
    changed = (*changes_between(*((one.report.run, one.report.folder) for one in (a, b))), *_spoilt(a, b))
    described = {"a": _described(found.a, a.report), "b": _described(found.b, b.report)}
    found = structs.replace(found, **described, changed=changed)
    return _without_chosen_failures(found, _chooses(a.report.run), _chooses(b.report.run))


def _spoilt(a: _Chosen, b: _Chosen) -> Iterator[str]:
    """How many conversations simulated users spoilt, which are in no figure of the comparison."""
    every = [one.report.summary.spoilt for one in (a, b)]
    counts = [f"{one.conversations:,} of {one.of:,}" for one in every if one is not None]
    if len(counts) == 2 and counts[0] != counts[1]:
        yield f"conversations that simulated users made invalid, which do not count: {counts[0]} and {counts[1]}"


def _chooses(run: Receipt) -> bool:
    """Did the run have only the cases that were named, as with `--failed-from`?"""
    return bool(run.options.get("cases"))


def _without_chosen_failures(found: RunComparison, chosen_a: bool, chosen_b: bool) -> RunComparison:
    """Cases that were run again because they failed can only become better, and some do by chance. That tells
    nothing about the runs."""
    passed_a, passed_b = (any(getattr(one.eventual, side).passed for one in found.each) for side in "ab")
    failed_a, failed_b = found.a.passed and not passed_a, found.b.passed and not passed_b
    if not found.matched or chosen_a == chosen_b or not (failed_a if chosen_b else failed_b):
        return found
    return structs.replace(
        found,
        first_try=found.first_try and _untold(found.first_try),
        eventual=found.eventual and _untold(found.eventual),
        by_target=tuple(map(_untold_group, found.by_target)),
        by_condition=tuple(map(_untold_group, found.by_condition)),
        chosen="b" if chosen_b else "a",
    )


def _untold(found: Comparison) -> Comparison:
    return structs.replace(found, verdict="cannot-tell", cases_needed=None)


def _untold_group(group: TargetComparison) -> TargetComparison:
    both = {"comparison": _untold(group.comparison), "first_try": _untold(group.first_try)}
    return structs.replace(group, verdict="cannot-tell", **both)


def _numbers(found: RunComparison) -> Iterator[float]:
    """Figures made of costs, times and scores, which a folder from elsewhere can have of any size."""
    waiting: list[Any] = [msgspec.to_builtins((found.cost, found.latency_s, found.tokens, found.noise))]
    while waiting:
        one = waiting.pop()
        if isinstance(one, dict | list | tuple):
            waiting += cast("dict[str, Any]", one).values() if isinstance(one, dict) else cast("list[Any]", one)
        elif isinstance(one, float):
            yield one


def _described(found: ComparedRun, report: RunReport) -> ComparedRun:
    """What was counted, with what the receipt says."""
    run = report.run
    return structs.replace(
        found,
        suites=tuple(suite.title for suite in run.suites),
        status=run.status,
        started_at=run.started_at,
        unfinished=max(0, report.summary.unfinished),
    )
