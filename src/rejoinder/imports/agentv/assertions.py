"""Assertions of AgentV as checks: a table of their types, each with the function that makes its check."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct

from rejoinder.imports.agentv.graders import Graders
from rejoinder.imports.agentv.words import NO_VARIABLES, Words, shows_judge_variables
from rejoinder.imports.promptfoo.words import Lost, whole
from rejoinder.imports.sources import Spot
from rejoinder.imports.texts import literal, literal_tree
from rejoinder.imports.verified import refusal_of
from rejoinder.imports.workbench import Workbench
from rejoinder.yaml_text import Comment, Commented

Check = dict[Any, Any]

PASSES = 0.8
"""The score from which AgentV takes a case, or a required grader, for passed."""
_OPTIONS = frozenset({"type", "name", "metric", "id", "weight", "required", "min_score", "negate", "description"})
_MOST_INCLUDED = 10_000
"""Maximum number of assertions that files add to a suite."""
_DEEPEST = 3
"""Most assertion files that include each other, as in AgentV."""
_LONGEST_NAME = 150
_NO_FORM = "rejoinder has no such check"


class CaseFacts(Struct, frozen=True):
    """The parts of a case that its assertions may refer to."""

    variables: Mapping[str, Any] = NO_VARIABLES
    outcome: str = ""
    """The criteria of the case, in our form."""
    expected: Any = None
    """The expected output, as the source has it."""
    passes: float = PASSES


class Asserted(Struct, frozen=True):
    """An assertion that is being converted."""

    spot: Spot
    kind: str
    case: CaseFacts

    def lost(self, how: str) -> Lost:
        return Lost(self.kind, how)


class Assertions:
    """The assertions of one file."""

    def __init__(self, bench: Workbench, words: Words, graders: Graders, target: Callable[[str, Spot], str]) -> None:
        """`target`: the target of the suite for a name in the source."""
        self.bench = bench
        self.words = words
        self.graders = graders
        self.target = target
        self.judges = False
        """Whether a check asks a model."""
        self._included_so_far = 0

    def convert(self, spots: list[Spot], case: CaseFacts) -> list[Any]:
        """The checks of a list of assertions, with comments. Its plain texts are the criteria of one rubric."""
        checks: list[Any] = []
        place: int | None = None
        criteria: list[Any] = []
        for spot in self._included(spots, ()):
            if isinstance(spot, Comment):
                checks.append(spot)
            elif isinstance(spot.value, str):
                place = len(checks) if place is None else place
                criteria += self._criterion(spot, case)
            else:
                checks += self._one(spot, case)
        if place is not None and any(isinstance(one, str | Commented) for one in criteria):
            self.judges = True
            weight = {"weight": number} if (number := sum(not isinstance(one, Comment) for one in criteria)) > 1 else {}
            checks.insert(place, {"rubric": criteria, **weight})
        return checks

    def _criterion(self, spot: Spot, case: CaseFacts) -> Iterator[Any]:
        yield from spot.above()
        text = spot.value.strip()
        if not text:
            yield self.bench.ledger.leave_out(spot, "an empty assertion", "it says nothing")
            return
        try:
            written = self.words.fill(text, case.variables)
        except Lost as lost:
            yield self.bench.ledger.leave_out(spot, lost.what, lost.how)
            return
        self.bench.ledger.map(spot)
        beside = spot.beside()
        yield Commented(written, beside) if beside else written

    def _included(self, spots: list[Spot], chain: tuple[Path, ...]) -> Iterator[Spot | Comment]:
        """The assertions, with the content of files in place of `include`."""
        for spot in spots:
            self._included_so_far += bool(chain)
            if self._included_so_far > _MOST_INCLUDED:
                raise spot.fault(f"files include more than {_MOST_INCLUDED:,} assertions")
            if not isinstance(spot.value, dict) or set(spot.value) != {"include"}:
                yield spot
                continue
            yield from spot.above()
            try:
                path = self.graders.included(spot["include"])
                if path in chain or len(chain) >= _DEEPEST:
                    raise Lost("include", "files include each other too deeply")
                inner = spot.file.folder.read(path).spot
                found = inner["assertions"] if "assertions" in inner else inner["assert"]
                self.bench.ledger.map(spot)
                yield from self._included(list(found.items), (*chain, path))
            except Lost as lost:
                yield self.bench.ledger.leave_out(spot, lost.what, lost.how)

    def _one(self, spot: Spot, case: CaseFacts) -> list[Any]:
        above, beside = spot.above(), spot.beside()
        try:
            check, notes = self._check(spot, case)
        except Lost as lost:
            return [*above, *spot.within(), self.bench.ledger.leave_out(spot, lost.what, lost.how)]
        return [*above, *spot.within(), *notes, Commented(check, beside) if beside else check]

    def _check(self, spot: Spot, case: CaseFacts) -> tuple[Check, list[Comment]]:
        kind = spot["type"].value
        if not isinstance(spot.value, dict) or not isinstance(kind, str):
            raise Lost("an assertion", "it has no type")
        kind = kind.replace("_", "-")
        negated = kind.startswith("not-")
        kind = kind.removeprefix("not-")
        asserted = Asserted(spot, kind, case)
        row = KINDS.get(kind)
        notes: list[Comment] = []
        if row is None:
            row = Kind(_custom, keys=None)
        for key, one in spot.pairs:
            if row.keys is not None and key not in row.keys and key not in _OPTIONS:
                notes.append(self.bench.ledger.leave_out(one, f"`{key}` of {kind}", "the check has nothing like it"))
        check, differences = row.check(asserted, self)
        if negated != (spot["negate"].value is True):
            check = {"not": check}
        check = self._with_options(asserted, check, is_scored=row.scored)
        if (refusal := refusal_of(check)) is not None:
            raise asserted.lost(f"a suite refuses it: {refusal[:_LONGEST_NAME]}")
        notes += [self.bench.ledger.approximate(spot, kind, how) for how in differences]
        if not notes:
            self.bench.ledger.map(spot)
        self.judges |= row.judges
        return check, notes

    def _with_options(self, asserted: Asserted, check: Check, *, is_scored: bool) -> Check:
        spot = asserted.spot
        options: Check = {}
        name = next((spot[key].value for key in ("name", "metric", "id") if isinstance(spot[key].value, str)), "")
        if name.strip():
            options["name"] = literal(" ".join(name.split())[:_LONGEST_NAME])
        weight, required, least = (_number(spot[key].value) for key in ("weight", "required", "min_score"))
        if weight is not None and weight >= 0:
            options["weight"] = whole(weight)
        if required is not None or spot["required"].value is True:
            options["required"] = True
            least = least if least is not None else required if required is not None else asserted.case.passes
        if is_scored and least is not None and 0 <= least <= 1:
            options["threshold"] = least
        return {**check, **options}

    # What several types need

    def text(self, asserted: Asserted, key: str = "value") -> str:
        """The text of an assertion in our form. Raises Lost."""
        value = asserted.spot[key].value
        if isinstance(value, bool) or not isinstance(value, str | int | float) or value == "":
            raise asserted.lost("it has no text to look for")
        return self.words.fill(str(value), asserted.case.variables)

    def judge(self, asserted: Asserted) -> Check:
        """The judge that an assertion names."""
        spot = asserted.spot["target"] if "target" in asserted.spot else asserted.spot["provider"]
        if spot.value is None:
            return {}
        if not isinstance(spot.value, str) or not spot.value.strip():
            raise asserted.lost("its judge is not a name")
        return {"target": self.target(spot.value, spot)}


def needs_case(spot: Spot) -> bool:
    """Whether what an assertion checks depends on its case: on the criteria, or on the expected output."""
    kind = str(spot["type"].value).replace("_", "-").removeprefix("not-")
    if KINDS.get(kind) in (_JUDGE, _FIELDS):
        return kind == "field-accuracy" or not any(
            isinstance(spot[key].value, str | list) for key in ("prompt", "value", "criteria", "rubrics")
        )
    members = (spot[key] for key in ("assertions", "assert", "evaluators"))
    return any(needs_case(one) for inner in members for one in inner.items)


Differences = tuple[Check, list[str]]


class Kind(Struct, frozen=True):
    check: Callable[[Asserted, Assertions], Differences]
    """Raises Lost; the check, and how it differs."""
    keys: frozenset[str] | None = frozenset({"value"})
    """Its keys besides those that all have; None if it reads every key."""
    scored: bool = False
    """Whether its check has a threshold."""
    judges: bool = False


def _number(value: Any) -> float | None:
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None


# Plain checks


def _same_word(name: str) -> Callable[[Asserted, Assertions], Differences]:
    return lambda asserted, assertions: ({name: assertions.text(asserted)}, [])


def _words_of(name: str) -> Callable[[Asserted, Assertions], Differences]:
    def check(asserted: Asserted, assertions: Assertions) -> Differences:
        values = asserted.spot["value"].value
        items = values if isinstance(values, list) else []
        if not items or not all(isinstance(one, str) and one for one in items):
            raise asserted.lost("it has no list of texts to look for")
        return {name: [assertions.words.fill(one, asserted.case.variables) for one in items]}, []

    return check


def _regex(asserted: Asserted, assertions: Assertions) -> Differences:
    """JavaScript's named groups are written differently, and some of its flags mean nothing for a test."""
    import re

    pattern = re.sub(r"\(\?<([A-Za-z_]\w*)>", r"(?P<\1>", assertions.text(asserted))
    flags = asserted.spot["flags"].value
    kept = "".join(flag for flag in str(flags or "") if flag in "ims")
    return {"regex": {"pattern": pattern, "flags": kept} if kept else pattern}, []


