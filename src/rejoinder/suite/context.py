"""What the cases of a suite share: the options of loading, the suite's file, its targets, variables and defaults."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct

from rejoinder.errors import Severity
from rejoinder.model import Control, FollowUps, LoadedWith
from rejoinder.model.tools import Tool
from rejoinder.project import Finder
from rejoinder.suite.source import Source
from rejoinder.suite.target_names import NamedTargets
from rejoinder.suite.templates import Scope
from rejoinder.suite.text_files import TextFiles


class LoadOptions(Struct, frozen=True, kw_only=True):
    """What the caller adds to a suite's own words."""

    targets: tuple[str, ...] = ()
    """They win over every target that the suite names."""
    targets_file: Path | None = None
    system_prompt: str | None = None
    """Wins over the system prompts of suite and case; an empty one means none at all."""
    only_format: bool = False
    """Nothing will be sent or graded: neither targets nor checks have to be there."""
    asks: bool = True
    """Will targets be asked? Where answers are recorded, their keys need not be there."""
    missing: Severity = "error"
    """How grave it is that the environment lacks a variable, a secret or a key."""
    labelled: bool = False
    """Are the suite's judges put to labelled replies? Those bring their own references."""

    @property
    def loaded_with(self) -> LoadedWith:
        path = None if self.targets_file is None else str(Path(self.targets_file).resolve())
        return LoadedWith(targets=self.targets, targets_file=path, system_prompt=self.system_prompt)

    @property
    def removes_system_prompts(self) -> bool:
        return self.system_prompt is not None and not self.system_prompt.strip()


class CaseDefaults(Struct, frozen=True, kw_only=True):
    """What the suite says for all its cases."""

    targets: tuple[str, ...]
    judge_target: str | None
    system_prompt: str
    followups: FollowUps
    max_turns: int | None
    control: Control | None
    ready_followups: str | None
    conversation_checks: list[Any]
    """As they are written, like `checks`."""
    tags: tuple[str, ...]
    checks: Any
    """As they are written; each case has its own variables."""
    evaluators: list[Any]
    tools: tuple[Tool, ...]
    max_tool_rounds: int
    grading_known: bool
    """False when the suite's checks or evaluators are at fault; then no case is said to have none."""


class WrittenVariant(Struct, frozen=True, kw_only=True):
    """A variant as a suite has it, but for its settings: its texts are filled in with the variables of each case."""

    name: str
    at: str
    texts: Mapping[str, Any]
    """`system_prompt` and `prompt_prefix`, if they are given: texts, or files."""
    variables: Mapping[str, Any]
    """They win over those of the suite, of cases and of rows."""


class SuiteContext(Struct, frozen=True, kw_only=True):
    source: Source
    file: str
    """The suite's file as seen from the project's root."""
    finder: Finder
    files: TextFiles
    """The texts that stand in files of their own."""
    targets: NamedTargets
    scope: Scope
    """For texts of the suite; a case adds its own variables as `names`."""
    has_variables: bool
    defaults: CaseDefaults
    options: LoadOptions
    variant: WrittenVariant | None = None
    """The variant that the cases are built for; None in a suite that has none."""
