"""The number of conversations that a run plays at once."""

from __future__ import annotations

from typing import NamedTuple

from rejoinder.engine.plan import default_workers
from rejoinder.engine.setup import Setup
from rejoinder.model.providers import ProviderInfo, row_of
from rejoinder.open_files import limit_words, room_for

OWN_FILES = 10
"""Descriptors that a run opens for itself after its workers are counted: event loop, journal, results."""
PIPES = 4
"""Descriptors of a program that answers: three pipes, and one while it starts."""


class AtOnce(NamedTuple):
    """The number, and in words why it is lower than the number that was asked for."""

    conversations: int
    cap: str = ""


def count_at_once(setup: Setup) -> AtOnce:
    """Each conversation that asks over HTTP or by a program of its own needs room for connections and pipes."""
    wanted = setup.options.pace.workers or default_workers(setup.survey)
    providers = {row_of(target.provider) for _, target in setup.survey.targets}
    need = max((_descriptors_of(one) for one in providers), default=0) if setup.opens_targets else 0
    fitting = max(1, (room_for(wanted * need + OWN_FILES) - OWN_FILES) // need) if need else wanted
    if fitting >= wanted:
        return AtOnce(wanted)
    return AtOnce(fitting, f"{fitting} conversations at once instead of {wanted}: {limit_words()}")


def _descriptors_of(provider: ProviderInfo) -> int:
    """Descriptors that a conversation needs for its target: connections, or the pipes of a program."""
    if provider.over_http:
        return 1
    return PIPES if provider.runs_code and not provider.in_process else 0
