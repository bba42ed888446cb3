"""Numbers and days as people and models write them, for `field_accuracy`."""

from __future__ import annotations

from contextlib import suppress
from datetime import date, datetime
from typing import Any

LONGEST = 60
"""Maximum characters of a number or a day."""
_LARGEST = 1e300
_DATE_FORMS = (
    *("%Y-%m-%d", "%Y/%m/%d", "%Y.%m.%d", "%Y%m%d", "%d.%m.%Y", "%d %B %Y", "%d %b %Y", "%d-%b-%Y", "%d-%B-%Y"),
    *("%B %d, %Y", "%b %d, %Y", "%B %d %Y", "%b %d %Y"),
)
_UNCLEAR_FORMS = ("%d/%m/%Y", "%m/%d/%Y", "%d-%m-%Y", "%m-%d-%Y")
"""Forms in which day and month may be either: a reply is right if one reading is."""


def read_number(value: Any) -> float | None:
    """A number, also one that is written as a text, such as `1,234.50`."""
    if isinstance(value, bool):
        return None
    if isinstance(value, int | float):
        return float(value) if abs(value) < _LARGEST else None
    if not isinstance(value, str) or len(value) > LONGEST:
        return None
    try:
        number = float(value.strip().replace(",", "").replace("_", "x"))
    except ValueError:
        return None
    return number if abs(number) < _LARGEST else None


def read_dates(value: Any, *, unclear: bool = False) -> list[date]:
    """The days that a text may mean. `unclear`: also those of forms in which day and month may be either."""
    if not isinstance(value, str) or len(value) > LONGEST:
        return []
    text = " ".join(value.split())
    found: list[date] = []
    with suppress(ValueError):
        found.append(datetime.fromisoformat(text).date())
    for form in (*_DATE_FORMS, *(_UNCLEAR_FORMS if unclear else ())):
        try:
            found.append(datetime.strptime(text, form).date())
        except ValueError:
            continue
    return list(dict.fromkeys(found))


def refuse_expected(kind: str, expected: Any, tolerance: float | None) -> tuple[str, str] | None:
    """The key and the reason why a value cannot be expected of a field of this kind; None if it can."""
    if kind == "number" and read_number(expected) is None:
        return "expected", "a field of kind `number` needs a number"
    if kind == "date" and not read_dates(expected):
        return "expected", "a field of kind `date` needs a day that has one meaning, such as 2026-03-31"
    if kind == "exact" and tolerance is not None:
        return "tolerance", "`tolerance` needs `kind: number`, `date` or `fuzzy`: `exact` allows no difference"
    if kind == "fuzzy" and tolerance is not None and tolerance >= 1:
        return "tolerance", "the `tolerance` of `fuzzy` is a share of the text, less than 1"
    return None
