"""Conversations that their targets keep themselves, when rejoinder is interrupted or killed."""

from __future__ import annotations

import asyncio
import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as some

from rejoinder.engine import kept
from rejoinder.errors import RejoinderError
from rejoinder.model import Request
from rejoinder.testing import FakeServer
from tests.kit import (
    KILLED,
    Process,
    Project,
    Raw,
    behind,
    bounded,
    case,
    essence,
    follow,
    journal_of,
    only_run,
    refusal,
    scripted,
    spec,
    statuses,
)
from tests.labs.session_lab import Bot, Heard, chat

pytestmark = spec("P44")

PROMPTS = ("Hello", "And then?", "Bye")
OBJECT = """\
import contextlib, http.client, json

class Bot:
    def __init__(self, request):
        self.id = request.conversation_id
        self.turns = 0

    def ask(self, prompt):
        self.turns += 1
        with contextlib.closing(http.client.HTTPConnection("127.0.0.1", {port})) as connection:
            connection.request("POST", "/chat", json.dumps({{"message": prompt, "conversation": self.id}}))
            assert "reply" in json.loads(connection.getresponse().read())
        return {{"text": f"{{self.turns}}: {{prompt}}", "input_tokens": 10, "output_tokens": 5, "cost": 0.25}}

    def __enter__(self):
        return self

    def __exit__(self, *raised):
        with open("left.txt", "a") as file:
            print(self.id, file=file)
"""


def planned(case_id: str, *prompts: str) -> Raw:
    turns = [{"prompt": text, "checks": [{"match": f"{number}: *"}]} for number, text in enumerate(prompts, 1)]
    return {"id": case_id, "turns": turns}


CASES = [planned("done", "Only this"), planned("long", *PROMPTS)]


class Lab:
    """A project whose bot can be made to wait, and processes that are killed while it does."""

    def __init__(self, folder: Path, kind: str, *, held: str = "And then?", **suite: Any) -> None:
        self.folder = folder
        self.held: str | None = held
        self.bot = Bot(self._script)
        self.project = Project(folder)
        if kind == "service":
            target = chat(self.bot)
        elif kind in ("named", "ours"):
            body = {"message": "{{ prompt }}", "conversation": "{{ conversation_id }}"}
            target = {**chat(self.bot), "body": body, "history": "ours" if kind == "ours" else "theirs"}
            del target["session"], target["close"]
        else:
            self.project.write("bot.py", OBJECT.format(port=self.bot.url.rpartition(":")[2]))
            target = {"name": "bot", "provider": "python", "call": "bot:Bot"}
        self._others = set() if "evals" in suite else {"Only this"}
        """What else is asked."""
        targets = [target, *suite.pop("further", ())]
        self.project.write("evals.yaml", {"targets": targets, "target": "bot", "evals": CASES, **suite})

    def _script(self, bot: Bot, body: Raw) -> int | None:
        if self.held is not None and self.held in body["message"]:
            bot.released.wait(20)
            return 500 if self.held else None
        return None

    def kill(self, *command: str) -> None:
        """Run a command, and kill it while the bot thinks about the held turn and all else is done."""
        known = len(self.bot.turns)
        process = Process(self.folder, *command)
        process.wait_for(lambda: self._is_quiet(known))
        assert process.kill().code == KILLED

    def _is_quiet(self, known: int) -> bool:
        asked = [turn["message"] for turn in self.bot.turns]
        held = [message for message in asked if self.held is not None and self.held in message]
        if not any(message in held for message in asked[known:]) or not self._others <= set(asked):
            return False
        told = sum(record["type"] == "told" and "reply" in record for record in journal_of(only_run(self.folder)))
        return told >= len(asked) - len(held)

    def release(self) -> None:
        self.held = None
        self.bot.released.set()

    @property
    def asked_twice(self) -> list[list[str]]:
        """Sessions in which something was said twice."""
        return [said for said in self.bot.sessions.values() if len(said) != len(set(said))]


@pytest.fixture(params=["service", "named", "object"])
def lab(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Lab]:
    monkeypatch.chdir(tmp_path)
    found = Lab(tmp_path, request.param)
    with found.bot:
        yield found


