"""Rows of conversations in a SQLite file, and what lists ask of them: pages of rows, counts, searches. So memory
does not grow with the run. The file lies in a folder of the server's own."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from threading import Lock
from typing import Any, Generic, TypeAlias, TypeVar

import msgspec
from msgspec import Struct, structs

from rejoinder.model import Result, ToolCall
from rejoinder.run_files import open_file
from rejoinder.runs.results import read_result
from rejoinder.server.errors import ApiError
from rejoinder.views.quotes import quote_of
from rejoinder.views.rows import RowView

BATCH = 500
"""Rows that are written at once."""
SHORTEST_SEARCH = 3
"""Characters from which on transcripts are searched, too."""
LONGEST_SEARCH = 200
MOST_SEARCHES = 16
"""Searches whose hits are kept."""
PAGE = 500
"""Rows of one answer at most."""
MOST_SIBLINGS = 1_000

PASSED = ("recovered", "first")
DIFFERENT = "different"
"""Conversations of cases that passed in some and not in others."""
AGAIN = "again"
"""Conversations in which the reply to a follow-up repeats an earlier one."""
LONGEST_HIT = 200
"""Characters of the words around what a search found."""

_TABLES = """
create table rows (
    at integer primary key, offset integer, size integer, suite text, "case" text, target text, variant text,
    trial integer, rank integer, tags text, clusters text, found text, row blob, before integer, before_size integer,
    same integer, "of" integer
);
create table cases (id integer primary key, suite text, "case" text, passed integer, others integer);
create unique index by_name on cases (suite, "case");
create index by_rank on rows (rank, at, "of");
create index by_number on rows ("of");
create index by_case on rows ("case", suite, target, variant, trial);
create table searches (id integer primary key, q text unique, reached integer);
create table before ("key" text primary key, at integer, offset integer, size integer, used integer) without rowid;
create table hits (search integer, at integer, hit text, primary key (search, at)) without rowid;
"""


_Row = TypeVar("_Row", bound=RowView)
Place: TypeAlias = tuple[int | None, int | None]
"""Offset and size of a line; None if missing."""
NOWHERE: Place = (None, None)


class Address(Struct, frozen=True):
    """What a conversation is known by in its run."""

    suite: str
    case: str
    target: str
    variant: str | None
    trial: int


class Query(Struct, frozen=True):
    """What a list shows. An empty text is no filter; the variant `-` is that of conversations without one."""

    show: str = ""
    target: str = ""
    variant: str = ""
    tag: str = ""
    q: str = ""
    why: str = ""
    """The name of a cluster."""


class Found(Struct, frozen=True):
    """A page of rows, how many there are in all, and how many each pill would show under the other filters."""

    total: int
    rows: Sequence[RowView]
    counts: dict[str, int]


class _Texts(Struct, frozen=True):
    """Of a turn, what a search looks at."""

    prompt: str
    response: str | None = None
    thinking: str | None = None
    tool_calls: tuple[ToolCall, ...] = ()

    def __iter__(self) -> Iterator[str]:
        yield from (self.prompt, self.response or "", self.thinking or "")
        for call in self.tool_calls:
            yield from (call.name, call.arguments, call.result or "")


class _Transcript(Struct, frozen=True):
    turns: tuple[_Texts, ...] = ()


class RowStore(Generic[_Row]):
    """Rows in a SQLite file of the server's own, and what lists ask of them. One thread writes, others read."""

    def __init__(self, place: Path, names: tuple[str, ...], kind: type[_Row], sources: tuple[Path, ...]) -> None:
        """`place`: the file, which is new. `names`: what rows are counted by, in the order of the list. `sources`: the
        results that they are of."""
        self.sources = sources
        self.file = place
        self._names = names
        self._decode: Callable[[bytes], _Row] = msgspec.json.Decoder(kind).decode
        self.growing = Lock()
        with self.opened("rwc") as store:
            store.execute("pragma journal_mode = wal")
            store.executescript(f"begin; {_TABLES} commit;")

    def close(self) -> None:
        for ending in ("", "-wal", "-shm"):
            with suppress(OSError):
                Path(f"{self.file}{ending}").unlink()

    @contextmanager
    def opened(self, mode: str = "rw") -> Generator[sqlite3.Connection]:
        """Raises ApiError where the index was closed meanwhile, to make room for others."""
        try:
            store = sqlite3.connect(f"{self.file.as_uri()}?mode={mode}", uri=True, isolation_level=None, timeout=60)
        except sqlite3.OperationalError:
            raise ApiError(503, "the run was put aside for others; load the page again") from None
        with closing(store):
            store.execute("pragma synchronous = off")
            yield store

    def find(self, query: Query, start: int, count: int) -> Found:
        with self.opened() as store:
            others, values = self._conditions(query)
            counted = store.execute(f"select rank, count(*) from rows where {others} group by rank", values).fetchall()
            numbers = dict.fromkeys(self._names, 0) | {self._names[rank]: number for rank, number in counted}
            (different,) = store.execute(f"select count(*) from rows where {others} and {_IN_TWO}", values).fetchone()
            (again,) = store.execute(f"select count(*) from rows where {others} and same", values).fetchone()
            counts = {"all": sum(numbers.values()), **numbers, DIFFERENT: different, AGAIN: again}
            shown, more = self._shown(query.show)
            rows = store.execute(
                f"select row from rows where {others} and {shown} order by rank, at limit ? offset ?",
                (*values, *more, max(0, min(count, PAGE)), max(0, start)),
            ).fetchall()
            found = self._with_hits(store, self._rows(rows), query)
            return Found(counts.get(query.show or "all", 0), found, counts)

    def _with_hits(self, store: sqlite3.Connection, rows: list[_Row], query: Query) -> list[_Row]:
        """The rows with what a search found in their transcripts."""
        known = "select hit from hits join searches on id = search where q = ? and at = ?"
        wanted = _wanted(query)
        hits = (store.execute(known, (wanted, row.at)).fetchone() if wanted else None for row in rows)
        return [row if hit is None else structs.replace(row, hit=hit[0]) for row, hit in zip(rows, hits, strict=True)]

    def place(self, address: Address, query: Query) -> int:
        """Where a conversation stands in the filtered list, from 0; -1 where it does not."""
        with self.opened() as store:
            conditions, values = self._conditions(query)
            shown, more = self._shown(query.show)
            conditions, values = f"{conditions} and {shown}", (*values, *more)
            of, named = addressed(address)
            found = store.execute(
                f"select rank, at from rows where {of} and {conditions} limit 1", (*named, *values)
            ).fetchone()
            if found is None:
                return -1
            before = f"select count(*) from rows where {conditions} and (rank, at) < (?, ?)"
            return int(store.execute(before, (*values, *found)).fetchone()[0])

    def siblings(self, suite: str, case: str) -> list[_Row]:
        """The conversations of a case."""
        with self.opened() as store:
            of = 'select row from rows where "case" = ? and suite = ? order by at limit ?'
            return self._rows(store.execute(of, (case, suite, MOST_SIBLINGS)).fetchall())

    def after(self, at: int, count: int = PAGE) -> list[_Row]:
        """Rows that were added from a place on, in the order in which they came."""
        with self.opened() as store:
            found = store.execute("select row from rows where at >= ? order by at limit ?", (at, count))
            return self._rows(found.fetchall())

    def of_worst_cases(self, cases: int) -> list[_Row]:
        """The conversations of the cases that passed least often, so many cases at most."""
        worst = "select id from cases order by others desc, id limit ?"
        of = f'select row from rows where "of" in ({worst}) order by at limit ?'
        with self.opened() as store:
            return self._rows(store.execute(of, (cases, cases * MOST_SIBLINGS)).fetchall())

    def row(self, address: Address) -> _Row | None:
        with self.opened() as store:
            of, values = addressed(address)
            found = self._rows(store.execute(f"select row from rows where {of} limit 1", values).fetchall())
            return found[0] if found else None

    def tags(self) -> list[str]:
        """The tags of all cases, of many the first."""
        with self.opened() as store:
            found = store.execute("select distinct tags from rows where tags != '\n' limit ?", (PAGE,)).fetchall()
        return sorted({tag for (tags,) in found for tag in tags.split("\n") if tag})

    def _rows(self, found: list[tuple[bytes]]) -> list[_Row]:
        return [self._decode(row) for (row,) in found]

    def _shown(self, show: str) -> tuple[str, tuple[Any, ...]]:
        if show == DIFFERENT:
            return _IN_TWO, ()
        if show == AGAIN:
            return "same", ()
        return ("rank = ?", (self._names.index(show),)) if show in self._names else ("true", ())

    def _conditions(self, query: Query) -> tuple[str, tuple[Any, ...]]:
        """Every filter but that of the pills, as SQL and its values."""
        parts, values = ["true"], list[Any]()
        if query.target:
            parts.append("target = ?")
            values.append(query.target)
        if query.variant:
            parts.append("variant = ?")
            values.append("" if query.variant == "-" else query.variant)
        if query.tag:
            parts.append("instr(tags, ?)")
            values.append(f"\n{query.tag}\n")
        if query.why:
            parts.append("instr(clusters, ?)")
            values.append(f"\n{query.why}\n")
        if wanted := _wanted(query):
            search = self._search(wanted) if len(wanted) >= SHORTEST_SEARCH else 0
            parts.append("(instr(found, ?) or at in (select at from hits where search = ?))")
            values += (wanted, search)
        return " and ".join(parts), tuple(values)

    def _search(self, wanted: str) -> int:
        """The number of a search, whose hits in transcripts are in the index then. A second look for the same words
        goes on where the first one ended."""
        with self.growing, self.opened() as store:
            (known,) = store.execute("select coalesce(max(at) + 1, 0) from rows").fetchone()
            store.execute("insert or ignore into searches (q, reached) values (?, 0)", (wanted,))
            search, reached = store.execute("select id, reached from searches where q = ?", (wanted,)).fetchone()
            if reached < known:
                hits = [(search, at, hit) for at, hit in _hits(store, self.sources, wanted, reached)]
                old = "select id from searches order by id desc limit -1 offset ?"
                gone = store.execute(old, (MOST_SEARCHES,)).fetchall()
                store.execute("begin")
                store.executemany("insert or ignore into hits values (?, ?, ?)", hits)
                store.executemany("delete from searches where id = ?", gone)
                store.executemany("delete from hits where search = ?", gone)
                store.execute("update searches set reached = ? where id = ?", (known, search))
                store.execute("commit")
            return search

    def read(self, number: int, columns: str, condition: str, values: tuple[Any, ...]) -> Result | None:
        """A conversation, read from one of the sources. Raises RunDamaged where that is no longer what was indexed."""
        with self.opened() as store:
            found = store.execute(f"select {columns} from rows where {condition} limit 1", values).fetchone()
        return None if found is None or found[0] is None else read_result(self.sources[number], *found)


