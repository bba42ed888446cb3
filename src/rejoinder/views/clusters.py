"""Why conversations did not pass: clusters of them in words, in the order of every surface."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec import Struct

from rejoinder.model import Result, Summary
from rejoinder.model.clusters import Cluster, ClusterKey, ClusterKind
from rejoinder.words.clusters import cluster_keys
from rejoinder.words.figures import trials_words

LEAST_LOST = 4
MOST_CLUSTERS = 5
"""Reasons on a first screen."""
LONGEST_CLUSTER = 60
"""Characters of a cluster in a list."""
MOST_KNOWN = 10_000
"""Clusters of a baseline that are compared."""
NEW = "new since the baseline"
_ORDER: tuple[ClusterKind, ...] = ("repeated", "check", "error", "tag")
"""Of clusters of one size."""


class ClusterRow(Struct, frozen=True):
    cluster: Cluster
    words: str
    """`contains "30 days" failed`, `KeyError (bot.py:39 in answer)`, `same words again`, `tag returns`"""
    is_new: bool = False
    """True if the baseline had no conversation of this cluster."""

    @property
    def number(self) -> int:
        return self.cluster.number


def clusters_of(summary: Summary, known: frozenset[ClusterKey] | None = None) -> list[ClusterRow]:
    """The largest first; tags behind all reasons, and clusters of one conversation last. A tag that all share says
    nothing. `known`: the clusters of the baseline."""
    lost = summary.failed + summary.errors
    telling = (cluster for cluster in summary.clusters if cluster.kind != "tag" or cluster.number < lost)
    return [_row(cluster, known) for cluster in sorted(telling, key=_rank)]


def _rank(cluster: Cluster) -> tuple[bool, bool, int, int]:
    return cluster.number == 1, cluster.kind == "tag", -cluster.number, _ORDER.index(cluster.kind)


def shared_clusters(summary: Summary, most: int, known: frozenset[ClusterKey] | None = None) -> list[ClusterRow]:
    """Clusters of several conversations; none if so few did not pass that people read them all."""
    if summary.failed + summary.errors < LEAST_LOST:
        return []
    return most_telling([row for row in clusters_of(summary, known) if row.number > 1], most)


def most_telling(rows: Sequence[ClusterRow], most: int) -> list[ClusterRow]:
    """At most this number of rows, in their order: new ones and errors stay before all others."""
    ranked = sorted(range(len(rows)), key=lambda place: (not rows[place].is_new, rows[place].cluster.kind != "error"))
    return [rows[place] for place in sorted(ranked[:most])]


def _row(cluster: Cluster, known: frozenset[ClusterKey] | None) -> ClusterRow:
    is_new = known is not None and ClusterKey(cluster.kind, cluster.key) not in known
    return ClusterRow(cluster, _words(cluster), is_new)


def _words(cluster: Cluster) -> str:
    match cluster.kind:
        case "repeated":
            return "same words again"
        case "tag":
            return f"tag {cluster.key}"
        case "check":
            return f"{cluster.key} failed"
        case "error":
            return cluster.key


def why_words(summary: Summary) -> str:
    """`why 17 did not pass`, `why 10 had an error`"""
    if not summary.failed:
        return f"why {trials_words(summary.errors, summary)} had an error"
    return f"why {trials_words(summary.failed + summary.errors, summary)} did not pass"


def known_clusters(results: Iterable[Result]) -> frozenset[ClusterKey] | None:
    """All clusters of a run: its summary has only the largest. None if there are too many of them."""
    known: set[ClusterKey] = set()
    for result in results:
        known.update(cluster_keys(result))
        if len(known) > MOST_KNOWN:
            return None
    return frozenset(known)
