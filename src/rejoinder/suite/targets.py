"""Targets: read from the project's files and the suite, merged by name, chosen by one rule. Nothing is contacted.

Later wins: in each folder from the repository root down to the suite's, `.agentv/targets.yaml`,
`.rejoinder/targets.yaml` and the configuration's `targets`; then the file given with `--targets`, then the suite's own.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeGuard

from msgspec import Struct, structs

from rejoinder.errors import MissingKey, Severity
from rejoinder.model import Problem, Target
from rejoinder.model.providers import PROVIDER_NAMES, PROVIDERS, READY_NAMES, row_of
from rejoinder.project.environment import is_secret
from rejoinder.project.files import (
    CERTIFICATE_SPELLINGS,
    FileFault,
    certificate_files,
    explain_missing_certificate,
    find_certificate,
)
from rejoinder.project.folders import display_path
from rejoinder.project.plugins import PROVIDERS_GROUP, find_entry_point
from rejoinder.spelling import did_you_mean
from rejoinder.suite.agentv_files import as_foreign, is_of_agentv, problems_of_target, without_unread_settings
from rejoinder.suite.commands import find_command_faults
from rejoinder.suite.configuration import Project, configuration_files
from rejoinder.suite.document_paths import DocumentPath, write_path
from rejoinder.suite.rules import find_conflicts_of_target
from rejoinder.suite.schema import Violation, find_unknown_schema, find_violations, is_in_target
from rejoinder.suite.schema_files import OUTPUT_SCHEMA, output_schema_of, read_output_document, with_output_schemas
from rejoinder.suite.services import find_service_faults
from rejoinder.suite.source import Source, read_source
from rejoinder.suite.target_rules import find_faults_of_auth, find_faults_of_cache, find_faults_of_output_schema
from rejoinder.suite.templates import environment_names, expand_environment, sole_variable
from rejoinder.suite.text_files import TextFiles, find_files_as_texts, with_system_prompts
from rejoinder.suite.tools import ToolSets, read_tools
from rejoinder.words.numbers import listed, plural

_KEY_SETTINGS = frozenset({"api_key", "apiKey"})
_OWN_FIELDS = frozenset(
    (
        *("name", "provider", "judge_target", "judgeTarget", "workers", "system_prompt", "systemPrompt", "settings"),
        *("tools", *OUTPUT_SCHEMA),
    )
)
_LEFT_OUT = object()
_HIDDEN_SETTINGS = frozenset(
    {
        *("env", "args", "headers", "body", "command", "commandtemplate", "config", "mcpservers", "healthcheck"),
        *("setup", "teardown", "authorizationtoken"),
    }
)
"""Settings whose variables are secrets, without separators between words."""
_ADDRESS_SETTINGS = frozenset({"url", "baseurl", "endpoint"})
_SHORTEST_HIDDEN = 8
"""Shorter values are words such as `debug`, unless their names say that they are secrets."""


def _needs(provider: str, setting: DocumentPath) -> bool:
    """Whether a target of this provider requires the setting. Parts of a setting are always required, except the folder
    of a health check; so is every setting of a provider that is not ours."""
    if setting == ("healthcheck", "cwd"):
        return False
    if provider not in PROVIDERS or len(setting) != 1:
        return True
    [name], info = setting, PROVIDERS[provider]
    is_key = name in _KEY_SETTINGS and not info.keyless
    return is_key or name in info.addresses or any(name in group for group in info.needs)


class TargetEntry(Struct, frozen=True):
    target: Target
    source: Source
    path: DocumentPath

    def written(self) -> Any:
        """The target as written in its file."""
        data = self.source.document.data
        for step in self.path:
            data = data[step]
        return data


class Targets:
    """All available targets of a suite."""

    def __init__(self) -> None:
        self.entries: dict[str, TargetEntry] = {}
        self.problems: list[Problem] = []
        """Problems of whole files."""
        self.faults: dict[str, list[Problem]] = {}
        """Problems of single targets, by name. They only block suites that use the target."""
        self.complete = True
        """False if a file could not be read, so that more targets may exist."""
        self.texts: dict[str, str] = {}
        """The files of the targets' system prompts, each with its digest."""
        self._stand_ins: dict[str, TargetEntry] = {}
        """AgentV's targets that only refer to another one, with `use_target`."""

    def add_file(self, source: Source, folder: Path, project: Project) -> None:
        """Merge the targets of a file; `folder`: the folder of the files that it names."""
        files, data = TextFiles(project.finder(folder)), source.document.data
        written = data.get("targets")
        violations = find_violations({"targets": written}, "targets") if isinstance(written, list) else []
        found = [source.violation(one) for one in violations if is_in_target(one.path, data)]

        def read(value: dict[str, Any], path: DocumentPath) -> str:
            try:
                return files.read(value["file"])
            except FileFault as fault:
                found.append(source.violation(Violation(fault.code, (*path, "file"), fault.message)))
                return ""

        def read_schema(file: str, path: DocumentPath) -> Any:
            try:
                return read_output_document(files.read(file), file)
            except FileFault as fault:
                found.append(source.violation(Violation(fault.code, path, fault.message)))
                return None

        entries = with_system_prompts(with_output_schemas(written, ("targets",), read_schema), ("targets",), read)
        self.add(source, entries, found)
        self.texts |= files.digests

    def add(self, source: Source, entries: Any, found: Iterable[Problem] = (), sets: ToolSets | None = None) -> None:
        """Merge the targets of a list. `found`: the problems inside its named targets. `sets`: its suite's."""
        if not isinstance(entries, list):
            return
        seen: dict[str, list[Problem]] = {}
        first: dict[str, int] = {}
        for position, entry in enumerate(entries):
            if not isinstance(entry, dict) or not _is_text(entry.get("name")):
                continue
            name, here = entry["name"], ("targets", position)
            at = f"{write_path(here)}."
            problems = seen.setdefault(name, [])
            problems += [problem for problem in found if f"{problem.path}.".startswith(at)]
            if name in first:
                before = ("targets", first[name], "name")
                line, _ = source.place(before)
                where = f"on line {line}" if line else f"as `{write_path(before)}`"
                message = f"there is a target `{name}` already, {where}"
                problems.append(source.violation(Violation("duplicate-id", (*here, "name"), message)))
                continue
            first[name] = position
            problems += self._put(entry, source, here, sets)
        for name, problems in seen.items():
            self.faults[name] = list(problems_of_target(problems)) if is_of_agentv(source.file) else problems

    def _put(
        self, entry: dict[str, Any], source: Source, here: DocumentPath, sets: ToolSets | None
    ) -> Iterator[Problem]:
        """Replace an earlier target of the same name."""
        name = entry["name"]
        self.entries.pop(name, None)
        self._stand_ins.pop(name, None)
        of_agentv = is_of_agentv(source.file)
        if of_agentv and "provider" not in entry and _is_text(entry.get("use_target")):
            self._stand_ins[name] = TargetEntry(Target(name=name, provider=""), source, here)
        if not _is_text(entry.get("provider")):
            return
        for find in _FINDERS:
            yield from map(source.violation, find(entry, here))
        if not is_known_provider(entry["provider"]):
            message = f"unknown provider `{entry['provider']}`{did_you_mean(entry['provider'], PROVIDER_NAMES)}"
            yield source.violation(Violation("unknown-provider", (*here, "provider"), message), "warning")
        judge = entry.get("grader_target") if of_agentv else None
        read = without_unread_settings(entry) if of_agentv else entry
        target = _target({"judge_target": judge, **read} if _is_text(judge) else read, source.file)
        target, faults = _with_tools(target, entry, here, sets)
        yield from map(source.violation, faults)
        self.entries[name] = TargetEntry(target, source, here)

    def settle_stand_ins(self, environment: Mapping[str, str]) -> None:
        """Replace each target that only refers to another one with that target."""
        for name, stand_in in self._stand_ins.items():
            meant, passed = name, {name}
            while meant in self._stand_ins:
                meant = expand_environment(self._stand_ins[meant].written()["use_target"], environment)
                if meant in passed:
                    break
                passed.add(meant)
            if meant in self.entries:
                entry = self.entries[meant]
                renamed = structs.replace(entry.target, name=name)
                self.entries[name] = structs.replace(entry, target=renamed)
                self.faults[name] = self.faults.get(meant, [])
                continue
            missing = [variable for variable in environment_names(meant) if variable not in environment]
            code = "missing-environment" if missing else "unknown-target"
            why = f"the environment variable `{missing[0]}` is not set" if missing else f"there is no target `{meant}`"
            message = f"target `{name}` refers to another target, but {why}"
            violation = Violation(code, (*stand_in.path, "use_target"), message)
            self.faults[name] = [stand_in.source.violation(violation)]
        self._stand_ins.clear()

    @property
    def unusable(self) -> set[str]:
        """The names of targets that no suite can use."""
        return {name for name, found in self.faults.items() if any(one.severity == "error" for one in found)}

    def choosable(self) -> list[str]:
        """The names from which one is chosen if none is named: a usable target is preferred to an unusable one of
        AgentV."""
        names = dict.fromkeys((*self.entries, *sorted(self.unusable)))
        foreign = {name for _, names in self.list_foreign() for name in names}
        return [name for name in names if name not in foreign] or list(names)

    def list_foreign(self) -> Iterator[tuple[str, list[str]]]:
        """AgentV's files, each with the targets that no suite can use here."""
        files: dict[str, list[str]] = {}
        for name, found in self.faults.items():
            if name in self.unusable and is_of_agentv(found[0].file):
                files.setdefault(found[0].file, []).append(name)
        yield from files.items()

    def names(self) -> dict[str, Target]:
        return {name: entry.target for name, entry in self.entries.items()}

    def check_environment(
        self, name: str, environment: Mapping[str, str], severity: Severity = "error"
    ) -> Iterator[Problem]:
        """The problems of a target that lacks something in the environment."""
        entry = self.entries.get(name)
        if entry is None:
            return
        for path, text in strings_in(entry.written(), entry.path):
            if _is_left_out(entry.target.provider, _setting_at(path, entry.path), text, environment):
                continue
            for variable in environment_names(text):
                if variable not in environment:
                    message = f"the environment variable `{variable}` is not set"
                    yield entry.source.violation(Violation("missing-environment", path, message), severity)

    def check_certificate(
        self, name: str, environment: Mapping[str, str], folders: tuple[str, ...]
    ) -> Iterator[Problem]:
        """Problems of missing client certificate files."""
        entry = self.entries.get(name)
        if entry is None:
            return
        raw = entry.written()
        for at, settings in (((), raw), (("settings",), raw.get("settings"))):
            for spelling in CERTIFICATE_SPELLINGS if isinstance(settings, dict) else ():
                for place, written in certificate_files(settings.get(spelling)).items():
                    filled = expand_environment(written, environment)
                    if "${{" not in filled and find_certificate(filled, folders) is None:
                        path = (*entry.path, *at, spelling, *place)
                        violation = Violation("file-not-found", path, explain_missing_certificate(filled, folders))
                        yield entry.source.violation(violation)


