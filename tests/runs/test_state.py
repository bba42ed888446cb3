"""The state of a stored run: everything that shows it shows the same one, whoever has the folder open."""

from __future__ import annotations

import ast
import sys
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import httpx
import pytest
from msgspec import structs

from rejoinder.engine.derive import derive_run
from rejoinder.history.index import read_history
from rejoinder.model import Receipt
from rejoinder.runs.folder import RunFolder, runs_folder
from rejoinder.runs.recorded import RecordedRun
from rejoinder.runs.results import EveryResult
from rejoinder.runs.state import state_of
from rejoinder.runs.summary import summarise
from rejoinder.runs.verify import verify_run
from rejoinder.server.api_routes import Api
from rejoinder.server.damage import Damage
from rejoinder.server.desk import Desk
from rejoinder.server.found import look
from rejoinder.server.jobs import RunJob
from rejoinder.server.queue import Entry
from tests.kit import Process, Project, Raw, only_run
from tests.server.kit import api, serving, settings

SOURCES = Path(__file__).parents[2] / "src" / "rejoinder"
LOCK_READERS = {
    "runs/state.py",
    *("runs/recorded.py", "cli/runs.py"),  # they are about to lock the folder
    "server/supervisor.py",  # it waits for the process that it has started
    "providers/python_objects.py",  # a thread of that name
}
WRITTEN = ("running", "killed", "interrupted", "budget", "error", "completed", None, "broken")
"""The statuses of a receipt, no receipt, and one that cannot be read."""
EXIT_CODES = {"running": None, "killed": 130, "interrupted": 130, "budget": 4, "error": 3, "completed": 1, "damaged": 3}
HOLDING = """
import sys, time
from pathlib import Path
from rejoinder.runs.folder import RunFolder
with RunFolder(Path(sys.argv[1])).held():
    print("held", file=sys.stderr, flush=True)
    time.sleep(float(sys.argv[2]))
"""


def suite() -> Raw:
    target = {"name": "it", "provider": "scripted", "replies": {"a": ["yes"], "b": ["no"]}}
    checks = [{"contains": "yes"}]
    return {"targets": [target], "evals": [{"id": name, "prompt": name, "checks": checks} for name in "ab"]}


@pytest.fixture
def folder(project: Project) -> RunFolder:
    """A completed run: one case passed and one failed."""
    project.write("evals.yaml", suite())
    project.run("run", code=1)
    return RunFolder(only_run(project.folder))


def end_with(folder: RunFolder, written: str | None) -> None:
    """Leave the folder as a process does whose last receipt has this status."""
    path, receipt = folder.path / "run.json", folder.read_receipt()
    assert receipt is not None
    if written is None:
        path.unlink()
    elif written == "broken":
        path.write_text("{", encoding="utf-8")
    else:
        receipt = structs.replace(receipt, status=written)  # type: ignore[arg-type]
        folder.write_summary(summarise(EveryResult(folder.results), receipt))
        folder.close(receipt)


def expected(written: str | None, *, is_open: bool) -> str:
    if written == "broken":
        return "damaged"
    if written is None:
        return "running" if is_open else "damaged"
    return written if written != "running" else "running" if is_open else "killed"


@pytest.mark.parametrize("is_open", [False, True])
@pytest.mark.parametrize("written", WRITTEN)
def test_every_reader_finds_the_same_state(
    project: Project, folder: RunFolder, written: str | None, is_open: bool
) -> None:
    end_with(folder, written)
    status = expected(written, is_open=is_open)
    with ExitStack() as held:
        if is_open:
            held.enter_context(RunFolder(folder.path).held())
        stored = state_of(folder)
        assert stored.status == status
        assert (stored.damage != "") is (status == "damaged")
        found = look(make_api(project), folder.id).state
        assert (found.status, found.exit_code) == (status, EXIT_CODES[status])
        assert stored.exit_code(folder.read_summary()) == found.exit_code
        assert Desk(settings(project.folder)).look(folder.id).state == stored.phase
        [row] = read_history(project.folder).rows
        assert row.status == status
        if written not in (None, "broken"):
            assert verify_run(RecordedRun(folder, project.folder)).status == status
        if written == "running":
            recorded = RecordedRun(folder, project.folder)
            report = derive_run(recorded, recorded.copies())
            assert (report.run.status, report.summary.exit_code) == (status, 130)


