"""An answer is recorded before its price: a paid answer is on the disk even if the price is not, and all readers of the
run see the same cost."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rejoinder.testing import Answer, FakeServer, Fault, Received
from tests.kit import (
    KILLED,
    Project,
    Raw,
    command_line,
    comparable,
    journal_of,
    only_run,
    prices_in,
    run_process,
    told_in,
    without,
)
from tests.labs.paid_lab import PRICES, PaidServer, make_suite

BUDGET = ("--budget-usd", "1", "--workers", "4")
PRICE = {"input": 3, "output": 15}


@pytest.fixture
def priced(project: Project) -> Project:
    project.write(".rejoinder/config.yaml", {"prices": PRICES})
    return project


def reply(request: Received) -> Answer | Fault:
    return Fault("status", status=400) if "bad" in str(request.body) else Answer("x", input_tokens=10, output_tokens=5)


def simple_suite(server: FakeServer) -> Raw:
    target = {"name": "m", "provider": "openai", "model": "own-model", "base_url": f"{server.url}/v1", "api_key": "k"}
    cases = [{"id": word, "prompt": word, "checks": [{"contains": "x"}]} for word in ("good", "bad")]
    return {"targets": [target], "target": "m", "evals": cases}


def is_intact(project: Project) -> bool:
    ended = run_process(project.folder, "verify", "last", "--format", "json")
    return ended.code == 0 and ended.document["verdict"] == "intact" and not ended.document["notes"]


def test_the_record_of_an_answer_stands_before_its_price(priced: Project) -> None:
    with PaidServer() as server:
        priced.write("evals.yaml", make_suite(server.fake.url, 4))
        document = priced.run_json("run", "evals.yaml", *BUDGET, code=None)
    folder = only_run(priced.folder)
    seen: set[str] = set()
    for record in journal_of(folder):
        if record["type"] == "told":
            assert "cost" not in record["reply"] and "price" not in record["reply"]
            seen.add(record["key"])
        elif record["type"] == "priced":
            assert record["key"] in seen
    assert set(prices_in(folder)) == told_in(folder)
    spent = document["run"]["budget"]["spent_usd"]
    assert spent == pytest.approx(sum(prices_in(folder).values())) == pytest.approx(server.usd)
    assert is_intact(priced)


@pytest.mark.slow
@pytest.mark.parametrize("number", [1, 7, 20])
def test_a_run_that_dies_between_an_answer_and_its_price_ends_with_the_same_figures(
    priced: Project, tmp_path: Path, number: int
) -> None:
    with PaidServer() as server:
        priced.write("evals.yaml", make_suite(server.fake.url, 10))
        whole = priced.run_json("run", "evals.yaml", *BUDGET, code=None)
        other = Project(tmp_path / "other")
        server.forget()
        other.write(".rejoinder/config.yaml", {"prices": PRICES})
        other.write("evals.yaml", make_suite(server.fake.url, 10))
        given = ("run", "evals.yaml", "--budget-usd", "1", "--workers", "1")
        assert run_process(other.folder, *given, REJOINDER_KILL_AT=f"told.synced:{number}").code == KILLED
        folder = only_run(other.folder)
        assert 1 <= len(told_in(folder) - set(prices_in(folder))) <= 3  # the votes of a judge come together
        resumed = run_process(other.folder, "resume", "last", "--format", "json").document
        twice = len(server.keys) - len(set(server.keys))
        assert twice <= 2, "at most the votes that were in flight beside the one that was recorded"
    assert resumed["run"]["budget"]["spent_usd"] == pytest.approx(whole["run"]["budget"]["spent_usd"])
    assert resumed["run"]["budget"]["spent_tokens"] == whole["run"]["budget"]["spent_tokens"]
    plain = [
        without(comparable(one), lambda key: key in ("request_id", "limits", "suites", "budget"))
        for one in (whole, resumed)
    ]
    assert plain[0]["results"] == plain[1]["results"]
    assert set(prices_in(folder)) == told_in(folder)
    assert is_intact(other)
    again = run_process(other.folder, "replay", "last", "--format", "json").document
    costs = [[one["cost"] for one in document["results"]] for document in (resumed, again)]
    assert costs[0] == costs[1] and None not in costs[0]


def test_a_price_that_was_found_once_stays(project: Project) -> None:
    """The price of an answer that had none when it was recorded is looked up by `resume`, and recorded then."""
    with FakeServer(reply) as server:
        project.write("evals.yaml", simple_suite(server))
        assert project.run_json("run", "evals.yaml", code=3)["results"][0]["cost"] is None
        for price in (PRICE, {"input": 300, "output": 1500}):
            project.write(".rejoinder/config.yaml", {"prices": {"m": price}})
            resumed = project.run_json("resume", "last", "--retry-errors", code=3)
            assert resumed["results"][0]["cost"] == pytest.approx(0.000105)
    assert len(prices_in(only_run(project.folder))) == 1
    assert project.run_json("show", code=None)["results"][0]["cost"] == pytest.approx(0.000105)
    verified: Any = project.run_json("verify", "last", code=0)
    assert not any("cost" in note for note in verified["notes"])


@pytest.mark.slow
@pytest.mark.parametrize("limit", [40, 64])
def test_few_descriptors_lose_no_paid_answer_and_no_price(priced: Project, limit: int) -> None:
    """The prices of the installed package, too, which lie in a file."""
    with PaidServer() as server:
        suite = make_suite(server.fake.url, 60, embeds=True)
        priced.write("evals.yaml", suite)
        line = f'ulimit -n {limit}; exec "$@"'
        given = command_line("run", "evals.yaml", "--workers", "60", "--format", "json")
        ended = run_process(priced.folder, command=["sh", "-c", line, "sh", *given])
        asked = server.keys
    folder = only_run(priced.folder)
    assert ended.document["summary"]["errors"] == 0, ended.err
    assert set(asked) == told_in(folder) == set(prices_in(folder))
    assert ended.document["summary"]["total_cost"] == pytest.approx(server.usd)