def _hits(store: sqlite3.Connection, sources: tuple[Path, ...], wanted: str, reached: int) -> Iterator[tuple[int, str]]:
    """Conversations in whose transcript the words stand, whatever space is between them, and the part around them. A
    look for the longest word in the bytes of a line says of most that they do not; the others are read."""
    longest = max(wanted.split(), key=len)
    plain = msgspec.json.encode(longest)[1:-1] if longest.isascii() else None
    decode = msgspec.json.Decoder(_Transcript).decode
    for source, columns in zip(sources, ("offset, size", "before, before_size"), strict=False):
        of = f"select at, {columns} from rows where at >= ? order by at"
        with suppress(OSError), open_file(source) as stream:
            for at, offset, size in store.execute(of, (reached,)):
                if offset is None:
                    continue
                if stream.tell() != offset:
                    stream.seek(offset)
                line = stream.read(size)
                if plain is not None and plain not in line.lower():
                    continue
                try:
                    turns = decode(line).turns
                except (msgspec.MsgspecError, RecursionError, ValueError):
                    continue
                text = next((text for turn in turns for text in turn if wanted in folded(text)), None)
                if text is not None:
                    yield at, _around(text, wanted)


def _around(text: str, wanted: str) -> str:
    """The part of a text that has these words, in one line; in small letters if others are longer or shorter."""
    found = re.search(r"\s+".join(map(re.escape, wanted.split())), text, re.IGNORECASE)
    if found is None:
        text = folded(text)
        place = text.index(wanted)
        return quote_of(text, ((place, place + len(wanted)),), LONGEST_HIT)[0]
    return quote_of(text, (found.span(),), LONGEST_HIT)[0]


