"""Planned turns and follow-ups that doubt: examples, and the machine against a second reading of the rules on random
plans.

The second reading (`PlanReading`) works on the mappings of a suite and shares no code with what it is compared to.
`FUZZ_EXAMPLES=5000 pytest tests/engine/test_plans.py` draws new plans.
"""

from __future__ import annotations

import json
import re
from statistics import fmean
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rejoinder.model import Failure, Reply
from tests.engine.test_conversation import (
    Ended,
    Script,
    Tree,
    all_of,
    any_of,
    have,
    kind_of,
    listed,
    match,
    prompts_in,
    weighted_mean,
    without_prompts,
)
from tests.engine.test_over_time import meant
from tests.kit import Project, Raw, bounded, case, follow, run, scripted, spec

# Examples


def plan(*turns: Raw, replies: list[Any], **more: Any) -> Raw:
    return {
        "target": "it",
        "targets": [scripted("it", *replies)],
        "evals": [{"id": "one", "turns": list(turns), **more}],
    }


def turn(prompt: str, *checks: Raw, **more: Any) -> Raw:
    return {"prompt": prompt, **({"checks": list(checks)} if checks else {}), **more}


def one_result(project: Project, suite: Raw, *arguments: str) -> Raw:
    [result] = run(project, suite, *arguments)["results"]
    return result


def steps_of(result: Raw) -> list[tuple[str, float | None]]:
    return [(step["status"], step["score"]) for step in result["steps"]]


def said(result: Raw) -> list[str]:
    return [turn["prompt"] for turn in result["turns"]]


def test_turns_are_said_one_after_the_other_and_follow_ups_stay_in_their_step(project: Project) -> None:
    mend = follow("once more", match("four"))
    suite = plan(
        turn("a table", match("many"), name="ask"),
        turn("for four", match("four"), mend, name="number"),
        turn("thanks"),
        replies=["how many?", "no", "four", "bye"],
    )
    result = one_result(project, suite)
    assert said(result) == ["a table", "for four", "once more", "thanks"]
    assert [(turn["step"], turn["name"], turn["depth"]) for turn in result["turns"]] == [
        *((1, "ask", 0), (2, "number", 0), (2, "number", 1), (3, None, 0))
    ]
    assert steps_of(result) == [("passed", 1.0), ("recovered", 1.0), ("passed", None)]
    assert (result["status"], result["succeeded_on_turn"], result["score"]) == ("passed", 4, 1.0)


@pytest.mark.parametrize(
    ("options", "status", "statuses", "score"),
    [
        ({}, "failed", ["passed", "failed", "skipped", "skipped"], 0.5 / 3),
        ({"on_turn_failure": "continue"}, "failed", ["passed", "failed", "passed", "passed"], 0.5),
        ({"on_turn_failure": "continue", "pass_steps": "aggregate"}, "passed", None, 0.5),
        ({"on_turn_failure": "continue", "pass_steps": "aggregate", "threshold": 0.6}, "failed", None, 0.5),
        ({"on_turn_failure": "continue", "aggregation": "min"}, "failed", None, 0.0),
        ({"on_turn_failure": "continue", "aggregation": "max", "pass_steps": "aggregate"}, "passed", None, 1.0),
        ({"pass_steps": "aggregate"}, "failed", ["passed", "failed", "skipped", "skipped"], 0.5 / 3),
        ({"max_turns": 1}, "failed", ["passed", "skipped", "skipped", "skipped"], 0.5 / 3),
    ],
)
def test_what_a_failed_step_comes_to(
    project: Project, options: Raw, status: str, statuses: list[str] | None, score: float
) -> None:
    half = {"llm_judge": {"criteria": "Nice?"}}
    turns = turn("one", half), turn("two", match("yes")), turn("three"), turn("four", match("*"))
    suite = plan(*turns, replies=["a", "no", "c", "d"], **options)
    suite["targets"][0]["judge"] = [0.5]
    result = one_result(project, suite)
    assert result["status"] == status
    assert statuses is None or [one["status"] for one in result["steps"]] == statuses
    assert result["score"] == pytest.approx(score)


