"""Gemini: `generateContent`, `embedContent` and `batchEmbedContents` of the Gemini API."""

from __future__ import annotations

import base64
import re
from collections.abc import Collection
from typing import Any

from rejoinder.testing.api import Api, Asked, Endpoint, Refusal, require, require_object
from rejoinder.testing.values import Answer, Json, Received, Tokens, as_list, as_object, count_words, is_whole

REQUEST_FIELDS = frozenset(
    {
        *("contents", "tools", "toolConfig", "safetySettings", "systemInstruction", "generationConfig"),
        *("cachedContent", "labels", "model", "serviceTier", "store"),
    }
)
CONFIG_FIELDS = frozenset(
    {
        *("stopSequences", "responseMimeType", "responseSchema", "responseJsonSchema", "responseModalities"),
        *("candidateCount", "maxOutputTokens", "temperature", "topP", "topK", "seed", "presencePenalty"),
        *("frequencyPenalty", "responseLogprobs", "logprobs", "enableEnhancedCivicAnswers", "speechConfig"),
        *("thinkingConfig", "imageConfig", "mediaResolution", "responseFormat", "translationConfig"),
        *("audioTranscriptionConfig", "modelSelectionConfig", "enableAffectiveDialog"),
    }
)
EMBED_FIELDS = frozenset({"model", "content", "taskType", "title", "outputDimensionality"})
LARGEST_BATCH = 100
DATA_FIELDS = frozenset(
    {
        *("text", "inlineData", "functionCall", "functionResponse", "fileData", "executableCode"),
        *("codeExecutionResult", "toolCall", "toolResponse", "audioTranscription"),
    }
)
_PATH = re.compile(r"/v1(?:beta)?/models/([^/:]+):(\w+)")

_FINISHES = {
    "stop": "STOP",
    "length": "MAX_TOKENS",
    "tool_calls": "STOP",
    "content_filter": "SAFETY",
    "refusal": "SAFETY",
}

_ERRORS = {
    400: ("INVALID_ARGUMENT", "Request contains an invalid argument."),
    401: ("UNAUTHENTICATED", "Request had invalid authentication credentials."),
    403: ("PERMISSION_DENIED", "The caller does not have permission"),
    404: ("NOT_FOUND", "The model is not found for API version v1beta, or is not supported for generateContent."),
    429: ("RESOURCE_EXHAUSTED", "You exceeded your current quota, please check your plan and billing details."),
    500: ("INTERNAL", "An internal error has occurred. Please retry."),
    503: ("UNAVAILABLE", "The model is overloaded. Please try again later."),
    504: ("DEADLINE_EXCEEDED", "The request timed out. Please try again."),
}
_BAD_KEY = "API_KEY_INVALID"
_RPC = "type.googleapis.com/google.rpc."


def _error(refusal: Refusal, _: str) -> Json:
    status, message = _ERRORS.get(refusal.status) or _ERRORS[500 if refusal.status >= 500 else 400]
    details: list[Json] = []
    if refusal.code == _BAD_KEY:
        message = "API key not valid. Please pass a valid API key."
        domain = {"domain": "googleapis.com", "metadata": {"service": "generativelanguage.googleapis.com"}}
        details.append({"@type": f"{_RPC}ErrorInfo", "reason": _BAD_KEY, **domain})
    elif refusal.code is not None:
        status = refusal.code
    if refusal.param is not None:
        violation = {"field": refusal.param, "description": refusal.message}
        details.append({"@type": f"{_RPC}BadRequest", "fieldViolations": [violation]})
    if refusal.retry_after is not None:
        details.append({"@type": f"{_RPC}RetryInfo", "retryDelay": f"{refusal.retry_after:g}s"})
    error: Json = {"code": refusal.status, "message": refusal.message or message, "status": status}
    return {"error": error | {"details": details} if details else error}


def _check_key(received: Received, key: str) -> None:
    """Check the key. To this API a wrong key is an invalid argument, and a missing key a lack of permission."""
    given = received.headers.get("x-goog-api-key") or received.query.get("key")
    if not given:
        text = "Method doesn't allow unregistered callers (callers without established identity). "
        hint = "Please use API Key or other form of API consumer identity to call this API."
        raise Refusal(403, text + hint)
    if given != key:
        raise Refusal(400, code=_BAD_KEY)


# What is refused before a model sees it.