def long_of(document: Raw) -> Raw:
    return next(result for result in document["results"] if result["id"] == "long")


def test_a_conversation_that_was_killed_in_turn_two_begins_anew(lab: Lab) -> None:
    lab.kill("run", "evals.yaml")
    shown = lab.project.run_json("show", code=None)
    assert shown["summary"]["unfinished"] == 1, "what was cut off is not done"
    before = journal_of(only_run(lab.folder))
    lab.kill("resume", "last")
    lab.release()
    document = lab.project.run_json("resume", "last")
    result = long_of(document)
    assert statuses(document) == {"done": "passed", "long": "passed"}
    assert [attempt["turn"] for attempt in result["cut_off"]] == [2, 2]
    assert [turn["prompt"] for turn in result["turns"]] == list(PROMPTS)
    said = sorted(lab.bot.sessions.values())
    assert said == [["Hello", "And then?"], ["Hello", "And then?"], ["Hello", "And then?", "Bye"], ["Only this"]]
    assert journal_of(only_run(lab.folder))[: len(before)] == before, "what was recorded stays"
    # What both attempts have used counts.
    one = sum(attempt["usage"]["total_tokens"] for attempt in result["cut_off"])
    turns = sum(turn["usage"]["total_tokens"] for turn in result["turns"])
    assert one > 0 and result["usage"]["total_tokens"] == one + turns
    if result["cost"] is not None:
        assert (result["cut_off"][0]["cost"], result["cost"]) == (0.25, 2 * 0.25 + 3 * 0.25)
    # What else is asked of the run asks the bot nothing, and tells the same.
    heard = len(lab.bot.turns)
    assert essence(lab.project.run_json("show"))["results"] == document["results"]
    assert essence(lab.project.run_json("resume", "last"))["results"] == document["results"]
    assert essence(lab.project.run_json("replay", document["run"]["id"]))["results"] == document["results"]
    lab.project.run("verify", document["run"]["id"])
    lab.project.run("grade", document["run"]["id"])
    words = "started again after it was cut off in turn 2 and in turn 2"
    assert f"session: {words}" in lab.project.run("show", document["run"]["id"], "--case", "long")
    assert len(lab.bot.turns) == heard


def test_a_kill_in_the_first_turn(lab: Lab) -> None:
    lab.held = "Hello"
    lab.kill("run", "evals.yaml")
    lab.release()
    document = lab.project.run_json("resume", "last")
    assert [attempt["turn"] for attempt in long_of(document)["cut_off"]] == [1]
    assert sorted(lab.bot.sessions.values()) == [["Hello"], ["Hello", "And then?", "Bye"], ["Only this"]]
    assert lab.asked_twice == []


def test_a_conversation_that_failed_after_it_began_anew_says_so(lab: Lab) -> None:
    steps = [*CASES[1]["turns"][:2], {"prompt": "Bye", "checks": [{"contains": "goodbye"}]}]
    suite = lab.project.folder / "evals.yaml"
    lab.project.write("evals.yaml", suite.read_text().replace(json.dumps(CASES[1]["turns"]), json.dumps(steps)))
    lab.kill("run", "evals.yaml")
    lab.release()
    words = "session: started again after it was cut off in turn 2\n"
    assert words in lab.project.run("resume", "last", code=1)
    run = only_run(lab.folder).name
    for form in ("markdown", "junit", "ctrf"):
        lab.project.run("export", run, "--to", form, "--out", f"it.{form}", code=None)
        assert words.strip().partition(" ")[2] in (lab.folder / f"it.{form}").read_text(), form


def test_errors_that_are_retried_begin_anew(lab: Lab) -> None:
    lab.bot.released.set()  # the held turn is answered with an error at once
    document = lab.project.run_json("run", "evals.yaml", code=3)
    assert long_of(document)["error"]["turn"] == 2
    lab.held = "Hello"
    assert long_of(lab.project.run_json("resume", "last", "--retry-errors", code=3))["error"]["turn"] == 1
    lab.held = None
    result = long_of(lab.project.run_json("resume", "last", "--retry-errors"))
    assert [attempt["turn"] for attempt in result["cut_off"]] == [2, 1]
    assert lab.asked_twice == []
    assert [said for said in lab.bot.sessions.values() if said[-1] == "Bye"] == [list(PROMPTS)]


