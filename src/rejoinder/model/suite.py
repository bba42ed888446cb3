"""Suites, cases and targets after loading: the same values for every file format."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal, TypeAlias, TypeGuard

from msgspec import Struct, field, structs

from rejoinder.model.calls import Price
from rejoinder.model.checks import JsonSchema, Level, ReplyPart
from rejoinder.model.formats import Formatting, Mode
from rejoinder.model.messages import Message, Part, TextPart
from rejoinder.model.plans import Condition, ConversationCheck, Plan, User
from rejoinder.model.providers import row_of
from rejoinder.model.tools import MOST_ROUNDS, Tool, join_tools

FollowUps: TypeAlias = Literal["first", "all"]
Control: TypeAlias = Literal["afresh", "clean"]
"""The control that results are compared with. `afresh`: the first turn, asked again in a new conversation, for
follow-ups. `clean`: the whole conversation once more, without the texts that `says` puts into answers of tools."""

COMMANDS_OF_TARGETS = ("start", "auth")
"""Settings of targets of any provider that hold a command."""


class Target(Struct, frozen=True, kw_only=True):
    """A named provider with its settings. `settings` are kept as written: `${{ VAR }}` is filled in when used."""

    name: str
    provider: str
    settings: dict[str, Any] = field(default_factory=dict[str, Any])
    judge_target: str | None = None
    workers: int | None = None
    system_prompt: str | None = None
    output_schema: str | None = None
    """The JSON Schema that its replies are made to fit, as JSON text."""
    file: str | None = None
    variant: str = ""
    """The variant of a suite whose settings replace its own."""
    tools: tuple[Tool, ...] = ()
    """Tools that it may call in every case."""

    @property
    def mode(self) -> Mode:
        return "agent" if row_of(self.provider).agent else "lm"

    @property
    def runs_code(self) -> bool:
        """Whether it runs code of the project, or a command of its own, which `--no-code` refuses."""
        return row_of(self.provider).runs_code or any(self.settings.get(name) for name in COMMANDS_OF_TARGETS)


class Variant(Struct, frozen=True, kw_only=True):
    """One of several wordings of a suite, on which every case is run. Its texts and variables are in the cases."""

    name: str
    settings: dict[str, Any] = field(default_factory=dict[str, Any])
    """They win over the settings of the targets that answer."""


class Quarantine(Struct, frozen=True):
    """A case that is known to be flaky: until a date it is run and shown, but decides nothing."""

    until: str
    """The first day on which it counts again, as in 2026-12-31."""
    reason: str

    def is_over(self, day: str) -> bool:
        return day >= self.until


class Case(Struct, frozen=True, kw_only=True, omit_defaults=True):
    id: str
    at: str
    messages: tuple[Message, ...]
    level: Level
    """Level 0, of the first turn: the suite's checks, the case's checks, then its evaluators."""
    plan: Plan | None = None
    """The planned turns, including the first."""
    user: User | None = None
    """The simulated user, who writes the words after the first; `level` then holds the conditions for the last
    reply."""
    conversation_checks: tuple[ConversationCheck, ...] = ()
    reply: ReplyPart | None = None
    """The part of its replies that is checked; the whole by default."""
    output_schema: JsonSchema | None = None
    """The JSON Schema that is sent with each request. It is also a check of every level."""
    condition: Condition | None = None
    """For a sharded task: its form."""
    number: int = 0
    """Its place among the suite's cases, from 1."""
    id_written: bool = False
    """Whether the author wrote any part of the id."""
    file: str = ""
    """The file that contains it, relative to the project's root: the suite, or the data set of its row."""
    line: int = 0
    """Its line there, from 1."""
    name: str | None = None
    outcome: str | None = None
    context: tuple[str, ...] = ()
    """The texts that a good answer is based on, such as retrieved passages."""
    expected_messages: tuple[Message, ...] = ()
    conversation_id: str | None = None
    targets: tuple[str, ...] = ()
    """The targets that answer; the case is run on each of them."""
    judge_target: str | None = None
    system_prompt: str = ""
    tags: tuple[str, ...] = ()
    variables: dict[str, Any] = field(default_factory=dict[str, Any])
    metadata: dict[str, Any] = field(default_factory=dict[str, Any])
    followups: FollowUps = "first"
    max_turns: int | None = None
    control: Control | None = None
    repeat: int | None = None
    """The number of trials, unless the command sets it."""
    needed: tuple[int, int] | None = None
    """(4, 5) if four of five trials must pass; every trial by default."""
    quarantine: Quarantine | None = None
    variant: str = ""
    """The variant of the suite that it is built for, if the suite has any: cases with the same number differ by it."""
    prompt_prefix: str = ""
    """The variant's words at the start of the first user message."""
    tools: tuple[Tool, ...] = ()
    """Tools that the model may call: the suite's, then the case's own."""
    max_tool_rounds: int = MOST_ROUNDS

    @property
    def all_tools(self) -> tuple[Tool, ...]:
        """Its tools, and the tools of its planned turns."""
        tools = self.tools
        for step in self.plan.steps if self.plan is not None else ():
            tools = join_tools(tools, step.tools or ())
        return tools

    def __repr__(self) -> str:
        variant = f" with {self.variant!r}" if self.variant else ""
        return f"<Case {self.id!r}{variant}, line {self.line}>"


