"""Counts what the design says about the size of the code, and prints it as a Markdown table.

python scripts/count_code.py                 the state before the rebuild beside the working tree
python scripts/count_code.py REVISION ...    each revision; `.` is the working tree
python scripts/count_code.py --write         write the table into docs/design/house.md
"""

from __future__ import annotations

import ast
import io
import re
import subprocess
import sys
import tarfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "design" / "house.md"
PACKAGE = "src/rejoinder/"
BEFORE, WORKING_TREE = "0dc107b", "."
MARKERS = ("<!-- count_code -->", "<!-- end of count_code -->")

EDGES = (
    # Parsed YAML and JSON as it comes in.
    "suite/",
    "json_schemas.py",
    "json_values.py",
    "transcripts/",
    "project/",
    "cassettes/file.py",
    "providers/cassettes.py",  # its place before
    # JSON as it goes out.
    "report/",
    "cli/results.py",
    "yaml_text.py",
    # The wire formats of providers.
    "providers/anthropic.py",
    "providers/gemini.py",
    "providers/http.py",
    "providers/http_api.py",
    "providers/json_fields.py",
    "providers/model_list.py",
    "providers/openai_",
    # Servers that stand in for vendors in tests.
    "testing/",
)
"""Path prefixes below src/rejoinder where untyped data comes in or goes out."""

PERSONS = re.compile(r"\b(nobody|whoever|somebody|anybody)\b", re.IGNORECASE)
UNTYPED = re.compile(r"\bdict\[str, Any\]")
Files = dict[str, str]
"""Text by path below src/rejoinder."""


class Named(NamedTuple):
    """A number and what has it."""

    number: int
    name: str

    def __str__(self) -> str:
        return f"{self.number} (`{self.name}`)"


class Count(NamedTuple):
    """The numbers of one tree. A field's name is the words of its row."""

    files: int
    lines_of_python: int
    longest_file: Named
    most_methods_in_a_class: Named
    most_attributes_in_a_class: Named
    most_attributes_in_a_frozen_record: Named
    functions_with_more_than_five_parameters: int
    most_parameters: Named
    untyped_dictionaries_away_from_the_edges: int
    comparisons_with_a_string_away_from_the_edges: int
    nobody_whoever_somebody_anybody: int
    noqa: int
    imports_past_the_door_of_a_room: int


# Trees


def read_tree(tree: str) -> Files:
    return _read_folder() if tree == WORKING_TREE else _read_revision(tree)


def _read_folder() -> Files:
    package = ROOT / PACKAGE
    paths = (path for path in package.rglob("*") if path.is_file() and "__pycache__" not in path.parts)
    return {path.relative_to(package).as_posix(): path.read_text(encoding="utf-8") for path in sorted(paths)}


def _read_revision(revision: str) -> Files:
    command = ["git", "archive", "--format=tar", revision, PACKAGE]
    archive = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, check=True).stdout
    with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
        entries = [(entry.name.removeprefix(PACKAGE), tar.extractfile(entry)) for entry in tar.getmembers()]
    return {name: entry.read().decode() for name, entry in entries if entry}


# Classes


def _classes(modules: dict[str, ast.Module]) -> Iterator[tuple[str, ast.ClassDef]]:
    for path, module in modules.items():
        yield from ((path, node) for node in ast.walk(module) if isinstance(node, ast.ClassDef))


def _functions(node: ast.ClassDef) -> list[ast.FunctionDef | ast.AsyncFunctionDef]:
    return [item for item in node.body if isinstance(item, ast.FunctionDef | ast.AsyncFunctionDef)]


def _attributes(node: ast.ClassDef) -> set[str]:
    """Fields declared in the class, unless it is a protocol, and what its methods assign on self."""
    declared = {
        item.target.id
        for item in node.body
        if isinstance(item, ast.AnnAssign)
        and isinstance(item.target, ast.Name)
        and "ClassVar" not in ast.unparse(item.annotation)
    }
    assigned = {
        inner.attr
        for function in _functions(node)
        for inner in ast.walk(function)
        if isinstance(inner, ast.Attribute)
        and isinstance(inner.ctx, ast.Store)
        and isinstance(inner.value, ast.Name)
        and inner.value.id == "self"
    }
    return assigned if "Protocol" in _bases(node) else declared | assigned


def _bases(node: ast.ClassDef) -> set[str]:
    return {ast.unparse(base).partition("[")[0].rpartition(".")[2] for base in node.bases}


def _is_declared_frozen(node: ast.ClassDef) -> bool:
    calls = [keyword for call in node.decorator_list if isinstance(call, ast.Call) for keyword in call.keywords]
    keywords = {keyword.arg: ast.unparse(keyword.value) for keyword in [*node.keywords, *calls]}
    return keywords.get("frozen") == "True" or "NamedTuple" in _bases(node)


def _frozen_records(classes: Iterable[ast.ClassDef]) -> set[ast.ClassDef]:
    """Classes that are frozen or derive from a frozen class."""
    remaining, frozen = set(classes), set[ast.ClassDef]()
    while True:
        names = {node.name for node in frozen}
        more = {node for node in remaining if _is_declared_frozen(node) or _bases(node) & names}
        if not more:
            return frozen
        frozen |= more
        remaining -= more


# Functions, comparisons, imports


