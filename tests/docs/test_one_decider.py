"""Numbers become words in one package, and layouts decide nothing: a second place that does it fails here."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from itertools import pairwise

import pytest

from tests.kit import ROOT

SOURCE = ROOT / "src/rejoinder"
WORDS = "words"
"""The package that says numbers."""
ALLOWED = {
    ("checks/json_checks.py", "money"),  # `$` begins a JSON path
    ("report/page/charts.py", "percent"),  # the labels of an axis
}
LAYOUTS = ("report", "server/pages")
DECIDED = {
    "verdict": "model.boards.verdict_of",
    "no_rate": "views.board.share_of",
    "pass_rate": "Summary.rate",
}
"""Attributes that layouts do not read, and who answers instead."""
READERS = {
    "no_rate": {"report/ending.py", "report/history.py", "report/page/overview.py"},
    "pass_rate": {"report/github.py"},
    "verdict": {
        "report/card.py",
        "report/comparison.py",
        "report/gate.py",
        "report/github.py",
        "report/markdown.py",
        "report/page/board.py",
        "report/page/comparison.py",
        "report/run_tables.py",
        "server/pages/runs_page.py",
    },
}
"""The layouts that may read them: a role for a verdict of a view, and verdicts of comparisons and gates."""


def worded(tree: ast.AST) -> Iterator[str]:
    """The kinds of numbers that code puts into words by itself."""
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            yield from _in_text(node.values)
        if isinstance(node, ast.IfExp) and _is_plural(node):
            yield "plural"


def _in_text(parts: list[ast.expr]) -> Iterator[str]:
    for part in parts:
        if isinstance(part, ast.FormattedValue) and isinstance(part.format_spec, ast.JoinedStr):
            spec = part.format_spec.values[-1:]
            if any(isinstance(one, ast.Constant) and str(one.value).endswith("%") for one in spec):
                yield "percent"
    for before, after in pairwise(parts):
        if isinstance(before, ast.Constant) and isinstance(after, ast.FormattedValue):
            if str(before.value).endswith("$"):
                yield "money"
        elif isinstance(before, ast.FormattedValue) and isinstance(after, ast.Constant):
            text = str(after.value)
            if text.startswith("%"):
                yield "percent"
            if text.startswith((" ms", " min ", " h ")) or text in (" s", " min"):
                yield "time"


def _is_plural(node: ast.IfExp) -> bool:
    ends = [one.value for one in (node.body, node.orelse) if isinstance(one, ast.Constant)]
    return "s" in ends and isinstance(node.test, ast.Compare)


def sources(*folders: str) -> list[tuple[str, ast.AST]]:
    files = sorted(path for folder in folders for path in (SOURCE / folder).rglob("*.py"))
    return [(path.relative_to(SOURCE).as_posix(), ast.parse(path.read_text(encoding="utf-8"))) for path in files]


def test_numbers_become_words_in_one_package() -> None:
    found = {(name, kind) for name, tree in sources("") for kind in worded(tree) if not name.startswith(f"{WORDS}/")}
    assert found - ALLOWED == set(), "use or add a function of `rejoinder.words`"
    assert found >= ALLOWED, "delete what no longer exists"


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ('f"{rate:.0%}"', "percent"),
        ('f"{100 * rate:.1f}% passed"', "percent"),
        ('f"costs ${cost:.2f}"', "money"),
        ('f"{seconds:.1f} s"', "time"),
        ('f"{minutes} min {seconds} s"', "time"),
        ("f\"{n} case{'s' if n != 1 else ''}\"", "plural"),
    ],
)
def test_a_planted_second_place_is_found(text: str, kind: str) -> None:
    assert kind in set(worded(ast.parse(text)))


def read(tree: ast.AST) -> set[str]:
    return {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute) and node.attr in DECIDED}


def test_layouts_ask_views_for_rates_and_verdicts() -> None:
    trees = sources(*LAYOUTS)
    found = {attribute: {name for name, tree in trees if attribute in read(tree)} for attribute in DECIDED}
    assert found == READERS, f"ask {DECIDED}, or delete what no longer reads it"


def test_a_planted_second_decider_is_found() -> None:
    assert read(ast.parse("if summary.no_rate is None and one.net_recovery.verdict: pass")) == {"no_rate", "verdict"}