def read_targets(project: Project, further: Path | None = None) -> Targets:
    """The targets of the project's files, of the configuration and of the file that the command names."""
    targets = Targets()
    targets.complete = project.readable
    for layer in project.layers:
        for path in configuration_files(layer.folder, "targets"):
            _add_file(targets, path, project)
        for source in layer.configurations:
            targets.add_file(source, layer.folder, project)
    if further is not None:
        _add_file(targets, further, project)
    targets.settle_stand_ins(project.environment)
    return targets


def _add_file(targets: Targets, path: Path, project: Project) -> None:
    source, problems = read_targets_file(path, project.working)
    targets.problems += problems
    if source is None:
        targets.complete = False
    else:
        targets.add_file(source, path.absolute().parent, project)


def read_targets_file(path: Path, working: Path) -> tuple[Source | None, list[Problem]]:
    """A file of targets and the problems of the whole file; `Targets` has the problems of single targets."""
    source, problems = read_source(path, display_path(path, working))
    if source is not None:
        data = source.document.data
        violations = [one for one in find_violations(data, "targets") if not is_in_target(one.path, data)]
        problems += map(source.violation, violations)
        warnings = [*find_unknown_schema(data, "targets"), *find_files_as_texts(data)]
        problems += [source.violation(warning, "warning") for warning in warnings]
        if not isinstance(data, dict) or (violations and not is_of_agentv(path)):
            source = None
    return source, as_foreign(problems) if is_of_agentv(path) else problems


