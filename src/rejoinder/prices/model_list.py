"""The models whose prices are known, and patterns that select them."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime

import msgspec
from msgspec import Struct

from rejoinder.errors import UsageError
from rejoinder.model.calls import Price
from rejoinder.model.providers import PROVIDER_NAMES
from rejoinder.prices.entries import PricedModel, Rate, Rates, Tiers
from rejoinder.prices.lookup import load_table
from rejoinder.prices.price_list import SOURCES, Overrides, PriceSource, full_names, matches, utc_now
from rejoinder.spelling import did_you_mean
from rejoinder.words.numbers import listed

_OTHER_OUTPUT = frozenset({"output_audio_mtok", "output_image_mtok", "output_video_mtok", "audio_hours"})
_OTHER_TRADES = frozenset(
    {"audio", "embed", "embedding", "image", "live", "ocr", "realtime", "transcribe", "tts", "whisper"}
)
"""Words in the names of models that do not answer text with text, if their prices do not show it."""
_EMBEDDING = frozenset({"embed", "embedding", "embeddings"})


class KnownModel(Struct, frozen=True, kw_only=True):
    """A model with its price. `id` is what `-m` takes; a project's own entry may be a target or a pattern."""

    id: str
    provider: str | None
    model: str
    name: str | None = None
    context_window: int | None = None
    input: float | None = None
    """Dollars per million tokens: of the smallest tier, and at noon UTC if the price depends on the hour."""
    output: float | None = None
    text: bool = True
    """Whether it answers text with text, as far as the table shows."""
    quartile: int | None = None
    """1 (the cheapest) to 4; None for a model that does not answer in text or has no price."""
    varies: bool = False
    """Whether the price depends on the size of a request or the hour, or is about to change."""
    deprecated: bool = False
    overridden: bool = False
    """Whether the price is the project's own."""

    @property
    def mean(self) -> float | None:
        return None if self.input is None or self.output is None else (self.input + self.output) / 2


def known_models(
    overrides: Mapping[str, Price] | None = None, *, clock: Callable[[], datetime] | None = None
) -> list[KnownModel]:
    """The models of the providers in the table and the project's own entries, by name.

    A model's quartile says how many text models are cheaper, by the mean of their input and output price in the table:
    1 fewer than a quarter of them, 4 three quarters or more. Models with the same price are in the same quartile.
    """
    noon = (clock or utc_now)().replace(hour=12, minute=0)
    listed = [model for provider in SOURCES for model in _models_of(provider, noon)]
    means = sorted(model.mean for model in listed if model.text and model.mean is not None)
    own = Overrides(overrides or {})
    models: dict[str, KnownModel] = {}
    used: set[str] = set()
    for model in listed:
        found = own.find(full_names(str(model.provider), [model.model]))
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
    """The ids that match patterns such as `all`, `openai/*` and `*/gpt-5*`, in their order and without duplicates.

    A pattern matches text models that are not deprecated; an exact name may be any model's. Raises UsageError for a
    pattern without a match, and for an unknown provider.
    """
    models = [model for model in known_models(overrides) if model.provider in SOURCES and "*" not in model.id]
    allowed = {model.id for model in filter_models(models, providers=providers, quartiles=quartiles)}
    chosen = select_models(models, patterns, lambda model: model.quartile is not None and not model.deprecated)
    return [model.id for model in chosen if model.id in allowed]


def nearest_words(provider: str, model: str, most: int = 3) -> str:
    """Behind an error: the models of a provider whose names are nearest to an unknown name; empty if it is known."""
    from difflib import get_close_matches

    known = [one.model for one in known_models() if one.provider == provider]
    near = [] if model in known else get_close_matches(model, known, n=most)
    return f"; known models are {listed([f'`{name}`' for name in near])}" if near else ""


