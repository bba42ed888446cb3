"""Results for Python programs: sequences, verdicts, rows, data frames, words, and the board in a notebook."""

from __future__ import annotations

import builtins
import importlib
import json
import re
from collections.abc import Sequence
from html.parser import HTMLParser
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import rejoinder
from rejoinder import Case, FollowUp, Suite, UsageError, checks
from rejoinder.library.rows import CASE, CHECK, CONVERSATION, TURN
from rejoinder.report.notebook import write_fragment
from rejoinder.testing import assert_passed
from tests.kit import Project, bounded, case, scripted

DOCS = Path(__file__).parents[2] / "docs/reference/python.md"
TABLES: dict[Any, Any] = {"case": CASE, "conversation": CONVERSATION, "turn": TURN, "check": CHECK}


def suite(*names: str, replies: Sequence[str] = ("no", "yes")) -> Suite:
    again = FollowUp("Again?", checks=[checks.match("yes")])
    return Suite(
        name="shop",
        target=list(names or ["it"]),
        targets=[scripted(name, *replies) for name in names or ["it"]],
        evals=[
            Case(id="a", prompt="x", tags=["t", "u"], checks=[checks.match("yes", follow_up=again)]),
            Case(id="b", prompt="Is it <b>so</b>?", checks=[checks.and_([checks.match("yes"), checks.min_words(1)])]),
        ],
        conversation_checks=[checks.never(checks.contains("never"))],
    )


def test_results_are_a_sequence_of_results(project: Project) -> None:
    results = rejoinder.run(suite()).results
    assert isinstance(results, Sequence) and len(results) == 2
    assert (results[0].id, results[-1].id, [one.id for one in results[:1]]) == ("a", "b", ["a"])
    with pytest.raises(IndexError):
        _ = results[2]


def test_a_repeated_case_has_one_verdict(project: Project) -> None:
    plan = Suite(
        target="it",
        targets=[{"name": "it", "provider": "scripted", "replies": ["yes", "no", "yes"]}],
        evals=[Case(id="a", prompt="x", repeat=3, pass_="2 of 3", checks=[checks.match("yes")])],
    )
    report = rejoinder.run(plan)
    [case] = report.cases
    counted = report.summary.by_case
    assert (case.status == "passed") == (counted.passed == 1) and case.flaky == bool(counted.flaky)
    assert (case.trials, case.passed + case.failed + case.errors) == (3, 3)


def test_verdicts_are_those_of_the_summary(project: Project) -> None:
    report = rejoinder.run(suite("it", "other"), repeat=2)
    found = [(case.id, case.target, case.status, case.trials, case.passed, case.failed) for case in report.cases]
    assert found == [
        ("a", "it", "passed", 2, 2, 0),
        ("a", "other", "passed", 2, 2, 0),
        ("b", "it", "failed", 2, 0, 2),
        ("b", "other", "failed", 2, 0, 2),
    ]
    assert (report.summary.by_case.passed, report.summary.by_case.failed) == (2, 2)
    assert report.cases[2].why.startswith("and: 1 of 2 passed") and report.cases[0].why == ""


def test_rows_are_flat_and_have_the_columns_of_the_reference(project: Project) -> None:
    report = rejoinder.run(suite())
    page = DOCS.read_text(encoding="utf-8").partition("### RunReport")[2]
    page = page.partition("\n### ")[0]
    for by, columns in TABLES.items():
        rows = report.rows(by)
        assert all(list(row) == list(columns) for row in rows) and rows
        assert json.loads(json.dumps(rows)) == rows
        assert all(isinstance(cell, str | int | float | None) for row in rows for cell in row.values())
        [listed] = re.findall(rf"^\| `{by}` \| [^|]+ \| ([^|]+) \|$", page, re.MULTILINE)
        assert re.findall(r"`(\w+)`", listed) == list(columns)
    assert [row["id"] for row in report.rows("case")] == ["a", "b"] == [row["id"] for row in report.rows()]
    assert [(row["id"], row["turn"]) for row in report.rows("turn")] == [("a", 1), ("a", 2), ("b", 1)]
    found = [(row["id"], row["turn"], row["place"], row["kind"]) for row in report.rows("check")]
    assert found[:2] == [("a", 1, "1", "match"), ("a", 2, "1", "match")]
    assert ("b", 1, "1.2", "min_words") in found and ("b", None, "1", "match") not in found
    wrong: Any = "trial"
    with pytest.raises(UsageError, match="there are no rows by 'trial'"):
        report.rows(wrong)


