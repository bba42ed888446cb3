"""Suites that were edited after their run began: which ones a killed run is shown by, and what `resume` says."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import structs

from rejoinder.model import Receipt, Suite
from rejoinder.model.inputs import Digests, Inputs, changes_of
from rejoinder.runs.inputs import digests_of
from rejoinder.runs.receipt import mask_of
from rejoinder.runs.recorded import RecordedRun
from rejoinder.words.numbers import count, listed, shortened

MOST_NAMED, LONGEST_NAME = 3, 60


def played_suites(recorded: RecordedRun) -> list[Suite]:
    """The suites that the conversations of an unfinished run were made from: its own copy, or the project's if it was
    resumed with edited ones. Without this user's seal or trust, the project's."""
    copies, receipt = recorded.copies(), recorded.folder.read_receipt()
    if copies and receipt is not None and receipt.digests is not None:
        found = structs.replace(digests_of(copies, mask_of(copies)), code=receipt.digests.code)
        if found == receipt.digests:
            return copies
    return recorded.suites(asks=False)


def edited_words(recorded: RecordedRun, run: Receipt, suites: list[Suite], now: Digests, planned: int) -> str | None:
    """The changes since a run began, and the conversations that it plays; None if nothing changed."""
    changed = changes_of(Inputs(digests=run.digests), Inputs(digests=now))
    if not changed:
        return None
    plays = (
        f"this plays {count(planned, 'conversation')} of the suites as they are now, and {run.planned:,} were planned"
    )
    kept = "recorded replies are used where nothing changed"
    return "; ".join(
        filter(
            None,
            (
                f"changed since {run.id} began: {listed([one.words for one in changed])}",
                plays,
                *_names(recorded, suites),
                kept,
            ),
        )
    )


def _names(recorded: RecordedRun, suites: list[Suite]) -> Iterable[str]:
    """`new: c`, `no longer there: a and b`: cases that only one of the two has, if the copy is trusted."""
    copies = recorded.copies()
    if copies:
        before, now = (dict.fromkeys(case.id for suite in some for case in suite.cases) for some in (copies, suites))
        for what, ids in (("new", now.keys() - before.keys()), ("no longer there", before.keys() - now.keys())):
            if ids:
                named = [shortened(one, LONGEST_NAME) for one in sorted(ids)[:MOST_NAMED]]
                named += [f"{len(ids) - MOST_NAMED:,} more"] if len(ids) > MOST_NAMED else []
                yield f"{what}: {listed(named)}"
