"""The verdicts of a run: every trial of every case, without replies. As a file it is a baseline.

    .rejoinder/baselines/NAME.json

The file is made to be committed: a line for each case, in the order of their names, and the same bytes for the same
run. It may come with a cloned repository, so its size is limited and it is read like a run folder's files
(run_files.py).
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
from rejoinder.model.inputs import Inputs
from rejoinder.model.plans import Condition
from rejoinder.model.results import LARGEST, CaseName, Count
from rejoinder.run_files import RunDamaged, make_folder, read_whole, refuse_linked_folder, replace_file

FORMAT = 2
LARGEST_FILE = 1 << 26
"""Maximum bytes. A hundred thousand conversations take about 15 million."""
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_AGAIN = "Make it again with `rejoinder baseline save RUN --name NAME`."
Amount: TypeAlias = Annotated[int, Meta(ge=0, le=LARGEST)] | Annotated[float, Meta(ge=0, le=LARGEST)]


class Trial(Struct, frozen=True):
    trial: Count
    status: Literal["passed", "failed", "error"]
    """Its result, including follow-ups."""
    first_try: bool
    """Whether it passed before any follow-up. If right replies were doubted, it may have failed later."""
    cost: Amount | None
    """Dollars, including judges; None if a part has no known price."""
    latency_s: tuple[Amount, ...]
    """Seconds of each reply of a model."""


class CaseTrials(Struct, frozen=True, omit_defaults=True):
    """A case on one target, with all its trials."""

    file: str
    id: str
    target: str
    variant: str | None
    tags: tuple[str, ...]
    trials: tuple[Trial, ...]
    needed: tuple[Count, Count] | None = None
    """(4, 5) if four of five trials must pass; otherwise every trial must."""
    condition: Condition | None = None
    """The form of its task, if it has shards. Baselines of earlier versions lack it."""
    spoilt: Count = 0
    """Number of additional conversations that a simulated user made invalid."""

    @property
    def passes_together(self) -> bool:
        """Whether the case passes by its own rule."""
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
    """Their files, relative to the project's root."""
    shared_cost: Amount | None
    """The cost of shared calls, in dollars: embeddings."""
    cases: tuple[CaseTrials, ...]
    """In the order of their keys."""
    made_from: Inputs | None = None
    """The inputs of its run. Baselines of earlier versions lack them."""
    unmeasured: tuple[CaseTrials, ...] = ()
    """Cases without a valid trial: simulated users made every one invalid."""

    def __post_init__(self) -> None:
        keys = [case.key for case in (*self.cases, *self.unmeasured)]
        if len(set(keys)) < len(keys):
            raise ValueError("a case is there twice")

    @property
    def is_of_one_trial(self) -> bool:
        """Whether each case was tried once."""
        return all(len(case.trials) <= 1 for case in self.cases)

    @property
    def trials(self) -> Iterator[Trial]:
        return (trial for case in self.cases for trial in case.trials)


class Matched(NamedTuple):
    """A baseline with its cases renamed as in a run, and notes on the renaming."""

    baseline: Baseline
    notes: tuple[str, ...]


def matched_to(now: Baseline, before: Baseline) -> Matched:
    """If each of two runs asked one target, and the targets differ, these are compared with each other, as in
    `compare`: a gate is meant for a changed model. The same holds for variants."""
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
    """The verdicts of a run, without skipped conversations. Raises msgspec.MsgspecError for values that no run has."""
    found: dict[CaseName, tuple[Result, list[Trial | None]]] = {}
    for result in results:
        if result.status == "skipped":
            continue
        first = structs.replace(result, turns=())
        found.setdefault(result.case, (first, []))[1].append(None if result.is_spoilt else _trial(result))
    cases = [_case(key, first, trials) for key, (first, trials) in sorted(found.items(), key=lambda one: one[0])]
    measured, unmeasured = (tuple(case for case in cases if bool(case.trials) is kind) for kind in (True, False))
    baseline = Baseline(FORMAT, run, tuple(sorted(set(suites))), shared_cost, measured, unmeasured=unmeasured)
    # A run folder may come from elsewhere: its numbers have to be such as a baseline can hold.
    return msgspec.json.decode(msgspec.json.encode(baseline), type=Baseline)


def _case(key: CaseName, first: Result, trials: Sequence[Trial | None]) -> CaseTrials:
    """The trials of a case. None in `trials` stands for an invalid conversation."""
    known = [trial for trial in trials if trial is not None]
    ordered, spoilt = tuple(sorted(known, key=lambda trial: trial.trial)), len(trials) - len(known)
    return CaseTrials(*key[:3], key.variant or None, first.tags, ordered, first.needed, first.condition, spoilt)


def _trial(result: Result) -> Trial:
    status: Any = result.status
    cost = result.total_cost
    times = tuple(round(time, 3) for time in result.reply_times)
    return Trial(result.trial, status, result.first_try, None if cost is None else round(cost, 12), times)


def encode_baseline(baseline: Baseline) -> bytes:
    """The bytes of its file: a line for each case, so that a difference shows the changed cases. Plain ASCII: ids and
    tags may hold control characters for a terminal or an editor."""
    head, cases = msgspec.to_builtins(baseline), msgspec.to_builtins(baseline.cases)
    del head["cases"]
    lines = [f"{json.dumps(name)}: {json.dumps(value)},\n" for name, value in head.items()]
    rows = ",\n".join(json.dumps(case) for case in cases)
    return f'{{\n{"".join(lines)}"cases": [\n{rows}\n]\n}}\n'.encode("ascii")


def baselines_folder(root: Path) -> Path:
    return root / ".rejoinder" / "baselines"


def baseline_file(root: Path, name: str) -> Path:
    """The location of a baseline. Raises UsageError for an invalid name."""
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
    """The names of the baselines made from each run. A file that is not a baseline is ignored."""
    found: dict[str, tuple[str, ...]] = {}
    for name in baseline_names(root):
        with contextlib.suppress(RunDamaged):
            if (baseline := read_baseline(baseline_file(root, name))) is not None:
                found[baseline.run] = (*found.get(baseline.run, ()), name)
    return found


def write_baseline(root: Path, name: str, baseline: Baseline) -> Path:
    """Save a baseline, replacing an earlier one of that name. Raises UsageError if it cannot be written."""
    path = baseline_file(root, name)
    try:
        make_folder(path.parent)
        with replace_file(path) as stream:
            stream.write(encode_baseline(baseline))
    except OSError as error:
        raise UsageError(f"{path} cannot be written: {reason_of(error)}") from None
    return path


def delete_baseline(root: Path, name: str) -> None:
    """Delete a baseline. Raises UsageError if it cannot be deleted. Of a link, only the link is deleted."""
    path = baseline_file(root, name)
    try:
        refuse_linked_folder(path.parent)
        path.unlink()
    except OSError as error:
        raise UsageError(f"{path} cannot be deleted: {reason_of(error)}") from None


def read_baseline(path: Path) -> Baseline | None:
    """A baseline; None if missing. Raises RunDamaged for a file that rejoinder did not write."""
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
