"""The user's own configuration folder, which no project can write: keys and decisions that hold for all projects."""

from __future__ import annotations

import sys
from pathlib import Path

from rejoinder.environment import own_environment


def user_folder() -> Path | None:
    """`~/.config/rejoinder` or where the system keeps such folders; None for a user without a home."""
    variable, fallback = ("APPDATA", "AppData/Roaming") if sys.platform == "win32" else ("XDG_CONFIG_HOME", ".config")
    place = own_environment().get(variable, "")
    if place and Path(place).is_absolute():
        return Path(place, "rejoinder")
    try:
        return Path.home() / fallback / "rejoinder"
    except RuntimeError:
        return None