def select_models(
    models: Sequence[KnownModel], patterns: Iterable[str], wanted: Callable[[KnownModel], bool]
) -> list[KnownModel]:
    """The models of each pattern; a pattern that is not an exact name selects only models that `wanted` accepts."""
    chosen: dict[str, KnownModel] = {}
    for pattern in patterns:
        whole = "*" if pattern.casefold() == "all" else pattern
        forms = {whole, _by_our_name(whole)}
        exact = {form.casefold() for form in forms}
        found = [
            model
            for model in models
            if model.id.casefold() in exact or (wanted(model) and any(matches(form, model.id) for form in forms))
        ]
        if not found:
            raise UsageError(f"no known model is called `{pattern}`{_suggestion(pattern, models)}", _PATTERN_HINT)
        chosen.update((model.id, model) for model in found)
    return list(chosen.values())


_PATTERN_HINT = "Patterns stand for whole names: `openai/gpt-5*`, `*/gpt-5`, `all`. `rejoinder models` lists the names."


def filter_models(
    models: Sequence[KnownModel], *, providers: Sequence[str] = (), quartiles: Sequence[int] = ()
) -> list[KnownModel]:
    """The models of some providers and quartiles; if none are given, of all. Raises UsageError for an unknown
    provider."""
    known = {*SOURCES, *(model.provider for model in models if model.provider)}
    folded = [name if name in known else PROVIDER_NAMES.get(name, name) for name in map(str.casefold, providers)]
    for name in folded:
        if name not in known:
            raise UsageError(
                f"no prices are known for a provider `{name}`{did_you_mean(name, sorted(known))}",
                f"The providers with prices are {listed(sorted(known))}.",
            )
    return [
        model
        for model in models
        if (not folded or model.provider in folded) and (not quartiles or model.quartile in quartiles)
    ]


def _models_of(provider: str, at: datetime) -> list[KnownModel]:
    source = SOURCES[provider]
    return [
        _known_model(provider, model, source, at)
        for model in load_table().vendor(source.table).models
        if any(matches(pattern, model.id) for pattern in source.serves)
        # Some entries stand for many models, under a name that no model has.
        and model.periods
        and model.match.matches(model.id.lower())
        and not model.id.endswith("-")
    ]


def _known_model(provider: str, model: PricedModel, source: PriceSource, at: datetime) -> KnownModel:
    free = source.is_free(model.id)
    rates = model.rates(at)
    sent, received = (0.0, 0.0) if free else (_base(rates.input), _base(rates.output))
    return KnownModel(
        id=f"{provider}/{model.id}",
        provider=provider,
        model=model.id,
        name=model.name,
        context_window=model.context_window,
        input=sent,
        output=received,
        text=_answers_in_text(model.id, rates),
        varies=not free and sent is not None and received is not None and model.varies(at),
        deprecated=model.deprecated,
    )


def _answers_in_text(name: str, rates: Rates) -> bool:
    priced = rates.output is not None or rates == Rates()
    return priced and _OTHER_OUTPUT.isdisjoint(rates.others) and _OTHER_TRADES.isdisjoint(_words(name))


def is_embedding_model(name: str) -> bool:
    """Whether a model gives vectors, judged by its name, because the table has nothing else to judge by."""
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


def _base(rate: Rate | None) -> float | None:
    """A rate as a number: the first tier if there are tiers."""
    return rate.base if isinstance(rate, Tiers) else rate


def _suggestion(pattern: str, models: Iterable[KnownModel]) -> str:
    ids = [model.id for model in models]
    inside = next((name for name in ids if name.casefold().endswith(f"/{pattern.casefold()}")), None)
    return f"; did you mean `{inside}`?" if inside else did_you_mean(pattern, ids)


def _by_our_name(pattern: str) -> str:
    """A pattern in which a provider's other name is replaced by ours."""
    provider, slash, model = pattern.partition("/")
    return f"{PROVIDER_NAMES.get(provider.lower(), provider)}/{model}" if slash else pattern
