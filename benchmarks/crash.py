"""Kills rejoinder at random moments, a thousand times, and checks after each resume that nothing was lost or repeated.

A run of 64 conversations of up to four turns, 50 at a time, asks a counting server on loopback. Its process is killed
with SIGKILL, resumed, killed again, and at last left alone; then every call is accounted for and the results are
compared with those of a run that nobody disturbed. A violation ends the script with the seed that shows it again.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import contextmanager
from multiprocessing import get_context
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from time import perf_counter

sys.path.insert(0, str(Path(__file__).parent.parent))

from tests.labs.crash_lab import CountingServer, Lab, Tally, kill_at_random, make_suite

KILLS_A_RUN = 5
KILLS_A_CHUNK = 20


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=1000, help="how often to kill (default: 1000)")
    parser.add_argument("--seed", type=int, default=0, help="of the first chunk of kills (default: 0)")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="runs at the same time (default: the cores)")
    given = parser.parse_args()
    start, total, violations = perf_counter(), Tally(), 0
    chunks = {
        given.seed + number: min(KILLS_A_CHUNK, given.kills - first)
        for number, first in enumerate(range(0, given.kills, KILLS_A_CHUNK))
    }
    with ProcessPoolExecutor(given.jobs, get_context("spawn")) as pool:
        waiting = {pool.submit(kill, seed, kills): seed for seed, kills in chunks.items()}
        for done in as_completed(waiting):
            try:
                total += done.result()
            except AssertionError as violation:
                violations += 1
                print(f"\nVIOLATED with --seed {waiting[done]} --kills {KILLS_A_CHUNK}: {str(violation)[:500]}")
            print(f"\r{total.kills} kills", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)
    for name, number in zip(
        (
            "kills",
            "of them before anything was sent",
            "calls that reached the server",
            "of them made again",
            "calls said to be in doubt",
            "violations",
        ),
        (*total, violations),
        strict=True,
    ):
        print(f"{name:34}{number:8,}")
    print(f"{'seconds':34}{perf_counter() - start:8.0f}")
    return int(violations > 0)


def kill(seed: int, kills: int) -> Tally:
    """One chunk of kills, of runs that follow each other. Every third has a target that blocks its thread."""
    random, tally = Random(seed), Tally()
    with laboratory() as lab:
        lab.write("evals.yaml", make_suite(blocking=seed % 3 == 2))
        document, calls = lab.run().document, lab.server.calls()
        while tally.kills < kills:
            tally += kill_at_random(lab, document, calls, random, min(KILLS_A_RUN, kills - tally.kills))
    return tally


@contextmanager
def laboratory() -> Iterator[Lab]:
    server = CountingServer()
    try:
        with TemporaryDirectory() as folder:
            yield Lab(Path(folder).resolve(), server)
    finally:
        server.close()


if __name__ == "__main__":
    sys.exit(main())
