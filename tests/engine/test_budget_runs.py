"""Runs under a budget: whatever is in flight, fails or is killed, the cap holds; and what is left is spent.

The server keeps a till. It may charge as many tokens as a request has bytes, and as many as the request allows for the
reply; what it has taken in all must never be more than the budget.
"""

from __future__ import annotations

import asyncio
import json
import random
import re
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import structs

from rejoinder.engine.targets import OpenTarget, OpenTargets
from rejoinder.errors import RejoinderError
from rejoinder.model import ChatMessage, Reply, Request, Suite, Target, ToolCall, Usage
from rejoinder.model.calls import Cost, Price
from rejoinder.model.spending import NOTHING, Amount
from rejoinder.runs.ledger import Ledger
from rejoinder.runs.options import RunOptions
from rejoinder.testing import Answer, FakeServer, Fault
from tests import kit
from tests.kit import (
    KILLED,
    Process,
    Project,
    Raw,
    journal_of,
    prices_in,
    refused,
    run_folders,
    spec,
    told_in,
    wait_until,
)
from tests.labs.paid_lab import PRICES, PaidServer, comparable, make_suite, make_targets

SLACK = 1e-12
"""Dollars that adding in another order makes."""


@pytest.fixture
def server() -> Iterator[PaidServer]:
    with PaidServer() as server:
        yield server


@pytest.fixture
def priced(project: Project) -> Project:
    project.write(".rejoinder/config.yaml", {"prices": PRICES})
    return project


def run(project: Project, content: Raw, *arguments: str, code: int | None = 4) -> Raw:
    return kit.run(project, content, *arguments, code=code)


def resume(project: Project, *arguments: str, code: int | None = 4) -> Raw:
    return project.run_json("resume", "last", *arguments, code=code)


def refusal(project: Project, content: Raw, *arguments: str) -> RejoinderError:
    project.write("evals.yaml", content)
    error = refused(project, "run", "evals.yaml", *arguments)
    assert (error.exit_code, run_folders(project.folder)) == (2, [])
    return error


def most_in(run_folder: Path) -> list[Amount]:
    """What was reserved for each attempt, in their order."""
    asked = [record for record in journal_of(run_folder) if record["type"] == "asked"]
    return [Amount(*record["most"]) for record in asked if "most" in record]


def one_case(url: str, **more: Any) -> Raw:
    """A single call."""
    case = {"id": "one", "prompt": "A question", "checks": [{"regex": "right|wrong"}]}
    return {"targets": make_targets(url, retry_initial_delay_ms=1, **more), "target": "it", "evals": [case]}


# The cap


@pytest.mark.slow
@spec("B11")
@pytest.mark.parametrize("cap", ["usd", "tokens", "both"])
@pytest.mark.parametrize("seed", range(3))
def test_the_cap_is_never_overshot_and_what_is_left_does_not_suffice_for_a_call(
    seed: int, cap: str, priced: Project
) -> None:
    chance = random.Random(seed)
    usd, tokens = chance.uniform(0.02, 0.08), chance.randint(8000, 40000)
    caps = {"usd": ["--budget-usd", str(usd)], "tokens": ["--budget-tokens", str(tokens)]}
    caps["both"] = caps["usd"] + caps["tokens"]
    with PaidServer(seed, latency_s=0.002) as server:
        document = run(priced, make_suite(server.fake.url, 60, embeds=True), *caps[cap], "--workers", "20")
    budget = document["run"]["budget"]
    assert budget["spent_tokens"] == server.tokens
    [folder] = run_folders(priced.folder)
    left = [True]
    if cap != "tokens":
        assert budget["spent_usd"] == pytest.approx(server.usd)
        assert server.usd <= usd + SLACK
        left.append(usd - server.usd < max(one.usd for one in most_in(folder)))
    if cap != "usd":
        assert server.tokens <= tokens
        left.append(tokens - server.tokens < max(one.tokens for one in most_in(folder)))
    assert any(left[1:]), "as much was spent as could be"
    assert (document["run"]["status"], budget["reached"]) == ("budget", True)
    summary = document["summary"]
    assert summary["unfinished"] > 0
    assert summary["passed"] + summary["failed"] + summary["unfinished"] == summary["total"] == 60
    assert summary["errors"] == 0, "a call that was not made is no error"
    assert server.fake.peak_in_flight > 1


@pytest.mark.slow
@spec("B11", "R67")
@pytest.mark.parametrize("seed", range(3))
def test_the_cap_holds_when_calls_fail_time_out_break_and_are_refused(seed: int, priced: Project) -> None:
    chance = random.Random(seed)
    kinds: list[Fault | None] = [
        Fault("status", status=500),
        Fault("slow_headers", seconds=3),
        Fault("reset_in_body"),
        Fault("invalid_json"),
        *[None] * 15,
    ]
    budget = chance.uniform(0.04, 0.06)
    with PaidServer(seed) as server:
        # Refused once: after more of them the run would rightly take its time.
        refused = Fault("status", status=429, retry_after=0)
        server.fault = lambda _request, number: refused if number == 8 else chance.choice(kinds)
        content = make_suite(server.fake.url, 60, timeout_seconds=0.4, retry_initial_delay_ms=1, retry_max_delay_ms=5)
        given = ("--workers", "20", "--budget-usd", str(budget))
        document = run(priced, content, *given, code=None)
        assert document["run"]["status"] == "budget"
        assert server.usd <= document["run"]["budget"]["spent_usd"] + SLACK
        assert document["run"]["budget"]["spent_usd"] <= budget + SLACK
        # What the journal says was spent is what was: the next process has no more to spend than this one had left.
        asked = len(server.keys)
        again = resume(priced, "--budget-usd", "0.000001")
        assert len(server.keys) == asked
        assert again["run"]["budget"]["spent_usd"] == pytest.approx(document["run"]["budget"]["spent_usd"])
        more = resume(priced, "--budget-usd", str(2 * budget), code=None)
        assert server.usd <= more["run"]["budget"]["spent_usd"] + SLACK <= 2 * budget + 2 * SLACK


