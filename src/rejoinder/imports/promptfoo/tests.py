"""Tests of promptfoo: in the configuration, in files of YAML, JSON, JSONL and CSV, and for each value of a list."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

from msgspec import Struct, structs

from rejoinder.imports.promptfoo.assertions import split_at_commas
from rejoinder.imports.promptfoo.templates import has_marks
from rejoinder.imports.promptfoo.words import Lost, whole
from rejoinder.imports.sources import ImportFault, Spot
from rejoinder.imports.workbench import Workbench
from rejoinder.yaml_text import Comment

_MOST_CASES = 20_000
"""Maximum number of cases that lists of values may make."""
_BINARY = re.compile(
    r"\.(?:jpe?g|png|gif|bmp|webp|svg|tiff?|ico|avif|hei[cf]|mp[34]|wav|ogg|flac|m4a|mov|avi|mkv|webm|pdf|xlsx?)$",
    re.IGNORECASE,
)
_CODE = re.compile(r"\.(?:[cm]?[jt]s|py|rb)(?::\w+)?$")
_NAMES = (
    *("agent-rubric", "answer-relevance", "bleu", "classifier", "contains", "contains-all", "contains-any"),
    *("contains-html", "contains-json", "contains-sql", "contains-xml", "context-faithfulness", "context-recall"),
    *("context-relevance", "conversation-relevance", "cost", "equals", "factuality", "finish-reason", "g-eval", "gleu"),
    *("guardrails", "icontains", "icontains-all", "icontains-any", "is-html", "is-json", "is-refusal", "is-sql"),
    *("is-valid-function-call", "is-valid-openai-function-call", "is-valid-openai-tools-call", "is-xml", "javascript"),
    *("latency", "levenshtein", "llm-rubric", "meteor", "model-graded-closedqa", "model-graded-factuality"),
    *("moderation", "perplexity", "perplexity-score", "pi", "python", "regex", "rouge-n", "ruby", "search-rubric"),
    *("similar", "similar:cosine", "similar:dot", "similar:euclidean", "skill-used", "starts-with", "tool-call-f1"),
    *("trace-error-spans", "trace-span-count", "trace-span-duration", "trajectory:goal-success"),
    *("trajectory:step-count", "trajectory:tool-args-match", "trajectory:tool-sequence", "trajectory:tool-used"),
    *("webhook", "word-count"),
)
"""The kinds that promptfoo finds in a cell; it takes any other text for the whole reply."""
_CELL = re.compile(
    rf"(not-)?({'|'.join(sorted(map(re.escape, _NAMES), key=len, reverse=True))})"
    r"(?:\((\d+(?:\.\d+)?)\))?(?::([\s\S]*))?"
)
_NUMBER = re.compile(r"[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?")
_THRESHOLDS = frozenset(
    (
        *("answer-relevance", "classifier", "context-faithfulness", "context-recall", "context-relevance", "cost"),
        *("latency", "levenshtein", "perplexity", "perplexity-score", "rouge-n", "similar", "starts-with"),
    )
)
"""The kinds whose cells have a threshold."""
KEYS_OF_CASES = frozenset(
    (
        *(
            "id",
            "name",
            "description",
            "note",
            "prompt",
            "input_messages",
            "checks",
            "threshold",
            "outcome",
            "tags",
            "vars",
        ),
        *(
            "expected_outcome",
            "expected_messages",
            "conversation_id",
            "execution",
            "evaluators",
            "evaluator",
            "rubrics",
        ),
        *("system_prompt", "metadata", "cases", "followups", "max_turns", "control", "repeat", "pass", "quarantine"),
        *(
            "turns",
            "on_turn_failure",
            "aggregation",
            "pass_steps",
            "window_size",
            "conversation_checks",
            "user",
            "mode",
        ),
        *("ready_followups", "shards", "criteria", "input", "assert", "assertions", "tools", "max_tool_rounds"),
        *("reply", "output_schema", "times", "context", "tool_sets", "tool_state", "canary"),
    )
)
"""Columns that a data set does not take for variables."""


class Test(Struct, frozen=True):
    """One test: a case for each prompt and provider."""

    spot: Spot
    vars: dict[str, Any]
    asserts: tuple[Spot, ...] = ()
    kinds: frozenset[str] = frozenset()
    comments: tuple[Comment, ...] = ()
    """Of what has no form in it."""
    first: bool = True
    """Whether it is the first of those that a list of values makes."""


class Block(Struct, frozen=True):
    """Tests that stand together: in the configuration, or in a file."""

    spot: Spot
    tests: tuple[Test, ...]
    path: Path | None = None
    """The file."""
    is_data: bool = False
    """Whether the file can be used unchanged: rows with nothing but variables."""
    comments: tuple[Comment, ...] = ()


class Shared(Struct, frozen=True):
    """The parts of the default test that decide how many tests there are."""

    lists: dict[str, Any]
    """Its variables with lists of values, each of which makes a test."""
    as_written: bool
    """Whether lists make no tests."""


def read_tests(spot: Spot, bench: Workbench, shared: Shared) -> list[Block]:
    """The tests under a key of the configuration, in order. Raises ImportFault."""
    blocks: list[Block] = []
    number = 0
    for item in spot.items:
        try:
            block = _block(item, bench, shared)
        except Lost as lost:
            block = Block(item, (), comments=(*item.above(), bench.ledger.leave_out(item, lost.what, lost.how)))
        number += len(block.tests)
        if number > _MOST_CASES:
            raise item.fault(f"the tests make more than {_MOST_CASES:,} cases")
        blocks.append(block)
    return blocks


def _block(item: Spot, bench: Workbench, shared: Shared) -> Block:
    value = item.value
    if isinstance(value, dict) and "path" in value:
        raise Lost(str(value["path"])[:60], "the tests are made by code, which an import does not run")
    if isinstance(value, dict):
        return Block(item, tuple(_expanded(_test(item, bench), bench, shared)))
    if not isinstance(value, str) or not value.strip():
        raise Lost("a test", "it is neither a mapping nor a path")
    if "://" in value and not value.startswith("file://"):
        raise Lost(value[:60], "tests of other services are not fetched")
    written = value.removeprefix("file://")
    if _CODE.search(written):
        raise Lost(written[:60], "the tests are made by code, which an import does not run")
    paths = (
        item.matching(written) if any(sign in written for sign in "*?[") else [item.locate(written.partition("#")[0])]
    )
    if not paths or not all(path.is_file() for path in paths):
        raise Lost(written[:60], "there is no such file")
    if len(paths) == 1:
        return _of_file(item, paths[0], bench, shared)
    blocks = [_of_file(item, path, bench, shared) for path in paths]
    return Block(item, tuple(test for block in blocks for test in block.tests))


def _of_file(item: Spot, path: Path, bench: Workbench, shared: Shared) -> Block:
    suffix = path.suffix.lower()
    if suffix == ".csv":
        rows = read_rows(item, path)
        tests = [one for row in rows for one in _expanded(read_row(row), bench, shared)]
        return Block(item, tuple(tests), path, is_data=not shared.lists and all(map(_is_data, rows)))
    if suffix in (".jsonl", ".ndjson"):
        rows = read_rows(item, path)
        is_data = not shared.lists and all(
            set(row.value) == {"vars"} and isinstance(row.value["vars"], dict) and not _has_marks(row.value)
            for row in rows
        )
        tests = [one for row in rows for one in _expanded(_test(row, bench), bench, shared)]
        return Block(item, tuple(tests), path, is_data)
    if suffix not in (".yaml", ".yml", ".json"):
        raise Lost(path.name, "only CSV, JSON, JSONL and YAML are read")
    inner = item.file.folder.read(path).spot
    tests = [
        one
        for test in inner.items
        if isinstance(test.value, dict)
        for one in _expanded(_test(test, bench), bench, shared)
    ]
    return Block(item, tuple(tests), path)


def read_rows(item: Spot, path: Path) -> list[Spot]:
    """The rows of a data set. Raises Lost for a broken row, and ImportFault for a file that cannot be read at all."""
    try:
        return list(item.rows_of(path))
    except ImportFault as fault:
        if not fault.line:
            raise
        raise Lost(f"{path.name}:{fault.line}", fault.what) from None


def _has_marks(value: Any) -> bool:
    return (
        has_marks(json.dumps(value, ensure_ascii=False))
        or "file://" in json.dumps(value)
        or any(isinstance(one, list) for one in value["vars"].values())
    )


def _is_data(row: Spot) -> bool:
    """Whether a row has nothing but variables."""
    keys, cells = row.value.keys(), row.value.values()
    if any(key.startswith("__") or key in KEYS_OF_CASES or not re.fullmatch(r"[A-Za-z_]\w*", key) for key in keys):
        return False
    return not any(has_marks(cell) or cell.startswith("file://") or cell.endswith("\n") for cell in cells)


def _test(spot: Spot, bench: Workbench) -> Test:
    """A test as a mapping."""
    asserts: list[Spot] = []
    for item in spot["assert"].items:
        asserts += _assertions_of(item)
    variables, comments = read_variables(spot["vars"], bench)
    return Test(spot, variables, tuple(asserts), comments=tuple(comments))


def read_variables(values: Spot, bench: Workbench) -> tuple[dict[str, Any], list[Comment]]:
    """The variables of a test, and comments for those that have no form here."""
    comments: list[Comment] = []
    variables: dict[str, Any] = {}
    if isinstance(values.value, str):
        comments.append(bench.ledger.leave_out(values, "vars", "variables in a file have no form here"))
    for name, one in values.pairs:
        try:
            variables[name] = _variable(one)
        except Lost as lost:
            comments.append(bench.ledger.leave_out(one, f"variable {name}", lost.how))
    return variables, comments


def _assertions_of(item: Spot) -> Iterator[Spot]:
    """An assertion, or the assertions of a file."""
    value = item.value
    if isinstance(value, str) and re.fullmatch(r"file://.*\.(?:ya?ml|json)", value):
        path = item.locate(value.removeprefix("file://"))
        if path.is_file():
            yield from item.file.folder.read(path).spot.items
            return
    yield item


def _variable(spot: Spot) -> Any:
    """The value of a variable. Raises Lost."""
    value = spot.value
    if isinstance(value, str) and value.startswith("file://"):
        return _of_variable_file(spot, value.removeprefix("file://"))
    if isinstance(value, str) and value.startswith("package:"):
        raise Lost(value[:60], "it is made by code, which an import does not run")
    if isinstance(value, list):
        return [
            _of_variable_file(spot[n], one.removeprefix("file://"))
            if isinstance(one, str) and one.startswith("file://")
            else _clean(one)
            for n, one in enumerate(value)
        ]
    return _clean(value)


def _clean(value: Any) -> Any:
    """A value as promptfoo sends it: without the line end after a block of text."""
    if isinstance(value, str):
        return value.removesuffix("\n")
    return "" if value is None else _in_javascript(value)


def _in_javascript(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _in_javascript(one) for key, one in value.items()}
    if isinstance(value, list):
        return [_in_javascript(one) for one in value]
    return whole(value)


def _of_variable_file(spot: Spot, written: str) -> Any:
    if _CODE.search(written):
        raise Lost(written[:60], "it is made by code, which an import does not run")
    if _BINARY.search(written):
        raise Lost(written[:60], "pictures, sound and documents are not sent")
    if has_marks(written):
        raise Lost(written[:60], "the file depends on variables")
    if any(sign in written for sign in "*?["):
        files = [path for path in spot.matching(written) if path.is_file()]
        if not files:
            raise Lost(written[:60], "no file matches")
        return [_file_value(spot, path) for path in files]
    path = spot.locate(written)
    if not path.is_file():
        raise Lost(written[:60], "there is no such file")
    return _file_value(spot, path)


def _file_value(spot: Spot, path: Path) -> str:
    if path.suffix.lower() in (".yaml", ".yml"):
        data = _in_javascript(spot.file.folder.read(path).spot.value)
        return json.dumps(data, ensure_ascii=False, separators=(",", ":"))
    return spot.text_of(path).strip()


def _expanded(test: Test, bench: Workbench, shared: Shared) -> Iterator[Test]:
    """A test for each combination of the values of its lists."""
    options = test.spot["options"]
    lists = {
        name: value
        for name, value in {**shared.lists, **test.vars}.items()
        if isinstance(value, list) and value and isinstance(value[0], str)
    }
    own = options["disableVarExpansion"].value
    if not lists or (shared.as_written if own is None else own):
        yield test
        return
    number = 1
    for values in lists.values():
        number *= len(values)
    if number > _MOST_CASES:
        raise test.spot.fault(f"its lists of values make more than {_MOST_CASES:,} cases")
    bench.ledger.map(test.spot["vars"])
    for place, chosen in enumerate(product(*lists.values())):
        variables = {**test.vars, **dict(zip(lists, map(_clean, chosen), strict=True))}
        yield structs.replace(test, vars=variables, first=not place)


# Rows of CSV files


def read_row(row: Spot) -> Test:
    """A test from a row: columns with two underscores are not variables."""
    variables: dict[str, Any] = {}
    asserts: list[Any] = []
    mapping: dict[str, Any] = {}
    for written, cell in row.value.items():
        key, value = written.strip(), cell.strip()
        if key.startswith("__expected"):
            if value:
                asserts.append(read_cell(value))
        elif key.startswith("__"):
            _read_column(key, value, mapping, asserts)
        else:
            variables[key] = cell
    for one in asserts:
        if mapping.get("metric"):
            one["metric"] = mapping["metric"]
    spot = structs.replace(row, value=mapping)
    return Test(spot, variables, tuple(structs.replace(row, value=one) for one in asserts))


def _read_column(key: str, value: str, mapping: dict[str, Any], asserts: list[Any]) -> None:
    number = _NUMBER.fullmatch(value)
    found = re.fullmatch(r"__config:__expected(\d*):threshold", key)
    if found is not None and number is not None:
        place = int(found[1] or 1) - 1
        if 0 <= place < len(asserts):
            asserts[place]["threshold"] = float(value)
    elif key == "__threshold" and number is not None:
        mapping["threshold"] = float(value)
    elif key in ("__description", "__metric") and value:
        mapping[key.removeprefix("__")] = value
    elif key in ("__prefix", "__suffix") and value:
        mapping.setdefault("options", {})[key.removeprefix("__")] = value
    elif key.startswith("__metadata:") and value:
        mapping.setdefault("metadata", {})[key.removeprefix("__metadata:").removesuffix("[]")] = value
    elif key == "__providerOutput" and value:
        mapping["providerOutput"] = value


def read_cell(text: str) -> dict[str, Any]:
    """The assertion of a cell: `contains-any: a, b`, `similar(0.8): text`, `javascript: code`, or the whole reply."""
    for start, kind in (
        ("javascript:", "javascript"),
        ("fn:", "javascript"),
        ("eval:", "javascript"),
        ("python:", "python"),
        ("grade:", "llm-rubric"),
        ("llm-rubric:", "llm-rubric"),
    ):
        if text.startswith(start):
            return {"type": kind, "value": text.removeprefix(start).strip()}
    if text.startswith("file://") and _CODE.search(text):
        return {"type": "python" if ".py" in text else "javascript", "value": text}
    found = _CELL.fullmatch(text)
    if found is None:
        return {"type": "equals", "value": text}
    negated, kind, threshold, value = found.groups()
    cell: dict[str, Any] = {"type": f"{negated or ''}{kind}", "value": value.strip() if value else value}
    if kind.endswith(("-any", "-all")) and value:
        cell["value"] = split_at_commas(value)
    if kind in _THRESHOLDS:
        cell["threshold"] = float(threshold) if threshold else 0.8 if kind == "similar" else 0.75
    return {key: one for key, one in cell.items() if one is not None}
