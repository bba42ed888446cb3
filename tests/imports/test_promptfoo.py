"""`rejoinder import promptfoo`: one small configuration for each construct, and hostile ones."""

from __future__ import annotations

import json
import re
import shutil
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from rejoinder.imports.kinds import KINDS
from rejoinder.imports.promptfoo.assertions import split_at_commas
from rejoinder.imports.promptfoo.expressions import TemplateFault
from rejoinder.imports.promptfoo.templates import read_template
from rejoinder.imports.promptfoo.tests import read_cell
from rejoinder.imports.sources import ImportFault
from rejoinder.imports.workbench import import_files
from rejoinder.testing import FakeServer
from rejoinder.testing.values import Answer, Received, ToolCall
from rejoinder.yaml_text import yaml_lines
from tests.kit import ROOT, Project, Raw, bounded, refusal, statuses

FILE = "promptfooconfig.yaml"
ASKED = {"prompts": ["Hi {{x}}"], "providers": ["openai:gpt-5-mini"]}


def config(*asserts: Any, **more: Any) -> Raw:
    return {**ASKED, "tests": [{"vars": {"x": "you"}, "assert": list(asserts)}], **more}


def imported(project: Project, source: Raw | str, *arguments: str, code: int = 0) -> tuple[Any, Raw]:
    """The suite that is made of a configuration, which has to be valid, and the report."""
    project.write(FILE, source)
    shutil.rmtree(project.folder / "out", ignore_errors=True)
    report = project.run_json("import", "promptfoo", FILE, "--out", "out", *arguments, code=code)
    suite = project.folder / "out" / "evals.yaml"
    assert not [file["errors"] for file in project.validate(str(suite))["files"] if file["errors"]], suite.read_text()
    return yaml.safe_load(suite.read_text()), report


def text_of(project: Project) -> str:
    return (project.folder / "out" / "evals.yaml").read_text()


def checks_of(suite: Any) -> list[Any]:
    return suite["evals"][0]["checks"]


@pytest.mark.parametrize(
    ("asserted", "check"),
    [
        ({"type": "contains", "value": "a"}, {"contains": "a"}),
        ({"type": "contains", "value": 7}, {"contains": "7"}),
        ({"type": "not-icontains", "value": "{{x}}"}, {"not": {"icontains": "{{ x }}"}}),
        ({"type": "starts-with", "value": "a"}, {"starts_with": "a"}),
        ({"type": "contains-any", "value": 'a, "b, c"'}, {"contains_any": ["a", "b, c"]}),
        ({"type": "icontains-all", "value": ["a", 2]}, {"icontains_all": ["a", "2"]}),
        ({"type": "regex", "value": r"(?<n>\d+)"}, {"regex": r"(?P<n>\d+)"}),
        ({"type": "equals", "value": "a"}, {"equals": "a"}),
        ({"type": "equals", "value": {"a": 1}}, {"json_path": {"path": "$", "equals": {"a": 1}}}),
        ({"type": "is-json"}, {"is_json": True}),
        (
            {"type": "is-json", "value": {"type": "object"}},
            {"and": [{"is_json": True}, {"json_schema": {"type": "object"}}]},
        ),
        ({"type": "contains-json", "value": "type: object"}, {"json_schema": {"type": "object"}}),
        ({"type": "similar", "value": "a"}, {"semantic": {"expected": "a", "threshold": 0.75}}),
        (
            {"type": "similar", "value": ["a", "b"], "threshold": 1},
            {"semantic": {"expected": ["a", "b"], "threshold": 1}},
        ),
        ({"type": "llm-rubric", "value": "Is kind", "threshold": 0.8}, {"llm_judge": "Is kind", "threshold": 0.8}),
        ({"type": "latency", "threshold": 1500}, {"latency": 1.5}),
        ({"type": "cost", "threshold": 0.01}, {"cost": 0.01}),
        ({"type": "levenshtein", "value": "a"}, {"levenshtein": {"expected": "a", "max": 5}}),
        ({"type": "finish-reason", "value": "Stop"}, {"finish_reason": "stop"}),
        ({"type": "word-count", "value": {"min": 2, "max": 4}}, {"and": [{"min_words": 2}, {"max_words": 4}]}),
        ({"type": "contains", "value": "a", "weight": 2, "metric": "m"}, {"contains": "a", "weight": 2, "metric": "m"}),
        ({"type": "contains", "value": "a", "weight": 0}, {"group": {"checks": [{"contains": "a"}]}, "threshold": 0}),
        (
            {"type": "assert-set", "threshold": 0.5, "assert": [{"type": "contains", "value": "a"}]},
            {"group": {"checks": [{"contains": "a"}]}, "threshold": 0.5},
        ),
        ({"type": "trajectory:tool-used", "value": "f"}, {"tool_calls": ["f"]}),
        (
            {"type": "trajectory:tool-used", "value": ["f", "g"]},
            {"tool_calls": {"mode": "any_order", "calls": ["f", "g"]}},
        ),
        (
            {"type": "trajectory:tool-args-match", "value": {"name": "f", "args": {"a": 1}}},
            {"tool_calls": [{"name": "f", "arguments": {"a": 1}}]},
        ),
        ({"type": "trajectory:tool-sequence", "value": {"steps": ["f", "g"]}}, {"tool_calls": ["f", "g"]}),
        ({"type": "trajectory:step-count", "value": {"type": "tool", "max": 3}}, {"tool_calls": {"max": 3}}),
        ({"type": "is-xml"}, {"is_xml": True}),
        ({"type": "is-xml", "value": "a.b, a.c"}, {"is_xml": {"elements": ["a/b", "a/c"]}}),
        (
            {"type": "contains-xml", "value": {"requiredElements": ["a.b"]}},
            {"is_xml": {"elements": ["a/b"], "anywhere": True}},
        ),
        ({"type": "not-contains-xml"}, {"not": {"is_xml": {"anywhere": True}}}),
        ({"type": "skill-used", "value": "pdf"}, {"skill_used": "pdf"}),
        ({"type": "skill-used", "value": ["pdf", "docx"]}, {"skill_used": ["pdf", "docx"]}),
        (
            {"type": "not-skill-used", "value": ["pdf", "docx"]},
            {"not": {"or": [{"skill_used": "pdf"}, {"skill_used": "docx"}]}},
        ),
        ({"type": "skill-used", "value": {"name": "pdf", "max": 0}}, {"not": {"skill_used": "pdf"}}),
        ({"type": "is-valid-openai-tools-call"}, {"tool_calls": {"min": 1, "schema": True}}),
    ],
)
def test_assertions_that_mean_the_same(project: Project, asserted: Raw, check: Raw) -> None:
    suite, report = imported(project, config(asserted), "--strict")
    assert checks_of(suite) == [check]
    assert (report["approximated"], report["left_out"], report["cases"]) == ([], [], 1)


