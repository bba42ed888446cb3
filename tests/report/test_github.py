"""GitHub Actions: commands that GitHub reads as they were meant, whatever they hold; texts within their limits."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given

from rejoinder.model import CaseChanges
from rejoinder.model.figures import GateResult, RuleResult
from rejoinder.report import github
from rejoinder.report.markdown import SUMMARY_LIMIT
from tests.kit import bounded
from tests.report.exports import OBEYED, failed, hostile, hostile_texts, judged_together, made_run, mixed

COMMAND = re.compile(r"::(?P<kind>[a-z]+) (?P<properties>[^:]*)::(?P<data>[^\r\n]*)")


def read(line: str) -> tuple[str, dict[str, str], str]:
    """A command as the runner reads it: up to the next `::`, properties at commas, escapes last."""
    found = COMMAND.fullmatch(line)
    assert found is not None, line
    properties = dict(one.split("=", 1) for one in found["properties"].split(","))
    return found["kind"], {key: unescape(value) for key, value in properties.items()}, unescape(found["data"])


def unescape(text: str) -> str:
    for escaped, character in (("%0D", "\r"), ("%0A", "\n"), ("%3A", ":"), ("%2C", ","), ("%25", "%")):
        text = text.replace(escaped, character)
    return text


def test_an_annotation_stands_at_the_line_of_its_case() -> None:
    lines = [read(line) for line in github.write_annotations(mixed())]
    assert [(kind, place["file"], place["line"]) for kind, place, _ in lines] == [
        *[("error", "suites/evals.yaml", "12")] * 3,
        ("error", "suites/words.yaml", "3"),
    ]
    assert [place["title"] for _, place, _ in lines] == [
        *("square / demo failed", "broken / demo has an error", "often / demo failed", "elsewhere / other failed")
    ]
    assert lines[0][2] == 'match "*105*": *105* is not in it'
    [first, *_] = github.write_annotations(mixed(), folder="packages/app")
    assert read(first)[1]["file"] == "packages/app/suites/evals.yaml"


def test_more_annotations_than_github_shows_are_counted() -> None:
    lines = list(github.write_annotations(made_run(failed(f"case-{number}") for number in range(25))))
    assert len(lines) == 11
    assert read(lines[-1])[0] == "notice"
    assert read(lines[-1])[2].startswith("15 more cases")


@pytest.mark.slow
@bounded(200)
@given(hostile_texts)
def test_no_text_leaves_its_annotation(text: str) -> None:
    lines = list(github.write_annotations(hostile(text)))
    assert len(lines) == 6
    assert "was not measured" in "".join(lines)
    for line in lines:
        assert not OBEYED.search(line)
        kind, place, _ = read(line)
        assert kind == "error"
        assert set(place) <= {"file", "line", "title"}


@pytest.mark.slow
def test_the_summary_takes_the_room_that_is_left(tmp_path: Path) -> None:
    path = tmp_path / "summary.md"
    run = made_run(failed(f"case-{number}", "x" * 2_000) for number in range(3_000))
    github.write_step_summary(run, path)
    once = path.stat().st_size
    assert once <= SUMMARY_LIMIT
    path.write_text("x" * (SUMMARY_LIMIT - 2_000))
    github.write_step_summary(run, path)
    assert path.stat().st_size <= SUMMARY_LIMIT
    assert "more did not pass" in path.read_text()


def test_a_full_summary_gets_nothing_more(tmp_path: Path) -> None:
    path = tmp_path / "summary.md"
    path.write_text("x" * SUMMARY_LIMIT)
    github.write_step_summary(mixed(), path)
    assert path.stat().st_size == SUMMARY_LIMIT


def test_a_comment_has_its_mark_first_and_fits() -> None:
    run = made_run(failed(f"case-{number}", "漢" * 2_000) for number in range(500))
    text = github.sticky_text(run, "nightly --> <b>")
    assert text.splitlines()[0] == github.sticky_mark("nightly --> <b>") == "<!-- rejoinder-report:nightly-b -->"
    assert 10_000 < len(text) <= github.COMMENT_LIMIT


def test_outputs_are_a_line_each() -> None:
    lines = dict(line.split("=", 1) for line in github.outputs(mixed()).splitlines())
    assert (lines["passed"], lines["failed"], lines["errors"], lines["exit_code"]) == ("4", "3", "1", "3")
    assert lines["run"] == "20261116-120000-abcd"


@given(hostile_texts)
def test_no_line_of_others_is_a_command(text: str) -> None:
    for line in text.split("\n"):
        shown = github.defused(line)
        assert not shown.lstrip().startswith("::")
        assert not re.search(r"##\w*\[", shown)
        if not line.lstrip().startswith("::") and "##" not in line:
            assert shown == line


@pytest.mark.parametrize(
    ("found", "wanted"),
    [
        (CaseChanges(), "0 worse, 0 same, 0 cannot tell"),
        (CaseChanges(worse=2, same=31, cannot_tell=1), "2 worse, 31 same, 1 cannot tell"),
        (CaseChanges(better=1, new=2, missing=3), "0 worse, 1 better, 0 same, 0 cannot tell, 2 new, 3 missing"),
    ],
)
def test_a_comparison_is_one_line(found: CaseChanges, wanted: str) -> None:
    assert github.compared(found) == wanted


def test_a_comment_with_a_gate_fits_and_holds_no_text_of_others_as_markdown() -> None:
    run = made_run(failed(f"case-{number}", "x" * 2_000) for number in range(500))
    rules = tuple(RuleResult("tag:<b>@all" * 50, "fail", "![x](http://evil) " * 500) for _ in range(500))
    against = github.Against("main", CaseChanges(same=500), GateResult("fail", rules))
    text = github.sticky_text(run, "nightly", against)
    assert text.splitlines()[1] == "**0 worse, 500 same, 0 cannot tell** against `main`; gate: **FAIL**"
    assert len(text) <= github.COMMENT_LIMIT
    assert "did not pass" in text
    lines = [line for line in text.splitlines() if "evil" in line]
    assert len(lines) == github.MOST_RULES
    assert all(re.fullmatch(r"- `[^`]*` FAIL: `[^`]*`", line) for line in lines)


def test_cases_in_quarantine_are_counted_and_not_annotated() -> None:
    [line] = github.write_annotations(judged_together())
    assert read(line) == ("notice", {"title": "rejoinder"}, "1 case in quarantine did not pass, which decides nothing")
