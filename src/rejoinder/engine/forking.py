"""A recorded conversation, to be taken up at one of its turns."""

from __future__ import annotations

import asyncio

from msgspec import structs

from rejoinder.engine.folder import RunFolder
from rejoinder.engine.journal import read_journal
from rejoinder.engine.masking import Mask
from rejoinder.engine.plan import RunOptions, plan
from rejoinder.engine.play import Player
from rejoinder.engine.sources import Recorded, Tape, Unanswered
from rejoinder.engine.vectors import Vectors
from rejoinder.errors import UsageError
from rejoinder.model import Suite


def recorded_conversation(folder: RunFolder, suites: list[Suite], options: RunOptions, case: str, turn: int) -> Tape:
    """What a case was asked and told in a run, in its first trial. Raises UsageError where there is no such turn."""
    if not folder.journal.is_file():
        raise UsageError(f"{folder.path} has no journal, and so no conversation to take up")
    secrets = {value: name for suite in suites for value, name in suite.secrets.items()}
    told = read_journal(folder.journal, Mask(secrets)).told
    chosen = structs.replace(options, cases=(case,), repeat=1, limit=None, tags=(), shard=None)
    job = next(plan(suites, chosen), None)
    if job is None:
        raise UsageError(f"run {folder.id} has no case `{case}`")

    async def play() -> Tape:
        tape, vectors = Tape(), Vectors()
        try:
            await Player(job, (Recorded(told, lambda _, reply: reply),), vectors, tape).play()
        except Unanswered:
            pass  # the run was cut off there
        finally:
            await vectors.close()
        return tape

    tape = asyncio.run(play())
    had = sum(call.kind == "candidate" and one is not None for call, one in tape.calls)
    if turn > had + 1 or (turn > 1 and turn > had):
        words = f"{had} turn" + ("" if had == 1 else "s")
        raise UsageError(f"the conversation of case `{case}` has {words} in run {folder.id}; there is no turn {turn}")
    return tape
