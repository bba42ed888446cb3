"""From the raw mapping of a case to a `Case`: templates filled in, files read, checks built, nothing left to ask.

A builder reports what it finds and always gives a case back, so that one pass finds everything.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import Struct, structs

from rejoinder.model import Case, FilePart, Item, Level, LlmJudge, Message, OtherPart, Part, Problem, TextPart, ToolCall
from rejoinder.project import FileFault
from rejoinder.suite.case_texts import CaseTexts
from rejoinder.suite.check_forms import read_evaluators, read_rubrics
from rejoinder.suite.checks import read_items
from rejoinder.suite.context import SuiteContext
from rejoinder.suite.document_paths import read_path
from rejoinder.suite.source import CasePlace, RowSource


class CaseId(Struct, frozen=True):
    text: str
    written: bool = False
    """Did the author write it, or a part of it?"""


class Draft(Struct, frozen=True):
    """A case before it is built."""

    data: dict[str, Any]
    place: CasePlace
    file: str
    """The file that it stands in, as seen from the project's root."""
    origins: Mapping[str, str]
    """Where the keys stand that come from elsewhere, such as `defaults`."""
    names: Mapping[str, Any] | None
    """What `{{ name }}` may name; None when it has no variables at all."""
    default_id: CaseId
    problems: list[Problem]
    touched: set[str]
    """The keys that were refused, or `*`."""

    @property
    def line(self) -> int:
        source = self.place.source
        if isinstance(source, RowSource):
            return source.number
        return source.document.place(read_path(self.place.at))[0]


class CaseBuilder:
    def __init__(self, draft: Draft, context: SuiteContext) -> None:
        self.draft = draft
        self.data = draft.data
        self.context = context
        self.defaults = context.defaults
        self.texts = CaseTexts(draft.place, structs.replace(context.scope, names=draft.names), context)

    @property
    def problems(self) -> list[Problem]:
        return self.texts.problems.found

    def build(self, default_id: CaseId, number: int) -> Case:
        own = self._optional("id")
        case = self._case(CaseId(own, written=True) if own else default_id, number)
        if not case.messages:
            self.texts.problem("missing-field", f"{case.at}.prompt", "a case needs a `prompt` or `input_messages`")
        if not case.level.items and self.defaults.grading_known and not self.context.options.only_format:
            message = (
                "nothing grades this case, so it would pass whatever the reply is; add `checks`, an `outcome` or"
                " evaluators"
            )
            self.texts.problem("missing-field", f"{case.at}.checks", message)
        return case

    def _case(self, case_id: CaseId, number: int) -> Case:
        data, defaults = self.data, self.defaults
        outcome_key = "outcome" if "outcome" in data else "expected_outcome"
        return Case(
            id=case_id.text,
            at=self.draft.place.at,
            number=number,
            id_written=case_id.written,
            file=self.draft.file,
            line=self.draft.line,
            target=self.context.options.target or self._target("target", defaults.target),
            messages=self._messages(),
            level=Level(self._items(outcome_key), data.get("threshold")),
            name=self._optional("name"),
            outcome=self._optional(outcome_key),
            expected_messages=self._message_list("expected_messages"),
            conversation_id=self._optional("conversation_id"),
            judge_target=self._target("judge_target", defaults.judge_target),
            system_prompt=self._system_prompt(),
            tags=self._tags(),
            variables=dict(self.draft.names or {}),
            metadata=self.texts.tree(data["metadata"], self._at("metadata")) if "metadata" in data else {},
            followups=data.get("followups", defaults.followups),
            max_turns=data.get("max_turns", defaults.max_turns),
        )

    def _items(self, outcome_key: str) -> tuple[Item, ...]:
        """Everything that grades: the suite's checks, the case's own, its evaluators, or its outcome alone."""
        own: tuple[Item, ...] = ()
        if "checks" in self.data:
            own = read_items(self.data["checks"], self._at("checks"), self.texts)
        if "rubrics" in self.data:
            own += read_rubrics(self.data["rubrics"], self._at("rubrics"), self.texts)
        own += read_evaluators(*self._evaluators(), self.texts)
        if not own and outcome_key in self.data:
            own = (Item(LlmJudge(at=self._at(outcome_key))),)
        if self.defaults.checks is None:
            return own
        return read_items(self.defaults.checks, "checks", self.texts) + own

    def _evaluators(self) -> tuple[list[Any], str]:
        execution = self.data.get("execution")
        if isinstance(execution, dict) and "evaluators" in execution:
            return execution["evaluators"], f"{self._at('execution')}.evaluators"
        if "evaluators" in self.data:
            return self.data["evaluators"], self._at("evaluators")
        return self.defaults.evaluators, "execution.evaluators"

    def _messages(self) -> tuple[Message, ...]:
        if "prompt" not in self.data:
            return self._message_list("input_messages")
        return _read_prompt(self.data["prompt"], self._at("prompt"), self.texts)

    def _message_list(self, key: str) -> tuple[Message, ...]:
        return _read_messages(self.data[key], self._at(key), self.texts) if key in self.data else ()

    def _target(self, key: str, default: str | None) -> str | None:
        execution = self.data.get("execution") or {}
        return self.texts.target(execution[key], f"{self._at('execution')}.{key}") if key in execution else default

    def _system_prompt(self) -> str:
        """The command's; else the case's or the suite's, the first that says anything. A target's comes last, when it
        is used."""
        choices = (self._optional("system_prompt"), self.defaults.system_prompt)
        if self.context.options.system_prompt is not None:
            choices = (self.context.options.system_prompt,)
        return next((text for text in choices if text and text.strip()), "")

    def _tags(self) -> tuple[str, ...]:
        if "tags" not in self.data:
            return self.defaults.tags
        at = self._at("tags")
        own = (self.texts.text(tag, f"{at}[{i}]") for i, tag in enumerate(self.data["tags"]))
        return tuple(dict.fromkeys((*self.defaults.tags, *own)))

    def _optional(self, key: str) -> str | None:
        value = self.data.get(key)
        return self.texts.text(value, self._at(key)) if value is not None and "{{" in value else value

    def _at(self, key: str) -> str:
        return f"{self.draft.origins.get(key, self.draft.place.at)}.{key}"


