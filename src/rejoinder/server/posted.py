"""Suites that come in a request: what they may name, decided before anything of them is queued.

A suite of a stranger uses the server's targets by name, or scripted ones of its own. An address, a variable of the
environment or of the user, a secret, a command, code, or a file that did not come with it is refused, unless the
server was started with `--allow-targets` or `--allow-code`. The document is looked at as it is written
(`references.py`), and then, loaded, as what it has become: expressions can make a name that was not written.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from msgspec import Struct, structs

from rejoinder.client import RunChoices, StartRun
from rejoinder.engine.plan import survey_plan
from rejoinder.errors import SuiteError, UsageError
from rejoinder.model import AttachedPicture, FilePart, ImagePart, Problem, Suite, Webhook
from rejoinder.model.checks import Check
from rejoinder.model.tools import McpTools, PythonTool, runs_code
from rejoinder.project.files import recording_files
from rejoinder.project.user_files import user_values
from rejoinder.providers.settings import normalize_keys
from rejoinder.runs.loading import load_options
from rejoinder.runs.options import RunOptions
from rejoinder.server.errors import ApiError
from rejoinder.server.queue import ENTRY, LOG, SUITE
from rejoinder.server.references import Kind, Reference, find_expressions, find_references
from rejoinder.server.settings import Settings
from rejoinder.suite.configuration import Project, open_project
from rejoinder.suite.datasets import SUFFIXES, read_rows
from rejoinder.suite.discover import find_files
from rejoinder.suite.document_paths import read_path
from rejoinder.suite.source import read_source
from rejoinder.suite.targets import read_targets, resolve
from rejoinder.suite.yaml import Document
from rejoinder.validation.review import load_suites

_FILE_NAME = re.compile(r"(?:[A-Za-z0-9_][A-Za-z0-9._-]{0,99}/){0,7}[A-Za-z0-9_][A-Za-z0-9._-]{0,99}")
_OWN_NAMES = (ENTRY, LOG, SUITE)
MOST_REFUSALS = 20
MOST_WORKERS = 100
_ASKED = ("targets", "target", "judge_target", "embedding_target", "other_target", "reply_of", "audit")
"""Fields of the model that name targets."""
_CANDIDATES = ("execution.target", "target", "metadata.model")
"""Where a suite names the targets that answer its cases."""
_WORDS: dict[Kind, str] = {
    "file": "names the file {name}, which did not come with it; send it in `files`",
    "file-or-text": "names the file {name}, which did not come with it; send it in `files`",
    "address": "names an address ({name}); this server lets no suite from elsewhere bring one (--allow-targets)",
    "code": "runs code or a command ({name}); this server lets no suite from elsewhere do that (--allow-code)",
    "target": "brings or names a target that is not the server's ({name}); use one of the server's by its name, or one"
    " with provider `scripted` (--allow-targets)",
    "environment": "names {name} of the server's environment; a suite from elsewhere may not (--allow-targets)",
    "secret": "names the secret {name}; a suite from elsewhere may not (--allow-targets)",
    "variable": "names the variable {name} of the server's; a suite from elsewhere has its own under `vars`"
    " (--allow-targets)",
}
_CODES = {"file-or-text": "file"}
_COMMANDS = frozenset(
    {
        *("start", "auth", "command", "command_template", "healthcheck", "call", "executable"),
        *("args", "env", "cwd", "setup", "teardown", "mcp_servers", "config"),
    }
)
"""Settings by which a variant could make one of the server's targets run something else."""
_FREED_BY_CODE: tuple[Kind, ...] = ("code", "file", "file-or-text")


def options_of(choices: RunChoices) -> RunOptions:
    """The options of a run by the same names."""
    return RunOptions().changed(**structs.asdict(choices))


def check_own(settings: Settings, path: Path, choices: RunChoices) -> None:
    """Raises where a suite of the user's own cannot be run with these choices."""
    options = options_of(choices)
    files, _ = find_files([path])
    suites, _ = load_suites(files, load_options(options))
    known = {name for suite in suites for name in suite.targets}
    _refuse_targets(settings, known | _named_by_project(open_project(files[0].parent)), choices.targets)
    _refuse_empty(suites, options)


def check_file_names(wanted: StartRun) -> None:
    """Raises ApiError for names of files that could lead out of their folder, or be taken for ours."""
    for name in wanted.files:
        if not _FILE_NAME.fullmatch(name) or name in _OWN_NAMES or name.casefold() != name.casefold().strip(". "):
            message = (
                f"{name[:100]!r} cannot be the name of a file; use letters, digits, `_`, `-` and `.`, with `/` between"
            )
            raise ApiError(422, message, code="file-name")
        if any(other != name and other.startswith(f"{name}/") for other in wanted.files):
            raise ApiError(422, f"{name!r} is a file and a folder", code="file-name")


