"""Services that keep the conversation themselves: what they are sent, their sessions, and what goes wrong."""

from __future__ import annotations

import time
from typing import Any
from uuid import UUID

import pytest

from tests.kit import Project, Raw, case, codes, follow, only_run, run, run_refusal, scripted, spec
from tests.labs.session_lab import Bot, chat

pytestmark = spec("P44")


def planned(case_id: str = "one", *prompts: str, **more: Any) -> Raw:
    """A case of several turns, each of which has to be the bot's next one."""
    words = prompts or ("Hello", "And then?", "Bye")
    turns = [{"prompt": text, "checks": [{"match": f"{number}: *"}]} for number, text in enumerate(words, 1)]
    return {"id": case_id, "turns": turns, **more}


def suite_of(*targets: Raw, cases: list[Raw] | None = None, **more: Any) -> Raw:
    return {"targets": list(targets), "target": targets[0]["name"], "evals": cases or [planned()], **more}


def error_of(document: Raw) -> Raw:
    [result] = document["results"]
    assert result["status"] == "error"
    return result["error"]


# What is sent


@pytest.mark.parametrize("where", ["json_path", "header"])
def test_only_what_is_new_is_sent_in_the_session_of_the_first_answer(where: str, project: Project) -> None:
    with Bot() as bot:
        target = chat(bot, session={where: "session" if where == "json_path" else "X-Session"})
        document = run(project, suite_of(target), code=0)
    assert bot.turns == [
        {"message": "Hello", "session": None},
        {"message": "And then?", "session": "s1"},
        {"message": "Bye", "session": "s1"},
    ]
    assert bot.closed == ["s1"]
    assert [turn["session"] for turn in document["results"][0]["turns"]] == ["s1"] * 3
    assert "cut_off" not in document["results"][0]


def test_a_session_that_is_opened_first(project: Project) -> None:
    with Bot() as bot:
        opening = {"url": f"{bot.url}/sessions", "body": {"for": "{{ conversation_id }}", "case": "{{ case_id }}"}}
        run(project, suite_of(chat(bot, open=opening)), code=0)
    first, *turns, last = bot.heard
    assert (first.method, first.path, first.body["case"]) == ("POST", "/sessions", "one")
    assert str(UUID(first.body["for"])) == first.body["for"]
    assert [turn.body["session"] for turn in turns] == ["s1"] * 3
    assert (last.method, last.path) == ("DELETE", "/sessions/s1")


def test_a_session_in_header_text_and_address(project: Project) -> None:
    with Bot() as bot:
        target = chat(
            bot,
            url=f"{bot.url}/chat?in={{{{ session }}}}",
            headers={"X-Session": "{{ session }}", "X-Bearer": "Bearer {{ session }}", "X-Empty": ""},
            body={"message": "{{ prompt }}", "text": "in <{{ session }}>"},
        )
        run(project, suite_of(target), code=0)
    first, second, _, _ = bot.heard
    assert not {"x-session", "x-bearer"} & set(first.headers)
    assert (first.headers["x-empty"], first.path, first.body["text"]) == ("", "/chat?in=", "in <>")
    assert (second.headers["x-session"], second.headers["x-bearer"]) == ("s1", "Bearer s1")
    assert (second.path, second.body["text"]) == ("/chat?in=s1", "in <s1>")


def test_a_turn_of_several_messages_is_sent_whole(project: Project) -> None:
    said = [{"role": "user", "content": "One"}, {"role": "user", "content": "Two"}]
    steps = [{"prompt": "Hello", "checks": [{"match": "*"}]}, {"messages": said, "checks": [{"match": "*"}]}]
    with Bot() as bot:
        target = chat(bot, body={"message": "{{ prompt }}", "all": "{{ messages }}", "session": "{{ session }}"})
        run(project, suite_of({**target, "system_prompt": "Short."}, cases=[{"id": "one", "turns": steps}]), code=0)
    first, second = bot.turns
    assert first["all"] == [{"role": "system", "content": "Short."}, {"role": "user", "content": "Hello"}]
    assert second["all"] == said