@pytest.mark.parametrize("kind", ["factuality", "g-eval", "model-graded-closedqa", "search-rubric", "answer-relevance"])
def test_other_judges_are_near_and_say_so(project: Project, kind: str) -> None:
    suite, report = imported(project, config({"type": kind, "value": "It is Rome."}), "--strict", code=1)
    assert ("relevant" if kind == "answer-relevance" else "llm_judge") in checks_of(suite)[0]
    [loss] = report["approximated"]
    assert (loss["file"], loss["what"]) == (FILE, kind)
    assert f"# not the same as {kind}: {loss['how']}" in text_of(project)


@pytest.mark.parametrize(
    "asserted",
    [
        {"type": "guardrails"},
        {"type": "moderation"},
        {"type": "select-best", "value": "the best"},
        {"type": "trace-span-count", "value": {"pattern": "x"}},
        {"type": "contains", "value": "a", "transform": "output.x"},
        {"type": "similar", "value": ""},
        {"type": "regex", "value": r"\p{L}+("},
        {"type": "made-up"},
        {"type": "contains"},
        {"value": "a"},
        "file://none.yaml",
        {"type": "contains", "value": "file://code.js"},
        {"type": "llm-rubric", "value": "a", "rubricPrompt": [{"role": "system"}]},
        {"type": "is-xml", "value": "a.@_id"},
        {"type": "is-xml", "value": ""},
        {"type": "skill-used", "value": {"pattern": "pdf*"}},
        {"type": "skill-used", "value": {"name": "pdf", "min": 2}},
        {"type": "skill-used", "value": []},
    ],
)
def test_what_has_no_form_is_a_comment_at_its_place_and_a_line_of_the_report(project: Project, asserted: Any) -> None:
    suite, report = imported(project, config({"type": "contains", "value": "x"}, asserted), "--strict", code=1)
    assert checks_of(suite) == [{"contains": "x"}]
    [loss] = report["left_out"]
    assert f"# not imported: {loss['what']} ({loss['how']})" in text_of(project)
    assert loss["line"] >= 1


def test_comments_stay_and_shared_parts_are_written_once(project: Project) -> None:
    source = """\
# Shop
description: The shop
prompts: # one prompt
  - file://ask.txt
providers:
  - openai:gpt-5-mini # small
  # the large one
  - id: anthropic:messages:claude-sonnet-4-5
    label: large
    config: {temperature: 0.5, max_tokens: 100}
defaultTest:
  vars: {shop: Rocket}
  assert:
    # never
    - type: not-contains
      value: sorry
tests:
  # first
  - description: Hours
    vars: {question: When?}
    assert:
      - type: icontains # any case
        value: nine
      - type: guardrails
  - vars: {question: "Where is {{shop}}?"}
# end
"""
    project.write("ask.txt", "{{shop}}: {{question}}\n")
    imported(project, source)
    assert (
        text_of(project)
        == """\
# Shop
description: The shop
target: [openai/gpt-5-mini, large]

targets:
  # openai/gpt-5-mini: small
  # the large one
  - name: large
    provider: anthropic
    model: claude-sonnet-4-5
    temperature: 0.5
    max_output_tokens: 100

vars:
  shop: Rocket

checks:
  # never
  - not:
      contains: sorry

# one prompt
defaults:
  prompt:
    file: ask.txt

evals:
  # first
  - name: Hours
    vars:
      question: When?
    checks:
      - icontains: nine # any case
      # not imported: guardrails (rejoinder has no such check)

  - vars:
      question: Where is {{ var('shop') }}?

# end
"""
    )
    assert (project.folder / "out" / "ask.txt").read_text() == "{{shop}}: {{question}}\n"


