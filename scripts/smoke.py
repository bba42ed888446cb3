"""Install rejoinder into a new environment, and run a first suite there: `python scripts/smoke.py [WHEEL | FOLDER]`.

Without a word it installs this checkout. It needs the Python that runs it and pip, on every system.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parent.parent
COMMANDS = (
    ("--version",),
    ("init", "--scripted", "--yes", "started"),
    ("validate", "started"),
    ("prompt", "started", "--format", "json"),
    ("schema",),
    ("run", "started", "--fail-under", "50%"),  # one of its three cases fails, to show how that looks
    ("verify", "last"),
)


def run(*command: str | Path, folder: Path) -> None:
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, encoding="utf-8")
    if done.returncode:
        sys.exit(f"{' '.join(map(str, command))} ended with {done.returncode}:\n{done.stdout}{done.stderr}")


def main(what: Path) -> int:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        run(sys.executable, "-m", "venv", "environment", folder=folder)
        scripts = folder / "environment" / ("Scripts" if os.name == "nt" else "bin")
        pip = (scripts / "python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check")
        run(*pip, "-c", ROOT / "constraints.txt", what, folder=folder)
        run(scripts / "python", "-m", "pip", "check", folder=folder)
        for words in COMMANDS:
            inside = folder / "started" if words[0] == "verify" else folder
            run(scripts / "rejoinder", *words, folder=inside)
    print(f"{what.name} installs and runs with Python {sys.version.split()[0]} on {sys.platform}")
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(*sys.argv[1:2]).resolve() if sys.argv[1:] else ROOT))
