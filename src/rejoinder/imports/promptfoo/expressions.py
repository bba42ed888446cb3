"""Expressions of Nunjucks: read into trees, and evaluated with a limit on steps. Nothing of the host can be reached:
values are data, and the functions are the filters of this module.
"""

# pyright: reportUnknownLambdaType=false, reportUnknownVariableType=false

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from msgspec import Struct

MOST_STEPS = 200_000
MOST_CHARACTERS = 2_000_000
"""Limits of one text; a loop in a loop would go beyond them."""
_DEEPEST = 40

_TOKEN = re.compile(
    r"""\s*(?:(?P<number>\d+(?:\.\d+)?)|(?P<text>"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')|(?P<name>[A-Za-z_$][\w$]*)
    |(?P<sign>===|!==|==|!=|<=|>=|//|\*\*|[-+*/%<>~|.,:()\[\]{}]))""",
    re.VERBOSE,
)
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r"}
_WORDS = {"true": True, "false": False, "none": None, "null": None, "True": True, "False": False, "None": None}
_BINDING = (
    ("or",),
    ("and",),
    ("in", "==", "!=", "===", "!==", "<", ">", "<=", ">="),
    ("~",),
    ("+", "-"),
    ("*", "/", "//", "%"),
)
"""Signs between two values, the loosest first."""


class TemplateFault(Exception):
    """A template that is wrong, or that uses what is not supported here."""


class Name(Struct, frozen=True):
    name: str


class Literal(Struct, frozen=True):
    value: Any


class Lookup(Struct, frozen=True):
    of: Tree
    key: Tree


class Apply(Struct, frozen=True):
    """A filter or an operator, applied to values."""

    name: str
    arguments: tuple[Tree, ...]


class Choice(Struct, frozen=True):
    """`a if b else c`, and `and`, `or`."""

    kind: str
    parts: tuple[Tree, ...]


class Several(Struct, frozen=True):
    items: tuple[Tree, ...]


Tree: TypeAlias = Name | Literal | Lookup | Apply | Choice | Several


def read_expression(text: str) -> Tree:
    """The tree of an expression. Raises TemplateFault."""
    reader = _Reader(text)
    tree = reader.choice()
    if reader.token is not None:
        raise TemplateFault(f"`{text.strip()}` is not supported")
    return tree