def test_one_suite_is_printed_and_several_files_need_a_folder(project: Project) -> None:
    project.write(FILE, config({"type": "guardrails"}))
    result = project.invoke("import", "promptfoo", FILE)
    assert yaml.safe_load(result.stdout)["target"] == "openai/gpt-5-mini"
    assert "guardrails" in result.stderr and "1 left out" in result.stderr
    project.write(FILE, config({"type": "javascript", "value": "true"}))
    assert "Name a folder with --out" in refusal(project, "import", "promptfoo", FILE)
    project.run("import", "promptfoo", FILE, "--out", "out")
    assert "exists already" in refusal(project, "import", "promptfoo", FILE, "--out", "out")


def test_a_folder_is_imported_file_by_file_and_the_unreadable_are_named(project: Project) -> None:
    project.write("a/promptfooconfig.yaml", config())
    project.write("b/promptfooconfig.shop.yaml", config())
    project.write("c/promptfooconfig.yaml", {**config(), "redteam": {"plugins": []}})
    report = project.run_json("import", "promptfoo", ".", "--out", "out", code=2)
    assert report["files"] == ["out/a/evals.yaml", "out/b/shop.evals.yaml"]
    assert (report["sources"], report["complete"], report["cases"]) == (3, 2, 2)
    [unreadable] = report["unreadable"]
    assert unreadable["file"] == "c/promptfooconfig.yaml" and "red teaming" in unreadable["what"]
    assert "no file named" in refusal(project, "import", "promptfoo", "out")


# Prompts


def test_several_prompts_are_variants(project: Project) -> None:
    chat = json.dumps([{"role": "system", "content": "Be {{tone}}."}, {"role": "user", "content": "{{x}}?"}])
    project.write("two.txt", "First {{x}}\n---\nSecond {{x}}\n")
    prompts = [{"label": "Plain one", "raw": "Hi {{x}}"}, chat, "file://two.txt"]
    suite, report = imported(project, {**config(), "prompts": prompts})
    assert suite["variants"] == [
        {"name": "plain-one", "prompt": "Hi {{ x }}"},
        {"name": "prompt", "system_prompt": "Be .", "prompt": "{{ x }}?"},
        {"name": "two-1", "prompt": "First {{ x }}"},
        {"name": "two-2", "prompt": "Second {{ x }}"},
    ]
    assert report["left_out"] == []


def test_a_long_conversation_as_prompt_is_input_messages(project: Project) -> None:
    roles = ["user", "assistant", "user"]
    chat = json.dumps([{"role": role, "content": f"{role} {{{{x}}}}"} for role in roles])
    suite, _ = imported(project, {**config(), "prompts": [chat]})
    assert suite["evals"][0]["input_messages"] == [{"role": role, "content": f"{role} {{{{ x }}}}"} for role in roles]


def test_prompts_of_some_tests_and_targets_make_a_case_each(project: Project) -> None:
    prompts = [{"label": "a", "raw": "A {{x}}"}, {"label": "b", "raw": "B {{x}}"}]
    providers = [{"id": "openai:gpt-5", "prompts": ["a"]}, "openai:gpt-5-mini"]
    tests = [{"vars": {"x": "1"}}, {"vars": {"x": "2"}, "prompts": ["b"]}]
    suite, _ = imported(project, {"prompts": prompts, "providers": providers, "tests": tests})
    assert [(case["prompt"], case.get("execution")) for case in suite["evals"]] == [
        ("A {{ x }}", None),
        ("B {{ x }}", {"target": "openai/gpt-5-mini"}),
        ("B {{ x }}", {"target": "openai/gpt-5-mini"}),
    ]


@pytest.mark.parametrize(
    "prompt", ["exec:./make.sh", "file://make.py", "make.js:prompt", "langfuse://x", {"id": "none.txt"}]
)
def test_prompts_that_code_makes_are_left_out(project: Project, prompt: Any) -> None:
    project.write("make.py", "raise SystemExit('it was run')")
    suite, report = imported(project, {**config(), "prompts": [prompt]})
    assert len(report["left_out"]) == 1
    assert suite["evals"][0]["prompt"].startswith("TODO")


# Templates


