"""Problems for which `run` would refuse a suite, found without sending anything and without running the user's code.

Cases are checked one by one as they are loaded, and their targets at the end. A problem that another target or another
machine would solve (no target, no key, a target that cannot be asked here) is a warning. A problem in the files (a
missing module, script or embedding target, an output schema that the target's API does not take) is an error.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import structs

from rejoinder.errors import MissingKey, RejoinderError, Severity, UsageError
from rejoinder.model import AnyCheck, Case, Problem, Suite, Target, walk_case
from rejoinder.model.checks import Code, Compare, Judged, PythonCheck, Semantic, ToolState
from rejoinder.model.providers import row_of
from rejoinder.model.suite import COMMANDS_OF_TARGETS
from rejoinder.model.tools import McpTools, PythonTool, Tool, join_tools
from rejoinder.placeholders import words_without
from rejoinder.providers.own_commands import words_of
from rejoinder.providers.registry import is_plugin
from rejoinder.providers.settings import normalize_keys
from rejoinder.suite.document_paths import read_path, write_path
from rejoinder.suite.load import Loaded
from rejoinder.suite.pruning import ANYTHING
from rejoinder.suite.source import CasePlace, Place, Source
from rejoinder.suite.targets import is_known_provider, lacks_settings, settings_with_environment
from rejoinder.suite.templates import environment_names
from rejoinder.suite.walk import Built
from rejoinder.user_code.lookup import find_command, find_function, find_module, find_script
from rejoinder.validation import roles

if TYPE_CHECKING:
    from rejoinder.transcripts.playing import Recordings

_NEEDS_MORE = (Judged, Compare, Semantic, Code, PythonCheck, ToolState)
"""Checks that need more than the reply: another target, or code."""
_OF_ITS_NAME = frozenset({"model-of-openrouter", "unknown-provider"})


class Readiness:
    """Collects the requirements of one suite's cases."""

    def __init__(self) -> None:
        self._asked: dict[str, Target] = {}
        self._without_target: str | None = None
        """The id of the first case without a target."""
        self._seen: set[tuple[str, tuple[str, ...], str | None]] = set()
        """The checks that were reviewed, by place and asked target: the rows of a data set share the suite's checks."""
        self._recordings: dict[str, Recordings | None] = {}
        """Recordings of targets that answer with recorded conversations."""
        self._tools: set[tuple[bytes, str | None]] = set()
        """The tools that were reviewed, with the target that is offered them."""
        self._schemas: set[tuple[str, str]] = set()
        """The places of output schemas that were reviewed, with the target that is sent them."""
        self._servers: list[tuple[McpTools, CasePlace, str]] = []
        """MCP servers, each with the place of its declaration."""

    def review(self, built: Built, source: Source, suite: Suite) -> Iterator[Problem]:
        """Problems of one case; its targets are kept for `review_targets`."""
        case = built.rest
        if case is None:
            return
        place = CasePlace(case.at, built.source, source)
        if not case.targets and self._without_target is None and built.touched.isdisjoint(("execution", ANYTHING)):
            self._without_target = case.id
        checks = [check for check in walk_case(case) if self._is_new(check, case)]
        for name in case.targets:
            if checks or name not in self._asked:
                self._note_asked(case, name, suite)
        yield from self._review_recording(case, suite, place)
        folders = (str(Path(suite.path).parent), suite.root)
        yield from self._review_tools(case, suite, folders, place)
        yield from self._review_output_schema(case, suite, place)
        for check in checks:
            yield from _review_code(check, folders, place)
            yield from _review_embeddings(check, case, suite, place)
            yield from _review_workspace(check, case, suite, place)
            yield from _review_state(check, case, suite, place)

    def review_targets(self, loaded: Loaded, missing: Severity) -> Iterator[Problem]:
        """Problems that keep the cases' targets and the servers of their tools from answering."""
        suite = loaded.suite
        if suite is None or loaded.source is None:
            return
        if self._without_target is not None and not loaded.errors:
            error = roles.no_target(structs.replace(suite, path=loaded.source.file), self._without_target)
            yield loaded.source.problem("no-target", "metadata.model", _in_one_line(error), severity="warning")
        for target in self._asked.values():
            if (place := _place_of(target, loaded)) is not None:
                problems = _review_target(target, suite, loaded.environment, place, missing)
                yield from (problem for problem in problems if not _is_explained(problem, loaded))
        for server, where, at in self._servers:
            for variable in dict.fromkeys(environment_names(msgspec.json.encode(server).decode())):
                if variable not in loaded.environment:
                    message = f"the environment variable `{variable}` of MCP server `{server.name}` is not set"
                    yield where.problem("missing-environment", at, message, severity=missing)

    def _review_recording(self, case: Case, suite: Suite, place: CasePlace) -> Iterator[Problem]:
        """Whether targets with recorded conversations have one for the case."""
        for target in _candidates(case, suite):
            if not row_of(target.provider).recorded:
                continue
            if target.name not in self._recordings:
                self._recordings[target.name] = _open_recordings(target, suite)
            recordings = self._recordings[target.name]
            if recordings is None:
                continue  # which is said of the target
            from rejoinder.transcripts.playing import Wanted

            try:
                recordings.find(Wanted(case.id, case.conversation_id or ""))
            except RejoinderError as error:
                yield place.problem("no-recording", case.at, _in_one_line(error), severity="warning")

    def _review_tools(self, case: Case, suite: Suite, folders: tuple[str, ...], place: CasePlace) -> Iterator[Problem]:
        """Whether the code of tools exists, and the target can be offered them."""
        for target in _candidates(case, suite) or [None]:
            yield from self._review_tools_of(case, target, folders, place)

    def _review_tools_of(
        self, case: Case, target: Target | None, folders: tuple[str, ...], place: CasePlace
    ) -> Iterator[Problem]:
        tools = join_tools(case.all_tools, target.tools if target is not None else ())
        says = any(fault.fault == "says" for tool in tools for fault in tool.fails)
        looked_at = msgspec.json.encode((tools, case.id if says else "")), target.name if target is not None else None
        if not tools or looked_at in self._tools:
            return
        self._tools.add(looked_at)
        at = _place_of_tools(case, place)
        for tool in tools:
            if (message := _find_code_of(tool, folders)) is not None:
                yield place.problem("file-not-found", at, message)
            if isinstance(tool, McpTools):
                self._servers.append((tool, place, at))
            for message in roles.find_idle_faults(tool):
                yield place.problem("no-effect", at, message, severity="warning")
        for code, message in roles.find_unmeasured_texts(case, tools):
            yield place.problem(code, at, message, severity="error" if code == "unknown-check" else "warning")
        if (message := roles.find_two_tools(case, target)) is not None:
            yield place.problem("duplicate-id", at, message)
        elif target is not None and (error := roles.find_tools_fault(case, target)) is not None:
            yield place.problem("unusable-tools", at, _in_one_line(error), severity="warning")

    def _review_output_schema(self, case: Case, suite: Suite, place: CasePlace) -> Iterator[Problem]:
        """Whether the targets can be sent the output schema of the case. A target's own is reviewed with the target."""
        for target in _candidates(case, suite):
            if is_plugin(target.provider) or case.output_schema is None:
                continue
            looked_at = case.output_schema.at, target.name
            if looked_at not in self._schemas and (error := roles.find_output_schema_fault(case, target)) is not None:
                yield place.problem("no-structured-output", looked_at[0], _in_one_line(error))
            self._schemas.add(looked_at)

    def _is_new(self, check: AnyCheck, case: Case) -> bool:
        if not isinstance(check, _NEEDS_MORE) and not check.in_workspace:
            return False
        before = len(self._seen)
        self._seen.add((check.at, case.targets, case.judge_target))
        return len(self._seen) > before

    def _note_asked(self, case: Case, candidate: str, suite: Suite) -> None:
        try:
            pair = roles.pair_of(suite, case, candidate)
        except UsageError:
            return  # a name that is wrong, which loading has said
        for target in (pair.target, *roles.other_targets(pair)):
            self._asked.setdefault(target.name, target)


