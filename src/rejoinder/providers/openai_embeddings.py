"""OpenAI's embeddings, which many other servers speak too: a text goes in, a vector comes out.

The vector is asked for in base64, as OpenAI's own client does: it is a third as long as the numbers written out.
Servers that do not know of this send the numbers, and are understood.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import Struct

from rejoinder.model import Reply, Request, Usage
from rejoinder.providers.http1 import HttpAnswer
from rejoinder.providers.http_api import ErrorDetails, Outgoing, merged
from rejoinder.providers.json_fields import count, read_json
from rejoinder.providers.openai_chat import OpenAiError, explain_openai_error, told_inside
from rejoinder.providers.vector_bytes import pack_vector, read_vector


class OpenAiEmbeddings:
    def __init__(self, url: str, model: str, extra_body: Mapping[str, Any]) -> None:
        self._url = url
        self._model = model
        self._extra = extra_body

    def write(self, request: Request) -> Outgoing:
        body: dict[str, Any] = {"model": self._model, "input": request.embed, "encoding_format": "base64"}
        return Outgoing(self._url, msgspec.json.encode(merged(body, self._extra)))

    def read(self, answer: HttpAnswer) -> Reply:
        response = read_json(_DECODER, answer.body)
        if response.error is not None and not response.data:
            raise told_inside(response.error)
        data = response.data or []
        if len(data) != 1:
            raise msgspec.ValidationError(f"there are {len(data)} vectors in it, and one was asked for")
        vector = data[0].embedding
        return Reply(
            "",
            _usage(response.usage),
            model=response.model,
            vector=read_vector(vector) if isinstance(vector, str) else pack_vector(vector),
        )

    def explain(self, answer: HttpAnswer) -> ErrorDetails:
        return explain_openai_error(answer)


def _usage(usage: _Usage | None) -> Usage:
    """Some servers tell the total alone, which is the same: nothing is put out that would be counted."""
    return Usage(count(usage.prompt_tokens) or count(usage.total_tokens)) if usage else Usage()


class _Item(Struct):
    embedding: str | list[float]


class _Usage(Struct):
    prompt_tokens: Any = None
    total_tokens: Any = None


class _Response(Struct):
    data: list[_Item] | None = None
    error: OpenAiError | str | None = None
    model: str | None = None
    usage: _Usage | None = None


_DECODER = msgspec.json.Decoder(_Response)
