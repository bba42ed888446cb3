"""Numbers become words in one package, and layouts decide nothing: a second place that does it fails here."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from functools import cache
from itertools import pairwise
from typing import NamedTuple

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
        "report/ending.py",
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


PERCENT = re.compile(r" ?%(?!})")
"""`%}` ends a tag of a template."""
UNITS = re.compile(r" ?(?:ms|mins?|h|secs?|seconds?|minutes?|hours?)\b| s\b")
SECONDS = re.compile(r"s\b")
"""Behind a number with a format: `{name}s` may be a plural of a name."""
CLOCK = re.compile(r"#[hm] ?#[ms]\b|#:0#")
"""Values as `#`: `{m}m {s}s`, and `0#` for one that is filled up with zeros: `{m}:{s:02}`."""
CURRENCY = re.compile(r" ?(?:dollars?|cents?|USD)\b| \$(?![\w{.(])", re.IGNORECASE)
BEFORE = re.compile(r"\$$|(?<![-\w])USD ?$", re.IGNORECASE)


def worded(tree: ast.AST) -> Iterator[str]:
    """The kinds of numbers that code puts into words by itself."""
    for node in ast.walk(tree):
        match node:
            case ast.JoinedStr() | ast.BinOp(op=ast.Add()):
                yield from _in_parts(_parts(node))
            case ast.IfExp() if _is_plural(node):
                yield "plural"
            case ast.BinOp(op=ast.Mult(), left=ast.Constant(value="s"), right=ast.Compare()):
                yield "plural"
            case ast.BinOp(op=ast.Mod(), left=ast.Constant(value=str(text))):
                yield from _in_template(re.sub(r"%[-+ 0#]*[\d.]*[a-z]", "{}", text).replace("%%", "%"))
            case ast.Call(func=ast.Attribute(attr="format", value=ast.Constant(value=str(text)))):
                yield from ["percent"] * (re.search(r":[^{}]*%}", text) is not None)
                yield from _in_template(re.sub(r"{[^{}]*}", "{}", text))
            case ast.Call(func=ast.Name(id="format"), args=[_, ast.Constant(value=str(text))]) if text.endswith("%"):
                yield "percent"
            case _:
                pass


class Value(NamedTuple):
    """A value in a text."""

    format: str = ""
    """The end of its format: `%` of `{rate:.0%}`; empty without one."""


def _parts(node: ast.expr) -> list[str | Value]:
    """The texts and values of an f-string, or of what is added up."""
    match node:
        case ast.JoinedStr(values=parts):
            return [part for one in parts for part in _parts(one)]
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            return [*_parts(left), *_parts(right)]
        case ast.Constant(value=str(text)):
            return [text]
        case ast.FormattedValue():
            return [Value(_spec(node))]
        case ast.Call():
            return [Value("?")]
        case _:
            return [Value()]


def _in_parts(parts: list[str | Value]) -> Iterator[str]:
    yield from ("percent" for part in parts if isinstance(part, Value) and part.format.endswith("%"))
    for before, after in pairwise(parts):
        if isinstance(before, str) and isinstance(after, Value) and BEFORE.search(before):
            yield "money"
        if isinstance(before, Value) and isinstance(after, str):
            yield from _behind_number(after, is_number=before.format != "")
    if CLOCK.search("".join(map(_pattern, parts))):
        yield "time"


def _pattern(part: str | Value) -> str:
    if isinstance(part, str):
        return part.replace("#", "")
    return "0#" if part.format in ("02", "02d") else "#"


def _in_template(text: str) -> Iterator[str]:
    """`text` has `{}` in the place of each value."""
    first, *others = text.split("{}")
    yield from _in_parts([first, *(part for text in others for part in (Value("?"), text))])


def _behind_number(text: str, *, is_number: bool) -> Iterator[str]:
    if PERCENT.match(text):
        yield "percent"
    if UNITS.match(text) or (is_number and SECONDS.match(text)):
        yield "time"
    if CURRENCY.match(text):
        yield "money"


def _spec(value: ast.FormattedValue) -> str:
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


@cache
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
        ("'$' + f'{x:.2f}'", "money"),
        ("f'{x:.2f}' + '%'", "percent"),
        ("f'{x:.2f}' + ' s'", "time"),
        ("'took ' + name + ' s'", "time"),
        ("amount + ' dollars'", "money"),
        ("'$' + amount", "money"),
        ("f'{m}m {s}s'", "time"),
        ("f'{r} %'", "percent"),
        ("f'{c} usd'", "money"),
        ("f'USD {x}'", "money"),
        ("f'{x:.1f} sec'", "time"),
        ("f'{m}:{s:02}'", "time"),
        ("f'{cost} $'", "money"),
        ("f'{n} case' + 's' * (n != 1)", "plural"),
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
    return any(name in ("NoRate", "because") for name in _names_in(tree)) or _imports_of(tree, "NoRate")


def _imports_of(tree: ast.AST, name: str) -> bool:
    return any(isinstance(node, ast.alias) and node.name.rpartition(".")[2] == name for node in ast.walk(tree))


def test_layouts_ask_views_whether_there_is_a_rate() -> None:
    found = {name for name, tree in sources(*LAYOUTS, "exports") if takes_rates_apart(tree)}
    assert found == set(), "ask `rate_of`, `share_of` or `why_no_rate`"


@pytest.mark.parametrize(
    "text",
    [
        "if isinstance(rate, NoRate): pass",
        "isinstance(rate, figures.NoRate)",
        "from rejoinder.model.figures import NoRate as Nothing",
        "if rate.because == 'errors': pass",
    ],
)
def test_a_planted_look_at_a_missing_rate_is_found(text: str) -> None:
    assert takes_rates_apart(ast.parse(text))


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


DIVIDERS = ("model/", "stats/", "runs/", "views/", "bench/")
"""The packages that count and decide; published benchmarks have figures of their own."""
SHARES = {
    "cli/live.py",  # progress
    "report/page/marks.py",  # the widths of a bar's parts
    "words/figures.py",  # whether counts beside a rate are those of the rate
}


COUNTS = {"passed", "finished", "total", "failed", "errors", "decided", "planned"}
LISTS = {"results", "cases", "trials", "rows", "conversations"}
MEANS = {"mean", "fmean", "average"}


def divides_counts(tree: ast.AST) -> bool:
    """Whether code divides numbers of conversations: that would be a rate of its own."""
    return any(
        _divides(node) and (COUNTS & set(_names_in(node)) or _is_by_length(node)) for node in ast.walk(tree)
    ) or any(map(_is_mean, ast.walk(tree)))


def _is_by_length(node: ast.AST) -> bool:
    """Whether it divides by a number of results: `ok / len(results)`."""
    match node:
        case ast.BinOp(right=ast.Call(func=ast.Name(id="len"), args=[one])):
            return bool(LISTS & set(_names_in(one)))
        case _:
            return False


def _divides(node: ast.AST) -> bool:
    match node:
        case ast.BinOp(op=ast.Div() | ast.FloorDiv()):
            return True
        case ast.Call(func=ast.Name(id="Fraction" | "divmod")):
            return True
        case _:
            return False


def _is_mean(node: ast.AST) -> bool:
    match node:
        case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name)):
            return name in MEANS
        case _:
            return False


def _names_in(node: ast.AST) -> Iterator[str]:
    """Names, attributes and keys."""
    for one in ast.walk(node):
        match one:
            case ast.Name(id=name) | ast.Attribute(attr=name) | ast.Subscript(slice=ast.Constant(value=str(name))):
                yield name


def test_rates_are_computed_by_packages_that_count() -> None:
    found = {name for name, tree in sources("") if not name.startswith(DIVIDERS) and divides_counts(tree)}
    assert found == SHARES, "ask `Summary.rate`, or a view"


@pytest.mark.parametrize(
    "text",
    [
        "share(summary.passed / summary.finished)",
        "100 * (row.passed / row.total)",
        "passed / total",
        "len(passed) / len(results)",
        "summary['passed'] / summary['finished']",
        "mean(one.status == 'passed' for one in results)",
        "statistics.fmean(good)",
        "s.passed * 100 // s.finished",
        "ok / len(results)",
    ],
)
def test_a_planted_rate_is_found(text: str) -> None:
    assert divides_counts(ast.parse(text))


# States


STATES = {"running", "killed", "interrupted", "budget", "damaged", "completed"}
STATE_READERS = {
    "cli/judge.py": 1,
    "cli/stop.py": 2,
    "cli/verify.py": 1,
    "client.py": 1,
    "engine/execution.py": 2,
    "engine/failed_again.py": 1,
    "engine/run.py": 1,
    "engine/worker.py": 2,
    "history/index.py": 2,
    "pytest_plugin/running.py": 1,
    "report/comparison.py": 1,
    "report/page/comparison.py": 1,
    "server/api_acts.py": 1,
    "server/api_runs.py": 1,
    "server/folders.py": 1,
    "server/found.py": 2,
    "server/desk.py": 3,
    "server/listed.py": 1,
    "server/pairings.py": 1,
}
"""How often files outside of `runs`, `model` and `views` compare a state. A number only falls: a state that is decided
again from others (a run that says running but has no process) is a second decider."""


KINDS = ("status", "state", "phase")


def compared_states(tree: ast.AST) -> int:
    return sum(_compares_state(node) for node in ast.walk(tree))


def _compares_state(node: ast.AST) -> bool:
    match node:
        case ast.Compare(left=ast.Name(), ops=[ast.Eq() | ast.NotEq()], comparators=[ast.Constant(value=word)]):
            return word in STATES
        case ast.Compare(left=left, ops=[ast.In() | ast.NotIn()], comparators=[other]):
            return _is_of_state([left, other]) or (_reads_state(left) and any(map(_is_constant, _names_in(other))))
        case ast.Compare(left=left, comparators=others):
            return _is_of_state([left, *others])
        case ast.Match(subject=subject, cases=cases):
            return _is_of_state([subject, *(one.pattern for one in cases)])
        case ast.Subscript(value=ast.Dict(keys=keys), slice=place):
            return _is_of_state([place, *(key for key in keys if key is not None)])
        case ast.IfExp(body=ast.Constant(value=one), orelse=ast.Constant(value=other)):
            return {one, other} <= STATES
        case _:
            return False


def _is_of_state(sides: Sequence[ast.AST]) -> bool:
    words = {one.value for side in sides for one in ast.walk(side) if isinstance(one, ast.Constant)}
    return any(map(_reads_state, sides)) and bool(words & STATES)


def _reads_state(node: ast.AST) -> bool:
    return any(name in KINDS for name in _names_in(node))


def _is_constant(name: str) -> bool:
    """Whether it may be a set of states: `EARLY_ENDS`."""
    return name.lstrip("_").isupper()


def test_only_named_files_compare_states_of_runs() -> None:
    others = ("runs/", "model/", "views/", "providers/", "testing/", "transcripts/", "exports/otlp_http.py")
    found = {name: compared_states(tree) for name, tree in sources("") if not name.startswith(others)}
    assert {name: count for name, count in found.items() if count} == STATE_READERS


@pytest.mark.parametrize(
    "text",
    [
        "state = 'killed' if run.status == 'running' and not busy else run.status",
        "match run.status:\n    case 'running': pass",
        "match (run.status, busy):\n    case ('running', False): pass",
        "status = run.status\nif status == 'running': pass",
        "if run.status in EARLY: pass",
        "if run.status in words.EARLY_ENDS: pass",
        "if row['status'] != 'completed': pass",
        "over = document['status'] in ('killed', 'interrupted')",
        "code = {'killed': 130, 'completed': 0}[run.status]",
        "status = 'killed' if busy else 'running'",
        "st = run.status\nif st == 'running': pass",
    ],
)
def test_a_planted_decider_of_states_is_found(text: str) -> None:
    assert compared_states(ast.parse(text)) == 1


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
