"""The cases of a suite as parameters of a test of pytest."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from msgspec import Struct

from rejoinder.engine.plan import is_selected
from rejoinder.errors import UsageError
from rejoinder.library.suites import Suite, Suites, each_of, load
from rejoinder.model.results import CaseName
from rejoinder.runs.names import name_on
from rejoinder.runs.options import Selection
from rejoinder.testing.item_names import ItemNames

if TYPE_CHECKING:
    import pytest


class SuiteCase(Struct, frozen=True):
    """A case of a suite, on one target and in one variant: `rejoinder.run(case)` in a test with the fixture."""

    suite: Suite
    name: CaseName
    """Its target is empty if the suite names none."""
    tags: tuple[str, ...]

    @property
    def id(self) -> str:
        return self.name.id

    def selection(self, *, any_target: bool = False) -> Selection:
        """The options that select it in its suite. `any_target`: on another target than that of the suite."""
        name = self.name._replace(target="") if any_target else self.name
        return Selection(cases=(self.id,), pairs=(name,))


def cases(suite: Suites, *, tags: Sequence[str] = (), target: str | None = None) -> pytest.MarkDecorator:
    """Parametrise a test by `case`, a `SuiteCase` for each case of a suite, target and variant. `tags`: only cases with
    one of them. Tags are marks; a case in quarantine is an expected failure. Nothing is sent. A suite needs no target
    if the test gives one: `rejoinder.run(case, target=bot)`.

        @cases("evals.yaml", tags=["refund"])
        def test_refunds(rejoinder, case):
            assert_passed(rejoinder.run(case))
    """
    import pytest

    from rejoinder.testing.marks import marks_of

    suites, selection = load(each_of(suite), target=target), Selection(tags=tuple(tags))
    found = [
        (one, case, name_on(one.loaded, case, target))
        for one in suites
        for case in one.cases
        if is_selected(case, selection)
        for target in case.targets or ("",)
    ]
    if not found:
        raise UsageError(
            f"{', '.join(one.loaded.path for one in suites) or 'the list'} has no such case", "Check `tags`."
        )
    several, names = len({name.target for _, _, name in found}) > 1, ItemNames()
    parameters = [
        pytest.param(
            SuiteCase(one, name, case.tags),
            id=names.name(name.id, name.target if several else "", name.variant),
            marks=list(marks_of(case)),
        )
        for one, case, name in found
    ]
    return pytest.mark.parametrize("case", parameters)
