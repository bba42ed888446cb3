"""OpenAI: embeddings, in base64 or as numbers."""

from __future__ import annotations

import base64
import sys
from array import array
from collections.abc import Collection
from functools import partial
from typing import Any

from rejoinder.testing.api import Embedding, Json, Refusal, as_list, as_object, is_whole
from rejoinder.testing.openai_common import empty_array, missing, read_body, require_model, wrong_type
from rejoinder.testing.values import Embed, Received, count_words
from rejoinder.testing.vectors import embed

EMBEDDINGS_FIELDS = frozenset({"input", "model", "dimensions", "encoding_format", "user"})


def _check(received: Received, extra: Collection[str]) -> None:
    body = read_body(received, EMBEDDINGS_FIELDS | frozenset(extra))
    require_model(body)
    check_input(body)


def check_input(body: Json) -> None:
    given = body.get("input")
    if given is None:
        raise missing("input")
    if not isinstance(given, str | list):
        raise wrong_type("input", "one of a string or array of strings")
    if given == []:
        raise empty_array("input")
    dimensions = body.get("dimensions")
    if dimensions is not None and (not is_whole(dimensions) or dimensions < 1):
        raise wrong_type("dimensions", "an integer above 0")
    for text in _texts(given):
        if not text:
            raise Refusal(400, "Invalid 'input': input cannot be an empty string.", param="input")


def _texts(given: Any) -> list[str]:
    """The inputs as texts: one, several, one list of tokens, or several such lists."""
    if isinstance(given, str):
        return [given]
    items = as_list(given)
    if items and is_whole(items[0]):
        items = [items]
    return [one if isinstance(one, str) else " ".join(map(str, as_list(one))) for one in items]


def embeddings_body(received: Received, own: Embed | None) -> Json:
    asked = as_object(received.body)
    texts = _texts(asked["input"])
    make = own or partial(embed, dimensions=asked.get("dimensions"))
    vectors = [[float(number) for number in make(text)] for text in texts]
    packed = asked.get("encoding_format") == "base64"
    used = count_words(texts)
    return {
        "object": "list",
        "model": asked.get("model"),
        "data": [
            {"object": "embedding", "index": index, "embedding": _packed(numbers) if packed else numbers}
            for index, numbers in enumerate(vectors)
        ],
        "usage": {"prompt_tokens": used, "total_tokens": used},
    }


def _packed(numbers: list[float]) -> str:
    packed = array("f", numbers)
    if sys.byteorder == "big":
        packed.byteswap()
    return base64.b64encode(packed.tobytes()).decode()


EMBEDDINGS = Embedding(_check, embeddings_body)