def test_follow_ups_are_new_and_a_control_is_a_conversation_of_its_own(project: Project) -> None:
    asked = case("one", {"match": "3: *"}, follow("Sure?", {"match": "3: *"}), control="afresh")
    with Bot() as bot:
        run(project, suite_of(chat(bot), cases=[asked]), code=1)
    assert sorted(bot.sessions.values()) == [["Question one"], ["Question one", "Sure?"]]
    assert sorted(bot.closed) == ["s1", "s2"]


def test_simulated_users_talk_in_one_session(project: Project) -> None:
    user = {"persona": "a guest", "goal": "to know", "opening": "Hi", "max_turns": 3, "target": "guest"}
    with Bot() as bot:
        asked = {"id": "one", "user": user, "checks": [{"match": "3: *"}]}
        run(project, suite_of(chat(bot), scripted("guest", "And?", "Well?"), cases=[asked]), code=0)
    assert bot.sessions == {"s1": ["Hi", "And?", "Well?"]}


def test_every_conversation_has_a_session_and_an_end_of_its_own(project: Project) -> None:
    variants = [{"name": "short"}, {"name": "long", "system_prompt": "Speak at length."}]
    with Bot() as bot:
        cases = [planned("one"), planned("two", "a", "b")]
        suite = suite_of(chat(bot), chat(bot, name="other"), cases=cases, variants=variants)
        run(project, suite, "-n", "2", "-m", "bot", "-m", "other", code=None)
    assert len(bot.sessions) == 2 * 2 * 2 * 2
    assert all(len(said) == len(set(said)) for said in bot.sessions.values())
    assert sorted(bot.closed) == sorted(bot.sessions)


def test_a_service_may_want_all_of_it_and_have_a_session(project: Project) -> None:
    with Bot() as bot:
        target = chat(bot, body={"message": "{{ prompt }}", "all": "{{ messages }}", "session": "{{ session }}"})
        del target["history"]
        run(project, suite_of(target), code=0)
    assert [len(turn["all"]) for turn in bot.turns] == [1, 3, 5]
    assert ([turn["session"] for turn in bot.turns], bot.closed) == ([None, "s1", "s1"], ["s1"])


# The id of a conversation


@pytest.mark.parametrize("history", ["ours", "theirs"])
def test_ids_of_conversations(history: str, project: Project) -> None:
    body = {"message": "{{ prompt }}", "conversation": "{{ conversation_id }}"}
    bare = {"name": "bot", "provider": "http", "body": body, "reply_path": "reply", "history": history}
    with Bot() as bot:
        targets = [{**bare, "url": f"{bot.url}/chat"}, {**bare, "url": f"{bot.url}/chat", "name": "other"}]
        suite = suite_of(*targets, cases=[planned("one"), planned("two")], variants=[{"name": "a"}, {"name": "b"}])
        for number in (1, 2):
            run(project, suite, "-n", "2", "-m", "bot", "-m", "other", code=0)
            assert len(bot.sessions) == number * 2 * 2 * 2 * 2, "runs, cases, targets, variants and trials"
    for name, said in bot.sessions.items():
        assert (str(UUID(name)), said) == (name, ["Hello", "And then?", "Bye"])


def test_a_judge_that_keeps_sessions_is_asked_in_one_for_each_verdict(project: Project) -> None:
    verdict = {"reply": '{"score": 1, "hits": [], "misses": [], "reasoning": "fine"}', "session": "of a judge"}
    with Bot(lambda _, body: verdict if "criteria" in body["message"] else None) as bot:
        judged = case("one", {"llm_judge": {"criteria": "criteria A"}}, {"llm_judge": {"criteria": "criteria B"}})
        judge = chat(bot, name="judge", body={"message": "{{ prompt }}", "conversation": "{{ conversation_id }}"})
        suite = suite_of(chat(bot), judge, cases=[judged], execution={"judge_target": "judge"})
        run(project, suite, code=0)
    assert [len(said) for said in bot.sessions.values()] == [1, 1, 1]
    assert len(bot.closed) == 3


