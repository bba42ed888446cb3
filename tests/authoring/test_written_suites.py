"""Suites written in Python say the same as their YAML, for every key and every check of the schema."""

from __future__ import annotations

import inspect
import keyword
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scripts.write_authoring import written

import rejoinder
import rejoinder.checks
from rejoinder import Case, FollowUp, Suite, Turn, UsageError, checks
from rejoinder.authoring import checks as functions
from rejoinder.authoring.pieces import CheckEntry
from rejoinder.model import CHECKS
from rejoinder.model.plans import OVER_TIME
from rejoinder.suite.schema import read_schema
from rejoinder.suite.yaml import parse_yaml
from tests.kit import Project, bounded, scripted

SCHEMA = read_schema()
ITEM: dict[str, Any] = SCHEMA["$defs"]["checkItem"]["properties"]
DEMO = [scripted("demo", "It is 100.", "It is 105.")]

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=20) | st.sampled_from(
    [
        "on",
        "yes",
        "1.0",
        "a: b",
        "- x",
        "# no",
        "{{ var('a') }}",
        "two\nlines\n",
        " x ",
        "\xa0x",
        "*",
        "|",
        "[a]",
        "'",
        '"',
    ]
)
numbers = st.integers(-5, 10**6) | st.floats(allow_nan=False, allow_infinity=False)
values = st.recursive(
    st.none() | st.booleans() | numbers | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=6,
)


def test_the_modules_are_those_that_the_schema_gives() -> None:
    for path, text in written().items():
        assert path.read_text(encoding="utf-8") == text, "run `make docs`"


def test_every_check_is_a_function_and_no_module_has_its_name() -> None:
    names = {f"{name}_" if keyword.iskeyword(name) else name for name in (*CHECKS, *OVER_TIME)}
    assert set(functions.__all__) == names == set(dir(rejoinder.checks))
    assert all(callable(getattr(checks, name)) for name in names)
    modules = {path.stem for path in Path(rejoinder.checks.__file__).parent.glob("*.py")}
    assert not modules & {name.rstrip("_") for name in names}


def value_for(rules: dict[str, Any], depth: int) -> st.SearchStrategy[Any]:
    """Values of the kinds that a schema names; they need not be valid otherwise."""
    if "$ref" in rules and "check" in rules["$ref"]:
        one = entries(depth + 1)
        return st.lists(one, min_size=1, max_size=2) if rules["$ref"].endswith(("checkList", "checks")) else one
    if "enum" in rules:
        return st.sampled_from(rules["enum"])
    types = rules.get("type")
    simple = {"string": texts, "number": numbers, "integer": st.integers(0, 99), "boolean": st.booleans()}
    if isinstance(types, str) and types in simple:
        return simple[types]
    if types == "array":
        return st.lists(texts, min_size=1, max_size=3)
    return st.dictionaries(texts, values, max_size=3) if types == "object" else texts


@st.composite
def entries(draw: st.DrawFn, depth: int = 0) -> CheckEntry:
    known = list(CHECKS) if depth < 2 else ["contains", "regex", "llm_judge", "max_words"]
    name = draw(st.sampled_from(known))
    function = getattr(checks, f"{name}_" if keyword.iskeyword(name) else name)
    beside: dict[str, Any] = draw(st.fixed_dictionaries({}, optional={"name": texts, "weight": numbers}))
    if depth == 0 and draw(st.booleans()):
        beside["follow_up"] = FollowUp(draw(texts), checks=draw(st.lists(entries(2), max_size=2)))
    rules = ITEM[name]
    if "properties" not in rules:
        return function(draw(value_for(rules, depth)), **beside)
    own = {f"{key}_" if keyword.iskeyword(key) else key: rule for key, rule in rules["properties"].items()}
    needed = [
        key for key, each in inspect.signature(function).parameters.items() if key in own and each.default is each.empty
    ]
    chosen = {*needed, *draw(st.lists(st.sampled_from(list(own)), max_size=3))}
    return function(**{key: draw(value_for(own[key], depth)) for key in sorted(chosen)}, **beside)


