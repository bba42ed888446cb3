"""Finds the files that a command means, and the kind of each."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Literal, TypeAlias

from rejoinder.errors import UsageError
from rejoinder.project.files import FileFault, read_text
from rejoinder.project.user_files import user_values
from rejoinder.spelling import nearest

FileKind: TypeAlias = Literal["suite", "targets", "config"]
_KINDS: dict[str, FileKind] = {"targets": "targets", "config": "config"}

DEFAULT_NAMES = ("evals.yaml", "evals.yml", "eval.yaml", "eval.yml", "rejoinder.yaml", "rejoinder.yml")
MOST_READ = 1_000_000
"""Bytes of a file that show whether it is a suite."""
_OF_SUITES = ("evals", "cases")
_KEY = re.compile(r"^[\"']?(\w{1,40})[\"']?\s*:", re.MULTILINE)
_LIST = re.compile(r"(?:\s|#[^\n]*\n|---[^\n]*\n)*(?:-\s|\[)")
_PASSED_OVER = frozenset({"node_modules", "__pycache__", "venv", "site-packages", "dist", "build"})


def kind_of(path: Path) -> FileKind:
    """The kind of a file, by its place, its name and its first lines."""
    if path.stem == "targets":
        return "targets"
    if path.stem == "config" and path.parent.name in (".rejoinder", ".agentv"):
        return "config"
    schema = re.search(r"^\$schema:\s*[\"']?agentv-(targets|config)", _head(path), re.MULTILINE)
    return _KINDS[schema[1]] if schema else "suite"


def find_files(paths: Iterable[Path]) -> tuple[list[Path], list[str]]:
    """The files to read: named files, and the suites in named folders."""
    files: dict[str, Path] = {}
    passed_over: list[str] = []
    for path in map(_saved, list(paths) or [find_default()]):
        candidates = _candidates(path)
        suites = [path] if candidates is None else list(filter(looks_like_suite, candidates))
        if not suites:
            raise _nothing_found(path, candidates or [])
        for file in suites:
            files.setdefault(_identity(file), file)
        passed_over += [str(file) for file in candidates or () if file not in suites]
    return list(files.values()), passed_over


def _saved(path: Path) -> Path:
    """The path that the user has saved under this name, if no file has it."""
    if len(path.parts) != 1 or os.path.lexists(path):
        return path
    return Path(user_values("suites").get(path.name, path))


def _candidates(path: Path) -> list[Path] | None:
    """The files that a folder or a pattern matches; None for a path that names one file."""
    if os.path.isdir(path):  # noqa: PTH112 - as in `_head`
        return _yaml_files(path)
    if _is_pattern(path):
        return _matching_files(str(path))
    return None


def _nothing_found(path: Path, candidates: list[Path]) -> UsageError:
    if candidates or not _is_pattern(path):
        where = f"among the files of {str(path)!r}" if _is_pattern(path) else f"in the folder {str(path)!r}"
        return UsageError(f"there is no suite {where}", "Name the files, or add one with `evals:`.")
    return UsageError(f"no file matches {str(path)!r}", "A pattern such as 'evals/**/*.yaml' matches YAML files.")


def _is_pattern(path: Path) -> bool:
    return any(character in str(path) for character in "*?[") and not os.path.lexists(path)


def _matching_files(pattern: str) -> list[Path]:
    """The YAML files that match a pattern which the shell did not expand: `*`, `?`, `**` and `[ab]`."""
    from glob import glob

    found = map(Path, sorted(glob(pattern, recursive=True)))  # noqa: PTH207 - a `Path` cannot hold an absolute pattern
    return [path for path in found if path.suffix.lower() in (".yaml", ".yml") and path.is_file()]


def _identity(path: Path) -> str:
    """One name for all spellings of a file."""
    try:
        return os.path.realpath(path)
    except (OSError, ValueError):
        return str(path)


def find_default() -> Path:
    """The suite of the working directory, if no file is named."""
    for name in DEFAULT_NAMES:
        if Path(name).is_file():
            return Path(name)
    named = sorted(Path().glob("*.rejoinder.y*ml"))
    if len(named) == 1:
        return named[0]
    raise UsageError(
        "no file was named, and there is no suite here",
        f"Name a file, or call it one of {', '.join(DEFAULT_NAMES)}; `rejoinder init` writes one to start from.",
    )


def why_passed_over(path: Path) -> str | None:
    """Why a file is not taken for a suite; None for a suite, and for another file of rejoinder."""
    if kind_of(path) != "suite" or looks_like_suite(path):
        return None
    try:
        text = read_text(path)[:MOST_READ]
    except FileFault as fault:
        return fault.message
    if not text.strip():
        return "it is empty"
    if _LIST.match(text):
        return "it is a list, and a suite is a mapping with `evals`"
    written = next((key for key in _KEY.findall(text) if nearest(key, _OF_SUITES) is not None), None)
    meant = "" if written is None else f"; `{written}` is not `{nearest(written, _OF_SUITES)}`"
    return f"it has neither `evals` nor `cases`{meant}"


def looks_like_suite(path: Path) -> bool:
    """Whether the file has a key that only suites have. Broken YAML is judged by its text."""
    text = _head(path, MOST_READ)
    start = r"[{,\n]\s*" if text.lstrip().startswith("{") else "^"
    has_tests = re.search(rf"{start}[\"']?tests[\"']?\s*:", text, re.MULTILINE) is not None
    return re.search(rf"{start}[\"']?(evals|evalcases|cases)[\"']?\s*:", text, re.MULTILINE) is not None or (
        has_tests and re.search(r"\bmode[\"']?\s*:\s*[\"']?conversation\b", text) is not None
    )


def _yaml_files(folder: Path) -> list[Path]:
    def passed_over(path: Path) -> bool:
        parts = path.relative_to(folder).parts
        return any(part in _PASSED_OVER or part.startswith(".") for part in parts)

    files = (path for pattern in ("*.yaml", "*.yml") for path in folder.rglob(pattern))
    return sorted(path for path in files if path.is_file() and not passed_over(path))


def _head(path: Path, size: int = 2000) -> str:
    if not os.path.isfile(path):  # noqa: PTH113 - a pipe would be waited for; an impossible name is just no file
        return ""
    try:
        with path.open("rb") as stream:
            return stream.read(size).decode("utf-8-sig", "replace")
    except OSError:
        return ""
