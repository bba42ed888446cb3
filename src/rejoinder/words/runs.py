"""Short names of runs."""

from __future__ import annotations

from rejoinder.model.runs import SHORTEST_NAME, is_run_id


def id_end(run: str) -> str:
    """`6fdf`: the end of an id tells runs apart; its rest is the time of its start."""
    return run[-SHORTEST_NAME:]


def short_run(run: str) -> str:
    """`6fdf`. Names that are not ids stay unchanged."""
    return id_end(run) if is_run_id(run) else run


def run_words(*runs: str) -> str:
    """`run 6fdf`, `run c8c5 and 51e0`; without `run` where a name is not an id."""
    names = " and ".join(map(short_run, runs))
    return f"run {names}" if all(map(is_run_id, runs)) else names