def resolve(value: str, targets: Mapping[str, Target]) -> Target | None:
    """A target by name, else one that needs no definition, else by `provider/model`."""
    if value in targets:
        return targets[value]
    provider = READY_NAMES.get(value, value)
    if row_of(provider).ready:
        return Target(name=value, provider=provider, workers=row_of(provider).workers)
    provider, slash, model = value.partition("/")
    if not (slash and provider and model):
        return None
    provider = PROVIDER_NAMES.get(provider.lower(), provider)
    if needed_besides_model(provider):
        return None
    return Target(name=value, provider=provider, settings={"model": model})


def left_out_settings(target: Target, environment: Mapping[str, str]) -> dict[str, str]:
    """The settings that count as absent because their variable is not set, each with the variable's name."""
    return {
        write_path(path): environment_names(text)[0]
        for path, text in strings_in(target.settings, ())
        if _is_left_out(target.provider, path, text, environment)
    }


def _is_left_out(provider: str, setting: DocumentPath, text: str, environment: Mapping[str, str]) -> bool:
    """Whether an optional setting consists only of a variable that is not set."""
    variable = sole_variable(text)
    return variable is not None and variable not in environment and not _needs(provider, setting)


def _setting_at(path: DocumentPath, entry: DocumentPath) -> DocumentPath:
    """The place inside a target's settings, which may be under `settings`; () if it is not in a setting."""
    inside = path[len(entry) :]
    inside = inside[1:] if inside[:1] == ("settings",) else inside
    return () if inside[:1] and inside[0] in _OWN_FIELDS else inside


