"""Spans by OpenTelemetry's conventions for generative AI (`gen_ai.*`), as OTLP/JSON. What rejoinder exports reads back.

Messages are attributes of the span, or of its event `gen_ai.client.inference.operation.details`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from rejoinder.json_values import at, count_at, list_at, money_at, text_at
from rejoinder.model import ToolCall, Usage
from rejoinder.transcripts.draft import Draft, as_text, finished, tool_call
from rejoinder.transcripts.files import Document
from rejoinder.transcripts.spans import Span, Told, has_spans, read_spans, said_by, spans_of, tool_said
from rejoinder.transcripts.values import Said, Transcript

NAME = "otel"
_CALLS_OF_MODELS = frozenset({"chat", "text_completion", "generate_content"})
_DETAILS = "gen_ai.client.inference.operation.details"


def looks_like(document: Document) -> bool:
    return has_spans(document) and any(key.startswith("gen_ai.") for span in spans_of(document) for key in span.values)


def read(document: Document) -> Iterator[Transcript]:
    # Where no call of a model holds what was said, the spans of agents may.
    spoken = {_operation(span) for span in spans_of(document) if _has_messages(span)}
    read_from = _CALLS_OF_MODELS if spoken & _CALLS_OF_MODELS else frozenset({"invoke_agent"})

    def tell(draft: Draft, span: Span) -> Told | None:
        operation = _operation(span)
        if operation in read_from and _has_messages(span):
            return _told(draft, span)
        if operation == "execute_tool":
            result = at(span.values, "gen_ai.tool.call.result")
            id = text_at(span.values, "gen_ai.tool.call.id")
            return Told(results=((id, as_text(result)),)) if id and result is not None else None
        if title := text_at(span.values, "test.case.name"):
            draft.title = title
        return None

    return read_spans(document, NAME, _key, tell)


def _key(span: Span) -> str:
    """Trials of one case may share a conversation's id in our own spans; their traces differ."""
    own = "rejoinder.trial" in span.values or "rejoinder.turn" in span.values
    return span.trace if own else text_at(span.values, "gen_ai.conversation.id")


def _operation(span: Span) -> str:
    return text_at(span.values, "gen_ai.operation.name")


def _content(span: Span, name: str) -> Any:
    """An attribute that is a list, or JSON text of one; of the span, or of the event that has its details."""
    details = next((event for event in span.events if event["event.name"] == _DETAILS), {})
    value = span.values.get(name, details.get(name))
    if not isinstance(value, str):
        return value
    try:
        return msgspec.json.decode(value)
    except (msgspec.DecodeError, RecursionError):
        return None


def _has_messages(span: Span) -> bool:
    return any(isinstance(_content(span, f"gen_ai.{side}.messages"), list) for side in ("input", "output"))


def _told(draft: Draft, span: Span) -> Told:
    values = span.values
    model = text_at(values, "gen_ai.response.model") or text_at(values, "gen_ai.request.model") or None
    system = _content(span, "gen_ai.system_instructions")
    instructions = "\n\n".join(text_at(part, "content") for part in list_at({"": system}, "")).strip()
    heard = [said_by("system", instructions)] if instructions else []
    for message in list_at({"": _content(span, "gen_ai.input.messages")}, ""):
        heard += _messages(draft, message, at=span.start)
    replies: list[Said] = []
    for message in list_at({"": _content(span, "gen_ai.output.messages")}, "")[:1]:
        reasons = list_at(values, "gen_ai.response.finish_reasons")
        replies += _messages(
            draft,
            message,
            at=span.end,
            usage=_usage(values),
            cost=money_at(values, "rejoinder.cost_usd"),
            latency_s=round(span.end - span.start, 6),
            model=model,
            finish_reason=finished(at(message, "finish_reason") or (reasons[0] if reasons else None)),
        )
    return Told(heard=tuple(heard), replies=tuple(replies))


def _messages(draft: Draft, message: Any, **told: Any) -> Iterator[Said]:
    """A message, and one more for each result in it."""
    texts: list[str] = []
    thoughts: list[str] = []
    calls: list[ToolCall] = []
    for part in list_at(message, "parts"):
        kind = text_at(part, "type")
        if kind == "text":
            texts.append(text_at(part, "content"))
        elif kind == "reasoning":
            thoughts.append(text_at(part, "content"))
        elif kind == "tool_call":
            calls.append(tool_call(text_at(part, "id"), text_at(part, "name"), at(part, "arguments")))
        elif kind == "tool_call_response":
            result = next((part[key] for key in ("response", "result") if key in part), None)
            yield tool_said(text_at(part, "id"), as_text(result))
        else:
            draft.not_understood(f"part {kind}", part)
    role = text_at(message, "role")
    if not texts and not calls and isinstance(at(message, "content"), str):
        texts.append(text_at(message, "content"))
    if texts or calls or (role == "assistant" and not list_at(message, "parts")):
        own = {**told, "thinking": "\n\n".join(thoughts) or None} if role == "assistant" else {"at": told["at"]}
        yield said_by(role, "\n\n".join(texts), tuple(calls), **own)


def _usage(values: dict[str, Any]) -> Usage | None:
    if not any(key.startswith("gen_ai.usage.") for key in values):
        return None
    return Usage(
        count_at(values, "gen_ai.usage.input_tokens") or count_at(values, "gen_ai.usage.prompt_tokens"),
        count_at(values, "gen_ai.usage.output_tokens") or count_at(values, "gen_ai.usage.completion_tokens"),
        reasoning_tokens=count_at(values, "gen_ai.usage.reasoning.output_tokens"),
        cached_tokens=count_at(values, "gen_ai.usage.cache_read.input_tokens"),
        cache_write_tokens=count_at(values, "gen_ai.usage.cache_creation.input_tokens"),
    ).possible()
