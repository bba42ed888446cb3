"""Validation by the JSON Schema, which is shipped as data and printed by `rejoinder schema`. The schema decides what a
key may hold; this module only words its verdicts for authors, with a code and a place.

Annotations that the schema carries for us: `x-code` (the code of a violated string or list rule), `x-codes` (of a
missing partner key), `x-check` (this property is a check), `x-rule` (the place has a rule of its own below).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from math import isfinite, isnan
from pathlib import Path
from typing import Any, Literal, TypeAlias

import msgspec
from msgspec import Struct

from rejoinder.suite.document_paths import DocumentPath
from rejoinder.suite.foreign import (
    Advice,
    advise_nearest,
    find_check,
    find_evaluator,
    find_key,
    find_whole,
    same_as,
    say_the_same,
)
from rejoinder.words.numbers import count, listed

Kind: TypeAlias = Literal["suite", "targets", "config", "case"]

_OTHER_NAME = re.compile(r"(?:Another|AgentV's) name for `(\w+)`\.")
_AGENTV = {
    "suite": ("agentv-eval-v2",),
    "targets": ("agentv-targets-v2", "agentv-targets-v2.1", "agentv-targets-v2.2"),
}
"""The names of AgentV's formats that can be read."""
_ITEM_WORDS = {
    **dict.fromkeys(("evals", "evalcases", "tests"), "a case"),
    **dict.fromkeys(("input_messages", "expected_messages"), "a message"),
    **dict.fromkeys(("checks", "or", "and", "conversation_checks"), "a check"),
    "turns": "a turn",
    "pieces": "a piece",
    "content": "a part",
    "targets": "a target",
    "variants": "a variant",
    "evaluators": "an evaluator",
    "judge": "a verdict",
}
"""The word for an item of each list."""
_PART_KEYS = {"type", "value"}
FOLLOW_UP_KEYS = ("prompt", "prompts", "times", "checks", "hint", "ask")
"""Keys that make an item a follow-up, or belong to one."""
_SWITCHES = {
    **dict.fromkeys(("yes", "on", "y", "true"), "true"),
    **dict.fromkeys(("no", "off", "n", "false"), "false"),
}
_FORMS = {
    "latency": "must be a number of seconds, or a time such as `500ms`, `4s` or `2min`",
    "reply": "must be `whole`, or a mapping with `regex`, `json_path`, `python` or `strip`",
    "flags": "may have the letters i, m, s and x",
    "marker": "must contain `{Role}`, `{role}` or `{ROLE}` in the place of the role",
    **dict.fromkeys(("call", "python"), "must be `module:function`"),
    **dict.fromkeys(("webhook", "url"), "must be an address that begins with http:// or https://"),
}
_SHAPES = {"semantic": "{expected: ..., threshold: 0.8}", "tool_calls": "[NAME]"}
_LISTS = {"tool_calls": "; calls are items of a list: `tool_calls: [{name: ...}]`"}
MOST_LISTED = 10
"""Maximum keys that are listed if a key is unknown and resembles none of them."""
_TARGET_KEYS = ("target", "judge_target", "audit")
_LIKELY = 0.7
"""Minimum similarity of a word to be proposed: a less similar one is another word, not a typo."""
_LACKS_PARTNER = {
    "prompt-without-checks": ("prompt requires checks to be defined: add the checks for the reply to this follow-up"),
    "checks-without-prompt": "`checks` in an item belong to a follow-up; add the `prompt` that is sent before them",
}
_BESIDE_A_CHECK = frozenset({"threshold", "weight", "required", "name", "metric", "every_turn", "count"})
_OF_TURNS = ("input_messages", "expected_messages")
"""Keys of cases that have other names in turns."""
_ROLES = {
    "human": "user",
    **dict.fromkeys(("ai", "bot", "model", "gpt", "llm"), "assistant"),
    "developer": "system",
    "function": "tool",
}
"""Roles of other tools."""
_EMPTY = {
    "empty-prompt": "; write the text to send",
    "empty-pattern": ", and an empty pattern says nothing about a reply",
    "empty-checks": "; a list of checks needs at least one",
    **dict.fromkeys(("outcome", "expected_outcome"), "; say what a good answer achieves"),
    "criteria": "; say what the judge is asked about the reply",
    "rubric": "; say what the reply is judged by",
    **dict.fromkeys(("code", "script", "command", "run"), "; write the command line to run"),
    **dict.fromkeys(("tool_calls", "calls"), "; to forbid tool calls, write `tool_calls: {max: 0}`"),
    "guideline_patterns": "; write a pattern such as `**/*.instructions.md`, or remove it",
    **dict.fromkeys(("evals", "evalcases", "tests"), "; add at least one case"),
    "input_messages": "; add at least one message",
}
"""Advice for an empty value, by its key or else by the code."""
_TYPE_WORDS = {
    "string": "text",
    "integer": "a whole number",
    "number": "a number",
    "boolean": "true or false",
    "array": "a list",
    "object": "a mapping",
    "null": "null",
}


