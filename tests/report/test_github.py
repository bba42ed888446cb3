"""GitHub Actions: commands that GitHub reads as they were meant, whatever they hold; texts within their limits."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given

from rejoinder.gates.baselines import baseline_of
from rejoinder.gates.changes import find_changes
from rejoinder.model import CaseChanges, ToolCall
from rejoinder.model.figures import GateResult, RuleResult, RuleVerdict
from rejoinder.report import github
from rejoinder.report.markdown import LONGEST_SAID, SUMMARY_LIMIT
from rejoinder.views.clusters import known_clusters
from rejoinder.views.flips import FlipRow, Flips, SinceBaseline, changes_words, flips_since
from tests.kit import bounded
from tests.report.exports import (
    OBEYED,
    MadeRun,
    check,
    failed,
    hostile,
    hostile_texts,
    in_error,
    judged_together,
    made_run,
    mixed,
    result,
    turn,
)

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
        (CaseChanges(), "0 broke, 0 fixed, 0 same"),
        (CaseChanges(worse=2, same=31, cannot_tell=1), "2 broke, 0 fixed, 31 same, 1 cannot tell"),
        (CaseChanges(better=1, new=2, missing=3), "0 broke, 1 fixed, 0 same, 2 new, 3 missing"),
    ],
)
def test_a_comparison_is_one_line(found: CaseChanges, wanted: str) -> None:
    assert changes_words(found) == wanted


def test_a_comment_with_a_gate_fits_and_holds_no_text_of_others_as_markdown() -> None:
    run = made_run(failed(f"case-{number}", "x" * 2_000) for number in range(500))
    rules = tuple(RuleResult("tag:<b>@all" * 50, "fail", "![x](http://evil) " * 500) for _ in range(500))
    since = SinceBaseline("main", CaseChanges(same=500), GateResult("fail", rules))
    text = github.sticky_text(run, "nightly", since)
    assert "> **Gate failed: 500 of 500 rules.** Worse than `main`: 0 broke, 0 fixed, 500 same.\n" in text
    assert len(text) <= github.COMMENT_LIMIT
    assert "did not pass" in text
    lines = [line for line in text.splitlines() if "evil" in line]
    assert f"- and {500 - len(lines)} more rules" in text and len(lines) > 10
    assert all(re.fullmatch(r"- `[^`]*` FAIL: `[^`]*`", line) for line in lines)


def compared(before: MadeRun, now: MadeRun, verdict: RuleVerdict = "fail", **more: Any) -> SinceBaseline:
    verdicts = [baseline_of(run.run.id, run.results) for run in (before, now)]
    changes = find_changes(*verdicts)
    gate = GateResult(verdict, (RuleResult("no-new-failures", verdict, "why"),))
    return SinceBaseline("main", changes, gate, flips_since(changes, now), **more)


def test_a_comment_says_the_verdict_first_then_what_changed_and_what_was_said() -> None:
    before = made_run([result("steady"), result("refund"), failed("hours"), result("broken")])
    now = made_run([result("steady"), failed("refund", "You get a | voucher."), result("hours"), in_error("broken")])
    text = github.sticky_text(now, "results", compared(before, now, "cannot-tell"))
    head, changed = text.split("### Changed since `main`\n\n")
    assert head.splitlines()[1:5] == [
        "## rejoinder: 2 of 4 passed, 1 ended in an error.",
        "",
        "> [!CAUTION]",  # the gate does not hide errors
        "> **Gate cannot tell: 1 of 1 rule.** Worse than `main` or not: we cannot tell; "
        "1 broke, 1 fixed, 1 same, 1 cannot tell.",
    ]
    assert head.index("| Target |") < len(head)
    assert changed.splitlines()[:5] == [
        "| Case | Before | Now | It said |",
        "|---|---|---|---|",
        "| ❌ `refund` | passed | failed | `You get a │ voucher.` |",
        "| ❌ `broken` | passed | error |  |",
        "| ✅ `hours` | failed | passed | `105` |",
    ]
    without = github.sticky_text(now)
    assert "Changed since" not in without and "It said" not in without and "Gate" not in without


@pytest.mark.parametrize(
    ("verdict", "alert"), [("pass", "TIP"), ("fail", "CAUTION"), ("cannot-tell", "WARNING")], ids=str
)
def test_the_colour_is_the_gates_where_the_run_only_failed(verdict: RuleVerdict, alert: str) -> None:
    before, now = made_run([failed("refund")]), made_run([failed("refund")])
    assert f"> [!{alert}]\n> **Gate" in github.sticky_text(now, "results", compared(before, now, verdict))


def test_a_comment_on_ten_thousand_failures_fits() -> None:
    """The longest names and replies, of which a character has three bytes."""
    ids = [f"{number:05}-{'漢' * 300}" for number in range(10_000)]
    before = made_run(map(result, ids))
    now = made_run(failed(one, "漢`|" * 1_000, "漢" * 1_000) for one in ids)
    text = github.sticky_text(now, "results", compared(before, now))
    assert 20_000 < len(text) <= len(text.encode()) <= github.COMMENT_LIMIT
    table, folded = text.split("<details><summary>", 1)
    assert table.count("| ❌ ") == 10
    shown, more = folded.split(" more</summary>", 1)
    assert more.count("| ❌ ") == int(shown) > 10
    assert f"{10_000 - 10 - int(shown):,} more cases changed; `rejoinder compare` lists them." in more
    assert "10,000 broke" in text and "more did not pass. The run's JSON has them all." in text
    assert text.count("<details>") == text.count("</details>")


def test_a_conversation_is_folded_to_the_turn_that_decided() -> None:
    bad = check(False, check="icontains 30 days", kind="icontains", reason="not in it")
    turns = [turn(f"reply {n}", n, prompt=f"question {n}", passed=False, checks=(bad,)) for n in (1, 2, 3)]
    run = made_run([result("times", *turns, status="failed", passed=False)])
    text = github.sticky_text(run)
    assert "Turn 3 of 3\n  prompt\n  | question 3\n  reply\n  | reply 3\n  failed icontains" in text
    assert "reply 1" not in text and "question 2" not in text
    called = tuple(ToolCall(name="find", arguments="x" * 5_000, result="y" * 5_000) for _ in range(20))
    long = turn("z" * 9_000, prompt="p" * 9_000, passed=False, checks=(bad,), tool_calls=called)
    text = github.sticky_text(made_run([result("times", long, status="failed", passed=False)]))
    said = text.split("```text\n")[1].split("\n```")[0]
    assert len(said) <= LONGEST_SAID + len(" [... 99,999 characters left out ...] ")


def test_a_negated_check_is_called_by_what_it_negates() -> None:
    inner = check(True, check="icontains voucher", kind="icontains", reason="contains it")
    no = check(False, check="not", kind="not", reason="icontains voucher: contains it", children=(inner,))
    said = turn("Here is a voucher.", passed=False, checks=(no,))
    text = github.sticky_text(made_run([result("refund", said, status="failed", passed=False)]))
    assert '- `not icontains "voucher": contains it`\n' in text
    assert '  failed not icontains "voucher"\n' in text


def test_reasons_are_new_where_the_baseline_did_not_have_them() -> None:
    missed = [failed(f"c{n}", "no") for n in range(3)]
    broken = [in_error(f"e{n}", "HTTP 500") for n in range(2)]
    before, now = made_run([*missed, result("e0"), result("e1")]), made_run([*missed, *broken])
    lines = github.sticky_text(now, "results", compared(before, now, known=known_clusters(before.results))).splitlines()
    assert [line for line in lines if re.match(r"- \d", line)][:2] == [
        '- 3 `match "*105*" failed`',
        "- 2 `server: HTTP 500`, new since the baseline",
    ]
    assert "new since" not in github.sticky_text(now, "results", compared(before, now))


@pytest.mark.slow
@bounded(100)
@given(hostile_texts)
def test_no_text_leaves_the_table_of_changes(text: str) -> None:
    flips = Flips((FlipRow(f"case {text}", "passed", "failed", True, text),))
    since = SinceBaseline("main", CaseChanges(worse=1), GateResult("fail", ()), flips)
    shown = github.sticky_text(mixed(), "results", since)
    [row] = [line for line in shown.splitlines() if line.startswith("| ❌ ")]
    assert not OBEYED.search(row) and row.count("|") == 5
    assert re.fullmatch(r"\| ❌ (`+).*?\1 \| passed \| failed \| ((`+).*?\3)? ?\|", row)


def test_cases_in_quarantine_are_counted_and_not_annotated() -> None:
    [line] = github.write_annotations(judged_together())
    assert read(line) == ("notice", {"title": "rejoinder"}, "1 case in quarantine did not pass, which decides nothing")
