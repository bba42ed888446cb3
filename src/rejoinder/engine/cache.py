"""The cache: replies of earlier runs, for requests that are equal in all that an answer depends on.

The key is the provider, the model, its parameters, the messages and the trial: so `--repeat 5` has five answers of its
own, and a second run of it the same five. Failures are never kept. It is one file in the project's folder, and may be
deleted at any time.

The file may have come with a cloned repository. So it is opened through no link, and only if it is a cache and
nothing else; and each row has a seal by the user's own key: a row of another user, or one that was changed, answers
nothing.
"""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import os
import re
import sqlite3
import time
from collections.abc import Callable, Generator, Iterable
from hashlib import blake2b
from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import Meta, Struct, structs

from rejoinder.engine.calls import Call, Source
from rejoinder.engine.effects import Stop
from rejoinder.engine.targets import OpenTargets
from rejoinder.errors import UsageError
from rejoinder.model import Failure, Reply
from rejoinder.model.runs import CacheUse
from rejoinder.model.spending import add_costs
from rejoinder.runs.journal import History, Told
from rejoinder.runs.seal import VARIABLE, code_by, usable_key
from rejoinder.runs.secrets import Mask

FILE = ".rejoinder/cache.sqlite"
_SEALED = b"sealed "
_BESIDE = ("-wal", "-shm", "-journal")
"""Endings of the files that SQLite writes beside it."""
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
        self._mask = Mask({}) if mask is None else mask
        self._decode = msgspec.json.Decoder(Reply).decode
        self._seals = _Seals()
        with self._explained(), contextlib.ExitStack() as failed:
            self._refuse_links()
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._store = sqlite3.connect(self.path, timeout=30, isolation_level=None, check_same_thread=False)
            failed.callback(self.close)
            self._store.execute("pragma trusted_schema = off")
            self._refuse_others()
            self._store.execute("pragma journal_mode = wal")
            self._store.execute("pragma synchronous = normal")
            self._store.execute(_SCHEMA)
            failed.pop_all()

    @property
    def ignored(self) -> int:
        """How many stored answers were looked up and are not sealed by this user."""
        return len(self._seals.refused)

    @property
    def is_kept(self) -> bool:
        """Can later runs use what is stored?"""
        return self._seals.last

    def get(self, key: str) -> Reply | None:
        """A reply that is not too old."""
        with self._explained():
            row = self._store.execute("select reply, kept_at from replies where key = ?", (key,)).fetchone()
        if row is None:
            return None
        content = self._seals.read(key, *row)
        if content is None or (self._lifetime_s is not None and time.time() - row[1] > self._lifetime_s):
            return None
        with contextlib.suppress(msgspec.MsgspecError, RecursionError, UnicodeError):  # one of another version is none
            return self._decode(self._mask.reveal(content))
        return None

    def put(self, key: str, target: str, reply: Reply) -> None:
        now = time.time()
        content = self._seals.write(key, self._mask.hide(msgspec.json.encode(reply)))
        with self._explained():
            self._store.execute(
                "insert or replace into replies values (?, ?, ?, ?, ?)", (key, target, content, now, now)
            )

    def _refuse_links(self) -> None:
        """A link that a cloned repository has brought would lead what we write to any file of the user."""
        beside = (self.path.with_name(f"{self.path.name}{ending}") for ending in _BESIDE)
        for path in (self.path.parent, self.path, *beside):
            if path.is_symlink():
                hint = "rejoinder makes a plain file in a plain folder there. Delete the link."
                raise UsageError(f"the cache {self.path} cannot be used: {path} is a link", hint)

    def _refuse_others(self) -> None:
        """Another database is left alone, and one that would run something when it is used."""
        for name, sql in self._store.execute("select name, sql from sqlite_master"):
            if not (
                re.match(r"create table replies\s*\(", str(sql), re.IGNORECASE) or (sql is None and "replies" in name)
            ):
                raise UsageError(
                    f"the cache {self.path} cannot be used: it holds `{str(name)[:100]}`, which no cache does",
                    "It is another database. Move it elsewhere, or delete it.",
                )

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
            hint = "Delete the file, or leave out --cache; everything in it can be asked for again."
            raise UsageError(f"the cache {self.path} cannot be used: {error}", hint) from None


class _Seals:
    """Seals rows, and reads only those that have a seal of this user. Without a usable key rows are sealed by one of
    this process, and so serve it alone."""

    def __init__(self) -> None:
        key = usable_key()
        self.last = key is not None
        self._key = key or os.urandom(32)
        self.refused: set[str] = set()

    def write(self, key: str, content: bytes) -> bytes:
        return _SEALED + self._code(key, content) + b"\n" + content

    def read(self, key: str, kept: object, kept_at: object) -> bytes | None:
        """What was sealed; None for anything else."""
        code, _, content = kept.removeprefix(_SEALED).partition(b"\n") if isinstance(kept, bytes) else (b"", b"", b"")
        if isinstance(kept_at, float) and hmac.compare_digest(code, self._code(key, content)):
            return content
        self.refused.add(key)
        return None

    def _code(self, key: str, content: bytes) -> bytes:
        return code_by(self._key, f"rejoinder cache {key}\n".encode() + content)


