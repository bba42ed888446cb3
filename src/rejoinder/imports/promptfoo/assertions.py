"""Assertions of promptfoo as checks: a table of kinds, each with the function that makes its check."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import Any

from msgspec import Struct, structs

from rejoinder.imports.promptfoo.shims import SCRIPTS, Shims
from rejoinder.imports.promptfoo.words import Lost, Words, whole
from rejoinder.imports.sources import Spot
from rejoinder.imports.texts import literal, literal_tree
from rejoinder.imports.verified import refusal_of
from rejoinder.imports.workbench import Workbench
from rejoinder.yaml_text import Comment, Commented

Check = dict[Any, Any]

_NO_FORM = "rejoinder has no such check"
_OPTIONS = frozenset({"type", "value", "threshold", "weight", "metric", "provider", "rubricPrompt", "config", "assert"})
_IGNORED = frozenset({"reason", "description", "id", "label"})
"""Keys that promptfoo itself does not use."""
_DEFAULT_SIMILARITY = 0.75
_DEFAULT_DISTANCE = 5
_LONGEST_REASON = 150


class Asserted(Struct, frozen=True):
    """An assertion that is being converted."""

    spot: Spot
    kind: str
    value: Any
    """With its variables in our form."""
    threshold: float | None
    target: str | None
    """The target that judges, or computes embeddings."""
    rubric: str | None = None
    """The judge's own prompt."""


