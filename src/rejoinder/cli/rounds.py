"""Runs in rounds (`--repeat auto`) on a terminal."""

from __future__ import annotations

from rejoinder.cli.live import live_display
from rejoinder.cli.output import echo
from rejoinder.engine.observer import Observer
from rejoinder.gates.rounds import Watcher
from rejoinder.model.figures import Look
from rejoinder.words.figures import look_words


class RoundsDisplay(Watcher):
    """Progress of each round, and what it told, on standard error."""

    def observer(self) -> Observer:
        return live_display()

    def looked(self, found: Look) -> None:
        echo(look_words(found), err=True)
