"""Two runs of the same cases compared: the results of `compare`, as frozen values. `document` returns the JSON form."""

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
    """The first difference between two conversations, given for each turn a digest of its prompt, a digest of its reply
    and whether it passed. The first turn with different words; else the first that is graded differently, else the
    first that only one conversation has, else the last. If the same reply is graded differently, one run sends a
    follow-up and the other continues its plan: then the verdict is the difference, not the later words."""
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
    """The compared targets; only one if targets are compared with each other."""
    variants: tuple[str, ...] = ()
    """The compared variants of its suites."""
    suites: tuple[str, ...] = ()
    status: RunStatus = "completed"
    started_at: str | None = None
    conversations: int = 0
    passed: int = 0
    errors: int = 0
    skipped: int = 0
    """Conversations that never began. They are excluded."""
    unfinished: int = 0


class Renamed(Struct, frozen=True):
    """A case with the same question and checks under another id, or in another file."""

    a: CaseName
    b: CaseName


class Moment(Struct, frozen=True):
    """The first difference of two conversations: the prompt, both replies, and the checks that the failed one fails."""

    title: str
    prompt: str
    replies: tuple[str | None, str | None]
    """Replies of A and of B; None if the turn or the reply is missing. Long ones are shortened in the middle."""
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
    """The first different turn, between a trial that passed in one run and one that did not in the other."""
    differs: Differs | None
    """The kind of the first difference. `verdict`: equal words are graded differently."""
    passed_on: int | None
    """The turn on which the passed trial passed."""
    a: tuple[int, int]
    """Passed trials, all trials."""
    b: tuple[int, int]
    p_value: float | None
    verdict: Literal["better", "worse", "flipped", "cannot-tell"]
    moment: Moment | None = None
    """Stored only for the first ones."""

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
    """The rate at which trials of one case disagree, over the matched cases."""

    a: FlipRate
    b: FlipRate
    cases: Sequence[FlakyCase]


class Noises(Struct, frozen=True):
    """Noise of judges, separated from noise of models; None if no judge gave several votes."""

    a: Noise | None
    b: Noise | None


class TargetComparison(GroupComparison, frozen=True, kw_only=True):
    """One of several targets that both runs asked, or of several conditions of sharded tasks; `comparison` compares the
    final pass rates."""

    first_try: Comparison
    net_recovery: NetRecoveryDifference


class Compared(NamedTuple):
    """A separately compared part: the whole run, or one of its targets or conditions."""

    name: str
    """Empty for the whole run."""
    eventual: Comparison
    first_try: Comparison
    net_recovery: NetRecoveryDifference | None


class RunComparison(Struct, frozen=True, kw_only=True):
    """B against A. Lists of cases may be stored on disk: they are read one at a time during iteration."""

    a: ComparedRun
    b: ComparedRun
    changed: tuple[str, ...] = ()
    """Differences between the runs: options, models, the version of rejoinder."""
    chosen: Literal["a", "b"] | None = None
    """The run that had only cases which failed in the other. Some of them pass by chance, so it cannot be compared."""
    matched: int
    only_in_a: Sequence[CaseName]
    only_in_b: Sequence[CaseName]
    renamed: Sequence[Renamed]
    left_out: Sequence[CaseName]
    """Cases in both runs that never began in one of them."""
    edited: int
    """Matched cases whose question or checks differ."""
    first_try: Comparison | None
    eventual: Comparison | None
    net_recovery: NetRecoveryDifference | None
    """These three are None if there are several targets or conditions: each has its own values."""
    cost: Delta
    latency_s: Delta
    """Seconds per reply."""
    tokens: Delta
    flips: Sequence[Flip]
    same_words: int
    """Matched cases whose replies are identical, word for word."""
    flakiness: Flakiness
    noise: Noises
    by_target: tuple[TargetComparison, ...] = ()
    """Comparisons by target, if there are several: there is no common rate, so these decide."""
    by_condition: tuple[TargetComparison, ...] = ()
    """Comparisons by condition, for tasks put in several forms: whole, and in shards. A task is one case in
    every form."""
    by_tag: tuple[GroupComparison, ...] = ()

    def __repr__(self) -> str:
        runs = " and ".join(dict.fromkeys((self.a.run, self.b.run)))
        return f"<RunComparison {runs}: {self.verdict}, {self.matched} matched, {len(self.flips)} differ>"

    @property
    def groups(self) -> tuple[TargetComparison, ...]:
        """Targets or conditions, if there are several."""
        return self.by_condition or self.by_target

    @property
    def each(self) -> tuple[Compared, ...]:
        """The separately compared parts: each group, or the whole."""
        if self.eventual is not None and self.first_try is not None:
            return (Compared("", self.eventual, self.first_try, self.net_recovery),)
        return tuple(Compared(one.name, one.comparison, one.first_try, one.net_recovery) for one in self.groups)

    @property
    def verdict(self) -> ComparisonVerdict:
        """The verdict on the final pass rate; the first try has its own. With several targets: the change of some, if
        no other changed in the opposite direction; otherwise no single verdict is possible."""
        verdicts = {one.eventual.verdict for one in self.each}
        if len(verdicts) == 1:
            return self.each[0].eventual.verdict
        moved = verdicts & {"better", "worse"}
        if len(moved) == 1:
            return "better" if "better" in moved else "worse"
        return "cannot-tell"

    @property
    def is_worse(self) -> bool:
        """Whether the run, or one of its targets, became worse."""
        return any(one.eventual.verdict == "worse" for one in self.each)

    @property
    def broke(self) -> tuple[Flip, ...]:
        return tuple(flip for flip in self.flips if flip.broke)

    @property
    def fixed(self) -> tuple[Flip, ...]:
        return tuple(flip for flip in self.flips if not flip.broke)

    def parts(self) -> dict[str, Any]:
        """The keys of the JSON: runs and cases by their ids, and in full beside them. Values are not encoded yet; lists
        of cases are read once, one at a time."""
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
        """The comparison in the form of `--format json`."""
        return msgspec.to_builtins(self.parts(), enc_hook=list)
