"""A real Chromium for tests: pages that say what they logged, asked for and refused, and what axe finds in them.

Playwright runs an event loop of its own in this thread and leaves it marked as running, so that no other loop could
start. Here it is marked only while a test talks to the browser: see `Chromium.awake`.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, Playwright, sync_playwright

from tests.kit import ROOT

WEB = ROOT / ".web"
PAGE = ROOT / "src/rejoinder/report/page"
HINT = "the tests of pages need Chromium, axe-core and tsc: make .web/installed"
PATIENCE_MS = 20_000
"""How long a page may take for what it does at once: a machine that is busy with other tests is slow, not wrong."""
AXE_RULES = {
    "runOnly": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"],
    "resultTypes": ["violations"],
}
COLOURS = {"runOnly": {"type": "rule", "values": ["color-contrast", "link-in-text-block"]}}
"""All that depends on the theme."""


def web_tools() -> dict[str, str]:
    """Where Chromium and node are, as `scripts/web/install.py` found them."""
    try:
        return json.loads((WEB / "installed").read_text(encoding="utf-8"))
    except FileNotFoundError:
        pytest.fail(HINT, pytrace=False)


def computed(expression: str, *names: str) -> Any:
    """The value of an expression in the scope of these scripts, without a page."""
    source = "\n".join((PAGE / "script" / f"{name}.js").read_text(encoding="utf-8") for name in names)
    program = f"{source}\nconsole.log(JSON.stringify({expression}))"
    done = subprocess.run(
        [web_tools()["node"], "-"], input=program, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@cache
def axe() -> str:
    return (WEB / "node_modules/axe-core/axe.min.js").read_text(encoding="utf-8")


class Screen(NamedTuple):
    """How somebody looks at a page."""

    width: int = 1280
    theme: str = "light"

    @property
    def height(self) -> int:
        return 844 if self.width < 860 else 800

    def __str__(self) -> str:
        return f"{self.width}-{self.theme}"


DESK = Screen()
SCREENS = [Screen(width, theme) for width in (1280, 390, 768, 1920) for theme in ("light", "dark")]


class Tab(NamedTuple):
    """A page of its own context, and all that happened in it."""

    page: Page
    logged: list[str]
    """What stands in the console, errors of scripts included."""
    asked: list[str]
    """The addresses of all requests."""
    dialogs: list[str]

    def open(self, address: str | Path, place: str = "") -> None:
        """Open a page at one of its places, and wait until it is ready."""
        self.page.goto((address.as_uri() if isinstance(address, Path) else address) + place)
        self.wait_ready()

    def wait_ready(self) -> None:
        self.page.wait_for_selector("html[data-ready]", state="attached")

    def go(self, place: str, title: str | None = None) -> None:
        """Go to a place of the page that is open. With a title: wait until it is the heading of what is shown."""
        self.page.evaluate("place => { location.hash = place }", place)
        if title is None:
            self.page.wait_for_selector("#detail", state="hidden")
        else:
            self.page.wait_for_function("title => document.querySelector('#detail h1')?.innerText === title", arg=title)

    def press(self, *keys: str) -> None:
        for key in keys:
            self.page.keyboard.press(key)

    def text(self, selector: str = "body") -> str:
        return self.page.locator(selector).first.inner_text()

    def overflow(self) -> int:
        """How many pixels the page is wider than the window."""
        return self.page.evaluate(
            "() => Math.max(document.documentElement.scrollWidth, document.body.scrollWidth) - innerWidth"
        )

    def barriers(self, rules: Mapping[str, Any] = AXE_RULES) -> list[str]:
        """What axe finds, with the elements. It is put in by the debugger, which no policy of a page binds."""
        if not self.page.evaluate("() => 'axe' in window"):
            self.page.evaluate(axe())
        found = self.page.evaluate("rules => axe.run(document, rules).then(found => found.violations)", rules)
        return [f"{rule['id']}: {rule['help']}: {[node['html'][:160] for node in rule['nodes'][:3]]}" for rule in found]

    def faults(self, name: str, screen: Screen = DESK) -> Iterator[str]:
        """What is wrong with the page that is shown. In the dark only its colours are others."""
        if (wide := self.overflow()) > 0:
            yield f"{name}: {wide} pixels wider than the window"
        rules = COLOURS if screen.theme == "dark" else AXE_RULES
        yield from (f"{name}: {barrier}" for barrier in self.barriers(rules))

    def assert_quiet(self) -> None:
        """Nothing in the console, no dialog, and no request but that for the page."""
        assert (self.logged, self.dialogs) == ([], [])
        assert len(self.asked) == 1, self.asked


class Chromium:
    """One browser for all tests of this process."""

    def __init__(self, browser: Browser, loop: asyncio.AbstractEventLoop) -> None:
        self._browser = browser
        self._loop = loop

    @contextmanager
    def awake(self) -> Iterator[None]:
        """Talk to the browser in here, and start no event loop."""
        before = asyncio._get_running_loop()
        asyncio._set_running_loop(self._loop)
        try:
            yield
        finally:
            asyncio._set_running_loop(before)

    @contextmanager
    def aside(self) -> Iterator[None]:
        """Inside `awake`: run what has an event loop of its own."""
        asyncio._set_running_loop(None)
        try:
            yield
        finally:
            asyncio._set_running_loop(self._loop)

    def context(self, screen: Screen = DESK, **options: Any) -> BrowserContext:
        size = {"width": screen.width, "height": screen.height}
        context = self._browser.new_context(
            viewport=size,
            color_scheme=screen.theme,  # type: ignore[arg-type]
            reduced_motion="reduce",
            has_touch=screen.width < 860,
            **options,
        )
        context.set_default_timeout(PATIENCE_MS)
        return context

    def close(self) -> None:
        self._browser.close()


def new_tab(context: BrowserContext) -> Tab:
    tab = Tab(context.new_page(), [], [], [])
    tab.page.on("console", lambda message: tab.logged.append(f"{message.type}: {message.text}"))
    tab.page.on("pageerror", lambda error: tab.logged.append(f"error: {error}"))
    tab.page.on("request", lambda request: tab.asked.append(request.url))
    tab.page.on("dialog", lambda dialog: (tab.dialogs.append(dialog.message), dialog.dismiss()))
    return tab


Tabs = Callable[..., Tab]


@contextmanager
def tabs_of(chromium: Chromium) -> Iterator[Tabs]:
    """Opens tabs, each in a fresh context, which are closed at the end."""
    contexts: list[BrowserContext] = []

    def open_tab(address: str | Path | None = None, place: str = "", screen: Screen = DESK, **options: Any) -> Tab:
        contexts.append(chromium.context(screen, **options))
        tab = new_tab(contexts[-1])
        if address is not None:
            tab.open(address, place)
        return tab

    with chromium.awake():
        try:
            yield open_tab
        finally:
            for context in contexts:
                context.close()


@contextmanager
def start_chromium() -> Iterator[Chromium]:
    program = web_tools()["chromium"]
    manager = sync_playwright()
    playwright: Playwright = manager.start()
    loop = asyncio._get_running_loop()
    assert loop is not None
    try:
        browser = playwright.chromium.launch(executable_path=program, args=["--disable-gpu"])
        asyncio._set_running_loop(None)
        chromium = Chromium(browser, loop)
        yield chromium
        with chromium.awake():
            chromium.close()
    finally:
        asyncio._set_running_loop(loop)
        playwright.stop()
        asyncio._set_running_loop(None)
