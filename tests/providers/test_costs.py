"""What runs cost: each call, what calls add up to, what has no price, prices of one's own, the check `cost`."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator
from math import fsum
from pathlib import Path
from typing import Any

import pytest

import rejoinder
from rejoinder.errors import RejoinderError
from rejoinder.model import Price, Target, Usage
from rejoinder.prices.price_list import PriceList
from rejoinder.providers.target_prices import foreseen_price
from rejoinder.testing import Answer, FakeServer, Fault, Received, with_judge
from tests.kit import Project, Raw, codes, is_time, journal_of, run_folders, scripted, spec

USAGE = Answer("yes", input_tokens=1000, output_tokens=100)
"""At 1 dollar for a million tokens of input and 10 of output: a tenth of a cent each."""


@pytest.fixture
def serve(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[Any], FakeServer]]:
    """Starts a server that stands for every vendor."""
    servers: list[FakeServer] = []

    def start(reply: Any = USAGE) -> FakeServer:
        server = FakeServer(reply).start()
        servers.append(server)
        for name in ("OPENAI", "OPENROUTER", "GROQ", "VLLM"):
            monkeypatch.setenv(f"{name}_BASE_URL", f"{server.url}/v1")
        for name in ("ANTHROPIC_BASE_URL", "GEMINI_BASE_URL", "AZURE_OPENAI_ENDPOINT"):
            monkeypatch.setenv(name, server.url)
        monkeypatch.setenv("AZURE_OPENAI_API_KEY", "any-key")
        return server

    yield start
    for server in servers:
        server.stop()


def case(case_id: str = "one", *checks: Raw) -> Raw:
    return {"id": case_id, "prompt": f"Question {case_id}", "checks": list(checks) or [{"match": "yes"}]}


def suite_on(model: str, *cases: Raw, **more: Any) -> Raw:
    return {"metadata": {"model": model}, "evals": list(cases) or [case()], **more}


FOLLOWED = ({"match": "never"}, {"prompt": "Sure?", "checks": [{"match": "never"}]})
JUDGE = {"llm_judge": {"criteria": "Is it right?"}}
JUDGED = with_judge(*(Answer(text, input_tokens=1000, output_tokens=100) for text in ("yes", '{"score": 1}')))


def run(project: Project, suite: Raw, *arguments: str, code: int | None = 0) -> Raw:
    project.write("evals.yaml", suite)
    given = ("--format", "json", "--max-retries", "0")
    return json.loads(project.run("run", "evals.yaml", *given, *arguments, code=code))


def shown(project: Project, suite: Raw, *arguments: str, code: int | None = 0) -> str:
    """The line about the cost in a run's summary; empty where there is none."""
    project.write("evals.yaml", suite)
    text = project.run("run", "evals.yaml", "--max-retries", "0", "--verbose", *arguments, code=code)
    return next((line.strip() for line in text.splitlines() if line.startswith("  cost ")), "")


def latest(project: Project) -> Path:
    return run_folders(project.folder)[-1]


def about(amount: float) -> Any:
    return pytest.approx(amount, rel=1e-9)


# Each call

