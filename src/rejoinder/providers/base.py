"""The one protocol of all providers: a request in, a reply out, or a ProviderError."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, Protocol, TypeAlias, runtime_checkable

from msgspec import Struct

from rejoinder.errors import RejoinderError
from rejoinder.model import Reply, Request, Usage, Workspace

if TYPE_CHECKING:
    from rejoinder.providers.limits import Limiter

Pressure: TypeAlias = Literal["rate", "overload"]
"""Why a provider refuses a call: we call too often, or it is overloaded."""


class ProviderError(RejoinderError):
    """A call failed. `retryable` says whether sending it again may help."""

    def __init__(
        self,
        message: str,
        *,
        type: str = "provider",
        retryable: bool = False,
        status: int | None = None,
        pressure: Pressure | None = None,
        retry_after_s: float | None = None,
        ends_target: bool = False,
    ) -> None:
        super().__init__(message)
        self.type = type
        self.retryable = retryable
        self.status = status
        self.pressure = pressure
        self.retry_after_s = retry_after_s
        """Seconds that the provider asks us to wait."""
        self.ends_target = ends_target
        """Whether every other call of this target would fail in the same way."""


class Provider(Protocol):
    outside: bool
    """Whether a call leaves this process. Then it can be in doubt after a crash, and is recorded before it is made."""

    @property
    def limiter(self) -> Limiter | None:
        """The limiter that the target's calls must pass; None if there is no limit."""
        ...

    async def reply(self, request: Request) -> Reply: ...

    async def close(self) -> None:
        """Release connections and threads."""
        ...


@runtime_checkable
class PredictsUsage(Protocol):
    """A provider that knows its replies, or their maximum length, and so their cost, in advance."""

    def foresee(self, request: Request) -> Usage: ...


class KeepsHistory(Protocol):
    """A provider whose target keeps conversations itself: it gets only new messages, and a signal at the end."""

    keeps_history: bool

    async def end(self, request: Request, *, failed: bool) -> None:
        """End a conversation. `request`: its last request; `failed`: its case did not pass, or it was interrupted."""
        ...


@runtime_checkable
class HasWorkspaces(Protocol):
    """A provider of agents, each of which works in a folder of its own."""

    def take_up(self, request: Request) -> bool:
        """Whether this turn can continue a conversation of a killed run. If not, its remains are removed."""
        ...

    def workspace_of(self, conversation_id: str) -> Workspace | None:
        """The workspace of a conversation; None if it is over."""
        ...


class Handed(Struct, frozen=True):
    """Secrets that a program gets besides its settings: keys, and a home in which the user is logged in."""

    keys: tuple[str, ...] = ()
    vendors: tuple[str, ...] = ()
    """Prefixes of variables that can give it an address; empty: any variable may."""
    has_login: bool = False


@runtime_checkable
class RunsProgram(Protocol):
    """A provider that runs a program which may pass on its keys."""

    @property
    def handed(self) -> Handed: ...


class ReplyWithin(Protocol):
    """The method `reply_within` of a provider that ends overdue calls itself, because it knows their progress."""

    async def __call__(self, request: Request, timeout_s: float | None) -> Reply: ...
