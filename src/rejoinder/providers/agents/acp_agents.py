"""How the agents that speak the Agent Client Protocol differ: what their numbers count, what they do not take, and what
they say where others report an error. Each was seen to do so."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, TypeAlias

from msgspec import Struct, structs

from rejoinder.model import NO_USAGE, Usage
from rejoinder.providers.agents.agent_json import as_mapping, at, count_at, list_at, money_at, text_at

Counts: TypeAlias = Literal["turn", "process", "last call"]
"""What an agent's `usage` counts: the turn; all turns since the process was started; the last call of its model."""


class Manner(Struct, frozen=True, kw_only=True):
    """How an agent differs from what the protocol says."""

    counts: Counts = "turn"
    takes_programs: bool = True
    """Does it take MCP servers that are programs?"""
    error: str = ""
    """How a reply begins that is an error."""
    warnings: tuple[str, ...] = ()
    """How what it says begins if it is a warning of its own, not its model's words."""
    logins: Mapping[str, str] = {}
    """The method of authentication that goes with a variable, in a home if none was chosen."""
    full_mode: str = ""
    """The mode without which it does not even ask for what is allowed."""
    variables: Mapping[str, str] = {}
    """What makes it ask for permission."""
    model_variable: str = ""
    """Where it reads its model from, if it offers no choice in the session."""


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
    """The manner of the first name that is known: of a program, or as the agent calls itself."""
    for name in names:
        plain = name.lower().replace("\\", "/").rsplit("/", 1)[-1]
        manner = _MANNERS.get(_OTHER_NAMES.get(plain, plain))
        if manner is not None:
            return manner
    return UNKNOWN


class Accounts:
    """What an agent has told of tokens and cost, and what of it belongs to the turn."""

    def __init__(self, *, is_new: bool) -> None:
        """`is_new`: the session began here; the costs of one that goes on hold what was before."""
        self._tokens = NO_USAGE
        """As last told, if that is a sum."""
        self._cost: float | None = 0.0 if is_new else None
        """As told when the turn began; None if that is not known."""
        self._told_cost: float | None = None

    def begin(self) -> None:
        """A turn begins."""
        if self._told_cost is not None:
            self._cost, self._told_cost = self._told_cost, None

    def hear(self, update: Mapping[str, Any]) -> None:
        """Take a `usage_update`: the cost in it is that of the session."""
        amount = money_at(update, "cost", "amount")
        if text_at(update, "cost", "currency").upper() == "USD" and amount is not None:
            self._told_cost = amount

    def cost(self) -> float | None:
        """Of this turn."""
        if self._told_cost is None or self._cost is None:
            return None
        return max(self._told_cost - self._cost, 0.0)

    def tokens(self, answer: Mapping[str, Any], counts: Counts, *, used_tools: bool) -> Usage:
        """Of this turn, by the answer to its prompt."""
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
    """Whether cached tokens and thoughts are counted again in the others is told by the sum of all."""
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