def _json(_asserted: Asserted, _assertions: Assertions) -> Differences:
    return {"is_json": True}, []


def _words_counted(name: str) -> Callable[[Asserted, Assertions], Differences]:
    def check(asserted: Asserted, _: Assertions) -> Differences:
        number = next((one for key in ("value", "min", "max", "threshold") if (one := asserted.spot[key].value)), None)
        if not isinstance(number, int) or isinstance(number, bool):
            raise asserted.lost("it has no number of words")
        return {name: number}, []

    return check


# Judges


def _judged(asserted: Asserted, assertions: Assertions) -> Differences:
    """A judge: with criteria of its own, with a rubric, with a prompt, or with the criteria of the case."""
    spot = asserted.spot
    differences: list[str] = []
    rubrics = next((spot[key] for key in ("rubrics", "criteria", "value") if isinstance(spot[key].value, list)), None)
    if rubrics is not None:
        return _rubric_of(asserted, assertions, rubrics)
    judge = assertions.judge(asserted)
    prompt = spot["prompt"]
    if isinstance(prompt.value, dict):
        differences.append("the prompt is made by a program, so the case's criteria are judged instead")
    written = next((spot[key] for key in ("prompt", "value", "criteria") if isinstance(spot[key].value, str)), None)
    if written is None or not written.value.strip():
        criteria = asserted.case.outcome or "The reply does what was asked."
        return _criteria(criteria, judge), differences
    text = assertions.graders.prompt(written) if written.value.startswith("file://") else written.value
    if not shows_judge_variables(text):
        return _criteria(assertions.words.fill(text.strip(), asserted.case.variables), judge), differences
    shown, lost = assertions.words.judged(text, asserted.case.variables)
    differences += [f"its prompt shows `{name}`, which judges are not shown here" for name in dict.fromkeys(lost)]
    if written.value.startswith("file://"):
        shown = assertions.graders.rewritten(written, text, shown)
    return {"llm_judge": {"prompt": shown, **judge}}, differences


