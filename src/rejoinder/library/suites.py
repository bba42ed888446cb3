"""Suites for Python programs: loaded from files, texts and mappings, or written in Python."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, TypeAlias, cast, overload

from rejoinder.authoring.keys import SuiteKeys
from rejoinder.authoring.pieces import Value, encodable, mapping_of
from rejoinder.errors import SuiteError, UsageError
from rejoinder.model import Case as LoadedCase
from rejoinder.model import Suite as LoadedSuite
from rejoinder.model import Target
from rejoinder.project.folders import given_folder
from rejoinder.suite.context import LoadOptions
from rejoinder.suite.source import SuiteText, read_source
from rejoinder.suite.yaml import parse_yaml
from rejoinder.validation import findings
from rejoinder.validation.findings import Report
from rejoinder.validation.review import load_suites
from rejoinder.words.numbers import count, shortened
from rejoinder.yaml_text import to_document

NAMELESS = "suite"
_LAST = ("cases", "evals")
"""Keys that are written after all others."""


class Cases(Sequence[LoadedCase]):
    """The cases of a suite. Cases of large data sets are read from the disk, one at a time when iterated over. An index
    reads the cases before it, too."""

    def __init__(self, suite: LoadedSuite) -> None:
        self._suite = suite
        self._count: int | None = None

    def __iter__(self) -> Iterator[LoadedCase]:
        return iter(self._suite.cases)

    def __len__(self) -> int:
        if self._count is None:
            self._count = sum(1 for _ in self)
        return self._count

    @overload
    def __getitem__(self, index: int) -> LoadedCase: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[LoadedCase]: ...
    def __getitem__(self, index: int | slice) -> LoadedCase | Sequence[LoadedCase]:
        if isinstance(index, slice):
            return list(self)[index]
        place = index if index >= 0 else len(self) + index
        found = next(islice(self, place, None), None) if place >= 0 else None
        if found is None:
            raise IndexError(f"the suite has {count(len(self), 'case')}")
        return found

    def __repr__(self) -> str:
        ids = ", ".join(repr(case.id) for case in islice(self, 4))
        return f"<Cases: {count(len(self), 'case')}: {shortened(ids, 60)}>"


class Suite(SuiteKeys):
    """A suite: written in Python with the keys of YAML, or loaded by `load` and `loads`.

    A suite written in Python is loaded when it is run, or when its cases are looked at; mistakes raise SuiteError.
    """

    _data: dict[str, Any] | None = None
    _text: str | None = None
    _loaded: LoadedSuite | None = None

    @classmethod
    def of_mapping(cls, mapping: Mapping[str, Value], folder: str | Path = ".") -> Suite:
        """A suite from a mapping, as YAML would have it. Not loaded yet."""
        suite = cls(folder=given_folder(folder, "folder"))
        suite._data = mapping_of(mapping)
        return suite

    @classmethod
    def of_loaded(cls, loaded: LoadedSuite) -> Suite:
        """A suite that is loaded."""
        suite = cls(folder=Path(loaded.path).parent)
        suite._loaded, suite._text = loaded, loaded.text
        return suite

    def to_yaml(self) -> str:
        """The suite as YAML: the text it was loaded from, or its keys, written as a person would."""
        if self._text is None:
            data = self.origin_data
            first = {key: value for key, value in data.items() if key not in _LAST}
            self._text = to_document(first | {key: data[key] for key in _LAST if key in data})
        return self._text

    @property
    def origin_data(self) -> dict[str, Any]:
        """Its keys and values, as YAML data."""
        if self._data is None:
            self._data = mapping_of({key: value for key, value in self._keys.items() if value is not None})
        return self._data

    @property
    def is_loaded(self) -> bool:
        return self._loaded is not None

    @property
    def loaded(self) -> LoadedSuite:
        """The suite with everything resolved, as a run uses it. Raises SuiteError with every mistake."""
        if self._loaded is None:
            [self._loaded], _ = load_suites([self.origin], LoadOptions())
        return self._loaded

    @property
    def origin(self) -> SuiteText:
        """The text that it is loaded from."""
        return SuiteText(self.to_yaml(), self.folder / _file_name(self.origin_data), has_lines=False)

    @property
    def name(self) -> str | None:
        """Its name, if it has one."""
        if self._loaded is not None:
            return self._loaded.name
        return _name_of(self.origin_data)

    @property
    def folder(self) -> Path:
        """The folder in which its relative paths are looked up."""
        return self._given_folder.absolute()

    @property
    def path(self) -> Path | None:
        """Its file; None for a suite that is not a file."""
        if self._loaded is None or self._loaded.folder is not None:
            return None
        return Path(self._loaded.path)

    @property
    def cases(self) -> Cases:
        """Its cases with everything filled in, each once per variant and row, with `id`, `variant`, `tags`, `line`."""
        return Cases(self.loaded)

    @property
    def targets(self) -> Mapping[str, Target]:
        """Its own targets and the targets of its project, by name."""
        return self.loaded.targets

    def __eq__(self, other: object) -> bool:
        """Whether two suites say the same: their YAML has the same data, and the same folder."""
        if not isinstance(other, Suite):
            return NotImplemented
        return self.folder == other.folder and self._read() == other._read()

    __hash__ = None  # type: ignore[assignment] - compared by value

    def _read(self) -> Any:
        return parse_yaml(self.to_yaml()).data

    def __repr__(self) -> str:
        name = self.name or (self.path.name if self.path is not None else NAMELESS)
        how_many = f": {count(len(Cases(self._loaded)), 'case')}" if self._loaded is not None else ""
        return f"<Suite {name!r}{how_many}>"


def _name_of(data: Mapping[str, Any]) -> str | None:
    metadata = data.get("metadata")
    names = (metadata.get("name") if isinstance(metadata, Mapping) else None, data.get("name"))
    return next((name for name in names if isinstance(name, str) and name.strip()), None)


def _file_name(data: Any) -> str:
    """A name for a suite that is not a file, to tell it from others in a run."""
    name = _name_of(data) if isinstance(data, Mapping) else None
    return re.sub(r"[^\w.-]+", "-", name or "").strip("-.")[:80] or NAMELESS


OneSuite: TypeAlias = Suite | str | Path | Mapping[str, Value]
Suites: TypeAlias = OneSuite | Sequence[OneSuite]
"""Paths of suites, mappings as YAML would have them, or suites."""


def each_of(given: Suites) -> list[OneSuite]:
    """The suites of a list, or the only one."""
    if isinstance(given, Suite | str | Path | Mapping | bytes | bytearray) or not isinstance(given, Iterable | None):
        return [given]
    return list(given or ())


def path_of(given: object) -> Path:
    """The path of a suite that is neither a mapping nor a `Suite`. Raises UsageError for anything else."""
    if not isinstance(given, str | Path):
        raise UsageError(f"a suite is a path, a mapping or a Suite, and not a {type(given).__name__}")
    return Path(given)


@overload
def load(  # pyright: ignore[reportOverlappingOverload] - a text is a path, and no list of paths
    suite: OneSuite,
    *,
    folder: str | Path = ".",
    target: str | None = None,
    targets_file: str | Path | None = None,
    system_prompt: str | None = None,
) -> Suite: ...
@overload
def load(
    suite: Sequence[OneSuite],
    *,
    folder: str | Path = ".",
    target: str | None = None,
    targets_file: str | Path | None = None,
    system_prompt: str | None = None,
) -> list[Suite]: ...
def load(
    suite: Suites,
    *,
    folder: str | Path = ".",
    target: str | None = None,
    targets_file: str | Path | None = None,
    system_prompt: str | None = None,
) -> Suite | list[Suite]:
    """Load a suite from a file, or from a mapping whose relative paths are in `folder`; a list of them is loaded as a
    list. A `Suite` is returned unchanged, but loaded, if there are no options. `target` and `system_prompt` replace the
    suite's own. Raises SuiteError with every mistake."""
    options = _load_options(target, targets_file, system_prompt)
    several = each_of(suite)
    origins = [_origin_of(one, folder) for one in several if not _stays(one, options)]
    loaded = map(Suite.of_loaded, load_suites(origins, options)[0])
    found = [one if isinstance(one, Suite) and _stays(one, options) else next(loaded) for one in several]
    return found[0] if isinstance(suite, Suite | str | Path | Mapping) else found


