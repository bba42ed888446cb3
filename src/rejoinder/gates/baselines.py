"""What a run came to in verdicts: every trial of every case, without replies. As a file it is a baseline.

    .rejoinder/baselines/NAME.json

The file is made to be committed: a line for each case, in the order of their names, and the same bytes for the same
run. It may come with a cloned repository, so it is read within bounds and as a run folder's files are (run_files.py).
"""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, TypeAlias

import msgspec
from msgspec import Meta, Struct, structs

from rejoinder.errors import UsageError, decoding_reason, reason_of
from rejoinder.model import Result
from rejoinder.model.cases import lone_names, passes_together
from rejoinder.model.plans import Condition
from rejoinder.model.results import LARGEST, CaseName, Count
from rejoinder.run_files import RunDamaged, make_folder, read_whole, refuse_linked_folder, replace_file

FORMAT = 2
LARGEST_FILE = 1 << 26
"""Bytes. A hundred thousand conversations take some 15 million."""
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_AGAIN = "Make it again with `rejoinder baseline save RUN --name NAME`."
Amount: TypeAlias = Annotated[int, Meta(ge=0, le=LARGEST)] | Annotated[float, Meta(ge=0, le=LARGEST)]


class Trial(Struct, frozen=True):
    trial: Count
    status: Literal["passed", "failed", "error"]
    """How it ended, follow-ups and all."""
    first_try: bool
    """Whether it was right before it was answered back. One that was doubted may have failed in the end."""
    cost: Amount | None
    """Dollars, judges included; None where something has no known price."""
    latency_s: tuple[Amount, ...]
    """The time of each reply of a model."""


class CaseTrials(Struct, frozen=True, omit_defaults=True):
    """A case on one target, with all its trials."""

    file: str
    id: str
    target: str
    variant: str | None
    tags: tuple[str, ...]
    trials: tuple[Trial, ...]
    needed: tuple[Count, Count] | None = None
    """(4, 5) where four of five trials have to pass; else every one."""
    condition: Condition | None = None
    """How its task was put, if it has shards. Baselines of earlier versions do not say."""
    spoilt: Count = 0
    """Further conversations that a simulated user spoilt."""

    @property
    def passes_together(self) -> bool:
        """Does the case pass by its own rule?"""
        return passes_together(self.passed, len(self.trials), self.needed)

    @property
    def key(self) -> CaseName:
        return CaseName(self.file, self.id, self.target, self.variant or "")

    @property
    def passed(self) -> int:
        return sum(trial.status == "passed" for trial in self.trials)

    @property
    def errors(self) -> int:
        return sum(trial.status == "error" for trial in self.trials)


class Baseline(Struct, frozen=True, omit_defaults=True):
    """The verdicts of a run."""

    format: int
    run: str
    suites: tuple[str, ...]
    """Their files, as seen from the project's root."""
    shared_cost: Amount | None
    """What conversations share, in dollars: embeddings."""
    cases: tuple[CaseTrials, ...]
    """In the order of their keys."""
    unmeasured: tuple[CaseTrials, ...] = ()
    """Cases without a trial that counts: simulated users spoilt every one."""

    def __post_init__(self) -> None:
        keys = [case.key for case in (*self.cases, *self.unmeasured)]
        if len(set(keys)) < len(keys):
            raise ValueError("a case is there twice")

    @property
    def is_of_one_trial(self) -> bool:
        """Was each case tried once?"""
        return all(len(case.trials) <= 1 for case in self.cases)

    @property
    def trials(self) -> Iterator[Trial]:
        return (trial for case in self.cases for trial in case.trials)


class Matched(NamedTuple):
    """A baseline whose cases have the names that they have in a run, and what was renamed for that."""

    baseline: Baseline
    notes: tuple[str, ...]


def matched_to(now: Baseline, before: Baseline) -> Matched:
    """Where each of two runs asked one target, and not the same, these are compared with each other, as `compare` does:
    a changed model is what a gate is for. Likewise variants."""
    cases, unmeasured, notes = before.cases, before.unmeasured, list[str]()
    for field in ("target", "variant"):
        names = [list(dict.fromkeys(getattr(case, field) or "" for case in one.cases)) for one in (before, now)]
        was, name = lone_names(*names)
        if was is not None and name is not None:
            renamed = {field: name if field == "target" else name or None}
            cases, unmeasured = (
                tuple(structs.replace(case, **renamed) for case in group) for group in (cases, unmeasured)
            )
            notes.append(f"another {field}: {was or 'none'} before, {name or 'none'} now")
    renamed = structs.replace(before, cases=cases, unmeasured=unmeasured) if notes else before
    return Matched(renamed, tuple(notes))


