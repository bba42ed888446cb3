"""What calls cost: known answers, the project's own prices, the table of genai-prices, and the list of models."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime
from decimal import Decimal
from math import isclose
from typing import Any

import genai_prices
import pytest
from click.testing import CliRunner, Result
from genai_prices.data import providers as table
from genai_prices.types import ModelInfo, TieredPrices

from rejoinder.cli.models import command
from rejoinder.errors import UsageError
from rejoinder.model.calls import NO_USAGE, Cost, Price, Usage
from rejoinder.prices.model_list import known_models, match_models, select_models
from rejoinder.prices.price_list import SOURCES, PriceList
from rejoinder.suite.configuration import read_prices
from tests.kit import Project, spec

TABLE_NAMES = {"gemini": "google", "xai": "x-ai"}
"""The only two whose names differ."""

INSTANTS = [
    datetime(2026, 11, 15, 2, 30, tzinfo=UTC),
    datetime(2026, 11, 15, 20, 0, tzinfo=UTC),
    datetime(2027, 3, 1, 12, 0, tzinfo=UTC),
]
"""Prices change with the hour and with the date."""


def at(moment: datetime) -> PriceList:
    return PriceList(clock=lambda: moment)


def close(cost: Cost | None, sent: float, received: float) -> bool:
    return (
        cost is not None and isclose(cost.input, sent, rel_tol=1e-12) and isclose(cost.output, received, rel_tol=1e-12)
    )


# Known answers, reckoned by hand.


def test_a_price_by_hand() -> None:
    price = Price(input=2.0, output=8.0, cached=0.5, cache_write=3.0)
    usage = Usage(1_000_000, 250_000, reasoning_tokens=200_000, cached_tokens=400_000, cache_write_tokens=100_000)
    # 500 000 fresh at 2, 400 000 read at 0.5, 100 000 written at 3; reasoning is among the 250 000 at 8.
    assert close(price.cost(usage), 1.0 + 0.2 + 0.3, 2.0)
    assert price.cost(usage).total == pytest.approx(3.5)
    assert price.cost(usage) + Cost(1.0, 2.0) == Cost(2.5, 4.0)


def test_without_a_price_for_the_cache_its_tokens_are_input() -> None:
    usage = Usage(1_000, 0, cached_tokens=600, cache_write_tokens=300)
    assert Price(input=2.0, output=8.0).cost(usage) == Price(input=2.0, output=8.0).cost(Usage(1_000, 0))
    assert close(Price(input=2.0, output=8.0, cached=0.0).cost(usage), 0.0008, 0)


def test_more_cached_tokens_than_input_cost_no_less_than_nothing() -> None:
    usage = Usage(100, 0, cached_tokens=1_000)
    assert close(Price(input=2.0, output=8.0, cached=1.0).cost(usage), 0.001, 0)


@spec("V8")
def test_known_answers() -> None:
    prices = at(INSTANTS[0])
    usage = Usage(12_000, 3_000, 2_000, cached_tokens=8_000)
    # gpt-4o: 2.50 in, 1.25 cached, 10 out. 4 000 * 2.5 + 8 000 * 1.25 = 20 000; 3 000 * 10 = 30 000.
    assert close(prices.cost("openai", "gpt-4o", usage), 0.02, 0.03)
    # claude-haiku-4-5: 1 in, 0.10 read, 1.25 written, 5 out. 3 000 * 1 + 8 000 * 0.1 + 1 000 * 1.25 = 5 050.
    usage = Usage(12_000, 3_000, cached_tokens=8_000, cache_write_tokens=1_000)
    assert close(prices.cost("anthropic", "claude-haiku-4-5", usage), 0.00505, 0.015)
    # gemini-2.5-pro: 1.25 in, 0.125 read, 10 out; 2.50, 0.25 and 15 when the request has more than 200 000 tokens.
    usage = Usage(200_000, 1_000, cached_tokens=100_000)
    assert close(prices.cost("gemini", "gemini-2.5-pro", usage), 0.125 + 0.0125, 0.01)
    usage = Usage(200_001, 1_000, cached_tokens=100_001)
    assert close(prices.cost("gemini", "gemini-2.5-pro", usage), 0.25 + 0.02500025, 0.015)


def test_the_hour_counts_where_the_table_says_so() -> None:
    day, night = (at(datetime(2026, 11, 15, hour, 0, tzinfo=UTC)) for hour in (12, 20))
    usage = Usage(1_000_000, 1_000_000)
    assert close(day.cost("deepseek", "deepseek-chat", usage), 0.27, 1.1)
    assert close(night.cost("deepseek", "deepseek-chat", usage), 0.135, 0.55)


# Whose price it is.


def test_unknown_is_never_free() -> None:
    prices, usage = PriceList(), Usage(1_000, 1_000)
    for provider in ("ollama", "vllm", "lmstudio", "http", "scripted", "mock", "python", "nobody"):
        assert prices.cost(provider, "gpt-4o", usage, reported_model="gpt-4o") is None
    for provider in SOURCES:
        assert prices.cost(provider, "a-model-nobody-has-heard-of", usage) is None
        assert prices.cost(provider, None, usage) is None
    # The library takes these for free, because they have no price of a token, or none of output.
    assert genai_prices.calc_price(usage, "whisper-1", provider_id="openai").total_price == 0
    assert prices.cost("openai", "whisper-1", usage) is None
    assert prices.cost("openai", "whisper-1", NO_USAGE) is None
    assert prices.cost("openai", "text-embedding-3-small", usage) is None
    assert close(prices.cost("openai", "text-embedding-3-small", Usage(1_000_000, 0)), 0.02, 0)


def test_free_is_what_the_provider_calls_free() -> None:
    prices, usage = PriceList(), Usage(1_000, 1_000)
    assert prices.cost("openrouter", "some/model:free", usage) == Cost(0, 0)
    assert prices.cost("mistral", "mistral-nemo:free", usage) is None


def test_the_reported_model_is_asked_when_the_other_is_unknown() -> None:
    prices, usage = PriceList(), Usage(1_000_000, 1_000_000)
    assert close(prices.cost("openai", "my-alias", usage, reported_model="gpt-4o-2024-08-06"), 2.5, 10)
    assert close(prices.cost("openai", None, usage, reported_model="gpt-4o-2024-08-06"), 2.5, 10)
    assert close(prices.cost("openai", "gpt-4o", usage, reported_model="gpt-5-nano"), 2.5, 10)


def test_a_deployment_is_priced_by_what_runs_there() -> None:
    prices, usage = PriceList(), Usage(1_000_000, 1_000_000)
    assert close(prices.cost("azure", "gpt-4o", usage, reported_model="gpt-4o-mini-2024-07-18"), 0.15, 0.6)
    assert close(prices.cost("azure", "production", usage, reported_model="gpt-4o-2024-08-06"), 2.5, 10)
    assert close(prices.cost("azure", "gpt-4o", usage, reported_model="who-knows"), 2.5, 10)
    assert prices.cost("azure", "production", usage) is None


def one(rate: float) -> Price:
    return Price(input=rate, output=rate)


OVERRIDES = {
    "*": one(1),
    "openai/*": one(2),
    "openai/gpt-5*": one(3),
    "openai/gpt-5-nano": one(4),
    "gpt-4o": one(5),
    "my-target": one(6),
    "other-target*": one(7),
    "LLAMA?[x]": one(8),
}


@pytest.mark.parametrize(
    ("provider", "model", "more", "rate"),
    [
        ("ollama", "llama3", {}, 1),
        ("openai", "o3", {}, 2),
        ("openai", "gpt-5-mini", {}, 3),
        ("OpenAI", "GPT-5-mini", {}, 3),
        ("openai", "gpt-5-nano", {}, 4),
        ("openai", "gpt-4o", {}, 5),
        ("azure", "production", {"reported_model": "gpt-4o"}, 5),
        ("openai", "gpt-5-nano", {"target": "my-target"}, 6),
        ("openai", "gpt-5-nano", {"target": "other-target-2"}, 4),
        ("openai", "o3", {"target": "other-target-2"}, 7),
        ("http", None, {"target": "my-target"}, 6),
        ("http", None, {"target": "a"}, 1),
        ("ollama", "llama?[x]", {}, 8),
        ("ollama", "llamaxx", {}, 1),
    ],
)
def test_the_most_exact_override_wins(provider: str, model: str | None, more: dict[str, str], rate: float) -> None:
    for overrides in (OVERRIDES, dict(reversed(OVERRIDES.items()))):
        prices = PriceList(overrides)
        for _ in range(2):  # the second time from memory
            assert close(prices.cost(provider, model, Usage(1_000_000, 1_000_000), **more), rate, rate)


def test_an_override_for_others_changes_nothing() -> None:
    usage = Usage(1_000, 1_000)
    assert PriceList({"gpt-5": one(0)}).cost("openai", "gpt-4o", usage) == PriceList().cost("openai", "gpt-4o", usage)


def test_prices_of_a_configuration() -> None:
    assert read_prices({}) == {}
    assert read_prices({"prices": None}) == {}
    written = {"a/b": {"input": 1, "output": 2.5}, "c": {"input": 0, "output": 0, "cached": 0.1, "cache_write": 2}}
    assert read_prices({"prices": written}) == {
        "a/b": Price(input=1.0, output=2.5),
        "c": Price(input=0.0, output=0.0, cached=0.1, cache_write=2.0),
    }


@pytest.mark.parametrize(
    "entry",
    [
        3,
        None,
        {"input": 1},
        {"input": "1", "output": 1},
        {"input": -1, "output": 1},
        {"input": 1, "output": float("inf")},
        {"input": 1, "output": float("nan")},
        {"input": 1, "output": 1, "cache": 1},
    ],
)
def test_what_is_no_price_is_refused_by_name(entry: Any) -> None:
    with pytest.raises(UsageError, match="my-model"):
        read_prices({"prices": {"my-model": entry}})
    with pytest.raises(UsageError, match="mapping"):
        read_prices({"prices": [entry]})


# Against the library.


def entries() -> Iterator[tuple[str, str, ModelInfo]]:
    by_name = {provider.id: provider for provider in table}
    for provider in SOURCES:
        for model in by_name[TABLE_NAMES.get(provider, provider)].models:
            # Some entries stand for others, and their own name finds another entry or none.
            found = by_name[TABLE_NAMES.get(provider, provider)].find_model(model.id, all_providers=table)
            if found is not None and not (provider == "openrouter" and model.id.endswith(":free")):
                yield provider, model.id, found


def draw_usage(random: random.Random) -> Usage:
    most = random.choice([0, 1, 1_000, 150_000, 3_000_000])
    sent, received = random.randint(0, most), random.randint(0, most)
    cached = random.choice([0, random.randint(0, sent)])
    written = random.choice([0, random.randint(0, sent - cached)])
    return Usage(sent, received, random.randint(0, received), cached_tokens=cached, cache_write_tokens=written)


@pytest.mark.slow
@pytest.mark.parametrize("moment", INSTANTS, ids=str)
def test_every_price_is_the_library_s(moment: datetime) -> None:
    """Prices are reckoned here, with plain numbers; each has to be what the library says."""
    prices, draw = at(moment), random.Random(20261115)
    compared = Counter[str]()
    for provider, model, entry in entries():
        rates = entry.get_prices(moment)
        for _ in range(3):
            usage = draw_usage(draw)
            cost = prices.cost(provider, model, usage)
            if rates.input_mtok is None or (usage.output_tokens and rates.output_mtok is None):
                assert cost is None, model
                continue
            counts = genai_prices.Usage(
                input_tokens=usage.input_tokens,
                cache_read_tokens=usage.cached_tokens,
                cache_write_tokens=usage.cache_write_tokens,
                output_tokens=usage.output_tokens,
                output_reasoning_tokens=usage.reasoning_tokens,
            )
            said = genai_prices.calc_price(
                counts, model, provider_id=TABLE_NAMES.get(provider, provider), genai_request_timestamp=moment
            )
            assert close(cost, float(said.input_price), float(said.output_price)), (provider, model, usage, cost, said)
            assert cost is not None
            assert isclose(cost.total, float(said.total_price), rel_tol=1e-12)
            compared["tiers" if isinstance(rates.input_mtok, TieredPrices) else "flat"] += 1
            compared["dated"] += isinstance(entry.prices, list)
    assert compared["flat"] > 2_000
    assert compared["tiers"] > 100
    assert compared["dated"] > 100


def test_counts_that_contradict_each_other_are_priced_alike() -> None:
    """In tiers and flat; the library would refuse them."""
    usage = Usage(10, 5, 50, cached_tokens=600, cache_write_tokens=400)
    # 600 at 0.30 and 400 at 3.75, and 600 at 0.10 and 400 at 1.25.
    assert close(PriceList().cost("anthropic", "claude-sonnet-4-5", usage), 0.00168, 0.000075)
    assert close(PriceList().cost("anthropic", "claude-haiku-4-5", usage), 0.00056, 0.000025)


def test_a_fetched_table_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    """Other code in the process may have updated the library's table; prices stay those of the package."""
    from genai_prices.data_snapshot import DataSnapshot

    emptied = DataSnapshot(providers=[], from_auto_update=True)
    monkeypatch.setattr("genai_prices.data_snapshot._custom_snapshot", emptied)
    with pytest.raises(LookupError):
        genai_prices.calc_price(genai_prices.Usage(input_tokens=1), "gpt-4o", provider_id="openai")
    assert close(PriceList().cost("openai", "gpt-4o", Usage(1_000_000, 0)), 2.5, 0)


