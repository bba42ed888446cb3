"""Cassettes of a run's conversations: answering from them, and writing them."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import msgspec
from msgspec import structs

from rejoinder.cassettes.file import Cassette, Change, Recording, Shelf, cassette_name, schema_digest, write_cassette
from rejoinder.cassettes.file import Kind as RecordedKind
from rejoinder.cassettes.match import Playback
from rejoinder.checks.base import Post, Work
from rejoinder.engine.calls import AnyWork, Call, ModelOf, Tape, place_in_turn
from rejoinder.engine.plan import Job
from rejoinder.engine.targets import OpenTargets
from rejoinder.errors import CassetteError
from rejoinder.model import Kind, Suite
from rejoinder.providers.replay import ReplayProvider
from rejoinder.runs.journal import Told
from rejoinder.tools.base import Use


class CassetteSource:
    """The recordings of a folder, one cassette for each conversation."""

    asks = False

    def __init__(self, shelf: Shelf, reveal: Change, model_of: ModelOf) -> None:
        self._shelf = shelf
        self._reveal = reveal
        self._model_of = model_of
        self._open: dict[Path, Playback | str] = {}
        """The cassettes of the conversations in progress, or why there is none."""
        self._played: set[Path] = set()
        self._left: list[tuple[int, str]] = []

    async def answer(self, call: Call) -> Told | None:
        return self.consume(call)

    def consume(self, call: Call) -> Told | None:
        playback = self._playback(call.job)
        if isinstance(playback, str) or isinstance(call.work, Work):
            return None
        recording = playback.find(recording_of(call, self._model_of))
        if recording is None:
            return None
        return Told(call.key, recording.reply, recording.failure, recording.attempts)

    async def explain(self, call: Call) -> str:
        playback = self._playback(call.job)
        return playback if isinstance(playback, str) else playback.explain(recording_of(call, self._model_of))

    def close(self, job: Job) -> None:
        """The conversation has ended: what is left of its cassette is stale."""
        path = cassette_path(self._shelf, job)
        self._played.add(path)
        playback = self._open.pop(path, "")
        if not isinstance(playback, str) and (left := playback.left_of()):
            self._left.append((job.number, f"{self._shown(path)}: {left}"))

    def stale(self, suites: Iterable[Suite]) -> list[str]:
        """Recordings that no conversation used: calls of a cassette, or all of one that belongs to such a suite."""
        found = (self._shelf.place(suite.path, suite.root).glob("*.yaml") for suite in suites)
        unplayed = sorted(path for paths in found for path in paths if path not in self._played)
        return [text for _, text in sorted(self._left)] + [f"{self._shown(path)}: no call used it" for path in unplayed]

    def _playback(self, job: Job) -> Playback | str:
        path = cassette_path(self._shelf, job)
        if path not in self._open:
            if not path.is_file():
                return f"there is no cassette {path}; `run --record {self._shelf.folder}` writes one"
            try:
                self._open[path] = Playback(path, self._reveal)
            except CassetteError as error:
                self._open[path] = error.message
        return self._open[path]

    def _shown(self, path: Path) -> str:
        return path.relative_to(self._shelf.folder).as_posix()


class ReplayTargets:
    """The targets that answer from cassettes (`provider: replay`), whose recordings are given once each."""

    asks = False

    def __init__(self, targets: OpenTargets) -> None:
        self._targets = targets

    async def answer(self, call: Call) -> Told | None:
        return self.consume(call)

    def consume(self, call: Call) -> Told | None:
        if call.target is not None and call.target.provider == "replay":
            provider = self._targets.of(call.request).provider
            recording = provider.recordings.find(call.request) if isinstance(provider, ReplayProvider) else None
            return recording and Told(call.key, recording.reply, recording.failure, recording.attempts)
        return None

    def stale(self, *, whole: bool) -> list[str]:
        """Recordings that no call used; `whole`: also cassettes that were never opened."""
        providers = [opened.provider for opened in self._targets]
        return [
            text for one in providers if isinstance(one, ReplayProvider) for text in one.recordings.stale(whole=whole)
        ]


def cassette_path(shelf: Shelf, job: Job) -> Path:
    """Where a conversation is recorded."""
    prepared = job.prepared
    place = shelf.place(prepared.suite.path, prepared.suite.root)
    return place / cassette_name(prepared.case.id, prepared.target.name, job.trial, prepared.variant)


def record_conversation(shelf: Shelf, job: Job, tape: Tape, model_of: ModelOf, hide: Change) -> None:
    """Write the cassette of a conversation."""
    prepared = job.prepared
    cassette = Cassette(
        suite=prepared.suite_name,
        case=prepared.case.id,
        target=prepared.target.name,
        trial=job.trial,
        calls=recordings_of(tape, model_of),
    )
    write_cassette(cassette_path(shelf, job), cassette, hide)


def recordings_of(tape: Tape, model_of: ModelOf) -> list[Recording]:
    """Scripts are left out: they run again, and are part of what is tested."""
    return [
        structs.replace(
            recording_of(call, model_of),
            reply=told.reply and told.reply.as_recorded(),
            failure=told.failure,
            attempts=told.attempts,
        )
        for call, told in sorted(tape.calls, key=lambda taped: place_in_turn(taped[0]))
        if told is not None and call.kind != "work"
    ]


_KINDS: dict[Kind, RecordedKind] = {
    "candidate": "candidate",
    "judge": "judge",
    "embedding": "embedding",
    "work": "work",
    "user": "user",
    "tool": "tool",
    "rival": "other",
    "webhook": "work",
}
"""What cassettes call each kind."""


def recording_of(call: Call, model_of: ModelOf) -> Recording:
    """A call as cassettes have it: its kind, target, model and content."""
    request = call.request
    return Recording(
        asked=_KINDS[call.kind],
        of=request.target,
        model=model_of(call),
        turn=request.turn,
        messages=request.messages,
        text=request.embed or _text_of(call.work),
        output_schema=schema_digest(request.output_schema),
    )


def _text_of(work: AnyWork | None) -> str:
    """What is asked of something that is no target."""
    if isinstance(work, Use):
        return work.arguments
    return _posted(work) if isinstance(work, Post) else ""


def _posted(post: Post) -> str:
    """What a webhook was sent, without what differs from machine to machine or from time to time."""
    body = msgspec.json.decode(post.body)
    for name in ("guideline_paths", "input_files", "latency_s"):
        body.pop(name, None)
    return f"{post.url}\n{msgspec.json.format(msgspec.json.encode(body)).decode()}"
