"""The browser, for the tests of pages alone."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.pages.browsing import Chromium, Tabs, start_chromium, tabs_of
from tests.pages.kit import Desk, make_desk


@pytest.fixture(scope="session")
def browser() -> Iterator[Chromium]:
    """Chromium, once for each process of tests. A machine without it fails: nothing is skipped."""
    with start_chromium() as chromium:
        yield chromium


@pytest.fixture
def tabs(browser: Chromium) -> Iterator[Tabs]:
    """Opens pages in contexts of their own. While a test has it, loops are started only within `browser.aside()`."""
    with tabs_of(browser) as open_tab:
        yield open_tab


@pytest.fixture(scope="session")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Desk:
    """A real run with all kinds of endings, made once for each process of tests."""
    return make_desk(tmp_path_factory.mktemp("desk"))


@pytest.fixture(scope="session")
def pictures(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where pictures are written: SCREENS_FOLDER, or a folder that goes with the tests."""
    named = os.environ.get("SCREENS_FOLDER")
    folder = Path(named).absolute() if named else tmp_path_factory.mktemp("screens")
    folder.mkdir(parents=True, exist_ok=True)
    return folder
