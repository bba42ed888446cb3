"""Goldens of DeepEval, as `EvaluationDataset.save_as` writes them: JSON, JSONL or CSV, of one turn or of several.

A golden with an input is a case with one prompt. A conversational golden without turns is a simulated user; with turns
it is a plan, and its replies go into a recording beside the suite, so that they can be graded without a model.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from rejoinder.imports.sources import SourceFile, Spot
from rejoinder.imports.texts import Ids, literal, literal_tree, unpacked
from rejoinder.imports.workbench import Workbench, suite_name
from rejoinder.words.numbers import beginning
from rejoinder.yaml_text import Comment, Commented

_MODEL = "openai/gpt-5-mini"
_DELIMITER = "|"
"""Between texts in one cell."""
_LONGEST_NAME = 80
_LISTS = ("goldens", "conversational_goldens")
_SAME = "Gives the same answer as the reference, and nothing that contradicts it."
_ABOUT = (
    "Goldens have no metrics: a reply is judged by its golden's expected output. Put your own checks in its place.",
    "To test another target: rejoinder run FILE -m TARGET",
)
_BOTH = frozenset({"context", "name", "comments", "additional_metadata", "custom_column_key_values", "id"})
_SINGLE = _BOTH | {
    *("input", "actual_output", "expected_output", "retrieval_context", "source_file"),
    *("tools_called", "expected_tools"),
}
_SEVERAL = _BOTH | {"scenario", "turns", "expected_outcome", "user_description", "persona"}
_TURN = frozenset({"role", "content", "user_id", "tools_called", "latency_ms"})
_KEPT_TO = "a judge decides whether the reply keeps to it"
_NO_CONTEXT = "it is kept as metadata, and no check reads it"
_PICTURE = re.compile(r"\[DEEPEVAL:(?:IMAGE|PDF):[^\]]*\]")


def convert(source: SourceFile, bench: Workbench) -> None:
    """Make the suite of a file of goldens. Raises ImportFault."""
    reader = _Goldens(bench)
    evals = [one for spot in _rows(source) for one in reader.golden(_Row.of(spot))]
    if not reader.cases:
        raise source.spot.fault("there are no goldens in it", "A golden has an `input` or a `scenario`.")
    suite: dict[Any, Any] = {Comment(line): None for line in _ABOUT}
    suite["name"] = literal(source.path.stem)
    if reader.talks:
        lines = "".join(f"{json.dumps(talk, ensure_ascii=False)}\n" for talk in reader.talks)
        name = suite_name(source.path).removesuffix("evals.yaml") + "recorded.jsonl"
        recorded = {"name": "recorded", "provider": "transcript", "file": bench.beside(name, lines)}
        suite["targets"] = [recorded]
    suite["target"] = Commented(_MODEL, "the target to test; name yours")
    suite["judge_target"] = _MODEL
    bench.ledger.count_cases(reader.cases)
    bench.suite(source, {**suite, "evals": evals})


def _rows(source: SourceFile) -> Iterator[Spot]:
    top = source.spot
    named = next((key for key in _LISTS if key in _Row.of(top).keys), None)
    if source.is_data_set or named is None:
        return source.rows()
    return _Row.of(top).at(named).items


class _Row:
    """A mapping of a source; its keys are read as Python and as TypeScript write them."""

    def __init__(self, spot: Spot, keys: dict[str, str]) -> None:
        self.spot = spot
        self.keys = keys

    @classmethod
    def of(cls, spot: Spot) -> _Row:
        return cls(spot, {_as_python(key): key for key, _ in spot.pairs})

    def at(self, key: str) -> Spot:
        """The value of a key; an empty cell is none."""
        found = self.spot[self.keys.get(key, key)]
        return found.of(None) if found.value == "" else found

    def text(self, key: str) -> str:
        value = self.at(key).value
        return value if isinstance(value, str) else ""

    def texts(self, key: str) -> list[str]:
        """A list of texts, which JSONL and CSV write as one."""
        value = unpacked(self.at(key)).value
        if isinstance(value, str):
            value = value.split(_DELIMITER)
        return [one if isinstance(one, str) else _context(one) for one in value] if isinstance(value, list) else []

    def mapping(self, key: str) -> dict[str, Any]:
        value = unpacked(self.at(key)).value
        return value if isinstance(value, dict) else {}


def _as_python(key: str) -> str:
    return re.sub(r"(?<=[a-z])([A-Z])", lambda found: f"_{found[1].lower()}", key)


def _context(value: Any) -> str:
    text = value.get("context") if isinstance(value, dict) else None
    return text if isinstance(text, str) else json.dumps(value, ensure_ascii=False)


class _Goldens:
    """Goldens as cases."""

    def __init__(self, bench: Workbench) -> None:
        self.ledger = bench.ledger
        self.ids = Ids()
        self.cases = 0
        self.talks: list[dict[str, Any]] = []
        """The recorded conversations."""

    def golden(self, row: _Row) -> Iterator[Any]:
        """The case of a golden, or the comment in its place."""
        is_single = bool(row.text("input").strip())
        if not is_single and not row.text("scenario").strip():
            yield self.ledger.leave_out(row.spot, "a golden", "it has neither an input nor a scenario")
            return
        self.cases += 1
        case: dict[Any, Any] = dict.fromkeys(row.spot.above())
        case["id"] = self.ids.take(row.at("id"), f"golden-{self.cases}")
        if name := row.text("name") or ("" if is_single else beginning(row.text("scenario"), _LONGEST_NAME)):
            case["name"] = literal(name)
        case |= self._single(row, case["id"]) if is_single else self._several(row, case["id"])
        if comments := row.text("comments"):
            case["note"] = literal(comments)
        case |= self._rest(row, _SINGLE if is_single else _SEVERAL)
        for key in row.keys:
            self.ledger.map(row.at(key))
        yield case

    def _single(self, row: _Row, name: str) -> dict[Any, Any]:
        case: dict[Any, Any] = {"prompt": self._words(row, "input")}
        checks: list[Any] = []
        if expected := row.text("expected_output"):
            case["expected_messages"] = [{"role": "assistant", "content": literal(expected)}]
            checks.append({"llm_judge": _SAME})
        if passages := row.texts("retrieval_context"):
            self.ledger.approximate(row.at("retrieval_context"), "`retrieval_context`", _KEPT_TO)
            case["context"] = literal_tree(passages)
            checks.append({"faithful": True})
        calls = [_wanted(call) for call in _calls(row.at("expected_tools"))]
        if calls:
            checks.append({"tool_calls": {"mode": "any_order", "calls": calls}})
        case["checks"] = checks or [Comment("the golden says nothing about a good reply"), {"min_words": 1}]
        if actual := row.text("actual_output"):
            asked = {"role": "user", "content": row.text("input")}
            self.talks.append({"id": name, "messages": [asked, *_said(actual, row.at("tools_called"))]})
        return case

    def _words(self, row: _Row, key: str) -> str | Commented:
        """A text that is sent."""
        text = row.text(key)
        if not _PICTURE.search(text):
            return literal(text)
        comment = self.ledger.leave_out(row.at(key), "a picture", "the golden has only its number")
        return Commented(literal(text), comment.text)

    def _several(self, row: _Row, name: str) -> dict[Any, Any]:
        turns = [_Row.of(spot) for spot in unpacked(row.at("turns")).items]
        turns = [turn for turn in turns if turn.text("content").strip() and turn.text("role") in ("user", "assistant")]
        outcome = row.text("expected_outcome")
        judged: list[Any] = [{"on": "transcript", "llm_judge": literal(outcome)}] if outcome.strip() else []
        replies = any(turn.text("role") == "assistant" for turn in turns)
        if replies and any(turn.text("role") == "user" for turn in turns):
            case = self._plan(turns, name)
            if row.text("name") or len(row.text("scenario")) > _LONGEST_NAME:
                case = {"description": literal(row.text("scenario")), **case}
            case |= self._unused(row, ("user_description", "persona"))
        else:
            case = {"user": self._user(row, turns)}
        says_nothing = Comment("the golden says nothing about a good conversation")
        return case | ({"conversation_checks": judged} if judged else {"checks": [says_nothing, {"min_words": 1}]})

    def _plan(self, turns: list[_Row], name: str) -> dict[Any, Any]:
        """A plan with the messages of the user. The replies are recorded."""
        lost: list[Comment] = []
        if turns[0].text("role") == "assistant":
            lost.append(
                self.ledger.leave_out(turns[0].spot, "the assistant's first words", "a plan begins with a prompt")
            )
        prompts: list[str] = []
        messages: list[dict[str, Any]] = []
        for turn in turns:
            role, content = turn.text("role"), turn.text("content")
            for key in turn.keys.keys() - _TURN:
                if turn.at(key).value:
                    lost.append(self.ledger.leave_out(turn.at(key), f"`{key}` of a turn", "a turn has nothing like it"))
            if role == "assistant":
                messages += _said(content, turn.at("tools_called")) if prompts else []
            elif messages and messages[-1]["role"] == "user":
                lost.append(
                    self.ledger.approximate(turn.spot, "a second message of the user", "it is joined to the first")
                )
                prompts[-1] = messages[-1]["content"] = f"{prompts[-1]}\n\n{content}"
            else:
                prompts.append(content)
                messages.append({"role": "user", "content": content})
        if messages[-1]["role"] == "user" and len(prompts) > 1:
            lost.append(
                self.ledger.leave_out(turns[-1].spot, "the last message of the user", "it has no recorded reply")
            )
            prompts.pop()
            messages.pop()
        self.talks.append({"id": name, "messages": messages})
        plan = [{"prompt": literal(prompt)} for prompt in prompts]
        return {**dict.fromkeys(lost), "execution": {"target": "recorded"}, "turns": plan}

    def _user(self, row: _Row, turns: list[_Row]) -> dict[Any, Any]:
        """The user that a model plays."""
        persona = row.mapping("persona")
        described = persona.get("characteristics") or row.text("user_description")
        user: dict[Any, Any] = {"target": _MODEL}
        if isinstance(described, str) and described.strip():
            called = persona.get("name")
            user["persona"] = literal(f"{called}: {described}" if isinstance(called, str) and called else described)
        user["goal"] = literal(row.text("scenario"))
        if context := row.texts("context"):
            user["knows"] = literal("\n".join(context))
        if turns and turns[0].text("role") == "user":
            user["opening"] = literal(turns[0].text("content"))
        for key in persona.keys() - {"characteristics", "name"}:
            how = "simulated users write, and do not speak"
            user[self.ledger.leave_out(row.at("persona"), f"`{key}` of the persona", how)] = None
        return {**user, "stop": "DONE"}

    def _unused(self, row: _Row, keys: tuple[str, ...]) -> dict[Comment, None]:
        how = "the messages of the user are recorded; `user` plays one"
        return {self.ledger.leave_out(row.at(key), f"`{key}`", how): None for key in keys if row.at(key).value}

    def _rest(self, row: _Row, known: frozenset[str]) -> dict[Any, Any]:
        """Everything else, as metadata."""
        kept: dict[Any, Any] = {}
        for key in ("additional_metadata", "custom_column_key_values"):
            kept |= literal_tree(row.mapping(key))
        if source := row.text("source_file"):
            kept["source_file"] = literal(source)
        is_used = bool(row.text("input").strip())
        for key in ("context",) if is_used else ("context", "retrieval_context"):
            if (texts := row.texts(key)) and not (
                key == "context" and "scenario" in row.keys and not row.at("turns").value
            ):
                kept[self.ledger.approximate(row.at(key), f"`{key}`", _NO_CONTEXT)] = None
                kept[key] = literal_tree(texts)
        for key in row.keys.keys() - known:
            if row.at(key).value not in (None, [], {}, False):
                kept[self.ledger.approximate(row.at(key), f"`{key}`", _NO_CONTEXT)] = None
                kept[literal(key)] = literal_tree(row.at(key).value)
        return {"metadata": kept} if kept else {}


def _calls(spot: Spot) -> Iterator[dict[str, Any]]:
    """Calls of tools with a name."""
    for one in unpacked(spot).items:
        name = one["name"].value
        if isinstance(name, str) and name.strip():
            arguments = _Row.of(one).mapping("input_parameters")
            yield {"name": name, "arguments": arguments, "output": one["output"].value}


def _wanted(call: dict[str, Any]) -> Any:
    """A call as a check expects it. DeepEval compares outputs only on demand."""
    name, arguments = literal(call["name"]), literal_tree(call["arguments"])
    return {"name": name, "arguments": arguments} if arguments else name


def _said(text: str, tools: Spot) -> Iterator[dict[str, Any]]:
    """A recorded reply: the calls with their results, then the words."""
    for number, call in enumerate(_calls(tools), 1):
        function = {"name": call["name"], "arguments": json.dumps(call["arguments"], ensure_ascii=False)}
        made = {"id": f"call-{number}", "type": "function", "function": function}
        yield {"role": "assistant", "content": "", "tool_calls": [made]}
        output = call["output"]
        content = output if isinstance(output, str) else json.dumps(output, ensure_ascii=False)
        yield {"role": "tool", "tool_call_id": made["id"], "content": content}
    yield {"role": "assistant", "content": text}
