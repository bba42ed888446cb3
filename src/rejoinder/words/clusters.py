"""Keys of clusters: the same check, the same error, the same words again, the same tag."""

from __future__ import annotations

import re
from collections.abc import Iterator

from rejoinder.model.clusters import ClusterKey, repeated_turns
from rejoinder.model.results import Result, deciding_turns
from rejoinder.words.checks import called
from rejoinder.words.numbers import both_ends

LONGEST_KEY = 200
MOST_CHECKS = 5
"""Failed checks by which one conversation is clustered."""
_NUMBER = re.compile(r"(?<!\.\w:)(?<!\.\w\w:)(?<!\.\w\w\w:)(?<!line )(?<!HTTP )(?<![\d.])\d[\d.,]*")
"""A number in the message of an error that may differ between equal errors: not the line of a file, not a status."""

_RAISED = re.compile(r"\w+: `[^`]*` raised ([A-Za-z_][\w.]*)(?:: .*)? (\([^()\s]+:\d+(?: in [^()]+)?\))")
"""An exception of a function, and the place that raised it."""


def cluster_keys(result: Result) -> Iterator[ClusterKey]:
    """The clusters of a conversation that did not pass, each once."""
    if result.status not in ("failed", "error"):
        return
    if repeated_turns(result.turns):
        yield ClusterKey("repeated", "")
    if result.error is not None:
        yield ClusterKey("error", _error_key(f"{result.error.type}: {result.error.message}"))
    else:
        failed = [check for turn in deciding_turns(result) for check in turn.checks if not check.passed]
        failed += [check for check in result.conversation_checks if not check.passed]
        labels = dict.fromkeys(called(check)[:LONGEST_KEY] for check in failed)
        yield from (ClusterKey("check", label) for label in list(labels)[:MOST_CHECKS])
    yield from (ClusterKey("tag", tag) for tag in dict.fromkeys(result.tags))


def _error_key(error: str) -> str:
    """The exception and its place, whatever function was called and whatever the exception says; else the message."""
    message = error.split("\n--- recorded\n", 1)[0]
    if (raised := _RAISED.fullmatch(" ".join(both_ends(message, 8 * LONGEST_KEY).split()))) is not None:
        return f"{raised[1]} {raised[2]}"[:LONGEST_KEY]
    return _NUMBER.sub("#", " ".join(message[: 4 * LONGEST_KEY].split()))[:LONGEST_KEY]
