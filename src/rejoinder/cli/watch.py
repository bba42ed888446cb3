"""`rejoinder run --watch`: run again what a changed file touches, with the answers that are known already."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NoReturn

from rejoinder.checks.plugins import forget_checks
from rejoinder.cli.output import echo, show_error, show_problems
from rejoinder.errors import RejoinderError, SuiteError
from rejoinder.model import Problem, Suite
from rejoinder.project.files import recording_files
from rejoinder.project.folders import env_folders, folders_above
from rejoinder.runs.code_files import CodeOfSuite
from rejoinder.runs.loading import load_options
from rejoinder.runs.options import RunOptions
from rejoinder.user_code.imports import forget_modules
from rejoinder.validation.review import load_suites
from rejoinder.words.numbers import listed

EVERY_S = 0.1
SHARE = 9
"""Where looking takes long, it is waited so many times as long in between."""
SETTLED_S = 0.1
"""What is still being written is not read yet."""
MOST_NAMED = 3
INTERRUPTED = 130
_CONFIGURATION = ("config.yaml", "config.yml", "targets.yaml", "targets.yml", "checks.py")
_BESIDE = ("*.jsonl", "*.ndjson", "*.csv", "*.py", "*.md")

Times = dict[Path, int]
"""When each file was written."""


class Watched:
    """A suite, the files that it depends on, and when each was written."""

    def __init__(self, suite: Suite, options: RunOptions) -> None:
        self.suite = suite
        self._options = options
        self._read: set[Path] = set()
        """What was read to load it."""
        self._code: set[Path] = set()
        """Its scripts and modules."""
        self._runs_code = False
        self.seen: Times = {}

    def load(self) -> list[Problem]:
        """Read the suite anew; the warnings. Raises SuiteError, and then it is the suite that it was."""
        with recording_files() as read:
            try:
                [self.suite], warnings = load_suites([Path(self.suite.path)], load_options(self._options))
            except SuiteError:
                self._read |= read  # one of them may have to be mended
                raise
        self._read = read
        self._runs_code, files = _code_of(self.suite)
        self._code |= files
        return warnings

    def add_modules(self, files: set[Path]) -> None:
        """What was imported while it was run. What cannot be imported any more is still waited for."""
        if self._runs_code:
            self._code |= files
            self.settle()

    def settle(self) -> None:
        """From here on a change is one. What was known before counts as it was then: it may have changed since."""
        self.seen = {path: self.seen.get(path, when) for path, when in self.look().items()}

    def look(self) -> Times:
        return {path: _written(path) for path in (*self._read, *self._code, *self._around())}

    def changed(self) -> set[Path]:
        """The files that were written, came or went since it was looked last."""
        before, self.seen = self.seen, self.look()
        return {path for path in {*before, *self.seen} if before.get(path) != self.seen.get(path)}

    def _around(self) -> Iterator[Path]:
        """What may come to be there, or is not read by us."""
        folder, root = Path(self.suite.path).parent, Path(self.suite.root)
        yield from (one / ".env" for one in env_folders(folder, root, Path.cwd()))
        for one in folders_above(folder, root):
            yield from (one / place / name for place in (".rejoinder", ".agentv") for name in _CONFIGURATION)
        yield from (path for pattern in _BESIDE for path in folder.glob(pattern))


def watch(suites: list[Suite], options: RunOptions, run: Callable[[list[Suite]], int]) -> NoReturn:
    """Run suites, then those again whose files change, until Ctrl-C."""
    # A file that is saved twice in a second looks unchanged to Python's cache of compiled modules.
    sys.dont_write_bytecode = True
    known = [Watched(suite, options) for suite in suites]
    touched = known
    while True:
        ready = [one for one in touched if _load(one, warn=bool(one.seen))]
        for one in touched:
            one.settle()  # before the run: what changes meanwhile is run again
        if ready:
            _run(ready, run)
        echo("waiting for a change; Ctrl-C ends", err=True)
        touched, files = _wait_for_change(known)
        echo("", f"{_named(files)} changed", "", err=True)


def _wait_for_change(known: list[Watched]) -> tuple[list[Watched], set[Path]]:
    """The suites that a change touches, and the changed files."""
    pause = EVERY_S
    found: dict[int, set[Path]] = {}
    while True:
        time.sleep(pause)
        begun = time.monotonic()
        now = {number: files for number, one in enumerate(known) if (files := one.changed())}
        if found and not now:
            return [known[number] for number in sorted(found)], set[Path]().union(*found.values())
        found |= {number: files | found.get(number, set()) for number, files in now.items()}
        pause = SETTLED_S if found else max(EVERY_S, SHARE * (time.monotonic() - begun))


def _named(files: set[Path]) -> str:
    """Files as seen from here."""
    here = Path.cwd()
    names = sorted(str(path.relative_to(here)) if path.is_relative_to(here) else str(path) for path in files)
    more = [f"{len(names) - MOST_NAMED:,} more"] if len(names) > MOST_NAMED else []
    return listed([*names[:MOST_NAMED], *more])


def _load(one: Watched, *, warn: bool) -> bool:
    """Has the suite been read? With a mistake in it, the next change may mend it."""
    try:
        warnings = one.load()
    except SuiteError as error:
        show_problems(error.problems, err=True)
        return False
    show_problems(warnings if warn else [], err=True)  # the first time they have been shown
    return True


def _run(suites: list[Watched], run: Callable[[list[Suite]], int]) -> None:
    try:
        if run([one.suite for one in suites]) == INTERRUPTED:
            sys.exit(INTERRUPTED)
    except RejoinderError as error:
        show_error(error)
    _forget_code(suites)


def _forget_code(suites: list[Watched]) -> None:
    """The next run imports the project's code as it is then."""
    forget_checks()
    for root in {one.suite.root for one in suites}:
        there = [one for one in suites if one.suite.root == root]
        modules = forget_modules((root, *(str(Path(one.suite.path).parent) for one in there)))
        for one in there:
            one.add_modules(modules)


def _code_of(suite: Suite) -> tuple[bool, set[Path]]:
    """Whether a suite runs code of the project, and the files of its code: some may not be written yet."""
    code = CodeOfSuite(suite)
    for case in suite.cases:
        code.add(case)
    return code.is_run, code.scripts.union(*code.modules())


def _written(path: Path) -> int:
    try:
        return path.stat().st_mtime_ns
    except (OSError, ValueError):
        return 0  # it may come back