class Assertions:
    """The assertions of one configuration."""

    def __init__(
        self, bench: Workbench, words: Words, shims: Shims, grader: Callable[[Spot, bool], str | None]
    ) -> None:
        """`grader`: the target of a provider that judges, or, if True, that computes embeddings."""
        self._bench = bench
        self._words = words
        self._shims = shims
        self._grader = grader
        self.embeds = False
        """Whether a check compares meanings."""
        self.judges = False
        """Whether a check asks a model."""

    def convert(self, spot: Spot, variables: Mapping[str, Any] | None, rubric: str | None = None) -> list[Any]:
        """The checks of one assertion, with comments. `variables`: of its case; None if all cases share it."""
        above, beside = spot.above(), spot.beside()
        try:
            check, notes = self._check(spot, variables, rubric)
        except Lost as lost:
            return [*above, *spot.within(), self._bench.ledger.leave_out(spot, lost.what, lost.how)]
        notes += [Comment(note) for note in self._words.take_notes()]
        return [*above, *spot.within(), *notes, Commented(check, beside) if beside else check]

    def _check(
        self, spot: Spot, variables: Mapping[str, Any] | None, rubric: str | None
    ) -> tuple[Check, list[Comment]]:
        spot = _dereferenced(spot)
        kind = spot["type"].value
        if not isinstance(kind, str):
            raise Lost("an assertion without a type", "every assertion needs one")
        negated = kind.startswith("not-")
        kind = kind.removeprefix("not-")
        if kind == "assert-set":
            return self._group(spot, variables, rubric)
        row = KINDS.get(kind)
        if row is None:
            raise Lost(kind, WITHOUT_FORM.get(kind, _NO_FORM))
        for key in sorted(set(spot.value) - _OPTIONS - _IGNORED):
            raise Lost(kind, f"its option `{key}` has no form here")
        asserted = self._asserted(spot, kind, variables, rubric)
        check = row.check(asserted, self)
        threshold = asserted.threshold if row.scored else None
        check = self._with_options(spot, {"not": check} if negated else check, threshold, variables)
        if row.may_be_refused and (refusal := refusal_of(check)) is not None:
            raise Lost(kind, f"a suite refuses it: {refusal[:_LONGEST_REASON]}")
        self.judges |= row.judges
        if row.differs is not None:
            return check, [self._bench.ledger.approximate(spot, kind, row.differs)]
        self._bench.ledger.map(spot)
        return check, []

    def _asserted(self, spot: Spot, kind: str, variables: Mapping[str, Any] | None, rubric: str | None) -> Asserted:
        value = spot["value"].value
        own = spot["rubricPrompt"].value
        if own is not None and not isinstance(own, str):
            raise Lost(kind, "a `rubricPrompt` of several messages has no form here")
        provider = spot["provider"]
        return Asserted(
            spot=spot,
            kind=kind,
            value=value if kind in SCRIPTS and _is_file(value) else self.filled(spot["value"], variables),
            threshold=self._number(spot["threshold"], kind, variables),
            target=None if provider.value is None else self._grader(provider, kind.startswith("similar")),
            rubric=rubric if own is None else own,
        )

    def filled(self, spot: Spot, variables: Mapping[str, Any] | None) -> Any:
        """The value of an assertion: files read, and variables in our form."""
        value = spot.value
        if isinstance(value, str) and value.startswith("file://"):
            return _text_or_data(spot, value)
        if isinstance(value, list):
            return [self.filled(one, variables) for one in spot.items]
        if isinstance(value, dict):
            return _as_in_javascript(value)  # promptfoo fills in texts and lists only
        return self._words.fill(value, variables) if isinstance(value, str) else whole(value)

    def _number(self, spot: Spot, kind: str, variables: Mapping[str, Any] | None) -> float | None:
        value = spot.value
        if isinstance(value, str):
            try:
                value = float(self._words.fill(value, variables))
            except ValueError:
                raise Lost(kind, "its threshold is not a number") from None
        if value is not None and (isinstance(value, bool) or not isinstance(value, int | float)):
            raise Lost(kind, "its threshold is not a number")
        return whole(value)

    def _with_options(
        self, spot: Spot, check: Check, threshold: float | None, variables: Mapping[str, Any] | None
    ) -> Check:
        options: Check = {}
        weight = spot["weight"].value
        if weight == 0 and not isinstance(weight, bool):  # it is measured and decides nothing
            check, threshold, weight = {"group": {"checks": [check]}}, 0, None
        if threshold is not None:
            if not 0 <= threshold <= 1:
                raise Lost(str(spot["type"].value), f"its threshold {threshold} is not between 0 and 1")
            options["threshold"] = threshold
        if isinstance(weight, int | float) and not isinstance(weight, bool):
            options["weight"] = whole(weight)
        name = spot["description"].value
        if isinstance(name, str) and name.strip():
            options["name"] = " ".join(name.split())[:_LONGEST_REASON]
        if isinstance(spot["metric"].value, str):
            options["metric"] = self._words.fill(spot["metric"].value, variables)
        return {**check, **options}

    def _group(
        self, spot: Spot, variables: Mapping[str, Any] | None, rubric: str | None
    ) -> tuple[Check, list[Comment]]:
        checks = [one for inner in spot["assert"].items for one in self.convert(inner, variables, rubric)]
        if all(isinstance(one, Comment) for one in checks):
            raise Lost("assert-set", "none of its assertions has a form here")
        threshold = self._number(spot["threshold"], "assert-set", variables)
        self._bench.ledger.map(spot)
        check: Check = {"and": checks} if threshold is None else {"group": {"checks": checks}}
        return self._with_options(spot, check, threshold, variables), []

    def script(self, asserted: Asserted) -> Check:
        """A check that runs the code of the configuration."""
        extra = {"threshold": asserted.threshold, "config": asserted.spot["config"].value}
        extra = {key: value for key, value in extra.items() if value is not None}
        if not isinstance(asserted.value, str) or not asserted.value.strip():
            raise Lost(asserted.kind, "it has no code")
        return self._shims.check(asserted.spot["value"], asserted.kind, asserted.value, extra)


def _dereferenced(spot: Spot) -> Spot:
    """The assertion itself, where it only names one of the file: `$ref: '#/assertionTemplates/polite'`."""
    reference = spot["$ref"].value
    if not isinstance(spot.value, dict):
        raise Lost("an assertion", "it is not a mapping")
    if reference is None:
        return spot
    if not isinstance(reference, str) or not reference.startswith("#/"):
        raise Lost("$ref", "only places of the same file are read")
    target = spot.file.spot
    for step in reference[2:].split("/"):
        target = target[int(step) if step.isdecimal() and isinstance(target.value, list) else step]
    if not isinstance(target.value, dict) or "$ref" in target:
        raise Lost("$ref", f"there is no assertion at `{reference}`")
    return target


def _is_file(value: Any) -> bool:
    return isinstance(value, str) and value.startswith("file://")


