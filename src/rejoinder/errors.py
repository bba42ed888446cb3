"""Every error that rejoinder raises on purpose, and the codes of problems in files.

    RejoinderError          catch this to catch them all
    ├── UsageError          the command or call makes no sense: an unknown case id, a missing file
    │   └── MissingKey      a key or an address is missing in the environment
    └── SuiteError          files have mistakes; `problems` lists each with its place

A mistake of the user is always one of these and never ends in a traceback; anything else is a bug.
"""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING, Literal, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rejoinder.model import Problem


class RejoinderError(Exception):
    """An error of rejoinder: the problem (`message`) and the remedy (`hint`)."""

    exit_code = 2

    def __init__(self, message: str, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message}\n{self.hint}" if self.hint else self.message


class ShutDown(Exception):
    """A wait has ended because the run ends."""


class CassetteError(RejoinderError):
    """A cassette cannot be read or written."""

    exit_code = 2


class UsageError(RejoinderError):
    """The command or call cannot be carried out as given; nothing was done."""


class MissingKey(UsageError):
    """A target lacks a key, an address or the value of a setting, which may exist on another machine. `variables`: the
    environment variables that would provide it."""

    def __init__(self, message: str, hint: str | None = None, variables: Sequence[str] = ()) -> None:
        super().__init__(message, hint)
        self.variables = tuple(variables)


