"""The verbs as functions: typed options and results, the same rules as the commands, and errors in words."""

from __future__ import annotations

import asyncio
import gc
import re
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

import rejoinder
from rejoinder import Answers, Limits, Pace, Selection, UsageError
from rejoinder.engine.observer import Observer
from rejoinder.testing import Answer, FakeServer, Received, is_judging
from tests.kit import (
    KILLED,
    Process,
    Project,
    Raw,
    behind,
    case,
    follow,
    journal_of,
    run_folders,
    run_process,
    scripted,
)

SUITE = {
    "targets": [scripted("it", "no", "no", "yes"), scripted("other", "yes", "yes")],
    "target": "it",
    "evals": [case("a", {"match": "yes"}, follow("Again.", {"match": "yes"}, follow("Now?", {"match": "yes"})))],
}


@pytest.fixture
def first(project: Project) -> rejoinder.RunReport:
    project.write("evals.yaml", SUITE)
    return rejoinder.run("evals.yaml")


def test_a_run_is_given_as_report_name_or_folder(first: rejoinder.RunReport) -> None:
    for given in (first, first.run.id, first.folder.path, str(first.folder.path), None):
        assert rejoinder.show(given).summary == first.summary
    assert rejoinder.replay(first).run.replay_of == first.run.id
    assert rejoinder.merge([first]).run.merge_of == first.run.id


def test_options_given_to_load_are_those_of_the_run(project: Project) -> None:
    """`resume` loads the suite again, so the run has to know what it was loaded with."""
    with FakeServer() as server:
        project.write("evals.yaml", {"targets": [behind(server, "it")], "target": "it", "evals": [case("a")]})
        report = rejoinder.run(rejoinder.load("evals.yaml", system_prompt="Be brief."), answers=Answers())
        assert sent(server.requests) == ["Be brief."]
        for name in ("journal.jsonl", "results.jsonl", "summary.json"):
            (report.folder.path / name).unlink()
        rejoinder.resume(report)
        assert sent(server.requests) == ["Be brief."] * 2


def sent(requests: list[Received]) -> list[str]:
    return [message["content"] for one in requests for message in one.body["messages"] if message["role"] == "system"]


def test_what_comes_too_late_for_a_loaded_suite_is_refused(project: Project) -> None:
    project.write("evals.yaml", SUITE)
    suite = rejoinder.load("evals.yaml")
    with pytest.raises(UsageError, match=r"loaded already, without this system_prompt"):
        rejoinder.run(suite, selection=Selection(system_prompt="X"))


def test_mistakes_of_all_files_come_together(project: Project) -> None:
    project.write("a.yaml", "evals: [{promt: Hello}]")
    project.write("b.yaml", "evals: [{pompt: Hello}]")
    with pytest.raises(rejoinder.SuiteError) as raised:
        rejoinder.run(["a.yaml", "b.yaml"])
    assert {Path(problem.file).name for problem in raised.value.problems} == {"a.yaml", "b.yaml"}


def test_a_folder_stands_for_the_suites_in_it(project: Project) -> None:
    project.write("evals/a.yaml", SUITE)
    project.write("evals/b.yaml", SUITE)
    assert rejoinder.run("evals").summary.total == 2


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"selection": Selection(shard=(1, 0))}, "there is no part 1 of 0"),
        ({"selection": Selection(shard=(3, 2))}, "there is no part 3 of 2"),
        ({"selection": Selection(limit=0)}, "limit: expected `int` >= 1"),
        ({"answers": Answers(replay="a", record="b")}, "a replay answers only from cassettes"),
        ({"answers": Answers(replay="a", cache_lifetime_s=1)}, "a replay answers only from cassettes"),
        ({"answers": Answers(asks=frozenset({"work"}), otherwise="explain")}, "nothing recorded to answer from"),
        ({"repeat": 0}, "repeat: expected `int` >= 1"),
        ({"pace": Pace(timeout_s="soon")}, "timeout_s: expected `float | null`, got `str`"),  # pyright: ignore
    ],
)
def test_options_that_cannot_be_are_refused_in_words(project: Project, options: Any, said: str) -> None:
    project.write("evals.yaml", SUITE)
    with pytest.raises(UsageError) as raised:
        rejoinder.run("evals.yaml", **options)
    assert said in raised.value.message


