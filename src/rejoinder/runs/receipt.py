"""The files that a run folder has before the first call: the receipt, and the suites that the run was made from."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import zip_longest
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct, field, structs

from rejoinder.errors import UsageError, decoding_reason, reason_of
from rejoinder.model import Case, Formatting, Suite, Target, Variant, file_in_project
from rejoinder.run_files import LONGEST_LINE, RunDamaged, lines_of, open_file, read_whole
from rejoinder.runs.folder import RunFolder
from rejoinder.runs.options import RunOptions, read_options
from rejoinder.runs.pictures import pictures_in
from rejoinder.runs.secrets import Mask
from rejoinder.suite.case_collector import CaseStore
from rejoinder.suite.configuration import open_project, read_prices
from rejoinder.suite.templates import find_secret_by_expression


def case_lines(suites: list[Suite]) -> Iterator[tuple[int, Any]]:
    """Every case of every suite, with the number of its suite."""
    for number, suite in enumerate(suites):
        if isinstance(suite.cases, CaseStore):  # they are encoded already
            for line in suite.cases.lines():
                yield number, msgspec.Raw(line.rstrip())
        else:
            for case in suite.cases:
                yield number, case


def now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


class StoredSuite(Struct, frozen=True, kw_only=True):
    """A suite as a run folder has it, but for its cases."""

    path: str
    root: str
    folder: str | None = None
    text: str = ""
    """For a suite that is not a file: the folder of its relative paths, and the YAML that it was read from."""
    name: str | None
    description: str | None
    formatting: Formatting
    targets: dict[str, Target]
    judge_target: str | None = None
    embedding_target: str | None = None
    budget_usd: float | None = None
    budget_tokens: int | None = None
    files: dict[str, str] = {}
    variants: tuple[Variant, ...] = ()
    secrets: list[str]
    """The expressions that name them."""


class Stored(Struct):
    """`suite.json`"""

    flat_options: dict[str, Any] = field(name="options")
    root: str
    """The project that the run was begun in."""
    suites: list[StoredSuite]

    def __post_init__(self) -> None:
        _ = self.options  # raises where they are not what rejoinder wrote

    @property
    def options(self) -> RunOptions:
        return read_options(self.flat_options)


def store_suites(suites: list[Suite], options: RunOptions, root: Path) -> Stored:
    return Stored(options.flat(), str(root), [_store(suite) for suite in suites])


def _store(suite: Suite) -> StoredSuite:
    fields: dict[str, Any] = {name: getattr(suite, name) for name in StoredSuite.__struct_fields__}
    fields["secrets"] = sorted(suite.secrets.values())
    fields["text"] = "" if suite.folder is None else suite.text
    return StoredSuite(**fields)


def mask_of(suites: list[Suite]) -> Mask:
    """Hides the secrets that suites name."""
    return Mask({value: name for suite in suites for value, name in suite.secrets.items()})


def is_as_stored(suites: list[Suite], folder: RunFolder, stored: Stored) -> bool:
    """Are suites the same as a run's copy of them, wherever they lie?"""
    apart = {"path", "root", "folder", "secrets"}
    names = [name for name in StoredSuite.__struct_fields__ if name not in apart]
    mask = mask_of(suites)

    def content(suite: StoredSuite) -> bytes:
        return mask.hide(msgspec.json.encode({name: getattr(suite, name) for name in names}, order="sorted"))

    if list(map(content, map(_store, suites))) != list(map(content, stored.suites)):
        return False
    encode = msgspec.json.Encoder().encode
    path = folder.path / "cases.jsonl"
    with open_file(path) as stream:
        pairs = zip_longest(case_lines(suites), lines_of(stream, path))
        return all(case is not None and mask.hide(encode(case) + b"\n") == line for case, line in pairs)


class StoredCases:
    """The cases of one suite in a run folder, read line by line on each iteration."""

    def __init__(self, path: Path, suite: int, mask: Mask) -> None:
        self._path = path
        self._suite = suite
        self._mask = mask

    def __iter__(self) -> Iterator[Case]:
        decode = msgspec.json.Decoder(tuple[int, Case]).decode
        with open_file(self._path) as stream:
            for position, line in enumerate(lines_of(stream, self._path), 1):
                try:
                    number, case = decode(self._mask.reveal(line))
                except (msgspec.MsgspecError, RecursionError, UnicodeError) as error:
                    raise RunDamaged(
                        self._path, f"line {position}: {decoding_reason(error)}", "Start a new run."
                    ) from None
                if number == self._suite:
                    yield case


def read_stored(folder: RunFolder) -> Stored:
    path = folder.path / "suite.json"
    try:
        return msgspec.json.decode(read_whole(path, LONGEST_LINE), type=Stored)
    except FileNotFoundError:
        hint = "Its process ended before anything was sent. Start the run again, and delete the folder."
        raise UsageError(f"run {folder.id} never started", hint) from None
    except (msgspec.MsgspecError, RecursionError, UnicodeError) as error:
        raise RunDamaged(path, decoding_reason(error), "Start a new run.") from None
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {reason_of(error)}") from None


def stored_suite(folder: RunFolder, number: int, stored: StoredSuite, home: Path) -> Suite:
    """The folder's copy of a suite, at home in the project `home`, its secrets put back from the environment."""
    moved = str(home) != stored.root
    path = str(home / file_in_project(stored.path, stored.root)) if moved else stored.path
    project = open_project(home)
    environment = project.environment if stored.secrets else {}
    secrets = {find_secret_by_expression(expression, environment): expression for expression in stored.secrets}
    mask = Mask(secrets)
    targets = msgspec.json.decode(mask.reveal(msgspec.json.encode(stored.targets)), type=dict[str, Target])
    variants = msgspec.json.decode(mask.reveal(msgspec.json.encode(stored.variants)), type=tuple[Variant, ...])
    fields: dict[str, Any] = structs.asdict(stored)
    fields |= {"path": path, "root": str(home), "targets": targets, "variants": variants, "secrets": secrets}
    fields["folder"] = None if stored.folder is None else str(Path(path).parent)
    cases = StoredCases(folder.path / "cases.jsonl", number, mask)
    return Suite(**fields, cases=cases, prices=read_prices(project.config), pictures=pictures_in(folder.path))