@st.composite
def suites(draw: st.DrawFn) -> Suite:
    def case() -> Case:
        return Case(
            id=draw(texts),
            prompt=draw(texts),
            vars=draw(st.none() | st.dictionaries(texts, values, max_size=3)),
            pass_=draw(st.none() | texts),
            checks=draw(st.lists(entries(), max_size=3)),
            turns=draw(st.none() | st.just([Turn("a", checks=[checks.contains("x")])])),
        )

    return Suite(
        name=draw(texts),
        vars=draw(st.none() | st.dictionaries(texts, values, max_size=3)),
        evals=[case() for _ in range(draw(st.integers(0, 3)))],
        conversation_checks=[checks.always(draw(entries(1)), turns=[1, 2]), checks.contains("x", on="transcript")],
    )


@given(suites())
@bounded(300)
def test_a_suite_says_the_same_as_its_yaml(suite: Suite) -> None:
    text = suite.to_yaml()
    assert parse_yaml(text).data == suite.origin_data
    assert Suite.of_mapping(parse_yaml(text).data) == suite
    assert Suite.of_mapping(parse_yaml(text).data).to_yaml() == text


@given(st.dictionaries(texts, values | st.binary() | st.just(object()), max_size=3))
@bounded(100)
def test_no_mapping_ends_in_a_traceback(data: dict[str, Any]) -> None:
    try:
        rejoinder.load(data)
    except rejoinder.RejoinderError as error:
        assert str(error)


@pytest.mark.parametrize("kind", CHECKS)
def test_each_check_loads_as_it_is_written_in_yaml(kind: str, project: Project) -> None:
    """The shortest form of each check."""
    function = getattr(checks, f"{kind}_" if keyword.iskeyword(kind) else kind)
    project.write(".rejoinder/checks.py", "import rejoinder\n@rejoinder.check\ndef polite(evidence): return True\n")
    arguments, more = SHORTEST[kind]
    entry = function(*arguments, **more)
    suite = Suite(
        target="demo",
        judge_target="demo",
        embedding_target="demo",
        targets=DEMO,
        evals=[Case(id="a", prompt="x", context="z", expected_messages=REFERENCE, checks=[entry])],
    )
    again = rejoinder.loads(suite.to_yaml())
    assert again == suite
    [one], [other] = suite.cases, again.cases
    assert type(one.level.items[0].check) is CHECKS[kind]
    assert one.level == other.level and (one.line, other.line > 1) == (0, True)


REFERENCE = [{"role": "assistant", "content": "y"}]
TEXT: tuple[tuple[Any, ...], dict[str, Any]] = (("x",), {})
LIST: tuple[tuple[Any, ...], dict[str, Any]] = ((["x", "y"],), {})
NUMBER: tuple[tuple[Any, ...], dict[str, Any]] = ((2,), {})
SHORTEST: dict[str, tuple[tuple[Any, ...], dict[str, Any]]] = {
    **dict.fromkeys(CHECKS, TEXT),
    **dict.fromkeys(("contains_any", "contains_all", "icontains_any", "icontains_all", "tool_calls", "rubric"), LIST),
    **dict.fromkeys(("min_tokens", "max_tokens", "min_words", "max_words", "latency", "cost"), NUMBER),
    **dict.fromkeys(("is_json", "contains_json", "is_refusal", "faithful", "relevant", "complete"), ((), {})),
    "json_schema": (({"type": "object"},), {}),
    "json_path": (("$.a",), {"equals": None}),
    "effort": ((), {"max_turns": 2}),
    "tool_state": ((), {"tool": "x", "check": checks.contains("x")}),
    "field_accuracy": ((), {"fields": {"a": {"expected": 1}}}),
    "is_xml": ((), {"elements": ["a/b"]}),
    "levenshtein": ((), {"expected": "x", "max": 2}),
    "rouge_l": ((), {"expected": "x", "threshold": 0.5}),
    "similar": ((), {"expected": ["x", "y"], "threshold": 0.5}),
    "semantic": ((), {"expected": "x", "threshold": 0.5}),
    "file_contains": ((), {"path": "a.txt", "text": "x"}),
    "finish_reason": (("stop",), {}),
    "compare": ((), {"reply": "x"}),
    "python": (("checks:polite",), {"with_": {"a": 1}}),
    "webhook": (("http://127.0.0.1/x",), {}),
    "check": (("polite",), {}),
    "or": (([checks.contains("x"), checks.contains("y")],), {}),
    "and": (([checks.contains("x"), checks.contains("y")],), {}),
    "group": ((), {"checks": [checks.contains("x"), checks.contains("y")], "at_least": 1}),
    "not": ((checks.contains("x"),), {}),
}