class Violation(Struct, frozen=True):
    """A broken rule at a path. `key`: the place is the key, not its value."""

    code: str
    path: DocumentPath
    message: str
    key: bool = False
    instead: str | None = None
    """The right word, if one word is wrong: the key, or else the value."""
    quote: bool | None = None
    """Whether adding quotes around the value (True), or removing them (False), would fix it."""


def follow_up_key(item: Mapping[str, Any]) -> str | None:
    """The key of an item that holds the words of its follow-up; None if it has no follow-up."""
    return next((key for key in ("prompt", "prompts") if key in item), None)


@lru_cache(maxsize=1)
def read_schema() -> dict[str, Any]:
    # Not importlib.resources: it costs more than the schema itself.
    return msgspec.json.decode(Path(__file__).with_name("schema.json").read_bytes())


def schema_for(kind: Kind) -> dict[str, Any]:
    """The complete schema of one kind of file."""
    schema = read_schema()
    if kind == "suite":
        return schema
    entry = schema["$defs"]["targetsFile" if kind == "targets" else kind]
    return {"$schema": schema["$schema"], "title": f"rejoinder {kind}", **entry, "$defs": schema["$defs"]}


@lru_cache(maxsize=1)
def check_names() -> tuple[str, ...]:
    properties = read_schema()["$defs"]["checkItem"]["properties"]
    return tuple(name for name, rule in properties.items() if rule.get("x-check"))


def other_names(definition: str) -> dict[str, str]:
    """The keys of a definition that are other names, each mapped to ours; the descriptions say so."""
    properties: dict[str, Any] = read_schema()["$defs"][definition]["properties"]
    matches = {key: _OTHER_NAME.fullmatch(rule.get("description", "")) for key, rule in properties.items()}
    return {key: match[1] for key, match in matches.items() if match}


@lru_cache(maxsize=16)
def other_names_of_settings(provider: str) -> dict[str, str]:
    """Like `other_names`, for the settings of a provider's targets."""
    names = other_names("sharedSettings")
    for branch in read_schema()["$defs"]["target"]["allOf"]:
        if provider in branch.get("if", {}).get("properties", {}).get("provider", {}).get("enum", ()):
            for part in branch["then"]["allOf"]:
                names |= other_names(part["$ref"].rpartition("/")[2])
    return names


@lru_cache(maxsize=1)
def settings_of_targets() -> frozenset[str]:
    """The settings that a target of some provider has."""
    definitions: dict[str, Any] = read_schema()["$defs"]
    return frozenset(
        key
        for name, definition in definitions.items()
        if name.endswith("Settings")
        for key in definition.get("properties", {})
    )


@lru_cache(maxsize=1)
def case_keys() -> frozenset[str]:
    return frozenset(read_schema()["$defs"]["case"]["properties"])


def structured_case_keys() -> frozenset[str]:
    """The keys of a case whose values are not text."""
    properties = read_schema()["$defs"]["case"]["properties"]
    return frozenset(key for key, rule in properties.items() if not _may_be_text(rule))


def _may_be_text(rule: dict[str, Any]) -> bool:
    types = rule.get("type", ())
    return "string" in ([types] if isinstance(types, str) else types) or "enum" in rule


