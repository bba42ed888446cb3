"""The page about agents names all of them, with what the code says of each."""

from __future__ import annotations

import re

import pytest

from rejoinder.providers.agents.kinds import AGENTS
from rejoinder.providers.agents.permissions import TOOL_KINDS, Permissions
from tests.kit import ROOT

PAGE = (ROOT / "docs/guides/agents.md").read_text(encoding="utf-8")
SECTIONS = dict(re.findall(r"^## ([^\n]+)\n(.*?)(?=^## |\Z)", PAGE, re.MULTILINE | re.DOTALL))


def rows(section: str) -> dict[str, list[str]]:
    """The rows of a section's tables by each word in backquotes of their first column."""
    found: dict[str, list[str]] = {}
    for line in re.findall(r"^\| (.*) \|$", SECTIONS[section], re.MULTILINE):
        first, *others = line.split(" | ")
        found |= dict.fromkeys(re.findall(r"`([\w-]+)`", first), others)
    return found


@pytest.mark.parametrize("name", AGENTS)
def test_the_table_of_agents_is_true(name: str) -> None:
    program, _, _, _, goes_on, _ = rows("Which agents there are")[name]
    kind = AGENTS[name]
    assert not kind.command or f"`{' '.join(kind.command)}`" in program
    assert goes_on == ("yes" if kind.can_continue else "no")
    listed = rows("Home, keys and variables").get(name, [""])[0] if kind.keys else ""
    assert set(kind.keys) <= set(re.findall(r"`(\w+)`", listed))


def test_the_table_of_permissions_is_true() -> None:
    written = {kind: row[0] for kind, row in rows("Permissions").items()}
    assert written == {kind: "allow" if Permissions().allows(kind) else "reject" for kind in TOOL_KINDS}
