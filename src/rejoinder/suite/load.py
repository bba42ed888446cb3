"""Loads a suite: read, checked against the schema and the rules, normalised; one pass finds every mistake."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct, structs

from rejoinder.errors import UNFILLED, Severity
from rejoinder.model import Formatting, Problem, Suite, Target, Variant, file_in_project, formatting_for
from rejoinder.model.tools import MOST_ROUNDS, Tool
from rejoinder.project.files import FileFault
from rejoinder.project.folders import display_path
from rejoinder.project.user_files import user_values
from rejoinder.suite.agentv_files import FOLDER
from rejoinder.suite.case_collector import CaseCollector, Review, name_variant, spot_of
from rejoinder.suite.configuration import Project, open_project, read_prices
from rejoinder.suite.context import CaseDefaults, LoadOptions, SuiteContext, WrittenVariant
from rejoinder.suite.document_paths import DocumentPath, read_path, write_path
from rejoinder.suite.given_target import add_given
from rejoinder.suite.pictures import PictureFiles
from rejoinder.suite.schema import Violation, is_in_target, read_schema
from rejoinder.suite.schema_files import read_output_document, with_output_schema, with_output_schemas
from rejoinder.suite.services import FILLED_LATER, is_service
from rejoinder.suite.source import Place, Source, SuiteText, read_source
from rejoinder.suite.suite_check import CheckedSuite, check_suite
from rejoinder.suite.target_names import NamedTargets, route_to_openrouter
from rejoinder.suite.targets import Targets, read_targets, strings_in
from rejoinder.suite.templates import (
    Report,
    Scope,
    expand,
    expand_variables,
    filled_by_cases,
    name_by_function,
    say_nothing,
)
from rejoinder.suite.text_files import NO_WORDS, TextFiles, in_file, with_system_prompts
from rejoinder.suite.tools import ToolSets, read_tools, server_of_metadata
from rejoinder.suite.walk import Walker
from rejoinder.suite.yaml import paused_collector

_OTHER_FILES = {
    ".py": "a Python file",
    ".js": "a JavaScript file",
    ".ts": "a TypeScript file",
    ".sh": "a shell script",
    ".md": "a Markdown file",
    ".toml": "a TOML file",
    ".csv": "a CSV file; a data set is named in a suite, as `cases`",
    ".jsonl": "a JSONL file; a data set is named in a suite, as `cases`",
}


class Loaded(Struct, frozen=True):
    """A suite as far as it could be read. `suite` is None if nothing usable is left."""

    suite: Suite | None
    problems: list[Problem]
    source: Source | None = None
    targets: Targets | None = None
    """All available targets, with their places."""
    named: dict[str, Place] = {}
    """The place that names each target which the suite asks for."""
    environment: Mapping[str, str] = {}

    @property
    def errors(self) -> list[Problem]:
        return [problem for problem in self.problems if problem.severity == "error"]


def read_suite(origin: Path | SuiteText, options: LoadOptions | None = None, review: Review | None = None) -> Loaded:
    """The suite and its problems. `review` sees each case as it is built, so that no case has to be built twice."""
    is_file = isinstance(origin, Path)
    path = origin if is_file else origin.path
    file = display_path(path.absolute(), Path.cwd())
    with paused_collector():
        source, problems = read_source(origin, file)
        if is_file and (other := _other_file(path, source, problems)) is not None:
            return Loaded(None, [Problem(code="yaml-syntax", message=other, file=file)])
        if source is None:
            return Loaded(None, problems)
        reader = _SuiteReader(path.resolve(), source, options or LoadOptions(), is_file=is_file)
        return reader.read(review)


def _other_file(path: Path, source: Source | None, problems: list[Problem]) -> str | None:
    """A message for a file that is plainly not a suite: problems of its YAML would only mislead."""
    kind = _OTHER_FILES.get(path.suffix.lower())
    if kind is None or (source is None and all(problem.code != "yaml-syntax" for problem in problems)):
        return None
    data = source.document.data if source else None
    has_own_keys = isinstance(data, dict) and not read_schema()["properties"].keys().isdisjoint(data)
    return None if has_own_keys else f"this is {kind}, and a suite is a YAML file"


def _in_order(problems: list[Problem], file: str) -> list[Problem]:
    """Each problem once, in document order, problems of other files first."""
    kept = {(*spot_of(problem), problem.message): problem for problem in problems}
    return sorted(kept.values(), key=lambda each: (each.file == file, each.file, each.line, each.column))


class _SuiteReader:
    def __init__(self, path: Path, source: Source, options: LoadOptions, *, is_file: bool) -> None:
        self.path = path
        self.source = source
        self.is_file = is_file
        self.options = options
        self.project: Project = open_project(path.parent)
        self.checked: CheckedSuite = check_suite(source, beside_agentv=self._is_beside_agentv())
        self.data = self.checked.data
        self.problems = [*self.project.problems, *self.checked.problems]
        self.finder = self.project.finder(path.parent)
        self.files = TextFiles(self.finder)
        self.pictures = PictureFiles(self.finder)
        self.texts = _SuiteTexts(source, self.data, options.missing, self.problems, self.files)

    def _is_beside_agentv(self) -> bool:
        return any((layer.folder / FOLDER).is_dir() for layer in self.project.layers)

    def read(self, review: Review | None) -> Loaded:
        if not self.checked.raw:
            return Loaded(None, _in_order(self.problems, self.source.file), self.source)
        self.texts.scope = self._scope()
        targets = self._targets()
        environment, asks = self.project.environment, self.options.asks
        named = NamedTargets(
            targets.names(),
            targets.complete,
            faulty=targets.unusable,
            choosable=targets.choosable(),
            route=lambda name: route_to_openrouter(name, environment, asks=asks),
        )
        choice = _TargetChoice(self.texts, self.project, named, self.options)
        variants = self._variants()
        contexts = self._contexts(choice, [variant for variant, _ in variants])
        self.texts.scope = self._scope()
        formatting = self._formatting()
        self._check_metadata()
        suite = structs.replace(self._suite(choice, formatting), variants=tuple(one for _, one in variants))
        walkers = [Walker(self.data, self.checked.touched, context) for context in contexts]
        collector = CaseCollector(walkers, suite, review)
        cases = collector.collect()
        suite = structs.replace(
            suite,
            cases=cases,
            targets={**suite.targets, **named.routed},
            files={**targets.texts, **self.files.digests},
            pictures=self.pictures.paths,
        )
        if not self.options.only_format:
            collector.check_targets(targets, (str(self.path.parent), str(self.project.root)))
        self.problems += collector.problems
        if collector.followups == {"first"}:
            self.problems += [self.source.violation(each, "warning") for each in self.checked.shared_warnings]
        if self.checked.refuses("vars", "defaults", "variants"):
            self._forget("missing-variable")
        problems = _in_order(self.problems, self.source.file)
        return Loaded(suite, problems, self.source, targets, named.places, self.project.environment)

    def _scope(self, variant: WrittenVariant | None = None) -> Scope:
        """Values for the texts of the suite; the variables of a variant replace the suite's own. Variables that only
        variants have are known to all texts: texts outside of cases get the first variant's value. They have none if
        the value depends on the case."""
        variables = self._outer_variables()
        suite = self.data.get("vars", {})
        if variant is None:
            known = {*variables, *suite}
            every = [one.get("vars", {}) for one in reversed(self.data.get("variants", ()))]
            changed: Mapping[str, Any] = {key: value for one in every for key, value in one.items() if key not in known}
        else:
            changed = variant.variables
            variables.update(variant.replaced)
        changed = name_by_function(changed)
        later = filled_by_cases(changed, {*variables, *suite})
        own = {key: value for key, value in {**suite, **changed}.items() if key not in later}
        variables = {key: value for key, value in variables.items() if key not in later}
        scope = Scope(variables, self.project.environment, None, self.texts.scope.secrets)

        def reporter(key: str) -> Report:
            if key not in changed:
                return self.texts.reporter(f"vars.{key}")
            return say_nothing if variant is None else self.texts.reporter(f"{variant.at}.vars.{key}")

        variables.update(expand_variables(own, scope, reporter))
        return scope

    def _outer_variables(self) -> dict[str, Any]:
        """The variables of the user and the project."""
        return {**user_values("vars"), **self.project.config.get("vars", {})}

    def _variants(self) -> list[tuple[WrittenVariant, Variant]]:
        """The variants in two forms: to build cases, and to ask targets."""
        found: list[tuple[WrittenVariant, Variant]] = []
        known = {**self._outer_variables(), **self.data.get("vars", {})}
        shared = {key: value for key, value in self.texts.scope.variables.items() if key in known}
        for place, data in enumerate(self.data.get("variants", ())):
            path = ("variants", place)
            texts = {key: data[key] for key in ("system_prompt", "prompt", "prompt_prefix") if key in data}
            variables = data.get("vars", {})
            written = WrittenVariant(
                name=data["name"],
                at=write_path(path),
                texts=texts,
                variables=variables,
                replaced={key: value for key, value in shared.items() if key in variables},
            )
            settings = self.texts.tree(data.get("settings", {}), (*path, "settings"))
            settings = with_output_schema(settings, (*path, "settings"), self.texts.schema)
            found.append((written, Variant(name=data["name"], settings=settings)))
        return found

    def _targets(self) -> Targets:
        targets = read_targets(self.project, self.options.targets_file)
        if self.options.only_format:
            targets.problems.clear()
        path = ("targets",)
        written = self.texts.targets(self.checked.raw.get("targets"), path)
        entries = with_system_prompts(with_output_schemas(written, path, self.texts.schema), path, self.texts.of_file)
        # Other expressions in braces are filled in by providers: `${{ VAR }}`, and the requests of `http` targets.
        self._forget("unfilled-braces", "targets[")
        own = [problem for problem in self.problems if self._is_in_target(problem)]
        self.problems[:] = [problem for problem in self.problems if problem not in own]
        targets.add(self.source, entries, own, self._tool_sets())
        targets.complete = targets.complete and not self.checked.refuses("targets")
        if self.options.given is not None:
            add_given(targets, self.options.given, self.project)
        self.problems += targets.problems
        return targets

    def _is_in_target(self, problem: Problem) -> bool:
        """Whether the problem is inside a named target of the suite's own."""
        return problem.file == self.source.file and is_in_target(read_path(problem.path), self.checked.raw)

    def _forget(self, code: str, beginning: str = "") -> None:
        """Drop the problems of a code at places with this beginning."""
        self.problems[:] = [
            problem for problem in self.problems if problem.code != code or not problem.path.startswith(beginning)
        ]

    def _contexts(self, choice: _TargetChoice, variants: list[WrittenVariant]) -> list[SuiteContext]:
        """The shared data of cases, for each variant. A problem of only some variants names them."""
        if not variants:
            return [self._context(choice, None)]
        contexts: list[SuiteContext] = []
        found: list[list[Problem]] = []
        for variant in variants:
            before = len(self.problems)
            contexts.append(self._context(choice, variant))
            found.append(self.problems[before:])
            del self.problems[before:]
        everywhere = set.intersection(*(set(map(spot_of, problems)) for problems in found))
        for variant, problems in zip(variants, found, strict=True):
            self.problems += name_variant(problems, everywhere, variant.name)
        return contexts

    def _context(self, choice: _TargetChoice, variant: WrittenVariant | None) -> SuiteContext:
        project = self.project
        self.texts.scope = self._scope(variant)
        return SuiteContext(
            source=self.source,
            file=file_in_project(str(self.path), str(project.root)),
            finder=self.finder,
            files=self.files,
            pictures=self.pictures,
            targets=choice.targets,
            scope=self.texts.scope,
            has_variables=bool(self.data.get("vars")) or (variant is not None and bool(variant.variables)),
            defaults=self._defaults(choice),
            options=self.options,
            variant=variant,
        )

    def _defaults(self, choice: _TargetChoice) -> CaseDefaults:
        metadata = self.data.get("metadata", {})
        return CaseDefaults(
            targets=choice.candidates(),
            judge_target=choice.judge(),
            system_prompt=self.texts.first("metadata.system_prompt", "metadata.systemPrompt") or "",
            followups=metadata.get("followups", "first"),
            max_turns=metadata.get("max_turns"),
            control=self.data.get("control"),
            ready_followups=self.data.get("ready_followups"),
            conversation_checks=self.data.get("conversation_checks") or [],
            tags=tuple(dict.fromkeys(self.texts.tree(metadata.get("tags", []), ("metadata", "tags")))),
            checks=self.data.get("checks"),
            evaluators=self.data.get("execution", {}).get("evaluators") or [],
            reply=self.data.get("reply"),
            output_schema=self.data.get("output_schema"),
            tools=self._tools(),
            tool_sets=self._tool_sets(),
            max_tool_rounds=self.data.get("max_tool_rounds", MOST_ROUNDS),
            words_known=not self.checked.refuses("variants"),
            grading_known=not self.checked.explains("checks", "execution"),
        )

    def _tools(self) -> tuple[Tool, ...]:
        """The suite's tools, including vibecheck's `mcp_server`."""
        written = self.texts.tree(self.data.get("tools", []), ("tools",))
        self._forget("unfilled-braces", "tools[")  # `${{ VAR }}` is filled in when the tools are used
        server = self.data.get("metadata", {}).get("mcp_server")
        if isinstance(server, dict) and {"name", "url"} <= server.keys():
            written = [*written, server_of_metadata(self.texts.tree(server, ("metadata", "mcp_server")))]

        def unknown(position: int, message: str) -> None:
            self.problems.append(self.source.violation(Violation("unknown-tool-set", ("tools", position), message)))

        return read_tools(written, self._tool_sets(), unknown)

    def _tool_sets(self) -> ToolSets:
        sets = self.data.get("tool_sets", {})
        found = {name: read_tools(self.texts.tree(tools, ("tool_sets", name))) for name, tools in sets.items()}
        self._forget("unfilled-braces", "tool_sets.")
        return found

    def _formatting(self) -> Formatting:
        explicit = {**self.project.config.get("formatting", {}), **self.data.get("formatting", {})}
        profile = explicit.pop("profile", "spec")
        explicit = {key: value for key, value in explicit.items() if not key.startswith("x-")}
        for key in ("marker", "default_system_prompt"):
            if explicit.get(key) is not None:
                explicit[key] = self.texts.text(explicit[key], f"formatting.{key}")
        if self.options.removes_system_prompts:
            explicit["default_system_prompt"] = ""
        patterns = self.project.config.get("guideline_patterns")
        if "guideline_patterns" in self.data:
            patterns = self.texts.tree(self.data["guideline_patterns"], ("guideline_patterns",))
        if patterns is not None:
            explicit["guideline_patterns"] = tuple(patterns)
        return formatting_for(profile, **explicit)

    def _check_metadata(self) -> None:
        """Fill in the texts that are not filled in elsewhere, to report missing variables in them."""
        metadata = self.data.get("metadata", {})
        of_cases = ("system_prompt", "systemPrompt", "tags")
        self.texts.tree({key: metadata[key] for key in metadata if key not in of_cases}, ("metadata",))

    def _suite(self, choice: _TargetChoice, formatting: Formatting) -> Suite:
        """The suite without its cases."""
        config, budget = self.project.config, self.data.get("budget", {})
        return Suite(
            path=str(self.path),
            root=str(self.project.root),
            folder=None if self.is_file else str(self.path.parent),
            text=self.source.text,
            cases=(),
            name=self.texts.first("metadata.name", "name", "dataset"),
            description=self.texts.first("metadata.description", "description"),
            formatting=formatting,
            targets=self._asked_targets(choice.targets.known),
            prices=read_prices(config) if "prices" in config else {},
            secrets=self.texts.scope.secrets,
            threads=self.data.get("metadata", {}).get("threads"),
            judge_target=choice.project_judge(),
            embedding_target=choice.embedder(),
            budget_usd=budget.get("usd"),
            budget_tokens=budget.get("tokens"),
            loaded_with=self.options.loaded_with,
        )

    def _asked_targets(self, targets: Mapping[str, Target]) -> dict[str, Target]:
        """The targets as they are asked: without their own system prompts if the command removes them."""
        if not self.options.removes_system_prompts:
            return dict(targets)
        return {name: structs.replace(target, system_prompt=None) for name, target in targets.items()}


