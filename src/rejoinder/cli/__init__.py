"""The command line. `main` answers `--version` before anything is imported; everything else is loaded on demand."""

from __future__ import annotations

import sys


def main() -> None:
    if sys.argv[1:] == ["--version"]:
        from rejoinder._version import __version__

        sys.stdout.write(f"rejoinder {__version__}\n")
        return
    try:
        from rejoinder.cli.app import run
    except KeyboardInterrupt:  # before anything has begun
        sys.exit(130)
    run()
