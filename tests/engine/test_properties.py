"""What holds for every input: no file ends in a traceback, and no word of a conversation is lost or moved.

The examples are the same in every run. `FUZZ_EXAMPLES=5000 pytest tests/engine/test_properties.py` draws new ones.
"""

from __future__ import annotations

import copy
import json
import re
import traceback
import unicodedata
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from toon_format import decode

import rejoinder
from rejoinder.errors import CODES, RejoinderError
from rejoinder.formatting.globs import matches_path
from rejoinder.formatting.prompt import format_case
from rejoinder.model import (
    ROLES,
    Case,
    ChatMessage,
    FilePart,
    Level,
    Message,
    OtherPart,
    Problem,
    TextPart,
    formatting_for,
    trim,
)
from rejoinder.report.problems import write_problem, write_sarif
from rejoinder.suite.context import LoadOptions
from rejoinder.suite.document_paths import read_path, write_path
from rejoinder.suite.schema import check_names, read_schema
from rejoinder.validation.findings import validate_file
from tests.kit import Project, bounded, scripted, spec
from tests.labs.fuzz_lab import REGEX_PIECES

pytestmark = pytest.mark.slow

# Files that are allowed to be anything

CONVERSATIONS = """\
# yaml-language-server: $schema=suite.json
metadata:
  name: conversations
  model: scripted/x
  system_prompt: "Be brief: very brief."
  tags: [a, b]
guideline_patterns: ["**/*.instructions.md", "docs/{a,b}/*.md"]
formatting: {profile: spec, marker_in_text: warn, toon: true}
vars: {city: Kraków, n: 3}
targets:
  - name: x
    provider: scripted
    replies: ["4", {text: ok, output_tokens: 2}]
x-notes: &note
  weight: 2
evalcases:
  - id: first
    input_messages:
      - role: system
        content:
          - {type: file, value: guide.instructions.md}
          - type: text
            value: |
              You are careful.

              Very careful.
      - role: user
        content: "What is 2 + 2 in {{ city }}?"
      - {role: assistant, content: "5"}
      - role: tool
        content: [plain text, {type: file, value: notes.md}]
    expected_messages:
      - {role: assistant, content: "4"}
    outcome: It says four.
    execution:
      evaluators:
        - {name: judge, type: llm_judge, prompt: "Is {{candidate_answer}} right?"}
  - id: second
    input_messages:
      - role: user
        content: >-
          folded
          text
    checks:
      - {match: "*4*", <<: *note}
"""

FOLLOW_UPS = """\
metadata: {model: scripted/x, followups: first, max_turns: 4}
embedding_target: scripted/e
checks:
  - not_match: "*sorry*"
defaults:
  system_prompt: 'It''s "quoted"'
evals:
  - prompt: What is 15 * 7?
    checks:
      - match: "*105*"
        prompt: "Hint: 15 * 7 = 15 * 5 + 15 * 2. You said {{ response }}."
        checks:
          or:
            - match: "*105*"
            - regex: {pattern: '\\b105\\b', flags: i}
      - min_tokens: 1
      - prompt: Try again.
        checks:
          - semantic: {expected: "105", threshold: 0.8}
          - not: {contains: cannot}
  - id: judged
    name: "{{ var('who') }}"
    vars:
      who: ich
    prompt: |
      Multi
        line {{ who }}
    checks:
      - llm_judge: {criteria: "short?"}
      - or: [{contains_any: [a, b]}, {latency: 2.5}]
vars: {who: x}
"""

DATA_SET = """\
metadata: {model: scripted/x}
defaults: {checks: [{match: "*"}]}
cases: data.%s
"""

DATA_SET_IN_A_CASE = """\
metadata: {model: scripted/x}
evals:
  - id: row
    prompt: "Say {{ word }}"
    cases: data.%s
    checks: [{match: "*"}]
"""

JSON_LINES = """\
{"id": "a", "prompt": "Say {{ word }}", "word": "yes", "tags": ["t"], "vars": {"n": 1}}
{"prompt": "Second", "word": "no", "checks": [{"match": "*no*", "prompt": "again", "checks": [{"match": "x"}]}]}

{"input_messages": [{"role": "user", "content": "hi"}], "outcome": "good", "threshold": 0.5, "word": "漢字"}
"""

CSV = '''\
id,prompt,word,tags,threshold,checks
a,"Say ""{{ word }}""",yes,"x, y",0.5,"[{""match"": ""*""}]"
b,"two
lines",no,,,
'''

