"""OpenAI: the errors, the key and the first look at a body that all of its endpoints share."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from rejoinder.testing.api import Json, Refusal, bearer, require_object
from rejoinder.testing.values import Received

_Kind = tuple[str, str | None, str]
"""The type, the code and the usual words of an error."""

_ERRORS: dict[tuple[int, str | None], _Kind] = {
    (400, None): ("invalid_request_error", None, "Your request was malformed."),
    (400, "content_filter"): ("invalid_request_error", "content_filter", "The request was filtered."),
    (400, "context_length_exceeded"): (
        "invalid_request_error",
        "context_length_exceeded",
        "This model's maximum context length is 128000 tokens. However, your messages resulted in 130000 tokens. "
        "Please reduce the length of the messages.",
    ),
    (401, None): ("invalid_request_error", "invalid_api_key", "Incorrect API key provided."),
    (403, None): ("request_forbidden", "unsupported_country_region_territory", "Country or region not supported."),
    (404, None): ("invalid_request_error", "model_not_found", "The model does not exist or you do not have access."),
    (405, None): ("invalid_request_error", "method_not_supported", "Not allowed."),
    (429, None): ("requests", "rate_limit_exceeded", "Rate limit reached on requests per min (RPM)."),
    (429, "insufficient_quota"): (
        "insufficient_quota",
        "insufficient_quota",
        "You exceeded your current quota, please check your plan and billing details.",
    ),
    (500, None): ("server_error", None, "The server had an error while processing your request. Sorry about that!"),
    (503, None): ("server_error", None, "The engine is currently overloaded, please try again later."),
}


def error_body(refusal: Refusal, _: str = "") -> Json:
    kind, code, message = _kind(refusal.status, refusal.code)
    if refusal.status < 429 and refusal.message:
        code = refusal.code  # in refusals of a request's content the code is often null
    if refusal.retry_after is not None:
        message += f" Please try again in {refusal.retry_after:g}s."
    words = refusal.message or message
    return {"error": {"message": words, "type": kind, "param": refusal.param, "code": code}}


def _kind(status: int, code: str | None) -> _Kind:
    known = _ERRORS.get((status, code))
    if known is not None:
        return known
    kind, usual_code, message = _ERRORS.get((status, None)) or _ERRORS[(500 if status >= 500 else 400, None)]
    return kind, code or usual_code, message


def check_key(received: Received, key: str) -> None:
    given = bearer(received)
    if not given:
        message = "You didn't provide an API key. Provide it in an Authorization header using Bearer auth."
        raise Refusal(401, message)
    if given != key:
        raise Refusal(401, f"Incorrect API key provided: {_masked(given)}.", code="invalid_api_key")


def _masked(key: str) -> str:
    return f"{key[:3]}{'*' * 8}{key[-2:]}" if len(key) > 8 else "*" * len(key)


def read_body(received: Received, fields: Collection[str]) -> Json:
    """The body, if it is an object of these fields and wants no stream."""
    body = require_object(received, "We could not parse the JSON body of your request.")
    for name in body:
        if name not in fields:
            raise Refusal(400, f"Unknown parameter: '{name}'.", code="unknown_parameter", param=name)
    if body.get("stream"):
        raise Refusal(400, "This fake server does not stream: send the request without `stream`.", param="stream")
    return body


def require_model(body: Json) -> None:
    if not isinstance(body.get("model"), str) or not body["model"]:
        raise Refusal(400, "you must provide a model parameter")


def missing(name: str) -> Refusal:
    return Refusal(400, f"Missing required parameter: '{name}'.", code="missing_required_parameter", param=name)


def wrong_value(value: Any, allowed: Collection[str], where: str) -> Refusal:
    names = ", ".join(f"'{one}'" for one in allowed)
    message = f"Invalid value: '{value}'. Supported values are: {names}."
    return Refusal(400, message, code="invalid_value", param=where)


def empty_array(where: str) -> Refusal:
    message = (
        f"Invalid '{where}': empty array. Expected an array with minimum length 1, but got an empty array instead."
    )
    return Refusal(400, message, code="empty_array", param=where)


def wrong_type(where: str, wanted: str) -> Refusal:
    return Refusal(400, f"Invalid type for '{where}': expected {wanted}.", code="invalid_type", param=where)