@pytest.mark.parametrize(
    ("template", "variables", "text"),
    [
        ("{{ x | upper }}!", {"x": "a"}, "A!"),
        (
            "{% for i in xs %}{{ loop.index }}.{{ i }}{% if not loop.last %}, {% endif %}{% endfor %}",
            {"xs": ["a", "b"]},
            "1.a, 2.b",
        ),
        ("{% if n > 1 and x %}many{% elif n %}one{% else %}none{% endif %}", {"n": 2, "x": "y"}, "many"),
        ("{{ o.a['b'][0] | default('?') }}{{ no.such.thing }}", {"o": {"a": {"b": [5]}}}, "5"),
        ("{% set y = x ~ '!' %}{{ y }}{# a note #}", {"x": "a"}, "a!"),
        (
            "{{ xs | join(', ') }} {{ xs | length }} {{ o | dump }}",
            {"xs": [1, True], "o": {"a": "é"}},
            '1, true 2 {"a":"é"}',
        ),
        ("a {%- if true -%} b {%- endif -%} c", {}, "abc"),
        ("{{ 'yes' if x == 'a' else 'no' }} {{ 7 // 2 + 1 }}", {"x": "a"}, "yes 4"),
    ],
)
def test_templates_are_rendered(template: str, variables: Raw, text: str) -> None:
    assert not read_template(template).is_plain
    assert read_template(template).render(variables) == text


@pytest.mark.parametrize(
    "template",
    [
        "{{ x.__class__ }}{{ f() }}",
        "{% import 'os' %}",
        "{{ x | made_up }}",
        "{% for a in xs %}{% for b in xs %}{% for c in xs %}{{ a }}{% endfor %}{% endfor %}{% endfor %}",
        "{{ '" + "a" * 1000 + "' | replace('a', '" + "b" * 5000 + "') }}",
        "{{ " + "(" * 200 + "1" + ")" * 200 + " }}",
        "{% if x %}" * 50,
    ],
)
def test_templates_reach_nothing_and_end(template: str) -> None:
    with pytest.raises(TemplateFault):
        read_template(template).render({"x": "a", "xs": list(range(500))})


def test_logic_is_rendered_at_the_import_and_names_stay(project: Project) -> None:
    source = config(
        {"type": "contains", "value": "{{ x | upper }}"}, prompts=["{% if x %}Hi {{x}}{% endif %} {{ env.CITY }}"]
    )
    suite, _ = imported(project, {**source, "prompts": ["{% if x %}Hi {{x}}{% endif %}"]}, "--strict")
    [case] = suite["evals"]
    assert (case["prompt"], case["vars"]["rendered_1"]) == ("{{ rendered_1 }}", "Hi you")
    assert case["checks"] == [{"contains": "YOU"}]
    assert "# rendered at the import: {{ x | upper }}" in text_of(project)
    suite, _ = imported(project, {**config(), "prompts": ["{{ env.CITY }}: {{x}} {{no}} {% raw %}{{y}}{% endraw %}"]})
    assert suite["evals"][0]["prompt"] == "{{ env('CITY') }}: {{ x }}  {{ '{{' }}y}}"


# Tests


def test_a_csv_stays_a_data_set_and_expectations_go_into_one_beside(project: Project) -> None:
    project.write("plain.csv", "x,y\n1,2\n3,4\n")
    suite, report = imported(project, {**ASKED, "tests": "plain.csv"})
    assert (suite["cases"], report["cases"]) == ("plain.csv", 2)
    assert (project.folder / "out" / "plain.csv").exists()
    rows = 'x,__expected,__expected2,__metric,__description\n1,"contains-any: a, b",grade:Is kind,m,One\n2,Two,,,\n'
    project.write("rows.csv", rows)
    suite, _ = imported(project, {**ASKED, "tests": "file://rows.csv"})
    assert suite["cases"] == "rows.cases.jsonl"
    lines = (project.folder / "out" / "rows.cases.jsonl").read_text().splitlines()
    assert [json.loads(line) for line in lines] == [
        {
            "name": "One",
            "vars": {"x": "1"},
            "checks": [{"contains_any": ["a", "b"], "metric": "m"}, {"llm_judge": "Is kind", "metric": "m"}],
        },
        {"vars": {"x": "2"}, "checks": [{"equals": "Two"}]},
    ]


@pytest.mark.parametrize(
    ("cell", "asserted"),
    [
        ("contains:h", {"type": "contains", "value": "h"}),
        ("icontains:bonjour", {"type": "icontains", "value": "bonjour"}),
        ("not-contains:a:b", {"type": "not-contains", "value": "a:b"}),
        ("contains-any:a,b", {"type": "contains-any", "value": ["a", "b"]}),
        ("contains-json", {"type": "contains-json"}),
        ("similar:yes", {"type": "similar", "value": "yes", "threshold": 0.8}),
        ("similar:cosine:yes", {"type": "similar:cosine", "value": "yes"}),
        ("similar(0.5):yes", {"type": "similar", "value": "yes", "threshold": 0.5}),
        ("trajectory:tool-used:f", {"type": "trajectory:tool-used", "value": "f"}),
        ("bleu(0.4):the cat", {"type": "bleu", "value": "the cat"}),
        ("empty", {"type": "equals", "value": "empty"}),
        ("containsx:h", {"type": "equals", "value": "containsx:h"}),
        ("Contains:h", {"type": "equals", "value": "Contains:h"}),
        ("grade:Is kind", {"type": "llm-rubric", "value": "Is kind"}),
        ("no:way", {"type": "equals", "value": "no:way"}),
    ],
)
def test_cells_are_the_assertions_that_promptfoo_reads(cell: str, asserted: Raw) -> None:
    assert read_cell(cell) == asserted


