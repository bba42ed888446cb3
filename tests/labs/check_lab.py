"""One check, or a few, put to scripted replies."""

from __future__ import annotations

from typing import Any

from tests.kit import Project, Raw, run


def verdicts(project: Project, *rows: tuple[Raw, Any]) -> list[Raw]:
    """What each check says of the scripted reply beside it."""
    target = {
        "name": "script",
        "provider": "scripted",
        "replies": {f"case-{number}": [reply] for number, (_, reply) in enumerate(rows)},
    }
    evals = [{"id": f"case-{number}", "prompt": "Q", "checks": [check]} for number, (check, _) in enumerate(rows)]
    document = run(project, {"target": "script", "targets": [target], "evals": evals})
    return [result["turns"][0]["checks"][0] for result in document["results"]]


def run_one(project: Project, checks: Any, *replies: Any, judge: list[Any] | None = None, **case: Any) -> Raw:
    """The result of one case with scripted replies and judges."""
    target: Raw = {"name": "script", "provider": "scripted", "replies": list(replies)}
    if judge is not None:
        target["judge"] = judge
    case = {"id": "case", "prompt": "Q", "checks": checks, **case}
    [result] = run(project, {"target": "script", "targets": [target], "evals": [case]})["results"]
    return result
