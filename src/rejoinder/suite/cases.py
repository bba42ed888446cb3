"""Builds a `Case` from its raw mapping: fills in templates, reads files, builds checks.

A builder reports what it finds and always returns a case, so that one pass finds everything.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import date
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct, structs

from rejoinder.errors import UNFILLED, Severity, severity_of
from rejoinder.model import (
    Case,
    Condition,
    Problem,
    Quarantine,
    levels_of,
    pictures_of,
    plan_with_output_check,
    with_output_check,
)
from rejoinder.model.checks import JUDGE_VARIABLES, Item, JudgeVariable, LlmJudge, Quote, ReplyPart
from rejoinder.model.messages import FilePart, ImagePart, Message, OtherPart, Part, TextPart, ToolCall
from rejoinder.model.pictures import refuse_many
from rejoinder.model.tools import Tool, join_tools
from rejoinder.project.files import FileFault, in_quotes
from rejoinder.project.plugins import known_checks
from rejoinder.spelling import nearest
from rejoinder.suite import templates
from rejoinder.suite.checks import read_context, read_evaluators, read_items, read_output_schema, read_rubrics
from rejoinder.suite.context import SuiteContext
from rejoinder.suite.document_paths import read_path
from rejoinder.suite.plans import Course, extracted_names, look_for_unreachable, opening_words, read_course
from rejoinder.suite.replies import read_reply
from rejoinder.suite.schema_files import read_document
from rejoinder.suite.source import CasePlace, RowSource, Source
from rejoinder.suite.text_files import NO_WORDS, in_file
from rejoinder.suite.tools import read_tools


class CaseId(Struct, frozen=True):
    text: str
    written: bool = False
    """Whether the author wrote any part of it."""


class Draft(Struct, frozen=True):
    """A case before it is built."""

    data: dict[str, Any]
    place: CasePlace
    file: str
    """The file that contains it, relative to the project's root."""
    origins: Mapping[str, str]
    """The origin of each key that comes from elsewhere, such as `defaults`."""
    names: Mapping[str, Any] | None
    """Values for `{{ name }}`; None if the case has no variables at all."""
    default_id: CaseId
    problems: list[Problem]
    touched: set[str]
    """The refused keys, or `*`."""
    condition: Condition | None = None
    """The form in which a sharded task is put. The case's id ends with it."""

    @property
    def line(self) -> int:
        source = self.place.source
        if isinstance(source, RowSource):
            return source.number
        return source.place(read_path(self.place.at))[0]


SharedCourses = dict[tuple[tuple[str, str], ...], Course]
"""Courses of cases that inherit everything that grades them, keyed by the places that they inherit from."""
SAYING = ("prompt", "input_messages", "turns", "user", "shards", "input")
"""Keys of a case that hold the messages to send."""
_OUTSIDE_COURSE = frozenset(
    (
        *("id", "name", "prompt", "input_messages", "expected_messages", "tags", "metadata", "vars"),
        *("conversation_id", "context"),
    )
)
"""Keys of a case that do not affect its course."""