class _SuiteTexts:
    """The texts of a suite outside its cases, with their templates filled in."""

    def __init__(
        self, source: Source, data: dict[str, Any], missing: Severity, problems: list[Problem], files: TextFiles
    ) -> None:
        self.source = source
        self.data = data
        self.missing: Severity = missing
        self.problems = problems
        """The list that faults of the texts are added to."""
        self.scope = Scope({}, {}, None, {})
        self.files = files

    def text(self, value: str, at: str) -> str:
        return expand(value, self.scope, self.reporter(at))

    def first(self, *places: str) -> str | None:
        """The text at the first of these places that has one."""
        for at in places:
            value: Any = self.data
            for key in read_path(at):
                value = value.get(key, {})
            if value:
                return self.words(value, at)
        return None

    def words(self, value: Any, at: str) -> str:
        """A text, or the content of the file that holds it."""
        if isinstance(value, str):
            return self.text(value, at)
        before = len(self.problems)
        file = self.text(value["file"], f"{at}.file")
        if any(problem.code in UNFILLED for problem in self.problems[before:]):
            return NO_WORDS
        return self.of_file({"file": file}, read_path(at))

    def of_file(self, value: dict[str, Any], path: DocumentPath) -> str:
        """The content of a file. Variables in its name are already filled in."""
        file: str = value["file"]
        try:
            text = self.files.read(file)
        except FileFault as fault:
            self.problems.append(self.source.violation(Violation(fault.code, (*path, "file"), fault.message)))
            return NO_WORDS
        return expand(text, self.scope, in_file(self.reporter(write_path(path)), file))

    def schema(self, file: str, path: DocumentPath) -> Any:
        """The JSON Schema in a file."""
        try:
            return read_output_document(self.files.read(file), file)
        except FileFault as fault:
            self.problems.append(self.source.violation(Violation(fault.code, path, fault.message)))
            return None

    def targets(self, written: Any, path: DocumentPath) -> Any:
        """The targets of a suite. The requests of a service are filled in again with each call, so `{{ '{{' }}` stays
        there as it is written."""
        if not isinstance(written, list):
            return self.tree(written, path)
        return [
            self.tree(target, (*path, place), FILLED_LATER if is_service(target) else ())
            for place, target in enumerate(written)
        ]

    def tree(self, value: Any, path: DocumentPath, later: Collection[str] = (), *, keeps_braces: bool = False) -> Any:
        """A value with all its texts filled in, each at its own place. `later`: keys of texts to fill in again."""
        if isinstance(value, str):
            scope = structs.replace(self.scope, keeps_braces=keeps_braces)
            return expand(value, scope, self.reporter(write_path(path))) if "{{" in value else value
        if isinstance(value, list):
            return [
                self.tree(item, (*path, position), later, keeps_braces=keeps_braces)
                for position, item in enumerate(value)
            ]
        if isinstance(value, dict):
            return {
                key: self.tree(item, (*path, key), later, keeps_braces=keeps_braces or key in later)
                for key, item in value.items()
            }
        return value

    def reporter(self, at: str) -> Report:
        return self.source.reporter(at, self.problems, self.missing)


