"""What a server was started with, and what it bears."""

from __future__ import annotations

from pathlib import Path

from msgspec import Struct

PORT = 8417
TOKEN_VARIABLE = "REJOINDER_TOKEN"
"""The variable of the environment that gives commands the token."""
SHORTEST_TOKEN = 16
"""Characters of a token where others can reach the server."""
LOOPBACK = ("localhost", "127.0.0.1", "::1")
WILDCARDS = ("0.0.0.0", "::")
"""Addresses that stand for all of this machine's."""


class Limits(Struct, frozen=True, kw_only=True):
    """How much others may ask of the server."""

    body_bytes: int = 5 << 20
    body_s: float = 15.0
    """How long a request may take to arrive."""
    changes: int = 60
    """Changing requests that may come at once."""
    changes_per_s: float = 10.0
    wrong_tokens: int = 10
    """Wrong tokens that may come from an address at once."""
    wrong_tokens_per_s: float = 0.5
    queued: int = 100
    """Runs that may wait."""
    conversations: int = 100_000
    """Of a suite that is posted."""
    streams: int = 64
    """Event streams that may be open."""


class Settings(Struct, frozen=True, kw_only=True):
    """`root` is the folder of the project whose runs are shown."""

    root: Path
    host: str = "127.0.0.1"
    port: int = PORT
    token: str | None = None
    read_only: bool = False
    allow_targets: bool = False
    allow_code: bool = False
    jobs: int = 1
    """Runs of the queue that go on at the same time."""
    limits: Limits = Limits()

    @property
    def address(self) -> str:
        """Where a browser on this machine finds the server."""
        host = "127.0.0.1" if self.host in WILDCARDS else self.host
        return f"http://{as_authority(host)}:{self.port}"


def as_authority(host: str) -> str:
    """A host as it stands in an address: IPv6 in brackets."""
    return f"[{host}]" if ":" in host else host
