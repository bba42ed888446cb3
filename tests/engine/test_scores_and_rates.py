"""Scores beside rates: two figures of the same checks do not contradict each other."""

from __future__ import annotations

import pytest

from tests.kit import Project, Raw

BOT = """
def reply(request):
    return "yes" if int(request.case_id[1:]) + request.trial > 3 else "no"
"""


def played(project: Project, cases: int, repeat: int, *checks: Raw) -> Raw:
    project.write("bot.py", BOT)
    evals = [{"id": f"c{n}", "prompt": "Say yes.", "checks": list(checks)} for n in range(cases)]
    targets = [{"name": "bot", "provider": "python", "call": "bot:reply"}]
    project.write("evals.yaml", {"targets": targets, "target": "bot", "evals": evals})
    return project.run_json("run", "--repeat", str(repeat), code=None)["summary"]


@pytest.mark.parametrize("repeat", [1, 3])
def test_scores_of_passes_and_failures_have_the_interval_of_the_rate(project: Project, repeat: int) -> None:
    summary = played(project, 8, repeat, {"equals": "yes"})
    rate = summary["rates"]["eventual"]
    assert summary["score"]["mean"] == pytest.approx(rate["rate"])
    assert summary["score"]["interval"] == pytest.approx(rate["interval"])
    assert summary["score"]["method"] == rate["method"]


def test_two_cases_have_a_mean_score_and_no_interval(project: Project) -> None:
    summary = played(project, 2, 2, {"equals": "yes"})
    assert summary["score"]["mean"] is not None
    assert summary["score"].get("interval") is None


def test_numbers_beside_a_rate_are_that_rates(project: Project) -> None:
    """pass^3 of three trials is a number of cases; pass^2 is not, where a case passed two of three."""
    repeats = played(project, 8, 3, {"equals": "yes"})["repeats"]
    whole = repeats["pass_hat_k"]
    assert (whole["rate"], whole["passed"], whole["of"], whole["cases"], whole["trials"]) == (5 / 8, 5, 8, 8, 24)
    for row in repeats["by_k"]:
        for name in ("pass_hat_k", "pass_at_k"):
            one = row[name]
            assert set(one) >= {"rate", "passed", "of", "cases", "interval", "method"}
            assert one["passed"] is None or one["rate"] == pytest.approx(one["passed"] / one["of"])
    assert repeats["by_k"][1]["pass_hat_k"]["passed"] is None


def test_doubts_are_not_called_answers_back(project: Project) -> None:
    project.write("bot.py", BOT)
    evals = [
        {"id": f"c{n}", "prompt": "Say yes.", "ready_followups": "doubt", "checks": [{"equals": "yes"}]}
        for n in range(10)
    ]
    targets = [{"name": "bot", "provider": "python", "call": "bot:reply"}]
    project.write("evals.yaml", {"targets": targets, "target": "bot", "evals": evals})
    text = project.run("run", "--repeat", "3", code=None)
    assert "wrong to right: 0 of 6, 0%" in text
    verbose = project.run("show", "--verbose", code=None)
    project.run("report", "--out", "report.html")
    page = (project.folder / "report.html").read_text(encoding="utf-8")
    for shown in (text, verbose, page):
        assert "answered back" not in shown
        assert "net recovery" not in shown.lower()
        assert "if it listens" not in shown
