"""The fixture `rejoinder`: runs of a test, kept in the project like other runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypedDict, Unpack

from rejoinder import api
from rejoinder.errors import UsageError
from rejoinder.exports.junit import properties_of_run
from rejoinder.library.report import RunReport
from rejoinder.testing.suite_cases import SuiteCase

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

    from rejoinder.api import OnProgress
    from rejoinder.engine.observer import Observer
    from rejoinder.library.suites import Suites
    from rejoinder.library.targets import AnyTarget
    from rejoinder.runs.options import Answers, Limits, Pace, Selection, Trust


class RunKeys(TypedDict, total=False):
    """The options of `rejoinder.run`."""

    target: AnyTarget | None
    repeat: int
    selection: Selection
    pace: Pace
    limits: Limits
    answers: Answers
    trust: Trust
    on_progress: OnProgress | None
    runs_folder: str | Path | None
    observer: Observer | None


class Runner:
    """Runs suites for one test: the fixture `rejoinder`. It accepts the options of `rejoinder.run`."""

    def __init__(self, node: pytest.Item) -> None:
        self._node = node
        self.reports: list[RunReport] = []
        """The runs of this test."""

    def run(self, suite: SuiteCase | Suites, **options: Unpack[RunKeys]) -> RunReport:
        """Run a suite, or one of its cases."""
        chosen, options = _chosen(suite, options)
        return self._kept(api.run(chosen, **options))

    async def arun(self, suite: SuiteCase | Suites, **options: Unpack[RunKeys]) -> RunReport:
        """The same in a coroutine, on its own event loop."""
        chosen, options = _chosen(suite, options)
        return self._kept(await api.arun(chosen, **options))

    def _kept(self, report: RunReport) -> RunReport:
        self.reports.append(report)
        self._node.user_properties += properties_of_run(report)
        return report


def _chosen(suite: SuiteCase | Suites, options: RunKeys) -> tuple[Suites, RunKeys]:
    """A case as its suite with a selection."""
    if not isinstance(suite, SuiteCase):
        return suite, options
    if "selection" in options:
        raise UsageError("a case selects itself", "Leave out `selection`.")
    return suite.suite, {**options, "selection": suite.selection(any_target="target" in options)}