class _Reader:
    def __init__(self, text: str) -> None:
        self.text = text
        self.place = 0
        self.depth = 0
        self.token: tuple[str, str] | None = None
        self._advance()

    def _advance(self) -> tuple[str, str]:
        before = self.token or ("", "")
        found = _TOKEN.match(self.text, self.place)
        if found is None:
            if self.text[self.place :].strip():
                raise TemplateFault(f"`{self.text.strip()}` is not supported")
            self.token = None
        else:
            self.place = found.end()
            kind = str(found.lastgroup)
            self.token = (kind, found[kind])
        return before

    def _is(self, *words: str) -> bool:
        return self.token is not None and self.token[0] in ("sign", "name") and self.token[1] in words

    def take(self, word: str) -> bool:
        if self._is(word):
            self._advance()
            return True
        return False

    def need(self, word: str) -> None:
        if not self.take(word):
            raise TemplateFault(f"`{self.text.strip()}` lacks `{word}`")

    def choice(self) -> Tree:
        self.depth += 1
        if self.depth > _DEEPEST:
            raise TemplateFault("an expression is nested too deeply")
        value = self._binary(0)
        if self.take("if"):
            condition = self._binary(0)
            other = self.choice() if self.take("else") else Literal(None)
            value = Choice("if", (condition, value, other))
        self.depth -= 1
        return value

    def _binary(self, level: int) -> Tree:
        if level == len(_BINDING):
            return self._unary()
        left = self._binary(level + 1)
        while self._is(*_BINDING[level]):
            sign = self._advance()[1]
            right = self._binary(level + 1)
            is_choice = sign in ("and", "or")
            left = Choice(sign, (left, right)) if is_choice else Apply(sign, (left, right))
        return left

    def _unary(self) -> Tree:
        self.depth += 1
        if self.depth > _DEEPEST:
            raise TemplateFault("an expression is nested too deeply")
        for sign in ("not", "-"):
            if self.take(sign):
                tree: Tree = Apply(f"{sign} x", (self._unary(),))
                break
        else:
            tree = self._with_filters(self._postfix())
        self.depth -= 1
        return tree

    def _with_filters(self, value: Tree) -> Tree:
        while self.take("|"):
            name = self._name()
            arguments: list[Tree] = [value]
            if self.take("("):
                arguments += self._list(")")
            value = Apply(f"|{name}", tuple(arguments))
        return value

    def _name(self) -> str:
        if self.token is None or self.token[0] != "name":
            raise TemplateFault(f"`{self.text.strip()}` is not supported")
        return self._advance()[1]

    def _list(self, end: str) -> list[Tree]:
        items: list[Tree] = []
        while not self.take(end):
            items.append(self.choice())
            if not self._is(end):
                self.need(",")
        return items

    def _postfix(self) -> Tree:
        value = self._atom()
        while True:
            if self.take("."):
                value = Lookup(value, Literal(self._name()))
            elif self.take("["):
                value = Lookup(value, self.choice())
                self.need("]")
            else:
                return value

    def _atom(self) -> Tree:
        if self.token is None:
            raise TemplateFault("an expression is empty")
        kind, text = self.token
        if kind == "sign":
            if self.take("("):
                inner = self.choice()
                self.need(")")
                return inner
            if self.take("["):
                return Several(tuple(self._list("]")))
            raise TemplateFault(f"`{self.text.strip()}` is not supported")
        self._advance()
        if kind == "number":
            return Literal(float(text) if "." in text else int(text[:300]))
        if kind == "text":
            return Literal(re.sub(r"(?s)\\(.)", lambda found: _ESCAPES.get(found[1], found[1]), text[1:-1]))
        return Literal(_WORDS[text]) if text in _WORDS else Name(text)


class Evaluation:
    """Evaluates trees of one text, with one limit for all of them."""

    def __init__(self) -> None:
        self._steps = 0

    def step(self) -> None:
        self._steps += 1
        if self._steps > MOST_STEPS:
            raise TemplateFault("it takes too many steps")

    def value(self, tree: Tree, names: Mapping[str, Any]) -> Any:
        """The value of a tree. Raises TemplateFault for a filter that is not supported here."""
        self.step()
        match tree:
            case Literal(value):
                return value
            case Name(name):
                return names.get(name)
            case Lookup(of, key):
                return _look_up(self.value(of, names), self.value(key, names))
            case Several(items):
                return [self.value(one, names) for one in items]
            case Choice(kind, parts):
                return self._choose(kind, parts, names)
            case Apply(name, arguments):
                return _apply(name, [self.value(one, names) for one in arguments])

    def _choose(self, kind: str, parts: tuple[Tree, ...], names: Mapping[str, Any]) -> Any:
        first = self.value(parts[0], names)
        if kind == "if":
            return self.value(parts[1] if is_true(first) else parts[2], names)
        return first if is_true(first) == (kind == "or") else self.value(parts[1], names)


def names_in(tree: Tree) -> set[str]:
    """The variables that a tree uses."""
    match tree:
        case Name(name):
            return {name}
        case Literal():
            return set()
        case Lookup(of, key):
            return names_in(of) | names_in(key)
        case Several(parts) | Choice(_, parts) | Apply(_, parts):
            return set[str]().union(*map(names_in, parts))


def is_true(value: Any) -> bool:
    """Whether JavaScript takes it for true: also an empty list is."""
    return bool(value) or isinstance(value, list | dict)


def as_text(value: Any) -> str:
    """A value as JavaScript inserts it into a text."""
    if isinstance(value, str):
        return value
    if value is None:
        return ""
    if isinstance(value, list):
        return ",".join(map(as_text, value))
    if isinstance(value, dict):
        return "[object Object]"
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e21:
        return str(int(value))
    return json.dumps(value)