@pytest.mark.slow
def test_rows_become_data_frames(project: Project) -> None:
    report = rejoinder.run(suite())
    for by in TABLES:
        rows = report.rows(by)
        assert report.to_polars(by).to_dicts() == rows
        assert list(report.to_pandas(by).columns) == list(TABLES[by]) and len(report.to_pandas(by)) == len(rows)


@pytest.mark.parametrize("package", ["pandas", "polars"])
def test_a_missing_package_is_named(package: str, project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    report, real = rejoinder.run(suite()), builtins.__import__

    def refuse(name: str, *more: Any) -> Any:
        if name == package:
            raise ImportError(name)
        return real(name, *more)

    monkeypatch.setattr(builtins, "__import__", refuse)
    with pytest.raises(UsageError, match=f"{package} is not installed"):
        getattr(report, f"to_{package}")()


def test_a_rate_is_a_number_or_says_why_there_is_none(project: Project) -> None:
    report = rejoinder.run(suite())
    assert (report.rate, report.first_try_rate, report.id) == (0.5, 0.0, report.run.id)
    for name in ("rate", "first_try_rate"):
        with pytest.raises(UsageError, match="several targets have no common rate"):
            getattr(rejoinder.run(suite("it", "other")), name)


def test_the_words_of_a_case_count_its_trials(project: Project) -> None:
    replies = {"a": ["yes"], "b": ["no"], "c": [{"error": "out of order"}], "d": ["no"]}
    apart = {"until": "2999-01-01", "reason": "a new model"}
    cases = [case(name, {"match": "yes"}, **({"quarantine": apart} if name == "d" else {})) for name in "abcd"]
    target = {"name": "it", "provider": "scripted", "replies": replies}
    report = rejoinder.run({"targets": [target], "target": "it", "evals": cases}, repeat=2)
    passed, failed, error, quarantined = report.cases
    assert rejoinder.explain(passed) == "a on it: passed, 2 of 2 passed"
    first, why = rejoinder.explain(failed).split("\n")
    assert first == "FAIL b on it: Question b (0 of 2 passed)" and why == f"  {failed.why}" and "match" in why
    assert rejoinder.explain(error).startswith("ERROR c on it: Question c (0 of 2 passed)\n  ")
    assert rejoinder.explain(quarantined).startswith("d on it: in quarantine until 2999-01-01")
    assert_passed(passed)
    assert_passed(quarantined)
    for one in (failed, error):
        with pytest.raises(AssertionError) as raised:
            assert_passed(one)
        assert str(raised.value) == rejoinder.explain(one)
    for wrong in ("x", None, report.summary):
        for verb in (rejoinder.explain, assert_passed):
            anything: Any = wrong
            with pytest.raises(UsageError, match="is expected, and not a") as refused:
                verb(anything)
            assert refused.value.hint is not None and "Give " in refused.value.hint


def test_the_words_of_a_failure_are_those_of_the_terminal(project: Project) -> None:
    report = rejoinder.run(suite())
    passed, failed = report.results
    assert rejoinder.explain(passed) == "a: recovered on turn 2"
    told = rejoinder.explain(failed)
    assert told.startswith("FAIL b: Is it <b>so</b>? (failed after 1 turn)\n  check: ")
    printed = " ".join(project.run("replay", report.id, code=None).split())
    assert all(" ".join(line.split()) in printed for line in told.splitlines()[1:])
    [error] = rejoinder.run({**suite().origin_data, "targets": [scripted("it")], "name": "none"}).results[:1]
    assert rejoinder.explain(error).startswith("ERROR a: ")


def test_values_show_themselves_on_one_line(project: Project) -> None:
    report = rejoinder.run(suite())
    shown = "1 passed, 1 failed, 0 errors of 2, rate 0.5"
    assert repr(report) == f"<RunReport {report.id}: completed, {shown}>"
    assert repr(report.summary) == f"<Summary: {shown}>"
    assert repr(report.results[0]) == "<Result 'a' on 'it', trial 1: passed on turn 2>"
    assert repr(report.cases[1]) == "<CaseVerdict 'b' on 'it': failed, 0 of 1 passed>"
    assert repr(report.results).startswith("<Results: 2 in ")
    assert repr(suite().cases[0]) == "<Case 'a', line 0>"
    turn = report.results[0].turns[0]
    assert repr(turn) == "<TurnResult 1: failed, 'no'>"
    assert repr(turn.checks[0]) == "<CheckResult 'match yes': failed, 'the reply does not match'>"
    assert repr(report.run) == f"<Receipt {report.id}: completed, 2 planned on 'it'>"
    again = rejoinder.run(suite())
    compared = rejoinder.compare(report, again)
    assert repr(compared) == f"<RunComparison {report.id} and {again.id}: cannot-tell, 2 matched, 0 differ>"
    gated = rejoinder.gate(again, against=report, rules=["rate>=40%", "no-regression"])
    assert repr(gated) == "<GateResult: cannot-tell (rate>=40% pass, no-regression cannot-tell)>"


def test_hostile_values_show_themselves_on_one_line(project: Project) -> None:
    hostile = "\x1b[31m\nx\u202e" + "y" * 5000
    report = rejoinder.run(suite(replies=[hostile]))
    for value in (report.results[1].turns[0], report.results[1].turns[0].checks[0], report.run):
        assert len(repr(value)) < 400 and repr(value).isprintable(), repr(value)


class Seen(HTMLParser):
    """The elements, attributes and text of a piece of HTML."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: dict[str, str | None] = {}
        self.open: list[str] = []
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes.update(attrs)
        self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


INERT = {"div", "style", "p", "b", "table", "thead", "tbody", "tr", "th", "td", "svg", "rect", "span", "details"}
INERT |= {"summary", "pre"}


def check_inert(html: str) -> None:
    seen = Seen(html)
    assert set(seen.tags) <= INERT and seen.open == [] and seen.tags.count("style") == 1
    assert not {name for name in seen.attributes if name.startswith("on") or name in ("href", "src", "style", "id")}
    assert "url(" not in html and "@import" not in html


@given(
    st.lists(
        st.text(max_size=60)
        | st.sampled_from(["<script>alert(1)</script>", "</style><img src=x onerror=1>", "\u202e"]),
        min_size=1,
        max_size=3,
    )
)
@bounded(60)
def test_hostile_replies_are_shown_inert_in_a_notebook(replies: list[str]) -> None:
    with TemporaryDirectory() as folder:
        (Path(folder) / ".rejoinder").mkdir()
        report = rejoinder.run(rejoinder.load(suite(replies=replies).origin_data, folder=folder))
        check_inert(report._repr_html_())


def test_the_board_in_a_notebook_is_bounded(project: Project) -> None:
    cases = [Case(id=f"{n}-" + "&" * 500, prompt="<" * 5000, checks=[checks.match("y")]) for n in range(30)]
    many = Suite(name="<i>x</i>", target="it", targets=[scripted("it", *["<" * 20_000] * 30)], evals=cases)
    report = rejoinder.run(many)
    html = report._repr_html_()
    check_inert(html)
    assert len(html) < 200_000 and "and 20 more cases that did not pass" in html
    assert write_fragment(report) == html


def test_nothing_of_notebooks_is_imported_before_it_is_used() -> None:
    source = Path(importlib.import_module("rejoinder.library.report").__file__ or "").read_text(encoding="utf-8")
    assert "\nimport pandas" not in source and "\nimport polars" not in source
