"""How long a history of 1,000 runs takes to list, as a multiple of what Python alone needs to start."""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
from pathlib import Path

from timing import PYTHON, REJOINDER, Row, alternate, compile_package, read_runs, show, time_process

RUNS = 1_000
BOUND = 10
SUITE = """\
metadata: {name: capitals, model: demo}
targets: [{name: demo, provider: scripted, replies: ["15 * 7 = 105"]}]
evals:
  - prompt: What is 15 * 7?
    checks:
      - match: "*105*"
"""


def main() -> int:
    runs = read_runs(__doc__)
    compile_package()
    with tempfile.TemporaryDirectory() as name:
        project = Path(name)
        (project / ".rejoinder").mkdir()
        (project / "evals.yaml").write_text(SUITE, encoding="utf-8")
        time_process([REJOINDER, "run"], project)
        copy_run(project / ".rejoinder" / "runs")
        list_all = [REJOINDER, "runs", "--limit", str(RUNS)]
        commands = {"pass": [PYTHON, "-c", "pass"], "runs": [REJOINDER, "runs"], "runs, all": list_all}
        first = time_process(commands["runs"], project)  # writes the index
        measures = {name: lambda command=command: time_process(command, project) for name, command in commands.items()}
        medians = alternate(measures, runs)
        print(f"{RUNS:,} runs; the first listing, which reads every folder, took {first * 1000:.0f} ms")
        return show([Row(f"{name} / pass", medians[name], medians["pass"], BOUND) for name in ("runs", "runs, all")])


def copy_run(folder: Path) -> None:
    """A thousand runs that differ in their names."""
    [made] = (path for path in folder.iterdir() if path.is_dir())
    receipt = json.loads((made / "run.json").read_text(encoding="utf-8"))
    for number in range(1, RUNS):
        copy = folder / f"20260101-{number:06d}-{number:04x}"
        shutil.copytree(made, copy)
        (copy / "run.json").write_text(json.dumps({**receipt, "id": copy.name}), encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
