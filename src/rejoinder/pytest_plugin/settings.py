"""The options of a pytest session, as options of a run."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec import Struct

from rejoinder.formatting.globs import matches_path
from rejoinder.runs.options import Answers, Confirm, Limits, Pace, RunOptions, Selection


class SessionSettings(Struct, frozen=True, kw_only=True):
    """The requests of a session: its command line and its configuration."""

    patterns: tuple[str, ...]
    """Files that are suites: a name, or a path from pytest's root folder."""
    options: RunOptions
    sends: bool
    """False if the session only lists tests."""
    must_collect: bool
    """Whether a session without suites fails."""

    def takes(self, path: Path, root: Path) -> bool:
        """Whether a file that is not named matches a pattern."""
        shown = path.relative_to(root).as_posix() if path.is_relative_to(root) else path.name
        patterns = tuple(one if "/" in one else f"**/{one}" for one in self.patterns)
        return matches_path(shown, patterns)


def read_settings(config: pytest.Config) -> SessionSettings:
    """Raises pytest.UsageError for values that cannot be."""
    models = tuple(config.getoption("rejoinder_model") or ())
    against, fail_fast = config.getoption("rejoinder_against"), config.getoption("maxfail") == 1
    if against is not None and fail_fast:
        raise pytest.UsageError(
            "--rejoinder-against compares a whole run with the baseline, and -x ends it early: leave out one of them"
        )
    replay = config.getoption("rejoinder_replay")
    if replay is not None and not Path(replay).is_dir():
        raise pytest.UsageError(f"--rejoinder-replay: {replay} is not a folder")
    budget = _checked(config, "budget", lambda usd: 0 < usd < 1e15, "a number of dollars above 0")
    options = RunOptions(
        repeat=_checked(config, "repeat", lambda times: times >= 1, "a number from 1") or 1,
        selection=Selection(targets=models, confirm=None if against is None else Confirm(against=against)),
        pace=Pace(fail_fast=fail_fast),
        limits=Limits(budget_usd=budget),
        answers=Answers(replay=None if replay is None else str(Path(replay).resolve())),
    )
    return SessionSettings(
        patterns=tuple(config.getini("rejoinder_files")),
        options=options,
        sends=not config.getoption("collectonly"),
        must_collect=_must_collect(config),
    )


def _must_collect(config: pytest.Config) -> bool:
    """Whether a session without suites fails: with `--rejoinder`, and if no path is named. With `rejoinder = true`,
    `pytest tests/test_shop.py` may leave out the suites of the project."""
    return bool(config.getoption("rejoinder")) or config.args_source != pytest.Config.ArgsSource.ARGS


def _checked(config: pytest.Config, name: str, is_right: Callable[[Any], bool], wanted: str) -> Any:
    value = config.getoption(f"rejoinder_{name}")
    if value is not None and not is_right(value):
        raise pytest.UsageError(f"--rejoinder-{name} {value}: expected {wanted}")
    return value
