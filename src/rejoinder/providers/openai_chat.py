"""OpenAI's chat completions, which many other servers speak too.

Messages are sent unchanged, in their order and with their roles. A tool's message carries the id of the call that it
answers; if that call is not right before it, the API would refuse it, so its text is sent as a user's message.

Vectors are requested in base64, as OpenAI's own client does: a third of the length of written numbers. Servers that do
not know base64 send the numbers, which are accepted.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Struct, field

from rejoinder.model import ChatMessage, Offered, Reply, Request, ToolCall, Usage, WantedBack
from rejoinder.model.pictures import Picture, pieces_of
from rejoinder.providers import http_api as api
from rejoinder.providers.base import ProviderError
from rejoinder.providers.http1 import HttpAnswer
from rejoinder.providers.json_fields import arguments_text, count, read_json, read_raw
from rejoinder.providers.settings import Sampling
from rejoinder.providers.structured import openai_form
from rejoinder.providers.vector_bytes import pack_vector, read_vector
from rejoinder.words.numbers import plural, shortened

_FINAL_CODES = frozenset({"insufficient_quota", "billing_hard_limit_reached", "billing_not_active"})
"""Error codes that no waiting helps against, although they come with status 429."""


class OpenAiWire(api.JsonWire):
    """The part that OpenAI's APIs share."""

    def explain(self, answer: HttpAnswer) -> api.ErrorDetails:
        """Read OpenAI's error object, and the looser ones of servers that imitate it."""
        try:
            body = read_json(_ERROR_DECODER, answer.body)
        except msgspec.MsgspecError:
            return api.ErrorDetails(ends_target=answer.status in api.ENDS_TARGET)
        error = body.error
        if error is None:  # vLLM and Mistral have the fields themselves; others say `detail`
            error = OpenAiError(body.message or body.detail_text(), body.type, body.code)
        if isinstance(error, str):
            return api.ErrorDetails(message=error, ends_target=answer.status in api.ENDS_TARGET)
        code = error.code if isinstance(error.code, str) else None
        final = code in _FINAL_CODES or error.type in _FINAL_CODES
        return api.ErrorDetails(
            type=code or error.type,
            message=error.message,
            final=final,
            ends_target=final or answer.status in api.ENDS_TARGET,
            content_filter=code in ("content_filter", "content_policy_violation"),
        )


class OpenAiChat(OpenAiWire):
    def __init__(
        self,
        url: str,
        model: str,
        sampling: Sampling,
        extra_body: Mapping[str, Any],
        *,
        limit_field: str = "max_tokens",
        empty: str = "",
    ) -> None:
        super().__init__(url, {"model": model, **_parameters(sampling, limit_field)}, extra_body)
        self._empty = empty

    def write(self, request: Request) -> api.Outgoing:
        # An empty list is refused, an empty text is not.
        messages = write_messages(request.messages, self.kept) or [{"role": "user", "content": ""}]
        if self._empty:
            for message in messages:
                if message["role"] == "assistant" and not message["content"] and "tool_calls" not in message:
                    message["content"] = self._empty
        return self.outgoing(messages=messages, **self.parameters(request), tools=write_tools(request.tools))

    def parameters(self, request: Request) -> dict[str, Any]:
        """Request parameters besides the messages."""
        if not request.output_schema:
            return self._fixed
        return {**self._fixed, "response_format": response_format(request.output_schema)}

    def read(self, answer: HttpAnswer) -> Reply:
        completion = read_json(_DECODER, answer.body)
        if completion.error is not None and not completion.choices:
            raise told_inside(completion.error)
        if not completion.choices:
            raise msgspec.ValidationError("there are no choices in it")
        choice = completion.choices[0]
        if choice.error is not None or choice.finish_reason == "error":
            raise told_inside(choice.error or OpenAiError(code="error"))
        message = choice.message
        if message is None:
            raise msgspec.ValidationError("there is no message in its first choice")
        content, thoughts = _spoken(message.content)
        finish = _FINISHES.get(choice.finish_reason or "", choice.finish_reason)
        return Reply(
            content or message.refusal or "",
            _usage(completion.usage),
            model=completion.model,
            finish_reason="refusal" if message.refusal and finish == "stop" else finish,
            tool_calls=tuple(
                ToolCall(call.function.name, arguments_text(call.function.arguments), call.id or "")
                for call in message.tool_calls or ()
            ),
            thinking=message.reasoning_content or message.reasoning or thoughts or None,
            refusal=bool(message.refusal),
            wanted_back=self._wanted_back(answer) if message.tool_calls else None,
        )

    def _wanted_back(self, answer: HttpAnswer) -> WantedBack | None:
        """Fields that some servers require back with their tool calls. OpenAI's own API has none."""
        message = read_raw(answer.body)["choices"][0]["message"]
        parts = message, *message["tool_calls"]
        kept = [{name: part[name] for name in _KEPT if part.get(name)} for part in parts]
        return self.keep(kept) if any(kept) else None


