"""Timing of whole processes, and the table that sets each time against its baseline and bound."""

from __future__ import annotations

import argparse
import compileall
import os
import resource
import statistics
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
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


def read_runs(description: str | None, usual: int = 31) -> int:
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--runs", type=int, default=usual, help=f"how often each is measured (default: {usual})")
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


def cpu_of_process(command: Sequence[str], folder: Path | None = None) -> float:
    """Processor time of a process and of those that it waited for. It has to succeed."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    time_process(command, folder)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


_SERVER = """
import sys
from rejoinder.testing import FakeServer
with FakeServer("15 * 7 = 105", latency_s=float(sys.argv[1])) as server:
    print(server.openai_url, flush=True)
    sys.stdin.read()
"""


@contextmanager
def fake_server(latency_s: float = 0.0) -> Iterator[str]:
    """The address of a fake model server in a process of its own, whose time is not counted."""
    command = [PYTHON, "-c", _SERVER, str(latency_s)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        yield process.stdout.readline().strip()
    finally:
        process.communicate("")


def say_load() -> None:
    """How busy the machine is otherwise: figures of a busy one are worth less."""
    print(f"load of the last minute: {os.getloadavg()[0]:.1f} on {os.cpu_count()} processors")


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
