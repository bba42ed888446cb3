"""The run of a session: shared by workers, stopped with the session, and never passed if it is not finished."""

from __future__ import annotations

import os
import signal
import sys
import textwrap
from pathlib import Path

import pytest

from rejoinder.testing import Answer, FakeServer
from tests.kit import Project, behind, case, is_alive, only_run, run_folders, spec, wait_until
from tests.pytest_plugin.session_kit import BAD, GOOD, only_run_of, pytest_in, said, started, suite

pytestmark = pytest.mark.slow
MANY = 12
XFAIL = """
import pytest

def pytest_collection_modifyitems(items):
    for item in items:
        item.add_marker(pytest.mark.xfail)
"""


def asked(server: FakeServer, *cases: object, **more: object) -> dict[str, object]:
    """A suite of these cases. `more`: settings of its target."""
    return {"targets": [behind(server, "m", **more)], "target": "m", "evals": list(cases)}


@spec("3B")
@pytest.mark.parametrize("dist", ["load", "loadfile", "loadgroup", "worksteal", "each"])
def test_workers_of_xdist_share_one_run(project: Project, dist: str) -> None:
    """pytest-evals breaks with xdist, and LangSmith's output is refused there."""
    with FakeServer("105") as server:
        cases = [case(f"c{n}", GOOD if n else BAD) for n in range(MANY)]
        project.write("evals/a.yaml", asked(server, *cases))
        project.write("evals/b.yaml", asked(server, *cases))
        done = pytest_in(project, "-n", "3", "--dist", dist, "-k", "not c1")
    only_run_of(project.folder)
    selected = 2 * (MANY - 3)  # c1, c10 and c11 are left out
    assert len(server.requests) == selected
    assert f"{selected - 2} of {selected} passed" in done.last_lines, done.text
    assert done.code == 1
    wanted = {f"evals/{file}.yaml::c{n}": "PASSED" for file in "ab" for n in (*range(2, 10), 0)}
    wanted |= {"evals/a.yaml::c0": "FAILED", "evals/b.yaml::c0": "FAILED"}
    assert {name.partition("@")[0]: word for name, word in done.outcomes.items()} == wanted, done.text


def test_a_budget_holds_for_all_workers_and_what_it_leaves_out_is_an_error(project: Project) -> None:
    with FakeServer(Answer("105", input_tokens=100, output_tokens=100)) as server:
        cases = [case(f"c{n}", GOOD) for n in range(MANY)]
        project.write(".rejoinder/config.yaml", {"prices": {"m": {"input": 1000, "output": 1000}}})
        project.write("evals.yaml", asked(server, *cases, max_tokens=100, workers=1))
        done = pytest_in(project, "-n", "2", "--rejoinder-budget", "0.7")
    assert 1 <= len(server.requests) <= 4
    counted = list(done.outcomes.values())
    assert counted.count("PASSED") == len(server.requests), done.text
    assert counted.count("ERROR") == MANY - len(server.requests)
    assert done.code == 1
    assert "this case was not run: the budget was reached" in done.text
    assert "rejoinder resume" in done.last_lines


@spec("3B")
def test_x_stops_the_run_and_what_was_not_asked_has_not_passed(project: Project) -> None:
    with FakeServer("105", latency_s=0.05) as server:
        cases = [case(f"c{n:02}", BAD if n == 2 else GOOD) for n in range(30)]
        project.write("evals.yaml", asked(server, *cases, workers=1))
        done = pytest_in(project, "-x")
        assert 3 <= len(server.requests) < 10
    assert done.code == 1
    assert list(done.outcomes.values()) == ["PASSED", "PASSED", "FAILED"], done.text
    assert "stopping after 1 failures" in done.text
    assert "no rate" in done.last_lines or "resume" in done.last_lines


def test_cases_before_the_first_failure_that_were_not_asked_are_skipped(project: Project) -> None:
    """The last case fails at once, the others take their time and never begin."""
    with FakeServer("105", latency_s=0.3) as server:
        slow = [case(f"c{n}", GOOD) for n in range(20)]
        failing = case("now", BAD)
        project.write("evals/a.yaml", asked(server, *slow, workers=2))
        project.write("evals/b.yaml", suite(failing))
        done = pytest_in(project, "-x", "evals/b.yaml", "evals/a.yaml")
        assert done.outcomes == {"evals/b.yaml::now": "FAILED"}, done.text
        assert len(server.requests) < 20


def test_x_under_xdist_stops_the_run(project: Project) -> None:
    with FakeServer("105", latency_s=0.05) as server:
        cases = [case(f"c{n:02}", BAD if n == 2 else GOOD) for n in range(40)]
        project.write("evals.yaml", asked(server, *cases, workers=1))
        done = pytest_in(project, "-x", "-n", "2")
        assert len(server.requests) < 20
    assert done.code != 0
    assert "FAILED" in done.outcomes.values(), done.text
    assert sum(word == "PASSED" for word in done.outcomes.values()) <= len(server.requests)