def find_violations(data: Any, kind: Kind) -> list[Violation]:
    """Every rule that the data breaks."""
    validator = _validator(kind)
    if validator.is_valid(data):  # as nearly all rows of a data set: a third of the time of looking for errors
        return []
    schema = schema_for(kind)
    return [violation for error in validator.iter_errors(data) for violation in _explain(_Fault(error, schema, data))]


def is_in_target(path: DocumentPath, data: Any) -> bool:
    """Whether the place is inside a named target, so that it matters only to suites that use the target."""
    if len(path) < 2 or path[0] != "targets":
        return False
    entry = data["targets"][path[1]]
    return isinstance(entry, dict) and isinstance(entry.get("name"), str) and bool(entry["name"])


def find_unknown_schema(data: Any, kind: Literal["suite", "targets"]) -> list[Violation]:
    """A `$schema` that is neither an address, nor a file, nor one of AgentV's formats that can be read."""
    name = data.get("$schema") if isinstance(data, dict) else None
    if not isinstance(name, str) or "/" in name or name.endswith(".json") or name in _AGENTV[kind]:
        return []
    names = listed([f"`{known}`" for known in _AGENTV[kind]])
    message = f"`$schema: {name}` is not known; AgentV's name here is {names}. The file is read as one of rejoinder's"
    return [Violation("unknown-schema", ("$schema",), message)]


@lru_cache(maxsize=4)
def _validator(kind: Kind) -> Any:
    from jsonschema_rs import Draft202012Validator

    return Draft202012Validator(schema_for(kind))


class _Fault:
    """One error of the validator, with the part of the schema that it comes from."""

    def __init__(self, error: Any, schema: dict[str, Any], data: Any) -> None:
        self.path: DocumentPath = tuple(error.instance_path)
        self.keyword: str = error.schema_path[-1]
        self.details: dict[str, Any] = error.kind.as_dict()
        self.schema = schema
        self.value: Any = data  # the error's own copy has lost the order of keys
        for step in self.path:
            self.value = self.value[step]
        self.rule: Any = schema
        for step in error.schema_path[:-1]:
            self.rule = self.rule[step]

    @property
    def name(self) -> str:
        """The author's name for the faulty thing."""
        names = [step for step in self.path if isinstance(step, str)]
        if not names:
            return "the file"
        if isinstance(self.path[-1], int):
            return _ITEM_WORDS.get(names[-1], f"an item of `{names[-1]}`")
        return f"`{names[-1]}`"

    @property
    def key(self) -> str:
        """The last key on the way to the fault."""
        return next((step for step in reversed(self.path) if isinstance(step, str)), "")


def _explain(fault: _Fault) -> Iterator[Violation]:
    if fault.rule.get("x-rule") == "checks" and isinstance(fault.value, dict) and "or" not in fault.value:
        if fault.keyword == "required":
            yield _legacy_checks_map(fault)
        return
    if fault.rule.get("x-rule") == "part" and isinstance(fault.value, dict) and not fault.value.keys() & _PART_KEYS:
        if fault.details.get("property") == "type":
            message = "a part is text, or has `type` and `value`; put the text in quotes"
            yield Violation("wrong-type", fault.path, message)
        return
    yield from _EXPLANATIONS.get(fault.keyword, _other)(fault)


def _legacy_checks_map(fault: _Fault) -> Violation:
    keys = list(fault.value)[:3]
    lines = "; ".join(f"`- {key}: ...`" for key in keys) or "`- match: ...`"
    message = f"`checks` is a list of checks, not a mapping; write {lines}"
    if any(key.startswith("-") for key in keys):
        message = f"a space is missing after the dash; write `- {keys[0].lstrip('-')}: ...`"
    return Violation("legacy-checks-map", fault.path, message)


