"""Words of other tools get their right counterpart, and never the nearest spelling of something else."""

from __future__ import annotations

from typing import Any

import pytest

from tests.kit import Project, scripted

pytestmark = pytest.mark.spec("P35")


def suite_of(**case: Any) -> dict[str, Any]:
    return {"target": "scripted/x", "evals": [{"prompt": "q", "checks": [{"match": "*"}], **case}]}


@pytest.mark.parametrize(
    ("key", "value", "wanted", "never"),
    [
        ("assert", [{"type": "contains", "value": "x"}], "`checks`", "dataset"),
        ("conversation", [{"input": "a"}], "`turns`", "conversation_id"),
        ("expected", "Paris", "`checks: [{contains: Paris}]`", "expected_outcome"),
        ("expected_output", "Paris", "`checks: [{contains: ...}]`", "expected_outcome"),
        ("criteria", "Is polite.", "`outcome`", "did you mean"),
        ("providers", ["openai:gpt-4"], "`targets`", "did you mean"),
        ("tool_trajectory", {}, "`- tool_calls: [NAME]`", "did you mean"),
        ("input", "What?", "`prompt`", "input_messages"),
        ("input", [{"role": "user", "content": "a"}], "`input_messages`", "`prompt`"),
        ("model", "a/b", "`execution.target`", "did you mean"),
    ],
)
def test_keys_of_cases(project: Project, key: str, value: Any, wanted: str, never: str) -> None:
    [error] = [one for one in project.errors(suite_of(**{key: value})) if one["path"] == f"evals[0].{key}"]
    assert error["code"] == "unknown-key"
    assert wanted in error["message"] and never not in error["message"]


@pytest.mark.parametrize(
    ("key", "value", "wanted"),
    [
        ("assert", [], "`checks`"),
        ("providers", ["a"], "`targets`"),
        ("model", "a/b", "`metadata: {model: ...}`"),
        ("system_prompt", "a", "`metadata: {system_prompt: ...}`"),
        ("defaultTest", {}, "`defaults`"),
    ],
)
def test_keys_of_suites(project: Project, key: str, value: Any, wanted: str) -> None:
    [error] = project.errors({**suite_of(), key: value})
    assert error["code"] == "unknown-key" and wanted in error["message"]
    assert "suggestion" not in error


@pytest.mark.parametrize(
    ("check", "wanted"),
    [
        ({"tool_trajectory": {}}, "`tool_calls: [NAME]`"),
        ({"composite": {}}, "`group: {checks: [...]}`"),
        ({"llm-rubric": "polite"}, "`llm_judge: {criteria: ...}`"),
        ({"javascript": "x"}, "`code`"),
        ({"not-contains": "x"}, "`- not: {contains: ...}`"),
        ({"not_regex": "x"}, "`- not: {regex: ...}`"),
        ({"not_icontains": "x"}, "`- not: {icontains: ...}`"),
        ({"type": "contains", "value": "x"}, "write `- contains: ...`"),
        ({"type": "string_contains", "value": "x"}, "did you mean `contains`?"),
        ({"type": "llm-rubric", "value": "x"}, "`llm_judge: {criteria: ...}`"),
        ({"exact_match": "x"}, "`equals`"),
        ({"includes": "x"}, "`contains`"),
        ({"contians": "x"}, "did you mean `contains`?"),
        ({"starts-with": "x"}, "did you mean `starts_with`?"),
        *(
            ({word: {"contains": "x"}}, "into `conversation_checks`")
            for word in ("always", "never", "by_turn", "after", "before", "on")
        ),
    ],
)
def test_checks(project: Project, check: dict[str, Any], wanted: str) -> None:
    [error] = project.errors(suite_of(checks=[check]))
    assert error["code"] == "unknown-check" and wanted in error["message"]


def test_on_beside_a_check_of_one_reply(project: Project) -> None:
    [error] = project.errors(suite_of(checks=[{"contains": "x", "on": "transcript"}]))
    assert "into `conversation_checks`" in error["message"]


