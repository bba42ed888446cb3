"""Vectors of texts: 32-bit floats, least significant byte first, from every provider.

A vector that cannot be compared later is refused here, while the answer that holds it can still be named.
"""

from __future__ import annotations

import struct
import sys
from array import array
from binascii import a2b_base64
from math import isfinite

from msgspec import ValidationError

from rejoinder.model.providers import list_providers
from rejoinder.providers.base import ProviderError

_WIDTH = 4


def pack_vector(numbers: list[float]) -> bytes:
    """Numbers as a vector. Raises ValidationError if they do not form one."""
    try:
        return check_vector(struct.pack(f"<{len(numbers)}f", *numbers))
    except OverflowError:
        raise ValidationError("a number of the vector is too large for 32 bits") from None


def read_vector(text: str) -> bytes:
    """The vector in a base64 text. Raises ValidationError if there is none."""
    try:
        data = a2b_base64(text, strict_mode=True)
    except ValueError as error:
        raise ValidationError(f"the vector is not base64: {error}") from None
    return check_vector(data)


def check_vector(data: bytes) -> bytes:
    """The same bytes, if they are a vector of finite numbers. Raises ValidationError if not."""
    if not data:
        raise ValidationError("the vector is empty")
    if len(data) % _WIDTH:
        raise ValidationError(f"the vector is cut off: {len(data)} bytes are not a whole number of 32-bit floats")
    numbers = array("f", data)
    if sys.byteorder == "big":
        numbers.byteswap()
    if not isfinite(sum(numbers)):  # no sum of 32-bit floats leaves the range of 64 bits by itself
        raise ValidationError("the vector has a value that is not a finite number")
    return data


def no_embeddings(provider: str) -> ProviderError:
    """The error for a vector request to a provider without embeddings."""
    message = f"the provider `{provider}` has no embeddings; these have: {list_providers(embeds=True)}"
    return ProviderError(message, type="request", ends_target=True)
