"""Memory and time of `compare`: numbers are kept for each case, and no reply.

Two runs of one suite are made, once with few and once with many conversations, and compared in a process of its own, as
text and as JSON. In the second run a tenth of the cases fails. The memory of each further conversation is bounded.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

SUITE = """\
targets:
  - {name: demo, provider: python, call: "bot:answer"}
cases: rows.jsonl
defaults:
  prompt: What is 15 * 7, number {{ number }}?
  checks:
    - match: "*105*"
    - prompt: That is not right. Please calculate again.
      checks:
        - match: "*105*"
"""
BOT = """\
import pathlib

BROKEN = pathlib.Path("broken").exists()

def answer(messages):
    number = int(messages[0]["content"].split()[-1].rstrip("?"))
    fails = BROKEN and number % 10 == 0
    return "word " * 200 + ("100" if fails or len(messages) == 1 else "105")
"""
FEW, MANY = 500, 100_000
BOUND = 2048
"""Bytes of each further conversation of a run, of which two are compared."""


def measure(conversations: int) -> tuple[float, ...]:
    """Peaks in MiB and seconds, as text and as JSON."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / ".rejoinder").mkdir()
        (folder / "evals.yaml").write_text(SUITE, encoding="utf-8")
        (folder / "bot.py").write_text(BOT, encoding="utf-8")
        rows = (json.dumps({"id": f"case-{number}", "number": number}) for number in range(conversations))
        (folder / "rows.jsonl").write_text("\n".join(rows), encoding="utf-8")
        _run(folder, "run")
        (folder / "broken").touch()
        _run(folder, "run")
        return *_run(folder, "compare"), *_run(folder, "compare", "--format", "json")


def _run(folder: Path, *command: str) -> tuple[float, float]:
    start = time.monotonic()
    with (folder / "output").open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "rejoinder", *command], cwd=folder, stdout=output, stderr=subprocess.DEVNULL
        )
        _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode in (0, 1), command
    return usage.ru_maxrss / (1024 * 1024 if sys.platform == "darwin" else 1024), time.monotonic() - start


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--many", type=int, default=MANY)
    many = parser.parse_args().many
    few, large = measure(FEW), measure(many)
    worst = 0.0
    for name, place in (("text", 0), ("json", 2)):
        each = (large[place] - few[place]) * 1024 * 1024 / (many - FEW)
        worst = max(worst, each)
        print(
            f"{name}: {few[place]:.1f} MiB with {FEW:,} conversations in each run, {large[place]:.1f} MiB with {many:,}"
            f" ({large[place + 1]:.1f} s): {each:,.0f} bytes each"
        )
    print(f"bound: {BOUND:,} bytes")
    return 0 if worst <= BOUND else 1


if __name__ == "__main__":
    sys.exit(main())