TARGETS = """\
targets:
  - name: default
    provider: openai
    model: gpt-4o
    api_key: ${{ MISSING_KEY }}
    settings: {temperature: 0.2}
  - {name: other, provider: cli, command_template: "run {PROMPT}", workers: 2}
  - name: s
    provider: scripted
    replies: {"*": [a, {error: e}]}
    judge: [true, 0.5, {score: 1}]
"""

CONFIG = """\
target: default
guideline_patterns: ["*.md"]
formatting: {profile: agentv, marker: "@[{Role}]:"}
vars: {city: Oslo}
targets:
  - {name: default, provider: scripted, replies: [x]}
"""

SUITES = (CONVERSATIONS, FOLLOW_UPS, DATA_SET % "jsonl")


def schema_words() -> list[str]:
    """Every key and every choice that the schema knows."""
    words: set[str] = set()
    waiting: list[Any] = [read_schema()]
    while waiting:
        current = waiting.pop()
        if isinstance(current, dict):
            words.update(current.get("properties", ()))
            words.update(word for word in current.get("enum", ()) if isinstance(word, str))
            waiting.extend(current.values())
        elif isinstance(current, list):
            waiting.extend(current)
    return sorted(words)


WORDS = schema_words()
COMMON = [
    *("evals", "evalcases", "cases", "defaults", "metadata", "checks", "prompt", "input_messages", "content", "role"),
    *("type", "value", "vars", "formatting", "guideline_patterns", "targets", "execution", "evaluators", "id", "tags"),
    *("system_prompt", "expected_messages", "outcome", "threshold", "followups", "max_turns", "metadata", "cases"),
    *check_names(),
]
keys = st.sampled_from(COMMON) | st.sampled_from(WORDS) | st.sampled_from(["x-a", "<<", "Prompt", "a.b", "", "é"])

ODD_TEXTS = [
    *("", " ", "x", "*", ".*", "^(", "user", "system", "text", "file", "scripted/x", "scripted", "data.jsonl", "first"),
    *("data.csv", "notes.md", "../notes.md", "/notes.md", "a\\b", "a\0b", "\ufeff", "\r\n", "\t", "{{", "}}"),
    *("{{ x }}", "{{ var('city') }}", "{{ env('NO') }}", "{{ secret('NO') }}", "{{ response }}", "{{ response(2) }}"),
    *("{{ failed }}", "${{ NO }}", "@[User]:", " @[tool]: x", "[[ ## question ## ]]", "漢字", "e\u0301", "😀", "\x85"),
    *("\u2028", "\x7f", "{a,b}", "**", "llm_judge", "code", "spec", "legacy", "agentv", "error", "null", "yes"),
    *("1", "- x", "a: b"),
]
odd_scalars = (
    st.none()
    | st.booleans()
    | st.integers(-2, 7)
    | st.sampled_from([2**63, 2**64, 10**30, -(10**30), 0.5, -0.0, 1e308, float("inf"), float("nan")])
    | st.sampled_from(ODD_TEXTS)
    | st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
)
odd_trees = st.recursive(
    odd_scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=4),
    max_leaves=12,
)

TOKENS = [
    *("\n", "\n", "\n  ", "\n  ", "\n    ", "\n    - ", "\n  - ", "- ", ": ", ":", ", ", " ", "  ", "\t", "#"),
    *(" # c", "? ", "[", "]", "{", "}", '"', "'", "|", ">", ">-\n", "|2\n", "|+\n", "&a ", "*a", "<<: *a"),
    *("!!int ", "!!str ", "! ", "!x "),
    *("---\n", "...\n", "%YAML 1.2\n", "%TAG ! x\n", "@", "`", "\\", "\\x", "\\ud800", "\r", "\r\n", "\x85", "\u2028"),
    *("~", "null", "true", "No", "1", "-1", "1.5", "1e400", ".inf", "-.INF", ".nan", "0x1F", "0o17", "010", "+1", "."),
    *("\ufeff", "\x01", "\x1b", "\ufffe", "2001-01-01", "=", "''", '""', "1_000", "evals:\n  - ", "checks:\n      - "),
    "evals:\n  - prompt: a\n    checks:\n      - match: x\n",
]
yaml_like = st.lists(
    st.sampled_from(TOKENS)
    | st.sampled_from(COMMON).map(lambda key: f"{key}: ")
    | st.sampled_from(WORDS)
    | st.sampled_from(ODD_TEXTS),
    max_size=40,
).map("".join)