KNOWN: dict[str, tuple[str, Answer, float, float]] = {
    # 400 at 0.25, 600 cached at 0.025; 100 at 2, of which 40 were thought
    "gpt-5-mini": (
        "openai/gpt-5-mini",
        Answer("yes", input_tokens=1000, cached_tokens=600, output_tokens=100, reasoning_tokens=40),
        400 * 0.25 + 600 * 0.025,
        100 * 2,
    ),
    # 500 at 1, 300 cached at 0.1, 200 written to the cache at 1.25; 50 at 5
    "claude-haiku-4-5": (
        "anthropic/claude-haiku-4-5",
        Answer("yes", input_tokens=1000, cached_tokens=300, cache_write_tokens=200, output_tokens=50),
        500 * 1 + 300 * 0.1 + 200 * 1.25,
        50 * 5,
    ),
    # a request of more than 200,000 tokens: 6 and 22.5 instead of 3 and 15
    "claude-sonnet-4-5": (
        "anthropic/claude-sonnet-4-5",
        Answer("yes", input_tokens=300_000, output_tokens=1000),
        300_000 * 6,
        1000 * 22.5,
    ),
    # 1500 at 0.3, 500 cached at 0.03; 300 at 2.5, of which 120 are thoughts, which this API counts apart
    "gemini-2.5-flash": (
        "gemini/gemini-2.5-flash",
        Answer("yes", thinking="hm", input_tokens=2000, cached_tokens=500, output_tokens=300, reasoning_tokens=120),
        1500 * 0.3 + 500 * 0.03,
        300 * 2.5,
    ),
    "azure": (
        "azure/a-name-of-my-own",
        Answer("yes", input_tokens=1000, output_tokens=100, model="gpt-4o-2024-08-06"),
        1000 * 2.5,
        100 * 10,
    ),
    "openrouter": ("openrouter/openai/gpt-4o-mini", USAGE, 1000 * 0.15, 100 * 0.6),
    "openrouter-free": ("openrouter/some/model:free", USAGE, 0, 0),
    "dated": ("openai/gpt-5-mini-2025-08-07", USAGE, 1000 * 0.25, 100 * 2),
}


@spec("R66", "B8")
@pytest.mark.parametrize("name", KNOWN)
def test_known_answers(name: str, project: Project, serve: Any) -> None:
    model, answer, sent, received = KNOWN[name]
    serve(answer)
    document = run(project, suite_on(model))
    [result] = document["results"]
    [turn] = result["turns"]
    for one in (turn, result, document["summary"]):
        assert one["cost"] == about((sent + received) / 1e6)
        assert one["cost_breakdown"] == {"input": about(sent / 1e6), "output": about(received / 1e6)}
    assert document["summary"]["unpriced"] == {}
    assert "unpriced" not in turn


def test_the_responses_api_is_priced_like_the_other(project: Project, serve: Any) -> None:
    serve(KNOWN["gpt-5-mini"][1])
    target = {"name": "it", "provider": "openai", "model": "gpt-5-mini", "api": "responses"}
    document = run(project, {"targets": [target], "evals": [case()]})
    assert document["summary"]["cost"] == about((400 * 0.25 + 600 * 0.025 + 100 * 2) / 1e6)


# What calls add up to


def chance(seed: int) -> Callable[[Received], Answer | Fault]:
    """Answers with counts of all kinds, some failures, and verdicts where a judge is asked."""
    dice = random.Random(seed)

    def reply(request: Received) -> Answer | Fault:
        if dice.random() < 0.1:
            return Fault("status", status=400)
        sent, received = dice.randrange(1, 50_000), dice.randrange(1, 2000)
        text = json.dumps({"score": dice.random()}) if request.api == "anthropic" else dice.choice(["yes", "no"])
        cached = dice.randrange(0, sent)
        return Answer(text, input_tokens=sent, cached_tokens=cached, output_tokens=received)

    return reply