@pytest.mark.parametrize("times", [1, 2])
def test_an_interrupted_conversation_is_ended_and_begins_anew(times: int, lab: Lab) -> None:
    process = Process(lab.folder, "run", "evals.yaml")
    process.wait_for(lambda: lab._is_quiet(0))
    process.interrupt()
    process.wait_until_it_says("Ctrl-C")
    if times == 2:
        process.interrupt()
        assert process.end().code == 130
        lab.release()
    else:
        lab.held = None
        lab.bot.released.set()
        assert process.end().code == 130
    has_left = lab.folder / "left.txt"
    if has_left.exists():
        assert len(has_left.read_text().split()) == 2
    elif "close" in (lab.folder / "evals.yaml").read_text():
        assert sorted(lab.bot.closed) == sorted(lab.bot.sessions)
    result = long_of(lab.project.run_json("resume", "last"))
    assert result["status"] == "passed"
    attempts = [attempt["turn"] for attempt in result.get("cut_off", ())]
    assert attempts == ([2] if times == 2 else []), "one interrupt lets it come to its end"
    assert lab.asked_twice == []


def test_recordings_of_a_conversation_that_began_anew(lab: Lab) -> None:
    lab.kill("run", "evals.yaml", "--record", "tapes")
    lab.release()
    document = lab.project.run_json("resume", "last")
    heard = len(lab.bot.turns)
    played = lab.project.run_json("run", "evals.yaml", "--replay", "tapes")
    assert statuses(played) == statuses(document)
    assert "cut_off" not in long_of(played), "a cassette has the conversation that came to its end"
    assert len(lab.bot.turns) == heard


def test_a_fork_in_the_middle_says_the_turns_before_again_in_a_new_session(lab: Lab) -> None:
    lab.held = None
    document = lab.project.run_json("run", "evals.yaml")
    before = {name: list(words) for name, words in lab.bot.sessions.items()}
    command = ("fork", document["run"]["id"], "--case", "long", "--turn", "2", "--prompt", "What?")
    [result] = lab.project.run_json(*command)["results"]
    assert [turn["prompt"] for turn in result["turns"]] == ["Hello", "What?", "Bye"]
    assert [turn["response"] for turn in result["turns"]] == ["1: Hello", "2: What?", "3: Bye"]
    assert result["fork"] == {"run": document["run"]["id"], "turns": 1, "said_again": True}
    assert {name: lab.bot.sessions[name] for name in before} == before, "the old session is left alone"
    [new] = [words for name, words in lab.bot.sessions.items() if name not in before]
    assert new == ["Hello", "What?", "Bye"]
    told = "target `bot` keeps the conversation itself: turn 1 is said again in a new session, and paid again"
    assert told in " ".join(lab.project.invoke(*command).output.split())
    forked = lab.project.run_json("fork", document["run"]["id"], "--case", "long", "--prompt", "Good day")
    assert [turn["prompt"] for turn in forked["results"][0]["turns"]] == ["Good day", "And then?", "Bye"]


FOLLOWED: Raw = {"evals": [case("asked", {"match": "2: *"}, follow("Again?", {"match": "3: *"}))]}


def test_a_fork_says_follow_ups_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    lab = Lab(tmp_path, "service", **FOLLOWED)
    lab.held = None
    with lab.bot:
        lab.project.run("run", "evals.yaml", code=1)
        [result] = lab.project.run_json("fork", "--case", "asked", "--turn", "2", "--prompt", "Sure?", code=1)[
            "results"
        ]
    assert [turn["response"] for turn in result["turns"]] == ["1: Question asked", "2: Sure?"]


