"""Sharded tasks that were put in several ways: a rate of each way, and none of all."""

from __future__ import annotations

import pytest

from rejoinder.stats.intervals import wilson
from tests.kit import Project, Raw

BOT = """
def answer(request):
    task = int(request.messages[0].content.split()[0])
    return "yes" if task >= {"full": 2, "sharded": 6}[request.case_id.rpartition("/")[2]] else "no"

def right(request):
    return "yes"
"""
SHOWN = "full 80% (49 to 94), sharded 40% (17 to 69)"


def suite(*conditions: str, tasks: int = 10, **more: object) -> Raw:
    def task(number: int) -> Raw:
        pieces = [f"{number} is a number.", "Say yes."]
        shards = {"task": f"{number} is a number. Say yes.", "pieces": pieces, "conditions": list(conditions)}
        return {"id": f"t{number}", "shards": shards, "checks": [{"metric": "words", "match": "yes"}]}

    targets = [{"name": name, "provider": "python", "call": f"bot:{name}"} for name in ("answer", "right")]
    return {"targets": targets, "target": "answer", "evals": [task(number) for number in range(tasks)], **more}


@pytest.fixture
def tasks(project: Project) -> Project:
    project.write("bot.py", BOT)
    project.write("evals.yaml", suite("full", "sharded"))
    return project


def test_ways_to_put_a_task_have_no_common_rate(tasks: Project) -> None:
    summary = tasks.run_json("run", "evals.yaml", code=1)["summary"]
    assert (summary["pass_rate"], summary["no_rate"], summary["rates"]) == (None, "several-conditions", None)
    rates = {name: one["rate"] for name, one in summary["by_condition"].items()}
    assert {name: (one["passed"], one["of"], one["cases"]) for name, one in rates.items()} == {
        "full": (8, 10, 10),
        "sharded": (4, 10, 10),
    }
    assert rates["full"]["interval"] == pytest.approx(wilson(8, 10))
    assert (summary["by_target"]["answer"]["pass_rate"], summary["by_target"]["answer"]["no_rate"]) == (
        None,
        "several-conditions",
    )
    assert summary["metrics"]["words"]["cases"] == 10, "a task is one case, in however many ways it was put"


def test_every_report_has_the_rate_of_each_way(tasks: Project) -> None:
    text = tasks.run("run", "evals.yaml", code=1)
    assert text.splitlines()[-1] == f"FAIL 8 failed, 12 passed of 20, {SHOWN}"
    assert "60%" not in text
    verbose = tasks.run("show", "--verbose", code=None)
    assert "pass rate" not in verbose
    assert "full: 80% (49 to 94)" in verbose
    markdown = tasks.run("export", "--to", "markdown")
    assert "| full | 8 of 10 | 80% | 49 to 94% |" in markdown
    assert "60%" not in markdown
    tasks.run("report", "--out", "report.html")
    page = (tasks.folder / "report.html").read_text(encoding="utf-8")
    assert f"Several ways to put tasks have no common rate: {SHOWN}." in page
    assert "Full: 80%, 8 of 10" in page


def test_each_target_has_a_rate_of_each_way(tasks: Project) -> None:
    tasks.write("evals.yaml", suite("full", "sharded", target="answer"))
    summary = tasks.run_json("run", "evals.yaml", "--target", "answer", "--target", "right", code=None)["summary"]
    assert summary["no_rate"] == "several-targets"
    assert {name: one["no_rate"] for name, one in summary["by_target"].items()} == {
        "answer": "several-conditions",
        "right": "several-conditions",
    }
    markdown = tasks.run("export", "--to", "markdown")
    assert "| `answer` | sharded | 4 of 10 | 40% | 17 to 69% |" in markdown
    assert "| `right` | sharded | 10 of 10 | 100% | 72 to 100% |" in markdown


def test_one_way_alone_is_the_rate_of_the_run(tasks: Project) -> None:
    tasks.write("evals.yaml", suite("sharded"))
    summary = tasks.run_json("run", "evals.yaml", code=1)["summary"]
    assert (summary["pass_rate"], summary["no_rate"]) == (0.4, None)
    assert tasks.run("show", code=None).splitlines()[-1].endswith("6 failed, 4 passed of 10, 40% (17 to 69)")
