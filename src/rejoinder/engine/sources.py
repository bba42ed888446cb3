"""Where the answers to a conversation's calls come from: one protocol, and one small class for each place.

A player asks its sources in order, and the first that has an answer gives it. A run asks who is there (`Live`, in
asking.py); resuming, replaying, caching, grading anew and forking only choose other sources.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from hashlib import blake2b
from pathlib import Path
from typing import Protocol, TypeAlias

import msgspec
from msgspec import Struct, structs

from rejoinder.checks import Post, Work
from rejoinder.engine.conversation import NOT_RECORDED
from rejoinder.engine.journal import Journal, Told
from rejoinder.engine.plan import Job, asked_model
from rejoinder.errors import RejoinderError, UsageError
from rejoinder.model import Failure, Reply, Request, Suite, Target
from rejoinder.providers import FREE, RUNS_CODE
from rejoinder.providers.cassettes import (
    NO_RECORDING,
    Cassette,
    CassetteError,
    Change,
    Kind,
    Playback,
    Recording,
    Shelf,
    cassette_name,
)

Place: TypeAlias = tuple[str, str, str, int]
"""Which conversation of a run it is: suite, case, target and trial."""


def place_of(job: Job) -> Place:
    prepared = job.prepared
    return prepared.suite_name, prepared.case.id, prepared.target.name, job.trial


class Call(Struct, frozen=True):
    """A call that somebody has to answer: a target, or this machine, which has some work to do."""

    key: str
    request: Request
    attempts: Attempts
    job: Job
    target: Target | None = None
    work: Work | Post | None = None
    other: bool = False
    """Is it asked for a reply to compare with? The candidate may be compared with itself."""

    @property
    def kind(self) -> Kind:
        if self.target is None:
            return "work"
        if self.request.embed is not None:
            return "embedding"
        if self.request.judging:
            return "judge"
        return "other" if self.other else "candidate"


class Attempts:
    """The numbers of a call's attempts, in the order in which its conversation makes calls of one kind."""

    __slots__ = ("_calls", "_kind", "_made")

    def __init__(self, calls: dict[tuple[str, bool], int], kind: tuple[str, bool]) -> None:
        self._calls = calls
        self._kind = kind
        self._made = 1

    def next(self) -> int:
        """The number of a further attempt."""
        self._made += 1
        self._calls[self._kind] = number = self._calls.get(self._kind, 0) + 1
        return number - 1

    def settle(self, made: int) -> None:
        """So many attempts were made in all: a recorded answer stands for those that it took."""
        if made != self._made:
            self._calls[self._kind] = self._calls.get(self._kind, 0) + made - self._made


class Source(Protocol):
    """Where answers come from. None means that it has none for this call."""

    asks: bool
    """Does it ask somebody? A target that is given up is not asked any more."""

    async def answer(self, call: Call) -> Told | None: ...


class Unanswered(Exception):
    """No source has an answer: the conversation cannot go on for now."""


class Recorded:
    """The answers that a journal holds."""

    asks = False

    def __init__(
        self, told: Mapping[str, Told], price: Callable[[Target, Reply], Reply], without: Collection[str] = ()
    ) -> None:
        """`without`: targets that ask for another model now, so that nothing is recorded of them."""
        self._told = told
        self._price = price
        self._without = without

    async def answer(self, call: Call) -> Told | None:
        told = self._told.get(call.key)
        if self._without and call.request.target in self._without:
            return None
        if told is None or told.reply is None or told.reply.cost is not None or call.target is None:
            return told
        return structs.replace(told, reply=self._price(call.target, told.reply))


class Retold:
    """The answers of this run's own journal, before those of a source that gives each of its own only once: what was
    told before the run was taken up again has been given."""

    asks = False

    def __init__(self, source: Source, use: Callable[[Call], Awaitable[None]]) -> None:
        self._source = source
        self._use = use

    async def answer(self, call: Call) -> Told | None:
        told = await self._source.answer(call)
        if told is not None:
            await self._use(call)
        return told


