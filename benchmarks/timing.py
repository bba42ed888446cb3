"""Timing of whole processes, and the table that sets each time against its baseline and bound."""

from __future__ import annotations

import argparse
import compileall
import statistics
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from time import perf_counter
from typing import NamedTuple

PYTHON = sys.executable
REJOINDER = str(Path(sys.executable).with_name("rejoinder"))


class Row(NamedTuple):
    """A time and the baseline that it is a multiple of, both in seconds."""

    name: str
    time: float
    baseline: float
    bound: float

    @property
    def ratio(self) -> float:
        return self.time / self.baseline


def read_runs(description: str | None) -> int:
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--runs", type=int, default=31, help="how often each is measured (default: 31)")
    return parser.parse_args().runs


def compile_package() -> None:
    """Write the bytecode of rejoinder, so that no run pays for compiling it."""
    spec = find_spec("rejoinder")
    if spec is None or not spec.submodule_search_locations:
        sys.exit("rejoinder is not installed beside this Python")
    for folder in spec.submodule_search_locations:
        compileall.compile_dir(folder, quiet=1)


def time_process(command: Sequence[str], folder: Path | None = None) -> float:
    """Wall time of a process from its start to its end. It has to succeed."""
    start = perf_counter()
    done = subprocess.run(command, cwd=folder, stdin=subprocess.DEVNULL, capture_output=True, check=False)
    spent = perf_counter() - start
    if done.returncode:
        said = (done.stdout + done.stderr).decode(errors="replace")[:1000]
        sys.exit(f"{' '.join(command)} ended with {done.returncode}:\n{said}")
    return spent


def alternate(measures: Mapping[str, Callable[[], float]], runs: int) -> dict[str, float]:
    """The median of each measure. They take turns, so that a slow moment of the machine meets all of them."""
    times: dict[str, list[float]] = {name: [] for name in measures}
    for measure in measures.values():
        measure()
    for _ in range(runs):
        for name, measure in measures.items():
            times[name].append(measure())
    return {name: statistics.median(taken) for name, taken in times.items()}


def show(rows: Sequence[Row]) -> int:
    """Print the table; the exit code is 1 when a bound is broken."""
    width = max(len(row.name) for row in rows)
    print(f"{'':{width}}  median ms  baseline ms  ratio  bound")
    for row in rows:
        verdict = "ok" if row.ratio <= row.bound else "OVER"
        print(
            f"{row.name:{width}}  {row.time * 1000:9.1f}  {row.baseline * 1000:11.1f}"
            f"  {row.ratio:5.2f}  {row.bound:5g}  {verdict}"
        )
    return int(any(row.ratio > row.bound for row in rows))
