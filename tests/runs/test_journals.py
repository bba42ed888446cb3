"""Reading journals: several as one, and records of later versions."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from rejoinder.runs.journal import JournalError, read_journal, read_journals
from rejoinder.runs.secrets import Mask
from tests.kit import Raw

NO_SECRETS = Mask({})
OPENED = {"type": "opened", "format": 3}
FAILURE = {"type": "status", "message": "no"}


def asked(key: str) -> Raw:
    return {"type": "asked", "key": key, "case": "c", "target": "t", "trial": 1, "turn": 1}


def told(key: str, text: str | None) -> Raw:
    answer = {"failure": FAILURE} if text is None else {"reply": {"text": text}}
    return {"type": "told", "key": key, **answer}


def write(path: Path, *records: Raw, end: str = "") -> tuple[Path, Mask]:
    path.write_text("".join(json.dumps(record) + "\n" for record in records) + end, encoding="utf-8")
    return path, NO_SECRETS


def test_several_journals_are_read_as_one(tmp_path: Path) -> None:
    first = write(tmp_path / "1", {**OPENED, "in_doubt": 2}, asked("a"), told("a", "one"), asked("b"))
    second = write(tmp_path / "2", OPENED, asked("b"), told("b", "two"), asked("c"), end='{"type": "to')
    third = write(tmp_path / "3", {**OPENED, "in_doubt": 1})
    read = read_journals([first, second, third])
    assert {key: one.reply.text for key, one in read.told.items() if one.reply} == {"a": "one", "b": "two"}
    assert read.in_doubt == 2 + 1 + 1 + 1  # both sums that were carried over, `b` of the first and `c` of the second
    assert read.heard == {"c": 1}


@pytest.mark.parametrize("turned", [False, True])
def test_a_reply_counts_more_than_a_failure_and_the_first_more_than_the_second(tmp_path: Path, turned: bool) -> None:
    journals = [
        write(tmp_path / "1", OPENED, told("a", None), told("b", "first")),
        write(tmp_path / "2", OPENED, told("a", "reply"), told("b", "second")),
    ]
    read = read_journals(reversed(journals) if turned else journals)
    texts = {key: one.reply.text for key, one in read.told.items() if one.reply}
    assert texts == {"a": "reply", "b": "second" if turned else "first"}


def test_a_record_of_a_later_version_is_skipped_if_it_says_so(tmp_path: Path) -> None:
    later = {"type": "shipped", "to": "elsewhere", "skippable": True}
    path, mask = write(tmp_path / "1", OPENED, later, told("a", "one"), later)
    read = read_journal(path, mask)
    assert list(read.told) == ["a"]
    assert read.size == path.stat().st_size  # what is appended follows it


@pytest.mark.parametrize(
    "record",
    [
        {"type": "shipped"},
        {"type": "shipped", "skippable": False},
        {"type": "shipped", "skippable": "yes"},
        {"type": "told", "skippable": True},  # a damaged record of ours
        {"skippable": True},
        ["shipped"],
    ],
)
def test_other_unknown_records_are_damage(tmp_path: Path, record: object) -> None:
    path = tmp_path / "1"
    path.write_text(json.dumps(OPENED) + "\n" + json.dumps(record) + "\n", encoding="utf-8")
    with pytest.raises(JournalError, match="line 2 of"):
        read_journal(path, NO_SECRETS)