class CaseBuilder:
    def __init__(self, draft: Draft, context: SuiteContext, courses: SharedCourses) -> None:
        self.courses = courses
        self.draft = draft
        self.data = draft.data
        self.context = context
        self.defaults = context.defaults
        self.texts = CaseTexts(draft.place, structs.replace(context.scope, names=draft.names), context)
        if "context" in draft.data:
            self.texts.own_context = read_context(draft.data["context"], self._at("context"), self.texts)
            self.texts.use_context(None)

    @property
    def problems(self) -> list[Problem]:
        return self.texts.problems.found

    def build(self, default_id: CaseId, number: int) -> Case:
        own = self._optional("id")
        case_id = CaseId(own, written=True) if own else default_id
        if self.draft.condition is not None:
            case_id = CaseId(f"{case_id.text}/{self.draft.condition}", case_id.written)
        case = self._case(case_id, number)
        if not case.messages and case.user is None and self.defaults.words_known:
            message = "a case needs a `prompt`, `input_messages`, `turns` or a `user`"
            self.texts.problem("missing-field", f"{case.at}.prompt", message)
        look_for_unreachable(case, self.texts)
        if (reason := refuse_many(picture for picture, _ in pictures_of(case))) is not None:
            self.texts.problem("too-many-pictures", case.at, f"this case has {reason}")
        graded = any(level.items for level in levels_of(case)) or case.conversation_checks
        if not graded and self.defaults.grading_known and not self.context.options.only_format:
            message = (
                "nothing grades this case, so it would pass whatever the reply is; add `checks`, an `outcome` or"
                " evaluators"
            )
            self.texts.problem("missing-field", f"{case.at}.checks", message)
        return case

    def _case(self, case_id: CaseId, number: int) -> Case:
        data, defaults, variant = self.data, self.defaults, self.context.variant
        outcome_key = next((key for key in ("outcome", "expected_outcome") if key in data), "criteria")
        prefix = _of_variant("prompt_prefix", self.texts)
        course = self._course(outcome_key)
        return Case(
            id=case_id.text,
            at=self.draft.place.at,
            number=number,
            id_written=case_id.written,
            file=self.draft.file,
            line=self.draft.line,
            targets=self._targets(),
            messages=_with_prefix(self._messages(), prefix),
            variant="" if variant is None else variant.name,
            prompt_prefix=prefix,
            level=course.level,
            plan=course.plan,
            user=course.user,
            conversation_checks=course.whole,
            reply=self._reply(),
            output_schema=course.output_schema,
            condition=self.draft.condition,
            name=self._name(),
            outcome=self._optional(outcome_key),
            context=self.texts.own_context,
            expected_messages=self._expected_messages(),
            conversation_id=self._optional("conversation_id"),
            judge_target=self._target("judge_target", defaults.judge_target),
            system_prompt=self._system_prompt(),
            tags=self._tags(),
            variables=dict(self.draft.names or {}),
            metadata=self.texts.tree(data["metadata"], self._at("metadata")) if "metadata" in data else {},
            followups=data.get("followups", defaults.followups),
            max_turns=data.get("max_turns", defaults.max_turns),
            control=data.get("control", defaults.control),
            tools=self._tools(),
            max_tool_rounds=data.get("max_tool_rounds", defaults.max_tool_rounds),
            **self._trials(),
        )

    def _course(self, outcome_key: str) -> Course:
        """The course of the conversation and its grading. It is read once for all rows of a data set that inherit it
        unchanged: without variables, and without errors in it."""
        origins, own = self.draft.origins, self.data.keys() - self.draft.origins.keys()
        is_shared = own <= _OUTSIDE_COURSE and self.defaults.ready_followups is None and self.draft.condition is None
        place = tuple(origins.items())
        if is_shared and place in self.courses:
            return self.courses[place]
        problems, self.texts.variables.were_used = len(self.problems), False
        self.texts.quoting(templates.Quotable(checks=extracted_names(self.data)))
        course = read_course(self.data, self._items(outcome_key), self.defaults, self._at, self.texts)
        course = self._with_output_schema(course)
        if is_shared and not self.texts.variables.were_used and len(self.problems) == problems:
            self.courses[place] = course
        return course

    def _with_output_schema(self, course: Course) -> Course:
        """The course with the output schema of the case or the suite, and with its check at every level."""
        written, at = self.data.get("output_schema"), self._at("output_schema")
        if written is None:
            written, at = self.defaults.output_schema, "output_schema"
        check = None if written is None else read_output_schema(written, at, self.texts)
        if check is None:
            return course
        level, plan = with_output_check(course.level, check), plan_with_output_check(course.plan, check)
        return structs.replace(course, level=level, plan=plan, output_schema=check)

    def _tools(self) -> tuple[Tool, ...]:
        """The suite's tools, then its own."""
        own = self.texts.tools(self.data["tools"], self._at("tools")) if "tools" in self.data else ()
        return join_tools(self.defaults.tools, own)

    def _reply(self) -> ReplyPart | None:
        """The part of its replies that is checked."""
        if "reply" in self.data:
            return read_reply(self.data["reply"], self._at("reply"), self.texts)
        return None if self.defaults.reply is None else read_reply(self.defaults.reply, "reply", self.texts)

    def _trials(self) -> dict[str, Any]:
        """The number of trials, the number that must pass, and the date until which the case is quarantined."""
        data, needed = self.data, _needed(self.data, self._at("pass"), self.texts)
        repeat = data.get("repeat", needed[1] if needed else None)
        if needed is not None and repeat != needed[1]:
            fewer = "fewer" if repeat < needed[1] else "more"
            message = f"`repeat: {repeat}` gives {fewer} trials than `pass: {data['pass']}` is about"
            self.texts.problem("out-of-range", self._at("repeat"), message)
        return {"repeat": repeat, "needed": needed, "quarantine": _quarantine(data, self._at("quarantine"), self.texts)}

    def _items(self, outcome_key: str) -> tuple[Item, ...]:
        """Everything that grades: the suite's checks, the case's own, its evaluators, or its outcome if there is
        nothing else."""
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
        data, variant = self.data, self.context.variant
        if variant is not None and "prompt" in variant.texts:
            self._refuse_own_words()
            return _read_prompt(variant.texts["prompt"], f"{variant.at}.prompt", self.texts)
        if "prompt" in data:
            return _read_prompt(data["prompt"], self._at("prompt"), self.texts)
        said = self._message_list("input_messages")
        for words, at in opening_words(data, self._at, self.texts):
            read = _read_messages if isinstance(words, list) else _read_prompt
            said += read(words, at, self.texts)
        return said

    def _refuse_own_words(self) -> None:
        """Report what the case sends beside the prompt of its variant; a prompt of `defaults` is for variants without
        one."""
        key = next((key for key in SAYING if key in self.data), None) if self.draft.condition is None else "shards"
        if key is not None and (key != "prompt" or key not in self.draft.origins):
            message = f"a variant has a `prompt`, and `{key}` says what is sent in this case; keep one of them"
            self.texts.problem("conflicting-keys", self._at(key), message)

    def _message_list(self, key: str) -> tuple[Message, ...]:
        return _read_messages(self.data[key], self._at(key), self.texts) if key in self.data else ()

    def _expected_messages(self) -> tuple[Message, ...]:
        """The reference answer, which is text."""
        messages = self._message_list("expected_messages")
        for part in (part for message in messages for part in message.parts):
            if isinstance(part, ImagePart) and part.picture is not None:
                self.texts.problem("bad-picture", part.at, "a reference answer is text; describe the picture in words")
        return messages

    def _targets(self) -> tuple[str, ...]:
        """The targets of the command; else of the case, else of the suite."""
        execution, given = self.data.get("execution") or {}, self.context.options.targets
        if given or "target" not in execution:
            return given or self.context.defaults.targets
        written, at = execution["target"], f"{self._at('execution')}.target"
        if not isinstance(written, list):
            return (self.texts.target(written, at),)
        return tuple(dict.fromkeys(self.texts.target(name, f"{at}[{n}]") for n, name in enumerate(written)))

    def _target(self, key: str, default: str | None) -> str | None:
        execution = self.data.get("execution") or {}
        return self.texts.target(execution[key], f"{self._at('execution')}.{key}") if key in execution else default

    def _system_prompt(self) -> str:
        """The system prompt of the command; else of the variant, the case or the suite, the first one given. A target's
        own prompt comes last, when the target is used."""
        own = self.data.get("system_prompt")
        choices = (
            _of_variant("system_prompt", self.texts),
            "" if own is None else self.texts.words(own, self._at("system_prompt")),
            self.defaults.system_prompt,
        )
        if self.context.options.system_prompt is not None:
            choices = (self.context.options.system_prompt,)
        return next((text for text in choices if text.strip()), "")

    def _tags(self) -> tuple[str, ...]:
        if "tags" not in self.data:
            return self.defaults.tags
        at = self._at("tags")
        own = (self.texts.text(tag, f"{at}[{i}]") for i, tag in enumerate(self.data["tags"]))
        return tuple(dict.fromkeys((*self.defaults.tags, *own)))

    def _name(self) -> str | None:
        """The name with known variables filled in. Other braces in it are left for people to read, and are not an
        error."""
        value = self.data.get("name")
        if value is None or "{{" not in value:
            return value
        return templates.expand(value, self.texts.variables.for_text(value), templates.say_nothing)

    def _optional(self, key: str) -> str | None:
        value = self.data.get(key)
        return self.texts.text(value, self._at(key)) if value is not None and "{{" in value else value

    def _at(self, key: str) -> str:
        return f"{self.draft.origins.get(key, self.draft.place.at)}.{key}"


