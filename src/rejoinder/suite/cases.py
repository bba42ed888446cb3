"""From the raw mapping of a case to a `Case`: templates filled in, files read, checks built, nothing left to ask.

A builder reports what it finds and always gives a case back, so that one pass finds everything.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from rejoinder.model import (
    JUDGE_VARIABLES,
    Case,
    FilePart,
    FollowUps,
    Item,
    JudgeVariable,
    Level,
    LlmJudge,
    Message,
    OtherPart,
    Part,
    Problem,
    Quote,
    Target,
    TextPart,
    ToolCall,
)
from rejoinder.suite.checks import read_evaluators, read_items, read_rubrics
from rejoinder.suite.files import FileFault, Finder, in_quotes
from rejoinder.suite.paths import did_you_mean, nearest
from rejoinder.suite.plugins import known_checks
from rejoinder.suite.source import RowSource, Source
from rejoinder.suite.targets import PROVIDERS, is_known_provider, resolve
from rejoinder.suite.templates import (
    Report,
    Scope,
    expand,
    expand_follow_up,
    expand_judge_prompt,
    expand_tree,
    read_judge_template,
)


class Surroundings(Struct, frozen=True, kw_only=True):
    """All that a case gets from its suite and project."""

    source: Source
    finder: Finder
    targets: Mapping[str, Target]
    targets_known: bool = True
    """False when a file of targets could not be read; then no target's name is called wrong."""
    variables: Mapping[str, Any]
    environment: Mapping[str, str]
    has_variables: bool
    grading_known: bool = True
    """False when the suite's checks or evaluators are at fault; then no case is said to have none."""
    suite_checks: Any = None
    evaluators: Any = None
    evaluators_at: str = ""
    target: str | None = None
    judge_target: str | None = None
    forced_system_prompt: str | None = None
    """Wins over the system prompts of suite and case."""
    system_prompt: str = ""
    followups: FollowUps = "first"
    max_turns: int | None = None
    tags: tuple[str, ...] = ()
    secrets: dict[str, str]
    forced_target: str | None = None
    """Wins over the target that a case names."""
    only_format: bool = False
    """Nothing will be sent or graded: neither targets nor checks have to be there."""


class CaseId(Struct, frozen=True):
    text: str
    written: bool = False
    """Did the author write it, or a part of it?"""


