"""`question`: the conversation as one text, for logs, agents and judges. Flat or marked, never in between."""

from __future__ import annotations

import re

from rejoinder.formatting.markers import marker_for
from rejoinder.formatting.turns import Turn, render_file, render_transcript_piece
from rejoinder.formatting.turns import Turns as TurnList
from rejoinder.model import ChatMessage, Formatting, Mode


def needs_markers(turns: tuple[Turn, ...], options: Formatting) -> bool:
    """One rule, on processed content: an assistant or tool message, or more than one turn with content."""
    visible = 0
    for turn in turns:
        if turn.role in ("assistant", "tool"):
            return True
        if options.system_text_counts or turn.role != "system":
            visible += turn.visible
    return visible > 1


def marked_turns(turns: tuple[Turn, ...], options: Formatting, mode: Mode) -> list[ChatMessage]:
    """The turns of a marked transcript, without their markers."""
    shown: list[ChatMessage] = []
    for turn in turns:
        parts = _parts(turn, options, mode, attached=options.attached_in_turns)
        if parts and (turn.visible or options.guideline_only_turns):
            shown.append(ChatMessage(turn.role, "\n".join(parts)))
    return shown


def flat_turns(turns: tuple[Turn, ...], options: Formatting, mode: Mode) -> list[ChatMessage]:
    """The turns of the flat form: the visible message, or every reference when nothing is visible."""
    visible = [turn for turn in turns if turn.visible]
    if not visible:  # an empty file is no content, so not even its reference is shown alone
        turns = tuple(Turn(turn.role, tuple(p for p in turn.pieces if p.kind == "attached")) for turn in turns)
    chosen = turns if options.flat_shows_all or not visible else visible
    shown: list[ChatMessage] = []
    for turn in chosen:
        parts = _parts(turn, options, mode, attached=options.attached_in_flat)
        if parts:
            shown.append(ChatMessage(turn.role, "\n\n".join(parts)))
    return shown


def write_transcript(turns: list[ChatMessage], options: Formatting) -> str:
    return "\n\n".join(f"{marker_for(turn.role, options.marker)}\n{turn.content}" for turn in turns)


def write_flat(turns: list[ChatMessage]) -> str:
    return "\n\n".join(turn.content for turn in turns)


def write_guidelines(turns: TurnList, options: Formatting) -> str:
    style = options.guidelines_style
    return "\n\n".join(render_file(_header(piece.path, options), piece.text, style) for piece in turns.guidelines)


def _header(path: str, options: Formatting) -> str:
    return re.split(r"[/\\]", path)[-1] if options.guidelines_by_base_name else path


def _parts(turn: Turn, options: Formatting, mode: Mode, *, attached: bool) -> list[str]:
    pieces = turn.pieces if attached else tuple(piece for piece in turn.pieces if piece.kind != "attached")
    if all(piece.kind == "empty" for piece in pieces):  # a reference to nothing does not make a turn
        return []
    rendered = (render_transcript_piece(piece, options, mode) for piece in pieces)
    return [part for part in rendered if part is not None]
