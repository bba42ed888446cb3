"""Spans by OpenInference's conventions (Arize Phoenix and others), as OTLP/JSON: messages are flat attributes, such as
`llm.input_messages.0.message.content`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from rejoinder.json_values import count_at, money_at, text_at
from rejoinder.model import Usage
from rejoinder.transcripts.draft import Draft, as_text, finished, tool_call
from rejoinder.transcripts.files import Document
from rejoinder.transcripts.spans import Span, Told, has_spans, listed, read_spans, said_by, spans_of, tool_said
from rejoinder.transcripts.values import Said, Transcript

NAME = "openinference"
_KIND = "openinference.span.kind"


def looks_like(document: Document) -> bool:
    return has_spans(document) and any(_KIND in span.values for span in spans_of(document))


def read(document: Document) -> Iterator[Transcript]:
    with_models = {span.trace for span in spans_of(document) if _kind(span) == "LLM" and _has_messages(span)}

    def tell(draft: Draft, span: Span) -> Told | None:
        kind, values = _kind(span), span.values
        if kind == "LLM" and _has_messages(span):
            return _told(draft, span)
        if kind == "TOOL" and (id := text_at(values, "tool.id") or text_at(values, "tool_call.id")):
            return Told(results=((id, as_text(values.get("output.value"))),))
        is_whole = kind in ("AGENT", "CHAIN", "LLM") and span.trace not in with_models
        if is_whole and isinstance(values.get("input.value"), str) and isinstance(values.get("output.value"), str):
            with_models.add(span.trace)  # spans below it would say the same again
            reply = said_by("assistant", values["output.value"], at=span.end, latency_s=round(span.end - span.start, 6))
            return Told(heard=(said_by("user", values["input.value"], at=span.start),), replies=(reply,))
        return None

    return read_spans(document, NAME, lambda span: text_at(span.values, "session.id"), tell)


def _kind(span: Span) -> str:
    return text_at(span.values, _KIND).upper()


def _has_messages(span: Span) -> bool:
    return any(key.startswith(("llm.input_messages.", "llm.output_messages.")) for key in span.values)


def _told(draft: Draft, span: Span) -> Told:
    values = span.values
    heard = [
        one for message in listed(values, "llm.input_messages") for one in _messages(draft, message, at=span.start)
    ]
    replies = [
        one
        for message in listed(values, "llm.output_messages")[:1]
        for one in _messages(
            draft,
            {"message.role": "assistant", **message},
            at=span.end,
            usage=_usage(values),
            cost=money_at(values, "llm.cost.total"),
            latency_s=round(span.end - span.start, 6),
            model=text_at(values, "llm.model_name") or None,
            finish_reason=finished(values.get("llm.finish_reason")),
        )
    ]
    return Told(heard=tuple(heard), replies=tuple(replies))


def _messages(draft: Draft, message: dict[str, Any], **told: Any) -> Iterator[Said]:
    role = text_at(message, "message.role")
    texts = [text_at(message, "message.content")]
    for part in listed(message, "message.contents"):
        if text_at(part, "message_content.type") in ("text", ""):
            texts.append(text_at(part, "message_content.text"))
        elif text_at(part, "message_content.type") != "tool_use":  # which is among the calls, too
            draft.not_understood(f"part {text_at(part, 'message_content.type')}", part)
    text = "\n".join(filter(None, texts))
    if role in ("tool", "function"):
        yield tool_said(text_at(message, "message.tool_call_id") or text_at(message, "message.name"), text)
        return
    calls = tuple(
        tool_call(
            text_at(call, "tool_call.id"),
            text_at(call, "tool_call.function.name"),
            call.get("tool_call.function.arguments"),
        )
        for call in listed(message, "message.tool_calls")
    )
    if text or calls or role == "assistant":
        yield said_by(role, text, calls, **(told if role == "assistant" else {"at": told["at"]}))


def _usage(values: dict[str, Any]) -> Usage | None:
    if not any(key.startswith("llm.token_count.") for key in values):
        return None
    return Usage(
        count_at(values, "llm.token_count.prompt"),
        count_at(values, "llm.token_count.completion"),
        reasoning_tokens=count_at(values, "llm.token_count.completion_details.reasoning"),
        cached_tokens=count_at(values, "llm.token_count.prompt_details.cache_read"),
        cache_write_tokens=count_at(values, "llm.token_count.prompt_details.cache_write"),
    ).possible()
