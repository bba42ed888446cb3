"""The snapshot of the price table: it says what the package says, and a file that is not ours is not believed."""

from __future__ import annotations

import os
import random
import re
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from zlib import crc32

import genai_prices
import msgspec
import pytest
from genai_prices.data import providers as table
from genai_prices.types import MatchLogic, ModelPrice, TieredPrices

from rejoinder.model.calls import Usage
from rejoinder.prices import lookup, package, snapshot
from rejoinder.prices.entries import Clause, Period, PricedModel, Rates, Vendor
from rejoinder.prices.lookup import find_model, table_version
from rejoinder.prices.package import Edition, installed_edition, read_package
from rejoinder.prices.snapshot import FORMAT, PriceTable, make_snapshot, read_snapshot, snapshot_path

MOMENTS = [
    datetime(2023, 1, 1, tzinfo=UTC),
    *(datetime(2026, 11, 15, hour, minute, tzinfo=UTC) for hour in range(0, 24, 2) for minute in (0, 30)),
    datetime(2027, 3, 1, 12, tzinfo=UTC),
]
KINDS = ("Contains", "EndsWith", "Equals", "Regex", "StartsWith")
USAGES = [
    Usage(0, 0),
    Usage(1_000, 500, 200),
    Usage(12_000, 3_000, 2_000, cached_tokens=8_000, cache_write_tokens=1_000),
    Usage(200_000, 10, cached_tokens=7),
    Usage(200_001, 10, 10, cached_tokens=7, cache_write_tokens=100_000),
    Usage(3_000_000, 70_000, 1, cache_write_tokens=2_000_000),
]


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Where the snapshot lies; there is none yet."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    lookup._load_table.cache_clear()
    found = snapshot_path(installed_edition())
    assert found is not None
    yield found
    lookup._load_table.cache_clear()


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Has an entry for each time that the package is read."""
    times: list[str] = []

    def read() -> dict[str, Vendor]:
        times.append("read")
        return read_package()

    monkeypatch.setattr(snapshot, "read_package", read)
    return times


def price_of_gpt_4o(prices: PriceTable) -> object:
    found = prices.vendor("openai").find("gpt-4o")
    assert found is not None
    return found.rates(MOMENTS[-1]).input


# What it says.


@pytest.mark.slow
def test_it_is_made_once_and_says_what_the_package_says(path: Path, reads: list[str]) -> None:
    assert read_snapshot() is None
    first, second = PriceTable(), PriceTable()
    assert reads == ["read"]
    assert [file.name for file in path.parent.iterdir()] == [f"{FORMAT}-{genai_prices.__version__}.json"]
    for name, vendor in read_package().items():
        assert first.vendor(name) == second.vendor(name) == vendor
    assert {provider.id for provider in table} == set(read_package())
    assert reads == ["read"]


def leaves(clause: MatchLogic) -> Iterator[MatchLogic]:
    for key, what in vars(clause).items():
        if key in ("or_", "and_"):
            for part in what:
                yield from leaves(part)
        else:
            yield clause


def names_of(provider: genai_prices.types.Provider, draw: random.Random) -> Iterator[str]:
    for model in provider.models:
        texts = (re.sub(r"[\\^$()?|+*]", "", text) for leaf in leaves(model.match) for text in vars(leaf).values())
        for name in (model.id, *texts):
            dateless = re.sub(r"-(20\d\d)-(\d\d)-(\d\d)", r"-\1\2\3", name)
            others = (name.upper(), f"{name}-latest", f"a-{name}", name[:-1], name.replace(".", "-"))
            yield from (name, dateless, *draw.sample((*others, f"{name}-20251211", f"{name}-20251399"), 1))


@pytest.mark.slow
def test_every_name_means_the_model_that_the_library_finds() -> None:
    found, draw = Counter[str](), random.Random(20261116)
    by_id = {provider.id: provider for provider in table}
    for provider in table:
        sellers = [provider, *(by_id[name] for name in provider.fallback_model_providers or ())]
        for name in dict.fromkeys(name for seller in sellers for name in names_of(seller, draw)):
            fallbacks = draw.random() < 0.9
            theirs = provider.find_model(name, all_providers=table if fallbacks else None)
            ours = find_model(provider.id, name, fallbacks=fallbacks)
            assert (ours and ours.id) == (theirs and theirs.id), (provider.id, name)
            found["unknown"] += theirs is None
            for leaf in leaves(theirs.match) if theirs else ():
                found[type(leaf).__name__] += leaf.is_match(name.lower())
    assert found.keys() == {"unknown", *(f"Clause{kind}" for kind in KINDS)}
    assert min(found.values()) > 10


@pytest.mark.slow
def test_every_model_of_every_vendor_costs_what_the_library_says() -> None:
    """At all hours, from each day on, in all tiers, with cached tokens."""
    compared = Counter[str]()
    prices = PriceTable()
    for provider in table:
        for theirs, ours in zip(provider.models, prices.vendor(provider.id).models, strict=True):
            assert (ours.id, ours.name, ours.context_window) == (theirs.id, theirs.name, theirs.context_window)
            assert ours.deprecated == bool(theirs.deprecated)
            assert bool(ours.periods) == (theirs.prices != [])
            seen: list[tuple[ModelPrice, Rates]] = []
            for moment in MOMENTS if ours.periods else ():
                pair = theirs.get_prices(moment), ours.rates(moment)
                if not any(pair[0] is old and pair[1] is new for old, new in seen):
                    seen.append(pair)
            compared["dated"] += len(seen) > 1
            for their_rates, our_rates in seen:
                compared["tiers"] += isinstance(their_rates.input_mtok, TieredPrices)
                compared["reasoning"] += their_rates.output_reasoning_mtok is not None
                for usage in USAGES:
                    compare(their_rates, our_rates, usage)
    assert compared["dated"] > 5
    assert compared["tiers"] > 50
    assert compared["reasoning"] > 0


def compare(theirs: ModelPrice, ours: Rates, usage: Usage) -> None:
    cost = ours.cost(usage)
    if theirs.input_mtok is None or (usage.output_tokens and theirs.output_mtok is None):
        assert cost is None
        return
    said = theirs.calc_price(
        genai_prices.Usage(
            input_tokens=usage.input_tokens,
            cache_read_tokens=usage.cached_tokens,
            cache_write_tokens=usage.cache_write_tokens,
            output_tokens=usage.output_tokens,
            output_reasoning_tokens=usage.reasoning_tokens,
        )
    )
    assert cost is not None
    assert cost.input == pytest.approx(float(said["input_price"]), rel=1e-12, abs=0)
    assert cost.output == pytest.approx(float(said["output_price"]), rel=1e-12, abs=0)


def test_the_version_is_told_without_importing_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    assert table_version() == genai_prices.__version__
    monkeypatch.setattr(package, "_PACKAGE", "rejoinder_is_not_this")
    with pytest.raises(ImportError):
        installed_edition.__wrapped__()


def test_two_records_of_versions_leave_it_to_the_installer_s_library(tmp_path: Path) -> None:
    (tmp_path / "genai_prices-9.8.dist-info").mkdir()
    assert package._version(tmp_path / "genai_prices") == "9.8"
    (tmp_path / "genai_prices-9.9.dist-info").mkdir()
    assert package._version(tmp_path / "genai_prices") == genai_prices.__version__


@pytest.mark.slow
def test_with_a_snapshot_the_package_is_not_imported(path: Path) -> None:
    source = """
