"""Turns made from messages: trimmed, with guideline files removed and every part rendered in its place.

Each message gives exactly one turn, by position, so that the same path used twice is never confused. A turn keeps its
parts separate until the very end, because transcript, flat form and chat join them differently.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Literal, TypeAlias

from msgspec import Struct, structs

from rejoinder.formatting.globs import is_guideline_file
from rejoinder.model import (
    ROLES,
    Diagnostic,
    FilePart,
    FileStyle,
    Formatting,
    ImagePart,
    Message,
    Mode,
    Part,
    Role,
    TextPart,
    ToolCall,
    trim,
)
from rejoinder.model.pictures import Picture

Kind: TypeAlias = Literal["text", "file", "image", "attached", "empty"]
_VISIBLE: tuple[Kind, ...] = ("text", "file", "image")


class Piece(Struct, frozen=True):
    """A processed part. An `empty` file is shown only to agents, in turns that are shown anyway."""

    kind: Kind
    text: str
    path: str = ""
    resolved: str | None = None
    picture: Picture | None = None


class Turn(Struct, frozen=True):
    role: Role
    pieces: tuple[Piece, ...]
    tool_calls: tuple[ToolCall, ...] = ()
    tool_call_id: str = ""

    @property
    def visible(self) -> bool:
        for piece in self.pieces:  # noqa: SIM110 - asked several times for every turn of every case
            if piece.kind in _VISIBLE:
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
    if isinstance(part, ImagePart):
        return part.picture and Piece("image", "", part.picture.name, part.resolved, part.picture)
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
    path = piece.resolved if options.agent_paths == "absolute" and piece.resolved else piece.path
    if piece.kind == "image":
        return picture_reference(piece.path if mode == "lm" else path, mode)
    if piece.kind in ("file", "empty") and mode == "agent":
        return f'<file: path="{path}">'
    if piece.kind == "empty":
        return None
    text = piece.text
    if options.marker_in_text == "escape":
        text = escape_marker_lines(text, options.marker)
    return text if piece.kind == "text" else render_file(piece.path, text, options.file_style)


def picture_reference(path: str, mode: Mode) -> str:
    """The words for a picture in a text. Agents get a path that they can open."""
    return f"<image: {path}>" if mode == "lm" else f'<image: path="{path}">'


class Joined:
    """A text that is put together from texts and pictures. It knows where each picture's reference is."""

    def __init__(self, between: str) -> None:
        self._between = between
        self._texts: list[str] = []
        self._pictures: list[Picture] = []
        self._length = 0

    def add(self, text: str, pictures: tuple[Picture, ...] = (), *, head: str = "") -> None:
        """Add a text; `head`: words before it."""
        start = self._length + (len(self._between) if self._texts else 0) + len(head)
        self._pictures += [picture.moved(start) for picture in pictures]
        self._texts.append(head + text)
        self._length = start + len(text)

    def add_piece(self, text: str, picture: Picture | None) -> None:
        """Add a text, or the reference to a picture."""
        self.add(text, () if picture is None else (structs.replace(picture, at=(0, len(text))),))

    @property
    def text(self) -> str:
        return self._between.join(self._texts)

    @property
    def pictures(self) -> tuple[Picture, ...]:
        return tuple(self._pictures)

    def __bool__(self) -> bool:
        return bool(self._texts)


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
