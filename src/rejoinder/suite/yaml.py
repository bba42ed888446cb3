"""YAML with places: parses text into plain data, and finds the line and column of any path.

The meaning is YAML 1.2's core schema: `no`, `on` and dates are strings, `010` is ten. Duplicate keys, several
documents, foreign tags and keys that are not plain words are errors, and so is anything that would make a small file
large: size, depth and the growth through aliases are limited before any data is built. libyaml reads version 1.1; if
its tokens differ from 1.2's, it gets a text that it cannot misread.

Nodes are kept, positions are not: a place is looked up by walking the path again, and only errors need one.
"""

from __future__ import annotations

import gc
import re
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from itertools import chain
from typing import Any

import yaml
from yaml.cyaml import CParser  # pyright: ignore[reportAttributeAccessIssue] - compiled, without stubs
from yaml.nodes import CollectionNode, MappingNode, Node, ScalarNode, SequenceNode

from rejoinder.suite.document_paths import DocumentPath

MOST_BYTES = 32 * 1024 * 1024
MOST_DEPTH = 100
MOST_GROWTH = 1_000_000
"""Maximum nodes of a document with aliases, once these are expanded."""

_STRING_TAG = "tag:yaml.org,2002:str"
_KNOWN_TAGS = frozenset(f"tag:yaml.org,2002:{name}" for name in ("str", "int", "float", "bool", "null", "map", "seq"))
_OTHER_BREAKS: tuple[str, ...] = ("\x85", "\u2028", "\u2029")
"""Line ends in YAML 1.1, ordinary characters in 1.2."""
_SELDOM_USED = range(0xE000, 0xE020)
_PAIR = r"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}"
ESCAPE = rf"(?s:{_PAIR}|\\u[dD][89a-fA-F][0-9a-fA-F]{{2}}|\\.)"
"""Escapes in double quotes: a surrogate pair, half of one, or any other. Rare, so they are compiled on first use."""
HALF_CHARACTER = "found invalid Unicode character escape code"
"""libyaml's error for an unpaired surrogate, and for a character that does not exist."""
LINE_END = "\r\n|[\n\r]"
_TAG_WORDS = {
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "null": "null",
    "map": "a mapping",
    "seq": "a list",
}
_MAYBE_SPECIAL = frozenset(["", *"~nNtTfF+-.0123456789"])
_WORDS: dict[str, Any] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL"), None),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
    **dict.fromkeys((".nan", ".NaN", ".NAN"), float("nan")),
}
_INTEGER = re.compile(r"[-+]?[0-9]+")
_BASED = re.compile(r"0o[0-7]+|0x[0-9a-fA-F]+")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_INFINITY = re.compile(r"([-+]?)\.(?:inf|Inf|INF)")
_LONGEST_INTEGER = 300


class YamlFault(Exception):
    """Something that the parser, the limits or the core schema refuse. Lines and columns count from 1."""

    def __init__(self, code: str, message: str, line: int, column: int, **details: Any) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.line = line
        self.column = column
        self.details = details


