"""How long rejoinder takes to start, as a multiple of what Python and click need by themselves.

A run over HTTP asks a model with a price. Its processor time counts, because it waits for a server, too.
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

from timing import (
    PYTHON,
    REJOINDER,
    Row,
    alternate,
    compile_package,
    cpu_of_process,
    fake_server,
    read_runs,
    say_load,
    show,
    time_process,
)

NEEDED = "import what a run needs"

COMMANDS = {
    "rejoinder --version": [REJOINDER, "--version"],
    "rejoinder --help": [REJOINDER, "--help"],
    "import rejoinder": [PYTHON, "-c", "import rejoinder"],
    "import click": [PYTHON, "-c", "import click"],
    "pass": [PYTHON, "-c", "pass"],
    NEEDED: [PYTHON, "-c", "import asyncio, click, yaml, msgspec, jsonschema_rs"],
}
SUITE = """\
metadata: {model: demo}
targets: [{name: demo, provider: scripted, replies: ["15 * 7 = 105"]}]
evals:
  - prompt: What is 15 * 7?
    checks:
      - match: "*105*"
"""
HTTP_SUITE = """\
metadata: {model: asked}
targets: [{name: asked, provider: openai, model: gpt-5-mini, base_url: URL}]
evals:
  - prompt: What is 15 * 7?
    checks:
      - match: "*105*"
"""
BOUNDS = (
    ("rejoinder --version", "pass", 3),
    ("import rejoinder", "pass", 3),
    ("rejoinder --help", "import click", 1.6),
    ("run of one case", NEEDED, 1.7),
)
HTTP_BOUND = 2.2


def main() -> int:
    runs = read_runs(__doc__)
    compile_package()
    say_load()
    with tempfile.TemporaryDirectory() as name, fake_server() as url:
        folder = Path(name)
        (folder / ".rejoinder").mkdir()
        (folder / "evals.yaml").write_text(SUITE, encoding="utf-8")
        (folder / "http.yaml").write_text(HTTP_SUITE.replace("URL", url), encoding="utf-8")
        os.environ |= {"OPENAI_API_KEY": "none", "XDG_CACHE_HOME": str(folder / "cache")}
        commands = {**COMMANDS, "run of one case": [REJOINDER, "run", str(folder / "evals.yaml")]}
        over_http = [REJOINDER, "run", str(folder / "http.yaml")]
        return measure(commands, runs) | measure_cpu(over_http, runs)


def measure(commands: dict[str, list[str]], runs: int) -> int:
    measures = {name: lambda command=command: time_process(command) for name, command in commands.items()}
    medians = alternate(measures, runs)
    return show([Row(f"{name} / {base}", medians[name], medians[base], bound) for name, base, bound in BOUNDS])


def measure_cpu(over_http: list[str], runs: int) -> int:
    """The first run, which makes the snapshot of the price table, is none of those that count."""
    medians = alternate(
        {"run": lambda: cpu_of_process(over_http), NEEDED: lambda: cpu_of_process(COMMANDS[NEEDED])}, runs
    )
    return show([Row(f"CPU: run of one case over HTTP / {NEEDED}", medians["run"], medians[NEEDED], HTTP_BOUND)])


if __name__ == "__main__":
    sys.exit(main())
