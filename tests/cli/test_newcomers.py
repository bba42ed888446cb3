"""What newcomers write first: it works, or the message says what to write instead."""

from __future__ import annotations

import json
from typing import Any

import pytest

from rejoinder.report.problems import printable
from rejoinder.testing import FakeServer, Fault
from tests.kit import Project, behind, case, refusal, run, scripted, verdict_of


def suite_of(**more: Any) -> dict[str, Any]:
    return {"target": "scripted/x", "evals": [{**case("one"), **more}]}


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"pass": "2/5"}, "write `2 of 5`"),
        ({"quarantine": True}, "write for example `{ until: 2027-01-31, reason: ... }`"),
        ({"quarantine": "flaky"}, "write for example `{ until: 2027-01-31, reason: ... }`"),
        ({"checks": [{"any_of": [{"contains": "x"}]}]}, "did you mean `or`?"),
        ({"checks": [{"all_of": [{"contains": "x"}]}]}, "did you mean `and`?"),
    ],
)
def test_a_mistake_has_its_fix(project: Project, more: dict[str, Any], words: str) -> None:
    [error] = project.errors(suite_of(**more))
    assert words in error["message"]


def test_the_fix_of_a_share_is_a_line_to_copy(project: Project) -> None:
    lines = ("target: scripted/x", "evals:", "  - prompt: Hi", "    pass: 2/5", "    checks: [{contains: x}]")
    project.write("evals.yaml", "\n".join(lines))
    assert "pass: 2 of 5" in refusal(project, "validate", "evals.yaml").replace("    ", " ")


def test_a_text_behind_llm_judge_is_the_criteria(project: Project) -> None:
    grader = {"name": "grader", "provider": "scripted", "judge": [{"score": 0.9, "reasoning": "Fine."}]}
    suite = {"targets": [scripted("bot", "Hello!"), grader], "target": "bot", "judge_target": "grader"}
    document = run(project, {**suite, "evals": [case("one", {"llm_judge": "Is polite."})]}, code=0)
    assert verdict_of(document["results"][0])["score"] == 0.9
    [shown] = project.prompts({**suite, "evals": [case("one", {"llm_judge": "Is polite."})]}, "--judge", "--reply", "x")
    assert "Is polite." in json.dumps(shown)


def test_an_empty_text_behind_llm_judge_is_refused(project: Project) -> None:
    [error] = project.errors(suite_of(checks=[{"llm_judge": " "}]))
    assert error["code"] == "empty-prompt"


@pytest.mark.parametrize(
    ("rule", "words"),
    [
        ("rate", "the rule `rate` has no bound; without quotes the shell takes `>` and `<` for files"),
        ("cost", "or write `--rule cost:1.50`"),
        ("pass^3", "`--rule 'pass^3>=70%'`"),
    ],
)
def test_a_rule_whose_bound_the_shell_took(project: Project, rule: str, words: str) -> None:
    run(project, {"targets": [scripted("bot", "x")], "target": "bot", "evals": [case()]}, code=0)
    assert words in refusal(project, "gate", "--rule", rule)


def test_a_rule_can_be_written_with_a_colon(project: Project) -> None:
    run(project, {"targets": [scripted("bot", "x")], "target": "bot", "evals": [case()]}, code=0)
    project.run("gate", "--rule", "rate:90%", code=0)


def test_runs_list_is_answered_with_the_command_that_lists_them(project: Project) -> None:
    assert "rejoinder runs " in refusal(project, "runs", "list")


def test_html_is_the_report(project: Project) -> None:
    assert "rejoinder run x.yaml --report r.html" in refusal(project, "run", "x.yaml", "--html", "r.html")


@pytest.mark.parametrize(
    ("answer", "is_advised"),
    [
        (Fault("status", status=401), False),
        (Fault("status", status=404), False),
        (Fault("status", status=302), False),
        (Fault("status", status=500), True),
    ],
    ids=["401", "404", "302", "500"],
)
def test_only_errors_that_may_pass_are_advised_to_be_retried(project: Project, answer: Any, is_advised: bool) -> None:
    with FakeServer(answer) as server:
        target = {**behind(server, "bot"), "max_retries": 0}
        project.write("evals.yaml", {"targets": [target], "target": "bot", "evals": [case()]})
        shown = project.run("run", "evals.yaml", code=3)
    assert ("--retry-errors" in shown) == is_advised, shown


