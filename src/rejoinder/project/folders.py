"""Folders: the root of a project, the folders whose files apply to a suite, the user's own, and the display of paths.

The root is the nearest folder upward from the suite (else from the working directory) that has `.rejoinder`, `.agentv`
or `.git`; else the working directory. The repository root is the folder with `.git`; without one it is the project
root.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from rejoinder.errors import UsageError
from rejoinder.project.environment import own_environment

_ROOT_MARKS = (".rejoinder", ".agentv", ".git")


def given_folder(folder: object, name: str) -> Path:
    """A folder that a program gives as the argument `name`. Raises UsageError for anything else than a path."""
    if not isinstance(folder, str | Path):
        raise UsageError(f"{name} is a path, and not a {type(folder).__name__}")
    if "\0" in str(folder):
        raise UsageError(f"{name} has a NUL character, which no path has")
    return Path(folder).absolute()


def find_root(start: Path, working: Path) -> Path:
    for origin in (start, working):
        for folder in (origin, *origin.parents):
            if any((folder / mark).exists() for mark in _ROOT_MARKS):
                return folder
    return working


def find_repository(start: Path, root: Path) -> Path:
    return next((folder for folder in (start, *start.parents) if (folder / ".git").exists()), root)


def folders_above(start: Path, root: Path) -> list[Path]:
    """The folders whose configuration applies to a suite in `start`, the nearest first."""
    return list(dict.fromkeys([*upward(start, find_repository(start, root)), root]))


def env_folders(start: Path, root: Path, working: Path) -> list[Path]:
    """The folders whose `.env` applies, the nearest first."""
    return list(dict.fromkeys([*folders_above(start, root), working]))


def upward(folder: Path, root: Path) -> list[Path]:
    """The folder and all above it up to the root, the nearest first; only the folder itself if it is not below the
    root."""
    if folder != root and root not in folder.parents:
        return [folder]
    return [folder, *(parent for parent in folder.parents if parent == root or root in parent.parents)]


def display_path(path: Path, working: Path) -> str:
    """The path for messages: relative to the working directory if it is below that."""
    try:
        shown = str(path.relative_to(working))
    except ValueError:
        shown = str(path)
    return shown.encode("utf-8", "replace").decode()  # a name may have bytes that are not text


def folder_name(folder: Path) -> str:
    """A folder's name for messages."""
    try:
        relative = os.path.relpath(folder)
    except ValueError:  # another drive
        return str(folder)
    if relative == os.curdir:
        return "this folder"
    return relative if len(relative) < len(str(folder)) else str(folder)


def user_cache() -> Path | None:
    """`~/.cache/rejoinder` or the system's counterpart; None for a user without a home."""
    if sys.platform == "win32":
        return _of_user("LOCALAPPDATA", "AppData/Local")
    return _of_user("XDG_CACHE_HOME", "Library/Caches" if sys.platform == "darwin" else ".cache")


def user_folder() -> Path | None:
    """`~/.config/rejoinder` or the system's counterpart; None for a user without a home."""
    if sys.platform == "win32":
        return _of_user("APPDATA", "AppData/Roaming")
    return _of_user("XDG_CONFIG_HOME", ".config")


def _of_user(variable: str, fallback: str) -> Path | None:
    place = own_environment().get(variable, "")
    if place and Path(place).is_absolute():
        return Path(place, "rejoinder")
    try:
        return Path.home() / fallback / "rejoinder"
    except RuntimeError:
        return None