class Noted:
    """What another source answers goes into this run's journal, too: so it can be resumed and shown like any other."""

    asks = False

    def __init__(self, source: Source, journal: Journal) -> None:
        self._source = source
        self._journal = journal

    async def answer(self, call: Call) -> Told | None:
        told = await self._source.answer(call)
        if told is None:
            return None
        told = structs.replace(told, key=call.key)
        await self._journal.told(told)
        return told


class Missing:
    """Nobody else is asked: a call without a recorded answer is an error that says what is recorded instead.

    Conversations that were skipped then are skipped now.
    """

    asks = False

    def __init__(self, explain: Callable[[Call], Awaitable[str]], skipped: Collection[Place] = ()) -> None:
        self._explain = explain
        self._skipped = skipped

    async def answer(self, call: Call) -> Told | None:
        if place_of(call.job) in self._skipped:
            return None
        return Told(call.key, failure=Failure(NO_RECORDING, await self._explain(call)))


class Store(Protocol):
    """Replies that are kept from run to run."""

    def get(self, key: str) -> Reply | None: ...
    def put(self, key: str, target: str, reply: Reply) -> None: ...
    def forget(self, key: str) -> None: ...


Words: TypeAlias = Callable[[Target, Request], bytes]
"""All that an answer to a request depends on."""


class Kept:
    """Equal requests of earlier runs, answered from the store."""

    asks = False

    def __init__(self, store: Store, words: Words) -> None:
        self._store = store
        self._words = words
        self.used: list[Reply] = []
        """The answers that were taken from the store, without their words."""

    async def answer(self, call: Call) -> Told | None:
        key = cache_key(call, self._words)
        try:
            reply = None if key is None else self._store.get(key)
        except UsageError as error:  # it was sound when the run began; to ask again would cost what nobody expects
            return Told(call.key, failure=Failure("cache", error.message))
        if reply is None:
            return None
        self.used.append(without_words(reply))
        return Told(call.key, structs.replace(reply, cached=True))


class Keeping:
    """Asks another source, and keeps what it says in the store.

    Of equal calls one is made and the others wait for it: else what a case is told, and what the next run is told
    instead, would depend on whose answer came last.
    """

    asks = True

    def __init__(self, store: Store, kept: Source, source: Source, words: Words) -> None:
        self._store = store
        self._kept = kept
        self._source = source
        self._words = words
        self._asking: dict[str, asyncio.Event] = {}
        self.asked: list[Reply] = []
        """The answers that this run asked for, without their words."""
        self.trouble: str | None = None
        """Why an answer could not be kept. It is an answer all the same."""

    async def answer(self, call: Call) -> Told | None:
        key = cache_key(call, self._words)
        if key is None or call.target is None:
            return await self._source.answer(call)
        while (other := self._asking.get(key)) is not None:
            await other.wait()
            if (told := await self._kept.answer(call)) is not None:
                return told
        self._asking[key] = done = asyncio.Event()
        try:
            told = await self._source.answer(call)
            if told is not None and told.reply is not None:
                self.asked.append(without_words(told.reply))
                self._keep(key, call.target.name, told.reply)
            return told
        finally:
            del self._asking[key]
            done.set()

    def forget(self, calls: Iterable[Call]) -> None:
        """Keep the answers to these calls no longer: nobody could read them, and others may be better."""
        for call in calls:
            key = cache_key(call, self._words)
            if key is not None:
                self._try(lambda key=key: self._store.forget(key))

    def _keep(self, key: str, target: str, reply: Reply) -> None:
        self._try(lambda: self._store.put(key, target, reply))

    def _try(self, change: Callable[[], None]) -> None:
        try:
            change()
        except UsageError as error:
            self.trouble = error.message


def without_words(reply: Reply) -> Reply:
    """A reply as a small thing to compare by: its words are replaced by their hash."""
    words = hash((reply.text, reply.thinking, reply.tool_calls, reply.vector))
    return structs.replace(reply, text=str(words), thinking=None, tool_calls=(), vector=b"", cached=False)


class Local:
    """Asks another source, but only for work that is done on this machine: a script is no call of anybody."""

    asks = False

    def __init__(self, source: Source) -> None:
        self._source = source

    async def answer(self, call: Call) -> Told | None:
        return await self._source.answer(call) if isinstance(call.work, Work) else None


