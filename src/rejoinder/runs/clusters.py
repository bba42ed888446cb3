"""Clusters of the conversations that did not pass, counted in bounded memory."""

from __future__ import annotations

from rejoinder.model import Result
from rejoinder.model.clusters import MOST_CLUSTERS, Cluster, ClusterKey, ClusterKind, ClusterPlace
from rejoinder.words.clusters import cluster_keys

MOST_KEYS = 1_000
"""Different clusters that are counted. A run with more reasons than this has no large one that begins later."""
MOST_PLACES = 5
_ORDER: tuple[ClusterKind, ...] = ("repeated", "check", "error", "tag")
"""Of clusters of one size, the reason comes before the tag."""


class Clusters:
    def __init__(self) -> None:
        self._numbers: dict[ClusterKey, int] = {}
        self._first: dict[ClusterKey, list[ClusterPlace]] = {}

    def add(self, result: Result) -> None:
        for key in cluster_keys(result):
            if key not in self._numbers and len(self._numbers) >= MOST_KEYS:
                continue
            self._numbers[key] = self._numbers.get(key, 0) + 1
            places = self._first.setdefault(key, [])
            if len(places) < MOST_PLACES:
                places.append(ClusterPlace(result.suite, result.id, result.target, result.variant, result.trial))

    def largest(self) -> tuple[Cluster, ...]:
        """The largest clusters; of equal ones that of the first conversation."""
        ranked = sorted(self._numbers.items(), key=lambda one: (-one[1], _ORDER.index(one[0].kind)))
        return tuple(
            Cluster(key.kind, key.key, number, tuple(self._first[key])) for key, number in ranked[:MOST_CLUSTERS]
        )