class Document:
    """A parsed file: its data and the places of everything in it."""

    def __init__(self, text: str, node: Node | None) -> None:
        self.text = text
        self.node = node
        self.faults: list[YamlFault] = []
        builder = _Builder(self.faults)
        self.data: Any = None if node is None else builder.build(node, 0)

    def place(self, path: Sequence[str | int], *, key: bool = False) -> tuple[int, int]:
        """Line and column of the value at a path (of its key with `key`), or of the nearest existing value above it."""
        node, key_node = self.node, None
        for step in path:
            key_node, below = _step(node, step) or (None, None)
            if below is None:
                break
            node = below
        chosen = key_node if key and key_node is not None else node
        return (1, 1) if chosen is None else _start(chosen)

    def has(self, path: Sequence[str | int]) -> bool:
        """Whether a value exists at a path."""
        return self._node(path) is not None

    def last_line(self, path: Sequence[str | int]) -> int:
        """The line on which the value at a path ends; of the document if there is none."""
        node = self._node(path) or self.node
        while isinstance(node, CollectionNode) and node.value and not node.flow_style:
            last = node.value[-1]
            node = last if isinstance(last, Node) else last[1]
        if node is None:
            return 1
        at_the_start = node.end_mark.column == 0 and node.end_mark.line > node.start_mark.line
        return node.end_mark.line + (0 if at_the_start else 1)

    def scalar_places(self) -> list[tuple[int, int]]:
        """The first and last positions of all texts, in order: no comment begins inside them."""
        return sorted((one.start_mark.index, one.end_mark.index) for one in _scalars(self.node))

    def scalar_span(self, path: Sequence[str | int]) -> tuple[int, int] | None:
        """The columns of a value that fits on one line; None for everything else."""
        node = self._scalar(path)
        if node is None or node.start_mark.line != node.end_mark.line:
            return None
        return node.start_mark.column, node.end_mark.column

    def scalar_text(self, path: Sequence[str | int]) -> str | None:
        """The written text of a value that is neither a list nor a mapping."""
        node = self._scalar(path)
        return None if node is None else node.value

    def _scalar(self, path: Sequence[str | int]) -> ScalarNode | None:
        node = self._node(path)
        return node if isinstance(node, ScalarNode) else None

    def _node(self, path: Sequence[str | int]) -> Node | None:
        node = self.node
        for step in path:
            _, node = _step(node, step) or (None, None)
        return node

    def key_nodes(self) -> Generator[tuple[DocumentPath, ScalarNode]]:
        """Every plain-text key with its path, in document order; only the first of duplicate keys."""
        waiting: list[tuple[DocumentPath, Node | None]] = [((), self.node)]
        seen: set[int] = set()
        while waiting:
            path, node = waiting.pop()
            if not isinstance(node, CollectionNode) or id(node) in seen:
                continue
            seen.add(id(node))
            inner: list[tuple[DocumentPath, Node | None]] = []
            for position, child in enumerate(node.value):
                if isinstance(child, Node):
                    inner.append(((*path, position), child))
                elif isinstance(child[0], ScalarNode):
                    inner.append(((*path, child[0].value), child[1]))
                    yield inner[-1][0], child[0]
            waiting += reversed(inner)


def parse_yaml(text: str) -> Document:
    """Parse a document. Raises YamlFault if it cannot be parsed at all; duplicates and similar errors are in
    `faults`."""
    with paused_collector():
        has_other_breaks = any(character in text for character in _OTHER_BREAKS)
        return Document(text, _without_other_breaks(text) if has_other_breaks else _compose(text))


def _compose(text: str) -> Node | None:
    if ("\\ud" in text or "\\uD" in text) and re.search(_PAIR, text):
        return _compose_with_pairs(text)
    return _compose_plainly(text)


def _compose_plainly(text: str) -> Node | None:
    try:
        return _Loader(text).get_single_node()
    except _TooDeep:
        raise _find_depth(text) from None
    except yaml.reader.ReaderError as error:
        raise _reader_fault(text, error) from None
    except yaml.MarkedYAMLError as error:
        raise _marked_fault(error) from None


def _without_other_breaks(text: str) -> Node | None:
    """Parse with other characters in place of YAML 1.1's line ends, because libyaml would fold them and the spaces
    around."""
    low = text.lower()
    free = (chr(code) for code in _SELDOM_USED if chr(code) not in text and f"{code:x}" not in low)
    stand_ins = dict(zip(_OTHER_BREAKS, free, strict=False))
    if len(stand_ins) < len(_OTHER_BREAKS):
        raise _unreadable_break(text)
    node = _compose(text.translate(str.maketrans(stand_ins)))
    back = str.maketrans({other: character for character, other in stand_ins.items()})
    for scalar in _scalars(node):
        scalar.value = scalar.value.translate(back)
    return node


def _unreadable_break(text: str) -> YamlFault:
    first = min(place for character in _OTHER_BREAKS if (place := text.find(character)) >= 0)
    code = f"{ord(text[first]):04x}"
    message = f"the character U+{code.upper()} cannot be read here; in double quotes write it as `\\u{code}`"
    return YamlFault("yaml-syntax", message, *_end_of(text[:first]))


