"""A program that ended is over, also where what it left behind holds its pipes open."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from rejoinder.user_code import line_process, programs
from rejoinder.user_code.line_process import LineProcess
from tests.labs.agent_lab import Desk


def test_the_pipes_of_a_program_that_ended_are_not_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (programs, line_process):
        monkeypatch.setattr(module, "GRACE_S", 0.1)
    desk = Desk(tmp_path, "codex")

    async def read() -> None:
        words = ("sh", "-c", "setsid sleep 60 & echo '{\"a\": 1}'; printf '{\"b\": 2}'; exit 3")
        process = LineProcess(words, tmp_path, dict(os.environ), called="it", owner=desk.owner)
        async with asyncio.timeout(20):
            values = [await process.receive(silence_s=None, until=None) for _ in range(3)]
            assert values == [{"a": 1}, {"b": 2}, None]
            assert process.exit_code == 3
            assert str(process.ended()) == "it ended with exit code 3"
            await process.close(grace_s=60)
        await desk.see_none_left()

    asyncio.run(read())
