"""A second reading of the rules of conversations, random trees of checks and prompts, and talks without a run."""

from __future__ import annotations

import asyncio
import json
import random
import re
import tempfile
from collections.abc import Callable, Iterator, Sequence
from itertools import product
from pathlib import Path
from typing import Any

import rejoinder
from rejoinder.checks.base import Context
from rejoinder.checks.registry import grade
from rejoinder.engine.conversation import converse
from rejoinder.engine.effects import Ask, Grade, Opening
from rejoinder.formatting.prompt import format_case
from rejoinder.formatting.steps import format_plan
from rejoinder.model import ChatMessage, Failure, Outcome, Prompt, Reply, State
from tests.kit import Raw

FOREVER = 40
"""No conversation of these tests may have so many turns."""


Judge = Callable[[int, str], Reply | Failure]
"""Told the turn and the text that the judge is shown."""


class Had:
    """A conversation that was had: what was sent and what came of it."""

    def __init__(self, outcome: Outcome, sent: list[tuple[ChatMessage, ...]], judged: list[str]) -> None:
        self.outcome = outcome
        self.sent = sent
        self.judged = judged

    @property
    def prompts(self) -> list[str]:
        return [turn.prompt for turn in self.outcome.turns]

    @property
    def depths(self) -> list[int]:
        return [turn.depth for turn in self.outcome.turns]

    @property
    def ending(self) -> tuple[str, int | None]:
        return self.outcome.status, self.outcome.succeeded_on_turn

    def states(self, turn: int) -> list[str]:
        return [verdict.state for verdict in self.outcome.turns[turn - 1].verdicts]