def test_a_plan_of_checks_of_the_whole_alone_passes_by_them(project: Project) -> None:
    for passes in ("all", "aggregate"):
        suite = plan(turn("one"), turn("two"), replies=["a", "b"], conversation_checks=[{"always": match("*")}])
        suite["evals"][0]["pass_steps"] = passes
        result = one_result(project, suite)
        assert (result["status"], result["score"]) == ("passed", 1.0)


@spec("P15")
def test_turns_quote_what_was_said_and_extracted(project: Project) -> None:
    suite = plan(
        turn("book", name="book", extract={"ref": {"regex": r"ref (\w+)"}, "whole": {"regex": r"ref \w+"}}),
        turn("{{ ref }}/{{ whole }}/{{ response }}", match("x"), follow("again", match("y"))),
        turn("data", extract={"city": {"json_path": "$.to.city"}}),
        turn("{{ city }}, {{ response(1) }}, {{ turn('book').response }}, {{ ref }}", match("*")),
        replies=["ref A1.", "no", "y", '{"to": {"city": "Kraków"}}', "ok"],
    )
    result = one_result(project, suite)
    assert said(result)[1] == "A1/ref A1/ref A1."
    assert said(result)[-1] == "Kraków, ref A1., ref A1., A1"
    assert result["status"] == "passed"


def test_where_nothing_is_extracted_the_step_fails_and_a_follow_up_may_mend_it(project: Project) -> None:
    first = turn(
        "book", match("booked"), follow("your reference?", match("ref")), extract={"ref": {"regex": r"ref (\w+)"}}
    )
    last = turn("cancel {{ ref }}", match("*"))
    result = one_result(project, plan(first, last, replies=["booked", "ref B2", "ok"]))
    assert said(result) == ["book", "your reference?", "cancel B2"]
    assert steps_of(result) == [("recovered", 1.0), ("passed", 1.0)]
    result = one_result(project, plan(first, last, replies=["booked", "ref?", "ok"]))
    assert [status for status, _ in steps_of(result)] == ["failed", "skipped"]
    only = turn("book", extract={"ref": {"regex": r"ref (\w+)"}})
    result = one_result(project, plan(only, only, last, replies=["no", "ref C3", "ok"]))
    assert steps_of(result) == [("failed", 0.0), ("skipped", 0.0), ("skipped", 0.0)]


@spec("P14")
def test_a_window_shows_the_system_and_the_last_turns(project: Project) -> None:
    turns = [turn(f"t{number}") for number in range(1, 4)] + [turn("t4", match("*"), window_size=1)]
    suite = plan(*turns, replies=["r1", "r2", "r3", "r4"], window_size=2)
    suite["metadata"] = {"system_prompt": "S"}
    result = one_result(project, suite, "--include", "messages")
    shown = [sent_by(result, number) for number in range(1, 5)]
    assert shown == [["S", "t1"], ["S", "t1", "r1", "t2"], ["S", "t2", "r2", "t3"], ["S", "t4"]]


def sent_by(result: Raw, number: int) -> list[str]:
    return [message["content"] for message in result["turns"][number - 1]["messages"]]


def test_a_turn_of_several_messages(project: Project) -> None:
    several = [
        {"role": "user", "content": "I said"},
        {"role": "assistant", "content": "you said"},
        {
            "role": "user",
            "content": [{"type": "text", "value": "and {{ response }}"}, {"type": "file", "value": "n.txt"}],
        },
    ]
    project.write("n.txt", "The note.")
    suite = plan(turn("one"), {"messages": several, "checks": [match("*")]}, replies=["r1", "r2"])
    result = one_result(project, suite, "--include", "messages")
    *before, last = sent_by(result, 2)
    assert before == ["one", "r1", "I said", "you said"]
    assert last.startswith("and r1\n") and "The note." in last
    assert said(result)[1] == f"I said\n\nyou said\n\n{last}"


