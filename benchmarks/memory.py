"""Memory: the peak of `show --format json` and of `run --format json --out FILE` must not grow with the results.

Each command runs in a process of its own, with 500 and with 50,000 results; the ratio of their peaks is bounded. The
cases come from a data set, each with its own id, and each has two turns with `--include messages`.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

SUITE = """\
metadata: {model: demo}
targets:
  - name: demo
    provider: scripted
    replies: ["100", "15 * 7 = 105"]
cases: rows.jsonl
defaults:
  prompt: What is 15 * 7, {{ person }}?
  checks:
    - match: "*105*"
    - prompt: That is not right. Please calculate again.
      checks:
        - match: "*105*"
"""
FEW, MANY = 500, 50_000
BOUND = 1.6
"""A run keeps some numbers for each case; a show keeps nothing."""


def peak_of(folder: Path, *command: str) -> float:
    """The largest resident set of a command, in MiB."""
    with (folder / "output").open("wb") as output:
        process = subprocess.Popen([sys.executable, "-m", "rejoinder", *command], cwd=folder, stdout=output)
        _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0, command
    return usage.ru_maxrss / (1024 * 1024 if sys.platform == "darwin" else 1024)


def measure(results: int) -> tuple[float, float]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / ".rejoinder").mkdir()
        (folder / "evals.yaml").write_text(SUITE, encoding="utf-8")
        rows = (json.dumps({"id": f"case-{number}", "person": f"Ada {number}"}) for number in range(results))
        (folder / "rows.jsonl").write_text("\n".join(rows), encoding="utf-8")
        options = ("--include", "messages", "--format", "json", "--out", "results.json")
        run = peak_of(folder, "run", "evals.yaml", *options)
        return run, peak_of(folder, "show", "--format", "json")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--many", type=int, default=MANY)
    arguments = parser.parse_args()
    few, many = measure(FEW), measure(arguments.many)
    ratios = [after / before for before, after in zip(few, many, strict=True)]
    for name, before, after, ratio in zip(("run", "show"), few, many, ratios, strict=True):
        print(f"{name:5}{before:6.1f} MiB with {FEW:,} results, {after:6.1f} MiB with {arguments.many:,}: {ratio:.2f}")
    print(f"bound: {BOUND}")
    return 0 if max(ratios) <= BOUND else 1


if __name__ == "__main__":
    sys.exit(main())