def _end_of(text: str) -> tuple[int, int]:
    """Line and column after a text."""
    lines = split_lines(text)
    return len(lines), len(lines[-1]) + 1


def _start(node: Node) -> tuple[int, int]:
    return node.start_mark.line + 1, node.start_mark.column + 1


def _compose_with_pairs(text: str) -> Node | None:
    """Parse escaped surrogate pairs: JSON writes a character beyond U+FFFF as two escapes, and JSON is YAML, but
    libyaml refuses them.

    A backslash is an escape only in double quotes, and only the parser knows where those are. So it first reads a text
    of the same length without such pairs, for the places of everything, and then one with the characters, for the
    values.
    """
    node = _compose_plainly(re.sub(_PAIR, r"\\u0041\\u0041", text))
    pieces: list[str] = []
    end = 0
    scalars = list(_scalars(node))
    for scalar in sorted(scalars, key=lambda scalar: scalar.start_mark.index):
        if scalar.style == '"':
            for found in re.compile(ESCAPE).finditer(text, scalar.start_mark.index, scalar.end_mark.index):
                if len(found[0]) > len(r"\."):
                    pieces += [text[end : found.start()], _one_character(found, scalar)]
                    end = found.end()
    mended = _compose_plainly("".join([*pieces, text[end:]]))
    for scalar, other in zip(scalars, _scalars(mended), strict=True):
        scalar.value = other.value
    return node


def _one_character(found: re.Match[str], scalar: ScalarNode) -> str:
    """The escape of the character that a pair stands for. An unpaired half is an error, as it is for libyaml."""
    escape = found[0]
    if not re.fullmatch(_PAIR, escape):
        words = {"context": "while parsing a quoted scalar", "opened": _start(scalar), "raw": True}
        raise YamlFault("yaml-syntax", HALF_CHARACTER, *_end_of(found.string[: found.start()]), **words)
    high, low = int(escape[2:6], 16), int(escape[8:], 16)
    return f"\\U{0x10000 + ((high - 0xD800) << 10) + (low - 0xDC00):08x}"


def _scalars(node: Node | None) -> Generator[ScalarNode]:
    """Every scalar of a document once, in an order that depends only on its structure."""
    waiting = [] if node is None else [node]
    seen: set[int] = set()
    while waiting:
        current = waiting.pop()
        if id(current) in seen:
            continue
        seen.add(id(current))
        if isinstance(current, ScalarNode):
            yield current
        else:
            waiting += current.value if isinstance(current, SequenceNode) else chain.from_iterable(current.value)