def test_every_turn_holds_in_all_steps_and_other_checks_at_the_last(project: Project) -> None:
    suite = plan(turn("one"), turn("two", match("b"), follow("again", match("b"))), replies=["a", "a", "ab"])
    suite["checks"] = [match("a", every_turn=True), match("z")]
    result = one_result(project, suite)
    checks = [[check["check"] for check in turn["checks"]] for turn in result["turns"]]
    assert checks == [["match *a*"], ["match *b*", "match *a*", "match *z*"], ["match *a*", "match *b*"]]
    assert result["status"] == "passed"


# Follow-ups that doubt


def doubt(prompt: str, *checks: Raw) -> Raw:
    return follow(prompt, *checks, ask="always")


def asked(project: Project, *checks: Raw, replies: list[str], **more: Any) -> tuple[list[str], str, int | None]:
    suite = {"target": "it", "targets": [scripted("it", *replies)], "evals": [case("one", *checks, **more)]}
    result = one_result(project, suite)
    return said(result)[1:], result["status"], result["succeeded_on_turn"]


def test_a_doubt_is_sent_to_right_answers_and_the_last_reply_decides(project: Project) -> None:
    sure = doubt("sure?", match("4"))
    assert asked(project, match("4"), sure, replies=["4", "4"]) == (["sure?"], "passed", 2)
    assert asked(project, match("4"), sure, replies=["4", "5"]) == (["sure?"], "failed", None)
    assert asked(project, match("4"), sure, replies=["5", "4"]) == (["sure?"], "passed", 2)
    mend = follow("wrong", match("4"))
    assert asked(project, match("4"), mend, sure, replies=["5", "4"]) == (["wrong"], "passed", 2)
    assert asked(project, match("4"), mend, sure, replies=["4", "4"]) == (["sure?"], "passed", 2)
    everything = asked(project, match("4"), mend, sure, replies=["5", "4", "4"], followups="all")
    assert everything == (["wrong", "sure?"], "passed", 3)


def test_a_doubt_inside_a_group_is_sent_in_any_case(project: Project) -> None:
    either = {"or": [match("4"), match("four"), doubt("inside", match("4"))], **doubt("beside", match("4"))}
    assert asked(project, either, replies=["4", "4"])[0] == ["inside"]
    assert asked(project, either, replies=["-", "4"])[0] == ["inside"]
    assert asked(project, match("x"), either, replies=["4", "4"])[0] == ["inside"]
    assert asked(project, either, replies=["4", "4", "4"], followups="all")[0] == ["inside", "beside"]


def test_ready_doubts_and_the_ladder(project: Project) -> None:
    suite = {"target": "it", "targets": [scripted("it", "4", "5", "4", "4")], "ready_followups": "doubt"}
    result = one_result(project, {**suite, "evals": [case("one", match("4"))]})
    assert (len(result["turns"]), result["status"]) == (4, "passed")
    assert [turn.get("doubts", False) for turn in result["turns"]] == [False, True, True, True]
    suite = {"target": "it", "targets": [scripted("it", "1", "2", "3", "4")], "ready_followups": "ladder"}
    result = one_result(project, {**suite, "evals": [case("one", match("4"))]})
    assert [turn.get("hint") for turn in result["turns"]] == [None, "look", "wrong", "kind"]
    assert "4" not in said(result)[3]


# A second reading of the rules, and random plans


