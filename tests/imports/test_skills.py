"""Evals of Agent Skills: from `evals.json` to a suite, with every form that public files have."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from rejoinder.suite.yaml import parse_yaml
from tests.kit import Project, Raw, case, follow, refusal, run, scripted

SKILL: Raw = {
    "skill_name": "invoices",
    "version": "1.2",
    "evals": [
        {
            "id": 1,
            "name": "overdue",
            "category": "reminders",
            "prompt": "Which invoices are overdue?",
            "expected_output": "The two invoices of March.",
            "files": ["evals/files/invoices.csv", "SKILL.md", "evals/files/none.csv", "../outside.txt"],
            "assertions": ["Names both invoices", {"id": "sum", "text": "Says that the sum is 310", "weight": 2}],
        },
        {
            "id": "braces",
            "prompt": "What is {{ env('HOME') }}?",
            "expectations": [{"name": "short", "description": "One sentence", "owner": "Ines"}],
            "difficulty": "easy",
            "grader": "strict",
        },
        {"id": 1, "query": "Write a reminder.", "expected_behavior": ["Is polite"]},
        {"id": 4, "prompt": "Say hello."},
        {"id": 5, "expected_output": "nothing was asked"},
        {"id": 6, "query": "What time is it?", "should_trigger": False},
    ],
}


@pytest.fixture
def skill(project: Project) -> Project:
    project.write("invoices/SKILL.md", "---\nname: invoices\n---\nRead the table.\n")
    project.write("invoices/evals/files/invoices.csv", "number,sum\n17,300\n18,10\n")
    project.write("invoices/evals/evals.json", SKILL)
    return project


def imported(project: Project, path: str, *arguments: str, code: int = 0) -> tuple[Any, Raw]:
    """The suite that was made, and the report."""
    report = project.run_json("import", "skills", path, "--out", "made", *arguments, code=code)
    [file] = report["files"]
    return parse_yaml(Path(file).read_text()).data, report


def test_an_eval_is_a_case_for_an_agent_with_the_skill(skill: Project) -> None:
    suite, report = imported(skill, "invoices")
    assert suite["name"] == "invoices"
    assert suite["targets"] == [
        {"name": "with-skill", "provider": "claude", "skills": ["../../invoices"]},
        {"name": "without-skill", "provider": "claude"},
    ]
    overdue, braces, reminder, hello, time = suite["evals"]
    assert overdue == {
        "id": "1",
        "name": "overdue",
        "tags": ["reminders"],
        "input_messages": [
            {
                "role": "user",
                "content": [
                    "Which invoices are overdue?",
                    {"type": "file", "value": "../../invoices/evals/files/invoices.csv"},
                ],
            }
        ],
        "outcome": "The two invoices of March.",
        "checks": [
            {
                "rubric": [
                    "Names both invoices",
                    {"id": "sum", "criterion": "Says that the sum is 310", "weight": 2},
                ]
            }
        ],
    }
    assert braces["prompt"] == "What is {{ '{{' }} env('HOME') }}?"
    assert braces["checks"] == [{"rubric": [{"id": "short", "criterion": "One sentence"}]}]
    assert braces["metadata"] == {"difficulty": "easy", "grader": "strict"}
    assert (reminder["id"], reminder["checks"]) == ("1-2", [{"rubric": ["Is polite"]}])
    assert hello["checks"] == [{"min_words": 0}]
    assert (time["prompt"], time["checks"]) == ("What time is it?", [{"not": {"skill_used": "invoices"}}])
    assert report["cases"] == 5


def test_the_suite_is_valid_and_sends_what_the_evals_say(skill: Project) -> None:
    imported(skill, "invoices")
    shown = skill.run_json("prompt", "made/evals/evals.yaml", "--mode", "agent")
    assert [one["question"].splitlines()[0] for one in shown] == [
        "Which invoices are overdue?",
        "What is {{ env('HOME') }}?",
        "Write a reminder.",
        "Say hello.",
        "What time is it?",
    ]
    assert skill.validate("made/evals/evals.yaml")["files"][0]["errors"] == []


def test_every_loss_has_a_line_and_a_comment(skill: Project) -> None:
    _, report = imported(skill, "invoices", "--strict", code=1)
    lost = [(loss["what"], loss["how"].split(";")[0]) for loss in report["left_out"]]
    assert lost == [
        ("the file 'SKILL.md'", "it is part of the skill, which the agent has"),
        ("the file 'evals/files/none.csv'", "it does not exist"),
        ("a file", "'../outside.txt' is outside of the imported folder"),
        ("`owner` of an assertion", "a criterion has nothing like it"),
        ("an eval", "it has no prompt"),
    ]
    assert [loss["what"] for loss in report["approximated"]] == ["`grader`"]
    text = Path("made/evals/evals.yaml").read_text()
    assert "# version: 1.2" in text
    for what, how in lost:
        assert f"# not imported: {what} ({how}" in text
    assert "# not the same as `grader`: it is kept as metadata, and nothing checks it" in text


def test_a_single_file_sees_the_folder_of_its_skill(skill: Project) -> None:
    made = skill.invoke("import", "skills", "invoices/evals/evals.json")
    suite = parse_yaml(made.stdout).data
    assert suite["targets"][0]["skills"] == ["invoices"]
    assert suite["evals"][0]["input_messages"][0]["content"][1]["value"] == "invoices/evals/files/invoices.csv"
    assert "imported 5 cases" in made.stderr


def test_a_set_of_queries_says_when_the_skill_is_used(project: Project) -> None:
    queries = [
        {"query": "Sum up table.csv", "should_trigger": True, "expected_output": "A sum."},
        {"query": "Tell a joke.", "should_trigger": False},
    ]
    project.write("evals/trigger-eval.json", {"skill_name": "tables", "queries": queries})
    suite, report = imported(project, "evals/trigger-eval.json")
    first, second = suite["evals"]
    assert first["checks"] == [{"skill_used": "tables"}, {"llm_judge": "A sum."}]
    assert second["checks"] == [{"not": {"skill_used": "tables"}}]
    assert report["left_out"] == []
    assert project.validate("made/trigger-eval.evals.yaml")["files"][0]["errors"] == []


@pytest.mark.parametrize("key", ["test_cases", "cases", "tests"])
def test_other_keys_of_the_list(project: Project, key: str) -> None:
    project.write("evals.json", {"skill": "x", key: [{"input": "Hi.", "expect": ["Greets"]}]})
    suite, _ = imported(project, "evals.json")
    [case] = suite["evals"]
    assert (case["id"], case["prompt"], case["checks"]) == ("eval-1", "Hi.", [{"rubric": ["Greets"]}])


def test_a_list_without_a_skill(project: Project) -> None:
    project.write("evals.json", [{"prompt": "Hi.", "expected_output": "A greeting."}])
    suite, report = imported(project, "evals.json")
    assert suite["evals"][0]["outcome"] == "A greeting."
    assert [loss["what"] for loss in report["approximated"]] == ["the agent with the skill"]
    assert "skills" not in suite["targets"][0]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({"a": 1}, "evals.json:1: this is not a file of a skill's evals"),
        ([], "evals.json:1: there are no evals in it"),
        ([{"url": "x"}], "evals.json:1: none of its evals has a prompt"),
        ("text", "evals.json:1: this is not a file of a skill's evals"),
    ],
)
def test_files_that_are_something_else(project: Project, content: Any, message: str) -> None:
    project.write("evals.json", content)
    assert message in refusal(project, "import", "skills", "evals.json")


def test_all_skills_of_a_folder(project: Project) -> None:
    for name in ("a", "b"):
        project.write(f"{name}/SKILL.md", "x")
        project.write(f"{name}/evals/evals.json", {"skill_name": name, "evals": [{"prompt": "Hi."}]})
    report = project.run_json("import", "skills", ".", "--out", ".")
    assert report["files"] == ["a/evals/evals.yaml", "b/evals/evals.yaml"]
    assert parse_yaml(Path("a/evals/evals.yaml").read_text()).data["targets"][0]["skills"] == [".."]


# Export


def exported(project: Project, *arguments: str) -> tuple[Raw, list[str]]:
    """The document on standard output, and what is lost."""
    made = project.invoke("export", *arguments, "--to", "skills")
    assert made.exit_code == 0, made.output
    return json.loads(made.stdout), made.stderr.splitlines()


def test_an_import_and_an_export_give_the_evals_back(project: Project) -> None:
    evals = [
        {
            "id": 1,
            "name": "overdue",
            "prompt": "Which are {{ due }}?",
            "expected_output": "Two.",
            "files": ["evals/files/invoices.csv"],
            "assertions": ["Names both", {"id": "sum", "text": "Says 310"}],
            "tags": ["a"],
        },
        {"id": "two", "prompt": "Say hello.", "expected_output": "Hello.", "files": [], "assertions": []},
        {"id": 3, "prompt": "Sum up.", "files": [], "should_trigger": True, "assertions": ["Is short"]},
    ]
    project.write("skill/SKILL.md", "x")
    project.write("skill/evals/files/invoices.csv", "a\n1\n")
    project.write("skill/evals/evals.json", {"skill_name": "invoices", "evals": evals})
    project.run("import", "skills", "skill", "--out", "skill")
    assert exported(project, "skill/evals/evals.yaml") == ({"skill_name": "invoices", "evals": evals}, [])


def test_the_cases_of_a_run_with_what_a_single_prompt_cannot_have(project: Project) -> None:
    suite = {
        "targets": [scripted("bot", "Hello Ines")],
        "target": "bot",
        "evals": [
            case(
                "plain",
                {"contains": "Ines"},
                {"not": {"icontains": "sorry"}},
                {"is_json": True},
                follow("Again.", {"min_words": 1}),
                expected_messages=[{"role": "assistant", "content": "Hello Ines"}],
            ),
            {"id": "plan", "turns": [{"prompt": "One."}, {"prompt": "Two.", "checks": [{"min_words": 1}]}]},
        ],
    }
    run(project, suite)
    document, losses = exported(project)
    assert document["skill_name"] == project.folder.name
    plain, plan = document["evals"]
    assert plain["expected_output"] == "Hello Ines"
    assert plain["assertions"] == [
        'The reply contains "Ines"',
        'This is not true: The reply contains "sorry", in any letter case',
    ]
    assert plan["prompt"] == "One."
    assert losses == [
        "not exported: plain: follow-ups are left out",
        "not exported: plain: the check `is_json` is left out",
        "not exported: plan: turns after the first are left out",
    ]


def test_an_export_replaces_neither_the_suite_nor_takes_several(project: Project) -> None:
    for name in ("a.yaml", "b.yaml"):
        project.write(
            name, {"targets": [scripted("bot", "x")], "target": "bot", "evals": [case("one", {"equals": "x"})]}
        )
    assert "a.yaml" in refusal(project, "export", "a.yaml", "--to", "skills", "--out", "a.yaml")
    project.run("run", "a.yaml", "b.yaml")
    assert "the run has 2 suites" in refusal(project, "export", "--to", "skills")
    project.run("export", "a.yaml", "--to", "skills", "--out", "x/evals.json")
    assert json.loads(Path("x/evals.json").read_text())["evals"][0]["id"] == "one"