# How conversations end


@pytest.mark.parametrize("ending", ["passed", "failed", "error"])
def test_whatever_becomes_of_a_conversation_it_is_closed_once(ending: str, project: Project) -> None:
    def script(_: Bot, body: Raw) -> int | None:
        return 500 if ending == "error" and body["session"] else None

    with Bot(script) as bot:
        wanted = "9: *" if ending == "failed" else "2: *"
        asked = [case(f"c{n}", {"match": wanted}, follow("Sure?", {"match": wanted})) for n in range(3)]
        document = run(project, suite_of(chat(bot), cases=asked), code=None)
    assert {result["status"] for result in document["results"]} == {ending}
    assert sorted(bot.closed) == ["s1", "s2", "s3"]


def test_what_fails_at_the_end_fails_nothing_and_is_in_the_log(project: Project) -> None:
    with Bot(lambda _, body: 500 if body["message"] == "close" else None) as bot:
        target = chat(bot, close={"url": f"{bot.url}/chat", "body": {"message": "close", "session": "{{ session }}"}})
        run(project, suite_of(target, cases=[case()]), code=0)
    log = (only_run(project.folder) / "run.log").read_text()
    assert "the end of a conversation (case one, target bot, trial 1): http answered 500" in log


def test_what_was_never_opened_is_not_closed(project: Project) -> None:
    with Bot(lambda _, body: 500 if body["message"] == "open" else None) as bot:
        opening = {"url": f"{bot.url}/chat", "body": {"message": "open"}}
        run(project, suite_of(chat(bot, open=opening, close={"url": f"{bot.url}/sessions"})), code=3)
        assert [one.path for one in bot.heard] == ["/chat"]
    with Bot() as bot:
        opening = {"url": f"{bot.url}/chat", "body": {"message": "open"}}
        target = chat(bot, open=opening, session={"json_path": "nowhere"}, close={"url": f"{bot.url}/sessions"})
        run(project, suite_of(target), code=3)
        assert [one.path for one in bot.heard] == ["/chat", "/sessions"], "it was opened, but it tells no session"


def test_a_session_whose_name_was_never_told_cannot_be_closed(project: Project) -> None:
    with Bot(lambda *_: 500) as bot:
        run(project, suite_of(chat(bot)), code=3)
        assert [one.path for one in bot.heard] == ["/chat"]


# What goes wrong


def test_a_first_answer_without_a_session(project: Project) -> None:
    with Bot() as bot:
        document = run(project, suite_of(chat(bot, session={"json_path": "data.id"})), code=3)
        message = error_of(document)["message"]
        assert "the first answer (200) tells no session: `session: data.id` finds no `data` in it" in message
        assert "there are `reply`, `session`" in message
        document = run(project, suite_of(chat(bot, session={"header": "X-None"})), code=3)
        assert "tells no session: it has no header `x-none`" in error_of(document)["message"]
        opening = {"url": f"{bot.url}/sessions"}
        document = run(project, suite_of(chat(bot, open=opening, session={"json_path": "id"})), code=3)
        assert (
            "the answer to `open` (200) tells no session: `session: id` finds no `id`" in error_of(document)["message"]
        )
        assert len(bot.turns) == 2, "nothing is said in a session that is not known"


FORGETFUL = ("new id each turn", "one restart")


def forgetful(when: str) -> Bot:
    """A bot that loses its sessions: always, or once, before the second turn. It answers each turn as if it
    were the first of a conversation, in a session with another id."""

    def script(bot: Bot, body: Raw) -> Raw | None:
        asked = len(bot.turns)
        lost = when == "new id each turn" or asked == 2
        return {"reply": f"{asked}: {body['message']}", "session": f"new{asked}"} if lost else None

    return Bot(script)


