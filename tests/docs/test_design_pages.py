"""The design pages name files and functions that exist."""

from __future__ import annotations

import re
from importlib import import_module
from pathlib import Path

import pytest

from tests.kit import ROOT

PAGES = sorted((ROOT / "docs" / "design").glob("*.md"))
PLACES = ("src", "tests", "scripts", "benchmarks")
PACKAGES = {path.stem for path in (ROOT / "src" / "rejoinder").iterdir() if not path.name.startswith(("_", "."))}
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


@every_page
def test_files_that_a_page_names_exist(page: Path) -> None:
    named = re.findall(r"[\w/.]*\w\.py\b", page.read_text(encoding="utf-8"))
    missing = [name for name in named if not any(f"/{file}".endswith(f"/{name}") for file in FILES)]
    assert missing == []


@every_page
def test_functions_that_a_page_names_exist(page: Path) -> None:
    dotted = re.findall(r"`(\w+(?:\.\w+)+)(?:\(\))?`", page.read_text(encoding="utf-8"))
    named = [name for name in dotted if name.partition(".")[0] in PACKAGES and not name.endswith((".py", ".json"))]
    assert [name for name in named if not exists(name)] == []


def test_the_architecture_page_shows_every_package() -> None:
    text = (ROOT / "docs" / "design" / "architecture.md").read_text(encoding="utf-8")
    packages = text.partition("## Packages")[2].partition("\n## ")[0]
    missing = [
        name for name in PACKAGES - {"py", "starter"} if f"`{name}/`" not in packages and f"`{name}.py`" not in packages
    ]
    assert missing == []


def beginnings() -> dict[str, list[str]]:
    """The names in the last column of the table of packages."""
    text = (ROOT / "docs" / "design" / "architecture.md").read_text(encoding="utf-8")
    packages = text.partition("## Packages")[2].partition("\n## ")[0]
    rows = [line.strip("|").split("|") for line in packages.splitlines() if line.startswith("| `")]
    return {row[0].strip(): re.findall(r"`([\w.]+)`", row[-1]) for row in rows}


def test_the_architecture_page_names_places_to_begin_that_exist() -> None:
    found = beginnings()
    names = [name for named in found.values() for name in named if name not in ("rejoinder", "view")]
    assert [name for name in names if name.partition(".")[0] not in PACKAGES or not exists(name)] == []
    elsewhere = [(package, name) for package, named in found.items() for name in named if "." in name]
    assert [one for one in elsewhere if not one[0].startswith(f"`{one[1].partition('.')[0]}/")] == []


def test_only_named_packages_list_names() -> None:
    text = (ROOT / "docs" / "design" / "architecture.md").read_text(encoding="utf-8")
    said = re.search(r"^Only (`.*) list names", text, re.MULTILINE)
    assert said is not None
    files = sorted((ROOT / "src" / "rejoinder").glob("*/__init__.py"))
    listing = [
        path.parent.name for path in files if re.search(r"\bas (\w+)$|import \*$", path.read_text(), re.MULTILINE)
    ]
    assert [name.rpartition(".")[2] for name in re.findall(r"`([\w.]+)`", said[1])] == ["rejoinder", *listing]
