"""Texts that stand in files of their own: `{file: PATH}` in place of a text, found as attached files are."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any

from rejoinder.model import file_in_project
from rejoinder.project import FileFault, Finder, in_quotes
from rejoinder.suite.document_paths import DocumentPath
from rejoinder.suite.schema import Violation
from rejoinder.suite.templates import Report

NO_WORDS = "..."
"""Stands for a text whose file cannot be used: nothing else is said about it, and nothing of the suite is run."""
_SYSTEM_PROMPTS = ("system_prompt", "systemPrompt")
_TEXTS = (*_SYSTEM_PROMPTS, "prompt", "prompt_prefix", "prompt_suffix")
_WITH_TEXTS = frozenset(
    (
        "metadata",
        "defaults",
        "evals",
        "evalcases",
        "tests",
        "variants",
        "targets",
        "settings",
        "checks",
        "or",
        "and",
        "group",
    )
)
"""Keys below which texts stand that may be in files."""
_ADDRESS = re.compile(r"\s*file://(?P<path>[\w.~/][\w.~/@+-]*)\s*")

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


def find_files_as_texts(value: Any, path: DocumentPath = ()) -> Iterator[Violation]:
    """Warnings about texts that are the address of a file, as other tools write it: they are sent as they stand."""
    if isinstance(value, list):
        for place, item in enumerate(value):
            yield from find_files_as_texts(item, (*path, place))
    elif isinstance(value, dict):
        for key, item in value.items():
            if key in _WITH_TEXTS:
                yield from find_files_as_texts(item, (*path, key))
            elif key in _TEXTS and isinstance(item, str) and (address := _ADDRESS.fullmatch(item)) is not None:
                instead = f"{{file: {address['path']}}}"
                message = f"`{item.strip()}` is sent as it stands; what the file holds is sent with `{key}: {instead}`"
                yield Violation("file-as-text", (*path, key), message, instead=instead)


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
