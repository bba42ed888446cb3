"""`rejoinder import agentv`: one small eval for each construct of AgentV 4 and 5, and hostile ones."""

from __future__ import annotations

import json
import shutil
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as some

from rejoinder.errors import UsageError
from rejoinder.imports.kinds import KINDS
from rejoinder.imports.workbench import import_files
from rejoinder.suite.load import read_suite
from rejoinder.suite.yaml import parse_yaml
from tests.kit import Project, Raw, bounded, refusal

FILE = "shop.eval.yaml"
KIND = next(kind for kind in KINDS if kind.name == "agentv")


def old(*asserts: Any, **more: Any) -> Raw:
    """An eval of AgentV 4."""
    return {"tests": [{"id": "one", "input": "Hi", "criteria": "Greets.", "assertions": list(asserts)}], **more}


def new(*asserts: Any, **more: Any) -> Raw:
    """An eval of AgentV 5."""
    test = {"id": "one", "vars": {"input": "Hi"}, "assert": list(asserts)}
    return {"prompts": ["{{ input }}"], "tests": [test], **more}


def imported(project: Project, source: Raw | str, *arguments: str, code: int = 0) -> tuple[Any, Raw]:
    """The suite that is made of an eval, which has to be valid, and the report."""
    project.write(FILE, source)
    shutil.rmtree(project.folder / "out", ignore_errors=True)
    report = project.run_json("import", "agentv", FILE, "--out", "out", *arguments, code=code)
    suite = project.folder / "out" / "shop.evals.yaml"
    assert not [file["errors"] for file in project.validate(str(suite))["files"] if file["errors"]], suite.read_text()
    return parse_yaml(suite.read_text()).data, report


def lost(report: Raw) -> list[str]:
    return [f"{one['what']}: {one['how']}" for one in [*report["approximated"], *report["left_out"]]]


def text_of(project: Project) -> str:
    return (project.folder / "out" / "shop.evals.yaml").read_text()


