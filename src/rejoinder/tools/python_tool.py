"""A function of the project as a tool: its signature describes the parameters, its docstring the purpose."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable
from typing import Any, get_type_hints

import msgspec

from rejoinder.model.tools import Listed, PythonTool, ToolAnswer
from rejoinder.tools.base import ToolFault, Use, cut, too_slow
from rejoinder.user_code.functions import FunctionFault, call_function, in_words, load_function, recordable

TIMEOUT_S = 60.0
_NAMED = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)


class PythonFunction:
    def __init__(self, tool: PythonTool, folders: tuple[str, ...]) -> None:
        self._call = tool.call
        self._name = tool.name
        self._folders = folders

    async def list(self) -> tuple[Listed, ...]:
        try:
            function = await call_function(self._call, self._folders, lambda: load_function(self._call, self._folders))
            return (describe(self._name, function),)
        except FunctionFault as fault:
            raise ToolFault(str(fault)) from fault
        except Exception as error:  # annotations that are texts are code of the project, too
            raise ToolFault(f"`{self._call}` cannot be offered as a tool: {error}") from None

    async def call(self, use: Use) -> ToolAnswer:
        """Call the function. An exception is an answer as well, which the model gets."""
        arguments = msgspec.json.decode(use.arguments)

        def work() -> Any:
            function = load_function(self._call, self._folders)
            return function(**converted(function, arguments))

        try:
            async with asyncio.timeout(TIMEOUT_S):
                answer = await call_function(self._call, self._folders, work)
                text = await call_function(self._call, self._folders, _text_of, answer)
        except TimeoutError:
            return too_slow(TIMEOUT_S)
        except FunctionFault as fault:
            if fault.error is None:
                raise ToolFault(str(fault)) from fault
            return ToolAnswer(cut(recordable(in_words(fault.error))), failed=True)
        return ToolAnswer(cut(text))

    async def close(self) -> None:
        pass


def describe(name: str, function: Callable[..., Any]) -> Listed:
    """A function's description for a model. Raises TypeError if a parameter has a type that JSON cannot express."""
    hints = get_type_hints(function, include_extras=True)
    parameters = [one for one in inspect.signature(function).parameters.values() if one.kind in _NAMED]
    types = [hints.get(one.name, Any) for one in parameters]
    try:
        schemas, definitions = msgspec.json.schema_components(types, ref_template="#/$defs/{name}")
    except TypeError as error:
        raise TypeError(_not_in_json(parameters, types)) from error
    schema: dict[str, Any] = {
        "type": "object",
        "properties": {one.name: _with_default(said, one) for one, said in zip(parameters, schemas, strict=True)},
        "required": [one.name for one in parameters if one.default is inspect.Parameter.empty],
    }
    if definitions:
        schema["$defs"] = definitions
    return Listed(name, inspect.getdoc(function) or "", msgspec.json.encode(schema).decode())


def _not_in_json(parameters: list[inspect.Parameter], types: list[Any]) -> str:
    for parameter, kind in zip(parameters, types, strict=True):
        try:
            msgspec.json.schema(kind)
        except TypeError:
            name = inspect.formatannotation(kind)
            return (
                f"its parameter `{parameter.name}` is of a type that JSON does not have, {name};"
                " use texts, numbers, lists, mappings, Literal, Optional, dataclasses or msgspec.Struct"
            )
    return "its parameters are of types that JSON does not have together"


def _with_default(schema: dict[str, Any], parameter: inspect.Parameter) -> dict[str, Any]:
    if parameter.default is inspect.Parameter.empty:
        return schema
    try:
        return {**schema, "default": msgspec.to_builtins(parameter.default)}
    except TypeError:  # it is not a JSON value
        return schema


def converted(function: Callable[..., Any], arguments: Any) -> dict[str, Any]:
    """The arguments with the function's types. Raises TypeError or msgspec.ValidationError."""
    if not isinstance(arguments, dict):
        raise TypeError("the arguments are not an object")
    hints = get_type_hints(function, include_extras=True)
    given: dict[str, Any] = arguments  # pyright: ignore[reportUnknownVariableType] - JSON has texts as keys
    return {name: _converted(name, value, hints.get(name, Any)) for name, value in given.items()}


def _converted(name: str, value: Any, kind: Any) -> Any:
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        raise msgspec.ValidationError(f"`{name}`: {error}") from None


def _text_of(answer: Any) -> str:
    """A text verbatim; anything else as JSON, or as Python's `str` if that fails."""
    if isinstance(answer, str):
        return recordable(answer)
    try:
        return msgspec.json.encode(answer).decode()
    except (TypeError, ValueError, RecursionError):
        return recordable(str(answer))
