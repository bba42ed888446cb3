"""Failed, flaky and error cases: one count on the terminal, in JSON, JUnit, Markdown, on the page and in lists."""

from __future__ import annotations

import csv
import re
from html import unescape
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.kit import ROOT, Project, Raw, case, run
from tests.server.kit import ask, settings

BOT = """
from pathlib import Path


def reply(request):
    word = request.messages[-1].content.split()[-1]
    place = Path("asked-" + word)
    number = int(place.read_text()) if place.exists() else 0
    place.write_text(str(number + 1))
    way = PLANS[word][number % len(PLANS[word])]
    if way == "E":
        raise RuntimeError("the bot is down")
    return "yes" if way == "." else "no"
"""


def play(project: Project, plans: dict[str, str], *arguments: str, code: int | None = None, **more: Raw) -> Raw:
    """A run whose trials go as planned: `.` passes, `F` fails, `E` ends in an error."""
    project.write("bot.py", f"PLANS = {plans!r}\n{BOT}")
    evals = [
        case(name, {"contains": "yes"}, **{"repeat": len(plan), **more.get(name, {})}) for name, plan in plans.items()
    ]
    target = {"name": "bot", "provider": "python", "call": "bot:reply"}
    return run(project, {"targets": [target], "evals": evals}, "--workers", "1", *arguments, code=code)


def last_line(project: Project) -> str:
    return project.run("show").rstrip().splitlines()[-1]


def test_a_failed_case_of_one_trial_is_not_flaky(project: Project) -> None:
    play(project, {"lucky": "..F..", "no": "F", "good": "."}, code=1, lucky={"pass": "2 of 5"})
    line = last_line(project)
    assert line.startswith("FAIL 1 of 3 cases failed (1 always, 0 flaky), 2 passed (1 flaky)"), line


