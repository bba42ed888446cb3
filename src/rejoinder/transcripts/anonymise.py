"""Conversations with stand-ins in place of personal data."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import msgspec
from msgspec import structs

from rejoinder.json_values import decoded
from rejoinder.model import ChatMessage, ToolCall
from rejoinder.transcripts.stand_ins import Anonymiser
from rejoinder.transcripts.values import Said, Transcript


def anonymise(transcripts: Sequence[Transcript]) -> tuple[list[Transcript], Anonymiser]:
    """Copies of conversations with stand-ins, and the anonymiser that made them."""
    anonymiser = Anonymiser()
    for text in (text for one in transcripts for text in _texts(one)):
        anonymiser.look(text)
    return [_with_stand_ins(one, anonymiser.replace) for one in transcripts], anonymiser


def _texts(transcript: Transcript) -> Iterator[str]:
    yield from (transcript.id, transcript.title, transcript.source, *transcript.tags)
    for said in transcript.messages:
        yield said.message.content
        yield said.message.tool_call_id
        for call in said.message.tool_calls:
            yield from (call.id, call.name, call.result or "", call.arguments)
            yield from _inner_texts(decoded(call.arguments))


def _inner_texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        for one in value:
            yield from _inner_texts(one)
    elif isinstance(value, dict):
        for key, one in value.items():
            yield key
            yield from _inner_texts(one)


def _with_stand_ins(transcript: Transcript, replace: Callable[[str], str]) -> Transcript:
    def in_arguments(text: str) -> str:
        """Replaces each text inside JSON, so that it stays JSON."""
        value = decoded(text)
        return replace(text) if value is None else msgspec.json.encode(_each(value)).decode()

    def _each(value: Any) -> Any:
        if isinstance(value, str):
            return replace(value)
        if isinstance(value, list):
            return [_each(one) for one in value]
        if isinstance(value, dict):
            return {replace(key): _each(one) for key, one in value.items()}
        if isinstance(value, int | float) and not isinstance(value, bool):
            written = msgspec.json.encode(value).decode()
            changed = replace(written)
            return value if changed == written else changed
        return value

    def call(one: ToolCall) -> ToolCall:
        return structs.replace(
            one,
            id=replace(one.id),
            name=replace(one.name),
            arguments=in_arguments(one.arguments),
            result=None if one.result is None else replace(one.result),
        )

    def said(one: Said) -> Said:
        message = one.message
        calls = tuple(map(call, message.tool_calls))
        copy = ChatMessage(message.role, replace(message.content), calls, replace(message.tool_call_id))
        return structs.replace(one, message=copy, thinking=None, model=one.model and replace(one.model))

    return structs.replace(
        transcript,
        id=replace(transcript.id),
        title=replace(transcript.title),
        source=replace(transcript.source),
        tags=tuple(map(replace, transcript.tags)),
        messages=tuple(map(said, transcript.messages)),
        keys={},
    )
