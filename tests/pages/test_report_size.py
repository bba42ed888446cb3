"""Large runs: the page holds as many rows as fit, whatever the run has, and the file holds what matters."""

from __future__ import annotations

from pathlib import Path

import pytest

from rejoinder.report.html import LARGE, MOST_PASSED
from tests.pages.browsing import Tab, Tabs
from tests.pages.kit import Sizes, address, large, outcome_of, write_report
from tests.report.exports import MadeRun

MOST_ROWS = 60
MOST_ELEMENTS = 2_500


def rows(tab: Tab) -> int:
    return tab.page.locator("#rows .row").count()


def elements(tab: Tab) -> int:
    return tab.page.evaluate("() => document.querySelectorAll('body *').length")


def wait_row(tab: Tab, place: int) -> None:
    tab.page.wait_for_selector(f"#r{place}", state="attached")


def walk(tab: Tab, total: int) -> None:
    """Scroll, jump, open, search and filter; the page stays small."""
    for part in (0.5, 1.0, 0.25):
        tab.page.evaluate("part => scrollTo(0, document.documentElement.scrollHeight * part)", part)
        tab.page.wait_for_selector("#rows .row")
        assert 0 < rows(tab) <= MOST_ROWS
    tab.press("/", "Escape", "End")
    wait_row(tab, total - 1)
    assert rows(tab) <= MOST_ROWS
    tab.press("Home", "Enter")
    tab.page.wait_for_selector("#detail .turn")
    assert rows(tab) <= MOST_ROWS
    for place in range(1, 4):
        tab.press("j")
        tab.page.wait_for_function("n => document.querySelector('#rows .row.open')?.id === 'r' + n", arg=place)
    assert elements(tab) <= MOST_ELEMENTS
    tab.press("Escape")
    tab.page.fill("#q", "case-00007")
    tab.page.wait_for_function("() => Number(document.querySelector('#rows .row')?.getAttribute('aria-setsize')) < 60")
    tab.page.fill("#q", "")
    tab.press("Escape", "f")
    tab.page.wait_for_selector(".pill[aria-pressed=true] >> text=Failed")
    assert 0 < rows(tab) <= MOST_ROWS
    assert elements(tab) <= MOST_ELEMENTS
    tab.assert_quiet()


def assert_bodies(tab: Tab, run: MadeRun) -> None:
    """Each that did not pass at once can be read, and so many of the others; of the rest the row is there."""
    kept: dict[str, int] = {}
    for made in run.results[:: max(1, len(run.results) // 12)]:
        is_first = outcome_of(made) == "first"
        kept[made.target] = kept.get(made.target, 0) + is_first
        tab.go(address(made), made.title)
        has_turns = tab.page.locator("#detail .turn").count() > 0
        assert has_turns or is_first
        assert has_turns or "--full" in tab.text("#detail")


@pytest.mark.slow
def test_two_thousand_conversations(tabs: Tabs, tmp_path: Path) -> None:
    sizes = Sizes(cases=500, targets=2, trials=2)
    run = large(sizes)
    path = write_report(run, tmp_path / "report.html")
    tab = tabs(path)
    assert tab.text(".count").replace(",", "").startswith(f"{sizes.conversations} conversations")
    assert "--full" not in tab.text(".foot")
    assert_bodies(tab, run)
    tab.go("#/")
    walk(tab, sizes.conversations)
    assert path.stat().st_size < 2_000 * sizes.conversations


@pytest.mark.long
def test_twenty_thousand_conversations(tabs: Tabs, tmp_path: Path) -> None:
    sizes = Sizes(cases=5_000, targets=4)
    run = large(sizes)
    path = write_report(run, tmp_path / "report.html")
    assert path.stat().st_size < LARGE
    tab = tabs(path)
    assert "20,000 conversations" in tab.text("#overview")
    assert "--full" in tab.text("#overview")
    assert_bodies(tab, run)
    tab.go("#/")
    walk(tab, sizes.conversations)
    firsts = [made for made in run.results if outcome_of(made) == "first" and made.target == "target-1"]
    for made, is_kept in ((firsts[MOST_PASSED - 1], True), (firsts[MOST_PASSED], False)):
        tab.go(address(made), made.title)
        assert (tab.page.locator("#detail .turn").count() > 0) is is_kept


def test_the_shell_of_a_report_and_its_growth_are_bounded(tmp_path: Path) -> None:
    small = write_report(large(Sizes(1)), tmp_path / "one.html").stat().st_size
    some = write_report(large(Sizes(301)), tmp_path / "many.html").stat().st_size
    assert small <= 149_000
    assert (some - small) / 300 <= 700  # replies of sixty words, packed
