"""Texts in separate files: `{file: PATH}` in place of a text, found as attached files are."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any

from rejoinder.model import file_in_project
from rejoinder.project.files import FileFault, Finder, in_quotes
from rejoinder.suite.document_paths import DocumentPath
from rejoinder.suite.schema import Violation
from rejoinder.suite.templates import Report

NO_WORDS = "..."
"""Replaces a text whose file cannot be used: nothing else is reported about it, and the suite is not run."""
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
"""Keys below which texts may be in files."""
_ADDRESS = re.compile(r"\s*file://(?P<path>[\w.~/][\w.~/@+-]*)\s*")

ReadWords = Callable[[dict[str, Any], DocumentPath], str]
"""Returns the text of a `{file: PATH}` at a place."""


class TextFiles:
    """Reads texts from files, and records the files, so that a run can name its sources."""

    def __init__(self, finder: Finder) -> None:
        self._finder = finder
        self.digests: dict[str, str] = {}
        """The SHA-256 of each file's text, by its path relative to the project's root."""

    def read(self, written: str) -> str:
        """Read the text without filling in variables. Raises FileFault."""
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
    """A report that adds the file's name to each fault: its place is where the suite names the file."""
    return lambda code, message: report(code, f"{message} (in {in_quotes(written)})")


def find_files_as_texts(value: Any, path: DocumentPath = ()) -> Iterator[Violation]:
    """Warnings about texts that look like the address of a file, as other tools write it: they are sent verbatim."""
    if isinstance(value, list):
        for place, item in enumerate(value):
            yield from find_files_as_texts(item, (*path, place))
    elif isinstance(value, dict):
        for key, item in value.items():
            if key in _WITH_TEXTS:
                yield from find_files_as_texts(item, (*path, key))
            elif key in _TEXTS and isinstance(item, str) and (address := _ADDRESS.fullmatch(item)) is not None:
                instead = f"{{file: {address['path']}}}"
                message = f"`{item.strip()}` is sent as text; to send the content of the file, write `{key}: {instead}`"
                yield Violation("file-as-text", (*path, key), message, instead=instead)


def with_system_prompts(targets: Any, path: DocumentPath, read: ReadWords) -> Any:
    """A list of targets, with system prompts from files filled in; refused entries stay unchanged."""
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
