"""Loading a suite: read, checked against the schema and the rules, normalised; every mistake found in one pass."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeAlias

from msgspec import Struct, structs

from rejoinder.errors import UNFILLED, Severity, severity_of
from rejoinder.model import Case, Formatting, Problem, Suite, Target, formatting_for
from rejoinder.project import Finder, display_path
from rejoinder.suite.case_store import CaseStore
from rejoinder.suite.cases import Place, Surroundings, check_target
from rejoinder.suite.configuration import Project, open_project
from rejoinder.suite.document_paths import DocumentPath, read_path, write_path
from rejoinder.suite.foreign import recognise
from rejoinder.suite.prices import read_prices
from rejoinder.suite.pruning import ANYTHING, prune_suite, touched_keys
from rejoinder.suite.rules import OF_SUITE, CheckRules, find_conflicts, find_conflicts_of_suite
from rejoinder.suite.schema import Violation, find_unknown_schema, find_violations, read_schema
from rejoinder.suite.source import RowSource, Source, read_source
from rejoinder.suite.targets import Targets, read_targets, resolve
from rejoinder.suite.templates import Report, Scope, expand, expand_variables
from rejoinder.suite.walk import CASE_LISTS, Built, Walker
from rejoinder.suite.yaml import paused_collector


class LoadOptions(Struct, frozen=True, kw_only=True):
    """What the caller adds to a suite's own words."""

    target: str | None = None
    """Wins over every target that the suite names."""
    targets_file: Path | None = None
    system_prompt: str | None = None
    only_format: bool = False
    """Nothing will be sent or graded: do without targets and checks."""
    asks: bool = True
    """Will targets be asked? Where answers are recorded, their keys need not be there."""
    missing: Severity = "error"
    """How grave it is that the environment lacks a variable, a secret or a key."""
    labelled: bool = False
    """Are the suite's judges put to labelled replies? Those bring their own references."""


Review = Callable[[Built, Source, Suite], Iterable[Problem]]
"""What another room has to say about a case, given the suite's file and the suite as far as it is known by then."""


class Loaded(Struct, frozen=True):
    """A suite as far as it could be read. `suite` is None when there is nothing to work with."""

    suite: Suite | None
    problems: list[Problem]
    source: Source | None = None
    targets: Targets | None = None
    """All targets in reach, with their places."""
    named: dict[str, Place] = {}
    """Where each target is named that the suite asks for."""
    environment: Mapping[str, str] = {}

    @property
    def errors(self) -> list[Problem]:
        return [problem for problem in self.problems if problem.severity == "error"]


def read_suite(
    path: Path,
    options: LoadOptions | None = None,
    project: Project | None = None,
    review: Review | None = None,
) -> Loaded:
    """The suite and its problems. Each case is shown to `review` as it comes by, so that none has to be built twice."""
    options = options or LoadOptions()
    file = display_path(path.absolute(), Path.cwd())
    with paused_collector():
        source, problems = read_source(path, file)
        if (other := _other_file(path, source, problems)) is not None:
            return Loaded(None, [Problem(code="yaml-syntax", message=other, file=file)])
        if source is None:
            return Loaded(None, problems)
        project = project or open_project(path.resolve().parent)
        reader = _SuiteReader(path.resolve(), source, project, options, review)
        suite = reader.read()
        problems = _in_order(reader.problems, file)
        return Loaded(suite, problems, source, reader.targets, reader.named, project.environment)


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


def _other_file(path: Path, source: Source | None, problems: list[Problem]) -> str | None:
    """What to say of a file that is plainly no suite: what is wrong with its YAML would only mislead."""
    kind = _OTHER_FILES.get(path.suffix.lower())
    if kind is None or (source is None and all(one.code != "yaml-syntax" for one in problems)):
        return None
    data = source.document.data if source else None
    has_own_keys = isinstance(data, dict) and not read_schema()["properties"].keys().isdisjoint(data)
    return None if has_own_keys else f"this is {kind}, and a suite is a YAML file"


def _in_order(problems: list[Problem], file: str) -> list[Problem]:
    """Each problem once, in document order, other files' first."""
    kept = {(*_spot(problem), problem.message): problem for problem in problems}
    return sorted(kept.values(), key=lambda one: (one.file == file, one.file, one.line, one.column))


