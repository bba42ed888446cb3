"""Writes what is declared in Python into the JSON Schema of suites: the checks of `model/checks.py`, each as a property
of `checkItem`, and the settings of targets of `suite/provider_settings.py`, each class as a definition."""

from __future__ import annotations

import json
from collections.abc import Iterable
from inspect import cleandoc, get_annotations
from pathlib import Path
from typing import Any, Literal, get_args, get_origin, get_type_hints

from msgspec import Meta, Struct, structs

from rejoinder.model import CHECKS, Check, Item
from rejoinder.model.fields import Field, Reading, fields_of, strip
from rejoinder.model.providers import PROVIDERS
from rejoinder.suite import schema
from rejoinder.suite.provider_settings import (
    SETTINGS,
    Also,
    InnerSettings,
    ProviderSettings,
    SettingsGroup,
    SharedSettings,
)

SCHEMA = Path(schema.__file__).with_name("schema.json")
Rules = dict[str, Any]

TYPES: dict[Any, str] = {str: "string", int: "integer", float: "number", bool: "boolean", dict: "object"}
LIMITS = {"ge": "minimum", "gt": "exclusiveMinimum", "le": "maximum", "min_length": "minItems"}
MAPPING: Rules = {"patternProperties": {"^x-": True}, "additionalProperties": False}


def rules_of_type(hint: Any) -> Rules:
    """What a type says by itself."""
    kind, members = get_origin(hint) or hint, get_args(hint)
    if isinstance(hint, list):  # one of several: only checks are
        return {"$ref": "#/$defs/checkItem"}
    if kind is tuple and members[0] is Item:
        return {"$ref": "#/$defs/checkList"}
    if kind is tuple:
        return {"type": "array", "items": rules_of_value(members[0])}
    if kind is Literal:
        return {"enum": list(members)}
    if kind is dict:
        return {"type": "object", **({} if members[1] is Any else {"additionalProperties": rules_of_value(members[1])})}
    if isinstance(hint, type) and issubclass(hint, InnerSettings):
        return rules_of_inner(hint)
    if isinstance(hint, type) and issubclass(hint, Struct):
        return reference_to(hint)
    return {"type": TYPES[kind]}


def reference_to(kind: type[Struct]) -> Rules:
    return {"$ref": f"#/$defs/{definition_of(kind)}"}


def definition_of(kind: type[Struct]) -> str:
    return f"{kind.__name__[0].lower()}{kind.__name__[1:]}"


def rules_of_value(hint: Any) -> Rules:
    """What a type and its annotations say."""
    type_, notes = strip(hint)
    return annotated(type_, next((note for note in notes if isinstance(note, str)), None), notes)


def rules_of_field(field: Field) -> Rules:
    return annotated(Any if field.reading is Reading.JSON else field.type, field.description, field.metas)


def annotated(type_: Any, description: str | None, notes: Iterable[Any]) -> Rules:
    """The rules of a type with what its annotations add; a text's own `type` stands for the whole of it."""
    metas = [note for note in notes if isinstance(note, Meta)]
    extra: Rules = {key: rule for meta in metas for key, rule in (meta.extra_json_schema or {}).items()}
    limits = {
        word: limit for meta in metas for name, word in LIMITS.items() if (limit := getattr(meta, name)) is not None
    }
    own = {} if type_ is Any or isinstance(extra.get("type"), str) else rules_of_type(type_)
    return {**({"description": description} if description else {}), **own, **limits, **extra}


def rules_of_check(kind: type[Check]) -> Rules:
    """The schema of what stands behind a check's key."""
    fields = fields_of(kind, Check)
    head = {"description": " ".join(cleandoc(kind.__doc__ or "").split())}
    if len(fields) == 1:
        return {**rules_of_field(fields[0]), **head, "x-check": True}
    alone = next((rules_of_field(field) for field in fields if field.name == kind.alone), {})
    types = alone.get("type", [])
    rules = {**alone, **head, "type": "object"}
    if alone:
        rules["type"] = [*([types] if isinstance(types, str) else types), "object"]
    rules |= {"properties": {field.key: rules_of_field(field) for field in fields}, **MAPPING, **kind.rules}
    if required := [field.key for field in fields if field.required]:
        rules["required"] = required
    return {**rules, "x-check": True}


BESIDE_A_CHECK = ("name", "weight", "required", "threshold", "metric", "with", "count")
INNER: Rules = {"$ref": "#/$defs/checkItem"}