CALLS = {"mode": "in_order", "expected": [{"tool": "find"}, {"tool": "pay", "args": {"eur": 3}}]}
MATCHED = {"type": "tool-trajectory", "args_match": "superset", **CALLS}
SAME: list[tuple[Any, Any]] = [
    ({"type": "contains", "value": "a", "name": "n", "weight": 2}, {"contains": "a", "name": "n", "weight": 2}),
    ({"type": "contains", "value": "a", "negate": True}, {"not": {"contains": "a"}}),
    ({"type": "not-contains", "value": "a"}, {"not": {"contains": "a"}}),
    ({"type": "icontains_any", "value": ["a", "b"]}, {"icontains_any": ["a", "b"]}),
    ({"type": "starts-with", "value": "a", "required": True}, {"starts_with": "a", "required": True}),
    ({"type": "regex", "value": r"(?<n>\d)", "flags": "gi"}, {"regex": {"pattern": r"(?P<n>\d)", "flags": "i"}}),
    ({"type": "is-json", "id": "json"}, {"is_json": True, "name": "json"}),
    ({"type": "llm-grader"}, {"llm_judge": "Greets."}),
    ({"type": "llm-grader", "prompt": "Is short", "min_score": 0.6}, {"llm_judge": "Is short", "threshold": 0.6}),
    (
        {"type": "llm-rubric", "value": "Is {{ unknown }}", "required": True},
        {"llm_judge": "Is {{ '{{' }} unknown }}", "required": True, "threshold": 0.8},
    ),
    (
        {"type": "llm-grader", "prompt": "{{ output }} for {{ input }}, by {{criteria}}"},
        {"llm_judge": {"prompt": "{{ candidate_answer }} for {{ question }}, by {{ expected_outcome }}"}},
    ),
    ({"type": "rubrics", "criteria": ["Is short", "Is kind"]}, {"rubric": ["Is short", "Is kind"]}),
    (
        {"type": "rubrics", "criteria": [{"id": "s", "outcome": "Is short", "weight": 2, "required": True}]},
        {"rubric": [{"id": "s", "criterion": "Is short", "weight": 2, "required": True}]},
    ),
    (
        {
            "type": "llm-grader",
            "rubrics": [{"outcome": "Fits", "score_ranges": {0: "no", 5: "nearly", 9: "yes"}, "min_score": 0.5}],
        },
        {
            "rubric": [
                {
                    "criterion": "Fits",
                    "min_score": 0.5,
                    "score_ranges": [
                        {"score_range": [0, 4], "meaning": "no"},
                        {"score_range": [5, 8], "meaning": "nearly"},
                        {"score_range": [9, 10], "meaning": "yes"},
                    ],
                }
            ]
        },
    ),
    (MATCHED, {"tool_calls": ["find", {"name": "pay", "arguments": {"eur": 3}}]}),
    ({**MATCHED, "args_match": "ignore"}, {"tool_calls": ["find", "pay"]}),
    ({**MATCHED, "mode": "subset"}, {"tool_calls": {"subset": ["find", {"name": "pay", "arguments": {"eur": 3}}]}}),
    (
        {"type": "tool-trajectory", "mode": "any_order", "minimums": {"find": 1, "pay": 2}},
        {"group": {"checks": [{"tool_calls": ["find"]}, {"tool_calls": [{"name": "pay", "times": 2}]}]}},
    ),
    ({"type": "trajectory:tool-used", "value": "find"}, {"tool_calls": ["find"]}),
    ({"type": "not-trajectory:tool-used", "value": {"name": "find"}}, {"not": {"tool_calls": ["find"]}}),
    (
        {"type": "trajectory:tool-used", "value": {"name": "find", "min": 0, "max": 2}},
        {"not": {"tool_calls": [{"name": "find", "times": 3}]}},
    ),
    (
        {"type": "trajectory:tool-sequence", "value": {"mode": "exact", "steps": ["find", {"name": "pay"}]}},
        {"tool_calls": {"mode": "exact", "calls": ["find", "pay"]}},
    ),
    (
        {"type": "trajectory:tool-args-match", "value": {"name": "pay", "args": {"eur": 3}}},
        {"tool_calls": [{"name": "pay", "arguments": {"eur": 3}}]},
    ),
    ({"type": "trajectory:step-count", "value": {"type": "tool", "max": 3}}, {"tool_calls": {"max": 3}}),
    ({"type": "skill-trigger", "skill": "pdf", "should_trigger": False}, {"not": {"skill_used": "pdf"}}),
    ({"type": "not-skill-used", "value": "pdf"}, {"not": {"skill_used": "pdf"}}),
    ({"type": "latency", "threshold": 1500}, {"latency": 1.5}),
    ({"type": "cost", "budget": 0.1}, {"cost": 0.1}),
    ({"type": "token-usage", "max_total": 100}, {"effort": {"max_tokens": 100}}),
    (
        {"type": "execution-metrics", "name": "thrift", "max_tool_calls": 2, "max_duration_ms": 500},
        {"group": {"checks": [{"tool_calls": {"max": 2}}, {"latency": 0.5}]}, "name": "thrift"},
    ),
    (
        {
            "type": "composite",
            "aggregator": {"type": "weighted_average", "weights": {"a": 0.3}},
            "assertions": [{"type": "contains", "value": "a", "name": "a"}, {"type": "is-json", "name": "b"}],
        },
        {
            "group": {"checks": [{"contains": "a", "name": "a", "weight": 0.3}, {"is_json": True, "name": "b"}]},
            "threshold": 0.8,
        },
    ),
    (
        {"type": "assert-set", "metric": "both", "threshold": 0.5, "assert": ["Is kind", {"type": "is-json"}]},
        {"group": {"checks": [{"rubric": ["Is kind"]}, {"is_json": True}]}, "threshold": 0.5, "name": "both"},
    ),
    ({"type": "min-words", "value": 3}, {"min_words": 3}),
]


@pytest.mark.parametrize(("asserted", "check"), SAME, ids=lambda one: str(one.get("type")) if "type" in one else "")
def test_an_assertion_becomes_a_check(project: Project, asserted: Any, check: Any) -> None:
    suite, report = imported(project, old(asserted))
    assert suite["evals"][0]["checks"] == [check]
    assert lost(report) == []


NEAR: list[tuple[Any, Any, str]] = [
    (
        {"type": "tool-trajectory", **CALLS},
        {"tool_calls": ["find", {"name": "pay", "arguments": {"eur": 3}}]},
        "tool-trajectory: other arguments are allowed beside those that are expected",
    ),
    (
        {"type": "execution-metrics", "max_llm_calls": 2, "max_tokens": 9},
        {"effort": {"max_tokens": 9}},
        "execution-metrics: `max_llm_calls` is left out: requests of an agent are not counted",
    ),
    (
        {"type": "llm-grader", "prompt": {"command": ["node", "prompt.mjs"]}},
        {"llm_judge": "Greets."},
        "llm-grader: the prompt is made by a program, so the case's criteria are judged instead",
    ),
    (
        {"type": "llm-grader", "prompt": "{{ output }} {{ file_changes }}"},
        {"llm_judge": {"prompt": "{{ candidate_answer }} "}},
        "llm-grader: its prompt shows `file_changes`, which judges are not shown here",
    ),
    (
        {"type": "rubrics", "criteria": [{"outcome": "It is red", "operator": "contradiction"}]},
        {"rubric": [{"criterion": "Says nothing that contradicts this, and need not mention it: It is red"}]},
        "rubrics: the operator `contradiction` is written in words",
    ),
    (
        {
            "type": "composite",
            "aggregator": {"type": "code-grader", "path": "x.js"},
            "assertions": [{"type": "is-json"}],
        },
        {"group": {"checks": [{"is_json": True}]}, "threshold": 0.8},
        "composite: the mean of its assertions decides, and not a program",
    ),
    (
        {"type": "contains", "value": "a", "colour": "red"},
        {"contains": "a"},
        "`colour` of contains: the check has nothing like it",
    ),
]