@st.composite
def mangled(draw: st.DrawFn, *bases: str) -> str:
    """A good text after a few accidents to its lines and characters."""
    text = draw(st.sampled_from(bases))
    for _ in range(draw(st.integers(1, 4))):
        by_line = draw(st.booleans())
        units = text.splitlines(keepends=True) if by_line else list(text)
        if not units:
            break
        place = draw(st.integers(0, len(units) - 1))
        until = min(len(units), place + draw(st.integers(1, 3)))
        accident = draw(st.sampled_from(["delete", "duplicate", "insert", "replace", "move", "indent", "cut"]))
        odd = draw(st.sampled_from(TOKENS) | st.sampled_from(ODD_TEXTS) | keys)
        if accident == "delete":
            del units[place:until]
        elif accident == "duplicate":
            units[place:place] = units[place:until]
        elif accident == "insert":
            units.insert(place, odd)
        elif accident == "replace":
            units[place:until] = [odd + ("\n" if by_line else "")]
        elif accident == "move":
            units.insert(draw(st.integers(0, len(units) - 1)), units.pop(place))
        elif accident == "indent":
            units[place] = draw(st.sampled_from([" ", "  ", "\t"])) + units[place]
        else:
            del units[until:]
        text = "".join(units)
    return text


def suite_trees() -> list[Any]:
    """Good suites as data, to be bent out of shape."""
    conversation = {
        "metadata": {"model": "scripted/x", "tags": ["a"], "followups": "all", "system_prompt": "p"},
        "formatting": {"profile": "legacy", "marker": "[{Role}]:"},
        "guideline_patterns": ["*.md"],
        "vars": {"city": "Oslo"},
        "targets": [scripted("x", "a")],
        "execution": {"evaluators": [{"name": "e", "type": "code", "script": ["run"]}]},
        "evals": [
            {
                "id": "a",
                "input_messages": [
                    {"role": "system", "content": [{"type": "file", "value": "notes.md"}]},
                    {"role": "user", "content": "Hi {{ city }}"},
                ],
                "expected_messages": [{"role": "assistant", "content": "x"}],
                "outcome": "good",
                "vars": {"n": 1},
            }
        ],
    }
    follow_up = {
        "metadata": {"model": "scripted/x"},
        "checks": {"or": [{"match": "a"}, {"regex": {"pattern": "a", "flags": "i"}}]},
        "defaults": {"threshold": 0.5, "max_turns": 3},
        "evals": [
            {
                "prompt": "a",
                "checks": [
                    {"match": "x", "weight": 2, "required": True, "prompt": "b", "checks": [{"not": {"match": "y"}}]},
                    {"semantic": {"expected": ["a"], "threshold": 0.1}},
                    {"llm_judge": {"criteria": "c", "target": "scripted/y"}},
                    {"or": [{"contains_all": ["a"]}, {"and": [{"max_words": 3}]}]},
                    {"prompt": "last", "checks": {"or": [{"equals": "z"}]}},
                ],
            }
        ],
    }
    return [conversation, follow_up, {"cases": "data.jsonl", "defaults": {"checks": [{"match": "*"}]}}]


@st.composite
def bent(draw: st.DrawFn, *bases: Any) -> Any:
    """Good data with some values, keys or items exchanged for others."""
    tree = copy.deepcopy(draw(st.sampled_from(bases)))
    for _ in range(draw(st.integers(1, 4))):
        places = list(_places(tree))
        if not places:
            return draw(odd_trees)
        holder, key = draw(st.sampled_from(places))
        change = draw(st.sampled_from(["value", "value", "value", "remove", "add"]))
        if change == "value":
            holder[key] = draw(odd_trees)
        elif change == "remove":
            del holder[key]
        elif isinstance(holder, list):
            holder.append(draw(odd_trees))
        else:
            holder[draw(keys)] = draw(odd_trees)
    return tree


def _places(tree: Any) -> Any:
    items = tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else ()
    for key, value in list(items):
        yield tree, key
        yield from _places(value)


LINE_BREAK = re.compile("\r\n|[\n\r]")


def check_places(problems: list[Problem], project: Project) -> None:
    for problem in problems:
        assert problem.code in CODES
        assert problem.message.strip()
        assert problem.line >= 1 and problem.column >= 1
        path = project.folder / problem.file
        if not path.is_file():
            continue
        lines = LINE_BREAK.split(path.read_bytes().decode("utf-8", "replace").removeprefix("\ufeff"))
        assert problem.line <= len(lines) + 1, problem
        line = lines[problem.line - 1] if problem.line <= len(lines) else ""
        assert problem.column <= len(line) + 1, (problem, line)