@pytest.mark.slow
def test_a_budget_that_suffices_is_no_hindrance(priced: Project, server: PaidServer) -> None:
    content = make_suite(server.fake.url, 8, embeds=True)
    free = run(priced, content, code=None)
    asked = Counter(server.keys)
    server.forget()
    capped = run(priced, content, "--budget-usd", "50", "--budget-tokens", "10000000", code=None)
    assert comparable(capped) == comparable(free)
    assert Counter(server.keys) == asked
    budget = capped["run"]["budget"]
    assert (budget["usd"], budget["tokens"], budget["reached"]) == (50, 10000000, False)
    assert (budget["spent_usd"], budget["spent_tokens"]) == (pytest.approx(server.usd), server.tokens)
    assert capped["summary"]["total_cost"] == pytest.approx(server.usd)
    assert "budget" not in free["run"]


def test_a_budget_that_does_not_suffice_for_the_first_call_sends_nothing(priced: Project, server: PaidServer) -> None:
    for budget in (["--budget-usd", "0.000001"], ["--budget-tokens", "1"]):
        document = run(priced, make_suite(server.fake.url, 5), *budget)
        assert (document["run"]["status"], document["summary"]["unfinished"], document["results"]) == ("budget", 5, [])
    assert server.keys == []


@pytest.mark.slow
@spec("B11")
def test_the_user_is_told_how_to_go_on(priced: Project, server: PaidServer) -> None:
    priced.write("evals.yaml", make_suite(server.fake.url, 30))
    result = priced.invoke("run", "evals.yaml", "--budget-usd", "0.02", "--budget-tokens", "900000")
    [folder] = run_folders(priced.folder)
    assert result.exit_code == 4
    *_, way, last = result.stdout.splitlines()
    command = way.removeprefix("next: ")
    more = re.fullmatch(rf"rejoinder resume {folder.name} --budget-usd (0\.\d+) --budget-tokens 900000", command)
    assert more is not None and float(more[1]) > 0.02, way
    assert last.startswith("WARN budget reached: ") and " not finished of 30" in last
    assert re.search(r"\$0\.0[12]\d* of \$0\.02(?:00)?, [\d,]+ of 900,000 tokens; reached", result.stdout)
    shown = priced.invoke("resume", "last", "--format", "json")
    # A call that fits may have been made meanwhile, so that another sum is proposed.
    assert re.fullmatch(rf"the budget is reached; next: {command.replace(more[1], r'0.[0-9]+')}\n", shown.stderr)
    assert json.loads(shown.stdout)["run"]["status"] == "budget"
    assert priced.invoke(*command.split()[1:]).exit_code in (1, 4), "the command that is shown is one"


# Going on


@pytest.mark.slow
@spec("B11", "R64")
def test_a_run_that_is_given_more_goes_on_and_asks_nothing_twice(priced: Project, server: PaidServer) -> None:
    content = make_suite(server.fake.url, 12, embeds=True)
    whole = run(priced, content, code=None)
    cost = server.usd
    server.forget()
    for path in run_folders(priced.folder):
        (path / "run.json").unlink()
    budget = cost / 3
    document = run(priced, content, "--workers", "20", "--budget-usd", str(budget))
    stops = 1
    while document["run"]["status"] == "budget":
        assert server.usd <= budget + SLACK
        budget += cost / 4
        stops += 1
        document = resume(priced, "--budget-usd", str(budget), code=None)
    assert stops > 2
    assert server.usd <= budget + SLACK
    assert max(Counter(server.keys).values()) == 1
    assert comparable(document) == comparable(whole)


@pytest.mark.slow
@spec("B11")
def test_a_run_that_is_given_no_more_stops_at_once_again(priced: Project, server: PaidServer) -> None:
    content = one_case(server.fake.url)
    content["evals"] = [
        {**content["evals"][0], "id": f"case-{number}", "prompt": f"Question {number}"} for number in range(9)
    ]
    document = run(priced, content, "--workers", "3", "--budget-tokens", "450")
    asked = len(server.keys)
    assert 0 < asked < 9
    for more in ((), ("--budget-tokens", "450"), ("--budget-tokens", "1")):
        again = resume(priced, *more)
        assert (again["run"]["status"], len(server.keys)) == ("budget", asked)
        assert again["run"]["budget"]["spent_tokens"] == document["run"]["budget"]["spent_tokens"] <= 450
        assert comparable(again)["results"] == comparable(document)["results"]


@pytest.mark.slow
def test_a_budget_may_come_later(priced: Project, server: PaidServer) -> None:
    """What was spent before there was one counts as well."""
    content = make_suite(server.fake.url, 10)
    server.fault = lambda _request, number: Fault("status", status=400) if number > 20 else None
    run(priced, content, "--workers", "1", "--max-tokens", "50", code=3)
    spent, asked = server.usd, len(server.keys)
    server.fault = lambda _request, _number: None
    stopped = resume(priced, "--retry-errors", "--budget-usd", str(spent + 1e-7))
    assert len(server.keys) == asked
    assert stopped["run"]["budget"]["spent_usd"] == pytest.approx(spent)
    resume(priced, "--retry-errors", "--budget-usd", str(spent * 1.5), code=None)
    assert spent < server.usd <= spent * 1.5 + SLACK


