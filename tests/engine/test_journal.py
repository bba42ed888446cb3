"""The journal by itself: what is in the file when, and how conversations go on."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

from rejoinder.engine.journal_writer import AT_ONCE, Journal
from rejoinder.model import Failure, Reply
from rejoinder.runs.journal import Asked, Told
from rejoinder.runs.secrets import Mask

NO_SECRETS = Mask({})


def test_a_call_is_in_the_file_before_it_is_made(tmp_path: Path) -> None:
    async def ask() -> bytes:
        journal = Journal(tmp_path / "journal.jsonl", NO_SECRETS)
        journal.asked(Asked("candidate-a-0", "case", "target", 1, 1))
        written = (tmp_path / "journal.jsonl").read_bytes()
        journal.close()
        return written

    assert b"candidate-a-0" in asyncio.run(ask())


def test_an_attempt_that_failed_stands_between_its_call_and_the_next(tmp_path: Path) -> None:
    """Otherwise a resumed run would take the next attempt for a failure, or the failure for an unknown outcome."""
    path = tmp_path / "journal.jsonl"
    inside, outside = (Asked(f"candidate-{name}-0", "case", "target", 1, 1) for name in ("inside", "outside"))

    async def fail() -> None:
        journal = Journal(path, NO_SECRETS)
        journal.asked_inside(inside)
        journal.failed(inside.key, charged=False, final=False)
        journal.asked_inside(inside)
        journal.asked(outside)
        journal.failed(outside.key, charged=False, final=False)
        journal.asked(outside)
        journal.close()

    asyncio.run(fail())
    records = [json.loads(line) for line in path.read_bytes().splitlines()]
    for key in (inside.key, outside.key):
        assert [record["type"] for record in records if record.get("key") == key] == ["asked", "failed", "asked"]


def test_the_last_failure_is_written_with_what_is_told(tmp_path: Path) -> None:
    """Between the two a process that dies would leave a call that is neither told nor in doubt."""
    path = tmp_path / "journal.jsonl"
    asked = Asked("candidate-a-0", "case", "target", 1, 1)

    async def fail() -> bytes:
        journal = Journal(path, NO_SECRETS)
        journal.asked(asked)
        journal.failed(asked.key, charged=False, final=True)
        before = path.read_bytes()
        await journal.told(Told(asked.key, failure=Failure("status", "no")))
        journal.close()
        return before

    assert b"failed" not in asyncio.run(fail())
    records = [json.loads(line)["type"] for line in path.read_bytes().splitlines()]
    assert records == ["opened", "asked", "failed", "told"]


def test_conversations_that_were_committed_together_do_not_wait_for_each_other(tmp_path: Path) -> None:
    """The first makes its next call while the last is still to go on."""
    steps: list[str] = []

    async def converse(journal: Journal, number: int) -> None:
        await journal.told(Told(f"candidate-{number}-0", Reply("yes")))
        steps.append("goes on")
        asyncio.get_running_loop().call_soon(steps.append, "calls")

    async def work() -> None:
        journal = Journal(tmp_path / "journal.jsonl", NO_SECRETS)
        journal.asked(Asked("candidate-a-0", "case", "target", 1, 1))
        await asyncio.gather(*(converse(journal, number) for number in range(3 * AT_ONCE)))
        await asyncio.sleep(0)
        journal.close()

    asyncio.run(work())
    assert steps.count("calls") == steps.count("goes on") == 3 * AT_ONCE
    assert steps.index("calls") <= 2 * AT_ONCE