def test_a_judge_without_a_verdict_is_not_advised_to_be_retried(project: Project) -> None:
    grader = {"name": "grader", "provider": "scripted", "judge": ["I like it.", "I like it."]}
    targets = [scripted("bot", "Hello!"), grader]
    check = {"llm_judge": {"criteria": "Is polite.", "target": "grader"}}
    project.write("evals.yaml", {"targets": targets, "target": "bot", "evals": [case("one", check)]})
    shown = project.run("run", "evals.yaml", code=3)
    assert "the judge's answer" in shown and "--retry-errors" not in shown


def test_a_wrong_reply_path_and_an_empty_body_are_not_advised_to_be_retried(project: Project) -> None:
    with FakeServer() as server:
        target = {"name": "bot", "provider": "http", "url": server.openai_url + "/chat/completions"}
        target |= {"body": {"model": "x", "messages": "{{ messages }}"}, "reply_path": "nowhere"}
        project.write("evals.yaml", {"targets": [target], "target": "bot", "evals": [case()]})
        shown = project.run("run", "evals.yaml", code=3)
    assert "reply_path" in shown and "--retry-errors" not in shown


@pytest.mark.parametrize("text", ["می\u200cخواهم", "👨\u200d👩\u200d👧", "क्\u200dष", "❤️\u200d🔥"])
def test_joiners_of_other_scripts_are_shown_as_they_are(project: Project, text: str) -> None:
    assert printable(text) == text
    suite = {"targets": [scripted("bot", text)], "target": "bot", "evals": [case("one", {"contains": "absent"})]}
    project.write("evals.yaml", suite)
    assert text in project.run("run", "evals.yaml", code=1)


@pytest.mark.parametrize(
    "text",
    [
        *("pass\u200dword", "a\u200c b", "\u200dx", "x\u200d", "é\u200de", "می\u202eخ", "क\u200d\u200dष", "क\u200bष"),
        "\ufeffx",
    ],
)
def test_what_hides_or_turns_text_is_still_made_visible(text: str) -> None:
    shown = printable(text)
    assert "�" in shown and not {"\u202e", "\u200b", "\ufeff"} & set(shown)
    assert "\u200d" not in shown and "\u200c" not in shown


def test_a_scripted_judge_is_not_called_uncalibrated_and_another_is(project: Project) -> None:
    grader = {"name": "grader", "provider": "scripted", "judge": [{"score": 0.9, "reasoning": "Fine."}]}
    suite = {"targets": [scripted("bot", "Hello!"), grader], "target": "bot", "judge_target": "grader"}
    project.write("evals.yaml", {**suite, "evals": [case("one", {"llm_judge": "Is polite."})]})
    assert "uncalibrated" not in project.run("run", "evals.yaml")
    project.write("own.py", 'def judge(request):\n    return \'{"score": 1.0, "reasoning": "Fine."}\'\n')
    suite["targets"][1] = {"name": "grader", "provider": "python", "call": "own:judge"}
    project.write("evals.yaml", {**suite, "evals": [case("one", {"llm_judge": "Is polite."})]})
    assert "uncalibrated judge" in project.run("run", "evals.yaml")


def test_a_function_is_not_said_to_have_no_price_at_every_turn(project: Project) -> None:
    project.write("own.py", "def reply(request):\n    return 'x'\n")
    target = {"name": "bot", "provider": "python", "call": "own:reply"}
    project.write("evals.yaml", {"targets": [target], "target": "bot", "evals": [case("one", {"contains": "y"})]})
    project.run("run", "evals.yaml", "--report", "r.html", code=1)
    assert "no price is known" not in (project.folder / "r.html").read_text()


def test_an_unknown_provider_is_told_once_where_it_is_asked(project: Project) -> None:
    target = {"name": "bot", "provider": "htpp", "url": "http://127.0.0.1:9/x"}
    others = [target, scripted("other", "x")]
    project.write("evals.yaml", {"targets": others, "target": "bot", "evals": [case()]})
    said = refusal(project, "run", "evals.yaml")
    assert said.count("htpp` ") + said.count("htpp`;") == 1, said
    assert "error[unknown-provider] evals.yaml:1" in said
    project.run("run", "evals.yaml", "-m", "other", code=0)


def test_an_empty_body_is_said_to_be_empty(project: Project) -> None:
    with FakeServer(Fault("empty_body")) as server:
        project.write("evals.yaml", {"targets": [behind(server, "bot")], "target": "bot", "evals": [case()]})
        assert "which is not a reply: the body is empty" in project.run("run", "evals.yaml", code=3)