# Messages


def _read_messages(messages: list[Any], at: str, texts: CaseTexts) -> tuple[Message, ...]:
    return tuple(_message(message, f"{at}[{i}]", texts) for i, message in enumerate(messages))


def _read_prompt(prompt: Any, at: str, texts: CaseTexts) -> tuple[Message, ...]:
    """A single `prompt` as a user message."""
    text = texts.words(prompt, at)
    if not text.strip():
        texts.problem("empty-prompt", at, "this prompt is empty once its variables are filled in")
    return (Message("user", (TextPart(text, at),), at),)


def _of_variant(key: str, texts: CaseTexts) -> str:
    """A text of the variant of this case."""
    variant = texts.context.variant
    return "" if variant is None or key not in variant.texts else texts.words(variant.texts[key], f"{variant.at}.{key}")


def _with_prefix(messages: tuple[Message, ...], prefix: str) -> tuple[Message, ...]:
    """The messages, with the variant's prefix as a separate paragraph before the first user message."""
    place = next((place for place, one in enumerate(messages) if one.role == "user"), None)
    if place is None or not prefix.strip():
        return messages
    user = messages[place]
    first, *rest = user.parts or (TextPart("", user.at),)
    if isinstance(first, TextPart):
        parts = (TextPart(f"{prefix.strip()}\n\n{first.text}", first.at), *rest)
    else:
        parts = (TextPart(prefix.strip(), user.at), first, *rest)
    return (*messages[:place], structs.replace(user, parts=parts), *messages[place + 1 :])