class Judges:
    """Asks another source, but not the candidate, nor a judge that could not be opened."""

    asks = True

    def __init__(self, source: Source, closed: Mapping[int, RejoinderError]) -> None:
        self._source = source
        self._closed = closed

    async def answer(self, call: Call) -> Told | None:
        if call.kind == "candidate":
            return None
        if (why := self._closed.get(id(call.target))) is not None:
            return Told(call.key, failure=Failure("target", why.message))
        return await self._source.answer(call)


class Unrecorded:
    """The candidate is not asked any more: the conversation ends with the turns that there are.

    One that was skipped has none, and is skipped again.
    """

    asks = False

    def __init__(self, skipped: Collection[Place] = ()) -> None:
        self._skipped = skipped

    async def answer(self, call: Call) -> Told | None:
        if call.kind != "candidate" or place_of(call.job) in self._skipped:
            return None
        return Told(call.key, failure=Failure(NOT_RECORDED, f"turn {call.request.turn} was not recorded"))


class Before:
    """What a conversation was told before a turn, by position: from there on it takes another course."""

    asks = False

    def __init__(self, tape: Tape, turn: int) -> None:
        self._turn = turn
        self._tape = [(call, told) for call, told in tape.calls if told is not None and call.request.turn < turn]
        self._left: dict[int, list[tuple[Call, Told]]] = {}
        """What is left for each conversation: several trials and targets may take the same course up to the turn."""

    async def answer(self, call: Call) -> Told | None:
        if call.request.turn >= self._turn:
            return None
        left = self._left.setdefault(call.job.number, list(self._tape))
        near = [one for one in left if (one[0].kind, one[0].request.turn) == (call.kind, call.request.turn)]
        if not near:
            return None
        # Judges are asked at the same time, so what they are asked tells them apart before their order does.
        found = max(near, key=lambda one: _likeness(one[0], call))
        left.remove(found)
        return found[1]


def _likeness(one: Call, other: Call) -> tuple[bool, bool]:
    """How near two calls of a turn are: the same words come before the same name."""
    words = [(call.request.messages, call.request.embed, _content(call.work)) for call in (one, other)]
    return words[0] == words[1], one.request.target == other.request.target


def _content(work: Work | Post | None) -> object:
    return (work.label, work.content) if isinstance(work, Work) else work


class Cassettes:
    """The recordings of a folder, one cassette for each conversation."""

    asks = False

    def __init__(self, shelf: Shelf, reveal: Change, model_of: ModelOf) -> None:
        self._shelf = shelf
        self._reveal = reveal
        self._model_of = model_of
        self._open: dict[Path, Playback | str] = {}
        """The cassettes of the conversations that are being had, or why there is none."""
        self._played: set[Path] = set()
        self._left: list[tuple[int, str]] = []

    async def answer(self, call: Call) -> Told | None:
        playback = self._playback(call.job)
        if isinstance(playback, str) or isinstance(call.work, Work):
            return None
        found = playback.find(recording_of(call, self._model_of))
        return None if found is None else Told(call.key, found.reply, found.failure, found.attempts)

    async def explain(self, call: Call) -> str:
        playback = self._playback(call.job)
        return playback if isinstance(playback, str) else playback.explain(recording_of(call, self._model_of))

    def close(self, job: Job) -> None:
        """The conversation is over: what is left of its cassette is stale."""
        path = cassette_of(self._shelf, job)
        self._played.add(path)
        playback = self._open.pop(path, "")
        if not isinstance(playback, str) and (left := playback.left_of()):
            self._left.append((job.number, f"{self._shown(path)}: {left}"))

    def stale(self, suites: Iterable[Suite]) -> list[str]:
        """Recordings that no conversation asked for: calls of a cassette, or all of it, where it is of such a suite."""
        found = (self._shelf.place(suite.path, suite.root).glob("*.yaml") for suite in suites)
        unplayed = sorted(path for paths in found for path in paths if path not in self._played)
        return [text for _, text in sorted(self._left)] + [
            f"{self._shown(path)}: nobody asked for it" for path in unplayed
        ]

    def _playback(self, job: Job) -> Playback | str:
        path = cassette_of(self._shelf, job)
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


