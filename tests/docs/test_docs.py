"""Every example of README and docs is run, and its output is what the page says."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from rejoinder.errors import CODES
from rejoinder.suite.schema import schema_for
from tests.documentation import ROOT, follow, pages


@pytest.mark.slow
@pytest.mark.spec("R69")
@pytest.mark.parametrize("page", pages(), ids=lambda page: str(page.relative_to(ROOT)))
def test_examples_are_true(page: Path) -> None:
    assert follow(page) == page.read_text(encoding="utf-8"), "run `make docs` and read what changed"


def test_the_gallery_shows_every_code() -> None:
    text = (ROOT / "docs/reference/errors.md").read_text(encoding="utf-8")
    shown = {code for code in CODES if re.search(rf"^## {code}$", text, re.MULTILINE)}
    printed = set(re.findall(r"^(?:error|warning)\[([\w-]+)\]", text, re.MULTILINE))
    assert shown == set(CODES)
    assert printed == set(CODES)


def test_links_between_pages_lead_somewhere() -> None:
    for page in pages():
        for link, heading in re.findall(r"\]\((?!https?:)([^)#]*)(?:#([^)]*))?\)", page.read_text(encoding="utf-8")):
            linked = page.parent / link if link else page
            assert linked.exists(), f"{page.name} links to {link}"
            assert not heading or heading in headings(linked), f"{page.name} links to {link}#{heading}"


def test_the_index_lists_every_page_once() -> None:
    """Pages of checks have an index of their own."""
    index = ROOT / "docs" / "README.md"
    links = re.findall(r"\]\((?!https?:)([^)#]+)\)", index.read_text(encoding="utf-8"))
    listed = [(index.parent / link).resolve() for link in links if not link.startswith("..")]
    checks = {page for page in (ROOT / "docs/reference/checks").glob("*.md") if page.name != "README.md"}
    assert sorted(listed) == sorted(set(pages()) - checks - {index, ROOT / "README.md"})


@cache
def headings(page: Path) -> set[str]:
    """The headings of a page as addresses name them."""
    titles = re.findall(r"^#+ (.*)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", title).strip().lower().replace(" ", "-") for title in titles}


def test_every_key_of_the_schema_is_described() -> None:
    def walk(node: object, path: str) -> list[str]:
        missing: list[str] = []
        if isinstance(node, dict):
            for name, rule in (
                (node.get("properties") or {}).items() if isinstance(node.get("properties"), dict) else ()
            ):
                described = rule is True or "description" in rule or ("$ref" in rule and described_ref(rule["$ref"]))
                conditional = "/if/" in path or path.endswith("/if")
                if not described and not conditional:
                    missing.append(f"{path}/{name}")
            for key, value in node.items():
                missing += walk(value, f"{path}/{key}")
        elif isinstance(node, list):
            for position, value in enumerate(node):
                missing += walk(value, f"{path}/{position}")
        return missing

    schema = schema_for("suite")

    def described_ref(reference: str) -> bool:
        found: Any = schema
        for step in reference.removeprefix("#/").split("/"):
            found = found[step]
        return "description" in found or ("$ref" in found and described_ref(found["$ref"]))

    assert walk(schema, "") == []


def test_the_glossary_has_the_words_of_the_recovery_table() -> None:
    _, plain = (ROOT / "tests/goldens/ending-repeats.txt").read_text(encoding="utf-8").split("=== plain\n")
    words = re.findall(r"^([a-z -]+): (?:\d|too few)", plain, re.MULTILINE)
    assert set(words) == {"first try", "final pass rate", "follow-ups fixed", "asking again fixed", "net recovery"}
    text = (ROOT / "docs/reference/glossary.md").read_text(encoding="utf-8")
    known = {word for row in re.findall(r"^\| (.+?) \|", text, re.MULTILINE) for word in row.split(", ")}
    assert set(words) <= known


def test_pages_for_users_are_in_plain_words() -> None:
    """Words that readers stumbled over; pages about the code may have them."""
    peculiar = re.compile(r"\b(anew|nobody|somebody|whoever|so many|in earnest|in silence)\b")
    for page in pages():
        prose = re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
        assert page.parent.name == "design" or not peculiar.findall(prose), page.name


@pytest.mark.spec("R44")
def test_the_token_savings_of_toon_are_documented_as_measured() -> None:
    """The page has a row for each conversation that the benchmark measures."""
    page = (ROOT / "docs/reference/formatting.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| ([^|]+?) \| (\d+) \| (\d+) \| (\d+) \| ([\d.]+)% less \|$", page, re.MULTILINE)
    benchmark = (ROOT / "benchmarks" / "toon_tokens.py").read_text(encoding="utf-8")
    assert len(rows) == 4
    for name, json_tokens, _, toon_tokens, saving in rows:
        assert name in benchmark
        assert float(saving) == round(100 * (1 - int(toon_tokens) / int(json_tokens)), 1)


def test_the_page_about_other_tools_promises_nothing() -> None:
    """What rejoinder lacks is said plainly: a sentence with "yet" is wrong as soon as somebody has written it."""
    text = (ROOT / "docs/guides/others.md").read_text("utf-8")
    assert not re.findall(r"[^.]*\byet\b[^.]*\.", text)
    for page in ("viewer.md", "report.md", "tools.md"):
        assert f"({page})" in text
