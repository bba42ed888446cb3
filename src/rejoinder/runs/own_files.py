"""Files that results must not be written over: those that they come from, and those that rejoinder keeps."""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from rejoinder.errors import RejoinderError, UsageError
from rejoinder.runs.recorded import RecordedRun

_STORE = ".rejoinder"
_OF_A_RUN = ("run.json", "journal.jsonl")
_HINT = "Write the results to another file."


def refuse_own_file(path: Path, sources: Iterable[Path] = ()) -> None:
    """Raises UsageError for a file in a run folder or in `.rejoinder`, and for one of the sources; under any name."""
    place = Path(os.path.realpath(path))
    for folder in place.parents:
        if folder.name.lower() == _STORE:
            raise UsageError(f"{path} is in {folder}, where rejoinder keeps its own files", _HINT)
        if all((folder / name).exists() for name in _OF_A_RUN):
            raise UsageError(f"{path} is in the folder of run {folder.name}", _HINT)
    for source in sources:
        if _is_same(place, source):
            raise UsageError(f"{path} is what the results come from: {source}", _HINT)


def files_of(run: RecordedRun) -> list[Path]:
    """What a recorded run comes from, or is: the files of its suites in the project, and those of its folder."""
    files = list(run.folder.path.iterdir())
    with suppress(RejoinderError):  # what cannot be read names no file
        files += [file for suite in run.stored.suites if (file := run.suite_file(suite)) is not None]
    return files


def _is_same(path: Path, other: Path) -> bool:
    try:
        return path.samefile(other)
    except (OSError, ValueError):
        return False
