"""`start`: a target's own service, started once in a run, waited for, and ended with the run."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.kit import (
    KILLED,
    Process,
    Project,
    Raw,
    assert_gone,
    bounded,
    codes,
    is_alive,
    only_run,
    refusal,
    run,
    run_folders,
    run_process,
    statuses,
    wait_until,
)
from tests.labs.bot_lab import BOT, bot, free_port, log_of, pids, suite_of

pytestmark = pytest.mark.slow
SECRET = "swordfish-swordfish-1234"


@pytest.fixture
def home(project: Project) -> Project:
    project.write("bot.py", BOT)
    return project


def error_of(document: Raw) -> str:
    return document["results"][0]["error"]["message"]


def test_a_service_is_started_once_and_ended_with_the_run(home: Project) -> None:
    port = free_port()
    second = {**bot(port, "children"), "name": "same", "reply_path": "$.reply"}
    done = run(home, suite_of(bot(port, "children"), second, prompts=("Hello", "Bye")), code=0)
    assert set(statuses(done).values()) == {"passed"}
    started = pids(home, 3)
    assert len(started) == 3  # one bot, its child, and one that left its group
    assert_gone(*started)
    assert log_of(only_run(home.folder)) == f"bot: listening on {port}\n"


@pytest.mark.parametrize("ready", ["line: listening on", {"line": "listening on"}])
def test_a_line_of_output_tells_that_it_is_ready(home: Project, ready: Raw | str) -> None:
    run(home, suite_of(bot(free_port(), ready=ready)), code=0)


def test_a_python_target_has_a_service_and_a_shell_may_read_the_command(home: Project) -> None:
    port = free_port()
    home.write(
        "ask.py",
        "import json, urllib.request\n"
        "def ask(messages):\n"
        f"    data = json.dumps({{'q': messages[-1]['content']}}).encode()\n"
        f"    with urllib.request.urlopen('http://127.0.0.1:{port}/chat', data) as answer:\n"
        "        return json.load(answer)['reply']\n",
    )
    start = {"command": f"echo begin && exec python3 ../bot.py {port} warming", "cwd": "sub"}
    home.write("sub/keep", "")
    start["ready"] = f"http://127.0.0.1:{port}/"
    run(home, suite_of({"name": "mine", "provider": "python", "call": "ask:ask", "start": start}), code=0)
    assert "mine: begin" in log_of(only_run(home.folder))


def test_a_service_that_exits_early_is_a_clear_error(home: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_NAME", SECRET)
    target = bot(free_port(), "exits", env={"BOT_KEY": "${{ SOME_NAME }}"})
    done = run(home, suite_of(target, prompts=("a", "b", "c")), code=3)
    assert "ended with exit code 1 before it was ready" in error_of(done)
    assert "loading the model" in error_of(done) and "there is no model" in error_of(done)
    folder = only_run(home.folder)
    assert not (home.folder / "asked").exists()
    for path in folder.iterdir():
        assert SECRET not in path.read_text(errors="replace"), path
    assert "<<env SOME_NAME" in log_of(folder)


def test_a_service_that_is_never_ready_is_a_clear_error(home: Project) -> None:
    done = run(home, suite_of(bot(free_port(), "never", timeout_seconds=1)), code=3)
    assert "was not ready within 1 s" in error_of(done) and "still loading" in error_of(done)
    assert_gone(*pids(home))


def test_a_service_that_dies_in_the_middle_ends_the_target(home: Project) -> None:
    done = run(home, suite_of(bot(free_port()), prompts=("a", "die", "b", "c")), "--workers", "1", code=3)
    assert statuses(done)["c0"] == "passed"
    messages = {result["error"]["message"] for result in done["results"] if result["error"]}
    assert all("the service ended with exit code 3 during the run" in one for one in messages)
    assert all("out of memory" in one for one in messages)


def test_a_flood_of_output_is_bounded_and_the_run_goes_on(home: Project) -> None:
    run(home, suite_of(bot(free_port(), "flood", ready="line: listening on")), code=0)
    log = log_of(only_run(home.folder))
    assert len(log) < 8 << 20 and max(map(len, log.splitlines())) < 5000
    assert log.endswith("what it printed later is left out\n")


def test_a_service_that_ignores_to_be_asked_is_killed(home: Project) -> None:
    run(home, suite_of(bot(free_port(), "deaf")), code=0)
    assert_gone(*pids(home))


@pytest.mark.parametrize("ready", [None, "line: listening"])
def test_what_answers_already_is_not_tested(home: Project, ready: str | None) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        done = run(home, suite_of(bot(port, **({"ready": ready} if ready else {}))), code=3)
    assert f"something else already answers at 127.0.0.1:{port}" in error_of(done)
    assert not (home.folder / "pids").exists()


def test_secrets_of_its_environment_reach_no_file(home: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_NAME", SECRET)
    monkeypatch.setenv("OTHER_API_KEY", "is-not-handed-over")
    target = bot(free_port(), env={"BOT_KEY": "${{ SOME_NAME }}"})
    done = run(home, suite_of(target, prompts=("tell",)), code=0)
    folder = only_run(home.folder)
    assert "the key is <<env SOME_NAME" in log_of(folder)
    assert "<<env SOME_NAME" in done["results"][0]["turns"][0]["response"]
    for path in folder.iterdir():
        assert SECRET not in path.read_text(errors="replace"), path


def test_commands_that_ask_nobody_start_nothing(home: Project) -> None:
    suite = suite_of({**bot(free_port()), "cache": True})
    run(home, suite, "--cache", code=0)
    started = pids(home)
    assert home.invoke("run", "evals.yaml", "--dry-run").exit_code == 0
    assert home.validate("evals.yaml")["files"][0]["errors"] == []
    home.run("show", "last")
    home.run("replay", "last")
    home.run("grade", "last")
    home.run("targets", "evals.yaml", code=None)
    again = home.run_json("run", "evals.yaml", "--cache")
    assert again["run"]["from_cache"]["answers"] == 1
    assert pids(home) == started


def test_no_code_refuses_it(home: Project) -> None:
    home.write("evals.yaml", suite_of(bot(free_port())))
    assert "target `bot` runs code of the project, and --no-code refuses that" in refusal(home, "run", "--no-code")
    assert run_folders(home.folder) == []


@pytest.mark.parametrize("command", [["no-such-program", "x"], "no-such-program --port 1", ["./bot.pyx"]])
def test_validate_says_when_the_command_cannot_be_found(home: Project, command: list[str] | str) -> None:
    [error] = home.errors(suite_of(bot(free_port(), command=command)))
    assert error["code"] == "file-not-found" and error["path"] == "targets[0].start.command"


MISTAKES: list[tuple[Raw, str]] = [
    ({"ready": "port 8000"}, "targets[0].start.ready"),
    ({"command": []}, "targets[0].start.command"),
    ({"timeout_seconds": 0}, "targets[0].start.timeout_seconds"),
    ({"readyy": "x"}, "targets[0].start.readyy"),
]


@pytest.mark.parametrize(("start", "path"), MISTAKES)
def test_mistakes_in_it_have_their_place(home: Project, start: Raw, path: str) -> None:
    found = home.errors(suite_of(bot(free_port(), **start)))
    assert path in [error["path"] for error in found]


NOTHING: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=4,
)
KEYS = st.sampled_from(["command", "ready", "timeout_seconds", "cwd", "env"])


@given(start=NOTHING | st.dictionaries(KEYS, NOTHING | st.just("line: x") | st.just(["x"]), max_size=5))
@bounded(200)
def test_no_value_of_it_ends_in_a_traceback(start: Any, tmp_path_factory: pytest.TempPathFactory) -> None:
    home = Project(tmp_path_factory.mktemp("start"))
    home.write("evals.yaml", suite_of({**bot(1), "start": start}))
    found = home.validate(str(home.folder / "evals.yaml"))
    assert found["files"]


def test_it_belongs_to_services_and_functions_alone(home: Project) -> None:
    start = {"command": ["true"], "ready": "line: x"}
    target = {"name": "a", "provider": "scripted", "replies": ["Hello"], "start": start}
    assert codes(home.errors(suite_of(target))) == ["unknown-key"]


def test_a_key_does_not_reach_a_service_whose_address_an_env_file_sets(
    home: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", SECRET)
    home.write(".env", "OPENAI_BASE_URL=https://llm.example.com/v1\n")
    home.write("evals.yaml", suite_of(bot(free_port(), env={"OPENAI_API_KEY": "${{ OPENAI_API_KEY }}"})))
    assert "the command `start` of target `bot` would use a key" in refusal(home, "run")
    assert not (home.folder / "pids").exists()


def began(home: Project) -> bool:
    path = home.folder / "asked"
    return path.exists() and "wait" in path.read_text()


def test_a_kill_of_the_run_leaves_nothing_of_the_service(home: Project) -> None:
    home.write("evals.yaml", suite_of(bot(free_port(), "children"), prompts=("Hello", "wait")))
    process = Process(home.folder, "run")
    process.wait_for(lambda: began(home))
    started = pids(home, 3)
    assert all(map(is_alive, started))
    assert process.kill().code == KILLED
    assert_gone(*started)
    suite = (home.folder / "evals.yaml").read_text()
    home.write("evals.yaml", suite.replace('"wait"', '"Bye"'))
    assert run_process(home.folder, "resume").code == 0
    assert_gone(*pids(home, 6))


@pytest.mark.parametrize("mode", ["never", "children"])
def test_an_interrupt_ends_the_service(home: Project, mode: str) -> None:
    prompts = ("Hello",) if mode == "never" else ("wait",)
    home.write("evals.yaml", suite_of(bot(free_port(), mode), prompts=prompts))
    process = Process(home.folder, "run")
    started = pids(home, 3 if mode == "children" else 1)
    if mode == "children":
        process.wait_for(lambda: began(home))
        process.interrupt()  # what is under way is finished; a second one ends it
        process.wait_until_it_says("again")
    else:
        process.wait_for(lambda: "still loading" in _log(home.folder))
    process.interrupt()
    assert process.end().code == 130
    assert_gone(*started)


def _log(folder: Path) -> str:
    found = run_folders(folder)
    return log_of(found[0]) if found and (found[0] / "service.log").exists() else ""


def test_two_runs_do_not_test_each_others_service(home: Project) -> None:
    home.write("evals.yaml", suite_of(bot(free_port()), prompts=("wait",)))
    first = Process(home.folder, "run")
    first.wait_for(lambda: began(home))
    second = run_process(home.folder, "run", "--format", "json")
    assert "something else already answers" in error_of(second.document)
    assert is_alive(pids(home)[0])
    first.kill()
    wait_until(lambda: not is_alive(pids(home)[0]))


def test_targets_check_starts_it_and_ends_it(home: Project) -> None:
    home.write("evals.yaml", suite_of(bot(free_port())))
    assert home.invoke("targets", "check", "bot", "--suite", "evals.yaml").exit_code == 0
    assert_gone(*pids(home))
