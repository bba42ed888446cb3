"""The index: the row of every run, in an SQLite file of the project.

It is a cache. A row counts only while the files that it was made from are unchanged, so the file may be deleted,
damaged or wrong at any time: a listing checks each folder and reads changed ones. The file may also come with a cloned
repository. So SQLite never opens it: its bytes are read and written like a run folder's, without following links, and
loaded into a database in memory. Two processes may write at once; the later one wins.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
from pathlib import Path

import msgspec
from msgspec import Struct, structs

from rejoinder.history.rows import STAMPED, make_row
from rejoinder.model.history import RunRow
from rejoinder.run_files import RunDamaged, read_whole, replace_file
from rejoinder.runs.folder import RunFolder, grades_folders, last_run, run_ids, runs_folder
from rejoinder.runs.state import state_of

FILE = ".rejoinder/index.sqlite"
FORMAT = 7
"""The version of the rows: increase it if their fields change, or the way they are made."""
LARGEST = 1 << 28
MOST_STEPS = 100_000
"""Maximum SQLite instructions for reading, plus one per byte of the file; a sound file needs fewer."""
_TABLE = "CREATE TABLE runs (id text primary key, stamp text not null, row text not null) without rowid"


class History(Struct, frozen=True):
    """The runs of a project and their re-grades, the oldest first."""

    rows: tuple[RunRow, ...]
    last: str | None
    """The id that `last` refers to."""
    places: dict[str, Path] = {}
    """The folder of each."""


def read_history(root: Path) -> History:
    runs = runs_folder(root)
    ids = run_ids(runs)
    places = dict.fromkeys(ids, runs) | {run: folder for folder in grades_folders(root) for run in run_ids(folder)}
    path = root / FILE
    known = _read_index(path)
    kept: dict[str, tuple[str, str]] = {}
    rows: list[RunRow] = []
    for run, parent in sorted(places.items()):
        stamp = _stamp(f"{parent}{os.sep}{run}")
        row, written = _recall(run, stamp, known)
        if row is None:
            row = make_row(RunFolder(parent / run))
            written = msgspec.json.encode(row).decode()
        kept[run] = (stamp, written)
        rows.append(_as_it_is_now(row, RunFolder(parent / run)))
    if kept != known:
        _write_index(path, kept)
    return History(tuple(rows), last_run(runs, ids), {run: parent / run for run, parent in places.items()})


def _stamp(folder: str) -> str:
    """A text that changes when the folder does: time, size and number of each file that a row is made from, including
    the journal until there is a summary."""
    parts = [_file_stamp(folder), *(_file_stamp(f"{folder}{os.sep}{name}") for name in STAMPED)]
    return " ".join(parts if parts[2] else [*parts, _file_stamp(f"{folder}{os.sep}journal.jsonl")])


def _file_stamp(path: str) -> str:
    try:
        found = os.lstat(path)
    except OSError:
        return ""
    return f"{found.st_mtime_ns}.{found.st_size}.{found.st_ino}"


_decoder = msgspec.json.Decoder(RunRow)


def _recall(run: str, stamp: str, known: dict[str, tuple[str, str]]) -> tuple[RunRow | None, str]:
    then, written = known.get(run, ("", ""))
    if then != stamp:
        return None, ""
    try:
        row = _decoder.decode(written)
    except (msgspec.MsgspecError, RecursionError, UnicodeError):
        return None, ""
    return (row if row.id == run else None), written


def _as_it_is_now(row: RunRow, folder: RunFolder) -> RunRow:
    """A row says what the receipt does: the run's process may be gone, or may not have written a receipt yet."""
    has_no_receipt = row.status == "damaged" and not os.path.lexists(folder.path / "run.json")
    if row.status != "running" and not has_no_receipt:
        return row
    return structs.replace(row, status=state_of(folder).status)


def _read_index(path: Path) -> dict[str, tuple[str, str]]:
    """Stamp and row of each run, by id; empty if the file is foreign or incomplete."""
    try:
        content = read_whole(path, LARGEST)
    except (OSError, RunDamaged):
        return {}
    with contextlib.closing(sqlite3.connect(":memory:")) as store:
        # A tree whose pages lead to the same one many times would be walked for ever.
        store.set_progress_handler(lambda: True, MOST_STEPS + len(content))
        try:
            store.deserialize(content)
            return _rows_of(store, len(content))
        except (sqlite3.Error, AttributeError, MemoryError):  # a Python without `deserialize` has no index
            return {}


def _rows_of(store: sqlite3.Connection, size: int) -> dict[str, tuple[str, str]]:
    schema = store.execute("select sql from sqlite_master limit 2").fetchall()
    if schema != [(_TABLE,)] or store.execute("pragma user_version").fetchone() != (FORMAT,):
        return {}
    rows: dict[str, tuple[str, str]] = {}
    held = 0
    for run, stamp, row in store.execute("select id, stamp, row from runs"):
        if not (isinstance(run, str) and isinstance(stamp, str) and isinstance(row, str)):
            return {}
        held += len(run) + len(stamp) + len(row) + 1
        if held > size:  # pages that are read more than once
            return {}
        rows[run] = (stamp, row)
    return rows


def _write_index(path: Path, rows: dict[str, tuple[str, str]]) -> None:
    """Write the file whole or not at all. A folder that cannot be written has no index."""
    with contextlib.closing(sqlite3.connect(":memory:", isolation_level=None)) as store:
        store.execute(f"pragma user_version = {FORMAT}")
        store.execute(_TABLE)
        store.execute("begin")
        store.executemany("insert into runs values (?, ?, ?)", ((run, *both) for run, both in rows.items()))
        store.execute("commit")
        with contextlib.suppress(OSError, AttributeError):
            content = store.serialize()
            with replace_file(path, durable=False) as stream:
                stream.write(content)
