"""Tests of AgentV: in the eval, in files of YAML, JSONL and CSV, in folders, and multiplied by scenarios."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from msgspec import Struct

from rejoinder.imports.agentv.graders import Graders
from rejoinder.imports.promptfoo.tests import read_row, read_rows
from rejoinder.imports.promptfoo.words import Lost
from rejoinder.imports.sources import Spot
from rejoinder.imports.workbench import Workbench
from rejoinder.yaml_text import Comment

MOST_CASES = 20_000
"""Maximum number of cases of a suite."""
_MOST_FILES = 2000
"""Maximum number of files of tests that are read, each time that one is named."""
_DEEPEST = 5
"""Most files of tests that name each other."""


class Test(Struct, frozen=True):
    """One test: a case, or one for each prompt."""

    spot: Spot
    vars: dict[str, Any]
    asserts: tuple[Spot, ...] = ()
    """Those that a scenario or a data set adds to its own."""
    first: bool = True
    """Whether it is the first that is made of its mapping."""
    name: str = ""
    """The id that its place gives it."""


class Tests:
    """The tests of one eval."""

    def __init__(self, root: Spot, graders: Graders, bench: Workbench) -> None:
        self._root = root
        self._graders = graders
        self._bench = bench
        self._number = 0
        self._files = 0

    def read(self) -> Iterator[Test | Comment]:
        """The tests in order, with comments in place of what has no form here. Raises ImportFault."""
        keys = ("tests", "eval_cases", "evalcases")
        tests = next((self._root[key] for key in keys if self._root[key].value is not None), None)
        for item in tests.items if tests is not None else ():
            yield from self._counted(self._of_item(item, ()))
        for item in self._root["scenarios"].items:
            yield from self._counted(self._scenarios(item))

    def _counted(self, found: Iterator[Test | Comment]) -> Iterator[Test | Comment]:
        for one in found:
            self._number += isinstance(one, Test)
            if self._number > MOST_CASES:
                raise self._root.fault(f"it has more than {MOST_CASES:,} tests")
            yield one

    def _of_item(self, item: Spot, chain: tuple[Path, ...]) -> Iterator[Test | Comment]:
        try:
            if isinstance(item.value, str):
                yield from item.above()
                yield from self._of_path(item, item.value, chain)
            elif not isinstance(item.value, dict):
                raise Lost("a test", "it is neither a mapping nor a path")
            elif "include" in item:
                yield from item.above()
                yield from self._of_include(item, chain)
            else:
                yield _test(item)
        except Lost as lost:
            yield self._bench.ledger.leave_out(item, lost.what, lost.how)

    def _of_include(self, item: Spot, chain: tuple[Path, ...]) -> Iterator[Test | Comment]:
        written = item["include"].value
        for key in ("select", "run"):
            if key in item:
                yield self._bench.ledger.leave_out(item[key], f"`{key}` of an include", "all of its tests are taken")
        if not isinstance(written, str) or item["type"].value == "suite":
            raise Lost("include", "a suite is run beside this one: import it, too, and name both files")
        yield from self._of_path(item["include"], written, chain)

    def _of_path(self, item: Spot, written: str, chain: tuple[Path, ...]) -> Iterator[Test | Comment]:
        shown = written.removeprefix("file://")
        if "://" in shown or not shown.strip():
            raise Lost(written[:60], "tests of other services are not fetched")
        paths = _paths(item, shown)
        if len(chain) >= _DEEPEST or set(paths) & set(chain):
            raise Lost(written[:60], "files of tests name each other too deeply")
        self._bench.ledger.map(item)
        self._files += len(paths)
        if self._files > _MOST_FILES:
            raise self._root.fault(f"it names more than {_MOST_FILES:,} files of tests")
        for path in paths:
            yield from self._of_folder(item, path) if path.is_dir() else self._of_file(item, path, (*chain, path))

    def _of_folder(self, item: Spot, folder: Path) -> Iterator[Test | Comment]:
        """A test for each folder in it, from its `case.yaml`."""
        found = False
        for inner in sorted(path for path in folder.iterdir() if path.is_dir() and not path.is_symlink()):
            path = next((one for name in ("case.yaml", "case.yml") if (one := inner / name).is_file()), None)
            if path is None or path.is_symlink():
                continue
            found = True
            spot = item.file.folder.read(path).spot
            if isinstance(spot.value, dict):
                yield _test(spot, name=inner.name)
            if (inner / "workspace").is_dir():
                how = "name it as `workspace_template` of an agent's target"
                yield self._bench.ledger.leave_out(spot, f"the workspace of {inner.name}", how)
        if not found:
            raise Lost(folder.name, "none of its folders has a case.yaml")

    def _of_file(self, item: Spot, path: Path, chain: tuple[Path, ...]) -> Iterator[Test | Comment]:
        suffix = path.suffix.lower()
        if suffix in (".jsonl", ".ndjson", ".csv"):
            for row in read_rows(item, path):
                yield _of_row(row) if suffix == ".csv" else _test(row)
            return
        if suffix not in (".yaml", ".yml", ".json"):
            raise Lost(path.name, "only CSV, JSON, JSONL and YAML are read")
        spot = item.file.folder.read(path).spot
        for one in _under(spot, "tests").items:
            yield from self._of_item(one, chain)

    def _scenarios(self, item: Spot) -> Iterator[Test | Comment]:
        try:
            yield from item.above()
            if isinstance(item.value, str):
                shown = item.value.removeprefix("file://")
                spots = [item.file.folder.read(path).spot for path in _paths(item, shown) if path.is_file()]
                scenarios = [one for spot in spots for one in _under(spot, "scenarios").items]
            else:
                scenarios = [item]
            for scenario in scenarios:
                yield from _of_scenario(scenario)
            self._bench.ledger.map(item)
        except Lost as lost:
            yield self._bench.ledger.leave_out(item, lost.what, lost.how)


def _paths(item: Spot, written: str) -> list[Path]:
    """The files of a path or a pattern. Raises Lost if there are none."""
    paths = item.matching(written) if any(sign in written for sign in "*?[") else [item.locate(written)]
    if not paths or not all(path.exists() for path in paths):
        raise Lost(written[:60], "there is no such file")
    return paths


def _under(spot: Spot, key: str) -> Spot:
    """The list of a file: under a key, or the file itself."""
    return spot[key] if key in spot else spot  # noqa: SIM401 - a spot is no mapping


def _of_scenario(scenario: Spot) -> Iterator[Test]:
    """Every test of a scenario with each of its configurations."""
    rows, tests = list(scenario["config"].items), list(scenario["tests"].items)
    if not rows or not tests or not all(isinstance(one.value, dict) for one in (*rows, *tests)):
        raise Lost("a scenario", "it has no `config` and `tests` with mappings")
    for number, row in enumerate(rows):
        for one in tests:
            test = _test(one)
            variables = {**_mapping(row["vars"].value), **test.vars}
            own = one["id"].value
            name = f"{own}-{number + 1}" if isinstance(own, str) and len(rows) > 1 else ""
            yield Test(one, variables, tuple(row["assert"].items), first=not number, name=name)


def _test(spot: Spot, name: str = "") -> Test:
    return Test(spot, _mapping(spot["vars"].value), name=name)


def _of_row(row: Spot) -> Test:
    """A test from a row of a CSV file: columns with two underscores are not variables."""
    read = read_row(row)
    spot = read.spot
    if isinstance(row.value.get("id"), str) and re.fullmatch(r"[\w.-]+", row.value["id"]):
        spot = spot.of({**spot.value, "id": row.value["id"]})
    return Test(spot, {name.removeprefix("vars."): cell for name, cell in read.vars.items()}, read.asserts)


def _mapping(value: Any) -> dict[str, Any]:
    return {str(key): one for key, one in value.items()} if isinstance(value, dict) else {}