def _criteria(text: str, judge: Check) -> Check:
    return {"llm_judge": {"criteria": text, **judge} if judge else text}


def _rubrics(asserted: Asserted, assertions: Assertions) -> Differences:
    spot = asserted.spot
    found = next((spot[key] for key in ("criteria", "rubrics", "value") if isinstance(spot[key].value, list)), None)
    if found is None or not found.value:
        raise asserted.lost("it has no criteria")
    return _rubric_of(asserted, assertions, found)


def _rubric_of(asserted: Asserted, assertions: Assertions, spot: Spot) -> Differences:
    differences: list[str] = []
    criteria: list[Any] = []
    for one in spot.items:
        criteria += one.above()
        if isinstance(one.value, str) and one.value.strip():
            criteria.append(assertions.words.fill(one.value.strip(), asserted.case.variables))
        elif isinstance(one.value, dict):
            criteria.append(_criterion(asserted, assertions, one, differences))
        else:
            raise asserted.lost("one of its criteria has no words")
    if not any(not isinstance(one, Comment) for one in criteria):
        raise asserted.lost("it has no criteria")
    judge = assertions.judge(asserted)
    return {"rubric": {"criteria": criteria, **judge} if judge else criteria}, differences


_OF_CRITERIA = frozenset(
    {"id", "outcome", "criteria", "criterion", "description", "weight", "required", "min_score", "score_ranges"}
    | {"required_min_score", "operator", "expected_outcome"}
)
_OPERATORS = {"contradiction": "Says nothing that contradicts this, and need not mention it: {}"}


