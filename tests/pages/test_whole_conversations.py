"""Checks of the whole conversation: the turn that broke one is marked, in words, colour and evidence."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.kit import run_folders, run_process
from tests.pages.browsing import SCREENS, Screen, Tab, Tabs
from tests.pages.kit import address, read_made, write_report

SUITE = """
name: shop
metadata: {name: shop, model: clerk}
targets:
  - name: clerk
    provider: scripted
    replies: ["Which size?", "Medium. And which colour do you want?", "Done, a medium shirt."]
evals:
  - id: shirt
    turns: [{prompt: I want a shirt.}, {prompt: Medium.}, {prompt: Do it., checks: [{icontains: done}]}]
    conversation_checks: [CHECK]
"""
CHECKS = {
    "never": ("never: {icontains: colour}", 2, 'breaks: never icontains "colour"', ["colour"]),
    "always": ("always: {icontains: m}", 1, 'breaks: always icontains "m"', []),
    "named": ("{name: no colours, never: {icontains: colour}}", 2, "breaks: no colours", ["colour"]),
    "by_turn": ("by_turn: {turn: 2, check: {icontains: done}}", 2, 'breaks: by_turn icontains "done"', []),
    "before": (
        "before: {first: {icontains: size of}, second: {icontains: done}}",
        3,
        'breaks: icontains "size of" before icontains "done"',
        [],
    ),
}


@pytest.fixture
def opened(tabs: Tabs, tmp_path: Path) -> Any:
    def open_report(check: str, suite: str = SUITE, screen: Screen = SCREENS[0]) -> Tab:
        (tmp_path / ".rejoinder").mkdir(exist_ok=True)
        written = check if check.startswith("{") else f"{{{check}}}"
        (tmp_path / "evals.yaml").write_text(suite.replace("CHECK", written))
        before = set(run_folders(tmp_path))
        run_process(tmp_path, "run", "evals.yaml")
        [folder] = set(run_folders(tmp_path)) - before
        made = read_made(folder)
        [one] = made.results
        return tabs(write_report(made, tmp_path / "report.html"), address(one), screen=screen)

    return open_report


@pytest.mark.parametrize("kind", CHECKS)
def test_the_turn_that_broke_the_conversation_is_marked(opened: Any, kind: str) -> None:
    check, broke, words, evidence = CHECKS[kind]
    tab = opened(check)
    outcomes = tab.page.eval_on_selector_all(
        "nav.trail a .mark", "found => found.map(one => one.classList.contains('fail'))"
    )
    assert outcomes == [number == broke for number in (1, 2, 3)]
    readers = tab.page.eval_on_selector_all("nav.trail a .sr", "found => found.map(one => one.textContent)")
    assert readers == [": failed" if number == broke else ": passed" for number in (1, 2, 3)]
    heads = [tab.text(f"#t{number} .th") for number in (1, 2, 3)]
    assert words in heads[broke - 1]
    assert "passed" not in heads[broke - 1]
    assert all("passed" in head for number, head in enumerate(heads, 1) if number != broke)
    assert tab.page.locator(f"#t{broke} .said mark.miss").all_inner_texts() == evidence
    assert "score" not in tab.text("#detail .meta"), "no score lies between 0 and 1"
    tab.assert_quiet()


def test_a_score_between_passed_and_failed_is_shown(opened: Any) -> None:
    suite = SUITE.replace("{icontains: done}", "{icontains: done}, {icontains: blue}")
    assert "score 0." in opened("never: {icontains: colour}", suite).text("#detail .meta")


@pytest.mark.parametrize("screen", SCREENS, ids=str)
def test_the_marks_can_be_read_by_everybody(opened: Any, screen: Screen) -> None:
    tab = opened("never: {icontains: colour}", screen=screen)
    assert list(tab.faults("whole conversation", screen)) == []