@pytest.mark.parametrize("where", ["json_path", "header"])
@pytest.mark.parametrize("when", FORGETFUL)
def test_an_answer_in_another_session_is_an_error_of_its_turn(when: str, where: str, project: Project) -> None:
    with forgetful(when) as bot:
        target = chat(bot, session={where: "session" if where == "json_path" else "X-Session"})
        document = run(project, suite_of(target), code=3)
    error = error_of(document)
    first = "new1" if when == "new id each turn" else "s1"
    assert (error["type"], error["turn"]) == ("other-session", 2)
    assert f"answered in another session (new2) than it was asked in ({first})" in error["message"]
    assert "`session: {..., changes: true}`" in error["message"]
    assert len(bot.turns) == 2, "it is not asked again"
    assert bot.closed == [first]


@pytest.mark.parametrize("when", FORGETFUL)
def test_a_follow_up_in_another_session_has_recovered_nothing(when: str, project: Project) -> None:
    with forgetful(when) as bot:
        asked = case("one", {"match": "2: *"}, follow("Sure?", {"match": "2: *"}))
        document = run(project, suite_of(chat(bot), cases=[asked]), code=3)
    assert error_of(document)["turn"] == 2
    assert document["summary"]["passed"] == 0


def test_another_session_than_the_one_that_was_opened_is_an_error(project: Project) -> None:
    with forgetful("new id each turn") as bot:
        document = run(project, suite_of(chat(bot, open={"url": f"{bot.url}/sessions"})), code=3)
    assert error_of(document)["turn"] == 1
    assert "in another session (new1) than it was asked in (s1)" in error_of(document)["message"]


def test_another_session_in_a_conversation_by_our_id_is_an_error(project: Project) -> None:
    body = {"message": "{{ prompt }}", "conversation": "{{ conversation_id }}"}
    with forgetful("one restart") as bot:
        document = run(project, suite_of(chat(bot, body=body)), code=3)
    assert error_of(document)["type"] == "other-session"


def test_a_session_is_not_looked_at_where_requests_do_not_depend_on_it(project: Project) -> None:
    with forgetful("new id each turn") as bot:
        body = {"message": "{{ prompt }}", "messages": "{{ messages }}"}
        run(project, suite_of(chat(bot, body=body, history="ours")), code=0)
    assert bot.closed == ["new3"]


def test_a_service_whose_ids_change_is_followed(project: Project) -> None:
    with forgetful("new id each turn") as bot:
        run(project, suite_of(chat(bot, session={"json_path": "session", "changes": True})), code=0)
    assert [turn["session"] for turn in bot.turns] == [None, "new1", "new2"]
    assert bot.closed == ["new3"]


def test_forks_and_resumed_runs_refuse_another_session_too(project: Project) -> None:
    restarts = False

    def script(bot: Bot, body: Raw) -> Raw | None:
        lost = restarts and body["message"] == "Bye"
        return {"reply": "3: Bye", "session": f"new{len(bot.turns)}"} if lost else None

    with Bot(script) as bot:
        whole = run(project, suite_of(chat(bot)), code=0)["run"]["id"]
        restarts = True
        fork = ("fork", whole, "--case", "one", "--turn", "2", "--prompt", "What else?")
        assert error_of(project.run_json(*fork, code=3))["type"] == "other-session"
        broken = run(project, suite_of(chat(bot)), code=3)["run"]["id"]
        resumed = project.run_json("resume", broken, "--retry-errors", code=3)
        assert error_of(resumed)["type"] == "other-session"
        restarts = False
        assert project.run_json("resume", broken, "--retry-errors")["summary"]["passed"] == 1


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"open": {"url": "http://localhost:1/x"}}, "`open` at another address than its `url`"),
        ({"close": {"url": "https://127.0.0.1/x"}}, "`close` at another address"),
        ({"session": {"json_path": "a[b"}}, "has the session `a[b`, which cannot be read at `[b`"),
        ({"body": {"x": "{{ sesion }}"}}, "no placeholder `{{ sesion }}`; did you mean `{{ session }}`?"),
        ({"close": {"url": "{url}/{{ sesion }}"}}, "no placeholder `{{ sesion }}`"),
    ],
)
def test_settings_that_cannot_be_used(more: Raw, words: str, project: Project) -> None:
    with Bot() as bot:
        target = chat(bot, **more)
        if "{url}" in str(more):
            target["close"] = {"url": f"{bot.url}/{{{{ sesion }}}}"}
        assert words in run_refusal(project, suite_of(target))
        assert bot.heard == []