class CacheKeys:
    """What the store knows calls by."""

    def __init__(self, targets: OpenTargets) -> None:
        self._targets = targets

    def of(self, call: Call) -> str | None:
        """All that an answer depends on, and the trial, because repeats have answers of their own. None for what is not
        kept."""
        if call.target is None or call.job.confirms:
            return None
        request, opened = call.request, self._targets.of(call.request)
        if not opened.is_cached:
            return None
        ordinal = call.key.rpartition("-")[2]
        trial = 0 if request.embed is not None else request.trial  # which trial needs a vector first is an accident
        state = blake2b(opened.cache_material(request), digest_size=20)
        state.update(f"\0{request.judging} {trial} {ordinal}".encode())
        return state.hexdigest()


class CacheLookup:
    """Answers equal requests of earlier runs from the store."""

    asks = False

    def __init__(self, store: Cache, keys: CacheKeys) -> None:
        self._store = store
        self._keys = keys
        self.hits: list[Reply] = []
        """The answers that were found, without their text."""

    async def answer(self, call: Call) -> Told | None:
        key = self._keys.of(call)
        try:
            reply = None if key is None else self._store.get(key)
        except UsageError as error:  # it was sound when the run began; a call would cost what the user does not expect
            return Told(call.key, failure=Failure("cache", error.message))
        if reply is None:
            return None
        self.hits.append(without_text(reply))
        return Told(call.key, structs.replace(reply, cached=True))


class CacheFill:
    """Asks another source, and keeps its answers in the store.

    Of equal calls one is made and the others wait for it: otherwise the answers of this run and of the next would
    depend on which call ended last.
    """

    asks = True

    def __init__(self, store: Cache, lookup: Source, source: Source, keys: CacheKeys) -> None:
        self._store = store
        self._lookup = lookup
        self._source = source
        self._keys = keys
        self._in_flight: dict[str, asyncio.Event] = {}
        self.misses: list[Reply] = []
        """The answers that this run asked for, without their text."""
        self.trouble: str | None = None
        """Why an answer could not be kept. It is an answer all the same."""

    async def answer(self, call: Call) -> Told | Stop | None:
        key = self._keys.of(call)
        if key is None or call.target is None:
            return await self._source.answer(call)
        while (other := self._in_flight.get(key)) is not None:
            await other.wait()
            if (told := await self._lookup.answer(call)) is not None:
                return told
        self._in_flight[key] = done = asyncio.Event()
        try:
            told = await self._source.answer(call)
            if isinstance(told, Told) and told.reply is not None:
                self.misses.append(without_text(told.reply))
                reply, name = told.reply.as_recorded(), call.target.name
                self.attempt(lambda: self._store.put(key, name, reply))
            return told
        finally:
            del self._in_flight[key]
            done.set()

    def attempt(self, change: Callable[[], None]) -> None:
        """Change the store. A cache that fails during a run loses no answer."""
        try:
            change()
        except UsageError as error:
            self.trouble = error.message


def without_text(reply: Reply) -> Reply:
    """A reply as a small thing to compare by: a hash takes the place of its text."""
    content = hash((reply.text, reply.thinking, reply.tool_calls, reply.vector))
    return structs.replace(reply.as_recorded(), text=str(content), thinking=None, tool_calls=(), vector=b"")


class RunCache:
    """The cache as a run uses it."""

    def __init__(self, store: Cache, targets: OpenTargets) -> None:
        self._store = store
        self._targets = targets
        self._keys = CacheKeys(targets)
        self.lookup = CacheLookup(store, self._keys)
        self._fill: CacheFill | None = None

    def fill(self, lookup: Source, live: Source) -> CacheFill:
        self._fill = CacheFill(self._store, lookup, live, self._keys)
        return self._fill

    def forget(self, calls: Iterable[Call]) -> None:
        """Drop answers that could not be read: others may be better."""
        for key in filter(None, map(self._keys.of, calls)):
            if self._fill is not None:
                self._fill.attempt(lambda key=key: self._store.forget(key))
            else:
                self._store.forget(key)

    def _always_asked(self) -> set[str]:
        """The targets that the cache never answers for, apart from those that cost no time either."""
        return {one.target.name for one in self._targets if not one.is_cached and not one.info.at_once}

    def use(self, history: History | None) -> CacheUse:
        """How many answers came from the cache, and what of the run's tokens and cost was not spent for that reason."""
        told = history.told.values() if history is not None else ()
        before = [answer.reply for answer in told if answer.reply is not None]
        hits = [without_text(reply) for reply in before if reply.cached] + self.lookup.hits
        asked = {without_text(reply) for reply in before if not reply.cached}
        asked.update(self._fill.misses if self._fill is not None else ())
        return CacheUse(
            answers=len(hits),
            repeated=sum(reply in asked for reply in hits),
            tokens=sum(reply.usage.total_tokens for reply in hits),
            cost=add_costs(sorted(reply.cost for reply in hits if reply.cost is not None)),
            always_asked=tuple(sorted(self._always_asked())),
            ignored=self._store.ignored,
            trouble=self._trouble,
        )

    @property
    def _trouble(self) -> str | None:
        """Why later runs cannot use all that was stored."""
        if not self._store.is_kept:
            return f"there is no key to seal them with, so later runs ask again; set {VARIABLE}"
        return self._fill.trouble if self._fill is not None else None

    def close(self) -> None:
        self._store.close()