class CaseBuilder:
    """Builds one case. `at` is its place; keys that came from `defaults` have their places there."""

    def __init__(
        self,
        data: dict[str, Any],
        at: str,
        source: Source | RowSource,
        around: Surroundings,
        origins: Mapping[str, str],
        names: Mapping[str, Any] | None,
    ) -> None:
        self.data = data
        self.at = at
        self.source = source
        self.around = around
        self.origins = origins
        self.problems: list[Problem] = []
        self.scope = Scope(around.variables, around.environment, names, around.secrets)

    def build(self, default_id: CaseId, number: int) -> Case:
        own = self._optional("id")
        case = self._case(CaseId(own, written=True) if own else default_id, number)
        if not case.messages:
            self.problem("missing-field", f"{self.at}.prompt", "a case needs a `prompt` or `input_messages`")
        if not case.level.items and self.around.grading_known and not self.around.only_format:
            message = (
                "nothing grades this case, so it would pass whatever the reply is; add `checks`, an `outcome` or"
                " evaluators"
            )
            self.problem("missing-field", f"{self.at}.checks", message)
        return case

    def _case(self, case_id: CaseId, number: int) -> Case:
        data = self.data
        outcome_key = "outcome" if "outcome" in data else "expected_outcome"
        execution = data.get("execution") or {}
        target = self.around.forced_target or self._target(execution, "target", self.around.target)
        return Case(
            id=case_id.text,
            at=self.at,
            number=number,
            id_written=case_id.written,
            messages=self._messages(),
            level=Level(self._items(outcome_key), data.get("threshold")),
            name=self._optional("name"),
            outcome=self._optional(outcome_key),
            expected_messages=self._message_list("expected_messages"),
            conversation_id=self._optional("conversation_id"),
            target=target,
            judge_target=self._target(execution, "judge_target", self.around.judge_target),
            system_prompt=self._system_prompt(),
            tags=self._tags(),
            variables=dict(self.scope.names or {}),
            metadata=self._metadata(),
            followups=data.get("followups", self.around.followups),
            max_turns=data.get("max_turns", self.around.max_turns),
        )

    def _metadata(self) -> dict[str, Any]:
        if "metadata" not in self.data:
            return {}
        return expand_tree(self.data["metadata"], self.scope, self._reporter(self._place("metadata")))

    # What `rejoinder.suite.checks` asks for.

    def text(self, value: str, at: str) -> str:
        return expand(value, self.scope, self._reporter(at)) if "{{" in value else value

    def follow_up(self, value: str, at: str) -> tuple[str | Quote, ...]:
        pieces = expand_follow_up(value, self.scope, self._reporter(at))
        if not any(isinstance(piece, Quote) or piece.strip() for piece in pieces):
            self.problem("empty-prompt", at, "nothing is left of this prompt once its variables are filled in")
        return pieces

    def judge_prompt(self, value: str, at: str) -> tuple[tuple[str | JudgeVariable, ...], str]:
        """An evaluator's prompt: a file where there is one of that name, else the text itself; and its words before
        variables are filled in. Of a file that says nothing there are no pieces, and its name is all the words."""
        found = None if "\n" in value else self.around.finder.find(value)
        if found is not None and found.is_file():
            return self._judge_template(found, value, at)
        if _names_file(value):
            self.problem("file-not-found", at, self.around.finder.explain_missing(value))
            return (), value
        self._look_for_typos(value, at)
        return expand_judge_prompt(value, self.scope, self._reporter(at)), value

    def _judge_template(self, file: Path, written: str, at: str) -> tuple[tuple[str | JudgeVariable, ...], str]:
        try:
            text = self.around.finder.read(file)
        except FileFault as fault:
            self.problem(fault.code, at, fault.message)
            return (), written
        if not text.strip():
            message = f"the file {in_quotes(written)} is empty, so no judge is told anything by it"
            self._add(("empty-file", message, "warning"), at)
            return (), written
        self._look_for_typos(text, at)
        return read_judge_template(text), text

    def _look_for_typos(self, template: str, at: str) -> None:
        """What nobody knows stays as it is; but a name that is nearly a judge's variable was meant to be it."""
        for name in re.findall(r"\{\{\s*(\w+)\s*\}\}", template):
            known = name in JUDGE_VARIABLES or name in (self.scope.names or {})
            if not known and (meant := nearest(name, JUDGE_VARIABLES)):
                message = f"`{{{{{name}}}}}` is no variable of a judge; did you mean `{{{{{meant}}}}}`?"
                self.problem("missing-variable", at, message)

    def tree(self, value: Any, at: str) -> Any:
        return expand_tree(value, self.scope, self._reporter(at))

    def read_data(self, value: str, at: str) -> Any:
        path = self.text(value, at)
        found = self.around.finder.find(path)
        if found is None:
            self.problem("file-not-found", at, self.around.finder.explain_missing(path))
            return None
        try:
            return msgspec.json.decode(self.around.finder.read(found))
        except FileFault as fault:
            self.problem(fault.code, at, fault.message)
        except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
            self.problem("json-syntax", at, f"{path} is not valid JSON: {error}")
        return None

    def known_checks(self) -> list[str] | None:
        return known_checks(self.around.finder.root)

    def target(self, value: str, at: str) -> str:
        name = self.text(value, at)
        if not self.around.only_format:
            for problem in check_target(name, self.around.targets, complete=self.around.targets_known):
                self._add(problem, at)
        return name

    def problem(self, code: str, at: str, message: str) -> None:
        if code == "conflicting-keys" and any(one.path == at and one.severity == "error" for one in self.problems):
            return  # what it says could not be read, so nobody knows whether it is a conflict
        self._add((code, message, "error"), at)

    # Parts of a case.

    def _items(self, outcome_key: str) -> tuple[Item, ...]:
        """Everything that grades: the suite's checks, the case's own, its evaluators, or its outcome alone."""
        own: tuple[Item, ...] = ()
        if "checks" in self.data:
            own = read_items(self.data["checks"], self._place("checks"), self)
        if "rubrics" in self.data:
            own += read_rubrics(self.data["rubrics"], self._place("rubrics"), self)
        evaluators, at = self._evaluators()
        own += read_evaluators(evaluators, at, self)
        if not own and outcome_key in self.data:
            own = (Item(LlmJudge(at=self._place(outcome_key))),)
        return self._suite_items() + own

    def _suite_items(self) -> tuple[Item, ...]:
        if self.around.suite_checks is None:
            return ()
        return read_items(self.around.suite_checks, "checks", self)

    def _evaluators(self) -> tuple[list[Any], str]:
        execution = self.data.get("execution")
        if isinstance(execution, dict) and "evaluators" in execution:
            return execution["evaluators"], f"{self._place('execution')}.evaluators"
        if "evaluators" in self.data:
            return self.data["evaluators"], self._place("evaluators")
        return self.around.evaluators or [], self.around.evaluators_at

    def _messages(self) -> tuple[Message, ...]:
        if "prompt" not in self.data:
            return self._message_list("input_messages")
        at = self._place("prompt")
        prompt = self.text(self.data["prompt"], at)
        if not prompt.strip():
            self.problem("empty-prompt", at, "nothing is left of this prompt once its variables are filled in")
        return (Message("user", (TextPart(prompt, at),), at),)

    def _message_list(self, key: str) -> tuple[Message, ...]:
        if key not in self.data:
            return ()
        at = self._place(key)
        return tuple(self._message(message, f"{at}[{i}]") for i, message in enumerate(self.data[key]))

    def _message(self, message: dict[str, Any], at: str) -> Message:
        content = message["content"]
        if isinstance(content, str):
            parts: tuple[Part, ...] = (TextPart(self.text(content, at), at),)
        else:
            parts = tuple(self._part(part, f"{at}.content[{i}]") for i, part in enumerate(content))
        if "tool_calls" not in message and "tool_call_id" not in message:
            return Message(message["role"], parts, at)
        calls = tuple(
            self._tool_call(call, f"{at}.tool_calls[{i}]") for i, call in enumerate(message.get("tool_calls", ()))
        )
        answered = self.text(message.get("tool_call_id", ""), f"{at}.tool_call_id")
        return Message(message["role"], parts, at, calls, answered)

    def _tool_call(self, call: dict[str, Any], at: str) -> ToolCall:
        given = expand_tree(call.get("arguments", {}), self.scope, self._reporter(f"{at}.arguments"))
        return ToolCall(self.text(call["name"], at), msgspec.json.encode(given).decode(), self.text(call["id"], at))

    def _part(self, part: Any, at: str) -> Part:
        if isinstance(part, str):
            return TextPart(self.text(part, at), at)
        value = self.text(part["value"], f"{at}.value")
        if part["type"] == "text":
            return TextPart(value, at)
        return self._file(value, at) if part["type"] == "file" else OtherPart(part["type"], at)

    def _file(self, path: str, at: str) -> FilePart:
        found = self.around.finder.find(path) if path.strip() else None
        if found is None:
            message = self.around.finder.explain_missing(path)
            self._add(("file-not-found", message, "error"), at, point=f"{at}.value")
            return FilePart(path, None, at)
        try:
            text, from_roots = self.around.finder.read(found), self.around.finder.seen_from_roots(found)
            return FilePart(path, text, at, str(found.resolve()), from_roots)
        except FileFault as fault:
            self._add((fault.code, fault.message, "error"), at, point=f"{at}.value")
            return FilePart(path, None, at)

    def _target(self, execution: dict[str, Any], key: str, otherwise: str | None) -> str | None:
        if key not in execution:
            return otherwise
        return self.target(execution[key], f"{self._place('execution')}.{key}")

    def _system_prompt(self) -> str:
        """The case's or the suite's: the first that says anything. A target's comes last, when used.

        The command's wins, and an empty one means none at all.
        """
        choices = (self._optional("system_prompt"), self.around.system_prompt)
        if self.around.forced_system_prompt is not None:
            choices = (self.around.forced_system_prompt,)
        return next((text for text in choices if text and text.strip()), "")

    def _tags(self) -> tuple[str, ...]:
        if "tags" not in self.data:
            return self.around.tags
        at = self._place("tags")
        own = (self.text(tag, f"{at}[{i}]") for i, tag in enumerate(self.data.get("tags", ())))
        return tuple(dict.fromkeys((*self.around.tags, *own)))

    def _optional(self, key: str) -> str | None:
        value = self.data.get(key)
        return self.text(value, self._place(key)) if value is not None and "{{" in value else value

    # Places and problems.

    def _place(self, key: str) -> str:
        return f"{self.origins.get(key, self.at)}.{key}"

    def _reporter(self, at: str) -> Report:
        return lambda code, message: self.problem(code, at, message)

    def _add(self, problem: tuple[str, str, str], at: str, point: str | None = None) -> None:
        code, message, severity = problem
        place = CasePlace(self.at, self.source, self.around.source)
        self.problems.append(place.problem(code, at, message, severity=severity, point=point))


