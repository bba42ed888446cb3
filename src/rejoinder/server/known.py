"""A cache of recent answers, shared by threads."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from threading import Lock
from typing import Generic, TypeVar

_Key = TypeVar("_Key", bound=Hashable)
_Kept = TypeVar("_Kept")


class Known(Generic[_Key, _Kept]):
    """Holds at most `most` items. Requests ask in threads of their own."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._kept: OrderedDict[_Key, _Kept] = OrderedDict()
        self._lock = Lock()

    def get(self, key: _Key) -> _Kept | None:
        with self._lock:
            if key in self._kept:
                self._kept.move_to_end(key)
            return self._kept.get(key)

    def put(self, key: _Key, value: _Kept) -> list[_Kept]:
        """Add an item, and return the items that it displaces."""
        with self._lock:
            self._kept[key] = value
            self._kept.move_to_end(key)
            return [self._kept.popitem(last=False)[1] for _ in range(len(self._kept) - self._most)]