@pytest.mark.slow
def test_the_budget_of_a_suite_holds_also_when_its_file_is_gone(priced: Project, server: PaidServer) -> None:
    content = make_suite(server.fake.url, 12)
    content["budget"] = {"usd": 0.02, "tokens": 900_000}
    document = run(priced, content)
    (priced.folder / "evals.yaml").unlink()
    for more in ((), ("--budget-tokens", "800000")):
        document = resume(priced, *more)
        assert document["run"]["budget"]["usd"] == 0.02
        assert server.usd <= 0.02
    assert resume(priced, "--budget-usd", "1", code=None)["run"]["status"] == "completed"


@pytest.mark.slow
@spec("R64", "B11")
def test_calls_in_doubt_count_for_the_most_that_they_can_have_cost(priced: Project) -> None:
    with PaidServer(latency_s=0.0) as server:
        content = make_suite(server.fake.url, 12)
        priced.write("evals.yaml", content)
        server.fault = lambda _request, number: Fault("slow_headers", seconds=60) if number > 10 else None
        given = ("run", "evals.yaml", "--budget-usd", "1", "--budget-tokens", "9000000", "--workers", "6")
        child = Process(priced.folder, *given)
        wait_until(lambda: server.fake.in_flight >= 6 and len(server.keys) >= 16)
        [folder] = run_folders(priced.folder)
        wait_until(lambda: len(prices_in(folder)) == 10, "not all answers were priced")
        child.kill()
        told = {record["key"]: record for record in journal_of(folder) if record["type"] == "told"}
        doubtful = [
            Amount(*record["most"])
            for record in journal_of(folder)
            if record["type"] == "asked" and record["key"] not in told
        ]
        assert len(doubtful) >= 6
        paid = [record["reply"] for record in told.values()]
        prices = prices_in(folder)
        assert set(prices) == set(told)
        spent = sum(prices.values()) + sum(one.usd for one in doubtful)
        tokens = sum(reply["usage"]["input_tokens"] + reply["usage"]["output_tokens"] for reply in paid)
        tokens += sum(one.tokens for one in doubtful)
        server.fault = lambda _request, _number: None
        asked = len(server.keys)
        stopped = resume(priced, "--budget-usd", str(spent))
        assert len(server.keys) == asked
        assert stopped["run"]["budget"]["spent_usd"] == pytest.approx(spent)
        assert stopped["run"]["budget"]["spent_tokens"] == tokens
        assert server.usd <= spent + SLACK, "they were all charged, and the budget knows"
        done = resume(priced, "--budget-usd", "1", code=None)
        assert done["run"]["status"] == "completed"
        assert done["run"]["budget"]["spent_usd"] >= server.usd - SLACK
        assert not set(told) & set(server.keys[asked:])


@pytest.mark.slow
@spec("B11")
@pytest.mark.parametrize("first", [(), ("--budget-tokens", "9000000")], ids=["none", "tokens"])
def test_calls_in_doubt_count_also_when_the_budget_comes_later(first: tuple[str, ...], priced: Project) -> None:
    """What they can have cost was not written down then, but follows from what they asked."""
    with PaidServer(latency_s=0.0) as server:
        priced.write("evals.yaml", make_suite(server.fake.url, 12))
        server.fault = lambda _request, number: Fault("slow_headers", seconds=60) if number > 10 else None
        child = Process(priced.folder, "run", "evals.yaml", "--workers", "6", "--max-tokens", "50", *first)
        wait_until(lambda: server.fake.in_flight >= 6 and len(server.keys) >= 16)
        child.kill()
        server.fault = lambda _request, _number: None
        asked, spent = len(server.keys), server.usd
        stopped = resume(priced, "--budget-usd", str(spent / 2), "--budget-tokens", "9000000")
        assert len(server.keys) == asked
        assert stopped["run"]["budget"]["spent_usd"] >= spent - SLACK
        assert stopped["run"]["budget"]["spent_tokens"] >= server.tokens
        done = resume(priced, "--budget-usd", "1", code=None)
        assert done["run"]["budget"]["spent_usd"] >= server.usd - SLACK


def test_a_price_that_came_later_counts_for_what_was_asked_before(project: Project, server: PaidServer) -> None:
    content = make_suite(server.fake.url, 6)
    server.fault = lambda _request, number: Fault("status", status=400) if number > 12 else None
    run(project, content, "--workers", "1", "--max-tokens", "50", code=3)
    spent, asked = server.usd, len(server.keys)
    project.write(".rejoinder/config.yaml", {"prices": PRICES})
    stopped = resume(project, "--retry-errors", "--budget-usd", str(spent + 1e-7))
    assert len(server.keys) == asked
    assert stopped["run"]["budget"]["spent_usd"] == pytest.approx(spent)


@pytest.mark.slow
def test_the_parts_of_a_merged_run_have_spent(priced: Project, server: PaidServer) -> None:
    content = make_suite(server.fake.url, 12)
    parts = [run(priced, content, "--shard", f"{n}/2", "--budget-usd", "0.01", code=None) for n in (1, 2)]
    names = [part["run"]["id"] for part in parts]
    spent, asked = server.usd, len(server.keys)
    priced.run("merge", *names, code=None)
    stopped = resume(priced, "--budget-usd", str(spent))
    assert len(server.keys) == asked
    assert stopped["run"]["budget"]["spent_usd"] == pytest.approx(spent)


# Attempts

ATTEMPTS: dict[str, tuple[Fault, bool]] = {
    "timeout": (Fault("slow_headers", seconds=30), True),
    "stall": (Fault("stall_in_body", seconds=30), True),
    "reset": (Fault("reset_before_headers"), True),
    "reset-in-body": (Fault("reset_in_body"), True),
    "500": (Fault("status", status=500), False),
    "503": (Fault("status", status=503), False),
    "429": (Fault("status", status=429, retry_after=0), False),
}
"""What happens to the first attempt, and whether it may have been carried out."""