def test_what_is_no_suite_no_run_and_no_turn_is_refused_in_words(first: rejoinder.RunReport) -> None:
    anything: Any
    for anything in (None, ()):
        with pytest.raises(UsageError, match="no suite to run"):
            rejoinder.run(anything)
    for anything in (7, first.summary):
        with pytest.raises(UsageError, match="a run is a report, a name or a folder"):
            rejoinder.show(anything)
    for anything in (first.run.id, []):
        with pytest.raises(UsageError, match="no runs to merge"):
            rejoinder.merge(anything)
    with pytest.raises(UsageError, match="there is no turn 0 to fork at"):
        rejoinder.fork(first, "a", 0, prompt="X")
    anything = "2"
    with pytest.raises(UsageError, match="turn: expected `int`"):
        rejoinder.fork(first, "a", anything)


def test_a_lifetime_implies_the_cache(project: Project) -> None:
    with FakeServer() as server:
        project.write(
            "evals.yaml", {"targets": [{**behind(server, "it"), "cache": True}], "target": "it", "evals": [case("a")]}
        )
        for _ in range(2):
            rejoinder.run("evals.yaml", answers=Answers(cache_lifetime_s=3600))
        assert len(server.requests) == 1


def test_grade_keeps_the_limits_of_the_run(project: Project) -> None:
    project.write("evals.yaml", SUITE)
    first = rejoinder.run("evals.yaml", limits=Limits(budget_tokens=1000))
    assert rejoinder.grade(first).run.options["budget_tokens"] == 1000
    assert rejoinder.grade(first, limits=Limits(budget_tokens=7)).run.options["budget_tokens"] == 7


@pytest.mark.slow
def test_every_verb_can_be_observed(first: rejoinder.RunReport) -> None:
    class Counting(Observer):
        planned = 0

        def started(self, planned: int) -> None:
            self.planned += planned

    observer = Counting()
    rejoinder.replay(first, observer=observer)
    rejoinder.grade(first, observer=observer)
    rejoinder.fork(first, "a", 2, prompt="Really?", observer=observer)
    rejoinder.merge([first], observer=observer)
    rejoinder.resume(first, observer=observer)
    assert observer.planned == 5


def test_within_a_running_loop(project: Project) -> None:
    project.write("evals.yaml", SUITE)

    async def play() -> rejoinder.RunReport:
        return rejoinder.run("evals.yaml")

    assert asyncio.run(play()).summary.passed == 1


# Forks


def test_a_whole_fork_can_be_resumed_when_its_first_run_is_gone(first: rejoinder.RunReport) -> None:
    forks = [rejoinder.fork(first, "a", turn, prompt="Really?") for turn in (1, 2)]
    shutil.rmtree(first.folder.path)
    for fork in forks:
        assert rejoinder.resume(fork).summary.passed == fork.summary.passed


def test_a_fork_of_a_folder_elsewhere_can_be_resumed(
    first: rejoinder.RunReport, project: Project, tmp_path_factory: pytest.TempPathFactory
) -> None:
    away = tmp_path_factory.mktemp("elsewhere") / "copied"
    shutil.copytree(first.folder.path, away)
    shutil.rmtree(first.folder.path)
    fork = rejoinder.fork(str(away), "a", 2, prompt="Really?")
    for name in ("journal.jsonl", "results.jsonl", "summary.json"):
        (fork.folder.path / name).unlink()
    project.write(f"{fork.folder.path.relative_to(project.folder)}/run.json", cut_off(fork))
    resumed = rejoinder.resume(fork)
    assert [turn.prompt for turn in resumed.results[0].turns][:2] == ["Question a", "Really?"]


def cut_off(report: rejoinder.RunReport) -> Raw:
    """The receipt as it is before a run has ended."""
    import msgspec

    receipt: Raw = msgspec.to_builtins(report.run)
    del receipt["taken_over"]
    return {**receipt, "status": "running"}


