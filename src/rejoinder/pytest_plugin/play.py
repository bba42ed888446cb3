"""The process that plays the run of a pytest session: `python -m rejoinder.pytest_plugin.play FOLDER`.

A process of its own has its own event loop, signals, warning filters and standard output, whatever
pytest does in its own. It ends with the process that started it: its standard input is then closed.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from pathlib import Path

from rejoinder.api import resume, run
from rejoinder.engine.observer import Observer
from rejoinder.errors import RejoinderError
from rejoinder.pytest_plugin.shared import Order, SharedFolder
from rejoinder.runs.folder import RunBusy, reserve_run_id, runs_folder

TICK_S = 0.1
BUSY_S = 60.0
"""The longest wait for a killed process to let go of the run."""
STOP = signal.SIGTERM if sys.platform != "win32" else signal.SIGINT


class Stops(Observer):
    """Requests to stop that come while the engine does not listen. Before the run begins they end the process. Once its
    conversations have ended they must not: the results and the end of the run are being written."""

    def __init__(self) -> None:
        self._has_begun = self._is_asked = False
        signal.signal(STOP, self._receive)

    def started(self, planned: int) -> None:  # noqa: ARG002 - the engine listens now
        self._has_begun = True
        if self._is_asked:  # between two parts of the run
            signal.raise_signal(STOP)

    def _receive(self, *_: object) -> None:
        if not self._has_begun:
            sys.exit(128 + STOP)
        self._is_asked = True


def main(path: str) -> int:
    shared = SharedFolder(Path(path))
    order = shared.order
    if order is None:
        return 2
    sys.path += [place for place in order.search if place not in sys.path]
    stops = Stops()
    threading.Thread(target=_watch_parent, daemon=True).start()
    threading.Thread(target=_watch_stop, args=(shared.stop_file,), daemon=True).start()
    try:
        _play(order, stops)
    except RejoinderError as error:
        shared.write_problem(str(error))
        return error.exit_code
    except Exception as error:  # what this process prints is not read
        shared.write_problem(f"internal error: {type(error).__name__}: {error}")
        raise
    return 0


def _play(order: Order, stops: Stops) -> None:
    options = order.options
    folder = runs_folder(Path(order.root)) / order.run
    if (folder / "run.json").exists():
        _resume(folder, stops)
        return
    reserve_run_id(order.run)
    run(
        [Path(suite) for suite in order.suites],
        repeat=options.repeat,
        selection=options.selection,
        pace=options.pace,
        limits=options.limits,
        answers=options.answers,
        trust=options.trust,
        observer=stops,
    )


def _resume(folder: Path, stops: Stops) -> None:
    until = time.monotonic() + BUSY_S
    while True:
        try:
            resume(folder, observer=stops)
        except RunBusy:
            if time.monotonic() > until:
                raise
            time.sleep(TICK_S)
        else:
            return


def _watch_parent() -> None:
    while os.read(0, 1024):  # a buffered stream would be locked when this process ends
        pass
    _stop()


def _watch_stop(file: Path) -> None:
    while not file.exists():
        time.sleep(TICK_S)
    _stop()


def _stop() -> None:
    """Stop the run at once, as SIGTERM does: calls in progress are cancelled, and results are written."""
    signal.raise_signal(STOP)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
