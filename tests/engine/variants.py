"""A suite with two variants."""

from __future__ import annotations

from typing import Any

from tests.kit import (
    Raw,
    case,
    scripted,
)

YES = {"icontains": "yes"}


NO = {"name": "terse", "settings": {"replies": ["No.", "No."]}}


def two(*cases: Raw, **suite: Any) -> Raw:
    """A suite with two variants; the reply of `terse` is another one."""
    return {
        "targets": [scripted("demo", "Yes indeed", "Yes")],
        "target": "demo",
        "variants": [{"name": "plain"}, NO],
        "evals": list(cases) or [case("a", YES), case("b")],
        **suite,
    }
