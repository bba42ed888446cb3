"""A second reading of the rules of plans, and plans and simulated users by chance."""

from __future__ import annotations

import re
from statistics import fmean
from typing import Any

from tests.engine.readings import (
    Ended,
    Script,
    Tree,
    all_of,
    any_of,
    kind_of,
    listed,
    meant,
    prompts_in,
    weighted_mean,
    without_prompts,
)
from tests.kit import Raw


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


class DrawnUser:
    """A user by chance, and a case that it talks in."""

    def __init__(self, seed: int) -> None:
        tree = self.tree = Tree(seed, doubts=True)
        pick = tree.pick
        tree.room = pick(0, 0, 2, 4)
        self.values: list[str] = []
        self.case: Raw = {"checks": tree.checks(0)}
        self.everywhere = tree.everywhere()
        told: Raw = {"goal": "g", "target": "guest", "max_turns": pick(1, 2, 3, 4)}
        if pick(True, True, False):
            told["opening"] = pick("Q", "Q <k0>", "Q")
        if pick(True, False):
            told["knows"] = "".join(f"<{leaf}>" for leaf in tree.leaves if pick(True, False))
        ends = pick("word", "check", None)
        if ends:
            told["stop"] = "DONE" if ends == "word" else tree.leaf()
        self.case["user"] = told
        if pick(True, False, False):
            self.case["max_turns"] = pick(1, 2, 3, 6)
        if pick(True, False, False):
            self.case["followups"] = "all"
        if pick(True, False, False):
            self.case["threshold"] = pick(0.25, 0.5, 1.0)
        if pick(True, False, False):
            self.case["conversation_checks"] = [{"always": tree.leaf()}, {"never": tree.leaf(), "replies": "final"}]
        errors, down = pick(0, 0, 0, 0.2), pick(*[None] * 6, 1, 2, 3)
        self.script = Script(seed, pick(0.2, 0.5, 0.8), errors, down)
        self.suite: Raw = {"checks": self.everywhere} if self.everywhere else {}
        self.words = [
            pick(f"w{turn}", f"w{turn}", f"w{turn} <{pick(*tree.leaves)}>", "DONE", " ", None)
            if pick(1, 0)
            else f"w{turn}"
            for turn in range(9)
        ]
        """What it would say next after so many turns; None is a failure."""

    def reply(self, turn: int) -> str | None:
        return self.script.reply(turn, self.tree.leaves)
