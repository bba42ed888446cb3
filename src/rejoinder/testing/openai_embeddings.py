"""OpenAI: embeddings. Texts with words in common lie near each other, which is all that a test can want."""

from __future__ import annotations

import base64
import math
import re
import sys
from array import array
from collections.abc import Collection
from hashlib import blake2b
from typing import Any

from rejoinder.testing.api import Endpoint, Json, Refusal, as_list, as_object, is_whole
from rejoinder.testing.openai_common import empty_array, missing, read_body, require_model, wrong_type
from rejoinder.testing.values import Answer, Received, count_words

EMBEDDINGS_FIELDS = frozenset({"input", "model", "dimensions", "encoding_format", "user"})
_DIMENSIONS = 256
_MARKS = 16
"""In how many places of the vector a word leaves its mark: enough that two words hardly ever share all of them."""


def embed(text: str, dimensions: int = _DIMENSIONS) -> list[float]:
    """A vector of length one, made of the text's words regardless of their order and case."""
    vector = [0.0] * dimensions
    for word in re.findall(r"\w+", text.lower()) or [text]:
        mark = blake2b(word.encode(errors="surrogatepass"), digest_size=4 * _MARKS).digest()
        for start in range(0, len(mark), 4):
            number = int.from_bytes(mark[start : start + 4])
            vector[(number >> 1) % dimensions] += 1.0 if number & 1 else -1.0
    length = math.sqrt(sum(one * one for one in vector))
    return [one / length for one in vector] if length else [1.0, *vector[1:]]


def _check(received: Received, extra: Collection[str]) -> None:
    body = read_body(received, EMBEDDINGS_FIELDS | frozenset(extra))
    require_model(body)
    given = body.get("input")
    if given is None:
        raise missing("input")
    if not isinstance(given, str | list):
        raise wrong_type("input", "one of a string or array of strings")
    if given == []:
        raise empty_array("input")
    dimensions = body.get("dimensions", _DIMENSIONS)
    if not is_whole(dimensions) or dimensions < 1:
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


def _body(received: Received, _: Answer, __: int) -> Json:
    asked = as_object(received.body)
    texts = _texts(asked["input"])
    vectors = [embed(text, asked.get("dimensions", _DIMENSIONS)) for text in texts]
    packed = asked.get("encoding_format") == "base64"
    used = count_words(texts)
    return {
        "object": "list",
        "model": asked["model"],
        "data": [
            {"object": "embedding", "index": index, "embedding": _packed(vector) if packed else vector}
            for index, vector in enumerate(vectors)
        ],
        "usage": {"prompt_tokens": used, "total_tokens": used},
    }


def _packed(vector: list[float]) -> str:
    numbers = array("f", vector)
    if sys.byteorder == "big":
        numbers.byteswap()
    return base64.b64encode(numbers.tobytes()).decode()


EMBEDDINGS = Endpoint(_check, _body, asks=False)
