"""Benchmarks in lines: the list of all, and the figures of a run."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from rejoinder.bench.figures import Figure
from rejoinder.bench.table import Benchmark
from rejoinder.report.styled import EMPTY, Form, Line, line, safe
from rejoinder.report.tables import Column, write_table
from rejoinder.words.numbers import percent_to, rate_range


def write_benchmarks(rows: Sequence[tuple[Benchmark, bool]], form: Form) -> Iterator[Line]:
    """Each with its licence and size, and whether its files are in the project."""
    benchmarks = [benchmark for benchmark, _ in rows]
    columns = (
        _column("name", (benchmark.name for benchmark in benchmarks)),
        _column("cases", (str(benchmark.cases) for benchmark in benchmarks), right=True),
        _column("licence", (benchmark.licence for benchmark in benchmarks)),
        _column("size", (f"{benchmark.size / 1000:.0f} kB" for benchmark in benchmarks), right=True),
        _column("files", ("here" if is_here else "not fetched" for _, is_here in rows)),
        _column("", (benchmark.about for benchmark in benchmarks)),
    )
    yield from write_table(columns, form)


def write_figures(benchmark: Benchmark, figures: Mapping[str, Sequence[Figure]], form: Form) -> Iterator[Line]:
    """The figures of each target, with intervals."""
    yield EMPTY
    yield line((f"{benchmark.title}, by its own names", "name"))
    several = len(figures) > 1
    rows = [(target, figure) for target, found in figures.items() for figure in found]
    columns = (
        _column("", (safe(target) if several else "" for target, _ in rows)),
        _column("", (figure.name for _, figure in rows)),
        _column("", (_value(figure) for _, figure in rows), right=True),
        _column("95%", (_interval(figure) for _, figure in rows), right=True),
        _column("cases", (str(figure.cases) for _, figure in rows), right=True),
    )
    yield from write_table(columns, form)


def _column(title: str, cells: Iterable[str], *, right: bool = False) -> Column:
    return Column(title=title, cells=[line(cell) for cell in cells], right=right)


def _value(figure: Figure) -> str:
    if figure.value is None:
        return "-"
    if figure.unit == "%":
        return percent_to(figure.value, 1)
    return f"{figure.value:.2f} {figure.unit}".strip()


def _interval(figure: Figure) -> str:
    if figure.interval is None:
        return ""
    low, high = figure.interval
    return rate_range(figure.interval, 1) if figure.unit == "%" else f"{low:.2f} to {high:.2f}"