@pytest.mark.parametrize(("asserted", "check", "loss"), NEAR)
def test_what_is_only_near_has_a_comment_and_a_line(project: Project, asserted: Any, check: Any, loss: str) -> None:
    suite, report = imported(project, old(asserted))
    assert suite["evals"][0]["checks"] == [check]
    assert lost(report) == [loss]
    assert loss.partition(": ")[2] in text_of(project)


@pytest.mark.parametrize(
    ("asserted", "reason"),
    [
        ({"type": "contains"}, "it has no text to look for"),
        ({"type": "contains-any", "value": "a, b"}, "it has no list of texts to look for"),
        ({"type": "regex", "value": "("}, "a suite refuses it"),
        ({"type": "sentiment"}, "rejoinder has no such check"),
        ({"type": "code-grader"}, "it has no command"),
        ({"type": "code-grader", "command": ["node", "a.mjs"], "cwd": "none"}, "there is no such folder"),
        ({"type": "tool-trajectory", "mode": "any_order"}, "it has no mode with a form here"),
        ({"type": "trajectory:tool-used", "value": "find_*"}, "a pattern for names of tools has no form here"),
        ({"type": "field-accuracy", "fields": [{"path": "a", "match": "exact"}]}, "the case has no expected output"),
        ({"type": "llm-grader", "prompt": "file://none.md"}, "there is no such file"),
        ({"type": "rubrics", "criteria": []}, "it has no criteria"),
        ({"include": "none"}, "there is no such file"),
        ({"value": "a"}, "it has no type"),
        (7, "it has no type"),
    ],
)
def test_an_assertion_without_a_form_is_a_comment(project: Project, asserted: Any, reason: str) -> None:
    suite, report = imported(project, old({"type": "is-json"}, asserted))
    assert suite["evals"][0]["checks"] == [{"is_json": True}]
    [loss] = report["left_out"]
    assert reason in loss["how"] and reason in text_of(project)


def test_texts_are_one_rubric_that_weighs_as_much_as_its_criteria(project: Project) -> None:
    suite, report = imported(project, old("Is short", {"type": "is-json"}, "Is {{ kind }}", " "))
    assert suite["evals"][0]["checks"] == [
        {"rubric": ["Is short", "Is {{ '{{' }} kind }}"], "weight": 2},
        {"is_json": True},
    ]
    assert lost(report) == ["an empty assertion: it says nothing"]


def test_a_case_keeps_its_words(project: Project) -> None:
    source = """
# About the shop
name: shop
description: What customers ask
version: "1.2"
tags: [may]
governance: {owner: Ines, risks: [a]}
tests:
  # The first one
  - id: one
    input: Hi {{ name }}, {{ other }} and ${{ CITY }}
    criteria: Greets {{ name }}.
    vars: {name: Ines, table: {sum: 3}}
    expected_output:
      - role: assistant
        content: {sum: "{{ table.sum }}"}
    conversation_id: c1
    metadata: {governance: {risks: [b]}, level: 2}
    assertions:
      - type: contains # the name
        value: "{{ name }}"
      # the sum
      - {type: contains, value: "sum {{ table.sum }}"}
  - id: two
    input:
      - {role: system, content: You are kind.}
      - {role: user, content: [{type: text, value: Hi}, {type: image, value: lamp.png}]}
    criteria: Greets.
    depends_on: [one]
"""
    suite, report = imported(project, source)
    one, two = suite["evals"]
    assert (suite["name"], suite["description"], suite["defaults"]["tags"]) == ("shop", "What customers ask", ["may"])
    assert one["prompt"] == "Hi {{ name }}, {{ '{{' }} other }} and {{ env('CITY') }}"
    assert (one["outcome"], one["conversation_id"]) == ("Greets {{ name }}.", "c1")
    assert one["vars"] == {"name": "Ines", "table": {"sum": 3}}
    assert one["metadata"] == {"governance": {"owner": "Ines", "risks": ["a", "b"]}, "level": 2}
    assert [check["contains"] for check in one["checks"]] == ["{{ name }}", "sum 3"]
    assert two["input_messages"] == [
        {"role": "system", "content": "You are kind."},
        {"role": "user", "content": ["Hi"]},
    ]
    assert "checks" not in two
    assert sorted(lost(report)) == [
        "`depends_on`: cases do not wait for each other",
        "a picture: only texts and files are sent",
    ]
    lines = text_of(project).splitlines()
    for comment in ("# About the shop", "# version: 1.2", "  # The first one", "      # the sum"):
        assert comment in lines
    assert "contains: '{{ name }}' # the name" in text_of(project)


