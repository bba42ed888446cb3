"""Saved suites, variables and secrets: small JSON files in the user's configuration folder, for all projects.

Only the owner can read them, and a file that others can read or change is refused. The value of a secret is never
shown: `{{ secret('name') }}` in a suite reads it from here, and the run hides it like all secrets.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Literal, TypeAlias

import msgspec

from rejoinder.errors import UsageError, reason_of
from rejoinder.locks import lock_within
from rejoinder.project.files import FileFault, read_text
from rejoinder.project.folders import user_folder

Kind: TypeAlias = Literal["suites", "vars", "secrets"]
LARGEST = 1 << 20
LONGEST_VALUE = 1 << 16
LOCK = ".lock"
LOCK_WAIT_S = 30.0
"""Seconds to wait for the lock. Writing a file takes milliseconds, on a slow disk a second."""
_NAME = re.compile(r"[\w.-]{1,64}")
_OTHERS = 0o077


def user_values(kind: Kind) -> dict[str, str]:
    """The user's saved values, by name. Raises UsageError if the file cannot be used."""
    folder = user_folder()
    path = None if folder is None else folder / f"{kind}.json"
    if path is None or not path.exists():
        return {}
    try:
        if sys.platform != "win32" and path.stat().st_mode & _OTHERS:
            raise UsageError(f"others can read or change {path}", f"Close it to them: `chmod 600 {path}`.")
        return msgspec.json.decode(read_text(path, LARGEST), type=dict[str, str])
    except FileFault as fault:
        raise UsageError(f"{path} cannot be used: {fault.message}") from None
    except (msgspec.MsgspecError, RecursionError):  # its words could quote a secret
        raise UsageError(f"{path} is not a JSON object of texts", "Delete it, and save the values again.") from None
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {reason_of(error)}") from None


def save_value(kind: Kind, name: str, value: str) -> None:
    """Save a value. Raises UsageError for an invalid name or value, without quoting the value."""
    if not _NAME.fullmatch(name):
        raise UsageError("a name has letters, digits, `_`, `-` and `.`, at most 64 of them")
    if not 0 < len(value) <= LONGEST_VALUE or "\0" in value:
        raise UsageError(f"the value of `{name}` is empty, longer than {LONGEST_VALUE:,} characters, or no text")
    with user_folder_held() as folder:
        _write(folder, kind, {**user_values(kind), name: value})


def remove_value(kind: Kind, name: str) -> bool:
    """Remove a value. False if missing."""
    if name not in user_values(kind):
        return False
    with user_folder_held() as folder:
        _write(folder, kind, {key: value for key, value in user_values(kind).items() if key != name})
    return True


@contextmanager
def user_folder_held() -> Generator[Path]:
    """Hold the user's folder, so that no other process changes a file meanwhile: otherwise one of two simultaneous
    changes would be lost. Raises UsageError."""
    folder = user_folder()
    if folder is None:
        raise UsageError("there is no home folder to save anything in", "Set HOME.")
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        handle = os.open(folder / LOCK, os.O_WRONLY | os.O_CREAT, 0o600)
    except OSError as error:
        raise UsageError(f"{folder} cannot be written: {reason_of(error)}") from None
    try:
        if not lock_within(handle, LOCK_WAIT_S):
            raise UsageError(f"another process changes the files in {folder}", "Try again when it has ended.")
        yield folder
    finally:
        os.close(handle)


def _write(folder: Path, kind: Kind, values: dict[str, str]) -> None:
    path = folder / f"{kind}.json"
    try:
        _replace(path, msgspec.json.format(msgspec.json.encode(values, order="sorted"), indent=2) + b"\n")
    except OSError as error:
        raise UsageError(f"{path} cannot be written: {reason_of(error)}") from None
    except UnicodeEncodeError:
        raise UsageError("the value is not text", "Save it as UTF-8.") from None


def _replace(path: Path, content: bytes) -> None:
    """Write a file whole or not at all; others can never read it."""
    draft = path.with_name(f".{path.name}.{os.urandom(8).hex()}.draft")
    try:
        with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as stream:
            stream.write(content)
            stream.flush()
            os.fsync(stream.fileno())
        draft.replace(path)
    finally:
        with suppress(OSError):
            draft.unlink()
