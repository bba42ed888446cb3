"""What every check is given, and how its verdict is written.

A check is a function of the check's values and a `Context`. Those that only look at the reply are plain functions;
those that must ask something are coroutines. None keeps anything between calls.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, Protocol, TypeVar

from msgspec import Struct, structs

from rejoinder.model import (
    Case,
    ChatMessage,
    Check,
    Evidence,
    Failure,
    Prompt,
    Reply,
    Rubric,
    Span,
    Verdict,
    Workspace,
    kind_of,
)

T = TypeVar("T")

PASS_MARK = 0.5
"""The least score that passes where a check does not say another."""
RUBRIC_PASS_MARK = 0.8
"""The same for the mean of a rubric with score ranges."""


class CheckFault(Exception):
    """A script, a function or an address of the user's gave no verdict. The message says why."""


class Work(Struct, frozen=True):
    """Work that is done for a check, once: its outcome is recorded, and the work not done again."""

    label: str
    content: bytes
    """What the outcome depends on, apart from the conversation."""
    perform: Callable[[Workspace | None], Awaitable[str]]
    """Is given the workspace of the agent, if there is one. Raises CheckFault."""
    in_workspace: bool = False
    """Can it be done only where there is one?"""


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
    """How a check that needs more than the reply reaches it. A call is numbered when the method is called, and made
    when its result is awaited."""

    @property
    def calls(self) -> list[str]:
        """The journal keys of the calls that were made through this port."""
        ...

    def for_check(self) -> Port:
        """A port for one check, with an empty list of calls."""
        ...

    @property
    def folders(self) -> tuple[str, ...]:
        """The suite's folder and the project's root, where the user's own code lies."""
        ...

    def question(self) -> Prompt:
        """The question of this turn: the conversation as judges see it."""
        ...

    def evidence(self) -> Evidence:
        """All that a check of the user's own gets."""
        ...

    def judge_name(self, target: str | None) -> str:
        """The name of the target that judges; a check may name it."""
        ...

    def ask_judge(self, messages: tuple[ChatMessage, ...], target: str | None) -> Awaitable[Reply | Failure]:
        """Ask a judge with the messages it is shown; a check may name the target."""
        ...

    def reserve(self, target: str | None, count: int) -> Port:
        """A port whose next calls of a judge are numbered now, for a check that has to wait before it can ask. It
        adds to the same list of calls."""
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


async def gather_all(calls: Iterable[Awaitable[T]]) -> list[T]:
    """The results of calls that are made at the same time. Where a call raises, the others are waited for first: they
    are in flight, and may be billed."""
    results = await asyncio.gather(*calls, return_exceptions=True)
    for result in results:
        if isinstance(result, BaseException):
            raise result
    return [result for result in results if not isinstance(result, BaseException)]


Value = str | float | bool | None
"""A check's value as it is shown; None where its kind is all that is shown."""


def verdict(check: Check, value: Value, passed: bool, reason: str, spans: tuple[Span, ...] = ()) -> Verdict:
    """The verdict of a check that either passes or fails."""
    # Every reply of every conversation comes through here: by position, which is twice as fast as by name.
    kind = kind_of(check)
    label, number = (f"{kind} {value}", None) if isinstance(value, str) else _show(kind, value)
    state, score = ("passed", 1.0) if passed else ("failed", 0.0)
    return Verdict(label, state, score, reason, kind, number, spans, check.name, check.metric)


def scored_verdict(check: Check, value: Value, passed: bool, reason: str, **more: Any) -> Verdict:
    """The verdict of a check that has a score of its own, or children, or a judge's words."""
    return structs.replace(verdict(check, value, passed, reason), **more)


def error_verdict(check: Check, value: Value, reason: str, **more: Any) -> Verdict:
    return structs.replace(verdict(check, value, False, reason), state="error", score=None, **more)


def _show(kind: str, value: float | bool | None) -> tuple[str, float | bool | None]:
    """What is shown of a check whose value is no text, and the value."""
    return (kind, None) if value is None else (f"{kind} {show_number(value)}", value)


def show_number(value: float | bool) -> str:
    """As an author would write it: `true`, `5`, `0.0005`."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return f"{value:.9f}".rstrip("0").rstrip(".") if isinstance(value, float) else str(value)


def pass_mark(check: Check) -> float:
    if check.threshold is not None:
        return check.threshold
    if isinstance(check, Rubric):
        return 1.0 if check.needs_all else RUBRIC_PASS_MARK
    return PASS_MARK