@pytest.mark.slow
@spec("R66", "P27")
@pytest.mark.parametrize("seed", range(4))
def test_totals_are_the_sums_of_the_journal(seed: int, project: Project, serve: Any) -> None:
    serve(chance(seed))
    checks = ({"match": "yes"}, JUDGE, {"prompt": "Sure?", "checks": [{"match": "yes"}, JUDGE]})
    suite = suite_on("openai/gpt-5-mini", *(case(f"case-{number}", *checks) for number in range(6)))
    suite["judge_target"] = "anthropic/claude-haiku-4-5"
    arguments = ("-n", "3", "-m", "openai/gpt-5-mini,openai/gpt-4o-mini,gemini/gemini-2.5-flash")
    document = run(project, suite, *arguments, code=None)
    summary, results = document["summary"], document["results"]
    records = journal_of(latest(project))
    judging = {record["key"]: record["key"].startswith("judge-") for record in records if record["type"] == "asked"}
    prices = {record["key"]: record["price"] for record in records if record["type"] == "priced"}
    replies = [
        (judging[record["key"]], {**record["reply"], "price": prices[record["key"]]})
        for record in records
        if "reply" in record
    ]
    assert len(replies) > 50
    by_judges = [reply for judged, reply in replies if judged]
    others = [reply for judged, reply in replies if not judged]
    for total, cost, told in (("usage", "cost", others), ("judge_usage", "judge_cost", by_judges)):
        assert summary[cost] == about(fsum(sum(reply["price"].values()) for reply in told))
        for kind in ("input_tokens", "output_tokens"):
            assert summary[total][kind] == sum(reply["usage"].get(kind, 0) for reply in told)
    for kind in ("input", "output"):
        assert summary["cost_breakdown"][kind] == about(fsum(reply["price"][kind] for reply in others))
    for result in results:
        turns = [turn for turn in result["turns"] if turn["response"] is not None]
        assert result["cost"] == (about(fsum(turn["cost"] for turn in turns)) if turns else None)
        if turns:
            assert fsum(result["cost_breakdown"].values()) == about(result["cost"])
        for turn in turns:
            assert fsum(turn["cost_breakdown"].values()) == about(turn["cost"])
    assert fsum(summary["cost_breakdown"].values()) == about(summary["cost"])
    assert fsum(one["cost"] for one in summary["by_target"].values()) == about(summary["cost"])


@spec("R66")
def test_every_turn_of_a_conversation_is_paid_for(project: Project, serve: Any) -> None:
    serve()
    document = run(project, suite_on("openai/gpt-5-mini", case("one", *FOLLOWED)), "-n", "2", code=1)
    each = (1000 * 0.25 + 100 * 2) / 1e6
    assert [result["cost"] for result in document["results"]] == [about(2 * each)] * 2
    assert document["summary"]["cost"] == about(4 * each)
    assert document["summary"]["by_target"]["openai/gpt-5-mini"]["cost"] == about(4 * each)


def test_what_failed_before_the_first_reply_leaves_the_rest_its_cost(project: Project, serve: Any) -> None:
    def reply(request: Received) -> Answer | Fault:
        return Fault("status", status=400) if "broken" in str(request.body) else USAGE

    serve(reply)
    document = run(project, suite_on("openai/gpt-5-mini", case("fine"), case("broken")), code=3)
    fine, broken = document["results"]
    assert broken["cost"] is None
    assert document["summary"]["cost"] == fine["cost"] == about((1000 * 0.25 + 100 * 2) / 1e6)


def test_costs_from_python(project: Project, serve: Any) -> None:
    serve()
    project.write("evals.yaml", suite_on("openai/gpt-5-mini", case("one"), case("two")))
    report = rejoinder.run("evals.yaml", repeat=2)
    assert report.summary.cost == about(4 * (1000 * 0.25 + 100 * 2) / 1e6)
    assert fsum(result.cost or 0.0 for result in report.results) == about(report.summary.cost or 0.0)


@spec("V16")
def test_the_cost_in_words(project: Project, serve: Any) -> None:
    serve()
    line = shown(project, suite_on("openai/gpt-5-mini"))
    assert line == "cost      $0.00045 ($0.00025 input, $0.00020 output)"
    judged = suite_on("openai/gpt-5-mini", case("one", JUDGE), judge_target="anthropic/claude-haiku-4-5")
    serve(JUDGED)
    line = shown(project, judged)
    assert line == "cost      $0.00195 ($0.00025 input, $0.00020 output, $0.00150 by judges)"


# No price


