"""Section headers in a judge's prompt: where a text holds what may be taken for one, and how it is made harmless."""

from __future__ import annotations

import re
from itertools import pairwise

_BREAKS = "\n\r\v\f\x1c\x1d\x1e\x85\u2028\u2029"
"""Characters that some reader takes for the end of a line."""
_BLANKS = "\u115f\u1160\u2800\u3164\uffa0"
"""Letters and signs that are invisible."""
_UNSEEN = frozenset(("Cc", "Cf", "Cn", "Co", "Cs", "Zl", "Zp", "Zs", "Mn", "Me"))
"""The categories of characters that are invisible, or that only sit on others."""
_HINT = re.compile(r"\[[^!-~]*+\[[^!-~]*+#[^!-~]*+#")
"""How the beginning of a header may look, with anything but the signs and letters of ASCII in between."""
_SECTION_LINE = re.compile(r"^ *+(\[ *+\[ *+# *+#[^\n]+?# *+# *+\] *+\])", re.MULTILINE)
"""A header at the beginning of a line, in a text in which everything invisible is a blank.

The text is hostile: nothing in here may be tried in two ways, or a reply of blanks would take hours to look through.
"""


class _Seen(dict[int, str]):
    """Characters as a reader, human or not, may take them: the end of a line, a blank, or what they are. Controls,
    separators, marks on other characters, and what Unicode has not (or not yet) given a look are as good as blanks."""

    def __missing__(self, code: int) -> str:
        import unicodedata

        character = chr(code)
        if character in _BREAKS:
            seen = "\n"
        elif character in _BLANKS or unicodedata.category(character) in _UNSEEN:
            seen = " "
        else:
            seen = character
        self[code] = seen
        return seen


_SEEN = _Seen()


def find_headers(text: str) -> list[int]:
    """Where in a text something begins that may be taken for the header of a section."""
    if _HINT.search(text) is None:
        return []
    return [line.start(1) for line in _SECTION_LINE.finditer(text.translate(_SEEN))]


def escape_headers(text: str, places: list[int]) -> str:
    """The text with a backslash at each of the places."""
    cuts = [0, *places, len(text)]
    return "\\".join(text[start:end] for start, end in pairwise(cuts))
