"""Run the tests with every Python from 3.11 on that is found: `pythonX.Y` on the PATH, and those of pyenv.

Each version has an environment of its own (.venv-3.12), which is made when it is missing. Of several patch releases the
newest is used. The exit code is 1 when the tests of a version fail, and when no version is found.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

OLDEST = (3, 11)
ASK = "import sys; print(*sys.version_info[:3])"


def candidates() -> Iterator[Path]:
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    folders = [*map(Path, os.environ.get("PATH", "").split(os.pathsep)), *pyenv.glob("versions/*/bin")]
    for folder in folders:
        yield from (path for path in folder.glob("python3.*") if re.fullmatch(r"python3\.\d+", path.name))


def version_of(python: Path) -> tuple[int, ...] | None:
    """Its version; None where it does not run, as pyenv's stand-ins for versions that are not chosen."""
    done = subprocess.run([python, "-c", ASK], capture_output=True, text=True, check=False)
    return tuple(map(int, done.stdout.split())) if done.returncode == 0 else None


def found() -> dict[tuple[int, ...], Path]:
    """The newest interpreter of each version."""
    known = sorted((version, path) for path in candidates() if (version := version_of(path)) and version >= OLDEST)
    return {version[:2]: path for version, path in known}


def main() -> int:
    pythons, failed = found(), []
    for version, python in pythons.items():
        name = ".".join(map(str, version))
        print(f"== Python {name}: {python}", flush=True)
        if subprocess.run(["make", f"PYTHON={python}", f"VENV=.venv-{name}", "pytest"], check=False).returncode:
            failed.append(name)
    tested = ", ".join(".".join(map(str, version)) for version in pythons)
    print(f"== tested: {tested or 'none'}; failed: {', '.join(failed) or 'none'}")
    return 1 if failed or not pythons else 0


if __name__ == "__main__":
    sys.exit(main())
