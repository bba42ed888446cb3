"""The project around a suite: its root, its configuration, its environment.

The root is the nearest folder upward from the suite (else from the working directory) that has `.rejoinder`,
`.agentv` or `.git`; else the working directory. The repository root is the folder with `.git`; without one it is the
project root. Configuration, targets and `.env` files are read in every folder from the suite's up to the repository
root, and the nearer file wins. In one folder AgentV's files are read first, ours win over them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct

from rejoinder.environment import own_environment
from rejoinder.model import Problem
from rejoinder.suite.dotenv import EnvFault, EnvFile, parse_env
from rejoinder.suite.files import FileFault, read_text, upward
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


class Layer(Struct, frozen=True):
    """One folder between the suite and the repository root, with its configuration files, the winner last."""

    folder: Path
    configurations: list[Source]


class Project(Struct, frozen=True):
    root: Path
    repository: Path
    working: Path
    layers: list[Layer]
    """The farthest folder first."""
    config: dict[str, Any]
    config_sources: dict[str, Source]
    """Which file each key of the configuration comes from."""
    environment: Environment
    problems: list[Problem]

    @property
    def readable(self) -> bool:
        return all(problem.severity != "error" for problem in self.problems)


def open_project(start: Path, *, working: Path | None = None, environment: Mapping[str, str] | None = None) -> Project:
    """The project that a suite's folder (or the working directory) belongs to."""
    working = (working or Path.cwd()).resolve()
    start = start.resolve()
    root = find_root(start, working)
    problems: list[Problem] = []
    layers = [_read_layer(folder, working, problems) for folder in reversed(folders_above(start, root))]
    config, sources = _merge([source for layer in layers for source in layer.configurations])
    dotenv = list(env_files(start, root, working))
    problems += _env_problems(dotenv, working)
    merged = _with_environment(dotenv, environment)
    return Project(root, find_repository(start, root), working, layers, config, sources, merged, problems)


def find_root(start: Path, working: Path) -> Path:
    for origin in (start, working):
        for folder in (origin, *origin.parents):
            if any((folder / mark).exists() for mark in _ROOT_MARKS):
                return folder
    return working


def find_repository(start: Path, root: Path) -> Path:
    return next((folder for folder in (start, *start.parents) if (folder / ".git").exists()), root)


def folders_above(start: Path, root: Path) -> list[Path]:
    """The folders whose configuration counts for a suite in `start`, the nearest first."""
    return list(dict.fromkeys([*upward(start, find_repository(start, root)), root]))


def env_folders(start: Path, root: Path, working: Path) -> list[Path]:
    """The folders whose `.env` counts, the nearest first."""
    return list(dict.fromkeys([*folders_above(start, root), working]))


def configuration_files(folder: Path, name: str) -> list[Path]:
    """The files of one name that a folder has, the one that wins last."""
    candidates = [
        folder / inner / f"{name}{suffix}" for inner in _CONFIGURATION_FOLDERS for suffix in (".yaml", ".yml")
    ]
    return [path for path in candidates if path.exists()]


def _read_layer(folder: Path, working: Path, problems: list[Problem]) -> Layer:
    layer = Layer(folder, [])
    for path in configuration_files(folder, "config"):
        source, found = read_configuration(path, working)
        problems += found
        if source is not None and isinstance(source.document.data, dict):
            layer.configurations.append(source)
    return layer


def _merge(sources: list[Source]) -> tuple[dict[str, Any], dict[str, Source]]:
    """One configuration, later files winning key by key, also inside `vars`, `formatting` and the like."""
    config: dict[str, Any] = {}
    origins: dict[str, Source] = {}
    for source in sources:
        for key, value in source.document.data.items():
            before = config.get(key)
            if isinstance(before, dict) and isinstance(value, dict):
                value = {**before, **value}  # noqa: PLW2901 - the merged value takes its place
            config[key], origins[key] = value, source
    return config, origins


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


def read_environment(start: Path, root: Path, working: Path) -> Environment:
    """The environment over the variables of all `.env` files; the nearest file wins."""
    return _with_environment(env_files(start, root, working))


def _with_environment(
    files: Iterable[tuple[Path, EnvFile]], environment: Mapping[str, str] | None = None
) -> Environment:
    merged: dict[str, str] = {}
    origins: dict[str, Path] = {}
    for path, file in files:
        merged.update(file.values)
        origins.update(dict.fromkeys(file.values, path))
    own = own_environment() if environment is None else environment
    return Environment({**merged, **own}, {name: path for name, path in origins.items() if name not in own})


def _env_problems(files: list[tuple[Path, EnvFile]], working: Path) -> Iterator[Problem]:
    for path, file in files:
        for fault in file.faults:
            place: dict[str, Any] = {} if fault.line is None else {"line": fault.line, "source": ""}
            name = display_path(path, working)
            yield Problem(code="env-syntax", message=fault.message, file=name, severity="warning", **place)


def env_files(start: Path, root: Path, working: Path) -> Iterator[tuple[Path, EnvFile]]:
    """The `.env` files that count, the farthest first."""
    for folder in reversed(env_folders(start, root, working)):
        path = folder / ".env"
        if path.is_file():
            yield path, read_env_file(path)


def read_env_file(path: Path) -> EnvFile:
    try:
        return parse_env(read_text(path))
    except FileFault as fault:
        return EnvFile({}, [EnvFault(None, f"{fault.message}; the file is skipped")])
