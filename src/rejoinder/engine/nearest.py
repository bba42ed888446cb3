"""Explains a call that is not recorded: the nearest call of the recorded run, and how it differs."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import structs

from rejoinder.cassettes.file import Recording
from rejoinder.cassettes.match import explain_miss, likeness
from rejoinder.engine.calls import Call, ModelOf
from rejoinder.engine.cassettes import recording_of, recordings_of
from rejoinder.engine.plan import Job, place_of, plan
from rejoinder.engine.retrace import retrace
from rejoinder.errors import RejoinderError
from rejoinder.model import ChatMessage, Target
from rejoinder.model.results import Place
from rejoinder.providers.settings import model_of
from rejoinder.runs.earlier import EarlierRuns
from rejoinder.runs.journal import Told
from rejoinder.runs.names import file_of
from rejoinder.runs.recorded import RecordedRun
from rejoinder.runs.target_identity import identity_settings

MOST_OTHERS = 100
"""Conversations that are searched for a similar call, where neither case nor content points to one."""


class NearestCall:
    """The calls of a recorded run, found by playing it again, for the difference to a call that is made now."""

    def __init__(self, recorded: RecordedRun, told: Mapping[str, Told], model_of: ModelOf) -> None:
        self._recorded = recorded
        self._told = told
        self._model_of = model_of
        self._asked: asyncio.Task[dict[Place, list[Recording]]] | None = None
        self._targets: dict[tuple[str, str], Target] = {}
        self._by_case: dict[tuple[str, ...], list[Place]] = {}
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
        return max(near, key=lambda one: (likeness(wanted, asked[one]), one[2:] == place[2:], one.trial == place.trial))

    async def _play(self) -> dict[Place, list[Recording]]:
        asked: dict[Place, list[Recording]] = {}
        models = EarlierRuns((self._recorded,)).models()

        def model_then(call: Call) -> str:
            model = (model_of(call.target) if call.target is not None else None) or ""
            return model if "${{" not in model else models.get(call.request.target) or ""

        try:
            options, suites = self._recorded.options(), self._recorded.copies()
        except RejoinderError:  # a suite that cannot be had any more is not near to anything
            return asked
        with contextlib.suppress(RejoinderError):  # nor is what cannot be planned any more
            for job in plan(suites, options):
                tape, _ = await retrace(job, self._told)
                place, calls = _place_by_file(job), recordings_of(tape, model_then)
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
            was, settings = self._targets.get((suite, name)), identity_settings(target)
            before = identity_settings(was) if was is not None else settings
            for key in sorted({*before, *settings} - {"model"}):
                lines = [_setting(name, key, one) for one in (before, settings)]
                if lines[0] != lines[1]:
                    then += lines[:1]
                    now += lines[1:]
        return then, now


def _place_by_file(job: Job) -> Place:
    """A suite's file stays where its name may change."""
    return place_of(job)._replace(suite=file_of(job.prepared.suite))


def _conversation(place: Place) -> str:
    trial = f", trial {place.trial}" if place.trial > 1 else ""
    return f"{place.suite}, case {place.case}, target {place.target}{trial}"


def _setting(target: str, name: str, settings: Mapping[str, Any]) -> str:
    value = msgspec.json.encode(settings[name]).decode() if name in settings else "not set"
    return f"target {target}, {name}: {value}"
