"""A recorded run as a command uses it: answers come from its folder, suites, targets and code from the project.

A folder may come from a colleague, from another machine or with a cloned repository. What it says was asked and
answered can always be shown. What it says should be run or asked counts only where this user's rejoinder wrote it
(seal.py) or where the user trusts it (`--trust`). So suites are read from the working project, at the path from the
root that the run had; and the folder's own copy, and paths that lead out of the project, only with the seal or trust.
"""

from __future__ import annotations

from functools import cached_property
from pathlib import Path, PurePath
from typing import NamedTuple

import msgspec
from msgspec import structs

from rejoinder.errors import UsageError
from rejoinder.model import Suite, file_in_project
from rejoinder.model.given import GivenTarget, Supplied
from rejoinder.project.folders import find_root
from rejoinder.run_files import RunDamaged
from rejoinder.runs.folder import (
    RunFolder,
    find_run,
    is_aside,
    latest_first,
    list_runs,
    listed_receipt,
)
from rejoinder.runs.loading import load_options
from rejoinder.runs.options import MOST_ROUNDS, Confirm, RunOptions, Trust
from rejoinder.runs.receipt import Stored, StoredSuite, read_stored, stored_suite
from rejoinder.runs.seal import has_seal
from rejoinder.runs.secrets import Mask
from rejoinder.validation.review import load_suites

MOST_REPEATS = 10_000
"""Trials and workers that a folder from elsewhere can ask for."""


class Untrusted(UsageError):
    """A folder from elsewhere would decide what is run or asked."""


