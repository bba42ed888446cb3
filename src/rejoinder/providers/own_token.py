"""The token of a target (`auth`): a command prints it, and each request has it as `Authorization: Bearer`.

All conversations of a run share it, and one command runs at a time. The token is a secret from the moment it is known.
"""

from __future__ import annotations

import asyncio
import re
import time
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import msgspec
from msgspec import Struct

from rejoinder.errors import UsageError
from rejoinder.model import Target
from rejoinder.providers.base import ProviderError
from rejoinder.providers.own_commands import OwnCommand, read_command
from rejoinder.providers.settings import normalize_keys
from rejoinder.user_code.processes import Command, run_process
from rejoinder.user_code.programs import Guard, ProcessFault

if TYPE_CHECKING:
    from rejoinder.providers.shared import Exchange

TIMEOUT_S = 60.0
MOST_OUTPUT = 64 << 10
_SPARE = 0.1
"""The part of a token's life in which it is not used any more: a request takes time."""
_TOKEN = re.compile(r"[!-~]+")
_JSON = re.compile(r"[\[\"]|(?:null|undefined|None|true|false)\Z")
"""Output that cannot be a token: `jq` prints `null` if a key is missing."""
_UNSAID = "its output is not recorded, because it may have the token: run it yourself to see the cause"


class _Token(Struct, frozen=True):
    text: str
    until: float
    """The time of its renewal, by the monotonic clock."""


class TokenSource:
    """Gets a token by a command, and renews it."""

    def __init__(
        self, name: str, command: OwnCommand, refresh_s: float | None, timeout_s: float, exchange: Exchange
    ) -> None:
        self._name = name
        self._command = command
        self._refresh_s = refresh_s
        self._timeout_s = timeout_s
        self._exchange = exchange
        self._once = asyncio.Lock()
        self._token: _Token | None = None
        self._failure: ProviderError | None = None
        """Why there is none. The command is not run again."""

    async def get(self, refused: str = "") -> str:
        """The token; another one than `refused`, which a service did not take. Raises ProviderError."""
        async with self._once:
            if self._failure is not None:
                raise self._failure
            known = self._token
            if known is None or known.text == refused or time.monotonic() >= known.until:
                self._token = known = await self._renew()
            return known.text

    async def close(self) -> None:
        pass

    async def _renew(self) -> _Token:
        owner = str(uuid4())
        guard = Guard(owner)
        command = Command(
            words=self._command.words,
            folder=self._command.folder,
            environment=dict(self._command.environment),
            timeout_s=self._timeout_s,
            most_stdout=MOST_OUTPUT,
            called="command",
            owner=owner,
        )
        try:
            ended = await run_process(command)
        except ProcessFault as fault:
            raise self._fault(fault.brief) from None
        finally:
            guard.close()
        if ended.exit_code:
            raise self._fault(f"the command {ended.how()}; {_UNSAID}")
        text, expires_s = self._read(ended.stdout)
        self._exchange.learn(text, f"token of target {self._name}")
        lives_s = min((one for one in (self._refresh_s, expires_s) if one is not None), default=None)
        return _Token(text, float("inf") if lives_s is None else time.monotonic() + lives_s)

    def _read(self, printed: str) -> tuple[str, float | None]:
        """The token, and the seconds for which it is used. What is wrong with it is said without it."""
        text, expires_s = printed.strip(), None
        if text.startswith("{"):
            try:
                told: Any = msgspec.json.decode(text)
            except (msgspec.DecodeError, RecursionError):
                raise self._fault("the command printed JSON that cannot be read") from None
            found = next((told[key] for key in ("token", "access_token") if key in told), None)
            if not isinstance(found, str):
                raise self._fault("the command printed JSON without a text `token`")
            text, expires_s = found.strip(), self._seconds(told.get("expires_in"))
        elif _JSON.match(text):
            raise self._fault("the command printed JSON that is not an object; print the token without quotes")
        text = text.removeprefix("Bearer ").strip()
        if not _TOKEN.fullmatch(text):
            what = "something that has white space, or characters beyond ASCII" if text else "nothing"
            raise self._fault(f"the command printed {what}")
        return text, expires_s

    def _seconds(self, told: Any) -> float | None:
        """For how long a token that says its life is used."""
        if told is None:
            return None
        try:
            lives_s = float("nan" if isinstance(told, bool) else told)
        except (TypeError, ValueError, OverflowError):
            lives_s = float("nan")
        if not 0 < lives_s < float("inf"):
            raise self._fault("the command printed JSON whose `expires_in` is not a number of seconds above 0")
        return lives_s * (1 - _SPARE)

    def _fault(self, what: str) -> ProviderError:
        message = f"`auth` of target `{self._name}` gives no token: {what}"
        self._failure = ProviderError(message, type="auth", ends_target=True)
        return self._failure


def open_token(target: Target, folders: tuple[str, ...], exchange: Exchange) -> TokenSource | None:
    """The source of a target's token; None if it has none. No command is run."""
    auth = normalize_keys(normalize_keys(target.settings).get("auth") or {})
    if not auth:
        return None
    what = f"`auth` of target `{target.name}`"
    if not isinstance(auth.get("command"), list | tuple):
        raise UsageError(f"{what} needs a `command` that is a list of words")
    command = read_command(auth, folders, what)
    refresh_s = None if auth.get("refresh") is None else float(auth["refresh"])
    timeout_s = float(auth.get("timeout_seconds") or TIMEOUT_S)
    key = TokenSource, command, refresh_s
    return exchange.shared(key, lambda: TokenSource(target.name, command, refresh_s, timeout_s, exchange))
