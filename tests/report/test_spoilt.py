"""What simulated users spoilt is in no rate; beside the rate stands what it could have been."""

from __future__ import annotations

from tests.kit import Project, Raw

BESIDE = "50 to 80% if the 6 invalid conversations failed or passed"


def suite(passed: int, failed: int, leaked: int) -> Raw:
    """A shop that sends a shirt, or does not, or that its user tells what to say."""
    kinds = ["passed"] * passed + ["failed"] * failed + ["leaked"] * leaked
    shop = {"passed": "Sent!", "failed": "Sold out.", "leaked": "Sold out."}
    buyer = {"passed": "Large.", "failed": "Large.", "leaked": "Sent!"}
    names = {f"{kind}-{number}": kind for number, kind in enumerate(kinds)}
    user = {"persona": "a buyer", "goal": "a shirt", "target": "buyer", "stop": "DONE", "opening": "I want a shirt."}
    return {
        "targets": [
            {"name": "shop", "provider": "scripted", "replies": {one: ["Size?", shop[names[one]]] for one in names}},
            {"name": "buyer", "provider": "scripted", "replies": {one: [buyer[names[one]], "DONE"] for one in names}},
        ],
        "target": "shop",
        "evals": [{"id": name, "user": user, "checks": [{"equals": "Sent!"}]} for name in names],
    }


def test_bounds_of_what_was_spoilt_stand_beside_the_rate(project: Project) -> None:
    project.write("evals.yaml", suite(10, 4, 6))
    text = project.run("run", code=3)
    assert (
        text.splitlines()[-1].partition(" ")[2]
        == f"4 failed, 10 passed of 14, 6 cases not measured, 71% (45 to 88), {BESIDE}"
    )
    summary = project.run_json("show", code=None)["summary"]
    assert summary["spoilt"]["bounds"] == [0.5, 0.8]
    assert summary["by_target"]["shop"]["spoilt"]["bounds"] == [0.5, 0.8]
    assert BESIDE in project.run("show", "--verbose", code=None)
    assert BESIDE in project.run("export", "--to", "markdown")
    project.run("report", "--out", "report.html")
    assert f"It would be {BESIDE}." in (project.folder / "report.html").read_text(encoding="utf-8")


def test_without_a_spoilt_conversation_there_are_no_bounds(project: Project) -> None:
    project.write("evals.yaml", suite(3, 1, 0))
    assert project.run_json("run", code=1)["summary"]["spoilt"]["bounds"] is None
    assert "failed or passed" not in project.run("show", code=None)


def test_where_all_was_spoilt_every_rate_is_possible(project: Project) -> None:
    project.write("evals.yaml", suite(0, 0, 3))
    assert project.run_json("run", code=3)["summary"]["spoilt"]["bounds"] == [0.0, 1.0]
    assert project.run("show", code=None).splitlines()[-1].endswith("3 conversations invalid, no rate")
