"""The form of written conversations: options that an author may set, and profiles that set their defaults.

A profile is only data: formatting asks for a property, never for a profile's name.
"""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

from msgspec import Struct, structs

Mode: TypeAlias = Literal["lm", "agent"]
FileStyle: TypeAlias = Literal["xml", "header"]
ProfileName: TypeAlias = Literal["spec", "legacy", "agentv"]

DEFAULT_GUIDELINE_PATTERNS = ("**/*.instructions.md",)


class Formatting(Struct, frozen=True, kw_only=True):
    # What an author may set under `formatting:` (and `guideline_patterns:` beside it).
    profile: ProfileName = "spec"
    marker: str = "@[{Role}]:"
    marker_in_text: Literal["warn", "escape", "error"] = "warn"
    default_system_prompt: str = ""
    file_style: FileStyle = "xml"
    chat_file_style: FileStyle = "header"
    agent_paths: Literal["as_written", "absolute"] = "as_written"
    toon: bool = False
    guideline_patterns: tuple[str, ...] = DEFAULT_GUIDELINE_PATTERNS

    # What only a profile sets.
    guidelines_style: FileStyle = "header"
    guidelines_by_base_name: bool = False
    """Whether the header of a guideline shows the file's base name instead of its path as written."""
    system_text_counts: bool = True
    """Whether a system message counts as a turn with content for the marker decision."""
    flat_shows_all: bool = False
    """Whether the flat form holds all messages instead of only the visible one."""
    attached_in_flat: bool = True
    attached_in_turns: bool = True
    attached_in_chat: bool = True
    """Applies outside of leading system messages; those keep their references wherever turns do."""
    guideline_only_turns: bool = True
    has_chat_prompt: bool = True
    default_before_guidelines: bool = True
    """Whether a chat whose system message has only guidelines begins with the default system prompt."""
    later_roles_as_assistant: bool = False
    """Send later system messages and tool messages as marked assistant messages."""


_PROFILES: dict[ProfileName, Formatting] = {
    "spec": Formatting(),
    "legacy": Formatting(
        profile="legacy",
        marker="[{Role}]:",
        file_style="header",
        system_text_counts=False,
        flat_shows_all=True,
        attached_in_flat=False,
        attached_in_turns=False,
        attached_in_chat=False,
        has_chat_prompt=False,
    ),
    "agentv": Formatting(
        profile="agentv",
        default_system_prompt=(
            "You are a careful assistant. Follow all provided instructions and do not fabricate results."
        ),
        default_before_guidelines=False,
        chat_file_style="xml",
        guidelines_style="xml",
        guidelines_by_base_name=True,
        guideline_patterns=(),
        attached_in_flat=False,
        attached_in_chat=False,
        guideline_only_turns=False,
        later_roles_as_assistant=True,
    ),
}


def formatting_for(profile: ProfileName = "spec", **explicit: Any) -> Formatting:
    """The profile's options, overridden by the author's explicit ones."""
    return structs.replace(_PROFILES[profile], **explicit)
