"""The browser, for the tests of pages alone."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from rejoinder.server.app import make_app
from rejoinder.server.serving import Server, listen
from rejoinder.server.settings import Settings
from tests.kit import wait_until
from tests.pages.browsing import Chromium, Tabs, start_chromium, tabs_of
from tests.pages.kit import Desk, Serve, make_desk


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


@pytest.fixture
def serve() -> Iterator[Serve]:
    """Starts servers in threads; each is given by its address."""
    started: list[tuple[Server, threading.Thread]] = []

    def begin(root: Path, *, read_only: bool = False) -> str:
        listening = listen("127.0.0.1", 0, exactly=True)
        settings = Settings(root=root, port=listening.getsockname()[1], read_only=read_only)
        server = Server(make_app(settings))
        thread = threading.Thread(target=server.run, args=([listening],), daemon=True)
        thread.start()
        started.append((server, thread))
        wait_until(lambda: server.started)
        return settings.address

    yield begin
    for server, thread in started:
        server.should_exit = True
        server.config.app.state.closing.set()  # type: ignore[union-attr]
        thread.join(10)
        assert not thread.is_alive()