def _wanted(query: Query) -> str:
    return folded(query.q[:LONGEST_SEARCH])


def folded(text: str) -> str:
    """As texts are compared: in one letter case, with single spaces."""
    return " ".join(text.casefold().split())


def _columns_of(row: RowView, rank: int, here: Place, before: Place) -> tuple[Any, ...]:
    texts = (row.title, row.case, row.suite, row.target, row.variant or "", *row.tags, row.why)
    found, tags = "\n".join(map(folded, texts)), "\n".join(("", *row.tags, ""))
    clusters = "\n".join(("", *row.clusters, ""))
    name = (row.suite, row.case, row.target, row.variant or "", row.trial)
    counted = (int(row.outcome in PASSED), int(row.outcome not in (*PASSED, "skipped")))
    same = row.same_as is not None
    return (row.at, *here, *name, rank, tags, clusters, found, msgspec.json.encode(row), *before, same, *counted)


class RowWriter:
    """Writes rows, many at once."""

    def __init__(self, store: sqlite3.Connection) -> None:
        self._store = store
        self._waiting: list[tuple[Any, ...]] = []

    def add(self, row: RowView, rank: int, here: Place, before: Place = NOWHERE) -> bool:
        """Were rows written? The others wait for `write`."""
        self._waiting.append(_columns_of(row, rank, here, before))
        if len(self._waiting) < BATCH:
            return False
        self.write()
        return True

    def write(self) -> None:
        self._store.execute("begin")
        self._store.executemany(_COUNT, ((row[3], row[4], *row[-2:]) for row in self._waiting))
        self._store.executemany(_INSERT, (row[:-2] for row in self._waiting))
        self._store.execute("commit")
        self._waiting.clear()


_COUNT = """insert into cases (suite, "case", passed, others) values (?, ?, ?, ?)
on conflict (suite, "case") do update set passed = passed + excluded.passed, others = others + excluded.others"""
_INSERT = f"""insert into rows values ({", ".join(f"?{place}" for place in range(1, 17))},
(select id from cases where suite = ?4 and "case" = ?5))"""
_IN_TWO = '"of" in (select id from cases where passed and others)'


def addressed(address: Address) -> tuple[str, tuple[Any, ...]]:
    values = (address.case, address.suite, address.target, address.variant or "", address.trial)
    return '"case" = ? and suite = ? and target = ? and variant = ? and trial = ?', values
