"""The actions of an agent in one turn, read from updates of the Agent Client Protocol."""

from __future__ import annotations

import time
from collections.abc import Mapping, Set
from typing import Any

import msgspec

from rejoinder.model import ToolCall
from rejoinder.providers.agents.agent_json import as_items, as_mapping, text_at
from rejoinder.providers.agents.permissions import Permissions
from rejoinder.user_code.line_process import LineFault

MOST_SAID = 32 << 20
"""Maximum characters per turn: an agent that writes more is ended."""
_ALLOWING = ("allow_once", "allow_always")
_REJECTING = ("reject_once", "reject_always")
_OUTPUTS = ("aggregated_output", "output", "content", "message")
"""Fields that can hold the text of an output that is an object."""
CANCELLED: Mapping[str, Any] = {"outcome": {"outcome": "cancelled"}}
"""The answer to a request for permission that is neither granted nor rejected."""


class Turn:
    """Collects updates between a prompt and its answer."""

    def __init__(self, permissions: Permissions, earlier: Set[str], warnings: tuple[str, ...]) -> None:
        """`earlier`: tool calls of the turns before."""
        self._permissions = permissions
        self._earlier = earlier
        self._warnings = warnings
        self._messages: list[list[str]] = []
        self._message_id: Any = None
        self._thoughts: list[str] = []
        self._calls: dict[str, _Call] = {}
        self._notes: dict[str, None] = {}
        self._said = 0

    @property
    def messages(self) -> list[str]:
        """The texts that the agent wrote, split at tool calls."""
        return [text for text in ("".join(message) for message in self._messages) if text.strip()]

    @property
    def thinking(self) -> str:
        return "".join(self._thoughts)

    @property
    def notes(self) -> tuple[str, ...]:
        return tuple(self._notes)

    @property
    def ids(self) -> Set[str]:
        return self._calls.keys()

    @property
    def was_denied(self) -> bool:
        return any(call.denied for call in self._calls.values())

    def tool_calls(self) -> tuple[ToolCall, ...]:
        return tuple(call.told(id) for id, call in self._calls.items())

    def take(self, update: Mapping[str, Any]) -> None:
        """Take an update. Raises LineFault if the turn becomes too long."""
        kind = update.get("sessionUpdate")
        if kind == "agent_message_chunk":
            self._say(_block_text(update.get("content")), update.get("messageId"))
        elif kind == "agent_thought_chunk":
            self._thoughts.append(self._counted(_block_text(update.get("content"))))
        elif kind in ("tool_call", "tool_call_update"):
            id = text_at(update, "toolCallId")
            if kind == "tool_call_update" and id in self._earlier and id not in self._calls:
                return  # something that ran in the background
            self._counted(self._call(id).take(update))
            self._message_id = self  # what it says next is another message
        elif kind == "plan":
            self._notes = {note: None for note in self._notes if not note.startswith("plan: ")}
            self._notes[self._counted(_plan(update))] = None

    def permit(self, params: Mapping[str, Any]) -> Mapping[str, Any]:
        """Answer a request for permission, by the kind of tool and the kinds of options."""
        asked = as_mapping(params.get("toolCall"))
        call = self._call(text_at(asked, "toolCallId"))
        call.fill(asked)
        allowed = self._permissions.allows(text_at(asked, "kind") or call.kind or "other")
        option = _option(params, _ALLOWING) if allowed else None
        call.denied = option is None
        if option is None:
            option = _option(params, _REJECTING)
        return CANCELLED if option is None else {"outcome": {"outcome": "selected", "optionId": option}}

    def _say(self, text: str, message_id: Any) -> None:
        if text.startswith(self._warnings):
            self._notes[self._counted(text)] = None
            return
        if not self._messages or message_id != self._message_id:
            self._messages.append([])
        self._message_id = message_id
        self._messages[-1].append(self._counted(text))

    def _call(self, id: str) -> _Call:
        return self._calls.setdefault(id, _Call())

    def _counted(self, text: str) -> str:
        self._said += len(text) + 100
        if self._said > MOST_SAID:
            raise LineFault(f"the agent says more than {MOST_SAID >> 20} MiB in one turn", "flood")
        return text


class _Call:
    """A tool call, collected from updates."""

    def __init__(self) -> None:
        self.denied = False
        self.kind = ""
        self._title = ""
        self._arguments = ""
        self._result: str | None = None
        self._status = ""
        self._started_at = time.time()
        self._started = time.monotonic()
        self._duration_s: float | None = None

    def take(self, update: Mapping[str, Any]) -> str:
        """Take an update; return the result so far if the update changes it."""
        self._title = text_at(update, "title") or self._title
        self.kind = text_at(update, "kind") or self.kind
        if update.get("rawInput") is not None:
            self._arguments = _json(update["rawInput"])
        result = _result(update)
        self._result = self._result if result is None else result
        self._status = text_at(update, "status") or self._status
        if self._status in ("completed", "failed") and self._duration_s is None:
            self._duration_s = max(time.monotonic() - self._started, 0.0)
        return result or ""

    def fill(self, asked: Mapping[str, Any]) -> None:
        """Take details from a permission request that no update has given. Some agents describe a call only there;
        others write different details there."""
        self._title = self._title or text_at(asked, "title")
        self.kind = self.kind or text_at(asked, "kind")
        if not self._arguments and asked.get("rawInput") is not None:
            self._arguments = _json(asked["rawInput"])

    def told(self, id: str) -> ToolCall:
        done = self._status if self._status in ("completed", "failed") else "pending"
        return ToolCall(
            self._title or self.kind or "other",
            self._arguments or "{}",
            id,
            self._result,
            "denied" if self.denied else done,
            self._started_at,
            self._duration_s,
        )


def _option(params: Mapping[str, Any], kinds: tuple[str, ...]) -> str | None:
    """The option of the first of these kinds that is offered."""
    options = as_items(params.get("options"))
    for kind in kinds:
        for option in options:
            if option.get("kind") == kind and isinstance(option.get("optionId"), str):
                return option["optionId"]
    return None


def _result(update: Mapping[str, Any]) -> str | None:
    """The output, verbatim if it is text, otherwise what is shown of it; None if the update has neither."""
    output = update.get("rawOutput")
    if isinstance(output, str):
        return output
    if isinstance(output, list) and (text := _joined(output)):
        return text
    shown = _joined(block.get("content") or block for block in as_items(update.get("content")))
    if shown or output is None:
        return shown or None
    texts = (text_at(output, key) for key in _OUTPUTS)
    return next(filter(None, texts), None) or _json(output)


def _joined(blocks: Any) -> str:
    return "\n".join(text for block in blocks if (text := _block_text(block)))


def _block_text(block: Any) -> str:
    """The text of a content block: the address of a link, the file of a file change."""
    if text_at(block, "type") == "diff":
        return text_at(block, "path")
    return text_at(block, "text") or text_at(block, "resource", "text") or text_at(block, "uri")


def _plan(update: Mapping[str, Any]) -> str:
    entries = as_items(update.get("entries"))
    return "plan: " + "; ".join(f"{text_at(one, 'content')} ({text_at(one, 'status')})" for one in entries)


def _json(value: Any) -> str:
    try:
        return msgspec.json.encode(value).decode()
    except (TypeError, ValueError, RecursionError):  # nested too deep
        return "{}"