# The list of models.


@pytest.mark.slow
@spec("V8", "V18")
def test_quartiles() -> None:
    models = known_models()
    ranked = [model for model in models if model.quartile is not None]
    means = sorted(model.mean for model in ranked if model.mean is not None)
    assert len(means) == len(ranked) > 500
    for model in ranked:
        assert model.mean is not None
        cheaper = sum(mean < model.mean for mean in means)
        assert model.quartile == 1 + 4 * cheaper // len(means)
    sizes = Counter(model.quartile for model in ranked)
    assert set(sizes) == {1, 2, 3, 4}
    assert all(0.15 < size / len(ranked) < 0.35 for size in sizes.values())
    by_id = {model.id: model for model in models}
    assert by_id["openai/gpt-5-pro"].quartile == by_id["anthropic/claude-opus-4-5"].quartile == 4
    assert by_id["openai/gpt-4o-mini"].quartile in (1, 2)


@pytest.mark.slow
@spec("V18")
def test_known_models_can_be_priced_under_the_name_they_are_listed_by() -> None:
    models, prices = known_models(), PriceList()
    assert [model.id for model in models] == sorted({model.id for model in models})
    assert {model.provider for model in models} == set(SOURCES)
    for model in models:
        assert model.id == f"{model.provider}/{model.model}"
        if model.quartile is not None:
            assert prices.cost(str(model.provider), model.model, Usage(1, 1)) is not None, model.id


