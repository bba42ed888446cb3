"""The system prompt of a conversation, as it was sent, in `show -v`, in a report and in the viewer."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import urlencode

import pytest

from rejoinder.runs.folder import RunFolder
from rejoinder.runs.results import read_results
from rejoinder.runs.system_prompts import SystemPrompts
from tests.kit import Project, only_run
from tests.labs.session_lab import Bot
from tests.report.html_files import HtmlFile
from tests.server.kit import ask, settings

SUITE: dict[str, Any] = {
    "metadata": {"name": "tone", "model": "clerk", "system_prompt": "The suite's own."},
    "targets": [{"name": "clerk", "provider": "scripted", "replies": ["Paris."], "system_prompt": "The target's own."}],
    "evals": [
        {"id": "plain", "prompt": "Capital?", "checks": [{"contains": "Paris"}]},
        {"id": "own", "prompt": "Capital?", "checks": [{"contains": "Paris"}], "system_prompt": "The case's own."},
    ],
}
VARIED = SUITE | {
    "variants": [
        {"name": "warm", "system_prompt": {"file": "warm.md"}},
        {"name": "short", "system_prompt": "Be brief: {{ secret('MY_API_KEY') }}."},
    ]
}
SECRET = "sk-verysecret-123456789"


@pytest.fixture
def varied(project: Project, monkeypatch: pytest.MonkeyPatch) -> Project:
    monkeypatch.setenv("MY_API_KEY", SECRET)
    (project.folder / "warm.md").write_text("You are warm.\nSay hello.")
    project.write("evals.yaml", VARIED)
    project.run("run", "evals.yaml")
    # What the files say today is not what was sent.
    (project.folder / "warm.md").write_text("You are cold.")
    return project


def prompts(project: Project) -> dict[tuple[str, str | None], str]:
    folder = RunFolder(only_run(project.folder))
    told = SystemPrompts(folder)
    found = {(result.id, result.variant): told.of(result) for result in read_results(folder.results)}
    for result in read_results(folder.results):
        assert SystemPrompts(folder, result).of(result) == found[result.id, result.variant]
    assert all(one.is_sent for one in found.values())
    return {name: one.text for name, one in found.items()}


def test_it_is_that_of_the_variant(varied: Project):
    told = prompts(varied)
    assert told["plain", "warm"] == told["own", "warm"] == "You are warm.\nSay hello."
    assert told["plain", "short"].startswith("Be brief: ")


def test_it_is_that_of_the_case_else_of_the_suite(project: Project):
    project.write("evals.yaml", SUITE)
    project.run("run", "evals.yaml")
    assert prompts(project) == {("plain", None): "The suite's own.", ("own", None): "The case's own."}


def test_it_is_that_of_the_target_where_there_is_no_other(project: Project):
    project.write("evals.yaml", SUITE | {"metadata": {"name": "tone", "model": "clerk"}})
    project.run("run", "evals.yaml")
    assert prompts(project) == {("plain", None): "The target's own.", ("own", None): "The case's own."}


def test_it_is_that_of_the_command(project: Project):
    project.write("evals.yaml", SUITE)
    project.run("run", "evals.yaml", "--system-prompt", "The command's own.")
    assert set(prompts(project).values()) == {"The command's own."}


def test_show_writes_it_before_the_first_turn(varied: Project):
    shown = varied.run("show", "-v")
    assert "  System prompt: You are warm.\n    Say hello.\n  Turn 1:" in shown
    assert "You are cold" not in shown
    alone = varied.run("show", "--case", "own", "--variant", "warm", "-v")
    assert "  System prompt: You are warm.\n    Say hello.\n  Turn 1:" in alone
    assert "System prompt" not in varied.run("show", "--case", "own", "--variant", "warm")


def test_a_long_one_is_cut_in_a_terminal(project: Project):
    project.write("evals.yaml", SUITE | {"metadata": {"system_prompt": "\n".join(map(str, range(100)))}})
    project.run("run", "evals.yaml")
    assert "    19\n    (80 more lines; `rejoinder report` has all)\n  Turn 1:" in project.run("show", "-v")


def test_a_report_and_the_viewer_have_it(varied: Project):
    varied.run("report", "--out", "report.html")
    page = HtmlFile([(varied.folder / "report.html").read_text()])
    told = {(one["row"]["case"], one["row"]["variant"]): one["system"] for one in page.bodies}
    assert told["plain", "warm"] == "You are warm.\nSay hello."
    run = only_run(varied.folder).name
    words = urlencode({"suite": "tone", "case": "plain", "target": "clerk", "variant": "warm", "trial": 1})
    shown = ask(settings(varied.folder), "GET", f"/data/runs/{run}/conversation?{words}").json()
    assert shown["system"] == "You are warm.\nSay hello."


def test_secrets_in_it_stay_hidden(varied: Project):
    varied.run("report", "--out", "report.html")
    page = HtmlFile([(varied.folder / "report.html").read_text()])
    texts = [*prompts(varied).values(), varied.run("show", "-v"), json.dumps(page.bodies)]
    assert all(SECRET not in text for text in texts)
    assert any("secret('MY_API_KEY')" in text for text in texts)


@pytest.mark.parametrize("name", ["suite.json", "cases.jsonl"])
@pytest.mark.parametrize("content", [None, b"", b"{}\n", b"[" * 5000, b"\xff\n", b'[7,{"id":"plain"}]\n'])
def test_of_a_run_without_it_nothing_is_said(varied: Project, name: str, content: bytes | None):
    path = only_run(varied.folder) / name
    path.unlink()
    if content is not None:
        path.write_bytes(content)
    assert set(prompts(varied).values()) == {""}


def test_a_case_without_one_has_none(project: Project):
    bare = {"targets": [{"name": "clerk", "provider": "scripted", "replies": ["x"]}], "target": "clerk"}
    project.write("evals.yaml", bare | {"evals": [{"id": "a", "prompt": "?", "checks": [{"contains": "x"}]}]})
    project.run("run", "evals.yaml")
    assert prompts(project) == {("a", None): ""}
    assert "System prompt" not in project.run("show", "-v")


def echoing(bot: Bot, **more: Any) -> dict[str, Any]:
    """Two variants of a system prompt on a service that may not get it."""
    target = {"name": "bot", "provider": "http", "url": f"{bot.url}/chat", "reply_path": "reply", **more}
    cases = [{"id": "a", "prompt": "Hello", "checks": [{"contains": "Hello"}]}]
    variants = [{"name": name, "system_prompt": f"Be {name}."} for name in ("rude", "kind")]
    return {"targets": [target], "target": "bot", "variants": variants, "evals": cases}


NOT_SENT = "System prompt (not sent: the target's request has no place for it): Be rude."


def test_one_that_was_not_sent_is_marked_on_every_surface(project: Project):
    with Bot() as bot:
        project.write("evals.yaml", echoing(bot, body={"message": "{{ prompt }}"}))
        ended = project.invoke("run", "evals.yaml")
        assert "warning[lost-system-prompt]" in ended.output
        assert "rude" not in str(bot.turns)
    assert f"  {NOT_SENT}\n" in project.run("show", "-v")
    project.run("report", "--out", "report.html")
    page = HtmlFile([(project.folder / "report.html").read_text()])
    assert [(one["unsent"], one["system_size"]) for one in page.bodies] == [(True, "8 characters, not sent")] * 2
    assert "--- system (not sent) ---\nBe rude." in project.run("prompt", "evals.yaml")
    assert [one["system_sent"] for one in json.loads(project.run("prompt", "evals.yaml", "--format", "json"))] == [
        False
    ] * 2


@pytest.mark.parametrize("body", [None, {"message": "{{ prompt }}", "system": "{{ system }}"}])
def test_one_that_was_sent_is_not_marked(project: Project, body: Any):
    with Bot() as bot:
        project.write("evals.yaml", echoing(bot, **({} if body is None else {"body": body})))
        ended = project.invoke("run", "evals.yaml")
        assert "lost-system-prompt" not in ended.output
        assert "Be rude." in str(bot.turns)
    assert "  System prompt: Be rude.\n" in project.run("show", "-v")
    assert "not sent" not in project.run("prompt", "evals.yaml")
