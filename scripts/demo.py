"""What `make demo` shows: a small real model on this machine that fails, is answered back, and sometimes recovers.

Where that model cannot be had, the other examples play on the built-in scripted one.
"""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

EXAMPLES = Path(__file__).parent.parent / "examples"
TOOL = [sys.executable, "-m", "rejoinder"]


def show(*arguments: str, expect: tuple[int, ...] = (0,)) -> int:
    print(f"\n$ rejoinder {' '.join(arguments)}", flush=True)
    done = subprocess.run([*TOOL, *arguments], cwd=EXAMPLES, check=False)
    if done.returncode not in expect:
        sys.exit(f"exit code {done.returncode} instead of {' or '.join(map(str, expect))}")
    return done.returncode


def get_model() -> str | None:
    """Fetch the weights where they are not here. Why that does not work; None where it does."""
    if find_spec("xllamacpp") is None:
        return "the package xllamacpp is not installed"
    print("\n$ rejoinder models get smollm2", flush=True)
    done = subprocess.run(
        [*TOOL, "models", "get", "smollm2"], cwd=EXAMPLES, check=False, capture_output=True, text=True
    )
    said = (done.stdout if done.returncode == 0 else done.stderr).splitlines()
    if done.returncode == 0:
        print(said[0])
        return None
    return next((line.removeprefix("error: ") for line in said if line.startswith("error: ")), "nothing was said")


def show_scripted(why: str) -> None:
    print(f"\nNo real model here ({why}), so the scripted examples play.", flush=True)
    suites = sorted(path.name for path in EXAMPLES.iterdir() if path.name not in ("local", ".rejoinder"))
    show("validate", *suites)
    show("prompt", "code-review/evals.yaml", "--case", "follow-up-question")
    # One of the scripted answers stays wrong to the end, so the run has a failure to show.
    show("run", *suites, "--verbose", expect=(1,))


def main() -> None:
    print(f"$ cd {os.path.relpath(EXAMPLES)}")
    why = get_model()
    # 0 and 1: another processor may give other replies, and 3: the model does not run here.
    if why is None and show("run", "local/evals.yaml", expect=(0, 1, 3)) == 3:
        why = "it does not run, as said above"
    if why is not None:
        show_scripted(why)
    show("runs", "--limit", "3")
    activate = os.path.relpath(Path(sys.executable).parent / "activate", EXAMPLES)
    print(
        f"\nTo go on, make the command known to your shell: cd {os.path.relpath(EXAMPLES)} && . {activate}",
        "  rejoinder show --verbose                   every conversation of this run",
        *["  rejoinder run local/evals.yaml --repeat 3  the same, three times each"][: why is None],
        "  rejoinder init ~/first-suite               a suite of your own",
        sep="\n",
    )


if __name__ == "__main__":
    main()