def response_format(schema: str) -> dict[str, Any]:
    """The field that makes replies fit a JSON Schema."""
    return {"type": "json_schema", "json_schema": openai_form(schema)}


_PASSING = {"rate_limit_exceeded": 429, "server_error": 500, "overloaded": 503, "error": 500}
"""The HTTP status that an error word in an answer of status 200 stands for."""


def told_inside(error: OpenAiError | str) -> ProviderError:
    """An error that comes with status 200, as some gateways have it."""
    if isinstance(error, str):
        error = OpenAiError(message=error)
    word = error.code or error.type or ""
    status = word if isinstance(word, int) else count(word) or _PASSING.get(word)
    kind = str(error.code or error.type or "error")
    said = shortened(error.message or "it does not say which", api.LONGEST_MESSAGE)
    return ProviderError(
        f"the answer reports an error ({kind}): {said}",
        type=kind,
        retryable=status in api.RETRYABLE,
        status=status,
        pressure="rate" if status == 429 else "overload" if status in api.OVERLOADED else None,
    )


def _parameters(sampling: Sampling, limit_field: str) -> dict[str, Any]:
    return {
        "temperature": sampling.temperature,
        "top_p": sampling.top_p,
        limit_field: sampling.max_output_tokens,
        "seed": sampling.seed,
        "stop": sampling.stop,
        "reasoning_effort": sampling.reasoning_effort,
    }


_KEPT = ("reasoning_content", "reasoning_details", "extra_content")
"""Fields that DeepSeek, OpenRouter and Gemini's gateway add to a message with tool calls, or to a call."""


def write_messages(
    messages: Sequence[ChatMessage], kept: Callable[[ChatMessage], list[Any] | None] = lambda _: None
) -> list[dict[str, Any]]:
    """Messages in the form of OpenAI's API."""
    return [_with_kept(_message(message), kept(message)) for message in api.pair_calls(messages, "next message")]


def _with_kept(written: dict[str, Any], kept: list[Any] | None) -> dict[str, Any]:
    if kept is None:
        return written
    calls = [{**call, **more} for call, more in zip(written["tool_calls"], kept[1:], strict=True)]
    return {**written, **kept[0], "tool_calls": calls}


def write_tools(tools: Sequence[Offered]) -> list[dict[str, Any]] | None:
    """Tools in the form of OpenAI's API; None if there are none."""
    return [{"type": "function", "function": function_of(tool)} for tool in tools] or None


def function_of(tool: Offered) -> dict[str, Any]:
    said = {"description": tool.description} if tool.description else {}
    return {"name": tool.name, **said, "parameters": msgspec.Raw(tool.parameters)}


def _result(message: ChatMessage) -> str:
    """A tool's result as text; other content is mentioned."""
    if not message.pictures:
        return message.content
    left = plural(len(message.pictures), "an image", f"{len(message.pictures)} images")
    return f"{message.content}\n({left} that cannot be shown)".lstrip()


