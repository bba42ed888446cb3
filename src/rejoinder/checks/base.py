"""The input of every check, and the form of its verdict.

A check is a function of the check's values and a `Context`. Checks that only look at the reply are plain functions;
checks that must ask something are coroutines. They store nothing between calls.
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
    Code,
    Custom,
    Evidence,
    Failure,
    LlmJudge,
    Prompt,
    PythonCheck,
    Reply,
    Rubric,
    Semantic,
    Span,
    State,
    Verdict,
    Webhook,
    Workspace,
    kind_of,
)
from rejoinder.model.messages import ToolAnswer
from rejoinder.model.tools import Offered

T = TypeVar("T")

PASS_MARK = 0.5
"""The lowest passing score, if a check does not set another."""
RUBRIC_PASS_MARK = 0.8
"""The lowest passing mean of a rubric with score ranges."""


class CheckFault(Exception):
    """The user's script, function or address gave no verdict. The message says why."""


class Work(Struct, frozen=True):
    """Work for a check that is done once: its outcome is recorded and reused."""

    label: str
    content: bytes
    """Everything that the outcome depends on, apart from the conversation."""
    perform: Callable[[Workspace | None], Awaitable[str]]
    """Does the work; receives the agent's workspace, if there is one. Raises CheckFault."""
    in_workspace: bool = False
    """Whether it requires a workspace."""


class Post(Struct, frozen=True):
    """A request to the user's address."""

    url: str
    headers: Mapping[str, str]
    body: bytes
    timeout_s: float
    content: bytes
    """Everything that the answer depends on: the body, without values that differ between machines."""

    @property
    def label(self) -> str:
        return "webhook"


class Port(Protocol):
    """Access for checks that need more than the reply. A call gets its number when the method is called, and is made
    when the result is awaited."""

    @property
    def calls(self) -> list[str]:
        """The journal keys of the calls that were made through this port."""
        ...

    def for_check(self) -> Port:
        """A port for one check, with an empty list of calls."""
        ...

    @property
    def folders(self) -> tuple[str, ...]:
        """The suite's folder and the project's root, which contain the user's code."""
        ...

    def question(self) -> Prompt:
        """The question of this turn: the conversation in the form for judges."""
        ...

    def evidence(self) -> Evidence:
        """The input of the user's own checks."""
        ...

    def heard(self) -> tuple[Reply, ...]:
        """The replies of the conversation so far, with the one that is checked."""
        ...

    def offered(self) -> tuple[Offered, ...]:
        """The tools that the model is offered, or those that its target declares in `extra_body`."""
        ...

    def judge_name(self, target: str | None) -> str:
        """The name of the judging target; a check may name it."""
        ...

    def ask_judge(self, messages: tuple[ChatMessage, ...], target: str | None) -> Awaitable[Reply | Failure]:
        """Ask a judge with the given messages; a check may name the target."""
        ...

    def reserve(self, target: str | None, count: int) -> Port:
        """A port whose next judge calls are numbered now, for a check that must wait before it can ask. It adds to the
        same list of calls."""
        ...

    def ask_other(self, target: str) -> Awaitable[Reply | Failure]:
        """Send this turn of the conversation to another target."""
        ...

    def embed(self, text: str, target: str | None) -> Awaitable[Reply | Failure]:
        """The vector of a text's meaning."""
        ...

    def carry_out(self, work: Work) -> Awaitable[Reply | Failure]:
        """Do work on this machine."""
        ...

    def ask_tool(self, name: str, arguments: str) -> Awaitable[ToolAnswer | Failure]:
        """Call a tool of the conversation, without the model. `arguments`: JSON."""
        ...

    def post(self, post: Post) -> Awaitable[Reply | Failure]:
        """Send a request to an address."""
        ...


class Lack(Struct, frozen=True):
    """The reason why there is no part of the reply to check: it is not there (failed), or could not be looked for."""

    state: State
    reason: str


class Context(Struct, frozen=True):
    """The data that a check may use."""

    case: Case
    reply: Reply
    """Its text is the part that is checked."""
    turn: int
    port: Port
    lack: Lack | None = None
    """Set if there is no such part; then no check of the text passes."""


async def gather_all(calls: Iterable[Awaitable[T]]) -> list[T]:
    """The results of simultaneous calls. If one raises, the others are awaited first: they are in progress, and may be
    billed."""
    results = await asyncio.gather(*calls, return_exceptions=True)
    for result in results:
        if isinstance(result, BaseException):
            raise result
    return [result for result in results if not isinstance(result, BaseException)]


Value = str | float | bool | None
"""A check's value for display; None if only its kind is shown."""


def asked_value(check: Check) -> str | None:
    """The display value of a check that asks something."""
    if isinstance(check, LlmJudge):
        return check.criteria.strip() if check.criteria else None
    if isinstance(check, Semantic):
        return ", ".join(check.expected)
    if isinstance(check, Code):
        return check.script[0] if len(check.script) == 1 else None
    if isinstance(check, PythonCheck):
        return check.call
    if isinstance(check, Custom):
        return check.kind
    return check.url if isinstance(check, Webhook) else None


def verdict(check: Check, value: Value, passed: bool, reason: str, spans: tuple[Span, ...] = ()) -> Verdict:
    """The verdict of a check that either passes or fails."""
    # Every reply of every conversation comes through here: by position, which is twice as fast as by name.
    kind = kind_of(check)
    label, number = (f"{kind} {value}", None) if isinstance(value, str) else _show(kind, value)
    state, score = ("passed", 1.0) if passed else ("failed", 0.0)
    return Verdict(label, state, score, reason, kind, number, spans, check.name, check.metric)


def scored_verdict(check: Check, value: Value, passed: bool, reason: str, **more: Any) -> Verdict:
    """The verdict of a check with its own score, children, or a judge's words."""
    return structs.replace(verdict(check, value, passed, reason), **more)


def error_verdict(check: Check, value: Value, reason: str, **more: Any) -> Verdict:
    return structs.replace(verdict(check, value, False, reason), state="error", score=None, **more)


def _show(kind: str, value: float | bool | None) -> tuple[str, float | bool | None]:
    """The kind and value to show for a check whose value is not text."""
    return (kind, None) if value is None else (f"{kind} {show_number(value)}", value)


def show_number(value: float | bool) -> str:
    """A number as an author would write it: `true`, `5`, `0.0005`."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return f"{value:.9f}".rstrip("0").rstrip(".") if isinstance(value, float) else str(value)


def pass_mark(check: Check) -> float:
    if check.threshold is not None:
        return check.threshold
    if isinstance(check, Rubric):
        return 1.0 if check.needs_all else RUBRIC_PASS_MARK
    return PASS_MARK