@contextmanager
def paused_collector() -> Generator[None]:
    """Pause the garbage collector: building many small objects is five times faster, and none of them is garbage."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def split_lines(text: str) -> list[str]:
    """Lines as the YAML parser counts them."""
    return re.split(LINE_END, text)


class _TooDeep(Exception):
    pass


class _Loader(CParser):  # pyright: ignore[reportUntypedBaseClass] - as above
    """libyaml's parser without the implicit tags of YAML 1.1.

    Its composer recurses in C and would exhaust the stack, so it counts the depth at every node.
    """

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.depth = 0

    def resolve(self, kind: type[Node], value: Any, implicit: Any) -> str:  # noqa: ARG002 - called by the parser
        if kind is ScalarNode:
            return "" if implicit[0] else _STRING_TAG
        return "tag:yaml.org,2002:map" if kind is MappingNode else "tag:yaml.org,2002:seq"

    def descend_resolver(self, parent: Any, index: Any) -> None:  # noqa: ARG002 - called by the parser
        self.depth += 1
        if self.depth > MOST_DEPTH + 1:  # the deepest collection may contain a scalar
            raise _TooDeep

    def ascend_resolver(self) -> None:
        self.depth -= 1


def _step(node: Node | None, step: str | int, seen: set[int] | None = None) -> tuple[Node | None, Node] | None:
    """The key and the value at a step; merged mappings are searched once, however often they are merged."""
    if isinstance(node, SequenceNode) and isinstance(step, int) and step < len(node.value):
        return None, node.value[step]
    if isinstance(node, MappingNode) and isinstance(step, str):
        merged: list[Node] = []
        seen = set() if seen is None else seen
        seen.add(id(node))
        for key, value in node.value:
            if isinstance(key, ScalarNode):
                if key.value == step:
                    return key, value
                if _merges(key):
                    merged.append(value)
        for source in merged:
            for base in source.value if isinstance(source, SequenceNode) else [source]:
                if id(base) not in seen and (found := _step(base, step, seen)):
                    return found
    return None


def _merges(key: ScalarNode) -> bool:
    """Whether it is a merge key. In quotes it is an ordinary key."""
    return key.value == "<<" and not key.style


class _Builder:
    """Builds data from nodes. Shared nodes give shared data, and their full size counts once per use."""

    def __init__(self, faults: list[YamlFault]) -> None:
        self.faults = faults
        self.built: dict[int, Any] = {}
        self.sizes: dict[int, int] = {}
        self.size = 0

    def build(self, node: Node, depth: int) -> Any:
        if isinstance(node, ScalarNode):
            return self._scalar(node)
        identity = id(node)
        if identity in self.built:
            return self._again(node)
        if depth >= MOST_DEPTH:
            raise _fault_at(node, "too-deep", f"nested more than {MOST_DEPTH} levels deep")
        before = self.size
        self.sizes[identity] = -1
        result: Any
        if isinstance(node, MappingNode):
            self.built[identity] = result = {}
            self._fill(node, result, depth + 1)
        else:
            self.built[identity] = result = []
            result += (self.build(child, depth + 1) for child in node.value)
            self.size += len(result)
        if node.tag not in _KNOWN_TAGS:
            self._refuse_tag(node)
        self.sizes[identity] = self.size - before
        return result

    def _again(self, node: Node) -> Any:
        size = self.sizes[id(node)]
        if size < 0:
            raise _fault_at(node, "too-many-aliases", "an alias is inside the value that it names")
        self.size += size
        if self.size > MOST_GROWTH:
            raise _fault_at(node, "too-many-aliases", f"aliases make this document grow beyond {MOST_GROWTH:,} values")
        return self.built[id(node)]

    def _fill(self, node: MappingNode, result: dict[str, Any], depth: int) -> None:
        merges: list[tuple[Node, Any]] = []
        twice: list[ScalarNode] = []
        for key, value in node.value:
            if not isinstance(key, ScalarNode):
                self.faults.append(_complex_key(node, key))
                continue
            name = key.value
            if name == "<<" and not key.style:
                if merges:
                    twice.append(key)
                merges.append((value, self.build(value, depth)))
            elif name in result:
                twice.append(key)
            else:
                result[name] = self.build(value, depth)
        self.size += len(result)
        for value, merged in merges:
            self._merge(value, merged, result)
        if twice:
            self._duplicates(node, twice)

    def _merge(self, node: Node, merged: Any, result: dict[str, Any]) -> None:
        """`<<: *base`: take the base's keys that the mapping does not have."""
        for source in merged if isinstance(merged, list) else [merged]:
            if not isinstance(source, dict):
                self.faults.append(_fault_at(node, "yaml-syntax", "`<<` merges mappings, and this is not one"))
                return
            for name, value in source.items():
                result.setdefault(name, value)
            self.size += len(source)
            if self.size > MOST_GROWTH:
                raise _fault_at(node, "too-many-aliases", f"merges grow beyond {MOST_GROWTH:,} values")

    def _duplicates(self, mapping: MappingNode, twice: list[ScalarNode]) -> None:
        first: dict[tuple[str, bool], Node] = {}
        for key, _ in mapping.value:
            if isinstance(key, ScalarNode):
                first.setdefault((key.value, _merges(key)), key)
        for later in twice:
            line = first[later.value, _merges(later)].start_mark.line + 1
            message = f"the key `{later.value}` is set a second time; the first is on line {line}"
            if _merges(later):
                message += "; several mappings are merged as a list: `<<: [*one, *other]`"
            self.faults.append(_fault_at(later, "duplicate-key", message, key=later.value, first_line=line, node=later))

    def _scalar(self, node: ScalarNode) -> Any:
        tag, text = node.tag, node.value
        if tag == "":
            return read_plain(text) if text[:1] in _MAYBE_SPECIAL else text
        if tag == _STRING_TAG:
            return text
        return self._tagged(node)

    def _tagged(self, node: ScalarNode) -> Any:
        """A value with an explicit tag: only the core schema's tags, and only if the text fits."""
        if node.tag == "!":
            return node.value
        if node.tag not in _KNOWN_TAGS:
            return self._refuse_tag(node)
        value = read_plain(node.value)
        kind = node.tag.rpartition(":")[2]
        wanted = {"int": int, "float": (int, float), "bool": bool, "null": type(None)}.get(kind)
        if wanted is None or not isinstance(value, wanted) or (kind != "bool" and isinstance(value, bool)):
            self.faults.append(_fault_at(node, "yaml-syntax", f"`{node.value}` is not {_TAG_WORDS[kind]}"))
        return float(value) if kind == "float" and isinstance(value, int) else value

    def _refuse_tag(self, node: Node) -> None:
        message = f"the tag `{node.tag}` has no meaning here; remove it, or quote the value if it is text"
        self.faults.append(_fault_at(node, "yaml-syntax", message, quote=isinstance(node, ScalarNode)))


