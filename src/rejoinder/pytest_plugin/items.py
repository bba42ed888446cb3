"""Suites as files of tests, and their cases as tests."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NoReturn, Protocol

import pytest
from msgspec import Struct

from rejoinder.engine.load_for_run import load_for_run
from rejoinder.engine.plan import pairs, trials_of
from rejoinder.errors import RejoinderError, SuiteError
from rejoinder.exports.junit import properties_of
from rejoinder.model.results import CaseName
from rejoinder.pytest_plugin.settings import SessionSettings
from rejoinder.report.failure import failure_words
from rejoinder.report.problems import write_problem
from rejoinder.runs.names import case_name_of
from rejoinder.testing.item_names import ItemNames
from rejoinder.testing.marks import marks_of
from rejoinder.validation.roles import Pair
from rejoinder.views.cases import Tried
from rejoinder.words.inert import visible

LONGEST = 4_000
"""Characters of what is said of an item."""


class CollectedCase(Struct, frozen=True):
    """A case on one target and in one variant."""

    name: CaseName
    trials: int
    line: int


class CaseVerdict(Struct, frozen=True):
    """A case whose trials have all ended, and their run."""

    run: str
    case: Tried


class NoVerdict(Struct, frozen=True):
    """A case without a verdict."""

    why: str
    is_skipped: bool = False
    """Whether it was left out because another case failed, as with `-x`; else it is an error."""


class Runs(Protocol):
    """The runs of a session."""

    settings: SessionSettings

    def wait_for(self, item: CaseItem) -> CaseVerdict | NoVerdict: ...


class SuiteFile(pytest.File):
    """A suite. `collect` sends nothing."""

    runs: Runs
    root: str
    """The folder of its project."""
    cases: int
    """The number of its items, with those that a command leaves out."""

    def collect(self) -> Iterator[CaseItem]:
        settings = self.runs.settings
        try:
            [suite], _ = load_for_run([self.path], settings.options, asks=settings.sends)
            found = list(pairs([suite], settings.options.selection))
        except SuiteError as error:
            raise self.CollectError(_mistakes(error)) from None
        except RejoinderError as error:
            raise self.CollectError(_shown(str(error))) from None
        self.root, self.cases = suite.root, len(found)
        several, names = len({pair.target.name for pair in found}) > 1, ItemNames()
        for pair in found:
            name = names.name(pair.case.id, pair.target.name if several else "", pair.case.variant)
            marks = marks_of(pair.case, self.config)
            node = f"{self.nodeid}::{name}"  # read by pytest, which since 9.2 keeps what is in brackets apart
            yield CaseItem.from_parent(self, name=name, nodeid=node, case=self._collected(pair), marks=marks)

    def _collected(self, pair: Pair) -> CollectedCase:
        case = pair.case
        return CollectedCase(
            name=case_name_of(pair),
            trials=trials_of(case, self.runs.settings.options),
            line=case.line,
        )


def _mistakes(error: SuiteError) -> str:
    """The mistakes as `rejoinder validate` shows them."""
    rows = (row for problem in error.problems if problem.severity == "error" for row in write_problem(problem))
    return "\n".join(rows)


class CaseItem(pytest.Item):
    """A case. Waiting for its verdict is the set-up, so that an error of a provider is an error of pytest."""

    def __init__(self, *, case: CollectedCase, marks: Iterable[pytest.MarkDecorator], **more: Any) -> None:
        super().__init__(**more)
        self.case = case
        self._judged: Tried | None = None
        for mark in marks:
            self.add_marker(mark)

    @property
    def file(self) -> SuiteFile:
        assert isinstance(self.parent, SuiteFile)
        return self.parent

    def setup(self) -> None:
        answer = self.file.runs.wait_for(self)
        if isinstance(answer, NoVerdict):
            if answer.is_skipped:
                pytest.skip(_shown(answer.why))
            _fail(answer.why)
        case = answer.case
        self.user_properties += [("rejoinder.run", answer.run), *properties_of(case)]
        if case.status == "error":
            _fail(failure_words(case))
        elif case.status == "spoilt":
            _fail(case.apart or "invalid")
        self._judged = case

    def runtest(self) -> None:
        case = self._judged
        if case is None:
            _fail("the case has no verdict")
        if case.status == "passed":
            return
        if case.status == "apart" and case.passed == case.finished:
            return
        words = failure_words(case)
        if case.status == "apart" and self.get_closest_marker("xfail") is None:  # it was over when collected
            pytest.xfail(_shown(words))
        _fail(words)

    def teardown(self) -> None:
        self._judged = None

    def reportinfo(self) -> tuple[Path, int | None, str]:
        # pytest writes `::` for the dots of a title with which the node id ends.
        return self.path, self.case.line - 1 if self.case.line else None, f"{self.name} in {self.path.name}"


def _fail(words: str) -> NoReturn:
    """Without a traceback, which would show this module."""
    pytest.fail(_shown(words), pytrace=False)


def _shown(words: str) -> str:
    """Untrusted words for a terminal, shortened."""
    return visible(words if len(words) <= LONGEST else f"{words[:LONGEST]} …")