@pytest.mark.slow
@spec("B11")
@pytest.mark.parametrize("name", ATTEMPTS)
def test_an_attempt_that_may_have_been_carried_out_counts_in_full(name: str, priced: Project) -> None:
    fault, counts = ATTEMPTS[name]
    with PaidServer() as server:
        server.fault = lambda _request, number: fault if number == 1 else None
        document = run(priced, one_case(server.fake.url, timeout_seconds=1), "--budget-usd", "1", code=0)
        [folder] = run_folders(priced.folder)
        first, second = most_in(folder)
        assert first == second
        answered = server.charges[-1]
        spent = document["run"]["budget"]
        assert spent["spent_tokens"] == answered.tokens + (first.tokens if counts else 0)
        assert spent["spent_usd"] == pytest.approx(answered.usd + (first.usd if counts else 0))
        # A process that takes the run up again reads the same from the journal.
        again = resume(priced, code=0)
        assert again["run"]["budget"] == {**spent, "spent_usd": pytest.approx(spent["spent_usd"])}


@pytest.mark.parametrize("name", ["timeout", "reset", "invalid-json", "400"])
def test_a_call_that_fails_for_good_counts_where_it_may_have_been_carried_out(name: str, priced: Project) -> None:
    faults = {"invalid-json": Fault("invalid_json"), "400": Fault("status", status=400)}
    fault = faults.get(name) or ATTEMPTS[name][0]
    with PaidServer() as server:
        server.fault = lambda _request, _number: fault
        content = one_case(server.fake.url, timeout_seconds=1, max_retries=0)
        document = run(priced, content, "--budget-usd", "1", code=3)
        [folder] = run_folders(priced.folder)
        [most] = most_in(folder)
        assert document["run"]["budget"]["spent_tokens"] == (0 if name == "400" else most.tokens)
        again = resume(priced, code=3)
        assert again["run"]["budget"] == document["run"]["budget"]


def test_an_answer_without_a_count_of_tokens_counts_in_full(priced: Project) -> None:
    """What it has cost is unknown; an estimate may be too low."""
    reply = {"choices": [{"message": {"role": "assistant", "content": "right"}, "finish_reason": "stop"}]}
    with FakeServer(Fault("status", status=200, body=reply)) as server:
        document = run(priced, one_case(server.url), "--budget-usd", "1", code=0)
        [most] = most_in(run_folders(priced.folder)[0])
        assert document["summary"]["usage"]["approximate"] is True
        assert document["run"]["budget"]["spent_tokens"] == most.tokens
        assert resume(priced, code=0)["run"]["budget"] == document["run"]["budget"]


# What is counted


def test_embeddings_are_paid_from_the_same_purse(priced: Project, server: PaidServer) -> None:
    checks = [{"semantic": {"expected": ["right or wrong", "something else"], "threshold": 0}}]
    content = one_case(server.fake.url)
    content["evals"][0]["checks"] = checks
    content["embedding_target"] = "meaning"
    document = run(priced, content, "--budget-usd", "1", code=None)
    assert [charge.model for charge in server.charges].count("text-embedding-3-small") == 3
    assert document["run"]["budget"]["spent_tokens"] == server.tokens
    assert document["run"]["budget"]["spent_usd"] == pytest.approx(server.usd)
    [folder] = run_folders(priced.folder)
    assert len(most_in(folder)) == 4
    # Enough for the reply and for nothing else.
    reply = server.charges[0]
    server.forget()
    cap = str(max(reply.tokens + 5, most_in(folder)[0].tokens))
    run(priced, content, "--budget-tokens", cap)
    assert [charge.model for charge in server.charges] == [reply.model]


def test_scripts_cost_no_money_and_count_their_tokens(priced: Project, server: PaidServer) -> None:
    """Also when a run is taken up again."""
    content = make_suite(server.fake.url, 6)
    content["targets"].append({"name": "script", "provider": "scripted", "replies": ["right and a few more words"] * 9})
    content["target"] = "script"
    document = run(priced, content, "--budget-tokens", "1000000", "--budget-usd", "1", code=None)
    scripted = document["summary"]["usage"]["total_tokens"]
    assert scripted > 0 < server.tokens
    assert document["run"]["budget"]["spent_tokens"] == server.tokens + scripted
    assert document["run"]["budget"]["spent_usd"] == pytest.approx(server.usd)
    assert resume(priced, code=None)["run"]["budget"] == document["run"]["budget"]


@spec("B11")
@pytest.mark.parametrize("provider", ["scripted", "mock"])
@pytest.mark.parametrize("cap", ["usd", "tokens"])
def test_a_budget_can_be_seen_without_a_model(provider: str, cap: str, project: Project) -> None:
    """What a script will say is known, so it is reserved to the token."""
    replies = [{"text": "yes", "input_tokens": 400, "output_tokens": 600}]
    words = {"replies": replies} if provider == "scripted" else {"response": "yes " * 1000}
    project.write(".rejoinder/config.yaml", {"prices": {"it": {"input": 1000, "output": 1000}}})
    cases = [{"id": f"c{n}", "prompt": "Well?", "checks": [{"contains": "yes"}]} for n in range(5)]
    content = {"targets": [{"name": "it", "provider": provider, **words}], "target": "it", "evals": cases}
    limit = {"usd": ("--budget-usd", "2.5"), "tokens": ("--budget-tokens", "2999")}[cap]
    document = run(project, content, *limit)
    assert [document["summary"][name] for name in ("passed", "unfinished", "exit_code")] == [2, 3, 4]
    assert document["run"]["budget"][f"spent_{cap}"] == {"usd": 2.0, "tokens": 2000}[cap]
    more = {"usd": ("--budget-usd", "5"), "tokens": ("--budget-tokens", "5000")}[cap]
    assert resume(project, *more, code=0)["summary"]["passed"] == 5


