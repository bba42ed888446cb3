"""Variants with a prompt, and variants whose variables name those of cases."""

from __future__ import annotations

from typing import Any

import pytest

from tests.kit import Project, Raw, case, codes, run, scripted


def questions(project: Project, suite: Raw) -> list[tuple[str, str, str]]:
    return [(one["id"], one["variant"], one["question"]) for one in project.prompts(suite)]


def asked(case_id: str = "one", **more: Any) -> Raw:
    """A case without words of its own."""
    return {"id": case_id, "outcome": "Good.", **more}


PROMPTS = [
    {"name": "tweet", "prompt": "Write a tweet about {{ topic }}."},
    {"name": "poem", "prompt": {"file": "prompts/poem.md"}},
]


def test_prompts_times_rows_give_every_prompt_with_every_row(project: Project) -> None:
    project.write("prompts/poem.md", "A poem on {{ topic }}, please.\n")
    project.write("rows.csv", "id,topic\na,bananas\nb,tides\n")
    suite = {"variants": PROMPTS, "cases": "rows.csv", "defaults": {"outcome": "Is on the topic."}}
    assert questions(project, suite) == [
        ("a", "tweet", "Write a tweet about bananas."),
        ("a", "poem", "A poem on bananas, please."),
        ("b", "tweet", "Write a tweet about tides."),
        ("b", "poem", "A poem on tides, please."),
    ]


def test_the_prompt_of_a_variant_is_run_and_counted(project: Project) -> None:
    replies = {"replies": ["Ripe"]}
    suite: Raw = {
        "targets": [scripted("demo", "Yes")],
        "target": "demo",
        "variants": [{"name": "p", "prompt": "On {{ topic }}?"}, {"name": "q", "prompt": "No.", "settings": replies}],
        "evals": [asked("a", vars={"topic": "tea"}, checks=[{"icontains": "yes"}])],
    }
    del suite["evals"][0]["outcome"]
    document = run(project, suite, code=1)
    found = [(one["variant"], one["turns"][0]["prompt"], one["status"]) for one in document["results"]]
    assert found == [("p", "On tea?", "passed"), ("q", "No.", "failed")]
    assert project.run_json("replay", "last", code=1)["summary"]["failed"] == 1


def test_a_prefix_stands_before_the_prompt_of_its_variant(project: Project) -> None:
    variants = [{"name": "v", "prompt": "Name {{ n }} rivers.", "prompt_prefix": "Breathe."}]
    [(_, _, question)] = questions(project, {"variants": variants, "evals": [asked(vars={"n": 2})]})
    assert question == "Breathe.\n\nName 2 rivers."


@pytest.mark.parametrize(
    ("own", "key"),
    [
        ({"prompt": "Mine"}, "prompt"),
        ({"input_messages": [{"role": "user", "content": "Mine"}]}, "input_messages"),
        ({"turns": [{"prompt": "Mine"}]}, "turns"),
        ({"shards": {"task": "T", "pieces": ["a", "b"]}}, "shards"),
    ],
)
def test_a_case_with_words_beside_the_prompt_of_a_variant_is_refused(project: Project, own: Raw, key: str) -> None:
    """It is reported once, however many variants have a prompt, and names those if some have none."""
    two = [{"name": "a", "prompt": "A"}, {"name": "b", "prompt": "B"}]
    [problem] = project.errors({"variants": two, "evals": [asked(**own)]})
    assert (problem["code"], problem["path"]) == ("conflicting-keys", f"evals[0].{key}")
    assert (
        problem["message"] == f"a variant has a `prompt`, and `{key}` says what is sent in this case; keep one of them"
    )
    [problem] = project.errors({"variants": [two[0], {"name": "plain"}], "evals": [asked(**own)]})
    assert problem["message"].endswith("(with the variant `a`)")


def test_a_row_with_a_prompt_beside_that_of_a_variant_is_refused_on_its_line(project: Project) -> None:
    project.write("rows.csv", "id,prompt\na,\nb,Mine\n")
    suite = {"variants": [{"name": "v", "prompt": "V"}], "cases": "rows.csv", "defaults": {"outcome": "o"}}
    project.write("evals.yaml", suite)
    files = {one["path"]: one["errors"] for one in project.validate("evals.yaml")["files"]}
    [problem] = files["rows.csv"]
    assert (problem["code"], problem["line"]) == ("conflicting-keys", 3)


def test_the_prompt_of_defaults_is_for_variants_without_one(project: Project) -> None:
    variants = [{"name": "base"}, {"name": "own", "prompt": "Own {{ n }}"}]
    suite = {"variants": variants, "defaults": {"prompt": "Base {{ n }}"}, "evals": [asked(vars={"n": 1})]}
    assert [found[1:] for found in questions(project, suite)] == [("base", "Base 1"), ("own", "Own 1")]


def test_a_case_without_words_needs_a_prompt_in_every_variant(project: Project) -> None:
    variants = [{"name": "has", "prompt": "P"}, {"name": "none"}]
    [problem] = project.errors({"variants": variants, "evals": [asked()]})
    assert (problem["code"], problem["path"]) == ("missing-field", "evals[0].prompt")
    assert problem["message"].endswith("(with the variant `none`)")


