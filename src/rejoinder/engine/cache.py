"""The cache: replies of earlier runs, for requests that are equal in all that an answer depends on.

The key is the provider, the model, its parameters, the messages and the trial: so `--repeat 5` has five answers of its
own, and a second run of it the same five. Failures are never kept. It is one file in the project's folder, and may be
deleted at any time.
"""

from __future__ import annotations

import contextlib
import sqlite3
import time
from collections.abc import Generator
from pathlib import Path

import msgspec
from msgspec import Struct

from rejoinder.engine.masking import Mask
from rejoinder.errors import UsageError
from rejoinder.model import Reply

FILE = ".rejoinder/cache.sqlite"
_SCHEMA = """
create table if not exists replies (
  key text primary key, target text not null, reply blob not null, kept_at real not null, used_at real not null
) without rowid
"""


class Contents(Struct, frozen=True):
    """What a cache holds."""

    replies: int
    bytes: int
    oldest: float | None
    by_target: dict[str, int]


class Cache:
    """Replies on the disk. Several processes may use it at the same time."""

    def __init__(self, root: Path, lifetime_s: float | None = None, mask: Mask | None = None) -> None:
        """`mask` puts names in the place of secrets: a model may repeat what it was told."""
        self.path = root / FILE
        self._lifetime_s = lifetime_s
        self._mask = mask or Mask({})
        self._decode = msgspec.json.Decoder(Reply).decode
        with self._explained(), contextlib.ExitStack() as failed:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._store = sqlite3.connect(self.path, timeout=30, isolation_level=None)
            failed.callback(self.close)
            self._store.execute("pragma journal_mode = wal")
            self._store.execute("pragma synchronous = normal")
            self._store.execute(_SCHEMA)
            failed.pop_all()

    def get(self, key: str) -> Reply | None:
        """A reply that is not too old."""
        with self._explained():
            row = self._store.execute("select reply, kept_at from replies where key = ?", (key,)).fetchone()
        if row is None or (self._lifetime_s is not None and time.time() - row[1] > self._lifetime_s):
            return None
        with contextlib.suppress(msgspec.MsgspecError):  # one that an other version has written is none
            return self._decode(self._mask.reveal(row[0]))
        return None

    def put(self, key: str, target: str, reply: Reply) -> None:
        now = time.time()
        values = (key, target, self._mask.hide(msgspec.json.encode(reply)), now, now)
        with self._explained():
            self._store.execute("insert or replace into replies values (?, ?, ?, ?, ?)", values)

    def forget(self, key: str) -> None:
        with self._explained():
            self._store.execute("delete from replies where key = ?", (key,))

    def contents(self) -> Contents:
        with self._explained():
            count, size, oldest = self._store.execute(
                "select count(*), coalesce(sum(length(reply)), 0), min(kept_at) from replies"
            ).fetchone()
            rows = self._store.execute(
                "select target, count(*) from replies group by target order by 2 desc"
            ).fetchall()
        return Contents(count, size, oldest, dict(rows))

    def clear(self, older_than_s: float | None = None) -> int:
        """Forget everything, or what is older; how many replies that were."""
        before = time.time() - older_than_s if older_than_s is not None else float("inf")
        with self._explained():
            gone = self._store.execute("delete from replies where kept_at < ?", (before,)).rowcount
            self._store.execute("vacuum")
        return gone

    def close(self) -> None:
        self._store.close()

    @contextlib.contextmanager
    def _explained(self) -> Generator[None]:
        try:
            yield
        except (OSError, sqlite3.Error) as error:
            hint = "Delete the file, or leave out --cache; it holds nothing that cannot be asked again."
            raise UsageError(f"the cache {self.path} cannot be used: {error}", hint) from None
