"""`cases` as a file, a folder, or a list of both."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import rejoinder
from rejoinder.cli.remote import gather
from rejoinder.cli.watch import Watched
from rejoinder.runs.options import RunOptions
from rejoinder.suite import datasets
from tests.kit import Project, Raw, run, scripted

DEFAULTS = {"prompt": "Capital of {{ country }}?", "outcome": "Is right."}


def suite_of(cases: Any, **more: Any) -> Raw:
    return {"cases": cases, "defaults": DEFAULTS, **more}


@pytest.fixture
def rows(project: Project) -> Project:
    project.write("rows/b.csv", "id,country\nperu,Peru\n")
    project.write("rows/a.jsonl", '{"id": "italy", "country": "Italy"}\n{"country": "Chad"}\n')
    project.write("rows/deep/c.ndjson", '{"id": "togo", "country": "Togo"}\n')
    project.write("rows/notes.md", "No data set.\n")
    project.write("rows/.hidden.csv", "id,country\nhidden,Hidden\n")
    project.write("rows/.git/d.csv", "id,country\ngit,Git\n")
    project.write("more.csv", "id,country\nmali,Mali\n")
    return project


def ids(project: Project, suite: Raw) -> list[str]:
    return [one["id"] for one in project.prompts(suite)]


def test_a_folder_is_all_of_its_data_sets_by_path(rows: Project) -> None:
    assert ids(rows, suite_of("rows")) == ["italy", "eval-2", "peru", "togo"]
    assert ids(rows, suite_of("rows/")) == ["italy", "eval-2", "peru", "togo"]


def test_a_list_is_files_and_folders_in_its_order(rows: Project) -> None:
    assert ids(rows, suite_of(["more.csv", "rows/deep", "rows/b.csv"])) == ["mali", "togo", "peru"]


def test_a_case_is_run_once_for_each_row_of_several_data_sets(rows: Project) -> None:
    asked = {"id": "capital", "cases": ["rows/a.jsonl", "more.csv"], **DEFAULTS}
    assert ids(rows, {"evals": [asked]}) == ["capital-italy", "capital-2", "capital-mali"]


def test_rows_of_several_data_sets_are_run_and_found_again(rows: Project) -> None:
    demo = {"targets": [scripted("demo", "Lima")], "target": "demo"}
    suite = suite_of(["rows", "more.csv"], **demo)
    suite["defaults"] = {"prompt": "Capital of {{ country }}?", "checks": [{"icontains": "lima"}]}
    document = run(rows, suite, code=0)
    assert [one["id"] for one in document["results"]] == ["italy", "eval-2", "peru", "togo", "mali"]
    assert [one["number"] for one in document["results"]] == [1, 2, 3, 4, 5]
    assert document["results"][3]["file"].endswith("rows/deep/c.ndjson")
    assert len(rows.run_json("replay", "last")["results"]) == 5
    rows.run("verify", "last")


def test_an_id_in_two_files_is_a_duplicate(rows: Project) -> None:
    rows.write("rows/deep/c.ndjson", '{"id": "peru", "country": "Peru"}\n')
    rows.write("evals.yaml", suite_of("rows"))
    [problem] = [error for one in rows.validate("evals.yaml")["files"] for error in one["errors"]]
    assert problem["code"] == "duplicate-id"
    assert "b.csv, line 2" in problem["message"]


@pytest.mark.parametrize(
    ("cases", "code", "path", "words"),
    [
        (["more.csv", "mroe.csv"], "file-not-found", "cases[1]", "did you mean `more.csv`"),
        ("empty", "file-not-found", "cases", "no data set: no file that ends with .jsonl, .ndjson or .csv"),
        (["rows/notes.md"], "unreadable-file", "", "not a data set"),
        ([], "out-of-range", "cases", "must not be empty"),
        ([5], "wrong-type", "cases[0]", "must be text"),
        ({"file": "more.csv"}, "wrong-type", "cases", "must be text or a list"),
    ],
)
def test_mistakes_are_explained(rows: Project, cases: Any, code: str, path: str, words: str) -> None:
    rows.write("empty/notes.md", "x")
    rows.write("evals.yaml", suite_of(cases))
    [problem] = [error for one in rows.validate("evals.yaml")["files"] for error in one["errors"]]
    assert (problem["code"], problem["path"]) == (code, path)
    assert words in problem["message"]


def test_an_empty_data_set_of_a_folder_is_named(rows: Project) -> None:
    rows.write("rows/z.csv", "id,country\n")
    [problem] = rows.errors(suite_of("rows"))
    assert problem["message"] == "the data set 'z.csv' has no rows"


def test_a_folder_has_a_bounded_number_of_data_sets(rows: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(datasets, "MOST_FILES", 2)
    [problem] = rows.errors(suite_of("rows"))
    assert (problem["code"], problem["message"]) == ("too-large", "the folder 'rows' has more than 2 data sets")


def test_links_in_a_circle_are_not_followed(rows: Project) -> None:
    Path("rows/deep/again").symlink_to(Path("rows").resolve())
    assert ids(rows, suite_of("rows")) == ["italy", "eval-2", "peru", "togo"]


def test_a_new_file_of_a_folder_is_noticed_while_watching(rows: Project) -> None:
    demo = {"targets": [scripted("demo", "Lima")], "target": "demo", "judge_target": "demo"}
    watched = Watched(rejoinder.load(rows.write("evals.yaml", suite_of("rows", **demo))).loaded, RunOptions())
    watched.load()
    watched.settle()
    rows.write("rows/new.txt.csv", "id,country\nnew,New\n")
    assert Path("rows").resolve() in {one.resolve() for one in watched.changed()}


def test_a_suite_is_sent_with_the_data_sets_of_a_folder(rows: Project) -> None:
    _, files = gather(rows.write("evals.yaml", suite_of(["rows", "more.csv"])).resolve())
    assert sorted(files) == ["more.csv", "rows/a.jsonl", "rows/b.csv", "rows/deep/c.ndjson"]
