"""Checks and settings are declared once, in Python: the schema of suites is written from there."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import pytest
from jsonschema_rs import Draft202012Validator
from msgspec import Meta

from rejoinder.model.providers import PROVIDERS
from rejoinder.suite import provider_settings
from rejoinder.suite.provider_settings import SETTINGS, ProviderSettings, SharedSettings

ROOT = Path(__file__).parents[2]


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """The script that writes the schema."""
    monkeypatch.syspath_prepend(str(ROOT / "scripts"))
    import write_schema

    yield write_schema
    sys.modules.pop("write_schema")


def test_schema_file_holds_what_is_declared(script: Any) -> None:
    text = script.SCHEMA.read_text(encoding="utf-8")
    assert script.declared_schema(text) == text, "run `make docs`"


def test_every_provider_has_its_settings_in_one_class() -> None:
    assert sorted(name for kind in SETTINGS for name in kind.providers) == sorted(PROVIDERS)
    declared = [one for one in vars(provider_settings).values() if isinstance(one, type) and "providers" in vars(one)]
    assert {*declared} - {ProviderSettings} == {*SETTINGS}


@pytest.mark.parametrize("kind", SETTINGS, ids=lambda kind: kind.__name__)
def test_every_setting_is_described_and_another_name_leads_to_one(script: Any, kind: type[ProviderSettings]) -> None:
    own = script.properties_of(kind)
    beside = [one for one in (SharedSettings, kind.besides) if one is not None]
    every = {*own, *(name for one in beside for name in script.properties_of(one))}
    for name, rules in own.items():
        said = rules.get("description")
        assert said or "$ref" in rules, name
        assert said is None or said.endswith((".", "...")), name
        if other := re.fullmatch(r"Another name for `(\w+)`\.", said or ""):
            assert other[1] in every and other[1] != name


def test_a_new_setting_costs_its_field_alone(script: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    class MockSettings(provider_settings.MockSettings, frozen=True, kw_only=True):
        """Settings of a target whose provider is mock."""

        most_words: Annotated[int | None, "The most words of a reply.", Meta(ge=1)] = None

    settings = tuple(MockSettings if kind is provider_settings.MockSettings else kind for kind in SETTINGS)
    monkeypatch.setattr(script, "SETTINGS", settings)
    monkeypatch.setattr(sys.modules[__name__], "MockSettings", MockSettings, raising=False)
    schema = json.loads(script.declared_schema(script.SCHEMA.read_text(encoding="utf-8")))
    validator = Draft202012Validator(schema)

    def is_taken(**setting: Any) -> bool:
        target = {"name": "m", "provider": "mock", "response": "one", **setting}
        return validator.is_valid({"targets": [target], "evals": [{"prompt": "q", "checks": [{"contains": "one"}]}]})

    assert is_taken() and is_taken(most_words=3) and is_taken(mostWords=3) and is_taken(settings={"most_words": 3})
    assert not is_taken(most_words=0) and not is_taken(most_words="three") and not is_taken(most_word=3)
