"""Short names of runs."""

from __future__ import annotations

from rejoinder.model.runs import SHORTEST_NAME, is_run_id


def id_end(run: str) -> str:
    """`6fdf`: the end of an id tells runs apart; its rest is the time of its start."""
    return run[-SHORTEST_NAME:]


def run_words(run: str) -> str:
    """`run 6fdf`. Names that are not ids stay unchanged."""
    return f"run {id_end(run)}" if is_run_id(run) else run
