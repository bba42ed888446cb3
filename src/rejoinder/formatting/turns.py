"""Turns made from messages: trimmed, with guideline files removed and every part rendered in its place.

Each message gives exactly one turn, by position, so that the same path used twice is never confused. A turn keeps its
parts separate until the very end, because transcript, flat form and chat join them differently.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Literal, TypeAlias

from msgspec import Struct

from rejoinder.formatting.globs import is_guideline_file
from rejoinder.model import (
    ROLES,
    Diagnostic,
    FilePart,
    FileStyle,
    Formatting,
    Message,
    Mode,
    Part,
    Role,
    TextPart,
    ToolCall,
    trim,
)

Kind: TypeAlias = Literal["text", "file", "attached", "empty"]


class Piece(Struct, frozen=True):
    """A processed part. An `empty` file is shown only to agents, in turns that are shown anyway."""

    kind: Kind
    text: str
    path: str = ""
    resolved: str | None = None


class Turn(Struct, frozen=True):
    role: Role
    pieces: tuple[Piece, ...]
    tool_calls: tuple[ToolCall, ...] = ()
    tool_call_id: str = ""

    @property
    def visible(self) -> bool:
        for piece in self.pieces:  # noqa: SIM110 - asked several times for every turn of every case
            if piece.kind in ("text", "file"):
                return True
        return False

    @property
    def shown(self) -> bool:
        """Whether it has any part. An empty file does not count."""
        return any(piece.kind != "empty" for piece in self.pieces)


class Turns(Struct, frozen=True):
    turns: tuple[Turn, ...]
    guidelines: tuple[Piece, ...]
    diagnostics: tuple[Diagnostic, ...]


def take_turns(messages: tuple[Message, ...], options: Formatting) -> Turns:
    guidelines: dict[str, Piece] = {}
    diagnostics: list[Diagnostic] = []
    turns: list[Turn] = []
    for message in messages:
        pieces: list[Piece] = []
        for part in message.parts:
            diagnostics.extend(_diagnose(part, options))
            piece = _process(part, options)
            if piece is None:
                continue
            if piece.kind == "attached":
                guidelines.setdefault(piece.resolved or piece.path, piece)
            pieces.append(piece)
        turns.append(Turn(message.role, tuple(pieces), message.tool_calls, message.tool_call_id))
    return Turns(tuple(turns), tuple(guidelines.values()), tuple(diagnostics))


def _process(part: Part, options: Formatting) -> Piece | None:
    if isinstance(part, TextPart):
        text = trim(part.text)
        return Piece("text", text) if text else None
    if not isinstance(part, FilePart) or part.text is None:
        return None
    text = trim(part.text)
    guideline = is_guideline_file(part, options.guideline_patterns)
    if not text:
        return None if guideline else Piece("empty", "", part.path, part.resolved)
    return Piece("attached" if guideline else "file", text, part.path, part.resolved)


def _diagnose(part: Part, options: Formatting) -> list[Diagnostic]:
    if isinstance(part, TextPart):
        text = trim(part.text)
    elif isinstance(part, FilePart):
        if (fault := diagnose_file(part)) is not None:
            return [fault]
        text = trim(part.text or "")
    else:
        return []
    return [Diagnostic("marker-in-text", part.at)] if has_marker_line(text, options.marker) else []


def diagnose_file(part: FilePart) -> Diagnostic | None:
    if part.text is None:
        return Diagnostic("file-not-found", part.at, part.path)
    return None if trim(part.text) else Diagnostic("empty-file", part.at, part.path)


def render_transcript_piece(piece: Piece, options: Formatting, mode: Mode) -> str | None:
    """A piece's form in `question`; None if it is not shown."""
    if piece.kind == "attached":
        return f"<Attached: {piece.path}>"
    if piece.kind in ("file", "empty") and mode == "agent":
        path = piece.resolved if options.agent_paths == "absolute" and piece.resolved else piece.path
        return f'<file: path="{path}">'
    if piece.kind == "empty":
        return None
    text = piece.text
    if options.marker_in_text == "escape":
        text = escape_marker_lines(text, options.marker)
    return text if piece.kind == "text" else render_file(piece.path, text, options.file_style)


def render_file(path: str, text: str, style: FileStyle) -> str:
    return f"=== {path} ===\n{text}" if style == "header" else f'<file path="{path}">\n{text}\n</file>'


def marker_for(role: Role, template: str) -> str:
    """The marker of a role: `{Role}` becomes `User`, `{role}` `user` and `{ROLE}` `USER`."""
    return template.replace("{Role}", role.capitalize()).replace("{role}", role).replace("{ROLE}", role.upper())


def has_marker_line(text: str, template: str) -> bool:
    return _marker_line(template).search(text) is not None


def escape_marker_lines(text: str, template: str) -> str:
    """A text with a backslash directly before each marker that begins a line."""
    return _marker_line(template).sub(lambda found: f"{found[1]}\\{found[2]}", text)


@lru_cache(maxsize=16)
def _marker_line(template: str) -> re.Pattern[str]:
    markers = "|".join(re.escape(marker_for(role, template)) for role in ROLES)
    return re.compile(rf"^([ \t]*)({markers})", re.IGNORECASE | re.MULTILINE)
