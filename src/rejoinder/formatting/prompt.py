"""A case, formatted: everything that is sent or logged about its first request, computed once and purely."""

from __future__ import annotations

from msgspec import structs

from rejoinder.formatting.chat import write_chat, write_flat_request
from rejoinder.formatting.markers import has_marker_line
from rejoinder.formatting.question import (
    flat_turns,
    marked_turns,
    needs_markers,
    write_flat,
    write_guidelines,
    write_transcript,
)
from rejoinder.formatting.reference import expected_messages, reference_answer
from rejoinder.formatting.toon import to_toon
from rejoinder.formatting.turns import Turns, take_turns
from rejoinder.model import Case, ChatMessage, Diagnostic, Formatting, Mode, Prompt, TextPart, trim


def format_case(case: Case, options: Formatting, mode: Mode = "lm") -> Prompt:
    """What the case's first request looks like, as a transcript and as chat messages; and its reference answer."""
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
    question = write_transcript(shown, options) if marked else write_flat(shown)
    guidelines = write_guidelines(turns, options)

    own_prompt = trim(case.system_prompt)
    prompt = own_prompt or _default_prompt(turns, options)
    has_chat = marked and options.has_chat_prompt and mode == "lm"
    chat = write_chat(turns.turns, options, own_prompt, guidelines) if has_chat else None
    if chat is None:
        messages = write_flat_request(question, prompt, guidelines)
    elif prompt == own_prompt:
        messages = chat
    else:
        messages = write_chat(turns.turns, options, prompt, guidelines)
    return Prompt(
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
    """The text of a case that is nothing but one message of the user, as most are: there is little to decide."""
    if len(case.messages) != 1 or case.messages[0].role != "user" or len(case.messages[0].parts) != 1:
        return None
    part = case.messages[0].parts[0]
    return part if isinstance(part, TextPart) and trim(part.text) else None


def _format_lone_text(case: Case, part: TextPart, options: Formatting) -> Prompt:
    text = trim(part.text)
    system_prompt = trim(case.system_prompt) or trim(options.default_system_prompt)
    marked = has_marker_line(text, options.marker)
    return Prompt(
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
    """The configured default, unless a system message speaks for itself. Guidelines alone do not count."""
    if any(turn.role == "system" and turn.visible for turn in turns.turns):
        return ""
    return trim(options.default_system_prompt)


def _nothing_visible(case: Case, turns: Turns, marked: bool) -> tuple[Diagnostic, ...]:
    if marked or any(turn.visible for turn in turns.turns):
        return ()
    return (Diagnostic("no-visible-content", f"{case.at}.input_messages"),)
