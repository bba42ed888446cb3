"""Conversations as TOON, the token-oriented notation, for result files that are fed back to models."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from rejoinder.model import ChatMessage


def to_toon(messages: Iterable[ChatMessage | Mapping[str, str]]) -> str:
    """The TOON text of a list of messages, each with `role` and `content`: a header, then a row a message."""
    from toon_format import encode

    rows = [
        {"role": message.role, "content": message.content}
        if isinstance(message, ChatMessage)
        else {"role": message["role"], "content": message["content"]}
        for message in messages
    ]
    return encode(rows)
