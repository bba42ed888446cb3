"""Runs on a server, from Python and from commands: a real server, and what it is told and tells."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

import rejoinder
from rejoinder.cli.remote import gather
from tests.kit import Project, run_process
from tests.server.kit import Served, scripted, serving


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Project, Served]]:
    """A project and its server, for all tests here."""
    folder = tmp_path_factory.mktemp("served")
    (folder / ".rejoinder").mkdir()
    project = Project(folder)
    project.write("evals.yaml", scripted())
    failing = scripted(3, name="failing")
    failing["evals"][1]["checks"] = [{"contains": "three"}]
    project.write("failing.yaml", failing)
    project.write(
        ".rejoinder/targets.yaml", {"targets": [{"name": "ours", "provider": "scripted", "replies": ["one"]}]}
    )
    with serving(folder) as served:
        yield project, served


class TestPython:
    def test_a_run_is_started_and_waited_for(self, place: tuple[Project, Served]):
        server = rejoinder.Server(place[1].url)
        run = server.start("failing.yaml", options=rejoinder.RunChoices(repeat=2, cases=("c1", "c2")))
        assert (run.status, run.is_over) == ("queued", False)
        ended = server.wait(run.id, timeout_s=60)
        assert (ended.status, ended.exit_code, ended.planned, ended.done) == ("completed", 1, 4, 4)
        assert server.document(run.id)["summary"]["failed"] == 2

    @pytest.mark.slow
    def test_events_tell_each_conversation_and_the_end(self, place: tuple[Project, Served]):
        server = rejoinder.Server(place[1].url)
        run = server.start(yaml=json.dumps(scripted(4, delay_ms=100)), options=rejoinder.RunChoices(workers=1))
        events = list(server.events(run.id))
        told = [event.data["id"] for event in events if event.kind == "conversation"]
        assert set(told) == {"c0", "c1", "c2", "c3"}
        assert next(event.data["status"] for event in events if event.kind == "status") == "queued"
        assert events[-1].kind == "end"
        assert events[-1].data["exit_code"] == 0
        later = list(server.events(run.id, after="f3"))
        assert [event.data["id"] for event in later if event.kind == "conversation"] == ["c3"]

    def test_a_refusal_says_why(self, place: tuple[Project, Served]):
        server = rejoinder.Server(place[1].url)
        with pytest.raises(rejoinder.RequestRefused) as refused:
            server.start("none.yaml")
        assert (refused.value.status, refused.value.code) == (422, "refused")
        assert "Name a saved suite" in (refused.value.hint or "")
        with pytest.raises(rejoinder.RequestRefused) as missing:
            server.status("20200101-000000-0000")
        assert (missing.value.status, missing.value.code) == (404, "no-run")

    def test_no_server_is_said_in_words(self):
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        with pytest.raises(rejoinder.ServerUnreachable, match="no rejoinder server answers"):
            rejoinder.Server(f"http://127.0.0.1:{port}").status("x")

    @pytest.mark.parametrize("url", ["ftp://a", "http://", "http://a/path", "http://a:port"])
    def test_what_is_no_address_is_refused(self, url: str):
        with pytest.raises(rejoinder.ServerError):
            rejoinder.Server(url)

    @pytest.mark.slow
    def test_waiting_has_an_end(self, place: tuple[Project, Served]):
        server = rejoinder.Server(place[1].url)
        run = server.start(yaml=json.dumps(scripted(1, delay_ms=1500)))
        with pytest.raises(TimeoutError):
            server.wait(run.id, timeout_s=0)
        server.wait(run.id)


class TestCommands:
    def test_a_suite_of_the_same_project_is_run_by_its_path(self, place: tuple[Project, Served]):
        project, served = place
        ended = run_process(project.folder, "run", "failing.yaml", "--server", served.url)
        assert ended.code == 1
        assert "2 of 3 passed, 1 failed" in ended.out
        assert "failed: c1 on s" in ended.err
        assert f"{served.url}/runs/2" in ended.err

    @pytest.mark.slow
    def test_one_of_another_project_is_sent_with_its_files(
        self, place: tuple[Project, Served], tmp_path_factory: pytest.TempPathFactory
    ):
        _, served = place
        other = Project(tmp_path_factory.mktemp("other"))
        (other.folder / ".rejoinder").mkdir()
        other.write("words/system.txt", "Be brief.")
        other.write("rows.jsonl", json.dumps({"id": "r", "prompt": {"file": "words/prompt.txt"}}))
        other.write("words/prompt.txt", "Count.")
        suite = {
            "metadata": {"system_prompt": {"file": "words/system.txt"}},
            "target": "ours",
            "cases": "rows.jsonl",
            "checks": [{"contains": "one"}],
        }
        other.write("evals.yaml", suite)
        ended = run_process(other.folder, "run", "evals.yaml", "--server", served.url, "--format", "json")
        assert ended.code == 0, ended.err
        document = json.loads(ended.out)
        assert document["summary"]["passed"] == 1
        assert list(other.folder.glob(".rejoinder/runs/*")) == []

    def test_nothing_below_the_suite_is_read_elsewhere(
        self, project: Project, tmp_path_factory: pytest.TempPathFactory
    ):
        private = tmp_path_factory.mktemp("private") / "key.txt"
        private.write_text("secret")
        for name in (str(private), "../key.txt", "link.txt"):
            (project.folder.parent / "key.txt").write_text("secret")
            (project.folder / "link.txt").unlink(missing_ok=True)
            (project.folder / "link.txt").symlink_to(private)
            path = project.write("evals.yaml", {**scripted(), "metadata": {"system_prompt": {"file": name}}})
            with pytest.raises(rejoinder.UsageError, match="cannot be sent"):
                gather(path)

    @pytest.mark.slow
    def test_async_prints_the_id_and_status_and_stop_use_it(self, place: tuple[Project, Served]):
        project, served = place
        at = ("--server", served.url)
        project.write("slow.yaml", {**scripted(100, delay_ms=800, name="slow"), "metadata": {"threads": 1}})
        going = run_process(project.folder, "run", "slow.yaml", "--async", *at)
        waiting = run_process(project.folder, "run", "evals.yaml", "--async", *at)
        run, later = going.out.strip(), waiting.out.strip()
        assert going.code == 0
        listed = run_process(project.folder, "status", *at).out
        assert run in listed
        assert later in listed
        for name in ("last", later[-4:], later):
            assert run_process(project.folder, "status", name, *at).out.startswith(f"{later}  queued")
        assert run_process(project.folder, "status", "last~1", *at).out.startswith(run)
        nothing = run_process(project.folder, "status", "last~99", *at)
        assert (nothing.code, "there is no run `last~99`" in nothing.err) == (2, True)
        assert "cancelled 1 run" in run_process(project.folder, "stop", "queued", *at).out
        assert f"{later} is cancelled" in run_process(project.folder, "status", later, *at).out
        assert run in run_process(project.folder, "stop", run[-4:], *at).out
        assert served.server.wait(run).status in ("interrupted", "cancelled")
        assert "nothing is queued or running" in run_process(project.folder, "status", *at).out
        assert run_process(project.folder, "stop", *at).code == 2

    @pytest.mark.parametrize(
        "option", ["--failed", "--dry-run", "--watch", "--record=x", "--shard=1/2", "--fail-under=9%"]
    )
    def test_what_only_this_machine_can_do_is_refused_beside_a_server(self, place: tuple[Project, Served], option: str):
        project, served = place
        ended = run_process(project.folder, "run", "evals.yaml", option, "--server", served.url)
        assert ended.code == 2
        assert "server" in ended.err

    def test_a_server_that_is_not_there_is_said_in_words(self, project: Project):
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        ended = run_process(project.folder, "status", "--server", f"http://127.0.0.1:{port}")
        assert ended.code == 2
        assert "no rejoinder server answers" in ended.err
        assert "Traceback" not in ended.err


class TestView:
    def test_a_port_that_is_taken_is_passed_over_unless_it_was_named(self, project: Project):
        with socket.create_server(("127.0.0.1", 0)) as taken:
            port = taken.getsockname()[1]
            ended = run_process(project.folder, "view", "--no-browser", "--port", str(port))
            assert ended.code == 2
            assert f"port {port} is taken" in ended.err

    def test_another_address_needs_a_token(self, project: Project):
        ended = run_process(project.folder, "view", "--no-browser", "--host", "0.0.0.0")
        assert ended.code == 2
        assert "a token is needed" in ended.err

    @pytest.mark.parametrize("given", [("--token", "a" * 15), ("--token", " " * 16 + "a")])
    def test_another_address_needs_a_token_that_cannot_be_guessed(self, project: Project, given: tuple[str, ...]):
        ended = run_process(project.folder, "view", "--no-browser", "--host", "0.0.0.0", *given)
        assert ended.code == 2
        assert "its token has fewer than 16 characters" in ended.err

    def test_a_short_token_of_the_environment_is_refused_too(self, project: Project):
        ended = run_process(project.folder, "view", "--no-browser", "--host", "0.0.0.0", REJOINDER_TOKEN="tok7777")
        assert ended.code == 2
        assert "its token has fewer than 16 characters" in ended.err

    @pytest.mark.slow
    def test_with_its_token_it_answers(self, project: Project):
        with serving(project.folder, "--token", "sesame") as served:
            with pytest.raises(rejoinder.RequestRefused) as refused:
                served.server.queue()
            assert refused.value.status == 401
            assert rejoinder.Server(served.url, token="sesame").queue() == ()
            ended = run_process(project.folder, "status", "--server", served.url, REJOINDER_TOKEN="sesame")
            assert ended.code == 0

    def test_without_its_packages_it_says_what_to_install(
        self, project: Project, tmp_path_factory: pytest.TempPathFactory
    ):
        hidden = tmp_path_factory.mktemp("hidden")
        (hidden / "sitecustomize.py").write_text(
            "import sys, importlib.abc\n"
            "class Hide(importlib.abc.MetaPathFinder):\n"
            "    def find_spec(self, name, path=None, target=None):\n"
            "        if name.split('.')[0] in ('starlette', 'uvicorn'):\n"
            "            raise ModuleNotFoundError(name)\n"
            "sys.meta_path.insert(0, Hide())\n"
        )
        source = Path(rejoinder.__file__).parent.parent
        ended = run_process(project.folder, "view", "--no-browser", PYTHONPATH=f"{hidden}:{source}")
        assert ended.code == 2
        assert '-m pip install "starlette>=' in ended.err
