"""Commands of the user's that belong to a target: its service (`start`) and the source of its token (`auth`).

They get the environment without its secrets, as the commands of `cli` targets do, and the variables of their `env`.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct

from rejoinder.errors import UsageError
from rejoinder.project.dotenv import environment_of
from rejoinder.user_code.lookup import folder_for
from rejoinder.user_code.processes import shell_words
from rejoinder.user_code.variables import given_to_command


class OwnCommand(Struct, frozen=True):
    """A command that is ready to be run. It can be compared: equal ones do the same."""

    words: tuple[str, ...]
    folder: Path
    environment: tuple[tuple[str, str], ...]


def read_command(settings: Mapping[str, Any], folders: tuple[str, ...], what: str) -> OwnCommand:
    """The command of settings whose variables are filled in. Raises UsageError."""
    given = given_to_command(environment_of(folders), settings.get("env") or {})
    folder = folder_for(settings.get("cwd"), folders)
    return OwnCommand(words_of(settings.get("command"), what), folder, tuple(sorted(given.variables.items())))


def words_of(command: Any, what: str) -> tuple[str, ...]:
    """The words of a command, which is a list, or a line for the shell. Raises UsageError if it is empty."""
    words = tuple(map(str, command)) if isinstance(command, list | tuple) else shell_words(str(command or ""))
    if not words or not words[-1 if words[:2] == ("sh", "-c") else 0].strip():
        raise UsageError(f"{what} has no `command`")
    return words
