"""Charts as SVG: dots with their intervals on a scale from 0 to 100 %. Colours come from the style, numbers from the
summary; a chart computes nothing but where a dot stands.

Each chart is one image for screen readers, whose label has all its numbers. Without JavaScript and in print it is the
same.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Literal, TypeAlias

from msgspec import Struct

from rejoinder.model import Summary
from rejoinder.model.figures import NetRecovery, Rate
from rejoinder.model.results import Interval
from rejoinder.model.runs import Recovery, TargetSummary
from rejoinder.report.page.markup import Markup, element
from rejoinder.report.summary import is_only_doubted
from rejoinder.report.words import interval as interval_words
from rejoinder.report.words import shortened

MOST_LINES = 60
"""Lines of a chart; the tables below have all."""
LONGEST_LABEL = 22
_LEFT, _RIGHT, _WIDTH, _TOP, _GAP = 158, 442, 540, 8, 34
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
        came = "" if self.start is None else f"from {100 * self.start:.0f} to "
        bounds = "" if self.interval is None else f", interval {interval_words(self.interval)}"
        return f"{self.label}: {came}{100 * self.rate:.0f} percent, {self.value}{bounds}"


def dot_chart(title: str, lines: Sequence[Line]) -> Markup:
    """Lines one below the other, on a common scale."""
    shown = lines[:MOST_LINES]
    bottom = _TOP + _GAP * len(shown)
    return element(
        "svg",
        {
            "viewBox": f"0 0 {_WIDTH} {bottom + 22}",
            "role": "img",
            "aria-label": f"{title}. {'; '.join(line.words for line in shown)}.",
        },
        _scale(bottom),
        [_line(line, _TOP + _GAP * place + _GAP // 2) for place, line in enumerate(shown)],
    )


def recovery_chart(parts: Sequence[tuple[str, Summary | TargetSummary]]) -> Markup:
    """What passed at each step, of what got there: of the run, or of each of several targets under its name."""
    return dot_chart("Passed at each step", list(recovery_lines(parts)))


def recovery_lines(parts: Iterable[tuple[str, Summary | TargetSummary]]) -> Iterator[Line]:
    for name, part in parts:
        if not part.recovery:
            continue
        if name:
            yield Line(label=name)
        if part.rates is not None:
            yield from _rate("First try", part.rates.first_try, "first")
        yield from map(_follow_up, part.recovery)
        if part.net_recovery is not None and not is_only_doubted(part):
            yield from _net(part.net_recovery)


def _rate(label: str, rate: Rate, colour: Colour) -> Iterator[Line]:
    if rate.rate is not None:
        value = f"{rate.passed:,} of {rate.of:,}"
        yield Line(label=label, rate=rate.rate, value=value, interval=rate.interval, colour=colour)


def _follow_up(row: Recovery) -> Line:
    rate = row.recovered / row.at_risk if row.rate is None else row.rate
    value = f"{row.recovered:,} of {row.at_risk:,}"
    return Line(label=f"Follow-up {row.depth}", rate=rate, value=value, interval=row.interval)


def _net(net: NetRecovery) -> Iterator[Line]:
    """What one follow-up gained over asking afresh."""
    if net.net is None or net.afresh is None or net.answered_back is None:
        return
    from rejoinder.stats import points

    yield Line(label="Against asking afresh", rate=net.answered_back, start=net.afresh, value=points(net.net))


def conditions_chart(parts: Iterable[tuple[str, Summary | TargetSummary]]) -> Markup:
    """Sharded tasks by the way in which they were put: of the run, or of each of several targets under its name."""
    lines: list[Line] = []
    for name, part in parts:
        lines += [Line(label=name)] if name and part.by_condition else []
        for condition, found in part.by_condition.items():
            lines += _rate(condition.capitalize(), found.rate, "first")
    return dot_chart("Passed by how tasks were put", lines)


def groups_chart(title: str, groups: dict[str, TargetSummary]) -> Markup:
    """Targets or variants: from the first try to the end, with the interval of the end."""
    return dot_chart(title, list(group_lines(groups)))


def group_lines(groups: dict[str, TargetSummary]) -> Iterator[Line]:
    for name, group in groups.items():
        rates = group.rates
        value = f"{group.passed:,} of {group.total - group.skipped:,}"
        if rates is None or rates.eventual.rate is None or not group.has_rate:
            yield Line(label=f"{shortened(name, LONGEST_LABEL - 9)}, no rate")
            continue
        yield Line(
            label=name,
            rate=rates.eventual.rate,
            value=value,
            interval=rates.eventual.interval,
            start=rates.first_try.rate,
        )


class TrendPoint(Struct, frozen=True, kw_only=True):
    """A run in a trend."""

    label: str
    rate: float
    value: str
    """`31 of 45`."""
    interval: Interval | None = None


def trend_chart(title: str, points: Sequence[TrendPoint]) -> Markup:
    """Runs from left to right, each a dot with its interval."""
    width, high, left, right = 720, 160, 40, 704
    step = (right - left) / max(1, len(points) - 1)
    places = [left + step * place for place in range(len(points))] if len(points) > 1 else [(left + right) / 2]

    def up(rate: float) -> str:
        return _at(12 + (1 - rate) * (high - 24))

    told = "; ".join(f"{point.label}: {100 * point.rate:.0f} percent, {point.value}" for point in points)
    return element(
        "svg",
        {"viewBox": f"0 0 {width} {high}", "role": "img", "class": "trend", "aria-label": f"{title}. {told}."},
        [
            [
                element("line", {"class": "grid", "x1": left, "x2": right, "y1": up(tick / 100), "y2": up(tick / 100)}),
                element("text", {"class": "tick", "x": left - 6, "y": up(tick / 100), "text-anchor": "end"}, tick),
            ]
            for tick in (0, 50, 100)
        ],
        element(
            "polyline",
            {
                "class": "path",
                "points": " ".join(f"{_at(x)},{up(point.rate)}" for x, point in zip(places, points, strict=True)),
            },
        )
        if len(points) > 1
        else None,
        [
            [
                element(
                    "line",
                    {
                        "class": "ci rec",
                        "x1": _at(x),
                        "x2": _at(x),
                        "y1": up(point.interval[0]),
                        "y2": up(point.interval[1]),
                    },
                )
                if point.interval is not None
                else None,
                element(
                    "circle",
                    {"class": "dot rec", "cx": _at(x), "cy": up(point.rate), "r": 4},
                    element("title", None, f"{point.label}: {point.value}"),
                ),
            ]
            for x, point in zip(places, points, strict=True)
        ],
    )


# Parts of a chart


def _scale(bottom: int) -> list[Markup]:
    drawn: list[Markup] = []
    for tick in _TICKS:
        x = _across(tick / 100)
        anchor = {0: "start", 100: "end"}.get(tick, "middle")
        drawn.append(element("line", {"class": "grid", "x1": x, "x2": x, "y1": _TOP, "y2": bottom}))
        words = f"{tick} %" if tick == 100 else str(tick)
        drawn.append(element("text", {"class": "tick", "x": x, "y": bottom + 16, "text-anchor": anchor}, words))
    return drawn


def _line(line: Line, y: int) -> list[Markup | None]:
    label = element(
        "text",
        {"class": "lab" if line.rate is not None else "lab group", "x": 0, "y": y + 4},
        shortened(line.label, LONGEST_LABEL),
    )
    if line.rate is None:
        return [label]
    x = _across(line.rate)
    return [
        label,
        _level("ci " + line.colour, _across(line.interval[0]), _across(line.interval[1]), y) if line.interval else None,
        _level("gain", _across(line.start), x, y) if line.start is not None else None,
        element("circle", {"class": "dot hollow first", "cx": _across(line.start), "cy": y, "r": 5})
        if line.start is not None
        else None,
        element("circle", {"class": f"dot {line.colour}", "cx": x, "cy": y, "r": 5}),
        element("text", {"class": "val", "x": _RIGHT + 14, "y": y + 4}, line.value),
    ]


def _level(name: str, start: str, end: str, y: int) -> Markup:
    return element("line", {"class": name, "x1": start, "x2": end, "y1": y, "y2": y})


def _across(rate: float) -> str:
    return _at(_LEFT + min(max(rate, 0.0), 1.0) * (_RIGHT - _LEFT))


def _at(place: float) -> str:
    return f"{place:.1f}"