def _text_or_data(spot: Spot, written: str) -> Any:
    """The content of a file: data of JSON and YAML, a text otherwise."""
    name = written.removeprefix("file://")
    path = spot.locate(name)
    if re.search(r"\.(?:[cm]?[jt]s|py|rb)(?::\w+)?$", name):
        raise Lost(str(spot.value), "the value is made by code, which an import does not run")
    if not path.is_file():
        raise Lost(str(spot.value), "there is no such file")
    if path.suffix.lower() in (".json", ".yaml", ".yml"):
        return _as_in_javascript(spot.file.folder.read(path).spot.value)
    return literal(spot.text_of(path).strip())


def _as_in_javascript(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _as_in_javascript(one) for key, one in value.items()}
    if isinstance(value, list):
        return [_as_in_javascript(one) for one in value]
    return whole(value)


# What each kind becomes


def _text(asserted: Asserted) -> str:
    value = asserted.value
    if isinstance(value, bool) or not isinstance(value, str | int | float) or value == "":
        raise Lost(asserted.kind, "it has no text to look for")
    return str(value)


def _same_word(name: str) -> Callable[[Asserted, Assertions], Check]:
    return lambda asserted, _: {name: _text(asserted)}


def _words_of(name: str) -> Callable[[Asserted, Assertions], Check]:
    def check(asserted: Asserted, _: Assertions) -> Check:
        value = asserted.value
        items = value if isinstance(value, list) else split_at_commas(_text(asserted))
        if not items or not all(isinstance(one, str | int | float) and str(one) for one in items):
            raise Lost(asserted.kind, "it has no texts to look for")
        return {name: [str(one) for one in items]}

    return check


def split_at_commas(text: str) -> list[str]:
    """The fields of a text; commas in double quotes do not divide."""
    fields: list[str] = []
    for found in re.finditer(r'\s*(?:"((?:[^"\\]|\\.|"")*)"\s*(?=,|$)|([^,]+))', text):
        quoted, plain = found.groups()
        field = re.sub(r'\\(["\\])|""', lambda one: one[1] or '"', quoted) if quoted is not None else plain.strip()
        if field:
            fields.append(field)
    return fields


def _regex(asserted: Asserted, _: Assertions) -> Check:
    """JavaScript's named groups are written differently."""
    pattern = re.sub(r"\(\?<([A-Za-z_]\w*)>", r"(?P<\1>", _text(asserted))
    pattern = re.sub(r"\\k<(\w+)>", r"(?P=\1)", pattern)
    return {"regex": pattern}


def _equals(asserted: Asserted, _: Assertions) -> Check:
    value = asserted.value
    if isinstance(value, dict | list):
        return {"json_path": {"path": "$", "equals": literal_tree(value)}}
    if value is None:
        raise Lost(asserted.kind, "it has no value")
    return {"equals": value if isinstance(value, str) else json.dumps(value)}


def _schema(asserted: Asserted) -> dict[str, Any] | None:
    value = asserted.value
    if isinstance(value, str) and value.strip():
        from rejoinder.suite.yaml import YamlFault, parse_yaml

        try:
            value = parse_yaml(value).data
        except YamlFault:
            raise Lost(asserted.kind, "its schema cannot be read") from None
    if value in (None, "") or value == {}:
        return None
    if not isinstance(value, dict):
        raise Lost(asserted.kind, "its schema is not a mapping")
    return value


def _json(asserted: Asserted, _: Assertions) -> Check:
    schema = _schema(asserted)
    whole_reply = {"is_json": True}
    return whole_reply if schema is None else {"and": [whole_reply, {"json_schema": schema}]}


def _some_json(asserted: Asserted, _: Assertions) -> Check:
    schema = _schema(asserted)
    return {"contains_json": True} if schema is None else {"json_schema": schema}


def _similar(asserted: Asserted, assertions: Assertions) -> Check:
    value = asserted.value
    expected = value if isinstance(value, list) else _text(asserted)
    if not expected or (isinstance(expected, list) and not all(isinstance(one, str) and one for one in expected)):
        raise Lost(asserted.kind, "it has no text to compare with")
    threshold = _DEFAULT_SIMILARITY if asserted.threshold is None else asserted.threshold
    if not 0 <= threshold <= 1:
        raise Lost(asserted.kind, f"its threshold {threshold} is not between 0 and 1")
    assertions.embeds |= asserted.target is None
    return {"semantic": {"expected": expected, "threshold": threshold, **_target(asserted)}}