def test_a_model_without_a_price_has_no_cost_and_is_named(project: Project, serve: Any) -> None:
    serve()
    document = run(project, suite_on("openai/nobody-s-model", case("one", *FOLLOWED)), "-n", "2", code=1)
    summary = document["summary"]
    assert (summary["cost"], summary["cost_breakdown"]) == (None, None)
    assert summary["unpriced"] == {"openai/nobody-s-model": 4}
    assert summary["by_target"]["openai/nobody-s-model"]["cost"] is None
    for result in document["results"]:
        assert result["cost"] is None
        assert "cost_breakdown" not in result
        assert [turn["unpriced"] for turn in result["turns"]] == ["openai/nobody-s-model"] * 2
    line = shown(project, suite_on("openai/nobody-s-model"))
    assert line.startswith("cost      unknown: no price for openai/nobody-s-model (1 call)")
    assert "`prices` in the configuration" in line
    assert "$" not in line


@pytest.mark.parametrize("provider", ["vllm", "http"])
def test_providers_without_a_table_are_not_free(provider: str, project: Project, serve: Any) -> None:
    server = serve()
    target: Raw = {"name": "it", "provider": provider}
    if provider == "http":
        target |= {"url": f"{server.url}/v1/chat/completions", "reply_path": "choices[0].message.content"}
        target["body"] = {"model": "m", "messages": "{{ messages }}"}
    else:
        target["model"] = "gpt-5-mini"
    summary = run(project, {"targets": [target], "evals": [case()]})["summary"]
    assert summary["cost"] is None
    assert summary["unpriced"] == {"vllm/gpt-5-mini" if provider == "vllm" else "it": 1}


def test_priced_and_unpriced_side_by_side(project: Project, serve: Any) -> None:
    serve()
    names = "openai/gpt-5-mini,openai/nobody-s-model"
    document = run(project, suite_on("openai/gpt-5-mini"), "-m", names)
    summary = document["summary"]
    each = (1000 * 0.25 + 100 * 2) / 1e6
    assert [result["cost"] for result in document["results"]] == [about(each), None]
    assert summary["cost"] is None, "a sum of which a part is unknown is unknown"
    assert summary["cost_breakdown"] == {"input": about(0.00025), "output": about(0.0002)}
    assert summary["unpriced"] == {"openai/nobody-s-model": 1}
    assert [one["cost"] for one in summary["by_target"].values()] == [about(each), None]
    line = shown(project, suite_on("openai/gpt-5-mini"), "-m", names)
    assert line.startswith(
        "cost      $0.00045 ($0.00025 input, $0.00020 output) and no price for openai/nobody-s-model"
    )


def test_a_judge_without_a_price_is_told(project: Project, serve: Any) -> None:
    serve(JUDGED)
    judged = suite_on("openai/gpt-5-mini", case("one", JUDGE), judge_target="openai/nobody-s-model")
    summary = run(project, judged)["summary"]
    assert (summary["cost"], summary["judge_cost"]) == (about(0.00045), None)
    line = shown(project, judged)
    assert line.startswith("cost      $0.00045 ")
    assert line.endswith("and no price for what judges used")


def test_the_cost_of_scripts_is_unknown(project: Project) -> None:
    target = scripted("it", "yes")
    assert run(project, {"targets": [target], "evals": [case()]})["summary"]["cost"] is None
    assert shown(project, {"targets": [target], "evals": [case()]}) == ""


# Prices of one's own

