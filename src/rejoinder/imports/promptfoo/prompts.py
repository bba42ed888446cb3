"""Prompts of promptfoo: texts, chat messages as JSON or YAML, and files of one or several of them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from msgspec import Struct

from rejoinder.imports.promptfoo.templates import has_marks
from rejoinder.imports.promptfoo.words import Lost
from rejoinder.imports.sources import ImportFault, Spot
from rejoinder.imports.workbench import Workbench
from rejoinder.yaml_text import Comment

_EXTENSIONS = (
    ".cjs",
    ".cts",
    ".j2",
    ".js",
    ".json",
    ".jsonl",
    ".md",
    ".mjs",
    ".mts",
    ".py",
    ".ts",
    ".txt",
    ".yml",
    ".yaml",
    ".csv",
)
_CODE = re.compile(r"\.(?:[cm]?[jt]s|py|rb|sh|bash|pl|exe|bat|cmd|ps1)(?::\w+)?$")
_REMOTE = ("langfuse://", "portkey://", "helicone://")
_ROLES = {"system": "system", "developer": "system", "user": "user", "assistant": "assistant", "model": "assistant"}
_MOST = 200
"""Maximum number of prompts of a configuration."""


class Prompt(Struct, frozen=True):
    """One prompt: a text, or the messages of a conversation."""

    spot: Spot
    text: str = ""
    messages: tuple[tuple[str, str], ...] = ()
    """Role and content of each."""
    label: str = ""
    file: Path | None = None
    """The file that has exactly this text."""
    names: tuple[str, ...] = ()
    """Its names in tests and providers."""

    @property
    def texts(self) -> list[str]:
        return [content for _, content in self.messages] or [self.text]


class Prompts(Struct, frozen=True):
    """The prompts of a configuration, and a comment for each that has no form here."""

    prompts: tuple[Prompt, ...]
    comments: tuple[Comment, ...]


def read_prompts(spot: Spot, bench: Workbench) -> Prompts:
    """The prompts under a key of the configuration. Raises ImportFault for a file outside of the folder."""
    prompts: list[Prompt] = []
    comments: list[Comment] = []
    items = [Spot(spot.file, (), key, spot.line) for key in spot.value] if isinstance(spot.value, dict) else spot.items
    for item in items:
        comments += item.above()
        try:
            found = list(_prompts_of(item))
        except Lost as lost:
            comments.append(bench.ledger.leave_out(item, lost.what, lost.how))
            continue
        bench.ledger.map(item)
        prompts += found
        if len(prompts) > _MOST:
            raise item.fault(f"there are more than {_MOST} prompts")
    return Prompts(tuple(prompts), tuple(comments))


def _prompts_of(item: Spot) -> Iterator[Prompt]:
    value = item.value
    label = ""
    names: list[str] = []
    if isinstance(value, dict):
        names = [str(value[key]) for key in ("id", "label") if isinstance(value.get(key), str)]
        label = str(value.get("label") or "")
        if isinstance(value.get("config"), dict) and value["config"]:
            raise Lost("a prompt with settings", "settings belong to targets, or to variants")
        if isinstance(value.get("content"), list) and "role" in value:
            raise Lost("a prompt of parts", "only texts are sent")
        value = value.get("raw") or value.get("id") or value.get("content")
    if not isinstance(value, str) or not value.strip():
        raise Lost("a prompt", "it has no text")
    for one in _read(item, value):
        yield Prompt(one.spot, one.text, one.messages, label or one.label, one.file, (*names, label, value))


def _read(item: Spot, written: str) -> Iterator[Prompt]:
    shown = written.split("\n", maxsplit=1)[0][:60]
    if written.startswith(_REMOTE):
        raise Lost(shown, "prompts of other services are not fetched")
    if written.startswith("exec:"):
        raise Lost(shown, "the prompt is made by a program, which an import does not run")
    if not _may_be_file(written):
        yield _of_text(item, written)
        return
    path = written.removeprefix("file://")
    if _CODE.search(path):
        raise Lost(path[:60], "the prompt is made by code, which an import does not run")
    if has_marks(path):
        raise Lost(path[:60], "the file depends on variables")
    found = item.matching(path) if any(sign in path for sign in "*?[") else [item.locate(path)]
    files = [file for file in found if file.is_file()]
    if not files and (written.startswith("file://") or written.endswith(_EXTENSIONS)):
        raise Lost(path[:60], "there is no such file")
    if not files:
        yield _of_text(item, written)
    for file in files:
        yield from _of_file(item, file)


def _may_be_file(text: str) -> bool:
    """Whether promptfoo looks for a file of this name."""
    if "\n" in text or len(text) > 1000:
        return False
    return (
        text.startswith("file://")
        or text.split(":", maxsplit=1)[0].endswith(_EXTENSIONS)
        or any(one in text for one in "*/\\")
        or text[-4:-3] == "."
        or text[-3:-2] == "."
    )


def _of_file(item: Spot, path: Path) -> Iterator[Prompt]:
    suffix = path.suffix.lower()
    text = item.text_of(path)
    if _CODE.search(path.name):
        raise Lost(path.name, "the prompt is made by code, which an import does not run")
    if suffix == ".txt":
        parts = [part.strip() for part in re.split(r"(?m)^[ \t]*---[ \t]*\r?$", text) if part.strip()]
        for number, part in enumerate(parts, 1):
            whole = len(parts) == 1
            yield _of_text(item, part, path.stem if whole else f"{path.stem}-{number}", path if whole else None)
    elif suffix == ".jsonl":
        for number, line in enumerate(filter(None, text.splitlines()), 1):
            yield _of_text(item, line, f"{path.stem}-{number}")
    elif suffix == ".csv":
        yield from _of_rows(item, path)
    elif suffix in (".yaml", ".yml"):
        yield _of_yaml(item, path, text)
    else:
        yield _of_text(item, text, path.stem, path)


def _of_rows(item: Spot, path: Path) -> Iterator[Prompt]:
    try:
        rows = list(item.rows_of(path))
    except ImportFault as fault:
        if not fault.line:
            raise
        raise Lost(f"{path.name}:{fault.line}", fault.what) from None
    for number, row in enumerate(rows, 1):
        text = row.value.get("prompt")
        if isinstance(text, str) and text.strip():
            yield _of_text(item, text.strip(), str(row.value.get("label") or f"{path.stem}-{number}"))


def _of_yaml(item: Spot, path: Path, text: str) -> Prompt:
    try:
        data = item.file.folder.read(path).spot.value
    except ImportFault:
        return _of_text(item, text, path.stem, path)  # with tags of a template, for one
    messages = _messages(data)
    if messages is None:
        return _of_text(item, json.dumps(data, ensure_ascii=False), path.stem)
    return Prompt(item, messages=messages, label=path.stem)


def _of_text(item: Spot, text: str, label: str = "", file: Path | None = None) -> Prompt:
    """A text, or the messages that it is as JSON."""
    if text.lstrip()[:1] in ("[", "{") and text.lstrip()[:2] not in ("{{", "{%"):
        try:
            data = json.loads(text)
        except (ValueError, RecursionError):
            data = None
        messages = _messages(data)
        if messages is not None:
            return Prompt(item, messages=messages, label=label)
    elif text.lstrip().startswith("- role:"):
        messages = _messages(_of_flow(text))
        if messages is not None:
            return Prompt(item, messages=messages, label=label)
    return Prompt(item, text, label=label, file=file)


def _of_flow(text: str) -> Any:
    from rejoinder.suite.yaml import YamlFault, parse_yaml

    try:
        return parse_yaml(text).data
    except YamlFault:
        return None


def _messages(data: Any) -> tuple[tuple[str, str], ...] | None:
    """The messages of a chat; None for anything else. Raises Lost for contents other than text."""
    if isinstance(data, dict) and isinstance(data.get("messages"), list):
        data = data["messages"]
    if not isinstance(data, list) or not data or not all(isinstance(one, dict) and "role" in one for one in data):
        return None
    found: list[tuple[str, str]] = []
    for one in data:
        role = _ROLES.get(str(one["role"]))
        content = one.get("content")
        if isinstance(content, list) and all(
            isinstance(part, dict) and part.get("type") in ("text", "input_text") for part in content
        ):
            content = "\n".join(str(part.get("text", "")) for part in content)
        if role is None or not isinstance(content, str):
            raise Lost("a prompt of messages", "contents other than text, and messages of tools, have no form here")
        found.append((role, content))
    return tuple(found)
