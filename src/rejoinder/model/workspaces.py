"""The workspace of an agent, as checks see it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Protocol


class Workspace(Protocol):
    """The folder that an agent works in during a conversation."""

    workspace: Path

    def changed(self) -> Mapping[str, str]:
        """The files that differ from what the agent was given, each with `added`, `changed` or `deleted`."""
        ...