OWN = {"input": 1, "output": 10}
OVERRIDES: dict[str, tuple[dict[str, Raw], Raw, float]] = {
    "model": ({"gpt-5-mini": OWN}, {"provider": "openai", "model": "gpt-5-mini"}, 0.002),
    "provider-model": ({"openai/gpt-5-mini": OWN}, {"provider": "openai", "model": "gpt-5-mini"}, 0.002),
    "letter-case": ({"OpenAI/GPT-5-Mini": OWN}, {"provider": "openai", "model": "gpt-5-mini"}, 0.002),
    "target": ({"it": OWN}, {"provider": "openai", "model": "gpt-5-mini"}, 0.002),
    "wildcard": ({"vllm/*": OWN}, {"provider": "vllm", "model": "some/model"}, 0.002),
    "target-wildcard": ({"i*": OWN}, {"provider": "vllm", "model": "some/model"}, 0.002),
    "new-model": ({"openai/too-new": OWN}, {"provider": "openai", "model": "too-new"}, 0.002),
    "exact-beats-pattern": (
        {"openai/*": {"input": 9, "output": 9}, "gpt-5-mini": OWN},
        {"provider": "openai", "model": "gpt-5-mini"},
        0.002,
    ),
    "free": ({"vllm/*": {"input": 0, "output": 0}}, {"provider": "vllm", "model": "m"}, 0.0),
    "somebody-else-s": ({"gpt-5-nano": OWN}, {"provider": "openai", "model": "gpt-5-mini"}, 0.00045),
    "deployment": ({"azure/mine": OWN}, {"provider": "azure", "model": "mine"}, 0.002),
    "deployment-as-such": ({"azure/mine": OWN}, {"provider": "azure", "deployment": "mine"}, 0.002),
    "mock": ({"it": {"input": 0, "output": 1000}}, {"provider": "mock", "response": "yes"}, 0.001),
}


@spec("V8")
@pytest.mark.parametrize("name", OVERRIDES)
def test_the_project_s_prices_win(name: str, project: Project, serve: Any) -> None:
    prices, target, cost = OVERRIDES[name]
    serve()
    project.write(".rejoinder/config.yaml", {"prices": prices})
    summary = run(project, {"targets": [{"name": "it", **target}], "evals": [case()]})["summary"]
    assert summary["cost"] == about(cost)
    assert summary["unpriced"] == {}


FORESEEN: dict[str, tuple[Target, dict[str, Price], tuple[float, float] | None]] = {
    "deployment": (Target(name="it", provider="azure", settings={"deploymentName": "gpt-4o-mini"}), {}, (0.15, 0.6)),
    "a model beats it": (
        Target(name="it", provider="azure", settings={"deployment": "d", "model": "gpt-4o-mini"}),
        {},
        (0.15, 0.6),
    ),
    "unknown": (Target(name="it", provider="azure", settings={"deployment": "d"}), {}, None),
    "on this machine": (Target(name="it", provider="scripted", settings={}), {}, (0.0, 0.0)),
    "on this machine, with a price": (
        Target(name="it", provider="scripted", settings={}),
        {"it": Price(input=1, output=2)},
        (1.0, 2.0),
    ),
    "a server of one's own": (Target(name="it", provider="vllm", settings={"model": "m"}), {}, None),
}


@pytest.mark.parametrize("name", FORESEEN)
def test_a_price_is_known_before_the_first_call(name: str) -> None:
    target, prices, wanted = FORESEEN[name]
    found = foreseen_price(target, Usage(1000, 1000), PriceList(prices))
    assert (None if found is None else (1000 * found.input, 1000 * found.output)) == (wanted and pytest.approx(wanted))


def test_a_dry_run_knows_the_price_of_a_deployment(project: Project) -> None:
    target = {"name": "it", "provider": "azure", "endpoint": "https://x", "deployment": "gpt-4o-mini", "max_tokens": 9}
    project.write("evals.yaml", {"targets": [target], "evals": [case()]})
    found = project.run_json("run", "evals.yaml", "--dry-run")["targets"]["it"]
    assert 0 < found["least_usd"] < found["most_usd"]


def test_cached_tokens_have_a_price_of_their_own_where_it_is_given(project: Project, serve: Any) -> None:
    serve(Answer("yes", input_tokens=1000, cached_tokens=300, cache_write_tokens=200, output_tokens=5))
    for more, cost in (({}, 1050), ({"cached": 0.5}, 900), ({"cached": 0.5, "cache_write": 2}, 1100)):
        project.write(".rejoinder/config.yaml", {"prices": {"claude*": {**OWN, **more}}})
        assert run(project, suite_on("anthropic/claude-x"))["summary"]["cost"] == about(cost / 1e6)


