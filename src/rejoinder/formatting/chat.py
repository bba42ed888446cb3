"""`chat_prompt` and the messages that an LLM API receives. Role markers never reach an API from here."""

from __future__ import annotations

from rejoinder.formatting.markers import marker_for
from rejoinder.formatting.turns import Piece, Turn, render_file
from rejoinder.model import ChatMessage, Formatting


def guidelines_block(guidelines: str) -> str:
    return f"[[ ## Guidelines ## ]]\n\n{guidelines}" if guidelines else ""


def write_chat(
    turns: tuple[Turn, ...], options: Formatting, system_prompt: str, guidelines: str
) -> tuple[ChatMessage, ...]:
    """One system message in front (prompt, guidelines, system turns), then the other turns in order."""
    blocks = [system_prompt, guidelines_block(guidelines)]
    rest: list[ChatMessage] = []
    leading = True
    for turn in turns:
        leading = leading and turn.role == "system"
        content = _content(turn, options, leading)
        # A tool's result without words is a result all the same: an API refuses a call that has none.
        answers = turn.role == "tool" and turn.tool_call_id and not options.later_roles_as_assistant
        if not (content or turn.tool_calls or answers):
            continue
        if turn.role == "system" and (leading or not options.later_roles_as_assistant):
            blocks.append(content)
        elif turn.role in ("system", "tool") and options.later_roles_as_assistant:
            rest.append(ChatMessage("assistant", f"{marker_for(turn.role, options.marker)}\n{content}"))
        else:
            rest.append(ChatMessage(turn.role, content, turn.tool_calls, turn.tool_call_id))
    return (*_system(blocks), *rest)


def write_flat_request(question: str, system_prompt: str, guidelines: str) -> tuple[ChatMessage, ...]:
    """The list for a request without `chat_prompt`: at most one system message, and the question."""
    return (*_system([system_prompt, guidelines_block(guidelines)]), ChatMessage("user", question))


def _system(blocks: list[str]) -> list[ChatMessage]:
    text = "\n\n".join(block for block in blocks if block)
    return [ChatMessage("system", text)] if text else []


def _content(turn: Turn, options: Formatting, leading: bool) -> str:
    """Leading system messages keep their references under every profile that has a chat prompt."""
    if not (turn.visible or (turn.shown and (options.guideline_only_turns or leading))):
        return ""
    keep_attached = options.attached_in_chat or leading
    return "\n".join(_part(piece, options) for piece in turn.pieces if _stays(piece, keep_attached))


def _stays(piece: Piece, keep_attached: bool) -> bool:
    return piece.kind in ("text", "file") or (piece.kind == "attached" and keep_attached)


def _part(piece: Piece, options: Formatting) -> str:
    if piece.kind == "attached":
        return f"<Attached: {piece.path}>"
    return piece.text if piece.kind == "text" else render_file(piece.path, piece.text, options.chat_file_style)
