"""`rejoinder run --watch`: run again what a changed file touches, with the answers that are known already."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NoReturn

import click

from rejoinder.cli.output import show_problems
from rejoinder.engine.loading import load_suites
from rejoinder.engine.plan import RunOptions
from rejoinder.errors import RejoinderError, SuiteError
from rejoinder.model import FilePart, Suite

EVERY_S = 0.5
INTERRUPTED = 130
_CONFIGURATION = (".rejoinder/config.yaml", ".rejoinder/targets.yaml", ".rejoinder/checks.py", ".env")


def watch(suites: list[Suite], options: RunOptions, run: Callable[[list[Suite]], int]) -> NoReturn:
    """Run suites, then those again whose files change, until Ctrl-C."""
    known = {suite.path: suite for suite in suites}
    seen = _look(known.values())  # before the run: what changes meanwhile is run again
    _run(list(known.values()), run)
    while True:
        time.sleep(EVERY_S)
        now = _look(known.values())
        touched = [path for path in known if now[path] != seen[path]]
        seen = now
        if not touched:
            continue
        click.echo(f"\n{', '.join(Path(path).name for path in touched)}: something changed; Ctrl-C ends\n", err=True)
        try:
            fresh, warnings = load_suites([Path(path) for path in touched], options)
        except SuiteError as error:
            show_problems(error.problems, err=True)  # the next change may mend it
            continue
        show_problems(warnings, err=True)
        _run(fresh, run)
        known |= {suite.path: suite for suite in fresh}
        for path, files in _look(fresh).items():
            seen[path] = files | {file: when for file, when in now[path].items() if file in files}


def _run(suites: list[Suite], run: Callable[[list[Suite]], int]) -> None:
    try:
        code = run(suites)
    except RejoinderError as error:
        click.echo(f"error: {error.message}", err=True)
        return
    if code == INTERRUPTED:
        sys.exit(code)
    click.echo("waiting for a change; Ctrl-C ends", err=True)


def _look(suites: Iterable[Suite]) -> dict[str, dict[str, int]]:
    """For each suite the files that it depends on, and when each was written."""
    return {suite.path: {str(path): _written(path) for path in files_of(suite)} for suite in suites}


def files_of(suite: Suite) -> set[Path]:
    """The suite, what its project says of targets and checks, its data sets, attachments and scripts beside it."""
    folder, root = Path(suite.path).parent, Path(suite.root)
    files = {Path(suite.path), *(root / name for name in _CONFIGURATION)}
    files |= {path for pattern in ("*.jsonl", "*.ndjson", "*.csv", "*.py", "*.md") for path in folder.glob(pattern)}
    for case in suite.cases:
        for message in (*case.messages, *case.expected_messages):
            parts = (part for part in message.parts if isinstance(part, FilePart) and part.resolved)
            files |= {Path(str(part.resolved)) for part in parts}
    return files


def _written(path: Path) -> int:
    try:
        return path.stat().st_mtime_ns
    except OSError:
        return 0  # it may come back
