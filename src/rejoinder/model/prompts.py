"""What is sent, in all its forms: the transcript, the chat messages, the judge's prompts."""

from __future__ import annotations

from msgspec import Struct

from rejoinder.model.messages import ChatMessage


class Diagnostic(Struct, frozen=True, omit_defaults=True):
    """Something an author should know about a prompt. `path` is set where a file is meant."""

    code: str
    at: str
    path: str | None = None


class RawRequest(Struct, frozen=True, omit_defaults=True):
    """What results log about the first request."""

    question: str
    guidelines: str
    chat_prompt: tuple[ChatMessage, ...] | None
    question_toon: str | None = None


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
    """What judges and code evaluators are shown of the case's expected messages."""
    later: bool = False
    """Is it of a later turn? Then `question` holds what the candidate has said, beside what it was asked."""

    @property
    def raw_request(self) -> RawRequest:
        return RawRequest(self.question, self.guidelines, self.chat_prompt, self.question_toon)


class JudgePrompt(Struct, frozen=True, kw_only=True):
    name: str
    system: str
    user: str
    diagnostics: tuple[Diagnostic, ...] = ()