def check_commands(project: Project, name: str, *, problems: list[Problem] | None = None) -> None:
    """`prompt` ends in words too, and it does not refuse what `validate` has let pass."""
    arguments = ([], ["--format", "json", "--mode", "agent"], ["--judge", "--reply", "@[User]:\nyes"])
    for extra in arguments:
        result = project.invoke("prompt", name, *extra)
        if not isinstance(result.exception, SystemExit | RejoinderError | None):
            pytest.fail("".join(traceback.format_exception(result.exception)))
        assert result.exit_code in (0, 1, 2)
        if problems is not None and not any(problem.severity == "error" for problem in problems):
            assert result.exit_code == 0, result.output


def check_file(project: Project, name: str = "evals.yaml") -> list[Problem]:
    problems = validate_file(Path(name))
    check_places(problems, project)
    for problem in problems:
        assert all(isinstance(line, str) for line in write_problem(problem, width=50))
    write_sarif(problems, "1")
    check_commands(project, name, problems=problems)
    return problems


@pytest.fixture
def surrounded(project: Project) -> Project:
    """A project in which the files that suites name exist."""
    project.write("notes.md", "Some notes.\n")
    project.write("guide.instructions.md", "Be kind.\n")
    project.write("data.jsonl", JSON_LINES)
    project.write("data.csv", CSV)
    return project


@pytest.mark.parametrize(
    "suite",
    [*SUITES, DATA_SET % "csv", DATA_SET_IN_A_CASE % "jsonl", DATA_SET_IN_A_CASE % "csv"],
)
def test_what_is_mangled_below_is_good_at_first(surrounded: Project, suite: str) -> None:
    surrounded.write("evals.yaml", suite)
    assert [problem.message for problem in check_file(surrounded)] == []
    for name, text in (("targets", TARGETS), ("config", CONFIG)):
        surrounded.write(f".rejoinder/{name}.yaml", text)
        errors = [one for one in validate_file(Path(f".rejoinder/{name}.yaml")) if one.severity == "error"]
        assert errors == []


@spec("P22")
@bounded(100)
@given(content=st.binary(max_size=200) | st.text(max_size=100).map(lambda text: text.encode("utf-8", "replace")))
def test_random_bytes_and_text_are_refused_in_words(surrounded: Project, content: bytes) -> None:
    surrounded.write("evals.yaml", content)
    check_file(surrounded)


@spec("P22")
@bounded(200)
@given(text=yaml_like)
def test_random_yaml_is_refused_in_words(surrounded: Project, text: str) -> None:
    surrounded.write("evals.yaml", text.encode("utf-8", "replace"))
    check_file(surrounded)


@spec("P20", "P22")
@bounded(200)
@given(text=mangled(*SUITES))
def test_mangled_suites_are_refused_in_words(surrounded: Project, text: str) -> None:
    surrounded.write("evals.yaml", text.encode("utf-8", "replace"))
    check_file(surrounded)


@spec("P22")
@bounded(100)
@given(text=mangled(*SUITES).filter(lambda text: "\r" not in text))
def test_line_ends_make_no_difference(surrounded: Project, text: str) -> None:
    def places(content: str) -> list[tuple[str, str, int, int]]:
        surrounded.write("evals.yaml", content.encode("utf-8", "replace"))
        found = validate_file(Path("evals.yaml"))
        return [(one.code, one.path, one.line, one.column) for one in found]

    assert places(text.replace("\n", "\r\n")) == places(text)


@spec("P7", "P19", "P20", "P21")
@bounded(200)
@given(tree=bent(*suite_trees()) | st.dictionaries(keys, odd_trees, max_size=5) | odd_trees)
def test_values_of_wrong_types_are_refused_in_words(surrounded: Project, tree: Any) -> None:
    surrounded.write("evals.yaml", json.dumps(tree, ensure_ascii=False))
    check_file(surrounded)


@spec("P19")
@bounded(200)
@given(pattern=st.lists(st.sampled_from(REGEX_PIECES), min_size=1, max_size=7).map("".join))
def test_any_regular_expression_is_taken_or_refused(project: Project, pattern: str) -> None:
    checks = [{"regex": pattern}, {"match": f"^{pattern}"}, {"not_match": f".*{pattern}"}]
    project.write("evals.yaml", {"metadata": {"model": "scripted/x"}, "evals": [{"prompt": "a", "checks": checks}]})
    assert {problem.code for problem in validate_file(Path("evals.yaml"))} <= {"invalid-regex"}