def _message(message: dict[str, Any], at: str, texts: CaseTexts) -> Message:
    content = message["content"]
    if isinstance(content, str):
        parts: tuple[Part, ...] = (TextPart(texts.text(content, at), at),)
    else:
        parts = tuple(_part(part, f"{at}.content[{i}]", texts, message["role"]) for i, part in enumerate(content))
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


def _part(part: Any, at: str, texts: CaseTexts, role: str) -> Part:
    if isinstance(part, str):
        return TextPart(texts.text(part, at), at)
    value = texts.text(part["value"], f"{at}.value")
    match part["type"]:
        case "text":
            return TextPart(value, at)
        case "file":
            return _file(value, at, texts)
        case "image":
            return _image(value, at, texts, role)
        case other:
            return OtherPart(other, at)


def _image(value: str, at: str, texts: CaseTexts, role: str) -> ImagePart:
    if role != "user":
        texts.problem("bad-picture", at, f"a picture belongs to a message of the user, not of role `{role}`")
        return ImagePart(None, at)
    try:
        picture, resolved = texts.context.pictures.read(value)
        return ImagePart(picture, at, resolved)
    except FileFault as fault:
        texts.problems.add(fault.code, at, fault.message, point=f"{at}.value")
        return ImagePart(None, at)


def _file(path: str, at: str, texts: CaseTexts) -> FilePart:
    finder = texts.finder
    file = finder.find(path) if path.strip() else None
    try:
        if file is None:
            raise FileFault("file-not-found", finder.explain_missing(path))
        return FilePart(path, finder.read(file), at, str(file.resolve()), finder.seen_from_roots(file))
    except FileFault as fault:
        is_picture = fault.code == "not-utf8" and file is not None and texts.context.pictures.knows(file)
        message = f"{fault.message}; for a picture, write `type: image`" if is_picture else fault.message
        texts.problems.add(fault.code, at, message, point=f"{at}.value")
        return FilePart(path, None, at)


JudgePrompt = tuple[tuple[str | JudgeVariable, ...], str]


def _needed(data: dict[str, Any], at: str, texts: CaseTexts) -> tuple[int, int] | None:
    """(4, 5) for `pass: 4 of 5`."""
    if "pass" not in data:
        return None
    least, _, of = data["pass"].partition(" of ")
    if not 1 <= int(least) <= int(of):
        texts.problem("out-of-range", at, f"`{data['pass']}` is not possible; write for example `4 of 5`")
    return int(least), int(of)


