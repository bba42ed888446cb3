"""The inputs of a run, as its receipt has them, and the differences between two runs, in words."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Literal, TypeAlias

from msgspec import Meta, Struct

ChangeKind: TypeAlias = Literal["prompt", "cases", "model", "checks", "targets", "code"]
_Digest: TypeAlias = Annotated[str, Meta(pattern=r"^[0-9a-f]{16,64}\Z")]
Commit: TypeAlias = Annotated[str, Meta(pattern=r"^[0-9a-f]{40,64}\Z")]
MOST_MODELS = 20
MOST_SOURCES = 20
LONGEST_NAME = 200
_SHORT = 8


class GitState(Struct, frozen=True):
    """The commit that was checked out."""

    commit: Commit
    dirty: bool | None
    """Whether tracked files differed from it; None if only running code would show that."""


class Digests(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Digests of what a run's suites hold. Order, and places in a file, make no difference."""

    prompts: _Digest
    """System prompts, and files that hold texts."""
    cases: _Digest
    """Cases, and the rows of data sets that became cases."""
    checks: _Digest
    targets: _Digest
    """Settings of targets that a reply depends on."""
    code: Annotated[dict[Annotated[str, Meta(max_length=LONGEST_NAME)], _Digest], Meta(max_length=MOST_SOURCES)] = {}
    """The project's code that the suites name, by its file, and a Python object that was the target, by its name.
    Earlier versions did not write it."""


class Inputs(Struct, frozen=True, omit_defaults=True):
    """Everything that a run was made from."""

    git: GitState | None = None
    digests: Digests | None = None
    models: dict[str, str | None] = {}
    """The model of each target."""


class Change(Struct, frozen=True):
    kind: ChangeKind
    words: str


_DIGESTS: dict[str, Change] = {
    "prompts": Change("prompt", "prompt"),
    "cases": Change("cases", "cases"),
    "checks": Change("checks", "checks"),
    "targets": Change("targets", "settings of targets"),
}
"""By the field of the digests."""


def changes_of(before: Inputs, now: Inputs) -> tuple[Change, ...]:
    """The differences between the inputs of two runs. An input that one of them lacks is passed over."""
    code = tuple(_source_changes(before.digests, now.digests))
    commits = _commit_changes(before.git, now.git, is_found=bool(code))
    return (*_digest_changes(before.digests, now.digests), *_model_changes(before, now), *code, *commits)


def _digest_changes(before: Digests | None, now: Digests | None) -> Iterator[Change]:
    if before is None or now is None:
        return
    for name, change in _DIGESTS.items():
        if getattr(before, name) != getattr(now, name):
            yield change


def _source_changes(before: Digests | None, now: Digests | None) -> Iterator[Change]:
    if before is None or now is None:
        return
    for name, digest in before.code.items():
        if now.code.get(name, digest) != digest:
            yield Change("code", f"code of {name}")


def _model_changes(before: Inputs, now: Inputs) -> Iterator[Change]:
    for name, model in before.models.items():
        if now.models.get(name, model) != model:
            yield Change("model", f"model of {name}: {model} and {now.models[name]}")


def _commit_changes(before: GitState | None, now: GitState | None, *, is_found: bool) -> Iterator[Change]:
    """`is_found`: differences of the code are named already."""
    if before is None or now is None:
        return
    if before != now:
        yield Change("code", f"code: {_code_words(before)} and {_code_words(now)}")
    elif now.dirty and not is_found:
        yield Change("code", f"code, perhaps: both had uncommitted changes on {now.commit[:_SHORT]}")


def _code_words(state: GitState) -> str:
    return f"{state.commit[:_SHORT]}{' with uncommitted changes' if state.dirty else ''}"
