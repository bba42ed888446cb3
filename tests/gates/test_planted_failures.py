"""A bot with planted failures, through every way that leads to a verdict: none is green over a case that is broken for
good."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator

import pytest

from tests.kit import Project, only_run, run_process
from tests.labs.ci_lab import Github
from tests.labs.planted_lab import KINDS, PlantedBot, write_suite, write_suite_of_sessions
from tests.labs.watch_lab import Watching
from tests.server.kit import serving

pytestmark = pytest.mark.slow


@pytest.fixture
def bot() -> Iterator[PlantedBot]:
    with PlantedBot() as bot:
        yield bot


Plant = Callable[[PlantedBot], None]


def _broken(bot: PlantedBot) -> None:
    bot.broken = {"c3"}


def _broken_among_flaky(bot: PlantedBot) -> None:
    bot.broken, bot.flaky = {"c3"}, {"c4", "c5"}


def _broken_among_errors(bot: PlantedBot) -> None:
    bot.broken, bot.down = {"c3"}, {"c5"}


def _all_broken(bot: PlantedBot) -> None:
    bot.broken = {f"c{n}" for n in range(8)}


def _streaming(bot: PlantedBot) -> None:
    bot.streams = True


PLANTS: dict[str, Plant] = {
    "one case": _broken,
    "among flaky ones": _broken_among_flaky,
    "among errors": _broken_among_errors,
    "every case": _all_broken,
    "streamed replies": _streaming,
}


def run_(project: Project) -> int:
    return run_process(project.folder, "run").code


def run_with_cache(project: Project) -> int:
    return run_process(project.folder, "run", "--cache").code


def run_against(project: Project) -> int:
    return run_process(project.folder, "run", "--against", "main").code


def run_against_with_cache_and_repeats(project: Project) -> int:
    return run_process(project.folder, "run", "--cache", "--repeat", "2", "--against", "main").code


def gate(project: Project) -> int:
    """The gate of a recorded run: it cannot ask again, so it may be unable to tell, and is never green."""
    run_process(project.folder, "run", "-q")
    return run_process(project.folder, "gate", "--against", "main").code


def gate_of_repeats(project: Project) -> int:
    run_process(project.folder, "run", "-q", "--repeat", "4")
    return run_process(project.folder, "gate", "--against", "main").code


def resume(project: Project) -> int:
    shutil.rmtree(project.folder / ".rejoinder/runs")
    run_process(project.folder, "run", "--against", "main", REJOINDER_KILL_AT="conversation.finished:4")
    return run_process(project.folder, "resume", only_run(project.folder).name).code


def resume_while_confirming(project: Project) -> int:
    shutil.rmtree(project.folder / ".rejoinder/runs")
    run_process(project.folder, "run", "--against", "main", REJOINDER_KILL_AT="conversation.finished:10")
    return run_process(project.folder, "resume", only_run(project.folder).name).code


def action(project: Project) -> int:
    github = Github(project.folder.with_name(f"{project.folder.name}-server"), project.folder)
    return github.action(against="main").code


def action_without_baseline(project: Project) -> int:
    github = Github(project.folder.with_name(f"{project.folder.name}-server"), project.folder)
    return github.action().code


def run_on_a_server(project: Project) -> int:
    with serving(project.folder) as served:
        return run_process(project.folder, "run", "--server", served.url).code


WAYS = [
    *(run_, run_with_cache, run_against, run_against_with_cache_and_repeats, gate, gate_of_repeats),
    *(resume, resume_while_confirming, action, action_without_baseline, run_on_a_server),
]


def assert_red(
    project: Project, bot: PlantedBot, plant: Plant, way: Callable[[Project], int], kind: str = "http"
) -> None:
    write_suite(project, bot, kind)
    assert run_process(project.folder, "run", "--cache").code == 0  # what it says is in the cache, if anything is
    project.run("bless")
    plant(bot)
    write_suite(project, bot, kind)
    code = way(project)
    assert code in (1, 3, 5), code
    if way in (run_against, action):
        assert code != 5  # a case that is broken for good is told


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__.strip("_"))
def test_no_way_is_green_over_a_broken_case(project: Project, bot: PlantedBot, way: Callable[[Project], int]) -> None:
    assert_red(project, bot, _broken_among_flaky, way)


@pytest.mark.parametrize("plant", PLANTS.values(), ids=PLANTS)
def test_no_kind_of_failure_is_green(project: Project, bot: PlantedBot, plant: Plant) -> None:
    assert_red(project, bot, plant, run_against)


@pytest.mark.parametrize("way", [run_with_cache, action], ids=lambda way: way.__name__)
@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "http"])
def test_no_kind_of_target_is_green_over_a_broken_case(
    project: Project, bot: PlantedBot, kind: str, way: Callable[[Project], int]
) -> None:
    assert_red(project, bot, _broken_among_flaky, way, kind)


@pytest.mark.long
@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__.strip("_"))
@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "http"])
def test_no_way_is_green_over_any_kind_of_target(
    project: Project, bot: PlantedBot, kind: str, way: Callable[[Project], int]
) -> None:
    assert_red(project, bot, _broken, way, kind)


@pytest.mark.long
@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__.strip("_"))
@pytest.mark.parametrize("plant", PLANTS.values(), ids=PLANTS)
def test_no_way_is_green_over_any_failure(
    project: Project, bot: PlantedBot, plant: Plant, way: Callable[[Project], int]
) -> None:
    assert_red(project, bot, plant, way)


@pytest.mark.parametrize("way", [run_against, action], ids=lambda way: way.__name__)
def test_a_bot_that_is_flaky_as_before_stays_green(
    project: Project, bot: PlantedBot, way: Callable[[Project], int]
) -> None:
    bot.flaky = {"c4"}
    write_suite(project, bot)
    run_process(project.folder, "run", "-q", "--repeat", "4")
    project.run("bless")
    assert way(project) in (0, 5)  # eight cases are too few for `no-regression`


def test_a_lost_session_is_refused_and_no_low_score(project: Project, bot: PlantedBot) -> None:
    bot.forgets = True
    bot.broken = {"c3"}
    write_suite(project, bot, follows=True, body={"message": "{{ prompt }}", "session": "{{ session }}"})
    ended = run_process(project.folder, "run")
    assert ended.code == 2 and "session" in ended.err
    assert not bot.asked


@pytest.mark.parametrize("way", [run_, run_against, resume, action], ids=lambda way: way.__name__.strip("_"))
@pytest.mark.parametrize("restarts", [1, 10**6], ids=["one restart", "new id each turn"])
def test_a_session_that_is_lost_on_the_way_is_never_green(
    project: Project, bot: PlantedBot, restarts: int, way: Callable[[Project], int]
) -> None:
    write_suite_of_sessions(project, bot)
    assert run_process(project.folder, "run").code == 0
    project.run("bless")
    bot.restarts = restarts
    assert way(project) == 3


@pytest.mark.parametrize("kind", KINDS)
def test_watching_asks_a_bot_again_that_has_broken(project: Project, bot: PlantedBot, kind: str) -> None:
    write_suite(project, bot, kind)
    suite = project.folder / "evals.yaml"
    watching = Watching(project.folder, "evals.yaml")
    try:
        watching.wait_for("PASS 8 passed of 8", 1)
        _broken(bot)
        suite.write_text(suite.read_text() + "\n")
        assert "FAIL" in watching.wait_for("1 failed", 1)
    finally:
        watching.end()
