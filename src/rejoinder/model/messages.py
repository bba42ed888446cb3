"""Messages as an author wrote them, with the text of attached files included, and the messages that are sent.

Invariants: parts keep the order of the document; `text` is raw (only formatting trims it); `at` is the place in the
document that a diagnostic names.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeAlias

from msgspec import Meta, Struct

from rejoinder.model.pictures import Picture
from rejoinder.model.tools import FaultKind

Role: TypeAlias = Literal["system", "user", "assistant", "tool"]
CHARACTERS_A_TOKEN = 4
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


class ImagePart(Struct, frozen=True, tag="image", tag_field="part"):
    """A picture. `picture` is None if it cannot be used."""

    picture: Picture | None
    at: str
    resolved: str | None = None
    """The absolute path, if it is a file."""


class OtherPart(Struct, frozen=True, tag="other", tag_field="part"):
    """A part of an unknown type. Validation refuses it; formatting ignores it."""

    type: str
    at: str


Part: TypeAlias = TextPart | FilePart | ImagePart | OtherPart


ToolStatus: TypeAlias = Literal["completed", "failed", "denied", "pending"]
"""`denied`: the agent was not allowed to make the call; `pending`: no result was reported."""


class ToolCall(Struct, frozen=True, omit_defaults=True):
    """A tool call of an assistant. `arguments` is JSON text, as the model wrote it. Agents, which run their tools
    themselves, also report the result."""

    name: str
    arguments: str = "{}"
    id: str = ""
    result: str | None = None
    status: ToolStatus | None = None
    started_at: Annotated[float, Meta(ge=0)] | None = None
    """In seconds since 1970."""
    duration_s: Annotated[float, Meta(ge=0)] | None = None
    server: str = ""
    """The MCP server of the tool, if it has one."""
    fault: FaultKind | None = None
    """The deliberate failure of this call."""


class Message(Struct, frozen=True, omit_defaults=True):
    role: Role
    parts: tuple[Part, ...]
    at: str
    tool_calls: tuple[ToolCall, ...] = ()
    tool_call_id: str = ""
    """The call that a tool's message answers."""


class ToolAnswer(Struct, frozen=True, omit_defaults=True):
    """The result of a call. If the tool failed, the model gets the error, and the conversation continues."""

    text: str
    failed: bool = False
    pictures: tuple[Picture, ...] = ()


class WantedBack(Struct, frozen=True, gc=False):
    """Content that an API requires back with a reply that calls tools, besides its words and calls: the thoughts, with
    their signature. It has no meaning for another model."""

    by: str
    """The API and the model."""
    content: str
    """The whole reply as the API wrote it: a JSON list."""


class ChatMessage(Struct, frozen=True, gc=False, omit_defaults=True):
    """One message as an LLM API receives it, before a provider maps roles."""

    role: Role
    content: str
    tool_calls: tuple[ToolCall, ...] = ()
    tool_call_id: str = ""
    pictures: tuple[Picture, ...] = ()
    """The pictures of the user's message, or those that a tool returned besides its text."""
    failed: bool = False
    """Whether it reports a failed tool."""
    wanted_back: WantedBack | None = None

    @property
    def length(self) -> int:
        """Its characters, to estimate tokens by: a picture has as many as its tokens are worth."""
        return len(self.content) + sum(CHARACTERS_A_TOKEN * picture.tokens for picture in self.pictures)


def trim(text: str) -> str:
    """CRLF becomes LF, a BOM goes, leading blank lines and trailing whitespace go, indentation stays."""
    if not text or ("\r" not in text and text[0] != "\ufeff" and not text[0].isspace()):
        return text.rstrip()  # as nearly all texts are
    return trim_start(text).rstrip()


def trim_start(text: str) -> str:
    """`trim` without the end, for text that follows other text."""
    if "\r\n" in text:
        text = text.replace("\r\n", "\n")
    text = text.removeprefix("\ufeff")
    first_visible = len(text) - len(text.lstrip())
    text = text[text.rfind("\n", 0, first_visible) + 1 :] if first_visible else text
    return trim_start(text) if text.startswith("\ufeff") else text


class Diagnostic(Struct, frozen=True, omit_defaults=True):
    """A message to the author about a prompt. `path` is set if it concerns a file."""

    code: str
    at: str
    path: str | None = None


class RawRequest(Struct, frozen=True, omit_defaults=True):
    """The logged form of the first request."""

    question: str
    guidelines: str
    chat_prompt: tuple[ChatMessage, ...] | None
    question_toon: str | None = None
    output_schema: Any = None
    """The JSON Schema that was sent with each request."""


class Prompt(Struct, frozen=True, kw_only=True):
    question: str
    role_markers: bool
    guidelines: str
    chat_prompt: tuple[ChatMessage, ...] | None
    messages: tuple[ChatMessage, ...]
    """The provider-neutral list that an LLM provider receives."""
    turns: tuple[ChatMessage, ...]
    """The turns of `question`, in order, without markers."""
    diagnostics: tuple[Diagnostic, ...] = ()
    question_toon: str | None = None
    expected_messages: tuple[ChatMessage, ...] = ()
    reference_answer: str = ""
    """The case's expected messages as judges and code evaluators see them."""
    context: tuple[str, ...] = ()
    """The texts that a good answer is based on."""
    later: bool = False
    """Whether it belongs to a later turn. Then `question` includes the target's earlier replies."""

    @property
    def raw_request(self) -> RawRequest:
        return RawRequest(self.question, self.guidelines, self.chat_prompt, self.question_toon)


class JudgePrompt(Struct, frozen=True, kw_only=True):
    name: str
    system: str
    user: str
    diagnostics: tuple[Diagnostic, ...] = ()
