"""A FastAPI app with a database and an async client: tested with pytest-xdist, and by `arun` in one event loop."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

import rejoinder
from rejoinder import Pace
from tests.kit import Project, case, run_folders, spec
from tests.pytest_plugin import shop
from tests.pytest_plugin.session_kit import junit, pytest_in

pytestmark = pytest.mark.slow

DAYS = {"shoes": 30, "books": 14, "hats": 7, "socks": 30}
"""The shop does not know socks."""
SUITE = {
    "evals": [
        case(item, {"contains": f"{days} days"}, prompt=f"Can I return the {item}?") for item, days in DAYS.items()
    ]
}
TESTS = """
import pytest
from shop import bot_in
from rejoinder.testing import assert_passed, assert_rate, cases

@pytest.fixture
def anyio_backend():
    return "asyncio"

@pytest.fixture
async def shop(tmp_path):
    async with bot_in(tmp_path) as opened:
        yield opened

@pytest.mark.anyio
@cases("shop.yaml")
async def test_case(rejoinder, shop, case):
    bot, database = shop
    assert_passed(await rejoinder.arun(case, target=bot))
    assert database.execute("SELECT item FROM asked").fetchall() == [(case.id,)]

@pytest.mark.anyio
async def test_rate(rejoinder, shop):
    bot, database = shop
    assert_rate(await rejoinder.arun("shop.yaml", target=bot, repeat=3), at_least=0.7)
    assert len(database.execute("SELECT item FROM asked").fetchall()) == 12
"""


@spec("3B")
def test_an_app_of_fixtures_is_tested_by_four_workers(project: Project) -> None:
    project.write("shop.yaml", SUITE)
    project.write("shop.py", Path(shop.__file__).read_text(encoding="utf-8"))
    project.write("test_shop.py", TESTS)
    done = pytest_in(project, "-p", "anyio", "-n", "4", "--junitxml", "junit.xml", on=False)
    names = {f"test_shop.py::test_case[{item}]": "FAILED" if item == "socks" else "PASSED" for item in DAYS}
    assert done.outcomes == {**names, "test_shop.py::test_rate": "PASSED"}, done.text
    assert 'contains "30 days": the reply does not contain it' in done.text and "I do not know." in done.text
    assert len(run_folders(project.folder)) == 5
    runs = {
        one.get("value")
        for one in junit(project.folder / "junit.xml").iter("property")
        if "run" in str(one.get("name"))
    }
    assert runs == {folder.name for folder in run_folders(project.folder)}


@spec("3B")
def test_an_app_is_tested_by_arun_in_one_event_loop(project: Project) -> None:
    project.write("shop.yaml", SUITE)
    loops: set[asyncio.AbstractEventLoop] = set()

    async def play() -> tuple[list[rejoinder.RunReport], int]:
        async with shop.bot_in(project.folder) as (bot, database):

            async def noted(request: rejoinder.Request) -> str:
                loops.add(asyncio.get_running_loop())
                return await bot(request)

            runs = (rejoinder.arun("shop.yaml", target=noted, repeat=5, pace=Pace(workers=8)) for _ in range(2))
            reports = await asyncio.gather(*runs)
            loops.add(asyncio.get_running_loop())
            return reports, len(database.execute("SELECT item FROM asked").fetchall())

    reports, asked = asyncio.run(play())
    assert len(loops) == 1 and asked == 40
    assert len({report.id for report in reports}) == 2
    for report in reports:
        assert (report.run.status, report.summary.passed, report.summary.failed) == ("completed", 15, 5)
        assert [one.status for one in report.cases] == ["passed", "passed", "passed", "failed"]
