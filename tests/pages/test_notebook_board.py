"""The board of a report inside the page of a notebook: readable in light and dark, silent, and without requests."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape
from pathlib import Path
from typing import Any

import pytest

import rejoinder
from rejoinder import Case, FollowUp, Suite, checks
from tests.documentation import executed_notebook
from tests.pages.browsing import Screen, Tabs
from tests.pages.kit import HOSTILE as HOSTILE_TEXTS

pytestmark = pytest.mark.slow

HOSTILE = " ".join(text for name, text in HOSTILE_TEXTS.items() if name not in ("template", "controls", "half"))
THEMES = {"light": "background: #fff; color: #1f2328", "dark": "background: #111; color: #ddd"}


@pytest.mark.parametrize("theme", THEMES)
def test_a_board_is_readable_and_silent(theme: str, tabs: Tabs, tmp_path: Path, pictures: Path) -> None:
    (tmp_path / ".rejoinder").mkdir()
    again = FollowUp("Again?", checks=[checks.contains("<")])
    suite = Suite(
        name="hostile",
        target=["it", "other"],
        targets=[{"name": name, "provider": "scripted", "replies": [HOSTILE, HOSTILE]} for name in ("it", "other")],
        evals=[
            Case(id=HOSTILE[:200], prompt=HOSTILE, checks=[checks.contains("never")]),
            Case(id="two", prompt="x", checks=[checks.contains("yes", follow_up=again)]),
        ],
        folder=tmp_path,
    )
    html = rejoinder.run(suite)._repr_html_()
    page = tmp_path / "notebook.html"
    head = f'<!doctype html><html lang="en"><meta charset="utf-8"><title>x</title><body style="{THEMES[theme]}">'
    page.write_text(f"{head}<main><h1>Notebook</h1>{html}</main></body></html>", encoding="utf-8")
    tab = tabs(screen=Screen(900, theme))
    tab.page.goto(page.as_uri())
    tab.page.evaluate("() => document.querySelectorAll('details').forEach(one => { one.open = true })")
    assert "replied:" in tab.text("pre") and tab.overflow() <= 0
    assert tab.page.locator("script, a, img, iframe").count() == 0
    tab.page.screenshot(path=pictures / f"notebook-{theme}.png", full_page=True)
    assert tab.barriers() == []
    tab.assert_quiet()


def test_a_board_needs_neither_scripts_nor_the_page_around_it(tabs: Tabs, tmp_path: Path) -> None:
    """Front ends put HTML into a frame without scripts, or into an element with a tree of its own."""
    (tmp_path / ".rejoinder").mkdir()
    target = {"name": "it", "provider": "scripted", "replies": ["no"]}
    case = Case(id="one", prompt="x", checks=[checks.contains("yes")])
    html = rejoinder.run(Suite(target="it", targets=[target], evals=[case], folder=tmp_path))._repr_html_()
    page = tmp_path / "front-end.html"
    head = '<!doctype html><html lang="en"><meta charset="utf-8"><title>x</title>'
    frame = f'<iframe title="cell" sandbox="" width="800" height="400" srcdoc="{escape(html)}"></iframe>'
    page.write_text(f'{head}<p class="headline bar">outside</p>{frame}<div id="host"></div></html>', encoding="utf-8")
    tab = tabs(screen=Screen(900, "light"))
    tab.page.goto(page.as_uri())
    of_page = tab.page.locator("p.headline").evaluate("one => getComputedStyle(one).fontSize")
    tab.page.evaluate("html => { host.attachShadow({ mode: 'open' }).innerHTML = html }", html)
    for board in (tab.page.frame_locator("iframe").locator(".rejoinder-run"), tab.page.locator("#host .rejoinder-run")):
        assert board.locator(".headline").inner_text() == "0 of 1 passed."
        assert board.locator(".seg.fail").evaluate("one => getComputedStyle(one).fill") == "rgb(214, 69, 69)"
        board.locator("summary").click()
        assert "replied: no" in board.locator("pre").inner_text()
    assert tab.page.locator("p.headline").first.evaluate("one => getComputedStyle(one).fontSize") == of_page
    assert (len(tab.asked), tab.dialogs) == (1, [])


@pytest.mark.parametrize("theme", THEMES)
def test_the_notebook_of_the_guide_shows_its_board(theme: str, tabs: Tabs, tmp_path: Path, pictures: Path) -> None:
    """Executed by a kernel of Jupyter; its outputs are put on a page as they are."""
    cells = executed_notebook(tmp_path)
    page, parts = tmp_path / "guide.html", [part for cell in cells for part in shown(cell)]
    head = f'<!doctype html><html lang="en"><meta charset="utf-8"><title>x</title><body style="{THEMES[theme]}">'
    page.write_text(f"{head}<main><h1>Notebook</h1>{''.join(parts)}</main></body></html>", encoding="utf-8")
    tab = tabs(screen=Screen(900, theme))
    tab.page.goto(page.as_uri())
    board = tab.page.locator(".rejoinder-run")
    assert board.count() == 1 and "1 of 2 passed" in board.locator(".headline").inner_text()
    failure = board.locator("details")
    assert failure.count() == 1 and "product" in failure.locator("summary").inner_text()
    failure.locator("summary").click()
    assert "replied: It is 100." in failure.locator("pre").inner_text()
    assert board.locator("script, a, img, iframe").count() == 0
    frame = tab.page.locator("table.dataframe")
    assert frame.count() == 1 and "the reply does not match" in frame.inner_text()
    tab.page.screenshot(path=pictures / f"notebook-guide-{theme}.png", full_page=True)
    tab.assert_quiet()


def shown(cell: dict[str, Any]) -> Iterator[str]:
    """A cell as notebooks show it: HTML where there is any, else the text."""
    yield f"<pre>{escape(cell['source'])}</pre>"
    for output in cell.get("outputs", ()):
        data = output.get("data", {})
        yield data.get("text/html") or f"<pre>{escape(output.get('text') or data.get('text/plain', ''))}</pre>"
