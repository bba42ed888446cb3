"""Calls that were repeated after errors: a green run says so, with the target, the errors and their number."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rejoinder.testing import Answer, FakeServer, Fault, Received
from tests.kit import Project, Raw, run

CASES = 10


class Flaky:
    """Fails the first attempt of some questions, and those of one question for good until it is mended."""

    def __init__(self) -> None:
        self.seen: set[bytes] = set()
        self.is_mended = False

    def __call__(self, request: Received) -> Answer | Fault:
        words = request.body["messages"][-1]["content"]
        number = int(words.split()[-1])
        if number == CASES - 1 and not self.is_mended:
            return Fault("status", status=500)
        if request.raw not in self.seen and number < 4:
            self.seen.add(request.raw)
            return Fault("status", status=500) if number < 3 else Fault("reset_before_headers")
        return Answer("yes")


def suite(server: FakeServer, cases: int, **more: Any) -> Raw:
    target = {"name": "bot", "provider": "openai", "model": "m", "base_url": f"{server.url}/v1", "api_key": "k"}
    target |= {"retry_initial_delay_ms": 1, "retry_max_delay_ms": 2, "max_retries": 2, **more}
    evals = [{"id": f"c{n}", "prompt": f"Question {n}", "checks": [{"contains": "yes"}]} for n in range(cases)]
    return {"targets": [target], "target": "bot", "evals": evals}


def test_a_green_run_says_which_calls_were_retried(project: Project) -> None:
    with FakeServer(Flaky()) as server:
        document = run(project, suite(server, 8), "--workers", "1", code=0)
    [told] = document["run"]["calls"]
    assert (told["target"], told["made"], told["retried"], sum(told["errors"].values())) == ("bot", 8, 4, 4)
    assert told["errors"]["HTTP 500"] == 3 and len(told["errors"]) == 2
    words = "bot: 4 of 8 calls were retried after errors (HTTP 500: 3, "
    assert words in project.run("show")
    assert words in " ".join(project.run("show", "--verbose").split())
    project.run("report", "--out", "r.html")
    assert words[1:] in Path("r.html").read_text(), "as a sentence, with a capital"


def test_a_resumed_run_counts_what_was_retried_before(project: Project) -> None:
    flaky = Flaky()
    with FakeServer(flaky) as server:
        project.write("evals.yaml", suite(server, CASES))
        first = project.run_json("run", "evals.yaml", "--workers", "1", code=3)
        assert [(one["made"], one["retried"]) for one in first["run"]["calls"]] == [(10, 5)]
        assert first["run"]["calls"][0]["errors"]["HTTP 500"] == 5, "the last failure was not followed by a retry"
        flaky.is_mended = True
        second = project.run_json("resume", "last", "--retry-errors", code=0)
    assert [(one["made"], one["retried"]) for one in second["run"]["calls"]] == [(11, 5)]


def test_without_errors_the_run_does_not_mention_retries(project: Project) -> None:
    with FakeServer(lambda _: Answer("yes")) as server:
        document = run(project, suite(server, 3), code=0)
    assert document["run"]["calls"] == [{"target": "bot", "made": 3, "retried": 0, "errors": {}}]
    assert "retried" not in project.run("show")


@pytest.mark.parametrize("names", [("a",), ("a", "b")])
def test_the_line_of_refusals_names_the_targets(project: Project, names: tuple[str, ...]) -> None:
    with FakeServer(lambda _: Answer("yes"), faults=[Fault("status", status=429, retry_after=0)]) as server:
        written = suite(server, 2)
        [target] = written["targets"]
        written["targets"] = [{**target, "name": name, "model": name} for name in names]
        document = run(project, {**written, "target": list(names)}, "--workers", "1", code=0)
    assert f"{', '.join(names)} (openai): 1 of {2 * len(names) + 1} requests refused" in project.run("show")
    assert [one["retried"] for one in document["run"]["calls"]] == [0] * len(names), "a refusal is no error"
