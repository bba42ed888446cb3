"""Earlier runs as sources of answers: replayed, graded anew, merged, taken up at a turn, or looked through for what is
nearest to a question. All of it is playing them again from their journals, which asks nobody."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import msgspec
from msgspec import Struct, structs

from rejoinder.engine.folder import RunFolder, find_run
from rejoinder.engine.journal import Told, read_journal
from rejoinder.engine.masking import Mask
from rejoinder.engine.plan import Job, RunOptions, file_of, plan, settings_that_matter
from rejoinder.engine.play import Player
from rejoinder.engine.receipt import read_options, read_stored_suite, suite_paths
from rejoinder.engine.results import read_outlines
from rejoinder.engine.sources import Call, Place, Recorded, Source, Tape, Unrecorded, cassette_of, recording_of
from rejoinder.engine.vectors import Vectors
from rejoinder.errors import RejoinderError, UsageError
from rejoinder.model import Outcome, Suite, Target
from rejoinder.providers.cassettes import Recording, explain_miss


async def retrace(job: Job, told: Mapping[str, Told], *further: Source) -> tuple[Tape, Outcome | None]:
    """A conversation as it was, from what it was told: all that it asked, and how it ended where it did."""
    tape, vectors, outcome = Tape(), Vectors(), None
    with contextlib.suppress(Exception):  # it was cut off there, or cannot be played any more
        outcome = await Player(job, (Recorded(told, lambda _, reply: reply), *further), vectors, tape).play()
    await vectors.close()
    return tape, outcome


class Earlier(Struct, frozen=True):
    """Runs that answer in the candidates' place."""

    folders: tuple[RunFolder, ...]
    purpose: Literal["replay", "grade", "merge"] = "replay"
    """What they do not answer is missing, or asked of judges alone, or left open."""

    def models(self) -> dict[str, str | None]:
        """The model that each target asked for, as it was filled in then."""
        runs = (folder.read("run.json") or {} for folder in self.folders)
        return {target["name"]: target["model"] for run in runs for target in run.get("targets", ())}

    def skipped(self) -> set[Place]:
        """The conversations that were not had: a target was given up, or the first failure ended the run."""
        paths = [folder.results for folder in self.folders if folder.results.is_file()]
        found = (one.read() for path in paths for one in read_outlines(path) if one.status == "skipped")
        return {(one["suite"], one["id"], one["target"], one["trial"]) for one in found}

    def told(self, mask: Mask) -> dict[str, Told]:
        """What they were told. What failed in one of them may have been answered in another."""
        found: dict[str, Told] = {}
        for journal in self._journals():
            for key, told in read_journal(journal, mask).told.items():
                if key not in found or found[key].reply is None:
                    found[key] = told
        return found

    def _journals(self) -> list[Path]:
        """Whose answers count first. What judges said in earlier grades is not asked again; the last word counts."""
        journals = [folder.journal for folder in self.folders]
        if self.purpose != "grade":
            return journals
        journals += [path for folder in self.folders for path in folder.path.glob("grades/*/journal.jsonl")]
        return sorted(journals, key=lambda path: path.stat().st_mtime_ns, reverse=True)