class Tape:
    """What a conversation asks and is told, in the order in which it asks."""

    def __init__(self) -> None:
        self._calls: list[tuple[Call, Told | None]] = []

    def begin(self, call: Call) -> int:
        self._calls.append((call, None))
        return len(self._calls) - 1

    def end(self, place: int, told: Told) -> None:
        self._calls[place] = (self._calls[place][0], told)

    @property
    def calls(self) -> list[tuple[Call, Told | None]]:
        return self._calls

    def cassette(self, job: Job, model_of: ModelOf) -> Cassette:
        """Scripts are left out: they run again, and are part of what is tested."""
        calls = [
            structs.replace(
                recording_of(call, model_of),
                reply=_plain(told.reply),
                failure=told.failure,
                attempts=told.attempts,
            )
            for call, told in sorted(self._calls, key=lambda one: place_in_turn(one[0]))
            if told is not None and not isinstance(call.work, Work)
        ]
        prepared = job.prepared
        return Cassette(
            suite=prepared.suite_name, case=prepared.case.id, target=prepared.target.name, trial=job.trial, calls=calls
        )


def _plain(reply: Reply | None) -> Reply | None:
    """A reply as its provider gave it: a recording is one, wherever the reply came from this time."""
    return structs.replace(reply, cached=False) if reply is not None and reply.cached else reply


def place_in_turn(call: Call) -> tuple[int, int, str, list[str], str]:
    """Where a call stands among others: by what it is, because who asked first at the same time is an accident."""
    rank = ("candidate", "other", "embedding", "judge", "work").index(call.kind)
    said = [message.content for message in call.request.messages]
    return call.request.turn, rank, call.request.target, said, call.request.embed or ""


def unread_calls(tape: Tape) -> list[Call]:
    """The calls of judges that had a second chance, which are asked with more messages than the first time, and what
    they were asked at first: nobody could read the answer."""
    judges = [call for call, _ in tape.calls if call.kind == "judge"]
    again = {call.request.messages[:2] for call in judges if len(call.request.messages) > 2}
    return [call for call in judges if call.request.messages[:2] in again]


def cassette_of(shelf: Shelf, job: Job) -> Path:
    """Where a conversation is recorded."""
    prepared = job.prepared
    place = shelf.place(prepared.suite.path, prepared.suite.root)
    return place / cassette_name(prepared.case.id, prepared.target.name, job.trial)


ModelOf: TypeAlias = Callable[[Call], str]
"""The model that a call asks for; empty where nobody knows, or where it asks none."""


class Models:
    """The models that calls ask for, as they go out: what a `${{ VAR }}` stands for is looked up once."""

    def __init__(self) -> None:
        self._known: dict[int, str] = {}

    def __call__(self, call: Call) -> str:
        target = call.target
        if target is None:
            return ""
        if id(target) not in self._known:
            self._known[id(target)] = asked_model(call.job.prepared.suite, target)
        return self._known[id(target)]


def recording_of(call: Call, model_of: ModelOf) -> Recording:
    """A call as cassettes know it: who is asked what."""
    request = call.request
    return Recording(
        asked=call.kind,
        of=request.target,
        model=model_of(call),
        turn=request.turn,
        messages=request.messages,
        text=request.embed or (_sent(call.work) if isinstance(call.work, Post) else ""),
    )


def _sent(post: Post) -> str:
    """What a webhook was sent, without what is another on each machine or each time."""
    body = msgspec.json.decode(post.body)
    for name in ("guideline_paths", "input_files", "latency_s"):
        body.pop(name, None)
    return f"{post.url}\n{msgspec.json.format(msgspec.json.encode(body)).decode()}"


def cache_key(call: Call, words: Words) -> str | None:
    """All that an answer depends on, and the trial: repeats have answers of their own. None for what is not kept.

    What a script says costs nothing, and what the user's own code says changes with the code.
    """
    if call.target is None or call.target.provider in FREE or call.target.provider in RUNS_CODE:
        return None
    request = call.request
    ordinal = call.key.replace("+", "-").partition("-")[2]
    trial = 0 if request.embed is not None else request.trial  # who asks first for a vector is an accident
    state = blake2b(words(call.target, request), digest_size=20)
    state.update(f"\0{request.judging} {trial} {ordinal or 0}".encode())
    return state.hexdigest()