def test_the_rule_of_a_case_is_the_mean_of_its_scores(project: Project) -> None:
    source = old(
        {"type": "contains", "value": "a", "weight": 4},
        {"type": "contains", "value": "b"},
        execution={"threshold": 0.7},
    )
    suite, report = imported(project, source)
    assert suite["defaults"]["threshold"] == 0.7
    assert not lost(report)
    project.write("targets.yaml", {"targets": [{"name": "s", "provider": "scripted", "replies": ["a"]}]})
    results = project.run_json("run", "out/shop.evals.yaml", "-m", "s", "--targets", "targets.yaml")["results"]
    assert [(one["status"], one["score"]) for one in results] == [("passed", 0.8)]


def test_defaults_of_the_file(project: Project) -> None:
    source = old(
        {"type": "is-json"},
        assertions=[{"type": "contains", "value": "a"}],
        input=[{"role": "system", "content": "Be kind."}],
        execution={
            "trials": {"count": 3, "strategy": "pass_at_k", "cost_limit_usd": 1},
            "budget_usd": 2.0,
            "workers": 4,
        },
    )
    suite, report = imported(project, source)
    assert suite["checks"] == [{"contains": "a"}]
    assert suite["evals"][0]["input_messages"][0] == {"role": "system", "content": "Be kind."}
    assert {key: suite["defaults"][key] for key in ("repeat", "pass")} == {"repeat": 3, "pass": "1 of 3"}
    assert suite["budget"] == {"usd": 2} and suite["metadata"] == {"threads": 4}
    assert lost(report) == ["`cost_limit_usd` of trials: set `budget` for the run"]


def test_a_test_may_skip_the_defaults(project: Project) -> None:
    source = old({"type": "is-json"}, assertions=[{"type": "contains", "value": "a"}], input="Hello.")
    source["tests"].append({**source["tests"][0], "id": "two", "execution": {"skip_defaults": True, "threshold": 1}})
    suite, _ = imported(project, source)
    one, two = suite["evals"]
    assert "checks" not in suite
    assert one["checks"] == [{"is_json": True}, {"contains": "a"}] and len(one["input_messages"]) == 2
    assert two["checks"] == [{"is_json": True}] and (two["prompt"], two["threshold"]) == ("Hi", 1)


def test_a_conversation_is_a_plan(project: Project) -> None:
    turns = [
        {"input": "15 % of 200?", "assertions": ["Says 30", {"type": "contains", "value": "30"}]},
        {"input": "Twice that?", "expected_output": "60"},
    ]
    talk = {"id": "sums", "mode": "conversation", "turns": turns, "window_size": 2, "aggregation": "min"}
    suite, report = imported(project, {"tests": [{**talk, "input": "Be short.", "assertions": ["Is right"]}]})
    [case] = suite["evals"]
    assert case["turns"] == [
        {"prompt": "15 % of 200?", "checks": [{"rubric": ["Says 30"]}, {"contains": "30"}]},
        {"prompt": "Twice that?", "expected": "60"},
    ]
    assert case["conversation_checks"] == [{"on": "transcript", "rubric": ["Is right"]}]
    assert (case["pass_steps"], case["on_turn_failure"], case["aggregation"]) == ("aggregate", "continue", "min")
    assert [one["what"] for one in report["approximated"]] == ["assertions of a conversation", "`window_size`"]


def test_tests_in_files_are_cases(project: Project) -> None:
    project.write("cases/a.yaml", [{"id": "a", "input": "A", "criteria": "x"}, "file://b.jsonl"])
    project.write("cases/b.jsonl", '{"id": "b", "input": "B", "criteria": "x"}\n')
    project.write("cases/c.csv", "id,vars.input,__expected\nc,C,contains: yes\n")
    project.write("many/d/case.yaml", {"input": "D", "criteria": "x"})
    project.write("many/d/workspace/readme.md", "hi")
    paths = ["file://cases/a.yaml", "file://cases/c.csv", "./many", "file://none.yaml"]
    suite, report = imported(project, {"tests": paths})
    assert [case["id"] for case in suite["evals"]] == ["a", "b", "c", "d"]
    assert suite["evals"][2]["checks"] == [{"contains": "yes"}]
    assert [one["what"] for one in report["left_out"]] == ["the workspace of d", "none.yaml"]


def test_a_file_that_names_itself_ends(project: Project) -> None:
    project.write("loop.yaml", ["file://loop.yaml", {"id": "a", "input": "A", "criteria": "x"}])
    project.write("more.yaml", {"assertions": [{"include": "./more.yaml"}, {"type": "is-json"}]})
    suite, report = imported(project, {"tests": ["file://loop.yaml", *old({"include": "./more.yaml"})["tests"]]})
    assert [case["id"] for case in suite["evals"]] == ["a", "one"]
    assert suite["evals"][1]["checks"] == [{"is_json": True}]
    assert [one["how"] for one in report["left_out"]] == [
        "files of tests name each other too deeply",
        "files include each other too deeply",
    ]


