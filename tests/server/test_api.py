"""The HTTP API: what it shows of runs, what acts on them, and what it refuses."""

from __future__ import annotations

import asyncio
import json
import os
import tracemalloc
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import httpx
import pytest
from msgspec import structs

from rejoinder.calibration.labels import read_labels
from rejoinder.history.index import read_history
from rejoinder.project.user_files import save_value
from rejoinder.report.page.markup import address
from rejoinder.run_files import RunDamaged
from rejoinder.runs.folder import RunFolder, runs_folder
from rejoinder.runs.recorded import RecordedRun
from rejoinder.runs.verify import find_damage
from rejoinder.server import events, labels, streams
from rejoinder.server.api import ROUTES
from rejoinder.server.app import make_app
from rejoinder.server.damage import Damage
from rejoinder.server.desk import Desk
from rejoinder.server.judged import judged_in, labels_of
from rejoinder.server.listed import listed
from rejoinder.server.queue import Queue
from rejoinder.server.settings import Limits
from rejoinder.server.streams import event
from tests.kit import Project
from tests.server.kit import api, ask, play, scripted, serving, settings, shared_project, wait_until

UNKNOWN = "20200101-000000-0000"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project with two runs of a suite; in the second one a case fails."""
    folder = tmp_path_factory.mktemp("made")
    with shared_project(folder) as project:
        _make(project)
    return folder


def _make(project: Project) -> None:
    project.write("evals.yaml", scripted(3))
    project.run("run", "evals.yaml")
    failing = scripted(3)
    failing["evals"][1]["checks"] = [{"contains": "three"}]
    failing["targets"].append({"name": "j", "provider": "scripted", "judge": [1.0]})
    failing["evals"][2]["checks"] = [{"llm_judge": {"criteria": "Is it good?", "target": "j"}}]
    project.write("evals.yaml", failing)
    project.run("run", "evals.yaml", code=1)


def ids(project: Project) -> list[str]:
    return sorted(path.name for path in runs_folder(project.folder).glob("2*"))


def get(project: Project, path: str, **request: Any) -> Any:
    answer = api(settings(project.folder), "GET", path, **request)
    assert answer.status_code == 200, answer.text
    return answer.json()


CASE = {"case": "c0"}


def run_twins(project: Project) -> str:
    """A run of two suites that have one name, and a case of one id."""
    for file, reply in (("a.yaml", "one two"), ("deep/b.yaml", "three")):
        suite = scripted(1)
        suite["targets"] = [
            {"name": "s", "provider": "scripted", "replies": [reply]},
            {"name": "j", "provider": "scripted", "judge": [1.0]},
        ]
        suite["evals"][0]["checks"] = [{"llm_judge": {"criteria": "Is it good?", "target": "j"}}]
        project.write(file, suite)
    project.run("run", "a.yaml", "deep/b.yaml")
    return latest(project).name


def latest(project: Project) -> Path:
    return runs_folder(project.folder) / ids(project)[-1]


def indexed(project: Project, run: str) -> int:
    """How many conversations the viewer's index of a run has."""
    desk = Desk(settings(project.folder))
    try:
        return desk.index(desk.look(run)).state.rows
    finally:
        desk.close()