def _quarantine(data: dict[str, Any], at: str, texts: CaseTexts) -> Quarantine | None:
    written = data.get("quarantine")
    if written is None:
        return None
    try:
        date.fromisoformat(written["until"])
    except ValueError:
        message = f"there is no day `{written['until']}`; write a date as in 2026-12-31"
        texts.problem("out-of-range", f"{at}.until", message)
    return Quarantine(written["until"], texts.text(written["reason"], f"{at}.reason"))


class CaseProblems:
    """Problems of one case. Nothing else is said about a text whose template could not be filled in."""

    def __init__(self, place: CasePlace, missing: Severity) -> None:
        self.place = place
        self.missing: Severity = missing
        self.found: list[Problem] = []

    def add(self, code: str, at: str, message: str, severity: Severity = "error", *, point: str | None = None) -> None:
        if code in UNFILLED or not self.found or not self.is_unfilled(at):
            self.found.append(self.place.problem(code, at, message, severity, point=point))

    def is_unfilled(self, at: str) -> bool:
        """Whether the text at a place could not be filled in."""
        return any(one.code in UNFILLED and (one.path == at or one.path.startswith(f"{at}.")) for one in self.found)

    def has_error_at(self, at: str) -> bool:
        return any(one.path == at and one.severity == "error" for one in self.found)

    def reporter(self, at: str) -> templates.Report:
        return lambda code, message: self.add(code, at, message, severity_of(code, self.missing))


class CaseVariables:
    """The variables of a case. A part that is read without them may be shared with other cases, so they are accessible
    only through `for_text`, which records their use."""

    def __init__(self, scope: templates.Scope) -> None:
        self._scope = scope
        self.were_used = False

    def put(self, name: str, value: str) -> None:
        """Set a variable for the texts that are read next."""
        self._scope = structs.replace(self._scope, names={**(self._scope.names or {}), name: value})

    def for_text(self, text: str = "{{") -> templates.Scope:
        """Values to fill in a text. Without a text, it is unknown whether it has expressions."""
        self.were_used = self.were_used or "{{" in text
        return self._scope