def test_a_csv_with_expectations_stands_beside_other_tests(project: Project) -> None:
    project.write("t.csv", "x,__expected\nhello,contains:h\nnone,contains:h\n")
    more = {"vars": {"x": "you"}, "assert": [{"type": "contains", "value": "you"}]}
    suite, report = imported(
        project, {**ASKED, "providers": ["echo"], "prompts": ["{{x}}"], "tests": ["file://t.csv", more]}
    )
    assert suite["evals"][0] == {"cases": "t.cases.jsonl"}
    assert (report["cases"], report["left_out"]) == (3, [])
    document = project.run_json("run", "out/evals.yaml", code=1)
    assert list(statuses(document).values()) == ["passed", "failed", "passed"]


def test_lists_of_values_are_multiplied_out(project: Project) -> None:
    tests = [{"vars": {"x": ["a", "b"], "y": ["1", "2"], "z": "s"}}]
    suite, report = imported(project, {**ASKED, "tests": tests})
    assert [(case["vars"]["x"], case["vars"]["y"]) for case in suite["evals"]] == [
        ("a", "1"),
        ("a", "2"),
        ("b", "1"),
        ("b", "2"),
    ]
    assert report["cases"] == 4


def test_lists_of_the_default_test_are_multiplied_out_unless_it_says_otherwise(project: Project) -> None:
    tests = [{"vars": {"x": ["a", "b"]}}, {"vars": {"x": "c"}, "options": {"disableVarExpansion": False}}]
    whole = {"options": {"disableVarExpansion": True}}
    _, report = imported(project, {**ASKED, "tests": tests, "defaultTest": whole})
    assert report["cases"] == 2
    suite, report = imported(project, {**ASKED, "tests": tests, "defaultTest": {"vars": {"y": ["1", "2"]}}})
    assert report["cases"] == 6
    assert [case["vars"]["y"] for case in suite["evals"]] == ["1", "1", "2", "2", "1", "2"]
    project.write("rows.csv", "x\na\n")
    _, report = imported(project, {**ASKED, "tests": "rows.csv", "defaultTest": {"vars": {"y": ["1", "2"]}}})
    assert report["cases"] == 2


def test_a_suite_without_assertions_passes_every_reply(project: Project) -> None:
    suite, _ = imported(project, {**ASKED, "tests": [{"vars": {"x": "1"}}, {"vars": {"x": "2"}}]})
    assert suite["checks"] == [{"min_words": 0}]
    tests = [{"vars": {"x": "1"}, "assert": [{"type": "is-json"}]}, {"vars": {"x": "2"}}]
    suite, _ = imported(project, {**ASKED, "tests": tests})
    assert [case["checks"] for case in suite["evals"]] == [[{"is_json": True}], [{"min_words": 0}]]


def test_files_of_variables_and_tests(project: Project) -> None:
    project.write("v.txt", "a text\n")
    project.write("v.yaml", "a: [1, 2.0]")
    project.write("tests.yaml", [{"vars": {"x": "file://v.txt", "y": "file://v.yaml"}}])
    suite, _ = imported(project, {**ASKED, "tests": ["file://tests.yaml"]}, "--strict")
    assert suite["evals"][0]["vars"] == {"x": "a text", "y": '{"a":[1,2]}'}
    suite, report = imported(project, {**ASKED, "tests": [{"vars": {"x": "file://v.png", "y": "file://v.py"}}]})
    assert [loss["what"] for loss in report["left_out"]] == ["variable x", "variable y"]


# Providers


@pytest.mark.parametrize(
    ("provider", "target"),
    [
        ("openai:gpt-5", None),
        ("anthropic:messages:claude-sonnet-4-5", None),
        ({"id": "openai:responses:gpt-5", "label": "r"}, {"provider": "openai", "model": "gpt-5", "api": "responses"}),
        ({"id": "google:gemini-3", "label": "g"}, {"provider": "gemini", "model": "gemini-3"}),
        (
            {"id": "azure:chat:mine", "label": "a", "config": {"apiHost": "x.example"}},
            {"provider": "azure", "deployment": "mine", "endpoint": "https://x.example"},
        ),
        (
            {
                "id": "openai:chat:m",
                "label": "o",
                "config": {"apiKey": "{{env.KEY}}", "response_format": {"type": "json_object"}},
            },
            {
                "provider": "openai",
                "model": "m",
                "api_key": "${{ KEY }}",
                "extra_body": {"response_format": {"type": "json_object"}},
            },
        ),
        (
            {
                "id": "https://x.example/chat",
                "label": "h",
                "config": {"body": {"q": "{{prompt}}"}, "transformResponse": "json.a[0].b"},
            },
            {
                "provider": "http",
                "url": "https://x.example/chat",
                "body": {"q": "{{ prompt }}"},
                "reply_path": "a[0].b",
            },
        ),
    ],
)
def test_providers_become_targets(project: Project, provider: Any, target: Raw | None) -> None:
    suite, _ = imported(project, {**config(), "providers": [provider]}, "--strict")
    [definition] = suite.get("targets", [None])
    assert target == (definition and {key: one for key, one in definition.items() if key != "name"})


