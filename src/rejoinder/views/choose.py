"""Some results of a run instead of all: which, in which order, and how many.

shown = choose(report, Choice(failed=True, sort="cost", limit=10))
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from math import inf
from typing import Literal, TypeAlias

from msgspec import Struct, structs

from rejoinder.errors import UsageError
from rejoinder.model import Result
from rejoinder.model.chosen_names import ChosenNames
from rejoinder.runs.report import RunReport
from rejoinder.runs.results import Results
from rejoinder.spelling import nearest
from rejoinder.views.cases import Selected, duration_of
from rejoinder.words.numbers import listed

MOST_NAMES = 1000
"""Names that are remembered to propose the nearest one."""
Sort: TypeAlias = Literal["score", "cost", "time"]


class Choice(Struct, frozen=True, kw_only=True):
    """Conditions of results to choose. One of `failed`, `recovered` and `errors` has to hold, and all of the others."""

    cases: tuple[str, ...] = ()
    targets: tuple[str, ...] = ()
    variants: tuple[str, ...] = ()
    trial: int | None = None
    turn: int | None = None
    failed: bool = False
    recovered: bool = False
    errors: bool = False
    sort: Sort | None = None
    limit: int | None = None

    @property
    def is_whole(self) -> bool:
        """Whether nothing is chosen, so that all results are shown."""
        return self == Choice()

    @property
    def kind(self) -> str:
        """`failed`, `failed or recovered`; empty where any ending will do."""
        kinds = {"failed": self.failed, "recovered": self.recovered, "with an error": self.errors}
        chosen = [kind for kind, is_chosen in kinds.items() if is_chosen]
        return listed(chosen, "or") if chosen else ""

    def ended_so(self, result: Result) -> bool:
        if not (self.failed or self.recovered or self.errors):
            return True
        return (
            (self.failed and result.status == "failed")
            or (self.recovered and result.recovered)
            or (self.errors and result.status == "error")
        )


SORTS: dict[Sort, Callable[[Result], float]] = {
    "score": lambda result: inf if result.score is None else result.score,
    "cost": lambda result: inf if result.total_cost is None else -result.total_cost,
    "time": lambda result: -duration_of(result),
}
"""The worst, the dearest, the slowest first; what has no score or price comes last."""


def _as_written(_result: Result) -> float:
    return 0.0


class ChosenResults(Results):
    """Some results of a run, in an order of their own. They are read one at a time unless they are sorted."""

    def __init__(self, every: Results, places: list[int], turn: int | None, *, is_sorted: bool) -> None:
        super().__init__(every.path, every)
        self._every = every
        self._places = places
        self._turn = turn
        self._is_sorted = is_sorted

    def __iter__(self) -> Iterator[Result]:
        if self._is_sorted:
            wanted = set(self._places)
            kept = {place: result for place, result in enumerate(self._every) if place in wanted}
            yield from (self._cut(kept[place]) for place in self._places)
            return
        places = iter(self._places)
        wanted_next = next(places, None)
        for place, result in enumerate(self._every):
            if wanted_next is None:
                return
            if place == wanted_next:
                yield self._cut(result)
                wanted_next = next(places, None)

    def __len__(self) -> int:
        return len(self._places)

    def with_all_turns(self) -> ChosenResults:
        return ChosenResults(self._every, self._places, None, is_sorted=self._is_sorted)

    def _cut(self, result: Result) -> Result:
        """The result with only the chosen turn."""
        if self._turn is None:
            return result
        return structs.replace(result, turns=tuple(turn for turn in result.turns if turn.turn == self._turn))


class ChosenReport(RunReport, frozen=True, kw_only=True):
    """A run, of whose results some are chosen."""

    chosen: ChosenResults
    selected: Selected

    @property
    def results(self) -> Results:
        return self.chosen

    @property
    def confirming(self) -> Results:
        """None of them is chosen."""
        return ChosenResults(self.chosen, [], None, is_sorted=False)

    @property
    def conversations(self) -> Results:
        """The results with all their turns, for a text that says how each ended."""
        return self.chosen.with_all_turns()


def choose(report: RunReport, choice: Choice) -> ChosenReport:
    """Raises UsageError for names, turns and trials that the run does not have."""
    chooser = _Chooser(report.folder.id, choice)
    order = SORTS[choice.sort] if choice.sort is not None else _as_written
    found = [(order(result), place) for place, result in enumerate(report.results) if chooser.is_chosen(result)]
    chooser.refuse_missing()
    places = [place for _, place in sorted(found)[: choice.limit]]
    options = {name: value for name, value in structs.asdict(choice).items() if value}
    return ChosenReport(
        report.run,
        report.summary,
        report.folder,
        report.derived,
        chosen=ChosenResults(report.results, places, choice.turn, is_sorted=choice.sort is not None),
        selected=Selected(len(places), len(found), chooser.total, options),
    )


class _Chooser:
    """Names, turns and trials that the results have, so that a typo does not select nothing in silence."""

    def __init__(self, run: str, choice: Choice) -> None:
        self.total = 0
        self._run = run
        self._choice = choice
        self._names = ChosenNames(choice.cases)
        self._found: set[str] = set()
        self._cases: dict[str, None] = {}
        self._targets: dict[str, None] = {}
        self._variants: dict[str, None] = {}
        self._most: Counter[str] = Counter()

    def is_chosen(self, result: Result) -> bool:
        choice = self._choice
        self.total += 1
        self._targets[result.target] = None
        if result.variant is not None:
            self._variants[result.variant] = None
        if choice.cases:
            self._found.update(self._names.found_by(result.id))
            if len(self._cases) < MOST_NAMES:
                self._cases[result.id] = None
        if choice.cases and result.id not in self._names:
            return False
        if (choice.targets and result.target not in choice.targets) or (
            choice.variants and result.variant not in choice.variants
        ):
            return False
        turns = result.turns[-1].turn if result.turns else 0
        self._most["trial"] = max(self._most["trial"], result.trial)
        self._most["turn"] = max(self._most["turn"], turns)
        has_parts = choice.trial in (None, result.trial) and (choice.turn is None or choice.turn <= turns)
        return has_parts and choice.ended_so(result)

    def refuse_missing(self) -> None:
        choice = self._choice
        for word in self._names.missing(self._found):
            raise _missing(f"run {self._run} has no case `{word}`", word, list(self._cases))
        for what, wanted, known in (
            ("target", choice.targets, self._targets),
            ("variant", choice.variants, self._variants),
        ):
            for word in wanted:
                if word not in known:
                    raise _missing(f"run {self._run} has no {what} `{word}`", word, list(known))
        for what, wanted in (("trial", choice.trial), ("turn", choice.turn)):
            most = self._most[what]
            if wanted is not None and wanted > most:
                raise UsageError(f"there is no {what} {wanted} there", f"The last {what} is {most}." if most else None)


def _missing(message: str, word: str, known: list[str]) -> UsageError:
    meant = nearest(word.replace("*", ""), known)
    if not known:
        return UsageError(message, "No conversation of it was finished. `rejoinder resume` continues them.")
    return UsageError(message, f"Did you mean `{meant}`?" if meant else f"There are: {', '.join(known[:20])}.")