def test_maxfail_stops_the_run_under_xdist(project: Project) -> None:
    with FakeServer("105", latency_s=0.1) as server:
        cases = [case(f"c{n:02}", BAD) for n in range(60)]
        project.write("evals.yaml", asked(server, *cases, workers=1))
        done = pytest_in(project, "--maxfail", "3", "-n", "2")
        assert len(server.requests) < 50
    assert done.code != 0


def test_items_report_while_the_run_goes_on(project: Project) -> None:
    with FakeServer("105", latency_s=0.2) as server:
        cases = [case(f"c{n:02}", GOOD) for n in range(20)]
        project.write("evals.yaml", asked(server, *cases, workers=1))
        with started(project) as session:
            session.wait_for(lambda: "evals.yaml::c00 PASSED" in session.out.text)
            assert len(server.requests) < 20
            session.end()


def kill_worker(project: Project, when: str) -> None:
    """Let the worker that plays the run be killed, once if it looks for something that the run has written."""
    project.write(
        "conftest.py",
        textwrap.dedent(f"""
            import os, signal, threading, time
            from pathlib import Path

            def pytest_sessionstart(session):
                if not hasattr(session.config, "workerinput"):
                    return
                threading.Thread(target=watch, args=(session.config,), daemon=True).start()

            def watch(config):
                while True:
                    plugin = config.pluginmanager.get_plugin("rejoinder-suites")
                    runs = list(plugin._runs.values())
                    plays = any(run._process is not None for run in runs)
                    if plays and {when}:
                        try:
                            Path("killed").touch(exist_ok={when == "True"})
                        except FileExistsError:
                            return
                        Path("process").write_text(str(runs[0]._process.pid))
                        os.kill(os.getpid(), signal.SIGKILL)
                    time.sleep(0.01)
            """),
    )


def test_a_killed_worker_hangs_nothing_and_makes_nothing_green(project: Project) -> None:
    """Another worker resumes the run; recorded replies are not asked for again."""
    with FakeServer("105", latency_s=0.1) as server:
        cases = [case(f"c{n:02}", BAD if n == 19 else GOOD) for n in range(20)]
        project.write("evals.yaml", asked(server, *cases, workers=1))
        started_already = "list(Path('.rejoinder/runs').glob('*/journal.jsonl'))"
        kill_worker(project, started_already)
        done = pytest_in(project, "-n", "2")
        assert (project.folder / "killed").exists()
        assert len(server.requests) <= 22, "the replies before the kill were recorded"
    assert "crashed" in done.text
    assert done.code == 1
    words = list(done.outcomes.values())
    assert len(words) == 20, done.text
    assert words.count("FAILED") == 2, done.text  # the case that fails, and the item of the worker
    assert words.count("PASSED") == 18
    pid = int((project.folder / "process").read_text())
    wait_until(lambda: not is_alive(pid), "the process of the killed worker is still there")
    assert run_folders(project.folder) == [only_run(project.folder)]


def test_a_run_whose_process_is_killed_every_time_ends(project: Project) -> None:
    with FakeServer("105", latency_s=0.3) as server:
        cases = [case(f"c{n:02}", GOOD) for n in range(4)]
        project.write("evals.yaml", asked(server, *cases, workers=1))
        kill_worker(project, "True")
        done = pytest_in(project, "-n", "2", "--max-worker-restart", "20")
    assert done.code == 1
    assert "PASSED" not in done.outcomes.values(), done.text


def test_a_killed_run_is_an_error_of_every_unfinished_case(project: Project) -> None:
    with FakeServer("105", latency_s=0.1) as server:
        cases = [case(f"c{n:02}", GOOD) for n in range(40)]
        project.write("evals.yaml", asked(server, *cases, workers=1))
        with started(project) as session:
            session.wait_for(lambda: "evals.yaml::c01 PASSED" in session.out.text)
            os.kill(child_of(session.process.pid), signal.SIGKILL)
            ended = session.end()
    done = said(ended.code, ended.out)
    assert done.code == 1
    words = list(done.outcomes.values())
    assert words.count("ERROR") + words.count("PASSED") == 40, done.text
    assert words.count("ERROR") >= 20
    run = only_run(project.folder).name
    assert f"run {run} is not finished: the process that played the run ended early" in done.last_lines
    assert f"rejoinder resume {run}" in done.last_lines


def child_of(pid: int) -> int:
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return int(children[0])