json_rows = st.lists(st.dictionaries(keys | st.just("word"), odd_trees, max_size=5) | odd_trees, max_size=4)
JSON_LINE_TREES = [json.loads(line) for line in JSON_LINES.splitlines() if line]


@spec("P15")
@bounded(150)
@given(
    content=st.binary(max_size=100)
    | mangled(JSON_LINES).map(lambda text: text.encode("utf-8", "replace"))
    | (json_rows | st.lists(bent(*JSON_LINE_TREES), min_size=1, max_size=3)).map(
        lambda rows: "\n".join(json.dumps(row) for row in rows).encode()
    ),
    suite=st.sampled_from([DATA_SET % "jsonl", DATA_SET_IN_A_CASE % "jsonl"]),
)
def test_jsonl_data_sets_are_refused_in_words(surrounded: Project, content: bytes, suite: str) -> None:
    surrounded.write("data.jsonl", content)
    surrounded.write("evals.yaml", suite)
    check_file(surrounded)


csv_like = st.lists(st.sampled_from([",", '"', "\n", "\r\n", "\r", *ODD_TEXTS, *COMMON, "word"]), max_size=30).map(
    "".join
)


@spec("P15")
@bounded(150)
@given(
    content=st.binary(max_size=100)
    | (mangled(CSV) | csv_like | csv_like.map(lambda text: f"prompt,word,vars,checks\na,{text}")).map(
        lambda text: text.encode("utf-8", "replace")
    ),
    suite=st.sampled_from([DATA_SET % "csv", DATA_SET_IN_A_CASE % "csv"]),
)
def test_csv_data_sets_are_refused_in_words(surrounded: Project, content: bytes, suite: str) -> None:
    surrounded.write("data.csv", content)
    surrounded.write("evals.yaml", suite)
    check_file(surrounded)


@spec("P28")
@bounded(150)
@given(
    text=yaml_like
    | mangled(TARGETS, CONFIG)
    | bent(
        {"targets": [{"name": "a", "provider": "openai", "model": "m", "settings": {"seed": 1}, "workers": 1}]},
        {"targets": [{"name": "a", "provider": "scripted", "replies": {"*": ["x"]}, "judge": [0.5]}]},
        {"target": "a", "vars": {"a": 1}, "formatting": {"toon": True}, "guideline_patterns": ["*"]},
        {"targets": [{"name": "default", "provider": "cli", "command_template": "x"}], "judge_target": "default"},
    ).map(json.dumps),
    name=st.sampled_from([".rejoinder/targets.yaml", ".rejoinder/config.yaml", ".agentv/config.yaml"]),
)
def test_targets_and_configuration_are_refused_in_words(surrounded: Project, text: str, name: str) -> None:
    for folder in (".rejoinder", ".agentv"):
        for file in ("targets.yaml", "config.yaml"):
            (surrounded.folder / folder / file).unlink(missing_ok=True)
    surrounded.write(name, text.encode("utf-8", "replace"))
    check_places(validate_file(Path(name)), surrounded)
    surrounded.write("evals.yaml", FOLLOW_UPS.replace("model: scripted/x, ", ""))
    check_places(validate_file(Path("evals.yaml")), surrounded)
    check_commands(surrounded, "evals.yaml")
    other = surrounded.write("other.yaml", text.encode("utf-8", "replace"))
    check_places(validate_file(Path("evals.yaml"), LoadOptions(targets_file=other, missing="warning")), surrounded)


SHOWN = "abc: '\"xyz \t漢字ーＡ가é"


@bounded(200)
@given(source=st.text(SHOWN, min_size=1, max_size=150), data=st.data(), width=st.integers(40, 120))
def test_the_caret_stands_under_its_character(source: str, data: st.DataObject, width: int) -> None:
    assume(source.strip())
    column = data.draw(st.integers(1, len(source)))
    assume(source[column - 1] != "\t")
    problem = Problem(code="yaml-syntax", message="m", file="f", line=7, column=column, source=source)
    *_, shown, caret = write_problem(problem, width=width)
    columns: list[str] = []
    for character in shown:
        columns += [character] * (2 if unicodedata.east_asian_width(character) in "WF" else 1)
    assert caret.endswith("^")
    assert columns[len(caret) - 1] == source[column - 1].replace("\t", "→")


