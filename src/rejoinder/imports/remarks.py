"""Comments of a YAML file, by the line that they belong to. Each is handed out once."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator

from rejoinder.suite.yaml import Document, split_lines

_MARK = re.compile(r"(?:(?<=[ \t\n\r])|\A)#")


class Remarks:
    """The comments of a document that are not yet handed out."""

    def __init__(self, document: Document) -> None:
        self._lines = split_lines(document.text)
        self._alone: dict[int, str] = {}
        self._beside: dict[int, str] = {}
        for line, column, text in _comments(document):
            found = self._alone if not self._lines[line - 1][:column].strip() else self._beside
            if not text.startswith("yaml-language-server:"):  # it names the schema of another tool
                found[line] = text

    def above(self, line: int) -> list[str]:
        """The comments on the lines directly above, across empty lines."""
        found: list[str] = []
        while line > 1 and (line - 1 in self._alone or not self._lines[line - 2].strip()):
            line -= 1
            found += self._take(self._alone, [line])
        return found[::-1]

    def beside(self, line: int) -> str | None:
        """The comment at the end of a line."""
        return self._beside.pop(line, None)

    def within(self, first: int, last: int) -> list[str]:
        """All comments from one line to another."""
        lines = sorted(line for line in {*self._alone, *self._beside} if first <= line <= last)
        return [text for line in lines for one in (self._alone, self._beside) for text in self._take(one, [line])]

    def rest(self) -> list[str]:
        return self.within(1, len(self._lines))

    @staticmethod
    def _take(found: dict[int, str], lines: Iterable[int]) -> list[str]:
        return [found.pop(line) for line in lines if line in found]


def _comments(document: Document) -> Iterator[tuple[int, int, str]]:
    """Line, column (from 0) and words of every comment."""
    text = document.text
    scalars = document.scalar_places()
    starts = [start for start, _ in scalars]
    breaks = [found.end() for found in re.finditer("\r\n|[\n\r]", text)]
    place = 0
    while found := _MARK.search(text, place):
        at = found.start()
        around = bisect_right(starts, at) - 1
        if around >= 0 and at < scalars[around][1]:
            place = scalars[around][1]
            continue
        line = bisect_right(breaks, at)
        end = re.compile(r"[^\n\r]*").match(text, at)
        place = end.end() if end is not None else len(text)
        yield line + 1, at - (breaks[line - 1] if line else 0), text[at + 1 : place].removeprefix(" ").rstrip()
