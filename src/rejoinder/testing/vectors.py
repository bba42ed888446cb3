"""Vectors of texts. Texts with words in common lie near each other, which is all that a test can want."""

from __future__ import annotations

import math
import re
from hashlib import blake2b

_DIMENSIONS = 256
_MARKS = 16
"""In how many places of the vector a word leaves its mark: enough that two words hardly ever share all of them."""


def embed(text: str, dimensions: int | None = None) -> list[float]:
    """A vector of length one, made of the text's words regardless of their order and case.

    Each word adds 1 to some places of the vector and takes 1 from others; its hash says which. So the cosine of two
    texts is about the share of words that they have in common: 1 for the same words, about 0 for none. It is the same
    on every machine and in every version of Python.
    """
    dimensions = dimensions or _DIMENSIONS
    numbers = [0.0] * dimensions
    for word in re.findall(r"\w+", text.lower()) or [text]:
        mark = blake2b(word.encode(errors="surrogatepass"), digest_size=4 * _MARKS).digest()
        for start in range(0, len(mark), 4):
            number = int.from_bytes(mark[start : start + 4])
            numbers[(number >> 1) % dimensions] += 1.0 if number & 1 else -1.0
    length = math.sqrt(sum(one * one for one in numbers))
    return [one / length for one in numbers] if length else [1.0, *numbers[1:]]