@pytest.mark.parametrize(
    "provider", ["bedrock:x", "openai:image:dall-e-3", "file://p.js", "made-up", {"config": {}}, 7]
)
def test_other_providers_are_left_to_the_user(project: Project, provider: Any) -> None:
    _, report = imported(project, {**config(), "providers": [provider, "openai:gpt-5"]})
    assert report["left_out"][0]["what"].startswith(("provider", "a provider"))


REQUEST = {
    "url": "https://x.example/{{topic}}",
    "body": {"q": "{{prompt | dump}}", "model": "{{model}}", "at": "{{ signatureTimestamp }}", "key": "{{env.KEY}}"},
    "headers": {"id": "{{sessionId}}"},
}


def test_foreign_placeholders_of_a_request_are_filled_in_or_losses(project: Project) -> None:
    tests = [{"vars": {"x": "1", "topic": "a"}}, {"vars": {"x": "2", "topic": "b"}}]
    source = {**ASKED, "providers": [{"id": "https", "config": REQUEST}], "tests": tests}
    suite, report = imported(project, {**source, "defaultTest": {"vars": {"model": "gpt-5"}}})
    [target] = suite["targets"]
    assert target["url"] == "https://x.example/TODO"
    assert target["body"] == {"q": "{{ prompt }}", "model": "gpt-5", "at": "TODO", "key": "${{ KEY }}"}
    assert target["headers"] == {"id": "{{ conversation_id }}"}
    assert [loss["what"] for loss in report["left_out"]] == [
        "provider placeholder {{topic}}",
        "provider placeholder {{ signatureTimestamp }}",
    ]
    assert [loss["what"] for loss in report["approximated"]] == ["variable sessionId of a request"]


def test_a_script_of_a_command_is_copied(project: Project) -> None:
    project.write("bot.py", "print('Hi')")
    suite, _ = imported(project, {**config(), "providers": ["exec:python bot.py -q"]})
    assert suite["targets"][0]["command"] == ["python", "bot.py", "-q", "{PROMPT}"]
    assert (project.folder / "out" / "bot.py").exists()


TRANSFORMS = """\
prompts: ['{{reply}}']
providers: [{id: echo, transform: output.trim()}]
defaultTest:
  options: {transform: 'JSON.parse(output)'}
tests:
  - vars: {reply: '{"a": {"b": "x"}}'}
    assert: [{type: equals, value: {a: {b: x}}}, {type: javascript, value: output.a.b === 'x'}]
  - vars: {reply: '{"a": "x"}'}
    options: {transform: 'file://change.py'}
    assert: [{type: equals, value: X}, {type: python, value: "output == 'X'"}]
  - vars: {reply: '7'}
    options: {transform: 'file://change.js:twice'}
    assert: [{type: equals, value: '77'}, {type: javascript, value: "output === '77'"}]
  - vars: {reply: 'no JSON'}
    assert: [{type: not-contains, value: x}]
  - vars: {reply: '{"a": "x"}'}
    options:
      transform: |
        const value = JSON.parse(output);
        return context.vars.reply.length + value.a;
    assert: [{type: equals, value: 10x}]
"""


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("node") is None, reason="the transforms are JavaScript")
def test_transforms_make_the_part_that_is_checked(project: Project) -> None:
    python = "import json\n\ndef get_transform(output, context):\n    return json.loads(output)['a'].upper()\n"
    project.write("change.py", python)
    project.write("change.js", "exports.twice = (output) => output + output;\n")
    suite, _ = imported(project, TRANSFORMS, "--strict")
    assert suite["reply"] == {"python": "promptfoo_transform:part"}
    assert suite["evals"][1]["reply"] == {"python": "promptfoo_transform-2:part"}
    document = project.run_json("run", "out/evals.yaml", code=None)
    assert list(statuses(document).values()) == ["passed", "passed", "passed", "error", "passed"]


def test_a_transform_of_only_some_providers_is_a_loss(project: Project) -> None:
    providers = [{"id": "openai:gpt-5", "transform": "output.trim()"}, "openai:gpt-5-mini"]
    suite, report = imported(project, {**config(), "providers": providers})
    assert "reply" not in suite
    assert [loss["what"] for loss in report["left_out"]] == ["provider option transform"]


