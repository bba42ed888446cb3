"""Figures that statistics compute, as frozen values that summaries and comparisons hold; `words.figures` says them."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct, field

from rejoinder.model.results import CaseName

Interval = tuple[float, float]
MARGIN = 0.1
"""A difference of two rates that counts as none, unless it is said."""
RatioMethod = Literal["ratio of clusters, t", "ratio of clusters, t, two made-up cases"]
RateMethod = Literal["wilson", "effective wilson"]


class Rate(Struct, frozen=True):
    """A share of passes, with the cases behind it. Without any trial, rate and interval are None."""

    rate: float | None
    passed: int
    of: int
    """All trials, those that ended in an error too."""
    cases: int
    interval: Interval | None
    method: RateMethod | None
    errors: int = 0
    """Those of `of` that ended in an error. They count as not passed, and never leave the denominator silently."""
    effective: float | None = None
    """As many independent trials would say as much."""

    @property
    def without_errors(self) -> float | None:
        """The share of passes among the trials without an error."""
        return self.passed / (self.of - self.errors) if self.of > self.errors else None

    @property
    def if_tested(self) -> Rate | NoRate:
        """The same rate, unless errors hide it."""
        because = why_untested(self.errors, self.of)
        return self if because is None else NoRate(because, self.of, self.errors)


NoRateReason = Literal[
    "untested",
    "running",
    "killed",
    "interrupted",
    "budget",
    "unfinished",
    "fail-fast",
    "given-up",
    "several-targets",
    "several-variants",
    "several-conditions",
    "errors",
    "nothing",
]
"""Why there is no pass rate: the first of these that applies. Every conversation ended in an error; the run is running,
or was cut off; conversations are missing; it stopped at the first failure; a target was given up; a common rate of
several is a rate of none of them; more than half ended in an error; no conversation counts."""


class NoRate(Struct, frozen=True):
    """The reason in the place of a pass rate that would mislead."""

    because: NoRateReason
    finished: int
    errors: int

    @property
    def is_of_several(self) -> bool:
        """Whether there are rates of parts instead: of each target, variant or condition."""
        return self.because in SEVERAL


SEVERAL: tuple[NoRateReason, ...] = ("several-targets", "several-variants", "several-conditions")


def why_untested(errors: int, finished: int) -> Literal["untested", "errors", "nothing"] | None:
    """Why this number of errors hides the rate of what has finished: it would be a rate of errors. None if it does
    not."""
    if not finished:
        return "nothing"
    if errors == finished:
        return "untested"
    return "errors" if 2 * errors > finished else None


class Spread(Struct, frozen=True):
    """How much the repeats of cases copy each other: what an effective Wilson interval is made of."""

    rate: float
    trials: int
    cases: int
    standard_error: float
    design: float
    """The design effect as it was seen, between 1 (repeats are independent) and the largest one (they are copies)."""
    mixed: int
    """The cases that can tell it: those with a failure or those with a pass, whichever are fewer."""
    effect: float
    """The design effect that is used: drawn towards the largest one, the more the fewer cases can tell."""
    effective: float
    """The trials divided by the effect, less what few cases leave unknown (Student's t for the normal)."""

    @property
    def method(self) -> RateMethod:
        return "effective wilson"


class Mean(Struct, frozen=True):
    """A mean over cases, each of which counts once however often it was repeated."""

    mean: float | None
    cases: int
    n: int
    """All values."""
    standard_error: float | None
    stdev: float | None
    """Of the means of cases; of one case it is not known."""
    interval: Interval | None
    method: Literal["t over cases", "wilson", "effective wilson"] | None


class NetRecovery(Struct, frozen=True):
    """What answering back gained over asking afresh, by failed first tries."""

    net: float | None
    """`answered_back - afresh`; None without a failure that has a control."""
    interval: Interval | None
    """None where too few cases failed to tell."""
    answered_back: float | None
    """The share of failures that passed after the first follow-up."""
    afresh: float | None
    """The share of failures that would have passed in a new conversation."""
    failures: int
    """Failed first tries that got a follow-up and have a control."""
    cases: int
    """The cases that had such a failure."""
    verdict: Literal["listens", "cannot-tell", "stuck", "too-few"]
    method: RatioMethod | None = None
    standard_error: float | None = None
    uncontrolled: int = 0
    """Failures without a control: one trial, and not asked afresh."""
    errors: int = 0
    """First turns that ended in an error, in cases with a failure: they are left out of `afresh`."""


class NetRecoveryDifference(Struct, frozen=True):
    """Net recovery of run B less that of run A, on the cases of both."""

    a: NetRecovery
    b: NetRecovery
    difference: float | None
    interval: Interval | None
    cases: int
    """The cases that failed in both runs."""
    verdict: Literal["better", "worse", "cannot-tell", "too-few"]
    method: RatioMethod | None = None


class SignFlip(Struct, frozen=True):
    """The test of paired differences against chance: were the two runs of each case swapped at random?"""

    p_value: float
    """Mid-p, two-sided: that of larger sums, and half that of equal ones."""
    exact: float
    """With all of the equal ones: larger than the level that it claims."""
    method: str


ComparisonVerdict = Literal["better", "worse", "no-difference", "cannot-tell"]
Undecided = Literal["errors", "spoilt", "trials"]
"""Why it cannot be told, where the figures alone would tell. `errors`: it depends on what is made of trials that
ended in an error. `spoilt`: the same for conversations that simulated users spoilt. `trials`: the runs have unequal
numbers of trials, and these alone make such a difference."""


class Unmeasured(Struct, frozen=True):
    """Conversations that simulated users spoilt, in one of two runs: they are in no rate."""

    conversations: int
    bounds: Interval
    """The mean over cases if all of them had failed, and if all had passed."""


class Comparison(Struct, frozen=True):
    """Run B against run A on the cases of both; the question is about cases like these."""

    a: Rate
    b: Rate
    difference: float | None
    """The mean over cases of what B passes more than A; None without a matched case."""
    interval: Interval | None
    p_value: float | None
    smallest_effect: float | None
    """The smallest true difference that would have been seen in four of five such comparisons."""
    verdict: ComparisonVerdict
    cases_needed: int | None
    """About as many cases in all would tell in four of five tries, if further ones go as these do; only where these
    cannot."""
    method: str | None
    margin: float = MARGIN
    """What counts as no difference."""
    cases: int = 0
    differing: int = 0
    standard_error: float | None = None
    equivalence: Interval | None = None
    """The 90 % interval that has to lie within the margin for `no-difference`; of several comparisons, a wider one."""
    beyond: float | None = None
    """If there is no difference: beyond so many points. The smallest margin that `equivalence` excludes, rounded up,
    and never above `margin`."""
    undecided: Undecided | None = None
    means: tuple[float, float] | None = None
    """Of A and of B, over cases; `difference` lies between them. Rates count trials, of which cases may have more and
    less."""
    p_exact: float | None = None
    """Of the same test without the mid-p correction; with one trial a case, the exact McNemar test."""
    p_holm: float | None = None
    """Corrected for all comparisons of the answer, if there are several: the verdict goes by it."""
    comparisons: int = 1
    """How many there are."""
    unmeasured: tuple[Unmeasured | None, Unmeasured | None] | None = None
    """What simulated users spoilt in A and in B, where they did."""

    @property
    def more_cases(self) -> int | None:
        return None if self.cases_needed is None else self.cases_needed - self.cases


class GroupComparison(Struct, frozen=True):
    """One of several comparisons in a report: a tag, a check, a target."""

    name: str
    comparison: Comparison
    p_value: float | None
    """Corrected by Holm for all groups that are large enough to be tested."""
    verdict: Literal["better", "worse", "no-difference", "cannot-tell", "too-few"]
    tested: int = 1
    """How many groups were."""


class CaseChange(Struct, frozen=True):
    """A case whose rate differs between two runs."""

    a: tuple[int, int]
    """Passed, trials."""
    b: tuple[int, int]
    p_value: float | None
    """Fisher's, one-sided, corrected by Holm; None below six repeats, if nothing can be claimed."""
    verdict: Literal["better", "worse", "flipped", "cannot-tell"]

    @property
    def broke(self) -> bool:
        return self.b[0] * self.a[1] < self.a[0] * self.b[1]


class PassK(Struct, frozen=True):
    """pass@k (one of k trials passes) or pass^k (all k do), over the cases with at least k trials."""

    k: int
    rate: float | None
    passed: int | None
    """Of `of` cases, those of which all k trials passed, or one did; None where cases have more than k trials and count
    in part: then the rate is no number of cases by all of them."""
    of: int | None
    cases: int
    interval: Interval | None
    method: Literal["wilson", "effective wilson"] | None
    left_out: tuple[str, ...] = ()
    """The first cases with fewer than k trials, by name, or by place where they have none."""
    short: int = 0
    """All cases with fewer than k trials."""
    trials: int = 0
    """All trials of the cases; an error is a failure."""


class CaseRepeats(Struct, frozen=True):
    """The repeats of one case."""

    passed: int
    trials: int
    interval: Interval | None
    """Wilson, of this case alone."""
    flip: float | None
    """The chance that a verdict differs between two runs; None below two trials."""
    hidden: float | None
    """Where all trials agree: the rate of the other outcome that still could be behind it (95 %)."""


class FlipRate(Struct, frozen=True):
    """The chance that the verdict of a case differs between two runs, over cases."""

    rate: float | None
    """None below two trials a case."""
    cases: int
    repeats: int
    """The fewest trials of a case that counts."""
    interval: Interval | None
    """From five repeats on; with fewer it would be too narrow."""
    method: Literal["t over cases"] | None


Advice = Literal["more cases", "more repeats", "more votes"]


class Noise(Struct, frozen=True):
    """Where the spread of scores comes from: the judge's votes, the model's repeats, the cases.

    None where it cannot be told: without votes the judge's noise is part of the model's, without repeats both are part
    of the cases'.
    """

    judge: float | None
    model: float | None
    case: float | None
    mean_squares: tuple[float | None, float | None, float | None]
    """Of votes, repeats and cases."""
    variance: float | None
    """Of the mean of all."""
    shares: tuple[float | None, float | None, float | None]
    """Of that variance: judge, model, case."""
    advice: Advice | None
    """What the largest share asks for."""


class Aptitude(Struct, frozen=True):
    """How good a model is at its best, and how far its worst is from it (Laban and others 2025)."""

    average: float
    aptitude: float
    """The mean over cases of the 90th percentile of scores."""
    unreliability: float
    """The mean over cases of the 90th less the 10th percentile. It grows with the repeats: compare equal ones only."""
    repeats: int
    cases: int


class Corrected(Struct, frozen=True):
    """The pass rate that people would see where the judge sees another; None where it cannot be known."""

    rate: float | None
    interval: Interval | None
    method: Literal["Rogan-Gladen"] | None
    verdicts: int
    of: int
    """The verdicts and the errors of the judge."""
    cases: int
    reason: Literal["no-verdicts", "no-labels", "tells-nothing"] | None = None
    """Why there is none: nothing judged; no labels of one kind; a judge that is right as often as by chance."""
    clipped: bool = False
    """The judge's rate lies outside of what it could be: chance, or other replies than the labelled ones."""


class Doubt(Struct, frozen=True):
    """What became of wrong and of right replies at one doubt: the first, the second, and so on."""

    doubt: int
    wrong_right: Rate
    right_wrong: Rate
    after: Rate


class Transitions(Struct, frozen=True):
    """What became of wrong and of right replies when the model was asked again, right or wrong (`ask: always`): at the
    first doubt of each question."""

    before: Rate
    after: Rate
    """before - (right to wrong) + (wrong to right), as counts."""
    wrong_right: Rate
    """Of the wrong replies."""
    right_wrong: Rate
    """Of the right replies."""
    flips: Rate
    """Either way, of all."""
    stationary: float | None
    """The accuracy that endless asking would lead to, if both rates stayed as they are; None where nothing changed."""
    stationary_interval: Interval | None
    method: Literal["log odds, delta method"] | None
    errors: int = 0
    """Doubts that were answered by an error: neither right nor wrong, and in no rate."""
    acc_t1: float | None = field(default=None, name="Acc@t1")
    """The names of SCoRe, all as shares of all replies: Acc@t2 = Acc@t1 + i->c - c->i."""
    acc_t2: float | None = field(default=None, name="Acc@t2")
    i_c: float | None = field(default=None, name="i->c")
    c_i: float | None = field(default=None, name="c->i")
    turn_of_flip: Mean | None = None
    """SYCON: the replies before the first that is wrong, and all if none is; of those that were right at first."""
    number_of_flips: Mean | None = None
    """SYCON: how often the verdict changes from one reply to the next."""
    by_doubt: tuple[Doubt, ...] = ()
    """Where several were sent one after the other: each by itself, the first among them."""


class StepFlips(Struct, frozen=True):
    """Changes of verdict between planned turns of a conversation: SYCON's figures, for plans."""

    turn_of_flip: Mean
    """The steps before the first that is wrong, and all if none is; of plans whose first step was right."""
    number_of_flips: Mean
    """Changes of the verdict from one step to the next."""


class Delta(Struct, frozen=True):
    """Cost, time or tokens of run B against run A, case by case."""

    a: float | None
    """The mean over cases. One costly case moves it, so it is told and not tested."""
    b: float | None
    difference: float | None
    """The median over cases of B less A."""
    interval: Interval | None
    """None below six cases."""
    change: float | None
    """The median over cases of B / A - 1; None where A is 0 in a case."""
    change_interval: Interval | None
    verdict: Literal["more", "less", "same", "cannot-tell"]
    """`same`: equal in every case."""
    cases: int
    method: Literal["median of pairs, sign test"] | None


class Look(Struct, frozen=True):
    """A look at two runs of the same cases after some rounds of repeats. The answer is about these cases."""

    verdict: Literal["regression", "no-regression", "go-on", "cannot-tell"]
    lost: int
    """Pairs of trials that only A passes."""
    won: int
    rounds: int
    of: int
    statistic: float | None
    """(lost - won) / sqrt(design (lost + won)); None where no pair differs."""
    bound: float | None
    """Above it is a regression; None where this round cannot tell."""
    evidence: float
    """(4/3)^lost (2/3)^won, the numbers by `design`: how much better twice as many losses as wins explain what was seen
    than equal ones."""
    method: Literal["O'Brien-Fleming spending", "likelihood ratio"]
    design: float = 1.0
    """How many pairs of a case count as one: 1, unless cases differ more between the runs than within them."""
    steady: bool = False
    """No case both passed and failed within a run, so its trials are no independent ones."""
    margin: float = MARGIN
    """The drop that is excluded if there is no regression."""


NewFailureKind = Literal["new", "unconfirmed", "undecided", "flaky", "error", "unknown"]
"""A failure beyond doubt; one with too few trials; one that may be chance, of a case that was flaky before; one that
passed when it was asked again; no verdict at all; one of which the baseline has no verdict."""


class NewFailure(Struct, frozen=True, kw_only=True):
    """A case that passed no trial of a run, and every or most trials of a baseline that have a verdict."""

    id: str
    target: str
    variant: str | None
    file: str
    before: int
    """Its trials in the baseline that have a verdict; 0 if there are none."""
    before_failed: int = 0
    """Its failed trials there, of a case that was flaky."""
    failed: int
    """Its trials in the run, further ones included."""
    passed: int
    """Further trials that passed."""
    errors: int
    kind: NewFailureKind

    @property
    def case(self) -> CaseName:
        return CaseName(self.file, self.id, self.target, self.variant or "")


RuleVerdict = Literal["pass", "fail", "cannot-tell"]


class RuleResult(Struct, frozen=True, omit_defaults=True):
    rule: str
    """As it was written."""
    verdict: RuleVerdict
    reason: str
    """The numbers, in words."""
    cases: tuple[NewFailure, ...] = ()
    """Of `no-new-failures`: the cases that it is about."""


class GateResult(Struct, frozen=True):
    verdict: RuleVerdict
    """The worst of the rules: a failure before what cannot be told."""
    rules: tuple[RuleResult, ...]
    run: str | None = None
    """The run that was put to the rules, and the one that it was compared with."""
    against: str | None = None
    false_alarms: dict[str, float] = {}
    """How often each rule that compares would fail for an unchanged suite like this one."""
    confirm: str | None = None
    """The command that asks failures again which are not confirmed."""

    def __repr__(self) -> str:
        rules = ", ".join(f"{rule.rule} {rule.verdict}" for rule in self.rules)
        return f"<GateResult: {self.verdict} ({rules})>"

    @property
    def has_unconfirmed(self) -> bool:
        return any(case.kind == "unconfirmed" for rule in self.rules for case in rule.cases)

    @property
    def failing_and_new(self) -> tuple[str, ...]:
        """The ids of failing cases that the baseline has no verdict of: no rule can call them worse."""
        found = (case.id for rule in self.rules for case in rule.cases if case.kind == "unknown")
        return tuple(dict.fromkeys(found))

    @property
    def exit_code(self) -> int:
        return {"pass": 0, "fail": 1, "cannot-tell": 5}[self.verdict]
