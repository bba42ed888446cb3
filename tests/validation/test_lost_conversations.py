"""Services that would hear every turn as a new conversation: said before a run, because its numbers would be wrong."""

from __future__ import annotations

from typing import Any

import pytest

from tests.kit import Project, Raw, case, codes, follow, run, run_refusal, scripted
from tests.labs.session_lab import Bot

URL = "http://127.0.0.1:9/chat"
FOLLOWED = case("followed", {"contains": "x"}, follow("Sure?", {"contains": "x"}))
PLANNED = {"id": "planned", "turns": [{"prompt": text, "checks": [{"match": "*"}]} for text in ("One", "Two")]}
USER = {"id": "simulated", "user": {"goal": "A refund.", "target": "buyer", "max_turns": 3}, "checks": [{"match": "*"}]}
SEVERAL_TURNS = (FOLLOWED, PLANNED, USER)


def service(**more: Any) -> Raw:
    return {"name": "bot", "provider": "http", "url": URL, "reply_path": "reply", **more}


def suite(target: Raw, *cases: Raw) -> Raw:
    return {"targets": [target, scripted("buyer", "Hi", "Bye")], "target": "bot", "evals": list(cases)}


def lost(project: Project, content: Raw) -> list[Raw]:
    return [warning for warning in project.warnings(content) if warning["code"] == "lost-conversation"]


@pytest.mark.parametrize("several", SEVERAL_TURNS, ids=lambda one: one["id"])
def test_a_request_without_history_or_session_is_warned_about(several: Raw, project: Project) -> None:
    [warning] = lost(project, suite(service(body={"message": "{{ prompt }}"}), case(), several, several | {"id": "b"}))
    assert warning["path"] == "targets[0].body"
    assert f"case `{several['id']}` has several turns" in warning["message"]
    assert 'messages: "{{ messages }}"' in warning["message"]
    assert "session: { json_path: session_id }" in warning["message"]


CARRYING: dict[str, Raw] = {
    "no body, which has the history": {},
    "the history": {"body": {"messages": "{{ messages }}"}},
    "the history in a text": {"body": '{"messages": {{ messages }}}'},
    "an id of ours": {"body": {"message": "{{ prompt }}", "thread": "{{ conversation_id }}"}},
    "an id in the address": {"url": f"{URL}/{{{{ conversation_id }}}}", "body": {"message": "{{ prompt }}"}},
    "a session in a header": {
        "body": {"message": "{{ prompt }}"},
        "headers": {"X-Session": "{{ session }}"},
        "session": {"header": "X-Session"},
    },
    "a body that the environment holds": {"body": "${{ HOME }}"},
}


@pytest.mark.parametrize("name", CARRYING)
def test_a_request_that_carries_the_conversation_is_fine(name: str, project: Project) -> None:
    assert lost(project, suite(service(**CARRYING[name]), *SEVERAL_TURNS)) == []


def test_a_case_of_one_turn_loses_nothing(project: Project) -> None:
    assert lost(project, suite(service(body={"message": "{{ prompt }}"}), case())) == []


def test_a_session_that_is_found_and_never_sent_is_warned_about(project: Project) -> None:
    target = service(body={"message": "{{ prompt }}"}, history="theirs", session={"json_path": "session"})
    assert len(lost(project, suite(target, FOLLOWED))) == 1


def test_run_says_it_for_every_target_that_the_command_names(project: Project) -> None:
    content = suite(service(body={"message": "{{ prompt }}"}), FOLLOWED) | {"target": "buyer"}
    assert lost(project, content) == []
    result = project.invoke("run", "evals.yaml", "-m", "buyer,bot", "--max-retries", "0")
    assert "lost-conversation" in result.output


PLACES: dict[str, tuple[Raw, str]] = {
    "body": ({"body": {"m": "{{ prompt }}", "inner": {"s": "{{ session }}"}}}, "targets[0].body.inner.s"),
    "body-as-text": ({"body": '{"m": "{{ session }}"}'}, "targets[0].body"),
    "url": ({"url": f"{URL}/{{{{ session }}}}"}, "targets[0].url"),
    "headers": ({"headers": {"X-Session": "{{ session }}"}}, "targets[0].headers.X-Session"),
    "close": ({"close": {"url": f"{URL}/{{{{ session }}}}"}}, "targets[0].close.url"),
    "settings": ({"settings": {"body": ["{{ session }}"]}}, "targets[0].settings.body[0]"),
}


@pytest.mark.parametrize("name", PLACES)
def test_a_session_that_nothing_tells_is_an_error_where_it_is_used(name: str, project: Project) -> None:
    more, place = PLACES[name]
    [error] = project.errors(suite(service(**more), case()))
    assert (error["code"], error["path"]) == ("unknown-placeholder", place)
    assert "`session: { json_path: session_id }`" in error["message"]
    assert "would always be empty" in run_refusal(project, suite(service(**more), case()))


def test_a_misspelt_session_is_the_same_error_in_validate_and_run(project: Project) -> None:
    content = suite(service(body={"m": "{{ prompt }}", "s": "{{ session_id }}"}), FOLLOWED)
    [error] = project.errors(content)
    assert (error["code"], error["path"]) == ("unknown-placeholder", "targets[0].body.s")
    assert "did you mean `{{ session }}`?" in error["message"]
    assert "error[unknown-placeholder]" in run_refusal(project, content)


def test_a_variant_cannot_bring_a_session_that_nothing_tells(project: Project) -> None:
    content = suite(service(), case()) | {"variants": [{"name": "v", "settings": {"body": {"s": "{{ session }}"}}}]}
    assert "would always be empty" in run_refusal(project, content)


@pytest.mark.parametrize("told", [None, "", "missing"])
def test_a_first_response_without_the_session_id_is_an_error_of_the_conversation(told: Any, project: Project) -> None:
    answer = {"reply": "1"} if told == "missing" else {"reply": "1", "id": told}
    with Bot(lambda _bot, _body: answer) as bot:
        body = {"message": "{{ prompt }}", "session": "{{ session }}"}
        target = service(url=f"{bot.url}/chat", body=body, history="theirs", session={"json_path": "id"})
        document = run(project, suite(target, FOLLOWED), code=3)
        assert len(bot.turns) == 1, "nothing is asked in a session that is not known"
    [result] = document["results"]
    assert result["status"] == "error"
    assert "tells no session" in result["error"]["message"]


def test_warnings_are_listed_with_their_code(project: Project) -> None:
    content = suite(service(body={"message": "{{ prompt }}"}), FOLLOWED)
    assert codes(lost(project, content)) == ["lost-conversation"]
