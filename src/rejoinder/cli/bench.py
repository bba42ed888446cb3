"""`rejoinder bench`"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from rejoinder.cli.grouping import Values, format_option
from rejoinder.cli.options import LIMITS, PACE, TRUST, changed_options
from rejoinder.cli.output import echo, echo_lines, form_for, words, write_data
from rejoinder.errors import UsageError

if TYPE_CHECKING:
    from rejoinder.bench.figures import Figure
    from rejoinder.bench.store import Got
    from rejoinder.bench.table import Benchmark
    from rejoinder.runs.report import RunReport


@click.group("bench")
def command() -> None:
    """Fetch and run published benchmarks."""


@command.command("list")
@format_option
def list_benchmarks(form: str) -> None:
    """List the benchmarks, with licence, size and source."""
    from rejoinder.bench.store import got
    from rejoinder.bench.table import BENCHMARKS
    from rejoinder.report.bench import write_benchmarks

    rows = [(benchmark, got(benchmark, _root()) is not None) for benchmark in BENCHMARKS.values()]
    if form == "json":
        write_data([{**_record(benchmark), "here": is_here} for benchmark, is_here in rows])
    else:
        echo_lines(write_benchmarks(rows, form_for(sys.stdout)))


def _record(benchmark: Benchmark) -> dict[str, object]:
    files = [
        {"name": file.name, "url": benchmark.address(file), "size": file.size, "sha256": file.sha256}
        for file in benchmark.files
    ]
    return {
        "name": benchmark.name,
        "title": benchmark.title,
        "cases": benchmark.cases,
        "licence": benchmark.licence,
        "source": benchmark.source,
        "size": benchmark.size,
        "judged": benchmark.judged,
        "files": files,
    }


@command.command("get")
@click.argument("name")
@click.option("--from", "origin", metavar="FILE|FOLDER|URL", help="Take the files from here instead of their source.")
@click.option("--any-version", is_flag=True, help="Accept files that differ from the published ones.")
def get(name: str, origin: str | None, any_version: bool) -> None:
    """Fetch a benchmark's files into the project, and compare them with their checksums.

    The files are stored in `.rejoinder/bench`. Nothing else is fetched, and nothing is sent.
    """
    from rejoinder.bench import store
    from rejoinder.bench.table import find_benchmark

    benchmark = find_benchmark(name)
    echo(store.licence_of(benchmark), err=True)
    found = store.get(benchmark, _root(), origin, any_version=any_version)
    _warn(found)
    echo(f"{name} is in {_shown(found.folder)}; next: rejoinder bench run {name} -m MODEL")


@command.command("run")
@click.argument("name")
@click.option(
    "--model", "-m", "models", multiple=True, metavar="NAME,...", help="Run on these targets or provider/model."
)
@click.option("--judge", metavar="NAME", help="The target, or provider/model, that judges.")
@click.option("--limit", type=click.IntRange(1), metavar="N", help="Run only the first N cases.")
@click.option("--repeat", type=click.IntRange(1), metavar="K", help="Run each case K times.")
@click.option("--dry-run", is_flag=True, help="Show calls and costs without sending anything.")
@changed_options(**PACE, **LIMITS, **TRUST)
@format_option
def run(
    name: str,
    models: tuple[str, ...],
    judge: str | None,
    limit: int | None,
    repeat: int | None,
    dry_run: bool,
    changes: Values,
    form: str,
) -> None:
    """Run a benchmark that was fetched, and show its own figures.

    Exit code 0 if the run ended, even if replies were wrong; 3 if there were errors, 4 if the budget was reached.
    """
    from rejoinder.bench import store
    from rejoinder.bench.table import find_benchmark
    from rejoinder.cli.estimate import show_estimate
    from rejoinder.cli.live import live_display
    from rejoinder.cli.loading import load_or_exit
    from rejoinder.engine.run import start_run
    from rejoinder.runs.options import RunOptions

    benchmark = find_benchmark(name)
    found = store.got(benchmark, _root())
    if found is None:
        raise UsageError(f"the files of {benchmark.title} are not here", f"Fetch them: rejoinder bench get {name}")
    _warn(found)
    given = {"repeat": repeat, "limit": limit, "targets": tuple(words(models)) or None}
    options = RunOptions().changed(**changes, **{key: one for key, one in given.items() if one is not None})
    suites = load_or_exit((store.write_suite(benchmark, found, judge),), options, asks=not dry_run)
    if dry_run:
        show_estimate(suites, options, form)
        return
    report = start_run(suites, options, live_display())
    _show(benchmark, report, form)
    sys.exit(report.summary.exit_code if report.summary.exit_code > 1 else 0)


def _show(benchmark: Benchmark, report: RunReport, form: str) -> None:
    """The run as usual, then the benchmark's figures."""
    from msgspec import to_builtins

    from rejoinder.bench.figures import cases_of
    from rejoinder.cli.output import write_machine
    from rejoinder.cli.results import Output, write_report
    from rejoinder.exports.formats import write_json
    from rejoinder.report.bench import write_figures

    figures: dict[str, list[Figure]] = {
        target: benchmark.figures(cases) for target, cases in cases_of(report.results).items()
    }
    if form == "json":
        about = {"name": benchmark.name, "title": benchmark.title, "source": benchmark.source, "figures": figures}
        write_machine(write_json(report, benchmark=to_builtins(about)))
        return
    write_report(report, Output(form=form, out=(), verbose=False, corrected=False))
    echo_lines(write_figures(benchmark, figures, form_for(sys.stdout)))


def _warn(found: Got) -> None:
    if found.differing:
        names = ", ".join(found.differing)
        echo(f"warning: {names} differs from the published file; the figures are not comparable with others", err=True)


def _root() -> Path:
    from rejoinder.project.folders import find_root

    return find_root(Path.cwd(), Path.cwd())


def _shown(path: Path) -> str:
    from rejoinder.project.folders import display_path

    return display_path(path, Path.cwd())
