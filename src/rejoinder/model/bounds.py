"""Bounds of numbers in files of a run folder: a folder may come from elsewhere, and a report adds and divides them."""

from __future__ import annotations

from typing import Annotated, TypeAlias

from msgspec import Meta

Count: TypeAlias = Annotated[int, Meta(ge=0, le=1 << 53)]
LARGEST = 10**15
_Whole: TypeAlias = Annotated[int, Meta(ge=-LARGEST, le=LARGEST)]
Real: TypeAlias = _Whole | float
"""A number that is written as it was read: 1 does not become 1.0."""
Number: TypeAlias = _Whole | Annotated[float, Meta(ge=-LARGEST, le=LARGEST)]
Interval: TypeAlias = tuple[Number, Number]