def _check(received: Received, extra: Collection[str]) -> None:
    body = require_object(received, "Invalid JSON payload received.")
    _check_names(body, REQUEST_FIELDS | frozenset(extra), "")
    _check_names(as_object(_field(body, "generationConfig")), CONFIG_FIELDS, "generation_config")
    config = as_object(_field(body, "generationConfig"))
    schemas = [name for name in ("responseSchema", "responseJsonSchema") if _field(config, name) is not None]
    is_json = _field(config, "responseMimeType") == "application/json"
    text = "Response schema in the generation config is only supported with a response mime type of application/json."
    require(is_json or not schemas, text)
    require(len(schemas) < 2, "Only one of response_schema and response_json_schema may be set.")
    contents = as_list(body.get("contents"))
    require(contents, "* GenerateContentRequest.contents: contents is not specified\n")
    for index, content in enumerate(contents):
        role = as_object(content).get("role", "user")
        require(role in ("user", "model"), "Please use a valid role: user, model.")
        _check_parts(as_object(content), f"contents[{index}]")
    system = _field(body, "systemInstruction")
    if system is not None:
        _check_parts(as_object(system), "system_instruction")
    _check_calls([as_object(content) for content in contents])


def _check_names(given: Json, known: frozenset[str], where: str) -> None:
    for name in given:
        place = f" at '{where}'" if where else ""
        text = f'Invalid JSON payload received. Unknown name "{name}"{place}: Cannot find field.'
        require(_camel(name) in known, text, param=where)


def _check_parts(content: Json, where: str) -> None:
    place = f"* GenerateContentRequest.{where}.parts"
    parts = as_list(content.get("parts"))
    require(parts, f"{place}: contents.parts must not be empty.\n")
    for index, part in enumerate(parts):
        data = [name for name in as_object(part) if _camel(name) in DATA_FIELDS]
        text = f"oneof field 'data' is already set. Cannot set '{''.join(data[1:2])}'"
        require(len(data) < 2, f"Invalid value at '{where}.parts[{index}]' (oneof), {text}", param=where)
        rule = "required oneof field 'data' must have one initialized field"
        require(data and part[data[0]] not in ("", None), f"{place}[{index}].data: {rule}\n")


def _check_calls(contents: list[Json]) -> None:
    """Check that a turn of function calls is followed by a turn with the same number of responses, and responses by
    nothing else."""
    turns = "a user turn or after a function response turn."
    begins = contents[0].get("role") == "model" and _count(contents[0], "functionCall")
    require(not begins, f"Please ensure that function call turn comes immediately after {turns}")
    for before, content in zip([{}, *contents], [*contents, {}], strict=True):
        calls, responses = _count(before, "functionCall"), _count(content, "functionResponse")
        text = "Please ensure that function response turn comes immediately after a function call turn."
        require(calls or not responses, text)
        text = "Please ensure that the number of function response parts is equal to the number of function call "
        require(calls == responses, f"{text}parts of the function call turn.")


def _count(content: Json, name: str) -> int:
    return sum(1 for part in as_list(content.get("parts")) if _field(part, name) is not None)


def _field(given: Json, name: str) -> Any:
    """A field by its name in either spelling: both are JSON to this API."""
    return next((value for key, value in given.items() if _camel(key) == name), None)


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)


# Embeddings: one text, or a batch of them.


def _check_one(received: Received, extra: Collection[str]) -> None:
    body = require_object(received, "Invalid JSON payload received.")
    _check_embedded(body, EMBED_FIELDS | frozenset(extra), "EmbedContentRequest", "")


def _check_batch(received: Received, extra: Collection[str]) -> None:
    body = require_object(received, "Invalid JSON payload received.")
    _check_names(body, frozenset({"requests", *extra}), "")
    requests = as_list(body.get("requests"))
    place = "* BatchEmbedContentsRequest.requests"
    require(requests, f"{place}: requests is not specified\n")
    require(len(requests) <= LARGEST_BATCH, f"{place}: at most {LARGEST_BATCH} requests can be in one batch\n")
    path = _PATH.fullmatch(received.path)
    for index, one in enumerate(requests):
        where, request = f"requests[{index}]", as_object(one)
        same = path is not None and request.get("model") == f"models/{path[1]}"
        require(same, f"{place}[{index}].model: model must match the one of the batch\n")
        _check_embedded(request, EMBED_FIELDS, f"BatchEmbedContentsRequest.{where}", where)