def test_a_suite_in_yaml_reads_as_a_person_would_write_it() -> None:
    follow_up = FollowUp("That is wrong.\nPlease calculate again.", checks=[checks.match("*105*")])
    suite = Suite(
        name="arithmetic",
        target="demo",
        targets=DEMO,
        evals=[
            Case(
                id="times",
                prompt="What is 15 * 7?",
                tags=["a", "b"],
                checks=[checks.match("*105*", follow_up=follow_up)],
            ),
            Case(
                id="two",
                prompt="{{ x }}",
                vars={"x": 1.5},
                checks=[checks.not_(checks.contains("no", name="negative"))],
            ),
        ],
    )
    assert suite.to_yaml() == YAML
    assert (
        repr(suite) == "<Suite 'arithmetic'>"
        and len(suite.cases) == 2
        and repr(suite) == "<Suite 'arithmetic': 2 cases>"
    )


YAML = """\
name: arithmetic
target: demo

targets:
  - name: demo
    provider: scripted
    replies: [It is 100., It is 105.]

evals:
  - id: times
    prompt: What is 15 * 7?
    checks:
      - match: '*105*'
        prompt: |-
          That is wrong.
          Please calculate again.
        checks:
          - match: '*105*'
    tags: [a, b]
  - id: two
    prompt: '{{ x }}'
    checks:
      - not:
          contains: 'no'
          name: negative
    vars:
      x: 1.5
"""


def test_a_wrong_key_or_value_is_refused_where_it_is_written() -> None:
    anything: Any = checks
    with pytest.raises(TypeError, match=r"checks.contains\(\) got an unexpected keyword argument 'nme'"):
        anything.contains("x", nme="y")
    with pytest.raises(TypeError, match="promt"):
        Case(promt="x")  # pyright: ignore
    with pytest.raises(UsageError, match=r"evals\[0\].vars.a cannot be written as YAML: it is a set"):
        Suite(evals=[Case(vars={"a": {1}})]).to_yaml()  # pyright: ignore
    with pytest.raises(UsageError, match="a follow-up beside a check has no threshold"):
        Suite(checks=[checks.contains("x", follow_up=FollowUp("y", checks=[], threshold=0.5))]).to_yaml()
    with pytest.raises(UsageError, match="cannot be written as YAML: it is nan"):
        Suite(vars={"a": float("nan")}).to_yaml()
    with pytest.raises(UsageError, match="keys are texts"):
        rejoinder.load({"vars": {1: "a"}})  # pyright: ignore


def test_parts_show_themselves_on_one_line() -> None:
    assert repr(checks.contains("voucher", weight=2)) == "checks.contains('voucher', weight=2)"
    assert repr(Case(id="a", prompt="b")) == "Case(id='a', prompt='b')"
    assert "follow_up=..." in repr(checks.match("*" * 99, follow_up=FollowUp("x", checks=[])))


def test_nothing_for_authors_is_imported_before_it_is_used() -> None:
    """Start-up time: runs of files need none of it."""
    program = (
        "import sys, rejoinder.cli.app, rejoinder.checks\n"
        "from rejoinder.checks import registry\n"
        "assert not [name for name in sys.modules if name.startswith('rejoinder.authoring')]\n"
        "from rejoinder import checks\n"
        "import rejoinder.checks.pairwise, rejoinder.checks.rubrics, rejoinder.checks.embeddings\n"
        "assert [callable(one) for one in (checks.compare, checks.rubric, checks.semantic)] == [True] * 3\n"
        "assert not hasattr(checks, 'comparison')\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)
