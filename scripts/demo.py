"""What `make demo` shows: the examples, checked and formatted, on the built-in scripted model."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
COMMAND = Path(sys.executable).parent / "rejoinder"


def show(*arguments: str) -> None:
    print(f"\n$ rejoinder {' '.join(arguments)}", flush=True)
    subprocess.run([COMMAND, *arguments], cwd=ROOT, check=True)


show("validate", "examples")
show("prompt", "examples/math-correction.yaml", "--case", "times")
show("prompt", "examples/code-review/evals.yaml", "--case", "follow-up-question")
show("prompt", "examples/code-review/evals.yaml", "--case", "vat-rate", "--mode", "agent")
show("prompt", "examples/capitals/evals.yaml", "--case", "peru", "--format", "json")
