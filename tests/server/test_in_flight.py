"""What a run waits for, read from the end of its journal."""

from __future__ import annotations

import os
import time
from pathlib import Path

import msgspec
from hypothesis import given, strategies

from rejoinder.server import in_flight
from rejoinder.server.in_flight import InFlight, Waiting
from tests.kit import bounded


def asked(key: str, case: str = "one", turn: int = 1) -> dict[str, object]:
    return {"type": "asked", "key": key, "case": case, "target": "atlas", "trial": 1, "turn": turn}


def told(key: str, started_at: float | None = None, text: str = "yes") -> dict[str, object]:
    return {"type": "told", "key": key, "reply": {"text": text, "started_at": started_at, "latency_s": 2.0}}


def write(path: Path, *lines: dict[str, object]) -> None:
    with path.open("ab") as stream:
        stream.writelines(msgspec.json.encode(line) + b"\n" for line in lines)


def places(found: list[InFlight]) -> list[tuple[str, int]]:
    return [(one.case, one.turn) for one in found]


def test_a_call_waits_until_it_is_answered(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    waiting = Waiting(path)
    assert waiting.look() == [], "there is no journal yet"
    write(path, {"type": "opened", "format": 3}, asked("a"), asked("b", "two"))
    assert places(waiting.look()) == [("one", 1), ("two", 1)]
    write(path, told("a"), {"type": "priced", "key": "a", "price": {}}, asked("c", turn=2))
    assert sorted(places(waiting.look())) == [("one", 2), ("two", 1)]
    write(path, {"type": "failed", "key": "c"})
    assert places(waiting.look()) == [("two", 1)]
    write(path, {"type": "opened", "format": 3})
    assert waiting.look() == [], "the run was taken up again"


def test_ages_of_what_was_there_before_come_from_the_answers_beside_it(tmp_path: Path) -> None:
    path, now = tmp_path / "journal.jsonl", time.time()
    write(path, asked("a"), asked("long", "two"), told("a", now - 100), asked("b", "three"))
    os.utime(path, (now - 30, now - 30))
    waiting = Waiting(path)
    ages = {one.case: one.age_s for one in waiting.look()}
    assert 97 <= ages["two"] <= 130
    assert 29 <= ages["three"] <= 60
    assert [one.case for one in waiting.look()] == ["two", "three"], "the longest first"
    write(path, asked("c", "four"))
    assert {one.case: one.age_s for one in waiting.look()}["four"] < 20, "it came while it was watched"


def test_only_the_end_of_a_journal_is_read(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    write(path, asked("old", "old"))
    for number in range(30):
        write(path, told(f"x{number}", text="y" * 100_000))
    write(path, asked("new", "new"))
    waiting = Waiting(path)
    assert places(waiting.look()) == [("new", 1)]
    with path.open("ab") as stream:
        stream.write(b'{"type":"told","key":"new","reply":{"text":"' + b"z" * (in_flight.MOST_READ + 1))
    assert waiting.look() == [], "so much came that it begins anew"


@bounded(60)
@given(
    lines=strategies.lists(strategies.binary(max_size=80) | strategies.sampled_from([b'{"type":"asked"}', b"[" * 50]))
)
def test_no_journal_ends_in_a_traceback(tmp_path_factory, lines: list[bytes]) -> None:
    path = tmp_path_factory.mktemp("any") / "journal.jsonl"
    path.write_bytes(b"\n".join(lines))
    waiting = Waiting(path)
    waiting.look()
    write(path, asked("a"))
    assert len(waiting.look()) <= 1