def _candidates(case: Case, suite: Suite) -> list[Target]:
    """The targets that answer a case, as far as known."""
    found = (roles.find_target(suite, name) for name in case.targets)
    return [target for target in found if target is not None]


def _review_embeddings(check: AnyCheck, case: Case, suite: Suite, place: CasePlace) -> Iterator[Problem]:
    """Whether a target can give embeddings for a check that compares meanings."""
    if not isinstance(check, Semantic):
        return
    name = check.target or suite.embedding_target
    if name is not None:
        target = roles.find_target(suite, name)
        if target is None or is_plugin(target.provider):
            return  # loading has said that the name is wrong; a package's provider is code that would be run
    if (error := roles.find_embedding_fault(suite, case.id, check)) is not None:
        yield place.problem("missing-field", check.at, _in_one_line(error), severity="warning")


def _review_workspace(check: AnyCheck, case: Case, suite: Suite, place: CasePlace) -> Iterator[Problem]:
    """Whether the target has a workspace that a check reads."""
    for target in _candidates(case, suite):
        if (error := roles.find_workspace_fault(case, target, check)) is not None:
            yield place.problem("no-workspace", check.at, _in_one_line(error), severity="warning")


def _review_state(check: AnyCheck, case: Case, suite: Suite, place: CasePlace) -> Iterator[Problem]:
    """Whether a check can ask a tool for its state."""
    for target in _candidates(case, suite):
        if (error := roles.find_state_fault(case, target, check)) is not None:
            yield place.problem("no-tool-state", check.at, _in_one_line(error))
        elif (message := roles.find_shared_state(case, target, check)) is not None:
            yield place.problem("shared-tool-state", check.at, message, severity="warning")