def _look_up(value: Any, key: Any) -> Any:
    if isinstance(value, dict):
        return value.get(as_text(key))
    if key == "length" and isinstance(value, str | list):
        return len(value)
    if isinstance(value, str | list) and isinstance(key, int) and 0 <= key < len(value):
        return value[key]
    return None


def _apply(name: str, values: list[Any]) -> Any:
    function = _FUNCTIONS.get(name)
    if function is None:
        raise TemplateFault(f"the filter `{name[1:]}` is not supported")
    try:
        result = function(*values)
    except (TypeError, ValueError, ArithmeticError, LookupError, RecursionError):
        raise TemplateFault(f"`{name.strip('|')}` cannot be applied to these values") from None
    if isinstance(result, str) and len(result) > MOST_CHARACTERS:
        raise TemplateFault("it becomes too long")
    return result


def _add(left: Any, right: Any) -> Any:
    if isinstance(left, str | list | dict) or isinstance(right, str | list | dict):
        return as_text(left) + as_text(right)
    return (left or 0) + (right or 0)


def _same(left: Any, right: Any) -> bool:
    return left == right and isinstance(left, bool) == isinstance(right, bool)


def _contains(item: Any, where: Any) -> bool:
    return as_text(item) in where if isinstance(where, str) else item in where


def _default(value: Any, other: Any = "", also_false: Any = False) -> Any:
    return other if value is None or (is_true(also_false) and not is_true(value)) else value


def _dump(value: Any, indent: Any = None) -> str:
    separators = None if indent else (",", ":")
    return json.dumps(value, ensure_ascii=False, indent=indent or None, separators=separators)


def _join(values: Any, sign: Any = "", key: Any = None) -> str:
    items = values if isinstance(values, list) else [values]
    return as_text(sign).join(as_text(_look_up(one, key) if key else one) for one in items)


def _replace(text: Any, old: Any, new: Any, most: Any = -1) -> str:
    return as_text(text).replace(as_text(old), as_text(new), int(most))


def _cut(text: Any, length: Any = 255, whole: Any = False, end: Any = "...") -> str:
    written = as_text(text)
    if len(written) <= length:
        return written
    part = written[: int(length)]
    return (part if is_true(whole) or " " not in part else part.rpartition(" ")[0]) + as_text(end)


def _listed(value: Any) -> list[Any]:
    return [[key, one] for key, one in value.items()] if isinstance(value, dict) else list(value)


_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "==": _same,
    "===": _same,
    "!=": lambda left, right: not _same(left, right),
    "!==": lambda left, right: not _same(left, right),
    "<": lambda left, right: left < right,
    ">": lambda left, right: left > right,
    "<=": lambda left, right: left <= right,
    ">=": lambda left, right: left >= right,
    "in": _contains,
    "~": lambda left, right: as_text(left) + as_text(right),
    "+": _add,
    "-": lambda left, right: left - right,
    "*": lambda left, right: float(left) * float(right),
    "/": lambda left, right: left / right,
    "//": lambda left, right: left // right,
    "%": lambda left, right: float(left) % float(right),
    "not x": lambda value: not is_true(value),
    "- x": lambda value: -value,
    "|upper": lambda value: as_text(value).upper(),
    "|lower": lambda value: as_text(value).lower(),
    "|trim": lambda value: as_text(value).strip(),
    "|capitalize": lambda value: as_text(value).capitalize(),
    "|title": lambda value: re.sub(r"\S+", lambda word: word[0].capitalize(), as_text(value)),
    "|length": lambda value: 0 if value is None else len(value),
    "|default": _default,
    "|d": _default,
    "|dump": _dump,
    "|join": _join,
    "|replace": _replace,
    "|first": lambda value: value[0],
    "|last": lambda value: value[-1],
    "|reverse": lambda value: value[::-1],
    "|sort": sorted,
    "|list": _listed,
    "|int": lambda value: int(float(value)),
    "|float": float,
    "|round": lambda value, digits=0: round(value, int(digits)),
    "|string": as_text,
    "|safe": lambda value: value,
    "|truncate": _cut,
    "|abs": abs,
    "|wordcount": lambda value: len(as_text(value).split()),
}
