"""Parts of one run, as `--shard` makes them: what they have in common."""

from __future__ import annotations

from rejoinder.errors import UsageError
from rejoinder.model import file_in_project
from rejoinder.runs.earlier import EarlierRuns
from rejoinder.runs.recorded import RecordedRun

_SELECTING = ("cases", "tags", "limit", "targets", "variants", "system_prompt")
"""Options that say which conversations a run has, but for its part of them."""


def refuse_other_run(part: RecordedRun, first: RecordedRun) -> None:
    """Parts of one run have the same suites, wherever those lay, and were started with the same options."""
    ids = part.folder.id, first.folder.id
    files = [[file_in_project(suite.path, suite.root) for suite in run.stored.suites] for run in (part, first)]
    if files[0] != files[1]:
        raise UsageError(f"run {ids[0]} has other suites than run {ids[1]}")
    flat = [run.stored.options.flat() for run in (part, first)]
    for name in ("repeat", *_SELECTING, "fork"):
        if flat[0][name] != flat[1][name]:
            option = f"--{name.removesuffix('s').replace('_', '-')}"
            raise UsageError(f"run {ids[0]} was started with a different {option} than run {ids[1]}")
    models = [EarlierRuns((run,)).models() for run in (part, first)]
    for target in models[0].keys() & models[1].keys():
        asked = models[0][target], models[1][target]
        if None not in asked and asked[0] != asked[1]:  # a variable may name it, and differ from machine to machine
            raise UsageError(
                f"target `{target}` asked model `{asked[0]}` in run {ids[0]} and `{asked[1]}` in run {ids[1]}",
                "Parts of one run ask the same models. Run one of them again.",
            )
