"""The grid of cases, and the panels that take turns with the list."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.pages.browsing import SCREENS, Screen, Tab, Tabs
from tests.pages.kit import Recipe, write_report
from tests.views.boards import run_of

WAYS = {"mini": "fflr" * 4, "mid": "ffrl" * 4, "large": "ffrf" * 4}
REPEATS = Recipe([["prr", "fff"], ["ppp", "rrf"], ["eee", "ppf"], ["sss", ""]], [["a"], [], ["b"], []])


@pytest.fixture
def report(tmp_path: Path) -> Path:
    return write_report(run_of(WAYS), tmp_path / "report.html")


def cases(tab: Tab) -> list[str]:
    """The cases in the order of the grid, by the addresses of their first conversations."""
    return tab.page.eval_on_selector_all("#grid tbody tr", "rows => rows.map(row => row.cells[1].innerHTML)")


def focused(tab: Tab) -> list[int]:
    """The row and the column of the cell that has the focus."""
    find = "() => (cell => [cell.parentElement.rowIndex, cell.cellIndex])(document.activeElement.closest('td'))"
    return tab.page.evaluate(find)


def sort_by(tab: Tab, column: str) -> str:
    """Press a head; how the column is sorted then."""
    head = tab.page.locator(f"#grid thead th:has-text('{column}')")
    head.locator("button").click()
    assert tab.page.locator("#grid [aria-sort]").count() == 1
    return head.get_attribute("aria-sort") or ""


CUT = """found => found.filter(
    one => one.scrollHeight > one.clientHeight + 1 && getComputedStyle(one).overflowY !== 'visible'
).length"""


@pytest.mark.parametrize("screen", SCREENS, ids=str)
def test_the_grid_is_a_tab_of_the_first_screen_and_is_cut_nowhere(tabs: Tabs, report: Path, screen: Screen) -> None:
    tab = tabs(report, screen=screen)
    place = tab.page.locator(".tab:text-is('Grid')").bounding_box()
    assert place is not None
    assert place["y"] < screen.height
    assert not tab.page.locator("#grid").is_visible()
    tab.page.click(".tab:text-is('Grid')")
    assert tab.page.locator("#grid").is_visible()
    assert not tab.page.locator("#list").is_visible()
    assert tab.page.eval_on_selector_all("#grid, #grid div, #grid tr, #grid table", CUT) == 0
    assert tab.overflow() <= 0
    tab.page.click(".tab:text-is('List')")
    assert tab.page.locator("#r0").is_visible()
    tab.assert_quiet()


def test_a_cell_has_the_first_words_of_the_reply(tabs: Tabs, report: Path) -> None:
    tab = tabs(report, "#/?view=grid")
    said = tab.page.locator("#grid td.of .q").all_inner_texts()
    assert len(said) == 48
    assert "100" in said  # of one that failed
    assert len(set(said)) == 2
    heads = [words.split("\n") for words in tab.page.locator("#grid thead th").all_inner_texts()]
    assert [head[0] for head in heads] == ["Case", "mini", "mid", "large", "Passed"]
    assert heads[1][1:] == ["75% 12 of 16"]
    assert tab.page.locator("#grid td.num").first.inner_text().split("\n")[0] == "2 of 3 67%"


def test_columns_are_sorted_by_what_they_lost(tabs: Tabs, report: Path) -> None:
    tab = tabs(report, "#/?view=grid")
    before = cases(tab)
    assert sort_by(tab, "mid") == "descending"
    lost = tab.page.eval_on_selector_all("#grid tbody tr", "rows => rows.map(row => Number(row.cells[2].dataset.by))")
    assert lost == sorted(lost, reverse=True)
    assert cases(tab) != before
    assert sort_by(tab, "mid") == "ascending"
    assert sort_by(tab, "Passed") == "descending"
    assert sort_by(tab, "Case") == "ascending"
    tab.assert_quiet()


def test_arrows_go_from_cell_to_cell_and_two_of_a_case_open_beside_each_other(tabs: Tabs, report: Path) -> None:
    tab = tabs(report)
    tab.press("g")
    assert focused(tab) == [1, 1]
    tab.press("ArrowDown", "ArrowDown", "ArrowRight", "ArrowUp")
    assert focused(tab) == [2, 2]
    tab.press("x")
    assert tab.page.locator(".cell.chosen").count() == 1
    tab.press("ArrowDown", "x")  # of another case: it is the first of two again
    assert tab.page.locator(".cell.chosen").count() == 1
    assert focused(tab) == [3, 2]
    tab.press("ArrowRight", "x")
    tab.page.wait_for_selector("#detail .pair.heads")
    assert [words.split()[0] for words in tab.page.locator(".headlink").all_inner_texts()] == ["mid", "large"]
    tab.press("Escape")
    tab.page.wait_for_selector("#detail", state="hidden")
    assert tab.page.locator("#grid").is_visible(), "back is where one came from"
    assert focused(tab) == [3, 3]
    tab.press("g")
    assert not tab.page.locator("#grid").is_visible()
    tab.assert_quiet()


def test_a_row_leads_to_its_worst_and_its_best_beside_each_other(tabs: Tabs, report: Path) -> None:
    tab = tabs(report, "#/?view=grid", Screen(390))
    tab.page.click("#grid td.num a >> nth=0")
    tab.page.wait_for_selector("#detail .pair.heads")
    words = tab.page.locator(".headlink").all_inner_texts()
    assert "Failed" in words[0]
    assert "Failed" not in words[1]
    tab.page.go_back()
    tab.page.wait_for_selector("#detail", state="hidden")
    assert tab.page.locator("#grid").is_visible()


@pytest.mark.parametrize("key", ["f", "/", "j"])
def test_a_key_of_the_list_leads_back_to_it(tabs: Tabs, report: Path, key: str) -> None:
    tab = tabs(report, "#/?view=grid")
    assert not tab.page.locator("#rows").is_visible()
    tab.press(key)
    tab.page.wait_for_selector("#rows .row")
    assert not tab.page.locator("#grid").is_visible()


def test_an_unknown_panel_is_the_list(tabs: Tabs, report: Path) -> None:
    tab = tabs(report, "#/?view=nonsense")
    assert tab.page.locator("#rows .row").first.is_visible()
    assert tab.page.locator(".tab[aria-current=true]").inner_text() == "List"


@pytest.mark.parametrize("screen", SCREENS, ids=str)
def test_repeats_in_the_grid_have_no_barriers(tabs: Tabs, tmp_path: Path, screen: Screen, pictures: Path) -> None:
    tab = tabs(write_report(REPEATS.run(), tmp_path / "report.html"), "#/?view=grid", screen)
    tab.page.screenshot(path=pictures / f"grid-repeats-{screen}.png")
    assert "0 of 3" in tab.text("#grid .cell .trials")
    assert tab.page.locator("#grid .trials .bar").count() == 6
    assert list(tab.faults("repeats", screen)) == []
    tab.assert_quiet()


def test_without_script_all_panels_are_there(tabs: Tabs, report: Path) -> None:
    tab = tabs(java_script_enabled=False)
    tab.page.goto(report.as_uri())
    assert tab.page.locator("#grid").is_visible()
    assert not tab.page.locator(".views").is_visible()
