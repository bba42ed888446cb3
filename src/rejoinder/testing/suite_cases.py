"""The cases of a suite as parameters of a test of pytest."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from rejoinder.engine.plan import is_selected, pairs
from rejoinder.errors import UsageError
from rejoinder.library.suites import Suite, load
from rejoinder.model.results import CaseName
from rejoinder.runs.names import case_name_of
from rejoinder.runs.options import Selection
from rejoinder.testing.item_names import ItemNames

if TYPE_CHECKING:
    import pytest


class SuiteCase(Struct, frozen=True):
    """A case of a suite, on one target and in one variant: `rejoinder.run(case)` in a test with the fixture."""

    suite: Suite
    name: CaseName
    tags: tuple[str, ...]

    @property
    def id(self) -> str:
        return self.name.id

    @property
    def selection(self) -> Selection:
        """The options that select it in its suite."""
        return Selection(cases=(self.name.id,), pairs=(self.name,))


def cases(suite: Suite | str | Path, *, tags: Sequence[str] = (), target: str | None = None) -> pytest.MarkDecorator:
    """Parametrise a test by `case`, a `SuiteCase` for each case of a suite, target and variant. `tags`: only cases with
    one of them. Tags are marks; a case in quarantine is an expected failure. Nothing is sent.

        @cases("evals.yaml", tags=["refund"])
        def test_refunds(rejoinder, case):
            assert_passed(rejoinder.run(case))
    """
    import pytest

    from rejoinder.testing.marks import marks_of

    suite = suite if isinstance(suite, Suite) else load(suite, target=target)
    selection = Selection(tags=tuple(tags))
    found = [pair for pair in pairs([suite.loaded], selection) if is_selected(pair.case, selection)]
    if not found:
        raise UsageError(f"{suite.loaded.path} has no such case", "Check `tags`.")
    several, names = len({pair.target.name for pair in found}) > 1, ItemNames()
    parameters = [
        pytest.param(
            SuiteCase(suite, case_name_of(pair), pair.case.tags),
            id=names.name(pair.case.id, pair.target.name if several else "", pair.case.variant),
            marks=list(marks_of(pair.case)),
        )
        for pair in found
    ]
    return pytest.mark.parametrize("case", parameters)
