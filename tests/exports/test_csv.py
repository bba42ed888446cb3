"""CSV: read as it was meant, one line a conversation, and no cell that a spreadsheet runs."""

from __future__ import annotations

import csv
import io

import pytest
from hypothesis import given

from tests.kit import Raw, bounded
from tests.report import exports

FORMULA = tuple("=+-@\uff1d\uff0b\uff0d\uff20|%")


def read(run: exports.MadeRun, separator: str = ",") -> list[Raw]:
    return list(csv.DictReader(io.StringIO(exports.written("csv", run)), delimiter=separator, strict=separator == ","))


def test_a_conversation_is_a_row() -> None:
    rows = read(exports.mixed())
    assert [row["status"] for row in rows] == [
        *("passed", "passed", "failed", "error", "skipped", "passed", "passed", "failed", "failed")
    ]
    assert (rows[1]["turns"], rows[1]["succeeded_on_turn"]) == ("2", "2")
    assert rows[2]["reasons"] == 'match "*105*": *105* is not in it'
    assert (rows[2]["file"], rows[2]["line"], rows[2]["cost_usd"]) == ("suites/evals.yaml", "12", "0.001")
    assert rows[3]["cost_usd"] == ""


def test_texts_are_kept_but_for_line_breaks() -> None:
    [row] = read(exports.made_run([exports.result("times", exports.turn('say "hi", then\nstop; end - of + line'))]))
    assert row["response"] == 'say "hi", then ⏎ stop; end - of + line'


def test_a_number_below_zero_is_no_formula() -> None:
    [row] = read(exports.made_run([exports.result("times", score=-0.5)]))
    assert float(row["score"]) == -0.5


@pytest.mark.parametrize("start", ["=", "+", "-", "@", "\t=", "\r=", " =", "\uff1d", "x;=", "x; =", "x\n;@", 'x;"='])
def test_no_cell_begins_with_a_formula_whatever_the_separator(start: str) -> None:
    run = exports.made_run([exports.failed("square", f"{start}1+1", reason=f"{start}2")])
    for separator in (",", ";"):
        for row in csv.reader(io.StringIO(exports.written("csv", run)), delimiter=separator):
            assert not [cell for cell in row if cell.strip(' "').startswith(FORMULA)]


def test_a_long_text_fits_into_a_cell() -> None:
    for text in ("x" * 3_000_000, "\x1b" * 3_000_000, "\n" * 3_000_000):
        [row] = read(exports.made_run([exports.result("long", exports.turn(text))]))
        assert len(row["response"]) < 32_767
        assert "characters left out" in row["response"]


@bounded(150)
@given(exports.hostile_texts)
def test_no_text_breaks_the_table(text: str) -> None:
    document = exports.written("csv", exports.hostile(text))
    assert not exports.OBEYED.search(document)
    rows = list(csv.reader(io.StringIO(document), strict=True))
    assert len(rows) == 8 == document.count("\n")
    assert {len(row) for row in rows} == {len(rows[0])}
    names = [*enumerate(rows[0])]
    numbers = {place for place, name in names if name in ("score", "cost_usd", "judge_cost_usd")}
    for row in rows[1:]:
        assert not [cell for place, cell in enumerate(row) if place not in numbers and cell.startswith(FORMULA)]
