"""The project around a suite: its root, its configuration, its environment.

The root is the nearest folder upward from the suite (else from the working directory) that has `.rejoinder`,
`.agentv` or `.git`; else the working directory. AgentV's files are read where they exist, ours win over them.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct

from rejoinder.model import Problem
from rejoinder.suite.files import FileFault, read_text
from rejoinder.suite.schema import find_violations
from rejoinder.suite.source import Source, read_source

_ROOT_MARKS = (".rejoinder", ".agentv", ".git")
_CONFIGURATION_FOLDERS = (".agentv", ".rejoinder")
"""Later wins."""


class Environment(dict[str, str]):
    """Variables by name, and the `.env` file of each that the process itself does not have."""

    def __init__(self, variables: Mapping[str, str], files: Mapping[str, Path]) -> None:
        super().__init__(variables)
        self.files = files


class Project(Struct, frozen=True):
    root: Path
    working: Path
    config: dict[str, Any]
    config_sources: dict[str, Source]
    """Which file each key of the configuration comes from."""
    environment: Environment
    problems: list[Problem]


def open_project(start: Path, *, working: Path | None = None, environment: Mapping[str, str] | None = None) -> Project:
    """The project that a suite's folder (or the working directory) belongs to."""
    working = (working or Path.cwd()).resolve()
    start = start.resolve()
    root = find_root(start, working)
    config: dict[str, Any] = {}
    sources: dict[str, Source] = {}
    problems: list[Problem] = []
    for path in configuration_files(root, "config"):
        source, found = read_configuration(path, working)
        problems += found
        if source is not None and isinstance(source.document.data, dict):
            config.update(source.document.data)
            sources.update(dict.fromkeys(source.document.data, source))
    return Project(root, working, config, sources, read_environment(start, root, working, environment), problems)


def find_root(start: Path, working: Path) -> Path:
    for origin in (start, working):
        for folder in (origin, *origin.parents):
            if any((folder / mark).exists() for mark in _ROOT_MARKS):
                return folder
    return working


def configuration_files(root: Path, name: str) -> list[Path]:
    """The project's files of one name, the one that wins last."""
    candidates = [
        root / folder / f"{name}{suffix}" for folder in _CONFIGURATION_FOLDERS for suffix in (".yaml", ".yml")
    ]
    return [path for path in candidates if path.exists()]


def read_configuration(path: Path, working: Path) -> tuple[Source | None, list[Problem]]:
    source, problems = read_source(path, display_path(path, working))
    if source is None or source.document.data is None:
        return None, problems
    violations = find_violations(source.document.data, "config")
    return (None if violations else source), problems + [source.violation(one) for one in violations]


def display_path(path: Path, working: Path) -> str:
    """The path as an author wants to read it: from the working directory where it lies below."""
    try:
        shown = str(path.relative_to(working))
    except ValueError:
        shown = str(path)
    return shown.encode("utf-8", "replace").decode()  # a name may have bytes that are no text


def read_environment(start: Path, root: Path, working: Path, given: Mapping[str, str] | None = None) -> Environment:
    """The environment over all `.env` files from the suite upward to the root; the nearest wins among files."""
    folders = [
        start,
        *(folder for folder in start.parents if folder == root or root in folder.parents),
        root,
        working,
    ]
    merged: dict[str, str] = {}
    files: dict[str, Path] = {}
    for folder in reversed(dict.fromkeys(folders)):
        path = folder / ".env"
        if path.is_file():
            try:
                variables = parse_env(read_text(path))
            except FileFault:
                continue  # an unreadable .env is as good as none; what it should hold is reported as missing
            merged.update(variables)
            files.update(dict.fromkeys(variables, path))
    own = os.environ if given is None else given
    return Environment({**merged, **own}, {name: path for name, path in files.items() if name not in own})


_ENV_LINE = r"""^[ \t]*(?:export[ \t]+)?([A-Za-z_][A-Za-z0-9_]*)[ \t]*=[ \t]*
        (?: (?: '([^']*)' | "((?:[^"\\]|\\.)*)" ) [ \t]*(?:\#.*)? | ([^\n]*?)[ \t]*(?:(?<=[ \t])\#.*)? )$"""
_ENV_ESCAPES = {"n": "\n", "t": "\t", "r": "\r"}


def parse_env(text: str) -> dict[str, str]:
    """`NAME=value` lines, with `export`, quotes and comments as shells have them."""
    values: dict[str, str] = {}
    for name, single, double, plain in re.findall(_ENV_LINE, text.replace("\r\n", "\n"), re.VERBOSE | re.MULTILINE):
        unescaped = re.sub(r"\\(.)", lambda found: _ENV_ESCAPES.get(found[1], found[1]), double)
        values[name] = single or unescaped or plain.strip()
    return values