def conversation_item(names: Iterable[str]) -> Rules:
    """What an item of `conversation_checks` may have: every check, and when a check has to hold."""
    return {name: {"$ref": f"#/$defs/checkItem/properties/{name}"} for name in names} | {
        "on": {
            "description": "The text that is checked: the last reply, or the whole transcript.",
            "enum": ["last", "transcript"],
        },
        "always": {"description": "Every reply has to pass this check.", **INNER, "x-check": True},
        "never": {"description": "No reply may pass this check.", **INNER, "x-check": True},
        "by_turn": {
            "description": "A reply has to pass this check, at this turn or before.",
            "type": "object",
            "properties": {
                "turn": {"description": "The last turn that counts.", "type": "integer", "minimum": 1},
                "check": {"description": "The check.", **INNER},
            },
            "required": ["turn", "check"],
            **MAPPING,
            "x-check": True,
        },
        "after": _two("Once a reply passes `when`, a later one has to pass `then`.", "when", "then"),
        "before": _two("A reply has to pass `first` before one passes `second`.", "first", "second"),
        "turns": {
            "description": "The first and the last turn that count; all of them unless given.",
            "type": "array",
            "items": {"type": "integer", "minimum": 1},
            "minItems": 2,
            "maxItems": 2,
        },
        "replies": {
            "description": "The replies that count: all, or only the last one of each planned turn (final).",
            "enum": ["all", "final"],
        },
    }


def _two(description: str, *keys: str) -> Rules:
    properties = {key: {"description": "A check.", **INNER} for key in keys}
    return {
        "description": description,
        "type": "object",
        "properties": properties,
        "required": list(keys),
        **MAPPING,
        "x-check": True,
    }


def properties_of(kind: type[SettingsGroup]) -> Rules:
    """The settings of a group, its own before those of its bases, and behind them their other names."""
    hints = get_type_hints(kind, include_extras=True)
    declared = [name for parent in kind.__mro__ for name in get_annotations(parent)]
    properties: Rules = {}
    others: Rules = {}
    for name in dict.fromkeys(name for name in declared if name in kind.__struct_fields__):
        properties[name] = rules = rules_of_value(hints[name])
        camel = [in_camel_case(name)] if kind.camel else []
        also = [one for note in strip(hints[name])[1] if isinstance(note, Also) for one in note.names]
        for other in (*camel, *also):
            if other != name:
                others[other] = {**rules, "description": f"Another name for `{name}`."}
    return properties | others


def in_camel_case(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(map(str.capitalize, rest))


def rules_of_inner(kind: type[InnerSettings]) -> Rules:
    """The schema of a setting that is a mapping."""
    required = [field.name for field in structs.fields(kind) if field.required]
    return {
        "type": "object",
        "properties": properties_of(kind),
        **({"required": required} if required else {}),
        **kind.rules,
        "additionalProperties": False,
    }


def rules_of_settings(kind: type[ProviderSettings]) -> Rules:
    description = " ".join(cleandoc(kind.__doc__ or "").split())
    return {"description": description, "properties": properties_of(kind), **kind.rules}


def branch_of(kind: type[ProviderSettings]) -> Rules:
    """Which settings the targets of some providers have, in the target itself or under its `settings`."""
    names = [written for name in kind.providers for written in (name, *PROVIDERS[name].also)]
    every = [one for one in (kind.besides, kind, SharedSettings) if one is not None]
    allowed = {"allOf": [reference_to(one) for one in every], "unevaluatedProperties": False}
    settings = {"description": "The provider's settings, as in AgentV's v2.1 files.", "type": "object", **allowed}
    return {
        "if": {"properties": {"provider": {"enum": names}}, "required": ["provider"]},
        "then": {**allowed, "properties": {"settings": settings}},
    }


def declared_schema(text: str) -> str:
    """The schema's text with checks and settings as they are declared; everything else stays."""
    document = json.loads(text)
    definitions = document["$defs"]
    for kind in (SharedSettings, *SETTINGS):
        definitions[definition_of(kind)] = rules_of_settings(kind)
    definitions["target"]["allOf"] = [reference_to(SharedSettings), *map(branch_of, SETTINGS)]
    item = definitions["checkItem"]
    beside = {key: rules for key, rules in item["properties"].items() if "x-check" not in rules}
    item["properties"] = {name: rules_of_check(kind) for name, kind in CHECKS.items()} | beside
    definitions["conversationItem"]["properties"] = conversation_item([*CHECKS, *BESIDE_A_CHECK])
    return json.dumps(document, indent=1, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    before = SCHEMA.read_text(encoding="utf-8")
    after = declared_schema(before)
    if after != before:
        SCHEMA.write_text(after, encoding="utf-8", newline="\n")
        print(f"changed {SCHEMA.name}")