def _in_one_line(error: RejoinderError) -> str:
    if not error.hint:
        return error.message
    hint = error.hint.rstrip(".")
    return f"{error.message}; {hint[0].lower()}{hint[1:]}"


def _place_of(target: Target, loaded: Loaded) -> Place | None:
    entry = loaded.targets.entries.get(target.name) if loaded.targets else None
    if entry is not None:
        key = "call" if row_of(target.provider).in_process else "provider"
        return entry.source, write_path((*entry.path, key))
    return loaded.named.get(target.name)


def _is_explained(problem: Problem, loaded: Loaded) -> bool:
    """Whether loading has already reported a fault of the target. Then it is unknown what else it lacks."""
    target = problem.path.removesuffix(".call").removesuffix(".provider")
    faults = loaded.targets.faults.values() if loaded.targets else ()
    found = chain(loaded.problems, *faults)
    said = (other for other in found if other.severity == "error" or other.code in _OF_ITS_NAME)
    return any(other.file == problem.file and f"{other.path}.".startswith(f"{target}.") for other in said)


def _review_target(
    target: Target, suite: Suite, environment: Mapping[str, str], place: Place, missing: Severity
) -> Iterator[Problem]:
    source, at = place
    if not is_known_provider(target.provider) or lacks_settings(target):
        return  # which loading has said
    folders = (str(Path(suite.path).parent), suite.root)
    try:
        settings, _ = settings_with_environment(target, environment)
    except UsageError:
        return  # variables that are not set, which loading has said
    for name, message in _find_own_commands(normalize_keys(settings), folders, environment):
        own = f"{at.rpartition('.')[0]}.{name}.command"
        is_there = isinstance(source, Source) and source.document.has(read_path(own))
        yield source.problem("file-not-found", own if is_there else at, message)
    if row_of(target.provider).names_code:
        message = _find_own_code(target.provider, normalize_keys(settings), folders)
        if message is not None:
            yield source.problem("file-not-found", at, message)
    elif row_of(target.provider).recorded and (message := _find_recording(target.name, settings, folders)) is not None:
        yield source.problem("file-not-found", at, message)
    elif not is_plugin(target.provider):  # a package's provider is code that would be run
        yield from _open(structs.replace(target, settings=settings), folders, environment, place, missing)


