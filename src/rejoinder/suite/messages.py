"""From the messages of a case to messages of the model: templates filled in, files read."""

from __future__ import annotations

from typing import Any

import msgspec

from rejoinder.model import FilePart, Message, OtherPart, Part, TextPart, ToolCall
from rejoinder.project import FileFault
from rejoinder.suite.case_texts import CaseTexts


def read_messages(messages: list[Any], at: str, texts: CaseTexts) -> tuple[Message, ...]:
    return tuple(_message(message, f"{at}[{i}]", texts) for i, message in enumerate(messages))


def read_prompt(prompt: str, at: str, texts: CaseTexts) -> tuple[Message, ...]:
    """A lone `prompt` as a message of the user."""
    text = texts.text(prompt, at)
    if not text.strip():
        texts.problem("empty-prompt", at, "nothing is left of this prompt once its variables are filled in")
    return (Message("user", (TextPart(text, at),), at),)


def _message(message: dict[str, Any], at: str, texts: CaseTexts) -> Message:
    content = message["content"]
    if isinstance(content, str):
        parts: tuple[Part, ...] = (TextPart(texts.text(content, at), at),)
    else:
        parts = tuple(_part(part, f"{at}.content[{i}]", texts) for i, part in enumerate(content))
    if "tool_calls" not in message and "tool_call_id" not in message:
        return Message(message["role"], parts, at)
    calls = tuple(
        _tool_call(call, f"{at}.tool_calls[{i}]", texts) for i, call in enumerate(message.get("tool_calls", ()))
    )
    answered = texts.text(message.get("tool_call_id", ""), f"{at}.tool_call_id")
    return Message(message["role"], parts, at, calls, answered)


def _tool_call(call: dict[str, Any], at: str, texts: CaseTexts) -> ToolCall:
    arguments = texts.tree(call.get("arguments", {}), f"{at}.arguments")
    return ToolCall(texts.text(call["name"], at), msgspec.json.encode(arguments).decode(), texts.text(call["id"], at))


def _part(part: Any, at: str, texts: CaseTexts) -> Part:
    if isinstance(part, str):
        return TextPart(texts.text(part, at), at)
    value = texts.text(part["value"], f"{at}.value")
    if part["type"] == "text":
        return TextPart(value, at)
    return _file(value, at, texts) if part["type"] == "file" else OtherPart(part["type"], at)


def _file(path: str, at: str, texts: CaseTexts) -> FilePart:
    finder = texts.finder
    file = finder.find(path) if path.strip() else None
    try:
        if file is None:
            raise FileFault("file-not-found", finder.explain_missing(path))
        return FilePart(path, finder.read(file), at, str(file.resolve()), finder.seen_from_roots(file))
    except FileFault as fault:
        texts.problems.add(fault.code, at, fault.message, point=f"{at}.value")
        return FilePart(path, None, at)
