"""Simulated users: how they end a conversation, what breaks it off and what spoils it; examples, and the machine
against a second reading of the rules on random users.

`FUZZ_EXAMPLES=5000 pytest tests/engine/test_users.py` draws new ones.
"""

from __future__ import annotations

import asyncio
import json
import re
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

import rejoinder
from rejoinder.checks.base import Context
from rejoinder.checks.registry import grade
from rejoinder.engine.conversation import converse
from rejoinder.engine.effects import Ask, Opening, Simulate
from rejoinder.engine.simulated import ends_with_word
from rejoinder.formatting.prompt import format_case
from rejoinder.model import Failure, Outcome, Reply, Status, judge_case
from rejoinder.testing import FakeServer, Received, judge
from tests.engine.plan_readings import DrawnUser, Grades, PlanReading
from tests.engine.readings import Ended, kind_of, listed, match
from tests.engine.talks import doubted
from tests.kit import Project, Raw, behind, bounded, follow, journal_of, prices_in, run, scripted, spec

# Examples

GOAL = "You want to order a large blue shirt without paying for the delivery of it"


def user(*words: Any, **more: Any) -> tuple[Raw, Raw]:
    """A user, and the target that thinks of its words."""
    told = {"goal": GOAL, "opening": "A shirt, please.", "target": "guest", "stop": "DONE", **more}
    return {key: value for key, value in told.items() if value is not None}, scripted("guest", *words)


def talk_with(
    project: Project, told: tuple[Raw, Raw], *replies: Any, checks: list[Raw] | None = None, **more: Any
) -> Raw:
    suite, code = more.pop("suite", {}), more.pop("code", None)
    made = {"id": "one", "user": told[0], "checks": checks or [match("Ordered")], **more}
    targets = [scripted("it", *replies), told[1], *suite.pop("targets", [])]
    document = run(project, {"target": "it", "targets": targets, "evals": [made], **suite}, code=code)
    [result] = document["results"]
    return {**result, "document": document}


def said(result: Raw) -> list[str]:
    return [turn["prompt"] for turn in result["turns"]]


def test_a_user_ends_by_its_word_which_is_not_said(project: Project) -> None:
    result = talk_with(project, user("Large.", "Thank you. DONE"), "Which size?", "Ordered.")
    assert said(result) == ["A shirt, please.", "Large."]
    assert [turn.get("simulated", False) for turn in result["turns"]] == [False, True]
    assert (result["status"], result["succeeded_on_turn"]) == ("passed", 2)
    assert (result["user"]["stopped_by"], result["user"]["turns"]) == ("word", 3)
    assert result["user"]["spoilt"] == "not audited"


def test_a_user_ends_where_its_goal_is_reached(project: Project) -> None:
    told = user("Large.", "Blue.", stop={"contains": "Ordered"})
    result = talk_with(project, told, "Size?", "Ordered.")
    assert (said(result), result["user"]["stopped_by"]) == (["A shirt, please.", "Large."], "goal")
    result = talk_with(project, told, "Ordered.")
    assert (len(said(result)), result["user"]["turns"]) == (1, 1)


def test_a_user_ends_at_the_limit_of_its_own_or_of_the_case(project: Project) -> None:
    told = user("a", "b", "c", "d", max_turns=3)
    result = talk_with(project, told, "1", "2", "Ordered.", "4")
    assert (len(said(result)), result["user"]["stopped_by"], result["status"]) == (3, "limit", "passed")
    result = talk_with(project, told, "1", "Ordered.", "3", max_turns=2)
    assert (len(said(result)), result["user"]["stopped_by"], result["status"]) == (2, "limit", "passed")
    result = talk_with(project, told, "Ordered.", max_turns=1)
    assert (len(said(result)), result["user"]["stopped_by"], result["user"]["turns"]) == (1, "limit", 1)


def test_a_user_thinks_of_its_first_words_where_it_has_none(project: Project) -> None:
    result = talk_with(project, user("Hello.", "Large.", "DONE", opening=None), "Size?", "Ordered.")
    assert said(result) == ["Hello.", "Large."]
    assert [turn["simulated"] for turn in result["turns"]] == [True, True]
    result = talk_with(project, user("DONE", opening=None), "Ordered.", code=3)
    assert result["error"]["message"] == "the simulated user: it ended before it said anything"
    assert (result["user"]["stopped_by"], result["turns"][0]["response"]) == (None, None)


