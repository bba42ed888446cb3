"""Codex: a process for each turn of a conversation, which prints events as lines of JSON."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from rejoinder.model import NO_USAGE, Usage
from rejoinder.model.messages import ToolStatus
from rejoinder.providers.agents.agent_json import at, count_at, inner_message, list_at, text_at, text_of
from rejoinder.providers.agents.commands import added_words, command_of, flag
from rejoinder.providers.agents.driver import AgentTurn, Clock, Seat, failed
from rejoinder.providers.agents.kinds import AgentKind
from rejoinder.providers.agents.mcp_servers import McpServer, read_mcp_servers
from rejoinder.providers.agents.permissions import Permissions, read_permissions
from rejoinder.providers.agents.streamed import Calls, OncePerTurn, ended_early
from rejoinder.providers.base import ProviderError
from rejoinder.providers.settings import Settings
from rejoinder.user_code.line_process import LineProcess

_CALLED = "codex"
_KEY = re.compile(r"[A-Za-z0-9_.-]+")
_STATUSES: dict[str, ToolStatus] = {
    "completed": "completed",
    "failed": "failed",
    "declined": "denied",
    "in_progress": "pending",
}
_NOT_APPROVED = "requires approval"
"""Codex's words for a tool call that would need approval."""
_MOST_READ = 1 << 20


class CodexDriver(OncePerTurn):
    """A conversation with Codex: a session, which Codex calls a thread, that each process continues."""

    def __init__(self, kind: AgentKind, settings: Settings, seat: Seat) -> None:
        """Raises UsageError."""
        permissions = read_permissions(settings)
        said = settings.values.get("permissions")
        if isinstance(said, dict) and said.get("execute") == "reject":
            hint = "Its sandbox bounds them: `edit` and `fetch` say whether they may write and use the network."
            raise settings.error("has `execute: reject`, but Codex always runs commands", hint)
        servers = read_mcp_servers(settings)
        super().__init__(seat, _CALLED)
        # All of this comes before the word `resume`, which accepts none of it, and nothing is kept from turn to turn.
        self._words = (
            *command_of(kind, settings),
            *("exec", "--json", "--skip-git-repo-check", "-C", str(seat.workspace)),
            *_sandbox_words(permissions),
            *flag("-m", settings.text("model")),
            *_server_words(servers, permissions),
            *_config_words(settings),
            *added_words(settings),
        )
        self._used: Usage | None = None if seat.continues else NO_USAGE
        """The session's usage so far; None if unknown."""

    async def ask(self, prompt: str, clock: Clock) -> AgentTurn:
        if self._used is None and self._session:
            self._used = _recorded_usage(self._seat, self._session)
        used, self._used = self._used, None
        turn = _Turn()
        resumed = ("resume", self._session) if self._session else ()
        await self.play((*self._words, *resumed, "-"), turn, prompt, clock)
        self._used = turn.used
        return turn.made(used)


def _sandbox_words(permissions: Permissions) -> tuple[str, ...]:
    """Codex asks for no permissions: the sandbox of its commands decides what it may do."""
    if permissions.all_allowed:
        return "-s", "danger-full-access"
    if not permissions.allows("edit"):
        return "-s", "read-only"
    network = ("-c", "sandbox_workspace_write.network_access=true") if permissions.allows("fetch") else ()
    return "-s", "workspace-write", *network


def _server_words(servers: tuple[McpServer, ...], permissions: Permissions) -> tuple[str, ...]:
    approval = "approve" if permissions.allows("other") else "prompt"
    words: list[str] = []
    for server in servers:
        plain: dict[str, Any] = {"default_tools_approval_mode": approval}
        if server.command:
            plain |= {"command": server.command, "args": server.args, "env": server.env}
        else:
            plain |= {"url": server.url, "http_headers": server.headers}
        words += ["-c", f"mcp_servers.{server.name}={_toml(plain)}"]
    return tuple(words)


def _config_words(settings: Settings) -> tuple[str, ...]:
    """The target's `config`: values in the syntax of Codex's settings file."""
    said = settings.values.get("config") or {}
    if not isinstance(said, dict):
        raise settings.error("needs a `config` that maps Codex's settings to values")
    words: list[str] = []
    for name, value in said.items():
        if not _KEY.fullmatch(str(name)):
            raise settings.error(f"has a `config` with the name `{name}`, which Codex cannot have")
        words += ["-c", f"{name}={_toml(value)}"]
    return tuple(words)