def _criterion(asserted: Asserted, assertions: Assertions, spot: Spot, differences: list[str]) -> Check:
    keys = ("outcome", "criterion", "criteria", "expected_outcome", "description", "id")
    words = next((spot[key].value for key in keys if isinstance(spot[key].value, str) and spot[key].value.strip()), "")
    if not words:
        raise asserted.lost("one of its criteria has no words")
    text = assertions.words.fill(words.strip(), asserted.case.variables)
    operator = spot["operator"].value
    if operator in _OPERATORS:
        differences.append("the operator `contradiction` is written in words")
        text = _OPERATORS[operator].replace("{}", text)
    differences += [f"`{key}` of a criterion is left out" for key in spot.value if key not in _OF_CRITERIA]
    criterion: Check = {}
    if isinstance(spot["id"].value, str | int):
        criterion["id"] = literal(str(spot["id"].value))
    criterion["criterion"] = text
    weight = _number(spot["weight"].value)
    if weight is not None and weight > 0 and weight != 1:
        criterion["weight"] = whole(weight)
    return criterion | _bounds(asserted, assertions, spot)


def _bounds(asserted: Asserted, assertions: Assertions, spot: Spot) -> Check:
    """The bounds of a criterion, and the meaning of its scores."""
    bounds: Check = {}
    ranges = spot["score_ranges"]
    if spot["required"].value is True:
        bounds["required"] = True
    least, of_ten = _number(spot["min_score"].value), _number(spot["required_min_score"].value)
    if of_ten is not None:
        bounds["required"], least = True, of_ten / 10
    if ranges.value is None:
        return bounds
    if least is None and spot["required"].value is True:
        least = 1
    if least is not None and 0 <= least <= 1:
        bounds["min_score"] = least
    bounds["score_ranges"] = [
        {"score_range": span, "meaning": assertions.words.fill(meaning, asserted.case.variables)}
        for span, meaning in _ranges(asserted, ranges)
    ]
    return bounds


def _ranges(asserted: Asserted, spot: Spot) -> Iterator[tuple[list[int], str]]:
    """The ranges of scores: a list, or a mapping from the lowest score of each."""
    if isinstance(spot.value, dict):
        lowest = sorted(int(key) for key in spot.value if str(key).isdecimal() and len(str(key)) < 3)
        if len(lowest) != len(spot.value):
            raise asserted.lost("its `score_ranges` do not begin with numbers")
        texts = {int(key): value for key, value in spot.value.items()}
        for place, start in enumerate(lowest):
            end = lowest[place + 1] - 1 if place + 1 < len(lowest) else 10
            yield [start, end], str(texts[start])
        return
    for one in spot.items:
        span = one["score_range"].value
        keys = ("outcome", "expected_outcome", "description", "meaning")
        meaning = next((one[key].value for key in keys if isinstance(one[key].value, str)), None)
        if not isinstance(span, list) or meaning is None:
            raise asserted.lost("its `score_ranges` have no form here")
        yield span, meaning


def _goal(asserted: Asserted, assertions: Assertions) -> Differences:
    value = asserted.spot["value"].value
    goal = value.get("goal") if isinstance(value, dict) else value
    if not isinstance(goal, str) or not goal.strip():
        raise asserted.lost("it has no goal")
    words = f"Reaches this goal: {assertions.words.fill(goal.strip(), asserted.case.variables)}"
    return _criteria(words, assertions.judge(asserted)), ["the judge sees the reply, and not the trace"]


