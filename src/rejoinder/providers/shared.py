"""Resources that all providers of a run share: transports, one limiter per provider and key, and the secrets in use."""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Protocol, TypeVar, cast

import msgspec
from msgspec import Struct

from rejoinder.model import Request
from rejoinder.model.runs import LimiterResult
from rejoinder.open_files import ConnectionRoom
from rejoinder.providers.secret_finder import SecretFinder

if TYPE_CHECKING:
    from rejoinder.providers.http_client import Transport
    from rejoinder.providers.limits import Limiter
    from rejoinder.providers.tls import ClientCertificate


class Closes(Protocol):
    async def close(self) -> None: ...


Kept = TypeVar("Kept", bound=Closes)


class Workspaces(Struct, frozen=True):
    """The run that agents' workspaces belong to, which workspaces are kept after their conversation, and where."""

    run: str = ""
    keep: Literal["failed", "all"] | None = None
    folder: Path = Path()

    def place_for(self, request: Request, *, failed: bool) -> Path | None:
        """The folder for this conversation's workspace; None if it is not kept."""
        if self.keep is None or (self.keep == "failed" and not failed):
            return None
        variant = f"-{request.variant}" if request.variant else ""
        name = f"{request.case_id}-{request.target}{variant}-{request.trial}"
        return self.folder / re.sub(r"[^\w.-]+", "_", name).lstrip(".")


class Exchange:
    def __init__(self) -> None:
        self.secret_finder = SecretFinder()
        self.learned: Callable[[str, str], None] = lambda _value, _name: None
        """Told of each secret that becomes known during the run: its value, and the name to show instead."""
        self.reveal: Callable[[str], str] = str
        """Restores the secrets in a text that was written without them."""
        self.note: Callable[[str], None] = lambda _: None
        """Writes a note about a reply that is not an error into the run's log."""
        self.show: Callable[[str], None] = lambda _: None
        """Shows a message about a target to the user while the run is in progress."""
        self.log_service: Callable[[list[str]], None] = lambda _: None
        """Writes lines of a service's output into its log."""
        self.workspaces = Workspaces()
        self._room = ConnectionRoom(self.tell)
        self._transports: dict[tuple[ClientCertificate | None, bytes], Transport] = {}
        self._limiters: dict[tuple[str, str], Limiter] = {}
        self._shared: dict[Hashable, Closes] = {}

    def learn(self, value: str, name: str) -> None:
        """A secret that became known during the run: from now on it is hidden."""
        self.secret_finder.add(value, name)
        if (known := self.secret_finder.secrets.get(value)) is not None:
            self.learned(value, known)

    def tell(self, text: str) -> None:
        """Show a message to the user now, and write it into the log."""
        self.note(text)
        self.show(text)

    def transport(self, environment: Mapping[str, str], shown: ClientCertificate | None = None) -> Transport:
        """The transport of all targets that present the same client certificate, and whose project names the same
        proxies and authorities."""
        from rejoinder.providers.routes import read_network

        way = shown, msgspec.json.encode(read_network(environment))
        if way not in self._transports:
            from rejoinder.providers.http_client import Transport

            self.secret_finder.add_addresses(environment)
            self._transports[way] = Transport(environment, client_certificate=shown, room=self._room)
        return self._transports[way]

    def limiter(self, provider: str, address: str, key: str | None) -> Limiter:
        place = (address, key or "")
        if place not in self._limiters:
            from rejoinder.providers.limits import Limiter

            self._limiters[place] = Limiter(provider)
        return self._limiters[place]

    def shared(self, key: Hashable, make: Callable[[], Kept]) -> Kept:
        """A resource that several targets use, such as a process; it is closed with the run."""
        if key not in self._shared:
            self._shared[key] = make()
        return cast("Kept", self._shared[key])

    def stop_waiting(self) -> None:
        for limiter in self._limiters.values():
            limiter.close()

    def reports(self, targets: Mapping[Limiter, Sequence[str]]) -> list[LimiterResult]:
        """The results of all limiters. `targets`: the names of those whose calls passed a limiter."""
        return [limiter.report(tuple(targets.get(limiter, ()))) for limiter in self._limiters.values()]

    async def close(self) -> None:
        for transport in self._transports.values():
            await transport.close()
        for kept in self._shared.values():
            await kept.close()