def lacks_settings(target: Target) -> bool:
    """Whether a setting is missing that the provider requires."""
    return any(all(name not in target.settings for name in group) for group in row_of(target.provider).needs)


def needed_besides_model(provider: str) -> str | None:
    """A setting that a provider requires, so that `provider/model` is not enough to ask it."""
    return next((group[0] for group in row_of(provider).needs if "model" not in group), None)


def _is_hidden_at(provider: str, path: DocumentPath, before: str) -> bool:
    """Whether variables in this place are secrets, whatever they are called. Values given to programs, headers, bodies,
    and the rest of an address after its host may be keys; so may all settings of third-party code. `before`: the text
    in front of the last variable."""
    keys = [str(step).lower().replace("_", "").replace("-", "") for step in path if isinstance(step, str)]
    if not keys or keys[-1] == "model":
        return False
    if keys[-1] in _ADDRESS_SETTINGS:
        return re.search(r"://[^/?#]*[/?#]", before) is not None
    is_of_others = provider not in PROVIDERS or PROVIDERS[provider].in_process
    return is_of_others or not _HIDDEN_SETTINGS.isdisjoint(keys)


def settings_with_environment(target: Target, environment: Mapping[str, str]) -> tuple[dict[str, Any], dict[str, str]]:
    """The settings with their `${{ VAR }}` filled in, and the secrets among the values, each with its name. Settings
    that count as absent are left out."""
    missing: dict[str, None] = {}
    secrets: dict[str, str] = {}

    def is_hidden(text: str, path: DocumentPath) -> bool:
        return _is_hidden_at(target.provider, path, expand_environment(text.rpartition("${{")[0], environment))

    def fill_text(text: str, path: DocumentPath) -> str:
        for name in environment_names(text):
            value = environment.get(name)
            if value is None:
                missing[name] = None
            elif value and (is_secret(name, value) or (is_hidden(text, path) and len(value) >= _SHORTEST_HIDDEN)):
                secrets[value] = f"env {name}"
        return expand_environment(text, environment)

    def fill(value: Any, path: DocumentPath) -> Any:
        if isinstance(value, str):
            left_out = _is_left_out(target.provider, path, value, environment)
            return _LEFT_OUT if left_out else fill_text(value, path)
        if isinstance(value, list | tuple):
            return [fill(item, (*path, position)) for position, item in enumerate(value)]
        if isinstance(value, dict):
            filled = {key: fill(item, (*path, key)) for key, item in value.items()}
            return {key: item for key, item in filled.items() if item is not _LEFT_OUT}
        return value

    settings = fill(target.settings, ())
    if missing:
        names = listed([f"`{name}`" for name in missing])
        what = plural(
            len(missing),
            f"the environment variable {names} is not set",
            f"the environment variables {names} are not set",
        )
        hint = f"Set {plural(len(missing), 'it', 'them')} in the environment or in a .env file."
        raise MissingKey(f"target `{target.name}`: {what}", hint, list(missing))
    return settings, secrets


