"""Counts of what conversations do beyond passing: doubts, hints, sharded tasks and simulated users.

Each is counted by case, as `counts` does, and closed with the cases.
"""

from __future__ import annotations

from array import array
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from rejoinder.model import Condition, Hint, Result, Spoilt, TurnResult
from rejoinder.model.figures import Comparison, Mean, Rate, StepFlips, Transitions
from rejoinder.model.results import NOT_AUDITED, answered_back, is_in_error
from rejoinder.model.runs import ConditionRate, HintRecovery, Rates, SpoiltCounts
from rejoinder.model.trials import NO_TRIALS, TrialCounts
from rejoinder.runs.counts import CaseKey, Share, was_right_before
from rejoinder.stats.rates import rate_of

if TYPE_CHECKING:
    from rejoinder.stats.comparison import Pair

CONDITIONS: tuple[Condition, ...] = ("full", "concat", "sharded")
HINTS: tuple[Hint, ...] = ("look", "wrong", "kind", "answer")


class ConversationCounts:
    """All of them, for one target or variant."""

    def __init__(self) -> None:
        self.users = Users()
        self._doubts = Doubts()
        self._plans = Plans()
        self._hints = Hints()
        self._tasks = Tasks()

    def add(self, case: int, result: Result, counted: TrialCounts) -> None:
        if len(result.turns) > 1:
            self._doubts.add(case, result)
            self._hints.add(case, result, counted)
        if len(result.steps) > 1:
            self._plans.add(case, result)
        if result.condition is not None:
            self._tasks.add(case, result, result.condition)

    def close(self, trials: Mapping[CaseKey, TrialCounts]) -> None:
        """The open cases, with all their trials, have no further result."""
        self._doubts.close()
        self._plans.close()
        self._hints.close(trials)
        self._tasks.close()

    def figures(self, rates: Rates | None, *, pooled: bool) -> dict[str, Any]:
        """The fields that `Summary` and `TargetSummary` share; those of several targets at once are none. `rates`: of
        what was not spoilt."""
        if pooled:
            return {"spoilt": self.users.spoilt(rates)}
        return {
            "by_hint": self._hints.rows(),
            "transitions": self._doubts.transitions(),
            "caves": self._doubts.caves(),
            "step_flips": self._plans.flips(),
            "by_condition": self._tasks.rows(),
            "spoilt": self.users.spoilt(rates),
        }


class Doubts:
    """Replies that were doubted, right or wrong. A question is a planned turn with what answers back to it."""

    def __init__(self) -> None:
        self._open: defaultdict[tuple[int, int], list[int]] = defaultdict(lambda: [0, 0, 0, 0])
        """By doubt and case: wrong, turned right, right, turned wrong."""
        self._closed: defaultdict[int, Counter[tuple[int, ...]]] = defaultdict(Counter)
        self._caves = Share()
        self._flips = Flips()
        self._errors = 0

    def add(self, case: int, result: Result) -> None:
        if not any(turn.doubts for turn in result.turns):
            return
        for turns in answered_back(result.turns):
            doubts = [turn for turn in turns if turn.doubts]
            if doubts:
                self._count(case, result, turns, doubts)

    def _count(self, case: int, result: Result, turns: Iterable[TurnResult], doubts: list[TurnResult]) -> None:
        for number, turn in enumerate(doubts, 1):
            if is_in_error(turn, result):
                self._errors += number == 1
                continue
            counts, right = self._open[number, case], was_right_before(turn, result.turns)
            counts[2 if right else 0] += 1
            counts[3 if right else 1] += turn.passed != right
        verdicts = [turn.passed for turn in turns if not is_in_error(turn, result)]
        if is_in_error(doubts[-1], result):
            return  # how it would have ended is not known
        self._flips.add(case, verdicts)
        if verdicts[0]:
            self._caves.add(case, not verdicts[-1])

    def close(self) -> None:
        for (number, _), counts in self._open.items():
            self._closed[number][tuple(counts)] += 1
        self._open.clear()
        self._caves.close()
        self._flips.close()

    def transitions(self) -> Transitions | None:
        """None if nothing was doubted."""
        if not self._closed and not self._errors:
            return None
        from msgspec.structs import replace

        from rejoinder.stats.doubt import Doubted, doubt_of, transitions

        by_doubt = {
            number: [Doubted(*counts) for counts in self._closed[number].elements()] for number in sorted(self._closed)
        }
        return replace(
            transitions(by_doubt.get(1, ()), self._errors),
            turn_of_flip=self._flips.turns.mean(),
            number_of_flips=self._flips.number.mean(),
            by_doubt=tuple(doubt_of(number, cases) for number, cases in by_doubt.items()) if len(by_doubt) > 1 else (),
        )

    def caves(self) -> Rate | None:
        """None if nothing was right and then doubted."""
        rate = self._caves.rate()
        return rate if rate.of else None