@pytest.mark.parametrize("cap", ["usd", "tokens"])
def test_what_was_recorded_is_not_paid_for_again(cap: str, project: Project) -> None:
    """Neither in the run nor when it is taken up."""
    replies = [{"text": "yes", "output_tokens": 1000}]
    project.write(".rejoinder/config.yaml", {"prices": {"it": {"input": 1, "output": 1000}}})
    cases = [{"id": f"c{n}", "prompt": "Well?", "checks": [{"contains": "yes"}]} for n in range(3)]
    content: Raw = {"targets": [{"name": "it", "provider": "scripted", "replies": replies}], "target": "it"}
    run(project, {**content, "evals": cases}, "--record", "cassettes", code=0)
    content["targets"] = [{"name": "it", "provider": "replay", "cassettes": "cassettes"}]
    limit = {"usd": ("--budget-usd", "0.5"), "tokens": ("--budget-tokens", "15")}[cap]
    document = run(project, {**content, "evals": cases}, *limit, code=0)
    assert document["run"]["budget"][f"spent_{cap}"] == 0
    assert resume(project, code=0)["run"]["budget"] == document["run"]["budget"]


def test_the_command_to_go_on_with_helps(project: Project) -> None:
    replies = [{"text": "yes", "output_tokens": 1000}]
    case = {"id": "a", "prompt": "Well?", "checks": [{"contains": "yes"}]}
    target = {"name": "it", "provider": "scripted", "replies": replies}
    project.write("evals.yaml", {"targets": [target], "target": "it", "evals": [case]})
    project.write(".rejoinder/config.yaml", {"prices": {"it": {"input": 1, "output": 12.3456789}}})
    result = project.invoke("run", "--budget-tokens", "10", "--budget-usd", "0.000001")
    assert result.exit_code == 4
    command = next(line for line in result.output.splitlines() if line.startswith("next: rejoinder "))
    assert project.run_json(*command.split()[2:], code=0)["summary"]["passed"] == 1


@pytest.mark.parametrize("cap", [0.02, 0.3])
def test_a_deployment_that_is_dearer_than_its_target_says_is_found_out_by_one_call(
    cap: float, project: Project
) -> None:
    """It cannot be known before the first reply; so it is asked for alone."""
    answer = Answer("yes", input_tokens=100, output_tokens=400, model="gpt-4-32k")
    with FakeServer(lambda _: answer) as fake:
        target = {"name": "it", "provider": "azure", "endpoint": fake.azure_url, "api_key": "k", "deployment": "d"}
        target |= {"model": "gpt-4o-mini", "max_tokens": 500}
        cases = [{"id": f"c{n}", "prompt": f"Well, {n}?", "checks": [{"contains": "yes"}]} for n in range(20)]
        content = {"targets": [target], "target": "it", "evals": cases}
        document = run(project, content, "--budget-usd", str(cap), "--workers", "20")
        spent, one = document["run"]["budget"]["spent_usd"], 100 * 60e-6 + 400 * 120e-6
        assert spent == pytest.approx(one * len(fake.requests))
        assert len(fake.requests) == 1 if cap < one else one < spent <= cap


# What cannot be held to a budget


@spec("B11")
@pytest.mark.parametrize("who", ["it", "judge"])
def test_a_model_without_a_price_is_refused_before_anything_is_sent(
    who: str, project: Project, server: PaidServer
) -> None:
    content = make_suite(server.fake.url, 2)
    known = {model: price for model, price in PRICES.items() if (model == "paid-large") != (who == "it")}
    project.write(".rejoinder/config.yaml", {"prices": known})
    error = refusal(project, content, "--budget-usd", "1")
    name = "openai/paid-large" if who == "it" else "anthropic/paid-judge"
    assert error.message == f"the price of `{name}` is unknown, so no budget in dollars can include it"
    assert f"prices: {{{who}: {{input: 1, output: 3}}}}" in (error.hint or "")
    assert "--budget-tokens" in (error.hint or "")
    assert server.keys == []
    said = {who: {"input": 1, "output": 3}}
    project.write(".rejoinder/config.yaml", {"prices": {**known, **said}})
    assert run(project, content, "--budget-usd", "1", code=None)["run"]["status"] == "completed", "the advice helps"
    project.write(".rejoinder/config.yaml", {})
    run(project, content, "--budget-tokens", "1000000", code=None)


def test_an_embedder_needs_no_length_and_has_the_price_of_the_table(priced: Project, server: PaidServer) -> None:
    content = make_suite(server.fake.url, 1, embeds=True)
    run(priced, content, "--budget-usd", "1", code=None)
    content["targets"][2]["model"] = "nobody-s-embedder"
    result = priced.invoke("run", "evals.yaml", "--budget-usd", "1")
    assert result.exit_code in (0, 1)
    priced.write("evals.yaml", content)
    result = priced.invoke("run", "evals.yaml", "--budget-usd", "1")
    assert "the price of `openai/nobody-s-embedder` is unknown" in result.exception.message