def test_ctrl_c_stops_the_run_and_leaves_it_resumable(project: Project) -> None:
    """LangSmith's incomplete runs looked passed."""
    with FakeServer("105", latency_s=0.1) as server:
        cases = [case(f"c{n:02}", GOOD) for n in range(60)]
        project.write("evals.yaml", asked(server, *cases, workers=1))
        with started(project) as session:
            session.wait_for(lambda: "evals.yaml::c01 PASSED" in session.out.text)
            child = child_of(session.process.pid)
            session.interrupt()
            ended = session.end()
        assert ended.code == 2, ended
        assert not is_alive(child)
        requests = len(server.requests)
        assert requests < 40
        run = only_run(project.folder)
        assert f"rejoinder resume {run.name}" in ended.out, ended.out
        project.run("resume", run.name)
        assert len(server.requests) in (60, 61)


def test_a_killed_session_ends_its_run(project: Project) -> None:
    with FakeServer("105", latency_s=0.1) as server:
        project.write("evals.yaml", asked(server, *(case(f"c{n:02}", GOOD) for n in range(80)), workers=1))
        with started(project, TMPDIR=str(project.folder)) as session:
            session.wait_for(lambda: "evals.yaml::c01 PASSED" in session.out.text)
            child = child_of(session.process.pid)
            session.kill()
        wait_until(lambda: not is_alive(child), "nobody waits for the run, and it goes on")
        assert len(server.requests) < 80


def test_a_suite_that_cannot_be_started_is_an_error_of_each_case(project: Project) -> None:
    target = {"name": "mine", "provider": "python", "call": "no_such_module:answer"}
    project.write("evals.yaml", {"targets": [target], "target": "mine", "evals": [case("one"), case("two")]})
    done = pytest_in(project)
    assert set(done.outcomes.values()) == {"ERROR"}, done.text
    assert done.code == 1
    assert "no_such_module" in done.text
    assert "Traceback" not in done.text


def test_a_module_is_found_where_pytest_looks(project: Project) -> None:
    project.write("lib/my_bot.py", "def answer(messages):\n    print('noise')\n    return '105'\n")
    target = {"name": "mine", "provider": "python", "call": "my_bot:answer"}
    project.write("evals.yaml", {"targets": [target], "target": "mine", "evals": [case("one", GOOD)]})
    done = pytest_in(project, "-o", "pythonpath=lib", "-s")
    assert done.outcomes == {"evals.yaml::one": "PASSED"}, done.text
    assert "noise" not in done.text


def test_a_given_up_target_is_an_error_of_every_case(project: Project) -> None:
    target = {"name": "gone", "provider": "openai", "model": "m", "base_url": "http://127.0.0.1:9/v1", "api_key": "k"}
    fast = {"max_retries": 0}
    project.write(
        "evals.yaml",
        {"targets": [{**target, **fast}], "target": "gone", "evals": [case(f"c{n}") for n in range(15)]},
    )
    done = pytest_in(project)
    assert set(done.outcomes.values()) == {"ERROR"}, done.text
    assert len(done.outcomes) == 15
    assert done.code == 1


def test_the_gate_fails_the_session_and_cannot_tell_is_a_warning(project: Project) -> None:
    good = {"c0": ["105"], "*": ["105"]}
    many = [case(f"c{n}", GOOD) for n in range(30)]
    project.write("evals.yaml", suite(*many, replies=good))
    project.run("run", "evals.yaml")
    project.run("baseline", "save", "last", "--name", "main")
    same = pytest_in(project, "--rejoinder-against", "main")
    assert same.code == 0, same.text
    assert "gate" in same.last_lines
    project.write("conftest.py", XFAIL)
    project.write("evals.yaml", suite(*many, replies={"*": ["none"]}))
    worse = pytest_in(project, "--rejoinder-against", "main")
    assert worse.code == 1, worse.text
    assert "gate failed" in worse.last_lines
    assert set(worse.outcomes.values()) == {"XFAIL"}
    (project.folder / "conftest.py").unlink()
    few = pytest_in(project, "--rejoinder-against", "main", "-k", "c1 or c2")
    assert "c1" in str(few.outcomes)


def test_a_failure_that_the_baseline_knows_stays_red(project: Project) -> None:
    """The gate adds regressions, and never turns a failed test green."""
    project.write("evals.yaml", suite(case("known", BAD), *(case(f"c{n}", GOOD) for n in range(30))))
    project.run("run", "evals.yaml", code=1)
    project.run("baseline", "save", "last", "--name", "main")
    project.run("run", "evals.yaml", "--against", "main")  # exit code 0: the gate alone decides
    done = pytest_in(project, "--rejoinder-against", "main")
    assert done.code == 1, done.text
    assert [name for name, word in done.outcomes.items() if word == "FAILED"] == ["evals.yaml::known"]
    assert "gate passed" in done.last_lines
    apart = {"quarantine": {"until": "2999-01-01", "reason": "known"}}
    project.write("evals.yaml", suite(case("known", BAD, **apart), *(case(f"c{n}", GOOD) for n in range(30))))
    done = pytest_in(project, "--rejoinder-against", "main")
    assert (done.code, done.outcomes["evals.yaml::known"]) == (0, "XFAIL"), done.text


