"""OpenAI: the endpoint of each path, and the list of models. Azure OpenAI: the same formats behind other paths, with
another key header, a gateway's errors and content filters.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Any

from rejoinder.testing import openai_chat as chat
from rejoinder.testing.api import Api, Asked, Endpoint, Refusal, bearer
from rejoinder.testing.openai_responses import RESPONSES
from rejoinder.testing.values import Json, Received

_MODELS = ("fake-large", "fake-small", "fake-embedding")
_MODEL = "/v1/models/"


def _model(name: str) -> Json:
    return {"id": name, "object": "model", "created": 1_700_000_000, "owned_by": "rejoinder"}


def _check_model(received: Received, _: Collection[str]) -> None:
    name = received.path.removeprefix(_MODEL)
    if name not in _MODELS:
        raise Refusal(404, f"The model '{name}' does not exist", code="model_not_found", param="model")


_ENDPOINTS: dict[str, Endpoint] = {
    "/v1/chat/completions": chat.CHAT,
    "/v1/responses": RESPONSES,
    "/v1/embeddings": chat.EMBEDDINGS,
    "/v1/models": Endpoint(
        lambda _, __: None,
        lambda _: {"object": "list", "data": [_model(name) for name in _MODELS]},
        asks=False,
        method="GET",
    ),
}
_ONE_MODEL = Endpoint(
    _check_model, lambda asked: _model(asked.received.path.removeprefix(_MODEL)), asks=False, method="GET"
)


def _find(received: Received) -> Endpoint | None:
    if received.path.startswith(_MODEL):
        return _ONE_MODEL
    return _ENDPOINTS.get(received.path)


API = Api(
    name="openai",
    owns=lambda path: path.startswith("/v1/"),
    find=_find,
    check_key=chat.check_key,
    error=chat.error_body,
    request_id=lambda number: f"req_{number:032x}",
    request_id_header="x-request-id",
)


_DEPLOYED = re.compile(r"/openai/deployments/([^/]+)/(chat/completions|embeddings)")
_HARMS = ("hate", "self_harm", "sexual", "violence")

_GATEWAY: dict[int, tuple[str, str]] = {
    401: (
        "401",
        "Access denied due to invalid subscription key or wrong API endpoint. Make sure to provide a valid key for an "
        "active subscription and use a correct regional API endpoint for your resource.",
    ),
    404: ("DeploymentNotFound", "The AZURE deployment for this resource does not exist."),
    429: ("429", "Requests have exceeded the call rate limit of your current pricing tier."),
    500: ("InternalServerError", "The server had an error while processing your request."),
    503: ("ServiceUnavailable", "The service is temporarily unable to process your request. Please try again later."),
}
"""The gateway's own errors, in a shorter form than OpenAI's."""

_FILTERED = (
    "The response was filtered due to the prompt triggering Azure OpenAI's content management policy. "
    "Please modify your prompt and retry."
)


def _azure_error(refusal: Refusal, request_id: str) -> Json:
    if refusal.code == "content_filter":
        return {"error": _filter_error(refusal)}
    if refusal.status not in _GATEWAY:
        return chat.error_body(refusal, request_id)
    code, message = _GATEWAY[refusal.status]
    if refusal.retry_after is not None:
        message += f" Please retry after {refusal.retry_after:g} seconds."
    return {"error": {"code": refusal.code or code, "message": refusal.message or message}}


def _filter_error(refusal: Refusal) -> Json:
    return {
        "message": refusal.message or _FILTERED,
        "type": None,
        "param": "prompt",
        "code": "content_filter",
        "status": refusal.status,
        "innererror": {
            "code": "ResponsibleAIPolicyViolation",
            "content_filter_result": _harms("violence", "medium")
            | {"jailbreak": {"filtered": False, "detected": False}},
        },
    }


def _harms(found: str | None = None, severity: str = "safe") -> Json:
    return {name: {"filtered": name == found, "severity": severity if name == found else "safe"} for name in _HARMS}


def _check_azure_key(received: Received, key: str) -> None:
    if (received.headers.get("api-key") or bearer(received)) != key:
        raise Refusal(401)


def _check_deployed(received: Received, extra: Collection[str], fields: frozenset[str]) -> Json:
    if not received.query.get("api-version"):
        raise Refusal(404, "Resource not found", code="404")
    return chat.read_body(received, fields | frozenset(extra))


def _deployed_model(asked: Asked) -> Json:
    deployment = _DEPLOYED.fullmatch(asked.received.path)
    return {"model": asked.answer.model or deployment[1]} if deployment is not None else {}


def _filtered_body(asked: Asked) -> Json:
    """A completion with the findings of the content filters in prompt and answer."""
    body = chat.chat_body(asked)
    hit = "violence" if asked.answer.ending == "content_filter" else None
    choice: Any = body["choices"][0]
    choice["content_filter_results"] = _harms(hit, "medium")
    return body | {"prompt_filter_results": [{"prompt_index": 0, "content_filter_results": _harms()}]}


_DEPLOYMENTS: dict[str, Endpoint] = {
    "chat/completions": Endpoint(
        lambda received, extra: chat.check_messages(_check_deployed(received, extra, chat.CHAT_FIELDS)),
        lambda asked: _filtered_body(asked) | _deployed_model(asked),
    ),
    "embeddings": Endpoint(
        lambda received, extra: chat.check_input(_check_deployed(received, extra, chat.EMBEDDINGS_FIELDS)),
        lambda asked: chat.embeddings_body(asked) | _deployed_model(asked),
        asks=False,
    ),
}
_AZURE_ENDPOINTS: dict[str, Endpoint] = {
    "/openai/v1/chat/completions": Endpoint(chat.check_chat, _filtered_body),
    "/openai/v1/responses": RESPONSES,
    "/openai/v1/embeddings": chat.EMBEDDINGS,
}


def _find_azure(received: Received) -> Endpoint | None:
    deployed = _DEPLOYED.fullmatch(received.path)
    return _DEPLOYMENTS[deployed[2]] if deployed else _AZURE_ENDPOINTS.get(received.path)


AZURE = Api(
    name="azure",
    owns=lambda path: path.startswith("/openai/"),
    find=_find_azure,
    check_key=_check_azure_key,
    error=_azure_error,
    request_id=lambda number: f"00000000-0000-4000-8000-{number:012x}",
    request_id_header="x-request-id",
)
