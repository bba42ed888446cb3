"""A check is declared once: its struct is what the schema of suites and the reader know about it."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from rejoinder.model import CHECKS, AnyCheck, Check, kind_of
from rejoinder.model.fields import fields_of

ROOT = Path(__file__).parents[2]


def test_every_check_is_described_and_has_a_page() -> None:
    for name, kind in CHECKS.items():
        assert kind.__doc__ and kind.__doc__.rstrip().endswith("."), name
        assert (ROOT / "docs/reference/checks" / f"{name}.md").is_file(), name


@pytest.mark.parametrize("kind", CHECKS.values(), ids=CHECKS)
def test_field_that_may_stand_alone_is_declared(kind: type[Check]) -> None:
    names = [field.name for field in fields_of(kind, Check)]
    assert names and (kind.alone is None or (kind.alone in names and len(names) > 1))


def test_any_check_can_be_written_and_read_back() -> None:
    check = CHECKS["group"](items=(), at_least=2, name="two of them")  # type: ignore[call-arg]
    again = msgspec.json.decode(msgspec.json.encode(check), type=AnyCheck)
    assert again == check and kind_of(again) == "group"
