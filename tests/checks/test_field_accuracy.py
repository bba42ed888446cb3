"""`field_accuracy`: fields of JSON compared each in its way, with precision and recall."""

from __future__ import annotations

import json
from datetime import date
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rejoinder.field_values import read_dates, read_number
from tests.kit import Project, Raw, bounded, codes
from tests.labs.check_lab import run_one, verdicts

INVOICE = {
    "number": "INV-7",
    "total": 119.0,
    "due": "31.03.2026",
    "seller": {"name": "Acme Corporation Ltd."},
    "lines": [{"text": "skates"}],
}


def fields(**wanted: Any) -> Raw:
    return {"field_accuracy": {"fields": wanted}}


@pytest.mark.parametrize(
    ("field", "value", "passed"),
    [
        ({"expected": 7}, 7.0, True),
        ({"expected": 7}, "7", False),
        ({"expected": {"a": [1]}}, {"a": [1]}, True),
        ({"expected": 7, "kind": "number"}, "7.00", True),
        ({"expected": 1234.5, "kind": "number"}, "1,234.50", True),
        ({"expected": 7, "kind": "number", "tolerance": 0.5}, 7.5, True),
        ({"expected": 7, "kind": "number", "tolerance": 0.5}, 7.51, False),
        ({"expected": 0.3, "kind": "number"}, 0.1 + 0.2, True),
        ({"expected": 7, "kind": "number"}, True, False),
        ({"expected": 7, "kind": "number"}, "about 7", False),
        ({"expected": 7, "kind": "number"}, "nan", False),
        ({"expected": 7, "kind": "number"}, [7], False),
        ({"expected": "2026-03-31", "kind": "date"}, "31 March 2026", True),
        ({"expected": "2026-03-31", "kind": "date"}, "Mar 31, 2026", True),
        ({"expected": "2026-03-31", "kind": "date"}, "2026-03-31T10:00:00Z", True),
        ({"expected": "2026-04-03", "kind": "date"}, "03/04/2026", True),
        ({"expected": "2026-03-04", "kind": "date"}, "03/04/2026", True),
        ({"expected": "2026-03-31", "kind": "date"}, "2026-04-01", False),
        ({"expected": "2026-03-31", "kind": "date", "tolerance": 1}, "2026-04-01", True),
        ({"expected": "2026-03-31", "kind": "date"}, "tomorrow", False),
        ({"expected": "2026-03-31", "kind": "date"}, 20260331, False),
        ({"expected": "ACME corp", "kind": "fuzzy"}, "Acme  Corp", True),
        ({"expected": "Acme Corp", "kind": "fuzzy"}, "Acme Corp.", True),
        ({"expected": "Acme Corp", "kind": "fuzzy", "tolerance": 0}, "Acme Corp.", False),
        ({"expected": "Acme Corp", "kind": "fuzzy"}, "Globex", False),
        ({"expected": "x", "kind": "exact"}, None, False),
    ],
)
def test_field_is_compared_in_its_way(project: Project, field: Raw, value: Any, passed: bool) -> None:
    [verdict] = verdicts(project, (fields(a=field), json.dumps({"a": value})))
    assert verdict["passed"] is passed, verdict


