"""Functions and classes of the project as tools: signatures describe the parameters, docstrings the purpose."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable
from types import MethodType
from typing import Any, get_type_hints

import msgspec

from rejoinder.model.messages import ToolAnswer
from rejoinder.model.tools import Listed, PythonTool, allows
from rejoinder.tools.base import MOST_TOOLS, ToolFault, Use, cut, too_slow
from rejoinder.user_code.functions import FunctionFault, call_function, in_words, load_function, recordable
from rejoinder.words.numbers import in_seconds

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

        return await _answer_of(self._call, self._folders, work)

    async def close(self) -> None:
        pass


class PythonObject:
    """An object of a class of the project: its public methods are tools, and it remembers what they did."""

    def __init__(self, tool: PythonTool, folders: tuple[str, ...]) -> None:
        self._tool = tool
        self._folders = folders
        self._object: Any = None

    async def list(self) -> tuple[Listed, ...]:
        call, folders = self._tool.call, self._folders
        try:
            methods = await call_function(call, folders, lambda: _methods_of(_load_class(call, folders)))
            found = [describe(name, method) for name, method in methods.items() if allows(self._tool, name)]
        except FunctionFault as fault:
            raise ToolFault(str(fault)) from fault
        except Exception as error:  # annotations that are texts are code of the project, too
            raise ToolFault(f"`{call}` cannot be offered as tools: {error}") from None
        if not found:
            raise ToolFault(f"`{call}` has no public method" + (" that is allowed" if self._tool.allow else ""))
        return tuple(found[:MOST_TOOLS])

    async def call(self, use: Use) -> ToolAnswer:
        """Call a method; the object is made for the first call."""
        arguments = msgspec.json.decode(use.arguments)
        call, folders = self._tool.call, self._folders

        def begin() -> Any:
            return _load_class(call, folders)()

        def work() -> Any:
            method = _methods_of(type(self._object)).get(use.name)
            if method is None:
                raise FunctionFault(f"`{call}` has no public method `{use.name}`")
            method = getattr(self._object, use.name)
            return method(**converted(method, arguments))

        if self._object is None:
            try:
                async with asyncio.timeout(TIMEOUT_S):
                    self._object = await call_function(call, folders, begin)
            except TimeoutError:
                raise ToolFault(f"`{call}` was not made within {in_seconds(TIMEOUT_S)}") from None
            except FunctionFault as fault:
                raise ToolFault(str(fault)) from fault
        return await _answer_of(f"{call}.{use.name}", folders, work)

    async def close(self) -> None:
        self._object = None


async def _answer_of(name: str, folders: tuple[str, ...], work: Callable[[], Any]) -> ToolAnswer:
    """The answer of a function of the project, or its exception. Raises ToolFault where it cannot be called."""
    try:
        async with asyncio.timeout(TIMEOUT_S):
            answer = await call_function(name, folders, work)
            text = await call_function(name, folders, _text_of, answer)
    except TimeoutError:
        return too_slow(TIMEOUT_S)
    except FunctionFault as fault:
        if fault.error is None:
            raise ToolFault(str(fault)) from fault
        return ToolAnswer(cut(recordable(in_words(fault.error))), failed=True)
    return ToolAnswer(cut(text))


def _load_class(call: str, folders: tuple[str, ...]) -> type[Any]:
    """Raises FunctionFault."""
    found = load_function(call, folders)
    if not isinstance(found, type):
        raise FunctionFault(f"`{call}` is not a class; write `python: {call}` for a function")
    return found


def _methods_of(kind: type[Any]) -> dict[str, Callable[..., Any]]:
    """The public methods of a class and its bases, without `self`, in the order in which they are written."""
    names = [name for base in reversed(kind.__mro__[:-1]) for name in vars(base) if not name.startswith("_")]
    found: dict[str, Callable[..., Any]] = {}
    for name in dict.fromkeys(names):
        written = inspect.getattr_static(kind, name)
        if isinstance(written, staticmethod | classmethod):
            found[name] = getattr(kind, name)
        elif inspect.isfunction(written):
            found[name] = MethodType(written, kind)
    return found


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
