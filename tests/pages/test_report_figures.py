"""Grid, pills and list of a report say the same of any run, and what a second reading of the results says."""

from __future__ import annotations

import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import Phase, given, settings

from rejoinder.model import Result
from rejoinder.model.clusters import repeated_turns
from tests.kit import bounded
from tests.pages.browsing import Chromium, Tab, tabs_of
from tests.pages.kit import Recipe, address, outcome_of, recipes, write_report
from tests.report.exports import MadeRun

ORDER = ["failed", "error", "recovered", "first", "skipped"]
PILLS = {"All": "all", "Failed": "failed", "Recovered": "recovered", "Errors": "error", "First try": "first"}
PILLS |= {"Skipped": "skipped", "Same words, any outcome": "again", "Verdicts differ": "different"}
READ_ROWS = "found => found.map(e => e.getAttribute('href').split('?')[0])"


def assert_rows(tab: Tab, results: list[Result]) -> None:
    """The list has these conversations in its order; of many the first are in the page."""
    wanted, found = expected_rows(results), rows_of(tab)
    assert tab.page.locator("#rows .row").first.get_attribute("aria-setsize") == str(len(wanted))
    assert found == wanted[: len(found)]
    assert len(found) >= min(len(wanted), 12)


def rows_of(tab: Tab) -> list[str]:
    tab.page.evaluate("() => document.querySelector('#list').scrollIntoView()")
    tab.page.evaluate("() => dispatchEvent(new Event('resize'))")
    return tab.page.eval_on_selector_all("#rows .row", READ_ROWS)


def pills_of(tab: Tab) -> dict[str, int]:
    texts = [text or "" for text in tab.page.locator(".pill").all_text_contents()]
    pairs = [text.rsplit(" ", 1) for text in texts]
    return {PILLS[name.strip()]: int(number) for name, number in pairs}


def differing(results: list[Result]) -> int:
    """Conversations of cases of which some passed and others did not."""
    passed: dict[tuple[str, str], set[bool]] = {}
    for made in results:
        if made.status != "skipped":
            passed.setdefault((made.suite, made.id), set()).add(made.passed)
    return sum(len(passed.get((made.suite, made.id), ())) > 1 for made in results)


def expected_pills(results: list[Result]) -> dict[str, int]:
    counts: Counter[str] = Counter(map(outcome_of, results))
    always = {name: counts[name] for name in ("failed", "recovered", "error", "first")}
    again = sum(bool(repeated_turns(made.turns)) for made in results)
    seldom = {"skipped": counts["skipped"], "again": again, "different": differing(results)}
    return {"all": len(results), **always, **{name: number for name, number in seldom.items() if number}}


def expected_rows(results: list[Result]) -> list[str]:
    ranked = sorted(enumerate(results), key=lambda one: (ORDER.index(outcome_of(one[1])), one[0]))
    return [address(made) for _, made in ranked]


def cell_words(trials: list[Result]) -> str:
    """What a cell of the grid has to say of its conversations."""
    begun = [made for made in trials if made.status != "skipped"]
    passed = sum(made.passed for made in begun)
    if len(begun) > 1:
        again = sum(outcome_of(made) == "recovered" for made in begun)
        return f"{passed} of {len(begun)} passed{f' ({again} recovered)' if again else ''}"
    if not begun:
        return "not sent"
    told = {"first": "passed on the first try", "failed": "failed", "error": "error"}
    return told.get(outcome_of(begun[0]), f"recovered on turn {len(begun[0].turns)}")


def expected_cells(run: MadeRun) -> dict[tuple[str, str], str]:
    groups: dict[tuple[str, str], list[Result]] = {}
    for made in run.results:
        groups.setdefault((made.title, made.target), []).append(made)
    return {group: cell_words(trials) for group, trials in groups.items()}


def cells_of(tab: Tab) -> dict[tuple[str, str], str]:
    read = """found => found.map(cell => [
        cell.closest('tr').querySelector('th').firstChild.textContent,
        cell.closest('td').dataset.of,
        cell.textContent.split(': ')[0],
    ])"""
    parts: list[Any] = tab.page.eval_on_selector_all("#grid a.cell", read)
    return {(case, target): told for case, target, told in parts}


@pytest.mark.slow
def test_grid_pills_and_list_agree_for_any_run(browser: Chromium) -> None:
    @settings(bounded(8), phases=[Phase.generate])
    @given(recipes())
    def check(recipe: Recipe) -> None:
        run = recipe.run()
        results = list(run.results)
        with tempfile.TemporaryDirectory() as folder:
            path = write_report(run, Path(folder) / "report.html")
            with tabs_of(browser) as tabs:
                tab = tabs(path)
                assert_rows(tab, results)
                assert pills_of(tab) == expected_pills(results)
                if tab.page.locator("#grid").count():
                    assert cells_of(tab) == expected_cells(run)
                for name in ("failed", "recovered", "error", "first"):
                    chosen = [made for made in results if outcome_of(made) == name]
                    if chosen:
                        tab.go(f"#/?show={name}")
                        tab.page.wait_for_function(
                            "n => Number(document.querySelector('#rows .row')?.getAttribute('aria-setsize')) === n",
                            arg=len(chosen),
                        )
                        assert_rows(tab, chosen)
                tab.assert_quiet()

    check()


@pytest.mark.slow
def test_a_filter_counts_the_others(browser: Chromium, tmp_path: Path) -> None:
    """The number on a pill is that of rows it would show under the other filters."""

    @settings(bounded(3), phases=[Phase.generate])
    @given(recipes())
    def check(recipe: Recipe) -> None:
        run = recipe.run()
        path = write_report(run, tmp_path / "report.html")
        targets = sorted({made.target for made in run.results})
        with tabs_of(browser) as tabs:
            for target in targets:
                mine = [made for made in run.results if made.target == target]
                tab = tabs(path, f"#/?target={target}")
                pills = pills_of(tab)
                wanted = {**expected_pills(mine), "different": 0}
                assert {name: pills.get(name, 0) for name in wanted if name != "different"} == {
                    name: number for name, number in wanted.items() if name != "different"
                }
                assert_rows(tab, mine)

    check()