@spec("B11")
@pytest.mark.parametrize("budget", ["--budget-usd", "--budget-tokens"])
def test_without_a_limit_of_replies_no_budget_can_hold(budget: str, priced: Project, server: PaidServer) -> None:
    content = make_suite(server.fake.url, 2)
    del content["targets"][0]["max_tokens"]
    error = refusal(priced, content, budget, "1")
    assert error.message == "a budget needs a limit for the replies of target `it`"
    assert "--max-tokens 4096" in (error.hint or "")
    assert server.keys == []
    document = run(priced, content, budget, "500000", "--max-tokens", "30", code=None)
    assert document["run"]["status"] == "completed"
    sent = [request.body for request in server.fake.requests]
    assert {body["max_completion_tokens"] for body in sent if "max_completion_tokens" in body} == {30}
    assert {body["max_tokens"] for body in sent if "max_tokens" in body} == {40}, "the judge has its own"


@pytest.mark.parametrize("provider", ["python", "http"])
def test_what_has_no_bounds_is_refused(provider: str, priced: Project, server: PaidServer, module: Any) -> None:
    it = {"name": "own", "provider": "http", "url": server.fake.url, "reply_path": "text"}
    if provider == "python":
        it = {
            "name": "own",
            "provider": "python",
            "call": module("def reply(request):\n    return {'text': 'right', 'cost': 0.01}\n") + ":reply",
        }
    content = {"targets": [it], "evals": [{"prompt": "A question", "checks": [{"contains": "right"}]}]}
    for budget in ("--budget-usd", "--budget-tokens"):
        error = refusal(priced, content, budget, "1", "--max-tokens", "50")
        what = "the most that a call of target `own` can cost is unknown, so no budget can include it"
        assert error.message == what
        assert error.hint is not None and "has to know the most before" in error.hint and "`--limit 3`" in error.hint
    assert server.keys == []


@pytest.mark.parametrize("given", [("--budget-usd", "0"), ("--budget-usd", "-1"), ("--budget-usd", "much")])
def test_a_budget_is_a_number_above_zero(given: tuple[str, str], priced: Project, server: PaidServer) -> None:
    priced.write("evals.yaml", make_suite(server.fake.url, 1))
    assert priced.invoke("run", "evals.yaml", *given).exit_code == 2
    assert priced.invoke("run", "evals.yaml", "--budget-tokens", given[1]).exit_code == 2
    assert server.keys == []


# The longest reply, on the wire

WIRES: dict[str, tuple[Raw, str, Callable[[Raw], Any]]] = {
    "openai": ({"provider": "openai", "model": "m"}, "/v1", lambda body: body["max_completion_tokens"]),
    "responses": ({"provider": "openai", "model": "m", "api": "responses"}, "/v1", lambda it: it["max_output_tokens"]),
    "vllm": ({"provider": "vllm", "model": "m"}, "/v1", lambda body: body["max_tokens"]),
    "anthropic": ({"provider": "anthropic", "model": "m"}, "", lambda body: body["max_tokens"]),
    "gemini": ({"provider": "gemini", "model": "m"}, "", lambda body: body["generationConfig"]["maxOutputTokens"]),
    "azure": ({"provider": "azure", "model": "m", "api_key": "k"}, "", lambda body: body["max_completion_tokens"]),
}


def wired(name: str, url: str, **more: Any) -> Raw:
    target, path, _ = WIRES[name]
    where = {"endpoint": url} if name == "azure" else {"base_url": url + path}
    case = {"id": "one", "prompt": "A question", "checks": [{"contains": "OK"}]}
    return {"targets": [{"name": "it", **target, **where, **more}], "evals": [case]}


@pytest.mark.slow
@spec("B11")
@pytest.mark.parametrize("name", WIRES)
def test_the_longest_reply_is_sent_to_every_api(name: str, project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LIMIT", "35")
    limit = WIRES[name][2]
    with FakeServer() as server:

        def sent(*arguments: str, **more: Any) -> int:
            run(project, wired(name, server.url, **more), *arguments, code=0)
            return limit(server.requests[-1].body)

        assert sent("--max-tokens", "77") == 77
        assert sent("--max-tokens", "77", max_tokens=33) == 33, "the target's own counts"
        assert sent("--max-tokens", "77", max_output_tokens=33) == 33
        assert sent("--max-tokens", "77", maxTokens=33) == 33
        assert sent("--max-tokens", "77", max_tokens="${{ LIMIT }}") == 35
        assert sent("--max-tokens", "77", max_output_tokens="") == 77, "an empty one is none"
        document = run(project, wired(name, server.url, max_tokens="${{ LIMIT }}"), "--budget-tokens", "9000", code=0)
        assert document["run"]["budget"]["spent_tokens"] == document["summary"]["total_tokens"]
        [reserved] = most_in(run_folders(project.folder)[-1])
        body = server.requests[-1].raw
        assert len(body) + 35 <= reserved.tokens <= len(body) + 35 + 100


@pytest.mark.parametrize("name", WIRES)
def test_what_an_author_adds_to_the_body_is_counted(name: str, project: Project) -> None:
    """It goes out, so it counts: a limit of another size, several replies, tools and whatever else there is to read."""
    limits = {"gemini": {"generationConfig": {"maxOutputTokens": 900}}, "responses": {"max_output_tokens": 900}}
    field = "max_tokens" if name in ("anthropic", "vllm") else "max_completion_tokens"
    with FakeServer(extra_fields=("notes",)) as server:

        def reserved(**extra: Any) -> int:
            run(
                project, wired(name, server.url, max_tokens=50, extra_body=extra), "--budget-tokens", "90000", code=None
            )
            return most_in(run_folders(project.folder)[-1])[0].tokens

        plain = reserved()
        assert reserved(**limits.get(name, {field: 900})) - plain >= 850
        assert reserved(notes="n" * 3000) - plain >= 3000
        tools = [{"type": "function", "function": {"name": "f", "description": "d" * 500, "parameters": {}}}]
        assert reserved(tools=tools) - plain >= 1000
        if name in ("openai", "vllm", "azure"):
            assert reserved(n=4) - plain >= 150
        if name == "gemini":
            assert reserved(generationConfig={"candidateCount": 4}) - plain >= 150


def test_a_limit_that_cannot_be_read_is_none(project: Project) -> None:
    with FakeServer() as server:
        content = wired("openai", server.url, max_tokens=50, extra_body={"max_completion_tokens": "as it likes"})
        error = refusal(project, content, "--budget-tokens", "5000")
        assert "a budget needs a limit for the replies of target `it`" in error.message
        assert server.requests == []


# The most


def opened(tmp_path: Path, name: str, price: Price | None = None) -> OpenTarget:
    raw = wired(name, "http://127.0.0.1:9", max_tokens=70)["targets"][0]
    settings = {key: value for key, value in raw.items() if key not in ("name", "provider")}
    target = Target(name="it", provider=raw["provider"], settings=settings)
    prices = {"it": price} if price is not None else {}
    suite = Suite(
        path=str(tmp_path / "evals.yaml"), root=str(tmp_path), cases=[], targets={"it": target}, prices=prices
    )
    return OpenTargets(RunOptions()).open(suite, target)


TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)
JSON_TEXT = st.dictionaries(TEXT, TEXT, max_size=3).map(json.dumps)
CALLS = st.lists(st.builds(ToolCall, TEXT, JSON_TEXT, TEXT), max_size=12).map(tuple)
MESSAGES = st.lists(
    st.one_of(
        st.builds(ChatMessage, st.sampled_from(["system", "user", "assistant"]), TEXT),
        st.builds(ChatMessage, st.just("assistant"), TEXT, CALLS),
        st.builds(ChatMessage, st.just("tool"), TEXT, st.just(()), TEXT),
    ),
    max_size=12,
).map(tuple)