class Nearest:
    """What another run was asked, found by playing it as it was: for the difference to what is asked now."""

    def __init__(self, folder: RunFolder, told: Mapping[str, Told]) -> None:
        self._folder = folder
        self._told = told
        self._asked: asyncio.Task[dict[Path, list[Recording]]] | None = None
        self._targets: dict[tuple[str, str], Target] = {}

    async def explain(self, call: Call) -> str:
        if self._asked is None:
            self._asked = asyncio.ensure_future(self._play())
        asked = await asyncio.shield(self._asked)  # many may miss at the same time, and wait for the same
        recorded = asked.get(cassette_of(Path(), call.job), [])
        return explain_miss(recording_of(call), recorded, f"run {self._folder.id}", *self._settings(call))

    async def _play(self) -> dict[Path, list[Recording]]:
        asked: dict[Path, list[Recording]] = {}
        try:
            options = read_options(self._folder)
            suites = [read_stored_suite(self._folder, number) for number, _ in enumerate(suite_paths(self._folder))]
        except RejoinderError:  # a suite that cannot be had any more is not near to anything
            return asked
        with contextlib.suppress(RejoinderError):  # nor is what cannot be planned any more
            for job in plan(suites, options):
                tape, _ = await retrace(job, self._told)
                asked[cassette_of(Path(), job)] = tape.cassette(job).calls
        self._targets = {(file_of(suite), name): one for suite in suites for name, one in suite.targets.items()}
        return asked

    def _settings(self, call: Call) -> tuple[list[str], list[str]]:
        """The settings of the targets in question that are others now: first as they were, then as they are."""
        then, now = list[str](), list[str]()
        suite = file_of(call.job.prepared.suite)
        asked = {one.name: one for one in (call.job.prepared.target, call.target) if one is not None}
        for name, target in asked.items():
            was, settings = self._targets.get((suite, name)), settings_that_matter(target)
            before = settings_that_matter(was) if was is not None else settings
            for key in sorted({*before, *settings} - {"model"}):
                lines = [_setting(name, key, one) for one in (before, settings)]
                if lines[0] != lines[1]:
                    then += lines[:1]
                    now += lines[1:]
        return then, now


def _setting(target: str, name: str, settings: Mapping[str, Any]) -> str:
    value = msgspec.json.encode(settings[name]).decode() if name in settings else "not set"
    return f"target {target}, {name}: {value}"


async def unread_answers(jobs: Iterable[Job], told: Mapping[str, Told]) -> set[str]:
    """The keys of judges' answers that nobody could read, in conversations that ended as an error because of it.

    They are recorded as they came, and are replies; but whoever wants errors to be asked again means them, too. A judge
    that had a second chance was asked with more messages than the first time.
    """
    unread: set[str] = set()
    for job in jobs:
        tape, outcome = await retrace(job, told, Unrecorded())
        if outcome is None or outcome.error is None or outcome.error.type != "check":
            continue
        judges = [call for call, _ in tape.calls if call.kind == "judge"]
        again = {call.request.messages[:2] for call in judges if len(call.request.messages) > 2}
        unread |= {call.key for call in judges if call.request.messages[:2] in again}
    return unread


def tape_of(options: RunOptions, suites: list[Suite], folder: RunFolder) -> Tape | None:
    """What a fork has before its turn, which may not all be in its own journal yet."""
    if options.fork is None or not options.fork.run:
        return None
    other = find_run(folder.root, options.fork.run)
    return recorded_conversation(
        other, suites, read_options(other), options.cases[0], options.fork.turn, options.targets
    )


def recorded_conversation(
    folder: RunFolder,
    suites: list[Suite],
    options: RunOptions,
    case: str,
    turn: int,
    targets: Sequence[str] = (),
) -> Tape:
    """What a case was asked and told in a run, in its first trial, on the first of `targets` that the run had.

    Raises UsageError where there is no such turn.
    """
    if not folder.journal.is_file():
        raise UsageError(f"{folder.path} has no journal, and so no conversation to take up")
    secrets = {value: name for suite in suites for value, name in suite.secrets.items()}
    told = read_journal(folder.journal, Mask(secrets)).told
    # The whole plan is walked: cases with the same words are told apart by their order in it.
    jobs = [job for job in plan(suites, structs.replace(options, repeat=1)) if job.prepared.case.id == case]
    wanted = [job for name in targets for job in jobs if job.prepared.target.name == name]
    job = next(iter(wanted or jobs), None)
    if job is None:
        raise UsageError(f"run {folder.id} has no case `{case}`")

    tape, _ = asyncio.run(retrace(job, told))
    had = sum(call.kind == "candidate" and one is not None for call, one in tape.calls)
    if turn > had + 1 or (turn > 1 and turn > had):
        words = f"{had} turn" + ("" if had == 1 else "s")
        raise UsageError(f"the conversation of case `{case}` has {words} in run {folder.id}; there is no turn {turn}")
    return tape