# Conversations

GUIDELINES = ("a.instructions.md", "./a.instructions.md", "docs/b.instructions.md")
FILES = ("notes.md", "src/main.py", "a b/ü.txt")

word = st.text(st.characters(exclude_categories=["Cs", "Cc"], exclude_characters="\ufeff"), min_size=1, max_size=6)
line = st.one_of(
    st.just(""),
    st.sampled_from([" ", "\t", "  @[User]:", "@[System]: x", "=== x ===", "</file>", "- a", "```"]),
    st.builds(lambda indent, text, tail: indent + text + tail, st.sampled_from(["", "  ", "\t"]), word, st.just("")),
    word.map(lambda text: f"{text}  \t"),
)
texts = st.builds(
    lambda bom, lines, ending, tail: bom + ending.join(lines) + tail,
    st.sampled_from(["", "", "\ufeff"]),
    st.lists(line, max_size=5),
    st.sampled_from(["\n", "\r\n"]),
    st.sampled_from(["", "\n", "\r\n\r\n", "  \n \t"]),
)


@st.composite
def conversations(draw: st.DrawFn) -> tuple[Message, ...]:
    contents = {path: draw(st.none() | texts) for path in FILES}
    for number, path in enumerate(dict.fromkeys(_resolved(path) for path in GUIDELINES)):
        lines = draw(st.lists(st.sampled_from(["", f"GUIDE {number} one", f"  GUIDE {number} two"]), max_size=3))
        contents[path] = draw(st.none() | st.just("\n".join(lines)))

    def part(place: str) -> TextPart | FilePart | OtherPart:
        kind = draw(st.sampled_from(["text", "text", "file", "guideline", "other"]))
        if kind == "text":
            return TextPart(draw(texts), place)
        if kind == "other":
            return OtherPart("image", place)
        path = draw(st.sampled_from(GUIDELINES if kind == "guideline" else FILES))
        content = contents[_resolved(path)]
        return FilePart(path, content, place, None if content is None else _resolved(path))

    messages = []
    for number in range(draw(st.integers(0, 5))):
        at = f"evals[0].input_messages[{number}]"
        parts = tuple(part(f"{at}.content[{i}]") for i in range(draw(st.integers(0, 4))))
        messages.append(Message(draw(st.sampled_from(ROLES)), parts, at))
    return tuple(messages)


def _resolved(path: str) -> str:
    return path.removeprefix("./")


def case_of(messages: tuple[Message, ...], system_prompt: str = "") -> Case:
    return Case(id="a", at="evals[0]", messages=messages, level=Level(()), system_prompt=system_prompt)


def lines_of(text: str) -> list[str]:
    """The lines that say anything, without what trimming may take from them."""
    text = text.removeprefix("\ufeff").replace("\r\n", "\n")
    return [line.strip() for line in text.split("\n") if line.strip()]


def is_guide(part: Any) -> bool:
    return isinstance(part, FilePart) and part.path.endswith(".instructions.md")


def speaks(part: Any) -> bool:
    """Text or a file, with anything in it but whitespace."""
    return isinstance(part, TextPart | FilePart) and bool(lines_of(part.text or ""))


def is_visible(message: Message) -> bool:
    return any(speaks(part) and not is_guide(part) for part in message.parts)


def needs_markers(messages: tuple[Message, ...]) -> bool:
    return any(message.role in ("assistant", "tool") for message in messages) or sum(map(is_visible, messages)) > 1


def transcript_lines(message: Message, mode: str) -> list[str]:
    """What the rules say about the lines of one turn."""
    if not any(speaks(part) for part in message.parts):
        return []
    found: list[str] = []
    for part in message.parts:
        if isinstance(part, TextPart):
            found += lines_of(part.text)
        elif isinstance(part, FilePart) and is_guide(part):
            found += [f"<Attached: {part.path}>"] if speaks(part) else []
        elif isinstance(part, FilePart) and part.text is not None and mode == "agent":
            found.append(f'<file: path="{part.path}">')
        elif isinstance(part, FilePart) and speaks(part):
            found += [f'<file path="{part.path}">', *lines_of(part.text or ""), "</file>"]
    return found


def chat_lines(message: Message) -> list[str]:
    found: list[str] = []
    for part in message.parts:
        if is_guide(part) and speaks(part):
            found.append(f"<Attached: {part.path}>")
        elif isinstance(part, TextPart):
            found += lines_of(part.text)
        elif isinstance(part, FilePart) and speaks(part) and not is_guide(part):
            found += [f"=== {part.path} ===", *lines_of(part.text or "")]
    return found


