"""Problems as SARIF 2.1.0, which code hosts show beside the lines."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

from rejoinder.errors import CODES
from rejoinder.model import Problem


def write_sarif(problems: Sequence[Problem], version: str) -> dict[str, Any]:
    used = sorted({problem.code for problem in problems})
    return {
        "version": "2.1.0",
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "runs": [
            {
                "tool": {
                    "driver": {
                        "name": "rejoinder",
                        "version": version,
                        "rules": [_rule(code) for code in used],
                    }
                },
                "columnKind": "unicodeCodePoints",
                "results": [_result(problem) for problem in problems],
            }
        ],
    }


def _rule(code: str) -> dict[str, Any]:
    return {
        "id": code,
        "shortDescription": {"text": CODES[code]},
        "help": {"text": f"{CODES[code]} See `{code}` in rejoinder's docs/errors.md for an example and the fix."},
    }


def _result(problem: Problem) -> dict[str, Any]:
    message = problem.message if problem.suggestion is None else f"{problem.message}\nfix: {problem.suggestion}"
    identity = "\n".join((problem.file, problem.code, problem.path, problem.source or ""))
    return {
        "ruleId": problem.code,
        "level": problem.severity,
        "message": {"text": message},
        "locations": [
            {
                "physicalLocation": {
                    "artifactLocation": {"uri": problem.file.replace("\\", "/")},
                    "region": {
                        "startLine": problem.line,
                        "startColumn": problem.column,
                        "endLine": problem.line,
                    },
                }
            }
        ],
        "partialFingerprints": {"rejoinder/v1": hashlib.sha256(identity.encode()).hexdigest()[:32]},
    }
