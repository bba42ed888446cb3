"""The price table of the installed package genai-prices.

Importing its data takes longer than everything else that a run imports, so it is imported only to make a snapshot.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, date, datetime, time
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from rejoinder.prices.entries import Clause, Period, PricedModel, Rate, Rates, Tier, Tiers, Vendor

if TYPE_CHECKING:
    from genai_prices import types

_PACKAGE = "genai_prices"
_RATES = {
    "input_mtok": "input",
    "output_mtok": "output",
    "cache_read_mtok": "cached",
    "cache_write_mtok": "cache_write",
    "output_reasoning_mtok": "reasoning",
}
"""The package's price names that we use, and ours."""


class Edition(Struct, frozen=True):
    """The installed table's version. The size identifies a table that changed without a new version."""

    version: str
    size: int


@cache
def installed_edition() -> Edition:
    """The installed version, found without importing the package. Raises ImportError if it is missing."""
    spec = find_spec(_PACKAGE)
    if spec is None or not spec.submodule_search_locations:
        raise ImportError("genai-prices is not installed")
    folder = Path(spec.submodule_search_locations[0])
    try:
        size = (folder / "data.py").stat().st_size
    except OSError:
        size = 0
    return Edition(_version(folder), size)


def _version(folder: Path) -> str:
    """The version from the folder that an installer puts beside a package: `importlib.metadata`, which reads it too,
    takes 13 ms to import."""
    found = [path.stem.partition("-")[2] for path in folder.parent.glob(f"{_PACKAGE}-*.dist-info")]
    if len(found) == 1:
        return found[0]
    from importlib.metadata import version

    return version(_PACKAGE)


def read_package() -> dict[str, Vendor]:
    """The package's own data, not its current snapshot, which other code could have fetched from the network."""
    # By name, because a type checker would spend half a minute on the literal of 30,000 lines.
    providers: Iterable[types.Provider] = import_module(f"{_PACKAGE}.data").providers
    known = {provider.id: provider for provider in providers}
    return {name: _vendor(provider, known) for name, provider in known.items()}


def _vendor(provider: types.Provider, known: Mapping[str, types.Provider]) -> Vendor:
    models = (_model(model) for model in provider.models)
    fallbacks = tuple(name for name in provider.fallback_model_providers or () if name in known)
    return Vendor(tuple(model for model in models if model is not None), fallbacks)


def _model(model: types.ModelInfo) -> PricedModel | None:
    """A model in our form. Values that a later package version writes differently have no price."""
    try:
        match = _clause(model.match)
    except TypeError:
        return None
    try:
        periods = _periods(model)
    except TypeError:
        periods = ()
    return PricedModel(model.id, match, periods, model.name, model.context_window, bool(model.deprecated))


def _clause(clause: types.MatchLogic) -> Clause:
    [(kind, what)] = vars(clause).items()
    match kind:
        case "or_" | "and_":
            return Clause("or" if kind == "or_" else "and", parts=tuple(_clause(part) for part in what))
        case "regex":
            return Clause("regex", what)
        case "equals" | "starts_with" | "ends_with" | "contains":
            return Clause(kind, what.lower())
        case _:
            raise TypeError(kind)


def _periods(model: types.ModelInfo) -> tuple[Period, ...]:
    if not isinstance(model.prices, list):
        return (Period(_rates(model.prices)),)
    return tuple(_period(price) for price in model.prices)


def _period(price: types.ConditionalPrice) -> Period:
    rates = _rates(price.prices)
    match vars(price.constraint) if price.constraint else {}:
        case {"start_date": date() as since, **more} if not more:
            return Period(rates, since=since)
        case {"start_time": time() as start, "end_time": time() as end, **more} if not more:
            return Period(rates, hours=(_in_utc(start), _in_utc(end)))
        case {**more} if not more:
            return Period(rates)
        case other:
            raise TypeError(other)


def _in_utc(moment: time) -> time:
    if moment.tzinfo is None:
        return moment
    return datetime.combine(date(1970, 1, 1), moment).astimezone(UTC).time()


def _rates(prices: types.ModelPrice) -> Rates:
    priced = {key: value for key, value in vars(prices).items() if value is not None}
    ours = {_RATES[key]: _rate(value) for key, value in priced.items() if key in _RATES}
    return Rates(**ours, others=tuple(sorted(priced.keys() - _RATES.keys())))


def _rate(value: object) -> Rate:
    """A number, or tiers. Raises TypeError."""
    base, tiers = getattr(value, "base", None), getattr(value, "tiers", None)
    if base is None or tiers is None:
        return float(value)  # pyright: ignore[reportArgumentType]
    return Tiers(float(base), tuple(Tier(tier.start, float(tier.price)) for tier in tiers))