def _target(asserted: Asserted) -> Check:
    return {} if asserted.target is None else {"target": asserted.target}


def _judged(words: str = "{}") -> Callable[[Asserted, Assertions], Check]:
    """A question for a judge. `words`: what to make of the value."""

    def check(asserted: Asserted, _: Assertions) -> Check:
        value = asserted.value
        if isinstance(value, list) and value and all(isinstance(one, str) and one.strip() for one in value):
            value = "\n".join(value)
        elif isinstance(value, dict):
            value = (
                value["goal"] if isinstance(value.get("goal"), str) else literal(json.dumps(value, ensure_ascii=False))
            )
        if "{}" in words and (not isinstance(value, str) or not value.strip()):
            raise Lost(asserted.kind, "it has no criteria")
        criteria = words.replace("{}", str(value))
        if asserted.rubric is not None:
            return {"llm_judge": {"prompt": _judge_prompt(asserted, str(value)), **_target(asserted)}}
        return {"llm_judge": {"criteria": criteria, **_target(asserted)} if asserted.target else criteria}

    return check


_OF_JUDGES = {"output": "candidate_answer", "rubric": "", "criteria": "", "input": "question", "prompt": "question"}


def _judge_prompt(asserted: Asserted, criteria: str) -> str:
    """The judge's own prompt, with our names of its variables."""
    text = str(asserted.rubric)
    if text.startswith("file://") or text.lstrip().startswith(("[", "- role", "{")) or "{%" in text:
        raise Lost(asserted.kind, "a `rubricPrompt` of several messages, in a file or with logic has no form here")

    def named(found: re.Match[str]) -> str:
        name = _OF_JUDGES.get(found[1])
        return found[0] if name is None else f"{{{{ {name} }}}}" if name else criteria

    written = re.sub(r"\{\{\s*(\w+)\s*\}\}", named, text)
    if "{{ candidate_answer }}" not in written:
        raise Lost(asserted.kind, "its `rubricPrompt` does not show the reply as `{{ output }}`")
    return written


def _limit(name: str, unit: float) -> Callable[[Asserted, Assertions], Check]:
    def check(asserted: Asserted, _: Assertions) -> Check:
        if asserted.threshold is None or asserted.threshold < 0:
            raise Lost(asserted.kind, "it has no threshold")
        return {name: whole(asserted.threshold / unit)}

    return check


def _distance(asserted: Asserted, _: Assertions) -> Check:
    most = _DEFAULT_DISTANCE if asserted.threshold is None else asserted.threshold
    return {"levenshtein": {"expected": _text(asserted), "max": int(most)}}


def _rouge(asserted: Asserted, _: Assertions) -> Check:
    threshold = _DEFAULT_SIMILARITY if asserted.threshold is None else asserted.threshold
    return {"rouge_l": {"expected": _text(asserted), "threshold": threshold}}


def _finish(asserted: Asserted, _: Assertions) -> Check:
    return {"finish_reason": _text(asserted).lower()}


def _count(asserted: Asserted, _: Assertions) -> Check:
    value = asserted.value
    least, most = (value.get("min"), value.get("max")) if isinstance(value, dict) else (value, value)
    try:
        limits = [{name: int(n)} for name, n in (("min_words", least), ("max_words", most)) if n is not None]
    except (TypeError, ValueError):
        limits = []
    if not limits:
        raise Lost(asserted.kind, "it has no number of words")
    return limits[0] if len(limits) == 1 else {"and": limits}


def _length(least: bool) -> Callable[[Asserted, Assertions], Check]:
    def check(asserted: Asserted, _: Assertions) -> Check:
        value = asserted.threshold if asserted.value is None else asserted.value
        if not str(value).isdecimal():
            raise Lost(asserted.kind, "it has no number of characters")
        return {"regex": f"(?s)^.{{{value},}}$" if least else f"(?s)^.{{0,{value}}}$"}

    return check


def _fixed(check: Check) -> Callable[[Asserted, Assertions], Check]:
    return lambda _asserted, _assertions: check


