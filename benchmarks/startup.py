"""How long rejoinder takes to start, as a multiple of what Python and click need by themselves."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from timing import PYTHON, REJOINDER, Row, alternate, compile_package, read_runs, show, time_process

COMMANDS = {
    "rejoinder --version": [REJOINDER, "--version"],
    "rejoinder --help": [REJOINDER, "--help"],
    "import rejoinder": [PYTHON, "-c", "import rejoinder"],
    "import click": [PYTHON, "-c", "import click"],
    "pass": [PYTHON, "-c", "pass"],
    "import what a run needs": [PYTHON, "-c", "import asyncio, click, yaml, msgspec, jsonschema_rs"],
}
SUITE = """\
metadata: {model: demo}
targets: [{name: demo, provider: scripted, replies: ["15 * 7 = 105"]}]
evals:
  - prompt: What is 15 * 7?
    checks:
      - match: "*105*"
"""
BOUNDS = (
    ("rejoinder --version", "pass", 3),
    ("import rejoinder", "pass", 3),
    ("rejoinder --help", "import click", 1.6),
    ("run of one case", "import what a run needs", 1.7),
)


def main() -> int:
    runs = read_runs(__doc__)
    compile_package()
    with tempfile.TemporaryDirectory() as name:
        suite = Path(name) / "evals.yaml"
        suite.write_text(SUITE, encoding="utf-8")
        (Path(name) / ".rejoinder").mkdir()
        return measure({**COMMANDS, "run of one case": [REJOINDER, "run", str(suite)]}, runs)


def measure(commands: dict[str, list[str]], runs: int) -> int:
    measures = {name: lambda command=command: time_process(command) for name, command in commands.items()}
    medians = alternate(measures, runs)
    return show([Row(f"{name} / {base}", medians[name], medians[base], bound) for name, base, bound in BOUNDS])


if __name__ == "__main__":
    sys.exit(main())
