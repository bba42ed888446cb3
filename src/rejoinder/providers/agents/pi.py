"""pi: a process for each turn of a conversation, which prints events as lines of JSON."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rejoinder.model import NO_USAGE, Usage
from rejoinder.providers.agents.agent_json import at, count_at, list_at, money_at, text_at, text_of
from rejoinder.providers.agents.commands import added_words, command_of, flag
from rejoinder.providers.agents.driver import AgentTurn, Clock, Seat, failed
from rejoinder.providers.agents.kinds import AgentKind
from rejoinder.providers.agents.permissions import read_permissions
from rejoinder.providers.agents.streamed import Calls, OncePerTurn, ended_early
from rejoinder.providers.base import ProviderError
from rejoinder.providers.settings import Settings
from rejoinder.user_code.line_process import LineProcess

_CALLED = "pi"
_FAILED = ("error", "aborted")
_GOES_ON = ("agent_start", "auto_retry_start", "compaction_start", "auto_compaction_start")
"""Events after which pi continues its work although it reported the end."""


class PiDriver(OncePerTurn):
    """A conversation with pi: a session that each process continues."""

    def __init__(self, kind: AgentKind, settings: Settings, seat: Seat) -> None:
        """Raises UsageError."""
        if not read_permissions(settings).all_allowed:
            raise settings.error("cannot restrict pi, which never asks for permission; write `permissions: allow`")
        if settings.values.get("mcp_servers"):
            raise settings.error("has `mcp_servers`, which pi does not accept")
        super().__init__(seat, _CALLED)
        self._words = (
            *command_of(kind, settings),
            *("-p", "--mode", "json", "--session-dir", str(seat.home / ".pi" / "sessions")),
            *flag("--model", settings.text("model")),
            *added_words(settings),
        )

    async def ask(self, prompt: str, clock: Clock) -> AgentTurn:
        turn = _Turn()
        await self.play((*self._words, *flag("--session", self._session)), turn, prompt, clock)
        return turn.made()


class _Turn:
    """A turn that is being received. The model's last message is the answer; a failed one may have been retried."""

    def __init__(self) -> None:
        self._last: Mapping[str, Any] = {}
        self._thoughts: list[str] = []
        self._calls = Calls()
        self._usage = NO_USAGE
        self._cost: float | None = None
        self._notes: list[str] = []
        self._over = False
        self.session = ""

    @property
    def over(self) -> bool:
        """Whether the turn is over. After a failure pi may ask its model again."""
        return self._over and text_at(self._last, "stopReason") not in _FAILED

    def take(self, event: Mapping[str, Any]) -> None:
        type = text_at(event, "type")
        if type == "session":
            self.session = text_at(event, "id")
        elif type == "message_end" and text_at(event, "message", "role") == "assistant":
            self._take_reply(event["message"])
        elif type == "tool_execution_start":
            self._calls.begin(text_at(event, "toolCallId"), text_at(event, "toolName"), at(event, "args") or {})
        elif type == "tool_execution_end":
            status = "failed" if at(event, "isError") is True else "completed"
            self._calls.end(text_at(event, "toolCallId"), text_of(at(event, "result", "content")), status)
        elif type == "agent_end":
            self._over = True
        elif type in _GOES_ON:
            self._over = False

    def failure(self, process: LineProcess) -> ProviderError | None:
        """Why this process's turn failed; None if it did not fail. The exit code may be 0 even after a failure."""
        if text_at(self._last, "stopReason") in _FAILED:
            said = text_at(self._last, "errorMessage") or "it does not say why"
            status = said[:3]
            return failed(f"pi failed: {said}", status=int(status) if status.isdigit() else None)
        if not self._over or process.exit_code:
            return ended_early(process, _CALLED)
        return None

    def made(self) -> AgentTurn:
        return AgentTurn(
            text=text_of(at(self._last, "content")),
            thinking="\n\n".join(self._thoughts),
            tool_calls=self._calls.all(),
            usage=self._usage,
            cost=self._cost,
            stop_reason=text_at(self._last, "stopReason") or None,
            session=self.session or None,
            model=text_at(self._last, "model") or None,
            notes=tuple(self._notes),
        )

    def _take_reply(self, message: Mapping[str, Any]) -> None:
        if text_at(self._last, "stopReason") in _FAILED:
            self._notes.append(f"pi asked again after: {text_at(self._last, 'errorMessage')}")
        self._last = message
        self._thoughts += [
            text_at(block, "thinking") for block in list_at(message, "content") if text_at(block, "type") == "thinking"
        ]
        read, written = count_at(message, "usage", "cacheRead"), count_at(message, "usage", "cacheWrite")
        self._usage += Usage(
            count_at(message, "usage", "input") + read + written,
            count_at(message, "usage", "output"),
            cached_tokens=read,
            cache_write_tokens=written,
        )
        cost = money_at(message, "usage", "cost", "total")
        if cost is not None:
            self._cost = (self._cost or 0.0) + cost
