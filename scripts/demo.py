"""What `make demo` shows: the examples checked, formatted and run, on the built-in scripted model."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
COMMAND = Path(sys.executable).parent / "rejoinder"


def show(*arguments: str, expect: int = 0) -> None:
    print(f"\n$ rejoinder {' '.join(arguments)}", flush=True)
    done = subprocess.run([COMMAND, *arguments], cwd=ROOT / "examples", check=False)
    if done.returncode != expect:
        sys.exit(f"exit code {done.returncode} instead of {expect}")


show("validate", ".")
show("prompt", "code-review/evals.yaml", "--case", "follow-up-question")
# One of the scripted answers stays wrong to the end, so the run has a failure to show.
show("run", ".", "--verbose", expect=1)
show("runs", "--limit", "3")
