"""System prompts that a service's request has no place for."""

from __future__ import annotations

from typing import Any

import pytest

from tests.kit import Project, Raw, case

SYSTEM = {"system_prompt": "Be rude."}
MESSAGES = [{"role": "system", "content": "Be rude."}, {"role": "user", "content": "Hello"}]


def lost(project: Project, target: Raw, asked: Raw | None = None, **more: Any) -> list[Raw]:
    target = {"name": "bot", **target}
    content = {"targets": [target], "target": "bot", "evals": [asked or case(**SYSTEM)], **more}
    return [warning for warning in project.warnings(content) if warning["code"] == "lost-system-prompt"]


def service(**more: Any) -> Raw:
    return {"provider": "http", "url": "https://bot.example.com/chat", "body": {"message": "{{ prompt }}"}, **more}


def test_a_body_without_a_place_for_it_is_warned_about_there(project: Project) -> None:
    [warning] = lost(project, service())
    assert warning["path"] == "targets[0].body"
    assert "target `bot` does not get the system prompt of case `one`" in warning["message"]
    assert '`system: "{{ system }}"`' in warning["message"]


@pytest.mark.parametrize(
    ("asked", "more"),
    [
        ({"id": "one", "input_messages": MESSAGES, "checks": [{"contains": "x"}]}, {}),
        (case(), {"metadata": {"system_prompt": "Be rude."}}),
        (case(), {"variants": [{"name": "rude", **SYSTEM}]}),
    ],
    ids=["message", "suite", "variant"],
)
def test_wherever_it_is_written(asked: Raw, more: Raw, project: Project) -> None:
    assert len(lost(project, service(), asked, **more)) == 1


def test_one_of_the_target_itself(project: Project) -> None:
    assert len(lost(project, service(**SYSTEM), case())) == 1


@pytest.mark.parametrize(
    "more",
    [
        {"body": {"m": "{{ messages }}"}},
        {"body": {"m": "{{ prompt }}", "s": "{{ system }}"}},
        {"headers": {"X-System": "{{ system }}"}},
        {"url": "https://bot.example.com/chat?s={{ system }}"},
        {"open": {"url": "https://bot.example.com/sessions", "body": {"s": "{{ system }}"}}},
        {"body": "${{ BODY }}"},
    ],
)
def test_a_request_that_has_a_place_for_it(more: Raw, project: Project) -> None:
    assert lost(project, service(**more)) == []


def test_the_usual_body_has_all_messages(project: Project) -> None:
    target = service()
    del target["body"]
    assert lost(project, target) == []


def test_the_settings_of_a_variant_may_bring_the_place(project: Project) -> None:
    varied = {"name": "v", **SYSTEM, "settings": {"body": {"m": "{{ prompt }}", "s": "{{ system }}"}}}
    assert lost(project, service(), case(), variants=[varied]) == []


def test_a_transcript_has_the_messages_of_the_case_alone(project: Project) -> None:
    target = service(body={"text": "{{ question }}"})
    asked = {"id": "one", "input_messages": MESSAGES, "checks": [{"contains": "x"}]}
    assert lost(project, target, asked) == []
    assert len(lost(project, target)) == 1


def test_a_case_without_a_system_prompt_loses_none(project: Project) -> None:
    assert lost(project, service(), case()) == []
