"""What calls cost: the project's own prices first, then the table of genai-prices.

The table comes with the installed package and is never fetched. It is imported when the first price is asked for,
because it takes longer to import than everything else. What neither the project nor the table knows has no cost: it
is never taken for free.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct

from rejoinder.errors import UsageError
from rejoinder.model.calls import Usage
from rejoinder.model.prices import Cost, Price
from rejoinder.suite.catalog import TABLES, load_table
from rejoinder.suite.paths import did_you_mean, list_words
from rejoinder.suite.targets import PROVIDERS

if TYPE_CHECKING:
    from genai_prices.types import ModelInfo, ModelPrice


class _Source(Struct, frozen=True):
    """Where a provider's prices stand in the table, and what of it can be asked for under its name there."""

    table: str
    serves: tuple[str, ...] = ("*",)
    free: str | None = None
    """The ending by which the provider itself marks what costs nothing."""
    deployments: bool = False
    """Is a model asked for by a name that the user made up?"""


_SOURCES = {name: _Source(table) for name, table in TABLES.items()} | {
    "azure": _Source(TABLES["azure"], deployments=True),
    "gemini": _Source(TABLES["gemini"], serves=("gemini-*", "gemma-*")),  # its other models are sold by another API
    "openrouter": _Source(TABLES["openrouter"], serves=("*/*",), free=":free"),
}
"""Our names of providers. Who is not here (a local server, a script) has the prices that the project gives."""

PRICED_PROVIDERS = tuple(_SOURCES)

_FREE = Price(input=0.0, output=0.0)

_OTHER_RATES = ("output_reasoning_mtok", "requests_kcount")
"""Rates beside the four of a `Price` that change what a text costs."""

_OTHER_OUTPUT = ("output_audio_mtok", "output_image_mtok", "output_video_mtok", "audio_hours")
_OTHER_TRADES = frozenset(
    {"audio", "embed", "embedding", "image", "live", "ocr", "realtime", "transcribe", "tts", "whisper"}
)
"""Words in the names of models that do not answer a text with a text, where their prices do not show it."""
_EMBEDDING = frozenset({"embed", "embedding", "embeddings"})


class PriceList:
    """Prices calls. `overrides` are named by `provider/model`, by a model or by a target, with `*` for any text."""

    def __init__(self, overrides: Mapping[str, Price] | None = None, *, clock: Callable[[], datetime] | None = None):
        self._overrides = _Overrides(overrides or {})
        self._clock = clock or _now
        self._listings: dict[tuple[str, str], _Listing | None] = {}

    def price(
        self,
        provider: str,
        model: str | None,
        usage: Usage,
        *,
        reported_model: str | None = None,
        target: str | None = None,
    ) -> Cost | None:
        """What a call has cost, or None where nobody knows.

        The model that was asked for decides, and the one that the API reports where the first is unknown. The name
        of a deployment says nothing reliable, so there the reported model comes first.
        """
        asked = [name for name in (model, reported_model) if name]
        override = self._overrides.find([*([target] if target else ()), *_full_names(provider, asked)])
        if override is not None:
            return override[1].cost(usage)
        source = _SOURCES.get(provider)
        if source is None:
            return None
        for name in reversed(asked) if source.deployments else asked:
            listing = self._look_up(provider, name)
            if listing is not None:
                return listing.cost(usage, self._clock)
        return None

    def hangs_on_the_reply(self, provider: str, model: str | None, target: str) -> bool:
        """May the model that a reply reports change what it costs? A deployment may be anything."""
        source = _SOURCES.get(provider)
        if source is None or not source.deployments:
            return False
        return self._overrides.find([target, *_full_names(provider, [model] if model else [])]) is None

    def _look_up(self, provider: str, model: str) -> _Listing | None:
        key = provider, model
        if key not in self._listings:
            self._listings[key] = _find_listing(_SOURCES[provider], model, self._clock())
        return self._listings[key]