def _type(fault: _Fault) -> Iterator[Violation]:
    value, types = fault.value, fault.details["types"]
    wants_number = bool({"integer", "number"} & set(types))
    if isinstance(value, float) and not isfinite(value) and wants_number:
        yield _beyond_numbers(fault)
        return
    message = _must_be(fault, _list(types))
    quote = instead = None
    if fault.key == "pass" and type(value) is int:
        instead = f'"{value} of {value + 1}"'
        message += f"; write for example {instead}"
    elif fault.key == "quarantine":
        instead = "{ until: 2027-01-31, reason: ... }"
        message = f"{fault.name} says until when and why the case does not count; write for example `{instead}`"
    elif fault.key in _TARGET_KEYS and isinstance(value, bool):
        message = f"{fault.name} is the name of a target, not true or false"
    elif "string" in types and isinstance(value, int | float | bool):
        message += "; put it in quotes"
        quote = True
    elif isinstance(value, str) and wants_number and _is_number(value):
        message += "; remove the quotes"
        quote = False
    elif isinstance(value, str) and wants_number and _is_number(value.replace("_", "")):
        instead = value.replace("_", "")
        message += f"; digits with `_` between them are text in YAML 1.2, so write {instead}"
    elif isinstance(value, str) and "boolean" in types and value.lower() in _SWITCHES:
        instead = _SWITCHES[value.lower()]
        message += f"; write `{instead}`"
    else:
        message += _how_to_write(fault)
    yield Violation("wrong-type", fault.path, message, quote=quote, instead=instead)


def _beyond_numbers(fault: _Fault) -> Violation:
    """A number that YAML can write but that cannot be computed with. A number that is too large is infinite."""
    bounds = " and ".join(_bounds(fault.rule)) or "a number"
    message = f"{fault.name} must be {bounds}, and not {'.nan' if isnan(fault.value) else 'infinite'}"
    return Violation("out-of-range", fault.path, message)


def _how_to_write(fault: _Fault) -> str:
    """An example for checks that are often written in the wrong shape."""
    value, key = fault.value, fault.key
    if isinstance(value, str) and key in _SHAPES and fault.rule.get("x-check"):
        return f"; write `{key}: {_SHAPES[key]}`"
    if isinstance(value, str) and fault.rule.get("x-rule") == "check-item":
        return '; name a check, such as `- match: "*Lima*"`'
    if isinstance(value, str) and fault.rule.get("x-rule") == "turn":
        is_plain = len(value) <= 40 and re.fullmatch(r"\w[\w ,.?!-]*", value)
        return f"; write `- prompt: {value if is_plain else '...'}`"
    if isinstance(value, list) and f"{key}_any" in check_names():
        return f"; write `{key}_all` if all of them must occur, or `{key}_any` if one is enough"
    if isinstance(value, list) and fault.rule.get("x-code") == "empty-pattern":
        times = "twice" if len(value) == 2 else "for each"
        return f"; each item has one pattern: write `- {key}: ...` {times}"
    return ""


def _required(fault: _Fault) -> Iterator[Violation]:
    missing = fault.details["property"]
    yield Violation("missing-field", (*fault.path, missing), f"{fault.name} needs `{missing}`")


def _dependent(fault: _Fault) -> Iterator[Violation]:
    code = fault.rule["x-codes"][fault.details["property"]]
    yield Violation(code, fault.path, _LACKS_PARTNER[code])


def _any_of(fault: _Fault) -> Iterator[Violation]:
    """None of several partners of a key is there."""
    code = fault.rule["x-code"]
    yield Violation(code, fault.path, _LACKS_PARTNER[code])


def _unexpected(fault: _Fault) -> Iterator[Violation]:
    known = _known_keys(fault.rule, fault.schema)
    for key in fault.details["unexpected"]:
        if key in known:  # its own value is at fault, and reported there
            continue
        if key in FOLLOW_UP_KEYS and "by_turn" in known:  # the rules say that such a check sends no follow-up
            continue
        if fault.rule.get("x-rule") != "check-item" or any(name in fault.value for name in check_names()):
            yield _unknown_key(fault, key, known)
        elif key == next((name for name in fault.value if name not in known and not name.startswith("x-")), None):
            advice = find_whole(key, fault.path) or _meant_check(key, fault.value)
            message = f"there is no check `{key}`; {advice.words}"
            yield Violation("unknown-check", (*fault.path, key), message, key=True, instead=advice.instead)


def _meant_check(key: str, item: dict[str, Any]) -> Advice:
    """The check that was probably meant. A check with the contrary meaning is never proposed."""
    names = check_names()
    if (advice := find_check(key, item, names)) is not None:
        return advice
    near = advise_nearest(key, names, _LIKELY)
    if near and near.instead and say_the_same(key, near.instead):
        return near
    return Advice(f"the checks are {', '.join(names)}")


