"""The index is a cache: it may be deleted, damaged, hostile or impossible to write, and the list stays the same."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from rejoinder.history import index as module
from rejoinder.history import rows as row_module
from tests.kit import Project, Raw, case, run, run_folders, scripted
from tests.labs.stranger_lab import READ_ONLY, tree

SUITE: Raw = {"targets": [scripted("bot", "yes")], "target": "bot", "evals": [case("a", {"contains": "yes"})]}


@pytest.fixture
def listed(project: Project) -> Project:
    """A project with three runs and an index."""
    for _ in range(3):
        run(project, SUITE)
    project.run("runs")
    assert index(project).is_file()
    return project


def index(project: Project) -> Path:
    return project.folder / ".rejoinder" / "index.sqlite"


def rows(project: Project) -> list[Raw]:
    return project.run_json("runs")


def count_reads(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The ids of runs whose folders are read."""
    read: list[str] = []
    make_row = row_module.make_row

    def counted(folder: Any) -> Any:
        read.append(folder.id)
        return make_row(folder)

    monkeypatch.setattr(module, "make_row", counted)
    return read


def test_only_what_changed_is_read(listed: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    read = count_reads(monkeypatch)
    before = rows(listed)
    assert read == []
    first, second, third = run_folders(listed.folder)
    listed.run("runs", "tag", first.name, "good")
    shutil.rmtree(second)
    new = run(listed, SUITE)["run"]["id"]
    assert [row["id"] for row in rows(listed)] == [new, third.name, first.name]
    assert sorted(read) == sorted([first.name, new])
    assert len(before) == 3


def test_a_file_that_is_edited_in_place_is_read_again(listed: Project) -> None:
    [first, *_] = run_folders(listed.folder)
    receipt = json.loads((first / "run.json").read_text())
    with (first / "run.json").open("r+") as stream:
        stream.write(json.dumps({**receipt, "status": "interrupted", "planned": 9}))
        stream.truncate()
    assert rows(listed)[-1]["planned"] == 9


Spoil = Callable[[Path], object]


def replaced_by(content: bytes) -> Spoil:
    return lambda path: path.write_bytes(content)


def changed(statement: str) -> Spoil:
    def change(path: Path) -> None:
        with closing(sqlite3.connect(path)) as store:
            store.executescript(statement)

    return change


def linked(path: Path) -> None:
    path.unlink()
    victim = path.parent.parent / "victim"
    victim.write_bytes(b"mine")
    path.symlink_to(victim)


def piped(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def made_a_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def torn(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:5000])


def cut_pages(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[4096:] = b"\xff" * (len(content) - 4096)
    path.write_bytes(bytes(content))


LEVELS = 18
INNER_INDEX, INNER_TABLE, LEAF_INDEX, LEAF_TABLE = 2, 5, 10, 13
EMPTY_TEXTS = b"\x0d\x0d\x0d"


def endless_rows(path: Path) -> None:
    """100**18 rows of empty texts. A table without rowids is stored as an index."""
    with closing(sqlite3.connect(path)) as store:
        [(root,)] = store.execute("select rootpage from sqlite_master where name = 'runs'").fetchall()
    record = bytes([4, 4]) + EMPTY_TEXTS  # lengths of the record and of its head
    _write_tree(path, root, (INNER_INDEX, record), (LEAF_INDEX, record))


def endless_schema(path: Path) -> None:
    """As many tables without a name."""
    record = bytes([6, 1, 6]) + EMPTY_TEXTS + b"\x08\x0d"  # length, row number; the fourth value is 0
    _write_tree(path, 1, (INNER_TABLE, b"\x01"), (LEAF_TABLE, record))


def _write_tree(path: Path, root: int, inner: tuple[int, bytes], leaf: tuple[int, bytes]) -> None:
    """A tree of 18 pages, each of which leads to the next one a hundred times."""
    content = bytearray(path.read_bytes())
    size = int.from_bytes(content[16:18], "big")
    known = len(content) // size
    chain = [root, *range(known + 1, known + LEVELS)]
    content += bytes(size * (LEVELS - 1))
    content[28:32] = (len(content) // size).to_bytes(4, "big")
    for page, child in zip(chain, [*chain[1:], 0], strict=True):
        kind, record = inner if child else leaf
        start = (page - 1) * size
        skipped = 100 if page == 1 else 0  # the head of the file
        content[start + skipped : start + size] = _page(kind, child, record, size - skipped, skipped)
    path.write_bytes(bytes(content))


def _page(kind: int, child: int, record: bytes, size: int, skipped: int) -> bytes:
    cell = child.to_bytes(4, "big") + record if child else record
    cells = 100
    first = size - len(cell) * cells
    places = b"".join((skipped + first + len(cell) * number).to_bytes(2, "big") for number in range(cells))
    head = bytes([kind, 0, 0]) + cells.to_bytes(2, "big") + (skipped + first).to_bytes(2, "big") + b"\0"
    head += child.to_bytes(4, "big") if child else b""
    return (head + places).ljust(first, b"\0") + cell * cells


SPOILT: dict[str, Spoil] = {
    "gone": Path.unlink,
    "empty": replaced_by(b""),
    "text": replaced_by(b"hello"),
    "only a header": replaced_by(b"SQLite format 3\0" + b"\0" * 100),
    "torn": torn,
    "pages": cut_pages,
    "rows without end": endless_rows,
    "tables without end": endless_schema,
    "rows of other types": changed("update runs set row = 7, stamp = x'00'"),
    "rows of other shapes": changed("""update runs set row = '{"id": 1}'"""),
    "rows of other runs": changed("update runs set row = (select max(row) from runs)"),
    "deep rows": changed("update runs set row = printf('%.*c', 100000, '[')"),
    "bytes that are no text": changed("update runs set row = cast(x'fffe' as text)"),
    "other tables": changed("create table more (x); insert into more values (1)"),
    "a view in its place": changed("alter table runs rename to x; create view runs as select 1 id, 2 stamp, 3 row"),
    "a trigger": changed("create trigger t after insert on runs begin delete from runs; end"),
    "another format": changed("pragma user_version = 99"),
    "a write-ahead log": changed("pragma journal_mode = wal"),
    "a link": linked,
    "a pipe": piped,
    "a folder": made_a_folder,
}


@pytest.mark.spec("P40")
@pytest.mark.parametrize("name", SPOILT)
def test_a_spoilt_index_changes_nothing(name: str, listed: Project) -> None:
    before = rows(listed)
    SPOILT[name](index(listed))
    assert rows(listed) == before
    assert rows(listed) == before
    victim = listed.folder / "victim"
    assert not victim.exists() or victim.read_bytes() == b"mine"


def test_an_index_is_written_again_after_damage(listed: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    index(listed).write_bytes(b"hello")
    read = count_reads(monkeypatch)
    rows(listed)
    assert len(read) == 3
    rows(listed)
    assert len(read) == 3


def test_an_index_that_is_too_large_is_not_read(listed: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LARGEST", 100)
    read = count_reads(monkeypatch)
    assert len(rows(listed)) == len(read) == 3


def test_a_disk_that_cannot_be_written_is_listed_without_an_index(project: Project) -> None:
    run(project, SUITE)
    with READ_ONLY.on(project.folder):
        assert len(rows(project)) == 1
    assert not index(project).exists()


def test_a_project_without_runs_gets_no_index(project: Project) -> None:
    before = tree(project.folder)
    assert "no runs yet" in project.run("runs")
    assert tree(project.folder) == before


def test_the_index_is_an_sqlite_file_that_others_can_read(listed: Project) -> None:
    with closing(sqlite3.connect(index(listed))) as store:
        found = store.execute("select id, row from runs order by id desc").fetchall()
    assert [identity for identity, _ in found] == [row["id"] for row in rows(listed)]
    assert json.loads(found[0][1])["summary"]["passed"] == 1


HOSTILE_NOTES = (
    b"[",
    b'{"tags": 5}',
    b'{"tags": ["\\u001b[31m"]}',
    b'{"note": "' + b"x" * 20_000 + b'"}',
    b'{"tags": [' + b",".join([b'"t"'] * 200) + b"]}",
    b"[" * 100_000,
    b"\xff\xfe",
)


@pytest.mark.parametrize("content", HOSTILE_NOTES, ids=range(len(HOSTILE_NOTES)))
def test_hostile_notes_are_no_notes(listed: Project, content: bytes) -> None:
    [first, *_] = run_folders(listed.folder)
    (first / "notes.json").write_bytes(content)
    [*_, oldest] = rows(listed)
    assert (oldest["status"], oldest["tags"], oldest["note"]) == ("completed", [], "")
    assert "\x1b" not in listed.run("runs")


@pytest.mark.slow
def test_names_of_a_hostile_receipt_are_cut_and_inert(listed: Project) -> None:
    [first, *_] = run_folders(listed.folder)
    receipt = json.loads((first / "run.json").read_text())
    suites = [{"path": "x.yaml", "name": f"\x1b[31m{number}" + "x" * 100_000} for number in range(1000)]
    (first / "run.json").write_text(json.dumps({**receipt, "suites": suites, "started_at": "9999-99-99"}))
    [*_, oldest] = rows(listed)
    assert len(oldest["suites"]) == 20
    assert all(len(name) == 200 for name in oldest["suites"])
    text = listed.run("runs")
    assert "\x1b" not in text
    assert max(map(len, text.splitlines())) < 200


def test_a_hostile_journal_is_not_counted_for_ever(listed: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(row_module, "LARGEST_JOURNAL", 1000)
    [first, *_] = run_folders(listed.folder)
    (first / "summary.json").unlink()
    (first / "journal.jsonl").write_bytes(b"x" * 2000)
    assert rows(listed)[-1]["begun"] is None
    (first / "journal.jsonl").write_bytes(b'{"type": "asked", "trial": "x"}\n')
    assert rows(listed)[-1]["begun"] is None
    assert "1 planned" in listed.run("runs")