class _Overrides:
    """The project's prices. An exact name beats a pattern, a long pattern a short one; letter case is no matter."""

    def __init__(self, prices: Mapping[str, Price]) -> None:
        self._exact = {name.casefold(): (name, price) for name, price in prices.items() if "*" not in name}
        patterns = [(name, price) for name, price in prices.items() if "*" in name]
        self._patterns = sorted(patterns, key=lambda entry: (-len(entry[0]), entry[0]))
        self._found: dict[tuple[str, ...], tuple[str, Price] | None] = {}

    def find(self, names: Sequence[str]) -> tuple[str, Price] | None:
        """The override for whoever is known by these names, the most telling one first."""
        if not self._exact and not self._patterns:
            return None
        key = tuple(names)
        if key not in self._found:
            self._found[key] = self._search([name.casefold() for name in names])
        return self._found[key]

    def _search(self, names: list[str]) -> tuple[str, Price] | None:
        for name in names:
            if name in self._exact:
                return self._exact[name]
        for pattern, price in self._patterns:
            if any(_matches(pattern, name) for name in names):
                return pattern, price
        return None


class _Listing(Struct, frozen=True):
    """A model in the table. `flat` is its price where that is the same for every size, hour and kind of output."""

    model: ModelInfo | None
    flat: Price | None

    def cost(self, usage: Usage, clock: Callable[[], datetime]) -> Cost | None:
        if self.flat is not None:
            return self.flat.cost(usage)
        return None if self.model is None else _charge(self.model.get_prices(clock()), usage)


def _find_listing(source: _Source, model: str, now: datetime) -> _Listing | None:
    if source.free and model.endswith(source.free):
        return _Listing(None, _FREE)
    providers = load_table()
    found = providers[source.table].find_model(model, all_providers=list(providers.values()))
    if found is None or found.prices == []:
        return None
    return _Listing(found, _flat_price(found, now))


def _flat_price(model: ModelInfo, now: datetime) -> Price | None:
    """The rates as plain numbers, which is a hundred times faster than asking the library each time."""
    from genai_prices.types import TieredPrices

    prices = _settled_prices(model, now)
    if prices is None or any(getattr(prices, name) is not None for name in _OTHER_RATES):
        return None
    rates: list[float | None] = []
    for rate in (prices.input_mtok, prices.output_mtok, prices.cache_read_mtok, prices.cache_write_mtok):
        if isinstance(rate, TieredPrices):
            return None
        rates.append(None if rate is None else float(rate))
    sent, received, cached, cache_write = rates
    if sent is None or received is None:
        return None
    return Price(input=sent, output=received, cached=cached, cache_write=cache_write)


def _settled_prices(model: ModelInfo, now: datetime) -> ModelPrice | None:
    """The prices that hold from now on whatever the hour. The last in the list that is in force counts."""
    from genai_prices.types import ModelPrice, StartDateConstraint

    if isinstance(model.prices, ModelPrice):
        return model.prices
    last = model.prices[-1]
    begun = isinstance(last.constraint, StartDateConstraint) and last.constraint.active(now)
    return last.prices if begun or last.constraint is None else None


def _charge(prices: ModelPrice, usage: Usage) -> Cost | None:
    """The library's own answer. It takes what has no price for free; here that has no cost."""
    from genai_prices.types import Usage as Counts

    if prices.input_mtok is None or (usage.output_tokens and prices.output_mtok is None):
        return None
    counts = Counts(
        # It refuses counts that contradict each other; such a server is believed as in `Price.cost`.
        input_tokens=max(usage.input_tokens, usage.cached_tokens + usage.cache_write_tokens),
        cache_read_tokens=usage.cached_tokens,
        cache_write_tokens=usage.cache_write_tokens,
        output_tokens=usage.output_tokens,
        output_reasoning_tokens=min(usage.reasoning_tokens, usage.output_tokens),
    )
    charged = prices.calc_price(counts)
    return Cost(float(charged["input_price"]), float(charged["output_price"]))


