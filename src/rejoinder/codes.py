"""The codes of problems and what each means, in one place for reports and documentation."""

from __future__ import annotations

from typing import Literal, TypeAlias

Severity: TypeAlias = Literal["error", "warning"]

ERRORS = {
    "yaml-syntax": "The file is not valid YAML.",
    "json-syntax": "A line of a JSONL file is not valid JSON.",
    "csv-syntax": "A row of a CSV file does not fit its header or is not valid CSV.",
    "duplicate-key": "A key stands twice in one mapping.",
    "not-utf8": "The file is not UTF-8 text.",
    "unreadable-file": "The file is a folder, a pipe, a circle of links, or may not be read.",
    "too-large": "The file is larger than can be used.",
    "too-deep": "The file is nested too deeply.",
    "too-many-aliases": "Aliases make the file grow too much.",
    "missing-field": "Something that must be there is not.",
    "wrong-type": "A value has the wrong type.",
    "out-of-range": "A value is outside what is allowed.",
    "unknown-key": "A key has no meaning here.",
    "unknown-check": "There is no check of that name.",
    "multiple-check-keys": "An item has more than one check.",
    "empty-checks": "A list of checks is empty.",
    "empty-pattern": "A pattern is empty.",
    "empty-prompt": "A prompt is empty.",
    "invalid-regex": "A regular expression cannot be read.",
    "invalid-path": "A JSON path cannot be read.",
    "invalid-schema": "A JSON Schema cannot be used.",
    "schema-multiplies": "The references of a JSON Schema multiply, so that it would take too long.",
    "no-check-at-level": "A level has follow-ups but no check that could fail.",
    "prompt-without-checks": "A follow-up has no checks.",
    "checks-without-prompt": "Nested checks have no prompt.",
    "followup-too-deep": "Follow-ups are nested more than five deep.",
    "legacy-checks-map": "`checks` is a mapping, as in old files.",
    "bad-role": "A message has a role that does not exist.",
    "conflicting-keys": "Two keys say the same thing.",
    "duplicate-id": "An id or a name is used twice.",
    "file-not-found": "A file does not exist.",
    "unknown-target": "There is no target of that name.",
    "missing-variable": "A template names a variable that does not exist.",
    "missing-secret": "A template names a secret that is not set.",
    "not-supported": "The suite needs something that this version cannot do.",
    "missing-environment": "A template or a target names an environment variable that is not set.",
}

FROM_OUTSIDE = frozenset({"missing-secret", "missing-environment"})
"""What another machine may have: an error where targets are asked, and a warning where files are only checked."""

UNFILLED = FROM_OUTSIDE | {"missing-variable"}
"""A template could not be filled in, so nothing else can be said about the text that it stands in."""

WARNINGS = {
    "unreachable-followup": "A follow-up can never be sent.",
    "empty-file": "An attached file is empty.",
    "no-effect": "A key changes nothing where it stands.",
    "marker-in-text": "Text begins a line like a role marker.",
    "unfilled-braces": "Nothing fills in what stands in double braces.",
    "unknown-provider": "A provider is not known.",
    "unavailable-provider": "A provider is known, and this version cannot run it.",
    "unusable-target": "A target has settings that cannot be used.",
    "model-of-openrouter": "A model has the name that OpenRouter gives it.",
    "no-target": "No target is named that would answer.",
    "unknown-schema": "`$schema` names a format that is not known.",
    "no-user-message": "A conversation has no user message.",
    "no-assistant-message": "The expected messages have no assistant message.",
    "env-syntax": "A line of a .env file cannot be read.",
    "no-visible-content": "A conversation has nothing but guidelines.",
}

CODES = {**ERRORS, **WARNINGS}


def severity_of(code: str, from_outside: Severity = "error") -> Severity:
    """Does a problem refuse the file? `from_outside` is the answer for what the environment lacks."""
    if code in FROM_OUTSIDE:
        return from_outside
    return "warning" if code in WARNINGS else "error"
