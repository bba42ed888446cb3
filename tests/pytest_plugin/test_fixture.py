"""The fixture `rejoinder`, and cases as parameters, in sessions of their own."""

from __future__ import annotations

import pytest

from tests.kit import Project, case, run_folders, spec
from tests.pytest_plugin.session_kit import BAD, GOOD, junit, pytest_in, suite

pytestmark = pytest.mark.slow

BOT = '''
import http.server, json, threading
from pathlib import Path
import pytest
from rejoinder.testing import assert_passed, assert_rate, cases

class Handler(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        body = json.dumps({"reply": self.server.answer(asked["message"])}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass

@pytest.fixture
def bot(tmp_path, monkeypatch):
    """A bot of this process, with a database that the test can look at."""
    asked = []
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.answer = lambda message: asked.append(message) or "15 * 7 = 105"
    monkeypatch.setenv("BOT_URL", f"http://127.0.0.1:{server.server_port}/chat")
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield asked
    server.shutdown()
    server.server_close()
    thread.join()
'''
TESTS = (
    BOT
    + """
def test_bot(rejoinder, bot):
    report = rejoinder.run("evals.yaml", repeat=2)
    assert_rate(report, at_least=1)
    assert len(bot) == 2

def test_bad(rejoinder, bot):
    assert_passed(rejoinder.run("bad.yaml"))

@cases("evals.yaml")
def test_each(rejoinder, bot, case):
    assert_passed(rejoinder.run(case))
"""
)
TARGET = {"name": "bot", "provider": "http", "url": "${{ BOT_URL }}", "body": {"message": "{{ prompt }}"}}


def write(project: Project) -> None:
    http = {**TARGET, "reply_path": "$.reply"}
    project.write("test_bot.py", TESTS)
    project.write("evals.yaml", suite(case("one", GOOD), targets=[http], target="bot"))
    project.write("bad.yaml", suite(case("bad", BAD), targets=[http], target="bot"))


@spec("3B")
@pytest.mark.parametrize("workers", [(), ("-n", "3")])
def test_a_bot_of_a_fixture_is_tested(project: Project, workers: tuple[str, ...]) -> None:
    write(project)
    done = pytest_in(project, *workers, "--junitxml", "junit.xml", on=False, BOT_URL="http://127.0.0.1:9")
    assert done.outcomes == {
        "test_bot.py::test_bot": "PASSED",
        "test_bot.py::test_bad": "FAILED",
        "test_bot.py::test_each[one]": "PASSED",
    }, done.text
    assert 'contains "106": the reply does not contain it' in done.text
    assert len(run_folders(project.folder)) == 3
    tests = {one.get("name"): one for one in junit(project.folder / "junit.xml").iter("testcase")}
    properties = {one.get("name"): one.get("value") for one in tests["test_bot"].iter("property")}
    assert list(properties) == ["rejoinder.run", "rejoinder.pass_rate", "rejoinder.ci_low", "rejoinder.ci_high"]
    assert properties["rejoinder.pass_rate"] == "1"


def test_cases_are_those_of_a_mapping_a_suite_or_several(project: Project) -> None:
    project.write("evals.yaml", suite(case("one", GOOD)))
    project.write(
        "test_given.py",
        "import rejoinder\n"
        "from rejoinder.testing import assert_passed, cases\n"
        f"MAPPING = {suite(case('two', GOOD), name='mapped')!r}\n"
        "@cases([MAPPING, 'evals.yaml', rejoinder.load(MAPPING)])\n"
        "def test_each(rejoinder, case):\n"
        "    assert_passed(rejoinder.run(case))\n"
        "@cases(MAPPING)\n"
        "def test_one(rejoinder, case):\n"
        "    assert_passed(rejoinder.run(case))\n",
    )
    names = ("test_each[two]", "test_each[one]", "test_each[two#2]", "test_one[two]")
    assert pytest_in(project, on=False).outcomes == {f"test_given.py::{name}": "PASSED" for name in names}


FAILING = """
import pytest
from rejoinder import testing
CALLS = {
    "passed": lambda report: testing.assert_passed(report),
    "result": lambda report: testing.assert_passed(report.results[1]),
    "rate": lambda report: testing.assert_rate(report, at_least=0.9),
    "first": lambda report: testing.assert_rate(report, at_least=0.9, of="first_try", surely=True),
    "share": lambda report: testing.assert_rate(report, at_least=90),
    "target": lambda report: testing.assert_rate(report, at_least=0.9, target="nobody"),
    "worse": lambda report: testing.assert_no_worse(report, report, cannot_tell="fail"),
    "above": lambda report: testing.assert_rate_above(report, 0.9),
    "below": lambda report: testing.assert_rate_below(report, 0.1),
    "count": lambda report: testing.assert_passed_count(report, 7),
    "failed": lambda report: testing.assert_failed_count(report, 7),
}
@pytest.mark.parametrize("name", CALLS)
def test_it(rejoinder, name):
    CALLS[name](rejoinder.run("evals.yaml"))
"""


def test_a_failed_assertion_shows_its_words_and_none_of_our_code(project: Project) -> None:
    project.write("evals.yaml", suite(case("one", GOOD), case("two", BAD)))
    project.write("test_failing.py", FAILING)
    done = pytest_in(project, on=False)
    assert set(done.outcomes.values()) == {"FAILED"} and len(done.outcomes) == 11, done.text
    assert "AssertionError: final pass rate 50%" in done.text
    assert "assertions.py" not in done.text and "matchers.py" not in done.text
    assert "assertions.py" in pytest_in(project, "--full-trace", "-k", "above", on=False).text


def test_arun_runs_on_the_loop_of_the_test(project: Project) -> None:
    project.write("evals.yaml", suite(case("one", GOOD)))
    project.write(
        "test_arun.py",
        "import asyncio\n"
        "def test_arun(rejoinder):\n"
        "    loops = []\n"
        "    async def bot(request):\n"
        "        loops.append(asyncio.get_running_loop())\n"
        "        return '105'\n"
        "    async def play():\n"
        "        report = await rejoinder.arun('evals.yaml', target=bot)\n"
        "        assert report.summary.passed == 1 and loops == [asyncio.get_running_loop()]\n"
        "    asyncio.run(play())\n"
        "    assert len(rejoinder.reports) == 1\n",
    )
    assert pytest_in(project, on=False).outcomes == {"test_arun.py::test_arun": "PASSED"}
