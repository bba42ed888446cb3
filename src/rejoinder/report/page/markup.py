"""HTML and SVG as values. Every text of others is escaped here, and nowhere else is HTML put together.

`element` takes texts and further `Markup`: a text is always shown as text. Names of elements and attributes are ours,
so one that could run something is a mistake of ours and raises. What would be obeyed instead of seen (controls,
characters that turn the direction of writing, halves of characters) becomes visible as `\\u202e`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import TypeAlias
from urllib.parse import quote

from msgspec import Struct

from rejoinder.words.inert import visible


class Markup(Struct, frozen=True, gc=False):
    """HTML that is safe to write as it is."""

    html: str

    def __str__(self) -> str:
        return self.html


Value: TypeAlias = str | int | float | bool | None
"""Of an attribute. True is an attribute without a value; False and None leave it out."""
Child: TypeAlias = "Markup | str | int | Iterable[Child] | None"

NOTHING = Markup("")
_VOID = frozenset({"meta", "link", "br", "hr", "input"})
_VERBATIM = frozenset({"script", "style"})
_NAME = re.compile(r"[a-zA-Z][a-zA-Z0-9]*(?:-[a-z0-9]+)*")
_RUNS = re.compile(r"on.*|style|srcdoc|srcset|formaction|action|ping", re.IGNORECASE)
"""Attributes that run something, that the policy refuses, or that send something."""
_ADDRESSES = frozenset({"href", "src"})
_OWN_ADDRESS = re.compile(r"[#?]|/(?!/)|[\w.%~-]+(?:[/?#]|$)|$", re.ASCII)
"""A place in this page or on this server: never another one, and never `javascript:`."""
_ESCAPED = {"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&#39;"}
_TO_ESCAPE = re.compile("[&<>\"']")


def escaped(text: str) -> str:
    """A text in HTML, between tags or in the quotes of an attribute."""
    return _TO_ESCAPE.sub(lambda found: _ESCAPED[found[0]], visible(text).replace("\r", "\n"))


def text(words: str) -> Markup:
    return Markup(escaped(words))


def sentence(words: str) -> Markup:
    """A sentence that terminals show, too: what stands in backticks there is code here."""
    parts = words.split("`")
    if len(parts) % 2 == 0:
        return text(words)  # one of them has no other
    return joined(element("code", None, part) if place % 2 else part for place, part in enumerate(parts))


def element(tag: str, attributes: Mapping[str, Value] | None = None, /, *children: Child) -> Markup:
    """One element. Children are markup, texts, numbers, or lists of them; None is nothing."""
    if tag in _VERBATIM:
        raise ValueError(f"<{tag}> is written by `verbatim`")
    start = _start(tag, attributes)
    if tag in _VOID:
        return Markup(start)
    return Markup(f"{start}{joined(children)}</{tag}>")


def table(kind: str | None, heads: Iterable[Child], rows: Child) -> Markup:
    """A table with a head for each column; an empty one is a cell. `rows`: elements `tr`. `kind`: its classes."""
    columns = [element("th", {"scope": "col", "dir": "auto"}, head) if head else element("td") for head in heads]
    head, body = element("thead", None, element("tr", None, columns)), element("tbody", None, rows)
    return element("table", {"class": kind}, head, body)


def joined(children: Child) -> Markup:
    """Children one after the other."""
    return Markup("".join(_pieces(children)))


def verbatim(tag: str, attributes: Mapping[str, Value] | None, content: str) -> Markup:
    """A script, a style or a block of data, which browsers read to the next end tag. Raises ValueError for content that
    would end before."""
    if tag not in _VERBATIM:
        raise ValueError(f"<{tag}> is written by `element`")
    if re.search(r"<!--|<script|</(?:script|style)", content, re.IGNORECASE):
        raise ValueError(f"the content of <{tag}> would end it")
    return Markup(f"{_start(tag, attributes)}{content}</{tag}>")


def address(*parts: str) -> str:
    """Names as parts of an address, each of them one part whatever is in it; `decodeURIComponent` gives it back."""
    return "/".join(quote(part.encode("utf-8", "replace"), safe="") for part in parts)


def _start(tag: str, attributes: Mapping[str, Value] | None) -> str:
    if not _NAME.fullmatch(tag):
        raise ValueError(f"`{tag}` is not the name of an element")
    return f"<{tag}{''.join(_attribute(name, value) for name, value in (attributes or {}).items())}>"


def _attribute(name: str, value: Value) -> str:
    if not _NAME.fullmatch(name) or _RUNS.fullmatch(name):
        raise ValueError(f"`{name}` is not an attribute of our pages")
    if value is None or value is False:
        return ""
    if value is True:
        return f" {name}"
    if name in _ADDRESSES and not _OWN_ADDRESS.match(str(value)):
        raise ValueError(f"{name} leads away from the page")
    return f' {name}="{escaped(str(value))}"'


def _pieces(child: Child) -> Iterable[str]:
    if child is None:
        return
    if isinstance(child, Markup):
        yield child.html
    elif isinstance(child, str):
        yield escaped(child)
    elif isinstance(child, int):
        yield str(child)
    else:
        for one in child:
            yield from _pieces(one)
