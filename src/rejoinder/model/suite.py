"""Suites, cases and targets after loading: the same for every form that a file can have."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal, TypeAlias, TypeGuard

from msgspec import Struct, field, structs

from rejoinder.model.calls import Price
from rejoinder.model.checks import Level
from rejoinder.model.formats import Formatting, Mode
from rejoinder.model.messages import Message, Part, TextPart
from rejoinder.model.plans import Condition, ConversationCheck, Plan, User
from rejoinder.model.providers import row_of
from rejoinder.model.tools import MOST_ROUNDS, Tool

FollowUps: TypeAlias = Literal["first", "all"]
Control: TypeAlias = Literal["afresh"]
"""What answering back is compared with: the first turn, asked again in a new conversation."""


class Target(Struct, frozen=True, kw_only=True):
    """A named provider with its settings. `settings` are as written: `${{ VAR }}` is filled in when used."""

    name: str
    provider: str
    settings: dict[str, Any] = field(default_factory=dict[str, Any])
    judge_target: str | None = None
    workers: int | None = None
    system_prompt: str | None = None
    file: str | None = None
    variant: str = ""
    """The variant of a suite whose settings it has, if they are not its own."""
    tools: tuple[Tool, ...] = ()
    """What it may call in every case that is put to it."""

    @property
    def mode(self) -> Mode:
        return "agent" if row_of(self.provider).agent else "lm"


class Variant(Struct, frozen=True, kw_only=True):
    """One of several wordings of a suite, on which every case is run. Its texts and variables are in the cases."""

    name: str
    settings: dict[str, Any] = field(default_factory=dict[str, Any])
    """They win over those of the targets that answer."""


class Quarantine(Struct, frozen=True):
    """A case that is known to be flaky: until a date it is run and shown, and decides nothing."""

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
    """The planned turns, the first among them."""
    user: User | None = None
    """Who thinks of the words after the first; `level` is then what the last reply has to satisfy."""
    conversation_checks: tuple[ConversationCheck, ...] = ()
    condition: Condition | None = None
    """Of a sharded task: how it is put."""
    number: int = 0
    """Its place among the suite's cases, from 1."""
    id_written: bool = False
    """Did the author write the id, or a part of it?"""
    file: str = ""
    """The file that it stands in, as seen from the project's root: the suite, or the data set of its row."""
    line: int = 0
    """Its line there, from 1."""
    name: str | None = None
    outcome: str | None = None
    expected_messages: tuple[Message, ...] = ()
    conversation_id: str | None = None
    targets: tuple[str, ...] = ()
    """The targets that answer; it is run on each of them."""
    judge_target: str | None = None
    system_prompt: str = ""
    tags: tuple[str, ...] = ()
    variables: dict[str, Any] = field(default_factory=dict[str, Any])
    metadata: dict[str, Any] = field(default_factory=dict[str, Any])
    followups: FollowUps = "first"
    max_turns: int | None = None
    control: Control | None = None
    repeat: int | None = None
    """How often it is run, unless the command says more."""
    needed: tuple[int, int] | None = None
    """(4, 5) where four of five trials have to pass; every trial, unless said."""
    quarantine: Quarantine | None = None
    variant: str = ""
    """The variant of the suite that it is built for, if the suite has any: cases of one number differ by it."""
    prompt_prefix: str = ""
    """The variant's words, which the first message of the user begins with."""
    tools: tuple[Tool, ...] = ()
    """What the model may call: the suite's tools, then the case's own."""
    max_tool_rounds: int = MOST_ROUNDS


def title_of(case: Case) -> str:
    """What a case is called in reports: its name, else the first line of the last text of the user; of a simulated
    user that thinks of its first words the goal."""
    if case.user is not None and not case.messages and not case.name:
        case = structs.replace(case, name=case.user.goal or case.user.persona)
    users = [message for message in case.messages if message.role == "user"]
    texts = (part.text for message in reversed(users or case.messages) for part in message.parts if _is_text(part))
    own = (text.removeprefix(case.prompt_prefix.strip()) for text in texts)
    lines = (case.name or next(own, case.id)).strip().splitlines()
    return lines[0].rstrip() if lines else case.id


def _is_text(part: Part) -> TypeGuard[TextPart]:
    return isinstance(part, TextPart) and bool(part.text.strip())


def for_target(case: Case, target: Target | None) -> Case:
    """The case as it is put to a target, whose system prompt is used if there is no other."""
    if target is None or not target.system_prompt or case.system_prompt.strip():
        return case
    return structs.replace(case, system_prompt=target.system_prompt)


@lru_cache(maxsize=256)
def file_in_project(path: str, root: str) -> str:
    """A suite's file as seen from the project's root: files of one name in two folders differ."""
    file = Path(path)
    return file.relative_to(root).as_posix() if file.is_relative_to(root) else file.name


class LoadedWith(Struct, frozen=True, kw_only=True):
    """What was added to the words of a suite's file when it was loaded. A run keeps it, so that `resume` loads the same
    suite."""

    targets: tuple[str, ...] = ()
    """They win over every target that the suite names."""
    targets_file: str | None = None
    system_prompt: str | None = None
    """Wins over the system prompts of suite and case; an empty one means none at all."""


class Suite(Struct, frozen=True, kw_only=True):
    """A loaded suite. `cases` can be walked any number of times; data sets are streamed, not held."""

    path: str
    root: str
    """The project's root folder."""
    cases: Iterable[Case]
    name: str | None = None
    description: str | None = None
    formatting: Formatting = field(default_factory=Formatting)
    targets: dict[str, Target] = field(default_factory=dict[str, Target])
    judge_target: str | None = None
    """The project's judge, where neither the case, the suite nor the target names one."""
    embedding_target: str | None = None
    """Its embeddings are compared by checks `semantic` that name no target."""
    variants: tuple[Variant, ...] = ()
    """Each case is there once for each of them."""
    budget_usd: float | None = None
    budget_tokens: int | None = None
    """What a run of the suite may use at most, where the command does not say."""
    threads: int | None = None
    """How many conversations the suite itself asks to run at the same time."""
    prices: dict[str, Price] = field(default_factory=dict[str, Price])
    """What the project says that tokens cost, by target, model or provider/model."""
    secrets: dict[str, str] = field(default_factory=dict[str, str])
    """Values that the suite used and that must never be shown, with the expression that names each."""
    loaded_with: LoadedWith = LoadedWith()
    files: dict[str, str] = field(default_factory=dict[str, str])
    """The files that hold texts of the suite, as seen from the project's root, each with the SHA-256 of its text."""
