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
    assert (found["matched"], found["only_in_a"], found["left_out"]) == (0, [], [])
    assert found["verdict"] == "cannot-tell"
    assert found["eventual"]["unmeasured"] == [None, {"conversations": 6, "bounds": [0.0, 1.0]}]
    last = project.run("compare").splitlines()[-1]
    assert "B 0 to 100% if the 6 invalid conversations failed or passed" in last
    shown = project.run("run", code=3)
    assert shown.splitlines()[-1] == "ERROR nothing was measured: 6 conversations invalid, no rate"
    assert "invalid: 6 of 6 (leak 6), not counted" in shown
    assert "in quarantine" not in shown


def mixed(leaking: int, of: int) -> Raw:
    """Some cases have a user that leaks the answer."""
    content = suite("clear")
    [one, *_] = content["evals"]
    users = ["leaking" if number < leaking else "clear" for number in range(of)]
    content["evals"] = [
        {**one, "id": f"shirt-{number}", "user": {**one["user"], "target": user}} for number, user in enumerate(users)
    ]
    return content


def test_compare_and_gate_cannot_tell_where_spoilt_conversations_decide(project: Project) -> None:
    """Twenty-five cases agree; had the eight spoilt ones failed, the run would be worse."""
    project.write("evals.yaml", mixed(0, 33))
    project.run("run", code=None)
    project.run("bless")
    project.write("evals.yaml", mixed(8, 33))
    project.run("run", code=None)
    found = project.run_json("compare", "--strict", code=5)
    assert (found["matched"], found["eventual"]["undecided"]) == (25, "spoilt")
    bounds = "B 76 to 100% if the 8 invalid conversations failed or passed"
    shown = project.run("compare").splitlines()
    assert shown[0].startswith("Cannot tell. ") and bounds in shown[-1]
    gate = project.run_json("gate", "--against", "main", "--rule", "no-regression", code=5)
    assert gate["rules"][0]["verdict"] == "cannot-tell"
    assert bounds in gate["rules"][0]["reason"]


def test_a_baseline_keeps_what_was_spoilt(project: Project) -> None:
    project.write("evals.yaml", mixed(8, 33))
    project.run("run", code=None)
    project.run("bless")
    project.write("evals.yaml", mixed(0, 33))
    project.run("run", code=None)
    gate = project.run_json("gate", "--against", "main", "--rule", "no-regression", code=5)
    assert "A 76 to 100% if the 8 invalid conversations failed or passed" in gate["rules"][0]["reason"]
