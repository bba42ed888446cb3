"""GitHub Actions: commands that GitHub reads as they were meant, whatever they hold; texts within their limits."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given

from rejoinder.report import github
from rejoinder.report.markdown import SUMMARY_LIMIT
from tests.kit import bounded
from tests.report.exports import OBEYED, failed, hostile, hostile_texts, made_run, mixed

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


@bounded(200)
@given(hostile_texts)
def test_no_text_leaves_its_annotation(text: str) -> None:
    lines = list(github.write_annotations(hostile(text)))
    assert len(lines) == 2
    for line in lines:
        assert not OBEYED.search(line)
        kind, place, _ = read(line)
        assert kind == "error"
        assert set(place) <= {"file", "line", "title"}


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


def flip(before: str, now: str) -> github.Flip:
    return github.Flip(before, now)


@pytest.mark.parametrize(
    ("found", "wanted"),
    [
        (github.Comparison(0), "0 worse, 0 same"),
        (github.Comparison(34), "0 worse, 34 same"),
        (github.Comparison(2, (flip("passed", "failed"),)), "1 worse, 1 same"),
        (github.Comparison(2, (flip("failed", "recovered"),)), "0 worse, 1 better, 1 same"),
        (github.Comparison(2, (flip("error", "passed"), flip("passed", "skipped"))), "0 worse, 0 same, 2 cannot tell"),
        (github.Comparison(("a", "b"), (), ("c",), ("d", "e")), "0 worse, 2 same, 2 new, 1 gone"),
    ],
)
def test_a_comparison_is_one_line(found: github.Comparison, wanted: str) -> None:
    assert github.compared(found) == wanted


def test_a_comment_with_a_gate_fits_and_holds_no_text_of_others_as_markdown() -> None:
    run = made_run(failed(f"case-{number}", "x" * 2_000) for number in range(500))
    rules = tuple(github.Rule("tag:<b>@all" * 50, "fail", "![x](http://evil) " * 500) for _ in range(500))
    text = github.sticky_text(run, "nightly", github.Against(github.Gate("fail", rules), github.Comparison(500)))
    assert text.splitlines()[1] == "**0 worse, 500 same** against the baseline"
    assert len(text) <= github.COMMENT_LIMIT
    assert "did not pass" in text
    lines = [line for line in text.splitlines() if "evil" in line]
    assert len(lines) == github.MOST_RULES
    assert all(re.fullmatch(r"- `[^`]*` `fail`: `[^`]*`", line) for line in lines)


def test_commands_are_off_between_two_lines() -> None:
    assert github.commands_off("f00d") == ("::stop-commands::f00d", "::f00d::")
