"""How conversations are written down: the options an author may set and the profiles that set their defaults.

A profile is nothing but data: formatting asks for a property, never for a profile's name.
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
    """Does the header of a guideline show the base name of the file instead of its path as written?"""
    system_text_counts: bool = True
    """Does a system message count when turns with content are counted for the marker decision?"""
    flat_shows_all: bool = False
    """Does the flat form hold all messages, or only the visible one?"""
    attached_in_flat: bool = True
    attached_in_turns: bool = True
    attached_in_chat: bool = True
    """Outside leading system messages; those keep their references wherever turns do."""
    guideline_only_turns: bool = True
    has_chat_prompt: bool = True
    default_before_guidelines: bool = True
    """Does a chat whose system message has nothing but guidelines begin with the default system prompt?"""
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
    """The profile's options, with what the author set explicitly on top."""
    return structs.replace(_PROFILES[profile], **explicit)
