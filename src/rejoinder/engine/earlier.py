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

from rejoinder.engine.embeddings import Vectors
from rejoinder.engine.folder import find_run_by_id, list_grades
from rejoinder.engine.journal import Told, read_journal
from rejoinder.engine.plan import (
    Job,
    RunOptions,
    asked_model,
    file_of,
    plan,
    settings_that_matter,
    survey_plan,
    written_model,
)
from rejoinder.engine.player import Player
from rejoinder.engine.recorded import RecordedRun
from rejoinder.engine.results import read_outlines
from rejoinder.engine.secrets import Mask
from rejoinder.engine.sources import (
    Call,
    ModelOf,
    Place,
    Recorded,
    Source,
    Tape,
    Unrecorded,
    place_of,
    recording_of,
    unread_calls,
)
from rejoinder.engine.targets import known_secrets
from rejoinder.errors import RejoinderError, UsageError
from rejoinder.model import ChatMessage, Outcome, Suite, Target
from rejoinder.providers.cassettes import NO_RECORDING, Recording, explain_miss, likeness


async def retrace(job: Job, told: Mapping[str, Told], *further: Source) -> tuple[Tape, Outcome | None]:
    """A conversation as it was, from what it was told: all that it asked, and how it ended where it did."""
    tape, vectors, outcome = Tape(), Vectors(), None
    with contextlib.suppress(Exception):  # it was cut off there, or cannot be played any more
        outcome = await Player(job, (Recorded(told, lambda _, reply: reply), *further), vectors, tape).play()
    await vectors.close()
    return tape, outcome


Purpose = Literal["replay", "grade", "merge", "ask"]


class Earlier(Struct, frozen=True):
    """Runs that answer in the candidates' place."""

    recorded: tuple[RecordedRun, ...]
    purpose: Purpose = "replay"
    """What they do not answer is missing, or asked of judges alone, or left open, or asked of whom it concerns."""

    def models(self) -> dict[str, str | None]:
        """The model that each target asked for, as it was filled in then."""
        runs = (one.folder.read("run.json") or {} for one in self.recorded)
        return {target["name"]: target["model"] for run in runs for target in run.get("targets", ())}

    def other_models(self, targets: Iterable[tuple[Suite, Target]], mask: Mask) -> set[str]:
        """The targets that name their model by a variable, and ask for another one now."""
        then = self.models()
        now = {target.name: asked_model(suite, target) for suite, target in targets if "${{" in written_model(target)}
        return {name for name, model in now.items() if model and then.get(name) not in (None, mask.hide_text(model))}

    def skipped(self, suites: Iterable[Suite]) -> set[Place]:
        """The conversations that were not had: a target was given up, or the first failure ended the run."""
        paths = [one.folder.results for one in self.recorded if one.folder.results.is_file()]
        names: dict[str, None] = {}
        found: list[tuple[str, str, str, int]] = []
        for one in (one for path in paths for one in read_outlines(path)):
            names[one.suite] = None
            if one.status == "skipped":
                found.append((one.suite, one.id, (record := one.read())["target"], record["trial"]))
        now = same_suites(names, [suite.name or file_of(suite) for suite in suites])
        return {(now.get(suite, suite), case, target, trial) for suite, case, target, trial in found}

    def told(self, mask: Mask) -> dict[str, Told]:
        """What they were told. What failed in one of them may have been answered in another."""
        found: dict[str, Told] = {}
        for recorded in self._in_order():
            for key, told in read_journal(recorded.folder.journal, recorded.mask_for(mask)).told.items():
                if key not in found or found[key].reply is None:
                    found[key] = told
        return found

    def _in_order(self) -> list[RecordedRun]:
        """Whose answers count first. What judges said in earlier grades is not asked again; the last word counts."""
        if self.purpose != "grade":
            return list(self.recorded)
        grades = ((one.root, grade) for one in self.recorded for grade in list_grades(one.root, one.folder.id))
        known = [*self.recorded, *(RecordedRun(grade, root) for root, grade in grades if grade.journal.is_file())]
        return sorted(known, key=lambda one: one.folder.journal.lstat().st_mtime_ns, reverse=True)


def same_suites(before: Iterable[str], now: Iterable[str]) -> dict[str, str]:
    """The suites of a run that have another name now: those that are left over, in their order, where they are as many
    as the new ones."""
    known = list(dict.fromkeys(before)), list(dict.fromkeys(now))
    gone, new = ([one for one in known[n] if one not in known[1 - n]] for n in (0, 1))
    return dict(zip(gone, new, strict=True)) if len(gone) == len(new) else {}


MOST_OTHERS = 100
"""Conversations that are looked through for something alike, where nothing speaks for any of them."""


