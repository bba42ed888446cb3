"""The walk over a suite's cases: cases of the file, and cases from the rows of data sets.

A data set of any length is never held in memory: cases are built one by one, each with its problems.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Set
from functools import cached_property
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct, structs

from rejoinder.errors import UNFILLED
from rejoinder.model import Case, Problem
from rejoinder.project.files import FileFault, in_quotes
from rejoinder.project.folders import display_path
from rejoinder.suite.cases import SAYING, CaseBuilder, CaseId, Draft, SharedCourses
from rejoinder.suite.context import SuiteContext
from rejoinder.suite.datasets import TOO_DEEP, Row, data_sets_in, read_rows, survey
from rejoinder.suite.document_paths import DocumentPath, read_path, write_path
from rejoinder.suite.plans import put_task, shard_conditions
from rejoinder.suite.pruning import ANYTHING, prune_case, touched_keys
from rejoinder.suite.rules import OF_SUITE, CaseRules, find_conflicts
from rejoinder.suite.schema import Violation, case_keys, find_violations, structured_case_keys
from rejoinder.suite.schema_files import schema_file
from rejoinder.suite.source import CasePlace, RowSource, Source
from rejoinder.suite.templates import (
    Report,
    Scope,
    expand,
    expand_variables,
    name_by_function,
    names_others,
    say_nothing,
    variables_named,
    write_value,
)
from rejoinder.suite.yaml import MOST_DEPTH

CASE_LISTS = ("evals", "evalcases", "tests")
_OTHER_FORMS: dict[str, Set[str]] = {
    "prompt": {"input_messages", "turns", "user", "shards"},
    "input_messages": {"prompt", "shards"},
    "turns": {"prompt", "user", "shards"},
    "user": {"prompt", "turns", "shards"},
    "shards": {"prompt", "input_messages", "turns", "user"},
    "outcome": {"expected_outcome", "criteria"},
    "expected_outcome": {"outcome", "criteria"},
}
"""Keys that a case does not inherit if it has one of the other keys. `criteria` may be inherited: it is
read only if neither `outcome` nor `expected_outcome` is given."""
_GRADED_BY_RULES = ("checks", "rubrics", "evaluators", "execution", "turns", "conversation_checks", "user")
_GRADING = (*_GRADED_BY_RULES, "outcome", "expected_outcome", "criteria", "assert", "assertions")


class Built(Struct, frozen=True):
    """A case and its problems; no case if the schema or the rules have refused a part of it."""

    case: Case | None
    problems: list[Problem]
    source: Source | RowSource
    rest: Case | None = None
    """The case, or the rest of a refused one, which is never run but searched for other mistakes."""
    touched: Set[str] = frozenset()
    """The refused keys of the case, or `*`."""

    def explains(self, *keys: str) -> bool:
        """Whether an error names one of these keys of the case, so that a missing value there is already explained."""
        if not self.touched.isdisjoint((*keys, ANYTHING)):
            return True
        return any(problem.severity == "error" and _key_of(problem.path) in keys for problem in self.problems)


def _is_key(key: str, value: Any) -> bool:
    """Whether a column is a key of the case. A text under `reply` is a reply that was recorded elsewhere; a
    `context` without texts is a variable."""
    if key == "context":
        texts = value if isinstance(value, list) else [value]
        return all(isinstance(text, str) for text in texts) or schema_file(value) is not None
    return key != "reply" or isinstance(value, dict)


def _key_of(path: str) -> str:
    """The key of a case, of one of its rows, or of `defaults`, that contains a place."""
    steps = read_path(path)
    place = 1 if steps[:1] == ("defaults",) else 4 if steps[2:3] == ("cases",) and len(steps) > 4 else 2
    return str(steps[place]) if len(steps) > place else ""


class Walker:
    def __init__(self, data: dict[str, Any], touched: Mapping[DocumentPath, set[str]], context: SuiteContext) -> None:
        self.data = data
        self.touched = touched
        """Refused parts of cases, `defaults` and the suite; such cases are built only to find their other problems."""
        self.context = context
        self.defaults: dict[str, Any] = data.get("defaults", {})
        self._number = 0
        """Number of cases built."""
        self._courses: SharedCourses = {}

    @property
    def streams(self) -> bool:
        """Whether rows of data sets are used."""
        cases = (case for key in CASE_LISTS for case in self.data.get(key, ()) if isinstance(case, dict))
        return "cases" in self.data or "cases" in self.defaults or any("cases" in case for case in cases)

    def walk(self) -> Iterator[Built]:
        number = 0
        for key in CASE_LISTS:
            for position, case in enumerate(self.data.get(key, ())):
                number += 1
                touched = self._refused_of((key, position))
                yield from self._written(case, f"{key}[{position}]", f"eval-{number}", touched)
        if "cases" in self.data:
            yield from self._rows_as_cases(number)

    def _refused_of(self, case: DocumentPath) -> set[str]:
        return self.touched.get(case, set()) | self.touched.get(("defaults",), set())

    def _written(self, case: dict[str, Any], at: str, default_id: str, touched: set[str]) -> Iterator[Built]:
        """A case of the file: once, or once per row that it asks for."""
        data, origins = self._with_defaults(case)
        if "cases" in data:
            yield from self._for_rows(data, {key: origins.get(key, at) for key in data}, at, default_id, touched)
            return
        problems: list[Problem] = []
        names = self._names(data, None, origins.get("vars", at), problems)
        source = self.context.source
        place = CasePlace(at, source, source)
        yield from self._build_all(
            Draft(data, place, self.context.file, origins, names, CaseId(default_id), problems, touched)
        )

    def _for_rows(
        self, data: dict[str, Any], origins: dict[str, str], at: str, default_id: str, touched: set[str]
    ) -> Iterator[Built]:
        """The case once per row. What a row says takes the place of what the case says; columns that are not keys of a
        case, or that the case names as variables, are variables."""
        template = {key: value for key, value in data.items() if key not in ("id", "cases")}
        keys = case_keys() - {"cases", "id"} - self._named_by(data)
        where = read_path(f"{at}.cases")
        for row in self._rows(data["cases"], f"{origins['cases']}.cases"):
            if isinstance(row, Built):
                yield row
                continue
            place = CasePlace(write_path((*where, row.number - 1)), row.source, self.context.source)
            read = self._read_row(row, keys, (*where, row.number - 1), data.get("followups"))
            if isinstance(read, Problem):
                yield Built(None, [read], row.source)
                continue
            own, variables, problems, refused = read
            inner = own.get("vars", {})
            names = self._names(data, {**variables, **inner}, origins.get("vars", at), problems)
            base = default_id
            if "id" in data:
                scope = structs.replace(self.context.scope, names=names)
                base = expand(data["id"], scope, self._reporter(f"{origins['id']}.id", problems)) or default_id
            row_id = f"{base}-{row.values.get('id') or row.number}"
            case_id = CaseId(row_id, written="id" in data or bool(row.values.get("id")))
            merged = _merged(template, own)
            inherited = {key: origins[key] for key in merged if key not in own}
            touches = touched | refused
            yield from self._build_all(Draft(merged, place, row.file, inherited, names, case_id, problems, touches))

    def _named_by(self, case: dict[str, Any]) -> set[str]:
        """The variables that a case names, or what all cases share."""
        shared = {key: value for key, value in self.data.items() if key not in (*CASE_LISTS, "cases", "defaults")}

        def content(written: str) -> str:
            try:
                return self.context.files.read(written)
            except FileFault:
                return ""

        return variables_named([case, shared], content)

    def _rows_as_cases(self, number: int) -> Iterator[Built]:
        """The rows as cases; columns that are not keys of a case are its variables."""
        keys = case_keys() - {"cases"}
        for row in self._rows(self.data["cases"], "cases"):
            if isinstance(row, Built):
                yield row
                continue
            number += 1
            at: DocumentPath = ("cases", row.number - 1)
            read = self._read_row(row, keys, at, self.defaults.get("followups"))
            if isinstance(read, Problem):
                yield Built(None, [read], row.source)
                continue
            own, variables, problems, touched = read
            data, origins = self._with_defaults(own)
            place = CasePlace(write_path(at), row.source, self.context.source)
            vars_at = origins.get("vars", place.at)
            names = self._names(data, {**variables, **own.get("vars", {})} or None, vars_at, problems)
            yield from self._build_all(
                Draft(data, place, row.file, origins, names, CaseId(f"eval-{number}"), problems, touched)
            )

    def _read_row(
        self, row: Row, keys: Set[str], at: DocumentPath, followups: Any
    ) -> tuple[dict[str, Any], dict[str, Any], list[Problem], set[str]] | Problem:
        """The parts of a case that a row sets, its variables, its problems, and the refused keys. `keys`: the columns
        that are keys of a case; `followups`: of what it extends."""
        mine = {key for key in row.values if key in keys and _is_key(key, row.values[key])}
        own = {key: row.values[key] for key in row.values if key in mine and row.values[key] not in ("", None)}
        if row.is_text:
            own = {key: _from_cell(key, value) for key, value in own.items()}
            if survey(own)[1] > MOST_DEPTH:
                return row.source.problem("too-deep", "", TOO_DEEP)
        elif isinstance(own.get("id"), int | float) and not isinstance(own["id"], bool):
            own["id"] = write_value(own["id"])
        own, problems, touched = self._check_row(own, at, row.source, followups)
        return own, {key: value for key, value in row.values.items() if key not in mine}, problems, touched

    def _check_row(
        self, own: dict[str, Any], at: DocumentPath, source: RowSource, followups: Any
    ) -> tuple[dict[str, Any], list[Problem], set[str]]:
        """A row without the parts that the schema and the rules refuse, the problems, and the keys that they name."""
        errors = [*find_violations(own, "case"), *find_conflicts(own, ())]
        if not errors and own.keys().isdisjoint(_GRADED_BY_RULES):
            return own, [], self.touched.get(("defaults",), set())
        inherited = self.context.defaults.followups if followups is None else followups
        rules = CaseRules(own.get("followups", inherited))
        rules.of_case(own, (), always=self._always)
        errors += rules.findings.errors

        def placed(violation: Violation) -> Violation:
            return structs.replace(violation, path=(*at, *violation.path))

        problems = [source.violation(placed(error)) for error in errors]
        problems += [source.violation(placed(warning), "warning") for warning in rules.findings.warnings]
        refused = [*(violation.path for violation in errors), *rules.findings.hidden]
        touched = touched_keys(errors) | self.touched.get(("defaults",), set())
        return prune_case(own, refused), problems, touched

    @cached_property
    def _always(self) -> str:
        """The suite's follow-up that is always sent before a case's own; empty if none."""
        return OF_SUITE if CaseRules().walk(self.context.defaults.checks, ("checks",)) else ""

    def _rows(self, written: str | list[str], at: str) -> Iterator[Row | Built]:
        """The rows of one or several data sets, numbered as if they were one."""
        number = 0
        several = [(name, f"{at}[{place}]") for place, name in enumerate(written)] if isinstance(written, list) else ()
        for one, place in several or [(str(written), at)]:
            for row in self._rows_of(one, place):
                if isinstance(row, Row):
                    number += 1
                    row = structs.replace(row, number=number) if row.number != number else row  # noqa: PLW2901
                yield row

    def _rows_of(self, written: str, at: str) -> Iterator[Row | Built]:
        """The rows of a data set, or of the data sets of a folder."""
        problems: list[Problem] = []
        name = expand(written, self.context.scope, self._reporter(at, problems))
        path, source = self.context.finder.find(name), self.context.source
        if path is None:
            if all(problem.code not in UNFILLED for problem in problems):
                problems.append(source.problem("file-not-found", at, self.context.finder.explain_missing(name)))
            yield Built(None, problems, source)
            return
        try:
            files = data_sets_in(path) if path.is_dir() else [path]
        except FileFault as fault:
            yield Built(None, [source.problem(fault.code, at, fault.message)], source)
            return
        for file in files:
            empty = True
            for row in read_rows(file, display_path(file, Path.cwd()), self.context.finder.root):
                empty = False
                yield Built(None, [row], source) if isinstance(row, Problem) else row
            if empty:
                message = f"the data set {in_quotes(name if file == path else file.name)} has no rows"
                yield Built(None, [source.problem("missing-field", at, message)], source)

    def _with_defaults(self, case: dict[str, Any]) -> tuple[dict[str, Any], dict[str, str]]:
        """The case merged with the suite's defaults, and the origin of each inherited key."""
        merged = _merged(self.defaults, case)
        return merged, {key: "defaults" for key in merged if key not in case}

    def _names(
        self, data: dict[str, Any], row: dict[str, Any] | None, at: str, problems: list[Problem]
    ) -> dict[str, Any] | None:
        """The values for `{{ name }}` in a case; None if it has no variables at all."""
        own, row_values = data.get("vars", {}), row or {}
        if row is None and not own and not self.context.has_variables:
            return None
        variant = self.context.variant
        changed: Mapping[str, Any] = variant.variables if variant is not None else {}
        if names_others(own) or names_others(changed):
            # What a row brings takes the place of what the case says, and is data: nothing in it is expanded.
            own = {key: value for key, value in own.items() if key not in row_values}
            scope = self._below_variant(own, row_values)
            changed = name_by_function(changed, {*scope.variables, *own, *changed})

            def reporter(key: str) -> Report:
                where = variant.at if variant is not None and key in changed else at
                return self._reporter(f"{where}.vars.{key}", problems)

            filled = expand_variables({**own, **changed}, scope, reporter)
            own = {key: filled[key] for key in own}
            changed = {key: filled[key] for key in changed}
        return {**self.context.scope.variables, **own, **row_values, **changed}

    def _below_variant(self, own: dict[str, Any], row: dict[str, Any]) -> Scope:
        """The scope without the variables of the variant: a variable of the variant that names itself means that of
        the row, the case, the suite or the project."""
        variant, scope = self.context.variant, self.context.scope
        if variant is None:
            return structs.replace(scope, variables={**scope.variables, **row})
        known = {key: value for key, value in scope.variables.items() if key not in variant.variables}
        known.update({**variant.replaced, **row})
        if any(key in variant.variables for key in own):
            outer = structs.replace(scope, variables={**known, **variant.variables})
            filled = expand_variables(own, outer, lambda _: say_nothing)
            known.update({key: filled[key] for key in own if key in variant.variables})
        return structs.replace(scope, variables=known)

    def _build_all(self, draft: Draft) -> Iterator[Built]:
        """The case; a sharded task gives one case for each form in which it is put."""
        conditions = shard_conditions(draft.data)
        if not conditions:
            yield self._build(draft)
        for condition in conditions:
            data = put_task(draft.data, condition)
            yield self._build(structs.replace(draft, data=data, condition=condition))

    def _build(self, draft: Draft) -> Built:
        self._number += 1
        source, touched = draft.place.source, draft.touched
        builder = CaseBuilder(draft, self.context, self._courses)
        try:
            case = builder.build(draft.default_id, self._number)
        except (LookupError, TypeError, ValueError, AttributeError, AssertionError):
            if not touched and not self.touched:
                raise
            return Built(None, draft.problems, source)  # what is left of it makes no case
        problems = [*draft.problems, *builder.problems]
        if not touched:
            return Built(case, problems, source, case)
        problems = [problem for problem in problems if not _follows(problem, case.at, touched)]
        nameless = ANYTHING in touched and "id" not in draft.data
        return Built(None, problems, source, case, touched | {"id"} if nameless else touched)

    def _reporter(self, at: str, problems: list[Problem]) -> Report:
        return self.context.source.reporter(at, problems, self.context.options.missing)