class PlanReading:
    """The rules of plans, doubts and checks of the whole, read from their words."""

    def __init__(self, drawn: Any) -> None:
        self.drawn = drawn
        self.case = drawn.case
        self.script = drawn.script
        self.sent: list[list[tuple[str, str]]] = []
        self.turns: list[tuple[Any, ...]] = []
        self.exchanges: list[tuple[str, str]] = []
        """What was said and replied, for each turn."""
        self.values: dict[str, str] = {}
        self.named: dict[str, str] = {}
        self.step, self.name = 0, None
        self.last_pass = 0
        self.state, self.score = "passed", None
        self.steps: list[tuple[int, str | None, str, float | None]] = []
        self.whole: list[str] = []
        self.status = ""
        self.final_score: float | None = None

    # Turns

    def carry_out(self) -> None:
        try:
            self.have_plan()
        except Ended:
            self.steps.append((self.step, self.name, "error", None))
        for number, planned in list(enumerate(self.case["turns"], 1))[len(self.steps) :]:
            has = self.checks_of(number) or planned.get("extract")
            self.steps.append((number, planned.get("name"), "skipped", 0.0 if has else None))
        self.finish()

    def have_plan(self) -> None:
        for number, planned in enumerate(self.case["turns"], 1):
            if len(self.turns) >= self.case.get("max_turns", 10**9):
                return
            self.step, self.name = number, planned.get("name")
            if not set(re.findall(r"\{\{ (v\d+) \}\}", planned["prompt"])) <= set(self.values):
                has = self.checks_of(number) or planned.get("extract")
                self.steps.append((number, self.name, "skipped", 0.0 if has else None))
                continue
            start = len(self.turns)
            self.end_of_step = start + 20 if self.case.get("followups") == "all" else 10**9
            self.end_of_step = self.case.get("max_turns", self.end_of_step)
            is_last = number == len(self.case["turns"]) and self.case.get("pass_steps") != "aggregate"
            threshold = self.case.get("threshold") if is_last else None
            self.take(self.filled(planned["prompt"]), self.checks_of(number), threshold, 0, doubts=False)
            status = "recovered" if self.state == "passed" and not self.turns[start][4] else self.state
            self.steps.append((number, self.name, status, self.score))
            if self.state == "failed" and self.case.get("on_turn_failure") != "continue":
                return

    def checks_of(self, number: int) -> list[Raw]:
        """A turn's own checks, those of every turn, and at the last turn the others of suite and case."""
        of_case = self.drawn.everywhere + listed(self.case.get("checks", []))
        own = listed(self.case["turns"][number - 1].get("checks", []))
        own = own + [one for one in of_case if one.get("every_turn")]
        return own + [one for one in of_case if not one.get("every_turn")] if number == len(self.case["turns"]) else own

    def planned(self) -> Raw:
        return self.case["turns"][self.step - 1]

    def kept(self) -> list[Raw]:
        """What holds in the follow-ups of a step, too."""
        return [without_prompts(one) for one in self.checks_of(self.step) if one.get("every_turn")]

    def filled(self, words: str) -> str:
        replies = [reply for _, reply in self.exchanges]
        words = words.replace("{{ response }}", replies[-1] if replies else "")
        words = words.replace("{{ response(1) }}", replies[0] if replies else "")
        words = re.sub(r"\{\{ turn\('(\w+)'\).response \}\}", lambda found: self.named.get(found[1], ""), words)
        return re.sub(r"\{\{ (v\d+) \}\}", lambda found: self.values.get(found[1], ""), words)

    def shown(self, words: str) -> list[tuple[str, str]]:
        window = self.planned().get("window_size", self.case.get("window_size", 10**9))
        earlier = self.exchanges[max(0, len(self.exchanges) + 1 - window) :]
        system = [("system", "S")] if self.drawn.suite.get("metadata", {}).get("system_prompt") else []
        pairs = [pair for said, reply in earlier for pair in (("user", said), ("assistant", reply))]
        return [*system, *pairs, ("user", words)]

    def take(self, words: str, checks: list[Raw], threshold: float | None, depth: int, *, doubts: bool) -> None:
        """A turn and what answers back to it."""
        number = len(self.turns) + 1
        self.sent.append(self.shown(words))
        reply = self.drawn.reply(number)
        if reply is None:
            self.turns.append((number, depth, words, None, False, self.step, self.name, doubts))
            raise Ended
        self.exchanges.append((words, reply))
        grades = Grades(self.script, number)
        items = [item for item in checks if kind_of(item)]
        for item in items:
            grades.grade(item)
        extracts = self.planned().get("extract", {})
        values = {name: re.search(f"{name}=(\\w+)", reply) for name in extracts}
        self.values |= {name: found[1] for name, found in values.items() if found}
        if self.name:
            self.named[self.name] = reply
        missed = any(found is None for found in values.values())
        scored = [(item.get("weight", 1), grades.scores[id(item)]) for item in items]
        self.score = weighted_mean(scored)
        if self.score is None and values:  # they weigh nothing beside checks that have a score
            self.score = sum(found is not None for found in values.values()) / len(values)
        self.state = grades.decide(items, threshold, self.score, missed=missed)
        self.turns.append((number, depth, words, reply, self.state == "passed", self.step, self.name, doubts))
        if self.state == "error":
            raise Ended
        if self.state == "passed":
            self.last_pass = number
        applicable = [
            item
            for item, conditions in prompts_in(checks)
            if item.get("ask") == "always"
            or (self.state == "failed" and all(grades.states[one] == "failed" for one in conditions))
        ]
        if self.state == "passed":
            applicable = [item for item in applicable if item.get("ask") == "always"]
        for item in applicable if self.case.get("followups") == "all" else applicable[:1]:
            if len(self.turns) >= self.end_of_step:
                return
            always = item.get("ask") == "always"
            if not always and self.last_pass > number:
                continue  # a branch has passed since
            own = None if kind_of(item) else item.get("threshold")
            self.take(self.filled(item["prompt"]), self.kept() + listed(item["checks"]), own, depth + 1, doubts=always)

    # The end

    def finish(self) -> None:
        statuses = [status for _, _, status, _ in self.steps]
        if "error" in statuses:
            self.status = "error"
            return
        scores = [score for *_, score in self.steps if score is not None]
        how = {"min": min, "max": max}.get(self.case.get("aggregation", "mean"), fmean)
        score = how(scores) if scores else None
        passed = all(status in ("passed", "recovered") for status in statuses)
        if self.case.get("pass_steps") == "aggregate" and score is not None:
            passed = score >= self.case.get("threshold", 0.5) - 1e-9
        self.whole = [self.look(over) for over in self.case.get("conversation_checks", [])]
        if all_of([*self.whole, "passed" if passed else "failed"]) == "error":
            self.status = "error"
            return
        self.status = "passed" if passed and "failed" not in self.whole else "failed"
        if score is None:
            pairs = zip(self.case.get("conversation_checks", []), self.whole, self.whole_scores(), strict=True)
            score = weighted_mean([(over.get("weight", 1), one) for over, _, one in pairs])
        self.final_score = score

    def whole_scores(self) -> list[float | None]:
        found: list[float | None] = []
        for over, state in zip(self.case.get("conversation_checks", []), self.whole, strict=True):
            if kind_of(over):
                grades = Grades(self.script, len(self.turns))
                grades.grade(over)
                found.append(grades.scores[id(over)])
            else:
                found.append(None if state == "error" else float(state == "passed"))
        return found

    def look(self, over: Raw) -> str:
        """What a check of the whole comes to."""
        if kind_of(over):
            return self.state_at(len(self.turns), over)
        [rule] = set(over) & {"always", "never", "by_turn", "after", "before"}
        inner = over[rule]
        names = {"after": ("when", "then"), "before": ("first", "second"), "by_turn": ("check",)}.get(rule)
        checks = [inner[name] for name in names] if names else [inner]
        numbers = list(range(1, len(self.turns) + 1))
        if over.get("replies") == "final":
            numbers = [n for n in numbers if n == len(self.turns) or self.turns[n][1] == 0]
        first, last = over.get("turns", (1, len(numbers)))
        places = [place for place in range(1, len(numbers) + 1) if first <= place <= last]
        rows = [[self.state_at(numbers[place - 1], check) for place in places] for check in checks]
        limit = sum(place <= inner["turn"] for place in places) if rule == "by_turn" else 0
        return meant(rule, rows[0], rows[1] if len(rows) > 1 else (), limit)  # type: ignore[arg-type]

    def state_at(self, number: int, check: Raw) -> str:
        grades = Grades(self.script, number)
        grades.grade(check)
        return grades.states[id(check)]


