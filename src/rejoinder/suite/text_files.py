"""Texts that stand in files of their own: `{file: PATH}` in place of a text, found as attached files are."""

from __future__ import annotations

from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any

from rejoinder.model import file_in_project
from rejoinder.project import FileFault, Finder, in_quotes
from rejoinder.suite.document_paths import DocumentPath
from rejoinder.suite.templates import Report

NO_WORDS = "..."
"""Stands for a text whose file cannot be used: nothing else is said about it, and nothing of the suite is run."""
_SYSTEM_PROMPTS = ("system_prompt", "systemPrompt")

ReadWords = Callable[[dict[str, Any], DocumentPath], str]
"""The text of a `{file: PATH}` that stands at a place."""


class TextFiles:
    """Reads texts from files, and remembers which, so that a run can say what it was made from."""

    def __init__(self, finder: Finder) -> None:
        self._finder = finder
        self.digests: dict[str, str] = {}
        """Of every file that was read: its path as seen from the project's root, and the SHA-256 of its text."""

    def read(self, written: str) -> str:
        """The text, its variables not filled in. Raises FileFault."""
        file = self._finder.find(written) if written.strip() else None
        if file is None:
            raise FileFault("file-not-found", self._finder.explain_missing(written))
        text = self._finder.read(file)
        if not text.strip():
            raise FileFault("empty-prompt", f"the file {in_quotes(written)} is empty; write the text to send into it")
        self._remember(file, text)
        return text

    def _remember(self, file: Path, text: str) -> None:
        name = file_in_project(str(file), str(self._finder.root))
        if name not in self.digests:
            self.digests[name] = sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def in_file(report: Report, written: str) -> Report:
    """Says of each fault in which file it is: its place is where the suite names the file."""
    return lambda code, message: report(code, f"{message} (in {in_quotes(written)})")


def with_system_prompts(targets: Any, path: DocumentPath, read: ReadWords) -> Any:
    """A list of targets, the system prompts that stand in files put in; what the schema has refused stays as it is."""
    if not isinstance(targets, list):
        return targets
    return [_with_system_prompt(target, (*path, place), read) for place, target in enumerate(targets)]


def _with_system_prompt(target: Any, path: DocumentPath, read: ReadWords) -> Any:
    if not isinstance(target, dict):
        return target
    filled = {
        key: read(target[key], (*path, key))
        for key in _SYSTEM_PROMPTS
        if isinstance(target.get(key), dict) and isinstance(target[key].get("file"), str)
    }
    if isinstance(target.get("settings"), dict):
        filled["settings"] = _with_system_prompt(target["settings"], (*path, "settings"), read)
    return {**target, **filled} if filled else target
