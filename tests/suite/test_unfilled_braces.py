"""`{{ word }}` that nothing fills in is a warning, wherever it stands."""

from __future__ import annotations

from typing import Any

import pytest

from tests.kit import Project, scripted

pytestmark = pytest.mark.spec("P37")


def warned(project: Project, suite: dict[str, Any]) -> list[str]:
    """The places that are warned of."""
    return [one["path"] for one in project.warnings(suite) if one["code"] == "unfilled-braces"]


def suite_of(**case: Any) -> dict[str, Any]:
    return {"target": "scripted/x", "evals": [{"prompt": "q", "checks": [{"match": "*"}], **case}]}


@pytest.mark.parametrize(
    ("case", "path"),
    [
        ({"prompt": "Hi {{ nmae }}"}, "evals[0].prompt"),
        ({"prompt": "Hi {{nmae}}"}, "evals[0].prompt"),
        ({"prompt": "Hi {{ response }}"}, "evals[0].prompt"),
        ({"prompt": "Hi {{ response(2) }}"}, "evals[0].prompt"),
        ({"system_prompt": "{{ who }}"}, "evals[0].system_prompt"),
        ({"checks": [{"contains": "{{ it }}"}]}, "evals[0].checks[0].contains"),
        ({"checks": [{"not": {"contains_any": ["a", "{{ it }}"]}}]}, "evals[0].checks[0].not.contains_any[1]"),
        (
            {"checks": [{"match": "a", "prompt": "{{ what }}", "checks": [{"match": "*"}]}]},
            "evals[0].checks[0].prompt",
        ),
        ({"checks": [{"llm_judge": {"criteria": "Is it {{ good }}?"}}]}, "evals[0].checks[0].llm_judge.criteria"),
        (
            {"checks": [{"llm_judge": {"prompt": "{{ candidate_answer }} {{ zzz }}"}}]},
            "evals[0].checks[0].llm_judge.prompt",
        ),
        ({"input_messages": [{"role": "user", "content": "{{ x }}"}], "prompt": None}, "evals[0].input_messages[0]"),
    ],
)
def test_braces_that_nothing_fills_in(project: Project, case: dict[str, Any], path: str) -> None:
    suite = suite_of(**case)
    suite["evals"][0] = {key: value for key, value in suite["evals"][0].items() if value is not None}
    assert warned(project, suite) == [path]
    assert project.errors(suite) == []


def test_the_suites_own_texts_count_too(project: Project) -> None:
    suite = suite_of() | {"metadata": {"system_prompt": "{{ who }}"}, "checks": [{"icontains": "{{ it }}"}]}
    assert warned(project, suite) == ["metadata.system_prompt", "checks[0].icontains"]


def test_what_is_filled_in_or_is_no_template_is_not_warned_of(project: Project) -> None:
    project.write("a.md", "{{ attached }}")
    project.write("judge.md", "{{ candidate_answer }} {{question}}")
    project.write("rows.csv", "word\n{{ data }}\n")
    follow_up = {"match": "a", "prompt": "{{ response }} {{ failed }} {{ response(1) }}", "checks": [{"match": "*"}]}
    messages = [{"role": "user", "content": [{"type": "file", "value": "a.md"}, {"type": "text", "value": "q"}]}]
    http = {
        "name": "h",
        "provider": "http",
        "url": "http://127.0.0.1:9/",
        "headers": {"x": "${{ HOME }}"},
        "body": {"text": "{{ prompt }}"},
        "response": "$.text",
    }
    suite = {
        "target": "scripted/x",
        "targets": [http],
        "evals": [
            {"input_messages": messages, "checks": [follow_up, {"llm_judge": {"prompt": "judge.md"}}]},
            {"prompt": "{{ word }}", "cases": "rows.csv", "checks": [{"match": "*"}]},
            {
                "prompt": "{{ a }} and {{ not a name }}, { x }, {{ 1 }}",
                "vars": {"a": 1},
                "checks": [{"match": "*"}],
            },
        ],
    }
    assert warned(project, suite) == []


