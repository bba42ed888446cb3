"""The command line. `main` answers `--version` before anything is imported; everything else is loaded on demand."""

from __future__ import annotations

import gc
import sys


def main() -> None:
    if sys.argv[1:] == ["--version"]:
        from rejoinder._version import __version__

        sys.stdout.write(f"rejoinder {__version__}\n")
        return
    # Modules and records are made by the thousand and million and hold few cycles; looking for some after every few
    # hundred is a waste, and a tenth of the time to start. The modules of a command alone make 50,000 objects.
    gc.set_threshold(100_000, 20, 100)
    try:
        from rejoinder.cli.app import run
    except KeyboardInterrupt:  # before anything has begun
        sys.exit(130)
    try:
        run()
    finally:
        gc.freeze()  # the process ends: Python need not look for cycles among all that it is about to drop