class SuiteError(RejoinderError):
    """One or more files have mistakes. `problems` holds all of them, in document order."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        self.problems = tuple(problems)
        errors = [problem for problem in self.problems if problem.severity == "error"]
        super().__init__("\n".join(f"{problem.place}: {problem.message}" for problem in errors))


FEWER_FILES = "raise the limit (`ulimit -n 4096`) or use fewer --workers"
"""Part of every message about exhausted descriptors."""
_REMEDIES = {
    errno.ENOSPC: "make room on the disk",
    errno.EDQUOT: "free some of your disk quota",
    errno.EFBIG: "raise the limit for the size of files (`ulimit -f unlimited`)",
    errno.EROFS: "make the disk writable",
    errno.EACCES: "make it writable for your user",
    errno.EPERM: "make it writable for your user",
    errno.EMFILE: FEWER_FILES,
    errno.ENFILE: FEWER_FILES,
}
"""Advice for errors of the operating system."""


def remedy_for(error: BaseException | None) -> str:
    """Advice for an error of the operating system; general advice if there is none specific to it."""
    return _REMEDIES.get(getattr(error, "errno", None) or 0, "check that the disk is writable")


def reason_of(error: OSError) -> str:
    """An error of the operating system in words, with advice if the words do not suggest it."""
    reason = (os.strerror(error.errno) if error.errno else str(error)).lower()
    return f"{reason}; {FEWER_FILES}" if lacks_descriptors(error) else reason


def decoding_reason(error: Exception) -> str:
    """Why a foreign text cannot be read, without naming the library that reads it."""
    if isinstance(error, RecursionError):
        return "it is nested too deeply"
    if isinstance(error, UnicodeError):
        return "it is not UTF-8"
    return str(error)


def lacks_descriptors(error: BaseException) -> bool:
    """Whether there are too many open files, or connections."""
    return isinstance(error, OSError) and error.errno in (errno.EMFILE, errno.ENFILE)


# Codes of problems in files, and what each means, for reports and documentation.

Severity: TypeAlias = Literal["error", "warning"]

ERRORS = {
    "yaml-syntax": "The file is not valid YAML.",
    "json-syntax": "A line of a JSONL file is not valid JSON.",
    "csv-syntax": "A row of a CSV file does not fit its header or is not valid CSV.",
    "duplicate-key": "A mapping has the same key twice.",
    "not-utf8": "The file is not UTF-8 text.",
    "unreadable-file": "The file is a folder, a pipe or a loop of links, or its permissions forbid reading.",
    "too-large": "The file is larger than can be used.",
    "bad-picture": "A picture has content or a place that cannot be used.",
    "blind-judge": "A judge cannot be shown the pictures of a case.",
    "too-many-pictures": "A case has more pictures than a conversation can have.",
    "too-deep": "The file is nested too deeply.",
    "too-many-aliases": "Aliases make the file grow too much.",
    "missing-field": "Something required is missing.",
    "wrong-type": "A value has the wrong type.",
    "out-of-range": "A value is outside the allowed range.",
    "unknown-key": "A key has no meaning here.",
    "unknown-check": "There is no check of that name.",
    "multiple-check-keys": "An item has more than one check.",
    "empty-checks": "A list of checks is empty.",
    "empty-pattern": "A pattern is empty.",
    "empty-prompt": "A prompt or a command is empty.",
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
    "unknown-turn": "A planned turn quotes a turn that does not exist yet.",
    "no-user-words": "The last message of a planned turn is not the user's.",
    "conflicting-keys": "Two keys say the same thing.",
    "duplicate-id": "An id or a name is used twice.",
    "file-not-found": "A file does not exist.",
    "unknown-target": "There is no target of that name.",
    "no-tool-state": "A `tool_state` names a tool that has no state, or does not exist.",
    "unknown-tool-set": "`tools` names a set that the suite does not have.",
    "missing-variable": "A template names a variable that does not exist.",
    "missing-secret": "A template names a secret that is not set.",
    "unknown-placeholder": "A command or a request has a placeholder that does not exist or is not allowed there.",
    "missing-environment": "A template or a target names an environment variable that is not set.",
}

FROM_OUTSIDE = frozenset({"missing-secret", "missing-environment"})
"""Things that another machine may have: an error if targets are asked, a warning if files are only checked."""

UNFILLED = FROM_OUTSIDE | {"missing-variable"}
"""A template could not be filled in, so nothing else is reported about its text."""

WARNINGS = {
    "unreachable-followup": "A follow-up can never be sent.",
    "answer-in-followup": "A follow-up holds the answer that it asks for.",
    "answer-in-goal": "The goal of a simulated user holds the answer.",
    "unreachable-turn": "A planned turn can never be sent, or does not exist.",
    "unused-extract": "A value is extracted from a reply, and no later turn uses it.",
    "user-without-stop": "Nothing but the number of turns ends a simulated user.",
    "lost-conversation": "A service would take every turn of a case for a new conversation.",
    "lost-system-prompt": "A system prompt is not sent: the target's request has no place for it.",
    "empty-file": "An attached file is empty.",
    "no-effect": "A key has no effect in its place.",
    "marker-in-text": "A line of text looks like a role marker.",
    "file-as-text": "A text is the address of a file, and is sent verbatim.",
    "unfilled-braces": "A name in double braces has no value.",
    "unknown-provider": "A provider is not known.",
    "unusable-target": "A target has settings that cannot be used.",
    "unusable-tools": "The target of a case cannot be offered its tools.",
    "no-structured-output": "The target of a case cannot be sent its output schema.",
    "shared-tool-state": "A `tool_state` looks at a tool that all conversations share.",
    "no-workspace": "A check reads the workspace of an agent, and the target is not an agent.",
    "model-of-openrouter": "A model has the name that OpenRouter gives it.",
    "no-target": "No target is set for a case.",
    "no-recording": "A target with recorded conversations has none for a case.",
    "unknown-schema": "`$schema` names a format that is not known.",
    "no-user-message": "A conversation has no user message.",
    "no-assistant-message": "The expected messages have no assistant message.",
    "env-syntax": "A line of a .env file cannot be read.",
    "env-loads-code": "A .env file sets a variable that can make programs load code.",
    "no-visible-content": "A conversation has only guidelines.",
}

CODES = {**ERRORS, **WARNINGS}


def severity_of(code: str, from_outside: Severity = "error") -> Severity:
    """The severity of a problem. `from_outside`: the severity if the environment lacks something."""
    if code in FROM_OUTSIDE:
        return from_outside
    return "warning" if code in WARNINGS else "error"
