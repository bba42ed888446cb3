"""The verbs as functions: typed options and results, the same rules as the commands, and errors in words."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path
from typing import Any

import pytest

import rejoinder
from rejoinder import Answers, Limits, Pace, Selection, UsageError
from rejoinder.engine.observer import Observer
from rejoinder.testing import Answer, FakeServer, Received, is_judging
from tests.kit import Project, Raw, behind, case, follow, scripted

SUITE = {
    "targets": [scripted("it", "no", "no", "yes"), scripted("other", "yes")],
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
        ({"answers": Answers(replay="a", record="b")}, "a replay answers from cassettes alone"),
        ({"answers": Answers(replay="a", cache_lifetime_s=1)}, "a replay answers from cassettes alone"),
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
        project.write("evals.yaml", {"targets": [behind(server, "it")], "target": "it", "evals": [case("a")]})
        for _ in range(2):
            rejoinder.run("evals.yaml", answers=Answers(cache_lifetime_s=3600))
        assert len(server.requests) == 1


def test_grade_keeps_the_limits_of_the_run(project: Project) -> None:
    project.write("evals.yaml", SUITE)
    first = rejoinder.run("evals.yaml", limits=Limits(budget_tokens=1000))
    assert rejoinder.grade(first).run.options["budget_tokens"] == 1000
    assert rejoinder.grade(first, limits=Limits(budget_tokens=7)).run.options["budget_tokens"] == 7


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