def title_of(case: Case) -> str:
    """A case's name in reports: its name, else the first line of the user's last text; for a simulated user that writes
    its own first words, the goal."""
    if case.user is not None and not case.messages and not case.name:
        case = structs.replace(case, name=case.user.goal or case.user.persona)
    users = [message for message in case.messages if message.role == "user"]
    texts = (part.text for message in reversed(users or case.messages) for part in message.parts if _is_text(part))
    own = (text.removeprefix(case.prompt_prefix.strip()) for text in texts)
    lines = (case.name or next(own, case.id)).strip().splitlines()
    return lines[0].rstrip() if lines else case.id


def _is_text(part: Part) -> TypeGuard[TextPart]:
    return isinstance(part, TextPart) and bool(part.text.strip())


@lru_cache(maxsize=256)
def file_in_project(path: str, root: str) -> str:
    """A suite's file relative to the project's root: files with the same name in two folders differ."""
    file = Path(path)
    return file.relative_to(root).as_posix() if file.is_relative_to(root) else file.name


class LoadedWith(Struct, frozen=True, kw_only=True):
    """Options that were added to a suite's file when it was loaded. A run stores them, so that `resume` loads the same
    suite."""

    targets: tuple[str, ...] = ()
    """They replace every target that the suite names."""
    targets_file: str | None = None
    system_prompt: str | None = None
    """Replaces the system prompts of suite and case; an empty text means no system prompt."""


class Suite(Struct, frozen=True, kw_only=True):
    """A loaded suite. `cases` can be iterated over any number of times; data sets are streamed, not held in memory."""

    path: str
    root: str
    """The project's root folder."""
    text: str = ""
    """The YAML that it was read from."""
    folder: str | None = None
    """For a suite that is not a file: the folder in which its relative paths are looked up. `path` is this folder and
    a name; there need not be such a file."""
    cases: Iterable[Case]
    name: str | None = None
    description: str | None = None
    formatting: Formatting = field(default_factory=Formatting)
    targets: dict[str, Target] = field(default_factory=dict[str, Target])
    judge_target: str | None = None
    """The project's judge, if neither the case, the suite nor the target names one."""
    embedding_target: str | None = None
    """Its embeddings are compared by `semantic` checks that name no target."""
    variants: tuple[Variant, ...] = ()
    """Each case exists once per variant."""
    budget_usd: float | None = None
    budget_tokens: int | None = None
    """The budget of a run of the suite, unless the command sets it."""
    threads: int | None = None
    """The suite's own limit of simultaneous conversations."""
    prices: dict[str, Price] = field(default_factory=dict[str, Price])
    """The project's prices of tokens, by target, model or provider/model."""
    secrets: dict[str, str] = field(default_factory=dict[str, str])
    """Secret values that the suite used, with the expression that names each."""
    loaded_with: LoadedWith = LoadedWith()
    callables: dict[str, Any] = field(default_factory=dict[str, Any])
    """The Python objects of targets that a program gave, by name. They are never stored."""
    files: dict[str, str] = field(default_factory=dict[str, str])
    """The files of the suite's texts, relative to the project's root, each with the SHA-256 of its text."""
    pictures: dict[str, str] = field(default_factory=dict[str, str])
    """The file of each picture of its cases, by the picture's digest. It is never stored: a run folder has copies."""