@pytest.fixture
def elsewhere(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that is not the project's."""
    return tmp_path_factory.mktemp("elsewhere")


def linked_places(made: Path) -> list[Path]:
    """A file in a folder of `.rejoinder`, and all that could be a link on the way to it."""
    return [made, made.parent, made.parent.parent, made.parent / ".lock"]


def move_behind_a_link(path: Path, elsewhere: Path) -> None:
    path.rename(elsewhere / path.name)
    path.symlink_to(elsewhere / path.name)


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def add_long_line(path: Path) -> None:
    """A line that is too long to be read, and behind it all lines again."""
    whole = path.read_bytes()
    with path.open("ab") as stream:
        stream.truncate(len(whole) + (96 << 20))  # a hole takes no room on the disk
        stream.seek(0, os.SEEK_END)
        stream.write(b"\n" + whole)


class TestRuns:
    def test_they_are_listed_as_the_command_lists_them(self, place: Project):
        listed = get(place, "/runs")
        assert [run["id"] for run in listed["runs"]] == list(reversed(ids(place)))
        assert (listed["total"], listed["queue"], listed["unverified"]) == (2, [], 0)

    @pytest.mark.parametrize(
        ("query", "found"),
        [
            ("status=failed", [1]),
            ("status=passed", [0]),
            ("status=passed,failed", [1, 0]),
            ("status_ne=failed", [0]),
            ("suite=numbers", [1, 0]),
            ("suite=other", []),
            ("model=s", [1, 0]),
            ("model_like=S", [1, 0]),
            ("min_success=100", [0]),
            ("max_success=99", [1]),
            ("date_from=2020-01-01", [1, 0]),
            ("date_to=2020-01-01", []),
            ("completed_to=2020-01-01", []),
            ("max_duration=0", []),
            ("sort_by=success", [0, 1]),
            ("sort_by=success&reverse=true", [1, 0]),
            ("limit=1", [1]),
            ("limit=1&offset=1", [0]),
            ("tag=none", []),
        ],
    )
    def test_they_are_filtered_by_the_filters_of_the_command(self, place: Project, query: str, found: list[int]):
        known = ids(place)
        assert [run["id"] for run in get(place, f"/runs?{query}")["runs"]] == [known[number] for number in found]

    @pytest.mark.parametrize(
        "query", ["status=odd", "limit=0", "limit=x", "date_from=soon", "min_cost=nan", "sort_by=x", "stats=failed"]
    )
    def test_a_filter_that_means_nothing_is_refused(self, place: Project, query: str):
        answer = api(settings(place.folder), "GET", f"/runs?{query}")
        assert answer.status_code == 422
        assert answer.json()["error"]["code"] == "invalid"

    def test_one_has_its_receipt_and_summary(self, place: Project):
        run = ids(place)[1]
        shown = get(place, f"/runs/{run}")
        assert (shown["status"], shown["exit_code"], shown["planned"], shown["done"]) == ("completed", 1, 3, 3)
        assert shown["run"] == json.loads((runs_folder(place.folder) / run / "run.json").read_text())
        assert shown["summary"] == json.loads((runs_folder(place.folder) / run / "summary.json").read_text())

    def test_a_damaged_one_is_shown_as_damaged(self, place: Project):
        run = ids(place)[1]
        (runs_folder(place.folder) / run / "summary.json").write_text("{")
        shown = get(place, f"/runs/{run}")
        assert shown["status"] == "damaged"
        assert "summary.json" in shown["message"]

    @pytest.mark.parametrize(
        ("name", "content"),
        [
            ("results.jsonl", '{"a":' + "[" * 5000 + "\n"),
            ("results.jsonl", '{"a": "' + "x" * 2_000_000 + '"}\n'),
            ("results.jsonl", ""),
            ("checksums", "{}"),
        ],
        ids=["deep", "long", "empty", "checksums"],
    )
    def test_a_run_whose_results_are_not_what_was_written_is_damaged_everywhere(
        self, place: Project, name: str, content: str
    ):
        first, run = ids(place)
        (runs_folder(place.folder) / run / name).write_text(content)
        assert "damaged" in place.run("verify", run, code=3)
        shown = get(place, f"/runs/{run}")
        assert (shown["status"], shown["exit_code"], shown.get("run"), shown.get("summary")) == (
            "damaged",
            3,
            None,
            None,
        )
        listed = get(place, "/runs")["runs"]
        assert [(row["id"], row["status"]) for row in listed] == [(run, "damaged"), (first, "completed")]
        assert listed[0]["summary"] is None
        assert [row["id"] for row in get(place, "/runs?status=damaged")["runs"]] == [run]
        assert [row["id"] for row in get(place, "/runs?status=completed,passed,failed")["runs"]] == [first]
        assert [row["id"] for row in get(place, "/runs?min_success=0")["runs"]] == [first]
        for path in ("results", "results/0"):
            answer = api(settings(place.folder), "GET", f"/runs/{run}/{path}")
            assert (answer.status_code, answer.json()["error"]["code"]) == (409, "damaged")
        ended = api(settings(place.folder), "GET", f"/runs/{run}/events").text
        assert '"status":"damaged"' in ended
        assert '"exit_code":0' not in ended
        assert "This run is damaged" in ask(settings(place.folder), "GET", f"/runs/{run}").text

    def test_errors_do_not_tell_where_the_project_lies_nor_what_reads_it(self, place: Project):
        run = ids(place)[1]
        of, folder = settings(place.folder), runs_folder(place.folder) / run
        deep = '{"a":' + "[" * 5000 + "\n"
        texts = [api(of, "POST", "/runs", {"suite": "evals.yaml", "options": {"targets": ["nobody"]}}).text]
        (place.folder / "broken.yaml").write_text("evals: [{prompt: a, checks: [{contain: b}]}]")
        texts.append(api(of, "POST", "/runs", {"suite": "broken.yaml"}).text)
        texts.append(ask(of, "POST", "/api/v1/runs", headers={"Content-Type": "application/json"}, content=deep).text)
        for name in ("results.jsonl", "summary.json", "journal.jsonl", "suite.json", "run.json"):
            whole = (folder / name).read_bytes()
            for content in (deep.encode(), b"\xff\n", b""):
                (folder / name).write_bytes(content)
                texts += [
                    api(of, "GET", f"/runs/{run}{rest}").text for rest in ("", "/results", "/results/0", "/events")
                ]
                texts.append(api(of, "GET", f"/compare?a={run}&b={ids(place)[0]}").text)
                texts.append(api(of, "POST", f"/runs/{run}/fork", {"case": "c0", "turn": 1}).text)
                texts.append(api(of, "POST", f"/runs/{run}/bless", {"name": "main"}).text)
            (folder / name).write_bytes(whole)
        for text in texts:
            assert str(place.folder) not in text
            assert "recursion" not in text
            assert "codec" not in text

    def test_a_list_verifies_a_run_once_and_again_when_it_has_changed(
        self, place: Project, monkeypatch: pytest.MonkeyPatch
    ):
        verified: list[str] = []

        def counting(recorded: RecordedRun) -> RunDamaged | None:
            verified.append(recorded.folder.id)
            return find_damage(recorded)

        monkeypatch.setattr("rejoinder.server.damage.find_damage", counting)
        damage, (first, second) = Damage(place.folder), ids(place)
        for _ in range(2):
            assert not damage.history().unverified
        assert sorted(verified) == [first, second]
        path = runs_folder(place.folder) / second / "results.jsonl"
        path.write_text(path.read_text() + "\n")
        statuses = {row.id: row.status for row in damage.history().history.rows}
        assert statuses == {first: "completed", second: "damaged"}
        assert sorted(verified) == [first, second, second]

    def test_a_list_does_not_wait_for_runs_that_take_long_to_verify(
        self, place: Project, monkeypatch: pytest.MonkeyPatch
    ):
        monkeypatch.setattr("rejoinder.server.damage.QUICKLY", 0)
        (runs_folder(place.folder) / ids(place)[1] / "results.jsonl").write_text("{}\n")
        damage = Damage(place.folder)
        assert damage.history().unverified == set(ids(place))
        wait_until(lambda: not damage.history().unverified)
        assert [row.status for row in damage.history().history.rows] == ["completed", "damaged"]

    def test_a_pipe_or_a_link_in_a_folder_is_not_opened(self, place: Project):
        first, second = ids(place)
        os.mkfifo(runs_folder(place.folder) / first / "results.jsonl.pipe")
        results = runs_folder(place.folder) / second / "results.jsonl"
        results.unlink()
        results.symlink_to("/etc/passwd")
        for run in (first, second):
            state = get(place, f"/runs/{run}")
            assert (state["status"], state["exit_code"]) == ("damaged", 3)
            assert api(settings(place.folder), "GET", f"/runs/{run}/results").status_code == 409

    @pytest.mark.parametrize(
        "name", [UNKNOWN, "..", "%2e%2e", "..%2f..%2fetc", "last", "2", "%00", "20200101-000000-0000%2f..", "é" * 300]
    )
    @pytest.mark.parametrize("rest", ["", "/results", "/results/0", "/events"])
    def test_no_other_name_leads_anywhere(self, place: Project, name: str, rest: str):
        answer = api(settings(place.folder), "GET", f"/runs/{name}{rest}")
        assert answer.status_code == 404
        assert set(answer.json()) == {"error"}

    def test_a_link_is_no_run(self, place: Project, tmp_path_factory: pytest.TempPathFactory):
        other = tmp_path_factory.mktemp("other") / UNKNOWN
        (runs_folder(place.folder) / ids(place)[0]).rename(other)
        (runs_folder(place.folder) / UNKNOWN).symlink_to(other)
        assert api(settings(place.folder), "GET", f"/runs/{UNKNOWN}").status_code == 404

    def test_one_is_deleted(self, place: Project):
        first, second = ids(place)
        assert api(settings(place.folder), "DELETE", f"/runs/{first}").status_code == 200
        assert ids(place) == [second]
        assert api(settings(place.folder), "DELETE", f"/runs/{first}").status_code == 404


class TestResults:
    def test_a_page_has_them_as_the_file_has(self, place: Project):
        run = ids(place)[1]
        lines = (runs_folder(place.folder) / run / "results.jsonl").read_text().splitlines()
        shown = get(place, f"/runs/{run}/results")
        assert shown == {"results": [json.loads(line) for line in lines], "total": 3}
        assert get(place, f"/runs/{run}/results/1") == json.loads(lines[1])
        assert api(settings(place.folder), "GET", f"/runs/{run}/results/3").status_code == 404

    @pytest.mark.parametrize(
        ("query", "found", "total"),
        [
            ("status=failed", ["c1"], 1),
            ("status=failed,passed", ["c0", "c1", "c2"], 3),
            ("target=s", ["c0", "c1", "c2"], 3),
            ("target=other", [], 0),
            ("q=C2", ["c2"], 1),
            ("q=ONE+TWO", ["c0", "c1", "c2"], 3),
            ("q=nothing", [], 0),
            ("limit=1", ["c0"], 3),
            ("limit=1&offset=2", ["c2"], 3),
            ("offset=9", [], 3),
        ],
    )
    def test_filters(self, place: Project, query: str, found: list[str], total: int):
        shown = get(place, f"/runs/{ids(place)[1]}/results?{query}")
        assert ([result["id"] for result in shown["results"]], shown["total"]) == (found, total)

    def test_those_of_a_killed_run_are_in_its_draft(self, place: Project):
        folder = RunFolder(runs_folder(place.folder) / ids(place)[0])
        folder.results.rename(folder.path / ".results.jsonl.0123456789abcdef.draft")
        receipt = folder.read_receipt()
        assert receipt is not None
        folder.write_receipt(structs.replace(receipt, status="running"))
        state = get(place, f"/runs/{folder.id}")
        assert (state["status"], state["exit_code"]) == ("killed", 130), "as `rejoinder show` says"
        assert get(place, f"/runs/{folder.id}/results")["total"] == 3
        assert indexed(place, folder.id) == 3

    def test_a_draft_in_the_folder_of_a_run_that_has_ended_is_not_read(self, place: Project):
        folder = RunFolder(runs_folder(place.folder) / ids(place)[0])
        (folder.path / ".results.jsonl.0123456789abcdef.draft").write_bytes(folder.results.read_bytes() * 2)
        assert get(place, f"/runs/{folder.id}/results")["total"] == 3
        assert indexed(place, folder.id) == 3

    def test_a_damaged_line_is_no_answer(self, place: Project):
        run = ids(place)[1]
        path = runs_folder(place.folder) / run / "results.jsonl"
        path.write_text(path.read_text() + "{}\n")
        assert api(settings(place.folder), "GET", f"/runs/{run}/results").json()["error"]["code"] == "damaged"

    def test_a_line_that_is_too_long_is_not_held(self, place: Project):
        run = ids(place)[1]
        path = runs_folder(place.folder) / run / "results.jsonl"
        add_long_line(path)
        tracemalloc.start()
        answers = [
            api(settings(place.folder), "GET", f"/runs/{run}/results{rest}")
            for rest in ("", "/3", "?status=failed", "?limit=3", "?limit=3&offset=4", "/4")
        ]
        _, most = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert [answer.status_code for answer in answers] == [409, 409, 409, 200, 200, 200]
        assert {answer.json()["error"]["code"] for answer in answers[:3]} == {"too-large"}
        assert [answer.json()["total"] for answer in answers[3:5]] == [7, 7]
        assert most < 80 << 20, "at most what is read of one line, and its end"


async def one_after_another() -> AsyncGenerator[bytes | None]:
    yield event("a", {"text": "half of a character: \ud83d"})
    for _ in range(3):
        yield None
    yield event("b", {}, "7")


class TestEvents:
    def told(self, place: Project, **headers: str) -> list[tuple[str, str]]:
        """Kind and mark of each event of the second run, which has ended."""
        answer = api(settings(place.folder), "GET", f"/runs/{ids(place)[1]}/events", headers=headers)
        blocks = [
            dict(line.split(": ", 1) for line in block.split("\n")) for block in answer.text.split("\n\n") if block
        ]
        return [(block["event"], block.get("id", "")) for block in blocks]

    def test_a_line_that_is_too_long_is_passed_over_counted_and_not_held(self, place: Project):
        add_long_line(latest(place) / "results.jsonl")
        tracemalloc.start()
        told = self.told(place)
        _, most = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert [mark for kind, mark in told if kind == "conversation"] == ["f1", "f2", "f3", "f5", "f6", "f7"]
        assert told[-1] == ("end", "")
        assert most < 80 << 20

    def test_who_comes_back_is_told_the_rest_however_much_was_told_before(
        self, place: Project, monkeypatch: pytest.MonkeyPatch
    ):
        monkeypatch.setattr(events, "MOST_READ", 1)
        marks = [mark for _, mark in self.told(place, **{"Last-Event-ID": "f2"}) if mark]
        assert marks == ["f3"]

    @pytest.mark.parametrize("line", [b"{}", b"[" * 100_000, b'{"x": ' * 100_000, b"\xff", b'"\\ud800"', b"\0"])
    def test_a_line_that_is_no_result_ends_them(self, place: Project, line: bytes):
        with (latest(place) / "results.jsonl").open("ab") as stream:
            stream.write(line + b"\n")
        assert self.told(place)[-1] == ("end", "")


class TestStreams:
    @pytest.mark.parametrize("path", ["/api/v1/runs/{}/events", "/data/runs/{}/live"])
    def test_there_are_no_more_than_the_server_bears(self, place: Project, path: str):
        of = settings(place.folder, limits=Limits(streams=0))
        answer = ask(of, "GET", path.format(ids(place)[0]))
        assert (answer.status_code, answer.headers["retry-after"]) == (429, "5")

    def test_those_of_pages_and_of_the_api_are_counted_together(self, place: Project):
        async def open_two() -> list[int]:
            app = make_app(settings(place.folder, limits=Limits(streams=1)))
            held = app.state.api.streams.told(one_after_another(), 0.0)
            await anext(held)
            codes: list[int] = []
            base = f"http://127.0.0.1:{settings(place.folder).port}"
            async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url=base) as client:
                for path in ("/api/v1/runs/{}/events", "/data/runs/{}/live"):
                    codes.append((await client.get(path.format(ids(place)[0]))).status_code)
                await held.aclose()
                codes.append((await client.get(f"/data/runs/{ids(place)[0]}/live")).status_code)
            return codes

        assert asyncio.run(open_two()) == [429, 429, 200]

    def test_a_silent_one_shows_that_it_is_alive(self, monkeypatch: pytest.MonkeyPatch):
        monkeypatch.setattr(streams, "BEAT_S", 0.002)

        async def listen() -> list[bytes]:
            return [one async for one in streams.Streams(1, asyncio.Event()).told(one_after_another(), 0.001)]

        first, *beats, last = asyncio.run(listen())
        assert first == 'event: a\ndata: {"text":"half of a character: \ufffd"}\n\n'.encode()
        assert beats == [streams.BEAT]
        assert last == b"event: b\nid: 7\ndata: {}\n\n"

    def test_they_end_with_the_server(self):
        async def listen() -> list[bytes]:
            closing = asyncio.Event()
            closing.set()
            return [one async for one in streams.Streams(1, closing).told(one_after_another(), 60.0)]

        assert len(asyncio.run(listen())) == 1