def check_posted(settings: Settings, folder: Path, wanted: StartRun) -> str:
    """Look at a posted suite, whose files are in a folder of their own; what it is called. Raises ApiError with all
    that is refused, or SuiteError."""
    path = folder / SUITE
    source, problems = read_source(path, SUITE)
    if source is None:
        raise SuiteError(problems)
    project = open_project(folder)
    _refuse(settings, _look_at_words(source.document.data, folder, project, wanted))
    options = options_of(wanted.options)
    try:
        with recording_files() as read:
            suites, _ = load_suites([path], load_options(options))
            cases = [case for suite in suites for case in suite.cases]
    except SuiteError as error:
        raise SuiteError([structs.replace(one, file=_shown(one.file)) for one in error.problems]) from None
    own = _own_targets(source.document.data)
    allowed = _server_targets(project) | own | _named_by_project(project)
    _refuse(settings, _look_at_suite(suites[0], own, allowed))
    found = (one for case in cases for one in _look_at(case, case.at, folder, allowed))
    _refuse(settings, (structs.replace(one, at=_place_in(source.document, one.at)) for one in found))
    _refuse(settings, _look_at_files(read, folder, project))
    _refuse_targets(settings, allowed, wanted.options.targets)
    _refuse_large(settings, suites[0], _refuse_empty(suites, options))
    return (suites[0].name or "a suite that was sent")[:200]


def _place_in(document: Document, at: str) -> str:
    """Where the suite names the targets of a case: in the case itself, or for all cases."""
    case, _, field = at.rpartition(".")
    if field != "targets":
        return at
    places = (f"{case}.execution.target", *_CANDIDATES)
    return next((place for place in places if document.has(read_path(place))), f"{case}.execution.target")


def _shown(file: str) -> str:
    """Of a posted file its name; where the server keeps it is not the sender's business."""
    return Path(file).name


def _refuse(settings: Settings, found: Iterable[Reference]) -> None:
    refused: dict[tuple[str, str], str] = {}
    for one in found:
        free = settings.allow_code if one.kind in _FREED_BY_CODE else settings.allow_targets
        if not free:
            name = f"`{one.name[:100]}`"
            refused.setdefault((one.kind, one.at), f"{one.at or 'the suite'} {_WORDS[one.kind].format(name=name)}")
        if len(refused) >= MOST_REFUSALS:
            break
    if refused:
        details = [
            {"code": _CODES.get(kind, kind), "path": at, "message": words} for (kind, at), words in refused.items()
        ]
        raise ApiError(422, details[0]["message"], code=f"names-{details[0]['code']}", details=details)


def _refuse_targets(settings: Settings, known: set[str], names: Iterable[str]) -> None:
    _refuse(settings, (one for name in names for one in _other_target(name, known, "options.targets")))


def _other_target(name: str, known: set[str], at: str) -> Iterator[Reference]:
    """A name that is none of the server's. That of an agent, which needs no entry, is code as well."""
    if name not in known:
        yield Reference("target", name, at)
        found = resolve(name, {})
        if found is not None and found.runs_code:
            yield Reference("code", name, at)


def _refuse_empty(suites: list[Suite], options: RunOptions) -> int:
    """How many conversations there are."""
    planned = survey_plan(suites, options).planned
    if planned == 0:
        raise UsageError("no case is selected", "Look at `cases`, `tags` and `limit`.")
    return planned


def _refuse_large(settings: Settings, suite: Suite, planned: int) -> None:
    """Raises ApiError for a suite from elsewhere that asks for too much at once."""
    most = settings.limits.conversations
    if planned > most:
        raise ApiError(422, f"the suite has {planned:,} conversations, and {most:,} are taken", code="too-many-cases")
    if (suite.threads or 0) > MOST_WORKERS:
        raise ApiError(422, f"`metadata.threads` is at most {MOST_WORKERS} here", code="too-many-threads")


# As it is written


def _look_at_words(data: Any, folder: Path, project: Project, wanted: StartRun) -> Iterator[Reference]:
    finder = project.finder(folder)
    foreign = {*user_values("vars"), *project.config.get("vars", {})} - _own_variables(data)
    texts: list[str] = []

    def decided(found: Reference) -> bool:
        """Is it to be refused?"""
        if found.kind == "variable":
            return found.name in foreign
        if found.kind == "file":
            if found.at.endswith(".file"):
                texts.append(found.name)
            return found.name not in wanted.files and not has_files_in(found.name, wanted.files)
        if found.kind == "file-or-text":
            there = None if "\n" in found.name else finder.find(found.name)
            return there is not None and not there.resolve().is_relative_to(folder.resolve())
        return True

    yield from filter(decided, find_references(data))
    for name in wanted.files:
        if Path(name).suffix.lower() in SUFFIXES:
            for row in read_rows(folder / name, name):
                if not isinstance(row, Problem):
                    found = (one for one in find_references(row.values, "case") if decided(one))
                    yield from (structs.replace(one, at=f"{name}:{row.number} {one.at}") for one in found)
    for name in dict.fromkeys(texts):
        found = (one for one in find_expressions(wanted.files.get(name, "")) if decided(one))
        yield from (structs.replace(one, at=name) for one in found)


