"""The Python reference names everything that is public, with the parameters, fields and defaults that it has."""

from __future__ import annotations

import ast
import inspect
import re
from typing import Any

import pytest
from msgspec import NODEFAULT, Struct, structs

import rejoinder
from rejoinder.model import ChatMessage, Reply, Request, Summary, ToolCall, Usage
from rejoinder.model.results import CheckResult, Result, TurnResult
from tests.documentation import ROOT

PAGE = (ROOT / "docs/reference/python.md").read_text(encoding="utf-8")
SECTIONS = dict(re.findall(r"^###? ([^\n]+)\n(.*?)(?=^###? |\Z)", PAGE, re.MULTILINE | re.DOTALL))
PUBLIC = {name: getattr(rejoinder, name) for name in rejoinder.__all__ if name != "__version__"}
FUNCTIONS = [
    name for name, value in PUBLIC.items() if inspect.isfunction(value) and name in SECTIONS and name != "check"
]
STRUCTS: list[type[Struct]] = [
    *(PUBLIC[name] for name in ("RunOptions", "Selection", "Rounds", "Pace", "Limits", "Answers", "Trust")),
    *(Request, ChatMessage, ToolCall, Reply, Usage, rejoinder.Evidence, rejoinder.Opinion),
    *(Result, TurnResult, CheckResult, Summary, rejoinder.GateResult, rejoinder.Action, rejoinder.CaseVerdict),
    *(rejoinder.RunChoices, rejoinder.RunState, rejoinder.Progress, rejoinder.RunBounds),
]


def written_default(value: Any) -> str:
    if value is NODEFAULT:
        return "required"
    if isinstance(value, frozenset):
        return "all kinds"
    return f"`{type(value).__name__}()`" if isinstance(value, Struct) else f"`{value!r}`"


def default_of(field: structs.FieldInfo) -> Any:
    return field.default if field.default_factory is NODEFAULT else field.default_factory()


@pytest.mark.parametrize("struct", STRUCTS, ids=lambda struct: struct.__name__)
def test_the_fields_of_a_value_are_those_that_it_has(struct: type[Struct]) -> None:
    rows = re.findall(r"^\| `(\w+)` \| ([^|]+?) \|(?: [^|]+ \|)?$", SECTIONS[struct.__name__], re.MULTILINE)
    fields = structs.fields(struct)
    assert [name for name, _ in rows] == [field.name for field in fields]
    if "| Field | Default |" in SECTIONS[struct.__name__]:
        assert [default for _, default in rows] == [written_default(default_of(field)) for field in fields]


@pytest.mark.parametrize("name", FUNCTIONS)
def test_the_parameters_of_a_function_are_those_that_it_has(name: str) -> None:
    found = re.search(r"^```py\n(.*?)^```", SECTIONS[name], re.MULTILINE | re.DOTALL)
    assert found
    real = f"def {name}{written_signature(PUBLIC[name])}: ..."
    assert ast.unparse(ast.parse(found[1])) == ast.unparse(ast.parse(real))


def written_signature(function: Any) -> str:
    signature = inspect.signature(function)
    parameters = [
        each
        if each.default is each.empty or not isinstance(each.default, Struct)
        else each.replace(default=Shown(each.default))
        for each in signature.parameters.values()
    ]
    text = str(signature.replace(parameters=parameters))
    return re.sub(r"(: |-> )'([^']*)'", r"\1\2", text)  # annotations are kept as texts


class Shown:
    """The default of an option: an empty group."""

    def __init__(self, value: Struct) -> None:
        assert value == type(value)()
        self.name = type(value).__name__

    def __repr__(self) -> str:
        return f"{self.name}()"


def test_every_public_name_is_in_the_reference() -> None:
    assert [name for name in PUBLIC if not re.search(rf"\b{name}\b", PAGE)] == []
