"""The run of a session's cases, as one of its processes sees it: it plays the run, or waits for who does."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import msgspec
from msgspec import structs

from rejoinder.errors import RejoinderError
from rejoinder.pytest_plugin.items import CaseVerdict, CollectedCase, NoVerdict
from rejoinder.pytest_plugin.live_results import LiveResults
from rejoinder.pytest_plugin.shared import MOST_STARTS, Order, RunEnd, SharedFolder
from rejoinder.run_files import RunDamaged
from rejoinder.runs.folder import RunFolder, new_run_id, runs_folder
from rejoinder.runs.state import state_of
from rejoinder.views.cases import join_trials

SHORT_S, LONG_S = 0.01, 0.1
"""The time between two looks at the run: short at first."""


class SessionRun:
    def __init__(self, shared: SharedFolder, make_order: Callable[[], Order]) -> None:
        self.shared = shared
        self._make_order = make_order
        self._process: subprocess.Popen[bytes] | None = None
        self._results: LiveResults | None = None

    def wait_for(self, case: CollectedCase) -> CaseVerdict | NoVerdict:
        """Start the run unless another process has, and wait for the trials of a case."""
        pause = SHORT_S
        while True:
            ended = self._look_after()
            try:
                found = self._judge(case, has_ended=ended is not None)
            except (msgspec.MsgspecError, RejoinderError) as error:
                return NoVerdict(f"the results of the run cannot be read: {error}")
            if found is not None:
                return found
            if ended is not None:
                return self._missing(case, ended)
            time.sleep(pause)
            pause = min(LONG_S, 1.5 * pause)

    def finish(self, *, stops: bool) -> None:
        """Wait for the end of the run, if this process plays it. `stops`: end it now."""
        if stops:
            self.shared.stop()
        if self._process is not None:
            try:
                self._process.wait()
            except KeyboardInterrupt:
                self.shared.stop()
                self._process.wait()
        self._note_end()
        self.shared.disown()

    def _look_after(self) -> RunEnd | None:
        """The end of the run, if it has ended. Starts the run, or resumes it after the death of its process."""
        ended = self.shared.ended
        if ended is not None or (self._process is None and not self.shared.own()):
            return ended
        if self._process is None and self.shared.ended is None:  # another process may have ended it in between
            self._start()
        self._note_end()
        return self.shared.ended

    def _start(self) -> None:
        order = self.shared.order
        try:
            order = self._make_order() if order is None else structs.replace(order, starts=order.starts + 1)
        except RejoinderError as error:
            self.shared.end(RunEnd(str(error)))
            return
        folder = runs_folder(Path(order.root)) / order.run
        if order.starts > MOST_STARTS:
            self.shared.end(RunEnd(f"{MOST_STARTS} processes that played the run were killed, one after the other"))
            return
        if order.starts > 1 and folder.exists() and not (folder / "run.json").exists():  # nothing was sent yet
            order = structs.replace(order, run=new_run_id())
            folder = runs_folder(Path(order.root)) / order.run
        self.shared.write_order(order, folder)
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", "rejoinder.pytest_plugin.play", str(self.shared.path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )

    def _note_end(self) -> None:
        """Write down that the process of the run has ended, and why if the run does not say so."""
        if self._process is None or self._process.poll() is None or self.shared.ended is not None:
            return
        code, run = self._process.returncode, self.shared.run
        problem = self.shared.problem
        if not problem and (run is None or state_of(RunFolder(run)).phase != "ended"):
            problem = f"the process that played the run ended early (exit code {code})"
        if self._process.stdin is not None:
            self._process.stdin.close()
        self.shared.end(RunEnd(problem))

    def _judge(self, case: CollectedCase, *, has_ended: bool) -> CaseVerdict | None:
        """The verdict of a case whose trials are all finished. Without all of them it can fail, and never passes."""
        run = self.shared.run
        if run is None:
            return None
        if self._results is None or self._results.folder.path != run:
            self._results = LiveResults(RunFolder(run))
        self._results.read_on()
        trials = self._results.of(case.name)
        finished = [trial for trial in trials if trial.status != "skipped"]
        is_whole = len(finished) >= case.trials
        if not finished or not (is_whole or has_ended):
            return None
        receipt = self._results.folder.read_receipt()
        if receipt is None:
            raise RunDamaged(run / "run.json", "it is missing")
        found = join_trials(trials, receipt.day)
        return CaseVerdict(run.name, found) if is_whole or found.status == "failed" else None

    def _missing(self, case: CollectedCase, ended: RunEnd) -> NoVerdict:
        """Why a run that has ended has no verdict of a case."""
        run = self.shared.run
        if run is None or not (run / "run.json").exists():
            return NoVerdict(ended.problem or "the run was not started")
        state = state_of(RunFolder(run))
        more = f"finish it with: rejoinder resume {run.name}"
        trials = [] if self._results is None else self._results.of(case.name)
        finished = sum(trial.status != "skipped" for trial in trials)
        what = f"{finished} of {case.trials} trials finished" if finished else "this case was not run"
        if ended.problem:
            return NoVerdict(f"{what}: {ended.problem}\n{more}")
        order = self.shared.order
        receipt = state.receipt
        if receipt is not None and receipt.given_up:
            return NoVerdict(f"{what}: {receipt.given_up[0].target} was given up: {receipt.given_up[0].message}")
        if state.status == "completed" and order is not None and order.options.pace.fail_fast:
            return NoVerdict(f"{what}: the run ended at the first failure (-x)", is_skipped=True)
        why = {"budget": "the budget was reached", "interrupted": "the run was interrupted"}
        return NoVerdict(f"{what}: {why.get(state.status, f'the run ended as {state.status}')}\n{more}")