def _message(message: ChatMessage) -> dict[str, Any]:
    if message.role == "tool":
        if message.tool_call_id:
            return {"role": "tool", "content": _result(message), "tool_call_id": message.tool_call_id}
        return {"role": "user", "content": message.content}
    if message.tool_calls:
        calls = [
            {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
            for call in message.tool_calls
        ]
        return {"role": message.role, "content": message.content or None, "tool_calls": calls}
    if message.role == "user" and message.pictures:
        return {"role": "user", "content": [_part(one) for one in pieces_of(message.content, message.pictures)]}
    return {"role": message.role, "content": message.content}


def _part(piece: str | Picture) -> dict[str, Any]:
    if isinstance(piece, str):
        return {"type": "text", "text": piece}
    return {"type": "image_url", "image_url": {"url": piece.data_url()}}


def _spoken(content: str | list[_Chunk] | None) -> tuple[str, str]:
    """The reply and the thoughts. Most servers give a text; Mistral's reasoning models give chunks of both."""
    if not isinstance(content, list):
        return content or "", ""
    thoughts = [inner.text or "" for chunk in content for inner in chunk.thinking]
    return "".join(chunk.text or "" for chunk in content), "".join(thoughts)


def _usage(usage: _Usage | None) -> Usage:
    if usage is None:
        return Usage()
    details, made = usage.prompt_tokens_details or _InputDetails(), usage.completion_tokens_details
    given, said = count(usage.prompt_tokens), count(usage.completion_tokens)
    thought = count(made.reasoning_tokens) if made else 0
    if usage.total_tokens == given + said + thought:  # xAI counts what was thought beside what was said
        said += thought
    return Usage(
        given,
        said,
        thought,
        approximate=usage.completion_tokens is None,
        cached_tokens=count(details.cached_tokens or usage.prompt_cache_hit_tokens),
        cache_write_tokens=count(details.cache_write_tokens),
    )


_FINISHES = {"function_call": "tool_calls", "eos": "stop"}


class _Function(Struct):
    name: str = ""
    arguments: Any = None


class _Call(Struct):
    function: _Function = field(default_factory=_Function)
    id: str | None = None


class _Chunk(Struct):
    text: str | None = None
    thinking: list[_Chunk] = field(default_factory=list["_Chunk"])


class _Message(Struct):
    content: str | list[_Chunk] | None = None
    refusal: str | None = None
    tool_calls: list[_Call] | None = None
    reasoning_content: str | None = None
    """The field in which DeepSeek, vLLM and others put the thoughts; OpenRouter and Ollama use `reasoning`."""
    reasoning: str | None = None


class OpenAiError(Struct):
    message: str | None = None
    type: str | None = None
    code: str | int | None = None


class _Choice(Struct):
    message: _Message | None = None
    finish_reason: str | None = None
    error: OpenAiError | None = None


class _InputDetails(Struct):
    cached_tokens: Any = None
    cache_write_tokens: Any = None


class _OutputDetails(Struct):
    reasoning_tokens: Any = None


class _Usage(Struct):
    """Counts, read by `count`: servers write them in more ways than one."""

    prompt_tokens: Any = None
    completion_tokens: Any = None
    total_tokens: Any = None
    prompt_tokens_details: _InputDetails | None = None
    completion_tokens_details: _OutputDetails | None = None
    prompt_cache_hit_tokens: Any = None
    """DeepSeek's name for cached tokens."""


class _Completion(Struct):
    choices: list[_Choice] | None = None
    error: OpenAiError | str | None = None
    model: str | None = None
    usage: _Usage | None = None


class _ErrorBody(Struct):
    error: OpenAiError | str | None = None
    message: str | None = None
    type: str | None = None
    code: str | int | None = None
    detail: Any = None

    def detail_text(self) -> str | None:
        if self.detail is None or isinstance(self.detail, str):
            return self.detail
        return msgspec.json.encode(self.detail).decode()


_DECODER = msgspec.json.Decoder(_Completion)
_ERROR_DECODER = msgspec.json.Decoder(_ErrorBody)


class OpenAiEmbeddings(OpenAiWire):
    def __init__(self, url: str, model: str, extra_body: Mapping[str, Any]) -> None:
        super().__init__(url, {"model": model}, extra_body)

    def write(self, request: Request) -> api.Outgoing:
        return self.outgoing(**self._fixed, input=request.embed, encoding_format="base64")

    def read(self, answer: HttpAnswer) -> Reply:
        response = read_json(_EMBEDDING_DECODER, answer.body)
        if response.error is not None and not response.data:
            raise told_inside(response.error)
        data = response.data or []
        if len(data) != 1:
            raise msgspec.ValidationError(f"there are {len(data)} vectors in it, and one was asked for")
        vector = data[0].embedding
        return Reply(
            "",
            _embedding_usage(response.usage),
            model=response.model,
            vector=read_vector(vector) if isinstance(vector, str) else pack_vector(vector),
        )


def _embedding_usage(usage: _EmbeddingUsage | None) -> Usage:
    """Some servers report only the total, which is the same, because embeddings have no output tokens."""
    return Usage(count(usage.prompt_tokens) or count(usage.total_tokens)) if usage else Usage()


class _Embedding(Struct):
    embedding: str | list[float]


class _EmbeddingUsage(Struct):
    prompt_tokens: Any = None
    total_tokens: Any = None


class _Embeddings(Struct):
    data: list[_Embedding] | None = None
    error: OpenAiError | str | None = None
    model: str | None = None
    usage: _EmbeddingUsage | None = None


_EMBEDDING_DECODER = msgspec.json.Decoder(_Embeddings)
