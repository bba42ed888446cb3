"""Messages and their parts, as an author wrote them, with the text of attached files already at hand.

Invariants: parts keep the order of the document; `text` is raw (formatting trims it, nothing else does);
`at` is the place in the document that a diagnostic names.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

from msgspec import Struct

Role: TypeAlias = Literal["system", "user", "assistant", "tool"]
ROLES: tuple[Role, ...] = ("system", "user", "assistant", "tool")


class TextPart(Struct, frozen=True, tag="text", tag_field="part"):
    text: str
    at: str


class FilePart(Struct, frozen=True, tag="file", tag_field="part"):
    """An attached file. `text` is None when the file is missing or cannot be read as text."""

    path: str
    """The path as written."""
    text: str | None
    at: str
    resolved: str | None = None
    """The absolute path, when the file was found."""
    from_roots: tuple[str, ...] = ()
    """The path from the project root and from the repository root, for guideline patterns."""


class OtherPart(Struct, frozen=True, tag="other", tag_field="part"):
    """A part of a type that this version does not know. Validation refuses it; formatting passes over it."""

    type: str
    at: str


Part: TypeAlias = TextPart | FilePart | OtherPart


class ToolCall(Struct, frozen=True, omit_defaults=True):
    """A tool that an assistant calls. `arguments` is JSON text, as the model wrote it."""

    name: str
    arguments: str = "{}"
    id: str = ""


class Message(Struct, frozen=True, omit_defaults=True):
    role: Role
    parts: tuple[Part, ...]
    at: str
    tool_calls: tuple[ToolCall, ...] = ()
    tool_call_id: str = ""
    """The call that a tool's message answers."""


class ChatMessage(Struct, frozen=True, omit_defaults=True):
    """One message as an LLM API receives it, before a provider maps roles."""

    role: Role
    content: str
    tool_calls: tuple[ToolCall, ...] = ()
    tool_call_id: str = ""
