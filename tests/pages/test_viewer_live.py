"""Runs that go on, in a real browser: killed, stopped, resumed and graded anew. The page that is open shows each of it,
and nobody loads it again."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from urllib.parse import urlsplit

import pytest

from tests.kit import Process, Project, case, run_folders, wait_until
from tests.pages.browsing import Tab, Tabs
from tests.server.kit import Served, children_of, serving

pytestmark = pytest.mark.slow

WAITS = """
import asyncio
from pathlib import Path

async def answer(request):
    here = Path(__file__)
    with here.with_name("asked").open("a") as stream:
        stream.write("x")
    while "wait" in str(request) and not here.with_name("go").exists():
        await asyncio.sleep(0.02)
    return "yes"
"""
CASES = [case("first", {"icontains": "yes"}), case("second", {"icontains": "no"}), case("wait", {"icontains": "yes"})]


class Slowly:
    """A project whose last case is answered when it is let go."""

    def __init__(self, project: Project) -> None:
        self.folder = project.folder
        self._project = project
        project.write("waits.py", WAITS)
        self.write(CASES)

    def write(self, cases: list[dict[str, object]], **more: object) -> None:
        target = {"name": "slow", "provider": "python", "call": "waits:answer"}
        suite = {"name": "slowly", "targets": [target], "target": "slow", "evals": cases, **more}
        self._project.write("evals.yaml", suite)

    def asked(self) -> int:
        """How many questions were sent."""
        path = self.folder / "asked"
        return path.stat().st_size if path.exists() else 0

    def let_go(self) -> None:
        (self.folder / "go").touch()


@pytest.fixture
def slowly(project: Project) -> Slowly:
    return Slowly(project)


def page_of(server: Served, run: str) -> str:
    return f"{server.url.rstrip('/')}/runs/{run}"


def wait_going(tab: Tab, *rows: str) -> None:
    tab.page.wait_for_selector("h1:has-text('Running: slowly')")
    for row in rows:
        tab.page.wait_for_selector(f".row:has-text('Question {row}')")


def wait_ended(tab: Tab, words: str) -> None:
    tab.page.wait_for_selector(f"#overview:has(#board):has-text('{words}')")


def test_a_run_that_is_killed_goes_on_from_its_page(slowly: Slowly, start: Callable[..., Process], tabs: Tabs) -> None:
    process = start("run", "evals.yaml")
    [made] = wait_until(lambda: run_folders(slowly.folder))
    wait_until(lambda: slowly.asked() == 3)
    with serving(slowly.folder) as server:
        tab = tabs(page_of(server, made.name))
        wait_going(tab, "first", "second")  # each as soon as it has ended
        process.kill()
        tab.page.wait_for_selector(f"text=rejoinder resume {made.name}")
        assert tab.page.locator(".row").count() == 2
        tab.page.click("button:has-text('Resume')")
        wait_going(tab)
        wait_until(lambda: slowly.asked() == 4)
        slowly.let_go()
        wait_ended(tab, "2 of 3")
        assert tab.page.locator(".pill", has_text="All").text_content() == "All 3"
        assert tab.logged == []
    assert slowly.asked() == 4, "only the one that was under way was asked again"


def test_a_run_of_the_queue_that_is_killed_goes_on_by_itself(slowly: Slowly, tabs: Tabs) -> None:
    with serving(slowly.folder) as server:
        run = server.server.start("evals.yaml").id
        tab = tabs(page_of(server, run))  # first that of a run that waits
        wait_going(tab, "first", "second")
        wait_until(lambda: slowly.asked() == 3)
        for child in children_of(server.process.pid):
            os.kill(child, signal.SIGKILL)
        wait_until(lambda: slowly.asked() == 4)
        slowly.let_go()
        wait_ended(tab, "2 of 3")
        assert tab.logged == []


def test_a_page_goes_on_when_its_server_was_killed_and_is_there_again(slowly: Slowly, tabs: Tabs) -> None:
    with serving(slowly.folder) as server:
        run = server.server.start("evals.yaml").id
        tab = tabs(page_of(server, run))
        wait_going(tab, "first", "second")
        server.kill()
    tab.page.wait_for_selector("text=The server does not answer.")
    with serving(slowly.folder, "--port", str(urlsplit(server.url).port)):
        slowly.let_go()
        wait_ended(tab, "2 of 3")


def test_a_page_of_a_run_that_waits_outlives_its_server(slowly: Slowly, tabs: Tabs) -> None:
    with serving(slowly.folder) as server:
        server.server.start("evals.yaml")
        run = server.server.start("evals.yaml").id
        tab = tabs(page_of(server, run))
        tab.page.wait_for_selector("h1:has-text('Queued')")
        server.kill()
    tab.page.wait_for_timeout(2_000)  # it has looked for its server once
    with serving(slowly.folder, "--port", str(urlsplit(server.url).port)):
        slowly.let_go()
        wait_ended(tab, "2 of 3")


def test_a_run_is_stopped_and_goes_on_from_its_page(slowly: Slowly, tabs: Tabs) -> None:
    slowly.write([*CASES, case("last", {"icontains": "yes"})], metadata={"threads": 1})
    with serving(slowly.folder) as server:
        tab = tabs(page_of(server, server.server.start("evals.yaml").id))
        wait_going(tab, "second")
        wait_until(lambda: slowly.asked() == 3)
        tab.page.click("text=Stop the run")
        tab.page.wait_for_selector("text=The run ends after what is being asked.")
        slowly.let_go()
        wait_ended(tab, "2 of 3")
        tab.page.click("button:has-text('Resume')")
        wait_ended(tab, "3 of 4")  # also that of a run that was stopped
        tab.page.wait_for_selector(".pill:has-text('All 4')")
        wait_ended(tab, "3 of 4")
        assert tab.page.locator("button:has-text('Resume')").count() == 0
        assert tab.logged == []
    assert slowly.asked() == 4


def test_a_run_is_graded_anew_from_its_page(slowly: Slowly, tabs: Tabs) -> None:
    slowly.let_go()
    with serving(slowly.folder) as server:
        run = server.server.start("evals.yaml").id
        server.server.wait(run)
        slowly.write([{**one, "checks": [{"icontains": "yes"}]} for one in CASES])
        tab = tabs(page_of(server, run))
        wait_ended(tab, "2 of 3")
        tab.page.click("#more")
        tab.page.click("text=Re-grade")
        tab.page.click("dialog >> text=Grade >> nth=-1")
        tab.page.wait_for_selector(f"text=Grades of {run}")
        wait_ended(tab, "3 of 3")
        assert tab.logged == []
    assert slowly.asked() == 3, "no model was asked again"


def test_a_live_page_and_the_runs_say_what_is_in_flight(slowly: Slowly, tabs: Tabs) -> None:
    with serving(slowly.folder) as server:
        tab = tabs(page_of(server, server.server.start("evals.yaml").id))
        wait_going(tab, "first", "second")
        tab.page.wait_for_selector("#flight li:only-child:has-text('wait'):has-text('slow'):has-text('turn 1')")
        before = tab.text("#flight .num")
        tab.page.wait_for_function("before => document.querySelector('#flight .num').innerText !== before", arg=before)
        tab.page.wait_for_function("document.title === '1 failed, 2 of 3: slowly'")
        assert tab.page.locator("#legend").count() == 0, "the pills say it once"
        runs = tabs(server.url)
        assert "wait" in runs.text(".flight")
        slowly.let_go()
        wait_ended(tab, "2 of 3")
        assert tab.page.title().startswith("1 failed, 2 of 3 passed (67%): slowly")
        assert tab.page.locator("#flight").count() == 0
        assert tab.logged == []


def test_a_page_without_rows_says_that_none_has_ended(slowly: Slowly, tabs: Tabs) -> None:
    slowly.write([CASES[2]])
    with serving(slowly.folder) as server:
        tab = tabs(page_of(server, server.server.start("evals.yaml").id))
        wait_going(tab)
        assert tab.text(".empty") == "No conversation has ended yet."
        slowly.let_go()
        wait_ended(tab, "1 of 1")


def test_who_reads_a_conversation_is_told_that_the_run_has_ended(slowly: Slowly, tabs: Tabs) -> None:
    """A page that were loaded again would lose the place."""
    with serving(slowly.folder) as server:
        tab = tabs(page_of(server, server.server.start("evals.yaml").id))
        wait_going(tab, "first", "second")
        tab.page.click(".row:has-text('Question first')")
        tab.page.wait_for_selector("#detail h1")
        tab.page.evaluate("() => { window.isTheFirst = true }")
        slowly.let_go()
        tab.page.wait_for_selector("#pending:has-text('The run is ended.')")
        assert tab.page.evaluate("() => window.isTheFirst")
        tab.page.click("text=Show it")
        tab.page.wait_for_selector("#detail h1")
        tab.press("Escape")
        wait_ended(tab, "2 of 3")