def _parameters(module: ast.Module) -> Iterator[tuple[int, str]]:
    """The number of parameters of each function and its name; self and cls do not count."""
    methods = {id(item) for node in ast.walk(module) if isinstance(node, ast.ClassDef) for item in _functions(node)}
    for node in ast.walk(module):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            arguments = node.args
            positional = [*arguments.posonlyargs, *arguments.args]
            own = bool(id(node) in methods and positional and positional[0].arg in ("self", "cls"))
            others = [*arguments.kwonlyargs, *filter(None, (arguments.vararg, arguments.kwarg))]
            yield len(positional) - own + len(others), node.name


def _compares_string(node: ast.AST) -> bool:
    if not isinstance(node, ast.Compare) or ast.unparse(node.left) == "__name__":
        return False
    return any(
        _is_text(right) or _is_text(node.left)
        if isinstance(operator, ast.Eq | ast.NotEq)
        else isinstance(operator, ast.In | ast.NotIn) and _is_list_of_text(right)
        for operator, right in zip(node.ops, node.comparators, strict=True)
    )


def _is_text(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


def _is_list_of_text(node: ast.expr) -> bool:
    return isinstance(node, ast.Tuple | ast.Set | ast.List) and bool(node.elts) and all(map(_is_text, node.elts))


def _imported(module: ast.Module) -> Iterator[tuple[str, str]]:
    """Module and name of each import statement of the package's own modules; the name is the first imported one."""
    for node in ast.walk(module):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("rejoinder."):
            yield node.module, node.names[0].name
        elif isinstance(node, ast.Import):
            yield from ((alias.name, "") for alias in node.names if alias.name.startswith("rejoinder."))


def _imports_past_doors(modules: dict[str, ast.Module]) -> int:
    """Import statements of another room that name a module inside of it."""
    rooms = {path.partition("/")[0] for path in modules if path.endswith("/__init__.py")}
    inside = {path.removesuffix(".py").replace("/", ".") for path in modules}
    count = 0
    for path, module in modules.items():
        for name, first in _imported(module):
            room, _, rest = name.removeprefix("rejoinder.").partition(".")
            past = bool(rest) or f"{room}.{first}" in inside
            count += room in rooms and room != path.partition("/")[0] and past
    return count


# The table


def _most(numbers: Iterable[Named]) -> Named:
    return max(numbers, default=Named(0, "none"))


def count(files: Files) -> Count:
    python = {path: text for path, text in files.items() if path.endswith(".py")}
    inner = {path: text for path, text in python.items() if not path.startswith(EDGES)}
    modules = {path: ast.parse(text) for path, text in python.items()}
    classes = list(_classes(modules))
    frozen = _frozen_records(node for _, node in classes)
    attributes = [(node in frozen, Named(len(_attributes(node)), node.name)) for _, node in classes]
    parameters = [
        Named(number, f"{path}: {name}") for path, module in modules.items() for number, name in _parameters(module)
    ]
    comparisons = [node for path in inner for node in ast.walk(modules[path]) if _compares_string(node)]
    return Count(
        files=len(python),
        lines_of_python=sum(text.count("\n") for text in python.values()),
        longest_file=_most(Named(text.count("\n"), path) for path, text in python.items()),
        most_methods_in_a_class=_most(Named(len(_functions(node)), node.name) for _, node in classes),
        most_attributes_in_a_class=_most(named for is_frozen, named in attributes if not is_frozen),
        most_attributes_in_a_frozen_record=_most(named for is_frozen, named in attributes if is_frozen),
        functions_with_more_than_five_parameters=sum(named.number > 5 for named in parameters),
        most_parameters=_most(parameters),
        untyped_dictionaries_away_from_the_edges=sum(len(UNTYPED.findall(text)) for text in inner.values()),
        comparisons_with_a_string_away_from_the_edges=len(comparisons),
        nobody_whoever_somebody_anybody=sum(len(PERSONS.findall(text)) for text in files.values()),
        noqa=sum(text.count("# noqa") for text in python.values()),
        imports_past_the_door_of_a_room=_imports_past_doors(modules),
    )


def table(counts: dict[str, Count]) -> str:
    rows: list[list[Any]] = [["", *counts], ["---", *["--:"] * len(counts)]]
    for field in Count._fields:
        rows.append([field.replace("_", " "), *(getattr(tree, field) for tree in counts.values())])
    cells = ([f"{cell:,}" if isinstance(cell, int) else str(cell) for cell in row] for row in rows)
    return "".join(f"| {' | '.join(row)} |\n" for row in cells)


def write(text: str) -> None:
    page = PAGE.read_text(encoding="utf-8")
    before, _, rest = page.partition(MARKERS[0])
    after = rest.partition(MARKERS[1])[2]
    PAGE.write_text(f"{before}{MARKERS[0]}\n\n{text}\n{MARKERS[1]}{after}", encoding="utf-8", newline="\n")


if __name__ == "__main__":
    trees = [argument for argument in sys.argv[1:] if argument != "--write"] or [BEFORE, WORKING_TREE]
    counts = {"now" if tree == WORKING_TREE else f"before ({tree})": count(read_tree(tree)) for tree in trees}
    if "--write" in sys.argv:
        write(table(counts))
    else:
        print(table(counts), end="")
