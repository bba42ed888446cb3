"""What a conversation costs: the marginal cost of a scripted two-turn conversation, as a multiple of the floor.

10,000 conversations against 1,000 by repetition, journal durable, loading not counted; both measured in one run and
alternated. The bound is 10 times `floor.py`.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import floor

import rejoinder
from rejoinder.engine.run import start_run
from rejoinder.runs.options import Pace, RunOptions

SUITE = """\
metadata: {model: demo}
targets:
  - name: demo
    provider: scripted
    replies: ["100", "15 * 7 = 105"]
evals:
  - id: times
    prompt: What is 15 * 7?
    checks:
      - match: "*105*"
      - prompt: That is not right. Please calculate again.
        checks:
          - match: "*105*"
"""
BOUND = 10.0
FEW, MANY = 1_000, 10_000


def ours(folder: Path, conversations: int, workers: int | None) -> float:
    suite = rejoinder.load(folder / "evals.yaml").loaded
    started = time.perf_counter()
    report = start_run([suite], RunOptions(repeat=conversations, pace=Pace(workers=workers)))
    seconds = time.perf_counter() - started
    assert report.summary.recovered == conversations
    return seconds


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--workers", type=int)
    arguments = parser.parse_args()
    costs: list[float] = []
    floors: list[float] = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / ".rejoinder").mkdir()
        (folder / "evals.yaml").write_text(SUITE, encoding="utf-8")
        for _ in range(arguments.runs):
            few, many = ours(folder, FEW, arguments.workers), ours(folder, MANY, arguments.workers)
            costs.append((many - few) / (MANY - FEW))
            floors.append((floor.measure(MANY) - floor.measure(FEW)) / (MANY - FEW))
    cost, bare = statistics.median(costs), statistics.median(floors)
    print(f"a conversation of two turns: {cost * 1e6:.1f} us, the floor: {bare * 1e6:.1f} us")
    print(f"ratio {cost / bare:.2f}, bound {BOUND:g}: {'ok' if cost / bare <= BOUND else 'OVER'}")
    return cost / bare > BOUND


if __name__ == "__main__":
    sys.exit(main())
