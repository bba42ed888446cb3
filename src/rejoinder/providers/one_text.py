"""Messages for a program that reads one text."""

from __future__ import annotations

from collections.abc import Sequence

from rejoinder.formatting.prompt import write_transcript
from rejoinder.model import ChatMessage, Formatting


def one_text(messages: Sequence[ChatMessage]) -> str:
    """Messages for a program that reads one text: one message unchanged, several as a transcript."""
    if all(message.role == "system" for message in messages[:-1]):
        return "\n\n".join(message.content for message in messages)
    return write_transcript(list(messages), Formatting())
