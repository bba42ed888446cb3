"""The first screen answers: the headline, the board, and where the first failure is."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.pages.browsing import Screen, Tabs
from tests.pages.kit import write_report
from tests.views.boards import run_of

PAIRS = "atlas / terse", "atlas / warm", "large / terse", "large / warm"
SHAPES = {
    "three targets": {
        "atlas-mini": "f" * 8 + "rr" + "l" * 10 + "e",
        "atlas": "f" * 12 + "r" * 4 + "l" * 5,
        "atlas-large": "f" * 13 + "r" * 7 + "l",
    },
    "one target": {"atlas": "f" * 12 + "r" * 4 + "l" * 5},
    "four rows": dict.fromkeys(
        ("atlas / terse", "atlas / warm", "large / terse", "large / warm"), "f" * 13 + "r" * 5 + "l" * 3
    ),
}


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize(("screen", "lowest"), [(Screen(1280), 520), (Screen(390), 800)])
def test_the_first_failure_is_on_the_first_screen(
    tabs: Tabs, tmp_path: Path, shape: str, screen: Screen, lowest: int
) -> None:
    tab = tabs(write_report(run_of(SHAPES[shape]), tmp_path / "report.html"), screen=screen)
    tab.page.wait_for_selector("#r0")
    top = "selector => document.querySelector(selector).getBoundingClientRect()"
    assert tab.page.evaluate(f"({top})('.headline').top") > 0
    assert tab.page.evaluate(f"({top})('#board').bottom") < screen.height
    assert tab.page.evaluate(f"({top})('#r0').top") <= lowest
    assert tab.overflow() <= 0
