"""Scripts and styles of the pages, joined in a fixed order.

The files are plain scripts, without `import` and `export`: joined, they share the scope of one function. Pages have
them as they are written, comments included.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable
from functools import cache
from importlib.resources import files

APPLICATION = (
    *("dom.js", "words.js", "text.js", "markdown.js", "read.js", "source.js", "list.js", "grid.js"),
    *("checks.js", "conversation.js", "compare.js", "keys.js", "theme.js", "app.js", "report_source.js"),
)
"""Scripts of the report, in their order. The viewer has its own instead of `report_source.js`."""
STYLES = ("tokens.css", "layout.css", "components.css", "print.css")


def script(names: Iterable[str] = APPLICATION) -> str:
    """Scripts as one, within a function of its own so that no name of it is visible outside."""
    return _script(tuple(names))


def style(names: Iterable[str] = STYLES) -> str:
    return _style(tuple(names))


def digest(content: str) -> str:
    """How a content security policy names a script or a style."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()}'"


@cache
def _script(names: tuple[str, ...]) -> str:
    return f'(() => {{\n"use strict";\n{_joined("script", names)}}})();\n'


@cache
def _style(names: tuple[str, ...]) -> str:
    return _joined("style", names)


def _joined(folder: str, names: tuple[str, ...]) -> str:
    return "\n".join(_read(folder, name) for name in names)


def _read(folder: str, name: str) -> str:
    return (files("rejoinder.report.page") / folder / name).read_text(encoding="utf-8")
