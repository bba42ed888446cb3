"""Two runs of the same cases, side by side: what `compare` finds, as frozen values. `document` is the JSON of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

import msgspec
from msgspec import Struct, field

from rejoinder.model.figures import (
    CaseRepeats,
    Comparison,
    ComparisonVerdict,
    Delta,
    FlipRate,
    GroupComparison,
    NetRecoveryDifference,
    Noise,
)
from rejoinder.model.results import CaseName
from rejoinder.model.runs import RunStatus

CaseState = Literal["passed", "failed", "error", "flaky"]
"""`flaky`: some of its trials passed."""
Differs = Literal["prompt", "reply", "verdict"]


def first_difference(
    a: Sequence[tuple[int, int, int]], b: Sequence[tuple[int, int, int]]
) -> tuple[int, Differs | None]:
    """Of two conversations, each turn a digest of its prompt, one of its reply and whether it passed: where they part.
    The first turn whose words differ; else the first that is graded differently, else the first that one of them
    does not have, else the last. Where the same reply is graded differently, one run answers back and the other goes on
    with its plan: there the verdict parts them, and not the words after it."""
    both = list(zip(a, b, strict=False))
    graded = next((turn for turn, (one, other) in enumerate(both, 1) if one[2] != other[2]), None)
    for turn, (one, other) in enumerate(both, 1):
        if one[0] != other[0]:
            return (turn, "prompt") if graded is None or graded >= turn else (graded, "verdict")
        if one[1] != other[1]:
            return turn, "reply"
    if graded is not None:
        return graded, "verdict"
    return (len(both) + 1, "reply") if len(a) != len(b) else (max(1, len(both)), "verdict" if both else None)


class ComparedRun(Struct, frozen=True, kw_only=True):
    """A run, or one target or variant of it."""

    run: str
    targets: tuple[str, ...]
    """Those that were compared; one, where targets are compared with each other."""
    variants: tuple[str, ...] = ()
    """The same for the variants of its suites."""
    suites: tuple[str, ...] = ()
    status: RunStatus = "completed"
    started_at: str | None = None
    conversations: int = 0
    passed: int = 0
    errors: int = 0
    skipped: int = 0
    """Conversations that never began. They are left out."""
    unfinished: int = 0


class Renamed(Struct, frozen=True):
    """The same question and checks under another id, or in another file."""

    a: CaseName
    b: CaseName


class Moment(Struct, frozen=True):
    """Where two conversations part: what was said, what each replied, and what the failed one fails."""

    title: str
    prompt: str
    replies: tuple[str | None, str | None]
    """Of A and of B; None if there was no such turn, or no reply. Long ones are cut in their middle."""
    fails: tuple[str, ...]


class Flip(Struct, frozen=True, kw_only=True):
    """A case that passes more often in one run than in the other."""

    file: str
    id: str
    target: str
    variant: str | None
    before: CaseState = field(name="from")
    after: CaseState = field(name="to")
    turn: int | None
    """The first turn that differs, of a trial that passed in one run and one that did not in the other."""
    differs: Differs | None
    """What differs there first. `verdict`: the same words are graded differently."""
    passed_on: int | None
    """The turn on which the one that passed did so."""
    a: tuple[int, int]
    """Passed, trials."""
    b: tuple[int, int]
    p_value: float | None
    verdict: Literal["better", "worse", "flipped", "cannot-tell"]
    moment: Moment | None = None
    """Kept of the first ones only."""

    @property
    def broke(self) -> bool:
        return self.b[0] * self.a[1] < self.a[0] * self.b[1]


class FlakyCase(Struct, frozen=True, kw_only=True):
    """A case whose trials disagree in one of the runs."""

    file: str
    id: str
    target: str
    variant: str | None
    a: CaseRepeats
    b: CaseRepeats


class Flakiness(Struct, frozen=True):
    """How often trials of one case disagree, over the matched cases."""

    a: FlipRate
    b: FlipRate
    cases: Sequence[FlakyCase]


class Noises(Struct, frozen=True):
    """Noise of judges apart from that of models; None where no judge gave several votes."""

    a: Noise | None
    b: Noise | None


class TargetComparison(GroupComparison, frozen=True, kw_only=True):
    """One of several targets that both runs asked, or of several conditions of sharded tasks; `comparison` is of the
    eventual rates."""

    first_try: Comparison
    net_recovery: NetRecoveryDifference


class Compared(NamedTuple):
    """What is compared by itself: the whole run, or one of its targets or conditions."""

    name: str
    """Empty for the whole run."""
    eventual: Comparison
    first_try: Comparison
    net_recovery: NetRecoveryDifference | None


class RunComparison(Struct, frozen=True, kw_only=True):
    """B against A. Lists of cases may lie on the disk: they are read one at a time when they are walked through."""

    a: ComparedRun
    b: ComparedRun
    changed: tuple[str, ...] = ()
    """What differs between the runs: options, models, the version of rejoinder."""
    chosen: Literal["a", "b"] | None = None
    """The run that had only cases which failed in the other. Some of them pass by chance: it cannot be told."""
    matched: int
    only_in_a: Sequence[CaseName]
    only_in_b: Sequence[CaseName]
    renamed: Sequence[Renamed]
    left_out: Sequence[CaseName]
    """In both runs, and never begun in one of them."""
    edited: int
    """Matched cases whose question or checks differ."""
    first_try: Comparison | None
    eventual: Comparison | None
    net_recovery: NetRecoveryDifference | None
    """These three are None if there are several targets or conditions: each has its own."""
    cost: Delta
    latency_s: Delta
    """Of a reply."""
    tokens: Delta
    flips: Sequence[Flip]
    same_words: int
    """Matched cases whose replies are the same, word for word."""
    flakiness: Flakiness
    noise: Noises
    by_target: tuple[TargetComparison, ...] = ()
    """If there are several: they have no common rate, and these decide."""
    by_condition: tuple[TargetComparison, ...] = ()
    """The same for tasks that were put in several ways: whole, and in shards. A task is one case, however it is put."""
    by_tag: tuple[GroupComparison, ...] = ()

    @property
    def groups(self) -> tuple[TargetComparison, ...]:
        """Targets or conditions, if there are several."""
        return self.by_condition or self.by_target

    @property
    def each(self) -> tuple[Compared, ...]:
        """What is compared by itself: each of the groups, or the whole."""
        if self.eventual is not None and self.first_try is not None:
            return (Compared("", self.eventual, self.first_try, self.net_recovery),)
        return tuple(Compared(one.name, one.comparison, one.first_try, one.net_recovery) for one in self.groups)

    @property
    def verdict(self) -> ComparisonVerdict:
        """That of the eventual rate; the first try has its own. Of several targets: what some have become, if none has
        become the other; else it cannot be told in one word."""
        verdicts = {one.eventual.verdict for one in self.each}
        if len(verdicts) == 1:
            return self.each[0].eventual.verdict
        moved = verdicts & {"better", "worse"}
        if len(moved) == 1:
            return "better" if "better" in moved else "worse"
        return "cannot-tell"

    @property
    def is_worse(self) -> bool:
        """Has it, or one of its targets, become worse?"""
        return any(one.eventual.verdict == "worse" for one in self.each)

    @property
    def broke(self) -> tuple[Flip, ...]:
        return tuple(flip for flip in self.flips if flip.broke)

    @property
    def fixed(self) -> tuple[Flip, ...]:
        return tuple(flip for flip in self.flips if not flip.broke)

    def parts(self) -> dict[str, Any]:
        """The keys of the JSON: runs and cases by their ids, and in full beside them. Values are as they are; lists of
        cases are read once, one at a time."""
        return {
            "verdict": self.verdict,
            **{name: getattr(self, name) for name in self.__struct_fields__},
            "a": self.a.run,
            "b": self.b.run,
            "only_in_a": (name.id for name in self.only_in_a),
            "only_in_b": (name.id for name in self.only_in_b),
            "flips": iter(self.flips),
            "flakiness": {"a": self.flakiness.a, "b": self.flakiness.b, "cases": iter(self.flakiness.cases)},
            "runs": {"a": self.a, "b": self.b},
            "missing": (name._asdict() for name in self.only_in_a),
            "added": (name._asdict() for name in self.only_in_b),
            "renamed": ({"a": one.a._asdict(), "b": one.b._asdict()} for one in self.renamed),
            "left_out": (name._asdict() for name in self.left_out),
        }

    def document(self) -> dict[str, Any]:
        """The comparison as `--format json` writes it."""
        return msgspec.to_builtins(self.parts(), enc_hook=list)