def _toml(value: Any) -> str:
    """A TOML value on one line. Texts and numbers are written as in JSON."""
    if isinstance(value, Mapping):
        return "{" + ",".join(f"{_toml(str(name))}={_toml(inner)}" for name, inner in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ",".join(_toml(inner) for inner in value) + "]"
    return msgspec.json.encode("" if value is None else value).decode()


def _recorded_usage(seat: Seat, session: str) -> Usage | None:
    """The usage of a session according to Codex's own record; None if the record does not say."""
    folder = Path(seat.environment.get("CODEX_HOME") or seat.home / ".codex") / "sessions"
    found: Usage | None = None
    try:
        for file in sorted(folder.rglob(f"rollout-*{session}.jsonl")):
            with file.open("rb") as lines:
                lines.seek(max(0, file.stat().st_size - _MOST_READ))
                for line in lines:
                    if b'"token_count"' in line:
                        found = _read_recorded(line) or found
    except OSError:
        return None
    return found


def _read_recorded(line: bytes) -> Usage | None:
    try:
        total = at(msgspec.json.decode(line), "payload", "info", "total_token_usage")
    except (msgspec.DecodeError, RecursionError):
        return None
    return _usage_of(total) if isinstance(total, dict) else None


def _usage_of(counts: Any) -> Usage:
    return Usage(
        count_at(counts, "input_tokens"),
        count_at(counts, "output_tokens"),
        reasoning_tokens=count_at(counts, "reasoning_output_tokens"),
        cached_tokens=count_at(counts, "cached_input_tokens"),
        cache_write_tokens=count_at(counts, "cache_write_input_tokens"),
    )


class _Turn:
    """A turn that is being received. Errors among its events are warnings and retries; only `turn.failed` is a
    failure."""

    def __init__(self) -> None:
        self._text = ""
        self._thoughts: list[str] = []
        self._calls = Calls()
        self._notes: dict[str, None] = {}
        self._failure: str | None = None
        self.session = ""
        self.used: Usage | None = None

    @property
    def over(self) -> bool:
        return self.used is not None or self._failure is not None

    def take(self, event: Mapping[str, Any]) -> None:
        type = text_at(event, "type")
        if type == "thread.started":
            self.session = text_at(event, "thread_id")
        elif type in ("item.started", "item.updated", "item.completed") and not self.over:
            self._take_item(at(event, "item"), done=type == "item.completed")
        elif type == "error" and not self.over:
            self._note(text_at(event, "message"))
        elif type == "turn.completed" and not self.over:
            self.used = _usage_of(at(event, "usage"))
        elif type == "turn.failed" and not self.over:
            self._failure = text_at(event, "error", "message") or "it does not say why"

    def failure(self, process: LineProcess) -> ProviderError | None:
        """Why this process's turn failed; None if it did not fail."""
        if self._failure is not None:
            return failed(f"codex failed: {inner_message(self._failure)}")
        if self.used is None or process.exit_code:
            return ended_early(process, _CALLED)
        return None

    def made(self, before: Usage | None) -> AgentTurn:
        """The finished turn, if the session had used `before`."""
        return AgentTurn(
            text=self._text,
            thinking="\n\n".join(self._thoughts),
            tool_calls=self._calls.all(),
            usage=NO_USAGE if before is None or self.used is None else self.used.since(before),
            session=self.session or None,
            notes=tuple(self._notes),
        )

    def _take_item(self, item: Any, *, done: bool) -> None:
        type, id = text_at(item, "type"), text_at(item, "id")
        status = _STATUSES.get(text_at(item, "status"), "completed" if done else "pending")
        if type == "agent_message" and done:
            self._text = text_at(item, "text")
        elif type == "reasoning" and done:
            self._thoughts.append(text_at(item, "text"))
        elif type == "error":
            self._note(text_at(item, "message"))
        elif type == "command_execution":
            self._calls.begin(id, type, {"command": text_at(item, "command")})
            self._end(id, text_at(item, "aggregated_output"), status)
        elif type == "file_change":
            self._calls.begin(id, type, {"changes": list_at(item, "changes")})
            self._end(id, None, status)
        elif type == "web_search":
            self._calls.begin(id, type, {"query": text_at(item, "query")})
            self._end(id, None, status)
        elif type == "mcp_tool_call":
            self._calls.begin(id, f"{text_at(item, 'server')}__{text_at(item, 'tool')}", at(item, "arguments") or {})
            error = text_at(item, "error", "message")
            denied = status == "failed" and _NOT_APPROVED in error
            self._end(id, error or text_of(at(item, "result", "content")), "denied" if denied else status)
        elif type == "collab_tool_call":
            self._calls.begin(id, text_at(item, "tool"), {"prompt": text_at(item, "prompt")})
            self._end(id, None, status)

    def _end(self, id: str, result: str | None, status: ToolStatus) -> None:
        if status != "pending":
            self._calls.end(id, result, "completed" if status == "denied" else status)
        if status == "denied":
            self._calls.deny(id)

    def _note(self, message: str) -> None:
        if message:
            self._notes[f"codex: {message}"] = None