def test_a_scenario_crosses_its_rows_with_its_tests(project: Project) -> None:
    scenario = {
        "config": [
            {"vars": {"language": "Spanish", "word": "hola"}},
            {"vars": {"language": "French", "word": "salut"}},
        ],
        "tests": [{"id": "hi", "vars": {"phrase": "hello"}, "assert": [{"type": "equals", "value": "{{ word }}"}]}],
    }
    suite, report = imported(project, {"prompts": ["{{ phrase }} in {{ language }}?"], "scenarios": [scenario]})
    assert [(case["id"], case["vars"]["word"]) for case in suite["evals"]] == [("hi-1", "hola"), ("hi-2", "salut")]
    assert {case["prompt"] for case in suite["evals"]} == {"{{ phrase }} in {{ language }}?"}
    assert suite["evals"][0]["checks"] == [{"equals": "{{ word }}"}]
    assert not lost(report)


def test_a_prompt_or_a_variable_without_a_form_has_a_comment(project: Project) -> None:
    tests = [{"id": "a", "vars": {"q": "x", "no-name": "y"}, "assert": ["Is kind"]}]
    source = {"prompts": ["file://prompt.py:ask"], "tests": tests, "default_test": "file://none.yaml"}
    suite, report = imported(project, {**source, "providers": [{"config": {"model": "x"}}]})
    assert suite["evals"][0]["prompt"] == "TODO: write the prompt" and suite["evals"][0]["vars"] == {"q": "x"}
    lost_here = [one["what"] for one in report["left_out"]]
    assert sorted(lost_here) == ["`default_test`", "a target", "prompt.py:ask", "the variable `no-name`"]
    assert all(f"# not imported: {what}" in text_of(project) for what in lost_here)


def test_several_prompts_are_variants(project: Project) -> None:
    project.write(
        "chat.json",
        json.dumps([{"role": "system", "content": "Be {{ tone }}."}, {"role": "user", "content": "{{ q }}"}]),
    )
    prompts = [{"id": "plain", "prompt": "Say: {{ q }}"}, {"label": "Chat", "file": "chat.json"}]
    tests = [{"id": "a", "vars": {"q": "What is {{ vars.x }}?", "x": "tea"}, "assert": ["Answers {{ vars.q }}"]}]
    source = {"prompts": prompts, "tests": tests, "default_test": {"vars": {"tone": "kind"}, "threshold": 0.5}}
    suite, _ = imported(project, source)
    assert suite["variants"] == [
        {"name": "plain", "prompt": "Say: {{ q }}"},
        {"name": "chat", "system_prompt": "Be {{ tone }}.", "prompt": "{{ q }}"},
    ]
    [case] = suite["evals"]
    assert case["vars"] == {"tone": "kind", "q": "What is tea?", "x": "tea"}
    assert case["checks"] == [{"rubric": ["Answers What is tea?"]}] and suite["defaults"]["threshold"] == 0.5


TARGETS = """
targets:
  - {name: clerk, provider: azure, endpoint: "${{ AZURE }}", model: gpt-5, api_key: k, grader_target: judge}
  - {name: judge, use_target: real}
  - {name: real, provider: openai, model: gpt-5-mini, color: red}
  - {name: coder, provider: claude-cli, model: sonnet}
  - {name: tool, provider: cli, command: "python3 answer.py {PROMPT} {OUTPUT_FILE}", cwd: ..}
  - {name: round, use_target: round}
  - {name: other, use_target: "${{ NAME }}"}
"""


@pytest.fixture
def shop(project: Project) -> Project:
    project.write("shop/.agentv/targets.yaml", TARGETS)
    project.write("shop/answer.py", "")
    project.write("shop/files/a.txt", "a")
    return project


def of_shop(shop: Project, source: Raw) -> tuple[Any, Raw]:
    shop.write("shop/evals/x.eval.yaml", source)
    shutil.rmtree(shop.folder / "out", ignore_errors=True)
    report = shop.run_json("import", "agentv", "shop/evals/x.eval.yaml", "--out", "out")
    assert report["files"]
    return parse_yaml((shop.folder / "out/x.evals.yaml").read_text()).data, report


def test_targets_of_the_project_are_those_of_the_suite(shop: Project) -> None:
    suite, report = of_shop(shop, old("Is kind", execution={"target": "clerk"}))
    assert suite["target"] == "clerk" and suite["judge_target"] == "judge"
    assert suite["targets"] == [
        {"name": "clerk", "provider": "azure", "endpoint": "${{ AZURE }}", "deployment": "gpt-5", "api_key": "k"},
        {"name": "judge", "provider": "openai", "model": "gpt-5-mini"},
    ]
    assert lost(report) == ["target setting `color`: a target here has nothing like it"]