class TestCompare:
    def test_it_says_what_the_command_says(self, place: Project):
        first, second = ids(place)
        shown = get(place, f"/compare/{first}/{second}")
        assert shown == place.run_json("compare", first, second, code=None)

    def test_a_baseline_stands_for_its_run(self, place: Project):
        first, second = ids(place)
        place.run("bless", first, "--name", "good")
        assert get(place, f"/compare/good/{second}") == get(place, f"/compare/{first}/{second}")

    @pytest.mark.parametrize("name", [UNKNOWN, "none", "..", "%2e%2e%2fx"])
    def test_what_is_not_there_is_not_compared(self, place: Project, name: str):
        assert api(settings(place.folder), "GET", f"/compare/{ids(place)[0]}/{name}").status_code == 404


class TestLists:
    def test_secrets_are_names(self, place: Project):
        save_value("secrets", "token", "do-not-tell")
        save_value("vars", "city", "Oslo")
        assert "token" in get(place, "/secrets")["secrets"]
        assert "do-not-tell" not in json.dumps(get(place, "/secrets"))
        assert get(place, "/vars")["vars"]["city"] == "Oslo"

    def test_targets_have_no_settings(self, place: Project):
        target = {"name": "t", "provider": "openai", "model": "m", "api_key": "do-not-tell"}
        place.write(".rejoinder/targets.yaml", {"targets": [target]})
        assert get(place, "/targets")["targets"] == [{"name": "t", "provider": "openai", "model": "m"}]

    def test_suites_are_files_of_the_project_and_saved_names(self, place: Project):
        place.write("deep/other.yaml", scripted())
        place.write(".hidden/other.yaml", scripted())
        place.write("no-suite.yaml", "a: 1")
        found = [suite["name"] for suite in get(place, "/suites")["suites"] if not suite["saved"]]
        assert found == ["deep/other.yaml", "evals.yaml"]

    def test_models_and_health(self, place: Project):
        found = get(place, "/models?q=gpt-5&limit=1")
        assert len(found["models"]) == 1
        assert found["total"] > 1
        assert get(place, "/health")["status"] == "ok"