def _find_own_commands(
    settings: Mapping[str, Any], folders: tuple[str, ...], environment: Mapping[str, str]
) -> Iterator[tuple[str, str]]:
    """Why the commands of `start` and `auth` cannot be run, as far as files show, each with its key."""
    for name in COMMANDS_OF_TARGETS:
        own = settings.get(name)
        cwd = own.get("cwd") if isinstance(own, dict) else None
        if not isinstance(own, dict) or not isinstance(cwd, str | None):
            continue  # which loading has said
        with suppress(UsageError):
            words = words_of(own.get("command"), f"`{name}`")
            if (message := find_command(words, cwd, folders, environment.get("PATH"))) is not None:
                yield name, message


def _find_recording(name: str, settings: dict[str, Any], folders: tuple[str, ...]) -> str | None:
    """Why a target cannot answer from its file, if it cannot."""
    from rejoinder.providers.transcript import find_recording

    if find_recording(str(settings["file"]), folders) is not None:
        return None
    return f"there is no file `{settings['file']}`, which target `{name}` answers from"


def _open_recordings(target: Target, suite: Suite) -> Recordings | None:
    """The recordings of a target; None if they cannot be read."""
    from rejoinder.providers.transcript import open_recordings

    if lacks_settings(target):
        return None
    try:
        return open_recordings(target.name, target.settings, (str(Path(suite.path).parent), suite.root))
    except RejoinderError:
        return None


def _find_own_code(provider: str, settings: dict[str, Any], folders: tuple[str, ...]) -> str | None:
    """Why the function or the command of a target is missing, as far as files show."""
    if row_of(provider).in_process:
        return find_function(str(settings["call"]), folders)
    return find_script(words_without(settings), settings.get("cwd"), folders)


def _open(
    target: Target, folders: tuple[str, ...], environment: Mapping[str, str], place: Place, missing: Severity
) -> Iterator[Problem]:
    """Open a target as `run` does, which sends nothing, and report why that fails."""
    from rejoinder.providers.registry import open_provider
    from rejoinder.providers.shared import Exchange

    source, at = place
    try:
        open_provider(target, folders, environment, Exchange())
    except MissingKey as error:
        yield source.problem("missing-environment", at, _in_one_line(error), severity=missing)
    except RejoinderError as error:
        yield source.problem("unusable-target", at, _in_one_line(error), severity="warning")


def _place_of_tools(case: Case, place: CasePlace) -> str:
    """The declaration of tools: in the case, or else in the suite."""
    own = f"{case.at}.tools"
    return own if isinstance(place.source, Source) and place.source.document.has(read_path(own)) else "tools"


def _find_code_of(tool: Tool, folders: tuple[str, ...]) -> str | None:
    if isinstance(tool, PythonTool):
        return find_function(tool.call, folders)
    if isinstance(tool, McpTools) and tool.command and "{{" not in tool.command:
        return find_script((tool.command, *tool.args), None, folders)
    return None


def _review_code(check: AnyCheck, folders: tuple[str, ...], place: CasePlace) -> Iterator[Problem]:
    """Whether the code that a check runs exists."""
    message = None
    if isinstance(check, PythonCheck):
        message = find_module(check.call, folders)  # a missing function is an error of its check only
    elif isinstance(check, Code):
        message = find_script(check.script, check.cwd, folders)
    if message is not None:
        yield place.problem("file-not-found", check.at, message)