def make_api(project: Project) -> Api:
    return Api(settings(project.folder), Damage(project.folder))


def test_a_killed_run_has_one_exit_code(project: Project, folder: RunFolder) -> None:
    end_with(folder, "running")
    assert project.run_json("show", code=None)["summary"]["exit_code"] == 130
    assert api(settings(project.folder), "GET", f"/runs/{folder.id}").json()["exit_code"] == 130


def test_a_run_that_ended_between_two_looks_was_not_killed(folder: RunFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its process writes the end, and lets go of the lock, after the receipt was read and before the lock is."""
    ended = folder.read_receipt()
    assert ended is not None
    read = iter([structs.replace(ended, status="running"), ended])

    def read_receipt(_: RunFolder) -> Receipt:
        return next(read)

    monkeypatch.setattr(RunFolder, "read_receipt", read_receipt)
    assert state_of(folder).status == "completed"


def test_a_run_that_another_process_grades_has_ended(project: Project, folder: RunFolder) -> None:
    with serving(project.folder) as served, held_elsewhere(folder, 60):
        document = served.server.document(folder.id)
        assert (document["status"], document["exit_code"]) == ("completed", 1)
        assert document["summary"]["failed"] == 1
        assert served.server.wait(folder.id, timeout_s=0).done == 2
        rerun = httpx.post(f"{served.url}/api/v1/runs/{folder.id}/rerun", json={})
        assert rerun.status_code == 202
        assert served.server.wait(rerun.json()["id"], timeout_s=60).planned == 1
        assert project.run_json("run", "--failed", "--format", "json", code=1)["run"]["planned"] == 1
        project.run("replay", folder.id, code=1)


def test_new_grades_wait_until_another_process_has_closed_the_run(project: Project, folder: RunFolder) -> None:
    """A run is over as soon as its receipt says so. Its process may be there a moment longer."""
    with serving(project.folder) as served, held_elsewhere(folder, 2):
        graded = httpx.post(f"{served.url}/api/v1/runs/{folder.id}/grade", json={})
        assert graded.status_code == 202
        assert served.server.wait(graded.json()["id"], timeout_s=60).status == "completed"


@contextmanager
def held_elsewhere(folder: RunFolder, seconds: float) -> Generator[None]:
    """Another process has the run open, as `rejoinder grade` does."""
    words = [sys.executable, "-c", HOLDING, str(folder.path), str(seconds)]
    process = Process(folder.path, command=words)
    try:
        process.wait_until_it_says("held")
        yield
    finally:
        process.kill()


def test_a_refused_entry_whose_folder_has_no_receipt_is_over(project: Project) -> None:
    """Its process ended before anything was sent: it was called running for ever."""
    served = make_api(project)
    run = served.queue.reserve()
    (runs_folder(project.folder) / run).mkdir(parents=True)
    entry = Entry(id=run, job=RunJob("evals.yaml", {}), title="numbers", queued_at=0.0)
    served.queue.put(entry)
    assert look(served, run).state.status == "running"
    served.queue.change(entry, ended="refused", message="it ended 3 times")
    state = look(served, run).state
    assert (state.status, state.exit_code, state.message) == ("refused", 2, "it ended 3 times")


def test_a_run_that_has_no_receipt_yet_is_running_in_a_list(project: Project, folder: RunFolder) -> None:
    end_with(folder, None)
    with RunFolder(folder.path).held():
        assert "running" in project.run("runs")
    assert "damaged" in project.run("runs")


def test_only_named_files_look_at_locks() -> None:
    readers = {
        path.relative_to(SOURCES).as_posix()
        for path in SOURCES.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Attribute) and node.attr == "is_busy"
    }
    assert readers == LOCK_READERS
