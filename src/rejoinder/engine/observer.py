"""What can be observed of a run while it goes on."""

from __future__ import annotations

from rejoinder.engine.plan import Job
from rejoinder.model import Outcome


class Observer:
    """Is called as a run goes on. The base class does nothing."""

    def started(self, planned: int) -> None: ...
    def conversation_started(self, job: Job) -> None: ...
    def conversation_finished(self, job: Job, outcome: Outcome) -> None: ...
    def conversation_left(self, job: Job) -> None:
        """It was started and has no outcome: it is skipped, or left to `resume`."""

    def retried(self) -> None: ...
    def told(self, text: str) -> None:
        """A target says something that people should know."""

    def stopping(self) -> None: ...
    def cut_off(self, run: str) -> None: ...
    def finished(self) -> None: ...
