"""The target that a program gives to a function of the library, in place of those that its suites name."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from typing import Any, Protocol, TypeAlias, TypeVar

from msgspec import structs

from rejoinder.errors import UsageError
from rejoinder.library.given import load_given
from rejoinder.library.suites import Suites
from rejoinder.model import Suite
from rejoinder.model.given import Supplied
from rejoinder.runs.options import RunOptions
from rejoinder.runs.recorded import RecordedRun
from rejoinder.suite.given_target import NameTaken
from rejoinder.user_code.given import supply
from rejoinder.validation.roles import NoTarget


class Replies(Protocol):
    """An object that replies. It may also have `open` and `close`, which are called once per run."""

    @property
    def reply(self) -> Callable[..., Any]: ...


OwnTarget: TypeAlias = Mapping[str, Any] | Callable[..., Any] | Replies
"""A target from Python: an entry as in a suite, a function, or an object with `reply`."""
AnyTarget: TypeAlias = str | OwnTarget
"""The name of a target, or a target from Python."""
T = TypeVar("T")


@contextmanager
def naming_the_argument() -> Generator[None]:
    """Name the argument, and not the option, where a suite names no target."""
    try:
        yield
    except NoTarget as error:
        error.hint = "Give `target=`: a name, `openai/gpt-5-mini` or your own bot. Or name a target in the suite."
        raise


def load_for(
    target: AnyTarget | None, suite: Suites, options: RunOptions, *, asks: bool = True
) -> tuple[list[Suite], RunOptions]:
    """The suites and the options of a run of this target."""
    if target is None:
        return load_given(suite, options, asks=asks)
    before = options.selection.given
    if options.selection.targets and before is None:
        raise UsageError("there are two targets", "Give `target`, or `targets` of the selection.")
    if isinstance(target, str):
        return load_given(suite, options.changed(targets=(target,)), asks=asks)
    supplied = supply(target) if before is None else supply(target).named(before.name)
    return _with_free_name(supplied, lambda one: _load_supplied(suite, options, one, asks))


def _load_supplied(
    suite: Suites, options: RunOptions, supplied: Supplied, asks: bool
) -> tuple[list[Suite], RunOptions]:
    given = supplied.target
    suites, options = load_given(suite, options.changed(targets=(given.name,), given=given), asks=asks)
    return [structs.replace(one, callables=supplied.callables) for one in suites], options


def fork_with(target: AnyTarget | None, recorded: RecordedRun, options: RunOptions) -> tuple[RecordedRun, RunOptions]:
    """The run to fork, and the options with the target that continues its conversation."""
    if target is None:
        return recorded, options
    if isinstance(target, str):
        return recorded, options.changed(targets=(target,))
    supplied = supply(target)
    if recorded.stored.options.selection.given is not None:
        return recorded.with_target(supplied), options

    def add(supplied: Supplied) -> tuple[RecordedRun, RunOptions]:
        changed = RecordedRun(recorded.folder, recorded.root, trust=recorded.is_trusted, supplied=supplied)
        _ = changed.suites()
        return changed, options.changed(targets=(supplied.target.name,), given=supplied.target)

    return _with_free_name(supplied, add)


def _with_free_name(supplied: Supplied, use: Callable[[Supplied], T]) -> T:
    """Use a given target under its name or, if a suite has a target with this name, under another one."""
    name = supplied.target.name
    for number in range(2, 100):
        try:
            return use(supplied)
        except NameTaken:
            supplied = supplied.named(f"{name}-{number}")
    return use(supplied)