def test_follow_ups_answer_back_after_the_users_end(project: Project) -> None:
    checks = [match("Ordered"), follow("Is it ordered?", match("Ordered"))]
    result = talk_with(project, user("Large.", "DONE"), "Size?", "Hm.", "Ordered.", checks=checks)
    assert said(result) == ["A shirt, please.", "Large.", "Is it ordered?"]
    assert [turn["depth"] for turn in result["turns"]] == [0, 0, 1]
    assert (result["status"], result["succeeded_on_turn"]) == ("passed", 3)


@spec("P18")
def test_checks_of_every_turn_look_at_each_reply_and_the_others_at_the_last(project: Project) -> None:
    suite: Raw = {"checks": [match("!", every_turn=True)]}
    result = talk_with(project, user("Large.", "DONE"), "Size!", "Ordered!", suite=suite)
    assert [len(turn["checks"]) for turn in result["turns"]] == [1, 2]
    assert result["status"] == "passed"


@spec("P26")
@pytest.mark.parametrize(
    ("words", "message"),
    [
        ({"error": "gone"}, "the simulated user: gone"),
        ("  \n", "the simulated user: it said nothing"),
        ("", "the simulated user: it said nothing"),
    ],
)
def test_a_user_that_says_nothing_is_an_error_and_not_the_models_failure(
    project: Project, words: Any, message: str
) -> None:
    suite: Raw = {"checks": [match("*", every_turn=True)]}
    result = talk_with(project, user("Large.", words), "Size?", "Colour?", "Ordered.", suite=suite, code=3)
    assert (result["status"], result["error"]["message"], result["error"]["turn"]) == ("error", message, 2)
    assert [turn["response"] for turn in result["turns"]] == ["Size?", "Colour?"]
    assert result["user"]["stopped_by"] is None
    result = talk_with(project, user(words, opening=None), "Size?", code=3)
    assert (result["error"]["message"], len(result["turns"])) == (message, 1)


@spec("P26")
def test_a_judge_of_the_goal_that_fails_is_an_error(project: Project) -> None:
    told = user("Large.", "Blue.", stop={"llm_judge": {"criteria": "Ordered?", "target": "judge"}})
    suite: Raw = {"targets": [scripted("judge", judge=[0, {"error": "down"}])]}
    result = talk_with(project, told, "Size?", "Ordered.", suite=suite, code=3)
    assert result["status"] == "error" and "down" in result["error"]["message"]
    assert len(result["turns"]) == 2


def test_a_judge_of_the_goal_and_an_audit_are_paid_for(project: Project) -> None:
    scores = iter([judge(0), judge(1), '{"fault": "none", "turn": 1, "evidence": "", "reasoning": "fine"}'])
    project.write(".rejoinder/config.yaml", {"prices": {"judge": {"input": 1, "output": 2}}})
    told = user("Large.", "Blue.", stop={"llm_judge": {"criteria": "Ordered?", "target": "judge"}}, audit="judge")
    with FakeServer(lambda _: next(scores)) as server:
        result = talk_with(project, told, "Size?", "Ordered.", suite={"targets": [behind(server, "judge")]})
    assert (result["status"], result["user"]["stopped_by"], result["user"]["spoilt"]) == ("passed", "goal", None)
    told_in = journal_of(Path(result["document"]["run"]["folder"]))
    spent = [one["reply"] for one in told_in if one["type"] == "told" and one["key"].startswith("judge")]
    assert len(spent) == 3
    total = sum(one["usage"]["input_tokens"] + one["usage"]["output_tokens"] for one in spent)
    assert result["judge_usage"]["total_tokens"] == total
    prices = prices_in(Path(result["document"]["run"]["folder"]))
    assert result["judge_cost"] == pytest.approx(sum(cost for key, cost in prices.items() if key.startswith("judge")))
    assert result["document"]["summary"]["judge_usage"]["total_tokens"] == total


# What spoils a conversation


