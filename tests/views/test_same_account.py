"""What the window, the list, `show -v`, `verify` and `compare` say of a run: no two of them contradict each other."""

from __future__ import annotations

import re

import pytest
from msgspec import structs

from rejoinder.model.runs import RunStatus
from rejoinder.report import html
from rejoinder.report.comparison import write_comparison
from rejoinder.report.ending import Extras, write_ending
from rejoinder.report.page.comparison import comparison_overview
from rejoinder.report.styled import PLAIN, Form, plain_text
from rejoinder.views.run import view_run
from tests.comparison.sides import compared, one
from tests.kit import Project
from tests.report.exports import made_run
from tests.views import surfaces
from tests.views.boards import one as ended
from tests.views.boards import run_of


@pytest.mark.parametrize(
    ("status", "start"),
    [
        ("completed", "1 failed, "),
        ("interrupted", "Interrupted, 1 failed, "),
        ("budget", "Budget reached, 1 failed, "),
        ("killed", "Killed, 1 failed, "),
    ],
)
def test_the_title_of_a_window_says_how_the_run_ended(project: Project, status: RunStatus, start: str) -> None:
    run = run_of({"bot": "ffffl"}, status=status)
    [title] = re.findall("<title>(.*?)</title>", "".join(html.write(run)))
    assert title.startswith(f"{start}4 of 5 passed")
    if status != "killed":  # the viewer knows such a run by its journal only
        surfaces.stored(run, project.folder)
        assert f"<title>{start}4 of 5 passed" in surfaces.asked(run, project.folder)


def test_the_title_of_a_killed_run_says_so_in_the_viewer(project: Project) -> None:
    run = run_of({"bot": "ffffl"}, status="running")
    surfaces.stored(run, project.folder)
    [title] = re.findall("<title>(.*?)</title>", surfaces.asked(run, project.folder))
    assert title.startswith("Killed, ")


@pytest.mark.parametrize("status", ["killed", "running"])
def test_nothing_is_said_of_a_time_that_nobody_measured(status: RunStatus) -> None:
    run = run_of({"bot": "ffffl"}, status=status)
    unmeasured = structs.replace(run, summary=structs.replace(run.summary, duration_s=0.0))
    assert "took" in view_run(run).facts
    assert "took" not in view_run(unmeasured).facts
    assert "0 ms" not in surfaces.plain(unmeasured).whole


def figures_of(run: surfaces.MadeRun) -> dict[str, str]:
    """The lines of `show -v` by their labels."""
    lines = [plain_text(row) for row in write_ending(run, (), PLAIN, Extras(figures=True))]
    found = (re.fullmatch(r"  (\S[\w ]{0,9}?) {1,10}(\S.*)", line) for line in lines)
    return {one[1].strip(): one[2] for one in found if one is not None}


def test_with_repeats_the_result_of_show_counts_trials_and_says_so() -> None:
    ways = {"c0": "fffr", "c1": "llll"}
    run = made_run([ended(way, case, trial=n) for case, each in ways.items() for n, way in enumerate(each, 1)])
    assert figures_of(run)["result"].startswith("4 trials passed (3 on the first try, 1 recovered), 4 failed")
    assert figures_of(run_of({"bot": "ffl"}))["result"].startswith("2 passed")


def test_a_target_of_errors_only_has_no_rate_over_repeats_either() -> None:
    ways = {"good": "fff", "dead": "eee"}
    run = made_run([ended(way, "c0", name, trial=n) for name, each in ways.items() for n, way in enumerate(each, 1)])
    shown = [plain_text(row) for row in write_ending(run, (), PLAIN, Extras(figures=True))]
    [told] = [line.strip() for line in shown if "dead: " in line and ("pass^" in line or "no rate" in line)]
    assert told == "dead: no rate: 3 of 3 had an error"


def test_a_count_stands_beside_a_rate_only_if_it_is_that_rate() -> None:
    """A case of four trials and one of two: five of six trials are 83%, the mean over cases is 75%."""
    a = [*(one("x", "p", n) for n in range(1, 5)), one("y", "p", 1), one("y", "f", 2)]
    found = compared(a, a)
    for form in (PLAIN, Form(width=120, symbols=True)):
        text = "\n".join(plain_text(row) for row in write_comparison(found, form))
        assert "75%" in text
        assert "5 of 6" not in text
    assert "5 of 6" not in str(comparison_overview(found).html)
    even = compared({"x": "pp", "y": "pf"}, {"x": "pp", "y": "pf"})
    text = "\n".join(plain_text(row) for row in write_comparison(even, PLAIN))
    assert "3 of 4" in text and "75%" in text


def test_a_side_without_a_rate_has_no_difference() -> None:
    a = [one(f"c{n}", "p" if n else "f") for n in range(4)]
    b = [one(f"c{n}", "e") for n in range(4)]
    found = compared(a, b)
    assert found.eventual.difference == -0.75, "the document keeps what was computed"
    for form in (PLAIN, Form(width=120, symbols=True)):
        text = "\n".join(plain_text(row) for row in write_comparison(found, form))
        assert "no rate" in text and "B has no rate, all 4 had an error" in text
        assert "-75" not in text
    assert "-75" not in str(comparison_overview(found).html)
