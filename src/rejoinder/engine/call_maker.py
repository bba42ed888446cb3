"""Makes the calls of a conversation: what is asked, by which key it is known, and its number.

A key is content and not position: the first request, the target, the trial and all that was said since. So an edited
suite finds again what it did not change.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import NamedTuple

import msgspec
from msgspec import structs

from rejoinder.checks.base import Post, Work
from rejoinder.engine.calls import AnyWork, Attempts, Call, Counter
from rejoinder.engine.effects import Ask
from rejoinder.engine.plan import Job
from rejoinder.model import ChatMessage, Kind, Reply, Request, Target
from rejoinder.model.calls import Key
from rejoinder.model.tools import Offered
from rejoinder.runs.target_identity import identity_of
from rejoinder.tools.base import Listing, Use
from rejoinder.validation.roles import schema_of

_CLEAN = "clean"
_CONTROL = "afresh"
"""Names the strand of a control. It is part of conversation ids and of session names, so it must not change."""


class _Part(NamedTuple):
    """The conversation with its target that a call is part of, and the number of its messages that are new there."""

    strand: str
    new: int


class CallMaker:
    """The calls of one conversation, in the order in which it makes them."""

    def __init__(self, job: Job, attempt: int = 0, control_of: CallMaker | None = None) -> None:
        """`attempt`: how often the conversation was cut off before and starts again. `control_of`: it is the control of
        that conversation, without the texts that are put into answers of tools."""
        self._job = job
        self._strand = f"{_CLEAN if control_of is not None else ''}{attempt or ''}"
        self._offered: tuple[Offered, ...] = ()
        self._state = self._first_state()
        self._turn = self._state
        """The state of the turn in progress; apart from the conversation if the turn is its control."""
        self._again = 0
        self._has_begun = False
        """Whether the candidate was asked for a turn."""
        self._counts: dict[Counter, int] = {} if control_of is None else dict(control_of._counts)
        self._equal: dict[tuple[Kind, str], int] = {}
        """The number of equal calls made so far, by kind."""
        self._last_use: dict[tuple[str, str], str] = {}
        """The key of the last call of each declared tool, in each of the job's conversations."""

    @property
    def offered(self) -> tuple[Offered, ...]:
        """The tools that the model is offered."""
        return self._offered

    def offer(self, tools: tuple[Offered, ...]) -> None:
        """Let the candidate call these tools in the next turns. Its replies depend on them."""
        if tools == self._offered:
            return
        self._offered = tools
        if self._has_begun:
            _add(self._state, f"offered {msgspec.json.encode(tools).decode()}")
        else:
            self._state = self._first_state()

    def of_candidate(self, ask: Ask) -> Call:
        """The next turn."""
        prepared = self._job.prepared
        self._turn, self._again, self._has_begun = self._state, 0, True
        fork = prepared.opening.fork
        if fork is not None and fork.system is not None and fork.turn == ask.turn:
            _add(self._state, fork.system)
        if ask.turn > 1 or prepared.has_simulated_opening:
            for message in ask.messages[-ask.new :]:
                _add_message(self._state, message)
        if ask.window is not None:
            _add(self._state, f"the last {ask.window} turns")
        key = Key("candidate", self._state.hexdigest())
        part = _Part(self._strand, ask.new if ask.turn > 1 else 0)
        return self._call(key, prepared.target, ask.turn, messages=ask.messages, part=part)

    def hear(self, reply: Reply) -> None:
        """Add a reply of the candidate to the state, because all later calls depend on it."""
        _add(self._state, reply.text)

    def afresh(self, ask: Ask) -> Call:
        """The first turn once more, in a new conversation."""
        state = self._first_state()
        if self._job.prepared.has_simulated_opening:
            for message in ask.messages:
                _add_message(state, message)
        self._turn, self._again = state, 1
        key = Key("candidate", state.hexdigest(), 1)
        part = _Part(f"{self._strand} {_CONTROL}", 0)
        return self._call(key, self._job.prepared.target, ask.turn, messages=ask.messages, part=part)

    def of_round(self, ask: Ask, said: tuple[ChatMessage, ...], new: int) -> Call:
        """The turn in progress, once more, with what tools answered. `new`: how many of the messages since the turn
        began are new."""
        for message in said[-new:]:
            _add(self._turn, f"failed {message.content}" if message.failed else message.content)
            for call in message.tool_calls:
                _add(self._turn, f"{call.name} {call.arguments}")
        key = Key("candidate", self._turn.hexdigest(), self._again)
        part = _Part(self._strand, new)
        return self._call(key, self._job.prepared.target, ask.turn, messages=(*ask.messages, *said), part=part)

    def to_list(self, listing: Listing) -> Call:
        """A request for the list of tools, which is the same for every conversation of a run."""
        state = blake2b(listing.content, digest_size=16)
        return self._call(Key("tool", state.hexdigest()), None, 1, work=listing)

    def to_use(self, turn: int, use: Use) -> Call:
        state = self._turn.copy()
        state.update(use.content)
        session = f"{self._strand} {_CONTROL}" if self._again else self._strand
        server = use.tool.name, session
        use = structs.replace(use, session=session, after=self._last_use.get(server, ""))
        call = self._call(self._numbered("tool", state), None, turn, work=use)
        self._last_use[server] = call.key
        return call

    def of_target(
        self, kind: Kind, target: Target, turn: int, messages: tuple[ChatMessage, ...], number: int | None = None
    ) -> Call:
        """A call of a judge, a rival or a simulated user. `number`: its place among the conversation's calls, if it
        was reserved."""
        state = self._state.copy()
        state.update(kind.encode() + b" " + identity_of(target))
        for message in messages:
            _add_message(state, message)
        if schema := schema_of(self._job.prepared.case, kind, target):
            _add(state, schema)
        return self._call(self._numbered(kind, state), target, turn, messages=messages, number=number)

    def reserve(self, target: Target, count: int) -> range:
        """The numbers of judge calls that are made later."""
        first = self._counts.get((target.name, True), 0)
        self._counts[target.name, True] = first + count
        return range(first, first + count)

    def to_embed(self, target: Target, turn: int, text: str) -> Call:
        """A text means the same in every conversation, so its key is only its content."""
        state = blake2b(b"embed " + identity_of(target), digest_size=16)
        state.update(text.encode("utf-8", "surrogatepass"))
        return self._call(Key("embedding", state.hexdigest()), target, turn, embed=text)

    def to_work(self, turn: int, work: Work | Post) -> Call:
        state = self._state.copy()
        if isinstance(work, Work):
            state.update(b"work " + work.content)
        else:
            state.update(b"post %b %b" % (work.url.encode("utf-8", "surrogatepass"), work.content))
        key = self._numbered("work" if isinstance(work, Work) else "webhook", state)
        return self._call(key, None, turn, work=work)

    def _numbered(self, kind: Kind, state: blake2b) -> Key:
        """The key of a call that may be made several times with the same content."""
        equal = kind, state.hexdigest()
        self._equal[equal] = ordinal = self._equal.get(equal, -1) + 1
        return Key(*equal, ordinal)

    def _call(
        self,
        key: Key,
        target: Target | None,
        turn: int,
        *,
        messages: tuple[ChatMessage, ...] = (),
        embed: str | None = None,
        work: AnyWork | None = None,
        number: int | None = None,
        part: _Part | None = None,
    ) -> Call:
        """A call with its number among the calls of the conversation. Without a `part` in that it stands alone."""
        job, name = self._job, target.name if target is not None else work.label if work is not None else ""
        counter = name, key.kind == "judge"
        if number is None:
            number = self._counts.get(counter, 0)
            if embed is None:  # embeddings are shared, so which conversation asks first is an accident
                self._counts[counter] = number + 1
        request = Request(
            target=name,
            case_id=job.prepared.case.id,
            trial=job.trial,
            turn=turn,
            call=number,
            messages=messages,
            question=job.prepared.prompt.question,
            kind=key.kind,
            embed=embed,
            key=str(key),
            suite=job.prepared.suite.path,
            variant=target.variant if target is not None else "",
            case_conversation_id=job.prepared.case.conversation_id or "",
            new=0 if part is None else part.new,
            tools=self._offered if part is not None else (),
            output_schema=schema_of(job.prepared.case, key.kind, target),
        )
        attempts = Attempts(self._counts, counter)
        return Call(request, attempts, job, target, work, request.key if part is None else part.strand)

    def _first_state(self) -> blake2b:
        state = blake2b(self._job.prepared.content, digest_size=16)
        state.update(b"%d" % self._job.trial)
        if self._strand:
            _add(state, f"restarted {self._strand}")
        if self._offered:
            _add(state, msgspec.json.encode(self._offered).decode())
        return state


def _add_message(state: blake2b, message: ChatMessage) -> None:
    """The text of a message, and what its pictures show. What a tool shows is known by the tool's call."""
    _add(state, message.content)
    for picture in message.pictures:
        if picture.digest:
            _add(state, f"picture {picture.digest}")


def _add(state: blake2b, text: str) -> None:
    """With its length: two texts are not to be mistaken for two others with the same letters."""
    encoded = text.encode("utf-8", "surrogatepass")
    state.update(b"%d:%b" % (len(encoded), encoded))