def guideline_lines(messages: tuple[Message, ...]) -> list[str]:
    first: dict[str, FilePart] = {}
    for message in messages:
        for part in message.parts:
            if isinstance(part, FilePart) and is_guide(part) and speaks(part):
                first.setdefault(_resolved(part.path), part)
    return [line for part in first.values() for line in (f"=== {part.path} ===", *lines_of(part.text or ""))]


def is_in_order(wanted: list[str], found: list[str]) -> bool:
    remaining = iter(found)
    return all(line in remaining for line in wanted)


@spec("R4", "R5", "R6", "R8", "R9", "R12", "R14", "R18", "R19", "P1", "P2", "P3", "P4", "P6")
@bounded(200)
@given(messages=conversations(), mode=st.sampled_from(["lm", "agent"]))
def test_question_holds_every_line_once_and_in_order(messages: tuple[Message, ...], mode: Any) -> None:
    prompt = format_case(case_of(messages), formatting_for(), mode)
    expected: list[str] = []
    some_visible = any(map(is_visible, messages))
    for message in messages:
        own = transcript_lines(message, mode)
        if needs_markers(messages):
            expected += [f"@[{message.role.capitalize()}]:", *own] if own else []
        elif is_visible(message) or not some_visible:
            expected += own
    assert lines_of(prompt.question) == expected
    assert prompt.question == prompt.question.rstrip()
    assert "\r\n" not in prompt.question


@spec("R24", "R25", "R28", "R29", "R30", "R31", "R34", "P1", "P2", "P12", "P13")
@bounded(200)
@given(messages=conversations(), system_prompt=texts)
def test_chat_prompt_holds_every_line_once_with_the_system_first(
    messages: tuple[Message, ...], system_prompt: str
) -> None:
    prompt = format_case(case_of(messages, system_prompt), formatting_for())
    guidelines = guideline_lines(messages)
    system = lines_of(system_prompt) + (["[[ ## Guidelines ## ]]", *guidelines] if guidelines else [])
    expected: list[tuple[str, list[str]]] = []
    if needs_markers(messages):
        for message in messages:
            own = chat_lines(message)
            if message.role == "system":
                system += own
            elif own:
                expected.append((message.role, own))
        assert prompt.chat_prompt == prompt.messages
    else:
        assert prompt.chat_prompt is None
        expected.append(("user", lines_of(prompt.question)))
    if system:
        expected.insert(0, ("system", system))
    assert [(one.role, lines_of(one.content)) for one in prompt.messages] == expected


@spec("R9", "R18", "R26", "P2", "P16")
@bounded(150)
@given(messages=conversations(), profile=st.sampled_from(["spec", "legacy", "agentv"]))
def test_no_profile_loses_or_moves_a_line(messages: tuple[Message, ...], profile: Any) -> None:
    prompt = format_case(case_of(messages), formatting_for(profile))
    spoken = [
        (message.role, lines_of(part.text or ""))
        for message in messages
        for part in message.parts
        if speaks(part) and not is_guide(part)
    ]
    in_place = [line for _, lines in spoken for line in lines]
    assert is_in_order(in_place, lines_of(prompt.question))
    system_first = sorted(spoken, key=lambda one: one[0] != "system") if profile == "spec" else spoken
    sent = [line for message in prompt.messages for line in lines_of(message.content)]
    assert is_in_order([line for _, lines in system_first for line in lines], sent)


@spec("R3", "R10", "P11", "P16")
@bounded(150)
@given(messages=conversations(), system_prompt=texts)
def test_modes_agree_on_markers(messages: tuple[Message, ...], system_prompt: str) -> None:
    def decided(profile: Any) -> bool:
        case = case_of(messages, system_prompt)
        [marked] = {format_case(case, formatting_for(profile), mode).role_markers for mode in ("lm", "agent")}
        return marked

    talks = any(message.role in ("assistant", "tool") for message in messages)
    seen_by_agentv = sum(any(speaks(part) for part in message.parts) for message in messages)
    seen_by_legacy = sum(is_visible(message) for message in messages if message.role != "system")
    assert decided("spec") is needs_markers(messages)
    assert decided("legacy") is (talks or seen_by_legacy > 1)
    assert decided("agentv") is (talks or seen_by_agentv > 1)