def test_models_that_do_not_answer_in_text_have_no_quartile() -> None:
    by_id = {model.id: model for model in known_models()}
    for name in (
        *("openai/whisper-1", "openai/tts-1", "openai/text-embedding-3-small", "openai/gpt-image-1"),
        *("openai/gpt-4o-mini-tts", "gemini/gemini-2.5-flash-image", "mistral/mistral-embed"),
    ):
        assert by_id[name].quartile is None, name
        assert not by_id[name].text, name
    assert "gemini/claude-opus-4-5" not in by_id


def test_the_list_shows_noon_and_the_lowest_tier() -> None:
    for hour in (1, 23):
        clock = INSTANTS[0].replace(hour=hour)
        by_id = {model.id: model for model in known_models(clock=lambda clock=clock: clock)}
        assert by_id["deepseek/deepseek-chat"].input == 0.27
        assert by_id["deepseek/deepseek-chat"].varies
        assert by_id["gemini/gemini-2.5-pro"].input == 1.25
        assert by_id["gemini/gemini-2.5-pro"].varies
        assert not by_id["openai/gpt-4o"].varies


def test_overrides_in_the_list() -> None:
    overrides = {"openai/*": one(0.001), "gpt-5": one(900), "ollama/llama3": one(0), "my-target": one(2), "zz*": one(1)}
    plain = {model.id: model for model in known_models()}
    by_id = {model.id: model for model in known_models(overrides)}
    assert set(by_id) == set(plain) | {"ollama/llama3", "my-target", "zz*"}
    assert (by_id["openai/gpt-5"].input, by_id["openai/gpt-5"].quartile) == (900, 4)
    assert (by_id["openai/gpt-4o"].input, by_id["openai/gpt-4o"].quartile) == (0.001, 1)
    assert by_id["openai/whisper-1"].quartile is None  # a price does not make it answer in text
    assert by_id["ollama/llama3"].provider == "ollama"
    assert by_id["my-target"].provider is None
    changed = {name for name, model in by_id.items() if model.overridden}
    assert changed >= {"openai/gpt-5", "openai/gpt-4o", "ollama/llama3", "my-target", "zz*"}
    assert all(by_id[name] == plain[name] for name in set(plain) - changed)