import sys
import rejoinder.cli.models
from rejoinder.model.calls import Usage
from rejoinder.prices.lookup import is_openrouter_id
from rejoinder.prices.lookup import table_version
from rejoinder.prices.model_list import known_models
from rejoinder.prices.price_list import PriceList
from rejoinder.suite.configuration import read_prices
prices = PriceList(read_prices({"prices": {"mine": {"input": 1, "output": 1}}}))
assert prices.cost("ollama", "mine", Usage(1, 1)) and prices.cost("ollama", "other", Usage(1, 1)) is None
assert "rejoinder.prices.snapshot" not in sys.modules
assert prices.cost("openai", "gpt-4o", Usage(1, 1)) and prices.cost("gemini", "gemini-2.5-pro", Usage(300_000, 1))
assert known_models() and table_version() and is_openrouter_id("anthropic", "claude-3.5-sonnet", is_known=True)
print("genai_prices" in sys.modules)
"""
    said = [
        subprocess.run([sys.executable, "-c", source], check=True, timeout=60, capture_output=True, text=True).stdout
        for _ in range(2)
    ]
    assert said == ["True\n", "False\n"]
    assert path.exists()


# Which file is believed.


def rewrite(path: Path, content: bytes, version: str | None = None, number: int = FORMAT) -> None:
    """A file with the right checksum."""
    edition = installed_edition()
    about = {
        "format": number,
        "edition": {"version": version or edition.version, "size": edition.size},
        "checksum": crc32(content),
    }
    path.write_bytes(msgspec.json.encode(about) + b"\n" + content)


def flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def cheaper(path: Path) -> bytes:
    """The vendors, with every price at nothing: what only a file that is not believed may say."""
    content = path.read_bytes().partition(b"\n")[2]
    return re.sub(rb'"input":[0-9.]+', b'"input":0.0', content)


def put_a_link(path: Path) -> None:
    path.rename(path.with_name("elsewhere"))
    path.symlink_to(path.with_name("elsewhere"))


def put_a_pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def deep(path: Path) -> None:
    rewrite(path, b'{"openai":' + b'{"models":[' * 100_000 + b"]}" * 100_000 + b"}")


DAMAGES: dict[str, Callable[[Path], object]] = {
    "empty": lambda path: path.write_bytes(b""),
    "no JSON": lambda path: path.write_bytes(b"\xff\x00" * 1000),
    "a line without end": lambda path: path.write_bytes(b"{" * 10_000),
    "cut off": lambda path: path.write_bytes(path.read_bytes()[:-100]),
    "a bit flipped": flip,
    "other bytes": lambda path: path.write_bytes(path.read_bytes().partition(b"\n")[0] + b"\n" + cheaper(path)),
    "another format": lambda path: rewrite(path, cheaper(path), number=FORMAT + 1),
    "another version": lambda path: rewrite(path, cheaper(path), version="0.0.1"),
    "no vendors": lambda path: rewrite(path, b"{}"),
    "no mapping": lambda path: rewrite(path, b"[1]"),
    "a vendor of another kind": lambda path: rewrite(path, b'{"openai": {"models": [{"id": 3}]}}'),
    "a price below nothing": lambda path: rewrite(path, cheaper(path).replace(b'"input":0.0', b'"input":-1.0')),
    "a price without end": lambda path: rewrite(path, cheaper(path).replace(b'"input":0.0', b'"input":1e999')),
    "very deep": deep,
    "very long": lambda path: rewrite(path, cheaper(path) + b" " * snapshot._LARGEST),
    "for the group to write": lambda path: (rewrite(path, cheaper(path)), path.chmod(0o664)),
    "for all to write": lambda path: (rewrite(path, cheaper(path)), path.chmod(0o646)),
    "a link": put_a_link,
    "a pipe": put_a_pipe,
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES.keys())
def test_a_file_that_is_not_ours_is_made_anew(path: Path, reads: list[str], damage: Callable[[Path], object]) -> None:
    make_snapshot()
    good = path.read_bytes()
    damage(path)
    assert price_of_gpt_4o(PriceTable()) == 2.5
    assert reads == ["read", "read"]
    assert path.read_bytes() == good
    assert not path.is_symlink()
    assert path.stat().st_mode & 0o022 == 0


def test_a_file_of_another_user_is_not_believed(path: Path, reads: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    make_snapshot()
    rewrite(path, cheaper(path))
    assert price_of_gpt_4o(PriceTable()) == 0.0  # ours, and whole: it is believed
    monkeypatch.setattr(os, "geteuid", lambda: path.stat().st_uid + 1)
    assert price_of_gpt_4o(PriceTable()) == 2.5


def test_a_table_that_was_changed_under_its_version_makes_another(
    path: Path, reads: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    make_snapshot()
    edition = installed_edition()
    monkeypatch.setattr(snapshot, "installed_edition", lambda: Edition(edition.version, edition.size + 1))
    PriceTable()
    assert reads == ["read", "read"]


def test_where_nothing_can_be_written_the_package_is_read(path: Path, reads: list[str]) -> None:
    path.parents[2].write_text("no folder")
    assert price_of_gpt_4o(PriceTable()) == 2.5
    assert price_of_gpt_4o(PriceTable()) == 2.5
    assert reads == ["read", "read"]


def test_a_folder_in_its_place_does_no_harm(path: Path) -> None:
    path.mkdir(parents=True)
    assert price_of_gpt_4o(PriceTable()) == 2.5
    assert list(path.parent.iterdir()) == [path]


def test_a_user_without_a_home_has_prices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snapshot, "user_cache", lambda: None)
    assert price_of_gpt_4o(PriceTable()) == 2.5


def test_old_files_are_deleted_when_one_is_made(path: Path) -> None:
    path.parent.mkdir(parents=True)
    old, young = path.with_name("1-0.0.1.json"), path.with_name("1-0.0.2.json")
    for file in (old, young):
        file.write_text("")
    os.utime(old, (0, time.time() - 31 * 24 * 3600))
    make_snapshot()
    assert sorted(path.parent.iterdir()) == sorted([path, young])


# What a later version of the package may say.


def test_what_is_not_understood_has_no_price() -> None:
    class ClauseSoundsLike:
        def __init__(self) -> None:
            self.sounds_like = "gpt"

    class MoonConstraint:
        def __init__(self) -> None:
            self.phase = "full"

    known = genai_prices.types.ClauseEquals("b")
    prices = ModelPrice(input_mtok=genai_prices.types.Decimal(1), output_mtok=genai_prices.types.Decimal(2))
    when_full = genai_prices.types.ConditionalPrice(MoonConstraint(), prices=prices)  # pyright: ignore
    tiers = ModelPrice(input_mtok=object())  # pyright: ignore
    for match, rates, expected in (
        (ClauseSoundsLike(), prices, None),
        (known, [when_full], PricedModel("m", Clause("equals", "b"))),
        (known, tiers, PricedModel("m", Clause("equals", "b"))),
        (known, prices, PricedModel("m", Clause("equals", "b"), (Period(Rates(input=1.0, output=2.0)),))),
    ):
        model = genai_prices.types.ModelInfo(id="m", match=match, prices=rates)  # pyright: ignore
        assert package._model(model) == expected


def test_a_pattern_that_is_none_matches_nothing() -> None:
    assert not Clause("regex", "(").matches("(")
