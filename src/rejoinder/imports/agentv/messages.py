"""Inputs and expected outputs of AgentV as prompts and messages."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from rejoinder.imports.agentv.graders import Graders
from rejoinder.imports.agentv.words import Words, structured
from rejoinder.imports.promptfoo.words import Lost
from rejoinder.imports.sources import Spot
from rejoinder.imports.texts import literal
from rejoinder.imports.workbench import Workbench
from rejoinder.yaml_text import Comment

_ROLES = ("system", "user", "assistant", "tool")

Message = dict[Any, Any]


class Messages:
    """The messages of one file."""

    def __init__(self, bench: Workbench, words: Words, graders: Graders) -> None:
        self._bench = bench
        self._words = words
        self._graders = graders

    def read(self, spot: Spot, variables: Mapping[str, Any]) -> list[Message]:
        """The messages of an input: a text, a value, one message, or a list of messages. Raises Lost."""
        spot = spot.of(self._words.resolved(spot.value, variables))
        value = spot.value
        if isinstance(value, str):
            return [{"role": "user", "content": self._words.fill(value, variables)}]
        if isinstance(value, dict) and "role" not in value:
            return [{"role": "user", "content": literal(structured(self._words.resolved(value, variables)))}]
        return [message for one in spot.items for message in self._message(one, variables)]

    def expected(self, spot: Spot, variables: Mapping[str, Any]) -> list[Message]:
        """The messages of an expected output. Raises Lost."""
        spot = spot.of(self._words.resolved(spot.value, variables))
        value = spot.value
        if isinstance(value, str):
            content = self._words.fill(value, variables)
            return [{"role": "assistant", "content": content}] if content.strip() else []
        is_messages = isinstance(value, list) and bool(value) and isinstance(value[0], dict) and "role" in value[0]
        if is_messages or (isinstance(value, dict) and "role" in value):
            messages = [message for one in spot.items for message in self._message(one, variables)]
            return [one for one in messages if one["content"]]
        return [{"role": "assistant", "content": literal(structured(value))}]

    def _message(self, spot: Spot, variables: Mapping[str, Any]) -> Iterator[Message]:
        if isinstance(spot.value, str):
            yield {"role": "user", "content": self._words.fill(spot.value, variables)}
            return
        role = spot["role"].value
        if role not in _ROLES:
            raise Lost("a message", "it has no role")
        message: Message = {**dict.fromkeys(spot.above()), "role": role}
        content = self.content(spot["content"], variables)
        for key, one in spot.pairs:
            if key not in ("role", "content"):
                how = "calls in written messages are not taken over" if key == "tool_calls" else "it is not sent"
                message[self._bench.ledger.leave_out(one, f"`{key}` of a message", how)] = None
        message["content"] = content
        if role != "tool":
            yield message
            return
        how = "a tool's message needs the call that it answers"
        message["role"] = "user"
        yield {self._bench.ledger.approximate(spot, "a message of a tool", how): None, **message}

    def content(self, spot: Spot, variables: Mapping[str, Any]) -> Any:
        """The content of a message: a text, or parts. Raises Lost."""
        value = self._words.resolved(spot.value, variables)
        if value is None:
            return ""
        if isinstance(value, list) and all(isinstance(one, str | dict) for one in value):
            return self._parts(spot.of(value), variables)
        return self._words.fill(value, variables) if isinstance(value, str) else literal(structured(value))

    def _parts(self, spot: Spot, variables: Mapping[str, Any]) -> Any:
        parts: list[Any] = []
        for one in spot.items:
            parts += one.above()
            parts += self._part(one, variables)
        texts = [one for one in parts if not isinstance(one, Comment)]
        if len(texts) == 1 and isinstance(texts[0], str) and len(parts) == 1:
            return texts[0]
        return parts if texts else ""

    def _part(self, spot: Spot, variables: Mapping[str, Any]) -> Iterator[Any]:
        if isinstance(spot.value, str):
            yield self._words.fill(spot.value, variables)
            return
        kind, value = spot["type"].value, spot["value"] if "value" in spot else spot["text"]
        if kind == "file" and isinstance(value.value, str):
            yield self.file(value)
        elif kind == "image":
            yield self._bench.ledger.leave_out(spot, "a picture", "only texts and files are sent")
        elif isinstance(value.value, str):
            yield self._words.fill(value.value, variables)
        else:
            yield literal(structured(spot.value))

    def file(self, spot: Spot) -> Any:
        """A file as a part of a message, or the comment in its place."""
        try:
            path = self._graders.found(spot, spot.value)
        except Lost as lost:
            return self._bench.ledger.leave_out(spot, f"the file {lost.what}", lost.how)
        if path is None or not path.is_file():
            return self._bench.ledger.leave_out(spot, f"the file {spot.value[:60]}", "it does not exist")
        self._bench.ledger.map(spot)
        return {"type": "file", "value": self._graders.shown(spot, path, spot.value)}

    def with_files(self, files: Spot, messages: list[Message]) -> list[Message]:
        """The messages with files before the text of the only one."""
        if len(messages) != 1 or not isinstance(messages[0]["content"], str):
            return messages
        parts = [self.file(one) for one in files.items if isinstance(one.value, str)]
        return [{**messages[0], "content": [*parts, messages[0]["content"]]}]


def joined(messages: list[Message]) -> Message:
    """The keys of a case for its messages."""
    if len(messages) == 1 and messages[0].get("role") == "user" and isinstance(messages[0]["content"], str):
        message = dict(messages[0])
        comments = {key: None for key in message if isinstance(key, Comment)}
        return {**comments, "prompt": message["content"].strip()}
    return {"input_messages": messages}
