"""`rejoinder compare` on real runs: which runs, what it says, exit codes, and folders that are damaged or hostile."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import rejoinder
from rejoinder.errors import UsageError
from rejoinder.run_files import RunDamaged
from tests.kit import Project, Raw, case, follow, refusal, refused, run_folders, scripted

KEYS = {
    *("a", "b", "matched", "only_in_a", "only_in_b", "first_try", "eventual", "cost", "latency_s", "tokens"),
    *("flips", "verdict"),
}
DIFFERENCE = {
    *("a", "b", "difference", "interval", "p_value", "smallest_effect", "verdict", "cases_needed", "method"),
}
RATE = {"rate", "passed", "of", "cases", "interval", "method"}

BOT = """\
import pathlib

def answer(messages):
    number = int(messages[0]["content"].split()[-1])
    broken = int(pathlib.Path("broken.txt").read_text())
    if number < broken:
        return "never" if len(messages) > 1 or number % 2 else "no \\x1b[2J"
    return f"yes {number}"
"""


def suite(*ids: int, **more: object) -> Raw:
    checks = {"match": "yes*"}
    return {
        "targets": [{"name": "bot", "provider": "python", "call": "bot:answer"}],
        "evals": [case(f"c{number}", checks, follow("Again.", checks), prompt=f"Question {number}") for number in ids],
        **more,
    }


def run_broken(project: Project, broken: int, *arguments: str, content: Raw | None = None, name: str = "evals") -> str:
    """A run in which the first cases fail. Its id."""
    project.write("bot.py", BOT)
    project.write("broken.txt", str(broken))
    project.write(f"{name}.yaml", suite(*range(20)) if content is None else content)
    return project.run_json("run", f"{name}.yaml", *arguments, code=None)["run"]["id"]


@pytest.mark.slow
def test_the_last_two_runs_are_compared(project: Project) -> None:
    run_broken(project, 3)
    a, b = run_broken(project, 0), run_broken(project, 8)
    found = project.run_json("compare", code=1)
    assert found.keys() >= KEYS and (found["a"], found["b"]) == (a, b)
    assert (found["matched"], found["only_in_a"], found["only_in_b"]) == (20, [], [])
    for name in ("first_try", "eventual"):
        assert found[name].keys() >= DIFFERENCE
        assert found[name]["a"].keys() >= RATE and found[name]["b"].keys() >= RATE
    assert (found["eventual"]["a"]["passed"], found["eventual"]["b"]["passed"]) == (20, 12)
    assert found["verdict"] == found["eventual"]["verdict"] == "worse"
    assert [flip["id"] for flip in found["flips"]] == [f"c{number}" for number in range(8)]
    first = found["flips"][0]
    assert {key: first[key] for key in ("target", "from", "to", "turn")} == {
        "target": "bot",
        "from": "passed",
        "to": "failed",
        "turn": 1,
    }
    assert first["moment"]["replies"] == ["yes 0", "no \x1b[2J"]


@pytest.mark.slow
def test_swapped_runs_swap_the_verdict_and_the_exit_code(project: Project) -> None:
    a, b = run_broken(project, 0), run_broken(project, 8)
    there, back = project.run_json("compare", a, b, code=1), project.run_json("compare", b, a, code=0)
    assert (there["verdict"], back["verdict"]) == ("worse", "better")
    assert there["eventual"]["a"] == back["eventual"]["b"]
    assert there["eventual"]["difference"] == pytest.approx(-back["eventual"]["difference"])
    assert there["eventual"]["p_value"] == back["eventual"]["p_value"]
    assert [(flip["to"], flip["from"], flip["turn"]) for flip in there["flips"]] == [
        (flip["from"], flip["to"], flip["turn"]) for flip in back["flips"]
    ]


@pytest.mark.slow
def test_what_cannot_be_told_is_an_error_only_if_it_is_to_be(project: Project) -> None:
    run_broken(project, 0)
    run_broken(project, 2)
    assert project.run_json("compare")["verdict"] == "cannot-tell"
    shown = project.run("compare", "--strict", code=5)
    assert shown.startswith("Cannot tell. 2 of 20 cases broke, 0 were fixed")
    assert "needs about 48 more cases like these" in shown.splitlines()[-1]


@pytest.mark.slow
def test_equal_runs_show_no_difference_beyond_the_margin(project: Project) -> None:
    run_broken(project, 0, content=suite(*range(40)))
    run_broken(project, 0)
    assert "No difference beyond 11.4 points." in project.run("compare", "--strict", "--margin", "25")


@pytest.mark.slow
def test_one_run_is_compared_with_the_latest_of_its_suites(project: Project) -> None:
    first = run_broken(project, 0)
    second = run_broken(project, 0)
    other = run_broken(project, 0, name="other")
    assert [project.run_json("compare", first)[key] for key in "ab"] == [first, second]
    assert [project.run_json("compare", second)[key] for key in "ab"] == [first, second]
    assert "no other run of the suites" in refusal(project, "compare", other)
    assert "no other run of the suites" in refusal(project, "compare")


@pytest.mark.slow
def test_a_run_of_only_what_had_failed_is_passed_over(project: Project) -> None:
    a, b = run_broken(project, 0), run_broken(project, 8)
    project.run("run", "--failed", code=None)
    found = project.run_json("compare", code=1)
    assert (found["a"], found["b"]) == (a, b)


def test_without_any_run_it_says_how_to_start_one(project: Project) -> None:
    assert "there are no runs" in refusal(project, "compare")


@pytest.mark.slow
def test_further_runs_are_compared_with_the_first(project: Project) -> None:
    ids = [run_broken(project, broken) for broken in (0, 8, 0)]
    found = project.run_json("compare", *ids, code=1)["comparisons"]
    assert [(one["a"], one["b"]) for one in found] == [(ids[0], ids[1]), (ids[0], ids[2])]
    shown = project.run("compare", *ids, code=1)
    assert shown.count("  A  2") == 2


def test_targets_of_one_run(project: Project) -> None:
    content = {
        "targets": [scripted("x", "yes"), scripted("y", "no"), scripted("z", "yes")],
        "evals": [case(f"c{number}", {"match": "yes"}) for number in range(10)],
    }
    project.write("evals.yaml", content)
    project.run("run", "evals.yaml", "-m", "x,y,z", code=1)
    found = project.run_json("compare", "--targets", code=1)["comparisons"]
    assert [one["runs"]["b"]["targets"] for one in found] == [["y"], ["z"]]
    assert [one["matched"] for one in found] == [10, 10]
    assert [one["verdict"] for one in found] == ["worse", "cannot-tell"]
    assert {flip["target"] for flip in found[0]["flips"]} == {"y"}
    assert "one run" in refusal(project, "compare", "--targets", "a", "b")


def test_runs_of_one_target_each_compare_the_targets(project: Project) -> None:
    project.write(
        "evals.yaml",
        {"targets": [scripted("x", "yes"), scripted("y", "no")], "evals": [case("a", {"match": "yes"})]},
    )
    project.run("run", "evals.yaml", "-m", "x")
    project.run("run", "evals.yaml", "-m", "y", code=1)
    found = project.run_json("compare")
    assert (found["matched"], found["runs"]["a"]["targets"], found["runs"]["b"]["targets"]) == (1, ["x"], ["y"])
    assert found["changed"] == ["targets"]
    assert "asked one target" in refusal(project, "compare", "--targets")


@pytest.mark.slow
def test_added_missing_and_renamed_cases_are_said_apart(project: Project) -> None:
    before = suite(*range(4))
    run_broken(project, 0, content=before)
    now = suite(1, 2, 3, 9)
    now["evals"][0]["id"] = "renamed"
    run_broken(project, 0, content=now)
    found = project.run_json("compare")
    assert (found["matched"], found["only_in_a"], found["only_in_b"]) == (3, ["c0"], ["c9"])
    assert found["missing"] == [{"file": "evals.yaml", "id": "c0", "target": "bot", "variant": ""}]
    assert [(one["a"]["id"], one["b"]["id"]) for one in found["renamed"]] == [("c1", "renamed")]
    shown = project.run("compare")
    assert "only in A: c0; only in B: c9" in shown
    assert "renamed and compared: c1 (evals.yaml) is renamed (evals.yaml)" in shown


@pytest.mark.slow
def test_both_replies_are_shown_inert(project: Project) -> None:
    run_broken(project, 0)
    run_broken(project, 8)
    shown = project.run("compare", code=1)
    assert "\x1b" not in shown and "  A < yes 0\n  B < no \N{REPLACEMENT CHARACTER}[2J\n" in shown
    assert "broke: Question 0 [c0]: passed on turn 1 -> failed" in shown
    assert "  B fails match yes*; replies differ from turn 1" in shown
    assert shown.count("  A < ") == 3 and "broke: c3  c4  c5  c6  c7\n" in shown
    assert project.run("compare", "--all", code=1).count("  A < ") == 8


def test_an_unfinished_run_says_so(project: Project) -> None:
    content = {"targets": [scripted("s", "yes")], "evals": [case(f"c{n}", {"match": "yes"}) for n in range(4)]}
    project.write("evals.yaml", content)
    project.run("run", "evals.yaml")
    project.run("run", "evals.yaml", "--budget-tokens", "1", code=4)
    shown = project.run("compare")
    assert "1 conversation, 3 unfinished, budget" in shown and "only in A: c1, c2, c3" in shown


@pytest.mark.slow
def test_errors_that_decide_are_named(project: Project) -> None:
    checks = {"match": "yes"}
    for replies in (["yes"], {f"c{n}": ["yes"] for n in range(12)} | {"*": [{"error": "the line is dead"}]}):
        target = {"name": "s", "provider": "scripted", "replies": replies}
        project.write("evals.yaml", {"targets": [target], "evals": [case(f"c{n}", checks) for n in range(20)]})
        project.run("run", "evals.yaml", code=None)
    found = project.run_json("compare", "--strict", code=5)
    assert found["eventual"]["undecided"] == "errors" and found["eventual"]["b"]["errors"] == 8
    shown = project.run("compare")
    assert "B 8 of 20 (100" in shown and "cannot tell: errors decide" in shown.splitlines()[-1]


@pytest.mark.slow
def test_cases_that_were_chosen_because_they_failed_tell_nothing(project: Project) -> None:
    first = run_broken(project, 8)
    project.write("broken.txt", "0")
    second = project.run_json("run", "evals.yaml", "--failed-from", first)["run"]["id"]
    found, back = project.run_json("compare", "--strict", code=5), project.run_json("compare", second, first)
    assert (found["matched"], found["verdict"], found["chosen"]) == (8, "cannot-tell", "b")
    assert (back["verdict"], back["chosen"]) == ("cannot-tell", "a")
    assert "B has only cases that failed in A: some pass by chance" in project.run("compare")
    third = project.run_json("run", "evals.yaml")["run"]["id"]
    assert project.run_json("compare", first, third)["verdict"] == "better"


@pytest.mark.slow
def test_a_damaged_run_that_was_not_named_stands_in_no_way(project: Project) -> None:
    first, broken, second = (run_broken(project, 0) for _ in range(3))
    receipt = project.folder / ".rejoinder/runs" / broken / "run.json"
    receipt.write_text("[]")
    found = project.run_json("compare")
    assert (found["a"], found["b"]) == (first, second)
    assert isinstance(refused(project, "compare", broken, second), RunDamaged)


def test_a_link_in_the_folder_of_the_run_before_is_refused(project: Project) -> None:
    for _ in range(2):
        run_broken(project, 0)
    (run_folders(project.folder)[0] / "extra").symlink_to(project.folder / "bot.py")
    assert isinstance(refused(project, "compare"), RunDamaged)


@pytest.mark.slow
def test_a_reader_that_closes_the_pipe_ends_nothing(project: Project) -> None:
    run_broken(project, 0, content=suite(*range(200)))
    run_broken(project, 200, content=suite(*range(200)))
    command = f"{sys.executable} -m rejoinder compare --format json | head -1; exit ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", command], capture_output=True, check=False, cwd=project.folder)
    assert (done.returncode, done.stdout, done.stderr) == (1, b"{\n", b"")


@pytest.mark.slow
def test_votes_of_judges_tell_their_noise(project: Project) -> None:
    judge = {"name": "judge", "provider": "scripted", "replies": ["x"], "judge": [0.9, 0.7, 0.8, 0.6]}
    content = {
        "targets": [scripted("s", "hello"), judge],
        "target": "s",
        "judge_target": "judge",
        "evals": [case(f"c{n}", {"llm_judge": {"criteria": "Is friendly.", "votes": 2}}) for n in range(3)],
    }
    project.write("evals.yaml", content)
    for _ in range(2):
        project.run("run", "evals.yaml", "--repeat", "2", code=None)
    found = project.run_json("compare")
    assert found["noise"]["a"]["judge"] is not None and found["noise"]["a"]["model"] is not None
    assert "  noise of A: judge " in project.run("compare")


# Damage


Edit = Callable[[list[str]], list[str]]


def edit(path: Path, change: Edit) -> None:
    path.write_text("\n".join(change(path.read_text().splitlines())) + "\n")


EDITS: dict[str, tuple[str, Edit]] = {
    "line": ("results.jsonl", lambda lines: [*lines[:3], "{", *lines[4:]]),
    "cut": ("results.jsonl", lambda lines: lines[:5]),
    "twice": ("results.jsonl", lambda lines: [*lines, lines[0]]),
    "numbers": (
        "results.jsonl",
        lambda lines: [re.sub(r'"duration_s":[^,]*', '"duration_s":1e308,"model":"m"', one) for one in lines],
    ),
    "receipt": ("run.json", lambda _: ["[]"]),
    "summary": ("summary.json", lambda _: ["{}"]),
}


@pytest.mark.slow
@pytest.mark.parametrize(("name", "change"), EDITS.values(), ids=EDITS.keys())
def test_a_damaged_run_ends_with_3(project: Project, name: str, change: Edit) -> None:
    a, b = run_broken(project, 0, "--repeat", "3"), run_broken(project, 0, "--repeat", "3")
    for folder in run_folders(project.folder) if name == "results.jsonl" else run_folders(project.folder)[1:]:
        edit(folder / name, change)
    error = refused(project, "compare", a, b)
    assert isinstance(error, RunDamaged) and error.exit_code == 3


# From Python


@pytest.mark.slow
def test_compare_is_a_function(project: Project) -> None:
    run_broken(project, 0)
    run_broken(project, 8)
    found = rejoinder.compare()
    assert found.verdict == "worse" and len(found.broke) == 8 and found.fixed == ()
    reports = [rejoinder.show(found.a.run), rejoinder.show(found.b.run)]
    assert rejoinder.compare(*reports) == found
    assert rejoinder.compare(reports[0].folder.path, margin=0.2).eventual.margin == 0.2
    assert json.dumps(found.document()) == json.dumps(project.run_json("compare", code=1))
    with pytest.raises(UsageError):
        rejoinder.compare("nothing")


@pytest.mark.slow
def test_a_baseline_stands_for_its_run(project: Project) -> None:
    first, second = run_broken(project, 0), run_broken(project, 8)
    project.run("bless", first, "--name", "main")
    found = project.run_json("compare", "main", second, code=1)
    assert (found["a"], found["b"]) == (first, second)
    project.run("runs", "rm", first, "-y")
    error = refused(project, "compare", "main", second)
    assert f"run {first}, the source of baseline `main`, is not here" in error.message
    assert error.hint is not None and "rejoinder gate --against main" in error.hint


def test_prompts_and_settings_that_differ_are_named(project: Project) -> None:
    target = {"name": "bot", "provider": "python", "call": "bot:answer"}
    run_broken(project, 0, content=suite(1, 2, metadata={"system_prompt": "Be kind."}))
    other = suite(1, 2, metadata={"system_prompt": "Be curt."}, targets=[{**target, "timeout_seconds": 7}])
    run_broken(project, 0, content=other)
    assert project.run_json("compare")["changed"] == [
        "timeout_seconds of bot: not set and 7",
        "system prompt of evals.yaml",
    ]


def test_targets_of_one_run_are_compared_again_by_the_command_that_is_shown(project: Project) -> None:
    targets = [{"name": name, "provider": "python", "call": "bot:answer"} for name in ("one", "two")]
    project.write("other.py", BOT.replace("yes {number}", "no"))
    targets[1]["call"] = "other:answer"
    run = run_broken(project, 0, "-m", "one,two", content=suite(*range(20), targets=targets))
    shown = project.run("compare", run, "--targets", code=1)
    assert f"rejoinder compare {run} --targets --all" in shown
