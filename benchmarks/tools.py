"""What a round of a turn costs in CPU time: a call of a scripted tool, and of the scripted target with its answer. The
same conversations are had with ten rounds, and with none."""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from timing import REJOINDER, alternate, compile_package, read_runs, say_load

CASES, ROUNDS = 500, 10
KINDS = {"ten": ROUNDS, "none": 0}


def main() -> int:
    runs = read_runs(__doc__, 5)
    compile_package()
    say_load()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / ".rejoinder").mkdir()
        for kind, rounds in KINDS.items():
            (folder / f"{kind}.yaml").write_text(json.dumps(make_suite(rounds)), encoding="utf-8")
        medians = alternate({kind: lambda kind=kind: cpu_of(folder, kind) for kind in KINDS}, runs)
    a_round = (medians["ten"] - medians["none"]) / (CASES * ROUNDS) * 1000
    print(f"{CASES} conversations of {ROUNDS} rounds: {medians['ten']:.2f} s of CPU; of none: {medians['none']:.2f} s")
    print(f"a round with a call of a scripted tool: {a_round:.3f} ms of CPU")
    return 0


def make_suite(rounds: int) -> dict[str, Any]:
    call = {"tool_calls": [{"name": "dice", "arguments": {}}]}
    cases = [{"id": f"c{n}", "prompt": f"Throw {n}.", "checks": [{"contains": "done"}]} for n in range(CASES)]
    return {
        "targets": [{"name": "t", "provider": "scripted", "replies": [*[call] * rounds, "done"]}],
        "tools": [{"scripted": {"name": "dice", "returns": 3}}],
        "evals": cases,
    }


def cpu_of(folder: Path, kind: str) -> float:
    """Seconds of CPU that a run takes, in the program and in the kernel."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([REJOINDER, "run", f"{kind}.yaml", "--quiet"], cwd=folder, check=True, capture_output=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


if __name__ == "__main__":
    sys.exit(main())
