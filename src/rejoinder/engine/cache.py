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
from typing import Annotated

import msgspec
from msgspec import Meta, Struct

from rejoinder.engine.seal import code_of
from rejoinder.engine.secrets import Mask
from rejoinder.errors import UsageError
from rejoinder.model import Reply

FILE = ".rejoinder/cache.sqlite"
_CODED = b"coded "
LATEST = 1e11
"""Seconds since 1970 that a date can be written for."""
_SCHEMA = """
create table if not exists replies (
  key text primary key, target text not null, reply blob not null, kept_at real not null, used_at real not null
) without rowid
"""


class Contents(Struct, frozen=True):
    """What a cache holds."""

    replies: int
    bytes: int
    oldest: Annotated[float, Meta(ge=0, le=LATEST)] | None
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
        content = self._opened(key, row[0])
        with contextlib.suppress(msgspec.MsgspecError, RecursionError, UnicodeError):  # one of another version is none
            return None if content is None else self._decode(content)
        return None

    def put(self, key: str, target: str, reply: Reply) -> None:
        now, content = time.time(), self._closed(key, msgspec.json.encode(reply))
        if content is None:
            return
        with self._explained():
            self._store.execute(
                "insert or replace into replies values (?, ?, ?, ?, ?)", (key, target, content, now, now)
            )

    def _closed(self, key: str, content: bytes) -> bytes | None:
        """A reply as it is kept. One with a secret in it has the secret's name there, and a code of this user's: a file
        from elsewhere could name any secret, and have it sent to a judge."""
        hidden = self._mask.hide(content)
        if hidden == content:
            return content
        code = code_of(key.encode() + hidden)
        return None if code is None else _CODED + code + b"\n" + hidden

    def _opened(self, key: str, kept: object) -> bytes | None:
        """The reply, or None where it is not to be trusted."""
        if not isinstance(kept, bytes):
            return None
        if not kept.startswith(_CODED):
            return kept if self._mask.reveal(kept) == kept else None
        code, _, hidden = kept.removeprefix(_CODED).partition(b"\n")
        return self._mask.reveal(hidden) if code == code_of(key.encode() + hidden) else None

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
        with self._explained():
            found = {"replies": count, "bytes": size, "oldest": oldest, "by_target": dict(rows)}
            return msgspec.convert(found, Contents)

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
        except (OSError, sqlite3.Error, msgspec.ValidationError) as error:
            hint = "Delete the file, or leave out --cache; it holds nothing that cannot be asked again."
            raise UsageError(f"the cache {self.path} cannot be used: {error}", hint) from None