class RecordedRun:
    def __init__(self, folder: RunFolder, root: Path, *, trust: bool = False, supplied: Supplied | None = None) -> None:
        """`root`: the working project. `supplied`: the target that a program gives for the run's own."""
        self.folder = folder
        self.root = root
        self._trust = trust
        self._supplied = supplied

    @cached_property
    def stored(self) -> Stored:
        return read_stored(self.folder)

    @cached_property
    def has_seal(self) -> bool:
        # A folder that was renamed keeps the id that it was sealed with.
        receipt = self.folder.read_receipt()
        return has_seal(self.folder.path, receipt.id if receipt is not None else self.folder.id)

    @property
    def is_trusted(self) -> bool:
        return self._trust or self.has_seal

    @property
    def uses_copy(self) -> bool:
        """Is a suite read from a copy without this user's seal? What is made from it gets no seal either."""
        return not self.has_seal and any(self.suite_file(suite) is None for suite in self.stored.suites)

    def with_target(self, supplied: Supplied) -> RecordedRun:
        """The run with the target that a program gives for its own, under the name that it had. Raises UsageError if it
        had none, or one of the other kind."""
        recorded = self.stored.options.selection.given
        if recorded is None:
            raise UsageError(
                f"run {self.folder.id} asked targets of its suites, so no other target can be given",
                "Leave out `target`, or start a new run.",
            )
        if (recorded.code is None) != (supplied.target.code is None):
            kind = "a mapping" if recorded.code is None else f"the Python object `{recorded.code.call}`"
            raise UsageError(f"the target of run {self.folder.id} was {kind}", "Give the same target again.")
        return RecordedRun(self.folder, self.root, trust=self._trust, supplied=supplied.named(recorded.name))

    def beside(self, folder: RunFolder) -> RecordedRun:
        """Another run, which this one was made from."""
        return RecordedRun(folder, self.root, trust=self._trust)

    def mask_for(self, mask: Mask) -> Mask:
        """How its journal is read. A journal from elsewhere could name any secret of the user, and have it sent to a
        judge as a reply; so there names stay names."""
        return mask if self.is_trusted else Mask({})

    def options(self) -> RunOptions:
        """The options that the run was started with, but for what only a command may decide."""
        options = self.stored.options
        if options.selection.rounds is not None:
            options = options.changed(repeat=_rounds_begun(self.folder, options.repeat))
        if options.selection.confirm is not None:
            options = options.changed(confirm=_confirmed(self.folder, options.selection.confirm))
        most = max(options.repeat, options.pace.workers or 0)
        if most > MOST_REPEATS and not self.is_trusted:
            raise self._refused(f"asks for {most} trials or workers")
        return options.changed(
            trust=Trust(),
            given=self._given(options.selection.given),
            targets_file=self._place(options.selection.targets_file, "--targets"),
            record=self._place(options.answers.record, "--record"),
            replay=self._place(options.answers.replay, "--replay"),
        )

    def suites(self, *, asks: bool = True) -> list[Suite]:
        """The suites as they are in the project now, or, where a file is gone, the folder's copy. `asks`: will their
        targets be asked? Raises Untrusted where only a copy from elsewhere is left."""
        options, suites = self.options(), list[Suite]()
        asks = asks and options.answers.asks_candidates
        for number, stored in enumerate(self.stored.suites):
            file = self.suite_file(stored)
            suites += (
                load_suites([file], load_options(options, asks=asks))[0]
                if file is not None
                else [self._copy(number, stored)]
            )
        return self.equipped(suites)

    def equipped(self, suites: list[Suite]) -> list[Suite]:
        """Suites with the Python object that a program gives for the run's target."""
        callables = {} if self._supplied is None else self._supplied.callables
        return [structs.replace(suite, callables=callables) for suite in suites] if callables else suites

    def _given(self, recorded: GivenTarget | None) -> GivenTarget | None:
        if self._supplied is not None:
            return self._supplied.target
        return recorded and structs.replace(recorded, is_foreign=not self.is_trusted)

    def copies(self) -> list[Suite]:
        """The suites as they were when the run began; none where the copy is not to be trusted."""
        return [self._copy(*one) for one in enumerate(self.stored.suites)] if self.is_trusted else []

    def refuse_foreign_words(self, suites: list[Suite], *, only_targets: bool = False) -> None:
        """Raises Untrusted where a folder from elsewhere would choose whom to ask, or, unless `only_targets` are taken
        over, have its own words sent."""
        if self.is_trusted:
            return
        options, known = self.stored.options, {name for suite in suites for name in suite.targets}
        if options.selection.given is not None and self._supplied is None:
            raise self._refused("was started with a target that no suite has")
        other = [name for name in options.selection.targets if name not in known]
        if other:
            raise self._refused(f"was started with the target {other[0]}, which the project does not have")
        answers = options.answers
        if only_targets:
            return
        if options.selection.system_prompt is not None or answers.fork is not None or answers.record is not None:
            raise self._refused("was started with --system-prompt or --record, or is a fork")

    def suite_file(self, stored: StoredSuite) -> Path | None:
        """Where a suite is read from; None if only the folder's copy is left, or the suite never was a file."""
        if stored.folder is not None:
            return None
        here = _moved(stored.path, self.stored.root, self.root)
        if here is not None and here.is_file():
            return here
        there = Path(stored.path)
        return there if self.has_seal and there.is_file() else None

    def text_of(self, file: str) -> str:
        """The YAML of a suite that is not a file, by its name in results; empty for other suites."""
        own = (one for one in self.stored.suites if one.folder is not None)
        return next((one.text for one in own if file_in_project(one.path, one.root) == file), "")

    def _copy(self, number: int, stored: StoredSuite) -> Suite:
        if not self.is_trusted:
            place = _moved(stored.path, self.stored.root, self.root) or stored.path
            raise self._refused(f"was made from a suite that is not here: {place}")
        home = Path(stored.root)
        return stored_suite(self.folder, number, stored, home if self.has_seal and home.is_dir() else self.root)

    def _place(self, path: str | None, option: str) -> str | None:
        """A path among the options, in the working project; elsewhere only if it is trusted."""
        if path is None:
            return None
        here = _moved(path, self.stored.root, self.root)
        if here is not None and (here.exists() or not self.is_trusted):
            return str(here)
        if not self.is_trusted:
            raise self._refused(f"was started with {option} {path}, outside of the project")
        return path

    def _refused(self, what: str) -> Untrusted:
        return Untrusted(
            f"run {self.folder.id} {what}, and its folder was not written by your rejoinder",
            f"Run the command in the project that has the run's suites (this one is {self.root}). Or use the copy in"
            " the folder with --trust: then the folder decides which code is run and where your keys are sent.",
        )


