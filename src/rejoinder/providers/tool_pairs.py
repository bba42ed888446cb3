"""Calls of tools and their results, in pairs.

Every API refuses a result without its call, and a call without its result; they differ in what may stand between the
two. What an API would refuse goes as text, in the place where it stands: the result as the user's, the call as the
assistant's. So no word is lost and none changes its place.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, TypeAlias

from msgspec import structs

from rejoinder.model import ChatMessage

Where: TypeAlias = Literal["next message", "start of next turn", "next turn", "anywhere"]
"""Where an API wants the results of calls. Messages of one role in a row are one turn."""


def pair_calls(messages: Sequence[ChatMessage], where: Where) -> Sequence[ChatMessage]:
    """The messages with whatever has no counterpart as text."""
    for message in messages:
        if message.tool_calls or message.tool_call_id:
            return _paired(messages, where)
    return messages  # as most are


def _paired(messages: Sequence[ChatMessage], where: Where) -> Sequence[ChatMessage]:
    unanswered: dict[str, tuple[int, int]] = {}
    """The calls that can still be answered, each with its place: the message, and the call in it."""
    answered: set[tuple[int, int]] = set()
    results: set[int] = set()
    follows_assistant = False
    for number, message in enumerate(messages):
        answers = message.role == "tool" and message.tool_call_id in unanswered
        if _is_too_late(message, where, answers=answers, follows_assistant=follows_assistant):
            unanswered.clear()
        if answers:
            answered.add(unanswered.pop(message.tool_call_id))
            results.add(number)
        for place, call in enumerate(message.tool_calls):
            unanswered.setdefault(call.id, (number, place))
        follows_assistant = message.role == "assistant"
    sent = list(messages)
    for number, message in enumerate(messages):
        if message.tool_call_id and number not in results:
            sent[number] = structs.replace(message, tool_call_id="")
        elif message.tool_calls:
            sent[number] = _with_words(message, {place for one, place in answered if one == number})
    return sent


def _is_too_late(message: ChatMessage, where: Where, *, answers: bool, follows_assistant: bool) -> bool:
    """Does a message end the time in which the calls before it can be answered?"""
    if where == "anywhere":
        return False
    if where == "next message":
        return not answers
    if message.role == "assistant":
        return not follows_assistant  # after a turn of another role
    return where == "start of next turn" and not answers


def _with_words(message: ChatMessage, answered: set[int]) -> ChatMessage:
    """An assistant's message, whose calls are words but for those that are answered."""
    if len(answered) == len(message.tool_calls):
        return message
    calls = list(enumerate(message.tool_calls))
    words = [message.content, *(f"{call.name}({call.arguments})" for place, call in calls if place not in answered)]
    left = tuple(call for place, call in calls if place in answered)
    return structs.replace(message, content="\n\n".join(word for word in words if word), tool_calls=left)