def _unknown_key(fault: _Fault, key: str, known: dict[str, Any]) -> Violation:
    path = (*fault.path, key)
    if fault.rule.get("x-rule") == "checks":
        message = f"unknown key `{key}`: `or` cannot have other keys beside it; make both items of a list"
        return Violation("unknown-key", path, message, key=True)
    where = f" in {fault.name}" if fault.path else ""
    if key in _BESIDE_A_CHECK and fault.rule.get("x-check"):
        message = f"`{key}` belongs beside `{fault.key}`, not inside it{_LISTS.get(fault.key, '')}"
        return Violation("unknown-key", path, message, key=True)
    advice = _meant_key(fault, key, known)
    listed = f"; its keys are {', '.join(known)}" if 0 < len(known) <= MOST_LISTED else ""
    message = f"unknown key `{key}`{where}" + (f"; {advice.words}" if advice else listed)
    instead = advice.instead if advice and advice.instead not in fault.value else None
    return Violation("unknown-key", path, message, key=True, instead=instead)


def _meant_key(fault: _Fault, key: str, known: dict[str, Any]) -> Advice | None:
    if fault.rule.get("x-rule") == "case" and key == "model":
        return Advice("the model of one case is `execution.target`")
    if fault.rule.get("x-rule") == "turn" and key in case_keys() and key not in _OF_TURNS:
        return Advice("it belongs to the case, beside `turns`")
    if fault.rule.get("x-rule") == "check-item" and (advice := find_whole(key, fault.path)) is not None:
        return advice
    if (advice := _inside_tool(fault, key)) is not None:
        return advice
    if not fault.path and key in read_schema()["$defs"]["metadata"]["properties"]:
        return Advice(f"it belongs under `metadata`: `metadata: {{{key}: ...}}`")
    is_general = not fault.path or fault.rule.get("x-rule") == "case" or fault.path == ("metadata",)
    advice = find_key(key, fault.value[key]) if is_general else None
    if advice is not None and (advice.instead is None or advice.instead in known):
        return advice
    return advise_nearest(key, known, _LIKELY if is_general else 0.6)


def _inside_tool(fault: _Fault, key: str) -> Advice | None:
    """The right place of a key beside the kind of a tool."""
    kinds = fault.rule.get("properties", {})
    if not kinds.keys() >= {"mcp", "python", "scripted"}:
        return None
    kind = next((one for one in ("mcp", "python", "scripted") if one in fault.value), "scripted")
    if key in kinds[kind].get("properties", {}):
        return Advice(f"it belongs under `{kind}`: `{kind}: {{{key}: ...}}`")
    if kind == "python" and key in kinds["scripted"]["properties"]:
        return Advice("the signature and the docstring of the function describe it")
    return None


def _length(fault: _Fault) -> Iterator[Violation]:
    code = fault.rule.get("x-code", "out-of-range")
    least = fault.rule.get("minItems", 1)
    if least > 1:
        yield Violation(code, fault.path, f"{fault.name} needs at least {least} items, not {len(fault.value)}")
        return
    remedy = _EMPTY.get(fault.key) or _EMPTY.get(code)
    yield Violation(code, fault.path, f"{fault.name} {f'is empty{remedy}' if remedy else 'must not be empty'}")


def _one_of(fault: _Fault) -> Iterator[Violation]:
    names = [f"`{name}`" for option in fault.rule["oneOf"] for name in option["required"]]
    yield Violation("out-of-range", fault.path, f"{fault.name} needs either {listed(names, 'or')}")


def _too_many(fault: _Fault) -> Iterator[Violation]:
    message = f"{fault.name} may have at most {count(fault.rule['maxItems'], 'item')}, not {len(fault.value)}"
    yield Violation("out-of-range", fault.path, message)


