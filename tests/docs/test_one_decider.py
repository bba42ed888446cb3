"""Numbers become words in one package, and layouts decide nothing: a second place that does it fails here."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from itertools import pairwise

import pytest

from tests.kit import ROOT

SOURCE = ROOT / "src/rejoinder"
OURS = ("words/", "testing/")
"""The package that says numbers, and fake servers, which write what vendors write."""
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


UNITS = re.compile(r" ?(?:ms|min|h|seconds?|minutes?|hours?)\b| s\b")
SECONDS = re.compile(r"s\b")
"""Behind a number with a format: `{name}s` may be a plural of a name."""
CURRENCY = re.compile(r" ?(?:dollars?|cents?|USD)\b")


def worded(tree: ast.AST) -> Iterator[str]:
    """The kinds of numbers that code puts into words by itself."""
    for node in ast.walk(tree):
        match node:
            case ast.JoinedStr(values=parts):
                yield from _in_text(parts)
            case ast.IfExp() if _is_plural(node):
                yield "plural"
            case ast.BinOp(op=ast.Mod(), left=ast.Constant(value=str(text))):
                yield from _in_template(re.sub(r"%[-+ 0#]*[\d.]*[a-z]", "{}", text).replace("%%", "%"))
            case ast.Call(func=ast.Attribute(attr="format", value=ast.Constant(value=str(text)))):
                yield from ["percent"] * (re.search(r":[^{}]*%}", text) is not None)
                yield from _in_template(re.sub(r"{[^{}]*}", "{}", text))
            case ast.Call(func=ast.Name(id="format"), args=[_, ast.Constant(value=str(text))]) if text.endswith("%"):
                yield "percent"
            case ast.BinOp(op=ast.Add(), left=ast.Constant(value=str(text)), right=ast.Call()) if text.endswith("$"):
                yield "money"
            case ast.BinOp(op=ast.Add(), left=ast.Call(), right=ast.Constant(value=str(text))):
                yield from _behind_number(text, is_number=True)


def _in_template(text: str) -> Iterator[str]:
    """`text` has `{}` in the place of each value."""
    before, *others = text.split("{}")
    for after in others:
        if before.endswith("$"):
            yield "money"
        yield from _behind_number(after, is_number=True)
        before = after


def _behind_number(text: str, *, is_number: bool) -> Iterator[str]:
    if text.startswith("%"):
        yield "percent"
    if UNITS.match(text) or (is_number and SECONDS.match(text)):
        yield "time"
    if CURRENCY.match(text):
        yield "money"


def _in_text(parts: list[ast.expr]) -> Iterator[str]:
    for part in parts:
        if isinstance(part, ast.FormattedValue) and _spec(part).endswith("%"):
            yield "percent"
    for before, after in pairwise(parts):
        if isinstance(before, ast.Constant) and isinstance(after, ast.FormattedValue):
            if str(before.value).endswith("$"):
                yield "money"
        elif isinstance(before, ast.FormattedValue) and isinstance(after, ast.Constant):
            yield from _behind_number(str(after.value), is_number=_spec(before) != "")


def _spec(value: ast.FormattedValue) -> str:
    """The end of a format: `%` of `{rate:.0%}`; empty without one."""
    match value.format_spec:
        case ast.JoinedStr(values=[*_, ast.Constant(value=last)]):
            return str(last)
        case ast.JoinedStr():
            return "?"
        case _:
            return ""


def _is_plural(node: ast.IfExp) -> bool:
    """One of two words by whether a number is one: `reply` or `replies`."""
    match node:
        case ast.IfExp(
            test=ast.Compare(ops=[ast.Eq() | ast.NotEq()], comparators=[ast.Constant(value=1)]),
            body=ast.Constant(value=str(one)),
            orelse=ast.Constant(value=str(other)),
        ):
            return _are_numbers(one, other)
        case ast.IfExp(test=ast.Compare(), body=ast.Constant(value=one), orelse=ast.Constant(value=other)):
            return "s" in (one, other)
        case _:
            return False


def _are_numbers(one: str, other: str) -> bool:
    """Whether two texts are words, or the ends of words."""
    return all(text == "" or text.isalpha() for text in (one, other))


def sources(*folders: str) -> list[tuple[str, ast.AST]]:
    files = sorted(path for folder in folders for path in (SOURCE / folder).rglob("*.py"))
    return [(path.relative_to(SOURCE).as_posix(), ast.parse(path.read_text(encoding="utf-8"))) for path in files]


def test_numbers_become_words_in_one_package() -> None:
    found = {(name, kind) for name, tree in sources("") for kind in worded(tree) if not name.startswith(OURS)}
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
        ("'reply' if n == 1 else 'replies'", "plural"),
        ("'{:.0%}'.format(rate)", "percent"),
        ("format(rate, '.1%')", "percent"),
        ("'%d%%' % rate", "percent"),
        ("'$' + format(cost, '.2f')", "money"),
        ("'$%.2f' % cost", "money"),
        ("f'{cost:.2f} dollars'", "money"),
        ("str(cost) + ' dollars'", "money"),
        ("f'{x:.1f}s'", "time"),
        ("f'{x} seconds'", "time"),
        ("f'took {x} s in all'", "time"),
        ("'took {} s'.format(x)", "time"),
    ],
)
def test_a_planted_second_place_for_words_is_found(text: str, kind: str) -> None:
    assert kind in set(worded(ast.parse(text)))


def read(tree: ast.AST) -> set[str]:
    return {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute) and node.attr in DECIDED}


def test_layouts_ask_views_for_rates_and_verdicts() -> None:
    trees = sources(*LAYOUTS)
    found = {attribute: {name for name, tree in trees if attribute in read(tree)} for attribute in DECIDED}
    assert found == READERS, f"ask {DECIDED}, or delete what no longer reads it"


def test_a_planted_second_decider_is_found() -> None:
    assert read(ast.parse("if summary.no_rate is None and one.net_recovery.verdict: pass")) == {"no_rate", "verdict"}


# Layouts take views


def takes_rates_apart(tree: ast.AST) -> bool:
    return any(isinstance(node, ast.Name) and node.id == "NoRate" for node in ast.walk(tree))


def test_layouts_ask_views_whether_there_is_a_rate() -> None:
    found = {name for name, tree in sources(*LAYOUTS, "exports") if takes_rates_apart(tree)}
    assert found == set(), "ask `rate_of`, `share_of` or `why_no_rate`"
    assert takes_rates_apart(ast.parse("if isinstance(rate, NoRate): pass"))


def has_loose_zip(tree: ast.AST) -> bool:
    """Whether lists of unequal length may be zipped: a row would be lost without a word."""
    return any(
        isinstance(node, ast.keyword) and node.arg == "strict" and ast.unparse(node.value) == "False"
        for node in ast.walk(tree)
    )


def test_layouts_lose_no_row_of_unequal_lists() -> None:
    assert {name for name, tree in sources(*LAYOUTS) if has_loose_zip(tree)} == set()
    assert has_loose_zip(ast.parse("zip(names, rows, strict=False)"))


# Rates


DIVIDERS = ("model/", "stats/", "runs/", "views/")
"""The packages that count and decide."""
SHARES = {
    "exports/ctrf.py",  # the share of a case's trials, which its format has a field for
    "cli/live.py",  # progress
}


def divides_counts(tree: ast.AST) -> bool:
    """Whether code divides numbers of conversations: that would be a rate of its own."""
    counts = {"passed", "finished", "total", "failed", "errors", "decided", "planned"}
    return any(
        isinstance(node, ast.BinOp)
        and isinstance(node.op, ast.Div)
        and any(isinstance(one, ast.Attribute) and one.attr in counts for one in ast.walk(node))
        for node in ast.walk(tree)
    )


def test_rates_are_computed_by_packages_that_count() -> None:
    found = {name for name, tree in sources("") if not name.startswith(DIVIDERS) and divides_counts(tree)}
    assert found == SHARES, "ask `Summary.rate`, or a view"


@pytest.mark.parametrize("text", ["share(summary.passed / summary.finished)", "100 * (row.passed / row.total)"])
def test_a_planted_rate_is_found(text: str) -> None:
    assert divides_counts(ast.parse(text))


# States


STATES = {"running", "killed", "interrupted", "budget", "damaged", "completed"}
STATE_READERS = {
    "cli/judge.py": 1,
    "cli/stop.py": 2,
    "cli/verify.py": 1,
    "engine/execution.py": 2,
    "engine/failed_again.py": 1,
    "engine/run.py": 1,
    "history/index.py": 2,
    "pytest_plugin/running.py": 1,
    "report/comparison.py": 1,
    "report/history.py": 3,
    "report/page/comparison.py": 1,
    "server/api_acts.py": 1,
    "server/api_runs.py": 1,
    "server/folders.py": 1,
    "server/found.py": 2,
    "server/pages/case_page.py": 1,
    "server/pages/compare_page.py": 1,
    "server/pages/desk.py": 3,
    "server/pages/listed.py": 1,
    "server/pages/run_page.py": 1,
}
"""How often files outside of `runs`, `model` and `views` compare a state. A number only falls: a state that is decided
again from others (a run that says running but has no process) is a second decider."""


def compared_states(tree: ast.AST) -> int:
    return sum(isinstance(node, ast.Compare) and _is_of_state(node) for node in ast.walk(tree))


def _is_of_state(node: ast.Compare) -> bool:
    sides = [node.left, *node.comparators]
    is_read = any(isinstance(one, ast.Attribute) and one.attr in ("status", "state", "phase") for one in sides)
    words = {one.value for side in sides for one in ast.walk(side) if isinstance(one, ast.Constant)}
    return is_read and bool(words & STATES)


def test_only_named_files_compare_states_of_runs() -> None:
    others = ("runs/", "model/", "views/", "providers/", "testing/")
    found = {name: compared_states(tree) for name, tree in sources("") if not name.startswith(others)}
    assert {name: count for name, count in found.items() if count} == STATE_READERS
    assert compared_states(ast.parse("state = 'killed' if run.status == 'running' and not busy else run.status")) == 1


def names_lock(tree: ast.AST) -> bool:
    return any(
        (isinstance(node, ast.Name) and node.id == "is_locked")
        or (isinstance(node, ast.Attribute) and node.attr == "is_locked")
        or (isinstance(node, ast.alias) and node.name == "is_locked")
        for node in ast.walk(tree)
    )


def test_only_the_folder_of_a_run_looks_at_its_lock() -> None:
    """`test_only_named_files_look_at_locks` has the callers of the folder."""
    assert {name for name, tree in sources("") if names_lock(tree)} == {"runs/folder.py"}
    assert names_lock(ast.parse("from rejoinder.locks import is_locked"))


def has_exit_code(tree: ast.AST) -> bool:
    """130, of a run that was cut off, is in every table of exit codes of runs."""
    return any(
        isinstance(node, ast.Constant) and type(node.value) is int and node.value == 130 for node in ast.walk(tree)
    )


def test_exit_codes_of_runs_are_one_table() -> None:
    """Beside it, commands end with 130 themselves, and a second Ctrl-C ends the process at once."""
    found = {name for name, tree in sources("") if has_exit_code(tree) and not name.startswith("cli/")}
    assert found == {"runs/state.py", "engine/interrupts.py"}
    assert has_exit_code(ast.parse("{'refused': 2, 'cancelled': 130}"))


# Scripts of pages


def words_numbers(script: str) -> list[str]:
    """What a script would need to put a number into words."""
    return re.findall(r"toFixed|toPrecision|toLocale\w*|Intl\b|Math\.round|['\"]\$['\"]|\$\$\{", script)


def test_scripts_put_no_number_into_words() -> None:
    """Rows and turns have the texts from `rejoinder.words`."""
    scripts = sorted(SOURCE.rglob("*.js"))
    assert {path.name: found for path in scripts if (found := words_numbers(path.read_text(encoding="utf-8")))} == {}
    functions = re.compile(r"\b(?:timeText|costText|outcomeText)\b")
    assert [path.name for path in scripts if functions.search(path.read_text(encoding="utf-8"))] == []


@pytest.mark.parametrize(
    "script", ["'$' + x.toFixed(2)", "'$' + x", "`$${cost}`", "new Intl.NumberFormat()", "Math.round(s) + ' s'"]
)
def test_a_planted_word_of_a_script_is_found(script: str) -> None:
    assert words_numbers(script)
