"""The editor's `chat` command, on a stand-in: its reply is a file that the prompt asks for."""

from __future__ import annotations

from typing import Any

import pytest

from rejoinder.model.providers import row_of
from tests.kit import Project, Raw, run
from tests.labs.agent_lab import STANDINS, follow_ups, suite, turns_of

pytestmark = pytest.mark.slow


def editor(name: str = "vscode", **settings: Any) -> Raw:
    return {"name": "agent", "provider": name, "vscode_cmd": str(STANDINS / "code"), **settings}


@pytest.mark.parametrize("name", ["vscode", "vscode-insiders"])
def test_a_window_answers_by_a_file(project: Project, name: str) -> None:
    document = run(project, suite(editor(name), "[write a.txt: hello]", follow_ups("And more?")), code=0)
    first, second = turns_of(document)
    assert first["response"].startswith("turn 1: ") and second["response"].startswith("turn 2: ")
    assert "+hello" in first["workspace_diff"] and "reply-1" not in first["workspace_diff"]
    [log] = project.folder.glob(".rejoinder/runs/*/run.log")
    assert "a window of the editor answers" in log.read_text()


def test_only_one_conversation_is_had_at_a_time() -> None:
    assert row_of("vscode").workers == row_of("vscode-insiders").workers == 1


def test_the_prompt_has_links_to_the_files(project: Project) -> None:
    project.write("notes.md", "the notes")
    content = [{"type": "text", "value": "Sum up."}, {"type": "file", "value": "notes.md"}]
    case = {"id": "one", "input_messages": [{"role": "user", "content": content}], "checks": [{"contains": "dry run"}]}
    whole = {"target": "agent", "targets": [editor(dry_run=True)], "evals": [case]}
    text = turns_of(run(project, whole, code=0))[0]["response"]
    assert "* [notes.md](file://" in text and "[[ ## user_query ## ]]\nSum up." in text
    assert '<file: path="notes.md">' in text


def test_a_turn_of_several_messages_says_whose_words_they_are(project: Project) -> None:
    words = [
        {"role": "user", "content": "hi"},
        {"role": "assistant", "content": "hello"},
        {"role": "user", "content": "so?"},
    ]
    turns = [{"prompt": "One?", "checks": [{"contains": "One?"}]}, {"messages": words, "checks": [{"contains": "so?"}]}]
    whole = {"target": "agent", "targets": [editor(dry_run=True)], "evals": [{"id": "one", "turns": turns}]}
    text = turns_of(run(project, whole, code=0))[1]["response"]
    assert text.endswith("@[User]:\nhi\n\n@[Assistant]:\nhello\n\n@[User]:\nso?")


def test_a_window_that_says_nothing_is_given_up(project: Project) -> None:
    document = run(project, suite(editor(timeout_seconds=0.5), "[silence]"), code=3)
    assert "wrote no reply in time" in document["results"][0]["error"]["message"]


def test_a_command_that_fails_is_told(project: Project) -> None:
    document = run(project, suite(editor(args=["--nonsense"]), "hello"), code=3)
    assert "unknown option --nonsense" in document["results"][0]["error"]["message"]
