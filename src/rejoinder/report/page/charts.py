"""Charts: dots with their intervals on a scale from 0 to 100 %. Colours come from the style, numbers from the summary;
a chart computes nothing but where a dot stands.

Labels and numbers are HTML beside the drawing, so that they keep their size when it is stretched. Each drawing is one
image for screen readers, whose label has all its numbers. Without JavaScript and in print it is the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Literal, TypeAlias

from msgspec import Struct

from rejoinder.model.boards import Part, is_only_doubted
from rejoinder.model.figures import Interval, NetRecovery, Rate
from rejoinder.report.page.markup import Child, Markup, element
from rejoinder.words.numbers import points, share, shortened
from rejoinder.words.numbers import rate_range as interval_words

MOST_LINES = 60
"""Lines of a chart; the tables below have all."""
LONGEST_LABEL = 40
_TICKS = (0, 25, 50, 75, 100)

Colour: TypeAlias = Literal["first", "rec"]


class Line(Struct, frozen=True, kw_only=True):
    """One line of a chart: a name, a dot with its interval, and the numbers behind it."""

    label: str
    rate: float | None = None
    """None for a line that only names those below it."""
    value: str = ""
    interval: Interval | None = None
    colour: Colour = "rec"
    start: float | None = None
    """Where it came from: a hollow dot, joined with the other."""

    @property
    def words(self) -> str:
        if self.rate is None:
            return self.label
        came = "" if self.start is None else f"from {share(self.start)} to "
        bounds = "" if self.interval is None else f", interval {interval_words(self.interval)}"
        return f"{self.label}: {came}{share(self.rate)}, {self.value}{bounds}"


def dot_chart(title: str, lines: Sequence[Line]) -> Markup:
    """Lines one below the other, on a common scale."""
    scale = [element("span", None, "100%" if tick == 100 else tick) for tick in _TICKS]
    return element(
        "div",
        {
            "class": "chart",
            "role": "img",
            "aria-label": f"{title}. {'; '.join(one.words for one in lines[:MOST_LINES])}.",
        },
        [list(_line(line)) for line in lines[:MOST_LINES]],
        element("p", {"class": "scale", "aria-hidden": "true"}, scale),
    )


def recovery_chart(parts: Sequence[tuple[str, Part]]) -> Markup:
    """What passed at each step, of what got there: of the run, or of each of several targets under its name."""
    return dot_chart("Passed at each step", list(recovery_lines(parts)))


def recovery_lines(parts: Iterable[tuple[str, Part]]) -> Iterator[Line]:
    for name, part in parts:
        if not part.recovery:
            continue
        if name:
            yield Line(label=name)
        if part.rates is not None and isinstance(part.rate, Rate):
            yield from _rate("First try", part.rates.first_try, "first")
        for row in part.recovery:
            value = f"{row.recovered:,} of {row.at_risk:,}"
            yield Line(label=f"Follow-up {row.depth}", rate=row.share, value=value, interval=row.interval)
        if part.net_recovery is not None and not is_only_doubted(part):
            yield from _net(part.net_recovery)


def _rate(label: str, rate: Rate, colour: Colour) -> Iterator[Line]:
    if rate.rate is not None:
        value = f"{rate.passed:,} of {rate.of:,}"
        yield Line(label=label, rate=rate.rate, value=value, interval=rate.interval, colour=colour)


def _net(net: NetRecovery) -> Iterator[Line]:
    """What one follow-up gained over asking afresh."""
    if net.net is None or net.afresh is None or net.answered_back is None:
        return
    yield Line(label="Against asking again", rate=net.answered_back, start=net.afresh, value=points(net.net))


def conditions_chart(parts: Iterable[tuple[str, Part]]) -> Markup:
    """Sharded tasks by the way in which they were put: of the run, or of each of several targets under its name."""
    lines: list[Line] = []
    for name, part in parts:
        lines += [Line(label=name)] if name and part.by_condition else []
        for condition, found in part.by_condition.items():
            lines += _rate(condition.capitalize(), found.rate, "first")
    return dot_chart("Passed by how tasks were put", lines)


class TrendPoint(Struct, frozen=True, kw_only=True):
    """A run in a trend."""

    label: str
    rate: float
    value: str
    """`31 of 45`."""
    interval: Interval | None = None


def trend_chart(title: str, points: Sequence[TrendPoint]) -> Markup:
    """Runs from left to right, each a dot with its interval; below it the first and the last by their labels."""
    dates = [element("span", None, one.label) for one in (points if len(points) < 2 else (points[0], points[-1]))]
    step = 96 / max(1, len(points) - 1)
    places = [2 + step * place for place in range(len(points))] if len(points) > 1 else [50.0]
    told = "; ".join(f"{point.label}: {share(point.rate)}, {point.value}" for point in points)
    path = " ".join(f"{_at(x)},{_up(point.rate)}" for x, point in zip(places, points, strict=True))
    drawn = [
        [
            None if point.interval is None else _mark("ci rec", x, x, *point.interval),
            _mark("dot rec", x, x, point.rate, point.rate, f"{point.label}: {point.value}"),
        ]
        for x, point in zip(places, points, strict=True)
    ]
    return element(
        "div",
        {"class": "trend", "role": "img", "aria-label": f"{title}. {told}."},
        element(
            "p", {"class": "scale", "aria-hidden": "true"}, [element("span", None, f"{tick}%") for tick in (100, 50, 0)]
        ),
        _drawing(
            [_mark("grid", 0, 100, tick, tick) for tick in (0, 0.5, 1)],
            element("polyline", {"class": "path", "points": path}) if len(points) > 1 else None,
            drawn,
        ),
        element("p", {"class": "scale dates", "aria-hidden": "true"}, dates),
    )


def sparkline(rates: Sequence[float], *, lowest: bool = False) -> Markup:
    """The pass rates of a suite's runs, the oldest first, as a line. `lowest`: of each run that of its worst target."""
    step = 100 / max(1, len(rates) - 1)
    path = " ".join(f"{_at(step * place)},{_up(rate)}" for place, rate in enumerate(rates))
    told = f"{'Lowest pass' if lowest else 'Pass'} rates of the last {len(rates)} runs: {', '.join(map(share, rates))}"
    view = {
        "class": "spark",
        "viewBox": "0 0 100 100",
        "preserveAspectRatio": "none",
        "role": "img",
        "aria-label": told,
    }
    return element(
        "svg",
        view,
        _mark("grid", 0, 100, 0, 0),
        element("polyline", {"class": "path", "points": path}),
        _mark("dot rec", 100, 100, rates[-1], rates[-1]),
    )


