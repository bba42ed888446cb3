"""`field_accuracy`: several fields of the JSON in a reply, each right or wrong, with precision and recall.

The score is the weighted share of the expected fields that are right.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from rejoinder.checks.base import CheckFault, Context, error_verdict, scored_verdict
from rejoinder.checks.json_checks import PathFault, values_at
from rejoinder.checks.json_text import equal_as_json, find_json
from rejoinder.checks.registry import grades
from rejoinder.field_values import read_dates, read_number
from rejoinder.model import FieldAccuracy, Verdict, WantedField, reaches, weighted_mean
from rejoinder.words.numbers import beginning, share

FUZZY_TOLERANCE = 0.2
"""How much a text may differ, as a share, unless the author says."""
LONGEST_FUZZY = 100_000
"""Maximum characters of a text that is compared."""
LONGEST_SHOWN = 60
MOST_NAMED = 3
"""Maximum wrong fields that are named in a reason."""
_NOTHING = object()


@grades(FieldAccuracy)
def grade_field_accuracy(check: FieldAccuracy, context: Context) -> Verdict:
    json = find_json(context.reply.text)
    if not json.readable:
        return scored_verdict(check, None, False, "there is no JSON in the reply", score=0.0)
    needed = 1.0 if check.threshold is None else check.threshold
    children: list[Verdict] = []
    found = 0
    try:
        for path, field in check.fields.items():
            value = _value_at(path, json.data)
            found += value is not _NOTHING
            children.append(_field_verdict(path, field, value))
    except (PathFault, CheckFault) as fault:
        return error_verdict(check, None, str(fault), spans=json.spans)
    pairs = zip(check.fields.values(), children, strict=True)
    score = weighted_mean((field.weight, child.score or 0.0) for field, child in pairs) or 0.0
    reason = _reason(found, dict(zip(check.fields, children, strict=True)))
    return scored_verdict(
        check,
        None,
        reaches(score, needed),
        reason,
        score=score,
        threshold=needed,
        spans=json.spans,
        children=tuple(children),
    )


def _reason(found: int, verdicts: Mapping[str, Verdict]) -> str:
    """Precision and recall, and the first wrong fields."""
    right = sum(one.passed for one in verdicts.values())
    precision = f"precision {share(right / found)}, " if found else ""
    wrong = [f"{path}: {one.reason}" for path, one in verdicts.items() if not one.passed]
    more = [f"and {len(wrong) - MOST_NAMED} more"] if len(wrong) > MOST_NAMED else []
    known = f"{right} of {len(verdicts)} fields are right; {precision}recall {share(right / len(verdicts))}"
    return "; ".join([known, *wrong[:MOST_NAMED], *more])


def _value_at(path: str, data: Any) -> Any:
    """The first value at a path; null counts as missing."""
    values = values_at(path, data, 1)
    return values[0] if values and values[0] is not None else _NOTHING


def _field_verdict(path: str, field: WantedField, value: Any) -> Verdict:
    passed, reason = (False, "it is missing") if value is _NOTHING else _compare(field, value)
    state = "passed" if passed else "failed"
    return Verdict(check=f"field {path}", kind="field", state=state, score=float(passed), reason=reason)


def _compare(field: WantedField, value: Any) -> tuple[bool, str]:
    expected = msgspec.json.decode(field.expected)
    right, shown = _KINDS[field.kind](expected, value, field.tolerance), _shown(value)
    return right, f"it is {shown}" if right else f"it is {shown}, not {_shown(expected)}"


def _is_exact(expected: Any, value: Any, _tolerance: float | None) -> bool:
    return equal_as_json(value, expected)


def _is_near(expected: Any, value: Any, tolerance: float | None) -> bool:
    number, wanted = read_number(value), read_number(expected)
    if number is None or wanted is None:
        return False
    # A sum such as 0.1 + 0.2 is not what an author means by a difference.
    return abs(number - wanted) <= (tolerance or 0.0) + 1e-9 * max(1.0, abs(wanted))


def _is_same_day(expected: Any, value: Any, tolerance: float | None) -> bool:
    wanted = read_dates(expected)[:1]
    return any(abs((day - one).days) <= (tolerance or 0) for day in read_dates(value, unclear=True) for one in wanted)


def _is_like(expected: Any, value: Any, tolerance: float | None) -> bool:
    from rapidfuzz.fuzz import ratio

    texts = [one if isinstance(one, str) else msgspec.json.encode(one).decode() for one in (expected, value)]
    if len(texts[1]) > LONGEST_FUZZY:
        raise CheckFault(f"a field has {len(texts[1]):,} characters, too many to be compared")
    first, second = (" ".join(text.casefold().split()) for text in texts)
    allowed = FUZZY_TOLERANCE if tolerance is None else tolerance
    return reaches(ratio(first, second) / 100, 1 - allowed)


_KINDS: Mapping[str, Any] = {"exact": _is_exact, "number": _is_near, "date": _is_same_day, "fuzzy": _is_like}


def _shown(value: Any) -> str:
    try:
        return beginning(msgspec.json.encode(value).decode(), LONGEST_SHOWN)
    except RecursionError:
        return "a deeply nested value"
