"""From the raw mapping of a case to a `Case`: templates filled in, files read, checks built, nothing left to ask.

A builder reports what it finds and always gives a case back, so that one pass finds everything.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeAlias

import msgspec
from msgspec import Struct, structs

from rejoinder.errors import UNFILLED, Severity, severity_of
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
from rejoinder.project import FileFault, Finder, in_quotes, known_checks
from rejoinder.spelling import nearest
from rejoinder.suite.catalog import is_openrouter_id, vendor_of
from rejoinder.suite.checks import read_evaluators, read_items, read_rubrics
from rejoinder.suite.document_paths import read_path
from rejoinder.suite.source import RowSource, Source
from rejoinder.suite.targets import is_known_provider, needed_besides_model, resolve
from rejoinder.suite.templates import (
    Report,
    Scope,
    expand,
    expand_follow_up,
    expand_judge_prompt,
    expand_tree,
    read_judge_template,
    write_value,
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
    missing: Severity = "error"
    """How grave it is that the environment lacks a variable or a secret."""
    named: dict[str, Place]
    """Where each target is named first; filled while cases are built."""


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

    def written(self, value: float, at: str) -> str:
        """A number as the file has it: `1.10` is not 1.1."""
        source = self.source if at.startswith(self.at) else self.around.source
        text = source.document.scalar_text(read_path(at)) if isinstance(source, Source) else None
        return text or write_value(value)

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
        self._look_for_unfilled(value, at, self.scope.names or {})
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
        self._look_for_unfilled(text, at, {})
        return read_judge_template(text), text

    def _look_for_unfilled(self, template: str, at: str, names: Mapping[str, Any]) -> None:
        """An unknown name in a judge's prompt stays as it is; one that is nearly a judge's variable is an error."""
        for name in re.findall(r"\{\{\s*(\w+)\s*\}\}", template):
            if name in JUDGE_VARIABLES or name in names:
                continue
            message = f"`{{{{{name}}}}}` is no variable of a judge"
            if meant := nearest(name, JUDGE_VARIABLES):
                self.problem("missing-variable", at, f"{message}; did you mean `{{{{{meant}}}}}`?")
            else:
                known = ", ".join(JUDGE_VARIABLES)
                self._add(("unfilled-braces", f"{message}, so it stays as it is; there are {known}", "warning"), at)

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
        if not self.around.only_format and not self._is_unfilled(at):
            place = CasePlace(self.at, self.source, self.around.source)
            self.around.named.setdefault(name, (place, at))
            faults = check_target(name, self.around.targets, complete=self.around.targets_known)
            self.problems += [fault.problem(place, at) for fault in faults]
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
        return lambda code, message: self._add((code, message, severity_of(code, self.around.missing)), at)

    def _is_unfilled(self, at: str) -> bool:
        """Could the text at a place not be filled in? Then what is wrong with it has been said."""
        return any(one.code in UNFILLED and (one.path == at or one.path.startswith(f"{at}.")) for one in self.problems)

    def _add(self, problem: tuple[str, str, str], at: str, point: str | None = None) -> None:
        code, message, severity = problem
        if code not in UNFILLED and self.problems and self._is_unfilled(at):
            return
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


Place: TypeAlias = tuple[Source | CasePlace, str]
"""Something that problems can be reported at, and a path in it."""


class TargetFault(Struct, frozen=True):
    """What is wrong with the name of a target."""

    code: str
    message: str
    name: str
    instead: str | None = None
    """The name that is right."""

    def problem(self, source: Source | CasePlace, at: str) -> Problem:
        problem = source.problem(self.code, at, self.message, severity=severity_of(self.code))
        line = problem.source or ""
        if self.instead is None or self.name not in line:
            return problem
        return structs.replace(problem, suggestion=line.replace(self.name, self.instead, 1))


def check_target(name: str, targets: Mapping[str, Target], *, complete: bool = True) -> list[TargetFault]:
    """What is wrong with a target's name. `complete` is False where not all targets could be read."""
    target = resolve(name, targets)
    if target is None:
        return [_unknown_target(name, targets)] if complete else []
    if name in targets or row_of(name).ready:
        return []
    is_known = is_known_provider(target.provider)
    if is_openrouter_id(target.provider, target.settings["model"], is_known=is_known):
        instead = f"openrouter/{name}"
        what = f"`{target.provider}` lists no such model" if is_known else f"there is no provider `{target.provider}`"
        message = f"`{name}` is OpenRouter's name of a model, and {what}; write `{instead}`"
        return [TargetFault("model-of-openrouter", message, name, instead)]
    return [] if is_known else [_unknown_provider(name, target.provider)]


def _unknown_target(name: str, targets: Mapping[str, Target]) -> TargetFault:
    near, vendor = nearest(name, targets), None
    if near is None and (vendor := vendor_of(name)):
        near = f"{vendor}/{name}"
    hint = f"did you mean `{near}`?"
    provider = PROVIDER_NAMES.get(name.partition("/")[0].lower(), "")
    if near is None and "/" in name and (needed := needed_besides_model(provider)):
        hint = f"a target with provider `{provider}` needs `{needed}`, so it has to be defined under `targets`"
    elif near is None and targets:
        hint = f"a model can be named as provider/model, and the targets are {', '.join(targets)}"
    elif near is None:
        hint = "name a model as openai/gpt-5-mini, or define targets in .rejoinder/targets.yaml"
    # Another target is another model: only a name that is surely meant is written into the line.
    return TargetFault("unknown-target", f"there is no target `{name}`; {hint}", name, near if vendor else None)


def _unknown_provider(name: str, provider: str) -> TargetFault:
    meant = nearest(provider, PROVIDER_NAMES, likeness=0.7)
    hint = f"did you mean `{meant}`?" if meant else f"OpenRouter offers many vendors' models, as openrouter/{name}"
    instead = f"{meant}/{name.partition('/')[2]}" if meant else None
    return TargetFault("unknown-provider", f"there is no provider `{provider}`; {hint}", name, instead)
