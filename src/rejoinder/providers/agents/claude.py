"""Claude Code: one process for all turns of a conversation, which takes prompts and prints events as lines of JSON."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import msgspec

from rejoinder.model import Usage
from rejoinder.providers.agents.agent_json import at, count_at, list_at, money_at, text_at, text_of
from rejoinder.providers.agents.commands import above_zero, added_words, command_of, flag, start
from rejoinder.providers.agents.driver import AgentTurn, Clock, Seat, failed
from rejoinder.providers.agents.kinds import AgentKind
from rejoinder.providers.agents.mcp_servers import McpServer, read_mcp_servers
from rejoinder.providers.agents.permissions import Permissions, read_permissions
from rejoinder.providers.agents.streamed import SETTLE_S, Calls, ended_early, receive
from rejoinder.providers.base import ProviderError
from rejoinder.providers.settings import Settings
from rejoinder.user_code.line_process import LineFault, LineProcess

_CALLED = "claude"
_TOOLS = {
    "read": ("Read", "Skill", "ListMcpResourcesTool", "ReadMcpResourceTool"),
    "search": ("Grep", "Glob", "LSP", "ToolSearch", "ListAgents"),
    "edit": ("Edit", "Write", "NotebookEdit"),
    "execute": ("Bash", "BashOutput", "KillShell", "Monitor", "TaskStop"),
    "fetch": ("WebFetch", "WebSearch"),
    "think": ("TodoWrite", "TaskCreate", "TaskGet", "TaskList", "TaskUpdate", "ReportFindings"),
    "switch_mode": ("EnterPlanMode", "ExitPlanMode", "EnterWorktree", "ExitWorktree"),
    "other": (
        *("Task", "Agent", "Workflow", "SendMessage", "DesignSync", "RemoteTrigger"),
        *("CronCreate", "CronDelete", "CronList", "ScheduleWakeup"),
    ),
}
"""Its tools by kind; it deletes and moves files by shell commands."""
_FAILURES = {
    "error_max_turns": "claude reached `max_turns` before it was done",
    "error_max_budget_usd": "claude reached `max_budget_usd` before it was done",
    "error_during_execution": "claude failed",
    "error_max_structured_output_retries": "claude gave no answer in the requested form",
}


class ClaudeDriver:
    """A conversation with Claude Code. If its process ends, another process continues the session."""

    def __init__(self, kind: AgentKind, settings: Settings, seat: Seat) -> None:
        """Raises UsageError."""
        permissions = read_permissions(settings)
        servers = read_mcp_servers(settings)
        self._seat = seat
        self._words = (
            *command_of(kind, settings),
            *("-p", "--input-format", "stream-json", "--output-format", "stream-json", "--verbose"),
            *_permission_words(permissions, servers),
            *_server_words(servers),
            *flag("--model", settings.text("model")),
            *flag("--max-turns", above_zero(settings, "max_turns", int)),
            *flag("--max-budget-usd", above_zero(settings, "max_budget_usd", float)),
        )
        self._added = added_words(settings)
        self._variables = _variables(permissions, servers)
        self._process: LineProcess | None = None
        self._session = seat.continues
        self._spent = None if seat.continues else 0.0
        """The cost of the session so far; None if unknown."""

    async def ask(self, prompt: str, clock: Clock) -> AgentTurn:
        process = self._process
        if process is not None and process.exit_code is not None:
            await self.close()
            process = None
        turn = _Turn(begun=process is None)
        if process is None:
            process = self._process = start(self._command(), self._seat, _CALLED, self._variables)
        try:
            await _pass_over_late(process)
            process.send({"type": "user", "message": {"role": "user", "content": prompt}})
            while not turn.over:
                event = await receive(process, clock)
                if event is None:
                    raise ended_early(process, _CALLED)
                turn.take(event)
        except BaseException:
            self._process = None
            await process.close()
            raise
        finally:
            self._session = turn.session or self._session
        cost = turn.cost_since(self._spent)
        self._spent = turn.spent
        if failure := turn.failure():
            raise failure
        return turn.made(cost)

    async def close(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            await process.close(grace_s=SETTLE_S)

    def _command(self) -> tuple[str, ...]:
        session = ("--resume", self._session) if self._session else ("--session-id", self._seat.conversation_id)
        return *self._words, *session, *self._added


def _permission_words(permissions: Permissions, servers: tuple[McpServer, ...]) -> tuple[str, ...]:
    """Rejected tools are set to "ask", and no one grants the request: so the attempt is reported as a denial. Without
    that rule Claude Code runs read-only commands without asking."""
    if permissions.all_allowed:
        return "--permission-mode", "bypassPermissions"
    tools = {**_TOOLS, "other": (*_TOOLS["other"], *(f"mcp__{server.name}" for server in servers))}
    allowed = [tool for kind, named in tools.items() if permissions.allows(kind) for tool in named]
    asked = [tool for kind, named in tools.items() if not permissions.allows(kind) for tool in named]
    rules = msgspec.json.encode({"permissions": {"ask": asked}}).decode()
    granted = ("--allowedTools", ",".join(allowed)) if allowed else ()
    return "--permission-mode", "default", *granted, "--settings", rules


def _server_words(servers: tuple[McpServer, ...]) -> tuple[str, ...]:
    if not servers:
        return ()
    plain = {
        server.name: {"type": "stdio", "command": server.command, "args": server.args, "env": server.env}
        if server.command
        else {"type": "http", "url": server.url, "headers": server.headers}
        for server in servers
    }
    return "--mcp-config", msgspec.json.encode({"mcpServers": plain}).decode(), "--strict-mcp-config"


def _variables(permissions: Permissions, servers: tuple[McpServer, ...]) -> dict[str, str]:
    """Variables for the process. As root, Claude Code refuses to allow everything unless a variable says it is
    sandboxed."""
    is_root = hasattr(os, "geteuid") and os.geteuid() == 0
    locked_in = {"IS_SANDBOX": "1"} if is_root and permissions.all_allowed else {}
    shown = {"ENABLE_TOOL_SEARCH": "false"} if servers else {}  # otherwise its model has to search for the tools
    return {**locked_in, **shown}


async def _pass_over_late(process: LineProcess) -> None:
    """Discard what it printed after its last turn ended."""
    try:
        while await process.receive(silence_s=0, until=None) is not None:
            pass
    except LineFault:
        return


class _Turn:
    """A turn that is being received: from `system/init` to `result`."""

    def __init__(self, *, begun: bool) -> None:
        """`begun`: output of an earlier turn can no longer arrive."""
        self._begun = begun
        self._result: Mapping[str, Any] | None = None
        self._thoughts: list[str] = []
        self._calls = Calls()
        self._notes: list[str] = []
        self._model = ""
        self._unauthorised = False
        self.session = ""

    @property
    def over(self) -> bool:
        return self._result is not None

    @property
    def spent(self) -> float | None:
        """The cost of the whole session."""
        return money_at(self._result, "total_cost_usd")

    def take(self, event: Mapping[str, Any]) -> None:
        type = text_at(event, "type")
        if type == "system" and text_at(event, "subtype") == "init":
            self._begin(event)
        elif not self._begun:
            return
        elif type == "system" and text_at(event, "subtype") == "permission_denied":
            self._calls.deny(text_at(event, "tool_use_id"))
        elif type == "assistant":
            self._take_reply(event)
        elif type == "user":
            self._take_results(event)
        elif type == "result":
            self._finish(event)

    def cost_since(self, spent: float | None) -> float | None:
        """The cost of the turn, if the session had cost `spent` before."""
        models = at(self._result, "model_usage_since_last_result")
        if isinstance(models, dict):
            costs = [money_at(model, "costUSD") for model in models.values()]
            return None if None in costs else sum(cost for cost in costs if cost is not None)
        if self.spent is None or spent is None:
            return None
        return max(0.0, round(self.spent - spent, 12))

    def failure(self) -> ProviderError | None:
        subtype = text_at(self._result, "subtype")
        errors = "; ".join(error for error in list_at(self._result, "errors") if isinstance(error, str))
        if subtype != "success":
            what = _FAILURES.get(subtype, f"claude ended its turn with `{subtype}`")
            return failed(f"{what}{f': {errors}' if errors else ''}")
        if at(self._result, "is_error") is True:
            said = text_at(self._result, "result") or errors or "it does not say why"
            status = count_at(self._result, "api_error_status") or None
            return failed(f"claude failed: {said}", status=status, unauthorised=self._unauthorised)
        return None

    def made(self, cost: float | None) -> AgentTurn:
        read = count_at(self._result, "usage", "cache_read_input_tokens")
        written = count_at(self._result, "usage", "cache_creation_input_tokens")
        return AgentTurn(
            text=text_at(self._result, "result"),
            thinking="\n\n".join(self._thoughts),
            tool_calls=self._calls.all(),
            usage=Usage(
                count_at(self._result, "usage", "input_tokens") + read + written,
                count_at(self._result, "usage", "output_tokens"),
                reasoning_tokens=count_at(self._result, "usage", "output_tokens_details", "thinking_tokens"),
                cached_tokens=read,
                cache_write_tokens=written,
            ),
            cost=cost,
            stop_reason=text_at(self._result, "stop_reason") or None,
            session=self.session or None,
            model=self._model or None,
            notes=tuple(self._notes),
        )

    def _begin(self, event: Mapping[str, Any]) -> None:
        self._begun = True
        self.session = text_at(event, "session_id")
        self._model = text_at(event, "model")
        if version := text_at(event, "claude_code_version"):
            self._notes.append(f"claude {version}")
        for server in list_at(event, "mcp_servers"):
            if text_at(server, "status") == "failed":
                self._notes.append(f"claude cannot reach the MCP server `{text_at(server, 'name')}`")

    def _take_reply(self, event: Mapping[str, Any]) -> None:
        self._unauthorised = text_at(event, "error") == "authentication_failed"
        for block in list_at(event, "message", "content"):
            if text_at(block, "type") == "tool_use":
                name = text_at(block, "name").removeprefix("mcp__")
                self._calls.begin(text_at(block, "id"), name, at(block, "input") or {})
            elif text_at(block, "type") == "thinking" and at(event, "parent_tool_use_id") is None:
                self._thoughts.append(text_at(block, "thinking"))

    def _take_results(self, event: Mapping[str, Any]) -> None:
        for about in list_at(event, "tool_result_meta"):
            if text_at(about, "permission_decision", "decision") == "reject":
                self._calls.deny(text_at(about, "id"))
        for block in list_at(event, "message", "content"):
            if text_at(block, "type") == "tool_result":
                status = "failed" if at(block, "is_error") is True else "completed"
                self._calls.end(text_at(block, "tool_use_id"), text_of(at(block, "content")), status)

    def _finish(self, event: Mapping[str, Any]) -> None:
        self._result = event
        self.session = self.session or text_at(event, "session_id")
        for denial in list_at(event, "permission_denials"):
            id = text_at(denial, "tool_use_id")
            if not self._calls.has(id):
                name = text_at(denial, "tool_name").removeprefix("mcp__")
                self._calls.begin(id, name, at(denial, "tool_input") or {})
            self._calls.deny(id)