@spec("R13", "R17", "R20", "R38", "P5")
@bounded(150)
@given(messages=conversations(), profile=st.sampled_from(["spec", "legacy"]), mode=st.sampled_from(["lm", "agent"]))
def test_guidelines_are_never_in_question(messages: tuple[Message, ...], profile: Any, mode: Any) -> None:
    prompt = format_case(case_of(messages), formatting_for(profile), mode)
    assert "GUIDE " not in prompt.question
    assert lines_of(prompt.guidelines) == guideline_lines(messages)


# Small things that everything rests on

any_text = st.text("ab\n\r\ufeff \t\x85\u3000", max_size=8) | st.text(
    st.characters(exclude_categories=["Cs"]), max_size=20
)


@spec("P2", "C17")
@bounded(200)
@given(text=texts)
def test_trimming_keeps_what_is_said(text: str) -> None:
    whole = text.removeprefix("\ufeff").replace("\r\n", "\n").rstrip()
    trimmed = trim(text)
    assert whole.endswith(trimmed)
    assert not whole.removesuffix(trimmed).strip()
    assert not trimmed or trimmed.split("\n")[0].strip(), "the first line says something, and keeps its indentation"


@spec("P2", "C17")
@bounded(200)
@given(text=any_text)
def test_trimming_twice_is_trimming_once(text: str) -> None:
    trimmed = trim(text)
    assert trimmed == trimmed.rstrip()
    assert not trimmed or trimmed.split("\n")[0].strip()
    assert trim(trimmed) == trimmed


GLOB_PIECES = ["a", "b", "*", "**", "?", "/", "/", "**/", "/**", ".", ("a", "b"), ("a", ""), ("*", "b/a")]


@spec("R16", "P9")
@bounded(200)
@given(
    pieces=st.lists(st.sampled_from(GLOB_PIECES), min_size=1, max_size=6),
    path=st.text("ab./\\", min_size=1, max_size=7),
)
def test_globs_agree_with_brute_force(pieces: list[Any], path: str) -> None:
    pattern = "".join(piece if isinstance(piece, str) else f"{{{','.join(piece)}}}" for piece in pieces)
    choices = [[piece] if isinstance(piece, str) else piece for piece in pieces]
    alternatives = ["".join(chosen) for chosen in product(*choices)]
    assume(not any(alternative.startswith("./") for alternative in alternatives))
    plain = path.replace("\\", "/").removeprefix("./")
    assume(not plain.startswith("./"))
    expected = any(_match_segments(one.split("/"), plain.split("/")) for one in alternatives)
    assert matches_path(path, (pattern,)) is expected


def _match_segments(globs: list[str], segments: list[str]) -> bool:
    if not globs:
        return not segments
    if globs[0] == "**":
        return any(_match_segments(globs[1:], segments[start:]) for start in range(len(segments) + 1))
    return bool(segments) and _match_text(globs[0], segments[0]) and _match_segments(globs[1:], segments[1:])


def _match_text(glob: str, text: str) -> bool:
    if not glob:
        return not text
    if glob[0] == "*":
        return any(_match_text(glob[1:], text[start:]) for start in range(len(text) + 1))
    return bool(text) and glob[0] in ("?", text[0]) and _match_text(glob[1:], text[1:])


@spec("R16", "P9")
@bounded(150)
@given(pattern=st.text("ab*?/{},.[]!-\\", max_size=12), path=st.text("ab/.{},\\", max_size=8))
def test_any_pattern_is_answered(pattern: str, path: str) -> None:
    assert matches_path(path, (pattern,)) in (True, False)
    assert matches_path(path, (pattern, "**")) is True


@spec("R43", "P30")
@bounded(200)
@given(
    messages=st.lists(
        st.builds(ChatMessage, st.sampled_from(ROLES), any_text | st.sampled_from(ODD_TEXTS) | texts), max_size=6
    )
)
def test_toon_survives_the_round_trip(messages: list[ChatMessage]) -> None:
    plain = [{"role": message.role, "content": message.content} for message in messages]
    written = rejoinder.to_toon(messages)
    assert written == rejoinder.to_toon(plain)
    assert decode(written) == plain


@spec("P22")
@bounded(200)
@given(
    path=st.lists(
        st.integers(0, 10**6)
        | st.sampled_from(WORDS)
        | st.text(st.characters(exclude_characters=".[]", exclude_categories=["Cs"]), min_size=1, max_size=8),
        max_size=8,
    ).map(tuple)
)
def test_places_can_be_read_back(path: tuple[str | int, ...]) -> None:
    assert read_path(write_path(path)) == path
