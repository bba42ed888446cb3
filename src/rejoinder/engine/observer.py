"""Observers of a run, which are called while it is running."""

from __future__ import annotations

import contextlib
import traceback
from collections.abc import Callable
from pathlib import Path

from msgspec import Struct

from rejoinder.engine.plan import Job
from rejoinder.model import Outcome
from rejoinder.runs.folder import RunFolder


class Observer:
    """Called while a run is running. The base class does nothing."""

    def opened(self, folder: RunFolder) -> None:
        """The run has a folder, and so an id. Nothing has been sent."""

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


class Counts:
    """Numbers of conversations, and what their replies have cost."""

    def __init__(self, planned: int = 0) -> None:
        self.planned = planned
        self.in_flight = self.done = self.passed = self.recovered = self.failed = self.errors = self.spoilt = 0
        self.retries = self.tokens = 0
        self.cost = 0.0

    def add(self, outcome: Outcome) -> None:
        self.done += 1
        for reply in (*(turn.reply for turn in outcome.turns), *(outcome.user.replies if outcome.user else ())):
            if reply is not None:
                self.tokens += reply.usage.total_tokens
                self.cost += reply.cost or 0.0
        if outcome.is_spoilt:
            self.spoilt += 1
            return
        self.passed += outcome.passed
        self.recovered += outcome.recovered
        self.failed += outcome.status == "failed"
        self.errors += outcome.status == "error"


class Counting(Observer):
    """Counts. Recorded conversations of a resumed run are counted, too."""

    def __init__(self) -> None:
        self.counts = Counts()

    def started(self, planned: int) -> None:
        self.counts = Counts(planned)

    def conversation_started(self, job: Job) -> None:
        del job
        self.counts.in_flight += 1

    def conversation_finished(self, job: Job, outcome: Outcome) -> None:
        del job
        self.counts.in_flight -= 1
        self.counts.add(outcome)

    def conversation_left(self, job: Job) -> None:
        del job
        self.counts.in_flight -= 1
        self.counts.done += 1


class Progress(Struct, frozen=True, kw_only=True):
    """The progress of a run."""

    id: str
    folder: Path
    """The run's folder."""
    planned: int
    """Conversations of the whole run."""
    done: int
    """Conversations that have ended. `passed`, `failed` and `errors` are their results."""
    passed: int
    failed: int
    errors: int
    in_flight: int
    """Conversations in progress."""


class ProgressTeller(Counting):
    """Calls a function of the program with the progress, and another observer. An exception of the function is written
    into the run's log, and the run continues."""

    def __init__(self, tell: Callable[[Progress], object], then: Observer | None) -> None:
        super().__init__()
        self._call = tell
        self._then = then or Observer()
        self._folder: RunFolder | None = None
        self._has_failed = False

    def opened(self, folder: RunFolder) -> None:
        self._folder = folder
        self._then.opened(folder)

    def started(self, planned: int) -> None:
        super().started(planned)
        self._then.started(planned)
        self._tell()

    def conversation_started(self, job: Job) -> None:
        super().conversation_started(job)
        self._then.conversation_started(job)
        self._tell()

    def conversation_finished(self, job: Job, outcome: Outcome) -> None:
        super().conversation_finished(job, outcome)
        self._then.conversation_finished(job, outcome)
        self._tell()

    def conversation_left(self, job: Job) -> None:
        super().conversation_left(job)
        self._then.conversation_left(job)
        self._tell()

    def retried(self) -> None:
        self._then.retried()

    def told(self, text: str) -> None:
        self._then.told(text)

    def stopping(self) -> None:
        self._then.stopping()

    def cut_off(self, run: str) -> None:
        self._then.cut_off(run)

    def finished(self) -> None:
        self._then.finished()

    def _tell(self) -> None:
        folder, now = self._folder, self.counts
        assert folder is not None
        progress = Progress(
            id=folder.id,
            folder=folder.path,
            planned=now.planned,
            done=now.done,
            passed=now.passed,
            failed=now.failed,
            errors=now.errors,
            in_flight=now.in_flight,
        )
        try:
            self._call(progress)
        except Exception as error:
            if not self._has_failed:
                where = "".join(traceback.format_tb(error.__traceback__))  # not its message, which may hold a secret
                with contextlib.suppress(OSError):
                    folder.log(f"on_progress raised {type(error).__name__}\n{where}")
            self._has_failed = True
