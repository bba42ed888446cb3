"""Planned turns in their sent form: files inserted into their messages, and pictures referred to, as in a chat."""

from __future__ import annotations

from msgspec import structs

from rejoinder.formatting.turns import picture_reference, render_file
from rejoinder.model import Attached, AttachedPicture, Formatting, Mode, Plan, Quote, Words, trim


def format_plan(plan: Plan, options: Formatting, mode: Mode = "lm") -> Plan:
    """The plan with the files' texts in place of the files, and a reference for each picture."""
    pieces = (piece for step in plan.steps for words in step.says for piece in words.pieces)
    if not any(isinstance(piece, Attached | AttachedPicture) for piece in pieces):
        return plan
    steps = tuple(
        structs.replace(step, says=tuple(_with_files(words, options, mode) for words in step.says))
        for step in plan.steps
    )
    return structs.replace(plan, steps=steps)


def _with_files(words: Words, options: Formatting, mode: Mode) -> Words:
    pieces: list[str | Quote | Attached | AttachedPicture] = []
    for piece in words.pieces:
        if isinstance(piece, Attached):
            pieces.append(render_file(piece.path, trim(piece.text), options.chat_file_style))
        elif isinstance(piece, AttachedPicture):
            path = piece.resolved if mode == "agent" and options.agent_paths == "absolute" else None
            reference = picture_reference(path or piece.picture.name, mode)
            pieces.append(structs.replace(piece, reference=reference))
        else:
            pieces.append(piece)
    return Words(words.role, tuple(pieces))
