"""Spans by OpenTelemetry's conventions for generative AI (`gen_ai.*`), as OTLP/JSON, including rejoinder's own exports.

Messages are attributes of the span, or of its event `gen_ai.client.inference.operation.details`. Older programs write
an event for each message (`gen_ai.user.message`), or flat attributes (`gen_ai.prompt.0.content`).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, get_args

from msgspec import structs

from rejoinder.json_values import as_list, at, count_at, decoded, list_at, money_at, text_at
from rejoinder.model import ToolCall, Usage
from rejoinder.model.messages import ToolStatus
from rejoinder.transcripts.draft import Draft, as_text, finished, tool_call
from rejoinder.transcripts.files import Document
from rejoinder.transcripts.spans import Span, Told, has_spans, listed, read_spans, said_by, spans_of, tool_said
from rejoinder.transcripts.values import Said, Transcript

NAME = "otel"
_COSTS = ("rejoinder.cost_usd", "operation.cost", "gen_ai.usage.cost")
_CALLS_OF_MODELS = frozenset({"chat", "text_completion", "generate_content"})
_DETAILS = "gen_ai.client.inference.operation.details"
_SAID = {f"gen_ai.{role}.message": role for role in ("system", "user", "assistant", "tool")}
"""Events of one message each, by the role that speaks."""


def looks_like(document: Document) -> bool:
    """Whether a file has messages by these conventions. Programs with other conventions may write some empty spans by
    these."""
    if not has_spans(document):
        return False
    spans = spans_of(document)
    has_own = any(key.startswith("gen_ai.") for span in spans for key in (*span.values, *_event_names(span)))
    is_other = any(key.startswith("openinference.") for span in spans for key in span.values)
    return has_own and (not is_other or any(map(_has_messages, spans)))


def _event_names(span: Span) -> Iterator[str]:
    return (text_at(event, "event.name") for event in span.events)


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
    """The conversation of a span. Trials of one case may share a conversation id in our own spans; their
    traces differ."""
    own = "rejoinder.trial" in span.values or "rejoinder.turn" in span.values
    return span.trace if own else text_at(span.values, "gen_ai.conversation.id")


def _operation(span: Span) -> str:
    """The operation of a span. Older programs omit it, or name it differently."""
    return text_at(span.values, "gen_ai.operation.name") or text_at(span.values, "llm.request.type") or "chat"


def _content(span: Span, name: str) -> Any:
    """An attribute that is a list, or the JSON text of one; of the span, or of its details event."""
    details = next((event for event in span.events if event["event.name"] == _DETAILS), {})
    return _decoded(span.values.get(name, details.get(name)))


def _decoded(value: Any) -> Any:
    return decoded(value) if isinstance(value, str) else value


def _has_messages(span: Span) -> bool:
    return bool(_heard(span) or _answered(span))


def _heard(span: Span) -> list[Any]:
    """The sent messages."""
    return (
        as_list(_content(span, "gen_ai.input.messages"))
        or listed(span.values, "gen_ai.prompt")
        or as_list(_content(span, "gen_ai.prompt"))
        or [{"role": role, **_body(event)} for event in span.events if (role := _SAID.get(event["event.name"]))]
    )


def _answered(span: Span) -> list[Any]:
    """The returned messages, one per choice."""
    return (
        as_list(_content(span, "gen_ai.output.messages"))
        or listed(span.values, "gen_ai.completion")
        or as_list(_content(span, "gen_ai.completion"))
        or [_choice(_body(event)) for event in span.events if event["event.name"] == "gen_ai.choice"]
    )


def _body(event: dict[str, Any]) -> dict[str, Any]:
    """The content of an event: its body, or an attribute of it."""
    body = event.get("body")
    found = body if isinstance(body, dict) else _decoded(event.get("gen_ai.event.content"))
    return found if isinstance(found, dict) else {}


def _choice(body: dict[str, Any]) -> dict[str, Any]:
    message = at(body, "message")
    return {
        "role": "assistant",
        "finish_reason": at(body, "finish_reason"),
        **(message if isinstance(message, dict) else {}),
    }


def _told(draft: Draft, span: Span) -> Told:
    values = span.values
    model = text_at(values, "gen_ai.response.model") or text_at(values, "gen_ai.request.model") or None
    system = _content(span, "gen_ai.system_instructions")
    instructions = "\n\n".join(text_at(part, "content") for part in as_list(system)).strip()
    heard = [said_by("system", instructions)] if instructions else []
    for message in _heard(span):
        heard += _messages(draft, message, at=span.start)
    replies: list[Said] = []
    for message in _answered(span)[:1]:
        reasons = list_at(values, "gen_ai.response.finish_reasons")
        replies += _messages(
            draft,
            message,
            at=span.end,
            usage=_usage(values),
            cost=_cost(values),
            latency_s=round(span.end - span.start, 6),
            model=model,
            finish_reason=finished(at(message, "finish_reason") or (reasons[0] if reasons else None)),
        )
    return Told(heard=tuple(heard), replies=tuple(replies))


def _messages(draft: Draft, message: Any, **told: Any) -> Iterator[Said]:
    """A message, plus one for each tool result in it."""
    texts: list[str] = []
    thoughts: list[str] = []
    calls: list[ToolCall] = []
    for part in _parts(message):
        kind = text_at(part, "type")
        if kind == "text":
            texts.append(text_at(part, "content"))
        elif kind == "reasoning":
            thoughts.append(text_at(part, "content"))
        elif kind == "tool_call":
            calls.append(tool_call(text_at(part, "id"), text_at(part, "name"), at(part, "arguments")))
        elif kind == "tool_call_response":
            result = as_text(next((part[key] for key in ("response", "result") if key in part), None))
            if not _end_own_call(calls, part, result):
                yield tool_said(text_at(part, "id"), result)
        else:
            draft.not_understood(f"part {kind}", part)
    role = text_at(message, "role")
    if texts or calls or (role == "assistant" and not _parts(message)):
        own = {**told, "thinking": "\n\n".join(thoughts) or None} if role == "assistant" else {"at": told["at"]}
        yield said_by(role, "\n\n".join(texts), tuple(calls), **own)


def _end_own_call(calls: list[ToolCall], part: Any, result: str) -> bool:
    """Add a result to a call of the same message, as in our own spans, whose calls may have no ids."""
    places = [n for n, call in enumerate(calls) if call.id == text_at(part, "id") and call.result is None]
    if not places:
        return False
    status: ToolStatus = "completed"
    status = next((one for one in get_args(ToolStatus) if one == text_at(part, "status")), status)
    calls[places[-1]] = structs.replace(calls[places[-1]], result=result, status=status)
    return True


def _parts(message: Any) -> list[Any]:
    """The parts of a message. Older programs write a text and calls instead."""
    if isinstance(at(message, "parts"), list):
        return list_at(message, "parts")
    content = at(message, "content")
    if text_at(message, "role") == "tool":
        id = text_at(message, "tool_call_id") or text_at(message, "id")
        return [{"type": "tool_call_response", "id": id, "response": content}]
    calls = list_at(message, "tool_calls") or listed(message, "tool_calls")
    texts = [{"type": "text", "content": part} for part in (content, *_texts(content)) if isinstance(part, str)]
    return [*texts, *({"type": "tool_call", "id": at(call, "id"), **_function(call)} for call in calls)]


def _texts(content: Any) -> Iterator[str]:
    """The texts of blocks, which some programs write as objects, others as JSON text."""
    return (text_at(block, "text") for block in as_list(content) if text_at(block, "text"))


def _function(call: Any) -> dict[str, Any]:
    function = at(call, "function") if isinstance(at(call, "function"), dict) else call
    return {"name": at(function, "name"), "arguments": at(function, "arguments")}


def _cost(values: dict[str, Any]) -> float | None:
    return next((cost for name in _COSTS if (cost := money_at(values, name)) is not None), None)


def _usage(values: dict[str, Any]) -> Usage | None:
    if not any(key.startswith("gen_ai.usage.") for key in values):
        return None
    return Usage(
        _count(values, "input_tokens", "prompt_tokens"),
        _count(values, "output_tokens", "completion_tokens"),
        reasoning_tokens=_count(values, "reasoning.output_tokens", "reasoning_tokens", "details.reasoning_tokens"),
        cached_tokens=_count(values, "cache_read.input_tokens", "cache_read_input_tokens"),
        cache_write_tokens=_count(
            values, "cache_creation.input_tokens", "cache_write.input_tokens", "cache_creation_input_tokens"
        ),
    ).possible()


def _count(values: dict[str, Any], *names: str) -> int:
    """A count, whose name differs between versions of the conventions."""
    return next((count for name in names if (count := count_at(values, f"gen_ai.usage.{name}"))), 0)
