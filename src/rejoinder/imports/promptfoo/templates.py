"""Templates of Nunjucks. Those that only name variables become ours; all others are rendered at the import, with the
variables of each case, by an evaluator that reaches nothing but these variables.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from collections.abc import Set as AbstractSet
from functools import lru_cache
from typing import Any, TypeAlias

from msgspec import Struct

from rejoinder.imports.promptfoo.expressions import (
    MOST_CHARACTERS,
    Evaluation,
    Literal,
    Lookup,
    Name,
    TemplateFault,
    Tree,
    as_text,
    is_true,
    names_in,
    read_expression,
)
from rejoinder.imports.texts import literal

_PIECE = re.compile(
    r"""\{\{-?\s*(?P<output>(?:"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'|[^"'}]|\}(?!\}))*?)\s*(?P<right>-?)\}\}
    |\{%-?\s*(?P<tag>(?:"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'|[^"'%]|%(?!\}))*?)\s*(?P<right2>-?)%\}
    |\{\#.*?\#\}""",
    re.VERBOSE | re.DOTALL,
)
_RAW = re.compile(r"\{%-?\s*(?:raw|verbatim)\s*-?%\}(.*?)\{%-?\s*end(?:raw|verbatim)\s*-?%\}", re.DOTALL)
_FOR = re.compile(r"for\s+([A-Za-z_]\w*(?:\s*,\s*[A-Za-z_]\w*)*)\s+in\s+(.+)", re.DOTALL)
_SET = re.compile(r"set\s+([A-Za-z_]\w*)\s*=\s*(.+)", re.DOTALL)
_DEEPEST = 20


class Output(Struct, frozen=True):
    tree: Tree


class If(Struct, frozen=True):
    condition: Tree
    then: tuple[Node, ...]
    otherwise: tuple[Node, ...]


class For(Struct, frozen=True):
    names: tuple[str, ...]
    over: Tree
    body: tuple[Node, ...]
    otherwise: tuple[Node, ...]


class Set(Struct, frozen=True):
    name: str
    tree: Tree


Node: TypeAlias = str | Output | If | For | Set


class Template(Struct, frozen=True):
    nodes: tuple[Node, ...]

    @property
    def names(self) -> set[str]:
        """The variables that it uses, including names that loops and assignments define."""
        return set[str]().union(*map(_names, self.nodes))

    @property
    def is_plain(self) -> bool:
        """Whether it has nothing but text, names of variables, and names of environment variables."""
        return all(isinstance(node, str) or (isinstance(node, Output) and _is_name(node.tree)) for node in self.nodes)

    def ours(self, *, known: AbstractSet[str] | None = None, in_variables: bool = False) -> str:
        """A plain template as our suites write it. `known`: the variables that exist; others stand for nothing.
        `in_variables`: in the value of a variable."""
        nodes = (node for node in self.nodes if known is None or isinstance(node, str) or _names(node) <= known)
        return "".join(literal(node) if isinstance(node, str) else _ours(node, in_variables) for node in nodes)

    def render(self, names: Mapping[str, Any]) -> str:
        """The text with these variables. Raises TemplateFault."""
        rendering = _Rendering()
        rendering.write(self.nodes, dict(names))
        return "".join(rendering.pieces)


def has_marks(text: str) -> bool:
    return "{{" in text or "{%" in text or "{#" in text


@lru_cache(maxsize=2048)
def read_template(text: str) -> Template:
    """A template. One with half of a mark is plain text, as in promptfoo. Raises TemplateFault."""
    if not has_marks(text) or _is_partial(text):
        return Template((text,) if text else ())
    reader = _Reader(text)
    nodes, end = reader.block(())
    if end:
        raise TemplateFault(f"`{{% {end} %}}` ends nothing")
    return Template(nodes)


def _is_partial(text: str) -> bool:
    marks = re.findall(r"\{\{|\{%|\{#", text), re.findall(r"\}\}|%\}|#\}", text)
    return bool(marks[0]) and not marks[1]


def _is_name(tree: Tree) -> bool:
    if isinstance(tree, Lookup):
        return tree.of == Name("env") and isinstance(tree.key, Literal)
    return isinstance(tree, Name)


def _ours(node: Node, in_variables: bool) -> str:
    tree = node.tree if isinstance(node, Output) else None
    if isinstance(tree, Lookup) and isinstance(tree.key, Literal):
        return f"{{{{ env('{tree.key.value}') }}}}"
    name = tree.name if isinstance(tree, Name) else ""
    return f"{{{{ var('{name}') }}}}" if in_variables else f"{{{{ {name} }}}}"


def _names(node: Node) -> set[str]:
    match node:
        case str():
            return set()
        case Output(tree) | Set(_, tree):
            return names_in(tree)
        case If(condition, then, otherwise):
            return names_in(condition).union(*map(_names, (*then, *otherwise)))
        case For(_, over, body, otherwise):
            return names_in(over).union(*map(_names, (*body, *otherwise)))


class _Reader:
    """Cuts a text into pieces, and nests what is between tags."""

    def __init__(self, text: str) -> None:
        self._pieces = _pieces(text)
        self._depth = 0

    def block(self, ends: tuple[str, ...]) -> tuple[tuple[Node, ...], str]:
        """The nodes up to a tag that ends them, and this tag."""
        self._depth += 1
        if self._depth > _DEEPEST:
            raise TemplateFault("tags are nested too deeply")
        nodes: list[Node] = []
        end = ""
        for kind, text in self._pieces:
            if kind == "text":
                nodes.append(text)
            elif kind == "output":
                nodes.append(Output(read_expression(text)))
            elif (word := text.partition(" ")[0]) in ends or word in ("else", "elif", "elseif", "endif", "endfor"):
                end = text
                break
            else:
                nodes.append(self._tag(text))
        if ends and not end:
            raise TemplateFault(f"`{{% {ends[-1]} %}}` is missing")
        self._depth -= 1
        return tuple(nodes), end

    def _tag(self, text: str) -> Node:
        if text.startswith("if "):
            return self._if(text[3:])
        if (found := _FOR.fullmatch(text)) is not None:
            body, end = self.block(("else", "endfor"))
            otherwise = self.block(("endfor",))[0] if end == "else" else ()
            names = tuple(name.strip() for name in found[1].split(","))
            return For(names, read_expression(found[2]), body, otherwise)
        if (found := _SET.fullmatch(text)) is not None:
            return Set(found[1], read_expression(found[2]))
        raise TemplateFault(f"`{{% {text.partition(' ')[0]} %}}` is not supported")

    def _if(self, condition: str) -> Node:
        then, end = self.block(("elif", "elseif", "else", "endif"))
        otherwise: tuple[Node, ...] = ()
        if end.startswith(("elif ", "elseif ")):
            otherwise = (self._if(end.partition(" ")[2]),)
        elif end == "else":
            otherwise = self.block(("endif",))[0]
        return If(read_expression(condition), then, otherwise)


def _pieces(text: str) -> Iterator[tuple[str, str]]:
    """The texts, outputs and tags of a template, with white space removed where a mark asks for it."""
    place, trims = 0, False
    while place < len(text):
        raw, found = _RAW.search(text, place), _PIECE.search(text, place)
        first = min((one for one in (raw, found) if one is not None), key=lambda one: one.start(), default=None)
        before = text[place : first.start()] if first is not None else text[place:]
        before = before.lstrip() if trims else before
        trims = False
        if first is not None and first[0][2:3] == "-":
            before = before.rstrip()
        if before:
            yield "text", before
        if first is None:
            return
        place = first.end()
        if raw is not None and first is raw:
            yield "text", raw[1]
        elif first["output"] is not None:
            yield "output", first["output"]
            trims = first["right"] == "-"
        elif first["tag"] is not None:
            yield "tag", " ".join(first["tag"].split(None, 1))
            trims = first["right2"] == "-"


class _Rendering:
    def __init__(self) -> None:
        self.pieces: list[str] = []
        self._length = 0
        self._evaluation = Evaluation()

    def write(self, nodes: tuple[Node, ...], names: dict[str, Any]) -> None:
        for node in nodes:
            self._evaluation.step()
            match node:
                case str():
                    self._add(node)
                case Output(tree):
                    self._add(as_text(self._evaluation.value(tree, names)))
                case Set(name, tree):
                    names[name] = self._evaluation.value(tree, names)
                case If(condition, then, otherwise):
                    self.write(then if is_true(self._evaluation.value(condition, names)) else otherwise, names)
                case For():
                    self._repeat(node, names)

    def _add(self, text: str) -> None:
        self._length += len(text)
        if self._length > MOST_CHARACTERS:
            raise TemplateFault("it becomes too long")
        self.pieces.append(text)

    def _repeat(self, node: For, names: dict[str, Any]) -> None:
        over = self._evaluation.value(node.over, names)
        items = [[key, one] for key, one in over.items()] if isinstance(over, dict) else over
        if not isinstance(items, list) or not items:
            self.write(node.otherwise, names)
            return
        for place, item in enumerate(items):
            loop = {"index": place + 1, "index0": place, "first": not place, "last": place + 1 == len(items)}
            values = item if len(node.names) > 1 and isinstance(item, list) else [item]
            inner = dict(zip(node.names, values, strict=False))
            self.write(node.body, {**names, **inner, "loop": {**loop, "length": len(items)}})
