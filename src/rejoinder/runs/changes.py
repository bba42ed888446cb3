"""What differs between two runs apart from their replies: versions, models, settings, prompts and options, in words."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import zip_longest
from pathlib import PurePath

from rejoinder.model import Receipt, Target
from rejoinder.model.inputs import changes_of
from rejoinder.runs.folder import RunFolder
from rejoinder.runs.receipt import StoredCases, StoredSuite, read_stored
from rejoinder.runs.secrets import Mask

_UNTOLD = frozenset({"workers", "cases", "tags", "budget_usd", "budget_tokens", "runs", "record", "cache"})
"""Options that change what is run or how fast, and no reply. Cases that only one run has are named anyway."""
_PROMPT = "system prompt"
_LONGEST = 30
"""Characters of a value that is shown; of longer ones only the name is."""


def changes_between(a: tuple[Receipt, RunFolder], b: tuple[Receipt, RunFolder]) -> Iterator[str]:
    """Changes in detail; for cases, checks and code without details."""
    detailed = list(_in_detail(a, b))
    yield from detailed
    untold = {"model", "targets", *(["prompt"] if any(_PROMPT in one for one in detailed) else [])}
    yield from (one.words for one in changes_of(a[0].inputs, b[0].inputs) if one.kind not in untold)


def _in_detail(a: tuple[Receipt, RunFolder], b: tuple[Receipt, RunFolder]) -> Iterator[str]:
    yield from _in_receipts(a[0], b[0])
    if a[1].path == b[1].path:
        return
    ours, theirs = ({_place(suite): (number, suite) for number, suite in _suites(run[1])} for run in (a, b))
    for place, (number, suite) in ours.items():
        if place not in theirs:
            continue
        other_number, other = theirs[place]
        yield from _in_suites(PurePath(place).name, suite, other)
        yield from _in_cases(PurePath(place).name, (a[1], number), (b[1], other_number))


def _suites(folder: RunFolder) -> Iterator[tuple[int, StoredSuite]]:
    return enumerate(read_stored(folder).suites)


def _place(suite: StoredSuite) -> str:
    """The suite's file as seen from its project's root, which may lie elsewhere."""
    path = PurePath(suite.path)
    return str(path.relative_to(suite.root)) if path.is_relative_to(suite.root) else path.name


def _in_receipts(a: Receipt, b: Receipt) -> Iterator[str]:
    if a.version != b.version:
        yield f"rejoinder {a.version} and {b.version}"
    models = [{target.name: target.model for target in run.targets} for run in (a, b)]
    for name, model in models[0].items():
        if models[1].get(name, model) != model:
            yield f"model of {name}: {model} and {models[1][name]}"
    differing = [name for name in {**a.options, **b.options} if a.options.get(name) != b.options.get(name)]
    yield from sorted(name for name in differing if name not in _UNTOLD)


def _in_suites(name: str, a: StoredSuite, b: StoredSuite) -> Iterator[str]:
    if a.formatting != b.formatting:
        yield f"formatting of {name}"
    for role, one, other in (
        ("judge", a.judge_target, b.judge_target),
        ("embeddings", a.embedding_target, b.embedding_target),
    ):
        if one != other:
            yield f"{role} of {name}: {one or 'none'} and {other or 'none'}"
    if a.variants != b.variants:
        yield f"variants of {name}"
    for target in a.targets:
        if target in b.targets:
            yield from _in_targets(a.targets[target], b.targets[target])


def _in_targets(a: Target, b: Target) -> Iterator[str]:
    if a.provider != b.provider:
        yield f"provider of {a.name}: {a.provider} and {b.provider}"
    for name in sorted({**a.settings, **b.settings}.keys() - {"model"}):  # the receipt says which model answered
        one, other = a.settings.get(name), b.settings.get(name)
        if one != other:
            short = all(
                isinstance(value, str | int | float | None) and len(str(value)) <= _LONGEST for value in (one, other)
            )
            yield f"{name} of {a.name}" + (f": {_shown(one)} and {_shown(other)}" if short else "")
    for name in ("system_prompt", "judge_target"):
        if getattr(a, name) != getattr(b, name):
            yield f"{name} of {a.name}"


def _shown(value: object) -> str:
    return "not set" if value is None else str(value)


def _in_cases(name: str, a: tuple[RunFolder, int], b: tuple[RunFolder, int]) -> Iterator[str]:
    """System prompts and simulated users. Those of equal cases are held against each other one by one; only where they
    differ, all of them are needed."""
    pairs = zip_longest(_said_in(*a), _said_in(*b))
    if all(one == other for one, other in pairs):
        return
    ours, theirs = (list(zip(*set(_said_in(*run)), strict=True)) or [(), ()] for run in (a, b))
    if set(ours[0]) != set(theirs[0]):
        yield f"{_PROMPT} of {name}"
    users = [", ".join(sorted(filter(None, set(one[1])))) or "none" for one in (ours, theirs)]
    if users[0] != users[1]:
        yield f"simulated user of {name}: {users[0]} and {users[1]}"


def _said_in(folder: RunFolder, suite: int) -> Iterator[tuple[int, str]]:
    """The system prompts of its cases, by their hashes, and the targets that play simulated users."""
    cases = StoredCases(folder.path / "cases.jsonl", suite, Mask({}))
    return ((hash(case.system_prompt), case.user.target if case.user is not None else "") for case in cases)