class Grades:
    """What the checks of one turn come to."""

    def __init__(self, script: Script, turn: int) -> None:
        self.script = script
        self.turn = turn
        self.states: dict[int, str] = {}
        self.scores: dict[int, float | None] = {}

    def grade(self, item: Raw) -> None:
        kind, key = kind_of(item), id(item)
        assert kind is not None
        score: float | None
        if kind in ("or", "and"):
            options = [one for one in item[kind] if kind_of(one)]
            for one in options:
                self.grade(one)
            found = [self.states[id(one)] for one in options]
            known = [score for one in options if (score := self.scores[id(one)]) is not None]
            state = any_of(found) if kind == "or" else all_of(found)
            score = (max if kind == "or" else min)(known) if known and state != "error" else None
        elif kind == "not":
            self.grade(item["not"])
            state = {"passed": "failed", "failed": "passed", "error": "error"}[self.states[id(item["not"])]]
            inner = self.scores[id(item["not"])]
            score = None if inner is None else 1 - inner
        elif kind == "llm_judge":
            score = self.script.judgement(self.turn, item["llm_judge"]["criteria"])
            state = "error" if score is None else "passed" if score >= item.get("threshold", 0.5) else "failed"
        else:
            word = re.findall(r"<(\w+)>", item[kind])[0]
            passes = self.script.passes(self.turn, word) is (kind != "not_match")
            state, score = ("passed", 1.0) if passes else ("failed", 0.0)
        self.states[key], self.scores[key] = state, score

    def decide(self, items: list[Raw], threshold: float | None, score: float | None, *, missed: bool) -> str:
        found = [self.states[id(item)] for item in items]
        if missed:
            return "failed"
        if threshold is None:
            return all_of(found)
        if any(item.get("required") and self.states[id(item)] == "failed" for item in items):
            return "failed"
        if "error" not in found:
            assert score is not None
            return "passed" if score >= threshold else "failed"
        # It may be worth anything: an error, unless that makes no difference.
        pairs = [(item.get("weight", 1), self.scores[id(item)]) for item in items]
        least, most = (weighted_mean([(w, worth if s is None else s) for w, s in pairs]) or 0 for worth in (0, 1))
        if most < threshold:
            return "failed"
        hangs = any(item.get("required") and self.states[id(item)] == "error" for item in items)
        return "error" if hangs or least < threshold or set(found) == {"error"} else "passed"