TOOL = {"type": "function", "function": {"name": "weather", "parameters": {"required": ["city"]}}}


@pytest.mark.slow
def test_valid_calls_satisfy_the_schemas_of_the_provider(project: Project) -> None:
    def reply(received: Received) -> Answer:
        given = {"city": "Rome"} if "good" in str(received.body) else {}
        return Answer(tool_calls=() if "none" in str(received.body) else (ToolCall("weather", given),))

    with FakeServer(reply) as server:
        settings = {"apiBaseUrl": server.openai_url, "apiKey": "k", "tools": [TOOL]}
        tests = [
            {"vars": {"x": x}, "assert": [{"type": "is-valid-openai-tools-call"}]} for x in ("good", "bad", "none")
        ]
        provider = {"id": "openai:chat:m", "config": settings}
        imported(project, {**ASKED, "providers": [provider], "tests": tests})
        document = project.run_json("run", "out/evals.yaml", code=None)
    assert list(statuses(document).values()) == ["passed", "failed", "failed"]


# Code, which only the suite runs


CODE = """\
prompts: ['{{reply}}']
providers: [echo]
tests:
  - vars: {reply: abc}
    assert: [{type: javascript, value: output.length === 3}]
  - vars: {reply: abc}
    assert: [{type: javascript, value: "const n = output.length; n / 10", threshold: 0.5}]
  - vars: {reply: abc}
    assert:
      - type: javascript
        value: |
          if (context.vars.reply === output) return {pass: true, score: 0.7, reason: 'same'};
          return false;
  - vars: {reply: abc}
    assert: [{type: javascript, value: 'file://checks.js:long', config: {least: 5}}]
  - vars: {reply: abc}
    assert: [{type: python, value: 'len(output) == 3'}]
  - vars: {reply: abc}
    assert:
      - type: python
        value: |
          if context['vars']['reply'] == output:
              return {'pass': False, 'score': 0.2, 'reason': 'same'}
          return True
  - vars: {reply: abc}
    assert: [{type: python, value: 'file://checks.py', threshold: 0.9}]
  - vars: {reply: abc}
    assert: [{type: not-python, value: 'file://checks.py:other'}]
"""


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("node") is None, reason="the checks are JavaScript")
def test_code_is_run_by_the_suite(project: Project) -> None:
    project.write("checks.js", "exports.long = (output, context) => output.length >= context.config.least;\n")
    project.write(
        "checks.py",
        "def get_assert(output, context):\n    return 0.8\n\ndef other(output, context):\n    return 'false'\n",
    )
    imported(project, CODE, "--strict")
    document = project.run_json("run", "out/evals.yaml", code=None)
    assert list(statuses(document).values()) == [
        "passed",
        "failed",
        "passed",
        "failed",
        "passed",
        "failed",
        "failed",
        "passed",
    ]


@pytest.mark.slow
def test_a_provider_in_python_answers(project: Project) -> None:
    project.write(
        "bot.py", "def call_api(prompt, options, context):\n    return {'output': prompt + options['config']['end']}\n"
    )
    provider = {"id": "file://bot.py", "label": "bot", "config": {"end": '"""!'}}
    source = config({"type": "equals", "value": 'Hi you"""!'}, providers=[provider])
    imported(project, source, "--strict")
    assert list(statuses(project.run_json("run", "out/evals.yaml")).values()) == ["passed"]


def test_the_rules_of_the_comparison_beside_promptfoo_are_documented() -> None:
    rules = re.findall(r'Rule\(\s*"([^"]+)"', (ROOT / "scripts" / "compare_promptfoo.py").read_text(encoding="utf-8"))
    guide = (ROOT / "docs" / "guides" / "coming-from-promptfoo.md").read_text(encoding="utf-8")
    assert rules
    assert [rule for rule in rules if f"| {rule}" not in guide.partition("## Small differences")[2]] == []


# Hostile sources


@pytest.mark.parametrize(
    "source",
    [
        {"prompts": ["file://../../etc/passwd"], "providers": ["echo"]},
        {"prompts": ["file:///etc/passwd"], "providers": ["echo"]},
        {"prompts": ["file://link.txt"], "providers": ["echo"]},
        {**ASKED, "tests": "../tests.csv"},
        {**ASKED, "tests": [{"vars": {"x": "file:///etc/*"}}]},
        {**ASKED, "tests": [{"vars": {"x": "file://away/secret.txt"}}]},
        {**config({"type": "contains", "value": "file://../secret.txt"})},
        {**config({"type": "javascript", "value": "file://../code.js"})},
        {**config(), "defaultTest": "file://../default.yaml"},
        {**config(), "providers": ["file://../bot.py"]},
        {**config(), "providers": [{"id": "openai:gpt-5", "config": {"tools": "file://../tools.json"}}]},
        {**ASKED, "tests": [{"vars": {f"v{n}": ["a"] * 50 for n in range(8)}}]},
        {"redteam": {}},
        ["prompts"],
        {"name": "x"},
        "prompts: &a [*a]",
        "prompts: [",
        "a: !!python/object/apply:os.system ['touch run']\nprompts: []",
        b"\xff\xfe\x00",
    ],
)
def test_hostile_sources_end_in_one_error(project: Project, source: Any) -> None:
    (project.folder / "link.txt").symlink_to("/etc/passwd")
    (project.folder / "away").symlink_to("/etc")
    project.write(FILE, source)
    words = refusal(project, "import", "promptfoo", FILE, "--out", "out")
    assert FILE in words or "a.yaml" in words
    assert not (project.folder / "out").exists()


