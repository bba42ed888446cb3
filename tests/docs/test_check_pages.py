"""Every check has a page that shows it at work, shows a mistake, and tells all of its options.

That the examples are true is for `test_docs.py`; here it is asked whether they are there.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rejoinder.suite.schema import schema_for
from tests.documentation import ROOT, consoles

SCHEMA = schema_for("suite")
ITEM = SCHEMA["$defs"]["checkItem"]["properties"]
CHECKS = [name for name, rule in ITEM.items() if rule.get("x-check")]
FOLDER = ROOT / "docs/reference/checks"
every_check = pytest.mark.parametrize("name", CHECKS)


def page_of(name: str) -> Path:
    return FOLDER / f"{name}.md"


def options(rule: dict[str, Any]) -> Iterator[str]:
    """The keys that a check's value may have, at any depth; checks inside have pages of their own."""
    reference = rule.get("$ref", "").rpartition("/")[2]
    if reference in ("checkItem", "checkList"):
        return
    rule = SCHEMA["$defs"][reference] if reference else rule
    for name, inner in rule.get("properties", {}).items():
        yield name
        yield from options(inner)
    if "items" in rule:
        yield from options(rule["items"])


def in_tables(page: Path) -> set[str]:
    """The words in backquotes that stand in the first column of a table."""
    rows = re.findall(r"^\| (`[^|]*) \|", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {word for row in rows for word in re.findall(r"`(\w+)", row)}


def output_of(page: Path, command: str) -> str:
    """What the page says that a command prints, in all blocks that begin with it."""
    return "\n".join(block for block in consoles(page) if block.startswith(f"$ rejoinder {command}"))


@pytest.mark.spec("R69")
def test_each_check_has_a_page_and_each_page_a_check() -> None:
    assert {page.stem for page in FOLDER.glob("*.md")} - {"README"} == set(CHECKS)


@pytest.mark.spec("R69")
@every_check
def test_a_page_shows_its_check_pass_or_fail(name: str) -> None:
    shown = output_of(page_of(name), "run")
    assert re.search(rf"(PASS|FAIL) {name}\b", shown), "an executed `rejoinder run` has to show a verdict of this check"


@pytest.mark.spec("R69")
@every_check
def test_a_page_shows_what_a_mistake_looks_like(name: str) -> None:
    shown = output_of(page_of(name), "validate")
    assert re.search(rf"^error\[[\w-]+\].*\n(?:.*\n)*?.*\b{name}\b", shown, re.MULTILINE)


@every_check
def test_a_page_tells_all_options(name: str) -> None:
    wanted = set(options(ITEM[name])) or {name}
    assert wanted - in_tables(page_of(name)) == set()


@every_check
def test_a_check_is_found_from_the_index_and_from_the_page_about_suites(name: str) -> None:
    assert f"[`{name}`]({name}.md)" in (FOLDER / "README.md").read_text(encoding="utf-8")
    assert f"[`{name}`](../reference/checks/{name}.md)" in (ROOT / "docs/start/suites.md").read_text(encoding="utf-8")


def test_the_index_tells_what_may_stand_beside_a_check() -> None:
    beside = set(ITEM) - set(CHECKS) - {"with"}  # which is an option of `check` alone
    assert beside - in_tables(FOLDER / "README.md") == set()