def test_a_rival_of_a_fork_has_its_instructions(project: Project) -> None:
    def answer(request: Received) -> Answer:
        return Answer('{"better": "tie"}' if is_judging(request) else "It is so.")

    with FakeServer(answer) as server:
        suite = {
            "metadata": {"system_prompt": "Old."},
            "targets": [scripted("it", "one", "two"), behind(server, "rival"), behind(server, "judge")],
            "target": "it",
            "judge_target": "judge",
            "evals": [case("a", {"compare": {"reply_of": "rival"}})],
        }
        project.write("evals.yaml", suite)
        first = rejoinder.run("evals.yaml")
        assert first.summary.errors == 0
        rejoinder.fork(first, "a", 1, system="New.")
        assert sent([one for one in server.requests if not is_judging(one)]) == ["Old.", "New."]


LOOP = """
import asyncio, rejoinder
async def play():
    return rejoinder.run("evals.yaml", pace=rejoinder.Pace(workers=1))
report = asyncio.run(play())
print(report.run.status, report.summary.unfinished > 0, flush=True)
"""


@pytest.mark.slow
def test_an_interrupt_within_a_running_loop_ends_the_run(project: Project) -> None:
    slow = scripted("it", "hi", delay_ms=200)
    project.write("evals.yaml", {"targets": [slow], "target": "it", "evals": [case(f"c{n}") for n in range(100)]})
    process = Process(project.folder, command=[sys.executable, "-c", LOOP])

    def is_told() -> bool:
        return any(one["type"] == "told" for run in run_folders(project.folder) for one in journal_of(run))

    process.wait_for(is_told)
    process.interrupt()
    assert process.end().out.split() == ["interrupted", "True"]


# What others wrote


def test_wrong_groups_of_options_are_refused(project: Project) -> None:
    project.write("evals.yaml", SUITE)
    groups: list[Any] = [{"limits": {"budget_tokens": 1}}, {"limits": Selection(limit=1)}, {"selection": Pace()}]
    for wrong in groups:
        with pytest.raises(UsageError, match=r"(limits|selection): expected (Limits|Selection), got"):
            rejoinder.run("evals.yaml", **wrong)
    with pytest.raises(UsageError, match="for replay, grade and merge"):
        rejoinder.run("evals.yaml", answers=Answers(runs=("x",)))
    with pytest.raises(UsageError, match="budget_tokens: expected"):
        rejoinder.run("evals.yaml", limits=Limits(budget_tokens=2**60))
    with pytest.raises(UsageError, match="not valid text"):
        rejoinder.run("evals.yaml", selection=Selection(system_prompt="\udcff"))


@pytest.mark.slow
def test_results_of_a_killed_run_can_be_read_after_its_report_is_gone(project: Project) -> None:
    project.write("evals.yaml", SUITE)
    assert run_process(project.folder, "run", "evals.yaml", REJOINDER_KILL_AT="summary.written").code == KILLED
    for name in ("results.jsonl", "summary.json"):
        (run_folders(project.folder)[0] / name).unlink()
    results = rejoinder.show().results
    gc.collect()
    assert [result.id for result in results] == ["a"]
    assert project.invoke("run", "--failed-from", run_folders(project.folder)[0].name).exit_code == 0


@pytest.mark.parametrize("started", [1e300, 1e18, -1])
def test_times_that_cannot_be_are_damage(first: rejoinder.RunReport, started: float) -> None:
    journal = first.folder.journal
    text = journal.read_text()
    assert '"started_at":' in text
    journal.write_text(re.sub(r'"started_at":[\d.]+', f'"started_at":{started!r}', text))
    for name in ("results.jsonl", "summary.json"):
        (first.folder.path / name).unlink()
    for verb in (rejoinder.show, rejoinder.replay, rejoinder.resume):
        with pytest.raises(rejoinder.RejoinderError, match="damaged"):
            verb(first)


def test_numbers_of_tokens_that_cannot_be_do_not_damage_a_run(project: Project) -> None:
    code = "from rejoinder.model import Reply, Usage\n"
    code += "def big(request): return {'text': 'x', 'input_tokens': 1, 'output_tokens': 2**54}\n"
    code += "def negative(request): return Reply('x', usage=Usage(10, 5, cached_tokens=-1))\n"
    project.write("own.py", code)
    for name in ("big", "negative"):
        target = {"name": "it", "provider": "python", "call": f"own:{name}"}
        project.write("evals.yaml", {"targets": [target], "target": "it", "evals": [case("a"), case("b")]})
        report = rejoinder.run("evals.yaml")
        assert report.summary.passed == 2
        assert report.summary.usage.approximate


