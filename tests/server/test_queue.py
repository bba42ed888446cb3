"""The queue: whatever is killed, and when, every run that was asked for ends once, with all its results."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import json
import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from msgspec import structs

from rejoinder.client import RequestRefused, RunState, Server, ServerError
from rejoinder.errors import UsageError
from rejoinder.locks import is_locked
from rejoinder.runs.folder import BUSY_CODE, RunFolder, new_run_id, runs_folder
from rejoinder.runs.options import RunOptions
from rejoinder.runs.recorded import RecordedRun
from rejoinder.runs.verify import find_damage
from rejoinder.server.jobs import Job, ResumeJob, RunJob
from rejoinder.server.queue import Entry, Queue
from rejoinder.server.supervisor import Supervisor, need_of
from tests.kit import Project, is_alive
from tests.server.kit import Served, api, children_of, play, scripted, serving, settings, wait_until

CASES = 4


def job_for(queue: Queue, **options: object) -> RunJob:
    """A run of the suite `evals.yaml` of the project."""
    return RunJob(str(queue.root / "evals.yaml"), RunOptions().changed(**options).flat())


def post(server: Server, *, cases: int = CASES, delay_ms: int = 60, name: str = "numbers") -> RunState:
    return server.start(yaml=json.dumps({**scripted(cases, delay_ms=delay_ms, name=name), "metadata": {"threads": 1}}))


def assert_whole(folder: Path, runs: list[str], cases: int = CASES) -> None:
    """Each run is there once, undamaged, and has every conversation once; the queue is empty."""
    assert sorted(path.name for path in runs_folder(folder).glob("2*")) == sorted(runs)
    for run in runs:
        place = RunFolder(runs_folder(folder) / run)
        receipt = place.read_receipt()
        assert receipt is not None
        assert receipt.status == "completed"
        ids = [json.loads(line)["id"] for line in place.results.read_text().splitlines()]
        assert sorted(ids) == sorted(f"c{number}" for number in range(cases))
        assert not find_damage(RecordedRun(place, folder))
        asked = [json.loads(line) for line in place.journal.read_text().splitlines()]
        told = [record["key"] for record in asked if record.get("type") == "told"]
        assert len(told) == len(set(told)), "a call was made twice"
    left = [path.name for path in (folder / ".rejoinder" / "queue").iterdir() if path.is_dir()]
    assert left == []


@pytest.mark.slow
def test_runs_are_run_in_their_order_under_the_ids_that_were_told(project: Project):
    with serving(project.folder) as served:
        runs = [post(served.server, delay_ms=0, name=f"n{number}").id for number in range(3)]
        ended = [served.server.wait(run) for run in runs]
    assert [state.exit_code for state in ended] == [0, 0, 0]
    assert_whole(project.folder, runs)
    begun = [RunFolder(runs_folder(project.folder) / run).read_receipt() for run in runs]
    times = [receipt.started_at or "" for receipt in begun if receipt is not None]
    ends = [receipt.finished_at or "" for receipt in begun if receipt is not None]
    assert times == sorted(times)
    assert all(end <= start for end, start in zip(ends, times[1:], strict=False)), "two ran at once"


def moments(folder: Path, run: str) -> dict[str, object]:
    """When the server is killed: what has to be there by then."""
    place = runs_folder(folder) / run
    return {
        "before it begins": lambda: True,
        "when the folder is made": place.is_dir,
        "when the receipt is written": (place / "run.json").is_file,
        "when the first reply is recorded": lambda: b'"told"' in _content(place / "journal.jsonl"),
        "when it has ended": lambda: b'"completed"' in _content(place / "run.json"),
    }


def _content(path: Path) -> bytes:
    with contextlib.suppress(OSError):
        return path.read_bytes()
    return b""


SOON = ("when the folder is made", "when the first reply is recorded")
"""The moments that every test run tries; `make test-long` tries them all."""


@pytest.mark.slow
@pytest.mark.parametrize(
    "moment",
    [pytest.param(name, marks=() if name in SOON else pytest.mark.long) for name in moments(Path(), "")],
)
@pytest.mark.parametrize("with_children", [False, True], ids=["server", "server and run"])
def test_a_kill_at_any_moment_loses_and_doubles_nothing(project: Project, moment: str, with_children: bool):
    served = Served(project.folder)
    runs = [post(served.server).id, post(served.server, delay_ms=0).id]
    wait_until(moments(project.folder, runs[0])[moment])
    children = children_of(served.process.pid)
    served.kill()
    for child in children if with_children else ():
        with contextlib.suppress(ProcessLookupError):
            os.kill(child, signal.SIGKILL)
    with serving(project.folder) as again:
        for run in runs:
            assert again.server.wait(run, timeout_s=60).exit_code == 0
        wait_until(lambda: not again.server.queue())
    assert_whole(project.folder, runs)


@pytest.mark.long
def test_many_kills_at_any_time_lose_and_double_nothing(project: Project):
    runs: list[str] = []
    for wait_ms in range(0, 3000, 137):
        served = Served(project.folder)
        runs.append(post(served.server).id)
        time.sleep(wait_ms / 1000)
        served.kill()
    with serving(project.folder) as served:
        for run in runs:
            assert served.server.wait(run, timeout_s=120).exit_code == 0
        wait_until(lambda: not served.server.queue())
    assert_whole(project.folder, runs)


@pytest.mark.slow
def test_ctrl_c_ends_the_server_and_its_run_which_goes_on_later(project: Project):
    served = Served(project.folder)
    run = post(served.server, delay_ms=300).id
    wait_until(lambda: b'"told"' in _content(runs_folder(project.folder) / run / "journal.jsonl"))
    children = children_of(served.process.pid)
    code, said = served.stop()
    assert (code, said) == (0, "")
    assert children
    assert not any(is_alive(child) for child in children)
    with serving(project.folder) as again:
        assert again.server.wait(run).exit_code == 0
        wait_until(lambda: not again.server.queue())
    assert_whole(project.folder, [run])


@pytest.mark.slow
class TestStop:
    def test_a_run_that_waits_is_cancelled_and_one_that_goes_on_can_be_resumed(self, project: Project):
        with serving(project.folder) as served:
            first, second = post(served.server, delay_ms=400), post(served.server)
            wait_until((runs_folder(project.folder) / first.id / "run.json").is_file)
            assert served.server.stop(second.id).status == "cancelled"
            served.server.stop(first.id)
            stopped = served.server.wait(first.id)
            assert (stopped.status, stopped.planned) == ("interrupted", CASES)
            assert stopped.done == len(_content(runs_folder(project.folder) / first.id / "results.jsonl").splitlines())
            assert served.server.status(second.id).exit_code == 130
            wait_until(lambda: not served.server.queue())
            assert not (runs_folder(project.folder) / second.id).exists()
            resumed = served.server._ask("POST", f"/runs/{first.id}/resume", RunState, {})
            assert (resumed.id, resumed.status) == (first.id, "queued")
            assert served.server.wait(first.id).exit_code == 0
            wait_until(lambda: not served.server.queue())
        receipt = RunFolder(runs_folder(project.folder) / first.id).read_receipt()
        assert receipt is not None
        assert receipt.status == "completed"

    def test_a_run_that_another_process_started_is_not_stopped(self, project: Project, start):
        project.write("evals.yaml", scripted(1, delay_ms=60_000))
        other = start("run", "evals.yaml")
        wait_until(lambda: list(runs_folder(project.folder).glob("2*/run.json")))
        run = next(runs_folder(project.folder).glob("2*")).name
        with serving(project.folder) as served:
            assert served.server.status(run).status == "running"
            with pytest.raises(RequestRefused, match="not started by this server"):
                served.server.stop(run)
        assert other.process.poll() is None


@pytest.mark.slow
def test_a_run_that_cannot_begin_says_why(project: Project):
    project.write("evals.yaml", scripted())
    with serving(project.folder) as served:
        whole = served.server.wait(served.server.start("evals.yaml").id)
        assert whole.exit_code == 0
        again = served.server._ask("POST", f"/runs/{whole.id}/rerun", RunState, {"only": "failed"})
        ended = served.server.wait(again.id)
    assert (ended.status, ended.exit_code) == ("refused", 2)
    assert "passed; there is nothing to run" in (ended.message or "")


@pytest.mark.slow
def test_a_second_server_leaves_the_queue_to_the_first(project: Project):
    with serving(project.folder) as first, serving(project.folder) as second:
        runs = [post(one, delay_ms=0).id for one in (first.server, second.server)]
        for run in runs:
            assert second.server.wait(run).exit_code == 0
        wait_until(lambda: not first.server.queue())
        assert children_of(second.process.pid) == []
    assert_whole(project.folder, runs)


class TestEntries:
    def entry(self, queue: Queue, **fields: object) -> Entry:
        run = queue.reserve()
        return Entry(id=run, job=job_for(queue), title="t", queued_at=time.time(), **fields)  # type: ignore[arg-type]

    def test_an_entry_that_another_wrote_does_not_count(self, project: Project):
        queue = Queue(project.folder)
        entry = self.entry(queue)
        queue.put(entry)
        found = queue.find(entry.id)
        assert msgspec.json.encode(found) == msgspec.json.encode(entry)
        path = queue.path / entry.id / "entry.json"
        path.write_text(path.read_text().replace("evals.yaml", "other.yaml"))
        assert queue.find(entry.id) is None
        assert queue.entries() == []

    @pytest.mark.parametrize(
        ("word", "other"),
        [
            ('"repeat": 1', '"repeat": 2'),
            ('"targets_file": null', '"targets_file": "../targets.yaml"'),
            ('"no_code": false', '"no_code": true'),
            ('"type": "run"', '"type": "command", "arguments": ["run"]'),
            ('"code": "', '"code": "\u00e9'),
            ('"title": "t"', '"title": "t", "title": "u"'),
        ],
    )
    def test_nor_does_one_whose_job_was_changed(self, project: Project, word: str, other: str):
        queue = Queue(project.folder)
        entry = self.entry(queue)
        queue.put(entry)
        path = queue.path / entry.id / "entry.json"
        content = path.read_text(encoding="utf-8")
        assert word in content
        path.write_text(content.replace(word, other), encoding="utf-8")
        assert queue.find(entry.id) is None
        assert queue.entries() == []

    def test_nor_does_one_of_another_project(self, project: Project, tmp_path_factory: pytest.TempPathFactory):
        queue, other = Queue(project.folder), Queue(tmp_path_factory.mktemp("other"))
        entry = self.entry(queue)
        queue.put(entry)
        assert other.reserve(entry.id) == entry.id
        (other.path / entry.id / "entry.json").write_bytes((queue.path / entry.id / "entry.json").read_bytes())
        assert other.find(entry.id) is None

    def test_nor_does_one_behind_a_link(self, project: Project, tmp_path_factory: pytest.TempPathFactory):
        queue = Queue(project.folder)
        entry = self.entry(queue)
        queue.put(entry)
        moved = tmp_path_factory.mktemp("elsewhere") / entry.id
        (queue.path / entry.id).rename(moved)
        (queue.path / entry.id).symlink_to(moved)
        assert queue.find(entry.id) is None

    def test_a_file_in_the_place_of_an_entry_is_replaced(self, project: Project):
        queue, run = Queue(project.folder), new_run_id()
        queue.path.mkdir(parents=True)
        (queue.path / run).write_text("of a repository")
        assert queue.reserve(run) == run
        assert (queue.path / run).is_dir()

    def test_what_a_link_leads_to_is_not_deleted(self, project: Project, tmp_path_factory: pytest.TempPathFactory):
        queue, run = Queue(project.folder), new_run_id()
        elsewhere = tmp_path_factory.mktemp("elsewhere")
        (elsewhere / "entry.json").write_text("mine")
        queue.path.mkdir(parents=True)
        (queue.path / run).symlink_to(elsewhere)
        assert queue.reserve(run) == run
        assert not (queue.path / run).is_symlink()
        assert (elsewhere / "entry.json").read_text() == "mine"

    @pytest.mark.parametrize("name", [".rejoinder", "queue"])
    def test_nor_is_anything_behind_a_link_above(
        self, project: Project, tmp_path_factory: pytest.TempPathFactory, name: str
    ):
        queue, elsewhere = Queue(project.folder), tmp_path_factory.mktemp("elsewhere")
        entry = self.entry(queue)
        queue.put(entry)
        link = next(path for path in (queue.path, queue.path.parent) if path.name == name)
        link.rename(elsewhere / name)
        link.symlink_to(elsewhere / name)
        queue.discard(entry.id)
        queue.sweep()
        assert list(elsewhere.rglob("entry.json"))
        assert queue.entries() == []
        assert queue.find(entry.id) is None

    def test_a_place_that_cannot_be_made_free_is_given_up(self, project: Project, monkeypatch: pytest.MonkeyPatch):
        queue, run = Queue(project.folder), new_run_id()
        (queue.path / run).mkdir(parents=True)
        monkeypatch.setattr(queue, "discard", lambda _run: None)
        with pytest.raises(UsageError, match="no folder can be made"):
            queue.reserve(run)

    def test_files_that_were_changed_after_they_were_looked_at_are_noticed(self, project: Project):
        queue = Queue(project.folder)
        run = queue.reserve()
        digests = queue.add_files(run, {"suite.yaml": "evals: []"})
        entry = Entry(id=run, job=job_for(queue), title="", queued_at=0.0, files=digests)
        assert queue.has_its_files(entry)
        (queue.path / run / "suite.yaml").write_text("evals: [1]")
        assert not queue.has_its_files(entry)

    @pytest.mark.parametrize("path", ["", "/results"])
    def test_a_run_whose_folder_goes_while_it_is_looked_at_is_still_queued(
        self, project: Project, monkeypatch: pytest.MonkeyPatch, path: str
    ):
        """A run that was killed before its receipt begins again: its folder is made anew."""
        project.write("evals.yaml", scripted())
        queue = Queue(project.folder)
        run = queue.reserve()
        entry = Entry(id=run, job=job_for(queue), title="t", queued_at=time.time())
        queue.put(entry)
        entry.folder(project.folder).path.mkdir(parents=True)

        def gone(folder: Path) -> None:
            raise FileNotFoundError(folder)

        monkeypatch.setattr("rejoinder.server.found.refuse_special_files", gone)
        answer = api(settings(project.folder), "GET", f"/runs/{run}{path}")
        if path:
            assert (answer.status_code, answer.json()["error"]["code"]) == (409, "queued")
        else:
            assert (answer.status_code, answer.json()["status"]) == (200, "queued")

    def test_what_a_run_needs_is_seen_in_its_folder(self, project: Project):
        queue = Queue(project.folder)
        entry = Entry(id=new_run_id(), job=job_for(queue), title="", queued_at=0.0)
        assert need_of(entry, project.folder) == "start"
        folder = entry.folder(project.folder)
        folder.path.mkdir(parents=True)
        assert need_of(entry, project.folder) == "start"
        with folder.held():
            assert need_of(entry, project.folder) == "wait"
        (folder.path / "run.json").write_text("not a receipt")
        assert need_of(entry, project.folder) == "ended"
        del queue

    @pytest.mark.parametrize(("ended", "left"), [(3, 3), (5, 5), (7, 5), (12, 5)])
    def test_the_last_entries_that_have_ended_are_kept(
        self, project: Project, monkeypatch: pytest.MonkeyPatch, ended: int, left: int
    ):
        monkeypatch.setattr("rejoinder.server.queue.KEPT_ENDED", 5)
        queue = Queue(project.folder)
        entries = [self.entry(queue, ended="cancelled") for _ in range(ended)]
        waiting = self.entry(queue)
        for place, entry in enumerate([*entries, waiting]):
            queue.put(structs.replace(entry, queued_at=float(place)))
        queue.sweep()
        assert [entry.id for entry in queue.entries()] == [*(one.id for one in entries[ended - left :]), waiting.id]

    def test_the_same_id_is_queued_once(self, project: Project):
        queue = Queue(project.folder)
        entry = self.entry(queue)
        queue.put(entry)
        with pytest.raises(Exception, match="in the queue already"):
            queue.reserve(entry.id)


class TestOneEntry:
    """What is wrong with one of them is its own matter."""

    def put(self, queue: Queue, **options: object) -> str:
        run = queue.reserve()
        queue.put(Entry(id=run, job=job_for(queue, **options), title="t", queued_at=time.time()))
        return run

    def test_a_prompt_may_be_longer_than_a_command_line_takes_it(self, project: Project):
        project.write("evals.yaml", scripted(1))
        queue = Queue(project.folder)
        run = self.put(queue, system_prompt="é" * 99_000, include_messages=True)
        work_until(queue, lambda: queue.find(run) is None)
        assert "é" * 99_000 in RunFolder(runs_folder(project.folder) / run).results.read_text()

    @pytest.mark.parametrize("error", [ValueError("embedded null byte"), OSError(errno.E2BIG, "too long")])
    def test_one_that_cannot_be_started_says_so_and_the_next_one_begins(
        self, project: Project, monkeypatch: pytest.MonkeyPatch, error: Exception
    ):
        queue = Queue(project.folder)
        bad, good = self.put(queue), self.put(queue)
        started: list[str] = []

        async def begin(_: Supervisor, entry: Entry, _need: str) -> bool:
            started.append(entry.id)
            if entry.id == bad:
                raise error
            return True

        monkeypatch.setattr(Supervisor, "_begin", begin)
        asyncio.run(Supervisor(queue, 1).look())
        assert started == [bad, good]
        ended = queue.find(bad)
        assert ended is not None
        assert (ended.ended, ended.message) == ("refused", f"it cannot be run: {error}")

    def test_one_whose_process_dies_is_started_three_times_and_then_given_up(
        self, project: Project, monkeypatch: pytest.MonkeyPatch
    ):
        queue, started = Queue(project.folder), list[str]()
        run = self.put(queue)

        async def start(_: Supervisor, entry: Entry, _job: Job) -> asyncio.subprocess.Process:
            started.append(entry.id)
            words = (sys.executable, "-c", "import os; os.kill(os.getpid(), 9)")
            return await asyncio.create_subprocess_exec(*words, stdin=asyncio.subprocess.PIPE)

        monkeypatch.setattr(Supervisor, "_start", start)
        monkeypatch.setattr("rejoinder.server.supervisor.LOOK_S", 0.01)
        work_until(queue, lambda: (entry := queue.find(run)) is not None and not entry.is_waiting)
        entry = queue.find(run)
        assert entry is not None
        assert entry.ended == "refused"
        assert "its process ended 3 times" in (entry.message or "")
        assert started == [run] * 3

    def test_one_that_finds_its_run_open_is_tried_until_it_is_not(
        self, project: Project, monkeypatch: pytest.MonkeyPatch
    ):
        queue, started = Queue(project.folder), list[str]()
        run = self.put(queue)

        async def start(_: Supervisor, entry: Entry, _job: Job) -> asyncio.subprocess.Process:
            started.append(entry.id)
            code = BUSY_CODE if len(started) < 6 else 2
            words = (sys.executable, "-c", f"raise SystemExit({code})")
            return await asyncio.create_subprocess_exec(*words, stdin=asyncio.subprocess.PIPE)

        monkeypatch.setattr(Supervisor, "_start", start)
        monkeypatch.setattr("rejoinder.server.supervisor.LOOK_S", 0.01)
        work_until(queue, lambda: (entry := queue.find(run)) is not None and not entry.is_waiting)
        assert started == [run] * 6

    def test_the_process_of_a_run_says_that_it_is_open_elsewhere(self, project: Project):
        project.write("evals.yaml", scripted(1))
        project.run("run", "evals.yaml")
        folder = RunFolder(next(runs_folder(project.folder).glob("2*")))
        with folder.held():
            code, _ = play(project.folder, folder.id, ResumeJob(str(folder.path)))
        assert code == BUSY_CODE

    def test_those_who_look_at_a_run_do_not_take_each_other_for_its_process(self, project: Project):
        folder = RunFolder(project.folder / "run")
        folder.path.mkdir()
        with folder.held():
            assert folder.is_busy
        with (folder.path / "lock").open("rb") as looking:
            assert not is_locked(looking.fileno())
            assert not folder.is_busy

    def test_one_waits_for_what_the_machine_lacks(self, project: Project, monkeypatch: pytest.MonkeyPatch):
        queue = Queue(project.folder)
        run = self.put(queue)

        async def begin(_: Supervisor, _entry: Entry, _need: str) -> bool:
            raise OSError(errno.EMFILE, "Too many open files")

        monkeypatch.setattr(Supervisor, "_begin", begin)
        asyncio.run(Supervisor(queue, 1).look())
        entry = queue.find(run)
        assert entry is not None
        assert entry.is_waiting

    def test_a_mistake_in_a_look_is_told_in_a_line_and_the_work_goes_on(
        self, project: Project, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ):
        looks: list[int] = []

        async def look(_: Supervisor) -> None:
            looks.append(1)
            raise ValueError("so\x1b[2J\nand so")

        monkeypatch.setattr(Supervisor, "look", look)
        monkeypatch.setattr("rejoinder.server.supervisor.LOOK_S", 0.001)
        work_until(Queue(project.folder), lambda: len(looks) > 2)
        assert caplog.records
        assert all(record.exc_info is None for record in caplog.records)
        message = caplog.records[0].getMessage()
        assert message.startswith("the queue: ValueError: so\\u001b[2J and so (test_queue.py:")


def work_until(queue: Queue, holds: Callable[[], bool]) -> None:
    """Let the queue work in this process."""

    async def work() -> None:
        supervisor = Supervisor(queue, 1)
        task = asyncio.create_task(supervisor.work())
        async with asyncio.timeout(60):
            while not holds():
                assert not task.done(), "the queue works no more"
                await asyncio.sleep(0.01)
        await supervisor.close()
        await task

    asyncio.run(work())


@pytest.mark.slow
@pytest.mark.parametrize("change", ["changed", "gone"])
def test_a_posted_suite_that_was_changed_meanwhile_is_not_run(project: Project, change: str):
    served = Served(project.folder)
    post(served.server, cases=1, delay_ms=3000)
    run = post(served.server).id
    served.kill()
    suite = project.folder / ".rejoinder" / "queue" / run / "suite.yaml"
    if change == "changed":
        suite.write_text(json.dumps({**scripted(1), "checks": [{"code": "touch ran"}]}))
    else:
        suite.unlink()
    with serving(project.folder, "--jobs", "2") as again:
        ended = again.server.wait(run)
        assert (ended.status, ended.message) == ("refused", "its files are not what was posted")
    assert not (project.folder / "ran").exists()
    assert not (runs_folder(project.folder) / run).exists()


def test_a_server_that_only_shows_starts_nothing(project: Project):
    queue = Queue(project.folder)
    project.write("evals.yaml", scripted())
    run = queue.reserve()
    queue.put(Entry(id=run, job=job_for(queue), title="t", queued_at=time.time()))
    with serving(project.folder, "--read-only") as served:
        with pytest.raises(ServerError, match="read-only"):
            served.server.start("evals.yaml")
        time.sleep(1.2)
        assert served.server.status(run).status == "queued"
    assert not (runs_folder(project.folder) / run).exists()