# Tools


def _trajectory(asserted: Asserted, assertions: Assertions) -> Differences:
    spot = asserted.spot
    mode = spot["mode"].value
    if mode == "any_order" and isinstance(spot["minimums"].value, dict):
        return _minimums(asserted), []
    if mode not in ("in_order", "exact", "superset", "subset") or not isinstance(spot["expected"].value, list):
        raise asserted.lost("it has no mode with a form here")
    differences: list[str] = []
    whole_check = spot["args_match"] if "args_match" in spot else spot["argsMatch"]
    calls = [_call(asserted, assertions, one, whole_check.value, differences) for one in spot["expected"].items]
    if mode == "subset":
        return {"tool_calls": {"subset": calls} if calls else {"max": 0}}, _once(differences)
    if not calls:
        raise asserted.lost("it expects no calls, and always passes")
    if mode == "in_order":
        return {"tool_calls": calls}, _once(differences)
    return {"tool_calls": {"mode": "exact" if mode == "exact" else "any_order", "calls": calls}}, _once(differences)


def _once(texts: list[str]) -> list[str]:
    return list(dict.fromkeys(texts))


def _minimums(asserted: Asserted) -> Check:
    wanted = {name: times for name, times in asserted.spot["minimums"].value.items() if _number(times) is not None}
    calls = [
        literal(str(name)) if times == 1 else {"name": literal(str(name)), "times": int(times)}
        for name, times in wanted.items()
        if times >= 1
    ]
    if not calls:
        raise asserted.lost("it needs no call, and always passes")
    if len(calls) == 1 or all(isinstance(one, str) for one in calls):
        return {"tool_calls": {"mode": "any_order", "calls": calls}}
    return {"group": {"checks": [{"tool_calls": [one]} for one in calls]}}


def _call(asserted: Asserted, assertions: Assertions, spot: Spot, shared: Any, differences: list[str]) -> Any:
    name = spot["tool"].value
    if not isinstance(name, str) or not name:
        raise asserted.lost("one of its calls has no tool")
    if any(key in spot for key in ("max_duration_ms", "maxDurationMs")):
        differences.append("the time of a single call is not checked")
    written = literal(name)
    given = spot["args"]
    own = spot["args_match"].value if "args_match" in spot else spot["argsMatch"].value
    match = shared if own is None else own
    if not isinstance(given.value, dict) or match == "ignore":
        return written
    arguments = assertions.words.tree(given.value, asserted.case.variables)
    if isinstance(match, list):
        arguments = {key: arguments[key] for key in match if key in arguments}
        if any(key not in given.value for key in match):
            differences.append("only whole arguments are compared")
    elif match == "subset":
        differences.append("all the arguments are needed, and others are allowed")
    elif match != "superset":
        differences.append("other arguments are allowed beside those that are expected")
    return {"name": written, "arguments": arguments} if arguments else written


def _named(asserted: Asserted, value: Any) -> str:
    name = (value.get("name") or value.get("pattern")) if isinstance(value, dict) else value
    if not isinstance(name, str) or not name or any(sign in name for sign in "*?"):
        raise asserted.lost("a pattern for names of tools has no form here")
    if isinstance(value, dict) and value.get("type") not in (None, "tool"):
        raise asserted.lost("steps other than tool calls are not checked")
    return literal(name)


def _tools_used(asserted: Asserted, _: Assertions) -> Differences:
    value = asserted.spot["value"].value
    if not isinstance(value, dict):
        names = [_named(asserted, one) for one in (value if isinstance(value, list) else [value])]
        return {"tool_calls": names if len(names) == 1 else {"mode": "any_order", "calls": names}}, []
    name, least, most = _named(asserted, value), value.get("min", 1), value.get("max")
    if not isinstance(least, int) or isinstance(most, bool) or not isinstance(most, int | None):
        raise asserted.lost("its bounds are not numbers")
    checks: list[Any] = []
    if least > 0:
        checks.append({"tool_calls": [name if least == 1 else {"name": name, "times": least}]})
    if most is not None:
        checks.append({"not": {"tool_calls": [{"name": name, "times": most + 1}]}})
    if not checks:
        raise asserted.lost("it always passes")
    return (checks[0] if len(checks) == 1 else {"and": checks}), []


