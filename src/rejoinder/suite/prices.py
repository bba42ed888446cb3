"""The prices that a project's configuration names."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import msgspec

from rejoinder.errors import UsageError
from rejoinder.model import Price

_HINT = (
    "A price is in dollars for a million tokens: `my-model: {input: 0.5, output: 2}`, and `cached` and "
    "`cache_write` where they differ from `input`."
)


def read_prices(config: Mapping[str, Any]) -> dict[str, Price]:
    """The `prices` of a project's configuration. Raises UsageError."""
    written = config.get("prices") or {}
    if not isinstance(written, Mapping):
        raise UsageError("`prices` in the configuration is no mapping", _HINT)
    return {str(name): _read_price(str(name), value) for name, value in written.items()}


def _read_price(name: str, value: Any) -> Price:
    try:
        own = {key: item for key, item in dict(value).items() if not str(key).startswith("x-")}
        price = msgspec.convert(own, Price)
    except (msgspec.ValidationError, TypeError, ValueError) as error:
        raise UsageError(f"`prices.{name}` in the configuration is no price: {error}", _HINT) from None
    if not all(math.isfinite(rate) for rate in msgspec.structs.astuple(price) if rate is not None):
        raise UsageError(f"`prices.{name}` in the configuration is not finite", _HINT)
    return price
