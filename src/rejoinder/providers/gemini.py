"""Google's Gemini: `generateContent`, and `batchEmbedContents` for vectors.

The system message is `systemInstruction`, assistants are called `model`, and consecutive messages of one role become
parts of one. Texts must not be empty, and a tool call cannot come first: `(empty)` replaces them.

A vector is requested by a batch of one text, as Google's own client does.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Struct, field

from rejoinder.model import ChatMessage, Offered, Reply, Request, ToolCall, Usage, WantedBack
from rejoinder.model.pictures import Picture, pieces_of
from rejoinder.providers import http_api as api
from rejoinder.providers.base import ProviderError
from rejoinder.providers.http1 import HttpAnswer
from rejoinder.providers.json_fields import arguments_object, arguments_text, count, read_json, read_raw
from rejoinder.providers.settings import Sampling
from rejoinder.providers.vector_bytes import pack_vector

_ENDING_STATUSES = frozenset({"UNAUTHENTICATED", "PERMISSION_DENIED", "NOT_FOUND"})
_FILTERED = frozenset(
    {"SAFETY", "RECITATION", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII", "IMAGE_SAFETY", "IMAGE_PROHIBITED_CONTENT"}
)


class _Gemini(api.JsonWire):
    def explain(self, answer: HttpAnswer) -> api.ErrorDetails:
        ends = answer.status in api.ENDS_TARGET
        try:
            error = read_json(_ERROR_DECODER, answer.body).error
        except msgspec.MsgspecError:
            return api.ErrorDetails(ends_target=ends)
        reasons = {detail.reason for detail in error.details}
        # A wrong key gives a 400, which only its reason distinguishes from other bad requests.
        ends = ends or error.status in _ENDING_STATUSES or "API_KEY_INVALID" in reasons
        delays = [detail.retry_delay for detail in error.details if detail.retry_delay]
        return api.ErrorDetails(
            type="API_KEY_INVALID" if "API_KEY_INVALID" in reasons else error.status,
            message=error.message,
            retry_after_s=_seconds(delays[0]) if delays else None,
            ends_target=ends,
        )


class GeminiContent(_Gemini):
    def __init__(self, url: str, sampling: Sampling, extra_body: Mapping[str, Any]) -> None:
        super().__init__(url, _parameters(sampling), extra_body)

    def write(self, request: Request) -> api.Outgoing:
        system, others = api.split_system(request.messages)
        return self.outgoing(
            contents=self._contents(api.pair_calls(others, "next turn")),
            systemInstruction=None if system is None else {"parts": [{"text": system}], "role": "user"},
            generationConfig={**self._fixed, **_answer_form(request.output_schema)} or None,
            tools=[{"functionDeclarations": [_tool(tool) for tool in request.tools]}] if request.tools else None,
        )

    def read(self, answer: HttpAnswer) -> Reply:
        response = read_json(_DECODER, answer.body)
        if not response.candidates:
            reason = response.prompt_feedback.block_reason if response.prompt_feedback else None
            if reason is None:
                raise msgspec.ValidationError("there are no candidates in it")
            message = f"gemini refused the prompt ({reason})"
            raise ProviderError(message, type="content_filter", status=answer.status)
        candidate = response.candidates[0]
        parts = (candidate.content.parts if candidate.content else None) or ()
        calls = tuple(
            ToolCall(part.function_call.name, arguments_text(part.function_call.args), part.function_call.id or "")
            for part in parts
            if part.function_call is not None
        )
        finish = "content_filter" if candidate.finish_reason in _FILTERED else candidate.finish_reason
        finish = {"STOP": "tool_calls" if calls else "stop", "MAX_TOKENS": "length"}.get(finish or "", finish)
        return Reply(
            "".join(part.text or "" for part in parts if not part.thought),
            _usage(response.usage_metadata),
            model=response.model_version,
            finish_reason=finish,
            tool_calls=calls,
            thinking="".join(part.text or "" for part in parts if part.thought) or None,
            wanted_back=self._wanted_back(answer) if calls and any(part.thought_signature for part in parts) else None,
        )

    def _wanted_back(self, answer: HttpAnswer) -> WantedBack:
        """Tool calls must be sent back with the signature of the thoughts before them; otherwise the API
        refuses them."""
        return self.keep(read_raw(answer.body)["candidates"][0]["content"]["parts"])

    def _contents(self, messages: Sequence[ChatMessage]) -> list[dict[str, Any]]:
        contents: list[dict[str, Any]] = []
        names: dict[str, str] = {}
        """The tool of each call: a result has to name it."""
        for message in messages:
            names.update({call.id: call.name for call in message.tool_calls})
            role = "model" if message.role == "assistant" else "user"
            kept = self.kept(message)
            parts = _parts(message, names) if kept is None else _with_ids(kept, message)
            if contents and contents[-1]["role"] == role:
                contents[-1]["parts"] += parts
            else:
                contents.append({"parts": parts, "role": role})
        # A call of a tool has to follow words or a result.
        if not contents or any("functionCall" in part for part in contents[0]["parts"]):
            contents.insert(0, {"parts": [{"text": api.EMPTY}], "role": "user"})
        return contents


class GeminiEmbeddings(_Gemini):
    def __init__(self, url: str, name: str, extra_body: Mapping[str, Any]) -> None:
        """`name`: the model as the API calls it, `models/...`."""
        super().__init__(url, {"model": name}, extra_body)

    def write(self, request: Request) -> api.Outgoing:
        content = {"parts": [{"text": request.embed}], "role": "user"}
        # The batch has no fields of its own: what a target adds is for the one request in it.
        embedded = api.merged({"content": content, **self._fixed}, self._extra)
        return api.Outgoing(self._url, msgspec.json.encode({"requests": [embedded]}))

    def read(self, answer: HttpAnswer) -> Reply:
        response = read_json(_BATCH_DECODER, answer.body)
        if len(response.embeddings) != 1:
            found = len(response.embeddings)
            raise msgspec.ValidationError(f"there are {found} vectors in it, and one was asked for")
        return Reply("", _usage(response.usage_metadata), vector=pack_vector(response.embeddings[0].values))


def _answer_form(schema: str) -> dict[str, Any]:
    if not schema:
        return {}
    return {"responseMimeType": "application/json", "responseJsonSchema": msgspec.Raw(schema.encode())}


def _parameters(sampling: Sampling) -> dict[str, Any]:
    level = sampling.reasoning_effort and sampling.reasoning_effort.upper()
    thinking = api.without_none({"thinkingBudget": sampling.thinking_budget, "thinkingLevel": level})
    return {
        "temperature": sampling.temperature,
        "topP": sampling.top_p,
        "maxOutputTokens": sampling.max_output_tokens,
        "seed": sampling.seed,
        "stopSequences": sampling.stop,
        "thinkingConfig": thinking or None,
    }


def _with_ids(parts: list[dict[str, Any]], message: ChatMessage) -> list[dict[str, Any]]:
    """Parts as the API wrote them, with ids for their calls, which results refer to: some models give none."""
    calls = [part["functionCall"] for part in parts if "functionCall" in part]
    for part, call in zip(calls, message.tool_calls, strict=False):
        part["id"] = call.id
    return parts


def _parts(message: ChatMessage, names: Mapping[str, str]) -> list[dict[str, Any]]:
    if message.role == "tool" and message.tool_call_id:
        name = names[message.tool_call_id]
        said = {"error" if message.failed else "result": message.content}
        response = {"id": message.tool_call_id, "name": name, "response": said}
        return [{"functionResponse": response}, *map(_image, message.pictures)]
    if message.role == "user" and message.pictures:
        pieces = pieces_of(message.content, message.pictures)
        return [{"text": piece} if isinstance(piece, str) else _image(piece) for piece in pieces]
    parts: list[dict[str, Any]] = []
    if message.content or not message.tool_calls:
        parts.append({"text": message.content or api.EMPTY})
    for call in message.tool_calls:
        parts.append({"functionCall": {"id": call.id, "name": call.name, "args": arguments_object(call.arguments)}})
    return parts


def _image(picture: Picture) -> dict[str, Any]:
    return {"inlineData": {"mimeType": picture.mime_type, "data": picture.sent()}}


def _tool(tool: Offered) -> dict[str, Any]:
    said = {"description": tool.description} if tool.description else {}
    return {"name": tool.name, **said, "parametersJsonSchema": msgspec.Raw(tool.parameters)}


def _usage(usage: _Usage | None) -> Usage:
    if usage is None:
        return Usage()
    thoughts = count(usage.thoughts_token_count)
    return Usage(
        count(usage.prompt_token_count) + count(usage.tool_use_prompt_token_count),
        count(usage.candidates_token_count) + thoughts,  # what was thought is counted apart, and paid as output
        thoughts,
        approximate=usage.candidates_token_count is None and not thoughts,
        cached_tokens=count(usage.cached_content_token_count),
    )


def _seconds(text: str) -> float | None:
    """`17s`, as protocol buffers write a duration."""
    try:
        return max(0.0, float(text.removesuffix("s")))
    except ValueError:
        return None


class _FunctionCall(Struct):
    name: str = ""
    args: msgspec.Raw = msgspec.Raw(b"{}")
    id: str | None = None


class _Part(Struct, rename="camel"):
    text: str | None = None
    thought: bool = False
    function_call: _FunctionCall | None = None
    thought_signature: str | None = None


class _Content(Struct):
    parts: list[_Part] | None = None


class _Candidate(Struct, rename="camel"):
    content: _Content | None = None
    finish_reason: str | None = None


class _Usage(Struct, rename="camel"):
    prompt_token_count: Any = None
    candidates_token_count: Any = None
    thoughts_token_count: Any = None
    cached_content_token_count: Any = None
    tool_use_prompt_token_count: Any = None


class _Feedback(Struct, rename="camel"):
    block_reason: str | None = None


class _Response(Struct, rename="camel"):
    candidates: list[_Candidate] = field(default_factory=list[_Candidate])
    usage_metadata: _Usage | None = None
    model_version: str | None = None
    prompt_feedback: _Feedback | None = None


class _Embedding(Struct):
    values: list[float] = field(default_factory=list[float])


class _Batch(Struct, rename="camel"):
    embeddings: list[_Embedding] = field(default_factory=list[_Embedding])
    usage_metadata: _Usage | None = None


class _Detail(Struct, rename="camel"):
    reason: str | None = None
    retry_delay: str | None = None


class _Error(Struct):
    message: str | None = None
    status: str | None = None
    details: list[_Detail] = field(default_factory=list[_Detail])


class _ErrorBody(Struct):
    error: _Error


_DECODER = msgspec.json.Decoder(_Response)
_BATCH_DECODER = msgspec.json.Decoder(_Batch)
_ERROR_DECODER = msgspec.json.Decoder(_ErrorBody)
