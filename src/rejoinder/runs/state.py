"""The state of a stored run: running, killed, ended (and how) or damaged. It is decided here, and asked for everywhere.

A run that its receipt calls ended has ended, also while a process has its folder open: grading and deletion lock it,
too. A run that its receipt calls running does so only while a process has the folder open; without one it was killed.
"""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from rejoinder.model import Receipt, Summary
from rejoinder.model.history import ListedStatus, Phase
from rejoinder.model.runs import RunStatus
from rejoinder.run_files import RunDamaged
from rejoinder.runs.folder import RunFolder

INTERRUPTED = 130
CUT_OFF: dict[ListedStatus, int] = {
    "running": INTERRUPTED,
    "killed": INTERRUPTED,
    "interrupted": INTERRUPTED,
    "budget": 4,
}
"""Exit codes of runs that did not come to their end, whatever their results are."""
NEVER_BEGUN = {"refused": 2, "cancelled": INTERRUPTED}
"""Exit codes of queued runs that did not start."""
DAMAGED = RunDamaged.exit_code
NO_RECEIPT = "it has no run.json"


class StoredState(Struct, frozen=True):
    status: ListedStatus
    receipt: Receipt | None = None
    """None if it cannot be read, and until the run has written it."""
    damage: str = ""
    """Why it is damaged; empty if it is not."""

    @property
    def phase(self) -> Phase:
        return self.status if self.status in ("running", "killed", "damaged") else "ended"

    def exit_code(self, summary: Summary | None) -> int | None:
        """The exit code of `rejoinder run`; None while it runs. `summary`: None if it cannot be read."""
        if self.status == "running":
            return None
        if self.status == "damaged" or summary is None:
            return CUT_OFF.get(self.status, DAMAGED)
        return CUT_OFF.get(self.status, summary.exit_code)


def state_of(folder: RunFolder) -> StoredState:
    """The state by the receipt and the lock; no other file is read. Never raises RunDamaged."""
    found = _state_of(folder)
    if found.status in ("killed", "damaged"):  # its process may have written the end, and left, between the two
        return _state_of(folder)
    return found


def _state_of(folder: RunFolder) -> StoredState:
    try:
        receipt = folder.read_receipt()
    except RunDamaged as error:
        return StoredState("damaged", damage=f"{error.path.name}: {error.reason}")
    status = status_now(folder, None if receipt is None else receipt.status)
    return StoredState(status, receipt, NO_RECEIPT if status == "damaged" else "")


def status_now(folder: RunFolder, written: RunStatus | None) -> ListedStatus:
    """The status of a run whose receipt says `written`, or that has none yet."""
    if written is not None and written != "running":
        return written
    now = unfinished_status(folder)
    return "damaged" if written is None and now == "killed" else now


def unfinished_status(folder: RunFolder) -> Literal["running", "killed"]:
    """The status of a run whose receipt does not say that it has ended."""
    return "running" if folder.is_busy else "killed"
