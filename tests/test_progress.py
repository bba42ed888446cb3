"""The progress of a run as a program is told it, and the folder in which a program keeps its runs."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest

import rejoinder
from rejoinder import Pace, Progress, Selection, UsageError
from rejoinder.model import Request
from tests.kit import Project, case, scripted

SUITE = {
    "targets": [scripted("it", "yes", "no")],
    "target": "it",
    "evals": [case("a", {"match": "yes"}), case("b", {"match": "no"})],
}


def bot(request: Request) -> str:
    if request.case_id == "c":
        raise ConnectionError("no")
    return "yes"


def test_progress_is_told_from_before_the_first_call_to_the_end(project: Project) -> None:
    project.write("evals.yaml", {"evals": [case("a", {"match": "yes"}), case("b", {"match": "no"}), case("c")]})
    seen: list[Progress] = []

    def ask(request: Request) -> str:
        assert (seen[0].planned, seen[0].done, seen[0].in_flight) == (3, 0, 0)
        assert (seen[0].folder / "run.json").is_file()
        return bot(request)

    report = rejoinder.run("evals.yaml", target=ask, pace=Pace(workers=1), on_progress=seen.append)
    assert {one.id for one in seen} == {report.run.id}
    last = seen[-1]
    assert (last.planned, last.done, last.passed, last.failed, last.errors, last.in_flight) == (3, 3, 1, 1, 1, 0)
    assert [one.in_flight for one in seen] == [0, 1, 0, 1, 0, 1, 0]


def test_progress_is_told_on_the_loop_and_by_every_verb(project: Project) -> None:
    project.write("evals.yaml", SUITE)

    async def play() -> None:
        here, seen = threading.get_ident(), list[Progress]()

        def tell(progress: Progress) -> None:
            assert threading.get_ident() == here
            seen.append(progress)

        def last() -> tuple[int, int, int]:
            found = seen[-1]
            seen.clear()
            return found.planned, found.done, found.failed

        first = await rejoinder.arun("evals.yaml", on_progress=tell)
        assert last() == (2, 2, 1)
        await rejoinder.aresume(first, on_progress=tell)
        assert last() == (2, 2, 1)
        await rejoinder.areplay(first, on_progress=tell)
        assert last() == (2, 2, 1)
        await rejoinder.agrade(first, on_progress=tell)
        assert last() == (2, 2, 1)
        await rejoinder.amerge([first], on_progress=tell)
        assert last() == (2, 2, 1)
        await rejoinder.afork(first, "a", 1, prompt="Now?", on_progress=tell)
        assert last() == (1, 1, 0)

    asyncio.run(play())


def test_a_function_that_raises_does_not_lose_the_run(project: Project) -> None:
    project.write("evals.yaml", SUITE)

    def fail(_: Progress) -> None:
        raise ValueError("-".join(["sk", "a", "secret"]))

    report = rejoinder.run("evals.yaml", on_progress=fail)
    assert (report.run.status, report.summary.passed) == ("completed", 1)
    log = (report.folder.path / "run.log").read_text()
    assert log.count("on_progress raised ValueError") == 1
    assert "sk-a-secret" not in log

    async def tell(_: Progress) -> None: ...

    with pytest.raises(UsageError, match="on_progress is called"):
        rejoinder.run("evals.yaml", on_progress=tell)


def test_runs_are_kept_and_found_in_a_folder_of_the_program(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # it has no mark of a project
    Project(tmp_path).write("evals.yaml", SUITE)
    runs = tmp_path_factory.mktemp("elsewhere") / "kept"
    first = rejoinder.run("evals.yaml", runs_folder=runs)
    assert first.folder.path.parent == runs
    assert [path.name for path in tmp_path.iterdir()] == ["evals.yaml"]
    assert rejoinder.show(runs_folder=runs).run.id == first.run.id
    assert rejoinder.show(first).summary == first.summary
    assert rejoinder.resume(first).run.status == "completed"
    second = asyncio.run(rejoinder.arun("evals.yaml", runs_folder=str(runs)))
    for found in (rejoinder.compare(runs_folder=runs), rejoinder.compare(first, second)):
        assert [run.run for run in (found.a, found.b)] == [first.run.id, second.run.id]
    graded = rejoinder.grade(first, runs_folder=runs)
    assert graded.folder.path.parent == runs / "grades" / first.run.id
    for made in (
        rejoinder.replay(first.run.id, runs_folder=runs),
        rejoinder.fork("last", "a", 1, prompt="Now?", runs_folder=runs),
        rejoinder.merge([first], runs_folder=runs),
    ):
        assert made.folder.path.parent == runs
    assert rejoinder.gate(first, against=second, rules=["rate>=10%"]).verdict == "pass"
    rejoinder.export(first.run.id, "json", tmp_path / "out.json", runs_folder=runs)
    assert rejoinder.next_steps(first) == ()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["evals.yaml", "out.json"]
    with pytest.raises(UsageError, match="there are no runs"):
        rejoinder.show()


def test_failed_cases_are_selected_and_estimated_without_a_call(project: Project) -> None:
    project.write("evals.yaml", {"target": "nowhere", "evals": [case(name, {"match": "yes"}) for name in "abc"]})
    replies = {"a": "yes", "b": "no", "c": "no"}
    calls: list[str] = []

    def ask(request: Request) -> str:
        calls.append(request.case_id)
        return replies[request.case_id]

    first = rejoinder.run("evals.yaml", target=ask)
    failed = rejoinder.failed_of(first)
    assert failed is not None
    assert failed.cases == ("b", "c")
    calls.clear()
    bounds = rejoinder.estimate("evals.yaml", target=ask, selection=failed, repeat=2)
    assert (bounds.conversations, bounds.targets[0].name, bounds.targets[0].calls) == (4, "ask", (4, 4))
    assert not calls
    replies.update(b="yes", c="yes")
    again = rejoinder.run("evals.yaml", target=ask, selection=failed)
    assert (again.summary.passed, sorted(calls)) == (2, ["b", "c"])
    assert rejoinder.failed_of(again) is None
    assert rejoinder.failed_of(first, Selection(cases=("a",))) is None
    nothing: Any = rejoinder.failed_of(again)
    for verb in (rejoinder.run, rejoinder.estimate):
        with pytest.raises(UsageError, match="there is nothing to run: no case is selected") as raised:
            verb("evals.yaml", target=ask, selection=nothing)
        assert raised.value.hint == "`failed_of` returns None if nothing failed."


def test_a_part_of_a_run_is_resumed_in_its_folder(project: Project, tmp_path_factory: pytest.TempPathFactory) -> None:
    project.write("evals.yaml", {**SUITE, "evals": [case(f"c{number}") for number in range(8)]})
    runs = tmp_path_factory.mktemp("elsewhere")
    parts = [rejoinder.run("evals.yaml", selection=Selection(shard=(n, 2)), runs_folder=runs) for n in (1, 2)]
    whole = rejoinder.merge([part.run.id for part in parts], runs_folder=runs)
    assert whole.summary.total == 8
    assert rejoinder.resume(whole.run.id, runs_folder=runs).summary.total == 8
