"""Times of replies: how they are written, which of them count, and what nobody measured."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import pytest

from tests.kit import Project, Raw, case, codes, run, scripted, state_of, verdict_of
from tests.labs.session_lab import Bot

HOUR = 3600


@pytest.mark.parametrize(
    ("written", "seconds"), [("5ms", 0.005), ("4s", 4), ("1.5 s", 1.5), ("2min", 120), (20, 20), (0.25, 0.25)]
)
def test_a_time_may_have_a_unit(written: Any, seconds: float, project: Project) -> None:
    [result] = run(project, {"targets": [scripted("it", "Noon.")], "evals": [case("one", {"latency": written})]})[
        "results"
    ]
    assert verdict_of(result)["value"] == pytest.approx(seconds)


@pytest.mark.parametrize("written", ["5 hours", "4", "-1s", "s", "1e3s", "0ms", 0, -1])
def test_what_is_no_time_is_refused(written: Any, project: Project) -> None:
    [error] = project.errors({"evals": [case("one", {"latency": written})]})
    assert error["code"] == "out-of-range"
    assert "more than 0" in error["message"] or "such as `500ms`, `4s` or `2min`" in error["message"]


def transcript(project: Project, *replies: Raw) -> Raw:
    rows = [message for reply in replies for message in ({"role": "user", "content": "Question one"}, reply)]
    project.write("log.json", [{"id": "one", "messages": rows}])
    return {"name": "log", "provider": "transcript", "file": "log.json"}


def test_a_recorded_reply_without_a_time_neither_passes_nor_fails(project: Project) -> None:
    target = transcript(project, {"role": "assistant", "content": "Noon."})
    document = run(project, {"targets": [target], "evals": [case("one", {"latency": HOUR})]}, code=3)
    [result] = document["results"]
    assert (result["status"], state_of(verdict_of(result))) == ("error", "error")
    assert "the time of the reply was not measured" in verdict_of(result)["reason"]
    assert document["summary"]["by_target"]["log"]["duration_s"] is None
    assert "was not measured" in " ".join(project.run("show", code=None).split())


class Own:
    """A bot of the user's behind one kind of target."""

    def __init__(self, kind: str, project: Project, bot: Bot) -> None:
        project.write("own_bot.py", "def reply(request): return 'Paris'\n")
        body = {"message": "{{ prompt }}"}
        self.target: Raw = {
            "http": {"provider": "http", "url": f"{bot.url}/chat", "body": body, "reply_path": "reply"},
            "cli": {"provider": "cli", "command": [sys.executable, "-c", "print('Paris')"]},
            "python": {"provider": "python", "call": "own_bot:reply"},
        }[kind] | {"name": "own"}


@pytest.fixture(params=["http", "cli", "python"])
def own(request: pytest.FixtureRequest, project: Project) -> Iterator[Raw]:
    with Bot() as bot:
        yield Own(request.param, project, bot).target


def test_times_of_ones_own_bots_count(own: Raw, project: Project) -> None:
    document = run(project, {"targets": [own], "evals": [case("one"), case("two")]}, code=0)
    times = [turn["duration_s"] for result in document["results"] for turn in result["turns"]]
    assert min(times) > 0
    assert document["summary"]["by_target"]["own"]["duration_s"] == pytest.approx(sum(times) / 2, abs=1e-5)
    [rule] = project.run_json("gate", "--rule", "latency_p95<=60min")["rules"]
    assert (rule["verdict"], "2 replies" in rule["reason"]) == ("pass", True)
    project.run("bless", "--name", "main")
    assert '"latency_s":[]' not in (project.folder / ".rejoinder/baselines/main.json").read_text().replace(" ", "")
    project.run("run", "evals.yaml")
    latency = project.run_json("compare", "last~1", "last")["latency_s"]
    assert latency["a"] is not None and latency["b"] is not None


def test_times_of_scripts_do_not_count(project: Project) -> None:
    document = run(project, {"targets": [scripted("it", "Noon.")], "evals": [case()]}, code=0)
    assert document["summary"]["by_target"]["it"]["duration_s"] is None
    [rule] = project.run_json("gate", "--rule", "latency_p95<=4s", code=5)["rules"]
    assert rule["verdict"] == "cannot-tell"
    assert "the time of no reply is known" in rule["reason"]


def test_times_are_still_refused_where_they_are_no_numbers(project: Project) -> None:
    assert codes(project.errors({"evals": [case("one", {"latency": [4]})]})) == ["wrong-type"]