class Drawn:
    """A plan by chance, with everything that a plan may have."""

    def __init__(self, seed: int) -> None:
        tree = self.tree = Tree(seed, doubts=True)
        pick = tree.pick
        tree.room = pick(0, 2, 4, 8)
        self.names: list[str] = []
        self.values: list[str] = []
        self.case: Raw = {"turns": [self.turn(number) for number in range(1, pick(1, 2, 3, 3, 4, 5) + 1)]}
        self.everywhere = tree.everywhere()
        if pick(True, False, False):
            self.case["checks"] = [
                {**one, **({"every_turn": True} if kind_of(one) and pick(True, False) else {})}
                for one in tree.items(0, 0)
            ]
        self.maybe("conversation_checks", lambda: [self.over() for _ in range(pick(1, 2, 3))])
        for key, values in OPTIONS.items():
            self.maybe(key, lambda values=values: pick(*values))
        graded = self.everywhere or "checks" in self.case or "conversation_checks" in self.case
        if not graded and not any("checks" in one for one in self.case["turns"]):
            self.case["turns"][-1]["checks"] = [tree.leaf()]
        errors, down = pick(0, 0, 0, 0.1, 0.3), pick(*[None] * 6, 1, 2, 3, 5, 7)
        self.script = Script(seed, pick(0.3, 0.6, 0.8, 0.95), errors, down)
        self.suite: Raw = {"checks": self.everywhere} if self.everywhere else {}
        if pick(True, False, False):
            self.suite["metadata"] = {"model": "scripted/x", "system_prompt": "S"}

    def maybe(self, key: str, value: Any) -> None:
        if self.tree.pick(True, False):
            self.case[key] = value()

    def turn(self, number: int) -> Raw:
        pick = self.tree.pick
        words = [f"prompt {number}00", pick("", "", "{{ response }}", "{{ response(1) }}")]
        if number == 1:
            words = words[:1]
        words += [f"{{{{ turn('{name}').response }}}}" for name in self.names if pick(True, False)]
        words += [f"{{{{ {name} }}}}" for name in self.values if pick(True, False)]
        made: Raw = {"prompt": " ".join(filter(None, words))}
        if pick(True, True, False):
            made["checks"] = self.tree.checks(0)
        if pick(True, False):
            made["name"] = f"n{number}"
            self.names.append(made["name"])
        if pick(True, False, False):
            made["extract"] = {
                name: {"regex": f"{name}=(\\w+)"} for name in (f"v{number}", f"v{number}0")[: pick(1, 2)]
            }
            self.values += made["extract"]
        if pick(True, False, False, False):
            made["window_size"] = pick(1, 2, 3)
        return made

    def over(self) -> Raw:
        pick, leaf = self.tree.pick, self.tree.leaf
        rule = pick("last", "always", "never", "by_turn", "after", "before")
        weight = {"weight": pick(0.5, 2)} if pick(True, False) else {}
        if rule == "last":
            return {**leaf(), **weight}
        inner = {
            "by_turn": lambda: {"turn": pick(1, 2, 4), "check": leaf()},
            "after": lambda: {"when": leaf(), "then": leaf()},
            "before": lambda: {"first": leaf(), "second": leaf()},
        }.get(rule, leaf)
        over = {rule: inner(), **weight}
        if pick(True, False, False):
            over["turns"] = pick([1, 2], [2, 3], [2, 9], [5, 6])
        return {**over, "replies": pick("all", "final")} if pick(True, False) else over

    def reply(self, turn: int) -> str | None:
        reply = self.script.reply(turn, self.tree.leaves)
        if reply is None:
            return None
        found = [name for name in self.values if self.script.passes(turn, name)]
        return reply + "".join(f" {name}=found{turn}{name}" for name in found)


