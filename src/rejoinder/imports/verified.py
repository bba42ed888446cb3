"""Checks that were made from another tool's, tried in a suite: what a suite would refuse is a loss, and not an error
that the user meets later."""

from __future__ import annotations

import json
from functools import lru_cache
from pathlib import Path
from typing import Any

from rejoinder.suite.load import LoadOptions, read_suite
from rejoinder.suite.source import SuiteText
from rejoinder.yaml_text import to_document, without_comments

_ELSEWHERE = frozenset(
    ("missing-environment", "missing-secret", "missing-variable", "unknown-target", "file-not-found", "unfilled-braces")
)
"""Codes of problems that depend on the rest of the suite."""


def refusal_of(check: dict[Any, Any]) -> str | None:
    """The reason for which a suite refuses a check; None if it does not."""
    return _refusal_of(json.dumps(without_comments(check), ensure_ascii=False))


def refusal_of_target(target: dict[Any, Any]) -> str | None:
    """The reason for which a suite refuses a target; None if it does not."""
    entry = json.dumps({**without_comments(target), "name": "x"}, ensure_ascii=False)
    return _refusal_in(
        f'{{"target": "x", "targets": [{entry}], "evals": [{{"prompt": "x", "checks": [{{"min_words": 0}}]}}]}}'
    )


def refusal_of_suite(suite: dict[Any, Any]) -> str | None:
    """The reason for which a suite is refused; None if it is not."""
    return _refusal_in(to_document(suite))


@lru_cache(maxsize=4096)
def _refusal_of(check: str) -> str | None:
    return _refusal_in(f'{{"target": "scripted/x", "evals": [{{"prompt": "x", "checks": [{check}]}}]}}')


def _refusal_in(suite: str) -> str | None:
    loaded = read_suite(SuiteText(suite, Path("evals.yaml"), has_lines=False), LoadOptions(only_format=True))
    errors = (one.message for one in loaded.problems if one.severity == "error" and one.code not in _ELSEWHERE)
    return next(errors, None)
