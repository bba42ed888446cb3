"""The headings of conversations: title, id and number of the case."""

from __future__ import annotations

from typing import Any

import pytest

from tests.kit import Project, scripted

pytestmark = pytest.mark.spec("P36")


def headings(project: Project, *arguments: str) -> list[str]:
    output = project.run("run", *arguments, "--verbose", code=None)
    return [line for line in output.splitlines() if line.startswith("Eval ")]


def suite_of(*cases: dict[str, Any], **suite: Any) -> dict[str, Any]:
    target = scripted("t", "x")
    return {"targets": [target], "evals": [{"checks": [{"match": "*"}], **case} for case in cases], **suite}


CONVERSATION = [
    {"role": "system", "content": "You sell shoes."},
    {"role": "user", "content": "Hello."},
    {"role": "assistant", "content": "Hi."},
    {"role": "user", "content": [{"type": "file", "value": "a.txt"}, "\nWhich size fits?\nI have large feet."]},
]


def test_the_title_of_a_conversation_is_the_first_line_of_the_last_user_text(project: Project) -> None:
    project.write("a.txt", "x")
    project.write("evals.yaml", suite_of({"input_messages": CONVERSATION}, {"prompt": "One?\nTwo?"}))
    assert headings(project) == ["Eval 1: Which size fits?", "Eval 2: One?"]


def test_a_name_wins_over_the_text(project: Project) -> None:
    project.write("evals.yaml", suite_of({"name": "greeting", "prompt": "Hello?"}))
    assert headings(project) == ["Eval 1: greeting"]


def test_an_id_that_the_author_wrote_stands_behind_the_title(project: Project) -> None:
    cases = ({"id": "shoes", "prompt": "Which?"}, {"prompt": "What?"}, {"id": "eval-3", "name": "n", "prompt": "q"})
    project.write("evals.yaml", suite_of(*cases))
    assert headings(project) == ["Eval 1: Which? [shoes]", "Eval 2: What?", "Eval 3: n [eval-3]"]


def test_a_conversation_without_user_text_is_called_by_its_id(project: Project) -> None:
    project.write("a.txt", "x")
    files = [{"role": "user", "content": [{"type": "file", "value": "a.txt"}]}]
    project.write("evals.yaml", suite_of({"id": "file", "input_messages": files}))
    assert headings(project) == ["Eval 1: file [file]"]


def test_the_number_counts_the_cases_of_the_file_and_not_of_the_selection(project: Project) -> None:
    cases = [{"id": name, "prompt": f"{name}?", "tags": [name]} for name in "abc"]
    project.write("evals.yaml", suite_of(*cases))
    assert headings(project, "--case", "c") == ["Eval 3: c? [c]"]
    assert headings(project, "--tag", "b") == ["Eval 2: b? [b]"]
    shown = project.run("show", "--verbose")
    assert shown.startswith("Eval 2: b? [b]\n")


def test_rows_of_data_sets_are_counted_like_cases(project: Project) -> None:
    project.write("rows.csv", "id,city\nlima,Lima\noslo,Oslo\n")
    suite = suite_of({"prompt": "First?"}, {"id": "city", "prompt": "{{ city }}?", "cases": "rows.csv"})
    project.write("evals.yaml", suite)
    assert headings(project) == ["Eval 1: First?", "Eval 2: Lima? [city-lima]", "Eval 3: Oslo? [city-oslo]"]


def test_several_suites_count_each_their_own_and_are_told_apart(project: Project) -> None:
    for name in ("a", "b"):
        project.write(f"{name}.yaml", suite_of({"prompt": "One?"}, {"prompt": "Two?"}, name=name))
    assert headings(project, "a.yaml", "b.yaml") == [
        "Eval 1 (a): One?",
        "Eval 2 (a): Two?",
        "Eval 1 (b): One?",
        "Eval 2 (b): Two?",
    ]


def test_results_have_number_and_title(project: Project) -> None:
    project.write("evals.yaml", suite_of({"prompt": "One?"}, {"id": "b", "prompt": "Two?"}))
    results = project.run_json("run", "--case", "b")["results"]
    assert [(one["number"], one["title"], one["id_written"]) for one in results] == [(2, "Two?", True)]