OPTIONS: Raw = {
    "followups": ("first", "all"),
    "max_turns": (1, 2, 3, 5, 8),
    "on_turn_failure": ("stop", "continue", "continue"),
    "aggregation": ("mean", "min", "max"),
    "pass_steps": ("all", "aggregate"),
    "threshold": (0.25, 0.5, 0.75, 1.0),
    "window_size": (1, 2, 3, 9),
}


@pytest.mark.slow
@spec("P14", "P15", "P25", "P26", "P27")
@bounded(300)
@given(st.integers(0, 2**32))
def test_the_machine_agrees_with_a_second_reading_of_the_rules_of_plans(seed: int) -> None:
    drawn = Drawn(seed)
    if drawn.case.get("pass_steps") != "aggregate":
        drawn.case.pop("threshold", None)
    reading = PlanReading(drawn)
    reading.carry_out()

    def reply(turn: int) -> Reply | Failure:
        text = drawn.reply(turn)
        return Failure("scripted", "down") if text is None else Reply(text)

    def judge(turn: int, user: str) -> Reply | Failure:
        found = re.search(r"\[\[ ## expected_outcome ## \]\]\n(\w+)\n", user)
        assert found
        score = drawn.script.judgement(turn, found[1])
        return Reply("no verdict" if score is None else json.dumps({"score": score}))

    had = have(drawn.case, reply, judge, drawn.suite)
    outcome = had.outcome
    assert [[(message.role, message.content) for message in messages] for messages in had.sent] == reading.sent
    found = [
        (one.turn, one.depth, one.prompt, one.response, one.passed, one.step, one.name, one.doubts)
        for one in outcome.turns
    ]
    assert found == reading.turns
    steps = [(one.step, one.name, one.status, _about(one.score)) for one in outcome.steps]
    assert steps == [(*rest, _about(score)) for *rest, score in reading.steps]
    assert [verdict.state for verdict in outcome.conversation_checks] == reading.whole
    assert outcome.status == reading.status
    assert _about(outcome.score) == _about(reading.final_score)
    assert outcome.succeeded_on_turn == (len(found) if reading.status == "passed" else None)
    assert (outcome.error is None) is (reading.status != "error")


def _about(score: float | None) -> float | None:
    return None if score is None else round(score, 9)


# What strangers found


