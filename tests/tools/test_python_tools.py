"""Functions as tools: what a model is told of them, how they are called, and what comes of those that misbehave."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Optional

import msgspec
import pytest

from rejoinder.model.messages import ToolAnswer
from rejoinder.model.tools import PythonTool
from rejoinder.tools import python_tool
from rejoinder.tools.base import ToolFault, Use
from rejoinder.tools.python_tool import PythonFunction, converted, describe


class Place(msgspec.Struct):
    city: str
    zip: int | None = None


@dataclass
class Span:
    start: int
    end: int = 9


def book(
    where: Place,
    when: Span,
    names: list[str],
    size: Literal["small", "large"] = "small",
    note: Optional[str] = None,  # noqa: UP045 - as many write it
    extras: dict[str, int] = {},  # noqa: B006 - as many write it
    anything=None,  # pyright: ignore
    *,
    quick: bool = False,
) -> str:
    """Books a room.

    It tells the number.
    """
    return f"{where.city} {when.start}-{when.end} {names} {size} {note} {extras} {anything} {quick}"


def test_a_signature_and_a_docstring_say_what_a_function_takes_and_does() -> None:
    told = describe("book", book)
    schema = json.loads(told.parameters)
    assert told.description == "Books a room.\n\nIt tells the number."
    assert schema["required"] == ["where", "when", "names"]
    given = schema["properties"]
    assert given["names"] == {"type": "array", "items": {"type": "string"}}
    assert given["size"] == {"enum": ["large", "small"], "default": "small"}
    assert given["note"] == {"anyOf": [{"type": "string"}, {"type": "null"}], "default": None}
    assert given["extras"] == {"type": "object", "additionalProperties": {"type": "integer"}, "default": {}}
    assert given["anything"] == {"default": None}
    assert given["quick"] == {"type": "boolean", "default": False}
    assert given["where"] == {"$ref": "#/$defs/Place"} and given["when"] == {"$ref": "#/$defs/Span"}
    assert schema["$defs"]["Span"]["required"] == ["start"]


def test_arguments_become_what_the_function_wants() -> None:
    given = {"where": {"city": "Bern"}, "when": {"start": 3}, "names": ["a"], "anything": [1]}
    assert converted(book, given) == {"where": Place("Bern"), "when": Span(3), "names": ["a"], "anything": [1]}
    with pytest.raises(msgspec.ValidationError):
        converted(book, {"names": "a"})


CODE = '''
import asyncio, time

class Odd:
    def __str__(self):
        return "odd one"

def add(a: int, b: int = 2):
    """Adds."""
    return a + b

async def wait(a: int):
    await asyncio.sleep(0)
    return {"waited": a}

def fail(a: int):
    raise ValueError(f"{a} is too much")

def leave():
    raise SystemExit(5)

class Own(BaseException):
    pass

def own():
    raise Own("mine")

async def own_later():
    raise Own("mine")

class Dumb:
    def __str__(self):
        raise RuntimeError("no words")

def dumb():
    return Dumb()

def huge():
    return 10 ** 5000

def misspelt(a: "asyncio.Nothing"):
    return a

def unfinished(a: "1 +"):
    return a

def odd():
    return Odd()

def loop():
    a = []
    a.append(a)
    return a

def hang():
    time.sleep(3)

def takes(a: Odd):
    return a

def whatever(**more):
    return more
'''


@pytest.fixture
def ask(tmp_path: Path) -> Any:
    (tmp_path / "own_tools_of_tests.py").write_text(CODE)

    def call(name: str, arguments: str = "{}") -> ToolAnswer:
        tool = PythonTool(call=f"own_tools_of_tests:{name}")
        function = PythonFunction(tool, (str(tmp_path),))
        return asyncio.run(function.call(Use(tool, name, arguments)))

    def listed(name: str) -> Any:
        function = PythonFunction(PythonTool(call=f"own_tools_of_tests:{name}"), (str(tmp_path),))
        return asyncio.run(function.list())

    call.listed = listed  # pyright: ignore[reportFunctionMemberAccess] - the other thing that can be asked
    return call


def test_what_a_function_returns_is_told_as_text_or_json(ask: Any) -> None:
    assert ask("add", '{"a": 40}') == ToolAnswer("42")
    assert ask("wait", '{"a": 1}') == ToolAnswer('{"waited":1}')
    assert ask("odd") == ToolAnswer("odd one")
    assert "..." in ask("loop").text


@pytest.mark.parametrize(
    ("name", "arguments", "words"),
    [
        ("fail", '{"a": 9}', "ValueError: 9 is too much"),
        ("leave", "{}", "SystemExit: 5"),
        ("own", "{}", "Own: mine"),
        ("own_later", "{}", "Own: mine"),
        ("dumb", "{}", "RuntimeError: no words"),
        ("add", "{}", "TypeError: add() missing 1 required positional argument: 'a'"),
        ("add", '{"a": "x"}', "ValidationError: `a`: Expected `int`, got `str`"),
        ("add", '{"a": 1, "c": 2}', "TypeError: add() got an unexpected keyword argument 'c'"),
    ],
)
def test_what_a_function_raises_is_told_to_the_model(ask: Any, name: str, arguments: str, words: str) -> None:
    assert ask(name, arguments) == ToolAnswer(words, failed=True)


def test_a_number_that_python_does_not_write_is_a_failed_answer(ask: Any) -> None:
    assert ask("huge").failed


def test_a_function_that_hangs_is_a_failed_answer(ask: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(python_tool, "TIMEOUT_S", 0.1)
    assert ask("hang") == ToolAnswer("the tool did not answer within 0.1 s", failed=True)


def test_a_function_that_cannot_be_offered_is_a_fault(ask: Any) -> None:
    assert json.loads(ask.listed("whatever")[0].parameters)["properties"] == {}
    for name, words in {
        "nothing": "has no function `nothing`",
        "takes": "as a tool: its parameter `",
        "misspelt": "as a tool: .*Nothing",
        "unfinished": "as a tool: ",
    }.items():
        with pytest.raises(ToolFault, match=words):
            ask.listed(name)
