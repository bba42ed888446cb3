"""A formatted case: everything sent or logged about its first request, computed once and purely.

`question` is the conversation as one text, for logs, agents and judges: flat or marked, never in between. An LLM API
receives messages, never role markers. In the reference answer, files have the form of the question for an LLM API, in
every mode, so that a judge can distinguish them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from msgspec import structs

from rejoinder.formatting.turns import (
    Joined,
    Piece,
    Turn,
    Turns,
    diagnose_file,
    has_marker_line,
    marker_for,
    picture_reference,
    render_file,
    render_transcript_piece,
    take_turns,
)
from rejoinder.model import (
    Case,
    ChatMessage,
    Diagnostic,
    FilePart,
    Formatting,
    Message,
    Mode,
    Part,
    Prompt,
    TextPart,
    trim,
)
from rejoinder.model.pictures import Picture


def format_case(case: Case, options: Formatting, mode: Mode = "lm") -> Prompt:
    """The case's first request, as a transcript and as chat messages; and its reference answer."""
    prompt = _format_messages(case, options, mode)
    if not case.expected_messages:
        return prompt
    expected = expected_messages(case, options)
    return structs.replace(prompt, expected_messages=expected, reference_answer=reference_answer(expected))


def _format_messages(case: Case, options: Formatting, mode: Mode) -> Prompt:
    lone = lone_text(case)
    if lone is not None and options.marker_in_text != "escape" and not options.toon:
        return _format_lone_text(case, lone, options)
    turns = take_turns(case.messages, options)
    marked = needs_markers(turns.turns, options)
    shown = (marked_turns if marked else flat_turns)(turns.turns, options, mode)
    joined = join_transcript(shown, options) if marked else join_flat(shown)
    question = joined.text
    guidelines = write_guidelines(turns, options)

    own_prompt = trim(case.system_prompt)
    prompt = own_prompt or _default_prompt(turns, options)
    has_chat = marked and options.has_chat_prompt and mode == "lm"
    chat = write_chat(turns.turns, options, own_prompt, guidelines) if has_chat else None
    if chat is None:
        messages = write_flat_request(question, prompt, guidelines, joined.pictures)
    elif prompt == own_prompt or (guidelines and not options.default_before_guidelines):
        messages = chat
    else:
        messages = write_chat(turns.turns, options, prompt, guidelines)
    return Prompt(
        context=case.context,
        question=question,
        role_markers=marked,
        guidelines=guidelines,
        chat_prompt=chat,
        messages=messages,
        turns=tuple(shown),
        diagnostics=turns.diagnostics + _nothing_visible(case, turns, marked),
        question_toon=to_toon(shown) if options.toon else None,
    )


def lone_text(case: Case) -> TextPart | None:
    """The text of a case that is only one user message, as most are: few decisions are needed."""
    if len(case.messages) != 1 or case.messages[0].role != "user" or len(case.messages[0].parts) != 1:
        return None
    part = case.messages[0].parts[0]
    return part if isinstance(part, TextPart) and trim(part.text) else None


def _format_lone_text(case: Case, part: TextPart, options: Formatting) -> Prompt:
    text = trim(part.text)
    system_prompt = trim(case.system_prompt) or trim(options.default_system_prompt)
    marked = has_marker_line(text, options.marker)
    return Prompt(
        context=case.context,
        question=text,
        role_markers=False,
        guidelines="",
        chat_prompt=None,
        messages=write_flat_request(text, system_prompt, ""),
        turns=(ChatMessage("user", text),),
        diagnostics=(Diagnostic("marker-in-text", part.at),) if marked else (),
    )


def diagnose_case(case: Case, turns: Turns, options: Formatting) -> tuple[Diagnostic, ...]:
    """The diagnostics of `format_case` without the formatting."""
    return turns.diagnostics + _nothing_visible(case, turns, needs_markers(turns.turns, options))


def _default_prompt(turns: Turns, options: Formatting) -> str:
    """The configured default prompt, unless a system message has its own words. Guidelines do not count as such."""
    if any(turn.role == "system" and turn.visible for turn in turns.turns):
        return ""
    return trim(options.default_system_prompt)


def _nothing_visible(case: Case, turns: Turns, marked: bool) -> tuple[Diagnostic, ...]:
    if marked or any(turn.visible for turn in turns.turns):
        return ()
    return (Diagnostic("no-visible-content", f"{case.at}.input_messages"),)


def to_toon(messages: Iterable[ChatMessage | Mapping[str, str]]) -> str:
    """The TOON text of a list of messages, each with `role` and `content`: a header, then one row per message."""
    from toon_format import encode

    rows = [
        {"role": message.role, "content": message.content}
        if isinstance(message, ChatMessage)
        else {"role": message["role"], "content": message["content"]}
        for message in messages
    ]
    return encode(rows)


def expected_messages(case: Case, options: Formatting) -> tuple[ChatMessage, ...]:
    return tuple(ChatMessage(message.role, _expected_content(message, options)) for message in case.expected_messages)


def reference_answer(expected: tuple[ChatMessage, ...]) -> str:
    """The last assistant message, or the last message if no assistant speaks."""
    answers = [message for message in expected if message.role == "assistant"] or list(expected)
    return answers[-1].content if answers else ""


def diagnose_reference(case: Case) -> list[Diagnostic]:
    """Diagnostics of the expected messages, which judges see."""
    if not case.expected_messages:
        return []
    parts = (part for message in case.expected_messages for part in message.parts)
    faults = [fault for part in parts if isinstance(part, FilePart) and (fault := diagnose_file(part))]
    if all(message.role != "assistant" for message in case.expected_messages):
        faults.append(Diagnostic("no-assistant-message", case.expected_messages[-1].at))
    return faults


