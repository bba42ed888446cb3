"""What every check is given, and how its verdict is written.

A check is a function of the check's values and a `Context`. Those that only look at the reply are plain functions;
those that must ask somebody are coroutines. None keeps anything between calls.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, Protocol, TypeVar

from msgspec import Struct

from rejoinder.model import Case, ChatMessage, Check, Evidence, Failure, Prompt, Reply, Rubric, State, Verdict

T = TypeVar("T")

PASS_MARK = 0.5
"""The least score that passes where a check does not say another."""
RUBRIC_PASS_MARK = 0.8
"""The same for the mean of a rubric with score ranges."""


class CheckFault(Exception):
    """A script, a function or an address of the user's gave no verdict. The message says why."""


class Work(Struct, frozen=True):
    """Something that is done for a check, once: what came of it is recorded, and not done again."""

    label: str
    content: bytes
    """What the outcome depends on. The conversation is known already."""
    perform: Callable[[], Awaitable[str]]
    """Raises CheckFault."""


class Post(Struct, frozen=True):
    """A request to an address of the user's."""

    url: str
    headers: Mapping[str, str]
    body: bytes
    timeout_s: float
    content: bytes
    """What the answer depends on: the body, without what differs from machine to machine."""

    @property
    def label(self) -> str:
        return "webhook"


class Port(Protocol):
    """How a check that needs more than the reply reaches it. What has to be asked of somebody is numbered when the
    method is called, and asked when its result is awaited."""

    @property
    def folders(self) -> tuple[str, ...]:
        """The suite's folder and the project's root, where the user's own code lies."""
        ...

    def question(self) -> Prompt:
        """The question of this turn: the conversation as judges see it."""
        ...

    def evidence(self) -> Evidence:
        """All that a check of the user's own is told."""
        ...

    def judge_name(self, target: str | None) -> str:
        """The name of the target that judges; a check may name it."""
        ...

    def ask_judge(self, messages: tuple[ChatMessage, ...], target: str | None) -> Awaitable[Reply | Failure]:
        """Ask a judge with the messages it is shown; a check may name the target."""
        ...

    def reserve(self, target: str | None, count: int) -> Port:
        """A port whose next calls of a judge are numbered now, for who has to wait before it can ask."""
        ...

    def ask_other(self, target: str) -> Awaitable[Reply | Failure]:
        """Put this turn of the conversation to another target."""
        ...

    def embed(self, text: str, target: str | None) -> Awaitable[Reply | Failure]:
        """The meaning of a text, as a vector."""
        ...

    def carry_out(self, work: Work) -> Awaitable[Reply | Failure]:
        """Do something on this machine."""
        ...

    def post(self, post: Post) -> Awaitable[Reply | Failure]:
        """Send something to an address."""
        ...


class Context(Struct, frozen=True):
    """All that a check may look at."""

    case: Case
    reply: Reply
    turn: int
    port: Port


class Reach(Struct, frozen=True):
    """What a check needs beyond the reply."""

    judge: bool = False
    code: bool = False


async def gather_all(asked: Iterable[Awaitable[T]]) -> list[T]:
    """What came of all that was asked at the same time. Where one call cannot be made, the others are waited for
    before that is told: they are under way, and may have to be paid for."""
    done = await asyncio.gather(*asked, return_exceptions=True)
    for one in done:
        if isinstance(one, BaseException):
            raise one
    return [one for one in done if not isinstance(one, BaseException)]


def verdict(check: Check, label: str, passed: bool, reason: str) -> Verdict:
    """The verdict of a check that either passes or fails."""
    if passed:
        return Verdict(check=label, state="passed", score=1.0, reason=reason, name=check.name)
    return Verdict(check=label, state="failed", score=0.0, reason=reason, name=check.name)


def scored_verdict(check: Check, label: str, passed: bool, reason: str, **more: Any) -> Verdict:
    """The verdict of a check that has a score of its own, or children, or a judge's words."""
    state: State = "passed" if passed else "failed"
    return Verdict(check=label, state=state, reason=reason, name=check.name, **more)


def error_verdict(check: Check, label: str, reason: str, **more: Any) -> Verdict:
    return Verdict(check=label, state="error", score=None, reason=reason, name=check.name, **more)


def pass_mark(check: Check) -> float:
    if check.threshold is not None:
        return check.threshold
    if isinstance(check, Rubric):
        return 1.0 if check.needs_all else RUBRIC_PASS_MARK
    return PASS_MARK