def _rounds_begun(folder: RunFolder, first: int) -> int:
    """What is stored was written before the first round; the receipt counts them."""
    receipt = folder.read_receipt()
    begun = 1 if receipt is None else receipt.reported.repeat
    return max(first, min(begun, MOST_ROUNDS))


def _confirmed(folder: RunFolder, first: Confirm) -> Confirm:
    """What is stored was written before a failure was known; the receipt names the cases that are asked again."""
    receipt = folder.read_receipt()
    try:
        grown = msgspec.convert(None if receipt is None else receipt.options.get("confirm"), Confirm | None)
    except msgspec.ValidationError as error:
        raise RunDamaged(folder.path / "run.json", f"options: {error}") from None
    return first if grown is None else structs.replace(first, cases=grown.cases)


def _moved(path: str, root: str, now: Path) -> Path | None:
    """A path of the project that a run was started in, in the project as it is `now`; None for one outside of it."""
    then = PurePath(path)
    if ".." in then.parts or not then.is_relative_to(root):
        return None
    return now / then.relative_to(root)


def open_recorded(name: str | None, *, trust: bool = False) -> RecordedRun:
    """A run of the working project, by any of the names that `locate_run` takes."""
    root = find_root(Path.cwd(), Path.cwd())
    return RecordedRun(find_run(root, name), root, trust=trust)


def open_unfinished(*, retry_errors: bool = False, trust: bool = False) -> RecordedRun:
    """The latest run of the working project that has something left to do: conversations that have not ended or, with
    `retry_errors`, that ended in an error. Raises UsageError if there is none: a finished run would be shown as if
    something had been done."""
    root = find_root(Path.cwd(), Path.cwd())
    latest, runs = find_run(root, None), list_runs(root)
    for folder in latest_first(runs):
        left = _left_in(folder)
        if left.conversations or (retry_errors and left.errors):
            return RecordedRun(find_run(root, str(folder.path)), root, trust=trust)
    if latest.is_busy:
        return RecordedRun(latest, root, trust=trust)  # opening it says so
    hint = f"`rejoinder resume {latest.id}` grades the recorded replies again by the suites as they are now."
    if _left_in(latest).errors:
        hint = f"`rejoinder resume {latest.id} --retry-errors` repeats the calls that ended in an error."
    fork = next((one.id for one in reversed(runs) if is_aside(one) and _left_in(one).conversations), None)
    if fork is not None:
        hint = f"`rejoinder resume {fork}` continues a fork, which is never the latest run."
    raise UsageError(f"there is no unfinished run; the latest run is {latest.id}", hint)


class _Left(NamedTuple):
    """What a run has not done."""

    conversations: bool = False
    """Whether some have not ended."""
    errors: bool = False


def _left_in(folder: RunFolder) -> _Left:
    """Nothing in a run that is damaged or open in a process."""
    receipt = listed_receipt(folder)
    if receipt is None or folder.is_busy:
        return _Left()
    try:
        summary = folder.read_summary()
    except RunDamaged:
        return _Left()
    if summary is None or receipt.status != "completed":
        return _Left(conversations=True)
    given_up = bool(receipt.given_up and summary.skipped)
    errors = summary.errors > 0 or any(case.errors for case in summary.confirmed)
    return _Left(conversations=summary.unfinished > 0 or given_up, errors=errors)
