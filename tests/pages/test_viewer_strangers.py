"""The real server beside strangers: another site in the same browser, and a large run."""

from __future__ import annotations

import http.client
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from starlette.routing import BaseRoute, Route

from rejoinder.server.app import make_app
from rejoinder.server.damage import QUICKLY
from rejoinder.server.settings import Settings
from tests.kit import Project, case, run_folders, scripted
from tests.pages.browsing import Chromium, Tabs
from tests.pages.kit import Desk
from tests.server.kit import Served, serving

ATTACK = (Path(__file__).parent / "data" / "attack.html").read_text(encoding="utf-8")


@pytest.fixture
def served(desk: Desk) -> Iterator[Served]:
    with serving(desk.folder) as found:
        yield found


# Host and Origin


def every_path(folder: Path) -> list[tuple[str, str]]:
    """All routes of the application with names in their places, and some that it does not have."""
    routes: list[BaseRoute] = make_app(Settings(root=folder)).routes
    found: list[tuple[str, str]] = []
    for route in routes:
        assert isinstance(route, Route), "a mount would need its own paths here"
        path = re.sub(r"\{[^}]*\}", "20200101-000000-aaaa", route.path)
        found += [(method, path) for method in sorted(route.methods or {"GET"}) if method != "HEAD"]
    return [*found, ("GET", "/no/such/page"), ("POST", "/no/such/page"), ("GET", "/favicon.ico"), ("OPTIONS", "/")]


def answer(url: str, method: str, path: str, headers: dict[str, str]) -> int:
    """The status of a request whose Host is named here alone."""
    place = urlsplit(url)
    connection = http.client.HTTPConnection(place.hostname or "", place.port, timeout=30)
    try:
        connection.putrequest(method, path, skip_host="Host" in headers)
        for name, value in {"Content-Length": "2", "Content-Type": "application/json", **headers}.items():
            connection.putheader(name, value)
        connection.endheaders(b"{}")
        return connection.getresponse().status
    finally:
        connection.close()


def test_every_path_refuses_another_host_and_another_origin(desk: Desk, served: Served) -> None:
    port = urlsplit(served.url).port
    paths = every_path(desk.folder)
    assert len(paths) > 30
    for method, path in paths:
        assert answer(served.url, method, path, {"Host": f"evil.example:{port}"}) == 421, (method, path)
        assert answer(served.url, method, path, {"Origin": "http://evil.example"}) == 403, (method, path)


# Another site in the same browser


@contextmanager
def another_site(page: str) -> Iterator[str]:
    """A web server of somebody else, on another port of this machine: the same site to a browser, another origin."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/html; charset=utf-8")
            self.end_headers()
            self.wfile.write(page.encode())

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def test_another_site_reads_nothing_and_starts_nothing(desk: Desk, served: Served, tabs: Tabs) -> None:
    before = run_folders(desk.folder)
    with another_site(ATTACK.replace("VICTIM", served.url.rstrip("/")).replace("RUN", desk.a.run.id)) as site:
        tab = tabs()
        tab.page.goto(site)
        tab.page.wait_for_function("() => window.done", timeout=60_000)
        assert tab.page.evaluate("() => window.got") == []
        assert all(
            frame.url in (site, "about:blank") or "service-desk" not in frame.content() for frame in tab.page.frames
        )
    assert run_folders(desk.folder) == before
    assert not list((desk.folder / ".rejoinder").glob("queue/*.json"))
    tab.open(served.url)  # what a person opens is shown
    assert "service-desk" in tab.text()


# Large runs


@pytest.mark.slow
def test_a_large_run_comes_in_pages_and_is_told_that_it_was_verified(
    project: Project, browser: Chromium, tabs: Tabs
) -> None:
    """As many rows as fit are asked for and shown, wherever somebody looks, while the run is verified: the page is not
    loaded again for that."""
    total = 3_000
    cases = [case(f"case-{number:02}", {"icontains": "yes" if number % 3 else "no"}) for number in range(60)]
    project.write("evals.yaml", {"targets": [scripted("bot", "yes " * 500)], "target": "bot", "evals": cases})
    with browser.aside():
        project.run("run", "evals.yaml", "--repeat", "50", code=1)
    [made] = run_folders(project.folder)
    assert sum((made / name).stat().st_size for name in ("results.jsonl", "journal.jsonl")) > QUICKLY
    with serving(project.folder) as server:
        tab = tabs(f"{server.url.rstrip('/')}/runs/{made.name}")
        tab.page.evaluate("() => { window.isTheFirst = true }")
        tab.page.wait_for_function(
            f"() => document.querySelector('#rows .row')?.getAttribute('aria-setsize') === '{total}'"
        )
        tab.press("/", "Escape", "End")
        tab.page.wait_for_selector(f"#r{total - 1}", state="attached")
        assert tab.page.locator("#rows .row").count() <= 60
        tab.press("Home", "Enter")
        tab.page.wait_for_selector("#detail h1")
        tab.press("Escape")
        tab.page.fill("#q", "case-59")
        tab.page.wait_for_function("() => document.querySelector('#rows .row')?.getAttribute('aria-setsize') === '50'")
        assert tab.page.evaluate("() => document.querySelectorAll('body *').length") < 2_500
        asked = [urlsplit(address).path for address in tab.asked if "/data/" in address]
        assert len(asked) < 40, asked
        tab.page.wait_for_selector("#pending:has-text('The run is verified')")
        assert tab.page.input_value("#q") == "case-59"
        assert tab.page.evaluate("() => window.isTheFirst")
        assert tab.logged == []


def test_a_server_that_only_shows_refuses_every_change(desk: Desk) -> None:
    with serving(desk.folder, "--read-only") as server:
        changes = [(method, path) for method, path in every_path(desk.folder) if method in ("POST", "PUT", "DELETE")]
        refused = {(method, path): answer(server.url, method, path, {}) for method, path in changes}
    assert set(refused.values()) <= {403, 404, 405}, refused
    assert list(refused.values()).count(403) >= 6
