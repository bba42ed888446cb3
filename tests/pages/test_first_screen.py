"""The first screen answers: the headline, the board, and where the first failure is."""

from __future__ import annotations

from pathlib import Path

import pytest

from rejoinder.comparison.sides import Side
from rejoinder.report import html
from rejoinder.report.page.overview import why_section
from rejoinder.views.clusters import known_clusters
from rejoinder.views.run import view_run
from tests.comparison.sides import compare_sides
from tests.kit import Project
from tests.pages.browsing import Screen, Tab, Tabs
from tests.pages.kit import Desk, Serve, store_run, write_report
from tests.report.exports import MadeRun, check, failed, made_run, turn
from tests.views.boards import run_of

TOP = "selector => document.querySelector(selector).getBoundingClientRect()"
SHAPES: dict[str, dict[str, str]] = {
    "three targets": {
        "atlas-mini": "f" * 8 + "rr" + "l" * 10 + "e",
        "atlas": "f" * 12 + "r" * 4 + "l" * 5,
        "atlas-large": "f" * 13 + "r" * 7 + "l",
    },
    "one target": {"atlas": "f" * 12 + "r" * 4 + "l" * 5},
    "four rows": dict.fromkeys(
        ("atlas / terse", "atlas / warm", "large / terse", "large / warm"), "f" * 13 + "r" * 5 + "l" * 3
    ),
    "five rows": dict.fromkeys("abcde", "f" * 13 + "r" * 5 + "l" * 3),
    "sixty rows": dict.fromkeys([f"target-{n}" for n in range(60)], "ffrl"),
}
THOUSANDS = {
    "atlas-mini": "f" * 1333 + "r" * 1333 + "l" * 1334,
    "atlas": "f" * 1667 + "r" * 1333 + "l" * 1000,
    "atlas-large": "f" * 2667 + "r" * 1333,
}
"""Figures of four digits are as wide as those of 20,000 conversations."""
ALL_SHAPES = {**SHAPES, "thousands": THOUSANDS}
EVERY_SHAPE = [*SHAPES, pytest.param("thousands", marks=pytest.mark.slow)]


@pytest.mark.parametrize("shape", EVERY_SHAPE)
@pytest.mark.parametrize(("screen", "lowest"), [(Screen(1280), 520), (Screen(390), 800)])
def test_the_first_failure_is_on_the_first_screen(
    tabs: Tabs, tmp_path: Path, shape: str, screen: Screen, lowest: int
) -> None:
    tab = tabs(write_report(run_of(ALL_SHAPES[shape]), tmp_path / "report.html"), screen=screen)
    assert_begins_with_results(tab, screen, lowest)


def assert_begins_with_results(tab: Tab, screen: Screen, lowest: int) -> None:
    tab.page.wait_for_selector("#r0")
    assert tab.page.evaluate(f"({TOP})('.headline').top") > 0
    assert tab.page.evaluate(f"({TOP})('#board').bottom") < screen.height
    assert tab.page.evaluate(f"({TOP})('#r0').top") <= lowest
    assert tab.overflow() <= 0


def test_further_rows_are_one_click_away(tabs: Tabs, tmp_path: Path) -> None:
    names = [f"target-{number}" for number in range(9)]
    tab = tabs(write_report(run_of(dict.fromkeys(names, "fffrl")), tmp_path / "report.html"))
    shown = ".brow:visible .nm"
    assert tab.page.locator(shown).all_inner_texts() == names[:4]
    tab.page.emulate_media(media="print")
    assert tab.page.locator(shown).all_inner_texts() == names
    tab.page.emulate_media(media="screen")
    tab.page.get_by_text("5 more targets").click()
    assert tab.page.locator(shown).all_inner_texts() == names
    assert [*tab.faults("board")] == []


@pytest.mark.parametrize("screen", [Screen(1280), Screen(390)], ids=str)
def test_the_reasons_of_failures_take_one_line(tabs: Tabs, desk: Desk, screen: Screen) -> None:
    tab = tabs(desk.report(), screen=screen)
    assert tab.page.locator(".reason").count() > 1
    assert tab.page.evaluate(f"({TOP})('.clusters').height") < 40


NEW_INSIDE = """() => [...document.querySelectorAll('.reason')].map(reason => {
  const right = one => one?.getBoundingClientRect().right
  const mark = reason.querySelector('.new')
  return [mark !== null && right(mark) > 0, Math.round(right(mark) - right(reason))]
})"""
"""Of each reason: whether it has the mark, and by how many pixels the mark is outside."""


def failing_for(number: int, words: str, id: str) -> MadeRun:
    """Four cases of each of several long reasons."""
    bad = [check(False, check=f'contains "{words} {n}, in a sentence of this length"') for n in range(number)]
    results = [
        failed(f"c{place}", turns=(turn("no", passed=False, checks=(bad[place % number],)),))
        for place in range(4 * number)
    ]
    return made_run(results, id=id)


@pytest.mark.parametrize("screen", [Screen(1280), Screen(768), Screen(390)], ids=str)
def test_new_reasons_show_that_they_are_new(tabs: Tabs, tmp_path: Path, screen: Screen) -> None:
    before, now = failing_for(1, "Lima", "20260101-030405-aaaa"), failing_for(5, "Vientiane", "20260102-030405-bbbb")
    found = compare_sides(*(Side(run.run.id, run.results) for run in (before, now)))
    both = tmp_path / "both.html"
    both.write_text("".join(html.write_pair(before, now, found)), encoding="utf-8")
    view = view_run(now)
    known = known_clusters(before.results)
    one = tmp_path / "one.html"
    one.write_text("".join(html.write(now)).replace(*map(str, (why_section(view, "#"), why_section(view, "#", known)))))
    for file in (both, one):
        tab = tabs(file, screen=screen)
        marks = tab.page.evaluate(NEW_INSIDE)
        assert len(marks) == 5
        assert all(is_new and outside <= 0 for is_new, outside in marks), (file.name, marks)
        assert tab.overflow() <= 0


@pytest.mark.slow
@pytest.mark.parametrize("shape", ALL_SHAPES)
@pytest.mark.parametrize(("screen", "lowest"), [(Screen(1280), 520), (Screen(390), 800)])
def test_the_viewer_begins_with_the_same(
    project: Project, serve: Serve, tabs: Tabs, shape: str, screen: Screen, lowest: int
) -> None:
    run = store_run(run_of(ALL_SHAPES[shape]), project.folder)
    tab = tabs(f"{serve(project.folder)}/runs/{run}", screen=screen)
    assert_begins_with_results(tab, screen, lowest)
    tab.page.click("#more")  # what can be done is there, too
    assert "Re-run failed" in tab.text("#acts" if screen.width < 860 else "#first-act")
    assert "Save as baseline" in tab.text("#acts")


@pytest.mark.slow
@pytest.mark.parametrize("screen", [Screen(1280), Screen(390)], ids=str)
def test_a_conversation_says_why_before_what_can_be_done(
    project: Project, serve: Serve, tabs: Tabs, screen: Screen
) -> None:
    run = store_run(run_of(SHAPES["one target"]), project.folder)
    tab = tabs(f"{serve(project.folder)}/runs/{run}/c/arithmetic/c16/atlas/-/1", screen=screen)
    tab.page.wait_for_selector(".dhead .acts")
    assert tab.page.evaluate(f"({TOP})('.why').bottom") < tab.page.evaluate(f"({TOP})('.dhead .acts').top")
    assert tab.page.evaluate(f"({TOP})('.dhead .acts').height") < 60
    assert tab.text(".crumbs #here")
    assert tab.overflow() <= 0