def test_what_a_fail_fast_run_has_recorded_stays_when_it_is_resumed(project: Project) -> None:
    code = "import time\ndef answer(request):\n    time.sleep({'a': 0, 'b': 0.3, 'c': 0.5, 'd': 0}[request.case_id])\n"
    project.write("own.py", code + "    return 'no' if request.case_id == 'b' else 'x'\n")
    target = {"name": "it", "provider": "python", "call": "own:answer"}
    evals = [case(name, {"match": "x"}) for name in "abcd"]
    project.write("evals.yaml", {"targets": [target], "target": "it", "evals": evals})
    first = rejoinder.run("evals.yaml", pace=Pace(workers=2, fail_fast=True))
    before = {result.id: result.status for result in first.results}
    assert before == {"a": "passed", "b": "failed", "c": "passed", "d": "skipped"}
    assert {result.id: result.status for result in rejoinder.resume(first).results} == before


def test_a_fork_on_another_target_can_be_resumed(first: rejoinder.RunReport, project: Project) -> None:
    options = rejoinder.RunOptions(selection=Selection(targets=("other",)))
    fork = rejoinder.fork(first, "a", 2, prompt="Really?", options=options)
    assert fork.summary.passed == 1
    for name in ("results.jsonl", "summary.json"):
        (fork.folder.path / name).unlink()
    project.write(f"{fork.folder.path.relative_to(project.folder)}/run.json", cut_off(fork))
    assert rejoinder.resume(fork).summary.passed == 1


def test_a_fork_takes_no_system_prompt_of_the_suite(first: rejoinder.RunReport) -> None:
    options = rejoinder.RunOptions(selection=Selection(system_prompt="Other."))
    with pytest.raises(UsageError, match="a fork has the system prompt of its run"):
        rejoinder.fork(first, "a", 2, options=options)


def test_secrets_in_options_are_refused_and_never_in_the_receipt(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_KEY", "sk-a-secret-of-some-length")
    with FakeServer() as server:
        suite = {
            "metadata": {"name": "about sk-a-secret-of-some-length"},
            "targets": [behind(server, "it", api_key="${{ MY_KEY }}")],
            "target": "it",
            "evals": [case("a")],
        }
        project.write("evals.yaml", suite)
        with pytest.raises(UsageError, match="holds a secret"):
            rejoinder.run("evals.yaml", selection=Selection(system_prompt="Use sk-a-secret-of-some-length"))
        report = rejoinder.run("evals.yaml")
    for path in report.folder.path.iterdir():
        assert b"sk-a-secret" not in path.read_bytes(), path


def test_spans_are_left_out_where_a_secret_was_hidden(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_KEY", "sk-a-secret-of-some-length")
    answers = iter(["x sk-a-secret-of-some-length then 105", "then 105"])
    with FakeServer(lambda _: Answer(next(answers))) as server:
        target = behind(server, "it", api_key="${{ MY_KEY }}")
        evals = [case(name, {"contains": "105"}) for name in "ab"]
        project.write("evals.yaml", {"targets": [target], "target": "it", "evals": evals})
        results = rejoinder.run("evals.yaml", pace=Pace(workers=1)).results
    assert [result.turns[0].checks[0].spans for result in results] == [(), ((5, 8),)]


def test_a_fork_takes_up_the_conversation_that_its_options_name(project: Project) -> None:
    suite = rejoinder.load(project.write("evals.yaml", two_targets()))
    first = rejoinder.run(suite, selection=Selection(targets=("slow", "quick")), repeat=2)
    options = rejoinder.RunOptions().changed(targets=("quick",), fork=rejoinder.Fork(of="slow", trial=2))
    [result] = rejoinder.fork(first, "a", 2, prompt="Really?", options=options).results
    assert (result.target, [turn.response for turn in result.turns]) == ("quick", ["slow one", "quick two"])


def two_targets() -> dict[str, Any]:
    checks = [{"contains": "three"}, {"prompt": "Sure?", "checks": [{"contains": "three"}]}]
    targets = [scripted(name, f"{name} one", f"{name} two") for name in ("slow", "quick")]
    return {"target": "slow", "targets": targets, "evals": [{"id": "a", "prompt": "One?", "checks": checks}]}
