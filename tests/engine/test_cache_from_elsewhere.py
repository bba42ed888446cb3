"""A cache that came with a cloned repository leads to no other file, and answers nothing in its author's words."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from rejoinder.testing import FakeServer
from tests.kit import Project, Raw, behind, case, refusal

QUESTION = {"contains": "answer"}


@pytest.fixture
def server() -> Iterator[FakeServer]:
    with FakeServer("the answer") as server:
        yield server


def write(project: Project, server: FakeServer, *names: str) -> None:
    cases = [case(name, QUESTION) for name in names or ("one",)]
    project.write("evals.yaml", {"targets": [behind(server, "t", cache=True)], "evals": cases})


def cached(project: Project) -> Raw:
    return project.run_json("run", "evals.yaml", "--cache")


def place_of(project: Project) -> Path:
    return project.folder / ".rejoinder" / "cache.sqlite"


def change(project: Project, *statements: str) -> None:
    with contextlib.closing(sqlite3.connect(place_of(project))) as store, store:
        for statement in statements:
            store.execute(statement)


@pytest.mark.parametrize("name", ["cache.sqlite", "cache.sqlite-wal", "cache.sqlite-shm", "cache.sqlite-journal"])
@pytest.mark.parametrize("there", [True, False])
def test_it_is_used_through_no_link(
    project: Project, server: FakeServer, name: str, there: bool, tmp_path_factory: pytest.TempPathFactory
) -> None:
    victim = tmp_path_factory.mktemp("elsewhere") / "victim.sqlite"
    if there:
        with contextlib.closing(sqlite3.connect(victim)) as store, store:
            store.execute("create table cookies (value text)")
    before = victim.read_bytes() if there else None
    (project.folder / ".rejoinder" / name).symlink_to(victim)
    write(project, server)
    for command in (("run", "evals.yaml", "--cache"), ("cache",), ("cache", "clear")):
        if command[0] == "run" or place_of(project).is_file():
            words = refusal(project, *command)
            assert f"{name} is a link" in words and "Delete the link" in words
    assert (victim.read_bytes() if there else victim.exists() or None) == before
    assert [one.name for one in victim.parent.iterdir()] == (["victim.sqlite"] if there else [])
    assert server.requests == []


def test_it_is_used_through_no_linked_folder(
    project: Project, server: FakeServer, tmp_path_factory: pytest.TempPathFactory
) -> None:
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    (project.folder / ".rejoinder").rmdir()
    (project.folder / ".rejoinder").symlink_to(elsewhere)
    write(project, server)
    assert ".rejoinder is a link" in refusal(project, "run", "evals.yaml", "--cache")
    assert not list(elsewhere.glob("cache.sqlite*")) and server.requests == []


@pytest.mark.parametrize(
    "other",
    [
        "create table cookies (value text)",
        "create trigger x before insert on replies begin select 1; end",
        "create view v as select * from replies",
        "create table replies_of_mine (value text)",
    ],
)
def test_another_database_is_left_alone(project: Project, server: FakeServer, other: str) -> None:
    write(project, server)
    cached(project)
    change(project, other)
    assert "which no cache does" in refusal(project, "run", "evals.yaml", "--cache")
    with contextlib.closing(sqlite3.connect(place_of(project))) as store:
        assert len(store.execute("select name from sqlite_master where type != 'index'").fetchall()) == 2


def test_answers_of_another_user_are_asked_again(
    project: Project, server: FakeServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(project, server, "one", "two")
    monkeypatch.setenv("REJOINDER_SEAL_KEY", "the-key-of-somebody-else")
    cached(project)
    monkeypatch.delenv("REJOINDER_SEAL_KEY")
    asked = len(server.requests)
    use = cached(project)["run"]["from_cache"]
    assert (use["answers"], use["ignored"], len(server.requests)) == (0, asked, 2 * asked)
    assert f"{asked} stored answers not sealed by your rejoinder, and asked again" in project.run("show", "--verbose")
    use = cached(project)["run"]["from_cache"]
    assert (use["answers"], "ignored" in use, len(server.requests)) == (2, False, 2 * asked)


@pytest.mark.parametrize(
    "forged",
    [
        "update replies set reply = cast(replace(cast(reply as text), 'the answer', 'my forgery answer') as blob)",
        "update replies set reply = cast(substr(cast(reply as text), instr(reply, x'0a') + 1) as blob)",
        "update replies set reply = 'text'",
        "update replies set reply = 7, kept_at = 'soon'",
        "update replies set reply = x'7365616c656420'",
        "update replies set kept_at = 'soon'",
    ],
)
def test_changed_rows_are_asked_again(project: Project, server: FakeServer, forged: str) -> None:
    write(project, server)
    first = cached(project)
    change(project, forged)
    second = cached(project)
    assert second["run"]["from_cache"]["ignored"] == 1 and len(server.requests) == 2
    assert second["results"][0]["turns"][0]["response"] == first["results"][0]["turns"][0]["response"]


def test_a_row_answers_its_own_request_alone(project: Project, server: FakeServer) -> None:
    cases = [case(name, QUESTION, prompt=f"{name}?") for name in ("one", "two")]
    project.write("evals.yaml", {"targets": [behind(server, "t", cache=True)], "evals": cases})
    cached(project)
    change(
        project,
        "create table aside as select * from replies",
        "delete from replies",
        "insert into replies select a.key, b.target, b.reply, b.kept_at, b.used_at from aside a, aside b"
        " where a.key != b.key",
        "drop table aside",
    )
    use = cached(project)["run"]["from_cache"]
    assert (use["answers"], use["ignored"]) == (0, 2)


def test_a_cache_of_a_version_without_seals_is_asked_again(project: Project, server: FakeServer) -> None:
    write(project, server)
    cached(project)
    change(project, """update replies set reply = cast('{"text": "old answer"}' as blob)""")
    document = cached(project)
    assert document["results"][0]["turns"][0]["response"] == "the answer"
    assert document["run"]["from_cache"]["ignored"] == 1


def test_without_a_key_answers_serve_one_run(
    project: Project, server: FakeServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REJOINDER_SEAL_KEY", "too short")
    write(project, server)
    project.write(
        "evals.yaml",
        {
            "targets": [behind(server, "t", cache=True)],
            "evals": [case(name, QUESTION, prompt="Same?") for name in ("one", "two")],
        },
    )
    for number in (1, 2):
        document = cached(project)
        assert len(server.requests) == number, "equal requests of one run are asked once"
        assert "REJOINDER_SEAL_KEY" in document["run"]["from_cache"]["trouble"]
    assert "no key to seal them with" in project.run("show", "--verbose")


def test_jobs_with_one_key_share_a_cache(
    project: Project, server: FakeServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("REJOINDER_SEAL_KEY", "a-key-of-all-the-jobs-0815")
    write(project, server)
    cached(project)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "another-home"))
    assert cached(project)["run"]["from_cache"]["answers"] == 1
    assert len(server.requests) == 1 and not (tmp_path / "another-home").exists()