def test_a_command_runs_where_it_did(shop: Project) -> None:
    suite, report = of_shop(shop, old({"type": "is-json"}, execution={"target": "tool"}))
    assert suite["targets"] == [
        {
            "name": "tool",
            "provider": "cli",
            "command_template": "python3 answer.py {PROMPT} {OUTPUT_FILE}",
            "cwd": "../shop",
        }
    ]
    assert not lost(report)


@pytest.mark.parametrize(
    ("name", "how"),
    [
        ("round", "its `use_target` leads in a circle"),
        ("other", "`use_target: ${{ NAME }}` names it; name your own"),
        ("none", "no file of the imported folder defines it; name another target"),
    ],
)
def test_a_target_that_is_not_found_has_to_be_named(shop: Project, name: str, how: str) -> None:
    suite, report = of_shop(shop, old({"type": "is-json"}, execution={"target": name}))
    left_out = {"provider": "scripted", "replies": [{"error": "the import left this target out"}]}
    assert suite["targets"] == [{"name": name, **left_out}]
    assert lost(report) == [f"target {name}: {how}"]


def test_a_workspace_belongs_to_an_agent(shop: Project) -> None:
    workspace = {
        "template": "../files",
        "repos": [{"repo": "some/one", "path": "./code", "commit": "abc"}, {"repo": "--upload-pack=x"}],
        "hooks": {"before_all": {"command": ["node", "setup.mjs"]}},
    }
    suite, report = of_shop(shop, old({"type": "is-json"}, execution={"target": "coder"}, workspace=workspace))
    assert suite["targets"] == [
        {
            "name": "coder",
            "provider": "claude",
            "model": "sonnet",
            "workspace_template": "../shop/files",
            "setup": ["git clone https://github.com/some/one.git ./code", "git -C ./code checkout abc"],
        }
    ]
    assert [one["what"] for one in report["approximated"]] == ["the workspace"]
    assert "setup.mjs" in report["left_out"][0]["how"]
    _, report = of_shop(shop, old({"type": "is-json"}, execution={"target": "clerk"}, workspace=workspace))
    assert "only coding agents have workspaces" in " ".join(lost(report))


def test_providers_of_version_5(shop: Project) -> None:
    shop.write(
        "shop/.agentv/providers.yaml",
        [{"id": "openai", "label": "new", "config": {"model": "{{ env.MODEL }}", "apiKey": "k", "max_tokens": 9}}],
    )
    source = new("Is kind", providers=["new", "openai:gpt-5-mini", {"id": "mock", "label": "fake", "response": "Hi"}])
    suite, report = of_shop(shop, source)
    assert suite["target"] == ["new", "openai:gpt-5-mini", "fake"]
    assert suite["targets"] == [
        {"name": "new", "provider": "openai", "model": "${{ MODEL }}", "api_key": "k", "max_output_tokens": 9},
        {"name": "openai:gpt-5-mini", "provider": "openai", "model": "gpt-5-mini"},
        {"name": "fake", "provider": "mock", "response": "Hi"},
    ]
    assert not lost(report)


GRADER = """
import json, sys
given = json.load(sys.stdin)
calls = given["trace_summary"]["tool_calls"]
parts = [
    {"text": "pays", "passed": calls == {"pay": 1}},
    {"text": "says why", "passed": given["criteria"] in given["output"]},
    {"text": "names " + given["config"]["word"], "passed": given["expected_output"][0]["content"] == "x"},
]
print(json.dumps({"assertions": parts}))
"""


def test_a_program_grades_as_before(project: Project) -> None:
    project.write("graders/grade.py", GRADER)
    project.write("graders/crash.py", "import sys\nsys.exit('no table')")
    project.write("graders/plain.py", "print('too long')\nraise SystemExit(1)")
    test = {"id": "one", "input": "Hi", "criteria": "Because", "expected_output": "x"}
    graders = [
        {"type": "code-grader", "command": ["python3", "grade.py"], "cwd": "graders", "config": {"word": "{{ w }}"}},
        {"type": "code-grader", "script": "python3 graders/plain.py", "name": "plain"},
        {"type": "script", "command": ["python3", "graders/crash.py"], "weight": 0},
    ]
    suite, report = imported(project, {"tests": [{**test, "assertions": graders}]})
    assert not lost(report)
    assert suite["evals"][0]["checks"][0]["python"]["with"] == {
        "command": ["python3", "grade.py"],
        "cwd": "../graders",
        "config": {"word": "{{ '{{' }} w }}"},
    }
    calls = [{"name": "pay", "arguments": {"eur": 3}}]
    replies = [{"text": "Because", "tool_calls": calls}]
    project.write("targets.yaml", {"targets": [{"name": "s", "provider": "scripted", "replies": replies}]})
    document = project.run_json("run", "out/shop.evals.yaml", "-m", "s", "--targets", "targets.yaml", code=1)
    graded, plain, crashed = document["results"][0]["turns"][0]["checks"]
    assert (graded["score"], plain["score"], plain["reason"]) == (1, 0, "too long")
    assert crashed["error"] and "no table" in crashed["reason"]


