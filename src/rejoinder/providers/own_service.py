"""The service that a target is (`start`): read from its settings, started before the first call, ended with the run.

Targets with the same `start` share one service. Nothing is started where every answer is recorded, because only a call
asks for it. A service that answers before the start is another one, and is never tested.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from rejoinder.errors import UsageError
from rejoinder.model import Target
from rejoinder.providers.base import ProviderError
from rejoinder.providers.own_commands import read_command
from rejoinder.providers.settings import normalize_keys
from rejoinder.user_code.service import ServiceCommand, ServiceFault, ServiceProcess

if TYPE_CHECKING:
    from rejoinder.providers.shared import Exchange

READY_S = 60.0
_NEXT_LOOK_S = 0.1
_ONE_LOOK_S = 5.0
"""Seconds that one request to the address of `ready` may take."""
_LOOKS_BEFORE = 5
"""Looks at an address that has to be free: the service of a run that was just killed takes a moment to go."""
_UNREACHED = frozenset({"address", "proxy"})
"""Errors of an address that no wait changes."""
_LINE = "line:"


class OwnService:
    """A target's service. `ensure` before each call."""

    def __init__(
        self, name: str, command: ServiceCommand, url: str, addresses: Iterable[str], exchange: Exchange
    ) -> None:
        self._name = name
        self._url = url
        self._addresses = tuple(dict.fromkeys(filter(None, map(_place, addresses))))
        self._exchange = exchange
        self._environment = dict(command.environment)
        self._process = ServiceProcess(command, answers=self._wait_for_answer if url else None, write=self._write)
        self._once = asyncio.Lock()
        self._runs = False
        self._failure: ProviderError | None = None

    async def ensure(self) -> None:
        """Start it before the first call; later, look whether it still runs. Raises ProviderError, or ShutDown."""
        async with self._once:
            if self._failure is None:
                try:
                    await self._start_or_look()
                except ServiceFault as fault:
                    self._fail(f"the service {fault}")
                    await self._process.close()
            if self._failure is not None:
                raise self._failure

    async def explain(self, error: ProviderError) -> ProviderError:
        """The error of a call, or the end of the service if that is its cause."""
        if self._failure is not None:
            return self._failure
        try:
            await self._process.refuse_ended(soon=error.type in ("broken", "connection"))
        except ServiceFault as fault:
            return self._fail(f"the service {fault}")
        return error

    def stop(self) -> None:
        self._process.stop()

    async def close(self) -> None:
        await self._process.close()

    async def _start_or_look(self) -> None:
        if self._runs:
            await self._process.refuse_ended()
            return
        for host, port in self._addresses:
            if await _stays_taken(host, port):
                self._fail(
                    f"something else already answers at {host}:{port}, so the service was not started, and nothing was"
                    " asked: stop it, or remove `start` to test what runs there"
                )
                return
        await self._process.start()
        self._runs = True

    def _fail(self, message: str) -> ProviderError:
        self._failure = ProviderError(message, type="service", ends_target=True)
        return self._failure

    def _write(self, lines: list[str]) -> None:
        self._exchange.log_service([f"{self._name}: {line}" for line in lines])

    async def _wait_for_answer(self) -> None:
        """Ask the address of `ready` until it answers with a status below 500. Raises ServiceFault if it never can."""
        transport = self._exchange.transport(self._environment)
        while True:
            try:
                answer = await transport.send("GET", self._url, {}, None, timeout_s=_ONE_LOOK_S)
                if answer.status < 500:
                    return
            except ProviderError as error:
                if error.type in _UNREACHED:
                    raise ServiceFault(f"cannot be waited for: {error.message}") from None
            await asyncio.sleep(_NEXT_LOOK_S)


def open_service(target: Target, folders: tuple[str, ...], exchange: Exchange) -> OwnService | None:
    """The service of a target whose variables are filled in; None if it has none. Nothing is started."""
    settings = normalize_keys(target.settings)
    start = normalize_keys(settings.get("start") or {})
    if not start:
        return None
    url, line = read_ready(start.get("ready"), target.name)
    own = read_command(start, folders, f"`start` of target `{target.name}`")
    command = ServiceCommand(
        words=own.words,
        folder=own.folder,
        environment=own.environment,
        line=line,
        timeout_s=float(start.get("timeout_seconds") or READY_S),
    )
    addresses = url, str(settings.get("url") or "")
    return exchange.shared(
        (OwnService, command, url), lambda: OwnService(target.name, command, url, addresses, exchange)
    )


def read_ready(written: Any, target: str) -> tuple[str, str]:
    """The address that has to answer, or the text that a line of output has to have. Raises UsageError."""
    if isinstance(written, Mapping):
        written = f"{_LINE}{written.get('line') or ''}"
    text = str(written or "").strip()
    if text.startswith(("http://", "https://")):
        return text, ""
    line = text.removeprefix(_LINE).strip()
    if not text.startswith(_LINE) or not line:
        raise UsageError(
            f"target `{target}` has a `start` whose `ready` is neither an address nor a line of output",
            'Write `ready: http://127.0.0.1:8000/health`, or `ready: "line: TEXT"`.',
        )
    return "", line


def _place(address: str) -> tuple[str, int] | None:
    """Host and port of an address; None if it has none that is known now."""
    with contextlib.suppress(ValueError):
        parts = urlsplit(address)
        if parts.hostname and "{{" not in parts.netloc:
            return parts.hostname, parts.port or (443 if parts.scheme == "https" else 80)
    return None


async def _stays_taken(host: str, port: int) -> bool:
    for _ in range(_LOOKS_BEFORE):
        if not await _is_taken(host, port):
            return False
        await asyncio.sleep(_NEXT_LOOK_S)
    return True


async def _is_taken(host: str, port: int) -> bool:
    """Whether something accepts connections there."""
    try:
        async with asyncio.timeout(_ONE_LOOK_S):
            _, writer = await asyncio.open_connection(host, port)
    except (OSError, TimeoutError):
        return False
    writer.close()
    return True
