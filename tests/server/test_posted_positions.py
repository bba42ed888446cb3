"""A hostile text at every place of the schema where a suite may have a text: it is refused, or it is only a text."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from rejoinder.project.user_files import save_value
from rejoinder.server.settings import Limits
from rejoinder.suite.schema import read_schema
from tests.kit import Project, Raw
from tests.server.kit import Listener, api, scripted, settings

SECRET = "the-value-that-must-not-leave"
Make = Callable[[Any], Raw]
"""A suite with this value at one place."""
OPEN = Limits(changes=1_000_000, changes_per_s=1e9, queued=1_000_000)


WHOLE: dict[str, Raw] = {
    "#/$defs/case": {"id": "c", "prompt": "Count.", "checks": [{"contains": "one"}]},
    "#/$defs/target": {"name": "s", "provider": "scripted", "replies": ["one two"]},
    "#/$defs/user": {"goal": "Be told.", "target": "s", "stop": "DONE"},
}
"""What a definition needs besides, where its `required` does not say all."""


def resolved(rule: Raw) -> Raw:
    if "$ref" not in rule:
        return rule
    found: Any = read_schema()
    for step in rule["$ref"].removeprefix("#/").split("/"):
        found = found[step]
    return {**found, **{key: value for key, value in rule.items() if key != "$ref"}}


def least(rule: Raw) -> Any:
    """The smallest value that a rule lets through, as far as it says."""
    rule = resolved(rule)
    if "enum" in rule:
        return rule["enum"][0]
    kinds = rule.get("type", "string")
    kind = kinds if isinstance(kinds, str) else kinds[0]
    if kind == "object":
        return {key: least(rule.get("properties", {}).get(key, {})) for key in rule.get("required", ())}
    if kind == "array":
        return [least(rule.get("items", {}))] * rule.get("minItems", 0)
    return {"string": "x", "integer": 1, "number": 1, "boolean": True, "null": None}[kind]


def places(rule: Raw, make: Make, path: str, seen: set[str]) -> Iterator[tuple[str, Make]]:
    """Every place below a rule that takes a text. A definition is gone through once, wherever it is met first."""
    name = rule.get("$ref", "")
    if name in seen:
        return
    seen.update([name] if name else [])
    rule = resolved(rule)
    if "enum" in rule:
        return
    kinds = rule.get("type", "string" if not {"properties", "items", "allOf", "if"} & rule.keys() else "")
    if "string" in ([kinds] if isinstance(kinds, str) else kinds):
        yield path, make
    beside = {**least({**rule, "type": "object"}), **WHOLE.get(name, {})}

    def with_key(key: str) -> Make:
        return lambda value: make({**beside, key: value})

    for key, one in rule.get("properties", {}).items():
        yield from places(one, with_key(key), f"{path}.{key}", seen)
    others = [rule.get("additionalProperties"), *rule.get("patternProperties", {}).values()]
    for one in (one for one in others if isinstance(one, dict)):
        yield from places(one, with_key("x-own"), f"{path}.*", seen)
    if isinstance(rule.get("items"), dict):
        yield from places(rule["items"], lambda value: make([value]), f"{path}[]", seen)
    for one in [*rule.get("allOf", ()), *rule.get("anyOf", ()), *rule.get("oneOf", ())]:
        yield from places(one, make, path, seen)
    for one in (rule[key] for key in ("then", "else") if isinstance(rule.get(key), dict)):
        yield from places(one, make, path, seen)


def whole(value: Raw) -> Raw:
    return {**scripted(1), **value}


def all_places() -> list[tuple[str, Make]]:
    return list(places(read_schema(), whole, "", set()))


@pytest.fixture
def place(project: Project, listener: Listener, monkeypatch: pytest.MonkeyPatch) -> Project:
    """A project that has something to lose, and models that are on this machine."""
    for name, value in {"LEAKED": SECRET, "OPENAI_API_KEY": SECRET, "OPENAI_BASE_URL": listener.url}.items():
        monkeypatch.setenv(name, value)
    save_value("secrets", "kept", SECRET)
    save_value("vars", "mine", "told by the server to all who may ask it")
    project.write("private.txt", SECRET)
    return project


def post(place: Project, suite: Raw) -> Any:
    return api(settings(place.folder, limits=OPEN), "POST", "/runs", {"yaml": json.dumps(suite)})


def some_now(first: str, *others: str) -> list[Any]:
    """To go through every place takes half a minute: `make test` has every fifth for one text, `make test-long` all."""
    every = [pytest.param(one, 1, marks=pytest.mark.long) for one in (first, *others)]
    return [pytest.param(first, 5), *every]


def test_there_are_places_in_every_definition_of_suites():
    names = " ".join(path for path, _ in all_places())
    assert len(all_places()) > 400
    for word in (".evals[].prompt", "webhook", "command", "mcp", ".variants[].vars", "base_url", "headers", "script"):
        assert word in names


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "step"), some_now("{{ env('LEAKED') }}", "{{ secret('kept') }}", "{{ var('mine') }}")
)
def test_an_expression_is_refused_at_every_place(place: Project, words: str, step: int):
    let_through = {}
    for path, make in all_places()[::step]:
        answer = post(place, make(f"x {words}"))
        assert SECRET not in answer.text, path
        if answer.status_code != 422 or not answer.json()["error"]["code"].startswith("names-"):
            let_through[path] = answer.text
    assert let_through == {}


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "step"), some_now("address", "file", "path", "command", "code", "target", "folder"))
def test_what_is_let_through_is_only_a_text(place: Project, listener: Listener, kind: str, step: int):
    hostile = {
        "address": listener.url,
        "file": "private.txt",
        "path": str(place.folder / "private.txt"),
        "command": f"touch {place.folder / 'ran'}",
        "code": "os:getcwd",
        "target": "openai/gpt-5",
        "folder": str(place.folder),
    }[kind]
    let_through = 0
    for path, make in all_places()[::step]:
        answer = post(place, make(hostile))
        assert answer.status_code in (202, 422), (path, answer.text)
        assert SECRET not in answer.text, path
        if answer.status_code == 202:
            let_through += 1
            suite = place.folder / ".rejoinder" / "queue" / answer.json()["id"] / "suite.yaml"
            place.run("run", str(suite), code=None)
        assert not listener.was_reached, path
        assert not (place.folder / "ran").exists(), path
    assert let_through > 80 // step, "many places take a text that is only a text"
    for made in (place.folder / ".rejoinder").rglob("*.json*"):
        assert SECRET not in made.read_text(encoding="utf-8"), made