def test_a_type_of_the_project_is_its_program(project: Project) -> None:
    project.write(".agentv/assertions/calm.ts", "")
    suite, report = imported(project, old({"type": "calm", "most": 3}))
    assert suite["evals"][0]["checks"] == [
        {
            "python": {
                "call": "agentv_checks:grade",
                "with": {"command": ["bun", "run", "../.agentv/assertions/calm.ts"], "config": {"most": 3}},
            }
        }
    ]
    assert not lost(report)


def test_fields_are_compared_with_the_expected_output(project: Project) -> None:
    fields = [
        {"path": "sum", "match": "numeric_tolerance", "tolerance": 0.1, "relative": True, "weight": 2},
        {"path": "lines[0].day", "match": "date"},
        {"path": "none", "match": "exact"},
    ]
    source = old({"type": "field-accuracy", "fields": fields, "aggregation": "all_or_nothing"})
    source["tests"][0]["expected_output"] = {"sum": 30, "lines": [{"day": "2026-03-31"}]}
    suite, report = imported(project, source)
    assert suite["evals"][0]["checks"][0]["field_accuracy"]["fields"] == {
        "sum": {"expected": 30, "kind": "number", "tolerance": 3, "weight": 2},
        "lines[0].day": {"expected": "2026-03-31", "kind": "date"},
    }
    assert len(report["approximated"]) == 1


def test_prompts_of_judges_get_our_names(project: Project) -> None:
    project.write("judges/short.md", "Is this short? {{ output }}")
    suite, report = imported(project, old({"type": "llm-grader", "prompt": "file://judges/short.md", "target": "j"}))
    [check] = suite["evals"][0]["checks"]
    assert check == {"llm_judge": {"prompt": "short.judge.md", "target": "j"}}
    assert (project.folder / "out/short.judge.md").read_text() == "Is this short? {{ candidate_answer }}"
    assert lost(report) == ["target j: no file of the imported folder defines it; name another target"]


def test_files_are_found_from_the_eval_upward(project: Project) -> None:
    project.write("rules.md", "Be kind.")
    project.write("evals/data.csv", "a,b")
    project.write(
        "evals/in/deep/x.eval.yaml",
        {
            "tests": [
                {
                    "id": "a",
                    "input": "Read.",
                    "criteria": "x",
                    "input_files": ["/rules.md", "data.csv", "../../../../etc/passwd"],
                }
            ]
        },
    )
    report = project.run_json("import", "agentv", ".", "--out", ".")
    suite = parse_yaml((project.folder / "evals/in/deep/x.evals.yaml").read_text()).data
    content = suite["evals"][0]["input_messages"][0]["content"]
    assert content == [{"type": "file", "value": "rules.md"}, {"type": "file", "value": "data.csv"}, "Read."]
    assert "outside of the imported folder" in report["left_out"][0]["how"]
    assert not [one["errors"] for one in project.validate("evals/in/deep/x.evals.yaml")["files"] if one["errors"]]


def test_a_folder_is_searched_for_evals(project: Project) -> None:
    project.write("a/dataset.eval.yaml", old({"type": "is-json"}))
    project.write("b/evals/suite.yaml", old({"type": "is-json"}))
    project.write("b/evals/cases.yaml", [{"id": "x"}])
    project.write("evals.yaml", {"evals": [{"prompt": "Hi", "checks": [{"contains": "a"}]}]})
    project.write(".agentv/config.yaml", {"tests": "evals"})
    project.write("c/broken.eval.yaml", "tests: [")
    report = project.run_json("import", "agentv", ".", "--out", "made", code=2)
    assert sorted(report["files"]) == ["made/a/evals.yaml", "made/b/evals/suite.evals.yaml"]
    assert [one["file"] for one in report["unreadable"]] == ["c/broken.eval.yaml"]


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("tests: [", "shop.eval.yaml"),
        ("- a", "this is not an eval of AgentV"),
        ("evals: []", "this is not an eval of AgentV"),
        ("tests: []", "none of its tests can be imported"),
        ("tests: [1, {}]", "none of its tests can be imported"),
        ("tests: &a [*a]", "an alias is inside the value that it names"),
        ("tests: " + "[" * 5000, "levels"),
        (
            "x: &x [1,1,1,1,1,1,1,1,1,1]\n"
            + "".join(f"x{n}: &x{n} [{', '.join([f'*x{n - 1}' if n else '*x'] * 10)}]\n" for n in range(9))
            + "tests: *x8",
            "a",
        ),
    ],
)
def test_a_hostile_source_is_one_error(project: Project, source: str, message: str) -> None:
    project.write(FILE, source)
    assert message in refusal(project, "import", "agentv", FILE, "--out", "out")
    assert not (project.folder / "out").exists()


