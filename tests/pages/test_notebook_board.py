"""The board of a report inside the page of a notebook: readable in light and dark, silent, and without requests."""

from __future__ import annotations

from pathlib import Path

import pytest

import rejoinder
from rejoinder import Case, FollowUp, Suite, checks
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