@pytest.mark.parametrize(
    ("word", "never"),
    [
        ("not_contains", "contains"),
        ("contains_none", "contains_any"),
        ("not_equals", "equals"),
        ("max_length", "min_tokens"),
        ("min_chars", "max_words"),
        ("rouge_n", "rouge_l"),
        ("doesnt_contains", "contains"),
    ],
)
def test_a_check_that_says_something_else_is_never_proposed(project: Project, word: str, never: str) -> None:
    [error] = project.errors(f"evals:\n  - prompt: q\n    checks:\n      - {word}: x\n")
    assert f"did you mean `{never}`?" not in error["message"]
    assert "suggestion" not in error


@pytest.mark.parametrize("kind", ["composite", "tool_trajectory", "code_grader", "execution_metrics", "judge", "cod"])
def test_no_other_evaluator_is_proposed(project: Project, kind: str) -> None:
    text = f"evalcases:\n  - prompt: q\n    evaluators:\n      - name: x\n        type: {kind}\n        script: a\n"
    error = next(one for one in project.errors(text) if one["path"].endswith(".type"))
    assert "llm_judge`?" not in error["message"]
    assert "llm_judge" not in error.get("suggestion", "")


def test_a_slip_in_an_evaluators_type_is_still_mended(project: Project) -> None:
    text = "evalcases:\n  - prompt: q\n    evaluators:\n      - name: x\n        type: llm-judge\n"
    [error] = project.errors(text)
    assert error["suggestion"].strip() == "type: llm_judge"


def test_a_file_of_promptfoo_is_recognised_in_one_message(project: Project) -> None:
    text = (
        "description: mine\nprompts: ['Say {{x}}']\nproviders: [openai:gpt-4o]\n"
        "tests:\n  - vars: {x: a}\n    assert:\n      - type: contains\n        value: a\n"
    )
    [error] = project.errors(text)
    assert "promptfoo" in error["message"] and "`rejoinder import promptfoo" in error["message"]
    assert project.invoke("run", "evals.yaml").exit_code == 2


OF_AGENTV = [
    "name: mine\nexecution: {target: llm}\ntests:\n  - id: a\n    criteria: Greets.\n    input: Hello!\n"
    "    expected_output: Hi!\n    assertions:\n      - {type: contains-any, value: [Hi, Hello]}\n      - Is warm\n",
    "tests:\n  - id: a\n    input:\n      - {role: user, content: Hello!}\n"
    "    assert:\n      - {type: contains, value: Hi}\n",
    "target: llm\nevaluate_options: {max_concurrency: 2}\nprompts: ['{{ input }}']\ntests:\n  - id: a\n"
    "    vars: {input: Hello!}\n    assert:\n      - {type: contains, value: Hi}\n",
    "description: mine\nproviders: [llm]\nprompts: ['{{ input }}']\ntests:\n  - id: a\n    vars: {input: Hello!}\n"
    "    assert:\n      - Is warm\n",
    "providers: [llm]\nprompts: ['{{ input }}']\nenvironment: {type: docker}\ntests:\n  - id: a\n"
    "    vars: {input: Hello!}\n    assert:\n      - {type: contains, value: Hi}\n",
    "providers: [llm]\nprompts: ['{{ input }}']\ntests:\n  - id: a\n    vars: {input: Hello!}\n"
    "    assert:\n      - {type: script, command: [./grade.sh]}\n",
]
UNCLEAR = (
    "providers: [llm]\nprompts: ['{{ input }}']\ntests:\n  - id: a\n    vars: {input: Hello!}\n"
    "    assert:\n      - {type: contains, value: Hi}\n"
)