@pytest.mark.slow
def test_files_that_name_each_other_many_times_are_one_error(project: Project) -> None:
    for number in range(4):
        project.write(f"t{number}.yaml", [f"file://t{number + 1}.yaml"] * 200)
        project.write(f"i{number}.yaml", {"assertions": [{"include": f"./i{number + 1}.yaml"}] * 200})
    project.write("t4.yaml", [])
    project.write("i4.yaml", {"assertions": []})
    project.write(FILE, {"tests": ["file://t0.yaml"]})
    assert "names more than 2,000 files of tests" in refusal(project, "import", "agentv", FILE)
    project.write(FILE, old(*[{"include": "./i0.yaml"}] * 200))
    assert "files include more than 10,000 assertions" in refusal(project, "import", "agentv", FILE)
    row = {"vars": {"x": "y"}}
    scenario = {"config": [row] * 300, "tests": [{"vars": {"input": "Hi"}}] * 300}
    project.write(FILE, {"prompts": ["{{ input }}"], "scenarios": [scenario]})
    assert "more than 20,000 tests" in refusal(project, "import", "agentv", FILE)


def test_nothing_is_read_through_links_or_outside(project: Project) -> None:
    project.write("secret.yaml", [{"id": "s", "input": "S", "criteria": "x"}])
    project.write(
        "in/x.eval.yaml",
        {"tests": ["file://../secret.yaml", "file://link.yaml", {"id": "a", "input": "A", "criteria": "x"}]},
    )
    (project.folder / "in/link.yaml").symlink_to(project.folder / "secret.yaml")
    (project.folder / "in/.agentv").symlink_to(project.folder)
    words = refusal(project, "import", "agentv", "in/x.eval.yaml")
    assert "outside of the imported folder" in words


KEYS = [
    *("tests", "id", "input", "criteria", "expected_output", "assertions", "assert", "type", "value", "name"),
    *("weight", "required", "negate", "min_score", "vars", "turns", "mode", "role", "content", "execution"),
    *("target", "targets", "trials", "count", "workspace", "template", "repos", "repo", "path", "hooks"),
    *("prompts", "providers", "label", "config", "scenarios", "default_test", "options", "threshold"),
    *("metadata", "governance", "tags", "input_files", "rubrics", "outcome", "score_ranges", "mode"),
    *("expected", "minimums", "tool", "args", "fields", "match", "command", "cwd", "include", "aggregator"),
    *("evaluate_options", "repeat", "environment"),
]
TYPES = [
    "contains",
    "regex",
    "llm-grader",
    "rubrics",
    "composite",
    "tool-trajectory",
    "field-accuracy",
    "script",
    "latency",
]
texts = some.sampled_from(
    ["", " ", "user", "{{ input }}", "{{ x.y }}", "${{ A }}", "../x", "file://a", "exact", *TYPES]
)
plain = some.one_of(
    some.none(), some.booleans(), some.integers(-3, 10**20), some.floats(), texts, some.text(max_size=8)
)
values = some.recursive(
    plain,
    lambda inner: some.lists(inner, max_size=4) | some.dictionaries(some.sampled_from(KEYS), inner, max_size=6),
    max_leaves=25,
)
cases = some.fixed_dictionaries(
    {"id": plain, "input": plain | values},
    optional=dict.fromkeys(("assertions", "assert", "vars", "turns", "expected_output", "execution"), values),
)
asserted = some.fixed_dictionaries({"type": some.sampled_from(TYPES)}, optional=dict.fromkeys(KEYS[10:], values))
checked = some.fixed_dictionaries(
    {"id": plain, "input": some.just("Hi"), "assertions": some.lists(asserted, max_size=4)}
)
documents = some.fixed_dictionaries(
    {"tests": some.lists(cases | checked, max_size=4)}, optional={key: values for key in KEYS if key != "tests"}
)


@pytest.mark.slow
def test_any_eval_is_a_valid_suite_or_one_error() -> None:
    @bounded(400)
    @given(documents | values)
    def check(document: Any) -> None:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, FILE)
            path.write_text(json.dumps(document))
            try:
                bench, _ = import_files(KIND, path, path.parent / "made")
            except UsageError as error:
                assert str(error)
                return
            for file in map(Path, bench.write()):
                if file.suffix == ".yaml":
                    problems = [one for one in read_suite(file).problems if one.severity == "error"]
                    assert not problems, (problems, file.read_text())

    check()
