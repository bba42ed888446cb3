"""Conversations that already happened, in one form for every file format."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import TypeVar

from msgspec import Struct

from rejoinder.model import NO_USAGE, ChatMessage, Reply, Usage
from rejoinder.model.messages import trim
from rejoinder.words.numbers import count

Value = TypeVar("Value")
MOST_TYPES = 20
"""Maximum types that are listed by name."""
_LONGEST_TYPE = 80
"""Characters of a type in a message."""


class Unknown(Struct, frozen=True):
    """Events of one type that a reader does not understand. They are kept and reported."""

    type: str
    raw: tuple[str, ...]
    """Each as JSON text."""

    @property
    def count(self) -> int:
        return len(self.raw)


class Said(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One message, with the recording's data about it. Tool calls carry their results."""

    message: ChatMessage
    at: float | None = None
    """The time of recording, in seconds since 1970."""
    usage: Usage | None = None
    cost: float | None = None
    """In US dollars."""
    latency_s: float | None = None
    model: str | None = None
    finish_reason: str | None = None
    thinking: str | None = None


class Turn(Struct, frozen=True, kw_only=True):
    """The user's words, and everything said until the user spoke again."""

    number: int
    asked: tuple[Said, ...]
    replies: tuple[Said, ...]

    @property
    def prompt(self) -> str:
        return joined(one.message for one in self.asked)

    @property
    def text(self) -> str:
        """The last words of the reply. Text between an assistant's tool calls is not the reply yet."""
        texts = (one.message.content for one in reversed(self.replies) if one.message.role == "assistant")
        return next((text for text in texts if text.strip()), "")

    @property
    def has_reply(self) -> bool:
        return any(one.message.role == "assistant" and is_visible(one) for one in self.replies)

    def reply(self) -> Reply:
        """The replies of the turn as one, in the form of a target's reply."""
        own = [one for one in self.replies if one.message.role == "assistant"]
        usages = [one.usage for one in own if one.usage is not None]
        costs = [one.cost for one in own if one.cost is not None]
        thoughts = "\n\n".join(one.thinking for one in own if one.thinking)
        return Reply(
            text=self.text,
            usage=sum(usages, NO_USAGE).possible(),
            cost=sum(costs) if costs else None,
            latency_s=self._latency_s(own),
            model=_last(one.model for one in own),
            finish_reason=_last(one.finish_reason for one in own),
            tool_calls=tuple(call for one in own for call in one.message.tool_calls),
            thinking=thoughts or None,
        )

    def _latency_s(self, own: list[Said]) -> float | None:
        """The recorded latency, else the time from the question to the end of the answer; None if neither is
        recorded."""
        told = [one.latency_s for one in own if one.latency_s is not None]
        if told:
            return sum(told) or None
        asked, answered = _last(one.at for one in self.asked), _last(one.at for one in own)
        return None if asked is None or answered is None else max(0.0, round(answered - asked, 6)) or None


class Transcript(Struct, frozen=True, kw_only=True):
    """One conversation."""

    id: str
    format: str
    source: str = ""
    """The file that it was read from, as named by the user."""
    title: str = ""
    model: str | None = None
    messages: tuple[Said, ...] = ()
    tags: tuple[str, ...] = ()
    keys: dict[str, str] = {}
    """More data of the recording, such as `metadata.case`, by which a case may be found."""
    unknown: tuple[Unknown, ...] = ()
    aside: tuple[tuple[str, int], ...] = ()
    """Known events that are not part of the conversation: their types, each with its count."""
    notes: tuple[str, ...] = ()
    """Parts that were left out of the recording on purpose, in words."""

    @property
    def turns(self) -> tuple[Turn, ...]:
        return tuple(_turns(self.messages))

    @property
    def tools(self) -> tuple[str, ...]:
        """The names of the called tools, each once."""
        return tuple(dict.fromkeys(call.name for one in self.messages for call in one.message.tool_calls))

    @property
    def started_at(self) -> float | None:
        return next((one.at for one in self.messages if one.at is not None), None)


def own_id(id: str, taken: dict[str, int]) -> str:
    """The id, with a number if it is taken. `taken`: all ids so far, each with its last number."""
    own, number = id, taken.get(id, 1)
    while own in taken:
        number += 1
        own = f"{id}-{number}"
    taken[id] = number
    taken.setdefault(own, 1)
    return own


def not_understood(transcripts: Iterable[Transcript]) -> list[str]:
    """One line per type of event that readers did not understand."""
    counts: dict[str, int] = {}
    for unknown in (unknown for one in transcripts for unknown in one.unknown):
        counts[unknown.type] = counts.get(unknown.type, 0) + unknown.count
    told = [
        f"not understood: {count(number, 'event')} of type `{type[:_LONGEST_TYPE]}`"
        for type, number in islice(counts.items(), MOST_TYPES)
    ]
    more = len(counts) - MOST_TYPES
    return [*told, f"not understood: {more:,} more types of events"] if more > 0 else told


def joined(messages: Iterable[ChatMessage]) -> str:
    """Consecutive messages as one text, for comparison."""
    return "\n\n".join(trim(message.content) for message in messages)


def _last(values: Iterable[Value | None]) -> Value | None:
    found = [value for value in values if value is not None]
    return found[-1] if found else None


def _turns(messages: Iterable[Said]) -> Iterator[Turn]:
    """The turns of a conversation. Text before the user's first words (instructions, a greeting) is not a turn. An
    empty answer does not end a turn: the user's next words continue it."""
    asked: list[Said] = []
    replies: list[Said] = []
    number = 0
    for one in messages:
        if one.message.role == "user":
            if asked and any(map(is_visible, replies)):
                number += 1
                yield Turn(number=number, asked=tuple(asked), replies=tuple(replies))
                asked, replies = [], []
            replies = replies if asked else []
            asked.append(one)
        elif one.message.role != "system":
            replies.append(one)
    if asked:
        yield Turn(number=number + 1, asked=tuple(asked), replies=tuple(replies))


def is_visible(said: Said) -> bool:
    """Whether a message contains words or tool calls."""
    return bool(said.message.content.strip() or said.message.tool_calls)