@pytest.mark.parametrize("text", OF_AGENTV)
def test_a_file_of_a_later_agentv_is_recognised_in_one_message(project: Project, text: str) -> None:
    [error] = project.errors(text)
    assert "an eval of AgentV 4 or 5" in error["message"] and "rejoinder import agentv FILE" in error["message"]
    assert error["code"] == "unknown-key" and error["line"] == text[: text.index("tests:")].count("\n") + 1
    assert project.invoke("run", "evals.yaml").exit_code == 2


def test_a_file_that_both_tools_could_have_written_is_agentvs_beside_its_folder(project: Project) -> None:
    [error] = project.errors(UNCLEAR)
    assert "promptfoo" in error["message"]
    project.write(".agentv/config.yaml", {"providers": "file://providers.yaml"})
    [error] = project.errors(UNCLEAR)
    assert "AgentV" in error["message"]
    [error] = project.errors(f"defaultTest: {{options: {{}}}}\n{UNCLEAR}")
    assert "promptfoo" in error["message"]


def test_a_suite_with_one_word_of_agentv_is_none_of_its_files(project: Project) -> None:
    """Its words are named one by one, with the lines that are right."""
    [error] = project.errors("tests:\n  - id: a\n    input: Hello!\n")
    assert error["suggestion"] == "evals:"
    messages = [one["message"] for one in project.errors("evals:\n  - {id: a, input: Hello!, criteria: Greets.}\n")]
    assert len(messages) == 2 and not any("AgentV" in message for message in messages)


def test_a_list_of_texts_to_contain(project: Project) -> None:
    [error] = project.errors(suite_of(checks=[{"contains": ["a", "b"]}]))
    assert "`contains_all`" in error["message"] and "`contains_any`" in error["message"]
    [error] = project.errors(suite_of(checks=[{"icontains": ["a", "b"]}]))
    assert "`icontains_all`" in error["message"]


@pytest.mark.parametrize(
    ("check", "reply"),
    [
        ("contains: 42", "It is 42."),
        ("contains: 1.10", "It costs 1.10 euro."),
        ("icontains: 007", "Agent 007"),
        ("equals: 1e3", "1e3"),
        ("starts_with: -5", "-5 degrees"),
        ("ends_with: 0x1F", "It is 0x1F"),
        ("contains_all: [1, 2.50]", "1 and 2.50"),
        ("icontains_any: [7.0, a]", "7.0"),
    ],
)
def test_numbers_are_taken_as_they_are_written(project: Project, check: str, reply: str) -> None:
    target = f"targets: [{{name: s, provider: scripted, replies: ['{reply}']}}]"
    project.write("evals.yaml", f"{target}\nevals:\n  - prompt: q\n    checks:\n      - {check}\n")
    project.run("run", "evals.yaml")
    project.write("evals.yaml", f"{target}\nevals:\n  - prompt: q\nchecks:\n  - {check}\n")
    project.run("run", "evals.yaml")


def test_numbers_in_rows_are_taken_as_text(project: Project) -> None:
    project.write("rows.jsonl", '{"prompt": "q", "checks": [{"contains": 42}]}\n')
    target = scripted("s", "42")
    project.write("evals.yaml", {"targets": [target], "cases": "rows.jsonl"})
    project.run("run", "evals.yaml")


def test_a_judges_prompt_of_agentv_4_is_told_the_variable_that_means_the_same(project: Project) -> None:
    check = {"llm_judge": {"criteria": "Right?", "prompt": "Compare {{ candidate_answer }} with {{expected_output}}."}}
    [error] = project.errors(suite_of(checks=[check]))
    assert "did you mean `{{reference_answer}}`?" in error["message"]


def test_a_missing_variable_names_the_command_that_sets_it(project: Project) -> None:
    [error] = project.errors(suite_of(prompt="{{ var('mail') }}", checks=[{"contains": "x"}]))
    assert "`rejoinder var set mail VALUE`" in error["message"]
    project.run("var", "set", "mail", "a@example.com")
    assert project.errors(suite_of(prompt="{{ var('mail') }}", checks=[{"contains": "x"}])) == []
