"""Prompts of AgentV 5: texts, chat messages, and files of either."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct

from rejoinder.imports.agentv.graders import Graders
from rejoinder.imports.agentv.words import Words
from rejoinder.imports.ledger import Ledger
from rejoinder.imports.promptfoo.words import Lost, slug
from rejoinder.imports.sources import Spot
from rejoinder.yaml_text import Comment

_INPUT = re.compile(r"\s*\{\{\s*(?:vars\.)?input\s*\}\}\s*")
_CODE = re.compile(r"\.(?:[cm]?[jt]s|py)(?::\w+)?$")
_TODO = "TODO: write the prompt"


class Prompt(Struct, frozen=True):
    """One prompt."""

    messages: tuple[tuple[str, str], ...]
    """Role and content of each."""
    name: str
    lost: Comment | None = None
    """The comment for a prompt that has no form here."""

    @property
    def is_input(self) -> bool:
        """Whether it is nothing but the test's own input."""
        return len(self.messages) == 1 and self.messages[0][0] == "user" and bool(_INPUT.fullmatch(self.messages[0][1]))

    @property
    def fits_variant(self) -> bool:
        return not self.is_input and [role for role, _ in self.messages] in (["user"], ["system", "user"])

    def keys(self, words: Words, variables: Mapping[str, Any]) -> dict[Any, Any]:
        """It as keys of a case. Raises Lost."""
        if self.lost is not None:
            return {self.lost: None, "prompt": _TODO}
        said = [(role, words.fill(content, variables)) for role, content in self.messages]
        if [role for role, _ in said] == ["user"]:
            return {"prompt": said[0][1].strip() or _TODO}
        return {"input_messages": [{"role": role, "content": content} for role, content in said]}

    def variant(self, words: Words) -> dict[Any, Any]:
        """It as a variant: each case fills in its variables."""
        said = [words.open(content) for _, content in self.messages]
        system = {"system_prompt": said[0].strip()} if len(said) == 2 else {}
        lost = {} if self.lost is None else {self.lost: None}
        return {"name": self.name, **lost, **system, "prompt": said[-1].strip() or _TODO}


def read_prompts(spot: Spot, graders: Graders, ledger: Ledger) -> list[Prompt]:
    """The prompts under a key of the eval. What has no form is a prompt to write."""
    prompts: list[Prompt] = []
    names: set[str] = set()
    items = [spot] if _is_chat(spot.value) else list(spot.items)
    for number, item in enumerate(items, 1):
        try:
            for messages in _messages_of(item, graders):
                prompts.append(Prompt(messages, _name(item, number, names)))
            ledger.map(item)
        except Lost as lost:
            comment = ledger.leave_out(item, lost.what, lost.how)
            prompts.append(Prompt((("user", _TODO),), _name(item, number, names), comment))
    return prompts


def _name(item: Spot, number: int, names: set[str]) -> str:
    written = next((item[key].value for key in ("id", "label") if isinstance(item[key].value, str)), "")
    return slug(written or f"prompt-{number}", names, "prompt")


def _is_chat(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(one, dict) and "role" in one for one in value)


def _messages_of(item: Spot, graders: Graders) -> Iterator[tuple[tuple[str, str], ...]]:
    value = item.value
    if _is_chat(value) or (isinstance(value, dict) and "role" in value):
        yield _chat(value)
    elif isinstance(value, str):
        yield _of_text(item, value, graders)
    elif isinstance(value, dict):
        keys = ("prompt", "messages", "raw", "file", "path")
        inner = next((item[key] for key in keys if value.get(key) is not None), None)
        if inner is None or {"command", "function", "function_file"} & set(value):
            raise Lost("a prompt", "it is made by code, which an import does not run")
        if _is_chat(inner.value):
            yield _chat(inner.value)
        elif isinstance(inner.value, str):
            is_file = inner.path[-1] in ("file", "path")
            before, after = (str(value.get(key) or "") for key in ("prefix", "suffix"))
            [*rest, (role, last)] = _of_text(inner, f"file://{inner.value}" if is_file else inner.value, graders)
            yield (*rest, (role, f"{before}{last}{after}"))
        else:
            raise Lost("a prompt", "it has no text")
    else:
        raise Lost("a prompt", "it has no text")


def _of_text(item: Spot, text: str, graders: Graders) -> tuple[tuple[str, str], ...]:
    if not text.strip():
        raise Lost("a prompt", "it has no text")
    if not text.startswith("file://"):
        return (("user", text),)
    written = text.removeprefix("file://").removeprefix("file://")
    if _CODE.search(written):
        raise Lost(written[:60], "the prompt is made by code, which an import does not run")
    path = graders.found(item, written)
    if path is None or not path.is_file():
        raise Lost(written[:60], "there is no such file")
    return _of_file(item, path)


def _of_file(item: Spot, path: Path) -> tuple[tuple[str, str], ...]:
    if path.suffix.lower() in (".yaml", ".yml", ".json"):
        data = item.file.folder.read(path).spot.value
        if _is_chat(data):
            return _chat(data)
    text = item.text_of(path)
    if not text.strip():
        raise Lost(path.name, "the file is empty")
    return (("user", text),)


def _chat(value: Any) -> tuple[tuple[str, str], ...]:
    messages = value if isinstance(value, list) else [value]
    found: list[tuple[str, str]] = []
    for one in messages:
        content = one.get("content")
        if one.get("role") not in ("system", "user", "assistant") or not isinstance(content, str | dict):
            raise Lost("a prompt of messages", "contents other than text, and messages of tools, have no form here")
        found.append((one["role"], content if isinstance(content, str) else json.dumps(content)))
    return tuple(found)
