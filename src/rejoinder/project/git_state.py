"""The commit of a project, asked of git without running anything that the repository names.

A cloned repository can name programs in its configuration: hooks, a file monitor, filters of files, transports. So
hooks, monitors and transports are turned off; where filters or other configuration files are named, files are not
compared.
"""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

from rejoinder.model.inputs import GitState

_PATIENCE_S = 5.0
_LARGEST_CONFIG = 1 << 20
_NAMES_PROGRAMS = re.compile(rb"\[\s*(?:filter|include)", re.IGNORECASE)
"""A section of a configuration whose programs would be run where files are compared, or that may lead to one."""
_COMMIT = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")
_OFF = (
    *("-c", "core.fsmonitor=false", "-c", f"core.hooksPath={os.devnull}", "-c", "core.untrackedCache=false"),
    *("-c", "protocol.allow=never", "-c", "core.sshCommand=false", "-c", "credential.helper="),
    *("--no-pager", "--no-optional-locks", "--no-replace-objects"),
)
_ENVIRONMENT = {"GIT_NO_LAZY_FETCH": "1", "GIT_TERMINAL_PROMPT": "0", "GIT_OPTIONAL_LOCKS": "0", "LC_ALL": "C"}


def read_git_state(folder: Path) -> GitState | None:
    """The commit that a folder has; None if it belongs to no repository, or there is no git."""
    if not any(os.path.lexists(one / ".git") for one in (folder, *folder.parents)):
        return None
    told = _ask(folder, "rev-parse", "--git-dir", "--git-common-dir", "--verify", "HEAD")
    lines = [] if told is None else told.splitlines()
    if len(lines) != 3 or not _COMMIT.fullmatch(lines[2]):
        return None
    places = (folder / lines[0] / "config.worktree", folder / lines[1] / "config")
    return GitState(lines[2], _is_dirty(folder) if all(map(_is_harmless, places)) else None)


def _is_dirty(folder: Path) -> bool | None:
    told = _ask(folder, "status", "--porcelain", "-z", "--untracked-files=no", "--ignore-submodules=all")
    return None if told is None else bool(told)


def _is_harmless(config: Path) -> bool:
    """Whether a configuration names no program that comparing files would run."""
    try:
        with config.open("rb") as file:
            content = file.read(_LARGEST_CONFIG + 1)
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return len(content) <= _LARGEST_CONFIG and not _NAMES_PROGRAMS.search(content)


def _ask(folder: Path, *words: str) -> str | None:
    """The output of git; None if it fails, is missing, or takes too long."""
    own = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    try:
        done = subprocess.run(
            ("git", *_OFF, *words),
            cwd=folder,
            env={**own, **_ENVIRONMENT},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_PATIENCE_S,
            check=True,
        )
    except (OSError, ValueError, subprocess.SubprocessError):
        return None
    return done.stdout.decode(errors="replace")