def _pattern(fault: _Fault) -> Iterator[Violation]:
    if "x-code" in fault.rule:
        yield from _length(fault)
        return
    takes_number = {"integer", "number"} & set(fault.rule.get("type", ()))
    if takes_number and fault.key not in _FORMS:  # a number, or its variable
        kind = "a whole number" if "integer" in fault.rule["type"] else "a number"
        wanted = f"must be {kind}, or a `${{{{ VARIABLE }}}}` that holds one"
        yield Violation("wrong-type", fault.path, f"{fault.name} {wanted}, not {_name_value(fault.value)}")
        return
    if fault.key == "pass" and (share := re.fullmatch(r"\s*(\d+)\s*/\s*(\d+)\s*", str(fault.value))):
        instead = f"{share[1]} of {share[2]}"
        message = f"{fault.name} says how many trials have to pass in words; write `{instead}`"
        yield Violation("out-of-range", fault.path, message, instead=instead)
        return
    wanted = _FORMS.get(fault.key, f"does not fit ({fault.rule.get('description', fault.rule['pattern'])})")
    yield Violation("out-of-range", fault.path, f"{fault.name} {wanted}, not {_name_value(fault.value)}")


def _enum(fault: _Fault) -> Iterator[Violation]:
    options = [str(option) for option in fault.details["options"]]
    advice = _meant_option(fault, options)
    message = _must_be(fault, listed([f"`{one}`" for one in options], "or"))
    message += f"; {advice.words}" if advice and fault.value is not None else ""
    code = fault.rule.get("x-code") or ("out-of-range" if isinstance(fault.value, str) else "wrong-type")
    yield Violation(code, fault.path, message, instead=advice.instead if advice else None)


def _meant_option(fault: _Fault, options: list[str]) -> Advice | None:
    """The option that was probably meant. Types of evaluators are never guessed: another type judges something else."""
    word = str(fault.value).lower()
    if "evaluators" in fault.path and fault.key == "type":
        return find_evaluator(word, tuple(options)) or advise_nearest(word, options, likeness=0.85)
    role = _ROLES.get(word)
    return same_as(role) if role in options else advise_nearest(word, options)


def _range(fault: _Fault) -> Iterator[Violation]:
    message = f"{fault.name} must be {' and '.join(_bounds(fault.rule))}, not {fault.value}"
    yield Violation("out-of-range", fault.path, message)


def _bounds(rule: dict[str, Any]) -> list[str]:
    words = {"minimum": "at least", "exclusiveMinimum": "more than", "maximum": "at most"}
    return [f"{word} {rule[keyword]}" for keyword, word in words.items() if keyword in rule]


def _other(fault: _Fault) -> Iterator[Violation]:
    yield Violation("out-of-range", fault.path, f"{fault.name} cannot be {_name_value(fault.value)}")


_EXPLANATIONS = {
    "type": _type,
    "required": _required,
    "dependentRequired": _dependent,
    "anyOf": _any_of,
    "oneOf": _one_of,
    "maxItems": _too_many,
    **dict.fromkeys(("additionalProperties", "unevaluatedProperties"), _unexpected),
    **dict.fromkeys(("minLength", "minItems"), _length),
    "pattern": _pattern,
    "enum": _enum,
    **dict.fromkeys(("minimum", "maximum", "exclusiveMinimum"), _range),
}


def _list(words: list[str]) -> str:
    return listed([_TYPE_WORDS.get(word, f"`{word}`") for word in words], "or")


def _must_be(fault: _Fault, wanted: str) -> str:
    if fault.value is None:
        return f"{fault.name} has no value; it must be {wanted}"
    return f"{fault.name} must be {wanted}, not {_name_value(fault.value)}"


def _name_value(value: Any) -> str:
    if isinstance(value, bool):
        return "true or false"
    if isinstance(value, int | float):
        return f"the number {value}"
    if isinstance(value, str):
        return f"the text {value!r}" if len(value) <= 40 else "a text"
    return "a list" if isinstance(value, list) else "a mapping"


def _is_number(text: str) -> bool:
    """Whether YAML would read the text as a number without quotes."""
    from rejoinder.suite.yaml import read_plain

    return isinstance(read_plain(text.strip()), int | float) and text.strip().lower() not in ("true", "false")


def _known_keys(rule: dict[str, Any], schema: dict[str, Any]) -> dict[str, Any]:
    """The properties that a rule and its references know."""
    known = dict(rule.get("properties", {}))
    for part in rule.get("allOf", ()):
        target = schema["$defs"][part["$ref"].rpartition("/")[2]] if "$ref" in part else part
        known.update(_known_keys(target, schema))
    return known