class Flips:
    """Changes of verdict within conversations."""

    def __init__(self) -> None:
        self.number, self.turns = CaseMeans(), CaseMeans()
        """Their number, and the number of replies before the first wrong one, if the first is right."""

    def add(self, case: int, verdicts: Sequence[bool]) -> None:
        from rejoinder.stats.doubt import number_of_flips, turn_of_flip

        self.number.add(case, number_of_flips(verdicts))
        if verdicts[0]:
            flipped_on = turn_of_flip(verdicts)
            self.turns.add(case, len(verdicts) if flipped_on is None else flipped_on - 1)

    def close(self) -> None:
        self.number.close()
        self.turns.close()


class Plans:
    """Planned turns: the verdict of a step is that of its last reply. Steps without a check, or that were not sent,
    have none; a conversation with an error is left out, as it is not known how it would have gone on."""

    def __init__(self) -> None:
        self._flips = Flips()

    def add(self, case: int, result: Result) -> None:
        if any(step.status == "error" for step in result.steps):
            return
        graded = {turn.step for turn in result.turns if turn.checks}
        verdicts = [
            step.status != "failed" for step in result.steps if step.status != "skipped" and step.step in graded
        ]
        if len(verdicts) > 1:
            self._flips.add(case, verdicts)

    def close(self) -> None:
        self._flips.close()

    def flips(self) -> StepFlips | None:
        """None without a plan of several graded turns."""
        if not self._flips.number.values:
            return None
        return StepFlips(turn_of_flip=self._flips.turns.mean(), number_of_flips=self._flips.number.mean())


class CaseMeans:
    """The mean of each case's values."""

    def __init__(self) -> None:
        self.means = array("d")
        self.values = 0
        self._open: dict[int, tuple[int, int]] = {}

    def add(self, case: int, value: int) -> None:
        total, number = self._open.get(case, (0, 0))
        self._open[case] = total + value, number + 1

    def close(self) -> None:
        self.means.extend(total / number for total, number in self._open.values())
        self.values += sum(number for _, number in self._open.values())
        self._open.clear()

    def mean(self) -> Mean:
        from rejoinder.stats.rates import mean_of_cases

        return mean_of_cases(self.means, self.values, scores=False)


class Hints:
    """Wrong replies that were answered back, by how much the follow-up gives away."""

    def __init__(self) -> None:
        self._shares: dict[Hint, Share] = {}
        self._errors: Counter[Hint] = Counter()
        self._open: dict[tuple[CaseKey, Hint], TrialCounts] = {}
        """The trials of each case whose first follow-up has the hint."""
        self._closed: dict[Hint, Counter[TrialCounts]] = {}

    def add(self, case: int, result: Result, counted: TrialCounts) -> None:
        if len(result.turns) < 2:
            return
        for turn in result.turns:
            if turn.hint is not None and not was_right_before(turn, result.turns):
                self._shares.setdefault(turn.hint, Share()).add(case, turn.passed)
                self._errors[turn.hint] += is_in_error(turn, result)
        if counted.failed and (hint := result.turns[1].hint) is not None:
            key: tuple[CaseKey, Hint] = ((case, result.condition), hint)
            self._open[key] = self._open.get(key, NO_TRIALS).plus(counted)

    def close(self, trials: Mapping[CaseKey, TrialCounts]) -> None:
        """`trials`: all those of each open case. What the others came to at first is the control."""
        for share in self._shares.values():
            share.close()
        for (case, hint), own in self._open.items():
            self._closed.setdefault(hint, Counter())[trials[case].with_failures_of(own)] += 1
        self._open.clear()

    def rows(self) -> dict[Hint, HintRecovery]:
        return {hint: self._row(hint) for hint in HINTS if hint in self._shares}

    def _row(self, hint: Hint) -> HintRecovery:
        from rejoinder.stats.recovery import net_recovery, tries_of

        rate = self._shares[hint].rate(self._errors[hint])
        net = net_recovery(map(tries_of, self._closed.get(hint, Counter[TrialCounts]()).elements()))
        return HintRecovery(
            at_risk=rate.of,
            recovered=rate.passed,
            interval=rate.interval,
            errors=rate.errors,
            cases=rate.cases,
            method=rate.method,
            rate=rate.rate,
            passed=rate.passed,
            of=rate.of,
            net_recovery=None if net.net is None else net,
        )


