"""A recorded conversation, to be taken up at one of its turns."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

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


def recorded_conversation(
    folder: RunFolder,
    suites: list[Suite],
    options: RunOptions,
    case: str,
    turn: int,
    targets: Sequence[str] = (),
) -> Tape:
    """What a case was asked and told in a run, in its first trial, on the first of `targets` that the run had.

    Raises UsageError where there is no such turn.
    """
    if not folder.journal.is_file():
        raise UsageError(f"{folder.path} has no journal, and so no conversation to take up")
    secrets = {value: name for suite in suites for value, name in suite.secrets.items()}
    told = read_journal(folder.journal, Mask(secrets)).told
    # The whole plan is walked: cases with the same words are told apart by their order in it.
    jobs = [job for job in plan(suites, structs.replace(options, repeat=1)) if job.prepared.case.id == case]
    wanted = [job for name in targets for job in jobs if job.prepared.target.name == name]
    job = next(iter(wanted or jobs), None)
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
