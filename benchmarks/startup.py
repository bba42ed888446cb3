"""How long rejoinder takes to start, as a multiple of what Python and click need by themselves."""

from __future__ import annotations

import sys

from timing import PYTHON, REJOINDER, Row, alternate, compile_package, read_runs, show, time_process

COMMANDS = {
    "rejoinder --version": [REJOINDER, "--version"],
    "rejoinder --help": [REJOINDER, "--help"],
    "import rejoinder": [PYTHON, "-c", "import rejoinder"],
    "import click": [PYTHON, "-c", "import click"],
    "pass": [PYTHON, "-c", "pass"],
}
BOUNDS = (
    ("rejoinder --version", "pass", 3),
    ("import rejoinder", "pass", 3),
    ("rejoinder --help", "import click", 1.6),
)


def main() -> int:
    runs = read_runs(__doc__)
    compile_package()
    measures = {name: lambda command=command: time_process(command) for name, command in COMMANDS.items()}
    medians = alternate(measures, runs)
    return show([Row(f"{name} / {base}", medians[name], medians[base], bound) for name, base, bound in BOUNDS])


if __name__ == "__main__":
    sys.exit(main())