def _names_file(prompt: str) -> bool:
    """Is it a path rather than a text?"""
    is_word = not re.search(r"\s|\{\{", prompt)
    return is_word and ("/" in prompt or prompt.lower().endswith((".md", ".txt", ".prompt")))


class CasePlace(Struct, frozen=True):
    """Where a case comes from: its path, the file or row that it stands in, and the suite around it."""

    at: str
    source: Source | RowSource
    suite: Source

    def problem(
        self, code: str, at: str, message: str, *, severity: str = "error", point: str | None = None
    ) -> Problem:
        """What comes from the suite itself is at fault there, even when a row of a data set brought it up."""
        if at.startswith(self.at):
            return self.source.problem(code, at, message, severity=severity, point=point)
        if isinstance(self.source, RowSource):
            message += f" (for line {self.source.number} of {self.source.file})"
        return self.suite.problem(code, at, message, severity=severity, point=point)


def check_target(name: str, targets: Mapping[str, Target], *, complete: bool = True) -> list[tuple[str, str, str]]:
    """What is wrong with a target's name, as code, message and severity."""
    found = resolve(name, targets)
    if found is None:
        hint = did_you_mean(name, targets)
        if not hint and targets:
            hint = f"; a model can be named as provider/model, and the targets are {', '.join(targets)}"
        elif not hint:
            hint = "; name a model as openai/gpt-5-mini, or define targets in .rejoinder/targets.yaml"
        return [("unknown-target", f"there is no target `{name}`{hint}", "error")] if complete else []
    if name not in targets and not is_known_provider(found.provider):
        other = f"; a model of another vendor can be reached as openrouter/{name}"
        hint = did_you_mean(found.provider, PROVIDERS) or other
        return [("unknown-provider", f"unknown provider `{found.provider}`{hint}", "warning")]
    return []
