"""Checks on an agent's workspace: its files, its changes, and commands that run in it.

Reading the workspace is `Work`: done once, while the workspace exists, and recorded. What was found is recorded, not
whether it passed, so that `grade` can apply other conditions to it.
"""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import msgspec
from msgspec import Struct

from rejoinder.checks.base import CheckFault, Context, Work, error_verdict, scored_verdict, verdict
from rejoinder.checks.patterns import PatternTimeout, search
from rejoinder.checks.registry import grades
from rejoinder.formatting.globs import matches_path
from rejoinder.model import Failure, Verdict, Workspace, count_lines, is_cut
from rejoinder.model import checks as kinds

T = TypeVar("T")
MOST_FILES = 100_000
"""Maximum files of a workspace that are searched."""
LONGEST_FILE = 1 << 20
MOST_FOUND = 10
"""Maximum files that are named."""
COMMAND_S = 300.0
LONGEST_OUTPUT = 64 << 10
_LONGEST_REASON = 2_000
_LAST_LINES = 30
_PATTERN = re.compile(r"[*?\[{]")
_NONE = "the target has no workspace; this check needs an agent whose conversation is running"


class _Ended(Struct, frozen=True):
    """A command's exit code, and the end of its output."""

    exit_code: int
    output: str


@grades(kinds.FileExists)
async def grade_file_exists(check: kinds.FileExists, context: Context) -> Verdict:
    shown = ", ".join(check.paths)
    missing: list[str] = []
    for path in check.paths:
        names = await _look(context, "files", path, lambda space, path=path: _found(space, path))
        if isinstance(names, Failure):
            return error_verdict(check, shown, names.message)
        missing += () if names else (path,)
    reason = f"there is no {', '.join(missing)} in the workspace" if missing else "it is there"
    return verdict(check, shown, not missing, reason)


@grades(kinds.FileContains)
async def grade_file_contains(check: kinds.FileContains, context: Context) -> Verdict:
    shown = f"{check.path}: {check.text if check.text is not None else check.pattern}"
    text = await _look(context, "text", check.path, lambda space: _read(space, check.path))
    if isinstance(text, Failure):
        return error_verdict(check, shown, text.message)
    if text is None:
        return verdict(check, shown, False, f"there is no text {check.path} in the workspace")
    if check.text is not None and check.text not in text:
        return verdict(check, shown, False, f"{check.path} does not contain it")
    try:
        if check.pattern is not None and search(check.pattern, "", text) is None:
            return verdict(check, shown, False, f"it is not found in {check.path}")
    except PatternTimeout as timeout:
        return error_verdict(check, shown, str(timeout))
    return verdict(check, shown, True, f"{check.path} contains it")


@grades(kinds.FileUnchanged)
async def grade_file_unchanged(check: kinds.FileUnchanged, context: Context) -> Verdict:
    shown = ", ".join(check.paths)
    changes = await _look(context, "changes", "", lambda space: dict(space.changed()))
    if isinstance(changes, Failure):
        return error_verdict(check, shown, changes.message)
    patterns = tuple(path if _PATTERN.search(path) else path.rstrip("/") for path in check.paths)
    below = tuple(f"{path}/**" for path in patterns if not _PATTERN.search(path))
    touched = [f"{name} was {how}" for name, how in changes.items() if matches_path(name, (*patterns, *below))]
    more = f" and {len(touched) - 5} more" if len(touched) > 5 else ""
    return verdict(check, shown, not touched, ", ".join(touched[:5]) + more if touched else "nothing was changed")


@grades(kinds.WorkspaceDiff)
def grade_workspace_diff(check: kinds.WorkspaceDiff, context: Context) -> Verdict:
    diff = context.reply.workspace_diff
    if diff is None:
        return error_verdict(check, check.contains, _NONE)
    changed = count_lines(diff)
    lines = changed.added + changed.removed
    faults: list[str] = []
    if check.contains is not None and check.contains not in diff:
        faults.append("the diff does not contain it")
    if check.not_contains is not None and check.not_contains in diff:
        faults.append(f"the diff contains {check.not_contains!r}")
    if is_cut(diff) and (check.max_lines is not None or check.not_contains is not None):
        faults.append("too much was changed to be shown whole")
    if check.max_lines is not None and (lines > check.max_lines or (diff and not check.max_lines)):
        faults.append(f"{lines} lines were changed; the maximum is {check.max_lines}")
    if check.min_lines is not None and lines < check.min_lines:
        faults.append(f"{lines} lines were changed; the minimum is {check.min_lines}")
    return verdict(check, check.contains, not faults, "; ".join(faults) or f"{lines} lines were changed")