class KnownModel(Struct, frozen=True, kw_only=True):
    """A model with its price. `id` is what `-m` takes; a project's own entry may be a target or a pattern."""

    id: str
    provider: str | None
    model: str
    name: str | None = None
    context_window: int | None = None
    input: float | None = None
    """Dollars for a million tokens: of the smallest tier, and at noon UTC where the hour counts."""
    output: float | None = None
    text: bool = True
    """Does it answer a text with a text, as far as the table shows?"""
    quartile: int | None = None
    """1 (the cheapest) to 4; None for what does not answer in text or has no price."""
    varies: bool = False
    """Does the price depend on the size of a request or the hour, or is it about to change?"""
    deprecated: bool = False
    overridden: bool = False
    """Is the price the project's own?"""

    @property
    def mean(self) -> float | None:
        return None if self.input is None or self.output is None else (self.input + self.output) / 2


def known_models(
    overrides: Mapping[str, Price] | None = None, *, clock: Callable[[], datetime] | None = None
) -> list[KnownModel]:
    """The models of the providers in the table and the project's own entries, by name.

    A model's quartile says how many text models are cheaper, by the mean of what input and output cost in the table:
    1 fewer than a quarter of them, 4 three quarters or more. Models of the same price are in the same quartile.
    """
    noon = (clock or _now)().replace(hour=12, minute=0)
    listed = [model for provider in _SOURCES for model in _models_of(provider, noon)]
    means = sorted(model.mean for model in listed if model.text and model.mean is not None)
    own = _Overrides(overrides or {})
    models: dict[str, KnownModel] = {}
    used: set[str] = set()
    for model in listed:
        found = own.find(_full_names(str(model.provider), [model.model]))
        models[model.id] = model if found is None else _override(model, found[1])
        used.update(found[:1] if found else ())
    for name, price in (overrides or {}).items():
        if name not in used:
            models[name] = _override(_own_entry(name), price)
    return [_rank(models[name], means) for name in sorted(models)]


def match_models(
    patterns: Iterable[str],
    *,
    providers: Sequence[str] = (),
    quartiles: Sequence[int] = (),
    overrides: Mapping[str, Price] | None = None,
) -> list[str]:
    """The ids that patterns such as `all`, `openai/*` and `*/gpt-5*` stand for, in their order and without doubles.

    A pattern stands for text models that are not deprecated; an exact name may be any model's. Raises UsageError for
    a pattern that no model has, and for an unknown provider.
    """
    models = [model for model in known_models(overrides) if model.provider in _SOURCES and "*" not in model.id]
    allowed = {model.id for model in filter_models(models, providers=providers, quartiles=quartiles)}
    chosen = select_models(models, patterns, lambda model: model.quartile is not None and not model.deprecated)
    return [model.id for model in chosen if model.id in allowed]


def nearest_models(provider: str, model: str, most: int = 3) -> list[str]:
    """The models of a provider whose names are nearest to one that it does not have; none for one that is known."""
    from difflib import get_close_matches

    known = [one.model for one in known_models() if one.provider == provider]
    return [] if model in known else get_close_matches(model, known, n=most)


def select_models(
    models: Sequence[KnownModel], patterns: Iterable[str], wanted: Callable[[KnownModel], bool]
) -> list[KnownModel]:
    """The models of each pattern; a pattern that is no exact name selects only those that are wanted."""
    chosen: dict[str, KnownModel] = {}
    for pattern in patterns:
        whole = "*" if pattern.casefold() == "all" else pattern
        forms = {whole, _by_our_name(whole)}
        exact = {form.casefold() for form in forms}
        found = [
            model
            for model in models
            if model.id.casefold() in exact or (wanted(model) and any(_matches(form, model.id) for form in forms))
        ]
        if not found:
            raise UsageError(f"no known model is called `{pattern}`{_suggestion(pattern, models)}", _PATTERN_HINT)
        chosen.update((model.id, model) for model in found)
    return list(chosen.values())


_PATTERN_HINT = "Patterns stand for whole names: `openai/gpt-5*`, `*/gpt-5`, `all`. `rejoinder models` lists the names."