def test_judges_are_priced_by_the_project_too(project: Project, serve: Any) -> None:
    serve(JUDGED)
    project.write(".rejoinder/config.yaml", {"prices": {"vllm/judge": OWN}})
    judged = suite_on("openai/gpt-5-mini", case("one", JUDGE), judge_target="vllm/judge")
    summary = run(project, judged)["summary"]
    assert (summary["cost"], summary["judge_cost"]) == (about(0.00045), about(0.002))


WRONG_PRICES: dict[str, tuple[Any, str, str]] = {
    "no-output": ({"gpt": {"input": 1}}, "missing-field", "prices.gpt.output"),
    "negative": ({"gpt": {"input": -1, "output": 1}}, "out-of-range", "prices.gpt.input"),
    "text": ({"gpt": {"input": "1", "output": 1}}, "wrong-type", "prices.gpt.input"),
    "number": ({"gpt": 3}, "wrong-type", "prices.gpt"),
    "list": ([3], "wrong-type", "prices"),
    "unknown-key": ({"gpt": {"input": 1, "output": 1, "cachd": 1}}, "unknown-key", "prices.gpt.cachd"),
}


@pytest.mark.parametrize("name", WRONG_PRICES)
def test_a_wrong_price_is_refused_with_its_place_and_nothing_is_sent(name: str, project: Project, serve: Any) -> None:
    prices, code, path = WRONG_PRICES[name]
    server = serve()
    project.write(".rejoinder/config.yaml", {"prices": prices})
    project.write("evals.yaml", suite_on("openai/gpt-5-mini"))
    for command in ("run", "validate"):
        result = project.invoke(command, "evals.yaml")
        assert result.exit_code == 2
        assert f"error[{code}] .rejoinder/config.yaml:1:" in result.output
    [found] = project.validate(".rejoinder/config.yaml")["files"][0]["errors"]
    assert (found["code"], found["path"]) == (code, path)
    assert server.requests == []


@pytest.mark.parametrize("number", [".inf", ".nan"])
def test_an_endless_price_is_no_price(number: str, project: Project, serve: Any) -> None:
    server = serve()
    project.write(".rejoinder/config.yaml", f"prices: {{gpt-5-mini: {{input: {number}, output: 1}}}}\n")
    project.write("evals.yaml", suite_on("openai/gpt-5-mini"))
    result = project.invoke("run", "evals.yaml")
    assert (result.exception.exit_code if isinstance(result.exception, RejoinderError) else result.exit_code) == 2
    assert server.requests == []


# The check


@spec("B8")
@pytest.mark.parametrize(
    ("limit", "shown", "status"),
    [
        (1, "$1.00", "passed"),
        (0.00045, "$0.00045", "passed"),
        (0.00044, "$0.00044", "failed"),
        (0.000449, "$0.000449", "failed"),
        (0, "$0", "failed"),
    ],
)
def test_a_reply_may_cost_so_much_and_no_more(
    limit: float, shown: str, status: str, project: Project, serve: Any
) -> None:
    serve()
    document = run(project, suite_on("openai/gpt-5-mini", case("one", {"cost": limit})), code=None)
    [result] = document["results"]
    [check] = result["turns"][0]["checks"]
    assert result["status"] == status
    cost = "$0.000450" if limit == 0.000449 else "$0.00045"
    assert check == {
        "check": f"cost {limit:g}",
        "passed": status == "passed",
        "score": float(status == "passed"),
        "reason": f"{cost} is {'not ' if status == 'passed' else ''}more than {shown}",
        "kind": "cost",
        "value": limit,
    }


