"""Problems that the schema and the rules find in a suite as a whole, and the suite without the refused parts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from msgspec import Struct

from rejoinder.model import Problem
from rejoinder.suite.document_paths import DocumentPath
from rejoinder.suite.foreign import has_conversations, recognise
from rejoinder.suite.pruning import ANYTHING, prune_suite, touched_keys
from rejoinder.suite.rules import OF_SUITE, CaseRules, find_conflicts, find_conflicts_of_suite, find_faults_of_variants
from rejoinder.suite.schema import Violation, find_unknown_schema, find_violations
from rejoinder.suite.source import Source
from rejoinder.suite.text_files import find_files_as_texts
from rejoinder.suite.walk import CASE_LISTS


class CheckedSuite(Struct, frozen=True):
    raw: dict[str, Any]
    """The suite as written; empty if nothing usable is left."""
    problems: list[Problem]
    data: dict[str, Any] = {}
    """The suite without the parts that have errors."""
    touched: dict[DocumentPath, set[str]] = {}
    """For each case with errors, and for `defaults`, the keys that the errors name; for `()` the keys of the suite."""
    shared_warnings: list[Violation] = []
    """Warnings about follow-ups that all cases have; they hold only if every case sends only the first one."""

    def refuses(self, *keys: str) -> bool:
        """Whether errors of the suite itself name these keys."""
        return not self.touched.get((), set()).isdisjoint(keys)

    def explains(self, *keys: str) -> bool:
        """Whether an error of the suite itself explains why a value of these keys, or an inherited one, is missing."""
        return self.refuses(*keys, "defaults", ANYTHING)


def check_suite(source: Source, *, beside_agentv: bool = False) -> CheckedSuite:
    data = source.document.data
    if data is None:
        only = "has nothing but comments" if source.text.strip() else "is empty"
        message = f"the file {only}; a suite needs `evals`"
        return CheckedSuite({}, [source.violation(Violation("missing-field", ("evals",), message))])
    raw: dict[str, Any] = data if isinstance(data, dict) else {}
    if raw and (foreign := recognise(raw, beside_agentv=beside_agentv)) is not None:
        key, message = foreign
        return CheckedSuite({}, [source.violation(Violation("unknown-key", (key,), message, key=True))])
    rules = _apply_rules(raw).findings
    errors = [
        violation
        for violation in [*find_violations(data, "suite"), *rules.errors]
        if not any(violation.path[: len(place)] == place for place in rules.hidden)
    ]
    misspelt = any(violation.instead in CASE_LISTS for violation in errors)
    if isinstance(data, dict) and not misspelt:
        errors += _missing_cases(raw)
    errors += _find_conflicts(raw)
    if "tests" in raw and not has_conversations(raw):
        errors = [violation for violation in errors if violation.path[:1] != ("tests",)]
        message = "unknown key `tests`; did you mean `evals`?"
        errors.append(Violation("unknown-key", ("tests",), message, key=True, instead="evals"))
    warnings = [*find_unknown_schema(raw, "suite"), *rules.warnings]
    warnings += find_files_as_texts(raw) if "file://" in source.text else ()
    shared = [one for one in warnings if one.code == "unreachable-followup" and one.path[0] not in CASE_LISTS]
    problems = [source.violation(violation) for violation in errors]
    problems += [source.violation(warning, "warning") for warning in warnings if warning not in shared]
    refused = [*(violation.path for violation in errors), *rules.hidden]
    return CheckedSuite(raw, problems, prune_suite(raw, refused), _touched_parts(errors), shared)


def _apply_rules(raw: dict[str, Any]) -> CaseRules:
    metadata, defaults = raw.get("metadata"), raw.get("defaults")
    general = metadata.get("followups", "first") if isinstance(metadata, dict) else "first"
    if isinstance(defaults, dict):
        general = defaults.get("followups", general)
    rules = CaseRules()
    always = OF_SUITE if rules.walk(raw.get("checks"), ("checks",)) else ""
    rules.rubrics_of({"execution": raw.get("execution")}, ())
    rules.of_whole(raw.get("conversation_checks"), ("conversation_checks",))
    for case, path in _raw_cases(raw):
        rules.followups = "first" if path == ("defaults",) else case.get("followups", general)
        rules.of_case(case, path, always=always)
    return rules


def _raw_cases(raw: dict[str, Any]) -> Iterator[tuple[dict[str, Any], DocumentPath]]:
    """Every mapping with the keys of a case, including `defaults`."""
    if isinstance(raw.get("defaults"), dict):
        yield raw["defaults"], ("defaults",)
    for key in CASE_LISTS:
        cases = raw.get(key)
        for position, case in enumerate(cases if isinstance(cases, list) else ()):
            if isinstance(case, dict):
                yield case, (key, position)


def _missing_cases(raw: dict[str, Any]) -> Iterator[Violation]:
    if raw.keys().isdisjoint((*CASE_LISTS, "cases")):
        yield Violation("missing-field", ("evals",), "a suite needs cases: add `evals` (or `cases: FILE`)")


def _find_conflicts(raw: dict[str, Any]) -> Iterator[Violation]:
    lists = [key for key in raw if key in CASE_LISTS]
    if len(lists) > 1:
        message = f"`{lists[0]}` and `{lists[-1]}` are two names for one list; keep one of them"
        yield Violation("conflicting-keys", (lists[-1],), message, key=True)
    yield from find_conflicts_of_suite(raw)
    yield from find_faults_of_variants(raw)
    for case, path in _raw_cases(raw):
        yield from find_conflicts(case, path)


def _touched_parts(violations: list[Violation]) -> dict[DocumentPath, set[str]]:
    parts: dict[DocumentPath, list[Violation]] = {}
    for violation in violations:
        parts.setdefault(_part_of(violation.path), []).append(violation)
    return {part: touched_keys(found, part) for part, found in parts.items()}


def _part_of(path: DocumentPath) -> DocumentPath:
    """The case that a place belongs to, or `defaults`, or the suite itself."""
    if path[:1] == ("defaults",):
        return path[:1]
    return path[:2] if path and path[0] in CASE_LISTS and len(path) > 1 else ()