def test_the_next_command_is_for_a_failed_case(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    play(project, {"lucky": "..F..", "no": "F"}, code=1, lucky={"pass": "2 of 5"})
    monkeypatch.setattr("click.testing._NamedTextIOWrapper.isatty", lambda _: True, raising=False)
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.setenv("TERM", "xterm")
    commands = [line.strip() for line in project.run("show").splitlines() if line.startswith("  rejoinder ")]
    assert "rejoinder show --case no" in commands[0] and not any("lucky" in one for one in commands)


@pytest.fixture
def mixed(project: Project) -> Raw:
    """Planted: of ten cases with three trials each, three have an error and two fail once."""
    plans = {f"c{number}": "E.." if number < 3 else ".F." if number < 5 else "..." for number in range(10)}
    return play(project, plans, code=3)


def test_cases_with_errors_are_the_same_everywhere(project: Project, mixed: Raw) -> None:
    assert mixed["summary"]["by_case"] == {"passed": 5, "failed": 2, "errors": 3, "flaky": 2}
    line = last_line(project)
    assert line.startswith("FAIL 2 of 10 cases failed (0 always, 2 flaky), 3 had errors, 5 passed"), line
    screen = project.run("show")
    assert re.search(r"^ERROR c0 +E\.\. +2 of 3 .* error$", screen, re.MULTILINE)
    assert re.search(r"^FAIL c3 +\.F\. +2 of 3 .* flaky$", screen, re.MULTILINE)
    project.run("export", "--to", "junit", "--out", "r.xml")
    head = Path("r.xml").read_text().split("<testcase")[0]
    assert 'tests="10"' in head and 'failures="2"' in head and 'errors="3"' in head
    markdown = project.run("export", "--to", "markdown")
    assert "## rejoinder: 5 of 10 cases passed (25 of 30 trials)" in markdown
    assert "> [!CAUTION]\n> 5 of 10 cases passed, 2 failed, 3 had errors (trials: " in markdown
    row = project.run_json("runs")[0]["summary"]
    assert row["by_case"] == mixed["summary"]["by_case"]
    listed = project.run("runs")
    assert "5 of 10 cases (25 of 30 trials)" in listed and "2 cases failed, 3 cases had errors" in listed


def test_the_rate_without_errors_stands_beside_the_rate(project: Project, mixed: Raw) -> None:
    found: dict[str, Any] = mixed["summary"]["without_errors"]
    assert (found["passed"], found["of"], found["cases"]) == (25, 27, 10)
    assert {"rate", "interval", "method"} <= set(found)
    words = "93% of the 27 without an error"
    assert "83% of trials (" in last_line(project) and words in last_line(project)
    assert words in project.run("export", "--to", "markdown")
    project.run("report", "--out", "r.html")
    assert words in Path("r.html").read_text()
    assert mixed["summary"]["by_target"]["bot"]["without_errors"] == found


def test_without_errors_nothing_is_said_of_them(project: Project) -> None:
    document = play(project, {"a": ".", "b": "F"}, code=1)
    assert document["summary"]["without_errors"] is None
    assert last_line(project) == "FAIL 1 failed, 1 passed of 2, 50% (9 to 91)"


def test_errors_of_the_same_words_are_counted_by_conversations(project: Project) -> None:
    """Also where the case failed for another reason, and where it passed all the same."""
    play(project, {"a": "E.", "b": "EF", "c": "..E", "d": "."}, code=3, c={"pass": "2 of 3"})
    assert re.search(r"the bot is down .* in 3 of 8 conversations", " ".join(project.run("show").split()))


def test_trials_that_were_not_started_are_counted_beside_cases(project: Project) -> None:
    play(project, {"good": "..", "no": "FF", "rest": "...."}, "--fail-fast", code=1)
    assert last_line(project) == (
        "FAIL 1 of 2 cases failed (1 always, 0 flaky), 1 passed, 5 trials not started, "
        "stopped at the first failure: no rate"
    )


def test_conversations_that_were_not_started_are_counted_where_nothing_was_tested(project: Project) -> None:
    """An address where nobody answers ends its target: the first is an error, and the others are not sent."""
    target = {"name": "bot", "provider": "http", "url": "http://127.0.0.1:1/chat", "max_retries": 0}
    evals = [case(name, {"contains": "yes"}) for name in ("one", "two", "three")]
    run(project, {"targets": [target], "evals": evals}, "--workers", "1", code=3)
    assert last_line(project) == "ERROR nothing was tested: 1 error, 2 not started of 3, no rate"


BOTS = """
def reply(request):
    word = request.messages[-1].content.split()[-1]
    way = PLANS[request.target][word][request.trial - 1]
    if way == "E":
        raise RuntimeError("the bot is down")
    return "yes" if way == "." else "no"
"""


@pytest.fixture
def two_bots(project: Project) -> Raw:
    """Five cases with three trials on each of two targets: 3 of 5 cases and 10 of 15 trials pass on one, 1 and 9 on the
    other."""
    ways = {"good": ["...", "...", "...", ".FE", "FFF"], "bad": ["...", "..F", "..F", ".F.", "EFF"]}
    plans = {name: {f"c{number}": plan for number, plan in enumerate(each)} for name, each in ways.items()}
    project.write("bots.py", f"PLANS = {plans!r}\n{BOTS}")
    targets = [{"name": name, "provider": "python", "call": "bots:reply", "max_retries": 0} for name in plans]
    evals = [case(f"c{number}", {"contains": "yes"}, repeat=3) for number in range(5)]
    return run(project, {"targets": targets, "target": ["good", "bad"], "evals": evals}, code=None)


def words_of(html: str) -> str:
    return " ".join(unescape(re.sub(r"<[^>]+>", " ", html)).split())


def test_cases_and_trials_are_named_on_every_surface(
    project: Project, two_bots: Raw, monkeypatch: pytest.MonkeyPatch
) -> None:
    summary = two_bots["summary"]
    assert summary["by_case"] == {"passed": 4, "failed": 6, "errors": 0, "flaky": 4}
    assert [one["by_case"]["passed"] for one in summary["by_target"].values()] == [3, 1]
    assert (summary["passed"], summary["total"]) == (19, 30)
    # The terminal
    screen = project.run("show")
    assert last_line(project).startswith("FAIL 6 of 10 cases failed (2 always, 4 flaky), 4 passed: good 2, bad 4")
    table = [" ".join(line.split()) for line in screen.splitlines()]
    assert any(line.startswith("target cases passed trials passed") for line in table), screen
    assert any(line.startswith("good 3 of 5 10 of 15 67%") for line in table), screen
    assert any(line.startswith("bad 1 of 5 9 of 15 60%") for line in table), screen
    # Markdown
    markdown = project.run("export", "--to", "markdown")
    assert markdown.startswith(
        "## rejoinder: `good` passed 3 of 5 cases, `bad` 1 of 5 cases, 2 trials ended in an error."
    )
    assert "> 4 of 10 cases passed, 6 failed, 0 had errors (trials: 19 passed on the first try" in markdown
    assert "| `good` | 3 of 5 cases, 10 of 15 trials, 67% of trials (" in markdown
    assert "| `bad` | 1 of 5 cases, 9 of 15 trials, 60% of trials (" in markdown
    # The action
    monkeypatch.setenv("GITHUB_OUTPUT", "outputs")
    project.run("ci")
    outputs = dict(line.split("=", 1) for line in Path("outputs").read_text().splitlines())
    names = ("cases", "cases_passed", "cases_failed", "cases_with_errors", "total", "passed")
    assert [outputs[name] for name in names] == ["10", "4", "6", "0", "30", "19"]
    declared = yaml.safe_load((ROOT / "action.yml").read_text())["outputs"]
    assert set(outputs) <= set(declared)
    # Lists of runs
    assert "4 of 10 cases (19 of 30 trials)" in project.run("runs")
    assert "6 cases failed" in project.run("runs")
    [row] = csv.DictReader(project.run("runs", "--format", "csv").splitlines())
    assert [row[name] for name in ("passed", "cases_passed", "cases_failed", "cases_errors")] == ["19", "4", "6", "0"]
    # Pages
    listed = words_of(ask(settings(project.folder), "GET", "/").text)
    assert "4 of 10 cases (19 of 30 trials) passed, 6 cases failed" in listed
    assert listed.count("4 of 10 cases (19 of 30 trials)") == 2, "the last run in a sentence, and its row"
    project.run("report", "--out", "r.html")
    page = words_of(Path("r.html").read_text())
    assert "6 cases failed, 4 of 10 cases passed: evals.yaml" in page, "the title of the window"
    assert "4 of 10 cases passed, 19 of 30 trials on 2 targets." in page
    assert "good First try 10 Failed 4 Errors 1 trials" in page and "bad First try 9 Failed 5 Errors 1 trials" in page
    # Exports by cases
    project.run("export", "--to", "junit", "--out", "r.xml")
    assert 'tests="10"' in Path("r.xml").read_text().split("<testcase")[0]
    assert "cases_passed: 4 of 10 cases" in project.run("export", "--to", "toon")


def test_the_rate_of_one_target_says_that_it_is_of_trials(project: Project) -> None:
    play(project, {f"c{number}": "..F" if number < 3 else "..." for number in range(10)}, code=1)
    assert "90% of trials (" in last_line(project)
    assert "90% of trials" in project.run("runs")
    listed = words_of(ask(settings(project.folder), "GET", "/").text)
    assert re.search(r"90% of trials \([^)]+\) passed, 7 of 10 cases \(27 of 30 trials\), 3 cases failed", listed), (
        listed
    )
    project.run("report", "--out", "r.html")
    page = words_of(Path("r.html").read_text())
    assert "3 cases failed, 7 of 10 cases passed (90% of trials): " in page
    assert re.search(r"90 ?% of trials passed \d", page)
    assert re.search(r"\d of \d+ cases, \d+ of \d+ trials, \d+% of trials", project.run("export", "--to", "markdown"))