def have(case: Raw, replies: Callable[[int], Reply | Failure], judge: Judge, suite: Raw | None = None) -> Had:
    """Have the conversation of a case: the real loader, machine and checks, with given answers."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "evals.yaml")
        data = {"metadata": {"model": "scripted/x"}, "evals": [case], **(suite or {})}
        path.write_text(json.dumps(data), encoding="utf-8")
        loaded = rejoinder.load(path).loaded
        [one] = loaded.cases
    prompt = format_case(one, loaded.formatting, "lm")
    plan = None if one.plan is None else format_plan(one.plan, loaded.formatting)
    opening = Opening(
        *(prompt.question, prompt.messages, one.level, one.followups, one.max_turns),
        plan=plan,
        conversation_checks=one.conversation_checks,
    )
    sent: list[tuple[ChatMessage, ...]] = []
    judged: list[str] = []

    async def play() -> Outcome:
        class _Port:
            def __init__(self, turn: int) -> None:
                self.turn = turn

                self.calls: list[str] = []

            def for_check(self) -> Any:
                return self

            def question(self) -> Prompt:
                return prompt

            def judge_name(self, target: str | None) -> str:
                return target or "judge"

            async def ask_judge(self, messages: tuple[ChatMessage, ...], target: str | None) -> Reply | Failure:
                if len(messages) == 2:  # not asked once more
                    judged.append(messages[1].content)
                return judge(self.turn, messages[1].content)

        conversation = converse(opening)
        effect = next(conversation)
        try:
            while True:
                if isinstance(effect, Ask):
                    assert len(sent) < FOREVER, "the conversation does not end"
                    sent.append(effect.messages)
                    assert effect.turn == len(sent)
                    effect = conversation.send(replies(effect.turn))
                    continue
                assert isinstance(effect, Grade)
                context = Context(one, effect.reply, effect.turn, _Port(effect.turn))
                effect = conversation.send(await grade(effect.checks, context))
        except StopIteration as stop:
            return stop.value

    return Had(asyncio.run(play()), sent, judged)


def match(word: str, **more: Any) -> Raw:
    return {"match": f"*{word}*", **more}


class Unclear(Exception):
    """The rules do not say what is to happen."""


class Ended(Exception):
    """The conversation is over."""


GROUPS = ("or", "and")


KINDS = ("match", "not_match", "contains", "llm_judge", "or", "and", "not")


def kind_of(item: Raw) -> str | None:
    return next((kind for kind in KINDS if kind in item), None)


def listed(checks: Any) -> list[Raw]:
    """A `checks` value as a list: `{or: [...]}` is a list with one entry."""
    return checks if isinstance(checks, list) else [checks]


class Script:
    """What comes of each check at each turn, decided by chance; a failed request at one turn."""

    def __init__(self, seed: int, chance: float, errors: float, down_at: int | None) -> None:
        self.seed = seed
        self.chance = chance
        self.errors = errors
        self.down_at = down_at

    def passes(self, turn: int, leaf: str) -> bool:
        chance = self.chance / 2 if turn == 1 else self.chance
        return random.Random(f"{self.seed} {turn} {leaf}").random() < chance

    def judgement(self, turn: int, leaf: str) -> float | None:
        """A score, or None for a judge that cannot be read."""
        chance = random.Random(f"{self.seed} {turn} {leaf}")
        if chance.random() < self.errors:
            return None
        return chance.choice([0.5, 0.75, 1.0] if self.passes(turn, leaf) else [0.0, 0.25, 0.4375])

    def reply(self, turn: int, leaves: list[str]) -> str | None:
        if turn == self.down_at:
            return None
        return f" \n{turn}: " + "".join(f"<{leaf}>" for leaf in leaves if self.passes(turn, leaf)) + " \n"


class Reading:
    """The rules of follow-ups, read from their words and carried out on the mappings of a case."""

    def __init__(self, case: Raw, everywhere: list[Raw], script: Script, leaves: list[str]) -> None:
        self.case = case
        self.everywhere = everywhere
        self.script = script
        self.leaves = leaves
        self.all = case.get("followups") == "all"
        self.limit = case.get("max_turns", 20 if self.all else None)
        self.history = [("user", case["prompt"])]
        self.sent: list[list[tuple[str, str]]] = []
        self.turns: list[tuple[int, int, str, str | None, bool]] = []
        self.status, self.succeeded_on_turn = "failed", None
        self.score: float | None = None

    def carry_out(self) -> None:
        try:
            checks = self.everywhere + listed(self.case["checks"])
            self.level(self.case["prompt"], checks, self.case.get("threshold"), 0)
        except Ended:
            pass

    def level(self, prompt: str, checks: list[Raw], threshold: float | None, depth: int) -> None:
        """Send, grade, and try follow-ups. Returns when this branch came to nothing."""
        turn = len(self.turns) + 1
        self.sent.append(list(self.history))
        reply = self.script.reply(turn, self.leaves)
        if reply is None:
            self.turns.append((turn, depth, prompt, None, False))
            self.end("error")
        states: dict[int, str] = {}
        scores: dict[int, float | None] = {}
        for item in checks:
            if kind_of(item):
                self.grade(item, turn, states, scores)
        graded = [item for item in checks if kind_of(item)]
        self.score = weighted_mean([(item.get("weight", 1), scores[id(item)]) for item in graded])
        state = self.decide(graded, states, threshold)
        self.turns.append((turn, depth, prompt, reply, state == "passed"))
        if state == "passed":
            self.succeeded_on_turn = turn
        if state != "failed":
            self.end(state)
        applicable = [
            item for item, conditions in prompts_in(checks) if all(states[one] == "failed" for one in conditions)
        ]
        for item in applicable if self.all else applicable[:1]:
            if self.limit is not None and len(self.turns) >= self.limit:
                self.end("failed")
            words = item["prompt"]
            last = self.turns[-1][3] or ""
            words = words.replace("{{ response }}", last).replace("{{ response(1) }}", self.turns[0][3] or "")
            self.history += [("assistant", last), ("user", words)]
            own = None if kind_of(item) else item.get("threshold")
            persistent = [without_prompts(one) for one in self.everywhere if one.get("every_turn")]
            self.level(words, persistent + listed(item["checks"]), own, depth + 1)

    def decide(self, items: list[Raw], states: dict[int, str], threshold: float | None) -> str:
        found = [states[id(item)] for item in items]
        if threshold is None:
            return all_of(found)
        if any(item.get("required") and states[id(item)] == "failed" for item in items):
            return "failed"
        if "error" in found:
            if "failed" in found:
                raise Unclear
            return "error"
        assert self.score is not None
        return "passed" if self.score >= threshold else "failed"

    def grade(self, item: Raw, turn: int, states: dict[int, str], scores: dict[int, float | None]) -> None:
        kind = kind_of(item)
        assert kind is not None
        score: float | None
        if kind in GROUPS:
            options = [one for one in item[kind] if kind_of(one)]
            for one in options:
                self.grade(one, turn, states, scores)
            found = [states[id(one)] for one in options]
            known = [score for one in options if (score := scores[id(one)]) is not None]
            state = any_of(found) if kind == "or" else all_of(found)
            score = (max if kind == "or" else min)(known) if known and state != "error" else None
        elif kind == "not":
            self.grade(item["not"], turn, states, scores)
            inner, inner_score = states[id(item["not"])], scores[id(item["not"])]
            state = {"passed": "failed", "failed": "passed", "error": "error"}[inner]
            score = None if inner_score is None else 1 - inner_score
        elif kind == "llm_judge":
            score = self.script.judgement(turn, item["llm_judge"]["criteria"])
            state = "error" if score is None else "passed" if score >= item.get("threshold", 0.5) else "failed"
        else:
            word = re.findall(r"<(\w+)>", item[kind])[0]
            passes = self.script.passes(turn, word) is (kind != "not_match")
            state, score = ("passed", 1.0) if passes else ("failed", 0.0)
        states[id(item)] = state
        scores[id(item)] = score

    def end(self, status: str) -> None:
        self.status = status
        if status == "error":
            self.score = None
        raise Ended


def all_of(states: list[str]) -> str:
    """A failed check makes it failed; otherwise an errored one makes it an error."""
    return "failed" if "failed" in states else "error" if "error" in states else "passed"


def any_of(states: list[str]) -> str:
    """Passes if any option passed, else is an error if any errored."""
    return "passed" if "passed" in states else "error" if "error" in states else "failed"


def weighted_mean(scores: list[tuple[float, float | None]]) -> float | None:
    known = [(weight, score) for weight, score in scores if score is not None]
    total = sum(weight for weight, _ in known)
    return sum(weight * score for weight, score in known) / total if total else None


def prompts_in(checks: list[Raw], around: tuple[int, ...] = ()) -> Iterator[tuple[Raw, tuple[int, ...]]]:
    """Every prompt in document order, with the checks that all have to have failed for it to apply."""
    for item in checks:
        kind = kind_of(item)
        inside = (*around, id(item)) if kind else around
        if kind in GROUPS:
            yield from prompts_in(item[kind], inside)
        if "prompt" in item:
            yield item, inside


def without_prompts(item: Raw) -> Raw:
    kept = {key: value for key, value in item.items() if key not in ("prompt", "checks", "ask")}
    return {
        key: [without_prompts(one) for one in value if kind_of(one)] if key in GROUPS else value
        for key, value in kept.items()
    }


class Tree:
    """Makes up a case: checks and prompts in every form that the rules allow, to a size that can be read."""

    def __init__(self, seed: int, *, doubts: bool = False) -> None:
        self.chance = random.Random(seed)
        self.doubts = doubts
        self.leaves: list[str] = []
        self.prompts = 0
        self.room = self.pick(0, 3, 6, 12, 24)

    def pick(self, *choices: Any) -> Any:
        return self.chance.choice(choices)

    def case(self) -> Raw:
        case: Raw = {"prompt": "Q", "checks": self.checks(0)}
        if self.pick(True, False):
            case["followups"] = self.pick("first", "all")
        if self.pick(True, False, False, False):
            case["max_turns"] = self.pick(1, 2, 3, 5, 7, 9)
        if self.pick(True, False, False, False):
            case["threshold"] = self.pick(0.0, 0.25, 0.5, 0.75, 1.0)
        return case

    def everywhere(self) -> list[Raw]:
        return [
            {**self.leaf(), **({"every_turn": True} if self.pick(True, False) else {})}
            for _ in range(self.pick(0, 0, 0, 1, 2))
        ]

    def checks(self, depth: int) -> Any:
        return {"or": self.items(depth, 1)} if self.pick(True, False, False) else self.items(depth, 0)

    def items(self, depth: int, groups: int) -> list[Raw]:
        certain = self.pick(0, 0, 1)
        count = self.pick(certain + 1, 2, 3)
        return [self.item(depth, groups, certain=place == certain) for place in range(count)]

    def item(self, depth: int, groups: int, *, certain: bool) -> Raw:
        """`certain` is an item that has a check, as every list needs one."""
        if not certain and depth < 5 and self.room and self.pick(True, True, False):
            follow_up = self.follow_up(depth)
            if self.pick(True, False, False):
                follow_up["threshold"] = self.pick(0.25, 0.5, 1.0)
            return follow_up
        form = self.pick("leaf", "leaf", "leaf", "leaf", "not", "or", "or", "and") if groups < 3 else "leaf"
        if form in GROUPS:
            item: Raw = {form: self.items(depth, groups + 1)}
        else:
            item = {"not": self.leaf()} if form == "not" else self.leaf()
        if self.pick(True, False, False):
            item["weight"] = self.pick(0.5, 2, 3)
        if self.pick(True, False, False, False):
            item["required"] = self.pick(True, False)
        if depth < 5 and self.room and self.pick(True, False):
            item |= self.follow_up(depth)
        return item

    def leaf(self) -> Raw:
        name = f"k{len(self.leaves)}"
        self.leaves.append(name)
        kind = self.pick("match", "match", "match", "match", "not_match", "contains", "llm_judge")
        if kind == "llm_judge":
            more = {"threshold": self.pick(0.25, 0.75, 1.0)} if self.pick(True, False, False) else {}
            return {"llm_judge": {"criteria": name}, **more}
        return {kind: f"<{name}>" if kind == "contains" else f"*<{name}>*"}

    def follow_up(self, depth: int) -> Raw:
        self.room -= 1
        self.prompts += 1
        words = f"prompt {self.prompts}{self.pick('', '', ' {{ response }}', ' {{ response(1) }}.')}"
        follow_up = {"prompt": words, "checks": self.checks(depth + 1)}
        return {**follow_up, "ask": "always"} if self.doubts and self.pick(True, False, False) else follow_up


Row = Sequence[bool]
"""Whether each reply passes a check."""


def always(first: Row, _second: Row, _turn: int) -> bool:
    return all(first)


def never(first: Row, _second: Row, _turn: int) -> bool:
    return not any(first)


def by_turn(first: Row, _second: Row, turn: int) -> bool:
    return any(first[:turn])


def after(when: Row, then: Row, _turn: int) -> bool:
    """`when` never happens, or `then` passes in a later reply."""
    return True not in when or any(then[when.index(True) + 1 :])


def before(first: Row, second: Row, _turn: int) -> bool:
    """`first` passes in an earlier reply than `second` first does; or `second` never happens."""
    return True not in second or any(first[: second.index(True)])


MEANINGS: dict[str, Callable[[Row, Row, int], bool]] = {
    "always": always,
    "never": never,
    "by_turn": by_turn,
    "after": after,
    "before": before,
}


def worlds(states: Sequence[State]) -> list[tuple[bool, ...]]:
    """Every row that it may be, as checks in error may be either."""
    return list(product(*((True, False) if state == "error" else (state == "passed",) for state in states)))


def meant(rule: str, first: Sequence[State], second: Sequence[State], turn: int) -> State:
    found = {MEANINGS[rule](one, other, turn) for one in worlds(first) for other in worlds(second)}
    return "error" if len(found) == 2 else "passed" if True in found else "failed"