class _TargetChoice:
    """The choice of targets that answer, judge and give embeddings: the suite's, else the project's."""

    def __init__(self, texts: _SuiteTexts, project: Project, targets: NamedTargets, options: LoadOptions) -> None:
        self.texts = texts
        self.project = project
        self.targets = targets
        self.options = options

    def candidates(self) -> tuple[str, ...]:
        """The targets of cases that name none; () if none is named anywhere."""
        if self.options.targets:
            for name in self.options.targets:
                self.targets.take(name)
            return self.options.targets
        chosen = self._of_suite("execution.target", "target", "metadata.model")
        if not chosen and (of_project := self._of_project("target")) is not None:
            chosen = (of_project,)
        if chosen:
            return chosen
        only = self._choose(self.targets.choosable) or self._choose(self._own_unnamed())
        return () if only is None else (only,)

    @staticmethod
    def _choose(names: list[str]) -> str | None:
        return "default" if "default" in names else names[0] if len(names) == 1 else None

    def _own_unnamed(self) -> list[str]:
        """The suite's own targets that it never names; judges are named, so they are not among them."""
        entries = self.texts.data.get("targets") or []
        written = {key: value for key, value in self.texts.data.items() if key != "targets"}
        named = {text for _, text in strings_in(written)}
        return [name for entry in entries if (name := entry["name"]) not in named and name in self.targets.known]

    def judge(self) -> str | None:
        return next(iter(self._of_suite("execution.judge_target", "judge_target")), None)

    def project_judge(self) -> str | None:
        """The judge of targets without one, in suites without one."""
        return self._of_project("judge_target")

    def embedder(self) -> str | None:
        chosen = next(iter(self._of_suite("embedding_target")), None)
        return self._of_project("embedding_target") if chosen is None else chosen

    def _of_suite(self, *places: str) -> tuple[str, ...]:
        """The names at the first of these places that has any."""
        for at in places:
            outer, _, key = at.rpartition(".")
            data: dict[str, Any] = self.texts.data.get(outer, {}) if outer else self.texts.data
            written = data.get(key)
            if isinstance(written, list):
                return tuple(dict.fromkeys(self._named(name, f"{at}[{place}]") for place, name in enumerate(written)))
            if written:
                return (self._named(written, at),)
        return ()

    def _named(self, value: str, at: str) -> str:
        """A target that the suite names. A name that could not be filled in is not checked."""
        before = len(self.texts.problems)
        name = self.texts.text(value, at)
        if all(problem.code not in UNFILLED for problem in self.texts.problems[before:]):
            self._check(name, at, self.texts.source)
        return name

    def _of_project(self, key: str) -> str | None:
        name = self.project.config.get(key)
        if not name:
            return None
        self._check(name, key, self.project.config_sources[key])
        return name

    def _check(self, name: str, at: str, source: Source) -> None:
        if not self.options.only_format:
            self.texts.problems += self.targets.check(name, source, at)
