"""The project around a suite according to its files: configuration and environment.

Configuration, targets and `.env` files are read in every folder from the suite's up to the repository root, and the
nearer file wins. In one folder AgentV's files are read first, so that ours win over them.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from rejoinder.errors import UsageError
from rejoinder.model import Price, Problem
from rejoinder.project.dotenv import EnvFile, Environment, env_files, merge_environment
from rejoinder.project.files import Finder
from rejoinder.project.folders import display_path, find_repository, find_root, folders_above
from rejoinder.suite.agentv_files import FOLDER, as_foreign, is_of_agentv, problems_of_configuration
from rejoinder.suite.schema import find_violations, is_in_target
from rejoinder.suite.source import Source, read_source

_CONFIGURATION_FOLDERS = (FOLDER, ".rejoinder")
"""Later folders win."""
_PRICE_HINT = (
    "A price is in dollars per million tokens: `my-model: {input: 0.5, output: 2}`, and `cached` and "
    "`cache_write` if they differ from `input`."
)


class Layer(Struct, frozen=True):
    """One folder between the suite and the repository root, with its configuration files, the winner last."""

    folder: Path
    configurations: list[Source]


class Project(Struct, frozen=True):
    root: Path
    repository: Path
    working: Path
    layers: list[Layer]
    """The outermost folder first."""
    config: dict[str, Any]
    config_sources: dict[str, Source]
    """The file that each configuration key comes from."""
    environment: Environment
    problems: list[Problem]

    @property
    def readable(self) -> bool:
        return all(problem.severity != "error" for problem in self.problems)

    def finder(self, folder: Path) -> Finder:
        """Finds the files that a file in a folder names."""
        return Finder(folder, self.root, self.working, self.repository)


def open_project(start: Path) -> Project:
    """The project that a suite's folder (or the working directory) belongs to."""
    working = Path.cwd().resolve()
    start = start.resolve()
    root = find_root(start, working)
    problems: list[Problem] = []
    layers = [_read_layer(folder, working, problems) for folder in reversed(folders_above(start, root))]
    config, sources = _merge([source for layer in layers for source in layer.configurations])
    dotenv = list(env_files(start, root, working))
    problems += _env_problems(dotenv, working)
    merged = merge_environment(dotenv)
    return Project(root, find_repository(start, root), working, layers, config, sources, merged, problems)


def configuration_files(folder: Path, name: str) -> list[Path]:
    """The files of one name in a folder, the winner last."""
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
    """One configuration: later files win key by key, even inside `vars`, `formatting` and similar mappings."""
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
    """A configuration file and its problems, except problems of its targets, which count only if a target is used."""
    source, problems = read_source(path, display_path(path, working))
    if source is None or source.document.data is None:
        return None, as_foreign(problems) if is_of_agentv(path) else problems
    data = source.document.data
    found = [source.violation(one) for one in find_violations(data, "config") if not is_in_target(one.path, data)]
    if is_of_agentv(path):
        found = list(problems_of_configuration(found))
    is_usable = isinstance(data, dict) and all(problem.severity != "error" for problem in found)
    return (source if is_usable else None), problems + found


def _env_problems(files: list[tuple[Path, EnvFile]], working: Path) -> Iterator[Problem]:
    for path, file in files:
        for fault in file.faults:
            place: dict[str, Any] = {} if fault.line is None else {"line": fault.line, "source": ""}
            name = display_path(path, working)
            yield Problem(code=fault.code, message=fault.message, file=name, severity="warning", **place)


def read_prices(config: Mapping[str, Any]) -> dict[str, Price]:
    """The `prices` of a project's configuration. Raises UsageError."""
    written = config.get("prices") or {}
    if not isinstance(written, Mapping):
        raise UsageError("`prices` in the configuration is not a mapping", _PRICE_HINT)
    return {str(name): _read_price(str(name), value) for name, value in written.items()}


def _read_price(name: str, value: Any) -> Price:
    try:
        own = {key: item for key, item in dict(value).items() if not str(key).startswith("x-")}
        price = msgspec.convert(own, Price)
    except (msgspec.ValidationError, TypeError, ValueError) as error:
        raise UsageError(f"`prices.{name}` in the configuration is not a price: {error}", _PRICE_HINT) from None
    if not all(math.isfinite(rate) for rate in msgspec.structs.astuple(price) if rate is not None):
        raise UsageError(f"`prices.{name}` in the configuration is not finite", _PRICE_HINT)
    return price