@pytest.mark.parametrize(
    ("more", "code"),
    [
        ({"history": "mine"}, "out-of-range"),
        ({"session": {"path": "x"}}, "unknown-key"),
        ({"session": {"json_path": "x", "header": "y"}}, "out-of-range"),
        ({"session": {"changes": True}}, "out-of-range"),
        ({"session": {"json_path": "x", "changes": "yes"}}, "wrong-type"),
        ({"open": {"method": "POST"}}, "missing-field"),
        ({"close": {"url": "http://x", "header": {}}}, "unknown-key"),
    ],
)
def test_settings_that_are_no_settings(more: Raw, code: str, project: Project) -> None:
    target = {"name": "bot", "provider": "http", "url": "http://127.0.0.1:9/x", **more}
    assert code in codes(project.errors(suite_of(target)))


@pytest.mark.parametrize("status", [429, 503])
@pytest.mark.parametrize("opens", [False, True])
def test_a_turn_that_was_refused_is_put_again_in_the_same_session(opens: bool, status: int, project: Project) -> None:
    refused: set[str] = set()

    def script(_: Bot, body: Raw) -> int | None:
        if body["message"] in refused:
            return None
        refused.add(body["message"])
        return status

    with Bot(script) as bot:
        more: Raw = {"open": {"url": f"{bot.url}/sessions"}} if opens else {}
        asked = case("one", {"match": "2: *"}, follow("Sure?", {"match": "2: *"}))
        document = run(
            project,
            suite_of(chat(bot, **more), cases=[asked]),
            code=0,
        )
        assert document["results"][0]["turns"][0]["retries"] == 1
    paths = [one.path for one in bot.heard]
    assert paths.count("/sessions") == opens
    assert len(bot.turns) == 4
    assert list(bot.sessions.values()) == [["Question one", "Sure?"]]
    assert len(bot.closed) == 1


@pytest.mark.parametrize("fault", ["status", "timeout"])
def test_a_turn_that_may_have_been_heard_is_not_put_again(fault: str, project: Project) -> None:
    def script(bot: Bot, body: Raw) -> int | None:
        if body["message"] == "And then?":
            if fault == "status":
                return 500
            bot.released.wait(20)
        return None

    with Bot(script) as bot:
        started = time.monotonic()
        document = run(project, suite_of(chat(bot, timeout_seconds=0.4)), code=3)
        assert time.monotonic() - started < 15
        assert error_of(document)["turn"] == 2
        assert bot.sessions == {"s1": ["Hello", "And then?"]}
        assert bot.closed == ["s1"]


def test_a_service_that_is_not_there_is_called_again(project: Project) -> None:
    with Bot() as gone:
        target = chat(gone, max_retries=2)
    document = run(project, suite_of(target), code=3)
    assert "tried 3 times" in error_of(document)["message"]


def test_answers_are_not_taken_from_the_cache(project: Project) -> None:
    with Bot() as bot:
        for _ in range(2):
            run(project, suite_of(chat(bot)), "--cache", code=0)
        assert [len(said) for said in bot.sessions.values()] == [3, 3]


def test_trying_a_target_ends_its_session(project: Project) -> None:
    with Bot() as bot:
        opening = {"url": f"{bot.url}/sessions", "body": {"for": "{{ conversation_id }}"}}
        project.write(".rejoinder/targets.yaml", {"targets": [chat(bot, open=opening)]})
        project.run("targets", "check", code=0)
        assert UUID(bot.heard[0].body["for"])
    assert [len(said) for said in bot.sessions.values()] == [1]
    assert bot.closed == ["s1"]
