"""The folder of a server's indexes: a temporary one, which goes with the server. The next server deletes what one that
was killed has left: its lock went with its process."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from pathlib import Path

from rejoinder.locks import lock_within
from rejoinder.run_files import RunDamaged, open_file, open_to_append
from rejoinder.runs.report import Scratch

PREFIX = "rejoinder-view-"
LOCK = "lock"


class IndexFolder:
    def __init__(self) -> None:
        sweep()
        self._scratch = Scratch(PREFIX)
        new = self.path / "new"
        self._lock = open_to_append(new)
        lock_within(self._lock, 0)
        new.rename(self.path / LOCK)  # locked before others can see it

    @property
    def path(self) -> Path:
        return self._scratch.path

    def delete(self) -> None:
        os.close(self._lock)
        self._scratch.delete()


def sweep() -> None:
    """Delete the folders of this user's servers that were killed."""
    for path in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
        with contextlib.suppress(OSError, RunDamaged):
            if _is_own(path) and _is_left(path):
                shutil.rmtree(path, ignore_errors=True)


def _is_own(path: Path) -> bool:
    """A link or a folder of another user is not ours to delete."""
    found = path.lstat()
    return not path.is_symlink() and (not hasattr(os, "geteuid") or found.st_uid == os.geteuid())


def _is_left(path: Path) -> bool:
    """Has its server ended? One without a lock is just being made. Raises OSError or RunDamaged."""
    with open_file(path / LOCK) as stream:
        return lock_within(stream.fileno(), 0)