def tokens_by_bytes(messages: tuple[ChatMessage, ...]) -> int:
    """The count of a tokenizer that knows no more than bytes, with some for what stands around messages and calls. Ids
    of calls are left out: not every API is sent them as they are."""
    count = 3
    for message in messages:
        count += 4 + len(message.content.encode())
        for call in message.tool_calls:
            count += 8 + len((call.name + call.arguments).encode())
    return count


@pytest.mark.slow
@spec("B11")
@pytest.mark.parametrize("name", WIRES)
def test_the_most_is_never_below_what_bytes_make(name: str, tmp_path: Path) -> None:
    target = opened(tmp_path, name)

    @settings(max_examples=60, deadline=None)
    @given(messages=MESSAGES)
    def holds(messages: tuple[ChatMessage, ...]) -> None:
        request = Request(target="it", case_id="", trial=1, turn=1, call=0, messages=messages, question="")
        most = target.most(request, in_usd=False)
        assert most.tokens >= tokens_by_bytes(messages) + 70

    holds()
    asyncio.run(target.provider.close())


@pytest.mark.slow
@given(text=TEXT)
@settings(max_examples=60, deadline=None)
def test_the_most_of_a_vector_has_no_reply_in_it(text: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    target = opened(tmp_path_factory.getbasetemp(), "openai")
    request = Request(target="it", case_id="", trial=1, turn=1, call=0, messages=(), question="", embed=text)
    assert len(text.encode()) <= target.most(request, in_usd=False).tokens <= 6 * len(text) + 120
    asyncio.run(target.provider.close())


RATE = st.floats(0, 100)


@pytest.mark.slow
@spec("B11", "R66")
@given(
    price=st.builds(Price, input=RATE, output=RATE, cached=st.none() | RATE, cache_write=st.none() | RATE),
    shares=st.tuples(*[st.floats(0, 1)] * 4),
)
@settings(max_examples=60, deadline=None)
def test_the_most_is_never_below_what_any_usage_costs(
    price: Price, shares: tuple[float, ...], tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Whatever of the input is read from a cache or written to one, at whatever price."""
    target = opened(tmp_path_factory.getbasetemp(), "anthropic", price)
    message = ChatMessage("user", "What may this cost?")
    request = Request(target="it", case_id="", trial=1, turn=1, call=0, messages=(message,), question="")
    most = target.most(request, in_usd=True)
    sent = int(shares[0] * (most.tokens - 70))
    cached = int(shares[1] * sent)
    written = int(shares[2] * (sent - cached))
    usage = Usage(sent, int(shares[3] * 70), cached_tokens=cached, cache_write_tokens=written)
    assert price.cost(usage).total <= most.usd + SLACK
    asyncio.run(target.provider.close())


# What a journal says was spent

ATTEMPT = st.sampled_from(["failed", "charged", "lost"])
ENDS = ["reply", "estimate", "priced later", "never priced", "asked twice", "failure", "open", "cached"]


@given(
    calls=st.lists(
        st.tuples(st.lists(ATTEMPT, max_size=4), st.sampled_from(ENDS)),
        max_size=6,
    ),
    taken_up=st.booleans(),
    late=st.booleans(),
)
def test_the_ledger_counts_what_the_run_did(calls: list[tuple[list[str], str]], taken_up: bool, late: bool) -> None:
    """`late`: failures are written down after the next attempt, as may happen."""
    ledger, spent = Ledger(price=lambda _, reply: structs.replace(reply, cost=0.5)), NOTHING
    most, cost = Amount(1.0, 100), Amount(0.25, 10)
    for number, (attempts, end) in enumerate(calls):
        key, waiting = str(number), 0
        if end == "cached":
            ledger.told(key, Reply("kept", Usage(5, 5), 0.25))
            continue
        for attempt in attempts:
            ledger.asked(key, "it", most)
            if attempt == "lost":
                spent += most
            elif attempt == "charged":
                spent += most
                ledger.failed(key, charged=True)
            elif late:
                waiting += 1
            else:
                ledger.failed(key, charged=False)
        if end != "failure":
            ledger.asked(key, "it", most)
        for _ in range(waiting):
            ledger.failed(key, charged=False)
        if end in ("reply", "estimate"):
            ledger.told(key, Reply("said", Usage(5, 5, approximate=end == "estimate"), 0.25))
            spent += cost if end == "reply" else most
        elif end in ("priced later", "never priced", "asked twice"):
            ledger.told(key, Reply("said", Usage(5, 5)))
            spent += Amount(0.125 if end == "priced later" else 0.5, 10)
            if taken_up:
                ledger.taken_up()
            if end == "asked twice":  # as an answer that no judge could be read from
                ledger.asked(key, "it", most)
                ledger.told(key, Reply("said again", Usage(5, 5)))
                spent += Amount(0.125, 10)
            if end != "never priced":
                ledger.priced(key, Cost(0.1, 0.025))
        elif end == "failure":
            ledger.told(key, None)
        else:
            spent += most
    ledger.asked("script", "a script", None)
    ledger.told("script", None)
    if taken_up:
        ledger.taken_up()
    ledger.close()
    assert ledger.spent.tokens == spent.tokens
    assert ledger.spent.usd == pytest.approx(spent.usd)


# An interrupt


@pytest.mark.slow
def test_an_interrupted_run_sends_nothing_of_what_waits_for_the_budget(priced: Project) -> None:
    with PaidServer(latency_s=1.5) as server:
        priced.write("evals.yaml", make_suite(server.fake.url, 20))
        given = ("run", "evals.yaml", "--format", "json", "--budget-tokens", "500", "--workers", "20")
        child = Process(priced.folder, *given)
        wait_until(lambda: server.keys)
        child.interrupt()
        document = child.document(code=130)
        assert document["run"]["status"] == "interrupted"
        assert document["run"]["budget"]["spent_tokens"] <= 500
        [folder] = run_folders(priced.folder)
        assert len(told_in(folder)) == len(server.keys) == server.fake.peak_in_flight, "what was under way, and no more"


# Killed, with everything switched on

MOMENTS = [
    "run.created:1",
    "asked.written:20",
    "told.queued:25",
    "batch.before_write:3",
    "batch.torn:3",
    "batch.synced:2",
    "conversation.finished:4",
    "results.written:1",
    "summary.written:1",
]
ALL_ON = ("--cache", "--record", "tapes", "--budget-usd", "1", "--budget-tokens", "5000000", "--workers", "6")


def tapes_of(folder: Path) -> dict[str, str]:
    """The cassettes of a project, without how long each answer took and what the server called it."""
    files = {path.name: path.read_text(encoding="utf-8") for path in sorted((folder / "tapes").rglob("*.yaml"))}
    return {name: re.sub(r"\n +(latency_s|request_id): .*", "", text) for name, text in files.items()}


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[PaidServer, Path, Raw, Counter[str]]]:
    folder = tmp_path_factory.mktemp("undisturbed")
    with PaidServer(seed=5) as server:
        prepare(folder, server)
        document = Process(folder, "run", "evals.yaml", "--format", "json", *ALL_ON).document(code=1)
        yield server, folder, document, Counter(server.keys)


def prepare(folder: Path, server: PaidServer) -> None:
    (folder / ".rejoinder").mkdir(exist_ok=True)
    (folder / ".rejoinder" / "config.yaml").write_text(json.dumps({"prices": PRICES}), encoding="utf-8")
    content = make_suite(server.fake.url, 6, embeds=True)
    (folder / "evals.yaml").write_text(json.dumps(content), encoding="utf-8")


@pytest.mark.slow
@spec("R64", "R65", "B11", "B14")
@pytest.mark.parametrize("moment", MOMENTS)
@pytest.mark.every(4)
def test_a_run_with_budget_cassettes_and_cache_survives_its_death(
    moment: str, undisturbed: tuple[PaidServer, Path, Raw, Counter[str]], tmp_path: Path
) -> None:
    server, whole, document, calls = undisturbed
    server.forget()
    prepare(tmp_path, server)
    assert (
        Process(tmp_path, "run", "evals.yaml", "--format", "json", *ALL_ON, REJOINDER_KILL_AT=moment).end().code
        == KILLED
    )
    [folder] = run_folders(tmp_path)
    records = journal_of(folder) if (folder / "journal.jsonl").exists() else []
    told = {record["key"] for record in records if record["type"] == "told"}
    reserved = {record["key"]: Amount(*record["most"]) for record in records if record["type"] == "asked"}
    before = len(server.keys)
    assert set(server.keys) <= set(reserved), "what was sent had been reserved, and says so"
    resumed = Process(tmp_path, "resume", "last", "--format", "json").document(code=1)
    assert not told & set(server.keys[before:]), "nothing that is recorded is asked again"
    assert set(server.keys) == set(calls)
    assert resumed["run"]["status"] == "completed"
    assert comparable(resumed) == comparable(document)
    assert tapes_of(tmp_path) == tapes_of(whole)
    budget = resumed["run"]["budget"]
    assert server.usd - SLACK <= budget["spent_usd"] <= 1
    doubtful = sum(most.tokens for key, most in reserved.items() if key not in told)
    assert document["run"]["budget"]["spent_tokens"] <= budget["spent_tokens"]
    assert budget["spent_tokens"] <= document["run"]["budget"]["spent_tokens"] + doubtful