class TestActs:
    def test_notes_are_replaced(self, place: Project):
        run = ids(place)[0]
        of = settings(place.folder)
        assert api(of, "PUT", f"/runs/{run}/notes", {"tags": ["a", "b", "a"], "note": "n"}).json()["tags"] == ["a", "b"]
        assert api(of, "PUT", f"/runs/{run}/notes", {"tags": ["c"]}).status_code == 200
        assert get(place, f"/runs/{run}")["notes"] == {"tags": ["c"], "note": ""}
        assert api(of, "PUT", f"/runs/{run}/notes", {"tags": ["a b"]}).status_code == 422

    def test_a_run_is_blessed(self, place: Project):
        run = ids(place)[0]
        answer = api(settings(place.folder), "POST", f"/runs/{run}/bless", {"name": "main"})
        assert answer.json() == {
            "name": "main",
            "run": run,
            "file": ".rejoinder/baselines/main.json",
            "replaced": None,
        }
        assert api(settings(place.folder), "POST", f"/runs/{run}/bless", {"name": "../x"}).status_code == 422

    def test_a_label_is_written_for_the_judge_test(self, place: Project):
        of = settings(place.folder)
        label = {"run": ids(place)[1], "case": "c2", "target": "s", "turn": 1, "check": [0], "label": "pass"}
        first = api(of, "POST", "/labels", label).json()
        again = api(of, "POST", "/labels", {**label, "label": "fail", "note": "n"}).json()
        assert (first["labels"], again["labels"]) == (1, 1)
        file = read_labels(place.folder / again["file"])
        assert [(one.reply, one.passed, one.prompt) for one in file.labels] == [("one two", False, "Count.")]
        assert get(place, "/labels")["labels"] == [
            {"name": again["name"], "file": again["file"], "labels": 1, "passed": 0}
        ]
        assert get(place, f"/labels/{again['name']}")["labels"][0]["note"] == "n"
        place.run("judge", "test", "evals.yaml", "--labels", again["file"], "--check", again["name"], code=None)

    def test_any_reply_can_be_labelled_without_a_judge(self, place: Project):
        of = settings(place.folder)
        assert get(place, "/labels/replies")["labels"] == []
        label = {"run": ids(place)[0], "case": "c0", "target": "s", "turn": 1, "label": "fail", "note": "n"}
        first = api(of, "POST", "/labels", label)
        assert first.status_code == 200, first.text
        again = api(of, "POST", "/labels", {**label, "label": "pass"}).json()
        assert (again["name"], again["labels"]) == ("replies", 1)
        file = read_labels(place.folder / again["file"])
        assert [(one.reply, one.passed, one.prompt) for one in file.labels] == [("one two", True, "Count.")]
        assert file.judge is None
        [row] = get(place, "/labels/replies")["labels"]
        assert row["id"] == f"{ids(place)[0]}:numbers:c0:s::1:1"
        ended = place.invoke("judge", "test", "evals.yaml", "--labels", again["file"])
        assert "warning" not in ended.output

    def test_labels_for_other_criteria_are_a_warning_that_names_both(self, place: Project):
        of = settings(place.folder)
        label = {"run": ids(place)[1], "case": "c2", "target": "s", "turn": 1, "check": [0], "label": "pass"}
        given = api(of, "POST", "/labels", label).json()
        assert read_labels(place.folder / given["file"]).asked == "Is it good?"
        same = place.invoke("judge", "test", "evals.yaml", "--labels", given["file"])
        assert "warning" not in same.output
        words = ("judge", "test", "--labels", given["file"], "--criteria", "Is it short?", "--target", "j")
        judge = {"name": "j", "provider": "scripted", "judge": [1.0]}
        place.write(".rejoinder/targets.yaml", {"targets": [judge]})
        other = place.invoke(*words)
        assert f"warning: the labels were given for judge {given['name']} (Is it good?)" in other.output
        assert "and not for this judge" in other.output
        assert "Is it short?" in other.output

    @pytest.mark.parametrize(
        ("change", "status"),
        [
            ({"case": "none"}, 404),
            ({"turn": 9}, 404),
            ({"check": [9]}, 422),
            ({"case": "c0"}, 422),
            ({"label": "maybe"}, 422),
            ({"run": UNKNOWN}, 404),
            ({"run": "../x"}, 404),
        ],
    )
    def test_a_label_for_nothing_is_refused(self, place: Project, change: dict[str, Any], status: int):
        label = {"run": ids(place)[1], "case": "c2", "target": "s", "turn": 1, "check": [0], "label": "pass", **change}
        assert api(settings(place.folder), "POST", "/labels", label).status_code == status
        assert not (place.folder / ".rejoinder" / "labels").exists()

    @pytest.mark.parametrize("link", [".rejoinder", "labels", "DIGEST.jsonl", ".lock"])
    def test_no_label_is_written_or_read_through_a_link(self, place: Project, elsewhere: Path, link: str):
        of = settings(place.folder)
        label = {"run": ids(place)[1], "case": "c2", "target": "s", "turn": 1, "check": [0], "label": "pass"}
        made = place.folder / api(of, "POST", "/labels", label).json()["file"]
        known = made.read_bytes()
        move_behind_a_link(
            next(path for path in linked_places(made) if path.name == link.replace("DIGEST", made.stem)), elsewhere
        )
        before = contents(elsewhere)
        answer = api(of, "POST", "/labels", {**label, "label": "fail"})
        assert contents(elsewhere) == before
        if link == "DIGEST.jsonl":
            assert (answer.status_code, answer.json()["error"]["code"]) == (409, "damaged")
            assert known in before.values()
        else:
            assert answer.status_code == (404 if link == ".rejoinder" else 409)
        if link != ".lock":
            assert get(place, "/labels")["labels"] == []
            assert api(of, "GET", f"/labels/{made.stem}").status_code in (404, 409)

    def test_a_file_in_the_place_of_the_folder_of_labels_is_named(self, place: Project):
        (place.folder / ".rejoinder" / "labels").write_text("mine")
        label = {"run": ids(place)[1], "case": "c2", "target": "s", "turn": 1, "check": [0], "label": "pass"}
        error = api(settings(place.folder), "POST", "/labels", label).json()["error"]
        assert error["code"] == "damaged"
        assert "labels is damaged: it is not a folder" in error["message"]

    def test_a_file_of_labels_has_a_bound(self, place: Project):
        made = place.folder / ".rejoinder" / "labels" / "abcd1234.jsonl"
        made.parent.mkdir()
        with made.open("wb") as stream:
            stream.truncate(labels.LARGEST + 1)
        assert get(place, "/labels")["labels"] == []
        assert "has more than 64 MiB" in api(settings(place.folder), "GET", "/labels/abcd1234").text

    @pytest.mark.parametrize("link", [".rejoinder", "baselines", "main.json"])
    def test_no_baseline_is_written_through_a_link(self, place: Project, elsewhere: Path, link: str):
        of, run = settings(place.folder), ids(place)[0]
        made = place.folder / api(of, "POST", f"/runs/{run}/bless", {}).json()["file"]
        linked = next(path for path in linked_places(made) if path.name == link)
        move_behind_a_link(linked, elsewhere)
        before = contents(elsewhere)
        answer = api(of, "POST", f"/runs/{run}/bless", {})
        assert contents(elsewhere) == before
        # What is written anew takes the place of a link to a file.
        assert answer.status_code == {".rejoinder": 404, "baselines": 409, "main.json": 200}[link]

    @pytest.mark.parametrize("link", ["notes.json", "lock"])
    def test_no_note_is_written_through_a_link(self, place: Project, elsewhere: Path, link: str):
        of, run = settings(place.folder), ids(place)[0]
        assert api(of, "PUT", f"/runs/{run}/notes", {"note": "first"}).status_code == 200
        move_behind_a_link(runs_folder(place.folder) / run / link, elsewhere)
        before = contents(elsewhere)
        assert api(of, "PUT", f"/runs/{run}/notes", {"note": "second"}).status_code == 409
        assert contents(elsewhere) == before

    @pytest.mark.parametrize("link", [".rejoinder", "queue", "runs", "grades"])
    @pytest.mark.parametrize("path", ["/runs", "/runs/{run}/grade"])
    def test_nothing_is_queued_through_a_link(self, place: Project, elsewhere: Path, link: str, path: str):
        run = ids(place)[0]
        linked = place.folder / ".rejoinder" / link.removeprefix(".rejoinder")
        linked.mkdir(exist_ok=True)
        move_behind_a_link(linked, elsewhere)
        before = contents(elsewhere)
        body = {"suite": "evals.yaml"} if path == "/runs" else {}
        answer = api(settings(place.folder), "POST", path.format(run=run), body)
        assert answer.status_code in (404, 409)
        assert contents(elsewhere) == before

    @pytest.mark.slow
    def test_fork_grade_and_rerun_are_queued_and_run(self, place: Project):
        run = ids(place)[1]
        with serving(place.folder) as served:
            server = served.server
            asked = {
                "fork": {"case": "c0", "turn": 1, "prompt": "--case=c1 Count again.", "repeat": 2},
                "grade": {},
                "rerun": {"only": "failed"},
            }
            started = {
                act: server._ask("POST", f"/runs/{run}/{act}", dict[str, Any], body)["id"]
                for act, body in asked.items()
            }
            ended = {act: server.wait(one) for act, one in started.items()}
            fork = server.document(started["fork"])
            grades = server.document(started["grade"])
        assert {act: state.exit_code for act, state in ended.items()} == {"fork": 0, "grade": 1, "rerun": 1}
        assert {act: state.planned for act, state in ended.items()} == {"fork": 2, "grade": 3, "rerun": 1}
        assert fork["run"]["options"]["fork"]["prompt"] == "--case=c1 Count again."
        assert grades["run"]["grade_of"] == run
        assert (place.folder / ".rejoinder" / "grades" / run / started["grade"]).is_dir()

    @pytest.mark.parametrize(
        ("word", "reply"),
        [("numbers (a.yaml)", "one two"), ("numbers (deep/b.yaml)", "three"), ("deep/b.yaml", "three")],
    )
    def test_a_fork_takes_the_case_of_the_suite_that_the_row_names(self, project: Project, word: str, reply: str):
        run = run_twins(project)
        answer = api(settings(project.folder), "POST", f"/runs/{run}/fork", {"case": "c0", "suite": word, "turn": 1})
        assert answer.status_code == 202, answer.text
        [entry] = Queue(project.folder).entries()
        play(project.folder, entry.id, entry.job)
        [result] = [json.loads(line) for line in (RunFolder(latest(project)).results).read_text().splitlines()]
        assert result["turns"][0]["response"] == reply

    def test_a_run_has_one_title_everywhere(self, project: Project):
        run = run_twins(project)
        desk = Desk(settings(project.folder))
        [listed_run] = [listed(desk, row) for row in read_history(project.folder).rows]
        assert get(project, f"/runs/{run}")["title"] == listed_run.title == desk.look(run).title == "numbers"

    def test_a_name_that_two_suites_have_says_too_little(self, project: Project):
        answer = api(settings(project.folder), "POST", f"/runs/{run_twins(project)}/fork", CASE | {"suite": "numbers"})
        assert (answer.status_code, answer.json()["error"]["code"]) == (422, "several-suites")

    def test_replies_to_one_case_of_two_suites_have_labels_of_their_own(self, project: Project):
        run = run_twins(project)
        of = settings(project.folder)
        for word in ("numbers (a.yaml)", "numbers (deep/b.yaml)"):
            label = {"run": run, "suite": word, "target": "s", "turn": 1, "check": [0], "label": "pass", **CASE}
            answer = api(of, "POST", "/labels", label)
            assert answer.status_code == 200, answer.text
        assert answer.json()["labels"] == 2
        desk = Desk(of)
        items = [one.item for one in judged_in(desk.look(run), answer.json()["name"])]
        assert {item.id for item in items} == set(labels_of(desk, answer.json()["name"]))
        for item in items:
            name = address(item.suite, item.case, item.target, "-", "1")
            assert ask(of, "GET", f"/runs/{run}/c/{name}").status_code == 200

    @pytest.mark.parametrize(
        ("body", "status"),
        [
            ({"case": "c0", "trial": 0}, 422),
            ({"case": "c0", "target": "openai/gpt-5"}, 422),
            ({"case": "c0", "suite": "other"}, 404),
            ({"turn": 1}, 422),
            ({"case": "c0", "turn": 0}, 422),
            ({"case": "c0", "code": "x"}, 422),
        ],
    )
    def test_a_fork_that_cannot_be_is_refused_at_once(self, place: Project, body: dict[str, Any], status: int):
        answer = api(settings(place.folder), "POST", f"/runs/{ids(place)[1]}/fork", body)
        assert answer.status_code == status, answer.text
        assert Queue(place.folder).entries() == []