def test_a_fork_whose_bot_replies_otherwise_says_that_it_ended_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    lab = Lab(tmp_path, "service", **FOLLOWED)
    lab.held = None
    with lab.bot:
        lab.project.run("run", "evals.yaml", code=1)
        lab.bot.say = "2: right this time"
        result = lab.project.invoke("fork", "--case", "asked", "--turn", "2", "--prompt", "Sure?")
    assert "the conversation ended in turn 1, before the fork at turn 2" in " ".join(result.output.split())


def test_a_fork_asks_judges_again_about_replies_in_other_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    verdict = '{"score": %d, "hits": [], "misses": [], "reasoning": "so"}'
    judged = {"llm_judge": {"criteria": "Is it new?"}}
    turns = [{"prompt": text, "checks": [judged]} for text in ("One", "Two")]
    with FakeServer(lambda request: verdict % ("fresh" in request.raw.decode())) as judge:
        plan = {"id": "long", "turns": turns, "on_turn_failure": "continue"}
        lab = Lab(tmp_path, "service", further=[behind(judge, "judge")], judge_target="judge", evals=[plan])
        lab.held = None
        with lab.bot:
            lab.project.run("run", "evals.yaml", code=1)
            asked = len(judge.requests)
            lab.project.run_json("fork", "--case", "long", "--turn", "2", code=1)
            assert len(judge.requests) == asked + 1, "equal words keep their verdict"
            lab.bot.say = "a fresh reply"
            other = lab.project.run_json("fork", "last", "--case", "long", "--turn", "2", code=0)
            assert len(judge.requests) == asked + 3
    assert [turn["passed"] for turn in other["results"][0]["turns"]] == [True, True]


def test_a_target_that_keeps_conversations_cannot_continue_that_of_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    lab = Lab(tmp_path, "service", further=[scripted("script", "1: a", "2: b", "3: c")])
    lab.held = None
    with lab.bot:
        lab.project.run("run", "evals.yaml", "-m", "script")
        words = refusal(lab.project, "fork", "--case", "long", "--turn", "2", "--target", "bot")
        assert "target `bot` keeps the conversation itself, so it cannot continue that of target `script`" in words
        assert lab.bot.turns == []


