"""Planned turns in their sent form: files inserted into their messages, as in a chat."""

from __future__ import annotations

from msgspec import structs

from rejoinder.formatting.turns import render_file
from rejoinder.model import Attached, Formatting, Plan, Quote, Words, trim


def format_plan(plan: Plan, options: Formatting) -> Plan:
    """The plan with the files' texts in place of the files."""
    if not any(isinstance(piece, Attached) for step in plan.steps for words in step.says for piece in words.pieces):
        return plan
    steps = tuple(
        structs.replace(step, says=tuple(_with_files(words, options) for words in step.says)) for step in plan.steps
    )
    return structs.replace(plan, steps=steps)


def _with_files(words: Words, options: Formatting) -> Words:
    pieces: list[str | Quote | Attached] = [
        render_file(piece.path, trim(piece.text), options.chat_file_style) if isinstance(piece, Attached) else piece
        for piece in words.pieces
    ]
    return Words(words.role, tuple(pieces))
