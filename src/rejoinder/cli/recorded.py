"""How commands find the RUN that they are given."""

from __future__ import annotations

from pathlib import Path

from rejoinder.engine.folder import find_run
from rejoinder.engine.recorded import RecordedRun
from rejoinder.project import find_root


def open_recorded(name: str | None, *, trust: bool = False) -> RecordedRun:
    """A run by its id, the beginning or end of it, its folder, or the latest of the working project."""
    root = find_root(Path.cwd(), Path.cwd())
    return RecordedRun(find_run(root, name), root, trust=trust)
