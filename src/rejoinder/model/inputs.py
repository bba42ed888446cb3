"""The inputs of a run, as its receipt has them, and the differences between two runs, in words."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Literal, TypeAlias

from msgspec import Meta, Struct

ChangeKind: TypeAlias = Literal["prompt", "cases", "model", "checks", "targets", "code"]
_Digest: TypeAlias = Annotated[str, Meta(pattern=r"^[0-9a-f]{16,64}\Z")]
Commit: TypeAlias = Annotated[str, Meta(pattern=r"^[0-9a-f]{40,64}\Z")]
MOST_MODELS = 20
LONGEST_NAME = 200
_SHORT = 8


class GitState(Struct, frozen=True):
    """The commit that was checked out."""

    commit: Commit
    dirty: bool | None
    """Whether tracked files differed from it; None if only running code would show that."""


class Digests(Struct, frozen=True, kw_only=True):
    """Digests of what a run's suites hold. Order, and places in a file, make no difference."""

    prompts: _Digest
    """System prompts, and files that hold texts."""
    cases: _Digest
    """Cases, and the rows of data sets that became cases."""
    checks: _Digest
    targets: _Digest
    """Settings of targets that a reply depends on."""


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
    return (*_digest_changes(before.digests, now.digests), *_model_changes(before, now), *_code_changes(before, now))


def _digest_changes(before: Digests | None, now: Digests | None) -> Iterator[Change]:
    if before is None or now is None:
        return
    for name, change in _DIGESTS.items():
        if getattr(before, name) != getattr(now, name):
            yield change


def _model_changes(before: Inputs, now: Inputs) -> Iterator[Change]:
    for name, model in before.models.items():
        if now.models.get(name, model) != model:
            yield Change("model", f"model of {name}: {model} and {now.models[name]}")


def _code_changes(before: Inputs, now: Inputs) -> Iterator[Change]:
    if before.git is None or now.git is None:
        return
    if before.git != now.git:
        yield Change("code", f"code: {_code_words(before.git)} and {_code_words(now.git)}")
    elif now.git.dirty:
        yield Change("code", f"code, perhaps: both had uncommitted changes on {now.git.commit[:_SHORT]}")


def _code_words(state: GitState) -> str:
    return f"{state.commit[:_SHORT]}{' with uncommitted changes' if state.dirty else ''}"
