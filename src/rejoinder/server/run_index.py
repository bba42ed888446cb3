"""The index of a run: a SQLite file with a row for each conversation, made by one walk through its results.

Pages of rows, counts, searches and single conversations come from it, so memory does not grow with the run. The file
lies in a folder of the server's own. Results may come from strangers: a line that is not a result of ours ends the walk
and is named, one that is too long is passed over, and so are lines beyond a number that no run of ours has.

While a run goes on, its results are in a draft beside the file they will be in. Lines are only added to it, so the walk
goes on where it ended. A file that was replaced or cut is indexed anew.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from threading import Lock, Thread
from time import monotonic
from typing import Any, BinaryIO, Generic, TypeAlias, TypeVar

import msgspec
from msgspec import Struct, structs

from rejoinder.engine.results import read_result
from rejoinder.model import Result, ToolCall
from rejoinder.report.page.pairs import CHANGES, PairRow, Sides, pair_of
from rejoinder.report.page.rows import Frame, Row, row_of
from rejoinder.run_files import RunDamaged, open_file
from rejoinder.server.errors import ApiError

LONGEST = 1 << 25
"""Bytes of a line that is read; a longer one is left out and counted."""
MOST_BYTES = 1 << 33
"""Of a file that is read at all."""
PIECE = 1 << 20
"""Bytes of a line that are read at once."""
MOST = 2_000_000
"""Conversations that are indexed."""
BATCH = 500
"""Conversations that are written at once."""
SHORTEST_SEARCH = 3
"""Characters from which on transcripts are searched, too."""
LONGEST_SEARCH = 200
MOST_SEARCHES = 16
"""Searches whose hits are kept."""
PAGE = 500
"""Rows of one answer at most."""
MOST_SIBLINGS = 1_000
_TAIL = 64
"""Bytes before the place where the walk ended, by which a file is known again."""

ORDER = ("failed", "error", "recovered", "first", "skipped")
"""Outcomes as the list has them."""
PASSED = ("recovered", "first")
DIFFERENT = "different"
"""Conversations of cases that passed in some and not in others."""

_TABLES = """
create table rows (
    at integer primary key, offset integer, size integer, suite text, "case" text, target text, variant text,
    trial integer, rank integer, tags text, found text, row blob, before integer, before_size integer, "of" integer
);
create table cases (id integer primary key, suite text, "case" text, passed integer, others integer);
create unique index by_name on cases (suite, "case");
create index by_rank on rows (rank, at, "of");
create index by_number on rows ("of");
create index by_case on rows ("case", suite, target, variant, trial);
create table searches (id integer primary key, q text unique, reached integer);
create table before ("key" text primary key, at integer, offset integer, size integer, used integer) without rowid;
create table hits (search integer, at integer, primary key (search, at)) without rowid;
"""


_Row = TypeVar("_Row", bound=Row)


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


class Found(Struct, frozen=True):
    """A page of rows, how many there are in all, and how many each pill would show under the other filters."""

    total: int
    rows: Sequence[Row]
    counts: dict[str, int]


class State(Struct, frozen=True):
    """How far an index has come."""

    rows: int
    done: bool
    """Was all of the file walked through that was there at the last look?"""
    left_out: int = 0
    """Lines that were too long, or too many."""
    damage: str | None = None
    """What is wrong with the first line that is not a result."""


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
        self._growing = Lock()
        with self._opened("rwc") as store:
            store.execute("pragma journal_mode = wal")
            store.executescript(f"begin; {_TABLES} commit;")

    def close(self) -> None:
        for ending in ("", "-wal", "-shm"):
            with suppress(OSError):
                Path(f"{self.file}{ending}").unlink()

    @contextmanager
    def _opened(self, mode: str = "rw") -> Generator[sqlite3.Connection]:
        """Raises ApiError where the index was closed meanwhile, to make room for others."""
        try:
            store = sqlite3.connect(f"{self.file.as_uri()}?mode={mode}", uri=True, isolation_level=None, timeout=60)
        except sqlite3.OperationalError:
            raise ApiError(503, "the run was put aside for others; load the page again") from None
        with closing(store):
            store.execute("pragma synchronous = off")
            yield store

    def find(self, query: Query, start: int, count: int) -> Found:
        with self._opened() as store:
            others, values = self._conditions(query)
            counted = store.execute(f"select rank, count(*) from rows where {others} group by rank", values).fetchall()
            numbers = dict.fromkeys(self._names, 0) | {self._names[rank]: number for rank, number in counted}
            (different,) = store.execute(f"select count(*) from rows where {others} and {_IN_TWO}", values).fetchone()
            counts = {"all": sum(numbers.values()), **numbers, DIFFERENT: different}
            shown, more = self._shown(query.show)
            rows = store.execute(
                f"select row from rows where {others} and {shown} order by rank, at limit ? offset ?",
                (*values, *more, max(0, min(count, PAGE)), max(0, start)),
            ).fetchall()
            return Found(counts.get(query.show or "all", 0), self._rows(rows), counts)

    def place(self, address: Address, query: Query) -> int:
        """Where a conversation stands in the filtered list, from 0; -1 where it does not."""
        with self._opened() as store:
            conditions, values = self._conditions(query)
            shown, more = self._shown(query.show)
            conditions, values = f"{conditions} and {shown}", (*values, *more)
            of, named = _addressed(address)
            found = store.execute(
                f"select rank, at from rows where {of} and {conditions} limit 1", (*named, *values)
            ).fetchone()
            if found is None:
                return -1
            before = f"select count(*) from rows where {conditions} and (rank, at) < (?, ?)"
            return int(store.execute(before, (*values, *found)).fetchone()[0])

    def siblings(self, suite: str, case: str) -> list[_Row]:
        """The conversations of a case."""
        with self._opened() as store:
            of = 'select row from rows where "case" = ? and suite = ? order by at limit ?'
            return self._rows(store.execute(of, (case, suite, MOST_SIBLINGS)).fetchall())

    def after(self, at: int, count: int = PAGE) -> list[_Row]:
        """Rows that were added from a place on, in the order in which they came."""
        with self._opened() as store:
            found = store.execute("select row from rows where at >= ? order by at limit ?", (at, count))
            return self._rows(found.fetchall())

    def of_worst_cases(self, cases: int) -> list[_Row]:
        """The conversations of the cases that passed least often, so many cases at most."""
        worst = "select id from cases order by others desc, id limit ?"
        of = f'select row from rows where "of" in ({worst}) order by at limit ?'
        with self._opened() as store:
            return self._rows(store.execute(of, (cases, cases * MOST_SIBLINGS)).fetchall())

    def row(self, address: Address) -> _Row | None:
        with self._opened() as store:
            of, values = _addressed(address)
            found = self._rows(store.execute(f"select row from rows where {of} limit 1", values).fetchall())
            return found[0] if found else None

    def tags(self) -> list[str]:
        """The tags of all cases, of many the first."""
        with self._opened() as store:
            found = store.execute("select distinct tags from rows where tags != '\n' limit ?", (PAGE,)).fetchall()
        return sorted({tag for (tags,) in found for tag in tags.split("\n") if tag})

    def _rows(self, found: list[tuple[bytes]]) -> list[_Row]:
        return [self._decode(row) for (row,) in found]

    def _shown(self, show: str) -> tuple[str, tuple[Any, ...]]:
        if show == DIFFERENT:
            return _IN_TWO, ()
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
        if wanted := folded(query.q[:LONGEST_SEARCH]):
            search = self._search(wanted) if len(wanted) >= SHORTEST_SEARCH else 0
            parts.append("(instr(found, ?) or at in (select at from hits where search = ?))")
            values += (wanted, search)
        return " and ".join(parts), tuple(values)

    def _search(self, wanted: str) -> int:
        """The number of a search, whose hits in transcripts are in the index then. A second look for the same words
        goes on where the first one ended."""
        with self._growing, self._opened() as store:
            (known,) = store.execute("select coalesce(max(at) + 1, 0) from rows").fetchone()
            store.execute("insert or ignore into searches (q, reached) values (?, 0)", (wanted,))
            search, reached = store.execute("select id, reached from searches where q = ?", (wanted,)).fetchone()
            if reached < known:
                hits = [(search, at) for at in _hits(store, self.sources, wanted, reached)]
                old = "select id from searches order by id desc limit -1 offset ?"
                gone = store.execute(old, (MOST_SEARCHES,)).fetchall()
                store.execute("begin")
                store.executemany("insert or ignore into hits values (?, ?)", hits)
                store.executemany("delete from searches where id = ?", gone)
                store.executemany("delete from hits where search = ?", gone)
                store.execute("update searches set reached = ? where id = ?", (known, search))
                store.execute("commit")
            return search

    def _read(self, number: int, columns: str, condition: str, values: tuple[Any, ...]) -> Result | None:
        """A conversation, read from one of the sources. Raises RunDamaged where that is no longer what was indexed."""
        with self._opened() as store:
            found = store.execute(f"select {columns} from rows where {condition} limit 1", values).fetchone()
        return None if found is None or found[0] is None else read_result(self.sources[number], *found)


def _hits(store: sqlite3.Connection, sources: tuple[Path, ...], wanted: str, reached: int) -> Iterator[int]:
    """Conversations in whose transcript the words stand, whatever space is between them. A look for the longest
    word in the bytes of a line says of most that they do not; the others are read."""
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
                if any(wanted in folded(text) for turn in turns for text in turn):
                    yield at


class RunIndex(RowStore[Row]):
    """The index of one file of results, made by `grow`."""

    def __init__(self, source: Path, place: Path, frame: Frame) -> None:
        """`frame`: what rows need to know of their run."""
        super().__init__(place, ORDER, Row, (source,))
        self._frame = frame
        self._state = State(0, done=False)
        self._offset = 0
        self._seen: tuple[int, int, int] | None = None
        self._tail = b""
        self._thread: Thread | None = None

    @property
    def source(self) -> Path:
        return self.sources[0]

    @property
    def state(self) -> State:
        return self._state

    def is_of(self, source: Path) -> bool:
        """Is this the index of that file as it is now, or as far as it has been added to?"""
        if source != self.source:
            return False
        if self._seen is None:
            return True
        try:
            found = source.lstat()
            inode, size, time = self._seen
            if found.st_ino != inode or found.st_size < self._offset:
                return False
            if found.st_size == size and found.st_mtime_ns != time:
                return False
            with open_file(source) as stream:
                stream.seek(self._offset - len(self._tail))
                return stream.read(len(self._tail)) == self._tail
        except (OSError, RunDamaged):
            return False

    def grow_on(self) -> None:
        """Go on growing in a thread."""
        if self._thread is None or not self._thread.is_alive():
            self._thread = Thread(target=self.grow, daemon=True)
            self._thread.start()

    def grow(self, seconds: float | None = None) -> State:
        """Index what the file has and the index has not, for so many seconds at most. A walk that another thread has
        begun is waited for no longer than that."""
        if not self._growing.acquire(timeout=-1 if seconds is None else seconds):
            return self._state
        try:
            self._grow(None if seconds is None else monotonic() + seconds)
        except FileNotFoundError:
            self._state = structs.replace(self._state, done=True)
        except RunDamaged as error:
            self._state = structs.replace(self._state, done=True, damage=error.reason)
        except (OSError, sqlite3.Error, ApiError) as error:
            self._state = structs.replace(self._state, done=True, damage=str(error))
        finally:
            self._growing.release()
        return self._state

    def _grow(self, end: float | None) -> None:
        if self._state.damage is not None:
            return
        with open_file(self.source) as stream, self._opened() as store:
            stat = self.source.lstat()
            self._seen = (stat.st_ino, stat.st_size, stat.st_mtime_ns)
            if stat.st_size > MOST_BYTES:
                raise RunDamaged(self.source, f"it has more than {MOST_BYTES >> 30} GiB, and is not read here")
            stream.seek(self._offset)
            batch: list[tuple[Any, ...]] = []
            state = structs.replace(self._state, done=True)
            decode = msgspec.json.Decoder(Result).decode
            for offset, line, size in bounded_lines(stream, self._offset):
                self._offset, self._tail = offset + size, line[-_TAIL:]
                if size > LONGEST or state.rows >= MOST:
                    state = structs.replace(state, left_out=state.left_out + 1)
                    if state.rows >= MOST:
                        break
                    continue
                try:
                    result = decode(line)
                except (msgspec.MsgspecError, RecursionError, ValueError) as error:
                    number = state.rows + state.left_out + 1
                    state = structs.replace(state, damage=f"line {number}: {error}")
                    break
                row = row_of(result, state.rows, self._frame)
                batch.append(_columns(row, ORDER.index(row.outcome), (offset, size)))
                state = structs.replace(state, rows=state.rows + 1)
                if len(batch) >= BATCH:
                    _write(store, batch)
                    self._state = structs.replace(state, done=False)
                    batch = []
                    if end is not None and monotonic() > end:
                        state = self._state
                        break
            _write(store, batch)
            self._state = state

    def result(self, address: Address) -> Result | None:
        return self._read(0, "offset, size", *_addressed(address))


class PairIndex(RowStore[PairRow]):
    """The conversations of two runs side by side: a row for each pair. `sources` are B's results and A's."""

    def __init__(self, b: Path, a: Path, place: Path, sides: Sides) -> None:
        super().__init__(place, CHANGES, PairRow, (b, a))
        self._sides = sides

    def fill(self, in_a: Callable[[Result], Any], in_b: Callable[[Result], Any]) -> None:
        """Match the conversations of both by what the functions call them. Raises RunDamaged."""
        b, a = self.sources
        with self._growing, self._opened() as store:
            store.execute("begin")
            for at, offset, size, result in _results(a):
                named = (_key(in_a(result)), at, offset, size)
                store.execute("insert or ignore into before values (?, ?, ?, ?, 0)", named)
            store.execute("commit")
            batch: list[tuple[Any, ...]] = []
            at = -1
            for at, offset, size, result in _results(b):
                key = _key(in_b(result))
                of = 'select offset, size from before where "key" = ? and not used'
                there = store.execute(of, (key,)).fetchone()
                store.execute('update before set used = 1 where "key" = ?', (key,))
                other = None if there is None else read_result(a, *there)
                batch.append(self._row(pair_of(other, result, at, self._sides), (offset, size), there))
                if len(batch) >= BATCH:
                    _write(store, batch)
                    batch = []
            _write(store, batch)
            batch = []
            left = store.execute("select offset, size from before where not used order by at").fetchall()
            for number, there in enumerate(left, at + 1):
                pair = pair_of(read_result(a, *there), None, number, self._sides)
                if store.execute(f"select 1 from rows where {_NAMED}", (pair.case, pair.suite, pair.target)).fetchone():
                    pair = structs.replace(pair, suite=f"{pair.suite} (A)")  # another case of B has the name
                batch.append(self._row(pair, (None, None), there))
            _write(store, batch)

    def _row(self, pair: PairRow, here: _Place, there: _Place | None) -> tuple[Any, ...]:
        return _columns(pair, CHANGES.index(pair.change), here, there or (None, None))

    def results(self, address: Address) -> tuple[Result | None, Result | None] | None:
        """The conversations of a pair, A's before B's; None where there is no such pair."""
        of = _addressed(address)
        if self.row(address) is None:
            return None
        return self._read(1, "before, before_size", *of), self._read(0, "offset, size", *of)


_Place: TypeAlias = tuple[int | None, int | None]


def _key(name: Any) -> str:
    return msgspec.json.encode(name).decode()


def _results(path: Path) -> Iterator[tuple[int, int, int, Result]]:
    """Number, place and size of each result of a file, and itself. Raises RunDamaged."""
    decode = msgspec.json.Decoder(Result).decode
    at = 0
    with open_file(path) as stream:
        for offset, line, size in bounded_lines(stream):
            if size > LONGEST or at >= MOST:
                continue
            try:
                yield at, offset, size, decode(line)
            except (msgspec.MsgspecError, RecursionError, ValueError) as error:
                raise RunDamaged(path, f"line {at + 1}: {error}") from None
            at += 1


def bounded_lines(stream: BinaryIO, offset: int = 0) -> Iterator[tuple[int, bytes, int]]:
    """Place, bytes and size of each whole line. One of more than LONGEST bytes is passed over: none of them is held.
    The last line may still be written, or was torn, and is not there then."""
    parts: list[bytes] = []
    size = 0
    while part := stream.readline(PIECE):
        size += len(part)
        parts.append(part)
        if size > LONGEST:
            parts.clear()
        if part.endswith(b"\n"):
            yield offset, b"".join(parts), size
            parts.clear()
            offset, size = offset + size, 0


def folded(text: str) -> str:
    """As texts are compared: in one letter case, with single spaces."""
    return " ".join(text.casefold().split())


def _columns(row: Row, rank: int, here: _Place, before: _Place = (None, None)) -> tuple[Any, ...]:
    texts = (row.title, row.case, row.suite, row.target, row.variant or "", *row.tags, row.why)
    found, tags = "\n".join(map(folded, texts)), "\n".join(("", *row.tags, ""))
    name = (row.suite, row.case, row.target, row.variant or "", row.trial)
    counted = (int(row.outcome in PASSED), int(row.outcome not in (*PASSED, "skipped")))
    return (row.at, *here, *name, rank, tags, found, msgspec.json.encode(row), *before, *counted)


def _write(store: sqlite3.Connection, batch: list[tuple[Any, ...]]) -> None:
    store.execute("begin")
    store.executemany(_COUNT, ((row[3], row[4], *row[-2:]) for row in batch))
    store.executemany(_INSERT, (row[:-2] for row in batch))
    store.execute("commit")


_COUNT = """insert into cases (suite, "case", passed, others) values (?, ?, ?, ?)
on conflict (suite, "case") do update set passed = passed + excluded.passed, others = others + excluded.others"""
_INSERT = f"""insert into rows values ({", ".join(f"?{place}" for place in range(1, 15))},
(select id from cases where suite = ?4 and "case" = ?5))"""
_NAMED = '"case" = ? and suite = ? and target = ?'
_IN_TWO = '"of" in (select id from cases where passed and others)'


def _addressed(address: Address) -> tuple[str, tuple[Any, ...]]:
    values = (address.case, address.suite, address.target, address.variant or "", address.trial)
    return '"case" = ? and suite = ? and target = ? and variant = ? and trial = ?', values