def _arguments(asserted: Asserted, assertions: Assertions) -> Differences:
    spot = asserted.spot["value"]
    arguments = spot["args"].value if "args" in spot else spot["arguments"].value
    if not isinstance(arguments, dict) or {"defaults", "ignore"} & set(spot.value):
        raise asserted.lost("only arguments as a mapping, without `defaults` and `ignore`, have a form here")
    filled = assertions.words.tree(arguments, asserted.case.variables)
    differences = ["other arguments are allowed beside those that are expected"] * (spot["mode"].value == "exact")
    return {"tool_calls": [{"name": _named(asserted, spot.value), "arguments": filled}]}, differences


def _sequence(asserted: Asserted, _: Assertions) -> Differences:
    value = asserted.spot["value"].value
    steps = value.get("steps") if isinstance(value, dict) else value
    calls = [_named(asserted, one) for one in steps] if isinstance(steps, list) else []
    if not calls:
        raise asserted.lost("it has no steps")
    is_exact = isinstance(value, dict) and value.get("mode") == "exact"
    return {"tool_calls": {"mode": "exact", "calls": calls} if is_exact else calls}, []


def _steps(asserted: Asserted, _: Assertions) -> Differences:
    value = asserted.spot["value"].value
    limits = (
        {key: value[key] for key in ("min", "max") if isinstance(value.get(key), int)}
        if isinstance(value, dict)
        else {}
    )
    if not limits or value.get("type") != "tool" or {"name", "pattern"} & set(value):
        raise asserted.lost("only the number of all tool calls has a form here")
    return {"tool_calls": limits}, []


def _skill(asserted: Asserted, _: Assertions) -> Differences:
    spot = asserted.spot
    value = spot["skill"].value if "skill" in spot else spot["value"].value
    names = value if isinstance(value, list) else [value]
    if not names or not all(isinstance(one, str) and one.strip() and "*" not in one for one in names):
        raise asserted.lost("only names of skills have a form here")
    written = [literal(one.strip()) for one in names]
    check = {"skill_used": written[0] if len(written) == 1 else written}
    return ({"not": check} if spot["should_trigger"].value is False else check), []


# Measures


def _limits(checks: Mapping[str, Callable[[float], Check]], lost: Mapping[str, str]) -> Callable[..., Differences]:
    """A check for each bound. If there are several, the score is the share that holds."""

    def check(asserted: Asserted, _: Assertions) -> Differences:
        found: list[Any] = []
        differences: list[str] = []
        for key, spot in asserted.spot.pairs:
            number = _number(spot.value)
            if key in lost:
                differences.append(f"`{key}` is left out: {lost[key]}")
            elif key in checks and number is not None and number >= 0:
                found.append(checks[key](number))
        if not found:
            raise asserted.lost("; ".join(differences) or "it has no bound")
        return (found[0] if len(found) == 1 else {"group": {"checks": found}}), differences

    return check


_METRICS: dict[str, Callable[[float], Check]] = {
    "max_tool_calls": lambda number: {"tool_calls": {"max": int(number)}},
    "max_tokens": lambda number: {"effort": {"max_tokens": int(number)}},
    "max_cost_usd": lambda number: {"cost": number},
    "max_duration_ms": lambda number: {"latency": whole(number / 1000)},
}
_NO_METRICS = {
    "max_llm_calls": "requests of an agent are not counted",
    "target_exploration_ratio": "calls are not divided into reading and writing",
    "exploration_tolerance": "calls are not divided into reading and writing",
}
_TOKENS: dict[str, Callable[[float], Check]] = {
    "max_total": lambda number: {"effort": {"max_tokens": int(number)}},
    "max_output": lambda number: {"max_tokens": int(number)},
}