def test_a_conversation_that_is_ours_keeps_its_id(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    lab = Lab(tmp_path, "ours")
    with lab.bot:
        lab.kill("run", "evals.yaml")
        lab.release()
        result = long_of(lab.project.run_json("resume", "last", code=1))
    assert "cut_off" not in result
    assert sorted(lab.bot.sessions.values()) == [["Hello", "And then?", "And then?"], ["Only this"]]


def test_a_judge_that_was_cut_off_is_asked_in_another_session(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    judged = {"id": "long", "prompt": "Hello", "checks": [{"llm_judge": {"criteria": "Is it polite?"}}]}
    candidate = scripted("silent", "Good day.")
    lab = Lab(tmp_path, "named", held="Is it polite?", further=[candidate], evals=[judged])
    suite = json.loads((tmp_path / "evals.yaml").read_text())
    lab.project.write("evals.yaml", {**suite, "target": "silent", "execution": {"judge_target": "bot"}})
    with lab.bot:
        lab.kill("run", "evals.yaml")
        lab.kill("resume", "last")
        lab.release()
        result = long_of(lab.project.run_json("resume", "last", code=None))
    assert "cut_off" not in result, "the conversation of the candidate is another"
    assert len(lab.bot.sessions) >= 3
    assert lab.asked_twice == []


def test_what_judges_said_before_the_cut_counts_as_theirs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    first = {"prompt": "Hello", "checks": [{"llm_judge": {"criteria": "Is it polite?"}}]}
    judged = {"id": "long", "turns": [first, {"prompt": "And then?", "checks": [{"match": "2: *"}]}]}
    judge = {"name": "judge", "provider": "python", "call": "judge:reply"}
    lab = Lab(tmp_path, "named", further=[judge], evals=[judged], execution={"judge_target": "judge"})
    told = {"text": '{"score": 1, "reasoning": "fine"}', "input_tokens": 7, "output_tokens": 2}
    lab.project.write("judge.py", f"def reply(request):\n    return {told!r}\n")
    with lab.bot:
        lab.kill("run", "evals.yaml")
        lab.release()
        result = long_of(lab.project.run_json("resume", "last"))
    [attempt], [verdict] = result["cut_off"], result["turns"][0]["checks"]
    assert (attempt["judge_usage"]["total_tokens"], result["judge_usage"]["total_tokens"]) == (9, 18)
    turns = sum(turn["usage"]["total_tokens"] for turn in result["turns"])
    assert result["usage"]["total_tokens"] == attempt["usage"]["total_tokens"] + turns
    assert verdict["passed"]


# Any number of kills, at any moment


class Killed:
    """A run that was killed in its last turn. It can be put back to any earlier moment: what it had asked by then, its
    bot had heard, and nothing else."""

    def __init__(self, folder: Path) -> None:
        doubted = case("doubted", {"match": "2: *"}, follow("Sure?", {"match": "2: *"}), control="afresh")
        self.lab = Lab(folder / "template", "named", held="Bye", evals=[CASES[0], doubted, CASES[1]])
        self.folder = folder
        self.heard: list[tuple[str, str]] = []

    def begin(self) -> None:
        self.lab.kill("run", "evals.yaml", "-w", "1")
        self.lab.release()
        self.heard = self._heard()

    def _heard(self) -> list[tuple[str, str]]:
        return [(turn["conversation"], turn["message"]) for turn in self.lab.bot.turns]

    def put_back(self, journal: bytes, heard: list[tuple[str, str]], at: int) -> Path:
        """A project whose run has the first records of a journal."""
        here = self.folder / "again"
        shutil.rmtree(here, ignore_errors=True)
        shutil.copytree(self.lab.folder, here)
        lines = journal.splitlines(keepends=True)[:at]
        (only_run(here) / "journal.jsonl").write_bytes(b"".join(lines))
        self.lab.bot.sessions.clear()
        self.lab.bot.heard.clear()
        for session, message in heard[: sum(b'"type":"asked"' in line for line in lines)]:
            self.lab.bot.answer(Heard("POST", "/chat", {}, {"conversation": session, "message": message}))
        return here


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Killed]:
    found = Killed(tmp_path_factory.mktemp("killed"))
    with found.lab.bot:
        found.begin()
        yield found


@pytest.mark.slow
@bounded(15)
@given(moments=some.lists(some.integers(1, 30), min_size=1, max_size=3))
def test_nothing_is_said_twice_in_a_session_whatever_the_kills(killed: Killed, moments: list[int]) -> None:
    journal, heard = (only_run(killed.lab.folder) / "journal.jsonl").read_bytes(), killed.heard
    document: Raw = {}
    for moment in moments:
        here = killed.put_back(journal, heard, 1 + moment % len(journal.splitlines()))
        with pytest.MonkeyPatch.context() as patch:
            patch.chdir(here)
            document = Project(here).run_json("resume", "last", "-w", "1")
        journal, heard = (only_run(here) / "journal.jsonl").read_bytes(), killed._heard()
        sessions = list(killed.lab.bot.sessions.values())
        assert [said for said in sessions if len(said) != len(set(said))] == []
        assert statuses(document) == {"done": "passed", "doubted": "passed", "long": "passed"}
        attempts = [said for said in sessions if said[0] == "Hello"]
        assert len(long_of(document).get("cut_off", ())) in (len(attempts) - 1, len(attempts))


def test_an_end_is_waited_for_no_longer_than_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    class Keeper:
        async def end(self, request: Request, *, failed: bool) -> None:
            if failed:
                raise RejoinderError("no")
            await asyncio.sleep(60)

    def ended(*, failed: bool) -> str | None:
        request = Request(target="bot", case_id="one", trial=1, turn=1, call=0, messages=(), question="")
        return asyncio.run(kept.end_conversation(Keeper(), request, failed=failed))  # type: ignore[arg-type]

    monkeypatch.setattr(kept, "ENDING_S", 0.01)
    assert ended(failed=False) == "not ended within 0.01 s"
    assert ended(failed=True) == "no"
