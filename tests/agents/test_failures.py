"""What agents on the command line have in common: however one fails, it is one error in words, and no process stays."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

import pytest

from rejoinder.errors import UsageError
from rejoinder.providers.agents.agent_json import inner_message
from rejoinder.providers.agents.driver import Clock, Driver
from rejoinder.user_code import line_process, programs
from tests.labs.agent_lab import Desk, silent, soon

pytestmark = pytest.mark.slow
AGENTS = ("claude", "codex", "pi")
every_agent = pytest.mark.parametrize("agent", AGENTS)


@every_agent
def test_three_turns_are_one_conversation(tmp_path: Path, agent: str) -> None:
    desk = Desk(tmp_path, agent)
    first, second, third = desk.talk("one", "two [think: hmm] [noise] [unknown]", "three")
    assert [turn.text for turn in (first, second, third)] == ["turn 1: done", "turn 2: done", "turn 3: done"]
    assert first.session
    assert {turn.session for turn in (first, second, third)} == {first.session}
    assert (first.thinking, second.thinking) == ("", "hmm")
    assert first.usage == second.usage == third.usage
    assert first.usage.input_tokens == 150
    assert first.usage.output_tokens == 7
    assert first.usage.cached_tokens == 30


@every_agent
def test_tools_are_told_in_order_with_what_came_of_them(tmp_path: Path, agent: str) -> None:
    desk = Desk(tmp_path, agent)
    turn = desk.ask("[write hello.txt: good day] [run: cat hello.txt] [run: cat nothing.txt]")
    assert (desk.workspace / "hello.txt").read_text() == "good day"
    write, run, failed = turn.tool_calls
    assert "hello.txt" in write.arguments
    assert (write.status, run.status, failed.status) == ("completed", "completed", "failed")
    assert run.result == "good day"
    assert "nothing.txt" in (failed.result or "")
    assert run.started_at
    assert run.duration_s is not None
    assert turn.usage.output_tokens == 7 * 4
    assert turn.usage.input_tokens == 150 * 4


@every_agent
def test_a_killed_prompt_stays_in_the_session_that_is_taken_up(tmp_path: Path, agent: str) -> None:
    desk = Desk(tmp_path, agent)

    async def until_killed(driver: Driver) -> str:
        first = await driver.ask("one", Clock())
        asking = asyncio.create_task(driver.ask("two [write mark.txt: two] [silence]", Clock()))
        while not (desk.workspace / "mark.txt").exists():
            await asyncio.sleep(0.02)
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
        await desk.see_none_left()
        assert first.session
        return first.session

    session = desk.use(desk.driver(), until_killed)
    fourth, fifth = desk.talk("three", "four", continues=session)
    assert (fourth.text, fifth.text) == ("turn 3: done", "turn 4: done")
    assert fourth.session == session
    assert fourth.usage == fifth.usage
    assert fourth.cost == fifth.cost


@every_agent
def test_a_turn_after_a_failed_one_goes_on_in_the_session(tmp_path: Path, agent: str) -> None:
    desk = Desk(tmp_path, agent)

    async def work(driver: Driver) -> None:
        await driver.ask("one", Clock())
        with pytest.raises(Exception, match="killed by signal"):
            await driver.ask("two [crash]", Clock())
        third = await driver.ask("three", Clock())
        assert third.text == "turn 3: done"
        assert third.usage.output_tokens == 7

    desk.use(desk.driver(), work)


@every_agent
@pytest.mark.parametrize(
    ("prompt", "message"),
    [
        ("[crash]", "was killed by signal 11"),
        ("[exit 3]", "ended with exit code 3: (?s:.*)it ended on request"),
        ("[partial]", "ended without an answer"),
        ("[flood]", "prints more than can be read"),
        ("[write x.txt: x] [error 400]", "failed: (API Error: 400 |400 )?made on request"),
    ],
)
def test_a_failure_is_one_error_in_words(tmp_path: Path, agent: str, prompt: str, message: str) -> None:
    error = Desk(tmp_path, agent).fail(prompt)
    assert error.type == "agent"
    assert not error.ends_target
    assert re.match(f"{agent} {message}", str(error))


@every_agent
def test_both_clocks_end_a_turn(tmp_path: Path, agent: str) -> None:
    for prompt, clock, message in (
        ("[hang]", soon, "did not answer in time"),
        ("[silence] [noise]", silent, "printed nothing for 0.4 s"),
    ):
        error = Desk(tmp_path, agent).fail(prompt, clock=clock)
        assert error.type == "timeout"
        assert str(error).startswith(f"{agent} {message}")


@every_agent
def test_without_a_login_the_target_ends(tmp_path: Path, agent: str) -> None:
    error = Desk(tmp_path, agent).fail("[error 401]")
    assert error.status == 401
    assert error.ends_target


@every_agent
def test_a_model_that_fails_and_then_answers_is_no_failure(tmp_path: Path, agent: str) -> None:
    assert Desk(tmp_path, agent).ask("[retry]").text == "turn 1: done"


@every_agent
def test_what_comes_after_the_end_of_a_turn_is_not_of_the_next(
    tmp_path: Path, agent: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk = Desk(tmp_path, agent)
    for module in (programs, line_process):  # how long the pipes of what lingers are waited for
        monkeypatch.setattr(module, "GRACE_S", 0.2)
    texts = [turn.text for turn in desk.talk("[late output]", "[say: two] [late output]", "three [linger]")]
    assert texts == ["turn 1: done", "turn 2: two", "turn 3: done"]


@every_agent
def test_what_a_tool_leaves_behind_is_ended(tmp_path: Path, agent: str) -> None:
    desk = Desk(tmp_path, agent)
    turn = desk.ask("[run: setsid sleep 60 >/dev/null 2>&1 & echo started]")
    assert turn.tool_calls[0].result == "started\n"


@every_agent
def test_a_missing_program_ends_the_target_and_says_how_to_install_it(tmp_path: Path, agent: str) -> None:
    desk = Desk(tmp_path, agent)
    desk.environment["PATH"] = str(tmp_path)
    error = desk.fail("hello", executable=None)
    assert error.ends_target
    assert str(error).startswith(f"{agent} cannot be started: there is no program `{agent}`; install it by `npm ")
    error = desk.fail("hello", executable=str(tmp_path / "nothing"))
    assert error.ends_target
    assert "npm" not in str(error)


@every_agent
def test_an_unknown_session_is_an_error(tmp_path: Path, agent: str) -> None:
    desk = Desk(tmp_path, agent)
    session = "99999999-2222-4333-8444-555555555555"
    with pytest.raises(Exception, match=f"(?s){agent} .*{session}"):
        desk.talk("hello", continues=session)


@every_agent
def test_words_of_the_target_are_passed_on(tmp_path: Path, agent: str) -> None:
    desk = Desk(tmp_path, agent, model="a-model")
    assert '"--model", "a-model"' in desk.ask("[words]").text.replace('"-m"', '"--model"')
    error = desk.fail("hello", args=["--nonsense"])
    assert "--nonsense" in str(error)
    for args in ({"a": 1}, [["a"]]):
        with pytest.raises(UsageError, match="`args` that is not a list of words"):
            desk.driver(args=args)


@every_agent
def test_a_prompt_may_be_long_and_of_any_letters(tmp_path: Path, agent: str) -> None:
    turn = Desk(tmp_path, agent).ask("ä\u2028\n" * 300_000 + "[say: ß😀]")
    assert turn.text == "turn 1: ß😀"


@pytest.mark.parametrize(
    ("said", "message"),
    [
        ('{"error": {"message": "no such model"}}', "no such model"),
        (' {"message": "slow down"}', "slow down"),
        ('{"error": 5}', '{"error": 5}'),
        ("{not JSON", "{not JSON"),
        ('{"a":' * 9_999, '{"a":' * 9_999),
    ],
)
def test_the_message_of_a_models_server_is_found_in_its_answer(said: str, message: str) -> None:
    assert inner_message(said) == message
