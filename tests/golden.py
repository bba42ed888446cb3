"""Screens as they are to be, in `tests/goldens/NAME.txt`: the lines at 60, 100 and 120 columns and as plain text.

A piece whose role is not `text` stands in guillemets behind the name of its role: `«fail ✗» 2 failed`. So a change of
colours changes no file. To write the files anew, read the difference before you commit it:

    REJOINDER_GOLDENS=write .venv/bin/python -m pytest tests/report/test_screens.py
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable
from itertools import groupby
from pathlib import Path

from rejoinder.report.styled import PLAIN, Form, Line

FOLDER = Path(__file__).parent / "goldens"
FORMS = {
    **{f"{width} columns": Form(width, symbols=True, commands=True) for width in (60, 100, 120)},
    "plain": PLAIN,
}
_ROLE = re.compile("«[a-z]+ (.*?)»", re.DOTALL)


def written(lines: Iterable[Line]) -> str:
    return "".join(f"{_with_roles(line).rstrip()}\n" for line in lines)


def _with_roles(line: Line) -> str:
    parts = [("".join(piece.text for piece in run), role) for role, run in groupby(line, key=lambda piece: piece.role)]
    return "".join(text if role == "text" or not text else f"«{role} {text}»" for text, role in parts)


def text_of(marked: str) -> str:
    return "\n".join(line.rstrip() for line in _ROLE.sub(r"\1", marked).split("\n"))


def check_golden(name: str, write: Callable[[Form], Iterable[Line]]) -> None:
    """Is a screen as it is stored? Words are compared first, roles only where the words are the same."""
    shown = "\n".join(f"=== {title}\n{written(write(form))}" for title, form in FORMS.items())
    path = FOLDER / f"{name}.txt"
    if os.environ.get("REJOINDER_GOLDENS") == "write":
        path.parent.mkdir(exist_ok=True)
        path.write_text(shown, encoding="utf-8")
    stored = path.read_text(encoding="utf-8")
    assert text_of(shown).split("\n") == text_of(stored).split("\n")
    assert shown.split("\n") == stored.split("\n")