def _xml(asserted: Asserted, _: Assertions) -> Check:
    value = asserted.value
    if isinstance(value, dict):
        value = value.get("requiredElements", "" if value else None)
    if isinstance(value, str):
        value = [one.strip() for one in value.split(",")]
    paths = [str(one).replace(".", "/") for one in value] if isinstance(value, list) else []
    if value is not None and (not isinstance(value, list) or not all(map(_ELEMENTS.fullmatch, paths))):
        raise Lost(asserted.kind, "only paths of elements have a form here, and no attributes or positions")
    options: Check = {"elements": paths} if paths else {}
    if asserted.kind == "contains-xml":
        options["anywhere"] = True
    return {"is_xml": options or True}


_ELEMENTS = re.compile(r"[^\W\d][\w-]*(?:/[^\W\d][\w-]*)*")


def _skill(asserted: Asserted, _: Assertions) -> Check:
    """One skill, all of several, or none of several if it is negated."""
    value = asserted.value
    if isinstance(value, dict):
        least, most, name = value.get("min"), value.get("max"), value.get("name")
        if value.get("pattern") or not isinstance(name, str) or not name.strip():
            raise Lost(asserted.kind, "a pattern for names of skills has no form here")
        if most == 0 and least in (None, 0):
            return {"not": {"skill_used": name.strip()}}
        if most is not None or least not in (None, 1):
            raise Lost(asserted.kind, "how often a skill is used has no form here")
        value = name
    names = [one.strip() if isinstance(one, str) else "" for one in (value if isinstance(value, list) else [value])]
    if not names or not all(names):
        raise Lost(asserted.kind, "it names no skill")
    if len(names) > 1 and str(asserted.spot["type"].value).startswith("not-"):
        return {"or": [{"skill_used": name} for name in names]}
    return {"skill_used": names[0] if len(names) == 1 else names}


def _tools(asserted: Asserted, _: Assertions) -> Check:
    value = asserted.value
    if isinstance(value, dict):
        least, most = value.get("min", 1), value.get("max")
        if (most is not None and most != least) or not isinstance(least, int) or least < 1:
            raise Lost(asserted.kind, "a range of calls of one tool has no form here")
        names = [value.get("name")] * least
    else:
        names = value if isinstance(value, list) else [value]
    return {"tool_calls": _any_order([_tool_name(name, asserted) for name in names])}


def _any_order(calls: list[Any]) -> Any:
    return calls if len(calls) == 1 else {"mode": "any_order", "calls": calls}


def _tool_name(value: Any, asserted: Asserted) -> str:
    name = value.get("name") if isinstance(value, dict) else value
    if not isinstance(name, str) or not name or (isinstance(value, dict) and set(value) - {"name", "type"}):
        raise Lost(asserted.kind, "a pattern for names of tools has no form here")
    if "*" in name:
        raise Lost(asserted.kind, "a pattern for names of tools has no form here")
    return name


def _arguments(asserted: Asserted, _: Assertions) -> Check:
    value = asserted.value if isinstance(asserted.value, dict) else {}
    arguments = value.get("args", value.get("arguments"))
    if not isinstance(arguments, dict) or {"defaults", "ignore"} & set(value):
        raise Lost(asserted.kind, "only arguments as a mapping have a form here")
    return {"tool_calls": [{"name": _tool_name({"name": value.get("name")}, asserted), "arguments": arguments}]}


def _sequence(asserted: Asserted, _: Assertions) -> Check:
    value = asserted.value if isinstance(asserted.value, dict) else {"steps": asserted.value}
    steps = value.get("steps")
    calls = [_tool_name(one, asserted) for one in steps] if isinstance(steps, list) else []
    if not calls:
        raise Lost(asserted.kind, "it has no steps")
    return {"tool_calls": {"mode": "exact", "calls": calls} if value.get("mode") == "exact" else calls}


def _steps(asserted: Asserted, _: Assertions) -> Check:
    value = asserted.value if isinstance(asserted.value, dict) else {}
    limits = {key: value[key] for key in ("min", "max") if isinstance(value.get(key), int)}
    if value.get("type") != "tool" or not limits or {"name", "pattern"} & set(value):
        raise Lost(asserted.kind, "only the number of all tool calls has a form here")
    return {"tool_calls": limits}


