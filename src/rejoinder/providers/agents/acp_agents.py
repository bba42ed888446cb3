"""Differences between agents that speak the Agent Client Protocol: what their numbers count, what they refuse, and what
they write in place of an error. Each difference was observed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, TypeAlias

from msgspec import Struct, structs

from rejoinder.model import NO_USAGE, Usage
from rejoinder.providers.agents.agent_json import as_mapping, at, count_at, list_at, money_at, text_at

Counts: TypeAlias = Literal["turn", "process", "last call"]
"""The span that an agent's `usage` counts: the turn; all turns since the process started; the last model call."""


class Manner(Struct, frozen=True, kw_only=True):
    """One agent's differences from the protocol."""

    counts: Counts = "turn"
    takes_programs: bool = True
    """Whether it accepts MCP servers that are programs."""
    error: str = ""
    """The beginning of a reply that is an error."""
    warnings: tuple[str, ...] = ()
    """Beginnings of texts that are warnings by the agent, not words of its model."""
    logins: Mapping[str, str] = {}
    """The authentication method for each key variable. It is used with an agent's own home if the target names none."""
    full_mode: str = ""
    """The mode without which the agent does not even ask for permitted actions."""
    variables: Mapping[str, str] = {}
    """Variables that make it ask for permission."""
    model_variable: str = ""
    """The variable that names its model, if the session offers no choice of models."""


UNKNOWN = Manner()
_MANNERS = {
    "claude-agent-acp": Manner(warnings=('**MCP server "',)),
    "codex-acp": Manner(warnings=("Model metadata for ",), full_mode="full-access"),
    "copilot": Manner(
        counts="process",
        takes_programs=False,
        error="Error:",
        warnings=("Info: ",),
        model_variable="COPILOT_MODEL",
    ),
    "gemini": Manner(logins={"GEMINI_API_KEY": "gemini-api-key"}),
    "opencode": Manner(
        counts="last call",
        variables={"OPENCODE_PERMISSION": '{"*":"ask","todowrite":"allow","todoread":"allow","skill":"allow"}'},
    ),
}
_OTHER_NAMES = {"gemini-cli": "gemini"}


def manner_of(*names: str) -> Manner:
    """The manner of the first known name: a program's name, or the name that the agent gives itself."""
    for name in names:
        plain = name.lower().replace("\\", "/").rsplit("/", 1)[-1]
        manner = _MANNERS.get(_OTHER_NAMES.get(plain, plain))
        if manner is not None:
            return manner
    return UNKNOWN


class Accounts:
    """Tokens and cost that an agent has reported, and the part that belongs to the turn."""

    def __init__(self, *, is_new: bool) -> None:
        """`is_new`: the session began here. The cost of a continued session includes earlier turns."""
        self._tokens = NO_USAGE
        """The last reported tokens, if the agent reports a sum."""
        self._cost: float | None = 0.0 if is_new else None
        """The reported cost when the turn began; None if unknown."""
        self._told_cost: float | None = None

    def begin(self) -> None:
        """Note that a turn begins."""
        if self._told_cost is not None:
            self._cost, self._told_cost = self._told_cost, None

    def hear(self, update: Mapping[str, Any]) -> None:
        """Take a `usage_update`: its cost is the cost of the whole session."""
        amount = money_at(update, "cost", "amount")
        if text_at(update, "cost", "currency").upper() == "USD" and amount is not None:
            self._told_cost = amount

    def cost(self) -> float | None:
        """The cost of this turn."""
        if self._told_cost is None or self._cost is None:
            return None
        return max(self._told_cost - self._cost, 0.0)

    def tokens(self, answer: Mapping[str, Any], counts: Counts, *, used_tools: bool) -> Usage:
        """The tokens of this turn, by the answer to its prompt."""
        told = as_mapping(answer.get("usage"))
        usage = _read_usage(told) if told else _read_quota(at(answer, "_meta", "quota", "token_count"))
        if usage == NO_USAGE:
            return usage
        if counts == "process":
            before, self._tokens = self._tokens, usage
            usage = usage.since(before)
        elif counts == "last call" and used_tools:  # each tool is followed by another call
            usage = structs.replace(usage, approximate=True)
        return usage


def told_model(answer: Mapping[str, Any]) -> str:
    """The model that answered, by the answer to a prompt."""
    used = list_at(answer, "_meta", "quota", "model_usage")
    return text_at(used[0], "model") if used else ""


def _read_usage(told: Mapping[str, Any]) -> Usage:
    """The reported total shows whether the other counts already include cached tokens and thoughts."""
    given, made = count_at(told, "inputTokens"), count_at(told, "outputTokens")
    read, written = count_at(told, "cachedReadTokens"), count_at(told, "cachedWriteTokens")
    thought = count_at(told, "thoughtTokens")
    rest = count_at(told, "totalTokens") - given - made
    if rest in (read + written, read + written + thought):
        given += read + written
    if thought and rest in (thought, read + written + thought):
        made += thought
    return Usage(given, made, thought, False, read, written).possible()


def _read_quota(told: Any) -> Usage:
    return Usage(count_at(told, "input_tokens"), count_at(told, "output_tokens")).possible()