def read_plain(text: str) -> Any:
    """The meaning of unquoted text in YAML 1.2's core schema."""
    if text in _WORDS:
        return _WORDS[text]
    if _INTEGER.fullmatch(text):
        # Longer ones are surely no number to count with, and Python refuses to convert them.
        return int(text) if len(text) <= _LONGEST_INTEGER else text
    if len(text) <= _LONGEST_INTEGER and _BASED.fullmatch(text):
        return int(text[2:], 8 if text[1] == "o" else 16)
    if _FLOAT.fullmatch(text):
        return float(text)
    if found := _INFINITY.fullmatch(text):
        return float(f"{found[1]}inf")
    return text


def _complex_key(mapping: MappingNode, key: Node) -> YamlFault:
    if isinstance(key, MappingNode) and key.flow_style and mapping.flow_style:
        message = "a value that starts with `{{` reads as a mapping in YAML; put the whole value in quotes"
        return _fault_at(mapping, "yaml-syntax", message, quote=True)
    return _fault_at(key, "yaml-syntax", "a key must be plain text", quote=True)


def _fault_at(at: Node, code: str, message: str, **details: Any) -> YamlFault:
    return YamlFault(code, message, *_start(at), **details)


def _marked_fault(error: yaml.MarkedYAMLError) -> YamlFault:
    mark = error.problem_mark or error.context_mark
    line, column = (mark.line + 1, mark.column + 1) if mark else (1, 1)
    start = error.context_mark
    opened = (start.line + 1, start.column + 1) if start else None
    return YamlFault(
        "yaml-syntax", str(error.problem), line, column, context=error.context or "", opened=opened, raw=True
    )


def _reader_fault(text: str, error: yaml.reader.ReaderError) -> YamlFault:
    before = text.encode()[: error.position].decode("utf-8", "ignore")  # the parser counts bytes
    character = ord(error.character) if isinstance(error.character, str) else error.character
    message = f"the character U+{character:04X} is not allowed in YAML; in double quotes write it as an escape"
    return YamlFault("yaml-syntax", message, *_end_of(before))


def _find_depth(text: str) -> YamlFault:
    """The place at which a deeply nested document exceeds the limit. Events are read without recursion."""
    message = f"nested more than {MOST_DEPTH} levels deep"
    depth = 0
    parser = CParser(text)
    while parser.check_event():
        event = parser.get_event()
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
            if depth > MOST_DEPTH:
                return YamlFault("too-deep", message, event.start_mark.line + 1, event.start_mark.column + 1)
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
    return YamlFault("too-deep", message, 1, 1)