def filter_models(
    models: Sequence[KnownModel], *, providers: Sequence[str] = (), quartiles: Sequence[int] = ()
) -> list[KnownModel]:
    """The models of some providers and quartiles; none given: of all. Raises UsageError for an unknown provider."""
    known = {*_SOURCES, *(model.provider for model in models if model.provider)}
    folded = [name if name in known else PROVIDERS.get(name, name) for name in map(str.casefold, providers)]
    for name in folded:
        if name not in known:
            raise UsageError(
                f"no prices are known of a provider `{name}`{did_you_mean(name, sorted(known))}",
                f"The providers with prices are {list_words(sorted(known))}.",
            )
    return [
        model
        for model in models
        if (not folded or model.provider in folded) and (not quartiles or model.quartile in quartiles)
    ]


def table_version() -> str:
    from genai_prices import __version__

    return __version__


def _models_of(provider: str, at: datetime) -> list[KnownModel]:
    source = _SOURCES[provider]
    return [
        _known_model(provider, model, source, at)
        for model in load_table()[source.table].models
        if any(_matches(pattern, model.id) for pattern in source.serves)
        # Some entries stand for many models, under a name that no model has.
        and model.prices != []
        and model.is_match(model.id)
        and not model.id.endswith("-")
    ]


def _known_model(provider: str, model: ModelInfo, source: _Source, at: datetime) -> KnownModel:
    free = source.free is not None and model.id.endswith(source.free)
    prices = model.get_prices(at)
    sent, received = (0.0, 0.0) if free else (_base(prices.input_mtok), _base(prices.output_mtok))
    return KnownModel(
        id=f"{provider}/{model.id}",
        provider=provider,
        model=model.id,
        name=model.name,
        context_window=model.context_window,
        input=sent,
        output=received,
        text=_answers_in_text(model.id, prices),
        varies=not free and sent is not None and received is not None and _flat_price(model, at) is None,
        deprecated=bool(model.deprecated),
    )


def _answers_in_text(name: str, prices: ModelPrice) -> bool:
    rates = {key for key, rate in vars(prices).items() if rate is not None}
    priced = "output_mtok" in rates or not rates
    return priced and rates.isdisjoint(_OTHER_OUTPUT) and _OTHER_TRADES.isdisjoint(_words(name))


def is_embedding_model(name: str) -> bool:
    """Does a model give vectors? Its name is all that the table has to tell it by, too."""
    return not _EMBEDDING.isdisjoint(_words(name))


def _words(name: str) -> list[str]:
    return re.split(r"[^a-z]+", name.lower())


def _own_entry(name: str) -> KnownModel:
    provider, slash, model = name.partition("/")
    return KnownModel(id=name, provider=provider if slash else None, model=model if slash else name)


def _override(model: KnownModel, price: Price) -> KnownModel:
    return msgspec.structs.replace(model, input=price.input, output=price.output, varies=False, overridden=True)


def _rank(model: KnownModel, means: Sequence[float]) -> KnownModel:
    if not model.text or model.mean is None or not means:
        return model
    return msgspec.structs.replace(model, quartile=min(4, 1 + 4 * bisect_left(means, model.mean) // len(means)))


def _base(rate: Any) -> float | None:
    """A rate as a number: of the first tier where there are tiers."""
    return None if rate is None else float(getattr(rate, "base", rate))


def _full_names(provider: str, models: Iterable[str]) -> list[str]:
    return [name for model in models for name in (f"{provider}/{model}", model)]


def _suggestion(pattern: str, models: Iterable[KnownModel]) -> str:
    ids = [model.id for model in models]
    inside = next((name for name in ids if name.casefold().endswith(f"/{pattern.casefold()}")), None)
    return f"; did you mean `{inside}`?" if inside else did_you_mean(pattern, ids)


def _by_our_name(pattern: str) -> str:
    """A pattern whose provider goes by another name, with the one that we call it by."""
    provider, slash, model = pattern.partition("/")
    return f"{PROVIDERS.get(provider.lower(), provider)}/{model}" if slash else pattern


def _matches(pattern: str, name: str) -> bool:
    """Only `*` is special, and letter case does not matter."""
    plain = pattern.casefold().replace("[", "[[]").replace("?", "[?]")
    return fnmatchcase(name.casefold(), plain)


def _now() -> datetime:
    return datetime.now(UTC)