# Messages


def _read_messages(messages: list[Any], at: str, texts: CaseTexts) -> tuple[Message, ...]:
    return tuple(_message(message, f"{at}[{i}]", texts) for i, message in enumerate(messages))


def _read_prompt(prompt: str, at: str, texts: CaseTexts) -> tuple[Message, ...]:
    """A lone `prompt` as a message of the user."""
    text = texts.text(prompt, at)
    if not text.strip():
        texts.problem("empty-prompt", at, "this prompt is empty once its variables are filled in")
    return (Message("user", (TextPart(text, at),), at),)


def _message(message: dict[str, Any], at: str, texts: CaseTexts) -> Message:
    content = message["content"]
    if isinstance(content, str):
        parts: tuple[Part, ...] = (TextPart(texts.text(content, at), at),)
    else:
        parts = tuple(_part(part, f"{at}.content[{i}]", texts) for i, part in enumerate(content))
    if "tool_calls" not in message and "tool_call_id" not in message:
        return Message(message["role"], parts, at)
    calls = tuple(
        _tool_call(call, f"{at}.tool_calls[{i}]", texts) for i, call in enumerate(message.get("tool_calls", ()))
    )
    answered = texts.text(message.get("tool_call_id", ""), f"{at}.tool_call_id")
    return Message(message["role"], parts, at, calls, answered)


def _tool_call(call: dict[str, Any], at: str, texts: CaseTexts) -> ToolCall:
    arguments = texts.tree(call.get("arguments", {}), f"{at}.arguments")
    return ToolCall(texts.text(call["name"], at), msgspec.json.encode(arguments).decode(), texts.text(call["id"], at))


def _part(part: Any, at: str, texts: CaseTexts) -> Part:
    if isinstance(part, str):
        return TextPart(texts.text(part, at), at)
    value = texts.text(part["value"], f"{at}.value")
    if part["type"] == "text":
        return TextPart(value, at)
    return _file(value, at, texts) if part["type"] == "file" else OtherPart(part["type"], at)


def _file(path: str, at: str, texts: CaseTexts) -> FilePart:
    finder = texts.finder
    file = finder.find(path) if path.strip() else None
    try:
        if file is None:
            raise FileFault("file-not-found", finder.explain_missing(path))
        return FilePart(path, finder.read(file), at, str(file.resolve()), finder.seen_from_roots(file))
    except FileFault as fault:
        texts.problems.add(fault.code, at, fault.message, point=f"{at}.value")
        return FilePart(path, None, at)
