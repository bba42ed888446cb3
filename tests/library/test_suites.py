"""Suites from files, texts, mappings and Python: loaded, run, and used again without the program."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml

import rejoinder
from rejoinder import Case, FollowUp, Suite, SuiteError, UsageError, checks
from rejoinder.runs.folder import RunFolder
from rejoinder.runs.recorded import RecordedRun, Untrusted
from rejoinder.server.copies import as_yaml
from tests.kit import Project, Raw, case, run_folders, scripted

MAPPING: Raw = {
    "name": "the shop",
    "targets": [scripted("it", "no", "yes")],
    "target": "it",
    "evals": [case("a", {"match": "yes"}), case("b", {"match": "no"})],
}
SUITE = Suite(
    name="written",
    targets=[scripted("it", "no", "yes")],
    target="it",
    evals=[
        Case(id="a", prompt="x", checks=[checks.match("yes", follow_up=FollowUp("y", checks=[checks.match("yes")]))]),
        Case(id="b", prompt="x", tags=["t"], checks=[checks.match("no")]),
    ],
)
TEXT = """\
name: text
targets: [{name: it, provider: scripted, replies: [yes]}]
target: it
evals:
- prompt: x
  checks: [match: yes]
"""


def test_a_suite_is_a_path_a_mapping_a_suite_or_a_list_of_them(project: Project) -> None:
    project.write("evals.yaml", {**MAPPING, "name": "file"})
    given: list[tuple[Any, int]] = [
        ("evals.yaml", 2),
        (Path("evals.yaml"), 2),
        (MAPPING, 2),
        (SUITE, 2),
        (rejoinder.load("evals.yaml"), 2),
        (rejoinder.load(MAPPING), 2),
        (rejoinder.loads(TEXT), 1),
        (["evals.yaml", MAPPING, SUITE, rejoinder.loads(TEXT)], 7),
    ]
    for suite, total in given:
        assert rejoinder.run(suite).summary.total == total
    for wrong, words in ((7, "not a int"), ([b"x"], "not a bytes")):
        anything: Any = wrong
        with pytest.raises((UsageError, TypeError), match=words if isinstance(wrong, list) else "int"):
            rejoinder.run(anything)
    with pytest.raises(UsageError, match="two suites of this run are named `the-shop`"):
        rejoinder.run([MAPPING, dict(MAPPING)])


def test_load_takes_what_run_takes(project: Project) -> None:
    project.write("evals.yaml", {**MAPPING, "name": "file"})
    loaded = rejoinder.load("evals.yaml")
    assert rejoinder.load(loaded) is loaded
    assert [case.id for case in rejoinder.load(SUITE).cases] == ["a", "b"]
    several = rejoinder.load(["evals.yaml", MAPPING, SUITE, loaded])
    assert [one.name for one in several] == ["file", "the shop", "written", "file"]
    assert several[3] is loaded
    assert rejoinder.load([]) == []
    assert rejoinder.run(several[:3]).summary.total == 6
    other: Raw = {**MAPPING, "targets": [*MAPPING["targets"], scripted("other", "yes")]}
    assert [case.targets for case in rejoinder.load(rejoinder.load(other), target="other").cases] == [("other",)] * 2
    wrong: Any = [7]
    with pytest.raises(UsageError, match="a suite is a path, a mapping or a Suite, and not a int"):
        rejoinder.load(wrong)
    with pytest.raises(SuiteError) as raised:
        rejoinder.load([{"name": "a", "evals": [{"promt": "x"}]}, {"name": "b", "evals": [{"prompt": ""}]}])
    assert {problem.file for problem in raised.value.problems} == {"a", "b"}


def test_validate_takes_what_run_takes(project: Project) -> None:
    project.write("evals.yaml", {**MAPPING, "name": "file"})
    for given in ("evals.yaml", MAPPING, SUITE, rejoinder.load("evals.yaml"), rejoinder.loads(TEXT), [MAPPING, SUITE]):
        assert rejoinder.validate(given).errors == 0, given
    assert rejoinder.validate().errors == 0  # the project's own
    found = rejoinder.validate({"name": "a", "evals": [{"promt": "x"}]}, "evals.yaml")
    assert [(file.path, len(file.errors)) for file in found.files] == [("evals.yaml", 0), ("a", found.errors)]
    assert found.files[1].errors[0].path == "evals[0].promt"
    open_one = {"name": "open", "targets": [scripted("it", "yes"), scripted("other", "no")], "evals": [case("a")]}
    assert rejoinder.validate(rejoinder.load(open_one, target="it")).errors == 0
    wrong: Any = 7
    with pytest.raises(UsageError, match="not a int"):
        rejoinder.validate(wrong)


def test_mistakes_of_all_suites_come_together(project: Project) -> None:
    project.write("a.yaml", "evals: [{promt: Hello}]")
    with pytest.raises(SuiteError) as raised:
        rejoinder.run(["a.yaml", {"name": "b", "evals": [{"prompt": ""}]}])
    assert {problem.file for problem in raised.value.problems} == {"a.yaml", "b"}


def test_a_problem_in_a_mapping_names_its_path_and_one_in_a_text_its_line(project: Project) -> None:
    bad: Raw = {
        "name": "shop",
        "evals": [{"id": "a", "promt": "x"}, {"id": "a", "prompt": "{{ y }}", "checks": [{"match": ""}]}],
    }
    with pytest.raises(SuiteError) as raised:
        rejoinder.load(bad)
    text = str(raised.value)
    assert "shop: evals[0].promt: unknown key `promt` in a case; did you mean `prompt`?" in text
    assert "shop: evals[1].id: the id `a` is already used, as `evals[0].id`" in text
    assert "shop: evals[1].checks[0].match: `match` is empty" in text
    assert {(one.line, one.column, one.source, one.suggestion) for one in raised.value.problems} == {(0, 0, None, None)}
    with pytest.raises(SuiteError, match=r"suite:2:3: unknown key `promt`"):
        rejoinder.loads("evals:\n- promt: x\n")
    with pytest.raises(SuiteError, match=r"suite:2:11: "):
        rejoinder.loads("evals:\n- prompt: [x\n")
    again = Suite(evals=[Case(id="a", prompt="x"), Case(id="a", prompt="x")])
    with pytest.raises(SuiteError, match=r"suite: evals\[0\].checks: nothing grades this case"):
        _ = again.cases
    repeated: Raw = {**MAPPING, "targets": [scripted("it", "x"), scripted("it", "x")]}
    with pytest.raises(SuiteError, match=r"there is a target `it` already, as `targets\[0\].name`"):
        rejoinder.load(repeated)


def test_cases_are_a_sequence(project: Project) -> None:
    rows = "\n".join(json.dumps({"n": n}) for n in range(9))
    project.write("data/rows.jsonl", rows)
    written = Suite(
        target="it",
        targets=[scripted("it", "x")],
        cases="rows.jsonl",
        defaults=Case(prompt="{{ n }}", tags=["t"], checks=[checks.match("x")]),
        variants=[{"name": "one"}, {"name": "two", "prompt_prefix": "So: "}],
        folder="data",
    )
    found = written.cases
    assert isinstance(found, Sequence) and len(found) == 18
    assert [one.id for one in found][:2] == [found[0].id, found[1].id] == [one.id for one in found[:2]]
    assert found[-1].id == found[17].id and list(found) == list(found)
    assert {one.variant for one in found} == {"one", "two"} and found[0].tags == ("t",) and found[-1].line == 9
    for wrong in (18, -19):
        with pytest.raises(IndexError, match="the suite has 18 cases"):
            _ = found[wrong]
    assert repr(found) == "<Cases: 18 cases: 'eval-1', 'eval-1', 'eval-2', 'eval-2'>"
    assert rejoinder.loads(TEXT).cases[0].line == 5


def test_suites_are_compared_by_what_they_say(project: Project) -> None:
    project.write("evals.yaml", TEXT)
    loaded = rejoinder.load("evals.yaml")
    assert loaded == rejoinder.loads(TEXT) != rejoinder.loads(TEXT.replace("text", "other"))
    assert loaded.to_yaml() == TEXT and loaded != TEXT
    assert (loaded.name, loaded.path, loaded.folder) == ("text", project.folder / "evals.yaml", project.folder)
    assert (rejoinder.loads(TEXT).path, SUITE.path, SUITE.name) == (None, None, "written")
    assert set(loaded.targets) == {"it"}


@pytest.mark.parametrize("suite", [SUITE, MAPPING], ids=["written", "mapping"])
def test_a_run_of_a_suite_without_a_file_needs_no_program(suite: Any, project: Project) -> None:
    first = rejoinder.run(suite)
    before = first.summary.passed
    assert rejoinder.show(first).summary.passed == before
    project.run("show", "last", code=None)
    for name in ("summary.json", "results.jsonl"):
        (first.folder.path / name).unlink()
    assert "a" in project.run("resume", first.run.id, code=None)
    assert rejoinder.show(first).summary.passed == before
    assert rejoinder.replay(first).summary.passed == before
    assert rejoinder.grade(first).summary.passed == before
    assert rejoinder.fork(first, "b", 1, prompt="Again?").results[0].turns[0].prompt == "Again?"
    assert "evals.yaml" not in project.run("report", first.run.id, code=None)


def test_the_run_has_the_yaml_of_its_suite(project: Project) -> None:
    report = rejoinder.run(SUITE)
    [stored] = RecordedRun(report.folder, project.folder).stored.suites
    assert (stored.text, stored.folder) == (SUITE.to_yaml(), str(project.folder))
    result = report.results[1]
    text = RecordedRun(report.folder, project.folder).text_of(result.file)
    copied = as_yaml(result, project.folder, report.run.id, text)
    assert yaml.safe_load(copied)["evals"] == [SUITE.origin_data["evals"][1]]
    project.write("evals.yaml", MAPPING)
    [file] = RecordedRun(rejoinder.run("evals.yaml").folder, project.folder).stored.suites
    assert (file.text, file.folder) == ("", None)


def test_a_copied_folder_decides_nothing_without_trust(
    project: Project, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """The text of a run from elsewhere is shown, and run only with trust."""
    report = rejoinder.run(SUITE)
    there = project.folder / ".rejoinder" / "runs" / "20260101-000000-0badcafe"
    shutil.copytree(report.folder.path, there)
    (there / "summary.json").unlink()
    (there / "results.jsonl").unlink()
    receipt = json.loads((there / "run.json").read_bytes())
    (there / "run.json").write_text(json.dumps({**receipt, "id": there.name}), encoding="utf-8")
    copy = RecordedRun(RunFolder(there), project.folder)
    assert not copy.has_seal
    with pytest.raises(Untrusted, match="was made from a suite that is not here"):
        copy.suites()
    assert [len(list(one.cases)) for one in RecordedRun(RunFolder(there), project.folder, trust=True).suites()] == [2]
    assert len(run_folders(project.folder)) == 2


def test_relative_paths_are_looked_up_in_the_folder(project: Project) -> None:
    project.write("there/words.txt", "What is it?")
    suite = Suite(
        target="it",
        targets=[scripted("it", "yes")],
        evals=[Case(id="a", prompt={"file": "words.txt"}, checks=[checks.match("yes")])],
        folder="there",
    )
    assert rejoinder.run(suite).results[0].turns[0].prompt == "What is it?"
    mapping = suite.origin_data
    assert rejoinder.run(rejoinder.load(mapping, folder="there")).summary.passed == 1
    assert rejoinder.run(rejoinder.loads(suite.to_yaml(), "there")).summary.passed == 1
    with pytest.raises(SuiteError, match=r"words\.txt"):
        rejoinder.load(mapping)


def test_a_secret_of_a_mapping_does_not_reach_the_disk(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOP_KEY", "s3cret-of-the-shop-42")
    suite = {**MAPPING, "evals": [case("a", {"match": "no"}, prompt="{{ secret('SHOP_KEY') }}")]}
    literal = {
        **MAPPING,
        "name": "l",
        "targets": [
            *MAPPING["targets"],
            {"name": "o", "provider": "openai", "model": "m", "api_key": "sk-literal-4242424242"},
        ],
    }
    for given in (suite, literal):
        folder = rejoinder.run(given).folder.path
        for file in folder.iterdir():
            content = file.read_bytes() if file.is_file() else b""
            assert b"s3cret-of-the-shop-42" not in content and b"sk-literal-4242424242" not in content, file


def _nested(levels: int) -> Raw:
    value: Any = "x"
    for _ in range(levels):
        value = {"a": value}
    return {**MAPPING, "metadata": value}


def _recursive() -> Raw:
    found: Raw = {**MAPPING}
    found["metadata"] = {"again": found}
    return found


WRONG: dict[str, tuple[Callable[[], object], str]] = {
    "recursive": (lambda: rejoinder.load(_recursive()), "contains itself, or is nested more than 200 levels deep"),
    "deep": (lambda: rejoinder.run(_nested(3_000)), "contains itself, or is nested more than 200 levels deep"),
    "less deep": (lambda: rejoinder.run(_nested(150)), "nested more than 100 levels deep"),
    "no text": (lambda: rejoinder.loads(None), "a suite is loaded from a text, and not from a NoneType"),  # type: ignore[arg-type]
    "bytes": (lambda: rejoinder.loads(b""), "a suite is loaded from a text, and not from a bytes"),  # type: ignore[arg-type]
    "surrogate": (lambda: rejoinder.loads("name: '\udc80'"), r"has the character '\\udc80', which is not Unicode text"),
    "surrogate in a mapping": (lambda: rejoinder.load({**MAPPING, "name": "\udc80"}), "name has the character"),
    "folder": (lambda: rejoinder.loads(TEXT, folder=3), "folder is a path, and not a int"),  # type: ignore[arg-type]
    "folder of a mapping": (lambda: rejoinder.load(MAPPING, folder=3), "folder is a path"),  # type: ignore[call-overload]
    "runs folder": (lambda: rejoinder.run(MAPPING, runs_folder=3), "runs_folder is a path, and not a int"),  # type: ignore[arg-type]
    "NUL": (lambda: rejoinder.run(MAPPING, runs_folder="\0"), "runs_folder has a NUL character"),
    "path of bytes": (lambda: rejoinder.run(b"evals.yaml"), "and not a bytes"),  # type: ignore[arg-type]
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_arguments_end_in_one_clear_error(name: str, project: Project) -> None:
    call, words = WRONG[name]
    with pytest.raises((UsageError, SuiteError), match=words):
        call()