def test_score_is_the_weighted_share_with_precision_and_recall(project: Project) -> None:
    wanted = {
        "number": {"expected": "INV-7"},
        "total": {"expected": 120, "kind": "number", "tolerance": 0.5, "weight": 2},
        "due": {"expected": "2026-03-31", "kind": "date"},
        "$.seller.name": {"expected": "Acme Corporation", "kind": "fuzzy"},
        "lines[0].price": {"expected": 119},
    }
    reply = f"Here it is:\n```json\n{json.dumps(INVOICE)}\n```"
    check = {"field_accuracy": {"fields": wanted, "threshold": 0.5}}
    result = run_one(project, [check, {"field_accuracy": {"fields": wanted}}], reply)
    first, second = result["turns"][0]["checks"]
    assert first["score"] == pytest.approx(3 / 6) and first["passed"] and not second["passed"]
    assert first["reason"] == (
        "3 of 5 fields are right; precision 75%, recall 60%; $.total: it is 119.0, not 120;"
        " $.lines[0].price: it is missing"
    )
    assert [(one["check"], one["passed"]) for one in first["children"]] == [
        ("field $.number", True),
        ("field $.total", False),
        ("field $.due", True),
        ("field $.seller.name", True),
        ("field $.lines[0].price", False),
    ]
    assert [one["reason"] for one in first["children"]][1::3] == ["it is 119.0, not 120", "it is missing"]


def test_reply_without_json_has_no_field(project: Project) -> None:
    [verdict] = verdicts(project, (fields(a={"expected": 1}), "none"))
    assert (verdict["passed"], verdict["score"], verdict["reason"]) == (False, 0, "there is no JSON in the reply")


def test_hostile_values_end_in_a_verdict(project: Project) -> None:
    deep = "[" * 900 + "]" * 900
    rows = [
        (fields(a={"expected": "x", "kind": "fuzzy"}), json.dumps({"a": "y" * 200_000})),
        (fields(a={"expected": 1, "kind": "number"}), '{"a": 1e308}'),
        (fields(a={"expected": 1}), f'{{"a": {deep}}}'),
        ({"field_accuracy": {"fields": {"$" + "..*" * 9: {"expected": 1}}}}, '{"a": ' * 60 + "1" + "}" * 60),
    ]
    for verdict in verdicts(project, *rows):
        assert not verdict["passed"]


@given(st.dates(date(1950, 1, 1), date(2100, 1, 1)))
@bounded(100)
def test_every_form_of_a_day_is_read(day: date) -> None:
    forms = ["%Y-%m-%d", "%d.%m.%Y", "%d %B %Y", "%B %d, %Y", "%d-%b-%Y", "%d/%m/%Y", "%m/%d/%Y"]
    assert all(day in read_dates(day.strftime(form), unclear=True) for form in forms)


@given(st.text(max_size=70) | st.floats() | st.integers() | st.booleans() | st.none())
@bounded(200)
def test_any_value_is_a_number_or_none(value: Any) -> None:
    number = read_number(value)
    assert number is None or abs(number) < 1e300
    assert isinstance(read_dates(value, unclear=True), list)


@pytest.mark.parametrize(
    ("check", "code", "words"),
    [
        ({"fields": {}}, "missing-field", "needs fields"),
        ({"fields": {"a": 1}}, "wrong-type", "a mapping"),
        ({"fields": {"a": {}}}, "missing-field", "needs `expected`"),
        ({"fields": {"a": {"expected": 1, "kind": "numeric"}}}, "out-of-range", "`kind`"),
        ({"fields": {"a": {"expected": "x", "kind": "number"}}}, "out-of-range", "needs a number"),
        ({"fields": {"a": {"expected": "03/04/2026", "kind": "date"}}}, "out-of-range", "has one meaning"),
        ({"fields": {"a": {"expected": 1, "tolerance": 1}}}, "out-of-range", "allows no difference"),
        ({"fields": {"a": {"expected": "x", "kind": "fuzzy", "tolerance": 1}}}, "out-of-range", "less than 1"),
        ({"fields": {"a[": {"expected": 1}}}, "invalid-path", "not a JSON path"),
        ({"fields": {"a": {"expected": 1, "weigth": 1}}}, "unknown-key", "did you mean `weight`"),
    ],
)
def test_mistakes_are_named(project: Project, check: Raw, code: str, words: str) -> None:
    errors = project.errors({"target": "scripted/x", "evals": [{"prompt": "Q", "checks": [{"field_accuracy": check}]}]})
    assert codes(errors) == [code]
    assert words in errors[0]["message"]