def test_a_data_set_that_is_too_long_ends_in_one_error(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rejoinder.imports.sources.MOST_ROWS", 10)
    project.write("rows.csv", "x\n" + "1\n" * 11)
    project.write(FILE, {**ASKED, "tests": "rows.csv"})
    assert "more than 10 rows" in refusal(project, "import", "promptfoo", FILE)


def test_variables_of_the_source_read_neither_secrets_nor_the_environment(project: Project) -> None:
    tests = [{"vars": {"x": "{{ secret('k') }} {{ env('HOME') }}"}, "assert": [{"type": "contains", "value": "a"}]}]
    suite, _ = imported(project, {**ASKED, "tests": tests})
    shown = project.run_json("prompt", "out/evals.yaml")[0]["messages"]
    assert shown[0]["content"] == "Hi {{ secret('k') }} {{ env('HOME') }}"
    del suite


ANYTHING = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.text(max_size=8)
    | st.sampled_from(
        ["{{x}}", "{{ x | upper }}", "{% if x %}", "file://a.txt", "file://../x", "echo", "openai:gpt-5", "a, b"]
    ),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                [
                    "id",
                    "raw",
                    "label",
                    "config",
                    "type",
                    "value",
                    "vars",
                    "assert",
                    "options",
                    "x",
                    "prompts",
                    "path",
                    "file",
                ]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=8,
)
ASSERTED = st.fixed_dictionaries(
    {
        "type": st.sampled_from(
            [
                "contains",
                "is-json",
                "regex",
                "similar",
                "javascript",
                "assert-set",
                "not-equals",
                "latency",
                "g-eval",
                "word-count",
                "trajectory:tool-used",
                "min-length",
            ]
        )
    },
    optional={
        "value": ANYTHING,
        "threshold": ANYTHING,
        "weight": ANYTHING,
        "metric": ANYTHING,
        "assert": ANYTHING,
        "provider": ANYTHING,
        "config": ANYTHING,
    },
)
CONFIGURATIONS = st.fixed_dictionaries(
    {},
    optional={
        "prompts": ANYTHING,
        "providers": ANYTHING,
        "targets": ANYTHING,
        "defaultTest": ANYTHING
        | st.fixed_dictionaries(
            {"assert": st.lists(ASSERTED, max_size=2)}, optional={"vars": ANYTHING, "options": ANYTHING}
        ),
        "tests": ANYTHING
        | st.lists(
            st.fixed_dictionaries(
                {"assert": st.lists(ASSERTED, max_size=3)},
                optional={
                    "vars": ANYTHING,
                    "options": ANYTHING,
                    "threshold": ANYTHING,
                    "metadata": ANYTHING,
                    "description": ANYTHING,
                    "providers": ANYTHING,
                },
            ),
            max_size=3,
        ),
        "description": ANYTHING,
        "evaluateOptions": ANYTHING,
        "scenarios": ANYTHING,
        "extensions": ANYTHING,
    },
)


@bounded(300)
@given(CONFIGURATIONS)
def test_no_configuration_ends_in_a_traceback(tmp_path_factory: pytest.TempPathFactory, source: Any) -> None:
    folder = tmp_path_factory.mktemp("fuzz")
    (folder / "a.txt").write_text("Hi {{x}}")
    (folder / FILE).write_text("\n".join(yaml_lines(source, "")) or "{}")
    [kind] = [kind for kind in KINDS if kind.name == "promptfoo"]
    try:
        bench, _ = import_files(kind, folder / FILE, folder / "out")
    except ImportFault:
        return
    bench.write()
    from rejoinder.suite.load import read_suite

    loaded = read_suite(folder / "out" / "evals.yaml")
    of_values = ("missing-environment", "missing-secret", "empty-prompt")
    errors = [one for one in loaded.problems if one.severity == "error" and one.code not in of_values]
    assert not errors, (source, errors[0], (folder / "out" / "evals.yaml").read_text())


def test_fields_of_texts() -> None:
    assert split_at_commas('a, "b, c" ,"d""e", ,f') == ["a", "b, c", 'd"e', "f"]


def test_an_imported_suite_runs(project: Project) -> None:
    source = config({"type": "icontains", "value": "{{x}}"}, providers=["echo"])
    imported(project, source)
    assert list(statuses(project.run_json("run", "out/evals.yaml")).values()) == ["passed"]
