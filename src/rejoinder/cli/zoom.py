"""Some results of a run instead of all: which, in which order, and how many."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from math import inf

import click
from msgspec import Struct, structs

from rejoinder.cli.grouping import Values, grouped
from rejoinder.cli.output import words
from rejoinder.engine.results import Results
from rejoinder.engine.run_report import RunReport
from rejoinder.errors import UsageError
from rejoinder.model import Result
from rejoinder.model.chosen_names import ChosenNames
from rejoinder.report.runs import Selected, duration_of
from rejoinder.spelling import list_words, nearest

MOST_NAMES = 1000
"""Names that are remembered to propose the nearest one."""


class Zoom(Struct, frozen=True, kw_only=True):
    """What is asked for. Of `failed`, `recovered` and `errors` one has to hold, and all of the others."""

    cases: tuple[str, ...] = ()
    targets: tuple[str, ...] = ()
    variants: tuple[str, ...] = ()
    trial: int | None = None
    turn: int | None = None
    failed: bool = False
    recovered: bool = False
    errors: bool = False
    sort: str | None = None
    limit: int | None = None

    @property
    def is_whole(self) -> bool:
        """Is nothing chosen?"""
        return self == Zoom()

    @property
    def kind(self) -> str:
        """`failed`, `failed or recovered`; empty where any ending will do."""
        kinds = {"failed": self.failed, "recovered": self.recovered, "with an error": self.errors}
        chosen = [kind for kind, is_chosen in kinds.items() if is_chosen]
        return list_words(chosen, "or") if chosen else ""

    def ended_so(self, result: Result) -> bool:
        if not (self.failed or self.recovered or self.errors):
            return True
        return (
            (self.failed and result.status == "failed")
            or (self.recovered and result.recovered)
            or (self.errors and result.status == "error")
        )


SORTS: dict[str, Callable[[Result], float]] = {
    "score": lambda result: inf if result.score is None else result.score,
    "cost": lambda result: inf if result.total_cost is None else -result.total_cost,
    "time": lambda result: -duration_of(result),
}
"""The worst, the dearest, the slowest first; what has no score or price comes last."""


def _zoom(values: Values) -> Zoom:
    for names in ("targets", "variants"):
        values[names] = tuple(words(values[names]))
    return Zoom(**values)


zoom_options = grouped(
    "zoom",
    _zoom,
    cases=click.option(
        "--case", "cases", multiple=True, metavar="ID,...", help="Only these cases; patterns such as 'refund*'."
    ),
    targets=click.option("--target", "targets", multiple=True, metavar="NAME,...", help="Only on these targets."),
    variants=click.option("--variant", "variants", multiple=True, metavar="NAME,...", help="Only of these variants."),
    trial=click.option("--trial", type=click.IntRange(1), metavar="N", help="Only this trial of each case."),
    turn=click.option("--turn", type=click.IntRange(1), metavar="N", help="Only this turn of each conversation."),
    failed=click.option("--failed", is_flag=True, help="Only conversations that failed."),
    recovered=click.option("--recovered", is_flag=True, help="Only conversations that passed after a follow-up."),
    errors=click.option("--errors", is_flag=True, help="Only conversations that ended with an error."),
    sort=click.option("--sort", type=click.Choice(list(SORTS)), help="Put the worst, dearest or slowest first."),
    limit=click.option("--limit", type=click.IntRange(1), metavar="N", help="Show only the first N of them."),
)


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
        """The result with the wanted turn alone."""
        if self._turn is None:
            return result
        return structs.replace(result, turns=tuple(turn for turn in result.turns if turn.turn == self._turn))


class ZoomedReport(RunReport, frozen=True, kw_only=True):
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


def zoom_in(report: RunReport, zoom: Zoom) -> ZoomedReport:
    """Raises UsageError for names that the run does not have, and for turns and trials that it never came to."""
    seen = _Seen(report.folder.id, zoom)
    order = SORTS.get(zoom.sort or "", lambda _: 0.0)
    found = [(order(result), place) for place, result in enumerate(report.results) if seen.is_chosen(result)]
    seen.refuse_missing()
    places = [place for _, place in sorted(found)[: zoom.limit]]
    options = {name: value for name, value in structs.asdict(zoom).items() if value}
    return ZoomedReport(
        report.run,
        report.summary,
        report.folder,
        report.derived,
        chosen=ChosenResults(report.results, places, zoom.turn, is_sorted=zoom.sort is not None),
        selected=Selected(len(places), len(found), seen.total, options),
    )


class _Seen:
    """What a walk through the results has met, so that a typo does not select nothing in silence."""

    def __init__(self, run: str, zoom: Zoom) -> None:
        self.total = 0
        self._run = run
        self._zoom = zoom
        self._names = ChosenNames(zoom.cases)
        self._found: set[str] = set()
        self._cases: dict[str, None] = {}
        self._targets: dict[str, None] = {}
        self._variants: dict[str, None] = {}
        self._most: Counter[str] = Counter()

    def is_chosen(self, result: Result) -> bool:
        zoom = self._zoom
        self.total += 1
        self._targets[result.target] = None
        if result.variant is not None:
            self._variants[result.variant] = None
        if zoom.cases:
            self._found.update(self._names.found_by(result.id))
            if len(self._cases) < MOST_NAMES:
                self._cases[result.id] = None
        if zoom.cases and result.id not in self._names:
            return False
        if (zoom.targets and result.target not in zoom.targets) or (
            zoom.variants and result.variant not in zoom.variants
        ):
            return False
        turns = result.turns[-1].turn if result.turns else 0
        self._most["trial"] = max(self._most["trial"], result.trial)
        self._most["turn"] = max(self._most["turn"], turns)
        has_parts = zoom.trial in (None, result.trial) and (zoom.turn is None or zoom.turn <= turns)
        return has_parts and zoom.ended_so(result)

    def refuse_missing(self) -> None:
        zoom = self._zoom
        for word in self._names.missing(self._found):
            raise _missing(f"run {self._run} has no case `{word}`", word, list(self._cases))
        for what, wanted, known in (
            ("target", zoom.targets, self._targets),
            ("variant", zoom.variants, self._variants),
        ):
            for word in wanted:
                if word not in known:
                    raise _missing(f"run {self._run} has no {what} `{word}`", word, list(known))
        for what, wanted in (("trial", zoom.trial), ("turn", zoom.turn)):
            most = self._most[what]
            if wanted is not None and wanted > most:
                raise UsageError(f"there is no {what} {wanted} there", f"The last {what} is {most}." if most else None)


def _missing(message: str, word: str, known: list[str]) -> UsageError:
    meant = nearest(word.replace("*", ""), known)
    if not known:
        return UsageError(message, "No conversation of it was finished. `rejoinder resume` goes on with them.")
    return UsageError(message, f"Did you mean `{meant}`?" if meant else f"There are: {', '.join(known[:20])}.")
