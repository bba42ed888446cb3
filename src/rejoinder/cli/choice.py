"""Which targets a run is put to: names, `provider/model`, lists of them, and patterns."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from fnmatch import fnmatchcase
from pathlib import Path

import click

from rejoinder.cli.loading import load_or_exit
from rejoinder.cli.models import read_quartiles
from rejoinder.cli.output import echo, words
from rejoinder.errors import UsageError
from rejoinder.model import Suite
from rejoinder.runs.options import RunOptions
from rejoinder.validation.roles import answering_targets

MOST_UNASKED = 5
"""So many models are asked without further questions."""


def choose_targets(
    models: Iterable[str],
    paths: tuple[Path, ...],
    options: RunOptions,
    *,
    providers: Iterable[str],
    prices: Iterable[str],
    yes: bool,
) -> tuple[str, ...]:
    """The targets that patterns stand for: a target's name first, then models whose provider has a key."""
    wanted = words(models)
    filters = words(providers), read_quartiles(prices)
    if any(filters) and not any(_is_pattern(word) for word in wanted):
        hint = "Write for example: -m 'openai/*' --price 1"
        raise UsageError("--provider and --price choose among the models of a pattern", hint)
    if not wanted:
        raise UsageError("-m names no model", "Is the variable that it is taken from empty?")
    chosen: dict[str, None] = {}
    suites: list[Suite] = []
    for word in wanted:
        if not _is_pattern(word):
            chosen[word] = None
            continue
        # What the suites say of their own targets is no matter here; the run itself loads them again, and warns.
        suites = suites or load_or_exit(paths, options.changed(targets=(word,)), warn=False)
        known = [name for suite in suites for name in suite.targets]
        if word == "all":
            by_name = [] if any(filters) else _own_targets(suites)
        else:
            by_name = [name for name in known if fnmatchcase(name.lower(), word.lower())]
        chosen |= dict.fromkeys(by_name or _models(word, *filters, suites[0]))
    if len(chosen) > MOST_UNASKED and not yes:
        _ask_consent(list(chosen))
    return tuple(chosen)


def _own_targets(suites: list[Suite]) -> list[str]:
    """The targets that suites define themselves, else those of their project, without those that only judge."""
    own: list[str] = []
    for suite in suites:
        names, path = answering_targets(suite), Path(suite.path)
        here = [name for name in names if (file := suite.targets[name].file) and Path(file).resolve() == path]
        own += here or names
    return own


def _is_pattern(word: str) -> bool:
    return word == "all" or "*" in word


def _models(pattern: str, providers: list[str], quartiles: list[int], suite: Suite) -> list[str]:
    from rejoinder.prices.model_list import match_models
    from rejoinder.providers.vendors import can_be_asked
    from rejoinder.suite.configuration import open_project

    found = match_models([pattern], providers=providers, quartiles=quartiles, overrides=suite.prices)
    if not found:
        raise UsageError(f"no model that `{pattern}` matches has such a provider or price")
    environment = open_project(Path(suite.path).parent).environment
    usable = {provider: can_be_asked(provider, environment) for provider in {one.partition("/")[0] for one in found}}
    chosen = [one for one in found if usable[one.partition("/")[0]]]
    if not chosen:
        hint = f"`rejoinder targets check {found[0]}` says what is missing."
        raise UsageError(f"`{pattern}` matches {len(found)} models, and no key is set for any of them", hint)
    return chosen


def _ask_consent(chosen: list[str]) -> None:
    listed = ", ".join(chosen[:10]) + (f" and {len(chosen) - 10} more" if len(chosen) > 10 else "")
    if not sys.stdin.isatty():
        raise UsageError(f"{len(chosen)} models would be asked: {listed}", "Add --yes if that is what you want.")
    echo(f"{len(chosen)} models: {listed}", err=True)
    if not click.confirm("Ask them all?", err=True):
        raise UsageError("nothing was sent")
