"""Data that the cases of a suite share: the options of loading, the suite's file, its targets, variables and
defaults.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct

from rejoinder.errors import Severity
from rejoinder.model import Control, FollowUps, LoadedWith
from rejoinder.model.given import GivenTarget
from rejoinder.model.tools import Tool
from rejoinder.project.files import Finder
from rejoinder.suite.pictures import PictureFiles
from rejoinder.suite.source import Source
from rejoinder.suite.target_names import NamedTargets
from rejoinder.suite.templates import Scope
from rejoinder.suite.text_files import TextFiles
from rejoinder.suite.tools import ToolSets


class LoadOptions(Struct, frozen=True, kw_only=True):
    """Options of the caller, in addition to the suite's own settings."""

    targets: tuple[str, ...] = ()
    """They win over every target that the suite names."""
    targets_file: Path | None = None
    given: GivenTarget | None = None
    """A target that the program gives beside the suite."""
    system_prompt: str | None = None
    """Replaces the system prompts of suite and case; an empty text means no system prompt."""
    only_format: bool = False
    """Nothing will be sent or graded, so neither targets nor checks are required."""
    asks: bool = True
    """Whether targets will be asked. If answers are recorded, their keys are not needed."""
    missing: Severity = "error"
    """The severity of a variable, secret or key that is missing in the environment."""
    labelled: bool = False
    """Whether the suite's judges are asked about labelled replies. These bring their own references."""

    @property
    def loaded_with(self) -> LoadedWith:
        path = None if self.targets_file is None else str(Path(self.targets_file).resolve())
        return LoadedWith(targets=self.targets, targets_file=path, system_prompt=self.system_prompt)

    @property
    def removes_system_prompts(self) -> bool:
        return self.system_prompt is not None and not self.system_prompt.strip()


class CaseDefaults(Struct, frozen=True, kw_only=True):
    """The suite's settings for all its cases."""

    targets: tuple[str, ...]
    judge_target: str | None
    system_prompt: str
    followups: FollowUps
    max_turns: int | None
    control: Control | None
    ready_followups: str | None
    conversation_checks: list[Any]
    """As written, like `checks`."""
    tags: tuple[str, ...]
    checks: Any
    """As written; each case has its own variables."""
    evaluators: list[Any]
    reply: Any
    """As written, like `checks`."""
    output_schema: Any
    """As written."""
    tools: tuple[Tool, ...]
    tool_sets: ToolSets
    max_tool_rounds: int
    words_known: bool
    """False if a variant is invalid: its prompt may be missing for that reason."""
    grading_known: bool
    """False if the suite's checks or evaluators are invalid; then no case is reported to have none."""


class WrittenVariant(Struct, frozen=True, kw_only=True):
    """A variant of a suite, without its settings: its texts are filled in with the variables of each case."""

    name: str
    at: str
    texts: Mapping[str, Any]
    """`system_prompt`, `prompt` and `prompt_prefix`, if they are given: texts, or files."""
    variables: Mapping[str, Any]
    """They win over variables of the suite, of cases and of rows. As written: they may name variables of a case."""
    replaced: Mapping[str, Any] = {}
    """The values of these variables without the variant, in the suite and the project."""


class SuiteContext(Struct, frozen=True, kw_only=True):
    source: Source
    file: str
    """The suite's file, relative to the project's root."""
    finder: Finder
    files: TextFiles
    """Texts from separate files."""
    pictures: PictureFiles
    targets: NamedTargets
    scope: Scope
    """For texts of the suite; a case adds its own variables as `names`."""
    has_variables: bool
    defaults: CaseDefaults
    options: LoadOptions
    variant: WrittenVariant | None = None
    """The variant that the cases are built for; None in a suite without variants."""
