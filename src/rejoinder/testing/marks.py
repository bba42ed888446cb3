"""Marks of pytest that cases bring: their tags, and an expected failure for a case in quarantine."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from rejoinder.model import Case
from rejoinder.runs.receipt import now
from rejoinder.testing.item_names import mark_of
from rejoinder.words.inert import one_line


def marks_of(case: Case, config: pytest.Config | None = None) -> Iterator[pytest.MarkDecorator]:
    """The marks, registered in the configuration as `--strict-markers` demands. `config`: None in a test module, which
    has no other way to it."""
    config = config or getattr(pytest.mark, "_config", None)
    for name in dict.fromkeys(map(mark_of, case.tags)):
        if config is not None:
            config.addinivalue_line("markers", f"{name}: tag of cases")
        yield getattr(pytest.mark, name)
    if case.quarantine is not None and not case.quarantine.is_over(now()[:10]):
        reason = f"in quarantine until {case.quarantine.until}: {one_line(case.quarantine.reason)}"
        yield pytest.mark.xfail(reason=reason, strict=False, raises=(AssertionError, pytest.fail.Exception))
