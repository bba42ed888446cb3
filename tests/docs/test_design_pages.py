"""The design pages name files and functions that exist."""

from __future__ import annotations

import re
from importlib import import_module
from pathlib import Path

import pytest

from tests.kit import ROOT

PAGES = sorted((ROOT / "docs" / "design").glob("*.md"))
PLACES = ("src", "tests", "scripts", "benchmarks")
ROOMS = {path.stem for path in (ROOT / "src" / "rejoinder").iterdir() if not path.name.startswith(("_", "."))}
FILES = [path.relative_to(ROOT).as_posix() for place in PLACES for path in (ROOT / place).rglob("*.py")]
every_page = pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)


def exists(name: str) -> bool:
    """Does a dotted name below `rejoinder` lead to a module, or to something in one?"""
    parts = name.split(".")
    for length in range(len(parts), 0, -1):
        try:
            found: object = import_module(".".join(["rejoinder", *parts[:length]]))
        except ModuleNotFoundError:
            continue
        for part in parts[length:]:
            if not hasattr(found, part):
                return False
            found = getattr(found, part)
        return True
    return False


def words_of(page: Path) -> str:
    """The text of a page without its table of numbers, which also names files of the past."""
    return page.read_text(encoding="utf-8").partition("<!-- count_code -->")[0]


@every_page
def test_files_that_a_page_names_exist(page: Path) -> None:
    named = re.findall(r"[\w/.]*\w\.py\b", words_of(page))
    missing = [name for name in named if not any(f"/{file}".endswith(f"/{name}") for file in FILES)]
    assert missing == []


@every_page
def test_functions_that_a_page_names_exist(page: Path) -> None:
    dotted = re.findall(r"`(\w+(?:\.\w+)+)(?:\(\))?`", words_of(page))
    named = [name for name in dotted if name.partition(".")[0] in ROOMS and not name.endswith((".py", ".json"))]
    assert [name for name in named if not exists(name)] == []


def test_the_page_about_the_house_shows_every_room() -> None:
    text = (ROOT / "docs" / "design" / "house.md").read_text(encoding="utf-8")
    rooms = text.partition("## Rooms")[2].partition("\n## ")[0]
    missing = [room for room in ROOMS - {"py", "starter"} if f"`{room}/`" not in rooms and f"`{room}.py`" not in rooms]
    assert missing == []