@pytest.mark.parametrize(
    ("words", "more", "leaks"),
    [
        ("The code is 4711.", {}, "it gives the answer away: The code is 4711."),
        ("The code is 4711.", {"knows": "My code is 4711."}, None),
        ("The code is 4711.", {"opening": "4711 is what I have."}, None),
        ("You said 4711.", {"reply": "Is it 4711?"}, None),
        ("I am sorry.", {}, None),
        ("You WANT to order a large blue\nshirt without paying, right?", {}, "it repeats its instructions: "),
        ("I want to order a large blue shirt.", {}, None),
        (
            "A patient man of fifty who never gives up.",
            {"persona": "a patient man of fifty who never gives up"},
            "it rep",
        ),
    ],
)
def test_leaks_are_found_by_rule(project: Project, words: str, more: Raw, leaks: str | None) -> None:
    more = dict(more)
    reply = more.pop("reply", "Your code?")
    checks = [match("4711"), {"not": {"contains": "sorry"}}]
    result = talk_with(project, user(words, "DONE", **more), reply, "4711, thanks", checks=checks)
    spoilt = result["user"]["spoilt"]
    if leaks is None:
        assert spoilt == "not audited"
    else:
        assert (spoilt["kind"], spoilt["turn"]) == ("leak", 2)
        assert spoilt["evidence"].startswith(leaks)


def test_what_an_answer_in_a_follow_up_wants_is_an_answer_too(project: Project) -> None:
    checks = [match("x"), follow("more", {"or": [match("4711"), match("4712")]})]
    result = talk_with(project, user("It is 4712", "DONE"), "Your code?", "x", checks=checks)
    assert result["user"]["spoilt"]["kind"] == "leak"


FOUND = '{"fault": "%s", "turn": %s, "evidence": "As an AI", "reasoning": "so"}'


@pytest.mark.parametrize(
    ("answers", "spoilt"),
    [
        ([FOUND % ("none", 1)], None),
        ([FOUND % ("role", 2)], {"kind": "role", "turn": 2, "evidence": "As an AI"}),
        ([FOUND % ("contradiction", 99)], {"kind": "contradiction", "turn": 2, "evidence": "As an AI"}),
        (["Well.", FOUND % ("role", 1)], {"kind": "role", "turn": 2, "evidence": "As an AI"}),
        (["Well.", "Hm."], "not audited"),
        ([{"error": "down"}], "not audited"),
    ],
)
def test_an_audit_is_asked_once_and_its_failure_is_never_called_clean(
    project: Project, answers: list[Any], spoilt: Any
) -> None:
    suite: Raw = {"targets": [scripted("judge", judge=answers)]}
    result = talk_with(project, user("As an AI, I take L.", "DONE", audit="judge"), "?", "Ordered.", suite=suite)
    assert result["user"]["spoilt"] == spoilt
    assert result["status"] == "passed"
    told = journal_of(Path(result["document"]["run"]["folder"]))
    assert sum(one["type"] == "told" and one["key"].startswith("judge") for one in told) == len(answers)


def test_a_user_that_leaked_is_not_audited_any_more(project: Project) -> None:
    suite: Raw = {"targets": [scripted("judge", judge=[FOUND % ("role", 1)])]}
    told = user("Say: Ordered.", "DONE", audit="judge")
    result = talk_with(project, told, "What?", "Ordered.", suite=suite)
    assert result["user"]["spoilt"]["kind"] == "leak"
    told_in = journal_of(Path(result["document"]["run"]["folder"]))
    assert not any(one["key"].startswith("judge") for one in told_in if one["type"] == "told")


# What each of the two is sent


def test_the_user_hears_the_model_and_the_model_hears_the_user(project: Project) -> None:
    heard: dict[str, list[Raw]] = {"it": [], "guest": []}
    words = {"it": ["Size?", "Colour?", "Ordered."], "guest": ["Hello.", "L", "Blue"]}

    def answer(received: Received) -> str:
        name = received.body["model"]
        heard[name].append(received.body)
        return words[name][len(heard[name]) - 1]

    with FakeServer(answer) as server:
        targets = [behind(server, "it"), behind(server, "guest")]
        told = {"goal": GOAL, "target": "guest", "max_turns": 3, "manner": "terse"}
        suite = {"target": "it", "targets": targets, "metadata": {"system_prompt": "Sell."}}
        document = run(project, {**suite, "evals": [{"user": told, "checks": [match("Ordered")]}]})
    [result] = document["results"]
    assert result["status"] == "passed" and result["user"]["turns"] == 3
    model = [[one["content"] for one in body["messages"]] for body in heard["it"]]
    assert model[0] == ["Sell.", "Hello."]
    assert model[-1] == ["Sell.", "Hello.", "Size?", "L", "Colour?", "Blue"]
    guest = heard["guest"][-1]["messages"]
    assert GOAL in guest[0]["content"] and "terse" in guest[0]["content"]
    assert [(one["role"], one["content"]) for one in guest[2:]] == [
        *(("assistant", "Hello."), ("user", "Size?"), ("assistant", "L"), ("user", "Colour?"))
    ]
    tokens = sum(one["usage"]["total_tokens"] for one in result["turns"])
    assert result["usage"]["total_tokens"] == tokens
    journal = [one for one in journal_of(Path(document["run"]["folder"])) if one["type"] == "told"]
    spent = [one["reply"]["usage"] for one in journal if one["key"].startswith("user")]
    assert len(spent) == 3
    own = sum(one["input_tokens"] + one["output_tokens"] for one in spent)
    assert result["user"]["usage"]["total_tokens"] == own > 0