@pytest.mark.slow
@spec("V5", "V8")
def test_patterns_of_models() -> None:
    fives = match_models(["openai/gpt-5*"])
    assert {"openai/gpt-5", "openai/gpt-5-mini", "openai/gpt-5-nano"} <= set(fives)
    assert all(name.startswith("openai/gpt-5") for name in fives)
    assert fives == sorted(fives)
    assert match_models(["OpenAI/GPT-5*"]) == fives
    assert match_models(["openai/gpt-5-nano", "openai/gpt-5*"])[0] == "openai/gpt-5-nano"
    assert sorted(match_models(["openai/gpt-5-nano", "openai/gpt-5*"])) == fives
    everything = match_models(["all"])
    assert match_models(["*"]) == everything
    assert len(everything) == len(set(everything)) > 500
    anthropic = match_models(["anthropic/*"])
    assert match_models(["all"], providers=["Anthropic"]) == anthropic
    parts = [match_models(["all"], quartiles=[quartile]) for quartile in (1, 2, 3, 4)]
    assert sorted(name for part in parts for name in part) == everything
    assert match_models(["all"], providers=["anthropic"], quartiles=[3, 4]) == [
        name for name in anthropic if name in {*parts[2], *parts[3]}
    ]


@pytest.mark.slow
def test_a_provider_has_its_other_names_in_patterns_and_filters() -> None:
    gemini = match_models(["gemini/*"])
    assert match_models(["google/*"]) == match_models(["Google-Gemini/*"]) == gemini
    assert match_models(["google/gemini-2.5-flash"]) == ["gemini/gemini-2.5-flash"]
    assert match_models(["all"], providers=["Google"]) == gemini
    assert match_models(["azure-openai/*"]) == match_models(["azure/*"])
    own = {model.id: model for model in known_models({"google/my-own": one(1)})}
    chosen = select_models(list(own.values()), ["google/my-*"], lambda model: model.overridden)
    assert [model.id for model in chosen] == ["google/my-own"]


