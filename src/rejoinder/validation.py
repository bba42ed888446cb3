"""Validation: everything that can be said about files without sending anything or running anyone's code.

It joins what loading finds (syntax, schema, rules, references) with what formatting finds (text that looks like a
marker, empty files, conversations with nothing to say), and sorts it by file.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Literal, TypeAlias

from msgspec import Struct

from rejoinder.codes import Severity
from rejoinder.errors import UsageError
from rejoinder.formatting import (
    MOST_ALTERNATIVES,
    count_alternatives,
    diagnose_case,
    diagnose_reference,
    expected_messages,
    is_guideline_file,
    lone_text,
    other_answer,
    reference_answer,
)
from rejoinder.formatting.markers import has_marker_line
from rejoinder.formatting.question import needs_markers
from rejoinder.formatting.turns import Turn, take_turns
from rejoinder.model import Case, Compare, Diagnostic, FilePart, Formatting, OtherPart, Problem, Suite, walk_level
from rejoinder.readiness import Readiness
from rejoinder.suite.cases import CasePlace
from rejoinder.suite.files import in_quotes
from rejoinder.suite.load import Loaded, LoadOptions, read_suite
from rejoinder.suite.project import display_path, open_project, read_configuration
from rejoinder.suite.pruning import ANYTHING
from rejoinder.suite.source import Source
from rejoinder.suite.targets import Targets, read_targets_file
from rejoinder.suite.walk import Built
from rejoinder.suite.yaml import paused_collector

FileKind: TypeAlias = Literal["suite", "targets", "config"]

DEFAULT_NAMES = ("evals.yaml", "evals.yml", "eval.yaml", "eval.yml", "rejoinder.yaml", "rejoinder.yml")
_PASSED_OVER = frozenset({"node_modules", "__pycache__", "venv", "site-packages", "dist", "build"})


ONLY_CHECKED = LoadOptions(missing="warning")
"""How a suite is read that is checked and not run: what the environment lacks is no fault of the file."""


class FileReport(Struct, frozen=True):
    path: str
    errors: list[Problem]
    warnings: list[Problem]


class Report(Struct, frozen=True):
    files: list[FileReport]
    passed_over: list[str]
    """YAML files of a folder that are no suites."""

    @property
    def errors(self) -> int:
        return sum(len(file.errors) for file in self.files)

    @property
    def warnings(self) -> int:
        return sum(len(file.warnings) for file in self.files)


def validate(*paths: str | Path, targets_file: Path | None = None, strict: bool = False) -> Report:
    """Check files, and all suites of folders. Without a path: the suite of the working directory.

    Keys, secrets and environment variables that are missing are warnings; with `strict` they are errors.
    """
    options = LoadOptions(targets_file=targets_file, missing="error" if strict else "warning")
    with paused_collector():
        return _validate([Path(path) for path in paths], options)


def _validate(paths: list[Path], options: LoadOptions) -> Report:
    files, passed_over = find_files(paths)
    problems: dict[str, list[Problem]] = {}
    for file in files:
        name = display_path(file.absolute(), Path.cwd())
        problems.setdefault(name, [])
        for problem in validate_file(file, options):
            found = problems.setdefault(problem.file, [])
            if problem not in found[-200:]:  # a shared targets file is read for each suite
                found.append(problem)
    reports = [
        FileReport(
            name,
            [one for one in found if one.severity == "error"],
            [one for one in found if one.severity == "warning"],
        )
        for name, found in problems.items()
    ]
    return Report(reports, passed_over)


def validate_file(path: Path, options: LoadOptions = ONLY_CHECKED) -> list[Problem]:
    kind = kind_of(path)
    if kind == "targets":
        return _validate_targets(path, options.missing)
    if kind == "config":
        return read_configuration(path, Path.cwd())[1]
    return _validate_suite(path, options)


def load_for_run(path: Path, options: LoadOptions) -> tuple[Suite | None, list[Problem]]:
    """A suite and everything that can be said about it, in document order."""
    review = _review_labelled if options.labelled else _review_all
    loaded = read_suite(path, options, review=review)
    return loaded.suite, _all_problems(loaded)


def _validate_suite(path: Path, options: LoadOptions) -> list[Problem]:
    """The same, and what `run` would refuse."""
    readiness = Readiness()

    def review(built: Built, source: Source, suite: Suite) -> Iterator[Problem]:
        yield from _review_all(built, source, suite)
        yield from readiness.review(built, source, suite)

    loaded = read_suite(path, options, review=review)
    return _all_problems(loaded, readiness.review_targets(loaded, options.missing))


def _all_problems(loaded: Loaded, more: Iterable[Problem] = ()) -> list[Problem]:
    found = [*loaded.problems, *more]
    if loaded.suite is not None and loaded.source is not None:
        found += _review_patterns(loaded.suite, loaded.source)
    return sorted(found, key=lambda one: (one.file, one.line, one.column))


def _review_patterns(suite: Suite, source: Source) -> Iterator[Problem]:
    for position, pattern in enumerate(suite.formatting.guideline_patterns):
        if count_alternatives(pattern) > MOST_ALTERNATIVES:
            message = f"this pattern has more than {MOST_ALTERNATIVES} alternatives; write several patterns"
            yield source.problem("out-of-range", f"guideline_patterns[{position}]", message)


def review_case(built: Built, suite: Source, options: Formatting) -> Iterator[Problem]:
    """What formatting has to say about a case."""
    case = built.rest
    if case is None:
        return
    for diagnostic in diagnose_reference(case):
        if diagnostic.code in _REFERENCE_WORDS:
            message = _REFERENCE_WORDS[diagnostic.code].format(file=in_quotes(diagnostic.path or ""))
            place = CasePlace(case.at, built.source, suite)
            yield place.problem(diagnostic.code, diagnostic.at, message, severity="warning")
    if _is_plain(case, options):
        return
    turns = take_turns(case.messages, options)
    explained = built.explains("prompt", "input_messages")
    for diagnostic in diagnose_case(case, turns, options):
        if diagnostic.code == "file-not-found" or (diagnostic.code == "no-visible-content" and explained):
            continue  # loading has said so, or why
        severity = "warning"
        if diagnostic.code == "marker-in-text" and options.marker_in_text == "error":
            severity = "error"
        message = _DIAGNOSTIC_WORDS[diagnostic.code](case, diagnostic, options)
        place = CasePlace(case.at, built.source, suite)
        yield place.problem(diagnostic.code, diagnostic.at, message, severity=severity)
    message = _no_user_message(case, turns.turns, options, built)
    if message:
        place = CasePlace(case.at, built.source, suite)
        yield place.problem("no-user-message", case.messages[0].at, message, severity="warning")


def _review_labelled(built: Built, source: Source, suite: Suite) -> Iterator[Problem]:
    return review_case(built, source, suite.formatting)


def _review_all(built: Built, source: Source, suite: Suite) -> Iterator[Problem]:
    """The same, and what the judges of a case lack."""
    yield from review_case(built, source, suite.formatting)
    case = built.rest
    if case is None or built.explains("expected_messages"):
        return
    reference = reference_answer(expected_messages(case, suite.formatting))
    for check in walk_level(case.level):
        if isinstance(check, Compare) and not check.other_target and not other_answer(check, reference).strip():
            message = "nothing to compare with: add `reply` or `reply_of`, or `expected_messages` to the case"
            yield CasePlace(case.at, built.source, source).problem("missing-field", check.at, message)


def _is_plain(case: Case, options: Formatting) -> bool:
    """Is it one text of the user? Then there is nothing to say, unless it looks like a marker."""
    lone = lone_text(case)
    return lone is not None and not has_marker_line(lone.text, options.marker)


def _no_user_message(case: Case, turns: tuple[Turn, ...], options: Formatting, built: Built) -> str | None:
    """What to say when no user speaks. Where nothing at all is visible, or a file is missing, that has been said."""
    if not case.messages or not built.touched.isdisjoint(("prompt", "input_messages", ANYTHING)):
        return None
    if not any(message.role == "user" for message in case.messages):
        return "no user message: most models expect one"
    visible = [turn.role for turn in turns if turn.visible]
    if not visible or built.explains("input_messages"):
        return None
    is_alone = visible == ["system"] and not needs_markers(turns, options)
    if is_alone or not any(turn.role == "user" and turn.shown for turn in turns):
        return "the user's message has no text of its own: most models expect one that has"
    return None


def _marker_words(case: Case, diagnostic: Diagnostic, options: Formatting) -> str:
    part = next(part for message in case.messages for part in message.parts if part.at == diagnostic.at)
    text = "" if isinstance(part, OtherPart) else part.text or ""
    line = next((line.strip() for line in text.splitlines() if has_marker_line(line, options.marker)), "")
    shown = line if len(line) <= _LONGEST_SHOWN else f"{line[:_LONGEST_SHOWN]}..."
    where = f" of {in_quotes(part.path)}" if isinstance(part, FilePart) else ""
    words = f"the line `{shown}`{where} begins like a role marker"
    if options.marker_in_text == "escape":
        return f"{words}; it is sent with a backslash before it"
    return f"{words} and could be mistaken for a turn; set `formatting.marker_in_text: escape` to make it safe"


def _empty_words(case: Case, _diagnostic: Diagnostic, options: Formatting) -> str:
    parts = [part for message in case.messages for part in message.parts if isinstance(part, FilePart)]
    if any(part.text and is_guideline_file(part, options.guideline_patterns) for part in parts):
        return "nothing but guidelines is left to send; add the question as text"
    return "this conversation is empty; nothing would be sent"


_REFERENCE_WORDS = {
    "empty-file": "the file {file} is empty, so no judge is shown anything of it",
    "no-assistant-message": "no message has `role: assistant`; judges are shown this last one as the reference answer",
}
_LONGEST_SHOWN = 60
_DIAGNOSTIC_WORDS: dict[str, Callable[[Case, Diagnostic, Formatting], str]] = {
    "marker-in-text": _marker_words,
    "empty-file": lambda _, found, __: f"the file {in_quotes(found.path or '')} is empty, so nothing of it is sent",
    "no-visible-content": _empty_words,
}


def kind_of(path: Path) -> FileKind:
    """What a file is, by its place, its name and its first words."""
    if path.stem == "targets":
        return "targets"
    if path.stem == "config" and path.parent.name in (".rejoinder", ".agentv"):
        return "config"
    head = _head(path)
    if re.search(r"^\$schema:\s*[\"']?agentv-targets", head, re.MULTILINE):
        return "targets"
    if re.search(r"^\$schema:\s*[\"']?agentv-config", head, re.MULTILINE):
        return "config"
    return "suite"


def find_files(paths: Iterable[Path]) -> tuple[list[Path], list[str]]:
    """The files that are meant: those that are named, and in folders those that are suites."""
    found: list[Path] = []
    passed_over: list[str] = []
    for path in list(paths) or [find_default()]:
        candidates = _candidates(path)
        if candidates is None:
            found.append(path)
            continue
        inside: list[Path] = []
        for file in candidates:
            if looks_like_suite(file):
                inside.append(file)
            else:
                passed_over.append(str(file))
        if not inside:
            raise _nothing_found(path, candidates)
        found += inside
    by_identity: dict[str, Path] = {}
    for path in found:
        by_identity.setdefault(_identity(path), path)
    return list(by_identity.values()), passed_over


def _candidates(path: Path) -> list[Path] | None:
    """The files that a folder or a pattern stands for; None for a path that names one file."""
    if os.path.isdir(path):  # noqa: PTH112 - as in `_head`
        return _yaml_files(path)
    if _is_pattern(path):
        return _matching_files(str(path))
    return None


def _nothing_found(path: Path, candidates: list[Path]) -> UsageError:
    if candidates or not _is_pattern(path):
        where = f"among the files of {str(path)!r}" if _is_pattern(path) else f"in the folder {str(path)!r}"
        return UsageError(f"there is no suite {where}", "Name the files, or add one with `evals:`.")
    return UsageError(f"no file matches {str(path)!r}", "A pattern such as 'evals/**/*.yaml' matches YAML files.")


def _is_pattern(path: Path) -> bool:
    return any(one in str(path) for one in "*?[") and not os.path.lexists(path)


def _matching_files(pattern: str) -> list[Path]:
    """The YAML files of a pattern that the shell has left as it is: `*`, `?`, `**` and `[ab]`."""
    from glob import glob

    found = map(Path, sorted(glob(pattern, recursive=True)))  # noqa: PTH207 - a `Path` cannot hold an absolute pattern
    return [path for path in found if path.suffix.lower() in (".yaml", ".yml") and path.is_file()]


def _identity(path: Path) -> str:
    """One name for all spellings of a file."""
    try:
        return os.path.realpath(path)
    except (OSError, ValueError):
        return str(path)


def find_default() -> Path:
    """The suite of the working directory, where no file is named."""
    for name in DEFAULT_NAMES:
        if Path(name).is_file():
            return Path(name)
    named = sorted(Path().glob("*.rejoinder.y*ml"))
    if len(named) == 1:
        return named[0]
    raise UsageError(
        "no file was named, and there is no suite here",
        f"Name a file, or call it one of {', '.join(DEFAULT_NAMES)}; `rejoinder init` writes one to start from.",
    )


def looks_like_suite(path: Path) -> bool:
    """Does the file have a key that only suites have? Broken YAML counts by its text."""
    text = _head(path, 1_000_000)
    start = r"[{,\n]\s*" if text.lstrip().startswith("{") else "^"
    return re.search(rf"{start}[\"']?(evals|evalcases)[\"']?\s*:", text, re.MULTILINE) is not None or (
        re.search(rf"{start}[\"']?cases[\"']?\s*:\s*\S+\.(jsonl|ndjson|csv)\b", text, re.MULTILINE) is not None
    )


def _validate_targets(path: Path, missing: Severity) -> list[Problem]:
    source, problems = read_targets_file(path, Path.cwd())
    if source is None:
        return problems
    targets = Targets()
    targets.add(source, source.document.data["targets"], ("targets",))
    environment = open_project(path.resolve().parent).environment
    for name in targets.entries:
        problems += targets.check_environment(name, environment, missing)
    return problems + targets.problems


def _yaml_files(folder: Path) -> list[Path]:
    def passed_over(path: Path) -> bool:
        parts = path.relative_to(folder).parts
        return any(part in _PASSED_OVER or part.startswith(".") for part in parts)

    files = (path for pattern in ("*.yaml", "*.yml") for path in folder.rglob(pattern))
    return sorted(path for path in files if path.is_file() and not passed_over(path))


def _head(path: Path, size: int = 2000) -> str:
    if not os.path.isfile(path):  # noqa: PTH113 - a pipe would be waited for; an impossible name is just no file
        return ""
    try:
        with path.open("rb") as stream:
            return stream.read(size).decode("utf-8", "replace")
    except OSError:
        return ""