def _expected_content(message: Message, options: Formatting) -> str:
    has_files = any(isinstance(part, FilePart) for part in message.parts)
    texts = (_expected_text(part, options) for part in message.parts)
    return ("\n\n" if has_files else "\n").join(text for text in texts if text)


def _expected_text(part: Part, options: Formatting) -> str:
    if not isinstance(part, TextPart | FilePart):
        return ""
    text = trim(part.text or "")
    return render_file(part.path, text, options.file_style) if text and isinstance(part, FilePart) else text


def needs_markers(turns: tuple[Turn, ...], options: Formatting) -> bool:
    """Whether markers are needed. One rule, on processed content: an assistant or tool message, or more than one turn
    with content."""
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
        parts = _parts(turn, options, mode, "\n", attached=options.attached_in_turns)
        if parts and (turn.visible or options.guideline_only_turns):
            shown.append(ChatMessage(turn.role, parts.text, pictures=parts.pictures))
    return shown


def flat_turns(turns: tuple[Turn, ...], options: Formatting, mode: Mode) -> list[ChatMessage]:
    """The turns of the flat form: the visible message, or every reference if none is visible."""
    visible = [turn for turn in turns if turn.visible]
    if not visible:  # an empty file has no content, so its reference is not shown on its own
        turns = tuple(Turn(turn.role, tuple(p for p in turn.pieces if p.kind == "attached")) for turn in turns)
    chosen = turns if options.flat_shows_all or not visible else visible
    shown: list[ChatMessage] = []
    for turn in chosen:
        parts = _parts(turn, options, mode, "\n\n", attached=options.attached_in_flat)
        if parts:
            shown.append(ChatMessage(turn.role, parts.text, pictures=parts.pictures))
    return shown


def write_transcript(turns: list[ChatMessage], options: Formatting) -> str:
    return join_transcript(turns, options).text


def join_transcript(turns: list[ChatMessage], options: Formatting) -> Joined:
    joined = Joined("\n\n")
    for turn in turns:
        joined.add(turn.content, turn.pictures, head=f"{marker_for(turn.role, options.marker)}\n")
    return joined


def join_flat(turns: list[ChatMessage]) -> Joined:
    joined = Joined("\n\n")
    for turn in turns:
        joined.add(turn.content, turn.pictures)
    return joined


def write_guidelines(turns: Turns, options: Formatting) -> str:
    style = options.guidelines_style
    return "\n\n".join(render_file(_header(piece.path, options), piece.text, style) for piece in turns.guidelines)


def _header(path: str, options: Formatting) -> str:
    return re.split(r"[/\\]", path)[-1] if options.guidelines_by_base_name else path


def _parts(turn: Turn, options: Formatting, mode: Mode, between: str, *, attached: bool) -> Joined:
    pieces = turn.pieces if attached else tuple(piece for piece in turn.pieces if piece.kind != "attached")
    joined = Joined(between)
    if all(piece.kind == "empty" for piece in pieces):  # a reference to nothing does not make a turn
        return joined
    for piece in pieces:
        rendered = render_transcript_piece(piece, options, mode)
        if rendered is not None:
            joined.add_piece(rendered, piece.picture)
    return joined


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
        joined = _content(turn, options, leading)
        content = joined.text
        # A tool's result without words is a result all the same: an API refuses a call that has none.
        answers = turn.role == "tool" and turn.tool_call_id and not options.later_roles_as_assistant
        if not (content or turn.tool_calls or answers):
            continue
        if turn.role == "system" and (leading or not options.later_roles_as_assistant):
            blocks.append(content)
        elif turn.role in ("system", "tool") and options.later_roles_as_assistant:
            rest.append(ChatMessage("assistant", f"{marker_for(turn.role, options.marker)}\n{content}"))
        else:
            rest.append(ChatMessage(turn.role, content, turn.tool_calls, turn.tool_call_id, joined.pictures))
    return (*_system(blocks), *rest)


def write_flat_request(
    question: str, system_prompt: str, guidelines: str, pictures: tuple[Picture, ...] = ()
) -> tuple[ChatMessage, ...]:
    """The list for a request without `chat_prompt`: at most one system message, and the question."""
    system = _system([system_prompt, guidelines_block(guidelines)])
    return (*system, ChatMessage("user", question, pictures=pictures))


def _system(blocks: list[str]) -> list[ChatMessage]:
    text = "\n\n".join(block for block in blocks if block)
    return [ChatMessage("system", text)] if text else []


def _content(turn: Turn, options: Formatting, leading: bool) -> Joined:
    """A turn's content. Leading system messages keep their references under every profile that has a chat prompt."""
    joined = Joined("\n")
    if not (turn.visible or (turn.shown and (options.guideline_only_turns or leading))):
        return joined
    keep_attached = options.attached_in_chat or leading
    for piece in turn.pieces:
        if _stays(piece, keep_attached):
            joined.add_piece(_part(piece, options), piece.picture)
    return joined


def _stays(piece: Piece, keep_attached: bool) -> bool:
    return piece.kind in ("text", "file", "image") or (piece.kind == "attached" and keep_attached)


def _part(piece: Piece, options: Formatting) -> str:
    if piece.kind == "attached":
        return f"<Attached: {piece.path}>"
    if piece.kind == "image":
        return picture_reference(piece.path, "lm")
    return piece.text if piece.kind == "text" else render_file(piece.path, piece.text, options.chat_file_style)
