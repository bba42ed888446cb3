"""Conversations that their targets keep themselves: each has an id, a session while it goes on, and an end.

One that was cut off by a kill begins anew: its state is the target's, and what the killed call did there is unknown.
Only agents whose workspace and session were set aside before the turn go on from there (`HasWorkspaces.take_up`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping
from hashlib import blake2b

import msgspec
from msgspec import Struct, structs

from rejoinder.engine.calls import Call
from rejoinder.engine.plan import Job, place_of
from rejoinder.engine.targets import OpenTarget
from rejoinder.errors import RejoinderError
from rejoinder.model import CUT_OFF, Failure, Reply, Request, Workspace
from rejoinder.model.forks import Fork
from rejoinder.providers.base import HasWorkspaces, KeepsHistory
from rejoinder.runs.names import file_of
from rejoinder.words.numbers import in_seconds

ENDING_S = 30.0
"""How long targets may take to end a conversation."""


def conversation_id(run: str, call: Call, made: int = 0) -> str:
    """Unique to run, case, target, variant, trial and attempt, in the form of a UUID, which agents want. `made`: how
    often a call that is a conversation of its own was made before."""
    suite = file_of(call.job.prepared.suite)
    strand = f"{call.strand} made {made}" if made else call.strand
    content = msgspec.json.encode((run, suite, place_of(call.job), call.request.target, strand))
    digest = bytearray(blake2b(content, digest_size=16).digest())
    digest[6] = digest[6] & 0x0F | 0x80  # version 8: made in a way of one's own
    digest[8] = digest[8] & 0x3F | 0x80
    text = digest.hex()
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


def said_again_words(fork: Fork | None) -> Iterator[str]:
    """What a fork sends once more, for people who pay for it."""
    if fork is None:
        return
    for name in fork.said_again:
        turns = "turn 1 is" if fork.turn == 2 else f"turns 1 to {fork.turn - 1} are"
        yield f"target `{name}` keeps the conversation itself: {turns} said again in a new session, and paid again"


class _Open(Struct):
    """A conversation under way, with its last request."""

    request: Request
    keeper: KeepsHistory


class Kept:
    """The conversations of one execution of a run."""

    def __init__(
        self, run: str, heard: Mapping[str, int] | None = None, note: Callable[[str], None] = lambda _: None
    ) -> None:
        """`heard`: calls that were made before and have no reply; `note`: is told what fails at an end."""
        self._run = run
        self._heard = heard or {}
        self._note = note
        self._open: dict[str, _Open] = {}
        self._of_job: dict[int, list[str]] = {}

    def prepare(self, call: Call, opened: OpenTarget) -> Request | Failure:
        """The request with all that it says of its conversation, or why that cannot go on."""
        if not opened.sees_conversation or call.request.embed is not None:
            return call.request
        keeper = opened.keeper
        made = self._heard.get(call.key, 0) if keeper is not None and call.kind != "candidate" else 0
        request = structs.replace(call.request, conversation_id=conversation_id(self._run, call, made))
        if keeper is None:
            return request
        known = self._open.get(request.conversation_id)
        if known is None and call.kind == "candidate" and self._is_lost(request, keeper):
            return _lost(call)
        if known is not None:
            request = structs.replace(request, session=known.request.session)
        else:
            self._of_job.setdefault(call.job.number, []).append(request.conversation_id)
        self._open[request.conversation_id] = _Open(request, keeper)
        return request

    def _is_lost(self, request: Request, keeper: KeepsHistory) -> bool:
        """Whether it is in the middle of a conversation that is not open here, or was it asked already, in this one."""
        if request.new and isinstance(keeper, HasWorkspaces):
            return not keeper.take_up(request)
        return bool(request.new) or request.key in self._heard

    def __contains__(self, job: Job) -> bool:
        return job.number in self._of_job

    def answered(self, request: Request, reply: Reply) -> None:
        """Keep the target's name for the conversation for the next turn, and for the end."""
        known = self._open.get(request.conversation_id)
        if known is not None:
            known.request = structs.replace(request, session=reply.session or request.session)

    def workspace_of(self, job: Job) -> Workspace | None:
        """Where an agent works in the conversation of a job; None if there is none, or no longer."""
        for one in reversed(self._of_job.get(job.number, ())):
            keeper = self._open[one].keeper
            if isinstance(keeper, HasWorkspaces) and self._open[one].request.kind == "candidate":
                return keeper.workspace_of(one)
        return None

    def has_lost_workspace(self, call: Call, opened: OpenTarget | None) -> Failure | None:
        """Why work in a workspace cannot be done, where the run was cut off before it: the conversation begins anew."""
        is_agent = opened is not None and isinstance(opened.keeper, HasWorkspaces)
        return _lost(call) if is_agent and self.workspace_of(call.job) is None else None

    async def end(self, job: Job, *, failed: bool) -> None:
        """The conversations of a job are over."""
        ids = self._of_job.pop(job.number, ())
        await self._end([self._open.pop(one) for one in ids], failed=failed)

    async def close(self) -> None:
        """End what is left, when the run is."""
        left, self._open = list(self._open.values()), {}
        await self._end(left, failed=True)

    async def _end(self, conversations: list[_Open], *, failed: bool) -> None:
        for one in conversations:
            if why := await end_conversation(one.keeper, one.request, failed=failed):
                place = f"case {one.request.case_id}, target {one.request.target}, trial {one.request.trial}"
                self._note(f"the end of a conversation ({place}): {why}")


async def end_conversation(keeper: KeepsHistory, request: Request, *, failed: bool) -> str | None:
    """Tell a target that a conversation is over. What goes wrong is returned: everything was said."""
    try:
        async with asyncio.timeout(ENDING_S):
            await keeper.end(request, failed=failed)
    except TimeoutError:
        return f"not ended within {in_seconds(ENDING_S)}"
    except (RejoinderError, OSError) as error:
        return str(error)
    return None


def _lost(call: Call) -> Failure:
    target, turn = call.request.target, call.request.turn
    return Failure(CUT_OFF, f"cut off in turn {turn}; target `{target}` keeps the conversation itself")