def has_files_in(folder: str, files: Iterable[str]) -> bool:
    """Whether some of the files are in a folder, as written relative to the suite."""
    return any(name.startswith(f"{folder.rstrip('/')}/") for name in files)


def _own_variables(data: Any) -> set[str]:
    """Those that take the places of the server's in every case: of the suite itself, or of all of its variants."""
    document: dict[str, Any] = data if isinstance(data, dict) else {}
    variants = document.get("variants")
    in_variants = [_names_in(one) for one in variants] if isinstance(variants, list) else []
    return _names_in(document) | (set[str].intersection(*in_variants) if in_variants else set[str]())


def _names_in(place: Any) -> set[str]:
    """The names under its `vars`."""
    values = place.get("vars") if isinstance(place, dict) else None
    return {str(key) for key in values} if isinstance(values, dict) else set()


# As it was loaded


def _look_at_suite(suite: Suite, own: set[str], allowed: set[str]) -> Iterator[Reference]:
    for name in suite.secrets.values():
        yield Reference("secret", name, "")
    for variant in suite.variants:
        for name in _COMMANDS.intersection(normalize_keys(variant.settings)):
            yield Reference("code", name, "variants")
        yield from (one for one in find_expressions(variant.settings) if one.kind == "environment")
    for target in (suite.targets[name] for name in own if name in suite.targets):
        if target.runs_code:
            yield Reference("code", target.name, "targets")
        yield from (one for one in find_expressions(target.settings) if one.kind == "environment")
        yield from _names_of(target, allowed, "targets")
        yield from _look_at(target.tools, "targets", Path(suite.root), allowed)
    yield from _names_of(suite, allowed, "")


def _look_at(value: Any, at: str, folder: Path, allowed: set[str]) -> Iterator[Reference]:
    """Everything that a case holds."""
    if isinstance(value, Struct):
        at = str(getattr(value, "at", "") or at)
        if isinstance(value, FilePart) and not _is_in(value.resolved, folder):
            yield Reference("file", value.path, at)
        if isinstance(value, ImagePart | AttachedPicture) and value.resolved and not _is_in(value.resolved, folder):
            yield Reference("file", value.resolved, at)
        if isinstance(value, Webhook):
            yield Reference("address", value.url, at)
        if isinstance(value, Check) and value.runs_code:
            yield Reference("code", type(value).__name__, at)
        if isinstance(value, McpTools | PythonTool):
            yield Reference("code" if runs_code(value) else "address", value.name, at)
        yield from _names_of(value, allowed, at)
        for field in value.__struct_fields__:
            yield from _look_at(getattr(value, field), at, folder, allowed)
    elif isinstance(value, tuple | list):
        for one in value:
            yield from _look_at(one, at, folder, allowed)
    elif isinstance(value, dict):
        for one in value.values():
            yield from _look_at(one, at, folder, allowed)


def _names_of(value: Struct, allowed: set[str], at: str) -> Iterator[Reference]:
    for field in _ASKED:
        named = getattr(value, field, None)
        for name in named if isinstance(named, tuple) else (named,):
            if isinstance(name, str) and name:
                yield from _other_target(name, allowed, f"{at}.{field}" if at else field)


def _look_at_files(read: Iterable[Path], folder: Path, project: Project) -> Iterator[Reference]:
    """Files that were read, and are neither its own nor the project's configuration."""
    with recording_files() as usual:
        open_project(folder)
        read_targets(project)
        for kind in ("vars", "secrets", "suites"):
            user_values(kind)
    known = {path.resolve() for path in usual}
    for path in read:
        if not _is_in(str(path), folder) and path.resolve() not in known:
            yield Reference("file", path.name, "")


def _is_in(path: str | None, folder: Path) -> bool:
    return path is not None and Path(path).resolve().is_relative_to(folder.resolve())


def _own_targets(data: Any) -> set[str]:
    entries = data.get("targets") if isinstance(data, dict) else None
    return {str(one.get("name")) for one in entries if isinstance(one, dict)} if isinstance(entries, list) else set()


def known_targets(root: Path) -> set[str]:
    """The names of the server's targets."""
    project = open_project(root)
    return _server_targets(project) | _named_by_project(project)


def _server_targets(project: Project) -> set[str]:
    return set(read_targets(project).names())


def _named_by_project(project: Project) -> set[str]:
    """What the project's own configuration asks, whatever it is."""
    named = (project.config.get(key) for key in ("target", "judge_target", "embedding_target"))
    return {name for name in named if isinstance(name, str)}