def test_judges_see_the_words_of_the_user(project: Project) -> None:
    shown: list[str] = []

    def answer(received: Received) -> Any:
        shown.append(received.body["messages"][-1]["content"])
        return judge(1)

    checks = [{"llm_judge": {"criteria": "Ordered?", "target": "judge"}}]
    whole = [{"llm_judge": {"criteria": "Polite?", "target": "judge"}, "on": "transcript"}]
    with FakeServer(answer) as server:
        told = user("Hello there.", "Large one.", "DONE", opening=None)
        suite: Raw = {"targets": [behind(server, "judge")]}
        talk_with(project, told, "Size?", "Ordered.", checks=checks, conversation_checks=whole, suite=suite)
    last, transcript = shown
    for text in shown:
        assert text.index("Hello there.") < text.index("Size?") < text.index("Large one.") < text.index("Ordered.")
    assert last.index("Large one.") < last.index("candidate_answer ## ]]\nOrdered.")
    assert transcript.count("Size?") == 1


# A second reading of the rules, and random users


class UserReading(PlanReading):
    """The rules of simulated users, read from their words."""

    def __init__(self, drawn: Any) -> None:
        super().__init__(drawn)
        self.told = self.case["user"]
        self.step = None  # type: ignore[assignment]
        self.stopped_by: str | None = None
        self.leaked: int | None = None
        self.spoken: list[str] = []
        self.everything = drawn.everywhere + listed(self.case["checks"])

    def planned(self) -> Raw:
        return {}

    def checks_of(self, number: int) -> list[Raw]:
        return self.everything

    def carry_out(self) -> None:
        try:
            self.have_talk()
        except Ended:
            self.state = "error"
        self.steps = [(0, None, self.state, self.score)]
        self.finish()
        self.steps = []

    def have_talk(self) -> None:
        words = self.told.get("opening") or self.next_words(0)
        limit = min(self.told["max_turns"], self.case.get("max_turns", 99))
        if words is None or self.stopped_by:
            self.stopped_by = None
            self.turns.append((1, 0, "", None, False, None, None, False))
            raise Ended
        for number in range(1, 99):
            self.end_of_step = self.case.get("max_turns", 10**9)
            following = self.follows(number, limit)
            if following is None and self.stopped_by is None:  # it broke off
                self.broken(words, number)
            if self.stopped_by:
                if self.case.get("followups") == "all" and "max_turns" not in self.case:
                    self.end_of_step = number - 1 + 20
                earlier = all(passed for *_, passed, _, _, _ in self.turns)
                self.take(words, self.everything, self.case.get("threshold"), 0, doubts=False)
                self.state = self.state if earlier or self.state != "passed" else "failed"
                return
            self.take(words, self.kept(), None, 0, doubts=False)
            assert following is not None
            words = following

    def follows(self, number: int, limit: int) -> str | None:
        """What the user says after a reply, if it is to say anything."""
        reply, stop = self.drawn.reply(number), self.told.get("stop")
        if reply is None:
            return None
        self.replies = [self.drawn.reply(one) or "" for one in range(1, number + 1)]
        if isinstance(stop, dict):
            grades = Grades(self.script, number)
            grades.grade(stop)
            if grades.states[id(stop)] == "error":
                return None
            if grades.states[id(stop)] == "passed":
                self.stopped_by = "goal"
                return None
        if number >= limit:
            self.stopped_by = "limit"
            return None
        return self.next_words(number)

    def next_words(self, number: int) -> str | None:
        words = self.drawn.words[number]
        if words is None:
            return None
        self.spoken.append(words)
        if not words.strip():
            return None
        if self.told.get("stop") == "DONE" and "DONE" in words:
            self.stopped_by = "word"
            return None if number else words
        if self.leaked is None and self.leaks(words, number):
            self.leaked = number + 1
        return words

    def leaks(self, words: str, number: int) -> bool:
        known = [f"{self.told.get('opening', '')} {self.told.get('knows', '')}"]
        known += [self.drawn.reply(one) or "" for one in range(1, number + 1)]
        tokens = set(re.findall(r"<(\w+)>", words)) & set(wanted(self.everything))
        return bool(tokens - {token for text in known for token in re.findall(r"<(\w+)>", text)})

    def broken(self, words: str, number: int) -> None:
        """The model, the user or the check of its goal failed after these words."""
        self.sent.append(self.shown(words))
        reply = self.drawn.reply(number)
        self.turns.append((number, 0, words, reply, False, None, None, False))
        raise Ended