@grades(kinds.CommandCheck)
async def grade_command(check: kinds.CommandCheck, context: Context) -> Verdict:
    words, timeout_s = check.run, check.timeout_s or COMMAND_S
    shown = words[0] if len(words) == 1 else " ".join(words)
    folders = context.port.folders

    def run(space: Workspace) -> Awaitable[_Ended]:
        return _run(words, space.workspace, timeout_s, folders)

    ended = await _carry_out(context, "command", words, run, _Ended)
    if isinstance(ended, Failure):
        return error_verdict(check, shown, ended.message)
    passed = ended.exit_code == check.exit_code
    lines = ended.output.strip().splitlines()[-_LAST_LINES:]
    reason = f"exit code {ended.exit_code}"
    if passed or not lines:
        return verdict(check, shown, passed, reason)
    whole = "\n".join((f"{reason}:", *lines))[-_LONGEST_REASON:]
    return scored_verdict(check, shown, passed, f"{reason}: {lines[-1].strip()}", reasoning=whole)


async def _run(words: tuple[str, ...], folder: Path, timeout_s: float, folders: tuple[str, ...]) -> _Ended:
    """Raises CheckFault."""
    from rejoinder.checks.scripts import words_to_run
    from rejoinder.project.dotenv import environment_of
    from rejoinder.user_code.processes import Command, run_process
    from rejoinder.user_code.programs import ProcessFault
    from rejoinder.user_code.variables import given_to_command

    command = Command(
        words=words_to_run(words),
        folder=folder,
        environment={**given_to_command(environment_of(folders), {}).variables, "PWD": str(folder)},
        timeout_s=timeout_s,
        most_stdout=16 << 20,
        called="command",
    )
    try:
        ended = await run_process(command)
    except ProcessFault as fault:
        raise CheckFault(str(fault)) from None
    # Where the workspace lies differs from run to run, and says nothing.
    output = f"{ended.stdout}{ended.stderr}".replace(f"{folder}/", "").replace(str(folder), ".")
    return _Ended(ended.exit_code, output[-LONGEST_OUTPUT:])


async def _look(context: Context, what: str, path: str, look: Callable[[Workspace], T]) -> T | Failure:
    """The result of a search in the workspace, or the reason why it failed."""

    async def found(space: Workspace) -> T:
        try:
            return await asyncio.to_thread(look, space)
        except OSError as error:
            raise CheckFault(f"the workspace cannot be read: {error}") from None

    return await _carry_out(context, "workspace", (what, path), found, Any)


async def find_in_changed_files(
    context: Context, what: str, wanted: str, has: Callable[[str], bool]
) -> list[str] | Failure:
    """The first files that the agent added or changed and whose text, or name, has something. `wanted`: what it
    depends on."""

    def look(space: Workspace) -> list[str]:
        found: list[str] = []
        for name, _ in zip(space.changed(), range(MOST_FILES), strict=False):
            text = _read(space, name)
            if has(name) or (text is not None and has(text)):
                found.append(name)
            if len(found) >= MOST_FOUND:
                break
        return found

    return await _look(context, what, wanted, look)


async def _carry_out(
    context: Context, label: str, content: Any, work: Callable[[Workspace], Awaitable[T]], kind: Any
) -> T | Failure:
    """The result of recorded work in the workspace. `kind`: the type to read it as."""

    async def perform(workspace: Workspace | None) -> str:
        if workspace is None:
            raise CheckFault(_NONE)
        return msgspec.json.encode(await work(workspace)).decode()

    answer = await context.port.carry_out(Work(label, msgspec.json.encode(content), perform, in_workspace=True))
    return answer if isinstance(answer, Failure) else msgspec.json.decode(answer.text, type=kind)


def _found(space: Workspace, path: str) -> list[str]:
    """The first files that match a path or a pattern."""
    if not _PATTERN.search(path):
        place = _inside(space.workspace, path)
        return [path] if place is not None and place.exists() else []
    names = (name for name in _names_in(space.workspace) if matches_path(name, (path,)))
    return [name for name, _ in zip(names, range(10), strict=False)]


def _read(space: Workspace, path: str) -> str | None:
    place = _inside(space.workspace, path)
    if place is None or not place.is_file():
        return None
    with place.open("rb") as file:
        return file.read(LONGEST_FILE).decode("utf-8", "replace")


def _inside(workspace: Path, path: str) -> Path | None:
    """A place in the workspace; None if the path, or a link on it, leads outside."""
    try:
        place = (workspace / path).resolve()
        return place if place.is_relative_to(workspace.resolve()) else None
    except (OSError, RuntimeError, ValueError):  # links that lead to one another, names that cannot be
        return None


def _names_in(workspace: Path) -> Iterator[str]:
    count = 0
    for place, folders, names in os.walk(workspace):
        folders[:] = sorted(name for name in folders if name != ".git")
        for name in sorted(names):
            count += 1
            if count > MOST_FILES:
                return
            yield (Path(place) / name).relative_to(workspace).as_posix()