@pytest.mark.parametrize("route", [route for route in ROUTES if route.changes], ids=lambda route: route.path)
def test_a_server_that_only_shows_changes_nothing(place: Project, route: Any):
    run = ids(place)[0]
    before = sorted(str(path) for path in place.folder.rglob("*"))
    path = route.path.replace("{run}", run)
    answer = api(settings(place.folder, read_only=True), route.method, path, {})
    assert (answer.status_code, answer.json()["error"]["code"]) == (403, "read-only")
    assert sorted(str(path) for path in place.folder.rglob("*")) == before


@pytest.mark.parametrize("path", ["/", "/none", "/runs/x/y/z", ""])
def test_every_error_has_one_form(tmp_path: Path, path: str):
    for method in ("GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"):
        answer = api(settings(tmp_path), method, path)
        assert answer.status_code in (404, 405)
        assert set(answer.json()["error"]) == {"code", "message"}


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"null", b'"x"', b"\xff", b'{"suite": 1}', b"[" * 100_000])
def test_a_body_that_is_none_is_refused(project: Project, body: bytes):
    from tests.server.kit import ask

    headers = {"Content-Type": "application/json"}
    answer = ask(settings(project.folder), "POST", "/api/v1/runs", headers=headers, content=body)
    assert answer.status_code in (400, 422)
    assert answer.json()["error"]["code"] in ("invalid", "not-json")
