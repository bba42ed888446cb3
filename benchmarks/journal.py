"""What durability costs: a run whose provider answers in 20 ms with 100 in flight, with the journal and without.

Without means that records are encoded and thrown away. Both are measured in one run and alternated; the bound is
15 % of the wall time.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from pathlib import Path
from unittest import mock

import msgspec

import rejoinder
from rejoinder.engine import worker
from rejoinder.engine.run import start_run
from rejoinder.runs.journal import Asked, Told
from rejoinder.runs.options import Pace, RunOptions

SUITE = """\
metadata: {model: demo}
targets:
  - name: demo
    provider: python
    call: slow_answers:answer
evals:
  - id: times
    prompt: What is 15 * 7?
    checks:
      - match: "*105*"
      - prompt: That is not right. Please calculate again.
        checks:
          - match: "*105*"
"""
ANSWERS = """\
import asyncio

async def answer(request):
    await asyncio.sleep(0.020)
    text = "100" if request.turn == 1 else "15 * 7 = 105"
    return {"text": text, "input_tokens": 9, "output_tokens": 3}
"""
BOUND = 0.15


class Forgetful:
    """A journal that remembers nothing."""

    def __init__(self, *_: object) -> None:
        self._encode = msgspec.json.Encoder().encode
        self.open_calls: set[str] = set()

    def asked(self, record: Asked) -> None:
        self._encode(record)

    def asked_inside(self, record: Asked) -> None:
        self._encode(record)

    def failed(self, key: str, *, charged: bool, final: bool) -> None: ...

    async def told(self, record: Told) -> None:
        self._encode(record)

    def close(self) -> None:
        pass


def measure(folder: Path, conversations: int) -> float:
    suite = rejoinder.load(folder / "evals.yaml").loaded
    started = time.perf_counter()
    report = start_run([suite], RunOptions(repeat=conversations, pace=Pace(workers=100)))
    assert report.summary.passed == conversations, report.summary
    return time.perf_counter() - started


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=7)
    parser.add_argument("--conversations", type=int, default=3000)
    arguments = parser.parse_args()
    with_journal: list[float] = []
    without: list[float] = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / ".rejoinder").mkdir()
        (folder / "evals.yaml").write_text(SUITE, encoding="utf-8")
        (folder / "slow_answers.py").write_text(ANSWERS, encoding="utf-8")
        for _ in range(arguments.runs):
            with_journal.append(measure(folder, arguments.conversations))
            with mock.patch.object(worker, "Journal", Forgetful):
                without.append(measure(folder, arguments.conversations))
    durable, bare = statistics.median(with_journal), statistics.median(without)
    ideal = arguments.conversations * 2 * 0.020 / 100
    print(f"{arguments.conversations} conversations of two turns: {durable:.2f} s durable, {bare:.2f} s without")
    print(f"the ideal is {ideal:.2f} s; the journal adds {durable / bare - 1:.1%}, bound {BOUND:.0%}")
    return durable / bare - 1 > BOUND


if __name__ == "__main__":
    sys.exit(main())