def _target(entry: dict[str, Any], file: str) -> Target:
    inner = entry.get("settings")
    settings = {**(inner if isinstance(inner, dict) else {}), **entry}
    written: str = entry["provider"].lower()
    provider = PROVIDER_NAMES.get(written, written)
    return Target(
        name=entry["name"],
        provider=provider,
        settings={key: value for key, value in settings.items() if key not in _OWN_FIELDS},
        judge_target=settings.get("judge_target", settings.get("judgeTarget")),
        workers=row_of(provider).workers or settings.get("workers"),
        system_prompt=settings.get("system_prompt", settings.get("systemPrompt")),
        output_schema=output_schema_of(settings),
        file=file,
    )


def _with_tools(
    target: Target, entry: dict[str, Any], here: DocumentPath, sets: ToolSets | None
) -> tuple[Target, list[Violation]]:
    """The target with its tools, and the faults of these."""
    inner, place, faults = entry.get("settings"), (*here, "tools"), list[Violation]()
    written: Any = entry.get("tools", ())
    if "tools" not in entry and isinstance(inner, dict) and "tools" in inner:
        written, place = inner["tools"], (*here, "settings", "tools")

    def unknown(position: int, message: str) -> None:
        faults.append(Violation("unknown-tool-set", (*place, position), message))

    return structs.replace(target, tools=read_tools(written, sets, unknown)), faults


def _is_text(value: Any) -> TypeGuard[str]:
    return isinstance(value, str) and bool(value)


def is_known_provider(name: str) -> bool:
    """Whether it is our provider, or an installed package provides it."""
    return name.lower() in PROVIDER_NAMES or find_entry_point(PROVIDERS_GROUP, name) is not None


def _missing(entry: dict[str, Any], path: DocumentPath) -> Iterator[Violation]:
    provider = PROVIDER_NAMES.get(entry["provider"].lower(), "")
    settings = entry.get("settings")
    present = {*entry, *(settings if isinstance(settings, dict) else ())}
    for group in row_of(provider).needs:
        if not present & set(group):
            message = f"a target with provider `{entry['provider']}` needs `{group[0]}`"
            yield Violation("missing-field", (*path, group[0]), message)
    if provider == "scripted" and not present & {"replies", "judge", "embeddings"}:
        yield Violation("missing-field", (*path, "replies"), "a target with provider `scripted` needs `replies`")


def strings_in(data: Any, path: DocumentPath = ()) -> Iterator[tuple[DocumentPath, str]]:
    """All texts among the values of a document, each with its place."""
    if isinstance(data, str):
        yield path, data
    elif isinstance(data, dict | list):
        for step, value in data.items() if isinstance(data, dict) else enumerate(data):
            yield from strings_in(value, (*path, step))


_FINDERS = (
    _missing,
    find_conflicts_of_target,
    find_faults_of_cache,
    find_faults_of_auth,
    find_faults_of_output_schema,
    find_command_faults,
    find_service_faults,
)
"""Functions that find the problems of one target."""
