"""The one protocol of all providers: a request in, a reply out, or a ProviderError."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, Protocol, TypeAlias, runtime_checkable

from msgspec import Struct

from rejoinder.errors import RejoinderError
from rejoinder.model import Reply, Request, Usage, Workspace

if TYPE_CHECKING:
    from rejoinder.providers.limits import Limiter

Pressure: TypeAlias = Literal["rate", "overload"]
"""Why a provider turns a call away: we ask too often, or it has too much to do."""


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
        """How long the provider asks us to wait."""
        self.ends_target = ends_target
        """Would every other call of this target fail in the same way?"""


class Provider(Protocol):
    outside: bool
    """Does a call leave this process? Then it can be in doubt after a crash, and is noted before it is made."""

    @property
    def limiter(self) -> Limiter | None:
        """What the target's calls have to pass before they are made; None if there is no limit."""
        ...

    async def reply(self, request: Request) -> Reply: ...

    async def close(self) -> None:
        """Let go of connections and threads."""
        ...


@runtime_checkable
class PredictsUsage(Protocol):
    """A provider that knows what it will say, or how much at most, and so what that comes to."""

    def foresee(self, request: Request) -> Usage: ...


class KeepsHistory(Protocol):
    """A provider whose target keeps conversations itself: it is told only what is new, and when one is over."""

    keeps_history: bool

    async def end(self, request: Request, *, failed: bool) -> None:
        """The conversation is over. `request`: its last one; `failed`: its case did not pass, or it was cut off."""
        ...


@runtime_checkable
class HasWorkspaces(Protocol):
    """A provider of agents, each of which works in a folder of its own."""

    def take_up(self, request: Request) -> bool:
        """Can a conversation of a killed run go on with this turn? If not, what is left of it is removed."""
        ...

    def workspace_of(self, conversation_id: str) -> Workspace | None:
        """None where the conversation is over."""
        ...


class Handed(Struct, frozen=True):
    """What a program is handed beside its settings: keys, and a home in which the user is logged in."""

    keys: tuple[str, ...] = ()
    vendors: tuple[str, ...] = ()
    """What the names of variables begin with that can tell it an address; none: it may be any."""
    has_login: bool = False


@runtime_checkable
class RunsProgram(Protocol):
    """A provider that runs a program which may hand its keys on."""

    @property
    def handed(self) -> Handed: ...


class ReplyWithin(Protocol):
    """The method `reply_within` of a provider that ends a call itself when its time is up, because it knows how far the
    call has come."""

    async def __call__(self, request: Request, timeout_s: float | None) -> Reply: ...
