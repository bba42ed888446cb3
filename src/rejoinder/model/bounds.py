"""Bounds of numbers in files of a run folder: a folder may come from elsewhere, and a report adds and divides them."""

from __future__ import annotations

from typing import Annotated, TypeAlias

from msgspec import Meta

Count: TypeAlias = Annotated[int, Meta(ge=0, le=1 << 53)]
Number: TypeAlias = Annotated[float, Meta(ge=-1e15, le=1e15)]
Interval: TypeAlias = tuple[Number, Number]