@pytest.mark.parametrize(
    ("prompt", "code", "path"),
    [
        (5, "wrong-type", "variants[0].prompt"),
        (" ", "empty-prompt", "variants[0].prompt"),
        ({"file": "no.md"}, "file-not-found", "variants[0].prompt.file"),
        ("{{ topik }}", "missing-variable", "variants[0].prompt"),
    ],
)
def test_a_faulty_prompt_of_a_variant_is_one_error(project: Project, prompt: Any, code: str, path: str) -> None:
    suite = {"variants": [{"name": "v", "prompt": prompt}], "evals": [asked(vars={"topic": "x"})]}
    [problem] = project.errors(suite)
    assert (problem["code"], problem["path"]) == (code, path)


# Variables of variants that name those of cases


NAMED = pytest.mark.parametrize("named", ["{{{{ var('{}') }}}}", "{{{{ {} }}}}"])


@NAMED
def test_the_variables_of_a_variant_may_name_those_of_a_case(project: Project, named: str) -> None:
    topic, p = named.format("topic"), named.format("p")
    variants = [
        {"name": "tweet", "vars": {"p": f"A tweet about {topic}", "q": f"{p}!"}},
        {"name": "poem", "vars": {"p": f"A poem on {topic}", "q": f"{p}?"}},
    ]
    evals = [case("a", prompt="{{ p }} {{ q }}", vars={"topic": "tea"}), case("b", prompt="{{ var('q') }}")]
    evals[1]["vars"] = {"topic": "rain {{ var('where') }}", "where": "here"}
    assert questions(project, {"variants": variants, "evals": evals}) == [
        ("a", "tweet", "A tweet about tea A tweet about tea!"),
        ("a", "poem", "A poem on tea A poem on tea?"),
        ("b", "tweet", "A tweet about rain here!"),
        ("b", "poem", "A poem on rain here?"),
    ]


@NAMED
def test_a_case_s_own_value_wins_over_the_suite_s_in_the_variables_of_a_variant(project: Project, named: str) -> None:
    variants = [{"name": "v", "vars": {"p": f"On {named.format('topic')}"}}]
    evals = [case("a", prompt="{{ p }}", vars={"topic": "own"}), case("b", prompt="{{ p }}")]
    suite: Raw = {"vars": {"topic": "suite"}, "variants": variants, "evals": evals}
    suite["metadata"] = {"system_prompt": "{{ var('p') }}"}
    assert [found[2] for found in questions(project, suite)] == ["On own", "On suite"]


@pytest.mark.parametrize(
    ("suite", "own", "expected"),
    [
        ({}, {"topic": "tea"}, "tea!"),
        ({"topic": "suite"}, {}, "suite!"),
        ({"topic": "suite"}, {"topic": "own"}, "own!"),
    ],
)
def test_a_variable_of_a_variant_that_names_itself_means_the_one_below(
    project: Project, suite: Raw, own: Raw, expected: str
) -> None:
    variants = [{"name": "v", "vars": {"topic": "{{ var('topic') }}!"}}]
    evals = [case("a", prompt="{{ topic }}", vars=own)]
    [(_, _, question)] = questions(project, {"vars": suite, "variants": variants, "evals": evals})
    assert question == expected


@NAMED
def test_what_a_row_brings_is_data_in_the_variables_of_a_variant(project: Project, named: str) -> None:
    project.write("rows.jsonl", '{"topic": "{{ var(\'p\') }}"}\n')
    suite = {
        "variants": [{"name": "v", "vars": {"p": f"On {named.format('topic')}"}}],
        "cases": "rows.jsonl",
        "defaults": {"prompt": "{{ p }}", "outcome": "o"},
    }
    assert [found[2] for found in questions(project, suite)] == ["On {{ var('p') }}"]


def test_a_case_without_what_a_variant_s_variable_names_is_reported_at_the_variant(project: Project) -> None:
    variants = [{"name": "v", "vars": {"p": "On {{ var('topik') }}"}}]
    evals = [case("a", prompt="{{ p }}", vars={"topic": "x"}), case("b", prompt="{{ p }}", vars={"topic": "y"})]
    [problem] = project.errors({"variants": variants, "evals": evals})
    assert (problem["code"], problem["path"]) == ("missing-variable", "variants[0].vars.p")
    assert problem["message"].startswith("there is no variable `topik`")


def test_a_name_that_no_case_has_stays_with_a_warning_at_the_variant(project: Project) -> None:
    suite = {
        "target": "scripted/x",
        "variants": [{"name": "v", "vars": {"p": "On {{ topik }} {{ response }}"}}],
        "evals": [case("a", prompt="{{ p }}", vars={"topic": "x"})],
    }
    project.write("evals.yaml", suite)
    [file] = project.validate("evals.yaml")["files"]
    assert file["errors"] == []
    assert {(one["code"], one["path"]) for one in file["warnings"]} == {("unfilled-braces", "variants[0].vars.p")}
    assert questions(project, suite)[0][2] == "On {{ topik }} {{ response }}"


def test_texts_outside_of_cases_have_no_value_that_depends_on_a_case(project: Project) -> None:
    suite: Raw = {
        "variants": [{"name": "v", "vars": {"p": "On {{ var('topic') }}"}}],
        "metadata": {"system_prompt": "{{ var('p') }}"},
        "evals": [case("a", vars={"topic": "x"})],
    }
    [problem] = project.errors(suite)
    assert (problem["code"], problem["path"]) == ("missing-variable", "metadata.system_prompt")


def test_variables_of_a_variant_in_a_circle_are_one_error(project: Project) -> None:
    variants = [{"name": "v", "vars": {"p": "{{ var('q') }}", "q": "{{ var('p') }}"}}]
    assert codes(project.errors({"variants": variants, "evals": [case("a", vars={"t": 1})]})) == ["missing-variable"]