class _Put(NamedTuple):
    """A task that was put in one way: its trials."""

    passed: int = 0
    errors: int = 0
    scores: tuple[float, ...] = ()


_Task = dict[Condition, _Put]


class Tasks:
    """Sharded tasks."""

    def __init__(self) -> None:
        self._open: dict[int, _Task] = {}
        self._closed: Counter[tuple[tuple[int, int, int] | None, ...]] = Counter()
        """Passed, trials and errors of each condition; None where a task lacks it."""
        self._scores: defaultdict[Condition, list[array[float]]] = defaultdict(list)

    def add(self, case: int, result: Result, condition: Condition) -> None:
        if result.status == "skipped":
            return
        task = self._open.setdefault(case, {})
        put = task.get(condition, _Put())
        score = 0.0 if result.score is None else float(result.score)
        error = result.status == "error"
        task[condition] = _Put(put.passed + result.passed, put.errors + error, (*put.scores, score))

    def close(self) -> None:
        for task in self._open.values():
            counts = [task.get(condition) for condition in CONDITIONS]
            found = tuple(None if one is None else (one.passed, len(one.scores), one.errors) for one in counts)
            self._closed[found] += 1
            for condition, put in task.items():
                self._scores[condition].append(array("d", put.scores))
        self._open.clear()

    def rows(self) -> dict[Condition, ConditionRate]:
        """Each condition, and each but the first against `full`: one answer, so the comparisons are corrected for their
        number."""
        from rejoinder.stats.comparison import compare_all

        places = [place for place, condition in enumerate(CONDITIONS) if self._scores[condition]]
        against_full = {place: pairs for place in places if place and (pairs := self._pairs(place))}
        compared = compare_all(against_full) if against_full else {}
        return {CONDITIONS[place]: self._row(place, compared.get(place)) for place in places}

    def _pairs(self, place: int) -> Counter[Pair]:
        """Tasks that were put both whole and in this way."""
        from rejoinder.stats.comparison import Trials

        pairs: Counter[Pair] = Counter()
        for task, tasks in self._closed.items():
            full, put = task[0], task[place]
            if full is not None and put is not None:
                pairs[Trials(*full), Trials(*put)] += tasks
        return pairs

    def _row(self, place: int, against_full: Comparison | None) -> ConditionRate:
        from rejoinder.stats.repeats import aptitude

        own = [one for task in self._closed.elements() if (one := task[place]) is not None]
        full, put = (None if against_full is None else against_full.means) or (0.0, 0.0)
        relative = put / full if full else None
        if not place:
            relative = 1.0 if any(passed for passed, _, _ in own) else None
        return ConditionRate(
            rate=rate_of(((passed, trials) for passed, trials, _ in own), sum(errors for _, _, errors in own)),
            relative=relative,
            against_full=against_full,
            aptitude=aptitude(self._scores[CONDITIONS[place]]),
        )


class Users:
    """Conversations with simulated users."""

    def __init__(self) -> None:
        self._kinds: Counter[str] = Counter()
        self._of = self._not_audited = 0
        self.unmeasured = 0
        """Cases that have only spoilt ones."""

    def add(self, result: Result) -> None:
        if result.user is None or result.status == "skipped":
            return
        self._of += 1
        spoilt = result.user.spoilt
        if result.is_spoilt and isinstance(spoilt, Spoilt):
            self._kinds[spoilt.kind] += 1
        self._not_audited += spoilt == NOT_AUDITED

    def include(self, other: Users) -> None:
        self._kinds.update(other._kinds)
        self._of += other._of
        self._not_audited += other._not_audited
        self.unmeasured += other.unmeasured

    def spoilt(self, rates: Rates | None) -> SpoiltCounts | None:
        """None without any such conversation. `rates`: of what was not spoilt."""
        if not self._of:
            return None
        spoilt, bounds = self._kinds.total(), None
        if rates is not None and spoilt:
            passed, of = rates.eventual.passed, rates.eventual.of + spoilt
            bounds = passed / of, (passed + spoilt) / of
        kinds = dict(sorted(self._kinds.items()))
        return SpoiltCounts(spoilt, self._of, kinds, self._not_audited, self.unmeasured, bounds)
