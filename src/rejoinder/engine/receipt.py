"""What is written down about a run beside its journal: the receipt, and the suites it was made from."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from rejoinder._version import __version__
from rejoinder.engine.folder import RUN_FORMAT, RunFolder
from rejoinder.engine.masking import Mask
from rejoinder.engine.plan import RunOptions, Survey
from rejoinder.engine.results import Record
from rejoinder.errors import RejoinderError, UsageError
from rejoinder.model import Case, Formatting, Suite, Target
from rejoinder.suite.prices import read_prices
from rejoinder.suite.project import open_project
from rejoinder.suite.templates import find_secret_by_expression
from rejoinder.suite.walk import LaidAside


def write_receipt(
    folder: RunFolder,
    suites: list[Suite],
    options: RunOptions,
    survey: Survey,
    model_of: Callable[[Target], str | None],
) -> Record:
    targets = {target.name: target for _, target in survey.targets}
    return {
        "id": folder.id,
        "status": "running",
        "started_at": now(),
        "finished_at": None,
        "version": __version__,
        "format": RUN_FORMAT,
        "folder": str(folder.path),
        "suites": [{"path": suite.path, "name": suite.name} for suite in suites],
        "targets": [
            {"name": target.name, "provider": target.provider, "model": model_of(target)} for target in targets.values()
        ],
        "options": msgspec.to_builtins(options),
        "planned": survey.planned,
        "judges_itself": survey.judges_itself,
        "in_doubt": 0,
        "duration_s": 0.0,
        "python": sys.version.split()[0],
    }


def suite_record(suites: list[Suite], options: RunOptions) -> Record:
    return {
        "options": options,
        "suites": [
            {
                "path": suite.path,
                "root": suite.root,
                "name": suite.name,
                "description": suite.description,
                "formatting": suite.formatting,
                "targets": suite.targets,
                "judge_target": suite.judge_target,
                "embedding_target": suite.embedding_target,
                "budget_usd": suite.budget_usd,
                "budget_tokens": suite.budget_tokens,
                "secrets": sorted(suite.secrets.values()),
            }
            for suite in suites
        ],
    }


def case_lines(suites: list[Suite]) -> Iterator[tuple[int, Any]]:
    """Every case of every suite, with the number of its suite."""
    for number, suite in enumerate(suites):
        if isinstance(suite.cases, LaidAside):  # they are encoded already
            for line in suite.cases.lines():
                yield number, msgspec.Raw(line.rstrip())
        else:
            for case in suite.cases:
                yield number, case


def now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


class _StoredSuite(Struct):
    secrets: list[str]
    path: str
    root: str
    name: str | None
    description: str | None
    formatting: Formatting
    targets: dict[str, Target]
    judge_target: str | None = None
    embedding_target: str | None = None
    budget_usd: float | None = None
    budget_tokens: int | None = None


class _Stored(Struct):
    options: RunOptions
    suites: list[_StoredSuite]


class StoredCases:
    """The cases of one suite in a run folder, read line by line on each walk."""

    def __init__(self, path: Path, suite: int, mask: Mask) -> None:
        self._path = path
        self._suite = suite
        self._mask = mask

    def __iter__(self) -> Iterator[Case]:
        decode = msgspec.json.Decoder(tuple[int, Case]).decode
        with self._path.open("rb") as stream:
            for line in stream:
                number, case = decode(self._mask.reveal(line))
                if number == self._suite:
                    yield case


def read_options(folder: RunFolder) -> RunOptions:
    return _read_stored(folder).options


def suite_paths(folder: RunFolder) -> list[Path]:
    return [Path(stored.path) for stored in _read_stored(folder).suites]


def read_stored_suite(folder: RunFolder, number: int) -> Suite:
    """A suite as it was when the run began, its secrets put back from the environment."""
    stored = _read_stored(folder).suites[number]
    project = open_project(Path(stored.root))
    environment = project.environment if stored.secrets else {}
    secrets = {find_secret_by_expression(expression, environment): expression for expression in stored.secrets}
    mask = Mask(secrets)
    targets = msgspec.json.decode(mask.reveal(msgspec.json.encode(stored.targets)), type=dict[str, Target])
    return Suite(
        path=stored.path,
        root=stored.root,
        cases=StoredCases(folder.path / "cases.jsonl", number, mask),
        name=stored.name,
        description=stored.description,
        formatting=stored.formatting,
        targets=targets,
        prices=read_prices(project.config),
        judge_target=stored.judge_target,
        embedding_target=stored.embedding_target,
        budget_usd=stored.budget_usd,
        budget_tokens=stored.budget_tokens,
        secrets=secrets,
    )


def stored_suites(folder: RunFolder) -> list[Suite]:
    """The suites of a run as they were when it began."""
    return [read_stored_suite(folder, number) for number, _ in enumerate(suite_paths(folder))]


def _read_stored(folder: RunFolder) -> _Stored:
    try:
        return msgspec.json.decode((folder.path / "suite.json").read_bytes(), type=_Stored)
    except FileNotFoundError:
        hint = "Its process ended before anything was sent. Start the run again, and delete the folder."
        raise UsageError(f"run {folder.id} never began", hint) from None
    except msgspec.MsgspecError as error:
        raise RejoinderError(f"{folder.path / 'suite.json'} is damaged: {error}") from None
