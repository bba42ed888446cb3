"""Clusters of failures in words."""

from __future__ import annotations

from rejoinder.model import Summary
from rejoinder.model.clusters import MOST_CLUSTERS, Cluster, ClusterKey
from rejoinder.words.figures import trials_words

LEAST_LOST = 4
LONGEST_CLUSTER = 60
"""Characters of a cluster in a list."""


def shown_clusters(summary: Summary, most: int) -> list[Cluster]:
    """The largest: failed checks and errors, then repeated replies, then tags. A tag that all share says nothing."""
    lost = summary.failed + summary.errors
    telling = (cluster for cluster in summary.clusters if cluster.kind != "tag" or cluster.number < lost)
    return sorted(telling, key=lambda cluster: _ORDER.get(cluster.kind, 0))[:most]


_ORDER = {"repeated": 1, "tag": 2}


def shared_clusters(summary: Summary, most: int) -> list[Cluster]:
    """Clusters of several conversations; none if so few did not pass that people read them all."""
    if summary.failed + summary.errors < LEAST_LOST:
        return []
    return [cluster for cluster in shown_clusters(summary, most) if cluster.number > 1]


def why_words(summary: Summary) -> str:
    """`why 17 did not pass`, `why 10 had an error`"""
    if not summary.failed:
        return f"why {trials_words(summary.errors, summary)} had an error"
    return f"why {trials_words(summary.failed + summary.errors, summary)} did not pass"


def cluster_words(cluster: Cluster) -> str:
    """`contains "30 days" failed`, `KeyError: 'answer'`, `same words again`, `tag returns`"""
    match cluster.kind:
        case "repeated":
            return "same words again"
        case "tag":
            return f"tag {cluster.key}"
        case "check":
            return f"{cluster.key} failed"
        case "error":
            return cluster.key


def known_clusters(summary: Summary) -> frozenset[ClusterKey] | None:
    """All clusters of a run; None if it has so many that not all of them are recorded."""
    if len(summary.clusters) >= MOST_CLUSTERS:
        return None
    return frozenset(ClusterKey(cluster.kind, cluster.key) for cluster in summary.clusters)