def test_a_pattern_stands_for_what_can_be_asked() -> None:
    everything = match_models(["all"])
    assert "openai/whisper-1" not in everything
    assert match_models(["openai/whisper-1"]) == ["openai/whisper-1"]
    assert "mistral/magistral-medium" not in everything  # deprecated
    assert match_models(["mistral/magistral-medium"]) == ["mistral/magistral-medium"]
    own = {"openai/my-own": one(1), "openai/*-tuned": one(1), "my-target": one(1)}
    assert set(match_models(["all"], overrides=own)) - set(everything) == {"openai/my-own"}


@pytest.mark.parametrize("pattern", ["openai/no-such-*", "gpt-5", "", "?", "openai/gpt-[5]"])
def test_a_pattern_of_nothing_is_an_error(pattern: str) -> None:
    with pytest.raises(UsageError, match="no known model"):
        match_models(["openai/gpt-5", pattern])


# The command.


def run(*arguments: str) -> str:
    result = invoke(*arguments)
    if result.exception and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code == 0, result.output
    return result.output


def invoke(*arguments: str) -> Result:
    return CliRunner().invoke(command, list(arguments))


@spec("V18")
def test_the_table(project: Project) -> None:
    text = run("openai/gpt-4o", "gemini/gemini-2.5-pro", "openai/whisper-1")
    assert text.splitlines() == [
        "model                  context  $ in  $ out  price",
        "openai/gpt-4o          128,000  2.50  10.00  $$$$",
        "gemini/gemini-2.5-pro        -  1.25  10.00  $$$$   varies",
        "openai/whisper-1             -     -      -  -",
        "varies: with the size of the request, the hour or the date; the lowest tier is shown, at noon UTC",
        f"3 models, dollars per million tokens: genai-prices {genai_prices.__version__}, "
        "overridden by `prices:` in the configuration",
    ]


