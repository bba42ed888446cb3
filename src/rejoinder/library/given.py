"""The suites that a program gives to a function of the library: paths, mappings, suites, or a list of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

from rejoinder.errors import UsageError
from rejoinder.library.suites import OneSuite, Suite, Suites, each_of, path_of
from rejoinder.model import Suite as LoadedSuite
from rejoinder.runs.loading import load_options
from rejoinder.runs.options import RunOptions
from rejoinder.suite.discover import find_files
from rejoinder.suite.given_target import with_given
from rejoinder.suite.source import SuiteText
from rejoinder.validation.review import load_suites


def load_given(given: Suites, options: RunOptions, *, asks: bool = True) -> tuple[list[LoadedSuite], RunOptions]:
    """The suites in the given order, and the options with their loading options. Mistakes of all suites are raised
    together."""
    several = each_of(given)
    if not several:
        raise UsageError("there is no suite to run", "Give a path, a mapping, a Suite, or a list of them.")
    for one in several:
        if isinstance(one, Suite) and one.is_loaded:
            options = _as_loaded(one.loaded, options)
    places = [_places_of(one) for one in several]
    origins = [one for place in places for one in place if not isinstance(one, LoadedSuite)]
    loaded = iter(load_suites(origins, load_options(options, asks=asks))[0])
    added = options.selection.given

    def ready(one: LoadedSuite | Path | SuiteText) -> LoadedSuite:
        if not isinstance(one, LoadedSuite):
            return next(loaded)
        return one if added is None else with_given(one, added)

    suites = [ready(one) for place in places for one in place]
    _refuse_same_names(suites)
    return suites, options


def _places_of(given: OneSuite) -> Sequence[LoadedSuite | Path | SuiteText]:
    if isinstance(given, Suite):
        return [given.loaded if given.is_loaded else given.origin]
    if isinstance(given, Mapping):
        return [Suite.of_mapping(given).origin]
    return find_files([path_of(given)])[0]


def _refuse_same_names(suites: Sequence[LoadedSuite]) -> None:
    """Suites that are not files are told apart by their names."""
    names = Counter(suite.path for suite in suites)
    for suite in suites:
        if suite.folder is not None and names[suite.path] > 1:
            name = Path(suite.path).name
            raise UsageError(f"two suites of this run are named `{name}`", "Give each suite a `name` of its own.")


def _as_loaded(suite: LoadedSuite, options: RunOptions) -> RunOptions:
    """Options with those that were given when a suite was loaded. The run records them: `resume` loads the
    suite again."""
    selection, given = options.selection, suite.loaded_with
    for name in ("targets_file", "system_prompt"):
        if getattr(selection, name) not in (None, getattr(given, name)):
            raise UsageError(
                f"{suite.path} is loaded already, without this {name}", f"Give `{name}` to rejoinder.load instead."
            )
    targets = selection.targets or given.targets
    return options.changed(targets=targets, targets_file=given.targets_file, system_prompt=given.system_prompt)
