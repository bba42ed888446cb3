"""OpenAI: which path is which endpoint, and the list of models."""

from __future__ import annotations

from collections.abc import Collection

from rejoinder.testing.api import Api, Embedding, Endpoint, Json, Refusal
from rejoinder.testing.openai_chat import CHAT
from rejoinder.testing.openai_common import check_key, error_body
from rejoinder.testing.openai_embeddings import EMBEDDINGS
from rejoinder.testing.openai_responses import RESPONSES
from rejoinder.testing.values import Answer, Received

_MODELS = ("fake-large", "fake-small", "fake-embedding")
_MODEL = "/v1/models/"


def _accept(_: Received, __: Collection[str]) -> None:
    pass


def _model(name: str) -> Json:
    return {"id": name, "object": "model", "created": 1_700_000_000, "owned_by": "rejoinder"}


def _models_body(_: Received, __: Answer, ___: int) -> Json:
    return {"object": "list", "data": [_model(name) for name in _MODELS]}


def _check_model(received: Received, _: Collection[str]) -> None:
    name = received.path.removeprefix(_MODEL)
    if name not in _MODELS:
        raise Refusal(404, f"The model '{name}' does not exist", code="model_not_found", param="model")


def _model_body(received: Received, _: Answer, __: int) -> Json:
    return _model(received.path.removeprefix(_MODEL))


_ENDPOINTS: dict[str, Endpoint | Embedding] = {
    "/v1/chat/completions": CHAT,
    "/v1/responses": RESPONSES,
    "/v1/embeddings": EMBEDDINGS,
    "/v1/models": Endpoint(_accept, _models_body, asks=False, method="GET"),
}
_ONE_MODEL = Endpoint(_check_model, _model_body, asks=False, method="GET")


def _find(received: Received) -> Endpoint | Embedding | None:
    if received.path.startswith(_MODEL):
        return _ONE_MODEL
    return _ENDPOINTS.get(received.path)


API = Api(
    name="openai",
    owns=lambda path: path.startswith("/v1/"),
    find=_find,
    check_key=check_key,
    error=error_body,
    request_id=lambda number: f"req_{number:032x}",
    request_id_header="x-request-id",
)