class Nearest:
    """What another run was asked, found by playing it as it was: for the difference to what is asked now."""

    def __init__(self, recorded: RecordedRun, told: Mapping[str, Told], model_of: ModelOf) -> None:
        self._recorded = recorded
        self._told = told
        self._model_of = model_of
        self._asked: asyncio.Task[dict[Place, list[Recording]]] | None = None
        self._targets: dict[tuple[str, str], Target] = {}
        self._by_case: dict[tuple[str, str], list[Place]] = {}
        self._by_words: dict[tuple[ChatMessage, ...], list[Place]] = {}

    async def explain(self, call: Call) -> str:
        if self._asked is None:
            self._asked = asyncio.ensure_future(self._play())
        asked = await asyncio.shield(self._asked)  # many may miss at the same time, and wait for the same
        wanted, place = recording_of(call, self._model_of), _place_by_file(call.job)
        then, now = self._settings(call)
        known = place
        if place not in asked and asked:  # a case or a target that is called otherwise now
            known = self._most_alike(wanted, place, asked)
            then, now = [_conversation(known), *then], [_conversation(place), *now]
        recorded = asked.get(known, [])
        if not wanted.model:  # it depends on a variable that is not set, and is no difference
            recorded = [structs.replace(one, model="") for one in recorded]
        return explain_miss(wanted, recorded, f"run {self._recorded.folder.id}", then, now)

    def _most_alike(self, wanted: Recording, place: Place, asked: Mapping[Place, list[Recording]]) -> Place:
        near = self._by_case.get(place[:2]) or self._by_words.get(wanted.messages) or list(asked)[:MOST_OTHERS]
        return max(near, key=lambda one: (likeness(wanted, asked[one]), one[2:] == place[2:], one[3] == place[3]))

    async def _play(self) -> dict[Place, list[Recording]]:
        asked: dict[Place, list[Recording]] = {}
        models = Earlier((self._recorded,)).models()

        def model_then(call: Call) -> str:
            model = written_model(call.target) if call.target is not None else ""
            return model if "${{" not in model else models.get(call.request.target) or ""

        try:
            options, suites = self._recorded.options(), self._recorded.copies()
        except RejoinderError:  # a suite that cannot be had any more is not near to anything
            return asked
        with contextlib.suppress(RejoinderError):  # nor is what cannot be planned any more
            for job in plan(suites, options):
                tape, _ = await retrace(job, self._told)
                place, calls = _place_by_file(job), tape.cassette(job, model_then).calls
                asked.setdefault(place, []).extend(calls)
                self._by_case.setdefault(place[:2], []).append(place)
                if calls:
                    self._by_words.setdefault(calls[0].messages, []).append(place)
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


def _place_by_file(job: Job) -> Place:
    """A suite's file stays where its name may change."""
    return file_of(job.prepared.suite), *place_of(job)[1:]


def _conversation(place: Place) -> str:
    suite, case, target, trial = place
    return f"{suite}, case {case}, target {target}" + (f", trial {trial}" if trial > 1 else "")


def _setting(target: str, name: str, settings: Mapping[str, Any]) -> str:
    value = msgspec.json.encode(settings[name]).decode() if name in settings else "not set"
    return f"target {target}, {name}: {value}"


async def unread_answers(jobs: Iterable[Job], told: Mapping[str, Told]) -> list[Call]:
    """What judges were asked and nobody could read the answer, in conversations that ended as an error because of it.

    Such answers are recorded as they came, and are replies; but whoever wants errors to be asked again means them, too.
    """
    unread: list[Call] = []
    for job in jobs:
        tape, outcome = await retrace(job, told, Unrecorded())
        if outcome is not None and outcome.error is not None and outcome.error.type in ("check", NO_RECORDING):
            unread += unread_calls(tape)
    return unread


def tape_of(options: RunOptions, suites: list[Suite], root: Path) -> Tape | None:
    """What a fork has before its turn, which may not all be in its own journal yet."""
    if options.fork is None or not options.fork.run:
        return None
    other = RecordedRun(find_run_by_id(root, options.fork.run), root)
    return recorded_conversation(other, suites, options.cases[0], options.fork.turn, options.targets)


def recorded_conversation(
    recorded: RecordedRun,
    suites: list[Suite],
    case: str,
    turn: int,
    targets: Sequence[str] = (),
) -> Tape:
    """What a case was asked and told in a run, in its first trial, on the first of `targets` that the run had.

    Raises UsageError where there is no such turn.
    """
    folder, options = recorded.folder, recorded.options()
    if not folder.journal.is_file():
        raise UsageError(f"{folder.path} has no journal, and so no conversation to take up")
    secrets = known_secrets(suites, survey_plan(suites, options).targets, options)
    told = read_journal(folder.journal, recorded.mask_for(Mask(secrets))).told
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