def _merged(base: dict[str, Any], case: dict[str, Any]) -> dict[str, Any]:
    """A case with what it inherits: keys that it lacks, and variables."""
    usable = {key: value for key, value in base.items() if _OTHER_FORMS.get(key, set()).isdisjoint(case)}
    if "evaluators" in case.get("execution", {}):
        usable.pop("evaluators", None)
    elif "evaluators" in case and "execution" in usable:
        inherited = usable["execution"]
        usable["execution"] = {key: value for key, value in inherited.items() if key != "evaluators"}
    merged = {**usable, **case}
    if "vars" in usable and "vars" in case:
        merged["vars"] = {**usable["vars"], **case["vars"]}
    return merged


def _follows(problem: Problem, at: str, touched: set[str]) -> bool:
    """Whether something may be missing only because it, or a misspelt form of it, was refused."""
    causes: tuple[str, ...] = ()
    if problem.code == "missing-variable":
        causes = ("vars", "cases")
    elif problem.code == "missing-field" and problem.path == f"{at}.prompt":
        causes = (*SAYING, ANYTHING)
    elif problem.code == "missing-field" and problem.path == f"{at}.checks":
        causes = (*_GRADING, ANYTHING)
    return not touched.isdisjoint(causes)


def _from_cell(key: str, text: str) -> Any:
    """A CSV cell as the key's type: a key that is not text holds JSON; tags may be separated by commas."""
    if key == "tags" and not text.startswith("["):
        return [tag.strip() for tag in text.split(",") if tag.strip()]
    if key not in structured_case_keys():
        return text
    try:
        value = msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return text
    return value if key != "context" or isinstance(value, list) else text