def _stays(given: object, options: LoadOptions) -> bool:
    return isinstance(given, Suite) and given.is_loaded and options == LoadOptions()


def _origin_of(given: OneSuite, folder: str | Path) -> Path | SuiteText:
    if isinstance(given, Suite):
        return given.path or given.origin
    if isinstance(given, Mapping):
        return Suite.of_mapping(given, folder).origin
    return path_of(given)


def loads(
    text: str,
    folder: str | Path = ".",
    *,
    target: str | None = None,
    targets_file: str | Path | None = None,
    system_prompt: str | None = None,
) -> Suite:
    """Load a suite from YAML text, whose relative paths are in `folder`. Raises SuiteError with every mistake in it."""
    if not isinstance(cast("object", text), str):
        raise UsageError(f"a suite is loaded from a text, and not from a {type(text).__name__}")
    base = given_folder(folder, "folder")
    source, problems = read_source(SuiteText(encodable(text), Path(NAMELESS)), NAMELESS)
    if source is None:
        raise SuiteError(problems)
    origin = SuiteText(text, base / _file_name(source.document.data))
    [loaded], _ = load_suites([origin], _load_options(target, targets_file, system_prompt))
    return Suite.of_loaded(loaded)


def validate(*suites: Suites, targets_file: str | Path | None = None, strict: bool = False) -> Report:
    """Check suites, files and all suites of folders; nothing is sent. Without any: the suite of the working directory.
    Keys, secrets and environment variables that are missing are warnings; with `strict` they are errors."""
    several = [one for given in suites for one in each_of(given)]
    return findings.validate(*(_origin_of(one, ".") for one in several), targets_file=targets_file, strict=strict)


def _load_options(target: str | None, targets_file: str | Path | None, system_prompt: str | None) -> LoadOptions:
    file = None if targets_file is None else Path(targets_file)
    return LoadOptions(targets=() if target is None else (target,), targets_file=file, system_prompt=system_prompt)
