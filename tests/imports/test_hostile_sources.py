"""Sources that attack the importer end in one clear error, and a suite that was made can be loaded."""

from __future__ import annotations

import json
import os
import re
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as some

from rejoinder.errors import UsageError
from rejoinder.imports.kinds import KINDS, ImportKind
from rejoinder.imports.workbench import import_files
from rejoinder.suite.load import read_suite
from tests.kit import Project, bounded, refusal

DATA_KINDS = [kind for kind in KINDS if kind.name in ("skills", "deepeval", "inspect")]
KEYS = re.findall(
    r"\w+",
    """
    evals id name prompt expected_output files assertions text category tags skill_name should_trigger weight input
    expectedOutput scenario turns role content persona characteristics expected_tools inputParameters context
    comments target choices metadata sandbox messages tool_calls function arguments question path description
    version
    """,
)
texts = some.one_of(
    some.sampled_from(["", " ", "user", "assistant", "a", "{{ env('HOME') }}", "../x", "[{", "{}", "A", "*"]),
    some.text(max_size=12),
)
plain = some.one_of(some.none(), some.booleans(), some.integers(-3, 10**20), some.floats(), texts)
values = some.recursive(
    plain,
    lambda inner: some.lists(inner, max_size=4) | some.dictionaries(some.sampled_from(KEYS), inner, max_size=6),
    max_leaves=25,
)
rows = some.lists(some.dictionaries(some.sampled_from(KEYS), values, max_size=8), max_size=4)
documents = rows | some.fixed_dictionaries({"skill_name": plain, "evals": rows}) | values


def attempt(kind: ImportKind, path: Path, choice: str = "") -> list[str]:
    """Import a file; the texts of the suites that were made, each of which has to be valid."""
    try:
        bench, _ = import_files(kind, path, path.parent / "made", choice)
    except UsageError as error:
        assert str(error)
        return []
    files = [Path(file) for file in bench.write()]
    suites = [file for file in files if file.suffix == ".yaml"]
    for file in suites:
        problems = [problem for problem in read_suite(file).problems if problem.severity == "error"]
        assert not problems, (problems, file.read_text())
    return [file.read_text() for file in suites]


@pytest.mark.parametrize("kind", DATA_KINDS, ids=lambda kind: kind.name)
def test_any_json_is_a_valid_suite_or_one_error(kind: ImportKind) -> None:
    choices = kind.option.values if kind.option is not None else ("",)

    @bounded(400)
    @given(documents, some.sampled_from(choices), some.booleans())
    def check(document: Any, choice: str, is_data_set: bool) -> None:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "x.jsonl" if is_data_set and isinstance(document, list) else "x.json")
            lines = document if path.suffix == ".jsonl" else [document]
            path.write_text("\n".join(map(json.dumps, lines)))
            attempt(kind, path, choice)

    check()


@pytest.mark.parametrize("kind", DATA_KINDS, ids=lambda kind: kind.name)
def test_any_bytes_are_an_error_or_a_suite(kind: ImportKind) -> None:
    @bounded(200)
    @given(some.binary(max_size=60), some.sampled_from(["x.json", "x.jsonl", "x.csv"]))
    def check(content: bytes, name: str) -> None:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, name)
            path.write_bytes(content)
            attempt(kind, path, kind.option.values[0] if kind.option is not None else "")

    check()


@pytest.mark.parametrize("kind", [kind.name for kind in DATA_KINDS])
@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("x.json", "[" * 5000, "levels"),
        ("x.json", '{"a": ' * 200 + "1" + "}" * 200, "nested more than 100 levels"),
        ("x.json", "[{", "x.json"),
        ("x.json", b"\xff\xfe\x00", "UTF-16"),
        ("x.json", b"PK\x03\x04\x00\x00", "can"),
        ("x.json", '{"a": 1, "a": 2}', "second"),
        ("x.json", "a: &a [*a]", "an alias is inside the value that it names"),
    ],
)
def test_a_broken_source_is_one_error(project: Project, kind: str, name: str, content: str, message: str) -> None:
    project.write(name, content)
    words = refusal(project, "import", kind, name, "--out", "made")
    assert message in words
    assert not Path("made").exists()


@pytest.mark.parametrize("kind", ["deepeval", "inspect"])
@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("x.jsonl", '{"input": ' + "[" * 500 + "]" * 500 + "}", "nested more than 100 levels"),
        ("x.jsonl", '{"input": "a", "input": "b"}', "set twice"),
        ("x.csv", "input;target\na;b\n", "separated by `;`"),
        ("x.csv", "a,a\n1,2\n", "in the header twice"),
    ],
)
def test_a_broken_data_set_is_one_error(project: Project, kind: str, name: str, content: str, message: str) -> None:
    project.write(name, content)
    assert message in refusal(project, "import", kind, name, "--out", "made")


@pytest.mark.parametrize("kind", [kind.name for kind in DATA_KINDS])
def test_what_is_no_file_is_one_error(project: Project, kind: str) -> None:
    os.mkfifo("pipe.json")
    os.truncate(project.write("huge.json", "["), 1 << 40)  # without a disk of this size
    Path("loop.json").symlink_to("loop.json")
    for name in ("pipe.json", "huge.json", "loop.json", "none.json"):
        assert refusal(project, "import", kind, name)


@pytest.mark.parametrize("kind", ["deepeval", "inspect"])
def test_a_huge_data_set_is_one_error(project: Project, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rejoinder.imports.sources.MOST_ROWS", 1000)
    project.write("x.csv", "input,target\n" + "a,b\n" * 1001)
    assert "x.csv: it has more than 1,000 rows Import a part of it." in refusal(project, "import", kind, "x.csv")


def test_a_link_out_of_a_skill_is_not_followed(project: Project) -> None:
    project.write("secret.txt", "key")
    project.write("skill/SKILL.md", "x")
    files = ["evals/link.txt", "away/secret.txt"]
    project.write("skill/evals/evals.json", {"evals": [{"prompt": "x", "files": files}]})
    Path("skill/evals/link.txt").symlink_to(project.folder / "secret.txt")
    Path("skill/away").symlink_to(project.folder)
    report = project.run_json("import", "skills", "skill", "--out", "made")
    reasons = [loss["how"].split(" ", 1)[1] for loss in report["left_out"]]
    assert reasons == ["leads through a link, which is not followed"] * 2
