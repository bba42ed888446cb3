"""An HTML report, read as a browser would: its elements, its index and its conversations."""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Iterable
from html.parser import HTMLParser
from typing import Any, NamedTuple

Raw = dict[str, Any]


class Tag(NamedTuple):
    name: str
    attributes: dict[str, str | None]


class HtmlFile(HTMLParser):
    """The elements of a page in their order, and the text of each."""

    def __init__(self, pieces: str | Iterable[str]) -> None:
        super().__init__(convert_charrefs=True)
        self.text = pieces if isinstance(pieces, str) else "".join(pieces)
        self.tags: list[Tag] = []
        self.odd: list[str] = []
        """Comments and declarations, of which there is one: the doctype."""
        self._open: list[tuple[str, list[str]]] = []
        self.texts: list[tuple[Tag, str]] = []
        self._tags: list[Tag] = []
        self.feed(self.text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = Tag(tag, dict(attrs))
        self.tags.append(found)
        if tag not in ("meta", "link", "br", "hr", "input"):
            self._tags.append(found)
            self._open.append((tag, []))

    def handle_endtag(self, tag: str) -> None:
        name, words = self._open.pop()
        assert name == tag, f"<{name}> is ended by </{tag}>"
        self.texts.append((self._tags.pop(), "".join(words)))

    def handle_data(self, data: str) -> None:
        for _, words in self._open:
            words.append(data)

    def handle_comment(self, data: str) -> None:
        self.odd.append(data)

    def handle_decl(self, decl: str) -> None:
        self.odd.append(decl)

    def handle_pi(self, data: str) -> None:
        self.odd.append(data)

    def unknown_decl(self, data: str) -> None:
        self.odd.append(data)

    def of(self, name: str, **attributes: str) -> list[str]:
        """The texts of elements with this name and these attributes; `class_` is one of the classes."""
        wanted = {key.rstrip("_"): value for key, value in attributes.items()}
        return [text for tag, text in self.texts if tag.name == name and _has(tag, wanted)]

    def links(self) -> list[str]:
        return [str(tag.attributes["href"]) for tag in self.tags if "href" in tag.attributes]

    def unpacked(self, name: str) -> Any:
        [packed] = self.of("script", id=name)
        return json.loads(zlib.decompress(base64.b64decode(packed), -15))

    @property
    def index(self) -> Raw:
        return self.unpacked("index")

    @property
    def blocks(self) -> list[list[Any]]:
        names = [str(tag.attributes["id"]) for tag in self.tags if tag.name == "script" and "id" in tag.attributes]
        return [self.unpacked(name) for name in names if name != "index"]

    @property
    def bodies(self) -> list[Any]:
        return [body for block in self.blocks for body in block]

    @property
    def policy(self) -> str:
        [found] = [tag for tag in self.tags if "http-equiv" in tag.attributes]
        return str(found.attributes["content"])


def _has(tag: Tag, wanted: dict[str, str]) -> bool:
    return all(
        value in str(tag.attributes.get(name) or "").split() if name == "class" else tag.attributes.get(name) == value
        for name, value in wanted.items()
    )