# Parts of a chart: places are per cent of its width and height


def _line(line: Line) -> Iterator[Markup]:
    yield element(
        "span", {"class": "lab" if line.rate is not None else "lab group"}, shortened(line.label, LONGEST_LABEL)
    )
    if line.rate is None:
        return
    grid = [_mark("grid", tick, tick, 0, 1) for tick in _TICKS]
    interval = None if line.interval is None else _level(f"ci {line.colour}", *line.interval)
    came = (
        None
        if line.start is None
        else [_level("gain", line.start, line.rate), _level("dot control", line.start, line.start)]
    )
    yield _drawing(grid, interval, came, _level(f"dot {line.colour}", line.rate, line.rate))
    yield element("span", {"class": "val"}, line.value)


def _drawing(*parts: Child) -> Markup:
    """A drawing that is stretched; strokes keep their width."""
    return element("svg", {"viewBox": "0 0 100 100", "preserveAspectRatio": "none", "aria-hidden": "true"}, *parts)


def _level(kind: str, start: float, end: float) -> Markup:
    return _mark(kind, 100 * min(max(start, 0.0), 1.0), 100 * min(max(end, 0.0), 1.0), 0.5, 0.5)


def _mark(kind: str, x1: float, x2: float, low: float, high: float, title: str = "") -> Markup:
    """A line; one without length is a dot."""
    place = {"x1": _at(x1), "x2": _at(x2), "y1": _up(low), "y2": _up(high)}
    return element("line", {"class": kind, **place}, element("title", None, title) if title else None)


def _up(rate: float) -> str:
    return _at(4 + 92 * (1 - rate))


def _at(place: float) -> str:
    return f"{place:.1f}"
