"""How long `rejoinder validate` takes, as a multiple of what PyYAML's C loader needs to load the same YAML.

The whole process of validate is timed. Of the loader only `yaml.load` is, in a process of its own, with the files
already read and the garbage collector off. For a folder of many files the start-up of validate, measured on a suite
of one case, is taken off first. Each round takes some seconds: `--runs 7` gives a quick answer.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from timing import PYTHON, REJOINDER, Row, alternate, compile_package, read_runs, show, time_process

BOUND = 3

CASE = """\
  - id: refund-{number:05}
    prompt: |
      Customer {number} bought shoes 12 days ago and wants the money back.
      Answer in two sentences and name the number of days that are left.
    checks:
      - icontains: refund
      - match: '\\b18\\s+days\\b'
      - not:
          contains: "order {number} cannot be found"
      - max_words: 60
        prompt: Say it again, shorter.
        checks:
          - contains_any: ["18", eighteen]
          - max_words: 20
"""

LOAD = """\
import gc, sys, time
from pathlib import Path
import yaml

gc.disable()
texts = [path.read_text("utf-8") for path in Path(sys.argv[1]).glob("*.yaml")]
kept, spent = [], 0.0
for text in texts:
    start = time.perf_counter()
    data = yaml.load(text, Loader=yaml.CSafeLoader)
    spent += time.perf_counter() - start
    kept.append(data)
print(spent)
"""


def main() -> int:
    runs = read_runs(__doc__)
    compile_package()
    with TemporaryDirectory() as name:
        root = Path(name)
        large = write_suites(root / "large", files=1, cases=5000)
        many = write_suites(root / "many", files=200, cases=25)
        tiny = write_suites(root / "tiny", files=1, cases=1)
        megabytes = (large / "suite-000.yaml").stat().st_size / 1e6
        medians = alternate(
            {
                "large": lambda: time_process([REJOINDER, "validate", "suite-000.yaml"], large),
                "large loaded": lambda: time_loading(large),
                "many": lambda: time_process([REJOINDER, "validate", "."], many),
                "many loaded": lambda: time_loading(many),
                "tiny": lambda: time_process([REJOINDER, "validate", "suite-000.yaml"], tiny),
            },
            runs,
        )
    start_up = medians["tiny"]
    print(f"start-up of validate, on a suite of one case: {start_up * 1000:.1f} ms")
    return show(
        [
            Row(f"5000 cases in a file of {megabytes:.1f} MB", medians["large"], medians["large loaded"], BOUND),
            Row("200 files of 25 cases, less start-up", medians["many"] - start_up, medians["many loaded"], BOUND),
        ]
    )


def write_suites(folder: Path, *, files: int, cases: int) -> Path:
    folder.mkdir()
    for position in range(files):
        numbers = range(position * cases, (position + 1) * cases)
        text = "evals:\n" + "".join(CASE.format(number=number) for number in numbers)
        (folder / f"suite-{position:03}.yaml").write_text(text, "utf-8")
    return folder


def time_loading(folder: Path) -> float:
    """What PyYAML's C loader needs for all suites of a folder."""
    done = subprocess.run([PYTHON, "-c", LOAD, str(folder)], capture_output=True, text=True, check=True)
    return float(done.stdout)


if __name__ == "__main__":
    sys.exit(main())