class Kind(Struct, frozen=True):
    check: Callable[[Asserted, Assertions], Check]
    differs: str | None = None
    """The difference; None if it means the same."""
    judges: bool = False
    scored: bool = False
    """Whether its threshold is ours."""
    may_be_refused: bool = True
    """Whether some values have a form that a suite refuses."""


def _other_judge(words: str, differs: str = "a judge with other words decides") -> Kind:
    return Kind(_judged(words), differs, judges=True, scored=True)


def _relevant(asserted: Asserted, assertions: Assertions) -> Check:
    if asserted.rubric is not None:
        return _judged("Answers what was asked.")(asserted, assertions)
    return {"relevant": _target(asserted) or True}


_SCRIPT = Kind(lambda asserted, assertions: assertions.script(asserted))
_VALID_CALL = Kind(_fixed({"tool_calls": {"min": 1, "schema": True}}))
_UNKNOWN_THERE = "promptfoo has no such assertion; this is what its name says"

KINDS: dict[str, Kind] = {
    **{
        name: Kind(_same_word(name.replace("-", "_")), may_be_refused=False)
        for name in ("contains", "icontains", "starts-with")
    },
    **{
        name: Kind(_words_of(name.replace("-", "_")))
        for name in ("contains-any", "contains-all", "icontains-any", "icontains-all")
    },
    "regex": Kind(_regex),
    "equals": Kind(_equals),
    "is-json": Kind(_json),
    "contains-json": Kind(_some_json),
    "similar": Kind(_similar),
    "similar:cosine": Kind(_similar),
    "llm-rubric": Kind(_judged(), judges=True, scored=True),
    "agent-rubric": _other_judge("{}", "the judge is a model without tools"),
    "model-graded-closedqa": _other_judge("{}"),
    "g-eval": _other_judge("{}"),
    "search-rubric": _other_judge("{}", "the judge does not search the web"),
    "factuality": _other_judge("States the same facts as this reference, and contradicts none of them: {}"),
    "model-graded-factuality": _other_judge(
        "States the same facts as this reference, and contradicts none of them: {}"
    ),
    "answer-relevance": Kind(_relevant, "a judge with other words decides", judges=True, scored=True),
    "conversation-relevance": _other_judge("Fits the conversation so far."),
    "trajectory:goal-success": _other_judge("Reaches this goal: {}"),
    "latency": Kind(_limit("latency", 1000)),
    "cost": Kind(_limit("cost", 1)),
    "levenshtein": Kind(_distance),
    "rouge-n": Kind(_rouge, "`rouge_l` compares the longest common sequence of words"),
    "finish-reason": Kind(_finish),
    "is-refusal": Kind(_fixed({"is_refusal": True}), "other words count as a refusal"),
    "word-count": Kind(_count),
    "javascript": _SCRIPT,
    "python": _SCRIPT,
    "trajectory:tool-used": Kind(_tools),
    "trajectory:tool-args-match": Kind(_arguments),
    "trajectory:tool-sequence": Kind(_sequence),
    "trajectory:step-count": Kind(_steps),
    "is-valid-openai-tools-call": _VALID_CALL,
    **dict.fromkeys(
        ("is-valid-function-call", "is-valid-openai-function-call"),
        structs.replace(_VALID_CALL, differs="calls of `tools` and of `functions` both count"),
    ),
    **dict.fromkeys(("is-xml", "contains-xml"), Kind(_xml)),
    "skill-used": Kind(_skill),
    "empty": Kind(_fixed({"equals": ""}), _UNKNOWN_THERE),
    "min-length": Kind(_length(least=True), _UNKNOWN_THERE),
    "max-length": Kind(_length(least=False), _UNKNOWN_THERE),
}
"""Kinds of assertions. A row that is missing is lost, with the words below or with `_NO_FORM`."""

WITHOUT_FORM = {
    **dict.fromkeys(("select-best", "max-score"), "replies of several prompts are compared by `rejoinder compare`"),
    **dict.fromkeys(
        ("trace-span-count", "trace-error-spans", "trace-span-duration"), "spans of a trace are not checked"
    ),
    "webhook": "the address gets another document here; write a `webhook` check",
    "ruby": "run it by a `code` check",
    "similar:dot": "only the cosine is compared",
    "similar:euclidean": "only the cosine is compared",
}