def ran(project: Project, *cases: Raw, code: int | None = None, **replies: list[str]) -> dict[str, Raw]:
    """The results of scripted conversations by id; `guest` are the words of the user."""
    guest = replies.pop("guest", [])
    suite: Raw = {
        "metadata": {"model": "bot"},
        "targets": [
            {"name": "bot", "provider": "scripted", "replies": replies},
            {"name": "guest", "provider": "scripted", "replies": guest},
        ],
        "evals": list(cases),
    }
    document = project.run_json("run", str(project.write("evals.yaml", suite)), code=code)
    return {result["id"]: result for result in document["results"]}


REF: Raw = {"prompt": "a", "extract": {"ref": {"regex": r"(HX.\d+)"}}}


def test_what_was_extracted_can_be_checked(project: Project) -> None:
    checks: list[Raw] = [{"icontains": "{{ ref }}"}, {"regex": "^{{ ref }} it"}, {"match": "{{ ref }}*"}]
    checks.append({"not": {"equals": "{{ ref }}"}})
    whole = [{"by_turn": {"turn": 2, "check": {"equals": "{{ ref }} it is"}}}]
    case = {"id": "ref", "turns": [REF, {"prompt": "b", "checks": checks}], "conversation_checks": whole}
    result = ran(project, case, ref=["It is HX*1.", "HX*1 it is"], code=0)["ref"]
    assert result["turns"][1]["checks"][0]["check"] == "icontains HX*1"
    wrong = ran(project, case, ref=["It is HX*1.", "HXX1 it is"], code=1)["ref"]
    assert [check["passed"] for check in wrong["turns"][1]["checks"]] == [False, False, False, True]


def test_a_step_without_a_value_that_it_needs_is_skipped(project: Project) -> None:
    checks = [{"contains": "{{ ref }}"}]
    turns = [REF, {"prompt": "cancel {{ ref }}"}, {"prompt": "b", "checks": checks}, {"prompt": "c"}]
    case = {"id": "miss", "on_turn_failure": "continue", "turns": turns}
    result = ran(project, case, miss=["none", "bye"], code=1)["miss"]
    assert [step["status"] for step in result["steps"]] == ["failed", "skipped", "skipped", "passed"]
    assert [turn["prompt"] for turn in result["turns"]] == ["a", "c"]


def test_the_ladder_comes_after_a_follow_up_of_the_authors_own(project: Project) -> None:
    yes = {"contains": "yes"}
    own = [yes, {"prompt": "No.", "checks": [yes]}]
    case = {"id": "own", "prompt": "q", "checks": own, "ready_followups": "ladder"}
    result = ran(project, case, own=["no", "no", "no", "yes"], code=0)["own"]
    assert [turn.get("hint") for turn in result["turns"]] == [None, None, "look", "wrong"]


def test_all_messages_of_a_turn_are_in_the_transcript(project: Project) -> None:
    messages = [{"role": "user", "content": "code 4711"}, {"role": "user", "content": "go"}]
    whole = [{"on": "transcript", "contains": "4711"}]
    case = {"id": "multi", "turns": [{"prompt": "x"}, {"messages": messages}], "conversation_checks": whole}
    assert ran(project, case, multi=["a", "b"], code=0)["multi"]["passed"]


def test_the_threshold_of_a_sharded_task_holds_in_every_condition(project: Project) -> None:
    checks = [{"contains": "train"}, {"contains": "plane"}]
    case = {"id": "sh", "threshold": 0.5, "shards": {"task": "whole", "pieces": ["a", "b"]}, "checks": checks}
    assert all(result["passed"] for result in ran(project, case, **{"*": ["train", "train"]}, code=0).values())


def test_the_answer_of_a_judge_is_what_it_missed(project: Project) -> None:
    suite: Raw = {
        "metadata": {"model": "bot"},
        "targets": [{"name": "bot", "provider": "scripted", "replies": ["a", "b", "c", "d", "e"],
                     "judge": [{"score": 0, "misses": ["no greeting"], "reasoning": "It is curt."}] * 5}],
        "evals": [{"id": "a", "prompt": "q", "outcome": "greets", "ready_followups": "ladder"}],
    }  # fmt: skip
    [result] = project.run_json("run", str(project.write("evals.yaml", suite)), code=1)["results"]
    assert "no greeting" in result["turns"][4]["prompt"] and "no greeting" not in result["turns"][3]["prompt"]
