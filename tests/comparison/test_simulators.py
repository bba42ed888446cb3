"""The same cases with another simulated user: how far the result hangs on it."""

from __future__ import annotations

from typing import Any

from tests.kit import Project, Raw, scripted


def suite(user: str) -> Raw:
    def one(number: int) -> Raw:
        told: dict[str, Any] = {"persona": "a buyer", "goal": "a shirt", "target": user, "stop": "DONE"}
        return {
            "id": f"shirt-{number}",
            "user": {**told, "opening": "I want a shirt."},
            "checks": [{"equals": "Sent!"}],
        }

    return {
        "targets": [
            scripted("shop", "Which size?", "Sent!"),
            scripted("clear", "Large.", "DONE"),
            scripted("mumbling", "DONE"),
            scripted("leaking", "Sent!", "DONE"),
        ],
        "target": "shop",
        "evals": [one(number) for number in range(6)],
    }


def compared(project: Project, *users: str) -> Raw:
    for user in users:
        project.write("evals.yaml", suite(user))
        project.run("run", code=None)
    return project.run_json("compare", code=None)


def test_another_simulator_is_named_and_its_cases_match(project: Project) -> None:
    found = compared(project, "clear", "mumbling")
    assert (found["matched"], found["only_in_a"], found["only_in_b"]) == (6, [], [])
    assert "simulated user of evals.yaml: clear and mumbling" in found["changed"]
    assert found["eventual"]["difference"] == -1.0
    assert found["verdict"] == "worse"


def test_the_same_simulator_is_no_change(project: Project) -> None:
    assert not any("simulated" in one for one in compared(project, "clear", "clear")["changed"])


def test_a_simulator_that_spoils_is_told_and_nothing_passes_in_silence(project: Project) -> None:
    found = compared(project, "clear", "leaking")
    assert any("0 of 6 and 6 of 6" in one for one in found["changed"])
    assert (found["matched"], len(found["only_in_a"])) == (0, 6)
    shown = project.run("run", code=3)
    assert shown.splitlines()[-1] == "ERROR nothing was measured: 6 conversations spoilt, no rate"
    assert "spoilt: 6 of 6 (leak 6), counted apart" in shown
    assert "in quarantine" not in shown