def test_the_gate_that_cannot_tell_does_not_fail_the_session(project: Project) -> None:
    two = [case("a", GOOD), case("b", GOOD)]
    project.write("evals.yaml", suite(*two))
    project.run("run", "evals.yaml")
    project.run("baseline", "save", "last", "--name", "main")
    done = pytest_in(project, "--rejoinder-against", "main")
    assert done.code == 0, done.text
    assert "warning: gate cannot tell" in done.last_lines, done.text


def test_a_baseline_that_is_missing_is_an_error(project: Project) -> None:
    project.write("evals.yaml", suite(case("one", GOOD)))
    done = pytest_in(project, "--rejoinder-against", "nothing")
    assert done.outcomes == {"evals.yaml::one": "ERROR"}
    assert "there is neither a baseline nor a run `nothing`" in done.text


def test_suites_of_several_projects_have_a_run_each(project: Project) -> None:
    for name in ("a", "b"):
        project.write(f"{name}/evals.yaml", suite(case("one", GOOD)))
        (project.folder / name / ".rejoinder").mkdir()
    done = pytest_in(project)
    assert done.outcomes == {"a/evals.yaml::one": "PASSED", "b/evals.yaml::one": "PASSED"}, done.text
    assert done.last_lines.count("1 of 1 passed") == 2
    assert [len(run_folders(project.folder / name)) for name in ("a", "b")] == [1, 1]
    refused = pytest_in(project, "--rejoinder-budget", "1")
    assert set(refused.outcomes.values()) == {"ERROR"}
    assert "holds for one project" in refused.text


def test_no_temporary_folder_is_left(project: Project, tmp_path: Path) -> None:
    folder = tmp_path / "temporary"
    folder.mkdir()
    project.write("evals.yaml", suite(case("one", GOOD)))
    pytest_in(project, "-n", "2", TMPDIR=str(folder))
    assert [path.name for path in folder.iterdir() if path.name.startswith("rejoinder")] == []


def test_x_shows_the_failure_of_a_case_whose_trials_are_not_all_run(project: Project) -> None:
    with FakeServer("105", latency_s=0.05) as server:
        cases = [case("bad", BAD, repeat=20), case("good", GOOD)]
        project.write("evals.yaml", asked(server, *cases, workers=1))
        done = pytest_in(project, "-x")
        assert len(server.requests) < 10
    assert done.outcomes == {"evals.yaml::bad": "FAILED"}, done.text
    assert done.code == 1


def test_hostile_words_are_inert(project: Project) -> None:
    words = "\x1b[2J\x1b]0;title\x07"
    apart = {"quarantine": {"until": "2999-01-01", "reason": f"why {words}"}}
    error = {"error": f"no {words}"}
    project.write(
        "evals.yaml",
        suite(
            case("a", BAD), case("b", GOOD), case("c", BAD, **apart), replies={"a": [words], "b": [error], "*": ["x"]}
        ),
    )
    done = pytest_in(project, "-rA", "--junitxml", "junit.xml")
    assert list(done.outcomes.values()) == ["FAILED", "ERROR", "XFAIL"], done.text
    assert "\x1b[2J" not in done.text
    assert "\x07" not in done.text


SLOW_TO_END = """
import signal, sys, time

signal.signal(signal.SIGTERM, lambda *_: (time.sleep(1), sys.exit()))
print("ready", flush=True)
while True:
    time.sleep(60)
"""


def test_stopping_a_session_does_not_kill_a_run_that_is_ending(project: Project) -> None:
    """With `-x` the last case fails, and the session asks the run to stop while its service is ended."""
    project.write("own.py", "def ask(request):\n    return 'none'\n")
    project.write("service.py", SLOW_TO_END)
    start = {"command": [sys.executable, "service.py"], "ready": {"line": "ready"}}
    bot = {"name": "bot", "provider": "python", "call": "own:ask", "start": start}
    project.write("evals.yaml", suite(case("bad", GOOD), targets=[bot], target="bot"))
    done = pytest_in(project, "-x")
    assert done.outcomes == {"evals.yaml::bad": "FAILED"}, done.text
    assert "0% (0 to 79), 0 of 1 passed; run" in done.last_lines, done.text
    assert project.run_json("show")["run"]["status"] == "completed"
