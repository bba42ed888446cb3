"""The reference answer: what judges and code evaluators see of a case's `expected_messages`.

Files stand in it as in the question for an LLM API, in every mode, so that a judge can tell one file from the next.
"""

from __future__ import annotations

from rejoinder.formatting.turns import diagnose_file, render_file
from rejoinder.model import Case, ChatMessage, Diagnostic, FilePart, Formatting, Message, Part, TextPart, trim


def expected_messages(case: Case, options: Formatting) -> tuple[ChatMessage, ...]:
    return tuple(ChatMessage(message.role, _content(message, options)) for message in case.expected_messages)


def reference_answer(expected: tuple[ChatMessage, ...]) -> str:
    """The last assistant message, or the last message where no assistant speaks."""
    answers = [message for message in expected if message.role == "assistant"] or list(expected)
    return answers[-1].content if answers else ""


def diagnose_reference(case: Case) -> list[Diagnostic]:
    """What an author should know about the expected messages, which judges are shown."""
    if not case.expected_messages:
        return []
    parts = (part for message in case.expected_messages for part in message.parts)
    faults = [fault for part in parts if isinstance(part, FilePart) and (fault := diagnose_file(part))]
    if all(message.role != "assistant" for message in case.expected_messages):
        faults.append(Diagnostic("no-assistant-message", case.expected_messages[-1].at))
    return faults


def _content(message: Message, options: Formatting) -> str:
    has_files = any(isinstance(part, FilePart) for part in message.parts)
    texts = (_text(part, options) for part in message.parts)
    return ("\n\n" if has_files else "\n").join(text for text in texts if text)


def _text(part: Part, options: Formatting) -> str:
    if not isinstance(part, TextPart | FilePart):
        return ""
    text = trim(part.text or "")
    return render_file(part.path, text, options.file_style) if text and isinstance(part, FilePart) else text
