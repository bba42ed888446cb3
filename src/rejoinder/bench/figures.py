"""A benchmark's own figures, with the interval that rejoinder adds."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from statistics import fmean

from msgspec import Struct

from rejoinder.model import Result
from rejoinder.stats.intervals import Interval
from rejoinder.stats.rates import mean_of_cases, rate_of


class Figure(Struct, frozen=True):
    """A figure under the benchmark's own name. None if no conversation gives it."""

    name: str
    value: float | None
    cases: int
    interval: Interval | None
    unit: str = ""
    """`%` for a share; otherwise the end of the scale, or nothing."""


Cases = Mapping[str, Sequence[Result]]
"""The trials of each case, without those that ended in an error."""


def cases_of(results: Iterable[Result]) -> dict[str, dict[str, list[Result]]]:
    """The trials by target and case. A conversation in error measures nothing."""
    found: dict[str, dict[str, list[Result]]] = {}
    for result in results:
        if result.status in ("passed", "failed"):
            found.setdefault(result.target, {}).setdefault(result.id, []).append(result)
    return found


def rate(name: str, counts: Iterable[tuple[int, int]]) -> Figure:
    """A share of all, from (passed, of) for each case."""
    found = rate_of(counts)
    return Figure(name, found.rate, found.cases, found.interval, "%")


def mean(name: str, cases: Cases, value: Callable[[Result], float | None], most: float) -> Figure:
    """The mean over cases, each of which counts once, on a scale from 0 to `most`. `value` gives None for a
    conversation that does not count."""
    known = [[found for one in trials if (found := value(one)) is not None] for trials in cases.values()]
    means = [fmean(found) / most for found in known if found]
    figure = mean_of_cases(means, len(means))
    interval = figure.interval and (figure.interval[0] * most, figure.interval[1] * most)
    return Figure(name, None if figure.mean is None else figure.mean * most, len(means), interval, f"of {most:g}")