def _check_embedded(request: Json, known: frozenset[str], title: str, where: str) -> None:
    _check_names(request, known, where)
    parts = as_list(as_object(request.get("content")).get("parts"))
    has_text = any(as_object(part).get("text") for part in parts)
    require(has_text, f"* {title}.content: content is not specified\n")
    size = _field(request, "outputDimensionality")
    require(size is None or (is_whole(size) and size > 0), f"* {title}.output_dimensionality: must be above 0\n")


def _one_body(asked: Asked) -> Json:
    return {"embedding": _embedding(asked, asked.body), **_counted([asked.body])}


def _batch_body(asked: Asked) -> Json:
    requests = [as_object(one) for one in as_list(asked.body["requests"])]
    return {"embeddings": [_embedding(asked, one) for one in requests], **_counted(requests)}


def _embedding(asked: Asked, request: Json) -> Json:
    return {"values": asked.vector(_text(request), _field(request, "outputDimensionality"))}


def _text(request: Json) -> str:
    return "".join(as_object(part).get("text") or "" for part in as_list(request["content"]["parts"]))


def _counted(requests: list[Json]) -> Json:
    words = count_words([_text(one) for one in requests])
    return {"usageMetadata": {"promptTokenCount": words}} if words else {}  # as everywhere, zeros are not written


# Answers.


def _body(asked: Asked) -> Json:
    path = _PATH.fullmatch(asked.received.path)
    return {
        "candidates": [_candidate(asked.answer, asked.number)],
        "usageMetadata": _usage(asked.tokens),
        "modelVersion": asked.answer.model or (path[1] if path else "fake"),
        "responseId": f"fake{asked.number:020x}",
    }


def _candidate(answer: Answer, number: int) -> Json:
    finish = _FINISHES[answer.ending]
    candidate: Json = {"finishReason": finish, "index": 0}
    if finish == "SAFETY":
        rating = {"category": "HARM_CATEGORY_DANGEROUS_CONTENT", "probability": "HIGH", "blocked": True}
        candidate["safetyRatings"] = [rating]
        if answer.refusal is not None:
            candidate["finishMessage"] = answer.refusal
    parts = _parts(answer, number)
    if parts:
        candidate["content"] = {"parts": parts, "role": "model"}
    elif finish == "MAX_TOKENS":  # all was spent on thoughts: a content without parts
        candidate["content"] = {"role": "model"}
    return candidate


def _parts(answer: Answer, number: int) -> list[Json]:
    parts: list[Json] = []
    if answer.thinking is not None:
        parts.append({"text": answer.thinking, "thought": True})
    if answer.text or (answer.ending == "stop" and not answer.tool_calls):
        parts.append({"text": answer.text})
    for index, call in enumerate(answer.tool_calls):
        wanted: Json = {"name": call.name, "args": call.fields}
        part: Json = {"functionCall": wanted if call.id is None else wanted | {"id": call.id}}
        if answer.thinking is not None and index == 0:
            part["thoughtSignature"] = base64.b64encode(f"signature {number}".encode()).decode()
        parts.append(part)
    return parts


def _usage(tokens: Tokens) -> Json:
    counts = {
        "promptTokenCount": tokens.input,
        "candidatesTokenCount": tokens.output - tokens.reasoning,
        "totalTokenCount": tokens.total,
        "cachedContentTokenCount": tokens.cached,
        "thoughtsTokenCount": tokens.reasoning,
    }
    return {name: count for name, count in counts.items() if count}  # fields of value zero are not written


_METHODS: dict[str, Endpoint] = {
    "generateContent": Endpoint(_check, _body),
    "embedContent": Endpoint(_check_one, _one_body, asks=False),
    "batchEmbedContents": Endpoint(_check_batch, _batch_body, asks=False),
}


def _find(received: Received) -> Endpoint | None:
    path = _PATH.fullmatch(received.path)
    if path is None:
        return None
    if path[2].startswith("stream"):
        raise Refusal(400, "This fake server does not stream: use generateContent.")
    return _METHODS.get(path[2])


API = Api(
    name="gemini",
    owns=lambda path: path.startswith("/v1beta/") or _PATH.fullmatch(path) is not None,
    find=_find,
    check_key=_check_key,
    error=_error,
    request_id=lambda number: f"{number:x}",
    request_id_header=None,
)