def _field_accuracy(asserted: Asserted, _: Assertions) -> Differences:
    expected = asserted.case.expected
    if isinstance(expected, str):
        try:
            expected = json.loads(expected)
        except (ValueError, RecursionError):
            expected = None
    if not isinstance(expected, dict | list):
        raise asserted.lost("the case has no expected output with these fields")
    differences: list[str] = []
    fields = dict(
        field
        for one in asserted.spot["fields"].items
        if (field := _field(asserted, one, expected, differences)) is not None
    )
    if not fields:
        raise asserted.lost("none of its fields is in the expected output")
    check: Check = {"fields": fields}
    if asserted.spot["aggregation"].value == "all_or_nothing":
        differences.append("the score is the share of right fields, and not 0 if one is wrong")
    return {"field_accuracy": check}, _once(differences)


def _field(asserted: Asserted, spot: Spot, expected: Any, differences: list[str]) -> tuple[str, Check] | None:
    path, match = spot["path"].value, spot["match"].value
    if not isinstance(path, str) or not path:
        raise asserted.lost("one of its fields has no path")
    kind = {"exact": None, "numeric_tolerance": "number", "date": "date"}.get(str(match), "")
    if kind == "":
        raise asserted.lost(f"fields are not compared by {str(match)[:40]}")
    value = _at(expected, path)
    if value is None:
        return None  # AgentV compares nothing
    if spot["required"].value is False:
        differences.append("a field that may be missing counts as wrong if it is")
    field: Check = {"expected": literal_tree(value)}
    if kind is not None:
        field["kind"] = kind
    tolerance = _number(spot["tolerance"].value)
    if kind == "number" and tolerance:
        is_relative = spot["relative"].value is True and isinstance(value, int | float)
        field["tolerance"] = whole(tolerance * abs(value) if is_relative else tolerance)
    weight = _number(spot["weight"].value)
    if weight is not None and weight > 0 and weight != 1:
        field["weight"] = whole(weight)
    return path, field


def _at(value: Any, path: str) -> Any:
    for step in path.replace("[", ".").replace("]", "").split("."):
        if isinstance(value, list) and step.isdecimal() and len(step) < 6:
            value = value[int(step)] if int(step) < len(value) else None
        elif step:
            value = value.get(step) if isinstance(value, dict) else None
    return value


# Groups and programs


def _group(asserted: Asserted, assertions: Assertions) -> Differences:
    spot = asserted.spot
    members = next((spot[key] for key in ("assertions", "assert", "evaluators") if key in spot), None)
    inner = list(members.items) if members is not None else []
    checks = assertions.convert(inner, asserted.case)
    if not any(not isinstance(one, Comment) for one in checks):
        raise asserted.lost("none of its assertions has a form here")
    aggregator = spot["aggregator"]
    weights = aggregator["weights"].value
    if isinstance(weights, dict):
        for one in checks:
            check = one.value if isinstance(one, Commented) else one
            weight = _number(weights.get(check.get("name"))) if isinstance(check, dict) else None
            if weight is not None:
                check["weight"] = whole(weight)
    kind = str(aggregator["type"].value).replace("_", "-")
    differences = [_AGGREGATORS[kind]] if kind in _AGGREGATORS else []
    threshold = next(
        (one for key in (spot, aggregator) if (one := _number(key["threshold"].value)) is not None), PASSES
    )
    return {"group": {"checks": checks}, "threshold": threshold}, differences


_AGGREGATORS = {
    "code-grader": "the mean of its assertions decides, and not a program",
    "llm-grader": "the mean of its assertions decides, and not a judge",
    "threshold": "the mean of the scores decides, and not the share that passes",
}


def _program(asserted: Asserted, assertions: Assertions) -> Differences:
    differences = []
    spot = asserted.spot
    if spot["target"].value or spot["provider"].value:
        differences.append("the program cannot ask a model")
    if spot["preprocessors"].value:
        differences.append("files are not converted for it")
    command = spot["command"] if "command" in spot else spot["script"] if "script" in spot else spot["value"]
    known = {*_OPTIONS, "command", "script", "cwd", "target", "provider", "config", "preprocessors", "timeout_seconds"}
    config = {key: one.value for key, one in spot.pairs if key not in known}
    if isinstance(spot["config"].value, dict):
        config |= spot["config"].value
    return assertions.graders.program(asserted.kind, command, spot["cwd"], config), differences