@spec("B8", "P27")
def test_an_unknown_cost_makes_the_cost_check_an_error(project: Project, serve: Any) -> None:
    server = serve()
    document = run(project, suite_on("openai/nobody-s-model", case("one", {"cost": 1}, FOLLOWED[1])), code=3)
    [result] = document["results"]
    assert (result["status"], result["score"]) == ("error", None)
    assert result["turns"][0]["checks"][0]["error"] is True
    assert "`prices` in the configuration" in result["error"]["message"]
    assert len(server.requests) == 1, "an error sends no follow-up"
    other = run(project, suite_on("openai/nobody-s-model", case("one", {"or": [{"cost": 1}, {"match": "yes"}]})))
    assert other["results"][0]["passed"], "where something else decides, it need not be known"


@spec("B8")
def test_each_turn_is_held_to_its_own_limit(project: Project, serve: Any) -> None:
    def cheaper(request: Received) -> Answer:
        return Answer("yes", input_tokens=1000 if len(request.body["messages"]) == 1 else 100, output_tokens=0)

    serve(cheaper)
    follow = {"prompt": "Shorter!", "checks": [{"cost": 0.0001}]}
    document = run(project, suite_on("openai/gpt-5-mini", case("one", {"cost": 0.0001}, follow)))
    assert document["results"][0]["succeeded_on_turn"] == 2


@spec("P29")
def test_the_limit_is_shown_as_a_number(project: Project, serve: Any) -> None:
    serve()
    project.write("evals.yaml", suite_on("openai/gpt-5-mini", case("one", {"cost": 0.0004})))
    text = project.run("run", "evals.yaml", code=1)
    assert "check: cost 0.0004: $0.00045 is more than $0.0004" in text


@spec("P19", "P20")
@pytest.mark.parametrize(
    ("value", "code"),
    [(-1, "out-of-range"), ("1", "wrong-type"), ("$1", "wrong-type"), (None, "wrong-type"), (True, "wrong-type")],
)
def test_the_limit_is_a_number_of_dollars(value: Any, code: str, project: Project) -> None:
    [error] = project.errors(suite_on("openai/gpt-5-mini", case("one", {"cost": value})))
    assert (error["code"], error["path"]) == (code, "evals[0].checks[0].cost")


def test_a_limit_that_is_right_is_accepted(project: Project) -> None:
    for value in (0, 1, 0.5, 1e-7):
        assert codes(project.errors(suite_on("openai/gpt-5-mini", case("one", {"cost": value})))) == []


# Again


def timeless(document: Raw) -> Raw:
    """A document without what may differ when a run is taken up again."""

    def without(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: without(one) for key, one in value.items() if not is_time(key)}
        return [without(one) for one in value] if isinstance(value, list) else value

    return without({key: document[key] for key in ("summary", "results")})


@spec("R65", "R66")
def test_resuming_prices_nothing_again(project: Project, serve: Any) -> None:
    server = serve(chance(7))
    suite = suite_on("openai/gpt-5-mini", *(case(f"case-{number}", *FOLLOWED) for number in range(5)))
    before = run(project, suite, "-n", "2", code=None)
    asked = len(server.requests)
    project.write(".rejoinder/config.yaml", {"prices": {"gpt-5-mini": {"input": 99, "output": 99}}})
    again = project.run_json("resume", "last", code=None)
    assert timeless(again) == timeless(before)
    assert timeless(project.run_json("show", code=None)) == timeless(before)
    assert len(server.requests) == asked


def test_a_run_whose_suite_is_gone_goes_on_with_the_project_s_prices(project: Project, serve: Any) -> None:
    answers = iter([USAGE, Fault("status", status=400), USAGE])
    serve(lambda _: next(answers))
    project.write(".rejoinder/config.yaml", {"prices": {"gpt-5-mini": OWN}})
    run(project, suite_on("openai/gpt-5-mini", case("one"), case("two")), "-w", "1", code=3)
    (project.folder / "evals.yaml").unlink()
    document = project.run_json("resume", "last", "--retry-errors")
    assert [result["cost"] for result in document["results"]] == [about(0.002)] * 2
