"""Problems of a `cli` target's command, as far as its file shows them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from rejoinder.model.providers import PROVIDER_NAMES
from rejoinder.placeholders import OF_A_FILE, find_faults, find_faults_of_words
from rejoinder.suite.document_paths import DocumentPath
from rejoinder.suite.schema import Violation

_TEMPLATES = ("command_template", "commandTemplate")
_FORMATS = ("files_format", "filesFormat", "attachments_format", "attachmentsFormat")
_OF_A_HEALTHCHECK = {"http": ("url",), "command": _TEMPLATES}
"""Required settings of each kind of health check; one of them is enough."""


def find_command_faults(target: dict[str, Any], path: DocumentPath) -> Iterator[Violation]:
    if PROVIDER_NAMES.get(str(target.get("provider")).lower()) != "cli":
        return
    inner = target.get("settings")
    for settings, here in ((target, path), (inner, (*path, "settings"))):
        if isinstance(settings, dict):
            yield from _find_in(settings, here)
    present = {*target, *(inner if isinstance(inner, dict) else ())}
    template = next((name for name in _TEMPLATES if name in present), None)
    if template and "command" in present:
        message = f"a target has either `command` or `{template}`"
        yield Violation("conflicting-keys", (*path, "command"), message)


def _find_in(settings: dict[str, Any], path: DocumentPath) -> Iterator[Violation]:
    yield from _find_in_templates(settings, path)
    for name in _FORMATS:
        if isinstance(text := settings.get(name), str):
            faults = find_faults(text, OF_A_FILE, for_shell=True)
            yield from (Violation("unknown-placeholder", (*path, name), fault) for fault in faults)
    words = settings.get("command")
    for place, fault in find_faults_of_words([str(word) for word in words] if isinstance(words, list) else ()):
        yield Violation("unknown-placeholder", (*path, "command", place), fault)
    check = settings.get("healthcheck")
    if isinstance(check, dict):
        here = (*path, "healthcheck")
        yield from _find_in_templates(check, here)
        needed = _OF_A_HEALTHCHECK.get(str(check.get("type")), ())
        if needed and not set(needed) & set(check):
            message = f"a health check of the type `{check['type']}` needs `{needed[0]}`"
            yield Violation("missing-field", (*here, needed[0]), message)


def _find_in_templates(settings: dict[str, Any], path: DocumentPath) -> Iterator[Violation]:
    for name in _TEMPLATES:
        if isinstance(text := settings.get(name), str):
            faults = find_faults(text, for_shell=True)
            yield from (Violation("unknown-placeholder", (*path, name), fault) for fault in faults)