_Spot: TypeAlias = tuple[str, str, str, int]


def _spot(problem: Problem) -> _Spot:
    return problem.file, problem.code, problem.path, problem.line


class _SuiteReader:
    def __init__(
        self, path: Path, source: Source, project: Project, options: LoadOptions, review: Review | None
    ) -> None:
        self.path = path
        self.source = source
        self.project = project
        self.options = options
        self.review = review
        self.problems: list[Problem] = list(project.problems)
        self.raw: dict[str, Any] = source.document.data if isinstance(source.document.data, dict) else {}
        self.data = self.raw
        """What is left of the suite without the parts that have errors."""
        self.touched: dict[DocumentPath, set[str]] = {}
        """For each case that has errors, and `defaults`, the keys that they speak of; for `()` those of the suite."""
        self.of_all: list[Violation] = []
        """Warnings about follow-ups that all cases have; they hold only if every case tries nothing but the first."""
        self.finder = Finder(path.parent, project.root, project.working, project.repository)
        self.secrets: dict[str, str] = {}
        self.named: dict[str, Place] = {}
        self.targets = Targets()
        self.scope = Scope({}, project.environment, None, self.secrets)

    def read(self) -> Suite | None:
        self._check()
        if self.source.document.data is None or not self.raw:
            return None
        variables = self._variables()
        self.targets = self._targets()
        self.around = self._surroundings(variables)
        self.formatting = self._formatting()
        self._check_metadata()
        self.suite = self._suite()
        walker = Walker(self.data, self.touched, self.around)
        suite = structs.replace(self.suite, cases=self._validate_cases(walker))
        if not self.touched.get((), set()).isdisjoint(("vars", "defaults")):
            self.problems = [problem for problem in self.problems if problem.code != "missing-variable"]
        return suite

    def _suite(self) -> Suite:
        """The suite without its cases."""
        metadata = self.data.get("metadata", {})
        return Suite(
            path=str(self.path),
            root=str(self.project.root),
            cases=(),
            name=self._first_text("metadata.name", "name", "dataset"),
            description=self._first_text("metadata.description", "description"),
            formatting=self.formatting,
            targets=self._asked_targets(),
            prices=read_prices(self.project.config) if "prices" in self.project.config else {},
            secrets=self.secrets,
            threads=metadata.get("threads"),
            judge_target=self._project_judge(),
            embedding_target=self._embedder(),
            budget_usd=self._budget("usd"),
            budget_tokens=self._budget("tokens"),
        )

    def _asked_targets(self) -> dict[str, Target]:
        """The targets as they are asked: their own system prompts are of no use where the command wants none."""
        targets = self.targets.names()
        if not self._wants_no_system_prompt:
            return targets
        return {name: structs.replace(target, system_prompt=None) for name, target in targets.items()}

    @property
    def _wants_no_system_prompt(self) -> bool:
        return self.options.system_prompt is not None and not self.options.system_prompt.strip()

    # What the schema and the rules say.

    def _check(self) -> None:
        if self.source.document.data is None:
            only = "has nothing but comments" if self.source.text.strip() else "is empty"
            message = f"the file {only}; a suite needs `evals`"
            self.problems.append(self.source.violation(Violation("missing-field", ("evals",), message)))
            return
        if isinstance(self.source.document.data, dict) and (foreign := recognise(self.raw)) is not None:
            key, message = foreign
            self.problems.append(self.source.violation(Violation("unknown-key", (key,), message, key=True)))
            self.raw = {}
            return
        rules = self._rules()
        violations = [
            violation
            for violation in [*find_violations(self.source.document.data, "suite"), *rules.found.errors]
            if not any(violation.path[: len(place)] == place for place in rules.found.hidden)
        ]
        misspelt = any(violation.instead in CASE_LISTS for violation in violations)
        violations += self._structure(misspelt)
        self._set_aside(violations, rules.found.hidden)
        self.problems += [self.source.violation(violation) for violation in violations]
        for warning in [*find_unknown_schema(self.raw, "suite"), *rules.found.warnings]:
            if warning.code == "unreachable-followup" and warning.path[0] not in CASE_LISTS:
                self.of_all.append(warning)
            else:
                self.problems.append(self.source.violation(warning, "warning"))

    def _set_aside(self, violations: list[Violation], hidden: list[DocumentPath]) -> None:
        refused = [*(violation.path for violation in violations), *hidden]
        self.data = prune_suite(self.raw, refused)
        parts: dict[DocumentPath, list[Violation]] = {}
        for violation in violations:
            parts.setdefault(_part_of(violation.path), []).append(violation)
        self.touched = {part: touched_keys(found, part) for part, found in parts.items()}

    def _speaks_of(self, *keys: str) -> bool:
        """Does an error of the suite itself explain why something at these keys, or inherited, is missing?"""
        return not self.touched.get((), set()).isdisjoint({*keys, "defaults", ANYTHING})

    def _rules(self) -> CheckRules:
        metadata, defaults = self.raw.get("metadata"), self.raw.get("defaults")
        general = metadata.get("followups", "first") if isinstance(metadata, dict) else "first"
        if isinstance(defaults, dict):
            general = defaults.get("followups", general)
        rules = CheckRules()
        always = OF_SUITE if rules.walk(self.raw.get("checks"), ("checks",)) else ""
        rules.rubrics_of({"execution": self.raw.get("execution")}, ())
        for case, path in self._raw_cases():
            rules.followups = "first" if path == ("defaults",) else case.get("followups", general)
            rules.walk(case.get("checks"), (*path, "checks"), always=always)
            rules.rubrics_of(case, path)
        return rules

    def _raw_cases(self) -> Iterator[tuple[dict[str, Any], DocumentPath]]:
        """Every mapping that has the keys of a case, `defaults` among them."""
        if isinstance(self.raw.get("defaults"), dict):
            yield self.raw["defaults"], ("defaults",)
        for key in CASE_LISTS:
            cases = self.raw.get(key)
            for position, case in enumerate(cases if isinstance(cases, list) else ()):
                if isinstance(case, dict):
                    yield case, (key, position)

    def _structure(self, misspelt: bool) -> Iterator[Violation]:
        present = [key for key in self.raw if key in CASE_LISTS]
        is_mapping = isinstance(self.source.document.data, dict)
        if is_mapping and not present and "cases" not in self.raw and not misspelt:
            yield Violation("missing-field", ("evals",), "a suite needs cases: add `evals` (or `cases: FILE`)")
        if len(present) > 1:
            message = "`evals` and `evalcases` are two names for one list; keep one of them"
            yield Violation("conflicting-keys", (present[-1],), message, key=True)
        yield from find_conflicts_of_suite(self.raw)
        for case, path in self._raw_cases():
            yield from find_conflicts(case, path)

    def _check_metadata(self) -> None:
        """Fill in the texts that nothing else fills in, for what is missing there; and refuse what cannot be done."""
        metadata = self.data.get("metadata", {})
        self._expanded(metadata, ("metadata",))
        if "mcp_server" in metadata and not self.options.only_format:
            message = (
                "this version cannot use MCP servers, so the model would be judged without its tools; remove"
                " `mcp_server` to run the cases without tools"
            )
            self.problems.append(self.source.problem("not-supported", "metadata.mcp_server", message, key=True))

    # What all cases share.

    def _targets(self) -> Targets:
        targets = read_targets(self.project, self.options.targets_file)
        own = len(targets.problems)
        targets.add(self.source, self._expanded(self.raw.get("targets"), ("targets",)), ("targets",))
        # What else stands in braces there is filled in by providers: `${{ VAR }}`, and the requests of `http` targets.
        self.problems = [
            one for one in self.problems if one.code != "unfilled-braces" or not one.path.startswith("targets[")
        ]
        targets.complete = targets.complete and "targets" not in self.touched.get((), ())
        if not self.options.only_format:
            self.problems += targets.problems
        else:
            self.problems += targets.problems[own:]
        return targets

    def _variables(self) -> dict[str, Any]:
        suite_vars = self.data.get("vars", {})
        variables: dict[str, Any] = dict(self.project.config.get("vars", {}))
        scope = Scope(variables, self.project.environment, None, self.secrets)
        variables.update(expand_variables(suite_vars, scope, lambda key: self._reporter(f"vars.{key}")))
        self.scope = Scope(variables, self.project.environment, None, self.secrets)
        return variables

    def _surroundings(self, variables: dict[str, Any]) -> Surroundings:
        data = self.data
        metadata = data.get("metadata", {})
        execution = data.get("execution", {})
        return Surroundings(
            source=self.source,
            finder=self.finder,
            targets=self.targets.names(),
            targets_known=self.targets.complete,
            variables=variables,
            environment=self.project.environment,
            has_variables=bool(data.get("vars")),
            grading_known=not self._speaks_of("checks", "execution"),
            suite_checks=data.get("checks"),
            evaluators=execution.get("evaluators"),
            evaluators_at="execution.evaluators",
            target=self._suite_target(),
            judge_target=self._suite_judge(),
            system_prompt=self._first_text("metadata.system_prompt", "metadata.systemPrompt") or "",
            followups=metadata.get("followups", "first"),
            max_turns=metadata.get("max_turns"),
            tags=tuple(dict.fromkeys(self._expanded(metadata.get("tags", []), ("metadata", "tags")))),
            secrets=self.secrets,
            missing=self.options.missing,
            named=self.named,
            forced_system_prompt=self.options.system_prompt,
            forced_target=self.options.target,
            only_format=self.options.only_format,
        )

    def _suite_target(self) -> str | None:
        """The target of cases that name none, by the one rule; None when nothing is named anywhere."""
        if self.options.target:
            return self.options.target
        data = self.data
        named = (
            (data.get("execution", {}).get("target"), "execution.target"),
            (data.get("target"), "target"),
            (data.get("metadata", {}).get("model"), "metadata.model"),
        )
        for value, at in named:
            if value:
                return self._named_target(value, at)
        value = self.project.config.get("target")
        if value:
            return self._known_target(value, "target", self.project.config_sources["target"])
        names = list(self.targets.names())
        if "default" in names:
            return "default"
        return names[0] if len(names) == 1 else None

    def _suite_judge(self) -> str | None:
        data = self.data
        named = (
            (data.get("execution", {}).get("judge_target"), "execution.judge_target"),
            (data.get("judge_target"), "judge_target"),
        )
        return next((self._named_target(value, at) for value, at in named if value), None)

    def _budget(self, unit: str) -> Any:
        return self.data.get("budget", {}).get(unit)

    def _embedder(self) -> str | None:
        """Whose embeddings are compared: the suite says so, or the project."""
        value = self.data.get("embedding_target")
        if value:
            return self._named_target(value, "embedding_target")
        value = self.project.config.get("embedding_target")
        source = self.project.config_sources.get("embedding_target", self.source)
        return self._known_target(value, "embedding_target", source) if value else None

    def _project_judge(self) -> str | None:
        """The judge of targets that name none, in suites that name none."""
        value = self.project.config.get("judge_target")
        return self._known_target(value, "judge_target", self.project.config_sources["judge_target"]) if value else None

    def _named_target(self, value: str, at: str) -> str:
        """A target that the suite names; what could not be filled in is no name that could be wrong."""
        before = len(self.problems)
        name = self._text(value, at) or ""
        if any(problem.code in UNFILLED for problem in self.problems[before:]):
            return name
        return self._known_target(name, at, self.source)

    def _known_target(self, name: str, at: str, source: Source) -> str:
        if not self.options.only_format:
            self.named.setdefault(name, (source, at))
            for fault in check_target(name, self.targets.names(), complete=self.targets.complete):
                self.problems.append(fault.problem(source, at))
        return name

    def _formatting(self) -> Formatting:
        explicit = {**self.project.config.get("formatting", {}), **self.data.get("formatting", {})}
        profile = explicit.pop("profile", "spec")
        explicit = {key: value for key, value in explicit.items() if not key.startswith("x-")}
        for key in ("marker", "default_system_prompt"):
            if key in explicit:
                explicit[key] = self._text(explicit[key], f"formatting.{key}")
        if self._wants_no_system_prompt:
            explicit["default_system_prompt"] = ""
        patterns = self.project.config.get("guideline_patterns")
        if "guideline_patterns" in self.data:
            patterns = self._expanded(self.data["guideline_patterns"], ("guideline_patterns",))
        if patterns is not None:
            explicit["guideline_patterns"] = tuple(patterns)
        return formatting_for(profile, **explicit)

    # Cases.

    def _validate_cases(self, walker: Walker) -> Iterable[Case]:
        """Every case built once, for what is wrong with it; kept in memory only where no data set is involved."""
        kept: list[Case] = []
        aside = CaseStore() if walker.streams else None
        ids: dict[str, tuple[str, str, int]] = {}
        used = {self.around.target, self.around.judge_target}
        tried: set[str] = set()
        spoken_of: set[_Spot] = set()
        for built in walker.walk():
            self._note(built, spoken_of)
            if built.rest is not None:
                self._check_id(built, built.rest, ids)
                used |= {built.rest.target, built.rest.judge_target}
                tried.add(built.rest.followups)
            if built.case is not None:
                kept.append(built.case) if aside is None else aside.add(built.case)
        if not self.options.only_format:
            self._check_environment({name for name in used if name})
        if tried == {"first"}:
            self.problems += [self.source.violation(warning, "warning") for warning in self.of_all]
        return tuple(kept) if aside is None else aside

    def _note(self, built: Built, spoken_of: set[_Spot]) -> None:
        """Keep the problems of a case. A place that an earlier case has complained of is not named again: a thousand
        rows that stumble over one line of the suite give one problem, and take no more room than that."""
        found = built.problems
        if built.rest is not None and self.review is not None:
            found = [*found, *self.review(built, self.source, self.suite)]
        if not found:
            return
        new = [problem for problem in found if _spot(problem) not in spoken_of]
        spoken_of.update(map(_spot, new))
        self.problems += new

    def _check_id(self, built: Built, case: Case, ids: dict[str, tuple[str, str, int]]) -> None:
        if "id" in built.touched or (self.touched and "{{" in case.id):
            return  # nobody knows what it would be called
        at, source = f"{case.at}.id", built.source
        here = source.number if isinstance(source, RowSource) else source.document.place(read_path(at))[0]
        first_at, file, line = ids.setdefault(case.id, (at, source.file, here))
        if first_at != at:
            where = f"on line {line}" if file == source.file else f"in {file}, line {line}"
            message = f"the id `{case.id}` is taken already, {where}"
            self.problems.append(source.problem("duplicate-id", at, message, first_line=line))

    def _check_environment(self, used: set[str]) -> None:
        """Only targets that are used need their variables and files."""
        targets, folders = self.targets.names(), (str(self.path.parent), str(self.project.root))
        for name in sorted(used):
            found = resolve(name, targets)
            judges = [found.judge_target] if found and found.judge_target else []
            for one in (name, *judges) if self.options.asks else ():
                self.problems += self.targets.check_environment(one, self.project.environment, self.options.missing)
                self.problems += self.targets.check_certificate(one, self.project.environment, folders)
            for judge in judges:
                self._check_judge(name, judge)

    def _check_judge(self, name: str, judge: str) -> None:
        """The judge that a target names for its own replies has to be there, too."""
        entry = self.targets.entries[name]
        for fault in check_target(judge, self.targets.names(), complete=self.targets.complete):
            self.problems.append(fault.problem(entry.source, write_path((*entry.path, "judge_target"))))

    # Texts and problems.

    def _text(self, value: str | None, at: str) -> str | None:
        if value is None or "{{" not in value:
            return value
        return expand(value, self.scope, self._reporter(at))

    def _first_text(self, *places: str) -> str | None:
        """The text at the first of these places that has one, filled in."""
        for at in places:
            value: Any = self.data
            for key in read_path(at):
                value = value.get(key, {})
            if value:
                return self._text(value, at)
        return None

    def _expanded(self, value: Any, path: DocumentPath) -> Any:
        """A value with all its texts expanded, each at its own place."""
        if isinstance(value, str):
            return self._text(value, write_path(path))
        if isinstance(value, list):
            return [self._expanded(item, (*path, position)) for position, item in enumerate(value)]
        if isinstance(value, dict):
            return {key: self._expanded(item, (*path, key)) for key, item in value.items()}
        return value

    def _reporter(self, at: str) -> Report:
        def report(code: str, message: str) -> None:
            severity = severity_of(code, self.options.missing)
            self.problems.append(self.source.problem(code, at, message, severity=severity))

        return report


def _part_of(path: DocumentPath) -> DocumentPath:
    """The case that a place belongs to, or `defaults`, or the suite itself."""
    if path[:1] == ("defaults",):
        return path[:1]
    return path[:2] if path and path[0] in CASE_LISTS and len(path) > 1 else ()