class CaseTexts:
    """Reads the texts of a case for `rejoinder.suite.checks`."""

    def __init__(self, place: CasePlace, scope: templates.Scope, context: SuiteContext) -> None:
        self.place = place
        self.variables = CaseVariables(scope)
        self.context = context
        self.finder = context.finder
        self.problems = CaseProblems(place, context.options.missing)
        self._quotable = templates.REPLIES_ALONE
        self.own_context: tuple[str, ...] = ()
        """The context of the case."""

    def use_context(self, context: tuple[str, ...] | None) -> None:
        """Set what `{{ context }}` stands for in later texts; None: the case's context."""
        texts = self.own_context if context is None else context
        if texts:
            self.variables.put("context", "\n\n".join(texts))

    def quoting(self, quotable: templates.Quotable) -> None:
        self._quotable = quotable

    def message(self, value: dict[str, Any], at: str) -> Message:
        return _message(value, at, self)

    def warn(self, code: str, at: str, message: str) -> None:
        self.problems.add(code, at, message, "warning")

    def problem(self, code: str, at: str, message: str) -> None:
        if code == "conflicting-keys" and self.problems.has_error_at(at):
            return  # what it says could not be read, so it may be no conflict
        self.problems.add(code, at, message)

    def written(self, value: float, at: str) -> str:
        """A number as written in the file: `1.10` is not 1.1."""
        source = self.place.source if at.startswith(self.place.at) else self.place.suite
        text = source.document.scalar_text(read_path(at)) if isinstance(source, Source) else None
        return text or templates.write_value(value)

    def text(self, value: str, at: str) -> str:
        if "{{" not in value:
            return value
        scope = self.variables.for_text(value)
        value = templates.mark_extracted(value, self._quotable.checks)
        return templates.expand(value, scope, self.problems.reporter(at))

    def words(self, value: Any, at: str) -> str:
        """A text, or the content of the file that holds it."""
        written, report = self._written_words(value, at)
        return templates.expand(written, self.variables.for_text(written), report)

    def _written_words(self, value: Any, at: str) -> tuple[str, templates.Report]:
        """The words before variables are filled in, and the report for their faults."""
        report = self.problems.reporter(at)
        if not isinstance(value, str):
            file = self.text(value["file"], f"{at}.file")
            try:
                value, report = self.context.files.read(file), in_file(report, file)
            except FileFault as fault:
                self.problems.add(fault.code, f"{at}.file", fault.message)
                value = NO_WORDS
        return value, report

    def follow_up(self, value: Any, at: str) -> tuple[str | Quote, ...]:
        written, report = self._written_words(value, at)
        pieces = templates.expand_follow_up(written, self.variables.for_text(written), report, self._quotable)
        if not any(isinstance(piece, Quote) or piece.strip() for piece in pieces):
            self.problem("empty-prompt", at, "this prompt is empty once its variables are filled in")
        return pieces

    def judge_prompt(self, value: str, at: str) -> JudgePrompt:
        """An evaluator's prompt: the file of that name if it exists, else the text itself; and its words before
        variables are filled in. An empty file has no pieces, and its name stands for its words."""
        scope = self.variables.for_text()
        found = None if "\n" in value else self.finder.find(value)
        if found is not None and found.is_file():
            return _judge_template(self, found, value, at)
        if _names_file(value):
            self.problem("file-not-found", at, self.finder.explain_missing(value))
            return (), value
        _look_for_unfilled(self, value, at, scope.names or {})
        return templates.expand_judge_prompt(value, scope, self.problems.reporter(at)), value

    def tree(self, value: Any, at: str) -> Any:
        return templates.expand_tree(value, self.variables.for_text(), self.problems.reporter(at))

    def tools(self, written: list[Any], at: str) -> tuple[Tool, ...]:
        def unknown(position: int, message: str) -> None:
            self.problem("unknown-tool-set", f"{at}[{position}]", message)

        return read_tools(self.tree(written, at), self.context.defaults.tool_sets, unknown)

    def read_data(self, value: str, at: str) -> Any:
        path = self.text(value, at)
        file = self.finder.find(path)
        if file is None:
            self.problem("file-not-found", at, self.finder.explain_missing(path))
            return None
        try:
            return read_document(self.finder.read(file), path)
        except FileFault as fault:
            self.problem(fault.code, at, fault.message)
        return None

    def known_checks(self) -> list[str] | None:
        return known_checks(self.finder.root)

    def target(self, value: str, at: str) -> str:
        name = self.text(value, at)
        if not self.context.options.only_format and not self.problems.is_unfilled(at):
            self.problems.found += self.context.targets.check(name, self.place, at)
        return name


def _names_file(prompt: str) -> bool:
    """Whether it is a path rather than a text."""
    is_word = not re.search(r"\s|\{\{", prompt)
    return is_word and ("/" in prompt or prompt.lower().endswith((".md", ".txt", ".prompt")))


def _judge_template(texts: CaseTexts, file: Path, written: str, at: str) -> JudgePrompt:
    try:
        text = texts.finder.read(file)
    except FileFault as fault:
        texts.problem(fault.code, at, fault.message)
        return (), written
    if not text.strip():
        message = f"the file {in_quotes(written)} is empty, so judges get nothing from it"
        texts.problems.add("empty-file", at, message, "warning")
        return (), written
    _look_for_unfilled(texts, text, at, {})
    return templates.read_judge_template(text), text


_OTHER_JUDGE_VARIABLES = {"expected_output": "reference_answer", "output": "candidate_answer"}
"""Variables of judges' prompts in later versions of AgentV."""


def _look_for_unfilled(texts: CaseTexts, template: str, at: str, names: Mapping[str, Any]) -> None:
    """Report unknown names in a judge's prompt. They stay unchanged; one that resembles a judge's variable is
    an error."""
    for name in re.findall(r"\{\{\s*(\w+)\s*\}\}", template):
        if name in JUDGE_VARIABLES or name in names:
            continue
        message = f"`{{{{{name}}}}}` is not a variable of a judge's prompt"
        if meant := _OTHER_JUDGE_VARIABLES.get(name) or nearest(name, JUDGE_VARIABLES):
            texts.problem("missing-variable", at, f"{message}; did you mean `{{{{{meant}}}}}`?")
        else:
            known = ", ".join(JUDGE_VARIABLES)
            message += f", so it stays as written; the variables are {known}"
            texts.problems.add("unfilled-braces", at, message, "warning")