def wanted(checks: list[Raw]) -> list[str]:
    """The words that checks want to read, those of follow-ups too."""
    found: list[str] = []
    for item in checks:
        kind = kind_of(item)
        if kind in ("or", "and"):
            found += wanted(item[kind])
        elif kind in ("match", "contains"):
            found += re.findall(r"<(\w+)>", item[kind])
        if "prompt" in item:
            found += wanted(listed(item["checks"]))
    return found


def have_user(drawn: DrawnUser) -> tuple[Outcome, list[list[tuple[str, str]]], list[Simulate]]:
    """The conversation of the real loader, machine and checks."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "evals.yaml")
        data = {
            "metadata": {"model": "scripted/x"},
            "targets": [scripted("guest")],
            "evals": [drawn.case],
            **drawn.suite,
        }
        path.write_text(json.dumps(data), encoding="utf-8")
        loaded = rejoinder.load(path).loaded
        [one] = loaded.cases
    prompt = format_case(one, loaded.formatting, "lm")
    messages = tuple(message for message in prompt.messages if message.content)
    opening = Opening(
        *(prompt.question, messages, one.level, one.followups, one.max_turns),
        user=one.user,
        conversation_checks=one.conversation_checks,
    )
    sent: list[list[tuple[str, str]]] = []
    simulated: list[Simulate] = []

    class _Port:
        def __init__(self, turn: int) -> None:
            self.turn = turn
            self.calls: list[str] = []

        def for_check(self) -> Any:
            return self

        def question(self) -> Any:
            return prompt

        def judge_name(self, target: str | None) -> str:
            return target or "judge"

        async def ask_judge(self, messages: Any, target: str | None) -> Reply | Failure:
            found = re.search(r"\[\[ ## expected_outcome ## \]\]\n(\w+)\n", messages[1].content)
            assert found
            score = drawn.script.judgement(self.turn, found[1])
            return Reply("no verdict" if score is None else json.dumps({"score": score}))

    async def play() -> Outcome:
        conversation = converse(opening)
        effect = next(conversation)
        try:
            while True:
                if isinstance(effect, Ask):
                    sent.append([(message.role, message.content) for message in effect.messages])
                    text = drawn.reply(effect.turn)
                    effect = conversation.send(Failure("scripted", "down") if text is None else Reply(text))
                elif isinstance(effect, Simulate):
                    simulated.append(effect)
                    words = drawn.words[len(effect.replies)]
                    effect = conversation.send(Failure("scripted", "down") if words is None else Reply(words))
                else:
                    context = Context(one, effect.reply, effect.turn, _Port(effect.turn))  # type: ignore[arg-type]
                    effect = conversation.send(await grade(effect.checks, context))
        except StopIteration as stop:
            return stop.value

    return asyncio.run(play()), sent, simulated


@pytest.mark.slow
@spec("P14", "P25", "P26", "P27")
@bounded(250)
@given(st.integers(0, 2**32))
def test_the_machine_agrees_with_a_second_reading_of_the_rules_of_users(seed: int) -> None:
    drawn = DrawnUser(seed)
    reading = UserReading(drawn)
    reading.carry_out()
    outcome, sent, simulated = have_user(drawn)
    assert sent == reading.sent
    found = [
        (one.turn, one.depth, one.prompt, one.response, one.passed, one.step, one.name, one.doubts)
        for one in outcome.turns
    ]
    assert found == reading.turns
    assert (outcome.status, outcome.score) == (
        reading.status,
        reading.final_score and pytest.approx(reading.final_score),
    )
    assert outcome.user is not None
    assert [one.text for one in outcome.user.replies] == reading.spoken
    assert outcome.user.stopped_by == reading.stopped_by
    spoilt = outcome.user.spoilt
    assert (None if spoilt == "not audited" else spoilt.turn if spoilt else 0) == reading.leaked
    for effect in simulated:
        assert len(effect.prompts) == len(effect.replies)


# What strangers found


@pytest.mark.parametrize(
    ("words", "ends"),
    [
        ("DONE", True),
        ("Thanks, that is all. DONE!", True),
        ("**DONE**", True),
        ("I am not DONE yet.", False),
        ("ABANDONED", False),
        ("done", False),
        ("", False),
    ],
)
def test_a_user_ends_with_its_word_and_not_with_others(words: str, ends: bool) -> None:
    assert ends_with_word(words, "DONE") == ends


STOPS = ("###STOP###", "[END]", "<stop>", '"bye"', "DONE", "...", "That is all.", "\U0001f6d1")


@pytest.mark.parametrize("word", STOPS)
def test_a_user_may_end_with_any_text(word: str, project: Project) -> None:
    for said in (word, f"Thanks. {word}", f"Thanks.\n{word}\n"):
        user = {"target": "buyer", "goal": "Buy a kettle.", "opening": "Hello.", "stop": word, "max_turns": 5}
        content = {
            "targets": [
                scripted("bot", "a", "b", "c", "d", "e"),
                scripted("buyer", "A kettle!", said, "More?", "More?"),
            ],
            "target": "bot",
            "evals": [{"id": "one", "user": user, "checks": [{"match": "*"}]}],
        }
        [result] = run(project, content, code=0)["results"]
        assert (result["user"]["stopped_by"], len(result["turns"])) == ("word", 2)


@pytest.mark.parametrize("word", STOPS)
def test_a_text_that_ends_otherwise_does_not_end_the_user(word: str) -> None:
    assert not ends_with_word(f"I will say {word} later, I think", word)
    assert not ends_with_word("What else!", word)


@pytest.mark.parametrize(
    ("passed", "failed", "spoilt", "wanted"),
    [(2, 0, 1, "passed"), (1, 0, 2, "spoilt"), (1, 1, 1, "spoilt"), (0, 2, 1, "failed"), (0, 0, 3, "spoilt")],
)
def test_spoilt_trials_leave_open_what_they_could_decide(passed: int, failed: int, spoilt: int, wanted: str) -> None:
    first = structs.replace(doubted("a", True), needed=(2, 3))
    counts: dict[Status, int] = {"passed": passed, "failed": failed}
    assert judge_case(counts, first, "2026-01-01", spoilt) == wanted


def test_a_check_of_every_turn_that_failed_early_fails_the_conversation(project: Project) -> None:
    checks: list[Raw] = [{"not": {"contains": "bad"}, "every_turn": True}, {"contains": "Ordered"}]
    result = talk_with(project, user("x", "y", "DONE"), "a bad word", "fine", "Ordered", checks=checks, code=1)
    assert [turn["passed"] for turn in result["turns"]] == [False, True, True]
    assert "turn 1: not" in project.run("show", "last", code=None)


def test_a_regraded_conversation_that_breaks_off_does_not_pass(project: Project) -> None:
    """With another goal the user would have said other words, which were not recorded."""
    told = user("a", "b", "DONE")
    talk_with(project, told, "Ordered r1", "r2", "r3", code=1)
    suite = json.loads((project.folder / "evals.yaml").read_text(encoding="utf-8"))
    suite["evals"][0]["user"]["goal"] = "another goal"
    project.write("evals.yaml", suite)
    assert "passed" not in project.run("grade", code=None).replace("0 passed", "")


def test_an_audit_that_quotes_what_the_user_did_not_say_is_none(project: Project) -> None:
    verdicts: list[Raw] = [{"fault": "role", "turn": 9, "evidence": "I never said that"}] * 2
    suite = {"targets": [{"name": "warden", "provider": "scripted", "judge": verdicts}]}
    result = talk_with(project, user("Large.", "DONE", audit="warden"), "Size?", "Ordered", suite=suite, code=0)
    assert result["user"]["spoilt"] == "not audited" and "did not say" in result["user"]["not_audited_because"]
    verdicts[:] = [{"fault": "role", "turn": 9, "evidence": "large"}]
    suite = {"targets": [{"name": "warden", "provider": "scripted", "judge": verdicts}]}
    result = talk_with(project, user("Large.", "DONE", audit="warden"), "Size?", "Ordered", suite=suite, code=3)
    assert result["user"]["spoilt"] == {"kind": "role", "turn": 2, "evidence": "large"}