def test_a_judges_template_with_a_name_that_nothing_fills_in(project: Project) -> None:
    project.write("judge.md", "{{ candidate_answer }} {{ zzz }}")
    assert warned(project, suite_of(checks=[{"llm_judge": {"prompt": "judge.md"}}])) == [
        "evals[0].checks[0].llm_judge.prompt"
    ]


def test_a_run_warns_and_goes_on(project: Project) -> None:
    suite = suite_of(prompt="Hi {{ nmae }}") | {"targets": [scripted("s", "a")]}
    project.write("evals.yaml", suite | {"target": "s"})
    result = project.invoke("run", "evals.yaml")
    assert result.exit_code == 0 and "unfilled-braces" in result.stderr


def test_a_variable_of_the_project_is_named_as_it_has_to_be_written(project: Project) -> None:
    project.write(".rejoinder/config.yaml", {"vars": {"city": "Lima"}})
    [warning] = project.warnings(suite_of(prompt="{{ city }}"))
    assert "write `{{ var('city') }}`" in warning["message"]


@pytest.mark.parametrize("more", [{}, {"vars": {"topic": "Jinja"}}], ids=["without variables", "with variables"])
def test_braces_are_written_as_a_text(project: Project, more: dict[str, Any]) -> None:
    case = {"prompt": "Explain {{ '{{' }} concept {{ \"}}\" }} and {{'{{'}} x }}", **more}
    suite = suite_of(**case)
    assert (warned(project, suite), project.errors(suite)) == ([], [])
    assert project.prompt(case)["messages"][-1]["content"] == "Explain {{ concept }} and {{ x }}"


def test_braces_are_written_in_follow_ups_and_judges(project: Project) -> None:
    follow_up = {"contains": "z", "prompt": "Not {{ '{{' }} a }}: {{ response }}", "checks": [{"contains": "b"}]}
    suite = {
        "targets": [scripted("bot", "one", "b")],
        "target": "bot",
        "evals": [{"prompt": "q", "checks": [follow_up]}],
    }
    project.write("evals.yaml", suite)
    [result] = project.run_json("run", "evals.yaml", code=None)["results"]
    assert result["turns"][1]["prompt"] == "Not {{ a }}: one"


@pytest.mark.parametrize("more", [{}, {"vars": {"topic": "Jinja"}}], ids=["without variables", "with variables"])
def test_the_name_of_a_case_may_hold_braces(project: Project, more: dict[str, Any]) -> None:
    suite = suite_of(name="Renders {{ concept }}, {{ topic }}", **more)
    assert (warned(project, suite), project.errors(suite)) == ([], [])
    project.write("evals.yaml", {**suite, "targets": [scripted("bot", "x")], "target": "bot"})
    [result] = project.run_json("run", "evals.yaml")["results"]
    assert result["name"] == f"Renders {{{{ concept }}}}, {'Jinja' if more else '{{ topic }}'}"


def test_braces_in_the_request_of_a_service_are_written_once(project: Project) -> None:
    """The request is filled in again with each call, and its literal braces stay as they are."""
    body = {"prompt": "{{ prompt }}", "braces": "{{ '{{' }} prompt {{ \"}}\" }}", "mixed": "a {{ '{{' }}prompt}} b"}
    target = {"name": "bot", "provider": "http", "url": "http://127.0.0.1:1/{{ '{{' }}", "headers": {"X-A": "{{'{{'}}"}}
    case = {"id": "a", "prompt": "hi", "checks": [{"contains": "x"}]}
    suite = {"targets": [{**target, "body": body}], "target": "bot", "evals": [case]}
    project.write("evals.yaml", suite)
    shown = project.run("prompt", "evals.yaml")
    assert '"prompt": "hi"' in shown and '"braces": "{{ prompt }}"' in shown and '"mixed": "a {{prompt}} b"' in shown
    assert "POST http://127.0.0.1:1/{{" in shown and "x-a: {{" in shown.lower()
    assert "unfilled-braces" not in str(project.validate("evals.yaml"))
    assert not project.validate("evals.yaml")["files"][0]["errors"]