def _custom(asserted: Asserted, assertions: Assertions) -> Differences:
    """A type that a file of the project defines."""
    config = {key: one.value for key, one in asserted.spot.pairs if key not in _OPTIONS}
    check = assertions.graders.custom(asserted.kind, asserted.spot, config)
    if check is None:
        raise asserted.lost(_NO_FORM)
    return check, []


def _code(asserted: Asserted, assertions: Assertions) -> Differences:
    value = asserted.spot["value"].value
    if not isinstance(value, str) or not value.strip():
        raise asserted.lost("it has no code")
    extra = {key: one for key in ("threshold", "config") if (one := asserted.spot[key].value) is not None}
    return assertions.graders.code(asserted.kind, asserted.spot["value"], extra), [
        "its `context` has fewer keys: `vars`, `prompt`, `test`, `config` and `metadata`"
    ]


_PLAIN = ("contains", "icontains", "starts-with", "ends-with", "equals")
_LISTS = ("contains-any", "contains-all", "icontains-any", "icontains-all")
_OF_JUDGES = frozenset({"prompt", "value", "criteria", "rubrics", "target", "provider"})
_JUDGE = Kind(_judged, keys=_OF_JUDGES, scored=True, judges=True)
_RUBRIC = Kind(_rubrics, keys=_OF_JUDGES, scored=True, judges=True)
_PROGRAM = Kind(_program, keys=None, scored=True)
_FIELDS = Kind(_field_accuracy, keys=frozenset({"fields", "aggregation"}))
_GROUP = Kind(_group, keys=frozenset({"assertions", "assert", "evaluators", "aggregator", "threshold"}))
_CODE = Kind(_code, keys=frozenset({"value", "config", "threshold"}), scored=True)

KINDS: dict[str, Kind] = {
    **{name: Kind(_same_word(name.replace("-", "_"))) for name in _PLAIN},
    **{name: Kind(_words_of(name.replace("-", "_"))) for name in _LISTS},
    "regex": Kind(_regex, keys=frozenset({"value", "flags"})),
    "is-json": Kind(_json, keys=frozenset({"value"})),
    **dict.fromkeys(("llm-grader", "llm-judge", "llm-rubric", "agent-rubric"), _JUDGE),
    **dict.fromkeys(("rubrics", "rubric"), _RUBRIC),
    **dict.fromkeys(("code-grader", "code-judge", "script"), _PROGRAM),
    **dict.fromkeys(("composite", "assert-set"), _GROUP),
    **dict.fromkeys(("javascript", "python"), _CODE),
    "tool-trajectory": Kind(
        _trajectory, keys=frozenset({"mode", "minimums", "expected", "args_match", "argsMatch"}), scored=True
    ),
    "trajectory:tool-used": Kind(_tools_used),
    "trajectory:tool-args-match": Kind(_arguments),
    "trajectory:tool-sequence": Kind(_sequence),
    "trajectory:step-count": Kind(_steps),
    "trajectory:goal-success": Kind(_goal, keys=_OF_JUDGES, scored=True, judges=True),
    "skill-used": Kind(_skill),
    "skill-trigger": Kind(_skill, keys=frozenset({"skill", "should_trigger"})),
    "latency": Kind(_limits({"threshold": _METRICS["max_duration_ms"]}, {}), keys=frozenset({"threshold"})),
    "cost": Kind(
        _limits({"budget": _METRICS["max_cost_usd"], "threshold": _METRICS["max_cost_usd"]}, {}),
        keys=frozenset({"budget", "threshold"}),
    ),
    "token-usage": Kind(
        _limits(_TOKENS, {"max_input": "only all tokens, and the tokens of the reply, are counted"}), keys=None
    ),
    "execution-metrics": Kind(_limits(_METRICS, _NO_METRICS), keys=None),
    "field-accuracy": _FIELDS,
    "min-words": Kind(_words_counted("min_words"), keys=frozenset({"value", "min", "threshold"})),
    "max-words": Kind(_words_counted("max_words"), keys=frozenset({"value", "max", "threshold"})),
}
"""Types of assertions. Others are looked for in the project's own files."""