def baseline_of(
    run: str, results: Iterable[Result], suites: tuple[str, ...] = (), shared_cost: float | None = 0.0
) -> Baseline:
    """The verdicts of a run; a skipped conversation has none. Raises msgspec.MsgspecError for what no run has."""
    found: dict[CaseName, tuple[Result, list[Trial | None]]] = {}
    for result in results:
        if result.status == "skipped":
            continue
        first = structs.replace(result, turns=())
        found.setdefault(result.case, (first, []))[1].append(None if result.is_spoilt else _trial(result))
    cases = [_case(key, first, trials) for key, (first, trials) in sorted(found.items(), key=lambda one: one[0])]
    measured, unmeasured = (tuple(case for case in cases if bool(case.trials) is kind) for kind in (True, False))
    baseline = Baseline(FORMAT, run, tuple(sorted(set(suites))), shared_cost, measured, unmeasured)
    # A run folder may come from elsewhere: its numbers have to be such as a baseline can hold.
    return msgspec.json.decode(msgspec.json.encode(baseline), type=Baseline)


def _case(key: CaseName, first: Result, trials: Sequence[Trial | None]) -> CaseTrials:
    """None stands for a conversation that is spoilt."""
    known = [trial for trial in trials if trial is not None]
    ordered, spoilt = tuple(sorted(known, key=lambda trial: trial.trial)), len(trials) - len(known)
    return CaseTrials(*key[:3], key.variant or None, first.tags, ordered, first.needed, first.condition, spoilt)


def _trial(result: Result) -> Trial:
    status: Any = result.status
    cost = result.total_cost
    times = tuple(round(time, 3) for time in result.reply_times)
    return Trial(result.trial, status, result.first_try, None if cost is None else round(cost, 12), times)


def encode_baseline(baseline: Baseline) -> bytes:
    """The bytes of its file: a line for each case, so that a difference shows the cases that changed. Plain ASCII: ids
    and tags may hold characters that a terminal or an editor obeys."""
    head, cases = msgspec.to_builtins(baseline), msgspec.to_builtins(baseline.cases)
    del head["cases"]
    lines = [f"{json.dumps(name)}: {json.dumps(value)},\n" for name, value in head.items()]
    rows = ",\n".join(json.dumps(case) for case in cases)
    return f'{{\n{"".join(lines)}"cases": [\n{rows}\n]\n}}\n'.encode("ascii")


def baselines_folder(root: Path) -> Path:
    return root / ".rejoinder" / "baselines"


def baseline_file(root: Path, name: str) -> Path:
    """Where a baseline is kept. Raises UsageError for what cannot be its name."""
    if not _NAME.fullmatch(name):
        raise UsageError(
            f"`{name[:100]}` cannot be the name of a baseline",
            "A name has letters, digits, `.`, `_` and `-`, begins with a letter or digit and is no longer than 64.",
        )
    return baselines_folder(root) / f"{name}.json"


def baseline_names(root: Path) -> list[str]:
    """The project's baselines."""
    with contextlib.suppress(OSError):
        return sorted(path.stem for path in baselines_folder(root).glob("*.json") if _NAME.fullmatch(path.stem))
    return []


def baselines_by_run(root: Path) -> dict[str, tuple[str, ...]]:
    """The names of the baselines that each run is. A file that is no baseline is left out."""
    found: dict[str, tuple[str, ...]] = {}
    for name in baseline_names(root):
        with contextlib.suppress(RunDamaged):
            if (baseline := read_baseline(baseline_file(root, name))) is not None:
                found[baseline.run] = (*found.get(baseline.run, ()), name)
    return found


def write_baseline(root: Path, name: str, baseline: Baseline) -> Path:
    """Keep a baseline, in place of an earlier one of that name. Raises UsageError where it cannot be written."""
    path = baseline_file(root, name)
    try:
        make_folder(path.parent)
        with replace_file(path) as stream:
            stream.write(encode_baseline(baseline))
    except OSError as error:
        raise UsageError(f"{path} cannot be written: {reason_of(error)}") from None
    return path


def delete_baseline(root: Path, name: str) -> None:
    """Raises UsageError where it cannot be deleted. A link is deleted, and not the file it leads to."""
    path = baseline_file(root, name)
    try:
        refuse_linked_folder(path.parent)
        path.unlink()
    except OSError as error:
        raise UsageError(f"{path} cannot be deleted: {reason_of(error)}") from None


def read_baseline(path: Path) -> Baseline | None:
    """A baseline; None if there is no such file. Raises RunDamaged for one that rejoinder did not write."""
    try:
        refuse_linked_folder(path.parent)
        content = read_whole(path, LARGEST_FILE, _AGAIN)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise RunDamaged(path, f"it cannot be read: {reason_of(error)}", "Look at its permissions.") from None
    try:
        found = msgspec.json.decode(content, type=_Format)
        if found.format != FORMAT:
            reason = f"it has format {found.format}, and this version reads format {FORMAT}"
            raise RunDamaged(path, reason, "Use the version of rejoinder that wrote it, or make it again.")
        return msgspec.json.decode(content, type=Baseline)
    except (msgspec.MsgspecError, RecursionError, UnicodeError) as error:
        raise RunDamaged(path, decoding_reason(error), _AGAIN) from None


class _Format(Struct):
    format: Count