def test_small_prices_are_shown_in_full(project: Project) -> None:
    rows = json.loads(run("--format", "json"))
    shown = {line.split()[0]: line.split()[2:4] for line in run().splitlines()[1:-2]}
    assert len(shown) == len(rows) > 500
    for row in rows:
        for rate, text in zip((row["input"], row["output"]), shown[row["id"]], strict=True):
            assert text == "-" if rate is None else Decimal(text) == Decimal(repr(rate)), row


@spec("V18")
def test_the_list_as_json(project: Project) -> None:
    [row] = json.loads(run("openai/gpt-4o", "--format", "json"))
    assert row == {
        "id": "openai/gpt-4o",
        "provider": "openai",
        "model": "gpt-4o",
        "name": "gpt 4o",
        "context_window": 128_000,
        "input": 2.5,
        "output": 10.0,
        "text": True,
        "quartile": 4,
        "varies": False,
        "deprecated": False,
        "source": f"genai-prices {genai_prices.__version__}",
    }


@pytest.mark.slow
@spec("V8", "V18")
def test_filters_of_the_list(project: Project) -> None:
    def ids(*arguments: str) -> list[str]:
        return [row["id"] for row in json.loads(run("--format", "json", *arguments))]

    assert ids("--provider", "anthropic,xai") == ids("anthropic/*", "xai/*")
    assert ids("--provider", "anthropic", "--provider", "xai") == ids("anthropic/*", "xai/*")
    assert ids("--provider", "google") == ids("google/*") == ids("gemini/*") != []
    assert ids("--price", "$,$$") == ids("--price", "1", "--price", "2")
    assert set(ids("--price", "1,2,3,4")) == set(match_models(["all"]))
    assert set(ids("--all")) - set(ids()) == {model.id for model in known_models() if model.deprecated}
    assert ids("mistral/magistral-medium") == ["mistral/magistral-medium"]
    assert ids("openai/gpt-5-pro", "--price", "1") == []
    assert run("openai/gpt-5-pro", "--price", "1").startswith("0 models, ")


@pytest.mark.parametrize(
    ("arguments", "message", "hint"),
    [
        (["--provider", "opnai"], "did you mean `openai`?", "anthropic, azure"),
        (["--provider", "ollama"], "no prices are known for a provider `ollama`", "anthropic, azure"),
        (["gpt-4o-mini"], "did you mean `openai/gpt-4o-mini`?", "openai/gpt-5*"),
        (["openai/gpt-4o", "nothing*"], "no known model is called `nothing*`", "all"),
        (["--price", "31337"], "`31337` is not a price quartile", "single quotes"),
        (["--price", "$$$$$"], "`$$$$$` is not a price quartile", "1 to 4"),
    ],
)
def test_wrong_use_is_explained(project: Project, arguments: list[str], message: str, hint: str) -> None:
    error = invoke(*arguments).exception
    assert isinstance(error, UsageError)
    assert message in error.message
    assert hint in str(error.hint)


def test_the_project_s_prices_are_listed_and_marked(project: Project) -> None:
    project.write(
        ".rejoinder/config.yaml",
        "prices:\n  openai/gpt-4o: {input: 2, output: 8, cached: 1}\n  ollama/llama3: {input: 0, output: 0}\n",
    )
    text = run("openai/gpt-4o", "*llama3", "--provider", "openai,ollama")
    assert text.splitlines()[1:3] == [
        "openai/gpt-4o  128,000  2.00   8.00  $$$$   config",
        "ollama/llama3        -  0.00   0.00  $      config",
    ]
    [row] = json.loads(run("ollama/llama3", "--format", "json"))
    assert (row["source"], row["input"], row["provider"]) == ("config", 0, "ollama")


def test_a_wrong_configuration_is_shown_and_nothing_is_listed(project: Project) -> None:
    project.write(".rejoinder/config.yaml", "prices: {openai/gpt-4o: {input: 2}}\nno_such_key: 1\n")
    result = invoke("openai/gpt-4o")
    assert result.exit_code == 2
    assert "no_such_key" in result.stderr
    assert result.stdout == ""
